//! What a frame shows: the volume's description, the view, and how samples become colours.

use brickmesh_topology::{
    Digest, Manifest, RenderSettings, View, VolumeDescription, VoxelNumbers,
    data::{
        brick_grid::BrickGrid, brick_set::BrickSet, transfer_shapes::NodeGrid, triangles::Material,
        voxel_numbers::inverse_power_of_two,
    },
};
use glam::DVec3;
use std::sync::Arc;

/// What secondary rays may go through: bricks of a grid that something is to be seen of, and that somebody holds.
#[derive(Clone, Debug)]
pub struct Casters {
    /// The grid.
    pub grid: BrickGrid,
    /// Bricks; others let all light through.
    pub bricks: Arc<BrickSet>,
}

/// All that a device needs to know of a frame, beside the bricks.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Name of the data set: keys the resident bricks.
    pub data_set: Digest,
    /// The volume.
    pub volume: VolumeDescription,
    /// The numbers of its voxels: those of the bricks that are resident.
    pub numbers: VoxelNumbers,
    /// The rays.
    pub view: View,
    /// How its samples become colours.
    pub settings: RenderSettings,
    /// Premultiplied linear RGBA of its triangles, by material; none where they are not seen.
    pub materials: Vec<[f32; 4]>,
    /// What secondary rays may go through; `None`: none are sent.
    pub casters: Option<Casters>,
}

/// Least width of a transfer function's domain, as a part of its distance from 0.
const DOMAIN_PART_MIN: f64 = 1e-9;
/// The same in numbers of voxels.
const DOMAIN_NUMBERS_MIN: f64 = 1e-6;

impl Scene {
    /// What is to be seen of a data set of which all bricks are there.
    #[must_use]
    pub fn new(manifest: &Manifest, view: View, settings: RenderSettings) -> Self {
        let materials = manifest.materials().iter();
        let materials = materials.filter(|_| settings.shows_triangles());
        Self {
            data_set: manifest.digest(),
            volume: manifest.volume().clone(),
            numbers: manifest.numbers(),
            view,
            materials: materials.map(Material::premultiplied).collect(),
            casters: settings.has_secondary_rays().then(|| Casters {
                grid: *manifest.grid(),
                bricks: Arc::new(BrickSet::all(manifest.grid().brick_count())),
            }),
            settings,
        }
    }

    /// The same picture from a world that is scaled by a power of two, such that the smallest spacing
    /// is 1 to 2: squares and products of lengths are numbers that an f32 holds. No number of the
    /// picture is rounded otherwise.
    #[must_use]
    pub fn scaled(&self) -> Self {
        let scale = f64::from(inverse_power_of_two(self.volume.min_spacing()));
        let mut scene = self.clone();
        scene.volume.spacing = scene.volume.spacing.map(|s| s * scale);
        scene.volume.origin = scene.volume.origin.map(|o| o * scale);
        scene.view.eye *= DVec3::splat(scale);
        scene.view.parallel = scene.view.parallel.map(|far| far * scale);
        let settings = &mut scene.settings;
        settings.step *= scale;
        let unit_distance = &mut settings.transfer.unit_distance;
        *unit_distance = unit_distance.map(|d| d * scale);
        if let Some(occlusion) = &mut settings.ambient_occlusion {
            occlusion.reach *= scale;
        }
        for [_, _, _, distance] in &mut settings.clip.planes {
            *distance *= scale;
        }
        if let Some(slice) = &mut settings.slice {
            slice.plane[3] *= scale;
            slice.thickness *= scale;
        }
        scene
    }

    /// Numbers of voxels on each of its isosurfaces, rounded as those of floats are.
    #[expect(clippy::cast_possible_truncation, reason = "as voxels are")]
    pub fn surface_numbers(&self) -> impl Iterator<Item = f32> + '_ {
        let [scale, offset] = self.numbers.value_scale_and_offset(&self.volume);
        let surfaces = self.settings.surfaces().iter();
        surfaces.map(move |surface| ((surface.value - offset) / scale) as f32)
    }

    /// World units that the transfer function's opacity refers to.
    #[must_use]
    pub fn unit_distance(&self) -> f64 {
        let transfer = &self.settings.transfer;
        transfer
            .unit_distance
            .unwrap_or_else(|| self.volume.min_spacing())
    }

    /// Gradient length, in data units per world unit, below which a surface has no direction:
    /// normals shorter than this fade to 0 instead of being blown up out of rounding noise.
    /// 1/10000 of the transfer function's domain per smallest spacing.
    #[must_use]
    pub fn gradient_floor(&self) -> f64 {
        let [low, high] = self.domain();
        1e-4 * (high - low) / self.volume.min_spacing()
    }

    /// Unit vector in the world to a light that is not at the eye.
    #[must_use]
    pub fn light_direction(&self) -> Option<DVec3> {
        let [right, up, nearer] = self.settings.effective_light().direction?.map(f64::from);
        let view = &self.view;
        let toward_viewer = view.down.cross(view.right).normalize();
        let (to_right, to_below) = (view.right.normalize(), view.down.normalize());
        Some((to_right * right - to_below * up + toward_viewer * nearer).normalize())
    }

    /// What opacities are multiplied with, as (per floor, at none): a gradient of so many floors times the
    /// first, and the second, 0 to 1; nothing: they do not follow gradients.
    #[must_use]
    pub fn fade(&self) -> Option<[f64; 2]> {
        let [low, high] = self.settings.gradient_opacity?;
        let floor = self.gradient_floor() * self.volume.min_spacing();
        Some([floor / (high - low), -low / (high - low)])
    }

    /// First and last value of the nodes of the 2D transfer function; else of the other, at least as far apart
    /// as the numbers of voxels can tell. Data units.
    #[must_use]
    pub fn domain(&self) -> [f64; 2] {
        let points = &self.settings.transfer.points;
        let ends = [points.first(), points.last()].map(|p| p.map_or(0.0, |p| p.value));
        if let Some(nodes) = NodeGrid::of(self.settings.shapes()) {
            return nodes.values;
        }
        let [low, high] = ends;
        let [per_number, _] = self.numbers.value_scale_and_offset(&self.volume);
        let least = (low.abs() * DOMAIN_PART_MIN).max(per_number.abs() * DOMAIN_NUMBERS_MIN);
        [low, high.max(low + least)]
    }
}

//! Three slices across the axes of a volume, side by side, which cross in one voxel.
//!
//! Pure: what hands do to them in, cameras and settings of their pictures out.

use crate::{
    data::{manifest::Manifest, transfer_function::TransferFunction, volume::VolumeDescription},
    picture::{
        camera::Camera,
        render_settings::{Mode, RenderSettings, RenderSettingsError},
        slice::Slice,
    },
};
use glam::DVec3;
use serde::{Deserialize, Serialize};

/// How much larger or smaller than the whole volume slices can be seen.
const ZOOMS: std::ops::RangeInclusive<f64> = 0.1..=1e4;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceViews {
    /// Whether they are seen, beside the picture of the volume.
    pub are_shown: bool,
    /// The voxel in which they cross.
    pub cross: [u32; 3],
    /// Of the slab around each, world units; 0: samples on the plane alone.
    pub thickness: f64,
    /// The mean of a slab is seen, not its greatest value.
    pub is_mean: bool,
    /// Data value → colour.
    pub transfer: TransferFunction,
    /// What is in the middle of their pictures, in the world; each is looked at at right angles.
    pub middle: DVec3,
    /// 1: all of the volume fits.
    pub zoom: f64,
}

/// What is wrong with them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SliceViewsError {
    /// They cross beside the volume.
    #[error("the slices cross in voxel {found:?}; there are {dims:?}")]
    Cross {
        /// Found.
        found: [u32; 3],
        /// Of the volume.
        dims: [u32; 3],
    },
    /// The zoom.
    #[error("the slices' zoom is {found}; it must be {} to {}", ZOOMS.start(), ZOOMS.end())]
    Zoom {
        /// Found.
        found: f64,
    },
    /// The middle of their pictures.
    #[error("the slices' middle is {found}; it must be three finite numbers")]
    Middle {
        /// Found.
        found: DVec3,
    },
    /// What is seen of one.
    #[error("slices: {0}")]
    Settings(#[from] RenderSettingsError),
}

impl SliceViews {
    /// Through the middle of a volume, all of it seen, grey.
    #[must_use]
    pub fn new(manifest: &Manifest) -> Self {
        let volume = manifest.volume();
        Self {
            are_shown: false,
            cross: volume.dims.map(|n| n / 2),
            thickness: 0.0,
            is_mean: false,
            transfer: Mode::Slice.default_transfer(manifest).function,
            middle: volume.center_in_world(),
            zoom: 1.0,
        }
    }

    /// Checks what comes from a file; `of` is what is seen beside them.
    ///
    /// # Errors
    /// [`SliceViewsError`].
    pub fn validate(
        &self,
        of: &RenderSettings,
        volume: &VolumeDescription,
    ) -> Result<(), SliceViewsError> {
        let (found, dims) = (self.cross, volume.dims);
        if (0..3).any(|a| found[a] >= dims[a]) {
            return Err(SliceViewsError::Cross { found, dims });
        }
        if !ZOOMS.contains(&self.zoom) {
            return Err(SliceViewsError::Zoom { found: self.zoom });
        }
        if !self.middle.is_finite() {
            return Err(SliceViewsError::Middle { found: self.middle });
        }
        Ok(self.settings(0, of, volume).validate(volume)?)
    }

    /// The slice across an axis.
    #[must_use]
    pub fn slice(&self, axis: usize, volume: &VolumeDescription) -> Slice {
        Slice {
            thickness: self.thickness,
            ..Slice::on_axis(volume, axis, self.cross[axis].into())
        }
    }

    /// What is seen of it: nothing is clipped, and step and background are those of the volume's picture.
    #[must_use]
    pub fn settings(
        &self,
        axis: usize,
        of: &RenderSettings,
        volume: &VolumeDescription,
    ) -> RenderSettings {
        let slice = Some(self.slice(axis, volume));
        RenderSettings {
            mode: if self.is_mean {
                Mode::SliceMean
            } else {
                Mode::Slice
            },
            slice,
            background: of.background,
            ..RenderSettings::new(self.transfer.clone(), of.step)
        }
    }

    /// From where it is seen.
    #[must_use]
    pub fn camera(&self, axis: usize, volume: &VolumeDescription, size: (u32, u32)) -> Camera {
        let slice = self.slice(axis, volume);
        let whole = slice.camera(volume, size);
        let at = self.middle - slice.normal() * slice.distance(self.middle);
        Camera {
            eye: at + (whole.eye - whole.at) / self.zoom,
            at,
            ..whole
        }
    }

    /// They cross in the voxel next to a point of the world.
    #[must_use]
    pub fn crossing_at(&self, point: DVec3, volume: &VolumeDescription) -> Self {
        let grid = volume.grid_from_world().transform_point3(point);
        let mut moved = self.clone();
        for axis in 0..3 {
            moved.cross[axis] = voxel(grid[axis], volume.dims[axis]);
        }
        moved
    }

    /// One of them so many voxels further along its axis.
    #[must_use]
    pub fn moved(&self, axis: usize, by: f64, volume: &VolumeDescription) -> Self {
        let mut moved = self.clone();
        moved.cross[axis] = voxel(f64::from(self.cross[axis]) + by, volume.dims[axis]);
        moved
    }

    /// What is seen on one goes by this, in half heights of its picture, y up.
    #[must_use]
    pub fn panned(
        &self,
        axis: usize,
        by: [f64; 2],
        volume: &VolumeDescription,
        size: (u32, u32),
    ) -> Self {
        let camera = self.camera(axis, volume, size);
        self.seen_from(&camera, &camera.panned(by), self.zoom)
    }

    /// All so much larger; what is at a point of one, in half heights from its picture's middle, stays there.
    /// `size` is that of its picture.
    #[must_use]
    pub fn zoomed(
        &self,
        axis: usize,
        factor: f64,
        point: [f64; 2],
        volume: &VolumeDescription,
        size: (u32, u32),
    ) -> Self {
        let zoom = (self.zoom * factor).clamp(*ZOOMS.start(), *ZOOMS.end());
        let camera = self.camera(axis, volume, size);
        let nearer = camera.zoomed(zoom / self.zoom, point);
        // A camera that cannot come nearer stays.
        let zoom = if nearer == camera { self.zoom } else { zoom };
        self.seen_from(&camera, &nearer, zoom)
    }

    fn seen_from(&self, before: &Camera, now: &Camera, zoom: f64) -> Self {
        let mut moved = self.clone();
        moved.middle += now.at - before.at;
        moved.zoom = zoom;
        moved
    }
}

/// The voxel next to a place on an axis.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to voxels"
)]
fn voxel(at: f64, dim: u32) -> u32 {
    at.round().clamp(0.0, f64::from(dim - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VoxelBox, VoxelType, data::manifest::ManifestParts};

    fn manifest() -> Manifest {
        let mut volume = VolumeDescription::new([20, 30, 40], VoxelType::U8);
        volume.spacing = [1.0, 0.5, 2.0];
        let bytes =
            |stored: &VoxelBox| (0..stored.voxel_count()).map(|i| (i % 251) as u8).collect();
        Manifest::try_from(ManifestParts::cut(volume, 16, "test", bytes).unwrap()).unwrap()
    }

    #[test]
    fn a_point_of_one_slice_is_where_the_others_cross() {
        let manifest = manifest();
        let volume = manifest.volume();
        let views = SliceViews::new(&manifest).zoomed(1, 3.0, [0.2, -0.1], volume, (300, 200));
        let voxel = DVec3::new(7.0, 15.0, 31.0);
        let world = volume.world_from_grid().transform_point3(voxel);
        let view = views.camera(1, volume, (300, 200)).view(300, 200).unwrap();
        let pixel = view.pixel_of(world).unwrap();
        let seen = views
            .slice(1, volume)
            .point_at(pixel, &view, volume)
            .unwrap();
        let crossed = views.crossing_at(seen, volume);
        assert_eq!(crossed.cross, [7, 15, 31]);
        assert_eq!(crossed.moved(2, 100.0, volume).cross, [7, 15, 39]);
        let beside = crossed.crossing_at(world - DVec3::splat(1e6), volume);
        assert_eq!(beside.cross, [0; 3]);
    }

    #[test]
    fn what_is_zoomed_to_stays_and_what_is_dragged_goes_along() {
        let manifest = manifest();
        let volume = manifest.volume();
        let views = SliceViews::new(&manifest);
        let size = (400, 200);
        for axis in 0..3 {
            let at = |views: &SliceViews, world| {
                let camera = views.camera(axis, volume, size);
                camera.view(400, 200).unwrap().pixel_of(world).unwrap()
            };
            // Pixel (250, 60): half heights from the middle, y up.
            let point = [0.5, 0.4];
            let view = views.camera(axis, volume, size).view(400, 200).unwrap();
            let slice = views.slice(axis, volume);
            let world = slice.point_at([250.0, 60.0], &view, volume).unwrap();
            let near = |found: [f64; 2], pixel: [f64; 2]| {
                assert!(
                    (found[0] - pixel[0]).hypot(found[1] - pixel[1]) < 1e-6,
                    "{found:?}"
                );
            };
            let zoomed = views.zoomed(axis, 2.5, point, volume, size);
            near(at(&zoomed, world), [250.0, 60.0]);
            let panned = zoomed.panned(axis, [0.1, -0.2], volume, size);
            near(at(&panned, world), [260.0, 80.0]);
        }
        let far = views.zoomed(0, 1e9, [0.0; 2], volume, size);
        assert!((far.zoom - ZOOMS.end()).abs() < 1e-6);
        // What hands can come to can be saved and opened.
        let of = RenderSettings::new(TransferFunction::ramp(0.0, 1.0), 1.0);
        for factor in [1.37, 1.0 / 1.37] {
            let mut views = views.clone();
            for n in 0..200 {
                views = views.zoomed(n % 3, factor, [0.3, 0.7], volume, size);
                views = views.panned(n % 3, [0.01, -0.03], volume, size);
                assert_eq!(views.validate(&of, volume), Ok(()));
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        let manifest = manifest();
        let volume = manifest.volume();
        let of = RenderSettings::new(TransferFunction::ramp(0.0, 1.0), 1.0);
        let views = SliceViews::new(&manifest);
        assert_eq!(views.validate(&of, volume), Ok(()));
        type Change = fn(&mut SliceViews);
        let wrong: [(Change, &str); 4] = [
            (|v| v.cross[1] = 30, "voxel [10, 30, 20]"),
            (|v| v.zoom = 0.0, "zoom is 0"),
            (|v| v.middle.x = f64::NAN, "middle"),
            (|v| v.thickness = -1.0, "slab is -1"),
        ];
        for (change, said) in wrong {
            let mut views = views.clone();
            change(&mut views);
            let why = views.validate(&of, volume).unwrap_err().to_string();
            assert!(why.contains(said), "{why}");
        }
    }
}

//! The default camera: from where a volume is looked at, and so that its subject fills the picture.
//!
//! Space: world. Patients stand upright and are seen from the front, a little from their left,
//! whichever way the file's axes point. Elsewhere z is up, unless the subject is much heavier at one
//! end of another axis: that end is down then, as a pot is below its tree. What is flat is seen from
//! higher up.
//! One peer works it out, and the others get the view: it need not be the same to the last bit elsewhere.

use crate::{
    data::{
        manifest::Manifest,
        subject::Subject,
        volume::{PatientAxes, VolumeDescription},
    },
    picture::{
        camera::{Camera, DEFAULT_FOV_DEGREES, Projection},
        visible_cells::VisibleCells,
    },
};
use glam::DVec3;

/// Part of the picture's width or height that the subject shall fill, whichever is more.
const FILLED: f64 = 0.78;
/// Steps in which the camera is fitted.
const FIT_STEPS: usize = 60;
/// Shortest way from the eye to the subject's middle, as a part of that from its nearest point.
const NEAREST: f64 = 1.05;
/// A subject whose middle is so far from that of its bounds, as a part of half their size, is heavier
/// at one end.
const HEAVY: f64 = 0.5;
/// Degrees to the left of a patient's front.
const PATIENT_AZIMUTH: f64 = 30.0;
/// Degrees to the side of any other volume's front.
const AZIMUTH: f64 = 45.0;
/// Degrees above the horizon of what is as high as it is wide: of patients, and of others.
const PATIENT_ELEVATION: f64 = 18.0;
const ELEVATION: f64 = 32.0;
/// Bricks and parts of them that visible cells are looked for in, at most.
const PARTS_MAX: u64 = 1 << 12;
/// Degrees above the horizon of what is flat.
const FLAT_ELEVATION: f64 = 55.0;

/// The default camera for pictures of this width and height, and vertical field of view in degrees;
/// `None`: [`DEFAULT_FOV_DEGREES`].
#[must_use]
pub fn default_camera(manifest: &Manifest, size: (u32, u32), fov_degrees: Option<f64>) -> Camera {
    let points = manifest.subject();
    let points = points.points_in_world(manifest.volume()).collect();
    camera_around(points, manifest, size, fov_degrees)
}

/// The same for what is visible, whatever the volume's subject is; where nothing is, of the subject.
#[must_use]
pub fn camera_of_visible(
    visible: &VisibleCells,
    manifest: &Manifest,
    size: (u32, u32),
    fov_degrees: Option<f64>,
) -> Camera {
    let (volume, grid) = (manifest.volume(), manifest.grid());
    let [nx, ny, nz] = grid.counts().map(u64::from);
    let parts = 1
        << (0..3)
            .filter(|n| nx * ny * nz <= PARTS_MAX >> (3 * n + 3))
            .count();
    let world_from_grid = volume.world_from_grid();
    let mut points = Vec::new();
    for brick in grid.bricks().filter(|brick| visible.any(*brick)) {
        let parts = grid.owned_box(brick).parts(parts);
        let seen = parts.filter_map(|part| visible.bounds(grid, brick, &part));
        points.extend(seen.flat_map(|part| {
            let [lo, hi] = part.field_corners(volume.dims);
            (0..8).map(move |c| {
                let corner = DVec3::from_array([0, 1, 2].map(|a| [lo, hi][c >> a & 1][a]));
                world_from_grid.transform_point3(corner)
            })
        }));
    }
    if points.is_empty() {
        return default_camera(manifest, size, fov_degrees);
    }
    camera_around(points, manifest, size, fov_degrees)
}

/// The camera from which these points fill the picture.
fn camera_around(
    points: Vec<DVec3>,
    manifest: &Manifest,
    (width, height): (u32, u32),
    fov_degrees: Option<f64>,
) -> Camera {
    let (volume, subject) = (manifest.volume(), manifest.subject());
    let fov_degrees = fov_degrees.unwrap_or(DEFAULT_FOV_DEGREES);
    let (axes, azimuth, elevation) = match volume.patient {
        Some(patient) => {
            let [left, front] = patient.left_and_front();
            let axes = [left, -front, DVec3::Z];
            (axes, PATIENT_AZIMUTH, PATIENT_ELEVATION)
        }
        None => (upright(volume, &subject), AZIMUTH, ELEVATION),
    };
    let elevation = elevation + (FLAT_ELEVATION - elevation) * flatness(volume, axes);
    let (az, el) = (azimuth.to_radians(), elevation.to_radians());
    let aside = axes[0] * az.sin() - axes[1] * az.cos();
    let forward = -(aside * el.cos() + axes[2] * el.sin());
    let right = forward.cross(axes[2]).normalize();
    let aspect = f64::from(width.max(1)) / f64::from(height.max(1));
    let tangent = (fov_degrees.to_radians() * 0.5).tan();
    let frame = Frame {
        axes: [right, forward.cross(right), forward],
        tangents: [tangent * aspect, tangent],
    };
    let (eye, distance) = frame.fit(&points, volume.min_spacing());
    Camera {
        eye,
        at: eye + forward * distance,
        up: axes[2],
        fov_degrees,
        projection: Projection::Perspective,
    }
}

/// Where to look from along an axis, and what is up then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisView {
    /// From where, for people.
    pub name: &'static str,
    /// From what is looked at to the eye.
    pub from: DVec3,
    /// Upwards in the picture.
    pub up: DVec3,
}

/// The views along the axes of a volume: of a patient from in front, behind, left, right, above and below,
/// the head up or the front down; of any other from −y, +y, −x, +x, +z and −z.
#[must_use]
pub fn axis_views(volume: &VolumeDescription) -> [AxisView; 6] {
    let view = |name, from, up| AxisView { name, from, up };
    let z = DVec3::Z;
    match volume.patient.map(PatientAxes::left_and_front) {
        Some([left, front]) => [
            view("in front", front, z),
            view("behind", -front, z),
            view("the patient's left", left, z),
            view("the patient's right", -left, z),
            view("above", z, front),
            view("below", -z, front),
        ],
        None => [
            view("-y", DVec3::NEG_Y, z),
            view("+y", DVec3::Y, z),
            view("-x", DVec3::NEG_X, z),
            view("+x", DVec3::X, z),
            view("+z", z, DVec3::Y),
            view("-z", -z, DVec3::Y),
        ],
    }
}

/// How much less high than wide a volume is, 0 to 1.
fn flatness(volume: &VolumeDescription, axes: [DVec3; 3]) -> f64 {
    let linear = volume.world_from_grid().matrix3;
    let voxels = volume.extent() / DVec3::from_array(volume.spacing);
    let along = |axis: DVec3| -> f64 {
        let part = |a: usize| (linear.col(a) * voxels[a]).dot(axis).abs();
        (0..3).map(part).sum()
    };
    let width = along(axes[0]).max(along(axes[1]));
    1.0 - (along(axes[2]) / width).min(1.0)
}

/// What is to the right, away and up for who stands in front of a volume that no file says it of.
fn upright(volume: &VolumeDescription, subject: &Subject) -> [DVec3; 3] {
    let points: Vec<DVec3> = subject.points_in_world(volume).collect();
    let low = points.iter().copied().reduce(DVec3::min);
    let high = points.iter().copied().reduce(DVec3::max);
    let (low, high) = (low.unwrap_or_default(), high.unwrap_or_default());
    let middle = DVec3::from_array(subject.middle);
    let middle = volume.world_from_grid().transform_point3(middle);
    let half = ((high - low) * 0.5).max(DVec3::splat(f64::MIN_POSITIVE));
    let weight = (middle - (low + high) * 0.5) / half;
    let axis = if weight.y.abs() >= weight.x.abs() {
        1
    } else {
        0
    };
    let mut axes = [DVec3::X, DVec3::Y, DVec3::Z];
    if weight[axis].abs() > HEAVY && weight[axis].abs() > weight.z.abs() {
        axes.rotate_left(axis + 1);
        if weight[axis] > 0.0 {
            axes = [axes[1], axes[0], -axes[2]];
        }
    }
    axes
}

/// A picture that looks along the last of three axes; the others are to the right and down.
struct Frame {
    axes: [DVec3; 3],
    /// Of half the angles that it shows to the right and down.
    tangents: [f64; 2],
}

impl Frame {
    /// The eye from which points fill the picture, and how far the middle of them is from it; no
    /// points are nearer to each other than `least`.
    fn fit(&self, points: &[DVec3], least: f64) -> (DVec3, f64) {
        // From the first point, as the origin may be far away.
        let first = points.first().copied().unwrap_or_default();
        let seen = |p: &DVec3| DVec3::from_array(self.axes.map(|axis| (*p - first).dot(axis)));
        let points: Vec<DVec3> = points.iter().map(seen).collect();
        let low = points
            .iter()
            .copied()
            .reduce(DVec3::min)
            .unwrap_or_default();
        let high = points
            .iter()
            .copied()
            .reduce(DVec3::max)
            .unwrap_or_default();
        let size = (high - low).length().max(least);
        let mut middle = (low + high) * 0.5;
        let nearest = ((high.z - low.z) * 0.5 * NEAREST).max(least * 0.1);
        let mut distance = 2.0 * size / self.tangents[0].min(self.tangents[1]) + nearest;
        for _ in 0..FIT_STEPS {
            let (mut from, mut to) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
            for p in &points {
                let depth = distance + p.z - middle.z;
                for a in 0..2 {
                    let at = (p[a] - middle[a]) / (depth * self.tangents[a]);
                    from[a] = from[a].min(at);
                    to[a] = to[a].max(at);
                }
            }
            for a in 0..2 {
                middle[a] += 0.5 * (from[a] + to[a]) * distance * self.tangents[a];
            }
            let filled = 0.5 * (to[0] - from[0]).max(to[1] - from[1]);
            distance = (distance * (filled / FILLED).clamp(0.2, 5.0)).max(nearest);
        }
        let to_world =
            |p: DVec3| first + self.axes[0] * p.x + self.axes[1] * p.y + self.axes[2] * p.z;
        (to_world(middle - DVec3::Z * distance), distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::{
            brick_table::BrickRecord,
            cell_ranges::NONE,
            manifest::ManifestParts,
            transfer_function::TransferFunction,
            volume::{PatientAxes, VoxelType},
            voxel_box::VoxelBox,
        },
        picture::{
            isosurface::Isosurface,
            render_settings::{Mode, RenderSettings},
        },
    };

    /// A manifest of a volume whose subject is boxes of it, in voxels.
    fn manifest(volume: &VolumeDescription, boxes: &[[[f64; 3]; 2]]) -> Manifest {
        let record = BrickRecord {
            digest: crate::Digest::of(b""),
            range: None,
            cells: None,
            triangles: None,
        };
        let mut parts = ManifestParts::new(volume.clone(), 512, "test", vec![record]);
        let corner = |of: &[[f64; 3]; 2], c: usize| std::array::from_fn(|a| of[c >> a & 1][a]);
        let points = boxes.iter().flat_map(|b| (0..8).map(|c| corner(b, c)));
        let volume_of = |[lo, hi]: &[[f64; 3]; 2]| (0..3).map(|a| hi[a] - lo[a]).product::<f64>();
        let all: f64 = boxes.iter().map(volume_of).sum();
        let middle = std::array::from_fn(|a| {
            let moments = boxes
                .iter()
                .map(|b| volume_of(b) * 0.5 * (b[0][a] + b[1][a]));
            moments.sum::<f64>() / all
        });
        parts.subject = Some(Subject {
            points: points.collect(),
            middle,
        });
        Manifest::try_from(parts).unwrap()
    }

    /// The part of a picture's width and height that the subject takes, and how far off the middle.
    fn filled(manifest: &Manifest, size: (u32, u32)) -> (f64, f64) {
        let view = default_camera(manifest, size, None)
            .view(size.0, size.1)
            .unwrap();
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for p in manifest.subject().points_in_world(manifest.volume()) {
            let [x, y] = view.pixel_of(p).unwrap();
            let at = [x / f64::from(size.0), y / f64::from(size.1)];
            for a in 0..2 {
                low[a] = low[a].min(at[a]);
                high[a] = high[a].max(at[a]);
            }
        }
        let off = [0, 1].map(|a| (0.5 * (low[a] + high[a]) - 0.5).abs());
        ((high[0] - low[0]).max(high[1] - low[1]), off[0].max(off[1]))
    }

    #[test]
    fn what_is_visible_fills_the_picture_whatever_the_subject() {
        let volume = VolumeDescription::new([64; 3], VoxelType::U8);
        let seen = VoxelBox::new([8; 3], [24; 3]);
        let voxel = |at: [u32; 3]| if seen.contains(at) { 9 } else { 1 };
        for edge in [64, 16] {
            let bytes = |stored: &VoxelBox| {
                let [x, y, z] = [0, 1, 2].map(|a| stored.lo[a]..stored.hi[a]);
                let rows = z.flat_map(|z| y.clone().map(move |y| [y, z]));
                rows.flat_map(|[y, z]| x.clone().map(move |x| voxel([x, y, z])))
                    .collect()
            };
            let parts = ManifestParts::cut(volume.clone(), edge, "test", bytes).unwrap();
            let manifest = Manifest::try_from(parts).unwrap();
            let settings = RenderSettings {
                mode: Mode::Iso,
                isosurfaces: vec![Isosurface::new(5.0)],
                ..RenderSettings::new(TransferFunction::ramp(0.0, 9.0), 1.0)
            };
            let visible = VisibleCells::of(&manifest, &settings);
            let camera = camera_of_visible(&visible, &manifest, (100, 100), None);
            let view = camera.view(100, 100).unwrap();
            let ends = [[7.0; 3], [24.0; 3]].map(|p| view.pixel_of(DVec3::from_array(p)).unwrap());
            let middle = view.pixel_of(DVec3::splat(15.5)).unwrap();
            assert!(middle.iter().all(|m| (m - 50.0).abs() < 12.0), "{middle:?}");
            assert!((ends[0][1] - ends[1][1]).abs() > 25.0, "{ends:?}");
            let none = VisibleCells::from_masks(vec![NONE; manifest.grid().brick_count() as usize]);
            let camera = camera_of_visible(&none, &manifest, (100, 100), None);
            assert_eq!(camera, default_camera(&manifest, (100, 100), None));
        }
    }

    fn cube(edge: f64, at: f64) -> [[f64; 3]; 2] {
        [[at; 3], [at + edge; 3]]
    }

    #[test]
    fn a_subject_anywhere_fills_the_picture_whatever_its_shape_and_the_size_of_the_world() {
        for spacing in [1e-20, 1.0, 1e20] {
            let mut volume = VolumeDescription::new([100; 3], VoxelType::U8);
            volume.spacing = [spacing, 1.5 * spacing, spacing];
            volume.origin = [1e5 * spacing, 0.0, -7.0 * spacing];
            for size in [(512, 512), (1600, 400), (300, 900), (1, 1), (16_384, 2)] {
                for object in [
                    cube(10.0, 5.0),
                    cube(99.0, 0.0),
                    cube(1.0, 98.0),
                    [[10.0, 10.0, 10.0], [90.0, 14.0, 14.0]],
                ] {
                    let (part, off) = filled(&manifest(&volume, &[object]), size);
                    assert!((0.75..=0.81).contains(&part), "{size:?} {object:?}: {part}");
                    assert!(off < 0.01, "{size:?} {object:?}: {off}");
                }
            }
        }
    }

    #[test]
    fn patients_are_upright_and_seen_from_the_front_left_whichever_way_axes_point() {
        let mut cameras = Vec::new();
        for (axes, turn) in [
            (PatientAxes::Lps, [1.0, 1.0]),
            (PatientAxes::Ras, [-1.0, -1.0]),
        ] {
            let volume = VolumeDescription {
                patient: Some(axes),
                direction: [[turn[0], 0.0, 0.0], [0.0, turn[1], 0.0], [0.0, 0.0, 1.0]],
                ..VolumeDescription::new([80, 100, 90], VoxelType::U8)
            };
            let of = manifest(&volume, &[[[3.0; 3], [70.0, 90.0, 80.0]]]);
            let camera = default_camera(&of, (512, 512), None);
            let [left, front] = axes.left_and_front();
            let from = (camera.eye - camera.at).normalize();
            assert!(
                from.dot(front) > 0.7 && from.dot(left) > 0.3 && from.z > 0.1,
                "{from}"
            );
            assert_eq!(camera.up, DVec3::Z);
            // In the patient's own axes all are the same.
            cameras.push(DVec3::new(
                camera.eye.dot(left),
                camera.eye.dot(front),
                camera.eye.z,
            ));
        }
        assert!(
            cameras.iter().all(|c| c.abs_diff_eq(cameras[0], 1e-9)),
            "{cameras:?}"
        );
    }

    #[test]
    fn the_heavy_end_of_another_axis_than_z_is_down() {
        let volume = VolumeDescription::new([100; 3], VoxelType::U8);
        let pot = |axis: usize, is_high: bool| {
            let turned = |from: f64, to: f64, wide: [f64; 2]| {
                let mut of = [[wide[0]; 3], [wide[1]; 3]];
                let ends = if is_high {
                    [99.0 - to, 99.0 - from]
                } else {
                    [from, to]
                };
                (of[0][axis], of[1][axis]) = (ends[0], ends[1]);
                of
            };
            let boxes = [
                turned(5.0, 25.0, [20.0, 80.0]),
                turned(25.0, 90.0, [48.0, 52.0]),
            ];
            default_camera(&manifest(&volume, &boxes), (512, 512), None)
        };
        for axis in [0, 1] {
            for is_high in [false, true] {
                let camera = pot(axis, is_high);
                let mut up = DVec3::ZERO;
                up[axis] = if is_high { -1.0 } else { 1.0 };
                assert_eq!(camera.up, up);
                assert!((camera.eye - camera.at).dot(up) > 0.0, "from above");
            }
        }
        // Along z it may stand on its head: what is up is said by convention.
        assert_eq!(pot(2, true).up, DVec3::Z);
    }

    #[test]
    fn what_is_flat_is_seen_from_higher_up_and_without_a_subject_all_is_in_view() {
        let elevation = |dims: [u32; 3]| {
            let volume = VolumeDescription::new(dims, VoxelType::U8);
            let mut parts = ManifestParts::from(manifest(&volume, &[cube(0.5, 0.0)]));
            parts.subject = None;
            let of = Manifest::try_from(parts).unwrap();
            assert!((0.75..=0.81).contains(&filled(&of, (99, 99)).0));
            let camera = default_camera(&of, (99, 99), Some(20.0));
            assert!((camera.fov_degrees - 20.0).abs() < 1e-12);
            (camera.eye - camera.at).normalize().z.asin().to_degrees()
        };
        assert!(elevation([100, 100, 5]) > 50.0 && elevation([50, 50, 100]) < 35.0);
        assert!(elevation([100, 100, 1]) > 50.0 && elevation([1, 1, 1]) < 35.0);
    }
}

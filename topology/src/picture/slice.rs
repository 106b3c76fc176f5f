//! Slices: what is seen of the samples on a plane, or in a slab around it.
//!
//! Space: planes in the world. A ray has a sample where it meets the plane, and more on both sides of it,
//! a step apart, as far as the slab reaches: none is moved by jitter.

use crate::{
    data::volume::{PatientAxes, VolumeDescription},
    picture::{
        camera::{Camera, DEFAULT_FOV_DEGREES, Projection, Rays, View},
        clip::is_plane,
    },
};
use glam::DVec3;
use serde::{Deserialize, Serialize};

/// Thickest slab, world units.
const THICKNESS_MAX: f64 = 1e100;
/// Sines of angles that are none but for rounding.
const SINE_ROUNDING: f64 = 1e-9;
/// What rounding may move a sample by, in shortest spacings.
const ROUNDING: f64 = 1e-3;
/// Part of the height of a picture that the volume takes, where it is seen from in front of a slice.
const FILLED: f64 = 0.96;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// Points p of the world with `n · p = d`: `[nx, ny, nz, d]`.
    pub plane: [f64; 4],
    /// Of the slab around it, world units; 0: samples on the plane alone.
    #[serde(default)]
    pub thickness: f64,
}

/// What is wrong with a slice.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// A mode that shows slices, and none to show.
    #[error("there is no plane; modes slice and slice-mean need one")]
    Missing,
    /// A plane without a direction.
    #[error("the plane is {found:?}; it must be four finite numbers, a normal and a distance")]
    Plane {
        /// Found.
        found: [f64; 4],
    },
    /// A slab of no size.
    #[error("the slab is {found} thick; it must be 0 to {THICKNESS_MAX}")]
    Thickness {
        /// World units found.
        found: f64,
    },
}

impl Slice {
    /// The slice at a place on an axis of a volume's grid, in voxels.
    #[must_use]
    pub fn on_axis(volume: &VolumeDescription, axis: usize, at: f64) -> Self {
        let grid_from_world = volume.grid_from_world();
        let normal = grid_from_world.matrix3.row(axis);
        let d = at - grid_from_world.translation[axis];
        // As long as what it is given in: differences of `n · p` are world units.
        let length = normal.length();
        Self {
            plane: [
                normal.x / length,
                normal.y / length,
                normal.z / length,
                d / length,
            ],
            thickness: 0.0,
        }
    }

    /// The slice through a point of the world.
    #[must_use]
    pub fn through(point: DVec3, normal: DVec3) -> Self {
        Self {
            plane: [normal.x, normal.y, normal.z, normal.dot(point)],
            thickness: 0.0,
        }
    }

    /// Checks what comes from a file, a command line or a peer.
    ///
    /// # Errors
    /// [`SliceError`].
    pub fn validate(&self) -> Result<(), SliceError> {
        if !is_plane(&self.plane) {
            return Err(SliceError::Plane { found: self.plane });
        }
        if !(0.0..=THICKNESS_MAX).contains(&self.thickness) {
            return Err(SliceError::Thickness {
                found: self.thickness,
            });
        }
        Ok(())
    }

    /// Unit normal in the world.
    #[must_use]
    pub fn normal(&self) -> DVec3 {
        let [x, y, z, _] = self.plane;
        DVec3::new(x, y, z).normalize()
    }

    /// How far a point of the world is in front of the plane.
    #[must_use]
    pub fn distance(&self, point: DVec3) -> f64 {
        let [x, y, z, d] = self.plane;
        self.normal().dot(point) - d / DVec3::new(x, y, z).length()
    }

    /// The point of the world on the plane that a view's ray through pixel coordinates meets; `None` where it
    /// meets none from its beginning on.
    #[must_use]
    pub fn point_at(
        &self,
        [x, y]: [f64; 2],
        view: &View,
        volume: &VolumeDescription,
    ) -> Option<DVec3> {
        let u = 2.0 * x / f64::from(view.width) - 1.0;
        let v = 2.0 * y / f64::from(view.height) - 1.0;
        let Rays { start, along } = view.rays(volume);
        let at = |[middle, right, down]: [DVec3; 3]| middle + right * u + down * v;
        let (start, along) = (at(start), at(along).normalize());
        let way = -self.distance(start) / self.normal().dot(along);
        (way.is_finite() && way >= 0.0).then(|| start + along * way)
    }

    /// The plane in the grid of a volume: `n · p + c` is how far a point is in front of it, in world units;
    /// `[nx, ny, nz, c]`.
    #[must_use]
    pub fn in_grid(&self, volume: &VolumeDescription) -> [f64; 4] {
        let world_from_grid = volume.world_from_grid();
        let normal = world_from_grid.matrix3.transpose() * self.normal();
        let c = self.distance(world_from_grid.translation);
        // What is at right angles to an axis but for rounding, is.
        let part = |axis: usize| {
            let least = SINE_ROUNDING * world_from_grid.matrix3.col(axis).length();
            if normal[axis].abs() > least {
                normal[axis]
            } else {
                0.0
            }
        };
        [part(0), part(1), part(2), c]
    }

    /// Where the plane lies on an axis of the grid, in voxels, if it is across one.
    #[must_use]
    pub fn axis(&self, volume: &VolumeDescription) -> Option<(usize, f64)> {
        let [x, y, z, c] = self.in_grid(volume);
        let normal = [x, y, z];
        let axis = (0..3).find(|&a| normal[a].abs() > 0.0)?;
        let is_alone = (0..3).all(|a| a == axis || normal[a].abs() <= 0.0);
        // A voxel's centre is met exactly, also where the origin is far away.
        let at = -c / normal[axis];
        let near = at.round();
        let origin = self.normal().dot(volume.world_from_grid().translation);
        let lost = 8.0 * f64::EPSILON * (origin.abs() + (origin - c).abs()) / normal[axis].abs();
        let at = if (at - near).abs() < (1e-9 * (1.0 + near.abs())).max(lost) {
            near
        } else {
            at
        };
        is_alone.then_some((axis, at))
    }

    /// The same so many voxels further on its axis, inside of the volume; a free one moves by shortest spacings
    /// along its normal.
    #[must_use]
    pub fn moved(&self, volume: &VolumeDescription, by: f64) -> Self {
        let thickness = self.thickness;
        let moved = if let Some((axis, at)) = self.axis(volume) {
            let last = f64::from(volume.dims[axis] - 1);
            Self::on_axis(volume, axis, (at + by).clamp(0.0, last))
        } else {
            let normal = self.normal();
            let off = by * volume.min_spacing() - self.distance(DVec3::ZERO);
            Self::through(normal * off, normal)
        };
        Self { thickness, ..moved }
    }

    /// The planes between which all samples are that are a step apart, as [`Clip::planes`](super::clip::Clip::planes).
    #[must_use]
    pub fn bounds(&self, volume: &VolumeDescription, step: f64) -> [[f64; 4]; 2] {
        let n = self.normal();
        let beyond = (ROUNDING * volume.min_spacing()).max(2.0 * BEYOND * step);
        let half = 0.5 * self.thickness + beyond;
        let middle = -self.distance(DVec3::ZERO);
        [
            [n.x, n.y, n.z, middle - half],
            [-n.x, -n.y, -n.z, -middle - half],
        ]
    }

    /// Looks at right angles to the plane at the middle of a volume, in parallel projection; all of the
    /// volume fits a picture of this width and height. A patient is seen as radiologists do, from the feet, the
    /// front or the left; any other volume from −z, y down, or from −y or +x, z up.
    #[must_use]
    pub fn camera(&self, volume: &VolumeDescription, (width, height): (u32, u32)) -> Camera {
        let n = self.normal();
        let patient = volume.patient.map(PatientAxes::left_and_front);
        let [left, front] = patient.unwrap_or([DVec3::X, DVec3::NEG_Y]);
        let [x, y, z] = [left, front, DVec3::NEG_Z].map(|from| n.dot(from));
        let (side, up) = if z.abs() >= x.abs().max(y.abs()) {
            (z, front)
        } else {
            (if y.abs() >= x.abs() { y } else { x }, DVec3::Z)
        };
        let from = n * side.signum();
        let at = volume.center_in_world() - n * self.distance(volume.center_in_world());
        let right = (-from).cross(up).normalize();
        let down = (-from).cross(right);
        // Half of what the volume's corners span.
        let linear = volume.world_from_grid().matrix3;
        let voxels = DVec3::from_array(volume.dims.map(f64::from));
        let half = |axis: DVec3| -> f64 {
            let along = |a: usize| (linear.col(a) * voxels[a]).dot(axis).abs();
            0.5 * (0..3).map(along).sum::<f64>()
        };
        let aspect = f64::from(width.max(1)) / f64::from(height.max(1));
        let half_height = half(down).max(half(right) / aspect) / FILLED;
        let distance = half_height / (DEFAULT_FOV_DEGREES.to_radians() * 0.5).tan();
        Camera {
            eye: at + from * distance,
            at,
            up,
            fov_degrees: DEFAULT_FOV_DEGREES,
            projection: Projection::Parallel,
        }
    }
}

/// Samples on one side of a plane, at most.
const SAMPLES_MAX: f64 = 4e6;
/// A ray that comes no nearer to a plane than this part of its way meets it nowhere.
pub const SINE_MIN: f64 = 1e-6;
/// A sample that is so much beyond a slab, in steps, is in it.
pub const BEYOND: f64 = 1e-4;

/// A slice in the grid of one volume, for kernels.
#[derive(Clone, Copy, Debug)]
pub struct GridSlice {
    /// As [`Slice::in_grid`].
    pub plane: [f64; 4],
    /// Half of the slab's thickness, world units.
    pub half: f64,
    /// As [`Slice::axis`].
    pub axis: Option<(usize, f64)>,
}

impl GridSlice {
    /// A slice of a volume.
    #[must_use]
    pub fn new(slice: &Slice, volume: &VolumeDescription) -> Self {
        Self {
            plane: slice.in_grid(volume),
            half: 0.5 * slice.thickness,
            axis: slice.axis(volume),
        }
    }

    /// Where the first sample of a ray is, in the grid, and how many there are. `direction` is for a world
    /// unit, as is `step`.
    #[must_use]
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounded before"
    )]
    pub fn samples(&self, eye: DVec3, direction: DVec3, step: f64) -> (DVec3, u32) {
        let [x, y, z, c] = self.plane;
        let normal = DVec3::new(x, y, z);
        let along = normal.dot(direction);
        let off = normal.dot(eye) + c;
        let most = along.abs() * step * SAMPLES_MAX;
        if along.abs() <= SINE_MIN || self.half > most {
            // Along the slab: all of the ray is in it, or nothing.
            let is_inside = self.half > 0.0 && off.abs() <= self.half;
            return (eye, u32::from(is_inside) * SAMPLES_MAX as u32);
        }
        let way = -off / along;
        // From where the ray meets the plane: the last in the slab, and the first that is not behind the eye.
        let last = (self.half / (along.abs() * step) + BEYOND).floor();
        let first = (-way / step).ceil().max(-last);
        let mut middle = eye + direction * way;
        if let Some((axis, at)) = self.axis {
            middle[axis] = at;
        }
        let count = (last - first + 1.0).max(0.0);
        (middle + direction * (first * step), count as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::volume::VoxelType;

    fn volume() -> VolumeDescription {
        VolumeDescription {
            spacing: [0.5, 1.0, 2.0],
            origin: [10.0, -4.0, 3.0],
            ..VolumeDescription::new([20, 30, 10], VoxelType::U8)
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut slice = Slice::on_axis(&volume(), 2, 4.0);
        assert_eq!(slice.validate(), Ok(()));
        slice.thickness = -1.0;
        assert!(slice.validate().unwrap_err().to_string().contains("-1"));
        slice.plane = [0.0, 0.0, 0.0, 1.0];
        let told = slice.validate().unwrap_err().to_string();
        assert!(told.contains("[0.0, 0.0, 0.0, 1.0]"), "{told}");
    }

    #[test]
    fn a_slice_on_an_axis_is_found_there_again() {
        let volume = volume();
        for axis in 0..3 {
            for at in [0.0, 3.0, 4.25, 9.0] {
                let slice = Slice::on_axis(&volume, axis, at);
                let (found, place) = slice.axis(&volume).unwrap();
                assert_eq!(found, axis);
                assert!((place - at).abs() < 1e-12, "{place} {at}");
                let mut point = DVec3::new(1.0, 2.0, 3.0);
                point[axis] = at;
                let world = volume.world_from_grid().transform_point3(point);
                assert!(slice.distance(world).abs() < 1e-9);
                let [x, y, z, c] = slice.in_grid(&volume);
                point[axis] += 1.0;
                let far = DVec3::new(x, y, z).dot(point) + c;
                assert!((far - volume.spacing[axis]).abs() < 1e-9, "{far}");
            }
        }
        let thick = |slice| Slice {
            thickness: 2.0,
            ..slice
        };
        let place = |by| thick(Slice::on_axis(&volume, 1, 3.0)).moved(&volume, by);
        assert_eq!(place(2.0).axis(&volume), Some((1, 5.0)));
        assert_eq!(place(-9.0).axis(&volume), Some((1, 0.0)));
        assert!((place(2.0).thickness - 2.0).abs() < 1e-12);
        let free = Slice::through(DVec3::ONE, DVec3::ONE);
        assert_eq!(free.axis(&volume), None);
        let far = free.moved(&volume, 3.0).distance(DVec3::ONE);
        assert!((far + 3.0 * volume.min_spacing()).abs() < 1e-9, "{far}");
    }

    #[test]
    fn a_point_of_a_slice_is_found_by_its_pixel() {
        let volume = volume();
        for projection in [Projection::Perspective, Projection::Parallel] {
            let camera = Camera {
                projection,
                ..Camera::orbit(&volume, 35.0, 20.0, 1.5)
            };
            let view = camera.view(300, 200).unwrap();
            for point in [DVec3::ZERO, DVec3::new(4.0, 3.0, 7.0)] {
                let slice = Slice::through(camera.at + point, DVec3::new(0.2, 0.3, 1.0));
                let pixel = view.pixel_of(camera.at + point).unwrap();
                let found = slice.point_at(pixel, &view, &volume).unwrap();
                assert!((found - camera.at - point).length() < 1e-5, "{found}");
            }
            let behind = Slice::through(camera.eye * 2.0 - camera.at, camera.eye - camera.at);
            let found = behind.point_at([150.0, 100.0], &view, &volume);
            assert!(found.is_none() || projection == Projection::Parallel);
        }
    }

    #[test]
    fn a_slab_is_seen_from_its_side_too() {
        let slab = Slice {
            thickness: 2.0,
            ..Slice::on_axis(&volume(), 2, 4.0)
        };
        let slab = GridSlice::new(&slab, &volume());
        // Half a voxel above the middle is a world unit.
        for (z, is_inside) in [(4.0, true), (4.4, true), (4.6, false)] {
            let eye = DVec3::new(-3.0, 2.0, z);
            for along in [DVec3::X, DVec3::new(1.0, 0.0, 1e-12)] {
                let (start, count) = slab.samples(eye, along, 0.5);
                assert_eq!((start, count > 1000), (eye, is_inside));
            }
        }
        let thin = GridSlice { half: 0.0, ..slab };
        let (_, count) = thin.samples(DVec3::new(-3.0, 2.0, 4.0), DVec3::X, 0.5);
        assert_eq!(count, 0);
    }

    #[test]
    fn a_voxel_is_met_exactly_wherever_the_origin_is() {
        let volume = VolumeDescription {
            spacing: [1e-3, 1.0, 30.0],
            origin: [5e6, 4e8, -7e5],
            direction: [[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]],
            ..volume()
        };
        for axis in 0..3 {
            for at in [0.0, 9.0] {
                let slice = Slice::on_axis(&volume, axis, at);
                assert_eq!(slice.axis(&volume), Some((axis, at)));
            }
        }
    }

    #[test]
    fn the_camera_of_a_slice_shows_all_of_the_volume() {
        let volume = volume();
        let normals = [DVec3::X, DVec3::NEG_Y, DVec3::Z, DVec3::new(1.0, 2.0, -3.0)];
        for normal in normals {
            let slice = Slice::through(volume.center_in_world(), normal);
            let view = slice.camera(&volume, (300, 200)).view(300, 200).unwrap();
            for corner in 0..8_u32 {
                let at = |a: usize| -0.5 + f64::from(volume.dims[a] * (corner >> a & 1));
                let world = volume.world_from_grid();
                let point = world.transform_point3(DVec3::new(at(0), at(1), at(2)));
                let [x, y] = view.pixel_of(point).unwrap();
                assert!((0.0..=300.0).contains(&x) && (0.0..=200.0).contains(&y));
            }
            let across = view.right.cross(view.down).normalize();
            assert!(across.cross(slice.normal()).length() < 1e-9);
        }
        // The first voxels of a slice across z are up left; a patient's front is up, the left on the right.
        let view = Slice::on_axis(&volume, 2, 0.0).camera(&volume, (300, 300));
        let view = view.view(300, 300).unwrap();
        let [x, y] = view.pixel_of(volume.world_from_grid().translation).unwrap();
        assert!(x < 150.0 && y < 150.0, "{x} {y}");
    }
}

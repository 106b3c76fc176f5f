//! Slices: what is seen of the samples on a plane, or in a slab around it.
//!
//! Space: planes in the world. A ray has a sample where it meets the plane, and more on both sides of it,
//! a step apart, as far as the slab reaches: none is moved by jitter.

use crate::{
    data::volume::{PatientAxes, VolumeDescription},
    picture::{
        camera::{Camera, DEFAULT_FOV_DEGREES, Projection},
        clip::is_plane,
    },
};
use glam::DVec3;
use serde::{Deserialize, Serialize};

/// Thickest slab, world units.
const THICKNESS_MAX: f64 = 1e100;
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

    /// The plane in the grid of a volume: `n · p + c` is how far a point is in front of it, in world units;
    /// `[nx, ny, nz, c]`.
    #[must_use]
    pub fn in_grid(&self, volume: &VolumeDescription) -> [f64; 4] {
        let world_from_grid = volume.world_from_grid();
        let normal = world_from_grid.matrix3.transpose() * self.normal();
        let c = self.distance(world_from_grid.translation);
        // What is along an axis but for rounding, is along it.
        let largest = normal.abs().max_element();
        let [x, y, z] = normal
            .to_array()
            .map(|n| if n.abs() > largest * 1e-12 { n } else { 0.0 });
        [x, y, z, c]
    }

    /// Where the plane lies on an axis of the grid, in voxels, if it is across one.
    #[must_use]
    pub fn axis(&self, volume: &VolumeDescription) -> Option<(usize, f64)> {
        let [x, y, z, c] = self.in_grid(volume);
        let normal = [x, y, z];
        let axis = (0..3).find(|&a| normal[a].abs() > 0.0)?;
        let is_alone = (0..3).all(|a| a == axis || normal[a].abs() <= 0.0);
        // A voxel's centre is met exactly.
        let at = -c / normal[axis];
        let near = at.round();
        let at = if (at - near).abs() < 1e-9 * (1.0 + near.abs()) {
            near
        } else {
            at
        };
        is_alone.then_some((axis, at))
    }

    /// The planes between which all samples are, as [`Clip::planes`](super::clip::Clip::planes).
    #[must_use]
    pub fn bounds(&self, volume: &VolumeDescription) -> [[f64; 4]; 2] {
        let n = self.normal();
        let half = 0.5 * self.thickness + ROUNDING * volume.min_spacing();
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
        let way = -(normal.dot(eye) + c) / along;
        if along.abs() <= SINE_MIN {
            return (eye, 0);
        }
        // From where the ray meets the plane: the last in the slab, and the first that is not behind the eye.
        let last = (self.half / (along.abs() * step) + BEYOND).floor();
        let last = last.min(SAMPLES_MAX);
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
        assert_eq!(Slice::through(DVec3::ONE, DVec3::ONE).axis(&volume), None);
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

//! What of a volume is cut away: all outside of a box, and beyond planes.
//!
//! Space: boxes in the grid, planes in the world. Clipping is per sample, and exact for surfaces: it moves
//! none, and leaves values and gradients as they are.

use crate::data::{volume::VolumeDescription, voxel_box::VoxelBox};
use glam::DVec3;
use serde::{Deserialize, Serialize};

/// Most planes.
pub const PLANES_MAX: usize = 6;
/// How far apart the ends of a box can be brought by hand, in voxels.
const FACES_APART_MIN: f64 = 0.5;
/// Largest number of a box or a plane, either sign.
const NUMBER_MAX: f64 = 1e100;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Samples from the first point to the second one on every axis are shown, in voxels: 0 is the centre of
    /// the first one. `None`: all.
    #[serde(default)]
    pub bounds: Option<[[f64; 3]; 2]>,
    /// Samples at points p of the world with `n · p ≥ d` are shown: `[nx, ny, nz, d]`.
    #[serde(default)]
    pub planes: Vec<[f64; 4]>,
}

/// What is wrong with a clip.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClipError {
    /// A box that holds nothing.
    #[error(
        "the box is from {} to {} on axis {axis}; its ends must be finite, the second greater",
        found[0],
        found[1]
    )]
    Bounds {
        /// 0 to 2.
        axis: usize,
        /// Both ends.
        found: [f64; 2],
    },
    /// Too many planes.
    #[error("there are {found} planes; at most {PLANES_MAX} can be shown")]
    Count {
        /// Planes found.
        found: usize,
    },
    /// A plane without a direction.
    #[error("plane {index} is {found:?}; it must be four finite numbers, a normal and a distance")]
    Plane {
        /// 0-based.
        index: usize,
        /// Found.
        found: [f64; 4],
    },
}

impl Clip {
    /// Whether nothing is cut away.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.bounds.is_none() && self.planes.is_empty()
    }

    /// The ends of what the box shows of a volume with so many voxels: all of it, where there is none.
    #[must_use]
    pub fn bounds_of(&self, dims: [u32; 3]) -> [[f64; 3]; 2] {
        let whole = VoxelBox::new([0; 3], dims).field_corners(dims);
        self.bounds.unwrap_or(whole.map(|p| p.to_array()))
    }

    /// The same with an end (0: the lower) of an axis of the box elsewhere, in voxels: inside of the volume,
    /// and before the other end. A box that holds the whole volume is none.
    #[must_use]
    pub fn with_face(&self, dims: [u32; 3], axis: usize, end: usize, to: f64) -> Self {
        let whole = Self::default().bounds_of(dims);
        let mut bounds = self.bounds_of(dims);
        let [first, last] = [whole[0][axis], whole[1][axis]];
        let gap = FACES_APART_MIN.min(0.5 * (last - first));
        let other = bounds[1 - end][axis];
        let inside = to.max(first).min(last);
        bounds[end][axis] = if end == 0 {
            inside.min(other - gap)
        } else {
            inside.max(other + gap)
        };
        let is_whole = (0..3).all(|a| bounds[0][a] <= whole[0][a] && bounds[1][a] >= whole[1][a]);
        Self {
            bounds: (!is_whole).then_some(bounds),
            planes: self.planes.clone(),
        }
    }

    /// Checks what comes from a file, a command line or a peer.
    ///
    /// # Errors
    /// [`ClipError`] with the first that is out of bounds.
    pub fn validate(&self) -> Result<(), ClipError> {
        if let Some([low, high]) = &self.bounds {
            let ends = |axis: usize| [low[axis], high[axis]];
            let is_bad = |e: [f64; 2]| !(e.iter().all(is_number) && e[0] < e[1]);
            if let Some(axis) = (0..3).find(|&axis| is_bad(ends(axis))) {
                let found = ends(axis);
                return Err(ClipError::Bounds { axis, found });
            }
        }
        if self.planes.len() > PLANES_MAX {
            return Err(ClipError::Count {
                found: self.planes.len(),
            });
        }
        if let Some(index) = self.planes.iter().position(|plane| !is_plane(plane)) {
            let found = self.planes[index];
            return Err(ClipError::Plane { index, found });
        }
        Ok(())
    }

    /// The planes in the grid of a volume, of normals of length 1 there: samples at p with
    /// `n · p + c ≥ 0` are shown, `[nx, ny, nz, c]`.
    #[must_use]
    pub fn planes_in_grid(&self, volume: &VolumeDescription) -> Vec<[f64; 4]> {
        let world_from_grid = volume.world_from_grid();
        let in_grid = |[x, y, z, d]: &[f64; 4]| {
            // Before anything is multiplied: numbers of any size have a direction.
            let length = DVec3::new(*x, *y, *z).length();
            let normal = DVec3::new(*x, *y, *z) / length;
            let c = normal.dot(world_from_grid.translation) - d / length;
            let normal = world_from_grid.matrix3.transpose() * normal;
            let size = normal.length();
            [normal.x / size, normal.y / size, normal.z / size, c / size]
        };
        self.planes.iter().map(in_grid).collect()
    }
}

fn is_number(v: &f64) -> bool {
    v.abs() <= NUMBER_MAX
}

/// Whether four numbers are a normal of some direction, and a distance.
pub(super) fn is_plane(plane: &[f64; 4]) -> bool {
    let [x, y, z, _] = *plane;
    plane.iter().all(is_number) && DVec3::new(x, y, z).try_normalize().is_some()
}

/// A clip in the grid of one volume.
#[derive(Clone, Debug)]
pub struct GridClip {
    dims: [u32; 3],
    bounds: Option<[[f64; 3]; 2]>,
    planes: Vec<[f64; 4]>,
}

/// How much of a box is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of it.
    All,
    /// Some of it, as far as its corners tell.
    Some,
    /// Nothing.
    Nothing,
}

impl GridClip {
    /// A clip of a volume.
    #[must_use]
    pub fn new(clip: &Clip, volume: &VolumeDescription) -> Self {
        Self {
            dims: volume.dims,
            bounds: clip.bounds,
            planes: clip.planes_in_grid(volume),
        }
    }

    /// How much is shown of the samples that a box owns.
    #[must_use]
    pub fn kept(&self, owned: &VoxelBox) -> Kept {
        let [lo, hi] = owned.field_corners(self.dims);
        let mut kept = Kept::All;
        if let Some([low, high]) = self.bounds {
            for a in 0..3 {
                // The upper end belongs to the volume's last box alone.
                let is_last = owned.hi[a] >= self.dims[a];
                if hi[a] < low[a] || hi[a] <= low[a] && !is_last || high[a] < lo[a] {
                    return Kept::Nothing;
                }
                if lo[a] < low[a] || high[a] < hi[a] {
                    kept = Kept::Some;
                }
            }
        }
        for [x, y, z, c] in &self.planes {
            // The corners farthest along the normal and against it.
            let normal = [x, y, z];
            let far = |along: bool| -> f64 {
                let ends = (0..3).map(|a| {
                    if (*normal[a] > 0.0) == along {
                        hi[a]
                    } else {
                        lo[a]
                    }
                });
                ends.zip(normal).map(|(end, n)| end * n).sum::<f64>() + c
            };
            if far(true) < 0.0 {
                return Kept::Nothing;
            }
            if far(false) < 0.0 {
                kept = Kept::Some;
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::volume::VoxelType;
    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_is_named() {
        let mut clip = Clip {
            bounds: Some([[0.0; 3], [1.0, 2.0, 3.0]]),
            planes: vec![[0.0, 1e-60, 0.0, 4.0]; PLANES_MAX],
        };
        assert_eq!(clip.validate(), Ok(()));
        clip.planes.push([1.0; 4]);
        assert!(
            clip.validate()
                .unwrap_err()
                .to_string()
                .contains("7 planes")
        );
        clip.planes = vec![[1.0; 4], [0.0, 0.0, 0.0, 1.0]];
        let said = clip.validate().unwrap_err().to_string();
        assert!(
            said.starts_with("plane 1 is [0.0, 0.0, 0.0, 1.0]"),
            "{said}"
        );
        clip.bounds = Some([[0.0; 3], [1.0, 0.0, f64::NAN]]);
        let said = clip.validate().unwrap_err().to_string();
        assert!(
            said.starts_with("the box is from 0 to 0 on axis 1"),
            "{said}"
        );
    }

    #[test]
    fn a_face_stays_in_the_volume_and_before_the_other_one() {
        let dims = [10, 20, 1];
        let whole = Clip::default();
        assert_eq!(whole.bounds_of(dims), [[0.0, 0.0, -0.5], [9.0, 19.0, 0.5]]);
        let cut = whole.with_face(dims, 1, 0, 7.25);
        assert_eq!(cut.bounds, Some([[0.0, 7.25, -0.5], [9.0, 19.0, 0.5]]));
        let met = cut.with_face(dims, 1, 1, 3.0);
        assert_eq!(met.bounds, Some([[0.0, 7.25, -0.5], [9.0, 7.75, 0.5]]));
        assert_eq!(cut.with_face(dims, 1, 1, f64::NAN).validate(), Ok(()));
        assert_eq!(cut.with_face(dims, 1, 0, -4.0), whole);
        let thin = whole.with_face(dims, 2, 0, 9.0);
        assert_eq!(thin.bounds, Some([[0.0; 3], [9.0, 19.0, 0.5]]));
    }

    proptest! {
        #[test]
        fn a_box_of_which_nothing_is_kept_has_no_point_that_is_shown(
            normal in prop::array::uniform3(-1.0..1.0_f64), d in -60.0..60.0_f64,
            lo in prop::array::uniform3(0..30_u32), size in prop::array::uniform3(1..9_u32),
            low in prop::array::uniform3(-5.0..20.0_f64), wide in prop::array::uniform3(0.5..30.0_f64),
            at in prop::array::uniform3(0.0..1.0_f64),
        ) {
            let volume = VolumeDescription {
                spacing: [1.0, 0.5, 2.0],
                origin: [3.0, -7.0, 1.0],
                ..VolumeDescription::new([40; 3], VoxelType::U8)
            };
            let high = [0, 1, 2].map(|a| low[a] + wide[a]);
            let clip = Clip { bounds: Some([low, high]), planes: vec![[normal[0], normal[1], normal[2], d]] };
            prop_assume!(clip.validate().is_ok());
            let owned = VoxelBox::new(lo, [0, 1, 2].map(|a| lo[a] + size[a]));
            let p: [f64; 3] = [0, 1, 2].map(|a| f64::from(lo[a]) + at[a] * f64::from(size[a]));
            let world = volume.world_from_grid().transform_point3(DVec3::from_array(p));
            let is_shown = (0..3).all(|a| low[a] <= p[a] && p[a] <= high[a])
                && DVec3::from_array(normal).dot(world) >= d;
            match GridClip::new(&clip, &volume).kept(&owned) {
                Kept::All => prop_assert!(is_shown),
                Kept::Some => {}
                Kept::Nothing => prop_assert!(!is_shown),
            }
        }
    }
}

//! Half-open boxes of voxels.
//!
//! Space: grid. A box `[lo, hi)` owns the points p with `lo <= p < hi` on every axis, so boxes
//! that tile the volume own every point exactly once.

use glam::DVec3;
use serde::{Deserialize, Serialize};

/// A half-open box `[lo, hi)` in grid space, in voxels. Written as `[[x0,y0,z0],[x1,y1,z1]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "[[u32; 3]; 2]", into = "[[u32; 3]; 2]")]
pub struct VoxelBox {
    /// First voxel on each axis.
    pub lo: [u32; 3],
    /// One past the last voxel on each axis.
    pub hi: [u32; 3],
}

impl From<[[u32; 3]; 2]> for VoxelBox {
    fn from([lo, hi]: [[u32; 3]; 2]) -> Self {
        Self { lo, hi }
    }
}

impl From<VoxelBox> for [[u32; 3]; 2] {
    fn from(b: VoxelBox) -> Self {
        [b.lo, b.hi]
    }
}

impl VoxelBox {
    /// The box `[lo, hi)`.
    #[must_use]
    pub const fn new(lo: [u32; 3], hi: [u32; 3]) -> Self {
        Self { lo, hi }
    }

    /// Edge lengths in voxels; 0 where the box is empty or turned inside out.
    #[must_use]
    pub fn size(&self) -> [u32; 3] {
        std::array::from_fn(|a| self.hi[a].saturating_sub(self.lo[a]))
    }

    /// Number of voxels inside; what no number holds, of a box that is not checked yet, is the largest.
    #[must_use]
    pub fn voxel_count(&self) -> u64 {
        let size = self.size().map(u64::from);
        size.iter().fold(1, |product, &n| product.saturating_mul(n))
    }

    /// Whether no voxel is inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size().contains(&0)
    }

    /// Whether `other` lies in this box entirely.
    #[must_use]
    pub fn contains_box(&self, other: &Self) -> bool {
        (0..3).all(|a| self.lo[a] <= other.lo[a] && other.hi[a] <= self.hi[a])
    }

    /// Whether the voxel (i,j,k) is inside.
    #[must_use]
    pub fn contains(&self, voxel: [u32; 3]) -> bool {
        (0..3).all(|a| self.lo[a] <= voxel[a] && voxel[a] < self.hi[a])
    }

    /// The voxels that both boxes own.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            lo: std::array::from_fn(|a| self.lo[a].max(other.lo[a])),
            hi: std::array::from_fn(|a| self.hi[a].min(other.hi[a])),
        }
    }

    /// The centre in grid space.
    #[must_use]
    pub fn center(&self) -> DVec3 {
        (DVec3::from_array(self.lo.map(f64::from)) + DVec3::from_array(self.hi.map(f64::from)))
            * 0.5
    }

    /// The points of the field that a job on this box owns, as the bounds `lo <= p < hi` in f32
    /// that every device compares a sample's position with.
    ///
    /// The field ends at the last sample centre, `dims - 1`, and owns that end: where the box
    /// reaches the volume's border the upper bound is the next float after it. On an axis of one voxel
    /// the field reaches half a voxel to either side.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole and half numbers below 2^24, see VolumeDescription"
    )]
    pub fn owned_points(&self, dims: [u32; 3]) -> ([f32; 3], [f32; 3]) {
        let [lo, hi] = self
            .field_corners(dims)
            .map(|p| p.to_array().map(|v| v as f32));
        let is_last = |a: usize| self.hi[a] >= dims[a];
        let ends = std::array::from_fn(|a| if is_last(a) { hi[a].next_up() } else { hi[a] });
        (lo, ends)
    }

    /// So many parts of it on each axis, as alike as can be; those without voxels are left out.
    pub fn parts(&self, per_axis: u32) -> impl Iterator<Item = Self> + use<> {
        let own = *self;
        let size = own.size();
        let plane = move |a: usize, n: u32| own.lo[a] + size[a] * n / per_axis;
        (0..per_axis.pow(3)).filter_map(move |n| {
            let at = [n, n / per_axis, n / per_axis / per_axis].map(|n| n % per_axis);
            let lo = std::array::from_fn(|a| plane(a, at[a]));
            let hi = std::array::from_fn(|a| plane(a, at[a] + 1));
            let part = Self::new(lo, hi);
            (!part.is_empty()).then_some(part)
        })
    }

    /// The cells that a job on this box owns, half-open, by their first voxels: a cell lies between voxels; on an
    /// axis of one voxel there is one, around it.
    #[must_use]
    pub fn owned_cells(&self, dims: [u32; 3]) -> [[u32; 3]; 2] {
        let last = dims.map(|n| n.saturating_sub(1).max(1));
        [self.lo, std::array::from_fn(|a| self.hi[a].min(last[a]))]
    }

    /// Where the field inside the box begins and ends, in grid space: at most at the last sample
    /// centre; on an axis of one voxel half a voxel to either side.
    #[must_use]
    pub fn field_corners(&self, dims: [u32; 3]) -> [DVec3; 2] {
        let ends = |a: usize| match dims[a] {
            1 => [-0.5, 0.5],
            n => [self.lo[a], self.hi[a].min(n.saturating_sub(1))].map(f64::from),
        };
        let [x, y, z] = [ends(0), ends(1), ends(2)];
        [0, 1].map(|end| DVec3::new(x[end], y[end], z[end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "bounds are exact")]
    fn the_last_box_owns_the_last_sample_centre_and_nothing_beyond() {
        let (lo, hi) = VoxelBox::new([0, 32, 0], [32, 64, 9]).owned_points([64, 64, 9]);
        assert_eq!(lo, [0.0, 32.0, 0.0]);
        assert_eq!(hi, [32.0, 63.0_f32.next_up(), 8.0_f32.next_up()]);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "bounds are exact")]
    fn an_axis_of_one_voxel_reaches_half_a_voxel_to_either_side() {
        let (lo, hi) = VoxelBox::new([0, 0, 32], [1, 1, 64]).owned_points([1, 1, 100]);
        assert_eq!(lo, [-0.5, -0.5, 32.0]);
        assert_eq!(hi, [0.5_f32.next_up(), 0.5_f32.next_up(), 64.0]);
    }

    #[test]
    fn the_largest_box_is_not_empty() {
        let huge = VoxelBox::new([0; 3], [1 << 22; 3]);
        assert!(!huge.is_empty() && huge.voxel_count() == u64::MAX);
        let flat = VoxelBox::new([0; 3], [u32::MAX, 0, u32::MAX]);
        assert!(flat.is_empty() && flat.voxel_count() == 0);
    }

    #[test]
    fn json_is_a_pair_of_corners() {
        let b = VoxelBox::new([1, 2, 3], [4, 5, 6]);
        let json = serde_json::to_string(&b).unwrap();
        assert_eq!(json, "[[1,2,3],[4,5,6]]");
        assert_eq!(serde_json::from_str::<VoxelBox>(&json).unwrap(), b);
    }
}

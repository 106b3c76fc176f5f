//! PARC's cubes: a volume cut into 2^L parts along each axis, and which of these cubes have any voxel to be seen.
//! Their number is the work that a slab of them is.
//!
//! Shapes: voxels of nx·ny·nz, with a border of empty ones around; n = nx + 2·border planes along x, cube i of 2^L has voxels
//! from round(n·i/2^L) to round(n·(i+1)/2^L), halves rounded up.
//!
//! Source: Silva 1995, section "Load Balancing". The paper does not say which voxels a cube has; with this reading and a
//! border of one voxel (neghip was distributed as 66³ voxels, its border all 0) the sixteen counts that it prints for neghip, at
//! level 4 and values of 10 to 200, come out exactly. Without the border there are 1760 cubes in place of 1570.

use crate::data::voxel_box::VoxelBox;

/// Highest level: 128³ cubes.
pub const CUBE_LEVEL_MAX: u32 = 7;

/// Which cubes are active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceCubes {
    dims: [u32; 3],
    level: u32,
    border: u32,
    /// x fastest.
    active: Vec<bool>,
}

impl PresenceCubes {
    /// Cubes of a volume in which nothing is to be seen.
    ///
    /// # Panics
    /// Where the level is above [`CUBE_LEVEL_MAX`].
    #[must_use]
    pub fn new(dims: [u32; 3], level: u32, border: u32) -> Self {
        assert!(level <= CUBE_LEVEL_MAX, "level {level}");
        Self {
            dims,
            level,
            border,
            active: vec![false; 1 << (3 * level)],
        }
    }

    /// Cubes along an axis.
    #[must_use]
    pub fn per_axis(&self) -> u32 {
        1 << self.level
    }

    /// Number of cubes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.active.len()
    }

    /// Takes slice `z`: which of its voxels are to be seen, x fastest.
    pub fn slice(&mut self, z: u32, kept: &[bool]) {
        let cube_z = self.cube_of(2, z);
        let cubes_x: Vec<u32> = (0..self.dims[0]).map(|x| self.cube_of(0, x)).collect();
        for (y, row) in (0..).zip(kept.chunks(self.dims[0].max(1) as usize)) {
            let first = self.per_axis() * (self.cube_of(1, y) + self.per_axis() * cube_z);
            for (cube_x, _) in cubes_x.iter().zip(row).filter(|(_, kept)| **kept) {
                self.active[(first + cube_x) as usize] = true;
            }
        }
    }

    /// The cube along an axis that a voxel is in: the last one that begins at it or before.
    fn cube_of(&self, axis: usize, voxel: u32) -> u32 {
        let voxel = u64::from(voxel + self.border);
        let (mut first, mut end) = (0, self.per_axis());
        while end - first > 1 {
            let middle = u32::midpoint(first, end);
            if self.plane(axis, middle) <= voxel {
                first = middle;
            } else {
                end = middle;
            }
        }
        first
    }

    /// Voxels along an axis, the border counted.
    fn length(&self, axis: usize) -> u64 {
        u64::from(self.dims[axis]) + 2 * u64::from(self.border)
    }

    /// First voxel of cube `i` along an axis, counted from the border on.
    fn plane(&self, axis: usize, i: u32) -> u64 {
        (2 * self.length(axis) * u64::from(i) + (1 << self.level)) >> (self.level + 1)
    }

    /// Active cubes of each slab along an axis.
    #[must_use]
    pub fn slab_counts(&self, axis: usize) -> Vec<u64> {
        let mut counts = vec![0; self.per_axis() as usize];
        let n = self.per_axis() as usize;
        for (i, _) in self
            .active
            .iter()
            .enumerate()
            .filter(|(_, active)| **active)
        {
            let at = [i % n, i / n % n, i / n / n];
            counts[at[axis]] += 1;
        }
        counts
    }

    /// The voxels of each active cube; cubes that have none but of the border are left out.
    #[must_use]
    pub fn boxes(&self) -> Vec<VoxelBox> {
        let n = self.per_axis();
        let active = (0_u32..).zip(&self.active).filter(|(_, active)| **active);
        let cube = |i: u32| {
            let at = [i % n, i / n % n, i / n / n];
            let voxel = |axis: usize, i: u32| {
                let inside = self.plane(axis, i).saturating_sub(self.border.into());
                u32::try_from(inside)
                    .unwrap_or(u32::MAX)
                    .min(self.dims[axis])
            };
            VoxelBox {
                lo: std::array::from_fn(|a| voxel(a, at[a])),
                hi: std::array::from_fn(|a| voxel(a, at[a] + 1)),
            }
        };
        active
            .map(|(i, _)| cube(i))
            .filter(|b| !b.is_empty())
            .collect()
    }

    /// First voxels of the slabs along an axis, and the end of the last.
    #[must_use]
    pub fn slab_planes(&self, axis: usize) -> Vec<u32> {
        let inside = |i| self.plane(axis, i).saturating_sub(self.border.into());
        let voxel = |i| {
            u32::try_from(inside(i))
                .unwrap_or(u32::MAX)
                .min(self.dims[axis])
        };
        (0..=self.per_axis()).map(voxel).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn planes_are_rounded_with_halves_up() {
        let cubes = PresenceCubes::new([64; 3], 4, 1);
        let planes: Vec<u64> = (0..=16).map(|i| cubes.plane(0, i)).collect();
        let expected = [
            0, 4, 8, 12, 17, 21, 25, 29, 33, 37, 41, 45, 50, 54, 58, 62, 66,
        ];
        assert_eq!(planes, expected);
        assert_eq!(cubes.slab_planes(0)[..3], [0, 3, 7]);
        assert_eq!(cubes.slab_planes(0)[16], 64);
    }

    proptest! {
        #[test]
        fn every_voxel_is_in_the_cube_whose_box_holds_it(
            dims in prop::array::uniform3(1u32..40), level in 0u32..5, border in 0u32..3, at in prop::array::uniform3(0u32..40)
        ) {
            let voxel: [u32; 3] = std::array::from_fn(|a| at[a] % dims[a]);
            let mut cubes = PresenceCubes::new(dims, level, border);
            let mut kept = vec![false; (dims[0] * dims[1]) as usize];
            kept[(voxel[0] + dims[0] * voxel[1]) as usize] = true;
            cubes.slice(voxel[2], &kept);
            let boxes = cubes.boxes();
            prop_assert_eq!(boxes.len(), 1);
            prop_assert!(boxes[0].contains(voxel), "{:?} {:?}", boxes, voxel);
            for axis in 0..3 {
                prop_assert_eq!(cubes.slab_counts(axis).iter().sum::<u64>(), 1);
            }
        }
    }
}

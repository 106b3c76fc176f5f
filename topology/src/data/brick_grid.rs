//! The cut of a volume into equally sized bricks with ghost voxels (Frey & Ertl 2011, section 4).
//!
//! Shapes: dims nx·ny·nz voxels; brick (bx,by,bz) has index `bx + cx·(by + cy·bz)` with c the
//! brick counts. Bricks at the upper border are smaller where the edge does not divide the dims.
//! Invariant: the owned boxes tile the volume; each voxel has exactly one owner.
//!
//! Ghost voxels: a sample at p needs voxel floor(p)+1 for trilinear interpolation and
//! floor(p)-1 … floor(p)+2 for a central difference of the interpolated field, so a brick stores
//! one voxel below and two above what it owns, cut at the volume's border.

use crate::data::voxel_box::VoxelBox;
use serde::{Deserialize, Serialize};

/// Voxels stored below what a brick owns, on each axis.
pub const GHOST_BELOW_VOXELS: u32 = 1;
/// Voxels stored above what a brick owns, on each axis.
pub const GHOST_ABOVE_VOXELS: u32 = 2;

/// A brick of a [`BrickGrid`], 0-based, x fastest.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct BrickIndex(pub u32);

/// A volume's dims and the edge of its bricks, in voxels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrickGrid {
    dims: [u32; 3],
    edge: u32,
}

/// Why no grid can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrickGridError {
    /// An axis has no voxels, or more than a device can address.
    #[error("the volume is {}x{}x{} voxels; each axis must have 1 to {DIM_MAX}", dims[0], dims[1], dims[2])]
    Dims {
        /// Voxels found on each axis.
        dims: [u32; 3],
    },
    /// The edge is outside its bounds.
    #[error("brick edge is {edge} voxels; it must be {EDGE_MIN} to {EDGE_MAX}")]
    Edge {
        /// Edge asked for, in voxels.
        edge: u32,
    },
    /// There would be more bricks than a roster can carry.
    #[error("edge {edge} would make {bricks} bricks, more than {BRICKS_MAX}; take a larger edge")]
    TooMany {
        /// Edge asked for, in voxels.
        edge: u32,
        /// Bricks that it would make.
        bricks: u64,
    },
}

/// Largest number of voxels on an axis: positions up to here are exact in f32 to 1/256 voxel.
pub const DIM_MAX: u32 = 65_536;
/// Smallest brick edge in voxels.
pub const EDGE_MIN: u32 = 4;
/// Largest brick edge in voxels: with ghosts, four bytes a voxel, 0.5 GB, and a 3D image that
/// every Vulkan device takes.
pub const EDGE_MAX: u32 = 512;
/// Largest number of bricks: residency is announced as a bit each.
pub const BRICKS_MAX: u64 = 1 << 20;

impl BrickGrid {
    /// Cuts `dims` voxels into bricks of `edge` voxels.
    ///
    /// # Errors
    /// [`BrickGridError`] where dims, edge or the count of bricks are out of bounds.
    pub fn new(dims: [u32; 3], edge: u32) -> Result<Self, BrickGridError> {
        if dims.iter().any(|&n| n == 0 || n > DIM_MAX) {
            return Err(BrickGridError::Dims { dims });
        }
        if !(EDGE_MIN..=EDGE_MAX).contains(&edge) {
            return Err(BrickGridError::Edge { edge });
        }
        let grid = Self { dims, edge };
        let bricks = grid.counts().iter().map(|&n| u64::from(n)).product();
        if bricks > BRICKS_MAX {
            return Err(BrickGridError::TooMany { edge, bricks });
        }
        Ok(grid)
    }

    /// Voxels on each axis.
    #[must_use]
    pub fn dims(&self) -> [u32; 3] {
        self.dims
    }

    /// Edge of a brick in voxels, ghosts not counted.
    #[must_use]
    pub fn edge(&self) -> u32 {
        self.edge
    }

    /// Bricks on each axis.
    #[must_use]
    pub fn counts(&self) -> [u32; 3] {
        self.dims.map(|n| n.div_ceil(self.edge))
    }

    /// Number of bricks.
    #[must_use]
    pub fn brick_count(&self) -> u32 {
        self.counts().iter().product()
    }

    /// All bricks, in index order.
    pub fn bricks(&self) -> impl ExactSizeIterator<Item = BrickIndex> + use<> {
        (0..self.brick_count()).map(BrickIndex)
    }

    /// The place (bx,by,bz) of a brick in the grid.
    #[must_use]
    pub fn coordinates(&self, brick: BrickIndex) -> [u32; 3] {
        let [cx, cy, _] = self.counts();
        [brick.0 % cx, brick.0 / cx % cy, brick.0 / cx / cy]
    }

    /// The brick at (bx,by,bz), or `None` outside the grid.
    #[must_use]
    pub fn index(&self, at: [u32; 3]) -> Option<BrickIndex> {
        let c = self.counts();
        (0..3)
            .all(|a| at[a] < c[a])
            .then(|| BrickIndex(at[0] + c[0] * (at[1] + c[1] * at[2])))
    }

    /// The voxels that a brick owns.
    #[must_use]
    pub fn owned_box(&self, brick: BrickIndex) -> VoxelBox {
        let lo = self.coordinates(brick).map(|b| b * self.edge);
        let hi = std::array::from_fn(|a| (lo[a] + self.edge).min(self.dims[a]));
        VoxelBox { lo, hi }
    }

    /// The voxels that a brick stores: what it owns and its ghosts, cut at the volume's border.
    #[must_use]
    pub fn stored_box(&self, brick: BrickIndex) -> VoxelBox {
        let owned = self.owned_box(brick);
        VoxelBox {
            lo: owned.lo.map(|v| v.saturating_sub(GHOST_BELOW_VOXELS)),
            hi: std::array::from_fn(|a| (owned.hi[a] + GHOST_ABOVE_VOXELS).min(self.dims[a])),
        }
    }

    /// Voxels of the largest stored box, on each axis.
    #[must_use]
    pub fn largest_stored_size(&self) -> [u32; 3] {
        // The axes are alike: a brick that has bricks on both sides is the longest, or the first one.
        let counts = self.counts();
        std::array::from_fn(|a| {
            let longest = [0, 1.min(counts[a] - 1)].map(|at| self.stored_length(a, at));
            u32::try_from(longest[0].max(longest[1])).unwrap_or(u32::MAX)
        })
    }

    /// Voxels of all stored boxes. O(bricks along an axis).
    #[must_use]
    pub fn stored_voxels(&self) -> u64 {
        let counts = self.counts();
        let along = |a: usize| {
            (0..counts[a])
                .map(|at| self.stored_length(a, at))
                .sum::<u64>()
        };
        (0..3).map(along).product()
    }

    /// Voxels along an axis that the bricks at a place on it store.
    fn stored_length(&self, a: usize, at: u32) -> u64 {
        let lo = (at * self.edge).saturating_sub(GHOST_BELOW_VOXELS);
        let hi = ((at + 1) * self.edge).min(self.dims[a]) + GHOST_ABOVE_VOXELS;
        u64::from(hi.min(self.dims[a]) - lo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_stored_box_is_larger_than_the_largest(
            dims in prop::array::uniform3(1u32..40), edge in EDGE_MIN..20
        ) {
            let grid = BrickGrid::new(dims, edge).unwrap();
            let voxels: Vec<u64> = grid.bricks().map(|b| grid.stored_box(b).voxel_count()).collect();
            let largest: u64 = grid.largest_stored_size().map(u64::from).iter().product();
            prop_assert_eq!(voxels.iter().max(), Some(&largest));
            prop_assert_eq!(voxels.iter().sum::<u64>(), grid.stored_voxels());
        }

        #[test]
        fn every_voxel_has_exactly_one_owner(
            dims in prop::array::uniform3(1u32..40), edge in EDGE_MIN..20, at in prop::array::uniform3(0u32..40)
        ) {
            let grid = BrickGrid::new(dims, edge).unwrap();
            let voxel = std::array::from_fn(|a| at[a] % dims[a]);
            let owners = grid.bricks().filter(|&b| grid.owned_box(b).contains(voxel)).count();
            prop_assert_eq!(owners, 1);
            let total: u64 = grid.bricks().map(|b| grid.owned_box(b).voxel_count()).sum();
            prop_assert_eq!(total, dims.iter().map(|&n| u64::from(n)).product::<u64>());
        }

        #[test]
        fn index_and_coordinates_are_inverse(dims in prop::array::uniform3(1u32..60), edge in EDGE_MIN..20) {
            let grid = BrickGrid::new(dims, edge).unwrap();
            for b in grid.bricks() {
                prop_assert_eq!(grid.index(grid.coordinates(b)), Some(b));
                prop_assert!(grid.stored_box(b).contains_box(&grid.owned_box(b)));
            }
        }
    }

    #[test]
    fn a_volume_smaller_than_a_brick_is_one_brick_without_ghosts() {
        let grid = BrickGrid::new([5, 3, 1], 32).unwrap();
        assert_eq!(grid.brick_count(), 1);
        assert_eq!(
            grid.stored_box(BrickIndex(0)),
            VoxelBox::new([0; 3], [5, 3, 1])
        );
    }

    #[test]
    fn an_inner_brick_stores_one_voxel_below_and_two_above() {
        let grid = BrickGrid::new([96; 3], 32).unwrap();
        let middle = grid.index([1; 3]).unwrap();
        assert_eq!(grid.stored_box(middle), VoxelBox::new([31; 3], [66; 3]));
    }

    #[test]
    fn bad_sizes_are_refused() {
        assert!(matches!(
            BrickGrid::new([0, 1, 1], 32),
            Err(BrickGridError::Dims { .. })
        ));
        assert!(matches!(
            BrickGrid::new([9; 3], 3),
            Err(BrickGridError::Edge { .. })
        ));
        assert!(matches!(
            BrickGrid::new([DIM_MAX; 3], 4),
            Err(BrickGridError::TooMany { .. })
        ));
    }
}

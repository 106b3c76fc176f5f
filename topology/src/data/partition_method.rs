//! The ways to part a volume, by name; what each does is in `balance::partition`.

use serde::{Deserialize, Serialize};

/// How a volume is parted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum PartitionMethod {
    /// A regular grid, whatever is empty
    Grid,
    /// Slabs of as many slices each
    SlabsEqual,
    /// Slabs whose largest load is least
    SlabsMinMax,
    /// Slabs with the least squared differences from the mean load
    SlabsLeastSquares,
    /// Planes that halve the non-empty voxels, at any slice
    KdTree,
    /// The same from slab projections: across z between slabs only
    SkdTree,
    /// Connected cells of bricks at the least cost, by dynamic programming
    BrickGrouping,
}

impl PartitionMethod {
    /// Whether slab projections are all that it needs to know of a volume.
    #[must_use]
    pub fn needs_projections_only(self) -> bool {
        matches!(self, Self::SkdTree | Self::BrickGrouping)
    }

    /// Whether it cuts one axis only.
    #[must_use]
    pub fn is_slabs(self) -> bool {
        matches!(
            self,
            Self::SlabsEqual | Self::SlabsMinMax | Self::SlabsLeastSquares
        )
    }
}

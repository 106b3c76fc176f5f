//! The cost table: how every brick was cut into jobs, and what each cost when it was last
//! rendered. It goes from the requester to all peers of a frame, which derive the next jobs from
//! it.
//!
//! Costs in microseconds on a device of speed 1. Bricks that never had a job are not in it.

use crate::{
    balance::{
        image_division::{BadTileRenderers, TileRenderers},
        job_tree::{JobTree, JobTreeError, Leaf},
    },
    base::digest::Digest,
    data::brick_grid::{BrickGrid, BrickIndex},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Job trees with the last costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostTable {
    /// Tree of each brick that had jobs.
    pub trees: BTreeMap<BrickIndex, JobTree>,
    /// Who rendered the tiles of the last frame, where the next one is to follow that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tile_renderers: Option<TileRenderers>,
}

/// A cost table that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostTableError {
    /// A brick beyond the grid.
    #[error("the cost table names brick {}, the data set has {brick_count}", brick.0)]
    Brick {
        /// Brick found.
        brick: BrickIndex,
        /// Bricks of the data set.
        brick_count: u32,
    },
    /// A tree that does not fit its brick.
    #[error("brick {}: {error}", brick.0)]
    Tree {
        /// Brick.
        brick: BrickIndex,
        /// What is wrong.
        error: JobTreeError,
    },
    /// Tiles that are not those of a picture.
    #[error(transparent)]
    Tiles(#[from] BadTileRenderers),
}

impl CostTable {
    /// The table after a frame with these trees: `costs` are those to remember of brick and leaf,
    /// microseconds on a device of speed 1, in place of the expected ones; other bricks stay as they are.
    #[must_use]
    pub fn after(
        &self,
        trees: &BTreeMap<BrickIndex, JobTree>,
        costs: &BTreeMap<(BrickIndex, usize), u64>,
    ) -> Self {
        let mut after = self.clone();
        for (&brick, tree) in trees {
            let leaves = tree.leaf_values().enumerate();
            let remembered = leaves.map(|(index, leaf)| Leaf {
                cost_micros: costs
                    .get(&(brick, index))
                    .copied()
                    .unwrap_or(leaf.cost_micros),
                ..leaf
            });
            let mut learned = tree.clone();
            learned.set_leaves(remembered);
            after.trees.insert(brick, learned);
        }
        after
    }

    /// Checks what comes from a peer against the data set.
    ///
    /// # Errors
    /// [`CostTableError`] with the first brick that does not fit.
    pub fn validate(&self, grid: &BrickGrid) -> Result<(), CostTableError> {
        let brick_count = grid.brick_count();
        for (&brick, tree) in &self.trees {
            if brick.0 >= brick_count {
                return Err(CostTableError::Brick { brick, brick_count });
            }
            tree.validate(grid.owned_box(brick))
                .map_err(|error| CostTableError::Tree { brick, error })?;
        }
        self.tile_renderers
            .as_ref()
            .map_or(Ok(()), TileRenderers::validate)?;
        Ok(())
    }

    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entry = |(brick, tree): (&BrickIndex, &JobTree)| {
            size_of_val(brick) + size_of_val(tree) + size_of_val(tree.nodes())
        };
        let tiles = self
            .tile_renderers
            .as_ref()
            .map_or(0, TileRenderers::memory_bytes);
        self.trees.iter().map(entry).sum::<usize>() + tiles
    }

    /// Name of this table.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = (self.trees.len() as u64).to_le_bytes().to_vec();
        for (brick, tree) in &self.trees {
            bytes.extend(brick.0.to_le_bytes());
            bytes.extend((tree.nodes().len() as u64).to_le_bytes());
            for node in tree.nodes() {
                <[u64; 3]>::from(*node)
                    .iter()
                    .for_each(|n| bytes.extend(n.to_le_bytes()));
            }
        }
        if let Some(tiles) = &self.tile_renderers {
            tiles.put(&mut bytes);
        }
        Digest::of(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::job_tree::Leaf;

    #[test]
    fn tables_from_peers_are_checked_and_named_by_content() {
        let grid = BrickGrid::new([8; 3], 8).unwrap();
        let mut table = CostTable::default();
        let leaf = |cost_micros| Leaf {
            cost_micros,
            samples: 1,
        };
        table.trees.insert(BrickIndex(0), JobTree::whole(leaf(5)));
        assert!(table.validate(&grid).is_ok());
        let name = table.digest();
        table.trees.insert(BrickIndex(0), JobTree::whole(leaf(6)));
        assert_ne!(table.digest(), name);
        table.trees.insert(BrickIndex(1), JobTree::whole(leaf(5)));
        let text = table.validate(&grid).unwrap_err().to_string();
        assert_eq!(text, "the cost table names brick 1, the data set has 1");
    }
}

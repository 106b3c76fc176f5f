//! Partitions: every brick to one node, as parts that can be blended in order. Where there is memory for one copy
//! only, the frame hangs on this cut.
//!
//! Shapes: bricks with their boxes and non-empty voxels, N nodes; out, a part a node, or the cells of each.
//! Sources: Silva 1995 (`slabs`); Frank, Kaufman 2009 (`planes`, `grouping`, `precedence`).

pub mod bricking;
pub mod grouping;
pub mod planes;
pub mod precedence;
pub mod slabs;
pub mod volume_partition;

pub use crate::data::partition_method::PartitionMethod;

use crate::data::voxel_box::VoxelBox;
use planes::Region;

/// The boxes that reach into each region; one on a plane goes to both sides (Frank, Kaufman 2009, section 4.3).
#[must_use]
pub fn boxes_of_regions(boxes: &[VoxelBox], regions: &[Region]) -> Vec<Vec<usize>> {
    let of = |region: &Region| {
        let inside = |(_, b): &(usize, &VoxelBox)| !b.intersection(&region.part).is_empty();
        boxes
            .iter()
            .enumerate()
            .filter(inside)
            .map(|(i, _)| i)
            .collect()
    };
    regions.iter().map(of).collect()
}

/// A node for each cell: the first cells one each, further ones to whoever has the fewest bricks, the earlier node
/// of equals.
#[must_use]
pub fn nodes_of_cells(cells: &[Vec<usize>], nodes: usize) -> Vec<usize> {
    let mut bricks = vec![0; nodes.max(1)];
    let mut node = |(c, cell): (usize, &Vec<usize>)| {
        let least = (0..bricks.len())
            .min_by_key(|&n| (bricks[n], n))
            .unwrap_or(0);
        let node = if c < bricks.len() { c } else { least };
        bricks[node] += cell.len();
        node
    };
    cells.iter().enumerate().map(&mut node).collect()
}

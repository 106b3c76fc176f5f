//! Bricks for brick grouping, cut from slab projections alone.
//!
//! Source: Frank, Kaufman 2009, section 4.4 (cropped, non-empty bricks of a given size) and section 5.5 (bricks are
//! enlarged until a node has fewer than M of them on average, which bounds the dynamic programming). The paper cuts
//! bricks from the boxes of regions; scattered voxels would make thousands of tiny ones, so bricks lie on a lattice here.

use crate::data::{
    slab_projections::{Slab, SlabProjections},
    voxel_box::VoxelBox,
};

/// Bricks and their non-empty voxels.
pub type WeightedBricks = Vec<(VoxelBox, u64)>;

/// Cuts each slab into bricks of `edge` voxels along x and y, as thick as the slab, cropped to what is not empty; those
/// without a non-empty voxel are left out.
///
/// # Panics
/// Where the edge is 0.
#[must_use]
pub fn bricks(projections: &SlabProjections, edge: u32) -> WeightedBricks {
    assert!(edge > 0, "an edge of 0");
    let [nx, ny, _] = projections.dims;
    let mut bricks = Vec::new();
    for slab in &projections.slabs {
        for y in (0..ny).step_by(edge as usize) {
            for x in (0..nx).step_by(edge as usize) {
                let hi = [x, y].map(|v| v.saturating_add(edge));
                let tile =
                    VoxelBox::new([x, y, slab.first], [hi[0].min(nx), hi[1].min(ny), slab.end]);
                let cropped = projections.cropped(slab, &tile);
                bricks.extend(cropped.map(|b| (b, projections.voxels_in(&b))));
            }
        }
    }
    bricks
}

/// Bricks of multiples of `unit` voxels, as small as makes fewer than `bricks_max` a node. Where slabs alone are too many, they are
/// joined, too. And how often all projections were looked at for that.
///
/// # Panics
/// Where the unit is 0.
#[must_use]
pub fn enlarged(
    projections: &SlabProjections,
    unit: u32,
    nodes: usize,
    bricks_max: usize,
) -> (WeightedBricks, usize) {
    let most = nodes.saturating_mul(bricks_max);
    let whole = projections.dims[0].max(projections.dims[1]);
    let mut projections = projections.clone();
    let mut looks = 0;
    loop {
        let mut edge = unit;
        let has_voxels = |slab: &&Slab| slab.counts.iter().any(|&c| c > 0);
        if projections.slabs.iter().filter(has_voxels).count() >= most
            && projections.slabs.len() > 1
        {
            projections = joined(&projections);
            continue;
        }
        loop {
            let bricks = bricks(&projections, edge);
            looks += 1;
            if bricks.len() < most || edge >= whole && projections.slabs.len() <= 1 {
                return (bricks, looks);
            }
            if edge >= whole {
                break;
            }
            edge = edge.saturating_add(unit);
        }
        projections = joined(&projections);
    }
}

/// Each two slabs as one.
fn joined(projections: &SlabProjections) -> SlabProjections {
    let pair = |pair: &[Slab]| {
        let mut slab = pair[0].clone();
        for other in &pair[1..] {
            slab.end = other.end;
            for (count, &more) in slab.counts.iter_mut().zip(&other.counts) {
                *count = count.saturating_add(more);
            }
        }
        slab
    };
    SlabProjections {
        dims: projections.dims,
        slabs: projections.slabs.chunks(2).map(pair).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::slab_projections::SlabGathering;

    /// Two bars along z, 16 slices.
    fn bars() -> SlabProjections {
        let mut gathering = SlabGathering::new([20, 8, 16], 4..=4);
        for _ in 0..16 {
            let kept: Vec<bool> = (0..160).map(|i| matches!(i % 20, 1..6 | 12..18)).collect();
            gathering.slice(&kept);
        }
        gathering.finish()
    }

    #[test]
    fn bricks_cover_what_is_not_empty_once() {
        let projections = bars();
        for edge in [1, 3, 4, 100] {
            let bricks = bricks(&projections, edge);
            let voxels: u64 = bricks.iter().map(|b| b.1).sum();
            assert_eq!(voxels, projections.voxels(), "edge {edge}");
        }
        let cropped = bricks(&projections, 10);
        assert_eq!(cropped.len(), 8);
        assert!(cropped.iter().all(|(b, n)| b.voxel_count() == *n));
    }

    #[test]
    fn bricks_grow_until_a_node_has_few() {
        let projections = bars();
        // Four slabs of one tile of 20 voxels, or two of 12.
        assert_eq!(enlarged(&projections, 4, 3, 3).0.len(), 8);
        assert_eq!(enlarged(&projections, 4, 2, 3).0.len(), 4);
        assert_eq!(enlarged(&projections, 4, 1, 1).0.len(), 1, "no fewer slabs");
    }
}

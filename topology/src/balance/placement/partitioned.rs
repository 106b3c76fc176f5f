//! Placement by a partition: each copy of the volume is parted, so that the bricks of a device lie together and its
//! image is one, where there is memory for few copies.
//!
//! Shapes: bricks with weights (what is not empty), D devices with capacities; out, the bricks of each, or nothing where they do not
//! fit. Planes lie between bricks, so that none is placed twice for one copy. Further copies are parted for the
//! devices in another order.
//!
//! Source: Silva 1995 and Frank, Kaufman 2009 (see `partition`). Theirs are equal devices and one copy.

use super::shares;
use crate::{
    balance::partition::{
        PartitionMethod,
        planes::{BoxCounts, Region, grid as grid_regions, kd_tree_of},
        slabs,
    },
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        brick_set::BrickSet,
        voxel_box::VoxelBox,
    },
};

/// Places `copies` copies of each brick by a partition, as many as there are devices at most; `None`: some device has too
/// little room, there are more of them than the method has parts for, or far too many bricks. `weights[b]`: how much of brick b is not empty.
///
/// A kd-tree gives each device its share by weights, or by bricks where only that fits; the other
/// methods know no devices of unlike size.
#[must_use]
pub fn place_partition(
    grid: &BrickGrid,
    weights: &[u64],
    capacities: &[u32],
    method: PartitionMethod,
    copies: u32,
) -> Option<Vec<BrickSet>> {
    let (bricks, devices) = (
        u64::from(grid.brick_count()),
        capacities.iter().filter(|&&c| c > 0).count(),
    );
    let copies = copies.min(u32::try_from(devices).unwrap_or(u32::MAX));
    let room: u64 = capacities.iter().map(|&c| u64::from(c).min(bricks)).sum();
    if copies == 0 || room < bricks * u64::from(copies) || bricks * devices as u64 > WORK_MAX {
        return None;
    }
    let equal = vec![1; weights.len()];
    let is_empty = weights.iter().all(|&w| w == 0);
    let tried = [weights, &equal].into_iter().skip(usize::from(is_empty));
    tried.into_iter().find_map(|weights| {
        let mut shares = even_shares(grid.brick_count(), capacities, copies);
        for _ in 0..TRIES {
            let mut held = placed(grid, weights, &shares, method, copies)?;
            let is_over = |d: &usize| held[*d].len() > capacities[*d];
            let over: Vec<usize> = (0..held.len()).filter(is_over).collect();
            if over.is_empty() {
                return complete(&mut held, grid, capacities, copies).then_some(held);
            }
            if !matches!(method, PartitionMethod::KdTree | PartitionMethod::SkdTree) {
                // It does not know shares.
                return None;
            }
            // Planes lie between bricks: who got more than it has room for gets less.
            for d in over {
                shares[d] -= shares[d].div_ceil(8);
            }
        }
        None
    })
}

/// Gives bricks that came to one device twice, as the parts of unlike devices overlap, to the ones with the most room left. False: there
/// is too little.
fn complete(held: &mut [BrickSet], grid: &BrickGrid, capacities: &[u32], copies: u32) -> bool {
    for brick in grid.bricks() {
        let holders = held.iter().filter(|h| h.contains(brick)).count();
        for _ in holders..copies as usize {
            let room = |d: &usize| capacities[*d].saturating_sub(held[*d].len());
            let takes = |d: &usize| !held[*d].contains(brick) && room(d) > 0;
            let takers = (0..held.len()).filter(takes);
            let Some(taker) = takers.max_by_key(|d| (room(d), std::cmp::Reverse(*d))) else {
                return false;
            };
            held[taker].insert(brick);
        }
    }
    true
}

/// Most bricks times devices that are parted: a tenth of a second or so, in which a peer does nothing else.
const WORK_MAX: u64 = 1 << 20;
/// How often shares are made smaller until all fit.
const TRIES: usize = 6;

/// What each device gets, in any unit: the same, or as much as it has room for.
fn even_shares(brick_count: u32, capacities: &[u32], copies: u32) -> Vec<u64> {
    let bricks = shares(brick_count, capacities, copies);
    let most = bricks.iter().copied().max().unwrap_or(0);
    // Of those that are not short of room none is to have one brick more than another.
    let share =
        |(&share, &capacity): (&u32, &u32)| u64::from(if share < capacity { most } else { share });
    bricks
        .iter()
        .zip(capacities)
        .map(share)
        .map(|s| s << 16)
        .collect()
}

fn placed(
    grid: &BrickGrid,
    weights: &[u64],
    shares: &[u64],
    method: PartitionMethod,
    copies: u32,
) -> Option<Vec<BrickSet>> {
    let brick_count = grid.brick_count();
    let mut devices: Vec<usize> = (0..shares.len()).filter(|&d| shares[d] > 0).collect();
    if devices.is_empty() {
        return None;
    }
    let copies = (copies as usize).min(devices.len());
    let turn = devices.len() / copies;
    let mut held = vec![BrickSet::new(brick_count); shares.len()];
    for _ in 0..copies {
        let of_devices: Vec<u64> = devices.iter().map(|&d| shares[d]).collect();
        let parts = parts(grid, weights, &of_devices, method)?;
        for (&device, part) in devices.iter().zip(&parts) {
            let coordinates = |b: &BrickIndex| part.contains(grid.coordinates(*b));
            grid.bricks().filter(coordinates).for_each(|b| {
                held[device].insert(b);
            });
        }
        devices.rotate_left(turn);
    }
    Some(held)
}

/// The part of each device, in bricks.
fn parts(
    grid: &BrickGrid,
    weights: &[u64],
    of_devices: &[u64],
    method: PartitionMethod,
) -> Option<Vec<VoxelBox>> {
    let counts = grid.counts();
    if method.is_slabs() {
        return slab_parts(grid, weights, of_devices.len(), method);
    }
    let cell = |b: BrickIndex| {
        let at = grid.coordinates(b);
        (VoxelBox::new(at, at.map(|i| i + 1)), weights[b.0 as usize])
    };
    let cells: Vec<(VoxelBox, u64)> = grid.bricks().map(cell).collect();
    let mut of_cells = BoxCounts::new(&cells);
    let regions: Vec<Region> = match method {
        PartitionMethod::Grid => grid_regions(&mut of_cells, of_devices.len()),
        PartitionMethod::KdTree | PartitionMethod::SkdTree => kd_tree_of(&mut of_cells, of_devices),
        // Its cells are those of one octant, of bricks of its own.
        _ => return None,
    };
    let boxes = regions.iter().map(|r| r.part);
    debug_assert!(
        boxes
            .clone()
            .all(|b| b.hi.iter().zip(counts).all(|(&hi, n)| hi <= n))
    );
    Some(boxes.collect())
}

/// Slabs of layers of bricks across the axis with the most of them.
fn slab_parts(
    grid: &BrickGrid,
    weights: &[u64],
    devices: usize,
    method: PartitionMethod,
) -> Option<Vec<VoxelBox>> {
    let counts = grid.counts();
    let axis = (0..3).max_by_key(|&a| counts[a])?;
    let mut layers = vec![0; counts[axis] as usize];
    if devices > layers.len() {
        return None;
    }
    for b in grid.bricks() {
        layers[grid.coordinates(b)[axis] as usize] += weights[b.0 as usize];
    }
    let runs = match method {
        PartitionMethod::SlabsEqual => slabs::equal(layers.len(), devices),
        PartitionMethod::SlabsLeastSquares => slabs::least_squares(&layers, devices),
        _ => slabs::min_max(&layers, devices),
    };
    let part = |run: std::ops::Range<usize>| {
        let mut part = VoxelBox::new([0; 3], counts);
        part.lo[axis] = u32::try_from(run.start).unwrap_or(u32::MAX);
        part.hi[axis] = u32::try_from(run.end).unwrap_or(u32::MAX);
        part
    };
    Some(runs.into_iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const METHODS: [PartitionMethod; 5] = [
        PartitionMethod::Grid,
        PartitionMethod::SlabsEqual,
        PartitionMethod::SlabsMinMax,
        PartitionMethod::SlabsLeastSquares,
        PartitionMethod::KdTree,
    ];

    #[test]
    fn weights_decide_where_planes_lie() {
        let grid = BrickGrid::new([64, 8, 8], 8).unwrap();
        // Eight bricks in a row, nearly all in the first.
        let weights = [90, 10, 10, 10, 10, 10, 10, 10];
        let held = |method, capacity| {
            let held = place_partition(&grid, &weights, &[capacity; 2], method, 1)?;
            Some(held.iter().map(BrickSet::len).collect::<Vec<u32>>())
        };
        assert_eq!(held(PartitionMethod::KdTree, 8), Some(vec![1, 7]));
        assert_eq!(held(PartitionMethod::SlabsMinMax, 8), Some(vec![1, 7]));
        assert_eq!(held(PartitionMethod::SlabsEqual, 8), Some(vec![4, 4]));
        // Too little room for that: who has more than it takes gets less.
        assert_eq!(held(PartitionMethod::KdTree, 5), Some(vec![3, 5]));
        assert_eq!(held(PartitionMethod::KdTree, 3), None);
        assert_eq!(held(PartitionMethod::BrickGrouping, 8), None);
    }

    #[test]
    fn devices_of_unlike_room_get_unlike_parts() {
        let grid = BrickGrid::new([64; 3], 8).unwrap();
        let capacities = [64, 512, 512, 128];
        let held =
            place_partition(&grid, &[1; 512], &capacities, PartitionMethod::KdTree, 1).unwrap();
        let lengths: Vec<u32> = held.iter().map(BrickSet::len).collect();
        assert_eq!(lengths.iter().sum::<u32>(), 512);
        assert!(
            lengths.iter().zip(capacities).all(|(&l, c)| l <= c),
            "{lengths:?}"
        );
    }

    proptest! {
        #[test]
        fn every_brick_has_its_copies_within_the_capacities(
            counts in prop::array::uniform3(1u32..6), devices in 1usize..7, copies in 1u32..4, seed in any::<u64>(), tight in 0u32..3
        ) {
            let grid = BrickGrid::new(counts.map(|n| n * 8), 8).unwrap();
            let weights: Vec<u64> = grid.bricks().map(|b| (seed >> (b.0 % 60)) % 7).collect();
            let capacities: Vec<u32> = (0..u32::try_from(devices).unwrap())
                .map(|d| grid.brick_count() * (1 + (d + tight) % 3) / 2)
                .collect();
            let with_room = capacities.iter().filter(|&&c| c > 0).count();
            for method in METHODS {
                let Some(held) = place_partition(&grid, &weights, &capacities, method, copies) else {
                    // Few bricks cannot be shared as the capacities need it.
                    let room: u32 = capacities.iter().map(|&c| c.min(grid.brick_count())).sum();
                    let copies = copies.min(u32::try_from(with_room).unwrap());
                    let is_easy = room >= 2 * copies * grid.brick_count()
                        && grid.brick_count() as usize >= 16 * devices;
                    prop_assert!(method != PartitionMethod::KdTree || !is_easy);
                    continue;
                };
                prop_assert!(held.iter().zip(&capacities).all(|(h, &c)| h.len() <= c));
                for brick in grid.bricks() {
                    let holders = held.iter().filter(|h| h.contains(brick)).count();
                    prop_assert_eq!(holders, (copies as usize).min(with_room));
                }
            }
        }
    }
}

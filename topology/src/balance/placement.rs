//! Redundant placement: which device should hold which bricks.
//!
//! Shapes: n bricks and D devices with a capacity in bricks each; out, per device, the bricks it
//! should hold, ascending.
//! Invariants: no brick twice on a device; no device above its capacity, and each full as far as
//! there are bricks; every brick is placed before any is placed again, and [`place`] leaves the
//! copies of any two bricks at most one apart wherever one device could make up for it.
//!
//! Source: Frey, Ertl, "Load Balancing Utilizing Data Redundancy in Distributed Volume
//! Rendering", EGPGV 2011, section 4: listing 1 (dealing), listing 2 (swapping, in `swap`),
//! equation (1) (quality). Addition: copies are levelled between the two steps (`level`).

pub mod comparison;
pub mod drift;
pub mod partitioned;
mod swap;

use crate::{
    base::seeded::Seeded,
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        brick_set::BrickSet,
    },
};
use serde::{Deserialize, Serialize};

/// A strategy of placement; all but the first are there to be compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementMethod {
    /// As many copies as there is room for, each device's bricks scattered.
    #[default]
    Redundant,
    /// Each brick on one device, each device's bricks scattered.
    Single,
    /// As many copies as there is room for, each device's bricks close together.
    Clustered,
    /// Each brick on one device, close together: about the usual one block a device.
    ClusteredSingle,
}

impl PlacementMethod {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Redundant,
        Self::Single,
        Self::Clustered,
        Self::ClusteredSingle,
    ];

    /// Whether a brick is placed on one device only.
    #[must_use]
    pub fn is_single(self) -> bool {
        matches!(self, Self::Single | Self::ClusteredSingle)
    }

    /// Whether a device's bricks are to lie close together.
    #[must_use]
    pub fn is_clustered(self) -> bool {
        matches!(self, Self::Clustered | Self::ClusteredSingle)
    }
}

/// Who should hold what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bricks of each device, in the order of the capacities.
    pub held: Vec<BrickSet>,
    /// Pairs of bricks that were swapped between devices.
    pub swaps: u64,
}

/// Most steps that the first tables of the swaps may take: bricks times copies of bricks. The
/// largest placement below it takes minutes (4096 bricks on 64 devices of 200: a twentieth of it,
/// 5 s).
pub const SWAP_WORK_MAX: u64 = 1 << 30;
/// Most entries of those tables: devices times bricks, and devices squared.
pub const SWAP_ENTRIES_MAX: u64 = 1 << 25;

/// Places bricks on devices: deals, levels the copies, then swaps until no pair of devices gains.
///
/// `capacities[d]` is device d's room in bricks. The same input gives the same placement on every
/// machine. The swaps end as the paper's do, when a round over all pairs of devices brings none:
/// each raises the sum of the devices' qualities per brick, a whole number here, which is bounded.
/// Placements beyond
/// [`SWAP_WORK_MAX`] or [`SWAP_ENTRIES_MAX`] are dealt and levelled only.
#[must_use]
pub fn place(
    grid: &BrickGrid,
    capacities: &[u32],
    method: PlacementMethod,
    seed: u64,
) -> Placement {
    let brick_count = grid.brick_count();
    let mut held = if method.is_single() {
        deal(brick_count, &shares(brick_count, capacities, 1), seed)
    } else {
        deal(brick_count, capacities, seed)
    };
    level(brick_count, &mut held);
    let (bricks, devices) = (u64::from(brick_count), held.len() as u64);
    let copies: u64 = held.iter().map(|h| u64::from(h.len())).sum();
    let feasible =
        copies * bricks <= SWAP_WORK_MAX && devices * bricks.max(devices) <= SWAP_ENTRIES_MAX;
    let swaps = if feasible {
        swap::swap(grid, &mut held, method.is_clustered())
    } else {
        0
    };
    Placement { held, swaps }
}

/// Bricks times copies up to which [`place_at_once`] swaps: about a fifth of a second, in which a peer does nothing
/// else.
const AT_ONCE_WORK_MAX: u64 = 1 << 21;

/// What a mesh starts with: bricks scattered by [`place`], or dealt only where that would take long.
#[must_use]
pub fn place_at_once(grid: &BrickGrid, capacities: &[u32], seed: u64) -> Vec<BrickSet> {
    let copies: u64 = capacities.iter().map(|&c| u64::from(c)).sum();
    if copies * u64::from(grid.brick_count()) <= AT_ONCE_WORK_MAX {
        place(grid, capacities, PlacementMethod::Redundant, seed).held
    } else {
        deal(grid.brick_count(), capacities, seed)
    }
}

/// Exchanges, on single devices, bricks of many copies for bricks of fewer, until no two bricks'
/// copies are more than one apart (criterion (b)).
///
/// Dealing alone can leave two between them when devices are of unlike size. A brick with more
/// copies always has a holder that lacks the other one, so this always ends level.
fn level(brick_count: u32, held: &mut [BrickSet]) {
    let mut copies = vec![0_u32; brick_count as usize];
    for brick in held.iter().flat_map(BrickSet::iter) {
        copies[brick.0 as usize] += 1;
    }
    let bricks = || (0..brick_count).map(BrickIndex);
    loop {
        let (most, least) = (
            bricks().max_by_key(|b| (copies[b.0 as usize], std::cmp::Reverse(b.0))),
            bricks().min_by_key(|b| (copies[b.0 as usize], b.0)),
        );
        let (Some(most), Some(least)) = (most, least) else {
            return;
        };
        if copies[most.0 as usize] < copies[least.0 as usize] + 2 {
            return;
        }
        let holder = |h: &&mut BrickSet| h.contains(most) && !h.contains(least);
        let Some(holder) = held.iter_mut().find(holder) else {
            return;
        };
        holder.remove(most);
        holder.insert(least);
        copies[most.0 as usize] -= 1;
        copies[least.0 as usize] += 1;
    }
}

/// Deals shuffled bricks to shuffled devices (listing 1). `capacities[d]` is device d's room in
/// bricks. The same seed gives the same placement. O(bricks · copies · D).
#[must_use]
pub fn deal(brick_count: u32, capacities: &[u32], seed: u64) -> Vec<BrickSet> {
    let mut held = vec![BrickSet::new(brick_count); capacities.len()];
    let mut draws = Seeded::new(seed);
    let mut devices: Vec<usize> = (0..capacities.len())
        .filter(|&d| capacities[d] > 0)
        .collect();
    let mut bricks: Vec<BrickIndex> = (0..brick_count).map(BrickIndex).collect();
    draws.shuffle(&mut devices);
    draws.shuffle(&mut bricks);
    let (mut b, mut d) = (0, 0);
    // The device at which a brick that its predecessor already held began to look for a place.
    let mut looking_since = None;
    while !devices.is_empty() && !bricks.is_empty() {
        let device = devices[d];
        if held[device].insert(bricks[b]) {
            b += 1;
            looking_since = None;
            if held[device].len() == capacities[device] {
                devices.remove(d);
            } else {
                d += 1;
            }
        } else if looking_since == Some(d) {
            // Every device with room holds it: it cannot be placed any more.
            bricks.remove(b);
            looking_since = None;
            d += 1;
        } else {
            looking_since.get_or_insert(d);
            d += 1;
        }
        if d >= devices.len() {
            d = 0;
            if looking_since.is_none() {
                draws.shuffle(&mut devices);
            }
        }
        if b >= bricks.len() {
            b = 0;
            draws.shuffle(&mut bricks);
        }
    }
    held
}

/// How many bricks each device should hold for `redundancy` copies of every brick, none above
/// its room, the rest shared as evenly as the rooms allow.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a share is at most a room, which is a u32"
)]
pub fn shares(brick_count: u32, rooms: &[u32], redundancy: u32) -> Vec<u32> {
    let mut order: Vec<usize> = (0..rooms.len()).collect();
    order.sort_by_key(|&d| (rooms[d], d));
    let mut left = u64::from(brick_count) * u64::from(redundancy);
    let mut out = vec![0; rooms.len()];
    for (done, &d) in order.iter().enumerate() {
        let even = left.div_ceil((rooms.len() - done) as u64);
        let room = u64::from(rooms[d].min(brick_count));
        out[d] = even.min(room) as u32;
        left -= u64::from(out[d]);
    }
    out
}

/// Quality of a device's bricks: the sum over ordered pairs of the square root of their distance
/// in bricks (equation (1)); larger is more scattered.
#[must_use]
pub fn quality(grid: &BrickGrid, held: &BrickSet) -> f64 {
    let at: Vec<[f64; 3]> = held
        .iter()
        .map(|b| grid.coordinates(b).map(f64::from))
        .collect();
    let mut sum = 0.0;
    for a in &at {
        for b in &at {
            let square: f64 = (0..3).map(|x| (a[x] - b[x]) * (a[x] - b[x])).sum();
            sum += square.sqrt().sqrt();
        }
    }
    sum
}

/// Copies per brick on average (equation (3)).
#[must_use]
pub fn redundancy(brick_count: u32, held: &[BrickSet]) -> f64 {
    held.iter().map(|h| f64::from(h.len())).sum::<f64>() / f64::from(brick_count.max(1))
}

#[cfg(test)]
mod tests;

//! Redundant placement: which device should hold which bricks.
//!
//! Shapes: n bricks and D devices with a capacity in bricks each; out, per device, the bricks it
//! should hold, ascending.
//! Invariants: no brick twice on a device; no device above its capacity; every brick is placed
//! before any is placed again, so copies differ by at most one while devices have room that the
//! brick can use.
//!
//! Source: Frey, Ertl, "Load Balancing Utilizing Data Redundancy in Distributed Volume
//! Rendering", EGPGV 2011, section 4, listing 1 (dealing), equation (1) (quality).
//! Not here: their second step, swapping bricks between devices.

use crate::{
    brick_grid::{BrickGrid, BrickIndex},
    brick_set::BrickSet,
    seeded::Seeded,
};

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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn copies(brick_count: u32, held: &[BrickSet]) -> Vec<usize> {
        (0..brick_count)
            .map(|b| held.iter().filter(|h| h.contains(BrickIndex(b))).count())
            .collect()
    }

    proptest! {
        #[test]
        fn capacities_are_kept_and_used(
            bricks in 1u32..80, capacities in prop::collection::vec(0u32..60, 1..9), seed in 0u64..1000
        ) {
            let held = deal(bricks, &capacities, seed);
            for (h, &c) in held.iter().zip(&capacities) {
                prop_assert!(h.len() <= c);
            }
            let room: u32 = capacities.iter().sum();
            let copies = copies(bricks, &held);
            if room >= bricks {
                prop_assert!(copies.iter().all(|&n| n >= 1), "every brick before any again");
            }
            prop_assert_eq!(&held, &deal(bricks, &capacities, seed));
        }

        #[test]
        fn equal_devices_hold_equal_copies(bricks in 2u32..80, devices in 1usize..9, redundancy in 1u32..4, seed in 0u64..99) {
            let redundancy = redundancy.min(u32::try_from(devices).unwrap());
            let rooms = shares(bricks, &vec![bricks; devices], redundancy);
            prop_assert_eq!(rooms.iter().sum::<u32>(), bricks * redundancy);
            let held = deal(bricks, &rooms, seed);
            let copies = copies(bricks, &held);
            let (least, most) = (copies.iter().min().unwrap(), copies.iter().max().unwrap());
            prop_assert!(most - least <= 2, "{:?}", copies);
            prop_assert!(*least >= 1);
        }
    }

    #[test]
    fn shares_fill_small_devices_and_leave_the_rest_to_large_ones() {
        assert_eq!(shares(100, &[10, 1000, 1000], 2), [10, 95, 95]);
        assert_eq!(shares(100, &[10, 20], 1), [10, 20]);
        assert_eq!(shares(10, &[1000], 3), [10]);
    }

    #[test]
    fn quality_counts_ordered_pairs_of_root_distances() {
        let grid = BrickGrid::new([32, 8, 8], 8).unwrap();
        let mut held = BrickSet::new(4);
        held.insert(BrickIndex(0));
        held.insert(BrickIndex(1));
        held.insert(BrickIndex(3));
        let expected = 2.0 * (1.0 + 3.0_f64.sqrt() + 2.0_f64.sqrt());
        assert!((quality(&grid, &held) - expected).abs() < 1e-12);
    }
}

//! Claims about placements; the paper's listing 2, written plainly, is the reference for the swaps.

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

/// Listing 2 as it stands in the paper: the quality of every possible swap is computed anew. Roots
/// are rounded as in `swap`, so that sums and ties are exact here too; qualities count per brick.
fn listing_2(grid: &BrickGrid, held: &mut [BrickSet], sign: i64) -> u64 {
    let root = |a: BrickIndex, b: BrickIndex| {
        let (a, b) = (grid.coordinates(a), grid.coordinates(b));
        let square: u32 = (0..3).map(|i| a[i].abs_diff(b[i]).pow(2)).sum();
        #[expect(clippy::cast_possible_truncation, reason = "a small number")]
        let fixed = (f64::from(square).sqrt().sqrt() * f64::from(1 << 20)).round() as i64;
        fixed
    };
    let quality = |set: &BrickSet| -> i64 {
        let pairs = set.iter().flat_map(|a| set.iter().map(move |b| (a, b)));
        sign * pairs.map(|(a, b)| root(a, b)).sum::<i64>()
    };
    let swapped = |d: &BrickSet, out, into| {
        let mut set = d.clone();
        (set.remove(out) && set.insert(into)).then_some(set)
    };
    let mut swaps = 0;
    loop {
        let mut stable = true;
        for d0 in 0..held.len() {
            for d1 in d0 + 1..held.len() {
                let bricks = [d1, d0].map(|d| i64::from(held[d].len()));
                let sum = |s0: &_, s1: &_| bricks[0] * quality(s0) + bricks[1] * quality(s1);
                let mut best_quality = sum(&held[d0], &held[d1]);
                let mut best = None;
                for b0 in held[d0].iter() {
                    for b1 in held[d1].iter() {
                        let (Some(s0), Some(s1)) =
                            (swapped(&held[d0], b0, b1), swapped(&held[d1], b1, b0))
                        else {
                            continue;
                        };
                        let q = sum(&s0, &s1);
                        if q > best_quality {
                            (best_quality, best) = (q, Some((s0, s1)));
                        }
                    }
                }
                if let Some((s0, s1)) = best {
                    (held[d0], held[d1]) = (s0, s1);
                    swaps += 1;
                    stable = false;
                }
            }
        }
        if stable {
            return swaps;
        }
    }
}

fn grid(counts: [u32; 3]) -> BrickGrid {
    BrickGrid::new(counts.map(|n| n * 8), 8).unwrap()
}

/// The sum of the devices' qualities per brick.
fn total_quality(grid: &BrickGrid, held: &[BrickSet]) -> f64 {
    let mean = |h: &BrickSet| quality(grid, h) / f64::from(h.len().max(1));
    held.iter().map(mean).sum()
}

/// Mean over a device's bricks of the distance to its nearest other brick.
fn mean_nearest(grid: &BrickGrid, held: &[BrickSet]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for h in held {
        for a in h.iter() {
            let at = |b| grid.coordinates(b).map(f64::from);
            let square = |b| (0..3).map(|i| (at(a)[i] - at(b)[i]).powi(2)).sum::<f64>();
            let others = h.iter().filter(|&b| b != a);
            sum += others.map(square).fold(f64::INFINITY, f64::min).sqrt();
            count += 1.0;
        }
    }
    sum / count
}

fn starting_point(
    grid: &BrickGrid,
    rooms: &[u32],
    method: PlacementMethod,
    seed: u64,
) -> Vec<BrickSet> {
    let n = grid.brick_count();
    let rooms = if method.is_single() {
        shares(n, rooms, 1)
    } else {
        rooms.to_vec()
    };
    let mut held = deal(n, &rooms, seed);
    level(n, &mut held);
    held
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn swaps_are_those_of_the_papers_listing(
        counts in prop::array::uniform3(1u32..4), rooms in prop::collection::vec(0u32..9, 1..5),
        which in 0usize..4, seed in 0u64..1000
    ) {
        let (grid, method) = (grid(counts), PlacementMethod::ALL[which]);
        let mut plain = starting_point(&grid, &rooms, method, seed);
        let swaps = listing_2(&grid, &mut plain, if method.is_clustered() { -1 } else { 1 });
        let placed = place(&grid, &rooms, method, seed);
        prop_assert_eq!(&placed, &Placement { held: plain, swaps });
    }

    #[test]
    fn rooms_are_full_and_copies_level_whatever_the_rooms(
        counts in prop::array::uniform3(1u32..6), rooms in prop::collection::vec(0u32..70, 1..9),
        which in 0usize..4, seed in 0u64..1000
    ) {
        let (grid, method) = (grid(counts), PlacementMethod::ALL[which]);
        let n = grid.brick_count();
        let placed = place(&grid, &rooms, method, seed);
        let share = shares(n, &rooms, 1);
        for (d, h) in placed.held.iter().enumerate() {
            let room = if method.is_single() { share[d] } else { rooms[d].min(n) };
            prop_assert_eq!(h.len(), room, "criterion (a)");
            prop_assert!(h.is_valid(n));
        }
        let copies = copies(n, &placed.held);
        let spread = copies.iter().max().unwrap() - copies.iter().min().unwrap();
        prop_assert!(spread <= 1, "criterion (b): {:?}", copies);
        let before = starting_point(&grid, &rooms, method, seed);
        prop_assert_eq!(&copies, &tests::copies(n, &before), "swaps change no copies");
        let (was, is) = (total_quality(&grid, &before), total_quality(&grid, &placed.held));
        let gained = if method.is_clustered() { was - is } else { is - was };
        prop_assert!(gained >= -1e-6 * was, "{} to {}", was, is);
        prop_assert_eq!(placed, place(&grid, &rooms, method, seed));
    }
}

#[test]
fn two_devices_share_about_what_chance_would_let_them() {
    let grid = grid([8, 8, 8]);
    for rooms in [
        [96_u32; 16],
        std::array::from_fn(|d| [48, 54, 60, 90, 120, 138][d % 6]),
    ] {
        let held = place(&grid, &rooms, PlacementMethod::Redundant, 1).held;
        for d0 in 0..held.len() {
            for d1 in 0..d0 {
                let shared = held[d0].iter().filter(|&b| held[d1].contains(b)).count();
                let chance = f64::from(rooms[d0]) * f64::from(rooms[d1]) / 512.0;
                let shared = f64::from(u32::try_from(shared).unwrap());
                assert!(
                    shared <= chance + 5.0 * chance.sqrt(),
                    "criterion (c): {shared} for {chance}"
                );
            }
        }
    }
}

#[test]
fn swaps_move_a_devices_bricks_apart() {
    let grid = grid([8, 8, 8]);
    for rooms in [
        [32_u32; 16],
        std::array::from_fn(|d| [16, 22, 32, 46][d / 4]),
    ] {
        for (method, nearer) in [
            (PlacementMethod::Redundant, false),
            (PlacementMethod::Single, false),
            (PlacementMethod::Clustered, true),
            (PlacementMethod::ClusteredSingle, true),
        ] {
            let dealt = starting_point(&grid, &rooms, method, 1);
            let placed = place(&grid, &rooms, method, 1);
            assert!(placed.swaps > 0);
            let (was, is) = (
                mean_nearest(&grid, &dealt),
                mean_nearest(&grid, &placed.held),
            );
            assert_eq!(is < was, nearer, "criterion (d): {method:?} {was} to {is}");
        }
    }
}

#[test]
fn a_stored_placement_would_be_found_again() {
    let placed = place(&grid([3, 3, 3]), &[10; 8], PlacementMethod::Redundant, 1);
    let words: [u64; 8] = std::array::from_fn(|d| placed.held[d].words()[0]);
    assert_eq!(
        (placed.swaps, words),
        FROZEN,
        "placements of meshes that run would change"
    );
}

const FROZEN: (u64, [u64; 8]) = (
    48,
    [
        35299980, 71620881, 70355730, 29754481, 44123788, 25777474, 22421605, 103295146,
    ],
);

//! Brick grouping beside brute force, and the paper's figure 5.

use super::*;
use crate::{base::seeded::Seeded, data::voxel_box::VoxelBox};

fn limits(bricks_max: usize, count: bool) -> GroupingLimits {
    GroupingLimits {
        bricks_max,
        states_max: usize::MAX,
        count,
    }
}

fn eq_1(render: f64, local: f64, x: f64) -> Prices {
    Prices {
        render,
        local,
        send: Sending::Each(x),
    }
}

/// Calls `of` with every way to part `count` bricks: the part of each.
fn partitions(count: usize, of: &mut impl FnMut(&[usize], usize)) {
    fn go(
        count: usize,
        parts: usize,
        part_of: &mut Vec<usize>,
        of: &mut impl FnMut(&[usize], usize),
    ) {
        if part_of.len() == count {
            of(part_of, parts);
            return;
        }
        for part in 0..=parts {
            part_of.push(part);
            go(count, parts.max(part + 1), part_of, of);
            part_of.pop();
        }
    }
    go(count, 0, &mut Vec::new(), of);
}

/// Whether cells are connected, small enough, and without a circle among them: by definition, not as the search does.
fn is_feasible(
    links: &[(usize, usize)],
    part_of: &[usize],
    parts: usize,
    bricks_max: usize,
) -> bool {
    for part in 0..parts {
        let inside: Vec<usize> = (0..part_of.len()).filter(|&b| part_of[b] == part).collect();
        if inside.len() > bricks_max {
            return false;
        }
        let mut met = vec![inside[0]];
        let mut at = 0;
        while at < met.len() {
            for &(a, b) in links {
                for (from, to) in [(a, b), (b, a)] {
                    if from == met[at] && part_of[to] == part && !met.contains(&to) {
                        met.push(to);
                    }
                }
            }
            at += 1;
        }
        if met.len() < inside.len() {
            return false;
        }
    }
    let between: Vec<(usize, usize)> = links
        .iter()
        .map(|&(a, b)| (part_of[a], part_of[b]))
        .filter(|(a, b)| a != b)
        .collect();
    Precedence::of_links(parts, &between).is_ok()
}

fn brute_force(
    count: usize,
    links: &[(usize, usize)],
    prices: &Prices,
    bricks_max: usize,
) -> (u128, f64) {
    let (mut feasible, mut least) = (0, f64::INFINITY);
    partitions(count, &mut |part_of, parts| {
        if is_feasible(links, part_of, parts, bricks_max) {
            let size = |part: usize| part_of.iter().filter(|&&p| p == part).count();
            let largest = (0..parts).map(size).max().unwrap_or(0);
            feasible += 1;
            least = least.min(prices.cost(count, parts, largest));
        }
    });
    (feasible, least)
}

/// What was found is feasible and costs what is said.
fn check(
    links: &[(usize, usize)],
    count: usize,
    prices: &Prices,
    bricks_max: usize,
    found: &Grouping,
) {
    let mut part_of = vec![usize::MAX; count];
    for (c, cell) in found.cells.iter().enumerate() {
        for &b in cell {
            assert_eq!(part_of[b], usize::MAX);
            part_of[b] = c;
        }
    }
    assert!(part_of.iter().all(|&p| p != usize::MAX));
    assert!(is_feasible(links, &part_of, found.cells.len(), bricks_max));
    assert!(
        links.iter().all(|&(a, b)| part_of[a] <= part_of[b]),
        "front to back"
    );
    let largest = found.cells.iter().map(Vec::len).max().unwrap_or(0);
    let cost = prices.cost(count, found.cells.len(), largest);
    assert!((cost - found.cost).abs() <= 0.0);
}

#[test]
fn cost_and_number_of_feasible_partitions_are_those_of_brute_force() {
    let mut draws = Seeded::new(2009);
    let mut below = |n: usize| usize::try_from(draws.below(n as u64)).unwrap();
    for round in 0..1000 {
        // Mostly small ones: nine bricks have 21,147 partitions.
        let count = if round % 20 == 0 { 9 } else { 1 + below(7) };
        let density = 1 + below(4);
        let mut names: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            names.swap(i, below(i + 1));
        }
        let mut links = Vec::new();
        for a in 0..count {
            for b in a + 1..count {
                if below(5) < density {
                    links.push((names[a], names[b]));
                }
            }
        }
        let bricks_max = 1 + below(count);
        let price = |n: usize| f64::from(u32::try_from(n).unwrap()) * 0.25;
        let (first, further) = (price(below(40)), price(below(40)));
        let send = if below(2) == 0 {
            Sending::Each(first)
        } else {
            let nodes = 1 + below(4);
            Sending::TwoTier {
                first,
                further,
                nodes,
            }
        };
        let prices = Prices {
            render: price(below(40)),
            local: price(below(12)),
            send,
        };
        let precedence = Precedence::of_links(count, &links).unwrap();
        let (feasible, least) = brute_force(count, &links, &prices, bricks_max);
        let counted = group(&precedence, &prices, &limits(bricks_max, true));
        assert_eq!(
            counted.feasible,
            Some(feasible),
            "{links:?}, M {bricks_max}"
        );
        for found in [
            counted,
            group(&precedence, &prices, &limits(bricks_max, false)),
        ] {
            assert!(
                (found.cost - least).abs() <= 0.0,
                "{links:?} {prices:?} {bricks_max}: {found:?}"
            );
            assert!(found.is_optimal);
            check(&links, count, &prices, bricks_max, &found);
        }
    }
}

/// Figure 5: stage d of bricks a < b, c, d with M = 2; d lies before b and c, which lie before what was placed first.
#[test]
fn figure_5_adds_a_brick_to_a_cell_or_begins_one() {
    // Bricks 0 (d), 1 (b), 2 (c), 3 (a): d before b and c, both before a.
    let links = [(0, 1), (0, 2), (1, 3), (2, 3)];
    let precedence = Precedence::of_links(4, &links).unwrap();
    let stages = Stages::new(&precedence);
    let start = Key::default();
    let step = |stage: usize, keys: Vec<Key>| {
        let mut next = std::collections::BTreeSet::new();
        for key in &keys {
            stages.successors(stage, key, 2, |key, _| {
                next.insert(key);
                true
            });
        }
        next.into_iter().collect::<Vec<Key>>()
    };
    let before_d = step(2, step(1, step(0, vec![start])));
    // {a}{b}{c}, {ab}{c}, {ac}{b}: the postconditions p0, p1, p2 of the figure.
    assert_eq!(before_d.len(), 3);
    let ways = |key: &Key| {
        let mut joined = Vec::new();
        stages.successors(3, key, 2, |_, j| {
            joined.push(j.len());
            true
        });
        joined.sort_unstable();
        joined
    };
    let mut all: Vec<Vec<usize>> = before_d.iter().map(ways).collect();
    all.sort();
    // Alone, with b or with c where both are single; alone or with the single one where the other is full.
    assert_eq!(all, [vec![0, 1], vec![0, 1], vec![0, 1, 1]]);
}

#[test]
fn equation_1_weighs_sending_against_the_largest_cell() {
    // A row of six bricks, each before the next.
    let links: Vec<(usize, usize)> = (0..5).map(|i| (i, i + 1)).collect();
    let precedence = Precedence::of_links(6, &links).unwrap();
    let found = |prices: &Prices, bricks_max| group(&precedence, prices, &limits(bricks_max, true));
    let cheap = found(&eq_1(10.0, 0.0, 1.0), 6);
    assert_eq!((cheap.cells.len(), cheap.cost), (6, 15.0));
    assert_eq!(
        cheap.feasible,
        Some(32),
        "a row is cut at any of its five joints"
    );
    let dear = found(&eq_1(10.0, 0.0, 100.0), 6);
    assert_eq!((dear.cells.len(), dear.cost), (1, 60.0));
    let two = found(&eq_1(10.0, 1.0, 25.0), 3);
    assert_eq!(
        (two.cells, two.cost),
        (vec![vec![0, 1, 2], vec![3, 4, 5]], 59.0)
    );
    // Two nodes: further images cost more.
    let send = Sending::TwoTier {
        first: 1.0,
        further: 50.0,
        nodes: 2,
    };
    let tiers = Prices {
        render: 10.0,
        local: 0.0,
        send,
    };
    assert_eq!(found(&tiers, 6).cells.len(), 2);
}

#[test]
fn bricks_that_one_in_front_joins_are_a_cell() {
    // The paper's transitions would end with two cells: b and c are placed before a.
    let precedence = Precedence::of_links(3, &[(0, 1), (0, 2)]).unwrap();
    let found = group(&precedence, &eq_1(1.0, 0.0, 10.0), &limits(3, true));
    assert_eq!(
        (found.cells, found.feasible),
        (vec![vec![0, 1, 2]], Some(4))
    );
}

#[test]
fn too_many_states_are_said_to_be_no_proof() {
    let links: Vec<(usize, usize)> = (0..8).flat_map(|a| (8..16).map(move |b| (a, b))).collect();
    let precedence = Precedence::of_links(16, &links).unwrap();
    let few = GroupingLimits {
        bricks_max: 4,
        states_max: 50,
        count: false,
    };
    let prices = eq_1(1.0, 0.1, 0.5);
    let found = group(&precedence, &prices, &few);
    assert!(!found.is_optimal);
    check(&links, 16, &prices, 4, &found);
}

#[test]
fn the_bound_of_section_5_5() {
    // A = 2, M = 3: (2 + 4) + (2 + 4 + 8).
    assert!((stage_bound(2.0, 3) - 20.0).abs() < 1e-12);
    assert!(stage_bound(3.0, 1) - 3.0 < 1e-12);
}

/// Equation 1 where its optimum is known: a search whose work grows with the bricks alone finds as good a partition.
#[test]
fn a_search_of_256_states_a_stage_is_within_a_hundredth_of_the_optimum() {
    let mut draws = Seeded::new(61);
    let mut below = |n: u32| u32::try_from(draws.below(n.into())).unwrap();
    let mut known = 0;
    for _ in 0..60 {
        // What is not empty of 3×3×3 bricks.
        let (share, at) = (2 + below(6), |i: u32| [i % 3, i / 3 % 3, i / 9]);
        let boxes: Vec<VoxelBox> = (0..27)
            .filter(|_| below(9) < share)
            .map(|i| VoxelBox::new(at(i), at(i).map(|c| c + 1)))
            .collect();
        let precedence = Precedence::of_boxes(&boxes, [1.0, -0.5, 0.7]).unwrap();
        let local = 0.1 * f64::from(below(5));
        let prices = eq_1(1.0, local, 0.2 * f64::from(below(20)));
        let bricks_max = 2 + below(5) as usize;
        let found = |states_max| {
            let limits = GroupingLimits {
                bricks_max,
                states_max,
                count: false,
            };
            group(&precedence, &prices, &limits)
        };
        let optimum = found(1 << 16);
        if optimum.is_optimal {
            let few = found(256).cost / optimum.cost;
            assert!(few <= 1.01, "{} bricks: {few}", boxes.len());
            known += usize::from(optimum.states > 2000);
        }
    }
    assert!(known >= 15, "of large ones the optimum of {known} is known");
}

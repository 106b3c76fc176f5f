//! Swaps of bricks between devices until each device's bricks are scattered, or clustered.
//!
//! Shapes: n bricks, D devices; tables of D·n sums.
//! Invariants: a swap changes neither how many bricks a device holds nor how many copies a brick
//! has; no brick gets twice on a device; each swap raises the sum of the devices' mean qualities.
//!
//! Source: Frey, Ertl 2011, section 4, listing 2: for each pair of devices the most beneficial
//! pair of bricks is exchanged, until a round over all pairs brings no swap. Same result, but
//! nothing is summed anew: with `S_d[b]` the sum of roots of distances from brick b to the bricks of
//! device d, swapping b0 of d0 for b1 of d1 changes q(d0) by twice
//! `S_d0[b1] − S_d0[b0] − root(b0, b1)`, and q(d1) likewise. Bricks are looked at by descending
//! part of their own in the gain, so most pairs are never looked at; pairs of devices that have
//! not changed since they were looked at in vain are left out. O(n) per swap for the tables.
//!
//! Deviation: q(d) counts per brick of the device. As it stands in equation (1) it grows with the
//! square of their number, so large devices would take the outer bricks from small ones, whose
//! bricks would end up close together and the same. For equal devices it makes no difference.
//!
//! Whole numbers: roots are rounded to 2⁻²⁰ once, so sums are exact in any order, ties are ties
//! (the lowest bricks win) on every machine, and rounding noise cannot swap for ever.

use crate::data::{
    brick_grid::{BrickGrid, BrickIndex},
    brick_set::BrickSet,
};

/// A distance root of 1, the smallest between two bricks.
const ONE: i64 = 1 << 20;

/// Roots of distances between bricks, by their signed difference on each axis: one subtraction
/// and one look-up a pair.
struct Roots {
    table: Vec<i32>,
    /// Each brick's place in a grid that is wide enough for differences not to wrap.
    places: Vec<u32>,
    /// Where the difference 0 stands in the table.
    middle: u32,
    /// The largest of them.
    farthest: i64,
}

impl Roots {
    fn new(grid: &BrickGrid) -> Self {
        let counts = grid.counts();
        let wide = counts.map(|c| 2 * c - 1);
        let place = |[x, y, z]: [u32; 3]| x + wide[0] * (y + wide[1] * z);
        let mut table = Vec::with_capacity(wide.iter().map(|&w| w as usize).product());
        for z in 0..wide[2] {
            for y in 0..wide[1] {
                for x in 0..wide[0] {
                    let apart = [x, y, z].into_iter().zip(counts);
                    table.push(root(apart.map(|(a, c)| (a + 1).abs_diff(c))));
                }
            }
        }
        Self {
            farthest: table.first().copied().unwrap_or(0).into(),
            table,
            places: grid.bricks().map(|b| place(grid.coordinates(b))).collect(),
            middle: place(counts.map(|c| c - 1)),
        }
    }

    /// The root of the distance of the bricks at two places.
    fn between(&self, a: u32, b: u32) -> i64 {
        self.table[(self.middle + a - b) as usize].into()
    }

    /// Adds `sign` times the roots of all distances to `brick` to a device's sums.
    fn add_to(&self, sums: &mut [i64], brick: u32, sign: i64) {
        let place = self.places[brick as usize];
        for (sum, &b) in sums.iter_mut().zip(&self.places) {
            *sum += sign * self.between(b, place);
        }
    }
}

/// The root of a distance given by its parts on the axes, in units of 2⁻²⁰.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a grid of 2^20 bricks has distances below 2^20; see also the limit"
)]
fn root(apart: impl Iterator<Item = u32>) -> i32 {
    let square: u64 = apart.map(|a| u64::from(a) * u64::from(a)).sum();
    ((square as f64).sqrt().sqrt() * ONE as f64).round() as i32
}

/// The state of the swaps.
struct Swapper<'a> {
    roots: Roots,
    held: &'a mut [BrickSet],
    /// `S_d[b]` of each device.
    sums: Vec<Vec<i64>>,
    /// Swaps that each device took part in.
    changes: Vec<u64>,
    /// 1: scatter, −1: cluster.
    sign: i64,
}

/// A brick that could leave its device, and what that alone brings.
#[derive(Clone, Copy)]
struct Candidate {
    gain: i64,
    brick: u32,
    /// Its place, for [`Roots::between`].
    place: u32,
}

/// Swaps bricks between the devices of `held` as long as that improves their quality, or with
/// `clustered` the inverse of it. Returns the number of swaps.
pub(super) fn swap(grid: &BrickGrid, held: &mut [BrickSet], clustered: bool) -> u64 {
    let roots = Roots::new(grid);
    let sums = held.iter().map(|h| {
        let mut sums = vec![0; roots.places.len()];
        h.iter().for_each(|b| roots.add_to(&mut sums, b.0, 1));
        sums
    });
    let sums = sums.collect();
    let mut swapper = Swapper {
        roots,
        sums,
        changes: vec![0; held.len()],
        held,
        sign: if clustered { -1 } else { 1 },
    };
    swapper.run()
}

impl Swapper<'_> {
    fn run(&mut self) -> u64 {
        let devices = self.held.len();
        // The devices' changes when a pair was last looked at without a swap.
        let mut in_vain = vec![None; devices * devices];
        let mut swaps = 0;
        loop {
            let before = swaps;
            for d0 in 0..devices {
                for d1 in d0 + 1..devices {
                    let state = Some((self.changes[d0], self.changes[d1]));
                    if in_vain[d0 * devices + d1] == state {
                        continue;
                    }
                    if let Some((b0, b1)) = self.best_swap(d0, d1) {
                        self.exchange(d0, d1, b0, b1);
                        swaps += 1;
                    } else {
                        in_vain[d0 * devices + d1] = state;
                    }
                }
            }
            if swaps == before {
                return swaps;
            }
        }
    }

    /// How much a change of each device's quality counts, up to a common factor: the inverse of
    /// its number of bricks.
    fn weights(&self, d0: usize, d1: usize) -> [i64; 2] {
        let bricks = [d1, d0].map(|d| i64::from(self.held[d].len()));
        if bricks[0] == bricks[1] {
            [1, 1]
        } else {
            bricks
        }
    }

    /// The bricks of `from` that `to` lacks, by descending part in the gain of a swap.
    fn candidates(&self, from: usize, to: usize) -> Vec<Candidate> {
        let [w_from, w_to] = self.weights(from, to);
        let gain = |b: BrickIndex| {
            let (there, here) = (self.sums[to][b.0 as usize], self.sums[from][b.0 as usize]);
            self.sign * (w_to * there - w_from * here)
        };
        let mut out = Vec::new();
        let words = self.held[from].words().iter().zip(self.held[to].words());
        for (base, (from, to)) in (0..).step_by(64).zip(words) {
            let mut movable = from & !to;
            while movable != 0 {
                let brick = base + movable.trailing_zeros();
                out.push(Candidate {
                    gain: gain(BrickIndex(brick)),
                    brick,
                    place: self.roots.places[brick as usize],
                });
                movable &= movable - 1;
            }
        }
        out.sort_unstable_by_key(|c| (std::cmp::Reverse(c.gain), c.brick));
        out
    }

    /// The swap that raises the quality most; among equals the lowest brick of `d0`, then of `d1`.
    fn best_swap(&self, d0: usize, d1: usize) -> Option<(u32, u32)> {
        let (ours, theirs) = (self.candidates(d0, d1), self.candidates(d1, d0));
        let weight = self.sign * self.weights(d0, d1).iter().sum::<i64>();
        let nearest = if self.sign > 0 {
            ONE
        } else {
            self.roots.farthest
        };
        let best_pair = -weight * nearest;
        // Only gains above nothing count; equal gains only for lower bricks.
        let (mut best_gain, mut best) = (1, None);
        for c0 in &ours {
            // All that can reach the best gain even at the most favourable distance.
            let enough = best_gain - best_pair - c0.gain;
            let count = theirs.partition_point(|c1| c1.gain >= enough);
            if count == 0 {
                break;
            }
            for c1 in &theirs[..count] {
                let pair = weight * self.roots.between(c0.place, c1.place);
                let gain = c0.gain + c1.gain - pair;
                if gain < best_gain {
                    continue;
                }
                let lower = best.is_none_or(|b| (c0.brick, c1.brick) < b);
                if gain > best_gain || lower {
                    (best_gain, best) = (gain, Some((c0.brick, c1.brick)));
                }
            }
        }
        best
    }

    fn exchange(&mut self, d0: usize, d1: usize, b0: u32, b1: u32) {
        for (d, out, into) in [(d0, b0, b1), (d1, b1, b0)] {
            self.held[d].remove(BrickIndex(out));
            self.held[d].insert(BrickIndex(into));
            self.roots.add_to(&mut self.sums[d], out, -1);
            self.roots.add_to(&mut self.sums[d], into, 1);
            self.changes[d] += 1;
        }
    }
}

//! Placements that follow what is seen: where bricks have one copy and another transfer function gives other
//! bricks work, a few of them move, so that no device has much more than its share.
//!
//! Shapes: n bricks with weights (what of them is seen), D devices with shares (their speeds) and capacities, and what
//! each holds; out, what each is to hold.
//! Invariants: each brick is held as often as before; no device gets above its capacity; the busiest
//! device never gets busier; where it is below [`DRIFT_MAX`], nothing moves.
//!
//! Method: diffusion between devices whose bricks touch: those bricks first that lie farthest on the other's side, as
//! if the cut between both moved; others only where that ends too early. Sources: Frank, Kaufman 2009, section 7
//! (cuts that follow changes of the data: their wish); Cybenko, "Dynamic load balancing for distributed memory
//! multiprocessors", 1989 (diffusion).

use crate::data::{
    brick_grid::{BrickGrid, BrickIndex},
    brick_set::BrickSet,
};

/// Busiest device over the mean above which bricks move: less is not worth its bytes.
pub const DRIFT_MAX: f64 = 1.08;
/// What they move for: a little further, so that the next change does not ask for more at once.
const DRIFT_GOAL: f64 = 1.05;

/// Where [`max_over_mean`] is above [`DRIFT_MAX`], moves bricks until it is well below, or no move brings it nearer.
/// O(moves · (n + D² log D)).
///
/// `weights[b]` is the work of brick b, `shares[d]` how much of all work is device d's, in any unit; one of share 0
/// neither gives nor takes. `capacities[d]` is its room in bricks.
///
/// # Panics
/// Where there are not as many weights as bricks, or shares and capacities as devices.
#[must_use]
pub fn drifted(
    grid: &BrickGrid,
    weights: &[u64],
    shares: &[u64],
    capacities: &[u32],
    held: &[BrickSet],
) -> Vec<BrickSet> {
    assert_eq!(weights.len(), grid.brick_count() as usize);
    assert!(shares.len() == held.len() && capacities.len() == held.len());
    let mut drift = Drift {
        grid,
        weights,
        shares,
        capacities,
        held: held.to_vec(),
    };
    if max_over_mean(weights, shares, held) <= DRIFT_MAX {
        return held.to_vec();
    }
    // Each move makes the busier of two devices less busy, so they end; how late is not bounded as well.
    let bricks = weights.len().max(1);
    for _ in 0..(MOVES_PER_BRICK * bricks).min(WORK_MAX / bricks) {
        let times = drift.times();
        if max_over_mean(weights, shares, &drift.held) <= DRIFT_GOAL || !drift.moves(&times) {
            break;
        }
    }
    drift.held
}

const MOVES_PER_BRICK: usize = 4;
/// Most moves times bricks: some tenths of a second. Of so many bricks the rest moves when it is asked for again.
const WORK_MAX: usize = 1 << 24;

/// Load over share of the busiest device, over that of all together; 1 where nothing is seen.
#[must_use]
pub fn max_over_mean(weights: &[u64], shares: &[u64], held: &[BrickSet]) -> f64 {
    let of = |(held, &share): (&BrickSet, &u64)| (load(weights, held), share);
    let devices = held.iter().zip(shares).map(of).filter(|d| d.1 > 0);
    let (all, of_all) = devices
        .clone()
        .fold((0, 0), |(l, s), (load, share)| (l + load, s + share));
    let most = devices.map(|(load, share)| float(load) / float(share));
    if all > 0 {
        most.fold(0.0, f64::max) * float(of_all) / float(all)
    } else {
        1.0
    }
}

fn load(weights: &[u64], held: &BrickSet) -> u64 {
    held.iter().map(|b| weights[b.0 as usize]).sum()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "voxels and speeds far below 2^53"
)]
fn float(n: u64) -> f64 {
    n as f64
}

struct Drift<'a> {
    grid: &'a BrickGrid,
    weights: &'a [u64],
    shares: &'a [u64],
    capacities: &'a [u32],
    held: Vec<BrickSet>,
}

impl Drift<'_> {
    /// What each device takes for its bricks; infinite for those that take no part, which gives them nothing.
    fn times(&self) -> Vec<f64> {
        let time = |(held, &share): (&BrickSet, &u64)| {
            if share > 0 {
                float(load(self.weights, held)) / float(share)
            } else {
                f64::INFINITY
            }
        };
        self.held.iter().zip(self.shares).map(time).collect()
    }

    /// Moves a brick from a device to a less busy one whose bricks touch its own, of all such pairs the most
    /// unlike; where none is left, to any from the busiest. False: there is nothing to move.
    fn moves(&mut self, times: &[f64]) -> bool {
        let touching = self.touching();
        let devices = || (0..times.len()).filter(|&d| times[d].is_finite());
        let busiest = devices().max_by(|&a, &b| times[a].total_cmp(&times[b]).then(b.cmp(&a)));
        let all = devices().flat_map(|i| devices().map(move |j| (i, j)));
        let mut pairs: Vec<(bool, f64, usize, usize)> = all
            .map(|(i, j)| (touching[i * times.len() + j], times[i] - times[j], i, j))
            .filter(|&(touch, apart, i, _)| apart > 0.0 && (touch || Some(i) == busiest))
            .collect();
        pairs.sort_by(|a, b| {
            let by_pair = (a.2, a.3).cmp(&(b.2, b.3));
            b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(by_pair)
        });
        pairs
            .into_iter()
            .any(|(_, _, i, j)| self.moves_between(times, i, j))
    }

    /// Moves a brick from one device to another that has room and stays less busy than the first was.
    fn moves_between(&mut self, times: &[f64], from: usize, to: usize) -> bool {
        if self.held[to].len() >= self.capacities[to] {
            return false;
        }
        let (start, end) = (self.middle(from), self.middle(to));
        let way: [f64; 3] = std::array::from_fn(|a| end[a] - start[a]);
        let helps = |b: &BrickIndex| {
            let weight = self.weights[b.0 as usize];
            weight > 0
                && !self.held[to].contains(*b)
                && times[to] + float(weight) / float(self.shares[to]) < times[from]
        };
        let along = |b: BrickIndex| {
            let at = self.grid.coordinates(b).map(f64::from);
            (0..3).map(|a| way[a] * at[a]).sum::<f64>()
        };
        let candidates = self.held[from].iter().filter(helps).map(|b| (along(b), b));
        let Some((_, moved)) = candidates.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
        else {
            return false;
        };
        self.held[from].remove(moved);
        self.held[to].insert(moved);
        true
    }

    /// The middle of a device's bricks; of one that has none, of the volume.
    fn middle(&self, device: usize) -> [f64; 3] {
        let held = &self.held[device];
        if held.is_empty() {
            return self.grid.counts().map(|n| 0.5 * f64::from(n - 1));
        }
        let coordinates = held.iter().map(|b| self.grid.coordinates(b));
        let sum = coordinates.fold([0_u64; 3], |sum, at| {
            std::array::from_fn(|a| sum[a] + u64::from(at[a]))
        });
        sum.map(|s| float(s) / f64::from(held.len()))
    }

    /// Whether bricks of two devices share a face, D × D; those of one that has none touch all.
    fn touching(&self) -> Vec<bool> {
        let devices = self.held.len();
        let mut holder = vec![devices; self.weights.len()];
        for (d, held) in self.held.iter().enumerate() {
            held.iter().for_each(|b| holder[b.0 as usize] = d);
        }
        let mut touching = vec![false; devices * devices];
        let mut touch = |a: usize, b: usize| {
            if a < devices && b < devices {
                touching[a * devices + b] = true;
                touching[b * devices + a] = true;
            }
        };
        for brick in self.grid.bricks() {
            let at = self.grid.coordinates(brick);
            for a in 0..3 {
                let mut next = at;
                next[a] += 1;
                if let Some(next) = self.grid.index(next) {
                    touch(holder[brick.0 as usize], holder[next.0 as usize]);
                }
            }
        }
        for d in (0..devices).filter(|&d| self.held[d].is_empty()) {
            (0..devices).for_each(|other| touch(d, other));
        }
        touching
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sets(grid: &BrickGrid, of: impl Fn(BrickIndex) -> usize, devices: usize) -> Vec<BrickSet> {
        let mut held = vec![BrickSet::new(grid.brick_count()); devices];
        grid.bricks().for_each(|b| {
            held[of(b)].insert(b);
        });
        held
    }

    fn bricks(held: &[BrickSet]) -> Vec<Vec<u32>> {
        held.iter()
            .map(|h| h.iter().map(|b| b.0).collect())
            .collect()
    }

    #[test]
    fn the_cut_moves_towards_the_work_and_no_farther_than_it_must() {
        let grid = BrickGrid::new([64, 8, 8], 8).unwrap();
        let held = sets(&grid, |b| usize::from(b.0 >= 4), 2);
        let of = |weights: [u64; 8], shares: [u64; 2]| {
            bricks(&drifted(&grid, &weights, &shares, &[8; 2], &held))
        };
        let stays = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        assert_eq!(of([1; 8], [1; 2]), stays);
        assert_eq!(of([0; 8], [1; 2]), stays);
        assert_eq!(of([100, 90, 100, 90, 100, 80, 90, 100], [1; 2]), stays);
        // What shows nothing stays where it is.
        assert_eq!(
            of([2, 2, 2, 0, 0, 0, 0, 2], [1; 2]),
            [vec![0, 1, 3], vec![2, 4, 5, 6, 7]]
        );
        assert_eq!(of([1; 8], [3, 1]), [vec![0, 1, 2, 3, 4, 5], vec![6, 7]]);
        // Who has no speed gets no work, and none of its own is taken.
        assert_eq!(of([9, 1, 1, 1, 1, 1, 1, 1], [1, 0]), stays);
    }

    proptest! {
        #[test]
        fn bricks_stay_as_many_rooms_hold_and_the_busiest_is_not_busier(
            counts in prop::array::uniform3(1_u32..6),
            shares in prop::collection::vec(0_u64..4, 1..6),
            tight in 0_u32..3,
            seed in any::<u64>(),
        ) {
            let grid = BrickGrid::new(counts.map(|n| n * 8), 8).unwrap();
            let weights: Vec<u64> = grid.bricks().map(|b| (seed >> (b.0 % 57)) % 11).collect();
            let devices = shares.len();
            let of = |b: BrickIndex| usize::try_from((seed >> (b.0 % 53)) % devices as u64).unwrap();
            let held = sets(&grid, of, devices);
            let capacities: Vec<u32> = held.iter().map(|h| h.len() + tight * 2).collect();
            let next = drifted(&grid, &weights, &shares, &capacities, &held);
            for brick in grid.bricks() {
                prop_assert_eq!(next.iter().filter(|h| h.contains(brick)).count(), 1);
            }
            prop_assert!(next.iter().zip(&capacities).all(|(h, &c)| h.len() <= c));
            let before = max_over_mean(&weights, &shares, &held);
            let after = max_over_mean(&weights, &shares, &next);
            prop_assert!(after <= before, "{before} {after}");
            if before <= DRIFT_MAX {
                prop_assert_eq!(&next, &held);
            }
            for (d, _) in shares.iter().enumerate().filter(|s| *s.1 == 0) {
                prop_assert_eq!(&next[d], &held[d]);
            }
        }
    }
}

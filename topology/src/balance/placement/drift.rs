//! Bricks that follow what is seen: where bricks have one copy and another transfer function gives other bricks
//! work, devices with less work take a few bricks of others, so that none has much more than its share.
//!
//! Shapes: n bricks with weights (what of them is seen), D devices with shares (their speeds), what each renders, what
//! each keeps, and the room that it has besides; out, what each is to render.
//! Invariants: each brick is rendered by as many as before; no device takes more than it has room for; the busiest
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
use std::collections::BTreeMap;

/// Busiest device over the mean above which bricks move: less is not worth its bytes.
pub const DRIFT_MAX: f64 = 1.08;
/// What they move for: a little further, so that the next change does not ask for more at once.
const DRIFT_GOAL: f64 = 1.05;
/// Where so many pairs of devices and bricks were looked at, beside the bricks once, no further one is: some hundredths of a second.
/// The rest moves when it is asked for again.
const LOOKS_MAX: usize = 1 << 22;

/// A device among those that share the work of a frame.
#[derive(Clone, Debug)]
pub struct Sharer {
    /// How much of all work is its, in any unit; 0: it neither gives nor takes.
    pub share: u64,
    /// The bricks that it renders.
    pub renders: BrickSet,
    /// The bricks that it has and will have, whoever renders them; at least those that it renders.
    pub keeps: BrickSet,
    /// How many bricks more it can take.
    pub room: u32,
}

/// What each of the devices is to render: where [`max_over_mean`] is above [`DRIFT_MAX`], bricks move until it is well below, or none
/// can move from a device that is above. `weights[b]` is the work of brick b.
///
/// O(n), and some four million steps besides: a move looks at the pairs of devices that touch, and at the bricks of one.
///
/// # Panics
/// Where there are not as many weights as bricks.
#[must_use]
pub fn drifted(grid: &BrickGrid, weights: &[u64], sharers: Vec<Sharer>) -> Vec<BrickSet> {
    assert_eq!(weights.len(), grid.brick_count() as usize);
    let loads = loads(weights, sharers.iter().map(|s| &s.renders));
    let shares: Vec<u64> = sharers.iter().map(|s| s.share).collect();
    if max_over_mean(&loads, &shares) > DRIFT_MAX {
        Drift::new(grid, weights, sharers, loads).drifted()
    } else {
        sharers.into_iter().map(|s| s.renders).collect()
    }
}

/// The work of each device.
pub fn loads<'a>(weights: &[u64], renders: impl Iterator<Item = &'a BrickSet>) -> Vec<u64> {
    let of = |bricks: &BrickSet| bricks.iter().map(|b| weights[b.0 as usize]).sum();
    renders.map(of).collect()
}

/// Load over share of the busiest device, over that of all together; 1 where nothing is seen.
#[must_use]
pub fn max_over_mean(loads: &[u64], shares: &[u64]) -> f64 {
    let devices = loads.iter().copied().zip(shares.iter().copied());
    let devices = devices.filter(|d| d.1 > 0);
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
    sharers: Vec<Sharer>,
    shares: Vec<u64>,
    /// The work of each.
    loads: Vec<u64>,
    /// The sum of the coordinates of each one's bricks.
    places: Vec<[u64; 3]>,
    /// Bricks that each keeps and does not render.
    spare: Vec<u32>,
    /// Who renders each brick; `usize::MAX`: nobody.
    renderer: Vec<usize>,
    /// Faces between bricks of two devices, the smaller number first; none is 0.
    faces: BTreeMap<(usize, usize), u32>,
    /// Of [`LOOKS_MAX`].
    looks: usize,
}

impl<'a> Drift<'a> {
    fn new(grid: &'a BrickGrid, weights: &'a [u64], sharers: Vec<Sharer>, loads: Vec<u64>) -> Self {
        let mut renderer = vec![usize::MAX; weights.len()];
        for (d, sharer) in sharers.iter().enumerate() {
            sharer
                .renders
                .iter()
                .for_each(|b| renderer[b.0 as usize] = d);
        }
        let place = |s: &Sharer| {
            let coordinates = s.renders.iter().map(|b| grid.coordinates(b));
            coordinates.fold([0; 3], |sum, at| moved(sum, at, u64::wrapping_add))
        };
        let mut drift = Self {
            grid,
            weights,
            shares: sharers.iter().map(|s| s.share).collect(),
            places: sharers.iter().map(place).collect(),
            spare: sharers
                .iter()
                .map(|s| s.keeps.len_without(&s.renders))
                .collect(),
            sharers,
            loads,
            renderer,
            faces: BTreeMap::new(),
            looks: 0,
        };
        for brick in grid.bricks() {
            let of = drift.renderer[brick.0 as usize];
            for next in drift.neighbours(brick).skip(1).step_by(2).flatten() {
                drift.add_face(of, drift.renderer[next.0 as usize], 1);
            }
        }
        drift
    }

    /// The busiest of two devices gets less busy by each move, so they end.
    fn drifted(mut self) -> Vec<BrickSet> {
        while self.looks < LOOKS_MAX
            && max_over_mean(&self.loads, &self.shares) > DRIFT_GOAL
            && self.move_one()
        {}
        self.sharers.into_iter().map(|s| s.renders).collect()
    }

    /// The bricks beside one: per axis the one before and the one behind, where there is one.
    fn neighbours(&self, brick: BrickIndex) -> impl Iterator<Item = Option<BrickIndex>> + use<'a> {
        let (grid, at) = (self.grid, self.grid.coordinates(brick));
        (0..6).map(move |n| {
            let mut next = at;
            next[n / 2] = if n % 2 == 0 {
                at[n / 2].checked_sub(1)?
            } else {
                at[n / 2] + 1
            };
            grid.index(next)
        })
    }

    fn add_face(&mut self, a: usize, b: usize, count: i32) {
        let devices = self.sharers.len();
        if a == b || a >= devices || b >= devices {
            return;
        }
        let pair = (a.min(b), a.max(b));
        let faces = self.faces.entry(pair).or_default();
        *faces = faces.saturating_add_signed(count);
        if *faces == 0 {
            self.faces.remove(&pair);
        }
    }

    /// What a device takes for its bricks; infinite for one that takes no part, which gives it nothing.
    fn time(&self, device: usize) -> f64 {
        if self.shares[device] > 0 {
            float(self.loads[device]) / float(self.shares[device])
        } else {
            f64::INFINITY
        }
    }

    /// Moves a brick from a device that has more than it should to a less busy one whose bricks touch its own, of all such pairs
    /// the most unlike; where none is left, to any from the busiest. One without bricks touches all. False: there is nothing to move.
    fn move_one(&mut self) -> bool {
        let times: Vec<f64> = (0..self.sharers.len()).map(|d| self.time(d)).collect();
        let goal = self.goal();
        let devices = || (0..times.len()).filter(|&d| times[d].is_finite());
        let idle = devices().filter(|&d| self.sharers[d].renders.is_empty());
        let of_idle = idle.flat_map(|i| devices().map(move |d| (i, d)));
        let touching = self.faces.keys().copied().chain(of_idle);
        let touching: Vec<_> = touching.collect();
        let busiest = devices().max_by(|&a, &b| times[a].total_cmp(&times[b]).then(b.cmp(&a)));
        let of_busiest: Vec<_> = busiest
            .into_iter()
            .flat_map(|b| devices().map(move |d| (b, d)))
            .collect();
        self.looks += touching.len() + times.len();
        [touching, of_busiest].into_iter().any(|pairs| {
            let apart = |(a, b): (usize, usize)| (times[a] - times[b], a, b);
            let pairs = pairs
                .into_iter()
                .flat_map(|(a, b)| [apart((a, b)), apart((b, a))]);
            let takes = |d: usize| self.sharers[d].room > 0 || self.spare[d] > 0;
            let helps = |&(apart, from, to): &(f64, usize, usize)| {
                apart > 0.0 && apart.is_finite() && times[from] > goal && takes(to)
            };
            let mut pairs: Vec<_> = pairs.filter(helps).collect();
            pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            let mut pairs = pairs.into_iter();
            pairs.any(|(_, from, to)| self.looks < LOOKS_MAX && self.moves(from, to))
        })
    }

    /// The time that no device should be above.
    fn goal(&self) -> f64 {
        let devices = self.loads.iter().zip(&self.shares).filter(|d| *d.1 > 0);
        let (load, share) = devices.fold((0, 0), |(l, s), d| (l + d.0, s + d.1));
        DRIFT_GOAL * float(load) / float(share)
    }

    /// Moves a brick from one device to another that has room and stays less busy than the first was. False: none can.
    fn moves(&mut self, from: usize, to: usize) -> bool {
        let (start, end) = (self.middle(from), self.middle(to));
        let way: [f64; 3] = std::array::from_fn(|a| end[a] - start[a]);
        let time = self.time(from);
        let takes = &self.sharers[to];
        let helps = |b: &BrickIndex| {
            let weight = self.weights[b.0 as usize];
            weight > 0
                && (takes.room > 0 || takes.keeps.contains(*b))
                && float(self.loads[to] + weight) / float(takes.share) < time
        };
        let along = |b: BrickIndex| {
            let at = self.grid.coordinates(b).map(f64::from);
            (0..3).map(|a| way[a] * at[a]).sum::<f64>()
        };
        let bricks = &self.sharers[from].renders;
        self.looks += self.weights.len() / 64 + bricks.len() as usize;
        let candidates = bricks.iter().filter(helps).map(|b| (along(b), b));
        let farthest = candidates.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        if let Some((_, brick)) = farthest {
            self.put(brick, from, to);
        }
        farthest.is_some()
    }

    fn put(&mut self, brick: BrickIndex, from: usize, to: usize) {
        let (at, weight) = (self.grid.coordinates(brick), self.weights[brick.0 as usize]);
        let gives = &mut self.sharers[from];
        gives.renders.remove(brick);
        if gives.keeps.contains(brick) {
            self.spare[from] += 1;
        } else {
            gives.room += 1;
        }
        self.loads[from] -= weight;
        self.places[from] = moved(self.places[from], at, u64::wrapping_sub);
        let takes = &mut self.sharers[to];
        takes.renders.insert(brick);
        if takes.keeps.contains(brick) {
            self.spare[to] -= 1;
        } else {
            takes.room -= 1;
        }
        self.loads[to] += weight;
        self.places[to] = moved(self.places[to], at, u64::wrapping_add);
        self.renderer[brick.0 as usize] = to;
        for next in self.neighbours(brick).flatten() {
            let of = self.renderer[next.0 as usize];
            self.add_face(from, of, -1);
            self.add_face(to, of, 1);
        }
    }

    /// The middle of a device's bricks; of one that has none, of the volume.
    fn middle(&self, device: usize) -> [f64; 3] {
        let bricks = self.sharers[device].renders.len();
        if bricks == 0 {
            return self.grid.counts().map(|n| 0.5 * f64::from(n - 1));
        }
        self.places[device].map(|s| float(s) / f64::from(bricks))
    }
}

fn moved(sum: [u64; 3], at: [u32; 3], by: fn(u64, u64) -> u64) -> [u64; 3] {
    std::array::from_fn(|a| by(sum[a], u64::from(at[a])))
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

    /// Each keeps what it renders and has room for so many more.
    fn sharers(shares: &[u64], rooms: &[u32], renders: &[BrickSet]) -> Vec<Sharer> {
        let of = |((&share, &room), renders): ((&u64, &u32), &BrickSet)| Sharer {
            share,
            renders: renders.clone(),
            keeps: renders.clone(),
            room,
        };
        shares.iter().zip(rooms).zip(renders).map(of).collect()
    }

    fn max_of(weights: &[u64], shares: &[u64], renders: &[BrickSet]) -> f64 {
        max_over_mean(&loads(weights, renders.iter()), shares)
    }

    #[test]
    fn the_cut_moves_towards_the_work_and_no_farther_than_it_must() {
        let grid = BrickGrid::new([64, 8, 8], 8).unwrap();
        let held = sets(&grid, |b| usize::from(b.0 >= 4), 2);
        let with = |weights: [u64; 8], shares: [u64; 2], room: u32| {
            let sharers = sharers(&shares, &[room; 2], &held);
            bricks(&drifted(&grid, &weights, sharers))
        };
        let of = |weights, shares| with(weights, shares, 4);
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
        assert_eq!(
            with([1; 8], [3, 1], 1),
            [vec![0, 1, 2, 3, 4], vec![5, 6, 7]]
        );
        // Who has no speed gets no work, and none of its own is taken.
        assert_eq!(of([9, 1, 1, 1, 1, 1, 1, 1], [1, 0]), stays);
    }

    #[test]
    fn what_does_not_help_the_busiest_does_not_move() {
        // One brick is most of all work, and cannot be shared.
        let grid = BrickGrid::new([64, 8, 8], 8).unwrap();
        let held = sets(&grid, |b| b.0 as usize / 2, 4);
        let weights = [900, 0, 10, 20, 30, 5, 10, 25];
        let next = drifted(&grid, &weights, sharers(&[1; 4], &[8; 4], &held));
        assert_eq!(bricks(&next), bricks(&held));
    }

    #[test]
    fn what_a_device_has_it_renders_without_room() {
        let grid = BrickGrid::new([64, 8, 8], 8).unwrap();
        let held = sets(&grid, |b| usize::from(b.0 >= 6), 2);
        let mut sharers = sharers(&[1; 2], &[0; 2], &held);
        sharers[1].keeps.insert(BrickIndex(4));
        sharers[1].keeps.insert(BrickIndex(5));
        assert_eq!(
            bricks(&drifted(&grid, &[1; 8], sharers)),
            [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]
        );
    }

    proptest! {
        #[test]
        fn no_room_is_exceeded_and_the_busiest_is_not_busier(
            counts in prop::array::uniform3(1_u32..6),
            shares in prop::collection::vec(0_u64..4, 1..6),
            room in 0_u32..5,
            seed in any::<u64>(),
        ) {
            let grid = BrickGrid::new(counts.map(|n| n * 8), 8).unwrap();
            let weights: Vec<u64> = grid.bricks().map(|b| (seed >> (b.0 % 57)) % 11).collect();
            let devices = shares.len();
            let of = |b: BrickIndex| usize::try_from((seed >> (b.0 % 53)) % devices as u64).unwrap();
            let held = sets(&grid, of, devices);
            let next = drifted(&grid, &weights, sharers(&shares, &vec![room; devices], &held));
            for brick in grid.bricks() {
                prop_assert_eq!(next.iter().filter(|h| h.contains(brick)).count(), 1);
            }
            prop_assert!(next.iter().zip(&held).all(|(n, h)| n.len_without(h) <= room));
            let before = max_of(&weights, &shares, &held);
            let after = max_of(&weights, &shares, &next);
            prop_assert!(after <= before, "{before} {after}");
            if before <= DRIFT_MAX {
                prop_assert_eq!(&next, &held);
            }
            for (d, _) in shares.iter().enumerate().filter(|s| *s.1 == 0) {
                prop_assert_eq!(&next[d], &held[d]);
            }
        }

        /// What is kept from move to move is what a new start counts.
        #[test]
        fn loads_faces_and_places_follow_the_moves(devices in 2_usize..6, seed in any::<u64>()) {
            let grid = BrickGrid::new([40, 32, 24], 8).unwrap();
            let weights: Vec<u64> = grid.bricks().map(|b| (seed >> (b.0 % 57)) % 11).collect();
            let of = |b: BrickIndex| usize::try_from((seed >> (b.0 % 53)) % devices as u64).unwrap();
            let held = sets(&grid, of, devices);
            let start = |sharers: Vec<Sharer>| {
                let loads = loads(&weights, sharers.iter().map(|s| &s.renders));
                Drift::new(&grid, &weights, sharers, loads)
            };
            let mut drift = start(sharers(&vec![1; devices], &vec![9; devices], &held));
            for _ in 0..20 {
                drift.move_one();
                let anew = start(drift.sharers.clone());
                prop_assert_eq!(&drift.loads, &anew.loads);
                prop_assert_eq!(&drift.faces, &anew.faces);
                prop_assert_eq!(&drift.places, &anew.places);
                prop_assert_eq!(&drift.renderer, &anew.renderer);
                let spare = drift.sharers.iter().zip(&held);
                // What was given away is kept; what was taken is not counted twice.
                let spare: Vec<u32> = spare.map(|(s, h)| h.len_without(&s.renders)).collect();
                prop_assert_eq!(&drift.spare, &spare);
            }
        }
    }
}

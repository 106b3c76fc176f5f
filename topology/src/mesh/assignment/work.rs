//! Copies for the work of frames, where one copy is wanted of each brick: what is seen gives some peers much more
//! work than others then. Those with less take copies of a few bricks (`drift`), in place of others that are held
//! twice where there is no room.

use super::Assignments;
use crate::{
    balance::{
        placement::drift::{Sharer, drifted},
        schedule::SPEED_ONE,
    },
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        brick_set::BrickSet,
    },
};
use std::cmp::Reverse;

impl Assignments<'_> {
    /// Takes copies of bricks that give others too much work, in place of those without work here that another one
    /// keeps. Returns what was taken.
    pub(super) fn share_work(
        &mut self,
        grid: &BrickGrid,
        me: usize,
        work: &[u64],
        speeds: &[u64],
    ) -> Vec<BrickIndex> {
        let sharers = self.sharers(work, speeds);
        let keeps = sharers[me].keeps.clone();
        let renders = drifted(grid, work, sharers).swap_remove(me);
        let has_not = |b: &BrickIndex| !self.held[me].contains(*b);
        let taken: Vec<BrickIndex> = renders.iter().filter(has_not).collect();
        for &brick in &taken {
            if self.free[me] == 0 {
                let is_spare = |b: &BrickIndex| !keeps.contains(*b) && !renders.contains(*b);
                let spare = self.held[me].iter().filter(is_spare);
                if let Some(spare) = spare.max_by_key(|&b| (self.copies(b), Reverse(b))) {
                    self.drop_one(spare, me);
                }
            }
            self.add(brick, me);
        }
        taken
    }

    /// Who renders what as it is assigned: each brick one peer, the most work first, of those to whom it is assigned whoever is
    /// done soonest. It stays also with the one to whom it belongs most, so that not all give it up at once.
    pub(super) fn sharers(&self, work: &[u64], speeds: &[u64]) -> Vec<Sharer> {
        let none = BrickSet::new(u32::try_from(self.copies.len()).unwrap_or(u32::MAX));
        let sharer = |m: usize| Sharer {
            share: if self.staying[m] { speeds[m] } else { 0 },
            renders: none.clone(),
            keeps: none.clone(),
            room: 0,
        };
        let mut sharers: Vec<Sharer> = (0..self.held.len()).map(sharer).collect();
        let mut loads = vec![0_u64; self.held.len()];
        let mut bricks: Vec<BrickIndex> = self.bricks().collect();
        let of = |b: BrickIndex| work[b.0 as usize];
        bricks.sort_by_key(|&b| (self.copies(b).min(2), Reverse(of(b)), b));
        for brick in bricks {
            let is_holder = |m: &usize| self.staying[*m] && self.held[*m].contains(brick);
            let holders = (0..self.held.len()).filter(is_holder);
            let done = |m: usize| {
                let load = u128::from(loads[m]) + u128::from(of(brick));
                load * u128::from(SPEED_ONE) / u128::from(speeds[m].max(1))
            };
            if let Some(m) = holders.clone().min_by_key(|&m| (done(m), m)) {
                sharers[m].renders.insert(brick);
                sharers[m].keeps.insert(brick);
                loads[m] = loads[m].saturating_add(of(brick));
            }
            if let Some(m) = holders.max_by_key(|&m| self.claim(brick, m)) {
                sharers[m].keeps.insert(brick);
            }
        }
        for (sharer, &capacity) in sharers.iter_mut().zip(&self.capacities) {
            sharer.room = capacity.saturating_sub(sharer.keeps.len());
        }
        sharers
    }
}

//! Levels of one volume share a peer's memory: coarser ones, of which little is everything, come before finer ones, and each has some.

use super::{DataSet, Keeper};
use crate::base::digest::Digest;
use std::collections::BTreeMap;

/// Where there is too little memory for a volume and its levels, this part of it stays for the volume itself.
const EXACT_PART: u64 = 8;
/// Bricks of each level for which there is room in any case, as far as half of the memory goes: some are rendered while
/// the next are read.
const BRICKS_MIN: u64 = 4;
/// Of a level that takes no more than this part of what is left, there are as many copies as are wanted; of others one.
const SMALL_PART: u64 = 16;

impl Keeper {
    /// Most memory that data sets may take, bytes, of those that are limited: a volume and its levels where the peers have too
    /// little memory for one copy of all of them. What it comes to follows from the memory of all peers, not from what
    /// they hold, and from what bricks take on this peer's device: where devices differ, peers limit differently.
    pub(super) fn level_limits(&self) -> BTreeMap<Digest, u64> {
        let others = self.members.all().map(|(_, m, _)| m.hello.memory_bytes);
        let of_mesh = others.fold(self.hello.memory_bytes, u64::saturating_add);
        let mut limits = BTreeMap::new();
        for exact in self.sets.values().filter(|s| s.replicas.is_in_use()) {
            // Coarsest first.
            let levels = exact.manifest.levels().iter().rev();
            let levels = levels.filter_map(|name| self.sets.get(name));
            let mut sets: Vec<&DataSet> = levels.filter(|s| s.replicas.is_in_use()).collect();
            let is_alone = sets.is_empty();
            sets.push(exact);
            let one_copy = sets.iter().map(|s| s.one_copy_bytes());
            if is_alone || one_copy.fold(0, u64::saturating_add) <= of_mesh {
                continue;
            }
            for (set, limit) in sets.iter().zip(self.parts(&sets, of_mesh)) {
                // A level of two volumes is limited by the one that leaves it more.
                let of_set = limits.entry(set.manifest.digest()).or_insert(0);
                *of_set = limit.max(*of_set);
            }
        }
        limits
    }

    /// This peer's memory, parted among levels, the coarsest first and the volume itself last.
    fn parts(&self, sets: &[&DataSet], of_mesh: u64) -> Vec<u64> {
        let memory = self.hello.memory_bytes;
        let most = memory / 2 / sets.len() as u64;
        let least = |set: &DataSet| {
            let bricks = BRICKS_MIN * set.brick_bytes;
            bricks.min(set.one_copy_bytes()).min(most)
        };
        let Some((exact, levels)) = sets.split_last() else {
            return Vec::new();
        };
        let of_exact = least(exact).max(memory / EXACT_PART);
        let mut left = memory.saturating_sub(of_exact);
        let mut reserved: u64 = levels.iter().map(|s| least(s)).sum();
        let mut parts = Vec::with_capacity(sets.len());
        for level in levels {
            reserved -= least(level);
            let free = left.saturating_sub(reserved);
            // As much of each copy as this peer has of all memory, rounded up to a brick.
            let brick = level.brick_bytes;
            let share = u128::from(level.one_copy_bytes()) * u128::from(memory);
            let share = u64::try_from(share / u128::from(of_mesh.max(1))).unwrap_or(u64::MAX);
            let share = share.div_ceil(brick).saturating_mul(brick);
            let all = share.saturating_mul(level.replicas.redundancy().into());
            let wanted = if all <= free / SMALL_PART { all } else { share };
            let part = wanted
                .min(level.one_copy_bytes())
                .min(free)
                .max(least(level));
            left = left.saturating_sub(part);
            parts.push(part);
        }
        parts.push(left.saturating_add(of_exact));
        parts
    }
}

impl DataSet {
    fn one_copy_bytes(&self) -> u64 {
        let bricks = u64::from(self.manifest.grid().brick_count());
        bricks.saturating_mul(self.brick_bytes)
    }
}

//! Volumes share a peer's memory, small ones first, and levels of one volume its part: coarser ones, of which little is everything, come before finer ones, and each has some.
//! Of each counts what frames need, as far as that is known.

use super::{DataSet, Keeper};
use crate::{
    base::digest::Digest,
    data::{brick_set::BrickSet, levels::in_same_place},
    mesh::replicas::with_reserve,
};
use std::collections::{BTreeMap, BTreeSet};

/// Where there is too little memory for a volume and its levels, this part of it stays for the volume itself.
const EXACT_PART: u64 = 8;
/// Bricks of each level for which there is room in any case, as far as half of the volume's part goes: some are rendered while
/// the next are read.
const BRICKS_MIN: u64 = 4;
/// How long limits stay at most once there is enough memory: they may leave bricks without a place.
const LIMITS_MICROS: u64 = 30_000_000;
/// Of a level that takes no more than this part of what is left, there are as many copies as are wanted; of others one.
const SMALL_PART: u64 = 16;

impl Keeper {
    /// Most memory that data sets may take, bytes, of those that are limited: volumes and their levels where the peers have
    /// too little memory for one copy of all of them. What it comes to follows from the memory of all peers, not from what
    /// they hold, and from what bricks take on this peer's device: where devices differ, peers limit differently.
    pub(super) fn level_limits(&self) -> BTreeMap<Digest, u64> {
        let others = self.members.all().map(|(_, m, _)| m.hello.memory_bytes);
        let of_mesh = others.fold(self.hello.memory_bytes, u64::saturating_add);
        let volumes = self.volumes(of_mesh);
        let sets = volumes.iter().flat_map(|v| &v.sets);
        let one_copies = sets.map(|s| (s.manifest.digest(), s.one_copy_bytes()));
        let one_copies: BTreeMap<Digest, u64> = one_copies.collect();
        let is_all_held = one_copies.values().fold(0, |sum, b| b.saturating_add(sum)) <= of_mesh;
        let mut limits = BTreeMap::new();
        if is_all_held || one_copies.len() <= 1 {
            return limits;
        }
        let (mut left, mut left_here) = (of_mesh, self.hello.memory_bytes);
        for (n, volume) in volumes.iter().enumerate() {
            let share = volume.wanted.min(left / (volumes.len() - n) as u64);
            left -= share;
            // Where each peer's part is less than a brick, nobody would hold any.
            let bricks = volume.sets.last().map_or(1, |exact| exact.brick_bytes);
            let memory = part_of(share, self.hello.memory_bytes, of_mesh);
            let memory = memory
                .div_ceil(bricks)
                .saturating_mul(bricks)
                .min(left_here);
            left_here -= memory;
            let parts = parts(memory, &volume.sets, share);
            for (set, limit) in volume.sets.iter().zip(parts) {
                // A level of two volumes is limited by the one that leaves it more.
                let of_set = limits.entry(set.manifest.digest()).or_insert(0);
                *of_set = limit.max(*of_set);
            }
        }
        limits
    }

    /// Those, and where the peers have enough memory now: what they were before, until all bricks are held, or for a while. Who has
    /// little room would give it to one level, while of the others bricks are read.
    pub(super) fn limits(&mut self) -> BTreeMap<Digest, u64> {
        let limits = self.level_limits();
        let (before, since) = &self.limits;
        let mut used = self.sets.values().filter(|s| s.replicas.is_in_use());
        let stay = limits.is_empty()
            && self.now < since.saturating_add(LIMITS_MICROS)
            && used.any(|s| s.replicas.unheld() > 0);
        if stay {
            return before.clone();
        }
        self.limits = (limits.clone(), self.now);
        limits
    }

    /// The volumes in use, those that want least first.
    fn volumes(&self, of_mesh: u64) -> Vec<Volume<'_>> {
        let used = || self.sets.values().filter(|s| s.replicas.is_in_use());
        let levels: BTreeSet<Digest> = used().flat_map(|s| s.manifest.levels()).copied().collect();
        let exact = used().filter(|s| !levels.contains(&s.manifest.digest()));
        let mut volumes: Vec<_> = exact
            .map(|exact| {
                // Coarsest first.
                let levels = exact.manifest.levels().iter().rev();
                let levels = levels.filter_map(|name| self.sets.get(name));
                let mut sets: Vec<&DataSet> = levels.filter(|s| s.replicas.is_in_use()).collect();
                sets.push(exact);
                Volume {
                    wanted: Volume::wanted(&sets, of_mesh),
                    sets,
                }
            })
            .collect();
        volumes.sort_by_key(|v| v.wanted);
        volumes
    }

    /// What frames of a level need, others of the same volume may need next.
    pub(super) fn foresee(&mut self) {
        let anew: Vec<(Digest, BrickSet)> = (self.sets.iter_mut())
            .filter_map(|(&name, set)| Some((name, set.replicas.seen_anew()?)))
            .collect();
        for (of, seen) in anew {
            let levels = |(&exact, set): (&Digest, &DataSet)| {
                let all: Vec<Digest> = [&[exact], set.manifest.levels()].concat();
                all.contains(&of).then_some(all)
            };
            let all: BTreeSet<Digest> = self.sets.iter().filter_map(levels).flatten().collect();
            let Some(from) = self.sets.get(&of).map(|set| *set.manifest.grid()) else {
                continue;
            };
            for name in all.into_iter().filter(|name| *name != of) {
                if let Some(set) = self.sets.get_mut(&name) {
                    let bricks = in_same_place(&seen, &from, set.manifest.grid());
                    set.replicas.foresee(bricks);
                }
            }
        }
    }
}

/// A volume and its levels.
struct Volume<'a> {
    /// The coarsest level first, the volume itself last.
    sets: Vec<&'a DataSet>,
    /// Memory of all peers that it is given where there is enough for others, bytes: for as many copies as are wanted where
    /// that is little, else for one, with some room as bricks do not fill memory.
    wanted: u64,
}

impl Volume<'_> {
    fn wanted(sets: &[&DataSet], of_mesh: u64) -> u64 {
        let one_copy = sets.iter().map(|s| s.one_copy_bytes());
        let one_copy = one_copy.fold(0, u64::saturating_add);
        let copies = sets.iter().map(|s| s.replicas.redundancy()).max();
        let all = one_copy.saturating_mul(copies.unwrap_or(1).into());
        if all <= of_mesh / SMALL_PART {
            all
        } else {
            one_copy.saturating_add(one_copy / 8)
        }
    }
}

/// So much of `bytes` as `memory` is of `of_mesh`.
fn part_of(bytes: u64, memory: u64, of_mesh: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(memory) / u128::from(of_mesh.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// A volume's part of this peer's memory and of all, parted among levels, the coarsest first and the volume itself last.
fn parts(memory: u64, sets: &[&DataSet], of_mesh: u64) -> Vec<u64> {
    let Some((exact, levels)) = sets.split_last() else {
        return Vec::new();
    };
    let count = sets.len() as u64;
    let least_of = |set: &DataSet, most: u64| {
        let bricks = BRICKS_MIN * set.brick_bytes;
        bricks.min(set.one_copy_bytes()).min(most)
    };
    // One brick is rendered while the next is read, whatever is left for levels.
    let of_exact = least_of(exact, memory / 2 / count)
        .max(memory / EXACT_PART)
        .max(2 * exact.brick_bytes)
        .min(memory);
    let mut left = memory - of_exact;
    let most = (memory / 2).min(left) / count;
    let least = |set: &DataSet| least_of(set, most);
    let mut reserved: u64 = levels.iter().map(|s| least(s)).sum();
    let mut parts = Vec::with_capacity(sets.len());
    for level in levels {
        reserved -= least(level);
        let free = left.saturating_sub(reserved);
        // As much of each copy as this peer has of all memory, rounded up to a brick.
        let brick = level.brick_bytes;
        let share = |bytes: u64| {
            let share = part_of(bytes, memory, of_mesh);
            share.div_ceil(brick).saturating_mul(brick)
        };
        let all = share(level.one_copy_bytes());
        let all = all.saturating_mul(level.replicas.redundancy().into());
        let wanted = if all <= free / SMALL_PART {
            all
        } else {
            share(level.needed_bytes())
        };
        let one_copy = level.one_copy_bytes();
        let part = wanted.min(one_copy).min(free).max(least(level));
        left = left.saturating_sub(part);
        parts.push(part);
    }
    parts.push(left.saturating_add(of_exact));
    parts
}

impl DataSet {
    /// What one copy of all bricks takes.
    pub(super) fn one_copy_bytes(&self) -> u64 {
        let bricks = u64::from(self.manifest.grid().brick_count());
        bricks.saturating_mul(self.typical_bytes)
    }

    /// What one copy of the bricks that frames need takes, with what is kept free beside them.
    fn needed_bytes(&self) -> u64 {
        let bricks = self.replicas.needed_count();
        let bricks = with_reserve(bricks, self.replicas.staged_min());
        let bricks = bricks.min(self.manifest.grid().brick_count());
        u64::from(bricks).saturating_mul(self.typical_bytes)
    }
}

//! Levels of one volume share a peer's memory: the coarser ones, of which little is everything, come before the finer ones.

use super::{DataSet, Keeper};
use crate::base::digest::Digest;
use std::collections::BTreeMap;

/// Where there is too little memory for a volume and its levels, this part of it stays for the volume itself, or room for so
/// many bricks where that is more; half of it at most.
const EXACT_PART: u64 = 8;
const EXACT_BRICKS_MIN: u64 = 4;

impl Keeper {
    /// Memory that a data set may not take because of other levels of the same volume, whether they have it or not yet,
    /// bytes. Whoever else has some is not among it.
    pub(super) fn kept_for_levels(&self) -> BTreeMap<Digest, u64> {
        let mut kept = BTreeMap::new();
        for exact in self.sets.values().filter(|s| s.replicas.is_in_use()) {
            // Coarsest first.
            let levels = exact.manifest.levels().iter().rev();
            let levels = levels.filter_map(|name| Some((*name, self.sets.get(name)?)));
            let levels: Vec<_> = levels.filter(|(_, s)| s.replicas.is_in_use()).collect();
            if levels.is_empty() || !self.is_too_much(exact, levels.iter().map(|(_, s)| *s)) {
                continue;
            }
            let for_exact = self.kept_for_exact(exact);
            let budget = self.hello.memory_bytes.saturating_sub(for_exact);
            let [mut wanted, mut there] = [0_u64; 2];
            for (name, level) in levels {
                let lacking = wanted.min(budget).saturating_sub(there);
                let of_exact = for_exact.saturating_sub(exact.bytes(&self.transfers));
                kept.insert(name, lacking.saturating_add(of_exact));
                wanted = wanted.saturating_add(self.share(level).max(level.bytes(&self.transfers)));
                there = there.saturating_add(level.bytes(&self.transfers));
            }
            let lacking = wanted.min(budget).saturating_sub(there);
            kept.insert(exact.manifest.digest(), lacking);
        }
        kept
    }

    /// Whether one copy of a volume, and all that are wanted of its levels, are more than the peers have memory for.
    fn is_too_much<'a>(&self, exact: &DataSet, levels: impl Iterator<Item = &'a DataSet>) -> bool {
        let others = self.members.all().map(|(_, m, _)| m.hello.memory_bytes);
        let memory = others.fold(self.hello.memory_bytes, u64::saturating_add);
        let of_levels = levels.map(|set| {
            let copies = set.replicas.redundancy().into();
            set.one_copy_bytes().saturating_mul(copies)
        });
        of_levels.fold(exact.one_copy_bytes(), u64::saturating_add) > memory
    }

    /// Memory of this peer that stays for a volume itself where there is too little for all of it, bytes.
    fn kept_for_exact(&self, exact: &DataSet) -> u64 {
        let bricks = EXACT_BRICKS_MIN * exact.manifest.largest_brick_bytes();
        let memory = self.hello.memory_bytes;
        (memory / EXACT_PART).max(bricks).min(memory / 2)
    }

    /// This peer's share of a level where there is memory for all of it, bytes.
    fn share(&self, level: &DataSet) -> u64 {
        let others = self.members.all();
        let others = others.filter(|(_, m, _)| m.hello.memory_bytes > 0).count();
        let peers = 1 + u64::try_from(others).unwrap_or(u64::MAX);
        let one_copy = level.one_copy_bytes();
        let all = one_copy.saturating_mul(level.replicas.redundancy().into());
        all.div_ceil(peers).min(one_copy)
    }
}

impl DataSet {
    fn one_copy_bytes(&self) -> u64 {
        let bricks = u64::from(self.manifest.grid().brick_count());
        bricks.saturating_mul(self.manifest.largest_brick_bytes())
    }
}

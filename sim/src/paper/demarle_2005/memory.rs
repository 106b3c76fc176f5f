//! The memory of a node: blocks that are its own, and a cache of others, by a policy of eviction.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, section 3: block n belongs to node n mod N. What is evicted is not said; policies: LRU;
//! CLOCK (Corbató 1968); 2Q (Johnson, Shasha 1994), its full version with a quarter and a half of the places.

use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Which block gives its place to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Policy {
    Lru,
    Clock,
    #[serde(rename = "2q")]
    TwoQueues,
}

impl Policy {
    pub(super) const ALL: [Self; 3] = [Self::Lru, Self::Clock, Self::TwoQueues];
}

/// See the module.
#[derive(Debug)]
pub(super) struct Memory {
    node: u32,
    nodes: u32,
    cache: Cache,
}

impl Memory {
    /// The memory of a node of so many, with places for `capacity` blocks of others.
    pub(super) fn new([node, nodes]: [u32; 2], capacity: usize, policy: Policy) -> Self {
        let cache = match policy {
            Policy::Lru => Cache::Lru(Lru::new(capacity)),
            Policy::Clock => Cache::Clock(Clock::new(capacity)),
            Policy::TwoQueues => Cache::TwoQueues(TwoQueues::new(capacity)),
        };
        Self { node, nodes, cache }
    }

    /// Needs a block; returns whether it has to be fetched.
    pub(super) fn misses(&mut self, block: u32) -> bool {
        if block % self.nodes == self.node {
            return false;
        }
        match &mut self.cache {
            Cache::Lru(lru) => lru.misses(block),
            Cache::Clock(clock) => clock.misses(block),
            Cache::TwoQueues(queues) => queues.misses(block),
        }
    }
}

#[derive(Debug)]
enum Cache {
    Lru(Lru),
    Clock(Clock),
    TwoQueues(TwoQueues),
}

/// Blocks by when they were used last.
#[derive(Debug)]
struct Lru {
    capacity: usize,
    now: u64,
    used: BTreeMap<u32, u64>,
    /// Each use; those that are not the last of their block count for nothing.
    uses: VecDeque<(u32, u64)>,
}

impl Lru {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            now: 0,
            used: BTreeMap::new(),
            uses: VecDeque::new(),
        }
    }

    fn misses(&mut self, block: u32) -> bool {
        let is_missed = !self.used.contains_key(&block);
        if self.capacity > 0 {
            self.insert(block);
        }
        is_missed
    }

    /// Uses a block; returns the one that gave its place.
    fn insert(&mut self, block: u32) -> Option<u32> {
        self.now += 1;
        self.used.insert(block, self.now);
        self.uses.push_back((block, self.now));
        if self.uses.len() > 8 * self.capacity.max(64) {
            let used = &self.used;
            self.uses.retain(|(block, at)| used.get(block) == Some(at));
        }
        if self.used.len() <= self.capacity {
            return None;
        }
        while let Some((old, at)) = self.uses.pop_front() {
            if self.used.get(&old) == Some(&at) {
                self.used.remove(&old);
                return Some(old);
            }
        }
        None
    }
}

/// Blocks in a ring, each with whether it was used since the hand came by.
#[derive(Debug)]
struct Clock {
    capacity: usize,
    ring: Vec<(u32, bool)>,
    places: BTreeMap<u32, usize>,
    hand: usize,
}

impl Clock {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ring: Vec::new(),
            places: BTreeMap::new(),
            hand: 0,
        }
    }

    fn misses(&mut self, block: u32) -> bool {
        if let Some(&place) = self.places.get(&block) {
            self.ring[place].1 = true;
            return false;
        }
        if self.ring.len() < self.capacity {
            self.places.insert(block, self.ring.len());
            self.ring.push((block, false));
        } else if self.capacity > 0 {
            while std::mem::take(&mut self.ring[self.hand].1) {
                self.hand = (self.hand + 1) % self.capacity;
            }
            self.places.remove(&self.ring[self.hand].0);
            self.places.insert(block, self.hand);
            self.ring[self.hand] = (block, false);
            self.hand = (self.hand + 1) % self.capacity;
        }
        true
    }
}

/// Blocks that were used once, in their order; names of some that were, before; blocks that were used again.
#[derive(Debug)]
struct TwoQueues {
    once: Lru,
    before: Lru,
    again: Lru,
}

impl TwoQueues {
    fn new(capacity: usize) -> Self {
        let once = capacity / 4;
        Self {
            once: Lru::new(once),
            before: Lru::new(capacity / 2),
            again: Lru::new(capacity - once),
        }
    }

    fn misses(&mut self, block: u32) -> bool {
        if self.again.used.contains_key(&block) {
            self.again.insert(block);
            return false;
        }
        if self.once.used.contains_key(&block) {
            // Its place in the order stays: uses shortly after each other are one.
            return false;
        }
        if self.before.used.remove(&block).is_some() {
            self.again.misses(block);
        } else if self.once.capacity > 0 {
            if let Some(old) = self.once.insert(block) {
                self.before.misses(old);
            }
        } else {
            self.again.misses(block);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::base::seeded::Seeded;

    fn missed(policy: Policy, capacity: usize, blocks: impl IntoIterator<Item = u32>) -> usize {
        let mut memory = Memory::new([1, 2], capacity, policy);
        blocks.into_iter().filter(|&b| memory.misses(2 * b)).count()
    }

    #[test]
    fn own_blocks_are_never_missed_and_others_once_where_all_fit() {
        for policy in Policy::ALL {
            let mut memory = Memory::new([1, 3], 40, policy);
            let all = (0..4).flat_map(|_| 0..30);
            let missed: Vec<u32> = all.filter(|&b| memory.misses(b)).collect();
            let others = (0..30).filter(|b| b % 3 != 1);
            let others: Vec<u32> = others.collect();
            if policy == Policy::TwoQueues {
                // A block that falls out of those used once is fetched again, once.
                assert!(missed.len() >= others.len() && missed.len() <= 2 * others.len());
            } else {
                assert_eq!(missed, others, "{policy:?}");
            }
        }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut memory = Memory::new([1, 2], 2, Policy::Lru);
        let of: Vec<bool> = [0, 2, 0, 4, 0, 2].map(|b| memory.misses(b)).to_vec();
        assert_eq!(of, [true, true, false, true, false, true]);
    }

    #[test]
    fn a_scan_does_not_drive_out_what_is_used_again_from_two_queues() {
        let mut draws = Seeded::new(5);
        let mut blocks = Vec::new();
        for round in 0..400 {
            blocks.extend((0..10).map(|_| u32::try_from(draws.below(12)).unwrap()));
            blocks.extend((0..12).map(|b| 100 + round * 12 + b));
        }
        let scans = 400 * 12;
        let [lru, clock, two] = Policy::ALL.map(|p| missed(p, 24, blocks.clone()) - scans);
        assert!(two * 4 < lru && two * 4 < clock, "{two} {lru} {clock}");
    }

    #[test]
    fn without_a_cache_everything_is_missed() {
        for policy in Policy::ALL {
            assert_eq!(missed(policy, 0, [7, 7, 7]), 3, "{policy:?}");
        }
    }
}

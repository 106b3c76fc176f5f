//! Sets of bricks as bits: what a peer announces that it holds.

use crate::brick_grid::BrickIndex;
use serde::{Deserialize, Serialize};

/// A set of bricks of a grid; iterates in index order. A brick beyond the size is never in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrickSet {
    brick_count: u32,
    words: Vec<u64>,
}

impl BrickSet {
    /// No brick of `brick_count`.
    #[must_use]
    pub fn new(brick_count: u32) -> Self {
        Self {
            brick_count,
            words: vec![0; brick_count.div_ceil(64) as usize],
        }
    }

    /// All bricks of `brick_count`.
    #[must_use]
    pub fn all(brick_count: u32) -> Self {
        let mut set = Self::new(brick_count);
        (0..brick_count).for_each(|b| {
            set.insert(BrickIndex(b));
        });
        set
    }

    /// Whether the words fit the count, as what comes from a peer must.
    #[must_use]
    pub fn is_valid(&self, brick_count: u32) -> bool {
        self.brick_count == brick_count
            && self.words.len() == brick_count.div_ceil(64) as usize
            && (brick_count.is_multiple_of(64)
                || self
                    .words
                    .last()
                    .is_none_or(|w| w >> (brick_count % 64) == 0))
    }

    /// Adds a brick; false if it was there or lies beyond the size.
    pub fn insert(&mut self, brick: BrickIndex) -> bool {
        let new = brick.0 < self.brick_count && !self.contains(brick);
        if new {
            self.words[(brick.0 / 64) as usize] |= 1 << (brick.0 % 64);
        }
        new
    }

    /// Takes a brick out; false if it was not there.
    pub fn remove(&mut self, brick: BrickIndex) -> bool {
        let there = self.contains(brick);
        if there {
            self.words[(brick.0 / 64) as usize] &= !(1 << (brick.0 % 64));
        }
        there
    }

    /// Whether the brick is in the set.
    #[must_use]
    pub fn contains(&self, brick: BrickIndex) -> bool {
        brick.0 < self.brick_count
            && self
                .words
                .get((brick.0 / 64) as usize)
                .is_some_and(|w| w >> (brick.0 % 64) & 1 == 1)
    }

    /// Number of bricks in the set.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }

    /// Whether no brick is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// The bricks, in index order.
    pub fn iter(&self) -> impl Iterator<Item = BrickIndex> + '_ {
        (0..self.brick_count)
            .map(BrickIndex)
            .filter(|&b| self.contains(b))
    }

    /// The bits, 64 bricks a word, for digests.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bricks_beyond_the_size_are_never_in_it() {
        let mut set = BrickSet::new(70);
        assert!(set.insert(BrickIndex(69)) && !set.insert(BrickIndex(69)));
        assert!(!set.insert(BrickIndex(70)) && !set.contains(BrickIndex(700)));
        assert_eq!(set.iter().collect::<Vec<_>>(), [BrickIndex(69)]);
        assert!(set.is_valid(70) && !set.is_valid(71));
        assert_eq!(BrickSet::all(70).len(), 70);
        assert!(set.remove(BrickIndex(69)) && set.is_empty());
    }

    #[test]
    fn a_set_from_a_peer_with_bits_beyond_the_size_is_not_valid() {
        let json = r#"{"brick_count":3,"words":[15]}"#;
        assert!(!serde_json::from_str::<BrickSet>(json).unwrap().is_valid(3));
    }
}

//! Sets of bricks as bits: what a peer announces that it holds.
//!
//! Why not `fixedbitset`: what it reads from the wire may have other blocks than its length says, which
//! would have to be checked here as the words are; and the words are part of digests.

use crate::data::brick_grid::BrickIndex;
use serde::{Deserialize, Serialize};

/// A set of bricks of a grid; iterates in index order. A brick beyond the size is never in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Told")]
pub struct BrickSet {
    brick_count: u32,
    words: Vec<u64>,
    /// Bits in the words: they are counted often.
    #[serde(skip_serializing)]
    len: u32,
}

/// What makes one set of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrickSetChange {
    /// That of the new one; where that of the old one is another, the old one counts as empty.
    brick_count: u32,
    /// The words that differ: index and new word.
    words: Vec<(u32, u64)>,
}

impl BrickSetChange {
    /// Number of words that differ.
    #[must_use]
    pub fn word_count(&self) -> usize {
        self.words.len()
    }
}

/// As it travels.
#[derive(Deserialize)]
struct Told {
    brick_count: u32,
    words: Vec<u64>,
}

impl From<Told> for BrickSet {
    fn from(Told { brick_count, words }: Told) -> Self {
        Self {
            len: count_ones(words.iter().copied()),
            brick_count,
            words,
        }
    }
}

fn count_ones(words: impl Iterator<Item = u64>) -> u32 {
    words.map(u64::count_ones).sum()
}

impl BrickSet {
    /// No brick of `brick_count`.
    #[must_use]
    pub fn new(brick_count: u32) -> Self {
        Self {
            brick_count,
            words: vec![0; brick_count.div_ceil(64) as usize],
            len: 0,
        }
    }

    /// All bricks of `brick_count`.
    #[must_use]
    pub fn all(brick_count: u32) -> Self {
        let mut words = vec![u64::MAX; brick_count.div_ceil(64) as usize];
        if let Some(last) = words.last_mut() {
            *last >>= brick_count.wrapping_neg() % 64;
        }
        Told { brick_count, words }.into()
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
            self.len += 1;
        }
        new
    }

    /// Takes a brick out; false if it was not there.
    pub fn remove(&mut self, brick: BrickIndex) -> bool {
        let there = self.contains(brick);
        if there {
            self.words[(brick.0 / 64) as usize] &= !(1 << (brick.0 % 64));
            self.len -= 1;
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
        self.len
    }

    /// Whether no brick is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds all bricks of another set of the same grid, or of any where this one is of none.
    pub fn insert_all(&mut self, other: &Self) {
        self.brick_count = self.brick_count.max(other.brick_count);
        let words = self.words.len().max(other.words.len());
        self.words.resize(words, 0);
        let both = self.words.iter_mut().zip(&other.words);
        both.for_each(|(word, more)| *word |= more);
        self.len = count_ones(self.words.iter().copied());
    }

    /// Number of bricks that are not in another set of the same grid.
    #[must_use]
    pub fn len_without(&self, other: &Self) -> u32 {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        count_ones(self.words.iter().zip(others).map(|(w, o)| w & !o))
    }

    /// The bricks that another set has not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        let words = self.words.iter().zip(others).map(|(w, o)| w & !o);
        let (brick_count, words) = (self.brick_count, words.collect());
        Told { brick_count, words }.into()
    }

    /// The bricks, in index order.
    pub fn iter(&self) -> impl Iterator<Item = BrickIndex> + '_ {
        let bricks = (0_u32..).step_by(64).zip(&self.words);
        let bricks = bricks.flat_map(|(first, &word)| {
            // Each with its lowest bit taken away.
            let rest = std::iter::successors(Some(word), |w| Some(w & w.wrapping_sub(1)));
            let rest = rest.take_while(|&w| w != 0);
            rest.map(move |w| BrickIndex(first + w.trailing_zeros()))
        });
        bricks.take_while(|b| b.0 < self.brick_count)
    }

    /// The most bricks that it can have.
    #[must_use]
    pub fn brick_count(&self) -> u32 {
        self.brick_count
    }

    /// What makes this set of another one.
    #[must_use]
    pub fn change_from(&self, before: &Self) -> BrickSetChange {
        let is_same_size = before.brick_count == self.brick_count;
        let befores = before.words.iter().filter(|_| is_same_size);
        let befores = befores.chain(std::iter::repeat(&0));
        let words = (0_u32..).zip(&self.words).zip(befores);
        let words = words.filter(|((_, word), before)| word != before);
        BrickSetChange {
            brick_count: self.brick_count,
            words: words.map(|((index, &word), _)| (index, word)).collect(),
        }
    }

    /// What a change makes of this set; `None`: it has words that a set does not have, or there can be
    /// more bricks than `brick_count_max`.
    #[must_use]
    pub fn changed(&self, change: &BrickSetChange, brick_count_max: u32) -> Option<Self> {
        let brick_count = change.brick_count;
        if brick_count > brick_count_max {
            return None;
        }
        let mut words = if brick_count == self.brick_count {
            self.words.clone()
        } else {
            Self::new(brick_count).words
        };
        for &(index, word) in &change.words {
            *words.get_mut(index as usize)? = word;
        }
        Some(Told { brick_count, words }.into())
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
        assert!(BrickSet::all(70).iter().eq((0..70).map(BrickIndex)));
        assert!(set.remove(BrickIndex(69)) && set.is_empty());
    }

    #[test]
    fn sets_are_joined_and_told_apart() {
        let of = |bricks: &[u32]| {
            let mut set = BrickSet::new(130);
            assert!(bricks.iter().all(|&b| set.insert(BrickIndex(b))));
            set
        };
        let (mut one, other) = (of(&[0, 63, 64]), of(&[63, 129]));
        assert_eq!((one.len_without(&other), other.len_without(&one)), (2, 1));
        assert_eq!(
            (one.without(&other), other.without(&one)),
            (of(&[0, 64]), of(&[129]))
        );
        assert_eq!(one.len_without(&BrickSet::default()), 3);
        assert_eq!(one.without(&BrickSet::default()), one);
        let mut all = BrickSet::default();
        all.insert_all(&other);
        assert_eq!(all, other);
        one.insert_all(&other);
        assert_eq!(one, of(&[0, 63, 64, 129]));
        assert_eq!(
            one.iter().map(|b| b.0).collect::<Vec<_>>(),
            [0, 63, 64, 129]
        );
    }

    #[test]
    fn a_change_makes_one_set_of_another() {
        let of = |size: u32, bricks: &[u32]| {
            let mut set = BrickSet::new(size);
            assert!(bricks.iter().all(|&b| set.insert(BrickIndex(b))));
            set
        };
        let sets = [
            of(130, &[0, 63, 129]),
            of(130, &[63]),
            of(0, &[]),
            of(70, &[69]),
        ];
        for (before, after) in sets.iter().flat_map(|b| sets.iter().map(move |a| (b, a))) {
            let change = after.change_from(before);
            assert_eq!(before.changed(&change, 130).as_ref(), Some(after));
        }
        let change = sets[1].change_from(&sets[0]);
        assert_eq!(change.word_count(), 2);
        assert_eq!(sets[0].changed(&change, 129), None, "too large");
        assert_eq!(sets[3].changed(&sets[0].change_from(&sets[1]), 70), None);
        let beyond = BrickSetChange {
            brick_count: 130,
            words: vec![(3, 1)],
        };
        assert_eq!(sets[0].changed(&beyond, 130), None);
    }

    #[test]
    fn a_set_from_a_peer_with_bits_beyond_the_size_is_not_valid() {
        let json = r#"{"brick_count":3,"words":[15]}"#;
        assert!(!serde_json::from_str::<BrickSet>(json).unwrap().is_valid(3));
    }
}

//! Seeded randomness: the same seed gives the same draws on every machine, in every version.
//!
//! Source: ChaCha8 as the stream; Fisher–Yates with rejection (Lemire, "Fast Random Integer
//! Generation in an Interval", 2019) written here, because library shuffles may change between
//! versions and placements must not.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// A hash of a number: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
#[must_use]
pub const fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of draws from a seed.
#[derive(Clone, Debug)]
pub struct Seeded(ChaCha8Rng);

impl Seeded {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// An even draw from `0..bound`; 0 where `bound` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "the low 64 bits are meant")]
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// Shuffles in place, every order equally likely.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a draw below a usize fits a usize"
    )]
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_these_draws() {
        let mut order: Vec<u32> = (0..10).collect();
        Seeded::new(1).shuffle(&mut order);
        assert_eq!(order, FROZEN, "placements of stored meshes would change");
    }

    const FROZEN: [u32; 10] = [2, 7, 8, 5, 3, 6, 1, 9, 0, 4];
}

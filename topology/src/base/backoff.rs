//! Waits that double with each failure, up to a bound.

/// See the module. Microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: u64,
    most: u64,
}

impl Backoff {
    /// Waits from `first` to `most` microseconds.
    #[must_use]
    pub const fn new(first: u64, most: u64) -> Self {
        Self { first, most }
    }

    /// The wait after so many earlier ones.
    #[must_use]
    pub fn micros(&self, earlier: u32) -> u64 {
        let factor = 1_u64.checked_shl(earlier).unwrap_or(u64::MAX);
        self.first.saturating_mul(factor).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let backoff = Backoff::new(3, 20);
        assert_eq!(
            [0, 1, 2, 3, 4, 64, u32::MAX].map(|n| backoff.micros(n)),
            [3, 6, 12, 20, 20, 20, 20]
        );
        assert_eq!(Backoff::new(0, 5).micros(9), 0);
    }
}

//! Who is to go where some cannot work with each other.

use std::collections::{BTreeMap, BTreeSet};

/// Where as many conflicts as with any other are with several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The greatest of them goes.
    One,
    /// All of them go.
    All,
}

/// Takes out those with most conflicts, again and again, until there are none but between those that
/// `stays` names. Returns who goes, in that order. O(conflicts · goers).
pub fn without_conflicts<T: Copy + Ord>(
    mut conflicts: BTreeSet<(T, T)>,
    stays: impl Fn(T) -> bool,
    tie: Tie,
) -> Vec<T> {
    let mut gone = Vec::new();
    loop {
        let mut counts: BTreeMap<T, usize> = BTreeMap::new();
        for one in conflicts.iter().flat_map(|&(a, b)| [a, b]) {
            if !stays(one) {
                *counts.entry(one).or_default() += 1;
            }
        }
        let Some(&most) = counts.values().max() else {
            return gone;
        };
        let worst = counts
            .iter()
            .filter(|(_, n)| **n == most)
            .map(|(&one, _)| one);
        let worst: Vec<T> = match tie {
            Tie::All => worst.collect(),
            Tie::One => worst.last().into_iter().collect(),
        };
        conflicts.retain(|(a, b)| !worst.contains(a) && !worst.contains(b));
        gone.extend(worst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_in_most_conflicts_go_first() {
        let of = |pairs: &[(u32, u32)]| pairs.iter().copied().collect::<BTreeSet<_>>();
        let star = of(&[(1, 5), (2, 5), (3, 4)]);
        assert_eq!(without_conflicts(star.clone(), |_| false, Tie::One), [5, 4]);
        assert_eq!(
            without_conflicts(star.clone(), |_| false, Tie::All),
            [5, 3, 4]
        );
        // Of all that are in one conflict, the greatest first.
        assert_eq!(without_conflicts(star, |n| n == 5, Tie::One), [4, 2, 1]);
    }
}

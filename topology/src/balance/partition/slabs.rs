//! Slabs: an axis cut into consecutive runs of slices, one a node.
//!
//! Shapes: n counts, one a slice; P nodes, 1 ≤ P ≤ n; out, P ranges of slices, none empty, ascending.
//!
//! Source: Silva, "Parallel Performance Measures for Volume Ray Casting", 1995, section "Load Balancing": equal
//! runs, the rule of its equation 2 (largest load least), and the rule of its own program (least sum of squared
//! differences from the mean). It enumerates the partitions of n; here both rules are dynamic programs.

use std::ops::Range;

/// Most nodes times slices of a dynamic program: a table of this many entries.
pub const SLAB_WORK_MAX: u64 = 1 << 24;

/// Runs of as equal length as can be; longer ones are spread evenly.
///
/// # Panics
/// Where there is no node, or there are more than slices.
#[must_use]
pub fn equal(slices: usize, nodes: usize) -> Vec<Range<usize>> {
    check(slices, nodes);
    let plane = |p: usize| slices * p / nodes;
    (0..nodes).map(|p| plane(p)..plane(p + 1)).collect()
}

/// The runs whose largest load is least (equation 2); among those, the ones with the least sum of squares; then
/// the ones whose last runs are longest. O(P·n·log n).
///
/// # Panics
/// As [`equal`].
#[must_use]
pub fn min_max(counts: &[u64], nodes: usize) -> Vec<Range<usize>> {
    check(counts.len(), nodes);
    let (mut low, mut high) = (0, counts.iter().map(|&c| u128::from(c)).sum::<u128>());
    // The least largest load: a bisection, as more runs than needed only make loads smaller.
    while low < high {
        let middle = low + (high - low) / 2;
        if runs_within(counts, middle).is_some_and(|runs| runs <= nodes) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    least_squares_within(counts, nodes, low)
}

/// The runs with the least sum of squared differences from the mean load; then as in [`min_max`]. O(P·n·log n).
///
/// # Panics
/// As [`equal`].
#[must_use]
pub fn least_squares(counts: &[u64], nodes: usize) -> Vec<Range<usize>> {
    check(counts.len(), nodes);
    least_squares_within(counts, nodes, u128::MAX)
}

/// The loads of runs.
#[must_use]
pub fn loads(counts: &[u64], runs: &[Range<usize>]) -> Vec<u64> {
    let load = |run: &Range<usize>| {
        counts[run.clone()]
            .iter()
            .fold(0, |a: u64, &c| a.saturating_add(c))
    };
    runs.iter().map(load).collect()
}

fn check(slices: usize, nodes: usize) {
    assert!(
        (1..=slices).contains(&nodes),
        "{nodes} nodes for {slices} slices"
    );
}

/// How many runs it takes where none may be above `most`; `None`: a slice alone is.
fn runs_within(counts: &[u64], most: u128) -> Option<usize> {
    let (mut runs, mut load) = (1, 0_u128);
    for &count in counts {
        let count = u128::from(count);
        if count > most {
            return None;
        }
        load += count;
        if load > most {
            runs += 1;
            load = count;
        }
    }
    Some(runs)
}

/// The least sum of squared loads, none above `most`. As the mean is given, it has the least squared differences
/// from it, too.
fn least_squares_within(counts: &[u64], nodes: usize, most: u128) -> Vec<Range<usize>> {
    let mut sums = vec![0_u128];
    for &count in counts {
        sums.push(sums[sums.len() - 1] + u128::from(count));
    }
    let table = Table { sums, most };
    let n = counts.len();
    // best[i]: of the first i slices in as many runs as there were rounds.
    let mut best: Vec<Option<u128>> = (0..=n).map(|i| table.square(0, i)).collect();
    best[0] = None;
    let mut cuts = Vec::with_capacity(nodes);
    let mut reach = table.reach(0);
    for runs in 2..=nodes {
        reach = table.reach(reach);
        let mut next = Round {
            table: &table,
            before: &best,
            best: vec![None; n + 1],
            cut: vec![0; n + 1],
        };
        // So many slices at least, and no more than fit into so many runs: all of these ends can be.
        next.fill(runs..reach + 1, runs - 1..n);
        let (round_best, cut) = (next.best, next.cut);
        best = round_best;
        cuts.push(cut);
    }
    let mut end = n;
    let mut runs = Vec::with_capacity(nodes);
    for cut in cuts.iter().rev() {
        runs.push(cut[end]..end);
        end = cut[end];
    }
    runs.push(0..end);
    runs.reverse();
    runs
}

struct Table {
    /// Sums of the first counts.
    sums: Vec<u128>,
    /// Most that a run may have.
    most: u128,
}

impl Table {
    /// The square of a run's load; `None`: it is too large. Squares saturate: two such runs count as equal.
    fn square(&self, from: usize, to: usize) -> Option<u128> {
        let load = self.sums[to] - self.sums[from];
        (load <= self.most).then(|| load.saturating_mul(load))
    }

    /// The furthest end of a run that begins at `from`.
    fn reach(&self, from: usize) -> usize {
        let fits = |&sum: &u128| sum - self.sums[from] <= self.most;
        from + self.sums[from..].partition_point(fits) - 1
    }
}

/// One more run at the end. The best cut of i slices never lies before that of fewer (squares of sums of numbers
/// that are not negative are Monge), so that halves are filled within the cuts of their middle.
struct Round<'a> {
    table: &'a Table,
    before: &'a [Option<u128>],
    best: Vec<Option<u128>>,
    cut: Vec<usize>,
}

impl Round<'_> {
    fn fill(&mut self, ends: Range<usize>, cuts: Range<usize>) {
        if ends.is_empty() {
            return;
        }
        let end = ends.start + ends.len() / 2;
        let with = |cut: usize| {
            let run = self.table.square(cut, end)?;
            Some(self.before[cut]?.saturating_add(run))
        };
        let tried = cuts.start..cuts.end.min(end);
        let found = tried.filter_map(|cut| Some((with(cut)?, cut))).min();
        let Some((value, cut)) = found else {
            return;
        };
        (self.best[end], self.cut[end]) = (Some(value), cut);
        let (low, high) = (cuts.start..cut + 1, cut..cuts.end);
        self.fill(ends.start..end, low);
        self.fill(end + 1..ends.end, high);
    }
}

/// Sum of the squared differences of loads from their mean.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub fn squared_differences(loads: &[u64]) -> f64 {
    let mean = loads.iter().map(|&l| l as f64).sum::<f64>() / loads.len().max(1) as f64;
    loads.iter().map(|&l| (l as f64 - mean).powi(2)).sum()
}

/// The largest load.
#[must_use]
pub fn largest(loads: &[u64]) -> u64 {
    loads.iter().copied().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seeded::Seeded;

    /// The counts of the paper: neghip at level 4, values 10 to 200.
    const PARC: [u64; 16] = [
        12, 28, 61, 138, 149, 154, 139, 104, 106, 139, 156, 151, 129, 62, 29, 13,
    ];

    #[test]
    fn the_papers_example_is_balanced_as_there() {
        assert_eq!(PARC.iter().sum::<u64>(), 1570);
        let of = |runs: Vec<Range<usize>>| loads(&PARC, &runs);
        assert_eq!(of(equal(16, 4)), [239, 546, 552, 233]);
        assert_eq!(of(min_max(&PARC, 4)), [388, 397, 401, 384]);
        assert_eq!(of(least_squares(&PARC, 4)), [388, 397, 401, 384]);
    }

    /// Every way to cut `n` slices into `nodes` runs.
    fn enumerate(n: usize, nodes: usize, of: &mut impl FnMut(&[Range<usize>])) {
        fn go(
            from: usize,
            n: usize,
            left: usize,
            runs: &mut Vec<Range<usize>>,
            of: &mut impl FnMut(&[Range<usize>]),
        ) {
            if left == 1 {
                runs.push(from..n);
                of(runs);
                runs.pop();
                return;
            }
            for to in from + 1..=n - (left - 1) {
                runs.push(from..to);
                go(to, n, left - 1, runs, of);
                runs.pop();
            }
        }
        go(0, n, nodes, &mut Vec::new(), of);
    }

    #[test]
    fn both_rules_are_what_enumeration_finds() {
        let mut draws = Seeded::new(1995);
        for round in 0..1000 {
            let n = 1 + usize::try_from(draws.below(16)).unwrap();
            let bound = [2, 10, 200, 1 << 40][round % 4];
            let counts: Vec<u64> = (0..n).map(|_| draws.below(bound)).collect();
            // All of them for a list of 16 are 32,768 ways.
            for nodes in 1..=n {
                let (mut least_max, mut least_sum) = (u64::MAX, u128::MAX);
                let squares =
                    |loads: &[u64]| loads.iter().map(|&l| u128::from(l).pow(2)).sum::<u128>();
                enumerate(n, nodes, &mut |runs| {
                    let loads = loads(&counts, runs);
                    least_max = least_max.min(largest(&loads));
                    least_sum = least_sum.min(squares(&loads));
                });
                let by_max = min_max(&counts, nodes);
                assert_eq!(
                    largest(&loads(&counts, &by_max)),
                    least_max,
                    "{counts:?} {nodes}"
                );
                let by_squares = least_squares(&counts, nodes);
                assert_eq!(
                    squares(&loads(&counts, &by_squares)),
                    least_sum,
                    "{counts:?} {nodes}"
                );
                for runs in [by_max, by_squares, equal(n, nodes)] {
                    assert_eq!(
                        (runs.len(), runs[0].start, runs[nodes - 1].end),
                        (nodes, 0, n)
                    );
                    assert!(runs.iter().all(|r| !r.is_empty()));
                    assert!(runs.windows(2).all(|w| w[0].end == w[1].start));
                }
            }
        }
    }
}

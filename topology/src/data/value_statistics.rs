//! What the values of a volume are like, whatever their scale and offset: what is no data, what is
//! background, where the rest lies.
//!
//! Space: stored numbers. Everything here follows from the order of values and from how many there
//! are of each, so that an affine map of the values maps it, too.
//! Not here: which voxels are looked at (`brick_store` in `node`), transfer functions.

use serde::{Deserialize, Serialize};

/// Bins of the histogram.
pub const HISTOGRAM_BINS: usize = 256;
/// Shares of the values that [`ValueStatistics::quantiles`] lie above, in thousandths.
pub const QUANTILE_THOUSANDTHS: [u16; 15] = [
    0, 1, 5, 10, 50, 100, 250, 500, 750, 900, 950, 990, 995, 999, 1000,
];
/// Share of the border that the most frequent value there must have to be the background.
const BACKGROUND_SHARE_MIN: f64 = 0.15;
/// Noise around an object is narrower than this, beside the range of all values.
const NOISE_WIDTH_MAX: f64 = 0.15;
/// The histogram's bins go up to here beyond the middle 99.8 % of the values, in widths of those: as far
/// as that it is the whole range.
const HISTOGRAM_WIDTHS: f64 = 3.0;

/// A value and how many voxels have it, in ascending order of values.
pub type Counted = [(f32, u64)];

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueStatistics {
    /// Voxels that are NaN.
    pub nan: u64,
    /// Voxels that are infinite.
    pub infinite: u64,
    /// Voxels that are the declared fill value.
    pub filled: u64,
    /// The most frequent value on the volume's border, if it is frequent enough to be what surrounds
    /// the object.
    pub background: Option<f64>,
    /// Values at [`QUANTILE_THOUSANDTHS`] of what is neither no data nor background; of the background,
    /// where there is nothing else; none where there is nothing.
    pub quantiles: Vec<f64>,
    /// What the manifest's histogram is over.
    pub histogram_range: [f64; 2],
}

/// Voxels that are no data, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoDataCounts {
    /// NaN.
    pub nan: u64,
    /// Infinities.
    pub infinite: u64,
    /// The declared fill value.
    pub filled: u64,
}

impl ValueStatistics {
    /// Of counted values: of all voxels or a sample of them, and of those on the volume's border. No
    /// data is in neither.
    #[must_use]
    pub fn of(no_data: NoDataCounts, values: &Counted, border: &Counted) -> Self {
        let background = background(border).or_else(|| noisy_background(values, border));
        let is_background =
            |v: f32| background.is_some_and(|b| f64::from(v).to_bits() == b.to_bits());
        let rest: Vec<(f32, u64)> = values
            .iter()
            .copied()
            .filter(|v| !is_background(v.0))
            .collect();
        let of = if rest.is_empty() { values } else { &rest };
        let quantiles = QUANTILE_THOUSANDTHS.map(|t| quantile(of, f64::from(t) / 1000.0));
        let quantiles: Vec<f64> = quantiles.into_iter().flatten().collect();
        let mut statistics = Self {
            nan: no_data.nan,
            infinite: no_data.infinite,
            filled: no_data.filled,
            background,
            quantiles,
            histogram_range: [0.0; 2],
        };
        statistics.histogram_range = statistics.range_for_histogram(values);
        statistics
    }

    /// Whether what came from a file or a peer can be believed to be statistics.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let largest = f64::from(f32::MAX);
        let finite = |v: &f64| v.abs() <= largest;
        let count = self.quantiles.len();
        (count == 0 || count == QUANTILE_THOUSANDTHS.len())
            && self
                .quantiles
                .iter()
                .chain(&self.histogram_range)
                .all(finite)
            && self.background.iter().all(finite)
            && self.quantiles.is_sorted()
            && self.histogram_range.is_sorted()
    }

    /// Voxels that are no data.
    #[must_use]
    pub fn no_data(&self) -> u64 {
        self.nan
            .saturating_add(self.infinite)
            .saturating_add(self.filled)
    }

    /// The value below which so many thousandths of the values lie; `None`: there are no values.
    #[must_use]
    pub fn quantile(&self, thousandths: u16) -> Option<f64> {
        let at = QUANTILE_THOUSANDTHS.partition_point(|&t| t < thousandths);
        self.quantiles.get(at).copied()
    }

    /// The values without the thousandth at either end: what is far out there decides nothing.
    /// `None`: there are no values.
    #[must_use]
    pub fn robust_range(&self) -> Option<[f64; 2]> {
        Some([self.quantile(1)?, self.quantile(999)?])
    }

    /// How many floats there are between the middle half of the values: what lies between two of them
    /// was lost when the volume was written. Of more of the values, where those are one, and at last between
    /// them and the background. `None`: there are no values, or all are one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "they were floats")]
    pub fn floats_in_range(&self) -> Option<u32> {
        // Bits of floats ascend with their size.
        let ordered = |v: f32| {
            let size = i64::from(v.abs().to_bits());
            if v < 0.0 { -size } else { size }
        };
        let between = |low: f64, high: f64| {
            let count = ordered(high as f32).abs_diff(ordered(low as f32));
            u32::try_from(count).ok().filter(|&n| n > 0)
        };
        let of = |[low, high]: [u16; 2]| between(self.quantile(low)?, self.quantile(high)?);
        let found = [[250, 750], [10, 990], [1, 999]].into_iter().find_map(of);
        found.or_else(|| between(self.background?, self.quantile(500)?))
    }

    /// The whole range of `values`, but as far as outliers and fill values would stretch it.
    fn range_for_histogram(&self, values: &Counted) -> [f64; 2] {
        let (Some(first), Some(last)) = (values.first(), values.last()) else {
            return [0.0; 2];
        };
        let (low, high) = (f64::from(first.0), f64::from(last.0));
        let Some([from, to]) = self.robust_range() else {
            return [low, high];
        };
        let most = (to - from) * HISTOGRAM_WIDTHS;
        let is_far = |beyond: f64| to > from && beyond > most;
        [
            if is_far(from - low) { from } else { low },
            if is_far(high - to) { to } else { high },
        ]
    }
}

/// The most frequent value, if it is frequent and the only one that is as frequent: which of several
/// would depend on the sign of what the values are multiplied with.
fn background(border: &Counted) -> Option<f64> {
    let all: u64 = border.iter().map(|v| v.1).sum();
    let most = border.iter().max_by_key(|v| v.1)?;
    let is_frequent = most.1 as f64 >= all as f64 * BACKGROUND_SHARE_MIN;
    let is_alone = border.iter().filter(|v| v.1 == most.1).count() == 1;
    (is_frequent && is_alone).then(|| f64::from(most.0))
}

/// The middle of the border's values, where no value is frequent there and they lie close together
/// beside all values: the noise around an object.
fn noisy_background(values: &Counted, border: &Counted) -> Option<f64> {
    let at = |of: &Counted, share| quantile(of, share);
    let noise = at(border, 0.95)? - at(border, 0.05)?;
    let all = at(values, 0.999)? - at(values, 0.001)?;
    (noise < NOISE_WIDTH_MAX * all).then(|| at(border, 0.5))?
}

/// The value below which a share of all lies.
fn quantile(values: &Counted, share: f64) -> Option<f64> {
    let all: u64 = values.iter().map(|v| v.1).sum();
    let wanted = all as f64 * share;
    let mut seen = 0;
    let at = values.iter().position(|v| {
        seen += v.1;
        seen as f64 >= wanted && seen > 0
    });
    values.get(at?).map(|v| f64::from(v.0))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "numbers are exact")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(values: impl IntoIterator<Item = f32>) -> Vec<(f32, u64)> {
        let mut all: Vec<f32> = values.into_iter().collect();
        all.sort_by(f32::total_cmp);
        let mut out: Vec<(f32, u64)> = Vec::new();
        for v in all {
            match out.last_mut() {
                Some(last) if last.0.to_bits() == v.to_bits() => last.1 += 1,
                _ => out.push((v, 1)),
            }
        }
        out
    }

    fn of(values: &[f32], border: &[f32]) -> ValueStatistics {
        let none = NoDataCounts::default();
        ValueStatistics::of(none, &counted(values.to_vec()), &counted(border.to_vec()))
    }

    #[test]
    fn floats_are_counted_between_the_ends() {
        let between = |low: f32, high: f32| of(&[low, high], &[]).floats_in_range();
        assert_eq!(between(1.0, 1.0 + 5.0 * f32::EPSILON), Some(5));
        assert_eq!(between(1e8, 1e8 + 64.0), Some(8));
        assert!(between(-1.0, 1.0) > Some(1 << 30) && between(2.0, 2.0).is_none());
    }

    #[test]
    fn the_most_frequent_border_value_is_background_and_in_no_quantile() {
        let object: Vec<f32> = (0..1000).map(|i| i as f32 / 1000.0).collect();
        let values: Vec<f32> = object.iter().copied().chain([-9999.0; 3000]).collect();
        let found = of(&values, &[-9999.0; 50]);
        assert_eq!(found.background, Some(-9999.0));
        assert_eq!(found.quantile(0), Some(0.0));
        assert!((found.quantile(500).unwrap() - 0.5).abs() < 0.01);
        assert!(found.histogram_range[0] > -0.1 && found.histogram_range[1] < 1.1);
        // A border on which no value stands out is no background.
        assert_eq!(of(&object, &object).background, None);
    }

    #[test]
    fn an_outlier_moves_no_quantile_but_the_last() {
        let object: Vec<f32> = (0..10_000).map(|i| i as f32 / 10_000.0).collect();
        let with: Vec<f32> = object.iter().copied().chain([1e6]).collect();
        let (a, b) = (of(&object, &object), of(&with, &object));
        assert_eq!(b.quantile(1000), Some(1e6));
        assert!((a.quantile(999).unwrap() - b.quantile(999).unwrap()).abs() < 1e-3);
        assert!(b.histogram_range[1] < 1.0);
    }

    #[test]
    fn constant_and_empty_volumes_have_statistics() {
        let constant = of(&[7.0; 50], &[7.0; 20]);
        assert_eq!(constant.background, Some(7.0));
        assert_eq!(constant.robust_range(), Some([7.0; 2]));
        let empty = of(&[], &[]);
        assert_eq!((empty.background, empty.robust_range()), (None, None));
        assert!(constant.is_valid() && empty.is_valid());
        let mut wrong = constant;
        wrong.quantiles[3] = f64::NAN;
        assert!(!wrong.is_valid());
    }

    proptest! {
        #[test]
        fn what_is_found_is_mapped_as_the_values_are(
            values in prop::collection::vec(0_u16..500, 20..400), log_scale in -20..20_i32, offset in -1000..1000_i32
        ) {
            let scale = 2.0_f32.powi(log_scale);
            let map = |v: f32| v * scale + offset as f32 * scale;
            let plain: Vec<f32> = values.iter().map(|&v| f32::from(v)).collect();
            let mapped: Vec<f32> = plain.iter().map(|&v| map(v)).collect();
            let cut = plain.len() / 4;
            let (a, b) = (of(&plain, &plain[..cut]), of(&mapped, &mapped[..cut]));
            let exact = |v: f64| f64::from(scale) * (v + f64::from(offset));
            prop_assert_eq!(a.background.map(exact), b.background);
            prop_assert_eq!(a.quantiles.into_iter().map(exact).collect::<Vec<_>>(), b.quantiles);
            prop_assert_eq!(a.histogram_range.map(exact), b.histogram_range);
        }
    }
}

//! Figures of many frames: medians, means.

/// The middle value, or the mean of the two in the middle; NaN of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => 0.5 * (sorted[middle - 1] + sorted[middle]),
    }
}

/// The mean; NaN of none.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    sum / count
}

/// How many times as large the second of each pair is as the first: the geometric mean, and how far
/// above it the true one may be, as twice its standard error; NaN of fewer than two pairs.
pub(crate) fn mean_ratio(pairs: impl IntoIterator<Item = (f64, f64)>) -> (f64, f64) {
    let logs: Vec<f64> = pairs.into_iter().map(|(a, b)| (b / a).ln()).collect();
    let centre = mean(logs.iter().copied());
    let freedom = logs.len() as f64 - 1.0;
    let variance = logs.iter().map(|l| (l - centre).powi(2)).sum::<f64>() / freedom;
    let error = 2.0 * (variance / logs.len() as f64).sqrt();
    (centre.exp(), centre.exp() * error.exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert!((median([9.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median([9.0, 1.0, 2.0, 4.0]) - 3.0).abs() < 1e-12);
        assert!(median([]).is_nan());
        assert!((mean([1.0, 2.0, 6.0]) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_ratio_and_its_inverse_cancel_out() {
        let (ratio, error) = mean_ratio([(1.0, 2.0), (2.0, 1.0)]);
        assert!((ratio - 1.0).abs() < 1e-12);
        assert!((error - 3.0).abs() < 1e-12, "{error}");
        let (ratio, error) = mean_ratio([(1.0, 1.1); 5]);
        assert!((ratio - 1.1).abs() < 1e-12 && error.abs() < 1e-12);
        assert!(mean_ratio([(1.0, 2.0)]).1.is_nan());
    }
}

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
}

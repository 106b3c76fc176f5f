//! Numbers for people, in few digits.

/// A number with few digits, for people.
#[must_use]
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && !(1e-3..1e7).contains(&size) {
        return format!("{value:.4e}");
    }
    // Six digits, none of them behind whole numbers.
    let digits = [1e1, 1e2, 1e3, 1e4, 1e5]
        .iter()
        .filter(|&&p| size < p)
        .count();
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// A range for people: with few digits, but so many that its ends differ.
#[must_use]
pub fn short_range([low, high]: [f64; 2]) -> String {
    let few = [low, high].map(short);
    let more = (5..17).map(|digits| [low, high].map(|v| format!("{v:.digits$e}")));
    let is_one = low.to_bits() == high.to_bits();
    let differ = |[low, high]: &[String; 2]| is_one || low != high;
    let told = std::iter::once(few.clone()).chain(more).find(differ);
    told.unwrap_or(few).join(" … ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people_are_short() {
        let texts = [
            0.0,
            1.0,
            -3024.0,
            2509.89,
            0.722_656_123,
            1e-20,
            3.5e30,
            123_456.7,
        ];
        assert_eq!(
            texts.map(short),
            [
                "0",
                "1",
                "-3024",
                "2509.89",
                "0.72266",
                "1.0000e-20",
                "3.5000e30",
                "123457"
            ]
        );
    }
}

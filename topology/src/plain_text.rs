//! What others say of themselves and of us, made fit for logs, terminals and titles of windows.

/// Longest text of another peer that is repeated, in characters, and what of it is its end.
const CHARACTERS_MAX: (usize, usize) = (200, 60);

/// A text without control characters, which would drive a terminal or forge a line of a log, and not
/// longer than a person reads.
#[must_use]
pub fn plain_text(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    let (most, last) = CHARACTERS_MAX;
    let count = text.chars().count();
    if count <= most {
        return text.chars().map(shown).collect();
    }
    let between = " … ";
    let first = text.chars().take(most - last - between.chars().count());
    let end = text.chars().skip(count - last);
    (first.chain(between.chars()).chain(end).map(shown)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_short_and_drive_nothing() {
        assert_eq!(plain_text("Größe µm"), "Größe µm");
        assert_eq!(plain_text("a\u{1b}[31m\nb\0\u{9b}"), "a?[31m?b??");
        let long = plain_text(&"é".repeat(1 << 20));
        assert_eq!(long.chars().count(), 200);
        assert_eq!(plain_text(&long), long);
    }
}

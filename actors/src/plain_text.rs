//! Texts of others, files and peers, made fit for errors, logs, terminals and titles of windows.

use std::fmt::Display;

/// Longest text of others that is repeated, in characters, and what of it is its end: there a decoder
/// says where it was.
const CHARACTERS_MAX: (usize, usize) = (200, 60);
/// In place of what is left out.
const LEFT_OUT: &str = " … ";

/// A text not longer than a person reads: a line or a name that is none of ours can be very long.
#[must_use]
pub fn shortened(text: &str) -> String {
    let (most, last) = CHARACTERS_MAX;
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let first = text.chars().take(most - last - LEFT_OUT.chars().count());
    let end = text.chars().skip(count - last);
    first.chain(LEFT_OUT.chars()).chain(end).collect()
}

/// A text that is short, too, and without control characters, which would drive a terminal or forge a
/// line of a log.
#[must_use]
pub fn plain_text(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    shortened(text).chars().map(shown).collect()
}

/// So many of these, in words: `1 peer`, `3 peers`. For nouns that take an `s`.
#[must_use]
pub fn counted<N: Display + From<u8> + PartialEq>(count: N, noun: &str) -> String {
    let end = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let words = [0_u32, 1, 2].map(|n| counted(n, "peer"));
        assert_eq!(words, ["0 peers", "1 peer", "2 peers"]);
    }

    #[test]
    fn texts_of_others_are_short_and_drive_nothing() {
        assert_eq!(plain_text("Größe µm"), "Größe µm");
        assert_eq!(plain_text("a\u{1b}[31m\nb\0\u{9b}"), "a?[31m?b??");
        let long = plain_text(&"é".repeat(1 << 20));
        assert_eq!(long.chars().count(), 200);
        assert_eq!(plain_text(&long), long);
    }
}

//! Good bytes turned bad: flipped, cut, spliced, repeated, with numbers that nobody expects.

use brickmesh_topology::base::seeded::Seeded;
use std::ops::Range;

/// Numbers that break what trusts them, as text.
const NUMBERS: [&str; 26] = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "4",
    "255",
    "-0.0",
    "0.5",
    "65535",
    "65536",
    "65537",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999",
    "1e308",
    "-1e308",
    "1e-310",
    "1e999",
    "NaN",
    "inf",
];
/// The same as little-endian bytes; their ends are the narrower ones.
const WORDS: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];
/// What parts a text into pieces.
const SEPARATORS: [u8; 6] = [b'\n', b',', b' ', b'"', b'{', b'<'];
/// Most changes of one input.
const CHANGES_MAX: u64 = 4;
/// What repeating may add, in bytes.
const REPEATED_BYTES_MAX: usize = 256 << 10;

/// Changes `bytes` in one to four ways, three of four of them within the first `head` bytes;
/// `other` lends what is spliced in.
pub fn mutate(draws: &mut Seeded, bytes: &mut Vec<u8>, head: usize, other: &[u8]) {
    // A single change more often than not: the second is seldom looked at after the first.
    let most = draws.below(CHANGES_MAX);
    for _ in 0..=draws.below(most + 1) {
        let end = if draws.below(4) > 0 { head } else { usize::MAX };
        change(draws, bytes, end.min(bytes.len()), other);
    }
}

/// An even draw below `bound`.
pub fn pick(draws: &mut Seeded, bound: usize) -> usize {
    usize::try_from(draws.below(bound as u64)).unwrap_or(0)
}

/// One of a list.
///
/// # Panics
/// Where it is empty.
pub fn one_of<'a, T>(draws: &mut Seeded, list: &'a [T]) -> &'a T {
    &list[pick(draws, list.len())]
}

/// One change within the first `end` bytes.
fn change(draws: &mut Seeded, bytes: &mut Vec<u8>, end: usize, other: &[u8]) {
    match draws.below(12) {
        0 => flip(draws, bytes, end),
        1 => drop(bytes.drain(range(draws, end))),
        2 => bytes.truncate(pick(draws, end + 1)),
        3 => repeat(draws, bytes, end),
        4 => {
            let from = other[range(draws, other.len())].to_vec();
            drop(bytes.splice(range(draws, end), from));
        }
        5 => swap(draws, bytes, end),
        6 => overwrite(draws, bytes, end),
        7 => piece(draws, bytes, end, other),
        _ => number(draws, bytes, end),
    }
}

/// A range inside of `0..end`, short ones more often.
fn range(draws: &mut Seeded, end: usize) -> Range<usize> {
    let from = pick(draws, end + 1);
    let longest = match draws.below(3) {
        0 => 8,
        1 => 64,
        _ => end,
    };
    let length = pick(draws, longest.min(end - from) + 1);
    from..from + length
}

fn flip(draws: &mut Seeded, bytes: &mut [u8], end: usize) {
    if end > 0 {
        bytes[pick(draws, end)] ^= 1 << draws.below(8);
    }
}

fn repeat(draws: &mut Seeded, bytes: &mut Vec<u8>, end: usize) {
    let range = range(draws, end);
    let count_max = if draws.below(4) == 0 { 4096 } else { 4 };
    let count = 1 + pick(draws, count_max);
    let count = count.min(REPEATED_BYTES_MAX / range.len().max(1));
    let piece = bytes[range.clone()].repeat(count);
    drop(bytes.splice(range.end..range.end, piece));
}

/// Swaps two pieces of one length.
fn swap(draws: &mut Seeded, bytes: &mut [u8], end: usize) {
    let a = range(draws, end / 2);
    let b = end - end / 2 + pick(draws, (end / 2 - a.len()) + 1);
    for i in 0..a.len() {
        bytes.swap(a.start + i, b + i);
    }
}

/// Writes a number of 1 to 8 bytes in either order.
fn overwrite(draws: &mut Seeded, bytes: &mut [u8], end: usize) {
    let width = *one_of(draws, &[1, 2, 4, 8]);
    if end < width {
        return;
    }
    let mut word = one_of(draws, &WORDS).to_le_bytes();
    if draws.below(4) == 0 {
        word = one_of(draws, &[f64::NAN, 1e308, -1e-310]).to_le_bytes();
    }
    let mut word = word[..width].to_vec();
    if draws.below(2) == 0 {
        word.reverse();
    }
    let at = pick(draws, end - width + 1);
    bytes[at..at + width].copy_from_slice(&word);
}

/// Takes a line, a word or a field away, doubles it, or puts another's there.
fn piece(draws: &mut Seeded, bytes: &mut Vec<u8>, end: usize, other: &[u8]) {
    let separator = *one_of(draws, &SEPARATORS);
    let pieces = |bytes: &[u8]| -> Vec<Range<usize>> {
        let mut from = 0;
        let part = |piece: &[u8]| {
            let range = from..(from + piece.len() + 1).min(bytes.len());
            from = range.end;
            range
        };
        bytes.split(|&b| b == separator).map(part).collect()
    };
    let of = pieces(&bytes[..end]);
    let range = one_of(draws, &of).clone();
    let with = match draws.below(4) {
        0 => Vec::new(),
        1 => bytes[range.clone()].repeat(2),
        2 => bytes[one_of(draws, &of).clone()].to_vec(),
        _ => other[one_of(draws, &pieces(other)).clone()].to_vec(),
    };
    drop(bytes.splice(range, with));
}

/// Puts another number where one stands in a text.
fn number(draws: &mut Seeded, bytes: &mut Vec<u8>, end: usize) {
    let of_number = |b: &u8| b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'+');
    let mut found = Vec::new();
    let mut from = None;
    for (at, b) in bytes[..end].iter().enumerate() {
        match (of_number(b), from) {
            (true, None) => from = Some(at),
            (false, Some(start)) => {
                found.push(start..at);
                from = None;
            }
            _ => {}
        }
    }
    found.extend(from.map(|start| start..end));
    if found.is_empty() {
        return overwrite(draws, bytes, end);
    }
    let at = one_of(draws, &found).clone();
    let with = one_of(draws, &NUMBERS).bytes();
    drop(bytes.splice(at, with));
}

//! The transfer table as eight rays look it up at once (AVX2). The same as `transfer_table`.
//!
//! Gathers would take eight times as many instructions: each lane's entries are loaded whole, then
//! transposed.
#![expect(unsafe_code, reason = "loads take raw pointers")]

use super::packet::{LANES, mix};
use crate::transfer_table::{
    HIGH_UNITS, PLACE_MAX, SEEN_BINS, SEGMENT_MIN, SeenPlaces, TransferTable,
};
use brickmesh_topology::data::transfer_shapes::GRADIENT_NODES;
use std::arch::x86_64::*;

/// Whole numbers, to count with.
#[inline]
#[target_feature(enable = "avx2,fma")]
#[expect(clippy::cast_sign_loss, reason = "indices into a table")]
fn indices(v: __m256i) -> [usize; LANES] {
    let mut index = [0_i32; LANES];
    // SAFETY: eight numbers can be written.
    unsafe { _mm256_storeu_si256(index.as_mut_ptr().cast(), v) };
    index.map(|i| i as usize)
}

/// Colours of four lanes each, two by two, as a vector of each channel.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transposed([c0, c1, c2, c3]: [__m256; 4]) -> [__m256; 4] {
    let (rg01, ba01) = (_mm256_unpacklo_ps(c0, c1), _mm256_unpackhi_ps(c0, c1));
    let (rg23, ba23) = (_mm256_unpacklo_ps(c2, c3), _mm256_unpackhi_ps(c2, c3));
    [
        _mm256_shuffle_ps::<0b01_00_01_00>(rg01, rg23),
        _mm256_shuffle_ps::<0b11_10_11_10>(rg01, rg23),
        _mm256_shuffle_ps::<0b01_00_01_00>(ba01, ba23),
        _mm256_shuffle_ps::<0b11_10_11_10>(ba01, ba23),
    ]
}

/// A table, checked once.
#[derive(Clone, Copy)]
pub(super) struct PacketTable<'a> {
    table: &'a TransferTable,
    entries: &'a [[f32; 4]],
    last: f32,
}

impl<'a> PacketTable<'a> {
    /// # Panics
    /// Where the table has fewer than two columns, or not all of its rows.
    pub(super) fn new(table: &'a TransferTable) -> Self {
        let rows = match (table.rows_per_floor, table.segment_unit) {
            (None, None) => 1,
            (None, Some(_)) => 4,
            (Some(_), None) => 1 + GRADIENT_NODES,
            (Some(_), Some(_)) => 1 + 3 * GRADIENT_NODES,
        };
        let entries = table.entries.as_slice();
        assert!(table.columns > 1 && entries.len() >= rows * table.columns);
        Self {
            table,
            entries,
            last: (table.columns - 1) as f32,
        }
    }

    /// As the table's.
    #[inline]
    pub(super) fn rows_per_floor(&self) -> Option<f32> {
        self.table.rows_per_floor
    }
}

/// Whether a lane of `mask` stands at a place where something is seen.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn may_be_seen(seen: &SeenPlaces, place: __m256, mask: __m256) -> bool {
    let bin = _mm256_mul_ps(place, _mm256_set1_ps(seen.bins_per_place));
    // The clamps, in this order of arguments, turn a NaN into 0.
    let bin = _mm256_max_ps(bin, _mm256_setzero_ps());
    let bin = _mm256_min_ps(bin, _mm256_set1_ps((SEEN_BINS - 1) as f32));
    let bin = _mm256_cvttps_epi32(bin);
    // SAFETY: eight words can be read.
    let words = unsafe { _mm256_loadu_si256(seen.bins.as_ptr().cast()) };
    let word = _mm256_permutevar8x32_epi32(words, _mm256_srli_epi32::<5>(bin));
    // Shifts by more than 31 give 0: of a bin, the place in its word.
    let bit = _mm256_and_si256(bin, _mm256_set1_epi32(31));
    let is_seen = _mm256_sllv_epi32(word, _mm256_sub_epi32(_mm256_set1_epi32(31), bit));
    _mm256_testz_ps(_mm256_castsi256_ps(is_seen), mask) == 0
}

/// Premultiplied colours of a step at places of row 0.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn classify(table: PacketTable<'_>, place: __m256) -> [__m256; 4] {
    at(table, place, _mm256_setzero_si256())
}

/// The same of any rows, whose first entries are `start`: they are in the table.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn at(table: PacketTable<'_>, place: __m256, start: __m256i) -> [__m256; 4] {
    let (entries, last) = (table.entries, table.last);
    // The clamps, in this order of arguments, turn a NaN into 0.
    let x = _mm256_max_ps(place, _mm256_setzero_ps());
    let x = _mm256_min_ps(x, _mm256_set1_ps(last));
    let below = _mm256_floor_ps(_mm256_min_ps(x, _mm256_set1_ps(last - 1.0)));
    let t = _mm256_sub_ps(x, below);
    let index = indices(_mm256_add_epi32(_mm256_cvtps_epi32(below), start));
    let both = |lane: usize, next: usize| {
        // SAFETY: entries 0 ..= last − 1 of a row and their successors are in the table.
        unsafe {
            let at = |lane: usize| entries.as_ptr().add(index[lane] + next).cast();
            _mm256_loadu2_m128(at(lane + 4), at(lane))
        }
    };
    transposed([
        mix(
            both(0, 0),
            both(0, 1),
            _mm256_permute_ps::<0b00_00_00_00>(t),
        ),
        mix(
            both(1, 0),
            both(1, 1),
            _mm256_permute_ps::<0b01_01_01_01>(t),
        ),
        mix(
            both(2, 0),
            both(2, 1),
            _mm256_permute_ps::<0b10_10_10_10>(t),
        ),
        mix(
            both(3, 0),
            both(3, 1),
            _mm256_permute_ps::<0b11_11_11_11>(t),
        ),
    ])
}

/// As `TransferTable::color` of a table of sums.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn segment(table: PacketTable<'_>, profile: [__m256; 3]) -> [__m256; 4] {
    match (table.table.segment_unit, table.table.rows_per_floor) {
        (Some(unit), None) => {
            let row = _mm256_set1_epi32(1);
            through(mean(table, profile, row), unit)
        }
        _ => [_mm256_set1_ps(1.0); 4],
    }
}

/// As `TransferTable::color_2d`. Not inlined: it would take registers from who has no 2D function.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the table has some hundred columns"
)]
pub(super) fn color_2d(
    table: PacketTable<'_>,
    profile: [__m256; 3],
    gradient: __m256,
    rows_per_floor: f32,
) -> [__m256; 4] {
    let last = (GRADIENT_NODES - 1) as f32;
    let y = _mm256_mul_ps(gradient, _mm256_set1_ps(rows_per_floor));
    let y = _mm256_min_ps(_mm256_max_ps(y, _mm256_setzero_ps()), _mm256_set1_ps(last));
    let below = _mm256_floor_ps(_mm256_min_ps(y, _mm256_set1_ps(last - 1.0)));
    let t = _mm256_sub_ps(y, below);
    let row = _mm256_cvtps_epi32(below);
    let one = _mm256_set1_epi32(1);
    let mixed = |[a, b, c, d]: [__m256; 4], [e, f, g, h]: [__m256; 4]| {
        [mix(a, e, t), mix(b, f, t), mix(c, g, t), mix(d, h, t)]
    };
    if let Some(unit) = table.table.segment_unit {
        let first = _mm256_add_epi32(_mm256_mullo_epi32(row, _mm256_set1_epi32(3)), one);
        let second = _mm256_add_epi32(first, _mm256_set1_epi32(3));
        return through(
            mixed(mean(table, profile, first), mean(table, profile, second)),
            unit,
        );
    }
    let columns = _mm256_set1_epi32(table.table.columns as i32);
    let first = _mm256_mullo_epi32(_mm256_add_epi32(row, one), columns);
    let second = _mm256_add_epi32(first, columns);
    mixed(at(table, profile[0], first), at(table, profile[0], second))
}

/// The ends of half segments in ascending order, at least [`SEGMENT_MIN`] apart.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn widened([a, b]: [__m256; 2]) -> [__m256; 2] {
    let set = |v| _mm256_set1_ps(v);
    let clamped = |x| _mm256_min_ps(_mm256_max_ps(x, set(-PLACE_MAX)), set(PLACE_MAX));
    let (a, b) = (clamped(a), clamped(b));
    let middle = _mm256_mul_ps(set(0.5), _mm256_add_ps(a, b));
    let width = _mm256_andnot_ps(set(-0.0), _mm256_sub_ps(b, a));
    let half = _mm256_mul_ps(set(0.5), _mm256_max_ps(width, set(SEGMENT_MIN)));
    [_mm256_sub_ps(middle, half), _mm256_add_ps(middle, half)]
}

/// The mean of segments, in units, of the sums that begin at a row of the table.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mean(table: PacketTable<'_>, [from, middle, to]: [__m256; 3], row: __m256i) -> [__m256; 4] {
    let [a, b, c, d] = mean_between(table, widened([from, middle]), row);
    let [e, f, g, h] = mean_between(table, widened([middle, to]), row);
    let of_both = |x, y| _mm256_mul_ps(_mm256_set1_ps(0.5), _mm256_add_ps(x, y));
    [of_both(a, e), of_both(b, f), of_both(c, g), of_both(d, h)]
}

/// The mean between two places, in units, of the sums that begin at a row of the table.
///
/// # Panics
/// Where the table has no sums, or not these.
#[inline]
#[target_feature(enable = "avx2,fma")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the table has some thousand columns"
)]
fn mean_between(table: PacketTable<'_>, [from, to]: [__m256; 2], row: __m256i) -> [__m256; 4] {
    let (entries, columns) = (table.entries, table.table.columns);
    let start = _mm256_mullo_epi32(row, _mm256_set1_epi32(columns as i32));
    let load = |index: [usize; LANES], plane: usize| {
        let both = |lane: usize| {
            let whole = |lane: usize| entries[index[lane] + plane * columns].as_ptr();
            // SAFETY: the four numbers of an entry can be read.
            unsafe { _mm256_loadu2_m128(whole(lane + 4), whole(lane)) }
        };
        transposed([both(0), both(1), both(2), both(3)])
    };
    let cell = |x| {
        let last = _mm256_set1_ps((columns - 2) as f32);
        let inside = _mm256_min_ps(_mm256_max_ps(x, _mm256_setzero_ps()), last);
        let below = _mm256_floor_ps(inside);
        let index = indices(_mm256_add_epi32(_mm256_cvtps_epi32(below), start));
        (index, _mm256_sub_ps(x, below))
    };
    let ((first, first_part), (end, end_part)) = (cell(from), cell(to));
    let (high, low, held) = (load(first, 0), load(first, 1), load(first, 2));
    let (high_end, low_end, held_end) = (load(end, 0), load(end, 1), load(end, 2));
    let inverse = _mm256_div_ps(_mm256_set1_ps(1.0), _mm256_sub_ps(to, from));
    let units = _mm256_set1_ps(HIGH_UNITS);
    let of = |c: usize| {
        let coarse = _mm256_sub_ps(high_end[c], high[c]);
        let fine = _mm256_sub_ps(low_end[c], low[c]);
        let whole = _mm256_fmadd_ps(coarse, units, fine);
        // held_end · end_part − held · first_part, exact in one cell however far its ends are.
        let parts = _mm256_fmadd_ps(
            held_end[c],
            _mm256_sub_ps(end_part, first_part),
            _mm256_mul_ps(_mm256_sub_ps(held_end[c], held[c]), first_part),
        );
        _mm256_mul_ps(_mm256_add_ps(whole, parts), inverse)
    };
    [of(0), of(1), of(2), of(3)]
}

/// Premultiplied colours of what passes steps of such optical depths and colours times depth, in units.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn through([r, g, b, depth]: [__m256; 4], unit: f32) -> [__m256; 4] {
    let set = |v| _mm256_set1_ps(v);
    let depth = _mm256_mul_ps(depth, set(unit));
    let alpha = _mm256_sub_ps(set(1.0), exp_negative(depth));
    let part = _mm256_div_ps(alpha, _mm256_max_ps(depth, set(f32::MIN_POSITIVE)));
    let part = _mm256_mul_ps(part, set(unit));
    [
        _mm256_mul_ps(r, part),
        _mm256_mul_ps(g, part),
        _mm256_mul_ps(b, part),
        alpha,
    ]
}

/// `e^−x` for x from 0 on, to a few units in the last place: 2 to the nearest whole number, and a
/// series of the rest.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_negative(x: __m256) -> __m256 {
    let set = |v| _mm256_set1_ps(v);
    // Below 2^−126 there is nothing to be seen.
    let x = _mm256_min_ps(_mm256_max_ps(x, set(0.0)), set(87.0));
    let power = _mm256_mul_ps(x, set(-std::f32::consts::LOG2_E));
    let whole = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(power);
    // −x − whole · ln 2, ln 2 in two parts.
    let rest = _mm256_fnmadd_ps(whole, set(0.693_145_75), _mm256_sub_ps(set(0.0), x));
    let rest = _mm256_fnmadd_ps(whole, set(1.428_606_8e-6), rest);
    let mut sum = set(1.0 / 720.0);
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = _mm256_fmadd_ps(sum, rest, set(coefficient));
    }
    let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    _mm256_mul_ps(sum, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_e_are_those_of_the_library() {
        if !super::super::packet::is_supported() {
            return;
        }
        for i in 0..2000_u16 {
            let x = f32::from(i) * 0.04;
            let mut lanes = [0.0_f32; LANES];
            // SAFETY: AVX2 and FMA are there; eight numbers can be written.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), exp_negative(_mm256_set1_ps(x))) };
            let expected = (-x).exp();
            assert!(
                (lanes[3] / expected - 1.0).abs() < 1e-6,
                "{x}: {}",
                lanes[3]
            );
        }
    }
}

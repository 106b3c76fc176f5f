//! Neighbouring voxels of eight rays at once, per stored voxel type (AVX2).
//!
//! A load of 32 bits gives both neighbours on x of 8- and 16-bit voxels. Near the end of a row it
//! loads from further left and shifts, so that no read leaves its row: bricks need no padding.
//! Lanes are loaded one by one: a gather takes longer (`doc/kernel.md`).

use super::{packet::LANES, voxel::StoredVoxel};
use std::arch::x86_64::*;

/// Voxels that eight lanes look at: lower neighbour on x, in rows of `row_voxels` voxels.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// 0 ..= `row_voxels` − 2.
    pub(super) x: __m256i,
    pub(super) row_voxels: i32,
}

/// A voxel type that packets can load.
pub(super) trait PacketVoxel: StoredVoxel {
    /// Fewest voxels in a row.
    const ROW_VOXELS_MIN: usize;

    /// The numbers at x and x + 1 in each lane's row, which starts `row` voxels after `base`.
    ///
    /// # Safety
    /// AVX2 and FMA are there; each lane's row of `row_voxels >= ROW_VOXELS_MIN` voxels can be
    /// read; x is in its bounds; a row's byte offset is below 2³¹.
    unsafe fn pair(base: *const u8, row: __m256i, columns: Columns) -> [__m256; 2];

    /// The numbers at x − 1 … x + 2, clamped to the row.
    ///
    /// # Safety
    /// As [`Self::pair`].
    unsafe fn quad(base: *const u8, row: __m256i, columns: Columns) -> [__m256; 4];
}

/// Numbers of lanes, to address with.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn offsets(v: __m256i) -> [isize; LANES] {
    let mut lanes = [0_i32; LANES];
    // SAFETY: eight numbers can be written.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), v) };
    lanes.map(|lane| lane as isize)
}

/// 32 bits of each lane, `at` voxels of type `T` after `base`.
///
/// # Safety
/// AVX2 and FMA are there; the 32 bits can be read.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn load_32<T>(base: *const u8, at: __m256i) -> __m256i {
    let at = offsets(at);
    let lane = |n: usize| {
        // SAFETY: as this function's.
        unsafe {
            base.cast::<T>()
                .offset(at[n])
                .cast::<i32>()
                .read_unaligned()
        }
    };
    _mm256_setr_epi32(
        lane(0),
        lane(1),
        lane(2),
        lane(3),
        lane(4),
        lane(5),
        lane(6),
        lane(7),
    )
}

/// The first of four voxels of a row among which are x − 1 … x + 2, as far as there are such. The same for
/// pairs: what they have loaded serves for gradients, too.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn window(columns: Columns) -> __m256i {
    let before = _mm256_sub_epi32(columns.x, _mm256_set1_epi32(1));
    let window = _mm256_max_epi32(_mm256_setzero_si256(), before);
    _mm256_min_epi32(window, _mm256_set1_epi32(columns.row_voxels - 4))
}

/// The low `BITS` bits of each lane as a number, with or without sign.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn low_bits<const BITS: i32, const SIGNED: bool>(v: __m256i) -> __m256 {
    let number = match (BITS, SIGNED) {
        (8, true) => _mm256_srai_epi32::<24>(_mm256_slli_epi32::<24>(v)),
        (8, false) => _mm256_and_si256(v, _mm256_set1_epi32(0xff)),
        (_, true) => _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(v)),
        (_, false) => _mm256_and_si256(v, _mm256_set1_epi32(0xffff)),
    };
    _mm256_cvtepi32_ps(number)
}

macro_rules! packet_voxel_8 {
    ($voxel:ty, $signed:literal) => {
        impl PacketVoxel for $voxel {
            const ROW_VOXELS_MIN: usize = 4;

            #[inline]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn pair(base: *const u8, row: __m256i, columns: Columns) -> [__m256; 2] {
                let window = window(columns);
                let shift = _mm256_slli_epi32::<3>(_mm256_sub_epi32(columns.x, window));
                let at = _mm256_add_epi32(row, window);
                // SAFETY: the four bytes from `window` on lie in the row, which can be read.
                let four = unsafe { load_32::<u8>(base, at) };
                let two = _mm256_srlv_epi32(four, shift);
                [
                    low_bits::<8, $signed>(two),
                    low_bits::<8, $signed>(_mm256_srli_epi32::<8>(two)),
                ]
            }

            #[inline]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn quad(base: *const u8, row: __m256i, columns: Columns) -> [__m256; 4] {
                let set = |v| _mm256_set1_epi32(v);
                let before = _mm256_sub_epi32(columns.x, set(1));
                let zero = _mm256_setzero_si256();
                let window = window(columns);
                let at = _mm256_add_epi32(row, window);
                // SAFETY: the four bytes from `window` on lie in the row, which can be read.
                let four = unsafe { load_32::<u8>(base, at) };
                let at_byte = |x: __m256i| {
                    let shift = _mm256_slli_epi32::<3>(_mm256_sub_epi32(x, window));
                    low_bits::<8, $signed>(_mm256_srlv_epi32(four, shift))
                };
                let after = _mm256_min_epi32(
                    _mm256_add_epi32(columns.x, set(2)),
                    set(columns.row_voxels - 1),
                );
                [
                    at_byte(_mm256_max_epi32(zero, before)),
                    at_byte(columns.x),
                    at_byte(_mm256_add_epi32(columns.x, set(1))),
                    at_byte(after),
                ]
            }
        }
    };
}

macro_rules! packet_voxel_16 {
    ($voxel:ty, $signed:literal) => {
        impl PacketVoxel for $voxel {
            const ROW_VOXELS_MIN: usize = 2;

            #[inline]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn pair(base: *const u8, row: __m256i, columns: Columns) -> [__m256; 2] {
                let at = _mm256_add_epi32(row, columns.x);
                // SAFETY: x and x + 1 lie in the row, which can be read.
                let two = unsafe { load_32::<u16>(base, at) };
                [
                    low_bits::<16, $signed>(two),
                    low_bits::<16, $signed>(_mm256_srli_epi32::<16>(two)),
                ]
            }

            #[inline]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn quad(base: *const u8, row: __m256i, columns: Columns) -> [__m256; 4] {
                let one = _mm256_set1_epi32(1);
                let below =
                    _mm256_max_epi32(_mm256_sub_epi32(columns.x, one), _mm256_setzero_si256());
                let above = _mm256_min_epi32(
                    _mm256_add_epi32(columns.x, one),
                    _mm256_set1_epi32(columns.row_voxels - 2),
                );
                let two_at = |x: __m256i| {
                    let at = _mm256_add_epi32(row, x);
                    // SAFETY: x and x + 1 lie in the row, which can be read.
                    unsafe { load_32::<u16>(base, at) }
                };
                let (low, high) = (two_at(below), two_at(above));
                let part = |of: __m256i, x: __m256i, from: __m256i| {
                    let shift = _mm256_slli_epi32::<4>(_mm256_sub_epi32(x, from));
                    low_bits::<16, $signed>(_mm256_srlv_epi32(of, shift))
                };
                [
                    low_bits::<16, $signed>(low),
                    part(low, columns.x, below),
                    part(high, _mm256_add_epi32(columns.x, one), above),
                    low_bits::<16, $signed>(_mm256_srli_epi32::<16>(high)),
                ]
            }
        }
    };
}

packet_voxel_8!(u8, false);
packet_voxel_8!(i8, true);
packet_voxel_16!(u16, false);
packet_voxel_16!(i16, true);

impl PacketVoxel for f32 {
    const ROW_VOXELS_MIN: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn pair(base: *const u8, row: __m256i, columns: Columns) -> [__m256; 2] {
        let at = offsets(_mm256_add_epi32(row, columns.x));
        // Lanes n and n + 4, each with both of its voxels.
        let two = |n: usize| {
            let both = |n: usize| {
                // SAFETY: x and x + 1 lie in the row, which can be read.
                unsafe {
                    base.cast::<Self>()
                        .offset(at[n])
                        .cast::<i64>()
                        .read_unaligned()
                }
            };
            (both(n), both(n + 1))
        };
        let ((a, b), (c, d), (e, f), (g, h)) = (two(0), two(2), two(4), two(6));
        let left = _mm256_castsi256_ps(_mm256_setr_epi64x(a, b, e, f));
        let right = _mm256_castsi256_ps(_mm256_setr_epi64x(c, d, g, h));
        [
            _mm256_shuffle_ps::<0b10_00_10_00>(left, right),
            _mm256_shuffle_ps::<0b11_01_11_01>(left, right),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn quad(base: *const u8, row: __m256i, columns: Columns) -> [__m256; 4] {
        let one = _mm256_set1_epi32(1);
        let below = _mm256_max_epi32(_mm256_sub_epi32(columns.x, one), _mm256_setzero_si256());
        let next = _mm256_add_epi32(columns.x, one);
        let above = _mm256_min_epi32(
            _mm256_add_epi32(next, one),
            _mm256_set1_epi32(columns.row_voxels - 1),
        );
        [below, columns.x, next, above].map(|x| {
            let at = _mm256_add_epi32(row, x);
            // SAFETY: x is clamped to the row, which can be read.
            unsafe { _mm256_castsi256_ps(load_32::<Self>(base, at)) }
        })
    }
}

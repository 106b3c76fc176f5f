//! The stages in which modes differ, of eight rays at once (AVX2). The same as `modes`.

use crate::modes::{Additive, Average, Dvr, Minip, Mip, ModeStages};
use std::arch::x86_64::*;

/// A mode that packets know.
pub(super) trait PacketMode: ModeStages {
    /// Puts what lies behind the lanes of `mask` into `front`.
    ///
    /// # Safety
    /// AVX2 and FMA are there.
    unsafe fn combine_lanes(front: &mut [__m256; 4], behind: [__m256; 4], mask: __m256);

    /// Lanes behind which something would be seen, as rays end once as opaque as `opaque`.
    ///
    /// # Safety
    /// AVX2 and FMA are there.
    unsafe fn open_lanes(partial: &[__m256; 4], opaque: __m256) -> __m256;
}

impl<const SHADED: bool, const SEGMENTS: bool> PacketMode for Dvr<SHADED, SEGMENTS> {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn combine_lanes(front: &mut [__m256; 4], behind: [__m256; 4], mask: __m256) {
        let through = _mm256_sub_ps(_mm256_set1_ps(1.0), front[3]);
        let through = _mm256_and_ps(through, mask);
        for (own, c) in front.iter_mut().zip(behind) {
            *own = _mm256_fmadd_ps(through, c, *own);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn open_lanes(partial: &[__m256; 4], opaque: __m256) -> __m256 {
        _mm256_cmp_ps::<_CMP_LT_OQ>(partial[3], opaque)
    }
}

impl PacketMode for Mip {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn combine_lanes(front: &mut [__m256; 4], behind: [__m256; 4], mask: __m256) {
        let is_greater = _mm256_cmp_ps::<_CMP_GT_OQ>(behind[0], front[0]);
        take_better(front, behind, is_greater, mask);
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn open_lanes(_: &[__m256; 4], _: __m256) -> __m256 {
        all_lanes()
    }
}

impl PacketMode for Minip {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn combine_lanes(front: &mut [__m256; 4], behind: [__m256; 4], mask: __m256) {
        let is_less = _mm256_cmp_ps::<_CMP_LT_OQ>(behind[0], front[0]);
        take_better(front, behind, is_less, mask);
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn open_lanes(_: &[__m256; 4], _: __m256) -> __m256 {
        all_lanes()
    }
}

impl PacketMode for Average {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn combine_lanes(front: &mut [__m256; 4], behind: [__m256; 4], mask: __m256) {
        for (own, b) in front.iter_mut().zip(behind) {
            *own = _mm256_add_ps(*own, _mm256_and_ps(mask, b));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn open_lanes(_: &[__m256; 4], _: __m256) -> __m256 {
        all_lanes()
    }
}

impl PacketMode for Additive {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn combine_lanes(front: &mut [__m256; 4], behind: [__m256; 4], mask: __m256) {
        for (own, b) in front.iter_mut().zip(behind) {
            let sum = _mm256_add_ps(*own, _mm256_and_ps(mask, b));
            *own = _mm256_min_ps(sum, _mm256_set1_ps(1.0));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn open_lanes(_: &[__m256; 4], _: __m256) -> __m256 {
        all_lanes()
    }
}

/// Takes the values of lanes where they are better than, or the first.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn take_better(front: &mut [__m256; 4], behind: [__m256; 4], is_better: __m256, mask: __m256) {
    let is_first = _mm256_cmp_ps::<_CMP_EQ_OQ>(front[1], _mm256_setzero_ps());
    let takes = _mm256_and_ps(mask, _mm256_or_ps(is_first, is_better));
    front[0] = _mm256_blendv_ps(front[0], behind[0], takes);
    front[1] = _mm256_blendv_ps(front[1], behind[1], takes);
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn all_lanes() -> __m256 {
    _mm256_castsi256_ps(_mm256_set1_epi32(-1))
}

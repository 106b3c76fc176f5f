//! The stages in which modes differ, of eight rays at once (AVX2). The same as `modes`.

use crate::{
    constants::OPAQUE,
    modes::{Dvr, ModeStages},
};
use std::arch::x86_64::*;

/// A mode that packets know.
pub(super) trait PacketMode: ModeStages {
    /// Puts what lies behind the lanes of `mask` into `front`.
    ///
    /// # Safety
    /// AVX2 and FMA are there.
    unsafe fn combine_lanes(front: &mut [__m256; 4], behind: [__m256; 4], mask: __m256);

    /// Lanes behind which something would be seen.
    ///
    /// # Safety
    /// AVX2 and FMA are there.
    unsafe fn open_lanes(partial: &[__m256; 4]) -> __m256;
}

impl<const SHADED: bool> PacketMode for Dvr<SHADED> {
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
    unsafe fn open_lanes(partial: &[__m256; 4]) -> __m256 {
        _mm256_cmp_ps::<_CMP_LT_OQ>(partial[3], _mm256_set1_ps(OPAQUE))
    }
}

//! Rays of a row of four pixels at once (AVX2), and the samples that a job owns on them.
//!
//! Invariant: the numbers of `Frame::ray` and `Ray::interval`, bit for bit: the same operations in the same order. Where that
//! cannot be told, rays are worked out one by one.

use super::{
    frame::Frame,
    ray::{Bounds, SAMPLE_MAX},
};
use crate::jitter::jitter;
use std::arch::x86_64::*;

/// Pixels of a row.
pub(super) const ROW_PIXELS: usize = 4;
/// Smallest advance of a sample on an axis whose reciprocal is surely finite.
const ADVANCE_MIN: f64 = 1e-300;

/// Four rays; a vector holds a lane for each pixel.
#[derive(Clone, Copy)]
pub(super) struct RowOfRays {
    pub(super) eye: [__m128; 3],
    pub(super) direction: [__m128; 3],
    pub(super) jitter: __m128,
    /// First sample, and the one after the last; both 0 where there is none.
    pub(super) first: __m128,
    pub(super) end: __m128,
}

impl RowOfRays {
    /// The rays of `count` pixels from (x,y) on; others have no samples.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn new(frame: &Frame, bounds: &Bounds, [x, y]: [u32; 2], count: u32) -> Self {
        let plain = frame.slice.is_none() && frame.clip_planes.is_empty() && count > 0;
        let at_once = plain.then(|| Self::at_once(frame, bounds, [x, y], count));
        at_once
            .flatten()
            .unwrap_or_else(|| Self::one_by_one(frame, bounds, [x, y], count))
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,fma")]
    fn one_by_one(frame: &Frame, bounds: &Bounds, [x, y]: [u32; 2], count: u32) -> Self {
        let mut lanes = [[0.0_f32; ROW_PIXELS]; 9];
        for (lane, x) in (x..x + count).enumerate() {
            let ray = frame.ray(x, y);
            let (first, end) = ray.interval(bounds, &frame.clip_planes);
            let ([ex, ey, ez], [dx, dy, dz]) = (ray.eye, ray.direction);
            let (first, end) = (first as f32, end as f32);
            for (lanes, v) in lanes
                .iter_mut()
                .zip([ex, ey, ez, dx, dy, dz, ray.jitter, first, end])
            {
                lanes[lane] = v;
            }
        }
        // SAFETY: four numbers can be read.
        let [ex, ey, ez, dx, dy, dz, jitter, first, end] =
            lanes.map(|v| unsafe { _mm_loadu_ps(v.as_ptr()) });
        Self {
            eye: [ex, ey, ez],
            direction: [dx, dy, dz],
            jitter,
            first,
            end,
        }
    }

    /// `None`: a guess of where an interval begins or ends is not right, or an axis is all but still.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn at_once(frame: &Frame, bounds: &Bounds, [x, y]: [u32; 2], count: u32) -> Option<Self> {
        let set = |v: f64| _mm256_set1_pd(v);
        let view = &frame.view;
        let columns = [0, 1, 2, 3].map(|i| f64::from(x + i) + 0.5);
        let columns = _mm256_setr_pd(columns[0], columns[1], columns[2], columns[3]);
        let u = _mm256_div_pd(_mm256_mul_pd(set(2.0), columns), set(view.width.into()));
        let u = _mm256_sub_pd(u, set(1.0));
        let v = 2.0 * (f64::from(y) + 0.5) / f64::from(view.height) - 1.0;
        let at = |[middle, right, down]: &[glam::DVec3; 3], a: usize| {
            let beside = _mm256_add_pd(set(middle[a]), _mm256_mul_pd(set(right[a]), u));
            _mm256_add_pd(beside, set(down[a] * v))
        };
        let square = |a: usize| {
            let along = at(&frame.rays.along, a);
            _mm256_mul_pd(along, along)
        };
        let length = _mm256_add_pd(_mm256_add_pd(square(0), square(1)), square(2));
        let length = _mm256_sqrt_pd(length);
        let mut eye = [_mm256_setzero_pd(); 3];
        let mut direction = [_mm256_setzero_pd(); 3];
        for a in 0..3 {
            eye[a] = at(&frame.start, a);
            direction[a] = _mm256_div_pd(at(&frame.along, a), length);
        }
        let mut jitters = [0.0; ROW_PIXELS];
        if frame.jitter {
            let [first_x, first_y] = view.first;
            for (i, j) in (0..).zip(&mut jitters) {
                *j = jitter(first_x + x + i, first_y + y);
            }
        }
        // SAFETY: four numbers can be read.
        let jitter = unsafe { _mm_loadu_ps(jitters.as_ptr()) };
        let exact = ExactRow {
            eye,
            direction,
            step: set(frame.step),
            jitter: _mm256_cvtps_pd(jitter),
        };
        let [first, end] = exact.interval(bounds, count)?;
        let [ex, ey, ez] = eye;
        let [dx, dy, dz] = direction;
        let narrow = |v| _mm256_cvtpd_ps(v);
        Some(Self {
            eye: [narrow(ex), narrow(ey), narrow(ez)],
            direction: [narrow(dx), narrow(dy), narrow(dz)],
            jitter,
            first: narrow(first),
            end: narrow(end),
        })
    }
}

/// As four `ExactRay`.
struct ExactRow {
    eye: [__m256d; 3],
    direction: [__m256d; 3],
    step: __m256d,
    jitter: __m256d,
}

impl ExactRow {
    /// As `ExactRay::interval`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn interval(&self, bounds: &Bounds, count: u32) -> Option<[__m256d; 2]> {
        let set = |v: f64| _mm256_set1_pd(v);
        let zero = _mm256_setzero_pd();
        let size = |v| _mm256_andnot_pd(set(-0.0), v);
        let most = set(SAMPLE_MAX.into());
        let (mut near, mut far) = (zero, most);
        for a in 0..3 {
            let advance = _mm256_mul_pd(self.direction[a], self.step);
            let moves = _mm256_cmp_pd::<_CMP_GE_OQ>(size(advance), set(ADVANCE_MIN));
            if _mm256_movemask_pd(moves) != ALL_LANES {
                return None;
            }
            let per_step = _mm256_div_pd(set(1.0), advance);
            let way = |to: f64| _mm256_mul_pd(_mm256_sub_pd(set(to), self.eye[a]), per_step);
            let (t0, t1) = (way(bounds.lo[a]), way(bounds.hi[a]));
            near = _mm256_max_pd(near, _mm256_min_pd(t0, t1));
            far = _mm256_min_pd(far, _mm256_max_pd(t0, t1));
        }
        let latest = _mm256_add_pd(far, set(2.0));
        let latest = _mm256_add_pd(latest, _mm256_mul_pd(size(far), set(1e-6)));
        let lanes = _mm256_setr_pd(0.0, 1.0, 2.0, 3.0);
        let is_pixel = _mm256_cmp_pd::<_CMP_LT_OQ>(lanes, set(count.into()));
        let meets = _mm256_cmp_pd::<_CMP_LE_OQ>(near, latest);
        let meets = _mm256_and_pd(meets, is_pixel);
        if _mm256_movemask_pd(meets) == 0 {
            return Some([zero; 2]);
        }
        // As `guess`.
        let guess = |k: __m256d| {
            let next = _mm256_add_pd(_mm256_floor_pd(k), set(1.0));
            let positive = _mm256_cmp_pd::<_CMP_GT_OQ>(k, zero);
            _mm256_and_pd(positive, _mm256_min_pd(next, most))
        };
        let first = guess(_mm256_sub_pd(near, self.jitter));
        let end = guess(_mm256_sub_pd(far, self.jitter));
        // Each is the first sample that has entered or left, and there is one before it that has not.
        let one_before = |k| _mm256_sub_pd(k, set(1.0));
        let has_before = |k| _mm256_cmp_pd::<_CMP_GT_OQ>(k, zero);
        let too_early = |is: __m256d, k| _mm256_and_pd(has_before(k), is);
        let right = _mm256_andnot_pd(
            too_early(self.is_before_ends(bounds, one_before(first), false), first),
            self.is_before_ends(bounds, first, false),
        );
        let not_left = self.is_before_ends(bounds, end, true);
        let left_before = _mm256_andnot_pd(
            self.is_before_ends(bounds, one_before(end), true),
            has_before(end),
        );
        let right = _mm256_andnot_pd(_mm256_or_pd(not_left, left_before), right);
        if _mm256_movemask_pd(_mm256_andnot_pd(right, meets)) != 0 {
            return None;
        }
        let has_samples = _mm256_and_pd(meets, _mm256_cmp_pd::<_CMP_LT_OQ>(first, end));
        Some([
            _mm256_and_pd(has_samples, first),
            _mm256_and_pd(has_samples, end),
        ])
    }

    /// Whether sample k has entered on all axes (`is_far` false), or has left on none: as `ExactRay::has_entered`, and not
    /// `ExactRay::has_left`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn is_before_ends(&self, bounds: &Bounds, k: __m256d, is_far: bool) -> __m256d {
        let t = _mm256_mul_pd(_mm256_add_pd(k, self.jitter), self.step);
        let mut all = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
        for a in 0..3 {
            let d = self.direction[a];
            let p = _mm256_add_pd(self.eye[a], _mm256_mul_pd(t, d));
            let above = _mm256_cmp_pd::<_CMP_GE_OQ>(p, _mm256_set1_pd(bounds.lo[a]));
            let below = _mm256_cmp_pd::<_CMP_LT_OQ>(p, _mm256_set1_pd(bounds.hi[a]));
            // Bits of a sign choose: directions are not 0.
            let is = if is_far {
                _mm256_blendv_pd(below, above, d)
            } else {
                _mm256_blendv_pd(above, below, d)
            };
            all = _mm256_and_pd(all, is);
        }
        all
    }
}

/// A mask with a bit of each lane.
const ALL_LANES: i32 = (1 << ROW_PIXELS) - 1;

#[cfg(test)]
mod tests {
    use super::{super::tests::frames_and_bounds, *};

    #[test]
    fn four_at_once_are_those_one_by_one_to_the_bit() {
        if !super::super::packet::is_supported() {
            return;
        }
        let bits = |v: __m128| {
            let mut lanes = [0.0_f32; ROW_PIXELS];
            // SAFETY: four numbers can be written.
            unsafe { _mm_storeu_ps(lanes.as_mut_ptr(), v) };
            lanes.map(f32::to_bits)
        };
        let (mut rows, mut with_samples, mut at_once) = (0, 0, 0);
        for (frame, bounds) in frames_and_bounds() {
            for y in 0..frame.view.height {
                for x in (0..frame.view.width).step_by(3) {
                    let count = (frame.view.width - x).min(4);
                    // SAFETY: AVX2 and FMA are there.
                    let (row, single, found) = unsafe {
                        (
                            RowOfRays::new(&frame, &bounds, [x, y], count),
                            RowOfRays::one_by_one(&frame, &bounds, [x, y], count),
                            RowOfRays::at_once(&frame, &bounds, [x, y], count),
                        )
                    };
                    let all = |row: &RowOfRays| {
                        let ([ex, ey, ez], [dx, dy, dz]) = (row.eye, row.direction);
                        [ex, ey, ez, dx, dy, dz, row.jitter, row.first, row.end].map(bits)
                    };
                    for (a, b) in all(&row).iter().zip(&all(&single)) {
                        assert_eq!(a[..count as usize], b[..count as usize], "{x} {y}");
                    }
                    assert_eq!(bits(row.end)[count as usize..], [0; 4][count as usize..]);
                    rows += 1;
                    with_samples += usize::from(bits(row.end) != [0; 4]);
                    at_once += usize::from(found.is_some());
                }
            }
        }
        assert!(with_samples * 4 > rows, "{with_samples} of {rows}");
        assert!(at_once * 2 > rows, "{at_once} of {rows}");
    }
}

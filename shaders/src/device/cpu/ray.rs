//! Rays in grid space and the samples that a job owns on them.
//!
//! Invariant: who owns sample k is decided at `eye + (k + jitter) · step · direction` in f64, the same
//! expression with the same inputs for every brick and job, so that neighbours agree, and so that
//! the field ends where a float64 reference says. On each axis that is monotonic in k, so what a
//! box owns is one interval. What is looked up there is looked up in f32.

/// Largest sample index: above, indices are no longer exact in f32.
pub(super) const SAMPLE_MAX: u32 = (1 << 24) - 1;
/// Samples that a guessed end of an interval is moved one by one before it is searched for.
const NUDGES_MAX: u32 = 3;

/// Points `lo <= p < hi` on every axis, in grid space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) lo: [f64; 3],
    pub(super) hi: [f64; 3],
}

impl Bounds {
    /// The points that floats bound.
    pub(super) fn new(lo: [f32; 3], hi: [f32; 3]) -> Self {
        Self {
            lo: lo.map(f64::from),
            hi: hi.map(exact_end),
        }
    }

    /// Those of them that are in a box.
    pub(super) fn within(self, clip: Option<[[f64; 3]; 2]>) -> Self {
        let [low, high] = clip.unwrap_or([self.lo, self.hi]);
        Self {
            lo: std::array::from_fn(|a| self.lo[a].max(low[a])),
            hi: std::array::from_fn(|a| self.hi[a].min(high[a].next_up())),
        }
    }
}

/// A ray in grid space (voxels), by world length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ray {
    /// Voxels.
    pub(super) eye: [f32; 3],
    /// Voxels per world unit.
    pub(super) direction: [f32; 3],
    /// World units between samples.
    pub(super) step: f32,
    /// Part of a step by which all samples are moved away from the eye.
    pub(super) jitter: f32,
    /// The same in f64, for ownership.
    pub(super) exact: ExactRay,
}

/// A ray in f64: decides which samples a box owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExactRay {
    /// Voxels.
    pub(super) eye: [f64; 3],
    /// Voxels per world unit.
    pub(super) direction: [f64; 3],
    /// World units between samples.
    pub(super) step: f64,
    /// As the ray's.
    pub(super) jitter: f64,
    /// The first sample that is not taken, wherever it is.
    pub(super) end: u32,
    /// From where on surfaces are met, and how far, world units.
    pub(super) near: f64,
    /// See [`Self::near`].
    pub(super) reach: f64,
}

impl Ray {
    /// Position of sample `k`, in voxels; those between samples have a fraction.
    #[inline(always)]
    pub(super) fn position(&self, k: f32) -> [f32; 3] {
        let t = (k + self.jitter) * self.step;
        std::array::from_fn(|a| t.mul_add(self.direction[a], self.eye[a]))
    }

    /// Samples from one to the ends of its segment: half, and no more than a voxel on any axis.
    #[inline(always)]
    pub(super) fn half_segment(&self) -> f32 {
        let farthest = self.direction.iter().fold(0.0_f32, |m, d| m.max(d.abs()));
        f32::min(0.5, 1.0 / (farthest * self.step))
    }

    /// The samples inside the bounds and not beyond the planes, as a half-open interval; empty ones are
    /// (0,0).
    #[inline(always)]
    pub(super) fn interval(&self, bounds: &Bounds, planes: &[[f64; 4]]) -> (u32, u32) {
        let interval = self.exact.interval(bounds);
        if planes.is_empty() || interval.0 >= interval.1 {
            interval
        } else {
            self.exact.clipped(interval, planes)
        }
    }
}

impl ExactRay {
    /// How far sample `k` is from where the ray begins, world units.
    pub(super) fn distance(&self, k: u32) -> f64 {
        (f64::from(k) + self.jitter) * self.step
    }

    /// The first sample that is farther than a distance; [`SAMPLE_MAX`] where there is none.
    #[expect(clippy::cast_precision_loss, reason = "exact up to SAMPLE_MAX")]
    pub(super) fn first_behind(&self, at: f64) -> f32 {
        first_true(guess(at / self.step - self.jitter), |k| {
            self.distance(k) > at
        }) as f32
    }

    #[inline(always)]
    fn position(&self, k: u32) -> [f64; 3] {
        let t = (f64::from(k) + self.jitter) * self.step;
        std::array::from_fn(|a| self.eye[a] + t * self.direction[a])
    }

    #[inline(always)]
    pub(super) fn interval(&self, bounds: &Bounds) -> (u32, u32) {
        let Bounds { lo, hi } = *bounds;
        let (mut near, mut far) = (0.0_f64, f64::from(SAMPLE_MAX));
        for a in 0..3 {
            let (e, d) = (self.eye[a], self.direction[a]);
            if d.abs() > 0.0 {
                let per_step = 1.0 / (d * self.step);
                let (t0, t1) = ((lo[a] - e) * per_step, (hi[a] - e) * per_step);
                near = near.max(t0.min(t1));
                far = far.min(t0.max(t1));
            } else if !(lo[a] <= e && e < hi[a]) {
                return (0, 0);
            }
        }
        // Positions are rounded, so the slab test is wrong by a sample or so.
        if near > far + 2.0 + far.abs() * 1e-6 {
            return (0, 0);
        }
        let first = first_true(guess(near - self.jitter), |k| self.has_entered(lo, hi, k));
        let end = first_true(guess(far - self.jitter), |k| self.has_left(lo, hi, k));
        let end = end.min(self.end);
        if first < end { (first, end) } else { (0, 0) }
    }

    /// Where the ray is inside a box and not beyond the planes, world units from its beginning; upside down: nowhere.
    pub(super) fn way(&self, clip: Option<[[f64; 3]; 2]>, planes: &[[f64; 4]]) -> [f64; 2] {
        let [mut from, mut to] = [self.near, self.reach];
        let mut cut = |at_eye: f64, along: f64| {
            // Shown where at_eye + t · along is 0 or more.
            let crossing = -at_eye / along;
            if along > 0.0 {
                from = from.max(crossing);
            } else if along < 0.0 {
                to = to.min(crossing);
            } else if at_eye < 0.0 {
                to = f64::NEG_INFINITY;
            }
        };
        if let Some([low, high]) = clip {
            for a in 0..3 {
                cut(self.eye[a] - low[a], self.direction[a]);
                cut(high[a] - self.eye[a], -self.direction[a]);
            }
        }
        for [x, y, z, w] in planes {
            let dot = |[a, b, c]: [f64; 3]| x * a + y * b + z * c;
            cut(dot(self.eye) + w, dot(self.direction));
        }
        [from, to]
    }

    /// The samples of an interval that no plane cuts away: which side of it they are on is monotonic in k.
    fn clipped(&self, (mut first, mut end): (u32, u32), planes: &[[f64; 4]]) -> (u32, u32) {
        let dot = |n: &[f64; 4], v: [f64; 3]| n[0] * v[0] + n[1] * v[1] + n[2] * v[2];
        for plane in planes {
            let (at_eye, along) = (dot(plane, self.eye) + plane[3], dot(plane, self.direction));
            let is_shown =
                |k: u32| at_eye + (f64::from(k) + self.jitter) * self.step * along >= 0.0;
            let crossing = guess(-at_eye / (along * self.step) - self.jitter);
            if along >= 0.0 {
                first = first.max(first_true(crossing, is_shown));
            } else {
                end = end.min(first_true(crossing, |k| !is_shown(k)));
            }
        }
        if first < end { (first, end) } else { (0, 0) }
    }

    #[inline(always)]
    fn has_entered(&self, lo: [f64; 3], hi: [f64; 3], k: u32) -> bool {
        let p = self.position(k);
        (0..3).all(|a| {
            if self.direction[a] >= 0.0 {
                p[a] >= lo[a]
            } else {
                p[a] < hi[a]
            }
        })
    }

    #[inline(always)]
    fn has_left(&self, lo: [f64; 3], hi: [f64; 3], k: u32) -> bool {
        let p = self.position(k);
        !(0..3).all(|a| {
            if self.direction[a] >= 0.0 {
                p[a] < hi[a]
            } else {
                p[a] >= lo[a]
            }
        })
    }
}

/// An upper bound in f64. The field's end is the float after the last sample centre (see
/// `VoxelBox::owned_points`), which is no whole number: in f64 it is the next number after it.
fn exact_end(hi: f32) -> f64 {
    if hi.fract() > 0.0 {
        f64::from(hi.next_down()).next_up()
    } else {
        f64::from(hi)
    }
}

#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range before; NaN becomes 0"
)]
fn guess(k: f64) -> u32 {
    // Plain comparisons instead of clamp and ceil, which are calls on older processors.
    if k >= f64::from(SAMPLE_MAX) {
        SAMPLE_MAX
    } else if k > 0.0 {
        (k as u32 + 1).min(SAMPLE_MAX)
    } else {
        0
    }
}

/// The first k for which the monotonic `is` is true, at most [`SAMPLE_MAX`]: near the guess at
/// best, else by bisection.
#[inline(always)]
fn first_true(guess: u32, is: impl Fn(u32) -> bool) -> u32 {
    let mut k = guess;
    if is(k) {
        for _ in 0..NUDGES_MAX {
            if k == 0 || !is(k - 1) {
                return k;
            }
            k -= 1;
        }
        return bisect(0, k, is);
    }
    for _ in 0..NUDGES_MAX {
        if k >= SAMPLE_MAX {
            return SAMPLE_MAX;
        }
        k += 1;
        if is(k) {
            return k;
        }
    }
    bisect(k, SAMPLE_MAX, is)
}

/// The first true one in `low..high`, or `high`.
#[cold]
fn bisect(mut low: u32, mut high: u32, is: impl Fn(u32) -> bool) -> u32 {
    while low < high {
        let middle = low.midpoint(high);
        if is(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_interval_holds_exactly_the_interval(
            eye in prop::array::uniform3(-30.0..40.0_f32),
            direction in prop::array::uniform3(prop_oneof![-1.0..1.0_f32, Just(0.0), Just(1e-7), Just(-1e-30)]),
            step in 0.1..2.0_f32,
            jitter in prop_oneof![Just(0.0), 0.0..1.0_f64],
            lo in prop::array::uniform3(0..8_u8),
            last in prop_oneof![Just(SAMPLE_MAX), 0..60_u32],
        ) {
            let lo = lo.map(f32::from);
            let bounds = Bounds::new(lo, lo.map(|v| v + 4.0));
            let ray = ExactRay {
                eye: eye.map(f64::from),
                direction: direction.map(f64::from),
                step: f64::from(step),
                jitter,
                end: last,
                near: 0.0,
                reach: f64::INFINITY,
            };
            let (first, end) = ray.interval(&bounds);
            for k in 0..3000 {
                let p = ray.position(k);
                let inside = (0..3).all(|a| bounds.lo[a] <= p[a] && p[a] < bounds.hi[a]);
                prop_assert_eq!(inside && k < last, (first..end).contains(&k), "k {} of {}..{}", k, first, end);
            }
        }
    }
}

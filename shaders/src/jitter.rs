//! Jitter: the part of a step by which the samples of a pixel's ray are moved away from the eye.
//!
//! Rays that are sampled at the same distances show rings where a surface lies between two samples.
//! With another distance for each pixel there is fine grain in their place.
//! Invariants: whole numbers decide, so that all devices agree; what is added to a sample's index is
//! a multiple of 1/256, so that the sum is exact up to 65 536 samples.
//!
//! Mirror: `jitter` in `wgsl/raycast.wgsl`.
//! Source of the hash: Jarzynski, Olano, "Hash Functions for GPU Rendering", JCGT 9(3), 2020 (PCG).

/// The jitter of a pixel of the whole picture, 0 to 255/256.
#[must_use]
pub fn jitter(x: u32, y: u32) -> f32 {
    let state = (x.wrapping_add(y << 16))
        .wrapping_mul(747_796_405)
        .wrapping_add(2_891_336_453);
    let word = ((state >> ((state >> 28) + 4)) ^ state).wrapping_mul(277_803_737);
    let bits = (word >> 22) ^ word;
    (bits >> 24) as f32 / 256.0
}

#[cfg(test)]
mod tests {
    use super::jitter;

    #[test]
    fn neighbours_differ_and_all_parts_of_a_step_are_taken_alike() {
        let all: Vec<f32> = (0..256 * 256).map(|i| jitter(i % 256, i / 256)).collect();
        assert!(all.iter().all(|j| (0.0..1.0).contains(j)));
        let mean = all.iter().sum::<f32>() / 65_536.0;
        assert!((mean - 0.498).abs() < 0.01, "{mean}");
        for step in [1, 256, 257] {
            let pairs = all.iter().zip(&all[step..]);
            let square: f32 = pairs.map(|(a, b)| (a - b) * (a - b)).sum();
            let mean = square / 65_536.0;
            assert!((mean - 1.0 / 6.0).abs() < 0.01, "{step}: {mean}");
        }
    }
}

//! What a job costs on a simulated device.
//!
//! cost = per job + rays · per ray + samples · per sample, the samples of a job with fewer rays
//! than the device has room for counted as if it had that many. Rays are the pixels that the job's
//! box covers, counted exactly; samples are those of `ray_counts`.
//!
//! Calibration of the GTX 285: 192 threads on each of 30 multiprocessors hide its latencies (CUDA
//! C Programming Guide of its time), that many rays fill it; a ray's 16 bytes of RGBA cross the bus in 5 ns at 3 GB/s, its set-up about as much again; a
//! kernel launch with synchronisation and the start of a copy, 0.3 ms. The time per sample is the
//! one number that is fitted: such that `standard` on 8 devices, `filled` volume, `near` path, is
//! of the paper's size (55.5 ms). Nothing is fitted to any ratio.

use serde::{Deserialize, Serialize};

/// Time per sample of the simulated GTX 285, nanoseconds.
pub(super) const GTX_285_SAMPLE_NANOS: f64 = 0.37;
/// Time per sample of brickmesh's CPU device on two cores, nanoseconds.
pub(super) const CPU_SAMPLE_NANOS: f64 = 6.5;

/// The prices of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CostModel {
    /// Fixed cost of a job, microseconds.
    pub(super) job_micros: f64,
    /// Cost of a ray that enters the job's box, nanoseconds.
    pub(super) ray_nanos: f64,
    /// Cost of a sample, nanoseconds.
    pub(super) sample_nanos: f64,
    /// Rays that fill the device; a job with fewer does not get cheaper per ray.
    pub(super) rays_to_fill: f64,
}

impl CostModel {
    pub(super) const GTX_285: Self = Self {
        job_micros: 300.0,
        ray_nanos: 10.0,
        sample_nanos: GTX_285_SAMPLE_NANOS,
        rays_to_fill: 5_760.0,
    };
    pub(super) const CPU: Self = Self {
        job_micros: 50.0,
        ray_nanos: 40.0,
        sample_nanos: CPU_SAMPLE_NANOS,
        rays_to_fill: 0.0,
    };

    /// Cost of a job in microseconds; `ray_samples_max` is the most that one ray can cast in it,
    /// `fetches` how many plain samples a sample is worth.
    pub(super) fn micros(
        &self,
        rays: f64,
        samples: f64,
        ray_samples_max: f64,
        fetches: f64,
    ) -> f64 {
        // The coarse rays may miss a sliver or stand for more than it: never fewer rays than the
        // samples need.
        let rays = rays.max(samples / ray_samples_max.max(1.0));
        let filled = self.rays_to_fill.max(rays) / rays.max(1.0);
        self.job_micros
            + 1e-3 * (rays * self.ray_nanos + samples * filled * fetches * self.sample_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_too_small_to_fill_the_device_saves_no_sample_time() {
        let model = CostModel::GTX_285;
        let whole = model.micros(5_760.0, 1e6, 600.0, 1.0);
        let half = model.micros(2_880.0, 5e5, 600.0, 1.0);
        assert!(half > 0.8 * whole && half < whole);
    }
}

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

use brickmesh_topology::{View, VoxelBox};
use glam::DVec3;
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

/// Pixels whose rays enter a box: the areas of the faces towards the eye, cut at the picture.
pub(super) fn pixels_covered(view: &View, owned: &VoxelBox) -> f64 {
    let (lo, hi) = (owned.lo.map(f64::from), owned.hi.map(f64::from));
    let (u, v) = (
        view.right / view.right.length_squared(),
        view.down / view.down.length_squared(),
    );
    let mut area = 0.0;
    for a in 0..3 {
        let plane = if view.eye[a] < lo[a] {
            lo[a]
        } else if view.eye[a] > hi[a] {
            hi[a]
        } else {
            continue;
        };
        let (b, c) = ((a + 1) % 3, (a + 2) % 3);
        let corner = |on_b: f64, on_c: f64| {
            let mut p = DVec3::ZERO;
            (p[a], p[b], p[c]) = (plane, on_b, on_c);
            let p = p - view.eye;
            DVec3::new(p.dot(u), p.dot(v), p.dot(view.forward))
        };
        let face = [
            corner(lo[b], lo[c]),
            corner(hi[b], lo[c]),
            corner(hi[b], hi[c]),
            corner(lo[b], hi[c]),
        ];
        area += area_on_screen(face);
    }
    // The screen is 2·2 in these units.
    area * 0.25 * f64::from(view.width) * f64::from(view.height)
}

/// Corners of a quadrilateral that is cut by four planes.
const CORNERS_MAX: usize = 8;

/// Area of a quadrilateral in (x/z, y/z), cut to −1…1.
fn area_on_screen(face: [DVec3; 4]) -> f64 {
    let mut polygon = [DVec3::ZERO; CORNERS_MAX];
    polygon[..4].copy_from_slice(&face);
    let mut count = 4;
    let planes: [fn(DVec3) -> f64; 4] =
        [|p| p.z - p.x, |p| p.z + p.x, |p| p.z - p.y, |p| p.z + p.y];
    for plane in planes {
        let (mut cut, mut kept) = ([DVec3::ZERO; CORNERS_MAX], 0);
        for i in 0..count {
            let (p, q) = (polygon[i], polygon[(i + 1) % count]);
            let (at_p, at_q) = (plane(p), plane(q));
            if at_p >= 0.0 && kept < CORNERS_MAX {
                cut[kept] = p;
                kept += 1;
            }
            if (at_p < 0.0) != (at_q < 0.0) && kept < CORNERS_MAX {
                cut[kept] = p + (q - p) * (at_p / (at_p - at_q));
                kept += 1;
            }
        }
        (polygon, count) = (cut, kept);
        if count < 3 {
            return 0.0;
        }
    }
    let on_screen = |p: DVec3| (p.x / p.z.max(1e-9), p.y / p.z.max(1e-9));
    let mut twice = 0.0;
    for i in 0..count {
        let ((x0, y0), (x1, y1)) = (on_screen(polygon[i]), on_screen(polygon[(i + 1) % count]));
        twice += x0 * y1 - x1 * y0;
    }
    0.5 * twice.abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::camera_path::Pose;

    #[test]
    fn the_pixels_of_a_box_are_those_whose_rays_enter_it() {
        let pose = Pose {
            eye: DVec3::new(200.0, -400.0, 900.0),
            at: DVec3::splat(512.0),
        };
        let view = pose.view(0.5, 400);
        for owned in [
            VoxelBox::new([352, 352, 0], [704, 704, 352]),
            VoxelBox::new([0, 0, 704], [352, 352, 1024]),
            VoxelBox::new([704, 0, 0], [1024, 200, 300]),
        ] {
            let enters = |i: u32| {
                let (x, y) = (f64::from(i % 400) + 0.5, f64::from(i / 400) + 0.5);
                let d = view.direction_through(x, y);
                let corner = |c: [u32; 3]| (DVec3::from_array(c.map(f64::from)) - view.eye) / d;
                let (a, b) = (corner(owned.lo), corner(owned.hi));
                a.max(b).min_element() > a.min(b).max_element().max(0.0)
            };
            let marched = (0..400 * 400).filter(|&i| enters(i)).count();
            let marched = f64::from(u32::try_from(marched).unwrap());
            let found = pixels_covered(&view, &owned);
            assert!(
                (found - marched).abs() < 0.01 * marched + 60.0,
                "{found} {marched}"
            );
        }
    }

    #[test]
    fn a_job_too_small_to_fill_the_device_saves_no_sample_time() {
        let model = CostModel::GTX_285;
        let whole = model.micros(5_760.0, 1e6, 600.0, 1.0);
        let half = model.micros(2_880.0, 5e5, 600.0, 1.0);
        assert!(half > 0.8 * whole && half < whole);
    }
}

//! How long rays are between the nearest and the farthest of some boxes: what PARC renders after it has projected
//! its cubes into a front and a back depth buffer.
//!
//! Space: grid. Parallel rays around the y axis, as many as pixels of a square around the volume.

use brickmesh_topology::VoxelBox;
use glam::DVec3;

/// The rays of a view.
pub(super) struct RaySpans {
    /// Where ray (0, 0) crosses the plane through the origin.
    first: DVec3,
    /// From ray to ray.
    right: DVec3,
    down: DVec3,
    along: DVec3,
    pixels: u32,
}

impl RaySpans {
    /// Rays of a view from `degrees` around y.
    pub(super) fn new(dims: [u32; 3], degrees: f64, pixels: u32) -> Self {
        let size = DVec3::from_array(dims.map(f64::from));
        let spacing = size.length() / f64::from(pixels);
        let (sin, cos) = degrees.to_radians().sin_cos();
        let (along, across) = (DVec3::new(sin, 0.0, cos), DVec3::new(cos, 0.0, -sin));
        let (right, down) = (across * spacing, DVec3::Y * spacing);
        let middle = (f64::from(pixels) - 1.0) / 2.0;
        Self {
            first: size * 0.5 - (right + down) * middle,
            right,
            down,
            along,
            pixels,
        }
    }

    /// Sum over the rays of the length from the nearest box's front to the farthest one's back, voxels times
    /// rays.
    pub(super) fn length(&self, boxes: &[VoxelBox]) -> f64 {
        let mut spans =
            vec![(f64::INFINITY, f64::NEG_INFINITY); (self.pixels * self.pixels) as usize];
        for b in boxes {
            self.project(b, &mut spans);
        }
        let met = spans.iter().filter(|(near, far)| far > near);
        met.map(|(near, far)| far - near).sum()
    }

    /// Widens the spans of the rays that meet a box.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the pixels"
    )]
    fn project(&self, b: &VoxelBox, spans: &mut [(f64, f64)]) {
        let (lo, hi) = (
            DVec3::from_array(b.lo.map(f64::from)),
            DVec3::from_array(b.hi.map(f64::from)),
        );
        let (center, half) = ((lo + hi) * 0.5, (hi - lo) * 0.5);
        // Pixels from and to along an axis of the picture.
        let pixels = |axis: DVec3| {
            let square = axis.length_squared();
            let at = (center - self.first).dot(axis) / square;
            let reach = half.dot(axis.abs()) / square;
            let last = f64::from(self.pixels - 1);
            let [from, to] = [(at - reach).ceil(), (at + reach).floor()];
            (from.clamp(0.0, last) as u32, to.clamp(0.0, last) as u32)
        };
        let (columns, rows) = (pixels(self.right), pixels(self.down));
        for y in rows.0..=rows.1 {
            for x in columns.0..=columns.1 {
                let start = self.first + self.right * f64::from(x) + self.down * f64::from(y);
                let (mut near, mut far) = (f64::NEG_INFINITY, f64::INFINITY);
                for a in 0..3 {
                    if self.along[a].abs() < 1e-12 {
                        if start[a] < lo[a] || start[a] > hi[a] {
                            far = f64::NEG_INFINITY;
                        }
                        continue;
                    }
                    let ends = [lo[a], hi[a]].map(|plane| (plane - start[a]) / self.along[a]);
                    near = near.max(ends[0].min(ends[1]));
                    far = far.min(ends[0].max(ends[1]));
                }
                if far > near {
                    let span = &mut spans[(x + y * self.pixels) as usize];
                    *span = (span.0.min(near), span.1.max(far));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rays_along_z_are_as_long_as_what_they_cross() {
        let spans = RaySpans::new([32; 3], 0.0, 200);
        let spacing = (3.0 * 1024.0_f64).sqrt() / 200.0;
        let volume = |boxes: &[VoxelBox]| spans.length(boxes) * spacing * spacing;
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.03;
        let one = VoxelBox::new([0; 3], [32, 32, 8]);
        assert!(near(volume(&[one]), 8192.0), "{}", volume(&[one]));
        // What lies between two boxes is crossed, too.
        let two = VoxelBox::new([0, 0, 24], [32, 32, 32]);
        assert!(near(volume(&[one, two]), 32_768.0));
        let turned = RaySpans::new([32; 3], 30.0, 200);
        assert!(near(turned.length(&[one]) * spacing * spacing, 8192.0));
    }
}

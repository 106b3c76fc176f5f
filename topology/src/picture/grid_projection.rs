//! Where points of a volume's grid lie on the screen of a view; made once for many boxes.

use crate::{
    data::{volume::VolumeDescription, voxel_box::VoxelBox},
    picture::camera::{PixelRect, View},
};
use glam::DVec3;

/// A point is before the eye from this depth on, in parts of how far it is aside.
const DEPTH_PART_MIN: f64 = 1e-9;

/// See the module. In parallel projection every depth is 1.
#[derive(Clone, Copy, Debug)]
pub struct GridProjection {
    /// A point's (x·depth, y·depth, depth) is the sum of the products of the first three with its coordinates, and the last; x and
    /// y are −1 to 1 in the picture.
    columns: [DVec3; 4],
    /// Lengths to the picture's right and lower border at depth 1, in world units; 0 in parallel projection, where all is before the eye.
    reach: [f64; 2],
    /// In grid space.
    eye: DVec3,
    dims: [u32; 3],
    /// Of the picture, pixels.
    size: [u32; 2],
}

impl GridProjection {
    /// Of a volume's grid on the screen of a view.
    #[must_use]
    pub fn new(view: &View, volume: &VolumeDescription) -> Self {
        let world_from_grid = volume.world_from_grid();
        let from_eye = world_from_grid.translation - view.eye;
        let (right, down, forward) = (view.right, view.down, view.forward);
        let normal = right.cross(down);
        // The rows, and where they say that the point lies which is at the grid's zero.
        let (rows, at_zero) = match view.parallel {
            Some(far) => {
                let rows = [right, down].map(|axis| axis / (axis.length_squared() * far));
                let [x, y] = rows.map(|row| row.dot(from_eye - forward * far));
                ([rows[0], rows[1], DVec3::ZERO], DVec3::new(x, y, 1.0))
            }
            None => {
                // Cramer's rule for depth·(forward + right·x + down·y).
                let det = forward.dot(normal);
                let rows = [down.cross(forward), forward.cross(right), normal].map(|n| n / det);
                (rows, DVec3::from_array(rows.map(|row| row.dot(from_eye))))
            }
        };
        let column = |axis: DVec3| DVec3::from_array(rows.map(|row| row.dot(axis)));
        let matrix = world_from_grid.matrix3;
        Self {
            columns: [
                column(matrix.x_axis),
                column(matrix.y_axis),
                column(matrix.z_axis),
                at_zero,
            ],
            reach: match view.parallel {
                Some(_) => [0.0; 2],
                None => [right.length(), down.length()],
            },
            eye: volume.grid_from_world().transform_point3(view.eye),
            dims: volume.dims,
            size: [view.width, view.height],
        }
    }

    /// The eye in grid space.
    #[must_use]
    pub fn eye(&self) -> DVec3 {
        self.eye
    }

    /// Pixels of the picture.
    #[must_use]
    pub fn pixel_count(&self) -> f64 {
        f64::from(self.size[0]) * f64::from(self.size[1])
    }

    /// The (x·depth, y·depth, depth) of the corners between two corners of a box in grid space: the one numbered 1 is that of `ends[1]` on
    /// the first axis, 2 on the second, 4 on the third, others the sums of these.
    #[must_use]
    pub fn corners(&self, ends: [DVec3; 2]) -> [DVec3; 8] {
        let [x, y, z, zero] = self.columns;
        let [xs, ys, zs] = [0, 1, 2].map(|a| [ends[0][a], ends[1][a]]);
        let (xs, ys, zs) = (xs.map(|n| x * n), ys.map(|n| y * n), zs.map(|n| z * n));
        let edges = [0, 1, 2, 3].map(|i| ys[i & 1] + zs[i >> 1] + zero);
        std::array::from_fn(|corner| xs[corner & 1] + edges[corner >> 1])
    }

    /// See [`View::rect_of`].
    #[must_use]
    pub fn rect_of(&self, owned: &VoxelBox) -> Option<PixelRect> {
        let seen = self.rect_and_depths_of(owned.field_corners(self.dims));
        seen.map(|(rect, _)| rect)
    }

    /// The pixels whose rays may meet the box between two corners, and between which depths it is; from 0 on where some of it is not before
    /// the eye.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the picture before"
    )]
    pub fn rect_and_depths_of(&self, ends: [DVec3; 2]) -> Option<(PixelRect, [f64; 2])> {
        let (mut lo, mut hi) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        let (mut in_front, mut behind) = (false, false);
        let [mut near, mut far] = [f64::INFINITY, f64::NEG_INFINITY];
        for at in self.corners(ends) {
            (near, far) = (near.min(at.z), far.max(at.z));
            let aside = at.x.abs() * self.reach[0] + at.y.abs() * self.reach[1];
            if at.z > 0.0 && at.z > DEPTH_PART_MIN * aside {
                in_front = true;
                for (axis, s) in [at.x / at.z, at.y / at.z].into_iter().enumerate() {
                    lo[axis] = lo[axis].min(s);
                    hi[axis] = hi[axis].max(s);
                }
            } else {
                behind = true;
            }
        }
        let [width, height] = self.size;
        if !in_front {
            return None;
        }
        if behind {
            let all = PixelRect {
                x: 0,
                y: 0,
                width,
                height,
            };
            return Some((all, [0.0, far]));
        }
        let span = |axis: usize, pixels: u32| {
            let n = f64::from(pixels);
            let first = ((lo[axis] + 1.0) * 0.5 * n - 1.5).floor().clamp(0.0, n) as u32;
            let end = ((hi[axis] + 1.0) * 0.5 * n + 1.5).ceil().clamp(0.0, n) as u32;
            (end > first).then(|| (first, end - first))
        };
        let (x, width) = span(0, width)?;
        let (y, height) = span(1, height)?;
        let rect = PixelRect {
            x,
            y,
            width,
            height,
        };
        Some((rect, [near, far]))
    }
}

impl View {
    /// The pixels whose rays may meet the box, at most the whole picture; `None` if none can.
    ///
    /// Conservative: bounds the projected corners, a pixel wider; the whole picture where a
    /// corner is not in front of the eye while another is. Of many boxes: [`GridProjection::rect_of`].
    #[must_use]
    pub fn rect_of(&self, volume: &VolumeDescription, owned: &VoxelBox) -> Option<PixelRect> {
        GridProjection::new(self, volume).rect_of(owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::volume::VoxelType,
        picture::camera::{Camera, Projection},
    };
    use proptest::prelude::*;

    fn volume() -> VolumeDescription {
        VolumeDescription {
            spacing: [1.0, 0.5, 2.0],
            ..VolumeDescription::new([20, 30, 10], VoxelType::U8)
        }
    }

    #[test]
    fn a_box_beside_the_picture_has_no_rectangle() {
        let camera = Camera::whole(&volume());
        let mut view = camera.view(8, 6).unwrap();
        let all = VoxelBox::new([0; 3], [20, 30, 10]);
        for aside in [1e3, -1e3, 1e30] {
            view.eye = camera.eye + view.right * aside;
            assert_eq!(view.rect_of(&volume(), &all), None, "{aside}");
        }
    }

    proptest! {
        #[test]
        fn a_point_of_the_box_falls_into_its_rectangle(
            az in 0.0..360.0f64, el in -89.0..89.0f64, zoom in 0.5..6.0f64,
            f in prop::array::uniform3(0.0..1.0f64), lo in prop::array::uniform3(0u32..9)
        ) {
            let volume = volume();
            let view = Camera::orbit(&volume, az, el, zoom).view(97, 61).unwrap();
            let b = VoxelBox::new(lo, lo.map(|v| v + 1));
            let p = DVec3::from_array(std::array::from_fn(|a| f64::from(b.lo[a]) + f[a]));
            let p = p.min(DVec3::new(19.0, 29.0, 9.0));
            let v = volume.world_from_grid().transform_point3(p) - view.eye;
            let depth = v.dot(view.forward);
            let x = v.dot(view.right) / view.right.length_squared() / depth;
            let y = v.dot(view.down) / view.down.length_squared() / depth;
            if depth > 1e-6 && x.abs() < 1.0 && y.abs() < 1.0 {
                let (px, py) = ((x + 1.0) * 0.5 * 97.0, (y + 1.0) * 0.5 * 61.0);
                let r = view.rect_of(&volume, &b).unwrap();
                prop_assert!(f64::from(r.x) <= px && px <= f64::from(r.x + r.width));
                prop_assert!(f64::from(r.y) <= py && py <= f64::from(r.y + r.height));
            }
        }

        #[test]
        fn corners_lie_where_the_view_has_them(
            az in 0.0..360.0f64, el in -89.0..89.0f64, zoom in 0.1..6.0f64, is_parallel: bool,
            origin in prop::array::uniform3(-1e6..1e6f64), scale in -20..20i32,
            lo in prop::array::uniform3(0u32..20), size in prop::array::uniform3(1u32..20)
        ) {
            let scale = 10.0_f64.powi(scale);
            let volume = VolumeDescription {
                spacing: [1.0, 0.5, 2.0].map(|n| n * scale),
                origin: origin.map(|n| n * scale),
                ..VolumeDescription::new([40; 3], VoxelType::U8)
            };
            let projection = if is_parallel { Projection::Parallel } else { Projection::Perspective };
            let camera = Camera { projection, ..Camera::orbit(&volume, az, el, zoom) };
            let view = camera.view(97, 61).unwrap();
            let ends = [lo, [0, 1, 2].map(|a| lo[a] + size[a])];
            let ends = ends.map(|end| DVec3::from_array(end.map(f64::from)));
            let corners = GridProjection::new(&view, &volume).corners(ends);
            for (n, found) in corners.into_iter().enumerate() {
                let corner = DVec3::new(ends[n & 1].x, ends[n >> 1 & 1].y, ends[n >> 2].z);
                let world = volume.world_from_grid().transform_point3(corner);
                let Some([x, y]) = view.pixel_of(world) else {
                    prop_assert!(found.z < 1e-3 * scale, "behind the eye, or nearly: {found}");
                    continue;
                };
                let pixel = |at: f64, n: f64| (at / found.z + 1.0) * 0.5 * n;
                let (dx, dy) = (pixel(found.x, 97.0) - x, pixel(found.y, 61.0) - y);
                let near = 1e-3 * (1.0 + x.abs().max(y.abs()));
                prop_assert!(dx.abs() < near && dy.abs() < near, "{dx} {dy} at {x} {y}");
            }
        }
    }

    #[test]
    fn in_parallel_projection_a_box_around_a_picture_is_seen_in_all_of_it_however_large_it_is() {
        let volume = VolumeDescription {
            spacing: [1e20; 3],
            ..VolumeDescription::new([9; 3], VoxelType::U8)
        };
        let camera = Camera {
            eye: DVec3::new(-14.0, -22.0, 18.0),
            at: DVec3::new(22.0, 11.0, 28.0),
            up: DVec3::Y,
            fov_degrees: 90.0,
            projection: Projection::Parallel,
        };
        let view = camera.view(2, 100).unwrap();
        let projection = GridProjection::new(&view, &volume);
        let around = [DVec3::splat(-1.0), DVec3::splat(9.0)];
        let seen = projection.rect_and_depths_of(around);
        assert_eq!(seen.map(|(rect, _)| rect), Some(view.rect()));
    }
}

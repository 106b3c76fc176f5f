//! How many pixels a box covers: the rays that a job casts.
//!
//! Space: grid boxes, areas in pixels of the picture. Exact up to rounding, not whole numbers.
//! Method: the faces of a parallelepiped that are turned to an eye outside of it are projected
//! without overlap, so the areas of their projections, cut at the picture's border (Sutherland,
//! Hodgman 1974), add up.

use crate::{data::voxel_box::VoxelBox, picture::grid_projection::GridProjection};
use glam::DVec3;

/// Pixels whose rays enter a box; all of the picture where the eye is inside.
#[must_use]
pub fn pixels_covered(projection: &GridProjection, owned: &VoxelBox) -> f64 {
    let eye = projection.eye();
    let ends = [owned.lo, owned.hi].map(|end| DVec3::from_array(end.map(f64::from)));
    let corners = projection.corners(ends);
    let inside = |p: &DVec3| p.x.abs() <= p.z && p.y.abs() <= p.z;
    let is_whole = corners.iter().all(|p| p.z > 0.0 && inside(p));
    let on_screen = corners.map(|p| [p.x / p.z, p.y / p.z]);
    let (mut area, mut is_inside) = (0.0, true);
    for a in 0..3 {
        let end = if eye[a] < ends[0][a] {
            0
        } else if eye[a] > ends[1][a] {
            1
        } else {
            continue;
        };
        is_inside = false;
        let (b, c) = (1 << ((a + 1) % 3), 1 << ((a + 2) % 3));
        let first: usize = end << a;
        let face = [first, first + b, first + b + c, first + c];
        area += if is_whole {
            quadrilateral(face.map(|corner| on_screen[corner]))
        } else {
            area_in_picture(face.map(|corner| corners[corner]))
        };
    }
    let share = if is_inside {
        1.0
    } else {
        (area * 0.25).min(1.0)
    };
    share * projection.pixel_count()
}

/// Area of a quadrilateral: half of the product of its diagonals.
fn quadrilateral([a, b, c, d]: [[f64; 2]; 4]) -> f64 {
    let [x0, y0] = [c[0] - a[0], c[1] - a[1]];
    let [x1, y1] = [d[0] - b[0], d[1] - b[1]];
    0.5 * (x0 * y1 - x1 * y0).abs()
}

/// Points of a face are taken to lie at such a part of its farthest corner's depth at least: where the eye lies in the face's plane, rounding says
/// where those next to it are.
const DEPTH_PART_MIN: f64 = 1e-11;
/// Corners of a quadrilateral that is cut by four planes.
const CORNERS_MAX: usize = 8;

/// Area of a quadrilateral in (x/z, y/z), cut to −1…1.
fn area_in_picture(face: [DVec3; 4]) -> f64 {
    let mut polygon = [DVec3::ZERO; CORNERS_MAX];
    polygon[..4].copy_from_slice(&face);
    let mut count = 4;
    let borders: [fn(DVec3) -> f64; 4] =
        [|p| p.z - p.x, |p| p.z + p.x, |p| p.z - p.y, |p| p.z + p.y];
    for border in borders {
        let (mut cut, mut kept) = ([DVec3::ZERO; CORNERS_MAX], 0);
        for i in 0..count {
            let (p, q) = (polygon[i], polygon[(i + 1) % count]);
            let (at_p, at_q) = (border(p), border(q));
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
    let farthest = face.map(|p| p.abs().max_element()).into_iter();
    let depth_min = farthest.fold(f64::MIN_POSITIVE, f64::max) * DEPTH_PART_MIN;
    let at = |i: usize| {
        let p = polygon[i % count];
        let depth = p.z.max(depth_min);
        (
            (p.x / depth).clamp(-1.0, 1.0),
            (p.y / depth).clamp(-1.0, 1.0),
        )
    };
    let cross = |i: usize| {
        let ((x0, y0), (x1, y1)) = (at(i), at(i + 1));
        x0 * y1 - x1 * y0
    };
    0.5 * (0..count).map(cross).sum::<f64>().abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::volume::{VolumeDescription, VoxelType},
        picture::camera::Camera,
    };

    #[test]
    fn the_pixels_of_a_box_are_those_whose_rays_enter_it() {
        let volume = VolumeDescription {
            spacing: [1.0, 0.5, 2.0],
            ..VolumeDescription::new([64, 96, 40], VoxelType::U8)
        };
        let boxes = [
            VoxelBox::new([0; 3], [64, 96, 40]),
            VoxelBox::new([20, 32, 0], [44, 64, 22]),
            VoxelBox::new([0, 0, 35], [3, 96, 40]),
        ];
        let from_grid = volume.grid_from_world();
        let mut cut = 0;
        for (zoom, owned) in [0.6, 1.0, 3.0]
            .into_iter()
            .flat_map(|z| boxes.map(|b| (z, b)))
        {
            let camera = Camera::orbit(&volume, 25.0, 35.0, zoom);
            let view = camera.view(300, 200).unwrap();
            let eye = from_grid.transform_point3(view.eye);
            let enters = |i: u32| {
                let (x, y) = (f64::from(i % 300) + 0.5, f64::from(i / 300) + 0.5);
                let d = from_grid.transform_vector3(view.direction_through(x, y));
                let to = |c: [u32; 3]| (DVec3::from_array(c.map(f64::from)) - eye) / d;
                let (a, b) = (to(owned.lo), to(owned.hi));
                a.max(b).min_element() > a.min(b).max_element().max(0.0)
            };
            let cast = (0..300 * 200).filter(|&i| enters(i)).count() as f64;
            let found = pixels_covered(&GridProjection::new(&view, &volume), &owned);
            assert!((found - cast).abs() < 0.01 * cast + 30.0, "{found} {cast}");
            let on_border = |i: u32| matches!(i % 300, 0 | 299) || matches!(i / 300, 0 | 199);
            cut += usize::from((0..300 * 200).any(|i| on_border(i) && enters(i)));
        }
        assert!(cut >= 2, "some boxes reach beyond the picture: {cut}");
    }

    #[test]
    fn the_unit_of_length_does_not_matter() {
        let covered = |scale: f64, owned| {
            let volume = VolumeDescription {
                spacing: [scale; 3],
                ..VolumeDescription::new([64; 3], VoxelType::U8)
            };
            let view = Camera::orbit(&volume, 25.0, 35.0, 2.0)
                .view(300, 200)
                .unwrap();
            pixels_covered(&GridProjection::new(&view, &volume), &owned)
        };
        for owned in [
            VoxelBox::new([0; 3], [64; 3]),
            VoxelBox::new([30; 3], [34; 3]),
        ] {
            let usual = covered(1.0, owned);
            assert!(usual > 100.0, "{usual}");
            for scale in [1e-20, 1e20] {
                assert!((covered(scale, owned) / usual - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn an_eye_in_the_plane_of_a_face_sees_no_more_than_the_picture() {
        let volume = VolumeDescription::new([64; 3], VoxelType::U8);
        let owned = VoxelBox::new([32; 3], [64; 3]);
        for (i, n) in (0..2000_u16).map(|i| (usize::from(i), f64::from(i))) {
            // On the border, or beside it by as much as rounding takes.
            let plane = [32.0, 32.0_f64.next_down(), 32.0_f64.next_up()][i % 3];
            let eye = DVec3::new(plane, 33.0 + n % 29.0, 33.0 + n % 23.0);
            let tilt = DVec3::new(0.3 * (n * 0.37).sin(), 1.0, 0.8 * (n * 0.53).cos());
            let camera = Camera {
                eye,
                at: eye + tilt,
                up: DVec3::Z,
                fov_degrees: 40.0,
                projection: crate::picture::camera::Projection::Perspective,
            };
            let view = camera.view(300, 200).unwrap();
            let projection = GridProjection::new(&view, &volume);
            let covered = pixels_covered(&projection, &owned);
            let most = projection.pixel_count();
            assert!((0.0..=most).contains(&covered), "{eye}: {covered}");
        }
    }

    #[test]
    fn an_eye_inside_sees_nothing_else_and_a_box_behind_it_is_not_seen() {
        let volume = VolumeDescription::new([64; 3], VoxelType::U8);
        let camera = Camera {
            eye: DVec3::splat(40.0),
            at: DVec3::new(90.0, 40.0, 40.0),
            up: DVec3::Z,
            fov_degrees: 40.0,
            projection: crate::picture::camera::Projection::Perspective,
        };
        let view = camera.view(30, 20).unwrap();
        let projection = GridProjection::new(&view, &volume);
        let covered = |lo, hi| pixels_covered(&projection, &VoxelBox::new(lo, hi));
        assert!((covered([32; 3], [64; 3]) - 600.0).abs() < 1e-9);
        assert!(covered([0; 3], [32, 64, 64]) < 1e-9);
    }
}

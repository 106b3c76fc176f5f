//! Which level of a volume a picture needs, and what is seen of it at that level.
//!
//! A level is as fine as a screen can show where its voxels are no wider than a pixel.

use crate::{
    data::{levels::voxels_in_one, volume::VolumeDescription},
    picture::{camera::View, clip::Clip, render_settings::RenderSettings, slice::Slice},
};
use glam::DVec3;
use std::time::Duration;

/// What rounding may move a plane by, in smallest spacings.
const ROUNDING: f64 = 1e-3;
/// Part of half a volume's thickness within which a plane that lies beside a level is moved.
const INSIDE: f64 = 1.0 - 1e-6;

/// The coarsest of the levels whose voxels are no wider than a pixel, wherever the view shows a volume that is clipped like
/// that; `levels`: the volume and its levels, finest first. O(levels).
#[must_use]
pub fn level_for(view: &View, levels: &[VolumeDescription], clip: &Clip) -> usize {
    let Some(exact) = levels.first() else {
        return 0;
    };
    let pixel = pixel_width(view, nearest(view, exact, clip));
    let is_fine = |level: &VolumeDescription| {
        // Axes that are not halved are as in the volume itself.
        let widths = (0..3).filter(|&a| level.dims[a] < exact.dims[a]);
        let axes = level.world_from_grid().matrix3;
        widths
            .map(|a| axes.col(a).length())
            .all(|width| width <= pixel)
    };
    let coarser = levels.iter().skip(1).take_while(|level| is_fine(level));
    coarser.count()
}

/// From a level to the next finer one a picture takes so many times as long at least, where it is said beforehand: bricks are eight times as many, but
/// what a picture of any level takes is most of what coarse ones do.
const TIMES_MIN: f64 = 4.0;

/// The level that is to be rendered next, where there is so much time left: the finest that is expected to be there in time, by
/// how times grew from level to level, or else the next finer one. `times`: what levels of the same picture took, coarsest
/// first; `open`: finer ones that there are, coarsest first.
#[must_use]
pub fn next_level(
    times: &[(usize, Duration)],
    open: impl IntoIterator<Item = usize>,
    left: Duration,
) -> Option<usize> {
    let open: Vec<usize> = open.into_iter().collect();
    let grows = match times {
        [.., (coarser, less), (level, more)] => {
            let levels = coarser.saturating_sub(*level).max(1) as f64;
            let times = more.as_secs_f64() / less.as_secs_f64().max(f64::MIN_POSITIVE);
            Some((*level, *more, times.powf(levels.recip()).max(TIMES_MIN)))
        }
        _ => None,
    };
    let is_there = |&level: &usize| {
        grows.is_some_and(|(last, took, times)| {
            let levels = last.saturating_sub(level) as f64;
            took.as_secs_f64() * times.powf(levels) <= left.as_secs_f64()
        })
    };
    let expected = open.iter().copied().rev().find(is_there);
    expected.or(open.first().copied())
}

/// Width in the world of what a pixel shows at a distance, in multiples of the view's vectors.
fn pixel_width(view: &View, distance: f64) -> f64 {
    let across = view.right.length() / f64::from(view.width);
    let down = view.down.length() / f64::from(view.height);
    2.0 * across.min(down) * view.parallel.unwrap_or(distance)
}

/// How far before the eye the nearest point of what is shown may be, in multiples of the view's vectors.
fn nearest(view: &View, volume: &VolumeDescription, clip: &Clip) -> f64 {
    let whole = volume.field_in_grid();
    let shown = clip.bounds_of(volume.dims);
    let world_from_grid = volume.world_from_grid();
    let det = view.forward.dot(view.right.cross(view.down));
    let depth = view.right.cross(view.down) / det;
    let corner = |n: usize| {
        let at = DVec3::from_array(std::array::from_fn(|a| {
            let [first, last] = whole.map(|p| p[a]);
            shown[n >> a & 1][a].clamp(first, last)
        }));
        (world_from_grid.transform_point3(at) - view.eye).dot(depth)
    };
    (0..8).map(corner).fold(f64::INFINITY, f64::min).max(0.0)
}

/// What is to be seen of a volume, seen of one of its levels: the same places, opacities and gradients, and as many samples
/// to a voxel.
#[must_use]
pub fn settings_at(
    settings: &RenderSettings,
    exact: &VolumeDescription,
    level: &VolumeDescription,
) -> RenderSettings {
    let mut at = settings.clone();
    let unit = &mut at.transfer.unit_distance;
    *unit = Some(unit.unwrap_or_else(|| exact.min_spacing()));
    // What is in smallest spacings is of longer ones.
    let times = level.min_spacing() / exact.min_spacing();
    at.step *= times;
    at.gradient_opacity = at.gradient_opacity.map(|ends| ends.map(|g| g * times));
    for shape in &mut at.transfer_2d {
        shape.gradient = shape.gradient.map(|g| g * times);
    }
    let in_one = voxels_in_one(exact, level);
    if reaches_beyond(exact, level) {
        at.clip.bounds = Some(at.clip.bounds_of(exact.dims));
    }
    for end in at.clip.bounds.iter_mut().flatten() {
        for (place, n) in end.iter_mut().zip(in_one) {
            *place = (*place - 0.5 * (n - 1.0)) / n;
        }
    }
    if let Some(slice) = &mut at.slice {
        move_inside(slice, exact, level);
    }
    at
}

/// Whether a level's field ends beyond that of the volume, as that of an axis of an odd number of voxels does.
fn reaches_beyond(exact: &VolumeDescription, level: &VolumeDescription) -> bool {
    let in_one = voxels_in_one(exact, level);
    let last = |a: usize| f64::from(level.dims[a] - 1) * in_one[a] + 0.5 * (in_one[a] - 1.0);
    (0..3).any(|a| in_one[a] > 1.0 && last(a) > f64::from(exact.dims[a] - 1))
}

/// A plane through the outermost voxels of a volume is beside a level, whose field is shorter: it is moved to its border.
fn move_inside(slice: &mut Slice, exact: &VolumeDescription, level: &VolumeDescription) {
    let normal = slice.normal();
    let half_thickness = |volume: &VolumeDescription| {
        let axes = volume.world_from_grid().matrix3;
        let [lo, hi] = volume.field_in_grid();
        let along = |a: usize| (normal.dot(axes.col(a)) * (hi - lo)[a]).abs();
        0.5 * (0..3).map(along).sum::<f64>()
    };
    let beside = slice.distance(exact.center_in_world());
    let rounding = ROUNDING * exact.min_spacing();
    if beside.abs() > half_thickness(exact) + rounding {
        return;
    }
    let (center, most) = (level.center_in_world(), half_thickness(level) * INSIDE);
    let distance = slice.distance(center);
    if distance.abs() > most {
        let [x, y, z, _] = slice.plane;
        let on_plane = center - normal * distance.clamp(-most, most);
        slice.plane[3] = DVec3::new(x, y, z).dot(on_plane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::{levels::levels, transfer_function::TransferFunction, volume::VoxelType},
        picture::camera::{Camera, Projection},
    };

    fn volumes(dims: [u32; 3]) -> Vec<VolumeDescription> {
        levels(&VolumeDescription::new(dims, VoxelType::U8), 32)
    }

    /// The level from this far before the middle of the front face.
    fn from(distance: f64, size: u32, projection: Projection, clip: &Clip) -> usize {
        let camera = Camera {
            eye: DVec3::new(511.5, 511.5, -distance),
            at: DVec3::splat(511.5),
            up: DVec3::Y,
            fov_degrees: 53.130_102_354_155_98,
            projection,
        };
        let view = camera.view(size, size).unwrap();
        level_for(&view, &volumes([1024; 3]), clip)
    }

    #[test]
    fn voxels_are_no_wider_than_the_nearest_pixels() {
        let perspective =
            |distance, size| from(distance, size, Projection::Perspective, &Clip::default());
        // A pixel is as wide as the distance over the size.
        assert_eq!(perspective(500.0, 512), 0);
        assert_eq!(perspective(1023.0, 512), 0);
        assert_eq!(perspective(1025.0, 512), 1);
        assert_eq!(perspective(4097.0, 512), 3);
        assert_eq!(perspective(1e9, 512), 5, "there are no more");
        assert_eq!(perspective(1025.0, 4096), 0);
        assert_eq!(perspective(-511.5 + 1.0, 512), 0, "inside");
        // In parallel projection the distance is that of what is looked at.
        let parallel = from(515.0, 512, Projection::Parallel, &Clip::default());
        assert_eq!(parallel, 1);
        let clip = Clip {
            bounds: Some([[0.0, 0.0, 600.0], [1023.0; 3]]),
            planes: Vec::new(),
        };
        assert_eq!(from(500.0, 512, Projection::Perspective, &clip), 1);
    }

    #[test]
    fn an_axis_that_is_not_halved_does_not_count() {
        let mut flat = VolumeDescription::new([1024, 1024, 4], VoxelType::U8);
        flat.spacing[2] = 1e3;
        let all = levels(&flat, 32);
        let camera = Camera::orbit(&flat, 0.0, 90.0, 1.0);
        let view = camera.view(64, 64).unwrap();
        assert!(level_for(&view, &all, &Clip::default()) >= 3);
    }

    #[test]
    fn what_is_seen_is_at_the_same_place_of_a_level() {
        let all = volumes([256; 3]);
        let mut settings = RenderSettings::new(TransferFunction::ramp(0.0, 1.0), 0.5);
        settings.clip.bounds = Some([[0.0, 3.5, 7.0], [255.0, 255.0, 200.0]]);
        settings.gradient_opacity = Some([1.0, 2.0]);
        let same = settings_at(&settings, &all[0], &all[0]);
        assert_eq!(same.clip, settings.clip);
        let seen = settings_at(&settings, &all[0], &all[2]);
        assert_eq!((seen.step, seen.transfer.unit_distance), (2.0, Some(1.0)));
        assert_eq!(seen.gradient_opacity, Some([4.0, 8.0]));
        let [coarse, fine] = [seen, settings].map(|s| s.clip.bounds.unwrap());
        for (p, f) in coarse.into_iter().zip(fine) {
            let p = all[2].world_from_grid().transform_point3(p.into());
            let f = all[0].world_from_grid().transform_point3(f.into());
            assert!(p.abs_diff_eq(f, 1e-9), "{p} {f}");
        }
    }

    #[test]
    fn nothing_is_seen_beyond_the_volume() {
        let all = volumes([129, 256, 256]);
        let settings = RenderSettings::new(TransferFunction::ramp(0.0, 1.0), 0.5);
        assert_eq!(settings_at(&settings, &all[0], &all[0]).clip.bounds, None);
        let [_, last] = settings_at(&settings, &all[0], &all[2])
            .clip
            .bounds
            .unwrap();
        let last = all[2].world_from_grid().transform_point3(last.into());
        assert!((last.x - 128.0).abs() < 1e-9, "{last}");
    }

    #[test]
    fn the_outermost_slices_of_a_volume_are_seen_of_a_level_too() {
        let all = volumes([256; 3]);
        for (spacing, origin) in [(0.7, -123.4), (0.488_281, 1e3), (0.1, 0.0), (3e-7, 5e-3)] {
            let placed = VolumeDescription {
                spacing: [spacing; 3],
                origin: [origin; 3],
                ..all[0].clone()
            };
            let level = &levels(&placed, 32)[3];
            for z in [0.0, 255.0] {
                let mut settings = RenderSettings::new(TransferFunction::ramp(0.0, 1.0), spacing);
                settings.slice = Some(Slice::on_axis(&placed, 2, z));
                let slice = settings_at(&settings, &placed, level).slice.unwrap();
                let at = slice.axis(level).unwrap();
                assert!(
                    (0.0..=31.0).contains(&at.1),
                    "{spacing} {origin} {z}: {at:?}"
                );
            }
        }
        let slice_at = |z: f64| {
            let mut settings = RenderSettings::new(TransferFunction::ramp(0.0, 1.0), 0.5);
            settings.slice = Some(Slice::on_axis(&all[0], 2, z));
            let slice = settings_at(&settings, &all[0], &all[3]).slice.unwrap();
            let [_, _, nz, d] = slice.plane;
            d / nz
        };
        assert!((slice_at(100.0) - 100.0).abs() < 1e-9);
        assert!((slice_at(0.0) - 3.5).abs() < 1e-3 && slice_at(0.0) > 3.5);
        assert!((slice_at(255.0) - 251.5).abs() < 1e-3);
        assert!(
            (slice_at(300.0) - 300.0).abs() < 1e-9,
            "it is beside the volume"
        );
    }

    #[test]
    fn the_finest_level_that_is_expected_in_time_comes_next_else_the_next_finer_one() {
        let ms = Duration::from_millis;
        let next = |times: &[(usize, Duration)], open: &[usize], left| {
            next_level(times, open.iter().copied(), ms(left))
        };
        assert_eq!(next(&[], &[], 100), None);
        assert_eq!(next(&[], &[5, 4], 0), Some(5), "something is to be seen");
        let times = [(5, ms(10)), (4, ms(20))];
        assert_eq!(next(&times[..1], &[4, 3, 0], 9_000), Some(4));
        // 80, 320, 1280 and 5120 ms, not 40 to 320.
        assert_eq!(next(&times, &[3, 2, 1, 0], 6_000), Some(0));
        assert_eq!(next(&times, &[3, 2, 1, 0], 400), Some(2));
        assert_eq!(next(&times, &[3, 2], 6_000), Some(2));
        // 640, 5120, 40 960 and 327 680 ms.
        let times_eight = [(5, ms(10)), (4, ms(80))];
        assert_eq!(next(&times_eight, &[3, 2, 1, 0], 6_000), Some(2));
        assert_eq!(next(&times, &[3, 2, 1, 0], 10), Some(3));
        // A finer one may take less.
        let times = [(5, ms(20)), (3, ms(10))];
        assert_eq!(next(&times, &[2, 1, 0], 700), Some(0));
        assert_eq!(next(&times, &[2, 1, 0], 15), Some(2));
    }
}

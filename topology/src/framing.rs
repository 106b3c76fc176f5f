//! The default camera: from where a volume is looked at, and so that what can be seen of it fills the
//! picture.
//!
//! A pure state machine: it asks for small previews, is told what they show, and ends with a camera.
//! Space: world; what a preview shows is in its screen, −1 to 1, y down.
//! Patients stand upright and are seen from the front, a little from their left, whichever way the
//! file's axes point. Elsewhere z is up, unless what can be seen is much heavier at one end of another
//! axis: that end is down then, as a pot is below its tree.

use crate::{
    camera::{Camera, CameraError, DEFAULT_FOV_DEGREES, View},
    volume::VolumeDescription,
};
use glam::DVec3;

/// Width and height of a square preview in pixels; others have about as many.
const PREVIEW_EDGE: f64 = 128.0;
/// Most that a preview is wider than high, or the other way round.
const ASPECT_MAX: f64 = 8.0;
/// Part of the picture's width or height that what is seen shall fill.
const FILLED: f64 = 0.78;
/// It does well enough if it fills so much.
const FILLED_WELL: [f64; 2] = [0.74, 0.82];
/// Previews until the camera is taken as it is.
const FITS_MAX: u32 = 6;
/// What is less opaque than this part of the most opaque pixel does not count.
const FAINT: f32 = 0.15;
/// What is more opaque does not weigh more.
const OPAQUE: f64 = 0.998;
/// What lies beyond this part of all that is seen, on each side, does not count.
const BEYOND: f64 = 0.001;
/// An object this far from the middle of what is seen, as a part of half its size, is heavier at one
/// end.
const HEAVY: f64 = 0.5;
/// Degrees to the left of a patient's front.
const PATIENT_AZIMUTH: f64 = 30.0;
/// Degrees to the side of any other volume's front.
const AZIMUTH: f64 = 45.0;
/// Degrees above the horizon of what is as high as it is wide: of patients, and of others.
const PATIENT_ELEVATION: f64 = 18.0;
const ELEVATION: f64 = 32.0;
/// Degrees above the horizon of what is flat.
const FLAT_ELEVATION: f64 = 55.0;

/// See the module.
#[derive(Clone, Debug)]
pub struct Framing {
    volume: VolumeDescription,
    /// Width and height of previews, in pixels: in the picture's ratio, if that is not extreme.
    size: (u32, u32),
    fov_degrees: f64,
    camera: Camera,
    state: State,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// Looks along an axis, y first, then x, to find the heavy end; with what was found.
    Weighing(Option<f64>),
    /// Fits the camera, for the n-th time.
    Fitting(u32),
    Done,
}

/// What a preview shows: bounds of what is seen, and where the middle of what rays go through is between
/// them, −1 to 1, on x and y.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    low: [f64; 2],
    high: [f64; 2],
    heavy: [f64; 2],
}

impl Framing {
    /// Of a volume, for pictures of this size and vertical field of view; `None`: the default one.
    #[must_use]
    pub fn new(
        volume: &VolumeDescription,
        (width, height): (u32, u32),
        fov_degrees: Option<f64>,
    ) -> Self {
        let fov_degrees = fov_degrees.unwrap_or(DEFAULT_FOV_DEGREES);
        let aspect = f64::from(width.max(1)) / f64::from(height.max(1));
        let stretch = aspect.clamp(1.0 / ASPECT_MAX, ASPECT_MAX).sqrt();
        let mut framing = Self {
            volume: volume.clone(),
            size: (pixels(stretch), pixels(stretch.recip())),
            fov_degrees,
            camera: Camera::whole(volume),
            state: State::Fitting(0),
        };
        if let Some(axes) = volume.patient {
            let [left, front] = axes.left_and_front();
            framing.look_down([left, -front, DVec3::Z], PATIENT_AZIMUTH, PATIENT_ELEVATION);
        } else {
            framing.look_from([DVec3::X, DVec3::Y, DVec3::Z], 0.0, 0.0);
            framing.state = State::Weighing(None);
        }
        framing
    }

    /// The preview that is to be rendered next; none when the camera is found.
    ///
    /// # Errors
    /// [`CameraError`] where the field of view is none.
    pub fn preview(&self) -> Result<Option<View>, CameraError> {
        if self.state == State::Done {
            return Ok(None);
        }
        self.camera.view(self.size.0, self.size.1).map(Some)
    }

    /// What the preview showed: the opacity of its pixels, row by row. Where it is nothing, the
    /// camera stays where all of the volume is in view.
    pub fn saw(&mut self, opacity: &[f32]) {
        let seen = Seen::of(opacity, self.size);
        match (&self.state, seen) {
            (State::Weighing(of_x), seen) => self.weighed(*of_x, seen),
            (State::Fitting(count), Some(seen)) => {
                let count = count + 1;
                let is_fit = self.fit(&seen);
                self.state = if is_fit || count >= FITS_MAX {
                    State::Done
                } else {
                    State::Fitting(count)
                };
            }
            (State::Fitting(_) | State::Done, _) => self.state = State::Done,
        }
    }

    /// The camera, best once no preview is wanted any more.
    #[must_use]
    pub fn camera(&self) -> Camera {
        self.camera
    }

    /// Looks at the whole volume. `axes`: to the right, away and up for a viewer in front of it, at
    /// azimuth 0; azimuth turns to the right.
    fn look_from(&mut self, axes: [DVec3; 3], azimuth: f64, elevation: f64) {
        let (az, el) = (azimuth.to_radians(), elevation.to_radians());
        let aside = axes[0] * az.sin() - axes[1] * az.cos();
        let from = aside * el.cos() + axes[2] * el.sin();
        let reach = 0.5 * self.volume.diagonal();
        let half_fov = self.fov_degrees.to_radians() * 0.5;
        let at = self.volume.center_in_world();
        self.camera = Camera {
            eye: at + from * (reach / half_fov.sin()),
            at,
            up: axes[2],
            fov_degrees: self.fov_degrees,
        };
    }

    /// As [`Self::look_from`], from higher up the flatter the volume is.
    fn look_down(&mut self, axes: [DVec3; 3], azimuth: f64, elevation: f64) {
        let height = self.extent_along(axes[2]);
        let width = self.extent_along(axes[0]).max(self.extent_along(axes[1]));
        let flatness = 1.0 - (height / width).min(1.0);
        let elevation = elevation + (FLAT_ELEVATION - elevation) * flatness;
        self.look_from(axes, azimuth, elevation);
    }

    /// The size of the volume along a direction of the world.
    fn extent_along(&self, axis: DVec3) -> f64 {
        let linear = self.volume.world_from_grid().matrix3;
        let extent = self.volume.extent() / DVec3::from_array(self.volume.spacing);
        let along = |a: usize| (linear.col(a) * extent[a]).dot(axis).abs();
        along(0) + along(1) + along(2)
    }

    /// A preview along an axis was seen: after two of them it is known what is up.
    fn weighed(&mut self, of_x: Option<f64>, seen: Option<Seen>) {
        let [across, downwards] = seen.map_or([0.0; 2], |s| s.heavy);
        let Some(of_x) = of_x else {
            // From the front, x is to the right; from the side, y is.
            self.look_from([DVec3::Y, DVec3::NEG_X, DVec3::Z], 0.0, 0.0);
            self.state = State::Weighing(Some(across));
            return;
        };
        let of_y = across;
        let (axis, weight) = if of_y.abs() >= of_x.abs() {
            (1, of_y)
        } else {
            (0, of_x)
        };
        let mut axes = [DVec3::X, DVec3::Y, DVec3::Z];
        if weight.abs() > HEAVY && weight.abs() > downwards.abs() {
            axes.rotate_left(axis + 1);
            if weight > 0.0 {
                axes = [axes[1], axes[0], -axes[2]];
            }
        }
        self.look_down(axes, AZIMUTH, ELEVATION);
        self.state = State::Fitting(0);
    }

    /// Brings what is seen to the middle, as large as it shall be; true if it was well before.
    fn fit(&mut self, seen: &Seen) -> bool {
        let Camera { eye, at, up, .. } = self.camera;
        let forward = (at - eye).normalize_or_zero();
        let right = forward.cross(up).normalize_or_zero();
        let down = forward.cross(right);
        let distance = (at - eye).length();
        let half = self.fov_degrees.to_radians() * 0.5;
        let middle = [0, 1].map(|a| 0.5 * (seen.low[a] + seen.high[a]));
        let size = [0, 1].map(|a| 0.5 * (seen.high[a] - seen.low[a]));
        let filled = size[0].max(size[1]);
        let off = middle[0].abs().max(middle[1].abs());
        if (FILLED_WELL[0]..=FILLED_WELL[1]).contains(&filled) && off < 0.03 {
            return true;
        }
        let aspect = f64::from(self.size.0) / f64::from(self.size.1);
        let aside = right * (middle[0] * aspect) + down * middle[1];
        let aside = aside * (distance * half.tan());
        let at = at + aside;
        // The nearest part grows faster than the middle: never all of the way at once.
        let closer = (filled / FILLED).clamp(0.02, 4.0);
        self.camera.at = at;
        self.camera.eye = at - forward * (distance * closer);
        false
    }
}

impl Seen {
    /// What pixels of these opacities show, row by row; `None`: nothing.
    fn of(opacity: &[f32], (width, height): (u32, u32)) -> Option<Self> {
        let most = opacity.iter().copied().fold(0.0_f32, f32::max);
        let (width, height) = (width as usize, height as usize);
        let sums = |weight: fn(f64) -> f64| {
            let (mut columns, mut rows) = (vec![0.0; width], vec![0.0; height]);
            for (row, line) in rows.iter_mut().zip(opacity.chunks_exact(width)) {
                let seen = columns.iter_mut().zip(line);
                for (column, &o) in seen.filter(|(_, o)| **o > most * FAINT) {
                    let w = weight(f64::from(o));
                    *column += w;
                    *row += w;
                }
            }
            [columns, rows]
        };
        let [columns, rows] = sums(|opacity| opacity);
        // What is solid weighs more than what shines through, as far as pixels tell.
        let [by_depth_x, by_depth_y] = sums(|opacity| -(1.0 - opacity.min(OPAQUE)).ln());
        let (x, y) = (span(&columns)?, span(&rows)?);
        Some(Self {
            low: [x.0, y.0],
            high: [x.1, y.1],
            heavy: [middle(&by_depth_x, x), middle(&by_depth_y, y)],
        })
    }
}

/// An edge of a preview that is stretched so much.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the ratio is bounded"
)]
fn pixels(stretch: f64) -> u32 {
    (PREVIEW_EDGE * stretch).round() as u32
}

/// Where the n-th of so many pixels begins, −1 to 1.
fn on_screen(at: usize, of: usize) -> f64 {
    2.0 * at as f64 / of as f64 - 1.0
}

/// Where weights begin and end, −1 to 1, but for what lies beyond.
fn span(weights: &[f64]) -> Option<(f64, f64)> {
    let all: f64 = weights.iter().sum();
    if all <= 0.0 {
        return None;
    }
    let beyond = |sum: &mut f64, w: f64| {
        *sum += w;
        Some(*sum > all * BEYOND)
    };
    let upwards = weights.iter().scan(0.0, |sum, &w| beyond(sum, w));
    let first = upwards.take_while(|is_in| !is_in).count();
    let downwards = weights.iter().rev().scan(0.0, |sum, &w| beyond(sum, w));
    let end = weights.len() - downwards.take_while(|is_in| !is_in).count();
    let ends = [first, end].map(|at| on_screen(at, weights.len()));
    Some((ends[0], ends[1]))
}

/// Where the middle of weights is between two bounds, −1 to 1.
fn middle(weights: &[f64], (low, high): (f64, f64)) -> f64 {
    let count = weights.len();
    let centre = |at: usize| on_screen(at, count) + 1.0 / count as f64;
    let all: f64 = weights.iter().sum();
    let moment: f64 = (0..).zip(weights).map(|(at, w)| centre(at) * w).sum();
    let half = (0.5 * (high - low)).max(f64::MIN_POSITIVE);
    ((moment / all - 0.5 * (low + high)) / half).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{PatientAxes, VoxelType};

    /// What is seen of solid boxes in the world, by marching rays.
    fn rendered(view: &View, boxes: &[[DVec3; 2]]) -> Vec<f32> {
        let hit = |x: u32, y: u32| {
            let d = view.direction_through(f64::from(x) + 0.5, f64::from(y) + 0.5);
            boxes.iter().any(|[lo, hi]| {
                let (a, b) = ((*lo - view.eye) / d, (*hi - view.eye) / d);
                a.max(b).min_element() > a.min(b).max_element().max(0.0)
            })
        };
        let hits = |i: u32| u8::from(hit(i % view.width, i / view.width));
        let opacity = |i| 0.9 * f32::from(hits(i));
        (0..view.width * view.height).map(opacity).collect()
    }

    fn framed(volume: &VolumeDescription, size: (u32, u32), boxes: &[[DVec3; 2]]) -> Camera {
        let mut framing = Framing::new(volume, size, None);
        let mut previews = 0;
        while let Some(view) = framing.preview().unwrap() {
            framing.saw(&rendered(&view, boxes));
            previews += 1;
            assert!(previews <= 2 + FITS_MAX);
        }
        framing.camera()
    }

    /// The part of a picture's width and height that boxes take, and how far off the middle.
    fn filled(camera: &Camera, (width, height): (u32, u32), boxes: &[[DVec3; 2]]) -> (f64, f64) {
        let view = camera.view(width, height).unwrap();
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for corners in boxes {
            for c in 0..8_usize {
                let p = DVec3::from_array([0, 1, 2].map(|a| corners[c >> a & 1][a]));
                let at = view.pixel_of(p).unwrap();
                let at = [at[0] / f64::from(width), at[1] / f64::from(height)];
                for a in 0..2 {
                    low[a] = low[a].min(at[a]);
                    high[a] = high[a].max(at[a]);
                }
            }
        }
        let off = [0, 1].map(|a| (0.5 * (low[a] + high[a]) - 0.5).abs());
        ((high[0] - low[0]).max(high[1] - low[1]), off[0].max(off[1]))
    }

    fn cube(edge: f64, at: [f64; 3]) -> [DVec3; 2] {
        let at = DVec3::from_array(at);
        [at, at + DVec3::splat(edge)]
    }

    #[test]
    fn a_small_object_anywhere_fills_the_picture_whatever_its_shape() {
        let volume = VolumeDescription::new([100; 3], VoxelType::U8);
        for size in [(512, 512), (1600, 400), (300, 900), (1, 1)] {
            for object in [
                cube(10.0, [5.0, 80.0, 70.0]),
                cube(99.0, [0.0; 3]),
                [DVec3::new(10.0, 10.0, 10.0), DVec3::new(90.0, 14.0, 14.0)],
            ] {
                let camera = framed(&volume, size, &[object]);
                let (part, off) = filled(&camera, size, &[object]);
                assert!((0.7..=0.86).contains(&part), "{size:?} {object:?}: {part}");
                assert!(off < 0.05, "{size:?} {object:?}: {off}");
            }
        }
    }

    #[test]
    fn patients_are_upright_and_seen_from_the_front_left_whichever_way_axes_point() {
        let box_of = |volume: &VolumeDescription| {
            let [lo, hi] = [
                DVec3::ZERO,
                DVec3::from_array(volume.dims.map(|n| f64::from(n - 1))),
            ];
            let [a, b] = [lo, hi].map(|p| volume.world_from_grid().transform_point3(p));
            [a.min(b), a.max(b)]
        };
        let mut cameras = Vec::new();
        for (axes, turn) in [
            (PatientAxes::Lps, [1.0, 1.0]),
            (PatientAxes::Ras, [-1.0, -1.0]),
            (PatientAxes::Las, [1.0, -1.0]),
        ] {
            let volume = VolumeDescription {
                patient: Some(axes),
                direction: [[turn[0], 0.0, 0.0], [0.0, turn[1], 0.0], [0.0, 0.0, 1.0]],
                ..VolumeDescription::new([80, 100, 90], VoxelType::U8)
            };
            let camera = framed(&volume, (512, 512), &[box_of(&volume)]);
            let [left, front] = axes.left_and_front();
            let from = (camera.eye - camera.at).normalize();
            assert!(
                from.dot(front) > 0.7 && from.dot(left) > 0.3 && from.z > 0.1,
                "{from}"
            );
            assert_eq!(camera.up, DVec3::Z);
            // In the patient's own axes all are the same.
            cameras.push(DVec3::new(from.dot(left), from.dot(front), from.z));
        }
        assert!(
            cameras.iter().all(|c| c.abs_diff_eq(cameras[0], 1e-9)),
            "{cameras:?}"
        );
    }

    #[test]
    fn the_heavy_end_of_another_axis_than_z_is_down() {
        let volume = VolumeDescription::new([100; 3], VoxelType::U8);
        let pot = |axis: usize, is_high: bool| {
            let turned = |from: f64, to: f64, wide: [f64; 2]| {
                let [mut lo, mut hi] = [DVec3::splat(wide[0]), DVec3::splat(wide[1])];
                (lo[axis], hi[axis]) = if is_high {
                    (99.0 - to, 99.0 - from)
                } else {
                    (from, to)
                };
                [lo, hi]
            };
            [
                turned(5.0, 30.0, [20.0, 80.0]),
                turned(30.0, 90.0, [48.0, 52.0]),
            ]
        };
        for axis in [0, 1] {
            for is_high in [false, true] {
                let camera = framed(&volume, (512, 512), &pot(axis, is_high));
                let mut up = DVec3::ZERO;
                up[axis] = if is_high { -1.0 } else { 1.0 };
                assert_eq!(camera.up, up);
                assert!((camera.eye - camera.at).dot(up) > 0.0, "from above");
            }
        }
        // Along z it may stand on its head: what is up is said by convention.
        assert_eq!(framed(&volume, (512, 512), &pot(2, true)).up, DVec3::Z);
    }

    #[test]
    fn where_nothing_is_seen_all_of_the_volume_is_in_view() {
        let mut volume = VolumeDescription::new([64; 3], VoxelType::U8);
        volume.spacing = [1e-20; 3];
        let camera = framed(&volume, (64, 64), &[]);
        let whole = cube(63e-20, [0.0; 3]);
        assert!(filled(&camera, (64, 64), &[whole]).0 < 1.0);
        let framing = Framing::new(&volume, (64, 64), Some(190.0));
        assert!(framing.preview().is_err());
    }

    #[test]
    fn what_is_flat_is_seen_from_higher_up() {
        let flat = VolumeDescription::new([100, 100, 5], VoxelType::U8);
        let high = VolumeDescription::new([50, 50, 100], VoxelType::U8);
        let elevation = |volume: &VolumeDescription| {
            let [x, y, z] = volume.dims.map(|n| f64::from(n - 1));
            let camera = framed(volume, (99, 99), &[[DVec3::ZERO, DVec3::new(x, y, z)]]);
            (camera.eye - camera.at).normalize().z.asin().to_degrees()
        };
        assert!(elevation(&flat) > 50.0 && elevation(&high) < 35.0);
    }
}

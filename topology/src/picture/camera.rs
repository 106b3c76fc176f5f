//! Cameras, and the views derived from them.
//!
//! Space: world, right-handed; pixel x right, y down, pixel centres at +0.5. A [`View`] is made
//! once, by who asks for the frame, and travels: trigonometry is done there alone, so that all
//! peers cut the same rectangles.

use crate::data::volume::VolumeDescription;
use glam::DVec3;
use serde::{Deserialize, Serialize};

/// How rays go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Projection {
    /// All from the eye
    #[default]
    Perspective,
    /// All in one direction: the same length is as long wherever it is
    Parallel,
}

/// A camera in world units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Camera {
    /// Eye.
    pub eye: DVec3,
    /// Point looked at.
    pub at: DVec3,
    /// Upwards; need not be orthogonal to the view direction.
    pub up: DVec3,
    /// Vertical field of view in degrees; in parallel projection that of what is as far as `at`.
    pub fov_degrees: f64,
    /// How rays go.
    #[serde(default)]
    pub projection: Projection,
}

/// The rays of a picture, or of a part of one: pixel (x,y)'s ray starts at `eye` and goes along
/// `forward + right · (2(x+½)/width − 1) + down · (2(y+½)/height − 1)`, normalised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Eye in world units.
    pub eye: DVec3,
    /// Direction of the middle of the picture; of length 1 where this is a whole picture.
    pub forward: DVec3,
    /// From the middle to the right border of the picture, at distance 1.
    pub right: DVec3,
    /// From the middle to the lower border of the picture, at distance 1.
    pub down: DVec3,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Which pixel of the whole picture pixel (0,0) is.
    pub first: [u32; 2],
    /// Parallel projection, where pixel (x,y)'s ray goes at right angles to the picture instead, through the
    /// point at this distance, in multiples of the vectors, from `eye`: which is so far away that what is
    /// decided for rays from it holds for these, too.
    pub parallel: Option<f64>,
}

/// The rays of a view through a volume: as a pixel's `u` and `v` go from −1 to 1 across the picture, from
/// `start[0] + start[1] u + start[2] v` along `along[0] + along[1] u + along[2] v`, normalised.
#[derive(Clone, Copy, Debug)]
pub struct Rays {
    /// Points of the world.
    pub start: [DVec3; 3],
    /// Directions in the world.
    pub along: [DVec3; 3],
}

/// A half-open rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PixelRect {
    /// Left column.
    pub x: u32,
    /// Top row.
    pub y: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A picture in bands of whole rows, from the top, of so many pixels at most, unless a row has more.
#[must_use]
pub fn bands(picture: PixelRect, pixels_max: u64) -> Vec<PixelRect> {
    let rows_max = (pixels_max / u64::from(picture.width.max(1))).max(1);
    let count = u64::from(picture.height).div_ceil(rows_max).max(1);
    let edge =
        |n: u64| u32::try_from(u64::from(picture.height) * n / count).unwrap_or(picture.height);
    let band = |n: u64| PixelRect {
        y: picture.y + edge(n),
        height: edge(n + 1) - edge(n),
        ..picture
    };
    (0..count).map(band).collect()
}

/// Largest width or height of a picture in pixels.
pub const PICTURE_EDGE_MAX: u32 = 16_384;
/// How many times as far as what is looked at the eye of a parallel projection is.
const PARALLEL_DISTANCE: f64 = 1e7;
/// Sine of the angle between a line and a ray from which on one is nearest to the other somewhere.
const PARALLEL_SINE_MIN: f64 = 1e-3;
/// The volume that a view's vectors span, at least.
const DETERMINANT_MIN: f64 = 1e-18;
/// Default vertical field of view in degrees.
pub const DEFAULT_FOV_DEGREES: f64 = 30.0;

/// A camera or view that shows nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CameraError {
    /// A number that is not finite.
    #[error("the camera has a number that is not finite: {what}")]
    NotFinite {
        /// Field.
        what: &'static str,
    },
    /// Eye and target coincide, or up points along the view.
    #[error(
        "eye, at and up do not span a view: eye and at must differ, up must not point along the view"
    )]
    Degenerate,
    /// A field of view out of bounds.
    #[error("fov is {found} degrees; it must be above 0 and below 180")]
    Fov {
        /// Degrees found.
        found: f64,
    },
    /// A picture without pixels, or with too many.
    #[error("the picture is {width}x{height} pixels; each edge must be 1 to {PICTURE_EDGE_MAX}")]
    Size {
        /// Width found.
        width: u32,
        /// Height found.
        height: u32,
    },
}

impl Camera {
    /// Looks at the volume's middle with the whole volume in view. `azimuth` turns around world z
    /// (0: from −y), `elevation` rises towards +z, both in degrees; `zoom` 2 halves the distance.
    #[must_use]
    pub fn orbit(volume: &VolumeDescription, azimuth: f64, elevation: f64, zoom: f64) -> Self {
        let (az, el) = (azimuth.to_radians(), elevation.to_radians());
        let from = DVec3::new(el.cos() * az.sin(), -el.cos() * az.cos(), el.sin());
        // At the poles z is along the view: there the top of the picture turns with the azimuth.
        let up = if el.cos().abs() < 1e-6 {
            DVec3::new(-az.sin(), az.cos(), 0.0) * el.sin().signum()
        } else {
            DVec3::Z
        };
        let distance = 0.5 * volume.diagonal() / (DEFAULT_FOV_DEGREES.to_radians() * 0.5).sin();
        let at = volume.center_in_world();
        Self {
            eye: at + from * (distance / zoom),
            at,
            up,
            fov_degrees: DEFAULT_FOV_DEGREES,
            projection: Projection::Perspective,
        }
    }

    /// The default: the whole volume from the front right, above, z up.
    #[must_use]
    pub fn whole(volume: &VolumeDescription) -> Self {
        Self::orbit(volume, 45.0, 35.0, 1.0)
    }

    /// Turns around `at` by `degrees` about the axis `up`.
    #[must_use]
    pub fn spun(&self, degrees: f64) -> Self {
        let turn =
            glam::DQuat::from_axis_angle(self.up.normalize_or(DVec3::Z), degrees.to_radians());
        Self {
            eye: self.at + turn * (self.eye - self.at),
            ..*self
        }
    }

    /// The rays of a picture of `width`×`height` pixels.
    ///
    /// # Errors
    /// [`CameraError`] where the camera spans no view or the size is out of bounds.
    pub fn view(&self, width: u32, height: u32) -> Result<View, CameraError> {
        for (what, v) in [("eye", self.eye), ("at", self.at), ("up", self.up)] {
            if !v.is_finite() {
                return Err(CameraError::NotFinite { what });
            }
        }
        if !(self.fov_degrees > 0.0 && self.fov_degrees < 180.0) {
            return Err(CameraError::Fov {
                found: self.fov_degrees,
            });
        }
        let forward = (self.at - self.eye)
            .try_normalize()
            .ok_or(CameraError::Degenerate)?;
        let up = self.up.try_normalize().ok_or(CameraError::Degenerate)?;
        let side = forward.cross(up);
        if side.length() < 1e-9 {
            return Err(CameraError::Degenerate);
        }
        let side = side.normalize();
        let tangent = (self.fov_degrees.to_radians() * 0.5).tan();
        let aspect = f64::from(width) / f64::from(height.max(1));
        let (right, down) = (side * (tangent * aspect), forward.cross(side) * tangent);
        // In parallel projection, the pinhole is as far as that a step towards it changes nothing.
        let distance = (self.at - self.eye).length();
        let (eye, nearer, parallel) = match self.projection {
            Projection::Perspective => (self.eye, 1.0, None),
            Projection::Parallel => {
                let far = distance * PARALLEL_DISTANCE;
                (self.at - forward * far, 1.0 / PARALLEL_DISTANCE, Some(far))
            }
        };
        let view = View {
            eye,
            forward,
            right: right * nearer,
            down: down * nearer,
            width,
            height,
            first: [0; 2],
            parallel,
        };
        view.validate()?;
        Ok(view)
    }
}

impl View {
    /// Checks what comes from a peer.
    ///
    /// # Errors
    /// [`CameraError`] where a number is not finite, the axes do not span space, or the size is
    /// out of bounds.
    pub fn validate(&self) -> Result<(), CameraError> {
        if !(1..=PICTURE_EDGE_MAX).contains(&self.width)
            || !(1..=PICTURE_EDGE_MAX).contains(&self.height)
        {
            return Err(CameraError::Size {
                width: self.width,
                height: self.height,
            });
        }
        if self.first.iter().any(|&at| at >= PICTURE_EDGE_MAX) {
            let [width, height] = self.first.map(|at| at.saturating_add(1));
            return Err(CameraError::Size { width, height });
        }
        let axes = [
            ("eye", self.eye),
            ("forward", self.forward),
            ("right", self.right),
            ("down", self.down),
        ];
        for (what, v) in axes {
            if !v.is_finite() {
                return Err(CameraError::NotFinite { what });
            }
        }
        let det = self.forward.dot(self.right.cross(self.down));
        let least = match self.parallel {
            None => DETERMINANT_MIN,
            Some(_) => DETERMINANT_MIN / (PARALLEL_DISTANCE * PARALLEL_DISTANCE),
        };
        let is_far = self.parallel.is_none_or(|far| {
            let ends = [
                self.eye + self.forward * far,
                self.right * far,
                self.down * far,
            ];
            let skew = self.right.normalize().dot(self.down.normalize()).abs();
            far > 0.0 && skew < 1e-6 && ends.iter().all(|v| v.is_finite())
        });
        if !(det.is_finite() && det.abs() > least && is_far) {
            return Err(CameraError::Degenerate);
        }
        Ok(())
    }

    /// The same rays of a part of the picture alone.
    #[must_use]
    pub fn part(&self, part: PixelRect) -> Self {
        let [width, height] = [self.width, self.height].map(f64::from);
        let share = [
            f64::from(part.width) / width,
            f64::from(part.height) / height,
        ];
        // The middle of the part, −1 to 1.
        let middle = [
            2.0 * f64::from(part.x) / width + share[0] - 1.0,
            2.0 * f64::from(part.y) / height + share[1] - 1.0,
        ];
        Self {
            eye: self.eye,
            forward: self.forward + self.right * middle[0] + self.down * middle[1],
            right: self.right * share[0],
            down: self.down * share[1],
            width: part.width,
            height: part.height,
            first: [self.first[0] + part.x, self.first[1] + part.y],
            parallel: self.parallel,
        }
    }

    /// All pixels of it.
    #[must_use]
    pub fn rect(&self) -> PixelRect {
        PixelRect {
            x: 0,
            y: 0,
            width: self.width,
            height: self.height,
        }
    }

    /// The rays through a volume. In parallel projection they begin before it, wherever the camera's eye
    /// is, at the plane that lies half a diagonal before its middle.
    #[must_use]
    pub fn rays(&self, volume: &VolumeDescription) -> Rays {
        let Some(far) = self.parallel else {
            return Rays {
                start: [self.eye, DVec3::ZERO, DVec3::ZERO],
                along: [self.forward, self.right, self.down],
            };
        };
        let along = self.right.cross(self.down).normalize();
        let middle = self.eye + self.forward * far;
        let before = (volume.center_in_world() - middle).dot(along) - 0.5 * volume.diagonal();
        Rays {
            start: [middle + along * before, self.right * far, self.down * far],
            along: [along, DVec3::ZERO, DVec3::ZERO],
        }
    }

    /// From where boxes of a volume are in front of each other as its rays meet them.
    #[must_use]
    pub fn order_eye(&self, volume: &VolumeDescription) -> DVec3 {
        let back = match self.parallel {
            None => return self.eye,
            Some(_) => volume.diagonal() * PARALLEL_DISTANCE,
        };
        let Rays { start, along } = self.rays(volume);
        start[0] - along[0] * back
    }

    /// Unnormalised direction of the ray from the eye through pixel coordinates (x,y), in world units.
    #[must_use]
    pub fn direction_through(&self, x: f64, y: f64) -> DVec3 {
        self.forward
            + self.right * (2.0 * x / f64::from(self.width) - 1.0)
            + self.down * (2.0 * y / f64::from(self.height) - 1.0)
    }

    /// Where a point of the world lies on the screen, −1 to 1 in the picture; `None` behind the eye.
    fn on_screen(&self, world: DVec3) -> Option<[f64; 2]> {
        let v = world - self.eye;
        if let Some(far) = self.parallel {
            let v = v - self.forward * far;
            let along = |axis: DVec3| v.dot(axis) / (axis.length_squared() * far);
            return Some([along(self.right), along(self.down)]);
        }
        // Cramer's rule for v = depth·(forward + right·x + down·y).
        let normal_z = self.right.cross(self.down);
        let det = self.forward.dot(normal_z);
        let depth = v.dot(normal_z) / det;
        let along = |normal: DVec3| v.dot(normal) / det / depth;
        (depth > 1e-9 * v.length()).then(|| {
            [
                along(self.down.cross(self.forward)),
                along(self.forward.cross(self.right)),
            ]
        })
    }

    /// Pixel coordinates of a point of the world, also beyond the picture's border; `None` behind
    /// the eye.
    #[must_use]
    pub fn pixel_of(&self, world: DVec3) -> Option<[f64; 2]> {
        let [x, y] = self.on_screen(world)?;
        let pixel = |at: f64, pixels: u32| (at + 1.0) * 0.5 * f64::from(pixels);
        Some([pixel(x, self.width), pixel(y, self.height)])
    }

    /// Where a line through `point` is nearest to the ray through pixel coordinates, in multiples of
    /// `along`; `None` where they go the same way.
    #[must_use]
    pub fn nearest_on_line(&self, [x, y]: [f64; 2], point: DVec3, along: DVec3) -> Option<f64> {
        let ray = self.direction_through(x, y).normalize();
        let between = point - self.eye;
        // Parts of both at right angles to the ray.
        let across = along - ray * along.dot(ray);
        let off = between - ray * between.dot(ray);
        let square = across.length_squared();
        (square > PARALLEL_SINE_MIN.powi(2) * along.length_squared())
            .then(|| -off.dot(across) / square)
    }
}

impl PixelRect {
    /// Number of pixels.
    #[must_use]
    pub fn pixel_count(&self) -> usize {
        self.width as usize * self.height as usize
    }

    /// The first column to its right.
    #[must_use]
    pub fn right(&self) -> u32 {
        self.x.saturating_add(self.width)
    }

    /// The first row below it.
    #[must_use]
    pub fn bottom(&self) -> u32 {
        self.y.saturating_add(self.height)
    }

    /// The pixels in both, or `None` if there are none.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let right = self.right().min(other.right());
        let bottom = self.bottom().min(other.bottom());
        (right > x && bottom > y).then(|| Self {
            x,
            y,
            width: right - x,
            height: bottom - y,
        })
    }

    /// No pixel, at its corner.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self {
            width: 0,
            height: 0,
            ..*self
        }
    }

    /// The smallest rectangle that holds both.
    #[must_use]
    pub fn around(&self, other: &Self) -> Self {
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        let right = self.right().max(other.right());
        let bottom = self.bottom().max(other.bottom());
        Self {
            x,
            y,
            width: right - x,
            height: bottom - y,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::volume::VoxelType;

    fn volume() -> VolumeDescription {
        VolumeDescription {
            spacing: [1.0, 0.5, 2.0],
            ..VolumeDescription::new([20, 30, 10], VoxelType::U8)
        }
    }

    #[test]
    fn a_point_of_a_line_is_found_by_its_pixel() {
        let volume = volume();
        for projection in [Projection::Perspective, Projection::Parallel] {
            let camera = Camera {
                projection,
                ..Camera::orbit(&volume, 35.0, 20.0, 1.5)
            };
            let view = camera.view(300, 200).unwrap();
            let (point, along) = (
                camera.at + DVec3::new(0.5, -0.25, 0.75),
                DVec3::new(0.0, 0.5, 0.25),
            );
            for far in [-3.0, 0.0, 0.5, 2.0] {
                let pixel = view.pixel_of(point + along * far).unwrap();
                let found = view.nearest_on_line(pixel, point, along).unwrap();
                assert!(
                    (found - far).abs() < 1e-6,
                    "{projection:?}: {found} in place of {far}"
                );
            }
            let away = view.direction_through(150.0, 100.0);
            assert_eq!(view.nearest_on_line([150.0, 100.0], point, away), None);
        }
    }

    #[test]
    fn in_parallel_projection_pixels_are_as_wide_at_every_depth() {
        let volume = volume();
        let camera = Camera {
            projection: Projection::Parallel,
            ..Camera::orbit(&volume, 25.0, 40.0, 3.0)
        };
        let whole = camera.view(400, 300).unwrap();
        let rect = PixelRect {
            x: 40,
            y: 200,
            width: 90,
            height: 70,
        };
        for (view, first) in [(whole, [0.0; 2]), (whole.part(rect), [40.0, 200.0])] {
            let Rays { start, along } = view.rays(&volume);
            let far = volume.diagonal();
            for (u, v, depth) in [(-0.9, 0.8, 0.0), (0.3, 0.1, far), (1.0, -1.0, 2.0 * far)] {
                let p = start[0] + start[1] * u + start[2] * v + along[0] * depth;
                let [x, y] = view.pixel_of(p).unwrap();
                let expected = [(u, view.width), (v, view.height)]
                    .map(|(c, n)| (c + 1.0) * 0.5 * f64::from(n));
                assert!(
                    (x - expected[0]).hypot(y - expected[1]) < 1e-5,
                    "{x} {y} {expected:?}"
                );
                let [x, y] = whole.pixel_of(p).unwrap();
                assert!((x - expected[0] - first[0]).hypot(y - expected[1] - first[1]) < 1e-5);
            }
            assert!(along[1] == DVec3::ZERO && (along[0].length() - 1.0).abs() < 1e-12);
        }
        // What is looked at is as large as in perspective.
        let beside = camera.at + whole.right.normalize() * (0.1 * volume.diagonal());
        let perspective = Camera {
            projection: Projection::Perspective,
            ..camera
        };
        let at = perspective
            .view(400, 300)
            .unwrap()
            .pixel_of(beside)
            .unwrap();
        let [x, y] = whole.pixel_of(beside).unwrap();
        assert!((x - at[0]).hypot(y - at[1]) < 1e-5);
    }

    #[test]
    fn the_middle_of_the_picture_looks_at_the_target() {
        let camera = Camera::whole(&volume());
        let view = camera.view(64, 48).unwrap();
        let d = view.direction_through(32.0, 24.0).normalize();
        assert!(d.abs_diff_eq((camera.at - camera.eye).normalize(), 1e-12));
        assert!(view.down.dot(DVec3::Z) < 0.0, "z is up, rows go down");
    }

    #[test]
    fn views_that_show_nothing_are_refused() {
        let good = Camera::whole(&volume());
        assert_eq!(
            Camera {
                at: good.eye,
                ..good
            }
            .view(9, 9),
            Err(CameraError::Degenerate)
        );
        assert_eq!(
            Camera {
                up: good.at - good.eye,
                ..good
            }
            .view(9, 9),
            Err(CameraError::Degenerate)
        );
        assert!(matches!(
            Camera {
                fov_degrees: 180.0,
                ..good
            }
            .view(9, 9),
            Err(CameraError::Fov { .. })
        ));
        assert!(matches!(good.view(0, 9), Err(CameraError::Size { .. })));
    }

    #[test]
    fn straight_down_is_a_view() {
        for elevation in [-90.0, 90.0] {
            assert!(
                Camera::orbit(&volume(), 30.0, elevation, 1.0)
                    .view(8, 8)
                    .is_ok()
            );
        }
    }

    #[test]
    fn bands_cover_a_picture_once_and_see_what_it_sees() {
        for (width, height) in [(1, 1), (7, 5), (100, 1), (1, 16_384), (16_384, 300)] {
            let view = Camera::whole(&volume()).view(width, height).unwrap();
            let bands = bands(view.rect(), 2000);
            let mut next = 0;
            for band in &bands {
                assert_eq!((band.x, band.y, band.width), (0, next, width));
                assert!(band.pixel_count() <= 2000 || band.height == 1);
                next += band.height;
                let part = view.part(*band);
                assert_eq!(part.validate(), Ok(()));
                assert_eq!(part.first, [0, band.y]);
                for at in [
                    [0.5, 0.5],
                    [f64::from(width) - 0.5, f64::from(band.height) - 0.5],
                ] {
                    let [of_part, of_all] = [
                        part.direction_through(at[0], at[1]),
                        view.direction_through(at[0], at[1] + f64::from(band.y)),
                    ];
                    assert!(of_part.abs_diff_eq(of_all, 1e-12), "{of_part} {of_all}");
                }
            }
            assert_eq!(next, height);
        }
    }
}

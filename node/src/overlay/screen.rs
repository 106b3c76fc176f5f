//! Points of the world on the screen.

use brickmesh_topology::{Camera, View};
use egui::{Pos2, Rect, vec2};
use glam::DVec3;

/// A picture on the screen.
pub(crate) struct Screen {
    /// In points.
    pub rect: Rect,
    pub camera: Camera,
    /// Of pixels.
    view: View,
    pixels_per_point: f64,
}

/// The corners of a box that edges join: of corner `n`, axis `a` is at its upper end where bit `a` is set.
pub(crate) fn box_edges() -> impl Iterator<Item = [usize; 2]> {
    (0..8).flat_map(|n| {
        let axes = (0..3).filter(move |a| n >> a & 1 == 0);
        axes.map(move |a| [n, n | 1 << a])
    })
}

impl Screen {
    /// `None`: the camera sees nothing.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate"
    )]
    pub(crate) fn new(rect: Rect, pixels_per_point: f32, camera: &Camera) -> Option<Self> {
        let pixels = rect.size() * pixels_per_point;
        let [width, height] = [pixels.x, pixels.y].map(|n| n.round().max(1.0) as u32);
        let view = camera.view(width, height).ok()?;
        Some(Self {
            rect,
            camera: *camera,
            view,
            pixels_per_point: pixels_per_point.into(),
        })
    }

    /// A point of the world; `None`: behind the eye, or far off the picture.
    #[expect(clippy::cast_possible_truncation, reason = "points of a screen")]
    pub(crate) fn point(&self, world: DVec3) -> Option<Pos2> {
        let pixel = self.view.pixel_of(world)?;
        let [x, y] = pixel.map(|n| (n / self.pixels_per_point) as f32);
        let at = self.rect.min + vec2(x, y);
        let near = self.rect.expand(10.0 * self.rect.size().max_elem());
        near.contains(at).then_some(at)
    }

    /// Where a line is nearest to the ray through a point, as [`View::nearest_on_line`].
    pub(crate) fn nearest_on_line(&self, at: Pos2, point: DVec3, along: DVec3) -> Option<f64> {
        let at = at - self.rect.min;
        let pixel = [at.x, at.y].map(|n| f64::from(n) * self.pixels_per_point);
        self.view.nearest_on_line(pixel, point, along)
    }

    /// How far a direction of the world goes to the right and down in the picture.
    pub(crate) fn right_and_down(&self, direction: DVec3) -> [f64; 2] {
        let Camera { eye, at, up, .. } = self.camera;
        let forward = (at - eye).normalize_or_zero();
        let right = forward.cross(up).normalize_or_zero();
        [direction.dot(right), direction.dot(forward.cross(right))]
    }

    /// Height of the picture at the distance of what the camera looks at, world units.
    pub(crate) fn height_in_world(&self) -> f64 {
        let Camera {
            eye,
            at,
            fov_degrees,
            ..
        } = self.camera;
        2.0 * eye.distance(at) * (fov_degrees.to_radians() * 0.5).tan()
    }

    /// World units of a point at that distance.
    pub(crate) fn world_per_point(&self) -> f64 {
        self.height_in_world() / f64::from(self.rect.height())
    }
}

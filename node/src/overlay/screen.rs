//! Points of the world on the screen.

use brickmesh_topology::{Camera, View};
use egui::{Pos2, Rect, vec2};
use glam::DVec3;

/// A picture on the screen; a pixel of its view is a point of the screen.
pub(crate) struct Screen {
    pub rect: Rect,
    pub camera: Camera,
    pub view: View,
}

impl Screen {
    /// `None`: the camera sees nothing.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate"
    )]
    pub(crate) fn new(rect: Rect, camera: &Camera) -> Option<Self> {
        let [width, height] = [rect.width(), rect.height()].map(|n| n.round().max(1.0) as u32);
        let view = camera.view(width, height).ok()?;
        Some(Self {
            rect,
            camera: *camera,
            view,
        })
    }

    /// A point of the world; `None`: behind the eye, or far off the picture.
    #[expect(clippy::cast_possible_truncation, reason = "points of a screen")]
    pub(crate) fn point(&self, world: DVec3) -> Option<Pos2> {
        let [x, y] = self.view.pixel_of(world)?;
        let at = self.rect.min + vec2(x as f32, y as f32);
        let near = self.rect.expand(10.0 * self.rect.size().max_elem());
        near.contains(at).then_some(at)
    }
}

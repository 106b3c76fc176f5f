//! Mouse to camera: turn around the target, pan with it, come nearer. Pure.
//!
//! Space: world; the camera's `up` stays the axis of turning, so the horizon stays level.

use brickmesh_topology::Camera;
use glam::{DQuat, DVec3};

/// Degrees that a drag across the window's height turns.
const DEGREES_PER_HEIGHT: f64 = 180.0;
/// Pixels of the wheel that halve the distance.
const PIXELS_PER_HALVING: f64 = 240.0;
/// The view direction stays this far from the axis of turning, as a cosine.
const POLE_COSINE: f64 = 0.999;

/// A camera that is moved with the mouse.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrbitControl {
    camera: Camera,
    /// The left button is down.
    pub(super) turning: bool,
    /// The right or middle button is down.
    pub(super) panning: bool,
    last: Option<(f64, f64)>,
}

impl OrbitControl {
    pub(super) fn new(camera: Camera) -> Self {
        Self {
            camera,
            turning: false,
            panning: false,
            last: None,
        }
    }

    pub(super) fn camera(&self) -> Camera {
        self.camera
    }

    /// The pointer is at (x, y) pixels of a window of this height; true if the camera moved.
    pub(super) fn moved(&mut self, x: f64, y: f64, height: f64) -> bool {
        let last = self.last.replace((x, y));
        let Some((from_x, from_y)) = last else {
            return false;
        };
        let (dx, dy) = (
            (x - from_x) / height.max(1.0),
            (y - from_y) / height.max(1.0),
        );
        if self.turning {
            self.turn(dx, dy);
        } else if self.panning {
            self.pan(dx, dy);
        }
        self.turning || self.panning
    }

    /// Positive pixels come nearer.
    pub(super) fn zoom(&mut self, pixels: f64) {
        let c = &mut self.camera;
        c.eye = c.at + (c.eye - c.at) * 0.5_f64.powf(pixels / PIXELS_PER_HALVING);
    }

    fn turn(&mut self, dx: f64, dy: f64) {
        let c = &mut self.camera;
        let up = c.up.normalize_or(DVec3::Z);
        let around = DQuat::from_axis_angle(up, -(dx * DEGREES_PER_HEIGHT).to_radians());
        let offset = around * (c.eye - c.at);
        let side = up.cross(offset).normalize_or(DVec3::X);
        let over = DQuat::from_axis_angle(side, -(dy * DEGREES_PER_HEIGHT).to_radians());
        let turned = over * offset;
        let at_pole = turned.normalize_or(DVec3::X).dot(up).abs() > POLE_COSINE;
        c.eye = c.at + if at_pole { offset } else { turned };
    }

    fn pan(&mut self, dx: f64, dy: f64) {
        let c = &mut self.camera;
        let forward = c.at - c.eye;
        let side = forward.cross(c.up).normalize_or(DVec3::X);
        let up = side.cross(forward).normalize_or(DVec3::Z);
        let height = 2.0 * forward.length() * (c.fov_degrees.to_radians() * 0.5).tan();
        let by = (up * dy - side * dx) * height;
        c.eye += by;
        c.at += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> OrbitControl {
        let camera = Camera {
            eye: DVec3::new(0.0, -10.0, 0.0),
            at: DVec3::ZERO,
            up: DVec3::Z,
            fov_degrees: 30.0,
        };
        OrbitControl::new(camera)
    }

    #[test]
    fn a_drag_turns_at_the_same_distance_and_a_move_without_button_does_not() {
        let mut c = control();
        assert!(!c.moved(0.0, 0.0, 100.0) && !c.moved(10.0, 0.0, 100.0));
        c.turning = true;
        assert!(c.moved(60.0, 20.0, 100.0));
        let eye = c.camera().eye;
        assert!(
            (eye.length() - 10.0).abs() < 1e-9 && eye.z > 1.0 && eye.x < -1.0,
            "{eye}"
        );
    }

    #[test]
    fn dragging_to_the_pole_stops_before_it() {
        let mut c = control();
        c.turning = true;
        for y in 0..400 {
            c.moved(0.0, f64::from(y) * 10.0, 100.0);
        }
        assert!(c.camera().view(10, 10).is_ok());
    }

    #[test]
    fn zoom_halves_the_distance_and_panning_moves_target_and_eye_alike() {
        let mut c = control();
        c.zoom(PIXELS_PER_HALVING);
        assert!((c.camera().eye.length() - 5.0).abs() < 1e-9);
        c.panning = true;
        c.moved(0.0, 0.0, 100.0);
        c.moved(10.0, 0.0, 100.0);
        assert!(c.camera().at.x < -0.1);
    }
}

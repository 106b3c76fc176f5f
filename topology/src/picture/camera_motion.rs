//! How a camera moves with a hand: turning, rolling, panning, coming nearer, looking along an axis.
//!
//! Space: world. Points of the picture are in half heights from its middle, x right, y up: what is under
//! the hand stays under it, whatever the window's size. Motions do not add up errors: `up` stays at
//! right angles to the view, and no direction is special, also not the poles.

use crate::picture::camera::Camera;
use glam::{DQuat, DVec3};

/// Radius of the trackball in half heights of the picture.
const BALL_RADIUS: f64 = 0.8;
/// Degrees that a drag across the picture's height turns a turntable.
const DEGREES_PER_HEIGHT: f64 = 180.0;

/// The directions of a picture: to the right, up, and from the eye to what is looked at.
#[derive(Clone, Copy, Debug)]
struct Axes {
    right: DVec3,
    up: DVec3,
    forward: DVec3,
}

impl Axes {
    fn of(camera: &Camera) -> Self {
        let forward = (camera.at - camera.eye).normalize_or(DVec3::Y);
        let aside = forward.any_orthonormal_vector();
        let right = forward.cross(camera.up).normalize_or(aside);
        Self {
            right,
            up: right.cross(forward),
            forward,
        }
    }

    fn to_world(self, v: DVec3) -> DVec3 {
        self.right * v.x + self.up * v.y - self.forward * v.z
    }
}

impl Camera {
    /// Half of the picture's height at the distance of what is looked at, world units.
    fn half_height(&self) -> f64 {
        (self.at - self.eye).length() * (self.fov_degrees.to_radians() * 0.5).tan()
    }

    fn turned_by(&self, turn: DQuat) -> Self {
        Self {
            eye: self.at + turn * (self.eye - self.at),
            up: turn * Axes::of(self).up,
            ..*self
        }
    }

    /// Turned around what is looked at as if a ball in the middle of the picture had been dragged from
    /// one point to another.
    ///
    /// Source: Shoemake, "ARCBALL", Graphics Interface 1992; outside of the ball Bell's hyperbola, so that
    /// a drag there turns on.
    #[must_use]
    pub fn dragged_as_ball(&self, from: [f64; 2], to: [f64; 2]) -> Self {
        let axes = Axes::of(self);
        let [from, to] = [from, to].map(|p| axes.to_world(on_ball(p)));
        // The ball turns one way, the eye around it the other.
        self.turned_by(DQuat::from_rotation_arc(to, from))
    }

    /// Turned as a turntable whose axis points to `axis`: sideways around it, up and down over it, as far
    /// as one likes. The drag is in half heights.
    #[must_use]
    pub fn dragged_as_turntable(&self, axis: DVec3, drag: [f64; 2]) -> Self {
        let axes = Axes::of(self);
        let axis = axis.normalize_or(DVec3::Z);
        // Seen from below the front of the table still follows the hand.
        let side = if axes.up.dot(axis) < 0.0 { -1.0 } else { 1.0 };
        let radians = drag.map(|d| (d * 0.5 * DEGREES_PER_HEIGHT).to_radians());
        let around = DQuat::from_axis_angle(axis, -radians[0] * side);
        let over = DQuat::from_axis_angle(axes.right, radians[1]);
        self.turned_by(around * over)
    }

    /// Moved with what is looked at, so that this follows the hand; the drag is in half heights.
    #[must_use]
    pub fn panned(&self, drag: [f64; 2]) -> Self {
        let axes = Axes::of(self);
        let by = (axes.right * drag[0] + axes.up * drag[1]) * -self.half_height();
        Self {
            eye: self.eye + by,
            at: self.at + by,
            ..*self
        }
    }

    /// `factor` times as near (2: half the distance); what is under the point stays there.
    #[must_use]
    pub fn zoomed(&self, factor: f64, under: [f64; 2]) -> Self {
        let axes = Axes::of(self);
        let fixed = self.at + (axes.right * under[0] + axes.up * under[1]) * self.half_height();
        let nearer = |p: DVec3| fixed + (p - fixed) / factor;
        let zoomed = Self {
            eye: nearer(self.eye),
            at: nearer(self.at),
            ..*self
        };
        // As far as numbers tell eye and target apart.
        if zoomed.view(1, 1).is_ok() && zoomed.half_height() > zoomed.at.length() * 1e-12 {
            zoomed
        } else {
            *self
        }
    }

    /// Rolled around the direction of view, so that the picture turns counter-clockwise.
    #[must_use]
    pub fn rolled(&self, degrees: f64) -> Self {
        let axes = Axes::of(self);
        let roll = DQuat::from_axis_angle(axes.forward, degrees.to_radians());
        Self {
            up: roll * axes.up,
            ..*self
        }
    }

    /// Looks at `point` from the same direction and distance: the new centre of turning.
    #[must_use]
    pub fn centred_on(&self, point: DVec3) -> Self {
        Self {
            eye: point + (self.eye - self.at),
            at: point,
            ..*self
        }
    }

    /// Looks at the same from where `from` points, with this up, from the same distance.
    #[must_use]
    pub fn seen_from(&self, from: DVec3, up: DVec3) -> Self {
        let distance = (self.eye - self.at).length();
        Self {
            eye: self.at + from.normalize_or(DVec3::X) * distance,
            up,
            ..*self
        }
    }
}

/// The point of the ball under a point of the picture; z points to the eye.
fn on_ball([x, y]: [f64; 2]) -> DVec3 {
    let beside = x * x + y * y;
    let radius = BALL_RADIUS * BALL_RADIUS;
    let z = if beside <= radius * 0.5 {
        (radius - beside).sqrt()
    } else {
        radius * 0.5 / beside.sqrt()
    };
    DVec3::new(x, y, z).normalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera() -> Camera {
        Camera {
            eye: DVec3::new(3.0, -10.0, 2.0),
            at: DVec3::new(3.0, 0.0, 2.0),
            up: DVec3::Z,
            fov_degrees: 30.0,
            projection: crate::picture::camera::Projection::Perspective,
        }
    }

    /// Where a point of the world lies in a picture of 200×200, in half heights.
    fn seen_at(camera: &Camera, point: DVec3) -> [f64; 2] {
        let [x, y] = camera.view(200, 200).unwrap().pixel_of(point).unwrap();
        [x / 100.0 - 1.0, 1.0 - y / 100.0]
    }

    fn is_at(camera: &Camera, point: DVec3, expected: [f64; 2]) {
        let found = seen_at(camera, point);
        let off = (found[0] - expected[0]).hypot(found[1] - expected[1]);
        assert!(off < 1e-9, "{found:?} in place of {expected:?}");
    }

    fn is_as_far(one: &Camera, other: &Camera) {
        let distance = |c: &Camera| (c.eye - c.at).length();
        assert!((distance(one) - distance(other)).abs() < 1e-9);
    }

    #[test]
    fn what_is_panned_or_zoomed_to_stays_under_the_hand() {
        let c = camera();
        let point = c.at + DVec3::new(0.7, 0.0, 0.4);
        let [x, y] = seen_at(&c, point);
        is_at(&c.panned([0.3, -0.2]), point, [x + 0.3, y - 0.2]);
        for factor in [2.0, 0.25] {
            is_at(&c.zoomed(factor, [x, y]), point, [x, y]);
            is_at(&c.zoomed(factor, [0.0; 2]), c.at, [0.0; 2]);
        }
        assert_eq!(c.zoomed(f64::INFINITY, [0.1, 0.0]), c, "nobody gets lost");
    }

    #[test]
    fn the_front_follows_the_hand_right_and_up_on_ball_and_turntable() {
        let c = camera();
        let front = c.at - DVec3::Y;
        let ball = c.dragged_as_ball([0.0; 2], [0.1, 0.05]);
        let table = c.dragged_as_turntable(DVec3::Z, [0.1, 0.05]);
        for turned in [ball, table] {
            let [x, y] = seen_at(&turned, front);
            assert!(x > 0.01 && y > 0.005, "{x} {y}");
            is_as_far(&turned, &c);
        }
        // From below, too.
        let below = c.dragged_as_turntable(DVec3::Z, [0.0, 1.5]);
        let front = below.at + (below.eye - below.at).normalize();
        let [x, _] = seen_at(&below.dragged_as_turntable(DVec3::Z, [0.1, 0.0]), front);
        assert!(x > 0.01, "{x}");
    }

    #[test]
    fn nothing_stops_at_the_poles_and_a_whole_turn_is_none() {
        let c = camera();
        let mut turned = c;
        for step in 0..400 {
            turned = turned.dragged_as_turntable(DVec3::Z, [0.0, 0.01]);
            assert!(turned.view(10, 10).is_ok(), "step {step}");
        }
        // Four half heights are 360 degrees.
        assert!((turned.eye - c.eye).length() < 1e-6 && (turned.up - DVec3::Z).length() < 1e-6);
        let over = c.dragged_as_turntable(DVec3::Z, [0.0, 1.5]);
        assert!(
            over.up.z < 0.0,
            "past the pole the table stands on its head"
        );
    }

    #[test]
    fn a_ball_that_is_dragged_back_is_as_before_and_a_drag_around_it_rolls() {
        let c = camera();
        let there = c.dragged_as_ball([0.1, 0.2], [-0.3, 0.5]);
        let back = there.dragged_as_ball([-0.3, 0.5], [0.1, 0.2]);
        assert!((back.eye - c.eye).length() < 1e-9 && (back.up - DVec3::Z).length() < 1e-9);
        let rim = c.dragged_as_ball([9.0, 0.0], [0.0, 9.0]);
        assert!((rim.eye - c.eye).length() < 1.0 && rim.up.z.abs() < 0.1);
    }

    #[test]
    fn rolled_centred_and_seen_along_an_axis() {
        let c = camera();
        let right = c.at + DVec3::X;
        let [x, y] = seen_at(&c.rolled(90.0), right);
        assert!(
            x.abs() < 1e-9 && y > 0.1,
            "{x} {y}: the picture turns the other way"
        );
        is_at(&c.centred_on(right), right, [0.0; 2]);
        is_as_far(&c.centred_on(right), &c);
        let above = c.seen_from(DVec3::Z, DVec3::Y);
        is_as_far(&above, &c);
        let [x, y] = seen_at(&above, c.at + DVec3::Y);
        assert!(x.abs() < 1e-9 && y > 0.1);
    }
}

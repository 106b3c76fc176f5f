//! The random walk of camera and focal point through which the paper's numbers are averages.
//!
//! Space: grid, in voxels; the world is the grid. Only +, −, ·, /, √: the same seed gives the same
//! path on every machine.
//!
//! Source: Frey, Ertl 2011, section 6, "Camera Path": five random candidates a step, the one
//! farthest from all positions visited so far; steps that leave the bounds are ignored, and when
//! none is left new candidates are drawn. The paper gives neither the bounds, nor the largest
//! step, nor the field of view: they are parameters here.

use brickmesh_topology::{View, base::seeded::Seeded};
use glam::DVec3;

/// Candidates drawn for a step.
const CANDIDATES: usize = 5;
/// Sets of candidates drawn for a step at most; then the walk stays where it is.
const SETS_MAX: usize = 1000;
/// Fractions of a draw.
const DRAW_STEPS: u64 = 1 << 40;

/// What bounds a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkBounds {
    /// Edge of the cubic volume, voxels.
    pub(super) edge: f64,
    /// Farthest the camera may be from the volume's centre, in diagonals of the volume.
    pub(super) distance_max: f64,
    /// Longest step, in diagonals.
    pub(super) step_max: f64,
}

/// Where the camera is and what it looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pose {
    pub(super) eye: DVec3,
    pub(super) at: DVec3,
}

impl Pose {
    /// The rays of a square picture; `tangent` is that of half the field of view.
    pub(super) fn view(&self, tangent: f64, pixels: u32) -> View {
        let forward = (self.at - self.eye).normalize();
        // Up is z, unless the camera looks along it.
        let up = if forward.z.abs() > 0.99 {
            DVec3::Y
        } else {
            DVec3::Z
        };
        let side = forward.cross(up).normalize();
        View {
            eye: self.eye,
            forward,
            right: side * tangent,
            down: forward.cross(side) * tangent,
            width: pixels,
            height: pixels,
            first: [0; 2],
            parallel: None,
        }
    }
}

/// `frames` poses of a walk.
pub(super) fn walk(bounds: &WalkBounds, frames: usize, seed: u64) -> Vec<Pose> {
    let mut draws = Seeded::new(seed);
    let edge = bounds.edge;
    let center = DVec3::splat(0.5 * edge);
    let diagonal = edge * 3.0_f64.sqrt();
    let step_max = bounds.step_max * diagonal;
    let distance_max = bounds.distance_max * diagonal;
    let inside = |p: DVec3| p.cmpge(DVec3::ZERO).all() && p.cmple(DVec3::splat(edge)).all();
    let eye_may = |p: DVec3| p.distance(center) <= distance_max && !inside(p);
    // Starts in front of a face, as near to the bound as to the volume.
    let start = center - DVec3::Y * 0.5 * (0.5 * edge + distance_max);
    let (mut eyes, mut ats) = (vec![start], vec![center]);
    while eyes.len() < frames {
        eyes.push(next(&eyes, step_max, &mut draws, eye_may));
        ats.push(next(&ats, step_max, &mut draws, inside));
    }
    eyes.truncate(frames);
    let poses = eyes.into_iter().zip(ats);
    poses.map(|(eye, at)| Pose { eye, at }).collect()
}

/// The next position: of the candidates that may be, the one farthest from any visited one.
fn next(
    visited: &[DVec3],
    step_max: f64,
    draws: &mut Seeded,
    may: impl Fn(DVec3) -> bool,
) -> DVec3 {
    let here = visited[visited.len() - 1];
    for _ in 0..SETS_MAX {
        let candidates: [DVec3; CANDIDATES] =
            std::array::from_fn(|_| here + direction(draws) * (step_max * unit(draws)));
        let nearest = |p: DVec3| {
            let squares = visited.iter().map(|v| v.distance_squared(p));
            squares.fold(f64::INFINITY, f64::min)
        };
        let valid = candidates.into_iter().filter(|&p| may(p));
        let weighed = valid.map(|p| (nearest(p), p));
        if let Some((_, best)) = weighed.reduce(|a, b| if b.0 > a.0 { b } else { a }) {
            return best;
        }
    }
    here
}

/// An even draw from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "below 2^40")]
fn unit(draws: &mut Seeded) -> f64 {
    draws.below(DRAW_STEPS) as f64 / DRAW_STEPS as f64
}

/// A unit vector, every direction equally likely.
fn direction(draws: &mut Seeded) -> DVec3 {
    loop {
        let v = DVec3::new(unit(draws), unit(draws), unit(draws)) * 2.0 - 1.0;
        let square = v.length_squared();
        if (1e-4..=1.0).contains(&square) {
            return v / square.sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_keeps_its_bounds_and_its_seed() {
        let bounds = WalkBounds {
            edge: 1024.0,
            distance_max: 0.8,
            step_max: 0.02,
        };
        let poses = walk(&bounds, 400, 1);
        let diagonal = 1024.0 * 3.0_f64.sqrt();
        let inside = |p: DVec3| p.min_element() >= 0.0 && p.max_element() <= 1024.0;
        for p in &poses {
            assert!(p.eye.distance(DVec3::splat(512.0)) <= 0.8 * diagonal && !inside(p.eye));
            assert!(inside(p.at));
        }
        for two in poses.windows(2) {
            assert!(two[0].eye.distance(two[1].eye) <= 0.02 * diagonal + 1e-9);
            assert!(two[0].at.distance(two[1].at) <= 0.02 * diagonal + 1e-9);
        }
        assert_eq!(poses, walk(&bounds, 400, 1));
        assert_ne!(poses, walk(&bounds, 400, 2));
    }
}

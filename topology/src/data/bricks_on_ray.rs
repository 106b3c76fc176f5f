//! The bricks on a ray's way, near ones first.
//!
//! Space: grid. Source: Amanatides, Woo, "A fast voxel traversal algorithm for ray tracing", Eurographics 1987.
//! Invariant: a point belongs to the brick that owns the samples there: borders to the one above them.

use super::brick_grid::{BrickGrid, BrickIndex};
use glam::DVec3;

/// See the module.
#[derive(Clone, Debug)]
pub struct BricksOnRay<'a> {
    grid: &'a BrickGrid,
    counts: [i64; 3],
    /// Place of the brick that the ray is in.
    at: [i64; 3],
    /// Which way it goes on each axis; 0 where it does not.
    steps: [i64; 3],
    /// Where it leaves that brick on each axis, and how far it is through one.
    exits: [f64; 3],
    through: [f64; 3],
    enters: f64,
    end: f64,
}

impl BrickGrid {
    /// The bricks that a ray goes through until `reach`, each with where it is entered; in lengths of `direction` from `start`.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and is clamped to the grid"
    )]
    pub fn on_ray(&self, start: DVec3, direction: DVec3, reach: f64) -> BricksOnRay<'_> {
        let (edge, dims) = (f64::from(self.edge()), self.dims());
        let counts = self.counts().map(i64::from);
        let [mut enters, mut end] = [0.0_f64, reach];
        for a in 0..3 {
            let [low, high] = match dims[a] {
                1 => [-0.5, 0.5],
                n => [0.0, f64::from(n - 1)],
            };
            let to = [low, high].map(|plane| (plane - start[a]) / direction[a]);
            if direction[a] != 0.0 {
                enters = enters.max(to[0].min(to[1]));
                end = end.min(to[0].max(to[1]));
            } else if !(low..=high).contains(&start[a]) {
                end = f64::NEG_INFINITY;
            }
        }
        let first = start + direction * enters.min(end.max(0.0));
        let at: [i64; 3] =
            std::array::from_fn(|a| ((first[a] / edge).floor() as i64).clamp(0, counts[a] - 1));
        let steps: [i64; 3] = direction.to_array().map(|d| {
            if d == 0.0 {
                0
            } else {
                1 - 2 * i64::from(d < 0.0)
            }
        });
        let exit = |a: usize| {
            let plane = (at[a] + steps[a].max(0)) as f64 * edge;
            (plane - start[a]) / direction[a]
        };
        let or_never = |a: usize, of: &dyn Fn(usize) -> f64| {
            if steps[a] == 0 { f64::INFINITY } else { of(a) }
        };
        BricksOnRay {
            grid: self,
            counts,
            at,
            steps,
            exits: std::array::from_fn(|a| or_never(a, &exit)),
            through: std::array::from_fn(|a| or_never(a, &|a| edge / direction[a].abs())),
            enters,
            end,
        }
    }
}

impl Iterator for BricksOnRay<'_> {
    type Item = (BrickIndex, f64);

    fn next(&mut self) -> Option<Self::Item> {
        // What is no number is nowhere.
        let is_on_way = self.enters <= self.end;
        if !is_on_way {
            return None;
        }
        let here = self.at.map(|i| u32::try_from(i).unwrap_or(u32::MAX));
        let brick = self.grid.index(here)?;
        let enters = self.enters;
        let axis = (0..3)
            .min_by(|&a, &b| self.exits[a].total_cmp(&self.exits[b]))
            .unwrap_or(0);
        self.enters = self.exits[axis].max(enters);
        self.exits[axis] += self.through[axis];
        self.at[axis] += self.steps[axis];
        if self.steps[axis] == 0 || !(0..self.counts[axis]).contains(&self.at[axis]) {
            self.end = f64::NEG_INFINITY;
        }
        Some((brick, enters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small numbers that are not negative"
        )]
        fn every_point_of_the_field_on_a_ray_is_in_a_brick_of_its_way_in_order(
            dims in prop::array::uniform3(1u32..50), edge in 4u32..12,
            start in prop::array::uniform3(-20.0..60.0_f64),
            direction in prop::array::uniform3(prop_oneof![-1.0..1.0_f64, Just(0.0), Just(-1.0)]),
            reach in prop_oneof![0.0..80.0_f64, Just(f64::INFINITY)],
        ) {
            let grid = BrickGrid::new(dims, edge).unwrap();
            let (start, direction) = (DVec3::from_array(start), DVec3::from_array(direction));
            let way: Vec<_> = grid.on_ray(start, direction, reach).collect();
            prop_assert!(way.windows(2).all(|w| w[0].1 <= w[1].1 && w[0].0 != w[1].0));
            let counts = grid.counts();
            prop_assert!(way.len() <= counts.iter().sum::<u32>() as usize);
            let mut seen = Vec::new();
            for n in 0..4000 {
                let t = f64::from(n) * 0.05;
                let p = start + direction * t;
                let inside = |a: usize| match dims[a] {
                    1 => p[a].abs() <= 0.5,
                    n => (0.0..=f64::from(n - 1)).contains(&p[a]),
                };
                if t > reach || !(0..3).all(inside) {
                    continue;
                }
                let place = std::array::from_fn(|a| {
                    ((p[a].max(0.0) / f64::from(edge)) as u32).min(counts[a] - 1)
                });
                let brick = grid.index(place).unwrap();
                let near = |n: f64| (n / f64::from(edge)).fract().min(1.0 - (n / f64::from(edge)).fract()) < 1e-9;
                if seen.last() != Some(&brick) && !p.to_array().into_iter().any(near) {
                    seen.push(brick);
                }
            }
            let mut on_way = way.iter().map(|w| w.0);
            for brick in seen {
                prop_assert!(on_way.any(|b| b == brick), "{brick:?} of {way:?}");
            }
        }
    }
}

//! Isosurfaces along a ray: the cells that it passes, and where the field in each has a value.
//!
//! Along a ray the field in a cell is a cubic polynomial (Parker et al., "Interactive ray tracing for isosurface
//! rendering", Visualization 1998). Its extrema part the way through the cell, so that each piece has one root at most
//! (Marmitt et al., "Fast and accurate ray-voxel intersection techniques for iso-surface ray tracing", VMV 2004).
//! Whether a piece has one is decided by the field at its ends; where these are on faces, that follows from the face
//! alone: whichever cell or job asks, a root near a face belongs to one of both cells, and is not lost.
//!
//! Space: grid; distances along rays in world units. A cell is named after its first voxel; a job owns those whose
//! first voxel is in its box.

use super::{
    field::{CELL_EDGE, CELL_SHIFT, Field},
    ray::ExactRay,
    voxel::StoredVoxel,
};
use crate::scene::Scene;
use brickmesh_topology::{
    data::voxel_numbers::NO_DATA_MIN,
    picture::isosurface::{ISOSURFACES_MAX, Isosurface},
};
use std::marker::PhantomData;

/// Roots of all surfaces in a cell, at most.
const HITS_MAX: usize = 3 * ISOSURFACES_MAX;
/// A root is known to such a part of the way through its cell.
const ROOT_PART: f64 = 1e-7;
/// Steps to a root, at most: half of them halve what is left.
const ROOT_STEPS: usize = 48;

/// An isosurface, as kernels know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surface {
    /// Number of voxels on it.
    pub(super) number: f64,
    /// Premultiplied linear RGBA, not lit.
    pub(super) color: [f32; 4],
}

impl Surface {
    /// Those of a scene.
    pub(super) fn of(scene: &Scene) -> Vec<Self> {
        let numbers = scene.surface_numbers();
        let of = |(number, surface): (f64, &Isosurface)| Self {
            number,
            color: surface.premultiplied(),
        };
        numbers.zip(scene.settings.surfaces()).map(of).collect()
    }
}

/// Where a ray meets a surface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Hit {
    /// World units from where the ray begins.
    pub(super) at: f64,
    /// Which of the surfaces.
    pub(super) surface: usize,
}

/// The hits of a ray in the cells of a job, near ones first.
pub(super) struct Walk<'a, V> {
    field: &'a Field<'a>,
    /// First and last stored voxel.
    stored: [[i32; 3]; 2],
    surfaces: &'a [Surface],
    eye: [f64; 3],
    direction: [f64; 3],
    inverse: [f64; 3],
    cell: [i32; 3],
    /// Where the ray is, and ends.
    at: f64,
    end: f64,
    /// The field where the ray is; `None`: it is not known yet, or there is no data.
    number: Option<f64>,
    /// The axis whose face the ray is on.
    face: Option<usize>,
    hits: [Hit; HITS_MAX],
    next: usize,
    count: usize,
    voxel: PhantomData<V>,
}

impl<'a, V: StoredVoxel> Walk<'a, V> {
    /// Of a ray that ends at a distance, and begins at one that is not negative.
    pub(super) fn new(
        field: &'a Field<'a>,
        surfaces: &'a [Surface],
        ray: &ExactRay,
        [from, to]: [f64; 2],
    ) -> Self {
        let mut walk = Self {
            field,
            stored: field.stored(),
            surfaces,
            eye: ray.eye,
            direction: ray.direction,
            inverse: ray.direction.map(|d| 1.0 / d),
            cell: field.cells[0],
            at: from,
            end: to,
            number: None,
            face: None,
            hits: [Hit::default(); HITS_MAX],
            next: 0,
            count: 0,
            voxel: PhantomData,
        };
        walk.enter();
        walk
    }

    /// Goes to the first cell, or to the end.
    fn enter(&mut self) {
        let [lo, hi] = self.field.cells;
        for a in 0..3 {
            if lo[a] >= hi[a] {
                self.end = f64::NEG_INFINITY;
            } else if self.direction[a] == 0.0 {
                let here = self.eye[a] - self.field.face_offset(a);
                if !(f64::from(lo[a]) <= here && here < f64::from(hi[a])) {
                    self.end = f64::NEG_INFINITY;
                }
            } else {
                let is_up = self.direction[a] > 0.0;
                let (near, far) = if is_up {
                    (lo[a], hi[a])
                } else {
                    (hi[a], lo[a])
                };
                let enters = self.distance(a, near);
                if enters > self.at {
                    (self.at, self.face) = (enters, Some(a));
                }
                self.end = self.end.min(self.distance(a, far));
            }
        }
        if self.at < self.end {
            self.place([lo, hi]);
        }
    }

    /// How far the face before cell `plane` of an axis is.
    fn distance(&self, axis: usize, plane: i32) -> f64 {
        (f64::from(plane) + self.field.face_offset(axis) - self.eye[axis]) * self.inverse[axis]
    }

    /// Puts the ray into the cell of `within` that it is in now; on the axis whose face it is on, it is at the border.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "clamped to cells; NaN becomes 0"
    )]
    fn place(&mut self, [lo, hi]: [[i32; 3]; 2]) {
        let p = self.position(self.at);
        for a in 0..3 {
            let here = (p[a] - self.field.face_offset(a)).floor();
            let here = here.max(f64::from(lo[a])).min(f64::from(hi[a] - 1)) as i32;
            self.cell[a] = match self.face {
                Some(axis) if axis == a && self.direction[a] > 0.0 => lo[a],
                Some(axis) if axis == a => hi[a] - 1,
                _ => here,
            };
        }
    }

    fn position(&self, at: f64) -> [f64; 3] {
        std::array::from_fn(|a| at.mul_add(self.direction[a], self.eye[a]))
    }

    /// The next hit before a distance; one is told once.
    pub(super) fn next_before(&mut self, until: f64) -> Option<Hit> {
        loop {
            if self.next < self.count {
                let hit = self.hits[self.next];
                if hit.at >= until {
                    return None;
                }
                self.next += 1;
                return Some(hit);
            }
            // What begins later has no hit before.
            if !(self.at < self.end && self.at < until) {
                return None;
            }
            self.step();
        }
    }

    /// Looks at the cell that the ray is in, and leaves it; leaps where nothing is seen.
    fn step(&mut self) {
        (self.next, self.count) = (0, 0);
        let hidden = self.hidden_around();
        let around = hidden.unwrap_or([self.cell, self.cell.map(|c| c + 1)]);
        let (mut leaves, mut axis) = (self.end, None);
        for a in 0..3 {
            if self.direction[a] != 0.0 {
                let border = around[usize::from(self.direction[a] > 0.0)][a];
                let at = self.distance(a, border);
                // On the border of the job, too: the field there is that of the face.
                if at <= leaves {
                    (leaves, axis) = (at, Some(a));
                }
            }
        }
        // Rounding must not lead back.
        let leaves = leaves.max(self.at);
        if hidden.is_none() {
            self.look(leaves, axis);
        } else {
            self.number = None;
        }
        let Some(axis) = axis else {
            self.at = self.end;
            return;
        };
        let is_up = self.direction[axis] > 0.0;
        let next = if is_up {
            around[1][axis]
        } else {
            around[0][axis] - 1
        };
        let [lo, hi] = self.field.cells;
        if next < lo[axis] || next >= hi[axis] {
            self.at = self.end;
            return;
        }
        (self.at, self.face) = (leaves, Some(axis));
        if hidden.is_some() {
            let mut within = around;
            (within[0][axis], within[1][axis]) = (next, next + 1);
            for a in 0..3 {
                (within[0][a], within[1][a]) = (within[0][a].max(lo[a]), within[1][a].min(hi[a]));
            }
            self.place(within);
        } else {
            self.cell[axis] = next;
        }
    }

    /// The cells around that nothing is seen of; `None`: this one may be seen.
    fn hidden_around(&self) -> Option<[[i32; 3]; 2]> {
        let skip = self.field.skip?;
        let first = self.stored[0];
        let counts = skip.counts().map(u32::cast_signed);
        let at: [i32; 3] = std::array::from_fn(|a| {
            ((self.cell[a] - first[a]) >> CELL_SHIFT).clamp(0, counts[a] - 1)
        });
        let index = (at[2] * counts[1] + at[1]) * counts[0] + at[0];
        let distance = i32::from(skip.distances()[index.cast_unsigned() as usize]);
        let edge = CELL_EDGE.cast_signed();
        (distance > 0).then(|| {
            let by = |end: i32| {
                std::array::from_fn(|a| {
                    let cell = at[a] + if end > 0 { distance } else { 1 - distance };
                    first[a] + cell * edge
                })
            };
            [by(0), by(1)]
        })
    }

    /// Finds the hits from where the ray is to where it leaves the cell, through a face of an axis or at its end.
    fn look(&mut self, leaves: f64, axis: Option<usize>) {
        let corners = self.corners();
        let of_leaving = match axis {
            Some(axis) => self.on_face(axis, leaves, true),
            None => self.inside(&corners, leaves),
        };
        let before = self.number.take().unwrap_or_else(|| match self.face {
            Some(axis) => self.on_face(axis, self.at, false),
            None => self.inside(&corners, self.at),
        });
        let no_data = f64::from(NO_DATA_MIN);
        if corners.iter().any(|c| *c >= no_data) {
            return;
        }
        self.number = Some(of_leaving);
        let low = corners
            .iter()
            .copied()
            .fold(before.min(of_leaving), f64::min);
        let high = corners
            .iter()
            .copied()
            .fold(before.max(of_leaving), f64::max);
        let mut way = None;
        for (at, surface) in self.surfaces.iter().enumerate() {
            if !(low <= surface.number && surface.number <= high) {
                continue;
            }
            let way = way.get_or_insert_with(|| {
                Cubic::through(&corners, self.local(self.at), self.local(leaves))
            });
            let ends = [before - surface.number, of_leaving - surface.number];
            for part in way.roots(surface.number, ends).into_iter().flatten() {
                self.hits[self.count] = Hit {
                    at: self.at + part * (leaves - self.at),
                    surface: at,
                };
                self.count += 1;
            }
        }
        self.hits[..self.count].sort_by(|a, b| a.at.total_cmp(&b.at));
    }

    /// Where the ray is in its cell, 0 to 1.
    fn local(&self, at: f64) -> [f64; 3] {
        let p = self.position(at);
        std::array::from_fn(|a| {
            let q = p[a] - self.field.face_offset(a) - f64::from(self.cell[a]);
            q.clamp(0.0, 1.0)
        })
    }

    /// Where the voxels at both ends of the cell are stored on an axis; of one that is not, the nearest.
    fn ends(&self, axis: usize) -> [usize; 2] {
        let [first, last] = self.stored.map(|end| end[axis]);
        let cell = self.cell[axis];
        [cell, cell + 1].map(|at| {
            let from_first = at.clamp(first, last) - first;
            from_first.cast_unsigned() as usize * self.field.stride[axis]
        })
    }

    fn number_at(&self, index: usize) -> f64 {
        f64::from(V::read(&self.field.bytes[index * V::BYTES..]).number(&self.field.numbers))
    }

    /// The numbers at the corners of the cell, x fastest.
    fn corners(&self) -> [f64; 8] {
        let [x, y, z] = [0, 1, 2].map(|a| self.ends(a));
        std::array::from_fn(|c| self.number_at(x[c & 1] + y[c >> 1 & 1] + z[c >> 2]))
    }

    /// The field in the cell.
    fn inside(&self, corners: &[f64; 8], at: f64) -> f64 {
        let [x, y, z] = self.local(at);
        let line = |c: usize| mix(corners[c], corners[c + 1], x);
        mix(mix(line(0), line(2), y), mix(line(4), line(6), y), z)
    }

    /// The field where the ray passes the face of its cell through which it comes or leaves: of the voxels on that face.
    fn on_face(&self, axis: usize, at: f64, leaves: bool) -> f64 {
        let (b, c) = ((axis + 1) % 3, (axis + 2) % 3);
        let is_far = leaves == (self.direction[axis] > 0.0);
        let face = self.ends(axis)[usize::from(is_far)];
        let (ends_b, ends_c) = (self.ends(b), self.ends(c));
        let local = self.local(at);
        let voxel = |at_b: usize, at_c: usize| self.number_at(face + ends_b[at_b] + ends_c[at_c]);
        let line = |at_c: usize| mix(voxel(0, at_c), voxel(1, at_c), local[b]);
        mix(line(0), line(1), local[c])
    }
}

fn mix(a: f64, b: f64, t: f64) -> f64 {
    a + (b - a) * t
}

/// The field on the way through a cell: a polynomial of the part of the way, highest power first.
#[derive(Clone, Copy, Debug)]
struct Cubic([f64; 4]);

impl Cubic {
    /// From one point in a cell to another.
    fn through(corners: &[f64; 8], from: [f64; 3], to: [f64; 3]) -> Self {
        let v = corners;
        // The field as c0 + cx·x + … + cxyz·xyz.
        let (c0, cx, cy, cz) = (v[0], v[1] - v[0], v[2] - v[0], v[4] - v[0]);
        let cxy = v[3] - v[2] - cx;
        let czx = v[5] - v[4] - cx;
        let cyz = v[6] - v[4] - cy;
        let cxyz = v[7] - v[6] - v[5] + v[4] - cxy;
        let [x, y, z] = from;
        let [dx, dy, dz]: [f64; 3] = std::array::from_fn(|a| to[a] - from[a]);
        Self([
            cxyz * dx * dy * dz,
            cxy * dx * dy
                + cyz * dy * dz
                + czx * dz * dx
                + cxyz * (x * dy * dz + y * dz * dx + z * dx * dy),
            cx * dx
                + cy * dy
                + cz * dz
                + cxy * (x * dy + y * dx)
                + cyz * (y * dz + z * dy)
                + czx * (z * dx + x * dz)
                + cxyz * (x * y * dz + y * z * dx + z * x * dy),
            c0 + cx * x
                + cy * y
                + cz * z
                + cxy * x * y
                + cyz * y * z
                + czx * z * x
                + cxyz * x * y * z,
        ])
    }

    fn at(&self, s: f64) -> f64 {
        let [a, b, c, d] = self.0;
        ((a * s + b) * s + c) * s + d
    }

    /// Where it has extrema between 0 and 1, ascending.
    fn extrema(&self) -> [Option<f64>; 2] {
        let [a, b, c, _] = self.0;
        let (a, half_b) = (3.0 * a, b);
        // a s² + 2 half_b s + c = 0, without cancellation.
        let square = half_b * half_b - a * c;
        if square <= 0.0 {
            return [None; 2];
        }
        let q = -(half_b + square.sqrt().copysign(half_b));
        let found = [q / a, c / q].map(|s| (0.0 < s && s < 1.0).then_some(s));
        match found {
            [Some(s), Some(t)] if s > t => [Some(t), Some(s)],
            _ => found,
        }
    }

    /// Where it is `number`, ascending; at 0 and 1 it is above that by `ends`.
    fn roots(&self, number: f64, ends: [f64; 2]) -> [Option<f64>; 3] {
        let [first, second] = self.extrema();
        let mut roots = [None; 3];
        let mut before = (0.0, ends[0]);
        let inner = [first, second].map(|s| s.map(|s| (s, self.at(s) - number)));
        let pieces = inner.into_iter().chain([Some((1.0, ends[1]))]);
        for (root, piece) in roots.iter_mut().zip(pieces) {
            let Some(after) = piece else { continue };
            if (before.1 >= 0.0) != (after.1 >= 0.0) {
                *root = Some(self.root(number, before, after));
            }
            before = after;
        }
        roots
    }

    /// The root between two places on whose sides it differs: by secants that end on either side, and halving.
    fn root(
        &self,
        number: f64,
        (mut a, mut at_a): (f64, f64),
        (mut b, mut at_b): (f64, f64),
    ) -> f64 {
        for step in 0..ROOT_STEPS {
            if b - a <= ROOT_PART {
                break;
            }
            let secant = a + (b - a) * (at_a / (at_a - at_b));
            let s = if step % 2 == 0 && secant.is_finite() {
                secant.clamp(a, b)
            } else {
                0.5 * (a + b)
            };
            let at_s = self.at(s) - number;
            if (at_s >= 0.0) == (at_a >= 0.0) {
                (a, at_a) = (s, at_s);
            } else {
                (b, at_b) = (s, at_s);
            }
            if at_s == 0.0 {
                return s;
            }
        }
        0.5 * (a + b)
    }
}

#[cfg(test)]
mod tests;

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
use brickmesh_topology::{data::voxel_numbers::NO_DATA_MIN, picture::isosurface::Isosurface};
use std::marker::PhantomData;

/// A root is known to such a part of the way through its cell.
const ROOT_PART: f64 = 1e-7;
/// Steps to a root, at most.
const ROOT_STEPS: usize = 48;

/// An isosurface, as kernels know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surface {
    /// Number of voxels on it.
    pub(super) number: f32,
    /// Premultiplied linear RGBA, not lit.
    pub(super) color: [f32; 4],
}

impl Surface {
    /// Those of a scene.
    pub(super) fn of(scene: &Scene) -> Vec<Self> {
        let numbers = scene.surface_numbers();
        let of = |(number, surface): (f32, &Isosurface)| Self {
            number,
            color: surface.premultiplied(),
        };
        numbers.zip(scene.settings.surfaces()).map(of).collect()
    }

    /// Whether it goes through a cell whose voxels have this range.
    fn is_between(&self, [low, high]: [f32; 2]) -> bool {
        low < self.number && self.number <= high
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
    /// How far ahead the next macrocell with a surface is.
    distances: &'a [u8],
    surfaces: &'a [Surface],
    /// Where the ray begins, from where the faces of the first cells are.
    eye: [f64; 3],
    direction: [f64; 3],
    inverse: [f64; 3],
    cell: [i32; 3],
    /// As [`Self::exits_of`] the cell.
    exits: [f64; 3],
    /// Where the ray is, and ends.
    at: f64,
    end: f64,
    /// The field where the ray is; `None`: it is not known yet, or there is no data.
    number: Option<f64>,
    /// The axis whose face the ray is on.
    face: Option<usize>,
    /// The cells with a surface of the macrocell that the ray is in, where it is known; as [`Self::find_cells`].
    seen_cells: Option<u64>,
    /// Those in the cell that was left last.
    hits: Vec<Hit>,
    next: usize,
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
            distances: field.skip_for_surfaces.map_or(&[], |skip| {
                let negative = |a: usize| usize::from(ray.direction[a] < 0.0) << a;
                skip.distances_ahead(negative(0) | negative(1) | negative(2))
            }),
            surfaces,
            eye: std::array::from_fn(|a| ray.eye[a] - field.face_offset(a)),
            direction: ray.direction,
            inverse: ray.direction.map(|d| 1.0 / d),
            cell: std::array::from_fn(|a| {
                let [lo, hi] = field.cells;
                if ray.direction[a] > 0.0 {
                    lo[a]
                } else {
                    hi[a] - 1
                }
            }),
            exits: [f64::INFINITY; 3],
            at: from,
            end: to,
            number: None,
            face: None,
            seen_cells: None,
            hits: Vec::new(),
            next: 0,
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
                if !(f64::from(lo[a]) <= self.eye[a] && self.eye[a] < f64::from(hi[a])) {
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
        (f64::from(plane) - self.eye[axis]) * self.inverse[axis]
    }

    /// Puts the ray into the cell of `within` that it is in now; on the axis whose face it is on, it is at the border.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and is clamped to cells"
    )]
    fn place(&mut self, [lo, hi]: [[i32; 3]; 2]) {
        let p = self.position(self.at);
        for a in 0..3 {
            let whole = p[a] as i32;
            let here = whole - i32::from(p[a] < f64::from(whole));
            let here = here.max(lo[a]).min(hi[a] - 1);
            let is_up = self.direction[a] > 0.0;
            self.cell[a] = match self.face {
                Some(axis) if axis == a => {
                    if is_up {
                        lo[a]
                    } else {
                        hi[a] - 1
                    }
                }
                // Rounding must not lead back.
                _ if is_up => here.max(self.cell[a]),
                _ if self.direction[a] < 0.0 => here.min(self.cell[a]),
                _ => here,
            };
        }
        self.exits = self.exits_of([self.cell, self.cell.map(|c| c + 1)]);
    }

    /// Where the ray is, in cells.
    fn position(&self, at: f64) -> [f64; 3] {
        std::array::from_fn(|a| at * self.direction[a] + self.eye[a])
    }

    /// The next hit before a distance; one is told once.
    pub(super) fn next_before(&mut self, until: f64) -> Option<Hit> {
        loop {
            if let Some(&hit) = self.hits.get(self.next) {
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
        self.hits.clear();
        self.next = 0;
        let hidden = match self.seen_cells {
            Some(_) => None,
            None => self.hidden_around(),
        };
        let exits = hidden.map_or(self.exits, |block| self.exits_of(block));
        let (mut leaves, mut axis) = (self.end, None);
        for (a, exit) in exits.into_iter().enumerate() {
            // On the border of the job, too: the field there is that of the face.
            if exit <= leaves {
                (leaves, axis) = (exit, Some(a));
            }
        }
        // Rounding must not lead back.
        let leaves = leaves.max(self.at);
        if hidden.is_none() && self.has_surface() {
            self.look(leaves, axis);
        } else {
            self.number = None;
        }
        let Some(axis) = axis else {
            self.at = self.end;
            return;
        };
        let is_up = self.direction[axis] > 0.0;
        let [low, high] = hidden.unwrap_or([self.cell, self.cell.map(|c| c + 1)]);
        let next = if is_up { high[axis] } else { low[axis] - 1 };
        let [lo, hi] = self.field.cells;
        if next < lo[axis] || next >= hi[axis] {
            self.at = self.end;
            return;
        }
        (self.at, self.face) = (leaves, Some(axis));
        if hidden.is_some() {
            // No writes to a place that is found while this runs: who reads the whole waits for them.
            let of = |end: i32, bound: fn(i32, i32) -> i32, block: [i32; 3], border: [i32; 3]| {
                std::array::from_fn(|a| {
                    if a == axis {
                        end
                    } else {
                        bound(block[a], border[a])
                    }
                })
            };
            self.place([
                of(next, i32::max, low, lo),
                of(next + 1, i32::min, high, hi),
            ]);
        } else {
            let first = self.stored[0][axis];
            let is_left = (next - first) >> CELL_SHIFT != (self.cell[axis] - first) >> CELL_SHIFT;
            self.seen_cells.take_if(|_| is_left);
            self.cell[axis] = next;
            self.exits[axis] = self.distance(axis, next + i32::from(is_up));
        }
    }

    /// How far the borders of a block of cells are through which the ray may leave it; infinite on an axis that it is not
    /// moving on.
    fn exits_of(&self, [low, high]: [[i32; 3]; 2]) -> [f64; 3] {
        let mut exits = [f64::INFINITY; 3];
        for a in 0..3 {
            if self.direction[a] != 0.0 {
                let is_up = self.direction[a] > 0.0;
                exits[a] = self.distance(a, if is_up { high[a] } else { low[a] });
            }
        }
        exits
    }

    /// Whether a surface may be in the cell.
    fn has_surface(&self) -> bool {
        let inside = |a: usize| (self.cell[a] - self.stored[0][a]) & (CELL_EDGE.cast_signed() - 1);
        let bit = (inside(2) << CELL_SHIFT | inside(1)) << CELL_SHIFT | inside(0);
        self.seen_cells.is_none_or(|seen| seen >> bit & 1 == 1)
    }

    /// The cells ahead that nothing is seen of; `None`: this one may be seen, as far as its macrocell says.
    fn hidden_around(&mut self) -> Option<[[i32; 3]; 2]> {
        let skip = self.field.skip_for_surfaces?;
        let first = self.stored[0];
        let counts = skip.counts().map(u32::cast_signed);
        let at: [i32; 3] = std::array::from_fn(|a| {
            ((self.cell[a] - first[a]) >> CELL_SHIFT).clamp(0, counts[a] - 1)
        });
        let index = (at[2] * counts[1] + at[1]) * counts[0] + at[0];
        let index = index.cast_unsigned() as usize;
        let distance = i32::from(self.distances[index]);
        if distance == 0 {
            self.seen_cells = skip.cells_with_surfaces(index, || self.find_cells(at));
            return None;
        }
        // Behind the ray the borders are not asked for.
        let block = [1 - distance, distance];
        let border =
            |end: i32| std::array::from_fn(|a| first[a] + (at[a] + end) * CELL_EDGE.cast_signed());
        Some(block.map(border))
    }

    /// Which cells of a macrocell may have a surface: bits, x fastest.
    fn find_cells(&self, macrocell: [i32; 3]) -> u64 {
        const CELLS: usize = CELL_EDGE as usize;
        let index = |a: usize, n: usize| {
            let last = self.field.size[a] - 1;
            let from_first = macrocell[a].cast_unsigned() as usize * CELLS + n;
            from_first.min(last) * self.field.stride[a]
        };
        let of_axis = |a| -> [usize; CELLS + 1] { std::array::from_fn(|n| index(a, n)) };
        let [of_x, of_y, of_z] = [0, 1, 2].map(of_axis);
        // Ranges of the edges along x, of the faces across z, and of the cells, each of the ones before.
        let edges = of_z.map(|z| {
            of_y.map(|y| {
                let voxels = of_x.map(|x| self.number_at(x + y + z));
                let voxels = voxels.map(|number| [number; 2]);
                pairs::<CELLS>(&voxels)
            })
        });
        let faces = edges
            .map(|of_z| -> [_; CELLS] { std::array::from_fn(|y| joined(&of_z[y], &of_z[y + 1])) });
        let layers = faces.windows(2).flat_map(|z| z[0].iter().zip(&z[1]));
        let ranges = layers.flat_map(|(below, above)| joined(below, above));
        let is_seen = |range: Range| {
            range[1] < NO_DATA_MIN && self.surfaces.iter().any(|s| s.is_between(range))
        };
        let cells = ranges.enumerate();
        cells.fold(0, |cells, (n, range)| {
            cells | u64::from(is_seen(range)) << n
        })
    }

    /// Finds the hits from where the ray is to where it leaves the cell, through a face of an axis or at its end.
    fn look(&mut self, leaves: f64, axis: Option<usize>) {
        let before = self.number.take();
        let numbers = self.corners();
        // No calls of `min` and `max`, which look for what is no number.
        let (mut low, mut high) = (numbers[0], numbers[0]);
        for &number in &numbers[1..] {
            low = if number < low { number } else { low };
            high = if number > high { number } else { high };
        }
        let is_inside = |surface: &Surface| surface.is_between([low, high]);
        if high >= NO_DATA_MIN || !self.surfaces.iter().any(is_inside) {
            return;
        }
        let corners = numbers.map(f64::from);
        let after = match axis {
            Some(axis) => self.on_face(&corners, axis, leaves, true),
            None => self.inside(&corners, leaves),
        };
        let before = before.unwrap_or_else(|| match self.face {
            Some(axis) => self.on_face(&corners, axis, self.at, false),
            None => self.inside(&corners, self.at),
        });
        self.number = Some(after);
        let way = Cubic::through(&corners, self.local(self.at), self.local(leaves));
        for (at, surface) in self.surfaces.iter().enumerate() {
            if !is_inside(surface) {
                continue;
            }
            let number = f64::from(surface.number);
            let ends = [before - number, after - number];
            for part in way.roots(number, ends).into_iter().flatten() {
                self.hits.push(Hit {
                    at: self.at + part * (leaves - self.at),
                    surface: at,
                });
            }
        }
        self.hits.sort_by(|a, b| a.at.total_cmp(&b.at));
    }

    /// Where the ray is in its cell, 0 to 1.
    fn local(&self, at: f64) -> [f64; 3] {
        let p = self.position(at);
        std::array::from_fn(|a| (p[a] - f64::from(self.cell[a])).clamp(0.0, 1.0))
    }

    /// Where the voxels at both ends of the cell are stored on an axis; of one that is not, the nearest.
    #[inline(always)]
    fn ends(&self, axis: usize) -> [usize; 2] {
        let (first, last) = (self.stored[0][axis], self.stored[1][axis]);
        let index = |at: i32| {
            let from_first = at.max(first).min(last) - first;
            from_first.cast_unsigned() as usize * self.field.stride[axis]
        };
        [index(self.cell[axis]), index(self.cell[axis] + 1)]
    }

    #[inline(always)]
    fn number_at(&self, index: usize) -> f32 {
        V::read(&self.field.bytes[index * V::BYTES..]).number(&self.field.numbers)
    }

    /// The numbers at the corners of the cell, x fastest.
    #[inline(always)]
    fn corners(&self) -> [f32; 8] {
        let (x, y, z) = (self.ends(0), self.ends(1), self.ends(2));
        let mut corners = [0.0; 8];
        for (c, corner) in corners.iter_mut().enumerate() {
            *corner = self.number_at(x[c & 1] + y[c >> 1 & 1] + z[c >> 2]);
        }
        corners
    }

    /// The field in the cell.
    fn inside(&self, corners: &[f64; 8], at: f64) -> f64 {
        let [x, y, z] = self.local(at);
        let line = |c: usize| mix(corners[c], corners[c + 1], x);
        mix(mix(line(0), line(2), y), mix(line(4), line(6), y), z)
    }

    /// The field where the ray passes the face of its cell through which it comes or leaves: of the voxels on that face alone.
    fn on_face(&self, corners: &[f64; 8], axis: usize, at: f64, leaves: bool) -> f64 {
        let (b, c) = ((axis + 1) % 3, (axis + 2) % 3);
        let is_far = leaves == (self.direction[axis] > 0.0);
        let face = usize::from(is_far) << axis;
        let local = self.local(at);
        let line = |from: usize| mix(corners[from], corners[from + (1 << b)], local[b]);
        mix(line(face), line(face + (1 << c)), local[c])
    }
}

/// A range of voxels.
type Range = [f32; 2];

/// The ranges of neighbours.
fn pairs<const PAIRS: usize>(of: &[Range]) -> [Range; PAIRS] {
    std::array::from_fn(|n| joined(&[of[n]], &[of[n + 1]])[0])
}

/// The ranges that hold both of each.
fn joined<const N: usize>(a: &[Range; N], b: &[Range; N]) -> [Range; N] {
    std::array::from_fn(|n| {
        let ([low, high], [low_b, high_b]) = (a[n], b[n]);
        // No calls of `min` and `max`, which look for what is no number.
        [
            if low_b < low { low_b } else { low },
            if high_b > high { high_b } else { high },
        ]
    })
}

/// Between the two, for all roundings: what a face has, its corners have around it.
fn mix(a: f64, b: f64, t: f64) -> f64 {
    // No calls of `min` and `max`, which look for what is no number.
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    let between = a + (b - a) * t;
    let between = if between < low { low } else { between };
    if between > high { high } else { between }
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
        let is_above = ends.map(|end| end >= 0.0);
        let inner = self.control(number).map(|value| value >= 0.0);
        if is_above[0] == is_above[1] && inner == is_above {
            return [None; 3];
        }
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

    /// How far its inner Bézier ordinates are above a number: between the least and the greatest of all four, it stays.
    fn control(&self, number: f64) -> [f64; 2] {
        let [_, b, c, d] = self.0;
        let first = d - number + c / 3.0;
        [first, first + (b + c) / 3.0]
    }

    fn slope(&self, s: f64) -> f64 {
        let [a, b, c, _] = self.0;
        (3.0 * a * s + 2.0 * b) * s + c
    }

    /// The root between two places on whose sides it differs: by tangents that end between them, else by halving.
    fn root(&self, number: f64, (mut a, at_a): (f64, f64), (mut b, at_b): (f64, f64)) -> f64 {
        let is_above = at_a >= 0.0;
        let secant = a + (b - a) * (at_a / (at_a - at_b));
        let mut s = if secant.is_finite() {
            secant.clamp(a, b)
        } else {
            0.5 * (a + b)
        };
        for _ in 0..ROOT_STEPS {
            let above = self.at(s) - number;
            *(if (above >= 0.0) == is_above {
                &mut a
            } else {
                &mut b
            }) = s;
            let tangent = s - above / self.slope(s);
            let next = if a < tangent && tangent < b {
                tangent
            } else {
                0.5 * (a + b)
            };
            if (next - s).abs() <= ROOT_PART {
                return next;
            }
            s = next;
        }
        s
    }
}

#[cfg(test)]
mod tests;

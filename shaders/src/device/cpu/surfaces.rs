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
use smallvec::SmallVec;
use std::marker::PhantomData;

/// A root is known to such a part of the way through its cell.
const ROOT_PART: f64 = 1e-7;
/// Of [`CELL_EDGE`].
const LAST: i32 = CELL_EDGE.cast_signed() - 1;
/// [`CELL_SHIFT`].
const SHIFT: usize = CELL_SHIFT as usize;
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
    /// Where distances to faces begin, and how fast they grow: see [`Self::distance`].
    origin: [f64; 3],
    inverse: [f64; 3],
    /// Whether it goes up on each axis.
    is_up: [bool; 3],
    cell: [i32; 3],
    /// How far the faces of the cell are through which the ray may leave it; infinite on an axis that it is not moving on. Known in cells that
    /// it does not leap over.
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
    hits: SmallVec<[Hit; 3]>,
    next: usize,
    voxel: PhantomData<V>,
}

impl<'a, V: StoredVoxel> Walk<'a, V> {
    /// Of a ray that ends at a distance, and begins at one that is not negative.
    #[inline(always)]
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
            origin: std::array::from_fn(|a| {
                if is_still(ray.direction[a]) {
                    f64::NEG_INFINITY
                } else {
                    ray.eye[a] - field.face_offset(a)
                }
            }),
            inverse: ray
                .direction
                .map(|d| if is_still(d) { 1.0 } else { 1.0 / d }),
            is_up: ray.direction.map(|d| d > 0.0),
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
            hits: SmallVec::new(),
            next: 0,
            voxel: PhantomData,
        };
        walk.enter();
        walk
    }

    /// Goes to the first cell, or to the end.
    #[inline(always)]
    fn enter(&mut self) {
        let [lo, hi] = self.field.cells;
        for a in 0..3 {
            if lo[a] >= hi[a] {
                self.end = f64::NEG_INFINITY;
            } else if is_still(self.direction[a]) {
                if !(f64::from(lo[a]) <= self.eye[a] && self.eye[a] < f64::from(hi[a])) {
                    self.end = f64::NEG_INFINITY;
                }
            } else {
                let (near, far) = if self.is_up[a] {
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
            self.go_to_cell(hi.map(|end| end - 1), lo, self.face);
        }
    }

    /// How far the face before cell `plane` of an axis is; infinite where the ray is not moving on that.
    #[inline(always)]
    fn distance(&self, axis: usize, plane: i32) -> f64 {
        (f64::from(plane) - self.origin[axis]) * self.inverse[axis]
    }

    /// Puts the ray into the cell that it is in now, between the one that it was in and the last ones upwards or downwards; not on the
    /// axis on whose face it is: there it is at the border.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and is clamped to cells"
    )]
    fn go_to_cell(&mut self, up: [i32; 3], down: [i32; 3], face: Option<usize>) {
        let p = self.position(self.at);
        for a in 0..3 {
            if face != Some(a) {
                // Rounding must not lead back.
                let (low, high) = if self.is_up[a] {
                    (self.cell[a], up[a])
                } else {
                    (down[a], self.cell[a])
                };
                // Cells are named by numbers from 0 on: the whole part is the one below.
                self.cell[a] = (p[a] as i32).max(low).min(high);
            }
        }
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
        if self.seen_cells.is_none() {
            let (macrocell, distance) = self.macrocell();
            if distance > 0 {
                return self.leap(macrocell, distance);
            }
            self.exits = std::array::from_fn(|a| self.exit_before(a, self.cell[a]));
        }
        self.pass_cells();
        let (leaves, axis) = self.way_out(&self.exits);
        if self
            .seen_cells
            .is_none_or(|seen| seen >> self.place_in_macrocell() & 1 == 1)
        {
            self.look(leaves, axis);
        } else {
            self.number = None;
        }
        let Some((axis, next)) = axis.and_then(|axis| self.next_cell(axis, self.cell[axis])) else {
            self.at = self.end;
            return;
        };
        (self.at, self.face) = (leaves, Some(axis));
        let first = self.stored[0][axis];
        let is_left = (next - first) >> CELL_SHIFT != (self.cell[axis] - first) >> CELL_SHIFT;
        self.seen_cells.take_if(|_| is_left);
        self.cell[axis] = next;
        self.exits[axis] = self.exit_before(axis, next);
    }

    /// Passes cells without a surface of the macrocell that the ray is in, where these are known. The last one there it does not leave.
    fn pass_cells(&mut self) {
        let mut place = self.place_in_macrocell();
        let Some(seen) = self.seen_cells.filter(|seen| seen >> place & 1 == 0) else {
            return;
        };
        let [lo, hi] = self.field.cells;
        let left: [i32; 3] = std::array::from_fn(|a| {
            let inside = (place >> (a * SHIFT)) & LAST;
            if self.is_up[a] {
                (LAST - inside).min(hi[a] - 1 - self.cell[a])
            } else {
                inside.min(self.cell[a] - lo[a])
            }
        });
        let (mut left, mut exits, mut at) = (left, self.exits, self.at);
        while seen >> place & 1 == 0 {
            let axis = nearest(&exits);
            let leaves = exits[axis];
            if left[axis] == 0 || leaves >= self.end {
                break;
            }
            let by = if self.is_up[axis] { 1 } else { -1 };
            left[axis] -= 1;
            place += by << (axis * SHIFT);
            self.cell[axis] += by;
            self.face = Some(axis);
            self.number = None;
            at = if leaves > at { leaves } else { at };
            exits[axis] = self.exit_before(axis, self.cell[axis]);
        }
        (self.exits, self.at) = (exits, at);
    }

    /// Leaves macrocells that nothing is seen of: those less than `distance` away, as far as they are ahead.
    fn leap(&mut self, macrocell: [i32; 3], distance: i32) {
        self.number = None;
        let first = self.stored[0];
        // The last cells ahead.
        let last: [i32; 3] = std::array::from_fn(|a| {
            if self.is_up[a] {
                first[a] + ((macrocell[a] + distance) << CELL_SHIFT) - 1
            } else {
                first[a] + ((macrocell[a] + 1 - distance) << CELL_SHIFT)
            }
        });
        let exits = std::array::from_fn(|a| self.exit_before(a, last[a]));
        let (leaves, axis) = self.way_out(&exits);
        let Some((axis, next)) = axis.and_then(|axis| self.next_cell(axis, last[axis])) else {
            self.at = self.end;
            return;
        };
        (self.at, self.face) = (leaves, Some(axis));
        self.cell[axis] = next;
        let [lo, hi] = self.field.cells;
        let up = std::array::from_fn(|a| last[a].min(hi[a] - 1));
        let down = std::array::from_fn(|a| last[a].max(lo[a]));
        self.go_to_cell(up, down, self.face);
    }

    /// How far the face of a cell is through which the ray may leave it on an axis; infinite where it is not moving on that.
    #[inline(always)]
    fn exit_before(&self, axis: usize, cell: i32) -> f64 {
        self.distance(axis, cell + i32::from(self.is_up[axis]))
    }

    /// Where the ray is when it has left cells through one of these faces, and on which axis; `None`: it ends there.
    #[inline(always)]
    fn way_out(&self, exits: &[f64; 3]) -> (f64, Option<usize>) {
        let axis = nearest(exits);
        // On the border of the job, too: the field there is that of the face.
        let is_before_end = exits[axis] <= self.end;
        let leaves = if is_before_end { exits[axis] } else { self.end };
        // Rounding must not lead back.
        let leaves = if leaves > self.at { leaves } else { self.at };
        (leaves, is_before_end.then_some(axis))
    }

    /// The cell behind another on an axis; `None`: it is not of the job.
    #[inline(always)]
    fn next_cell(&self, axis: usize, cell: i32) -> Option<(usize, i32)> {
        let [lo, hi] = self.field.cells;
        let next = cell + if self.is_up[axis] { 1 } else { -1 };
        (lo[axis] <= next && next < hi[axis]).then_some((axis, next))
    }

    /// The number of the cell in its macrocell, x fastest.
    #[inline(always)]
    fn place_in_macrocell(&self) -> i32 {
        let inside = |a: usize| (self.cell[a] - self.stored[0][a]) & LAST;
        (inside(2) << SHIFT | inside(1)) << SHIFT | inside(0)
    }

    /// The macrocell that the ray is in, and how far the next one ahead is of which something is seen; 0: this one may be seen, and which
    /// of its cells is known from now on.
    #[inline(always)]
    fn macrocell(&mut self) -> ([i32; 3], i32) {
        let Some(skip) = self.field.skip_for_surfaces else {
            return ([0; 3], 0);
        };
        let first = self.stored[0];
        let counts = skip.counts().map(u32::cast_signed);
        let at: [i32; 3] = std::array::from_fn(|a| {
            let from_first = (self.cell[a] - first[a]) >> CELL_SHIFT;
            from_first.max(0).min(counts[a] - 1)
        });
        let index = (at[2] * counts[1] + at[1]) * counts[0] + at[0];
        let index = index.cast_unsigned() as usize;
        let distance = i32::from(self.distances[index]);
        if distance == 0 {
            self.seen_cells = skip.cells_with_surfaces(index, || self.find_cells(at));
        }
        (at, distance)
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
        let [from, to] = [self.local(self.at), self.local(leaves)];
        let after = self.value(&corners, to, axis.map(|axis| (axis, self.is_up[axis])));
        let comes = self.face.map(|axis| (axis, !self.is_up[axis]));
        let before = before.unwrap_or_else(|| self.value(&corners, from, comes));
        self.number = Some(after);
        let way = Cubic::through(&corners, from, to);
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
        if self.hits.len() > 1 {
            self.hits.sort_by(|a, b| a.at.total_cmp(&b.at));
        }
    }

    /// Where the ray is in its cell, 0 to 1.
    #[inline(always)]
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

    /// The field at a place in the cell; on a face, an axis and whether it is the far one, of the voxels on that face alone.
    #[inline(always)]
    fn value(&self, corners: &[f64; 8], local: [f64; 3], face: Option<(usize, bool)>) -> f64 {
        let line =
            |from: usize, axis: usize| mix(corners[from], corners[from + (1 << axis)], local[axis]);
        let side = |from: usize, a: usize, b: usize| {
            mix(line(from, a), line(from + (1 << b), a), local[b])
        };
        match face {
            Some((axis, is_far)) => {
                side(usize::from(is_far) << axis, (axis + 1) % 3, (axis + 2) % 3)
            }
            None => mix(side(0, 0, 1), side(4, 0, 1), local[2]),
        }
    }
}

/// Whether a ray that goes so far on an axis for each world unit passes no face on it.
#[inline(always)]
fn is_still(direction: f64) -> bool {
    // Less than the least whose inverse is finite: over all distances that is far less than a voxel.
    direction.abs() < f64::MIN_POSITIVE
}

/// The axis on which the least of distances is; of equal ones the last.
#[inline(always)]
fn nearest(&[x, y, z]: &[f64; 3]) -> usize {
    let (axis, least) = if y <= x { (1, y) } else { (0, x) };
    if z <= least { 2 } else { axis }
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

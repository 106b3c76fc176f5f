//! Triangles of surfaces, as bricks carry them: behind the voxels of a brick stand the triangles that meet what it owns.
//!
//! Space: grid (voxels). A triangle that meets several bricks stands in each of them with the same numbers, so that a ray meets it
//! in the same point whichever brick is asked; the job that owns the point counts it.
//! Shapes: a triangle is [`TRIANGLE_BYTES`], little-endian: three corners of three f32, three normals, its material in three bytes, and
//! its [`cut`] ([`TriangleOrder`]).
//! Invariant: after [`check`], corners are in reach ([`CORNER_MAX`]), and materials are there.

use crate::data::{
    brick_grid::{BrickGrid, BrickIndex},
    cell_ranges::{CELLS_PER_AXIS, CellMask, NONE, cell_box, cell_plane},
    voxel_box::VoxelBox,
};
use glam::{DVec3, Vec3};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a triangle in a brick.
pub const TRIANGLE_BYTES: usize = 52;
/// Where its cut is among these.
const CUT_AT: usize = TRIANGLE_BYTES - 1;
/// The cut of a triangle behind which no node of the tree is cut.
pub const NO_CUT: u8 = u8::MAX;
/// Most materials of a data set.
pub const MATERIALS_MAX: usize = 256;
/// Longest name of one, bytes.
const NAME_MAX: usize = 255;
/// Most triangles of a brick: it travels as one message.
pub const BRICK_TRIANGLES_MAX: u32 = 1 << 20;
/// Farthest corner, in voxels: products of three are numbers that an f32 holds.
pub const CORNER_MAX: f32 = 1e12;
/// A triangle counts as in a box that is so much larger on each side, voxels: more than what kernels in f32 round where rays from
/// some ten thousand voxels away meet it.
const AROUND: f64 = 0.05;
/// Largest number of a packed normal.
const PACKED_MAX: f32 = 32_767.0;

/// What the triangles of a surface look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Material {
    /// Name of the file that they came from, for people.
    pub name: String,
    /// Linear RGB, 0 to 1.
    pub color: [f32; 3],
    /// Of what passes them, whatever the angle; above 0, up to 1.
    pub opacity: f32,
}

impl Material {
    /// Premultiplied linear RGBA.
    #[must_use]
    pub fn premultiplied(&self) -> [f32; 4] {
        let ([r, g, b], a) = (self.color, self.opacity);
        [r * a, g * a, b * a, a]
    }

    /// Whether its numbers are in their bounds.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.name.len() <= NAME_MAX
            && self.color.iter().all(|c| (0.0..=1.0).contains(c))
            && self.opacity > 0.0
            && self.opacity <= 1.0
    }
}

/// The direction in which a surface faces, as a covector of the grid: its product with a way is that of the world's unit
/// normal with the same way, but for a factor. On an octahedron, 16 bit a coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedNormal(u32);

impl PackedNormal {
    /// Of a direction of whatever length; one that has none is z.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole numbers of 16 bit"
    )]
    pub fn new(direction: Vec3) -> Self {
        let sum = direction.abs().element_sum();
        let n = if sum.is_normal() {
            direction / sum
        } else {
            Vec3::Z
        };
        let folded = if n.z < 0.0 {
            [
                (1.0 - n.y.abs()).copysign(n.x),
                (1.0 - n.x.abs()).copysign(n.y),
            ]
        } else {
            [n.x, n.y]
        };
        let [x, y] = folded.map(|c| u32::from((c * PACKED_MAX).round() as i16 as u16));
        Self(x | y << 16)
    }

    /// Its 32 bits: x in the lower half.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The direction; not of unit length.
    #[must_use]
    pub fn direction(self) -> Vec3 {
        let [a, b, c, d] = self.0.to_le_bytes();
        let [x, y] = [[a, b], [c, d]].map(|n| f32::from(i16::from_le_bytes(n)) / PACKED_MAX);
        let z = 1.0 - x.abs() - y.abs();
        if z < 0.0 {
            Vec3::new((1.0 - y.abs()).copysign(x), (1.0 - x.abs()).copysign(y), z)
        } else {
            Vec3::new(x, y, z)
        }
    }
}

/// A triangle of a surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triangle {
    /// In the grid.
    pub corners: [Vec3; 3],
    /// At the corners.
    pub normals: [PackedNormal; 3],
    /// Which of the data set's materials.
    pub material: u32,
}

/// How the triangles of a brick follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriangleOrder {
    /// As they came, up to version 9 of the manifest; cuts are 0.
    AsTheyCame,
    /// As the leaves of a binary tree do. A node of level n (the root's is 0) holds some that follow each other, and is cut behind the first
    /// of them, other than the last, whose cut is n; where there is none, it is a leaf. Readers may leave small and deep nodes whole.
    ByLeaves,
}

impl TriangleOrder {
    /// Memory of a brick's triangles in a device as a multiple of their bytes, at most: as they are stored, a copy of those that are in no
    /// order, and the boxes around them.
    #[must_use]
    pub const fn memory(self) -> u64 {
        match self {
            Self::AsTheyCame => 3,
            Self::ByLeaves => 2,
        }
    }
}

/// The level of the node that is cut behind a triangle, or [`NO_CUT`].
#[must_use]
pub fn cut(triangle: &[u8; TRIANGLE_BYTES]) -> u8 {
    triangle[CUT_AT]
}

/// Changes [`cut`].
pub fn set_cut(triangle: &mut [u8; TRIANGLE_BYTES], level: u8) {
    triangle[CUT_AT] = level;
}

impl Triangle {
    /// Appends it to the bytes of a brick; its cut is 0. Its material is below 2²⁴.
    pub fn append(&self, bytes: &mut Vec<u8>) {
        let corners = self.corners.iter().flat_map(Vec3::to_array);
        corners.for_each(|c| bytes.extend(c.to_le_bytes()));
        self.normals
            .iter()
            .for_each(|n| bytes.extend(n.0.to_le_bytes()));
        bytes.extend(self.material.to_le_bytes());
    }

    /// The triangle of these bytes, whatever they are.
    // A ray that passes it needs its corners alone: not inlined, first hits took 1.25 times as long.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8; TRIANGLE_BYTES]) -> Self {
        let (words, _) = bytes.as_chunks();
        let word = |n: usize| u32::from_le_bytes(words[n]);
        let corner = |n: usize| Vec3::from([n, n + 1, n + 2].map(|n| f32::from_bits(word(n))));
        Self {
            corners: [corner(0), corner(3), corner(6)],
            normals: [word(9), word(10), word(11)].map(PackedNormal),
            material: word(12) & 0xff_ffff,
        }
    }

    /// Whether its corners are where rays can be told from each other.
    #[must_use]
    pub fn is_in_reach(&self) -> bool {
        let mut corners = self.corners.iter();
        corners.all(|c| c.is_finite() && c.abs().max_element() <= CORNER_MAX)
    }

    /// The box around it, and what counts as near.
    fn bounds(&self) -> [DVec3; 2] {
        let [a, b, c] = self.corners.map(|c| c.as_dvec3());
        [a.min(b).min(c) - AROUND, a.max(b).max(c) + AROUND]
    }

    /// Whether it meets a box of points, or comes near it.
    #[must_use]
    pub fn meets(&self, [lo, hi]: [DVec3; 2]) -> bool {
        let (middle, half) = ((lo + hi) * 0.5, (hi - lo) * 0.5 + AROUND);
        let [a, b, c] = self.corners.map(|c| c.as_dvec3() - middle);
        let is_apart = |axis: DVec3| {
            let along = [a, b, c].map(|p| p.dot(axis));
            let reach = half.dot(axis.abs());
            let (low, high) = (
                along[0].min(along[1]).min(along[2]),
                along[0].max(along[1]).max(along[2]),
            );
            low > reach || high < -reach
        };
        // Akenine-Möller, "Fast 3D triangle-box overlap testing", 2001: the axes that can part them.
        let edges = [b - a, c - b, a - c];
        let crossed = |axis: DVec3| edges.map(|edge| edge.cross(axis));
        !(DVec3::AXES.into_iter().any(is_apart)
            || is_apart(edges[0].cross(edges[1]))
            || DVec3::AXES.into_iter().flat_map(crossed).any(is_apart))
    }
}

/// Bytes that are no triangles of a brick.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrianglesError {
    /// One is cut off.
    #[error("{found} bytes are no whole number of triangles of {TRIANGLE_BYTES}")]
    Length {
        /// Bytes found.
        found: usize,
    },
    /// A corner is out of reach, or there is no such material.
    #[error(
        "triangle {at} has a corner farther than {CORNER_MAX} voxels, or a material beyond {materials}"
    )]
    Triangle {
        /// Which, from 0.
        at: usize,
        /// Materials that there are.
        materials: usize,
    },
}

/// Checks the bytes of a brick's triangles, of so many materials; their cuts may be any.
///
/// # Errors
/// [`TrianglesError`].
pub fn check(bytes: &[u8], materials: usize, order: TriangleOrder) -> Result<(), TrianglesError> {
    let (triangles, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(TrianglesError::Length { found: bytes.len() });
    }
    let is_bad = |bytes: &[u8; TRIANGLE_BYTES]| {
        let triangle = Triangle::of(bytes);
        // It is of the material's number there.
        let is_cut = order == TriangleOrder::AsTheyCame && cut(bytes) != 0;
        !triangle.is_in_reach() || triangle.material as usize >= materials || is_cut
    };
    match triangles.iter().position(is_bad) {
        Some(at) => Err(TrianglesError::Triangle { at, materials }),
        None => Ok(()),
    }
}

/// The triangles of these bytes.
pub fn read(bytes: &[u8]) -> impl ExactSizeIterator<Item = Triangle> {
    bytes.as_chunks().0.iter().map(Triangle::of)
}

/// What a manifest says of the triangles of a brick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrickTriangles {
    /// How many.
    pub count: u32,
    /// The cells that they meet.
    pub cells: CellMask,
}

impl BrickTriangles {
    /// None are there.
    pub const NONE: Self = Self {
        count: 0,
        cells: NONE,
    };

    /// Those of both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            cells: std::array::from_fn(|z| self.cells[z] | other.cells[z]),
        }
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.count) * TRIANGLE_BYTES as u64
    }
}

/// Memory of a brick beside its triangles, at most: what is said of them, and a list that is little used.
const BRICK_MEMORY_BYTES: u64 = 2 * size_of::<CellMask>() as u64 + 256;

/// Shares triangles out among the bricks that they meet.
#[derive(Clone, Debug)]
pub struct TriangleBins {
    grid: BrickGrid,
    dims: [u32; 3],
    bricks: BTreeMap<BrickIndex, (Vec<u8>, CellMask)>,
    outside: u64,
    bytes: u64,
}

impl TriangleBins {
    /// Of the bricks of a volume of these dims.
    #[must_use]
    pub fn new(grid: BrickGrid, dims: [u32; 3]) -> Self {
        Self {
            grid,
            dims,
            bricks: BTreeMap::new(),
            outside: 0,
            bytes: 0,
        }
    }

    /// Puts a triangle into the bricks that it meets.
    pub fn add(&mut self, triangle: &Triangle) {
        let [low, high] = triangle.bounds();
        let edge = f64::from(self.grid.edge());
        let counts = self.grid.counts();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturating, and at most the last brick"
        )]
        let ends = |a: usize| {
            let place = |p: f64| ((p / edge) as u32).min(counts[a] - 1);
            place(low[a])..=place(high[a])
        };
        let mut is_inside = false;
        for z in ends(2) {
            for y in ends(1) {
                for x in ends(0) {
                    is_inside |= self.add_to([x, y, z], triangle);
                }
            }
        }
        self.outside += u64::from(!is_inside);
    }

    fn add_to(&mut self, place: [u32; 3], triangle: &Triangle) -> bool {
        let Some(brick) = self.grid.index(place) else {
            return false;
        };
        let owned = self.grid.owned_box(brick);
        if !triangle.meets(owned.field_corners(self.dims)) {
            return false;
        }
        let (bytes, cells) = self.bricks.entry(brick).or_insert((Vec::new(), NONE));
        triangle.append(bytes);
        self.bytes += TRIANGLE_BYTES as u64;
        mark(cells, &owned, self.dims, triangle);
        true
    }

    /// Memory that it takes, bytes, at most: lists that grow, and a row of a table for each brick.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        2 * self.bytes + self.bricks.len() as u64 * BRICK_MEMORY_BYTES
    }

    /// How many triangles met no brick.
    #[must_use]
    pub fn outside(&self) -> u64 {
        self.outside
    }

    /// What a manifest says of each brick that has some.
    pub fn said(&self) -> impl Iterator<Item = (BrickIndex, BrickTriangles)> {
        let bricks = self.bricks.iter();
        bricks.map(|(brick, (bytes, cells))| (*brick, said(bytes, *cells)))
    }

    /// The bytes of a brick's triangles, if it has some.
    #[must_use]
    pub fn of(&self, brick: BrickIndex) -> Option<&[u8]> {
        self.bricks.get(&brick).map(|(bytes, _)| &bytes[..])
    }

    /// The bytes of each brick's triangles, and what a manifest says of them.
    pub fn into_bricks(self) -> impl Iterator<Item = (BrickIndex, Vec<u8>, BrickTriangles)> {
        self.bricks.into_iter().map(|(brick, (bytes, cells))| {
            let said = said(&bytes, cells);
            (brick, bytes, said)
        })
    }
}

/// What a manifest says of triangles of these bytes.
fn said(bytes: &[u8], cells: CellMask) -> BrickTriangles {
    let count = u32::try_from(bytes.len() / TRIANGLE_BYTES).unwrap_or(u32::MAX);
    BrickTriangles { count, cells }
}

/// Marks the cells of a brick that a triangle meets.
fn mark(cells: &mut CellMask, owned: &VoxelBox, dims: [u32; 3], triangle: &Triangle) {
    let [low, high] = triangle.bounds();
    let near = |a: usize| {
        let plane = move |n: u32| f64::from(cell_plane(owned, a, n));
        // The last cell reaches to the last voxel, on an axis of one voxel from half before it.
        let is_thin = dims[a] == 1;
        (0..CELLS_PER_AXIS)
            .filter(move |&n| is_thin || (plane(n) <= high[a] && low[a] <= plane(n + 1)))
    };
    for z in near(2) {
        for y in near(1) {
            for x in near(0) {
                let at = x + CELLS_PER_AXIS * y;
                let cell = cell_box(owned, (at + CELLS_PER_AXIS * CELLS_PER_AXIS * z) as usize);
                let layer = &mut cells[z as usize];
                let is_new = !cell.is_empty() && *layer >> at & 1 == 0;
                if is_new && triangle.meets(cell.field_corners(dims)) {
                    *layer |= 1 << at;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(extent: f32) -> impl Strategy<Value = [Vec3; 3]> {
        let place = prop::array::uniform3(-extent * 0.2..extent * 1.2);
        prop::array::uniform3(place.prop_map(Vec3::from_array))
    }

    fn triangle(corners: [Vec3; 3]) -> Triangle {
        let normal = (corners[1] - corners[0]).cross(corners[2] - corners[0]);
        Triangle {
            corners,
            normals: [PackedNormal::new(normal); 3],
            material: 3,
        }
    }

    /// Points spread over a triangle.
    fn spread(triangle: &Triangle) -> impl Iterator<Item = DVec3> {
        const PARTS: u32 = 24;
        let [a, b, c] = triangle.corners.map(|p| p.as_dvec3());
        (0..=PARTS).flat_map(move |i| {
            (0..=PARTS - i).map(move |j| {
                let [u, v] = [i, j].map(|n| f64::from(n) / f64::from(PARTS));
                a + (b - a) * u + (c - a) * v
            })
        })
    }

    proptest! {
        #[test]
        fn a_packed_normal_is_the_direction(x in -1.0f32..1.0, y in -1.0f32..1.0, z in -1.0f32..1.0) {
            let direction = Vec3::new(x, y, z);
            prop_assume!(direction.length() > 1e-3);
            let found = PackedNormal::new(direction * 1e-9).direction().normalize();
            let sine = found.cross(direction.normalize()).length();
            prop_assert!(sine < 1e-4 && found.dot(direction) > 0.0, "{found}");
        }

        #[test]
        fn a_triangle_is_where_its_points_are(corners in points(40.0), dims in prop::array::uniform3(1u32..40)) {
            let grid = BrickGrid::new(dims, 8).unwrap();
            let triangle = triangle(corners);
            let mut bins = TriangleBins::new(grid, dims);
            bins.add(&triangle);
            let outside = bins.outside();
            let bricks: BTreeMap<_, _> = bins.into_bricks().map(|(b, bytes, what)| (b, (bytes, what))).collect();
            prop_assert_eq!(outside, u64::from(bricks.is_empty()));
            let whole = VoxelBox::new([0; 3], dims).field_corners(dims);
            let inside = |p: &DVec3| p.cmpge(whole[0]).all() && p.cmple(whole[1]).all();
            for p in spread(&triangle).filter(inside) {
                let is_there = |[lo, hi]: [DVec3; 2]| p.cmpge(lo).all() && p.cmple(hi).all();
                let of_point: Vec<_> = grid.bricks().filter(|&b| is_there(grid.owned_box(b).field_corners(dims))).collect();
                prop_assert!(!of_point.is_empty());
                for brick in of_point {
                    let Some((bytes, what)) = bricks.get(&brick) else {
                        return Err(TestCaseError::fail(format!("{p} is in brick {}", brick.0)));
                    };
                    prop_assert_eq!(check(bytes, 4, TriangleOrder::AsTheyCame), Ok(()));
                    prop_assert_eq!(read(bytes).collect::<Vec<_>>(), [triangle]);
                    prop_assert_eq!(what.bytes(), bytes.len() as u64);
                    let owned = grid.owned_box(brick);
                    for at in 0..512 {
                        let cell = cell_box(&owned, at);
                        let is_marked = what.cells[at / 64] >> (at % 64) & 1 == 1;
                        prop_assert!(is_marked || cell.is_empty() || !is_there(cell.field_corners(dims)), "{p} is in cell {at}");
                    }
                }
            }
        }

        #[test]
        fn a_triangle_beside_a_box_does_not_meet_it(corners in points(10.0), axis in 0usize..3, by in 0.1f32..9.0) {
            let least = corners.iter().map(|c| c[axis]).fold(f32::INFINITY, f32::min);
            let mut moved = corners;
            moved.iter_mut().for_each(|c| c[axis] += 10.0 + by - least);
            prop_assert!(!triangle(moved).meets([DVec3::ZERO, DVec3::splat(10.0)]));
        }

        #[test]
        fn whatever_the_bytes_they_are_triangles_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if check(&bytes, 2, TriangleOrder::ByLeaves).is_ok() {
                prop_assert_eq!(read(&bytes).len() * TRIANGLE_BYTES, bytes.len());
                let are_good = read(&bytes).all(|t| t.is_in_reach() && t.material < 2);
                prop_assert!(are_good);
            }
        }
    }

    #[test]
    fn what_is_no_triangle_is_named() {
        let mut bytes = Vec::new();
        triangle([Vec3::ZERO, Vec3::X, Vec3::Y]).append(&mut bytes);
        assert_eq!(bytes.len(), TRIANGLE_BYTES);
        let check = |bytes: &[u8], materials| check(bytes, materials, TriangleOrder::AsTheyCame);
        let error = check(&bytes, 3).unwrap_err();
        assert!(matches!(
            error,
            TrianglesError::Triangle {
                at: 0,
                materials: 3
            }
        ));
        let error = check(&bytes[1..], 9).unwrap_err().to_string();
        assert!(error.contains("51 bytes"), "{error}");
        let mut with_cut = bytes.clone();
        set_cut(with_cut.as_chunks_mut().0.first_mut().unwrap(), 7);
        assert!(check(&with_cut, 9).is_err());
        assert_eq!(super::check(&with_cut, 9, TriangleOrder::ByLeaves), Ok(()));
        assert!(read(&with_cut).eq(read(&bytes)));
        bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(check(&bytes, 9).is_err());
    }

    #[test]
    fn a_flat_triangle_between_bricks_is_in_both() {
        let dims = [16, 16, 8];
        let grid = BrickGrid::new(dims, 8).unwrap();
        let mut bins = TriangleBins::new(grid, dims);
        let on_border = [[8.0, 1.0, 1.0], [8.0, 3.0, 1.0], [8.0, 1.0, 3.0]];
        bins.add(&triangle(on_border.map(Vec3::from_array)));
        bins.add(&triangle(on_border.map(|c| Vec3::from_array(c) + 90.0)));
        assert_eq!(bins.outside(), 1);
        let bricks: Vec<u32> = bins.into_bricks().map(|(brick, ..)| brick.0).collect();
        assert_eq!(bricks, [0, 1]);
    }
}

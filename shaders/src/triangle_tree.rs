//! Triangles of a brick in a tree of boxes, and where rays meet them.
//!
//! Which of them are together is worked out when a brick is made ([`by_leaves`]), and stands in its bytes; of a brick that comes from a
//! peer or from a disk only the boxes are worked out, and its triangles stay where they are. Bytes of no tree make a bad one, in which
//! rays meet the same.
//!
//! Space: grid. Whether a ray meets a triangle is told by the signs of three volumes, one for each edge, which two triangles with
//! an edge in common work out alike but for the sign: no ray passes between them. What it meets on their edge counts once, but where
//! that is on the border of two jobs, to the last bit. All that follows from the ray and the
//! triangle is the same in every brick that has it.
//!
//! Sources: Wald, "On fast construction of SAH-based bounding volume hierarchies", RT 2007 (bins); Woop, Benthin, Wald,
//! "Watertight ray/triangle intersection", JCGT 2(1), 2013 (edges).

use brickmesh_topology::data::triangles::{
    NO_CUT, TRIANGLE_BYTES, Triangle, TriangleOrder, cut, read, set_cut,
};
use bytes::Bytes;
use glam::{DVec3, Vec3A, Vec3Swizzles, Vec4};
use std::cmp::Ordering;

/// Triangles of a leaf, at most.
const LEAF_MAX: usize = 4;
/// Hits of a ray, at most: of as many lying one on the other nobody sees the last.
pub const HITS_MAX: usize = 512;
/// Bins by which a split is looked for.
const BINS: usize = 16;
/// Levels of a tree, at most.
const DEPTH_MAX: u8 = 36;
/// Boxes on the way of a ray that wait, at most: three for each level, and those of the last.
pub(crate) const STACK: usize = WIDTH * (DEPTH_MAX as usize + 1);
/// A ray counts as so much off, as a part of its place or of [`PLACE_MIN`]: more than f32 rounds.
const PLACE_ROUNDING: f64 = 4e-7;
const PLACE_MIN: f64 = 1.0;
/// What 1 through a part of a ray's direction is taken to be, without its sign.
const INVERSE: (f64, f64) = (1e-30, 1e30);
/// As [`PLACE_ROUNDING`], of distances.
const DISTANCE_ROUNDING: f32 = 1e-6;
/// A volume counts as 0 up to this part of the largest that there could be.
const EDGE_ROUNDING: f64 = 1e-14;
/// And up to this part of the triangle's.
const EDGE_PART: f64 = 1e-3;
/// Hits on an edge of two triangles are one where they are nearer to each other than this part of their distance.
const SAME_HIT: f64 = 1e-9;

/// See the module.
#[derive(Clone, Debug)]
pub struct TriangleTree {
    nodes: Vec<Node>,
    /// Their bytes, in the order of the leaves.
    triangles: Bytes,
}

/// Boxes below a node.
const WIDTH: usize = 4;

/// Four boxes side by side, as vector instructions take them; those that are not needed hold nothing.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// By axis.
    low: [Vec4; 3],
    high: [Vec4; 3],
    below: [Below; WIDTH],
}

/// What is in a box.
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    /// The first triangle of a leaf, or a node.
    at: u32,
    /// Triangles of a leaf; 0: it is a node.
    count: u32,
}

/// Where a ray meets a triangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TriangleHit {
    /// Distance from where the ray begins, in lengths of its direction.
    pub at: f64,
    /// The direction in which the surface faces there, or away from; not of unit length, covector of the grid.
    pub normal: [f32; 3],
    /// Which of the materials.
    pub material: u32,
    /// Whether it is on an edge.
    is_on_edge: bool,
    /// Whether the ray comes from the side from which corners are counted anticlockwise.
    is_front: bool,
}

/// A ray in a part of the grid.
#[derive(Clone, Copy, Debug)]
pub struct TriangleRay {
    /// Where it begins.
    pub eye: DVec3,
    /// Its direction, of whatever length but 0.
    pub direction: DVec3,
    /// Distances between which hits count.
    pub way: [f64; 2],
    /// Points that hits count of: from the first, up to the second without it.
    pub points: [DVec3; 2],
}

impl TriangleTree {
    /// Of the triangles of a brick, checked; of those in no order it has a copy.
    #[must_use]
    pub fn new(triangles: Bytes, order: TriangleOrder) -> Self {
        let triangles = match order {
            TriangleOrder::ByLeaves => triangles,
            TriangleOrder::AsTheyCame => by_leaves(&triangles).into(),
        };
        let (all, _) = triangles.as_chunks();
        let (mut halves, mut nodes) = (Vec::new(), Vec::new());
        if !all.is_empty() {
            let cuts: Vec<u8> = all.iter().map(cut).collect();
            halve(all, &cuts, (0, 0), &mut halves);
            widen(&halves, 0, &mut nodes);
            nodes.shrink_to_fit();
        }
        Self { nodes, triangles }
    }

    /// The tree as words of four, for kernels: how many words come before the triangles; then the nodes, each of eight: the lower and
    /// upper bounds of its boxes by axis, where what they hold begins and how many triangles that are; then the triangles, each of
    /// four: its corners, each with its packed normal, and its material.
    #[must_use]
    pub fn words(&self) -> Vec<[u32; 4]> {
        let first = u32::try_from(1 + 8 * self.nodes.len()).unwrap_or(u32::MAX);
        let bits = |v: Vec4| v.to_array().map(f32::to_bits);
        let mut words = vec![[first, 0, 0, 0]];
        for node in &self.nodes {
            words.extend(node.low.map(bits));
            words.extend(node.high.map(bits));
            words.extend([node.below.map(|b| b.at), node.below.map(|b| b.count)]);
        }
        for triangle in read(&self.triangles) {
            let corners = triangle.corners.iter().zip(triangle.normals);
            words.extend(corners.map(|(corner, normal)| {
                let [x, y, z] = corner.to_array().map(f32::to_bits);
                [x, y, z, normal.bits()]
            }));
            words.push([triangle.material, 0, 0, 0]);
        }
        words
    }

    /// How many [`Self::words`] there are.
    #[must_use]
    pub fn word_count(&self) -> usize {
        1 + 8 * self.nodes.len() + 4 * (self.triangles.len() / TRIANGLE_BYTES)
    }

    /// Where a ray meets triangles, near ones first, and of those as near as each other that of the first material; what is behind an
    /// opaque one may be left out, and what is behind [`HITS_MAX`] others is. `hits` is cleared before.
    pub fn hits(
        &self,
        ray: &TriangleRay,
        is_opaque: &dyn Fn(u32) -> bool,
        hits: &mut Vec<TriangleHit>,
    ) {
        hits.clear();
        let [from, mut to] = ray.way;
        let wide = WideRay::of(ray);
        let (triangles, _) = self.triangles.as_chunks();
        let mut open = [(Below::default(), 0.0); STACK];
        let mut count = usize::from(!self.nodes.is_empty());
        while count > 0 {
            count -= 1;
            let (below, near) = open[count];
            if f64::from(near) > to {
                continue;
            }
            let first = below.at as usize;
            if below.count == 0 {
                count = wide.open(&self.nodes[first], to, &mut open, count);
                continue;
            }
            for triangle in &triangles[first..first + below.count as usize] {
                if let Some(hit) = meet(&Triangle::of(triangle), ray, [from, to]) {
                    if is_opaque(hit.material) {
                        to = hit.at;
                    }
                    hits.push(hit);
                    if hits.len() == 2 * HITS_MAX {
                        hits.sort_unstable_by(in_order);
                        hits.truncate(HITS_MAX);
                        to = to.min(hits[HITS_MAX - 1].at);
                    }
                }
            }
        }
        hits.sort_unstable_by(in_order);
        hits.truncate(HITS_MAX);
        hits.dedup_by(|b, a| {
            a.is_on_edge
                && b.is_on_edge
                && (a.material, a.is_front) == (b.material, b.is_front)
                && b.at - a.at <= a.at.abs() * SAME_HIT
        });
    }
}

fn in_order(a: &TriangleHit, b: &TriangleHit) -> Ordering {
    let key = |hit: &TriangleHit| (hit.material, hit.is_front);
    a.at.total_cmp(&b.at).then_with(|| key(a).cmp(&key(b)))
}

/// A ray as boxes are compared with it: so much before and behind where it is that no rounding of an f32 leaves a box out.
struct WideRay {
    inverse: [Vec4; 3],
    /// Where it is for the faces of boxes through which it comes, and through which it leaves.
    before: [Vec4; 3],
    behind: [Vec4; 3],
    is_up: [bool; 3],
    from: f32,
}

impl WideRay {
    #[expect(clippy::cast_possible_truncation, reason = "boxes are f32")]
    fn of(ray: &TriangleRay) -> Self {
        let by = ray.eye.abs().max_element().max(PLACE_MIN) * PLACE_ROUNDING;
        let is_up = ray.direction.to_array().map(|d| d >= 0.0);
        let place = |side: f64| {
            std::array::from_fn(|a| {
                let by = if is_up[a] { by * side } else { -by * side };
                Vec4::splat((ray.eye[a] + by) as f32)
            })
        };
        Self {
            // So that products are numbers, also of a ray along the face of a box.
            inverse: ray.direction.to_array().map(|d| {
                let size = (1.0 / d.abs()).clamp(INVERSE.0, INVERSE.1);
                Vec4::splat(if d >= 0.0 { size } else { -size } as f32)
            }),
            before: place(1.0),
            behind: place(-1.0),
            is_up,
            from: (ray.way[0] as f32) * (1.0 - DISTANCE_ROUNDING),
        }
    }

    /// Puts what is below a node and on the way onto the stack, far ones first; how many are there then.
    #[expect(clippy::cast_possible_truncation, reason = "rounded upwards")]
    fn open(
        &self,
        node: &Node,
        to: f64,
        open: &mut [(Below, f32); STACK],
        mut count: usize,
    ) -> usize {
        let mut near = Vec4::splat(self.from);
        let mut far = Vec4::splat((to as f32) * (1.0 + DISTANCE_ROUNDING));
        for a in 0..3 {
            let (first, last) = if self.is_up[a] {
                (node.low[a], node.high[a])
            } else {
                (node.high[a], node.low[a])
            };
            near = ((first - self.before[a]) * self.inverse[a]).max(near);
            far = ((last - self.behind[a]) * self.inverse[a]).min(far);
        }
        let margin = 1.0 + DISTANCE_ROUNDING;
        let mut reached = near.cmple(far * margin).bitmask();
        let (first, near) = (count, near.to_array());
        while reached != 0 && count < STACK {
            let child = reached.trailing_zeros() as usize;
            reached &= reached - 1;
            let entry = (node.below[child], near[child] * (1.0 - DISTANCE_ROUNDING));
            let mut at = count;
            while at > first && open[at - 1].1 < entry.1 {
                open[at] = open[at - 1];
                at -= 1;
            }
            open[at] = entry;
            count += 1;
        }
        count
    }
}

fn meet(triangle: &Triangle, ray: &TriangleRay, [from, to]: [f64; 2]) -> Option<TriangleHit> {
    let d = ray.direction;
    let [a, b, c] = triangle.corners.map(|p| p.as_dvec3() - ray.eye);
    let parts = [d.dot(b.cross(c)), d.dot(c.cross(a)), d.dot(a.cross(b))];
    // Around a corner roundings of its edges need not fit each other: what is as near as they are counts as inside.
    let longest = a.abs().max(b.abs()).max(c.abs()).max_element();
    let sum: f64 = parts.iter().sum();
    let edge = longest * longest * d.abs().max_element() * EDGE_ROUNDING;
    // However far away, it is no larger than it is.
    let edge = edge.min(sum.abs() * EDGE_PART);
    let is_inside = parts.iter().all(|p| *p >= -edge) || parts.iter().all(|p| *p <= edge);
    if !is_inside || sum == 0.0 {
        return None;
    }
    let plane = (b - a).cross(c - a);
    let at = plane.dot(a) / plane.dot(d);
    let point = ray.eye + d * at;
    let [low, high] = ray.points;
    let is_owned = point.cmpge(low).all() && point.cmplt(high).all();
    if !(from <= at && at <= to && is_owned) {
        return None;
    }
    let normals = triangle.normals.map(|n| n.direction().as_dvec3());
    let mixed = (0..3).fold(DVec3::ZERO, |sum, i| {
        sum + normals[i].normalize() * parts[i]
    });
    let normal = (mixed / sum).as_vec3();
    Some(TriangleHit {
        at,
        normal: normal.to_array(),
        material: triangle.material,
        is_on_edge: parts.iter().any(|p| p.abs() <= edge),
        is_front: sum > 0.0,
    })
}

/// A triangle that is to be put into a leaf.
#[derive(Clone, Copy)]
struct Item {
    low: Vec3A,
    high: Vec3A,
    index: u32,
}

impl Item {
    fn of((triangle, index): (&[u8; TRIANGLE_BYTES], u32)) -> Self {
        let [low, high] = box_of(triangle);
        Self { low, high, index }
    }

    /// Twice its middle.
    fn middle(&self) -> Vec3A {
        self.low + self.high
    }
}

fn box_of(triangle: &[u8; TRIANGLE_BYTES]) -> [Vec3A; 2] {
    let [a, b, c] = Triangle::of(triangle).corners.map(Vec3A::from);
    [a.min(b).min(c), a.max(b).max(c)]
}

/// Boxes around some items: of them all, and of twice their middles.
fn around(items: &[Item]) -> [[Vec3A; 2]; 2] {
    let none = [Vec3A::INFINITY, Vec3A::NEG_INFINITY];
    items.iter().fold([none; 2], |[all, middles], item| {
        let m = item.middle();
        [
            [all[0].min(item.low), all[1].max(item.high)],
            [middles[0].min(m), middles[1].max(m)],
        ]
    })
}

/// Half the surface of a box; the same bits on every machine, as the bytes of bricks follow from it.
fn area([low, high]: [Vec3A; 2]) -> f32 {
    let size = (high - low).max(Vec3A::ZERO);
    let sides = size * size.yzx();
    sides.x + sides.y + sides.z
}

/// A box of a tree of halves.
#[derive(Clone, Copy, Debug)]
struct Half {
    low: Vec3A,
    high: Vec3A,
    /// The first triangle of a leaf; of others the second half, which the first follows.
    at: u32,
    /// Triangles of a leaf; 0: it has halves.
    count: u32,
}

/// The triangles of a brick as [`TriangleOrder::ByLeaves`] has them, whatever order they are in: the same bytes on every machine, as names of
/// data sets follow from them. Whoever changes them raises the version of the protocol, so that peers that open one file agree.
#[must_use]
pub fn by_leaves(triangles: &[u8]) -> Vec<u8> {
    let (all, _) = triangles.as_chunks();
    let mut items: Vec<Item> = all.iter().zip(0..).map(Item::of).collect();
    let mut cuts = vec![NO_CUT; items.len()];
    part(&mut items, 0, &mut cuts);
    let mut ordered: Vec<_> = items.iter().map(|i| all[i.index as usize]).collect();
    let each = ordered.iter_mut().zip(cuts);
    each.for_each(|(triangle, level)| set_cut(triangle, level));
    ordered.into_flattened()
}

/// Brings items into the order of the leaves of a node of this level, and notes where nodes are cut.
fn part(items: &mut [Item], level: u8, cuts: &mut [u8]) {
    if items.len() <= LEAF_MAX || level >= DEPTH_MAX {
        return;
    }
    let [[low, high], middles] = around(items);
    let Some(left) = split(items, middles, area([low, high])) else {
        return;
    };
    cuts[left - 1] = level;
    let (before, after) = items.split_at_mut(left);
    let (cuts_before, cuts_after) = cuts.split_at_mut(left);
    part(before, level + 1, cuts_before);
    part(after, level + 1, cuts_after);
}

/// Appends the boxes of some triangles in the order of leaves, at least one, each half's behind it; `first`: which of all the first is. Returns
/// the box around them.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a brick has far fewer than 2^32 triangles"
)]
fn halve(
    triangles: &[[u8; TRIANGLE_BYTES]],
    cuts: &[u8],
    (first, level): (usize, u8),
    halves: &mut Vec<Half>,
) -> [Vec3A; 2] {
    let here = halves.len();
    halves.push(Half {
        low: Vec3A::INFINITY,
        high: Vec3A::NEG_INFINITY,
        at: first as u32,
        count: triangles.len() as u32,
    });
    let (last, level_below) = (triangles.len() - 1, level + 1);
    let may_be_cut = last >= LEAF_MAX && level < DEPTH_MAX;
    let last_before = may_be_cut.then(|| cuts[..last].iter().position(|cut| *cut == level));
    let both = if let Some(last_before) = last_before.flatten() {
        let (before, after) = triangles.split_at(last_before + 1);
        let (cuts_before, cuts_after) = cuts.split_at(last_before + 1);
        let below = halve(before, cuts_before, (first, level_below), halves);
        (halves[here].at, halves[here].count) = (halves.len() as u32, 0);
        let behind = (first + before.len(), level_below);
        [below, halve(after, cuts_after, behind, halves)]
    } else {
        let boxes = triangles.iter().map(box_of);
        let none = [Vec3A::INFINITY, Vec3A::NEG_INFINITY];
        [
            none,
            boxes.fold(none, |all, one| [all[0].min(one[0]), all[1].max(one[1])]),
        ]
    };
    let [low, high] = [both[0][0].min(both[1][0]), both[0][1].max(both[1][1])];
    (halves[here].low, halves[here].high) = (low, high);
    [low, high]
}

/// Appends the node of a half, and those below it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a brick has far fewer than 2^32 triangles"
)]
fn widen(halves: &[Half], of: usize, nodes: &mut Vec<Node>) {
    let mut boxes = vec![of];
    let size = |half: usize| area([halves[half].low, halves[half].high]);
    let is_open = |half: &usize| halves[*half].count == 0;
    while boxes.len() < WIDTH
        && let Some((largest, _)) = (boxes.iter().enumerate().filter(|(_, half)| is_open(half)))
            .max_by(|a, b| size(*a.1).total_cmp(&size(*b.1)))
    {
        let half = boxes.swap_remove(largest);
        boxes.extend([half + 1, halves[half].at as usize]);
    }
    let here = nodes.len();
    let mut node = Node {
        low: [Vec4::INFINITY; 3],
        high: [Vec4::NEG_INFINITY; 3],
        below: [Below::default(); WIDTH],
    };
    nodes.push(node);
    for (child, &half) in boxes.iter().enumerate() {
        let Half {
            low,
            high,
            at,
            count,
        } = halves[half];
        for a in 0..3 {
            (node.low[a][child], node.high[a][child]) = (low[a], high[a]);
        }
        let at = if count > 0 { at } else { nodes.len() as u32 };
        node.below[child] = Below { at, count };
        if count == 0 {
            widen(halves, half, nodes);
        }
    }
    nodes[here] = node;
}

/// Parts items in two where rays cost least, as the areas of the halves tell; how many are in the first. `None`: they stay
/// together.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a bin, and counts of triangles"
)]
fn split(items: &mut [Item], [low, high]: [Vec3A; 2], whole: f32) -> Option<usize> {
    let size = high - low;
    let axis = (0..3).max_by(|&a, &b| size[a].total_cmp(&size[b]))?;
    let scale = BINS as f32 / size[axis];
    if !scale.is_finite() {
        // All in one place, as far as f32 tell.
        return (items.len() > 4 * LEAF_MAX).then_some(items.len() / 2);
    }
    let low = low[axis];
    let place = |item: &Item| (item.low[axis] + item.high[axis] - low) * scale;
    let none = Bin::default();
    let mut bins = [none; BINS];
    for item in items.iter() {
        // 32 bits: a cast to 64 takes longer.
        bins[(place(item) as u32 as usize).min(BINS - 1)].add(&Bin::of(item));
    }
    let mut above = [0.0; BINS];
    let mut sum = none;
    for (bin, cost) in bins.iter().zip(&mut above).rev() {
        sum.add(bin);
        *cost = sum.cost();
    }
    let (mut sum, mut best) = (none, (0, f32::INFINITY));
    for (plane, bin) in bins[..BINS - 1].iter().enumerate() {
        sum.add(bin);
        let cost = sum.cost() + above[plane + 1];
        if cost < best.1 {
            best = (plane, cost);
        }
    }
    let (plane, cost) = best;
    // A leaf of some more is as good as a split that parts nothing.
    if items.len() <= 4 * LEAF_MAX && cost >= whole * items.len() as f32 {
        return None;
    }
    let (mut left, end) = (0, (plane + 1) as f32);
    for at in 0..items.len() {
        if place(&items[at]) < end {
            items.swap(left, at);
            left += 1;
        }
    }
    (0 < left && left < items.len()).then_some(left)
}

/// Items between two planes, and the box around them.
#[derive(Clone, Copy)]
struct Bin {
    low: Vec3A,
    high: Vec3A,
    count: u32,
}

impl Bin {
    fn of(item: &Item) -> Self {
        Self {
            low: item.low,
            high: item.high,
            count: 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.count += other.count;
    }

    /// What rays cost in it, as its area tells.
    #[expect(clippy::cast_precision_loss, reason = "a count of triangles")]
    fn cost(&self) -> f32 {
        area([self.low, self.high]) * self.count as f32
    }
}

impl Default for Bin {
    fn default() -> Self {
        Self {
            low: Vec3A::INFINITY,
            high: Vec3A::NEG_INFINITY,
            count: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{Digest, data::triangles::PackedNormal};
    use glam::Vec3;
    use proptest::prelude::*;

    fn triangle(corners: [Vec3; 3], material: u32) -> Triangle {
        let normal = (corners[1] - corners[0]).cross(corners[2] - corners[0]);
        Triangle {
            corners,
            normals: [PackedNormal::new(normal); 3],
            material,
        }
    }

    fn bytes_of(triangles: &[Triangle]) -> Bytes {
        let mut bytes = Vec::new();
        triangles.iter().for_each(|t| t.append(&mut bytes));
        bytes.into()
    }

    fn tree_of(triangles: &[Triangle]) -> TriangleTree {
        TriangleTree::new(bytes_of(triangles), TriangleOrder::AsTheyCame)
    }

    /// It takes what manifests reckon with, but for a node.
    fn is_within_memory(tree: &TriangleTree) -> Result<(), TestCaseError> {
        let bytes = tree.nodes.capacity() * size_of::<Node>() + tree.triangles.len();
        let reckoned = TriangleOrder::ByLeaves.memory() * tree.triangles.len() as u64;
        prop_assert!(
            bytes as u64 <= reckoned + size_of::<Node>() as u64,
            "{bytes} of {reckoned}"
        );
        Ok(())
    }

    fn ray(eye: DVec3, direction: DVec3) -> TriangleRay {
        TriangleRay {
            eye,
            direction,
            way: [0.0, f64::INFINITY],
            points: [DVec3::NEG_INFINITY, DVec3::INFINITY],
        }
    }

    fn hits(tree: &TriangleTree, ray: &TriangleRay, opaque: bool) -> Vec<TriangleHit> {
        let mut hits = vec![];
        tree.hits(ray, &|_| opaque, &mut hits);
        hits
    }

    /// Möller, Trumbore, "Fast, minimum storage ray/triangle intersection", 1997: distance, and how far inside it is.
    fn by_formula(triangle: &Triangle, ray: &TriangleRay) -> Option<(f64, f64)> {
        let [a, b, c] = triangle.corners.map(|p| p.as_dvec3());
        let p = ray.direction.cross(c - a);
        let determinant = (b - a).dot(p);
        let from = (ray.eye - a) / determinant;
        let u = from.dot(p);
        let q = from.cross(b - a);
        let v = ray.direction.dot(q);
        let t = (c - a).dot(q);
        let inside = u.min(v).min(1.0 - u - v);
        (inside >= 0.0 && t >= 0.0).then_some((t, inside))
    }

    /// A sphere of 20 · 4ⁿ triangles.
    fn sphere(divisions: u32) -> Vec<Triangle> {
        let g = f32::midpoint(1.0, 5_f32.sqrt());
        let places = [
            [-1.0, g, 0.0],
            [1.0, g, 0.0],
            [-1.0, -g, 0.0],
            [1.0, -g, 0.0],
            [0.0, -1.0, g],
            [0.0, 1.0, g],
            [0.0, -1.0, -g],
            [0.0, 1.0, -g],
            [g, 0.0, -1.0],
            [g, 0.0, 1.0],
            [-g, 0.0, -1.0],
            [-g, 0.0, 1.0],
        ];
        let faces = [
            [0, 11, 5],
            [0, 5, 1],
            [0, 1, 7],
            [0, 7, 10],
            [0, 10, 11],
            [1, 5, 9],
            [5, 11, 4],
            [11, 10, 2],
            [10, 7, 6],
            [7, 1, 8],
            [3, 9, 4],
            [3, 4, 2],
            [3, 2, 6],
            [3, 6, 8],
            [3, 8, 9],
            [4, 9, 5],
            [2, 4, 11],
            [6, 2, 10],
            [8, 6, 7],
            [9, 8, 1],
        ];
        let on_sphere = |p: Vec3| p.normalize() * 7.3 + Vec3::new(11.0, 12.0, 13.0);
        let place = |i: usize| Vec3::from_array(places[i]);
        let mut all: Vec<[Vec3; 3]> = faces.iter().map(|f| f.map(place)).collect();
        for _ in 0..divisions {
            let quarters = |[a, b, c]: &[Vec3; 3]| {
                let [ab, bc, ca] = [*a + *b, *b + *c, *c + *a].map(|p| p * 0.5);
                [[*a, ab, ca], [ab, *b, bc], [ca, bc, *c], [ab, bc, ca]]
            };
            all = all.iter().flat_map(quarters).collect();
        }
        all.iter().map(|t| triangle(t.map(on_sphere), 0)).collect()
    }

    fn corners() -> impl Strategy<Value = [Vec3; 3]> {
        let place = prop::array::uniform3(-9.0f32..9.0).prop_map(Vec3::from_array);
        let size = prop_oneof![Just(1.0f32), Just(0.05), Just(0.0)];
        (
            place,
            size,
            prop::array::uniform2(prop::array::uniform3(-1.0f32..1.0)),
        )
            .prop_map(|(a, size, ways)| {
                let [b, c] = ways.map(|way| a + Vec3::from_array(way) * size * 9.0);
                [a, b, c]
            })
    }

    fn place() -> impl Strategy<Value = DVec3> {
        prop::array::uniform3(-12.0f64..12.0).prop_map(DVec3::from_array)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn all_hits_are_those_of_all_triangles(soup in prop::collection::vec(corners(), 0..200), eye in place(), at in place()) {
            let triangles: Vec<Triangle> = soup.into_iter().zip(0..).map(|(c, n)| triangle(c, n)).collect();
            let tree = tree_of(&triangles);
            let ray = ray(eye, at - eye);
            let mut expected: Vec<(f64, u32)> = triangles.iter()
                .filter_map(|t| by_formula(t, &ray).filter(|(_, inside)| *inside > 1e-7).map(|(at, _)| (at, t.material))).collect();
            expected.sort_by(|a, b| a.0.total_cmp(&b.0));
            let found = hits(&tree, &ray, false);
            prop_assert!(found.is_sorted_by(|a, b| a.at <= b.at));
            // What is nearer to an edge than roundings may be found or not.
            let is_clear = |hit: &&TriangleHit| expected.iter().any(|(_, material)| hit.material == *material);
            let clear: Vec<_> = found.iter().filter(is_clear).collect();
            prop_assert_eq!(clear.len(), expected.len());
            for (hit, (at, material)) in clear.iter().zip(&expected) {
                prop_assert!((hit.at - at).abs() <= 1e-6 * (1.0 + at) && hit.material == *material, "{hit:?} {at}");
            }
            let nearest = hits(&tree, &ray, true);
            prop_assert_eq!(nearest.first().map(|h| h.at), found.first().map(|h| h.at));
        }

        #[test]
        fn whatever_the_order_and_the_cuts_rays_meet_the_same(soup in prop::collection::vec(corners(), 0..200), cuts in prop::collection::vec(0u8..40, 200),
            eye in place(), at in place()) {
            let triangles: Vec<Triangle> = soup.into_iter().zip(0..).map(|(c, n)| triangle(c, n)).collect();
            let expected = tree_of(&triangles);
            let mut bytes = bytes_of(&triangles).to_vec();
            let (all, _) = bytes.as_chunks_mut();
            all.iter_mut().zip(cuts).for_each(|(triangle, level)| set_cut(triangle, level));
            let tree = TriangleTree::new(bytes.into(), TriangleOrder::ByLeaves);
            let ray = ray(eye, at - eye);
            prop_assert_eq!(hits(&tree, &ray, false), hits(&expected, &ray, false));
            is_within_memory(&tree)?;
        }

        #[test]
        fn in_order_they_stay_as_they_are(soup in prop::collection::vec(corners(), 0..200)) {
            let triangles: Vec<Triangle> = soup.into_iter().zip(0..).map(|(c, n)| triangle(c, n)).collect();
            let ordered = Bytes::from(by_leaves(&bytes_of(&triangles)));
            let tree = TriangleTree::new(ordered.clone(), TriangleOrder::ByLeaves);
            prop_assert_eq!(tree.triangles.as_ptr(), ordered.as_ptr());
            prop_assert_eq!(tree.words(), tree_of(&triangles).words());
            let mut materials: Vec<u32> = read(&ordered).map(|t| t.material).collect();
            materials.sort_unstable();
            prop_assert!(materials.into_iter().eq((0..).take(triangles.len())));
            is_within_memory(&tree)?;
        }

        #[test]
        fn parts_of_space_share_the_hits_out(soup in prop::collection::vec(corners(), 1..60), eye in place(), at in place(), plane in -9.0f64..9.0) {
            let triangles: Vec<Triangle> = soup.into_iter().map(|c| triangle(c, 0)).collect();
            let tree = tree_of(&triangles);
            let whole = ray(eye, at - eye);
            let all = hits(&tree, &whole, false);
            let [mut below, mut above] = [whole; 2];
            below.points[1].y = plane;
            above.points[0].y = plane;
            let mut parts = [hits(&tree, &below, false), hits(&tree, &above, false)].concat();
            parts.sort_by(|a, b| a.at.total_cmp(&b.at));
            prop_assert_eq!(&parts, &all);
            let middle = all.get(all.len() / 2).map_or(1.0, |h| h.at);
            let near = TriangleRay { way: [0.0, middle.next_down()], ..whole };
            let far = TriangleRay { way: [middle, f64::INFINITY], ..whole };
            prop_assert_eq!([hits(&tree, &near, false), hits(&tree, &far, false)].concat(), all);
        }

        #[test]
        fn no_ray_passes_a_closed_surface(from in prop::array::uniform3(-2.0f64..2.0), pick in any::<prop::sample::Index>(),
            part in prop_oneof![Just(0.0f32), Just(0.5), Just(1.0), 0.0f32..1.0], scale in prop_oneof![Just(1.0), Just(1e-3), Just(1e4)]) {
            let mut triangles = sphere(2);
            triangles.iter_mut().for_each(|t| t.corners.iter_mut().for_each(|c| *c *= scale));
            let tree = tree_of(&triangles);
            // Through an edge or a corner, from inside.
            let [a, b, _] = triangles[pick.index(triangles.len())].corners;
            let to = (a + (b - a) * part).as_dvec3();
            let eye = (DVec3::new(11.0, 12.0, 13.0) + DVec3::from_array(from)) * f64::from(scale);
            let found = hits(&tree, &ray(eye, to - eye), false);
            prop_assert_eq!(found.len(), 1, "{:?}", found);
            // From outside in, and out again.
            let outside = eye - (to - eye) * 9.0;
            let found = hits(&tree, &ray(outside, to - outside), false);
            prop_assert_eq!(found.len(), 2, "{:?}", found);
            // Along an axis, too: not a direction of a sphere's edge, but of the boxes around them.
            for axis in DVec3::AXES.into_iter().flat_map(|axis| [axis, -axis]) {
                prop_assert_eq!(hits(&tree, &ray(eye, axis), true).len().min(1), 1);
            }
        }
    }

    #[test]
    fn first_hits_of_a_million_rays_are_those_of_all_triangles() {
        let triangles = sphere(2);
        let tree = tree_of(&triangles);
        let (rays, middle) = (1_000_000_u32, DVec3::new(11.0, 12.0, 13.0));
        let mut other = 0;
        for n in 0..rays {
            // Points on a sphere around it, and targets in a ball that is larger than it.
            let spot = |n: f64, spread: f64| {
                let z = 1.0 - 2.0 * (n * 0.618_033_988_75).fract();
                let (sin, cos) = (n * spread).sin_cos();
                DVec3::new(cos, sin, 0.0) * (1.0 - z * z).sqrt() + DVec3::Z * z
            };
            let eye = middle + spot(f64::from(n), 2.399_963) * 30.0;
            let target = middle
                + spot(f64::from(n) * 1.7, 1.234_567) * (9.0 * f64::from(n) / f64::from(rays));
            let ray = ray(eye, target - eye);
            let all = triangles.iter().filter_map(|t| by_formula(t, &ray));
            let expected = all.map(|(at, _)| at).min_by(f64::total_cmp);
            let found = hits(&tree, &ray, true).first().map(|h| h.at);
            let is_same = match (expected, found) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-9,
                (a, b) => a == b,
            };
            other += u32::from(!is_same);
        }
        assert!(other <= rays / 10_000, "{other} rays differ");
    }

    #[test]
    fn the_order_is_the_same_on_every_machine() {
        let ordered = by_leaves(&bytes_of(&sphere(3)));
        assert_eq!(
            Digest::of(&ordered).to_string(),
            "6de1893b2fa00f32373e7983528cfb45efb514254489be8ff69df3a328aaa34f"
        );
    }

    #[test]
    fn normals_are_mixed_between_corners() {
        let corners = [Vec3::ZERO, Vec3::X * 4.0, Vec3::Y * 4.0];
        let mut bent = triangle(corners, 0);
        bent.normals[1] = PackedNormal::new(Vec3::X);
        let tree = tree_of(&[bent]);
        let at = |x: f64| {
            let hit = hits(&tree, &ray(DVec3::new(x, 0.5, 5.0), DVec3::NEG_Z), false)[0];
            Vec3::from_array(hit.normal).normalize()
        };
        assert!(at(0.01).z > 0.99);
        let [a, b] = [at(1.0), at(2.5)];
        assert!(a.x > 0.1 && b.x > a.x && b.z < a.z, "{a} {b}");
        assert!(tree_of(&[]).nodes.is_empty());
    }

    #[test]
    fn a_coplanar_pair_is_met_once_on_its_edge() {
        let [a, b, c, d] =
            [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]].map(|[x, y]| Vec3::new(x, y, 0.0));
        let tree = tree_of(&[triangle([a, b, c], 0), triangle([a, c, d], 0)]);
        let met =
            |x: f64, y: f64| hits(&tree, &ray(DVec3::new(x, y, 9.0), DVec3::NEG_Z), false).len();
        assert_eq!(
            [met(1.0, 1.0), met(2.0, 1.0), met(0.0, 0.0), met(5.0, 5.0)],
            [1, 1, 1, 0]
        );
    }
}

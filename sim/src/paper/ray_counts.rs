//! How many samples a picture's rays cast in any box of the volume.
//!
//! Method: a coarse set of rays, each standing for the same number of pixels, is walked through
//! the cells (Amanatides, Woo 1987); a ray adds its length in a cell, times the share of it that
//! is sampled, to the cell. Where light dies, a ray ends inside a brick once it has none left, and
//! starts afresh in the next brick: jobs are rendered independently. A summed-area table then
//! gives the count of any box, cells counted by the share that lies inside.
//!
//! Simplification: a brick's later halves do not start afresh when it is split.

use super::{
    EDGE,
    cell_volume::{CELL_VOXELS, CELLS, CellVolume},
};
use brickmesh_topology::{View, VoxelBox};
use glam::DVec3;

/// Rays on each axis of the picture.
pub(super) const RAYS: u32 = 80;
/// A ray with less light than this ends: what is behind cannot be seen in 8 bits.
const LIGHT_MIN: f64 = 1.0 / 512.0;
/// Corners of cells on each axis.
const CORNERS: usize = CELLS + 1;

/// Samples by box of one frame, for the brick sizes that are compared: the rays are the same, only
/// where they start afresh differs.
#[derive(Clone, Debug)]
pub(super) struct RayCounter {
    /// By brick size.
    counts: [RayCounts; SIZES],
    /// The brick that a cell lies in, on one axis.
    brick_of: [[u8; CELLS]; SIZES],
}

/// Brick sizes that are compared.
pub(super) const SIZES: usize = 2;

/// Samples by box, of one frame.
#[derive(Clone, Debug)]
pub(super) struct RayCounts {
    /// Samples per cell.
    cells: Vec<f64>,
    /// Sums over all cells below each corner.
    table: Vec<f64>,
}

impl RayCounter {
    /// A counter for bricks of these edges, in voxels.
    pub(super) fn new(brick_edges: [u32; SIZES]) -> Self {
        let counts = RayCounts {
            cells: vec![0.0; CELLS * CELLS * CELLS],
            table: vec![0.0; CORNERS * CORNERS * CORNERS],
        };
        let brick_of = brick_edges.map(|edge| {
            let cells = (edge / CELL_VOXELS) as usize;
            std::array::from_fn(|cell| u8::try_from(cell / cells).unwrap_or(0))
        });
        Self {
            counts: [counts.clone(), counts],
            brick_of,
        }
    }

    /// Counts the samples of a view at `step` voxels; the counts by brick size.
    pub(super) fn count(
        &mut self,
        volume: &CellVolume,
        view: &View,
        step: f64,
    ) -> &[RayCounts; SIZES] {
        self.counts.iter_mut().for_each(|c| c.cells.fill(0.0));
        let pixels = f64::from(view.width) * f64::from(view.height);
        let weight = pixels / f64::from(RAYS * RAYS) / step;
        let scale = f64::from(view.width) / f64::from(RAYS);
        for y in 0..RAYS {
            for x in 0..RAYS {
                let [px, py] = [x, y].map(|i| (f64::from(i) + 0.5) * scale);
                let direction = view.direction_through(px, py).normalize();
                self.walk(volume, view.eye, direction, weight);
            }
        }
        self.counts.iter_mut().for_each(RayCounts::sum_up);
        &self.counts
    }

    /// Adds one ray; `direction` is a unit vector.
    fn walk(&mut self, volume: &CellVolume, eye: DVec3, direction: DVec3, weight: f64) {
        let Some(mut cursor) = Cursor::enter(eye, direction) else {
            return;
        };
        let mut light = [1.0_f64; SIZES];
        while let Some(visit) = cursor.next() {
            let here = volume.cells()[visit.cell];
            if here.sampled > 0.0 {
                let samples = weight * visit.length * f64::from(here.sampled);
                // exp(−x) as 1/(1 + x + x²/2 + x³/6): the same on every machine.
                let x = f64::from(here.extinction) * visit.length;
                let fade = 1.0 / (1.0 + x * (1.0 + x * (0.5 + x / 6.0)));
                for (counts, light) in self.counts.iter_mut().zip(&mut light) {
                    if *light >= LIGHT_MIN {
                        counts.cells[visit.cell] += samples;
                        *light *= fade;
                    }
                }
            }
            let [from, to] = visit.step;
            for (brick_of, light) in self.brick_of.iter().zip(&mut light) {
                if brick_of[from] != brick_of[to] {
                    *light = 1.0;
                }
            }
        }
    }
}

/// A ray on its way through the cells.
struct Cursor {
    at: [usize; 3],
    forward: [bool; 3],
    /// Where the ray leaves the cell on each axis, and how far cells are apart, along the ray.
    next: [f64; 3],
    delta: [f64; 3],
    t: f64,
    leave: f64,
    inside: bool,
}

/// A cell that a ray crosses.
struct Visit {
    cell: usize,
    /// Voxels of the ray in it.
    length: f64,
    /// Its place on the axis on which the ray leaves it, and the next cell's.
    step: [usize; 2],
}

impl Cursor {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the cells before"
    )]
    fn enter(eye: DVec3, direction: DVec3) -> Option<Self> {
        let (edge, cell) = (f64::from(EDGE), f64::from(CELL_VOXELS));
        let inverse = direction.recip();
        let (low, high) = ((-eye) * inverse, (DVec3::splat(edge) - eye) * inverse);
        let enter = low.min(high).max_element().max(0.0);
        let leave = low.max(high).min_element();
        if leave <= enter || !leave.is_finite() {
            return None;
        }
        let start = (eye + direction * enter) / cell;
        let last = (CELLS - 1) as f64;
        let at = start.to_array().map(|s| s.clamp(0.0, last) as usize);
        let forward = direction.to_array().map(|d| d >= 0.0);
        let next = std::array::from_fn(|a| {
            let plane = (at[a] + usize::from(forward[a])) as f64 * cell;
            let t = (plane - eye[a]) * inverse[a];
            if t.is_finite() { t } else { f64::INFINITY }
        });
        Some(Self {
            at,
            forward,
            next,
            delta: (inverse * cell).abs().to_array(),
            t: enter,
            leave,
            inside: true,
        })
    }

    /// The next cell, from the eye on.
    fn next(&mut self) -> Option<Visit> {
        if !self.inside {
            return None;
        }
        let [x, y, z] = self.next;
        let axis = if x <= y && x <= z {
            0
        } else {
            1 + usize::from(z < y)
        };
        let cell = self.at[0] + CELLS * (self.at[1] + CELLS * self.at[2]);
        let end = self.next[axis].min(self.leave);
        let length = (end - self.t).max(0.0);
        self.t = self.t.max(end);
        self.next[axis] += self.delta[axis];
        let from = self.at[axis];
        let to = if self.forward[axis] {
            from + 1
        } else {
            from.wrapping_sub(1)
        };
        self.inside = self.t < self.leave && to < CELLS;
        let to = if self.inside { to } else { from };
        self.at[axis] = to;
        Some(Visit {
            cell,
            length,
            step: [from, to],
        })
    }
}

impl RayCounts {
    fn sum_up(&mut self) {
        let corner = |x: usize, y: usize, z: usize| x + CORNERS * (y + CORNERS * z);
        for z in 0..CELLS {
            for y in 0..CELLS {
                let mut row = 0.0;
                for x in 0..CELLS {
                    row += self.cells[x + CELLS * (y + CELLS * z)];
                    let t = &self.table;
                    let below = t[corner(x + 1, y, z + 1)] + t[corner(x + 1, y + 1, z)]
                        - t[corner(x + 1, y, z)];
                    self.table[corner(x + 1, y + 1, z + 1)] = row + below;
                }
            }
        }
    }

    /// Samples cast in a box.
    pub(super) fn samples(&self, owned: &VoxelBox) -> f64 {
        let mut sum = 0.0;
        for corner in 0..8_u32 {
            let high = |a: u32| corner >> a & 1 == 1;
            let at = [0, 1, 2].map(|a| {
                if high(a) {
                    owned.hi[a as usize]
                } else {
                    owned.lo[a as usize]
                }
            });
            let below = self.below(at);
            // A corner counts positively when an odd number of its coordinates are upper ones.
            if corner.count_ones() % 2 == 1 {
                sum += below;
            } else {
                sum -= below;
            }
        }
        sum.max(0.0)
    }

    /// Samples in the box from the origin to `at`, in voxels; linear within cells.
    fn below(&self, at: [u32; 3]) -> f64 {
        let cell = at.map(|v| (v / CELL_VOXELS) as usize);
        let part = at.map(|v| f64::from(v % CELL_VOXELS) / f64::from(CELL_VOXELS));
        let mut sum = 0.0;
        for corner in 0..8_usize {
            let (mut share, mut index, mut stride) = (1.0, 0, 1);
            for a in 0..3 {
                let upper = corner >> a & 1;
                share *= if upper == 1 { part[a] } else { 1.0 - part[a] };
                index += stride * (cell[a] + upper);
                stride *= CORNERS;
            }
            if share > 0.0 {
                sum += share * self.table[index];
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{camera_path::Pose, cell_volume::VolumeKind};

    fn counted(kind: VolumeKind, brick_edge: u32) -> RayCounts {
        let pose = Pose {
            eye: DVec3::new(300.0, -1500.0, 700.0),
            at: DVec3::splat(512.0),
        };
        let mut counter = RayCounter::new([brick_edge, 352]);
        let [counts, _] = counter.count(&CellVolume::new(kind), &pose.view(0.5, 1024), 1.0);
        counts.clone()
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let counts = counted(VolumeKind::Jet, 352);
        let all = VoxelBox::new([0; 3], [EDGE; 3]);
        let (mut low, mut high) = (all, all);
        (low.hi[1], high.lo[1]) = (333, 333);
        let sum = counts.samples(&low) + counts.samples(&high);
        assert!((sum / counts.samples(&all) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_full_volume_is_sampled_along_every_ray() {
        let counts = counted(VolumeKind::Filled, 352);
        // Marched at the same rays: the length of each in the cube.
        let pose = Pose {
            eye: DVec3::new(300.0, -1500.0, 700.0),
            at: DVec3::splat(512.0),
        };
        let view = pose.view(0.5, 1024);
        let mut length = 0.0;
        for i in 0..RAYS * RAYS {
            let at = |i: u32| (f64::from(i) + 0.5) * 1024.0 / f64::from(RAYS);
            let d = view
                .direction_through(at(i % RAYS), at(i / RAYS))
                .normalize();
            let (a, b) = (-pose.eye / d, (DVec3::splat(1024.0) - pose.eye) / d);
            length += (a.max(b).min_element() - a.min(b).max_element()).max(0.0);
        }
        let expected = length * 1024.0 * 1024.0 / f64::from(RAYS * RAYS);
        let found = counts.samples(&VoxelBox::new([0; 3], [EDGE; 3]));
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn rays_end_where_no_light_is_left_and_start_afresh_in_each_brick() {
        let all = VoxelBox::new([0; 3], [EDGE; 3]);
        let samples = |edge| counted(VolumeKind::Jet, edge).samples(&all);
        assert!(samples(1024) < samples(352) && samples(352) < samples(256));
    }
}

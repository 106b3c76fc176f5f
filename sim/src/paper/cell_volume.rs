//! The volumes of the evaluation, as coarse cells: how much of a cell a ray caster samples, and
//! how fast light dies in it.
//!
//! Shapes: 32³ cells of 32³ voxels, x fastest; bricks of 352 and of 256 voxels are whole cells.
//! Space: grid; formulas in units of the volume's edge, from 0 to 1.

use super::{EDGE, parameters::Parameters};
use brickmesh_topology::{
    BrickGrid, VoxelBox,
    data::cell_ranges::{CellMask, cell_box, mask_of},
};
use serde::Serialize;

/// Cells on each axis.
pub(super) const CELLS: usize = 32;
/// Edge of a cell in voxels.
pub(super) const CELL_VOXELS: u32 = 32;
/// Points of a cell that are looked at on each axis: blocks of 8 voxels, a ray caster's macrocell.
const POINTS: usize = 4;

/// A volume of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum VolumeKind {
    /// Every voxel is seen, all but transparent: every ray samples all that it crosses.
    Filled,
    /// A jet, three blobs and a shell, three quarters of the cube empty, opaque enough for rays
    /// to end.
    Jet,
}

impl VolumeKind {
    /// Times of a plain sample that a sample takes: the jet is lit, so its gradients are needed.
    pub(super) fn fetches(self, parameters: &Parameters) -> f64 {
        match self {
            Self::Filled => 1.0,
            Self::Jet => parameters.lit_fetches,
        }
    }
}

/// What rays do in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cell {
    /// Share of its blocks that are sampled, not skipped.
    pub(super) sampled: f32,
    /// Mean extinction per voxel.
    pub(super) extinction: f32,
}

/// A volume as cells.
#[derive(Clone, Debug)]
pub(super) struct CellVolume {
    cells: Vec<Cell>,
}

/// Density of the jet volume at a point of the unit cube, 0 to 1; seen where it is above 0.
///
/// The largest of: a jet along x, `1 − (r/w)²` with r the distance from its bent axis
/// `y = 0.5 + 0.1·(4x(1−x) − 0.5)`, `z = 0.45` and `w = 0.05 + 0.14·x`; three blobs
/// `1 − (d/R)²`; a shell `1 − ((d − 0.3)/0.03)²` around (0.62, 0.55, 0.6).
fn jet_density(x: f64, y: f64, z: f64) -> f64 {
    let square = |v: f64| v * v;
    let bend = 0.5 + 0.1 * (4.0 * x * (1.0 - x) - 0.5);
    let mut density = 1.0 - (square(y - bend) + square(z - 0.45)) / square(0.05 + 0.14 * x);
    let distance = |c: [f64; 3]| square(x - c[0]) + square(y - c[1]) + square(z - c[2]);
    for (center, radius) in [
        ([0.2, 0.75, 0.7], 0.14),
        ([0.3, 0.2, 0.25], 0.17),
        ([0.75, 0.15, 0.8], 0.12),
    ] {
        density = density.max(1.0 - distance(center) / square(radius));
    }
    let shell = distance([0.62, 0.55, 0.6]).sqrt() - 0.3;
    density.max(0.4 * (1.0 - square(shell / 0.03))).max(0.0)
}

/// Extinction per voxel where the jet volume's density is 1: half the light is gone after 23
/// voxels.
const JET_EXTINCTION: f64 = 0.03;

impl CellVolume {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "small counts; f32 is enough for shares"
    )]
    pub(super) fn new(kind: VolumeKind) -> Self {
        let filled = Cell {
            sampled: 1.0,
            extinction: 0.0,
        };
        let n = (CELLS * POINTS) as f64;
        let at = |cell: usize, point: usize| ((cell * POINTS + point) as f64 + 0.5) / n;
        let jet = |[cx, cy, cz]: [usize; 3]| {
            let (mut seen, mut sum) = (0_u32, 0.0);
            for p in 0..POINTS * POINTS * POINTS {
                let [px, py, pz] = [p % POINTS, p / POINTS % POINTS, p / POINTS / POINTS];
                let density = jet_density(at(cx, px), at(cy, py), at(cz, pz));
                seen += u32::from(density > 0.0);
                sum += density;
            }
            let points = (POINTS * POINTS * POINTS) as f64;
            Cell {
                sampled: (f64::from(seen) / points) as f32,
                extinction: (JET_EXTINCTION * sum / points) as f32,
            }
        };
        let cells = (0..CELLS * CELLS * CELLS).map(|i| match kind {
            VolumeKind::Filled => filled,
            VolumeKind::Jet => jet([i % CELLS, i / CELLS % CELLS, i / CELLS / CELLS]),
        });
        Self {
            cells: cells.collect(),
        }
    }

    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Which of the cells of each brick can be seen, as the manifest would say.
    pub(super) fn visible_masks(&self, grid: &BrickGrid) -> Vec<CellMask> {
        let mask = |owned: VoxelBox| mask_of(|cell| self.any_seen(&cell_box(&owned, cell)));
        grid.bricks().map(|b| mask(grid.owned_box(b))).collect()
    }

    fn any_seen(&self, part: &VoxelBox) -> bool {
        let range = |a: usize| {
            let end = part.hi[a].min(EDGE).div_ceil(CELL_VOXELS) as usize;
            (part.lo[a] / CELL_VOXELS) as usize..end
        };
        range(2).any(|z| {
            range(1)
                .any(|y| range(0).any(|x| self.cells[x + CELLS * (y + CELLS * z)].sampled > 0.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jet_is_mostly_empty_and_the_filled_volume_is_full() {
        let sampled = |kind| {
            let volume = CellVolume::new(kind);
            let sum: f32 = volume.cells().iter().map(|c| c.sampled).sum();
            sum / 32_768.0
        };
        let share = sampled(VolumeKind::Jet);
        assert!((0.1..0.3).contains(&share), "{share}");
        let filled = CellVolume::new(VolumeKind::Filled);
        assert!((sampled(VolumeKind::Filled) - 1.0).abs() < 1e-6);
        let grid = BrickGrid::new([EDGE; 3], 352).unwrap();
        let masks = filled.visible_masks(&grid);
        assert!(masks.iter().flatten().all(|&layer| layer == u64::MAX));
    }
}

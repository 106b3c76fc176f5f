//! Which cells of the bricks can be seen with some settings: what is not seen is no work.

use crate::{
    base::digest::Digest,
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        cell_ranges::{
            ALL, CELLS_PER_AXIS, CellMask, NONE, PER_AXIS, cell_box, cell_plane, mask_of,
        },
        manifest::Manifest,
        voxel_box::VoxelBox,
    },
    picture::{
        clip::{GridClip, Kept},
        render_settings::RenderSettings,
    },
};
use glam::DVec3;
use std::sync::Arc;

/// Cells along an axis, counted.
const NUMBERS: [u32; PER_AXIS] = [0, 1, 2, 3, 4, 5, 6, 7];
/// Cells of half a row.
const HALF: usize = PER_AXIS / 2;

/// Which cells of every brick can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleCells(Vec<CellMask>);

impl VisibleCells {
    /// The visible cells of a data set. O(cells · log points); the same for every camera, so
    /// worth keeping while what the settings show stays.
    #[must_use]
    pub fn of(manifest: &Manifest, settings: &RenderSettings) -> Self {
        let mut shown = settings.clip.clone();
        let slab = settings
            .slice()
            .map(|slice| slice.bounds(manifest.volume(), settings.step));
        shown.planes.extend(slab.into_iter().flatten());
        let clip = GridClip::new(&shown, manifest.volume());
        let mask = |brick| {
            let owned = manifest.grid().owned_box(brick);
            let kept = match clip.kept(&owned) {
                Kept::All => ALL,
                Kept::Some => kept_cells(&clip, &owned),
                Kept::Nothing => return NONE,
            };
            let triangles = manifest.brick_triangles(brick);
            let triangles = triangles.filter(|_| settings.shows_triangles());
            let triangles = triangles.map_or(NONE, |t| t.cells);
            let voxels = cells_of_voxels(manifest, settings, brick);
            std::array::from_fn(|z| (voxels[z] | triangles[z]) & kept[z])
        };
        Self(manifest.grid().bricks().map(mask).collect())
    }

    /// These masks, one a brick, as a simulation makes them without voxels.
    #[must_use]
    pub fn from_masks(masks: Vec<CellMask>) -> Self {
        Self(masks)
    }

    /// Whether any cell of a brick is visible.
    #[must_use]
    pub fn any(&self, brick: BrickIndex) -> bool {
        *self.mask(brick) != NONE
    }

    /// The share of a box inside a brick that visible cells cover, 0 to 1.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "voxels of a brick are far below 2^53"
    )]
    pub fn share(&self, grid: &BrickGrid, brick: BrickIndex, part: &VoxelBox) -> f64 {
        let mask = self.mask(brick);
        if *mask == NONE || *mask == ALL {
            return if *mask == NONE { 0.0 } else { 1.0 };
        }
        let owned = grid.owned_box(brick);
        let [xs, ys, zs] = [0, 1, 2].map(|a| overlaps(&owned, part, a));
        let [a, b, c, d, e, f, g, h] = xs;
        // Split candidates ask this thousands of times a frame: rows are looked up by halves.
        let (low, high) = (sums([a, b, c, d]), sums([e, f, g, h]));
        let mut covered = 0;
        for (layer, dz) in mask.iter().zip(zs).filter(|&(&l, d)| l != 0 && d > 0) {
            let rows = layer.to_le_bytes().map(usize::from);
            let seen = |(row, dy): (usize, u32)| {
                let dx = low[row % (1 << HALF)] + high[row >> HALF];
                u64::from(dx) * u64::from(dy)
            };
            let area: u64 = rows.into_iter().zip(ys).map(seen).sum();
            covered += area * u64::from(dz);
        }
        covered as f64 / part.voxel_count().max(1) as f64
    }

    /// The box around the visible cells of a box inside a brick, as far as they lie in that; `None`: there are none.
    #[must_use]
    pub fn bounds(&self, grid: &BrickGrid, brick: BrickIndex, part: &VoxelBox) -> Option<VoxelBox> {
        let mask = self.mask(brick);
        if *mask == ALL {
            return Some(*part);
        }
        let owned = grid.owned_box(brick);
        let [xs, ys, zs] = [0, 1, 2].map(|a| bits(overlaps(&owned, part, a)));
        let rows = (0..PER_AXIS).filter(|y| ys >> y & 1 == 1);
        let inside = rows.fold(0, |all, y| all | u64::from(xs) << (y * PER_AXIS));
        let layers = mask.map(|layer| layer & inside);
        let union = layers.iter().zip(0..).filter(|(_, z)| zs >> z & 1 == 1);
        let union = union.fold(0, |all, (layer, _)| all | layer);
        let rows = union.to_le_bytes();
        let seen = [
            rows.iter().fold(0, |all, row| all | row),
            bits(rows.map(u32::from)),
            bits(layers.map(|layer| u32::from(layer != 0))) & zs,
        ];
        (union != 0).then(|| VoxelBox {
            lo: std::array::from_fn(|a| {
                cell_plane(&owned, a, seen[a].trailing_zeros()).max(part.lo[a])
            }),
            hi: std::array::from_fn(|a| {
                cell_plane(&owned, a, u8::BITS - seen[a].leading_zeros()).min(part.hi[a])
            }),
        })
    }

    /// Where a ray first meets a visible cell, in world units, to within a few voxels; `None`: it meets
    /// none. For who has no voxels.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "inside the volume"
    )]
    pub fn first_on_ray(&self, manifest: &Manifest, eye: DVec3, along: DVec3) -> Option<DVec3> {
        let (volume, grid) = (manifest.volume(), manifest.grid());
        let to_grid = volume.grid_from_world();
        let start = to_grid.transform_point3(eye);
        let along = to_grid.transform_vector3(along).try_normalize()?;
        // Voxel (i,j,k) is from i − ½ to i + ½.
        let [mut near, mut far] = [0.0, f64::INFINITY];
        for axis in 0..3 {
            let end = |at: f64| (at - start[axis]) / along[axis];
            let ends = [end(-0.5), end(f64::from(volume.dims[axis]) - 0.5)];
            near = f64::max(near, ends[0].min(ends[1]));
            far = f64::min(far, ends[0].max(ends[1]));
        }
        // Half a cell, of which a brick has as many as voxels at most.
        let step = f64::max(0.5, f64::from(grid.edge() / CELLS_PER_AXIS) * 0.5);
        let mut at = near + 1e-6;
        while at < far {
            let point = start + along * at;
            let voxel: [u32; 3] =
                std::array::from_fn(|a| ((point[a] + 0.5).max(0.0) as u32).min(volume.dims[a] - 1));
            let brick = grid.index(voxel.map(|v| v / grid.edge()))?;
            let voxel = VoxelBox::new(voxel, voxel.map(|v| v + 1));
            if self.share(grid, brick, &voxel) > 0.0 {
                return Some(volume.world_from_grid().transform_point3(point));
            }
            at += step;
        }
        None
    }

    fn mask(&self, brick: BrickIndex) -> &CellMask {
        self.0.get(brick.0 as usize).unwrap_or(&ALL)
    }
}

/// The cells of a brick in which something of its voxels can be seen.
fn cells_of_voxels(manifest: &Manifest, settings: &RenderSettings, brick: BrickIndex) -> CellMask {
    let Some(stored) = manifest.brick_range(brick) else {
        return NONE;
    };
    let range = stored.map(|stored| manifest.volume().value(stored));
    if !settings.can_show(range) {
        return NONE;
    }
    // What is seen of a sample may be in the next cell.
    let cells = manifest.brick_cells(brick);
    let cells = cells.filter(|_| !settings.is_preintegrated());
    cells.map_or(ALL, |cells| cells.visible(range, |r| settings.can_show(r)))
}

/// The cells of a brick of which something is kept.
fn kept_cells(clip: &GridClip, owned: &VoxelBox) -> CellMask {
    mask_of(|cell| clip.kept(&cell_box(owned, cell)) != Kept::Nothing)
}

/// Voxels of `part` in each cell along an axis.
fn overlaps(owned: &VoxelBox, part: &VoxelBox, axis: usize) -> [u32; PER_AXIS] {
    NUMBERS.map(|i| {
        let (lo, hi) = (cell_plane(owned, axis, i), cell_plane(owned, axis, i + 1));
        hi.min(part.hi[axis]).saturating_sub(lo.max(part.lo[axis]))
    })
}

/// Which of the numbers are not 0, the first in the lowest bit.
fn bits(of: [u32; PER_AXIS]) -> u8 {
    let set = of.iter().zip(NUMBERS).filter(|(n, _)| **n > 0);
    set.fold(0, |bits, (_, i)| bits | 1 << i)
}

/// For every pattern of four neighbouring cells the sum of what `of` says of those that are in it.
fn sums(of: [u32; HALF]) -> [u32; 1 << HALF] {
    let mut sums = [0; 1 << HALF];
    for (bit, value) in of.into_iter().enumerate() {
        for pattern in 0..1 << bit {
            sums[pattern | 1 << bit] = sums[pattern] + value;
        }
    }
    sums
}

/// Keeps the visible cells of the last settings: they stay the same while the camera moves, and cost
/// more than the rest of a plan.
#[derive(Debug, Default)]
pub struct VisibleCellsCache {
    last: Option<(Digest, RenderSettings, Arc<VisibleCells>)>,
}

impl VisibleCellsCache {
    /// What settings show of a data set.
    pub fn cells(&mut self, manifest: &Manifest, settings: &RenderSettings) -> Arc<VisibleCells> {
        let data_set = manifest.digest();
        match &self.last {
            Some((d, last, cells)) if *d == data_set && settings.shows_as(last) => {
                Arc::clone(cells)
            }
            _ => {
                let cells = Arc::new(VisibleCells::of(manifest, settings));
                self.last = Some((data_set, settings.clone(), Arc::clone(&cells)));
                cells
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{
        cell_ranges::CellRanges,
        manifest::ManifestParts,
        transfer_function::{TransferFunction, TransferPoint},
        volume::VolumeDescription,
        volume::VoxelType,
    };
    use proptest::prelude::*;

    fn volume(dims: [u32; 3], voxel: VoxelType) -> VolumeDescription {
        VolumeDescription::new(dims, voxel)
    }

    /// A step: opaque from `value` on.
    fn from(value: f64) -> RenderSettings {
        let point = |value, opacity| TransferPoint {
            value,
            color: [1.0; 3],
            opacity,
        };
        let transfer = TransferFunction {
            unit_distance: None,
            points: vec![point(value - 1e-9, 0.0), point(value, 1.0)],
        };
        RenderSettings::new(transfer, 0.5)
    }

    /// 16³ voxels in one brick; the value is x.
    fn ramp() -> (BrickGrid, [f64; 2], CellRanges) {
        let grid = BrickGrid::new([16; 3], 16).unwrap();
        let bytes: Vec<u8> = (0..16_u8).cycle().take(16 * 16 * 16).collect();
        let volume = volume([16; 3], VoxelType::U8);
        let (range, cells) = CellRanges::of(&grid, BrickIndex(0), &volume, &bytes);
        (grid, range.unwrap(), cells)
    }

    #[test]
    fn what_is_clipped_away_is_not_visible() {
        let bytes = |stored: &VoxelBox| vec![9; usize::try_from(stored.voxel_count()).unwrap()];
        let parts = ManifestParts::cut(volume([32; 3], VoxelType::U8), 16, "test", bytes).unwrap();
        let manifest = Manifest::try_from(parts).unwrap();
        let mut settings = from(1.0);
        settings.clip.bounds = Some([[18.0, 20.5, 16.0], [40.0, 30.0, 31.0]]);
        for preintegrate in [false, true] {
            settings.preintegrate = preintegrate;
            let visible = VisibleCells::of(&manifest, &settings);
            let seen: Vec<BrickIndex> = manifest
                .grid()
                .bricks()
                .filter(|b| visible.any(*b))
                .collect();
            assert_eq!(seen, [BrickIndex(7)]);
            let share = |lo, hi| visible.share(manifest.grid(), seen[0], &VoxelBox::new(lo, hi));
            assert!(share([16; 3], [18, 32, 32]) <= 0.0);
            assert!(share([18, 20, 16], [32, 30, 32]) >= 1.0);
        }
        settings.clip.planes = vec![[-1.0, 0.0, 0.0, -17.0]];
        let visible = VisibleCells::of(&manifest, &settings);
        assert!(!manifest.grid().bricks().any(|b| visible.share(
            manifest.grid(),
            b,
            &VoxelBox::new([18; 3], [32; 3])
        ) > 0.0));
    }

    #[test]
    fn cells_hold_the_voxels_that_interpolation_reads() {
        let (grid, range, cells) = ramp();
        assert!((range[0], range[1]) == (0.0, 15.0));
        // Values from 4 on: cell 1 reads voxels 2…4, so it may show them; from 4.1 on not.
        let shown = |value| {
            let visible = VisibleCells(vec![cells.visible(range, |r| from(value).can_show(r))]);
            let part = |lo, hi| VoxelBox::new([lo, 0, 0], [hi, 16, 16]);
            let parts = [part(0, 4), part(4, 8), part(0, 16)];
            parts.map(|p| visible.share(&grid, BrickIndex(0), &p) * 100.0)
        };
        let is =
            |percent: [f64; 3], value| (0..3).all(|i| (shown(value)[i] - percent[i]).abs() < 0.5);
        assert!(is([50.0, 100.0, 87.5], 4.0), "{:?}", shown(4.0));
        assert!(is([0.0, 100.0, 75.0], 4.1), "{:?}", shown(4.1));
        assert!(is([0.0, 0.0, 0.0], 16.0), "{:?}", shown(16.0));
    }

    proptest! {
        #[test]
        fn bounds_are_those_of_the_visible_cells_one_by_one(
            dims in prop::array::uniform3(1_u32..20),
            mask in prop::array::uniform8(any::<u64>().prop_flat_map(|a| any::<u64>().prop_map(move |b| a & b & 0x18_3c00_0081))),
            ends in prop::array::uniform3((0_u32..20, 1_u32..20)),
        ) {
            let grid = BrickGrid::new(dims, 20).unwrap();
            let owned = grid.owned_box(BrickIndex(0));
            let lo: [u32; 3] = std::array::from_fn(|a| ends[a].0.min(dims[a] - 1));
            let part = VoxelBox::new(lo, std::array::from_fn(|a| (lo[a] + ends[a].1).min(dims[a])));
            let cells = (0..512).filter(|i| mask[i / 64] >> (i % 64) & 1 == 1);
            let inside = cells.filter_map(|i| {
                let cell = cell_box(&owned, i);
                let lo: [u32; 3] = std::array::from_fn(|a| cell.lo[a].max(part.lo[a]));
                let hi: [u32; 3] = std::array::from_fn(|a| cell.hi[a].min(part.hi[a]));
                (0..3).all(|a| lo[a] < hi[a]).then_some((lo, hi))
            });
            let around = inside.reduce(|(l, h), (lo, hi)| {
                (std::array::from_fn(|a| l[a].min(lo[a])), std::array::from_fn(|a| h[a].max(hi[a])))
            });
            let visible = VisibleCells(vec![mask]);
            let bounds = visible.bounds(&grid, BrickIndex(0), &part);
            prop_assert_eq!(bounds.map(|b| (b.lo, b.hi)), around);
            prop_assert_eq!(bounds.is_some(), visible.share(&grid, BrickIndex(0), &part) > 0.0);
        }
    }

    #[test]
    fn bricks_of_one_voxel_and_of_one_value_have_cells() {
        let grid = BrickGrid::new([1, 1, 5], 4).unwrap();
        let volume = volume([1, 1, 5], VoxelType::U8);
        let (range, cells) = CellRanges::of(&grid, BrickIndex(1), &volume, &[7, 7]);
        let range = range.unwrap();
        assert!((range[0], range[1]) == (7.0, 7.0));
        let visible = VisibleCells(vec![ALL, cells.visible(range, |r| from(7.0).can_show(r))]);
        assert!(visible.any(BrickIndex(1)));
    }

    #[test]
    fn what_is_no_data_is_in_no_range_and_cells_of_nothing_else_are_not_visible() {
        let grid = BrickGrid::new([16; 3], 16).unwrap();
        let values = (0..16 * 16 * 16).map(|i| match i % 16 {
            0..5 => f32::NAN,
            5..10 => -9999.0,
            x => x as f32,
        });
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        let volume = VolumeDescription {
            fill: Some(-9999.0),
            ..volume([16; 3], VoxelType::F32)
        };
        let (range, cells) = CellRanges::of(&grid, BrickIndex(0), &volume, &bytes);
        assert_eq!(range, Some([10.0, 15.0]));
        let visible = VisibleCells(vec![
            cells.visible(range.unwrap(), |r| from(-1e9).can_show(r)),
        ]);
        let share = |lo, hi| {
            let part = VoxelBox::new([lo, 0, 0], [hi, 16, 16]);
            visible.share(&grid, BrickIndex(0), &part)
        };
        assert!(share(0, 8) <= 0.0, "voxel 10 is read from cell 4 on");
        assert!(share(8, 16) >= 1.0);
        let nothing = f32::NAN.to_le_bytes().repeat(16 * 16 * 16);
        let (range, cells) = CellRanges::of(&grid, BrickIndex(0), &volume, &nothing);
        assert_eq!(range, None);
        assert_eq!(cells.visible([0.0; 2], |r| from(-1e9).can_show(r)), NONE);
    }
}

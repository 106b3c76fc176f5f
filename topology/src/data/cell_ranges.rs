//! Value ranges of the cells of every brick, coarse enough to travel in the manifest: so that
//! peers that hold no voxel of a brick still know which parts of it can be seen, and agree on it.
//!
//! Shapes: a brick's owned box is cut into 8 cells on each axis (fewer voxels than cells make
//! empty cells); bit `x + 8·y` of layer z of a [`CellMask`] is a cell. Ranges are in 256 levels
//! between the brick's own bounds, rounded outwards: 1 KiB a brick.
//! Invariant: a cell's range holds every voxel that interpolation inside it reads and that is data; a
//! cell in which all is no data has a lower level above its upper one.
//! Not here: the devices' own macrocells, which are finer (`shaders`).

use crate::base::bytes_or_hex;
use crate::data::{
    brick_grid::{BrickGrid, BrickIndex},
    number_rows::{bounds, numbers_of, widen},
    volume::VolumeDescription,
    voxel_box::VoxelBox,
};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;

/// Cells of a brick on each axis.
pub const CELLS_PER_AXIS: u32 = 8;
pub(crate) const PER_AXIS: usize = CELLS_PER_AXIS as usize;
/// Cells of a brick: the bits of a mask.
const CELLS: usize = PER_AXIS * PER_AXIS * PER_AXIS;
/// Levels between a brick's bounds.
const LEVELS: f64 = 255.0;
/// Levels of a cell in which all is no data.
const NO_DATA_LEVELS: (u8, u8) = (255, 0);

/// Bytes of the levels of a brick's cells.
pub(crate) const CELL_LEVELS_BYTES: usize = 2 * CELLS;

/// Cells of a brick, a bit each: by z, bit x + 8·y.
pub type CellMask = [u64; PER_AXIS];
/// No cell.
pub const NONE: CellMask = [0; PER_AXIS];
/// Every cell.
pub const ALL: CellMask = [u64::MAX; PER_AXIS];

/// The ranges of a brick's cells: all lower levels, then all upper ones. Hex digits in JSON, bytes in
/// MessagePack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellRanges(Bytes);

impl Serialize for CellRanges {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        bytes_or_hex::serialize(&self.0, to)
    }
}

impl<'de> Deserialize<'de> for CellRanges {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes: [u8; 2 * CELLS] = bytes_or_hex::deserialize(from)?;
        Ok(Self(Bytes::copy_from_slice(&bytes)))
    }
}

impl CellRanges {
    /// The brick's range and its cells'; no range where all is no data. `bytes` are the voxels of its
    /// stored box, x fastest.
    ///
    /// # Panics
    /// Where `bytes` are not as many as the stored box has voxels.
    #[must_use]
    pub fn of(
        grid: &BrickGrid,
        brick: BrickIndex,
        volume: &VolumeDescription,
        bytes: &[u8],
    ) -> (Option<[f64; 2]>, Self) {
        let (owned, stored) = (grid.owned_box(brick), grid.stored_box(brick));
        let mut numbers = Vec::with_capacity(bytes.len() / volume.voxel.bytes());
        numbers_of(volume, bytes, &mut numbers);
        let range = bounds(&numbers);
        let [nx, ny, _] = stored.size().map(|n| n as usize);
        let read = |axis, cell| cell_span(&owned, &stored, axis, cell);
        let mut out = vec![0; 2 * CELLS];
        let (mut lows, mut highs) = (vec![0.0; nx], vec![0.0; nx]);
        for (row_of_cells, first) in (0..).zip((0..CELLS).step_by(PER_AXIS)) {
            let (ys, zs) = (
                read(1, row_of_cells % CELLS_PER_AXIS),
                read(2, row_of_cells / CELLS_PER_AXIS),
            );
            lows.fill(f32::INFINITY);
            highs.fill(f32::NEG_INFINITY);
            for row in zs
                .clone()
                .flat_map(|z| ys.clone().map(move |y| nx * (y + ny * z)))
            {
                widen(&mut lows, &mut highs, &numbers[row..row + nx]);
            }
            for (cell, xs) in (first..).zip((0..CELLS_PER_AXIS).map(|x| read(0, x))) {
                (out[cell], out[CELLS + cell]) = if xs.is_empty() || ys.is_empty() || zs.is_empty()
                {
                    (0, 0)
                } else {
                    let low = bounds(&lows[xs.clone()])[0];
                    levels([low, bounds(&highs[xs])[1]], range)
                };
            }
        }
        let has_data = range[0] <= range[1];
        (has_data.then(|| range.map(f64::from)), Self(out.into()))
    }

    /// The cells of whose values some can be seen, where `range` is the brick's, in data units.
    #[must_use]
    pub fn visible(&self, range: [f64; 2], can_show: impl Fn([f64; 2]) -> bool) -> CellMask {
        mask_of(|cell| {
            let (low, high) = (self.0[cell], self.0[CELLS + cell]);
            low <= high && can_show([low, high].map(|level| value_at(level, range)))
        })
    }

    /// The range of each cell, where `range` is the brick's, in data units; `None`: all is no data.
    pub fn ranges(&self, range: [f64; 2]) -> impl Iterator<Item = Option<[f64; 2]>> {
        let (lows, highs) = self.0.split_at(CELLS);
        let cells = lows.iter().zip(highs);
        cells.map(move |(&low, &high)| {
            (low <= high).then(|| [low, high].map(|level| value_at(level, range)))
        })
    }

    /// The levels, as they are stored.
    #[must_use]
    pub fn levels(&self) -> &[u8] {
        &self.0
    }

    /// Those with these levels; `None`: there are more or fewer.
    pub(crate) fn from_levels(levels: Bytes) -> Option<Self> {
        (levels.len() == CELL_LEVELS_BYTES).then_some(Self(levels))
    }

    /// All levels are 0, as in a brick of one value.
    pub(crate) fn even() -> Self {
        Self(Bytes::from_static(&[0; CELL_LEVELS_BYTES]))
    }

    pub(crate) fn is_even(&self) -> bool {
        self.0.iter().all(|&level| level == 0)
    }
}

/// The cells that are `seen`, asked by their number, x fastest.
pub fn mask_of(seen: impl Fn(usize) -> bool) -> CellMask {
    const LAYER: usize = PER_AXIS * PER_AXIS;
    std::array::from_fn(|z| {
        (0..LAYER).fold(0, |mask, i| mask | u64::from(seen(z * LAYER + i)) << i)
    })
}

/// A cell of a box; empty where the box has fewer voxels than cells.
pub fn cell_box(owned: &VoxelBox, cell: usize) -> VoxelBox {
    let n = PER_AXIS;
    let at = [cell % n, cell / n % n, cell / n / n];
    let at = at.map(|i| u32::try_from(i).unwrap_or(0));
    VoxelBox {
        lo: std::array::from_fn(|a| cell_plane(owned, a, at[a])),
        hi: std::array::from_fn(|a| cell_plane(owned, a, at[a] + 1)),
    }
}

/// The lower face of the n-th cell of a box along an axis.
#[must_use]
pub fn cell_plane(owned: &VoxelBox, axis: usize, n: u32) -> u32 {
    owned.lo[axis] + owned.size()[axis] * n / CELLS_PER_AXIS
}

/// The voxels that interpolation inside the n-th cell of a box reads along an axis, in the coordinates of the stored
/// box: one more at the upper face. None where the cell is empty.
fn cell_span(owned: &VoxelBox, stored: &VoxelBox, axis: usize, n: u32) -> Range<usize> {
    let [low, high] = [n, n + 1].map(|n| cell_plane(owned, axis, n));
    let more = u32::from(low < high);
    let high = (high + more).min(stored.hi[axis]);
    let within = |at: u32| (at - stored.lo[axis]) as usize;
    within(low)..within(high)
}

/// The value of a level: at both ends exactly the range's, however far apart they are.
fn value_at(level: u8, range: [f64; 2]) -> f64 {
    let share = f64::from(level) / LEVELS;
    range[0] * (1.0 - share) + range[1] * share
}

/// Bounds as levels of a range, rounded outwards.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0…255 before"
)]
fn levels([low, high]: [f32; 2], range: [f32; 2]) -> (u8, u8) {
    if low > high {
        return NO_DATA_LEVELS;
    }
    let width = f64::from(range[1]) - f64::from(range[0]);
    let share = |v: f32| {
        if width > 0.0 {
            (f64::from(v) - f64::from(range[0])) / width * LEVELS
        } else {
            0.0
        }
    };
    let mut levels = (
        share(low).floor().clamp(0.0, LEVELS) as u8,
        share(high).ceil().clamp(0.0, LEVELS) as u8,
    );
    // Beside an outlier, rounding may be more than all other values are apart.
    let range = range.map(f64::from);
    while levels.0 > 0 && value_at(levels.0, range) > f64::from(low) {
        levels.0 -= 1;
    }
    while levels.1 < u8::MAX && value_at(levels.1, range) < f64::from(high) {
        levels.1 += 1;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::volume::VoxelType;

    fn volume(dims: [u32; 3], voxel: VoxelType) -> VolumeDescription {
        VolumeDescription::new(dims, voxel)
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
    fn an_outlier_hides_no_other_voxel() {
        let grid = BrickGrid::new([16; 3], 16).unwrap();
        for outlier in [-1e30_f32, 1e30, f32::MAX, f32::MIN] {
            let value = |i: u32| if i == 0 { outlier } else { (i % 16) as f32 };
            let bytes: Vec<u8> = (0..4096).flat_map(|i| value(i).to_le_bytes()).collect();
            let volume = volume([16; 3], VoxelType::F32);
            let (range, cells) = CellRanges::of(&grid, BrickIndex(0), &volume, &bytes);
            let range = range.unwrap();
            for (at, bounds) in cells.0[..CELLS].iter().zip(&cells.0[CELLS..]).enumerate() {
                let x = (at % PER_AXIS * 2) as f64;
                let (low, high) = (value_at(*bounds.0, range), value_at(*bounds.1, range));
                assert!(
                    low <= x && high >= x.min(13.0) + 1.0,
                    "{outlier}: {x} {low} {high}"
                );
            }
        }
    }

    #[test]
    fn a_text_gives_the_ranges_back_and_a_wrong_one_is_refused() {
        let (_, _, cells) = ramp();
        let text = serde_json::to_string(&cells).unwrap();
        let read = |text: &str| serde_json::from_str::<CellRanges>(text);
        assert_eq!(read(&text).unwrap(), cells);
        assert!(read(&text.replacen('0', "", 1)).is_err());
        assert!(read(&text.replace('0', "g")).is_err());
    }
}

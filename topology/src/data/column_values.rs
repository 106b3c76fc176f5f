//! What rays along the axes of a volume come to, as far as the ranges of its cells tell: for functions
//! that colour what was combined along a ray.
//!
//! Space: stored numbers. A column is one cell wide. Estimates: a cell's mean is taken for the middle of
//! its range, and all means are then drawn to the background until the mean of the volume is right.

use crate::data::{
    cell_ranges::{CELLS_PER_AXIS, cell_box},
    manifest::Manifest,
    value_statistics::HISTOGRAM_BINS,
};

/// Share of the columns below the lower end of what matters, and below the upper end.
const ENDS: [f64; 2] = [0.02, 0.995];
/// Means are drawn to the background by this much at most.
const DRAWN_MIN: f64 = 0.01;

/// Of the columns along all three axes, the values between which most lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnValues {
    /// Means of the columns.
    pub means: [f64; 2],
    /// Least values of the columns.
    pub least: [f64; 2],
}

#[derive(Clone, Copy)]
struct Column {
    sum: f64,
    voxels: f64,
    least: f64,
}

impl ColumnValues {
    /// Of a data set; `None`: it has no data, or its cells are not known.
    #[must_use]
    pub fn of(manifest: &Manifest) -> Option<Self> {
        let grid = manifest.grid();
        let counts = grid.counts().map(|n| (n * CELLS_PER_AXIS) as usize);
        let none = Column {
            sum: 0.0,
            voxels: 0.0,
            least: f64::INFINITY,
        };
        let others = |axis: usize| ((axis + 1) % 3, (axis + 2) % 3);
        let mut columns: [Vec<Column>; 3] = std::array::from_fn(|axis| {
            let (b, c) = others(axis);
            vec![none; counts[b] * counts[c]]
        });
        let per_axis = CELLS_PER_AXIS as usize;
        for brick in grid.bricks() {
            let (Some(range), Some(cells)) =
                (manifest.brick_range(brick), manifest.brick_cells(brick))
            else {
                continue;
            };
            let owned = grid.owned_box(brick);
            let at = grid.coordinates(brick).map(|n| n as usize * per_axis);
            for (cell, found) in cells.ranges(range).enumerate() {
                let voxels = cell_box(&owned, cell).voxel_count() as f64;
                let Some([low, high]) = found.filter(|_| voxels > 0.0) else {
                    continue;
                };
                let inside = [cell, cell / per_axis, cell / per_axis / per_axis];
                let at: [usize; 3] = std::array::from_fn(|a| at[a] + inside[a] % per_axis);
                for (axis, columns) in columns.iter_mut().enumerate() {
                    let (b, c) = others(axis);
                    let column = &mut columns[at[b] + counts[b] * at[c]];
                    column.sum += voxels * 0.5 * (low + high);
                    column.voxels += voxels;
                    column.least = column.least.min(low);
                }
            }
        }
        let all = columns.iter().flatten().filter(|c| c.voxels > 0.0);
        let mut means: Vec<f64> = all.clone().map(|c| c.sum / c.voxels).collect();
        let mut least: Vec<f64> = all.map(|c| c.least).collect();
        let (sum, voxels) = (columns[0].iter()).fold((0.0, 0.0), |(sum, voxels), c| {
            (sum + c.sum, voxels + c.voxels)
        });
        let base = manifest.statistics().and_then(|s| s.background);
        let base = base.or(manifest.range().map(|[low, _]| low))?;
        if let Some(mean) = mean_of_histogram(manifest, base) {
            let drawn = (mean - base) / (sum / voxels - base);
            let drawn = if drawn.is_finite() { drawn } else { 1.0 };
            let drawn = drawn.clamp(DRAWN_MIN, 1.0);
            means
                .iter_mut()
                .for_each(|m| *m = base + (*m - base) * drawn);
        }
        Some(Self {
            means: ends(&mut means)?,
            least: ends(&mut least)?,
        })
    }
}

fn ends(values: &mut [f64]) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the positions"
    )]
    let at = |share: f64| values[(share * last as f64).round() as usize];
    Some(ENDS.map(at))
}

/// The mean of all voxels; those in the background's bin have its value.
fn mean_of_histogram(manifest: &Manifest, background: f64) -> Option<f64> {
    let [low, high] = manifest.histogram_range();
    let width = (high - low) / HISTOGRAM_BINS as f64;
    let bins = (0..).zip(manifest.histogram());
    let (sum, count) = bins.fold((0.0, 0.0), |(sum, count), (at, &n)| {
        let from = low + width * f64::from(at);
        let is_background = (from..=from + width).contains(&background);
        let value = if is_background {
            background
        } else {
            from + 0.5 * width
        };
        (sum + value * n as f64, count + n as f64)
    });
    (count > 0.0).then_some(sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{
        manifest::ManifestParts,
        volume::{VolumeDescription, VoxelType},
        voxel_box::VoxelBox,
    };

    /// 64³ voxels: 200 where `is_inside`, else 0.
    fn found(is_inside: impl Fn([u32; 3]) -> bool) -> ColumnValues {
        let volume = VolumeDescription::new([64; 3], VoxelType::U8);
        let bytes = |stored: &VoxelBox| {
            let at = |a: usize| stored.lo[a]..stored.hi[a];
            let zyx = at(2).flat_map(|z| at(1).flat_map(move |y| at(0).map(move |x| [x, y, z])));
            zyx.map(|p| if is_inside(p) { 200 } else { 0 }).collect()
        };
        let parts = ManifestParts::cut(volume, 32, "test", bytes).unwrap();
        ColumnValues::of(&Manifest::try_from(parts).unwrap()).unwrap()
    }

    #[test]
    fn means_are_of_whole_columns_and_the_least_is_of_all_of_one() {
        // Columns along x and y lie in it or beside it; those along z have a quarter of it.
        let slab = found(|[_, _, z]| (16..32).contains(&z));
        assert!(
            slab.means[0].abs() < 1.0 && slab.means[1] > 150.0,
            "{slab:?}"
        );
        assert!(
            slab.least[0].abs() < 1.0 && slab.least[1] > 199.0,
            "{slab:?}"
        );
        // Every second sheet across z: no column along z is without either.
        let sheets = found(|[_, _, z]| z % 32 < 16);
        assert!(sheets.least[0].abs() < 1.0, "{sheets:?}");
    }

    #[test]
    fn thin_things_do_not_count_for_the_cells_that_they_lie_in() {
        // A wire of 4 voxels along x: columns across it have 2 of 64 voxels of it.
        let wire = found(|[_, y, z]| y / 2 == 15 && z / 2 == 15);
        assert!(
            wire.least[0].abs() < 1.0 && wire.means[1] < 60.0,
            "{wire:?}"
        );
    }
}

//! What rays along the axes of a volume come to: for functions that colour what was combined along a
//! ray.
//!
//! Space: stored numbers. A column is as long as the volume and one cell of the [`Overview`] wide: a bundle of rays where
//! the volume has more than 128 voxels on an axis.
//! Invariant: follows from the voxels alone, not from the cut into bricks.

use crate::data::subject::Overview;
use serde::{Deserialize, Serialize};

/// Share of the columns below the lower end of what matters, and below the upper end.
const ENDS: [f64; 2] = [0.02, 0.995];

/// Of the columns along all three axes, the values between which most lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Of a volume that was seen; `None`: it has no data.
    #[must_use]
    pub fn of(overview: &Overview) -> Option<Self> {
        let counts = overview.counts();
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
        for (at, cell) in overview.cells() {
            for (axis, columns) in columns.iter_mut().enumerate() {
                let (b, c) = others(axis);
                let column = &mut columns[at[b] + counts[b] * at[c]];
                column.sum += cell.sum;
                column.voxels += f64::from(cell.count);
                column.least = column.least.min(cell.low.into());
            }
        }
        let all = columns.iter().flatten().filter(|c| c.voxels > 0.0);
        let mut means: Vec<f64> = all.clone().map(|c| c.sum / c.voxels).collect();
        let mut least: Vec<f64> = all.map(|c| c.least).collect();
        Some(Self {
            means: ends(&mut means)?,
            least: ends(&mut least)?,
        })
    }

    /// Whether what came from a file or a peer can be of voxels in this range.
    #[must_use]
    pub fn is_within(&self, [low, high]: [f64; 2]) -> bool {
        // Sums are rounded.
        let slack = low.abs().max(high.abs()) * 1e-9;
        let is_in = |[from, to]: [f64; 2]| low - slack <= from && from <= to && to <= high + slack;
        is_in(self.means) && is_in(self.least)
    }
}

fn ends(values: &mut [f64]) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let [low, high] = ENDS.map(|share| at(values, share));
    let (low, high) = (low?, high?);
    if low < high {
        return Some([low, high]);
    }
    // Few columns are another thing than most: those are what matters.
    let above = &values[values.partition_point(|v| *v <= low)..];
    let below = &values[..values.partition_point(|v| *v < low)];
    Some(match (at(above, ENDS[1]), at(below, ENDS[0])) {
        (Some(high), _) => [low, high],
        (None, Some(low)) => [low, high],
        (None, None) => [low, high],
    })
}

/// The value below which a share of the ascending values is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the positions"
)]
fn at(values: &[f64], share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    Some(values[(share * last as f64).round() as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means and least values of so many voxels on each axis: 200 where `is_inside`, else 0.
    fn found(edge: u32, is_inside: impl Fn([u32; 3]) -> bool) -> [[f64; 2]; 2] {
        let value = |p| if is_inside(p) { 200.0 } else { 0.0 };
        let found = ColumnValues::of(&Overview::filled([edge; 3], value)).unwrap();
        [found.means, found.least]
    }

    #[test]
    fn means_are_of_whole_columns_and_the_least_is_of_all_of_one() {
        // Columns along x and y lie in it or beside it; those along z have a quarter of it.
        let slab = found(64, |[_, _, z]| (16..32).contains(&z));
        assert_eq!(slab, [[0.0, 200.0]; 2]);
        // Every second sheet across z: no column along z is without either.
        let [_, least] = found(64, |[_, _, z]| z % 32 < 16);
        assert!(least[0].abs() < 1.0, "{least:?}");
    }

    #[test]
    fn thin_things_do_not_count_for_the_cells_that_they_lie_in() {
        // A wire of one voxel along x, in cells of 2³: one in 512 of a column across it.
        let wire = found(256, |[_, y, z]| y == 31 && z == 31);
        assert_eq!(wire, [[0.0, 200.0 / 512.0], [0.0, 0.0]]);
    }

    #[test]
    fn few_columns_that_differ_are_what_matters() {
        let is_inside = |p: [u32; 3]| p.iter().all(|c| (31..33).contains(c));
        let [means, least] = found(64, is_inside);
        assert_eq!([means, least], [[0.0, 200.0 * 2.0 / 64.0], [0.0; 2]]);
        let [means, least] = found(64, |p| !is_inside(p));
        assert_eq!([means, least], [[200.0 * 62.0 / 64.0, 200.0], [0.0, 200.0]]);
    }

    #[test]
    fn what_is_no_data_counts_for_nothing() {
        let beside = |[x, y, _]: [u32; 3]| match (x, y) {
            (0, 0) => f32::NAN,
            (0, _) => 8.0,
            _ => f32::NAN,
        };
        let found = ColumnValues::of(&Overview::filled([4; 3], beside)).unwrap();
        assert_eq!([found.means, found.least], [[8.0; 2]; 2]);
        assert!(ColumnValues::of(&Overview::filled([4; 3], |_| f32::NAN)).is_none());
    }
}

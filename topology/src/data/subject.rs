//! What a volume shows by its default transfer function, in a few points: for cameras that are to have
//! it in view.
//!
//! Space: grid. The volume is looked at in cells as it passes by ([`Overview`]); those that the default
//! function shows, and that are not alone, are the subject. Of it the outermost points in many
//! directions are kept, and where its middle is.
//! Invariants: follows from voxels, spacing and statistics alone, not from the cut into bricks;
//! memory is bounded.

use crate::data::{
    number_rows::widen, transfer_function::TransferFunction, volume::VolumeDescription,
};
use glam::DVec3;
use serde::{Deserialize, Serialize};

/// Cells along the longest axis, at most.
const CELLS_MAX: u32 = 128;
/// Directions in which the outermost points are kept.
const DIRECTIONS: u32 = 256;
/// What is less opaque than this part of the most opaque cell is no part of the subject.
const FAINT: f64 = 0.04;
/// A cell with fewer seen ones around it is noise.
const NEIGHBOURS_MIN: usize = 2;
/// Points of which the outermost are looked for at once.
const POINTS_MAX: usize = 1 << 16;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Outermost points.
    pub points: Vec<[f64; 3]>,
    /// The middle of its opacity.
    pub middle: [f64; 3],
}

impl Subject {
    /// All of a volume, where nothing is known of what it shows.
    #[must_use]
    pub fn whole(volume: &VolumeDescription) -> Self {
        let [lo, hi] = volume.field_in_grid();
        let corner = |c: usize| std::array::from_fn(|a| [lo, hi][c >> a & 1][a]);
        Self {
            points: (0..8).map(corner).collect(),
            middle: ((lo + hi) * 0.5).to_array(),
        }
    }

    /// Whether what came from a file or a peer can be a subject of a volume.
    #[must_use]
    pub fn is_valid(&self, volume: &VolumeDescription) -> bool {
        let [lo, hi] = volume.field_in_grid();
        let inside = |p: &[f64; 3]| (0..3).all(|a| (lo[a] - 1.0..=hi[a] + 1.0).contains(&p[a]));
        (1..=DIRECTIONS as usize).contains(&self.points.len())
            && self.points.iter().all(inside)
            && inside(&self.middle)
    }

    /// The outermost points in the world.
    pub fn points_in_world(&self, volume: &VolumeDescription) -> impl Iterator<Item = DVec3> {
        let world_from_grid = volume.world_from_grid();
        let points = self.points.iter().copied().map(DVec3::from_array);
        points.map(move |p| world_from_grid.transform_point3(p))
    }
}

/// Gathers points of a grid, however many, to a subject.
#[derive(Clone, Debug)]
pub struct PointGathering {
    spacing: DVec3,
    /// Those that are not looked at yet, with the outermost of those that were.
    points: Vec<[DVec3; 2]>,
    sum: DVec3,
    count: u64,
}

impl PointGathering {
    /// Of a grid with this spacing; none yet.
    #[must_use]
    pub fn new(spacing: [f64; 3]) -> Self {
        Self {
            spacing: spacing.into(),
            points: Vec::new(),
            sum: DVec3::ZERO,
            count: 0,
        }
    }

    /// Adds a point.
    pub fn add(&mut self, point: DVec3) {
        self.points.push([point; 2]);
        self.sum += point;
        self.count += 1;
        if self.points.len() == POINTS_MAX {
            let outermost = outermost(&self.points, self.spacing);
            self.points.clear();
            let outermost = outermost.into_iter().map(DVec3::from_array);
            self.points.extend(outermost.map(|p| [p; 2]));
        }
    }

    /// Their subject; `None`: there are none.
    #[must_use]
    pub fn subject(&self) -> Option<Subject> {
        (self.count > 0).then(|| Subject {
            points: outermost(&self.points, self.spacing),
            middle: (self.sum / self.count as f64).to_array(),
        })
    }
}

/// The values of a volume in cells: least, mean and greatest of each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    dims: [u32; 3],
    /// Voxels of a cell on each axis.
    edge: u32,
    counts: [usize; 3],
    cells: Vec<Cell>,
    /// Of the row of cells that the last row of voxels was in.
    columns: Columns,
}

/// What came of each column of voxels of one row of cells, side by side, as vector instructions take them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Columns {
    /// Its first cell.
    first: usize,
    low: Vec<f32>,
    high: Vec<f32>,
    sum: Vec<f64>,
    count: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(from = "CellParts", into = "CellParts")]
pub(super) struct Cell {
    pub low: f32,
    high: f32,
    pub sum: f64,
    pub count: u32,
}

/// A cell as it is written: there are many, most of them without a voxel at first.
type CellParts = Option<(f32, f32, f64, u32)>;

impl From<Cell> for CellParts {
    fn from(cell: Cell) -> Self {
        (cell.count > 0).then_some((cell.low, cell.high, cell.sum, cell.count))
    }
}

impl From<CellParts> for Cell {
    fn from(parts: CellParts) -> Self {
        let cell = |(low, high, sum, count)| Self {
            low,
            high,
            sum,
            count,
        };
        parts.map_or(EMPTY, cell)
    }
}

const EMPTY: Cell = Cell {
    low: f32::INFINITY,
    high: f32::NEG_INFINITY,
    sum: 0.0,
    count: 0,
};

impl Overview {
    /// Of a volume of which no voxel has come.
    pub(super) fn new(dims: [u32; 3]) -> Self {
        let longest = dims.iter().copied().max().unwrap_or(1);
        let edge = longest.div_ceil(CELLS_MAX).max(1);
        let counts = dims.map(|n| n.div_ceil(edge) as usize);
        Self {
            dims,
            edge,
            counts,
            cells: vec![EMPTY; counts.iter().product()],
            columns: Columns {
                first: 0,
                low: vec![EMPTY.low; dims[0] as usize],
                high: vec![EMPTY.high; dims[0] as usize],
                sum: vec![EMPTY.sum; dims[0] as usize],
                count: vec![EMPTY.count; dims[0] as usize],
            },
        }
    }

    /// Takes the stored numbers of the row at (y, z); NaN is no data.
    ///
    /// # Panics
    /// Where there is no such row.
    pub(super) fn row(&mut self, y: u32, z: u32, stored: &[f32]) {
        let first =
            self.counts[0] * ((y / self.edge) as usize + self.counts[1] * (z / self.edge) as usize);
        if self.columns.first != first {
            self.close_columns();
            self.columns.first = first;
        }
        let columns = &mut self.columns;
        widen(&mut columns.low, &mut columns.high, stored);
        let sums = columns.sum.iter_mut().zip(&mut columns.count);
        for ((sum, count), &number) in sums.zip(stored) {
            let is_data = !number.is_nan();
            *sum += f64::from(if is_data { number } else { 0.0 });
            *count += u32::from(is_data);
        }
    }

    /// Cells on each axis.
    pub(super) fn counts(&self) -> [usize; 3] {
        self.counts
    }

    /// Those that have data, and where they are.
    pub(super) fn cells(&self) -> impl Iterator<Item = ([usize; 3], &Cell)> {
        let cells = self.cells.iter().enumerate().filter(|(_, c)| c.count > 0);
        cells.map(|(at, cell)| (self.place(at), cell))
    }

    /// To be called after the last row: gives the cells what came of their columns.
    pub(super) fn close_columns(&mut self) {
        let Columns {
            first,
            low,
            high,
            sum,
            count,
        } = &mut self.columns;
        let edge = self.edge as usize;
        let bounds = low.chunks(edge).zip(high.chunks(edge));
        let sums = sum.chunks(edge).zip(count.chunks(edge));
        let cells = &mut self.cells[*first..*first + self.counts[0]];
        for (cell, ((low, high), (sum, count))) in cells.iter_mut().zip(bounds.zip(sums)) {
            cell.low = low.iter().copied().fold(cell.low, f32::min);
            cell.high = high.iter().copied().fold(cell.high, f32::max);
            cell.sum += sum.iter().sum::<f64>();
            cell.count += count.iter().sum::<u32>();
        }
        low.fill(EMPTY.low);
        high.fill(EMPTY.high);
        sum.fill(EMPTY.sum);
        count.fill(EMPTY.count);
    }

    /// What a function shows of the volume; `None`: nothing.
    pub(super) fn subject(
        &self,
        volume: &VolumeDescription,
        function: &TransferFunction,
    ) -> Option<Subject> {
        let opacity = |stored: f64| function.classify(volume.value(stored)).1;
        let of_cell = |cell: &Cell| {
            if cell.count == 0 {
                return 0.0;
            }
            let mean = cell.sum / f64::from(cell.count);
            0.25 * (opacity(cell.low.into()) + opacity(cell.high.into())) + 0.5 * opacity(mean)
        };
        let opacities: Vec<f64> = self.cells.iter().map(of_cell).collect();
        let most = opacities.iter().copied().fold(0.0, f64::max);
        let seen: Vec<bool> = opacities.iter().map(|&o| o > most * FAINT).collect();
        let is_single = seen.iter().filter(|s| **s).count() <= NEIGHBOURS_MIN;
        let (mut ends, mut middle, mut weight) = (Vec::new(), DVec3::ZERO, 0.0);
        for row in 0..self.counts[1] * self.counts[2] {
            let first = ends.len();
            for at in row * self.counts[0]..(row + 1) * self.counts[0] {
                let place = self.place(at);
                let is_noise = || self.seen_around(&seen, place) < NEIGHBOURS_MIN && !is_single;
                if !seen[at] || is_noise() {
                    continue;
                }
                let [lo, hi] = self.corners(place);
                middle += (lo + hi) * (0.5 * opacities[at]);
                weight += opacities[at];
                // Only the ends of a row can be outermost.
                ends.truncate(first + 1);
                ends.push([lo, hi]);
            }
        }
        (weight > 0.0).then(|| Subject {
            points: outermost(&ends, DVec3::from_array(volume.spacing)),
            middle: (middle / weight).to_array(),
        })
    }

    fn place(&self, at: usize) -> [usize; 3] {
        let [nx, ny, _] = self.counts;
        [at % nx, at / nx % ny, at / nx / ny]
    }

    /// How many of the 26 cells around one are seen; what is outside of the volume is not.
    fn seen_around(&self, seen: &[bool], place: [usize; 3]) -> usize {
        let [nx, ny, nz] = self.counts;
        let near = |at: usize, n: usize| at.saturating_sub(1)..(at + 2).min(n);
        let mut count = 0;
        for z in near(place[2], nz) {
            for y in near(place[1], ny) {
                let row = nx * (y + ny * z);
                let xs = near(place[0], nx);
                count += seen[row + xs.start..row + xs.end]
                    .iter()
                    .filter(|s| **s)
                    .count();
            }
        }
        count.saturating_sub(1)
    }

    /// Where a cell begins and ends, as far as the field goes.
    fn corners(&self, place: [usize; 3]) -> [DVec3; 2] {
        let end = |a: usize, cell: usize| {
            if self.dims[a] == 1 {
                return if cell == place[a] { -0.5 } else { 0.5 };
            }
            let at = (cell as f64 * f64::from(self.edge) - 0.5).max(0.0);
            at.min(f64::from(self.dims[a] - 1))
        };
        [0, 1].map(|more| DVec3::from_array(std::array::from_fn(|a| end(a, place[a] + more))))
    }
}

/// Of the corners of boxes those that are farthest in many directions, each once, in order of place.
fn outermost(boxes: &[[DVec3; 2]], spacing: DVec3) -> Vec<[f64; 3]> {
    // As long as the shortest is 1, so that no product leaves what an f64 holds.
    let spacing = spacing / spacing.min_element();
    let mut points: Vec<[f64; 3]> = Vec::new();
    for n in 0..DIRECTIONS {
        let toward = direction(n) * spacing;
        let corner = |[lo, hi]: &[DVec3; 2]| DVec3::select(toward.cmpge(DVec3::ZERO), *hi, *lo);
        let farthest = boxes
            .iter()
            .map(corner)
            .max_by(|a, b| a.dot(toward).total_cmp(&b.dot(toward)));
        points.extend(farthest.map(|p| p.to_array()));
    }
    points.sort_by(|a, b| {
        (0..3)
            .map(|i| a[i].total_cmp(&b[i]))
            .find(|o| o.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    points.dedup_by(|a, b| (0..3).all(|i| a[i].to_bits() == b[i].to_bits()));
    points
}

/// Directions that are spread over the sphere evenly, on a spiral of the golden angle.
fn direction(n: u32) -> DVec3 {
    const GOLDEN_ANGLE: f64 = 2.399_963_229_728_653;
    let z = 1.0 - (2.0 * f64::from(n) + 1.0) / f64::from(DIRECTIONS);
    let (sin, cos) = (GOLDEN_ANGLE * f64::from(n)).sin_cos();
    let r = (1.0 - z * z).sqrt();
    DVec3::new(r * cos, r * sin, z)
}

#[cfg(test)]
impl Overview {
    /// Of voxels with these values.
    pub(super) fn filled(dims: [u32; 3], value: impl Fn([u32; 3]) -> f32) -> Self {
        let mut overview = Self::new(dims);
        for z in 0..dims[2] {
            for y in 0..dims[1] {
                let row: Vec<f32> = (0..dims[0]).map(|x| value([x, y, z])).collect();
                overview.row(y, z, &row);
            }
        }
        overview.close_columns();
        overview
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::volume::VoxelType;

    fn function() -> TransferFunction {
        TransferFunction::ramp(0.5, 1.0)
    }

    fn bounds(subject: &Subject) -> [[f64; 3]; 2] {
        let end = |f: fn(f64, f64) -> f64| {
            std::array::from_fn(|a| subject.points.iter().map(|p| p[a]).reduce(f).unwrap())
        };
        [end(f64::min), end(f64::max)]
    }

    #[test]
    fn the_points_are_around_what_is_shown_and_nothing_else() {
        for edge in [60, 300] {
            let volume = VolumeDescription::new([edge; 3], VoxelType::F32);
            let (from, to) = (edge / 5, edge / 2);
            let is_in = |p: [u32; 3]| p.iter().all(|&v| (from..to).contains(&v));
            let of = Overview::filled(volume.dims, |p| {
                // A single bright voxel is noise, a faint haze everywhere is not looked at.
                if is_in(p) || p == [edge - 2; 3] {
                    1.0
                } else {
                    0.55
                }
            });
            let subject = of.subject(&volume, &function()).unwrap();
            assert!(subject.is_valid(&volume));
            let [low, high] = bounds(&subject);
            for a in 0..3 {
                assert!((low[a] - f64::from(from)).abs() <= 3.0, "{low:?}");
                assert!((high[a] - f64::from(to)).abs() <= 3.0, "{high:?}");
                let middle = f64::from(from + to) * 0.5;
                assert!(
                    (subject.middle[a] - middle).abs() < 2.0,
                    "{:?}",
                    subject.middle
                );
            }
        }
    }

    #[test]
    fn a_ball_has_points_in_all_directions() {
        let volume = VolumeDescription::new([100; 3], VoxelType::F32);
        let centre = DVec3::splat(50.0);
        let of = Overview::filled(volume.dims, |p| {
            let p = DVec3::from_array(p.map(f64::from));
            if (p - centre).length() < 30.0 {
                1.0
            } else {
                0.0
            }
        });
        let subject = of.subject(&volume, &function()).unwrap();
        for n in 0..500 {
            let d = direction(n * 131 % DIRECTIONS);
            let far = subject
                .points
                .iter()
                .map(|p| (DVec3::from_array(*p) - centre).dot(d));
            let far = far.fold(0.0, f64::max);
            assert!((28.0..33.0).contains(&far), "{far}");
        }
    }

    #[test]
    fn what_shows_nothing_has_no_subject_and_one_voxel_has_one() {
        let volume = VolumeDescription::new([9; 3], VoxelType::F32);
        assert_eq!(
            Overview::filled([9; 3], |_| 0.1).subject(&volume, &function()),
            None
        );
        assert_eq!(
            Overview::filled([9; 3], |_| f32::NAN).subject(&volume, &function()),
            None
        );
        let point = VolumeDescription::new([1; 3], VoxelType::F32);
        let subject = Overview::filled([1; 3], |_| 1.0)
            .subject(&point, &function())
            .unwrap();
        assert_eq!(bounds(&subject), [[-0.5; 3], [0.5; 3]]);
        assert!(Subject::whole(&volume).is_valid(&volume));
        let mut wrong = Subject::whole(&volume);
        wrong.points[2][1] = f64::NAN;
        assert!(!wrong.is_valid(&volume));
    }
}

//! Macrocells: the value ranges of small blocks of a brick, and what a scene sees of them.
//!
//! Shapes: a macrocell covers edge³ interpolation cells of the brick's stored box, that is the
//! voxels `edge·c ..= edge·(c + 1)` on each axis, so every sample whose lower neighbour lies in it
//! interpolates between voxels of its range. x fastest, as voxels.
//! Invariant: a sample in a macrocell that is not visible has opacity 0 exactly, and no isosurface goes through
//! it; skipping it changes nothing. What is no data is in no range.
//!
//! Not here: the way along a ray (the kernels).
//!
//! Source of the distances: Cohen, Sheffer, "Proximity clouds, an acceleration technique for 3D
//! grid traversal", The Visual Computer 11, 1994; here in the maximum norm. Of those in one octant: Šrámek, Kaufman, "Fast
//! ray-tracing of rectilinear volume data using distance transforms", IEEE TVCG 6, 2000.

use crate::{
    brick::BrickVoxels,
    constants::CELL_EDGE,
    device::cpu::voxel::{StoredVoxel, with_voxel},
    transfer_table::TransferTable,
};
use brickmesh_topology::{
    VoxelNumbers, data::voxel_numbers::NO_DATA_MIN, picture::render_settings::Mode,
};
use rayon::prelude::*;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// Largest distance kept, in macrocells: jumps need not be longer.
const DISTANCE_MAX: u8 = 64;
/// Roundings of a few operations in f32, as a part of the number.
const ROUNDING: f32 = 4.0 * f32::EPSILON;
/// Bytes behind the last distance, so that it can be read as the first of four.
const DISTANCE_PADDING_BYTES: usize = 3;

/// Smallest and largest stored number of every macrocell of a brick.
#[derive(Clone, Debug)]
pub struct Macrocells {
    edge: u32,
    counts: [u32; 3],
    numbers: VoxelNumbers,
    /// Smallest and largest voxel of each, as they are stored; where all is no data, the type's
    /// largest and smallest.
    ranges: Vec<u8>,
}

/// Macrocells on each axis, of `edge` interpolation cells, of a brick of so many voxels.
pub(crate) fn macrocell_counts(size: [u32; 3], edge: u32) -> [u32; 3] {
    size.map(|n| n.saturating_sub(1).max(1).div_ceil(edge))
}

impl Macrocells {
    /// The macrocells of a brick, of [`CELL_EDGE`]. Reads every voxel once; runs in the current
    /// rayon pool if there is one, else on this thread.
    #[must_use]
    pub fn of(brick: &BrickVoxels) -> Self {
        Self::with_edge(brick, CELL_EDGE)
    }

    /// As [`Self::of`], of another edge in interpolation cells; 0 counts as 1.
    #[must_use]
    pub fn with_edge(brick: &BrickVoxels, edge: u32) -> Self {
        let edge = edge.max(1);
        let size = brick.stored().size();
        let counts = macrocell_counts(size, edge);
        let cells: usize = counts.iter().map(|&n| n as usize).product();
        let row_bytes = counts[0] as usize * 2 * brick.voxel().bytes();
        let mut ranges = vec![0; cells * 2 * brick.voxel().bytes()];
        let fill = |(row, ranges): (usize, &mut [u8])| {
            let at = [row % counts[1] as usize, row / counts[1] as usize];
            let size = size.map(|n| n as usize);
            with_voxel!(
                brick.voxel(),
                ranges_of_row::<_>(brick, size, edge as usize, at, ranges)
            );
        };
        if rayon::current_thread_index().is_some() {
            ranges.par_chunks_mut(row_bytes).enumerate().for_each(fill);
        } else {
            ranges.chunks_mut(row_bytes).enumerate().for_each(fill);
        }
        Self {
            edge,
            counts,
            numbers: *brick.numbers(),
            ranges,
        }
    }

    /// Edge of a macrocell, in interpolation cells.
    #[must_use]
    pub fn edge(&self) -> u32 {
        self.edge
    }

    /// Macrocells on each axis.
    #[must_use]
    pub fn counts(&self) -> [u32; 3] {
        self.counts
    }

    /// Smallest and largest number of each macrocell, x fastest; where all is no data, upside down.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = [f32; 2]> + '_ {
        let pairs = self.ranges.chunks_exact(2 * self.numbers.voxel().bytes());
        pairs.map(|pair| range_of(&self.numbers, pair))
    }

    /// Memory that the ranges take, in bytes.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.ranges.len()
    }
}

/// Smallest and largest number, as they are stored, as numbers; upside down where all is no data.
fn range_of(numbers: &VoxelNumbers, stored: &[u8]) -> [f32; 2] {
    let voxel = numbers.voxel();
    let [low, high] = [0, voxel.bytes()].map(|at| voxel.read(stored, at));
    if low > high {
        [f32::INFINITY, f32::NEG_INFINITY]
    } else {
        [low, high].map(|stored| numbers.number(stored))
    }
}

fn ranges_of_row<V: StoredVoxel>(
    brick: &BrickVoxels,
    size: [usize; 3],
    edge: usize,
    at: [usize; 2],
    ranges: &mut [u8],
) {
    if brick.numbers().is_checked() {
        let is_data = |v: V| v.number(brick.numbers()) < NO_DATA_MIN;
        ranges_of_data(brick, size, edge, at, ranges, is_data);
    } else {
        ranges_of_data(brick, size, edge, at, ranges, |_: V| true);
    }
}

/// The ranges of the row of macrocells at (y,z) = `at`, of voxels that are data: minima and maxima over
/// y and z first, for all x at once, then over x.
fn ranges_of_data<V: StoredVoxel>(
    brick: &BrickVoxels,
    size: [usize; 3],
    edge: usize,
    at: [usize; 2],
    ranges: &mut [u8],
    is_data: impl Fn(V) -> bool,
) {
    let row_bytes = size[0] * V::BYTES;
    let voxels_of = |y: usize, z: usize| {
        let start = (z * size[1] + y) * row_bytes;
        brick.bytes()[start..start + row_bytes]
            .chunks_exact(V::BYTES)
            .map(V::read)
    };
    let first = [at[0] * edge, at[1] * edge];
    let (mut low, mut high) = (vec![V::HIGHEST; size[0]], vec![V::LOWEST; size[0]]);
    for z in first[1]..size[2].min(first[1] + edge + 1) {
        for y in first[0]..size[1].min(first[0] + edge + 1) {
            for ((l, h), v) in low.iter_mut().zip(&mut high).zip(voxels_of(y, z)) {
                let is_data = is_data(v);
                *l = if is_data && v < *l { v } else { *l };
                *h = if is_data && v > *h { v } else { *h };
            }
        }
    }
    for (c, range) in ranges.chunks_exact_mut(2 * V::BYTES).enumerate() {
        let columns = c * edge..size[0].min(c * edge + edge + 1);
        let (mut l, mut h) = (low[columns.start], high[columns.start]);
        for (&v, &w) in low[columns.clone()].iter().zip(&high[columns]) {
            l = if v < l { v } else { l };
            h = if w > h { w } else { h };
        }
        let (below, above) = range.split_at_mut(V::BYTES);
        l.write(below);
        h.write(above);
    }
}

/// Which numbers a transfer table shows at all. Answers in O(1).
#[derive(Clone, Debug, PartialEq)]
pub struct VisibleValues {
    /// Entry e: how many table entries before e have an opacity.
    visible_before: Vec<u32>,
    /// Macrocells from a sample to what it shows, at most: of samples that stand for ranges.
    reach: u8,
    scale: f32,
    offset: f32,
    /// Numbers on isosurfaces.
    surfaces: Vec<f32>,
    of_bytes: Option<OfBytes>,
    /// What is visible of the surfaces, where samples are, too.
    of_surfaces: Option<Box<Self>>,
}

/// [`VisibleValues::any`] of all ranges of stored bytes: bit 256 · low + high.
#[derive(Clone, Debug, PartialEq)]
struct OfBytes {
    numbers: VoxelNumbers,
    any: Vec<u64>,
}

impl OfBytes {
    fn new(values: &VisibleValues, numbers: &VoxelNumbers) -> Self {
        let mut any = vec![0; 256 * 256 / 64];
        for low in 0..=u8::MAX {
            for high in 0..=u8::MAX {
                let at = usize::from(low) * 256 + usize::from(high);
                any[at / 64] |= u64::from(values.any(range_of(numbers, &[low, high]))) << (at % 64);
            }
        }
        Self {
            numbers: *numbers,
            any,
        }
    }

    fn any(&self, [low, high]: [u8; 2]) -> bool {
        let at = usize::from(low) * 256 + usize::from(high);
        self.any[at / 64] >> (at % 64) & 1 == 1
    }
}

impl VisibleValues {
    /// What the table shows of voxels that are these numbers, and the surfaces on which they are others; all, where values are combined and classified after that.
    #[must_use]
    pub fn of(
        table: &TransferTable,
        mode: Mode,
        numbers: &VoxelNumbers,
        surfaces: Vec<f32>,
    ) -> Self {
        let mut count = 0;
        let mut visible_before = vec![0];
        for entry in &table.entries[..table.columns] {
            count += u32::from(mode.combines_values() || (mode.has_samples() && entry[3] > 0.0));
            visible_before.push(count);
        }
        let mut values = Self {
            visible_before,
            reach: u8::from(table.segment_unit.is_some()),
            scale: table.scale,
            offset: table.offset,
            surfaces,
            of_bytes: None,
            of_surfaces: None,
        };
        if mode.has_samples() && !values.surfaces.is_empty() {
            let mut of_surfaces = values.clone();
            of_surfaces.visible_before.fill(0);
            of_surfaces.reach = 0;
            values.of_surfaces = Some(Box::new(of_surfaces.with_bytes(numbers)));
        }
        values.with_bytes(numbers)
    }

    fn with_bytes(mut self, numbers: &VoxelNumbers) -> Self {
        if numbers.voxel().bytes() == 1 {
            self.of_bytes = Some(OfBytes::new(&self, numbers));
        }
        self
    }

    /// [`Self::any`] of each macrocell.
    fn of_cells(&self, cells: &Macrocells) -> impl Iterator<Item = bool> {
        let of_bytes = self.of_bytes.as_ref();
        let of_bytes = of_bytes.filter(|of| of.numbers == cells.numbers);
        let pairs = cells.ranges.chunks_exact(2 * cells.numbers.voxel().bytes());
        pairs.map(move |pair| match of_bytes {
            Some(of_bytes) => of_bytes.any([pair[0], pair[1]]),
            None => self.any(range_of(&cells.numbers, pair)),
        })
    }

    /// Whether a sample interpolated between numbers of `low..=high` can have an opacity; there is none
    /// in a range upside down.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the table before"
    )]
    pub fn any(&self, [low, high]: [f32; 2]) -> bool {
        if low > high {
            return false;
        }
        // Rounding in the trilinear interpolation can leave the range by this much.
        let slack = (high - low) * 1e-6 + low.abs().max(high.abs()) * ROUNDING;
        let is_on = |n: &f32| low < high && low - slack < *n && *n <= high + slack;
        if self.surfaces.iter().any(is_on) {
            return true;
        }
        let last = (self.visible_before.len() - 2) as f64;
        let (scale, offset) = (f64::from(self.scale), f64::from(self.offset));
        // The kernels fuse this in f32, which is monotonic; rounded to less, it falls on no entry beyond those
        // between the whole numbers around it. So no sample inside the range falls outside the entries.
        let at = |v: f32| (f64::from(v) * scale + offset).clamp(0.0, last);
        let (a, b) = (at(low - slack), at(high + slack));
        // No calls of `floor` and `ceil`, which take longer than all else here.
        let (from, below) = (a.min(b) as usize, a.max(b) as usize);
        let to = below + usize::from((below as f64) < a.max(b));
        self.visible_before[to + 1] > self.visible_before[from]
    }
}

/// For each macrocell how far the next visible one is, for one transfer table.
#[derive(Clone, Debug)]
pub struct SkipGrid {
    counts: [u32; 3],
    distances: Vec<u8>,
    /// Of each octant, found when first asked for.
    ahead: [OnceLock<Vec<u8>>; OCTANTS],
    visible: Option<[[u32; 3]; 2]>,
    /// Found when first asked for.
    visible_boxes: OnceLock<Vec<[[u32; 3]; 2]>>,
    of_surfaces: Option<Box<Self>>,
    /// Where it is of surfaces alone, found when first asked for.
    surface_cells: Option<Arc<OnceLock<SurfaceCells>>>,
}

/// Which cells of visible macrocells may have a surface. Up to an eighth of the memory of voxels of 8 bit, where surfaces are everywhere.
#[derive(Debug)]
struct SurfaceCells {
    /// Which macrocells are visible: bits.
    visible: Vec<u64>,
    /// How many are before each word of these.
    before: Vec<u32>,
    /// Of each visible one, where it is known.
    cells: Vec<AtomicU64>,
    /// Of which of these it is: bits.
    known: Vec<AtomicU64>,
}

/// Macrocells on each edge of a box of visible ones.
const BOX_EDGE: u32 = 2;
/// Octants of directions.
const OCTANTS: usize = 8;

impl SkipGrid {
    /// Classifies the macrocells. O(macrocells).
    #[must_use]
    pub fn new(cells: &Macrocells, values: &VisibleValues) -> Self {
        let counts = cells.counts;
        let of_cells = values.of_cells(cells);
        let distances = of_cells.map(|any| if any { 0 } else { DISTANCE_MAX });
        let mut distances: Vec<u8> = distances.collect();
        let reach = u32::from(values.reach);
        let mut visible: Option<[[u32; 3]; 2]> = None;
        for (at, _) in places(counts).zip(&distances).filter(|(_, d)| **d == 0) {
            let [lo, hi] = visible.get_or_insert([at, at]);
            for a in 0..3 {
                lo[a] = lo[a].min(at[a].saturating_sub(reach));
                hi[a] = hi[a].max((at[a] + 1 + reach).min(counts[a]));
            }
        }
        if visible.is_some() {
            sweep(counts, &mut distances, false);
            sweep(counts, &mut distances, true);
            for distance in &mut distances {
                *distance = distance.saturating_sub(values.reach);
            }
        }
        distances.extend([0; DISTANCE_PADDING_BYTES]);
        Self {
            counts,
            distances,
            ahead: Default::default(),
            visible,
            visible_boxes: OnceLock::new(),
            surface_cells: (values.of_surfaces.is_none() && !values.surfaces.is_empty())
                .then(Arc::default),
            of_surfaces: (values.of_surfaces.as_ref())
                .map(|of_surfaces| Box::new(Self::new(cells, of_surfaces))),
        }
    }

    /// Which of the 4³ cells of a visible macrocell of that edge may have a surface, bit by bit; `find` works it out for the first one who asks, or more at once.
    /// `None`: this is not of surfaces alone.
    pub(crate) fn cells_with_surfaces(
        &self,
        macrocell: usize,
        find: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let known = self.surface_cells.as_ref()?;
        let known = known.get_or_init(|| SurfaceCells::new(&self.distances));
        Some(known.of(macrocell, find))
    }

    /// Macrocells on each axis.
    #[must_use]
    pub fn counts(&self) -> [u32; 3] {
        self.counts
    }

    /// For each macrocell, x fastest: 0 where it is visible, else the distance D in the maximum
    /// norm to the next visible one, at most 64: all less than D away are not visible. Three
    /// bytes follow the last one.
    #[must_use]
    pub fn distances(&self) -> &[u8] {
        &self.distances
    }

    /// As [`Self::distances`] to what lies ahead in an octant of directions: from a macrocell c with D, those at
    /// c ± i, i < D on each axis, are not visible; so ways are longer than where both sides count. Bit a of
    /// `octant`: whether directions are negative on axis a.
    ///
    /// # Panics
    /// Where `octant` is 8 or more.
    #[must_use]
    pub fn distances_ahead(&self, octant: usize) -> &[u8] {
        self.ahead[octant].get_or_init(|| {
            let mut distances = self.distances.clone();
            if self.visible.is_some() {
                let negative = [0, 1, 2].map(|a| octant >> a & 1 == 1);
                sweep_octant(self.counts, &mut distances, negative);
            }
            distances
        })
    }

    /// [`Self::distances_ahead`] of all octants, four bits each from the lowest on, 15 at most.
    #[must_use]
    pub fn packed_distances(&self) -> Vec<u32> {
        let cells = self.distances.len() - DISTANCE_PADDING_BYTES;
        let octants: Vec<&[u8]> = (0..OCTANTS)
            .into_par_iter()
            .map(|octant| self.distances_ahead(octant))
            .collect();
        let bits =
            |cell: usize, octant: usize| u32::from(octants[octant][cell].min(15)) << (4 * octant);
        let packed = |cell: usize| (0..OCTANTS).fold(0, |all, octant| all | bits(cell, octant));
        (0..cells).map(packed).collect()
    }

    /// The same of the surfaces alone.
    #[must_use]
    pub fn of_surfaces(&self) -> &Self {
        self.of_surfaces.as_deref().unwrap_or(self)
    }

    /// Half-open boxes of macrocells that hold all visible ones, each at most [`BOX_EDGE`] long: up to a twentieth of the memory of voxels
    /// of 8 bit.
    #[must_use]
    pub(crate) fn visible_boxes(&self) -> &[[[u32; 3]; 2]] {
        self.visible_boxes.get_or_init(|| {
            let counts = self.counts.map(|n| n.div_ceil(BOX_EDGE));
            let all = counts.map(|n| n as usize).iter().product();
            let mut boxes: Vec<Option<[[u32; 3]; 2]>> = vec![None; all];
            let cells = places(self.counts).zip(&self.distances);
            for (at, _) in cells.filter(|(_, distance)| **distance == 0) {
                let [x, y, z] = at.map(|n| n / BOX_EDGE);
                let [lo, hi] =
                    boxes[((z * counts[1] + y) * counts[0] + x) as usize].get_or_insert([at, at]);
                for a in 0..3 {
                    lo[a] = lo[a].min(at[a]);
                    hi[a] = hi[a].max(at[a] + 1);
                }
            }
            boxes.into_iter().flatten().collect()
        })
    }

    /// The half-open box of macrocells that holds all visible ones; `None`: nothing to see.
    #[must_use]
    pub fn visible(&self) -> Option<[[u32; 3]; 2]> {
        self.visible
    }
}

impl SurfaceCells {
    /// Of macrocells with these distances to visible ones.
    fn new(distances: &[u8]) -> Self {
        let bits = |of: &[u8]| {
            let visible = of.iter().enumerate().filter(|(_, d)| **d == 0);
            visible.fold(0, |bits, (n, _)| bits | 1_u64 << n)
        };
        let visible: Vec<u64> = distances.chunks(64).map(bits).collect();
        let mut count = 0;
        let before = visible.iter().map(|bits| {
            let before = count;
            count += bits.count_ones();
            before
        });
        Self {
            before: before.collect(),
            visible,
            cells: (0..count).map(|_| AtomicU64::new(0)).collect(),
            known: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Those of a visible macrocell.
    fn of(&self, macrocell: usize, find: impl FnOnce() -> u64) -> u64 {
        let place = self.place_of(macrocell);
        let (cells, known) = (&self.cells[place], &self.known[place / 64]);
        if known.load(Ordering::Acquire) >> (place % 64) & 1 == 1 {
            return cells.load(Ordering::Relaxed);
        }
        let found = find();
        cells.store(found, Ordering::Relaxed);
        // Who sees the bit sees the cells.
        known.fetch_or(1 << (place % 64), Ordering::Release);
        found
    }

    /// Which of the visible ones a macrocell is, which is visible.
    fn place_of(&self, macrocell: usize) -> usize {
        let (word, bit) = (macrocell / 64, macrocell % 64);
        let before = self.visible[word] & ((1 << bit) - 1);
        (self.before[word] + before.count_ones()) as usize
    }
}

fn places([nx, ny, nz]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..nz).flat_map(move |z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z])))
}

/// One of the two raster sweeps of the chessboard distance transform: each cell takes the
/// distance of the 13 neighbours swept before it, plus 1. Both sweeps together are exact.
fn sweep(counts: [u32; 3], distances: &mut [u8], backwards: bool) {
    let [nx, ny, nz] = counts.map(|n| n as usize);
    // The nearest of the rows swept before, for each x and one beside each end; and the nearest of three of these.
    let mut before = vec![DISTANCE_MAX; nx + 2];
    let mut around = vec![DISTANCE_MAX; nx];
    for step in 0..ny * nz {
        let row = if backwards { ny * nz - 1 - step } else { step };
        let (y, z) = (row % ny, row / ny);
        before.fill(DISTANCE_MAX);
        for other_z in z.saturating_sub(1)..nz.min(z + 2) {
            for other_y in y.saturating_sub(1)..ny.min(y + 2) {
                let other = other_z * ny + other_y;
                if other != row && (other < row) != backwards {
                    let cells = &distances[other * nx..(other + 1) * nx];
                    for (b, d) in before[1..].iter_mut().zip(cells) {
                        *b = (*b).min(*d);
                    }
                }
            }
        }
        for (around, before) in around.iter_mut().zip(before.windows(3)) {
            *around = before[0].min(before[1]).min(before[2]);
        }
        let cells = &mut distances[row * nx..(row + 1) * nx];
        let mut last = DISTANCE_MAX;
        let mut sweep_cell = |(cell, around): (&mut u8, &u8)| {
            last = (*cell).min(last.min(*around).saturating_add(1));
            *cell = last;
        };
        let cells = cells.iter_mut().zip(&around);
        if backwards {
            cells.rev().for_each(&mut sweep_cell);
        } else {
            cells.for_each(&mut sweep_cell);
        }
    }
}

/// Distances of all cells that are not 0 to those ahead that are: the cell's neighbours ahead are swept before it, and their least, plus
/// 1, is its own. Nothing is visible outside.
fn sweep_octant(counts: [u32; 3], distances: &mut [u8], negative: [bool; 3]) {
    let [nx, ny, nz] = counts.map(|n| n as usize);
    // The cell ahead of the i-th from the end; none at the end.
    let place = |i: usize, n: usize, negative: bool| if negative { i } else { n - 1 - i };
    let ahead = |i: usize, n: usize, negative: bool| (i > 0).then(|| place(i - 1, n, negative));
    let mut nearest = vec![DISTANCE_MAX; nx];
    for k in 0..nz {
        let (z, next_z) = (place(k, nz, negative[2]), ahead(k, nz, negative[2]));
        for j in 0..ny {
            let (y, next_y) = (place(j, ny, negative[1]), ahead(j, ny, negative[1]));
            nearest.fill(DISTANCE_MAX);
            let rows = [(next_y, Some(z)), (Some(y), next_z), (next_y, next_z)];
            for (y, z) in rows.into_iter().filter_map(|(y, z)| y.zip(z)) {
                let row = (z * ny + y) * nx;
                for (n, &d) in nearest.iter_mut().zip(&distances[row..row + nx]) {
                    *n = (*n).min(d);
                }
            }
            let row = (z * ny + y) * nx;
            let cells = &mut distances[row..row + nx];
            let mut least = DISTANCE_MAX;
            for i in 0..nx {
                let x = place(i, nx, negative[0]);
                least = least.min(nearest[x]).saturating_add(1).min(DISTANCE_MAX);
                if cells[x] == 0 {
                    least = 0;
                }
                cells[x] = least;
                // What lies beside this one ahead counts for the next one, too.
                least = least.min(nearest[x]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{VoxelBox, VoxelType};

    fn table(visible: std::ops::Range<usize>) -> TransferTable {
        TransferTable {
            entries: (0..512)
                .map(|e| [if visible.contains(&e) { 0.5 } else { 0.0 }; 4])
                .collect(),
            columns: 512,
            scale: 2.0,
            offset: 0.0,
            rows_per_floor: None,
            segment_unit: None,
        }
    }

    fn values_of(table: &TransferTable) -> VisibleValues {
        VisibleValues::of(table, Mode::Dvr, &VoxelType::U8.into(), Vec::new())
    }

    fn brick(size: [u32; 3], voxel: impl Fn([u32; 3]) -> u8) -> BrickVoxels {
        let stored = VoxelBox::new([0; 3], size);
        let bytes: Vec<u8> = places(size).map(voxel).collect();
        BrickVoxels::new(stored, stored, VoxelType::U8, bytes.into()).unwrap()
    }

    #[test]
    fn ranges_hold_the_voxel_after_the_last_cell() {
        let cells =
            Macrocells::with_edge(&brick([9, 5, 1], |[x, _, _]| u8::try_from(x).unwrap()), 4);
        assert_eq!(cells.counts(), [2, 1, 1]);
        let ranges: Vec<_> = cells.ranges().collect();
        assert_eq!(ranges, [[0.0, 4.0], [4.0, 8.0]]);
    }

    #[test]
    fn what_is_visible_of_bytes_is_what_is_visible_of_their_ranges() {
        let odd = |[x, y, z]: [u32; 3]| u8::try_from((x * 7 + y * y * 3 + z * 11) % 251).unwrap();
        let size = [33, 17, 9];
        let unsigned = brick(size, odd);
        let (stored, bytes) = (unsigned.stored(), unsigned.bytes().clone());
        let signed = BrickVoxels::new(stored, stored, VoxelType::I8, bytes).unwrap();
        for brick in [unsigned, signed] {
            let cells = Macrocells::with_edge(&brick, 4);
            for visible in [3..9, 100..103, 250..260, 400..512, 7..7] {
                let table = table(visible);
                let values = VisibleValues::of(&table, Mode::Dvr, brick.numbers(), Vec::new());
                assert!(values.of_bytes.is_some());
                let expected: Vec<bool> = cells.ranges().map(|range| values.any(range)).collect();
                let found: Vec<bool> = values.of_cells(&cells).collect();
                assert_eq!(found, expected);
                // Of other voxels it knows nothing.
                let others =
                    VisibleValues::of(&table, Mode::Dvr, &VoxelType::U16.into(), Vec::new());
                assert!(others.of_cells(&cells).eq(expected));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn what_the_kernels_see_of_a_range_is_visible(
            scale in -40.0f32..40.0, offset in -900.0f32..900.0, ends in proptest::array::uniform2(-99.0f32..99.0),
            along in 0.0f32..=1.0, entry in 0usize..512,
        ) {
            let table = TransferTable { scale, offset, ..table(entry..entry + 1) };
            let values = VisibleValues::of(&table, Mode::Dvr, &VoxelType::F32.into(), Vec::new());
            let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            let sample = (high - low).mul_add(along, low).clamp(low, high);
            // As the kernels do: fused, and interpolated between two entries.
            let place = sample.mul_add(scale, offset).clamp(0.0, 511.0);
            let sees = [place.floor(), place.ceil()].contains(&(entry as f32));
            proptest::prop_assert!(!sees || values.any([low, high]), "{place}");
        }
    }

    #[test]
    fn a_range_is_visible_where_the_table_has_an_opacity_in_it() {
        let values = values_of(&table(100..110));
        assert!(!values.any([0.0, 49.4]));
        assert!(values.any([0.0, 49.6]), "entry 100 takes part from 99 on");
        assert!(values.any([40.0, 60.0]));
        assert!(values.any([54.9, 200.0]));
        assert!(!values.any([55.1, 900.0]));
    }

    #[test]
    fn distances_are_those_of_the_maximum_norm() {
        let cells = Macrocells::of(&brick([81, 65, 41], |p| {
            if p == [20, 30, 20] || p == [76, 4, 4] {
                50
            } else {
                0
            }
        }));
        let grid = SkipGrid::new(&cells, &values_of(&table(100..110)));
        let seen = [[2, 3, 2], [9, 0, 0]];
        for (at, &d) in places(grid.counts()).zip(grid.distances()) {
            let far = |s: &[u32; 3]| (0..3).map(|a| at[a].abs_diff(s[a])).max().unwrap();
            assert_eq!(u32::from(d), seen.iter().map(far).min().unwrap());
        }
        assert_eq!(grid.visible(), Some([[2, 0, 0], [10, 4, 3]]));
        let mut of_segments = table(100..110);
        of_segments.segment_unit = Some(1.0);
        let wider = SkipGrid::new(&cells, &values_of(&of_segments));
        for (d, wider) in grid.distances().iter().zip(wider.distances()) {
            assert_eq!(d.saturating_sub(1), *wider);
        }
        assert_eq!(wider.visible(), Some([[1, 0, 0], [10, 5, 4]]));
    }

    #[test]
    fn distances_ahead_are_those_to_what_lies_in_the_octant() {
        let cells = Macrocells::of(&brick([81, 65, 41], |p| {
            if p == [20, 30, 20] || p == [76, 4, 4] {
                50
            } else {
                0
            }
        }));
        for segment_unit in [None, Some(1.0)] {
            let table = TransferTable {
                segment_unit,
                ..table(100..110)
            };
            let grid = SkipGrid::new(&cells, &values_of(&table));
            let cells: Vec<([u32; 3], u8)> = places(grid.counts())
                .zip(grid.distances().iter().copied())
                .collect();
            for octant in 0..OCTANTS {
                let ahead = grid.distances_ahead(octant);
                assert_eq!(ahead.len(), grid.distances().len());
                for ((at, around), &d) in cells.iter().zip(ahead) {
                    let way = |to: u32, from: u32, a: usize| {
                        if octant >> a & 1 == 1 {
                            from.checked_sub(to)
                        } else {
                            to.checked_sub(from)
                        }
                    };
                    let far = |(seen, _): &([u32; 3], u8)| {
                        let ways: Option<Vec<u32>> =
                            (0..3).map(|a| way(seen[a], at[a], a)).collect();
                        ways?.into_iter().max()
                    };
                    let seen = cells.iter().filter(|(_, d)| *d == 0).filter_map(far);
                    let nearest = seen.min().unwrap_or(DISTANCE_MAX.into());
                    assert_eq!(u32::from(d), nearest.min(DISTANCE_MAX.into()));
                    assert!(d >= *around);
                }
            }
        }
    }

    #[test]
    fn a_brick_without_opacity_shows_nothing() {
        let cells = Macrocells::of(&brick([20, 20, 20], |_| 3));
        let grid = SkipGrid::new(&cells, &values_of(&table(100..110)));
        assert_eq!(grid.visible(), None);
    }
}

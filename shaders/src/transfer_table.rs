//! The transfer function of a scene as a table that kernels look up.
//!
//! Shapes: rows of `columns` entries, evenly spaced over the function's domain; kernels interpolate
//! linearly between neighbours. Row 0 holds premultiplied linear RGBA for one step; it is clamped
//! outside. Where a 2D function is shown, it holds the largest opacities of each value, and a row for each
//! node along the gradient lengths follows it.
//!
//! Segments (`RenderSettings::preintegrate`): three rows follow in place of one. With cell e between the
//! entries e and e + 1, they hold what passes before cell e, in multiples of 4096 units and the rest, and
//! what cell e holds, of optical depth (alpha) and of colour times optical depth. Whole numbers below 2²⁴:
//! differences of sums are exact however opaque what lies elsewhere in the table is. The first and the last
//! cell lie beyond the domain, and go on for ever.

use crate::{
    modes::{ModeStages, with_mode},
    scene::Scene,
};
use brickmesh_topology::data::transfer_shapes::{
    GRADIENT_NODES, NodeGrid, TransferShape, VALUE_NODES,
};

/// Fewest entries: fine enough for the curvature of the step opacity.
const ENTRIES_MIN: usize = 512;
/// Most entries: 16 bytes each, half a 64 KiB second-level share.
const ENTRIES_MAX: usize = 2048;
/// Cells of a domain whose segments are summed; every device has images of 4096 columns.
const SEGMENT_CELLS: usize = 4000;
/// The ends of a segment count as so far apart at least, in cells: edges between cells are then not seen.
pub(crate) const SEGMENT_MIN: f32 = 2.0;
/// Places of each such cell at which the function is asked.
const PLACES_OF_CELL: usize = 16;
/// Units of the densest cell.
const CELL_UNITS: f64 = 16_777_216.0;
/// Units that an entry of the first row of sums stands for.
pub(crate) const HIGH_UNITS: f32 = 4096.0;
/// How far beyond the table a place counts, in entries.
pub(crate) const PLACE_MAX: f32 = 1e6;
/// Opacities count as this at most: an optical depth is finite.
const OPACITY_MAX: f64 = 1.0 - 1e-6;

/// More gradient rows a floor say no more.
const ROWS_PER_FLOOR_MAX: f32 = 1e30;
/// Unit distances of a step, and its optical depth, at most: products of both are finite.
const UNITS_MAX: f64 = 1e30;
const DEPTH_MAX: f64 = 1e4;

/// Bins of [`SeenPlaces`].
pub(crate) const SEEN_BINS: usize = 256;

/// Where along a table something is seen: a bit for each of [`SEEN_BINS`] parts of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenPlaces {
    /// Eight words, lowest bit first.
    pub(crate) bins: [u32; SEEN_BINS / 32],
    pub(crate) bins_per_place: f32,
}

impl SeenPlaces {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the bins"
    )]
    fn bin(&self, place: f32) -> usize {
        ((place.max(0.0) * self.bins_per_place) as usize).min(SEEN_BINS - 1)
    }
}

/// What colours and opacities of samples or of segments are looked up in.
#[derive(Clone, Debug)]
pub struct TransferTable {
    /// See the module.
    pub entries: Vec<[f32; 4]>,
    /// Entries of a row.
    pub columns: usize,
    /// Table coordinate of a voxel's number v: `v · scale + offset`, 0 … columns − 1.
    pub scale: f32,
    /// See [`Self::scale`].
    pub offset: f32,
    /// Rows of a 2D function per gradient floor; `None`: it is none.
    pub rows_per_floor: Option<f32>,
    /// What a unit of the sums stands for; `None`: there are none.
    pub segment_unit: Option<f32>,
}

impl TransferTable {
    /// The table of a scene.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    pub fn new(scene: &Scene) -> Self {
        let settings = &scene.settings;
        let (shapes, is_segments) = (settings.shapes(), settings.is_preintegrated());
        // With sums, there is a cell beyond the domain on either side, and the last entry begins none.
        let beyond = u8::from(is_segments);
        let columns = match (shapes, is_segments) {
            ([], false) => entry_count(scene),
            ([], true) => SEGMENT_CELLS + 3,
            (_, false) => VALUE_NODES,
            (_, true) => VALUE_NODES + 2,
        };
        let mut rows_per_floor = None;
        let mut segment_unit = None;
        let entries = if let Some(nodes) = NodeGrid::of(shapes) {
            let floor = scene.gradient_floor() * scene.volume.min_spacing();
            let rows = (floor / nodes.gradient_spacing()) as f32;
            rows_per_floor = Some(rows.clamp(f32::MIN_POSITIVE, ROWS_PER_FLOOR_MAX));
            if is_segments {
                let (entries, unit) = summed(&cells_2d(scene, &nodes));
                segment_unit = Some(unit);
                entries
            } else {
                colors_2d(scene, &nodes)
            }
        } else if is_segments {
            let (entries, unit) = summed(&[cells(scene)]);
            segment_unit = Some(unit);
            entries
        } else {
            colors(scene, columns)
        };
        let [low, high] = scene.domain();
        let beyond = f64::from(beyond);
        let per_value = ((columns - 1) as f64 - 2.0 * beyond) / (high - low);
        let [value_scale, value_offset] = scene.numbers.value_scale_and_offset(&scene.volume);
        Self {
            entries,
            columns,
            scale: (value_scale * per_value) as f32,
            offset: ((value_offset - low) * per_value + beyond) as f32,
            rows_per_floor,
            segment_unit,
        }
    }

    /// Where row 0 shows something.
    #[must_use]
    pub(crate) fn seen_places(&self) -> SeenPlaces {
        let last = (self.columns - 1).max(1);
        let mut seen = SeenPlaces {
            bins: [0; SEEN_BINS / 32],
            bins_per_place: SEEN_BINS as f32 / last as f32,
        };
        let row = self.entries[..self.columns].iter().enumerate();
        for (column, _) in row.filter(|(_, entry)| entry.iter().any(|c| *c != 0.0)) {
            // An entry is seen up to its neighbours; and a place is rounded.
            let place = column as f32;
            for bin in seen.bin(place - 1.01)..=seen.bin(place + 1.01) {
                seen.bins[bin / 32] |= 1 << (bin % 32);
            }
        }
        seen
    }

    /// Rows of [`Self::columns`] entries.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.entries.len() / self.columns
    }

    /// The place in the table of a voxel's number: 0 … columns − 1, not clamped.
    #[must_use]
    #[inline]
    pub fn place(&self, number: f32) -> f32 {
        number.mul_add(self.scale, self.offset)
    }

    /// Premultiplied linear RGBA at a place of row 0, clamped; NaN is as 0.
    #[must_use]
    #[inline]
    pub fn classify(&self, place: f32) -> [f32; 4] {
        self.at(place, 0)
    }

    /// As [`Self::classify`], of any row.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the table before; NaN becomes 0"
    )]
    fn at(&self, place: f32, row: usize) -> [f32; 4] {
        let last = self.columns - 1;
        let x = place.max(0.0).min(last as f32);
        let column = (x as usize).min(last.saturating_sub(1));
        let t = x - column as f32;
        let start = row * self.columns;
        let next = start + (column + 1).min(last);
        let (a, b) = (self.entries[start + column], self.entries[next]);
        std::array::from_fn(|c| a[c] + (b[c] - a[c]) * t)
    }

    /// What a sample shows whose segment has these places at its beginning, middle and end, as far as it
    /// is known without a gradient: that it may be seen, of a 2D function.
    #[must_use]
    #[inline]
    pub fn color(&self, profile: [f32; 3]) -> [f32; 4] {
        match (self.segment_unit, self.rows_per_floor) {
            (None, _) => self.classify(profile[0]),
            (Some(_), Some(_)) => [1.0; 4],
            (Some(unit), None) => through(self.mean(profile, 0).map(|m| m * unit)),
        }
    }

    /// What it shows with a gradient of so many floors, of a 2D function.
    #[must_use]
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the rows before; NaN becomes 0"
    )]
    pub fn color_2d(&self, profile: [f32; 3], gradient: f32, rows_per_floor: f32) -> [f32; 4] {
        let last = (GRADIENT_NODES - 1) as f32;
        let y = (gradient * rows_per_floor).max(0.0).min(last);
        let row = (y as usize).min(GRADIENT_NODES - 2);
        let t = y - row as f32;
        let mix = |a: [f32; 4], b: [f32; 4]| std::array::from_fn(|c| a[c] + (b[c] - a[c]) * t);
        match self.segment_unit {
            None => mix(self.at(profile[0], 1 + row), self.at(profile[0], 2 + row)),
            Some(unit) => {
                let mean: [f32; 4] = mix(self.mean(profile, row), self.mean(profile, row + 1));
                through(mean.map(|m| m * unit))
            }
        }
    }

    /// The mean of a segment, in units, of the sums of a gradient node: values change evenly in each half.
    #[inline]
    fn mean(&self, [from, middle, to]: [f32; 3], gradient_row: usize) -> [f32; 4] {
        let first = self.mean_between(widened([from, middle]), gradient_row);
        let second = self.mean_between(widened([middle, to]), gradient_row);
        std::array::from_fn(|c| 0.5 * (first[c] + second[c]))
    }

    /// The mean between two places, in units, of the sums of a gradient node.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the table before"
    )]
    fn mean_between(&self, [from, to]: [f32; 2], gradient_row: usize) -> [f32; 4] {
        let start = (1 + 3 * gradient_row) * self.columns;
        let at = |x: f32| {
            let cell = x.max(0.0).min((self.columns - 2) as f32) as usize;
            let of = |row: usize| self.entries[start + row * self.columns + cell];
            (of(0), of(1), of(2), x - cell as f32)
        };
        let (high, low, cell, part) = at(from);
        let (high_end, low_end, cell_end, part_end) = at(to);
        std::array::from_fn(|c| {
            let whole = (high_end[c] - high[c]) * HIGH_UNITS + (low_end[c] - low[c]);
            // cell_end · part_end − cell · part, exact in one cell however far its ends are.
            let parts = cell_end[c] * (part_end - part) + (cell_end[c] - cell[c]) * part;
            (whole + parts) / (to - from)
        })
    }
}

/// The ends of half a segment in ascending order, at least [`SEGMENT_MIN`] apart.
#[inline]
fn widened([a, b]: [f32; 2]) -> [f32; 2] {
    let clamped = |x: f32| x.clamp(-PLACE_MAX, PLACE_MAX);
    let (a, b) = (clamped(a), clamped(b));
    let (middle, half) = (0.5 * (a + b), 0.5 * (b - a).abs().max(SEGMENT_MIN));
    [middle - half, middle + half]
}

/// Premultiplied colour of what passes a step of such optical depth and colour times depth.
#[inline]
fn through([r, g, b, depth]: [f32; 4]) -> [f32; 4] {
    let alpha = 1.0 - (-depth).exp();
    let part = alpha / depth.max(f32::MIN_POSITIVE);
    [r * part, g * part, b * part, alpha]
}

/// Row 0 of a 1D function.
#[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
fn colors(scene: &Scene, columns: usize) -> Vec<[f32; 4]> {
    let [low, high] = scene.domain();
    let (step, unit) = (scene.settings.step, scene.unit_distance());
    let last = (columns - 1) as f64;
    let entries = (0..columns).map(|e| {
        let value = low + (high - low) * e as f64 / last;
        let (color, opacity) = scene.settings.transfer.classify(value);
        let alpha = with_mode!(scene.settings.mode, M => M::sample_opacity(opacity, step, unit));
        premultiplied(color, alpha).map(|c| c as f32)
    });
    entries.collect()
}

fn premultiplied([r, g, b]: [f64; 3], alpha: f64) -> [f64; 4] {
    [r * alpha, g * alpha, b * alpha, alpha]
}

/// Optical depth of a step, and colours times it.
fn depth(scene: &Scene, (color, opacity): ([f64; 3], f64)) -> [f64; 4] {
    let of_unit = -(-opacity.min(OPACITY_MAX)).ln_1p();
    let units = (scene.settings.step / scene.unit_distance()).min(UNITS_MAX);
    premultiplied(color, (of_unit * units).min(DEPTH_MAX))
}

/// What the cells of a 1D function hold, the last not to be seen.
fn cells(scene: &Scene) -> Vec<[f64; 4]> {
    let [low, high] = scene.domain();
    let at = |place: f64| {
        let value = low + (high - low) * place / SEGMENT_CELLS as f64;
        depth(scene, scene.settings.transfer.classify(value))
    };
    let parts = PLACES_OF_CELL as f64;
    let inside = (0..SEGMENT_CELLS).map(|cell| {
        let sum = (0..PLACES_OF_CELL).fold([0.0; 4], |sum, part| {
            let there = at(cell as f64 + (part as f64 + 0.5) / parts);
            std::array::from_fn(|c| sum[c] + there[c])
        });
        sum.map(|s| s / parts)
    });
    let after = at(SEGMENT_CELLS as f64);
    let before = std::iter::once(at(0.0));
    before.chain(inside).chain([after; 2]).collect()
}

/// The shapes' colour and opacity at every node, rows of values.
fn nodes_2d(shapes: &[TransferShape], nodes: &NodeGrid) -> impl Iterator<Item = ([f64; 3], f64)> {
    let (low, spacing, rows) = (nodes.values[0], nodes.spacing(), nodes.gradient_spacing());
    (0..GRADIENT_NODES * VALUE_NODES).map(move |n| {
        let (column, row) = (n % VALUE_NODES, n / VALUE_NODES);
        let value = low + spacing * column as f64;
        nodes.classify(shapes, value, rows * row as f64)
    })
}

/// All rows of a 2D function.
#[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
fn colors_2d(scene: &Scene, nodes: &NodeGrid) -> Vec<[f32; 4]> {
    let (step, unit) = (scene.settings.step, scene.unit_distance());
    let mut entries = vec![[0.0_f32; 4]; VALUE_NODES];
    for (n, (color, opacity)) in nodes_2d(scene.settings.shapes(), nodes).enumerate() {
        let alpha = with_mode!(scene.settings.mode, M => M::sample_opacity(opacity, step, unit));
        let entry = premultiplied(color, alpha).map(|c| c as f32);
        let most = &mut entries[n % VALUE_NODES];
        *most = [most[3].max(entry[3]); 4];
        entries.push(entry);
    }
    entries
}

/// What the cells of each row of a 2D function hold: half of what is at either node.
fn cells_2d(scene: &Scene, nodes: &NodeGrid) -> Vec<Vec<[f64; 4]>> {
    let depths: Vec<[f64; 4]> = nodes_2d(scene.settings.shapes(), nodes)
        .map(|node| depth(scene, node))
        .collect();
    let cells_of = |row: &[[f64; 4]]| {
        let pairs = row.windows(2);
        let means = pairs.map(|p| std::array::from_fn(|c| 0.5 * (p[0][c] + p[1][c])));
        std::iter::once([0.0; 4])
            .chain(means)
            .chain([[0.0; 4]; 2])
            .collect()
    };
    depths.chunks_exact(VALUE_NODES).map(cells_of).collect()
}

/// The rows of sums of cells, a list for each gradient node, and row 0 before them: opaque where a cell
/// beside an entry holds anything. And what a unit stands for.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "kernels work in f32; units are whole numbers below 2^36"
)]
fn summed(rows: &[Vec<[f64; 4]>]) -> (Vec<[f32; 4]>, f32) {
    let columns = rows[0].len();
    let densest = rows.iter().flatten().map(|c| c[3]).fold(0.0, f64::max);
    let unit = if densest > 0.0 {
        densest / CELL_UNITS
    } else {
        1.0
    };
    let mut entries = vec![[0.0; 4]; columns];
    for cells in rows {
        for (e, cell) in cells.iter().enumerate() {
            if cell[3] > 0.0 {
                for seen in &mut entries[e..columns.min(e + 2)] {
                    *seen = [1.0; 4];
                }
            }
        }
        let mut sums = [0_u64; 4];
        let mut planes = [const { Vec::new() }; 3];
        for cell in cells {
            let units = cell.map(|c| (c / unit).round());
            planes[0].push(sums.map(|s| (s / HIGH_UNITS as u64) as f32));
            planes[1].push(sums.map(|s| (s % HIGH_UNITS as u64) as f32));
            planes[2].push(units.map(|u| u as f32));
            sums = std::array::from_fn(|c| sums[c] + units[c] as u64);
        }
        entries.extend(planes.concat());
    }
    (entries, unit as f32)
}

/// The count of entries for which the transfer function's points come nearest to entries, so
/// that its kinks survive the table.
#[expect(clippy::cast_precision_loss, reason = "counts below 4096")]
fn entry_count(scene: &Scene) -> usize {
    let [low, high] = scene.domain();
    let misfit = |count: usize| {
        let last = (count - 1) as f64;
        let off = |v: f64| {
            let x = (v - low) / (high - low) * last;
            (x - x.round()).abs()
        };
        scene
            .settings
            .transfer
            .points
            .iter()
            .map(|p| off(p.value))
            .fold(0.0, f64::max)
    };
    let mut best = (f64::INFINITY, ENTRIES_MAX);
    for count in (ENTRIES_MIN..=ENTRIES_MAX).rev() {
        let m = misfit(count);
        if m < best.0 - 1e-9 {
            best = (m, count);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{
        Camera, RenderSettings, TransferFunction, VolumeDescription, VoxelNumbers, VoxelType,
        base::digest::Digest, data::transfer_function::TransferPoint,
    };

    fn scene(transfer: TransferFunction, step: f64, preintegrate: bool) -> Scene {
        let volume = VolumeDescription::new([8; 3], VoxelType::U8);
        let mut settings = RenderSettings::new(transfer, step);
        settings.preintegrate = preintegrate;
        Scene {
            materials: Vec::new(),
            casters: None,
            data_set: Digest::of(b"test"),
            numbers: VoxelNumbers::of(&volume, Some([0.0, 255.0]), None),
            view: Camera::orbit(&volume, 0.0, 0.0, 1.0).view(4, 4).unwrap(),
            volume,
            settings,
        }
    }

    fn table(transfer: TransferFunction, step: f64) -> TransferTable {
        TransferTable::new(&scene(transfer, step, true))
    }

    fn point(value: f64, opacity: f64) -> TransferPoint {
        TransferPoint {
            value,
            color: [0.5, 1.0, 0.25],
            opacity,
        }
    }

    #[test]
    fn places_that_are_seen_have_their_bins() {
        // Peaks narrower than a bin, a step, and both ends of the domain.
        let of = |points: &[(f64, f64)]| TransferFunction {
            unit_distance: None,
            points: points.iter().map(|&(v, o)| point(v, o)).collect(),
        };
        let peak = |n: i32| {
            let at = f64::from(n) * 1.37;
            of(&[
                (0.0, 0.0),
                (at - 0.2, 0.0),
                (at, 0.5),
                (at + 0.2, 0.0),
                (255.0, 0.0),
            ])
        };
        let others = [
            of(&[
                (0.0, 0.0),
                (37.0, 0.0),
                (37.0, 0.2),
                (90.0, 0.2),
                (90.0, 0.0),
            ]),
            of(&[(0.0, 1e-6), (0.3, 0.0), (254.7, 0.0), (255.0, 1e-6)]),
        ];
        for transfer in (1..185).map(peak).chain(others) {
            let table = TransferTable::new(&scene(transfer, 0.5, false));
            let seen_places = table.seen_places();
            let bins = seen_places.bins;
            let has = |place: f32| {
                let bin = seen_places.bin(place);
                bins[bin / 32] >> (bin % 32) & 1 == 1
            };
            let places = (-100..12_000_i32).map(|n| n as f32 / 5.0);
            let seen = places.filter(|place| table.classify(*place)[3] != 0.0);
            assert!(seen.clone().count() > 5);
            let missed = seen.filter(|place| !has(*place));
            assert_eq!(missed.collect::<Vec<_>>(), [] as [f32; 0]);
            assert!(
                bins.iter().map(|b| b.count_ones()).sum::<u32>() < 160,
                "{bins:?}"
            );
        }
    }

    #[test]
    fn what_is_faint_beside_what_is_opaque_keeps_its_digits() {
        let transfer = TransferFunction {
            unit_distance: None,
            points: vec![
                point(0.0, 1.0),
                point(200.0, 1.0),
                point(200.0, 1e-3),
                point(255.0, 1e-3),
            ],
        };
        let table = table(transfer, 0.5);
        let alpha = |a: f32, b: f32| {
            let profile = [a, f32::midpoint(a, b), b];
            table.color(profile.map(|value| table.place(value)))[3]
        };
        let expected = 1.0 - (1.0_f32 - 1e-3).sqrt();
        for (a, b) in [
            (210.0, 210.0),
            (210.0, 210.2),
            (250.0, 220.0),
            (254.0, 400.0),
        ] {
            let found = alpha(a, b);
            assert!((found / expected - 1.0).abs() < 1e-3, "{a} to {b}: {found}");
        }
        assert!(alpha(190.0, 100.0) > 0.99 && alpha(-50.0, 20.0) > 0.99);
    }

    #[test]
    fn a_segment_sees_its_share_of_a_peak() {
        let transfer = TransferFunction {
            unit_distance: None,
            points: vec![
                point(0.0, 0.0),
                point(100.0, 0.0),
                point(100.0, 0.3),
                point(102.0, 0.3),
                point(102.0, 0.0),
                point(255.0, 0.0),
            ],
        };
        let table = table(transfer, 1.0);
        for (profile, share) in [
            ([90.0, 100.0, 110.0], 0.1),
            ([110.0, 100.0, 90.0], 0.1),
            ([-300.0, -99.5, 101.0], 1.0 / 401.0),
            // There and back: ends alone would see nothing.
            ([90.0, 110.0, 90.0], 0.1),
            ([90.0, 90.0, 110.0], 0.05),
        ] {
            let [r, g, _, alpha] = table.color(profile.map(|value| table.place(value)));
            let expected = 1.0 - 0.7_f32.powf(share);
            assert!((alpha - expected).abs() < 1e-3 * expected + 1e-5, "{alpha}");
            assert!((r - 0.5 * alpha).abs() < 1e-6 && (g - alpha).abs() < 1e-6);
        }
        assert!(table.color([103.0, 103.0, 250.0].map(|value| table.place(value)))[3] <= 0.0);
    }
}

//! Statistics, histogram and overview of a volume whose rows pass by once, in bounded memory.
//!
//! Integers are counted exactly. Of floats one voxel of every few is looked at, at a place that
//! depends on nothing but the volume's size: an affine map of the values maps what is found.
//! Invariant: what is no data is counted exactly, and is in nothing else.

use crate::data::{
    column_values::ColumnValues,
    default_transfer::default_transfer,
    manifest::{Manifest, ManifestError, ManifestParts},
    number_rows::{bounds, numbers_of},
    subject::Overview,
    value_statistics::{HISTOGRAM_BINS, NoDataCounts, ValueStatistics},
    volume::{VolumeDescription, VoxelType},
};
use serde::{Deserialize, Serialize};

/// Most floats that are looked at, inside and on the border each: quantiles are then off by a
/// thousandth.
const SAMPLES_MAX: u64 = 1 << 20;
/// Neighbours are counted apart: most are equal, and one count could not be raised before the last time is written.
const LANES: usize = 4;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ValueGathering {
    volume: VolumeDescription,
    /// Of floats until the end.
    no_data: NoDataCounts,
    range: [f32; 2],
    all: Values,
    border: Values,
    overview: Overview,
    /// Of the row that is taken.
    #[serde(skip)]
    numbers: Vec<f32>,
}

/// What was found in a volume.
#[derive(Clone, Debug)]
pub struct GatheredValues {
    /// Smallest and largest stored number; `None`: all is no data.
    pub range: Option<[f64; 2]>,
    /// What the values are like.
    pub statistics: ValueStatistics,
    /// Voxels by value, in equal bins over [`ValueStatistics::histogram_range`].
    pub histogram: Vec<u64>,
    /// Where which values are.
    pub overview: Overview,
}

impl GatheredValues {
    /// The manifest of a volume in which these were found, checked.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn manifest(self, mut parts: ManifestParts) -> Result<Manifest, ManifestError> {
        (parts.statistics, parts.histogram) = (Some(self.statistics), self.histogram);
        parts.columns = ColumnValues::of(&self.overview);
        let manifest = Manifest::try_from(parts)?;
        let shown = default_transfer(&manifest).function;
        let subject = self.overview.subject(manifest.volume(), &shown);
        Ok(manifest.with_subject(subject))
    }
}

/// Values of voxels, some of them or all.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Values {
    /// How many voxels have each integer, by its bits; in parts.
    Integers([Vec<u64>; LANES]),
    /// One of every `stride` voxels.
    Floats {
        stride: u64,
        passed: u64,
        next: u64,
        taken: Vec<f32>,
    },
}

impl ValueGathering {
    /// Of a volume of which no row has come.
    #[must_use]
    pub fn new(volume: &VolumeDescription) -> Self {
        let [x, y, z] = volume.dims.map(u64::from);
        let faces = [(x, y * z), (y, x * z), (z, x * y)];
        // An axis of one voxel has no border: all of the volume would be on it.
        let on_border = faces.map(|(n, face)| if n > 1 { 2 * face } else { 0 });
        Self {
            no_data: NoDataCounts::default(),
            range: [f32::INFINITY, f32::NEG_INFINITY],
            all: Values::new(volume.voxel, x * y * z),
            border: Values::new(volume.voxel, on_border.iter().sum()),
            overview: Overview::new(volume.dims),
            numbers: Vec::new(),
            volume: volume.clone(),
        }
    }

    /// Takes the row at (y, z), whose voxels are `bytes`, little-endian.
    pub fn row(&mut self, y: u32, z: u32, bytes: &[u8]) {
        let voxel = self.volume.voxel;
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers_of(&self.volume, bytes, &mut numbers);
        if voxel == VoxelType::F32 {
            let [low, high] = bounds(&numbers);
            self.range = [self.range[0].min(low), self.range[1].max(high)];
            if numbers.iter().any(|n| n.is_nan()) {
                self.count_no_data(bytes, &numbers);
            }
        }
        self.overview.row(y, z, &numbers);
        self.all.row(bytes, &numbers);
        let [nx, ny, nz] = self.volume.dims;
        let is_end = |at: u32, n: u32| n > 1 && (at == 0 || at + 1 == n);
        if is_end(y, ny) || is_end(z, nz) {
            self.border.row(bytes, &numbers);
        } else if nx > 1 {
            let mut ends = (bytes.chunks_exact(voxel.bytes())).zip(numbers.chunks(1));
            for (bytes, numbers) in ends.next().into_iter().chain(ends.next_back()) {
                self.border.row(bytes, numbers);
            }
        }
        self.numbers = numbers;
    }

    /// Counts the floats of a row that are no data.
    fn count_no_data(&mut self, bytes: &[u8], numbers: &[f32]) {
        let counts = &mut self.no_data;
        let (stored, _) = bytes.as_chunks();
        for (&stored, _) in stored.iter().zip(numbers).filter(|(_, n)| n.is_nan()) {
            let stored = f32::from_le_bytes(stored);
            let count = if stored.is_nan() {
                &mut counts.nan
            } else if stored.is_infinite() {
                &mut counts.infinite
            } else {
                &mut counts.filled
            };
            *count += 1;
        }
    }

    /// What was found.
    #[must_use]
    pub fn finish(mut self) -> GatheredValues {
        let (mut all, mut border) = [self.all, self.border]
            .map(|values| values.counted(self.volume.voxel))
            .into();
        // Integers were counted whatever they mean.
        let is_fill = |&(value, _): &(f32, u64)| self.volume.is_no_data(value);
        let filled = all.iter().filter(|v| is_fill(v)).map(|(_, count)| count);
        self.no_data.filled += filled.sum::<u64>();
        all.retain(|v| !is_fill(v));
        border.retain(|v| !is_fill(v));
        if self.volume.voxel != VoxelType::F32
            && let (Some(low), Some(high)) = (all.first(), all.last())
        {
            self.range = [low.0, high.0];
        }
        self.overview.close_columns();
        let statistics = ValueStatistics::of(self.no_data, &all, &border);
        let has_data = self.range[0] <= self.range[1];
        GatheredValues {
            range: has_data.then(|| self.range.map(f64::from)),
            histogram: histogram(&all, statistics.histogram_range),
            statistics,
            overview: self.overview,
        }
    }
}

impl Values {
    fn new(voxel: VoxelType, voxels: u64) -> Self {
        if voxel != VoxelType::F32 {
            let numbers = 1 << (8 * voxel.bytes());
            return Self::Integers(std::array::from_fn(|_| vec![0; numbers]));
        }
        let stride = voxels.div_ceil(SAMPLES_MAX).max(1);
        Self::Floats {
            stride,
            passed: 0,
            next: place(0, stride),
            taken: Vec::new(),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a place in a row that is in memory"
    )]
    fn row(&mut self, bytes: &[u8], numbers: &[f32]) {
        match self {
            Self::Integers(lanes) if bytes.len() == numbers.len() => {
                count_bits(lanes, bytes, |&b| b.into());
            }
            Self::Integers(lanes) => {
                let (voxels, _) = bytes.as_chunks();
                count_bits(lanes, voxels, |&v| u16::from_le_bytes(v).into());
            }
            Self::Floats {
                stride,
                passed,
                next,
                taken,
            } => {
                let end = *passed + numbers.len() as u64;
                while *next < end {
                    let number = numbers[(*next - *passed) as usize];
                    if !number.is_nan() {
                        taken.push(number);
                    }
                    let run = *next / *stride + 1;
                    *next = run * *stride + place(run, *stride);
                }
                *passed = end;
            }
        }
    }

    /// Values in ascending order, and how many voxels have each, about.
    fn counted(self, voxel: VoxelType) -> Vec<(f32, u64)> {
        match self {
            Self::Integers(lanes) => {
                let count = |bits: usize| lanes.iter().map(|lane| lane[bits]).sum::<u64>();
                let value = |bits: usize| voxel.read(&bits.to_le_bytes(), 0);
                let counted = (0..lanes[0].len()).map(|bits| (value(bits), count(bits)));
                let mut all: Vec<(f32, u64)> = counted.filter(|(_, n)| *n > 0).collect();
                all.sort_by(|a, b| a.0.total_cmp(&b.0));
                all
            }
            Self::Floats {
                mut taken, stride, ..
            } => {
                // −0 and 0 are one value.
                taken.iter_mut().for_each(|v| *v += 0.0);
                taken.sort_unstable_by(f32::total_cmp);
                let runs = taken.chunk_by(|a, b| a.to_bits() == b.to_bits());
                runs.map(|run| (run[0], run.len() as u64 * stride))
                    .collect()
            }
        }
    }
}

/// Counts voxels by their bits.
fn count_bits<T>(lanes: &mut [Vec<u64>; LANES], voxels: &[T], bits: impl Fn(&T) -> usize) {
    let (runs, rest) = voxels.as_chunks::<LANES>();
    for run in runs.iter().map(<[T; LANES]>::as_slice).chain([rest]) {
        for (lane, voxel) in lanes.iter_mut().zip(run) {
            lane[bits(voxel)] += 1;
        }
    }
}

/// Where in a run of `stride` voxels one is taken: nothing that repeats in the volume repeats here.
fn place(run: u64, stride: u64) -> u64 {
    // The finalizer of MurmurHash3 (Appleby, public domain).
    let mut hash = run.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash ^ (hash >> 33)) % stride
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the bins before"
)]
fn histogram(values: &[(f32, u64)], [low, high]: [f64; 2]) -> Vec<u64> {
    let mut bins = vec![0; HISTOGRAM_BINS];
    let per_value = if high > low {
        HISTOGRAM_BINS as f64 / (high - low)
    } else {
        0.0
    };
    for &(value, count) in values {
        let bin = ((f64::from(value) - low) * per_value).clamp(0.0, (HISTOGRAM_BINS - 1) as f64);
        bins[bin as usize] += count;
    }
    bins
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "numbers are exact")]
mod tests {
    use super::*;

    fn gathered(volume: &VolumeDescription, stored: &[f32]) -> (ValueStatistics, Vec<u64>) {
        let mut gathering = ValueGathering::new(volume);
        let [nx, ny, _] = volume.dims;
        for (row, values) in (0..).zip(stored.chunks(nx as usize)) {
            let mut bytes = Vec::new();
            let append = |&v: &f32| volume.voxel.append(v.into(), &mut bytes);
            values.iter().for_each(append);
            gathering.row(row % ny, row / ny, &bytes);
        }
        let found = gathering.finish();
        (found.statistics, found.histogram)
    }

    /// A ball of `inside` values in a box of `outside`.
    fn ball(edge: u32, outside: f32, inside: impl Fn(f32) -> f32) -> Vec<f32> {
        let n = edge as f32;
        (0..edge * edge * edge)
            .map(|i| {
                let p =
                    [i % edge, i / edge % edge, i / edge / edge].map(|v| v as f32 * 2.0 / n - 1.0);
                let r = (p[0] * p[0] + p[1] * p[1] + p[2] * p[2]).sqrt();
                if r < 0.8 { inside(r) } else { outside }
            })
            .collect()
    }

    #[test]
    fn all_types_are_counted_from_their_smallest_to_their_largest() {
        for (voxel, low, high) in [
            (VoxelType::U8, 0.0, 255.0),
            (VoxelType::I8, -128.0, 127.0),
            (VoxelType::U16, 0.0, 65_535.0),
            (VoxelType::I16, -32_768.0, 32_767.0),
            (VoxelType::F32, -3e38, 3e38),
        ] {
            let volume = VolumeDescription::new([4, 4, 4], voxel);
            let stored: Vec<f32> = (0..64).map(|i| [low, 1.0, 1.0, high][i % 4]).collect();
            let (statistics, histogram) = gathered(&volume, &stored);
            let ends = [0, 1000].map(|t| statistics.quantile(t).unwrap());
            assert_eq!(ends, [low, high].map(f64::from), "{voxel:?}");
            assert_eq!(histogram.iter().sum::<u64>(), 64);
            assert!(histogram[0] >= 16 && histogram[HISTOGRAM_BINS - 1] >= 16);
        }
    }

    #[test]
    fn no_data_is_counted_and_in_nothing_else() {
        let mut stored = ball(12, -9999.0, |r| 1.0 - r);
        stored[700..710].fill(f32::NAN);
        stored[720] = f32::NEG_INFINITY;
        let volume = VolumeDescription {
            fill: Some(-9999.0),
            ..VolumeDescription::new([12; 3], VoxelType::F32)
        };
        let (statistics, histogram) = gathered(&volume, &stored);
        assert_eq!((statistics.nan, statistics.infinite), (10, 1));
        let filled = stored
            .iter()
            .filter(|&&v| v < -9000.0 && v.is_finite())
            .count() as u64;
        assert_eq!(statistics.filled, filled);
        assert_eq!(histogram.iter().sum::<u64>(), 12 * 12 * 12 - filled - 11);
        assert!(statistics.quantile(0).unwrap() >= 0.0);
        let (undeclared, _) = gathered(
            &VolumeDescription {
                fill: None,
                ..volume
            },
            &stored,
        );
        assert_eq!(undeclared.background, Some(-9999.0));
        assert!(undeclared.quantile(0).unwrap() >= 0.0);
    }

    #[test]
    fn a_thin_volume_has_the_border_of_its_plane() {
        // A bright object on 7: it would be lost in a border that is everywhere.
        let mut stored = vec![100.0; 400];
        for i in 0..20 {
            for at in [i, 380 + i, 20 * i, 20 * i + 19] {
                stored[at] = 7.0;
            }
        }
        for dims in [[20, 20, 1], [20, 1, 20], [1, 20, 20]] {
            let volume = VolumeDescription::new(dims, VoxelType::U8);
            assert_eq!(
                gathered(&volume, &stored).0.background,
                Some(7.0),
                "{dims:?}"
            );
        }
        let point = VolumeDescription::new([1; 3], VoxelType::U8);
        assert_eq!(gathered(&point, &[9.0]).0.background, None);
    }

    #[test]
    fn a_part_of_many_floats_says_what_all_would() {
        let edge = 128;
        let stored = ball(edge, 0.0, |r| 1.0 - r);
        let volume = VolumeDescription::new([edge; 3], VoxelType::F32);
        let (statistics, _) = gathered(&volume, &stored);
        let mut rest: Vec<f32> = stored.into_iter().filter(|&v| v > 0.0).collect();
        rest.sort_by(f32::total_cmp);
        for (thousandths, at) in [(50, 5), (500, 50), (990, 99)] {
            let exact = f64::from(rest[rest.len() * at / 100]);
            let found = statistics.quantile(thousandths).unwrap();
            assert!(
                (found - exact).abs() < 0.003,
                "{thousandths}: {found} {exact}"
            );
        }
    }
}

//! What the values of a volume are like, for people and programs: range, quantiles, histogram.

use crate::{
    short_numbers::{short, short_range},
    terminal::say,
};
use brickmesh_topology::{
    Manifest, VolumeDescription,
    data::{
        value_gathering::GatheredValues,
        value_statistics::{QUANTILE_THOUSANDTHS, ValueStatistics},
    },
};
use serde::Serialize;
use std::io;

/// Quantiles that are shown to people, in thousandths.
const SHOWN: [u16; 7] = [1, 10, 250, 500, 750, 990, 999];
/// Columns of the histogram that is shown to people.
const COLUMNS: usize = 64;
/// Heights of a column.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// See the module. All values are data values.
#[derive(Clone, Debug, Serialize)]
pub struct ValueReport {
    /// Smallest and largest; none where all is no data.
    range: Option<[f64; 2]>,
    /// The value that surrounds the object.
    background: Option<f64>,
    no_data: NoData,
    /// Shares, and the values below which they lie; the background is left out.
    quantiles: Vec<[f64; 2]>,
    /// Its range ascends.
    pub histogram: Histogram,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct NoData {
    nan: u64,
    infinite: u64,
    fill: u64,
}

/// How many voxels have which value.
#[derive(Clone, Debug, Serialize)]
pub struct Histogram {
    /// What its equal bins are over; what lies outside is in the first and last.
    pub range: [f64; 2],
    /// Voxels of each bin.
    pub counts: Vec<u64>,
}

impl ValueReport {
    /// Of a data set.
    #[must_use]
    pub fn of_manifest(manifest: &Manifest) -> Self {
        Self::new(
            manifest.volume(),
            manifest.range(),
            manifest.statistics(),
            manifest.histogram_range(),
            manifest.histogram(),
        )
    }

    /// Of a file whose voxels have been looked at.
    #[must_use]
    pub fn of_found(volume: &VolumeDescription, found: &GatheredValues) -> Self {
        let of = &found.statistics;
        let histogram_range = of.histogram_range;
        Self::new(
            volume,
            found.range,
            Some(of),
            histogram_range,
            &found.histogram,
        )
    }

    fn new(
        volume: &VolumeDescription,
        range: Option<[f64; 2]>,
        statistics: Option<&ValueStatistics>,
        histogram_range: [f64; 2],
        counts: &[u64],
    ) -> Self {
        let is_turned = volume.value_scale < 0.0;
        let ascending = |ends: [f64; 2]| {
            let [a, b] = ends.map(|stored| volume.value(stored));
            [a.min(b), a.max(b)]
        };
        let mut counts = counts.to_vec();
        let stored = statistics.map_or(&[][..], |s| s.quantiles.as_slice());
        let shares = QUANTILE_THOUSANDTHS.iter().map(|&t| f64::from(t) / 1000.0);
        let turned = |share: f64| if is_turned { 1.0 - share } else { share };
        let quantiles = shares
            .zip(stored)
            .map(|(s, &v)| [turned(s), volume.value(v)]);
        let mut quantiles: Vec<[f64; 2]> = quantiles.collect();
        if is_turned {
            quantiles.reverse();
            counts.reverse();
        }
        let no_data = statistics.map_or_else(NoData::default, |s| NoData {
            nan: s.nan,
            infinite: s.infinite,
            fill: s.filled,
        });
        Self {
            range: range.map(ascending),
            background: statistics
                .and_then(|s| s.background)
                .map(|b| volume.value(b)),
            no_data,
            quantiles,
            histogram: Histogram {
                range: ascending(histogram_range),
                counts,
            },
        }
    }

    /// Adds what there is to an object of JSON.
    ///
    /// # Errors
    /// Never: all of it are plain numbers.
    pub fn add_to(&self, json: &mut serde_json::Value) -> serde_json::Result<()> {
        let own = serde_json::to_value(self)?;
        if let (Some(json), serde_json::Value::Object(own)) = (json.as_object_mut(), own) {
            json.extend(own);
        }
        Ok(())
    }

    /// Prints it for people.
    ///
    /// # Errors
    /// Of standard output.
    pub fn print(&self) -> io::Result<()> {
        match self.range {
            Some(range) => say(format_args!("values      {}", short_range(range)))?,
            None => say("values      none: every voxel is no data")?,
        }
        let NoData {
            nan,
            infinite,
            fill,
        } = self.no_data;
        if nan + infinite + fill > 0 {
            say(format_args!(
                "no data     {nan} NaN, {infinite} infinite, {fill} the fill value"
            ))?;
        }
        if let Some(background) = self.background {
            say(format_args!(
                "background  {} (most frequent on the border)",
                short(background)
            ))?;
        }
        let shown = |share: f64| {
            SHOWN
                .iter()
                .any(|&t| (f64::from(t) / 1000.0 - share).abs() < 1e-9)
        };
        let words = self.quantiles.iter().filter(|q| shown(q[0]));
        let words: Vec<String> = words
            .map(|[share, value]| format!("{} %: {}", short(share * 100.0), short(*value)))
            .collect();
        if !words.is_empty() {
            let without = self
                .background
                .map_or("", |_| " (of the values beside the background)");
            say(format_args!("quantiles   {}{without}", words.join(", ")))?;
        }
        let [low, high] = self.histogram.range;
        if self.histogram.counts.iter().any(|&n| n > 0) {
            say(format_args!("histogram   {}", self.columns()))?;
            say(format_args!(
                "            {} … {}, heights logarithmic; what lies beyond is in the first and last column",
                short(low),
                short(high)
            ))?;
        }
        Ok(())
    }

    /// The histogram as a line of blocks.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a height of 0 to 8"
    )]
    fn columns(&self) -> String {
        let per_column = self.histogram.counts.len().div_ceil(COLUMNS).max(1);
        let sums = self
            .histogram
            .counts
            .chunks(per_column)
            .map(|c| c.iter().sum::<u64>());
        let logs: Vec<f64> = sums.map(|n| (n as f64 + 1.0).ln()).collect();
        let most = logs.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let top = (BLOCKS.len() - 1) as f64;
        let block = |log: &f64| BLOCKS[(log / most * top).ceil().clamp(0.0, top) as usize];
        logs.iter().map(block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{VoxelType, data::value_gathering::ValueGathering};

    fn report(value_scale: f64) -> ValueReport {
        let volume = VolumeDescription {
            value_scale,
            ..VolumeDescription::new([10, 10, 10], VoxelType::F32)
        };
        let mut gathering = ValueGathering::new(&volume);
        for row in 0..100 {
            let value = |x: u32| if row == 50 { f32::NAN } else { (x * x) as f32 };
            let bytes: Vec<u8> = (0..10).flat_map(|x| value(x).to_le_bytes()).collect();
            gathering.row(row % 10, row / 10, &bytes);
        }
        ValueReport::of_found(&volume, &gathering.finish())
    }

    #[test]
    fn values_ascend_whatever_the_sign_of_their_scale() {
        for scale in [2.0, -2.0] {
            let of = report(scale);
            let [low, high] = of.range.unwrap();
            assert!(
                (low, high)
                    == if scale > 0.0 {
                        (0.0, 162.0)
                    } else {
                        (-162.0, 0.0)
                    }
            );
            assert!(
                of.quantiles
                    .is_sorted_by(|a, b| a[0] < b[0] && a[1] <= b[1]),
                "{of:?}"
            );
            assert_eq!(
                (of.no_data.nan, of.histogram.counts.iter().sum::<u64>()),
                (10, 990)
            );
            let heavy_end = if scale > 0.0 { 0 } else { 255 };
            assert!(of.histogram.counts[heavy_end] >= 99);
            assert_eq!(of.columns().chars().count(), COLUMNS);
        }
    }

    #[test]
    fn json_has_the_range_and_all_quantiles() {
        let mut json = serde_json::json!({"dims": [10, 10, 10]});
        report(1.0).add_to(&mut json).unwrap();
        assert_eq!(json["range"], serde_json::json!([0.0, 81.0]));
        assert_eq!(
            json["quantiles"].as_array().unwrap().len(),
            QUANTILE_THOUSANDTHS.len()
        );
        assert_eq!(json["no_data"]["nan"], 10);
    }
}

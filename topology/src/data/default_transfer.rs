//! The transfer function of a volume that comes without one, chosen by what its values are like.
//!
//! Space: data values. Invariant: follows from the manifest's statistics alone, so that an affine map
//! of the values maps the function; only Hounsfield units mean something by themselves.
//! What is background, no data or fill is transparent.

use crate::data::{
    manifest::Manifest,
    presets::{self, COOL_WARM, CT, MR, STRUCTURE},
    transfer_function::{TransferFunction, TransferPoint},
    value_statistics::{HISTOGRAM_BINS, NoDataCounts, QUANTILE_THOUSANDTHS, ValueStatistics},
    volume::VoxelType,
};

/// Share of the values beside the background that stays transparent.
const LOW_SHARE: f64 = 0.25;
/// Share of the values beside the background below full opacity.
const HIGH_SHARE: f64 = 0.995;
/// Share of the values at whose end it is looked on which side of the background the object is.
const FAR_SHARE: f64 = 0.99;
/// Share of the object's values at which its lowest one is looked for.
const LOWEST_SHARE: f64 = 0.01;
/// A background farther from all values than so many widths of theirs is a fill value.
const FILL_WIDTHS: f64 = 3.0;
/// A background is in the middle of the values if it is so far from both ends of them.
const MIDDLE_SHARE: f64 = 0.25;
/// A body is what fills most of its range; where the highest values are so many times farther from
/// the middle ones than those lie apart, it is something bright inside that is looked for.
const BODY_TAIL_MAX: f64 = 4.0;
/// Hounsfield units of air, and bounds of where the densest hundredth lies.
const AIR_HOUNSFIELD: [f64; 2] = [-5000.0, -850.0];
const DENSE_HOUNSFIELD: [f64; 2] = [100.0, 5000.0];
/// Fat and soft tissue, Hounsfield units, and the share of all values that they must have.
const TISSUE_HOUNSFIELD: [f64; 2] = [-250.0, 250.0];
const TISSUE_SHARE_MIN: f64 = 0.05;

/// A transfer function and why it is this one.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultTransfer {
    /// The function, in data values.
    pub function: TransferFunction,
    /// Name of the preset that it is made from.
    pub preset: &'static str,
}

/// Values that matter: from transparent to opaque, which need not ascend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interest {
    /// Transparent, in data values.
    pub from: f64,
    /// Opaque, in data values.
    pub to: f64,
}

/// The default for a data set.
#[must_use]
pub fn default_transfer(manifest: &Manifest) -> DefaultTransfer {
    let values = Values::of(manifest);
    let (preset, interest) = if values.are_hounsfield() {
        (CT, None)
    } else if values.are_on_both_sides() {
        (COOL_WARM, Some(values.both_sides()))
    } else if values.are_of_a_body() {
        (MR, Some(values.body()))
    } else {
        (STRUCTURE, Some(values.interest()))
    };
    let function = presets::by_name(preset).map(presets::Preset::function);
    let mut function = function.unwrap_or_else(|| TransferFunction::ramp(0.0, 1.0));
    if let Some(Interest { from, to }) = interest {
        function = stretched(&function, [from, to]);
        values.hide_fill(&mut function);
    }
    DefaultTransfer { function, preset }
}

/// The values of a data set that matter, for functions that are to be stretched over them.
#[must_use]
pub fn interest(manifest: &Manifest) -> Interest {
    Values::of(manifest).interest()
}

/// A function whose first and last values go to those of `range`, which may descend, and those in
/// between accordingly.
#[must_use]
pub fn stretched(function: &TransferFunction, range: [f64; 2]) -> TransferFunction {
    let values = function.points.iter().map(|p| p.value);
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let width = if high > low { high - low } else { 1.0 };
    let at = |value: f64| {
        let share = (value - low) / width;
        range[0] * (1.0 - share) + range[1] * share
    };
    let points = function.points.iter().map(|p| TransferPoint {
        value: at(p.value),
        ..*p
    });
    let mut points: Vec<TransferPoint> = points.collect();
    if range[0] > range[1] {
        points.reverse();
    }
    TransferFunction {
        points,
        ..function.clone()
    }
}

/// What is known of a data set's values.
struct Values<'a> {
    manifest: &'a Manifest,
    statistics: ValueStatistics,
}

impl<'a> Values<'a> {
    fn of(manifest: &'a Manifest) -> Self {
        let known = manifest.statistics().cloned();
        let statistics = known.unwrap_or_else(|| of_histogram(manifest));
        Self {
            manifest,
            statistics,
        }
    }

    /// The stored number that a share of the values lies below, linear between known quantiles.
    fn quantile(&self, share: f64) -> f64 {
        let known = |at: usize| {
            (
                f64::from(QUANTILE_THOUSANDTHS[at]) / 1000.0,
                self.statistics.quantiles.get(at),
            )
        };
        let above = (0..QUANTILE_THOUSANDTHS.len()).find(|&at| known(at).0 >= share);
        let above = above.unwrap_or(QUANTILE_THOUSANDTHS.len() - 1);
        let ((a, low), (b, high)) = (known(above.saturating_sub(1)), known(above));
        let (Some(low), Some(high)) = (low, high) else {
            return 0.0;
        };
        let t = if b > a {
            ((share - a) / (b - a)).clamp(0.0, 1.0)
        } else {
            1.0
        };
        low * (1.0 - t) + high * t
    }

    /// The share of the values below a stored number, the inverse of [`Self::quantile`].
    fn share_below(&self, stored: f64) -> f64 {
        let quantiles = &self.statistics.quantiles;
        let above = quantiles.partition_point(|&q| q < stored);
        let share = |at: usize| {
            f64::from(QUANTILE_THOUSANDTHS[at.min(QUANTILE_THOUSANDTHS.len() - 1)]) / 1000.0
        };
        let (Some(high), Some(at)) = (quantiles.get(above), above.checked_sub(1)) else {
            return if above == 0 { 0.0 } else { 1.0 };
        };
        let low = quantiles[at];
        let t = if *high > low {
            (stored - low) / (high - low)
        } else {
            1.0
        };
        share(at) * (1.0 - t) + share(above) * t
    }

    fn value(&self, stored: f64) -> f64 {
        self.manifest.volume().value(stored)
    }

    /// The background, unless it is a fill value, which says nothing of where the object lies.
    fn background(&self) -> Option<f64> {
        let background = self.statistics.background?;
        let [low, high] = self.statistics.robust_range()?;
        let most = FILL_WIDTHS * (high - low);
        let is_near = low - background <= most && background - high <= most;
        is_near.then_some(background)
    }

    /// Values to both sides of the background matter alike.
    fn are_on_both_sides(&self) -> bool {
        let ends = [0.005, HIGH_SHARE].map(|share| self.quantile(share));
        self.background().is_some_and(|background| {
            let share = (background - ends[0]) / (ends[1] - ends[0]);
            (MIDDLE_SHARE..=1.0 - MIDDLE_SHARE).contains(&share)
        })
    }

    fn both_sides(&self) -> Interest {
        let middle = self.background().unwrap_or(0.0);
        let reach = [0.005, HIGH_SHARE].map(|share| (self.quantile(share) - middle).abs());
        let reach = reach[0].max(reach[1]);
        self.in_values(middle - reach, middle + reach)
    }

    /// The object lies above the background, or below it, whichever values are farther from it; above
    /// where none is known.
    fn interest(&self) -> Interest {
        let background = self.background();
        let (below, is_above) = background.map_or((0.0, true), |background| {
            let [low, high] = [1.0 - FAR_SHARE, FAR_SHARE].map(|s| self.quantile(s));
            let below = self.share_below(background);
            (below, high - background >= background - low)
        });
        let of_object = |share: f64| {
            if is_above {
                self.quantile(below + (1.0 - below) * share)
            } else {
                self.quantile(below * (1.0 - share))
            }
        };
        let (mut from, to) = (of_object(LOW_SHARE), of_object(HIGH_SHARE));
        // Where many voxels have the lowest value of the object, as with labels, it is seen as well.
        let lowest = of_object(LOWEST_SHARE);
        if let Some(background) = background
            && lowest.to_bits() == from.to_bits()
        {
            from = 0.5 * (from + background);
        }
        self.in_values(from, to)
    }

    /// An interval of stored numbers as values, at least as wide as numbers can be told apart.
    fn in_values(&self, from: f64, to: f64) -> Interest {
        let width = (to - from).abs();
        let least = from.abs().max(to.abs()) * f64::from(f32::EPSILON);
        if width > least {
            return Interest {
                from: self.value(from),
                to: self.value(to),
            };
        }
        // One value: it is to be seen, also where it is a voxel wide and mostly interpolated away; what
        // is around it says what is far.
        let around = self.statistics.background.map(|b| from - b);
        // Neighbouring floats are at least half of `least` apart.
        if let Some(far) = around.filter(|far| width <= 0.0 && far.abs() > 0.49 * least) {
            return Interest {
                from: self.value(from - 0.7 * far),
                to: self.value(from),
            };
        }
        let half = match least {
            0.0 => 1.0,
            _ if width > 0.0 => least,
            _ => least * 1e4,
        };
        Interest {
            from: self.value(from - half),
            to: self.value(to + half * 0.5),
        }
    }

    /// Hounsfield units: air around something that has tissue in it.
    fn are_hounsfield(&self) -> bool {
        let volume = self.manifest.volume();
        let can_be = volume.patient.is_some() || volume.voxel == VoxelType::I16;
        let Some([low, _]) = self.manifest.value_range() else {
            return false;
        };
        let dense = self.value(self.quantile(0.99));
        let within = |value: f64, [from, to]: [f64; 2]| (from..=to).contains(&value);
        let tissue = TISSUE_HOUNSFIELD.map(|v| (v - volume.value_offset) / volume.value_scale);
        let tissue = (self.share_below(tissue[1]) - self.share_below(tissue[0])).abs();
        can_be
            && within(low, AIR_HOUNSFIELD)
            && within(dense, DENSE_HOUNSFIELD)
            && tissue >= TISSUE_SHARE_MIN
    }

    /// A patient by anything but Hounsfield units, most of whose values are tissue.
    fn are_of_a_body(&self) -> bool {
        let [quarter, middle, most, all] = [0.25, 0.5, 0.75, 0.999].map(|s| self.quantile(s));
        let is_positive = self
            .manifest
            .value_range()
            .is_some_and(|[low, _]| low >= 0.0);
        let is_patient = self.manifest.volume().patient.is_some();
        is_patient && is_positive && all - middle < BODY_TAIL_MAX * (most - quarter)
    }

    /// From between noise and tissue on.
    fn body(&self) -> Interest {
        let from = 0.5 * (self.quantile(0.1) + self.threshold());
        self.in_values(from, self.quantile(HIGH_SHARE))
    }

    /// The stored number that parts the histogram into two classes of least variance (Otsu, "A
    /// Threshold Selection Method from Gray-Level Histograms", IEEE Trans. SMC 9(1), 1979), without
    /// the background.
    fn threshold(&self) -> f64 {
        let [low, high] = self.manifest.histogram_range();
        let width = (high - low) / HISTOGRAM_BINS as f64;
        let skipped = self.statistics.background.map(|b| (b - low) / width);
        let weight = |at: usize, n: u64| {
            let is_background = skipped.is_some_and(|s| s >= at as f64 && s < at as f64 + 1.0);
            if is_background { 0.0 } else { n as f64 }
        };
        let bins = self.manifest.histogram().iter().enumerate();
        let weights: Vec<f64> = bins.map(|(at, &n)| weight(at, n)).collect();
        let all: f64 = weights.iter().sum();
        let moment: f64 = (0..).zip(&weights).map(|(at, w)| f64::from(at) * w).sum();
        let (mut below, mut moment_below) = (0.0, 0.0);
        let (mut best, mut found) = (0.0, 0);
        for (at, w) in (0..).zip(&weights) {
            below += w;
            moment_below += f64::from(at) * w;
            let above = all - below;
            if below <= 0.0 || above <= 0.0 {
                continue;
            }
            let apart = moment_below / below - (moment - moment_below) / above;
            let between = below * above * apart * apart;
            if between > best {
                (best, found) = (between, at);
            }
        }
        low + width * (f64::from(found) + 1.0)
    }

    /// Makes a fill value transparent that the function would show.
    fn hide_fill(&self, function: &mut TransferFunction) {
        let (Some(fill), None) = (self.statistics.background, self.background()) else {
            return;
        };
        let Some([low, high]) = self.statistics.robust_range() else {
            return;
        };
        let width = high - low;
        let edge = if fill > high {
            self.value(self.quantile(1.0).min(high + width))
        } else {
            self.value(self.quantile(0.0).max(low - width))
        };
        let is_high = self.value(fill) > edge;
        let Some(end) = (if is_high {
            function.points.last().copied()
        } else {
            function.points.first().copied()
        }) else {
            return;
        };
        if end.opacity <= 0.0 {
            return;
        }
        let shown = TransferPoint {
            value: if is_high {
                edge.max(end.value)
            } else {
                edge.min(end.value)
            },
            ..end
        };
        let hidden = TransferPoint {
            opacity: 0.0,
            ..shown
        };
        if is_high {
            function.points.extend([shown, hidden]);
        } else {
            function.points.splice(0..0, [hidden, shown]);
        }
    }
}

/// What an older program's manifest says: the most frequent value is the background, if it is a low
/// one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "stored numbers are those of an f32"
)]
fn of_histogram(manifest: &Manifest) -> ValueStatistics {
    let [low, high] = manifest.histogram_range();
    let width = (high - low) / HISTOGRAM_BINS as f64;
    let bins = manifest.histogram().iter().enumerate();
    let counted = bins.map(|(at, &n)| ((low + width * (at as f64 + 0.5)) as f32, n));
    let counted: Vec<(f32, u64)> = counted.filter(|v| v.1 > 0).collect();
    let most = counted.iter().rev().max_by_key(|v| v.1).copied();
    let is_low = |v: &(f32, u64)| f64::from(v.0) < 0.5 * (low + high);
    let border: Vec<(f32, u64)> = most.into_iter().filter(is_low).collect();
    ValueStatistics::of(NoDataCounts::default(), &counted, &border)
}

#[cfg(test)]
mod tests;

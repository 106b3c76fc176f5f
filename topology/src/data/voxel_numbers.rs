//! The numbers that devices compute with: stored voxels, and for floats what is left of them without
//! the volume's offset and scale.
//!
//! Interpolation in f32 of values around 100 000 loses what lies between them, and squares of values
//! around 1e-30 are 0. So the number of a float voxel is `stored · unit − shift`, rounded once, with a
//! power of two as unit: values of interest then lie about 0 to 1. Integers are taken as they are.
//! Invariants: the same on every peer, as it follows from the manifest alone; a map by powers of two
//! of the values changes no number; what is no data is [`NO_DATA`], and interpolating with it gives
//! more than [`NO_DATA_MIN`]; no other number is larger than [`NUMBER_MAX`].

use crate::data::{
    value_statistics::ValueStatistics,
    volume::{VolumeDescription, VoxelType},
};

/// The number of a voxel that is no data: so large that a sample of which it is a part is told from any
/// other, and small enough that differences of such samples are finite.
pub const NO_DATA: f32 = 1e36;
/// Numbers of samples that no data is a part of are larger than this, if the part is 1e-20 or more;
/// no other sample's number is.
pub const NO_DATA_MIN: f32 = 4.0 * NUMBER_MAX;
/// Largest number of a voxel, either sign: outliers beyond are taken as this.
pub const NUMBER_MAX: f32 = 1e15;
/// Values whose distance from 0 is so many times the width of their range are taken without it.
const OFFSET_WIDTHS: f64 = 4.0;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoxelNumbers {
    voxel: VoxelType,
    unit: f32,
    shift: f32,
    fill: Option<f32>,
    is_checked: bool,
}

impl From<VoxelType> for VoxelNumbers {
    /// Stored numbers as they are. Floats are checked, as nothing is known of them.
    fn from(voxel: VoxelType) -> Self {
        Self {
            voxel,
            unit: 1.0,
            shift: 0.0,
            fill: None,
            is_checked: voxel == VoxelType::F32,
        }
    }
}

impl VoxelNumbers {
    /// The numbers of a volume whose stored numbers that are data have this range; `None`: there are
    /// none, or an older program has written the manifest.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what a voxel can be is an f32"
    )]
    pub fn of(
        volume: &VolumeDescription,
        range: Option<[f64; 2]>,
        statistics: Option<&ValueStatistics>,
    ) -> Self {
        let mut numbers = Self {
            fill: volume.fill.map(|fill| fill as f32),
            ..volume.voxel.into()
        };
        numbers.is_checked |= volume.fill.is_some();
        let Some(statistics) = statistics else {
            return numbers;
        };
        if volume.voxel == VoxelType::F32
            && let Some([low, high]) = statistics.robust_range()
        {
            let width = high - low;
            let nearest = if low > 0.0 { low } else { high.min(0.0) };
            let base = if nearest.abs() > OFFSET_WIDTHS * width {
                nearest
            } else {
                0.0
            };
            let size = if width > 0.0 { width } else { nearest.abs() };
            numbers.unit = inverse_power_of_two(size);
            numbers.shift = (base * f64::from(numbers.unit)) as f32;
        }
        let largest = |stored: f64| numbers.plain(stored as f32).abs();
        let is_far = range.is_some_and(|ends| ends.into_iter().any(|e| largest(e) > NUMBER_MAX));
        numbers.is_checked &= is_far || statistics.no_data() > 0;
        numbers
    }

    /// Type of the stored voxels.
    #[must_use]
    pub fn voxel(&self) -> VoxelType {
        self.voxel
    }

    /// Whether each voxel has to be looked at, as some may be no data or beyond [`NUMBER_MAX`].
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Unit and shift: a number is `stored · unit − shift`, rounded once.
    #[must_use]
    pub fn unit_and_shift(&self) -> [f32; 2] {
        [self.unit, self.shift]
    }

    /// The declared fill value, as stored.
    #[must_use]
    pub fn fill(&self) -> Option<f32> {
        self.fill
    }

    /// The number of a stored one.
    #[must_use]
    #[inline]
    pub fn number(&self, stored: f32) -> f32 {
        if !self.is_checked {
            return self.plain(stored);
        }
        if !stored.is_finite() || self.fill == Some(stored) {
            return NO_DATA;
        }
        self.plain(stored).clamp(-NUMBER_MAX, NUMBER_MAX)
    }

    #[inline]
    fn plain(&self, stored: f32) -> f32 {
        stored.mul_add(self.unit, -self.shift)
    }

    /// Scale and offset that make a data value of a number.
    #[must_use]
    pub fn value_scale_and_offset(&self, volume: &VolumeDescription) -> [f64; 2] {
        let scale = volume.value_scale / f64::from(self.unit);
        [scale, f64::from(self.shift) * scale + volume.value_offset]
    }
}

/// The power of two that brings a positive `size` to 1 … 2, or comes nearest to it in f32; 1 for 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "an exponent has 11 bits, and the power is one of f32"
)]
pub fn inverse_power_of_two(size: f64) -> f32 {
    const BIAS: i64 = 1023;
    let exponent = i64::from((size.to_bits() >> 52) as u16 & 0x7ff) - BIAS;
    if exponent == -BIAS {
        return 1.0;
    }
    // Both it and its inverse are normal numbers of f32.
    let exponent = exponent.clamp(-126, 126);
    f64::from_bits(u64::try_from(BIAS - exponent).unwrap_or(0) << 52) as f32
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "numbers are exact")]
mod tests {
    use super::*;
    use crate::data::value_statistics::NoDataCounts;

    fn numbers(values: &[f32]) -> VoxelNumbers {
        let volume = VolumeDescription::new([4; 3], VoxelType::F32);
        let counted: Vec<(f32, u64)> = values.iter().map(|&v| (v, 1)).collect();
        let statistics = ValueStatistics::of(NoDataCounts::default(), &counted, &[]);
        let range = [values[0], values[values.len() - 1]].map(f64::from);
        VoxelNumbers::of(&volume, Some(range), Some(&statistics))
    }

    #[expect(clippy::cast_possible_truncation, reason = "as a voxel")]
    fn narrowed(value: f64) -> f32 {
        value as f32
    }

    #[test]
    fn an_offset_and_a_scale_leave_what_floats_can_tell_apart() {
        let plain = numbers(&[0.0, 0.25, 1.0]);
        for (scale, offset) in [(1.0, 1e5), (1.0, -1000.0), (1e-20, 0.0), (1e30, -3e32)] {
            let map = |v: f32| narrowed(f64::from(v) * scale + offset);
            let mapped = numbers(&[map(0.0), map(0.25), map(1.0)]);
            let volume = VolumeDescription::new([4; 3], VoxelType::F32);
            for v in [0.0, 0.125, 0.5, 1.0] {
                let [s, o] = mapped.value_scale_and_offset(&volume);
                let number = f64::from(mapped.number(map(v)));
                assert!((0.0..=4.0).contains(&number.abs()), "{number}");
                let back = number * s + o;
                let exact = f64::from(map(v));
                assert!(
                    (back - exact).abs() <= 1e-6 * exact.abs().max(scale),
                    "{back} {exact}"
                );
            }
        }
        assert_eq!(plain.unit_and_shift(), [1.0, 0.0]);
    }

    #[test]
    fn no_data_is_told_from_any_outlier_however_small_its_part() {
        let volume = VolumeDescription {
            fill: Some(-9999.0),
            ..VolumeDescription::new([4; 3], VoxelType::F32)
        };
        let numbers = VoxelNumbers::of(&volume, None, None);
        for none in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -9999.0] {
            assert!(numbers.number(none) > NO_DATA_MIN, "{none}");
        }
        for outlier in [f32::MAX, f32::MIN, 1e30] {
            assert!(numbers.number(outlier).abs() < NO_DATA_MIN / 2.0);
        }
        let sample = 0.5 + (NO_DATA - 0.5) * 1e-10;
        assert!(sample > NO_DATA_MIN);
        let bytes = VoxelNumbers::from(VoxelType::U8);
        assert!(!bytes.is_checked() && (bytes.number(255.0) - 255.0).abs() <= 0.0);
    }

    #[test]
    fn voxels_are_checked_where_some_are_no_data_or_far_beyond_all_others() {
        let volume = VolumeDescription::new([4; 3], VoxelType::F32);
        let values: Vec<(f32, u64)> = (0..10_000).map(|i| (i as f32 / 1e4, 1)).collect();
        let of = |no_data, range| {
            let statistics = ValueStatistics::of(no_data, &values, &[]);
            VoxelNumbers::of(&volume, Some(range), Some(&statistics)).is_checked()
        };
        let none = NoDataCounts::default();
        assert!(!of(none, [0.0, 1e6]));
        assert!(of(none, [0.0, 1e30]));
        assert!(of(NoDataCounts { nan: 1, ..none }, [0.0, 1.0]));
    }

    #[test]
    fn the_smallest_and_the_largest_floats_have_numbers() {
        for size in [1e-45_f32, 1e-38, 1e38] {
            let numbers = numbers(&[0.0, size / 2.0, size]);
            let number = numbers.number(size);
            assert!(number.is_finite() && number > 0.0, "{size}: {number}");
        }
        assert!(numbers(&[5.0]).number(5.0).abs() <= 2.0);
    }
}

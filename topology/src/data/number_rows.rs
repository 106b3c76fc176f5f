//! Rows of voxels as numbers, and their bounds: loops that compilers turn into vector instructions, as importing does
//! nothing but these for most of its time.

use crate::data::volume::{VolumeDescription, VoxelType};

/// Bounds that are kept side by side.
const LANES: usize = 16;

/// Puts the stored numbers of a row, little-endian, in place of `numbers`; NaN where there is no data.
pub fn numbers_of(volume: &VolumeDescription, row: &[u8], numbers: &mut Vec<f32>) {
    numbers.clear();
    match volume.voxel {
        VoxelType::U8 => numbers.extend(row.iter().map(|&b| f32::from(b))),
        VoxelType::I8 => numbers.extend(row.iter().map(|&b| f32::from(b.cast_signed()))),
        VoxelType::U16 => {
            let (voxels, _) = row.as_chunks();
            numbers.extend(voxels.iter().map(|&v| f32::from(u16::from_le_bytes(v))));
        }
        VoxelType::I16 => {
            let (voxels, _) = row.as_chunks();
            numbers.extend(voxels.iter().map(|&v| f32::from(i16::from_le_bytes(v))));
        }
        VoxelType::F32 => {
            let (voxels, _) = row.as_chunks();
            numbers.extend(voxels.iter().map(|&v| f32::from_le_bytes(v)));
        }
    }
    if volume.fill.is_some() || volume.voxel == VoxelType::F32 {
        let none = numbers.iter_mut().filter(|n| volume.is_no_data(**n));
        none.for_each(|n| *n = f32::NAN);
    }
}

/// The least and the greatest of some numbers, NaN left out, and never −0; infinite the wrong way round where there is none.
#[must_use]
pub fn bounds(numbers: &[f32]) -> [f32; 2] {
    let (mut least, mut greatest) = (f32::INFINITY, f32::NEG_INFINITY);
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    if !chunks.is_empty() {
        let (mut low, mut high) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        for chunk in chunks {
            widen(&mut low, &mut high, chunk);
        }
        least = low.into_iter().fold(least, f32::min);
        greatest = high.into_iter().fold(greatest, f32::max);
    }
    for &number in rest {
        widen_one(&mut least, &mut greatest, number);
    }
    [least + 0.0, greatest + 0.0]
}

/// Widens bounds, each by the number at its place that is not NaN.
pub fn widen(low: &mut [f32], high: &mut [f32], numbers: &[f32]) {
    for ((low, high), &number) in low.iter_mut().zip(high).zip(numbers) {
        widen_one(low, high, number);
    }
}

fn widen_one(low: &mut f32, high: &mut f32, number: f32) {
    // Not `min`, which is no single instruction: the order is such that NaN changes nothing.
    *low = if number < *low { number } else { *low };
    *high = if number > *high { number } else { *high };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_are_read_one_by_one() {
        for voxel in [
            VoxelType::U8,
            VoxelType::I8,
            VoxelType::U16,
            VoxelType::I16,
            VoxelType::F32,
        ] {
            let n = voxel.bytes();
            let bytes: Vec<u8> = (0..=250).cycle().take(60 * n).collect();
            let bytes: Vec<u8> = bytes.into_iter().map(|i: u8| i.wrapping_mul(89)).collect();
            let fill = voxel.read(&bytes, 3 * n);
            let volume = VolumeDescription {
                fill: Some(fill.into()),
                ..VolumeDescription::new([60, 1, 1], voxel)
            };
            let mut numbers = vec![7.0];
            numbers_of(&volume, &bytes, &mut numbers);
            assert_eq!(numbers.len(), 60);
            for (i, number) in numbers.into_iter().enumerate() {
                let one = voxel.read(&bytes, i * n);
                let is_same = number.to_bits() == one.to_bits();
                let is_none = volume.is_no_data(one);
                assert!(
                    if is_none { number.is_nan() } else { is_same },
                    "{voxel:?} {i}"
                );
                assert!(i != 3 || is_none);
            }
        }
    }

    #[test]
    fn bounds_leave_nan_out() {
        for count in 0..70_u32 {
            let number = |i: u32| match i % 5 {
                0 => f32::NAN,
                _ => (i * 37 % 64) as f32 - 20.0,
            };
            let numbers: Vec<f32> = (0..count).map(number).collect();
            let of = |f: fn(f32, f32) -> f32| numbers.iter().copied().reduce(f);
            let [low, high] = bounds(&numbers);
            if count < 2 {
                assert!(low > high);
            } else {
                assert_eq!([Some(low), Some(high)], [of(f32::min), of(f32::max)]);
            }
        }
        for count in [3, 64, 70] {
            let of_zeros = bounds(&vec![-0.0; count]).map(f32::to_bits);
            assert_eq!(of_zeros, [0; 2], "one zero, whichever comes first");
        }
    }
}

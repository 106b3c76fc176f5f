//! Colours as they travel: codes of 12 bits, of which only what changes from pixel to pixel is written.
//!
//! Shapes: pixels in the order of their rectangle, those of nothing left out; bytes, in blocks of up to eight pixels. A
//! block begins with the widths of its four channels, 4 bits each, red in the lowest, little-endian; then, channel by channel,
//! so many bits of each pixel, the first in the lowest, rounded up to a byte. They are the steps of a channel's codes from the pixel before,
//! those of red and blue without that of green (most change together), the first from 0, modulo 4096, 0, −1, 1, −2 … as 0, 1, 2, 3 …
//!
//! All of it behind a byte, the scale s of red, green and blue: 1, or as many 64ths more as the largest needs (highlights are above 1). That of
//! opacities is 1, and what is opaque stays it.
//!
//! A code is 4095 times the square root of a number over s, rounded. It is off by 1/8190 at most, so a number c by √(c·s)/4095: of a picture's
//! 255 steps √(c·s)/16. Square roots, because what is small is exact to a share of it: n partials of a pixel that add up to 1 are off by
//! √(n·s)/16 of a step at most, thin fog as well.
//! Invariant: whatever the bytes, colours are decoded from 0 to 5 and opacities from 0 to 1, or nothing is.

use bytes::Bytes;

/// Sums of what is 1 together may be a little more, and count as 1.
const ONE: f32 = 1.0001;
/// Parts of 1 that scales come in.
const SCALE_STEPS: f32 = 64.0;
/// The largest scale; the byte above it is free for others.
const SCALE_MAX: u8 = u8::MAX - 1;
/// The largest code.
const CODE_MAX: f32 = 4095.0;
/// Its bits.
const CODE_BITS: u32 = 12;
/// 2^23: a sum with it has the rounded number in its lowest bits; a cast, which checks, takes longer.
const ROUNDING: f32 = 8_388_608.0;
/// Pixels of a block.
const BLOCK: usize = 8;
/// Blocks whose codes are made together: by vectors.
const TOGETHER: usize = 4;
/// Bytes of a pixel that are expected.
const PIXEL_BYTES_USUAL: usize = 4;
/// Bytes of a block's widths.
const HEAD_BYTES: usize = 2;
/// Most bytes of a block.
const BLOCK_BYTES_MAX: usize = HEAD_BYTES + 4 * BLOCK * CODE_BITS as usize / 8;

/// Writes pixels; `None` where a number is negative, too large, or none. The first byte is never 255.
pub(crate) fn coded(pixels: &[[f32; 4]]) -> Option<Bytes> {
    // Without a way out in the middle it is done eight at a time.
    let mut numbers = pixels.as_flattened().iter();
    let is_none_below = numbers.by_ref().fold(true, |all, &n| all & (n >= 0.0));
    let most = pixels.iter().fold([0.0_f32; 4], |most, pixel| {
        std::array::from_fn(|c| {
            if pixel[c] > most[c] {
                pixel[c]
            } else {
                most[c]
            }
        })
    });
    if !is_none_below || most[3] > ONE {
        return None;
    }
    let scale = scale_byte(most[0].max(most[1]).max(most[2]))?;
    let inverse = scale_of(scale).recip();
    let mut bytes = Vec::with_capacity(1 + pixels.len() * PIXEL_BYTES_USUAL);
    bytes.push(scale);
    let mut before = [0; 4];
    let mut codes = [[0; 4]; TOGETHER * BLOCK];
    let mut scaled = [[0.0_f32; 4]; TOGETHER * BLOCK];
    // A channel is stored as 16 bytes, of which the next one overwrites what it does not need.
    let mut written = [0; TOGETHER * BLOCK_BYTES_MAX + size_of::<u128>()];
    for pixels in pixels.chunks(TOGETHER * BLOCK) {
        for (scaled, &[r, g, b, a]) in scaled.iter_mut().zip(pixels) {
            *scaled = [r * inverse, g * inverse, b * inverse, a];
        }
        let numbers = scaled.as_flattened().iter();
        for (code, number) in codes.as_flattened_mut().iter_mut().zip(numbers) {
            *code = (number.sqrt() * CODE_MAX + ROUNDING).to_bits() & 0xfff;
        }
        let mut end = 0;
        for block in codes[..pixels.len()].chunks(BLOCK) {
            let mut steps = [[0; BLOCK]; 4];
            for (n, &code) in block.iter().enumerate() {
                let [r, g, b, a] = std::array::from_fn(|c| code[c].wrapping_sub(before[c]));
                before = code;
                let step = [r.wrapping_sub(g), g, b.wrapping_sub(g), a];
                (0..4).for_each(|c| steps[c][n] = folded(step[c]));
            }
            let union = |steps: &[u32; BLOCK]| steps.iter().fold(0, |all, step| all | step);
            let width = |steps: &[u32; BLOCK]| u32::BITS - union(steps).leading_zeros();
            let widths = steps.each_ref().map(width);
            let [r, g, b, a] = widths;
            let head = (r | g << 4 | b << 8 | a << 12).to_le_bytes();
            written[end..end + HEAD_BYTES].copy_from_slice(&head[..HEAD_BYTES]);
            end += HEAD_BYTES;
            for (steps, width) in steps.into_iter().zip(widths) {
                let joined = joined(steps, width).to_le_bytes();
                written[end..end + joined.len()].copy_from_slice(&joined);
                end += channel_bytes(width, block.len());
            }
        }
        bytes.extend_from_slice(&written[..end]);
    }
    Some(bytes.into())
}

/// Reads so many pixels; `None` where the bytes cannot be those of so many.
pub(crate) fn decoded(bytes: &[u8], count: usize) -> Option<Vec<[f32; 4]>> {
    let (&scale, mut bytes) = bytes.split_first().filter(|(s, _)| **s <= SCALE_MAX)?;
    let scale = scale_of(scale);
    // What is announced takes memory only where there are bytes for it.
    if count.div_ceil(BLOCK) > bytes.len() / HEAD_BYTES {
        return None;
    }
    let mut pixels = vec![[0.0; 4]; count];
    let mut before = [0_u32; 4];
    let mut codes = [[0; 4]; TOGETHER * BLOCK];
    for pixels in pixels.chunks_mut(TOGETHER * BLOCK) {
        for block in codes[..pixels.len()].chunks_mut(BLOCK) {
            let (&[low, high], mut rest) = bytes.split_first_chunk()?;
            let widths = [low & 0xf, low >> 4, high & 0xf, high >> 4].map(u32::from);
            let mut steps = [[0; BLOCK]; 4];
            for (steps, width) in steps.iter_mut().zip(widths) {
                if width > CODE_BITS {
                    return None;
                }
                let (its, after) = rest.split_at_checked(channel_bytes(width, block.len()))?;
                let joined = rest.first_chunk().copied().unwrap_or_else(|| {
                    let mut last = [0; size_of::<u128>()];
                    last[..its.len()].copy_from_slice(its);
                    last
                });
                *steps = parted(u128::from_le_bytes(joined), width);
                rest = after;
            }
            bytes = rest;
            for (n, code) in block.iter_mut().enumerate() {
                let [r, g, b, a] = std::array::from_fn(|c| unfolded(steps[c][n]));
                let step = [r.wrapping_add(g), g, b.wrapping_add(g), a];
                before = std::array::from_fn(|c| before[c].wrapping_add(step[c]) & 0xfff);
                *code = before.map(u32::cast_signed);
            }
        }
        let numbers = pixels.as_flattened_mut().iter_mut();
        for (number, &code) in numbers.zip(codes.as_flattened()) {
            // Divided, so that the largest is 1.
            let root = code as f32 / CODE_MAX;
            *number = root * root;
        }
        let scales = [scale, scale, scale, 1.0];
        for pixel in pixels {
            *pixel = std::array::from_fn(|c| pixel[c] * scales[c]);
        }
    }
    bytes.is_empty().then_some(pixels)
}

/// The scale for numbers up to `most`, as a byte.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole and in range"
)]
fn scale_byte(most: f32) -> Option<u8> {
    if most <= ONE {
        return Some(0);
    }
    let steps = ((most - 1.0) * SCALE_STEPS).ceil();
    (steps <= f32::from(SCALE_MAX)).then_some(steps as u8)
}

fn scale_of(byte: u8) -> f32 {
    1.0 + f32::from(byte) / SCALE_STEPS
}

/// Bytes of a channel of a block of so many pixels.
fn channel_bytes(width: u32, pixels: usize) -> usize {
    (width as usize * pixels).div_ceil(8)
}

/// A step modulo 4096, small ones of either sign as small numbers.
fn folded(step: u32) -> u32 {
    let step = (step << (u32::BITS - CODE_BITS)).cast_signed() >> (u32::BITS - CODE_BITS);
    (step << 1 ^ step >> 31).cast_unsigned()
}

fn unfolded(step: u32) -> u32 {
    step >> 1 ^ (step & 1).wrapping_neg()
}

/// So many bits of each step, side by side. By pairs, for shifts of 128 bits take long.
fn joined(steps: [u32; BLOCK], width: u32) -> u128 {
    let [a, b, c, d, e, f, g, h] = steps.map(u64::from);
    let pairs = [
        a | b << width,
        c | d << width,
        e | f << width,
        g | h << width,
    ];
    let [low, high] = [
        pairs[0] | pairs[1] << (2 * width),
        pairs[2] | pairs[3] << (2 * width),
    ];
    u128::from(low) | u128::from(high) << (4 * width)
}

/// What [`joined`] joins.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
fn parted(joined: u128, width: u32) -> [u32; BLOCK] {
    let mask = (1_u32 << width) - 1;
    let halves = [joined as u64, (joined >> (4 * width)) as u64];
    std::array::from_fn(|n| (halves[n / 4] >> (n as u32 % 4 * width)) as u32 & mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all_of(pixels: &[[f32; 4]]) -> Bytes {
        coded(pixels).unwrap()
    }

    #[test]
    fn the_bits_are_frozen() {
        let hex = |pixels: &[[f32; 4]]| {
            let bytes = all_of(pixels);
            bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()
        };
        assert_eq!(hex(&[]), "00");
        // Of what does not change the widths alone are written.
        assert_eq!(hex(&[[0.0; 4]; 9]), "0000000000");
        assert_eq!(hex(&[[0.25; 4]; 3]), "00c0c0ff0f000000ff0f000000");
        let two = [[0.0, 0.25, 1.0, 1.0], [0.000_1, 0.5, 0.75, 0.001]];
        assert_eq!(hex(&two), "00cc9cffdf64ff0f6afe9fae010802");
        assert_eq!(hex(&[[4.0, 4.0, 4.0, 1.0]]), "c010100101");
    }

    #[test]
    fn what_is_smooth_takes_few_bytes() {
        let ramp = (0..1000).map(|n| n as f32 / 4000.0);
        let pixels: Vec<[f32; 4]> = ramp.map(|v| [0.9 * v, 0.8 * v, 0.5 * v, v]).collect();
        let bytes = all_of(&pixels).len();
        assert!(bytes < 3 * pixels.len(), "{bytes}");
    }

    #[test]
    fn what_has_no_code_is_not_written() {
        for none in [-0.1, f32::NAN, 5.0, f32::INFINITY] {
            assert_eq!(coded(&[[0.5; 4], [0.0, none, 0.0, 0.0]]), None, "{none}");
        }
        assert_eq!(coded(&[[0.5, 0.5, 0.5, 1.01]]), None);
        for some in [-0.0, 1.0, ONE, 1.2, 4.9] {
            let [.., back, opacity] = decoded(&all_of(&[[0.0, 0.0, some, 1.0]]), 1).unwrap()[0];
            assert!((opacity - 1.0).abs() < f32::EPSILON);
            assert!(
                (back - some).abs() <= 0.000_11 + some / 4095.0,
                "{some} {back}"
            );
        }
    }

    #[test]
    fn bytes_of_another_length_or_width_are_no_pixels() {
        let pixels: Vec<[f32; 4]> = (0..21).map(|n| [n as f32 / 21.0; 4]).collect();
        let bytes = all_of(&pixels);
        assert!(decoded(&bytes, 21).is_some());
        for count in [0, 8, 16, 24, 25, 1000, usize::MAX] {
            assert!(decoded(&bytes, count).is_none(), "{count}");
        }
        for end in 0..bytes.len() {
            assert!(decoded(&bytes[..end], 21).is_none(), "{end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(decoded(&longer, 21).is_none());
        for (at, bits) in [(0, 0xff), (1, 0xf)] {
            let mut other = bytes.to_vec();
            other[at] |= bits;
            assert!(decoded(&other, 21).is_none());
        }
        assert_eq!(decoded(&[0], 0), Some(vec![]));
    }

    proptest! {
        #[test]
        fn codes_come_back_whatever_they_are(codes in prop::collection::vec(prop::array::uniform4(0_u16..4096), 0..70)) {
            let number = |code: u16| (f32::from(code) / CODE_MAX).powi(2);
            let pixels: Vec<[f32; 4]> = codes.iter().map(|c| c.map(number)).collect();
            prop_assert_eq!(decoded(&all_of(&pixels), pixels.len()), Some(pixels));
        }

        #[test]
        fn numbers_are_off_by_what_is_said(pixels in prop::collection::vec((prop::array::uniform3(0.0_f32..4.9), 0.0_f32..=ONE), 1..40)) {
            let pixels: Vec<[f32; 4]> = pixels.into_iter().map(|([r, g, b], a)| [r, g, b, a]).collect();
            let bytes = all_of(&pixels);
            let came = decoded(&bytes, pixels.len()).unwrap();
            for (was, is) in pixels.as_flattened().iter().zip(came.as_flattened()) {
                let off = 255.0 * (was - is).abs();
                prop_assert!(off <= (was.max(*is) * scale_of(bytes[0])).sqrt() / 16.0 + 1e-3, "{} {}", was, is);
            }
        }

        #[test]
        fn whatever_the_bytes_what_comes_is_in_bounds(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0_usize..40) {
            for [r, g, b, a] in decoded(&bytes, count).into_iter().flatten() {
                prop_assert!([r, g, b, a * 5.0].iter().all(|n| (0.0..=5.0).contains(n)));
            }
        }
    }
}

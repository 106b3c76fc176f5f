//! Pixels between actors, and as they travel between peers.
//!
//! Shapes: a rectangle, row by row; pixels that are wholly 0 are left out. Space: linear, colours premultiplied.
//! Invariant: nothing that comes is trusted: bytes that cannot be those of so many pixels, or numbers that are not finite, are no image.

use crate::pixel_codes;
use brickmesh_shaders::{
    SubImage,
    sub_image::{are_finite, is_seen},
};
use brickmesh_topology::{
    PixelRect,
    frame::image::{Image as _, PIXEL_BYTES, Packed},
    picture::render_settings::Mode,
};
use bytes::Bytes;
use half::{f16, slice::HalfFloatSliceExt};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{iter, sync::Arc};

/// How colours begin that follow as RGBA in half precision; codes (`pixel_codes`) begin otherwise.
const HALVES: u8 = u8::MAX;

/// Pixels of a rectangle, from one actor to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Pixels {
    /// As they are: they are packed when they leave this peer.
    Here(Arc<SubImage>, Mode),
    /// As they came from another peer.
    Packed(PackedPixels),
}

impl Pixels {
    /// Those of a sub-image.
    #[must_use]
    pub fn of(image: SubImage, mode: Mode) -> Self {
        Self::Here(Arc::new(image), mode)
    }

    /// The sub-image; `None` where what came is none.
    #[must_use]
    pub fn into_image(self, mode: Mode) -> Option<Arc<SubImage>> {
        match self {
            Self::Here(image, _) => image.is_finite().then_some(image),
            Self::Packed(packed) => packed.image(mode).map(Arc::new),
        }
    }
}

impl Packed for Pixels {
    type Image = SubImage;

    fn rect(&self) -> PixelRect {
        match self {
            Self::Here(image, _) => image.rect(),
            Self::Packed(packed) => packed.rect,
        }
    }

    fn unpack(self, mode: Mode) -> Option<SubImage> {
        self.into_image(mode).map(Arc::unwrap_or_clone)
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Here(image, _) => image.bytes(),
            Self::Packed(packed) => packed.bytes.len() + packed.seen.len(),
        }
    }
}

impl Serialize for Pixels {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Here(image, mode) => PackedPixels::of(image, *mode).serialize(to),
            Self::Packed(packed) => packed.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Pixels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        PackedPixels::deserialize(from).map(Self::Packed)
    }
}

/// Pixels as they travel. A pixel that combines values takes 8 bytes: the value's place in the transfer table and its
/// weight in single precision, little-endian. Colours are written as codes (`pixel_codes`) that take 3 to 4 bytes a pixel in most
/// pictures; or, where a number of the rectangle has none, as the byte 255 and 8 bytes each: RGBA in half precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackedPixels {
    /// Where they lie in the picture.
    pub rect: PixelRect,
    /// Which of them are there: a bit each, the lowest of a byte first; empty: all.
    #[serde(default, skip_serializing_if = "Bytes::is_empty")]
    pub seen: Bytes,
    /// Those that are there.
    pub bytes: Bytes,
}

impl PackedPixels {
    /// The bytes of a sub-image.
    #[must_use]
    pub fn of(image: &SubImage, mode: Mode) -> Self {
        let pixels = image.pixels();
        let mut seen = vec![0_u8; pixels.len().div_ceil(8)];
        let mut there = Vec::with_capacity(pixels.len());
        for (bits, eight) in seen.iter_mut().zip(pixels.chunks(8)) {
            for (bit, pixel) in eight.iter().enumerate() {
                *bits |= u8::from(is_seen(pixel)) << bit;
            }
            match *bits {
                0 => {}
                u8::MAX => there.extend_from_slice(eight),
                _ => there.extend(eight.iter().filter(|p| is_seen(p))),
            }
        }
        if there.len() == pixels.len() {
            seen = Vec::new();
        }
        let bytes = if mode.combines_values() {
            let values = there.iter().flat_map(|p| [p[0], p[1]]);
            values.flat_map(f32::to_le_bytes).collect()
        } else {
            pixel_codes::coded(&there).unwrap_or_else(|| {
                let mut halves = vec![f16::ZERO; 4 * there.len()];
                halves.convert_from_f32_slice(there.as_flattened());
                let halves = halves.iter().flat_map(|h| h.to_le_bytes());
                iter::once(HALVES).chain(halves).collect()
            })
        };
        Self {
            rect: image.rect(),
            seen: seen.into(),
            bytes,
        }
    }

    /// The sub-image of these bytes; `None` where they cannot be those of the pixels that are there, or a number
    /// is not finite.
    #[must_use]
    pub fn image(&self, mode: Mode) -> Option<SubImage> {
        let all = self.rect.pixel_count();
        let bits = self.seen.iter().map(|b| b.count_ones() as usize).sum();
        let count = if self.seen.is_empty() { all } else { bits };
        let is_all = self.seen.is_empty() || self.seen.len() == all.div_ceil(8) && count <= all;
        if !is_all {
            return None;
        }
        let is_wide = |bytes: &[u8]| count.checked_mul(PIXEL_BYTES) == Some(bytes.len());
        let pixels: Vec<[f32; 4]> = if mode.combines_values() {
            let bytes = Some(&*self.bytes).filter(|b| is_wide(b))?;
            let number = |b: &[u8]| b.try_into().map_or(f32::NAN, f32::from_le_bytes);
            let pixel = |b: &[u8]| [number(&b[..4]), number(&b[4..]), 0.0, 0.0];
            bytes.chunks_exact(PIXEL_BYTES).map(pixel).collect()
        } else {
            match self.bytes.split_first()? {
                (&HALVES, halves) if is_wide(halves) => {
                    let halves = halves.as_chunks().0.iter();
                    let halves: Vec<_> = halves.map(|&b| f16::from_le_bytes(b)).collect();
                    let mut pixels = vec![[0.0; 4]; count];
                    halves.convert_to_f32_slice(pixels.as_flattened_mut());
                    pixels
                }
                _ => pixel_codes::decoded(&self.bytes, count)?,
            }
        };
        if !are_finite(&pixels) {
            return None;
        }
        if self.seen.is_empty() {
            return SubImage::new(self.rect, pixels);
        }
        let mut whole = vec![[0.0; 4]; all];
        let mut left = pixels.as_slice();
        for (&bits, eight) in self.seen.iter().zip(whole.chunks_mut(8)) {
            let (its, rest) = left.split_at_checked(bits.count_ones() as usize)?;
            left = rest;
            if bits == u8::MAX && eight.len() == 8 {
                eight.copy_from_slice(its);
                continue;
            }
            let there = eight.iter_mut().enumerate();
            let there = there.filter(|(bit, _)| bits >> bit & 1 == 1);
            let pairs = there.zip(its).map(|((_, pixel), its)| *pixel = *its);
            // A bit beyond the last pixel has none.
            if pairs.count() < its.len() {
                return None;
            }
        }
        SubImage::new(self.rect, whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_shaders::modes::over;

    fn rect(width: u32, height: u32) -> PixelRect {
        PixelRect {
            x: 3,
            y: 1,
            width,
            height,
        }
    }

    fn image(width: u32, pixels: Vec<[f32; 4]>) -> SubImage {
        let height = u32::try_from(pixels.len()).unwrap() / width;
        SubImage::new(rect(width, height), pixels).unwrap()
    }

    #[test]
    fn pixels_of_a_wrong_length_or_not_finite_are_no_image() {
        let codes = PackedPixels::of(&image(2, vec![[0.25; 4], [0.5; 4]]), Mode::Dvr);
        assert!(codes.image(Mode::Dvr).is_some() && codes.image(Mode::Mip).is_none());
        let wide = image(2, vec![[0.25; 4], [7.5; 4]]);
        let halves = PackedPixels::of(&wide, Mode::Dvr);
        assert_eq!((codes.bytes[0], halves.bytes[0]), (0, HALVES));
        assert_eq!(halves.bytes.len(), 1 + 16);
        assert_eq!(halves.image(Mode::Dvr).unwrap(), wide);
        for good in [&codes, &halves] {
            let mut short = good.clone();
            short.bytes.truncate(good.bytes.len() - 1);
            assert!(short.image(Mode::Dvr).is_none());
        }
        let mut nan = halves.clone();
        nan.bytes = [&[HALVES], &f16::NAN.to_le_bytes()[..], &nan.bytes[3..]]
            .concat()
            .into();
        assert!(nan.image(Mode::Dvr).is_none());
        let mut other = halves.clone();
        other.bytes = [&[0], &halves.bytes[1..]].concat().into();
        assert!(other.image(Mode::Dvr).is_none());
    }

    #[test]
    fn pixels_of_nothing_do_not_travel() {
        let mut pixels = vec![[0.0; 4]; 15];
        (pixels[0], pixels[9], pixels[14]) = ([1.0; 4], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]);
        let colors = image(5, pixels.clone());
        let places = image(
            5,
            pixels
                .iter()
                .map(|p| [p[0] + p[1], p[2], 0.0, 0.0])
                .collect(),
        );
        let codes = pixel_codes::coded(&[pixels[0], pixels[9], pixels[14]])
            .unwrap()
            .len();
        for (mode, image, bytes) in [
            (Mode::Dvr, &colors, codes),
            (Mode::Additive, &colors, codes),
            (Mode::Mip, &places, 3 * PIXEL_BYTES),
        ] {
            let sent = PackedPixels::of(image, mode);
            assert_eq!((sent.seen.len(), sent.bytes.len()), (2, bytes));
            assert_eq!(sent.image(mode).unwrap(), *image);
            let refused = |change: fn(&mut PackedPixels)| {
                let mut sent = sent.clone();
                change(&mut sent);
                sent.image(mode).is_none()
            };
            assert!(refused(|p| p.seen = vec![0xff].into()));
            assert!(refused(|p| p.seen = vec![0b1, 0b0100_0010, 0].into()));
            assert!(refused(|p| p.seen = vec![0xff, 0b0111_1111].into()));
            // As many bits, one of them beyond the last pixel.
            assert!(refused(|p| p.seen = vec![0b1, 0b1000_0010].into()));
            assert!(refused(|p| p.seen = Bytes::new()));
        }
        // What is no number is not left out.
        let nan = image(5, vec![[f32::NAN; 4]; 15]);
        assert!(PackedPixels::of(&nan, Mode::Dvr).image(Mode::Dvr).is_none());
    }

    #[test]
    fn what_leaves_a_peer_is_what_was_packed_and_its_bits_are_frozen() {
        let all = image(2, vec![[0.0, 0.25, 1.0, 1.0], [0.000_1, 0.5, 0.75, 0.001]]);
        let packed = PackedPixels::of(&all, Mode::Dvr);
        let hex: String = packed.bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "00cc9cffdf64ff0f6afe9fae010802");
        let encoded = |pixels: &Pixels| rmp_serde::to_vec_named(pixels).unwrap();
        let here = Pixels::of(all, Mode::Dvr);
        assert_eq!(encoded(&here), encoded(&Pixels::Packed(packed)));
    }

    #[test]
    fn what_is_no_number_is_no_image_in_its_own_peer_either() {
        let nan = Pixels::of(image(1, vec![[f32::NAN; 4]]), Mode::Dvr);
        assert!(nan.into_image(Mode::Dvr).is_none());
    }

    #[test]
    fn many_thin_partials_come_to_what_they_are() {
        for (count, opacity) in [
            (64, 0.000_4),
            (32, 0.001_5),
            (16, 0.01),
            (16, 0.06),
            (8, 0.3),
        ] {
            let fog = [0.5 * opacity, 0.9 * opacity, opacity, opacity];
            let sent = PackedPixels::of(&image(1, vec![fog]), Mode::Dvr);
            let came = sent.image(Mode::Dvr).unwrap().pixels()[0];
            let before_white = |thin: [f32; 4]| {
                let mut all = thin;
                (1..count).for_each(|_| over(&mut all, thin));
                over(&mut all, [1.0; 4]);
                all
            };
            let pairs = before_white(fog).into_iter().zip(before_white(came));
            for (was, is) in pairs {
                assert!(
                    255.0 * (was - is).abs() < 0.5,
                    "{count} {opacity}: {was} {is}"
                );
            }
        }
    }
}

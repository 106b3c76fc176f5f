//! Sub-images: partials of a rectangle of the picture, and how they combine.
//!
//! Shapes: row-major, top row first, four f32 a pixel: what they are depends on the mode, see
//! [`crate::modes`]; premultiplied linear RGBA when they are finished.

use crate::{
    modes::{ModeStages, with_mode},
    transfer_table::TransferTable,
};
use brickmesh_topology::{
    PixelRect,
    frame::image::Image,
    picture::{finish::Finish, render_settings::Mode},
};

/// Part of a painted colour that is the same however bright the picture is.
const PAINTED_FLAT: f32 = 0.3;

/// Partials of a rectangle of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct SubImage {
    rect: PixelRect,
    pixels: Vec<[f32; 4]>,
}

impl SubImage {
    /// A sub-image from its pixels, row by row; `None` where their count is not the rectangle's.
    #[must_use]
    pub fn new(rect: PixelRect, pixels: Vec<[f32; 4]>) -> Option<Self> {
        (pixels.len() == rect.pixel_count()).then_some(Self { rect, pixels })
    }

    /// Nothing: transparent everywhere.
    #[must_use]
    pub fn transparent(rect: PixelRect) -> Self {
        Self {
            rect,
            pixels: vec![[0.0; 4]; rect.pixel_count()],
        }
    }

    /// Where it lies in the picture.
    #[must_use]
    pub fn rect(&self) -> PixelRect {
        self.rect
    }

    /// Its pixels, row by row.
    #[must_use]
    pub fn pixels(&self) -> &[[f32; 4]] {
        &self.pixels
    }

    /// Paints all that is seen in a colour, linear RGB; what is bright stays brighter.
    pub fn paint(&mut self, color: [f32; 3]) {
        for [r, g, b, a] in &mut self.pixels {
            let bright = PAINTED_FLAT * *a + (1.0 - PAINTED_FLAT) * r.max(*g).max(*b).min(*a);
            [*r, *g, *b] = color.map(|c| c * bright);
        }
    }

    /// Adds a colour to that of a pixel inside.
    pub(crate) fn add(&mut self, [x, y]: [u32; 2], color: [f32; 3]) {
        let (column, row) = ((x - self.rect.x) as usize, (y - self.rect.y) as usize);
        let pixel = &mut self.pixels[row * self.rect.width as usize + column];
        pixel.iter_mut().zip(color).for_each(|(p, c)| *p += c);
    }

    /// The part inside `rect`, or `None` where they do not meet.
    #[must_use]
    pub fn crop(&self, rect: &PixelRect) -> Option<Self> {
        let part = self.rect.intersection(rect)?;
        if part == self.rect {
            return Some(self.clone());
        }
        let mut pixels = Vec::with_capacity(part.pixel_count());
        for y in part.y..part.y + part.height {
            pixels.extend_from_slice(self.row(y, &part));
        }
        Some(Self { rect: part, pixels })
    }

    /// The part inside `rect` that holds every pixel there that [`is_seen`]; no pixel where none is.
    fn seen_in(&self, rect: &PixelRect) -> PixelRect {
        let none = self.rect.emptied();
        let Some(part) = self.rect.intersection(rect) else {
            return none;
        };
        // From outside, and no farther than the first that is seen.
        let is_row_seen = |y: &u32| self.row(*y, &part).iter().any(is_seen);
        let mut rows = part.y..part.y + part.height;
        let Some(top) = rows.find(is_row_seen) else {
            return none;
        };
        let bottom = rows.rev().find(is_row_seen).unwrap_or(top);
        let (mut left, mut right) = (part.width as usize, 0);
        for y in top..=bottom {
            let row = self.row(y, &part);
            left = row[..left].iter().position(is_seen).unwrap_or(left);
            let more = row[right..].iter().rposition(is_seen);
            right += more.map_or(0, |last| last + 1);
        }
        PixelRect {
            x: part.x + pixel_offset(left),
            y: top,
            width: pixel_offset(right - left),
            height: bottom - top + 1,
        }
    }

    /// Puts `behind` behind this one, where they meet.
    pub fn combine(&mut self, behind: &Self, mode: Mode) {
        self.combine_part(behind, &behind.rect, mode);
    }

    /// Puts what `behind` has inside `rect` behind this one, where they meet.
    fn combine_part(&mut self, behind: &Self, rect: &PixelRect, mode: Mode) {
        let part = self.rect.intersection(&behind.rect);
        let Some(part) = part.and_then(|part| part.intersection(rect)) else {
            return;
        };
        for y in part.y..part.y + part.height {
            let start = self.offset(part.x, y);
            let front = &mut self.pixels[start..start + part.width as usize];
            with_mode!(mode, M => {
                for (f, b) in front.iter_mut().zip(behind.row(y, &part)) {
                    M::combine(f, *b);
                }
            });
        }
    }

    /// Writes `part` over this one's pixels, where they meet.
    pub fn paste(&mut self, part: &Self) {
        self.paste_part(part, &part.rect);
    }

    /// Writes what `part` has inside `rect` over this one's pixels, where they meet.
    pub fn paste_part(&mut self, part: &Self, rect: &PixelRect) {
        let common = self.rect.intersection(&part.rect);
        let Some(common) = common.and_then(|common| common.intersection(rect)) else {
            return;
        };
        for y in common.y..common.y + common.height {
            let start = self.offset(common.x, y);
            self.pixels[start..start + common.width as usize].copy_from_slice(part.row(y, &common));
        }
    }

    /// The pixels of what all jobs came to: premultiplied linear RGBA.
    pub fn finish(&mut self, table: &TransferTable, mode: Mode) {
        with_mode!(mode, M => for p in &mut self.pixels {
            *p = M::finish(*p, |place| table.classify(place));
        });
    }

    /// A finished picture over an opaque background, linear, as 8-bit RGBA; alpha is 255.
    #[must_use]
    pub fn to_rgba8(&self, background: [f32; 3]) -> Vec<u8> {
        self.finished(&Finish::before(background), 0, self.rect.height)
    }

    /// A part of a picture of this height as it is written, 8-bit RGBA; `first` is the number of its first row in
    /// the picture.
    #[must_use]
    pub fn finished(&self, finish: &Finish, first: u32, height: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.pixels.len());
        let rows = self.pixels.chunks_exact(self.rect.width.max(1) as usize);
        for (row, y) in rows.zip(first..) {
            let background = finish.background_at(y, height);
            out.extend(row.iter().map(|p| finish.pixel(*p, background).map(to_u8)));
        }
        out.into_flattened()
    }

    fn offset(&self, x: u32, y: u32) -> usize {
        (y - self.rect.y) as usize * self.rect.width as usize + (x - self.rect.x) as usize
    }

    fn row(&self, y: u32, part: &PixelRect) -> &[[f32; 4]] {
        let start = self.offset(part.x, y);
        &self.pixels[start..start + part.width as usize]
    }
}

impl Image for SubImage {
    fn nothing(rect: PixelRect) -> Self {
        Self::transparent(rect)
    }

    fn rect(&self) -> PixelRect {
        self.rect
    }

    fn least_opacity(&self, rect: &PixelRect) -> f32 {
        let mut least = 1.0_f32;
        for y in rect.y..rect.bottom() {
            let row = self.row(y, rect).iter().map(|pixel| pixel[3]);
            // What is no number stays.
            least = row.fold(
                least,
                |least, a| if a < least || a.is_nan() { a } else { least },
            );
            if least <= 0.0 || least.is_nan() {
                return 0.0;
            }
        }
        least
    }

    fn part(&self, rect: &PixelRect) -> Self {
        let seen = self.seen_in(rect);
        let part = self.crop(&seen);
        part.unwrap_or_else(|| Self::transparent(seen))
    }

    fn combine(&mut self, behind: &Self, mode: Mode) {
        Self::combine(self, behind, mode);
    }

    fn then(mut self, behind: &Self, within: &PixelRect, mode: Mode) -> Self {
        if self.pixels.is_empty() {
            return behind.part(within);
        }
        let seen = behind.seen_in(within);
        if seen.pixel_count() == 0 {
            return self;
        }
        let around = self.rect.around(&seen);
        if around != self.rect {
            let mut wider = Self::transparent(around);
            wider.paste(&self);
            self = wider;
        }
        self.combine_part(behind, &seen, mode);
        self
    }
}

/// Whether a pixel is not wholly 0. What is no number is not 0: whoever blends it must see it.
#[must_use]
#[inline]
pub fn is_seen(pixel: &[f32; 4]) -> bool {
    // All bits but the signs.
    let bits = pixel.iter().fold(0, |all, c| all | c.to_bits() << 1);
    bits != 0
}

fn pixel_offset(column: usize) -> u32 {
    u32::try_from(column).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0…255 before"
)]
fn to_u8(linear: f32) -> u8 {
    // By way of `i32`, which is done for four numbers at a time.
    (linear.clamp(0.0, 1.0) * 255.0 + 0.5) as i32 as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::over;
    use proptest::prelude::*;

    #[test]
    fn the_least_opacity_of_some_pixels_is_nothing_where_one_is_no_number() {
        let rect = PixelRect {
            x: 5,
            y: 7,
            width: 3,
            height: 2,
        };
        let pixels = [0.5, 0.9, 0.2, 0.0, f32::NAN, 0.7].map(|a| [0.0, 0.0, 0.0, a]);
        let image = SubImage::new(rect, pixels.to_vec()).unwrap();
        let least = |x, y, width, height| {
            image.least_opacity(&PixelRect {
                x,
                y,
                width,
                height,
            })
        };
        assert_eq!(
            (least(5, 7, 3, 1), least(6, 7, 1, 1), least(7, 7, 1, 2)),
            (0.2, 0.9, 0.2)
        );
        assert_eq!((least(5, 8, 3, 1), least(6, 7, 2, 2)), (0.0, 0.0));
    }

    fn pixel() -> impl Strategy<Value = [f32; 4]> {
        (0.0..1.0f32, prop::array::uniform3(0.0..1.0f32))
            .prop_map(|(a, c)| [c[0] * a, c[1] * a, c[2] * a, a])
    }

    #[test]
    fn what_is_no_number_is_not_trimmed_away() {
        let rect = PixelRect {
            x: 4,
            y: 2,
            width: 3,
            height: 1,
        };
        let pixels = vec![[0.0; 4], [0.0, f32::NAN, 0.0, 0.0], [-0.0; 4]];
        let trimmed = SubImage::new(rect, pixels).unwrap().part(&rect);
        assert_eq!((trimmed.rect().x, trimmed.rect().width), (5, 1));
    }

    proptest! {
        #[test]
        fn over_of_a_tree_is_over_of_the_list(p in prop::collection::vec(pixel(), 4)) {
            let mut list = p[0];
            p[1..].iter().for_each(|&b| over(&mut list, b));
            let (mut left, mut right) = (p[0], p[2]);
            over(&mut left, p[1]);
            over(&mut right, p[3]);
            over(&mut left, right);
            for c in 0..4 {
                prop_assert!((list[c] - left[c]).abs() < 1e-5);
            }
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "pixels are copied")]
    fn blending_touches_only_where_both_are() {
        let rect = |x, y, width, height| PixelRect {
            x,
            y,
            width,
            height,
        };
        let mut front = SubImage::transparent(rect(0, 0, 4, 3));
        let behind = SubImage::new(rect(3, 1, 5, 1), vec![[0.5, 0.0, 0.0, 1.0]; 5]).unwrap();
        front.combine(&behind, Mode::Dvr);
        let set: Vec<usize> = (0..12).filter(|&i| front.pixels()[i][3] > 0.0).collect();
        assert_eq!(set, [7]);
        assert_eq!(
            front.crop(&rect(3, 0, 9, 2)).unwrap().pixels()[1],
            [0.5, 0.0, 0.0, 1.0]
        );
    }

    #[test]
    fn trimming_keeps_what_is_seen_and_no_border_of_nothing() {
        let rect = |x, y, width, height| PixelRect {
            x,
            y,
            width,
            height,
        };
        let mut image = SubImage::transparent(rect(10, 20, 6, 5));
        let all = image.rect();
        assert_eq!(image.part(&all).rect().pixel_count(), 0);
        image.paste(&SubImage::new(rect(12, 21, 2, 3), vec![[0.1; 4]; 6]).unwrap());
        assert_eq!(image.part(&all).rect(), rect(12, 21, 2, 3));
        assert_eq!(image.part(&all).pixels(), [[0.1; 4]; 6]);
        // Rows that begin and end elsewhere.
        let spots = [(14, 20), (11, 22), (15, 23)];
        for (x, y) in spots {
            image.paste(&SubImage::new(rect(x, y, 1, 1), vec![[0.1; 4]]).unwrap());
        }
        assert_eq!(image.part(&all).rect(), rect(11, 20, 5, 4));
        assert_eq!(image.seen_in(&rect(12, 22, 2, 9)), rect(12, 22, 2, 2));
    }

    #[test]
    fn half_transparent_white_over_black_is_middle_grey() {
        let image = SubImage::new(
            PixelRect {
                x: 0,
                y: 0,
                width: 1,
                height: 1,
            },
            vec![[0.5; 4]],
        )
        .unwrap();
        assert_eq!(image.to_rgba8([0.0; 3]), [128, 128, 128, 255]);
        assert_eq!(image.to_rgba8([1.0; 3]), [255, 255, 255, 255]);
    }
}

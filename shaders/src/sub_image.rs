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
use rayon::prelude::*;

/// Pixels that are worth several threads.
pub(crate) const PARALLEL_PIXELS: usize = 1 << 16;
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
        self.change(|[r, g, b, a]| {
            let bright = PAINTED_FLAT * *a + (1.0 - PAINTED_FLAT) * r.max(*g).max(*b).min(*a);
            [*r, *g, *b] = color.map(|c| c * bright);
        });
    }

    /// Whether all its numbers are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        if self.pixels.len() < PARALLEL_PIXELS {
            return are_finite(&self.pixels);
        }
        let parts = self.pixels.par_chunks(PARALLEL_PIXELS);
        parts.all(are_finite)
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
        let mut cropped = Self::transparent(part);
        cropped.paste(self);
        Some(cropped)
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
        self.change_rows(&part, |y, front| {
            with_mode!(mode, M => {
                for (f, b) in front.iter_mut().zip(behind.row(y, &part)) {
                    M::combine(f, *b);
                }
            });
        });
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
        self.change_rows(&common, |y, row| row.copy_from_slice(part.row(y, &common)));
    }

    /// The pixels of what all jobs came to: premultiplied linear RGBA.
    pub fn finish(&mut self, table: &TransferTable, mode: Mode) {
        with_mode!(mode, M => self.change(|p| *p = M::finish(*p, |place| table.classify(place))));
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
        let mut out = vec![[0; 4]; self.pixels.len()];
        let width = self.rect.width.max(1) as usize;
        let rows = self.pixels.par_chunks_exact(width).enumerate();
        let least = PARALLEL_PIXELS / width;
        let rows = out
            .par_chunks_exact_mut(width)
            .zip(rows)
            .with_min_len(least.max(1));
        rows.for_each(|(out, (y, row))| {
            let background = finish.background_at(first.saturating_add(pixel_offset(y)), height);
            for (out, p) in out.iter_mut().zip(row) {
                *out = finish.pixel(*p, background).map(to_u8);
            }
        });
        out.into_flattened()
    }

    /// Changes each pixel.
    fn change(&mut self, change: impl Fn(&mut [f32; 4]) + Sync) {
        let rect = self.rect;
        self.change_rows(&rect, |_, row| row.iter_mut().for_each(&change));
    }

    /// Changes the rows of a part inside, each by the number of its row in the picture.
    fn change_rows(&mut self, part: &PixelRect, change: impl Fn(u32, &mut [[f32; 4]]) + Sync) {
        if part.pixel_count() == 0 {
            return;
        }
        let width = self.rect.width as usize;
        let column = (part.x - self.rect.x) as usize;
        let first = (part.y - self.rect.y) as usize * width;
        let rows = &mut self.pixels[first..][..part.height as usize * width];
        let change = |(row, y): (&mut [[f32; 4]], u32)| {
            change(y, &mut row[column..][..part.width as usize]);
        };
        let ys = part.y..part.y + part.height;
        if part.pixel_count() < PARALLEL_PIXELS {
            rows.chunks_exact_mut(width).zip(ys).for_each(change);
        } else {
            rows.par_chunks_exact_mut(width).zip(ys).for_each(change);
        }
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

    fn opacities(&self, row: &PixelRect) -> impl Iterator<Item = f32> {
        // `max` of what is no number and 0 is 0.
        self.row(row.y, row).iter().map(|pixel| pixel[3].max(0.0))
    }

    fn part(&self, rect: &PixelRect) -> Self {
        let seen = self.seen_in(rect);
        let part = self.crop(&seen);
        part.unwrap_or_else(|| Self::transparent(seen))
    }

    fn into_part(self, rect: &PixelRect) -> Self {
        if self.seen_in(rect) == self.rect {
            self
        } else {
            self.part(rect)
        }
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

/// Whether all numbers of pixels are finite.
#[must_use]
pub fn are_finite(pixels: &[[f32; 4]]) -> bool {
    // Without a way out in the middle it is done eight at a time.
    let mut numbers = pixels.as_flattened().iter();
    numbers.by_ref().fold(true, |all, v| all & v.is_finite())
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
    fn the_opacity_of_a_pixel_is_nothing_where_it_is_no_number() {
        let rect = PixelRect {
            x: 5,
            y: 7,
            width: 3,
            height: 2,
        };
        let pixels = [0.5, 0.9, 0.2, -0.1, f32::NAN, 0.7].map(|a| [0.0, 0.0, 0.0, a]);
        let image = SubImage::new(rect, pixels.to_vec()).unwrap();
        let of = |x, y, width| {
            let row = PixelRect {
                x,
                y,
                width,
                height: 1,
            };
            image.opacities(&row).collect::<Vec<_>>()
        };
        assert_eq!(of(5, 7, 3), [0.5, 0.9, 0.2]);
        assert_eq!((of(6, 7, 1), of(5, 8, 3)), (vec![0.9], vec![0.0, 0.0, 0.7]));
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

    #[test]
    fn large_pictures_are_as_those_of_their_rows() {
        let rect = PixelRect {
            x: 3,
            y: 5,
            width: 403,
            height: 301,
        };
        let pixel = |n: usize, part: f32| {
            let of = |by: usize| (n % by) as f32 / by as f32 * part;
            [of(7), of(11), of(13), part]
        };
        let image = |part: f32| {
            let pixels = (0..rect.pixel_count()).map(|n| pixel(n, part));
            SubImage::new(rect, pixels.collect()).unwrap()
        };
        let inside = PixelRect {
            x: 10,
            y: 8,
            width: 370,
            height: 290,
        };
        let rows = |of: &PixelRect| {
            let of = *of;
            (of.y..of.y + of.height).map(move |y| PixelRect { y, height: 1, ..of })
        };
        let (front, behind) = (image(0.5), image(0.75));
        let cropped = behind.crop(&inside).unwrap();
        assert!(inside.pixel_count() > PARALLEL_PIXELS);
        for row in rows(&inside) {
            assert_eq!(cropped.crop(&row), behind.crop(&row));
        }
        let (mut whole, mut by_rows) = (front.clone(), front.clone());
        whole.combine(&cropped, Mode::Dvr);
        let parts = rows(&inside).filter_map(|row| behind.crop(&row));
        parts.for_each(|row| by_rows.combine(&row, Mode::Dvr));
        assert_eq!(whole, by_rows);
        let finish = Finish::before([0.25; 3]);
        let bytes = rows(&rect).flat_map(|row| {
            let first = row.y - rect.y;
            whole
                .crop(&row)
                .unwrap()
                .finished(&finish, first, rect.height)
        });
        assert_eq!(
            whole.finished(&finish, 0, rect.height),
            bytes.collect::<Vec<u8>>()
        );
        assert!(whole.is_finite());
        whole.pixels[70_000][2] = f32::NAN;
        assert!(!whole.is_finite());
    }

    #[test]
    fn what_lies_behind_nothing_is_itself() {
        let rect = PixelRect {
            x: 3,
            y: 5,
            width: 2,
            height: 1,
        };
        let colors = [[0.25, 0.5, 0.125, 0.75], [0.0; 4]];
        let values = [[0.25, 0.5, 0.0, 0.0], [0.0; 4]];
        for mode in Mode::ALL {
            let pixels = if mode.combines_values() {
                values
            } else {
                colors
            };
            let part = SubImage::new(rect, pixels.to_vec()).unwrap();
            let mut on_nothing = SubImage::transparent(rect);
            on_nothing.combine(&part, mode);
            assert_eq!(on_nothing, part, "{mode:?}");
        }
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

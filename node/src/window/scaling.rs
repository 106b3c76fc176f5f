//! Pictures to the size of the window: linear between pixels, so that coarse ones are soft, not blocky.

use std::ops::Range;

/// A picture, or a part of the window: 0x00RRGGBB, row by row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture<'a> {
    pub width: usize,
    pub height: usize,
    pub pixels: &'a [u32],
}

/// Weights are of so many parts, 2 to this.
const WEIGHT_BITS: u32 = 8;

/// Draws a picture on columns of rows of the window, as wide as those columns and `height` rows high;
/// `rows` are the first of them.
pub(super) fn draw<'a>(
    from: Picture<'_>,
    columns: Range<usize>,
    height: usize,
    rows: impl Iterator<Item = &'a mut [u32]>,
) {
    let width = columns.len();
    if from.width == width && from.height == height {
        let lines = from.pixels.chunks_exact(width.max(1));
        for (row, line) in rows.zip(lines) {
            row[columns.clone()].copy_from_slice(line);
        }
        return;
    }
    let along_x: Vec<Between> = (0..width).map(|x| between(x, width, from.width)).collect();
    let mut line = vec![0; from.width];
    for (y, row) in rows.take(height).enumerate() {
        let of = between(y, height, from.height);
        let [above, below] = [of.first, of.second].map(|y| &from.pixels[y * from.width..]);
        for ((mixed, a), b) in line.iter_mut().zip(above).zip(below) {
            *mixed = mix(*a, *b, of.weight);
        }
        for (pixel, of) in row[columns.clone()].iter_mut().zip(&along_x) {
            *pixel = mix(line[of.first], line[of.second], of.weight);
        }
    }
}

/// Two neighbours, and the weight of the second.
#[derive(Clone, Copy, Debug)]
struct Between {
    first: usize,
    second: usize,
    weight: u32,
}

/// Where the centre of a pixel of `size` stands among the centres of `from` pixels.
fn between(at: usize, size: usize, from: usize) -> Between {
    // In halves of a pixel of `size`, times `from`; centres of `from` are half a pixel in.
    let place = ((2 * at + 1) * from).saturating_sub(size);
    let first = (place / (2 * size)).min(from - 1);
    let rest = place - first * 2 * size;
    let weight = ((rest << WEIGHT_BITS) / (2 * size)).min(1 << WEIGHT_BITS);
    Between {
        first,
        second: (first + 1).min(from - 1),
        weight: u32::try_from(weight).unwrap_or(0),
    }
}

/// Red and blue at once, green for itself.
fn mix(a: u32, b: u32, weight: u32) -> u32 {
    let rest = (1 << WEIGHT_BITS) - weight;
    let of = |mask: u32| {
        let sum = u64::from(a & mask) * u64::from(rest) + u64::from(b & mask) * u64::from(weight);
        u32::try_from(sum >> WEIGHT_BITS).unwrap_or(u32::MAX) & mask
    };
    of(0x00ff_00ff) | of(0x0000_ff00)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(pixels: &[u32], width: usize, to: [usize; 2]) -> Vec<u32> {
        let from = Picture {
            width,
            height: pixels.len() / width,
            pixels,
        };
        // A column to the left and one to the right stay.
        let mut window = vec![7; (to[0] + 2) * to[1]];
        draw(
            from,
            1..to[0] + 1,
            to[1],
            window.chunks_exact_mut(to[0] + 2),
        );
        let rows = window.chunks_exact(to[0] + 2);
        rows.clone()
            .for_each(|row| assert_eq!((row[0], row[to[0] + 1]), (7, 7)));
        rows.flat_map(|row| row[1..=to[0]].to_vec()).collect()
    }

    #[test]
    fn a_picture_of_the_same_size_is_itself_and_one_colour_stays_one() {
        let pixels: Vec<u32> = (0..12).map(|n| n * 0x0010_0503).collect();
        assert_eq!(drawn(&pixels, 4, [4, 3]), pixels);
        for to in [[1, 1], [3, 50], [17, 2], [64, 64]] {
            let one = drawn(&[0x00fe_80ff; 12], 4, to);
            assert!(one.iter().all(|&p| p == 0x00fe_80ff), "{to:?}");
        }
    }

    #[test]
    fn between_pixels_colours_are_between_and_ends_are_kept() {
        let wide = drawn(&[0x0000_0000, 0x00ff_ffff], 2, [64, 1]);
        assert!(wide.is_sorted());
        assert_eq!((wide[0], wide[15], wide[63]), (0, 0, 0x00ff_ffff));
        assert_eq!(wide[32] >> 16, 0x83, "33 of 64 parts of the way");
        // Each channel for itself.
        let apart = drawn(&[0x00ff_0000, 0x0000_ff00], 2, [1, 1]);
        assert_eq!(apart[0], 0x007f_7f00);
    }
}

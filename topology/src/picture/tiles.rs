//! Screen tiles and who composites each (direct send: a tile has one owner).
//!
//! Space: pixel. Invariant: the tiles cover the picture, each pixel once.

use crate::picture::camera::PixelRect;

/// Smallest tile edge in pixels: below it, messages cost more than blending.
pub const TILE_EDGE_MIN: u32 = 32;
/// Largest tile edge in pixels: a tile fits in one message.
pub const TILE_EDGE_MAX: u32 = 2048;
/// Tiles that each compositor gets, about: enough to even out crowded and empty regions.
const TILES_PER_COMPOSITOR: u32 = 4;

/// A tile and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Its pixels.
    pub rect: PixelRect,
    /// Index of the peer that composites it, in the roster.
    pub compositor: usize,
}

/// Cuts the picture into tiles for `compositors` peers, dealt along diagonals. One compositor
/// gets the picture whole, up to 2048² pixels.
#[must_use]
pub fn tiles(picture: PixelRect, compositors: usize) -> Vec<Tile> {
    if compositors <= 1 && picture.width.max(picture.height) <= TILE_EDGE_MAX {
        return vec![Tile {
            rect: picture,
            compositor: 0,
        }];
    }
    let edge = edge(picture, compositors);
    let columns = picture.width.div_ceil(edge);
    let rows = picture.height.div_ceil(edge);
    let tile = |row: u32, column: u32| Tile {
        rect: PixelRect {
            x: picture.x + column * edge,
            y: picture.y + row * edge,
            width: edge.min(picture.width - column * edge),
            height: edge.min(picture.height - row * edge),
        },
        compositor: (row + column) as usize % compositors.max(1),
    };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| tile(row, column)))
        .collect()
}

fn edge(picture: PixelRect, compositors: usize) -> u32 {
    let wanted = u64::from(TILES_PER_COMPOSITOR) * compositors.max(1) as u64;
    let pixels = u64::from(picture.width) * u64::from(picture.height);
    let edge = (pixels / wanted).isqrt();
    u32::try_from(edge)
        .map_or(TILE_EDGE_MAX, |edge| edge.min(TILE_EDGE_MAX))
        .next_multiple_of(16)
        .max(TILE_EDGE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tiles_cover_each_pixel_once(width in 1u32..300, height in 1u32..300, compositors in 1usize..12) {
            let picture = PixelRect { x: 0, y: 0, width, height };
            let tiles = tiles(picture, compositors);
            let mut seen = vec![0u8; picture.pixel_count()];
            for t in &tiles {
                prop_assert!(t.compositor < compositors);
                for y in t.rect.y..t.rect.y + t.rect.height {
                    for x in t.rect.x..t.rect.x + t.rect.width {
                        seen[(y * width + x) as usize] += 1;
                    }
                }
            }
            prop_assert!(seen.iter().all(|&n| n == 1));
        }
    }

    #[test]
    fn no_tile_is_too_large_for_a_message() {
        let picture = |width| PixelRect {
            x: 0,
            y: 0,
            width,
            height: 2048,
        };
        assert_eq!(tiles(picture(2048), 1).len(), 1);
        for compositors in [1, 2, 9] {
            let tiles = tiles(picture(20_000), compositors);
            let edge = |t: &Tile| t.rect.width.max(t.rect.height);
            assert!(tiles.iter().map(edge).max() <= Some(TILE_EDGE_MAX));
        }
    }

    #[test]
    fn eight_compositors_all_get_tiles_of_a_square_picture() {
        let tiles = tiles(
            PixelRect {
                x: 0,
                y: 0,
                width: 512,
                height: 512,
            },
            8,
        );
        assert!((0..8).all(|c| tiles.iter().any(|t| t.compositor == c)));
    }
}

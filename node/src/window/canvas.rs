//! A picture for the window: of a frame, or of tiles as they come over what was there before.

use super::scaling::{self, Picture};
use brickmesh_shaders::SubImage;
use brickmesh_topology::picture::finish::Finish;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Canvas {
    pub size: [usize; 2],
    /// 0x00RRGGBB, row by row.
    pub pixels: Vec<u32>,
}

impl Canvas {
    /// Of a whole picture.
    pub(super) fn of(image: &SubImage, finish: &Finish) -> Self {
        let rect = image.rect();
        Self {
            size: [rect.width as usize, rect.height as usize],
            pixels: pixels(image, finish, rect.height),
        }
    }

    /// As a picture of another size, black where there was none.
    pub(super) fn resized(self, size: [usize; 2]) -> Self {
        if self.size == size {
            return self;
        }
        let mut pixels = vec![0; size[0] * size[1]];
        if !self.pixels.is_empty() && size[0] > 0 {
            let rows = pixels.chunks_exact_mut(size[0]);
            scaling::draw(self.picture(), 0..size[0], size[1], rows);
        }
        Self { size, pixels }
    }

    /// Puts a tile of a picture of this size where it belongs.
    pub(super) fn put(&mut self, tile: &SubImage, finish: &Finish) {
        let [width, height] = self.size;
        let rect = tile.rect();
        let [left, top] = [rect.x as usize, rect.y as usize];
        let across = rect.width as usize;
        if across == 0 || left + across > width || top + rect.height as usize > height {
            return;
        }
        let new = pixels(tile, finish, u32::try_from(height).unwrap_or(u32::MAX));
        let rows = self.pixels.chunks_exact_mut(width).skip(top);
        for (row, new) in rows.zip(new.chunks_exact(across)) {
            row[left..left + across].copy_from_slice(new);
        }
    }

    pub(super) fn picture(&self) -> Picture<'_> {
        let [width, height] = self.size;
        Picture {
            width,
            height,
            pixels: &self.pixels,
        }
    }
}

/// The pixels of a part of a picture of this height.
fn pixels(part: &SubImage, finish: &Finish, height: u32) -> Vec<u32> {
    let rgba = part.finished(finish, part.rect().y, height);
    let pixel = |p: [u8; 4]| u32::from_be_bytes([0, p[0], p[1], p[2]]);
    let (pixels, _) = rgba.as_chunks();
    pixels.iter().map(|p| pixel(*p)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::PixelRect;

    fn image(rect: PixelRect) -> SubImage {
        let of = |n: u32| [(n % 7) as f32 / 7.0, (n % 5) as f32 / 5.0, 0.5, 0.25];
        let at = |n: u32| of((rect.y + n / rect.width) * 31 + rect.x + n % rect.width);
        let pixels = (0..rect.width * rect.height).map(at);
        SubImage::new(rect, pixels.collect()).unwrap()
    }

    fn rect([x, y]: [u32; 2], [width, height]: [u32; 2]) -> PixelRect {
        PixelRect {
            x,
            y,
            width,
            height,
        }
    }

    #[test]
    fn tiles_put_one_by_one_are_the_picture() {
        // From top to bottom the background changes.
        let finish = Finish {
            background: [[0.9, 0.1, 0.3], [0.0, 0.8, 0.2]],
            ..Finish::before([0.0; 3])
        };
        let whole = Canvas::of(&image(rect([0, 0], [9, 6])), &finish);
        let mut canvas = Canvas::default().resized([9, 6]);
        assert_eq!(canvas.pixels, [0; 54]);
        for at in [[0, 0], [5, 0], [0, 4], [5, 4]] {
            let end = [
                if at[0] == 0 { 5 } else { 9 },
                if at[1] == 0 { 4 } else { 6 },
            ];
            assert_ne!(canvas.pixels, whole.pixels);
            canvas.put(&image(rect(at, [end[0] - at[0], end[1] - at[1]])), &finish);
        }
        assert_eq!(canvas.pixels, whole.pixels);
        // One that is not of this picture changes nothing.
        canvas.put(&image(rect([8, 0], [2, 1])), &finish);
        canvas.put(&image(rect([0, 5], [1, 2])), &finish);
        assert_eq!(canvas.pixels, whole.pixels);
    }

    #[test]
    fn another_size_shows_the_same() {
        let grey = Canvas {
            size: [2, 3],
            pixels: vec![0x0080_8080; 6],
        };
        let larger = grey.clone().resized([5, 4]);
        assert_eq!(
            (larger.size, larger.pixels),
            ([5, 4], vec![0x0080_8080; 20])
        );
        assert_eq!(grey.clone().resized([2, 3]).pixels, grey.pixels);
        assert!(grey.resized([0, 4]).pixels.is_empty());
    }
}

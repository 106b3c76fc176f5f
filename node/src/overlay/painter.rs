//! Painter of the panels: triangles of egui into the pixels of a window, on the processor.
//!
//! Own code, because the one library that does this is bound to an egui of three releases ago. Space:
//! pixels from the upper left corner; a pixel belongs to a triangle if its centre does, and on an edge
//! to one of both sides, so that neighbouring triangles that can be seen through leave no seam. Colours
//! are premultiplied sRGBA and blended as such, as egui means them; textures are read at their nearest
//! texel.

use egui::{
    ClippedPrimitive, Color32, ImageData, Pos2, Rect, TextureId, TexturesDelta,
    epaint::{ImageDelta, Primitive, Vertex},
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

/// Pixels to paint on: 0x00RRGGBB, row by row.
pub(crate) struct Canvas<'a> {
    pub width: usize,
    pub pixels: &'a mut [u32],
}

#[derive(Debug)]
struct Texture {
    size: [usize; 2],
    texels: Vec<Color32>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Painter {
    textures: HashMap<TextureId, Texture>,
    unused: HashSet<TextureId>,
}

/// Numbers of a vertex that change linearly over a triangle: colour, place in the texture.
type Varying = [f32; 6];

impl Painter {
    /// Takes textures that are new or have changed; those that nothing uses after what is laid out now go
    /// with the next.
    pub(crate) fn take(&mut self, mut delta: TexturesDelta) {
        let unused = std::mem::replace(&mut self.unused, delta.free.drain().collect());
        self.textures.retain(|id, _| !unused.contains(id));
        #[expect(clippy::iter_over_hash_type, reason = "no texture depends on another")]
        for (id, changes) in delta.set.drain() {
            for change in changes {
                self.change(id, &change);
            }
        }
    }

    fn change(&mut self, id: TextureId, change: &ImageDelta) {
        let ImageData::Color(image) = &change.image;
        let Some([left, top]) = change.pos else {
            let (size, texels) = (image.size, image.pixels.clone());
            self.textures.insert(id, Texture { size, texels });
            return;
        };
        let Some(texture) = self.textures.get_mut(&id) else {
            return;
        };
        let [width, _] = image.size;
        for (y, row) in image.pixels.chunks_exact(width.max(1)).enumerate() {
            let at = (top + y) * texture.size[0] + left;
            if let Some(texels) = texture.texels.get_mut(at..at + width) {
                texels.copy_from_slice(row);
            }
        }
    }

    /// Paints what egui has laid out at so many pixels to a point.
    pub(crate) fn paint(
        &self,
        primitives: &[ClippedPrimitive],
        pixels_per_point: f32,
        canvas: &mut Canvas<'_>,
    ) {
        for ClippedPrimitive {
            clip_rect,
            primitive,
        } in primitives
        {
            // Callbacks draw with a GPU; no panel has one.
            let Primitive::Mesh(mesh) = primitive else {
                continue;
            };
            let Some(texture) = self.textures.get(&mesh.texture_id) else {
                continue;
            };
            let clip = Clip::of(*clip_rect * pixels_per_point, canvas);
            for [a, b, c] in mesh.indices.as_chunks().0 {
                let corners = [a, b, c].map(|i| mesh.vertices.get(*i as usize));
                if let [Some(a), Some(b), Some(c)] = corners {
                    let corners = [a, b, c].map(|v| Corner::of(v, pixels_per_point, texture));
                    triangle(corners, texture, &clip, canvas);
                }
            }
        }
    }
}

/// Pixels that may be painted.
struct Clip {
    x: Range<usize>,
    y: Range<usize>,
}

impl Clip {
    fn of(rect: Rect, canvas: &Canvas<'_>) -> Self {
        let height = canvas.pixels.len() / canvas.width.max(1);
        Self {
            x: first_centre(rect.min.x.round(), canvas.width)
                ..first_centre(rect.max.x.round(), canvas.width),
            y: first_centre(rect.min.y.round(), height)..first_centre(rect.max.y.round(), height),
        }
    }
}

/// The first pixel whose centre is at or after `edge`, at most `end`.
fn first_centre(edge: f32, end: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate"
    )]
    let first = (edge - 0.5).ceil() as usize;
    first.min(end)
}

#[derive(Clone, Copy)]
struct Corner {
    at: Pos2,
    varying: Varying,
}

impl Corner {
    fn of(vertex: &Vertex, pixels_per_point: f32, texture: &Texture) -> Self {
        let [r, g, b, a] = vertex.color.to_array().map(f32::from);
        let [width, height] = texture.size.map(|n| n as f32);
        Self {
            at: vertex.pos * pixels_per_point,
            varying: [r, g, b, a, vertex.uv.x * width, vertex.uv.y * height],
        }
    }
}

/// Where the edge between two points crosses the line at `y`. Of the points in either order the same,
/// so that triangles on both sides of it agree.
fn crossing(a: Pos2, b: Pos2, y: f32) -> f32 {
    let (a, b) = if (a.y, a.x) <= (b.y, b.x) {
        (a, b)
    } else {
        (b, a)
    };
    a.x + (b.x - a.x) * ((y - a.y) / (b.y - a.y))
}

fn triangle(corners: [Corner; 3], texture: &Texture, clip: &Clip, canvas: &mut Canvas<'_>) {
    let mut by_height = corners.map(|c| c.at);
    by_height.sort_by(|a, b| {
        (a.y, a.x)
            .partial_cmp(&(b.y, b.x))
            .unwrap_or(a.y.total_cmp(&b.y))
    });
    let [top, middle, bottom] = by_height;
    let [a, b, c] = corners;
    let (to_b, to_c) = (b.at - a.at, c.at - a.at);
    let area = to_b.x * to_c.y - to_b.y * to_c.x;
    if !(area.is_finite() && area != 0.0) {
        return;
    }
    let bits = |corner: &Corner| corner.varying.map(f32::to_bits);
    let is_flat = bits(&b) == bits(&a) && bits(&c) == bits(&a);
    // Change of each number from pixel to pixel.
    let change = |n: usize| {
        let (db, dc) = (b.varying[n] - a.varying[n], c.varying[n] - a.varying[n]);
        let along_x = (db * to_c.y - dc * to_b.y) / area;
        let along_y = (dc * to_b.x - db * to_c.x) / area;
        [along_x, along_y]
    };
    let changes: [[f32; 2]; 6] = std::array::from_fn(change);
    let flat = texture.tinted(a.varying);
    for y in clip.y.start.max(first_centre(top.y, clip.y.end))..first_centre(bottom.y, clip.y.end) {
        let centre = y as f32 + 0.5;
        let long = crossing(top, bottom, centre);
        let short = if centre < middle.y {
            crossing(top, middle, centre)
        } else {
            crossing(middle, bottom, centre)
        };
        let from = first_centre(long.min(short), clip.x.end).max(clip.x.start);
        let to = first_centre(long.max(short), clip.x.end);
        if from >= to {
            continue;
        }
        let row = y * canvas.width;
        let pixels = &mut canvas.pixels[row + from..row + to];
        if is_flat && flat[3] == 255 {
            let [r, g, b, _] = flat;
            pixels.fill(u32::from_be_bytes([0, r, g, b]));
        } else if is_flat {
            pixels.iter_mut().for_each(|p| *p = over(flat, *p));
        } else {
            let dx = from as f32 + 0.5 - a.at.x;
            let dy = centre - a.at.y;
            let mut varying: Varying =
                std::array::from_fn(|n| a.varying[n] + changes[n][0] * dx + changes[n][1] * dy);
            for pixel in pixels {
                *pixel = over(texture.tinted(varying), *pixel);
                for (v, change) in varying.iter_mut().zip(&changes) {
                    *v += change[0];
                }
            }
        }
    }
}

impl Texture {
    /// The nearest texel times a colour.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate; colours are 0 to 255"
    )]
    fn tinted(&self, [r, g, b, a, u, v]: Varying) -> [u8; 4] {
        let [width, height] = self.size;
        let x = (u as usize).min(width.saturating_sub(1));
        let y = (v as usize).min(height.saturating_sub(1));
        let texel = self.texels.get(y * width + x).copied().unwrap_or_default();
        let [tr, tg, tb, ta] = texel.to_array();
        let times = |c: f32, t: u8| (c * f32::from(t) * (1.0 / 255.0) + 0.5) as u8;
        [times(r, tr), times(g, tg), times(b, tb), times(a, ta)]
    }
}

/// A premultiplied colour over an opaque pixel.
fn over([r, g, b, a]: [u8; 4], below: u32) -> u32 {
    let through = 255 - u32::from(a);
    let [_, br, bg, bb] = below.to_be_bytes();
    let mix = |c: u8, below: u8| {
        let sum = u32::from(c) + (u32::from(below) * through + 127) / 255;
        u8::try_from(sum).unwrap_or(u8::MAX)
    };
    u32::from_be_bytes([0, mix(r, br), mix(g, bg), mix(b, bb)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{ColorImage, Mesh, TextureOptions, epaint::WHITE_UV};

    const SIZE: usize = 16;

    /// A painter with a texture whose first texel is white, as egui's is; 2 × 2 texels.
    fn painter() -> Painter {
        let mut delta = TexturesDelta::default();
        let texels = [Color32::WHITE, Color32::RED, Color32::GREEN, Color32::BLUE];
        let image = ColorImage::new([2, 2], texels.to_vec());
        delta.push(
            TextureId::default(),
            ImageDelta::full(image, TextureOptions::NEAREST),
        );
        let mut painter = Painter::default();
        painter.take(delta);
        painter
    }

    fn painted(mesh: Mesh, clip: Rect, pixels_per_point: f32) -> Vec<u32> {
        let mut pixels = vec![0x0010_2030; SIZE * SIZE];
        let mut canvas = Canvas {
            width: SIZE,
            pixels: &mut pixels,
        };
        let primitives = [ClippedPrimitive {
            clip_rect: clip,
            primitive: Primitive::Mesh(mesh),
        }];
        painter().paint(&primitives, pixels_per_point, &mut canvas);
        pixels
    }

    fn everywhere() -> Rect {
        Rect::from_min_max(Pos2::ZERO, Pos2::new(99.0, 99.0))
    }

    fn fan(color: Color32, points: &[[f32; 2]]) -> Mesh {
        let mut mesh = Mesh::default();
        for &[x, y] in points {
            mesh.vertices
                .push(Vertex::untextured(Pos2::new(x, y), color));
        }
        for i in 2..u32::try_from(points.len()).unwrap() {
            mesh.add_triangle(0, i - 1, i);
        }
        mesh
    }

    #[test]
    fn triangles_that_share_edges_cover_each_pixel_once() {
        // A fan around a point within, its edges at all angles and some through centres of pixels.
        let half = Color32::from_rgba_premultiplied(100, 50, 0, 128);
        let around = [
            [8.3, 7.1],
            [0.0, 0.0],
            [9.5, 0.0],
            [16.0, 0.0],
            [16.0, 4.5],
            [16.0, 16.0],
            [3.5, 16.0],
            [0.0, 16.0],
            [0.0, 0.0],
        ];
        let pixels = painted(fan(half, &around), everywhere(), 1.0);
        let once = over([100, 50, 0, 128], 0x0010_2030);
        assert!(pixels.iter().all(|&p| p == once), "{pixels:x?}");
    }

    #[test]
    fn nothing_outside_of_the_clip_or_the_window_is_painted() {
        let big = fan(
            Color32::WHITE,
            &[[-50.0, -50.0], [90.0, -50.0], [90.0, 90.0], [-50.0, 90.0]],
        );
        let clip = Rect::from_min_max(Pos2::new(1.0, 2.0), Pos2::new(3.0, 5.0));
        let pixels = painted(big, clip, 2.0);
        for (at, &pixel) in pixels.iter().enumerate() {
            let inside = (2..6).contains(&(at % SIZE)) && (4..10).contains(&(at / SIZE));
            assert_eq!(pixel == 0x00ff_ffff, inside, "{at}");
        }
        let odd = fan(
            Color32::WHITE,
            &[[f32::NAN, 0.0], [9.0, 0.0], [9.0, f32::INFINITY]],
        );
        assert!(
            painted(odd, everywhere(), 1.0)
                .iter()
                .all(|&p| p == 0x0010_2030)
        );
    }

    #[test]
    fn colours_change_along_a_triangle_and_textures_are_read_texel_by_texel() {
        let mut mesh = Mesh::default();
        mesh.add_rect_with_uv(
            Rect::from_min_max(Pos2::ZERO, Pos2::new(16.0, 16.0)),
            Rect::from_min_max(Pos2::ZERO, Pos2::new(1.0, 1.0)),
            Color32::WHITE,
        );
        let pixels = painted(mesh, everywhere(), 1.0);
        let at = |x: usize, y: usize| pixels[y * SIZE + x];
        let found = [at(3, 3), at(12, 3), at(3, 12), at(12, 12)];
        assert_eq!(found, [0x00ff_ffff, 0x00ff_0000, 0x0000_ff00, 0x0000_00ff]);

        let mut ramp = fan(
            Color32::BLACK,
            &[[0.0, 0.0], [16.0, 0.0], [16.0, 16.0], [0.0, 16.0]],
        );
        for right in [1, 2] {
            ramp.vertices[right].color = Color32::WHITE;
        }
        assert_eq!(ramp.vertices[0].uv, WHITE_UV);
        let pixels = painted(ramp, everywhere(), 1.0);
        let reds: Vec<u32> = pixels[..SIZE].iter().map(|p| p >> 16).collect();
        assert!(
            reds.is_sorted() && reds[0] < 16 && reds[15] > 239,
            "{reds:?}"
        );
        assert!(pixels.chunks(SIZE).all(|row| row == &pixels[..SIZE]));
    }

    #[test]
    fn what_egui_lays_out_is_painted() {
        let context = egui::Context::default();
        let mut painter = Painter::default();
        let (width, height) = (200, 100);
        let mut pixels = vec![0; width * height];
        let input = egui::RawInput {
            screen_rect: Some(Rect::from_min_max(Pos2::ZERO, Pos2::new(200.0, 100.0))),
            ..Default::default()
        };
        for _ in 0..2 {
            let output = context.run_ui(input.clone(), |ui| {
                ui.label("brick, ghost voxel, macrocell");
            });
            painter.take(output.textures_delta);
            let primitives = context.tessellate(output.shapes, 1.0);
            let mut canvas = Canvas {
                width,
                pixels: &mut pixels,
            };
            painter.paint(&primitives, 1.0, &mut canvas);
        }
        let lit = pixels.iter().filter(|&&p| p > 0x0060_6060).count();
        assert!((100..2000).contains(&lit), "{lit} pixels of letters");
    }
}

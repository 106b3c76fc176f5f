//! Where in a part of the picture something may be seen, and between which depths: boxes of visible macrocells, projected to tiles of
//! pixels. Rays begin and end there, or are not sent at all.
//!
//! Source: PARC (Silva 1995), whose polygons bound each ray on both sides.

use super::{
    field::{CELL_EDGE, Field},
    frame::Frame,
};
use crate::macrocells::SkipGrid;
use brickmesh_topology::{PixelRect, picture::grid_projection::GridProjection};
use glam::DVec3;

/// Edge of a tile, pixels.
pub(super) const TILE_PIXELS: u32 = 4;
/// Of fewer pixels for each box it takes longer to project these than rays would take to come there.
const PIXELS_OF_BOX: usize = 4;
/// Of more tiles for each pixel that all boxes lie in, as they do around the eye, too.
const TILES_OF_PIXEL: usize = 4;
/// By which boxes are enlarged: more than rounding moves a ray, and half of a voxel that is alone on an axis.
const SLACK_VOXELS: f64 = 1.0;
/// Rounding of a sample's place, as a part of the farthest coordinate.
const PLACE_ROUNDING: f64 = 4e-7;
/// Part of its least depth from which on a tile's surfaces are looked for.
const SLACK_PART: f64 = 1.0 - 1e-9;
/// By which the samples of a tile begin earlier and end later: for jitter, segments and rounding.
const SLACK_SAMPLES: f64 = 3.0;

/// Depths between which there is nothing.
const NOWHERE: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];

/// See the module.
#[derive(Debug)]
pub(super) struct VisibleTiles {
    rect: PixelRect,
    /// Tiles in a row.
    columns: u32,
    /// Least and greatest depth in each, as [`GridProjection`] has it; [`NOWHERE`] where nothing is seen.
    depths: Vec<[f64; 2]>,
    /// By how much the lengths of a tile's rays at depth 1 differ, at most.
    length_span: f64,
}

impl VisibleTiles {
    /// Of what of a field is visible in these pixels; `None`: rays are to look for themselves.
    pub(super) fn new(
        frame: &Frame,
        field: &Field<'_>,
        skip: &SkipGrid,
        rect: PixelRect,
    ) -> Option<Self> {
        let boxes = skip.visible_boxes();
        if frame.slice.is_some() || boxes.len() > rect.pixel_count() / PIXELS_OF_BOX {
            return None;
        }
        let [first, last] = field
            .stored()
            .map(|voxel| DVec3::from_array(voxel.map(f64::from)));
        let farthest = frame.start[0].abs().max(last.abs()).max_element();
        if farthest * PLACE_ROUNDING > SLACK_VOXELS / 2.0 {
            return None;
        }
        let projection = GridProjection::new(&frame.view, &frame.volume);
        let columns = rect.width.div_ceil(TILE_PIXELS);
        let tiles = columns as usize * rect.height.div_ceil(TILE_PIXELS) as usize;
        let mut depths = vec![NOWHERE; tiles];
        let mut met = 0;
        for &[lo, hi] in boxes {
            let at = |cells: [u32; 3]| {
                first + DVec3::from_array(cells.map(|c| f64::from(c * CELL_EDGE)))
            };
            let ends = [at(lo) - SLACK_VOXELS, at(hi) + SLACK_VOXELS];
            let seen = projection.rect_and_depths_of(ends);
            let seen = seen.and_then(|(seen, depths)| Some((seen.intersection(&rect)?, depths)));
            let Some((seen, [near, far])) = seen else {
                continue;
            };
            // Depth is no distance there.
            let [near, far] = match frame.view.parallel {
                Some(_) => [0.0, f64::INFINITY],
                None => [near, far],
            };
            let [left, top] = [seen.x - rect.x, seen.y - rect.y];
            for row in top / TILE_PIXELS..(top + seen.height).div_ceil(TILE_PIXELS) {
                let tiles = (row * columns) as usize;
                let [from, to] = [
                    left / TILE_PIXELS,
                    (left + seen.width).div_ceil(TILE_PIXELS),
                ];
                met += (to - from) as usize;
                for [least, most] in &mut depths[tiles + from as usize..tiles + to as usize] {
                    *least = if near < *least { near } else { *least };
                    *most = if far > *most { far } else { *most };
                }
            }
        }
        if met > rect.pixel_count() * TILES_OF_PIXEL {
            return None;
        }
        let [_, right, down] = frame.rays.along;
        let of_tile = |side: DVec3, pixels: u32| {
            2.0 * side.length() * f64::from(TILE_PIXELS) / f64::from(pixels)
        };
        let length_span = of_tile(right, frame.view.width) + of_tile(down, frame.view.height);
        Some(Self {
            rect,
            columns,
            depths,
            length_span,
        })
    }

    /// From where on a pixel's ray may meet something, world units; infinite: nowhere.
    #[inline(always)]
    pub(super) fn near(&self, frame: &Frame, [x, y]: [u32; 2]) -> f64 {
        let [near, _] = self.depths_at([x, y]);
        if near == f64::INFINITY {
            near
        } else {
            near * SLACK_PART * frame.along(x, y).length()
        }
    }

    /// The first sample that may be seen in pixels that lie in one tile, and the one after the last; `None`: nothing is seen there.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    pub(super) fn samples(&self, frame: &Frame, pixels: &PixelRect) -> Option<[f32; 2]> {
        let [near, far] = self.depths_at([pixels.x, pixels.y]);
        if near > far {
            return None;
        }
        let length = frame.along(pixels.x, pixels.y).length();
        let [shortest, longest] = [length - self.length_span, length + self.length_span];
        let first = near * shortest.max(0.0) / frame.step - SLACK_SAMPLES;
        let end = far * longest / frame.step + SLACK_SAMPLES;
        Some([first.floor() as f32, end.ceil() as f32])
    }

    #[inline(always)]
    fn depths_at(&self, [x, y]: [u32; 2]) -> [f64; 2] {
        let tile = (y - self.rect.y) / TILE_PIXELS * self.columns + (x - self.rect.x) / TILE_PIXELS;
        self.depths[tile as usize]
    }
}

//! Where in a part of the picture isosurfaces may be met, and from how far on: boxes of macrocells that may have one, projected to
//! tiles of pixels. Rays begin there, or are not sent at all.
//!
//! Source: PARC (Silva 1995), whose polygons bound each ray on both sides; here the far side bounds nothing, as rays end where they are
//! opaque.

use super::{
    field::{CELL_EDGE, Field},
    frame::Frame,
};
use brickmesh_topology::{PixelRect, picture::grid_projection::GridProjection};
use glam::DVec3;

/// Edge of a tile, pixels.
const TILE: u32 = 4;
/// Of fewer pixels for each box it takes longer to project these than rays would take to come there.
const PIXELS_OF_BOX: usize = 4;
/// By which boxes are enlarged: more than rounding moves a ray, and half of a voxel that is alone on an axis.
const SLACK_VOXELS: f64 = 1.0;
/// The same, of the distance.
const SLACK_PART: f64 = 1.0 - 1e-9;

/// See the module.
#[derive(Debug)]
pub(super) struct SurfaceTiles {
    rect: PixelRect,
    /// Tiles in a row.
    columns: u32,
    /// Least depth in each, as [`GridProjection`] has it; infinite where there is nothing.
    depths: Vec<f64>,
}

impl SurfaceTiles {
    /// Of the surfaces of a field in these pixels; `None`: rays are to look for themselves.
    pub(super) fn new(frame: &Frame, field: &Field<'_>, rect: PixelRect) -> Option<Self> {
        let is_plain = field.triangles.is_none() && frame.slice.is_none();
        let skip = field.skip_for_surfaces.filter(|_| is_plain)?;
        let boxes = skip.visible_boxes();
        if !field.may_have_surfaces(frame) || boxes.len() > rect.pixel_count() / PIXELS_OF_BOX {
            return None;
        }
        let [first, _] = field
            .stored()
            .map(|voxel| DVec3::from_array(voxel.map(f64::from)));
        let projection = GridProjection::new(&frame.view, &frame.volume);
        let columns = rect.width.div_ceil(TILE);
        let tiles = columns as usize * rect.height.div_ceil(TILE) as usize;
        let mut depths = vec![f64::INFINITY; tiles];
        for &[lo, hi] in boxes {
            let at = |cells: [u32; 3]| {
                first + DVec3::from_array(cells.map(|c| f64::from(c * CELL_EDGE)))
            };
            let ends = [at(lo) - SLACK_VOXELS, at(hi) + SLACK_VOXELS];
            let seen = projection.rect_and_depth_of(ends);
            let seen = seen.and_then(|(seen, depth)| Some((seen.intersection(&rect)?, depth)));
            let Some((seen, depth)) = seen else { continue };
            // All depths are equal there.
            let depth = if frame.view.parallel.is_some() {
                0.0
            } else {
                depth
            };
            let [left, top] = [seen.x - rect.x, seen.y - rect.y];
            for row in top / TILE..(top + seen.height).div_ceil(TILE) {
                let tiles = (row * columns) as usize;
                let [from, to] = [left / TILE, (left + seen.width).div_ceil(TILE)];
                for least in &mut depths[tiles + from as usize..tiles + to as usize] {
                    *least = if depth < *least { depth } else { *least };
                }
            }
        }
        Some(Self {
            rect,
            columns,
            depths,
        })
    }

    /// From where on a pixel's ray may meet surfaces, world units; infinite: nowhere.
    #[inline(always)]
    pub(super) fn near(&self, frame: &Frame, [x, y]: [u32; 2]) -> f64 {
        let tile = (y - self.rect.y) / TILE * self.columns + (x - self.rect.x) / TILE;
        let depth = self.depths[tile as usize];
        if depth == f64::INFINITY {
            depth
        } else {
            depth * SLACK_PART * frame.along(x, y).length()
        }
    }
}

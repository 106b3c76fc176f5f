//! The part of a field that a brick stores, as the kernels address it.
//!
//! Space: grid (voxels); voxel indices count from the first stored voxel, x fastest.
//! Invariant: whatever the position, the voxels addressed are stored ones: a brick without the
//! ghosts that it should have gives a wrong picture, never a read beyond it.

use super::{
    frame::Frame,
    ray::{Bounds, Ray},
    visible_tiles::VisibleTiles,
};
use crate::{brick::BrickVoxels, macrocells::SkipGrid, triangle_tree::TriangleTree};
use brickmesh_topology::{VolumeDescription, VoxelBox, VoxelNumbers};
use glam::DVec3;

/// Edge of this device's macrocells. Against the usual 8 it saves a fifth of the time on thin
/// shells, and costs 5 % of the voxels' memory instead of 1 %.
pub(super) const CELL_EDGE: u32 = 1 << CELL_SHIFT;
/// Binary logarithm of [`CELL_EDGE`].
pub(super) const CELL_SHIFT: u32 = 2;

/// A brick's bytes and where they lie, for one job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) bytes: &'a [u8],
    /// What the stored voxels stand for.
    pub(super) numbers: VoxelNumbers,
    /// Stored voxels on each axis.
    pub(super) size: [usize; 3],
    /// Voxels from one to its upper neighbour on each axis; 0 where there is one only.
    pub(super) stride: [usize; 3],
    /// First stored voxel.
    pub(super) first: [f32; 3],
    /// Last stored voxel.
    pub(super) last: [f32; 3],
    /// Last stored voxel that a cell can begin at.
    pub(super) last_cell: [f32; 3],
    /// Which samples are worth a look.
    pub(super) bounds: Bounds,
    /// Cells that may have a surface, by their first voxels: half-open, not clipped.
    pub(super) cells: [[i32; 3]; 2],
    /// The macrocells to skip; `None`: take every sample.
    pub(super) skip: Option<&'a SkipGrid>,
    /// The same for surfaces.
    pub(super) skip_for_surfaces: Option<&'a SkipGrid>,
    /// Where these may be met, where that is known.
    pub(super) surface_tiles: Option<&'a VisibleTiles>,
    /// Where samples may be seen, where that is known.
    pub(super) sample_tiles: Option<&'a VisibleTiles>,
    /// Whether the volume has one voxel on an axis.
    is_thin: [bool; 3],
    /// The brick's triangles, where some are seen.
    pub(super) triangles: Option<&'a TriangleTree>,
    /// Points whose triangles are seen, half-open.
    pub(super) points: [DVec3; 2],
}

impl<'a> Field<'a> {
    pub(super) fn new(
        brick: &'a BrickVoxels,
        volume: &VolumeDescription,
        owned: &VoxelBox,
        clip: Option<[[f64; 3]; 2]>,
        skip: Option<&'a SkipGrid>,
    ) -> Self {
        let stored = brick.stored();
        let size = stored.size().map(|n| n as usize);
        let strides = [1, size[0], size[0] * size[1]];
        let (mut lo, mut hi) = owned.owned_points(volume.dims);
        let points = [lo, hi].map(|end| DVec3::from_array(end.map(f64::from)));
        if skip.is_some_and(|skip| skip.visible().is_none()) {
            hi = lo;
        }
        if let Some((grid, [first, end])) = skip.and_then(|s| s.visible().map(|v| (s, v))) {
            for a in 0..3 {
                let edge_at = |cell: u32| (stored.lo[a] + cell * CELL_EDGE) as f32;
                // The first and last macrocells own what lies before and after them, too.
                if first[a] > 0 {
                    lo[a] = lo[a].max(edge_at(first[a]));
                }
                if end[a] < grid.counts()[a] {
                    hi[a] = hi[a].min(edge_at(end[a]));
                }
            }
        }
        let skip_for_surfaces = skip.map(SkipGrid::of_surfaces);
        Self {
            bytes: brick.bytes(),
            numbers: *brick.numbers(),
            size,
            stride: std::array::from_fn(|a| if size[a] > 1 { strides[a] } else { 0 }),
            first: stored.lo.map(|v| v as f32),
            last: stored.hi.map(|v| (v - 1) as f32),
            last_cell: std::array::from_fn(|a| {
                stored.hi[a].saturating_sub(2).max(stored.lo[a]) as f32
            }),
            bounds: Bounds::new(lo, hi).within(clip),
            cells: surface_bounds(owned, volume, &stored, skip_for_surfaces),
            skip,
            skip_for_surfaces,
            surface_tiles: None,
            sample_tiles: None,
            is_thin: volume.dims.map(|n| n == 1),
            triangles: None,
            points,
        }
    }

    /// The same with triangles.
    pub(super) fn with_triangles(self, triangles: Option<&'a TriangleTree>) -> Self {
        Self { triangles, ..self }
    }

    /// The ray of a pixel, and whether it may meet surfaces.
    #[inline(always)]
    pub(super) fn ray(&self, frame: &Frame, [x, y]: [u32; 2]) -> (Ray, bool) {
        let mut ray = frame.ray(x, y);
        if let Some(tiles) = self.surface_tiles {
            ray.exact.near = tiles.near(frame, [x, y]);
        }
        (ray, ray.exact.near < f64::INFINITY)
    }

    /// First and last stored voxel.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole numbers of a grid's axis"
    )]
    pub(super) fn stored(&self) -> [[i32; 3]; 2] {
        [self.first, self.last].map(|end| end.map(|v| v as i32))
    }

    /// Where the faces of cells are on an axis, from the voxel that they are named after.
    pub(super) fn face_offset(&self, axis: usize) -> f64 {
        if self.is_thin[axis] { -0.5 } else { 0.0 }
    }

    /// A box of voxels whose points hold [`Self::bounds`], to find the pixels that see them;
    /// `None` where no sample can be inside.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounds are between 0 and dims"
    )]
    pub(super) fn visible_box(&self) -> Option<VoxelBox> {
        let Bounds { lo, hi } = self.bounds;
        (0..3).all(|a| lo[a] < hi[a]).then(|| VoxelBox {
            lo: lo.map(|v| v as u32),
            hi: hi.map(|v| v.ceil() as u32),
        })
    }
}

/// The cells of a job that may have a surface, half-open.
fn surface_bounds(
    owned: &VoxelBox,
    volume: &VolumeDescription,
    stored: &VoxelBox,
    skip: Option<&SkipGrid>,
) -> [[i32; 3]; 2] {
    let [mut lo, mut hi] = owned.owned_cells(volume.dims);
    if let Some(skip) = skip {
        let [first, end] = skip.visible().unwrap_or_default();
        for a in 0..3 {
            lo[a] = lo[a].max(stored.lo[a] + first[a] * CELL_EDGE);
            hi[a] = hi[a].min(stored.lo[a] + end[a] * CELL_EDGE);
        }
    }
    [lo, hi].map(|end| end.map(u32::cast_signed))
}

//! A brick in device memory: its image, and under the current transfer function, what of it can
//! be seen.

use super::{
    gpu::{Explain, Gpu},
    upload::upload,
    voxel_image::VoxelImageKind,
};
use crate::{
    brick::BrickVoxels,
    device::DeviceError,
    macrocells::{Macrocells, SkipGrid, VisibleValues},
};
use brickmesh_topology::VoxelBox;
use std::sync::Arc;
use vulkano::{
    format::Format,
    image::{ImageType, view::ImageView},
};

/// A brick in device memory.
#[derive(Debug)]
pub(super) struct ResidentBrick {
    pub(super) owned: VoxelBox,
    pub(super) stored: VoxelBox,
    pub(super) kind: VoxelImageKind,
    pub(super) view: Arc<ImageView>,
    /// Device memory that the voxels take; the leaps, 1/512 of a byte a voxel, are not counted.
    pub(super) image_bytes: u64,
    cells: Macrocells,
    /// With the number of the table that it was worked out for.
    visibility: Option<(u64, Visibility)>,
}

/// What a transfer function shows of a brick.
#[derive(Clone, Debug)]
pub(super) enum Visibility {
    /// Nothing.
    Nothing,
    /// Every macrocell.
    Everything,
    /// Some: how far rays may leap, per macrocell.
    Some(Arc<ImageView>),
}

impl ResidentBrick {
    /// Takes a brick into device memory if that takes at most `room` bytes; else gives, as the
    /// inner error, the bytes that it would take.
    pub(super) fn load(
        gpu: &Gpu,
        kind: VoxelImageKind,
        voxels: &BrickVoxels,
        room: u64,
    ) -> Result<Result<Self, u64>, DeviceError> {
        // Before anything is allocated: the driver's own rounding is looked at below.
        let least = voxels.stored().voxel_count() * kind.texel_bytes() as u64;
        if least > room {
            return Ok(Err(least));
        }
        let image = gpu.image(kind.format, ImageType::Dim3d, voxels.stored().size())?;
        let requirements = image.memory_requirements();
        let image_bytes = requirements.iter().map(|r| r.layout.size()).sum();
        if image_bytes > room {
            return Ok(Err(image_bytes));
        }
        upload(gpu, &image, kind.texel_bytes(), |first, out| {
            kind.write(voxels.bytes(), first, out);
        })?;
        Ok(Ok(Self {
            owned: voxels.owned(),
            stored: voxels.stored(),
            view: ImageView::new_default(image).explain("viewing a brick")?,
            kind,
            image_bytes,
            cells: Macrocells::of(voxels),
            visibility: None,
        }))
    }

    /// What `values` lets see of it; kept while `table_number` is the same.
    pub(super) fn visibility(
        &mut self,
        gpu: &Gpu,
        values: &VisibleValues,
        table_number: u64,
    ) -> Result<Visibility, DeviceError> {
        if let Some((number, known)) = &self.visibility
            && *number == table_number
        {
            return Ok(known.clone());
        }
        let grid = SkipGrid::new(&self.cells, values);
        let cells = self.cells.ranges().len();
        let found = if grid.visible().is_none() {
            Visibility::Nothing
        } else if grid.distances()[..cells].iter().all(|&d| d == 0) {
            Visibility::Everything
        } else {
            Visibility::Some(upload_leaps(gpu, grid.counts(), grid.distances())?)
        };
        self.visibility = Some((table_number, found.clone()));
        Ok(found)
    }
}

/// Distances to the next visible macrocell as an image of whole numbers, a texel per macrocell.
pub(super) fn upload_leaps(
    gpu: &Gpu,
    counts: [u32; 3],
    distances: &[u8],
) -> Result<Arc<ImageView>, DeviceError> {
    let image = gpu.image(Format::R8_UINT, ImageType::Dim3d, counts)?;
    upload(gpu, &image, 1, |first, out| {
        out.copy_from_slice(&distances[first..first + out.len()]);
    })?;
    ImageView::new_default(image).explain("viewing macrocells")
}

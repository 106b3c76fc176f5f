//! Bricks in device memory: the image of each, and under the current transfer function, what of it
//! can be seen.
//!
//! The bricks of a data set have an allocator of their own, which goes with the last of them: the
//! device has its blocks back for another data set, whose bricks may be of another size.

use super::{
    explain::Explain,
    gpu::{Gpu, image_measure},
    memory::{block_bytes_taken, brick_block_bytes},
    upload::Uploads,
    voxel_image::VoxelImageKind,
};
use crate::{
    brick::BrickVoxels,
    constants::CELL_EDGE,
    device::{DeviceError, preparation::BrickCells},
    macrocells::{VisibleValues, macrocell_counts},
    triangle_tree::TriangleTree,
};
use brickmesh_topology::{BrickIndex, VoxelBox};
use std::{collections::BTreeMap, sync::Arc};
use vulkano::{
    format::Format,
    image::{Image, ImageMemory, ImageType, view::ImageView},
    memory::allocator::StandardMemoryAllocator,
};

/// Format of the images of trees of triangles, and texels in a row, at most.
const TREE_FORMAT: Format = Format::R32G32B32A32_UINT;
pub(super) const TREE_ROW: usize = 2048;
/// Format of the images of leaps.
const LEAPS_FORMAT: Format = Format::R32_UINT;

/// The bricks of a data set in device memory.
#[derive(Debug)]
pub(super) struct ResidentSet {
    memory: Arc<StandardMemoryAllocator>,
    bricks: BTreeMap<BrickIndex, ResidentBrick>,
    /// Bytes of their images, and how many of these lie outside of the allocator's blocks.
    image_bytes: u64,
    dedicated_bytes: u64,
}

/// A brick in device memory.
#[derive(Debug)]
pub(super) struct ResidentBrick {
    pub(super) owned: VoxelBox,
    pub(super) stored: VoxelBox,
    pub(super) kind: VoxelImageKind,
    pub(super) view: Arc<ImageView>,
    /// Device memory that its images take, in bytes.
    pub(super) image_bytes: u64,
    /// How much of that lies outside of the allocator's blocks.
    dedicated_bytes: u64,
    /// How far rays may leap, per macrocell; filled for a transfer function that shows some.
    leaps: Arc<ImageView>,
    /// Where its triangles are, if it has some.
    pub(super) tree: Option<Arc<ImageView>>,
    cells: BrickCells,
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

impl ResidentSet {
    /// No bricks yet; those of all data sets may take `memory_bytes`.
    pub(super) fn new(gpu: &Gpu, memory_bytes: u64) -> Self {
        Self {
            memory: gpu.allocator(brick_block_bytes(memory_bytes)),
            bricks: BTreeMap::new(),
            image_bytes: 0,
            dedicated_bytes: 0,
        }
    }

    /// Whether no brick is there.
    pub(super) fn is_empty(&self) -> bool {
        self.bricks.is_empty()
    }

    /// A brick.
    pub(super) fn get(&self, brick: BrickIndex) -> Option<&ResidentBrick> {
        self.bricks.get(&brick)
    }

    /// A brick, to look at what can be seen of it.
    pub(super) fn get_mut(&mut self, brick: BrickIndex) -> Option<&mut ResidentBrick> {
        self.bricks.get_mut(&brick)
    }

    /// Frees a brick.
    pub(super) fn remove(&mut self, brick: BrickIndex) {
        if let Some(freed) = self.bricks.remove(&brick) {
            self.image_bytes -= freed.image_bytes;
            self.dedicated_bytes -= freed.dedicated_bytes;
        }
    }

    /// Bytes that its bricks take.
    pub(super) fn image_bytes(&self) -> u64 {
        self.image_bytes
    }

    /// Bytes that the device does not have for others.
    pub(super) fn taken_bytes(&self) -> u64 {
        block_bytes_taken(&self.memory) + self.dedicated_bytes
    }

    /// Takes a brick into device memory if that takes at most `room` bytes; else gives, as the
    /// inner error, the bytes that it would take.
    pub(super) fn load(
        &mut self,
        (gpu, uploads): (&Gpu, &mut Uploads),
        brick: BrickIndex,
        kind: VoxelImageKind,
        prepared: (&BrickVoxels, BrickCells, Option<&TriangleTree>),
        room: u64,
    ) -> Result<Result<(), u64>, DeviceError> {
        let loaded = ResidentBrick::load((gpu, uploads), &self.memory, kind, prepared, room)?;
        Ok(loaded.map(|loaded| {
            self.remove(brick);
            self.image_bytes += loaded.image_bytes;
            self.dedicated_bytes += loaded.dedicated_bytes;
            self.bricks.insert(brick, loaded);
        }))
    }
}

impl ResidentBrick {
    fn load(
        (gpu, uploads): (&Gpu, &mut Uploads),
        memory: &Arc<StandardMemoryAllocator>,
        kind: VoxelImageKind,
        (voxels, cells, tree): (&BrickVoxels, BrickCells, Option<&TriangleTree>),
        room: u64,
    ) -> Result<Result<Self, u64>, DeviceError> {
        // Before anything is allocated: the driver's own rounding is looked at below.
        let words = tree.map_or(0, TriangleTree::word_count) * size_of::<[u32; 4]>();
        let least = voxels.stored().voxel_count() * kind.texel_bytes() as u64 + words as u64;
        if least > room {
            return Ok(Err(least));
        }
        let size = voxels.stored().size();
        let image = Gpu::image_in(memory, kind.format, ImageType::Dim3d, size)?;
        let leaps = leaps_extent(cells.cells().counts());
        let leaps = Gpu::image_in(memory, LEAPS_FORMAT, ImageType::Dim3d, leaps)?;
        let words = tree.map(TriangleTree::words);
        let tree = words.as_ref().map(|w| tree_image(memory, w)).transpose()?;
        let images = [Some(&image), Some(&leaps), tree.as_ref()];
        let images = images.iter().flatten();
        let image_bytes: u64 = images.clone().map(|i| bytes(i)).sum();
        if image_bytes > room {
            return Ok(Err(image_bytes));
        }
        uploads.add(gpu, &image, kind.texel_bytes(), |first, out| {
            kind.write(voxels, first, out);
        })?;
        if let (Some(words), Some(image)) = (&words, &tree) {
            upload_words((gpu, uploads), image, words)?;
        }
        Ok(Ok(Self {
            owned: voxels.owned(),
            stored: voxels.stored(),
            dedicated_bytes: images.map(|i| dedicated_bytes(i)).sum(),
            view: ImageView::new_default(image).explain("viewing a brick")?,
            leaps: ImageView::new_default(leaps).explain("viewing macrocells")?,
            tree: (tree.map(ImageView::new_default).transpose()).explain("viewing triangles")?,
            kind,
            image_bytes,
            cells,
            visibility: None,
        }))
    }

    /// What `values` lets see of it; kept while `table_number` is the same.
    pub(super) fn visibility(
        &mut self,
        (gpu, uploads): (&Gpu, &mut Uploads),
        values: &Arc<VisibleValues>,
        table_number: u64,
    ) -> Result<Visibility, DeviceError> {
        if let Some((number, known)) = &self.visibility
            && *number == table_number
        {
            return Ok(known.clone());
        }
        let grid = self.cells.take_shown(values);
        let cells = self.cells.cells().ranges().len();
        let found = if grid.visible().is_none() && self.tree.is_none() {
            Visibility::Nothing
        } else if grid.distances()[..cells].iter().all(|&d| d == 0) {
            Visibility::Everything
        } else {
            upload_leaps(
                (gpu, uploads),
                self.leaps.image(),
                self.cells.cells().counts(),
                &grid.packed_distances(),
            )?;
            Visibility::Some(self.leaps.clone())
        };
        self.visibility = Some((table_number, found.clone()));
        Ok(found)
    }
}

/// Texels on each axis for so many macrocells: never a power of two, of which drivers that compile on
/// the processor (Mesa's) make a kernel of their own on each axis, while a picture waits.
fn leaps_extent(counts: [u32; 3]) -> [u32; 3] {
    counts.map(|n| match n {
        1 => 3,
        n => n + u32::from(n.is_power_of_two()),
    })
}

/// [`packed_distances`](crate::macrocells::SkipGrid::packed_distances) as an image of whole numbers, a texel per macrocell;
/// texels beyond `counts` repeat the last ones.
fn upload_leaps(
    (gpu, uploads): (&Gpu, &mut Uploads),
    image: &Arc<Image>,
    counts: [u32; 3],
    distances: &[u32],
) -> Result<(), DeviceError> {
    let extent = image.extent().map(|n| n as usize);
    let last = counts.map(|n| n as usize - 1);
    let texel_bytes = size_of::<u32>();
    uploads.add(gpu, image, texel_bytes, |first, out| {
        for (texel, out) in (first..).zip(out.chunks_exact_mut(texel_bytes)) {
            let row = texel / extent[0];
            let at = [texel % extent[0], row % extent[1], row / extent[1]];
            let [x, y, z] = std::array::from_fn(|a| at[a].min(last[a]));
            let distance = distances[(z * (last[1] + 1) + y) * (last[0] + 1) + x];
            out.copy_from_slice(&distance.to_ne_bytes());
        }
    })
}

/// An image for so many words of a tree.
fn tree_image(
    memory: &Arc<StandardMemoryAllocator>,
    words: &[[u32; 4]],
) -> Result<Arc<Image>, DeviceError> {
    let width = words.len().min(TREE_ROW);
    let size = [width, words.len().div_ceil(width), 1];
    let size = size.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Gpu::image_in(memory, TREE_FORMAT, ImageType::Dim2d, size)
}

/// Fills the image of a tree.
fn upload_words(
    (gpu, uploads): (&Gpu, &mut Uploads),
    image: &Arc<Image>,
    words: &[[u32; 4]],
) -> Result<(), DeviceError> {
    let texel_bytes = size_of::<[u32; 4]>();
    uploads.add(gpu, image, texel_bytes, |first, out| {
        let bytes: &[u8] = bytemuck::cast_slice(&words[first.min(words.len())..]);
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        out[count..].fill(0);
    })
}

/// A tree without triangles, for kernels that have a binding for one.
pub(super) fn no_tree(gpu: &Gpu, uploads: &mut Uploads) -> Result<Arc<ImageView>, DeviceError> {
    let image = gpu.image(TREE_FORMAT, ImageType::Dim2d, [1; 3])?;
    upload_words((gpu, uploads), &image, &[[0; 4]])?;
    ImageView::new_default(image).explain("viewing triangles")
}

/// Leaps of one macrocell, for kernels that have a binding for leaps and do not leap.
pub(super) fn no_leaps(gpu: &Gpu, uploads: &mut Uploads) -> Result<Arc<ImageView>, DeviceError> {
    let image = gpu.image(LEAPS_FORMAT, ImageType::Dim3d, leaps_extent([1; 3]))?;
    upload_leaps((gpu, uploads), &image, [1; 3], &[0])?;
    ImageView::new_default(image).explain("viewing macrocells")
}

/// What says how many bytes the images of a brick of so many voxels on each axis take.
pub(super) fn brick_measure(
    gpu: &Gpu,
) -> impl Fn(&VoxelImageKind, [u32; 3]) -> Option<u64> + Send + Sync + 'static + use<> {
    let measure = image_measure(gpu);
    move |kind, size| {
        let leaps = leaps_extent(macrocell_counts(size, CELL_EDGE));
        let images = [(kind.format, size), (LEAPS_FORMAT, leaps)];
        let bytes = images.map(|(format, size)| measure(format, ImageType::Dim3d, size));
        bytes.into_iter().sum()
    }
}

/// Bytes that an image takes, as the driver rounds them.
fn bytes(image: &Image) -> u64 {
    let requirements = image.memory_requirements();
    requirements.iter().map(|r| r.layout.size()).sum()
}

/// Bytes of the image's memory that it has to itself, outside of blocks.
fn dedicated_bytes(image: &Image) -> u64 {
    let ImageMemory::Normal(memory) = image.memory() else {
        return 0;
    };
    let alone = memory
        .iter()
        .filter(|m| m.size() == m.device_memory().allocation_size());
    alone.map(|m| m.size()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_the_numbers_of_trees() {
        use crate::triangle_tree::{HITS_MAX, STACK};
        use brickmesh_topology::data::triangles::MATERIALS_MAX;
        let kernel = include_str!("../../../wgsl/triangles.wgsl");
        let scene = include_str!("../../../wgsl/raycast.wgsl");
        let has = |text: &str, words: String| assert!(text.contains(&words), "{words}");
        has(
            kernel,
            format!("at & {}u, at >> {}u", TREE_ROW - 1, TREE_ROW.ilog2()),
        );
        has(kernel, format!("TRIANGLE_STACK: u32 = {STACK}u"));
        has(kernel, format!("array<u32, {STACK}>"));
        has(kernel, format!("TRIANGLE_HITS: u32 = {HITS_MAX}u"));
        has(
            kernel,
            format!("min(triangle_material, {}u)", MATERIALS_MAX - 1),
        );
        has(
            scene,
            format!("materials: array<vec4<f32>, {MATERIALS_MAX}>"),
        );
    }

    #[test]
    fn images_of_leaps_have_a_texel_per_macrocell_and_are_never_a_power_of_two() {
        for n in 1..200 {
            let [texels, ..] = leaps_extent([n; 3]);
            assert!(texels >= n && texels <= n.max(2) + 1 && !texels.is_power_of_two());
        }
    }
}

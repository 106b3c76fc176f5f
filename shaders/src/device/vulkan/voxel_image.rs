//! How a device stores each voxel type as an image, and whether its sampler filters finely enough.
//!
//! Invariant: full precision. Stored integers come back exactly at voxel centres, and a filtered
//! value is off by at most 1/4096 of the type's range: real devices often weigh neighbours in
//! steps of 1/256 only, and llvmpipe filters 8-bit images in 8 bits; there the kernel loads the
//! eight neighbours and interpolates in f32.
//!
//! Rule: a type is stored in the smallest image that the sampler filters precisely, if that is at
//! most twice the type's size; else in its own size with the kernel's interpolation. On llvmpipe
//! (Mesa 22.3, two cores, 256³ u8, 512², step 1) a frame takes 410 ms by eight loads from R8 and
//! 230 ms by the sampler from R16, shaded 2280 and 880: worth the memory, which is the host's.
//! Only the first bricks are widened, up to [`WIDE_BYTES_MAX`]: large volumes keep to their own
//! size. GPUs whose weights have 8 bits are coarse whatever the format, so that they keep R8.

use super::{
    explain::Explain,
    gpu::{Gpu, Home, dispatch},
    kernels,
    upload::upload,
};
use crate::{brick::BrickVoxels, device::DeviceError};
use brickmesh_topology::{VoxelNumbers, VoxelType};
use std::sync::Arc;
use vulkano::{
    buffer::BufferUsage,
    descriptor_set::WriteDescriptorSet,
    device::physical::PhysicalDevice,
    format::{Format, FormatFeatures},
    image::{ImageType, sampler::Sampler, view::ImageView},
};

/// Largest error of a filtered value, relative to the range, for which the sampler is used.
const FILTER_ERROR_MAX: f32 = 1.0 / 4096.0;
/// Fractions at which the sampler is tried; as in `wgsl/probe.wgsl`.
const PROBES: u16 = 1024;

/// How the voxels of one type are stored.
#[derive(Clone, Debug)]
pub(super) struct VoxelImageKind {
    pub(super) format: Format,
    /// Whether the linear sampler is precise enough.
    pub(super) by_sampler: bool,
    /// Number = what the image gives · scale + offset.
    pub(super) scale: f64,
    /// See `scale`.
    pub(super) offset: f64,
    voxel: VoxelType,
}

impl VoxelImageKind {
    /// Whether all numbers are whole ones.
    pub(super) fn is_whole(&self) -> bool {
        self.voxel != VoxelType::F32
    }
}

/// Device memory up to which bricks are stored in wider images than their own: beyond it, memory is
/// worth more than speed.
pub(super) const WIDE_BYTES_MAX: u64 = 256 << 20;

/// The error of the linear sampler, relative to the range; `None` where it cannot filter.
pub(super) type FilterError = Option<f32>;

/// Scale and offset that make a stored number of what an image of `format` gives.
fn numbers(format: Format, voxel: VoxelType) -> (f64, f64) {
    match (format, voxel) {
        (Format::R8_UNORM | Format::R16_UNORM, VoxelType::I8) => (255.0, -128.0),
        (Format::R8_UNORM | Format::R16_UNORM, VoxelType::U8) => (255.0, 0.0),
        (Format::R16_UNORM, VoxelType::I16) => (65_535.0, -32_768.0),
        (Format::R16_UNORM, _) => (65_535.0, 0.0),
        _ => (1.0, 0.0),
    }
}

impl VoxelImageKind {
    /// The ways for all types, see [`Self::choose`].
    pub(super) fn choose_all(
        gpu: &Gpu,
        sampler: Option<&Arc<Sampler>>,
    ) -> Result<Vec<(VoxelType, Self)>, DeviceError> {
        [
            VoxelType::U8,
            VoxelType::I8,
            VoxelType::U16,
            VoxelType::I16,
            VoxelType::F32,
        ]
        .into_iter()
        .map(|voxel| Ok((voxel, Self::choose(gpu, sampler, voxel)?)))
        .collect()
    }

    /// Whether images are wider than the type.
    pub(super) fn is_wide(&self) -> bool {
        self.texel_bytes() > self.voxel.bytes()
    }

    /// This way without widening, where the device has such images: interpolated by the kernel.
    pub(super) fn narrowed(&self, gpu: &Gpu) -> Option<Self> {
        let format = match self.voxel {
            VoxelType::U8 | VoxelType::I8 => Format::R8_UNORM,
            VoxelType::U16 | VoxelType::I16 => Format::R16_UNORM,
            VoxelType::F32 => return None,
        };
        let (scale, offset) = numbers(format, self.voxel);
        samples(gpu.physical(), format).then_some(Self {
            format,
            by_sampler: false,
            scale,
            offset,
            voxel: self.voxel,
        })
    }

    /// The way for `voxel` on this device, tried out; without a `sampler`, the kernel's
    /// interpolation.
    fn choose(
        gpu: &Gpu,
        sampler: Option<&Arc<Sampler>>,
        voxel: VoxelType,
    ) -> Result<Self, DeviceError> {
        let candidates: &[Format] = match voxel {
            VoxelType::U8 | VoxelType::I8 => &[Format::R8_UNORM, Format::R16_UNORM],
            VoxelType::U16 | VoxelType::I16 => &[Format::R16_UNORM],
            VoxelType::F32 => &[],
        };
        let mut choice = None;
        for &format in candidates.iter().chain(&[Format::R32_SFLOAT]) {
            if !samples(gpu.physical(), format) {
                continue;
            }
            let error = match sampler {
                Some(sampler) => probe_voxels(gpu, sampler, format)?,
                None => None,
            };
            tracing::debug!(voxel = voxel.name(), ?format, ?error, "filter probed");
            let by_sampler = error.is_some_and(|e| e <= FILTER_ERROR_MAX);
            // What is sampled precisely is taken up to twice the type's size, see the head.
            if by_sampler && texel_bytes(format) <= 2 * voxel.bytes() {
                choice = Some((format, true));
                break;
            }
            choice = choice.or(Some((format, false)));
        }
        let (format, by_sampler) = choice.ok_or_else(|| DeviceError::Unavailable {
            what: format!("the device cannot sample images of {}", voxel.name()),
        })?;
        let (scale, offset) = numbers(format, voxel);
        Ok(Self {
            format,
            by_sampler,
            scale,
            offset,
            voxel,
        })
    }

    /// Size of a texel in bytes.
    pub(super) fn texel_bytes(&self) -> usize {
        texel_bytes(self.format)
    }

    /// This way for bricks of other numbers than the stored ones, which `of_floats` can hold.
    pub(super) fn for_numbers(self, numbers: &VoxelNumbers, of_floats: &Self) -> Self {
        if numbers.is_checked() {
            of_floats.clone()
        } else {
            self
        }
    }

    /// Writes as many texels as `texels` takes, from the voxel of `brick` numbered `first` on.
    pub(super) fn write(&self, brick: &BrickVoxels, first: usize, texels: &mut [u8]) {
        let count = texels.len() / self.texel_bytes();
        let (voxel, numbers) = (brick.voxel(), brick.numbers());
        let bytes = voxel.bytes();
        let from = &brick.bytes()[first * bytes..(first + count) * bytes];
        // v · 257 is to 65535 what v is to 255.
        if bytes == 1 && self.texel_bytes() == 2 {
            let flip = if self.voxel == VoxelType::I8 { 0x80 } else { 0 };
            for (texel, voxel) in texels.chunks_exact_mut(2).zip(from) {
                texel.fill(voxel ^ flip);
            }
            return;
        }
        if self.format == Format::R32_SFLOAT {
            for (texel, stored) in texels.chunks_exact_mut(4).zip(from.chunks_exact(bytes)) {
                let number = numbers.number(voxel.read(stored, 0));
                texel.copy_from_slice(&number.to_ne_bytes());
            }
            return;
        }
        texels.copy_from_slice(from);
        // Turning the sign bit adds half the range: signed becomes unsigned, −128 included, which
        // SNORM would lose.
        if matches!(self.voxel, VoxelType::I8 | VoxelType::I16) {
            for high in texels.chunks_exact_mut(bytes) {
                high[bytes - 1] ^= 0x80;
            }
        }
    }
}

fn texel_bytes(format: Format) -> usize {
    match format {
        Format::R8_UNORM => 1,
        Format::R16_UNORM => 2,
        _ => 4,
    }
}

/// Whether 3D images of this format can be sampled.
pub(super) fn samples(physical: &PhysicalDevice, format: Format) -> bool {
    has(
        physical,
        format,
        FormatFeatures::SAMPLED_IMAGE | FormatFeatures::TRANSFER_DST,
    )
}

fn has(physical: &PhysicalDevice, format: Format, features: FormatFeatures) -> bool {
    physical
        .format_properties(format)
        .is_ok_and(|p| p.optimal_tiling_features.contains(features))
}

fn probe_voxels(
    gpu: &Gpu,
    sampler: &Arc<Sampler>,
    format: Format,
) -> Result<FilterError, DeviceError> {
    let (kernel, entry) = kernels::PROBE_VOXELS;
    let texels: &[u8] = match format {
        Format::R8_UNORM => &[0, 255],
        Format::R16_UNORM => &[0, 0, 255, 255],
        _ => bytemuck::cast_slice(&[0.0_f32, 1.0]),
    };
    probe(
        gpu,
        sampler,
        format,
        ImageType::Dim3d,
        texels,
        kernel,
        entry,
    )
}

/// The sampler's error on the table's format.
pub(super) fn probe_table(gpu: &Gpu, sampler: &Arc<Sampler>) -> Result<FilterError, DeviceError> {
    let (kernel, entry) = kernels::PROBE_TABLE;
    let texels = [[0.0_f32; 4], [1.0; 4]];
    let texels = bytemuck::cast_slice(&texels);
    let format = Format::R32G32B32A32_SFLOAT;
    probe(
        gpu,
        sampler,
        format,
        ImageType::Dim2d,
        texels,
        kernel,
        entry,
    )
}

/// Largest difference of the filtered values from the line between the two texels.
fn probe(
    gpu: &Gpu,
    sampler: &Arc<Sampler>,
    format: Format,
    image_type: ImageType,
    texels: &[u8],
    kernel: &[u8],
    entry: &str,
) -> Result<FilterError, DeviceError> {
    if !has(
        gpu.physical(),
        format,
        FormatFeatures::SAMPLED_IMAGE_FILTER_LINEAR,
    ) {
        return Ok(None);
    }
    let image = gpu.image(format, image_type, [2, 1, 1])?;
    upload(gpu, &image, texels.len() / 2, |_, out| {
        out.copy_from_slice(texels);
    })?;
    let view = ImageView::new_default(image).explain("viewing an image")?;
    let filtered = gpu.buffer::<f32>(
        BufferUsage::STORAGE_BUFFER,
        Home::ReadBack,
        u64::from(PROBES),
    )?;
    let pipeline = gpu.pipeline(kernel, entry)?;
    let set = gpu.descriptor_set(
        &pipeline,
        [
            WriteDescriptorSet::image_view(0, view.clone()),
            WriteDescriptorSet::sampler(1, sampler.clone()),
            WriteDescriptorSet::image_view(2, view),
            WriteDescriptorSet::buffer(3, filtered.clone()),
        ],
    )?;
    gpu.submit(|commands| dispatch(commands, &pipeline, set, [u32::from(PROBES / 64), 1, 1]))?;
    let filtered = filtered.read().explain("reading a probe")?;
    let error = filtered
        .iter()
        .zip(0..PROBES)
        .map(|(f, i)| (f - (f32::from(i) + 0.5) / f32::from(PROBES)).abs())
        .fold(0.0, f32::max);
    Ok(Some(error))
}

//! Filling images from host memory, a slab at a time, so that a big brick needs no second copy of
//! itself in host-visible memory.

use super::{
    explain::Explain,
    gpu::{Gpu, Home},
};
use crate::device::DeviceError;
use std::sync::Arc;
use vulkano::{
    buffer::{BufferUsage, Subbuffer},
    command_buffer::{BufferImageCopy, CopyBufferToImageInfo},
    image::Image,
};

/// Bytes of host-visible memory taken for an upload; one slice of an image at least.
pub(super) const STAGING_BYTES: u64 = 32 << 20;

/// Fills `image`, whose texels have `texel_bytes`. `fill(first, bytes)` writes the texels from the
/// one numbered `first` on, x fastest.
pub(super) fn upload(
    gpu: &Gpu,
    image: &Arc<Image>,
    texel_bytes: usize,
    mut fill: impl FnMut(usize, &mut [u8]),
) -> Result<(), DeviceError> {
    let [width, height, depth] = image.extent();
    let slice_texels = width as usize * height as usize;
    let slice_bytes = (slice_texels * texel_bytes) as u64;
    let slices_fit = u32::try_from(STAGING_BYTES / slice_bytes).unwrap_or(u32::MAX);
    let (staging, slab_depth) = staging(gpu, slice_bytes, slices_fit.clamp(1, depth))?;
    let mut z = 0;
    while z < depth {
        let slices = slab_depth.min(depth - z);
        let bytes = slice_bytes * u64::from(slices);
        let part = staging.clone().slice(0..bytes);
        fill(
            slice_texels * z as usize,
            &mut part.write().explain("writing to a staging buffer")?,
        );
        gpu.submit(|commands| {
            commands
                .copy_buffer_to_image(CopyBufferToImageInfo {
                    regions: [BufferImageCopy {
                        image_subresource: image.subresource_layers(),
                        image_offset: [0, 0, z],
                        image_extent: [width, height, slices],
                        ..Default::default()
                    }]
                    .into(),
                    ..CopyBufferToImageInfo::buffer_image(part, image.clone())
                })
                .explain("copying to an image")?;
            Ok(())
        })?;
        z += slices;
    }
    Ok(())
}

/// A staging buffer of so many slices, and its depth: fewer where memory is short, one at least.
fn staging(
    gpu: &Gpu,
    slice_bytes: u64,
    mut depth: u32,
) -> Result<(Subbuffer<[u8]>, u32), DeviceError> {
    loop {
        let bytes = slice_bytes * u64::from(depth);
        match gpu.buffer(BufferUsage::TRANSFER_SRC, Home::Upload, bytes) {
            Err(DeviceError::OutOfMemory { .. }) if depth > 1 => depth = depth.div_ceil(2),
            made => return Ok((made?, depth)),
        }
    }
}

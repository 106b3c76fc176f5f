//! Filling images from host memory.
//!
//! A device takes half a millisecond to say that a copy has ended (NVIDIA H100), as long as several jobs take: small
//! images, as bricks have, wait in host-visible memory, and are copied by the submission that uses them. A large one
//! is copied at once, a slab at a time, so that it needs no second copy of itself there.

use super::{
    explain::Explain,
    gpu::{Commands, Gpu, Home},
};
use crate::device::DeviceError;
use std::sync::{Arc, Weak};
use vulkano::{
    buffer::{BufferUsage, Subbuffer},
    command_buffer::{BufferImageCopy, CopyBufferToImageInfo},
    image::Image,
};

/// Bytes of host-visible memory in which copies wait.
const WAITING_BYTES: u64 = 8 << 20;
/// Bytes of host-visible memory taken for a large image; one slice of it at least.
const SLAB_BYTES: u64 = 24 << 20;
/// Bytes of host-visible memory taken for uploads.
pub(super) const STAGING_BYTES: u64 = WAITING_BYTES + SLAB_BYTES;
/// What waits begins at multiples of this: texels do, and devices ask for no more.
const WAITING_ALIGNMENT: u64 = 256;

/// Images that wait to be filled.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    /// Taken when the first one comes.
    staging: Option<Subbuffer<[u8]>>,
    taken: u64,
    /// Each with what it is filled from. An image that is freed meanwhile is not filled.
    waiting: Vec<(Weak<Image>, Subbuffer<[u8]>)>,
}

impl Uploads {
    /// Fills `image` as [`upload`] does, with all that waits.
    pub(super) fn add(
        &mut self,
        gpu: &Gpu,
        image: &Arc<Image>,
        texel_bytes: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<(), DeviceError> {
        gpu.check_not_lost()?;
        let texels = image.extent().map(u64::from).iter().product::<u64>();
        let bytes = texels * texel_bytes as u64;
        if bytes > WAITING_BYTES / 2 {
            return upload(gpu, image, texel_bytes, fill);
        }
        if self.taken + bytes > WAITING_BYTES {
            self.carry_out(gpu)?;
        }
        let staging = match &self.staging {
            Some(staging) => staging,
            None => match gpu.buffer(BufferUsage::TRANSFER_SRC, Home::Upload, WAITING_BYTES) {
                Err(DeviceError::OutOfMemory { .. }) => {
                    return upload(gpu, image, texel_bytes, fill);
                }
                made => self.staging.insert(made?),
            },
        };
        let part = staging.clone().slice(self.taken..self.taken + bytes);
        fill(0, &mut part.write().explain("writing to a staging buffer")?);
        self.taken = (self.taken + bytes).next_multiple_of(WAITING_ALIGNMENT);
        self.waiting.push((Arc::downgrade(image), part));
        Ok(())
    }

    /// Fills all that waits.
    fn carry_out(&mut self, gpu: &Gpu) -> Result<(), DeviceError> {
        gpu.submit(|commands| self.record(commands))?;
        self.were_carried_out();
        Ok(())
    }

    /// The commands that fill all that waits. Once they are carried out, [`Self::were_carried_out`] is to be called.
    pub(super) fn record(&self, commands: &mut Commands) -> Result<(), DeviceError> {
        for (image, part) in &self.waiting {
            let Some(image) = image.upgrade() else {
                continue;
            };
            let copy = CopyBufferToImageInfo::buffer_image(part.clone(), image);
            commands
                .copy_buffer_to_image(copy)
                .explain("copying to an image")?;
        }
        Ok(())
    }

    /// Nothing waits any more.
    pub(super) fn were_carried_out(&mut self) {
        self.waiting.clear();
        self.taken = 0;
    }
}

/// Fills `image`, whose texels have `texel_bytes`, at once. `fill(first, bytes)` writes the texels from the
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
    let slices_fit = u32::try_from(SLAB_BYTES / slice_bytes).unwrap_or(u32::MAX);
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

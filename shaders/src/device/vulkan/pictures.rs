//! The buffers that pictures are rendered into, bands of whole rows at a time, and others that the host reads.
//!
//! Invariant: where memory is short, bands get smaller, as long as a row of the widest picture fits.

use super::{
    explain::Explain,
    gpu::{Commands, Gpu, Home},
};
use crate::device::DeviceError;
use std::{ops::RangeInclusive, time::Duration};
use vulkano::{
    buffer::{BufferReadGuard, BufferUsage, Subbuffer},
    command_buffer::CopyBufferInfo,
};

/// Pixels of the bands of a submission, at most, whatever the device's buffers could take.
const BAND_PIXELS_MAX: u64 = 1 << 21;
/// Pixels of the first submission: how fast the device is for a scene is not known.
const BAND_PIXELS_FIRST: u64 = 1 << 17;
/// Pixels of the smallest submission: a row of the widest picture.
const BAND_PIXELS_MIN: u64 = 1 << 14;
/// A submission shall take between these: more is killed by drivers' watchdogs, and keeps who calls it off
/// waiting; with less, what comes on top of each counts.
const BAND_TIME: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1);
/// Bytes of a pixel.
const PIXEL_BYTES: u64 = 16;
/// Most that pictures take: the bands of a submission where the device writes it, and where the host reads it.
pub(super) const PICTURE_BYTES_MAX: u64 = 2 * BAND_PIXELS_MAX * PIXEL_BYTES;
/// Edge of a workgroup in pixels; as in `wgsl/raycast.wgsl`.
pub(super) const GROUP_EDGE: u32 = 8;

/// What the device writes, and what it is read from where that is another.
#[derive(Clone, Debug)]
pub(super) struct ReadBuffers {
    /// The device writes here.
    pub(super) written: Subbuffer<[[f32; 4]]>,
    /// The host reads here, or else from where it was written.
    read: Option<Subbuffer<[[f32; 4]]>>,
}

impl ReadBuffers {
    /// Copies what was written to where it is read from.
    pub(super) fn copy_back(&self, commands: &mut Commands, count: u64) -> Result<(), DeviceError> {
        if let Some(read) = &self.read {
            let from = self.written.clone().slice(0..count);
            let to = read.clone().slice(0..count);
            commands
                .copy_buffer(CopyBufferInfo::buffers(from, to))
                .explain("copying what was rendered")?;
        }
        Ok(())
    }

    /// What was written, once it was copied.
    pub(super) fn read(&self) -> Result<BufferReadGuard<'_, [[f32; 4]]>, DeviceError> {
        let read = self.read.as_ref().unwrap_or(&self.written);
        read.read().explain("reading back what was rendered")
    }
}

/// Buffers that are kept for what follows.
#[derive(Debug)]
pub(super) struct KeptBuffers {
    /// Whether what is written goes through device memory before it is read back.
    copies_back: bool,
    buffers: Option<ReadBuffers>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pictures {
    /// Of the next submission.
    band_pixels: u64,
    /// As memory allows.
    band_pixels_max: u64,
    kept: KeptBuffers,
}

impl KeptBuffers {
    /// Nothing is allocated yet.
    pub(super) fn new(copies_back: bool) -> Self {
        Self {
            copies_back,
            buffers: None,
        }
    }

    /// Frees them.
    pub(super) fn free(&mut self) {
        self.buffers = None;
    }

    /// Buffers for at least so many vectors, kept for what follows.
    pub(super) fn of(&mut self, gpu: &Gpu, count: u64) -> Result<ReadBuffers, DeviceError> {
        let large_enough = |b: &&ReadBuffers| b.written.len() >= count;
        if let Some(buffers) = self.buffers.as_ref().filter(large_enough) {
            return Ok(buffers.clone());
        }
        // First, so that never both are there.
        self.buffers = None;
        let length = count.next_power_of_two();
        let storage = BufferUsage::STORAGE_BUFFER | BufferUsage::TRANSFER_DST;
        let buffers = if self.copies_back {
            let out = storage | BufferUsage::TRANSFER_SRC;
            ReadBuffers {
                written: gpu.buffer(out, Home::Device, length)?,
                read: Some(gpu.buffer(BufferUsage::TRANSFER_DST, Home::ReadBack, length)?),
            }
        } else {
            ReadBuffers {
                written: gpu.buffer(storage, Home::ReadBack, length)?,
                read: None,
            }
        };
        Ok(self.buffers.insert(buffers).clone())
    }
}

impl Pictures {
    /// Nothing is allocated yet.
    pub(super) fn new(copies_back: bool) -> Self {
        Self {
            band_pixels: BAND_PIXELS_FIRST,
            band_pixels_max: BAND_PIXELS_MAX,
            kept: KeptBuffers::new(copies_back),
        }
    }

    /// Buffers for at least `pixels` pixels, kept for the jobs that follow.
    pub(super) fn buffers(&mut self, gpu: &Gpu, pixels: u64) -> Result<ReadBuffers, DeviceError> {
        self.kept.of(gpu, pixels)
    }

    /// Pixels of the bands of a submission, and rows of a band, at most. A row of the widest picture is in
    /// the bounds of every device (2^27 bytes of a storage buffer, 65535 workgroups).
    pub(super) fn band_bounds(&self, gpu: &Gpu) -> (u64, u32) {
        let limits = gpu.physical().properties();
        let range = u64::from(limits.max_storage_buffer_range) / PIXEL_BYTES;
        // Buffers grow to powers of two, so the bound is rounded down to one.
        let pixels_max = self.band_pixels.min(1 << range.ilog2());
        let rows_max = limits.max_compute_work_group_count[1].saturating_mul(GROUP_EDGE);
        (pixels_max, rows_max)
    }

    /// Goes on with smaller bands, as memory was short; false where they are as small as can be.
    pub(super) fn halve_bands(&mut self) -> bool {
        let smaller = self.band_pixels > BAND_PIXELS_MIN;
        if smaller {
            self.kept.free();
            self.band_pixels /= 2;
            self.band_pixels_max = self.band_pixels;
        }
        smaller
    }

    /// A submission of so many pixels has taken so long: those that follow may be larger, or smaller.
    pub(super) fn took(&mut self, pixels: u64, time: Duration) {
        if time > *BAND_TIME.end() {
            self.band_pixels = (self.band_pixels / 2).max(BAND_PIXELS_MIN);
        } else if time < *BAND_TIME.start() && pixels * 2 > self.band_pixels {
            self.band_pixels = (self.band_pixels * 2).min(self.band_pixels_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::picture::camera::PICTURE_EDGE_MAX;

    #[test]
    fn bands_get_smaller_down_to_a_row_of_the_widest_picture() {
        let mut pictures = Pictures::new(true);
        let halved = (0..99).take_while(|_| pictures.halve_bands()).count();
        assert_eq!(halved, 3);
        assert_eq!(pictures.band_pixels, u64::from(PICTURE_EDGE_MAX));
        pictures.took(pictures.band_pixels, Duration::ZERO);
        assert_eq!(pictures.band_pixels, BAND_PIXELS_MIN, "as memory allows");
    }

    #[test]
    fn bands_are_as_large_as_the_device_does_in_time() {
        let mut pictures = Pictures::new(true);
        // A million pixels a second, then a thousand.
        for _ in 0..20 {
            let pixels = pictures.band_pixels;
            pictures.took(pixels, Duration::from_micros(pixels));
        }
        let fast = pictures.band_pixels;
        assert!((1 << 17..1 << 20).contains(&fast), "{fast}");
        for _ in 0..20 {
            let pixels = pictures.band_pixels;
            pictures.took(pixels, Duration::from_millis(pixels));
        }
        assert_eq!(pictures.band_pixels, BAND_PIXELS_MIN);
        // A small picture says nothing of large bands.
        pictures.took(64, Duration::from_micros(9));
        assert_eq!(pictures.band_pixels, BAND_PIXELS_MIN);
    }
}

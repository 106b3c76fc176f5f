//! A tile that still awaits partials.

use crate::messages::{FrameId, Message, Pixels, TilePart};
use brickmesh_shaders::SubImage;
use brickmesh_topology::{PixelRect, balance::frame_plan::FramePlan};
use std::{collections::BTreeMap, time::Instant};

/// Bytes of a pixel while it is blended.
const PIXEL_BYTES: usize = size_of::<[f32; 4]>();

/// Why a part cannot be blended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadPart {
    #[error("there are no such jobs in their tile")]
    Jobs,
    #[error("they came twice")]
    Twice,
    #[error("they lie outside of their jobs")]
    Place,
    #[error("they are of a wrong length, or not finite")]
    Pixels,
}

/// See the module.
#[derive(Debug)]
pub(super) struct OpenTile {
    /// Number of jobs to blend.
    count: usize,
    /// How many of them are blended.
    blended: usize,
    rect: PixelRect,
    /// From the first run on.
    image: Option<SubImage>,
    /// Runs that came before what they follow on: by their first job, how many, and their pixels.
    waiting: BTreeMap<usize, (usize, SubImage)>,
    waiting_bytes: usize,
    composite_micros: u64,
    received_bytes: u64,
}

impl OpenTile {
    /// A tile of so many jobs, none of which has come.
    pub(super) fn new(rect: PixelRect, count: usize) -> Self {
        Self {
            count,
            blended: 0,
            rect,
            image: None,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            composite_micros: 0,
            received_bytes: 0,
        }
    }

    /// Whether all jobs are blended.
    pub(super) fn is_whole(&self) -> bool {
        self.blended == self.count
    }

    /// Memory that it takes once it is begun, in bytes, without what waits.
    pub(super) fn image_bytes(&self) -> usize {
        self.rect.pixel_count() * PIXEL_BYTES
    }

    /// Memory that the runs take which wait for others, in bytes.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Takes a run and blends as far as the order allows.
    pub(super) fn take(
        &mut self,
        plan: &FramePlan,
        part: &TilePart,
        bytes: u64,
    ) -> Result<(), BadPart> {
        let (first, count) = (part.first as usize, part.count as usize);
        let end = first.saturating_add(count);
        let jobs = plan.tile_jobs.of_tile(part.tile as usize);
        let jobs = jobs.get(first..end).ok_or(BadPart::Jobs)?;
        let around = jobs.iter().map(|j| j.1).reduce(|a, b| a.around(&b));
        let around = around.ok_or(BadPart::Jobs)?;
        let before = self.waiting.range(..end).next_back();
        if first < self.blended || before.is_some_and(|(&f, w)| f + w.0 > first) {
            return Err(BadPart::Twice);
        }
        let pixels = &part.pixels;
        let empty = pixels.rect.pixel_count() == 0;
        if !empty && around.intersection(&pixels.rect) != Some(pixels.rect) {
            return Err(BadPart::Place);
        }
        let image = pixels.image(plan.mode).ok_or(BadPart::Pixels)?;
        let start = Instant::now();
        self.waiting_bytes += size_of_val(image.pixels());
        self.waiting.insert(first, (count, image));
        while let Some((jobs, next)) = self.waiting.remove(&self.blended) {
            self.waiting_bytes -= size_of_val(next.pixels());
            let image = self
                .image
                .get_or_insert_with(|| SubImage::transparent(self.rect));
            image.combine(&next, plan.mode);
            self.blended += jobs;
        }
        self.composite_micros += u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.received_bytes += bytes;
        Ok(())
    }

    /// Jobs that did not come yet.
    pub(super) fn lacking(&self, plan: &FramePlan, tile: u32) -> impl Iterator<Item = u32> {
        let jobs = plan.tile_jobs.of_tile(tile as usize).iter().enumerate();
        let waits = move |at: usize| {
            let before = self.waiting.range(..=at).next_back();
            before.is_some_and(|(&first, run)| at < first + run.0)
        };
        let lacking = jobs.skip(self.blended).filter(move |(at, _)| !waits(*at));
        lacking.filter_map(|(_, &(job, _))| u32::try_from(job).ok())
    }

    /// The tile, for the requester.
    pub(super) fn message(&self, frame: FrameId, plan: &FramePlan, tile: u32) -> Message {
        let nothing = || {
            SubImage::transparent(PixelRect {
                width: 0,
                height: 0,
                ..self.rect
            })
        };
        let image = self.image.as_ref().map_or_else(nothing, SubImage::trimmed);
        Message::Tile {
            frame,
            plan: plan.digest,
            tile,
            pixels: Pixels::of(&image, plan.mode),
            composite_micros: self.composite_micros,
            received_bytes: self.received_bytes,
        }
    }
}

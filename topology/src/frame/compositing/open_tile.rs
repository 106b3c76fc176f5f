//! A tile that still awaits partials.

use super::Part;
use crate::{
    balance::frame_plan::FramePlan,
    frame::{
        image::{Image, PIXEL_BYTES_IN_MEMORY, Packed},
        occlusion::OcclusionMap,
    },
    picture::camera::PixelRect,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::Arc,
};

/// Why a part cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPart {
    /// Beyond those of the tile.
    #[error("there are no such jobs in their tile")]
    Jobs,
    /// Some are there already.
    #[error("they came twice")]
    Twice,
    /// Pixels that their jobs cannot have.
    #[error("they lie outside of their jobs")]
    Place,
    /// No pixels.
    #[error("they are of a wrong length, or not finite")]
    Pixels,
}

/// See the module.
#[derive(Debug)]
pub(super) struct OpenTile<I> {
    /// Number of jobs to combine.
    count: usize,
    /// How many of them are.
    combined: usize,
    rect: PixelRect,
    /// From the first run on.
    image: Option<Arc<I>>,
    /// Runs that came before what they follow on: by their first job, how many, and their pixels.
    waiting: BTreeMap<usize, (usize, I)>,
    waiting_bytes: usize,
    received_bytes: u64,
    /// What is behind all that came, where somebody is to be told.
    occlusion: Option<OcclusionMap>,
    /// More may be hidden than was said.
    hides_more: bool,
    /// Jobs that were said to be hidden.
    hidden: BTreeSet<u32>,
}

impl<I: Image> OpenTile<I> {
    /// A tile of so many jobs, none of which has come, and where nothing is hidden yet; without that map nobody is told.
    pub(super) fn new(rect: PixelRect, count: usize, occlusion: Option<OcclusionMap>) -> Self {
        Self {
            count,
            combined: 0,
            rect,
            image: None,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            received_bytes: 0,
            occlusion,
            hides_more: false,
            hidden: BTreeSet::new(),
        }
    }

    /// Whether all jobs are combined.
    pub(super) fn is_whole(&self) -> bool {
        self.combined == self.count
    }

    /// Memory that it takes once it is begun, in bytes, without what waits.
    pub(super) fn image_bytes(&self) -> usize {
        self.rect.pixel_count() * PIXEL_BYTES_IN_MEMORY
    }

    /// Memory that the runs take which wait for others, in bytes.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Bytes that came for it from other peers.
    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Takes a run and combines as far as the order allows.
    pub(super) fn take<P: Packed<Image = I>>(
        &mut self,
        plan: &FramePlan,
        part: Part<P>,
        bytes: u64,
    ) -> Result<(), BadPart> {
        let (first, count) = (part.first as usize, part.count as usize);
        let end = first.saturating_add(count);
        let jobs = plan.tile_jobs.of_tile(part.tile as usize);
        let jobs = jobs.get(first..end).ok_or(BadPart::Jobs)?;
        let around = jobs.iter().map(|j| j.1).reduce(|a, b| a.around(&b));
        let (around, last) = around.zip(jobs.last()).ok_or(BadPart::Jobs)?;
        let before = self.waiting.range(..end).next_back();
        if first < self.combined || before.is_some_and(|(&f, w)| f + w.0 > first) {
            return Err(BadPart::Twice);
        }
        let rect = part.pixels.rect();
        let empty = rect.pixel_count() == 0;
        if !empty && around.intersection(&rect) != Some(rect) {
            return Err(BadPart::Place);
        }
        let image = part.pixels.unpack(plan.mode).ok_or(BadPart::Pixels)?;
        self.received_bytes += bytes;
        if let (Some(map), Ok(last)) = (&mut self.occlusion, u32::try_from(last.0))
            && end < self.count
        {
            self.hides_more |= map.add(last, &image);
        }
        if first > self.combined {
            self.waiting_bytes += image.bytes();
            self.waiting.insert(first, (count, image));
            return Ok(());
        }
        self.combine(plan, image, count);
        while let Some((count, next)) = self.waiting.remove(&self.combined) {
            self.waiting_bytes -= next.bytes();
            self.combine(plan, next, count);
        }
        Ok(())
    }

    /// Puts the next so many jobs behind the others.
    fn combine(&mut self, plan: &FramePlan, next: I, count: usize) {
        self.combined += count;
        if count == self.count {
            // One peer has rendered all of it.
            self.image = Some(Arc::new(next));
            return;
        }
        let nothing = || Arc::new(I::nothing(self.rect));
        let image = self.image.get_or_insert_with(nothing);
        Arc::make_mut(image).combine(&next, plan.mode);
    }

    /// Jobs that did not come yet and are hidden, which was not said before: who is to render each, and the job.
    pub(super) fn take_hidden(&mut self, plan: &FramePlan, tile: u32) -> Vec<(usize, u32)> {
        let map = self.occlusion.as_ref().filter(|_| self.hides_more);
        let Some(map) = map else {
            return Vec::new();
        };
        let order = plan.tile_jobs.of_tile(tile as usize);
        let lacking = self
            .lacking(plan, tile)
            .filter(|job| !self.hidden.contains(job));
        let hidden = lacking.filter_map(|job| {
            let at = order.binary_search_by_key(&(job as usize), |j| j.0).ok()?;
            let renderer = plan.jobs[job as usize].renderer?;
            map.hides(job, &order[at].1).then_some((renderer, job))
        });
        let hidden: Vec<(usize, u32)> = hidden.collect();
        self.hides_more = false;
        self.hidden.extend(hidden.iter().map(|(_, job)| *job));
        hidden
    }

    /// Jobs that did not come yet.
    pub(super) fn lacking(&self, plan: &FramePlan, tile: u32) -> impl Iterator<Item = u32> {
        let jobs = plan.tile_jobs.of_tile(tile as usize);
        // What lies between the runs that wait.
        let ends = self.waiting.iter().map(|(first, run)| first + run.0);
        let starts = iter::once(self.combined).chain(ends);
        let ends = self.waiting.keys().copied().chain([jobs.len()]);
        let gaps = starts.zip(ends);
        let lacking = gaps.flat_map(|(start, end)| jobs.get(start..end).unwrap_or_default());
        lacking.filter_map(|&(job, _)| u32::try_from(job).ok())
    }

    /// What its jobs came to, without borders of nothing.
    pub(super) fn image(&mut self) -> Arc<I> {
        let image = self.image.take().map_or_else(
            || I::nothing(self.rect.emptied()),
            |image| Arc::unwrap_or_clone(image).into_part(&self.rect),
        );
        Arc::clone(self.image.insert(Arc::new(image)))
    }
}

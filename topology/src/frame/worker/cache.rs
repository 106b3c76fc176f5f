//! What this peer has rendered of frames that are under way, in case one is asked for again: most
//! of what a frame lacks when a peer dies is there already, at those that live.
//!
//! Where a plan names what decides the pixels of its jobs, other frames share them: after an edit only
//! what it changes is rendered.
//!
//! A requester's frame number means one picture: whoever asks for another under the same number spoils
//! its own.
//!
//! Invariant: bounded by bytes, whatever is asked for; the oldest frames are forgotten first.

use crate::{
    balance::frame_plan::PlannedJob,
    base::peer::PeerId,
    frame::{compositing::FrameKey, image::Image},
};
use std::collections::VecDeque;

/// Bytes of images that are kept.
const BYTES_MAX: usize = 64 << 20;
/// Memory of an image besides its pixels, about.
const IMAGE_BYTES: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct RenderCache<I> {
    /// Oldest first.
    frames: VecDeque<KeptFrame<I>>,
    bytes: usize,
}

/// Of one frame, whichever attempt.
#[derive(Debug)]
struct KeptFrame<I> {
    requester: PeerId,
    number: u64,
    jobs: Vec<KeptJob<I>>,
}

#[derive(Debug)]
struct KeptJob<I> {
    job: PlannedJob,
    image: I,
    /// Time that it took, microseconds.
    micros: u64,
}

impl<I> Default for RenderCache<I> {
    fn default() -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<I: Image> RenderCache<I> {
    /// Takes what was rendered of a job, and the microseconds that it took.
    pub(super) fn put(&mut self, key: &FrameKey, job: PlannedJob, image: I, micros: u64) {
        let bytes = bytes_of(&image);
        if bytes > BYTES_MAX {
            return;
        }
        while self.bytes + bytes > BYTES_MAX {
            let Some(oldest) = self.frames.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
        }
        self.bytes += bytes;
        let kept = KeptJob { job, image, micros };
        match self.frames.iter_mut().find(|f| f.is(key)) {
            Some(frame) => frame.jobs.push(kept),
            None => self.frames.push_back(KeptFrame {
                requester: key.0.clone(),
                number: key.1.number,
                jobs: vec![kept],
            }),
        }
    }

    /// Whether [`Self::take`] gives something for a job.
    pub(super) fn has(&self, key: &FrameKey, job: &PlannedJob) -> bool {
        let mut frames = self.frames.iter();
        frames.any(|frame| frame.jobs.iter().any(|k| frame.gives(key, k, job)))
    }

    /// Gives what was rendered of a job, in this attempt at the frame or an earlier one, or in another
    /// frame where that is said to be the same, and the microseconds that it took.
    pub(super) fn take(&mut self, key: &FrameKey, job: &PlannedJob) -> Option<(I, u64)> {
        let newest_first = self.frames.iter_mut().rev();
        let kept = newest_first.into_iter().find_map(|frame| {
            let at = frame.jobs.iter().position(|k| frame.gives(key, k, job))?;
            Some(frame.jobs.swap_remove(at))
        })?;
        self.bytes -= bytes_of(&kept.image);
        Some((kept.image, kept.micros))
    }

    /// Forgets a frame of a requester, but for what another frame may share; `None`: all of its frames.
    pub(super) fn forget(&mut self, requester: &PeerId, number: Option<u64>) {
        let over =
            |f: &KeptFrame<I>| f.requester == *requester && number.is_none_or(|n| n == f.number);
        for frame in self.frames.iter_mut().filter(|f| over(f)) {
            frame.jobs.retain(|kept| kept.job.content.is_some());
        }
        self.frames.retain(|f| !f.jobs.is_empty() || !over(f));
        self.bytes = self.frames.iter().map(KeptFrame::bytes).sum();
    }
}

impl<I: Image> KeptFrame<I> {
    fn is(&self, (requester, frame): &FrameKey) -> bool {
        self.number == frame.number && self.requester == *requester
    }

    /// Whether what was rendered of one of its jobs is what a job of a frame is to be.
    fn gives(&self, key: &FrameKey, kept: &KeptJob<I>, job: &PlannedJob) -> bool {
        let is_same = kept.job.content.is_some() && kept.job.content == job.content;
        is_same || is_same_part(&kept.job, job) && self.is(key)
    }

    fn bytes(&self) -> usize {
        self.jobs.iter().map(|k| bytes_of(&k.image)).sum()
    }
}

/// Whether two jobs of one picture are the same part of it.
pub(super) fn is_same_part(one: &PlannedJob, other: &PlannedJob) -> bool {
    let part = |j: &PlannedJob| (j.brick, j.owned, j.rect);
    part(one) == part(other)
}

fn bytes_of<I: Image>(image: &I) -> usize {
    image.bytes() + IMAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::digest::Digest,
        data::{brick_grid::BrickIndex, voxel_box::VoxelBox},
        frame::{frame_requests::FrameId, image::named::Names},
        picture::camera::PixelRect,
    };

    fn key(requester: &str, number: u64, attempt: u32) -> FrameKey {
        (PeerId::new(requester), FrameId { number, attempt })
    }

    fn job(brick: u32, edge: u32) -> (PlannedJob, Names) {
        let rect = PixelRect {
            x: 0,
            y: 0,
            width: edge,
            height: edge,
        };
        let job = PlannedJob {
            brick: BrickIndex(brick),
            owned: VoxelBox::new([0; 3], [8; 3]),
            rect,
            leaf: 0,
            estimate_micros: 1,
            renderer: Some(0),
            is_rendered: false,
            content: None,
        };
        (job, Names::of(brick, rect))
    }

    #[test]
    fn a_later_attempt_finds_what_an_earlier_one_rendered_and_no_other_frame_does() {
        let mut cache = RenderCache::default();
        let (seven, image) = job(7, 8);
        cache.put(&key("a", 1, 0), seven, image, 70);
        let mut take = |key: FrameKey, job: &PlannedJob| cache.take(&key, job);
        assert!(take(key("a", 2, 0), &seven).is_none());
        assert!(take(key("b", 1, 0), &seven).is_none());
        assert!(take(key("a", 1, 1), &job(7, 9).0).is_none());
        // Planned otherwise, but the same piece.
        let found = take(key("a", 1, 1), &PlannedJob { leaf: 3, ..seven });
        assert_eq!(found.map(|(_, micros)| micros), Some(70));
        assert!(take(key("a", 1, 2), &seven).is_none(), "it was taken");
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn another_frame_finds_what_is_said_to_be_the_same_and_that_alone() {
        let mut cache = RenderCache::default();
        let content = |n: u8| Some(Digest::of(&[n]));
        let named = |n, (job, image)| {
            (
                PlannedJob {
                    content: content(n),
                    ..job
                },
                image,
            )
        };
        for (n, (job, image)) in [named(1, job(1, 8)), named(2, job(2, 8)), job(3, 8)]
            .into_iter()
            .enumerate()
        {
            cache.put(&key("a", 1, 0), job, image, n as u64);
        }
        cache.forget(&PeerId::new("a"), Some(1));
        let (asked, _) = named(2, job(2, 8));
        assert_eq!(
            cache
                .take(&key("b", 5, 0), &asked)
                .map(|(_, micros)| micros),
            Some(1)
        );
        assert!(
            cache.take(&key("b", 5, 0), &asked).is_none(),
            "it was taken"
        );
        assert!(
            cache.take(&key("a", 1, 0), &job(3, 8).0).is_none(),
            "its frame is over"
        );
        assert!(
            cache.take(&key("b", 5, 0), &job(1, 8).0).is_none(),
            "it has no name"
        );
        assert_eq!(cache.frames.len(), 1);
    }

    #[test]
    fn bytes_are_bounded_and_what_is_over_is_forgotten() {
        let mut cache = RenderCache::default();
        // 1024² pixels are 16 MiB.
        for number in 0..9 {
            let (job, image) = job(0, 1024);
            cache.put(&key("a", number, 0), job, image, 1);
            assert!(cache.bytes <= BYTES_MAX);
        }
        let numbers: Vec<u64> = cache.frames.iter().map(|f| f.number).collect();
        assert_eq!(numbers, [6, 7, 8]);
        let (large, image) = job(0, 4096);
        cache.put(&key("a", 9, 0), large, image, 1);
        assert!(cache.take(&key("a", 9, 0), &large).is_none());
        cache.forget(&PeerId::new("a"), Some(7));
        assert_eq!(cache.frames.len(), 2);
        cache.forget(&PeerId::new("b"), None);
        cache.forget(&PeerId::new("a"), None);
        assert_eq!((cache.frames.len(), cache.bytes), (0, 0));
    }
}

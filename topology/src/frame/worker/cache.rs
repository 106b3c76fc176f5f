//! What this peer has rendered of frames that are under way, in case one is asked for again: most
//! of what a frame lacks when a peer dies is there already, at those that live.
//!
//! Where a plan names what decides the pixels of its jobs, other frames share them: after an edit only
//! what it changes is rendered.
//!
//! A requester's frame number means one picture: whoever asks for another under the same number spoils
//! its own.
//!
//! Invariant: bounded by bytes, whatever is asked for; the oldest frames are forgotten first, and none of a requester for an older one of its
//! own: of a frame that is too large what was rendered first is kept.

use crate::{
    balance::frame_plan::PlannedJob,
    base::{digest::Digest, peer::PeerId},
    data::{brick_grid::BrickIndex, voxel_box::VoxelBox},
    frame::{compositing::FrameKey, image::Image},
    picture::camera::PixelRect,
};
use std::collections::BTreeMap;

/// Bytes of images that are kept, at most and at least; between them a quarter of the memory that bricks may take, beside which
/// they are.
const BYTES_MAX: usize = 64 << 20;
/// See [`BYTES_MAX`].
const BYTES_MIN: usize = 8 << 20;
/// Memory of an image besides its pixels, about.
const IMAGE_BYTES: usize = 256;

/// Which part of a picture a job is.
type Part = (BrickIndex, VoxelBox, PixelRect);

/// See the module.
#[derive(Debug)]
pub(super) struct RenderCache<I> {
    /// By a number that grows.
    frames: BTreeMap<u64, KeptFrame<I>>,
    next: u64,
    /// Jobs with a name of what decides their pixels: that name, and the frame's number.
    contents: BTreeMap<(Digest, u64), Part>,
    bytes: usize,
    bytes_max: usize,
}

/// Of one frame, whichever attempt.
#[derive(Debug)]
struct KeptFrame<I> {
    requester: PeerId,
    number: u64,
    jobs: BTreeMap<Part, KeptJob<I>>,
}

#[derive(Debug)]
struct KeptJob<I> {
    content: Option<Digest>,
    image: I,
    /// Time that it took, microseconds.
    micros: u64,
}

impl<I: Image> RenderCache<I> {
    /// Nothing is kept yet; bricks may take so many bytes.
    pub(super) fn new(memory_bytes: u64) -> Self {
        let quarter = usize::try_from(memory_bytes / 4).unwrap_or(usize::MAX);
        Self {
            frames: BTreeMap::new(),
            next: 0,
            contents: BTreeMap::new(),
            bytes: 0,
            bytes_max: quarter.clamp(BYTES_MIN, BYTES_MAX),
        }
    }

    /// Takes what was rendered of a job, and the microseconds that it took.
    pub(super) fn put(&mut self, key: &FrameKey, job: PlannedJob, image: I, micros: u64) {
        let bytes = bytes_of(&image);
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let is_older = |f: &KeptFrame<I>| f.requester != key.0 || f.number < key.1.number;
            let first = self.frames.first_entry();
            let Some(oldest) = first.filter(|first| is_older(first.get())) else {
                return;
            };
            let (name, oldest) = oldest.remove_entry();
            self.bytes -= oldest.bytes();
            for content in oldest.jobs.values().filter_map(|kept| kept.content) {
                self.contents.remove(&(content, name));
            }
        }
        let name = self.name_of(key).unwrap_or(self.next);
        self.next = self.next.max(name + 1);
        let frame = self.frames.entry(name).or_insert_with(|| KeptFrame {
            requester: key.0.clone(),
            number: key.1.number,
            jobs: BTreeMap::new(),
        });
        let (part, content) = (part_of(&job), job.content);
        let kept = KeptJob {
            content,
            image,
            micros,
        };
        let before = frame.jobs.insert(part, kept);
        self.bytes += bytes;
        if let Some(before) = before {
            self.went(name, &before);
        }
        if let Some(content) = content {
            self.contents.insert((content, name), part);
        }
    }

    /// Whether [`Self::take`] gives something for a job.
    pub(super) fn has(&self, key: &FrameKey, job: &PlannedJob) -> bool {
        self.find(key, job).is_some()
    }

    /// Gives what was rendered of a job, in this attempt at the frame or an earlier one, or in another
    /// frame where that is said to be the same, and the microseconds that it took.
    pub(super) fn take(&mut self, key: &FrameKey, job: &PlannedJob) -> Option<(I, u64)> {
        let (name, part) = self.find(key, job)?;
        let frame = self.frames.get_mut(&name)?;
        let kept = frame.jobs.remove(&part)?;
        if frame.jobs.is_empty() {
            self.frames.remove(&name);
        }
        self.went(name, &kept);
        Some((kept.image, kept.micros))
    }

    /// Forgets a frame of a requester, but for what another frame may share; `None`: all of its frames.
    pub(super) fn forget(&mut self, requester: &PeerId, number: Option<u64>) {
        let over =
            |f: &KeptFrame<I>| f.requester == *requester && number.is_none_or(|n| n == f.number);
        for frame in self.frames.values_mut().filter(|f| over(f)) {
            frame.jobs.retain(|_, kept| kept.content.is_some());
        }
        self.frames.retain(|_, f| !f.jobs.is_empty() || !over(f));
        self.bytes = self.frames.values().map(KeptFrame::bytes).sum();
    }

    /// The number of a frame.
    fn name_of(&self, (requester, frame): &FrameKey) -> Option<u64> {
        let is_it = |f: &KeptFrame<I>| f.number == frame.number && f.requester == *requester;
        let mut newest_first = self.frames.iter().rev();
        newest_first.find(|(_, f)| is_it(f)).map(|(&name, _)| name)
    }

    /// What was rendered that is what a job of a frame is to be: of its own frame, or else of the newest.
    fn find(&self, key: &FrameKey, job: &PlannedJob) -> Option<(u64, Part)> {
        let part = part_of(job);
        let has = |name: &u64| (self.frames.get(name)).is_some_and(|f| f.jobs.contains_key(&part));
        if let Some(own) = self.name_of(key).filter(has) {
            return Some((own, part));
        }
        let content = job.content?;
        let mut of_content = self.contents.range((content, 0)..=(content, u64::MAX));
        let newest = of_content.next_back();
        newest.map(|(&(_, name), &part)| (name, part))
    }

    /// A job of a frame was taken out.
    fn went(&mut self, name: u64, kept: &KeptJob<I>) {
        self.bytes -= bytes_of(&kept.image);
        if let Some(content) = kept.content {
            self.contents.remove(&(content, name));
        }
    }
}

impl<I: Image> KeptFrame<I> {
    fn bytes(&self) -> usize {
        self.jobs.values().map(|k| bytes_of(&k.image)).sum()
    }
}

/// Which part of a picture a job is.
pub(super) fn part_of(job: &PlannedJob) -> Part {
    (job.brick, job.owned, job.rect)
}

fn bytes_of<I: Image>(image: &I) -> usize {
    image.bytes() + IMAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{frame_requests::FrameId, image::named::Names};

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
        let mut cache = RenderCache::new(u64::MAX);
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
        let mut cache = RenderCache::new(u64::MAX);
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
        let mut cache = RenderCache::new(u64::MAX);
        // 1024² pixels are 16 MiB.
        for number in 0..9 {
            let (job, image) = job(0, 1024);
            cache.put(&key("a", number, 0), job, image, 1);
            assert!(cache.bytes <= BYTES_MAX);
        }
        let numbers: Vec<u64> = cache.frames.values().map(|f| f.number).collect();
        assert_eq!(numbers, [6, 7, 8]);
        let (large, image) = job(0, 4096);
        cache.put(&key("a", 9, 0), large, image, 1);
        assert!(cache.take(&key("a", 9, 0), &large).is_none());
        cache.forget(&PeerId::new("a"), Some(7));
        assert_eq!(cache.frames.len(), 2);
        cache.forget(&PeerId::new("b"), None);
        cache.forget(&PeerId::new("a"), None);
        assert_eq!((cache.frames.len(), cache.bytes), (0, 0));
        for brick in 0..9 {
            let (job, image) = job(brick, 1024);
            cache.put(&key("a", 1, 0), job, image, 1);
        }
        let kept = (0..9).filter(|&b| cache.has(&key("a", 1, 1), &job(b, 1024).0));
        assert_eq!(kept.collect::<Vec<_>>(), [0, 1, 2]);
        // Two frames that are rendered in turn leave each other what they have.
        for brick in 0..9 {
            for number in [2, 1] {
                let (job, image) = job(brick, 1024);
                cache.put(&key("a", number, 0), job, image, 1);
            }
        }
        let kept = [1, 2].map(|n| {
            (0..9)
                .filter(|&b| cache.has(&key("a", n, 1), &job(b, 1024).0))
                .count()
        });
        assert_eq!(kept, [1, 2]);
        let bounds = [1, 100 << 20, 1 << 40].map(|of| RenderCache::<Names>::new(of).bytes_max);
        assert_eq!(bounds, [BYTES_MIN, 25 << 20, BYTES_MAX]);
    }
}

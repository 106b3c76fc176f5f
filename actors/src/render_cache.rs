//! What this peer has rendered of frames that are under way, in case one is asked for again: most
//! of what a frame lacks when a peer dies is there already, at those that live.
//!
//! A requester's frame number means one picture: whoever asks for another under the same number spoils
//! its own.
//!
//! Invariant: bounded by bytes, whatever is asked for; the oldest frames are forgotten first.

use crate::render_queue::FrameKey;
use brickmesh_shaders::{Job, RenderedJob};
use brickmesh_topology::{Digest, PeerId};
use std::collections::VecDeque;

/// Bytes of pixels that are kept.
const BYTES_MAX: usize = 64 << 20;
/// Memory of an image besides its pixels, about.
const IMAGE_BYTES: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub struct RenderCache {
    /// Oldest first.
    frames: VecDeque<KeptFrame>,
    bytes: usize,
}

/// Of one frame, whichever attempt.
#[derive(Debug)]
struct KeptFrame {
    requester: PeerId,
    number: u64,
    data_set: Digest,
    jobs: Vec<(Job, RenderedJob)>,
}

impl RenderCache {
    /// Takes what was rendered.
    pub fn put(&mut self, key: &FrameKey, data_set: Digest, job: Job, rendered: RenderedJob) {
        let bytes = bytes_of(&rendered);
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
        let entry = (job, rendered);
        match self.frames.iter_mut().find(|f| f.is(key, data_set)) {
            Some(frame) => frame.jobs.push(entry),
            None => self.frames.push_back(KeptFrame {
                requester: key.0.clone(),
                number: key.1.number,
                data_set,
                jobs: vec![entry],
            }),
        }
    }

    /// Gives what was rendered of a job, in this attempt at the frame or an earlier one.
    pub fn take(&mut self, key: &FrameKey, data_set: Digest, job: &Job) -> Option<RenderedJob> {
        let frame = self.frames.iter_mut().find(|f| f.is(key, data_set))?;
        let at = frame.jobs.iter().position(|(j, _)| j == job)?;
        let (_, rendered) = frame.jobs.swap_remove(at);
        self.bytes -= bytes_of(&rendered);
        Some(rendered)
    }

    /// Forgets a frame of a requester; `None`: all of its frames.
    pub fn forget(&mut self, requester: &PeerId, number: Option<u64>) {
        let over =
            |f: &KeptFrame| f.requester == *requester && number.is_none_or(|n| n == f.number);
        self.frames.retain(|f| !over(f));
        self.bytes = self.frames.iter().map(KeptFrame::bytes).sum();
    }
}

impl KeptFrame {
    fn is(&self, (requester, frame): &FrameKey, data_set: Digest) -> bool {
        (self.number, self.data_set) == (frame.number, data_set) && self.requester == *requester
    }

    fn bytes(&self) -> usize {
        self.jobs.iter().map(|(_, r)| bytes_of(r)).sum()
    }
}

fn bytes_of(rendered: &RenderedJob) -> usize {
    size_of_val(rendered.image.pixels()) + IMAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::FrameId;
    use brickmesh_shaders::SubImage;
    use brickmesh_topology::{BrickIndex, PixelRect, VoxelBox};

    fn key(requester: &str, number: u64, attempt: u32) -> FrameKey {
        (PeerId::new(requester), FrameId { number, attempt })
    }

    fn job(brick: u32, edge: u32) -> (Job, RenderedJob) {
        let rect = PixelRect {
            x: 0,
            y: 0,
            width: edge,
            height: edge,
        };
        let job = Job {
            brick: BrickIndex(brick),
            owned: VoxelBox::new([0; 3], [8; 3]),
            rect,
        };
        let rendered = RenderedJob {
            image: SubImage::transparent(rect),
            elapsed_micros: u64::from(brick),
        };
        (job, rendered)
    }

    #[test]
    fn a_later_attempt_finds_what_an_earlier_one_rendered_and_no_other_frame_does() {
        let mut kept = RenderCache::default();
        let set = Digest::of(b"set");
        let (seven, rendered) = job(7, 8);
        kept.put(&key("a", 1, 0), set, seven, rendered);
        let mut take = |key: FrameKey, set, job: &Job| kept.take(&key, set, job);
        assert!(take(key("a", 2, 0), set, &seven).is_none());
        assert!(take(key("b", 1, 0), set, &seven).is_none());
        assert!(take(key("a", 1, 1), Digest::of(b"other"), &seven).is_none());
        assert!(take(key("a", 1, 1), set, &job(7, 9).0).is_none());
        let found = take(key("a", 1, 1), set, &seven);
        assert_eq!(found.map(|r| r.elapsed_micros), Some(7));
        assert!(take(key("a", 1, 2), set, &seven).is_none(), "it was taken");
        assert_eq!(kept.bytes, 0);
    }

    #[test]
    fn bytes_are_bounded_and_what_is_over_is_forgotten() {
        let mut kept = RenderCache::default();
        let set = Digest::of(b"set");
        // 1024² pixels are 16 MiB.
        for number in 0..9 {
            let (job, rendered) = job(0, 1024);
            kept.put(&key("a", number, 0), set, job, rendered);
            assert!(kept.bytes <= BYTES_MAX);
        }
        let numbers: Vec<u64> = kept.frames.iter().map(|f| f.number).collect();
        assert_eq!(numbers, [6, 7, 8]);
        let (large, rendered) = job(0, 4096);
        kept.put(&key("a", 9, 0), set, large, rendered);
        assert!(kept.take(&key("a", 9, 0), set, &large).is_none());
        kept.forget(&PeerId::new("a"), Some(7));
        assert_eq!(kept.frames.len(), 2);
        kept.forget(&PeerId::new("b"), None);
        kept.forget(&PeerId::new("a"), None);
        assert_eq!((kept.frames.len(), kept.bytes), (0, 0));
    }
}

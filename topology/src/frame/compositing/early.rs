//! Partials that came before their frame was announced, as far as there is memory for them.

use super::{FrameKey, Part, Partial};
use crate::{base::peer::PeerId, frame::image::Packed};
use std::collections::{BTreeMap, VecDeque};

/// A partial with who sent it.
#[derive(Clone, Debug)]
pub struct Arrived<P> {
    /// Its renderer.
    pub from: PeerId,
    /// What it says.
    pub partial: Partial<P>,
    /// Bytes of it that came from another peer.
    pub wire_bytes: u64,
}

impl<P: Packed> Arrived<P> {
    /// Bytes that it keeps in memory, about.
    fn memory_bytes(&self) -> usize {
        let part = |p: &Part<P>| size_of::<Part<P>>() + p.pixels.memory_bytes();
        let parts: usize = self.partial.parts.iter().map(part).sum();
        size_of::<Self>() + parts
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Early<P> {
    waiting: VecDeque<Arrived<P>>,
    bytes: BTreeMap<PeerId, usize>,
    bytes_max: usize,
}

impl<P: Packed> Early<P> {
    /// Nothing waits; `bytes_max` of all peers together.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: BTreeMap::new(),
            bytes_max,
        }
    }

    /// Keeps a partial. Where that is too much, the oldest of who has most waiting are dropped: who
    /// sends more than its share drives out nobody else's.
    pub(super) fn keep(&mut self, arrived: Arrived<P>) {
        *self.bytes.entry(arrived.from.clone()).or_default() += arrived.memory_bytes();
        self.waiting.push_back(arrived);
        while self.bytes.values().sum::<usize>() > self.bytes_max {
            let most = self.bytes.iter().max_by_key(|(_, bytes)| **bytes);
            let Some(peer) = most.map(|(peer, _)| peer.clone()) else {
                return;
            };
            let oldest = self.waiting.iter().position(|s| s.from == peer);
            if let Some(dropped) = oldest.and_then(|at| self.waiting.remove(at)) {
                self.forget_bytes(&dropped);
            } else {
                self.bytes.remove(&peer);
            }
        }
    }

    /// Takes out what `wanted` names, in order of arrival.
    pub(super) fn take(&mut self, wanted: impl Fn(&FrameKey) -> bool) -> Vec<Arrived<P>> {
        let (taken, kept) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|s| wanted(&s.partial.key));
        self.waiting = kept.into();
        taken.iter().for_each(|s| self.forget_bytes(s));
        taken
    }

    fn forget_bytes(&mut self, arrived: &Arrived<P>) {
        if let Some(bytes) = self.bytes.get_mut(&arrived.from) {
            *bytes = bytes.saturating_sub(arrived.memory_bytes());
            if *bytes == 0 {
                self.bytes.remove(&arrived.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::digest::Digest,
        frame::{frame_requests::FrameId, image::named::Names},
        picture::camera::PixelRect,
    };

    fn arrived(from: &str, number: u64, pixels: u32) -> Arrived<Names> {
        let rect = PixelRect {
            x: 0,
            y: 0,
            width: pixels,
            height: 1,
        };
        let part = Part {
            tile: 0,
            first: 0,
            count: 1,
            pixels: Names::of(0, rect),
        };
        let frame = FrameId { number, attempt: 0 };
        Arrived {
            from: PeerId::new(from),
            partial: Partial {
                key: (PeerId::new("r"), frame),
                plan: Digest::of(b""),
                parts: vec![part],
            },
            wire_bytes: 0,
        }
    }

    fn numbers(arrived: &[Arrived<Names>]) -> Vec<u64> {
        arrived.iter().map(|s| s.partial.key.1.number).collect()
    }

    #[test]
    fn who_sends_too_much_early_drives_out_its_own() {
        let mut early = Early::new(100_000);
        early.keep(arrived("honest", 1, 1_250));
        for number in 2..100 {
            early.keep(arrived("flood", number, 1_250));
        }
        early.keep(arrived("honest", 100, 1_250));
        let honest = early.take(|(_, frame)| [1, 100].contains(&frame.number));
        assert_eq!(numbers(&honest), [1, 100]);
        let rest = numbers(&early.take(|_| true));
        assert!((5..=9).contains(&rest.len()), "{rest:?}");
        assert_eq!(rest.last(), Some(&99));
        assert!(early.bytes.is_empty() && early.waiting.is_empty());
    }

    #[test]
    fn what_is_larger_than_all_memory_is_not_kept() {
        let mut early = Early::new(1000);
        early.keep(arrived("a", 1, 250));
        assert!(early.take(|_| true).is_empty() && early.bytes.is_empty());
    }
}

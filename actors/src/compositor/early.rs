//! Partials that came before their frame was announced, as far as there is memory for them.

use crate::messages::{FrameId, Partial, TilePart};
use brickmesh_topology::PeerId;
use std::collections::{BTreeMap, VecDeque};

/// A partial with who sent it.
#[derive(Debug)]
pub(super) struct Sent {
    /// Its renderer.
    pub(super) from: PeerId,
    /// What it says.
    pub(super) partial: Box<Partial>,
    /// Its size on the wire; 0 from this peer.
    pub(super) wire_bytes: u64,
}

impl Sent {
    /// The frame that it is of.
    pub(super) fn key(&self) -> (PeerId, FrameId) {
        (PeerId::new(&self.partial.requester), self.partial.frame)
    }

    /// Bytes that it keeps in memory, about.
    fn memory_bytes(&self) -> usize {
        let part = |p: &TilePart| size_of::<TilePart>() + p.pixels.bytes.len();
        let parts: usize = self.partial.tiles.iter().map(part).sum();
        size_of::<Self>() + size_of::<Partial>() + self.partial.requester.len() + parts
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Early {
    waiting: VecDeque<Sent>,
    bytes: BTreeMap<PeerId, usize>,
    bytes_max: usize,
}

impl Early {
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
    pub(super) fn keep(&mut self, sent: Sent) {
        *self.bytes.entry(sent.from.clone()).or_default() += sent.memory_bytes();
        self.waiting.push_back(sent);
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
            tracing::debug!(
                peer = peer.short(),
                "a partial of an unknown frame was dropped"
            );
        }
    }

    /// Takes out what `wanted` names, in order of arrival.
    pub(super) fn take(&mut self, wanted: impl Fn(&(PeerId, FrameId)) -> bool) -> Vec<Sent> {
        let (taken, kept) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|s| wanted(&s.key()));
        self.waiting = kept.into();
        taken.iter().for_each(|s| self.forget_bytes(s));
        taken
    }

    fn forget_bytes(&mut self, sent: &Sent) {
        if let Some(bytes) = self.bytes.get_mut(&sent.from) {
            *bytes = bytes.saturating_sub(sent.memory_bytes());
            if *bytes == 0 {
                self.bytes.remove(&sent.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Pixels;
    use brickmesh_topology::{Digest, PixelRect};

    fn sent(from: &str, number: u64, bytes: usize) -> Sent {
        let rect = PixelRect {
            x: 0,
            y: 0,
            width: 1,
            height: 1,
        };
        let part = TilePart {
            tile: 0,
            first: 0,
            count: 1,
            pixels: Pixels {
                rect,
                bytes: vec![0; bytes],
            },
        };
        Sent {
            from: PeerId::new(from),
            partial: Box::new(Partial {
                requester: "r".to_owned(),
                frame: FrameId { number, attempt: 0 },
                plan: Digest::of(b""),
                tiles: vec![part],
            }),
            wire_bytes: 0,
        }
    }

    fn numbers(sent: &[Sent]) -> Vec<u64> {
        sent.iter().map(|s| s.partial.frame.number).collect()
    }

    #[test]
    fn who_sends_too_much_early_drives_out_its_own() {
        let mut early = Early::new(100_000);
        early.keep(sent("honest", 1, 10_000));
        for number in 2..100 {
            early.keep(sent("flood", number, 10_000));
        }
        early.keep(sent("honest", 100, 10_000));
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
        early.keep(sent("a", 1, 2000));
        assert!(early.take(|_| true).is_empty() && early.bytes.is_empty());
    }
}

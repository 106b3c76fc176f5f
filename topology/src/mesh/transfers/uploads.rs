//! Upload queue: least recently served peer first.
//!
//! Each peer is given one at a time, those first that were given one the longest ago; before all others what frames wait for. While frames
//! are under way, of the rest one at a time to all peers together, with a pause after it, so that those who make copies
//! of what only this peer has leave its link to the frames.
//!
//! Invariant: whoever does not take what it asked for keeps nobody else from theirs for long.

use super::rate_limit::pause_micros;
use crate::{
    base::{digest::Digest, peer::PeerId},
    data::brick_grid::BrickIndex,
};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of bricks that may be on their way from memory or disk into the network's queues.
const UPLOAD_BYTES_MAX: u64 = 128 << 20;
/// Bricks that a peer may wait for: many times what it downloads at a time, as it asks elsewhere and
/// again when it has waited for long.
const REQUESTS_MAX: usize = 128;
/// Beside frames, a brick that is not written by then is not waited for by other peers any longer.
const ALONE_MICROS_MAX: u64 = 10_000_000;

/// A brick that a peer asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mesh) struct Request {
    pub(in crate::mesh) data_set: Digest,
    pub(in crate::mesh) brick: BrickIndex,
    pub(in crate::mesh) bytes: u64,
    /// A frame waits for it.
    pub(in crate::mesh) is_urgent: bool,
}

/// What became of a brick that was to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadResult {
    /// It is in the network's queue.
    Queued,
    /// It was written to the network after that, or its connection broke.
    Written,
    /// It could not be sent.
    NotSent,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in crate::mesh) struct Uploads {
    peers: BTreeMap<PeerId, Requests>,
    /// How often a brick was given.
    count: u64,
    /// After a brick to this peer, nothing is given beside frames before.
    pause: Option<(PeerId, u64)>,
}

/// What one peer asked for.
#[derive(Clone, Debug, Default)]
struct Requests {
    waiting: VecDeque<Request>,
    uploads: Vec<Upload>,
    /// Which gift of all the last one to it was.
    turn: u64,
}

/// A brick that is being given.
#[derive(Clone, Debug)]
struct Upload {
    request: Request,
    since: u64,
    is_queued: bool,
}

impl Uploads {
    /// A peer asks for a brick; once more for the same one is no other request.
    ///
    /// # Errors
    /// Why it is refused.
    pub(in crate::mesh) fn ask(
        &mut self,
        to: &PeerId,
        request: Request,
    ) -> Result<(), &'static str> {
        let requests = self.peers.entry(to.clone()).or_default();
        let mut uploads = requests.uploads.iter().map(|g| &g.request);
        let is_it = |r: &Request| r.is_for(&request);
        let waiting = requests.waiting.iter().position(is_it);
        let is_there = |at: usize| requests.waiting[at].is_urgent || !request.is_urgent;
        if uploads.any(is_it) || waiting.is_some_and(is_there) {
            return Ok(());
        }
        if let Some(at) = waiting {
            requests.waiting.remove(at);
        } else if requests.waiting.len() >= REQUESTS_MAX {
            return Err("too many bricks were asked for at a time");
        }
        let at = if request.is_urgent {
            requests.waiting.partition_point(|r| r.is_urgent)
        } else {
            requests.waiting.len()
        };
        requests.waiting.insert(at, request);
        Ok(())
    }

    /// The next brick that may be given at `now`, and to whom; it is on its way from then on.
    pub(in crate::mesh) fn next(
        &mut self,
        now: u64,
        beside_frames: bool,
    ) -> Option<(PeerId, Request)> {
        let is_quiet = !beside_frames || self.is_quiet(now);
        // Whether it is not urgent, and whose turn it is.
        let turn = |r: &Requests| {
            let is_urgent = r.waiting.front()?.is_urgent;
            let is_busy = |g: &Upload| !is_urgent && beside_frames || !g.is_queued;
            let can = (is_urgent || is_quiet) && !r.uploads.iter().any(is_busy);
            can.then_some((!is_urgent, r.turn))
        };
        let peers = self
            .peers
            .iter()
            .filter_map(|(p, r)| Some((turn(r)?, p, r)));
        let (_, peer, requests) = peers.min_by_key(|(turn, ..)| *turn)?;
        let bytes = requests.waiting.front()?.bytes;
        let unqueued = self.uploads().filter(|g| !g.is_queued);
        let taken: u64 = unqueued.map(|g| g.request.bytes).sum();
        if taken > 0 && taken.saturating_add(bytes) > UPLOAD_BYTES_MAX {
            return None;
        }
        let peer = peer.clone();
        let requests = self.peers.get_mut(&peer)?;
        let request = requests.waiting.pop_front()?;
        self.count += 1;
        requests.turn = self.count;
        requests.uploads.push(Upload {
            request,
            since: now,
            is_queued: false,
        });
        Some((peer, request))
    }

    fn uploads(&self) -> impl Iterator<Item = &Upload> {
        self.peers.values().flat_map(|r| &r.uploads)
    }

    /// Whether no brick is on its way that is worth waiting for, nor a pause under way.
    fn is_quiet(&self, now: u64) -> bool {
        let is_new = |g: &Upload| now.saturating_sub(g.since) < ALONE_MICROS_MAX;
        let pauses = self.pause.as_ref().is_some_and(|(_, until)| now < *until);
        !pauses && !self.uploads().any(is_new)
    }

    /// What became of a brick that [`Self::next`] has named.
    pub(in crate::mesh) fn uploaded(
        &mut self,
        to: &PeerId,
        (data_set, brick): (Digest, BrickIndex),
        result: UploadResult,
        now: u64,
    ) {
        let Some(requests) = self.peers.get_mut(to) else {
            return;
        };
        let is_it = |g: &Upload| (g.request.data_set, g.request.brick) == (data_set, brick);
        let Some(at) = requests.uploads.iter().position(is_it) else {
            return;
        };
        if result == UploadResult::Queued {
            requests.uploads[at].is_queued = true;
            return;
        }
        let took = now.saturating_sub(requests.uploads.remove(at).since);
        if result == UploadResult::Written && took < ALONE_MICROS_MAX {
            let until = now.saturating_add(pause_micros(took));
            self.pause = Some((to.clone(), until));
        }
    }

    /// A peer cannot be reached any more: nothing waits for it.
    pub(in crate::mesh) fn forget(&mut self, peer: &PeerId) {
        self.peers.remove(peer);
        self.pause.take_if(|(to, _)| to == peer);
    }
}

impl Request {
    fn is_for(&self, other: &Self) -> bool {
        (self.data_set, self.brick) == (other.data_set, other.brick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    fn peer(name: &str) -> PeerId {
        PeerId::new(name)
    }

    fn request(n: u32) -> Request {
        Request {
            data_set: Digest::of(b"data"),
            brick: BrickIndex(n),
            bytes: 10,
            is_urgent: false,
        }
    }

    fn asked(of: &[(&str, u32)]) -> Uploads {
        let mut uploads = Uploads::default();
        for &(to, n) in of {
            uploads.ask(&peer(to), request(n)).unwrap();
        }
        uploads
    }

    /// Who is given which brick now, as far as that goes.
    fn given(uploads: &mut Uploads, now: u64, beside_frames: bool) -> Vec<(String, u32)> {
        let next = || uploads.next(now, beside_frames);
        let all = std::iter::from_fn(next);
        all.map(|(to, r)| (to.as_str().to_owned(), r.brick.0))
            .collect()
    }

    fn uploaded(uploads: &mut Uploads, to: &str, n: u32, result: UploadResult, now: u64) {
        let Request {
            data_set, brick, ..
        } = request(n);
        uploads.uploaded(&peer(to), (data_set, brick), result, now);
    }

    fn pairs(of: &[(&str, u32)]) -> Vec<(String, u32)> {
        of.iter().map(|&(p, n)| (p.to_owned(), n)).collect()
    }

    #[test]
    fn each_peer_is_given_one_at_a_time_and_none_waits_for_another() {
        let mut uploads = asked(&[("a", 1), ("a", 2), ("a", 3), ("b", 1)]);
        let first = given(&mut uploads, 0, false);
        assert_eq!(first, pairs(&[("a", 1), ("b", 1)]));
        uploaded(&mut uploads, "a", 1, UploadResult::Queued, 1);
        assert_eq!(given(&mut uploads, 1, false), pairs(&[("a", 2)]));
        uploaded(&mut uploads, "a", 2, UploadResult::NotSent, 2);
        assert_eq!(given(&mut uploads, 2, false), pairs(&[("a", 3)]));
    }

    #[test]
    fn a_peer_waits_for_so_many_at_most_and_for_each_once() {
        let mut uploads = Uploads::default();
        let most = u32::try_from(REQUESTS_MAX).unwrap();
        for n in (0..most).chain(0..most) {
            uploads.ask(&peer("a"), request(n)).unwrap();
        }
        assert!(uploads.ask(&peer("a"), request(most)).is_err());
        assert!(uploads.ask(&peer("b"), request(most)).is_ok());
        // What is being given is not given twice, and may be asked for again after.
        assert_eq!(
            given(&mut uploads, 0, false),
            pairs(&[("a", 0), ("b", most)])
        );
        uploads.ask(&peer("b"), request(most)).unwrap();
        uploaded(&mut uploads, "b", most, UploadResult::Queued, 1);
        uploads.ask(&peer("b"), request(most)).unwrap();
        assert_eq!(given(&mut uploads, 1, false), []);
        uploaded(&mut uploads, "b", most, UploadResult::Written, 2);
        uploads.ask(&peer("b"), request(most)).unwrap();
        assert_eq!(given(&mut uploads, 2, false), pairs(&[("b", most)]));
    }

    #[test]
    fn so_many_bytes_are_on_their_way_or_one_brick() {
        let large = |n| Request {
            bytes: UPLOAD_BYTES_MAX + 1,
            ..request(n)
        };
        let mut uploads = Uploads::default();
        uploads.ask(&peer("a"), large(1)).unwrap();
        uploads.ask(&peer("b"), large(2)).unwrap();
        assert_eq!(given(&mut uploads, 0, false), pairs(&[("a", 1)]));
        uploaded(&mut uploads, "a", 1, UploadResult::Queued, 1);
        assert_eq!(given(&mut uploads, 1, false), pairs(&[("b", 2)]));
    }

    #[test]
    fn beside_frames_all_peers_together_are_given_a_quarter_of_the_time() {
        let mut uploads = asked(&[("a", 1), ("a", 2), ("b", 1)]);
        assert_eq!(given(&mut uploads, 0, true), pairs(&[("a", 1)]));
        uploaded(&mut uploads, "a", 1, UploadResult::Queued, 1);
        assert_eq!(given(&mut uploads, MS, true), [], "it is not written");
        uploaded(&mut uploads, "a", 1, UploadResult::Written, 10 * MS);
        assert_eq!(given(&mut uploads, 40 * MS - 1, true), [], "a pause");
        // Who was given one waits for the others.
        assert_eq!(given(&mut uploads, 40 * MS, true), pairs(&[("b", 1)]));
        uploaded(&mut uploads, "b", 1, UploadResult::NotSent, 50 * MS);
        assert_eq!(given(&mut uploads, 50 * MS, true), pairs(&[("a", 2)]));
    }

    #[test]
    fn without_frames_nothing_pauses() {
        let mut uploads = asked(&[("a", 1), ("a", 2)]);
        assert_eq!(given(&mut uploads, 0, true), pairs(&[("a", 1)]));
        uploaded(&mut uploads, "a", 1, UploadResult::Written, 10 * MS);
        assert_eq!(given(&mut uploads, 10 * MS, true), []);
        assert_eq!(given(&mut uploads, 10 * MS, false), pairs(&[("a", 2)]));
    }

    #[test]
    fn who_does_not_take_its_brick_keeps_the_others_once_for_so_long() {
        let mut uploads = asked(&[("a", 1), ("a", 2), ("b", 1), ("b", 2)]);
        assert_eq!(given(&mut uploads, 0, true), pairs(&[("a", 1)]));
        uploaded(&mut uploads, "a", 1, UploadResult::Queued, 1);
        assert_eq!(given(&mut uploads, ALONE_MICROS_MAX - 1, true), []);
        let mut now = ALONE_MICROS_MAX;
        for n in [1, 2] {
            assert_eq!(given(&mut uploads, now, true), pairs(&[("b", n)]));
            uploaded(&mut uploads, "b", n, UploadResult::Written, now + MS);
            now += 4 * MS;
        }
        assert_eq!(given(&mut uploads, now, true), [], "a has its first yet");
        // It is written at last: what took so long asks for no pause.
        uploaded(&mut uploads, "a", 1, UploadResult::Written, now);
        assert_eq!(given(&mut uploads, now, true), pairs(&[("a", 2)]));
    }

    #[test]
    fn nobody_waits_for_one_that_is_gone() {
        let mut uploads = asked(&[("a", 1), ("b", 1), ("b", 2)]);
        assert_eq!(given(&mut uploads, 0, true), pairs(&[("a", 1)]));
        uploads.forget(&peer("a"));
        assert_eq!(given(&mut uploads, MS, true), pairs(&[("b", 1)]));
        // What was not written when the connection broke is told before or after that.
        uploaded(&mut uploads, "a", 1, UploadResult::Written, MS);
        uploaded(&mut uploads, "b", 1, UploadResult::Written, 2_000 * MS);
        uploads.forget(&peer("b"));
        uploads.ask(&peer("c"), request(1)).unwrap();
        assert_eq!(given(&mut uploads, 2_000 * MS, true), pairs(&[("c", 1)]));
    }
}

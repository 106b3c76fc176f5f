//! The bricks on their way to a peer: from whom each was asked, how often, and who did not give what
//! it was asked for.
//!
//! Invariant: every fetch ends, by arrival, refusal, time-out or loss of the peer, and is then tried
//! elsewhere, at those first who gave what they were asked for.
//! Not here: which brick is wanted next, and who holds it (`holding`); how many at a time (`keeper`).

use super::Origin;
use crate::{base::peer::PeerId, data::brick_grid::BrickIndex};
use std::collections::{BTreeMap, BTreeSet};

/// How long a holder may take to answer at first, and twice as long each further time: bricks may
/// be large, and links slow.
pub(super) const FETCH_MICROS: u64 = 20_000_000;
/// It is doubled so many times at most: what comes later is taken, too.
const DOUBLINGS_MAX: u32 = 2;
/// Where reading here fails, one brick in so many is read yet before others are asked for it.
const RETRIED_ONE_IN: u32 = 8;
/// How long a refused brick waits before it is asked for elsewhere.
pub(super) const REFUSED_MICROS: u64 = 200_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Fetches {
    fetches: BTreeMap<BrickIndex, Fetch>,
    attempts: BTreeMap<BrickIndex, u32>,
    /// Bricks in a row that did not come from a peer, or came damaged; those without are not in it.
    failures: BTreeMap<PeerId, u32>,
    /// Bricks in a row that could not be read here.
    failed_reads: u32,
    /// What was asked of whom and did not come in its time: it may come yet.
    overdue: BTreeSet<(BrickIndex, PeerId)>,
}

#[derive(Clone, Debug)]
enum Fetch {
    Asked {
        from: PeerId,
        since: u64,
    },
    Paused {
        until: u64,
    },
    /// Read here, from the source, since then, into device memory.
    Reading {
        since: u64,
    },
    /// It came from a peer and is on its way into device memory.
    Loading {
        from: PeerId,
    },
}

impl Fetches {
    /// How many bricks are on their way.
    pub(super) fn count(&self) -> usize {
        let paused = |f: &&Fetch| matches!(f, Fetch::Paused { .. });
        self.fetches.len() - self.fetches.values().filter(paused).count()
    }

    /// Whether a brick is among those that [`Self::count`] counts.
    pub(super) fn is_on_its_way(&self, brick: BrickIndex) -> bool {
        let fetch = self.fetches.get(&brick);
        fetch.is_some_and(|f| !matches!(f, Fetch::Paused { .. }))
    }

    /// Whether a brick is neither on its way nor to wait before it is asked for again.
    pub(super) fn is_open(&self, brick: BrickIndex) -> bool {
        !self.fetches.contains_key(&brick)
    }

    /// A brick is on its way from now on.
    pub(super) fn begin(&mut self, brick: BrickIndex, origin: &Origin, now: u64) {
        let fetch = match origin {
            Origin::Source => Fetch::Reading { since: now },
            Origin::Peer(from) => Fetch::Asked {
                from: from.clone(),
                since: now,
            },
        };
        self.fetches.insert(brick, fetch);
        *self.attempts.entry(brick).or_default() += 1;
    }

    /// Whom to ask among the holders of a brick: whoever gave what was asked of it comes before
    /// whoever did not, and each attempt goes to the next.
    pub(super) fn whom<'a>(
        &self,
        brick: BrickIndex,
        mut holders: Vec<&'a PeerId>,
    ) -> Option<&'a PeerId> {
        let failures = |p: &PeerId| self.failures.get(p).copied().unwrap_or(0);
        let fewest = holders.iter().map(|p| failures(p)).min();
        holders.retain(|p| Some(failures(p)) == fewest);
        let turn = brick.0 as usize + self.attempts(brick) as usize;
        Some(holders[turn.checked_rem(holders.len())?])
    }

    /// Whether reading a brick here comes before asking others for it: reading has not failed, or it is
    /// to be found out whether that is over, and it is not their turn.
    pub(super) fn comes_from_here(&self, brick: BrickIndex) -> bool {
        let is_tried = self.failed_reads == 0 || brick.0.is_multiple_of(RETRIED_ONE_IN);
        is_tried && self.attempts(brick).is_multiple_of(2)
    }

    /// There is a device again: what it did not take was not badly read.
    pub(super) fn device_is_back(&mut self) {
        self.failed_reads = 0;
        self.failures.clear();
    }

    /// Whether anybody, or reading here, failed last.
    pub(super) fn any_failed(&self) -> bool {
        self.failed_reads > 0 || !self.failures.is_empty()
    }

    /// Bricks in a row that did not come from there, or came damaged.
    pub(super) fn failures_of(&self, origin: &Origin) -> u32 {
        match origin {
            Origin::Source => self.failed_reads,
            Origin::Peer(peer) => self.failures.get(peer).copied().unwrap_or(0),
        }
    }

    /// How many microseconds a brick took that is awaited from this peer, 0 where it comes too late
    /// and `may_be_late`; from then on it is being loaded.
    pub(super) fn arrived(
        &mut self,
        brick: BrickIndex,
        peer: &PeerId,
        now: u64,
        may_be_late: bool,
    ) -> Option<u64> {
        let is_overdue = self.overdue.remove(&(brick, peer.clone())) && may_be_late;
        let took = match self.fetches.get(&brick) {
            Some(Fetch::Asked { from, since }) if from == peer => now.saturating_sub(*since),
            Some(Fetch::Asked { .. } | Fetch::Paused { .. }) | None if is_overdue => 0,
            _ => return None,
        };
        let from = peer.clone();
        self.fetches.insert(brick, Fetch::Loading { from });
        Some(took)
    }

    /// How often a brick was begun in vain.
    pub(super) fn attempts(&self, brick: BrickIndex) -> u32 {
        self.attempts.get(&brick).copied().unwrap_or(0)
    }

    /// The brick did not come, or was damaged: pause, then ask elsewhere.
    pub(super) fn failed(&mut self, brick: BrickIndex, now: u64) {
        let until = now.saturating_add(REFUSED_MICROS);
        let before = self.fetches.insert(brick, Fetch::Paused { until });
        match before {
            Some(Fetch::Asked { from, .. } | Fetch::Loading { from }) => self.gave_nothing(from),
            Some(Fetch::Reading { .. }) => {
                self.failed_reads = self.failed_reads.saturating_add(1);
            }
            Some(Fetch::Paused { .. }) | None => {}
        }
    }

    /// A peer does not give a brick, which may be awaited from another one since.
    pub(super) fn refused(&mut self, brick: BrickIndex, peer: &PeerId, now: u64) {
        self.overdue.remove(&(brick, peer.clone()));
        let fetch = self.fetches.get(&brick);
        if matches!(fetch, Some(Fetch::Asked { from, .. }) if from == peer) {
            self.failed(brick, now);
        }
    }

    fn gave_nothing(&mut self, peer: PeerId) {
        let failures = self.failures.entry(peer).or_default();
        *failures = failures.saturating_add(1);
    }

    /// The brick is in device memory; returns how many microseconds it took to read here.
    pub(super) fn loaded(&mut self, brick: BrickIndex, now: u64) -> Option<u64> {
        self.attempts.remove(&brick);
        self.overdue.retain(|(b, _)| *b != brick);
        match self.fetches.remove(&brick)? {
            Fetch::Reading { since } => {
                self.failed_reads = 0;
                Some(now.saturating_sub(since))
            }
            Fetch::Loading { from } => {
                self.failures.remove(&from);
                None
            }
            Fetch::Asked { .. } | Fetch::Paused { .. } => None,
        }
    }

    /// The brick need not come: it is here, or there is no room for it. If it is wanted later, that is
    /// the first attempt.
    pub(super) fn end(&mut self, brick: BrickIndex) {
        self.fetches.remove(&brick);
        self.attempts.remove(&brick);
        self.overdue.retain(|(b, _)| *b != brick);
    }

    /// What was asked of a peer will not come: the connection is broken.
    pub(super) fn unreachable(&mut self, peer: &PeerId) {
        self.overdue.retain(|(_, p)| p != peer);
        let of_it = |_: &_, f: &mut Fetch| matches!(f, Fetch::Asked { from, .. } if from == peer);
        for (brick, _) in self.fetches.extract_if(.., of_it) {
            // It was not for the brick that it did not come.
            if let Some(attempts) = self.attempts.get_mut(&brick) {
                *attempts = attempts.saturating_sub(1);
            }
        }
    }

    /// Forgets a peer that is gone.
    pub(super) fn forget(&mut self, peer: &PeerId) {
        self.failures.remove(peer);
        self.unreachable(peer);
    }

    /// Ends fetches and pauses whose time is over.
    pub(super) fn expire(&mut self, now: u64) {
        let is_over = |brick: &BrickIndex, f: &mut Fetch| match f {
            Fetch::Asked { since, .. } => {
                let attempts = self.attempts.get(brick).copied().unwrap_or(1);
                let time = FETCH_MICROS << attempts.saturating_sub(1).min(DOUBLINGS_MAX);
                now.saturating_sub(*since) >= time
            }
            Fetch::Paused { until } => *until <= now,
            Fetch::Reading { .. } | Fetch::Loading { .. } => false,
        };
        let over: Vec<_> = self.fetches.extract_if(.., is_over).collect();
        for (brick, fetch) in over {
            if let Fetch::Asked { from, .. } = fetch {
                self.overdue.insert((brick, from.clone()));
                self.gave_nothing(from);
            }
        }
    }

    /// Fetches and pauses.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.fetches.len()
    }

    /// Who was asked for a brick that has not come yet.
    #[cfg(test)]
    pub(super) fn asked(&self) -> impl Iterator<Item = &PeerId> {
        self.fetches.values().filter_map(|f| match f {
            Fetch::Asked { from, .. } => Some(from),
            _ => None,
        })
    }
}

//! The bricks on their way to a peer, of all data sets: which is next, from whom each was asked, how often,
//! and who did not give what it was asked for.
//!
//! Invariant: every download ends, by arrival, refusal, time-out or loss of the peer, and is then tried
//! elsewhere, at those first who gave what they were asked for.
//! Not here: which bricks are wanted, and who holds them (`replicas`).

use crate::{
    base::{backoff::Backoff, digest::Digest, peer::PeerId, seeded::mixed},
    data::brick_grid::BrickIndex,
    mesh::{
        assignment::name_hash,
        replicas::{Origin, Replicas},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// A brick of a data set.
pub(in crate::mesh) type BrickName = (Digest, BrickIndex);

/// How long a holder may take to answer at first, and twice as long each further time: bricks may
/// be large, and links slow.
pub(in crate::mesh) const DOWNLOAD_MICROS: u64 = 20_000_000;
/// No holder has more time: what comes later is taken, too.
const TIMES: Backoff = Backoff::new(DOWNLOAD_MICROS, 4 * DOWNLOAD_MICROS);
/// The same where a frame waits: what was asked for may be lost.
const FRAME_TIMES: Backoff = Backoff::new(2_000_000, 4 * DOWNLOAD_MICROS);
/// Where reading here fails, one brick in so many is read yet before others are asked for it.
const RETRIED_ONE_IN: u32 = 8;
/// Bricks whose order is worked out at a time, where more are to be had: what is worked out for each brick that comes
/// would else take time that grows with the square of their number.
const QUEUE_MAX: usize = 1024;
/// How long a refused brick waits before it is asked for elsewhere.
pub(in crate::mesh) const REFUSED_MICROS: u64 = 200_000;

/// How urgent a brick is to be had; less is more urgent. What did not come keeps nothing else waiting, in
/// whichever data set; else the scarcest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::mesh) struct Urgency {
    /// How often it was tried in vain, and what it would be asked of gave nothing.
    in_vain: u32,
    /// Others who stay and hold it.
    others: u32,
    /// How often it was begun.
    attempts: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub(in crate::mesh) struct Downloads {
    local_hash: u64,
    /// How long a holder may take to answer.
    times: Backoff,
    downloads: BTreeMap<BrickName, Download>,
    attempts: BTreeMap<BrickName, u32>,
    /// Bricks in a row that did not come from a peer, or came damaged; those without are not in it.
    failures: BTreeMap<PeerId, u32>,
    /// Bricks in a row that could not be read here; data sets without are not in it.
    failed_reads: BTreeMap<Digest, u32>,
    /// What was asked of whom and did not come in its time: it may come yet.
    overdue: BTreeSet<(BrickName, PeerId)>,
    /// What is to be had next, the most urgent last, at most [`QUEUE_MAX`]; the data sets that it was worked out for, with their
    /// [`Replicas::changes`].
    queued: Vec<BrickName>,
    queued_of: Vec<(Digest, bool, u64)>,
    #[cfg(test)]
    queues: usize,
}

#[derive(Clone, Debug)]
enum Download {
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

impl Downloads {
    pub(in crate::mesh) fn new(local: &PeerId) -> Self {
        Self {
            local_hash: name_hash(local),
            times: TIMES,
            downloads: BTreeMap::new(),
            attempts: BTreeMap::new(),
            failures: BTreeMap::new(),
            failed_reads: BTreeMap::new(),
            overdue: BTreeSet::new(),
            queued: Vec::new(),
            queued_of: Vec::new(),
            #[cfg(test)]
            queues: 0,
        }
    }

    /// Those that frames wait for.
    pub(in crate::mesh) fn for_frames(local: &PeerId) -> Self {
        Self {
            times: FRAME_TIMES,
            ..Self::new(local)
        }
    }

    fn on_their_way(&self) -> impl Iterator<Item = &BrickName> {
        let is_on_its_way = |d: &Download| !matches!(d, Download::Paused { .. });
        let all = self.downloads.iter();
        all.filter(move |(_, d)| is_on_its_way(d))
            .map(|(name, _)| name)
    }

    /// How many bricks are on their way.
    pub(in crate::mesh) fn count(&self) -> usize {
        self.on_their_way().count()
    }

    /// How many of them are of this data set.
    pub(in crate::mesh) fn count_of(&self, data_set: Digest) -> usize {
        self.on_their_way().filter(|n| n.0 == data_set).count()
    }

    /// Whether a brick is among those that [`Self::count`] counts.
    fn is_on_its_way(&self, brick: BrickName) -> bool {
        let download = self.downloads.get(&brick);
        download.is_some_and(|d| !matches!(d, Download::Paused { .. }))
    }

    /// Whether a brick is being read here, or on its way into device memory.
    pub(in crate::mesh) fn is_loading(&self, brick: BrickName) -> bool {
        let download = self.downloads.get(&brick);
        matches!(
            download,
            Some(Download::Reading { .. } | Download::Loading { .. })
        )
    }

    /// Whether a brick is neither on its way nor to wait before it is asked for again.
    pub(in crate::mesh) fn is_open(&self, brick: BrickName) -> bool {
        !self.downloads.contains_key(&brick)
    }

    /// The [`QUEUE_MAX`] most urgent bricks of these data sets that are to be had, the most urgent first; of equals in an order of
    /// its own, so that peers that lack the same begin with others. Those of data sets that are coarser levels of another one, as the
    /// last part of each says, come first: a picture is made of few of them. Bricks that nobody could give are not among them. O(bricks · peers).
    pub(in crate::mesh) fn queue(&self, sets: &[(Digest, &Replicas, bool)]) -> Vec<BrickName> {
        let mut queue: Vec<(u32, bool, Urgency, u64, BrickName)> = Vec::new();
        let lacking = sets.iter().filter(|(_, r, _)| r.missing_count() > 0);
        for &(data_set, replicas, is_level) in lacking {
            let missing = replicas.missing(|b| self.is_open((data_set, b)));
            let missing = missing.filter(|&b| replicas.can_be_had(b));
            queue.extend(missing.map(|b| {
                let turn = mixed(self.local_hash ^ u64::from(b.0));
                let urgency = self.urgency((data_set, b), replicas);
                (urgency.in_vain, !is_level, urgency, turn, (data_set, b))
            }));
        }
        if queue.len() > QUEUE_MAX {
            queue.select_nth_unstable(QUEUE_MAX - 1);
            queue.truncate(QUEUE_MAX);
        }
        queue.sort_unstable();
        queue.into_iter().map(|(.., name)| name).collect()
    }

    /// Works out the queue of these data sets, unless there is one of the same, more bricks are missing than it took, and nothing has failed or
    /// changed since: then that is used up first. While frames are rendered bricks come slowly, and the most urgent one is looked for each
    /// time. Returns whether it is a new one.
    pub(in crate::mesh) fn line_up(
        &mut self,
        sets: &[(Digest, &Replicas, bool)],
        is_rendering: bool,
    ) -> bool {
        let missing = sets
            .iter()
            .map(|(_, replicas, _)| replicas.missing_count() as usize);
        let is_kept =
            !is_rendering && missing.sum::<usize>() > QUEUE_MAX && !self.queued.is_empty();
        let of: Vec<_> = sets
            .iter()
            .map(|&(data_set, replicas, is_level)| (data_set, is_level, replicas.changes()))
            .collect();
        let is_new = !is_kept || self.queued_of != of;
        if is_new {
            self.queued = self.queue(sets);
            self.queued.reverse();
            self.queued_of = of;
            #[cfg(test)]
            {
                self.queues += 1;
            }
        }
        is_new
    }

    /// Takes the next brick out of the queue.
    pub(in crate::mesh) fn next(&mut self) -> Option<BrickName> {
        self.queued.pop()
    }

    /// The queue is worked out anew next time.
    pub(in crate::mesh) fn forget_queue(&mut self) {
        self.queued.clear();
    }

    pub(in crate::mesh) fn urgency(&self, name: BrickName, replicas: &Replicas) -> Urgency {
        // Looking for the origin takes a while, and mostly nothing has failed.
        let any_failed = !self.failed_reads.is_empty() || !self.failures.is_empty();
        let origin = any_failed.then(|| self.origin(name, replicas)).flatten();
        let in_vain = origin.map_or(0, |origin| match origin {
            Origin::Source => self.failed_reads(name.0),
            Origin::Peer(peer) => self.failures_of(&peer),
        });
        let attempts = self.attempts(name);
        Urgency {
            // It may come at the second attempt.
            in_vain: in_vain.saturating_add(attempts.saturating_sub(1)),
            others: replicas.others_hold(name.1),
            attempts,
        }
    }

    /// Where a brick is to come from next.
    pub(in crate::mesh) fn origin(&self, name: BrickName, replicas: &Replicas) -> Option<Origin> {
        let is_here = replicas.is_here(name.1);
        if is_here && self.comes_from_here(name) {
            return Some(Origin::Source);
        }
        let from = self.whom(name, replicas.givers(name.1));
        let from = from.map(|p| Origin::Peer(p.clone()));
        from.or(is_here.then_some(Origin::Source))
    }

    /// The same of a brick that is not to be read from a disk here.
    pub(in crate::mesh) fn origin_of_others(
        &self,
        name: BrickName,
        replicas: &Replicas,
    ) -> Option<Origin> {
        if replicas.has_copy(name.1) && self.attempts(name) == 0 {
            return Some(Origin::Source);
        }
        let from = self.whom(name, replicas.givers(name.1));
        from.map(|p| Origin::Peer(p.clone()))
    }

    /// A brick is on its way from now on.
    pub(in crate::mesh) fn begin(&mut self, brick: BrickName, origin: &Origin, now: u64) {
        let download = match origin {
            Origin::Source => Download::Reading { since: now },
            Origin::Peer(from) => Download::Asked {
                from: from.clone(),
                since: now,
            },
        };
        self.downloads.insert(brick, download);
        *self.attempts.entry(brick).or_default() += 1;
    }

    /// A brick that is on its way elsewhere comes here instead, or is awaited there if it has come. Returns whether it
    /// is on its way.
    pub(in crate::mesh) fn take_over(&mut self, brick: BrickName, from: &mut Self) -> bool {
        match from.downloads.get(&brick) {
            Some(Download::Loading { .. }) => true,
            Some(asked @ Download::Asked { .. }) => {
                self.downloads.insert(brick, asked.clone());
                *self.attempts.entry(brick).or_default() += 1;
                from.end(brick);
                true
            }
            Some(Download::Reading { .. } | Download::Paused { .. }) | None => {
                from.end(brick);
                false
            }
        }
    }

    /// Whom to ask among the holders of a brick: whoever gave what was asked of it comes before
    /// whoever did not, and each attempt goes to the next.
    fn whom<'a>(&self, brick: BrickName, mut holders: Vec<&'a PeerId>) -> Option<&'a PeerId> {
        let fewest = holders.iter().map(|p| self.failures_of(p)).min();
        holders.retain(|p| Some(self.failures_of(p)) == fewest);
        let turn = brick.1.0 as usize + self.attempts(brick) as usize;
        Some(holders[turn.checked_rem(holders.len())?])
    }

    /// Whether reading a brick here comes before asking others for it: reading has not failed, or it is
    /// to be found out whether that is over, and it is not their turn.
    fn comes_from_here(&self, brick: BrickName) -> bool {
        let is_tried = self.failed_reads(brick.0) == 0 || brick.1.0.is_multiple_of(RETRIED_ONE_IN);
        is_tried && self.attempts(brick).is_multiple_of(2)
    }

    /// There is a device again: what it did not take was not badly read.
    pub(in crate::mesh) fn device_is_back(&mut self) {
        self.failed_reads.clear();
        self.failures.clear();
        self.forget_queue();
    }

    /// Bricks in a row that did not come from a peer, or came damaged.
    pub(in crate::mesh) fn failures_of(&self, peer: &PeerId) -> u32 {
        self.failures.get(peer).copied().unwrap_or(0)
    }

    /// Bricks of a data set in a row that could not be read here.
    fn failed_reads(&self, data_set: Digest) -> u32 {
        self.failed_reads.get(&data_set).copied().unwrap_or(0)
    }

    /// How many microseconds a brick took that is awaited from this peer, 0 where it comes too late
    /// and `may_be_late`, and there is a place for it; from then on it is being loaded.
    pub(in crate::mesh) fn arrived(
        &mut self,
        brick: BrickName,
        peer: &PeerId,
        now: u64,
        may_be_late: bool,
        has_place: bool,
    ) -> Option<u64> {
        let may_be_late = may_be_late && (has_place || self.is_on_its_way(brick));
        let is_overdue = self.overdue.remove(&(brick, peer.clone())) && may_be_late;
        let took = match self.downloads.get(&brick) {
            Some(Download::Asked { from, since }) if from == peer => now.saturating_sub(*since),
            Some(Download::Asked { .. } | Download::Paused { .. }) | None if is_overdue => 0,
            _ => return None,
        };
        let from = peer.clone();
        self.downloads.insert(brick, Download::Loading { from });
        Some(took)
    }

    /// Bricks that were asked of peers and have not come.
    pub(in crate::mesh) fn asked(&self) -> impl Iterator<Item = BrickName> {
        let asked = self.downloads.iter();
        let asked = asked.filter(|(_, d)| matches!(d, Download::Asked { .. }));
        asked.map(|(name, _)| *name)
    }

    /// How often a brick was begun in vain.
    pub(in crate::mesh) fn attempts(&self, brick: BrickName) -> u32 {
        self.attempts.get(&brick).copied().unwrap_or(0)
    }

    /// The brick did not come, or was damaged: pause, then ask elsewhere.
    pub(in crate::mesh) fn failed(&mut self, brick: BrickName, now: u64) {
        self.forget_queue();
        let until = now.saturating_add(REFUSED_MICROS);
        let before = self.downloads.insert(brick, Download::Paused { until });
        match before {
            Some(Download::Asked { from, .. } | Download::Loading { from }) => {
                self.gave_nothing(from)
            }
            Some(Download::Reading { .. }) => {
                let failed = self.failed_reads.entry(brick.0).or_default();
                *failed = failed.saturating_add(1);
            }
            Some(Download::Paused { .. }) | None => {}
        }
    }

    /// A peer does not give a brick, which may be awaited from another one since.
    pub(in crate::mesh) fn refused(&mut self, brick: BrickName, peer: &PeerId, now: u64) {
        self.overdue.remove(&(brick, peer.clone()));
        let download = self.downloads.get(&brick);
        if matches!(download, Some(Download::Asked { from, .. }) if from == peer) {
            self.failed(brick, now);
        }
    }

    fn gave_nothing(&mut self, peer: PeerId) {
        self.forget_queue();
        let failures = self.failures.entry(peer).or_default();
        *failures = failures.saturating_add(1);
    }

    /// The brick is in device memory; returns how many microseconds it took to read here.
    pub(in crate::mesh) fn loaded(&mut self, brick: BrickName, now: u64) -> Option<u64> {
        self.attempts.remove(&brick);
        self.overdue.retain(|(b, _)| *b != brick);
        match self.downloads.remove(&brick)? {
            Download::Reading { since } => {
                self.failed_reads.remove(&brick.0);
                Some(now.saturating_sub(since))
            }
            Download::Loading { from } => {
                self.failures.remove(&from);
                None
            }
            Download::Asked { .. } | Download::Paused { .. } => None,
        }
    }

    /// The brick need not come: it is here, or there is no room for it. If it is wanted later, that is
    /// the first attempt.
    pub(in crate::mesh) fn end(&mut self, brick: BrickName) {
        self.downloads.remove(&brick);
        self.attempts.remove(&brick);
        self.overdue.retain(|(b, _)| *b != brick);
    }

    /// What was asked of a peer will not come: the connection is broken.
    pub(in crate::mesh) fn unreachable(&mut self, peer: &PeerId) {
        self.overdue.retain(|(_, p)| p != peer);
        // What was asked of it is the most urgent.
        self.forget_queue();
        let of_it =
            |_: &_, f: &mut Download| matches!(f, Download::Asked { from, .. } if from == peer);
        for (brick, _) in self.downloads.extract_if(.., of_it) {
            // It was not for the brick that it did not come.
            if let Some(attempts) = self.attempts.get_mut(&brick) {
                *attempts = attempts.saturating_sub(1);
            }
        }
    }

    /// A data set is closed: nothing of it is wanted.
    pub(in crate::mesh) fn close(&mut self, data_set: Digest) {
        self.downloads.retain(|name, _| name.0 != data_set);
        self.attempts.retain(|name, _| name.0 != data_set);
        self.overdue.retain(|(name, _)| name.0 != data_set);
        self.failed_reads.remove(&data_set);
    }

    /// Forgets a peer that is gone.
    pub(in crate::mesh) fn forget(&mut self, peer: &PeerId) {
        self.failures.remove(peer);
        self.unreachable(peer);
    }

    /// Ends downloads and pauses whose time is over.
    pub(in crate::mesh) fn expire(&mut self, now: u64) {
        let is_over = |brick: &BrickName, f: &mut Download| match f {
            Download::Asked { since, .. } => {
                let attempts = self.attempts.get(brick).copied().unwrap_or(1);
                now.saturating_sub(*since) >= self.times.micros(attempts.saturating_sub(1))
            }
            Download::Paused { until } => *until <= now,
            Download::Reading { .. } | Download::Loading { .. } => false,
        };
        let over: Vec<_> = self.downloads.extract_if(.., is_over).collect();
        if !over.is_empty() {
            // What may be asked for again can be the most urgent.
            self.forget_queue();
        }
        for (brick, download) in over {
            if let Download::Asked { from, .. } = download {
                self.overdue.insert((brick, from.clone()));
                self.gave_nothing(from);
            }
        }
    }

    /// How often the queue was worked out.
    #[cfg(test)]
    pub(in crate::mesh) fn queues(&self) -> usize {
        self.queues
    }

    /// Downloads and pauses.
    #[cfg(test)]
    pub(in crate::mesh) fn len(&self) -> usize {
        self.downloads.len()
    }

    /// Who was asked for a brick that has not come yet.
    #[cfg(test)]
    pub(in crate::mesh) fn asked_peers(&self) -> impl Iterator<Item = &PeerId> {
        self.downloads.values().filter_map(|f| match f {
            Download::Asked { from, .. } => Some(from),
            _ => None,
        })
    }
}

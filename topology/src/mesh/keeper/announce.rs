//! What the keeper announces of its data sets, and what it hears of those of others.
//!
//! All of an announcement goes to whoever is new, then changes to all, and now and then digests: whoever did not hear all
//! that a digest names asks for the whole.

use super::{DATA_SETS_MAX, DataSet, Keeper, KeeperMessage, KeeperOutput, Leaving};
use crate::{
    base::{digest::Digest, peer::PeerId},
    data::brick_set::BrickSet,
    mesh::announcement::{Announcement, AnnouncementChange, Said, Saying},
};
use std::{collections::BTreeMap, sync::Arc};

/// Longest set of bricks that is kept for a data set that is not known yet, in words of 64: its
/// manifest would be larger than a message can be.
const EARLY_WORDS_MAX: usize = 2048;
/// Most data sets that are not known yet whose announcements by a peer are kept.
const EARLY_MAX: usize = 64;

/// A peer that does not answer is asked again after this for what it announces of a data set.
const ASK_MICROS: u64 = 1_000_000;

impl DataSet {
    /// What was announced of it, for one who did not hear it.
    pub(super) fn residency(&self, data_set: Digest) -> Option<KeeperMessage> {
        let announcement = Arc::clone(self.said.as_ref()?.announcement());
        Some(KeeperMessage::Residency {
            data_set,
            announcement,
        })
    }
}

impl Keeper {
    /// Tells all peers what has changed of what is held.
    pub(super) fn announce(&mut self, out: &mut Vec<KeeperOutput>) {
        if self.leaving == Leaving::Gone {
            return;
        }
        self.dirty = false;
        let mut messages = Vec::new();
        for (&data_set, set) in &mut self.sets {
            let now = set.replicas.announcement();
            let saying = match &mut set.said {
                Some(said) => said.say(now),
                said => {
                    let said = said.insert(Said::new(now.clone()));
                    Some(Saying::Whole(Arc::clone(said.announcement())))
                }
            };
            messages.extend(saying.map(|saying| match saying {
                Saying::Whole(announcement) => KeeperMessage::Residency {
                    data_set,
                    announcement,
                },
                Saying::Change(change) => KeeperMessage::ResidencyChanged { data_set, change },
            }));
        }
        for message in &messages {
            self.send_all(message, out);
        }
    }

    /// Names to all peers what was announced, for who missed any of it.
    pub(super) fn say_digests(&mut self, out: &mut Vec<KeeperOutput>) {
        if self.leaving == Leaving::Gone {
            return;
        }
        self.digests_at = self.now;
        let said = self
            .sets
            .iter()
            .filter_map(|(d, s)| Some((*d, s.said.as_ref()?.digest())));
        let digests = Arc::new(said.collect());
        self.send_all(&KeeperMessage::ResidencyDigests { digests }, out);
    }

    /// What a peer announced last of a data set, as far as it was heard.
    fn heard_of(&self, from: &PeerId, data_set: Digest) -> Option<&Arc<Announcement>> {
        let early = || self.early.get(from)?.get(&data_set);
        let set = self.sets.get(&data_set);
        let known = set.filter(|_| self.members.health(from).is_some());
        known.map_or_else(early, |set| set.replicas.others().get(from))
    }

    pub(super) fn heard_change(
        &mut self,
        from: PeerId,
        data_set: Digest,
        change: &AnnouncementChange,
        out: &mut Vec<KeeperOutput>,
    ) {
        let before = self.heard_of(&from, data_set);
        let Some(before) = before.filter(|b| b.digest() == change.before()) else {
            self.ask_to_announce(&from, data_set, out);
            return;
        };
        if let Some(announcement) = before.changed(change) {
            self.heard_residency(from, data_set, Arc::new(announcement), out);
        } else {
            let why = "a change that does not fit what was announced";
            out.push(KeeperOutput::Dropping(from, why));
        }
    }

    pub(super) fn heard_digests(
        &mut self,
        from: &PeerId,
        digests: &BTreeMap<Digest, Digest>,
        out: &mut Vec<KeeperOutput>,
    ) {
        if digests.len() > DATA_SETS_MAX {
            let why = "digests of more data sets than a peer has";
            out.push(KeeperOutput::Dropping(from.clone(), why));
            return;
        }
        self.forget_unnamed(from, digests, out);
        for (&data_set, digest) in digests {
            let heard = self.heard_of(from, data_set);
            match heard.filter(|a| a.digest() == *digest).map(Arc::clone) {
                None => self.ask_to_announce(from, data_set, out),
                Some(heard) if !self.sets.contains_key(&data_set) => {
                    // Its manifest may be wanting yet.
                    self.heard_residency(from.clone(), data_set, heard, out);
                }
                Some(_) => {}
            }
        }
    }

    /// What a peer has closed, it has nothing of, also where its word of that was missed.
    fn forget_unnamed(
        &mut self,
        from: &PeerId,
        named: &BTreeMap<Digest, Digest>,
        out: &mut Vec<KeeperOutput>,
    ) {
        if let Some(of_peer) = self.early.get_mut(from) {
            of_peer.retain(|data_set, _| named.contains_key(data_set));
        }
        if let Some(asked) = self.asked_to_announce.get_mut(from) {
            asked.retain(|data_set, _| named.contains_key(data_set));
        }
        let has_some = |a: &Announcement| a.in_use || !a.held.is_empty() || !a.assigned.is_empty();
        let closed = self.sets.iter().filter(|(d, set)| {
            let of_peer = set.replicas.others().get(from);
            !named.contains_key(d) && of_peer.is_some_and(|a| has_some(a))
        });
        let closed: Vec<_> = closed
            .map(|(d, set)| (*d, set.manifest.grid().brick_count()))
            .collect();
        for (data_set, bricks) in closed {
            let nothing = Arc::new(Announcement::expected(bricks, 0));
            self.heard_residency(from.clone(), data_set, nothing, out);
        }
    }

    /// What a peer was asked for has come.
    pub(super) fn is_answered(&mut self, from: &PeerId, data_set: Digest) {
        if let Some(asked) = self.asked_to_announce.get_mut(from) {
            asked.remove(&data_set);
        }
    }

    /// Asks a peer for all that it announces of a data set, not again while that may be on its way.
    fn ask_to_announce(&mut self, from: &PeerId, data_set: Digest, out: &mut Vec<KeeperOutput>) {
        let now = self.now;
        let is_open = self.sets.contains_key(&data_set);
        if !is_open && (self.early.get(from)).is_some_and(|e| e.len() >= EARLY_MAX) {
            return;
        }
        let asked = self.asked_to_announce.entry(from.clone()).or_default();
        let is_asked = asked
            .get(&data_set)
            .is_some_and(|at| now.saturating_sub(*at) < ASK_MICROS);
        if !is_asked && (asked.len() < DATA_SETS_MAX || asked.contains_key(&data_set)) {
            asked.insert(data_set, now);
            let need = KeeperMessage::NeedResidency { data_set };
            out.push(KeeperOutput::Send(from.clone(), need));
        }
    }

    pub(super) fn heard_residency(
        &mut self,
        from: PeerId,
        data_set: Digest,
        announcement: Arc<Announcement>,
        out: &mut Vec<KeeperOutput>,
    ) {
        if self.members.health(&from).is_none() {
            // Not believed before it has said what it is, or is back: that may come right after.
            if self.connected.contains(&from) && self.sets.contains_key(&data_set) {
                self.keep_early(from, data_set, announcement);
            }
            return;
        }
        let Some(set) = self.sets.get_mut(&data_set) else {
            if announcement.in_use && self.needs(data_set) {
                let need = KeeperMessage::NeedManifest { data_set };
                out.push(KeeperOutput::Send(from.clone(), need));
            }
            self.keep_early(from, data_set, announcement);
            return;
        };
        let before = set.replicas.others().get(&from);
        let is_as_before = |b: &Arc<Announcement>| {
            b.held == announcement.held
                && b.readable == announcement.readable
                && b.unreadable == announcement.unreadable
                && (b.reserve > 0) == (announcement.reserve > 0)
                && (b.source, b.fetches, b.leaving)
                    == (
                        announcement.source,
                        announcement.fetches,
                        announcement.leaving,
                    )
        };
        let news = !before.is_some_and(is_as_before);
        // Who leaves waits for the others to say that they know.
        self.dirty |= announcement.leaving && before.is_none_or(|b| !b.leaving);
        if !set.replicas.heard(&from, announcement, self.now) {
            let why = "a residency that does not fit the data set";
            out.push(KeeperOutput::Dropping(from, why));
            return;
        }
        if news {
            out.push(KeeperOutput::Roster(data_set));
        }
        self.download_all(out);
    }

    /// Keeps an announcement for when its data set or its peer is known.
    fn keep_early(&mut self, from: PeerId, data_set: Digest, announcement: Arc<Announcement>) {
        let words = |s: &BrickSet| s.words().len();
        let sets = announcement.sets();
        // Changes of it may be as large as it says to be.
        let is_small = sets.into_iter().all(|s| words(s) <= EARLY_WORDS_MAX)
            && announcement.is_valid(announcement.held.brick_count());
        let of_peer = self.early.entry(from).or_default();
        let has_place = of_peer.len() < EARLY_MAX || of_peer.contains_key(&data_set);
        if is_small && has_place {
            of_peer.insert(data_set, announcement);
        }
    }
}

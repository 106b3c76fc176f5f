//! Who is in the mesh, as one peer knows it: what each said of itself last, who is silent or late,
//! who is gone.
//!
//! A pure state machine; times are microseconds of any clock that goes on. Every peer says what it
//! is at each heartbeat, to all it can reach; nobody coordinates. A peer that missed some heartbeats is
//! suspected: frames do without it, its copies still count. One that stays silent, or said
//! goodbye, is gone: its copies are made again.
//!
//! Invariants: a heartbeat that is older than one that was heard changes nothing, so lost, doubled and
//! reordered heartbeats do no harm. A suspicion ends with the next heartbeat, at the latest when the peer is
//! gone; one for late jobs, while it goes on beating, ends by itself.
//! Why not `foca` (SWIM): a frame is given to peers of which each pair hears each other, so every peer's own
//! view is needed, not an agreed one.

use crate::base::{backoff::Backoff, peer::PeerId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most peers that are remembered.
pub const MEMBERS_MAX: usize = 1024;

/// The number of a heartbeat: later ones are greater, also after the peer was started again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Heartbeat {
    /// When the peer was started, by its own clock: microseconds since 1970.
    pub incarnation: u64,
    /// Beats since then.
    pub count: u64,
}

/// How long silence is borne, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A peer speaks this often.
    pub heartbeat: u64,
    /// Silence after which it is suspected.
    pub suspect: u64,
    /// Silence after which it is gone.
    pub gone: u64,
    /// How long the first late job makes a peer suspect; each further one twice as long, up to
    /// `gone`, until it was on time for as long as `gone`.
    pub late: u64,
}

impl Default for Patience {
    /// Four heartbeats a second; suspected once three were missed, for until then frames wait for who
    /// may be dead; gone after eight seconds, for a cable may be put back.
    fn default() -> Self {
        Self {
            heartbeat: 250_000,
            suspect: 800_000,
            gone: 8_000_000,
            late: 500_000,
        }
    }
}

/// How a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It speaks and is on time.
    Well,
    /// It is silent, or its jobs are late: frames do without it.
    Suspect,
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A peer is new, or back after it was gone.
    Joined(PeerId),
    /// A suspicion has ended.
    Recovered(PeerId),
    /// A peer is suspected.
    Suspected(PeerId),
    /// A peer is gone; nothing of it is remembered.
    Gone(PeerId),
    /// A peer said goodbye; nothing of it is remembered.
    Left(PeerId),
}

/// See the module. `R` is what peers say of themselves.
#[derive(Clone, Debug)]
pub struct Membership<R> {
    patience: Patience,
    members: BTreeMap<PeerId, Standing<R>>,
    here_at: Option<u64>,
}

#[derive(Clone, Debug)]
struct Standing<R> {
    record: R,
    heartbeat: Heartbeat,
    heard: u64,
    /// Silence counts from here on as if suspicion were due: the connection is broken.
    lost: bool,
    /// It was not heard for too long, whatever its jobs.
    silent: bool,
    /// Late jobs keep it suspect until then.
    late_until: u64,
    /// Late jobs in a row.
    lates: u32,
    health: Health,
}

impl<R> Standing<R> {
    /// Looks whether it is well; false: it is gone.
    fn judge(
        &mut self,
        peer: &PeerId,
        now: u64,
        patience: Patience,
        changes: &mut Vec<Change>,
    ) -> bool {
        let silence = now.saturating_sub(self.heard);
        if silence >= patience.gone {
            changes.push(Change::Gone(peer.clone()));
            return false;
        }
        self.silent = self.lost || silence >= patience.suspect;
        let health = if self.silent || now < self.late_until {
            Health::Suspect
        } else {
            Health::Well
        };
        if health != self.health {
            self.health = health;
            changes.push(match health {
                Health::Well => Change::Recovered(peer.clone()),
                Health::Suspect => Change::Suspected(peer.clone()),
            });
        }
        true
    }
}

impl<R> Membership<R> {
    /// Nobody yet.
    #[must_use]
    pub const fn new(patience: Patience) -> Self {
        Self {
            patience,
            members: BTreeMap::new(),
            here_at: None,
        }
    }

    /// A heartbeat of a peer arrived. Returns whether its record is news: the heartbeat is later than any
    /// before.
    pub fn heard(
        &mut self,
        peer: &PeerId,
        heartbeat: Heartbeat,
        record: R,
        now: u64,
        changes: &mut Vec<Change>,
    ) -> bool {
        if let Some(standing) = self.members.get_mut(peer) {
            if heartbeat <= standing.heartbeat {
                return false;
            }
            standing.record = record;
            standing.heartbeat = heartbeat;
            standing.heard = now;
            standing.lost = false;
            // It was heard now, so it is not gone.
            standing.judge(peer, now, self.patience, changes);
            return true;
        }
        if self.members.len() >= MEMBERS_MAX {
            return false;
        }
        let standing = Standing {
            record,
            heartbeat,
            heard: now,
            lost: false,
            silent: false,
            late_until: 0,
            lates: 0,
            health: Health::Well,
        };
        self.members.insert(peer.clone(), standing);
        changes.push(Change::Joined(peer.clone()));
        true
    }

    /// The connection to a peer is broken: it is suspected at once.
    pub fn lost(&mut self, peer: &PeerId, now: u64, changes: &mut Vec<Change>) {
        self.give_back(now);
        if let Some(standing) = self.members.get_mut(peer) {
            standing.lost = true;
            self.judge(peer, now, changes);
        }
    }

    /// A peer did not do its part of a frame in time.
    pub fn late(&mut self, peer: &PeerId, now: u64, changes: &mut Vec<Change>) {
        self.give_back(now);
        if let Some(standing) = self.members.get_mut(peer) {
            if now.saturating_sub(standing.late_until) >= self.patience.gone {
                standing.lates = 0;
            }
            let penalties = Backoff::new(self.patience.late, self.patience.gone);
            standing.late_until = now.saturating_add(penalties.micros(standing.lates));
            standing.lates += 1;
            self.judge(peer, now, changes);
        }
    }

    /// A peer said goodbye.
    pub fn left(&mut self, peer: &PeerId, changes: &mut Vec<Change>) {
        if self.members.remove(peer).is_some() {
            changes.push(Change::Left(peer.clone()));
        }
    }

    /// Time has passed; to be called once a heartbeat or more often. After a longer pause this peer itself
    /// slept, or had no processor time, which says nothing of the others: they get that time back
    /// (local health awareness of Dadgar, Phillips, Currey 2017, "Lifeguard").
    pub fn tick(&mut self, now: u64, changes: &mut Vec<Change>) {
        self.give_back(now);
        let patience = self.patience;
        self.members
            .retain(|peer, standing| standing.judge(peer, now, patience, changes));
    }

    /// Nobody was silent while this peer slept, since it looked last.
    fn give_back(&mut self, now: u64) {
        let slept = now.saturating_sub(self.here_at.unwrap_or(now));
        self.here_at = Some(now);
        let back = slept.saturating_sub(self.patience.heartbeat);
        if back > 0 {
            let all = self.members.values_mut();
            all.for_each(|s| s.heard = s.heard.saturating_add(back).min(now));
        }
    }

    fn judge(&mut self, peer: &PeerId, now: u64, changes: &mut Vec<Change>) {
        if let Some(standing) = self.members.get_mut(peer)
            && !standing.judge(peer, now, self.patience, changes)
        {
            self.members.remove(peer);
        }
    }

    /// The last heartbeat of a peer.
    #[must_use]
    pub fn heartbeat(&self, peer: &PeerId) -> Option<Heartbeat> {
        self.members.get(peer).map(|s| s.heartbeat)
    }

    /// What a peer said of itself last.
    #[must_use]
    pub fn record(&self, peer: &PeerId) -> Option<&R> {
        self.members.get(peer).map(|s| &s.record)
    }

    /// What a peer said of itself last, how it is, and whether it is not heard; a peer that is only late
    /// is heard.
    #[must_use]
    pub fn standing(&self, peer: &PeerId) -> Option<(&R, Health, bool)> {
        self.members
            .get(peer)
            .map(|s| (&s.record, s.health, s.silent))
    }

    /// How a peer is; `None`: not in the mesh.
    #[must_use]
    pub fn health(&self, peer: &PeerId) -> Option<Health> {
        self.members.get(peer).map(|s| s.health)
    }

    /// All peers, suspects too, ascending.
    pub fn all(&self) -> impl Iterator<Item = (&PeerId, &R, Health)> {
        self.members.iter().map(|(p, s)| (p, &s.record, s.health))
    }

    /// The peers that are not heard, ascending; not those that are only late.
    pub fn silent(&self) -> impl Iterator<Item = &PeerId> {
        self.members
            .iter()
            .filter_map(|(p, s)| s.silent.then_some(p))
    }

    /// The peers that frames are given to, ascending.
    pub fn well(&self) -> impl Iterator<Item = (&PeerId, &R)> {
        self.all()
            .filter(|(.., health)| *health == Health::Well)
            .map(|(p, r, _)| (p, r))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    fn heartbeat(count: u64) -> Heartbeat {
        Heartbeat {
            incarnation: 1,
            count,
        }
    }

    fn two() -> (Membership<&'static str>, PeerId, PeerId) {
        let (a, b) = (PeerId::new("a"), PeerId::new("b"));
        let mut members = Membership::new(Patience::default());
        let mut changes = Vec::new();
        assert!(members.heard(&a, heartbeat(0), "A", 0, &mut changes));
        assert!(members.heard(&b, heartbeat(0), "B", 0, &mut changes));
        assert_eq!(
            changes,
            [Change::Joined(a.clone()), Change::Joined(b.clone())]
        );
        (members, a, b)
    }

    /// What changes up to a time, ticking all along.
    fn at(members: &mut Membership<&'static str>, ms: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        let from = members.here_at.unwrap_or(0);
        for now in (from..ms * MS).step_by(100_000) {
            members.tick(now, &mut changes);
        }
        members.tick(ms * MS, &mut changes);
        changes
    }

    #[test]
    fn a_peer_that_slept_suspects_nobody_at_once() {
        let (mut members, a, b) = two();
        members.tick(0, &mut Vec::new());
        let mut changes = Vec::new();
        members.tick(60_000 * MS, &mut changes);
        assert_eq!(changes, []);
        members.heard(&a, heartbeat(1), "A", 60_100 * MS, &mut changes);
        assert_eq!(at(&mut members, 60_800), [Change::Suspected(b)]);
    }

    #[test]
    fn what_is_heard_first_after_a_sleep_makes_nobody_gone() {
        let (mut members, a, b) = two();
        members.tick(0, &mut Vec::new());
        let mut changes = Vec::new();
        members.lost(&a, 60_000 * MS, &mut changes);
        members.late(&b, 60_000 * MS, &mut changes);
        assert_eq!(changes, [Change::Suspected(a), Change::Suspected(b)]);
    }

    #[test]
    fn a_peer_that_is_starved_is_as_much_later_to_suspect() {
        let (mut members, a, b) = two();
        let mut changes = Vec::new();
        // 500 ms from tick to tick, where it should be 250 ms.
        for ms in [0, 500, 1_000, 1_500] {
            members.tick(ms * MS, &mut changes);
        }
        assert_eq!(changes, []);
        members.tick(2_000 * MS, &mut changes);
        assert_eq!(changes, [Change::Suspected(a), Change::Suspected(b)]);
    }

    #[test]
    fn silence_makes_suspect_then_gone_and_a_beat_brings_back() {
        let (mut members, a, b) = two();
        let mut changes = Vec::new();
        members.heard(&b, heartbeat(1), "B", 500 * MS, &mut changes);
        assert_eq!(at(&mut members, 799), []);
        assert_eq!(at(&mut members, 800), [Change::Suspected(a.clone())]);
        assert_eq!(members.well().map(|(p, _)| p).collect::<Vec<_>>(), [&b]);
        members.heard(&a, heartbeat(1), "A", 1_000 * MS, &mut changes);
        assert_eq!(changes, [Change::Recovered(a.clone())]);
        assert_eq!(at(&mut members, 1_300), [Change::Suspected(b.clone())]);
        assert_eq!(
            at(&mut members, 8_500).last(),
            Some(&Change::Gone(b.clone()))
        );
        assert_eq!(members.health(&b), None);
        changes.clear();
        members.heard(&b, heartbeat(9), "B", 8_600 * MS, &mut changes);
        assert_eq!(changes, [Change::Joined(b)]);
    }

    #[test]
    fn an_old_beat_changes_nothing() {
        let (mut members, a, _) = two();
        let mut changes = Vec::new();
        assert!(members.heard(&a, heartbeat(5), "new", 100 * MS, &mut changes));
        assert!(!members.heard(&a, heartbeat(5), "twice", 700 * MS, &mut changes));
        assert!(!members.heard(&a, heartbeat(3), "late", 700 * MS, &mut changes));
        assert_eq!(members.record(&a), Some(&"new"));
        assert!(at(&mut members, 1_100).contains(&Change::Suspected(a.clone())));
        let reborn = Heartbeat {
            incarnation: 2,
            count: 0,
        };
        assert!(members.heard(&a, reborn, "reborn", 1_150 * MS, &mut changes));
    }

    #[test]
    fn a_broken_connection_is_suspected_at_once_and_a_goodbye_ends_it() {
        let (mut members, a, b) = two();
        let mut changes = Vec::new();
        members.lost(&a, 10 * MS, &mut changes);
        assert_eq!(changes, [Change::Suspected(a.clone())]);
        members.left(&b, &mut changes);
        members.left(&b, &mut changes);
        assert_eq!(changes.last(), Some(&Change::Left(b)));
        assert_eq!(changes.len(), 2);
        members.heard(&a, heartbeat(1), "A", 20 * MS, &mut changes);
        assert_eq!(changes.last(), Some(&Change::Recovered(a)));
    }

    #[test]
    fn a_peer_that_beats_but_is_late_is_left_out_longer_each_time() {
        let (mut members, a, _) = two();
        let mut now = 0;
        let mut waits = Vec::new();
        for n in 0..3 {
            let mut changes = Vec::new();
            members.late(&a, now, &mut changes);
            assert_eq!(changes, [Change::Suspected(a.clone())]);
            let since = now;
            while members.health(&a) == Some(Health::Suspect) {
                now += 100 * MS;
                members.heard(&a, heartbeat(now + n), "A", now, &mut changes);
            }
            waits.push((now - since) / MS);
        }
        assert_eq!(waits, [500, 1_000, 2_000]);
        // It was on time for a while: all is forgiven.
        now += Patience::default().gone;
        let mut changes = Vec::new();
        members.heard(&a, heartbeat(now), "A", now, &mut changes);
        members.late(&a, now, &mut changes);
        members.heard(&a, heartbeat(now + 9), "A", now + 500 * MS, &mut changes);
        assert_eq!(members.health(&a), Some(Health::Well));
    }
}

//! When a peer works out anew which bricks are its to hold.
//!
//! What follows from everybody's announcements is `assignment`'s. Here: a newcomer gets to know the mesh
//! first, and copies that others should take and do not are taken after a while.

use super::{Announcement, Replicas, announced};
use crate::{
    balance::frame_plan::FrameWork,
    base::peer::PeerId,
    data::brick_grid::BrickIndex,
    mesh::assignment::{Demand, Member, next_assignment},
};

/// A newcomer takes its share once it has met nobody new for so long: before, it would think that
/// more of it is its to take.
pub(super) const MEETING_MICROS: u64 = 2_000_000;
/// How long a peer waits at least for others to take up what is theirs, before it takes it
/// itself.
pub(super) const WANTING_MICROS: u64 = 10_000_000;
/// What frames ask counts once it has not changed for so long: nothing is copied for what a hand passes by.
pub(super) const ASKED_MICROS: u64 = 300_000;

impl Replicas {
    /// Works out anew what this peer should hold. Returns whether that changed. Of what nobody
    /// needs nothing is taken up, but from one who leaves, or by those that hold some of it.
    ///
    /// `is_open`: whether a brick is not on its way to this peer.
    pub fn keep_up(&mut self, now: u64, is_open: impl Fn(BrickIndex) -> bool) -> bool {
        let wanted = self.is_in_use() || self.others.values().any(|a| a.leaving);
        if !wanted && self.own.assigned.is_empty() {
            return false;
        }
        let taken_back = self.take_back(now, is_open);
        self.outdated |= taken_back;
        let settled = self.settle() | taken_back;
        if self.is_meeting(now) {
            return settled;
        }
        let is_at_rest = self.is_at_rest(now);
        self.outdated |= is_at_rest && std::mem::take(&mut self.is_asked_anew);
        let is_patient = self
            .wanting_since
            .is_none_or(|since| now.saturating_sub(since) < self.patience());
        if !std::mem::take(&mut self.outdated) && is_patient {
            return settled;
        }
        // Who would have to take a copy, and does not.
        let takes_none = |a: &Announcement| !is_patient || !wanted && a.assigned.is_empty();
        let capacity = |a: &Announcement| {
            if takes_none(a) {
                a.capacity.min(a.assigned.len())
            } else {
                a.capacity
            }
        };
        let mut all: Vec<(&PeerId, &Announcement)> = announced(&self.others).collect();
        let me = all.partition_point(|(p, _)| **p < self.local);
        all.insert(me, (&self.local, &self.own));
        let members: Vec<Member<'_>> = all
            .iter()
            .map(|&(peer, a)| Member {
                peer,
                capacity: if *peer == self.local {
                    a.capacity
                } else {
                    capacity(a)
                },
                assigned: &a.assigned,
                held: &a.held,
                leaving: a.leaving,
            })
            .collect();
        let work = if is_at_rest { self.work() } else { None };
        let demand = Demand {
            redundancy: self.redundancy,
            pressed: self.pressed,
            work: work.as_ref(),
        };
        let next = next_assignment(&mut self.first, &members, me, demand, &mut self.taken);
        let changed = next != self.own.assigned;
        self.changes += u64::from(changed);
        self.own.assigned = next;
        self.wanting_since = self.is_wanting().then_some(now);
        self.settle() | settled | changed
    }

    /// Whether nobody has turned the camera or edited anything lately.
    fn is_at_rest(&self, now: u64) -> bool {
        let is_new = |since: u64| now.saturating_sub(since) < ASKED_MICROS;
        !self.asked.values().any(|(since, _)| is_new(*since))
    }

    /// What the frames of all who look ask of the peers; `None`: nobody looks.
    fn work(&self) -> Option<FrameWork> {
        let looks = |peer: &PeerId| match self.others.get(peer) {
            Some(other) => other.in_use,
            None => *peer == self.local && self.own.in_use,
        };
        let asked = self.asked.iter().filter(|(peer, _)| looks(peer));
        let mut asked = asked.map(|(_, (_, work))| work);
        let mut all = FrameWork::clone(asked.next()?);
        asked.for_each(|work| all.add(work));
        Some(all)
    }

    /// This peer comes into a mesh that has the data set: it gets to know it first.
    pub fn comes_late(&mut self, now: u64) {
        self.met_at = Some(now);
    }

    fn is_meeting(&self, now: u64) -> bool {
        let met_lately = |at| now.saturating_sub(at) < MEETING_MICROS;
        self.own.assigned.is_empty() && self.met_at.is_some_and(met_lately)
    }

    /// How long a peer waits for others to take up what it thinks is theirs before it takes it
    /// itself: each peer another time, so that not all do.
    fn patience(&self) -> u64 {
        WANTING_MICROS + self.local_hash % WANTING_MICROS
    }

    /// Whether there is a brick that is assigned to fewer peers than wanted, and somebody claims to have room.
    fn is_wanting(&self) -> bool {
        let has_room = |a: &Announcement| a.assigned.len() < a.capacity;
        if !self.of_others().any(|a| !a.leaving && has_room(a)) || !has_room(&self.own) {
            return false;
        }
        self.is_short_of_copies()
    }
}

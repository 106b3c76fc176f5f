//! When a peer works out anew which bricks are its to hold.
//!
//! What follows from everybody's announcements is `assignment`'s. Here: a newcomer gets to know the mesh
//! first, and copies that others should take and do not are taken after a while.

use super::{Replicas, announced};
use crate::{
    balance::frame_plan::FrameWork,
    base::{peer::PeerId, seeded::mixed},
    data::{brick_grid::BrickIndex, brick_set::BrickSet},
    mesh::{
        announcement::Announcement,
        assignment::{Demand, Member, next_assignment},
    },
};

/// A newcomer takes its share once it has met nobody new for so long: before, it would think that
/// more of it is its to take.
pub(super) const MEETING_MICROS: u64 = 2_000_000;
/// How long a peer waits at least for others to take up what is theirs, before it takes it
/// itself.
pub(super) const WANTING_MICROS: u64 = 10_000_000;
/// What frames ask counts once it has not changed for so long: nothing is copied for what a hand passes by.
pub(super) const ASKED_MICROS: u64 = 300_000;
/// How long a peer waits at most before it goes back to what was assigned to it before: many times what a message takes.
const TURN_MICROS_MAX: u64 = 2_000_000;

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
        self.outdated |= is_at_rest && self.look_at_asked();
        // Room that others keep free decides, too, whether memory is short.
        let is_short = self.needed().is_some();
        self.outdated |= std::mem::replace(&mut self.was_short, is_short) != is_short;
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
        // Of several copies the schedule takes whichever peer has the least work.
        let is_one = is_at_rest && self.redundancy == 1;
        let work = if is_one { self.work() } else { None };
        let needed = self.needed().cloned();
        let demand = Demand {
            redundancy: self.redundancy,
            pressed: self.pressed,
            work: work.as_ref(),
            seen: needed.as_ref(),
            alone: !is_patient,
        };
        let next = next_assignment(&mut self.first, &members, me, demand, &mut self.taken);
        let changed = next != self.own.assigned;
        if changed {
            // Two that each give way to the other, and hear of it too late, would go to and fro for ever.
            let waits = |(before, until): &(BrickSet, u64)| *before == next && now < *until;
            if self.before.as_ref().is_some_and(waits) {
                self.outdated = true;
                return settled;
            }
            self.changes += 1;
            let before = std::mem::replace(&mut self.own.assigned, next);
            let turn = mixed(self.local_hash ^ self.changes) % TURN_MICROS_MAX;
            self.before = Some((before, now.saturating_add(turn)));
        }
        self.wanting_since = self.is_wanting().then_some(now);
        self.settle() | settled | changed
    }

    /// Whether nobody has turned the camera or edited anything lately.
    fn is_at_rest(&self, now: u64) -> bool {
        let is_new = |since: u64| now.saturating_sub(since) < ASKED_MICROS;
        !self.asked.values().any(|(since, _)| is_new(*since))
    }

    /// Bricks that frames need, where all peers have too little memory for one copy of each, and somebody who stays has
    /// them all on a disk: others may be dropped for them.
    pub(super) fn needed(&self) -> Option<&BrickSet> {
        let has_all = |a: &Announcement| a.source && !a.leaving;
        let is_on_disk = has_all(&self.own) || self.of_others().any(has_all);
        (self.seen.as_ref()).filter(|_| is_on_disk && self.is_larger_than_memory())
    }

    /// Takes what frames ask of the peers, where that is new. Returns whether it decides about the assignment.
    pub(super) fn look_at_asked(&mut self) -> bool {
        if !self.is_asked_anew {
            return false;
        }
        // What was looked at last stays needed.
        let Some(work) = self.work() else {
            return false;
        };
        self.is_asked_anew = false;
        let mut seen = BrickSet::new(self.grid.brick_count());
        let bricks = self.grid.bricks().zip(&work.micros);
        for (brick, _) in bricks.filter(|(_, micros)| **micros > 0) {
            seen.insert(brick);
        }
        // Whoever looks past the volume comes back to it.
        let is_news = !seen.is_empty() && self.see(seen);
        self.is_seen_anew |= is_news;
        self.redundancy == 1 || is_news && self.is_larger_than_memory()
    }

    /// Frames need these bricks. Returns whether that is news.
    fn see(&mut self, seen: BrickSet) -> bool {
        let is_news = self.seen.as_ref() != Some(&seen);
        self.seen = Some(seen);
        is_news
    }

    /// What frames need, where that has changed since this was asked last.
    pub(in crate::mesh) fn seen_anew(&mut self) -> Option<BrickSet> {
        let is_anew = std::mem::take(&mut self.is_seen_anew);
        self.seen.clone().filter(|_| is_anew)
    }

    /// Says again what frames need: another level is there now.
    pub(in crate::mesh) fn say_seen_again(&mut self) {
        self.is_seen_anew = self.seen.is_some();
    }

    /// Frames of another level of the volume need what is where these bricks are: as long as none of this one is asked for,
    /// it is what they may need next.
    pub(in crate::mesh) fn foresee(&mut self, bricks: BrickSet) {
        if self.asked.is_empty() && self.see(bricks) {
            self.outdated |= self.is_larger_than_memory();
        }
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

    /// Whether there is a brick that is assigned to fewer peers than wanted, and somebody claims to have room, or it could take
    /// the place of another one here.
    fn is_wanting(&self) -> bool {
        let has_room = |a: &Announcement| a.assigned.len() < a.capacity;
        if !has_room(&self.own) {
            return self.could_give_way();
        }
        let others_have = self.of_others().any(|a| !a.leaving && has_room(a));
        others_have && self.is_short_of_copies()
    }

    /// Whether a brick is assigned to nobody, and one that is assigned here to another peer, too.
    fn could_give_way(&self) -> bool {
        if self.own.leaving {
            return false;
        }
        let mut copies = vec![0_u32; self.grid.brick_count() as usize];
        let staying = self.of_others().chain([&self.own]).filter(|a| !a.leaving);
        for brick in staying.flat_map(|a| a.assigned.iter()) {
            copies[brick.0 as usize] += 1;
        }
        let needed = self.needed();
        let is_open = |b: &BrickIndex| needed.is_none_or(|needed| needed.contains(*b));
        let of = |b: BrickIndex| copies[b.0 as usize];
        let is_lost = self.grid.bricks().filter(is_open).any(|b| of(b) == 0);
        is_lost && self.own.assigned.iter().any(|b| of(b) >= 2)
    }
}

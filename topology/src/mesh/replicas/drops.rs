//! Which bricks a peer that should not hold them any more may drop, and when; and which it goes on holding
//! because nobody can take them over.

use super::{Replicas, announced};
use crate::{base::peer::PeerId, data::brick_grid::BrickIndex, mesh::announcement::Announcement};
use std::cmp::Reverse;

/// How long a brick that is not assigned any more is held yet: longer than a peer stays in the mesh
/// that is not heard (8 s), and what is held is announced every 2 s. So whoever is relied on to go on
/// holding it has said so after this peer decided, and two that decide at once hear of each other.
pub(super) const UNASSIGNED_MICROS: u64 = 10_000_000;
/// The same where frames wait for the room: longer than it takes until all have heard again what each holds.
const FETCHED_MICROS: u64 = 3_000_000;
/// After how long a brick that is not assigned any more is assigned again if nobody can take it over:
/// longer than it takes a peer that is about to drop something to have the room.
pub(super) const STUCK_MICROS: u64 = 20_000_000;

impl Replicas {
    /// The bricks that may be dropped now: not assigned any more for some time, and held by as many
    /// others who will go on holding them as there should be, at least one. Where assigned bricks
    /// wait for the room that they take, one other is enough: full peers that wait for each other to
    /// take over what they give up would wait for ever; two that can read the brick are, too. A peer that reads bricks for frames
    /// needs the room at once, and can read them again; one that holds more than it has room for does, too, where another
    /// reads them: frames of other levels, or of other volumes, wait for that room.
    #[must_use]
    pub fn droppable(&mut self, now: u64) -> Vec<BrickIndex> {
        let own = &self.own;
        let is_spare = |b: &BrickIndex| own.held.contains(*b) && !own.assigned.contains(*b);
        self.unassigned.retain(|b, _| is_spare(b));
        for brick in own.held.iter().filter(is_spare) {
            self.unassigned.entry(brick).or_insert(now);
        }
        let is_at_once = |b: &BrickIndex| self.is_read_again(*b);
        let patience = if self.are_fetched() {
            FETCHED_MICROS
        } else {
            UNASSIGNED_MICROS
        };
        let (at_once, others): (Vec<_>, Vec<_>) = (self.unassigned.iter())
            .map(|(&b, &since)| (b, since))
            .partition(|(b, _)| is_at_once(b));
        let due = others.iter();
        let due = due.filter(|(_, since)| now.saturating_sub(*since) >= patience);
        let (enough, mut scarce): (Vec<_>, Vec<_>) = due
            .map(|&(b, _)| (self.kept_elsewhere(b), b))
            .partition(|((holding, wanted), _)| holding >= wanted);
        scarce.retain(|((holding, _), b)| *holding > 0 || self.is_read_elsewhere(*b));
        scarce.sort_by_key(|&((holding, _), b)| (Reverse(holding), b));
        let freed = enough.len() + at_once.len();
        scarce.truncate(self.lacking_room().saturating_sub(freed));
        let due = enough.into_iter().chain(scarce).map(|(_, b)| b);
        let mut due: Vec<BrickIndex> = at_once.into_iter().map(|(b, _)| b).chain(due).collect();
        let beyond = own.held.len().saturating_sub(own.capacity) as usize;
        let beyond = beyond.saturating_sub(due.len());
        if beyond > 0 {
            let others = others.iter().map(|(b, _)| *b);
            let read = others.filter(|b| !due.contains(b) && self.readers(*b) > 0);
            let mut read: Vec<BrickIndex> = read.collect();
            let is_needed = |b| self.needed().is_some_and(|needed| needed.contains(b));
            read.sort_by_cached_key(|&b| (is_needed(b), Reverse(self.kept_elsewhere(b).0), b));
            due.extend(read.into_iter().take(beyond));
        }
        due
    }

    /// Whether a brick that was dropped lately, and is in memory still, is to be held again: those who
    /// were to go on holding it do not any more, or may be dead. What is read for frames is not.
    #[must_use]
    pub fn is_missed(&self, brick: BrickIndex) -> bool {
        let is_there = || self.kept_elsewhere(brick).0 > 0 || self.is_read_elsewhere(brick);
        let is_read_again = self.is_read_again(brick);
        let is_beyond = || self.own.held.len() >= self.own.capacity && self.readers(brick) > 0;
        !is_read_again && !is_there() && !is_beyond()
    }

    /// Whether the room of a brick is needed at once for others that are read or fetched, and this one can be read again, or be fetched of one
    /// who has all of them on a disk.
    fn is_read_again(&self, brick: BrickIndex) -> bool {
        let is_on_disk = self.can_read_again(brick) || self.are_fetched() && self.is_offered(brick);
        self.own.reserve > 0 && is_on_disk
    }

    /// How many others read a brick for frames.
    fn readers(&self, brick: BrickIndex) -> usize {
        let reads = |(p, a): &(&PeerId, &Announcement)| {
            a.readable.contains(brick) && !a.leaving && !self.suspects.contains(*p)
        };
        announced(&self.others).filter(reads).count()
    }

    /// Whether others read a brick for frames, where nobody holds it: two, as what one has may turn out to be damaged; where
    /// memory is short and no frame needs the brick, one who has all of them on a disk is enough.
    fn is_read_elsewhere(&self, brick: BrickIndex) -> bool {
        if self.needed().is_some_and(|seen| !seen.contains(brick)) {
            return self.is_offered(brick);
        }
        self.readers(brick) >= 2
    }

    /// How many others hold a brick and will go on holding it, and how many should, at least one. One
    /// who is silent may be dead.
    fn kept_elsewhere(&self, brick: BrickIndex) -> (usize, usize) {
        let stay = announced(&self.others).filter(|(_, a)| !a.leaving);
        let assigned: Vec<_> = stay.filter(|(_, a)| a.assigned.contains(brick)).collect();
        let holds = |(p, a): &&(&PeerId, &Announcement)| {
            a.held.contains(brick) && !self.suspects.contains(*p)
        };
        let holding = assigned.iter().filter(holds).count();
        let wanted = assigned.len().min(self.redundancy as usize).max(1);
        (holding, wanted)
    }

    /// Takes back what is held here and nobody can take over, in place of what there is no room for.
    /// Full peers, each of which is assigned what another one holds, would wait for each other's place for
    /// ever; each goes on holding what it has. Returns whether there was any.
    pub(super) fn take_back(&mut self, now: u64, is_open: impl Fn(BrickIndex) -> bool) -> bool {
        if self.own.leaving {
            return false;
        }
        let stuck = self.unassigned.iter();
        let stuck = stuck.filter(|(_, since)| now.saturating_sub(**since) >= STUCK_MICROS);
        let stuck: Vec<BrickIndex> = stuck
            .map(|(&b, _)| b)
            .filter(|&b| self.cannot_be_taken_over(b))
            .collect();
        if stuck.is_empty() {
            return false;
        }
        let mut places: Vec<BrickIndex> = self.missing(is_open).collect();
        places.sort_by_cached_key(|&b| {
            let assigned = self.of_others().filter(|a| !a.leaving);
            let assigned = assigned.filter(|a| a.assigned.contains(b)).count();
            (Reverse(assigned), b)
        });
        places.truncate(self.lacking_room());
        let pairs: Vec<_> = stuck.into_iter().zip(places).collect();
        for &(back, instead) in &pairs {
            self.own.assigned.remove(instead);
            self.own.assigned.insert(back);
            self.changes += 1;
        }
        !pairs.is_empty()
    }

    /// Whether a brick that is held here and not assigned is held by nobody to whom it is, and those
    /// are full. Of several that hold it, the first by name goes on.
    fn cannot_be_taken_over(&self, brick: BrickIndex) -> bool {
        let own = &self.own;
        let mut stay = announced(&self.others).filter(|(_, a)| !a.leaving);
        let goes_on = |(peer, a): (&PeerId, &Announcement)| {
            let holds = a.held.contains(brick);
            let takes_over = a.assigned.contains(brick) && (holds || a.held.len() < a.capacity);
            takes_over || holds && *peer < self.local
        };
        own.held.contains(brick) && !own.assigned.contains(brick) && !stay.any(goes_on)
    }

    /// Bricks that are assigned, could be had, and do not fit beside those that are held.
    fn lacking_room(&self) -> usize {
        let lacks = |b: &BrickIndex| !self.own.held.contains(*b) && self.can_be_had(*b);
        let wanted = self.own.assigned.iter().filter(lacks).count();
        (self.own.held.len() as usize + wanted).saturating_sub(self.own.capacity as usize)
    }
}

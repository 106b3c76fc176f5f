//! Which bricks a peer that should not hold them any more may drop, and when.

use super::{Announcement, Holding, announced};
use crate::{brick_grid::BrickIndex, peer::PeerId};
use std::cmp::Reverse;

/// How long a brick that is not pledged any more is held yet: longer than a peer stays in the mesh
/// that is not heard (8 s), and what is held is announced every 2 s. So whoever is relied on to go on
/// holding it has said so after this peer decided, and two that decide at once hear of each other.
pub(super) const UNPLEDGED_MICROS: u64 = 10_000_000;

impl Holding {
    /// The bricks that may be dropped now: not pledged any more for some time, and held by as many
    /// others who will go on holding them as there should be, at least one. Where pledged bricks
    /// wait for the room that they take, one other is enough: full peers that wait for each other to
    /// take over what they give up would wait for ever.
    #[must_use]
    pub fn droppable(&mut self, now: u64) -> Vec<BrickIndex> {
        let own = &self.own;
        let is_spare = |b: &BrickIndex| own.held.contains(*b) && !own.pledged.contains(*b);
        self.unpledged.retain(|b, _| is_spare(b));
        for brick in own.held.iter().filter(is_spare) {
            self.unpledged.entry(brick).or_insert(now);
        }
        let due = self.unpledged.iter();
        let due = due.filter(|(_, since)| now.saturating_sub(**since) >= UNPLEDGED_MICROS);
        let (enough, mut scarce): (Vec<_>, Vec<_>) = due
            .map(|(&b, _)| (self.kept_elsewhere(b), b))
            .partition(|((holding, wanted), _)| holding >= wanted);
        scarce.retain(|((holding, _), _)| *holding > 0);
        scarce.sort_by_key(|&((holding, _), b)| (Reverse(holding), b));
        scarce.truncate(self.lacking_room().saturating_sub(enough.len()));
        enough.into_iter().chain(scarce).map(|(_, b)| b).collect()
    }

    /// Whether a brick that was dropped lately, and is in memory still, is to be held again: those who
    /// were to go on holding it do not any more, or may be dead.
    #[must_use]
    pub fn is_missed(&self, brick: BrickIndex) -> bool {
        self.kept_elsewhere(brick).0 == 0
    }

    /// How many others hold a brick and will go on holding it, and how many should, at least one. One
    /// who is silent may be dead.
    fn kept_elsewhere(&self, brick: BrickIndex) -> (usize, usize) {
        let stay = announced(&self.others).filter(|(_, a)| !a.leaving);
        let pledging: Vec<_> = stay.filter(|(_, a)| a.pledged.contains(brick)).collect();
        let holds = |(p, a): &&(&PeerId, &Announcement)| {
            a.held.contains(brick) && !self.suspects.contains(*p)
        };
        let holding = pledging.iter().filter(holds).count();
        let wanted = pledging.len().min(self.redundancy as usize).max(1);
        (holding, wanted)
    }

    /// Bricks that are pledged, could be had, and do not fit beside those that are held.
    fn lacking_room(&self) -> usize {
        let lacks = |b: &BrickIndex| !self.own.held.contains(*b) && self.can_be_had(*b);
        let wanted = self.own.pledged.iter().filter(lacks).count();
        (self.own.held.len() as usize + wanted).saturating_sub(self.own.room as usize)
    }
}

//! Bricks on their way, of all data sets, to this peer and from it.
//!
//! A pure state machine; times are microseconds of any clock that goes on.

mod downloads;
mod rate_limit;
mod uploads;

pub use uploads::UploadResult;

pub(super) use {
    downloads::{BrickName, Downloads},
    uploads::{Request, Uploads},
};
#[cfg(test)]
pub(super) use {
    downloads::{DOWNLOAD_MICROS, REFUSED_MICROS, Urgency},
    rate_limit::DOWNLOADS_MAX,
};

use super::replicas::{Origin, Replicas};
use crate::base::{digest::Digest, peer::PeerId};
use rate_limit::RateLimit;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Transfers {
    pub(super) downloads: Downloads,
    /// Bricks that are fetched for the shelf alone.
    pub(super) shelf: Downloads,
    /// Bricks that are fetched for frames.
    pub(super) frames: Downloads,
    pub(super) uploads: Uploads,
    limit: RateLimit,
}

impl Transfers {
    /// Nothing is on its way to or from peer `local`.
    pub(super) fn new(local: &PeerId) -> Self {
        Self {
            downloads: Downloads::new(local),
            shelf: Downloads::new(local),
            frames: Downloads::for_frames(local),
            uploads: Uploads::default(),
            limit: RateLimit::default(),
        }
    }

    /// Begins as many downloads as may be under way, the most urgent first. `sets`: data sets, with what is
    /// known of their bricks, how many of these take room besides (see [`Replicas::has_room`]), and whether they are levels of another
    /// one.
    pub(super) fn begin(
        &mut self,
        now: u64,
        is_rendering: bool,
        sets: &[(Digest, &Replicas, usize, bool)],
    ) -> Vec<(BrickName, Origin)> {
        let mut begun = Vec::new();
        if !self.may_begin(now, is_rendering) {
            return begun;
        }
        while self.begin_queued(now, is_rendering, sets, &mut begun) {}
        begun
    }

    /// Begins those in the queue, as long as more may be under way. Returns whether that is to be tried with a new queue: an old one
    /// was used up, or a data set has no more room.
    fn begin_queued(
        &mut self,
        now: u64,
        is_rendering: bool,
        sets: &[(Digest, &Replicas, usize, bool)],
        begun: &mut Vec<(BrickName, Origin)>,
    ) -> bool {
        let has_room = |&&(data_set, replicas, besides, _): &&(Digest, &Replicas, usize, bool)| {
            replicas.has_room(self.downloads.count_of(data_set) + besides)
        };
        let all = sets.iter().filter(has_room);
        let all = all.map(|&(data_set, replicas, _, is_level)| (data_set, replicas, is_level));
        let all: Vec<_> = all.collect();
        let is_old = !self.downloads.line_up(&all, is_rendering);
        while self.may_begin(now, is_rendering) {
            let Some(name) = self.downloads.next() else {
                return is_old;
            };
            let set = sets.iter().find(|s| s.0 == name.0);
            let Some(&(data_set, replicas, besides, _)) = set else {
                continue;
            };
            if !replicas.is_wanted(name.1) || !self.downloads.is_open(name) {
                continue;
            }
            if !replicas.has_room(self.downloads.count_of(data_set) + besides) {
                self.downloads.forget_queue();
                return true;
            }
            // What is on its way to the shelf is not asked for twice.
            if self.downloads.take_over(name, &mut self.shelf) {
                continue;
            }
            if let Some(origin) = self.downloads.origin(name, replicas) {
                self.downloads.begin(name, &origin, now);
                begun.push((name, origin));
            }
        }
        false
    }

    /// Whether one more brick may be had, for memory or for the shelf.
    pub(super) fn may_begin(&self, now: u64, is_rendering: bool) -> bool {
        let count = self.downloads.count() + self.shelf.count();
        self.limit.may_begin(now, count, is_rendering)
    }

    /// A brick that was fetched for the shelf alone came from a peer.
    pub(super) fn arrived_for_shelf(&mut self, name: BrickName, from: &PeerId, now: u64) -> bool {
        let took = self.shelf.arrived(name, from, now, false, false);
        took.inspect(|&took| self.limit.came(now, took)).is_some()
    }

    /// A brick does not come from a peer that was asked for it.
    pub(super) fn refused(&mut self, name: BrickName, from: &PeerId, now: u64) {
        self.downloads.refused(name, from, now);
        self.shelf.refused(name, from, now);
        self.frames.refused(name, from, now);
    }

    /// A request for a brick could not be sent.
    pub(super) fn not_asked(&mut self, name: BrickName, for_frame: bool, now: u64) {
        if for_frame {
            self.frames.failed(name, now);
        } else if self.shelf.is_open(name) {
            self.downloads.failed(name, now);
        } else {
            self.shelf.failed(name, now);
        }
    }

    /// Ends downloads and pauses whose time is over.
    pub(super) fn expire(&mut self, now: u64) {
        self.downloads.expire(now);
        self.shelf.expire(now);
        self.frames.expire(now);
    }

    /// A data set is closed: nothing of it is wanted.
    pub(super) fn close(&mut self, data_set: Digest) {
        self.downloads.close(data_set);
        self.shelf.close(data_set);
        self.frames.close(data_set);
    }

    /// A peer is gone, or was started again.
    pub(super) fn forget(&mut self, peer: &PeerId) {
        self.downloads.forget(peer);
        self.shelf.forget(peer);
        self.frames.forget(peer);
    }

    /// A peer is silent: what was asked of it is asked elsewhere.
    pub(super) fn suspect(&mut self, peer: &PeerId) {
        self.downloads.unreachable(peer);
        self.shelf.unreachable(peer);
        self.frames.unreachable(peer);
    }

    /// A brick came from a peer; false where nobody waits for it. `besides`: see [`Replicas::has_room`].
    pub(super) fn arrived(
        &mut self,
        name: BrickName,
        from: &PeerId,
        now: u64,
        replicas: &Replicas,
        besides: usize,
    ) -> bool {
        let has_place = replicas.has_room(self.downloads.count_of(name.0) + besides);
        let is_wanted = replicas.is_wanted(name.1);
        let took = (self.downloads).arrived(name, from, now, is_wanted, has_place);
        took.inspect(|&took| self.limit.came(now, took)).is_some()
    }

    /// A brick is in device memory.
    pub(super) fn loaded(&mut self, name: BrickName, now: u64) {
        if let Some(took) = self.downloads.loaded(name, now) {
            self.limit.came(now, took);
        }
    }

    /// The connection to a peer is broken.
    pub(super) fn unreachable(&mut self, peer: &PeerId) {
        self.suspect(peer);
        self.uploads.forget(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::brick_grid::{BrickGrid, BrickIndex},
        mesh::announcement::Announcement,
    };
    use std::collections::BTreeSet;

    /// What a peer that is alone should hold of a volume of its own, of so many bricks on an edge.
    fn replicas(name: Digest, bricks_on_an_edge: u32) -> Replicas {
        let grid = BrickGrid::new([8 * bricks_on_an_edge; 3], 8).unwrap();
        let local = PeerId::new("peer");
        let mut replicas = Replicas::new(local, grid, 1, grid.brick_count(), name, None);
        replicas.has_source();
        replicas.set_in_use(true);
        replicas.keep_up(0, |_| true);
        replicas
    }

    #[test]
    fn of_many_bricks_each_comes_once_coarser_levels_and_what_did_not_fail_first() {
        let (volume, level) = (Digest::of(b"volume"), Digest::of(b"level"));
        // 3375 and 8: more than are queued at a time.
        let mut of = [(volume, replicas(volume, 15)), (level, replicas(level, 2))];
        let mut transfers = Transfers::new(&PeerId::new("peer"));
        let (mut came, mut now) = (Vec::new(), 0);
        let failing: BTreeSet<BrickIndex> = [7, 700, 1700].map(BrickIndex).into();
        let mut failed = BTreeSet::new();
        while came.len() < 3375 + 8 {
            now += 1_000_000;
            assert!(now < 3_600_000_000, "{} came", came.len());
            transfers.expire(now);
            let sets = of.each_ref();
            let sets = sets.map(|(name, replicas)| (*name, replicas, 0, *name == level));
            let begun = transfers.begin(now, false, &sets);
            if came.len() + 1024 < 3375 {
                // For the first brick, for three failures and the ends of their pauses, and where it is used up.
                let queues = transfers.downloads.queues();
                assert!(queues <= 7 + came.len() / 1024 + 1, "{queues} queues");
            }
            for (name, _) in begun {
                if name.0 == volume && failing.contains(&name.1) && failed.insert(name.1) {
                    transfers.downloads.failed(name, now);
                    continue;
                }
                transfers.loaded(name, now);
                let at = usize::from(name.0 == level);
                of[at].1.loaded(name.1);
                came.push(name);
            }
        }
        assert_eq!(came.iter().collect::<BTreeSet<_>>().len(), came.len());
        let is_of_level = |name: &BrickName| name.0 == level;
        assert_eq!(came.iter().position(|n| !is_of_level(n)), Some(8));
        assert_eq!(failed, failing);
    }

    #[test]
    fn a_brick_that_failed_is_as_urgent_as_before_once_its_pause_is_over() {
        let (volume, level) = (Digest::of(b"volume"), Digest::of(b"level"));
        let (large, mut small) = (replicas(volume, 15), replicas(level, 2));
        let mut transfers = Transfers::new(&PeerId::new("peer"));
        let begin = |transfers: &mut Transfers, small: &Replicas, now| {
            let sets = [(volume, &large, 0, false), (level, small, 0, true)];
            transfers.expire(now);
            let begun = transfers.begin(now, false, &sets).into_iter();
            begun.map(|(name, _)| name).collect::<Vec<BrickName>>()
        };
        let mut now = 1_000_000;
        let failed = (level, BrickIndex(3));
        let mut has_failed = false;
        while !has_failed {
            for name in begin(&mut transfers, &small, now) {
                if name == failed {
                    transfers.downloads.failed(name, now);
                    has_failed = true;
                } else {
                    transfers.loaded(name, now);
                    if name.0 == level {
                        small.loaded(name.1);
                    }
                }
            }
        }
        // Its pause lasts, and a queue is worked out without it.
        let meanwhile = begin(&mut transfers, &small, now + 1);
        assert!(!meanwhile.is_empty() && !meanwhile.contains(&failed));
        for name in meanwhile {
            transfers.loaded(name, now + 1);
        }
        now += REFUSED_MICROS + 1_000_000;
        assert_eq!(begin(&mut transfers, &small, now).first(), Some(&failed));
    }

    #[test]
    fn bricks_that_become_urgent_do_not_wait_until_the_queue_is_used_up() {
        let (volume, level) = (Digest::of(b"volume"), Digest::of(b"level"));
        let giver = PeerId::new("giver");
        let grid = BrickGrid::new([120; 3], 8).unwrap();
        let grid_of_level = BrickGrid::new([16; 3], 8).unwrap();
        let of = |name, grid: BrickGrid| {
            let mut replicas =
                Replicas::new(PeerId::new("peer"), grid, 1, grid.brick_count(), name, None);
            replicas.set_in_use(true);
            replicas.keep_up(0, |_| true);
            replicas
        };
        let (mut large, mut small) = (of(volume, grid), of(level, grid_of_level));
        let said = |grid: BrickGrid| Announcement {
            source: true,
            ..Announcement::expected(grid.brick_count(), 0)
        };
        assert!(large.heard(&giver, said(grid), 0));
        let mut transfers = Transfers::new(&PeerId::new("peer"));
        let begin = |transfers: &mut Transfers, small: &Replicas| {
            let sets = [(volume, &large, 0, false), (level, small, 0, true)];
            let begun = transfers.begin(1_000_000, false, &sets);
            let names: Vec<BrickName> = begun.into_iter().map(|(name, _)| name).collect();
            names
        };
        let first = begin(&mut transfers, &small);
        assert!(!first.is_empty() && first.iter().all(|n| n.0 == volume));
        // Nobody gave the level before.
        assert!(small.heard(&giver, said(grid_of_level), 0));
        transfers.unreachable(&giver);
        let next = begin(&mut transfers, &small);
        assert!(!next.is_empty() && next.iter().all(|n| n.0 == level));
        // What was on its way comes first again.
        transfers.unreachable(&giver);
        assert_eq!(begin(&mut transfers, &small), next);
    }
}

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
    pub(super) uploads: Uploads,
    limit: RateLimit,
}

impl Transfers {
    /// Nothing is on its way to or from peer `local`.
    pub(super) fn new(local: &PeerId) -> Self {
        Self {
            downloads: Downloads::new(local),
            shelf: Downloads::new(local),
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
        let has_room = |&&(data_set, replicas, besides, _): &&(Digest, &Replicas, usize, bool)| {
            replicas.has_room(self.downloads.count_of(data_set) + besides)
        };
        let all = sets.iter().filter(has_room);
        let all = all.map(|&(data_set, replicas, _, is_level)| (data_set, replicas, is_level));
        for name in self.downloads.queue(all) {
            if !self.may_begin(now, is_rendering) {
                break;
            }
            let set = sets.iter().find(|s| s.0 == name.0);
            let Some(&(data_set, replicas, besides, _)) = set else {
                continue;
            };
            if !replicas.has_room(self.downloads.count_of(data_set) + besides) {
                continue;
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
        begun
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
    }

    /// A request for a brick could not be sent.
    pub(super) fn not_asked(&mut self, name: BrickName, now: u64) {
        if self.shelf.is_open(name) {
            self.downloads.failed(name, now);
        } else {
            self.shelf.failed(name, now);
        }
    }

    /// Ends downloads and pauses whose time is over.
    pub(super) fn expire(&mut self, now: u64) {
        self.downloads.expire(now);
        self.shelf.expire(now);
    }

    /// A data set is closed: nothing of it is wanted.
    pub(super) fn close(&mut self, data_set: Digest) {
        self.downloads.close(data_set);
        self.shelf.close(data_set);
    }

    /// A peer is gone, or was started again.
    pub(super) fn forget(&mut self, peer: &PeerId) {
        self.downloads.forget(peer);
        self.shelf.forget(peer);
    }

    /// A peer is silent: what was asked of it is asked elsewhere.
    pub(super) fn suspect(&mut self, peer: &PeerId) {
        self.downloads.unreachable(peer);
        self.shelf.unreachable(peer);
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

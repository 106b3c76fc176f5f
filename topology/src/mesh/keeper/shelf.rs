//! The keeper's shelf: which bricks come to this peer's disk, from whom, and what becomes of them.

use super::{DataSet, Keeper, KeeperMessage, KeeperOutput, ShelfResult};
use crate::{
    base::{digest::Digest, peer::PeerId},
    data::{brick_grid::BrickIndex, manifest::Manifest},
    mesh::{replicas::Origin, transfers::BrickName},
};
use std::sync::Arc;

impl Keeper {
    /// A data set has bricks on the shelf: it is open, for who may use it.
    pub(super) fn know(&mut self, manifest: Arc<Manifest>, out: &mut Vec<KeeperOutput>) {
        let data_set = manifest.digest();
        if self.open(manifest, 1, false, out)
            && let Some(set) = self.sets.get(&data_set)
        {
            let opening = set.opening(self.now);
            self.send_all(&opening, out);
        }
    }

    /// These bricks of a data set are on the shelf.
    pub(super) fn is_listed(
        &mut self,
        data_set: Digest,
        bricks: Vec<BrickIndex>,
        out: &mut Vec<KeeperOutput>,
    ) {
        if let Some(set) = self.sets.get_mut(&data_set) {
            bricks.into_iter().for_each(|b| set.replicas.is_on_shelf(b));
            set.shelf.is_listed = true;
            self.keep_up(out);
        }
    }

    /// A brick came from a peer. Where the shelf is to have it, the bytes are written; true: it came for memory.
    pub(super) fn brick_came(
        &mut self,
        from: &PeerId,
        name: BrickName,
        out: &mut Vec<KeeperOutput>,
    ) {
        let (data_set, brick) = name;
        let is_for_memory = self.arrived(data_set, brick, from);
        let now = self.now;
        let is_for_shelf = self.transfers.arrived_for_shelf(name, from, now);
        let set = self.sets.get_mut(&data_set);
        let set = set.filter(|_| is_for_memory || is_for_shelf);
        if set.is_some_and(|s| s.shelf.takes(&s.replicas, brick, now)) {
            out.push(KeeperOutput::Shelve(data_set, brick));
        } else if is_for_shelf {
            self.transfers.shelf.end(name);
        }
        if is_for_memory {
            let origin = Origin::Peer(from.clone());
            out.push(KeeperOutput::Load(data_set, brick, origin));
        }
    }

    /// What became of a brick that was to be put on the shelf, or was there and was checked.
    pub(super) fn shelved(
        &mut self,
        data_set: Digest,
        brick: BrickIndex,
        result: ShelfResult,
        out: &mut Vec<KeeperOutput>,
    ) {
        let Some(set) = self.sets.get_mut(&data_set) else {
            return;
        };
        let shelf = &mut self.transfers.shelf;
        set.shelf.written(brick);
        match result {
            ShelfResult::Done => {
                shelf.loaded((data_set, brick), self.now);
                self.dirty |= set.replicas.shelved(brick);
            }
            ShelfResult::Damaged => {
                shelf.failed((data_set, brick), self.now);
                self.unshelve(data_set, brick, out);
            }
            ShelfResult::NotTaken => {
                shelf.end((data_set, brick));
                set.shelf.rest(self.now);
            }
        }
        self.fill_shelf(out);
    }

    /// A brick on the shelf is not as it should be: it is not there any more, and fetched again.
    pub(super) fn unshelve(
        &mut self,
        data_set: Digest,
        brick: BrickIndex,
        out: &mut Vec<KeeperOutput>,
    ) -> bool {
        let set = self.sets.get_mut(&data_set);
        let was_there = set.is_some_and(|s| s.replicas.unshelved(brick));
        if was_there {
            out.push(KeeperOutput::Unshelve(data_set, brick));
            out.push(KeeperOutput::Roster(data_set));
            self.dirty = true;
        }
        was_there
    }

    /// Begins to fetch as many bricks for the shelf as may be under way, once none is wanted in memory.
    pub(super) fn fill_shelf(&mut self, out: &mut Vec<KeeperOutput>) {
        if self.hello.shelf_bytes == 0 {
            return;
        }
        self.share_shelf(out);
        let is_rendering = self.is_rendering();
        let names: Vec<Digest> = self.order.clone();
        for data_set in names {
            while self.transfers.may_begin_for_shelf(self.now, is_rendering) {
                let shelf = &self.transfers.shelf;
                let is_open = |b| {
                    let name = (data_set, b);
                    shelf.is_open(name) && self.transfers.downloads.is_open(name)
                };
                let Some(set) = self.sets.get_mut(&data_set) else {
                    break;
                };
                let of_memory = set
                    .shelf
                    .writing()
                    .filter(|&b| shelf.is_open((data_set, b)));
                let coming = shelf.count_of(data_set) + of_memory.count();
                let at = (self.now, coming);
                let next = set.shelf.next(&self.local, &set.replicas, at, is_open);
                let Some((brick, instead_of)) = next else {
                    break;
                };
                let origin = self
                    .transfers
                    .shelf
                    .origin((data_set, brick), &set.replicas);
                let Some(Origin::Peer(from)) = origin else {
                    continue;
                };
                if let Some(spare) = instead_of {
                    self.unshelve(data_set, spare, out);
                }
                let origin = Origin::Peer(from.clone());
                let shelf = &mut self.transfers.shelf;
                shelf.begin((data_set, brick), &origin, self.now);
                let request = KeeperMessage::BrickRequest { data_set, brick };
                out.push(KeeperOutput::Send(from, request));
            }
        }
    }

    /// Says what of the shelf each data set may take: what others have not taken. One that nobody needs, nor a finer level of
    /// which it is a level, is closed where one that somebody needs lacks room: what it has on the shelf goes when its
    /// place is needed.
    fn share_shelf(&mut self, out: &mut Vec<KeeperOutput>) {
        let mut is_short = false;
        let total: u64 = self.sets.values().map(DataSet::shelf_bytes).sum();
        for set in self.sets.values_mut() {
            let others = total.saturating_sub(set.shelf_bytes());
            let room = self.hello.shelf_bytes.saturating_sub(others);
            let room = set.capacity_in(room).min(set.manifest.grid().brick_count());
            is_short |= room < set.manifest.grid().brick_count() && set.replicas.is_in_use();
            set.replicas.set_shelf_room(room);
        }
        let used = || self.sets.values().filter(|s| s.replicas.is_in_use());
        let is_unused = |d: &&Digest| {
            let set = self.sets.get(d);
            set.is_some_and(|s| !s.replicas.is_in_use() && s.shelf_bytes() > 0)
                && !used().any(|s| s.manifest.levels().contains(d))
        };
        if is_short && let Some(&unused) = self.order.iter().find(is_unused) {
            self.close(unused, out);
        }
    }
}

impl DataSet {
    fn shelf_bytes(&self) -> u64 {
        u64::from(self.replicas.on_shelf().len()) * self.manifest.largest_brick_bytes()
    }
}

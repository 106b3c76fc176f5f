//! The keeper's shelf: which bricks come to this peer's disk, from whom, and what becomes of them.

use super::{DataSet, Keeper, KeeperMessage, KeeperOutput, ShelfResult};
use crate::{
    base::{digest::Digest, peer::PeerId},
    data::{brick_grid::BrickIndex, manifest::Manifest},
    mesh::{
        replicas::Origin,
        shelf::{WRITES_MAX, spares},
        transfers::BrickName,
    },
};
use std::{collections::BTreeSet, sync::Arc};

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

    /// A brick came from a peer: for memory, for the shelf, or both.
    pub(super) fn brick_came(
        &mut self,
        from: &PeerId,
        name: BrickName,
        out: &mut Vec<KeeperOutput>,
    ) {
        let (data_set, brick) = name;
        let is_for_memory = self.arrived(data_set, brick, from);
        let is_for_frame = self.arrived_for_frame(name, from);
        let is_for_shelf = self.transfers.arrived_for_shelf(name, from, self.now);
        let is_written = (is_for_memory || is_for_shelf) && self.write(name, is_for_shelf, out);
        if is_for_shelf && !is_written {
            self.transfers.shelf.end(name);
        }
        if is_for_memory || is_for_frame {
            let origin = Origin::Peer(from.clone());
            out.push(KeeperOutput::Load(data_set, brick, origin));
        }
    }

    /// Writes a brick that is here to the shelf, if there is room; `may_replace`: or in place of such as another shelf has. False: it
    /// is not written.
    fn write(
        &mut self,
        (data_set, brick): BrickName,
        may_replace: bool,
        out: &mut Vec<KeeperOutput>,
    ) -> bool {
        let set = self.sets.get(&data_set);
        let Some(set) = set.filter(|s| s.shelf.may_write(&s.replicas, self.now)) else {
            return false;
        };
        let is_used = self.used_sets().contains(&data_set);
        // What nobody needs takes no place of what nobody needs: another copy of that may not exist.
        let taken = if is_used {
            self.taken()
        } else {
            self.all_taken()
        };
        let free = self.hello.shelf_bytes.saturating_sub(taken);
        let mut lacking = set
            .replicas
            .voxels(brick)
            .saturating_sub(free / set.voxel_bytes());
        let mut replaced = Vec::new();
        if lacking > 0 && may_replace {
            // Frames may need it; what memory holds is given of the shelf.
            let mut spares = spares(&self.local, &set.replicas);
            spares.retain(|b| !self.staging.has((data_set, *b)));
            spares.sort_by_key(|b| set.replicas.announcement().held.contains(*b));
            for spare in spares {
                if lacking == 0 {
                    break;
                }
                lacking = lacking.saturating_sub(set.replicas.voxels(spare));
                replaced.push(spare);
            }
        }
        if lacking > 0 {
            return false;
        }
        for spare in replaced {
            self.unshelve(data_set, spare, out);
        }
        let set = self.sets.get_mut(&data_set);
        if !set.is_some_and(|s| s.shelf.write(&s.replicas, brick)) {
            return false;
        }
        self.make_place(out);
        out.push(KeeperOutput::Shelve(data_set, brick));
        true
    }

    /// Bricks that are held and that the shelf did not take when they came.
    pub(super) fn shelve_held(&mut self, out: &mut Vec<KeeperOutput>) {
        if self.hello.shelf_bytes == 0 {
            return;
        }
        self.share_shelf();
        let mut names = Vec::new();
        for (&data_set, set) in &self.sets {
            let shelf = &self.transfers.shelf;
            let own = set.replicas.announcement();
            let is_missing = |b: &BrickIndex| {
                let name = (data_set, *b);
                !set.replicas.on_shelf().contains(*b)
                    && !set.shelf.is_writing(*b)
                    && shelf.is_open(name)
                    && shelf.attempts(name) == 0
            };
            let count = WRITES_MAX.saturating_sub(set.shelf.writes());
            if set.shelf.may_write(&set.replicas, self.now) {
                let missing = own.held.iter().filter(is_missing).take(count);
                names.extend(missing.map(|b| (data_set, b)));
            }
        }
        for name in names {
            if self.write(name, false, out) {
                let shelf = &mut self.transfers.shelf;
                shelf.begin(name, &Origin::Source, self.now);
            }
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
        let was_written = set.shelf.written(brick);
        // It may have been taken away while it was checked.
        let is_there = was_written || set.replicas.on_shelf().contains(brick);
        match result {
            ShelfResult::Done if is_there => {
                shelf.loaded((data_set, brick), self.now);
                // All hear it with what is said every two seconds.
                set.replicas.shelved(brick);
            }
            ShelfResult::Done => shelf.end((data_set, brick)),
            ShelfResult::Lost => {
                shelf.failed((data_set, brick), self.now);
                self.unshelve(data_set, brick, out);
            }
            ShelfResult::Unreadable => {
                self.dirty |= set.replicas.cannot_read_shelf(brick);
                out.push(KeeperOutput::Roster(data_set));
            }
            ShelfResult::NotTaken => {
                shelf.end((data_set, brick));
                set.shelf.rest(self.now);
            }
        }
        self.fill_shelf(out);
    }

    /// A brick is taken from the shelf. Returns whether it was there.
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

    /// Begins to fetch as many bricks for the shelf as may be under way, those of coarser levels first.
    pub(super) fn fill_shelf(&mut self, out: &mut Vec<KeeperOutput>) {
        if self.hello.shelf_bytes == 0 {
            return;
        }
        self.share_shelf();
        let is_rendering = self.is_rendering();
        let levels = self.used_levels();
        let is_used = |d: &&Digest| self.sets.get(d).is_some_and(|s| s.replicas.is_in_use());
        let mut names: Vec<Digest> = self.order.iter().filter(is_used).copied().collect();
        names.sort_by_key(|d| !levels.contains(d));
        for data_set in names {
            while self.transfers.may_begin(self.now, is_rendering) {
                let (shelf, memory) = (&self.transfers.shelf, &self.transfers.downloads);
                let attempts = |b| {
                    let name = (data_set, b);
                    let is_open = shelf.is_open(name) && memory.is_open(name);
                    is_open.then(|| shelf.attempts(name))
                };
                let coming: u64 = shelf.asked().map(|name| self.bytes_of(name)).sum();
                let free = (self.hello.shelf_bytes).saturating_sub(self.taken() + coming);
                let Some(set) = self.sets.get_mut(&data_set) else {
                    break;
                };
                let at = (self.now, free / set.voxel_bytes());
                let next = set.shelf.next(&self.local, &set.replicas, at, attempts);
                let Some(brick) = next else {
                    break;
                };
                let origin = shelf.origin((data_set, brick), &set.replicas);
                let Some(Origin::Peer(from)) = origin else {
                    continue;
                };
                let origin = Origin::Peer(from.clone());
                let shelf = &mut self.transfers.shelf;
                shelf.begin((data_set, brick), &origin, self.now);
                let request = KeeperMessage::BrickRequest {
                    data_set,
                    brick,
                    for_frame: false,
                };
                out.push(KeeperOutput::Send(from, request));
            }
        }
    }

    /// The levels of data sets that somebody needs.
    fn used_levels(&self) -> BTreeSet<Digest> {
        let used = self.sets.values().filter(|s| s.replicas.is_in_use());
        used.flat_map(|s| s.manifest.levels()).copied().collect()
    }

    /// The data sets that are needed, or have or are levels of such: who uses them says so of one after the other.
    fn used_sets(&self) -> BTreeSet<Digest> {
        let is_used = |d: &Digest| self.sets.get(d).is_some_and(|s| s.replicas.is_in_use());
        let mut all = BTreeSet::new();
        for (data_set, set) in &self.sets {
            let with_levels = || set.manifest.levels().iter().chain([data_set]);
            if with_levels().any(is_used) {
                all.extend(with_levels());
            }
        }
        all
    }

    /// What data sets that are needed take on the shelf, bytes.
    fn taken(&self) -> u64 {
        let used = self.used_sets();
        let sets = self.sets.iter().filter(|(d, _)| used.contains(d));
        sets.map(|(_, s)| s.shelf_bytes()).sum()
    }

    /// What all data sets take on the shelf, bytes.
    fn all_taken(&self) -> u64 {
        self.sets.values().map(DataSet::shelf_bytes).sum()
    }

    /// Length of a brick.
    fn bytes_of(&self, (data_set, brick): BrickName) -> u64 {
        let manifest = self.manifest(data_set);
        manifest.map_or(0, |manifest| manifest.brick_bytes(brick))
    }

    /// Says about how many bricks of each data set there is room for; of one that nobody needs for no more.
    fn share_shelf(&mut self) {
        let (used, taken) = (self.used_sets(), self.taken());
        let free = self.hello.shelf_bytes.saturating_sub(taken);
        for (data_set, set) in &mut self.sets {
            let bricks = set.manifest.grid().brick_count();
            let of_brick = set.one_stored_copy_bytes() / u64::from(bricks.max(1));
            let more = if used.contains(data_set) {
                u32::try_from(free / of_brick.max(1)).unwrap_or(u32::MAX)
            } else {
                0
            };
            let room = set.replicas.on_shelf().len().saturating_add(more);
            set.replicas.set_shelf_room(room.min(bricks));
        }
    }

    /// Takes bricks of data sets that nobody needs from the shelf until all fit that are there and are being written; those of the one that
    /// was opened first go first.
    fn make_place(&mut self, out: &mut Vec<KeeperOutput>) {
        let used = self.used_sets();
        let mut beyond = self.all_taken().saturating_sub(self.hello.shelf_bytes);
        let unused = self.order.iter().filter(|d| !used.contains(d));
        for data_set in unused.copied().collect::<Vec<_>>() {
            while beyond > 0 {
                let Some(set) = self.sets.get(&data_set) else {
                    break;
                };
                let Some(brick) = set.replicas.on_shelf().iter().next() else {
                    break;
                };
                let bytes = set.manifest.brick_bytes(brick);
                self.unshelve(data_set, brick, out);
                beyond = beyond.saturating_sub(bytes);
            }
        }
    }
}

impl DataSet {
    /// What its bricks take on the shelf, with those that are being written, bytes.
    fn shelf_bytes(&self) -> u64 {
        self.shelf.voxels(&self.replicas) * self.voxel_bytes()
    }

    fn voxel_bytes(&self) -> u64 {
        self.manifest.volume().voxel.bytes() as u64
    }

    /// What all its bricks take on a disk, bytes.
    fn one_stored_copy_bytes(&self) -> u64 {
        let voxels = self.manifest.grid().stored_voxels();
        voxels.saturating_mul(self.voxel_bytes())
    }
}

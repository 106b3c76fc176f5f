//! The keeper's data sets: opening and closing them, what of each to hold within this peer's
//! memory, bricks that come and go.

use super::{
    DATA_SETS_MAX, DROP_MICROS, DataSet, Keeper, KeeperMessage, KeeperOutput, LoadResult,
    MANIFEST_BYTES_MAX, NEED_MICROS, NEEDED_MAX, NEW_MICROS, READABLE_DROP_MICROS, Sharing,
};
use crate::{
    balance::roster::{Candidate, RosterEntry},
    base::{digest::Digest, peer::PeerId},
    data::{
        brick_bytes::BrickBytes, brick_grid::BrickIndex, brick_set::BrickSet, manifest::Manifest,
    },
    mesh::{
        announcement::Announcement,
        assignment::Parting,
        membership::Health,
        replicas::{Origin, Replicas, STAGED_MIN},
        shelf::Shelf,
        transfers::{BrickName, Transfers},
    },
};
use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

/// Memory of the triangles of some bricks. It follows what changes in their set, as it is asked for at every step.
#[derive(Clone, Debug, Default)]
pub(super) struct TriangleSum {
    bricks: Option<BrickSet>,
    bytes: u64,
}

impl TriangleSum {
    /// Of these bricks of a data set, which is always the same.
    pub(super) fn of(&mut self, bricks: &BrickSet, manifest: &Manifest) -> u64 {
        if self.bricks.as_ref() == Some(bricks) {
            return self.bytes;
        }
        let known = self.bricks.take();
        let known = known.unwrap_or_else(|| BrickSet::new(bricks.brick_count()));
        let sum = |bricks: BrickSet| -> u64 {
            let memory = bricks.iter().map(|brick| manifest.triangle_memory(brick));
            memory.sum()
        };
        let (new, gone) = (sum(bricks.without(&known)), sum(known.without(bricks)));
        self.bytes = (self.bytes + new).saturating_sub(gone);
        self.bricks = Some(bricks.clone());
        self.bytes
    }
}

impl DataSet {
    fn new(local: &PeerId, manifest: Arc<Manifest>, measure: &BrickBytes, redundancy: u32) -> Self {
        let (grid, name) = (*manifest.grid(), manifest.digest());
        let parting = manifest.placement().map(|method| Parting {
            method,
            weights: manifest.occupied_voxels(),
        });
        let mut set = Self {
            replicas: Replicas::new(local.clone(), grid, redundancy, 0, name, parting),
            brick_bytes: 1,
            typical_bytes: 1,
            voxel_bytes: 1,
            manifest,
            said: None,
            shelf: Shelf::default(),
            new_until: 0,
            assigned_sum: RefCell::default(),
            held_sum: RefCell::default(),
        };
        set.measure_by(measure);
        set
    }

    /// From now on bricks take what this says.
    pub(super) fn measure_by(&mut self, measure: &BrickBytes) {
        self.brick_bytes = measure.largest(&self.manifest).max(1);
        let triangles = self.manifest.triangle_memory_max();
        self.voxel_bytes = self.brick_bytes.saturating_sub(triangles);
        self.reckon_with(measure.typical(&self.manifest).max(1));
    }

    fn reckon_with(&mut self, typical_bytes: u64) {
        self.typical_bytes = typical_bytes;
        let staged = u64::from(STAGED_MIN) * self.brick_bytes;
        let staged = staged.div_ceil(typical_bytes);
        let staged = u32::try_from(staged).unwrap_or(u32::MAX);
        self.replicas.stage_at_least(staged);
    }

    /// Reckons with larger bricks where those that are assigned here take more than was reckoned with.
    pub(super) fn reckon_with_assigned(&mut self) {
        let own = self.replicas.announcement();
        let count = u64::from(own.assigned.len());
        let bytes = self.assigned_bytes();
        let is_more = bytes > u64::from(own.capacity).saturating_mul(self.typical_bytes);
        let mean = bytes.div_ceil(count.max(1));
        if is_more && mean > self.typical_bytes {
            self.reckon_with(mean);
        }
    }

    /// Bytes that bricks take of which a sum is kept.
    fn bytes_of(&self, bricks: &BrickSet, sum: &RefCell<TriangleSum>) -> u64 {
        let count = u64::from(bricks.len());
        if self.typical_bytes == self.brick_bytes {
            return count * self.brick_bytes;
        }
        count * self.voxel_bytes + sum.borrow_mut().of(bricks, &self.manifest)
    }

    /// Bytes that the bricks take that are assigned here.
    fn assigned_bytes(&self) -> u64 {
        self.bytes_of(&self.replicas.announcement().assigned, &self.assigned_sum)
    }

    /// The same of those that are held.
    fn held_bytes(&self) -> u64 {
        self.bytes_of(&self.replicas.announcement().held, &self.held_sum)
    }

    /// Bytes that a brick takes.
    pub(super) fn brick_bytes_of(&self, brick: BrickIndex) -> u64 {
        self.voxel_bytes + self.manifest.triangle_memory(brick)
    }

    /// What tells another peer of it.
    pub(super) fn opening(&self, now: u64) -> KeeperMessage {
        KeeperMessage::Open {
            manifest: Arc::clone(&self.manifest),
            redundancy: self.replicas.redundancy(),
            // Where all copies are there, the first placement is over.
            is_new: now < self.new_until && self.replicas.safety().endangered > 0,
        }
    }

    /// A peer with so many bytes is there, and has not said yet what it has room for: as much as this peer's device would
    /// have.
    pub(super) fn expect(&mut self, peer: &PeerId, memory_bytes: u64, now: u64) {
        let capacity = self.capacity_in(memory_bytes);
        self.replicas.expect(peer, capacity, now);
    }

    /// How many of its bricks fit into so many bytes of this peer's device, about; none where the largest one does not.
    pub(super) fn capacity_in(&self, bytes: u64) -> u32 {
        if bytes < self.brick_bytes {
            return 0;
        }
        u32::try_from(bytes / self.typical_bytes).unwrap_or(u32::MAX)
    }

    /// How many usual bricks take the room of so many bytes, rounded up.
    fn usual_in(&self, bytes: u64) -> usize {
        usize::try_from(bytes.div_ceil(self.typical_bytes)).unwrap_or(usize::MAX)
    }

    /// Bytes that its bricks take here, or will; those that are on their way may not be assigned any more.
    pub(super) fn bytes(&self, transfers: &Transfers) -> u64 {
        self.assigned_bytes().max(self.bytes_there(transfers))
    }

    /// Bytes that those of its bricks take that are held here or on their way.
    pub(super) fn bytes_there(&self, transfers: &Transfers) -> u64 {
        let coming = transfers.downloads.count_of(self.manifest.digest()) as u64;
        self.held_bytes() + coming * self.typical_bytes
    }
}

impl Keeper {
    pub(super) fn offer(
        &mut self,
        manifest: Arc<Manifest>,
        redundancy: u32,
        out: &mut Vec<KeeperOutput>,
    ) {
        let data_set = manifest.digest();
        let is_new = !self.sets.contains_key(&data_set);
        self.open(manifest, redundancy, is_new, out);
        if let Some(set) = self.sets.get_mut(&data_set) {
            set.replicas.has_source();
            set.replicas.set_in_use(true);
            let opening = set.opening(self.now);
            self.send_all(&opening, out);
        }
        self.keep_up(out);
        self.announce(out);
    }

    /// This peer needs a data set that is open, or needs it no more.
    pub(super) fn set_in_use(
        &mut self,
        data_set: Digest,
        in_use: bool,
        out: &mut Vec<KeeperOutput>,
    ) {
        let set = self.sets.get_mut(&data_set);
        if set.is_some_and(|s| s.replicas.set_in_use(in_use)) {
            self.keep_up(out);
            self.announce(out);
        }
    }

    /// Opens a data set; false if it was open.
    pub(super) fn open(
        &mut self,
        manifest: Arc<Manifest>,
        redundancy: u32,
        is_new: bool,
        out: &mut Vec<KeeperOutput>,
    ) -> bool {
        let data_set = manifest.digest();
        if let Some(known) = self.sets.get_mut(&data_set) {
            known.replicas.raise_redundancy(redundancy);
            return false;
        }
        self.close_beyond(DATA_SETS_MAX, MANIFEST_BYTES_MAX, &manifest, out);
        out.push(KeeperOutput::Opened(Arc::clone(&manifest)));
        let mut set = DataSet::new(&self.local, manifest, &self.brick_bytes, redundancy);
        set.shelf.is_listed = self.hello.shelf_bytes == 0;
        if self.hello.sharing == Sharing::Off {
            set.replicas.never_fetches();
        }
        if is_new {
            set.new_until = self.now.saturating_add(NEW_MICROS);
        } else {
            set.replicas.comes_late(self.now);
        }
        if self.is_leaving() {
            set.replicas.leave();
        }
        for (peer, member, health) in self.members.all() {
            set.expect(peer, member.hello.memory_bytes, self.now);
            if health == Health::Suspect {
                set.replicas.suspect(peer);
            }
        }
        let members = &self.members;
        let known = |peer: &PeerId| members.health(peer).is_some();
        for (peer, of_peer) in self.early.iter_mut().filter(|(p, _)| known(p)) {
            if let Some(announcement) = of_peer.remove(&data_set) {
                set.replicas.heard(peer, announcement, self.now);
            }
        }
        self.sets
            .values_mut()
            .for_each(|s| s.replicas.say_seen_again());
        self.sets.insert(data_set, set);
        self.order.push(data_set);
        self.dirty = true;
        true
    }

    /// Closes data sets until one more can be opened: those first that nobody needs, then those
    /// that were opened first.
    pub(super) fn close_beyond(
        &mut self,
        count_max: usize,
        bytes_max: usize,
        manifest: &Manifest,
        out: &mut Vec<KeeperOutput>,
    ) {
        loop {
            let open = self.sets.values().map(|s| s.manifest.memory_bytes());
            let bytes = open.sum::<usize>() + manifest.memory_bytes();
            if self.order.len() < count_max && bytes <= bytes_max {
                return;
            }
            let unused = |d: &&Digest| self.sets.get(d).is_some_and(|s| !s.replicas.is_in_use());
            let has_none = |d: &&Digest| {
                let set = self.sets.get(d).map(|s| &s.replicas);
                set.is_some_and(|r| r.on_shelf().is_empty() && r.announcement().held.is_empty())
            };
            let least = self.order.iter().filter(unused).find(has_none);
            let least = least.or_else(|| self.order.iter().find(unused));
            let least = least.or(self.order.first());
            let Some(&least) = least else {
                return;
            };
            self.close(least, out);
        }
    }

    pub(super) fn close(&mut self, data_set: Digest, out: &mut Vec<KeeperOutput>) {
        let Some(set) = self.sets.remove(&data_set) else {
            return;
        };
        self.order.retain(|d| *d != data_set);
        self.transfers.close(data_set);
        let bricks = set.manifest.grid().brick_count();
        let nothing = KeeperMessage::Residency {
            data_set,
            announcement: Arc::new(Announcement::expected(bricks, 0)),
        };
        self.send_all(&nothing, out);
        let held = set.replicas.announcement().held.iter();
        out.extend(held.map(|brick| KeeperOutput::Unload(data_set, brick)));
        // It may be opened again before they are due: nothing of it is in memory then.
        let dropped = self.dropping.extract_if(.., |d| d.1 == data_set);
        out.extend(dropped.map(|(_, d, b)| KeeperOutput::Unload(d, b)));
        let (freed, in_vain) = self.staging.close(data_set);
        out.extend(freed.into_iter().map(|(d, b)| KeeperOutput::Unload(d, b)));
        out.extend(in_vain.into_iter().map(super::stage::answer(false)));
        out.push(KeeperOutput::Closed(data_set));
        let others = self.sets.values_mut();
        others.for_each(|s| s.replicas.memory_was_freed());
    }

    /// Frees what a data set takes in memory; it stays open, as bricks of it are on the shelf.
    fn empty(&mut self, data_set: Digest, out: &mut Vec<KeeperOutput>) {
        let Some(set) = self.sets.get_mut(&data_set) else {
            return;
        };
        self.transfers.downloads.close(data_set);
        for brick in set.replicas.hold_nothing() {
            out.push(KeeperOutput::Unload(data_set, brick));
            out.push(KeeperOutput::Dropped(data_set, brick));
        }
        out.push(KeeperOutput::Roster(data_set));
        self.dirty = true;
        let others = self.sets.values_mut();
        others.for_each(|s| s.replicas.memory_was_freed());
    }

    /// Where memory is short for what somebody needs, closes what nobody needs and takes memory here;
    /// and of what is needed, too, more copies than are wanted are not held.
    fn make_room(&mut self, out: &mut Vec<KeeperOutput>) {
        let sets = self.sets.iter();
        let (used, unused): (Vec<_>, Vec<_>) = sets.partition(|(_, s)| s.replicas.is_in_use());
        let short: Vec<_> = (used.iter())
            .filter(|(_, s)| s.replicas.is_short_of_room())
            .collect();
        let is_short = !short.is_empty();
        // Where all of it is assigned, no other data set need give anything up.
        let endangered: Vec<Digest> = (short.iter())
            .filter(|(_, s)| s.replicas.is_short_of_copies())
            .map(|(d, _)| **d)
            .collect();
        let used: Vec<Digest> = used.iter().map(|(d, _)| **d).collect();
        if is_short {
            let transfers = &self.transfers;
            let in_memory = unused.iter().filter(|(_, s)| s.bytes(transfers) > 0);
            let closing: Vec<Digest> = in_memory.map(|(d, _)| **d).collect();
            for data_set in closing {
                let set = self.sets.get(&data_set);
                if set.is_some_and(|s| s.replicas.on_shelf().is_empty()) {
                    self.close(data_set, out);
                } else {
                    self.empty(data_set, out);
                }
            }
        }
        for (data_set, set) in &mut self.sets {
            let is_other = |d: &Digest| d != data_set;
            // Until the other one is not needed any more: it would be short again.
            let goes_on = set.replicas.is_pressed() && used.iter().any(is_other);
            set.replicas
                .set_pressed(goes_on || endangered.iter().any(is_other));
        }
    }

    /// Works out anew what this peer should hold of each data set, drops and downloads. That takes its
    /// time: what follows from what many others say is worked out once for them all, at the next
    /// tick.
    pub(super) fn keep_up(&mut self, out: &mut Vec<KeeperOutput>) {
        self.foresee();
        let limits = self.limits();
        let transfers = &self.transfers;
        let mut all: u64 = self.sets.values().map(|s| s.bytes(transfers)).sum();
        let mut dropped = Vec::new();
        let mut unfreed = self.unfreed_bytes();
        let unlimited = self.sets.iter().filter(|(d, _)| !limits.contains_key(d));
        let unlimited: u64 = unlimited.map(|(_, s)| s.bytes(transfers)).sum();
        let limited = self.hello.memory_bytes.saturating_sub(unlimited);
        for (&data_set, set) in &mut self.sets {
            set.reckon_with_assigned();
            // What other data sets have dropped is in memory still.
            let of_others = unfreed.iter().filter(|(d, _)| *d != data_set);
            let of_others: u64 = of_others.map(|(_, bytes)| bytes).sum();
            let others = all.saturating_sub(set.bytes(transfers));
            let taken = others.saturating_add(of_others);
            let room = self.hello.memory_bytes.saturating_sub(taken);
            let limit = limits.get(&data_set).copied();
            let capacity = set.capacity_in(room.min(limit.unwrap_or(u64::MAX)));
            // Where a limit is less than a brick, what the volume itself is read in is lent.
            let of_limit = |limit: u64| limit.max(set.brick_bytes).min(limited);
            let later = set.capacity_in(limit.map_or(0, of_limit));
            let cache = self.cache_bytes.map(|bytes| set.usual_in(bytes));
            set.replicas.caches_at_most(cache);
            if set.replicas.set_room(capacity, later, self.now) {
                self.dirty = true;
                out.push(KeeperOutput::Roster(data_set));
            }
            let downloads = &self.transfers.downloads;
            let is_open = |brick| downloads.is_open((data_set, brick));
            self.dirty |= set.replicas.keep_up(self.now, is_open);
            for brick in set.replicas.droppable(self.now) {
                let can_read = set.replicas.announcement().readable.contains(brick);
                let stays = if can_read || set.replicas.are_fetched() {
                    READABLE_DROP_MICROS
                } else {
                    DROP_MICROS
                };
                set.replicas.dropped(brick);
                dropped.push((self.now + stays, data_set, brick));
                unfreed.push((data_set, set.brick_bytes_of(brick)));
            }
            all = others.saturating_add(set.bytes(transfers));
        }
        for (due, data_set, brick) in dropped {
            self.dropping.push((due, data_set, brick));
            out.push(KeeperOutput::Roster(data_set));
            self.dirty = true;
        }
        self.keep_dropped(out);
        self.make_room(out);
        self.look_for_room(out);
        self.stage_all(out);
        self.download_all(out);
    }

    /// Usual bricks of a data set for which those in memory take the room that are not held: dropped ones, and those read for
    /// frames beyond the room that is kept for these.
    fn besides(&self, data_set: Digest) -> usize {
        let reserve = |s: &DataSet| s.replicas.announcement().reserve as usize;
        let staged = self.staging.bytes_of(data_set);
        let of = |s: &DataSet| s.usual_in(staged).saturating_sub(reserve(s));
        self.dropped_of(data_set) + self.sets.get(&data_set).map_or(0, of)
    }

    /// Usual bricks of a data set for which those take the room that are or may be in memory beside its held ones, and that will
    /// leave it: those of frames, and dropped ones.
    pub(super) fn in_the_way(&self, data_set: Digest) -> usize {
        let staged = self.staging.bytes();
        let staged = (self.sets.get(&data_set)).map_or(0, |s| s.usual_in(staged));
        self.dropped_of(data_set) + staged
    }

    fn dropped_of(&self, data_set: Digest) -> usize {
        self.dropping.iter().filter(|d| d.1 == data_set).count()
    }

    /// What was dropped and is in memory still, in bytes of each brick.
    pub(super) fn unfreed_bytes(&self) -> Vec<(Digest, u64)> {
        let unfreed = self.dropping.iter();
        unfreed
            .map(|&(_, d, brick)| (d, self.memory_of((d, brick))))
            .collect()
    }

    /// Memory of a brick of a data set that is open, bytes.
    pub(super) fn memory_of(&self, (data_set, brick): BrickName) -> u64 {
        let set = self.sets.get(&data_set);
        set.map_or(0, |s| s.brick_bytes_of(brick))
    }

    /// Begins as many downloads as may be under way, the most urgent first, of all data sets.
    pub(super) fn download_all(&mut self, out: &mut Vec<KeeperOutput>) {
        self.hold_staged(out);
        if self.is_crowded() {
            return;
        }
        let is_rendering = self.is_rendering();
        let levels = self.sets.values().flat_map(|s| s.manifest.levels());
        let levels: BTreeSet<Digest> = levels.copied().collect();
        // What is on the shelf is not asked of others.
        let listed = self.sets.iter().filter(|(_, set)| set.shelf.is_listed);
        let sets: Vec<_> = listed
            .map(|(&d, set)| (d, &set.replicas, self.besides(d), levels.contains(&d)))
            .collect();
        let begun = self.transfers.begin(self.now, is_rendering, &sets);
        // What is being read for a frame is not read twice; what is fetched for one may not come.
        let is_read = |name, origin: &Origin| {
            let is_staged = self.staging.is_reading(name) && !self.staging.is_fetched(name);
            *origin == Origin::Source && is_staged
        };
        let begun = begun
            .into_iter()
            .filter(|(name, origin)| !is_read(*name, origin));
        out.extend(begun.map(|((data_set, brick), origin)| match origin {
            Origin::Source => KeeperOutput::Load(data_set, brick, Origin::Source),
            Origin::Peer(from) => {
                let request = KeeperMessage::BrickRequest {
                    data_set,
                    brick,
                    for_frame: false,
                };
                KeeperOutput::Send(from, request)
            }
        }));
        self.fill_shelf(out);
    }

    /// A brick has come; false where nobody waits for it.
    pub(super) fn arrived(&mut self, data_set: Digest, brick: BrickIndex, from: &PeerId) -> bool {
        let besides = self.besides(data_set);
        self.sets.get(&data_set).is_some_and(|set| {
            let name = (data_set, brick);
            (self.transfers).arrived(name, from, self.now, &set.replicas, besides)
        })
    }

    /// Holds again what was dropped and is still in memory, where it is assigned again, or whoever went on
    /// holding it is gone.
    fn keep_dropped(&mut self, out: &mut Vec<KeeperOutput>) {
        let sets = &self.sets;
        let is_wanted = |d: &mut (u64, Digest, BrickIndex)| {
            let holding = sets.get(&d.1).map(|s| &s.replicas);
            holding.is_some_and(|h| h.announcement().assigned.contains(d.2) || h.is_missed(d.2))
        };
        let again: Vec<_> = self.dropping.extract_if(.., is_wanted).collect();
        for (_, data_set, brick) in again {
            if let Some(set) = self.sets.get_mut(&data_set) {
                self.transfers.downloads.end((data_set, brick));
                set.replicas.kept(brick);
                out.push(KeeperOutput::Roster(data_set));
                self.dirty = true;
            }
        }
    }

    pub(super) fn loaded(
        &mut self,
        data_set: Digest,
        brick: BrickIndex,
        result: LoadResult,
        out: &mut Vec<KeeperOutput>,
    ) {
        let in_the_way = self.in_the_way(data_set);
        let Some(set) = self.sets.get_mut(&data_set) else {
            // Closed while the brick was on its way.
            if result == LoadResult::Done {
                out.push(KeeperOutput::Unload(data_set, brick));
            }
            return;
        };
        match result {
            LoadResult::Done => {
                self.transfers.loaded((data_set, brick), self.now);
                set.replicas.loaded(brick);
                out.push(KeeperOutput::Roster(data_set));
                self.is_held_now((data_set, brick), out);
            }
            LoadResult::NoRoom => {
                self.transfers.downloads.end((data_set, brick));
                set.replicas.does_not_fit(brick, in_the_way);
            }
            LoadResult::Failed | LoadResult::Unreadable => {
                let has_source = set.replicas.announcement().source;
                let is_unreadable = result == LoadResult::Unreadable;
                if is_unreadable && has_source {
                    set.replicas.cannot_give(brick);
                }
                let was_on_shelf =
                    is_unreadable && !has_source && self.unshelve(data_set, brick, out);
                let downloads = &mut self.transfers.downloads;
                if was_on_shelf {
                    // It is fetched again.
                    downloads.end((data_set, brick));
                } else {
                    downloads.failed((data_set, brick), self.now);
                }
            }
        }
        self.dirty = true;
        let set = self.sets.get(&data_set);
        if set.is_some_and(|s| s.replicas.announcement().settled) {
            self.announce(out);
        }
        self.download_all(out);
    }

    /// Frees what was dropped a while ago and is not held again (`keep_dropped`).
    pub(super) fn free_dropped(&mut self, out: &mut Vec<KeeperOutput>) {
        self.keep_dropped(out);
        let now = self.now;
        let due: Vec<_> = self.dropping.extract_if(.., |d| d.0 <= now).collect();
        for (data_set, set) in &mut self.sets {
            if due.iter().any(|(_, of, _)| of != data_set) {
                set.replicas.memory_was_freed();
            }
        }
        if !due.is_empty() {
            self.staging.memory_was_freed();
        }
        for (_, data_set, brick) in due {
            let set = self.sets.get(&data_set);
            if set.is_none_or(|s| !s.replicas.announcement().held.contains(brick)) {
                out.push(KeeperOutput::Unload(data_set, brick));
                out.push(KeeperOutput::Dropped(data_set, brick));
            }
        }
    }

    /// Whether the manifest of a data set is to be asked for now: not while one may be on its way.
    pub(super) fn needs(&mut self, data_set: Digest) -> bool {
        let now = self.now;
        self.needed
            .retain(|_, asked| now.saturating_sub(*asked) < NEED_MICROS);
        let needs = !self.needed.contains_key(&data_set) && self.needed.len() < NEEDED_MAX;
        if needs {
            self.needed.insert(data_set, now);
        }
        needs
    }

    /// Who can take part in frames has changed, of all data sets.
    pub(super) fn rosters_changed(&self, out: &mut Vec<KeeperOutput>) {
        out.extend(self.sets.keys().map(|&d| KeeperOutput::Roster(d)));
    }

    /// The manifest of a data set that is open, and who can take part in its frames: this peer and
    /// all others of the mesh, suspects too, so that frames can wait for them.
    #[must_use]
    pub fn candidates(&self, data_set: Digest) -> Option<(&Arc<Manifest>, Vec<Candidate>)> {
        let set = self.sets.get(&data_set)?;
        let is_known = |p: &PeerId| self.members.health(p).is_some();
        let candidate = |(entry, readable): (RosterEntry, BrickSet)| {
            // This peer is none of the members.
            let standing = self.members.standing(&entry.peer);
            let suspects = standing.map(|(m, ..)| Arc::clone(&m.vitals.suspects));
            let suspects = suspects.unwrap_or_default();
            let (health, unheard) = standing.map_or((Health::Well, false), |s| (s.1, s.2));
            let is_silent = unheard || suspects.contains(&self.local);
            Candidate {
                is_late: !is_silent && health == Health::Suspect,
                is_silent,
                suspects,
                entry,
                readable,
            }
        };
        let entries = set.replicas.roster(is_known).into_iter();
        Some((&set.manifest, entries.map(candidate).collect()))
    }

    /// The manifest of a data set that is open.
    #[must_use]
    pub fn manifest(&self, data_set: Digest) -> Option<&Arc<Manifest>> {
        self.sets.get(&data_set).map(|s| &s.manifest)
    }

    /// Whether others use data sets whose manifests have not come yet.
    #[must_use]
    pub fn awaits_data_sets(&self) -> bool {
        let all = self.early.values().flatten();
        all.filter(|(d, _)| !self.sets.contains_key(d))
            .any(|(_, a)| a.in_use)
    }

    /// The data sets that are open, with what is known of their bricks.
    pub fn data_sets(&self) -> impl Iterator<Item = (&Arc<Manifest>, &Replicas)> {
        self.sets.values().map(|s| (&s.manifest, &s.replicas))
    }
}

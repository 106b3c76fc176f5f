//! The replicas of one data set's bricks, as one peer knows them: what it holds, what others hold, and what
//! it should hold.
//!
//! A pure state machine; times are microseconds of any clock that goes on. What the peer should hold
//! follows from everybody's announcements (`assignment`); what is scheduled is only what is announced
//! to be held. When it works out anew what that is, is in `own_assignment`, what it drops in `drops`,
//! what it reads for frames in `reading`.
//!
//! Invariant: a brick that the peer should not hold any more stays until others hold enough copies.
//! Not here: bricks on their way (`transfers`).

mod drops;
mod own_assignment;
mod reading;

use crate::{
    balance::{frame_plan::FrameWork, roster::RosterEntry},
    base::{digest::Digest, peer::PeerId},
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        brick_set::BrickSet,
    },
    mesh::{
        announcement::Announcement,
        assignment::{FirstPlacement, Parting, Safety, name_hash},
    },
};
pub use reading::STAGED_MIN;
use reading::{FETCHES_MICROS, Reading};
pub(super) use reading::{reserve_of, with_reserve};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Most copies of a brick that anybody can want.
pub const REDUNDANCY_MAX: u32 = 64;

/// See the module.
#[derive(Clone, Debug)]
pub struct Replicas {
    local: PeerId,
    local_hash: u64,
    grid: BrickGrid,
    redundancy: u32,
    first: FirstPlacement,
    own: Announcement,
    others: BTreeMap<PeerId, Arc<Announcement>>,
    /// Those of the others that are silent or late.
    suspects: BTreeSet<PeerId>,
    /// Since when bricks that are held are not assigned any more.
    unassigned: BTreeMap<BrickIndex, u64>,
    /// Bricks whose voxels this peer has in host memory, to load them again.
    copies: BrickSet,
    /// Bricks on this peer's shelf, checked or not.
    on_shelf: BrickSet,
    /// Voxels that these have.
    shelf_voxels: u64,
    reading: Reading,
    /// What was assigned before, and until when this peer does not go back to it.
    before: Option<(BrickSet, u64)>,
    /// The device has no room for more.
    capacity_max: u32,
    /// Memory here is short for another data set.
    pressed: bool,
    /// Something that decides about the assignment has changed since it was worked out.
    outdated: bool,
    /// Room for bricks that are read for frames, at least.
    staged_min: u32,
    /// Whether [`Self::needed`] decided when [`Self::keep_up`] was called last.
    was_short: bool,
    /// This peer came into a mesh that had the data set: when it learned last of another one that has
    /// room.
    met_at: Option<u64>,
    /// When it was worked out last, while copies are wanting that nobody has assigned.
    wanting_since: Option<u64>,
    /// What the frames of each requester ask of the peers, and since when.
    asked: BTreeMap<PeerId, (u64, Arc<FrameWork>)>,
    /// Some of that was not reckoned with yet.
    is_asked_anew: bool,
    /// Bricks that frames need, those of all who looked last, also after they have left, or where frames of another level need
    /// some; `None`: not known.
    seen: Option<BrickSet>,
    /// Frames need others than was said last.
    is_seen_anew: bool,
    /// How often other bricks came to be missing, or to be had of others, than by what is said again and again.
    changes: u64,
    /// Copies taken for that which are not here yet.
    taken: BTreeSet<BrickIndex>,
}

/// Requesters whose frames are reckoned with, those that asked last.
const ASKED_MAX: usize = 16;
/// Where a brick is to come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This peer itself: a copy in host memory, or its source.
    Source,
    /// Another peer.
    Peer(PeerId),
}

impl Replicas {
    /// Nothing is held yet; `capacity` is in bricks, `name` the data set's; `parting`: how it is placed at first, where that
    /// is not scattered.
    #[must_use]
    pub fn new(
        local: PeerId,
        grid: BrickGrid,
        redundancy: u32,
        capacity: u32,
        name: Digest,
        parting: Option<Parting>,
    ) -> Self {
        let bytes = name.as_bytes().iter().take(8);
        Self {
            local_hash: name_hash(&local),
            local,
            redundancy: redundancy.clamp(1, REDUNDANCY_MAX),
            first: FirstPlacement::new(grid, bytes.fold(0, |s, &b| s << 8 | u64::from(b)), parting),
            own: Announcement::expected(grid.brick_count(), capacity),
            copies: BrickSet::new(grid.brick_count()),
            on_shelf: BrickSet::new(grid.brick_count()),
            shelf_voxels: 0,
            reading: Reading::default(),
            before: None,
            grid,
            others: BTreeMap::new(),
            suspects: BTreeSet::new(),
            unassigned: BTreeMap::new(),
            capacity_max: u32::MAX,
            pressed: false,
            outdated: true,
            was_short: false,
            staged_min: STAGED_MIN,
            met_at: None,
            wanting_since: None,
            asked: BTreeMap::new(),
            is_asked_anew: false,
            seen: None,
            is_seen_anew: false,
            changes: 0,
            taken: BTreeSet::new(),
        }
    }

    /// Copies of each brick that are wanted.
    #[must_use]
    pub fn redundancy(&self) -> u32 {
        self.redundancy
    }

    /// Somebody wants so many copies: the most that anybody wants are made, so that all peers come
    /// to the same number in whatever order they hear of it.
    pub fn raise_redundancy(&mut self, redundancy: u32) {
        let raised = redundancy.min(REDUNDANCY_MAX);
        self.outdated |= raised > self.redundancy;
        self.redundancy = self.redundancy.max(raised);
    }

    /// What this peer announces.
    #[must_use]
    pub fn announcement(&self) -> &Announcement {
        &self.own
    }

    /// What others announced.
    #[must_use]
    pub fn others(&self) -> &BTreeMap<PeerId, Arc<Announcement>> {
        &self.others
    }

    fn of_others(&self) -> impl Iterator<Item = &Announcement> {
        self.others.values().map(|a| &**a)
    }

    /// From now on this peer can read every brick itself, and needs no shelf.
    pub fn has_source(&mut self) {
        self.own.source = true;
        self.on_shelf = BrickSet::new(self.grid.brick_count());
        self.shelf_voxels = 0;
        self.own.shelf = BrickSet::default();
    }

    /// Whether somebody at this peer needs the data set. Returns whether that is news.
    pub fn set_in_use(&mut self, in_use: bool) -> bool {
        let news = self.own.in_use != in_use;
        self.own.in_use = in_use;
        self.outdated |= news;
        self.is_asked_anew |= news;
        news
    }

    /// A frame is asked for here of which peers fetch what they lack. Returns whether that is news.
    pub fn fetches(&mut self, now: u64) -> bool {
        self.reading.fetches_until = now.saturating_add(FETCHES_MICROS);
        !std::mem::replace(&mut self.own.fetches, true)
    }

    /// Whether peers fetch for frames what they lack.
    pub(super) fn are_fetched(&self) -> bool {
        self.own.fetches || self.of_others().any(|a| a.fetches)
    }

    /// Whether anybody in the mesh needs the data set.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.own.in_use || self.others.values().any(|a| a.in_use)
    }

    /// Whether this peer could take more bricks if it had more room: it is full of such as not enough others have.
    #[must_use]
    pub fn is_short_of_room(&self) -> bool {
        let (own, brick_count) = (&self.own, self.grid.brick_count());
        if own.capacity >= brick_count || own.assigned.len() < own.capacity {
            return false;
        }
        let mut copies = vec![0_u32; brick_count as usize];
        for other in self.of_others().filter(|a| !a.leaving) {
            let assigned = other.assigned.iter();
            assigned.for_each(|b| copies[b.0 as usize] += 1);
        }
        let is_needed = |b: BrickIndex| copies[b.0 as usize] < self.redundancy;
        own.assigned.iter().all(is_needed)
    }

    /// Whether there is a brick that fewer peers have assigned than should.
    #[must_use]
    pub fn is_short_of_copies(&self) -> bool {
        let staying = self.of_others().chain([&self.own]).filter(|a| !a.leaving);
        let assigned = staying.map(|a| &a.assigned);
        Safety::of(self.grid.brick_count(), assigned, self.redundancy).endangered > 0
    }

    /// Whether memory here is short for another data set: then no copies are held beyond those that
    /// are wanted.
    pub fn set_pressed(&mut self, pressed: bool) {
        self.outdated |= pressed != self.pressed;
        self.pressed = pressed;
    }

    /// Whether it was so when that was said last.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.pressed
    }

    /// Other data sets gave memory back: what did not fit may fit now.
    pub fn memory_was_freed(&mut self) {
        self.outdated |= self.capacity_max != u32::MAX;
        self.capacity_max = u32::MAX;
    }

    fn set_capacity(&mut self, capacity: u32) {
        let capacity = capacity.min(self.capacity_max);
        self.outdated |= capacity != self.own.capacity;
        self.own.capacity = capacity;
    }

    /// This peer is about to leave: it needs nothing and takes no more, and others make up for
    /// its copies.
    pub fn leave(&mut self) {
        self.own.leaving = true;
        self.own.in_use = false;
        self.outdated = true;
    }

    /// Whether all that this peer holds is held by others who stay, as far as anybody could. A
    /// holder counts once it is known to know that this peer leaves: so of several that leave at the
    /// same time none relies on another. One who is silent is not relied on, but might yet take
    /// something: it is heard again soon, or gone.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        let staying = || announced(&self.others).filter(|(_, a)| !a.leaving);
        if are_full(staying().map(|(_, a)| a)) {
            return true;
        }
        let relied_on: Vec<&Announcement> = staying()
            .filter(|(p, a)| a.leavers.contains(&self.local) && !self.suspects.contains(*p))
            .map(|(_, a)| a)
            .collect();
        let gives = |a: &Announcement, b| a.held.contains(b) || a.readable.contains(b);
        let is_safe = |b| relied_on.iter().any(|a| gives(a, b));
        self.own.held.iter().all(is_safe)
    }

    /// Bricks that this peer leaves and that none of those who stay holds, can read, or has on its shelf; 0 where nobody stays.
    pub(super) fn left_behind(&self) -> u32 {
        let staying = || self.of_others().filter(|a| !a.leaving);
        if staying().any(|a| a.source) || staying().all(|a| a.capacity == 0) {
            return 0;
        }
        let mut stays = BrickSet::default();
        for a in staying() {
            stays.insert_all(&a.held);
            stays.insert_all(&a.readable);
            stays.insert_all(&a.shelf);
        }
        let mut left = self.own.held.clone();
        left.insert_all(&self.own.shelf);
        if self.own.source {
            left = BrickSet::all(self.grid.brick_count());
        }
        left.len_without(&stays)
    }

    /// How safe the copies of all bricks are.
    #[must_use]
    pub fn safety(&self) -> Safety {
        let all = || self.of_others().chain([&self.own]).filter(|a| !a.leaving);
        let held = all().map(|a| &a.held);
        let safety = Safety::of(self.grid.brick_count(), held, self.redundancy);
        let (mut held, mut readable) = (BrickSet::default(), BrickSet::default());
        for a in all() {
            held.insert_all(&a.held);
            readable.insert_all(&a.readable);
        }
        let read = readable.len_without(&held);
        Safety {
            missing: safety.missing - read,
            read,
            ..safety
        }
    }

    /// A peer's announcement arrived. Returns whether it fits the data set.
    pub fn heard(
        &mut self,
        peer: &PeerId,
        announcement: impl Into<Arc<Announcement>>,
        now: u64,
    ) -> bool {
        let announcement = announcement.into();
        if !announcement.is_valid(self.grid.brick_count()) {
            return false;
        }
        fn decides(a: &Announcement) -> (&BrickSet, u32, bool, bool) {
            (&a.assigned, a.capacity, a.leaving, a.in_use)
        }
        let before = self.others.get(peer);
        if before.is_none_or(|b| decides(b) != decides(&announcement)) {
            self.outdated = true;
            self.is_asked_anew |= before.is_none_or(|b| b.in_use != announcement.in_use);
            self.wanting_since = self.wanting_since.map(|_| now);
        }
        // What somebody has in memory is its to take first: where it has not, it is another one's.
        self.outdated |= before.is_some_and(|b| b.held.len_without(&announcement.held) > 0);
        if announcement.leaving {
            self.own.leavers.insert(peer.clone());
        } else {
            // Back again, and not about to leave.
            self.own.leavers.remove(peer);
        }
        let gives = |a: &Announcement| (a.source, a.held.is_empty(), a.leaving);
        self.changes += u64::from(before.is_none_or(|b| gives(b) != gives(&announcement)));
        if before.is_none() && announcement.capacity > 0 {
            self.met_at = self.met_at.map(|_| now);
        }
        self.others.insert(peer.clone(), announcement);
        true
    }

    /// A peer is there that has said nothing of the data set yet.
    pub fn expect(&mut self, peer: &PeerId, capacity: u32, now: u64) {
        if !self.others.contains_key(peer) {
            let expected = Announcement::expected(self.grid.brick_count(), capacity);
            self.heard(peer, expected, now);
        }
    }

    /// Forgets a peer that is gone.
    pub fn forget(&mut self, peer: &PeerId) {
        self.outdated |= self.others.remove(peer).is_some();
        self.changes += 1;
        self.suspects.remove(peer);
        self.own.leavers.remove(peer);
        self.is_asked_anew |= self.asked.remove(peer).is_some();
    }

    /// What a requester's frames ask of the peers from now on.
    pub fn asked(&mut self, requester: &PeerId, work: Arc<FrameWork>, now: u64) {
        if work.micros.len() != self.grid.brick_count() as usize {
            return;
        }
        self.asked.insert(requester.clone(), (now, work));
        self.is_asked_anew = true;
        let oldest = self.asked.iter().min_by_key(|(_, (since, _))| *since);
        let oldest = oldest.map(|(peer, _)| peer.clone());
        if let Some(oldest) = oldest.filter(|_| self.asked.len() > ASKED_MAX) {
            self.asked.remove(&oldest);
        }
    }

    /// A peer is silent or late: it is asked for nothing that others have. Its copies still count.
    pub fn suspect(&mut self, peer: &PeerId) {
        self.suspects.insert(peer.clone());
    }

    /// The suspicion has ended.
    pub fn trust(&mut self, peer: &PeerId) {
        self.suspects.remove(peer);
    }

    /// Looks whether all is held that is assigned and that anybody could give. Returns whether that
    /// is news.
    fn settle(&mut self) -> bool {
        let missing = |b: &BrickIndex| !self.own.held.contains(*b) && self.can_be_had(*b);
        let settled = !self.own.assigned.iter().any(|b| missing(&b));
        std::mem::replace(&mut self.own.settled, settled) != settled
    }

    /// Whether anybody could give a brick.
    pub(super) fn can_be_had(&self, brick: BrickIndex) -> bool {
        self.is_here(brick) || self.of_others().any(|a| a.gives(brick))
    }

    /// Others who stay and hold a brick.
    pub(super) fn others_hold(&self, brick: BrickIndex) -> u32 {
        let holds = |a: &&Announcement| !a.leaving && a.held.contains(brick);
        let holders = self.of_others().filter(holds).count();
        u32::try_from(holders).unwrap_or(u32::MAX)
    }

    /// A brick is not held any more: it was dropped, or its memory was lost.
    pub fn dropped(&mut self, brick: BrickIndex) {
        self.own.held.remove(brick);
        self.changes += u64::from(self.own.assigned.contains(brick));
        self.copies.remove(brick);
        self.settle();
    }

    /// A brick that was dropped and is assigned again is still in memory: it is held again.
    pub fn kept(&mut self, brick: BrickIndex) {
        self.own.held.insert(brick);
        self.settle();
    }

    /// Nothing is held any more, nor to be held. Returns what was.
    pub(super) fn hold_nothing(&mut self) -> Vec<BrickIndex> {
        let nothing = BrickSet::new(self.grid.brick_count());
        self.own.assigned = nothing.clone();
        self.copies = nothing.clone();
        self.unassigned.clear();
        let held = std::mem::replace(&mut self.own.held, nothing);
        self.settle();
        held.iter().collect()
    }

    /// The device is lost, with all that was on it. Of what was held, `has_copy` says what is in
    /// host memory still; all that is assigned is got again.
    pub fn device_lost(&mut self, has_copy: impl Fn(BrickIndex) -> bool) {
        let held = std::mem::replace(&mut self.own.held, BrickSet::new(self.grid.brick_count()));
        for brick in held.iter().filter(|&b| has_copy(b)) {
            self.copies.insert(brick);
        }
        self.settle();
    }

    /// The brick was freed because memory was short for something else: there is less room.
    /// `besides`: bricks that are there for frames.
    pub fn given_up(&mut self, brick: BrickIndex, besides: usize) {
        self.dropped(brick);
        self.does_not_fit(brick, besides);
    }

    /// Assigned bricks that are not here, of those that `is_open` names.
    pub(super) fn missing(
        &self,
        is_open: impl Fn(BrickIndex) -> bool,
    ) -> impl Iterator<Item = BrickIndex> {
        let missing = move |b: &BrickIndex| !self.own.held.contains(*b) && is_open(*b);
        self.own.assigned.iter().filter(missing)
    }

    /// Changes when bricks may be more urgent than they were, but for what others hold more or less of.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// How many assigned bricks are not here.
    pub(super) fn missing_count(&self) -> u32 {
        self.own.assigned.len_without(&self.own.held)
    }

    /// Whether a brick is to be held and is not.
    pub(super) fn is_wanted(&self, brick: BrickIndex) -> bool {
        self.own.assigned.contains(brick) && !self.own.held.contains(brick)
    }

    /// Whether a brick can be had at this peer itself: from its source, its shelf, or host memory.
    pub(super) fn is_here(&self, brick: BrickIndex) -> bool {
        self.can_read_again(brick) || self.copies.contains(brick)
    }

    /// Whether a brick's voxels are in host memory here.
    pub(super) fn has_copy(&self, brick: BrickIndex) -> bool {
        self.copies.contains(brick)
    }

    /// Bricks of the data set.
    pub(super) fn brick_count(&self) -> u32 {
        self.grid.brick_count()
    }

    /// The bricks that anybody who stays holds.
    pub(super) fn held(&self) -> BrickSet {
        let mut held = self.own.held.clone();
        for other in self.of_others().filter(|a| !a.leaving) {
            held.insert_all(&other.held);
        }
        held
    }

    /// Whether a peer is silent or late.
    pub(super) fn is_suspect(&self, peer: &PeerId) -> bool {
        self.suspects.contains(peer)
    }

    /// Bricks on this peer's shelf, checked or not.
    pub(super) fn on_shelf(&self) -> &BrickSet {
        &self.on_shelf
    }

    /// There is a brick on the shelf, which was not checked.
    pub(super) fn is_on_shelf(&mut self, brick: BrickIndex) {
        if self.on_shelf.insert(brick) {
            self.shelf_voxels += self.voxels(brick);
        }
    }

    /// Voxels that a brick stores.
    pub(super) fn voxels(&self, brick: BrickIndex) -> u64 {
        self.grid.stored_box(brick).voxel_count()
    }

    /// Voxels of all bricks on the shelf.
    pub(super) fn shelf_voxels(&self) -> u64 {
        self.shelf_voxels
    }

    /// There is a brick on the shelf as it should be.
    pub(super) fn shelved(&mut self, brick: BrickIndex) {
        self.is_on_shelf(brick);
        if self.own.shelf == BrickSet::default() {
            self.own.shelf = BrickSet::new(self.grid.brick_count());
        }
        self.own.shelf.insert(brick);
    }

    /// There is no such brick on the shelf any more, or not as it should be. Returns whether it was there.
    pub(super) fn unshelved(&mut self, brick: BrickIndex) -> bool {
        self.cannot_read_shelf(brick);
        let was_there = self.on_shelf.remove(brick);
        if was_there {
            self.shelf_voxels = self.shelf_voxels.saturating_sub(self.voxels(brick));
        }
        self.settle();
        was_there
    }

    /// A brick on the shelf cannot be read for now. Returns whether that is news.
    pub(super) fn cannot_read_shelf(&mut self, brick: BrickIndex) -> bool {
        if !self.own.source {
            self.own.readable.remove(brick);
        }
        self.own.shelf.remove(brick)
    }

    /// The shelf has room for so many bricks, with those that are there.
    pub(super) fn set_shelf_room(&mut self, room: u32) {
        self.own.shelf_room = room;
    }

    /// The other peers that could give a brick; where there are such, those that are well.
    pub(super) fn givers(&self, brick: BrickIndex) -> Vec<&PeerId> {
        let holders = announced(&self.others).filter(|(_, a)| a.gives(brick));
        let holders: Vec<&PeerId> = holders.map(|(p, _)| p).collect();
        let is_well = |p: &&PeerId| !self.suspects.contains(*p);
        let well: Vec<&PeerId> = holders.iter().copied().filter(is_well).collect();
        if well.is_empty() { holders } else { well }
    }

    /// Whether there is room for one brick more than are held; `besides`: bricks that are on their way,
    /// were dropped and are still in memory, or are there for frames in place of held ones.
    pub(super) fn has_room(&self, besides: usize) -> bool {
        self.own.held.len() as usize + besides < self.own.capacity as usize
    }

    /// The brick is in device memory.
    pub fn loaded(&mut self, brick: BrickIndex) {
        self.reading.unreadable.remove(brick);
        self.own.unreadable.remove(brick);
        self.own.held.insert(brick);
        // Of several that were loaded at a time, one that does not fit may be heard of first.
        if self.own.held.len() > self.capacity_max {
            self.capacity_max = self.own.held.len();
            self.set_capacity(self.capacity_max);
        }
        self.settle();
    }

    /// The device has no room for the brick: this peer has less room than it thought.
    /// `besides`: bricks that are there for frames.
    pub fn does_not_fit(&mut self, brick: BrickIndex, besides: usize) {
        self.is_full(besides);
        self.set_capacity(self.own.held.len());
        self.own.assigned.remove(brick);
        self.settle();
    }

    /// The device has no room beside what is held, and what is there for frames.
    pub(super) fn is_full(&mut self, besides: usize) {
        let besides = u32::try_from(besides).unwrap_or(u32::MAX);
        self.capacity_max = self.own.held.len().saturating_add(besides);
        self.outdated = true;
    }

    /// This peer, and all others that take part, with what they hold, and what they can read for a frame, or fetch of those who have the source;
    /// speeds are not known here.
    #[must_use]
    pub fn roster(&self, takes_part: impl Fn(&PeerId) -> bool) -> Vec<(RosterEntry, BrickSet)> {
        let others = announced(&self.others).filter(|(p, _)| takes_part(p));
        let given = self.are_fetched().then(|| self.given()).flatten();
        let entry = |(peer, a): (&PeerId, &Announcement)| {
            let entry = RosterEntry {
                fetches: a.reserve > 0,
                ..RosterEntry::new(peer.clone(), a.held.clone())
            };
            let given = given.as_ref().filter(|_| entry.fetches);
            let readable = given.unwrap_or(&a.readable).clone();
            (entry, readable)
        };
        others
            .chain([(&self.local, &self.own)])
            .map(entry)
            .collect()
    }
}

/// Whether none of these peers takes a brick more: in memory and on its shelf each has, or has no giver of, as many as there
/// is room for, and no two the same.
fn are_full<'a>(peers: impl Iterator<Item = &'a Announcement>) -> bool {
    let (mut assigned, mut shelved) = (BrickSet::default(), BrickSet::default());
    let mut copies = [0, 0];
    for a in peers {
        let has_room = a.assigned.len() < a.capacity || a.shelf.len() < a.shelf_room;
        if has_room || !a.settled && a.capacity > 0 {
            return false;
        }
        assigned.insert_all(&a.assigned);
        shelved.insert_all(&a.shelf);
        copies[0] += u64::from(a.assigned.len());
        copies[1] += u64::from(a.shelf.len());
    }
    copies == [u64::from(assigned.len()), u64::from(shelved.len())]
}

fn announced(
    others: &BTreeMap<PeerId, Arc<Announcement>>,
) -> impl Iterator<Item = (&PeerId, &Announcement)> {
    others.iter().map(|(peer, a)| (peer, &**a))
}

#[cfg(test)]
mod tests;

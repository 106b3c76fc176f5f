//! Which bricks of a data set a peer keeps on its shelf: on a disk, for when it is started again, and for frames, where the
//! peers have too little memory for all of them.
//!
//! A pure state machine. What is held in memory is kept. Where the peers have too little memory, other bricks
//! are fetched besides: first those that the fewest peers keep or hold, and of these such that are this peer's turn by
//! rendezvous hashing (Thaler, Ravishankar 1998), so that all shelves together hold as many different ones as they can. A
//! full shelf gives up what another one has for what none has, once that has come.
//!
//! Not here: bricks on their way (`transfers`), and what is on the shelf (`replicas`).

use crate::{
    base::{peer::PeerId, seeded::mixed},
    data::{brick_grid::BrickIndex, brick_set::BrickSet},
    mesh::{announcement::Announcement, assignment::name_hash, replicas::Replicas},
};
use std::collections::{BTreeSet, VecDeque};

/// Which bricks are fetched next is worked out again after this: others have said by then what they have.
const PLAN_MICROS: u64 = 2_000_000;
/// A disk that took a brick not is asked again after this.
const REST_MICROS: u64 = 60_000_000;
/// A brick that came to nothing so often is not fetched any more.
const ATTEMPTS_MAX: u32 = 8;
/// Bricks of a data set that are written at a time, of those that are held in memory.
pub(super) const WRITES_MAX: usize = 8;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    /// It is known what is there.
    pub(super) is_listed: bool,
    /// Bricks to fetch, in this order; those that no shelf has may take the place of others.
    queue: VecDeque<(BrickIndex, bool)>,
    planned_at: Option<u64>,
    /// Bricks that are being written.
    writing: BTreeSet<BrickIndex>,
    /// The disk takes none before.
    rests_until: u64,
}

impl Shelf {
    /// Whether bricks of a data set are put on the shelf at all: whoever has its source needs none.
    pub(super) fn may_write(&self, replicas: &Replicas, now: u64) -> bool {
        let own = replicas.announcement();
        self.is_listed && !own.source && !own.leaving && now >= self.rests_until
    }

    /// Voxels that its bricks have on the shelf, with those that are being written.
    pub(super) fn voxels(&self, replicas: &Replicas) -> u64 {
        let writing = self.writing.iter().map(|&b| replicas.voxels(b));
        replicas.shelf_voxels() + writing.sum::<u64>()
    }

    /// A brick is being written from now on; false: it is there, or is being written.
    pub(super) fn write(&mut self, replicas: &Replicas, brick: BrickIndex) -> bool {
        !replicas.on_shelf().contains(brick) && self.writing.insert(brick)
    }

    /// A brick was written, or not; false: it was not being written.
    pub(super) fn written(&mut self, brick: BrickIndex) -> bool {
        self.writing.remove(&brick)
    }

    /// Whether a brick is being written.
    pub(super) fn is_writing(&self, brick: BrickIndex) -> bool {
        self.writing.contains(&brick)
    }

    /// How many are being written.
    pub(super) fn writes(&self) -> usize {
        self.writing.len()
    }

    /// The disk did not take a brick.
    pub(super) fn rest(&mut self, now: u64) {
        self.rests_until = now.saturating_add(REST_MICROS);
    }

    /// The brick that is to be fetched for the shelf next; for `free` voxels there is room besides those that are on their
    /// way. Where memory has room for all, those that no shelf has are enough. `attempts`: how often a brick was
    /// fetched in vain, `None` for one that is on its way.
    pub(super) fn next(
        &mut self,
        local: &PeerId,
        replicas: &Replicas,
        (now, free): (u64, u64),
        attempts: impl Fn(BrickIndex) -> Option<u32>,
    ) -> Option<BrickIndex> {
        let room = replicas.announcement().shelf_room;
        let is_wanted = self.may_write(replicas, now)
            && room > 0
            && replicas.on_shelf().len() < replicas.brick_count()
            && replicas.is_in_use();
        if !is_wanted {
            self.queue.clear();
            return None;
        }
        let is_full = |brick| replicas.voxels(brick) > free;
        let is_due = |at| now.saturating_sub(at) >= PLAN_MICROS;
        if self.planned_at.is_none_or(is_due) {
            self.planned_at = Some(now);
            self.queue = order(local, replicas, is_full, &attempts).into();
        }
        while let Some((brick, is_nowhere)) = self.queue.pop_front() {
            if is_full(brick) && !is_nowhere {
                continue;
            }
            let is_missing = !replicas.on_shelf().contains(brick) && !self.is_writing(brick);
            if is_missing && attempts(brick).is_some() && !replicas.givers(brick).is_empty() {
                return Some(brick);
            }
        }
        None
    }
}

/// The shelves of others that can be relied on.
fn shelves(replicas: &Replicas) -> impl Iterator<Item = (&PeerId, &Announcement)> {
    let others = replicas.others().iter().map(|(peer, a)| (peer, &**a));
    others.filter(|(p, a)| !a.leaving && !a.source && a.shelf_room > 0 && !replicas.is_suspect(p))
}

fn on_any<'a>(shelves: impl Iterator<Item = (&'a PeerId, &'a Announcement)>) -> BrickSet {
    let mut all = BrickSet::default();
    shelves.for_each(|(_, a)| all.insert_all(&a.shelf));
    all
}

/// The bricks of this shelf that another one has, the first of whose names goes on having them.
pub(super) fn spares(local: &PeerId, replicas: &Replicas) -> Vec<BrickIndex> {
    let go_on = on_any(shelves(replicas).filter(|(p, _)| *p < local));
    let there = replicas.on_shelf().iter();
    there.filter(|&b| go_on.contains(b)).collect()
}

/// The bricks that are not on the shelf, in the order in which they are to be fetched, and whether no shelf has them; of those for which
/// this one is full, and where memory has room for all, those only. What was tried in vain is last. O(bricks · shelves).
fn order(
    local: &PeerId,
    replicas: &Replicas,
    is_full: impl Fn(BrickIndex) -> bool,
    attempts: impl Fn(BrickIndex) -> Option<u32>,
) -> Vec<(BrickIndex, bool)> {
    let can_replace = !spares(local, replicas).is_empty();
    let is_short = replicas.is_larger_than_memory();
    let own = replicas.announcement();
    let score = |hash: u64, room: u32, brick: BrickIndex| {
        (mixed(hash ^ mixed(brick.0.into())) >> 32) * u64::from(room)
    };
    let all: Vec<(u64, &Announcement, bool)> = shelves(replicas)
        .map(|(peer, a)| (name_hash(peer), a, a.shelf.len() < a.shelf_room))
        .collect();
    let (on_any, held) = (on_any(shelves(replicas)), replicas.held());
    let hash = name_hash(local);
    let mut order = Vec::new();
    for brick in (0..replicas.brick_count()).map(BrickIndex) {
        let is_nowhere = !on_any.contains(brick);
        if replicas.on_shelf().contains(brick) || !is_short && !is_nowhere {
            continue;
        }
        let tried = attempts(brick).unwrap_or(0);
        // Nothing is given up for what may not come.
        let may_replace = is_nowhere && can_replace && tried == 0;
        if tried >= ATTEMPTS_MAX || is_full(brick) && !may_replace {
            continue;
        }
        let mut copies = usize::from(held.contains(brick));
        let mut before = 0;
        let mine = score(hash, own.shelf_room, brick);
        for &(of, a, has_room) in &all {
            if a.shelf.contains(brick) {
                copies += 1;
            } else if has_room && score(of, a.shelf_room, brick) > mine {
                before += 1;
            }
        }
        let turn = mixed(hash ^ u64::from(brick.0));
        order.push(((tried, copies, before, turn), (brick, is_nowhere)));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, brick)| brick).collect()
}

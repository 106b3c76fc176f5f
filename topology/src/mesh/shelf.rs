//! Which bricks of a data set a peer keeps on its shelf: on a disk, for when it is started again, and for frames, where the
//! peers have too little memory for all of them.
//!
//! A pure state machine. What comes to be held in memory is kept. Where the peers have too little memory, other bricks
//! are fetched besides: first those that the fewest peers keep or hold, and of these such that are this peer's turn by
//! rendezvous hashing (Thaler, Ravishankar 1998), so that all shelves together hold as many different ones as they can. A
//! full shelf gives up what another one has for what none has.
//!
//! Not here: bricks on their way (`transfers`), and what is on the shelf (`replicas`).

use crate::{
    base::{peer::PeerId, seeded::mixed},
    data::brick_grid::BrickIndex,
    mesh::{
        assignment::name_hash,
        replicas::{Announcement, Replicas},
    },
};
use std::collections::{BTreeSet, VecDeque};

/// Which bricks are fetched next is worked out again after this: others have said by then what they have.
const PLAN_MICROS: u64 = 2_000_000;
/// A disk that took a brick not is asked again after this.
const REST_MICROS: u64 = 60_000_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    /// It is known what is there.
    pub(super) is_listed: bool,
    /// Bricks to fetch, in this order, and when that was worked out.
    queue: VecDeque<BrickIndex>,
    planned_at: Option<u64>,
    /// Bricks that are being written.
    writing: BTreeSet<BrickIndex>,
    /// The disk takes none before.
    rests_until: u64,
}

impl Shelf {
    /// A brick that came is put on the shelf, if it is to be: one that comes for memory, too.
    pub(super) fn takes(&mut self, replicas: &Replicas, brick: BrickIndex, now: u64) -> bool {
        let there = replicas.on_shelf();
        let count = there.len() as usize + self.writing.len();
        self.may_write(replicas, now)
            && !there.contains(brick)
            && count < replicas.announcement().shelf_room as usize
            && self.writing.insert(brick)
    }

    /// A brick was written, or not.
    pub(super) fn written(&mut self, brick: BrickIndex) {
        self.writing.remove(&brick);
    }

    /// Bricks that are being written.
    pub(super) fn writing(&self) -> impl Iterator<Item = BrickIndex> {
        self.writing.iter().copied()
    }

    /// The disk did not take a brick.
    pub(super) fn rest(&mut self, now: u64) {
        self.rests_until = now.saturating_add(REST_MICROS);
    }

    fn may_write(&self, replicas: &Replicas, now: u64) -> bool {
        let own = replicas.announcement();
        self.is_listed && !own.source && !own.leaving && now >= self.rests_until
    }

    /// The brick that is to be fetched for the shelf next, and where that is full, what it takes the place of. `is_open`: it is
    /// not on its way; `coming`: so many are.
    pub(super) fn next(
        &mut self,
        local: &PeerId,
        replicas: &Replicas,
        (now, coming): (u64, usize),
        is_open: impl Fn(BrickIndex) -> bool,
    ) -> Option<(BrickIndex, Option<BrickIndex>)> {
        let room = replicas.announcement().shelf_room;
        let is_wanted = self.may_write(replicas, now)
            && room > 0
            && replicas.is_in_use()
            && replicas.is_larger_than_memory();
        if !is_wanted {
            self.queue.clear();
            return None;
        }
        let is_due = |at| now.saturating_sub(at) >= PLAN_MICROS;
        if self.planned_at.is_none_or(is_due) {
            self.planned_at = Some(now);
            self.queue = order(local, replicas).into();
        }
        let is_full = replicas.on_shelf().len() as usize + coming >= room as usize;
        while let Some(brick) = self.queue.pop_front() {
            let is_missing = !replicas.on_shelf().contains(brick);
            if !is_missing || !is_open(brick) || replicas.givers(brick).is_empty() {
                continue;
            }
            if !is_full {
                return Some((brick, None));
            }
            if copies(replicas, brick) == 0 {
                let Some(spare) = spare(local, replicas) else {
                    self.queue.clear();
                    break;
                };
                return Some((brick, Some(spare)));
            }
        }
        None
    }
}

fn shelves(replicas: &Replicas) -> impl Iterator<Item = (&PeerId, &Announcement)> {
    let others = replicas.others().iter().map(|(peer, a)| (peer, &**a));
    others.filter(|(_, a)| !a.leaving && !a.source && a.shelf_room > 0)
}

/// How many others keep a brick on their shelves.
fn copies(replicas: &Replicas, brick: BrickIndex) -> usize {
    let has = |(_, a): &(&PeerId, &Announcement)| a.shelf.contains(brick);
    shelves(replicas).filter(has).count()
}

/// A brick of this shelf that another one has, the first of whose names goes on having it.
fn spare(local: &PeerId, replicas: &Replicas) -> Option<BrickIndex> {
    let goes_on = |brick| shelves(replicas).any(|(p, a)| p < local && a.shelf.contains(brick));
    replicas.on_shelf().iter().find(|&b| goes_on(b))
}

/// The bricks that are not on the shelf, in the order in which they are to be fetched. O(bricks · shelves).
fn order(local: &PeerId, replicas: &Replicas) -> Vec<BrickIndex> {
    let own = replicas.announcement();
    let score = |hash: u64, room: u32, brick: BrickIndex| {
        (mixed(hash ^ mixed(brick.0.into())) >> 32) * u64::from(room)
    };
    let all: Vec<(u64, &Announcement)> = shelves(replicas)
        .map(|(peer, a)| (name_hash(peer), a))
        .collect();
    let hash = name_hash(local);
    let mut order: Vec<(usize, usize, u64, BrickIndex)> = Vec::new();
    for brick in (0..replicas.brick_count()).map(BrickIndex) {
        if replicas.on_shelf().contains(brick) {
            continue;
        }
        let mut copies = usize::from(replicas.is_held(brick));
        let mut before = 0;
        let mine = score(hash, own.shelf_room, brick);
        for &(of, a) in &all {
            if a.shelf.contains(brick) {
                copies += 1;
            } else if a.shelf.len() < a.shelf_room && score(of, a.shelf_room, brick) > mine {
                before += 1;
            }
        }
        order.push((copies, before, mixed(hash ^ u64::from(brick.0)), brick));
    }
    order.sort_unstable();
    order.into_iter().map(|(.., brick)| brick).collect()
}

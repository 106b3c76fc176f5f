//! Who watches over the invariants, knowing what no machine knows: what each really holds, and
//! what was done to it.
//!
//! - No wrong frame: a tile has the jobs of its plan, but for what is hidden there, each once, in the plan's order,
//!   rendered for this view by a holder that really held the brick. All tiles are there; what is missing is said
//!   to be, and nobody who could be reached held it and said so. (What a machine has dropped because
//!   another one holds it is in its memory for some time: nobody can know of that.)
//! - No job is rendered twice in an attempt.
//! - No machine drops the last copy of a brick, but where it is on a disk.
//! - Once faults have stopped, every frame is whole within its bound.
//!
//! That copies are made again is looked at in `world`, that plans are equal and whole in `plans`.

use super::{
    environment::Environment,
    notes::{Piece, Who},
    plans::Planned,
};
use crate::mesh::report::FrameReport;
use brickmesh_topology::{
    BrickIndex, PixelRect,
    data::brick_set::BrickSet,
    frame::frame_requests::{FrameEnd, FrameId, participants::WAIT_MICROS_MAX},
};
use std::collections::{BTreeMap, BTreeSet};

/// Frames whose jobs are remembered.
const FRAMES_MAX: usize = 64;
/// A peer that said that it holds a brick, and was undisturbed, for so long could have been reached:
/// suspicions and penalties are over, and all have heard what it holds.
const REACHABLE_MICROS: u64 = 12_000_000;
/// After this, microseconds, connections that faults have broken are there again, and who died
/// before is suspected.
pub(super) const CALM_MICROS: u64 = 1_500_000;
/// How long a frame may take that is asked for once all is calm, microseconds, besides
/// [`MAKESPANS`]: there is nobody to wait for.
const BOUND_MICROS: u64 = 100_000;
/// The same where bricks are fetched for it: nobody plans how long that takes.
const FETCHING_MICROS: u64 = 2_000_000;
/// The same of a frame asked for before, when faults have just stopped: who died with the last copy of
/// a brick is waited for until it is gone, and then an attempt is made. Three attempts whose time is
/// over, 0.75 s, 1.5 s and 3 s, with 0.5 s each to find out who is at fault, are within that.
const UNSETTLED_MICROS: u64 = WAIT_MICROS_MAX + 1_000_000;
/// For how long after a machine died with the last copy of a brick frames may wait for it, whenever they
/// are asked for: silence until it is gone, until that is noticed, and until others read it from their disks.
const GONE_MICROS: u64 = 9_000_000;
/// Of a frame's bound: how often its expected makespan.
const MAKESPANS: u64 = 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Oracle {
    broken: Option<String>,
    rendered: BTreeMap<FrameId, BTreeMap<u32, Who>>,
    /// Since when each machine holds each brick.
    held_since: Vec<BTreeMap<BrickIndex, u64>>,
    /// Since when each machine says that it holds each brick.
    said_since: Vec<BTreeMap<BrickIndex, u64>>,
    /// What is on each machine's disk.
    shelves: Vec<BTreeSet<BrickIndex>>,
    /// Machines that can read every brick, and when one that could died last.
    sources: BTreeSet<Who>,
    source_died: Option<u64>,
    /// When a copy of each brick died last with its machine.
    copy_died: BTreeMap<BrickIndex, u64>,
    /// See [`BOUND_MICROS`].
    bound: u64,
    /// Until when frames may wait for a machine that died with the last copy of a brick.
    waits_until: u64,
    /// When each machine was disturbed last.
    disturbed: Vec<u64>,
    healed: Option<u64>,
    /// Longest frame that was asked for when faults had stopped, and when all was calm,
    /// microseconds.
    pub(super) worst_unsettled: u64,
    pub(super) worst_calm: u64,
}

impl Oracle {
    pub(super) fn new(machines: usize, are_fetched: bool) -> Self {
        Self {
            broken: None,
            rendered: BTreeMap::new(),
            held_since: vec![BTreeMap::new(); machines],
            said_since: vec![BTreeMap::new(); machines],
            shelves: vec![BTreeSet::new(); machines],
            sources: BTreeSet::new(),
            source_died: None,
            copy_died: BTreeMap::new(),
            bound: if are_fetched {
                FETCHING_MICROS
            } else {
                BOUND_MICROS
            },
            waits_until: 0,
            disturbed: vec![0; machines],
            healed: None,
            worst_unsettled: 0,
            worst_calm: 0,
        }
    }

    /// An invariant is broken; the first counts.
    pub(super) fn broken(&mut self, what: &str) {
        self.broken.get_or_insert_with(|| what.to_owned());
    }

    /// What was broken first.
    pub(super) fn first_broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Faults have stopped.
    pub(super) fn heal(&mut self, now: u64) {
        self.healed = Some(now);
    }

    /// A job was rendered.
    pub(super) fn rendered(&mut self, frame: FrameId, job: u32, by: Who) {
        let jobs = self.rendered.entry(frame).or_default();
        if let Some(before) = jobs.insert(job, by) {
            let why = format!(
                "job {job} of frame {}, attempt {} was rendered by machine {before} and by {by}",
                frame.number, frame.attempt
            );
            self.broken(&why);
        }
        while self.rendered.len() > FRAMES_MAX {
            self.rendered.pop_first();
        }
    }

    /// A machine begins to render a brick.
    pub(super) fn renders(&mut self, who: Who, brick: BrickIndex) {
        if !self.is_held(who, brick) {
            let why = format!(
                "machine {who} renders brick {}, which it does not hold",
                brick.0
            );
            self.broken(&why);
        }
    }

    /// A machine holds a brick from now on.
    pub(super) fn holds(&mut self, who: Who, brick: BrickIndex, now: u64) {
        self.held_since[who].entry(brick).or_insert(now);
    }

    /// A machine says that it holds these bricks, and no others.
    pub(super) fn says(&mut self, who: Who, held: &BrickSet, now: u64) {
        let said = &mut self.said_since[who];
        said.retain(|brick, _| held.contains(*brick));
        for brick in held.iter() {
            said.entry(brick).or_insert(now);
        }
    }

    /// A machine holds nothing any more.
    pub(super) fn emptied(&mut self, who: Who, now: u64) {
        self.said_since[who].clear();
        if self.sources.remove(&who) {
            self.source_died = Some(now);
        }
        for (brick, _) in std::mem::take(&mut self.held_since[who]) {
            self.copy_died.insert(brick, now);
            if !self.held_since.iter().any(|held| held.contains_key(&brick)) {
                self.waits_until = now + GONE_MICROS;
            }
        }
    }

    /// A machine can read every brick from now on.
    pub(super) fn has_source(&mut self, who: Who) {
        self.sources.insert(who);
    }

    /// A brick is on a machine's disk from now on, or not any more.
    pub(super) fn shelves(&mut self, who: Who, brick: BrickIndex, is_there: bool) {
        if is_there {
            self.shelves[who].insert(brick);
        } else {
            self.shelves[who].remove(&brick);
        }
    }

    /// Whether a machine can read every brick, or one that could has died lately, so that others may still count on it.
    fn is_read(&self, now: u64) -> bool {
        let died = self.source_died;
        !self.sources.is_empty() || died.is_some_and(|d| d + REACHABLE_MICROS > now)
    }

    /// Whether another machine has a brick in memory or on its disk, or one that did has died lately, so that others may
    /// still count on it.
    fn is_safe(&self, brick: BrickIndex, now: u64) -> bool {
        let died = self.copy_died.get(&brick);
        died.is_some_and(|d| d + REACHABLE_MICROS > now)
            || self.held_since.iter().any(|held| held.contains_key(&brick))
            || self.shelves.iter().any(|shelf| shelf.contains(&brick))
    }

    /// Whether a machine holds a brick.
    pub(super) fn is_held(&self, who: Who, brick: BrickIndex) -> bool {
        self.held_since[who].contains_key(&brick)
    }

    /// A frame has ended.
    pub(super) fn frame_ended(
        &mut self,
        asked: u64,
        now: u64,
        report: &FrameReport,
        end: &FrameEnd,
    ) {
        let Some(healed) = self.healed.filter(|&h| asked >= h) else {
            return;
        };
        if *end != FrameEnd::Whole {
            let why = format!(
                "frame {}, asked for {} µs after faults stopped, was given up after {} attempts and {} µs: {end:?}",
                report.frame,
                asked - healed,
                report.attempts,
                now - asked
            );
            self.broken(&why);
        }
        let worst = if asked >= healed + CALM_MICROS {
            &mut self.worst_calm
        } else {
            &mut self.worst_unsettled
        };
        *worst = (*worst).max(now - asked);
        self.check_age(asked, now, report.planned_us);
    }

    /// A frame asked for at a time, of such a makespan, has not ended before now.
    pub(super) fn check_age(&mut self, asked: u64, now: u64, makespan: u64) {
        let Some(healed) = self.healed.filter(|&h| asked >= h) else {
            return;
        };
        let base = if asked >= healed + CALM_MICROS {
            self.bound + self.waits_until.saturating_sub(asked)
        } else {
            UNSETTLED_MICROS
        };
        let (took, bound) = (now - asked, base + MAKESPANS * makespan);
        if took > bound {
            let why = format!(
                "a frame asked for {} µs after faults stopped took {took} µs; its bound is {bound} (makespan {makespan})",
                asked - healed
            );
            self.broken(&why);
        }
    }
}

/// Whether every pixel of a rectangle is in one of these.
fn is_covered(rect: &PixelRect, by: &[&PixelRect]) -> bool {
    let holds =
        |r: &PixelRect, x, y| (r.x..r.right()).contains(&x) && (r.y..r.bottom()).contains(&y);
    let mut pixels =
        (rect.y..rect.bottom()).flat_map(|y| (rect.x..rect.right()).map(move |x| (x, y)));
    pixels.all(|(x, y)| by.iter().any(|r| holds(r, x, y)))
}

impl Environment {
    /// Something happened to a machine, so that others need not think well of it.
    pub(super) fn disturb(&mut self, who: Who) {
        let now = self.now();
        self.oracle.disturbed[who] = now;
    }

    /// A machine does not hold a brick any more, of its own will: it must not be the last, unless it `can_read` it
    /// again.
    pub(super) fn dropped(&mut self, who: Who, brick: BrickIndex, can_read: bool) {
        self.oracle.held_since[who].remove(&brick);
        // Room that is kept for what is fetched may be wanting for the last copies.
        let is_read = self.rules().fetches() && self.oracle.is_read(self.queue.now());
        if !can_read && !is_read && !self.oracle.is_safe(brick, self.queue.now()) {
            let why = format!(
                "{} dropped the last copy of brick {}",
                self.name(who),
                brick.0
            );
            self.oracle.broken(&why);
        }
    }

    /// A tile was taken: it must be what its plan says.
    pub(super) fn check_tile(&mut self, planned: &Planned, tile: u32, pieces: &[Piece]) {
        let plan = &planned.plan;
        let expected = plan.tile_jobs.of_tile(tile as usize);
        let mut left = pieces.iter().map(|p| p.job as usize).peekable();
        let mut opaque = Vec::new();
        let in_order = expected.iter().all(|(job, rect)| {
            if left.next_if_eq(job).is_none() {
                return is_covered(rect, &opaque);
            }
            if self.plans().is_opaque(plan.jobs[*job].brick) {
                opaque.push(rect);
            }
            true
        }) && left.next().is_none();
        let right = |p: &Piece| {
            let holds = plan.index_of(self.name(p.by)).is_some_and(|by| {
                let holders = plan.holders.get(p.job as usize);
                holders.is_some_and(|h| h.binary_search(&by).is_ok())
            });
            holds && p.view == planned.view
        };
        if !in_order {
            let found: Vec<u32> = pieces.iter().map(|p| p.job).collect();
            let why = format!("tile {tile} has jobs {found:?}, its plan says {expected:?}");
            self.oracle.broken(&why);
        } else if !pieces.iter().all(right) {
            let why = format!("tile {tile} shows what it should not: {pieces:?}");
            self.oracle.broken(&why);
        }
    }

    /// A frame was taken as whole, whose attempt began at a time.
    pub(super) fn check_frame(&mut self, planned: &Planned, tiles: &BTreeSet<u32>, began: u64) {
        let plan = &planned.plan;
        for tile in 0..plan.tiles.len() {
            let awaited = !plan.tile_jobs.of_tile(tile).is_empty();
            let came = u32::try_from(tile).is_ok_and(|t| tiles.contains(&t));
            if awaited != came {
                let why = format!("tile {tile}: awaited {awaited}, came {came}");
                self.oracle.broken(&why);
            }
        }
        let missing: BTreeSet<BrickIndex> = plan.missing().map(|j| j.brick).collect();
        if missing.is_empty() || self.network.loses() {
            return;
        }
        for who in 0..self.network.machines() {
            let calm_since = self.oracle.disturbed[who] + REACHABLE_MICROS;
            if !self.network.is_up(who) || calm_since > began {
                continue;
            }
            let said = &self.oracle.said_since[who];
            let hidden = missing
                .iter()
                .find(|b| said.get(b).is_some_and(|s| s + REACHABLE_MICROS <= began));
            if let Some(brick) = hidden {
                let why = format!(
                    "a frame said that brick {} is missing, but {} held it",
                    brick.0,
                    self.name(who)
                );
                self.oracle.broken(&why);
            }
        }
    }
}

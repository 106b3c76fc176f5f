//! The compositor of a machine: as the actor's, but that it blends names, not pixels.
//!
//! Invariant: a tile is blended in the plan's order, each job of it once; a partial of another plan
//! is not blended.

use super::{
    environment::Environment,
    notes::{FrameKey, Note, Partial, Piece, Run, Who},
    plans::Planned,
};
use brickmesh_topology::frame::frame_requests::FrameId;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Frames of one requester that are composited at a time; older ones are dropped.
const FRAMES_MAX: usize = 16;
/// Partials that wait for their frame to be announced; older ones are dropped. The actor counts
/// bytes.
const EARLY_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Compositing {
    frames: BTreeMap<FrameKey, Frame>,
    early: VecDeque<(Who, Arc<Partial>)>,
}

#[derive(Debug)]
struct Frame {
    planned: Arc<Planned>,
    tiles: BTreeMap<u32, OpenTile>,
}

#[derive(Debug, Default)]
struct OpenTile {
    blended: Vec<Piece>,
    /// Runs that came before what they follow on, by their first job.
    waiting: BTreeMap<usize, Vec<Piece>>,
}

impl Compositing {
    /// Partials of a frame may come.
    pub(super) fn expect(
        &mut self,
        env: &mut Environment,
        me: Who,
        key: FrameKey,
        planned: &Arc<Planned>,
    ) {
        let plan = &planned.plan;
        let mine = plan.tiles_of(env.name(me)).map(|(tile, _)| tile);
        let mine = mine.filter(|&t| !plan.tile_jobs.of_tile(t).is_empty());
        let tiles: BTreeMap<u32, OpenTile> = mine
            .map(|t| (u32::try_from(t).unwrap_or(u32::MAX), OpenTile::default()))
            .collect();
        if tiles.is_empty() {
            return;
        }
        let planned = Arc::clone(planned);
        self.frames.insert(key, Frame { planned, tiles });
        let of_requester = self.frames.keys().filter(|(r, _)| *r == key.0);
        let old: Vec<FrameKey> = of_requester.rev().skip(FRAMES_MAX).copied().collect();
        old.iter().for_each(|k| drop(self.frames.remove(k)));
        let early = std::mem::take(&mut self.early);
        let (mine, others) = early.into_iter().partition(|(_, p)| p.key == key);
        self.early = others;
        let mine: VecDeque<_> = mine;
        for (from, partial) in mine {
            self.take(env, me, from, &partial);
        }
    }

    /// A partial arrived.
    pub(super) fn take(
        &mut self,
        env: &mut Environment,
        me: Who,
        from: Who,
        partial: &Arc<Partial>,
    ) {
        let key = partial.key;
        let Some(frame) = self.frames.get_mut(&key) else {
            self.early.push_back((from, Arc::clone(partial)));
            if self.early.len() > EARLY_MAX {
                self.early.pop_front();
            }
            return;
        };
        let plan = &frame.planned.plan;
        if plan.index_of(env.name(from)).is_none() {
            return;
        }
        if partial.plan != plan.digest {
            env.send(me, key.0, Note::Diverged(key.1, from));
            return;
        }
        for run in &partial.runs {
            let Some(open) = frame.tiles.get_mut(&run.tile) else {
                continue;
            };
            let count = plan.tile_jobs.of_tile(run.tile as usize).len();
            open.take(count, run);
            if open.blended.len() < count {
                continue;
            }
            if let Some(open) = frame.tiles.remove(&run.tile) {
                let tile = Note::Tile {
                    frame: key.1,
                    plan: plan.digest,
                    tile: run.tile,
                    pieces: open.blended.into(),
                };
                env.send(me, key.0, tile);
            }
        }
        if frame.tiles.is_empty() {
            self.frames.remove(&key);
        }
    }

    /// The requester misses tiles of this machine: it says what it lacks. Whoever never heard of the
    /// frame, or is done with it, lacks nothing.
    pub(super) fn tiles_due(&self, env: &mut Environment, me: Who, key: FrameKey) {
        let Some(frame) = self.frames.get(&key) else {
            return;
        };
        let plan = &frame.planned.plan;
        let mut lacking = BTreeSet::new();
        for (&tile, open) in &frame.tiles {
            let jobs = plan.tile_jobs.of_tile(tile as usize).iter().zip(0..);
            let lacks = jobs.filter(|(_, at)| !open.has(*at));
            lacking.extend(lacks.filter_map(|((job, _), _)| u32::try_from(*job).ok()));
        }
        let lacking = lacking.into_iter().collect();
        env.send(me, key.0, Note::Lacking(key.1, plan.digest, lacking));
    }

    /// Frames of a requester are over; `None`: all of them.
    pub(super) fn forget(&mut self, requester: Who, frame: Option<FrameId>) {
        let over = |key: &FrameKey| key.0 == requester && frame.is_none_or(|f| f == key.1);
        self.frames.retain(|key, _| !over(key));
        self.early.retain(|(_, p)| !over(&p.key));
    }
}

impl OpenTile {
    /// Whether a job came, by its place in the tile's order.
    fn has(&self, at: usize) -> bool {
        let before = self.waiting.range(..=at).next_back();
        at < self.blended.len() || before.is_some_and(|(&first, run)| at < first + run.len())
    }

    /// Takes a run, if it is new and lies inside, and blends as far as the order allows.
    fn take(&mut self, count: usize, run: &Run) {
        let end = run.first + run.pieces.len();
        let before = self.waiting.range(..end).next_back();
        let came = before.is_some_and(|(&f, w)| f + w.len() > run.first);
        if run.first < self.blended.len() || came || end > count || run.pieces.is_empty() {
            return;
        }
        self.waiting.insert(run.first, run.pieces.clone());
        while let Some(next) = self.waiting.remove(&self.blended.len()) {
            self.blended.extend(next);
        }
    }
}

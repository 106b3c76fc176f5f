//! The compositor: blends the partials of its peer's tiles, on its own thread, and sends each
//! tile to the requester when it is whole.
//!
//! Invariant: a tile is blended in the plan's order, front to back, whatever the order of
//! arrival; each job of it exactly once, whoever rendered it. A partial of another plan is not
//! blended.

use crate::{
    bus::Lane,
    messages::{FrameId, Message, Partial, Pixels, TilePart},
    outbox::Outbox,
};
use actix::{Actor, Handler, SyncContext};
use brickmesh_shaders::SubImage;
use brickmesh_topology::{PeerId, frame_plan::FramePlan};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Instant,
};

/// Frames of one requester that are composited at a time; older ones are dropped.
const FRAMES_MAX: usize = 16;
/// Bytes of partials that wait for their frame to be announced; older ones are dropped.
const EARLY_BYTES_MAX: usize = 256 << 20;

/// Announces a frame: partials of it may come.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct ExpectFrame {
    /// Who asked.
    pub requester: PeerId,
    /// The frame.
    pub frame: FrameId,
    /// Its plan.
    pub plan: Arc<FramePlan>,
}

/// Frames are over: nobody waits for their tiles.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct ForgetFrames {
    /// Who asked.
    pub requester: PeerId,
    /// The frame; `None`: all.
    pub frame: Option<FrameId>,
}

/// A partial arrived.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub struct TakePartial {
    /// Its renderer.
    pub from: PeerId,
    /// What it says.
    pub partial: Box<Partial>,
    /// Its size on the wire; 0 from this peer.
    pub bytes: u64,
}

/// The requester awaits tiles though all jobs are done: it is to be told what they lack.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct TilesDue {
    /// Who asked for the frame.
    pub requester: PeerId,
    /// The frame.
    pub frame: FrameId,
}

/// See the module.
#[derive(Debug)]
pub struct Compositor {
    outbox: Outbox,
    frames: BTreeMap<(PeerId, FrameId), Frame>,
    early: VecDeque<TakePartial>,
    early_bytes: usize,
}

#[derive(Debug)]
struct Frame {
    plan: Arc<FramePlan>,
    tiles: BTreeMap<u32, OpenTile>,
}

/// A tile that still awaits partials.
#[derive(Debug)]
struct OpenTile {
    /// Number of jobs to blend.
    count: usize,
    /// How many of them are blended.
    blended: usize,
    image: SubImage,
    /// Runs that came before what they follow on: by their first job, how many, and their pixels.
    waiting: BTreeMap<usize, (usize, SubImage)>,
    composite_micros: u64,
    received_bytes: u64,
}

impl Compositor {
    /// A compositor without frames.
    #[must_use]
    pub fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            frames: BTreeMap::new(),
            early: VecDeque::new(),
            early_bytes: 0,
        }
    }

    fn take(&mut self, taken: TakePartial) {
        let key = taken.key();
        let Some(frame) = self.frames.get_mut(&key) else {
            self.keep_early(taken);
            return;
        };
        if frame.plan.index_of(&taken.from).is_none() {
            tracing::warn!(
                peer = taken.from.short(),
                "a partial of a peer that does not take part was dropped"
            );
            return;
        }
        if taken.partial.plan != frame.plan.digest {
            let diverged = Message::Diverged {
                frame: key.1,
                peer: taken.from.as_str().to_owned(),
            };
            self.outbox.send_or_log(&key.0, Lane::Control, diverged);
            return;
        }
        let share = taken.bytes / taken.partial.tiles.len().max(1) as u64;
        for part in &taken.partial.tiles {
            let Some(open) = frame.tiles.get_mut(&part.tile) else {
                continue;
            };
            if let Err(why) = open.take(&frame.plan, part, share) {
                tracing::warn!(
                    peer = taken.from.short(),
                    tile = part.tile,
                    why,
                    "a partial was dropped"
                );
                continue;
            }
            if open.blended == open.count {
                let message = open.message(key.1, &frame.plan, part.tile);
                frame.tiles.remove(&part.tile);
                if let Err(error) = self.outbox.send_patiently(&key.0, Lane::Pixels, message) {
                    tracing::warn!(peer = key.0.short(), %error, "a tile was not sent");
                }
            }
        }
        if frame.tiles.is_empty() {
            self.frames.remove(&key);
        }
    }

    fn keep_early(&mut self, taken: TakePartial) {
        self.early_bytes += taken.size();
        self.early.push_back(taken);
        while self.early_bytes > EARLY_BYTES_MAX {
            let Some(oldest) = self.early.pop_front() else {
                break;
            };
            self.early_bytes -= oldest.size();
            tracing::debug!(
                peer = oldest.from.short(),
                "a partial of an unknown frame was dropped"
            );
        }
    }
}

impl TakePartial {
    /// The frame that it is of.
    fn key(&self) -> (PeerId, FrameId) {
        (PeerId::new(&self.partial.requester), self.partial.frame)
    }

    /// Bytes that it keeps in memory, about.
    fn size(&self) -> usize {
        let part = |p: &TilePart| size_of::<TilePart>() + p.pixels.bytes.len();
        let parts: usize = self.partial.tiles.iter().map(part).sum();
        size_of::<Self>() + size_of::<Partial>() + self.partial.requester.len() + parts
    }
}

impl OpenTile {
    /// Takes a run and blends as far as the order allows.
    fn take(&mut self, plan: &FramePlan, part: &TilePart, bytes: u64) -> Result<(), &'static str> {
        let (first, count) = (part.first as usize, part.count as usize);
        let end = first.saturating_add(count);
        let jobs = plan.tile_jobs.of_tile(part.tile as usize);
        let jobs = jobs.get(first..end).ok_or("no such jobs in this tile")?;
        let around = jobs.iter().map(|j| j.1).reduce(|a, b| a.around(&b));
        let around = around.ok_or("no jobs")?;
        let before = self.waiting.range(..end).next_back();
        if first < self.blended || before.is_some_and(|(&f, w)| f + w.0 > first) {
            return Err("came twice");
        }
        let pixels = &part.pixels;
        let empty = pixels.rect.pixel_count() == 0;
        if !empty && around.intersection(&pixels.rect) != Some(pixels.rect) {
            return Err("pixels outside of its jobs");
        }
        let image = pixels
            .image()
            .ok_or("pixels of a wrong length, or not finite")?;
        let start = Instant::now();
        self.waiting.insert(first, (count, image));
        while let Some((jobs, next)) = self.waiting.remove(&self.blended) {
            self.image.blend_behind(&next);
            self.blended += jobs;
        }
        self.composite_micros += u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.received_bytes += bytes;
        Ok(())
    }

    /// Jobs that did not come yet.
    fn lacking(&self, plan: &FramePlan, tile: u32) -> impl Iterator<Item = u32> {
        let jobs = plan.tile_jobs.of_tile(tile as usize).iter().enumerate();
        let waits = move |at: usize| {
            let before = self.waiting.range(..=at).next_back();
            before.is_some_and(|(&first, run)| at < first + run.0)
        };
        let lacking = jobs.skip(self.blended).filter(move |(at, _)| !waits(*at));
        lacking.filter_map(|(_, &(job, _))| u32::try_from(job).ok())
    }

    fn message(&self, frame: FrameId, plan: &FramePlan, tile: u32) -> Message {
        Message::Tile {
            frame,
            plan: plan.digest,
            tile,
            pixels: Pixels::of(&self.image.trimmed()),
            composite_micros: self.composite_micros,
            received_bytes: self.received_bytes,
        }
    }
}

impl Actor for Compositor {
    type Context = SyncContext<Self>;
}

impl Handler<ExpectFrame> for Compositor {
    type Result = ();

    fn handle(&mut self, expect: ExpectFrame, _: &mut Self::Context) {
        let local = self.outbox.local().clone();
        let mut tiles = BTreeMap::new();
        for (index, tile) in expect.plan.tiles_of(&local) {
            let count = expect.plan.tile_jobs.of_tile(index).len();
            if count > 0 {
                let open = OpenTile {
                    count,
                    blended: 0,
                    image: SubImage::transparent(tile.rect),
                    waiting: BTreeMap::new(),
                    composite_micros: 0,
                    received_bytes: 0,
                };
                tiles.insert(u32::try_from(index).unwrap_or(u32::MAX), open);
            }
        }
        let key = (expect.requester.clone(), expect.frame);
        if tiles.is_empty() {
            return;
        }
        self.frames.insert(
            key.clone(),
            Frame {
                plan: expect.plan,
                tiles,
            },
        );
        let of_requester = self.frames.keys().filter(|(r, _)| *r == expect.requester);
        let old: Vec<_> = of_requester.rev().skip(FRAMES_MAX).cloned().collect();
        old.iter().for_each(|k| drop(self.frames.remove(k)));
        let (mine, others) = std::mem::take(&mut self.early)
            .into_iter()
            .partition::<VecDeque<_>, _>(|t| t.key() == key);
        self.early = others;
        for taken in mine {
            self.early_bytes -= taken.size();
            self.take(taken);
        }
    }
}

impl Handler<TakePartial> for Compositor {
    type Result = ();

    fn handle(&mut self, taken: TakePartial, _: &mut Self::Context) {
        self.take(taken);
    }
}

impl Handler<TilesDue> for Compositor {
    type Result = ();

    fn handle(&mut self, due: TilesDue, _: &mut Self::Context) {
        // Whoever never heard of the frame, or is done with it, lacks nothing.
        let Some(of_frame) = self.frames.get(&(due.requester.clone(), due.frame)) else {
            return;
        };
        let tiles = of_frame.tiles.iter();
        let lacking: BTreeSet<u32> = tiles
            .flat_map(|(&tile, open)| open.lacking(&of_frame.plan, tile))
            .collect();
        let answer = Message::Lacking {
            frame: due.frame,
            plan: of_frame.plan.digest,
            jobs: lacking.into_iter().collect(),
        };
        self.outbox
            .send_or_log(&due.requester, Lane::Control, answer);
    }
}

impl Handler<ForgetFrames> for Compositor {
    type Result = ();

    fn handle(&mut self, forget: ForgetFrames, _: &mut Self::Context) {
        let over = |(requester, frame): &(PeerId, FrameId)| {
            *requester == forget.requester && forget.frame.is_none_or(|f| f == *frame)
        };
        self.frames.retain(|key, _| !over(key));
        self.early.retain(|taken| !over(&taken.key()));
        self.early_bytes = self.early.iter().map(TakePartial::size).sum();
    }
}

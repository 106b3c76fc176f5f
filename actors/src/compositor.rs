//! The compositor: blends the partials of its peer's tiles, on its own thread, and sends each
//! tile to the requester when it is whole.
//!
//! Invariant: a tile is blended in the plan's order, front to back, whatever the order of
//! arrival, so its bits do not depend on the network. A partial of another plan is not blended.

use crate::{
    bus::Lane,
    messages::{FrameId, Message, Partial, Pixels},
    outbox::Outbox,
};
use actix::{Actor, Handler, SyncContext};
use brickmesh_shaders::SubImage;
use brickmesh_topology::{PeerId, frame_plan::FramePlan};
use std::{
    collections::{BTreeMap, VecDeque},
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
    /// Jobs to blend, front to back.
    order: Vec<usize>,
    /// How many of them are blended.
    blended: usize,
    image: SubImage,
    waiting: BTreeMap<usize, SubImage>,
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
        let key = (PeerId::new(&taken.partial.requester), taken.partial.frame);
        let Some(frame) = self.frames.get_mut(&key) else {
            self.keep_early(taken);
            return;
        };
        if taken.partial.plan != frame.plan.digest {
            let diverged = Message::Diverged {
                frame: key.1,
                peer: taken.from.as_str().to_owned(),
            };
            self.outbox.send_or_log(&key.0, Lane::Control, diverged);
            return;
        }
        let share = taken.bytes / taken.partial.tiles.len().max(1) as u64;
        for (tile, pixels) in &taken.partial.tiles {
            let Some(open) = frame.tiles.get_mut(tile) else {
                continue;
            };
            let job = taken.partial.job as usize;
            if let Err(why) = open.take(&frame.plan, *tile, job, &taken.from, pixels, share) {
                tracing::warn!(
                    peer = taken.from.short(),
                    job,
                    tile,
                    why,
                    "a partial was dropped"
                );
                continue;
            }
            if open.blended == open.order.len() {
                let message = open.message(key.1, &frame.plan, *tile);
                frame.tiles.remove(tile);
                if let Err(error) = self.outbox.send_patiently(&key.0, Lane::Pixels, message) {
                    tracing::warn!(peer = key.0.short(), %error, "a tile was not sent");
                }
            }
        }
    }

    fn keep_early(&mut self, taken: TakePartial) {
        let size = |t: &TakePartial| {
            t.partial
                .tiles
                .iter()
                .map(|(_, p)| p.bytes.len())
                .sum::<usize>()
        };
        self.early_bytes += size(&taken);
        self.early.push_back(taken);
        while self.early_bytes > EARLY_BYTES_MAX {
            let Some(oldest) = self.early.pop_front() else {
                break;
            };
            self.early_bytes -= size(&oldest);
            tracing::debug!(
                peer = oldest.from.short(),
                "a partial of an unknown frame was dropped"
            );
        }
    }
}

impl OpenTile {
    /// Takes a job's pixels and blends as far as the order allows.
    fn take(
        &mut self,
        plan: &FramePlan,
        tile: u32,
        job: usize,
        from: &PeerId,
        pixels: &Pixels,
        bytes: u64,
    ) -> Result<(), &'static str> {
        let planned = plan.jobs.get(job).ok_or("no such job")?;
        let renderer = planned.renderer.and_then(|r| plan.peers.get(r));
        if renderer != Some(from) {
            return Err("not from the job's renderer");
        }
        let position = self
            .order
            .iter()
            .position(|&j| j == job)
            .ok_or("not a job of this tile")?;
        if position < self.blended || self.waiting.contains_key(&position) {
            return Err("came twice");
        }
        let allowed = planned.rect.intersection(&plan.tiles[tile as usize].rect);
        let empty = pixels.rect.pixel_count() == 0;
        if !empty && allowed.and_then(|a| a.intersection(&pixels.rect)) != Some(pixels.rect) {
            return Err("pixels outside of job and tile");
        }
        let image = pixels
            .image()
            .ok_or("pixels of a wrong length, or not finite")?;
        let start = Instant::now();
        self.waiting.insert(position, image);
        while let Some(next) = self.waiting.remove(&self.blended) {
            self.image.blend_behind(&next);
            self.blended += 1;
        }
        self.composite_micros += u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.received_bytes += bytes;
        Ok(())
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
            let order = expect.plan.jobs_in_tile(index);
            if !order.is_empty() {
                let open = OpenTile {
                    order,
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
            .partition::<VecDeque<_>, _>(|t| {
                t.partial.frame == key.1 && t.partial.requester == key.0.as_str()
            });
        self.early = others;
        for taken in mine {
            self.early_bytes -= taken
                .partial
                .tiles
                .iter()
                .map(|(_, p)| p.bytes.len())
                .sum::<usize>();
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

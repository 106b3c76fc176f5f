//! The compositor: blends the partials of its peer's tiles, on its own thread, and sends each
//! tile to the requester when it is whole.
//!
//! Invariant: a tile is blended in the plan's order, front to back, whatever the order of
//! arrival; each job of it exactly once, whoever rendered it. A partial of another plan is not
//! blended.
//! Invariant: memory is bounded, by bytes: partials on their way here by the bus or by the outbox,
//! those that came early by [`EARLY_BYTES_MAX`], tiles by [`TILE_BYTES_MAX`] and runs that wait in
//! them by [`WAITING_BYTES_MAX`]. A frame for which there is no room is refused.

mod early;
mod open_tile;

use crate::{
    budget::{Held, Room},
    bus::Lane,
    messages::{FrameId, Message, Partial, decode},
    outbox::Outbox,
    vital_thread::VitalThread,
};
use actix::{Actor, Handler, SyncContext};
use brickmesh_topology::{PeerId, balance::frame_plan::FramePlan};
use bytes::Bytes;
use early::{Early, Sent};
use open_tile::{BadPart, OpenTile};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// After a tile could not be sent.
const SEND_AGAIN: Duration = Duration::from_secs(1);
/// Frames of one requester that are composited at a time; older ones are dropped.
const FRAMES_MAX: usize = 16;
/// Bytes of partials that wait for their frame to be announced; older ones are dropped.
pub const EARLY_BYTES_MAX: usize = 128 << 20;
/// Bytes of tiles that are being blended, of all frames; one frame alone may have more. 16 a pixel,
/// of the tiles that this peer blends: four pictures of 7680 x 4320 fit.
pub const TILE_BYTES_MAX: usize = 2 << 30;
/// Bytes of runs that wait for what they follow on, of all frames.
pub const WAITING_BYTES_MAX: usize = 512 << 20;

/// Messages that may wait for the compositor, besides those from this peer: small ones take more
/// memory than their bytes say.
pub const MESSAGES_MAX: u32 = 4096;

/// Announces a frame: partials of it may come.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub struct ExpectFrame {
    /// Who asked.
    pub requester: PeerId,
    /// The frame.
    pub frame: FrameId,
    /// Its plan.
    pub plan: Arc<FramePlan>,
    /// What it takes of the frames that may be under way to the compositor.
    pub room: Room,
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
    /// What arrived.
    pub arrived: Arrived,
}

/// How a partial arrives. Its bytes count as under way until this is dropped.
#[derive(Debug)]
pub enum Arrived {
    /// From another peer: a message as it came over the bus, one of [`MESSAGES_MAX`].
    Encoded(Bytes, Room),
    /// From this peer.
    Own(Box<Partial>, Held),
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
    early: Early,
    _thread: VitalThread,
}

#[derive(Debug)]
struct Frame {
    plan: Arc<FramePlan>,
    tiles: BTreeMap<u32, OpenTile>,
    /// A tile could not be sent: not before this is it tried again.
    send_again_at: Option<Instant>,
}

impl Compositor {
    /// A compositor without frames.
    #[must_use]
    pub fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            frames: BTreeMap::new(),
            early: Early::new(EARLY_BYTES_MAX),
            _thread: VitalThread("compositor"),
        }
    }

    fn take(&mut self, sent: Sent) {
        let key = sent.key();
        let Some(frame) = self.frames.get_mut(&key) else {
            self.early.keep(sent);
            return;
        };
        if frame.plan.index_of(&sent.from).is_none() {
            tracing::warn!(
                peer = sent.from.short(),
                "a partial of a peer that does not take part was dropped"
            );
            return;
        }
        if sent.partial.plan != frame.plan.digest {
            let diverged = Message::Diverged {
                frame: key.1,
                peer: sent.from.as_str().to_owned(),
            };
            self.outbox.send_or_log(&key.0, Lane::Control, diverged);
            return;
        }
        frame.take(&key, &sent, &self.outbox);
        if frame.tiles.is_empty() {
            self.frames.remove(&key);
        }
        let waiting: usize = self.frames.values().map(Frame::waiting_bytes).sum();
        if waiting > WAITING_BYTES_MAX {
            self.frames.remove(&key);
            self.refuse(&key, "too much waits to be blended here");
        }
    }

    /// Tells the requester that its frame does not come from here.
    fn refuse(&self, (requester, frame): &(PeerId, FrameId), why: &str) {
        let failed = Message::FrameFailed {
            frame: *frame,
            why: why.to_owned(),
        };
        self.outbox.send_or_log(requester, Lane::Control, failed);
    }

    /// Forgets the oldest frames of a requester that has more than its share.
    fn forget_old(&mut self, requester: &PeerId) {
        let of_requester = self.frames.keys().filter(|(r, _)| r == requester);
        let old: Vec<_> = of_requester.rev().skip(FRAMES_MAX).cloned().collect();
        old.iter().for_each(|k| drop(self.frames.remove(k)));
    }
}

impl Frame {
    /// The tiles of a plan that this peer blends.
    fn new(plan: Arc<FramePlan>, local: &PeerId) -> Self {
        let tiles = plan.tiles_of(local).map(|(index, tile)| {
            let count = plan.tile_jobs.of_tile(index).len();
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            (number, OpenTile::new(tile.rect, count))
        });
        let tiles = tiles.filter(|(_, tile)| !tile.is_whole()).collect();
        Self {
            plan,
            tiles,
            send_again_at: None,
        }
    }

    fn tile_bytes(&self) -> usize {
        self.tiles.values().map(OpenTile::image_bytes).sum()
    }

    fn waiting_bytes(&self) -> usize {
        self.tiles.values().map(OpenTile::waiting_bytes).sum()
    }

    /// Takes a peer's runs, and sends the tiles that are whole with them.
    fn take(&mut self, key: &(PeerId, FrameId), sent: &Sent, outbox: &Outbox) {
        let share = sent.wire_bytes / sent.partial.tiles.len().max(1) as u64;
        let mut refused = None;
        for part in &sent.partial.tiles {
            let Some(open) = self.tiles.get_mut(&part.tile) else {
                continue;
            };
            if let Err(bad) = open.take(&self.plan, part, share) {
                tracing::warn!(
                    peer = sent.from.short(),
                    tile = part.tile,
                    why = %bad,
                    "a partial was dropped"
                );
                // It would be waited for; what came twice is there.
                if bad != BadPart::Twice {
                    refused.get_or_insert(bad);
                }
            }
        }
        if let Some(bad) = refused {
            let refused = Message::Refused {
                frame: key.1,
                peer: sent.from.as_str().to_owned(),
                why: bad.to_string(),
            };
            outbox.send_or_log(&key.0, Lane::Control, refused);
        }
        self.send_whole(key, outbox);
    }

    /// Sends the tiles that are whole. Those that cannot be sent now are sent later, and not waited
    /// for again: the frames of others are blended on this thread, too.
    fn send_whole(&mut self, key: &(PeerId, FrameId), outbox: &Outbox) {
        let now = Instant::now();
        if self.send_again_at.is_some_and(|at| now < at) {
            return;
        }
        let whole = self.tiles.iter().filter(|(_, open)| open.is_whole());
        let whole: Vec<u32> = whole.map(|(&tile, _)| tile).collect();
        for tile in whole {
            let Some(open) = self.tiles.get(&tile) else {
                continue;
            };
            let message = open.message(key.1, &self.plan, tile);
            let sent = if self.send_again_at.is_none() {
                let patiently = outbox.send_patiently(&key.0, Lane::Pixels, message);
                patiently.map(|_| ())
            } else {
                outbox.send(&key.0, Lane::Pixels, message)
            };
            if let Err(error) = sent {
                tracing::warn!(peer = key.0.short(), %error, "a tile was not sent yet");
                self.send_again_at = Some(Instant::now() + SEND_AGAIN);
                return;
            }
            self.tiles.remove(&tile);
        }
    }
}

impl Actor for Compositor {
    type Context = SyncContext<Self>;
}

impl Handler<ExpectFrame> for Compositor {
    type Result = ();

    fn handle(&mut self, expect: ExpectFrame, _: &mut Self::Context) {
        let key = (expect.requester, expect.frame);
        let frame = Frame::new(expect.plan, self.outbox.local());
        if frame.tiles.is_empty() {
            return;
        }
        let taken: usize = self.frames.values().map(Frame::tile_bytes).sum();
        if taken > 0 && taken + frame.tile_bytes() > TILE_BYTES_MAX {
            self.refuse(&key, "too many pixels are under way here");
            return;
        }
        self.frames.insert(key.clone(), frame);
        self.forget_old(&key.0);
        for sent in self.early.take(|of| *of == key) {
            self.take(sent);
        }
    }
}

impl Handler<TakePartial> for Compositor {
    type Result = ();

    fn handle(&mut self, taken: TakePartial, _: &mut Self::Context) {
        let TakePartial { from, arrived } = taken;
        let sent = |from, partial, wire_bytes| Sent {
            from,
            partial,
            wire_bytes,
        };
        match arrived {
            // The room is given back when it is blended, or kept under another bound.
            Arrived::Own(partial, _held) => self.take(sent(from, partial, 0)),
            Arrived::Encoded(bytes, _room) => match decode(&bytes) {
                Ok(Message::Partial(partial)) => {
                    self.take(sent(from, partial, bytes.len() as u64));
                }
                Ok(_) => tracing::warn!(peer = from.short(), "a message came to the wrong actor"),
                Err(error) => {
                    tracing::warn!(peer = from.short(), %error, "a message was dropped");
                }
            },
        }
    }
}

impl Handler<TilesDue> for Compositor {
    type Result = ();

    fn handle(&mut self, due: TilesDue, _: &mut Self::Context) {
        // Whoever never heard of the frame, or is done with it, lacks nothing.
        let key = (due.requester.clone(), due.frame);
        let Some(of_frame) = self.frames.get_mut(&key) else {
            return;
        };
        of_frame.send_whole(&key, &self.outbox);
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
        drop(self.early.take(over));
    }
}

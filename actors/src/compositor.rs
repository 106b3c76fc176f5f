//! The compositor: its own thread, on which the partials of its peer's tiles are decoded and combined,
//! and sent to the requester when a tile is whole. What is combined when is decided by
//! [`Compositing`] in topology.

use crate::{
    budget::{Held, Room},
    bus::Lane,
    messages::{self, FrameId, Message, Pixels, TilePart, decode},
    outbox::Outbox,
    vital_thread::VitalThread,
};
use actix::{Actor, Handler, SyncContext};
use brickmesh_topology::{
    PeerId,
    balance::frame_plan::FramePlan,
    frame::compositing::{Arrived as ArrivedPartial, Compositing, CompositorWord, Part, Partial},
};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

pub use brickmesh_topology::frame::compositing::{
    EARLY_BYTES_MAX, FrameKey, TILE_BYTES_MAX, WAITING_BYTES_MAX,
};

/// After a tile could not be sent.
const SEND_AGAIN: Duration = Duration::from_secs(1);

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
    Own(Box<messages::Partial>, Held),
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
    tiles: Compositing<Pixels>,
    /// Time spent on each frame that no tile has told of yet.
    spent: BTreeMap<FrameKey, Duration>,
    /// Frames of which a tile could not be sent: not before this is it tried again.
    send_again_at: BTreeMap<FrameKey, Instant>,
    _thread: VitalThread,
}

impl Compositor {
    /// A compositor without frames.
    #[must_use]
    pub fn new(outbox: Outbox) -> Self {
        Self {
            tiles: Compositing::new(outbox.local().clone()),
            outbox,
            spent: BTreeMap::new(),
            send_again_at: BTreeMap::new(),
            _thread: VitalThread("compositor"),
        }
    }

    fn take(&mut self, from: PeerId, partial: messages::Partial, wire_bytes: u64) {
        let key = (PeerId::new(&partial.requester), partial.frame);
        let part = |part: TilePart| Part {
            tile: part.tile,
            first: part.first,
            count: part.count,
            packed: part.pixels,
        };
        let partial = Partial {
            plan: partial.plan,
            parts: partial.tiles.into_iter().map(part).collect(),
            wire_bytes,
        };
        let arrived = ArrivedPartial {
            key: key.clone(),
            from,
            partial,
        };
        let start = Instant::now();
        let words = self.tiles.take(arrived);
        *self.spent.entry(key.clone()).or_default() += start.elapsed();
        self.say(&key, words);
        self.send_whole(&key);
    }

    /// Tells the requester of a frame.
    fn say(&self, (requester, frame): &FrameKey, words: impl IntoIterator<Item = CompositorWord>) {
        let frame = *frame;
        for word in words {
            let message = match word {
                CompositorWord::Diverged(peer) => {
                    let peer = peer.as_str().to_owned();
                    Message::Diverged { frame, peer }
                }
                CompositorWord::Refused(peer, why) => {
                    tracing::warn!(peer = peer.short(), %why, "a partial was dropped");
                    Message::Refused {
                        frame,
                        peer: peer.as_str().to_owned(),
                        why: why.to_string(),
                    }
                }
                CompositorWord::Failed(why) => {
                    let why = why.to_owned();
                    Message::FrameFailed { frame, why }
                }
                CompositorWord::Lacking(plan, jobs) => Message::Lacking { frame, plan, jobs },
            };
            self.outbox.send_or_log(requester, Lane::Control, message);
        }
    }

    /// Sends the tiles that are whole. Those that cannot be sent now are sent later, and not waited
    /// for again: the frames of others are combined on this thread, too.
    fn send_whole(&mut self, key: &FrameKey) {
        let now = Instant::now();
        let again_at = self.send_again_at.get(key).copied();
        if again_at.is_some_and(|at| now < at) {
            return;
        }
        for tile in self.tiles.whole(key) {
            let Some(whole) = self.tiles.tile(key, tile) else {
                continue;
            };
            let mode = self.tiles.plan(key).map(|plan| plan.mode);
            let spent = self.spent.get(key).copied().unwrap_or_default();
            let message = Message::Tile {
                frame: key.1,
                plan: whole.plan,
                tile,
                pixels: Pixels::of(&whole.image, mode.unwrap_or_default()),
                composite_micros: u64::try_from(spent.as_micros()).unwrap_or(u64::MAX),
                received_bytes: whole.received_bytes,
            };
            let sent = if again_at.is_none() {
                let patiently = self.outbox.send_patiently(&key.0, Lane::Pixels, message);
                patiently.map(|_| ())
            } else {
                self.outbox.send(&key.0, Lane::Pixels, message)
            };
            if let Err(error) = sent {
                tracing::warn!(peer = key.0.short(), %error, "a tile was not sent yet");
                let at = Instant::now() + SEND_AGAIN;
                self.send_again_at.insert(key.clone(), at);
                return;
            }
            self.spent.remove(key);
            self.tiles.sent(key, tile);
        }
        // What is known of frames that are over goes with them.
        let tiles = &self.tiles;
        self.spent.retain(|key, _| tiles.plan(key).is_some());
        self.send_again_at
            .retain(|key, _| tiles.plan(key).is_some());
    }
}

impl Actor for Compositor {
    type Context = SyncContext<Self>;
}

impl Handler<ExpectFrame> for Compositor {
    type Result = ();

    fn handle(&mut self, expect: ExpectFrame, _: &mut Self::Context) {
        let key = (expect.requester, expect.frame);
        let words = self.tiles.expect(&key, &expect.plan);
        self.say(&key, words);
        self.send_whole(&key);
    }
}

impl Handler<TakePartial> for Compositor {
    type Result = ();

    fn handle(&mut self, taken: TakePartial, _: &mut Self::Context) {
        let TakePartial { from, arrived } = taken;
        match arrived {
            // The room is given back when it is combined, or kept under another bound.
            Arrived::Own(partial, _held) => self.take(from, *partial, 0),
            Arrived::Encoded(bytes, _room) => match decode(&bytes) {
                Ok(Message::Partial(partial)) => self.take(from, *partial, bytes.len() as u64),
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
        let key = (due.requester, due.frame);
        self.send_whole(&key);
        let word = self.tiles.lacking(&key);
        self.say(&key, word);
    }
}

impl Handler<ForgetFrames> for Compositor {
    type Result = ();

    fn handle(&mut self, forget: ForgetFrames, _: &mut Self::Context) {
        self.tiles.forget(&forget.requester, forget.frame);
    }
}

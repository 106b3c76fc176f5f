//! The compositor: its own thread, on which the partials of its peer's tiles are decoded and combined,
//! and sent to the requester when a tile is whole. What is combined when is decided by
//! [`Compositing`] in topology.

use crate::{
    bus::Lane,
    inputs::CompositorInput,
    messages::{FrameKey, FrameMessage, Message, Partial, decode},
    outbox::Outbox,
    pixels::Pixels,
    span_log::{SpanLog, now_micros},
    vital_thread::VitalThread,
};
use actix::{Actor, Context, Handler};
use brickmesh_topology::{
    PeerId,
    frame::{
        compositing::{Arrived, Compositing},
        timeline::SpanKind,
    },
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// After a tile could not be sent.
const SEND_AGAIN: Duration = Duration::from_secs(1);

/// Messages that may wait for the compositor, besides those from this peer: small ones take more
/// memory than their bytes say.
pub const MESSAGES_MAX: u32 = 4096;

/// See the module.
#[derive(Debug)]
pub struct Compositor {
    outbox: Outbox,
    tiles: Compositing<Pixels>,
    /// Time spent on each frame that no tile has told of yet.
    spent: BTreeMap<FrameKey, Duration>,
    /// Frames of which a tile could not be sent: not before this is it tried again.
    send_again_at: BTreeMap<FrameKey, Instant>,
    spans: SpanLog,
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
            spans: SpanLog::default(),
            _thread: VitalThread("compositor"),
        }
    }

    fn take(&mut self, from: PeerId, partial: Partial<Pixels>, wire_bytes: u64) {
        let key = partial.key.clone();
        let (start, began) = (Instant::now(), now_micros());
        let replies = self.tiles.take(Arrived {
            from,
            partial,
            wire_bytes,
        });
        *self.spent.entry(key.clone()).or_default() += start.elapsed();
        self.spans.add(&key, SpanKind::Blend, began, None);
        self.reply(&key, replies);
        self.tell_hidden(&key);
        self.send_whole(&key);
    }

    /// Tells renderers what nobody would see; who does not hear it renders it.
    fn tell_hidden(&mut self, key: &FrameKey) {
        for (peer, hidden) in self.tiles.hidden(key) {
            let hidden = Message::Hidden(hidden);
            self.outbox.send_or_log(&peer, Lane::Control, hidden);
        }
    }

    /// Tells the requester of a frame.
    fn reply(&self, (requester, frame): &FrameKey, all: impl IntoIterator<Item = FrameMessage>) {
        let frame = *frame;
        for reply in all {
            if let FrameMessage::Complaint { about, what } = &reply {
                tracing::warn!(peer = about.short(), ?what, "a partial was dropped");
            }
            let reply = Message::Reply { frame, reply };
            self.outbox.send_or_log(requester, Lane::Control, reply);
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
                pixels: Pixels::Here(whole.image, mode.unwrap_or_default()),
                composite_micros: u64::try_from(spent.as_micros()).unwrap_or(u64::MAX),
                received_bytes: whole.received_bytes,
            };
            let spans = self.spans.take(key);
            if !spans.is_empty() {
                let frame = key.1;
                let spans = Message::Spans { frame, spans };
                self.outbox.send_or_log(&key.0, Lane::Pixels, spans);
            }
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
        self.spans.retain(|key| tiles.plan(key).is_some());
        self.send_again_at
            .retain(|key, _| tiles.plan(key).is_some());
    }
}

impl Actor for Compositor {
    type Context = Context<Self>;
}

impl Handler<CompositorInput> for Compositor {
    type Result = ();

    fn handle(&mut self, input: CompositorInput, _: &mut Self::Context) {
        match input {
            CompositorInput::Expect {
                key,
                plan,
                is_traced,
                room: _room,
            } => {
                if is_traced {
                    self.spans.begin(key.clone());
                }
                let began = now_micros();
                let replies = self.tiles.expect(&key, &plan);
                self.spans.add(&key, SpanKind::Blend, began, None);
                self.reply(&key, replies);
                self.tell_hidden(&key);
                self.send_whole(&key);
            }
            CompositorInput::Forget { requester, frame } => self.tiles.forget(&requester, frame),
            // The room is given back when it is combined, or kept under another bound.
            CompositorInput::Decoded(from, partial, _held) => self.take(from, *partial, 0),
            CompositorInput::Encoded(from, bytes, _room) => match decode(&bytes) {
                Ok(Message::Partial(partial)) => self.take(from, *partial, bytes.len() as u64),
                Ok(_) => tracing::warn!(peer = from.short(), "a message came to the wrong actor"),
                Err(error) => {
                    tracing::warn!(peer = from.short(), %error, "a message was dropped");
                }
            },
            CompositorInput::TilesDue(key, _held) => {
                self.send_whole(&key);
                let lacking = self.tiles.lacking(&key);
                self.reply(&key, lacking);
            }
        }
    }
}

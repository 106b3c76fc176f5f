//! The compositor of a machine: as the actor, but that it combines names, not pixels.

use super::{
    environment::Environment,
    notes::{FrameKey, Note, Pieces, SentPartial, Who},
    plans::Planned,
};
use brickmesh_topology::{
    PeerId,
    frame::{
        compositing::{self, Arrived, CompositorWord},
        frame_requests::FrameId,
    },
};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct Compositing(compositing::Compositing<Pieces>);

impl Compositing {
    pub(super) fn new(local: PeerId) -> Self {
        Self(compositing::Compositing::new(local))
    }

    /// Partials of a frame may come.
    pub(super) fn expect(
        &mut self,
        env: &mut Environment,
        me: Who,
        key: FrameKey,
        planned: &Arc<Planned>,
    ) {
        let words = self.0.expect(&named(env, key), &planned.plan);
        say(env, me, key, words);
        self.send_whole(env, me, key);
    }

    /// A partial arrived.
    pub(super) fn take(&mut self, env: &mut Environment, me: Who, from: Who, sent: &SentPartial) {
        let words = self.0.take(Arrived {
            key: named(env, sent.key),
            from: env.name(from).clone(),
            partial: sent.partial.clone(),
        });
        say(env, me, sent.key, words);
        self.send_whole(env, me, sent.key);
    }

    fn send_whole(&mut self, env: &mut Environment, me: Who, key: FrameKey) {
        let frame = named(env, key);
        for tile in self.0.whole(&frame) {
            if let Some(whole) = self.0.tile(&frame, tile) {
                let note = Note::Tile {
                    frame: key.1,
                    plan: whole.plan,
                    tile,
                    pieces: whole.image.names().into(),
                };
                env.send(me, key.0, note);
            }
            self.0.sent(&frame, tile);
        }
    }

    /// The requester misses tiles of this machine: it says what it lacks.
    pub(super) fn tiles_due(&self, env: &mut Environment, me: Who, key: FrameKey) {
        let word = self.0.lacking(&named(env, key));
        say(env, me, key, word);
    }

    /// Frames of a requester are over; `None`: all of them.
    pub(super) fn forget(&mut self, env: &Environment, requester: Who, frame: Option<FrameId>) {
        self.0.forget(env.name(requester), frame);
    }
}

fn named(env: &Environment, key: FrameKey) -> compositing::FrameKey {
    (env.name(key.0).clone(), key.1)
}

/// Tells a frame's requester.
fn say(
    env: &mut Environment,
    me: Who,
    (requester, frame): FrameKey,
    words: impl IntoIterator<Item = CompositorWord>,
) {
    for word in words {
        let note = match word {
            CompositorWord::Diverged(peer) => Note::Diverged(frame, env.who(&peer)),
            CompositorWord::Lacking(plan, jobs) => Note::Lacking(frame, plan, jobs.into()),
            CompositorWord::Failed(_) => Note::FrameFailed(frame),
            CompositorWord::Refused(_, bad) => {
                env.oracle.broken(&format!("a partial was refused: {bad}"));
                return;
            }
        };
        env.send(me, requester, note);
    }
}

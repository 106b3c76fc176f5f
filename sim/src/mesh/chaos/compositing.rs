//! The compositor of a machine: as the actor, but that it combines names, not pixels.

use super::{
    environment::Environment,
    notes::{FrameKey, Note, Pieces, Who},
    plans::Planned,
};
use brickmesh_topology::{
    PeerId,
    frame::{
        compositing::{self, Arrived, Partial},
        frame_requests::{Complaint, FrameId, FrameMessage},
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
        let frame = named(env, key);
        let words = self.0.expect(&frame, &planned.plan);
        say(env, me, key, words);
        self.tell_hidden(env, me, &frame);
        self.send_whole(env, me, key);
    }

    /// A partial arrived.
    pub(super) fn take(
        &mut self,
        env: &mut Environment,
        me: Who,
        from: Who,
        sent: &Partial<Pieces>,
    ) {
        let words = self.0.take(Arrived {
            from: env.name(from).clone(),
            partial: sent.clone(),
            wire_bytes: 0,
        });
        let key = (env.who(&sent.key.0), sent.key.1);
        say(env, me, key, words);
        self.tell_hidden(env, me, &sent.key);
        self.send_whole(env, me, key);
    }

    /// Tells renderers what nobody would see.
    fn tell_hidden(&mut self, env: &mut Environment, me: Who, frame: &compositing::FrameKey) {
        for (peer, hidden) in self.0.hidden(frame) {
            let to = env.who(&peer);
            env.send(me, to, Note::Hidden(Arc::new(hidden)));
        }
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
    pub(super) fn forget(&mut self, requester: &PeerId, frame: Option<FrameId>) {
        self.0.forget(requester, frame);
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
    messages: impl IntoIterator<Item = FrameMessage>,
) {
    for message in messages {
        if let FrameMessage::Complaint {
            what: Complaint::Refused(why),
            ..
        } = &message
        {
            return env.oracle.broken(&format!("a partial was refused: {why}"));
        }
        env.send(me, requester, Note::Reply(frame, message));
    }
}

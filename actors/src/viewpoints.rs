//! Viewpoints: tells who follows this viewer from where it looks, and hears that of the viewer that it follows.

use crate::{bus::Lane, inputs::ViewpointInput, messages::Message, outbox::Outbox};
use actix::{Actor, Context, Handler};
use brickmesh_topology::{
    PeerId,
    mesh::followers::{Followers, Viewpoint},
};
use std::time::Instant;
use tokio::sync::watch;

/// This viewer looks from there.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct ShowViewpoint(pub Viewpoint);

/// Asks a viewer from where it looks, now and for [`FOLLOW_MICROS`](brickmesh_topology::mesh::followers::FOLLOW_MICROS)
/// whenever that changes; what it says goes to `to`. It alone is heard from then on.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct FollowViewer {
    /// The viewer.
    pub viewer: PeerId,
    /// The latest of what it said.
    pub to: watch::Sender<Option<Viewpoint>>,
}

/// See the module.
#[derive(Debug)]
pub struct Viewpoints {
    outbox: Outbox,
    clock: Instant,
    followers: Followers,
    following: Option<FollowViewer>,
}

impl Viewpoints {
    /// Nobody follows, and nobody is followed.
    #[must_use]
    pub fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            clock: Instant::now(),
            followers: Followers::default(),
            following: None,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Tells a follower. Two that follow each other tell each other nothing: their cameras would change places for ever.
    fn tell(&self, to: &PeerId, viewpoint: Viewpoint) {
        let is_heard = |f: &&FollowViewer| !f.to.is_closed();
        let followed = self.following.as_ref().filter(is_heard);
        if followed.is_some_and(|f| f.viewer == *to) {
            return;
        }
        let message = Message::Viewpoint(viewpoint);
        self.outbox.send_or_log(to, Lane::Control, message);
    }
}

impl Actor for Viewpoints {
    type Context = Context<Self>;
}

impl Handler<ShowViewpoint> for Viewpoints {
    type Result = ();

    fn handle(&mut self, ShowViewpoint(viewpoint): ShowViewpoint, _: &mut Self::Context) {
        for follower in self.followers.moved(self.now(), viewpoint) {
            self.tell(&follower, viewpoint);
        }
    }
}

impl Handler<FollowViewer> for Viewpoints {
    type Result = ();

    fn handle(&mut self, follow: FollowViewer, _: &mut Self::Context) {
        self.outbox
            .send_or_log(&follow.viewer, Lane::Control, Message::Follow);
        self.following = Some(follow);
    }
}

impl Handler<ViewpointInput> for Viewpoints {
    type Result = ();

    fn handle(&mut self, input: ViewpointInput, _: &mut Self::Context) {
        match input {
            ViewpointInput::Said(from, Message::Follow) => {
                if let Some(viewpoint) = self.followers.asked(self.now(), &from) {
                    self.tell(&from, viewpoint);
                }
            }
            ViewpointInput::Said(from, Message::Viewpoint(viewpoint)) => {
                let followed = self.following.as_ref().filter(|f| f.viewer == from);
                match followed {
                    Some(followed) if viewpoint.is_valid() => {
                        followed.to.send_replace(Some(viewpoint));
                    }
                    _ => tracing::debug!(peer = from.short(), "a viewpoint was dropped"),
                }
            }
            ViewpointInput::Said(from, _) => {
                tracing::warn!(peer = from.short(), "a message came to the wrong actor");
            }
            ViewpointInput::Lost(peer) => self.followers.lost(&peer),
        }
    }
}

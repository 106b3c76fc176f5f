//! The router: takes what the bus brings, decodes it, and hands it to the actor that it concerns.

use crate::{
    budget::{Budget, Held},
    bus::BusEvent,
    compositor,
    inputs::{Addresses, CompositorInput, OwnerInput, SchedulerInput, ViewpointInput},
    messages::{Message, decode, is_partial},
};
use actix::{Actor, AsyncContext, Context, StreamHandler};
use brickmesh_topology::PeerId;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;

/// See the module.
#[derive(Debug)]
pub struct Router {
    events: Option<mpsc::Receiver<BusEvent>>,
    addresses: Addresses,
    /// Partials of others on their way to the compositor.
    partials: Budget,
}

impl Router {
    /// A router between a bus's events and the actors of a peer.
    #[must_use]
    pub fn new(events: mpsc::Receiver<BusEvent>, addresses: Addresses) -> Self {
        Self {
            events: Some(events),
            addresses,
            partials: Budget::new(compositor::MESSAGES_MAX),
        }
    }

    fn route(&self, from: PeerId, message: Message, held: Held) {
        let peer = from.clone();
        if let Message::Partial(_) = message {
            tracing::warn!(
                peer = peer.short(),
                "a partial that is not written as peers write them was dropped"
            );
        } else if !self.addresses.route(from, message, held) {
            tracing::warn!(
                peer = peer.short(),
                "an actor's mailbox is full: a message was dropped"
            );
        }
    }

    /// Passes a partial on as it is: its own thread decodes it. Until then its bytes count as under
    /// way on the bus, which holds back who sends faster than they are blended.
    fn take_partial(&self, from: PeerId, message: Bytes) {
        let Some(room) = self.partials.try_take(1) else {
            tracing::warn!(
                peer = from.short(),
                "too many partials wait to be blended: one was dropped"
            );
            return;
        };
        let encoded = CompositorInput::Encoded(from, message, room);
        if self.addresses.compositor.try_send(encoded).is_err() {
            tracing::warn!("the compositor has ended");
        }
    }

    fn peer_changed(&self, peer: &PeerId, connected: bool) {
        let owner = if connected {
            OwnerInput::Connected(peer.clone())
        } else {
            OwnerInput::Lost(peer.clone())
        };
        let mut full = self.addresses.owner.try_send(owner).is_err();
        // The requester hears it from the owner, after the roster without that peer.
        if !connected {
            let lost = ViewpointInput::Lost(peer.clone());
            full |= self.addresses.viewpoints.try_send(lost).is_err();
            full |= self
                .addresses
                .scheduler
                .try_send(SchedulerInput::Lost(peer.clone()))
                .is_err();
        }
        if full {
            tracing::warn!(
                peer = peer.short(),
                "an actor's mailbox is full: it misses a change of peers"
            );
        }
    }
}

impl Actor for Router {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(mut events) = self.events.take() {
            ctx.add_stream(stream::poll_fn(move |task| events.poll_recv(task)));
        }
    }
}

impl StreamHandler<BusEvent> for Router {
    fn handle(&mut self, event: BusEvent, _: &mut Self::Context) {
        match event {
            BusEvent::Connected(peer) => self.peer_changed(&peer, true),
            BusEvent::Lost(peer) => self.peer_changed(&peer, false),
            BusEvent::Received { from, message } if is_partial(&message) => {
                self.take_partial(from, message);
            }
            BusEvent::Received { from, message } => match decode(&message) {
                Ok(decoded) => self.route(from, decoded, Held::of_bus(message)),
                Err(error) => tracing::warn!(peer = from.short(), %error, "a message was dropped"),
            },
        }
    }

    fn finished(&mut self, _: &mut Self::Context) {
        tracing::debug!("the bus has ended");
    }
}

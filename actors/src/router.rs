//! The router: takes what the bus brings, decodes it, and hands it to the actor that it
//! concerns. It decides nothing.

use crate::{
    brick_owner::{BrickOwner, OwnerInput},
    budget::{Budget, Held},
    bus::{BusEvent, EVENTS_MAX},
    compositor::{self, Arrived, Compositor, TakePartial, TilesDue},
    messages::{Message, decode, is_partial},
    requester::{Requester, RequesterInput},
    scheduler::{Scheduler, SchedulerInput},
};
use actix::{Actor, Addr, AsyncContext, Context, Handler, StreamHandler};
use brickmesh_topology::PeerId;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;

/// A decoded message, from a peer or from this one.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub struct Delivery {
    /// Sender.
    pub from: PeerId,
    /// What it says.
    pub message: Message,
    /// What it holds until it is handled.
    pub held: Held,
}

/// The actors that messages go to.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Bricks, residency, other peers.
    pub owner: Addr<BrickOwner>,
    /// Frames asked for by others.
    pub scheduler: Addr<Scheduler>,
    /// Partials.
    pub compositor: Addr<Compositor>,
    /// Frames that this peer asked for.
    pub requester: Addr<Requester>,
}

/// See the module.
#[derive(Debug)]
pub struct Router {
    local: PeerId,
    events: Option<mpsc::Receiver<BusEvent>>,
    lines: Lines,
    /// Partials of others on their way to the compositor.
    partials: Budget,
}

impl Router {
    /// A router between a bus's events and the actors of the peer `local`.
    #[must_use]
    pub fn new(local: PeerId, events: mpsc::Receiver<BusEvent>, lines: Lines) -> Self {
        Self {
            local,
            events: Some(events),
            lines,
            partials: Budget::new(compositor::MESSAGES_MAX),
        }
    }

    fn route(&self, delivery: Delivery) {
        let Delivery {
            from,
            message,
            held,
        } = delivery;
        let peer = from.clone();
        self.tell_owner_of_frames(&message);
        let full = match message {
            Message::Keeper(_) | Message::BrickData { .. } => self
                .lines
                .owner
                .try_send(OwnerInput::Said(from, message, held))
                .is_err(),
            Message::Roster(_)
            | Message::Costs(_)
            | Message::Frame(_)
            | Message::Steal(_)
            | Message::Cancel { .. } => self
                .lines
                .scheduler
                .try_send(SchedulerInput::Said(from, message))
                .is_err(),
            Message::Partial(partial) => {
                if held.wire_bytes() > 0 {
                    tracing::warn!(
                        peer = peer.short(),
                        "a partial that is not written as peers write them was dropped"
                    );
                    return;
                }
                let arrived = Arrived::Own(partial, held);
                let taken = TakePartial { from, arrived };
                self.lines.compositor.try_send(taken).is_err()
            }
            Message::TilesDue { frame } => {
                let requester = from;
                let due = TilesDue { requester, frame };
                self.lines.compositor.try_send(due).is_err()
            }
            Message::NeedInputs { .. }
            | Message::JobsDone { .. }
            | Message::Given { .. }
            | Message::Tile { .. }
            | Message::Lacking { .. }
            | Message::FrameFailed { .. }
            | Message::Diverged { .. }
            | Message::Refused { .. }
            | Message::Unreachable { .. } => self
                .lines
                .requester
                .try_send(RequesterInput::Said {
                    from,
                    message: Box::new(message),
                    held,
                })
                .is_err(),
        };
        if full {
            tracing::warn!(
                peer = peer.short(),
                "an actor's mailbox is full: a message was dropped"
            );
        }
    }

    /// The owner learns from what is said to the scheduler that frames are under way, and how fast
    /// this peer is.
    fn tell_owner_of_frames(&self, message: &Message) {
        let told = match message {
            Message::Frame(_) => Some(OwnerInput::Rendering),
            _ => self.own_speed(message).map(OwnerInput::Speed),
        };
        if told.is_some_and(|t| self.lines.owner.try_send(t).is_err()) {
            tracing::debug!("the owner's mailbox is full: it does not learn of a frame");
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
        let arrived = Arrived::Encoded(message, room);
        let taken = TakePartial { from, arrived };
        if self.lines.compositor.try_send(taken).is_err() {
            tracing::warn!("the compositor has ended");
        }
    }

    /// The speed that a roster names for this peer.
    fn own_speed(&self, message: &Message) -> Option<u64> {
        let Message::Roster(roster) = message else {
            return None;
        };
        let own = roster.entries().iter().find(|e| e.peer == self.local);
        own.map(|e| e.speed_millionths)
    }

    fn peer_changed(&self, peer: &PeerId, connected: bool) {
        let owner = if connected {
            OwnerInput::Connected(peer.clone())
        } else {
            OwnerInput::Lost(peer.clone())
        };
        let mut full = self.lines.owner.try_send(owner).is_err();
        // The requester hears it from the owner, after the roster without that peer.
        if !connected {
            full |= self
                .lines
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
        ctx.set_mailbox_capacity(EVENTS_MAX);
        if let Some(mut events) = self.events.take() {
            ctx.add_stream(stream::poll_fn(move |task| events.poll_recv(task)));
        }
    }
}

impl Handler<Delivery> for Router {
    type Result = ();

    fn handle(&mut self, delivery: Delivery, _: &mut Self::Context) {
        self.route(delivery);
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
                Ok(decoded) => self.route(Delivery {
                    from,
                    message: decoded,
                    held: Held::of_bus(message),
                }),
                Err(error) => tracing::warn!(peer = from.short(), %error, "a message was dropped"),
            },
        }
    }

    fn finished(&mut self, _: &mut Self::Context) {
        tracing::debug!("the bus has ended");
    }
}

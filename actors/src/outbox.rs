//! Sends messages to peers, this one included, so that no actor treats itself as special.
//!
//! Invariant: the partials that are under way inside of this peer are bounded by bytes, as those to
//! others are by the bus: see [`OWN_BYTES_MAX`]. A tile to this peer's own requester waits for no
//! room: who blends it has the partials in hand whose room it would wait for. Those are of frames
//! that this peer itself asked for, each tile once an attempt.

use crate::{
    budget::{Budget, Held},
    bus::{Bus, BusError, Lane},
    inputs::Addresses,
    messages::{Message, encode},
};
use brickmesh_topology::PeerId;
use bytes::Bytes;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// How long a full queue is waited for by threads that may wait.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of partials that may be under way from this peer to itself.
pub const OWN_BYTES_MAX: u32 = 64 << 20;
/// Between two looks at a full queue.
const PAUSE: Duration = Duration::from_millis(1);

/// The way out of a peer: the bus, and its own actors for what stays here.
#[derive(Clone, Debug)]
pub struct Outbox {
    bus: Arc<dyn Bus>,
    addresses: Addresses,
    own: Budget,
}

/// An encoded message, and what is dropped with it.
struct Holding<T> {
    message: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for Holding<T> {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Outbox {
    /// An outbox onto `bus`, with what is for this peer going to its actors.
    #[must_use]
    pub fn new(bus: Arc<dyn Bus>, addresses: Addresses) -> Self {
        Self {
            bus,
            addresses,
            own: Budget::new(OWN_BYTES_MAX),
        }
    }

    /// This peer.
    #[must_use]
    pub fn local(&self) -> &PeerId {
        self.bus.local()
    }

    /// Queues a message; returns at once.
    ///
    /// # Errors
    /// [`BusError`] where it was not queued.
    pub fn send(&self, to: &PeerId, lane: Lane, message: Message) -> Result<(), BusError> {
        if to == self.local() {
            return self.deliver(lane, message);
        }
        self.bus.send(to, lane, encode(&message))
    }

    /// Queues a message, and says in the log where that was not possible. For messages whose loss
    /// the protocol makes good.
    pub fn send_or_log(&self, to: &PeerId, lane: Lane, message: Message) {
        if let Err(error) = self.send(to, lane, message) {
            tracing::warn!(peer = to.short(), %error, "a message was not sent");
        }
    }

    /// Queues a message, waiting for room; for threads that may wait, not for actors on an
    /// arbiter. Returns the bytes that went out of this peer.
    ///
    /// # Errors
    /// [`BusError`] where the peer is gone, or its queue stayed full.
    pub fn send_patiently(
        &self,
        to: &PeerId,
        lane: Lane,
        message: Message,
    ) -> Result<u64, BusError> {
        self.send_holding(to, lane, message, ())
    }

    /// As [`Self::send_patiently`]; `held` is dropped once the message is written, or will not be.
    ///
    /// # Errors
    /// As [`Self::send_patiently`].
    pub fn send_holding(
        &self,
        to: &PeerId,
        lane: Lane,
        message: Message,
        held: impl Send + 'static,
    ) -> Result<u64, BusError> {
        let end = Instant::now() + PATIENCE;
        if to == self.local() {
            loop {
                match self.deliver(lane, message.clone()) {
                    Err(BusError::QueueFull { .. }) if Instant::now() < end => thread::sleep(PAUSE),
                    other => return other.map(|()| 0),
                }
            }
        }
        let bytes = Bytes::from_owner(Holding {
            message: encode(&message),
            _held: held,
        });
        loop {
            match self.bus.send(to, lane, bytes.clone()) {
                Err(BusError::QueueFull { .. }) if Instant::now() < end => thread::sleep(PAUSE),
                Err(error) => return Err(error),
                Ok(()) => return Ok(bytes.len() as u64),
            }
        }
    }

    fn deliver(&self, lane: Lane, message: Message) -> Result<(), BusError> {
        let full = || BusError::QueueFull {
            peer: self.local().clone(),
            lane,
        };
        let held = match message.partial_bytes() {
            0 => Held::default(),
            bytes => self.own.try_take(bytes).map(Held::own).ok_or_else(full)?,
        };
        let is_taken = self.addresses.route(self.local().clone(), message, held);
        is_taken.then_some(()).ok_or_else(full)
    }
}

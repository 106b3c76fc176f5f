//! The bus: how encoded messages get from peer to peer. Actors know no socket; libp2p stands
//! behind this trait in `node`, channels in one process stand behind it in [`crate::local_bus`].
//!
//! Invariants: messages of one lane between two peers arrive in order, whole, at most once; lanes
//! do not wait for each other. Nothing is unbounded: a full queue refuses.

use brickmesh_topology::PeerId;
use bytes::Bytes;
use std::fmt::Debug;

/// Largest message in bytes: a brick of the largest edge, 4 bytes a voxel, does not fit; import
/// refuses such bricks.
pub const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// Largest message on [`Lane::Control`] in bytes: those are many, and go before all others.
const CONTROL_BYTES_MAX: usize = 16 << 20;
/// Events that wait for the peer's actors before the bus stops reading.
pub const EVENTS_MAX: usize = 1024;

/// What a message is about; each lane has its own queue and its own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Small messages: residency, requests, schedules, times.
    Control,
    /// Sub-images and tiles.
    Pixels,
    /// Bricks, and the manifests that name them.
    Bricks,
}

impl Lane {
    /// Largest message, in bytes.
    #[must_use]
    pub fn message_bytes_max(self) -> usize {
        match self {
            Self::Control => CONTROL_BYTES_MAX,
            Self::Pixels | Self::Bricks => MESSAGE_BYTES_MAX,
        }
    }
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// There is no connection to this peer.
    #[error("peer {peer} is not connected")]
    NotConnected {
        /// Addressee.
        peer: PeerId,
    },
    /// The lane's queue to this peer is full: it is slower than what is sent to it.
    #[error("the {lane:?} queue to peer {peer} is full")]
    QueueFull {
        /// Addressee.
        peer: PeerId,
        /// Lane.
        lane: Lane,
    },
    /// The message is larger than [`Lane::message_bytes_max`].
    #[error("a message of {bytes} bytes is above the limit of {}", lane.message_bytes_max())]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// Lane.
        lane: Lane,
    },
}

/// What comes from the bus, in a bounded channel.
#[derive(Clone, Debug)]
pub enum BusEvent {
    /// A peer can be reached now.
    Connected(PeerId),
    /// A peer cannot be reached any more; what was queued for it is gone.
    Lost(PeerId),
    /// A message arrived.
    Received {
        /// Sender, authenticated by the bus.
        from: PeerId,
        /// Encoded message.
        message: Bytes,
    },
}

/// Carries messages to connected peers.
pub trait Bus: Send + Sync + Debug {
    /// This peer.
    fn local(&self) -> &PeerId;

    /// Queues a message; returns at once. What was queued may still be lost with the connection.
    ///
    /// # Errors
    /// [`BusError`] where the message was not queued.
    fn send(&self, to: &PeerId, lane: Lane, message: Bytes) -> Result<(), BusError>;
}

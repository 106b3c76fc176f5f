//! The actors of a peer: brick owner, scheduler, raycaster, compositor, requester, and the
//! messages that they exchange, with other peers too.
//!
//! Invariant: thin. An actor holds state and moves messages; what it decides, it asks topology.
//! Not here: sockets (node), decisions (topology), kernels (shaders).

pub mod brick_owner;
pub mod budget;
pub mod bus;
pub mod compositor;
pub mod data_set;
pub mod device_slot;
mod device_thread;
pub mod inputs;
pub mod local_bus;
pub mod manifest_message;
pub mod messages;
pub mod outbox;
pub mod pager;
mod patient;
pub mod peer;
mod pixel_codes;
pub mod pixels;
pub mod plain_text;
pub mod raycaster;
pub mod requester;
pub mod router;
pub mod scheduler;
pub mod span_log;
pub mod viewpoints;
mod vital_thread;

pub use peer::{Peer, PeerConfig};

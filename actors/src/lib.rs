//! The actors of a peer: brick owner, scheduler, raycaster, compositor, and the messages that
//! they exchange, with other peers too.
//!
//! Invariant: thin. An actor holds state and moves messages; what it decides, it asks topology.
//! Not here: sockets (node), decisions (topology), kernels (shaders).

pub mod bus;

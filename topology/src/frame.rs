//! A frame, from its requester's side (attempts, participants, blame) and from that of the peers that
//! render it (frame worker) and combine it (compositing).
//!
//! May use `base`, `data`, `picture` and `balance`; `.ci/arrows` checks it.

pub mod compositing;
pub mod frame_requests;
pub mod image;
pub mod occlusion;
pub mod outgoing;
pub mod painting;
pub mod timeline;
pub mod worker;

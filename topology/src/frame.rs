//! A frame from its requester's side: attempts, participants, blame, how many may be under way.
//!
//! May use `base`, `data`, `picture` and `balance`; `.ci/arrows` checks it.

pub mod admission;
pub mod blame;
pub mod compositing;
pub mod frame_requests;
pub mod frame_tracker;
pub mod image;
pub mod outgoing;
pub mod participants;

//! A peer among others: membership, who should hold what, bricks on their way, a device that is lost.
//!
//! May use `base`, `data`, `balance` and, for who may take part in frames, `frame`; `.ci/arrows` checks it.

pub mod device_recovery;
pub mod holding;
pub mod keeper;
pub mod membership;
pub mod upkeep;

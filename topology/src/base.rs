//! What every other folder names things by: digests, peers, seeded numbers.
//!
//! May use nothing of this crate; `.ci/arrows` checks it.

pub mod digest;
pub mod peer;
pub mod seeded;

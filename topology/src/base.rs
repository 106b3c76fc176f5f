//! What every other folder names things by: digests, peers, seeded numbers.
//!
//! May use nothing of this crate; `.ci/arrows` checks it.

pub(crate) mod bytes_or_hex;
pub mod digest;
pub mod peer;
pub mod seeded;

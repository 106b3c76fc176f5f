//! What every other folder uses: digests, peers, seeded numbers, waits, conflicts.
//!
//! May use nothing of this crate; `.ci/arrows` checks it.

pub mod backoff;
pub(crate) mod bytes_or_hex;
pub mod conflicts;
pub mod digest;
pub mod peer;
pub mod seeded;

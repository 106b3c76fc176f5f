//! Memory whose pages come when they are read: a virtual range of slots, one for each brick, filled by whoever has the brick and emptied
//! again at any time. A thread that reads a slot that is not there waits until it is filled.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, section 3.2 (page-based distributed shared memory), with what they name as future work:
//! any number of threads, 64 bits.
//! Invariant: whoever fills slots fills each with the same bytes every time, so that who reads one while it is emptied reads these then or later; or
//! once with zeros, which readers must bear (no place in memory follows from what they read), and throws away what came of them.
//! Invariant: nobody reads an empty slot in a system call, which would fail (`EFAULT`): faults are told of user mode alone, as kernels
//! allow to everybody.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::PageMemory;
#[cfg(target_os = "linux")]
pub use linux::PageMemory;

use crate::{brick::BrickVoxels, device::BrickKey};
use std::{fmt::Debug, io};

/// Bricks that a device may read before they are in memory.
pub trait PagedBricks: Debug + Send + Sync {
    /// A brick whose bytes come when they are read; `None`: of no data set that is open, or no brick.
    fn brick(&self, key: BrickKey) -> Option<BrickVoxels>;

    /// Bricks that could not be had since this was asked for the last time, and of which zeros were read instead; they are empty now.
    fn take_in_vain(&self) -> Vec<BrickKey>;
}

/// Why there is no such memory here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageMemoryError {
    /// The kernel, or what this process is locked into, does not let it.
    #[error(
        "--sharing page needs the system call userfaultfd, which fails here: {0}; allow it (Linux 5.11 or later; in a container, its seccomp profile), or take --sharing object"
    )]
    Denied(io::Error),
    /// There are not so many addresses.
    #[error("no addresses for {slots} slots of {slot_bytes} bytes: {error}")]
    Addresses {
        /// Slots.
        slots: usize,
        /// Bytes of each.
        slot_bytes: usize,
        /// What the system said.
        error: io::Error,
    },
}

#[cfg(all(test, target_os = "linux"))]
mod tests;

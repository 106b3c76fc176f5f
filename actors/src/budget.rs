//! How much may be under way from one actor to another, in bytes or messages: a mailbox does not
//! count bytes, and one on a thread of its own counts nothing.
//!
//! What is under way holds its room until it is dropped, so that nobody can forget to give it back.

use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// See the module.
#[derive(Clone, Debug)]
pub struct Budget {
    free: Arc<Semaphore>,
    most: u32,
}

/// What something under way takes of a budget.
#[derive(Debug)]
pub struct Room {
    /// Always there: nobody closes a budget.
    _taken: Option<OwnedSemaphorePermit>,
}

/// What a message under way takes of the bus that it came over, or of this peer's own budget, until
/// it is handled.
#[derive(Debug, Default)]
pub struct Held {
    wire: Bytes,
    _own: Option<Room>,
}

impl Held {
    /// Of a message as it came over the bus.
    #[must_use]
    pub fn of_bus(wire: Bytes) -> Self {
        Self { wire, _own: None }
    }

    /// Of a message from this peer.
    #[must_use]
    pub fn own(room: Room) -> Self {
        Self {
            wire: Bytes::new(),
            _own: Some(room),
        }
    }

    /// Its size on the wire; 0 from this peer.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.wire.len() as u64
    }
}

impl Budget {
    /// A budget of so much, all free.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most as usize)),
            most,
        }
    }

    /// Room for so much, once it is free; who waits longest is first.
    pub async fn take(&self, amount: u64) -> Room {
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        let free = Arc::clone(&self.free);
        let taken = free.acquire_many_owned(amount.min(self.most)).await;
        Room { _taken: taken.ok() }
    }

    /// Room for so much, if it is free. What is larger than the budget has all of it.
    #[must_use]
    pub fn try_take(&self, amount: usize) -> Option<Room> {
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        let free = Arc::clone(&self.free);
        let taken = free.try_acquire_many_owned(amount.min(self.most));
        taken.ok().map(|taken| Room {
            _taken: Some(taken),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_free_again_when_it_is_dropped() {
        let budget = Budget::new(100);
        let first = budget.try_take(60).unwrap();
        assert!(budget.try_take(41).is_none());
        let second = budget.try_take(40).unwrap();
        drop(first);
        assert!(budget.try_take(61).is_none());
        drop(second);
        let large = budget.try_take(usize::MAX).unwrap();
        assert!(budget.try_take(1).is_none());
        drop(large);
        assert!(budget.try_take(100).is_some());
    }
}

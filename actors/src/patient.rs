//! Messages to another actor of this peer that must not be lost: where its mailbox is full they wait, in their order,
//! and are sent with the next one, or when it is said to go on.
//!
//! Bounded by what is asked for at a time: each is an answer, or a question that is answered.

use actix::{Message, Recipient, dev::SendError};
use std::{collections::VecDeque, fmt};

/// See the module.
pub(crate) struct Patient<M: Message + Send + 'static>
where
    M::Result: Send,
{
    to: Recipient<M>,
    waiting: VecDeque<M>,
}

impl<M: Message + Send + 'static> fmt::Debug for Patient<M>
where
    M::Result: Send,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patient")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

impl<M: Message + Send + 'static> Patient<M>
where
    M::Result: Send,
{
    pub(crate) fn new(to: Recipient<M>) -> Self {
        Self {
            to,
            waiting: VecDeque::new(),
        }
    }

    /// Sends a message after those that wait.
    pub(crate) fn send(&mut self, message: M) {
        self.waiting.push_back(message);
        self.go_on();
    }

    /// Sends as many of those that wait as there is room for.
    pub(crate) fn go_on(&mut self) {
        while let Some(message) = self.waiting.pop_front() {
            match self.to.try_send(message) {
                Ok(()) => {}
                Err(SendError::Full(message)) => {
                    self.waiting.push_front(message);
                    return;
                }
                // The peer is ending.
                Err(SendError::Closed(_)) => self.waiting.clear(),
            }
        }
    }
}

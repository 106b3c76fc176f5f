//! Systems without userfaultfd have no page memory.

use super::PageMemoryError;
use bytes::Bytes;
use std::{convert::Infallible, io, sync::Arc, time::Duration};

/// There is none.
#[derive(Debug)]
pub struct PageMemory(Infallible);

impl PageMemory {
    /// As on Linux.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: usize, _: usize) -> Result<Arc<Self>, PageMemoryError> {
        Err(PageMemoryError::Denied(io::ErrorKind::Unsupported.into()))
    }

    /// As on Linux.
    #[must_use]
    pub fn page_bytes() -> usize {
        4096
    }

    /// As on Linux.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        match self.0 {}
    }

    /// As on Linux.
    #[must_use]
    pub fn view(self: &Arc<Self>, _: usize, _: usize) -> Bytes {
        match self.0 {}
    }

    /// As on Linux.
    ///
    /// # Errors
    /// None.
    pub fn fill(&self, _: usize, _: &[u8]) -> io::Result<()> {
        match self.0 {}
    }

    /// As on Linux.
    pub fn empty(&self, _: usize) {
        match self.0 {}
    }

    /// As on Linux.
    ///
    /// # Errors
    /// None.
    pub fn next_miss(&self, _: Duration) -> io::Result<Option<usize>> {
        match self.0 {}
    }
}

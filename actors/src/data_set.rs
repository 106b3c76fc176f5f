//! Where bricks come from before any peer holds them.

use brickmesh_topology::{BrickIndex, Manifest};
use bytes::Bytes;
use std::{fmt::Debug, sync::Arc};

/// A brick that a source cannot give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct SourceError {
    /// What was to be read where, and what is wrong.
    pub what: String,
}

/// Gives the bricks of a data set: a store on disk, a volume in memory, a formula.
pub trait BrickSource: Send + Sync + Debug {
    /// The data set.
    fn manifest(&self) -> &Manifest;

    /// The bytes of a brick's stored box.
    ///
    /// # Errors
    /// [`SourceError`] where the brick cannot be read or is damaged.
    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError>;

    /// A level of the data set, from 1 on ([`Manifest::levels`]): a data set of its own.
    ///
    /// # Errors
    /// [`SourceError`] where there is none, or it cannot be opened.
    fn level(&self, level: usize) -> Result<Arc<dyn BrickSource>, SourceError> {
        Err(SourceError {
            what: format!("there is no level {level}"),
        })
    }

    /// Frees the memory of a brick that is kept for reading; to read it again may take long, or not
    /// be possible. A source on disk has nothing to free.
    fn release(&self, _brick: BrickIndex) {}
}

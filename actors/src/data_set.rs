//! Where bricks come from before any peer holds them.

use brickmesh_shaders::BrickVoxels;
use brickmesh_topology::{BrickIndex, Digest, Manifest};
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
    fn manifest(&self) -> &Arc<Manifest>;

    /// The bytes of a brick's stored box, checked: those of the manifest's digest.
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

/// A brick that a peer's disk does not give; what was to be read where, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not there, or not as it should be.
    #[error("{0}")]
    Lost(String),
    /// The system does not give it: it may later.
    #[error("{0}")]
    Unreadable(String),
}

/// A brick that a peer's disk did not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// It takes no other one, either: it is full, or may not be written.
    #[error("{0}")]
    NoRoom(String),
    /// This one cannot be written.
    #[error("{0}")]
    Failed(String),
}

/// Keeps bricks that came from other peers on a disk. What it says it has may have been lost or damaged since.
pub trait BrickShelf: Send + Sync + Debug {
    /// Room for bricks, bytes.
    fn room_bytes(&self) -> u64;

    /// The data sets that have bricks on it.
    fn manifests(&self) -> Vec<Arc<Manifest>>;

    /// Makes a place for a data set, which stays until it is closed; returns its bricks that are there, not checked.
    ///
    /// # Errors
    /// [`SourceError`] where the disk does not take it.
    fn open(&self, manifest: &Arc<Manifest>) -> Result<Vec<BrickIndex>, SourceError>;

    /// A data set gives its place to others when these need it.
    fn close(&self, data_set: Digest);

    /// The bytes of a brick, checked.
    ///
    /// # Errors
    /// [`ReadError`].
    fn read(&self, data_set: Digest, brick: BrickIndex) -> Result<Bytes, ReadError>;

    /// Puts a brick of an open data set there, in place of what may be there of it.
    ///
    /// # Errors
    /// [`WriteError`]; nothing of it stays.
    fn write(&self, data_set: Digest, brick: BrickIndex, bytes: &[u8]) -> Result<(), WriteError>;

    /// Takes a brick away.
    fn remove(&self, data_set: Digest, brick: BrickIndex);
}

/// A brick of bytes that are its own: checked already, or read later.
///
/// # Errors
/// Why they cannot be the brick, for people.
pub(crate) fn voxels(
    manifest: &Manifest,
    brick: BrickIndex,
    bytes: Bytes,
) -> Result<BrickVoxels, String> {
    let grid = manifest.grid();
    let (owned, stored) = (grid.owned_box(brick), grid.stored_box(brick));
    let (expected, found) = (manifest.brick_bytes(brick), bytes.len());
    if found as u64 != expected {
        return Err(format!(
            "brick {} is {found} bytes, expected {expected}",
            brick.0
        ));
    }
    let numbers = manifest.numbers();
    let materials = manifest.materials().len();
    let brick_of = match manifest.brick_triangles(brick) {
        Some(_) => {
            let order = manifest.triangle_order();
            BrickVoxels::with_triangles(owned, stored, numbers, bytes, materials, order)
        }
        None => BrickVoxels::new(owned, stored, numbers, bytes),
    };
    brick_of.map_err(|e| format!("brick {}: {e}", brick.0))
}

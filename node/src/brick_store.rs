//! Data sets on disk and in memory: volumes cut into bricks with ghost voxels.
//!
//! A `.brickmesh` folder holds `manifest.json` and `bricks/<digest>`, one file a brick, named by
//! the BLAKE3 digest of its bytes; equal bricks are one file.
//! Invariants: a folder is made whole or not at all; what is read is checked against its digest, the
//! manifest against its checksum; importing needs bounded memory, whatever the volume's size.

mod bricker;
mod directory;
mod importing;
mod layers;
mod manifest_file;
mod memory;

pub use directory::DirectoryStore;
pub use memory::MemoryStore;

use crate::volume_file::{self, VolumeFile, VolumeFileError};
use brickmesh_actors::data_set::BrickSource;
use brickmesh_topology::{brick_grid::BrickGridError, manifest::ManifestError};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Largest brick in bytes, ghosts included: it travels as one message.
pub const BRICK_BYTES_MAX: u64 = 100 << 20;
/// Memory that one open layer of bricks may take while importing, of which there are two at most;
/// beyond it the layer is kept in a scratch file.
const LAYER_BYTES_MAX: u64 = 96 << 20;

/// A data set that cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrickStoreError {
    /// The volume cannot be read.
    #[error(transparent)]
    Volume(#[from] VolumeFileError),
    /// The volume cannot be cut like this.
    #[error("{}: {source}", path.display())]
    Grid {
        /// The volume.
        path: PathBuf,
        /// Why.
        source: BrickGridError,
    },
    /// Bricks would be too large to send.
    #[error("{}: a brick of edge {edge} is {found} bytes, more than {BRICK_BYTES_MAX}; take a smaller --brick", path.display())]
    BrickTooLarge {
        /// The volume.
        path: PathBuf,
        /// Edge asked for.
        edge: u32,
        /// Its size.
        found: u64,
    },
    /// The manifest would be too large to be opened again.
    #[error("{}: edge {edge} makes {found} bricks; a .brickmesh folder holds {most} at most: take a larger --brick", path.display())]
    TooManyBricks {
        /// The volume.
        path: PathBuf,
        /// Edge asked for.
        edge: u32,
        /// Bricks that it makes.
        found: u32,
        /// Most bricks.
        most: u64,
    },
    /// There is something where the folder is to be made.
    #[error("{}: it exists already; remove it or choose another --out", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A manifest that cannot be used.
    #[error("{}: {why}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A brick that is not what the manifest says.
    #[error("{}: brick {brick} is damaged: {found}, expected {expected}; import the volume again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Brick.
        brick: u32,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A brick that the system does not give.
    #[error("{}: brick {brick} cannot be read: {source}", path.display())]
    Brick {
        /// The file.
        path: PathBuf,
        /// Brick.
        brick: u32,
        /// Why.
        source: io::Error,
    },
    /// The user stopped it.
    #[error("stopped; nothing was written")]
    Stopped,
}

impl BrickStoreError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            path: path.clone(),
            source,
        }
    }

    fn manifest(path: &Path) -> impl Fn(ManifestError) -> Self {
        let path = path.to_owned();
        move |e| Self::Manifest {
            path: path.clone(),
            why: e.to_string(),
        }
    }
}

/// Told how many bytes of how many are read; false stops.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Cuts a volume into a new `.brickmesh` folder.
///
/// # Errors
/// [`BrickStoreError`]; nothing is left behind then.
pub fn import(
    file: &VolumeFile,
    edge: u32,
    out: &Path,
    progress: OnProgress<'_>,
) -> Result<DirectoryStore, BrickStoreError> {
    importing::import(file, edge, out, LAYER_BYTES_MAX, progress)
}

/// Cuts a volume into bricks in memory.
///
/// # Errors
/// [`BrickStoreError`].
pub fn load(
    file: &VolumeFile,
    edge: u32,
    progress: OnProgress<'_>,
) -> Result<MemoryStore, BrickStoreError> {
    memory::load(file, edge, progress)
}

/// Opens a `.brickmesh` folder, or cuts any other volume into bricks of `edge` in memory.
///
/// # Errors
/// [`BrickStoreError`].
pub fn open_source(
    path: &Path,
    edge: u32,
    progress: OnProgress<'_>,
) -> Result<Arc<dyn BrickSource>, BrickStoreError> {
    if path.join(directory::MANIFEST).is_file() {
        return Ok(Arc::new(DirectoryStore::open(path)?));
    }
    let file = volume_file::open(path)?;
    Ok(Arc::new(load(&file, edge, progress)?))
}

//! A data set whose bricks are kept in memory.

use super::{BrickStoreError, OnProgress, bricker};
use crate::volume_file::VolumeFile;
use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_topology::{BrickIndex, Manifest};
use bytes::Bytes;
use std::sync::{Mutex, PoisonError};

/// Bricks in memory.
#[derive(Debug)]
pub struct MemoryStore {
    manifest: Manifest,
    bricks: Mutex<Vec<Option<Bytes>>>,
}

pub(super) fn load(
    file: &VolumeFile,
    edge: u32,
    progress: OnProgress<'_>,
) -> Result<MemoryStore, BrickStoreError> {
    let mut bricks: Vec<Option<Bytes>> = Vec::new();
    // Layers grow into the bricks that are kept: no scratch file.
    let manifest = bricker::cut(file, edge, u64::MAX, progress, &mut |brick, _, bytes| {
        let at = brick.0 as usize;
        bricks.resize(bricks.len().max(at + 1), None);
        bricks[at] = Some(bytes.into());
        Ok(())
    })?;
    Ok(MemoryStore {
        manifest,
        bricks: Mutex::new(bricks),
    })
}

impl BrickSource for MemoryStore {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        let bricks = self.bricks.lock().unwrap_or_else(PoisonError::into_inner);
        let found = bricks.get(brick.0 as usize).cloned().flatten();
        found.ok_or_else(|| SourceError {
            what: format!("brick {} is not in memory any more", brick.0),
        })
    }

    fn release(&self) {
        self.bricks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

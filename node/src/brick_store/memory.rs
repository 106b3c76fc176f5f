//! A data set whose bricks are kept in memory.

use super::{BrickStoreError, OnProgress, bricker, layers::Gather};
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
    // Layers grow into the bricks that are kept: no scratch file, no copy.
    let manifest = bricker::cut(
        file,
        edge,
        Gather::Memory,
        progress,
        &mut |brick, _, bytes| {
            let at = brick.0 as usize;
            bricks.resize(bricks.len().max(at + 1), None);
            bricks[at] = Some(bytes.into());
            Ok(())
        },
    )?;
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

    fn release(&self, brick: BrickIndex) {
        let mut bricks = self.bricks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = bricks.get_mut(brick.0 as usize) {
            *kept = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_file;

    #[test]
    fn released_bricks_are_gone_and_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v_9x4x4_uint8.raw");
        std::fs::write(&path, [7; 144]).unwrap();
        let file = volume_file::open(&path).unwrap();
        let store = load(&file, 4, &mut |_, _| true).unwrap();
        let kept = store.read(BrickIndex(2)).unwrap();
        assert!(
            store
                .read(BrickIndex(3))
                .unwrap_err()
                .what
                .contains("brick 3")
        );
        store.release(BrickIndex(2));
        let error = store.read(BrickIndex(2)).unwrap_err();
        assert!(error.what.contains("not in memory any more"), "{error}");
        assert_eq!(
            kept.len() as u64,
            store.manifest().brick_bytes(BrickIndex(2))
        );
    }
}

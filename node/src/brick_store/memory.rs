//! A data set whose bricks are kept in memory, until they are released: who needs one after that
//! has the volume's file read again.

use super::{BrickStoreError, OnProgress, bricker, layers::Gather};
use crate::volume_file::VolumeFile;
use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_topology::{BrickIndex, Manifest};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// Bricks in memory.
#[derive(Debug)]
pub struct MemoryStore {
    file: VolumeFile,
    edge: u32,
    manifest: Arc<Manifest>,
    bricks: Mutex<Vec<Option<Bytes>>>,
}

pub(super) fn load(
    file: &VolumeFile,
    edge: u32,
    bytes_max: u64,
    progress: OnProgress<'_>,
) -> Result<MemoryStore, BrickStoreError> {
    let bytes = bricker::brick_bytes(file, edge)?;
    if bytes > bytes_max {
        return Err(BrickStoreError::TooLargeForMemory {
            path: file.path.clone(),
            bytes,
            bytes_max,
            is_plain: file.plain_voxels().is_ok_and(|plain| plain.is_some()),
        });
    }
    let (manifest, bricks) = cut(file, edge, progress)?;
    Ok(MemoryStore {
        file: file.clone(),
        edge,
        manifest: Arc::new(manifest),
        bricks: Mutex::new(bricks),
    })
}

fn cut(
    file: &VolumeFile,
    edge: u32,
    progress: OnProgress<'_>,
) -> Result<(Manifest, Vec<Option<Bytes>>), BrickStoreError> {
    let bricks: Mutex<Vec<Option<Bytes>>> = Mutex::default();
    // Layers grow into the bricks that are kept: no scratch file, no copy.
    let (manifest, _) = bricker::cut(
        file,
        edge,
        0,
        Gather::Memory,
        None,
        progress,
        &|_, brick, _, bytes| {
            let at = brick.0 as usize;
            let mut bricks = bricks.lock().unwrap_or_else(PoisonError::into_inner);
            let count = bricks.len().max(at + 1);
            bricks.resize(count, None);
            bricks[at] = Some(bytes.into());
            Ok(())
        },
    )?;
    let bricks = bricks.into_inner();
    Ok((manifest, bricks.unwrap_or_else(PoisonError::into_inner)))
}

impl BrickSource for MemoryStore {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        let mut bricks = self.bricks.lock().unwrap_or_else(PoisonError::into_inner);
        let at = brick.0 as usize;
        if bricks.get(at).is_some_and(Option::is_none) {
            // A device that had it was lost, and the others with it: all are read, at once.
            tracing::warn!(
                brick = brick.0,
                "a brick was released: the file is read again"
            );
            let again = cut(&self.file, self.edge, &mut |_, _| true);
            let (manifest, again) = again.map_err(|e| SourceError {
                what: e.to_string(),
            })?;
            if manifest.digest() != self.manifest.digest() {
                return Err(SourceError {
                    what: format!("{} is not what it was", self.file.path.display()),
                });
            }
            *bricks = again;
        }
        let found = bricks.get(at).cloned().flatten();
        found.ok_or_else(|| SourceError {
            what: format!("brick {} is not in the grid", brick.0),
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
    use brickmesh_topology::picture::render_settings::Mode;

    #[test]
    fn a_volume_that_does_not_fit_into_memory_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v_9x4x4_uint8.raw");
        std::fs::write(&path, [7; 144]).unwrap();
        let file = volume_file::open(&path).unwrap();
        let all = load(&file, 4, u64::MAX, &mut |_, _| true).unwrap();
        let bricks = all.manifest().grid().bricks();
        let bytes: u64 = bricks.map(|b| all.manifest().brick_bytes(b)).sum();
        assert!(load(&file, 4, bytes, &mut |_, _| true).is_ok());
        let error = load(&file, 4, bytes - 1, &mut |_, _| panic!("it is read")).unwrap_err();
        assert!(error.to_string().contains("brickmesh import"), "{error}");
    }

    #[test]
    fn default_transfer_functions_do_not_depend_on_the_bricks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v_40x36x20_uint8.raw");
        let value = |at: u32| {
            let (of_column, of_slice) = (at % 40 * (at / 40 % 36) / 6, at / 1440);
            u8::try_from(of_column ^ of_slice).unwrap()
        };
        std::fs::write(&path, (0..28_800).map(value).collect::<Vec<u8>>()).unwrap();
        let file = volume_file::open(&path).unwrap();
        let functions = [64, 16, 5].map(|edge| {
            let store = load(&file, edge, u64::MAX, &mut |_, _| true).unwrap();
            Mode::ALL.map(|mode| mode.default_transfer(store.manifest()).function)
        });
        assert!(
            functions.iter().all(|f| *f == functions[0]),
            "{functions:?}"
        );
        let [dvr, _, minip, average, ..] = &functions[0];
        assert!(dvr != minip && minip != average, "{minip:?} {average:?}");
    }

    #[test]
    fn a_released_brick_is_read_again_as_long_as_the_file_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v_9x4x4_uint8.raw");
        std::fs::write(&path, (0..144).collect::<Vec<u8>>()).unwrap();
        let file = volume_file::open(&path).unwrap();
        let store = load(&file, 4, u64::MAX, &mut |_, _| true).unwrap();
        let outside = store.read(BrickIndex(3)).unwrap_err();
        assert!(outside.what.contains("brick 3"), "{outside}");
        let kept = store.read(BrickIndex(2)).unwrap();
        let bytes = store.manifest().brick_bytes(BrickIndex(2));
        assert_eq!(kept.len() as u64, bytes);
        store.release(BrickIndex(2));
        assert!(store.bricks.lock().unwrap()[2].is_none());
        assert_eq!(store.read(BrickIndex(2)).unwrap(), kept);
        store.release(BrickIndex(1));
        std::fs::write(&path, [7; 144]).unwrap();
        let error = store.read(BrickIndex(1)).unwrap_err();
        assert!(error.what.contains("is not what it was"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = store.read(BrickIndex(1)).unwrap_err();
        assert!(error.what.contains("v_9x4x4_uint8.raw"), "{error}");
        assert_eq!(store.read(BrickIndex(2)).unwrap(), kept);
    }
}

//! A volume file whose bricks are cut out of it when they are asked for: it is read once, for the manifest, and copied nowhere.
//!
//! Invariant: what is read later is checked against what was read then, as files can change.

use super::{
    BrickStoreError, OnProgress,
    layers::Gather,
    plain_cutter::{self, Voxels},
};
use crate::volume_file::VolumeFile;
use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_topology::{BrickIndex, Digest, Manifest};
use bytes::Bytes;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct InPlaceStore {
    voxels: Voxels,
    manifest: Arc<Manifest>,
}

/// Reads a file once.
pub(super) fn open(
    file: &VolumeFile,
    edge: u32,
    progress: OnProgress<'_>,
) -> Result<InPlaceStore, BrickStoreError> {
    let voxels = Voxels::of(file, edge)?.ok_or_else(|| BrickStoreError::NotInPlace {
        path: file.path.clone(),
    })?;
    let nothing = |_, _, _, _| Ok(());
    let (manifest, _) =
        plain_cutter::cut(file, &voxels, 0, Gather::Memory, None, progress, &nothing)?;
    Ok(InPlaceStore {
        voxels,
        manifest: Arc::new(manifest),
    })
}

impl BrickSource for InPlaceStore {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        let grid = self.manifest.grid();
        if brick.0 >= grid.brick_count() {
            return Err(SourceError {
                what: format!("brick {} is not in the grid", brick.0),
            });
        }
        let path = self.voxels.path().display();
        let bytes = self.voxels.read(&grid.stored_box(brick));
        let bytes = bytes.map_err(|error| SourceError {
            what: format!("{path}: brick {} cannot be read: {error}", brick.0),
        })?;
        if Digest::of(&bytes) != self.manifest.brick_digest(brick) {
            return Err(SourceError {
                what: format!(
                    "{path}: brick {} is not what it was when the file was opened: it was changed; open it again",
                    brick.0
                ),
            });
        }
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        brick_store::{bricker, load},
        volume_file,
    };
    use std::{fs, path::Path};

    /// A volume of this size and type, in a header's byte order.
    fn volume(folder: &Path, dims: [u32; 3], voxel: &str, is_big_endian: bool) -> VolumeFile {
        let [x, y, z] = dims;
        let endian = if is_big_endian { "big" } else { "little" };
        let header = format!(
            "NRRD0004\ntype: {voxel}\ndimension: 3\nsizes: {x} {y} {z}\nencoding: raw\nendian: {endian}\n\n"
        );
        let count = x * y * z * 4;
        let voxels = (0..count).map(|i| (i * i / 7 % 61) as u8);
        let path = folder.join(format!("v-{voxel}-{endian}-{x}-{y}-{z}.nrrd"));
        let count = count as usize / 4 * if voxel == "float" { 4 } else { 2 };
        let bytes: Vec<u8> = header
            .into_bytes()
            .into_iter()
            .chain(voxels.take(count))
            .collect();
        fs::write(&path, bytes).unwrap();
        volume_file::open(&path).unwrap()
    }

    #[test]
    fn what_is_read_in_place_is_what_is_kept_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        for (dims, edge) in [
            ([23, 17, 12], 5),
            ([1, 9, 30], 4),
            ([9000, 5, 3], 64),
            ([40, 1, 1], 8),
        ] {
            for (voxel, is_big_endian) in [("int16", false), ("uint16", true), ("float", true)] {
                let file = volume(folder.path(), dims, voxel, is_big_endian);
                let mut said = Vec::new();
                let store = open(&file, edge, &mut |done, total| {
                    said.push((done, total));
                    true
                });
                let store = store.unwrap();
                let total = file.description.voxel_bytes();
                assert_eq!(said.last(), Some(&(total, total)));
                let memory = load(&file, edge, u64::MAX, &mut |_, _| true).unwrap();
                assert!(store.manifest() == memory.manifest(), "{dims:?} {voxel}");
                for brick in store.manifest().grid().bricks() {
                    let [found, expected] = [store.read(brick), memory.read(brick)];
                    assert_eq!(
                        found.unwrap(),
                        expected.unwrap(),
                        "{dims:?} {voxel} {}",
                        brick.0
                    );
                }
                assert!(store.read(BrickIndex(u32::MAX)).is_err());
                let nothing = |_, _, _, _| Ok(());
                let (go_on, gather) = (&mut |_, _| true, Gather::Memory);
                let by_rows =
                    plain_cutter::cut(&file, &store.voxels, 9, gather, None, go_on, &nothing);
                let gathered = bricker::cut(&file, edge, 9, gather, None, go_on, &nothing);
                assert!(
                    by_rows.unwrap() == gathered.unwrap(),
                    "{dims:?} {voxel}: levels"
                );
            }
        }
    }

    #[test]
    fn a_file_that_changes_is_found_out_and_what_is_packed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = volume(folder.path(), [23, 17, 12], "int16", false);
        let stopped = open(&file, 5, &mut |_, _| false);
        assert!(matches!(stopped, Err(BrickStoreError::Stopped)));
        let store = open(&file, 5, &mut |_, _| true).unwrap();
        let good = fs::read(&file.path).unwrap();
        let first = BrickIndex(0);
        let last = BrickIndex(store.manifest().grid().brick_count() - 1);
        let told = |brick: BrickIndex, words: &str| {
            let error = store.read(brick).unwrap_err().what;
            let parts = [
                words,
                &format!("brick {}", brick.0),
                &file.path.display().to_string(),
            ];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        let mut changed = good.clone();
        let end = changed.len() - 1;
        changed[end] ^= 1;
        fs::write(&file.path, &changed).unwrap();
        assert!(store.read(first).is_ok());
        told(last, "changed");
        fs::write(&file.path, &good[..end]).unwrap();
        told(last, "cannot be read");
        let cut = open(&file, 5, &mut |_, _| true).unwrap_err().to_string();
        assert!(cut.contains("bytes of voxels"), "{cut}");
        fs::remove_file(&file.path).unwrap();
        told(first, "cannot be read");
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
        let packed = volume_file::open(&data.join("neghip_64x64x64_uint8.raw.gz")).unwrap();
        let error = open(&packed, 16, &mut |_, _| true).unwrap_err().to_string();
        assert!(error.contains("brickmesh import"), "{error}");
    }
}

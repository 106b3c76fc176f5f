//! A volume file whose bricks are cut out of it when they are asked for: it is read once, for the manifest, and copied nowhere. Bricks of
//! level 1 are made of it then, too; those of coarser levels, a 56th of a volume that is halved on all axes, are in a scratch file.
//!
//! Invariant: what is read later is checked against what was read then, as files can change.

use super::{
    BrickStoreError, LAYER_BYTES_MAX, OnProgress,
    cutter::OnBrick,
    layers::Gather,
    level_cutter,
    plain_cutter::{self, Voxels},
};
use crate::{scratch::Scratch, volume_file::VolumeFile};
use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_topology::{BrickGrid, BrickIndex, Digest, Manifest, VolumeDescription};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// A level of such a volume; 0 is the volume itself.
#[derive(Debug)]
pub struct InPlaceStore {
    file: Arc<Voxels>,
    manifest: Arc<Manifest>,
    bricks: Bricks,
    level: usize,
    /// From level 1 on, of the volume itself.
    levels: Vec<Arc<Self>>,
}

/// Where its bricks come from.
#[derive(Debug)]
enum Bricks {
    /// They are cut out of the file.
    Cut,
    /// They are means of what is in the file, which is this.
    Halved(VolumeDescription),
    /// They are in a scratch file, and begin there.
    Kept(Arc<Scratch>, Vec<u64>),
}

/// Reads a file once; scratch files are made in a folder.
pub(super) fn open(
    file: &VolumeFile,
    edge: u32,
    scratch: &Path,
    progress: OnProgress<'_>,
) -> Result<InPlaceStore, BrickStoreError> {
    let voxels = Voxels::of(file, edge)?.ok_or_else(|| BrickStoreError::NotInPlace {
        path: file.path.clone(),
    })?;
    let no_scratch = |source| BrickStoreError::Scratch {
        path: scratch.to_owned(),
        bytes: scratch_bytes(file, edge),
        source,
    };
    let kept = Scratch::new(scratch).map_err(no_scratch)?;
    let starts = Mutex::new(BTreeMap::new());
    let on_brick: OnBrick<'_> = &|level, brick, _, bytes| {
        if level > 1 {
            let start = kept.add(&bytes).map_err(no_scratch)?;
            let mut starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
            starts.insert((level, brick), start);
        }
        Ok(())
    };
    let gather = Gather::Bounded {
        layer_bytes_max: LAYER_BYTES_MAX,
        scratch,
    };
    let cut = plain_cutter::cut(file, &voxels, usize::MAX, gather, None, progress, on_brick);
    let (manifest, coarser) = cut.map_err(|error| match error {
        BrickStoreError::Io { path, source } if path == scratch => no_scratch(source),
        error => error,
    })?;
    let (voxels, kept) = (Arc::new(voxels), Arc::new(kept));
    let starts = starts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let starts_of = |level| {
        let of_level = starts.range((level, BrickIndex(0))..(level + 1, BrickIndex(0)));
        of_level.map(|(_, start)| *start).collect()
    };
    let level = |(level, manifest): (usize, Manifest)| InPlaceStore {
        bricks: match level {
            0 => Bricks::Cut,
            1 => Bricks::Halved(file.description.clone()),
            _ => Bricks::Kept(Arc::clone(&kept), starts_of(level)),
        },
        level,
        file: Arc::clone(&voxels),
        manifest: Arc::new(manifest),
        levels: Vec::new(),
    };
    let levels = (1..).zip(coarser).map(level).map(Arc::new).collect();
    Ok(InPlaceStore {
        levels,
        ..level((0, manifest))
    })
}

/// Bytes that scratch files take at most: bricks of levels from 2 on, and two layers of each level while it is cut.
fn scratch_bytes(file: &VolumeFile, edge: u32) -> u64 {
    let voxel_bytes = file.description.voxel.bytes() as u64;
    let levels = level_cutter::volumes(&file.description, edge, usize::MAX);
    let grids = levels.iter().map(|v| BrickGrid::new(v.dims, edge));
    let of_level = |(level, grid): (usize, BrickGrid)| {
        let [x, y, z] = grid.counts();
        let layers = if level > 1 { z + 2 } else { 2.min(z) };
        // The first one has no ghosts before it.
        let first = x * y * 1.min(z - 1);
        let layer = (first..first + x * y).map(BrickIndex);
        let voxels = layer.map(|b| grid.stored_box(b).voxel_count());
        u64::from(layers) * voxels.sum::<u64>()
    };
    let all = grids.flatten().enumerate().skip(1).map(of_level);
    all.sum::<u64>() * voxel_bytes
}

impl InPlaceStore {
    fn bytes_of(&self, brick: BrickIndex) -> io::Result<Vec<u8>> {
        let stored = self.manifest.grid().stored_box(brick);
        match &self.bricks {
            Bricks::Cut => self.file.read(&mut self.file.open()?, &stored),
            Bricks::Halved(exact) => {
                let mut file = self.file.open()?;
                let read = |slice: &_| self.file.read(&mut file, slice);
                level_cutter::halved(exact, self.manifest.volume(), &stored, read)
            }
            Bricks::Kept(scratch, starts) => {
                let start = starts[brick.0 as usize];
                scratch.read(start, self.manifest.brick_bytes(brick))
            }
        }
    }
}

impl BrickSource for InPlaceStore {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        if brick.0 >= self.manifest.grid().brick_count() {
            return Err(SourceError {
                what: format!("brick {} is not in the grid", brick.0),
            });
        }
        let (path, level) = (self.file.path().display(), self.level);
        let from = match self.bricks {
            Bricks::Kept(..) => " in its scratch file",
            Bricks::Cut | Bricks::Halved(_) => "",
        };
        let name = format!("{path}{from}: brick {} of level {level}", brick.0);
        let bytes = self.bytes_of(brick).map_err(|error| SourceError {
            what: format!("{name} cannot be read: {error}"),
        })?;
        if Digest::of(&bytes) != self.manifest.brick_digest(brick) {
            return Err(SourceError {
                what: format!(
                    "{name} is not what it was when the file was opened: it was changed; open it again"
                ),
            });
        }
        Ok(bytes.into())
    }

    fn level(&self, level: usize) -> Result<Arc<dyn BrickSource>, SourceError> {
        let store = level.checked_sub(1).and_then(|at| self.levels.get(at));
        let store = store.ok_or_else(|| SourceError {
            what: format!("there is no level {level}"),
        })?;
        Ok(Arc::<Self>::clone(store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{brick_store::bricker, volume_file};
    use std::fs;

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
    fn what_is_read_in_place_is_what_an_import_makes_on_each_level() {
        let folder = tempfile::tempdir().unwrap();
        for (dims, edge) in [
            ([23, 17, 12], 5),
            ([1, 9, 30], 4),
            ([9000, 5, 3], 64),
            ([40, 1, 1], 8),
            ([67, 40, 33], 8),
        ] {
            for (voxel, is_big_endian) in [("int16", false), ("uint16", true), ("float", true)] {
                let file = volume(folder.path(), dims, voxel, is_big_endian);
                let mut said = Vec::new();
                let store = open(&file, edge, folder.path(), &mut |done, total| {
                    said.push((done, total));
                    true
                });
                let store = store.unwrap();
                let total = file.description.voxel_bytes();
                assert_eq!(said.last(), Some(&(total, total)));
                assert!(store.read(BrickIndex(u32::MAX)).is_err());
                let imported = Mutex::new(BTreeMap::new());
                let import = |level, brick, _, bytes| {
                    imported.lock().unwrap().insert((level, brick), bytes);
                    Ok(())
                };
                let (go_on, gather) = (&mut |_, _| true, Gather::Memory);
                let cut = bricker::cut(&file, edge, usize::MAX, gather, None, go_on, &import);
                let (exact, coarser) = cut.unwrap();
                assert!(store.level(0).is_err() && store.level(coarser.len() + 1).is_err());
                let mut left = imported.into_inner().unwrap();
                let store: Arc<dyn BrickSource> = Arc::new(store);
                for (level, manifest) in [exact].into_iter().chain(coarser).enumerate() {
                    let of_level = match level {
                        0 => Arc::clone(&store),
                        _ => store.level(level).unwrap(),
                    };
                    assert!(**of_level.manifest() == manifest, "{dims:?} {voxel}");
                    for brick in manifest.grid().bricks() {
                        let expected = left.remove(&(level, brick)).unwrap();
                        let found = of_level.read(brick).unwrap();
                        assert!(found == expected, "{dims:?} {voxel} {level} {}", brick.0);
                    }
                }
                assert!(left.is_empty());
            }
        }
    }

    #[test]
    fn where_there_is_no_room_for_coarser_levels_it_is_said_where_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = volume(folder.path(), [67, 40, 33], "int16", false);
        let gone = folder.path().join("gone");
        let error = open(&file, 8, &gone, &mut |_, _| true)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&gone.display().to_string())
                && error.contains("TMPDIR")
                && error.contains("needs 1 MiB"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_changes_is_found_out_and_what_is_packed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = volume(folder.path(), [23, 17, 12], "int16", false);
        let scratch = folder.path();
        let stopped = open(&file, 5, scratch, &mut |_, _| false);
        assert!(matches!(stopped, Err(BrickStoreError::Stopped)));
        let store = open(&file, 5, scratch, &mut |_, _| true).unwrap();
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
        let cut = open(&file, 5, scratch, &mut |_, _| true);
        let cut = cut.unwrap_err().to_string();
        assert!(cut.contains("bytes of voxels"), "{cut}");
        fs::remove_file(&file.path).unwrap();
        told(first, "cannot be read");
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
        let packed = volume_file::open(&data.join("neghip_64x64x64_uint8.raw.gz")).unwrap();
        let error = open(&packed, 16, scratch, &mut |_, _| true);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("brickmesh import"), "{error}");
    }
}

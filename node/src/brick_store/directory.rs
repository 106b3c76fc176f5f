//! A data set as a `.brickmesh` folder: opened, read, and every brick checked.
//!
//! Not here: how it is made (`importing`).

use super::{
    BrickStoreError, OnProgress, empty_space,
    manifest_file::{self, IMPORT_AGAIN, PAGES},
    packs::Packs,
};
use crate::bounded_file;
use brickmesh_actors::{
    data_set::{BrickSource, SourceError},
    plain_text::shortened,
};
use brickmesh_topology::{
    BrickIndex, Digest, Manifest,
    balance::partition::volume_partition::GATHERED_BYTES_MAX,
    data::{levels, manifest::ManifestError, slab_projections::SlabProjections},
};
use bytes::Bytes;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// File of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// Folder of the bricks.
pub(super) const BRICKS: &str = "bricks";
/// Folder of the coarser levels, each of which is a folder as this one.
const LEVELS: &str = "levels";
/// File of the slab projections, where the import was told what is empty.
pub(super) const PROJECTIONS: &str = "slab-projections.gz";
/// Largest manifest, in bytes: before version 7 of a hundred thousand bricks and more.
pub(super) const MANIFEST_BYTES_MAX: u64 = 320 << 20;

/// Since this version of the manifest bricks lie in packs, and what is said of them in a file of its own.
const PACKED_VERSION: u32 = 7;

/// The manifest in a folder.
fn read_manifest(folder: &Path) -> Result<Manifest, BrickStoreError> {
    let file = folder.join(MANIFEST);
    let wrong = |path: &Path, why: String| BrickStoreError::Manifest {
        path: path.to_owned(),
        why,
    };
    let bytes =
        bounded_file::read(&file, MANIFEST_BYTES_MAX).map_err(BrickStoreError::io(&file))?;
    let mut parts = manifest_file::decode(bytes).map_err(|why| wrong(&file, why))?;
    let (pages, most) = (folder.join(PAGES), parts.page_bytes_max());
    if most > 0 {
        let bytes =
            bounded_file::read_regular(&pages, most).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge => {
                    wrong(&pages, format!("{error}; {IMPORT_AGAIN}"))
                }
                _ => BrickStoreError::io(&pages)(error),
            })?;
        parts.pages = bytes.into();
    }
    Manifest::try_from(parts).map_err(|error| {
        let is_of_pages = matches!(error, ManifestError::Pages(_) | ManifestError::Index { .. });
        let path = if is_of_pages { &pages } else { &file };
        wrong(
            path,
            format!("{}; {IMPORT_AGAIN}", shortened(&error.to_string())),
        )
    })
}

/// Bricks on disk; each is checked when it is read.
#[derive(Debug)]
pub struct DirectoryStore {
    path: PathBuf,
    manifest: Arc<Manifest>,
    /// Where bricks lie; `None`: each is a file, as on a shelf, and before version 7.
    packs: Option<Packs>,
}

impl DirectoryStore {
    /// Opens a folder and checks its manifest.
    ///
    /// # Errors
    /// [`BrickStoreError`] where there is none, or it cannot be used.
    pub fn open(path: &Path) -> Result<Self, BrickStoreError> {
        Self::with_packs(path, Arc::new(read_manifest(path)?))
    }

    /// Opens a folder in which each brick is a file, as on a shelf, and checks its manifest.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn open_files(path: &Path) -> Result<Self, BrickStoreError> {
        Ok(Self::of_files(path, Arc::new(read_manifest(path)?)))
    }

    /// Of a folder with this manifest in which each brick is a file.
    pub(super) fn of_files(path: &Path, manifest: Arc<Manifest>) -> Self {
        Self {
            path: path.to_owned(),
            manifest,
            packs: None,
        }
    }

    /// Of a folder with this manifest.
    ///
    /// # Errors
    /// [`BrickStoreError`] where it cannot be told where bricks lie.
    pub(super) fn with_packs(
        path: &Path,
        manifest: Arc<Manifest>,
    ) -> Result<Self, BrickStoreError> {
        let bricks = manifest.grid().brick_count();
        let is_packed = manifest.root().version >= PACKED_VERSION;
        let packs = is_packed.then(|| Packs::open(&path.join(BRICKS), bricks));
        Ok(Self {
            packs: packs.transpose()?,
            ..Self::of_files(path, manifest)
        })
    }

    /// The slab projections that its import made; `None`: it was not told what is empty.
    ///
    /// # Errors
    /// [`BrickStoreError::Manifest`] where they are missing or damaged.
    pub(crate) fn projections(&self) -> Result<Option<SlabProjections>, BrickStoreError> {
        if !self.manifest.knows_kept_voxels() {
            return Ok(None);
        }
        let path = self.path.join(PROJECTIONS);
        let dims = self.manifest.volume().dims;
        let read = empty_space::read(&path, dims, GATHERED_BYTES_MAX).and_then(|projections| {
            let expected: u64 = self.manifest.occupied_voxels().into_iter().sum();
            let found = projections.voxels();
            if found == expected {
                Ok(projections)
            } else {
                Err(format!(
                    "it is damaged: {found} voxels are kept, the manifest has {expected}"
                ))
            }
        });
        read.map(Some).map_err(|why| BrickStoreError::Manifest {
            path,
            why: format!("{why}; import the volume again"),
        })
    }

    /// Opens a level, from 1 on, and checks that it is the one that the manifest names.
    ///
    /// # Errors
    /// [`BrickStoreError`] where there is none, or it cannot be used.
    pub(crate) fn open_level(&self, level: usize) -> Result<Self, BrickStoreError> {
        let path = level_path(&self.path, level);
        let wrong = |why: String| BrickStoreError::Manifest {
            path: self.path.join(MANIFEST),
            why,
        };
        let names = self.manifest.levels();
        let named = level.checked_sub(1).and_then(|at| names.get(at));
        let Some(named) = named else {
            let coarsest = names.len();
            return Err(wrong(format!(
                "there is no level {level}; the coarsest is {coarsest}"
            )));
        };
        let store = Self::open(&path).map_err(|e| match e {
            BrickStoreError::Io { path, source } => BrickStoreError::Manifest {
                path,
                why: format!("{source}; import the volume again"),
            },
            other => other,
        })?;
        let (found, volume) = (store.manifest.digest(), self.manifest.volume());
        let expected = levels::levels(volume, self.manifest.grid().edge());
        if found != *named || expected.get(level) != Some(store.manifest.volume()) {
            return Err(BrickStoreError::Manifest {
                path: path.join(MANIFEST),
                why: format!(
                    "it is no level {level} of {}: data set {found}, expected {named}; import the volume again",
                    self.path.display()
                ),
            });
        }
        Ok(store)
    }

    /// Reads every brick; returns the damaged ones, in index order, and what is wrong with each.
    ///
    /// # Errors
    /// [`BrickStoreError::Stopped`] where `progress` says so.
    pub fn verify(
        &self,
        progress: OnProgress<'_>,
    ) -> Result<Vec<(BrickIndex, BrickStoreError)>, BrickStoreError> {
        let mut damaged = Vec::new();
        // Equal bricks lie there once, and are read once.
        let mut whole = BTreeSet::new();
        let count = u64::from(self.manifest.grid().brick_count());
        for brick in self.manifest.grid().bricks() {
            if !progress(brick.0.into(), count) {
                return Err(BrickStoreError::Stopped);
            }
            let key = (
                self.manifest.brick_digest(brick),
                self.packs.as_ref().map(|packs| packs.place(brick)),
                self.manifest.brick_bytes(brick),
            );
            if whole.contains(&key) {
                continue;
            }
            match self.read_checked(brick) {
                Ok(_) => {
                    whole.insert(key);
                }
                Err(error) => damaged.push((brick, error)),
            }
        }
        Ok(damaged)
    }

    /// The bytes of a brick, checked.
    ///
    /// # Errors
    /// [`BrickStoreError`] where it is damaged or cannot be read.
    pub(crate) fn read_checked(&self, brick: BrickIndex) -> Result<Bytes, BrickStoreError> {
        let digest = self.manifest.brick_digest(brick);
        let path = match &self.packs {
            Some(packs) => packs.path(brick),
            None => brick_path(&self.path, digest),
        };
        let expected = self.manifest.brick_bytes(brick);
        let damaged = |found: String, expected: String| BrickStoreError::Damaged {
            path: path.clone(),
            brick: brick.0,
            found,
            expected,
        };
        let length = |found: &str| damaged(found.to_owned(), format!("{expected} bytes"));
        let read = match &self.packs {
            Some(packs) => packs.read(brick, expected),
            None => bounded_file::read_regular(&path, expected),
        };
        let bytes = read.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => length("no file"),
            io::ErrorKind::FileTooLarge => length("more bytes"),
            _ => BrickStoreError::Brick {
                path: path.clone(),
                brick: brick.0,
                source,
            },
        })?;
        if bytes.len() as u64 != expected {
            return Err(length(&format!("{} bytes", bytes.len())));
        }
        let found = Digest::of(&bytes);
        if found != digest {
            return Err(damaged(
                format!("digest {found}"),
                format!("digest {digest}"),
            ));
        }
        Ok(bytes.into())
    }
}

impl BrickSource for DirectoryStore {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        if brick.0 >= self.manifest.grid().brick_count() {
            return Err(SourceError {
                what: format!("brick {} is not in the grid", brick.0),
            });
        }
        self.read_checked(brick).map_err(|e| SourceError {
            what: e.to_string(),
        })
    }

    fn level(&self, level: usize) -> Result<Arc<dyn BrickSource>, SourceError> {
        let store = self.open_level(level).map_err(|e| SourceError {
            what: e.to_string(),
        })?;
        Ok(Arc::new(store))
    }
}

/// Folder of a level of the data set in a folder; level 0 is that one.
pub(super) fn level_path(folder: &Path, level: usize) -> PathBuf {
    if level == 0 {
        return folder.to_owned();
    }
    folder.join(LEVELS).join(level.to_string())
}

/// File of the brick of this digest, where each is a file.
pub(super) fn brick_path(folder: &Path, digest: Digest) -> PathBuf {
    folder.join(BRICKS).join(digest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        brick_store::{import, importing::tests::volume},
        volume_file,
    };
    use brickmesh_topology::data::manifest::MANIFEST_VERSION;
    use std::fs;

    #[test]
    fn equal_bricks_lie_there_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zeros_40x40x40_uint8.raw");
        fs::write(&path, vec![0; 64_000]).unwrap();
        let file = volume_file::open(&path).unwrap();
        let out = dir.path().join("out");
        let store = import(&file, 8, &out, &mut |_, _| true).unwrap();
        assert_eq!(store.manifest().grid().brick_count(), 125);
        // First, inner and last bricks of an axis store 10, 11 and 9 voxels: equal counts of
        // zeros are equal bytes, whatever their box.
        let bytes = fs::metadata(out.join(BRICKS).join("0.pack")).unwrap().len();
        assert!(bytes <= 10 * 11 * 11 * 11, "{bytes} bytes");
        assert!(store.verify(&mut |_, _| true).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_with_a_folder_is_told_with_file_and_brick() {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (volume(dir.path()), dir.path().join("out"));
        let store = import(&file, 6, &out, &mut |_, _| true).unwrap();
        let first = out.join(BRICKS).join("0.pack");
        let good = fs::read(&first).unwrap();
        let expected = format!("{} bytes", store.manifest().brick_bytes(BrickIndex(0)));
        let damaged = |found: &str, expected: &str| {
            let error = store.read(BrickIndex(0)).unwrap_err().what;
            let parts = [found, expected, "brick 0 ", &first.display().to_string()];
            assert!(parts.iter().all(|p| error.contains(p)), "{error}");
            let found = store.verify(&mut |_, _| true).unwrap();
            assert_eq!(found[0].0, BrickIndex(0));
        };
        fs::write(&first, []).unwrap();
        damaged("0 bytes", &expected);
        let changed: Vec<u8> = good.iter().map(|byte| byte ^ 4).collect();
        fs::write(&first, changed).unwrap();
        damaged("digest", "import the volume again");
        fs::remove_file(&first).unwrap();
        damaged("no file", &expected);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/dev/zero", &first).unwrap();
            damaged("cannot be read", "device");
            fs::remove_file(&first).unwrap();
        }
        fs::create_dir(&first).unwrap();
        damaged("cannot be read", "directory");
        let outside = store.read(BrickIndex(999)).unwrap_err().what;
        assert!(outside.contains("999"), "{outside}");
    }

    #[test]
    fn a_manifest_that_was_cut_off_or_changed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (volume(dir.path()), dir.path().join("out"));
        import(&file, 6, &out, &mut |_, _| true).unwrap();
        let manifest = out.join(MANIFEST);
        let good = fs::read(&manifest).unwrap();
        let refused = |bytes: &[u8], why: &str| {
            fs::write(&manifest, bytes).unwrap();
            let error = DirectoryStore::open(&out).unwrap_err().to_string();
            // Which of two files is the wrong one cannot be told.
            let names_it = error.contains(MANIFEST) || error.contains(PAGES);
            assert!(names_it && error.contains(why), "{error}");
        };
        for end in [0, 1, good.len() / 2, good.len() - 1] {
            refused(&good[..end], "cut off");
        }
        for at in [0, good.len() / 3, good.len() - 99] {
            let mut changed = good.clone();
            changed[at] ^= 1;
            refused(&changed, "import the volume again");
        }
        let resealed = |from: &str, to: &str| {
            manifest_file::resealed(&good, |text| text.replacen(from, to, 1))
        };
        let next = MANIFEST_VERSION + 1;
        // Of voxels alone it is an older one.
        let version = "\"version\":8";
        let other = format!("\"version\":{next}");
        refused(&resealed(version, &other), &format!("version is {next}"));
        refused(&resealed("[20,10,9]", "[20,10,90]"), "of the bricks has");
        refused(&resealed("{", ""), "expected");
        let absent = DirectoryStore::open(dir.path()).unwrap_err().to_string();
        assert!(absent.contains(MANIFEST), "{absent}");
        fs::write(&manifest, &good).unwrap();
        assert!(DirectoryStore::open(&out).is_ok());
        for name in [PAGES, "bricks/places"] {
            let path = out.join(name);
            let good = fs::read(&path).unwrap();
            let refused = |why: &str| {
                let error = DirectoryStore::open(&out).unwrap_err().to_string();
                let parts = [&*path.display().to_string(), why, IMPORT_AGAIN];
                assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            };
            let mut changed = good.clone();
            changed[good.len() - 1] ^= 1;
            fs::write(&path, &changed).unwrap();
            refused("digest");
            fs::write(&path, &good[1..]).unwrap();
            refused("");
            fs::remove_file(&path).unwrap();
            refused("No such file");
            fs::write(&path, &good).unwrap();
        }
        assert!(DirectoryStore::open(&out).is_ok());
    }
}

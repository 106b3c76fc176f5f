//! A data set as a `.brickmesh` folder.

use super::{BrickStoreError, OnProgress, bricker, layers::Gather};
use crate::volume_file::VolumeFile;
use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_topology::{BrickIndex, Digest, Manifest};
use bytes::Bytes;
use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

/// File of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// Folder of the bricks.
const BRICKS: &str = "bricks";
/// Largest manifest, in bytes: a million bricks of a hundred and twenty.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// Bricks on disk; each is checked when it is read.
#[derive(Debug)]
pub struct DirectoryStore {
    path: PathBuf,
    manifest: Manifest,
}

impl DirectoryStore {
    /// Opens a folder and checks its manifest.
    ///
    /// # Errors
    /// [`BrickStoreError`] where there is none, or it cannot be used.
    pub fn open(path: &Path) -> Result<Self, BrickStoreError> {
        let file = path.join(MANIFEST);
        let io = BrickStoreError::io(&file);
        let length = fs::metadata(&file).map_err(&io)?.len();
        let wrong = |why| BrickStoreError::Manifest {
            path: file.clone(),
            why,
        };
        if length > MANIFEST_BYTES_MAX {
            return Err(wrong(format!(
                "{length} bytes, more than {MANIFEST_BYTES_MAX}"
            )));
        }
        let text = fs::read(&file).map_err(&io)?;
        let manifest = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            manifest,
        })
    }

    fn read_checked(&self, brick: BrickIndex) -> Result<Bytes, BrickStoreError> {
        let digest = self.manifest.brick_digest(brick);
        let path = brick_path(&self.path, digest);
        let damaged = |found: String, expected: String| BrickStoreError::Damaged {
            path: path.clone(),
            brick: brick.0,
            found,
            expected,
        };
        let length = fs::metadata(&path)
            .map_err(BrickStoreError::io(&path))?
            .len();
        let expected = self.manifest.brick_bytes(brick);
        if length != expected {
            return Err(damaged(
                format!("{length} bytes"),
                format!("{expected} bytes"),
            ));
        }
        let bytes = fs::read(&path).map_err(BrickStoreError::io(&path))?;
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
    fn manifest(&self) -> &Manifest {
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
}

fn brick_path(folder: &Path, digest: Digest) -> PathBuf {
    folder.join(BRICKS).join(digest.to_string())
}

/// Cuts a volume into a new folder: made beside `out` under another name and renamed when whole.
pub(super) fn import(
    file: &VolumeFile,
    edge: u32,
    out: &Path,
    layer_bytes_max: u64,
    progress: OnProgress<'_>,
) -> Result<DirectoryStore, BrickStoreError> {
    if out.symlink_metadata().is_ok() {
        return Err(BrickStoreError::Exists {
            path: out.to_owned(),
        });
    }
    let parent = match out.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let made = tempfile::Builder::new()
        .prefix(".brickmesh-import-")
        .tempdir_in(parent)
        .map_err(BrickStoreError::io(parent))?;
    let bricks = made.path().join(BRICKS);
    fs::create_dir(&bricks).map_err(BrickStoreError::io(&bricks))?;
    let gather = Gather::Bounded {
        layer_bytes_max,
        scratch: made.path(),
    };
    let manifest = bricker::cut(file, edge, gather, progress, &mut |_, digest, bytes| {
        let path = brick_path(made.path(), digest);
        if path.exists() {
            return Ok(());
        }
        fs::write(&path, bytes).map_err(BrickStoreError::io(&path))
    })?;
    write_manifest(&made.path().join(MANIFEST), &manifest)?;
    readable_by_all(made.path());
    fs::rename(made.path(), out).map_err(BrickStoreError::io(out))?;
    // The folder has gone to its place: there is nothing to take away any more.
    drop(made.keep());
    Ok(DirectoryStore {
        path: out.to_owned(),
        manifest,
    })
}

fn write_manifest(path: &Path, manifest: &Manifest) -> Result<(), BrickStoreError> {
    let io = BrickStoreError::io(path);
    let mut writer = BufWriter::new(File::create(path).map_err(&io)?);
    serde_json::to_writer(&mut writer, manifest).map_err(|e| BrickStoreError::Manifest {
        path: path.to_owned(),
        why: e.to_string(),
    })?;
    writer.flush().map_err(&io)?;
    writer.get_ref().sync_all().map_err(&io)
}

/// Temporary folders are private; a data set is not.
#[cfg(unix)]
fn readable_by_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(0o755)) {
        tracing::debug!(%error, "the folder stays private");
    }
}

#[cfg(not(unix))]
fn readable_by_all(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_file;

    fn volume(folder: &Path) -> VolumeFile {
        let path = folder.join("v_20x10x9_uint16.raw");
        let bytes: Vec<u8> = (0..3600_u16).map(|i| (i % 251) as u8).collect();
        fs::write(&path, bytes).unwrap();
        volume_file::open(&path).unwrap()
    }

    #[test]
    fn an_import_through_scratch_files_leaves_only_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (volume(dir.path()), dir.path().join("out"));
        let store = import(&file, 6, &out, 0, &mut |_, _| true).unwrap();
        for brick in store.manifest().grid().bricks() {
            assert_eq!(store.read(brick).unwrap().len() as u64, {
                store.manifest().brick_bytes(brick)
            });
        }
        let names = |path: &Path| {
            let entries = fs::read_dir(path).unwrap();
            let mut all: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
            all.sort();
            all
        };
        assert_eq!(names(dir.path()), ["out", "v_20x10x9_uint16.raw"]);
        assert_eq!(names(&out), [BRICKS, MANIFEST]);
    }

    #[test]
    fn equal_bricks_are_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zeros_40x40x40_uint8.raw");
        fs::write(&path, vec![0; 64_000]).unwrap();
        let file = volume_file::open(&path).unwrap();
        let out = dir.path().join("out");
        let store = import(&file, 8, &out, u64::MAX, &mut |_, _| true).unwrap();
        assert_eq!(store.manifest().grid().brick_count(), 125);
        // First, inner and last bricks of an axis store 10, 11 and 9 voxels: equal counts of
        // zeros are equal bytes, whatever their box.
        let distinct = fs::read_dir(out.join(BRICKS)).unwrap().count();
        assert!(distinct <= 10, "{distinct} files");
    }

    #[test]
    fn what_is_wrong_with_a_folder_is_told_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (volume(dir.path()), dir.path().join("out"));
        let store = import(&file, 6, &out, u64::MAX, &mut |_, _| true).unwrap();
        let first = brick_path(&out, store.manifest().brick_digest(BrickIndex(0)));
        fs::write(&first, [1, 2, 3]).unwrap();
        let cut = store.read(BrickIndex(0)).unwrap_err().what;
        let expected = format!("{} bytes", store.manifest().brick_bytes(BrickIndex(0)));
        assert!(
            cut.contains("3 bytes") && cut.contains(&expected) && cut.contains(BRICKS),
            "{cut}"
        );
        fs::remove_file(&first).unwrap();
        let gone = store.read(BrickIndex(0)).unwrap_err().what;
        assert!(gone.contains(&first.display().to_string()), "{gone}");
        let outside = store.read(BrickIndex(999)).unwrap_err().what;
        assert!(outside.contains("999"), "{outside}");

        let manifest = out.join(MANIFEST);
        let text = fs::read_to_string(&manifest).unwrap();
        let refused = |text: String| {
            fs::write(&manifest, text).unwrap();
            let error = DirectoryStore::open(&out).unwrap_err().to_string();
            assert!(error.contains(MANIFEST), "{error}");
            error
        };
        assert!(refused(text[..text.len() / 2].to_owned()).contains("EOF"));
        assert!(refused(text.replace("\"version\":2", "\"version\":9")).contains("version is 9"));
        assert!(refused(text.replace("[20,10,9]", "[20,10,90]")).contains("bricks has"));
        let absent = DirectoryStore::open(dir.path()).unwrap_err().to_string();
        assert!(absent.contains(MANIFEST), "{absent}");
    }
}

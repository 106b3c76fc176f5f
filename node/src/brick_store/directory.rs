//! A data set as a `.brickmesh` folder.

use super::{BrickStoreError, OnProgress, bricker};
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
    let manifest = bricker::cut(
        file,
        edge,
        layer_bytes_max,
        progress,
        &mut |_, digest, bytes| {
            let path = brick_path(made.path(), digest);
            if path.exists() {
                return Ok(());
            }
            fs::write(&path, bytes).map_err(BrickStoreError::io(&path))
        },
    )?;
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

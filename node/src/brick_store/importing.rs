//! How a `.brickmesh` folder is made: beside its place under another name, and renamed when it is
//! whole and on the disk.
//!
//! Invariants: at no moment, whether the program is killed or the power fails, is there a folder
//! under the name asked for that is not whole. For that the bricks are on the disk before the
//! manifest is written, the manifest before the folder is renamed.
//! What a killed import leaves behind is taken away by the next one to the same place; a folder at
//! which an import is still at work is locked, and left alone.

use super::{
    BrickStoreError, ImportOptions, OnProgress, bricker,
    directory::{BRICKS, DirectoryStore, MANIFEST, PROJECTIONS, brick_path, level_path},
    layers::Gather,
    manifest_file,
};
use crate::volume_file::VolumeFile;
use brickmesh_topology::{Digest, Manifest};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    iter,
    path::Path,
    sync::Arc,
    sync::{Mutex, PoisonError},
};

/// Files that are waited for at a time.
const SYNC_THREADS: usize = 8;

/// Cuts a volume into a new folder.
pub(super) fn import(
    file: &VolumeFile,
    edge: u32,
    how: &ImportOptions,
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
    let prefix = working_prefix(out);
    remove_leftovers(parent, &prefix);
    let made = tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(parent)
        .map_err(BrickStoreError::io(parent))?;
    // Held until the end: that somebody is at work here.
    let _lock = lock(made.path());
    let gather = Gather::Bounded {
        layer_bytes_max,
        scratch: made.path(),
    };
    let projections = made.path().join(PROJECTIONS);
    let empty = how
        .empty
        .as_ref()
        .map(|empty| (empty, projections.as_path()));
    let bricks_of = |level| level_path(made.path(), level).join(BRICKS);
    let levels = Mutex::new(0);
    let (exact, coarser) = bricker::cut(
        file,
        edge,
        how.levels_max,
        gather,
        empty,
        progress,
        &|level, _, digest, bytes| {
            let mut levels = levels.lock().unwrap_or_else(PoisonError::into_inner);
            while *levels <= level {
                let bricks = bricks_of(*levels);
                fs::create_dir_all(&bricks).map_err(BrickStoreError::io(&bricks))?;
                *levels += 1;
            }
            drop(levels);
            // Equal ones at a time write the same.
            let path = brick_path(&level_path(made.path(), level), digest);
            if path.exists() {
                return Ok(());
            }
            fs::write(&path, bytes).map_err(BrickStoreError::io(&path))
        },
    )?;
    let placed = |manifest: Manifest| manifest.with_placement(how.placement);
    let exact = placed(exact);
    let coarser: Vec<Manifest> = coarser.into_iter().map(placed).collect();
    let all: Vec<&Manifest> = iter::once(&exact).chain(&coarser).collect();
    let bytes = file.description.voxel_bytes();
    write_manifests(made.path(), &all, &mut || progress(bytes, bytes))?;
    readable_by_all(made.path());
    sync_folder(made.path())?;
    fs::rename(made.path(), out).map_err(|error| match out.symlink_metadata() {
        // Another import to the same place was faster.
        Ok(_) => BrickStoreError::Exists {
            path: out.to_owned(),
        },
        Err(_) => BrickStoreError::io(out)(error),
    })?;
    // The folder has gone to its place: there is nothing to take away any more.
    drop(made.keep());
    sync_folder(parent)?;
    Ok(DirectoryStore::new(out, Arc::new(exact)))
}

/// Waits until the bricks of all levels are on the disk, and writes the manifests, finest first here, as long as it may
/// go on.
fn write_manifests(
    folder: &Path,
    all: &[&Manifest],
    may_go_on: &mut dyn FnMut() -> bool,
) -> Result<(), BrickStoreError> {
    // Level 0, whose folder holds the others, is the last.
    for (level, manifest) in all.iter().enumerate().rev() {
        if !may_go_on() {
            return Err(BrickStoreError::Stopped);
        }
        let folder = level_path(folder, level);
        sync_files(&folder.join(BRICKS))?;
        write_manifest(&folder.join(MANIFEST), manifest)?;
        if let Some(parent) = folder.parent().filter(|_| level > 0) {
            sync_folder(&folder)?;
            sync_folder(parent)?;
        }
    }
    if may_go_on() {
        Ok(())
    } else {
        Err(BrickStoreError::Stopped)
    }
}

/// How the names of the folders begin in which a data set is made. It follows from the place's
/// name, and is short however long that is.
fn working_prefix(out: &Path) -> String {
    let name = out.file_name().unwrap_or_default();
    let name = Digest::of(name.as_encoded_bytes());
    format!(".brickmesh-import-{}-", name.short())
}

/// Takes away what killed imports to the same place have left. Nothing depends on it.
fn remove_leftovers(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let of_import = entry.file_name().to_string_lossy().starts_with(prefix);
        if !of_import || !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        let path = entry.path();
        let Some(_lock) = lock(&path) else {
            tracing::warn!(path = %path.display(), "another import to the same place is at work; its files are left alone");
            continue;
        };
        if let Err(error) = fs::remove_dir_all(&path) {
            tracing::warn!(path = %path.display(), %error, "what a killed import left could not be removed: remove this folder");
        }
    }
}

/// Locks a folder while an import is at work in it; the system unlocks it when the program ends,
/// however that happens. `None` where it is locked, or cannot be.
#[cfg(unix)]
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Folders cannot be locked here: what killed imports leave stays.
#[cfg(not(unix))]
fn lock(_: &Path) -> Option<File> {
    None
}

/// Waits until the files of a folder, and their names, are on the disk. Once for all, when the
/// system has written most of them already, and several at a time, which it can write together: far
/// quicker than one after another.
fn sync_files(folder: &Path) -> Result<(), BrickStoreError> {
    let entries = fs::read_dir(folder).map_err(BrickStoreError::io(folder))?;
    let next = Mutex::new(entries);
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Result<(), BrickStoreError> {
        while let Some(entry) = take() {
            let path = entry.map_err(BrickStoreError::io(folder))?.path();
            let synced = File::open(&path).and_then(|f| f.sync_all());
            synced.map_err(BrickStoreError::io(&path))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..SYNC_THREADS).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // All are waited for, whatever the first one says.
        let all: Vec<Result<(), BrickStoreError>> = ended.collect();
        all.into_iter().collect::<Result<(), _>>()
    })?;
    sync_folder(folder)
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> Result<(), BrickStoreError> {
    let synced = File::open(folder).and_then(|f| f.sync_all());
    match synced {
        // Some file systems know no such thing for folders.
        Err(e) if e.kind() != io::ErrorKind::InvalidInput => Err(BrickStoreError::io(folder)(e)),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> Result<(), BrickStoreError> {
    Ok(())
}

fn write_manifest(path: &Path, manifest: &Manifest) -> Result<(), BrickStoreError> {
    let io = BrickStoreError::io(path);
    let bytes = manifest_file::encode(manifest).map_err(|e| BrickStoreError::Manifest {
        path: path.to_owned(),
        why: e.to_string(),
    })?;
    let mut file = File::create_new(path).map_err(&io)?;
    file.write_all(&bytes).map_err(&io)?;
    file.sync_all().map_err(&io)
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
pub(super) mod tests {
    use super::*;
    use crate::{
        brick_store::{directory::MANIFEST_BYTES_MAX, load},
        volume_file,
    };
    use brickmesh_actors::{data_set::BrickSource as _, manifest_message::bricks_max};
    use brickmesh_topology::{
        BrickGrid, VolumeDescription, VoxelType, data::manifest::BrickRecord,
    };

    /// Longest record of a brick in a manifest, in bytes: two digits a level of its cells, digest,
    /// range and names.
    const RECORD_BYTES_MAX: u64 = 2304;

    /// A small volume.
    pub(in crate::brick_store) fn volume(folder: &Path) -> VolumeFile {
        let path = folder.join("v_20x10x9_uint16.raw");
        let bytes: Vec<u8> = (0..3600_u16).map(|i| (i % 251) as u8).collect();
        fs::write(&path, bytes).unwrap();
        volume_file::open(&path).unwrap()
    }

    fn names(path: &Path) -> Vec<std::ffi::OsString> {
        let entries = fs::read_dir(path).unwrap();
        let mut all: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
        all.sort();
        all
    }

    #[test]
    fn an_import_through_scratch_files_leaves_only_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (volume(dir.path()), dir.path().join("out"));
        let store = import(&file, 6, &ImportOptions::default(), &out, 0, &mut |_, _| {
            true
        })
        .unwrap();
        for brick in store.manifest().grid().bricks() {
            assert_eq!(store.read(brick).unwrap().len() as u64, {
                store.manifest().brick_bytes(brick)
            });
        }
        assert_eq!(names(dir.path()), ["out", "v_20x10x9_uint16.raw"]);
        assert_eq!(names(&out), [BRICKS, MANIFEST]);
    }

    #[test]
    #[cfg(unix)]
    fn what_a_killed_import_left_goes_with_the_next_one_to_the_same_place() {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (volume(dir.path()), dir.path().join("out"));
        let left = |out: &Path, name: &str| {
            let path = dir.path().join(working_prefix(out) + name);
            fs::create_dir_all(path.join(BRICKS)).unwrap();
            path
        };
        let other = dir.path().join("another");
        let (killed, working, elsewhere) = (left(&out, "a"), left(&out, "b"), left(&other, "c"));
        let held = lock(&working).unwrap();
        import(
            &file,
            6,
            &ImportOptions::default(),
            &out,
            u64::MAX,
            &mut |_, _| true,
        )
        .unwrap();
        assert!(!killed.exists() && working.exists() && elsewhere.exists());
        drop(held);
        fs::remove_dir_all(&out).unwrap();
        import(
            &file,
            6,
            &ImportOptions::default(),
            &out,
            u64::MAX,
            &mut |_, _| true,
        )
        .unwrap();
        assert!(!working.exists() && elsewhere.exists());
    }

    #[test]
    fn more_bricks_than_peers_can_tell_each_other_of_are_refused_before_anything_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large_512x512x512_uint8.raw");
        File::create(&path).unwrap().set_len(512 << 18).unwrap();
        let file = volume_file::open(&path).unwrap();
        let out = dir.path().join("out");
        let read = &mut |_, _| panic!("it is read");
        for error in [
            import(&file, 8, &ImportOptions::default(), &out, u64::MAX, read).unwrap_err(),
            load(&file, 8, u64::MAX, read).unwrap_err(),
        ] {
            let text = error.to_string();
            // 52³ bricks of 10 are too many, 47³ of 11 are not.
            let parts = [
                "262144 bricks",
                &bricks_max().to_string(),
                "--brick, 11 or more",
            ];
            assert!(parts.iter().all(|p| text.contains(p)), "{text}");
        }
        assert_eq!(names(dir.path()), ["large_512x512x512_uint8.raw"]);
    }

    #[test]
    fn the_manifest_of_as_many_bricks_as_there_may_be_can_be_opened_again() {
        assert!(u64::from(bricks_max()) * RECORD_BYTES_MAX < MANIFEST_BYTES_MAX);
    }

    #[test]
    fn a_brick_takes_no_more_of_a_manifest_than_was_reckoned_with() {
        let grid = BrickGrid::new([9; 3], 9).unwrap();
        let floats: Vec<u8> = (0..729_u32)
            .flat_map(|i| (-1.234_567e-30_f32 * (i + 1) as f32).to_le_bytes())
            .collect();
        let brick = brickmesh_topology::BrickIndex(0);
        let volume = VolumeDescription::new([9; 3], VoxelType::F32);
        let record = BrickRecord::of(&grid, brick, &volume, &floats);
        let bytes = serde_json::to_vec(&record).unwrap().len() as u64;
        assert!(
            bytes + 1 < RECORD_BYTES_MAX && bytes > RECORD_BYTES_MAX / 2,
            "{bytes}"
        );
    }
}

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
    cutter::OnBrick,
    directory::{BRICKS, DirectoryStore, MANIFEST, PROJECTIONS, level_path},
    layers::Gather,
    manifest_file::{self, PAGES},
    packs::{PackWriter, write_file},
    plain_cutter::{self, Voxels},
};
use crate::volume_file::VolumeFile;
use brickmesh_topology::{Digest, Manifest};
use std::{
    fs::{self, File},
    io, iter,
    path::Path,
    sync::Arc,
    sync::{Mutex, PoisonError},
};

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
    let packs = LevelPacks {
        folder: made.path(),
        of_levels: Mutex::default(),
    };
    let on_brick: OnBrick<'_> =
        &|level, brick, digest, bytes| packs.of_level(level)?.add(brick, digest, &bytes);
    // Of what is empty, slices are asked in their order.
    let plain = match empty {
        None => Voxels::of(file, edge)?,
        Some(_) => None,
    };
    let (exact, coarser) = match plain {
        Some(voxels) => {
            plain_cutter::cut(file, &voxels, how.levels_max, gather, progress, on_brick)?
        }
        None => bricker::cut(
            file,
            edge,
            how.levels_max,
            gather,
            empty,
            progress,
            on_brick,
        )?,
    };
    let placed = |manifest: Manifest| manifest.with_placement(how.placement);
    let exact = placed(exact);
    let coarser: Vec<Manifest> = coarser.into_iter().map(placed).collect();
    let packs = packs.of_levels.into_inner();
    let packs = packs.unwrap_or_else(PoisonError::into_inner);
    debug_assert_eq!(packs.len(), 1 + coarser.len(), "each level has bricks");
    let manifests = iter::once(&exact).chain(&coarser);
    let all: Vec<(&Manifest, &PackWriter)> = manifests.zip(packs.iter().map(|p| &**p)).collect();
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
    DirectoryStore::with_packs(out, Arc::new(exact))
}

/// The packs of each level, made when its first brick comes.
struct LevelPacks<'a> {
    folder: &'a Path,
    of_levels: Mutex<Vec<Arc<PackWriter>>>,
}

impl LevelPacks<'_> {
    fn of_level(&self, level: usize) -> Result<Arc<PackWriter>, BrickStoreError> {
        let mut packs = (self.of_levels.lock()).unwrap_or_else(PoisonError::into_inner);
        while packs.len() <= level {
            let bricks = level_path(self.folder, packs.len()).join(BRICKS);
            packs.push(Arc::new(PackWriter::new(&bricks)?));
        }
        Ok(Arc::clone(&packs[level]))
    }
}

/// Waits until the bricks of all levels are on the disk, and writes the manifests, finest first here, as long as it may
/// go on.
fn write_manifests(
    folder: &Path,
    all: &[(&Manifest, &PackWriter)],
    may_go_on: &mut dyn FnMut() -> bool,
) -> Result<(), BrickStoreError> {
    // Level 0, whose folder holds the others, is the last.
    for (level, (manifest, packs)) in all.iter().enumerate().rev() {
        if !may_go_on() {
            return Err(BrickStoreError::Stopped);
        }
        let folder = level_path(folder, level);
        let bricks = folder.join(BRICKS);
        packs.finish(may_go_on)?;
        sync_folder(&bricks)?;
        write_manifest(&folder, manifest)?;
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

fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<(), BrickStoreError> {
    let path = &folder.join(MANIFEST);
    let bytes = manifest_file::encode(manifest).map_err(|e| BrickStoreError::Manifest {
        path: path.to_owned(),
        why: e.to_string(),
    })?;
    write_file(&folder.join(PAGES), manifest.pages())?;
    write_file(path, &bytes)
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
    use crate::{brick_store::load, volume_file};
    use brickmesh_actors::{data_set::BrickSource as _, manifest_message::bricks_max};

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
        assert_eq!(names(&out), [BRICKS, PAGES, MANIFEST]);
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
}

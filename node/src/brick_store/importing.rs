//! How a `.brickmesh` folder is made: beside its place under another name, and renamed when it is
//! whole and on the disk.
//!
//! Invariants: at no moment, whether the program is killed or the power fails, is there a folder
//! under the name asked for that is not whole. For that the bricks are on the disk before the
//! manifest is written, the manifest before the folder is renamed.
//! With what a killed import leaves behind the next one to the same place goes on, where that is the same import and what it has is
//! whole (`checkpoint`), or takes it away; a folder at which an import is still at work is locked, and left alone.

use super::{
    BrickStoreError, ImportOptions, OnProgress, bricker,
    checkpoint::{self, Checkpoint, read_value, write_value},
    cutter::OnBrick,
    directory::{BRICKS, DirectoryStore, MANIFEST, PROJECTIONS, level_path},
    layers::Gather,
    manifest_file::{self, PAGES},
    packs::{PackWriter, Writing, write_file},
    plain_cutter::{self, Voxels},
};
use crate::volume_file::VolumeFile;
use brickmesh_actors::data_set::BrickSource;
use brickmesh_topology::{Digest, Manifest};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    iter,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::UNIX_EPOCH,
};

/// To be raised whenever what a checkpoint holds is written or worked out in another way.
const GOING_ON_VERSION: u32 = 1;

/// Cuts a volume into a new folder.
pub(super) fn import(
    file: &VolumeFile,
    edge: u32,
    how: &ImportOptions,
    out: &Path,
    layer_bytes_max: u64,
    progress: OnProgress<'_>,
) -> Result<DirectoryStore, BrickStoreError> {
    let parent = parent_of_new(out)?;
    let prefix = working_prefix(out);
    let name = name_of(file, edge, how);
    let mut made = || {
        let made = WorkingFolder::in_folder(parent, &prefix, name)?;
        import_into(made, file, edge, how, layer_bytes_max, progress)
    };
    let (made, exact) = match made() {
        Err(error @ BrickStoreError::GoingOn { .. }) => {
            tracing::warn!(%error, "this import begins anew");
            made()?
        }
        made => made?,
    };
    made.publish(parent, out)?;
    DirectoryStore::with_packs(out, Arc::new(exact))
}

/// Where a folder is to be made that is not there yet.
pub(crate) fn parent_of_new(out: &Path) -> Result<&Path, BrickStoreError> {
    if out.symlink_metadata().is_ok() {
        return Err(BrickStoreError::Exists {
            path: out.to_owned(),
        });
    }
    Ok(match out.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    })
}

/// Writes the bricks of a data set into a new folder.
pub(super) fn write(
    source: &dyn BrickSource,
    out: &Path,
    progress: OnProgress<'_>,
) -> Result<DirectoryStore, BrickStoreError> {
    let parent = parent_of_new(out)?;
    let made = WorkingFolder::in_folder(parent, &working_prefix(out), None)?;
    let manifest = source.manifest();
    let packs = PackWriter::new(&made.path.join(BRICKS))?;
    let all = manifest.grid().brick_count().into();
    for brick in manifest.grid().bricks() {
        if !progress(brick.0.into(), all) {
            return Err(BrickStoreError::Stopped);
        }
        packs.add(brick, manifest.brick_digest(brick), &source.read(brick)?)?;
    }
    write_manifests(&made.path, &[(manifest, &packs)], &mut || {
        progress(all, all)
    })?;
    made.publish(parent, out)?;
    DirectoryStore::with_packs(out, Arc::clone(manifest))
}

/// Cuts a volume into a folder, goes on where another import was killed; returns both, whole.
fn import_into(
    made: WorkingFolder,
    file: &VolumeFile,
    edge: u32,
    how: &ImportOptions,
    layer_bytes_max: u64,
    progress: OnProgress<'_>,
) -> Result<(WorkingFolder, Manifest), BrickStoreError> {
    let made_path = made.path.clone();
    let gather = Gather::Bounded {
        layer_bytes_max,
        scratch: &made_path,
    };
    let projections = made_path.join(PROJECTIONS);
    let empty = how
        .empty
        .as_ref()
        .map(|empty| (empty, projections.as_path()));
    let packs = LevelPacks {
        folder: &made_path,
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
            let import = made.import;
            let mut checkpoint = import.map(|import| Checkpoint::new(&made_path, import, &packs));
            let (levels, resume) = (how.levels_max, checkpoint.as_mut());
            let cut = plain_cutter::cut(file, &voxels, levels, gather, resume, progress, on_brick)?;
            if let Some(checkpoint) = checkpoint {
                checkpoint.remove()?;
            }
            cut
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
    write_manifests(&made_path, &all, &mut || progress(bytes, bytes))?;
    Ok((made, exact))
}

/// The packs of each level, made when its first brick comes.
pub(super) struct LevelPacks<'a> {
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

    /// Waits until all that was written is on the disk.
    pub(super) fn sync(&self) -> Result<(), BrickStoreError> {
        let packs = (self.of_levels.lock()).unwrap_or_else(PoisonError::into_inner);
        for (level, of_level) in packs.iter().enumerate() {
            of_level.sync(&mut || true)?;
            let folder = level_path(self.folder, level);
            sync_folder(&folder.join(BRICKS))?;
            sync_folder(&folder)?;
            sync_folder(folder.parent().unwrap_or(&folder))?;
        }
        Ok(())
    }

    /// Writes what is to be known to go on behind what was written.
    pub(super) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let packs = (self.of_levels.lock()).unwrap_or_else(PoisonError::into_inner);
        write_value(out, &packs.len())?;
        (packs.iter()).try_for_each(|of_level| write_value(out, &*of_level.written()))
    }

    /// Goes on behind what was written.
    pub(super) fn restore(&self, from: &mut dyn Read) -> io::Result<()> {
        let mut packs = (self.of_levels.lock()).unwrap_or_else(PoisonError::into_inner);
        for level in 0..read_value(from)? {
            let writing: Writing = read_value(from)?;
            let bricks = level_path(self.folder, level).join(BRICKS);
            packs.push(Arc::new(PackWriter::going_on(&bricks, writing)?));
        }
        Ok(())
    }
}

/// The folder in which a data set is made; it is taken away again where that fails.
struct WorkingFolder {
    path: PathBuf,
    /// It has become the data set.
    has_gone: bool,
    /// Held until the end: that somebody is at work here.
    _lock: Option<File>,
    /// What is imported, and how, where it may be gone on with.
    import: Option<[u8; 32]>,
}

impl WorkingFolder {
    /// One that a killed import of the same has left, or else a new one.
    fn in_folder(
        parent: &Path,
        prefix: &str,
        import: Option<[u8; 32]>,
    ) -> Result<Self, BrickStoreError> {
        if let Some(left) = Self::left_behind(parent, prefix, import) {
            return Ok(left);
        }
        let made = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(parent)
            .map_err(BrickStoreError::io(parent))?;
        let path = made.keep();
        set_mode(&path, 0o700);
        let lock = lock(&path);
        Ok(Self {
            // Another import could take it over that thinks nobody is at work.
            import: import.filter(|_| lock.is_some()),
            _lock: lock,
            has_gone: false,
            path,
        })
    }

    /// The one that a killed import to the same place has left with which this one can go on; the others are taken away. Nothing
    /// depends on it.
    fn left_behind(parent: &Path, prefix: &str, import: Option<[u8; 32]>) -> Option<Self> {
        let mut found = None;
        for entry in fs::read_dir(parent).ok()?.flatten() {
            let of_import = entry.file_name().to_string_lossy().starts_with(prefix);
            if !of_import || !entry.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            let path = entry.path();
            let Some(lock) = lock(&path) else {
                tracing::warn!(path = %path.display(), "another import to the same place is at work; its files are left alone");
                continue;
            };
            // It is taken away where it is not returned.
            let left = Self {
                path,
                has_gone: false,
                _lock: Some(lock),
                import,
            };
            let is_of = |import| checkpoint::is_in(&left.path, import);
            if found.is_none() && import.is_some_and(is_of) {
                found = Some(left);
            }
        }
        found
    }

    /// It is whole: it goes to its place.
    fn publish(mut self, parent: &Path, out: &Path) -> Result<(), BrickStoreError> {
        // A data set is not private.
        set_mode(&self.path, 0o755);
        sync_folder(&self.path)?;
        fs::rename(&self.path, out).map_err(|error| match out.symlink_metadata() {
            // Another import to the same place was faster.
            Ok(_) => BrickStoreError::Exists {
                path: out.to_owned(),
            },
            Err(_) => BrickStoreError::io(out)(error),
        })?;
        self.has_gone = true;
        sync_folder(parent)
    }
}

impl Drop for WorkingFolder {
    fn drop(&mut self) {
        if self.has_gone {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "what an import left could not be removed: remove this folder");
        }
    }
}

/// What is imported, and how: a file of this length that was changed last then, by a program that goes on alike. `None`: that is not known.
fn name_of(file: &VolumeFile, edge: u32, how: &ImportOptions) -> Option<[u8; 32]> {
    let of_file = |path: &Path| {
        let path = path.canonicalize().ok()?;
        let metadata = path.metadata().ok()?;
        let changed = metadata.modified().ok()?;
        let changed = changed.duration_since(UNIX_EPOCH).ok()?;
        Some((path, metadata.len(), changed))
    };
    let (header, data) = (of_file(&file.path)?, of_file(&file.data.path)?);
    let name = format!(
        "{GOING_ON_VERSION} {} {header:?} {data:?} {:?} {:?} {edge} {} {}",
        env!("CARGO_PKG_VERSION"),
        file.description,
        file.data,
        how.levels_max,
        how.empty.is_some()
    );
    Some(*blake3::hash(name.as_bytes()).as_bytes())
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
pub(super) fn sync_folder(folder: &Path) -> Result<(), BrickStoreError> {
    let synced = File::open(folder).and_then(|f| f.sync_all());
    match synced {
        // Some file systems know no such thing for folders.
        Err(e) if e.kind() != io::ErrorKind::InvalidInput => Err(BrickStoreError::io(folder)(e)),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
pub(super) fn sync_folder(_: &Path) -> Result<(), BrickStoreError> {
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

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(mode)) {
        tracing::debug!(%error, "the folder's permissions stay as they are");
    }
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) {}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{brick_store::load, volume_file};
    use brickmesh_actors::manifest_message::bricks_max;

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

    /// A volume of several layers of bricks of 8, with levels, of more voxels than are looked at of floats.
    fn tall_volume(folder: &Path, is_float: bool) -> VolumeFile {
        if is_float {
            let path = folder.join("v_70x130x130_float32.raw");
            let value = |i: u32| {
                if i.is_multiple_of(97) {
                    f32::NAN
                } else {
                    (i % 7919) as f32
                }
            };
            let bytes = (0..70 * 130 * 130_u32).flat_map(|i| value(i).to_le_bytes());
            fs::write(&path, bytes.collect::<Vec<u8>>()).unwrap();
            return volume_file::open(&path).unwrap();
        }
        let path = folder.join("v_70x40x130_uint16.raw");
        let bytes = (0..70 * 40 * 130_u32)
            .flat_map(|i| ((i.wrapping_mul(i) / 7 % 40_009) as u16).to_le_bytes());
        fs::write(&path, bytes.collect::<Vec<u8>>()).unwrap();
        volume_file::open(&path).unwrap()
    }

    /// What an import leaves that is killed after so many layers of bricks, of which the last was not noted any more.
    fn killed(file: &VolumeFile, out: &Path, layers: usize, layer_bytes_max: u64) -> PathBuf {
        let how = ImportOptions::default();
        let path = out.with_file_name(working_prefix(out) + "killed");
        if !path.exists() {
            fs::create_dir(&path).unwrap();
            set_mode(&path, 0o700);
        }
        let packs = LevelPacks {
            folder: &path,
            of_levels: Mutex::default(),
        };
        let gather = Gather::Bounded {
            layer_bytes_max,
            scratch: &path,
        };
        let mut checkpoint =
            Checkpoint::new(&path, name_of(file, 8, &how).unwrap(), &packs).always();
        let voxels = Voxels::of(file, 8).unwrap().unwrap();
        let mut left = layers;
        let mut go_on = |_, _| {
            left -= 1;
            left > 0
        };
        let on_brick: OnBrick<'_> =
            &|level, brick, digest, bytes| packs.of_level(level)?.add(brick, digest, &bytes);
        let (levels, resume) = (how.levels_max, Some(&mut checkpoint));
        let cut = plain_cutter::cut(file, &voxels, levels, gather, resume, &mut go_on, on_brick);
        assert!(matches!(cut, Err(BrickStoreError::Stopped)));
        path
    }

    /// Imports the volume; how much of it was done when it began, in layers of bricks.
    fn go_on(file: &VolumeFile, out: &Path, layer_bytes_max: u64) -> (DirectoryStore, u64) {
        let mut first = None;
        let progress = &mut |done, _| {
            first.get_or_insert(done);
            true
        };
        let how = ImportOptions::default();
        let store = import(file, 8, &how, out, layer_bytes_max, progress).unwrap();
        let of_layer = file.description.voxel_bytes() / 130 * 8;
        (store, first.unwrap().div_ceil(of_layer) - 1)
    }

    #[test]
    #[cfg(unix)]
    fn an_import_goes_on_where_killed_ones_were_and_makes_the_same() {
        for is_float in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let file = tall_volume(dir.path(), is_float);
            let whole = dir.path().join("whole");
            let (store, done) = go_on(&file, &whole, u64::MAX);
            let levels = store.manifest().levels().len();
            assert!(done == 0 && levels >= 2, "{levels}");
            for (layers, bytes_max) in (2..15).step_by(3).flat_map(|n| [(n, 0), (n, u64::MAX)]) {
                let out = dir.path().join(format!("{layers}-{bytes_max}"));
                killed(&file, &out, layers, bytes_max);
                // And once more, three layers later, while it wrote the next checkpoint.
                let killed = killed(&file, &out, 3, u64::MAX);
                fs::write(killed.join("checkpoint.new"), "torn").unwrap();
                let (again, done) = go_on(&file, &out, bytes_max);
                assert_eq!(done, layers as u64 - 1 + 2);
                assert_eq!(again.manifest().digest(), store.manifest().digest());
                for level in 0..=levels {
                    let [of_whole, of_out] = [&whole, &out].map(|out| level_path(out, level));
                    let again = DirectoryStore::open(&of_out).unwrap();
                    for brick in again.manifest().grid().bricks() {
                        let bytes = again.read(brick).unwrap();
                        assert_eq!(again.manifest().brick_digest(brick), Digest::of(&bytes));
                    }
                    let size = |of: &Path| fs::metadata(of.join(BRICKS).join("0.pack")).unwrap();
                    assert_eq!(size(&of_out).len(), size(&of_whole).len(), "written once");
                }
                let mut found = names(&out);
                found.retain(|name| name != "levels");
                assert!(found == [BRICKS, PAGES, MANIFEST] && !killed.exists());
            }
        }
    }

    #[test]
    #[cfg(unix)]
    fn an_import_begins_anew_where_another_volume_was_imported_or_what_is_left_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let file = tall_volume(dir.path(), false);
        let checkpoint = |killed: &Path| killed.join("checkpoint");
        let all = [
            "none",
            "cut",
            "changed",
            "gone",
            "short pack",
            "no pack",
            "public",
            "touched",
        ];
        for damage in all {
            let out = dir.path().join(damage);
            let killed = killed(&file, &out, 5, u64::MAX);
            let path = checkpoint(&killed);
            let mut bytes = fs::read(&path).unwrap();
            match damage {
                "none" => {}
                "touched" => {
                    let file = File::options().write(true).open(&file.path).unwrap();
                    file.set_modified(UNIX_EPOCH).unwrap();
                }
                "cut" => fs::write(&path, &bytes[..bytes.len() - 1]).unwrap(),
                "changed" => {
                    bytes[1000] ^= 1;
                    fs::write(&path, bytes).unwrap();
                }
                "short pack" | "no pack" => {
                    let pack = killed.join(BRICKS).join("0.pack");
                    fs::remove_file(&pack).unwrap();
                    if damage == "short pack" {
                        fs::write(&pack, [0; 1000]).unwrap();
                    }
                }
                "public" => set_mode(&killed, 0o755),
                _ => fs::remove_file(&path).unwrap(),
            }
            let (_, done) = go_on(&file, &out, u64::MAX);
            let expected = if damage == "none" { 4 } else { 0 };
            assert!(done == expected && !killed.exists(), "{damage}: {done}");
        }
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

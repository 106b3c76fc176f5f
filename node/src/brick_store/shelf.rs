//! A shelf: a folder in which a peer keeps bricks that came from others, for when it is started again and for frames.
//!
//! The file `brickmesh-shelf` says what the folder is, and is locked by the peer that uses it. Each data set is a folder
//! named by its digest, with `manifest.json`, `bricks.index` and `bricks/<digest>` as in a `.brickmesh` folder; not all bricks are there.
//! Invariants: what is in a folder that is no shelf stays; bricks take no more than the room that was given; a brick's file
//! is whole or not there, but for a machine that lost its power, so what is read is checked.

use super::{
    BrickStoreError,
    directory::{BRICKS, DirectoryStore, MANIFEST, MANIFEST_BYTES_MAX, brick_path},
    manifest_file::{self, PAGES},
};
use brickmesh_actors::data_set::{BrickShelf, BrickSource, ReadError, SourceError, WriteError};
use brickmesh_topology::{BrickIndex, Digest, Manifest};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

/// The file by which a shelf is known.
const MARK: &str = "brickmesh-shelf";
/// What stands in it.
const VERSION: &str = "brickmesh shelf 1\n";
/// How the names of files begin that are being written.
const UNFINISHED: &str = ".brickmesh-";

/// A folder that cannot be a shelf.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShelfError {
    /// It cannot be read or written.
    #[error("--disk-dir {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds something else.
    #[error("--disk-dir {}: it holds other files, as {}, and is no shelf; give an empty folder, or one that is not there yet", path.display(), other.display())]
    Other {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        other: PathBuf,
    },
    /// It is of another version of the program.
    #[error("--disk-dir {}: it is a shelf of another version: {MARK} says {found:?}, expected {VERSION:?}; remove the folder, or give another one", path.display())]
    Version {
        /// The folder.
        path: PathBuf,
        /// What the file says.
        found: String,
    },
    /// It is another user's.
    #[error("--disk-dir {}: it is the shelf of user {owner}, this is user {user}; give another folder", path.display())]
    User {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who asks.
        user: u32,
    },
    /// Another peer uses it.
    #[error("--disk-dir {}: another peer uses it; give each peer a folder of its own", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct DiskShelf {
    path: PathBuf,
    room_bytes: u64,
    /// Locked as long as this is there.
    _mark: File,
    /// One thread at a time changes what is there; others read.
    sets: Mutex<BTreeMap<Digest, Kept>>,
}

/// What is on the shelf of a data set.
#[derive(Clone, Debug)]
struct Kept {
    store: Arc<DirectoryStore>,
    /// The files of bricks, with their bytes.
    files: BTreeMap<Digest, u64>,
    is_open: bool,
    used: SystemTime,
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.files.values().sum()
    }

    /// The bricks that are there.
    fn bricks(&self) -> Vec<BrickIndex> {
        let manifest = self.store.manifest();
        let bricks = manifest.grid().bricks();
        let is_there = |b: &BrickIndex| self.files.contains_key(&manifest.brick_digest(*b));
        bricks.filter(is_there).collect()
    }
}

impl DiskShelf {
    /// Opens a folder, or makes it; bricks may take so many bytes in it.
    ///
    /// # Errors
    /// [`ShelfError`]; what is in a folder that is no shelf of this user's is left as it is.
    pub(crate) fn open(path: &Path, room_bytes: u64) -> Result<Self, ShelfError> {
        fs::create_dir_all(path).map_err(io_error(path))?;
        let path = fs::canonicalize(path).map_err(io_error(path))?;
        let mark = open_mark(&path)?;
        let mut sets = BTreeMap::new();
        for entry in fs::read_dir(&path).map_err(io_error(&path))? {
            let folder = entry.map_err(io_error(&path))?.path();
            let name = folder.file_name().and_then(|n| n.to_str());
            let Some(name) = name.and_then(|n| n.parse::<Digest>().ok()) else {
                continue;
            };
            match kept(&folder, name)? {
                Found::Some(of_set) => {
                    sets.insert(name, of_set);
                }
                Found::Nothing => fs::remove_dir_all(&folder).map_err(io_error(&folder))?,
                Found::Other(why) => tracing::warn!(
                    "{why}; this data set is left as it is on the shelf: remove {} for its space",
                    folder.display()
                ),
            }
        }
        let shelf = Self {
            path,
            room_bytes,
            _mark: mark,
            sets: Mutex::new(sets),
        };
        shelf.make_room(&mut shelf.lock(), 0);
        Ok(shelf)
    }

    /// Bytes of the bricks that are there, and how many data sets.
    pub(crate) fn contents(&self) -> (u64, usize) {
        let sets = self.lock();
        (sets.values().map(Kept::bytes).sum(), sets.len())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Digest, Kept>> {
        // What a thread left that panicked is still what files there are, or fewer.
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self, data_set: Digest) -> PathBuf {
        self.path.join(data_set.to_string())
    }

    /// Takes away bricks of data sets that are not open, of the one used last at the end, until there is room for so many
    /// bytes more. Returns whether there is.
    fn make_room(&self, sets: &mut BTreeMap<Digest, Kept>, bytes: u64) -> bool {
        let mut taken: u64 = sets.values().map(Kept::bytes).sum();
        while taken.saturating_add(bytes) > self.room_bytes {
            let closed = sets.iter_mut().filter(|(_, kept)| !kept.is_open);
            let Some((&oldest, kept)) = closed.min_by_key(|(_, kept)| kept.used) else {
                return false;
            };
            let folder = self.folder(oldest);
            let removed = match kept.files.pop_last() {
                Some((digest, of_brick)) => {
                    taken -= of_brick;
                    fs::remove_file(brick_path(&folder, digest))
                }
                None => {
                    sets.remove(&oldest);
                    fs::remove_dir_all(&folder)
                }
            };
            if let Err(error) = removed.or_else(if_there) {
                tracing::warn!("{}: {error}", folder.display());
            }
        }
        true
    }

    fn store(&self, data_set: Digest) -> Option<Arc<DirectoryStore>> {
        self.lock().get(&data_set).map(|k| Arc::clone(&k.store))
    }
}

impl BrickShelf for DiskShelf {
    fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    fn manifests(&self) -> Vec<Arc<Manifest>> {
        let sets = self.lock();
        let mut all: Vec<&Kept> = sets.values().collect();
        all.sort_by_key(|kept| kept.used);
        all.iter().map(|k| Arc::clone(k.store.manifest())).collect()
    }

    fn open(&self, manifest: &Arc<Manifest>) -> Result<Vec<BrickIndex>, SourceError> {
        let data_set = manifest.digest();
        let folder = self.folder(data_set);
        let failed = |error: io::Error| SourceError {
            what: format!("{}: {error}", folder.display()),
        };
        let mut sets = self.lock();
        let now = SystemTime::now();
        if let Some(known) = sets.get_mut(&data_set) {
            (known.is_open, known.used) = (true, now);
            if !known.files.is_empty() {
                // Which one was used last is known after another start, too.
                let touched = File::options().append(true).open(folder.join(MANIFEST));
                touched.and_then(|f| f.set_modified(now)).map_err(failed)?;
            }
            return Ok(known.bricks());
        }
        let mut of_set = Kept {
            store: Arc::new(DirectoryStore::of_files(&folder, Arc::clone(manifest))),
            files: BTreeMap::new(),
            is_open: true,
            used: now,
        };
        if folder.exists() {
            // Its manifest could not be used: its bricks can.
            make_folder(&folder, manifest).map_err(failed)?;
            let what = match kept(&folder, data_set) {
                Ok(Found::Some(found)) => {
                    of_set.files = found.files;
                    None
                }
                Ok(Found::Nothing) => None,
                Ok(Found::Other(why)) => Some(why),
                Err(error) => Some(error.to_string()),
            };
            if let Some(what) = what {
                return Err(SourceError { what });
            }
        }
        let there = of_set.bricks();
        sets.insert(data_set, of_set);
        Ok(there)
    }

    fn close(&self, data_set: Digest) {
        let mut sets = self.lock();
        let kept = sets.get_mut(&data_set);
        let is_empty = kept.is_some_and(|kept| {
            kept.is_open = false;
            kept.files.is_empty()
        });
        if is_empty {
            sets.remove(&data_set);
        }
    }

    fn read(&self, data_set: Digest, brick: BrickIndex) -> Result<Bytes, ReadError> {
        let Some(store) = self.store(data_set) else {
            let what = format!("data set {} is not on the shelf", data_set.short());
            return Err(ReadError::Lost(what));
        };
        store.read_checked(brick).map_err(|error| match error {
            BrickStoreError::Damaged {
                path,
                found,
                expected,
                ..
            } => ReadError::Lost(format!(
                "{}: brick {} is not as it was kept: {found}, expected {expected}",
                path.display(),
                brick.0
            )),
            other => ReadError::Unreadable(other.to_string()),
        })
    }

    fn write(&self, data_set: Digest, brick: BrickIndex, bytes: &[u8]) -> Result<(), WriteError> {
        let folder = self.folder(data_set);
        let in_words = |why: &dyn Display| format!("{}: {why}", folder.display());
        let length = bytes.len() as u64;
        let (store, digest, is_made) = {
            let mut sets = self.lock();
            let kept = sets.get(&data_set).filter(|kept| kept.is_open);
            let kept = kept.ok_or_else(|| WriteError::Failed(in_words(&"it is not open")))?;
            let store = Arc::clone(&kept.store);
            let digest = store.manifest().brick_digest(brick);
            let (is_made, is_new) = (!kept.files.is_empty(), !kept.files.contains_key(&digest));
            if is_new && !self.make_room(&mut sets, length) {
                return Err(WriteError::NoRoom(in_words(&"the shelf is full")));
            }
            (store, digest, is_made)
        };
        // Nobody else writes, and reading need not wait for it.
        let (path, bricks) = (brick_path(&folder, digest), folder.join(BRICKS));
        let make = || make_folder(&folder, store.manifest());
        let made = if is_made { Ok(()) } else { make() };
        let written = made.and_then(|()| match write_file(&bricks, &path, bytes) {
            // Somebody has taken the folder away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make()?;
                write_file(&bricks, &path, bytes)
            }
            written => written,
        });
        written.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::PermissionDenied => WriteError::NoRoom(in_words(&error)),
            _ => WriteError::Failed(format!("{}: {error}", path.display())),
        })?;
        if let Some(kept) = self.lock().get_mut(&data_set) {
            kept.files.insert(digest, length);
        }
        Ok(())
    }

    fn remove(&self, data_set: Digest, brick: BrickIndex) {
        let mut sets = self.lock();
        let Some(kept) = sets.get_mut(&data_set) else {
            return;
        };
        let manifest = kept.store.manifest();
        let digest = manifest.brick_digest(brick);
        // Equal bricks are one file.
        let mut equal = manifest.grid().bricks().filter(|&b| b != brick);
        if equal.any(|b| manifest.brick_digest(b) == digest) {
            return;
        }
        kept.files.remove(&digest);
        let path = brick_path(&self.folder(data_set), digest);
        if let Err(error) = fs::remove_file(&path).or_else(if_there) {
            tracing::warn!("{}: {error}", path.display());
        }
    }
}

/// A file that is not there need not be taken away.
fn if_there(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// The folder of a data set, with its manifest.
fn make_folder(folder: &Path, manifest: &Manifest) -> io::Result<()> {
    fs::create_dir_all(folder.join(BRICKS))?;
    let encoded = manifest_file::encode(manifest)?;
    write_file(folder, &folder.join(PAGES), manifest.pages())?;
    write_file(folder, &folder.join(MANIFEST), &encoded)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ShelfError {
    let path = path.to_owned();
    move |source| ShelfError::Io {
        path: path.clone(),
        source,
    }
}

/// A new file, which goes with its handle unless it gets a name.
fn unfinished(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder)
}

/// Writes a file whole or not at all, by way of another one in a folder of the same disk.
fn write_file(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = unfinished(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// The file by which the shelf is known, locked; made where the folder is empty.
fn open_mark(folder: &Path) -> Result<File, ShelfError> {
    let path = folder.join(MARK);
    if !path.exists() {
        for other in fs::read_dir(folder).map_err(io_error(folder))? {
            let other = other.map_err(io_error(folder))?.file_name();
            // What a peer left that was killed here.
            if other.to_string_lossy().starts_with(UNFINISHED) {
                continue;
            }
            return Err(ShelfError::Other {
                path: folder.to_owned(),
                other: other.into(),
            });
        }
        let mut made = unfinished(folder).map_err(io_error(folder))?;
        made.write_all(VERSION.as_bytes())
            .map_err(io_error(folder))?;
        // Another peer may have been faster.
        if let Err(error) = made.persist_noclobber(&path)
            && error.error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(io_error(&path)(error.error));
        }
    }
    let other_user = another_user(folder, &path)?;
    if let Some((owner, user)) = other_user {
        return Err(ShelfError::User {
            path: folder.to_owned(),
            owner,
            user,
        });
    }
    let found = fs::read_to_string(&path).map_err(io_error(&path))?;
    if found != VERSION {
        return Err(ShelfError::Version {
            path: folder.to_owned(),
            found: found.chars().take(VERSION.len()).collect(),
        });
    }
    let mark = OpenOptions::new().append(true).open(&path);
    let mark = mark.map_err(io_error(&path))?;
    match mark.try_lock() {
        Ok(()) => Ok(mark),
        Err(TryLockError::WouldBlock) => Err(ShelfError::InUse {
            path: folder.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(io_error(&path)(error)),
    }
}

/// Whose the shelf is and who asks, where these are not the same.
#[cfg(unix)]
fn another_user(folder: &Path, mark: &Path) -> Result<Option<(u32, u32)>, ShelfError> {
    use std::os::unix::fs::MetadataExt;
    let owner = fs::metadata(mark).map_err(io_error(mark))?.uid();
    let own = unfinished(folder).map_err(io_error(folder))?;
    let user = own.as_file().metadata().map_err(io_error(folder))?.uid();
    Ok((owner != user).then_some((owner, user)))
}

#[cfg(not(unix))]
fn another_user(_: &Path, _: &Path) -> Result<Option<(u32, u32)>, ShelfError> {
    Ok(None)
}

/// What was found in a data set's folder.
enum Found {
    Some(Kept),
    /// Nothing that can be used: it was being made, or is empty.
    Nothing,
    /// What this version cannot use, and why.
    Other(String),
}

/// What a data set's folder holds; what is no brick in it is taken away.
fn kept(folder: &Path, name: Digest) -> Result<Found, ShelfError> {
    let [manifest, bricks, pages] = [MANIFEST, BRICKS, PAGES].map(|name| folder.join(name));
    let other = |path: &Path, what: &str| Ok(Found::Other(format!("{}: {what}", path.display())));
    // A link might lead out of the shelf, and what is no file might never end.
    for (path, is_folder) in [(folder, true), (&bricks, true), (&manifest, false)] {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut there = fs::read_dir(&bricks).into_iter().flatten();
                // It was being made.
                return match there.next() {
                    None => Ok(Found::Nothing),
                    Some(_) => other(path, "it is not there"),
                };
            }
            found => {
                let found = found.map_err(io_error(path))?;
                if is_folder != found.is_dir() || !is_folder && !found.is_file() {
                    return other(path, "it is no folder or file that a peer made");
                }
                if !is_folder && found.len() > MANIFEST_BYTES_MAX {
                    return other(path, "it is too long for a manifest");
                }
            }
        }
    }
    // Older versions made none.
    if fs::symlink_metadata(&pages).is_ok_and(|found| !found.is_file()) {
        return other(&pages, "it is no folder or file that a peer made");
    }
    let store = match DirectoryStore::open_files(folder) {
        Ok(store) => store,
        Err(BrickStoreError::Io { path, source }) => return Err(ShelfError::Io { path, source }),
        Err(BrickStoreError::Manifest { path, why }) => return other(&path, &why),
        Err(error) => return Ok(Found::Other(error.to_string())),
    };
    let found = store.manifest().digest();
    if found != name {
        return other(folder, &format!("it holds data set {found}"));
    }
    let used = fs::metadata(folder.join(MANIFEST)).and_then(|m| m.modified());
    let all = store.manifest().grid().bricks();
    let known: BTreeSet<Digest> = all.map(|b| store.manifest().brick_digest(b)).collect();
    let mut files = BTreeMap::new();
    let read = fs::read_dir(&bricks).map_err(io_error(&bricks))?;
    for entry in read {
        let entry = entry.map_err(io_error(&bricks))?;
        let name = entry.file_name();
        let digest = name.to_str().and_then(|n| n.parse().ok());
        match digest.filter(|d| known.contains(d)) {
            Some(digest) => {
                let metadata = entry.metadata().map_err(io_error(&bricks))?;
                files.insert(digest, metadata.len());
            }
            // A peer that was killed left it.
            None if name.to_string_lossy().starts_with(UNFINISHED) => {
                fs::remove_file(entry.path()).map_err(io_error(&entry.path()))?;
            }
            None => {}
        }
    }
    let kept = Kept {
        store: Arc::new(store),
        files,
        is_open: false,
        used: used.unwrap_or(SystemTime::UNIX_EPOCH),
    };
    if kept.files.is_empty() {
        return Ok(Found::Nothing);
    }
    Ok(Found::Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brick_store::{import, importing::tests::volume};

    /// A data set of eight or more bricks.
    fn data_set(folder: &Path, edge: u32) -> DirectoryStore {
        let out = folder.join(format!("of-{edge}"));
        import(&volume(folder), edge, &out, &mut |_, _| true).unwrap()
    }

    fn put(shelf: &DiskShelf, store: &DirectoryStore, brick: BrickIndex) {
        let bytes = store.read(brick).unwrap();
        let data_set = store.manifest().digest();
        shelf.write(data_set, brick, &bytes).unwrap();
        assert_eq!(shelf.read(data_set, brick).unwrap(), bytes);
    }

    fn files(folder: &Path, data_set: Digest) -> usize {
        let bricks = folder.join(data_set.to_string()).join(BRICKS);
        fs::read_dir(bricks).map_or(0, Iterator::count)
    }

    #[test]
    fn bricks_are_there_after_another_start_and_what_a_killed_peer_left_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = data_set(dir.path(), 6);
        let (manifest, at) = (store.manifest(), dir.path().join("new/shelf"));
        let all: Vec<BrickIndex> = manifest.grid().bricks().collect();
        let shelf = DiskShelf::open(&at, 1 << 20).unwrap();
        assert!(BrickShelf::open(&shelf, manifest).unwrap().is_empty());
        let name = manifest.digest();
        assert!(!at.join(name.to_string()).exists(), "nothing is on it yet");
        all.iter().for_each(|&b| put(&shelf, &store, b));
        shelf.remove(name, all[1]);
        assert!(shelf.read(name, all[1]).is_err());
        drop(shelf);
        let bricks = at.join(name.to_string()).join(BRICKS);
        fs::write(bricks.join(".brickmesh-123"), [0]).unwrap();
        fs::create_dir(at.join(Digest::of(b"cut off").to_string())).unwrap();
        let shelf = DiskShelf::open(&at, 1 << 20).unwrap();
        assert_eq!(shelf.manifests(), std::slice::from_ref(manifest));
        let mut there = BrickShelf::open(&shelf, manifest).unwrap();
        there.sort_unstable();
        let expected = all.iter().copied().filter(|&b| b != all[1]);
        assert!(there.iter().copied().eq(expected), "{there:?}");
        assert_eq!(files(&at, name), all.len() - 1);
        assert_eq!(fs::read_dir(&at).unwrap().count(), 2);
        // One that is damaged is said to be, and written anew.
        let first = brick_path(&at.join(name.to_string()), manifest.brick_digest(all[0]));
        fs::write(&first, [1, 2]).unwrap();
        let why = shelf.read(name, all[0]).unwrap_err();
        assert!(matches!(why, ReadError::Lost(_)), "{why}");
        let why = why.to_string();
        assert!(why.contains("brick 0") && why.contains("2 bytes"), "{why}");
        put(&shelf, &store, all[0]);
    }

    #[test]
    fn there_is_never_more_than_was_allowed_and_what_was_used_last_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (data_set(dir.path(), 6), data_set(dir.path(), 5));
        let names = [&old, &new].map(|s| s.manifest().digest());
        let bytes = |store: &DirectoryStore| {
            let bricks = store.manifest().grid().bricks();
            bricks.map(|b| store.manifest().brick_bytes(b)).sum::<u64>()
        };
        let room = bytes(&new) + bytes(&old) / 2;
        let at = dir.path().join("shelf");
        let shelf = DiskShelf::open(&at, room).unwrap();
        for store in [&old, &new] {
            BrickShelf::open(&shelf, store.manifest()).unwrap();
        }
        let mut refused = 0;
        for brick in old.manifest().grid().bricks() {
            put(&shelf, &old, brick);
        }
        for brick in new.manifest().grid().bricks() {
            let written = shelf.write(names[1], brick, &new.read(brick).unwrap());
            refused += usize::from(written.is_err());
            assert!(shelf.contents().0 <= room);
        }
        assert!(refused > 0, "both are open");
        shelf.close(names[0]);
        for brick in new.manifest().grid().bricks() {
            put(&shelf, &new, brick);
            assert!(shelf.contents().0 <= room);
        }
        let all = new.manifest().grid().brick_count() as usize;
        assert_eq!(files(&at, names[1]), all);
        assert!(files(&at, names[0]) > 0);
        drop(shelf);
        let manifest = at.join(names[0].to_string()).join(MANIFEST);
        let manifest = File::options().append(true).open(manifest).unwrap();
        manifest.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let smaller = DiskShelf::open(&at, bytes(&new)).unwrap();
        assert_eq!((files(&at, names[0]), files(&at, names[1])), (0, all));
        assert!(smaller.contents().0 <= bytes(&new));
    }

    #[test]
    fn a_folder_that_is_no_shelf_or_anothers_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |at: &Path, parts: &[&str]| {
            let why = DiskShelf::open(at, 9).unwrap_err().to_string();
            let parts = parts.iter().copied().chain([at.to_str().unwrap()]);
            parts.for_each(|p| assert!(why.contains(p), "{why}"));
        };
        let full = dir.path().join("data");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("thesis.txt"), "mine").unwrap();
        refused(&full, &["thesis.txt", "empty folder"]);
        assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
        refused(&full.join("thesis.txt"), &["--disk-dir"]);
        let at = dir.path().join("shelf");
        let shelf = DiskShelf::open(&at, 9).unwrap();
        refused(&at, &["another peer uses it"]);
        drop(shelf);
        fs::write(at.join(MARK), "brickmesh shelf 7\n").unwrap();
        refused(&at, &["shelf 7", "another version"]);
    }

    #[test]
    fn what_cannot_be_used_is_left_as_it_is_and_what_others_made_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let store = data_set(dir.path(), 6);
        let (manifest, at) = (store.manifest(), dir.path().join("shelf"));
        let name = manifest.digest();
        let all: Vec<BrickIndex> = manifest.grid().bricks().collect();
        let shelf = DiskShelf::open(&at, 1 << 20).unwrap();
        BrickShelf::open(&shelf, manifest).unwrap();
        all.iter().for_each(|&b| put(&shelf, &store, b));
        drop(shelf);
        let folder = at.join(name.to_string());
        let there = files(&at, name);
        // Without a manifest, or with a part of one, the bricks are of use once the data set is known again.
        fs::remove_file(folder.join(MANIFEST)).unwrap();
        drop(DiskShelf::open(&at, 1 << 20).unwrap());
        fs::write(folder.join(MANIFEST), "{").unwrap();
        let shelf = DiskShelf::open(&at, 1 << 20).unwrap();
        assert!(shelf.manifests().is_empty() && files(&at, name) == there);
        let known = BrickShelf::open(&shelf, manifest).unwrap();
        assert_eq!(known, all);
        // A folder in the place of a brick keeps no other from being written.
        let path = brick_path(&folder, manifest.brick_digest(all[0]));
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(path.join("full")).unwrap();
        let bytes = store.read(all[0]).unwrap();
        let failed = shelf.write(name, all[0], &bytes);
        assert!(matches!(failed, Err(WriteError::Failed(_))), "{failed:?}");
        put(&shelf, &store, all[1]);
        // Taken away while it is used.
        fs::remove_dir_all(&folder).unwrap();
        put(&shelf, &store, all[1]);
        drop(shelf);
        // A link leads elsewhere.
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(folder.join(BRICKS), &elsewhere).unwrap();
        fs::write(elsewhere.join("thesis.txt"), "mine").unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.join(BRICKS)).unwrap();
        let shelf = DiskShelf::open(&at, 1 << 20).unwrap();
        assert_eq!(shelf.contents(), (0, 0));
        assert!(BrickShelf::open(&shelf, manifest).is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 2);
    }
}

//! Bricks in pack files, one behind the other, equal ones once.
//!
//! Shapes: the folder of the bricks holds `0.pack`, `1.pack` …, and `places`: of each brick in index order where it begins, 8 bytes,
//! little-endian, in units of bytes, as if each pack were [`PACK_BYTES`] long; then the BLAKE3 digest of all before it. No brick lies in two
//! packs. In which order bricks lie in them is not said.
//! Invariant: what is read is as long as was asked for; what it is, its reader checks.

use super::{BrickStoreError, direct_read, manifest_file::IMPORT_AGAIN};
use crate::{bounded_file, free_memory::file_cache_bytes};
use brickmesh_topology::{BrickIndex, Digest};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fmt::Display,
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Most bytes of a pack, more than any brick has: what is damaged or copied again is no more than that.
const PACK_BYTES: u64 = 1 << 30;
/// File of the places.
const PLACES: &str = "places";
const PLACE_BYTES: usize = size_of::<u64>();
const DIGEST_BYTES: usize = 32;

/// Where bricks lie.
#[derive(Debug)]
pub(super) struct Packs {
    folder: PathBuf,
    /// Of each brick, in index order.
    places: Vec<u64>,
    /// The system cannot keep them in memory.
    is_direct: bool,
}

impl Packs {
    /// Those in a folder, of so many bricks.
    ///
    /// # Errors
    /// [`BrickStoreError`] where the places cannot be read or are damaged.
    pub(super) fn open(folder: &Path, bricks: u32) -> Result<Self, BrickStoreError> {
        let path = folder.join(PLACES);
        let wrong = |why: &dyn Display| BrickStoreError::Manifest {
            path: path.clone(),
            why: format!("{why}; {IMPORT_AGAIN}"),
        };
        let expected = bricks as usize * PLACE_BYTES + DIGEST_BYTES;
        let bytes = bounded_file::read_regular(&path, expected as u64);
        let bytes = bytes.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge => wrong(&error),
            _ => BrickStoreError::io(&path)(error),
        })?;
        let found = bytes.len();
        let (places, digest) = bytes
            .split_last_chunk::<DIGEST_BYTES>()
            .filter(|_| found == expected)
            .ok_or_else(|| wrong(&format_args!("it has {found} bytes, expected {expected}")))?;
        if Digest::of(places).as_bytes() != digest {
            return Err(wrong(&"it is damaged: it has another digest than it says"));
        }
        let places = places.as_chunks::<PLACE_BYTES>().0.iter();
        let packs = (0..).map(|pack| pack_path(folder, pack).metadata());
        let bytes: u64 = packs.map_while(Result::ok).map(|m| m.len()).sum();
        Ok(Self {
            is_direct: bytes > file_cache_bytes(),
            folder: folder.to_owned(),
            places: places.map(|place| u64::from_le_bytes(*place)).collect(),
        })
    }

    /// Where a brick begins, beyond all packs if it is not in the grid.
    pub(super) fn place(&self, brick: BrickIndex) -> u64 {
        self.places
            .get(brick.0 as usize)
            .copied()
            .unwrap_or(u64::MAX)
    }

    /// The pack that a brick lies in.
    pub(super) fn path(&self, brick: BrickIndex) -> PathBuf {
        pack_path(&self.folder, self.place(brick) / PACK_BYTES)
    }

    /// So many bytes from where a brick begins, or as many as there are.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn read(&self, brick: BrickIndex, length: u64) -> io::Result<Vec<u8>> {
        let path = self.path(brick);
        let mut pack = bounded_file::open_regular(&path)?;
        let start = self.place(brick) % PACK_BYTES;
        let there = pack.metadata()?.len().saturating_sub(start).min(length);
        if self.is_direct
            && let Ok(there) = usize::try_from(there)
            && let Ok(bytes) = direct_read::read(&path, start, there)
        {
            return Ok(bytes);
        }
        pack.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(there).unwrap_or(usize::MAX))?;
        pack.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn pack_path(folder: &Path, pack: u64) -> PathBuf {
    folder.join(format!("{pack}.pack"))
}

/// Writes packs, and their places at last.
#[derive(Debug)]
pub(super) struct PackWriter {
    folder: PathBuf,
    writing: Mutex<Writing>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Writing {
    /// Where the next brick begins.
    end: u64,
    /// Of each different brick.
    known: HashMap<Digest, u64>,
    places: Vec<u64>,
    /// How many packs there are, how many of them are on the disk, and the last one.
    count: u64,
    synced: u64,
    #[serde(skip)]
    last: Option<Arc<File>>,
}

impl Writing {
    /// Bytes of a pack: of one before the last one, at least.
    fn length_of(&self, pack: u64) -> u64 {
        if pack + 1 == self.count {
            self.end.saturating_sub(pack * PACK_BYTES)
        } else {
            1
        }
    }
}

impl PackWriter {
    /// Makes the folder; packs that are in it are taken away.
    ///
    /// # Errors
    /// [`BrickStoreError::Io`].
    pub(super) fn new(folder: &Path) -> Result<Self, BrickStoreError> {
        fs::create_dir_all(folder).map_err(BrickStoreError::io(folder))?;
        Self::going_on(folder, Writing::default()).map_err(BrickStoreError::io(folder))
    }

    /// As [`Self::new`], where so much is written; what was written behind it is taken away.
    ///
    /// # Errors
    /// What the system says, or that there is less.
    pub(super) fn going_on(folder: &Path, mut writing: Writing) -> io::Result<Self> {
        for pack in 0..writing.count {
            let found = fs::metadata(pack_path(folder, pack))?.len();
            let expected = writing.length_of(pack);
            if found < expected {
                let why = format!("{pack}.pack has {found} bytes, expected {expected}");
                return Err(io::Error::other(why));
            }
        }
        if let Some(last) = writing.count.checked_sub(1) {
            let file = File::options().write(true).open(pack_path(folder, last))?;
            file.set_len(writing.length_of(last))?;
            writing.last = Some(Arc::new(file));
        }
        let beyond = (writing.count..).map(|pack| pack_path(folder, pack));
        for path in beyond.take_while(|path| path.exists()) {
            fs::remove_file(&path)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            writing: Mutex::new(writing),
        })
    }

    /// What is to be known to go on behind what is written.
    pub(super) fn written(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all packs are on the disk, as long as it may go on.
    ///
    /// # Errors
    /// [`BrickStoreError::Io`], or [`BrickStoreError::Stopped`].
    pub(super) fn sync(&self, may_go_on: &mut dyn FnMut() -> bool) -> Result<(), BrickStoreError> {
        let mut writing = self.written();
        for pack in writing.synced..writing.count {
            if !may_go_on() {
                return Err(BrickStoreError::Stopped);
            }
            let path = pack_path(&self.folder, pack);
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(BrickStoreError::io(&path))?;
        }
        // The last one grows yet.
        writing.synced = writing.count.saturating_sub(1);
        Ok(())
    }

    /// Adds a brick with these bytes, on any thread, in any order.
    ///
    /// # Errors
    /// [`BrickStoreError::Io`].
    pub(super) fn add(
        &self,
        brick: BrickIndex,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<(), BrickStoreError> {
        let Some((pack, place)) = self.reserve(brick, digest, bytes.len() as u64)? else {
            return Ok(());
        };
        let path = pack_path(&self.folder, place / PACK_BYTES);
        write_at(&pack, bytes, place % PACK_BYTES).map_err(BrickStoreError::io(&path))
    }

    /// Where so many bytes of a brick go; `None`: they are there.
    fn reserve(
        &self,
        brick: BrickIndex,
        digest: Digest,
        length: u64,
    ) -> Result<Option<(Arc<File>, u64)>, BrickStoreError> {
        let mut writing = self.written();
        let index = brick.0 as usize;
        if writing.places.len() <= index {
            writing.places.resize(index + 1, u64::MAX);
        }
        if let Some(&place) = writing.known.get(&digest) {
            writing.places[index] = place;
            return Ok(None);
        }
        let mut place = writing.end;
        if place % PACK_BYTES + length > PACK_BYTES {
            place = place.next_multiple_of(PACK_BYTES);
        }
        let pack = match &writing.last {
            Some(pack) if writing.count > place / PACK_BYTES => Arc::clone(pack),
            _ => {
                let path = pack_path(&self.folder, writing.count);
                let pack = File::create_new(&path).map_err(BrickStoreError::io(&path))?;
                let pack = Arc::new(pack);
                writing.count += 1;
                // Threads that still write to the one before have it, too.
                writing.last = Some(Arc::clone(&pack));
                pack
            }
        };
        writing.end = place + length;
        writing.known.insert(digest, place);
        writing.places[index] = place;
        Ok(Some((pack, place)))
    }

    /// Waits until all is on the disk, as long as it may go on; then the places are there, too.
    ///
    /// # Errors
    /// [`BrickStoreError::Io`], or [`BrickStoreError::Stopped`].
    pub(super) fn finish(
        &self,
        may_go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), BrickStoreError> {
        self.sync(may_go_on)?;
        let mut bytes: Vec<u8> = (self.written().places.iter())
            .flat_map(|p| p.to_le_bytes())
            .collect();
        let digest = Digest::of(&bytes);
        bytes.extend(digest.as_bytes());
        write_file(&self.folder.join(PLACES), &bytes)
    }
}

/// A file, on the disk, in place of one that a killed import left.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BrickStoreError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(BrickStoreError::io(path))
}

/// Several threads write at a time.
#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.write_all_at(bytes, at)
}

#[cfg(not(unix))]
fn write_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt as _;
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, at)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        (bytes, at) = (&bytes[written..], at + written as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_by_several_threads_is_read_again_and_equal_bricks_lie_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let of = |brick: u32| vec![u8::try_from(brick % 7).unwrap(); 1000 + brick as usize % 7];
        let writer = PackWriter::new(folder.path()).unwrap();
        std::thread::scope(|scope| {
            for first in 0..4 {
                let writer = &writer;
                scope.spawn(move || {
                    for brick in (first..100).step_by(4) {
                        let bytes = of(brick);
                        let added = writer.add(BrickIndex(brick), Digest::of(&bytes), &bytes);
                        added.unwrap();
                    }
                });
            }
        });
        writer.finish(&mut || true).unwrap();
        let mut packs = Packs::open(folder.path(), 100).unwrap();
        for is_direct in [packs.is_direct, true] {
            packs.is_direct = is_direct;
            for brick in 0..100 {
                let length = 1000 + u64::from(brick) % 7;
                assert_eq!(packs.read(BrickIndex(brick), length).unwrap(), of(brick));
            }
        }
        let length = fs::metadata(folder.path().join("0.pack")).unwrap().len();
        assert_eq!(length, (0..7).map(|n| 1000 + n).sum::<u64>());
        let beyond = packs.read(BrickIndex(100), 9);
        assert!(beyond.is_err());
    }

    #[test]
    fn a_brick_that_does_not_fit_lies_in_the_next_pack() {
        let folder = tempfile::tempdir().unwrap();
        let writer = PackWriter::new(folder.path()).unwrap();
        writer.add(BrickIndex(9), Digest::of(b"a"), b"a").unwrap();
        writer.writing.lock().unwrap().end = PACK_BYTES - 9;
        for (brick, length) in [(0, 9), (1, 9), (2, 5)] {
            let bytes = vec![brick; length];
            let brick = BrickIndex(brick.into());
            writer.add(brick, Digest::of(&bytes), &bytes).unwrap();
        }
        writer.finish(&mut || true).unwrap();
        let packs = Packs::open(folder.path(), 10).unwrap();
        let read = |brick, length| {
            (
                packs.path(BrickIndex(brick)),
                packs.read(BrickIndex(brick), length).unwrap(),
            )
        };
        let in_pack = |pack| pack_path(folder.path(), pack);
        assert_eq!(read(0, 9), (in_pack(0), vec![0; 9]));
        assert_eq!(read(1, 9), (in_pack(1), vec![1; 9]));
        assert_eq!(read(2, 9), (in_pack(1), vec![2; 5]), "as many as there are");
    }

    #[test]
    fn places_that_were_cut_or_changed_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let absent = Packs::open(folder.path(), 1).unwrap_err().to_string();
        assert!(
            absent.contains(PLACES) && absent.contains(IMPORT_AGAIN),
            "{absent}"
        );
        let writer = PackWriter::new(folder.path()).unwrap();
        writer.add(BrickIndex(0), Digest::of(b"a"), b"a").unwrap();
        let stopped = writer.finish(&mut || false);
        assert!(matches!(stopped, Err(BrickStoreError::Stopped)));
        writer.finish(&mut || true).unwrap();
        let path = folder.path().join(PLACES);
        let good = fs::read(&path).unwrap();
        let mut changed = good.clone();
        changed[3] ^= 1;
        for (bytes, bricks, why) in [
            (&good[..], 2, "has 40 bytes, expected 48"),
            (&good[..39], 1, "has 39 bytes"),
            (&changed, 1, "digest"),
            (&[&good[..], &[0]].concat(), 1, "more than 40 bytes"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = Packs::open(folder.path(), bricks).unwrap_err().to_string();
            let parts = [why, IMPORT_AGAIN, &path.display().to_string()];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}

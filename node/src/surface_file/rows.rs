//! Lists that grow: in memory as far as they may, beyond that in a scratch file each. What of a mesh does not fit into memory is there.
//!
//! Invariants: all lists of one [`Spill`] together have no more bytes of whole blocks in memory than it says; each has [`CACHED_BLOCKS`] blocks of
//! its file beside. A scratch file has no name, and is gone with its list.

use crate::{scratch::Scratch, stop::GoesOn};
use std::{
    env, fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Rows of a block: what is read and written at once.
const BLOCK_ROWS: usize = 1 << 10;
/// Blocks of its file that a list has in memory after they were read.
const CACHED_BLOCKS: usize = 32;

/// How much memory meshes may take while they are read and cut, and where what does not fit goes.
#[derive(Clone)]
pub struct Spill(Arc<SpillParts>);

struct SpillParts {
    bytes_max: u64,
    /// Of what lists may have in memory.
    left: AtomicU64,
    folder: PathBuf,
    goes_on: GoesOn,
}

impl fmt::Debug for Spill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpillParts {
            bytes_max, folder, ..
        } = &*self.0;
        f.debug_struct("Spill")
            .field("bytes_max", bytes_max)
            .field("folder", folder)
            .finish_non_exhaustive()
    }
}

/// Why a list does not go on.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// A scratch file cannot be made, written or read.
    #[error("{}: {source}; triangles that do not fit into memory go there: see that there is room, or name another folder (TMPDIR, of an import --out)", folder.display())]
    Io {
        /// Folder of the scratch files.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was not to go on.
    #[error("stopped")]
    Stopped,
}

impl Spill {
    /// So many bytes of memory, half of them for lists, a quarter for tables, a quarter for triangles that are cut; scratch files in a folder.
    /// It goes on as long as it may.
    #[must_use]
    pub fn new(bytes_max: u64, folder: PathBuf, goes_on: GoesOn) -> Self {
        Self(Arc::new(SpillParts {
            bytes_max,
            left: AtomicU64::new(bytes_max / 2),
            folder,
            goes_on,
        }))
    }

    /// The same, scratch files in the system's folder for them.
    #[must_use]
    pub fn in_temp(bytes_max: u64, goes_on: GoesOn) -> Self {
        Self::new(bytes_max, env::temp_dir(), goes_on)
    }

    /// What lists may have in memory together, bytes.
    #[must_use]
    pub fn list_bytes_max(&self) -> u64 {
        self.0.bytes_max / 2
    }

    /// What a table may take while it is needed, bytes.
    #[must_use]
    pub fn table_bytes_max(&self) -> u64 {
        self.0.bytes_max / 4
    }

    /// What triangles that are cut may take, bytes.
    #[must_use]
    pub fn cut_bytes_max(&self) -> u64 {
        self.0.bytes_max / 4
    }

    /// Folder of the scratch files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// What went wrong with a scratch file.
    pub(crate) fn error(&self, source: io::Error) -> ScratchError {
        let folder = self.0.folder.clone();
        ScratchError::Io { folder, source }
    }

    /// Looks whether to go on.
    pub(crate) fn check(&self) -> Result<(), ScratchError> {
        if (self.0.goes_on)() {
            Ok(())
        } else {
            Err(ScratchError::Stopped)
        }
    }

    fn reserve(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        let taken = (self.0.left).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok()
    }

    fn release(&self, bytes: u64) {
        self.0.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A list of plain rows. See the module.
#[derive(Debug)]
pub(super) struct Rows<T> {
    spill: Spill,
    /// Whole blocks, in order; nothing: in the file, at its place.
    blocks: Vec<Option<Box<[T]>>>,
    /// Rows behind them, fewer than a block.
    tail: Vec<T>,
    /// Bytes of blocks in memory.
    taken: u64,
    file: Option<Scratch>,
    /// Blocks that were read, by the lowest bits of their numbers.
    cached: Vec<Option<(usize, Box<[T]>)>>,
}

impl<T: bytemuck::Pod> Rows<T> {
    /// Empty.
    pub(super) fn new(spill: &Spill) -> Self {
        Self {
            spill: spill.clone(),
            blocks: Vec::new(),
            tail: Vec::new(),
            taken: 0,
            file: None,
            cached: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len() * BLOCK_ROWS + self.tail.len()
    }

    /// Puts a row behind the others.
    pub(super) fn push(&mut self, row: T) -> Result<(), ScratchError> {
        self.tail.push(row);
        if self.tail.len() < BLOCK_ROWS {
            return Ok(());
        }
        self.spill.check()?;
        let rows = std::mem::take(&mut self.tail).into_boxed_slice();
        if self.spill.reserve(size_of_val(&*rows) as u64) {
            self.taken += size_of_val(&*rows) as u64;
            self.blocks.push(Some(rows));
            return Ok(());
        }
        self.write(self.blocks.len(), &rows)?;
        self.blocks.push(None);
        Ok(())
    }

    /// The same with several.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = T>) -> Result<(), ScratchError> {
        rows.into_iter().try_for_each(|row| self.push(row))
    }

    /// A row that is there.
    pub(super) fn get(&mut self, at: usize) -> Result<T, ScratchError> {
        let (block, row) = (at / BLOCK_ROWS, at % BLOCK_ROWS);
        match self.blocks.get(block) {
            None => Ok(self.tail[row]),
            Some(Some(rows)) => Ok(rows[row]),
            Some(None) => self.get_read(block, row),
        }
    }

    fn get_read(&mut self, block: usize, row: usize) -> Result<T, ScratchError> {
        self.cached.resize_with(CACHED_BLOCKS, || None);
        if let Some((known, rows)) = &self.cached[block % CACHED_BLOCKS]
            && *known == block
        {
            return Ok(rows[row]);
        }
        let rows = self.read_block(block)?;
        let found = rows[row];
        self.cached[block % CACHED_BLOCKS] = Some((block, rows));
        Ok(found)
    }

    /// Shows every row, in order, to be changed; `change` says whether it was.
    pub(super) fn update<E: From<ScratchError>>(
        &mut self,
        mut change: impl FnMut(usize, &mut T) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.cached.clear();
        for block in 0..self.blocks.len() {
            self.spill.check()?;
            let in_memory = self.blocks[block].take();
            let is_in_memory = in_memory.is_some();
            let mut rows = match in_memory {
                Some(rows) => rows,
                None => self.read_block(block)?,
            };
            let mut all = (block * BLOCK_ROWS..).zip(rows.iter_mut());
            let changed = all.try_fold(false, |any, (at, row)| {
                Ok::<bool, E>(any | change(at, row)?)
            });
            if is_in_memory {
                self.blocks[block] = Some(rows);
                changed?;
            } else if changed? {
                self.write(block, &rows)?;
            }
        }
        let first = self.blocks.len() * BLOCK_ROWS;
        for (at, row) in (first..).zip(self.tail.iter_mut()) {
            change(at, row)?;
        }
        Ok(())
    }

    fn place(block: usize) -> u64 {
        block as u64 * (BLOCK_ROWS * size_of::<T>()) as u64
    }

    fn write(&mut self, block: usize, rows: &[T]) -> Result<(), ScratchError> {
        let spill = &self.spill;
        let write = |file: &mut Option<Scratch>| {
            let file = match file {
                Some(file) => file,
                None => file.insert(Scratch::new(spill.folder())?),
            };
            file.write(Self::place(block), bytemuck::cast_slice(rows))
        };
        write(&mut self.file).map_err(|e| spill.error(e))
    }

    fn read_block(&self, block: usize) -> Result<Box<[T]>, ScratchError> {
        self.spill.check()?;
        let mut rows = vec![T::zeroed(); BLOCK_ROWS].into_boxed_slice();
        let bytes = bytemuck::cast_slice_mut(&mut rows);
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound.into());
        let read = file.and_then(|file| file.read_into(Self::place(block), bytes));
        read.map_err(|e| self.spill.error(e))?;
        Ok(rows)
    }
}

impl<T> Drop for Rows<T> {
    fn drop(&mut self) {
        self.spill.release(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn always() -> GoesOn {
        Arc::new(|| true)
    }

    #[test]
    fn rows_are_the_same_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let block = (BLOCK_ROWS * size_of::<[u64; 3]>()) as u64;
        for blocks in [0, 3, 200] {
            let spill = Spill::new(2 * blocks * block, folder.path().to_owned(), always());
            let mut rows = Rows::new(&spill);
            let count = 100 * BLOCK_ROWS + 7;
            let row = |n: usize| [n as u64, 1, 2];
            rows.extend((0..count).map(row)).unwrap();
            assert_eq!(rows.len(), count);
            assert_eq!(rows.taken, blocks.min(100) * block);
            // Blocks that have the same place among those that were read, too.
            for at in (0..count)
                .step_by(BLOCK_ROWS / 2)
                .chain([5, 32 * BLOCK_ROWS, 5])
            {
                assert_eq!(rows.get(at).unwrap(), row(at));
            }
            let odd = |at, row: &mut [u64; 3]| {
                row[1] = at as u64 % 2;
                Ok::<bool, ScratchError>(at % 2 == 1)
            };
            rows.update(odd).unwrap();
            for at in 0..count {
                assert_eq!(rows.get(at).unwrap(), [at as u64, at as u64 % 2, 2]);
            }
            drop(rows);
            assert_eq!(spill.0.left.load(Ordering::Relaxed), blocks * block);
        }
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "no file has a name");
    }

    #[test]
    fn where_there_is_no_room_it_is_said_where() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let mut rows = Rows::new(&Spill::new(0, gone.clone(), always()));
        let error = rows.extend(0..BLOCK_ROWS as u64).unwrap_err().to_string();
        assert!(error.starts_with(&gone.display().to_string()), "{error}");
        assert!(error.contains("see that there is room"), "{error}");
    }

    #[test]
    fn what_is_not_to_go_on_ends() {
        let goes_on: GoesOn = Arc::new(|| false);
        let mut rows = Rows::new(&Spill::in_temp(1 << 20, goes_on));
        let ended = rows.extend(0..BLOCK_ROWS as u64);
        assert!(matches!(ended, Err(ScratchError::Stopped)));
    }
}

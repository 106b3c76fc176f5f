//! A file without a name, for bytes that do not fit into memory; it is gone with its last user.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Scratch(Mutex<File>);

impl Scratch {
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        tempfile::tempfile_in(folder).map(Mutex::new).map(Self)
    }

    /// Adds bytes; returns where they begin.
    pub(crate) fn add(&self, bytes: &[u8]) -> io::Result<u64> {
        let mut file = self.file();
        let start = file.seek(SeekFrom::End(0))?;
        file.write_all(bytes)?;
        Ok(start)
    }

    /// Writes bytes to a place, also beyond the end.
    pub(crate) fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file();
        file.seek(SeekFrom::Start(start))?;
        file.write_all(bytes)
    }

    pub(crate) fn read(&self, start: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.read_into(start, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads as many bytes as there are to be.
    pub(crate) fn read_into(&self, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut file = self.file();
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(bytes)
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

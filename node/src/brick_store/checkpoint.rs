//! What an import of a file that is not compressed has worked out, written beside its bricks from time to time: after the program was killed, or the power failed, the
//! next one to the same place goes on there. One that fails or is stopped leaves nothing, as if none had been written.
//!
//! Shapes: a file in the folder that is made: the digest of what is imported and how, 32 bytes; what cutters, packs and values wrote; the BLAKE3
//! digest of all before it, 32 bytes.
//! Invariants: what is said to be written is on the disk before; writing takes an eleventh of the time at most.

use super::{
    BrickStoreError,
    importing::{LevelPacks, sync_folder},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Its name in the folder.
const CHECKPOINT: &str = "checkpoint";
const DIGEST_BYTES: usize = 32;
/// Time between two of them, and times that writing one took, at least.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_TIMES: u32 = 10;
/// Written and hashed together.
const BUFFER_BYTES: usize = 1 << 20;

/// See the module.
pub(super) struct Checkpoint<'a> {
    path: PathBuf,
    /// What is imported, and how.
    import: [u8; DIGEST_BYTES],
    packs: &'a LevelPacks<'a>,
    /// `None`: none can be written.
    due: Option<Instant>,
    pause: Duration,
    pause_times: u32,
}

impl<'a> Checkpoint<'a> {
    /// Of an import with these packs into a folder.
    pub(super) fn new(
        folder: &Path,
        import: [u8; DIGEST_BYTES],
        packs: &'a LevelPacks<'a>,
    ) -> Self {
        Self {
            path: folder.join(CHECKPOINT),
            import,
            packs,
            due: Some(Instant::now() + PAUSE),
            pause: PAUSE,
            pause_times: PAUSE_TIMES,
        }
    }

    /// From now on one is written whenever it may be.
    #[cfg(test)]
    pub(super) fn always(mut self) -> Self {
        (self.due, self.pause, self.pause_times) = (Some(Instant::now()), Duration::ZERO, 0);
        self
    }

    /// Writes one, if it is time for that and there is room. An error is of the bricks alone.
    pub(super) fn save_if_due(
        &mut self,
        save: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), BrickStoreError> {
        let start = Instant::now();
        if self.due.is_none_or(|due| start < due) {
            return Ok(());
        }
        self.packs.sync()?;
        let written = self.save(save);
        let now = Instant::now();
        self.due = Some(now + self.pause.max(self.pause_times * (now - start)));
        if let Err(error) = written {
            tracing::warn!(%error, "this import cannot note how far it is: where it is killed, the next one begins anew");
            self.due = None;
            self.remove()?;
        }
        Ok(())
    }

    fn save(
        &self,
        save: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), BrickStoreError> {
        let new = self.new_path();
        let io = BrickStoreError::io(&new);
        let out = Hashing {
            file: File::create(&new).map_err(&io)?,
            hasher: blake3::Hasher::new(),
        };
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        out.write_all(&self.import).map_err(&io)?;
        let end = || {
            self.packs.save(&mut out)?;
            save(&mut out)?;
            let Hashing { mut file, hasher } = out.into_inner()?;
            file.write_all(hasher.finalize().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        end().map_err(io)?;
        sync_folder(self.path.parent().unwrap_or(&self.path))
    }

    fn new_path(&self) -> PathBuf {
        self.path.with_extension("new")
    }

    /// Goes on where one was written. Returns whether there is one.
    pub(super) fn restore(
        &self,
        restore: impl FnOnce(&mut dyn Read) -> io::Result<()>,
    ) -> Result<bool, BrickStoreError> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file,
        };
        let go_on = || {
            let mut file = BufReader::with_capacity(BUFFER_BYTES, file?);
            file.seek(SeekFrom::Start(DIGEST_BYTES as u64))?;
            self.packs.restore(&mut file)?;
            restore(&mut file)
        };
        let path = self.path.clone();
        go_on().map_err(|source| BrickStoreError::GoingOn { path, source })?;
        Ok(true)
    }

    /// There is nothing to go on with any more.
    pub(super) fn remove(&self) -> Result<(), BrickStoreError> {
        for path in [&self.path, &self.new_path()] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(BrickStoreError::io(path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether there is a whole one of this import in a folder that nobody else can write to.
pub(super) fn is_in(folder: &Path, import: [u8; DIGEST_BYTES]) -> bool {
    let is_whole = || {
        if !is_private(folder)? {
            return Ok(false);
        }
        let mut file = File::open(folder.join(CHECKPOINT))?;
        let mut found = [0; DIGEST_BYTES];
        file.read_exact(&mut found)?;
        let Some(body) = file.metadata()?.len().checked_sub(2 * found.len() as u64) else {
            return Ok(false);
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&found);
        hasher.update_reader((&mut file).take(body))?;
        let mut digest = [0; DIGEST_BYTES];
        file.read_exact(&mut digest)?;
        Ok::<bool, io::Error>(found == import && *hasher.finalize().as_bytes() == digest)
    };
    is_whole().unwrap_or(false)
}

#[cfg(unix)]
fn is_private(folder: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(folder.metadata()?.permissions().mode() & 0o077 == 0)
}

#[cfg(not(unix))]
fn is_private(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// A writer of which the digest of all that was written is known.
struct Hashing {
    file: File,
    hasher: blake3::Hasher,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a value.
pub(super) fn write_value(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut out = out;
    rmp_serde::encode::write_named(&mut out, value).map_err(io::Error::other)
}

/// Reads a value that was written so, and no more.
pub(super) fn read_value<T: DeserializeOwned>(from: &mut dyn Read) -> io::Result<T> {
    rmp_serde::from_read(from).map_err(io::Error::other)
}

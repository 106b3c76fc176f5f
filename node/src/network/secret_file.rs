//! Files that only their owner may read: the mesh key and the peer's identity.
//!
//! Invariants: a file that others can read is refused; a file appears whole, with mode 0600, or
//! not at all; of several processes that make the same file at once all get the same bytes; what
//! a file holds is in no error and no log.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// More bytes than any of these files has.
const FILE_BYTES_MAX: u64 = 4096;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretFileError {
    /// It cannot be read or made.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read it.
    #[error(
        "{} has mode {mode:o}, so others can read it: close it with `chmod 600 {}`, and make a new one if somebody may have read it",
        path.display(), path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It holds something else.
    #[error("{} does not hold {expected}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
}

/// The file's bytes; `None` if it is missing.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, SecretFileError> {
    let io_error = |source| SecretFileError::Io {
        path: path.into(),
        source,
    };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io_error)?,
    };
    // A folder can be opened, and closing it to others would do harm.
    if file.metadata().map_err(io_error)?.is_dir() {
        return Err(io_error(io::ErrorKind::IsADirectory.into()));
    }
    // Of the open file, so that nobody can put another in its place in between.
    let mode = open_mode(&file).map_err(io_error)?;
    if mode & 0o077 != 0 {
        let path = path.into();
        return Err(SecretFileError::Open { path, mode });
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(io_error)?;
    Ok(Some(bytes))
}

/// The file's bytes, and whether it was made now of `fresh`, because it was missing.
pub(super) fn read_or_make(path: &Path, fresh: &[u8]) -> Result<(Vec<u8>, bool), SecretFileError> {
    if let Some(bytes) = read(path)? {
        return Ok((bytes, false));
    }
    let io_error = |source| SecretFileError::Io {
        path: path.into(),
        source,
    };
    if make(path, fresh).map_err(io_error)? {
        return Ok((fresh.to_vec(), true));
    }
    // Another process was faster.
    let bytes = read(path)?.ok_or_else(|| io_error(io::ErrorKind::NotFound.into()))?;
    Ok((bytes, false))
}

/// Writes a new file whole or not at all; `false` if there is one by now. Temporary files have
/// mode 0600 from the start.
fn make(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    make_folder(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}

/// Makes the folder, and those that it lies in, where they are missing: the owner's alone.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Permission bits; 0 where the system has none.
#[cfg(unix)]
fn open_mode(file: &File) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt;
    Ok(file.metadata()?.permissions().mode() & 0o777)
}

/// Permission bits; 0 where the system has none.
#[cfg(not(unix))]
fn open_mode(_: &File) -> io::Result<u32> {
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn of_many_who_make_the_file_at_once_one_does_and_all_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/folder/secret");
        let start = Barrier::new(16);
        let results: Vec<(Vec<u8>, bool)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16_u8)
                .map(|n| {
                    let (path, start) = (&path, &start);
                    scope.spawn(move || {
                        start.wait();
                        read_or_make(path, &[n; 32]).unwrap()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(results.iter().all(|(bytes, _)| *bytes == results[0].0));
        assert_eq!(results.iter().filter(|(_, made)| *made).count(), 1);
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "temporary files stay");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_made_for_its_owner_alone_and_refused_when_others_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(read(&path).unwrap().is_none());
        read_or_make(&path, b"hidden").unwrap();
        let made = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(made & 0o777, 0o600);
        for open in [0o644, 0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
            let error = read(&path).unwrap_err();
            assert!(matches!(error, SecretFileError::Open { mode, .. } if mode == open));
            let text = error.to_string();
            assert!(
                text.contains("chmod 600") && !text.contains("hidden"),
                "{text}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_is_called_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path()).unwrap_err();
        assert!(matches!(&error, SecretFileError::Io { source, .. }
            if source.kind() == io::ErrorKind::IsADirectory));
        assert!(!error.to_string().contains("chmod"), "{error}");
    }
}

//! The peer's key: who it is in the network.
//!
//! File: libp2p's protobuf encoding of an ed25519 key, mode 0600. Invariant: the key is never
//! logged and never read from a file that others can read.

use super::NetworkError;
use libp2p::identity::Keypair;
use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

/// More bytes than any key file has.
const KEY_BYTES_MAX: u64 = 4096;

/// The key in the file, made if it is missing; a fresh one without a file.
pub(super) fn load(path: Option<&Path>) -> Result<Keypair, NetworkError> {
    let Some(path) = path else {
        return Ok(Keypair::generate_ed25519());
    };
    let io_error = |source| NetworkError::KeyFile {
        path: path.into(),
        source,
    };
    match File::open(path) {
        Ok(file) => read(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path).map_err(io_error),
        Err(error) => Err(io_error(error)),
    }
}

fn read(path: &Path, file: File) -> Result<Keypair, NetworkError> {
    let io_error = |source| NetworkError::KeyFile {
        path: path.into(),
        source,
    };
    let mode = open_mode(&file).map_err(io_error)?;
    if mode & 0o077 != 0 {
        let path = path.into();
        return Err(NetworkError::KeyFileOpen { path, mode });
    }
    let mut bytes = Vec::new();
    file.take(KEY_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(io_error)?;
    Keypair::from_protobuf_encoding(&bytes)
        .map_err(|_| NetworkError::KeyFileFormat { path: path.into() })
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

/// Writes a new key whole or not at all; temporary files have mode 0600 from the start.
fn create(path: &Path) -> io::Result<Keypair> {
    let key = Keypair::generate_ed25519();
    let bytes = key.to_protobuf_encoding().map_err(io::Error::other)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(&bytes)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_made_once_and_keeps_the_identity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let first = load(Some(&path)).unwrap();
        let second = load(Some(&path)).unwrap();
        assert_eq!(first.public(), second.public());
        assert_ne!(first.public(), load(None).unwrap().public());
    }

    #[cfg(unix)]
    #[test]
    fn a_key_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        load(Some(&path)).unwrap();
        let made = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(made & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = load(Some(&path)).unwrap_err();
        assert!(matches!(
            error,
            NetworkError::KeyFileOpen { mode: 0o640, .. }
        ));
    }

    #[test]
    fn a_file_without_a_key_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"nothing").unwrap();
        let error = load(Some(file.path())).unwrap_err();
        assert!(matches!(error, NetworkError::KeyFileFormat { .. }));
    }
}

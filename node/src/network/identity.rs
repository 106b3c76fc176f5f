//! The peer's identity: who it is in the network.
//!
//! File: libp2p's protobuf encoding of an ed25519 key, mode 0600 (`secret_file`).

use super::{
    NetworkError,
    secret_file::{self, SecretFileError},
    start_error,
};
use libp2p::identity::Keypair;
use std::path::Path;

/// The identity in the file, made if it is missing; a fresh one without a file.
pub(super) fn load(path: Option<&Path>) -> Result<Keypair, NetworkError> {
    let fresh = Keypair::generate_ed25519();
    let Some(path) = path else {
        return Ok(fresh);
    };
    let bytes = fresh
        .to_protobuf_encoding()
        .map_err(|error| start_error(&error))?;
    let (bytes, _) = secret_file::read_or_make(path, &bytes)?;
    let key = Keypair::from_protobuf_encoding(&bytes);
    Ok(key.map_err(|_| SecretFileError::Format {
        path: path.into(),
        expected: "a libp2p identity",
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let first = load(Some(&path)).unwrap();
        let second = load(Some(&path)).unwrap();
        assert_eq!(first.public(), second.public());
        assert_ne!(first.public(), load(None).unwrap().public());
    }

    #[test]
    fn a_damaged_file_is_an_identity_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        load(Some(&path)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let try_bytes = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let loaded = load(Some(&path));
            let is_told = |e: &NetworkError| {
                matches!(e, NetworkError::Identity(SecretFileError::Format { .. }))
            };
            assert!(loaded.as_ref().map_or_else(is_told, |_| true), "{loaded:?}");
        };
        for at in 0..whole.len() {
            try_bytes(&whole[..at]);
            for value in [0, 1, 0x7f, 0x80, 0xff, whole[at] ^ 1, whole[at] ^ 0x80] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                try_bytes(&bytes);
            }
        }
    }

    #[test]
    fn a_file_without_an_identity_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"nothing").unwrap();
        let error = load(Some(file.path())).unwrap_err();
        assert!(matches!(
            error,
            NetworkError::Identity(SecretFileError::Format { .. })
        ));
    }
}

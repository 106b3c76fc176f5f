//! The mesh key: whoever has it is a peer of the mesh, nobody else is.
//!
//! File: one line, `brickmesh-key-1` and 64 hexadecimal digits (256 random bits), mode 0600
//! (`secret_file`).
//!
//! Invariants: the key itself is never logged, never printed and never sent; what admission uses
//! (`admission`) is derived from it in one direction. Nothing here depends on the protocol's
//! version: peers of two versions with one key can tell each other so.
//! Why not libp2p's `pnet`: it encrypts all traffic a second time without authenticating it, and where keys
//! differ neither side learns why nothing is understood.
//! Not here: who somebody is (`identity`); a key says only that he belongs here.

use super::secret_file::{self, SecretFileError};
use crate::config_folder::config_folder;
use std::{
    fmt::{self, Write as _},
    path::{Path, PathBuf},
};

/// Bytes of a key: too many to try, however fast.
const KEY_BYTES: usize = 32;
/// First word of the file; another format would have another number.
const FORMAT: &str = "brickmesh-key-1";
/// Tells this use of the key from any other that may come.
const PROLOGUE_CONTEXT: &str = "brickmesh 2026-11-21 mesh key: prologue of the noise handshake";

/// A mesh key that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeshKeyError {
    /// There is no such file.
    #[error(
        "there is no mesh key at {}: copy it from a machine of the mesh (`brickmesh peer` prints there how), or begin a mesh here with `brickmesh peer`", path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be used.
    #[error("the mesh key {0}")]
    File(#[from] SecretFileError),
    /// No option and nothing in the environment says where the key is.
    #[error("neither XDG_CONFIG_HOME nor HOME is set: say where the mesh key is with --key FILE")]
    NoFolder,
    /// The system has no random numbers to make a key of.
    #[error("no mesh key can be made: the system gives no random numbers ({reason})")]
    NoRandomness {
        /// What the system said.
        reason: String,
    },
}

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct MeshKey([u8; KEY_BYTES]);

impl fmt::Debug for MeshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeshKey(hidden)")
    }
}

impl MeshKey {
    /// A new key of the system's random numbers.
    ///
    /// # Errors
    /// [`MeshKeyError::NoRandomness`].
    pub fn random() -> Result<Self, MeshKeyError> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| MeshKeyError::NoRandomness {
            reason: error.to_string(),
        })?;
        Ok(Self(bytes))
    }

    /// Where the key is if nothing else is said: `$XDG_CONFIG_HOME/brickmesh/mesh.key`, or
    /// `~/.config/brickmesh/mesh.key`.
    ///
    /// # Errors
    /// [`MeshKeyError::NoFolder`].
    pub fn default_path() -> Result<PathBuf, MeshKeyError> {
        let folder = config_folder().ok_or(MeshKeyError::NoFolder)?;
        Ok(folder.join("mesh.key"))
    }

    /// The key in the file.
    ///
    /// # Errors
    /// [`MeshKeyError::Missing`], [`MeshKeyError::File`].
    pub fn load(path: &Path) -> Result<Self, MeshKeyError> {
        let bytes = secret_file::read(path)?;
        let bytes = bytes.ok_or_else(|| MeshKeyError::Missing { path: path.into() })?;
        Self::parse(path, &bytes)
    }

    /// The key in the file, and whether it was made now, because it was missing. Processes that
    /// do this at once get the same key.
    ///
    /// # Errors
    /// [`MeshKeyError::File`], [`MeshKeyError::NoRandomness`].
    pub fn load_or_make(path: &Path) -> Result<(Self, bool), MeshKeyError> {
        let fresh = Self::random()?.text();
        let (bytes, made) = secret_file::read_or_make(path, fresh.as_bytes())?;
        Ok((Self::parse(path, &bytes)?, made))
    }

    /// What both sides of a noise handshake must have mixed in for it to succeed. It gives the
    /// key away no more than a hash does, but admits whoever has it: a secret, too.
    #[must_use]
    pub fn noise_prologue(&self) -> Vec<u8> {
        blake3::derive_key(PROLOGUE_CONTEXT, &self.0).to_vec()
    }

    fn text(&self) -> String {
        let mut text = format!("{FORMAT} ");
        for byte in self.0 {
            // Writing to a string does not fail.
            write!(text, "{byte:02x}").unwrap_or(());
        }
        text.push('\n');
        text
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, MeshKeyError> {
        let key = std::str::from_utf8(bytes).ok().and_then(from_text);
        Ok(key.ok_or_else(|| SecretFileError::Format {
            path: path.into(),
            expected: "one line `brickmesh-key-1` with 64 hexadecimal digits; copy it once more",
        })?)
    }
}

fn from_text(text: &str) -> Option<MeshKey> {
    let mut words = text.split_whitespace();
    let (format, digits) = (words.next()?, words.next()?);
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if format != FORMAT || words.next().is_some() || !plain || digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(MeshKey(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_key_is_made_once_and_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brickmesh/mesh.key");
        let error = MeshKey::load(&path).unwrap_err();
        assert!(matches!(error, MeshKeyError::Missing { .. }), "{error}");
        let (key, made) = MeshKey::load_or_make(&path).unwrap();
        assert!(made);
        assert_eq!(MeshKey::load_or_make(&path).unwrap(), (key.clone(), false));
        assert_eq!(MeshKey::load(&path).unwrap(), key);
        let (other, _) = MeshKey::load_or_make(&folder.path().join("other")).unwrap();
        assert_ne!(other.noise_prologue(), key.noise_prologue());
    }

    #[test]
    fn the_file_is_one_line_and_its_format_stays() {
        let key = MeshKey(std::array::from_fn(|n| u8::try_from(n).unwrap()));
        let text =
            "brickmesh-key-1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
        assert_eq!(key.text(), text);
        assert_eq!(from_text(text), Some(key.clone()));
        assert_eq!(from_text(&text.trim_end().replace(' ', "\t")), Some(key));
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.key");
        let good = MeshKey::load_or_make(&path).unwrap().0.text();
        let digits = good.trim_end().split_once(' ').unwrap().1;
        let wrong = [
            String::new(),
            digits.to_owned(),
            format!("brickmesh-key-2 {digits}"),
            format!("brickmesh-key-1 {}", &digits[1..]),
            format!("brickmesh-key-1 {digits}0"),
            format!("brickmesh-key-1 +{}", &digits[1..]),
            format!("brickmesh-key-1 {digits} more"),
        ];
        for text in wrong {
            fs::write(&path, &text).unwrap();
            let error = MeshKey::load(&path).unwrap_err().to_string();
            assert!(error.contains("mesh.key does not hold"), "{error}");
            assert!(!error.contains(&digits[1..]), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_read_is_refused_with_what_to_do() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.key");
        MeshKey::load_or_make(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        for error in [
            MeshKey::load(&path).unwrap_err().to_string(),
            MeshKey::load_or_make(&path).unwrap_err().to_string(),
        ] {
            assert!(error.contains("has mode 644"), "{error}");
            assert!(error.contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn nothing_shows_the_key() {
        assert_eq!(format!("{:?}", MeshKey([7; 32])), "MeshKey(hidden)");
    }
}

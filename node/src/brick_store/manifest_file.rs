//! The manifest as two files: its JSON, the last field of which is the checksum of all before it, and the pages that say what the bricks
//! are, one behind the other, whose name stands in the JSON. Before version 7 the JSON says that, too.
//!
//! Invariant: a file that was cut off or changed anywhere is refused. The data set's own digest does
//! not tell that: whatever the file says has one.
//! The pages are written first, so that one rename makes or replaces all.

use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::{Digest, Manifest, data::manifest::ManifestParts};
use bytes::Bytes;

/// File of the pages.
pub(super) const PAGES: &str = "bricks.index";
/// What stands before the checksum, and after it.
const BEFORE: &[u8] = b",\"checksum\":\"";
const AFTER: &[u8] = b"\"}";
/// Hex digits of a checksum.
const DIGITS: usize = 64;
pub(super) const IMPORT_AGAIN: &str = "import the volume again";

/// The bytes of the JSON.
///
/// # Errors
/// Where the manifest cannot be JSON.
pub(super) fn encode(manifest: &Manifest) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(manifest.root())?;
    // The brace that ends the object comes after the checksum.
    bytes.pop();
    let checksum = Digest::of(&bytes).to_string();
    bytes.extend_from_slice(BEFORE);
    bytes.extend_from_slice(checksum.as_bytes());
    bytes.extend_from_slice(AFTER);
    Ok(bytes)
}

/// What the bytes of the JSON say, not yet checked, and without the pages.
///
/// # Errors
/// What is wrong with it, and what to do.
pub(super) fn decode(mut bytes: Vec<u8>) -> Result<ManifestParts, String> {
    let sealed = bytes
        .len()
        .checked_sub(BEFORE.len() + DIGITS + AFTER.len())
        .filter(|&end| bytes[end..].starts_with(BEFORE) && bytes.ends_with(AFTER));
    let end = sealed.ok_or_else(|| {
        format!("it does not end with its checksum: it is cut off, or of another version of brickmesh; {IMPORT_AGAIN}")
    })?;
    let digits = &bytes[end + BEFORE.len()..][..DIGITS];
    let expected = Digest::of(&bytes[..end]).to_string();
    if digits != expected.as_bytes() {
        let found = String::from_utf8_lossy(digits);
        return Err(format!(
            "it was changed or is damaged: its checksum is {expected}, it says {found}; {IMPORT_AGAIN}"
        ));
    }
    bytes.truncate(end);
    bytes.push(b'}');
    let parts = serde_json::from_slice(&bytes).map_err(|e| shortened(&e.to_string()))?;
    Ok(ManifestParts {
        pages: Bytes::new(),
        ..parts
    })
}

/// The file of a manifest whose text was changed, with a checksum that is right again.
#[cfg(test)]
pub(super) fn resealed(file: &[u8], change: impl FnOnce(&str) -> String) -> Vec<u8> {
    let end = file.len() - BEFORE.len() - DIGITS - AFTER.len();
    let text = change(std::str::from_utf8(&file[..end]).unwrap());
    let checksum = Digest::of(text.as_bytes()).to_string();
    [text.as_bytes(), BEFORE, checksum.as_bytes(), AFTER].concat()
}

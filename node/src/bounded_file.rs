//! Small files read whole: never more than a bound, whatever their size claims to be; and short
//! errors about them.
//!
//! Invariant: memory follows the bytes that are there, so that a device or a pipe without an end
//! is refused like a file that is too large.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// The bytes of a file of at most `bytes_max`.
///
/// # Errors
/// What the system says; `FileTooLarge` where there are more bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_from(File::open(path)?, bytes_max)
}

/// The same of what is no pipe, which would be waited for, and no device.
///
/// # Errors
/// As [`read()`]; `InvalidInput` where it is one.
pub(crate) fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_from(open_regular(path)?, bytes_max)
}

/// Opens what is no pipe and no device.
///
/// # Errors
/// What the system says; `InvalidInput` where it is one.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let kind = path.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        return File::open(path);
    }
    let why = "it is a pipe or a device, and no file";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn read_from(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    // What the file says of itself saves growing: a device says 0.
    let said = file.metadata()?.len().min(bytes_max);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(said).unwrap_or(usize::MAX))?;
    let read = file
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if read as u64 > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(bytes)
}

/// The text of a file of at most `bytes_max`.
///
/// # Errors
/// As [`read()`]; `InvalidData` where it is no UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.utf8_error()))
}

fn too_large(bytes_max: u64) -> io::Error {
    let why = format!("it has more than {bytes_max} bytes, the most that is read of such a file");
    io::Error::new(io::ErrorKind::FileTooLarge, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        let error = read(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("more than 4 bytes"), "{error}");
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path, 5).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_without_an_end_is_too_large() {
        let error = read(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}

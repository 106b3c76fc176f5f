//! Reads past the system's cache of files: where a data set is larger than the memory for that cache, each read would fill it with what is
//! thrown out before it is asked for again.
//!
//! Shapes: the system reads whole blocks into memory that begins at a multiple of a block.

use std::{fs::OpenOptions, io, path::Path};

/// A multiple of the blocks of all disks.
const BLOCK: usize = 4096;

/// So many bytes of a file from `start` on, or as many as there are.
///
/// # Errors
/// What the system says; also of files that cannot be read like this, as of those in memory.
#[cfg(target_os = "linux")]
pub(super) fn read(path: &Path, start: u64, length: usize) -> io::Result<Vec<u8>> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
    let flags = (OFlags::DIRECT | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let skipped = usize::try_from(start % BLOCK as u64).unwrap_or_default();
    let first = start - skipped as u64;
    let blocks = (skipped + length).next_multiple_of(BLOCK);
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(blocks + BLOCK)?;
    buffer.resize(blocks + BLOCK, 0_u8);
    let aligned = buffer.as_ptr().align_offset(BLOCK);
    let whole = buffer
        .get_mut(aligned..aligned + blocks)
        .ok_or(io::ErrorKind::Unsupported)?;
    let mut found = 0;
    while found < skipped + length {
        match file.read_at(&mut whole[found..], first + found as u64) {
            Ok(0) => break,
            Ok(more) => found += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // The end of the file.
        if found % BLOCK != 0 {
            break;
        }
    }
    let end = aligned + found.min(skipped + length);
    let begin = end.min(aligned + skipped);
    // In place: a second buffer would double what readers need.
    buffer.copy_within(begin..end, 0);
    buffer.truncate(end - begin);
    buffer.shrink_to_fit();
    Ok(buffer)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn read(_: &Path, _: u64, _: usize) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_file_is_read_up_to_its_end() {
        // In memory files cannot be read like this.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let bytes: Vec<u8> = (0..20_000_u32)
            .map(|n| (n % 251).to_le_bytes()[0])
            .collect();
        std::fs::write(&path, &bytes).unwrap();
        let lengths = [0, 1, 4095, 4096, 4097, 9000, 30_000];
        for start in [0, 1, 4095, 4096, 8191, 16_384, 19_999, 20_000, 25_000] {
            for length in lengths {
                let from = start.min(bytes.len());
                let to = (start + length).min(bytes.len());
                match read(&path, start as u64, length) {
                    Ok(found) => assert_eq!(found, bytes[from..to], "{start} {length}"),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput),
                }
            }
        }
        assert!(read(&folder.path().join("none"), 0, 1).is_err());
    }
}

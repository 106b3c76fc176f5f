//! What the program says: answers on standard output, notes on standard error.
//!
//! Invariant: a reader that went away (`brickmesh info … | head -1`) ends nothing: `println!` and
//! `eprintln!` would panic there. Clippy keeps them out of this crate.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write as _},
};

/// Writes a line to standard output, if anybody reads it.
///
/// # Errors
/// Where it cannot be written for any other reason, such as a full disk.
pub fn say(line: impl Display) -> io::Result<()> {
    unless_unread(writeln!(io::stdout(), "{line}"))
        .map_err(|error| io::Error::new(error.kind(), format!("standard output: {error}")))
}

/// Writes a line to standard error, as far as that is possible.
pub fn note(line: impl Display) {
    // There is no other place to say that it was not possible.
    writeln!(io::stderr(), "{line}").unwrap_or_default();
}

fn unless_unread(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
        let failed = |kind: ErrorKind| Err(io::Error::from(kind));
        assert!(unless_unread(Ok(())).is_ok());
        assert!(unless_unread(failed(ErrorKind::BrokenPipe)).is_ok());
        assert!(unless_unread(failed(ErrorKind::StorageFull)).is_err());
    }
}

//! Tests that cannot run here say so by name, past the test runner's capture of output, so that
//! a skipped test never looks like one that passed.

use std::io::Write as _;

/// Says that a test is skipped, and why.
pub fn skip(name: &str, why: &str) {
    // Written to the stream itself: what `println!` prints is hidden for tests that pass.
    let line = format!("skipped {name}: {why}\n");
    if std::io::stderr().write_all(line.as_bytes()).is_err() {
        println!("{line}");
    }
}

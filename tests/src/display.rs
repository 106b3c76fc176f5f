//! A virtual display, and a hand for its mouse and keys. Needs Xvfb, xdotool and ImageMagick's `import`.

use crate::program::Running;
use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

/// A virtual display of this size, and its name.
/// # Errors
/// What is missing on this machine.
///
/// # Panics
/// Where the display has no output.
pub fn display(size: &str) -> Result<(Running, String), String> {
    for tool in ["xdotool", "import"] {
        let found = Command::new(tool)
            .arg("-version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.map_err(|e| format!("{tool}: {e}"))?;
    }
    let mut server = Command::new("Xvfb");
    server.args(["-displayfd", "1", "-screen", "0", &format!("{size}x24")]);
    server.args(["-nolisten", "tcp"]);
    let started = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut server = Running(started.map_err(|e| format!("Xvfb: {e}"))?);
    let mut number = String::new();
    let stdout = server.0.stdout.take().expect("it is piped");
    BufReader::new(stdout)
        .read_line(&mut number)
        .map_err(|e| format!("Xvfb: {e}"))?;
    if number.trim().is_empty() {
        return Err("Xvfb: no display came up".to_owned());
    }
    Ok((server, format!(":{}", number.trim())))
}

/// What a hand does, in xdotool's words.
///
/// # Panics
/// Where that cannot be done.
pub fn hand(display: &str, does: &str) {
    let mut hand = Command::new("xdotool");
    hand.args(does.split_whitespace());
    assert!(
        hand.env("DISPLAY", display)
            .status()
            .is_ok_and(|done| done.success())
    );
}

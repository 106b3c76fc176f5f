//! The viewer's window, on a virtual display with a hand for the mouse: it shows a picture, and
//! a drag turns it. Needs Xvfb, xdotool and ImageMagick's `import`.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_tests::{
    program::{Running, brickmesh, read_png},
    skip::skip,
};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const VOLUME: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/neghip_64x64x64_uint8.raw.gz"
);
/// How long a picture may take to come or to change.
const PATIENCE: Duration = Duration::from_secs(60);

/// A virtual display and its name.
fn display() -> Result<(Running, String), String> {
    for tool in ["xdotool", "import"] {
        let found = Command::new(tool)
            .arg("-version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.map_err(|e| format!("{tool}: {e}"))?;
    }
    let mut server = Command::new("Xvfb");
    server.args([
        "-displayfd",
        "1",
        "-screen",
        "0",
        "480x400x24",
        "-nolisten",
        "tcp",
    ]);
    let started = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut server = Running(started.map_err(|e| format!("Xvfb: {e}"))?);
    let mut number = String::new();
    let stdout = server.0.stdout.take().unwrap();
    BufReader::new(stdout)
        .read_line(&mut number)
        .map_err(|e| format!("Xvfb: {e}"))?;
    if number.trim().is_empty() {
        return Err("Xvfb: no display came up".to_owned());
    }
    Ok((server, format!(":{}", number.trim())))
}

fn screenshot(display: &str, folder: &Path) -> Vec<u8> {
    let path = folder.join("screen.png");
    let mut import = Command::new("import");
    import
        .args(["-window", "root"])
        .arg(format!("PNG32:{}", path.display()));
    assert!(import.env("DISPLAY", display).status().unwrap().success());
    read_png(&path).2
}

fn differing_pixels(a: &[u8], b: &[u8]) -> usize {
    let differ = |(p, q): &(&[u8], &[u8])| (0..3).any(|c| p[c].abs_diff(q[c]) > 24);
    a.chunks_exact(4)
        .zip(b.chunks_exact(4))
        .filter(differ)
        .count()
}

/// Takes screenshots until one is as it should be.
fn wait_for(display: &str, folder: &Path, what: &str, good: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let start = Instant::now();
    loop {
        let screen = screenshot(display, folder);
        if good(&screen) {
            return screen;
        }
        assert!(start.elapsed() < PATIENCE, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn the_window_shows_a_picture_and_a_drag_turns_it() {
    let (_server, display) = match display() {
        Ok(display) => display,
        Err(why) => return skip("the_window_shows_a_picture_and_a_drag_turns_it", &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut view = Command::new(brickmesh());
    view.args([
        "view",
        VOLUME,
        "--size",
        "400x320",
        "--shade",
        "on",
        "--device",
        "cpu",
        "--orbit",
        "30,20,1.6",
    ]);
    let view = view
        .env("DISPLAY", &display)
        .env_remove("WAYLAND_DISPLAY")
        .stderr(Stdio::null())
        .spawn();
    let _view = Running(view.unwrap());
    let lit = |s: &[u8]| s.chunks_exact(4).filter(|p| p[0] > 60).count();
    let before = wait_for(&display, folder.path(), "a picture", |s| lit(s) > 1000);
    let drag = "mousemove 200 160 mousedown 1 mousemove 240 170 mousemove 300 190 mouseup 1";
    let mut hand = Command::new("xdotool");
    hand.args(drag.split_whitespace());
    assert!(hand.env("DISPLAY", &display).status().unwrap().success());
    wait_for(&display, folder.path(), "a turned picture", |s| {
        lit(s) > 1000 && differing_pixels(&before, s) > 2000
    });
}

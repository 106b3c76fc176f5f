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

/// A viewer of the volume on a display.
fn viewer(display: &str) -> Running {
    let mut view = Command::new(brickmesh());
    view.args(["view", VOLUME, "--size", "400x320", "--shade", "on"]);
    view.args(["--device", "cpu", "--orbit", "30,20,1.6"]);
    let view = view
        .env("DISPLAY", display)
        .env_remove("WAYLAND_DISPLAY")
        .stderr(Stdio::null())
        .spawn();
    Running(view.unwrap())
}

/// What a hand does, in xdotool's words.
fn hand(display: &str, does: &str) {
    let mut hand = Command::new("xdotool");
    hand.args(does.split_whitespace());
    assert!(hand.env("DISPLAY", display).status().unwrap().success());
}

fn lit(screen: &[u8]) -> usize {
    screen.chunks_exact(4).filter(|p| p[0] > 60).count()
}

/// Waits until the screen has not changed for a second.
fn at_rest(display: &str, folder: &Path) -> Vec<u8> {
    let (mut last, mut since) = (screenshot(display, folder), Instant::now());
    let start = Instant::now();
    while since.elapsed() < Duration::from_secs(1) {
        assert!(
            start.elapsed() < PATIENCE,
            "the picture does not come to rest"
        );
        std::thread::sleep(Duration::from_millis(100));
        let screen = screenshot(display, folder);
        if screen != last {
            (last, since) = (screen, Instant::now());
        }
    }
    last
}

#[test]
fn the_window_shows_a_picture_and_hands_move_it() {
    let (_server, display) = match display() {
        Ok(display) => display,
        Err(why) => return skip("the_window_shows_a_picture_and_hands_move_it", &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let _view = viewer(&display);
    wait_for(&display, folder.path(), "a picture", |s| lit(s) > 1000);
    // There is no window manager that would.
    hand(&display, "search --name brickmesh windowfocus");
    let first = at_rest(&display, folder.path());
    // Each moves the picture; undone and at rest it is the first again, to the last bit.
    let moves = [
        "mousemove 200 160 mousedown 1 mousemove 240 170 mousemove 300 190 mouseup 1",
        "mousemove 200 160 mousedown 3 mousemove 240 170 mouseup 3",
        "mousemove 100 100 click 4 click 4",
        "key 5",
        "key e key e key e",
    ];
    for does in moves {
        hand(&display, does);
        let moved = |s: &[u8]| lit(s) > 1000 && differing_pixels(&first, s) > 2000;
        wait_for(&display, folder.path(), does, moved);
        let undos = if does.starts_with("key e") { 3 } else { 1 };
        for _ in 0..undos {
            hand(&display, "key ctrl+z");
        }
        let undone = at_rest(&display, folder.path());
        assert_eq!(differing_pixels(&first, &undone), 0, "{does}");
        assert!(first == undone, "{does}: a little is different");
    }
}

//! The viewer's window, on a virtual display with a hand for mouse and keys: it shows a picture, drags
//! turn it, panels change it, and all of that can be undone. Needs Xvfb, xdotool and ImageMagick's
//! `import`.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_tests::{
    display::{display, hand},
    program::{Running, brickmesh, read_png},
    skip::skip,
};
use brickmesh_topology::{VolumeDescription, VoxelType, picture::slice::Slice};
use glam::DVec3;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const VOLUME: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/neghip_64x64x64_uint8.raw.gz"
);
const ORBIT: &str = "30,20,1.6";
/// How long a picture may take to come or to change.
const PATIENCE: Duration = Duration::from_secs(120);

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

/// A viewer of the volume on a display, with a folder for what it remembers.
fn viewer(display: &str, home: &Path, args: &[&str]) -> Running {
    let mut view = Command::new(brickmesh());
    view.args(["view", VOLUME, "--device", "cpu", "--orbit", ORBIT]);
    let view = view
        .args(args)
        .env("DISPLAY", display)
        .env("XDG_CONFIG_HOME", home)
        .env_remove("WAYLAND_DISPLAY")
        .stderr(Stdio::null())
        .spawn();
    Running(view.unwrap())
}

/// A file with a value of its own in each voxel, and these.
fn numbered(folder: &Path, dims: [u32; 3], voxel: VoxelType) -> (PathBuf, Vec<f64>) {
    let count = dims.iter().product::<u32>();
    let value = |i: u32| match voxel {
        VoxelType::U8 => f64::from(i * 7 % 256),
        VoxelType::I16 => f64::from(i % 20_000) - 9_000.0,
        _ => f64::from((i as f32) * 1.1e-3 - 7.0),
    };
    let values: Vec<f64> = (0..count).map(value).collect();
    let mut bytes = Vec::new();
    values.iter().for_each(|v| voxel.append(*v, &mut bytes));
    let name = match voxel {
        VoxelType::U8 => "uint8",
        VoxelType::I16 => "int16",
        _ => "float32",
    };
    let [x, y, z] = dims;
    let path = folder.join(format!("v_{x}x{y}x{z}_{name}.raw"));
    std::fs::write(&path, bytes).unwrap();
    (path, values)
}

#[test]
fn values_under_the_pointer_are_the_voxels_of_the_file() {
    let name = "values_under_the_pointer_are_the_voxels_of_the_file";
    let (_server, display) = match display("960x740") {
        Ok(display) => display,
        Err(why) => return skip(name, &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let dims = [40, 30, 24];
    for (voxel, axis) in [(VoxelType::U8, 2), (VoxelType::I16, 1), (VoxelType::F32, 0)] {
        let (file, values) = numbered(folder.path(), dims, voxel);
        let log = folder.path().join("log");
        let at = 11_u32;
        let mut view = Command::new(brickmesh());
        view.arg("view").arg(&file);
        view.args(["--device", "cpu", "--size", "500x400"]);
        view.args(["--slice", &format!("{}={at}", ["x", "y", "z"][axis])]);
        view.env("DISPLAY", &display)
            .env("XDG_CONFIG_HOME", folder.path())
            .env("RUST_LOG", "brickmesh_node=debug")
            .env_remove("WAYLAND_DISPLAY")
            .stderr(std::fs::File::create(&log).unwrap());
        let _view = Running(view.spawn().unwrap());
        wait_for(&display, folder.path(), "a slice", |s| lit(s) > 1000);
        at_rest(&display, folder.path());
        let volume = VolumeDescription::new(dims, voxel);
        let camera = Slice::on_axis(&volume, axis, at.into()).camera(&volume, (500, 400));
        let seen = camera.view(500, 400).unwrap();
        for n in 0..50_u32 {
            let mut at_voxel = [13 * n % dims[0], 7 * n % dims[1], 11 * n % dims[2]];
            at_voxel[axis] = at;
            let [x, y, z] = at_voxel.map(f64::from);
            let [x, y] = seen.pixel_of(DVec3::new(x, y, z)).unwrap();
            hand(&display, &format!("mousemove {x:.0} {y:.0}"));
            let [x, y, z] = at_voxel.map(|v| v as usize);
            let value = values[x + 40 * (y + 30 * z)];
            let expected = format!("voxel={at_voxel:?} value=Ok(Some({value:?}))");
            let start = Instant::now();
            loop {
                let told = std::fs::read_to_string(&log).unwrap();
                if told.contains(&expected) {
                    break;
                }
                assert!(start.elapsed() < PATIENCE, "{expected} in {told}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn three_slices_cross_where_one_is_clicked_and_are_kept() {
    let name = "three_slices_cross_where_one_is_clicked_and_are_kept";
    let (_server, display) = match display("500x400") {
        Ok(display) => display,
        Err(why) => return skip(name, &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let args = ["--size", "500x400", "--panels", "off"];
    let _view = viewer(&display, folder.path(), &args);
    wait_for(&display, folder.path(), "a picture", |s| lit(s) > 1000);
    hand(&display, "search --name brickmesh windowfocus");
    let first = at_rest(&display, folder.path());
    hand(&display, "mousemove 250 200 key x");
    let are_four = |s: &[u8]| differing_pixels(&first, s) > 5000;
    wait_for(&display, folder.path(), "four pictures", are_four);
    at_rest(&display, folder.path());
    // The pane across z is the upper left one, 249 x 199 pixels. Its slice is seen from -z, y down.
    let volume = VolumeDescription::new([64; 3], VoxelType::U8);
    let camera = Slice::on_axis(&volume, 2, 32.0).camera(&volume, (249, 199));
    let seen = camera.view(249, 199).unwrap();
    let [x, y] = seen.pixel_of(DVec3::new(20.0, 45.0, 32.0)).unwrap();
    hand(&display, &format!("mousemove {x:.0} {y:.0} click 1"));
    // The wheel, up by a notch for press and release each: towards greater z.
    hand(&display, "click 4");
    let kept = folder.path().join("brickmesh/last-session.json");
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(&kept).unwrap_or_default();
        let session: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let cross = &session["slices"]["cross"];
        if cross[0] == 20 && cross[1] == 45 && cross[2].as_u64().is_some_and(|z| z > 32) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{cross} is kept");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Window and level are of the slices, and of all three.
    let before = at_rest(&display, folder.path());
    hand(
        &display,
        "mousemove 60 150 keydown ctrl mousedown 3 mousemove 100 150 mousemove 180 150 mouseup 3 keyup ctrl",
    );
    let pane = |s: &[u8], rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
        let row = |y: usize| s[4 * (500 * y + columns.start)..4 * (500 * y + columns.end)].to_vec();
        rows.flat_map(row).collect::<Vec<u8>>()
    };
    let have_changed = |s: &[u8]| {
        [
            (20..180, 20..230),
            (220..380, 20..230),
            (220..380, 270..480),
        ]
        .into_iter()
        .all(|(rows, columns)| {
            let [was, is] = [&before[..], s].map(|s| pane(s, rows.clone(), columns.clone()));
            differing_pixels(&was, &is) > 500
        })
    };
    wait_for(&display, folder.path(), "another window", have_changed);
    hand(&display, "key ctrl+z key ctrl+z key ctrl+z key ctrl+z");
    wait_for(&display, folder.path(), "all undone", |s| s == first);
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
    let (_server, display) = match display("480x400") {
        Ok(display) => display,
        Err(why) => return skip("the_window_shows_a_picture_and_hands_move_it", &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let args = ["--size", "400x320", "--panels", "off"];
    let _view = viewer(&display, folder.path(), &args);
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
        // To the last bit, once what was told is gone.
        let is_first = |s: &[u8]| s == first;
        wait_for(
            &display,
            folder.path(),
            &format!("{does}, undone"),
            is_first,
        );
    }
}

#[test]
fn tiles_that_are_shown_as_they_come_end_in_the_same_picture() {
    let (_server, display) = match display("480x400") {
        Ok(display) => display,
        Err(why) => return skip("tiles_that_are_shown_as_they_come", &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let args = ["--size", "400x320", "--panels", "off"];
    let whole = {
        let _view = viewer(&display, folder.path(), &args);
        wait_for(&display, folder.path(), "a picture", |s| lit(s) > 1000);
        at_rest(&display, folder.path())
    };
    let args = [&args[..], &["--frameless", "--strategy", "image"]].concat();
    let _view = viewer(&display, folder.path(), &args);
    let is_whole = |s: &[u8]| differing_pixels(&whole, s) == 0;
    wait_for(&display, folder.path(), "the same picture", is_whole);
    hand(&display, "search --name brickmesh windowfocus");
    hand(
        &display,
        "mousemove 200 160 mousedown 1 mousemove 240 170 mousemove 300 190 mouseup 1",
    );
    let moved = |s: &[u8]| lit(s) > 1000 && differing_pixels(&whole, s) > 2000;
    wait_for(&display, folder.path(), "a drag", moved);
    hand(&display, "key ctrl+z");
    wait_for(&display, folder.path(), "the same picture again", is_whole);
}

/// The middles of the handles of the clip box: orange discs.
fn handles(screen: &[u8], width: usize) -> Vec<[usize; 2]> {
    let is_orange = |x: usize, y: usize| {
        let p = &screen[4 * (y * width + x)..][..3];
        p[0] > 240 && (160..190).contains(&p[1]) && (50..80).contains(&p[2])
    };
    let height = screen.len() / 4 / width;
    let is_disc = |x: usize, y: usize| (0..25).all(|i| is_orange(x + i % 5 - 2, y + i / 5 - 2));
    let rows = (2..height - 2).flat_map(|y| (2..width - 2).map(move |x| [x, y]));
    let mut middles: Vec<[usize; 2]> = Vec::new();
    for [x, y] in rows.filter(|[x, y]| is_disc(*x, *y)) {
        if middles
            .iter()
            .all(|m| m[0].abs_diff(x) > 6 || m[1].abs_diff(y) > 6)
        {
            middles.push([x, y]);
        }
    }
    middles
}

#[test]
fn handles_move_the_faces_of_the_clip_box() {
    let size = [420, 360];
    let (_server, display) = match display(&size.map(|n: u32| n.to_string()).join("x")) {
        Ok(display) => display,
        Err(why) => return skip("handles_move_the_faces_of_the_clip_box", &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let args = ["--size", "420x360", "--panels", "off"];
    let mut view = viewer(&display, folder.path(), &args);
    wait_for(&display, folder.path(), "a picture", |s| lit(s) > 500);
    hand(&display, "search --name brickmesh windowfocus");
    // So far away that all of the box is in the picture.
    hand(
        &display,
        "mousemove 210 180 click 5 click 5 click 5 click 5",
    );
    let first = at_rest(&display, folder.path());
    hand(&display, "key b");
    let found = |s: &[u8]| handles(s, 420);
    wait_for(&display, folder.path(), "handles", |s| found(s).len() >= 5);
    let shown = at_rest(&display, folder.path());
    let (middle, [x, y]) = ([210, 180], found(&shown)[0]);
    let half_way = [x.midpoint(middle[0]), y.midpoint(middle[1])];
    hand(
        &display,
        &format!(
            "mousemove {x} {y} sleep 1 mousedown 1 sleep 1 mousemove {} {} sleep 1 mousemove {} {} sleep 1 mouseup 1",
            x.midpoint(half_way[0]),
            y.midpoint(half_way[1]),
            half_way[0],
            half_way[1]
        ),
    );
    // The handle is where the hand has left it.
    let is_moved = |s: &[u8]| {
        found(s)
            .iter()
            .any(|h| h[0].abs_diff(half_way[0]) < 12 && h[1].abs_diff(half_way[1]) < 12)
    };
    wait_for(&display, folder.path(), "a handle moves", is_moved);
    hand(&display, "mousemove 1 1 key b");
    let cut = |s: &[u8]| found(s).is_empty() && differing_pixels(&first, s) > 30;
    wait_for(&display, folder.path(), "what is cut away is gone", cut);
    let edited = at_rest(&display, folder.path());
    let kept = folder.path().join("brickmesh/last-session.json");
    let has_box =
        || std::fs::read_to_string(&kept).is_ok_and(|text| !text.contains("\"bounds\": null"));
    let start = Instant::now();
    while !has_box() {
        assert!(start.elapsed() < PATIENCE, "the box is kept");
        std::thread::sleep(Duration::from_millis(100));
    }
    is_rendered_as(&["--session".as_ref(), kept.as_os_str()], size, &edited);
    hand(&display, "key ctrl+z");
    wait_for(&display, folder.path(), "one undo", |s| s == first);
    assert!(view.0.try_wait().unwrap().is_none(), "it still runs");
}

/// The picture beside the panels.
fn picture_of(screen: &[u8]) -> Vec<u8> {
    let [width, left, _] = PANELS.map(|n| n as usize);
    let rows = screen.chunks_exact(width * 4);
    rows.flat_map(|row| row[..left * 4].to_vec()).collect()
}

/// Size of the display, and where its panels begin.
const PANELS: [u32; 3] = [960, 640, 740];

#[test]
fn panels_edit_the_scene_and_every_edit_can_be_undone() {
    let [width, left, height] = PANELS;
    let picture_size = [left, height];
    let (_server, display) = match display(&format!("{width}x{height}")) {
        Ok(display) => display,
        Err(why) => return skip("panels_edit_the_scene_and_every_edit_can_be_undone", &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let size = format!("{left}x{height}");
    let _view = viewer(&display, folder.path(), &["--size", &size]);
    wait_for(&display, folder.path(), "a picture", |s| {
        lit(&picture_of(s)) > 1000
    });
    hand(&display, "search --name brickmesh windowfocus");
    let first = picture_of(&at_rest(&display, folder.path()));
    let session_of_first = save_session(&display, &folder.path().join("first.json"));
    let session_of_first = std::fs::read(session_of_first).unwrap();

    // Points of the transfer function: where there is none, a drag adds one.
    for n in 0..20 {
        let x = left + 30 + 14 * n;
        let y = 130 + 7 * (n % 5);
        hand(
            &display,
            &format!(
                "mousemove {x} 200 sleep 0.1 mousedown 1 sleep 0.05 mousemove {x} 180 sleep 0.05 mousemove {x} {y} sleep 0.1 mouseup 1 sleep 0.1"
            ),
        );
    }
    let edited = picture_of(&at_rest(&display, folder.path()));
    let session = save_session(&display, &folder.path().join("edited.json"));
    is_rendered_as(
        &["--session".as_ref(), session.as_os_str()],
        picture_size,
        &edited,
    );
    assert!(
        differing_pixels(&first, &edited) > 2000,
        "the function is another"
    );

    let saved = save(&display, folder.path());
    let range = ["--transfer-range", "preset", "--orbit", ORBIT, "--transfer"].map(OsStr::new);
    is_rendered_as(
        &[&range[..], &[saved.as_os_str()]].concat(),
        picture_size,
        &edited,
    );

    hand(&display, "mousemove 300 300 click 1 sleep 0.3");
    for _ in 0..20 {
        hand(&display, "key ctrl+z sleep 0.05");
    }
    let is_first = |s: &[u8]| picture_of(s) == first;
    wait_for(&display, folder.path(), "undone", is_first);
    let undone = save_session(&display, &folder.path().join("undone.json"));
    assert!(std::fs::read(undone).unwrap() == session_of_first, "undone");
    let kept = std::fs::read(folder.path().join("brickmesh/last-session.json")).unwrap();
    assert!(kept == session_of_first, "kept for who loses the window");

    open_another(&display, folder.path());
    let shown = picture_of(&at_rest(&display, folder.path()));
    assert!(differing_pixels(&first, &shown) > 2000 && lit(&shown) > 1000);
}

/// Saves the transfer function by the panel; the file.
fn save(display: &str, folder: &Path) -> PathBuf {
    let left = PANELS[1];
    let (x, y, save) = (left + 84, 373, left + 188);
    let file = folder.join("mine.json");
    let typed = format!(
        "mousemove {x} {y} click 1 sleep 0.3 type {}",
        file.display()
    );
    hand(display, &typed);
    hand(display, &format!("sleep 0.3 mousemove {save} {y} click 1"));
    wait_for_file(&file)
}

/// Saves the session by the menu; the file.
fn save_session(display: &str, file: &Path) -> PathBuf {
    let left = PANELS[1];
    let (open, field, save) = (left + 25, left - 340, left - 69);
    hand(
        display,
        &format!(
            "mousemove {open} 12 click 1 sleep 0.5 mousemove {field} 57 click 1 key ctrl+a sleep 0.2 type {}",
            file.display()
        ),
    );
    hand(display, &format!("sleep 0.3 mousemove {save} 57 click 1"));
    wait_for_file(file)
}

fn wait_for_file(file: &Path) -> PathBuf {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < PATIENCE, "{}", file.display());
        std::thread::sleep(Duration::from_millis(100));
    }
    file.to_owned()
}

/// What is saved makes the same picture elsewhere.
fn is_rendered_as(options: &[&OsStr], [width, height]: [u32; 2], edited: &[u8]) {
    let size = format!("{width}x{height}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.png");
    let mut render = Command::new(brickmesh());
    render.args(["render", VOLUME, "--device", "cpu", "--size", &size]);
    let render = render.args(options).arg("--out").arg(&out);
    assert!(render.stderr(Stdio::null()).status().unwrap().success());
    let rendered = read_png(&out).2;
    let channels = |p: &[u8]| [p[0], p[1], p[2]];
    let apart = edited
        .chunks_exact(4)
        .zip(rendered.chunks_exact(rendered.len() / (edited.len() / 4)));
    let apart = apart.map(|(a, b)| {
        let (a, b) = (channels(a), channels(b));
        (0..3).map(|c| a[c].abs_diff(b[c])).max().unwrap()
    });
    assert!(
        apart.max().unwrap() <= 2,
        "the picture of the saved function"
    );
}

/// Opens another volume, by the menu.
fn open_another(display: &str, folder: &Path) {
    let left = PANELS[1];
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/data/avf.nrrd");
    let (open, field, ok) = (left + 25, left - 340, left - 132);
    hand(
        display,
        &format!(
            "mousemove {open} 12 click 1 sleep 0.5 mousemove {field} 57 click 1 key ctrl+a sleep 0.2 type {other}"
        ),
    );
    hand(display, &format!("sleep 0.3 mousemove {ok} 57 click 1"));
    let start = Instant::now();
    let recent = loop {
        let recent = std::fs::read_to_string(folder.join("brickmesh/recent.json"));
        let recent: Vec<String> = serde_json::from_str(&recent.unwrap()).unwrap();
        if recent.len() == 2 {
            break recent;
        }
        assert!(start.elapsed() < PATIENCE, "another volume is open");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(recent[0].ends_with("avf.nrrd"), "{recent:?}");
}

//! What the program writes, beside single pictures: paths as videos, transparent pictures, overlays.

use brickmesh_node::camera_path_file;
use brickmesh_tests::{
    program::{brickmesh, read_png},
    skip::skip,
};
use brickmesh_topology::{
    Camera, VolumeDescription, VoxelType,
    picture::camera_path::{CameraKey, CameraPath},
};
use std::{
    path::Path,
    process::{Command, Output},
};

const VOLUME: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/neghip_64x64x64_uint8.raw.gz"
);

fn render(folder: &Path, args: &[&str]) -> Command {
    let mut render = Command::new(brickmesh());
    render
        .args(["render", VOLUME, "--device", "cpu"])
        .args(args)
        .current_dir(folder);
    render
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_path_is_a_video_with_its_frames_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let volume = VolumeDescription::new([64; 3], VoxelType::U8);
    let key = |frame, azimuth| CameraKey {
        frame,
        camera: Camera::orbit(&volume, azimuth, 20.0, 1.4),
    };
    let path = CameraPath {
        keys: vec![key(0, 0.0), key(30, 70.0), key(59, 200.0)],
    };
    camera_path_file::write(&path, &folder.path().join("path.json")).unwrap();
    let args = ["--path", "path.json", "--size", "64x48", "--out", "p.png"];
    let film = [&args[..], &["--video", "film.mp4", "--fps", "25"]].concat();
    // Without ffmpeg the pictures stay, and it says so.
    let without = render(folder.path(), &film)
        .env("PATH", "")
        .output()
        .unwrap();
    assert_eq!(without.status.code(), Some(1));
    assert!(said(&without).contains("ffmpeg is not installed; the pictures stay"));
    let picture = |n: u32| read_png(&folder.path().join(format!("p-{n:04}.png")));
    let key_picture = |n: u32| {
        let camera = path.camera(n).unwrap();
        let vector = |v: glam::DVec3| format!("{},{},{}", v.x, v.y, v.z);
        let Camera { eye, at, up, .. } = camera;
        let camera = format!("eye={} at={} up={}", vector(eye), vector(at), vector(up));
        let args = ["--camera", &camera, "--size", "64x48", "--out", "one.png"];
        assert!(
            render(folder.path(), &args)
                .output()
                .unwrap()
                .status
                .success()
        );
        read_png(&folder.path().join("one.png"))
    };
    for n in [0, 30, 44, 59] {
        assert!(picture(n) == key_picture(n), "frame {n}");
    }
    assert!(!folder.path().join("p-0060.png").exists());
    let mut probe = Command::new("ffprobe");
    probe.args(["-v", "error", "-count_frames", "-show_entries"]);
    probe.args([
        "stream=width,height,nb_read_frames,r_frame_rate",
        "-of",
        "csv=p=0",
        "film.mp4",
    ]);
    let probe = probe.current_dir(folder.path());
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        skip("a_path_is_a_video_with_its_frames_and_size", "no ffmpeg");
        return;
    }
    let with = render(folder.path(), &film).output().unwrap();
    assert!(with.status.success(), "{}", said(&with));
    let found = probe.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&found.stdout).trim(),
        "64,48,25/1,60"
    );
}

#[test]
fn a_transparent_picture_over_the_background_is_the_opaque_one() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "--size",
        "80x60",
        "--exposure",
        "1.3",
        "--gamma",
        "1.4",
        "--overlay",
        "box",
    ];
    let picture = |more: &[&str]| {
        let args = [&args[..], more, &["--out", "o.png"]].concat();
        let done = render(folder.path(), &args).output().unwrap();
        assert!(done.status.success(), "{}", said(&done));
        read_png(&folder.path().join("o.png")).2
    };
    let opaque = picture(&["--background", "0.2,0.4,0.8"]);
    let transparent = picture(&["--transparent"]);
    assert!(transparent.chunks_exact(4).any(|p| p[3] == 0));
    assert!(transparent.chunks_exact(4).any(|p| p[3] > 100));
    let background = [51.0, 102.0, 204.0];
    for (over, of) in opaque.chunks_exact(4).zip(transparent.chunks_exact(4)) {
        let alpha = f64::from(of[3]) / 255.0;
        for c in 0..3 {
            let expected = f64::from(of[c]) * alpha + background[c] * (1.0 - alpha);
            // Both are rounded to 8 bits, the transparent one twice.
            assert!(
                (expected - f64::from(over[c])).abs() <= 2.5,
                "{over:?} {of:?}"
            );
        }
    }
}

#[test]
fn a_gradient_goes_from_the_top_to_the_bottom_in_every_band() {
    let folder = tempfile::tempdir().unwrap();
    // So far away that it is the background alone, and so wide that it comes in bands.
    for [width, height] in [[20, 101], [16_384, 401]] {
        let size = format!("{width}x{height}");
        let args = ["--orbit", "0,0,1e-6", "--size", &size, "--out", "o.png"];
        let mut far = render(folder.path(), &args);
        far.args(["--background", "0,0,0", "--background-top", "1,1,1"]);
        assert!(far.output().unwrap().status.success());
        let (_, _, pixels) = read_png(&folder.path().join("o.png"));
        let column: Vec<u8> = pixels.chunks_exact(4 * width).map(|row| row[0]).collect();
        assert!(
            column.windows(2).all(|rows| rows[0] >= rows[1]),
            "{column:?}"
        );
        let ends = [column[0], column[height / 2], column[height - 1]];
        assert!(ends[0] >= 254 && ends[1] == 128 && ends[2] <= 1, "{ends:?}");
    }
}

#[test]
fn every_row_of_a_trace_adds_up_to_its_frame() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "--peers", "3", "--brick", "32", "--frames", "3", "--size", "160x120",
    ];
    let files = ["--out", "o.png", "--trace", "t.json"];
    let args = [&args[..], &files].concat();
    let done = render(folder.path(), &args).output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
    let text = std::fs::read(folder.path().join("t.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans = || events.iter().filter(|e| e["ph"] == "X");
    let of = |frame: u64, pid: u64, tid: u64| {
        spans().filter(move |e| e["args"]["frame"] == frame && e["pid"] == pid && e["tid"] == tid)
    };
    let frames: Vec<_> = spans().filter(|e| e["pid"] == 0).collect();
    assert_eq!(frames.len(), 3);
    for (frame, whole) in (0..).zip(frames) {
        let mut jobs = 0;
        for (pid, tid) in (1..=3).flat_map(|pid| (0..3).map(move |tid| (pid, tid))) {
            let sum: u64 = of(frame, pid, tid).filter_map(|e| e["dur"].as_u64()).sum();
            assert_eq!(sum, whole["dur"].as_u64().unwrap(), "{frame} {pid} {tid}");
            let expected = |e: &&serde_json::Value| e["args"]["expected_us_on_speed_1"].is_u64();
            jobs += of(frame, pid, tid)
                .filter(|e| e["name"] == "job")
                .filter(expected)
                .count();
        }
        assert!(jobs >= 3, "frame {frame} has {jobs} jobs");
    }
    let told = |name: &str| spans().any(|e| e["name"] == name);
    assert!(
        ["schedule", "job", "send", "blend", "wait"]
            .into_iter()
            .all(told)
    );
}

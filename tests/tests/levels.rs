//! Coarser levels of imported volumes, with the program itself.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_tests::{
    compare::compare,
    program::{PeerProcess, brickmesh, imported, read_png, run},
    skip::vulkan_is_there,
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

const NEGHIP: &str = "neghip_64x64x64_uint8.raw.gz";
const VOLUMES: [&str; 3] = [NEGHIP, "hydrogen.vti", "avf.nrrd"];

/// A picture, and its statistics.
fn picture(folder: &Path, source: &Path, more: &[&str]) -> (Vec<u8>, serde_json::Value) {
    let [out, stats] = ["p.png", "p.json"].map(|name| folder.join(name));
    let mut command = Command::new(brickmesh());
    command.arg("render").arg(source).arg("--out").arg(&out);
    command.arg("--stats").arg(&stats).args(more);
    run(&mut command);
    let stats = serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
    (read_png(&out).2, stats)
}

/// What the program says where it fails.
fn refused(arguments: &[&str], more: &[&Path]) -> String {
    let mut command = Command::new(brickmesh());
    let output = command.args(arguments).args(more).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_picture_of_a_level_is_the_same_whoever_renders_it_and_near_the_exact_one() {
    let has_vulkan = vulkan_is_there("a_picture_of_a_level_is_the_same");
    for volume in VOLUMES {
        let (folder, bricks) = imported(volume);
        // From afar: pixels are wider than two voxels.
        let of = |more: &[&str]| {
            let more = [&["--size", "64x64", "--orbit", "30,20,0.3"], more].concat();
            picture(folder.path(), &bricks, &more)
        };
        let (exact, stats) = of(&["--device", "cpu"]);
        assert_eq!(stats["frames"][0]["level"], 0);
        let bytes = |stats: &serde_json::Value| {
            let jobs = stats["frames"][0]["jobs"].as_array().unwrap().iter();
            let bricks: std::collections::BTreeSet<u64> =
                jobs.map(|j| j["brick"].as_u64().unwrap()).collect();
            bricks.len()
        };
        let (coarse, of_auto) = of(&["--device", "cpu", "--quality", "auto"]);
        let level = of_auto["frames"][0]["level"].as_u64().unwrap();
        assert!(level >= 1, "{volume}");
        let psnr = compare(&exact, &coarse).psnr;
        println!(
            "{volume}: level {level}, {psnr:.1} dB, {} of {} bricks",
            bytes(&of_auto),
            bytes(&stats)
        );
        assert!(psnr > 38.0, "{volume}: {psnr} dB");
        assert!(4 * bytes(&of_auto) <= bytes(&stats), "{volume}");
        let level = level.to_string();
        let mut ways = vec![["cpu", "1"], ["cpu", "3"]];
        if has_vulkan {
            ways.push(["vulkan", "2"]);
        }
        for [device, peers] in ways {
            let more = ["--device", device, "--peers", peers, "--quality", &level];
            let max = compare(&coarse, &of(&more).0).max;
            let allowed = if device == "cpu" { 1 } else { 2 };
            assert!(max <= allowed, "{volume}, {device}, {peers} peers: {max}");
        }
    }
}

#[test]
fn what_is_cut_away_and_sliced_is_at_the_same_place_of_every_level() {
    let (folder, bricks) = imported(NEGHIP);
    let of = |more: &[&str], quality: &str| {
        let common = [
            "--size",
            "64x64",
            "--device",
            "cpu",
            "--shade",
            "off",
            "--quality",
            quality,
        ];
        picture(folder.path(), &bricks, &[&common, more].concat()).0
    };
    for (more, least) in [
        (&["--clip", "10,40,0,63,20.5,50"][..], 28.0),
        (&["--clip-plane", "1,0,0,30"], 30.0),
        (&["--slice", "z=0"], 40.0),
        (&["--slice", "x=63"], 40.0),
        (&["--slice", "y=31.5", "--slab", "5"], 27.0),
        (&["--mode", "average"], 38.0),
        (&["--gradient-opacity", "2,20"], 28.0),
    ] {
        let (exact, coarse) = (of(more, "exact"), of(more, "1"));
        let psnr = compare(&exact, &coarse).psnr;
        println!("{more:?}: {psnr:.1} dB");
        assert!(coarse.chunks(4).any(|p| p[..3] != [0; 3]), "{more:?}");
        assert!(psnr > least, "{more:?}: {psnr} dB");
    }
}

#[test]
fn a_deadline_gives_the_finest_level_that_is_there_in_time() {
    let (folder, bricks) = imported(NEGHIP);
    let of = |source: &Path, more: &[&str]| {
        let common = ["--size", "64x64", "--device", "cpu"];
        picture(folder.path(), source, &[&common[..], more].concat())
    };
    let (exact, _) = of(&bricks, &[]);
    let (in_time, stats) = of(&bricks, &["--deadline", "60000"]);
    assert_eq!(stats["frames"][0]["level"], 0);
    assert!(exact == in_time);
    let (coarsest, _) = of(&bricks, &["--quality", "2"]);
    let (at_once, stats) = of(&bricks, &["--deadline", "0"]);
    assert_eq!(stats["frames"][0]["level"], 2);
    assert!(coarsest == at_once);
    // No finer than is asked for.
    let (_, stats) = of(&bricks, &["--deadline", "60000", "--quality", "1"]);
    assert_eq!(stats["frames"][0]["level"], 1);
    // Without levels it is what there is, whenever it comes.
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let (whole, stats) = of(&data.join(NEGHIP), &["--deadline", "0"]);
    assert_eq!(stats["frames"][0]["level"], 0);
    assert!(compare(&exact, &whole).max <= 1);
    assert!(
        refused(
            &["render", "--out", "p.png", "--deadline", "-1"],
            &[&bricks]
        )
        .contains("60000")
    );
}

#[test]
fn levels_that_are_not_there_are_said_to_be_so() {
    let (folder, bricks) = imported(NEGHIP);
    let out = folder.path().join("p.png");
    let render = |volume: &Path, quality: &str| {
        let arguments = ["render", "--device", "cpu", "--quality", quality, "--out"];
        let said = refused(&arguments, &[&out, volume]);
        assert!(!out.exists(), "{said}");
        said
    };
    let said = render(&bricks, "3");
    assert!(said.contains("level 3: the coarsest is 2"), "{said}");
    assert!(render(&bricks, "fine").contains("exact, auto"));
    let plain = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data")
        .join(NEGHIP);
    let said = render(&plain, "1");
    assert!(said.contains("`brickmesh import` makes them"), "{said}");
    // Of a volume without levels auto is exact.
    let (exact, _) = picture(folder.path(), &plain, &["--device", "cpu"]);
    let (auto, stats) = picture(
        folder.path(),
        &plain,
        &["--device", "cpu", "--quality", "auto"],
    );
    assert!(exact == auto && stats["frames"][0]["level"] == 0);
    fs::remove_file(&out).unwrap();
    // Another volume's level in its place, and none.
    let (_other, others) = imported("avf.nrrd");
    let level = bricks.join("levels/1");
    fs::rename(&level, folder.path().join("kept")).unwrap();
    let said = render(&bricks, "1");
    assert!(said.contains("levels/1/manifest.json"), "{said}");
    fs::rename(others.join("levels/1"), &level).unwrap();
    let said = render(&bricks, "1");
    assert!(said.contains("it is no level 1 of"), "{said}");
    // The others can be seen still.
    let (_, stats) = picture(
        folder.path(),
        &bricks,
        &["--device", "cpu", "--quality", "2"],
    );
    assert_eq!(stats["frames"][0]["level"], 2);
}

#[test]
fn a_level_is_seen_by_a_peer_that_has_no_file_of_it() {
    let (folder, bricks) = imported(NEGHIP);
    let common = ["--device", "cpu", "--size", "64x64", "--quality", "1"];
    let (alone, _) = picture(folder.path(), &bricks, &common);
    let key = folder.path().join("mesh.key");
    let peer = PeerProcess::start(|command| {
        command.args([
            "--device",
            "cpu",
            "--memory",
            "64M",
            "--listen",
            "127.0.0.1:0",
        ]);
        command.arg("--key").arg(&key).arg("--data").arg(&bricks);
        command.stderr(Stdio::null());
    });
    let [join, address] = <[String; 2]>::try_from(peer.joining()).unwrap();
    let key = key.display().to_string();
    let mesh = [
        "--mesh",
        "--listen",
        "127.0.0.1:0",
        "--key",
        &key,
        &join,
        &address,
    ];
    let more = [&common[..], &mesh].concat();
    let (of_mesh, stats) = picture(folder.path(), Path::new(NEGHIP), &more);
    assert!(compare(&alone, &of_mesh).max <= 1);
    assert_eq!(stats["volume"]["dims"], serde_json::json!([32, 32, 32]));
}

//! Volumes for which the peers have too little memory, with the program itself: the same pictures as with enough
//! of it.

use brickmesh_shaders::device::vulkan::{VulkanKind, enumerate};
use brickmesh_tests::{
    compare::compare,
    program::{PeerProcess, brickmesh, damage_brick, imported, read_png, run},
    reference::Field,
    skip::vulkan_is_there,
};
use brickmesh_topology::{
    VolumeDescription,
    data::volume::VoxelType,
    picture::camera::{Camera, Projection},
};
use flate2::read::GzDecoder;
use glam::DVec3;
use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    path::Path,
    process::{Command, Stdio},
};

/// Volumes of `tests/data`, and memory for about a tenth of their bricks of 16³, or for the two bricks at least that
/// a peer needs.
const VOLUMES: [(&str, &str); 3] = [
    ("neghip_64x64x64_uint8.raw.gz", "48K"),
    ("hydrogen.vti", "200K"),
    ("avf.nrrd", "96K"),
];

fn render(bricks: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(brickmesh());
    command.arg("render").arg(bricks).arg("--out").arg(out);
    command.args(["--size", "160x160", "--frames", "3", "--spin", "15"]);
    command.args(more);
    command
}

/// Memory of each of three peers that hold its levels, too, and read the rest.
const SHARED_MEMORY: &str = "96K";

/// A GPU's images of so small bricks take up to eight times as much as their voxels.
fn memory_on(device: &str, kibibytes: &str) -> String {
    let is_gpu = device == "vulkan"
        && enumerate().is_ok_and(|all| all.iter().any(|d| d.kind != VulkanKind::Cpu));
    let of_voxels: Result<u32, _> = kibibytes.trim_end_matches('K').parse();
    let of_voxels = of_voxels.expect("a number and a K");
    format!("{}K", of_voxels * if is_gpu { 8 } else { 1 })
}

/// The devices that are there.
fn devices(test: &str) -> Vec<&'static str> {
    let mut devices = vec!["cpu"];
    devices.extend(vulkan_is_there(test).then_some("vulkan"));
    devices
}

/// The three pictures.
fn pictures(out: &Path) -> [Vec<u8>; 3] {
    let name = out.with_extension("");
    [0, 1, 2].map(|n| read_png(Path::new(&format!("{}-{n:04}.png", name.display()))).2)
}

fn assert_alike(some: &[Vec<u8>; 3], others: &[Vec<u8>; 3], what: &str) {
    for (n, (one, other)) in some.iter().zip(others).enumerate() {
        let max = compare(one, other).max;
        assert!(max <= 1, "{what}, picture {n}: they differ by {max} of 255");
    }
}

#[test]
fn with_memory_for_a_tenth_of_the_bricks_the_pictures_are_the_same() {
    for device in devices("with_memory_for_a_tenth_of_the_bricks") {
        for (volume, memory) in VOLUMES {
            let memory = &memory_on(device, memory);
            let (folder, bricks) = imported(volume);
            let out = folder.path().join("p.png");
            run(&mut render(&bricks, &out, &["--device", device]));
            let whole = pictures(&out);
            assert!(
                whole[0].iter().any(|&c| c > 100 && c < 255),
                "it shows something"
            );
            for peers in ["1", "3"] {
                let more = ["--device", device, "--memory", memory, "--peers", peers];
                let said = run(&mut render(&bricks, &out, &more));
                let what = format!("{volume} on {device}, {peers} peers");
                assert!(said.contains("read for each frame"), "{what}: {said}");
                assert_alike(&whole, &pictures(&out), &format!("{what}: {said}"));
            }
        }
    }
}

/// Nothing is seen behind these values.
const OPAQUE: &str = r#"{"points": [
    {"value": 20, "color": [0.9, 0.6, 0.3], "opacity": 0},
    {"value": 40, "color": [0.9, 0.8, 0.5], "opacity": 1},
    {"value": 255, "color": [1, 1, 1], "opacity": 1}
]}"#;

/// The bricks of 8³ of neghip that some ray of a picture of 160² comes to with light left, for a camera at this place.
#[expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may fail by a panic; numbers of bricks are small and not negative"
)]
fn reached(data: &Path, eye: DVec3) -> BTreeSet<u64> {
    let mut voxels = Vec::new();
    let mut file = GzDecoder::new(fs::File::open(data).unwrap());
    file.read_to_end(&mut voxels).unwrap();
    let field = Field {
        volume: VolumeDescription::new([64; 3], VoxelType::U8),
        stored: voxels.into_iter().map(f64::from).collect(),
    };
    let camera = Camera {
        eye,
        at: DVec3::splat(31.5),
        up: DVec3::Z,
        fov_degrees: 30.0,
        projection: Projection::default(),
    };
    let view = camera.view(160, 160).unwrap();
    let mut reached = BTreeSet::new();
    for (x, y) in (0..160_u32).flat_map(|y| (0..160_u32).map(move |x| (x, y))) {
        let ray = view.direction_through(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let (ray, mut light) = (ray.normalize(), 1.0);
        for k in 0..600 {
            let p = eye + ray * f64::from(k) * 0.5;
            let Some(value) = field.value(p).filter(|_| light > 1e-3) else {
                continue;
            };
            let opacity = ((value - 20.0) / 20.0).clamp(0.0, 1.0);
            light *= (1.0 - opacity).sqrt();
            let [x, y, z] = p.to_array().map(|c| (c / 8.0).clamp(0.0, 7.0) as u64);
            reached.insert(x + 8 * (y + 8 * z));
        }
    }
    reached
}

#[test]
fn bricks_that_nobody_would_see_are_not_rendered_nor_read() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["f.json", "s.json", "p.png", "v.brickmesh"];
    let [function, stats, out, bricks] = names.map(|n| folder.path().join(n));
    fs::write(&function, OPAQUE).unwrap();
    let eye = DVec3::new(130.0, -90.0, 100.0);
    let camera = "eye=130,-90,100 at=31.5,31.5,31.5 up=0,0,1 fov=30";
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let data = data.join(VOLUMES[0].0);
    let mut import = Command::new(brickmesh());
    import
        .arg("import")
        .arg(&data)
        .args(["--brick", "8", "--out"]);
    run(import.arg(&bricks));
    let reached = reached(&data, eye);
    for device in devices("bricks_that_nobody_would_see") {
        let command = |source: &Path, more: &[&str]| {
            let mut command = render(source, &out, &["--device", device, "--camera", camera]);
            command.arg("--transfer").arg(&function).args(more);
            command.arg("--stats").arg(&stats);
            command
        };
        // In one brick nothing is hidden by another one.
        run(&mut command(&data, &["--brick", "64"]));
        let whole = pictures(&out);
        let memory = memory_on(device, "24K");
        let cases = [("1", &*memory), ("1", "4G"), ("3", &*memory), ("3", "4G")];
        let count = if device == "cpu" { 4 } else { 1 };
        for (peers, memory) in cases.into_iter().take(count) {
            run(&mut command(
                &bricks,
                &["--peers", peers, "--memory", memory],
            ));
            let what = format!("{peers} peers with {memory} on {device}");
            assert_alike(&whole, &pictures(&out), &what);
            let stats: serde_json::Value =
                serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
            let jobs = stats["frames"][0]["jobs"].as_array().unwrap().iter();
            let (hidden, rendered): (Vec<_>, Vec<_>) = jobs.partition(|j| j["measured_us"] == 0);
            let all = hidden.iter().chain(&rendered);
            let shown: BTreeSet<u64> = all.map(|j| j["brick"].as_u64().unwrap()).collect();
            let reached = shown.intersection(&reached).count();
            let counts = [hidden.len(), rendered.len(), reached];
            let what = format!("{what}: hidden, rendered, reached {counts:?}");
            println!("{what}");
            // Of several peers each hears of others' pixels when it may be late for so short a picture.
            if peers == "1" {
                assert!(counts[0] > 50 && counts[1] * 10 <= counts[2] * 12, "{what}");
            }
        }
    }
}

#[test]
fn what_is_read_is_foretold() {
    let devices = devices("what_is_read_is_foretold");
    for (volume, memory) in VOLUMES {
        let (folder, bricks) = imported(volume);
        let cases = devices.iter().flat_map(|d| [(*d, "1"), (*d, "3")]);
        for (device, peers) in cases {
            let memory = &memory_on(device, memory);
            let more = ["--memory", memory, "--peers", peers, "--device", device];
            let mut plan = Command::new(brickmesh());
            plan.args(["plan", "--json"]).args(more).arg(&bricks);
            let plan = plan.output().unwrap().stdout;
            let plan: serde_json::Value = serde_json::from_slice(&plan).unwrap();
            let exact = &plan["levels"][0];
            let out = folder.path().join("p.png");
            let said = run(&mut render(&bricks, &out, &more));
            let expected = format!("{} of them are read", exact["read"]);
            assert!(
                said.contains(&expected),
                "{volume}, {peers} peers on {device}: {exact}, {said}"
            );
        }
    }
}

#[test]
fn a_file_is_rendered_in_place_as_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (
        folder.path().join("n_64x64x64_uint8.raw"),
        folder.path().join("p.png"),
    );
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data")
        .join(VOLUMES[0].0);
    let mut voxels = Vec::new();
    let mut reader = GzDecoder::new(fs::File::open(&packed).unwrap());
    reader.read_to_end(&mut voxels).unwrap();
    fs::write(&file, &voxels).unwrap();
    let bricks = ["--device", "cpu", "--brick", "16"];
    run(&mut render(&file, &out, &bricks));
    let whole = pictures(&out);
    for peers in ["1", "3"] {
        let more = ["--in-place", "--memory", "48K", "--peers", peers];
        let said = run(&mut render(&file, &out, &[&bricks[..], &more].concat()));
        assert!(said.contains("read for each frame"), "{said}");
        assert_alike(&whole, &pictures(&out), &format!("{peers} peers: {said}"));
    }
    let store = folder.path().join("n.brickmesh");
    let mut import = Command::new(brickmesh());
    import.arg("import").arg(&file).arg("--out").arg(&store);
    run(import.args(["--brick", "16", "--parts", "3"]));
    for level in ["1", "2"] {
        let [imported, in_place] =
            [(&store, &[][..]), (&file, &["--in-place"])].map(|(of, more)| {
                let at_level = ["--device", "cpu", "--brick", "16", "--quality", level];
                run(&mut render(of, &out, &[&at_level[..], more].concat()));
                pictures(&out)
            });
        assert!(imported == in_place, "level {level}");
    }
    for (source, words) in [(&packed, "brickmesh import"), (&store, "leave it out")] {
        let refused = render(source, &out, &["--in-place"]).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success() && said.contains("--in-place"),
            "{said}"
        );
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_damaged_brick_is_named_and_all_else_is_shown() {
    let (folder, bricks) = imported(VOLUMES[0].0);
    let out = folder.path().join("p.png");
    let packs = [21, 22, 26].map(|brick| damage_brick(&bricks, brick));
    let cpu = ["--device", "cpu"];
    let said = run(&mut render(&bricks, &out, &cpu));
    assert!(said.contains("3 boxes are missing"), "{said}");
    let holes = pictures(&out);
    let small = ["--device", "cpu", "--memory", VOLUMES[0].1];
    let said = run(&mut render(&bricks, &out, &small));
    assert!(said.contains("3 boxes are missing"), "{said}");
    for (brick, pack) in [21, 22, 26].into_iter().zip(packs) {
        let what = format!("{}: brick {brick} is damaged", pack.display());
        assert!(said.contains(&what), "{said}");
    }
    assert_alike(&holes, &pictures(&out), "with three damaged bricks");
}

#[test]
fn peers_that_have_the_folder_share_the_work() {
    let (folder, bricks) = imported(VOLUMES[0].0);
    let out = folder.path().join("p.png");
    run(&mut render(&bricks, &out, &["--device", "cpu"]));
    let whole = pictures(&out);
    let key = folder.path().join("mesh.key");
    let start = |join: &[String]| {
        PeerProcess::start(|command| {
            command.args(["--device", "cpu", "--memory", SHARED_MEMORY]);
            command.args(["--listen", "127.0.0.1:0", "--key"]).arg(&key);
            command.args(join);
            command.arg("--data").arg(&bricks).stderr(Stdio::null());
        })
    };
    let first = start(&[]);
    let second = start(&first.joining());
    let stats = folder.path().join("stats.json");
    let mut command = render(
        &bricks,
        &out,
        &["--device", "cpu", "--memory", SHARED_MEMORY],
    );
    command.args(["--mesh", "--wait-peers", "2", "--listen", "127.0.0.1:0"]);
    command.args(first.joining()).args(second.joining());
    command.arg("--key").arg(&key).arg("--stats").arg(&stats);
    run(&mut command);
    assert_alike(&whole, &pictures(&out), "three peers");
    let stats: serde_json::Value = serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
    let jobs = stats["frames"][2]["jobs"].as_array().unwrap();
    let mut renderers: Vec<&str> = jobs.iter().map(|j| j["peer"].as_str().unwrap()).collect();
    renderers.sort_unstable();
    renderers.dedup();
    assert_eq!(renderers.len(), 3, "{renderers:?}");
}

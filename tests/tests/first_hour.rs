//! What a scientist meets in the first hour, with the program itself: what it says of data, folders,
//! addresses and outputs that are not as they should be, and that it says so soon.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_tests::{
    compare::compare,
    program::{PeerProcess, Running, brickmesh, damage_brick, read_png},
};
use std::{
    ffi::OsStr,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Nothing here takes as long as this, on however busy a machine, unless it waits for what never
/// comes.
const SOON: Duration = Duration::from_secs(15);

/// A folder with a volume of 40³ floats in it: a ball of 1 in 0, cut off at one side.
struct Desk {
    folder: TempDir,
    volume: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("ball.nrrd");
        write_nrrd(&volume, "", |[x, y, z]| {
            let inside = (x - 19.5).powi(2) + (y - 19.5).powi(2) + (z - 19.5).powi(2) < 200.0;
            f32::from(u8::from(inside && z < 25.0))
        });
        Self { folder, volume }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A `render` of the volume on the CPU to `p.png`.
    fn render(&self, more: &[&str]) -> Said {
        self.render_of(&self.volume, more)
    }

    fn render_of(&self, volume: &Path, more: &[&str]) -> Said {
        let out = self.path("p.png");
        let mut command = self.command_of(volume, &out);
        if !more.contains(&"--size") {
            command.args(["--size", "64x64"]);
        }
        run(command.args(more))
    }

    fn command_of(&self, volume: &Path, out: &Path) -> Command {
        let mut command = Command::new(brickmesh());
        command
            .current_dir(self.folder.path())
            .args(["render", "--device", "cpu"])
            .arg(volume)
            .arg("--out")
            .arg(out);
        command
    }

    fn picture(&self) -> Vec<u8> {
        read_png(&self.path("p.png")).2
    }

    /// The volume as a `.brickmesh` folder of bricks of 16³.
    fn imported(&self) -> PathBuf {
        let store = self.path("ball.brickmesh");
        let mut import = Command::new(brickmesh());
        import
            .arg("import")
            .arg(&self.volume)
            .args(["--brick", "16", "--out"]);
        let said = run(import.arg(&store));
        assert!(said.is_well, "{}", said.errors);
        store
    }
}

/// Values by voxel, x fastest, as NRRD with these fields more.
fn write_nrrd(path: &Path, fields: &str, value: impl Fn([f32; 3]) -> f32) {
    let header = format!(
        "NRRD0004\ntype: float\ndimension: 3\nsizes: 40 40 40\nencoding: raw\nendian: little\n{fields}\n"
    );
    let mut bytes = header.into_bytes();
    for i in 0..40_u16.pow(3) {
        let at = [i % 40, i / 40 % 40, i / 1600].map(f32::from);
        bytes.extend(value(at).to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
}

/// How a run ended.
struct Said {
    is_well: bool,
    output: String,
    errors: String,
    took: Duration,
}

fn run(command: &mut Command) -> Said {
    let start = Instant::now();
    let Output {
        status,
        stdout,
        stderr,
    } = command.env_remove("RUST_LOG").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        is_well: status.success(),
        output: text(stdout),
        errors: text(stderr),
        took: start.elapsed(),
    }
}

fn brickmesh_says(args: &[impl AsRef<OsStr>]) -> Said {
    run(Command::new(brickmesh()).args(args))
}

/// That something was refused, in these words, and soon.
fn assert_refused(said: &Said, words: &[&str]) {
    let all = format!("{}{}", said.output, said.errors);
    assert!(!said.is_well, "{all}");
    for word in words {
        assert!(all.contains(word), "{word:?} is not in: {all}");
    }
    assert!(said.took < SOON, "{:?}", said.took);
}

#[test]
fn a_picture_that_shows_nothing_says_why() {
    let desk = Desk::new();
    let well = desk.render(&[]);
    assert!(
        well.is_well && !well.errors.contains("nothing is visible"),
        "{}",
        well.errors
    );
    assert!(well.output.contains("wrote "), "{}", well.output);
    let outside = r#"{"points": [{"value": 5, "color": [1, 1, 1], "opacity": 0}, {"value": 9, "color": [1, 1, 1], "opacity": 1}]}"#;
    fs::write(desk.path("outside.json"), outside).unwrap();
    for (args, words) in [
        (
            &["--transfer", "outside.json"][..],
            "shows 5 … 9, the data are 0 … 1",
        ),
        (
            &["--camera", "eye=500,0,0 at=600,0,0"],
            "not in view of the camera",
        ),
    ] {
        let said = desk.render(args);
        assert!(said.is_well, "{}", said.errors);
        assert!(
            said.errors.contains("nothing is visible in"),
            "{}",
            said.errors
        );
        assert!(said.errors.contains(words), "{}", said.errors);
    }
    let info = brickmesh_says(&["info".as_ref(), desk.volume.as_os_str()]);
    for word in ["quantiles", "histogram"] {
        assert!(info.output.contains(word), "{}", info.output);
    }
}

#[test]
fn isosurfaces_that_cannot_be_seen_are_said() {
    let desk = Desk::new();
    for (args, words) in [
        (&["--mode", "iso"][..], "--iso VALUE"),
        (&["--mode", "mip", "--iso", "0.5"], "--mode dvr and iso"),
        (&["--iso", "0.5,1,1"], "found 3 numbers"),
        (&["--iso", "nan"], "must be finite"),
        (&["--iso", "0.5,1,1,2"], "is 2; it must be 0 to 1"),
        (&["--mode", "iso", "--iso", "7"], "values are 0 … 1"),
    ] {
        assert_refused(&desk.render(args), &[words]);
    }
    let said = desk.render(&["--mode", "iso", "--iso", "0.5", "--iso", "7"]);
    assert!(said.is_well && said.errors.contains("no isosurface of 7"));
    assert!(desk.picture().iter().any(|&c| c > 60), "the other is seen");
    let said = desk.render(&["--iso", "7"]);
    assert!(said.is_well && said.errors.contains("no isosurface of 7"));
}

#[test]
fn shadows_need_surfaces_and_a_light_from_aside() {
    let desk = Desk::new();
    let surface = ["--mode", "iso", "--iso", "0.5"];
    let aside = ["--light-from=1,1,0.5"];
    let refused = |args: &[&[&str]], words: &str| {
        assert_refused(&desk.render(&args.concat()), &[words]);
    };
    refused(
        &[&aside, &["--shadows", "on"]],
        "there are none: give --iso VALUE",
    );
    refused(&[&["--mode", "mip", "--ao", "4"]], "for --mode dvr and iso");
    refused(
        &[&surface, &["--shadows", "on"]],
        "--light-from RIGHT,UP,NEARER",
    );
    let unlit = ["--shadows", "on", "--shade", "off"];
    refused(&[&surface, &aside, &unlit], "give --shade on");
    refused(&[&surface, &["--ao", "257"]], "257 is not in 1..=256");
    refused(
        &[&surface, &["--ao", "4", "--ao-reach", "0"]],
        "reach is 0.0; it must be above",
    );
    refused(
        &[&surface, &["--ao", "4", "--strategy", "sort-last"]],
        "leave --strategy out",
    );
    refused(
        &[&surface, &["--ao", "4", "--assign", "best-fit"]],
        "--assign and --composite",
    );
    refused(&[&surface, &["--reflect", "9"]], "9 is not in 1..=8");
    refused(
        &[&["--mode", "mip", "--paint", "owner"]],
        "--paint is for --mode dvr, iso and additive",
    );
    refused(
        &[&surface, &["--reflect", "1", "--reflect-part=-1"]],
        "mirrored part is -1.0; it must be above 0",
    );
    refused(&[&["--reflect", "1"]], "there are none: give --iso VALUE");
    let picture = |args: &[&[&str]]| {
        let said = desk.render(&args.concat());
        assert!(said.is_well, "{}", said.errors);
        desk.picture().iter().map(|&c| u64::from(c)).sum::<u64>()
    };
    // Of a ball that is lit from behind, the half that is seen is dark, but for what comes from around.
    let behind = ["--light-from=0.3,0.3,-1"];
    let lit = picture(&[&surface, &behind]);
    let shaded = picture(&[&surface, &behind, &["--shadows", "on", "--tile", "64"]]);
    let dim = picture(&[
        &surface,
        &behind,
        &["--shadows", "on", "--ao", "8", "--ao-reach", "9"],
    ]);
    assert!(
        0 < dim && dim <= shaded && shaded < lit,
        "{dim} {shaded} {lit}"
    );
}

/// A tetrahedron around a place.
fn tetrahedron([x, y, z]: [f64; 3], size: f64) -> String {
    let corner = |dx: f64, dy: f64, dz: f64| {
        format!("v {} {} {}\n", x + dx * size, y + dy * size, z + dz * size)
    };
    let corners = [
        corner(1., 1., 1.),
        corner(1., -1., -1.),
        corner(-1., 1., -1.),
        corner(-1., -1., 1.),
    ];
    corners.concat() + "f 1 2 3\nf 1 4 2\nf 1 3 4\nf 2 4 3\n"
}

/// A mesh around the ball of a desk, red and half transparent.
const RED: &str = "t.obj,1,0,0,0.5";

/// A desk with that mesh.
fn desk_with_mesh() -> Desk {
    let desk = Desk::new();
    fs::write(desk.path("t.obj"), tetrahedron([19.5; 3], 14.0)).unwrap();
    desk
}

impl Desk {
    fn import_triangles(&self, what: &Path, more: &[&str]) -> Said {
        let mut command = Command::new(brickmesh());
        let here = command.current_dir(self.folder.path());
        here.arg("import").arg(what).args(more);
        run(here.args(["--out", "t.brickmesh"]))
    }
}

#[test]
fn triangle_meshes_stand_in_volumes() {
    let desk = desk_with_mesh();
    // At another place and half as large, which the scene takes back.
    let moved = tetrahedron([-3.0, 0.0, 1.0], 7.0);
    fs::write(desk.path("moved.obj"), moved).unwrap();
    let scene = r#"{"volume": "ball.nrrd", "surfaces": [{"file": "moved.obj", "color": [1, 0, 0], "opacity": 0.5,
        "transform": [{"translate": [3, 0, -1]}, {"scale": [2, 2, 2]}, {"translate": [19.5, 19.5, 19.5]}]}]}"#;
    fs::write(desk.path("scene.json"), scene).unwrap();
    assert!(desk.render(&[]).is_well);
    let without = desk.picture();
    let said = desk.render(&["--surface", RED]);
    assert!(said.is_well, "{}", said.errors);
    assert!(said.errors.contains("triangles of t.obj"));
    let with = desk.picture();
    let reddish = |p: &&[u8]| p[0] > 40 && p[1] < p[0] / 2;
    assert!(with.chunks_exact(4).filter(reddish).count() > 100);
    assert!(compare(&without, &with).over_4 > 0.05);
    let image = ["--peers", "3", "--strategy", "image", "--brick", "16"];
    for more in [&["--peers", "3"][..], &image] {
        assert!(desk.render(&[more, &["--surface", RED]].concat()).is_well);
        assert!(compare(&with, &desk.picture()).max <= 1, "{more:?}");
    }
    let said = desk.render_of(&desk.path("scene.json"), &["--peers", "2"]);
    assert!(said.is_well, "{}", said.errors);
    assert!(compare(&with, &desk.picture()).psnr > 40.0);
}

#[test]
fn a_triangle_mesh_alone_looks_the_same_whoever_has_it() {
    let desk = desk_with_mesh();
    assert!(desk.render_of(Path::new(RED), &[]).is_well);
    let alone = desk.picture();
    assert!(desk.render_of(Path::new(RED), &["--peers", "3"]).is_well);
    assert!(compare(&alone, &desk.picture()).max <= 1);
    let said = desk.import_triangles(Path::new(RED), &[]);
    assert!(said.is_well, "{}", said.errors);
    let store = desk.path("t.brickmesh");
    let said = run(Command::new(brickmesh())
        .arg("info")
        .arg(&store)
        .arg("--verify"));
    assert!(said.is_well && said.output.contains("of t.obj, those"));
    assert!(desk.render_of(&store, &["--peers", "2"]).is_well);
    assert!(compare(&alone, &desk.picture()).max <= 1);
    let again = desk.import_triangles(Path::new(RED), &[]);
    assert_refused(&again, &["exists already"]);
}

#[test]
fn what_cannot_be_done_with_triangle_meshes_is_said() {
    let desk = desk_with_mesh();
    let (mesh, scene) = (desk.path("t.obj"), desk.path("scene.json"));
    fs::write(&scene, r#"{"surfaces": [{"file": "t.obj"}]}"#).unwrap();
    let leveled = desk.import_triangles(&scene, &["--levels", "2"]);
    assert_refused(&leveled, &["are for volumes alone"]);
    assert!(!desk.path("t.brickmesh").exists());
    for (args, words) in [
        (&["--surface", "none.ply"][..], "none.ply: No such file"),
        (&["--surface", "t.obj,1,0"], "found 2 numbers"),
        (&["--surface", "t.obj,1,0,0,0"], "opacity above 0"),
        (&["--surface", "t.txt"], "named like no triangle mesh"),
    ] {
        assert_refused(&desk.render(args), &[words]);
    }
    fs::write(&mesh, tetrahedron([90.0; 3], 3.0)).unwrap();
    let beside = desk.render(&["--surface", "t.obj"]);
    assert_refused(&beside, &["no triangle is inside"]);
    let values = desk.render_of(&mesh, &["--mode", "mip"]);
    assert_refused(&values, &["take dvr"]);
    let bricks = desk.render_of(&mesh, &["--brick", "8"]);
    assert_refused(&bricks, &["--brick belongs to a volume"]);
    let parted = ["--nodes", "2", "--method", "grid"];
    for (name, more) in [("plan", &[][..]), ("partition", &parted)] {
        let said = run(Command::new(brickmesh()).arg(name).arg(&scene).args(more));
        assert_refused(&said, &["it is a scene"]);
    }
}

#[test]
fn patients_look_the_same_whichever_way_their_axes_are_written() {
    let desk = Desk::new();
    let face = |[x, y, z]: [f32; 3]| {
        let head = (x - 19.5).powi(2) + (y - 22.0).powi(2) + (z - 19.5).powi(2) < 190.0;
        // A nose at the front, and one ear.
        let nose = (x - 19.5).abs() < 3.0 && y < 9.0 && y > 3.0 && (z - 18.0).abs() < 3.0;
        let ear = x > 31.0 && x < 37.0 && (y - 22.0).abs() < 3.0 && (z - 20.0).abs() < 4.0;
        f32::from(u8::from(head || nose || ear)) * (1.0 + 0.01 * z)
    };
    let mut pictures = Vec::new();
    for (space, directions, origin) in [
        (
            "left-posterior-superior",
            "(1,0,0) (0,1,0) (0,0,1)",
            "(5,7,-9)",
        ),
        (
            "right-anterior-superior",
            "(-1,0,0) (0,-1,0) (0,0,1)",
            "(-5,-7,-9)",
        ),
        (
            "left-anterior-superior",
            "(1,0,0) (0,-1,0) (0,0,1)",
            "(5,-7,-9)",
        ),
    ] {
        let volume = desk.path("face.nrrd");
        let fields =
            format!("space: {space}\nspace directions: {directions}\nspace origin: {origin}\n");
        write_nrrd(&volume, &fields, face);
        let said = desk.render_of(&volume, &["--size", "128x128"]);
        assert!(said.is_well, "{}", said.errors);
        pictures.push(desk.picture());
    }
    for other in &pictures[1..] {
        let difference = compare(&pictures[0], other);
        assert!(difference.max <= 2, "{difference:?}");
    }
}

/// A picture with each pixel the mean of `by` by `by`.
fn reduced(pixels: &[u8], edge: usize, by: usize) -> Vec<f64> {
    let size = edge / by;
    let mut sums = vec![0.0; size * size * 3];
    for (at, pixel) in pixels.chunks_exact(pixels.len() / edge / edge).enumerate() {
        let (x, y) = (at % edge / by, at / edge / by);
        for c in 0..3 {
            sums[(y * size + x) * 3 + c] += f64::from(pixel[c]) / (by * by) as f64;
        }
    }
    sums
}

#[test]
fn pictures_of_any_size_by_one_peer_and_by_three_are_the_same_view() {
    let desk = Desk::new();
    let mut small = Vec::new();
    for peers in ["1", "3"] {
        for (edge, by) in [(1_usize, 1_usize), (64, 1), (4096, 64)] {
            let size = format!("{edge}x{edge}");
            let said = desk.render(&["--size", &size, "--peers", peers, "--shade", "off"]);
            assert!(said.is_well, "{peers} {size}: {}", said.errors);
            let (width, height, pixels) = read_png(&desk.path("p.png"));
            assert_eq!((width as usize, height as usize), (edge, edge));
            small.push(reduced(&pixels, edge, by));
        }
    }
    let seen = |picture: &[f64]| picture.iter().fold(0.0_f64, |a, &b| a.max(b));
    assert!(small.iter().all(|picture| seen(picture) > 50.0));
    let mean_off = |a: &[f64], b: &[f64]| {
        let all = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        all.sum::<f64>() / a.len() as f64
    };
    // Of one size they are the same to 1/255, of two as far as edges are sampled alike.
    for (one, three) in (0..3).map(|n| (&small[n], &small[n + 3])) {
        let off = one.iter().zip(three).map(|(a, b)| (a - b).abs());
        let most = off.fold(0.0, f64::max);
        assert!(most <= 1.0, "{most}");
    }
    assert!(
        mean_off(&small[1], &small[2]) < 2.0,
        "{}",
        mean_off(&small[1], &small[2])
    );
}

#[test]
#[cfg(unix)]
fn outputs_are_written_to_what_they_are_pointed_at() {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
    let desk = Desk::new();
    symlink("/dev/null", desk.path("null.png")).unwrap();
    symlink("/dev/full", desk.path("full.json")).unwrap();
    symlink("real.png", desk.path("link.png")).unwrap();
    fs::write(desk.path("real.png"), "before").unwrap();
    fs::set_permissions(desk.path("real.png"), fs::Permissions::from_mode(0o640)).unwrap();
    let to = |out: &str| desk.command_of(&desk.volume, &desk.path(out));
    let null = run(&mut to("null.png"));
    assert!(null.is_well, "{}", null.errors);
    assert!(
        desk.path("null.png").is_symlink()
            && fs::metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
    );
    let full = run(to("p.png").args(["--stats", "full.json"]));
    assert_refused(&full, &["full.json", "No space left"]);
    assert!(
        fs::metadata("/dev/full")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    let link = run(&mut to("link.png"));
    assert!(link.is_well, "{}", link.errors);
    assert!(desk.path("link.png").is_symlink());
    assert_eq!(read_png(&desk.path("real.png")).0, 512);
    let mode = |name: &str| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("real.png"), 0o640);
    let masked = Command::new("sh")
        .args(["-c", "umask 027; exec \"$@\"", "sh"])
        .arg(brickmesh())
        .args(["demo", "--device", "cpu", "--out"])
        .arg(desk.path("new.png"))
        .output();
    assert!(masked.unwrap().status.success());
    assert_eq!(mode("new.png"), 0o640);
    let jpeg = run(&mut to("o.jpg"));
    assert_refused(&jpeg, &["o.jpg", ".png"]);
    let nowhere = run(&mut to("no/such/folder/p.png"));
    assert_refused(&nowhere, &["no/such/folder", "there is no folder"]);
}

#[test]
fn statistics_of_what_was_rendered_outlive_an_interruption() {
    let desk = Desk::new();
    let stats = desk.path("s.json");
    let mut command = desk.command_of(&desk.volume, &desk.path("p.png"));
    command
        .args(["--peers", "2", "--frames", "50000", "--stats"])
        .arg(&stats);
    let mut process = Running(
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let start = Instant::now();
    while !desk.path("p-0009.png").exists() {
        assert!(start.elapsed() < 4 * SOON, "no ten pictures");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = process.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    process.0.wait().unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
    let frames = stats["frames"].as_array().unwrap();
    assert!(frames.len() >= 5, "{}", frames.len());
}

#[test]
fn folders_and_files_of_other_formats_are_named_and_nothing_is_to_be_removed() {
    let desk = Desk::new();
    let series = desk.path("series");
    fs::create_dir(&series).unwrap();
    fs::write(series.join("IM1"), [[0; 128].as_slice(), b"DICM"].concat()).unwrap();
    fs::write(desk.path("stack.tif"), b"II*\0........").unwrap();
    for command in ["info", "import", "render"] {
        let tell = |path: &Path| {
            let out = desk.path("out.png");
            let args = [
                command.as_ref(),
                path.as_os_str(),
                "--out".as_ref(),
                out.as_os_str(),
            ];
            brickmesh_says(&args[..if command == "info" { 2 } else { 4 }])
        };
        let dicom = tell(&series);
        assert_refused(&dicom, &["DICOM", "dcm2niix"]);
        assert!(!dicom.errors.contains("remove"), "{}", dicom.errors);
        assert_refused(&tell(&desk.path("stack.tif")), &["TIFF", "Fiji"]);
    }
}

#[test]
fn what_cannot_be_had_is_said_at_once_and_the_rest_is_shown() {
    let desk = Desk::new();
    let store = desk.imported();
    // In the middle of the ball: none is equal to it.
    let brick = 13;
    let pack = damage_brick(&store, brick);
    let name = format!("{}: brick {brick}", pack.display());
    for peers in ["1", "3"] {
        let said = desk.render_of(&store, &["--peers", peers]);
        assert!(
            said.is_well && said.took < SOON,
            "{peers}: {:?} {}",
            said.took,
            said.errors
        );
        for word in [&*name, "is damaged", "missing, nobody holds"] {
            assert!(
                said.errors.contains(word),
                "{peers} {word:?}: {}",
                said.errors
            );
        }
        let whole = desk.render_of(&store, &["--peers", peers, "--whole"]);
        assert_refused(&whole, &[&name, "--whole"]);
    }
    // A brick of 16³ floats and its ghosts is 23 KiB: of 27 there is room for a few, and the others are read.
    let few = |memory| {
        [
            "--peers", "3", "--memory", memory, "--brick", "16", "--whole",
        ]
    };
    let said = desk.render(&few("100K"));
    assert!(
        said.is_well && said.took < SOON,
        "{:?} {}",
        said.took,
        said.errors
    );
    for word in [
        "27 bricks take 723.4 KiB",
        "read for each frame",
        "--memory",
    ] {
        assert!(said.errors.contains(word), "{word:?}: {}", said.errors);
    }
    // Where there is no room for one, nothing can be read either.
    let words = [
        "one copy of each takes 723.4 KiB",
        "room for 0 (peer-01 20.0 KiB",
        "--memory",
    ];
    assert_refused(&desk.render(&few("20K")), &words);
}

/// A peer on loopback with a key of its own.
struct Peer {
    peer: PeerProcess,
    folder: TempDir,
}

impl Peer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let peer = PeerProcess::on_loopback(&folder.path().join("mesh.key"), Stdio::null());
        Self { peer, folder }
    }

    fn address(&self) -> &str {
        let words = self.peer.lines.last().unwrap().split_whitespace();
        words.skip_while(|w| *w != "--join").nth(1).unwrap()
    }

    /// As `localhost:PORT`.
    fn by_name(&self) -> String {
        let port = self.address().rsplit('/').next().unwrap();
        format!("localhost:{port}")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("mesh.key")
    }
}

/// What a command of the mesh with this key says, that joins this address.
fn in_mesh(key: &Path, join: &str, args: &[&OsStr]) -> Said {
    let mut command = Command::new(brickmesh());
    command
        .args(args)
        .args(["--listen", "127.0.0.1:0", "--join", join, "--key"]);
    run(command.arg(key))
}

#[test]
fn addresses_that_do_not_answer_are_reported_and_names_are_looked_up() {
    let peer = Peer::start();
    let status = ["status".as_ref()];
    let there = in_mesh(&peer.key(), &peer.by_name(), &status);
    assert!(
        there.is_well && there.output.starts_with("1 peer\n"),
        "{}{}",
        there.output,
        there.errors
    );
    // Nothing listens on the first port.
    let nobody = in_mesh(&peer.key(), "127.0.0.1:1", &status);
    assert_refused(
        &nobody,
        &["does not answer as a peer", "refused", "/tcp/1 "],
    );
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_at = silent.local_addr().unwrap().to_string();
    let silence = in_mesh(
        &peer.key(),
        &silent_at,
        &["status".as_ref(), "--seconds".as_ref(), "1".as_ref()],
    );
    assert_refused(&silence, &["there is no answer so far"]);
    let unknown = in_mesh(&peer.key(), "no-such-host.invalid:7070", &status);
    assert_refused(&unknown, &["no-such-host.invalid", "does not answer"]);
    let bad = in_mesh(&peer.key(), "lab 1:7070", &status);
    assert_refused(&bad, &["lab 1:7070", "lab-1:4001"]);
}

#[test]
fn a_wrong_key_or_an_unknown_name_ends_a_command_as_soon_as_that_is_known() {
    let (desk, peer, other) = (Desk::new(), Peer::start(), Peer::start());
    let out = desk.path("p.png");
    let render = |what: &Path| {
        let args = [
            "render".as_ref(),
            what.as_os_str(),
            "--mesh".as_ref(),
            "--device".as_ref(),
            "cpu".as_ref(),
            "--out".as_ref(),
            out.as_os_str(),
        ];
        args.map(OsStr::to_owned)
    };
    let with = |key: &Path, what: &Path| {
        let args = render(what);
        let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        in_mesh(key, peer.address(), &args)
    };
    let wrong = with(&other.key(), &desk.volume);
    assert_refused(&wrong, &["another mesh key"]);
    let unknown = with(&peer.key(), Path::new("no-such-data-set"));
    assert_refused(&unknown, &["no-such-data-set", "it has none"]);
}

/// Runs something on a thread that may not ask for userfaultfd, nor may what it starts.
#[cfg(target_os = "linux")]
fn without_userfaultfd<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    let number = match std::env::consts::ARCH {
        "x86_64" => 323,
        _ => 282,
    };
    let denied = SeccompAction::Errno(1);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let rules = [(number, Vec::new())].into();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    let run = || {
        apply_filter(&filter).unwrap();
        what()
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn where_pages_cannot_be_shared_that_is_said_and_objects_are() {
    let desk = Desk::new();
    let little = ["--brick", "16", "--memory", "300K", "--peers", "2"];
    let little = [&little[..], &["--redundancy", "1", "--strategy", "image"]].concat();
    let by = |kind| [&little[..], &["--sharing", kind]].concat();
    let paged = desk.render(&by("page"));
    assert!(paged.is_well, "{}", paged.errors);
    assert!(paged.output.contains("page memory"), "{}", paged.output);
    let expected = desk.picture();
    let (denied, objects) =
        without_userfaultfd(|| (desk.render(&by("page")), desk.render(&by("auto"))));
    assert_refused(&denied, &["userfaultfd", "seccomp", "--sharing object"]);
    assert!(objects.is_well, "{}", objects.errors);
    assert!(compare(&expected, &desk.picture()).max <= 1);
    let vulkan = [&by("page")[..], &["--device", "vulkan"]].concat();
    let command = [&["render"], &vulkan[..], &["--out", "p.png"]].concat();
    let refused = run(Command::new(brickmesh()).args(command).arg(&desk.volume));
    assert_refused(&refused, &["--sharing page", "--device cpu"]);
}

#[test]
fn commands_say_what_they_would_take() {
    let orbit = brickmesh_says(&["render", "a.nrrd", "--out", "p.png", "--orbit", "30"]);
    assert_refused(&orbit, &["1 number", "AZIMUTH,ELEVATION"]);
    let frob = brickmesh_says(&["sim", "frob", "x"]);
    assert_refused(&frob, &["placement, schedule, jobs, mesh, paper"]);
    let none = brickmesh_says(&["sim", "mesh"]);
    assert_refused(&none, &["--example"]);
    for what in ["partition", "placement", "schedule", "jobs", "mesh"] {
        let example = brickmesh_says(&["sim", what, "--example"]);
        let json: serde_json::Value = serde_json::from_str(&example.output).unwrap();
        assert!(example.is_well && json.is_object(), "{}", example.output);
    }
    let vary = brickmesh_says(&["sim", "paper", "--vary"]);
    assert!(
        vary.is_well && vary.output.contains("cost.sample_nanos = "),
        "{}",
        vary.output
    );
}

#[test]
#[cfg(unix)]
fn a_reader_that_goes_away_ends_nothing_and_a_full_disk_is_said() {
    let desk = Desk::new();
    let info = || {
        let mut info = Command::new(brickmesh());
        info.arg("info").arg(&desk.volume);
        info
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert!(run(info().stdout(writer)).is_well);
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    let said = run(info().stdout(full.unwrap()));
    assert!(!said.is_well && said.errors.contains("standard output: No space left"));
}

#[test]
fn a_render_that_ends_leaves_its_bricks_to_the_mesh() {
    let (desk, peer) = (Desk::new(), Peer::start());
    let (key, join) = (peer.key(), peer.address());
    let out = desk.path("p.png");
    let render: [&OsStr; 12] = [
        "render".as_ref(),
        desk.volume.as_ref(),
        "--out".as_ref(),
        out.as_ref(),
        "--mesh".as_ref(),
        "--device".as_ref(),
        "cpu".as_ref(),
        "--brick".as_ref(),
        "16".as_ref(),
        "--redundancy".as_ref(),
        "1".as_ref(),
        "--whole".as_ref(),
    ];
    let said = in_mesh(&key, join, &render);
    assert!(said.is_well, "{}", said.errors);
    let status = in_mesh(&key, join, &["status".as_ref()]);
    assert!(
        status.output.contains("1 copy wanted, at least 1")
            && status.output.contains(", 0 missing"),
        "{}",
        status.output
    );
}

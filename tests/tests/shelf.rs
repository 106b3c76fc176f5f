//! Peers that keep bricks on a disk, with the program itself: the volume is there after its source died, after all
//! were started again, and where a file was damaged.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::data_set::BrickSource as _;
use brickmesh_node::brick_store::DirectoryStore;
use brickmesh_tests::{
    compare::compare,
    program::{PeerProcess, brickmesh, imported, read_png, run},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const NEGHIP: &str = "neghip_64x64x64_uint8.raw.gz";
/// Memory of a peer: for a sixth of the bricks of 16³ and some of their levels.
const MEMORY: &str = "96K";
/// How long something may take to come about.
const WAIT: Duration = Duration::from_secs(60);

/// A mesh on loopback.
struct Mesh {
    folder: TempDir,
    bricks: PathBuf,
    name: String,
}

impl Mesh {
    fn new() -> Self {
        let (folder, bricks) = imported(NEGHIP);
        let mut info = Command::new(brickmesh());
        let info = info.args(["info", "--json"]).arg(&bricks).output().unwrap();
        let info: Value = serde_json::from_slice(&info.stdout).unwrap();
        Self {
            name: info["data_set"].as_str().unwrap().to_owned(),
            folder,
            bricks,
        }
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("mesh.key")
    }

    fn shelf(&self, n: usize) -> PathBuf {
        self.folder.path().join(format!("shelf-{n}"))
    }

    /// A peer with the volume.
    fn source(&self) -> PeerProcess {
        self.start(&[], &["--data", self.bricks.to_str().unwrap()])
    }

    /// A peer with a disk.
    fn keeper(&self, n: usize, join: &[String], room: &str) -> PeerProcess {
        let shelf = self.shelf(n);
        self.start(
            join,
            &["--disk", room, "--disk-dir", shelf.to_str().unwrap()],
        )
    }

    fn start(&self, join: &[String], more: &[&str]) -> PeerProcess {
        PeerProcess::start(|command| {
            command.args(["--device", "cpu", "--memory", MEMORY]);
            command
                .args(["--listen", "127.0.0.1:0", "--key"])
                .arg(self.key());
            command.args(join).args(more).stderr(Stdio::null());
        })
    }

    fn status(&self, join: &[String]) -> Value {
        let mut command = Command::new(brickmesh());
        command
            .args(["status", "--json", "--seconds", "1", "--key"])
            .arg(self.key());
        let said = command.args(join).output().unwrap();
        serde_json::from_slice(&said.stdout).unwrap()
    }

    /// Waits until the disks of the mesh together hold so many bricks of the volume, copies counted; what is known of it then.
    fn wait_for(&self, join: &[String], on_disk: u64) -> Value {
        let start = Instant::now();
        loop {
            let status = self.status(join);
            let sets = status["data_sets"].as_array().unwrap();
            let set = sets.iter().find(|s| s["data_set"] == *self.name);
            let holders = set.and_then(|s| s["holders"].as_array());
            let found = holders
                .into_iter()
                .flatten()
                .map(|h| h["on_disk"].as_u64().unwrap());
            if found.sum::<u64>() >= on_disk {
                return set.unwrap().clone();
            }
            assert!(start.elapsed() < WAIT, "{status:#}");
        }
    }

    /// A picture of the volume, by name, in a mesh of so many other peers.
    fn picture(&self, join: &[String], peers: &str) -> Vec<u8> {
        let out = self.folder.path().join("mesh.png");
        let mut command = Command::new(brickmesh());
        command
            .arg("render")
            .arg(&self.name)
            .args(["--mesh", "--wait-peers", peers]);
        command.args(["--device", "cpu", "--memory", MEMORY, "--size", "160x160"]);
        command
            .args(["--listen", "127.0.0.1:0", "--key"])
            .arg(self.key());
        let said = run(command.args(join).arg("--out").arg(&out));
        assert!(!said.contains("missing"), "{said}");
        read_png(&out).2
    }

    fn alone(&self) -> Vec<u8> {
        let out = self.folder.path().join("alone.png");
        let mut command = Command::new(brickmesh());
        command
            .arg("render")
            .arg(&self.bricks)
            .arg("--out")
            .arg(&out);
        run(command.args(["--device", "cpu", "--size", "160x160"]));
        read_png(&out).2
    }
}

/// The files of bricks of all data sets on a shelf.
fn files(shelf: &Path) -> Vec<PathBuf> {
    let sets = fs::read_dir(shelf)
        .unwrap()
        .map(|e| e.unwrap().path().join("bricks"));
    let sets = sets.filter_map(|bricks| fs::read_dir(bricks).ok());
    let files = sets.flatten().map(|f| f.unwrap().path());
    // Others are being written.
    let mut files: Vec<PathBuf> = files.filter(|f| f.extension().is_none()).collect();
    files.sort();
    files
}

#[test]
fn a_volume_outlasts_its_source_a_new_start_of_all_and_damaged_files() {
    let mesh = Mesh::new();
    let alone = mesh.alone();
    let assert_alike = |picture: &[u8], what: &str| {
        let max = compare(&alone, picture).max;
        assert!(max <= 1, "{what}: they differ by {max} of 255");
    };
    let source = mesh.source();
    let join = source.joining();
    let first = mesh.keeper(1, &join, "1G");
    let second = mesh.keeper(2, &join, "1G");
    mesh.wait_for(&join, 2 * 64);
    assert_alike(&mesh.picture(&join, "3"), "with the source");
    drop(source);
    let join = [first.joining(), second.joining()].concat();
    assert_alike(&mesh.picture(&join, "2"), "after the source was killed");
    drop((first, second));

    // All were killed; one file was changed, one cut off, one is gone.
    let there = files(&mesh.shelf(1));
    let whole = fs::read(&there[1]).unwrap();
    let mut changed = whole.clone();
    changed[99] ^= 1;
    fs::write(&there[1], &changed).unwrap();
    fs::write(&there[2], [1, 2, 3]).unwrap();
    fs::remove_file(&there[3]).unwrap();
    let first = mesh.keeper(1, &[], "1G");
    let second = mesh.keeper(2, &first.joining(), "1G");
    let join = first.joining();
    // They are looked for by name, and nobody has the source.
    mesh.wait_for(&second.joining(), 2 * 64 - 3);
    assert_alike(&mesh.picture(&join, "2"), "after all were killed");
    let start = Instant::now();
    while fs::read(&there[1]).is_ok_and(|bytes| bytes == changed) {
        assert!(start.elapsed() < WAIT, "a damaged file stays");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn two_disks_that_have_room_for_half_of_the_bricks_hold_them_all() {
    let mesh = Mesh::new();
    let source = mesh.source();
    let join = source.joining();
    // The volume's bricks take 380 KiB, its levels 46.
    let room = 240 << 10;
    let keepers = [1, 2].map(|n| mesh.keeper(n, &join, "240K"));
    let store = DirectoryStore::open(&mesh.bricks).unwrap();
    let manifest = store.manifest();
    let digests = manifest.grid().bricks().map(|b| manifest.brick_digest(b));
    let all: BTreeSet<OsString> = digests.map(|d| d.to_string().into()).collect();
    let start = Instant::now();
    loop {
        let there = [1, 2].map(|n| files(&mesh.shelf(n)));
        for of_peer in &there {
            let bytes = of_peer
                .iter()
                .filter_map(|f| Some(fs::metadata(f).ok()?.len()));
            assert!(bytes.sum::<u64>() <= room, "{of_peer:?}");
        }
        let there = there
            .iter()
            .flatten()
            .map(|f| f.file_name().unwrap().to_owned());
        let there: BTreeSet<OsString> = there.collect();
        if all.is_subset(&there) {
            break;
        }
        assert!(start.elapsed() < WAIT, "{} are there", there.len());
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(source);
    let join = keepers.each_ref().map(PeerProcess::joining).concat();
    let max = compare(&mesh.alone(), &mesh.picture(&join, "2")).max;
    assert!(max <= 1, "they differ by {max} of 255");
}

#[test]
fn what_is_asked_for_wrongly_is_said_before_anything_begins() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], words: &str| {
        let mut command = Command::new(brickmesh());
        command.args([
            "peer",
            "--device",
            "cpu",
            "--listen",
            "127.0.0.1:0",
            "--key",
        ]);
        command.arg(folder.path().join("key")).args(arguments);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(words), "{arguments:?}: {said}");
        output.status.code()
    };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let shelf = path("shelf");
    assert_eq!(refused(&["--disk", "1G"], "--disk-dir belong"), Some(2));
    assert_eq!(
        refused(&["--disk-dir", &shelf], "--disk-dir belong"),
        Some(2)
    );
    let none = ["--disk", "0", "--disk-dir", &shelf];
    assert_eq!(refused(&none, "--disk 0"), Some(2));
    let many = ["--disk", "many", "--disk-dir", &shelf];
    assert_eq!(refused(&many, "it must be bytes"), Some(2));
    fs::create_dir(path("mine")).unwrap();
    fs::write(folder.path().join("mine/thesis.txt"), "words").unwrap();
    let full = ["--disk", "1G", "--disk-dir", &path("mine")];
    assert_eq!(refused(&full, "thesis.txt"), Some(2));
    let file = ["--disk", "1G", "--disk-dir", &path("mine/thesis.txt")];
    assert_eq!(refused(&file, "--disk-dir"), Some(1));
    let settings = path("settings.toml");
    fs::write(&settings, "disk = \"1G\"\n").unwrap();
    assert_eq!(refused(&["--config", &settings], "disk-dir"), Some(2));
    assert!(!folder.path().join("shelf").exists());
}

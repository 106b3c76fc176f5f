//! The program, as processes.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};
use tempfile::TempDir;

/// The program's path; built first, as the test runner builds libraries only.
///
/// # Panics
/// Where it cannot be built.
#[must_use]
pub fn brickmesh() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let this = std::env::current_exe().expect("this program is a file");
        // target/PROFILE/deps/TEST or target/PROFILE/PROGRAM
        let folder = this
            .ancestors()
            .skip(1)
            .find(|f| !f.ends_with("deps"))
            .expect("a file is in a folder")
            .to_owned();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([
            "build",
            "--quiet",
            "--package",
            "brickmesh",
            "--bin",
            "brickmesh",
        ]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        // What cargo says to tests of their own package; build scripts look at it, and would be run again, with all that follows.
        for (name, _) in std::env::vars_os() {
            let of_test = ["CARGO_PKG_", "CARGO_MANIFEST_"];
            if of_test
                .iter()
                .any(|start| name.to_string_lossy().starts_with(start))
            {
                cargo.env_remove(name);
            }
        }
        let built = cargo
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the program is built");
        folder.join("brickmesh")
    })
}

/// A process that ends with the test.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// `brickmesh peer` as a process that ends with the test.
#[derive(Debug)]
pub struct PeerProcess {
    /// The process.
    pub process: Running,
    /// What it said until all that it serves was there; how to join it is in the last line.
    pub lines: Vec<String>,
}

impl PeerProcess {
    /// Starts a peer with what `configure` adds to its command, and waits until it can be joined.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start(configure: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(brickmesh());
        command.arg("peer").stdout(Stdio::piped());
        configure(&mut command);
        let mut process = Running(command.spawn().expect("it starts"));
        let mut lines = Vec::new();
        // Nobody reads what it says later: that must not end it.
        for line in BufReader::new(process.0.stdout.take().expect("a pipe")).lines() {
            lines.push(line.expect("a text"));
            if lines.last().is_some_and(|line| line.contains("--join")) {
                break;
            }
        }
        Self { process, lines }
    }

    /// The same on a CPU and any port of loopback, with a key; its log goes to `log`.
    ///
    /// # Panics
    /// Where it does not start.
    #[must_use]
    pub fn on_loopback(key: &Path, log: Stdio) -> Self {
        Self::start(|command| {
            command.args(["--device", "cpu", "--memory", "64M"]);
            command.args(["--listen", "127.0.0.1:0", "--key"]).arg(key);
            command.stderr(log);
        })
    }

    /// Arguments that join it.
    #[must_use]
    pub fn joining(&self) -> Vec<String> {
        let words = self
            .lines
            .last()
            .into_iter()
            .flat_map(|l| l.split_whitespace());
        let join = words.skip_while(|w| *w != "--join").take(2);
        join.map(str::to_owned).collect()
    }

    /// The rest of the line that begins so.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn said(&self, prefix: &str) -> &str {
        let mut rests = self.lines.iter().filter_map(|l| l.strip_prefix(prefix));
        let rest = rests.next();
        rest.unwrap_or_else(|| panic!("no {prefix:?} in {:?}", self.lines))
    }
}

/// What the program says on standard error; it ends well.
///
/// # Panics
/// Where it does not.
pub fn run(command: &mut Command) -> String {
    let output = command.env_remove("RUST_LOG").output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    errors
}

/// A folder with a volume of `tests/data` that was imported as bricks of 16³, and where it is.
///
/// # Panics
/// Where it cannot be imported.
#[must_use]
pub fn imported(volume: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let bricks = folder.path().join("v.brickmesh");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut command = Command::new(brickmesh());
    command.arg("import").arg(data.join(volume));
    run(command.args(["--brick", "16", "--out"]).arg(&bricks));
    (folder, bricks)
}

/// Changes a byte of a brick of a `.brickmesh` folder; returns the pack that it lies in.
///
/// # Panics
/// Where it cannot.
#[must_use]
pub fn damage_brick(folder: &Path, brick: usize) -> PathBuf {
    let bricks = folder.join("bricks");
    let places = std::fs::read(bricks.join("places")).expect("places");
    let place = places[brick * 8..].first_chunk().copied();
    let place = u64::from_le_bytes(place.expect("a place"));
    // As `brick_store/packs.rs` has them: packs count as 2^30 bytes.
    let pack = bricks.join(format!("{}.pack", place >> 30));
    let mut bytes = std::fs::read(&pack).expect("a pack");
    let at = usize::try_from(place).expect("it is in memory") % (1 << 30);
    bytes[at] ^= 1;
    std::fs::write(&pack, bytes).expect("it can be written");
    pack
}

/// Reads a PNG as RGBA.
///
/// # Panics
/// Where it is none.
#[must_use]
pub fn read_png(path: &Path) -> (u32, u32, Vec<u8>) {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut reader = png::Decoder::new(BufReader::new(file))
        .read_info()
        .expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut pixels).expect("a picture");
    pixels.truncate(info.buffer_size());
    (info.width, info.height, pixels)
}

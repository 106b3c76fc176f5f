//! The program, as processes.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::OnceLock,
};

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

/// Reads a PNG as RGBA.
///
/// # Panics
/// Where it is none.
#[must_use]
pub fn read_png(path: &Path) -> (u32, u32, Vec<u8>) {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut reader = png::Decoder::new(std::io::BufReader::new(file))
        .read_info()
        .expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut pixels).expect("a picture");
    pixels.truncate(info.buffer_size());
    (info.width, info.height, pixels)
}

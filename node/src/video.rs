//! Videos of numbered pictures, by the program `ffmpeg` of the machine.

use crate::{
    output_file::{OutputError, OutputFile},
    stop::Stop,
};
use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// The program.
const PROGRAM: &str = "ffmpeg";
/// How often it is looked whether it has ended.
const POLL: Duration = Duration::from_millis(50);

/// A video that is to be made.
#[derive(Clone, Debug)]
pub struct Video {
    asked: PathBuf,
    file: OutputFile,
    frames_per_second: f64,
}

impl Video {
    /// Looks whether it can be written.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn check(path: &Path, frames_per_second: f64) -> Result<Self, OutputError> {
        let file = OutputFile::check("video", path)?;
        if path.extension().is_none() {
            return Err(OutputError {
                what: "video",
                path: path.to_owned(),
                why: "the ending of its name says its format; choose a name that ends in .mp4"
                    .to_owned(),
            });
        }
        Ok(Self {
            asked: path.to_owned(),
            file,
            frames_per_second,
        })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &OutputFile {
        &self.file
    }

    /// Looks whether the program makes files of this ending.
    ///
    /// # Errors
    /// Text that says why not.
    pub fn check_format(&self) -> Result<(), String> {
        let wrong = |why: String| format!("video {}: {why}", self.asked.display());
        let folder = tempfile::tempdir().map_err(|e| wrong(e.to_string()))?;
        let picture = folder.path().join("picture");
        std::fs::write(&picture, [0; 16 * 16 * 3]).map_err(|e| wrong(e.to_string()))?;
        let mut command = Command::new(PROGRAM);
        command.args(["-loglevel", "error", "-nostdin", "-f", "rawvideo"]);
        command
            .args(["-pix_fmt", "rgb24", "-s", "16x16", "-i"])
            .arg(&picture);
        command.args(["-pix_fmt", "yuv420p"]);
        let made = command.arg(self.made_in(folder.path())).output();
        let made = made.map_err(|e| wrong(e.to_string()))?;
        if made.status.success() {
            return Ok(());
        }
        let ending = self.asked.extension().unwrap_or_default().display();
        Err(wrong(format!(
            "{PROGRAM} makes no .{ending} files; choose a name that ends in .mp4"
        )))
    }

    /// Where the program writes to.
    fn made_in(&self, folder: &Path) -> PathBuf {
        let mut name = OsString::from("video.");
        name.push(self.asked.extension().unwrap_or_default());
        folder.join(name)
    }

    /// Whether the machine has the program; else what to do.
    ///
    /// # Errors
    /// Text for people.
    pub fn program_is_there() -> Result<(), String> {
        let asked = Command::new(PROGRAM)
            .arg("-version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match asked {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!(
                "no video: {PROGRAM} is not installed; the pictures stay"
            )),
        }
    }

    /// Makes it of the pictures that [`numbered`](crate::picture::numbered) names after `pictures`.
    ///
    /// # Errors
    /// Text that says why not; the pictures stay, and what was there before.
    pub fn make(&self, pictures: &Path, count: u32, stop: &Stop) -> Result<(), String> {
        let wrong =
            |why: String| format!("video {}: {why}; the pictures stay", self.asked.display());
        // A name that begins with a word and a colon would be a protocol.
        let pictures = std::path::absolute(pictures).map_err(|e| wrong(e.to_string()))?;
        let folder = tempfile::tempdir().map_err(|e| wrong(e.to_string()))?;
        let made = self.made_in(folder.path());
        let mut command = Command::new(PROGRAM);
        command.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"]);
        command.args(["-framerate", &self.frames_per_second.to_string()]);
        command
            .args(["-start_number", "0", "-i"])
            .arg(pattern(&pictures));
        command.args(["-frames:v", &count.to_string()]);
        // Formats that every player knows have an even width and height.
        let even = "pad=ceil(iw/2)*2:ceil(ih/2)*2";
        command
            .args(["-vf", even, "-pix_fmt", "yuv420p"])
            .arg(&made);
        let log = folder.path().join("log");
        let errors = File::create(&log).map_err(|e| wrong(e.to_string()))?;
        let mut running = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|e| wrong(format!("{PROGRAM}: {e}")))?;
        let status = loop {
            match running.try_wait().map_err(|e| wrong(e.to_string()))? {
                Some(status) => break status,
                None if stop.is_said() => {
                    let ended = running.kill().and_then(|()| running.wait());
                    tracing::debug!(?ended, "interrupted");
                    return Err(wrong("interrupted".to_owned()));
                }
                None => thread::sleep(POLL),
            }
        };
        if !status.success() {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let last = said.lines().last().unwrap_or_default();
            let last = brickmesh_actors::plain_text::shortened(last);
            return Err(wrong(format!("{PROGRAM} ended with {status}: {last}")));
        }
        let mut made = File::open(&made).map_err(|e| wrong(e.to_string()))?;
        let written = self.file.write(|w| io::copy(&mut made, w).map(drop));
        written.map_err(|e| wrong(e.why))
    }
}

/// The names of numbered pictures, as the program takes them.
fn pattern(pictures: &Path) -> PathBuf {
    let escaped = |text: Option<&std::ffi::OsStr>| {
        let text = text.unwrap_or_default().to_string_lossy();
        text.replace('%', "%%")
    };
    let name = format!(
        "{}-%04d.{}",
        escaped(pictures.file_stem()),
        escaped(pictures.extension())
    );
    match pictures.parent() {
        Some(folder) => {
            let folder = folder.to_string_lossy().replace('%', "%%");
            Path::new(&folder).join(name)
        }
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pictures_are_patterns_whatever_is_in_them() {
        let of = |path: &str| pattern(Path::new(path)).display().to_string();
        assert_eq!(of("a/b.png"), "a/b-%04d.png");
        assert_eq!(of("50%/b%d.png"), "50%%/b%%d-%04d.png");
    }

    #[test]
    fn a_name_without_an_ending_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Video::check(&folder.path().join("video"), 30.0).unwrap_err();
        assert!(error.to_string().contains(".mp4"), "{error}");
    }
}

//! Files that a command writes, whatever they are: a regular one is replaced by a whole one, anything
//! else is written through.
//!
//! Invariants: a regular file is never half-written, unless its folder takes no other file; it keeps
//! its mode and owner, a new one has what the umask leaves. What a link points at is replaced, not the link. A device, pipe or socket stays
//! what it is.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// Links that are followed before they count as a circle.
const LINKS_MAX: usize = 40;

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {why}", path.display())]
pub struct OutputError {
    /// What it was to hold.
    pub what: &'static str,
    /// The file that was asked for.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// See the module. What there was when it was looked at.
#[derive(Clone, Debug)]
pub struct OutputFile {
    what: &'static str,
    asked: PathBuf,
    /// Behind all links.
    path: PathBuf,
    way: Way,
}

/// How a file is written.
#[derive(Clone, Debug)]
enum Way {
    /// Beside its place, and moved there when it is whole.
    Replace,
    /// As it is opened, for its folder takes no other file.
    InPlace,
    /// As it is opened: it is no regular file.
    Through,
}

impl OutputFile {
    /// Looks whether a file can be written, without changing anything. `what` it holds is for errors.
    ///
    /// # Errors
    /// [`OutputError`] where it is a folder, or may not be written to.
    pub fn check(what: &'static str, asked: &Path) -> Result<Self, OutputError> {
        let error = |why: String| OutputError {
            what,
            path: asked.to_owned(),
            why,
        };
        // What a link to a pipe says of it, as those of `/dev/fd` do, is no path.
        let found = fs::metadata(asked);
        if found.is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Ok(Self {
                what,
                asked: asked.to_owned(),
                path: asked.to_owned(),
                way: Way::Through,
            });
        }
        let path = behind_links(asked).map_err(|e| error(e.to_string()))?;
        let folder = folder_of(&path);
        let way = match fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                return Err(error("it is a folder; name a file in it".to_owned()));
            }
            Ok(found) if found.is_file() => {
                // Nothing is cut off: it is only asked whether that would be allowed.
                let opened = OpenOptions::new().append(true).open(&path);
                opened.map_err(|e| error(format!("it cannot be written to: {e}")))?;
                if takes_files(folder).is_ok() {
                    Way::Replace
                } else {
                    Way::InPlace
                }
            }
            Ok(_) => Way::Through,
            Err(e) if e.kind() == io::ErrorKind::NotFound && !folder.is_dir() => {
                return Err(error(format!("there is no folder {}", folder.display())));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                takes_files(folder).map_err(|e| {
                    error(format!(
                        "the folder {} cannot be written to: {e}",
                        folder.display()
                    ))
                })?;
                Way::Replace
            }
            Err(e) => return Err(error(e.to_string())),
        };
        Ok(Self {
            what,
            asked: asked.to_owned(),
            path,
            way,
        })
    }

    /// Whether it can be written again and again, each time in place of what was there.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        matches!(self.way, Way::Replace)
    }

    /// Refuses to write where something is that the command reads or writes otherwise: `what` is there.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn is_not(&self, other: &Path, what: &str) -> Result<(), OutputError> {
        let place = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let other = behind_links(other).unwrap_or_else(|_| other.to_owned());
        if !self.is_regular() || place(&self.path) != place(&other) {
            return Ok(());
        }
        Err(OutputError {
            what: self.what,
            path: self.asked.clone(),
            why: format!("{what} is there; choose another name"),
        })
    }

    /// Whether it is a regular file, or will be.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        !matches!(self.way, Way::Through)
    }

    /// Writes the file with what `contents` gives, whole or, where it is replaced, not at all.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn write(
        &self,
        contents: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let written = match self.way {
            Way::Replace => self.replace(contents),
            Way::InPlace | Way::Through => self.write_through(contents),
        };
        written.map_err(|e| OutputError {
            what: self.what,
            path: self.asked.clone(),
            // Temporary files put their own names into errors.
            why: e
                .get_ref()
                .map_or_else(|| e.to_string(), |_| e.kind().to_string()),
        })
    }

    fn replace(&self, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let file = new_file(folder_of(&self.path))?;
        write_all(file.as_file(), contents)?;
        if let Ok(before) = fs::metadata(&self.path) {
            keep_owner(file.path(), &before);
            file.as_file().set_permissions(before.permissions())?;
        }
        file.persist(&self.path).map_err(|e| e.error)?;
        Ok(())
    }

    fn write_through(
        &self,
        contents: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&self.path)?;
        write_all(&file, contents)
    }
}

fn write_all(
    file: &File,
    contents: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    contents(&mut writer)?;
    writer.flush()
}

/// What a path stands for behind links; what a link points at need not be there.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(to) => path = folder_of(&path).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links, one behind the other"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether files can be made in a folder.
fn takes_files(folder: &Path) -> io::Result<()> {
    new_file(folder).map(drop).map_err(|e| e.kind().into())
}

/// A new file with what the umask leaves of rights for all.
fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.prefix(".brickmesh-").tempfile_in(folder)
}

/// Who owned the file that is replaced owns the new one, if this user may give it away.
#[cfg(unix)]
fn keep_owner(path: &Path, before: &Metadata) {
    use std::os::unix::fs::{MetadataExt as _, chown};
    if let Err(error) = chown(path, Some(before.uid()), Some(before.gid())) {
        tracing::debug!(%error, "the file has another owner than the one before");
    }
}

#[cfg(not(unix))]
fn keep_owner(_: &Path, _: &Metadata) {}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};

    fn write(path: &Path, text: &str) -> Result<(), OutputError> {
        OutputFile::check("text", path)?.write(|w| w.write_all(text.as_bytes()))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_and_keeps_its_mode_a_new_one_has_what_the_umask_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        write(&path, "one").unwrap();
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        assert_eq!(mode(&path), mode(&plain));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, "two").unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), mode(&path)),
            ("two".to_owned(), 0o640)
        );
        // A failure in the middle leaves what there was, and nothing else.
        let file = OutputFile::check("text", &path).unwrap();
        let failed = file.write(|w| {
            w.write_all(b"thr")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_read_or_written_otherwise_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let [volume, link, new] = ["volume", "link", "new"].map(|n| dir.path().join(n));
        fs::write(&volume, "voxels").unwrap();
        symlink("volume", &link).unwrap();
        let over = |out: &Path, other: &Path| {
            let out = OutputFile::check("picture", out).unwrap();
            out.is_not(other, "the volume").map_err(|e| e.to_string())
        };
        for (out, other) in [
            (&volume, &volume),
            (&link, &volume),
            (&volume, &link),
            (&new, &new),
        ] {
            let error = over(out, other).unwrap_err();
            assert!(error.contains("the volume is there"), "{error}");
        }
        over(&new, &volume).unwrap();
        over(Path::new("/dev/null"), Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn links_stay_and_what_they_point_at_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let [target, link, chain] = ["target", "link", "chain"].map(|n| dir.path().join(n));
        symlink("target", &link).unwrap();
        symlink("link", &chain).unwrap();
        write(&chain, "through a link to nothing yet").unwrap();
        write(&chain, "again").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "again");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let circle = dir.path().join("circle");
        symlink("circle", &circle).unwrap();
        let error = write(&circle, "x").unwrap_err().to_string();
        assert!(error.contains("links"), "{error}");
    }

    #[test]
    fn devices_stay_devices_and_a_full_one_is_told() {
        let null = Path::new("/dev/null");
        let before = fs::metadata(null).unwrap();
        write(null, "x").unwrap();
        let after = fs::metadata(null).unwrap();
        assert!(after.file_type().is_char_device() && after.ino() == before.ino());
        let full = Path::new("/dev/full");
        if full.exists() {
            let error = write(full, "x").unwrap_err().to_string();
            assert!(
                error.contains("/dev/full") && !error.contains(".brickmesh-"),
                "{error}"
            );
            assert!(fs::metadata(full).unwrap().file_type().is_char_device());
        }
    }

    #[test]
    fn what_cannot_be_written_is_found_before_anything_is() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: &Path| OutputFile::check("picture", path).unwrap_err().to_string();
        assert!(error(dir.path()).contains("it is a folder"));
        let nowhere = error(&dir.path().join("none/a.png"));
        assert!(
            nowhere.contains("none") && !nowhere.contains(".brickmesh-"),
            "{nowhere}"
        );
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(OutputFile::check("picture", &file.join("a.png")).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

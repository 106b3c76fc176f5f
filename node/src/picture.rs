//! Pictures as PNG files: 8-bit RGBA, no gamma, written whole or not at all.

use std::{io::BufWriter, path::Path, path::PathBuf};

/// A picture that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("picture {}: {why}", path.display())]
pub struct PictureError {
    /// File.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// Writes RGBA pixels, row by row from the top.
///
/// # Errors
/// [`PictureError`] where the folder is not there or cannot be written to.
pub fn write_png(path: &Path, width: u32, height: u32, rgba: &[u8]) -> Result<(), PictureError> {
    let error = |why: String| PictureError {
        path: path.to_owned(),
        why,
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let file = tempfile::NamedTempFile::new_in(folder).map_err(|e| {
        error(format!(
            "the folder {} cannot be written to: {e}",
            folder.display()
        ))
    })?;
    let mut encoder = png::Encoder::new(BufWriter::new(&file), width, height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut w| {
        w.write_image_data(rgba)?;
        w.finish()
    });
    written.map_err(|e| error(e.to_string()))?;
    readable_by_all(file.path());
    file.persist(path).map_err(|e| error(e.to_string()))?;
    Ok(())
}

/// Temporary files are private; a picture is not.
#[cfg(unix)]
fn readable_by_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)) {
        tracing::debug!(%error, "the picture stays private");
    }
}

#[cfg(not(unix))]
fn readable_by_all(_: &Path) {}

/// The path of frame `index` of several: P.png becomes P-0000.png.
#[must_use]
pub fn numbered(path: &Path, index: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map_or_else(String::new, |e| format!(".{}", e.to_string_lossy()));
    path.with_file_name(format!("{stem}-{index:04}{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_numbered_before_the_extension() {
        assert_eq!(numbered(Path::new("a/b.png"), 7), Path::new("a/b-0007.png"));
    }

    #[test]
    fn a_picture_into_nowhere_names_the_folder() {
        let error = write_png(Path::new("/nowhere/at/all.png"), 1, 1, &[0; 4]).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at"));
    }
}

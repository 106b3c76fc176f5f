//! Pictures as PNG files: 8-bit RGBA, no gamma, written from the top as their rows come.

use crate::output_file::{OutputError, OutputFile};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Endings that a picture's name may have.
const ENDING: &str = "png";

/// Looks whether a picture can be written to a file.
///
/// # Errors
/// [`OutputError`]; also where its name says that it is to be of another format.
pub fn check(path: &Path) -> Result<OutputFile, OutputError> {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let file = OutputFile::check("picture", path)?;
    // A device has the name that it has.
    if file.is_regular() && !ending.eq_ignore_ascii_case(ENDING) {
        return Err(OutputError {
            what: "picture",
            path: path.to_owned(),
            why: "pictures are written as PNG; choose a name that ends in .png".to_owned(),
        });
    }
    Ok(file)
}

/// Writes a picture of which whole rows of RGBA pixels come one after the other.
///
/// # Errors
/// [`OutputError`]; also where the rows end before the picture does.
pub fn write_png(
    file: &OutputFile,
    (width, height): (u32, u32),
    bands: impl Iterator<Item = Vec<u8>>,
) -> Result<(), OutputError> {
    file.write(|writer| {
        let mut encoder = png::Encoder::new(writer, width, height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let mut png = encoder.write_header().map_err(io_error)?;
        let mut rows = png.stream_writer().map_err(io_error)?;
        for band in bands {
            io::Write::write_all(&mut rows, &band)?;
        }
        rows.finish().map_err(io_error)?;
        png.finish().map_err(io_error)
    })
}

/// What the encoder says, as what the system said.
fn io_error(error: png::EncodingError) -> io::Error {
    match error {
        png::EncodingError::IoError(error) => error,
        other => io::Error::new(io::ErrorKind::UnexpectedEof, other.to_string()),
    }
}

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
    fn another_format_is_refused_with_what_is_possible() {
        let dir = tempfile::tempdir().unwrap();
        let error = check(&dir.path().join("o.jpg")).unwrap_err().to_string();
        assert!(error.contains("o.jpg") && error.contains(".png"), "{error}");
        assert!(check(&dir.path().join("o.PNG")).is_ok());
        assert!(check(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn bands_are_one_picture_and_one_that_lacks_rows_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        let file = check(&path).unwrap();
        let bands = |rows: &[usize]| -> Vec<Vec<u8>> {
            let band = |&n: &usize| (0..=250_u8).cycle().take(n * 5 * 4).collect();
            rows.iter().map(band).collect()
        };
        assert!(write_png(&file, (5, 7), bands(&[3, 3]).into_iter()).is_err());
        assert!(!path.exists());
        let all = bands(&[3, 3, 1]);
        write_png(&file, (5, 7), all.clone().into_iter()).unwrap();
        let decoder = png::Decoder::new(io::BufReader::new(std::fs::File::open(&path).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, all.concat());
    }
}

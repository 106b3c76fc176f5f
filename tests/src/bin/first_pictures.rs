//! The default picture of every volume of a folder: a contact sheet, and for each the share of the
//! picture that what is seen fills.
//!
//! `cargo run --release -p brickmesh-tests --bin first_pictures -- FOLDER SHEET.png`

use brickmesh_tests::program::{brickmesh, read_png};
use std::{
    env,
    error::Error,
    fs::{self, File},
    io::BufWriter,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Edge of a picture.
const EDGE: u32 = 512;
/// Pixels of a picture that are one on the sheet, on each axis.
const REDUCED: u32 = 3;
/// Pictures beside each other on the sheet.
const COLUMNS: usize = 5;
/// Brightest colour of a pixel that counts as dark.
const DARK: u8 = 24;

fn main() -> ExitCode {
    let args: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [folder, sheet] = args.as_slice() else {
        eprintln!(
            "first_pictures FOLDER SHEET.png: a folder with volumes, and the picture to write"
        );
        return ExitCode::FAILURE;
    };
    match run(folder, sheet) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("first_pictures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path, sheet: &Path) -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    entries.sort();
    let mut pictures = Vec::new();
    for volume in &entries {
        let opens = Command::new(brickmesh())
            .args(["info", "--header"])
            .arg(volume)
            .output()?;
        if !opens.status.success() {
            continue;
        }
        let out = scratch.path().join("p.png");
        let size = format!("{EDGE}x{EDGE}");
        let rendered = Command::new(brickmesh())
            .args(["render", "--size", &size, "--out"])
            .arg(&out)
            .arg(volume)
            .output()?;
        let name = volume.file_name().unwrap_or_default().to_string_lossy();
        if !rendered.status.success() {
            return Err(format!("{name}: {}", String::from_utf8_lossy(&rendered.stderr)).into());
        }
        let (_, _, pixels) = read_png(&out);
        println!("{:5.1} %  {name}", 100.0 * share(&pixels));
        pictures.push(pixels);
    }
    write_sheet(sheet, &pictures)
}

/// Bytes of a pixel.
fn pixel_bytes(pixels: &[u8]) -> usize {
    pixels.len() / (EDGE * EDGE) as usize
}

/// The longer edge of what is not dark, as a share of the picture's.
fn share(pixels: &[u8]) -> f64 {
    let (mut low, mut high) = ([EDGE; 2], [0; 2]);
    for (pixel, at) in pixels.chunks_exact(pixel_bytes(pixels)).zip(0_u32..) {
        if pixel[..3].iter().all(|c| *c <= DARK) {
            continue;
        }
        for (axis, at) in [at % EDGE, at / EDGE].into_iter().enumerate() {
            low[axis] = low[axis].min(at);
            high[axis] = high[axis].max(at + 1);
        }
    }
    let edge = |axis: usize| high[axis].saturating_sub(low[axis]);
    f64::from(edge(0).max(edge(1))) / f64::from(EDGE)
}

/// Writes the pictures, reduced, beside and below each other.
fn write_sheet(path: &Path, pictures: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let small = (EDGE / REDUCED) as usize;
    let rows = pictures.len().div_ceil(COLUMNS);
    let (width, height) = (COLUMNS * small, rows * small);
    let mut sheet = vec![0_u8; width * height * 3];
    for (n, pixels) in pictures.iter().enumerate() {
        let (left, top) = (n % COLUMNS * small, n / COLUMNS * small);
        for (y, x) in (0..small).flat_map(|y| (0..small).map(move |x| (y, x))) {
            for c in 0..3 {
                let at = ((top + y) * width + left + x) * 3 + c;
                sheet[at] = mean(pixels, [x, y], c);
            }
        }
    }
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(file, u32::try_from(width)?, u32::try_from(height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(&sheet)?;
    Ok(())
}

/// One colour of a reduced pixel.
fn mean(pixels: &[u8], [x, y]: [usize; 2], color: usize) -> u8 {
    let by = REDUCED as usize;
    let places =
        (0..by).flat_map(|dy| (0..by).map(move |dx| (y * by + dy) * EDGE as usize + x * by + dx));
    let sum: usize = places
        .map(|at| usize::from(pixels[at * pixel_bytes(pixels) + color]))
        .sum();
    u8::try_from(sum / (by * by)).unwrap_or(u8::MAX)
}

//! Small parts of text headers: bounded lines, numbers, data files.

use super::{HEADER_BYTES_MAX, Problem, open_regular};
use brickmesh_topology::data::volume::VolumeDescription;
use glam::DMat3;
use std::{
    io::{self, BufRead, Read as _},
    path::{Path, PathBuf},
};

/// The next line without its end, or `None` at the end of the file; `left` bounds the header.
pub(super) fn line(reader: &mut impl BufRead, left: &mut u64) -> Result<Option<String>, Problem> {
    let mut bytes = Vec::new();
    let read = reader.by_ref().take(*left).read_until(b'\n', &mut bytes)? as u64;
    if read == 0 {
        return Ok(None);
    }
    *left -= read;
    if *left == 0 {
        return Err(Problem::field(
            "header",
            format!("more than {HEADER_BYTES_MAX} bytes"),
            "a header that ends before",
        ));
    }
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Whitespace- or comma-separated numbers.
pub(super) fn floats(field: &str, text: &str) -> Result<Vec<f64>, Problem> {
    let parts = text
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|p| !p.is_empty());
    let parse = |p: &str| {
        p.parse::<f64>()
            .map_err(|_| Problem::field(field, text, "numbers"))
    };
    parts.map(parse).collect()
}

/// Exactly N numbers.
pub(super) fn floats_n<const N: usize>(field: &str, text: &str) -> Result<[f64; N], Problem> {
    let all = floats(field, text)?;
    all.try_into()
        .map_err(|_| Problem::field(field, text, format!("{N} numbers")))
}

/// Three dims; an axis that does not fit a u32 is told by its text.
pub(super) fn dims(field: &str, text: &str) -> Result<[u32; 3], Problem> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let wrong = || Problem::field(field, text, "three whole numbers from 1 to 65536");
    // A fourth axis of length 1 is a volume all the same.
    let three: Vec<u32> = match parts.as_slice() {
        [_, _, _] | [_, _, _, "1"] => parts[..3]
            .iter()
            .map(|p| p.parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?,
        _ => return Err(wrong()),
    };
    Ok([three[0], three[1], three[2]])
}

/// Longest name of a data file, in bytes: more than any system takes.
const NAME_BYTES_MAX: usize = 4096;

/// A data file named by a header: beside it, unless the name is absolute.
pub(super) fn detached(header: &Path, field: &'static str, name: &str) -> Result<PathBuf, Problem> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Problem::field(field, name, "the name of a file"));
    }
    let data = header.parent().unwrap_or(Path::new("")).join(name);
    let source = match open_regular(&data) {
        Ok(_) => return Ok(data),
        Err(Problem::Io(source)) => source,
        Err(other) => io::Error::other(other.to_string()),
    };
    Err(Problem::Detached {
        field,
        data,
        source,
    })
}

/// Sets spacing and unit directions from the columns of world-from-grid.
pub(super) fn set_columns(volume: &mut VolumeDescription, columns: DMat3) {
    for a in 0..3 {
        let column = columns.col(a);
        let length = column.length();
        volume.spacing[a] = length;
        // A column without length is told by `validate`, as a spacing of 0.
        volume.direction[a] = (column / length).to_array();
    }
}

//! OBJ files: the places of vertices, and faces by their numbers, from 1 or, below 0, from the last one back. Crates that were
//! tried refuse comments behind numbers, other encodings, lines that go on, and colours of some vertices. What it says of normals,
//! textures, groups and materials is not looked at.

use super::{ScratchError, Spill, SurfaceMesh, SurfaceProblem};
use std::io::{BufRead, Read as _};

/// Longest line, with those that it goes on in, bytes.
const LINE_BYTES_MAX: usize = 16 << 20;

pub(super) fn read(file: &mut impl BufRead, spill: &Spill) -> Result<SurfaceMesh, SurfaceProblem> {
    let mut mesh = SurfaceMesh::new(spill);
    let (mut line, mut number) = (Vec::new(), 0_usize);
    loop {
        let room = LINE_BYTES_MAX.saturating_sub(line.len()) as u64;
        let read = file.by_ref().take(room).read_until(b'\n', &mut line)?;
        if read == 0 && line.is_empty() {
            return Ok(mesh);
        }
        number += 1;
        let text = line.trim_ascii_end();
        if text.ends_with(b"\\") && read > 0 {
            line.truncate(text.len() - 1);
            line.push(b' ');
            continue;
        }
        let text = String::from_utf8_lossy(text);
        let text = text.trim_start_matches('\u{feff}');
        let text = text.split('#').next().unwrap_or_default();
        take_line(text, &mut mesh).map_err(|problem| match problem {
            LineProblem::Text(why) => SurfaceProblem::Format {
                format: "OBJ",
                why: format!("line {number}: {why}"),
            },
            LineProblem::Other(problem) => problem,
        })?;
        line.clear();
    }
}

/// Why a line was not taken.
enum LineProblem {
    Text(String),
    Other(SurfaceProblem),
}

impl From<String> for LineProblem {
    fn from(why: String) -> Self {
        Self::Text(why)
    }
}

impl From<ScratchError> for LineProblem {
    fn from(error: ScratchError) -> Self {
        Self::Other(error.into())
    }
}

/// Takes a line, without its comment.
fn take_line(text: &str, mesh: &mut SurfaceMesh) -> Result<(), LineProblem> {
    let mut words = text.split_whitespace();
    match words.next() {
        Some("v") => {
            let mut number = || {
                let word = words.next().unwrap_or_default();
                let found: Result<f64, _> = word.parse();
                found.map_err(|_| format!("{word:?} is no number; expected x, y and z"))
            };
            let place = [number()?, number()?, number()?];
            mesh.add_vertex(place).map_err(LineProblem::Other)?;
        }
        Some("f") => {
            let count = mesh.vertices.len();
            let corners = words.map(|word| corner(word, count));
            let corners: Vec<u32> = corners.collect::<Result<_, _>>()?;
            let fan = corners.windows(2).skip(1);
            let fan = fan.map(|pair| [corners[0], pair[0], pair[1]]);
            mesh.triangles.extend(fan)?;
        }
        _ => {}
    }
    Ok(())
}

/// The vertex that a word of a face names, of so many before it.
fn corner(word: &str, count: usize) -> Result<u32, String> {
    let named = word.split('/').next().unwrap_or_default();
    let named: i64 = named
        .parse()
        .map_err(|_| format!("{word:?} names no vertex"))?;
    let from_first = if named < 0 {
        i64::try_from(count)
            .unwrap_or(i64::MAX)
            .saturating_add(named)
    } else {
        named - 1
    };
    let found = u32::try_from(from_first).ok();
    let found = found.filter(|c| (*c as usize) < count);
    found.ok_or_else(|| match count {
        1 => format!("vertex {named} is not there; there is 1"),
        _ => format!("vertex {named} is not there; there are {count} before it"),
    })
}

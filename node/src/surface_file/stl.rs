//! STL files: triangles of places alone. Places that are alike are one vertex.

use super::{Rows, Spill, SurfaceMesh, SurfaceProblem};
use std::{
    collections::HashMap,
    io::{self, Read, Seek, SeekFrom},
};

/// Memory that a place takes while it is known, at most: its row in a table of which half is empty, and in the one before that.
const KNOWN_BYTES: u64 = 60;
/// A vertex that is not known yet.
const UNKNOWN: u32 = u32::MAX;

/// Bytes before the triangles of a binary file, and the place of their number in them.
const HEAD_BYTES: usize = 84;
const COUNT_AT: usize = 80;
/// Bytes of one of them: a normal, three places, and two that others use as they like.
const TRIANGLE_BYTES: usize = 50;
/// Longest line of the others, bytes.
const LINE_BYTES_MAX: usize = 1 << 16;

/// Reads a file of so many bytes.
pub(super) fn read(
    file: &mut (impl Read + Seek),
    bytes: u64,
    spill: &Spill,
) -> Result<SurfaceMesh, SurfaceProblem> {
    let mut mesh = SurfaceMesh::new(spill);
    let mut corners = Rows::new(spill);
    let mut add = |triangle: [[f32; 3]; 3]| {
        // Zero has two signs.
        let bits = triangle.map(|p| p.map(|c| (c + 0.0).to_bits()));
        corners.extend(bits)?;
        Ok::<(), SurfaceProblem>(mesh.triangles.push([UNKNOWN; 3])?)
    };
    match binary_count(file, bytes)? {
        Some(count) => {
            let mut triangle = [0; TRIANGLE_BYTES];
            for _ in 0..count {
                file.read_exact(&mut triangle).map_err(bad)?;
                let (words, _) = triangle.as_chunks();
                let number = |n: usize| f32::from_le_bytes(words[3 + n]);
                add([0, 3, 6].map(|n| [number(n), number(n + 1), number(n + 2)]))?;
            }
        }
        None => {
            let mut lines = Lines { file, length: 0 };
            for triangle in stl_io::create_stl_reader(&mut lines).map_err(bad)? {
                add(triangle.map_err(bad)?.vertices.map(|v| v.0))?;
            }
        }
    }
    if u32::try_from(corners.len()).is_err() {
        let why = "it has 2^32 corners or more".to_owned();
        return Err(SurfaceProblem::Format { format: "STL", why });
    }
    // As many places as there is memory for, then those that come after them, and so on.
    let most = usize::try_from(spill.table_bytes_max() / KNOWN_BYTES).unwrap_or(usize::MAX);
    let mut known: HashMap<[u32; 3], u32> = HashMap::new();
    let mut is_whole = false;
    while !is_whole {
        known.clear();
        is_whole = true;
        let vertices = &mut mesh.vertices;
        mesh.triangles.update(|at, triangle| {
            let mut is_changed = false;
            for (n, corner) in triangle.iter_mut().enumerate() {
                if *corner != UNKNOWN {
                    continue;
                }
                let place = corners.get(3 * at + n)?;
                if let Some(vertex) = known.get(&place) {
                    *corner = *vertex;
                } else if known.len() < most.max(1) {
                    *corner = u32::try_from(vertices.len()).unwrap_or(UNKNOWN);
                    vertices.push(place.map(|c| f32::from_bits(c).into()))?;
                    known.insert(place, *corner);
                } else {
                    is_whole = false;
                }
                is_changed |= *corner != UNKNOWN;
            }
            Ok::<bool, SurfaceProblem>(is_changed)
        })?;
    }
    Ok(mesh)
}

fn bad(why: io::Error) -> SurfaceProblem {
    SurfaceProblem::Format {
        format: "STL",
        why: match why.kind() {
            io::ErrorKind::UnexpectedEof => {
                "it ends before its last triangle, or is neither ASCII nor binary STL".to_owned()
            }
            _ => why.to_string(),
        },
    }
}

/// How many triangles a binary file has; `None`: it is text. Then it begins with "solid", which others may, too: those are as long as their
/// number of triangles says.
fn binary_count(file: &mut (impl Read + Seek), bytes: u64) -> Result<Option<u32>, SurfaceProblem> {
    let mut head = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let count = head.get(COUNT_AT..).and_then(|c| c.try_into().ok());
    let count = count.map(u32::from_le_bytes);
    let length = |count: u32| HEAD_BYTES as u64 + u64::from(count) * TRIANGLE_BYTES as u64;
    let is_text = head.starts_with(b"solid") && count.is_none_or(|c| length(c) != bytes);
    if is_text {
        file.rewind()?;
        return Ok(None);
    }
    count
        .map(Some)
        .ok_or_else(|| bad(io::ErrorKind::UnexpectedEof.into()))
}

/// A text of lines that are not too long.
struct Lines<'a, T> {
    file: &'a mut T,
    /// Of the line so far.
    length: usize,
}

impl<T: Read> Read for Lines<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        for line in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
            self.length += line.len();
            if self.length > LINE_BYTES_MAX {
                let why = format!("a line is longer than {LINE_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            if line.ends_with(b"\n") {
                self.length = 0;
            }
        }
        Ok(count)
    }
}

impl<T: Seek> Seek for Lines<'_, T> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.length = 0;
        self.file.seek(to)
    }
}

//! Triangle meshes as files: PLY (ASCII, and binary of either byte order), STL (ASCII, binary) and glTF (text, GLB) by crates that read
//! them, and OBJ.
//!
//! Space: world. Faces of more than three corners are cut into fans. Where a file has no normals, each corner's is the mean of
//! the triangles around it that are bent from its own by less than 50°.
//! Invariants: all corners of a [`SurfaceMesh`] are finite, and each triangle's are there. What does not fit into memory is in scratch files, so that a
//! mesh may be larger, but for glTF, whose files are read whole; what comes of it is the same.
//!
//! Not here: what triangles look like (`topology`), textures.

mod gltf;
mod normals;
mod obj;
mod ply;
mod rows;
mod stl;

pub use rows::{ScratchError, Spill};

use crate::bounded_file::open_regular;
use brickmesh_actors::plain_text::shortened;
use glam::{DAffine3, DVec3};
use normals::CornerNormals;
use rows::Rows;
use std::{
    io::{self, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

/// Endings of the files that are read here.
const ENDINGS: [&str; 5] = ["ply", "stl", "obj", "gltf", "glb"];
/// Least memory with which triangles are read: with less they are read again and again.
pub(crate) const MEMORY_MIN: u64 = 16 << 20;
/// Bytes of a file that are read at once.
const READ_BYTES: usize = 64 << 10;

/// What a file says of how some of its triangles look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Linear RGB, 0 to 1.
    pub color: [f32; 3],
    /// 0 to 1; of what is seen above 0.
    pub opacity: f32,
}

/// A triangle mesh.
#[derive(Debug)]
pub struct SurfaceMesh {
    spill: Spill,
    vertices: Rows<[f64; 3]>,
    /// By vertex; 0: none. Empty: the file has none.
    normals: Rows<[f64; 3]>,
    triangles: Rows<[u32; 3]>,
    /// Without two of the same; empty: the file says of none. `None`: of whatever colour.
    looks: Vec<Option<Look>>,
    /// By triangle, where there are looks.
    look_of: Rows<u32>,
    bounds: [DVec3; 2],
}

/// A file that cannot be read as a triangle mesh.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct SurfaceFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: SurfaceProblem,
}

/// What is wrong with a file of triangles.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceProblem {
    /// It cannot be opened or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not of the format that its name says.
    #[error("it is no good {format}: {}", in_a_line(why))]
    Format {
        /// The format.
        format: &'static str,
        /// What its reader says.
        why: String,
    },
    /// A face has a corner that is not there.
    #[error("face {face} has vertex {found}; expected 0 to {}, as there are {vertices} vertices", vertices - 1)]
    Corner {
        /// Which, from 0.
        face: usize,
        /// The vertex that it names.
        found: i64,
        /// Vertices that there are; at least 1.
        vertices: usize,
    },
    /// A vertex is nowhere.
    #[error("vertex {vertex} is {found:?}; expected finite numbers below 1e30")]
    Vertex {
        /// Which, from 0.
        vertex: usize,
        /// Its place.
        found: [f64; 3],
    },
    /// There are more vertices than numbers for them.
    #[error("it has 2^32 vertices or more; cut it into several files")]
    Vertices,
    /// There is nothing to be seen.
    #[error(
        "it has {vertices} vertices and no triangles with an area that can be seen; expected one at least"
    )]
    Empty {
        /// Vertices that it has.
        vertices: usize,
    },
    /// What it names does not fit into memory.
    #[error("it and what it names do not fit into the memory that may be taken, of which {} MiB are left", bytes_left >> 20)]
    NoRoom {
        /// Memory that is left of what may be taken.
        bytes_left: u64,
    },
    /// What does not fit into memory cannot be kept elsewhere.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

/// What a reader says, without line breaks.
fn in_a_line(why: &str) -> String {
    shortened(&why.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Whether a path is named like a file of triangles.
#[must_use]
pub fn is_surface(path: &Path) -> bool {
    ending(path).is_some()
}

fn ending(path: &Path) -> Option<&'static str> {
    let found = path.extension()?.to_str()?.to_ascii_lowercase();
    ENDINGS.into_iter().find(|ending| *ending == found)
}

/// Reads a file of triangles; `progress` is told bytes read of all, but for glTF, and says whether to go on, as the [`Spill`] does.
///
/// # Errors
/// [`SurfaceFileError`]; whichever, where it does not go on.
pub fn read(
    path: &Path,
    spill: &Spill,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<SurfaceMesh, SurfaceFileError> {
    read_checked(path, spill, progress).map_err(|problem| SurfaceFileError {
        path: path.to_owned(),
        problem,
    })
}

fn read_checked(
    path: &Path,
    spill: &Spill,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<SurfaceMesh, SurfaceProblem> {
    let ending = ending(path);
    if matches!(ending, Some("gltf" | "glb")) {
        return gltf::read(path, spill)?.checked();
    }
    let file = open_regular(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    let all = file.metadata()?.len();
    let mut file = BufReader::with_capacity(
        READ_BYTES,
        Watched {
            file,
            all,
            progress,
        },
    );
    let mesh = match ending {
        Some("ply") => ply::read(&mut file, spill)?,
        Some("stl") => stl::read(&mut file, all, spill)?,
        _ => obj::read(&mut file, spill)?,
    };
    mesh.checked()
}

/// A file that says how far it was read.
struct Watched<'a, T> {
    file: T,
    all: u64,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
}

impl<T: Read + Seek> Read for Watched<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        let done = self.file.stream_position()?;
        if (self.progress)(done, self.all) {
            Ok(count)
        } else {
            Err(io::Error::other("stopped"))
        }
    }
}

impl<T: Seek> Seek for Watched<'_, T> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl SurfaceMesh {
    fn new(spill: &Spill) -> Self {
        Self {
            spill: spill.clone(),
            vertices: Rows::new(spill),
            normals: Rows::new(spill),
            triangles: Rows::new(spill),
            looks: Vec::new(),
            look_of: Rows::new(spill),
            bounds: [DVec3::ZERO; 2],
        }
    }

    /// The mesh, where all of it is there.
    fn checked(mut self) -> Result<Self, SurfaceProblem> {
        let vertices = self.vertices.len();
        if self.normals.len() != vertices {
            self.normals = Rows::new(&self.spill);
        }
        let is_point = |v: DVec3| v.is_finite() && v.abs().max_element() < 1e30;
        for vertex in 0..vertices {
            let found = self.vertices.get(vertex)?;
            if !is_point(found.into()) {
                return Err(SurfaceProblem::Vertex { vertex, found });
            }
        }
        let (mut flat, mut bounds) = (0, [DVec3::INFINITY, DVec3::NEG_INFINITY]);
        for face in 0..self.triangles.len() {
            let corners = self.triangles.get(face)?;
            if let Some(&found) = corners.iter().find(|c| **c as usize >= vertices) {
                let found = found.into();
                return Err(SurfaceProblem::Corner {
                    face,
                    found,
                    vertices: vertices.max(1),
                });
            }
            let corners = self.corners(face)?;
            if has_area(corners) {
                for corner in corners {
                    bounds = [bounds[0].min(corner), bounds[1].max(corner)];
                }
            } else {
                flat += 1;
            }
        }
        if flat == self.triangles.len() {
            return Err(SurfaceProblem::Empty { vertices });
        }
        self.bounds = bounds;
        if flat > 0 {
            self.leave_out_flat()?;
        }
        Ok(self)
    }

    fn leave_out_flat(&mut self) -> Result<(), ScratchError> {
        let (mut triangles, mut look_of) = (Rows::new(&self.spill), Rows::new(&self.spill));
        for triangle in 0..self.triangles.len() {
            if has_area(self.corners(triangle)?) {
                triangles.push(self.triangles.get(triangle)?)?;
                if !self.looks.is_empty() {
                    look_of.push(self.look_of.get(triangle)?)?;
                }
            }
        }
        (self.triangles, self.look_of) = (triangles, look_of);
        Ok(())
    }

    /// The same somewhere else, where all of it can be.
    ///
    /// # Errors
    /// [`SurfaceProblem::Vertex`], [`SurfaceProblem::Scratch`].
    pub fn placed(mut self, place: &DAffine3) -> Result<Self, SurfaceProblem> {
        if *place == DAffine3::IDENTITY {
            return Ok(self);
        }
        let normals_to_world = place.matrix3.inverse().transpose();
        let move_vertex = |_, vertex: &mut [f64; 3]| {
            *vertex = place.transform_point3((*vertex).into()).into();
            Ok::<bool, ScratchError>(true)
        };
        self.vertices.update(move_vertex)?;
        let turn_normal = |_, normal: &mut [f64; 3]| {
            let unit = DVec3::from(*normal).normalize_or_zero();
            *normal = (normals_to_world * unit).into();
            Ok::<bool, ScratchError>(true)
        };
        self.normals.update(turn_normal)?;
        self.checked()
    }

    /// The same, all of one look.
    #[must_use]
    pub fn in_one_look(mut self) -> Self {
        self.looks.clear();
        self.look_of = Rows::new(&self.spill);
        self
    }

    /// How its triangles look; `None`: the file does not say.
    #[must_use]
    pub fn looks(&self) -> &[Option<Look>] {
        if self.looks.is_empty() {
            &[None]
        } else {
            &self.looks
        }
    }

    /// Number of vertices.
    #[must_use]
    pub fn vertex_count(&self) -> usize {
        self.vertices.len()
    }

    /// Number of triangles.
    #[must_use]
    pub fn triangle_count(&self) -> usize {
        self.triangles.len()
    }

    /// The box around its triangles.
    #[must_use]
    pub fn bounds(&self) -> [DVec3; 2] {
        self.bounds
    }

    /// Shows the vertices that are corners of triangles, in the world.
    ///
    /// # Errors
    /// [`ScratchError`].
    pub fn each_corner_point(&mut self, mut show: impl FnMut(DVec3)) -> Result<(), ScratchError> {
        let mut are_corners = vec![0_u64; self.vertices.len().div_ceil(64)];
        for triangle in 0..self.triangles.len() {
            for corner in self.triangles.get(triangle)? {
                are_corners[corner as usize / 64] |= 1 << (corner % 64);
            }
        }
        for vertex in 0..self.vertices.len() {
            if are_corners[vertex / 64] >> (vertex % 64) & 1 == 1 {
                show(self.vertices.get(vertex)?.into());
            }
        }
        Ok(())
    }

    /// Shows its triangles: corners, normals there, of whatever length, and which of its looks.
    ///
    /// # Errors
    /// [`ScratchError`], and those of `show`, where it ends.
    pub fn each_triangle<E: From<ScratchError>>(
        &mut self,
        mut show: impl FnMut([DVec3; 3], [DVec3; 3], usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut normals = CornerNormals::of(self)?;
        for triangle in 0..self.triangles.len() {
            let corners = self.corners(triangle)?;
            let look = if self.looks.is_empty() {
                0
            } else {
                self.look_of.get(triangle)? as usize
            };
            show(corners, normals.get(self, triangle)?, look)?;
        }
        Ok(())
    }

    /// Puts a vertex behind the others; which one it is.
    fn add_vertex(&mut self, place: [f64; 3]) -> Result<u32, SurfaceProblem> {
        let vertex = u32::try_from(self.vertices.len()).ok();
        // The last number is that of none.
        let vertex = vertex.filter(|v| *v < u32::MAX);
        self.vertices.push(place)?;
        vertex.ok_or(SurfaceProblem::Vertices)
    }

    fn corners(&mut self, triangle: usize) -> Result<[DVec3; 3], ScratchError> {
        let [a, b, c] = self.triangles.get(triangle)?;
        let mut place = |c: u32| Ok(self.vertices.get(c as usize)?.into());
        Ok([place(a)?, place(b)?, place(c)?])
    }
}

/// Whether corners are not on a line.
fn has_area([a, b, c]: [DVec3; 3]) -> bool {
    // As parts of the longest side, whose squares are numbers that an f64 holds.
    let sides = [b - a, c - a];
    let longest = sides.map(|s| s.abs().max_element());
    let longest = longest.into_iter().fold(0.0, f64::max);
    longest > 0.0 && (sides[0] / longest).cross(sides[1] / longest) != DVec3::ZERO
}

#[cfg(test)]
mod tests;

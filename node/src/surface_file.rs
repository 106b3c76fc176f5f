//! Triangle meshes as files: PLY (ASCII, and binary of either byte order), STL (ASCII, binary) and glTF (text, GLB) by crates that read
//! them, and OBJ.
//!
//! Space: world. Faces of more than three corners are cut into fans. Where a file has no normals, each corner's is the mean of
//! the triangles around it that are bent from its own by less than 50°.
//! Invariant: all corners of a [`SurfaceMesh`] are finite, and each triangle's are there.
//!
//! Not here: what triangles look like (`topology`), textures.

mod gltf;
mod obj;
mod ply;

use crate::bounded_file::open_regular;
use brickmesh_actors::plain_text::shortened;
use glam::{DAffine3, DVec3};
use std::{
    collections::HashMap,
    io::{BufReader, Seek},
    path::{Path, PathBuf},
};

/// Endings of the files that are read here.
const ENDINGS: [&str; 5] = ["ply", "stl", "obj", "gltf", "glb"];
/// Cosine of the angle between triangles beyond which there is an edge to be seen: 50°.
const CREASE: f64 = 0.643;
/// Memory of a mesh in bytes of its file, at most: of short lines.
const MEMORY_PER_BYTE: u64 = 16;
/// Triangles around a corner whose normals are mixed, at most: a hub of more is a fan that is as even as can be seen.
const AROUND_MAX: usize = 256;

/// What a file says of how some of its triangles look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Linear RGB, 0 to 1.
    pub color: [f32; 3],
    /// Above 0, up to 1.
    pub opacity: f32,
}

/// A triangle mesh in memory.
#[derive(Clone, Debug, Default)]
pub struct SurfaceMesh {
    vertices: Vec<DVec3>,
    /// By vertex; empty: the file has none.
    normals: Vec<DVec3>,
    triangles: Vec<[u32; 3]>,
    /// Without two of the same; empty: the file says of none. `None`: of whatever colour.
    looks: Vec<Option<Look>>,
    /// By triangle, where there are looks.
    look_of: Vec<u32>,
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
    Io(#[from] std::io::Error),
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
    /// There is nothing to be seen.
    #[error("it has {vertices} vertices and no triangles with an area; expected one at least")]
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
    /// It does not fit into memory.
    #[error(
        "it is {} MiB and may take {} MiB of memory to read, {} may be taken", bytes >> 20, (bytes * MEMORY_PER_BYTE) >> 20, bytes_max >> 20
    )]
    TooLarge {
        /// Bytes of the file.
        bytes: u64,
        /// Memory that may be taken.
        bytes_max: u64,
    },
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

/// Reads a file of triangles, which may take `bytes_max` of memory.
///
/// # Errors
/// [`SurfaceFileError`].
pub fn read(path: &Path, bytes_max: u64) -> Result<SurfaceMesh, SurfaceFileError> {
    read_checked(path, bytes_max).map_err(|problem| SurfaceFileError {
        path: path.to_owned(),
        problem,
    })
}

fn read_checked(path: &Path, bytes_max: u64) -> Result<SurfaceMesh, SurfaceProblem> {
    let ending = ending(path);
    if matches!(ending, Some("gltf" | "glb")) {
        return gltf::read(path, bytes_max)?.checked();
    }
    let file = open_regular(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into());
    }
    let bytes = file.metadata()?.len();
    if bytes.saturating_mul(MEMORY_PER_BYTE) > bytes_max {
        return Err(SurfaceProblem::TooLarge { bytes, bytes_max });
    }
    let mut file = BufReader::new(file);
    let mesh = match ending {
        Some("ply") => ply::read(&mut file)?,
        Some("stl") => stl(&mut file)?,
        _ => obj::read(&mut file)?,
    };
    mesh.checked()
}

fn stl(file: &mut (impl std::io::Read + Seek)) -> Result<SurfaceMesh, SurfaceProblem> {
    let bad = |why: std::io::Error| SurfaceProblem::Format {
        format: "STL",
        why: match why.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                "it ends before its last triangle, or is neither ASCII nor binary STL".to_owned()
            }
            _ => why.to_string(),
        },
    };
    let mut mesh = SurfaceMesh::default();
    let mut known: HashMap<[u32; 3], u32> = HashMap::new();
    for triangle in stl_io::create_stl_reader(file).map_err(bad)? {
        let triangle = triangle.map_err(bad)?;
        mesh.triangles.push(triangle.vertices.map(|vertex| {
            let [x, y, z] = vertex.0;
            // Zero has two signs.
            let name = [x, y, z].map(|c| (c + 0.0).to_bits());
            *known.entry(name).or_insert_with(|| {
                mesh.vertices
                    .push(DVec3::from_array([x, y, z].map(f64::from)));
                u32::try_from(mesh.vertices.len() - 1).unwrap_or(u32::MAX)
            })
        }));
    }
    Ok(mesh)
}

impl SurfaceMesh {
    /// The mesh, where all of it is there.
    fn checked(mut self) -> Result<Self, SurfaceProblem> {
        let vertices = self.vertices.len();
        let is_point = |v: &DVec3| v.is_finite() && v.abs().max_element() < 1e30;
        if let Some(vertex) = self.vertices.iter().position(|v| !is_point(v)) {
            let found = self.vertices[vertex].to_array();
            return Err(SurfaceProblem::Vertex { vertex, found });
        }
        for (face, corners) in self.triangles.iter().enumerate() {
            if let Some(&found) = corners.iter().find(|c| **c as usize >= vertices) {
                let found = found.into();
                return Err(SurfaceProblem::Corner {
                    face,
                    found,
                    vertices: vertices.max(1),
                });
            }
        }
        let has_area = |t: &[u32; 3]| {
            let [a, b, c] = t.map(|c| self.vertices[c as usize]);
            // As parts of the longest side, whose squares are numbers that an f64 holds.
            let sides = [b - a, c - a];
            let longest = sides
                .map(|s| s.abs().max_element())
                .into_iter()
                .fold(0.0, f64::max);
            longest > 0.0 && (sides[0] / longest).cross(sides[1] / longest) != DVec3::ZERO
        };
        let mut triangles = std::mem::take(&mut self.triangles);
        let mut of_look = triangles.iter();
        self.look_of
            .retain(|_| of_look.next().is_some_and(has_area));
        triangles.retain(has_area);
        if triangles.is_empty() {
            return Err(SurfaceProblem::Empty { vertices });
        }
        self.triangles = triangles;
        Ok(self)
    }

    /// The same somewhere else, where all of it can be.
    ///
    /// # Errors
    /// [`SurfaceProblem::Vertex`].
    pub fn placed(mut self, place: &DAffine3) -> Result<Self, SurfaceProblem> {
        if *place == DAffine3::IDENTITY {
            return Ok(self);
        }
        for vertex in &mut self.vertices {
            *vertex = place.transform_point3(*vertex);
        }
        let normals_to_world = place.matrix3.inverse().transpose();
        for normal in &mut self.normals {
            *normal = normals_to_world * normal.normalize_or_zero();
        }
        self.checked()
    }

    /// The same, all of one look.
    #[must_use]
    pub fn in_one_look(mut self) -> Self {
        self.looks.clear();
        self.look_of.clear();
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

    /// Memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let points = size_of_val(&self.vertices[..]) + size_of_val(&self.normals[..]);
        (points + size_of_val(&self.triangles[..]) + size_of_val(&self.look_of[..])) as u64
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

    /// The vertices that are corners of triangles, in the world.
    pub fn corner_points(&self) -> impl Iterator<Item = DVec3> {
        let mut are_corners = vec![false; self.vertices.len()];
        for &corner in self.triangles.iter().flatten() {
            are_corners[corner as usize] = true;
        }
        let points = self.vertices.iter().zip(are_corners);
        points.filter(|(_, is_corner)| *is_corner).map(|(p, _)| *p)
    }

    /// The box around its triangles.
    #[must_use]
    pub fn bounds(&self) -> [DVec3; 2] {
        let corners = self.triangles.iter().flatten();
        let points = corners.map(|&c| self.vertices[c as usize]);
        points.fold([DVec3::INFINITY, DVec3::NEG_INFINITY], |[low, high], p| {
            [low.min(p), high.max(p)]
        })
    }

    /// Its triangles: corners, normals there, of whatever length, and which of its looks.
    pub fn triangles(&self) -> impl Iterator<Item = ([DVec3; 3], [DVec3; 3], usize)> {
        let around = Around::of(self);
        (0..self.triangles.len()).map(move |t| {
            let corners = self.corners(t);
            let normals = self.triangles[t].map(|c| {
                let told = self.normals.get(c as usize);
                let told = told.filter(|n| n.is_finite() && **n != DVec3::ZERO);
                told.copied().unwrap_or_else(|| around.normal(self, t, c))
            });
            let look = self.look_of.get(t).map_or(0, |look| *look as usize);
            (corners, normals, look)
        })
    }

    fn corners(&self, triangle: usize) -> [DVec3; 3] {
        self.triangles[triangle].map(|c| self.vertices[c as usize])
    }

    /// Of the length of twice its area.
    fn face_normal(&self, triangle: usize) -> DVec3 {
        let [a, b, c] = self.corners(triangle);
        (b - a).cross(c - a)
    }
}

/// Which triangles are around each vertex.
struct Around {
    starts: Vec<u32>,
    triangles: Vec<u32>,
}

impl Around {
    fn of(mesh: &SurfaceMesh) -> Self {
        let mut starts = vec![0_u32; mesh.vertices.len() + 1];
        for &corner in mesh.triangles.iter().flatten() {
            starts[corner as usize + 1] += 1;
        }
        for vertex in 0..mesh.vertices.len() {
            starts[vertex + 1] += starts[vertex];
        }
        let mut next = starts.clone();
        let mut triangles = vec![0; mesh.triangles.len() * 3];
        for (t, corners) in (0..).zip(&mesh.triangles) {
            for &corner in corners {
                let at = &mut next[corner as usize];
                triangles[*at as usize] = t;
                *at += 1;
            }
        }
        Self { starts, triangles }
    }

    fn normal(&self, mesh: &SurfaceMesh, triangle: usize, vertex: u32) -> DVec3 {
        let own = mesh.face_normal(triangle);
        let vertex = vertex as usize;
        let all = &self.triangles[self.starts[vertex] as usize..self.starts[vertex + 1] as usize];
        if all.len() > AROUND_MAX {
            return own;
        }
        let all = all.iter().map(|&t| mesh.face_normal(t as usize));
        let is_near = |n: &DVec3| n.dot(own) >= CREASE * n.length() * own.length();
        all.filter(is_near).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ASCII_PLY: &str = "ply\nformat ascii 1.0\ncomment a square\nelement vertex 4\nproperty double x\nproperty float y\nproperty short z\n\
        property uchar red\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n\
        0 0 0 7\n1.5 0 0 7\n1.5 1 0 7\n0 1 0 7\n4 0 1 2 3\n";
    const ASCII_STL: &str = "solid s\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1.5 0 0\nvertex 1.5 1 0\nendloop\nendfacet\n\
        facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1.5 1 0\nvertex -0 1 0\nendloop\nendfacet\nendsolid s\n";
    const OBJ: &str = "# a square\nmtllib not_there.mtl\no square\nv 0 0 0\nv 1.5 0 0\nv 1.5 1 0\nv 0 1 0\nvn 0 0 1\nusemtl red\nf 1//1 2//1 3//1 4//1\n";

    fn binary_ply(big: bool, corner: i32) -> Vec<u8> {
        let order = if big { "big" } else { "little" };
        let mut bytes = format!(
            "ply\nformat binary_{order}_endian 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n\
            property float nx\nproperty float ny\nproperty float nz\nelement face 2\nproperty list uchar int vertex_index\nend_header\n"
        )
        .into_bytes();
        let mut put = |word: [u8; 4]| {
            let mut word = word;
            if big {
                word.reverse();
            }
            bytes.extend(word);
        };
        for [x, y] in [[0.0_f32, 0.0], [1.5, 0.0], [1.5, 1.0], [0.0, 1.0]] {
            [x, y, 0.0, 1.0, 0.0, 0.0]
                .iter()
                .for_each(|c: &f32| put(c.to_le_bytes()));
        }
        for face in [[0, 1, 2], [0, 2, corner]] {
            let words: Vec<[u8; 4]> = face
                .iter()
                .map(|c: &i32| {
                    if big {
                        c.to_be_bytes()
                    } else {
                        c.to_le_bytes()
                    }
                })
                .collect();
            bytes.push(3);
            bytes.extend(words.concat());
        }
        bytes
    }

    fn binary_stl() -> Vec<u8> {
        let mut bytes = vec![b' '; 80];
        bytes.extend(2_u32.to_le_bytes());
        for t in [
            [[0.0, 0.0], [1.5, 0.0], [1.5, 1.0]],
            [[0.0, 0.0], [1.5, 1.0], [0.0, 1.0]],
        ] {
            bytes.extend([0; 12]);
            for [x, y] in t {
                [x, y, 0.0]
                    .iter()
                    .for_each(|c: &f32| bytes.extend(c.to_le_bytes()));
            }
            bytes.extend([0; 2]);
        }
        bytes
    }

    /// A square in a node, as glTF whose buffer is there.
    fn gltf(uri: &str, node: &str, primitive: &str) -> String {
        format!(
            r#"{{"asset": {{"version": "2.0"}}, "scene": 0, "scenes": [{{"nodes": [0]}}], "nodes": [{{"mesh": 0 {node}}}],
            "meshes": [{{"primitives": [{{"attributes": {{"POSITION": 0}}, "indices": 1 {primitive}}}]}}],
            "accessors": [{{"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3", "min": [0, 0, 0], "max": [1.5, 1, 0]}},
            {{"bufferView": 1, "componentType": 5123, "count": 6, "type": "SCALAR"}}],
            "bufferViews": [{{"buffer": 0, "byteLength": 48}}, {{"buffer": 0, "byteOffset": 48, "byteLength": 12}}],
            "buffers": [{{"byteLength": 60 {uri}}}]}}"#
        )
    }

    fn gltf_bytes(corners: [u16; 6]) -> Vec<u8> {
        let places = [[0.0_f32, 0.0], [1.5, 0.0], [1.5, 1.0], [0.0, 1.0]];
        let places = places.map(|[x, y]| [x, y, 0.0]);
        let places = places.as_flattened().iter().flat_map(|c| c.to_le_bytes());
        let corners = corners.iter().flat_map(|c| c.to_le_bytes());
        places.chain(corners).collect()
    }

    const SQUARE: [u16; 6] = [0, 1, 2, 0, 2, 3];

    fn in_uri(corners: [u16; 6]) -> String {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let text = STANDARD.encode(gltf_bytes(corners));
        format!(r#", "uri": "data:application/octet-stream;base64,{text}""#)
    }

    fn glb(text: &str, bytes: &[u8]) -> Vec<u8> {
        let text = format!("{text:<width$}", width = text.len().next_multiple_of(4));
        let word = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
        let length = word(28 + text.len() + bytes.len());
        let head = [*b"glTF", word(2), length, word(text.len()), *b"JSON"].concat();
        let bin = [word(bytes.len()), *b"BIN\0"].concat();
        [&head[..], text.as_bytes(), &bin[..], bytes].concat()
    }

    fn read_bytes(name: &str, bytes: &[u8]) -> Result<SurfaceMesh, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        read(&path, 1 << 30).map_err(|e| {
            let told = e.to_string();
            assert!(told.starts_with(&path.display().to_string()), "{told}");
            told
        })
    }

    #[test]
    fn every_format_gives_the_same_triangles() {
        let text = gltf(&in_uri(SQUARE), "", "");
        let files: [(&str, Vec<u8>); 8] = [
            ("a.ply", ASCII_PLY.into()),
            ("little.PLY", binary_ply(false, 3)),
            ("big.ply", binary_ply(true, 3)),
            ("a.stl", ASCII_STL.into()),
            ("b.STL", binary_stl()),
            ("c.obj", OBJ.into()),
            ("d.gltf", text.into()),
            ("e.GLB", glb(&gltf("", "", ""), &gltf_bytes(SQUARE))),
        ];
        for (name, bytes) in files {
            let mesh = read_bytes(name, &bytes).unwrap();
            assert_eq!(
                [mesh.vertex_count(), mesh.triangle_count()],
                [4, 2],
                "{name}"
            );
            assert_eq!(
                mesh.bounds(),
                [DVec3::ZERO, DVec3::new(1.5, 1.0, 0.0)],
                "{name}"
            );
            let corners: Vec<[DVec3; 3]> = mesh.triangles().map(|(c, ..)| c).collect();
            let at = |x, y| DVec3::new(x, y, 0.0);
            let expected = [
                [at(0.0, 0.0), at(1.5, 0.0), at(1.5, 1.0)],
                [at(0.0, 0.0), at(1.5, 1.0), at(0.0, 1.0)],
            ];
            assert_eq!(corners, expected, "{name}");
            // The binary PLY files have normals of their own.
            let normal = if name.to_ascii_lowercase().ends_with("ply") && name != "a.ply" {
                DVec3::X
            } else {
                DVec3::Z
            };
            assert!(
                mesh.triangles()
                    .all(|(_, n, _)| n.iter().all(|n| n.normalize() == normal)),
                "{name}"
            );
        }
    }

    #[test]
    fn an_obj_file_may_have_what_others_write() {
        let text = b"\xef\xbb\xbf# caf\xe9\r\nv 0 0 0 1 0 0 # red\r\nv 1 0 0\nv 1 1 0\nv 0 1 0\ng a\nf 1/1/1 2/2/2 \\\n 3/3/3 4 # all\nf -4 -3 -2";
        let mesh = read_bytes("a.obj", text).unwrap();
        assert_eq!([mesh.vertex_count(), mesh.triangle_count()], [4, 3]);
    }

    #[test]
    fn a_gltf_file_may_have_nodes_in_nodes_strips_and_other_files() {
        let node = r#", "translation": [0, 0, 4], "scale": [2, 1, 1]"#;
        let text = gltf(r#", "uri": "the%20bytes.bin""#, node, r#", "mode": 5"#);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gltf");
        fs::write(&path, text).unwrap();
        fs::write(
            folder.path().join("the bytes.bin"),
            gltf_bytes([0, 1, 3, 2, 2, 2]),
        )
        .unwrap();
        let mesh = read(&path, 1 << 30).unwrap();
        assert_eq!(
            mesh.bounds(),
            [DVec3::new(0.0, 0.0, 4.0), DVec3::new(3.0, 1.0, 4.0)]
        );
        assert_eq!(
            mesh.triangles,
            [[0, 1, 3], [1, 2, 3]],
            "those without an area are left out"
        );
        assert!(
            mesh.triangles()
                .all(|(_, n, _)| n.iter().all(|n| n.normalize() == DVec3::Z))
        );
        let little = read(&path, 1 << 12).unwrap_err().to_string();
        assert!(little.contains("do not fit into the memory"), "{little}");
    }

    #[test]
    fn triangles_of_a_gltf_file_have_the_colours_of_its_materials() {
        let of = |materials: &str| {
            let square = gltf(&in_uri(SQUARE), "", "");
            let part = r#"{"attributes": {"POSITION": 0}, "indices": 1 }"#;
            assert!(square.contains(part), "{square}");
            let parts = [", \"material\": 0", "", ", \"material\": 1"].map(|m| {
                let material = format!("1 {m}}}");
                part.replace("1 }", &material)
            });
            let square = square.replace(part, &parts.join(", "));
            let all = format!("{{\"materials\": [{materials}], ");
            read_bytes("a.gltf", square.replacen('{', &all, 1).as_bytes())
        };
        let red = r#"{"pbrMetallicRoughness": {"baseColorFactor": [1, 0.25, 0, 0.5]}"#;
        let look = |opacity| {
            let color = [1.0, 0.25, 0.0];
            Some(Look { color, opacity })
        };
        let mesh = of(&format!("{red}}}, {red}, \"alphaMode\": \"BLEND\"}}")).unwrap();
        assert_eq!(mesh.looks(), [look(1.0), None, look(0.5)]);
        let looks: Vec<usize> = mesh.triangles().map(|(_, _, look)| look).collect();
        assert_eq!(looks, [0, 0, 1, 1, 2, 2]);
        assert_eq!(mesh.clone().in_one_look().looks(), [None]);
        let cut = format!("{red}, \"alphaMode\": \"MASK\"");
        let mesh = of(&format!("{cut}}}, {cut}, \"alphaCutoff\": 0.75}}")).unwrap();
        assert_eq!(mesh.looks(), [look(1.0), None]);
        assert_eq!(mesh.triangle_count(), 4, "what is cut out is not there");
        let white = of("{}, {}").unwrap();
        let (color, opacity) = ([1.0; 3], 1.0);
        let looks = [Some(Look { color, opacity }), None];
        assert_eq!(white.looks(), looks, "the same look is there once");
        assert!(of("{}").unwrap_err().contains("names material 1"));
    }

    /// A good file in which something is something else is refused with these words.
    fn refused_gltf(cases: &[(&str, &str, &str)]) {
        let good = gltf(&in_uri(SQUARE), "", "");
        for (from, to, words) in cases {
            assert!(good.contains(from), "{from}");
            refused("a.gltf", good.replace(from, to).as_bytes(), words);
        }
    }

    #[test]
    fn numbers_of_a_gltf_file_that_name_nothing_are_named() {
        let file = gltf(&in_uri([0, 1, 4, 0, 2, 3]), "", "");
        let words = "vertex 4 of accessor 0, which has 4";
        refused("a.gltf", file.as_bytes(), words);
        let view = r#""buffer": 0, "byteLength": 48"#;
        refused_gltf(&[
            (r#""POSITION": 0"#, r#""POSITION": 7"#, "names accessor 7,"),
            (r#""indices": 1"#, r#""indices": 7"#, "names accessor 7,"),
            (r#"[{"nodes": [0]}]"#, r#"[{"nodes": [1]}]"#, "names node 1"),
            (r#""mesh": 0"#, r#""mesh": 1"#, "names mesh 1"),
            (r#""scene": 0"#, r#""scene": 1"#, "names scene 1"),
            (view, &format!(r#"{view}, "byteStride": 8"#), "shorter"),
            (view, &view.replace("48", "47"), "accessor 0: it goes"),
            (r#""count": 6"#, r#""count": 7"#, "accessor 1: it goes"),
            (
                r#""count": 6"#,
                r#""count": 18446744073709551615"#,
                "do not fit into the memory",
            ),
        ]);
    }

    #[test]
    fn what_is_wrong_with_gltf_files_is_named() {
        let folder = "expected a file in the same folder";
        refused_gltf(&[
            (
                r#""mesh": 0"#,
                r#""mesh": 0, "children": [0]"#,
                "node 0 is there twice",
            ),
            ("5123", "5126", "accessor 1: expected whole numbers"),
            (
                r#""scene": 0"#,
                r#""extensionsRequired": ["KHR_draco_mesh_compression"]"#,
                "KHR_draco_mesh_compression",
            ),
            ("data:application", "../b", folder),
            ("data:application", "http://x/", folder),
            (r#""byteLength": 60"#, r#""byteLength": 61"#, "has 60 bytes"),
            ("base64,", "base64,?", "no base64"),
            ("2.0", "1.0", "expected 2.0"),
        ]);
        let glb = glb(&gltf("", "", ""), &gltf_bytes(SQUARE));
        refused("a.glb", &glb[..glb.len() - 9], "before its buffer does");
        refused("a.glb", &glb[..99], "before its text does");
        refused("a.glb", b"glTF", "in its head");
        refused("a.gltf", b"", "glTF");
        let points = gltf(&in_uri(SQUARE), "", r#", "mode": 0"#);
        refused("a.gltf", points.as_bytes(), "no triangles");
    }

    #[test]
    fn a_fan_around_a_hub_takes_no_time() {
        let corner = |n: u32| f64::from(n).sin_cos();
        let rim = (1..60_000).map(|n| DVec3::new(corner(n).0, corner(n).1, 0.0));
        let mesh = SurfaceMesh {
            vertices: std::iter::once(DVec3::Z).chain(rim).collect(),
            triangles: (1..59_999).map(|n| [0, n, n + 1]).collect(),
            ..SurfaceMesh::default()
        };
        assert_eq!(mesh.triangles().count(), 59_998);
    }

    #[test]
    fn a_mesh_is_placed_with_its_normals() {
        let mesh = read_bytes("a.ply", &binary_ply(false, 3)).unwrap();
        let place =
            DAffine3::from_translation(DVec3::Z) * DAffine3::from_scale(DVec3::new(2.0, -1.0, 1.0));
        let placed = mesh.clone().placed(&place).unwrap();
        assert_eq!(
            placed.bounds(),
            [DVec3::new(0.0, -1.0, 1.0), DVec3::new(3.0, 0.0, 1.0)]
        );
        assert!(
            placed
                .triangles()
                .all(|(_, n, _)| n.iter().all(|n| n.normalize() == DVec3::X))
        );
        let far = DAffine3::from_translation(DVec3::splat(1e40));
        assert!(matches!(
            mesh.placed(&far),
            Err(SurfaceProblem::Vertex { .. })
        ));
    }

    #[test]
    fn normals_are_smooth_but_at_creases() {
        let folded = |height: f64| SurfaceMesh {
            vertices: vec![
                DVec3::ZERO,
                DVec3::X,
                DVec3::new(0.0, 1.0, 0.0),
                DVec3::new(0.0, -1.0, height),
            ],
            triangles: vec![[0, 1, 2], [0, 3, 1]],
            ..SurfaceMesh::default()
        };
        let first = |mesh: &SurfaceMesh| mesh.triangles().next().unwrap().1;
        let bent = first(&folded(-0.5))[0].normalize();
        assert!(bent.y < -0.1 && bent.z > 0.9, "{bent}");
        assert_eq!(
            first(&folded(-0.5))[2].normalize(),
            DVec3::Z,
            "of one triangle alone"
        );
        assert_eq!(first(&folded(-3.0))[0].normalize(), DVec3::Z);
    }

    fn refused(name: &str, bytes: &[u8], words: &str) {
        let error = read_bytes(name, bytes).unwrap_err();
        assert!(error.contains(words), "{name}: {error}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        refused(
            "a.ply",
            &binary_ply(false, 4),
            "face 1 has vertex 4; expected 0 to 3",
        );
        refused("a.ply", &binary_ply(true, -1), "face 1 has vertex -1");
        refused("a.ply", &binary_ply(false, 3)[..300], "PLY");
        let mut no_number = binary_ply(false, 3);
        let third = no_number
            .windows(11)
            .position(|w| w == b"end_header\n")
            .unwrap()
            + 11
            + 2 * 24;
        no_number[third..third + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        refused("a.ply", &no_number, "vertex 2 is [NaN");
        refused(
            "a.ply",
            ASCII_PLY.replace("1.5 1", "1e31 1").as_bytes(),
            "below 1e30",
        );
        refused(
            "a.ply",
            ASCII_PLY.replace("face 1", "face 2").as_bytes(),
            "PLY",
        );
        refused(
            "a.ply",
            ASCII_PLY.replace("double x", "double u").as_bytes(),
            "vertex 0 lacks x",
        );
        refused(
            "a.ply",
            ASCII_PLY
                .replace("element face 1", "element edge 1")
                .as_bytes(),
            "no triangles",
        );
    }

    #[test]
    fn what_is_wrong_with_other_files_is_named() {
        refused("a.stl", &binary_stl()[..120], "STL");
        refused("a.stl", b"solid x\nendsolid x\n", "no triangles");
        refused(
            "a.obj",
            b"v 0 0 0\nf 1 2 3\n",
            "line 2: vertex 2 is not there; there is 1",
        );
        refused("a.obj", b"", "no triangles");
        refused(
            "a.obj",
            b"v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n",
            "with an area",
        );
        refused("a.obj", b"v 0 0\n", "line 1: \"\" is no number");
        refused(
            "a.obj",
            b"v 0 0 0\nf 1 x 1\n",
            "line 2: \"x\" names no vertex",
        );
        refused(
            "a.ply",
            ASCII_PLY
                .replace(
                    "element face 1\nproperty list uchar int vertex_indices",
                    "element tristrips 0\nproperty list uchar int vertex_indices",
                )
                .as_bytes(),
            "tristrips",
        );
        refused(
            "a.ply",
            b"ply\nformat ascii 1.0\nelement foo 4000000000\nend_header\n",
            "no properties",
        );
        refused("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\n", "no triangles");
        let folder = tempfile::tempdir().unwrap();
        let missing = read(&folder.path().join("x.ply"), 1)
            .unwrap_err()
            .to_string();
        assert!(missing.contains("x.ply: No such file"), "{missing}");
        let path = folder.path().join("a.ply");
        fs::write(&path, ASCII_PLY).unwrap();
        let large = read(&path, 9).unwrap_err().to_string();
        assert!(large.contains("may be taken"), "{large}");
        fs::create_dir(folder.path().join("d.stl")).unwrap();
        assert!(read(&folder.path().join("d.stl"), 1 << 30).is_err());
    }
}

//! glTF 2.0 files, as text and as GLB: the triangles of the nodes of its scene, each in its place, as strips and fans, too. Buffers may be in
//! the file, in data URIs, or in files of the same folder. The crate `gltf` was tried: it panics where one number names something that is
//! not there.
//!
//! Space: that of the scene, as it is, which is metres with y up. Of materials the base colour is taken, and the opacity of those that
//! are blended; what is cut out is left out. File and triangles fit into memory. Textures, skins and morph targets are not looked at. Where a node mirrors, its triangles are wound the other way:
//! surfaces are lit on both sides.

use super::{Look, Spill, SurfaceMesh, SurfaceProblem};
use crate::bounded_file::read_regular;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use glam::{DMat4, DQuat, DVec3, DVec4};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    io,
    path::{Component, Path},
};

/// Memory that a thing that a file describes takes, bytes, at most.
const THING_BYTES: u64 = 512;
/// The same of a further member of a list.
const MEMBER_BYTES: u64 = 64;
/// Memory of a corner while it is placed: its number.
const CORNER_BYTES: usize = size_of::<u32>();
/// Bytes of a triangle that was placed, of which a corner is the first: its corners and its look.
const TRIANGLE_BYTES: usize = 4 * size_of::<u32>();
/// Bytes of a vertex: its place and its normal.
const VERTEX_BYTES: usize = 2 * size_of::<DVec3>();
/// Bytes of what is placed for each of the files, at most, and what may be placed in any case: nodes may show one mesh often.
const PLACED_PER_BYTE: u64 = 64;
const PLACED_BYTES: u64 = 4 << 30;
/// Bytes before the chunks of a file that is not all text.
const GLB_HEAD: usize = 12;
/// Bytes before what is in a chunk: its length and its name.
const CHUNK_HEAD: usize = 8;
/// Extensions without which triangles are where they are all the same, by how their names begin.
const WITHOUT: [&str; 5] = [
    "KHR_materials_",
    "KHR_texture_",
    "EXT_texture_",
    "KHR_lights_",
    "KHR_mesh_quantization",
];

/// What of a file is looked at. Numbers name what is in other lists.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    asset: Asset,
    scene: Option<usize>,
    #[serde(default)]
    scenes: Vec<SceneNodes>,
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    meshes: Vec<Mesh>,
    #[serde(default)]
    materials: Vec<FileMaterial>,
    #[serde(default)]
    accessors: Vec<Accessor>,
    #[serde(default)]
    buffer_views: Vec<View>,
    #[serde(default)]
    buffers: Vec<Buffer>,
    #[serde(default)]
    extensions_required: Vec<String>,
}

#[derive(Deserialize)]
struct Asset {
    version: String,
}

#[derive(Deserialize)]
struct SceneNodes {
    #[serde(default)]
    nodes: Vec<usize>,
}

#[derive(Deserialize)]
struct Node {
    mesh: Option<usize>,
    #[serde(default)]
    children: Vec<usize>,
    /// By columns.
    matrix: Option<[f64; 16]>,
    translation: Option<[f64; 3]>,
    /// Quaternion, its real part last.
    rotation: Option<[f64; 4]>,
    scale: Option<[f64; 3]>,
}

#[derive(Deserialize)]
struct Mesh {
    primitives: Vec<Primitive>,
}

#[derive(Deserialize)]
struct Primitive {
    attributes: Attributes,
    indices: Option<usize>,
    material: Option<usize>,
    mode: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileMaterial {
    #[serde(default)]
    pbr_metallic_roughness: BaseColor,
    alpha_mode: Option<String>,
    /// Of what is cut out: less is not there.
    alpha_cutoff: Option<f32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BaseColor {
    /// Linear RGB, not premultiplied, and opacity.
    base_color_factor: Option<[f32; 4]>,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct Attributes {
    position: Option<usize>,
    normal: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accessor {
    buffer_view: Option<usize>,
    #[serde(default)]
    byte_offset: usize,
    component_type: u32,
    #[serde(default)]
    normalized: bool,
    count: usize,
    #[serde(rename = "type")]
    kind: String,
    sparse: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct View {
    buffer: usize,
    #[serde(default)]
    byte_offset: usize,
    byte_length: usize,
    byte_stride: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Buffer {
    byte_length: usize,
    uri: Option<String>,
}

impl Node {
    /// From it to what is above it.
    fn place(&self) -> DMat4 {
        if let Some(matrix) = &self.matrix {
            return DMat4::from_cols_array(matrix);
        }
        let turn = self.rotation.map(DVec4::from_array);
        let turn = turn.and_then(DVec4::try_normalize).unwrap_or(DVec4::W);
        DMat4::from_scale_rotation_translation(
            self.scale.map_or(DVec3::ONE, DVec3::from_array),
            DQuat::from_vec4(turn),
            self.translation.map_or(DVec3::ZERO, DVec3::from_array),
        )
    }
}

impl FileMaterial {
    /// What it looks like; opacity 0: it is not seen.
    fn look(&self) -> Look {
        let factor = self.pbr_metallic_roughness.base_color_factor;
        let [r, g, b, alpha] = factor.unwrap_or([1.0; 4]).map(|c| c.clamp(0.0, 1.0));
        let opacity = match self.alpha_mode.as_deref() {
            Some("BLEND") => alpha,
            Some("MASK") if alpha < self.alpha_cutoff.unwrap_or(0.5) => 0.0,
            _ => 1.0,
        };
        let color = [r, g, b];
        Look { color, opacity }
    }
}

/// Reads a file, whole.
pub(super) fn read(path: &Path, spill: &Spill) -> Result<SurfaceMesh, SurfaceProblem> {
    let mut room = Room(spill.list_bytes_max());
    let bytes = room.read(path)?;
    let (text, blob) = parts(&bytes)?;
    // The bytes behind the text are copied.
    room.take(blob.map_or(0, <[u8]>::len) as u64)?;
    room.take(memory_bytes(text))?;
    let document = document(text)?;
    let buffers = buffers(&document, blob, path.parent(), &mut room)?;
    let file_bytes = (bytes.len() + buffers.iter().map(Vec::len).sum::<usize>()) as u64;
    let mut scene = Scene {
        document: &document,
        buffers,
        mesh: SurfaceMesh::new(spill),
        known: BTreeMap::new(),
        placed_left: Room(PLACED_BYTES.max(file_bytes.saturating_mul(PLACED_PER_BYTE))),
        room,
        is_seen: vec![false; document.nodes.len()],
    };
    let first = document.scene.unwrap_or(0);
    let nodes = match document.scenes.get(first) {
        Some(of_scene) => of_scene.nodes.clone(),
        None if document.scene.is_some() => return Err(not_there("scene", first)),
        None => {
            let mut is_child = vec![false; document.nodes.len()];
            for &child in document.nodes.iter().flat_map(|n| &n.children) {
                if let Some(is_child) = is_child.get_mut(child) {
                    *is_child = true;
                }
            }
            (0..document.nodes.len())
                .filter(|&n| !is_child[n])
                .collect()
        }
    };
    scene.add_all(nodes)?;
    if document.nodes.is_empty() {
        for primitive in document.meshes.iter().flat_map(|m| &m.primitives) {
            scene.add_primitive(primitive, DMat4::IDENTITY)?;
        }
    }
    Ok(scene.mesh)
}

fn bad(why: impl Into<String>) -> SurfaceProblem {
    SurfaceProblem::Format {
        format: "glTF",
        why: why.into(),
    }
}

fn not_there(kind: &str, number: usize) -> SurfaceProblem {
    bad(format!("it names {kind} {number}, which is not there"))
}

/// Memory that is left.
struct Room(u64);

impl Room {
    fn take(&mut self, bytes: u64) -> Result<(), SurfaceProblem> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or(SurfaceProblem::NoRoom { bytes_left: self.0 })?;
        Ok(())
    }

    /// The bytes of a file.
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, SurfaceProblem> {
        let bytes_left = self.0;
        let bytes = read_regular(path, bytes_left).map_err(|e| match e.kind() {
            io::ErrorKind::FileTooLarge => SurfaceProblem::NoRoom { bytes_left },
            _ => e.into(),
        })?;
        self.take(bytes.len() as u64)?;
        Ok(bytes)
    }

    fn take_items(&mut self, count: usize, bytes: usize) -> Result<(), SurfaceProblem> {
        self.take((count as u64).saturating_mul(bytes as u64))
    }
}

/// The text of a file, and the bytes behind it, if there are any.
fn parts(file: &[u8]) -> Result<(&[u8], Option<&[u8]>), SurfaceProblem> {
    if !file.starts_with(b"glTF") {
        return Ok((file, None));
    }
    let word = |at: usize| {
        let word = file.get(at..at + 4).and_then(|w| w.try_into().ok());
        word.map(|w| u32::from_le_bytes(w) as usize)
    };
    match word(4) {
        Some(2) => {}
        Some(version) => return Err(bad(format!("its version is {version}; expected 2"))),
        None => return Err(bad("it ends in its head")),
    }
    let chunk = |at: usize| {
        let from = at + CHUNK_HEAD;
        let content = file.get(from..from.checked_add(word(at)?)?)?;
        Some((file.get(at + 4..from)?, content))
    };
    let text = chunk(GLB_HEAD).filter(|(name, _)| name == b"JSON");
    let (_, text) = text.ok_or_else(|| bad("it ends before its text does, or has none"))?;
    let after = GLB_HEAD + CHUNK_HEAD + text.len().next_multiple_of(4);
    if file.len() <= after {
        return Ok((text, None));
    }
    let (name, blob) = chunk(after).ok_or_else(|| bad("it ends before its buffer does"))?;
    Ok((text, Some(blob).filter(|_| name == b"BIN\0")))
}

/// Memory that what a text describes takes, at most.
fn memory_bytes(text: &[u8]) -> u64 {
    let of_text = text.iter().map(|byte| match byte {
        b'{' | b'[' => THING_BYTES,
        b',' => MEMBER_BYTES,
        _ => 1,
    });
    of_text.sum()
}

fn document(text: &[u8]) -> Result<Document, SurfaceProblem> {
    let document: Document = serde_json::from_slice(text).map_err(|e| bad(e.to_string()))?;
    let version = &document.asset.version;
    if !version.starts_with("2.") {
        return Err(bad(format!("its version is {version:?}; expected 2.0")));
    }
    let is_needed = |name: &&String| !WITHOUT.iter().any(|w| name.starts_with(w));
    if let Some(name) = document.extensions_required.iter().find(is_needed) {
        return Err(bad(format!(
            "it needs the extension {name:?}, which is not read here; write it without that"
        )));
    }
    Ok(document)
}

/// The bytes of all buffers.
fn buffers(
    document: &Document,
    mut blob: Option<&[u8]>,
    folder: Option<&Path>,
    room: &mut Room,
) -> Result<Vec<Vec<u8>>, SurfaceProblem> {
    let buffer = |(index, buffer): (usize, &Buffer)| {
        let wrong = |why: String| bad(format!("buffer {index}: {why}"));
        let uri = buffer.uri.as_deref();
        let bytes = match (uri, uri.and_then(|uri| uri.strip_prefix("data:"))) {
            (None, _) => {
                let blob = blob.take().map(<[u8]>::to_vec);
                blob.ok_or_else(|| wrong("its bytes are not in the file".to_owned()))?
            }
            (_, Some(data)) => {
                room.take(data.len() as u64)?;
                let text = data.split_once(";base64,").map(|(_, text)| text);
                let text = text.ok_or_else(|| wrong("its data URI is not base64".to_owned()))?;
                let bytes = STANDARD.decode(text);
                bytes.map_err(|e| wrong(format!("its data URI is no base64: {e}")))?
            }
            (Some(uri), None) => of_file(uri, folder, room).map_err(|e| match e {
                SurfaceProblem::Io(e) => wrong(format!("{uri}: {e}")),
                other => other,
            })?,
        };
        if bytes.len() < buffer.byte_length {
            let (found, expected) = (bytes.len(), buffer.byte_length);
            return Err(wrong(format!("it has {found} bytes; expected {expected}")));
        }
        let mut bytes = bytes;
        bytes.truncate(buffer.byte_length);
        Ok(bytes)
    };
    document.buffers.iter().enumerate().map(buffer).collect()
}

/// The bytes of a file in the same folder, or one in it.
fn of_file(uri: &str, folder: Option<&Path>, room: &mut Room) -> Result<Vec<u8>, SurfaceProblem> {
    let elsewhere = || io::Error::other("expected a file in the same folder, or in one in it");
    if uri.contains("://") {
        return Err(elsewhere().into());
    }
    let name = String::from_utf8(without_percents(uri));
    let name = name.map_err(|_| io::Error::other("its name is no UTF-8"))?;
    let mut parts = Path::new(&name).components();
    if !parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(elsewhere().into());
    }
    room.read(&folder.unwrap_or(Path::new("")).join(&name))
}

/// A URI with the bytes that were written as % and two digits.
fn without_percents(uri: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut bytes = Vec::new();
    let mut rest = uri.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = match after {
            [a, b, ..] if first == b'%' => digit(a).zip(digit(b)),
            _ => None,
        };
        let code = code.and_then(|(a, b)| u8::try_from(16 * a + b).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    bytes
}

/// Triangles so far.
struct Scene<'a> {
    document: &'a Document,
    buffers: Vec<Vec<u8>>,
    mesh: SurfaceMesh,
    /// Which of the looks of the mesh a look is, by its bits.
    known: BTreeMap<Option<[u32; 4]>, u32>,
    /// Bytes of vertices and triangles that may still be placed.
    placed_left: Room,
    room: Room,
    /// By node: it was added.
    is_seen: Vec<bool>,
}

impl Scene<'_> {
    /// Adds these nodes, with all below them.
    fn add_all(&mut self, roots: Vec<usize>) -> Result<(), SurfaceProblem> {
        let document = self.document;
        let mut waiting = Vec::new();
        self.add_below(&roots, DMat4::IDENTITY, &mut waiting)?;
        while let Some((index, above)) = waiting.pop() {
            let node = &document.nodes[index];
            let place = above * node.place();
            if let Some(mesh) = node.mesh {
                let found = document.meshes.get(mesh);
                for primitive in &found.ok_or_else(|| not_there("mesh", mesh))?.primitives {
                    self.add_primitive(primitive, place)?;
                }
            }
            self.add_below(&node.children, place, &mut waiting)?;
        }
        Ok(())
    }

    /// Adds nodes to those that wait, with the place of what is above them.
    fn add_below(
        &mut self,
        nodes: &[usize],
        above: DMat4,
        waiting: &mut Vec<(usize, DMat4)>,
    ) -> Result<(), SurfaceProblem> {
        for &index in nodes {
            let is_seen = self.is_seen.get_mut(index);
            let is_seen = is_seen.ok_or_else(|| not_there("node", index))?;
            if std::mem::replace(is_seen, true) {
                return Err(bad(format!(
                    "node {index} is there twice: below two others or itself, or twice in the scene"
                )));
            }
            waiting.push((index, above));
        }
        Ok(())
    }

    /// Adds the triangles of a part of a mesh.
    fn add_primitive(&mut self, primitive: &Primitive, place: DMat4) -> Result<(), SurfaceProblem> {
        // Many nodes may have a mesh of many parts without triangles.
        self.room.take(MEMBER_BYTES)?;
        let Some(position) = primitive.attributes.position else {
            return Ok(());
        };
        let Some(mode) = Mode::of(primitive.mode) else {
            return Ok(());
        };
        let look = self.look(primitive)?;
        if look.is_some_and(|look| look.opacity <= 0.0) {
            return Ok(());
        }
        let first = self.mesh.vertices.len();
        let count = self.accessor(position)?.count;
        let free = self.room.0;
        self.room.take_items(count, VERTEX_BYTES)?;
        self.place_items(count, VERTEX_BYTES)?;
        let last = u32::try_from(first + count).ok();
        let first = u32::try_from(first).ok().filter(|_| last.is_some());
        let first = first.ok_or(SurfaceProblem::Vertices)?;
        let points = self.vectors(position)?.map(|p| place.transform_point3(p));
        let points: Vec<DVec3> = points.collect();
        let points = points.into_iter().map(|p| p.to_array());
        self.mesh.vertices.extend(points)?;
        let normals: Vec<DVec3> = match primitive.attributes.normal {
            Some(normal) => {
                let to_world = place.inverse().transpose();
                let normals = self.vectors(normal)?.take(count);
                let normals = normals.map(|n| to_world.transform_vector3(n).normalize_or_zero());
                normals.collect()
            }
            None => Vec::new(),
        };
        let none = count.saturating_sub(normals.len());
        let normals = normals.into_iter().map(|n| n.to_array());
        let normals = normals.chain(std::iter::repeat_n([0.0; 3], none));
        self.mesh.normals.extend(normals)?;
        let corners = self.corners(primitive, count)?;
        let wrong = corners.iter().find(|c| **c as usize >= count);
        if let Some(corner) = wrong {
            return Err(bad(format!(
                "a triangle has vertex {corner} of accessor {position}, which has {count}"
            )));
        }
        self.place_items(corners.len(), TRIANGLE_BYTES)?;
        let triangles = mode.triangles(&corners);
        let triangles = triangles.map(|t| t.map(|corner| first + corner));
        self.mesh.triangles.extend(triangles)?;
        // What is placed may be in scratch files.
        self.room.0 = free;
        self.paint(look)
    }

    /// Takes bytes of what may be placed.
    fn place_items(&mut self, count: usize, bytes: usize) -> Result<(), SurfaceProblem> {
        let taken = self.placed_left.take_items(count, bytes);
        taken.map_err(|_| {
            bad("its nodes show its meshes too often: they are far larger than the file")
        })
    }

    /// What the file says of how a part of a mesh looks.
    fn look(&self, of: &Primitive) -> Result<Option<Look>, SurfaceProblem> {
        let Some(material) = of.material else {
            return Ok(None);
        };
        let found = self.document.materials.get(material);
        let found = found.ok_or_else(|| not_there("material", material))?;
        Ok(Some(found.look()))
    }

    /// The triangles since the last call look so.
    fn paint(&mut self, look: Option<Look>) -> Result<(), SurfaceProblem> {
        // Zero has two signs.
        let bits = look.map(
            |Look {
                 color: [r, g, b],
                 opacity,
             }| [r, g, b, opacity].map(|c| (c + 0.0).to_bits()),
        );
        let new = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let triangles = self.mesh.triangles.len() - self.mesh.look_of.len();
        if triangles == 0 {
            return Ok(());
        }
        let at = *self.known.entry(bits).or_insert(new);
        if at == new {
            self.mesh.looks.push(look);
        }
        Ok(self
            .mesh
            .look_of
            .extend(std::iter::repeat_n(at, triangles))?)
    }

    /// The corners of a part of a mesh of so many vertices.
    fn corners(&mut self, of: &Primitive, count: usize) -> Result<Vec<u32>, SurfaceProblem> {
        let Some(indices) = of.indices else {
            self.room.take_items(count, CORNER_BYTES)?;
            return Ok((0..u32::try_from(count).unwrap_or(u32::MAX)).collect());
        };
        let count = self.accessor(indices)?.count;
        self.room.take_items(count, CORNER_BYTES)?;
        let accessor = self.accessor(indices)?;
        let bytes = match (accessor.kind.as_str(), accessor.component_type) {
            ("SCALAR", UNSIGNED_BYTE) => 1,
            ("SCALAR", UNSIGNED_SHORT) => 2,
            ("SCALAR", UNSIGNED_INT) => 4,
            _ => {
                return Err(bad(format!(
                    "accessor {indices}: expected whole numbers without sign"
                )));
            }
        };
        let items = self.items(indices, bytes)?.map(|item| {
            let long: [u8; 4] = std::array::from_fn(|n| item.get(n).copied().unwrap_or(0));
            u32::from_le_bytes(long)
        });
        Ok(items.collect())
    }

    fn accessor(&self, index: usize) -> Result<&Accessor, SurfaceProblem> {
        let accessor = self.document.accessors.get(index);
        accessor.ok_or_else(|| not_there("accessor", index))
    }

    /// What an accessor names, item by item of so many bytes.
    fn items(
        &self,
        index: usize,
        item_bytes: usize,
    ) -> Result<impl Iterator<Item = &[u8]>, SurfaceProblem> {
        let wrong = |why: &str| bad(format!("accessor {index}: {why}"));
        let accessor = self.accessor(index)?;
        if accessor.sparse.is_some() {
            return Err(wrong("it is sparse, which is not read here"));
        }
        let count = accessor.count;
        let view = accessor.buffer_view;
        let view = view.ok_or_else(|| wrong("it has no bytes"))?;
        let view = self.document.buffer_views.get(view);
        let view = view.ok_or_else(|| wrong("its view is not there"))?;
        let stride = view.byte_stride.unwrap_or(item_bytes);
        if stride < item_bytes {
            return Err(wrong("its stride is shorter than what it has"));
        }
        let slice = || {
            let all = self.buffers.get(view.buffer)?;
            let end = view.byte_offset.checked_add(view.byte_length)?;
            let all = all.get(view.byte_offset..end)?;
            let length = stride.checked_mul(count.checked_sub(1)?)?;
            let end = accessor.byte_offset.checked_add(length)?;
            // The last one need not have a gap behind it.
            all.get(accessor.byte_offset..end.checked_add(item_bytes)?)
        };
        let slice = if count == 0 { Some(&[][..]) } else { slice() };
        let slice = slice.ok_or_else(|| wrong("it goes beyond the end of its buffer"))?;
        Ok(slice.chunks(stride).map(move |item| &item[..item_bytes]))
    }

    /// The vectors of an accessor of three numbers of whatever kind each.
    fn vectors(&self, index: usize) -> Result<impl Iterator<Item = DVec3>, SurfaceProblem> {
        let accessor = self.accessor(index)?;
        let (kind, is_part) = (accessor.component_type, accessor.normalized);
        let bytes = match kind {
            BYTE | UNSIGNED_BYTE => 1,
            SHORT | UNSIGNED_SHORT => 2,
            FLOAT => 4,
            _ => 0,
        };
        if accessor.kind != "VEC3" || bytes == 0 {
            return Err(bad(format!(
                "accessor {index}: expected vectors of 3 floats, bytes or shorts"
            )));
        }
        let items = self.items(index, 3 * bytes)?;
        Ok(items.map(move |item| {
            let number = |n: usize| number(kind, is_part, &item[n * bytes..(n + 1) * bytes]);
            DVec3::new(number(0), number(1), number(2))
        }))
    }
}

/// How corners are triangles.
#[derive(Clone, Copy)]
enum Mode {
    Apart,
    Strip,
    Fan,
}

impl Mode {
    /// By its number in a file; `None`: there are none.
    fn of(number: Option<u32>) -> Option<Self> {
        match number {
            None | Some(4) => Some(Self::Apart),
            Some(5) => Some(Self::Strip),
            Some(6) => Some(Self::Fan),
            _ => None,
        }
    }

    /// The triangles of a list of corners.
    fn triangles(self, corners: &[u32]) -> Box<dyn Iterator<Item = [u32; 3]> + '_> {
        match self {
            Self::Strip => {
                let windows = corners.windows(3).enumerate();
                Box::new(windows.map(|(at, w)| {
                    let (second, third) = (1 + at % 2, 2 - at % 2);
                    [w[0], w[second], w[third]]
                }))
            }
            Self::Fan => {
                let pairs = corners.windows(2).skip(1);
                Box::new(pairs.map(|pair| [corners[0], pair[0], pair[1]]))
            }
            Self::Apart => Box::new(corners.chunks_exact(3).map(|t| [t[0], t[1], t[2]])),
        }
    }
}

/// Numbers of the kinds of numbers.
const BYTE: u32 = 5120;
const UNSIGNED_BYTE: u32 = 5121;
const SHORT: u32 = 5122;
const UNSIGNED_SHORT: u32 = 5123;
const UNSIGNED_INT: u32 = 5125;
const FLOAT: u32 = 5126;

/// A number, little-endian; `is_part`: whole ones are parts of the largest.
fn number(kind: u32, is_part: bool, bytes: &[u8]) -> f64 {
    let word = |n: usize| bytes.get(n).copied().unwrap_or(0);
    let short = [word(0), word(1)];
    let long = [word(0), word(1), word(2), word(3)];
    let (number, largest): (f64, f64) = match kind {
        BYTE => (i8::from_le_bytes([word(0)]).into(), i8::MAX.into()),
        UNSIGNED_BYTE => (word(0).into(), u8::MAX.into()),
        SHORT => (i16::from_le_bytes(short).into(), i16::MAX.into()),
        UNSIGNED_SHORT => (u16::from_le_bytes(short).into(), u16::MAX.into()),
        _ => return f32::from_le_bytes(long).into(),
    };
    if is_part {
        (number / largest).max(-1.0)
    } else {
        number
    }
}

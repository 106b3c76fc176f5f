//! Good files in every format that is read, to be turned bad.

use super::mutation::{mutate, one_of, pick};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use brickmesh_node::network::MeshKey;
use brickmesh_topology::base::seeded::Seeded;
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Voxels of every file that is made here: few, and unlike on each axis.
const DIMS: [usize; 3] = [7, 5, 6];
const VOXELS: usize = DIMS[0] * DIMS[1] * DIMS[2];

/// A good file, and one that it names.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its name.
    pub name: String,
    /// Its bytes; before they are packed, where it is.
    pub bytes: Vec<u8>,
    /// Bytes of its header, where most changes go.
    pub head: usize,
    /// Whether gzip is around all of it.
    pub gzip: bool,
    /// The file beside it.
    pub beside: Option<(&'static str, Vec<u8>)>,
}

impl Sample {
    /// A file that names no other.
    #[must_use]
    pub fn new(name: &str, head: usize, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            bytes,
            head,
            gzip: false,
            beside: None,
        }
    }

    /// A text, all of which may be changed.
    #[must_use]
    pub fn text(name: &str, text: &str) -> Self {
        Self::new(name, text.len(), text.as_bytes().to_vec())
    }
}

/// What a draw has made of a sample.
#[derive(Clone, Debug)]
pub struct Hostile {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The file beside it.
    pub beside: Option<(&'static str, Vec<u8>)>,
}

impl Hostile {
    /// Turns one of the samples bad; also tells how many bytes it has.
    ///
    /// # Panics
    /// Where there are no samples.
    #[must_use]
    pub fn of(draws: &mut Seeded, samples: &[Sample]) -> (Self, usize) {
        let sample = one_of(draws, samples);
        let other = &one_of(draws, samples).bytes;
        let (mut bytes, mut beside) = (sample.bytes.clone(), sample.beside.clone());
        // The packed bytes themselves are changed now and then; else what is in them is.
        let packed_first = sample.gzip && draws.below(4) == 0;
        if packed_first {
            bytes = gzip(&bytes);
            let all = bytes.len();
            mutate(draws, &mut bytes, all, other);
        } else {
            mutate(draws, &mut bytes, sample.head, other);
            if sample.gzip {
                bytes = gzip(&bytes);
            }
        }
        if let Some((_, data)) = &mut beside
            && draws.below(4) == 0
        {
            data.truncate(pick(draws, data.len() + 1));
        }
        let name = if sample.head == 0 {
            hostile_name(draws, &sample.name)
        } else {
            sample.name.clone()
        };
        let length = bytes.len() + beside.as_ref().map_or(0, |(_, data)| data.len());
        let hostile = Self {
            name,
            bytes,
            beside,
        };
        (hostile, length)
    }

    /// Writes it into a folder; returns where it is.
    ///
    /// # Panics
    /// Where that cannot be done.
    #[must_use]
    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join(&self.name);
        fs::write(&path, &self.bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if let Some((name, bytes)) = &self.beside {
            fs::write(folder.join(name), bytes).expect("a file beside it");
        }
        path
    }
}

/// A changed file name, that a system takes.
fn hostile_name(draws: &mut Seeded, name: &str) -> String {
    let mut bytes = name.as_bytes().to_vec();
    let head = name.find(".raw").unwrap_or(name.len());
    let ending = bytes.split_off(head);
    mutate(draws, &mut bytes, head, name.as_bytes());
    let text = String::from_utf8_lossy(&bytes);
    let taken = text.chars().filter(|c| !matches!(c, '/' | '\0'));
    let stem: String = taken.take(60).collect();
    format!("_{stem}{}", String::from_utf8_lossy(&ending))
}

/// Bytes as one gzip member.
///
/// # Panics
/// Never: memory takes them all.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).expect("memory takes them");
    packer.finish().expect("memory takes them")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).expect("memory takes them");
    packer.finish().expect("memory takes them")
}

/// Voxels of so many bytes each; as f32 they are finite.
fn voxels(bytes_each: usize) -> Vec<u8> {
    (0_u8..=250).cycle().take(VOXELS * bytes_each).collect()
}

/// A header and what follows it.
fn after(name: &str, header: &str, data: &[u8]) -> Sample {
    Sample::new(name, header.len(), [header.as_bytes(), data].concat())
}

fn beside(name: &str, header: &str, data: Vec<u8>) -> Sample {
    Sample {
        beside: Some(("data.raw", data)),
        ..Sample::text(name, header)
    }
}

/// NRRD: raw, gzip, big-endian, detached, with lines and bytes to skip.
#[must_use]
pub fn nrrd() -> Vec<Sample> {
    let header = |rest: &str| {
        format!("NRRD0004\n# a comment\ndimension: 3\nsizes: 7 5 6\n{rest}\nkey:=value\n\n")
    };
    let place = "space: left-posterior-superior\nspace directions: (0.7,0,0) (0,-0.5,0.1) (0,0,2)\nspace origin: (1,-2,3.5)";
    vec![
        after("v.nrrd", &header("type: uchar\nencoding: raw"), &voxels(1)),
        after(
            "v.nrrd",
            &header(&format!("type: short\nendian: big\nencoding: raw\n{place}")),
            &voxels(2),
        ),
        after(
            "v.nrrd",
            &header(&format!(
                "type: float\nendian: little\nencoding: gzip\n{place}"
            )),
            &gzip(&voxels(4)),
        ),
        beside(
            "v.nhdr",
            &header(
                "type: uint16\nendian: little\nencoding: raw\nspacings: 1 2 0.5\nline skip: 1\nbyte skip: 3\ndata file: data.raw",
            ),
            [b"one\n123".as_slice(), &voxels(2)].concat(),
        ),
        beside(
            "v.nhdr",
            &header("type: int8\nencoding: raw\nbyte skip: -1\ndata file: data.raw"),
            [b"before".as_slice(), &voxels(1)].concat(),
        ),
    ]
}

/// MetaImage: local and detached, compressed, with bytes to skip.
#[must_use]
pub fn meta_image() -> Vec<Sample> {
    let header = |voxel: &str, rest: &str| {
        format!(
            "ObjectType = Image\nNDims = 3\nBinaryData = True\nTransformMatrix = 1 0 0 0 0 1 0 -1 0\nOffset = 1 -2 3.5\nElementSpacing = 0.7 0.5 2\nDimSize = 7 5 6\nElementNumberOfChannels = 1\nElementType = {voxel}\n{rest}\n"
        )
    };
    let local = "ElementDataFile = LOCAL";
    vec![
        after("v.mha", &header("MET_UCHAR", local), &voxels(1)),
        after(
            "v.mha",
            &header("MET_FLOAT", &format!("CompressedData = True\n{local}")),
            &zlib(&voxels(4)),
        ),
        after(
            "v.mha",
            &header(
                "MET_SHORT",
                &format!("BinaryDataByteOrderMSB = True\n{local}"),
            ),
            &voxels(2),
        ),
        beside(
            "v.mhd",
            &header("MET_USHORT", "HeaderSize = 4\nElementDataFile = data.raw"),
            [b"1234".as_slice(), &voxels(2)].concat(),
        ),
        beside(
            "v.mhd",
            &header("MET_CHAR", "HeaderSize = -1\nElementDataFile = data.raw"),
            [b"1234567".as_slice(), &voxels(1)].concat(),
        ),
    ]
}

/// NIfTI-1: both byte orders, each kind of orientation, with and without gzip.
#[must_use]
pub fn nifti() -> Vec<Sample> {
    let mut out = Vec::new();
    for (code, bytes_each, big, orientation) in
        [(2, 1, false, 0), (4, 2, true, 1), (16, 4, false, 2)]
    {
        let bytes = [nifti_header(code, big, orientation), voxels(bytes_each)].concat();
        for (name, gzip) in [("v.nii", false), ("v.nii.gz", true)] {
            out.push(Sample {
                gzip,
                ..Sample::new(name, 352, bytes.clone())
            });
        }
    }
    out
}

/// `orientation`: 0 pixdim alone, 1 qform, 2 sform.
fn nifti_header(code: i16, big: bool, orientation: i16) -> Vec<u8> {
    let mut bytes = vec![0; 352];
    let mut put = |at: usize, little: &[u8]| {
        let to = &mut bytes[at..at + little.len()];
        to.copy_from_slice(little);
        if big {
            to.reverse();
        }
    };
    put(0, &348_i32.to_le_bytes());
    let shorts = [(40, 3), (42, 7), (44, 5), (46, 6), (48, 1), (70, code)];
    let forms = [
        (252, i16::from(orientation == 1)),
        (254, i16::from(orientation == 2)),
    ];
    for (at, v) in shorts.into_iter().chain(forms) {
        put(at, &v.to_le_bytes());
    }
    let numbers: [(usize, f32); 13] = [
        (76, -1.0),
        (80, 0.7),
        (84, 0.5),
        (88, 2.0),
        (108, 352.0),
        (112, 2.0),
        (116, -1.0),
        (256, 0.5),
        (268, 3.0),
        (280, -0.7),
        (292, 9.0),
        (300, 0.5),
        (320, 2.0),
    ];
    for (at, v) in numbers {
        put(at, &v.to_le_bytes());
    }
    bytes[344..348].copy_from_slice(b"n+1\0");
    bytes
}

/// VTK ImageData: in text, inline and appended, in base64 and raw, compressed and not.
#[must_use]
pub fn vti() -> Vec<Sample> {
    let data = voxels(4);
    let plain = [&840_u32.to_le_bytes()[..], &data].concat();
    assert_eq!(data.len(), 840, "the length that stands before them");
    let (sizes, blocks) = blocks(&data);
    let packed = " header_type=\"UInt64\" compressor=\"vtkZLibDataCompressor\"";
    let both = format!("{}{}", STANDARD.encode(&sizes), STANDARD.encode(&blocks));
    let inline = |text: &str| format!("format=\"binary\">\n   {text}\n  ");
    let text = |attributes: &str, array: &str| {
        Sample::text("v.vti", &vti_file(attributes, array, "</VTKFile>\n"))
    };
    let appended = |attributes: &str, encoding: &str, data: &[u8]| {
        let tag = format!("<AppendedData encoding=\"{encoding}\">\n _");
        let header = vti_file(attributes, "format=\"appended\" offset=\"0\">", &tag);
        let mut sample = after("v.vti", &header, data);
        let end = b"\n</AppendedData></VTKFile>";
        sample.bytes.extend_from_slice(end);
        sample
    };
    vec![
        text("", "format=\"ascii\"> 1 2 3 "),
        text("", &inline(&STANDARD.encode(&plain))),
        text(packed, &inline(&both)),
        appended("", "raw", &plain),
        appended(packed, "raw", &[sizes, blocks].concat()),
        appended(packed, "base64", both.as_bytes()),
    ]
}

fn vti_file(attributes: &str, array: &str, end: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<VTKFile type=\"ImageData\" version=\"0.1\" \
         byte_order=\"LittleEndian\"{attributes}>\n<ImageData WholeExtent=\"0 6 0 4 1 6\" \
         Origin=\"1 -2 3.5\" Spacing=\"0.7 0.5 2\" Direction=\"1 0 0 0 0 -1 0 1 0\">\n\
         <Piece Extent=\"0 6 0 4 1 6\">\n<PointData Scalars=\"density\">\n\
         <DataArray type=\"Float32\" Name=\"density\" NumberOfComponents=\"1\" {array}\
         </DataArray>\n</PointData>\n</Piece>\n</ImageData>\n{end}"
    )
}

/// Blocks as VTK compresses them: their count and sizes, and the blocks.
fn blocks(data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    const BLOCK: usize = 500;
    let blocks: Vec<Vec<u8>> = data.chunks(BLOCK).map(zlib).collect();
    let head = [blocks.len(), BLOCK, data.len() % BLOCK];
    let words = head.into_iter().chain(blocks.iter().map(Vec::len));
    let sizes = words.flat_map(|n| (n as u64).to_le_bytes()).collect();
    (sizes, blocks.concat())
}

/// Raw voxels, whose header is the name.
#[must_use]
pub fn raw() -> Vec<Sample> {
    let plain = |name: &str, bytes_each| Sample::new(name, 0, voxels(bytes_each));
    vec![
        plain("v_7x5x6_uint8.raw", 1),
        plain("v_7x5x6_int16.raw", 2),
        Sample {
            gzip: true,
            ..plain("v_7x5x6_float32.raw.gz", 4)
        },
    ]
}

/// Triangle meshes: a square each.
#[must_use]
pub fn surfaces() -> Vec<Sample> {
    let ply = |format: &str, corners: &str, body: &[u8]| {
        let head = format!(
            "ply\nformat {format} 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n\
            element face 1\nproperty list {corners} vertex_indices\nend_header\n"
        );
        Sample::new("s.ply", head.len(), [head.as_bytes(), body].concat())
    };
    let places = [
        [0.0_f32, 0.0, 0.5],
        [1.5, 0.0, 0.0],
        [1.5, 1.0, 0.0],
        [0.0, 1.0, 2.0],
    ];
    let little: Vec<u8> = places
        .as_flattened()
        .iter()
        .flat_map(|c| c.to_le_bytes())
        .collect();
    let big: Vec<u8> = places
        .as_flattened()
        .iter()
        .flat_map(|c| c.to_be_bytes())
        .collect();
    let corners = [0_i32, 1, 2, 3];
    let of_list = |count: &[u8], words: Vec<u8>| [count, &words].concat();
    let text = |name: &str, text: &str| Sample::new(name, text.len(), text.into());
    vec![
        ply(
            "ascii",
            "uchar int",
            b"0 0 0.5\n1.5 0 0\n1.5 1 0\n0 1 2\n4 0 1 2 3\n",
        ),
        ply(
            "binary_little_endian",
            "uchar int",
            &[
                little,
                of_list(&[4], corners.iter().flat_map(|c| c.to_le_bytes()).collect()),
            ]
            .concat(),
        ),
        ply(
            "binary_big_endian",
            "uint int",
            &[
                big,
                of_list(
                    &[0, 0, 0, 4],
                    corners.iter().flat_map(|c| c.to_be_bytes()).collect(),
                ),
            ]
            .concat(),
        ),
        Sample::new("s.stl", 90, stl(&places)),
        text(
            "t.stl",
            "solid s\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1.5 0 0\nvertex 1.5 1 0\nendloop\nendfacet\nendsolid s\n",
        ),
        text(
            "s.obj",
            "o s\nv 0 0 0.5\nv 1.5 0 0\nv 1.5 1 0\nv 0 1 2\nvn 0 0 1\nf 1//1 2//1 3//1 4//1\nf -4 -3 -2\n",
        ),
        glb(&places),
    ]
}

/// A square as binary glTF, in a node.
fn glb(places: &[[f32; 3]; 4]) -> Sample {
    let text = r#"{"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"children": [1]},
        {"mesh": 0, "rotation": [0, 0, 1, 0], "scale": [1, 2, 1]}], "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1, "material": 0}]}],
        "materials": [{"alphaMode": "MASK", "pbrMetallicRoughness": {"baseColorFactor": [1, 0.5, 0, 0.9]}}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3", "min": [0, 0, 0], "max": [2, 1, 2]},
        {"bufferView": 1, "componentType": 5121, "count": 6, "type": "SCALAR"}], "buffers": [{"byteLength": 56}],
        "bufferViews": [{"buffer": 0, "byteLength": 48, "byteStride": 12}, {"buffer": 0, "byteOffset": 48, "byteLength": 6}]}"#;
    let text = format!("{text:<width$}", width = text.len().next_multiple_of(4));
    let places = places.as_flattened().iter().flat_map(|c| c.to_le_bytes());
    let bytes: Vec<u8> = places.chain([0, 1, 2, 0, 2, 3, 0, 0]).collect();
    let word = |n: usize| u32::try_from(n).expect("a short file").to_le_bytes();
    let length = word(28 + text.len() + bytes.len());
    let head = [*b"glTF", word(2), length, word(text.len()), *b"JSON"].concat();
    let bin = [word(bytes.len()), *b"BIN\0"].concat();
    let all = [&head[..], text.as_bytes(), &bin[..], &bytes[..]].concat();
    Sample::new("s.glb", head.len() + text.len() + 8, all)
}

/// A square as binary STL.
fn stl(places: &[[f32; 3]; 4]) -> Vec<u8> {
    let mut stl = vec![b' '; 80];
    stl.extend(2_u32.to_le_bytes());
    for t in [[0, 1, 2], [0, 2, 3]] {
        stl.extend([0; 12]);
        t.iter()
            .for_each(|&c: &usize| stl.extend(places[c].iter().flat_map(|c| c.to_le_bytes())));
        stl.extend([0; 2]);
    }
    stl
}

/// Real files, some of them hundreds of kilobytes long.
///
/// # Panics
/// Where they are not there.
#[must_use]
pub fn real() -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let of = |(name, head): (&str, usize)| {
        let bytes = fs::read(folder.join(name)).expect("a file of the project");
        Sample::new(name, head, bytes)
    };
    [
        ("avf.nrrd", 600),
        ("hydrogen.vti", 900),
        ("neghip_64x64x64_uint8.raw.gz", 64),
    ]
    .map(of)
    .into()
}

/// Transfer functions: brickmesh's own form, and colour-map presets, alone and in lists.
#[must_use]
pub fn transfer() -> Vec<Sample> {
    [
        r#"{"unit_distance": 1.5, "points": [{"value": 0, "color": [0, 0.25, 1], "opacity": 0}, {"value": 20.5, "color": [1, 1, 1], "opacity": 0.5}, {"value": 1e3, "color": [1, 0, 0], "opacity": 1}]}"#,
        r#"{"points": [{"value": -5, "color": [1, 1, 1], "opacity": 0.1}]}"#,
        r#"[{"ColorSpace": "Diverging", "Name": "warm", "NanColor": [1, 1, 0], "RGBPoints": [0, 0.23, 0.29, 0.75, 0.5, 0.86, 0.86, 0.86, 1, 0.7, 0.01, 0.14], "Points": [0, 0, 0.5, 0, 1, 1, 0.5, 0]}, {"Name": "second"}]"#,
        r#"{"Name": "alone", "RGBPoints": [-1, 0, 0, 0, 1, 1, 1, 1]}"#,
    ]
    .map(|text| Sample::text("t.json", text))
    .into()
}

/// Lists of cameras.
#[must_use]
pub fn cameras() -> Vec<Sample> {
    [
        r#"[{"orbit": "30,20,2"}, {"orbit": "-400.5,95"}, {"camera": "eye=1,2,30 at=0,0,0 up=0,1,0 fov=30"}]"#,
        r#"[{"camera": "fov=179.9", "steal": true}]"#,
    ]
    .map(|text| Sample::text("c.json", text))
    .into()
}

/// Scenes.
#[must_use]
pub fn scenes() -> Vec<Sample> {
    [
        r#"{"volume": "v.nrrd", "surfaces": [{"file": "a.ply", "color": [1, 0.5, 0], "opacity": 0.25}]}"#,
        r#"{"volume": "v.nrrd", "mode": "iso", "isovalues": [{"value": 40.5, "color": [1, 0, 0], "opacity": 0.5}], "light": {"from": [1, 2, 3],
            "ambient": 0.1, "diffuse": 0.5, "specular": 0.2, "exponent": 9, "shadows": true}}"#,
        r#"{"surfaces": [{"file": "b.stl", "transform": [{"scale": [2, 2, 4]}, {"rotate": {"axis": [0, 0, 9], "degrees": 90}},
            {"translate": [1e3, 0, 0]}, {"matrix": [[1, 0, 0, 5], [0, 1, 0, 0], [0, 0, -1, 0]]}]}]}"#,
    ]
    .map(|text| Sample::text("s.json", text))
    .into()
}

/// Configuration files of `peer`.
#[must_use]
pub fn configurations() -> Vec<Sample> {
    [
        "name = \"lab-1\"\nmemory = \"8G\"\nlisten = \"/ip4/192.168.7.20/tcp/7070\"\njoin = [\"192.168.7.21:7070\"]\nmetrics = \"127.0.0.1:9464\"\nverbose = 1\n",
        "device = \"vulkan:1\"\nmemory = 0x1000\nkey = \"mesh.key\"\nidentity = '/var/lib/id'\ndata = [\"a.brickmesh\", \"b\"] # two\n",
        "join = []\n[nothing]\nmemory = 1e3\n",
    ]
    .map(|text| Sample::text("config.toml", text))
    .into()
}

/// Mesh keys.
///
/// # Panics
/// Where none can be made.
#[must_use]
pub fn mesh_keys() -> Vec<Sample> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mesh.key");
    MeshKey::load_or_make(&path).expect("a key");
    let text = fs::read_to_string(&path).expect("the key is a text");
    vec![Sample::text("mesh.key", &text)]
}

/// Inputs of a simulation.
#[must_use]
pub fn simulation(what: &str) -> Vec<Sample> {
    let texts: &[&str] = match what {
        "placement" => &[
            r#"{"bricks": [3, 2, 4], "devices": [{"id": "a", "capacity": 10}, {"id": 7, "capacity": 20}, {"id": "c", "capacity": 3}], "seed": 1, "method": "redundant"}"#,
            r#"{"bricks": [4, 4, 4], "devices": [{"id": 0, "capacity": 16}, {"id": 1, "capacity": 40}], "method": "clustered-single"}"#,
        ],
        "schedule" => &[
            r#"{"devices": [{"id": "a", "speed": 2.0, "bricks": [0, 1]}, {"id": "b", "bricks": [1, 2]}], "jobs": [{"id": 0, "brick": 0, "cost_us": 101}, {"id": 1, "brick": 1, "cost_us": 40}, {"id": 2, "brick": 9, "cost_us": 5}], "method": "best-fit"}"#,
            r#"{"devices": [{"id": 1, "speed": 0.5, "bricks": [0, 1, 2]}, {"id": 2, "bricks": [0, 1, 2]}, {"id": 3, "bricks": [0]}], "jobs": [{"id": 0, "brick": 0, "cost_us": 9000}, {"id": 1, "brick": 1, "cost_us": 8000}, {"id": 2, "brick": 2, "cost_us": 7000}], "method": "refined"}"#,
        ],
        "jobs" => &[
            r#"{"bricks": [{"id": "a", "box": [[0, 0, 0], [64, 64, 64]], "cost_us": 16001}, {"id": 7, "box": [[64, 0, 0], [128, 64, 64]], "cost_us": 400}], "devices": 4, "redundancy": 2, "min_job_us": 500, "view": [0, 0.5, 1], "trees": null}"#,
            r#"{"bricks": [{"id": 7, "box": [[0, 0, 0], [64, 64, 64]], "cost_us": 5000}], "devices": 2, "redundancy": 1, "min_job_us": 500, "view": [0, 0, 1], "trees": [{"brick": 7, "nodes": [[0, 32, 0], [3, 100, 5], [1, 32, 0], [3, 200, 6], [3, 300, 7]]}]}"#,
        ],
        _ => &[
            r#"{"peers": [{"id": "a", "capacity": 8, "speed": 2.0}, {"id": "b"}, {"id": "c", "speed": 0.5}], "volume": {"dims": [24, 16, 20], "brick": 8, "field": "shells"}, "path": {"frames": 3, "spin": 30, "zoom": 1.5, "size": [32, 24], "leaps": [2]}, "faults": [{"frame": 1, "after_us": 500, "peer": "b", "kind": "crash"}, {"frame": 0, "peer": "c", "kind": "slow", "factor": 0.25}], "network": {"latency_us": 300, "jitter_us": 200, "loss": 0.1, "doubled": 0.1}, "rules": {"decompose": "refined", "min_job_us": 500, "prediction": "projected", "assign": "best-fit", "composite": "refined", "steal": true}, "redundancy": 2, "seed": 3}"#,
            r#"{"peers": [{"id": "x"}], "volume": {"dims": [9, 9, 9], "brick": 4, "field": "filled"}, "path": {"frames": 2, "size": [16, 16]}}"#,
        ],
    };
    texts
        .iter()
        .map(|text| Sample::text("s.json", text))
        .collect()
}

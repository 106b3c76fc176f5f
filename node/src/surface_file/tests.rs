//! Every format, what is wrong with files, and meshes larger than memory.

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

fn spill(bytes_max: u64) -> Spill {
    Spill::in_temp(bytes_max, std::sync::Arc::new(|| true))
}

fn read_all(path: &Path, bytes_max: u64) -> Result<SurfaceMesh, SurfaceFileError> {
    read(path, &spill(bytes_max), &mut |_, _| true)
}

/// Corners, their normals, and looks.
type Shown = ([DVec3; 3], [DVec3; 3], usize);

fn shown(mesh: &mut SurfaceMesh) -> Vec<Shown> {
    let mut all = Vec::new();
    let show = |corners, normals, look| {
        all.push((corners, normals, look));
        Ok::<(), ScratchError>(())
    };
    mesh.each_triangle(show).unwrap();
    all
}

fn mesh(
    vertices: impl IntoIterator<Item = DVec3>,
    triangles: impl IntoIterator<Item = [u32; 3]>,
    bytes_max: u64,
) -> SurfaceMesh {
    let mut mesh = SurfaceMesh::new(&spill(bytes_max));
    let vertices = vertices.into_iter().map(|v| v.to_array());
    mesh.vertices.extend(vertices).unwrap();
    mesh.triangles.extend(triangles).unwrap();
    mesh.checked().unwrap()
}

fn read_bytes(name: &str, bytes: &[u8]) -> Result<SurfaceMesh, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    read_all(&path, 1 << 30).map_err(|e| {
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
        let mut mesh = read_bytes(name, &bytes).unwrap();
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
        let shown = shown(&mut mesh);
        let corners: Vec<[DVec3; 3]> = shown.iter().map(|(c, ..)| *c).collect();
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
            shown
                .iter()
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
    let mut mesh = read_all(&path, 1 << 30).unwrap();
    assert_eq!(
        mesh.bounds(),
        [DVec3::new(0.0, 0.0, 4.0), DVec3::new(3.0, 1.0, 4.0)]
    );
    let shown = shown(&mut mesh);
    assert_eq!(shown.len(), 2, "those without an area are left out");
    assert!(
        shown
            .iter()
            .all(|(_, n, _)| n.iter().all(|n| n.normalize() == DVec3::Z))
    );
    let little = read_all(&path, 1 << 12).unwrap_err().to_string();
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
    let mut mesh = of(&format!("{red}}}, {red}, \"alphaMode\": \"BLEND\"}}")).unwrap();
    assert_eq!(mesh.looks(), [look(1.0), None, look(0.5)]);
    let looks: Vec<usize> = shown(&mut mesh).iter().map(|(.., look)| *look).collect();
    assert_eq!(looks, [0, 0, 1, 1, 2, 2]);
    let mut mesh = mesh.in_one_look();
    assert_eq!(mesh.looks(), [None]);
    assert!(shown(&mut mesh).iter().all(|(.., look)| *look == 0));
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
    let vertices = std::iter::once(DVec3::Z).chain(rim);
    let triangles = (1..59_999).map(|n| [0, n, n + 1]);
    let mut mesh = mesh(vertices, triangles, 1 << 30);
    assert_eq!(shown(&mut mesh).len(), 59_998);
}

#[test]
fn a_mesh_is_placed_with_its_normals() {
    let read = || read_bytes("a.ply", &binary_ply(false, 3)).unwrap();
    let place =
        DAffine3::from_translation(DVec3::Z) * DAffine3::from_scale(DVec3::new(2.0, -1.0, 1.0));
    let mut placed = read().placed(&place).unwrap();
    assert_eq!(
        placed.bounds(),
        [DVec3::new(0.0, -1.0, 1.0), DVec3::new(3.0, 0.0, 1.0)]
    );
    assert!(
        shown(&mut placed)
            .iter()
            .all(|(_, n, _)| n.iter().all(|n| n.normalize() == DVec3::X))
    );
    let far = DAffine3::from_translation(DVec3::splat(1e40));
    assert!(matches!(
        read().placed(&far),
        Err(SurfaceProblem::Vertex { .. })
    ));
}

#[test]
fn normals_are_smooth_but_at_creases() {
    let first = |height: f64| {
        let vertices = [
            DVec3::ZERO,
            DVec3::X,
            DVec3::new(0.0, 1.0, 0.0),
            DVec3::new(0.0, -1.0, height),
        ];
        let triangles = [[0, 1, 2], [0, 3, 1]];
        shown(&mut mesh(vertices, triangles, 1 << 30))[0].1
    };
    let bent = first(-0.5)[0].normalize();
    assert!(bent.y < -0.1 && bent.z > 0.9, "{bent}");
    assert_eq!(
        first(-0.5)[2].normalize(),
        DVec3::Z,
        "of one triangle alone"
    );
    assert_eq!(first(-3.0)[0].normalize(), DVec3::Z);
}

#[test]
fn a_mesh_larger_than_memory_is_the_same() {
    const EDGE: u32 = 150;
    let place = |n: u32| {
        let [x, y] = [n % EDGE, n / EDGE].map(f64::from);
        let height = (x * 0.3).sin() * (y * 0.2).cos() * 3.0;
        DVec3::new(x, y, height)
    };
    let squares = (0..EDGE * (EDGE - 1)).filter(|n| n % EDGE < EDGE - 1);
    // In whatever order.
    let squares = squares.map(|n| n * 7919 % (EDGE * (EDGE - 1)));
    let squares: Vec<u32> = squares.filter(|n| n % EDGE < EDGE - 1).collect();
    let triangles = squares.iter().flat_map(|&n| {
        let [right, below] = [n + 1, n + EDGE];
        [[n, right, below], [right, below + 1, below]]
    });
    let triangles: Vec<_> = triangles.collect();
    let of = |bytes_max| {
        let mut mesh = mesh((0..EDGE * EDGE).map(place), triangles.clone(), bytes_max);
        let mut points = Vec::new();
        mesh.each_corner_point(|p| points.push(p)).unwrap();
        (mesh.bounds(), points, shown(&mut mesh))
    };
    let whole = of(1 << 30);
    assert!(whole.2.len() > 40_000);
    assert!(whole.2.iter().any(|(_, n, _)| n[0] != n[1]), "it is bent");
    for bytes_max in [1 << 14, 1 << 16, 1 << 20] {
        assert!(of(bytes_max) == whole, "{bytes_max}");
    }
}

#[test]
fn places_of_an_stl_file_are_shared_in_whatever_memory() {
    let mut text = "solid s\n".to_owned();
    for n in 0..500_u16 {
        let (x, y) = (n % 20, n / 20);
        text += "facet normal 0 0 1\nouter loop\n";
        for [x, y] in [[x, y], [x + 1, y], [x, y + 1]] {
            text += &format!("vertex {x} {y} 0.5\n");
        }
        text += "endloop\nendfacet\n";
    }
    text += "endsolid s\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stl");
    fs::write(&path, text).unwrap();
    let of = |bytes_max| {
        let mut mesh = read_all(&path, bytes_max).unwrap();
        assert_eq!(mesh.vertex_count(), 21 * 26 - 1);
        let vertices = (0..mesh.vertex_count()).map(|v| mesh.vertices.get(v).unwrap());
        (vertices.collect::<Vec<_>>(), shown(&mut mesh))
    };
    let whole = of(1 << 30);
    // In 546 rounds, and in 9.
    assert!(of(0) == whole && of(1 << 14) == whole);
}

#[test]
fn reading_ends_where_it_is_to() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.ply", ASCII_PLY), ("a.stl", ASCII_STL), ("a.obj", OBJ)] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let mut told = Vec::new();
        let mut read = |goes_on| {
            let spill = spill(1 << 20);
            read(&path, &spill, &mut |done, all| {
                told.push((done, all));
                goes_on
            })
        };
        assert!(read(false).is_err());
        assert!(read(true).is_ok());
        let all = text.len() as u64;
        assert_eq!(told.last(), Some(&(all, all)));
    }
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
    let long = [b"solid ".to_vec(), vec![b'x'; 1 << 17]].concat();
    refused("a.stl", &long, "longer than 65536 bytes");
    let mut named = binary_stl();
    named[..6].copy_from_slice(b"solid ");
    assert_eq!(read_bytes("a.stl", &named).unwrap().triangle_count(), 2);
    let mut list = b"ply\nformat binary_little_endian 1.0\nelement face 1\nproperty list uint int vertex_indices\nend_header\n".to_vec();
    list.extend(u32::MAX.to_le_bytes());
    list.resize(20 << 20, 0);
    refused("a.ply", &list, "face 0");
    refused(
        "a.ply",
        &[b"ply\ncomment ".to_vec(), vec![b'x'; 2 << 20]].concat(),
        "PLY",
    );
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
    let missing = read_all(&folder.path().join("x.ply"), 1)
        .unwrap_err()
        .to_string();
    assert!(missing.contains("x.ply: No such file"), "{missing}");
    let path = folder.path().join("a.ply");
    fs::write(&path, ASCII_PLY).unwrap();
    assert!(read_all(&path, 0).is_ok(), "it need not fit into memory");
    fs::create_dir(folder.path().join("d.stl")).unwrap();
    assert!(read_all(&folder.path().join("d.stl"), 1 << 30).is_err());
}

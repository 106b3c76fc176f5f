//! Tests: the same voxels in every layout that a format allows decode to the same bytes.

use super::{VolumeFile, open};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder, write::ZlibEncoder};
use std::{fs, io::Write as _, path::Path};

/// 3·2·2 voxels of i16, little-endian.
const DIMS: [u32; 3] = [3, 2, 2];

fn voxels(big_endian: bool) -> Vec<u8> {
    let values = (0..12_i16).map(|i| i * 2_111 - 12_345);
    let bytes = |v: i16| {
        if big_endian {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    values.flat_map(bytes).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// As two gzip members, one after the other.
fn gzip_in_two(bytes: &[u8]) -> Vec<u8> {
    let (a, b) = bytes.split_at(bytes.len() / 3);
    [gzip(a), gzip(b)].concat()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn decode(file: &VolumeFile) -> Result<Vec<u8>, String> {
    let total = usize::try_from(file.description.voxel_bytes()).unwrap();
    let mut stream = file.voxels().map_err(|e| e.to_string())?;
    let mut bytes = vec![0; total];
    // In two steps, as long streams come.
    let (first, second) = bytes.split_at_mut(total / 4 * 2);
    stream.read(first).map_err(|e| e.to_string())?;
    stream.read(second).map_err(|e| e.to_string())?;
    stream.finish().map_err(|e| e.to_string())?;
    Ok(bytes)
}

fn check(path: &Path, what: &str) -> VolumeFile {
    let file = open(path).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(file.description.dims, DIMS, "{what}");
    assert_eq!(decode(&file), Ok(voxels(false)), "{what}");
    file
}

fn error(folder: &Path, name: &str, contents: &[u8]) -> String {
    let path = folder.join(name);
    fs::write(&path, contents).unwrap();
    let error = match open(&path) {
        Ok(file) => decode(&file).expect_err(name),
        Err(e) => e.to_string(),
    };
    assert!(error.contains(name), "the file is named: {error}");
    error
}

#[test]
fn nrrd_in_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    let in_dir = |name: &str| dir.path().join(name);
    for big in [false, true] {
        let endian = if big { "big" } else { "little" };
        let plain = voxels(big);
        let skipped = [b"one\ntwo\n".as_slice(), b"1234567", &plain].concat();
        let inside = [b"1234567".as_slice(), &plain].concat();
        let lines_then_gzip = [b"one\ntwo\n".to_vec(), gzip(&inside)].concat();
        for (encoding, fields, data) in [
            ("raw", "", plain.clone()),
            ("raw", "line skip: 2\nbyte skip: 7\n", skipped.clone()),
            ("raw", "lineskip: 2\nbyteskip: 7\n", skipped.clone()),
            ("raw", "byte skip: -1\n", skipped.clone()),
            ("gzip", "", gzip(&plain)),
            ("gz", "", gzip_in_two(&plain)),
            ("gzip", "line skip: 2\nbyte skip: 7\n", lines_then_gzip),
        ] {
            let what = format!("{endian} {encoding} {fields:?}");
            let header = format!(
                "NRRD0005\n# made by a test\ntype: signed short int\ndimension: 3\nsizes: 3 2 2\nendian: {endian}\nencoding: {encoding}\n{fields}key:=value: more\n"
            );
            let attached = [header.as_bytes(), b"\n", &data].concat();
            fs::write(in_dir("a.nrrd"), attached).unwrap();
            check(&in_dir("a.nrrd"), &what);
            fs::write(in_dir("d.bin"), &data).unwrap();
            for end in ["", "\n"] {
                fs::write(in_dir("d.nhdr"), format!("{header}data file: d.bin\n{end}")).unwrap();
                check(&in_dir("d.nhdr"), &format!("detached {what}"));
            }
        }
    }
}

#[test]
fn nrrd_places_and_four_axes() {
    let dir = tempfile::tempdir().unwrap();
    let write = |fields: &str| {
        let text = format!("NRRD0004\ntype: int16\nendian: little\nencoding: raw\n{fields}\n");
        let path = dir.path().join("v.nrrd");
        fs::write(&path, [text.as_bytes(), &voxels(false)].concat()).unwrap();
        path
    };
    let turned = check(
        &write(
            "dimension: 4\nsizes: 3 2 2 1\nspace: left-posterior-superior\nspace directions: (0,2,0) (-3,0,0) (0,0,0.5) none\nspace origin: (7,8,9)\n",
        ),
        "directions",
    );
    let d = &turned.description;
    let at = |p| d.world_from_grid().transform_point3(p).to_array();
    assert_eq!(at(glam::DVec3::ZERO).map(f64::to_bits), {
        [7.0, 8.0, 9.0].map(f64::to_bits)
    });
    let point = d
        .world_from_grid()
        .transform_point3(glam::DVec3::new(1.0, 1.0, 1.0));
    assert!(
        point.abs_diff_eq(glam::DVec3::new(4.0, 10.0, 9.5), 1e-12),
        "{point}"
    );
    let spaced = check(
        &write("dimension: 4\nsizes: 3 2 2 1\nspacings: 0.5 2 3 NaN\n"),
        "spacings",
    );
    assert!(spaced.description.min_spacing() < 0.6);
    for (fields, parts) in [
        ("dimension: 3\nsizes: 3 2 2 1\n", ["dimension", "sizes"]),
        ("dimension: 4\nsizes: 3 2 2\n", ["dimension", "sizes"]),
        ("dimension: many\nsizes: 3 2 2\n", ["dimension", "many"]),
        (
            "dimension: 3\nsizes: 3 2 2\nspacings: 1 x 1\n",
            ["spacings", "x"],
        ),
        (
            "dimension: 3\nsizes: 3 2 2\nspacings: 1 0 1\n",
            ["spacing", "positive"],
        ),
        (
            "dimension: 3\nsizes: 3 2 2\ndata file: LIST\n",
            ["data file", "LIST"],
        ),
        (
            "dimension: 3\nsizes: 3 2 2\nline skip: 99\n",
            ["line skip", "99"],
        ),
        (
            "dimension: 3\nsizes: 3 2 2\nbyte skip: 9223372036854775807\n",
            ["offset of the voxels", "at most"],
        ),
    ] {
        let error = open(&write(fields))
            .map_err(|e| e.to_string())
            .and_then(|f| decode(&f));
        let error = error.expect_err(fields);
        assert!(
            error.contains("v.nrrd") && parts.iter().all(|p| error.contains(p)),
            "{error} should say {parts:?}"
        );
    }
}

#[test]
fn meta_image_in_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    let in_dir = |name: &str| dir.path().join(name);
    for big in [false, true] {
        let order = if big { "True" } else { "False" };
        let plain = voxels(big);
        let skipped = [b"header".as_slice(), &plain].concat();
        let zipped = [b"header".to_vec(), zlib(&plain)].concat();
        for (fields, data) in [
            ("", plain.clone()),
            ("HeaderSize = 6\n", skipped.clone()),
            ("HeaderSize = -1\n", skipped.clone()),
            ("CompressedData = True\n", zlib(&plain)),
            ("CompressedData = True\nHeaderSize = 6\n", zipped),
        ] {
            for key in ["ElementByteOrderMSB", "BinaryDataByteOrderMSB"] {
                let what = format!("{key} {order} {fields:?}");
                let header = format!(
                    "ObjectType = Image\r\nNDims = 3\nDimSize = 3 2 2\n{key} = {order}\nElementSpacing = 1 2 3\nElementType = MET_SHORT\n{fields}"
                );
                let local = [header.as_bytes(), b"ElementDataFile = LOCAL\n", &data].concat();
                fs::write(in_dir("l.mha"), local).unwrap();
                check(&in_dir("l.mha"), &what);
                fs::write(in_dir("d.zraw"), &data).unwrap();
                fs::write(
                    in_dir("d.mhd"),
                    format!("{header}ElementDataFile = d.zraw\n"),
                )
                .unwrap();
                check(&in_dir("d.mhd"), &format!("detached {what}"));
            }
        }
    }
}

#[test]
fn meta_image_axes_are_the_rows_of_its_matrix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.mha");
    let header = "NDims = 3\nDimSize = 3 2 2\nTransformMatrix = 0 1 0 -1 0 0 0 0 1\nOffset = 7 8 9\nElementSpacing = 2 3 0.5\nElementType = MET_SHORT\nElementDataFile = LOCAL\n";
    fs::write(&path, [header.as_bytes(), &voxels(false)].concat()).unwrap();
    let file = check(&path, "matrix");
    let point = file
        .description
        .world_from_grid()
        .transform_point3(glam::DVec3::ONE);
    assert!(
        point.abs_diff_eq(glam::DVec3::new(4.0, 10.0, 9.5), 1e-12),
        "{point}"
    );
}

/// A NIfTI-1 header; `fields` are offsets and numbers, f32 where not whole 16-bit fields.
fn nifti(big: bool, shorts: &[(usize, i16)], floats: &[(usize, f32)]) -> Vec<u8> {
    let mut header = vec![0_u8; 352];
    let mut put = |at: usize, le: &[u8]| {
        let slot = &mut header[at..at + le.len()];
        slot.copy_from_slice(le);
        if big {
            slot.reverse();
        }
    };
    put(0, &348_i32.to_le_bytes());
    let dims = [(40, 3_i16), (42, 3), (44, 2), (46, 2), (70, 4), (72, 16)];
    for (at, v) in dims.iter().chain(shorts) {
        put(*at, &v.to_le_bytes());
    }
    let steps = [(76, 1.0_f32), (80, 2.0), (84, 3.0), (88, 0.5), (108, 352.0)];
    for (at, v) in steps.iter().chain(floats) {
        put(*at, &v.to_le_bytes());
    }
    header[344..348].copy_from_slice(b"n+1\0");
    header
}

#[test]
fn nifti_in_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    let half = std::f32::consts::FRAC_1_SQRT_2;
    let origin = [(268, 7.0_f32), (272, 8.0), (276, 9.0)];
    // A quarter turn about z: x goes to y, y to -x.
    let qform = [&[(264, half)], origin.as_slice()].concat();
    let sform = [
        (284, -3.0_f32),
        (292, 7.0),
        (296, 2.0),
        (308, 8.0),
        (320, 0.5),
        (324, 9.0),
    ];
    for big in [false, true] {
        for (shorts, floats, expected) in [
            (vec![], vec![], [2.0, 3.0, 0.5]),
            (vec![(252, 1_i16)], qform.clone(), [4.0, 10.0, 9.5]),
            (vec![(254, 1)], sform.to_vec(), [4.0, 10.0, 9.5]),
            // sform is preferred where both are there.
            (vec![(252, 1), (254, 2)], sform.to_vec(), [4.0, 10.0, 9.5]),
        ] {
            let header = nifti(big, &shorts, &floats);
            let plain = [header, voxels(big)].concat();
            for (name, bytes) in [
                ("v.nii", plain.clone()),
                ("v.nii.gz", gzip(&plain)),
                ("w.nii.gz", gzip_in_two(&plain)),
            ] {
                let path = dir.path().join(name);
                fs::write(&path, bytes).unwrap();
                let file = check(&path, name);
                let point = file
                    .description
                    .world_from_grid()
                    .transform_point3(glam::DVec3::ONE);
                let expected = glam::DVec3::from_array(expected);
                assert!(
                    point.abs_diff_eq(expected, 1e-6),
                    "{name} {shorts:?} {point}"
                );
            }
        }
    }
}

#[test]
fn nifti_slope_offset_and_bad_fields() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.nii");
    for (slope, intercept, at_ten) in [
        (2.0, 5.0, 25.0),
        (0.0, 5.0, 10.0),
        (f32::NAN, f32::NAN, 10.0),
    ] {
        let header = nifti(false, &[], &[(112, slope), (116, intercept)]);
        fs::write(&path, [header, voxels(false)].concat()).unwrap();
        let value = check(&path, "slope").description.value(10.0);
        assert!((value - at_ten).abs() < 1e-9, "{value}");
    }
    let later = [
        nifti(false, &[], &[(108, 400.0)]),
        vec![9; 48],
        voxels(false),
    ]
    .concat();
    fs::write(&path, later).unwrap();
    check(&path, "voxels after an extension");
    for (shorts, floats, part) in [
        (vec![(70, 64_i16)], vec![], "float64"),
        (vec![(70, 128)], vec![], "rgb24"),
        (vec![(42, 0)], vec![], "dims"),
        (vec![(42, -3)], vec![], "-3"),
        (vec![(40, 2)], vec![], "three axes"),
        (vec![(40, 4), (48, 7)], vec![], "three axes"),
        (vec![(40, 99)], vec![], "three axes"),
        (vec![], vec![(108, 0.0)], "vox_offset"),
        (vec![], vec![(108, f32::INFINITY)], "vox_offset"),
        (vec![], vec![(80, f32::NAN)], "spacing"),
        (vec![(254, 1)], vec![], "spacing"),
    ] {
        let bytes = [nifti(false, &shorts, &floats), voxels(false)].concat();
        let error = error(dir.path(), "bad.nii", &bytes);
        assert!(error.contains(part), "{error} should say {part}");
    }
    let cut = error(
        dir.path(),
        "cut.nii.gz",
        &gzip(&nifti(false, &[], &[(108, 400.0)])),
    );
    assert!(cut.contains("found 0") && cut.contains("expected"), "{cut}");
}

/// One array of a VTK XML file as bytes: lengths and data, in base64 where asked.
fn vti_array(data: &[u8], wide: bool, big: bool, compressed: bool, base64: bool) -> Vec<u8> {
    let word = |n: usize| {
        let mut bytes = (n as u64).to_le_bytes()[..if wide { 8 } else { 4 }].to_vec();
        if big {
            bytes.reverse();
        }
        bytes
    };
    let (head, body) = if compressed {
        let blocks: Vec<Vec<u8>> = data.chunks(10).map(zlib).collect();
        let sizes = [blocks.len(), 10, data.len() % 10]
            .into_iter()
            .chain(blocks.iter().map(Vec::len));
        (sizes.flat_map(word).collect::<Vec<u8>>(), blocks.concat())
    } else {
        (word(data.len()), data.to_vec())
    };
    match (base64, compressed) {
        (false, _) => [head, body].concat(),
        // Lengths and blocks are two texts; a plain array is one.
        (true, true) => (STANDARD.encode(head) + &STANDARD.encode(body)).into_bytes(),
        (true, false) => STANDARD.encode([head, body].concat()).into_bytes(),
    }
}

fn vti(array: &[u8], how: (&str, bool, bool, bool), other: &[u8]) -> Vec<u8> {
    let (place, wide, big, compressed) = how;
    let header_type = if wide { "UInt64" } else { "UInt32" };
    let order = if big { "BigEndian" } else { "LittleEndian" };
    let compressor = if compressed {
        " compressor=\"vtkZLibDataCompressor\""
    } else {
        ""
    };
    let head = format!(
        "<?xml version=\"1.0\"?>\n<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"{order}\" header_type=\"{header_type}\"{compressor}>\n<ImageData WholeExtent=\"1 3 0 1 4 5\" Origin=\"1 2 3\" Spacing=\"2 3 0.5\" Direction=\"0 -1 0 1 0 0 0 0 1\">\n<Piece Extent=\"1 3 0 1 4 5\">\n<PointData Scalars=\"density\">\n"
    );
    let tag = |name: &str, components: u32, rest: &str| {
        format!(
            "<DataArray type=\"Int16\" Name=\"{name}\" NumberOfComponents=\"{components}\" {rest}"
        )
    };
    let close = "</PointData>\n<CellData>\n</CellData>\n</Piece>\n</ImageData>\n";
    let end = b"\n</VTKFile>\n".as_slice();
    if place == "inline" {
        let first = tag("velocity", 3, "format=\"binary\">\n");
        let second = tag("density", 1, "format=\"binary\" RangeMin=\"0\">\n  ");
        let after = format!("\n</DataArray>\n{close}");
        return [
            head.as_bytes(),
            first.as_bytes(),
            other,
            b"</DataArray>\n",
            second.as_bytes(),
            array,
            after.as_bytes(),
            end,
        ]
        .concat();
    }
    let encoding = if place == "appended base64" {
        "base64"
    } else {
        "raw"
    };
    let first = tag("velocity", 3, "format=\"appended\" offset=\"0\"/>\n");
    let second = tag(
        "density",
        1,
        &format!("format=\"appended\" offset=\"{}\"/>\n", other.len()),
    );
    let appended = format!("{close}<AppendedData encoding=\"{encoding}\">\n  _");
    [
        head.as_bytes(),
        first.as_bytes(),
        second.as_bytes(),
        appended.as_bytes(),
        other,
        array,
        b"\n</AppendedData>",
        end,
    ]
    .concat()
}

#[test]
fn vti_in_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.vti");
    for place in ["inline", "appended raw", "appended base64"] {
        for bits in 0..8 {
            let (wide, big, compressed) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            let base64 = place != "appended raw";
            let array = |data: &[u8]| vti_array(data, wide, big, compressed, base64);
            let other = array(b"<_ another array>");
            let bytes = vti(&array(&voxels(big)), (place, wide, big, compressed), &other);
            fs::write(&path, bytes).unwrap();
            let file = check(
                &path,
                &format!("{place} wide {wide} big {big} compressed {compressed}"),
            );
            // Sample (0,0,0) is point (1,0,4) of the extent: 2·y and 4·0.5·z further.
            let origin = glam::DVec3::from_array(file.description.origin);
            assert!(
                origin.abs_diff_eq(glam::DVec3::new(1.0, 4.0, 5.0), 1e-12),
                "{origin}"
            );
            let one = file
                .description
                .world_from_grid()
                .transform_point3(glam::DVec3::ONE);
            assert!(
                one.abs_diff_eq(glam::DVec3::new(-2.0, 6.0, 5.5), 1e-12),
                "{one}"
            );
        }
    }
}

#[test]
fn vti_lengths_that_do_not_add_up_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let how = ("inline", false, false, false);
    for (data, part) in [
        (voxels(false)[..20].to_vec(), "found 20 bytes"),
        ([voxels(false), vec![1, 2]].concat(), "found 25 bytes"),
    ] {
        let bytes = vti(&vti_array(&data, false, false, false, true), how, b"");
        let error = error(dir.path(), "v.vti", &bytes);
        assert!(
            error.contains(part) && error.contains("expected 24"),
            "{error}"
        );
    }
    // A count of blocks that no file of this size can have costs no memory and is told.
    let mut head = u32::MAX.to_le_bytes().to_vec();
    head.extend([0; 8]);
    let bytes = vti(
        STANDARD.encode(head).as_bytes(),
        ("inline", false, false, true),
        b"",
    );
    let many = error(dir.path(), "v.vti", &bytes);
    assert!(many.contains("blocks"), "{many}");
    let text = String::from_utf8(vti(b"", how, b"")).unwrap();
    for (from, to, parts) in [
        ("Int16", "Float64", ["DataArray type", "Float64"]),
        (
            "format=\"binary\" R",
            "format=\"ascii\" R",
            ["DataArray format", "ascii"],
        ),
        ("1 3 0 1 4 5", "3 1 0 1 4 5", ["WholeExtent", "ascending"]),
        ("1 3 0 1 4 5", "0 99999 0 1 4 5", ["dims", "100000"]),
        (
            "1 3 0 1 4 5",
            "-9223372036854775808 9223372036854775807 0 1 4 5",
            ["WholeExtent", "six"],
        ),
        (
            "Spacing=\"2 3 0.5\"",
            "Spacing=\"2 3\"",
            ["Spacing", "3 numbers"],
        ),
        ("density\">", "mass\">", ["DataArray", "missing"]),
        ("UInt32", "UInt16", ["header_type", "UInt16"]),
    ] {
        let error = error(dir.path(), "v.vti", text.replace(from, to).as_bytes());
        assert!(
            parts.iter().all(|p| error.contains(p)),
            "{error} should say {parts:?}"
        );
    }
}

#[test]
fn raw_gzip_of_several_members_is_read_and_what_is_left_over_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let name = "v_3x2x2_int16.raw.gz";
    fs::write(dir.path().join(name), gzip_in_two(&voxels(false))).unwrap();
    check(&dir.path().join(name), "two members");
    let long = gzip(&[voxels(false), vec![0]].concat());
    let error_long = error(dir.path(), name, &long);
    assert!(
        error_long.contains("found 25") && error_long.contains("expected 24"),
        "{error_long}"
    );
    let short = gzip(&voxels(false)[..22]);
    let error_short = error(dir.path(), name, &short);
    assert!(error_short.contains("found 22"), "{error_short}");
}

#[test]
fn a_header_without_end_is_refused_before_it_fills_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let long = vec![b'x'; 3 << 20];
    for (name, start) in [
        ("v.nrrd", "NRRD0004\n"),
        ("v.mha", "ObjectType = "),
        ("v.vti", "<VTKFile type=\""),
    ] {
        let error = error(dir.path(), name, &[start.as_bytes(), &long].concat());
        assert!(
            error.contains("bytes") && error.contains("end"),
            "{name}: {error}"
        );
    }
}

//! Real volumes decode to the digests that are published with them: the small ones of `tests/data`
//! always, the others where they are found (`BRICKMESH_VOLUMES`, else `../shared/volumes` beside
//! the project). Then, that bad files are refused with the file and the field in the message.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use VoxelType::{F32, I16, U8};
use brickmesh_actors::data_set::BrickSource;
use brickmesh_node::{
    brick_store::{self, BrickEdge, FileOptions},
    volume_file::{self, VolumeFileError},
};
use brickmesh_tests::{program::damage_brick, skip::skip};
use brickmesh_topology::{Digest, Manifest, VoxelType, data::manifest::ManifestParts};
use sha2::{Digest as _, Sha256};
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

type Volume = (&'static str, [u32; 3], VoxelType, &'static str);

const HYDROGEN: &str = "789756a94c4e8b43d04f7f89455f568d2fdb8dcb2d2170b75e078edc1b56d0b2";
const AVF: &str = "4bd320a8fcbd3c0aa445c695e15183b2c9fda7b7df892343eefa68a2bdbb8681";
const NEGHIP: &str = "72cfeacbc7e5d6612198a169a3f2d6df09d78f67506ffa83b0f34498d9d85872";
const LIDC2: &str = "d697a46dadafc1b2e08b9c088e7e78b905c3ddfa602f397992f54cd593ec8b25";

const SMALL: [Volume; 3] = [
    ("neghip_64x64x64_uint8.raw.gz", [64; 3], U8, NEGHIP),
    ("hydrogen.vti", [64; 3], F32, HYDROGEN),
    ("avf.nrrd", [74, 93, 20], F32, AVF),
];

const SHARED: [Volume; 13] = [
    ("neghip_64x64x64_uint8.raw", [64; 3], U8, NEGHIP),
    ("hydrogen.vti", [64; 3], F32, HYDROGEN),
    ("avf.nrrd", [74, 93, 20], F32, AVF),
    (
        "tooth.nrrd",
        [103, 94, 161],
        U8,
        "1ae7d4681ad9b58c3778af0742f3c585354625a6aed232a181c93c669522172e",
    ),
    (
        "ch2.nii.gz",
        [181, 217, 181],
        U8,
        "38e1383cfd10824abc62dd61c9597f83ff899c82e2a84eb37737bdc83bfc9d7d",
    ),
    (
        "MR_Gd.nii.gz",
        [176, 188, 144],
        U8,
        "67c86a5785f62c204164bb9b68978edb8de931045d16ab517a1ad02b9fbd604f",
    ),
    (
        "engine.nhdr",
        [256, 256, 128],
        U8,
        "15cf29cdde69cd6c8b5ab9eeef4d1bb21f276056da4111cb5069ebfbe5b6ff90",
    ),
    ("LIDC2.vti", [256, 256, 133], U8, LIDC2),
    ("LIDC2.mha", [256, 256, 133], U8, LIDC2),
    (
        "aneurism.vti",
        [256; 3],
        U8,
        "2826a66db406f19bdd9e38cfe42a80b861fbce34a947c24ce511f07f1c160b83",
    ),
    (
        "bonsai_256x256x256_uint8.raw.gz",
        [256; 3],
        U8,
        "288d2818cffb50d2e2c9e3b5b0a2520d09b0f5051bb63cca315f3fc7a894af80",
    ),
    (
        "csafe_heptane_302x302x302_uint8.raw.gz",
        [302; 3],
        U8,
        "bb0e22e16cecd0bbde7675db722418dc094b3685fd550622af26145325de51cb",
    ),
    (
        "lidc0314.mhd",
        [512, 512, 40],
        I16,
        "a5ea72c375f6aa2cef1348f1884cb5119acad3ad4258c80a60be7a1f9a12751b",
    ),
];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// SHA-256 of the decoded voxels.
fn digest(path: &Path) -> Result<String, VolumeFileError> {
    let file = volume_file::open(path)?;
    let mut stream = file.voxels()?;
    let (total, mut done) = (file.description.voxel_bytes(), 0);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    while done < total {
        let n = usize::try_from((total - done).min(1 << 20)).unwrap();
        stream.read(&mut buffer[..n])?;
        hash.update(&buffer[..n]);
        done += n as u64;
    }
    stream.finish()?;
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn check(folder: &Path, (name, dims, voxel, expected): Volume) {
    let path = folder.join(name);
    let description = volume_file::open(&path).unwrap().description;
    assert_eq!(
        (description.dims, description.voxel),
        (dims, voxel),
        "{name}"
    );
    assert_eq!(digest(&path).unwrap(), expected, "{name}");
}

#[test]
fn small_real_volumes_decode_to_their_digests() {
    SMALL
        .into_iter()
        .for_each(|v| check(&project().join("tests/data"), v));
}

#[test]
fn shared_real_volumes_decode_to_their_digests() {
    let given = std::env::var_os("BRICKMESH_VOLUMES").map(PathBuf::from);
    let folder = given.unwrap_or_else(|| project().join("../shared/volumes"));
    for volume in SHARED {
        if folder.join(volume.0).exists() {
            check(&folder, volume);
        } else {
            skip(volume.0, &format!("it is not in {}", folder.display()));
        }
    }
}

#[test]
fn geometry_is_honoured() {
    let avf = volume_file::open(&project().join("tests/data/avf.nrrd"))
        .unwrap()
        .description;
    assert!((avf.spacing[0] - 0.722_656).abs() < 1e-6 && (avf.spacing[2] - 1.0).abs() < 1e-9);
    assert!(
        avf.direction[0][0] < -0.99 && avf.direction[1][1] < -0.99,
        "{:?}",
        avf.direction
    );
    assert!(avf.direction[2][2] > 0.99);
}

#[test]
fn an_imported_volume_opens_with_equal_bricks_and_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let file = volume_file::open(&project().join("tests/data/avf.nrrd")).unwrap();
    let out = dir.path().join("avf.brickmesh");
    let store = brick_store::import(&file, 16, &out, &mut |_, _| true).unwrap();
    let opened = brick_store::open_source(
        &out,
        FileOptions::default(),
        BrickEdge::Exactly(99),
        u64::MAX,
        &mut |_, _| true,
    )
    .unwrap();
    let loaded = brick_store::load(&file, 16, u64::MAX, &mut |_, _| true).unwrap();
    assert_eq!(opened.manifest().digest(), store.manifest().digest());
    // But for its levels, which are in its name, it is what is loaded from the file.
    let mut parts = ManifestParts::from(opened.manifest().as_ref().clone());
    assert_eq!(std::mem::take(&mut parts.levels).len(), 2);
    let without_levels = Manifest::try_from(parts).unwrap();
    assert_eq!(without_levels.digest(), loaded.manifest().digest());
    let whole = volume_bytes(&file);
    for brick in opened.manifest().grid().bricks() {
        let bytes = opened.read(brick).unwrap();
        assert_eq!(bytes, loaded.read(brick).unwrap());
        let stored = opened.manifest().grid().stored_box(brick);
        let mut cut = Vec::new();
        for z in stored.lo[2]..stored.hi[2] {
            for y in stored.lo[1]..stored.hi[1] {
                let at = |x: u32| ((z * 93 + y) * 74 + x) as usize * 4;
                cut.extend_from_slice(&whole[at(stored.lo[0])..at(stored.hi[0])]);
            }
        }
        assert_eq!(bytes, cut, "brick {}", brick.0);
        assert_eq!(Digest::of(&bytes), opened.manifest().brick_digest(brick));
    }
    let counted: u64 = opened.manifest().histogram().iter().sum();
    assert_eq!(counted, 74 * 93 * 20);
    let again = brick_store::import(&file, 16, &out, &mut |_, _| true).unwrap_err();
    assert!(again.to_string().contains("exists already"), "{again}");
}

fn volume_bytes(file: &volume_file::VolumeFile) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.description.voxel_bytes()).unwrap()];
    file.voxels().unwrap().read(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_damaged_brick_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = volume_file::open(&project().join("tests/data/avf.nrrd")).unwrap();
    let out = dir.path().join("avf.brickmesh");
    let store = brick_store::import(&file, 32, &out, &mut |_, _| true).unwrap();
    let brick = store.manifest().grid().bricks().next().unwrap();
    drop(damage_brick(&out, 0));
    let error = store.read(brick).unwrap_err().to_string();
    assert!(
        error.contains("damaged") && error.contains("digest"),
        "{error}"
    );
}

#[test]
fn an_import_that_fails_or_is_stopped_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut_20x20x20_uint8.raw.gz");
    fs::copy(
        project().join("tests/data/neghip_64x64x64_uint8.raw.gz"),
        &cut,
    )
    .unwrap();
    let bad = dir.path().join("bad_99x64x64_uint8.raw.gz");
    fs::rename(&cut, &bad).unwrap();
    let file = volume_file::open(&bad).unwrap();
    let out = dir.path().join("out.brickmesh");
    let error = brick_store::import(&file, 16, &out, &mut |_, _| true).unwrap_err();
    assert!(error.to_string().contains("expected 405504"), "{error}");
    let good = volume_file::open(&project().join("tests/data/hydrogen.vti")).unwrap();
    let stopped = brick_store::import(&good, 16, &out, &mut |_, _| false).unwrap_err();
    assert!(matches!(stopped, brick_store::BrickStoreError::Stopped));
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["bad_99x64x64_uint8.raw.gz"]);
}

/// Writes a file and returns the error of decoding it whole.
fn error_of(name: &str, contents: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, contents).unwrap();
    let error = digest(&path).expect_err(name).to_string();
    assert!(error.contains(name), "the file is named: {error}");
    error
}

fn nrrd(fields: &str, data: &[u8]) -> Vec<u8> {
    let mut all = format!("NRRD0004\n{fields}\n").into_bytes();
    all.extend_from_slice(data);
    all
}

const NRRD_I16: &str = "type: short\ndimension: 3\nsizes: 2 1 1\nencoding: raw\n";

#[test]
fn both_endians_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.nrrd");
    for (endian, data) in [
        ("big", [0x01, 0x02, 0xff, 0xfe]),
        ("little", [0x02, 0x01, 0xfe, 0xff]),
    ] {
        fs::write(&path, nrrd(&format!("{NRRD_I16}endian: {endian}\n"), &data)).unwrap();
        let file = volume_file::open(&path).unwrap();
        assert_eq!(volume_bytes(&file), [0x02, 0x01, 0xfe, 0xff], "{endian}");
    }
    let mha = b"ObjectType = Image\nNDims = 3\nDimSize = 2 1 1\nElementType = MET_USHORT\nBinaryDataByteOrderMSB = True\nElementDataFile = LOCAL\n\x01\x02\x03\x04";
    let path = dir.path().join("v.mha");
    fs::write(&path, mha).unwrap();
    assert_eq!(
        volume_bytes(&volume_file::open(&path).unwrap()),
        [2, 1, 4, 3]
    );
}

#[test]
fn a_big_endian_nifti_is_read() {
    let mut header = vec![0_u8; 352];
    header[..4].copy_from_slice(&348_i32.to_be_bytes());
    for (at, v) in [(40, 3_i16), (42, 2), (44, 1), (46, 1), (70, 4), (72, 16)] {
        header[at..at + 2].copy_from_slice(&v.to_be_bytes());
    }
    for (at, v) in [
        (80, 1.0_f32),
        (84, 2.0),
        (88, 3.0),
        (108, 352.0),
        (112, 2.0),
        (116, -1.0),
    ] {
        header[at..at + 4].copy_from_slice(&v.to_be_bytes());
    }
    header[344..348].copy_from_slice(b"n+1\0");
    header.extend([0, 5, 255, 251]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.nii");
    fs::write(&path, &header).unwrap();
    let file = volume_file::open(&path).unwrap();
    let spacing = file.description.spacing;
    assert!(
        (0..3).all(|a| (spacing[a] - [1.0, 2.0, 3.0][a]).abs() < 1e-9),
        "{spacing:?}"
    );
    assert!((file.description.value(5.0) - 9.0).abs() < 1e-9);
    assert_eq!(volume_bytes(&file), [5, 0, 251, 255]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one line a way to be wrong")]
fn bad_files_are_refused_with_field_found_and_expected() {
    let has = |error: String, parts: &[&str]| {
        assert!(
            parts.iter().all(|p| error.contains(p)),
            "{error} should say {parts:?}"
        );
    };
    let little = format!("{NRRD_I16}endian: little\n");
    has(
        error_of("v.nrrd", &nrrd(&little, &[1, 2, 3])),
        &["found 3 bytes", "expected 4"],
    );
    has(
        error_of("v.nrrd", &nrrd(NRRD_I16, &[1, 2, 3, 4])),
        &["endian", "missing"],
    );
    has(error_of("v.nrrd", b"P6 4 4"), &["first line", "NRRD0001"]);
    has(
        error_of("v.nrrd", &nrrd(&little.replace("short", "double"), &[])),
        &["type", "double", "not supported"],
    );
    has(
        error_of("v.nrrd", &nrrd(&little.replace("2 1 1", "2 1"), &[])),
        &["sizes", "2 1"],
    );
    has(
        error_of(
            "v.nrrd",
            &nrrd(&little.replace("2 1 1", "99999999 99999999 99999999"), &[]),
        ),
        &["dims", "65536"],
    );
    has(
        error_of("v.nrrd", &nrrd(&little.replace("2 1 1", "0 1 1"), &[])),
        &["dims"],
    );
    has(
        error_of(
            "v.nhdr",
            &nrrd(&format!("{little}data file: gone.raw\n"), &[]),
        ),
        &["data file", "gone.raw"],
    );
    has(
        error_of("v.mhd", b"DimSize = 2 2 2\n"),
        &["ElementDataFile", "missing"],
    );
    has(
        error_of(
            "v.mhd",
            b"DimSize = 2 2 2\nElementType = MET_UCHAR\nElementDataFile = gone.zraw\n",
        ),
        &["gone.zraw", "cannot be opened"],
    );
    has(
        error_of(
            "v.mha",
            b"DimSize = 2 2 2\nElementType = MET_DOUBLE\nElementDataFile = LOCAL\n",
        ),
        &["ElementType", "MET_DOUBLE"],
    );
    has(error_of("v.nii", &[0; 100]), &["header", "348"]);
    has(error_of("v.nii", &[0; 400]), &["sizeof_hdr", "348"]);
    has(
        error_of("v.vti", b"<VTKFile type=\"PolyData\">"),
        &["VTKFile type", "PolyData", "ImageData"],
    );
    has(
        error_of("v_4x4x4_uint8.raw", &[0; 63]),
        &["found 63", "expected 64"],
    );
    has(
        error_of("v_4x4x4_uint8.raw", &[0; 65]),
        &["found 65", "expected 64"],
    );
    has(
        error_of("v_4x4x4_float64.raw", &[0; 512]),
        &["float64", "not supported"],
    );
    has(error_of("v.raw", &[0; 64]), &["file name", "WxHxD"]);
    has(
        error_of("v_4x4x4_uint8.raw.gz", &[31, 139, 8, 0, 1, 2]),
        &["found 0", "expected 64"],
    );
    has(error_of("v.txt", &[]), &["known", ".nrrd"]);
    let missing = volume_file::open(Path::new("/no/such.nrrd"))
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("/no/such.nrrd") && missing.contains("No such file"),
        "{missing}"
    );
}

#[test]
fn damaged_compressed_data_are_an_error_with_the_place() {
    let real = fs::read(project().join("tests/data/hydrogen.vti")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (n, at) in [real.len() / 3, real.len() / 2, real.len() * 3 / 4]
        .into_iter()
        .enumerate()
    {
        let mut bytes = real.clone();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        bytes[at + 1] = b'/';
        let path = dir.path().join(format!("damaged-{n}.vti"));
        fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
        assert!(
            digest(&path).is_err(),
            "a changed byte at {at} is found out by zlib's checksum"
        );
        fs::write(&path, &real[..at]).unwrap();
        let error = digest(&path).unwrap_err().to_string();
        assert!(error.contains("expected 1048576"), "{error}");
    }
}

#[test]
fn what_an_error_repeats_of_a_file_is_short() {
    let long = "x".repeat(100_000);
    let fields = format!("{NRRD_I16}endian: little\n");
    for (name, contents) in [
        ("v.nrrd", nrrd(&long, &[])),
        ("v.nrrd", nrrd(&fields.replace("short", &long), &[])),
        ("v.nhdr", nrrd(&format!("{fields}data file: {long}\n"), &[])),
        (
            "v.nrrd",
            nrrd(&fields.replace("2 1 1", &"1 ".repeat(9999)), &[]),
        ),
        (
            "v.mha",
            format!("ElementType = {long}\n{long}").into_bytes(),
        ),
    ] {
        let count = error_of(name, &contents).chars().count();
        assert!(count < 600, "{count} characters");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_no_regular_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path, word: &str| {
        let error = volume_file::open(path).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    // A pipe that nobody writes to: to open it would wait for ever.
    let pipe = dir.path().join("pipe.nrrd");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    refused(&pipe, "no regular file");
    // A device without an end.
    let device = dir.path().join("device.vti");
    std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
    refused(&device, "no regular file");
    let header = dir.path().join("v.nhdr");
    let fields = format!("{NRRD_I16}endian: little\ndata file: pipe.nrrd\n");
    fs::write(&header, nrrd(&fields, &[])).unwrap();
    refused(&header, "data file");
    refused(dir.path(), "it is a folder");
    refused(
        &dir.path().join("gone.brickmesh"),
        "import the volume again",
    );
}

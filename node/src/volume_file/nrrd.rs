//! NRRD: a text header, then a blank line and the voxels, or the voxels in another file.
//!
//! Source: the format's definition at teem.sourceforge.net/nrrd/format.html, sections 4 to 6.

use super::{
    HEADER_BYTES_MAX, Header, Problem,
    header::{detached, dims, floats_n, line, set_columns},
    stream::{DataPlan, Packing},
};
use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::{
    VolumeDescription, VoxelType,
    data::volume::{LengthUnit, PatientAxes},
};
use glam::{DMat3, DVec3};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Seek as _},
    path::{Path, PathBuf},
};

pub(super) fn read(path: &Path, file: File) -> Result<Header, Problem> {
    let mut reader = BufReader::new(file);
    let mut left = HEADER_BYTES_MAX;
    let magic = line(&mut reader, &mut left)?.unwrap_or_default();
    if !magic.starts_with("NRRD000") {
        return Err(Problem::field(
            "first line",
            magic.chars().take(20).collect::<String>(),
            "NRRD0001 … NRRD0005",
        ));
    }
    let mut fields = BTreeMap::new();
    while let Some(text) = line(&mut reader, &mut left)? {
        if text.is_empty() {
            break;
        }
        if text.starts_with('#') || text.contains(":=") {
            continue;
        }
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| Problem::field("header line", &text, "field: value"))?;
        fields.insert(name.trim().to_lowercase(), value.trim().to_owned());
    }
    let get = |name: &str| fields.get(name).map(String::as_str);
    let need =
        |field: &'static str, expected| get(field).ok_or(Problem::Missing { field, expected });
    let voxel = voxel(need("type", "a voxel type such as uint8")?)?;
    let sizes = need("sizes", "three whole numbers")?;
    check_dimension(need("dimension", "3")?, sizes)?;
    let dims = dims("sizes", sizes)?;
    let mut description = VolumeDescription::new(dims, voxel);
    place(&get, &mut description)?;
    if let Some(space) = get("space") {
        place_in_patient(space, &mut description);
    }
    // As everywhere, patients are measured in millimetres where nothing is said.
    let unit = get("space units").or_else(|| get("units")).and_then(unit);
    let of_patients = description.patient.map(|_| LengthUnit::Millimetre);
    description.unit = unit.or(of_patients);
    let big_endian = match get("endian") {
        Some("big") => true,
        Some("little") => false,
        None if voxel.bytes() == 1 => false,
        None => {
            return Err(Problem::Missing {
                field: "endian",
                expected: "big or little",
            });
        }
        Some(other) => return Err(Problem::field("endian", other, "big or little")),
    };
    let name = get("data file").or_else(|| get("datafile"));
    let (data_path, start) = match name {
        Some(name) => (data_file(path, name)?, 0),
        None => (path.to_owned(), reader.stream_position()?),
    };
    let packing = packing(&get, start, &data_path)?;
    let format = if name.is_some() {
        "NRRD, detached"
    } else {
        "NRRD"
    };
    Ok(Header {
        format,
        description,
        data: DataPlan {
            path: data_path,
            packing,
            big_endian,
        },
    })
}

fn data_file(path: &Path, name: &str) -> Result<PathBuf, Problem> {
    if name.starts_with("LIST") || name.contains('%') {
        let expected = "one file; join the slices first";
        return Err(Problem::field("data file", name, expected));
    }
    detached(path, "data file", name)
}

/// The count of axes must be that of the sizes.
fn check_dimension(text: &str, sizes: &str) -> Result<(), Problem> {
    let axes = sizes.split_whitespace().count();
    if text.parse() == Ok(axes) {
        return Ok(());
    }
    let sizes = shortened(sizes);
    let expected = format!("{axes}, as \"sizes\" has {axes} numbers ({sizes})");
    Err(Problem::field("dimension", text, expected))
}

fn packing<'a>(
    get: &impl Fn(&str) -> Option<&'a str>,
    start: u64,
    data: &Path,
) -> Result<Packing, Problem> {
    let number = |field: &str, text: Option<&str>| -> Result<i64, Problem> {
        text.map_or(Ok(0), |t| {
            t.parse()
                .map_err(|_| Problem::field(field, t, "a whole number"))
        })
    };
    let lines = number("line skip", get("line skip").or_else(|| get("lineskip")))?;
    let bytes = number("byte skip", get("byte skip").or_else(|| get("byteskip")))?;
    let mut offset = start;
    if lines > 0 {
        let mut reader = super::stream::at(&data.to_owned(), start)?;
        for _ in 0..lines {
            if !super::stream::skip_past(&mut reader, b'\n')? {
                return Err(Problem::field(
                    "line skip",
                    lines,
                    "at most the lines of the file",
                ));
            }
        }
        offset = reader.stream_position()?;
    }
    let encoding = get("encoding").ok_or(Problem::Missing {
        field: "encoding",
        expected: "raw or gzip",
    })?;
    let skip = u64::try_from(bytes);
    match (encoding.to_lowercase().as_str(), skip) {
        ("raw", Ok(skip)) => Ok(Packing::Raw {
            offset: offset + skip,
        }),
        ("raw", Err(_)) if bytes == -1 => Ok(Packing::RawAtEnd),
        ("gzip" | "gz", Ok(skip)) => Ok(Packing::Gzip { offset, skip }),
        (_, Err(_)) => Err(Problem::field(
            "byte skip",
            bytes,
            "0 or more, or -1 with encoding raw",
        )),
        (other, _) => Err(Problem::field("encoding", other, "raw or gzip")),
    }
}

fn place<'a>(
    get: &impl Fn(&str) -> Option<&'a str>,
    volume: &mut VolumeDescription,
) -> Result<(), Problem> {
    if let Some(text) = get("space directions") {
        let columns = vectors("space directions", text)?;
        let [x, y, z] = columns[..] else {
            return Err(Problem::field("space directions", text, "three vectors"));
        };
        set_columns(volume, DMat3::from_cols(x, y, z));
    } else if let Some(text) = get("spacings") {
        let first: Vec<&str> = text.split_whitespace().take(3).collect();
        volume.spacing = floats_n("spacings", &first.join(" "))?;
    }
    if let Some(text) = get("space origin") {
        let [origin] = vectors("space origin", text)?[..] else {
            return Err(Problem::field("space origin", text, "one vector"));
        };
        volume.origin = origin.to_array();
    }
    Ok(())
}

/// The unit that `"mm" "mm" "mm"` says, if it is one for all axes.
fn unit(text: &str) -> Option<LengthUnit> {
    let quoted: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
    let first = quoted.first()?;
    let is_one = quoted.iter().all(|unit| unit == first);
    LengthUnit::named(first).filter(|_| is_one)
}

/// What a named space says of a patient, if it is of one.
fn place_in_patient(space: &str, volume: &mut VolumeDescription) {
    let lower = space.to_lowercase();
    volume.patient = match lower.trim_end_matches("-time") {
        "right-anterior-superior" | "ras" | "rast" => Some(PatientAxes::Ras),
        "left-posterior-superior" | "lps" | "lpst" => Some(PatientAxes::Lps),
        // A left-handed space: turned into a right-handed one.
        "left-anterior-superior" | "las" | "last" => {
            let columns = volume.direction.iter_mut();
            let columns = columns.chain([&mut volume.origin]);
            columns.for_each(|column| column[1] = -column[1]);
            Some(PatientAxes::Lps)
        }
        _ => None,
    };
}

/// Vectors such as `(1,0,0) (0,1,0)`; `none` stands for an axis without direction.
fn vectors(field: &str, text: &str) -> Result<Vec<DVec3>, Problem> {
    let parts = text
        .split(')')
        .map(|p| p.trim().trim_start_matches("none").trim());
    let parts = parts.filter(|p| !p.is_empty());
    let vector = |p: &str| {
        let inside = p
            .strip_prefix('(')
            .ok_or_else(|| Problem::field(field, text, "vectors (x,y,z)"))?;
        floats_n::<3>(field, inside).map(DVec3::from_array)
    };
    parts.map(vector).collect()
}

fn voxel(text: &str) -> Result<VoxelType, Problem> {
    match text.to_lowercase().as_str() {
        "uchar" | "unsigned char" | "uint8" | "uint8_t" => Ok(VoxelType::U8),
        "signed char" | "int8" | "int8_t" => Ok(VoxelType::I8),
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" | "uint16_t" => {
            Ok(VoxelType::U16)
        }
        "short" | "short int" | "signed short" | "signed short int" | "int16" | "int16_t" => {
            Ok(VoxelType::I16)
        }
        "float" => Ok(VoxelType::F32),
        other => Err(Problem::voxel_type("type", other)),
    }
}

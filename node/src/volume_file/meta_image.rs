//! MetaImage (.mha, .mhd): `Key = value` lines, the last of which says where the voxels are.
//!
//! Source: the format's page in the ITK wiki, "MetaIO/Documentation". `TransformMatrix` holds the
//! direction of each axis in turn, so its rows are our columns.

use super::{
    HEADER_BYTES_MAX, Header, Problem,
    header::{detached, dims, floats_n, line},
    stream::{DataPlan, Packing},
};
use brickmesh_topology::{
    VolumeDescription, VoxelType,
    data::volume::{LengthUnit, PatientAxes},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Seek as _},
    path::Path,
};

pub(super) fn read(path: &Path, file: File) -> Result<Header, Problem> {
    let mut reader = BufReader::new(file);
    let fields = fields(&mut reader)?;
    let get = |names: &[&str]| {
        names
            .iter()
            .find_map(|n| fields.get(*n))
            .map(String::as_str)
    };
    let need = |field, expected| get(&[field]).ok_or(Problem::Missing { field, expected });
    if let Some(channels) = get(&["ElementNumberOfChannels"]).filter(|c| *c != "1") {
        return Err(Problem::field(
            "ElementNumberOfChannels",
            channels,
            "1: one number a voxel",
        ));
    }
    let voxel = voxel(need("ElementType", "a type such as MET_UCHAR")?)?;
    let dims = dims("DimSize", need("DimSize", "three whole numbers")?)?;
    let mut description = VolumeDescription::new(dims, voxel);
    place(&get, &mut description)?;
    let truth = |names: &[&str]| get(names).is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let big_endian = truth(&["BinaryDataByteOrderMSB", "ElementByteOrderMSB"]);
    let name = need("ElementDataFile", "LOCAL or a file name")?;
    let local = name == "LOCAL" || name == "local";
    let (data_path, start) = if local {
        (path.to_owned(), reader.stream_position()?)
    } else if name.contains('%') || name == "LIST" {
        return Err(Problem::field(
            "ElementDataFile",
            name,
            "LOCAL or one file; join the slices first",
        ));
    } else {
        (detached(path, "ElementDataFile", name)?, 0)
    };
    let skip = get(&["HeaderSize"]).map_or(Ok(0_i64), |t| {
        t.parse()
            .map_err(|_| Problem::field("HeaderSize", t, "a whole number, -1 or more"))
    })?;
    let compressed = truth(&["CompressedData"]);
    let packing = match (u64::try_from(skip), compressed) {
        (Ok(skip), true) => Packing::Zlib {
            offset: start + skip,
        },
        (Ok(skip), false) => Packing::Raw {
            offset: start + skip,
        },
        (Err(_), false) if skip == -1 => Packing::RawAtEnd,
        _ => {
            return Err(Problem::field(
                "HeaderSize",
                skip,
                "0 or more, or -1 without compression",
            ));
        }
    };
    let format = if local {
        "MetaImage"
    } else {
        "MetaImage, detached"
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

fn place<'a>(
    get: &impl Fn(&[&str]) -> Option<&'a str>,
    description: &mut VolumeDescription,
) -> Result<(), Problem> {
    if let Some(text) = get(&["ElementSpacing", "ElementSize"]) {
        description.spacing = floats_n("ElementSpacing", text)?;
    }
    if let Some(text) = get(&["Offset", "Position", "Origin"]) {
        description.origin = floats_n("Offset", text)?;
    }
    if let Some(text) = get(&["TransformMatrix", "Orientation", "Rotation"]) {
        let m = floats_n::<9>("TransformMatrix", text)?;
        description.direction = [[m[0], m[1], m[2]], [m[3], m[4], m[5]], [m[6], m[7], m[8]]];
    }
    // World coordinates are LPS, whatever the letters say: those tell of the grid's axes, and there are
    // none where it is no patient.
    let letters = get(&["AnatomicalOrientation"]).unwrap_or_default();
    if !letters.is_empty() && letters.chars().all(|c| "RLAPIS".contains(c)) {
        description.patient = Some(PatientAxes::Lps);
    }
    // Patients are measured in millimetres where nothing is said.
    description.unit = match get(&["DistanceUnits"]) {
        Some(unit) => LengthUnit::named(unit),
        None => description.patient.map(|_| LengthUnit::Millimetre),
    };
    Ok(())
}

/// The fields up to the one that says where the voxels are.
fn fields(reader: &mut BufReader<File>) -> Result<BTreeMap<String, String>, Problem> {
    let mut left = HEADER_BYTES_MAX;
    let mut fields = BTreeMap::new();
    loop {
        let Some(text) = line(reader, &mut left)? else {
            return Err(Problem::Missing {
                field: "ElementDataFile",
                expected: "LOCAL or a file name, as the last field",
            });
        };
        let (name, value) = text.split_once('=').ok_or_else(|| {
            let found: String = text.chars().take(60).collect();
            Problem::field("header line", found, "Key = value")
        })?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        let last = name == "ElementDataFile";
        fields.insert(name, value);
        if last {
            return Ok(fields);
        }
    }
}

fn voxel(text: &str) -> Result<VoxelType, Problem> {
    match text {
        "MET_UCHAR" => Ok(VoxelType::U8),
        "MET_CHAR" => Ok(VoxelType::I8),
        "MET_USHORT" => Ok(VoxelType::U16),
        "MET_SHORT" => Ok(VoxelType::I16),
        "MET_FLOAT" => Ok(VoxelType::F32),
        other => Err(Problem::voxel_type("ElementType", other)),
    }
}

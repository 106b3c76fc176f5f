//! Raw voxels whose file name says what they are, as the Open SciVis Datasets do:
//! `name_WxHxD_type.raw`, also `.raw.gz`. Little-endian.

use super::{
    Header, Problem,
    stream::{DataPlan, Packing},
};
use brickmesh_topology::{VolumeDescription, VoxelType};
use std::{fs::File, path::Path};

const EXPECTED: &str = "name_WxHxD_type.raw with type uint8, int8, uint16, int16 or float32, such as bonsai_256x256x256_uint8.raw";

pub(super) fn read(path: &Path) -> Result<Header, Problem> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let lower = name.to_lowercase();
    let gzip = lower.ends_with(".gz");
    let stem = lower.trim_end_matches(".gz").trim_end_matches(".raw");
    let wrong = || Problem::field("file name", &name, EXPECTED);
    let mut parts = stem.rsplit('_');
    let (voxel, size) = parts.next().zip(parts.next()).ok_or_else(wrong)?;
    let dims: Vec<u32> = size
        .split('x')
        .map(|n| n.parse().map_err(|_| wrong()))
        .collect::<Result<_, _>>()?;
    let dims: [u32; 3] = dims.try_into().map_err(|_| wrong())?;
    let voxel = match voxel {
        "uint8" => VoxelType::U8,
        "int8" => VoxelType::I8,
        "uint16" => VoxelType::U16,
        "int16" => VoxelType::I16,
        "float32" => VoxelType::F32,
        other => {
            return Err(Problem::voxel_type("file name", other));
        }
    };
    let description = VolumeDescription::new(dims, voxel);
    description.validate()?;
    let packing = if gzip {
        Packing::Gzip { offset: 0, skip: 0 }
    } else {
        let (found, expected) = (
            File::open(path)?.metadata()?.len(),
            description.voxel_bytes(),
        );
        if found != expected {
            return Err(Problem::Length { found, expected });
        }
        Packing::Raw { offset: 0 }
    };
    let data = DataPlan {
        path: path.to_owned(),
        packing,
        big_endian: false,
    };
    Ok(Header {
        format: "raw (Open SciVis name)",
        description,
        data,
    })
}

//! NIfTI-1 (.nii, .nii.gz): a binary header of 348 bytes in either byte order.
//!
//! Source: nifti1.h of the NIfTI Data Format Working Group. Space: sform where there is one, else
//! qform, else pixdim alone. World coordinates are as the file's (RAS).
//! Why not the `nifti` crate: voxels of all formats go through one bounded stream that says where a file
//! is damaged (`stream`); only the header is read here.

use super::{
    Header, Problem,
    header::set_columns,
    stream::{DataPlan, Packing},
};
use brickmesh_topology::{
    VolumeDescription, VoxelType,
    data::volume::{LengthUnit, PatientAxes},
};
use flate2::read::MultiGzDecoder;
use glam::{DMat3, DQuat, DVec3};
use std::{fs::File, io::Read, path::Path};

/// Size of the header.
const HEADER_BYTES: usize = 348;

/// The header's bytes and their order.
struct Fields {
    bytes: [u8; HEADER_BYTES],
    big_endian: bool,
}

impl Fields {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        if self.big_endian {
            out.reverse();
        }
        out
    }

    fn i16(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.array(at))
    }

    fn f32(&self, at: usize) -> f64 {
        f64::from(f32::from_le_bytes(self.array(at)))
    }

    fn vector(&self, at: usize) -> DVec3 {
        DVec3::new(self.f32(at), self.f32(at + 4), self.f32(at + 8))
    }
}

pub(super) fn read(path: &Path, file: File) -> Result<Header, Problem> {
    let gzip = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gz"));
    let fields = fields(if gzip {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    })?;
    let axes = fields.i16(40);
    let size = |axis: usize| fields.i16(40 + 2 * axis);
    let beyond: Vec<i16> = (4..8)
        .filter(|&a| usize::try_from(axes).is_ok_and(|n| a <= n))
        .map(size)
        .collect();
    if !(1..=7).contains(&axes) || axes < 3 || beyond.iter().any(|&n| n > 1) {
        let all: Vec<i16> = (0..8).map(size).collect();
        return Err(Problem::field(
            "dim",
            format!("{all:?}"),
            "three axes, further ones of length 1",
        ));
    }
    let mut dims = [0; 3];
    for (a, n) in dims.iter_mut().enumerate() {
        let found = size(a + 1);
        *n = u32::try_from(found).map_err(|_| Problem::field("dim", found, "1 or more voxels"))?;
    }
    let voxel = voxel(fields.i16(70))?;
    let mut description = VolumeDescription::new(dims, voxel);
    place(&fields, &mut description);
    description.unit = unit(&fields, &description);
    let (slope, intercept) = (fields.f32(112), fields.f32(116));
    if slope.is_finite() && intercept.is_finite() && slope.abs() > 0.0 {
        (description.value_scale, description.value_offset) = (slope, intercept);
    }
    let offset = fields.f32(108);
    if !(offset >= HEADER_BYTES as f64 && offset <= 1e9) {
        return Err(Problem::field(
            "vox_offset",
            offset,
            "348 or more; a detached .img is not supported",
        ));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "348 to 10^9"
    )]
    let offset = offset as u64;
    let packing = if gzip {
        Packing::Gzip {
            offset: 0,
            skip: offset,
        }
    } else {
        Packing::Raw { offset }
    };
    let data = DataPlan {
        path: path.to_owned(),
        packing,
        big_endian: fields.big_endian,
    };
    Ok(Header {
        format: "NIfTI-1",
        description,
        data,
    })
}

fn fields(mut reader: Box<dyn Read>) -> Result<Fields, Problem> {
    let mut bytes = [0; HEADER_BYTES];
    reader
        .read_exact(&mut bytes)
        .map_err(|e| Problem::field("header", e, "348 bytes"))?;
    let size = [bytes[0], bytes[1], bytes[2], bytes[3]];
    let big_endian = match (i32::from_le_bytes(size), i32::from_be_bytes(size)) {
        (348, _) => false,
        (_, 348) => true,
        (found, _) => return Err(Problem::field("sizeof_hdr", found, "348 (NIfTI-1)")),
    };
    let magic = &bytes[344..348];
    if magic != b"n+1\0" {
        return Err(Problem::field(
            "magic",
            String::from_utf8_lossy(magic),
            "n+1: header and voxels in one file",
        ));
    }
    Ok(Fields { bytes, big_endian })
}

fn place(fields: &Fields, volume: &mut VolumeDescription) {
    let pixdim = fields.vector(80);
    if fields.i16(254) > 0 {
        let rows = [280, 296, 312].map(|at| fields.vector(at));
        set_columns(
            volume,
            DMat3::from_cols(rows[0], rows[1], rows[2]).transpose(),
        );
        volume.patient = Some(PatientAxes::Ras);
        volume.origin = [280, 296, 312].map(|at| fields.f32(at + 12));
    } else if fields.i16(252) > 0 {
        let (b, c, d) = (fields.f32(256), fields.f32(260), fields.f32(264));
        let a = (1.0 - (b * b + c * c + d * d)).max(0.0).sqrt();
        let turn = DMat3::from_quat(DQuat::from_xyzw(b, c, d, a).normalize());
        let flip = if fields.f32(76) < 0.0 { -1.0 } else { 1.0 };
        let steps = DVec3::new(pixdim.x, pixdim.y, pixdim.z * flip);
        set_columns(volume, turn * DMat3::from_diagonal(steps));
        volume.origin = fields.vector(268).to_array();
        volume.patient = Some(PatientAxes::Ras);
    } else {
        volume.spacing = pixdim.abs().to_array();
    }
}

/// The lowest three bits of xyzt_units; patients are measured in millimetres where nothing is said.
fn unit(fields: &Fields, volume: &VolumeDescription) -> Option<LengthUnit> {
    match fields.bytes[123] & 7 {
        1 => Some(LengthUnit::Metre),
        2 => Some(LengthUnit::Millimetre),
        3 => Some(LengthUnit::Micrometre),
        _ => volume.patient.map(|_| LengthUnit::Millimetre),
    }
}

fn voxel(code: i16) -> Result<VoxelType, Problem> {
    match code {
        2 => Ok(VoxelType::U8),
        256 => Ok(VoxelType::I8),
        512 => Ok(VoxelType::U16),
        4 => Ok(VoxelType::I16),
        16 => Ok(VoxelType::F32),
        other => {
            let found = format!("{} (code {other})", type_name(other));
            Err(Problem::voxel_type("datatype", &found))
        }
    }
}

/// Names of the types that are not rendered, for people.
fn type_name(code: i16) -> &'static str {
    match code {
        1 => "binary",
        8 => "int32",
        32 => "complex64",
        64 => "float64",
        128 => "rgb24",
        768 => "uint32",
        1024 => "int64",
        1280 => "uint64",
        1536 => "float128",
        1792 => "complex128",
        2304 => "rgba32",
        _ => "unknown",
    }
}

//! The volume of a simulated mesh: value ranges of bricks and cells from a formula, no voxels
//! kept.

use super::field;
use crate::SimError;
use brickmesh_topology::{
    BrickGrid, Manifest, RenderSettings, TransferFunction, VolumeDescription, VoxelBox, VoxelType,
    data::{manifest::ManifestParts, transfer_function::TransferPoint},
};
use serde::Deserialize;

/// Most voxels on an axis: each is computed once.
const DIM_MAX: u32 = 512;
/// Most bricks: each has the ranges of its cells.
const BRICKS_MAX: u32 = 1 << 15;

/// Size and content.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct VolumeInput {
    dims: [u32; 3],
    /// Edge of a brick in voxels.
    brick: u32,
    field: FieldName,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FieldName {
    /// Visible everywhere.
    Filled,
    /// A ball with a hollow core, a ring around it, and nothing else.
    Shells,
}

impl Default for VolumeInput {
    fn default() -> Self {
        Self {
            dims: [128; 3],
            brick: 32,
            field: FieldName::Shells,
        }
    }
}

/// Distance of samples, in world units; a voxel is 1.
const STEP: f64 = 0.5;

/// Shows values from 128 on.
pub(super) fn settings(shadows: bool) -> RenderSettings {
    let point = |value, opacity| TransferPoint {
        value,
        color: [1.0; 3],
        opacity,
    };
    let transfer = TransferFunction {
        unit_distance: None,
        points: vec![point(127.0, 0.0), point(128.0, 0.1)],
    };
    let mut settings = RenderSettings::new(transfer, STEP);
    settings.shadows = shadows;
    settings.light.direction = shadows.then_some([1.0; 3]);
    settings
}

pub(super) fn manifest(input: &VolumeInput) -> Result<Manifest, SimError> {
    if input.dims.iter().any(|n| !(1..=DIM_MAX).contains(n)) {
        let found = format!("{:?}", input.dims);
        return Err(field("dims", found, "each must be 1 to 512"));
    }
    let grid = BrickGrid::new(input.dims, input.brick)
        .map_err(|e| field("brick", input.brick, &e.to_string()))?;
    if grid.brick_count() > BRICKS_MAX {
        let found = format!("{}, which makes {} bricks", input.brick, grid.brick_count());
        return Err(field("brick", found, "there may be 32768 at most"));
    }
    let bytes_of = |stored: &VoxelBox| {
        let mut bytes = Vec::new();
        for z in stored.lo[2]..stored.hi[2] {
            for y in stored.lo[1]..stored.hi[1] {
                let row = (stored.lo[0]..stored.hi[0]).map(|x| input.value([x, y, z]));
                bytes.extend(row);
            }
        }
        bytes
    };
    let volume = VolumeDescription::new(input.dims, VoxelType::U8);
    let parts = ManifestParts::cut(volume, input.brick, "simulated", bytes_of)
        .map_err(|e| field("brick", input.brick, &e.to_string()))?;
    Manifest::try_from(parts).map_err(|e| field("volume", e, "it must be a data set"))
}

impl VolumeInput {
    fn value(&self, at: [u32; 3]) -> u8 {
        match self.field {
            FieldName::Filled => 200,
            FieldName::Shells => {
                // −1 … 1 on each axis.
                let [x, y, z]: [f64; 3] = std::array::from_fn(|a| {
                    2.0 * f64::from(at[a]) / f64::from(self.dims[a].max(2) - 1) - 1.0
                });
                let ball = (x * x + y * y + z * z).sqrt();
                let ring = ((x * x + y * y).sqrt() - 0.8).powi(2) + z * z;
                let seen = (0.25..0.5).contains(&ball) || ring < 0.02;
                if seen { 200 } else { 20 }
            }
        }
    }
}

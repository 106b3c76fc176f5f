//! A volume made by formula: for `demo`, tests and benches, without any file.
//!
//! Three nested, rippled shells around the middle of a cube, u16; 0 outside of the outermost.

use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_topology::{
    BrickIndex, Manifest, TransferFunction, VolumeDescription, VoxelBox, VoxelType,
    data::{
        manifest::{ManifestError, ManifestParts},
        transfer_function::TransferPoint,
    },
};
use bytes::Bytes;

/// Largest stored value.
const TOP: f64 = 65_535.0;
/// Radius, height and width of each shell, in halves of the cube's edge.
const SHELLS: [(f64, f64, f64); 3] = [(0.86, 0.30, 0.05), (0.58, 0.62, 0.05), (0.30, 1.0, 0.08)];

/// A volume that is computed whenever a brick is read.
#[derive(Clone, Debug)]
pub struct FormulaVolume {
    manifest: Manifest,
}

impl FormulaVolume {
    /// A cube of `edge` voxels on each axis, in bricks of `brick_edge`.
    ///
    /// # Errors
    /// [`ManifestError`] where an edge is out of bounds.
    pub fn new(edge: u32, brick_edge: u32) -> Result<Self, ManifestError> {
        let volume = VolumeDescription::new([edge; 3], VoxelType::U16);
        let bytes_of = |stored: &VoxelBox| bytes(&values(edge, stored)).into();
        let parts = ManifestParts::cut(volume, brick_edge, "built-in shells", bytes_of)?;
        Ok(Self {
            manifest: Manifest::try_from(parts)?,
        })
    }

    /// A transfer function that shows the three shells.
    #[must_use]
    pub fn transfer() -> TransferFunction {
        let p = |value: f64, color, opacity| TransferPoint {
            value: value * TOP,
            color,
            opacity,
        };
        TransferFunction {
            unit_distance: None,
            points: vec![
                p(0.0, [0.05, 0.10, 0.30], 0.0),
                p(0.12, [0.05, 0.10, 0.30], 0.0),
                p(0.24, [0.10, 0.45, 0.90], 0.04),
                p(0.32, [0.10, 0.60, 0.80], 0.0),
                p(0.50, [0.20, 0.80, 0.50], 0.0),
                p(0.60, [0.95, 0.85, 0.20], 0.08),
                p(0.68, [0.95, 0.60, 0.15], 0.01),
                p(0.85, [0.95, 0.40, 0.10], 0.20),
                p(1.0, [1.0, 0.95, 0.90], 0.50),
            ],
        }
    }
}

impl BrickSource for FormulaVolume {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        let grid = self.manifest.grid();
        if brick.0 >= grid.brick_count() {
            return Err(SourceError {
                what: format!("brick {} is not in the grid", brick.0),
            });
        }
        Ok(bytes(&values(grid.dims()[0], &grid.stored_box(brick))))
    }
}

fn bytes(values: &[u16]) -> Bytes {
    values
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect::<Vec<u8>>()
        .into()
}

fn values(edge: u32, stored: &VoxelBox) -> Vec<u16> {
    let half = f64::from(edge - 1).max(1.0) * 0.5;
    let at = |i: u32| f64::from(i) / half - 1.0;
    let mut out = Vec::new();
    for z in stored.lo[2]..stored.hi[2] {
        for y in stored.lo[1]..stored.hi[1] {
            for x in stored.lo[0]..stored.hi[0] {
                out.push(value(at(x), at(y), at(z)));
            }
        }
    }
    out
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a u16 before"
)]
fn value(x: f64, y: f64, z: f64) -> u16 {
    let ripple = (7.0 * x + 1.0).sin() + (6.0 * y - 5.0 * x).sin() + (8.0 * z + 3.0 * y).sin();
    let r = (x * x + y * y + z * z).sqrt() + 0.035 * ripple;
    let shell =
        |(radius, height, width): (f64, f64, f64)| height * (-((r - radius) / width).powi(2)).exp();
    let v = SHELLS.into_iter().map(shell).fold(0.0, f64::max);
    if v < 0.02 {
        0
    } else {
        (v.min(1.0) * TOP) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bricks_have_the_digests_of_the_manifest() {
        let volume = FormulaVolume::new(24, 8).unwrap();
        for brick in volume.manifest().grid().bricks() {
            let bytes = volume.read(brick).unwrap();
            assert_eq!(
                brickmesh_topology::Digest::of(&bytes),
                volume.manifest().brick_digest(brick)
            );
        }
        assert!(volume.read(BrickIndex(999)).is_err());
    }
}

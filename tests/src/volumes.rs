//! Volumes for tests, and their cut into bricks.

use crate::reference::Field;
use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_shaders::triangle_tree::by_leaves;
use brickmesh_topology::{
    BrickGrid, BrickIndex, Digest, Manifest, VolumeDescription, VoxelBox, VoxelType,
    data::{
        brick_table::BrickRecord,
        manifest::ManifestParts,
        partition_method::PartitionMethod,
        triangles::{Material, Triangle, TriangleBins},
        value_gathering::ValueGathering,
    },
};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};

/// A smooth field with structure at several scales, as this voxel type; odd dims, anisotropic
/// spacing and a turned direction where `skewed`.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "tests store what fits")]
pub fn waves(dims: [u32; 3], voxel: VoxelType, skewed: bool) -> Field {
    let mut volume = VolumeDescription::new(dims, voxel);
    if skewed {
        volume.spacing = [0.8, 1.3, 2.1];
        volume.origin = [-5.0, 7.0, 11.0];
        // A quarter turn about z after a flip of x: not the identity, yet orthonormal.
        volume.direction = [[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
    }
    let (low, high) = limits(voxel);
    let mut stored = Vec::new();
    for z in 0..dims[2] {
        for y in 0..dims[1] {
            for x in 0..dims[0] {
                let v = wave(f64::from(x), f64::from(y), f64::from(z));
                let scaled = low + (high - low) * v;
                stored.push(if voxel == VoxelType::F32 {
                    f64::from(scaled as f32)
                } else {
                    scaled.round()
                });
            }
        }
    }
    Field { volume, stored }
}

/// The smallest and largest number that tests store in a type.
#[must_use]
pub fn limits(voxel: VoxelType) -> (f64, f64) {
    match voxel {
        VoxelType::U8 => (0.0, 255.0),
        VoxelType::I8 => (-128.0, 127.0),
        VoxelType::U16 => (0.0, 65_535.0),
        VoxelType::I16 => (-32_768.0, 32_767.0),
        VoxelType::F32 => (-1.5, 2.5),
    }
}

/// 0 to 1.
fn wave(x: f64, y: f64, z: f64) -> f64 {
    let v = (0.31 * x + 0.2).sin() * (0.23 * y).cos()
        + (0.37 * z + 0.11 * x).sin()
        + 0.6 * (0.17 * y + 0.29 * z).sin();
    (v / 5.2 + 0.5).clamp(0.0, 1.0)
}

/// A field cut into bricks, in memory.
#[derive(Clone, Debug)]
pub struct Bricks {
    manifest: Arc<Manifest>,
    bricks: Vec<Bytes>,
}

impl Bricks {
    /// Cuts a field into bricks of `edge` voxels.
    ///
    /// # Panics
    /// Where the field is no volume.
    #[must_use]
    pub fn cut(field: &Field, edge: u32) -> Self {
        Self::cut_stored(field, edge, |grid, brick| grid.stored_box(brick))
    }

    /// As [`Self::cut`], with the voxels of another box repeated into each brick's ghosts: to
    /// see tests fail.
    ///
    /// # Panics
    /// Where the field is no volume.
    #[must_use]
    pub fn without_ghosts(field: &Field, edge: u32) -> Self {
        Self::cut_stored(field, edge, |grid, brick| grid.owned_box(brick))
    }

    /// The same, placed like that.
    #[must_use]
    pub fn placed(mut self, placement: Option<PartitionMethod>) -> Self {
        self.manifest = Arc::new(Manifest::clone(&self.manifest).with_placement(placement));
        self
    }

    /// The same with triangles, in the grid, of these materials.
    ///
    /// # Panics
    /// Where none is in the volume.
    #[must_use]
    pub fn with_triangles(mut self, triangles: &[Triangle], materials: &[Material]) -> Self {
        let mut bins = TriangleBins::new(*self.manifest.grid(), self.manifest.volume().dims);
        triangles.iter().for_each(|t| bins.add(t));
        let mut said = BTreeMap::new();
        for (brick, bytes, what) in bins.into_bricks() {
            let whole = &mut self.bricks[brick.0 as usize];
            *whole = [&whole[..], &by_leaves(&bytes)].concat().into();
            said.insert(brick, (Digest::of(whole), what));
        }
        let manifest = self.manifest.with_triangles(materials.to_vec(), &said);
        self.manifest = Arc::new(manifest.expect("triangles in the volume"));
        self
    }

    fn cut_stored(field: &Field, edge: u32, real: fn(&BrickGrid, BrickIndex) -> VoxelBox) -> Self {
        let volume = field.volume.clone();
        let grid = BrickGrid::new(volume.dims, edge).expect("a grid");
        let (mut records, mut bricks) = (Vec::new(), Vec::new());
        for brick in grid.bricks() {
            let bytes = cut(field, &grid.stored_box(brick), &real(&grid, brick));
            records.push(BrickRecord::of(&grid, brick, &volume, &bytes));
            bricks.push(bytes.into());
        }
        let mut gathering = ValueGathering::new(&volume);
        let [nx, ny, _] = volume.dims;
        for (row, values) in (0..).zip(field.stored.chunks(nx as usize)) {
            let mut bytes = Vec::new();
            values
                .iter()
                .for_each(|&v| volume.voxel.append(v, &mut bytes));
            gathering.row(row % ny, row / ny, &bytes);
        }
        let parts = ManifestParts::new(volume, edge, "test", records);
        let manifest = gathering.finish().manifest(parts);
        Self {
            manifest: Arc::new(manifest.expect("a manifest")),
            bricks,
        }
    }
}

fn cut(field: &Field, stored: &VoxelBox, real: &VoxelBox) -> Vec<u8> {
    let dims = field.volume.dims;
    let mut bytes = Vec::new();
    for z in stored.lo[2]..stored.hi[2] {
        for y in stored.lo[1]..stored.hi[1] {
            for x in stored.lo[0]..stored.hi[0] {
                let at = [x, y, z];
                let c: [u32; 3] = std::array::from_fn(|a| at[a].clamp(real.lo[a], real.hi[a] - 1));
                let v = field.stored[((c[2] * dims[1] + c[1]) * dims[0] + c[0]) as usize];
                field.volume.voxel.append(v, &mut bytes);
            }
        }
    }
    bytes
}

impl BrickSource for Bricks {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        let found = self.bricks.get(brick.0 as usize).cloned();
        found.ok_or_else(|| SourceError {
            what: format!("there is no brick {}", brick.0),
        })
    }
}

//! Device memory that a brick takes.

use super::{manifest::Manifest, volume::VoxelType};
use std::{fmt, sync::Arc};

/// Largest brick in bytes, ghosts and triangles included: it travels as one message.
pub const BRICK_BYTES_MAX: u64 = 100 << 20;

/// Bytes of a brick of so many voxels on each axis, and of the type that the device stores.
type Measure = dyn Fn([u32; 3], VoxelType) -> u64 + Send + Sync;

/// Device memory that bricks take, as a device says: images are padded. By default their voxels alone.
#[derive(Clone, Default)]
pub struct BrickBytes(Option<Arc<Measure>>);

impl BrickBytes {
    /// As `measure` says: bytes of a brick of so many voxels on each axis, and of the type that the device stores.
    pub fn measured(measure: impl Fn([u32; 3], VoxelType) -> u64 + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(measure)))
    }

    /// Bytes of a brick of so many voxels on each axis.
    #[must_use]
    pub fn of(&self, size: [u32; 3], voxel: VoxelType) -> u64 {
        let voxels = || size.map(u64::from).iter().product::<u64>();
        match &self.0 {
            Some(measure) => measure(size, voxel),
            None => voxels().saturating_mul(voxel.bytes() as u64),
        }
    }

    /// Bytes of the largest brick of a data set.
    #[must_use]
    pub fn largest(&self, manifest: &Manifest) -> u64 {
        self.of_voxels(manifest) + manifest.triangle_memory_max()
    }

    /// The mean of all bricks of a data set: of their triangles some may have very many.
    #[must_use]
    pub fn typical(&self, manifest: &Manifest) -> u64 {
        let bricks = manifest.grid().bricks();
        let of_triangles: u64 = match manifest.triangle_memory_max() {
            0 => 0,
            _ => bricks.map(|brick| manifest.triangle_memory(brick)).sum(),
        };
        self.of_voxels(manifest) + of_triangles.div_ceil(manifest.grid().brick_count().into())
    }

    fn of_voxels(&self, manifest: &Manifest) -> u64 {
        let size = manifest.grid().largest_stored_size();
        self.of(size, manifest.device_voxel())
    }
}

impl fmt::Debug for BrickBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.0.as_ref().map_or("voxels", |_| "measured");
        f.debug_tuple("BrickBytes").field(&kind).finish()
    }
}

/// Whether both are the same measure.
impl PartialEq for BrickBytes {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for BrickBytes {}

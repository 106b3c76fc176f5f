//! The voxels of a brick as they are stored, sent and handed to a device.

use brickmesh_topology::{VoxelBox, VoxelNumbers, VoxelType};
use bytes::Bytes;

/// A brick: the voxels of `stored` (owned and ghosts), x fastest, little-endian.
#[derive(Clone, Debug)]
pub struct BrickVoxels {
    owned: VoxelBox,
    stored: VoxelBox,
    numbers: VoxelNumbers,
    bytes: Bytes,
}

/// Bytes that are not the brick they are said to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrickError {
    /// The length is not that of the stored box.
    #[error("a brick of {} voxels of {} is {expected} bytes, found {found}", stored.voxel_count(), voxel.name())]
    Length {
        /// Box that was to be filled.
        stored: VoxelBox,
        /// Voxel type.
        voxel: VoxelType,
        /// Bytes needed.
        expected: u64,
        /// Bytes found.
        found: usize,
    },
    /// The ghosts do not surround what is owned.
    #[error("stored box {stored:?} does not contain the owned box {owned:?}, or that is empty")]
    Boxes {
        /// Owned box.
        owned: VoxelBox,
        /// Stored box.
        stored: VoxelBox,
    },
}

impl BrickVoxels {
    /// A brick from its bytes, checked against its boxes. `numbers`: those of its volume.
    ///
    /// # Errors
    /// [`BrickError`] where boxes and length do not fit each other.
    pub fn new(
        owned: VoxelBox,
        stored: VoxelBox,
        numbers: impl Into<VoxelNumbers>,
        bytes: Bytes,
    ) -> Result<Self, BrickError> {
        let numbers = numbers.into();
        let voxel = numbers.voxel();
        if owned.is_empty() || !stored.contains_box(&owned) {
            return Err(BrickError::Boxes { owned, stored });
        }
        let expected = stored.voxel_count() * voxel.bytes() as u64;
        if bytes.len() as u64 != expected {
            return Err(BrickError::Length {
                stored,
                voxel,
                expected,
                found: bytes.len(),
            });
        }
        Ok(Self {
            owned,
            stored,
            numbers,
            bytes,
        })
    }

    /// The voxels that this brick owns.
    #[must_use]
    pub fn owned(&self) -> VoxelBox {
        self.owned
    }

    /// The voxels that it stores: owned and ghosts.
    #[must_use]
    pub fn stored(&self) -> VoxelBox {
        self.stored
    }

    /// Type of its voxels.
    #[must_use]
    pub fn voxel(&self) -> VoxelType {
        self.numbers.voxel()
    }

    /// The numbers that its voxels stand for.
    #[must_use]
    pub fn numbers(&self) -> &VoxelNumbers {
        &self.numbers
    }

    /// The voxels of [`Self::stored`], x fastest, little-endian.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

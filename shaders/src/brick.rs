//! The voxels and triangles of a brick as they are stored, sent and handed to a device.

use brickmesh_topology::{
    VoxelBox, VoxelNumbers, VoxelType,
    data::triangles::{self, TriangleOrder, TrianglesError},
};
use bytes::Bytes;

/// A brick: the voxels of `stored` (owned and ghosts), x fastest, little-endian; behind them triangles.
#[derive(Clone, Debug)]
pub struct BrickVoxels {
    owned: VoxelBox,
    stored: VoxelBox,
    numbers: VoxelNumbers,
    bytes: Bytes,
    /// Those of the voxels, and of the triangles.
    whole: Bytes,
    order: TriangleOrder,
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
    /// What stands behind the voxels is no triangles.
    #[error(transparent)]
    Triangles(#[from] TrianglesError),
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
    /// Memory that it takes on a device that keeps it as it is: voxels, and what triangles become.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let triangles = self.whole.len() - self.bytes.len();
        self.bytes.len() as u64 + triangles as u64 * self.order.memory()
    }

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
            whole: bytes.clone(),
            bytes,
            order: TriangleOrder::ByLeaves,
        })
    }

    /// The same, whose voxels triangles stand behind: of so many materials, in this order.
    ///
    /// # Errors
    /// [`BrickError`].
    pub fn with_triangles(
        owned: VoxelBox,
        stored: VoxelBox,
        numbers: impl Into<VoxelNumbers>,
        whole: Bytes,
        materials: usize,
        order: TriangleOrder,
    ) -> Result<Self, BrickError> {
        let numbers = numbers.into();
        let voxels = stored.voxel_count() * numbers.voxel().bytes() as u64;
        let voxels = whole
            .len()
            .min(usize::try_from(voxels).unwrap_or(usize::MAX));
        triangles::check(&whole[voxels..], materials, order)?;
        Ok(Self {
            order,
            whole: whole.clone(),
            ..Self::new(owned, stored, numbers, whole.slice(..voxels))?
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

    /// Its voxels, and the triangles behind them, as they are stored and sent.
    #[must_use]
    pub fn whole(&self) -> &Bytes {
        &self.whole
    }

    /// The bytes of its triangles, and how these follow each other.
    pub(crate) fn triangles(&self) -> (Bytes, TriangleOrder) {
        (self.whole.slice(self.bytes.len()..), self.order)
    }
}

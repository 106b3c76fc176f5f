//! The five stored voxel types as Rust types, for code that is compiled once per type.
//!
//! Not here: vectors of voxels (`packet_voxel`).

use brickmesh_topology::VoxelNumbers;

/// A stored voxel: little-endian in a brick's bytes, a number in f32 for the kernels.
pub(crate) trait StoredVoxel: Copy + PartialOrd + Send + Sync + 'static {
    /// Size in bytes.
    const BYTES: usize;
    /// Whether numbers are others than the stored ones.
    const IS_FLOAT: bool;
    /// No voxel is smaller.
    const LOWEST: Self;
    /// No voxel is larger.
    const HIGHEST: Self;

    /// The voxel that `bytes` begins with.
    ///
    /// # Panics
    /// Where fewer than [`Self::BYTES`] bytes are left.
    fn read(bytes: &[u8]) -> Self;

    /// Writes the voxel to the beginning of `bytes`.
    ///
    /// # Panics
    /// Where fewer than [`Self::BYTES`] bytes are left.
    fn write(self, bytes: &mut [u8]);

    /// What is stored, as a number.
    fn stored(self) -> f32;

    /// The number that it stands for.
    #[inline(always)]
    fn number(self, numbers: &VoxelNumbers) -> f32 {
        if Self::IS_FLOAT || numbers.is_checked() {
            numbers.number(self.stored())
        } else {
            self.stored()
        }
    }
}

macro_rules! stored_voxel {
    ($($voxel:ty: $stored:expr, $is_float:expr, $lowest:expr, $highest:expr;)*) => {$(
        impl StoredVoxel for $voxel {
            const BYTES: usize = size_of::<$voxel>();
            const IS_FLOAT: bool = $is_float;
            const LOWEST: Self = $lowest;
            const HIGHEST: Self = $highest;

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$voxel>()];
                own.copy_from_slice(&bytes[..size_of::<$voxel>()]);
                Self::from_le_bytes(own)
            }

            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<$voxel>()].copy_from_slice(&self.to_le_bytes());
            }

            #[inline(always)]
            fn stored(self) -> f32 {
                $stored(self)
            }
        }
    )*};
}

stored_voxel! {
    u8: f32::from, false, u8::MIN, u8::MAX;
    i8: f32::from, false, i8::MIN, i8::MAX;
    u16: f32::from, false, u16::MIN, u16::MAX;
    i16: f32::from, false, i16::MIN, i16::MAX;
    f32: std::convert::identity, true, f32::NEG_INFINITY, f32::INFINITY;
}

/// Calls the generic function with the type of a [`brickmesh_topology::VoxelType`].
macro_rules! with_voxel {
    ($voxel:expr, $call:ident::<_>($($argument:expr),* $(,)?)) => {
        match $voxel {
            ::brickmesh_topology::VoxelType::U8 => $call::<u8>($($argument),*),
            ::brickmesh_topology::VoxelType::I8 => $call::<i8>($($argument),*),
            ::brickmesh_topology::VoxelType::U16 => $call::<u16>($($argument),*),
            ::brickmesh_topology::VoxelType::I16 => $call::<i16>($($argument),*),
            ::brickmesh_topology::VoxelType::F32 => $call::<f32>($($argument),*),
        }
    };
}
pub(crate) use with_voxel;

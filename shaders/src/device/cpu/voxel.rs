//! The five stored voxel types as Rust types, for code that is compiled once per type.
//!
//! Not here: vectors of voxels (`packet_voxel`).

/// A stored voxel: little-endian in a brick's bytes, a number in f32 for the kernels.
pub(crate) trait StoredVoxel: Copy + PartialOrd + Send + Sync + 'static {
    /// Size in bytes.
    const BYTES: usize;

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

    /// The stored number.
    fn number(self) -> f32;
}

macro_rules! stored_voxel {
    ($($voxel:ty: $number:expr;)*) => {$(
        impl StoredVoxel for $voxel {
            const BYTES: usize = size_of::<$voxel>();

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
            fn number(self) -> f32 {
                $number(self)
            }
        }
    )*};
}

stored_voxel! {
    u8: f32::from;
    i8: f32::from;
    u16: f32::from;
    i16: f32::from;
    f32: std::convert::identity;
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

//! Numbers that kernels of all devices share; `build.rs` gives them to those in WGSL.

/// Edge of a GPU's macrocell in voxels.
pub const CELL_EDGE: u32 = 8;
/// As topology's, which is checked: a number that is larger is of voxels that are no data.
pub const NO_DATA_MIN: f32 = 4e15;

/// For kernels in WGSL.
pub const KERNEL_CONSTANTS: [(&str, f32); 2] = [
    ("CELL_EDGE", CELL_EDGE as f32),
    ("NO_DATA_MIN", NO_DATA_MIN),
];

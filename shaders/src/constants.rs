//! Numbers that kernels of all devices share; `build.rs` gives them to those in WGSL.

/// Edge of a GPU's macrocell in voxels.
pub const CELL_EDGE: u32 = 8;
/// As topology's, which is checked: a number that is larger is of voxels that are no data.
pub const NO_DATA_MIN: f32 = 4e15;
/// Less light is not followed further, and less of a surface is not worth rays.
pub const DARK: f32 = 1.0 / 1024.0;

/// Where the samples of a secondary ray are, in steps: in the middle of each.
pub const MIDDLE: f32 = 0.5;

/// For kernels in WGSL.
pub const KERNEL_CONSTANTS: [(&str, f32); 4] = [
    ("CELL_EDGE", CELL_EDGE as f32),
    ("NO_DATA_MIN", NO_DATA_MIN),
    ("DARK", DARK),
    ("MIDDLE", MIDDLE),
];

//! Numbers that kernels of all devices share; `build.rs` gives them to those in WGSL.

/// Blinn-Phong ambient term of the headlight.
pub const AMBIENT: f32 = 0.2;
/// Blinn-Phong diffuse term of the headlight.
pub const DIFFUSE: f32 = 0.7;
/// Blinn-Phong specular term of the headlight; white.
pub const SPECULAR: f32 = 0.2;
/// A ray is not followed once this opaque: what is dropped is at most 1/1000 of full scale.
pub const OPAQUE: f32 = 0.999;
/// Blinn-Phong specular exponent of the headlight; kernels multiply.
pub const SPECULAR_EXPONENT: i32 = 10;
/// Edge of a GPU's macrocell in voxels.
pub const CELL_EDGE: u32 = 8;
/// As topology's, which is checked: a number that is larger is of voxels that are no data.
pub const NO_DATA_MIN: f32 = 4e15;

/// For kernels in WGSL.
pub const KERNEL_CONSTANTS: [(&str, f32); 6] = [
    ("AMBIENT", AMBIENT),
    ("DIFFUSE", DIFFUSE),
    ("SPECULAR", SPECULAR),
    ("OPAQUE", OPAQUE),
    ("CELL_EDGE", CELL_EDGE as f32),
    ("NO_DATA_MIN", NO_DATA_MIN),
];

//! The kernels that `build.rs` compiled, with their entry points.

macro_rules! spirv {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".spv"))
    };
}

/// SPIR-V and the name of its entry point.
pub(super) type Kernel = (&'static [u8], &'static str);

/// Filter probe of a 3D image.
pub(super) const PROBE_VOXELS: Kernel = (spirv!("probe_voxels"), "probe_voxels");
/// Filter probe of a 2D image.
pub(super) const PROBE_TABLE: Kernel = (spirv!("probe_table"), "probe_table");

/// Which of the raycast kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RaycastVariant {
    /// The linear sampler filters voxels, else the kernel does.
    pub(super) voxels_by_sampler: bool,
    /// The linear sampler filters the table, else the kernel does.
    pub(super) table_by_sampler: bool,
    /// Headlight shading.
    pub(super) shaded: bool,
    /// Leaps over transparent macrocells.
    pub(super) leaps: bool,
}

/// The raycast kernels, by the bits that `build.rs` numbers them with.
const RAYCAST: [&[u8]; 16] = [
    spirv!("raycast_0"),
    spirv!("raycast_1"),
    spirv!("raycast_2"),
    spirv!("raycast_3"),
    spirv!("raycast_4"),
    spirv!("raycast_5"),
    spirv!("raycast_6"),
    spirv!("raycast_7"),
    spirv!("raycast_8"),
    spirv!("raycast_9"),
    spirv!("raycast_10"),
    spirv!("raycast_11"),
    spirv!("raycast_12"),
    spirv!("raycast_13"),
    spirv!("raycast_14"),
    spirv!("raycast_15"),
];

/// The raycast kernel of a variant.
pub(super) fn raycast(variant: RaycastVariant) -> Kernel {
    let bits = [
        variant.voxels_by_sampler,
        variant.table_by_sampler,
        variant.shaded,
        variant.leaps,
    ];
    let number: usize = bits
        .iter()
        .rev()
        .fold(0, |n, &bit| 2 * n + usize::from(bit));
    (RAYCAST[number], "raycast")
}

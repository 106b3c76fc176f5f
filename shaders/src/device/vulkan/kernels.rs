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
}

/// The raycast kernel of a variant.
pub(super) fn raycast(variant: RaycastVariant) -> Kernel {
    let spirv: &[u8] = match (
        variant.voxels_by_sampler,
        variant.table_by_sampler,
        variant.shaded,
    ) {
        (false, false, false) => spirv!("raycast_000"),
        (false, false, true) => spirv!("raycast_001"),
        (false, true, false) => spirv!("raycast_010"),
        (false, true, true) => spirv!("raycast_011"),
        (true, false, false) => spirv!("raycast_100"),
        (true, false, true) => spirv!("raycast_101"),
        (true, true, false) => spirv!("raycast_110"),
        (true, true, true) => spirv!("raycast_111"),
    };
    (spirv, "raycast")
}

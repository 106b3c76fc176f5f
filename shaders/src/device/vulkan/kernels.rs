//! The kernels that `build.rs` compiled, with their entry points.

use crate::device::DeviceError;
use brickmesh_topology::picture::render_settings::Mode;

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
    /// How samples become a pixel.
    pub(super) mode: Mode,
    /// The linear sampler filters voxels, else the kernel does.
    pub(super) voxels_by_sampler: bool,
    /// The linear sampler filters the table, else the kernel does.
    pub(super) table_by_sampler: bool,
    /// Colours follow from gradients, too.
    pub(super) shaded: bool,
    /// Leaps over transparent macrocells.
    pub(super) leaps: bool,
    /// Samples stand for ranges of values.
    pub(super) segments: bool,
    /// There is what few pictures have ([`super::params::SceneParams::has_extras`]).
    pub(super) extras: bool,
    /// There are isosurfaces or triangles.
    pub(super) surfaces: bool,
}

include!(concat!(env!("OUT_DIR"), "/raycast.rs"));

/// The raycast kernel of a variant.
pub(super) fn raycast(variant: RaycastVariant) -> Result<Kernel, DeviceError> {
    let bits = [
        variant.voxels_by_sampler,
        variant.table_by_sampler,
        variant.shaded,
        variant.leaps,
        variant.segments,
        variant.extras,
        variant.surfaces,
    ];
    let number: usize = bits
        .iter()
        .rev()
        .fold(0, |n, &bit| 2 * n + usize::from(bit));
    let name = variant.mode.name();
    let found = RAYCAST.iter().find(|(mode, _)| *mode == name);
    let kernel = found.and_then(|(_, kernels)| kernels.get(number));
    let kernel = kernel.ok_or_else(|| DeviceError::Unavailable {
        what: format!("there is no kernel for the mode {name} on this device"),
    })?;
    Ok((kernel, "raycast"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_its_kernels() {
        for mode in Mode::ALL.map(Mode::combination) {
            assert!(RAYCAST.iter().any(|(name, _)| *name == mode.name()));
        }
    }
}

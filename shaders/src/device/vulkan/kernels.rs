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

/// What rays are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// The pixels of a picture.
    Pixels,
    /// The same, and surfaces are lit later.
    LitLater,
    /// What a brick lets through of rays from surfaces.
    GoThrough,
    /// What rays see that surfaces reflect; the surfaces that they meet are lit later.
    Reflected,
}

/// Which of the raycast kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RaycastVariant {
    /// What its rays are for. There are fewer kernels for the rarer purposes: see [`Self::compiled`].
    pub(super) purpose: Purpose,
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

impl RaycastVariant {
    /// The variant that there is a kernel of: where surfaces are lit, kernels do without some of the choices.
    pub(super) fn compiled(self) -> Self {
        match self.purpose {
            Purpose::Pixels => self,
            Purpose::LitLater | Purpose::Reflected => Self {
                table_by_sampler: false,
                extras: true,
                surfaces: true,
                ..self
            },
            Purpose::GoThrough => Self {
                table_by_sampler: false,
                shaded: self.extras,
                ..self
            },
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/raycast.rs"));

/// The raycast kernel of a variant.
pub(super) fn raycast(variant: RaycastVariant) -> Result<Kernel, DeviceError> {
    let RaycastVariant {
        voxels_by_sampler: voxels,
        table_by_sampler: table,
        shaded,
        leaps,
        segments,
        extras,
        surfaces,
        ..
    } = variant;
    // As `build.rs` numbers them.
    let number = |bits: &[bool]| {
        let bits = bits.iter().rev();
        bits.fold(0, |n: usize, &bit| 2 * n + usize::from(bit))
    };
    let name = variant.mode.name();
    let (kernel, entry) = match variant.purpose {
        Purpose::Pixels => {
            let number = number(&[voxels, table, shaded, leaps, segments, extras, surfaces]);
            let found = RAYCAST.iter().find(|(mode, _)| *mode == name);
            (
                found.and_then(|(_, kernels)| kernels.get(number)),
                "raycast",
            )
        }
        Purpose::LitLater => {
            let number = number(&[voxels, shaded, leaps, segments]);
            (LIT_LATER.get(number), "raycast")
        }
        Purpose::Reflected => {
            let number = number(&[voxels, shaded, leaps, segments]);
            (REFLECT.get(number), "reflect_rays")
        }
        Purpose::GoThrough => {
            let number = number(&[voxels, leaps, segments, extras, surfaces]);
            (GO_THROUGH.get(number), "go_through")
        }
    };
    let kernel = kernel.ok_or_else(|| DeviceError::Unavailable {
        what: format!("there is no kernel for the mode {name} on this device"),
    })?;
    Ok((kernel, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_its_kernels() {
        for mode in Mode::ALL.map(Mode::combination) {
            assert!(RAYCAST.iter().any(|(name, _)| *name == mode.name()));
        }
        assert_eq!((LIT_LATER.len(), GO_THROUGH.len()), (1 << 4, 1 << 5));
        assert_eq!(REFLECT.len(), LIT_LATER.len());
        assert!(
            Mode::ALL
                .iter()
                .all(|m| !m.hides() || m.combination() == Mode::Dvr)
        );
    }
}

//! How the samples of a ray become a pixel: the stages in which modes differ, a type of each.
//!
//! A kernel goes through the same stages in every mode: `interval` (the samples that a job owns),
//! `sample` (the number there), `classify` (its place in the transfer table, and the colour there),
//! `combine`. What combining gives is a *partial*, four numbers. Partials of jobs combine just as
//! samples do, so that a picture does not depend on how it was cut; at last `finish` makes the pixel.
//! Where a mode combines colours, a partial is premultiplied linear RGBA; where it combines values, it
//! is `[place in the transfer table, weight, 0, 0]`, weight 0 where there is no sample.
//!
//! Mirrors: `device/cpu/packet_modes.rs`, eight rays at once; `wgsl/modes/`.

use brickmesh_topology::{data::transfer_function::step_opacity, picture::render_settings::Mode};

/// See the module.
pub trait ModeStages {
    /// The mode.
    const MODE: Mode;
    /// Whether colours follow from gradients, too.
    const SHADED: bool = false;
    /// Whether samples stand for ranges of values: `RenderSettings::preintegrate`.
    const SEGMENTS: bool = false;

    /// Opacity of a sample, of its opacity per unit distance; `step` and `unit` in world units. As the
    /// function says, where a mode does not ask how far samples are apart.
    fn sample_opacity(opacity: f64, _step: f64, _unit: f64) -> f64 {
        opacity
    }

    /// Puts what lies behind into `front`.
    fn combine(front: &mut [f32; 4], behind: [f32; 4]);

    /// Whether nothing behind would be seen, as rays end once as opaque as `opaque`; never, where a mode hides nothing.
    #[inline(always)]
    fn is_done(_partial: &[f32; 4], _opaque: f32) -> bool {
        false
    }

    /// Premultiplied linear RGBA of what all samples of a ray came to; `classify` gives that of a place.
    fn finish(partial: [f32; 4], classify: impl Fn(f32) -> [f32; 4]) -> [f32; 4];
}

/// Emission and absorption, front to back.
///
/// Source: Porter, Duff, "Compositing Digital Images", SIGGRAPH 1984: over on premultiplied colours,
/// `front + (1 − front.a) · back`; associative, not commutative.
#[derive(Clone, Copy, Debug)]
pub struct Dvr<const SHADED: bool, const SEGMENTS: bool>;

impl<const SHADED: bool, const SEGMENTS: bool> ModeStages for Dvr<SHADED, SEGMENTS> {
    const MODE: Mode = Mode::Dvr;
    const SHADED: bool = SHADED;
    const SEGMENTS: bool = SEGMENTS;

    fn sample_opacity(opacity: f64, step: f64, unit: f64) -> f64 {
        step_opacity(opacity, step, unit)
    }

    #[inline(always)]
    fn combine(front: &mut [f32; 4], behind: [f32; 4]) {
        let through = 1.0 - front[3];
        for (f, b) in front.iter_mut().zip(behind) {
            *f += through * b;
        }
    }

    #[inline(always)]
    fn is_done(partial: &[f32; 4], opaque: f32) -> bool {
        partial[3] >= opaque
    }

    fn finish(partial: [f32; 4], _: impl Fn(f32) -> [f32; 4]) -> [f32; 4] {
        partial
    }
}

/// The greatest value of a ray.
///
/// Source: VTK, `vtkVolumeMapper::MAXIMUM_INTENSITY_BLEND`: opacity as the function says, whatever the step.
#[derive(Clone, Copy, Debug)]
pub struct Mip;

impl ModeStages for Mip {
    const MODE: Mode = Mode::Mip;

    #[inline(always)]
    fn combine(front: &mut [f32; 4], behind: [f32; 4]) {
        if behind[1] > 0.0 && (front[1] <= 0.0 || behind[0] > front[0]) {
            *front = behind;
        }
    }

    fn finish(partial: [f32; 4], classify: impl Fn(f32) -> [f32; 4]) -> [f32; 4] {
        of_value(partial[0], partial[1], classify)
    }
}

/// The least value of a ray.
///
/// Source: VTK, `vtkVolumeMapper::MINIMUM_INTENSITY_BLEND`.
#[derive(Clone, Copy, Debug)]
pub struct Minip;

impl ModeStages for Minip {
    const MODE: Mode = Mode::Minip;

    #[inline(always)]
    fn combine(front: &mut [f32; 4], behind: [f32; 4]) {
        if behind[1] > 0.0 && (front[1] <= 0.0 || behind[0] < front[0]) {
            *front = behind;
        }
    }

    fn finish(partial: [f32; 4], classify: impl Fn(f32) -> [f32; 4]) -> [f32; 4] {
        of_value(partial[0], partial[1], classify)
    }
}

/// The mean of all values of a ray: their sum, and their number as the weight.
///
/// Source: VTK, `vtkVolumeMapper::AVERAGE_INTENSITY_BLEND`.
#[derive(Clone, Copy, Debug)]
pub struct Average;

impl ModeStages for Average {
    const MODE: Mode = Mode::Average;

    #[inline(always)]
    fn combine(front: &mut [f32; 4], behind: [f32; 4]) {
        front[0] += behind[0];
        front[1] += behind[1];
    }

    fn finish(partial: [f32; 4], classify: impl Fn(f32) -> [f32; 4]) -> [f32; 4] {
        of_value(partial[0] / partial[1], partial[1], classify)
    }
}

/// The sum of all colours of a ray, up to 1.
///
/// Source: VTK, `vtkVolumeMapper::ADDITIVE_BLEND`: opacity in proportion to the step.
#[derive(Clone, Copy, Debug)]
pub struct Additive;

impl ModeStages for Additive {
    const MODE: Mode = Mode::Additive;

    fn sample_opacity(opacity: f64, step: f64, unit: f64) -> f64 {
        opacity * step / unit
    }

    #[inline(always)]
    fn combine(front: &mut [f32; 4], behind: [f32; 4]) {
        for (f, b) in front.iter_mut().zip(behind) {
            *f = (*f + b).min(1.0);
        }
    }

    fn finish(partial: [f32; 4], _: impl Fn(f32) -> [f32; 4]) -> [f32; 4] {
        partial
    }
}

/// The colour of a value with a weight.
fn of_value(place: f32, weight: f32, classify: impl Fn(f32) -> [f32; 4]) -> [f32; 4] {
    if weight > 0.0 {
        classify(place)
    } else {
        [0.0; 4]
    }
}

/// `front` over `back`, into `front`; premultiplied.
pub fn over(front: &mut [f32; 4], back: [f32; 4]) {
    Dvr::<false, false>::combine(front, back);
}

/// Evaluates an expression with the stages of a mode as a type.
macro_rules! with_mode {
    ($mode:expr, $stages:ident => $body:expr) => {
        match $mode {
            brickmesh_topology::picture::render_settings::Mode::Dvr
            | brickmesh_topology::picture::render_settings::Mode::Iso => {
                type $stages = $crate::modes::Dvr<false, false>;
                $body
            }
            brickmesh_topology::picture::render_settings::Mode::Mip
            | brickmesh_topology::picture::render_settings::Mode::Slice => {
                type $stages = $crate::modes::Mip;
                $body
            }
            brickmesh_topology::picture::render_settings::Mode::Minip => {
                type $stages = $crate::modes::Minip;
                $body
            }
            brickmesh_topology::picture::render_settings::Mode::Average
            | brickmesh_topology::picture::render_settings::Mode::SliceMean => {
                type $stages = $crate::modes::Average;
                $body
            }
            brickmesh_topology::picture::render_settings::Mode::Additive => {
                type $stages = $crate::modes::Additive;
                $body
            }
        }
    };
}
/// The same for a kernel, whose colours may follow from gradients and ranges.
macro_rules! with_kernel_mode {
    ($mode:expr, $is_shaded:expr, $has_segments:expr, $stages:ident => $body:expr) => {
        match ($is_shaded, $has_segments) {
            (true, true) => {
                type $stages = $crate::modes::Dvr<true, true>;
                $body
            }
            (true, false) => {
                type $stages = $crate::modes::Dvr<true, false>;
                $body
            }
            (false, true) => {
                type $stages = $crate::modes::Dvr<false, true>;
                $body
            }
            (false, false) => $crate::modes::with_mode!($mode, $stages => $body),
        }
    };
}
pub(crate) use {with_kernel_mode, with_mode};

//! The transfer function of a scene as a table that kernels look up.
//!
//! Shapes: n entries of premultiplied linear RGBA for one step, evenly spaced over the transfer
//! function's domain; kernels interpolate linearly between neighbours and clamp outside.
//! Entry e stands for the value `low + (high − low) · e/(n−1)`.

use crate::{
    modes::{ModeStages, with_mode},
    scene::Scene,
};

/// Fewest entries: fine enough for the curvature of the step opacity.
const ENTRIES_MIN: usize = 512;
/// Most entries: 16 bytes each, half a 64 KiB second-level share.
const ENTRIES_MAX: usize = 2048;

/// A table of premultiplied colours for one step.
#[derive(Clone, Debug)]
pub struct TransferTable {
    /// Premultiplied linear RGBA of a step.
    pub entries: Vec<[f32; 4]>,
    /// Table coordinate of a voxel's number v: `v · scale + offset`, 0 … entries − 1.
    pub scale: f32,
    /// See [`Self::scale`].
    pub offset: f32,
}

impl TransferTable {
    /// The table of a scene.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    pub fn new(scene: &Scene) -> Self {
        let [low, high] = scene.domain();
        let count = entry_count(scene);
        let unit = scene.unit_distance();
        let last = (count - 1) as f64;
        let entries = (0..count).map(|e| {
            let (color, opacity) = scene
                .settings
                .transfer
                .classify(low + (high - low) * e as f64 / last);
            let step = scene.settings.step;
            let alpha =
                with_mode!(scene.settings.mode, M => M::sample_opacity(opacity, step, unit));
            [color[0] * alpha, color[1] * alpha, color[2] * alpha, alpha].map(|c| c as f32)
        });
        let per_value = last / (high - low);
        let [value_scale, value_offset] = scene.numbers.value_scale_and_offset(&scene.volume);
        Self {
            entries: entries.collect(),
            scale: (value_scale * per_value) as f32,
            offset: ((value_offset - low) * per_value) as f32,
        }
    }

    /// The place in the table of a voxel's number: 0 … entries − 1, not clamped.
    #[must_use]
    #[inline]
    pub fn place(&self, number: f32) -> f32 {
        number.mul_add(self.scale, self.offset)
    }

    /// Premultiplied linear RGBA at a place, clamped; NaN is as 0.
    #[must_use]
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the table before; NaN becomes 0"
    )]
    pub fn classify(&self, place: f32) -> [f32; 4] {
        let last = self.entries.len() - 1;
        let x = place.max(0.0).min(last as f32);
        let entry = (x as usize).min(last.saturating_sub(1));
        let t = x - entry as f32;
        let (a, b) = (self.entries[entry], self.entries[(entry + 1).min(last)]);
        std::array::from_fn(|c| a[c] + (b[c] - a[c]) * t)
    }

    /// For each macrocell range query: the largest step opacity among the numbers `low..=high`, as the
    /// table gives it.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the table before"
    )]
    pub fn max_alpha(&self, low: f32, high: f32) -> f32 {
        let last = (self.entries.len() - 1) as f32;
        let at = |v: f32| (v * self.scale + self.offset).clamp(0.0, last);
        let (a, b) = (at(low), at(high));
        let (from, to) = (a.min(b).floor() as usize, a.max(b).ceil() as usize);
        self.entries[from..=to]
            .iter()
            .map(|e| e[3])
            .fold(0.0, f32::max)
    }
}

/// The count of entries for which the transfer function's points come nearest to entries, so
/// that its kinks survive the table.
#[expect(clippy::cast_precision_loss, reason = "counts below 4096")]
fn entry_count(scene: &Scene) -> usize {
    let [low, high] = scene.domain();
    let misfit = |count: usize| {
        let last = (count - 1) as f64;
        let off = |v: f64| {
            let x = (v - low) / (high - low) * last;
            (x - x.round()).abs()
        };
        scene
            .settings
            .transfer
            .points
            .iter()
            .map(|p| off(p.value))
            .fold(0.0, f64::max)
    };
    let mut best = (f64::INFINITY, ENTRIES_MAX);
    for count in (ENTRIES_MIN..=ENTRIES_MAX).rev() {
        let m = misfit(count);
        if m < best.0 - 1e-9 {
            best = (m, count);
        }
    }
    best.1
}

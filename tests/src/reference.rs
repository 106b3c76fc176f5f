//! The reference: a float64 raycaster, one sample after another, written from the conventions of
//! the project and from nothing in `shaders`. Slow on purpose.
//!
//! Samples stand at multiples of the step from the eye, in world units, moved by the pixel's jitter;
//! the field is trilinear between sample centres and ends at the last ones, on an axis of one voxel half
//! a spacing beside it; what no data is a part of is transparent; interpolate first, classify after; a
//! step `s` gets `1 − (1 − opacity)^(s / unit_distance)`; front to back, premultiplied. Other modes take
//! the greatest, least or mean value and classify that, or add up the colours of all samples.

use brickmesh_topology::{
    RenderSettings, View, VolumeDescription,
    picture::render_settings::{Light, Mode},
};
use glam::{DMat3, DVec3};

/// A volume with its voxels as stored numbers, x fastest.
#[derive(Clone, Debug)]
pub struct Field {
    /// What it is.
    pub volume: VolumeDescription,
    /// Stored numbers.
    pub stored: Vec<f64>,
}

impl Field {
    /// The data value at voxel (i,j,k), clamped to the volume; NaN where there is none.
    fn voxel(&self, at: [i64; 3]) -> f64 {
        let dims = self.volume.dims.map(i64::from);
        let c: [i64; 3] = std::array::from_fn(|a| at[a].clamp(0, dims[a] - 1));
        let index = (c[2] * dims[1] + c[1]) * dims[0] + c[0];
        let stored = self.stored[usize::try_from(index).expect("indices are clamped")];
        if !stored.is_finite() || self.volume.fill == Some(stored) {
            return f64::NAN;
        }
        stored * self.volume.value_scale + self.volume.value_offset
    }

    /// The data value at a point of the grid, or `None` outside of the field and where there is none.
    #[must_use]
    pub fn value(&self, p: DVec3) -> Option<f64> {
        let inside = |a: usize| match self.volume.dims[a] {
            1 => p[a].abs() <= 0.5,
            n => p[a] >= 0.0 && p[a] <= f64::from(n - 1),
        };
        let value = (0..3).all(inside).then(|| self.interpolate(p));
        value.filter(|v| v.is_finite())
    }

    #[expect(clippy::cast_possible_truncation, reason = "points inside the volume")]
    fn interpolate(&self, p: DVec3) -> f64 {
        let low = p.floor();
        let f = p - low;
        let i = low.to_array().map(|v| v as i64);
        let mut sum = 0.0;
        for corner in 0..8_i64 {
            let bit = |a: i64| corner >> a & 1;
            let weight = |a: usize, b: i64| if b == 1 { f[a] } else { 1.0 - f[a] };
            let w = weight(0, bit(0)) * weight(1, bit(1)) * weight(2, bit(2));
            if w > 0.0 {
                sum += w * self.voxel([i[0] + bit(0), i[1] + bit(1), i[2] + bit(2)]);
            }
        }
        sum
    }

    /// Gradient in data units per world unit: central differences over one voxel either side,
    /// positions clamped to the field; 0 on an axis where there is no data on a side.
    fn gradient(&self, p: DVec3) -> DVec3 {
        let last = DVec3::from_array(self.volume.dims.map(|n| f64::from(n - 1)));
        let difference = |axis: DVec3| {
            let above = self.interpolate((p + axis).min(last));
            let below = self.interpolate((p - axis).max(DVec3::ZERO));
            let difference = (above - below) * 0.5;
            if difference.is_finite() {
                difference
            } else {
                0.0
            }
        };
        let in_grid = DVec3::new(
            difference(DVec3::X),
            difference(DVec3::Y),
            difference(DVec3::Z),
        );
        let world_from_grid: DMat3 = self.volume.world_from_grid().matrix3;
        world_from_grid.inverse().transpose() * in_grid
    }
}

/// The picture of a field: premultiplied linear RGBA, row by row from the top.
#[must_use]
pub fn render(field: &Field, view: &View, settings: &RenderSettings) -> Vec<[f64; 4]> {
    let mut pixels = Vec::new();
    for y in 0..view.height {
        for x in 0..view.width {
            let through = view.direction_through(f64::from(x) + 0.5, f64::from(y) + 0.5);
            let jitter = if settings.jitter { jitter(x, y) } else { 0.0 };
            pixels.push(ray(field, view.eye, through.normalize(), jitter, settings));
        }
    }
    pixels
}

/// A PCG hash of the pixel, its upper eight bits as a fraction.
fn jitter(x: u32, y: u32) -> f64 {
    const WORD: u64 = 1 << 32;
    let seed = (u64::from(x) + 65_536 * u64::from(y)) % WORD;
    let state = (seed * 747_796_405 + 2_891_336_453) % WORD;
    let turned = (state >> ((state >> 28) + 4)) ^ state;
    let word = (turned * 277_803_737) % WORD;
    let bits = (word >> 22) ^ word;
    f64::from(u32::try_from(bits >> 24).expect("eight bits")) / 256.0
}

fn ray(
    field: &Field,
    eye: DVec3,
    direction: DVec3,
    jitter: f64,
    settings: &RenderSettings,
) -> [f64; 4] {
    let grid_from_world = field.volume.grid_from_world();
    let (transfer, step) = (&settings.transfer, settings.step);
    let unit = transfer.unit_distance;
    let unit = unit.unwrap_or_else(|| field.volume.min_spacing());
    let reach = (field.volume.center_in_world() - eye).length() + field.volume.diagonal();
    let distances = (0_u32..).map(|k| (f64::from(k) + jitter) * step);
    let samples = distances.take_while(|t| *t <= reach).filter_map(|t| {
        let p = grid_from_world.transform_point3(eye + direction * t);
        field.value(p).map(|value| (p, value))
    });
    let premultiplied = |color: [f64; 3], a: f64| [color[0] * a, color[1] * a, color[2] * a, a];
    let of_value = |value: Option<f64>| {
        value.map_or([0.0; 4], |value| {
            let (color, opacity) = transfer.classify(value);
            premultiplied(color, opacity)
        })
    };
    let values = samples.clone().map(|(_, value)| value);
    match settings.mode {
        Mode::Dvr => {
            let mut acc = [0.0; 4];
            for (p, value) in samples {
                let (mut color, opacity) = transfer.classify(value);
                let mut alpha = 1.0 - (1.0 - opacity).powf(step / unit);
                if let Some([low, high]) = settings.gradient_opacity {
                    let steep = field.gradient(p).length() * field.volume.min_spacing();
                    alpha *= ((steep - low) / (high - low)).clamp(0.0, 1.0);
                }
                if settings.shade && alpha > 0.0 {
                    color = shaded(color, field.gradient(p), direction, &settings.light);
                }
                let through = 1.0 - acc[3];
                let behind = premultiplied(color, alpha);
                acc = std::array::from_fn(|c| acc[c] + through * behind[c]);
            }
            acc
        }
        Mode::Mip => of_value(values.reduce(f64::max)),
        Mode::Minip => of_value(values.reduce(f64::min)),
        Mode::Average => {
            let (sum, count) = values.fold((0.0, 0.0), |(s, n), v| (s + v, n + 1.0));
            of_value((count > 0.0).then(|| sum / count))
        }
        Mode::Additive => {
            let colors = values.map(|value| {
                let (color, opacity) = transfer.classify(value);
                premultiplied(color, opacity * step / unit)
            });
            let sum = colors.fold([0.0; 4], |sum, c| std::array::from_fn(|i| sum[i] + c[i]));
            sum.map(|c| f64::min(c, 1.0))
        }
    }
}

/// Light, eye and half vector are one direction: the ray's.
fn shaded(color: [f64; 3], gradient: DVec3, direction: DVec3, light: &Light) -> [f64; 3] {
    let facing = gradient
        .try_normalize()
        .map_or(0.0, |n| n.dot(direction).abs());
    let [ambient, diffuse, specular] =
        [light.ambient, light.diffuse, light.specular].map(f64::from);
    let shine = specular * facing.powf(light.exponent.into());
    color.map(|c| c * (ambient + diffuse * facing) + shine)
}

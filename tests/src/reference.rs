//! The reference: a float64 raycaster, one sample after another, written from the conventions of
//! the project and from nothing in `shaders`. Slow on purpose.
//!
//! Samples stand at multiples of the step from the eye, in world units, moved by the pixel's jitter;
//! the field is trilinear between sample centres and ends at the last ones, on an axis of one voxel half
//! a spacing beside it; what no data is a part of is transparent; interpolate first, classify after; a
//! step `s` gets `1 − (1 − opacity)^(s / unit_distance)`; front to back, premultiplied. Other modes take
//! the greatest, least or mean value and classify that, or add up the colours of all samples. A
//! pre-integrated sample has the mean of the densities between the values half a step before and behind it,
//! a voxel away at most, which count as a 2000th of the function's domain apart at least (two cells between
//! nodes, of a 2D function). In a slab, samples stand where a ray meets its middle and at multiples of the step
//! from there. Isosurfaces are where the field has a value, found by signs of many points of each cell, before the samples
//! behind them; triangles where a ray meets them in the volume, as a formula says, lit by the mean of their corners' normals. What is between a
//! surface and the light dims it, and what is near in the half space before it, in directions that a hash of the pixel turns, its
//! ambient part; the surface itself is between the light behind it and its viewer. A 2D function is bilinear between nodes, of which the outermost but the first row
//! of gradients are beyond all shapes.

use brickmesh_topology::{
    RenderSettings, View, VolumeDescription,
    data::transfer_shapes::{ShapeKind, TransferShape},
    picture::{
        isosurface::Isosurface,
        render_settings::{Light, Mode},
    },
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

/// A triangle in the world.
#[derive(Clone, Copy, Debug)]
pub struct Facet {
    /// Corners.
    pub corners: [DVec3; 3],
    /// Unit normals there.
    pub normals: [DVec3; 3],
    /// Linear RGB.
    pub color: [f64; 3],
    /// 0 to 1.
    pub opacity: f64,
}

impl Facet {
    /// How far a ray goes to it, and the normal there: Möller, Trumbore 1997.
    fn met(&self, eye: DVec3, direction: DVec3) -> Option<(f64, DVec3)> {
        let [a, b, c] = self.corners;
        let p = direction.cross(c - a);
        let from = (eye - a) / (b - a).dot(p);
        let u = from.dot(p);
        let q = from.cross(b - a);
        let v = direction.dot(q);
        let (t, w) = ((c - a).dot(q), 1.0 - u - v);
        let [n, m, o] = self.normals;
        (u >= 0.0 && v >= 0.0 && w >= 0.0 && t >= 0.0).then_some((t, n * w + m * u + o * v))
    }
}

/// A surface where a ray meets it.
enum Met<'a> {
    Isosurface(&'a Isosurface),
    Facet(&'a Facet, DVec3),
}

/// The picture of a field: premultiplied linear RGBA, row by row from the top.
#[must_use]
pub fn render(field: &Field, view: &View, settings: &RenderSettings) -> Vec<[f64; 4]> {
    render_with(field, &[], view, settings)
}

/// The same with triangles.
#[must_use]
pub fn render_with(
    field: &Field,
    facets: &[Facet],
    view: &View,
    settings: &RenderSettings,
) -> Vec<[f64; 4]> {
    let mut pixels = Vec::new();
    let has_look_up = settings.is_preintegrated() || !settings.shapes().is_empty();
    let look_up = has_look_up.then(|| {
        if settings.shapes().is_empty() {
            LookUp::of_values(field, settings)
        } else {
            LookUp::of_shapes(field, settings)
        }
    });
    let nearer = view.down.cross(view.right).normalize();
    let axes = [view.right.normalize(), -view.down.normalize(), nearer];
    let to_light = settings.light.direction.map(|of_axes| {
        let parts = axes.iter().zip(of_axes);
        parts
            .map(|(axis, part)| *axis * f64::from(part))
            .sum::<DVec3>()
            .normalize()
    });
    let seen = Seen {
        field,
        facets,
        settings,
        look_up,
        to_light,
    };
    for y in 0..view.height {
        for x in 0..view.width {
            let through = view.direction_through(f64::from(x) + 0.5, f64::from(y) + 0.5);
            let jitter = if settings.jitter { jitter(x, y) } else { 0.0 };
            let eye = match view.parallel {
                None => view.eye,
                // From a plane half a diagonal before the volume's middle, at right angles to the picture.
                Some(far) => {
                    let point = view.eye + through * far;
                    let off = (field.volume.center_in_world() - point).dot(-nearer);
                    point - nearer * (off - 0.5 * field.volume.diagonal())
                }
            };
            let direction = match view.parallel {
                None => through.normalize(),
                Some(_) => -nearer,
            };
            pixels.push(seen.ray(
                eye,
                direction,
                jitter,
                OfRay {
                    pixel: [x, y],
                    weight: 1.0,
                    depth: 0,
                },
            ));
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

/// Densities, and colours times them, summed over values from the first node or the domain's beginning.
struct LookUp {
    /// Value at the first sum, and between sums.
    first: f64,
    spacing: f64,
    /// Values count as so far apart.
    apart: f64,
    /// Gradient length between rows of sums and of nodes.
    rows: f64,
    sums: Vec<Vec<[f64; 4]>>,
    /// Premultiplied colours of a step, and rows of them.
    nodes: Vec<Vec<[f64; 4]>>,
}

/// Nodes of a 2D function, and sums of a 1D one.
const COLUMNS: u32 = 256;
const ROWS: u32 = 64;
const SUMS: u32 = 1 << 17;

/// Colour and opacity per unit distance of a 2D function at a node.
fn of_shapes(
    shapes: &[TransferShape],
    [value, gradient]: [f64; 2],
    apart: [f64; 2],
) -> ([f64; 3], f64) {
    let opacities = shapes.iter().map(|shape| {
        let sides = [
            (shape.value, value, apart[0]),
            (shape.gradient, gradient, apart[1]),
        ];
        let parts =
            sides.map(|([a, b], at, apart)| (at - (a + b) / 2.0) / (f64::max(b - a, apart) / 2.0));
        // Nodes on an edge are inside.
        if parts.iter().any(|p| p.abs() > 1.0 + 1e-6) {
            return 0.0;
        }
        let square: f64 = parts.iter().map(|p| p * p).sum();
        match shape.kind {
            ShapeKind::Box => shape.opacity,
            ShapeKind::Gaussian => shape.opacity * (-4.5 * square).exp(),
        }
    });
    let opacities: Vec<f64> = opacities.collect();
    let sum: f64 = opacities.iter().sum();
    let color = std::array::from_fn(|c| {
        let parts = shapes.iter().zip(&opacities).map(|(s, o)| s.color[c] * o);
        parts.sum::<f64>() / sum.max(1e-300)
    });
    (
        color,
        1.0 - opacities.iter().map(|o| 1.0 - o).product::<f64>(),
    )
}

fn premultiplied(color: [f64; 3], a: f64) -> [f64; 4] {
    [color[0] * a, color[1] * a, color[2] * a, a]
}

/// Steps in the function's unit distance.
fn steps(field: &Field, settings: &RenderSettings) -> f64 {
    let unit = settings.transfer.unit_distance;
    settings.step / unit.unwrap_or_else(|| field.volume.min_spacing())
}

/// Optical depth of so many steps, after colours times it.
fn density((color, opacity): ([f64; 3], f64), steps: f64) -> [f64; 4] {
    premultiplied(color, -(1.0 - f64::min(opacity, 1.0 - 1e-6)).ln() * steps)
}

/// Sums of what is before each cell, and of all.
fn summed(cells: Vec<[f64; 4]>) -> Vec<[f64; 4]> {
    let mut sums = vec![[0.0; 4]];
    for cell in cells {
        let before = sums[sums.len() - 1];
        sums.push(std::array::from_fn(|c| before[c] + cell[c]));
    }
    sums
}

impl LookUp {
    /// The sums of a function of values alone.
    fn of_values(field: &Field, settings: &RenderSettings) -> Self {
        // A domain beyond the function's on either side, where it is constant.
        let [low, high] = settings.transfer.ends();
        let spacing = 3.0 * (high - low) / f64::from(SUMS);
        let first = low - (high - low);
        let steps = steps(field, settings);
        let cells = (0..SUMS).map(|i| {
            let value = first + spacing * (f64::from(i) + 0.5);
            density(settings.transfer.classify(value), steps).map(|d| d * spacing)
        });
        Self {
            first,
            spacing,
            apart: (high - low) / 2000.0,
            rows: f64::INFINITY,
            sums: vec![summed(cells.collect())],
            nodes: Vec::new(),
        }
    }

    fn of_shapes(field: &Field, settings: &RenderSettings) -> Self {
        let shapes = settings.shapes();
        let steps = steps(field, settings);
        let alpha = |(color, opacity): ([f64; 3], f64)| {
            premultiplied(color, 1.0 - (1.0 - opacity).powf(steps))
        };
        let of = |i: usize, f: fn(f64, f64) -> f64| {
            let ends = shapes.iter().map(|s| s.value[i]);
            ends.reduce(f).expect("there are shapes")
        };
        let (low, high) = (of(0, f64::min), of(1, f64::max));
        let spacing = (high - low) / f64::from(COLUMNS - 3);
        let steepest = shapes.iter().map(|s| s.gradient[1]).fold(0.0, f64::max);
        let (first, rows) = (low - spacing, steepest / f64::from(ROWS - 2));
        let node = |row: u32, column: u32| {
            let value = first + spacing * f64::from(column);
            of_shapes(shapes, [value, rows * f64::from(row)], [spacing, rows])
        };
        let row = |row: u32| -> Vec<_> { (0..COLUMNS).map(|c| node(row, c)).collect() };
        let all: Vec<Vec<_>> = (0..ROWS).map(row).collect();
        let cells = |row: &Vec<([f64; 3], f64)>| {
            let ends = row
                .windows(2)
                .map(|pair| [density(pair[0], steps), density(pair[1], steps)]);
            let means = ends.map(|[a, b]| std::array::from_fn(|c| (a[c] + b[c]) / 2.0 * spacing));
            summed(means.collect())
        };
        let sums = all.iter().map(cells).collect();
        let nodes = all
            .into_iter()
            .map(|row| row.into_iter().map(alpha).collect())
            .collect();
        Self {
            first,
            spacing,
            apart: 2.0 * spacing,
            rows,
            sums,
            nodes,
        }
    }

    /// The place of a value among so many, linear in between and clamped: the one below, and how far on.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small whole numbers"
    )]
    fn place(at: f64, count: usize) -> (usize, f64) {
        let inside = at.clamp(0.0, (count - 1) as f64);
        let below = (inside as usize).min(count - 2);
        (below, inside - below as f64)
    }

    fn in_row(&self, row: &[[f64; 4]], value: f64) -> [f64; 4] {
        let (i, t) = Self::place((value - self.first) / self.spacing, row.len());
        std::array::from_fn(|c| row[i][c] + (row[i + 1][c] - row[i][c]) * t)
    }

    fn mixed(&self, gradient: f64, of: impl Fn(usize) -> [f64; 4], count: usize) -> [f64; 4] {
        if count == 1 {
            return of(0);
        }
        let (row, t) = Self::place(gradient / self.rows, count);
        let (a, b) = (of(row), of(row + 1));
        std::array::from_fn(|c| a[c] + (b[c] - a[c]) * t)
    }

    /// Colour and opacity of a step with these values at its beginning, middle and end.
    fn segment(&self, [begin, middle, end]: [f64; 3], gradient: f64) -> ([f64; 3], f64) {
        let mean_between = |row: usize, a: f64, b: f64| -> [f64; 4] {
            let half = (b - a).abs().max(self.apart) / 2.0;
            let center = f64::midpoint(a, b);
            let [from, to] =
                [center - half, center + half].map(|v| self.in_row(&self.sums[row], v));
            std::array::from_fn(|c| (to[c] - from[c]) / (2.0 * half))
        };
        let mean = |row: usize| {
            let first = mean_between(row, begin, middle);
            let second = mean_between(row, middle, end);
            std::array::from_fn(|c| f64::midpoint(first[c], second[c]))
        };
        let [r, g, b, depth] = self.mixed(gradient, mean, self.sums.len());
        let color = if depth > 0.0 {
            [r / depth, g / depth, b / depth]
        } else {
            [0.0; 3]
        };
        (color, 1.0 - (-depth).exp())
    }

    /// The same of one value, of a 2D function.
    fn node(&self, value: f64, gradient: f64) -> ([f64; 3], f64) {
        let of = |row: usize| self.in_row(&self.nodes[row], value);
        let [r, g, b, alpha] = self.mixed(gradient, of, self.nodes.len());
        let color = if alpha > 0.0 {
            [r / alpha, g / alpha, b / alpha]
        } else {
            [0.0; 3]
        };
        (color, alpha)
    }
}

/// Which pixel a ray is of, what of that it is, and how often it was reflected.
#[derive(Clone, Copy)]
struct OfRay {
    pixel: [u32; 2],
    weight: f64,
    depth: u8,
}

/// Reflected rays that are less of a pixel are not followed: all of them together are not seen.
const WEIGHT_MIN: f64 = 2e-4;

/// What rays go through, and how it is seen.
struct Seen<'a> {
    field: &'a Field,
    facets: &'a [Facet],
    settings: &'a RenderSettings,
    look_up: Option<LookUp>,
    to_light: Option<DVec3>,
}

impl Seen<'_> {
    fn ray(&self, eye: DVec3, direction: DVec3, jitter: f64, of: OfRay) -> [f64; 4] {
        let Self {
            field, settings, ..
        } = self;
        let grid_from_world = field.volume.grid_from_world();
        let (transfer, step) = (&settings.transfer, settings.step);
        let unit = transfer.unit_distance;
        let unit = unit.unwrap_or_else(|| field.volume.min_spacing());
        let distances = self.distances(eye, direction, jitter);
        let samples = distances.iter().filter_map(|&t| {
            let world = eye + direction * t;
            let p = grid_from_world.transform_point3(world);
            let value = field.value(p).filter(|_| self.is_shown(p, world));
            value.map(|value| (t, p, value))
        });
        let of_value = |value: Option<f64>| {
            value.map_or([0.0; 4], |value| {
                let (color, opacity) = transfer.classify(value);
                premultiplied(color, opacity)
            })
        };
        let values = samples.clone().map(|(_, _, value)| value);
        match settings.mode {
            Mode::Iso => self.blended([], eye, direction, of),
            Mode::Dvr => self.blended(samples, eye, direction, of),
            Mode::Mip | Mode::Slice => of_value(values.reduce(f64::max)),
            Mode::Minip => of_value(values.reduce(f64::min)),
            Mode::Average | Mode::SliceMean => {
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

    /// Whether a point, in the grid and in the world, is not cut away.
    fn is_shown(&self, p: DVec3, world: DVec3) -> bool {
        let clip = &self.settings.clip;
        let in_bounds = clip
            .bounds
            .is_none_or(|[low, high]| (0..3).all(|a| low[a] <= p[a] && p[a] <= high[a]));
        let in_front = |[x, y, z, d]: &[f64; 4]| DVec3::new(*x, *y, *z).dot(world) >= *d;
        in_bounds && clip.planes.iter().all(in_front)
    }

    /// Samples (distance, place in the grid, value) and isosurfaces, front to back.
    fn blended(
        &self,
        samples: impl IntoIterator<Item = (f64, DVec3, f64)>,
        eye: DVec3,
        direction: DVec3,
        of: OfRay,
    ) -> [f64; 4] {
        let mut acc = [0.0; 4];
        let put = |acc: &mut [f64; 4], behind: [f64; 4]| {
            let through = 1.0 - acc[3];
            *acc = std::array::from_fn(|c| acc[c] + through * behind[c]);
        };
        let surface = |acc: &mut [f64; 4], p, world, met: &Met<'_>| {
            let weight = of.weight * (1.0 - acc[3]);
            let of = OfRay { weight, ..of };
            put(acc, self.surface([p, world], met, direction, of));
        };
        let hits = self.hits(eye, direction, f64::INFINITY).into_iter();
        let mut hits = hits
            .filter(|(_, p, world, _)| self.is_shown(*p, *world))
            .peekable();
        for (t, p, value) in samples {
            while let Some((_, p, world, met)) = hits.next_if(|hit| hit.0 < t) {
                surface(&mut acc, p, world, &met);
            }
            let Some((mut color, alpha)) = self.step(p, value, direction) else {
                continue;
            };
            if self.settings.shade && alpha > 0.0 {
                color = self.lit(color, p, direction);
            }
            put(&mut acc, premultiplied(color, alpha));
        }
        for (_, p, world, met) in hits {
            surface(&mut acc, p, world, &met);
        }
        acc
    }

    /// How far samples are from a ray's beginning.
    fn distances(&self, eye: DVec3, direction: DVec3, jitter: f64) -> Vec<f64> {
        let Self {
            field, settings, ..
        } = self;
        let step = settings.step;
        let reach = (field.volume.center_in_world() - eye).length() + field.volume.diagonal();
        let Some(slice) = settings.slice.filter(|_| settings.mode.is_slice()) else {
            let of_ray = (0_u32..).map(|k| (f64::from(k) + jitter) * step);
            return of_ray.take_while(|t| *t <= reach).collect();
        };
        let [x, y, z, d] = slice.plane;
        let normal = DVec3::new(x, y, z);
        let along = normal.dot(direction) / normal.length();
        let middle = (d - normal.dot(eye)) / normal.dot(direction);
        // What lies on the slab's border is in it.
        let far = (slice.thickness / 2.0 / along.abs() / step + 1e-4).floor();
        let first = (-middle / step).ceil().max(-far);
        let of_slab = (0_u32..).map(|k| first + f64::from(k));
        let of_slab = of_slab.take_while(|side| *side <= far);
        let distances = of_slab.map(|side| middle + side * step);
        distances.take_while(|t| *t <= reach).collect()
    }

    fn lit(&self, color: [f64; 3], p: DVec3, direction: DVec3) -> [f64; 3] {
        let light = [self.to_light.unwrap_or(-direction), -direction];
        let normal = self.field.gradient(p);
        let [around, from_light] = shaded(color, normal, light, &self.settings.light);
        std::array::from_fn(|c| around[c] + from_light[c])
    }

    /// Colour and opacity of a surface at a point of the grid and the world.
    fn surface(
        &self,
        [p, world]: [DVec3; 2],
        met: &Met<'_>,
        direction: DVec3,
        of: OfRay,
    ) -> [f64; 4] {
        let (color, opacity, gradient) = match met {
            Met::Isosurface(surface) => {
                let (color, opacity) = (surface.color.map(f64::from), surface.opacity.into());
                (color, opacity, self.field.gradient(p))
            }
            Met::Facet(facet, normal) => (facet.color, facet.opacity, *normal),
        };
        let normal = gradient.try_normalize().unwrap_or(-direction);
        let normal = normal * -normal.dot(direction).signum();
        let light = [self.to_light.unwrap_or(-direction), -direction];
        let [around, from_light] = if self.settings.shade {
            shaded(color, gradient, light, &self.settings.light)
        } else {
            [color, [0.0; 3]]
        };
        let (ambient, shadow) = (
            self.ambient(world, normal, of.pixel),
            self.shadow(world, normal, opacity),
        );
        let mut lit = std::array::from_fn(|c| around[c] * ambient + from_light[c] * shadow);
        let reflections = self.settings.reflections;
        if let Some(reflections) = reflections.filter(|r| of.depth < r.depth) {
            let part = f64::from(reflections.part);
            let part = part + (1.0 - part) * (1.0 + direction.dot(normal)).powi(5);
            let start = world + normal * (0.02 * self.field.volume.min_spacing());
            let mirrored = direction - normal * (2.0 * direction.dot(normal));
            let (weight, depth) = (part * opacity * of.weight, of.depth + 1);
            let of = OfRay {
                weight,
                depth,
                ..of
            };
            if weight > WEIGHT_MIN {
                let seen = self.ray(start, mirrored, 0.5, of);
                lit = std::array::from_fn(|c| (1.0 - part * seen[3]) * lit[c] + part * seen[c]);
            }
        }
        premultiplied(lit, opacity)
    }

    /// What comes of the light to a point of a surface.
    fn shadow(&self, world: DVec3, normal: DVec3, opacity: f64) -> f64 {
        let is_cast = self.settings.shadows && self.settings.shade;
        let Some(light) = self.to_light.filter(|_| is_cast) else {
            return 1.0;
        };
        let itself = if normal.dot(light) < 0.0 {
            1.0 - opacity
        } else {
            1.0
        };
        itself * self.through(world, normal, light, f64::INFINITY)
    }

    /// What comes from around to a point of a surface.
    fn ambient(&self, world: DVec3, normal: DVec3, [x, y]: [u32; 2]) -> f64 {
        let Some(occlusion) = self.settings.ambient_occlusion else {
            return 1.0;
        };
        let count = f64::from(occlusion.rays);
        let [part, turn] = [jitter(x, y), jitter(y + 32_768, x)];
        let (right, ahead) = {
            let (DVec3 { x, y, z }, s) = (normal, 1.0_f64.copysign(normal.z));
            let (a, b) = (-1.0 / (s + z), -x * y / (s + z));
            (
                DVec3::new(1.0 + s * x * x * a, s * b, -s * x),
                DVec3::new(b, s + y * y * a, -y),
            )
        };
        let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
        let rays = (0..occlusion.rays).map(|n| {
            let square = (f64::from(n) + part) / count;
            let angle = std::f64::consts::TAU * (f64::from(n) * golden + turn);
            let flat = right * angle.cos() + ahead * angle.sin();
            let to = flat * square.sqrt() + normal * (1.0 - square).sqrt();
            self.through(world, normal, to, occlusion.reach)
        });
        rays.sum::<f64>() / count
    }

    /// What comes to a point of a surface from a direction, as far as `reach`: samples stand in the middle of steps.
    fn through(&self, world: DVec3, normal: DVec3, to: DVec3, reach: f64) -> f64 {
        let (field, settings) = (self.field, self.settings);
        let off = 0.02 * field.volume.min_spacing() * normal.dot(to).signum();
        let start = world + normal * off;
        let grid_from_world = field.volume.grid_from_world();
        let mut through = 1.0;
        if settings.mode == Mode::Dvr {
            let far = reach.min(2.0 * field.volume.diagonal());
            let distances = (0_u32..).map(|k| (f64::from(k) + 0.5) * settings.step);
            for t in distances.take_while(|t| *t < far) {
                let at = start + to * t;
                let p = grid_from_world.transform_point3(at);
                let value = field.value(p).filter(|_| self.is_shown(p, at));
                let step = value.and_then(|value| self.step(p, value, to));
                through *= 1.0 - step.map_or(0.0, |(_, alpha)| alpha);
            }
        }
        for (_, p, at, met) in self.hits(start, to, reach) {
            if self.is_shown(p, at) {
                through *= match met {
                    Met::Isosurface(surface) => 1.0 - f64::from(surface.opacity),
                    Met::Facet(facet, _) => 1.0 - facet.opacity,
                };
            }
        }
        through
    }

    /// Where a ray meets surfaces before `reach`, near ones first: distance, place in the grid and in the world, and which.
    fn hits(&self, eye: DVec3, direction: DVec3, reach: f64) -> Vec<(f64, DVec3, DVec3, Met<'_>)> {
        let mut hits = self.isosurface_hits(eye, direction, reach);
        let grid_from_world = self.field.volume.grid_from_world();
        let [lo, hi] = self.field.volume.field_in_grid();
        for facet in self.facets {
            if let Some((t, normal)) = facet.met(eye, direction) {
                let world = eye + direction * t;
                let p = grid_from_world.transform_point3(world);
                if p.cmpge(lo).all() && p.cmple(hi).all() {
                    hits.push((t, p, world, Met::Facet(facet, normal)));
                }
            }
        }
        hits.retain(|hit| hit.0 < reach);
        hits.sort_by(|a, b| a.0.total_cmp(&b.0));
        hits
    }

    fn isosurface_hits(
        &self,
        eye: DVec3,
        direction: DVec3,
        reach: f64,
    ) -> Vec<(f64, DVec3, DVec3, Met<'_>)> {
        const PARTS: u32 = 48;
        let grid_from_world = self.field.volume.grid_from_world();
        let at = |t: f64| grid_from_world.transform_point3(eye + direction * t);
        let (start, along) = (at(0.0), grid_from_world.matrix3 * direction);
        let mut faces = vec![0.0];
        for a in 0..3 {
            let planes: Vec<f64> = match self.field.volume.dims[a] {
                1 => vec![-0.5, 0.5],
                n => (0..n).map(f64::from).collect(),
            };
            if along[a].abs() > 1e-12 {
                faces.extend(planes.iter().map(|plane| (plane - start[a]) / along[a]));
            }
        }
        faces.retain(|t| *t >= 0.0);
        faces.sort_by(f64::total_cmp);
        let mut hits = Vec::new();
        for cell in faces.windows(2) {
            let way = cell[1] - cell[0];
            let is_inside = self.field.value(at(cell[0] + 0.5 * way)).is_some();
            if way < 1e-9 || !is_inside || cell[0] > reach {
                continue;
            }
            let part = |n: u32| (f64::from(n) / f64::from(PARTS)).clamp(1e-9, 1.0 - 1e-9);
            let value = |s: f64| self.field.interpolate(at(cell[0] + s * way));
            let values: Vec<f64> = (0..=PARTS).map(|n| value(part(n))).collect();
            for surface in self.settings.surfaces() {
                for (n, pair) in (0..).zip(values.windows(2)) {
                    let is_above = pair[0] >= surface.value;
                    if is_above == (pair[1] >= surface.value) || !pair[0].is_finite() {
                        continue;
                    }
                    let (mut a, mut b) = (part(n), part(n + 1));
                    for _ in 0..50 {
                        let middle = 0.5 * (a + b);
                        if (value(middle) >= surface.value) == is_above {
                            a = middle;
                        } else {
                            b = middle;
                        }
                    }
                    let t = cell[0] + a * way;
                    hits.push((t, at(t), eye + direction * t, Met::Isosurface(surface)));
                }
            }
        }
        hits
    }

    /// Colour and opacity of a sample's step, unlit; `None` where there is no data.
    fn step(&self, p: DVec3, value: f64, direction: DVec3) -> Option<([f64; 3], f64)> {
        let Self {
            field, settings, ..
        } = self;
        let steep = || field.gradient(p).length() * field.volume.min_spacing();
        let (color, mut alpha) = match &self.look_up {
            None => {
                let (color, opacity) = settings.transfer.classify(value);
                (color, 1.0 - (1.0 - opacity).powf(steps(field, settings)))
            }
            Some(look_up) if settings.preintegrate => {
                let [begin, end] = self.ends(p, direction)?;
                look_up.segment([begin, value, end], steep())
            }
            Some(look_up) => look_up.node(value, steep()),
        };
        if let Some([low, high]) = settings.gradient_opacity {
            alpha *= ((steep() - low) / (high - low)).clamp(0.0, 1.0);
        }
        Some((color, alpha))
    }

    /// The values half a step before and behind a point of the grid, a voxel away at most; `None` where
    /// one is no data.
    fn ends(&self, p: DVec3, direction: DVec3) -> Option<[f64; 2]> {
        let along = self.field.volume.grid_from_world().matrix3 * direction;
        let half = (self.settings.step / 2.0).min(1.0 / along.abs().max_element());
        let last = DVec3::from_array(self.field.volume.dims.map(|n| f64::from(n - 1)));
        let at = |by: f64| {
            let q = (p + along * by).clamp(DVec3::ZERO, last);
            Some(self.field.interpolate(q)).filter(|v| v.is_finite())
        };
        Some([at(-half)?, at(half)?])
    }
}

/// The parts of a colour in the light around, and in the light.
fn shaded(
    color: [f64; 3],
    gradient: DVec3,
    [to_light, to_eye]: [DVec3; 2],
    light: &Light,
) -> [[f64; 3]; 2] {
    let normal = gradient.try_normalize().unwrap_or(DVec3::ZERO);
    let facing = normal.dot(to_light).abs();
    let half = (to_light + to_eye).normalize_or_zero();
    let [ambient, diffuse, specular] =
        [light.ambient, light.diffuse, light.specular].map(f64::from);
    let shine = specular * normal.dot(half).abs().powf(light.exponent.into());
    [
        color.map(|c| c * ambient),
        color.map(|c| c * diffuse * facing + shine),
    ]
}

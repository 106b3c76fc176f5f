//! A scene as the kernels use it: rays, table and shading, worked out once.
//!
//! Space: grid (voxels). Numbers are worked out in f64 and rounded once, alike for every brick
//! and job of a scene.

use super::{
    ray::{ExactRay, Ray, SAMPLE_MAX},
    surfaces::Surface,
};
use crate::{
    classifier::Classifier,
    jitter::jitter,
    scene::Scene,
    transfer_table::{SeenPlaces, TransferTable},
};
use brickmesh_topology::{
    Digest, View, VolumeDescription,
    picture::{
        camera::Rays,
        render_settings::{Light, Mode},
        slice::GridSlice,
    },
};
use glam::DVec3;
use std::sync::Arc;

/// What all jobs of a scene share.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) data_set: Digest,
    pub(super) volume: VolumeDescription,
    pub(super) view: View,
    pub(super) table: Arc<TransferTable>,
    pub(super) seen: SeenPlaces,
    pub(super) mode: Mode,
    /// How opaque a ray is behind which nothing is seen, where the mode hides something.
    pub(super) opaque: f32,
    pub(super) shading: Option<Shading>,
    pub(super) surfaces: Vec<Surface>,
    /// As those of the scene.
    pub(super) materials: Vec<[f32; 4]>,
    /// Whether what is between surfaces is seen, too.
    pub(super) has_samples: bool,
    /// Whether samples stand for ranges of values.
    pub(super) has_segments: bool,
    /// As `Clip::bounds`.
    pub(super) clip_bounds: Option<[[f64; 3]; 2]>,
    /// As `Clip::planes_in_grid`.
    pub(super) clip_planes: Vec<[f64; 4]>,
    pub(super) slice: Option<GridSlice>,
    pub(super) step: f64,
    pub(super) jitter: bool,
    /// In the world.
    pub(super) rays: Rays,
    /// Both of them in the grid.
    pub(super) start: [DVec3; 3],
    pub(super) along: [DVec3; 3],
    /// Rays go on from surfaces: their light comes later.
    pub(super) sends_rays: bool,
}

impl Frame {
    pub(super) fn new(scene: &Scene, classifier: &Classifier) -> Self {
        let grid_from_world = scene.volume.grid_from_world();
        let view = scene.view;
        let rays = view.rays(&scene.volume);
        Self {
            data_set: scene.data_set,
            volume: scene.volume.clone(),
            table: Arc::clone(&classifier.table),
            seen: classifier.seen,
            mode: scene.settings.mode,
            opaque: scene.settings.opaque().unwrap_or(1.0),
            shading: scene
                .settings
                .needs_gradients()
                .then(|| Shading::new(scene)),
            surfaces: Surface::of(scene),
            materials: scene.materials.clone(),
            has_samples: scene.settings.mode.has_samples(),
            has_segments: scene.settings.is_preintegrated(),
            clip_bounds: scene.settings.clip.bounds,
            clip_planes: scene.settings.clip.planes_in_grid(&scene.volume),
            start: [
                grid_from_world.transform_point3(rays.start[0]),
                grid_from_world.matrix3 * rays.start[1],
                grid_from_world.matrix3 * rays.start[2],
            ],
            along: rays.along.map(|v| grid_from_world.matrix3 * v),
            rays,
            slice: (scene.settings.slice()).map(|slice| GridSlice::new(slice, &scene.volume)),
            step: scene.settings.step,
            jitter: scene.settings.jitter && !scene.settings.mode.is_slice(),
            view,
            sends_rays: scene.casters.is_some() && scene.settings.has_secondary_rays(),
        }
    }

    /// What a pixel has of what changes evenly across the picture.
    #[inline(always)]
    fn of_pixel(&self, [middle, right, down]: [DVec3; 3], x: u32, y: u32) -> DVec3 {
        let u = 2.0 * (f64::from(x) + 0.5) / f64::from(self.view.width) - 1.0;
        let v = 2.0 * (f64::from(y) + 0.5) / f64::from(self.view.height) - 1.0;
        middle + right * u + down * v
    }

    /// The direction of a pixel's ray in the world, to depth 1.
    #[inline(always)]
    pub(super) fn along(&self, x: u32, y: u32) -> DVec3 {
        self.of_pixel(self.rays.along, x, y)
    }

    /// The ray of a pixel.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    pub(super) fn ray(&self, x: u32, y: u32) -> Ray {
        let view = &self.view;
        let (mut eye, mut end) = (self.of_pixel(self.start, x, y), SAMPLE_MAX);
        let direction = self.of_pixel(self.along, x, y) / self.along(x, y).length();
        if let Some(slice) = &self.slice {
            (eye, end) = slice.samples(eye, direction, self.step);
        }
        let [first_x, first_y] = view.first;
        let jitter = if self.jitter {
            jitter(first_x + x, first_y + y)
        } else {
            0.0
        };
        Ray {
            eye: eye.as_vec3().to_array(),
            direction: direction.as_vec3().to_array(),
            step: self.step as f32,
            jitter,
            exact: ExactRay {
                eye: eye.to_array(),
                direction: direction.to_array(),
                step: self.step,
                jitter: jitter.into(),
                end,
                near: 0.0,
                reach: f64::INFINITY,
            },
        }
    }
}

/// Square of the length of the sum of two unit vectors below which it has no direction.
pub(super) const HALF_SQUARE_MIN: f32 = 1e-6;

/// A power by squares, the same in all kernels; the exponent is above 0.
fn power(base: f32, exponent: u32) -> f32 {
    let (mut square, mut rest, mut product) = (base, exponent, 1.0);
    loop {
        if rest & 1 == 1 {
            product *= square;
        }
        rest >>= 1;
        if rest == 0 {
            return product;
        }
        square *= square;
    }
}

/// Blinn-Phong of a grid-space gradient.
///
/// With J the linear part of grid-from-world, the gradient in the world is `Jᵀ g`. So its dot
/// product with a unit vector is `g · (J vector)`, for a ray its direction in the grid, and the
/// square of its length is `gᵀ (J Jᵀ) g`. Both are scaled such that the gradient floor is 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shading {
    /// Floors per difference of numbers over two voxels.
    pub(super) scale: f32,
    /// `J Jᵀ`: xx, yy, zz, and twice xy, xz, yz.
    pub(super) metric: [f32; 6],
    pub(super) light: Light,
    /// The light's direction, where it is not the eye's.
    pub(super) aside: Option<Aside>,
    /// As [`Scene::fade`].
    pub(super) fade: Option<[f32; 2]>,
}

/// A unit vector to a light L, for its dot products.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aside {
    /// `J L`: for those with gradients of the grid.
    pub(super) of_gradient: [f32; 3],
    /// `J⁻ᵀ L`: for those with directions in the grid.
    pub(super) of_direction: [f32; 3],
}

/// Gradients by which isosurfaces are lit in full, in the floors of samples: roundings are shorter.
pub(super) const SURFACE_FLOOR: f32 = 1e-3;

/// A gradient: length in floors, and cosines with the light and with the half vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    pub(super) length: f32,
    light: f32,
    half: f32,
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

impl Shading {
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    fn new(scene: &Scene) -> Self {
        let j = scene.volume.grid_from_world().matrix3;
        let m = j * j.transpose();
        let (x, y, z) = (m.x_axis, m.y_axis, m.z_axis);
        let metric = [x.x, y.y, z.z, 2.0 * x.y, 2.0 * x.z, 2.0 * y.z];
        let [value_scale, _] = scene.numbers.value_scale_and_offset(&scene.volume);
        Self {
            scale: (0.5 * value_scale / scene.gradient_floor()) as f32,
            metric: metric.map(|c| c as f32),
            light: scene.settings.effective_light(),
            aside: scene.light_direction().map(|light| Aside {
                of_gradient: (j * light).as_vec3().to_array(),
                of_direction: (j.inverse().transpose() * light).as_vec3().to_array(),
            }),
            fade: scene.fade().map(|fade| fade.map(|n| n as f32)),
        }
    }

    /// The slope of the field. `difference` is that of numbers over two voxels, `direction` the ray's in
    /// the grid; normals fade where gradients are shorter than `floor`, in those of samples.
    pub(super) fn slope(&self, difference: [f32; 3], direction: [f32; 3], floor: f32) -> Slope {
        self.slope_of(difference.map(|d| d * self.scale), direction, floor)
    }

    fn slope_of(&self, g: [f32; 3], direction: [f32; 3], floor: f32) -> Slope {
        let [x, y, z] = g;
        let m = &self.metric;
        let square =
            m[0] * x * x + m[1] * y * y + m[2] * z * z + m[3] * x * y + m[4] * x * z + m[5] * y * z;
        let slope = square.max(0.0).sqrt();
        let length = slope.max(floor);
        let along = dot(g, direction);
        let Some(aside) = &self.aside else {
            let light = along.abs() / length;
            return Slope {
                length: slope,
                light,
                half: light,
            };
        };
        // The half vector is (L − ray) / |L − ray|.
        let toward = dot(g, aside.of_gradient);
        let square = 2.0 - 2.0 * dot(direction, aside.of_direction);
        let between = (toward - along).abs() / square.max(HALF_SQUARE_MIN).sqrt();
        Slope {
            length: slope,
            light: toward.abs() / length,
            half: between / length,
        }
    }

    /// The slope of a surface that faces this way, or away from it: a covector of the grid, of whatever length. One that has no
    /// direction faces nothing.
    pub(super) fn facing(&self, normal: [f32; 3], direction: [f32; 3]) -> Slope {
        let longest = normal.iter().fold(f32::MIN_POSITIVE, |l, n| l.max(n.abs()));
        self.slope_of(normal.map(|n| n / longest), direction, f32::MIN_POSITIVE)
    }

    /// The colour of a sample on a surface, lit; premultiplied.
    pub(super) fn lit(&self, color: [f32; 4], slope: &Slope) -> [f32; 4] {
        let lit = self.lit_surface(color, slope);
        self.fade.map_or(lit, |[per_floor, at_none]| {
            let part = (slope.length * per_floor + at_none).clamp(0.0, 1.0);
            lit.map(|c| c * part)
        })
    }

    /// The same of a surface, which does not fade, in parts: of the light from all around, and of the light.
    pub(super) fn light_parts(&self, [r, g, b, a]: [f32; 4], slope: &Slope) -> [[f32; 3]; 2] {
        let light = &self.light;
        let shine = a * light.specular * power(slope.half, light.exponent);
        let diffuse = light.diffuse * slope.light;
        let color = [r, g, b];
        [
            color.map(|c| c * light.ambient),
            color.map(|c| c * diffuse + shine),
        ]
    }

    /// The same of a surface, which does not fade.
    pub(super) fn lit_surface(&self, color: [f32; 4], slope: &Slope) -> [f32; 4] {
        let light = &self.light;
        let diffuse = light.ambient + light.diffuse * slope.light;
        let shine = color[3] * light.specular * power(slope.half, light.exponent);
        let [r, g, b, a] = color;
        [
            r * diffuse + shine,
            g * diffuse + shine,
            b * diffuse + shine,
            a,
        ]
    }
}

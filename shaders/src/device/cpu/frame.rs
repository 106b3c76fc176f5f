//! A scene as the kernels use it: rays, table and shading, worked out once.
//!
//! Space: grid (voxels). Numbers are worked out in f64 and rounded once, alike for every brick
//! and job of a scene.

use super::ray::{ExactRay, Ray};
use crate::{classifier::Classifier, jitter::jitter, scene::Scene, transfer_table::TransferTable};
use brickmesh_topology::{
    Digest, View, VolumeDescription,
    picture::render_settings::{Light, Mode},
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
    pub(super) mode: Mode,
    pub(super) shading: Option<Shading>,
    eye: DVec3,
    step: f64,
    jitter: bool,
    forward: DVec3,
    right: DVec3,
    down: DVec3,
}

impl Frame {
    pub(super) fn new(scene: &Scene, classifier: &Classifier) -> Self {
        let grid_from_world = scene.volume.grid_from_world();
        let view = scene.view;
        Self {
            data_set: scene.data_set,
            volume: scene.volume.clone(),
            table: Arc::clone(&classifier.table),
            mode: scene.settings.mode,
            shading: scene
                .settings
                .needs_gradients()
                .then(|| Shading::new(scene)),
            eye: grid_from_world.transform_point3(view.eye),
            step: scene.settings.step,
            jitter: scene.settings.jitter,
            forward: grid_from_world.matrix3 * view.forward,
            right: grid_from_world.matrix3 * view.right,
            down: grid_from_world.matrix3 * view.down,
            view,
        }
    }

    /// The ray of a pixel.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    pub(super) fn ray(&self, x: u32, y: u32) -> Ray {
        let view = &self.view;
        let u = 2.0 * (f64::from(x) + 0.5) / f64::from(view.width) - 1.0;
        let v = 2.0 * (f64::from(y) + 0.5) / f64::from(view.height) - 1.0;
        let in_world = view.forward + view.right * u + view.down * v;
        let in_grid = self.forward + self.right * u + self.down * v;
        let direction = in_grid / in_world.length();
        let [first_x, first_y] = view.first;
        let jitter = if self.jitter {
            jitter(first_x + x, first_y + y)
        } else {
            0.0
        };
        Ray {
            eye: self.eye.as_vec3().to_array(),
            direction: direction.as_vec3().to_array(),
            step: self.step as f32,
            jitter,
            exact: ExactRay {
                eye: self.eye.to_array(),
                direction: direction.to_array(),
                step: self.step,
                jitter: jitter.into(),
            },
        }
    }
}

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

/// Headlight Blinn-Phong of a grid-space gradient.
///
/// With J the linear part of grid-from-world, the gradient in the world is `Jᵀ g`. So its dot
/// product with a unit ray is `g · (J ray)`, J ray being the ray's direction in the grid, and the
/// square of its length is `gᵀ (J Jᵀ) g`. Both are scaled such that the gradient floor is 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shading {
    /// Floors per difference of numbers over two voxels.
    pub(super) scale: f32,
    /// `J Jᵀ`: xx, yy, zz, and twice xy, xz, yz.
    pub(super) metric: [f32; 6],
    pub(super) light: Light,
    /// As [`Scene::fade`].
    pub(super) fade: Option<[f32; 2]>,
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
            fade: scene.fade().map(|fade| fade.map(|n| n as f32)),
        }
    }

    /// The colour of a sample, lit; premultiplied. `difference` is that of numbers over
    /// two voxels, `direction` the ray's in the grid.
    pub(super) fn lit(
        &self,
        color: [f32; 4],
        difference: [f32; 3],
        direction: [f32; 3],
    ) -> [f32; 4] {
        let g = difference.map(|d| d * self.scale);
        let [x, y, z] = g;
        let m = &self.metric;
        let square =
            m[0] * x * x + m[1] * y * y + m[2] * z * z + m[3] * x * y + m[4] * x * z + m[5] * y * z;
        let along = x * direction[0] + y * direction[1] + z * direction[2];
        let length = square.max(1.0).sqrt();
        let nl = along.abs() / length;
        let light = &self.light;
        let diffuse = light.ambient + light.diffuse * nl;
        let shine = color[3] * light.specular * power(nl, light.exponent);
        let [r, g, b, a] = color;
        let lit = [
            r * diffuse + shine,
            g * diffuse + shine,
            b * diffuse + shine,
            a,
        ];
        self.fade.map_or(lit, |[per_floor, at_none]| {
            let part = (length * per_floor + at_none).clamp(0.0, 1.0);
            lit.map(|c| c * part)
        })
    }
}

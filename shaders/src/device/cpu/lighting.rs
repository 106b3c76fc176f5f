//! Secondary rays on this device: they go through a brick as rays from the eye do, and what is seen of it is in their way.

use super::{
    field::Field,
    frame::Frame,
    ray::{ExactRay, Ray, SAMPLE_MAX},
    scalar,
    voxel::with_voxel,
};
use crate::{
    constants::MIDDLE,
    scene::Scene,
    secondary::{SecondaryRay, SecondaryRays},
};
use brickmesh_topology::VoxelType;

/// What surfaces are lit by.
#[derive(Clone, Debug)]
pub(super) struct Lighting {
    pub(super) rays: SecondaryRays,
    /// What they go through: colours are of no account.
    frame: Frame,
}

impl Lighting {
    /// That of a scene whose frame is this; `None`: no rays go on from surfaces.
    pub(super) fn of(scene: &Scene, frame: &Frame) -> Option<Self> {
        let rays = SecondaryRays::of(scene)?;
        let settings = &scene.settings;
        let is_by_gradients = settings.gradient_opacity.is_some() || !settings.shapes().is_empty();
        let mut frame = frame.clone();
        frame.shading.take_if(|_| !is_by_gradients);
        frame.sends_rays = false;
        Some(Self { rays, frame })
    }

    /// What a brick lets through of a ray, 0 to 1.
    pub(super) fn through(&self, field: &Field<'_>, voxel: VoxelType, ray: &SecondaryRay) -> f32 {
        use scalar::opacity;
        let ray = self.kernel_ray(ray);
        1.0 - with_voxel!(voxel, opacity::<_>(&self.frame, field, &ray))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "kernels work in f32; the number of samples is clamped"
    )]
    fn kernel_ray(&self, ray: &SecondaryRay) -> Ray {
        let step = self.frame.step;
        let samples = (ray.reach / step - f64::from(MIDDLE)).ceil();
        Ray {
            eye: ray.start.as_vec3().to_array(),
            direction: ray.direction.as_vec3().to_array(),
            step: step as f32,
            jitter: MIDDLE,
            exact: ExactRay {
                eye: ray.start.to_array(),
                direction: ray.direction.to_array(),
                step,
                jitter: MIDDLE.into(),
                end: samples.clamp(0.0, f64::from(SAMPLE_MAX)) as u32,
                reach: ray.reach,
            },
        }
    }
}

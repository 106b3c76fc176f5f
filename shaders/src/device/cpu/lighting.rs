//! Secondary rays on this device: they go through a brick as rays from the eye do, and what is seen of it is in their way.

use super::{
    field::Field,
    frame::Frame,
    ray::{ExactRay, Ray, SAMPLE_MAX},
    scalar,
    surface_hits::LitPixel,
    voxel::with_voxel,
};
use crate::{
    constants::MIDDLE,
    scene::Scene,
    secondary::{DueReflection, LitPoint, SecondaryRay, SecondaryRays},
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
        let ray = kernel_ray(ray, self.frame.step);
        1.0 - with_voxel!(voxel, opacity::<_>(&self.frame, field, &ray))
    }
}

/// What a reflected ray has seen once it is through a brick; points of surfaces that are to be lit go to `points`.
pub(super) fn reflected(
    frame: &Frame,
    (field, voxel): (&Field<'_>, VoxelType),
    due: &DueReflection,
    points: &mut Vec<LitPoint>,
) -> [f32; 4] {
    use scalar::meet;
    let ray = kernel_ray(&due.ray, frame.step);
    let lit = &mut LitPixel {
        pixel: due.pixel,
        weight: due.weight,
        points,
    };
    with_voxel!(voxel, meet::<_>(frame, field, &ray, due.seen, lit))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "kernels work in f32; the number of samples is clamped"
)]
fn kernel_ray(ray: &SecondaryRay, step: f64) -> Ray {
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
            near: 0.0,
            reach: ray.reach,
        },
    }
}

//! The scenes that pictures are compared on.

use crate::{
    reference::Field,
    volumes::{limits, waves},
};
use brickmesh_topology::{
    Camera, RenderSettings, TransferFunction, View, VoxelType, transfer_function::TransferPoint,
};
use glam::DVec3;

fn transfer(voxel: VoxelType) -> TransferFunction {
    let (low, high) = limits(voxel);
    let p = |f: f64, color, opacity| TransferPoint {
        value: low + (high - low) * f,
        color,
        opacity,
    };
    TransferFunction {
        unit_distance: None,
        points: vec![
            p(0.0, [0.0, 0.0, 0.4], 0.0),
            p(0.35, [0.1, 0.3, 0.9], 0.0),
            p(0.5, [0.2, 0.9, 0.4], 0.08),
            p(0.65, [0.9, 0.7, 0.1], 0.02),
            p(1.0, [1.0, 0.3, 0.2], 0.35),
        ],
    }
}

/// Settings with steps of half a voxel, jittered.
#[must_use]
pub fn settings(field: &Field, shade: bool) -> RenderSettings {
    RenderSettings {
        shade,
        ..RenderSettings::new(
            transfer(field.volume.voxel),
            0.5 * field.volume.min_spacing(),
        )
    }
}

/// Eyes outside and inside of the volume.
///
/// # Panics
/// Never: the cameras are fixed.
#[must_use]
pub fn views(field: &Field) -> Vec<(&'static str, View)> {
    let outside = Camera::orbit(&field.volume, 30.0, 25.0, 1.1);
    let below = Camera::orbit(&field.volume, -110.0, -40.0, 1.6);
    let center = field.volume.center_in_world();
    let inside = Camera {
        eye: center + DVec3::new(0.7, -0.9, 0.4),
        at: center + DVec3::new(6.0, 5.0, -3.0),
        up: DVec3::Z,
        fov_degrees: 75.0,
    };
    [("outside", outside), ("below", below), ("inside", inside)]
        .map(|(name, camera)| (name, camera.view(72, 60).expect("a view")))
        .into()
}

/// Fields of several types; odd sizes, anisotropic spacing, a turned direction.
#[must_use]
pub fn fields() -> Vec<(&'static str, Field)> {
    vec![
        ("u8 isotropic", waves([70, 65, 41], VoxelType::U8, false)),
        ("i16 skewed", waves([67, 40, 53], VoxelType::I16, true)),
        ("f32 skewed", waves([45, 38, 66], VoxelType::F32, true)),
    ]
}

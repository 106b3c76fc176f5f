//! What a frame shows: the volume's description, the view, and how samples become colours.

use brickmesh_topology::{Digest, TransferFunction, View, VolumeDescription};

/// All that a device needs to know of a frame, beside the bricks.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Name of the data set: keys the resident bricks.
    pub data_set: Digest,
    /// The volume.
    pub volume: VolumeDescription,
    /// The rays.
    pub view: View,
    /// Data value → colour and opacity.
    pub transfer: TransferFunction,
    /// Distance of neighbouring samples on a ray, world units.
    pub step: f64,
    /// Headlight Blinn-Phong on central-difference gradients.
    pub shade: bool,
}

/// Blinn-Phong ambient term of the headlight.
pub const AMBIENT: f32 = 0.2;
/// Blinn-Phong diffuse term of the headlight.
pub const DIFFUSE: f32 = 0.7;
/// Blinn-Phong specular term of the headlight; white.
pub const SPECULAR: f32 = 0.2;
/// Blinn-Phong specular exponent of the headlight.
pub const SPECULAR_EXPONENT: i32 = 10;
/// A ray is not followed once this opaque: what is dropped is at most 1/1000 of full scale.
pub const OPAQUE: f32 = 0.999;

impl Scene {
    /// World units that the transfer function's opacity refers to.
    #[must_use]
    pub fn unit_distance(&self) -> f64 {
        self.transfer
            .unit_distance
            .unwrap_or_else(|| self.volume.min_spacing())
    }

    /// Gradient length, in data units per world unit, below which a surface has no direction:
    /// normals shorter than this fade to 0 instead of being blown up out of rounding noise.
    /// 1/10000 of the transfer function's domain per smallest spacing.
    #[must_use]
    pub fn gradient_floor(&self) -> f64 {
        let [low, high] = self.domain();
        1e-4 * (high - low) / self.volume.min_spacing()
    }

    /// First and last value of the transfer function, data units; at least a tiny bit apart.
    #[must_use]
    pub fn domain(&self) -> [f64; 2] {
        let low = self.transfer.points.first().map_or(0.0, |p| p.value);
        let high = self.transfer.points.last().map_or(1.0, |p| p.value);
        [low, high.max(low + low.abs().max(1.0) * 1e-6)]
    }
}

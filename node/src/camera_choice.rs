//! The camera that the command line asks for.

use crate::args::PictureArgs;
use brickmesh_topology::{Camera, VolumeDescription};
use glam::DVec3;

/// The camera of `--camera` or `--orbit`; what was left out is as by default.
#[must_use]
pub fn camera(args: &PictureArgs, volume: &VolumeDescription) -> Camera {
    if let Some(orbit) = args.orbit {
        return Camera::orbit(volume, orbit.azimuth, orbit.elevation, orbit.zoom);
    }
    let default = Camera::whole(volume);
    let given = args.camera.unwrap_or_default();
    let vector = |v: Option<[f64; 3]>, or| v.map_or(or, DVec3::from_array);
    Camera {
        eye: vector(given.eye, default.eye),
        at: vector(given.at, default.at),
        up: vector(given.up, default.up),
        fov_degrees: given.fov.unwrap_or(default.fov_degrees),
    }
}

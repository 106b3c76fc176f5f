//! Rays that go on from surfaces: ambient occlusion and reflections.
//!
//! Ambient occlusion: light from all around reaches a surface as far as nothing near is in the way. Reflections: surfaces show
//! what is in front of them as mirrors do, by a part that grows towards grazing rays as that of dielectrics does.
//!
//! Space: world units.
//!
//! Source of the part: Schlick, "An inexpensive BRDF model for physically-based rendering", Computer Graphics Forum 13(3), 1994,
//! equation 15.

use serde::{Deserialize, Serialize};

/// Most rays of ambient occlusion of a point.
pub const RAYS_MAX: u16 = 256;
/// Most reflections of a ray, one after the other.
pub const DEPTH_MAX: u8 = 8;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmbientOcclusion {
    /// Rays of each point of a surface: the more, the less grain.
    pub rays: u16,
    /// How far something may be in the way, world units.
    pub reach: f64,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reflections {
    /// How often a ray is reflected, one surface after the other.
    pub depth: u8,
    /// The part that is mirrored where a ray comes straight down on a surface, above 0, up to 1.
    pub part: f32,
}

/// Rays from surfaces that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} is {found}; it must be {bound}")]
pub struct SurfaceRaysError {
    /// Which number.
    pub field: &'static str,
    /// Found.
    pub found: String,
    /// What it must be.
    pub bound: &'static str,
}

fn wrong(field: &'static str, found: String, bound: &'static str) -> SurfaceRaysError {
    SurfaceRaysError {
        field,
        found,
        bound,
    }
}

impl AmbientOcclusion {
    /// Checks what comes from a file, a command line or a peer.
    ///
    /// # Errors
    /// [`SurfaceRaysError`].
    pub fn validate(&self) -> Result<(), SurfaceRaysError> {
        if !(1..=RAYS_MAX).contains(&self.rays) {
            return Err(wrong("number of rays", self.rays.to_string(), "1 to 256"));
        }
        if !(self.reach > 0.0 && self.reach <= 1e100) {
            let found = format!("{:?}", self.reach);
            return Err(wrong("reach", found, "above 0, up to 1e100"));
        }
        Ok(())
    }
}

impl Reflections {
    /// Checks what comes from a file, a command line or a peer.
    ///
    /// # Errors
    /// [`SurfaceRaysError`].
    pub fn validate(&self) -> Result<(), SurfaceRaysError> {
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            return Err(wrong("depth", self.depth.to_string(), "1 to 8"));
        }
        if !(self.part > 0.0 && self.part <= 1.0) {
            let found = format!("{:?}", self.part);
            return Err(wrong("mirrored part", found, "above 0, up to 1"));
        }
        Ok(())
    }

    /// The part that is mirrored where a ray meets a surface at an angle of such a cosine to what stands on it, 0 to 1.
    #[must_use]
    pub fn part_at(&self, cosine: f32) -> f32 {
        let beside = 1.0 - cosine.clamp(0.0, 1.0);
        self.part + (1.0 - self.part) * beside.powi(5)
    }
}

//! Ambient occlusion: light from all around reaches a surface as far as nothing near is in the way.
//!
//! Space: world units.

use serde::{Deserialize, Serialize};

/// Most rays of a point.
pub const RAYS_MAX: u16 = 256;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmbientOcclusion {
    /// Rays of each point of a surface: the more, the less grain.
    pub rays: u16,
    /// How far something may be in the way, world units.
    pub reach: f64,
}

/// Ambient occlusion that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} is {found}; it must be {bound}")]
pub struct AmbientOcclusionError {
    /// Which number.
    pub field: &'static str,
    /// Found.
    pub found: String,
    /// What it must be.
    pub bound: &'static str,
}

impl AmbientOcclusion {
    /// Checks what comes from a file, a command line or a peer.
    ///
    /// # Errors
    /// [`AmbientOcclusionError`].
    pub fn validate(&self) -> Result<(), AmbientOcclusionError> {
        let wrong = |field, found, bound| AmbientOcclusionError {
            field,
            found,
            bound,
        };
        if !(1..=RAYS_MAX).contains(&self.rays) {
            return Err(wrong("number of rays", self.rays.to_string(), "1 to 256"));
        }
        if !(self.reach > 0.0 && self.reach <= 1e100) {
            return Err(wrong(
                "reach",
                format!("{:?}", self.reach),
                "above 0, up to 1e100",
            ));
        }
        Ok(())
    }
}

//! Isosurfaces: where the field, trilinear between voxels, has a value.
//!
//! Space: data values, linear colours.

use serde::{Deserialize, Serialize};

/// Most isosurfaces of a picture.
pub const ISOSURFACES_MAX: usize = 8;

/// Voxels may be floats: values that are the same to them are.
const ROUNDING: f64 = f32::EPSILON as f64;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Isosurface {
    /// Data value.
    pub value: f64,
    /// Linear RGB, 0 to 1.
    pub color: [f32; 3],
    /// Of what passes it, whatever the angle; above 0, up to 1.
    pub opacity: f32,
}

impl Isosurface {
    /// Opaque, in the colour of bone.
    #[must_use]
    pub fn new(value: f64) -> Self {
        Self {
            value,
            color: [0.87, 0.79, 0.65],
            opacity: 1.0,
        }
    }

    /// Premultiplied linear RGBA.
    #[must_use]
    pub fn premultiplied(&self) -> [f32; 4] {
        let ([r, g, b], a) = (self.color, self.opacity);
        [r * a, g * a, b * a, a]
    }

    /// Whether it can be between voxels of a range, in either order: some are less, and others are not.
    #[must_use]
    pub fn is_within(&self, [a, b]: [f64; 2]) -> bool {
        let (low, high) = (a.min(b), a.max(b));
        low < self.value && self.value <= high + high.abs() * ROUNDING
    }
}

/// What is wrong with isosurfaces.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum IsosurfaceError {
    /// A mode shows nothing else.
    #[error("there is none; mode iso needs one at least")]
    Missing,
    /// Too many.
    #[error("found {found}, at most {ISOSURFACES_MAX} are shown")]
    Count {
        /// Found.
        found: usize,
    },
    /// A number of one.
    #[error("{field} of isosurface {at} is {found}; it must be {bound}")]
    Number {
        /// Which, from 1.
        at: usize,
        /// Of that.
        field: &'static str,
        /// Found.
        found: f64,
        /// What it must be.
        bound: &'static str,
    },
}

/// Checks what comes from a command line, a file or a peer.
///
/// # Errors
/// [`IsosurfaceError`].
pub fn validate(surfaces: &[Isosurface]) -> Result<(), IsosurfaceError> {
    let found = surfaces.len();
    if found > ISOSURFACES_MAX {
        return Err(IsosurfaceError::Count { found });
    }
    for (at, surface) in surfaces.iter().enumerate() {
        let wrong = |field, found, bound| IsosurfaceError::Number {
            at: at + 1,
            field,
            found,
            bound,
        };
        if !surface.value.is_finite() {
            return Err(wrong("value", surface.value, "a finite number"));
        }
        if let Some(&c) = surface.color.iter().find(|c| !(0.0..=1.0).contains(*c)) {
            return Err(wrong("a colour", c.into(), "0 to 1"));
        }
        let opacity = surface.opacity;
        if !(opacity > 0.0 && opacity <= 1.0) {
            return Err(wrong("opacity", opacity.into(), "above 0, up to 1"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let good = Isosurface::new(1.0);
        let refused = |change: fn(&mut Isosurface)| {
            let mut bad = good;
            change(&mut bad);
            validate(&[good, bad]).unwrap_err().to_string()
        };
        assert_eq!(validate(&[good; ISOSURFACES_MAX]), Ok(()));
        assert!(
            validate(&[good; 9])
                .unwrap_err()
                .to_string()
                .contains("found 9")
        );
        assert!(refused(|s| s.value = f64::NAN).starts_with("value of isosurface 2 is NaN"));
        assert!(refused(|s| s.color[2] = 1.5).contains("colour of isosurface 2 is 1.5"));
        assert!(refused(|s| s.opacity = 0.0).contains("opacity of isosurface 2 is 0"));
        assert!(refused(|s| s.opacity = f32::NAN).contains("opacity"));
    }

    #[test]
    fn it_is_between_voxels_whose_values_enclose_it() {
        let surface = Isosurface::new(2.0);
        for (range, is_within) in [
            ([1.0, 2.0], true),
            ([3.0, 1.9], true),
            ([1.0, f64::from(2.0_f32.next_down())], true),
            ([2.0, 2.0], false),
            ([2.0, 3.0], false),
            ([1.0, 1.9], false),
        ] {
            assert_eq!(surface.is_within(range), is_within);
        }
    }
}

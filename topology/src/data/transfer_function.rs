//! 1D transfer functions: data value → colour and opacity.
//!
//! Convention: points in data units, linear in between, clamped outside; interpolate first,
//! classify after. `opacity` is per `unit_distance` (world units): a step `s` gets
//! `1 − (1 − opacity)^(s / unit_distance)`. Colours are linear RGB, not premultiplied.

use serde::{Deserialize, Serialize};

/// Largest number of points.
pub const POINTS_MAX: usize = 4096;

/// Largest value of a point, either sign: differences of values, and their products, are finite.
const VALUE_MAX: f64 = 1e100;

/// A point of a transfer function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferPoint {
    /// Data value.
    pub value: f64,
    /// Linear RGB, 0 … 1.
    pub color: [f64; 3],
    /// Opacity per unit distance, 0 … 1.
    pub opacity: f64,
}

/// A transfer function; its points ascend in value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferFunction {
    /// World units that `opacity` refers to; `None`: the volume's smallest spacing.
    #[serde(default)]
    pub unit_distance: Option<f64>,
    /// Ascending in value; two of one value make a step.
    pub points: Vec<TransferPoint>,
}

/// What is wrong with a transfer function.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferFunctionError {
    /// No points, or too many.
    #[error("a transfer function has 1 to {POINTS_MAX} points, found {found}")]
    PointCount {
        /// Points found.
        found: usize,
    },
    /// A number out of its bounds.
    #[error("point {index}: {field} is {found}; it must be {bound}")]
    Number {
        /// 0-based point.
        index: usize,
        /// Field.
        field: &'static str,
        /// Number found.
        found: f64,
        /// What it must be.
        bound: &'static str,
    },
    /// Values that do not ascend.
    #[error(
        "point {index}: value {found} is below the value {before} before it; points must ascend"
    )]
    Order {
        /// 0-based point.
        index: usize,
        /// Value found.
        found: f64,
        /// Value of the point before.
        before: f64,
    },
    /// A unit distance that is no positive finite number.
    #[error("unit_distance is {found}; it must be a positive finite number")]
    UnitDistance {
        /// Number found.
        found: f64,
    },
}

impl TransferFunction {
    /// A transparent-to-opaque ramp from blue over white to red between two data values, for
    /// volumes that come without one.
    #[must_use]
    pub fn ramp(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let at = |f: f64, color, opacity| TransferPoint {
            value: low + (high - low) * f,
            color,
            opacity,
        };
        Self {
            unit_distance: None,
            points: vec![
                at(0.0, [0.10, 0.15, 0.35], 0.0),
                at(0.25, [0.25, 0.45, 0.80], 0.01),
                at(0.5, [0.85, 0.80, 0.70], 0.06),
                at(0.75, [0.95, 0.60, 0.25], 0.20),
                at(1.0, [1.0, 0.95, 0.85], 0.50),
            ],
        }
    }

    /// Checks every number; what comes from a file or a peer goes through here before use.
    ///
    /// # Errors
    /// [`TransferFunctionError`] with the first number that is out of bounds.
    pub fn validate(&self) -> Result<(), TransferFunctionError> {
        if !(1..=POINTS_MAX).contains(&self.points.len()) {
            return Err(TransferFunctionError::PointCount {
                found: self.points.len(),
            });
        }
        if let Some(found) = self.unit_distance
            && !(found.is_finite() && found > 0.0)
        {
            return Err(TransferFunctionError::UnitDistance { found });
        }
        let mut before = f64::NEG_INFINITY;
        for (index, point) in self.points.iter().enumerate() {
            let number = |field, found, bound| TransferFunctionError::Number {
                index,
                field,
                found,
                bound,
            };
            if !(-VALUE_MAX..=VALUE_MAX).contains(&point.value) {
                return Err(number("value", point.value, "finite, and not beyond 1e100"));
            }
            if point.value < before {
                return Err(TransferFunctionError::Order {
                    index,
                    found: point.value,
                    before,
                });
            }
            before = point.value;
            for found in point.color {
                if !(0.0..=1.0).contains(&found) {
                    return Err(number("color", found, "0 to 1"));
                }
            }
            if !(0.0..=1.0).contains(&point.opacity) {
                return Err(number("opacity", point.opacity, "0 to 1"));
            }
        }
        Ok(())
    }

    /// Colour and opacity (per unit distance) of a data value: linear in between, clamped
    /// outside. O(log points).
    #[must_use]
    pub fn classify(&self, value: f64) -> ([f64; 3], f64) {
        let above = self.points.partition_point(|p| p.value <= value);
        let Some(left) = above.checked_sub(1) else {
            return self
                .points
                .first()
                .map_or(([0.0; 3], 0.0), |p| (p.color, p.opacity));
        };
        let a = &self.points[left];
        let Some(b) = self.points.get(above) else {
            return (a.color, a.opacity);
        };
        let t = (value - a.value) / (b.value - a.value);
        let mix = |x: f64, y: f64| x + (y - x) * t;
        (
            std::array::from_fn(|c| mix(a.color[c], b.color[c])),
            mix(a.opacity, b.opacity),
        )
    }

    /// Largest opacity (per unit distance) that any value in `low..=high` gets.
    #[must_use]
    pub fn max_opacity(&self, low: f64, high: f64) -> f64 {
        let ends = self.classify(low).1.max(self.classify(high).1);
        let from = self.points.partition_point(|p| p.value < low);
        let to = self.points.partition_point(|p| p.value <= high);
        self.points[from.min(to)..to]
            .iter()
            .map(|p| p.opacity)
            .fold(ends, f64::max)
    }
}

/// Opacity of a step: `1 − (1 − opacity)^(step / unit_distance)`.
#[must_use]
pub fn step_opacity(opacity: f64, step: f64, unit_distance: f64) -> f64 {
    1.0 - (1.0 - opacity).powf(step / unit_distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> TransferFunction {
        let p = |value, opacity| TransferPoint {
            value,
            color: [opacity, 0.0, 1.0],
            opacity,
        };
        TransferFunction {
            unit_distance: None,
            points: vec![p(10.0, 0.2), p(20.0, 0.6), p(20.0, 1.0), p(30.0, 0.0)],
        }
    }

    #[test]
    fn linear_in_between_clamped_outside_a_step_where_two_points_meet() {
        let tf = two();
        assert!((tf.classify(15.0).1 - 0.4).abs() < 1e-12);
        assert!((tf.classify(-5.0).1 - 0.2).abs() < 1e-12);
        assert!((tf.classify(99.0).1).abs() < 1e-12);
        assert!((tf.classify(20.0).1 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn max_opacity_sees_points_inside_the_range() {
        let tf = two();
        assert!((tf.max_opacity(18.0, 25.0) - 1.0).abs() < 1e-12);
        assert!((tf.max_opacity(10.0, 15.0) - 0.4).abs() < 1e-12);
        assert!(tf.max_opacity(31.0, 40.0) < 1e-12);
    }

    #[test]
    fn bad_points_are_named() {
        let mut tf = two();
        tf.points[1].opacity = 1.5;
        let text = tf.validate().unwrap_err().to_string();
        assert_eq!(text, "point 1: opacity is 1.5; it must be 0 to 1");
        tf.points[1] = TransferPoint {
            value: 5.0,
            ..tf.points[0]
        };
        assert!(matches!(
            tf.validate(),
            Err(TransferFunctionError::Order { index: 1, .. })
        ));
        tf.points.clear();
        assert!(matches!(
            tf.validate(),
            Err(TransferFunctionError::PointCount { found: 0 })
        ));
    }

    #[test]
    fn half_steps_compose_to_a_whole_one() {
        let half = step_opacity(0.3, 0.5, 1.0);
        assert!((1.0 - (1.0 - half) * (1.0 - half) - 0.3).abs() < 1e-12);
    }
}

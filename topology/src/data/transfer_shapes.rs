//! 2D transfer functions: data value and gradient length → colour and opacity, as boxes and Gaussians.
//!
//! Convention: gradient lengths are in data units per smallest spacing. The function is what its nodes
//! say: a grid over the shapes' rectangles and one node beyond, bilinear in between, nothing outside. What is
//! narrower than nodes are apart counts as so wide.
//! Where shapes overlap, what passes one is dimmed by the next, and their colours mix by opacity.
//!
//! Source: Kniss, Kindlmann, Hansen, "Multidimensional transfer functions for interactive volume
//! rendering", IEEE TVCG 8(3), 2002.

use serde::{Deserialize, Serialize};

/// Most shapes of a function.
pub const SHAPES_MAX: usize = 64;
/// Nodes along the values.
pub const VALUE_NODES: usize = 256;
/// Nodes along the gradient lengths, the first at 0.
pub const GRADIENT_NODES: usize = 64;
/// Largest value or gradient length, either sign.
const NUMBER_MAX: f64 = 1e100;
/// An edge holds what is so near, as a part of the rectangle's side: nodes on an edge are on one side of it
/// wherever they are worked out.
const EDGE_SLACK: f64 = 1e-6;
/// Standard deviations from a Gaussian's middle to its edge.
const DEVIATIONS: f64 = 3.0;

/// How opacity is spread over a rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShapeKind {
    /// The same everywhere.
    Box,
    /// Most in the middle; the edges are three standard deviations from it.
    Gaussian,
}

/// A part of a 2D transfer function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferShape {
    /// Which.
    pub kind: ShapeKind,
    /// From and to, data values.
    pub value: [f64; 2],
    /// From and to, at least 0, data units per smallest spacing.
    pub gradient: [f64; 2],
    /// Linear RGB, 0 … 1.
    pub color: [f64; 3],
    /// Largest opacity per unit distance, 0 … 1.
    pub opacity: f64,
}

/// What is wrong with shapes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferShapeError {
    /// Too many.
    #[error("a 2D transfer function has at most {SHAPES_MAX} shapes, found {found}")]
    Count {
        /// Shapes found.
        found: usize,
    },
    /// A field out of its bounds.
    #[error("shape {index}: {field} is {found:?}; it must be {bound}")]
    Field {
        /// 0-based shape.
        index: usize,
        /// Field.
        field: &'static str,
        /// Numbers found.
        found: Vec<f64>,
        /// What it must be.
        bound: &'static str,
    },
}

/// Checks what comes from a file or a peer.
///
/// # Errors
/// [`TransferShapeError`] with the first field that is out of bounds.
pub fn validate(shapes: &[TransferShape]) -> Result<(), TransferShapeError> {
    if shapes.len() > SHAPES_MAX {
        return Err(TransferShapeError::Count {
            found: shapes.len(),
        });
    }
    for (index, shape) in shapes.iter().enumerate() {
        let ascends = |[from, to]: [f64; 2], least: f64| {
            let width = (to - from) / from.abs().max(to.abs());
            least <= from && to <= NUMBER_MAX && width >= EDGE_SLACK
        };
        let is_part = |v: &f64| (0.0..=1.0).contains(v);
        let (value, gradient) = (shape.value, shape.gradient);
        let checks = [
            (
                "value",
                ascends(value, -NUMBER_MAX),
                value.to_vec(),
                "two finite numbers, the second greater",
            ),
            (
                "gradient",
                ascends(gradient, 0.0),
                gradient.to_vec(),
                "two numbers from 0 to 1e100, the second greater",
            ),
            (
                "color",
                shape.color.iter().all(is_part),
                shape.color.to_vec(),
                "three numbers from 0 to 1",
            ),
            (
                "opacity",
                is_part(&shape.opacity),
                vec![shape.opacity],
                "0 to 1",
            ),
        ];
        if let Some((field, _, found, bound)) = checks.into_iter().find(|(_, is_good, ..)| !is_good)
        {
            return Err(TransferShapeError::Field {
                index,
                field,
                found,
                bound,
            });
        }
    }
    Ok(())
}

impl TransferShape {
    /// Opacity per unit distance; 0 outside of the rectangle, whose sides count as long as nodes are apart.
    fn opacity_at(&self, nodes: &NodeGrid, value: f64, gradient: f64) -> f64 {
        let mut opacity = self.opacity;
        let sides = [
            (self.value, value, nodes.spacing()),
            (self.gradient, gradient, nodes.gradient_spacing()),
        ];
        for ([from, to], at, least) in sides {
            let half = 0.5 * (to - from);
            // −1 to 1 from edge to edge.
            let off = (at - from - half) / half.max(0.5 * least);
            if off.abs() > 1.0 + EDGE_SLACK {
                return 0.0;
            }
            if self.kind == ShapeKind::Gaussian {
                opacity *= (-0.5 * (DEVIATIONS * off).powi(2)).exp();
            }
        }
        opacity
    }
}

/// Where the nodes of a function are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeGrid {
    /// Values of the first and the last column of nodes; nothing is seen there.
    pub values: [f64; 2],
    /// Gradient length of the last row but one; of the first it is 0.
    pub gradient: f64,
}

impl NodeGrid {
    /// The nodes of a function; `None` where there is no shape.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "256")]
    pub fn of(shapes: &[TransferShape]) -> Option<Self> {
        let low = shapes.iter().map(|s| s.value[0]).reduce(f64::min)?;
        let high = shapes.iter().map(|s| s.value[1]).reduce(f64::max)?;
        let gradient = shapes.iter().map(|s| s.gradient[1]).reduce(f64::max)?;
        let spacing = (high - low) / (VALUE_NODES - 3) as f64;
        Some(Self {
            values: [low - spacing, high + spacing],
            gradient,
        })
    }

    /// Colour and opacity (per unit distance) of a value with a gradient of some length, at a node.
    #[must_use]
    pub fn classify(&self, shapes: &[TransferShape], value: f64, gradient: f64) -> ([f64; 3], f64) {
        let (mut through, mut sum, mut color) = (1.0, 0.0, [0.0; 3]);
        for shape in shapes {
            let opacity = shape.opacity_at(self, value, gradient);
            through *= 1.0 - opacity;
            sum += opacity;
            color = std::array::from_fn(|c| color[c] + opacity * shape.color[c]);
        }
        if sum > 0.0 {
            (color.map(|c| c / sum), 1.0 - through)
        } else {
            ([0.0; 3], 0.0)
        }
    }

    /// Distance of neighbouring nodes along the values.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "256")]
    pub fn spacing(&self) -> f64 {
        (self.values[1] - self.values[0]) / (VALUE_NODES - 1) as f64
    }

    /// Distance of neighbouring nodes along the gradient lengths.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "64")]
    pub fn gradient_spacing(&self) -> f64 {
        self.gradient / (GRADIENT_NODES - 2) as f64
    }
}

/// Whether samples with values between these two, in either order, can be seen.
#[must_use]
pub fn can_show(shapes: &[TransferShape], [a, b]: [f64; 2]) -> bool {
    let Some(grid) = NodeGrid::of(shapes) else {
        return false;
    };
    // A shape fades to the nodes beside its own: two of them, where its edge is between nodes.
    let beyond = 2.0 * grid.spacing();
    shapes.iter().any(|shape| {
        let [low, high] = shape.value;
        shape.opacity > 0.0 && low - beyond <= a.max(b) && a.min(b) <= high + beyond
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(kind: ShapeKind, value: [f64; 2], gradient: [f64; 2]) -> TransferShape {
        TransferShape {
            kind,
            value,
            gradient,
            color: [1.0, 0.5, 0.0],
            opacity: 0.5,
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = shape(ShapeKind::Box, [1.0, 2.0], [0.0, 3.0]);
        assert_eq!(validate(&[good; SHAPES_MAX]), Ok(()));
        let said = |shapes: &[TransferShape]| validate(shapes).unwrap_err().to_string();
        assert!(said(&[good; SHAPES_MAX + 1]).contains("found 65"));
        let mut bad = good;
        bad.value = [2.0, f64::NAN];
        assert!(said(&[good, bad]).starts_with("shape 1: value is [2.0, NaN]"));
        bad = good;
        bad.gradient = [-1.0, 1.0];
        assert!(said(&[bad]).contains("gradient is [-1.0, 1.0]"));
        bad = good;
        bad.opacity = 1.5;
        assert!(said(&[bad]).contains("opacity is [1.5]; it must be 0 to 1"));
    }

    #[test]
    fn boxes_end_at_their_edges_and_gaussians_fade_to_them() {
        let of = |shapes: &[TransferShape], value, gradient| {
            NodeGrid::of(shapes)
                .unwrap()
                .classify(shapes, value, gradient)
        };
        let square = [shape(ShapeKind::Box, [1.0, 3.0], [0.0, 4.0])];
        assert!((of(&square, 1.0, 4.0).1 - 0.5).abs() < 1e-12);
        assert!(of(&square, 3.01, 1.0).1 <= 0.0);
        assert!(of(&square, 2.0, 4.1).1 <= 0.0);
        let bell = [shape(ShapeKind::Gaussian, [1.0, 3.0], [0.0, 4.0])];
        assert!((of(&bell, 2.0, 2.0).1 - 0.5).abs() < 1e-12);
        let deviation = of(&bell, 2.0 + 1.0 / 3.0, 2.0).1;
        assert!((deviation - 0.5 * (-0.5_f64).exp()).abs() < 1e-12);
        let both = [square[0], bell[0]];
        assert!((of(&both, 2.0, 2.0).1 - 0.75).abs() < 1e-12);
    }

    #[test]
    fn nodes_beside_the_outermost_edges_show_nothing() {
        let shapes = [
            shape(ShapeKind::Box, [10.0, 20.0], [0.0, 4.0]),
            shape(ShapeKind::Box, [-5.0, 12.0], [1.0, 3.0]),
        ];
        let grid = NodeGrid::of(&shapes).unwrap();
        let [low, high] = grid.values;
        assert!(
            grid.classify(&shapes, low, 2.0).1 <= 0.0 && grid.classify(&shapes, high, 2.0).1 <= 0.0
        );
        assert!(grid.classify(&shapes, low + grid.spacing(), 2.0).1 > 0.0);
        assert!(grid.classify(&shapes, 15.0, grid.gradient).1 > 0.0);
        assert!(
            grid.classify(&shapes, 15.0, grid.gradient + grid.gradient_spacing())
                .1
                <= 0.0
        );
        let wide = shape(ShapeKind::Box, [0.0, 1e4], [0.0, 5e3]);
        let narrow = [wide, shape(ShapeKind::Box, [5.0, 6.0], [5.0, 60.0])];
        let grid_2 = NodeGrid::of(&narrow).unwrap();
        let (nodes, most) = (0..VALUE_NODES)
            .map(|n| grid_2.values[0] + grid_2.spacing() * n as f64)
            .map(|value| grid_2.classify(&narrow, value, 0.0).1)
            .fold((0, 0.0), |(n, m), o| (n + 1, f64::max(m, o)));
        assert!(
            nodes == VALUE_NODES && most > 0.7,
            "the narrow one is seen: {most}"
        );
        assert!(can_show(&shapes, [-9.0, -5.1]) && !can_show(&shapes, [-9.0, -6.0]));
        assert!(can_show(&shapes, [14.0, 13.0]) && !can_show(&[], [0.0, 1.0]));
    }
}

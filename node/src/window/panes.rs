//! The panes of the window: the picture of the volume alone, or with three slices in a grid of two by two.

use egui::{Rect, vec2};

/// Space between two, points.
const GAP: f32 = 2.0;

/// A part of the window with a picture of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Volume,
    /// The slice across this axis of the grid.
    Slice(usize),
}

/// How many there are at most.
pub(super) const PANES: usize = 4;

impl Pane {
    pub(super) fn index(self) -> usize {
        match self {
            Self::Volume => 0,
            Self::Slice(axis) => axis + 1,
        }
    }
}

/// Where panes are, in the same units as the whole.
pub(super) fn split(whole: Rect, with_slices: bool) -> Vec<(Pane, Rect)> {
    if !with_slices {
        return vec![(Pane::Volume, whole)];
    }
    let size = ((whole.size() - vec2(GAP, GAP)) * 0.5).max(vec2(1.0, 1.0));
    let at = |column: f32, row: f32| {
        let off = vec2(column, row) * (size + vec2(GAP, GAP));
        Rect::from_min_size(whole.min + off, size)
    };
    vec![
        (Pane::Slice(2), at(0.0, 0.0)),
        (Pane::Volume, at(1.0, 0.0)),
        (Pane::Slice(1), at(0.0, 1.0)),
        (Pane::Slice(0), at(1.0, 1.0)),
    ]
}

//! The ruler over the picture: a line between two points of the world, and how long it is.

use crate::{
    overlay::{screen::Screen, shadowed},
    short_numbers::short,
};
use brickmesh_topology::VolumeDescription;
use egui::{Align2, Color32, Stroke, Ui, vec2};
use glam::DVec3;

/// Green on dark: no default transfer function has it.
const COLOR: Color32 = Color32::from_rgb(120, 240, 120);
/// Size of the number, and how far it is from the line's end; points.
const TEXT: f32 = 14.0;
const OFF: f32 = 8.0;
/// Radius of an end, points.
const RADIUS: f32 = 3.0;

/// Shows a ruler over a picture.
pub(super) fn show(ui: &Ui, ends: [DVec3; 2], volume: &VolumeDescription, screen: &Screen) {
    let [Some(from), Some(to)] = ends.map(|end| screen.point(end)) else {
        return;
    };
    let painter = ui.painter().with_clip_rect(screen.rect);
    painter.line_segment([from, to], Stroke::new(1.5, COLOR));
    for end in [from, to] {
        painter.circle_filled(end, RADIUS, COLOR);
    }
    let unit = volume
        .unit
        .map_or(String::new(), |unit| format!(" {}", unit.symbol()));
    let length = short((ends[1] - ends[0]).length()) + &unit;
    let at = to + vec2(OFF, -OFF);
    shadowed(&painter, at, Align2::LEFT_BOTTOM, &length, TEXT, COLOR);
}

//! 2D transfer function: its shapes, a line of numbers each.

use super::to_byte;
use brickmesh_topology::{
    RenderSettings,
    data::transfer_shapes::{SHAPES_MAX, ShapeKind, TransferShape, validate},
};
use egui::{DragValue, Grid, Ui};

/// What a drag over a point changes a number by, as a part of the function's width.
const DRAG_SPEED: f64 = 1e-3;
/// Gradient lengths of a new shape, as a part of the function's width.
const NEW_GRADIENTS: [f64; 2] = [0.02, 0.2];

/// Shows the shapes of a scene; adds, changes and removes them.
#[expect(clippy::cast_possible_truncation, reason = "colours")]
pub(super) fn show(ui: &mut Ui, settings: &mut RenderSettings) {
    let [low, high] = settings.transfer.ends();
    let width = (high - low).abs().max(f64::MIN_POSITIVE);
    let mut shapes = settings.transfer_2d.clone();
    ui.horizontal(|ui| {
        for (name, kind) in [("Add box", ShapeKind::Box), ("Add Gaussian", ShapeKind::Gaussian)] {
            let button = egui::Button::new(name);
            let has_room = shapes.len() < SHAPES_MAX;
            let hint = "seen is then what has these values and changes so from voxel to voxel, in place of the function above";
            if ui.add_enabled(has_room, button).on_hover_text(hint).clicked() {
                shapes.push(TransferShape {
                    kind,
                    value: [low + 0.25 * width, low + 0.75 * width],
                    gradient: NEW_GRADIENTS.map(|part| part * width),
                    color: [0.9, 0.7, 0.5],
                    opacity: 0.2,
                });
            }
        }
    });
    let mut removed = None;
    Grid::new("shapes").striped(true).show(ui, |ui| {
        if !shapes.is_empty() {
            for name in ["", "Values", "", "Gradients", "", "Opacity", ""] {
                ui.small(name);
            }
            ui.end_row();
        }
        for (i, shape) in shapes.iter_mut().enumerate() {
            let mut color = shape.color.map(|c| to_byte(c as f32));
            if ui.color_edit_button_srgb(&mut color).changed() {
                shape.color = color.map(|c| f64::from(c) / 255.0);
            }
            let speed = DRAG_SPEED * width;
            let number = |value| DragValue::new(value).speed(speed);
            let pairs = [&mut shape.value, &mut shape.gradient];
            for number in pairs.into_iter().flatten().map(number) {
                ui.add(number);
            }
            ui.add(
                DragValue::new(&mut shape.opacity)
                    .speed(0.005)
                    .range(0.0..=1.0),
            );
            if ui.small_button("×").on_hover_text("remove").clicked() {
                removed = Some(i);
            }
            ui.end_row();
        }
    });
    if let Some(shape) = removed {
        shapes.remove(shape);
    }
    // Ends that cross stay where they were.
    if validate(&shapes).is_ok() {
        settings.transfer_2d = shapes;
    }
}

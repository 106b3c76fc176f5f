//! 2D transfer function: its shapes over the histogram of values and gradients, and a line of numbers each.

use super::to_byte;
use brickmesh_topology::{
    Manifest, RenderSettings,
    data::{
        gradient_histogram::{GRADIENT_BINS, GradientHistogram, VALUE_BINS},
        transfer_shapes::{SHAPES_MAX, ShapeKind, TransferShape, validate},
    },
};
use egui::{
    Color32, ColorImage, CursorIcon, DragValue, Grid, Pos2, Rect, ScrollArea, Sense, Stroke,
    StrokeKind, TextureHandle, TextureOptions, Ui, Vec2, epaint::EllipseShape,
};

/// What a drag over a point changes a number by, as a part of the function's width.
const DRAG_SPEED: f64 = 1e-3;
/// Gradient lengths of a new shape, as parts of those that are shown.
const NEW_GRADIENTS: [f64; 2] = [0.1, 0.6];
/// Gradient lengths that are shown where none are known, as a part of the function's width.
const GRADIENTS: f64 = 0.4;
/// Sizes of numbers that are written without a power of ten.
const PLAIN: std::ops::Range<f64> = 1e-3..1e7;

/// Height of the picture of the histogram, points.
const HEIGHT: f32 = 130.0;
/// As far beyond the picture shapes are drawn, points: a round one takes a corner for every few of them.
const BEYOND: f32 = 2_000.0;
/// Side of a corner that can be dragged, points.
const CORNER: f32 = 9.0;
/// Shapes can be seen through.
const FILL_ALPHA: f32 = 0.35;

/// See the module.
#[derive(Default)]
pub(super) struct ShapesEditor {
    /// Of the histogram.
    picture: Option<TextureHandle>,
    /// The shape that is dragged, as it was before.
    held: Option<TransferShape>,
}

impl std::fmt::Debug for ShapesEditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShapesEditor").finish_non_exhaustive()
    }
}

/// Where values and gradients are on the screen.
#[derive(Clone, Copy)]
struct Axes {
    rect: Rect,
    /// Data values from left to right.
    values: [f64; 2],
    /// Gradient length at the upper edge; 0 is at the lower one.
    gradient_max: f64,
}

impl Axes {
    /// Of the histogram; of the function's values where there is none.
    fn new(rect: Rect, settings: &RenderSettings, manifest: &Manifest) -> Self {
        let volume = manifest.volume();
        let [low, high] = settings.transfer.ends();
        let of_function = ([low, high], GRADIENTS * (high - low).abs());
        let of = |g: &GradientHistogram| {
            let mut values = g.values.map(|stored| volume.value(stored));
            values.sort_by(f64::total_cmp);
            (values, g.gradient_max * volume.value_scale.abs())
        };
        let (values, gradient_max) = manifest.gradients().map_or(of_function, of);
        Self {
            rect,
            values,
            gradient_max: gradient_max.max(f64::MIN_POSITIVE),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "places on a screen")]
    fn point(&self, value: f64, gradient: f64) -> Pos2 {
        let [low, high] = self.values;
        let across = (value - low) / (high - low).max(f64::MIN_POSITIVE);
        let up = gradient / self.gradient_max;
        Pos2::new(
            self.rect.left() + across as f32 * self.rect.width(),
            self.rect.bottom() - up as f32 * self.rect.height(),
        )
    }

    /// How far a movement goes, in value and gradient.
    fn moved(&self, by: Vec2) -> [f64; 2] {
        let [low, high] = self.values;
        [
            f64::from(by.x / self.rect.width()) * (high - low),
            -f64::from(by.y / self.rect.height()) * self.gradient_max,
        ]
    }

    fn rect_of(&self, shape: &TransferShape) -> Rect {
        let [low, high] = [0, 1].map(|end| self.point(shape.value[end], shape.gradient[end]));
        let drawn = self.rect.expand(BEYOND);
        Rect::from_two_pos(drawn.clamp(low), drawn.clamp(high))
    }
}

impl ShapesEditor {
    /// Shows the shapes of a scene; adds, changes and removes them.
    pub(super) fn show(&mut self, ui: &mut Ui, settings: &mut RenderSettings, manifest: &Manifest) {
        let mut shapes = settings.transfer_2d.clone();
        let gradient_max = self.canvas(ui, settings, &mut shapes, manifest);
        table(ui, settings, gradient_max, &mut shapes);
        // Ends that cross stay where they were.
        if validate(&shapes).is_ok() {
            settings.transfer_2d = shapes;
        }
    }

    /// The histogram, with the shapes over it, which can be moved and made larger; the largest gradient length that
    /// is shown.
    fn canvas(
        &mut self,
        ui: &mut Ui,
        settings: &RenderSettings,
        shapes: &mut [TransferShape],
        manifest: &Manifest,
    ) -> f64 {
        let size = Vec2::new(ui.available_width(), HEIGHT);
        let (rect, over) = ui.allocate_exact_size(size, Sense::hover());
        let axes = Axes::new(rect, settings, manifest);
        let painter = ui.painter().with_clip_rect(rect);
        painter.rect_filled(rect, 0.0, Color32::BLACK);
        if let Some(gradients) = manifest.gradients() {
            let is_flipped = manifest.volume().value_scale < 0.0;
            let picture = self.picture.get_or_insert_with(|| {
                let image = picture(gradients, is_flipped);
                ui.ctx()
                    .load_texture("gradients", image, TextureOptions::NEAREST)
            });
            let whole = Rect::from_min_max(Pos2::ZERO, Pos2::new(1.0, 1.0));
            painter.image(picture.id(), rect, whole, Color32::WHITE);
        } else {
            let text = "no histogram: nothing changes, or an older program imported it";
            let font = egui::FontId::proportional(10.0);
            let at = rect.center_top();
            painter.text(at, egui::Align2::CENTER_TOP, text, font, Color32::GRAY);
        }
        over.on_hover_text("values to the right, changes from voxel to voxel upwards; drag a shape, or a corner of it");
        for (at, shape) in shapes.iter_mut().enumerate() {
            edit(ui, &axes, at, shape, &mut self.held);
            draw(&painter, axes.rect_of(shape), shape);
        }
        axes.gradient_max
    }
}

/// Voxels by value and gradient, in logarithms: the more, the lighter.
fn picture(of: &GradientHistogram, is_flipped: bool) -> ColorImage {
    let most = of.counts.iter().copied().max().unwrap_or(1).max(1);
    let mut image = ColorImage::filled([VALUE_BINS, GRADIENT_BINS], Color32::BLACK);
    for (row, counts) in of.counts.chunks_exact(VALUE_BINS).rev().enumerate() {
        for (column, count) in counts.iter().enumerate() {
            let part = f64::from(*count).ln_1p() / f64::from(most).ln_1p();
            let column = if is_flipped {
                VALUE_BINS - 1 - column
            } else {
                column
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of 1"
            )]
            let grey = (part * 220.0) as u8;
            image.pixels[row * VALUE_BINS + column] = Color32::from_gray(grey);
        }
    }
    image
}

#[expect(clippy::cast_possible_truncation, reason = "colours")]
fn draw(painter: &egui::Painter, rect: Rect, shape: &TransferShape) {
    let [r, g, b] = shape.color.map(|c| to_byte(c as f32));
    let color = Color32::from_rgb(r, g, b);
    let (fill, stroke) = (color.gamma_multiply(FILL_ALPHA), Stroke::new(1.5, color));
    match shape.kind {
        ShapeKind::Box => painter.rect(rect, 0.0, fill, stroke, StrokeKind::Middle),
        ShapeKind::Gaussian => painter.add(EllipseShape {
            center: rect.center(),
            radius: rect.size() / 2.0,
            fill,
            stroke,
            angle: 0.0,
        }),
    };
    for corner in corners(rect) {
        let square = Rect::from_center_size(corner, Vec2::splat(CORNER * 0.5));
        painter.rect_filled(square, 0.0, color);
    }
}

/// Lower and upper end of the values, and of the gradients: (0, 0), (1, 0), (0, 1), (1, 1).
fn corners(rect: Rect) -> [Pos2; 4] {
    [
        rect.left_bottom(),
        rect.right_bottom(),
        rect.left_top(),
        rect.right_top(),
    ]
}

/// Moves a shape, or a corner of it; `held`: the shape as it was when the button went down.
fn edit(
    ui: &Ui,
    axes: &Axes,
    at: usize,
    shape: &mut TransferShape,
    held: &mut Option<TransferShape>,
) {
    let rect = axes.rect_of(shape);
    let id = ui.scope_id().with(("shape", at));
    let corners = corners(rect);
    // Corners last: what is asked for later lies above.
    let corners = corners.map(|c| Rect::from_center_size(c, Vec2::splat(CORNER)));
    let parts = [(rect, None)].into_iter();
    let parts = parts.chain(corners.into_iter().zip((0..4).map(Some)));
    for (part, corner) in parts {
        let mut part = part.intersect(axes.rect);
        if !part.is_positive() {
            if corner.is_some() {
                continue;
            }
            // A shape that lies outside can be taken at the border.
            let nearest = axes.rect.clamp(rect.center());
            part = Rect::from_center_size(nearest, Vec2::splat(CORNER)).intersect(axes.rect);
        }
        let handle = ui.interact(part, id.with(corner), Sense::drag());
        if handle.drag_started() {
            *held = Some(*shape);
        }
        if let Some((by, from)) = handle.total_drag_delta().zip(*held) {
            let moved = moved(from, corner, axes.moved(by));
            // A corner stays on its side of the other one.
            if validate(&[moved]).is_ok() {
                *shape = moved;
            }
        }
        handle.on_hover_cursor(corner.map_or(CursorIcon::Grab, |_| CursorIcon::Crosshair));
    }
}

/// A shape that was moved so far, in value and gradient, or one of its [`corners`] was.
fn moved(from: TransferShape, corner: Option<usize>, by: [f64; 2]) -> TransferShape {
    let [value, gradient] = by;
    match corner {
        None => {
            // It stays above the axis.
            let gradient = gradient.max(-from.gradient[0]);
            TransferShape {
                value: from.value.map(|v| v + value),
                gradient: from.gradient.map(|g| g + gradient),
                ..from
            }
        }
        Some(n) => TransferShape {
            value: with(from.value, n & 1, from.value[n & 1] + value),
            gradient: with(
                from.gradient,
                n >> 1,
                (from.gradient[n >> 1] + gradient).max(0.0),
            ),
            ..from
        },
    }
}

fn with(mut pair: [f64; 2], at: usize, value: f64) -> [f64; 2] {
    pair[at] = value;
    pair
}

/// A line of numbers for each shape.
#[expect(clippy::cast_possible_truncation, reason = "colours")]
fn table(
    ui: &mut Ui,
    settings: &RenderSettings,
    gradient_max: f64,
    shapes: &mut Vec<TransferShape>,
) {
    let [low, high] = settings.transfer.ends();
    let width = (high - low).abs().max(f64::MIN_POSITIVE);
    ui.horizontal(|ui| {
        for (name, kind) in [("Add box", ShapeKind::Box), ("Add Gaussian", ShapeKind::Gaussian)] {
            let button = egui::Button::new(name);
            let has_room = shapes.len() < SHAPES_MAX;
            let hint = "seen is then what has these values and changes so from voxel to voxel, in place of the function above";
            if ui.add_enabled(has_room, button).on_hover_text(hint).clicked() {
                shapes.push(TransferShape {
                    kind,
                    value: [low + 0.25 * width, low + 0.75 * width],
                    gradient: NEW_GRADIENTS.map(|part| part * gradient_max),
                    color: [0.9, 0.7, 0.5],
                    opacity: 0.2,
                });
            }
        }
    });
    let mut removed = None;
    let rows = |ui: &mut Ui| {
        // As narrow as it can be: usual numbers fit into the panel.
        let grid = Grid::new("shapes").striped(true).min_col_width(0.0);
        grid.spacing([4.0; 2]).show(ui, |ui| {
            if !shapes.is_empty() {
                for name in ["", "", "Opacity", "Values", "", "Gradients", ""] {
                    ui.small(name);
                }
                ui.end_row();
            }
            for (i, shape) in shapes.iter_mut().enumerate() {
                if ui.small_button("×").on_hover_text("remove").clicked() {
                    removed = Some(i);
                }
                let mut color = shape.color.map(|c| to_byte(c as f32));
                if ui.color_edit_button_srgb(&mut color).changed() {
                    shape.color = color.map(|c| f64::from(c) / 255.0);
                }
                ui.add(
                    DragValue::new(&mut shape.opacity)
                        .speed(0.005)
                        .range(0.0..=1.0),
                );
                let speed = DRAG_SPEED * width;
                let number = |value| {
                    let number = DragValue::new(value).speed(speed);
                    number.custom_formatter(in_words)
                };
                let pairs = [&mut shape.value, &mut shape.gradient];
                for number in pairs.into_iter().flatten().map(number) {
                    ui.add(number);
                }
                ui.end_row();
            }
        });
    };
    // Long numbers do not make the panel wider.
    ScrollArea::horizontal().id_salt("shapes").show(ui, rows);
    if let Some(shape) = removed {
        shapes.remove(shape);
    }
}

/// A number with as many decimals as fit, or with a power of ten.
fn in_words(value: f64, decimals: std::ops::RangeInclusive<usize>) -> String {
    if value.abs() <= 0.0 || PLAIN.contains(&value.abs()) {
        egui::emath::format_with_decimals_in_range(value, decimals)
    } else {
        format!("{value:.4e}")
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_corners_move_and_stay_above_the_axis() {
        let shape = TransferShape {
            kind: ShapeKind::Box,
            value: [10.0, 20.0],
            gradient: [2.0, 4.0],
            color: [1.0; 3],
            opacity: 0.5,
        };
        let ends = |s: TransferShape| (s.value, s.gradient);
        let all = moved(shape, None, [5.0, -3.0]);
        assert_eq!(ends(all), ([15.0, 25.0], [0.0, 2.0]));
        let right_top = moved(shape, Some(3), [1.0, 2.0]);
        assert_eq!(ends(right_top), ([10.0, 21.0], [2.0, 6.0]));
        let left_bottom = moved(shape, Some(0), [1.0, -5.0]);
        assert_eq!(ends(left_bottom), ([11.0, 20.0], [0.0, 4.0]));
        // Beyond the other corner is no shape.
        assert!(validate(&[moved(shape, Some(0), [15.0, 0.0])]).is_err());
    }

    #[test]
    fn places_on_the_screen_and_in_the_histogram_belong_together() {
        let axes = Axes {
            rect: Rect::from_min_max(Pos2::new(10.0, 20.0), Pos2::new(110.0, 70.0)),
            values: [-50.0, 150.0],
            gradient_max: 25.0,
        };
        assert_eq!(axes.point(-50.0, 0.0), Pos2::new(10.0, 70.0));
        assert_eq!(axes.point(150.0, 25.0), Pos2::new(110.0, 20.0));
        assert_eq!(axes.moved(Vec2::new(50.0, -12.5)), [100.0, 6.25]);
    }
}

//! Transfer function editor: histogram, points of opacity and colour, presets.
//!
//! The opacity axis is of square roots: opacities per voxel that matter are small.

use super::{Asked, Facts, to_byte};
use crate::{short_numbers::short, transfer, window::panes::Pane};
use brickmesh_topology::{
    Manifest, RenderSettings, TransferFunction,
    data::{
        default_transfer::{Interest, interest, stretched},
        presets::PRESETS,
    },
};
use egui::{
    Color32, ComboBox, DragValue, Key, Mesh, PointerButton, Pos2, Rect, Response, Sense, Shape,
    Slider, SliderClamping, Stroke, Ui, Vec2, pos2, vec2,
};
use std::path::PathBuf;

/// Heights of the curve and of the colours, in points.
const CURVE_HEIGHT: f32 = 140.0;
const COLORS_HEIGHT: f32 = 14.0;
/// Height of the presets' list, in points.
const MENU_HEIGHT: f32 = 500.0;
/// A point is under the pointer from so near, in points.
const NEAR: f32 = 9.0;
/// Columns of the colour strip, and of what is drawn freehand.
const COLUMNS: u16 = 128;
/// What a notch of the wheel zooms by: `exp` of its points times this.
const ZOOM_PER_POINT: f32 = 0.005;
/// Opacity in multiples of that per smallest spacing.
const DENSITIES: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TransferEditor {
    /// Values at the left and right end; as the function and the data need it where none are chosen.
    view: Option<[f64; 2]>,
    is_linear: bool,
    is_freehand: bool,
    selected: Option<usize>,
    is_dragged: bool,
    /// Value and opacity where freehand drawing is.
    drawn: Option<[f64; 2]>,
    /// The view while a button is down: it would follow what is dragged.
    held_view: Option<[f64; 2]>,
    /// The user's own presets, as they were when the list was opened.
    own: Option<Vec<(String, PathBuf)>>,
    /// What the function is to be saved as.
    name: String,
}

/// Where values and opacities are on the screen.
struct Axes {
    rect: Rect,
    view: [f64; 2],
}

#[expect(clippy::cast_possible_truncation, reason = "points of a screen")]
impl Axes {
    fn x(&self, value: f64) -> f32 {
        let [low, high] = self.view;
        self.rect.left() + self.rect.width() * ((value - low) / (high - low)) as f32
    }

    fn y(&self, opacity: f64) -> f32 {
        self.rect.bottom() - self.rect.height() * opacity.max(0.0).sqrt() as f32
    }

    fn value(&self, x: f32) -> f64 {
        let [low, high] = self.view;
        let share = f64::from((x - self.rect.left()) / self.rect.width());
        low + (high - low) * share
    }

    fn opacity(&self, y: f32) -> f64 {
        let share = f64::from((self.rect.bottom() - y) / self.rect.height());
        share.clamp(0.0, 1.0).powi(2)
    }

    fn spacing(&self) -> f64 {
        (self.view[1] - self.view[0]) / f64::from(COLUMNS)
    }
}

/// The range of values that shows all of the histogram and of the function.
fn whole_view(function: &TransferFunction, histogram: [f64; 2]) -> [f64; 2] {
    let [low, high] = function.ends();
    let (low, high) = (low.min(histogram[0]), high.max(histogram[1]));
    let half = if low == 0.0 { 0.5 } else { low.abs() * 1e-6 };
    if high > low {
        [low, high]
    } else {
        [low - half, low + half]
    }
}

impl TransferEditor {
    pub(super) fn show(
        &mut self,
        ui: &mut Ui,
        settings: &mut RenderSettings,
        facts: &Facts<'_>,
        asked: &mut Vec<Asked>,
    ) {
        self.choose(ui, settings, facts.manifest, asked);
        let size = vec2(ui.available_width(), CURVE_HEIGHT);
        let (rect, response) = ui.allocate_exact_size(size, Sense::click_and_drag());
        let function = &mut settings.transfer;
        let whole = whole_view(function, facts.histogram.range);
        let view = self.held_view.or(self.view).unwrap_or(whole);
        let axes = Axes { rect, view };
        self.held_view = response.is_pointer_button_down_on().then_some(view);
        self.zoom(ui, &response, &axes);
        self.edit(ui, &response, &axes, function);
        self.paint(ui, &axes, function, facts);
        colors(ui, &axes, function);
        let ends = axes.view.map(short);
        ui.horizontal(|ui| {
            ui.small(&ends[0]);
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                ui.small(&ends[1]);
            });
        });
        ui.horizontal(|ui| {
            let mut is_log = !self.is_linear;
            ui.toggle_value(&mut is_log, "Log")
                .on_hover_text("logarithm of the histogram");
            self.is_linear = !is_log;
            ui.toggle_value(&mut self.is_freehand, "Freehand")
                .on_hover_text("a drag draws the opacity");
            if ui
                .add_enabled(self.view.is_some(), egui::Button::new("Whole range"))
                .clicked()
            {
                self.view = None;
            }
            if ui
                .button("Fit")
                .on_hover_text("shows the function alone")
                .clicked()
            {
                let [low, high] = function.ends();
                self.view = (high > low).then_some([low, high]);
            }
        });
        self.point(ui, &axes, function);
        density(ui, function, facts.manifest.volume().min_spacing());
        ui.horizontal(|ui| {
            egui::TextEdit::singleline(&mut self.name)
                .hint_text("name, or path.json")
                .desired_width(150.0)
                .show(ui);
            let save = egui::Button::new("Save");
            if ui
                .add_enabled(!self.name.trim().is_empty(), save)
                .on_hover_text(
                    "as a ParaView preset: under a name it is listed above, by a path it is a file",
                )
                .clicked()
            {
                asked.push(Asked::SaveTransfer(
                    Pane::Volume,
                    self.name.trim().to_owned(),
                ));
            }
        });
    }

    /// Presets, and what a function is stretched over.
    fn choose(
        &mut self,
        ui: &mut Ui,
        settings: &mut RenderSettings,
        manifest: &Manifest,
        asked: &mut Vec<Asked>,
    ) {
        let mut chosen = None;
        ui.horizontal(|ui| {
            let list = ComboBox::from_id_salt("preset")
                .height(MENU_HEIGHT)
                .selected_text("Presets")
                .show_ui(ui, |ui| {
                    if ui
                        .button(transfer::DEFAULT)
                        .on_hover_text("chosen by the values")
                        .clicked()
                    {
                        chosen = Some(settings.mode.default_transfer(manifest).function);
                    }
                    for preset in &PRESETS {
                        if ui.button(preset.name).on_hover_text(preset.what).clicked() {
                            let mut function = transfer::of_preset(preset, None, manifest).function;
                            // What values are combined to hides nothing.
                            if settings.mode.combines_values() {
                                function.points.iter_mut().for_each(|p| p.opacity = 1.0);
                            }
                            chosen = Some(function);
                        }
                    }
                    for (name, path) in self.own.get_or_insert_with(transfer::own_presets) {
                        if ui.button(&*name).on_hover_text("your own").clicked() {
                            asked.push(Asked::Open(path.clone()));
                        }
                    }
                });
            if list.inner.is_none() {
                self.own = None;
            }
            ComboBox::from_id_salt("over")
                .selected_text("Stretch over")
                .show_ui(ui, |ui| {
                    for (name, range) in ranges(manifest) {
                        if ui.button(name).clicked() {
                            chosen = Some(stretched(&settings.transfer, range));
                        }
                    }
                });
        });
        if let Some(function) = chosen.filter(|f| f.validate().is_ok()) {
            settings.transfer = function;
            settings.transfer_2d.clear();
            (self.view, self.selected) = (None, None);
        }
    }

    /// The wheel zooms the values about the pointer; a drag with the middle button moves them.
    fn zoom(&mut self, ui: &Ui, response: &Response, axes: &Axes) {
        let Some(at) = response.hover_pos() else {
            return;
        };
        let scroll = ui.input_mut(|i| std::mem::take(&mut i.smooth_scroll_delta));
        let [low, high] = axes.view;
        if scroll.y != 0.0 {
            let factor = f64::from((-scroll.y * ZOOM_PER_POINT).exp());
            let middle = axes.value(at.x);
            self.view = Some([low, high].map(|v| middle + (v - middle) * factor));
        } else if response.dragged_by(PointerButton::Middle) {
            let by = axes.value(0.0) - axes.value(response.drag_delta().x);
            self.view = Some([low + by, high + by]);
        }
        // As far as numbers go.
        let size = low.abs().max(high.abs());
        let is_good = |v: &[f64; 2]| v[1] - v[0] > size * 1e-9 && v.iter().all(|v| v.abs() < 1e99);
        self.view = self.view.filter(is_good);
    }

    fn near(function: &TransferFunction, axes: &Axes, at: Pos2) -> Option<usize> {
        let apart = |i: usize| {
            let p = &function.points[i];
            pos2(axes.x(p.value), axes.y(p.opacity)).distance(at)
        };
        let nearest = (0..function.points.len()).min_by(|a, b| apart(*a).total_cmp(&apart(*b)));
        nearest.filter(|i| apart(*i) < NEAR)
    }

    fn edit(&mut self, ui: &Ui, response: &Response, axes: &Axes, function: &mut TransferFunction) {
        self.selected = self.selected.filter(|i| *i < function.points.len());
        let Some(at) = response.interact_pointer_pos().or(response.hover_pos()) else {
            return;
        };
        let at = axes.rect.clamp(at);
        let (value, opacity) = (axes.value(at.x), axes.opacity(at.y));
        if self.is_freehand {
            if response.dragged_by(PointerButton::Primary) || response.clicked() {
                let from = self.drawn.unwrap_or([value, opacity]);
                function.draw_opacity(from, [value, opacity], axes.spacing());
                self.drawn = Some([value, opacity]);
                self.selected = None;
            }
            if !response.dragged() {
                self.drawn = None;
            }
            return;
        }
        if response.drag_started_by(PointerButton::Primary) {
            let from = ui.input(|i| i.pointer.press_origin()).unwrap_or(at);
            self.selected = Self::near(function, axes, from)
                .or_else(|| function.add_point(axes.value(from.x), axes.opacity(from.y)));
            self.is_dragged = true;
        }
        if let Some(point) = self.selected
            && self.is_dragged
        {
            function.move_point(point, value, opacity);
        }
        if !response.dragged_by(PointerButton::Primary) {
            self.is_dragged = false;
        }
        if response.clicked() {
            self.selected =
                Self::near(function, axes, at).or_else(|| function.add_point(value, opacity));
        }
        let is_delete = response.hovered()
            && !ui.ctx().egui_wants_keyboard_input()
            && ui.input(|i| i.key_pressed(Key::Delete) || i.key_pressed(Key::Backspace));
        let removed = if response.secondary_clicked() {
            Self::near(function, axes, at)
        } else {
            self.selected.filter(|_| is_delete)
        };
        if let Some(point) = removed {
            function.remove_point(point);
            self.selected = None;
        }
    }

    fn paint(&self, ui: &Ui, axes: &Axes, function: &TransferFunction, facts: &Facts<'_>) {
        let painter = ui.painter_at(axes.rect.expand(1.0));
        let visuals = ui.visuals();
        painter.rect_filled(axes.rect, 2.0, visuals.extreme_bg_color);
        painter.add(self.histogram(axes, facts, visuals.weak_text_color().gamma_multiply(0.5)));
        let faint = Stroke::new(1.0, visuals.weak_text_color().gamma_multiply(0.3));
        for opacity in [0.01, 0.1, 0.5] {
            painter.hline(axes.rect.x_range(), axes.y(opacity), faint);
            let at = pos2(axes.rect.left() + 2.0, axes.y(opacity));
            let font = egui::FontId::proportional(9.0);
            let color = visuals.weak_text_color();
            painter.text(at, egui::Align2::LEFT_BOTTOM, opacity, font, color);
        }
        // The line is to be seen also where it is on the edge.
        let painter = ui.painter_at(axes.rect.expand(7.0));
        // Straight between points in opacity, so not in its root.
        let [low, high] = axes.view;
        let columns = (0..=COLUMNS).map(|c| low + (high - low) * f64::from(c) / f64::from(COLUMNS));
        let inside = |v: &f64| (low..=high).contains(v);
        let of_points = function.points.iter().map(|p| p.value).filter(inside);
        let mut values: Vec<f64> = columns.chain(of_points).collect();
        values.sort_by(f64::total_cmp);
        let curve = values
            .iter()
            .map(|&v| pos2(axes.x(v), axes.y(function.classify(v).1)));
        let line = Stroke::new(1.5, visuals.strong_text_color());
        painter.add(Shape::line(curve.collect(), line));
        for (i, p) in function.points.iter().enumerate() {
            let at = pos2(axes.x(p.value), axes.y(p.opacity));
            let size = if self.selected == Some(i) { 6.0 } else { 4.0 };
            painter.circle(at, size, color32(p.color), line);
        }
    }

    /// Bars, the highest as high as the curve.
    #[expect(clippy::cast_possible_truncation, reason = "points of a screen")]
    fn histogram(&self, axes: &Axes, facts: &Facts<'_>, color: Color32) -> Mesh {
        let counts = &facts.histogram.counts;
        let [low, high] = facts.histogram.range;
        let size = |n: u64| {
            let n = n as f64;
            if self.is_linear { n } else { n.ln_1p() }
        };
        // The background stands out so far that nothing else would be seen beside it.
        let mut sorted: Vec<f64> = counts.iter().map(|&n| size(n)).collect();
        sorted.sort_by(f64::total_cmp);
        let second = sorted.iter().rev().nth(1).copied().filter(|&n| n > 0.0);
        let most = second
            .or(sorted.last().copied())
            .unwrap_or(1.0)
            .max(f64::MIN_POSITIVE);
        let edge = |i: usize| low + (high - low) * i as f64 / counts.len().max(1) as f64;
        let mut mesh = Mesh::default();
        for (i, &n) in counts.iter().enumerate() {
            let [left, right] = [edge(i), edge(i + 1)].map(|v| axes.x(v));
            let height = axes.rect.height() * (size(n) / most).min(1.0) as f32;
            let top = axes.rect.bottom() - height;
            let bar = Rect::from_min_max(pos2(left, top), pos2(right, axes.rect.bottom()));
            let bar = bar.intersect(axes.rect);
            if n > 0 && bar.is_positive() {
                mesh.add_colored_rect(bar, color);
            }
        }
        mesh
    }

    /// Value, opacity and colour of the selected point.
    fn point(&mut self, ui: &mut Ui, axes: &Axes, function: &mut TransferFunction) {
        let selected = self.selected.filter(|i| *i < function.points.len());
        ui.horizontal(|ui| {
            let Some(index) = selected else {
                ui.weak(if self.is_freehand {
                    "Drag: draws the opacity."
                } else {
                    "Click: a point. Drag: moves it. Right click: removes it."
                });
                return;
            };
            let point = function.points[index];
            let (mut value, mut opacity) = (point.value, point.opacity);
            let is_moved = number(ui, &mut value, axes.view, "value");
            if number(ui, &mut opacity, [0.0, 1.0], "opacity") || is_moved {
                function.move_point(index, value, opacity);
            }
            #[expect(clippy::cast_possible_truncation, reason = "0 to 1")]
            let mut color = point.color.map(|c| to_byte(c as f32));
            if ui.color_edit_button_srgb(&mut color).changed() {
                function.points[index].color = color.map(|c| f64::from(c) / 255.0);
            }
            if ui.button("Delete").clicked() {
                function.remove_point(index);
                self.selected = None;
            }
        });
    }
}

/// A field with a number, edited as a part of a range: fields of egui have a fixed number of decimals;
/// whether it is another now.
fn number(ui: &mut Ui, value: &mut f64, [low, high]: [f64; 2], what: &str) -> bool {
    let shown = short(*value);
    let mut share = (*value - low) / (high - low);
    let field = DragValue::new(&mut share)
        .speed(0.002)
        .custom_formatter(|share, _| short(low + share * (high - low)))
        .custom_parser(|text| Some((text.trim().parse::<f64>().ok()? - low) / (high - low)));
    let is_changed = ui.add(field).on_hover_text(what).changed();
    let changed = low + share * (high - low);
    // A field that is left writes back what it shows.
    let is_other = is_changed && short(changed) != shown;
    if is_other {
        *value = changed;
    }
    is_other
}

fn color32(color: [f64; 3]) -> Color32 {
    #[expect(clippy::cast_possible_truncation, reason = "0 to 1")]
    let [r, g, b] = color.map(|c| to_byte(c as f32));
    Color32::from_rgb(r, g, b)
}

/// A strip with the colours of the values above it.
fn colors(ui: &mut Ui, axes: &Axes, function: &TransferFunction) {
    let size = Vec2::new(axes.rect.width(), COLORS_HEIGHT);
    let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
    let mut mesh = Mesh::default();
    let column = rect.width() / f32::from(COLUMNS);
    for c in 0..COLUMNS {
        let left = rect.left() + column * f32::from(c);
        let bar = Rect::from_min_size(pos2(left, rect.top()), vec2(column, COLORS_HEIGHT));
        let (color, _) = function.classify(axes.value(left + 0.5 * column));
        mesh.add_colored_rect(bar, color32(color));
    }
    ui.painter().add(mesh);
}

/// How opaque all of it is.
fn density(ui: &mut Ui, function: &mut TransferFunction, spacing: f64) {
    let mut density = function.unit_distance.map_or(1.0, |unit| spacing / unit);
    let slider = Slider::new(&mut density, DENSITIES)
        .logarithmic(true)
        .clamping(SliderClamping::Edits)
        .text("Density");
    let is_changed = ui
        .add(slider)
        .on_hover_text("opacities are those of a way of one smallest spacing, divided by this")
        .changed();
    if is_changed && density.is_finite() && density > 0.0 {
        function.unit_distance = Some(spacing / density);
    }
}

/// What a function can be stretched over.
fn ranges(manifest: &Manifest) -> Vec<(&'static str, [f64; 2])> {
    let Interest { from, to } = interest(manifest);
    let mut ranges = vec![("values of interest", [from.min(to), from.max(to)])];
    ranges.extend(manifest.value_range().map(|r| ("all values", r)));
    let statistics = manifest.statistics();
    let of = |low: u16, high: u16| {
        let stored = [statistics?.quantile(low)?, statistics?.quantile(high)?];
        let [a, b] = manifest.values(stored);
        Some([a.min(b), a.max(b)])
    };
    ranges.extend(of(1, 999).map(|r| ("0.1 to 99.9 %", r)));
    ranges.extend(of(10, 990).map(|r| ("1 to 99 %", r)));
    ranges.extend(of(50, 950).map(|r| ("5 to 95 %", r)));
    ranges.retain(|(_, [low, high])| low.to_bits() != high.to_bits());
    ranges
}

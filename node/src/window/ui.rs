//! The panels' layer of the window: what egui hears of it, lays out and has painted over the picture.

use super::panes::{self, Pane};
use crate::overlay::painter::{Canvas, Painter};
use egui::{ClippedPrimitive, Context, Order, Popup, Pos2, Rect, ViewportId};
use egui_winit::State;
use std::time::{Duration, Instant};
use winit::{event::WindowEvent, window::Window};

/// Pixels of the window that the picture fills: left, top, width, height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    pub left: u32,
    pub top: u32,
    pub width: u32,
    pub height: u32,
}

impl Area {
    pub(super) fn contains(&self, [x, y]: [f64; 2]) -> bool {
        let within = |v: f64, from: u32, size: u32| {
            (f64::from(from)..f64::from(from) + f64::from(size)).contains(&v)
        };
        within(x, self.left, self.width) && within(y, self.top, self.height)
    }
}

/// See the module.
pub(super) struct UiLayer {
    state: State,
    painter: Painter,
    primitives: Vec<ClippedPrimitive>,
    pixels_per_point: f32,
    /// What panels leave free, in points, and how large the window is.
    left: Rect,
    size: [u32; 2],
    /// When something in the panels moves by itself.
    pub(super) due: Option<Instant>,
}

impl UiLayer {
    pub(super) fn new(window: &Window) -> Self {
        let context = Context::default();
        #[expect(clippy::cast_possible_truncation, reason = "a scale")]
        let scale = window.scale_factor() as f32;
        let theme = window.theme();
        Self {
            state: State::new(context, ViewportId::ROOT, window, Some(scale), theme, None),
            painter: Painter::default(),
            primitives: Vec::new(),
            pixels_per_point: scale,
            left: Rect::ZERO,
            size: [0; 2],
            due: None,
        }
    }

    /// Takes an event that is not for the picture; whether the panels are to be drawn anew.
    pub(super) fn event(&mut self, window: &Window, event: &WindowEvent) -> bool {
        self.state.on_window_event(window, event).repaint
    }

    /// Whether keys are for a panel: a field that is typed into, or a list that Esc closes.
    pub(super) fn wants_keys(&self) -> bool {
        let context = self.state.egui_ctx();
        context.egui_wants_keyboard_input() || Popup::is_any_open(context)
    }

    /// Whether a field is typed into.
    pub(super) fn is_typed_into(&self) -> bool {
        self.state.egui_ctx().egui_wants_keyboard_input()
    }

    /// What was typed into is left, and lists are closed: the picture is clicked.
    pub(super) fn leave_field(&self) {
        Popup::close_all(self.state.egui_ctx());
        self.state.egui_ctx().memory_mut(|memory| {
            if let Some(field) = memory.focused() {
                memory.surrender_focus(field);
            }
        });
    }

    /// Whether a button of the mouse is held by a panel.
    pub(super) fn is_held(&self) -> bool {
        self.state.egui_ctx().input(|i| i.pointer.any_down())
    }

    /// Puts a text where others paste it from.
    pub(super) fn copy(&self, text: &str) {
        self.state.egui_ctx().copy_text(text.to_owned());
    }

    /// Where pictures are.
    pub(super) fn area(&self) -> Area {
        area(self.left * self.pixels_per_point, self.size)
    }

    /// The panes in it.
    pub(super) fn panes(&self, with_slices: bool) -> Vec<(Pane, Area)> {
        let pixels = |rect: Rect| area(rect * self.pixels_per_point, self.size);
        let panes = panes::split(self.left, with_slices).into_iter();
        panes.map(|(pane, rect)| (pane, pixels(rect))).collect()
    }

    /// Whether a pixel of the window belongs to the picture, and to no panel over it.
    pub(super) fn is_picture(&self, [x, y]: [f64; 2]) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "pixels of a window")]
        let point = Pos2::new(x as f32, y as f32) / self.pixels_per_point;
        let layer = self.state.egui_ctx().layer_id_at(point);
        self.area().contains([x, y]) && layer.is_none_or(|l| l.order == Order::Background)
    }

    /// Lays the panels out; `show` leaves what it does not use to the picture.
    pub(super) fn run(&mut self, window: &Window, mut show: impl FnMut(&mut egui::Ui)) {
        let input = self.state.take_egui_input(window);
        let context = self.state.egui_ctx().clone();
        let mut left = Rect::NOTHING;
        let output = context.run_ui(input, |ui| {
            show(ui);
            left = ui.available_rect_before_wrap();
        });
        self.state
            .handle_platform_output(window, output.platform_output);
        self.painter.take(output.textures_delta);
        self.pixels_per_point = output.pixels_per_point;
        self.primitives = context.tessellate(output.shapes, output.pixels_per_point);
        let size = window.inner_size();
        (self.left, self.size) = (left, [size.width, size.height]);
        let delay = output.viewport_output.get(&ViewportId::ROOT);
        let delay = delay.map_or(Duration::MAX, |v| v.repaint_delay);
        self.due = Instant::now().checked_add(delay);
    }

    pub(super) fn paint(&self, canvas: &mut Canvas<'_>) {
        self.painter
            .paint(&self.primitives, self.pixels_per_point, canvas);
    }
}

/// The pixels of a rectangle within a window, at least one; none before there is a window.
fn area(rect: Rect, size: [u32; 2]) -> Area {
    if size == [0; 2] {
        return Area::default();
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate"
    )]
    let pixel = |edge: f32, end: u32| (edge.round() as u32).min(end);
    let [left, right] = [rect.min.x, rect.max.x].map(|x| pixel(x, size[0]));
    let [top, bottom] = [rect.min.y, rect.max.y].map(|y| pixel(y, size[1]));
    Area {
        left,
        top,
        width: right.saturating_sub(left).max(1),
        height: bottom.saturating_sub(top).max(1),
    }
}

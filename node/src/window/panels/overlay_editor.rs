//! What is drawn over the picture: parts by check boxes, notes by their text.

use crate::overlay::{NOTE_CHARS_MAX, Overlay};
use egui::Ui;

/// Width that is left for the button beside a text, points.
const BUTTON: f32 = 40.0;

/// Shows what can be changed of an overlay.
pub(super) fn show(ui: &mut Ui, overlay: &mut Overlay) {
    ui.horizontal_wrapped(|ui| {
        for (part, name) in [
            (&mut overlay.bounds, "Box"),
            (&mut overlay.axes, "Axes"),
            (&mut overlay.scale, "Scale bar"),
            (&mut overlay.legend, "Legend"),
        ] {
            ui.checkbox(part, name);
        }
    });
    if overlay.notes.is_empty() {
        ui.label("Key N puts a note where the pointer is.");
    }
    let mut gone = None;
    for (at, note) in overlay.notes.iter_mut().enumerate() {
        ui.horizontal(|ui| {
            let width = ui.available_width() - BUTTON;
            ui.add(
                egui::TextEdit::singleline(&mut note.text)
                    .char_limit(NOTE_CHARS_MAX)
                    .desired_width(width),
            );
            if ui.button("×").on_hover_text("removes the note").clicked() {
                gone = Some(at);
            }
        });
    }
    if let Some(gone) = gone {
        overlay.notes.remove(gone);
    }
}

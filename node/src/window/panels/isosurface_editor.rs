//! Isosurfaces: their values, colours and opacities.

use super::color;
use brickmesh_topology::{
    Manifest, RenderSettings,
    data::default_transfer::interest,
    picture::{
        isosurface::{ISOSURFACES_MAX, Isosurface},
        render_settings::Mode,
    },
};
use egui::{DragValue, Slider, SliderClamping, Ui};

/// In the middle of the values that matter.
pub(super) fn usual(manifest: &Manifest) -> Isosurface {
    let interest = interest(manifest);
    Isosurface::new(0.5 * (interest.from + interest.to))
}

pub(super) fn show(ui: &mut Ui, settings: &mut RenderSettings, manifest: &Manifest) {
    let interest = interest(manifest);
    let pace = (interest.to - interest.from).abs() / 500.0;
    let is_only_one = settings.mode == Mode::Iso && settings.isosurfaces.len() == 1;
    let mut removed = None;
    for (at, surface) in settings.isosurfaces.iter_mut().enumerate() {
        ui.push_id(at, |ui| {
            ui.horizontal(|ui| {
                color(ui, &mut surface.color);
                ui.add(DragValue::new(&mut surface.value).speed(pace));
                let opacity = Slider::new(&mut surface.opacity, 0.01..=1.0);
                ui.add(opacity.clamping(SliderClamping::Edits).text("Opacity"));
                let remove = egui::Button::new("✖").small();
                if ui.add_enabled(!is_only_one, remove).clicked() {
                    removed = Some(at);
                }
            });
        });
    }
    if let Some(at) = removed {
        settings.isosurfaces.remove(at);
    }
    let has_room = settings.isosurfaces.len() < ISOSURFACES_MAX;
    if ui.add_enabled(has_room, egui::Button::new("Add")).clicked() {
        settings.isosurfaces.push(usual(manifest));
    }
}

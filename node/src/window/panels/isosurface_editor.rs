//! Isosurfaces: their values, colours and opacities.

use super::color;
use crate::short_numbers::short_range;
use brickmesh_topology::{
    Manifest, RenderSettings,
    data::default_transfer::interest,
    picture::isosurface::{ISOSURFACES_MAX, Isosurface},
};
use egui::{DragValue, Slider, SliderClamping, Ui};

/// Parts of the values that matter at which surfaces are added, one after the other.
const PLACES: [f64; ISOSURFACES_MAX] = [0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875, 0.0625];
/// Colours of those after the first.
const COLORS: [[f32; 3]; 3] = [[0.75, 0.2, 0.15], [0.2, 0.45, 0.8], [0.3, 0.65, 0.3]];

/// One more than so many.
pub(super) fn another(before: usize, manifest: &Manifest) -> Isosurface {
    let interest = interest(manifest);
    let place = PLACES[before % PLACES.len()];
    let first = Isosurface::new(interest.from + place * (interest.to - interest.from));
    match before.checked_sub(1) {
        None => first,
        Some(n) => Isosurface {
            color: COLORS[n % COLORS.len()],
            ..first
        },
    }
}

pub(super) fn show(ui: &mut Ui, settings: &mut RenderSettings, manifest: &Manifest) {
    let interest = interest(manifest);
    let pace = (interest.to - interest.from).abs() / 500.0;
    let is_only_one = !settings.mode.has_samples() && settings.isosurfaces.len() == 1;
    let mut removed = None;
    for (at, surface) in settings.isosurfaces.iter_mut().enumerate() {
        ui.push_id(at, |ui| {
            ui.horizontal(|ui| {
                color(ui, &mut surface.color);
                let mut value = surface.value;
                ui.add(DragValue::new(&mut value).speed(pace));
                if value.is_finite() {
                    surface.value = value;
                }
                let opacity = Slider::new(&mut surface.opacity, 0.01..=1.0);
                ui.add(opacity.clamping(SliderClamping::Edits).text("Opacity"));
                let remove = egui::Button::new("×").small();
                if ui.add_enabled(!is_only_one, remove).clicked() {
                    removed = Some(at);
                }
            });
            let range = manifest.value_range();
            if let Some(range) = range.filter(|range| !surface.is_within(*range)) {
                ui.weak(format!("beyond the values: {}", short_range(range)));
            }
        });
    }
    if let Some(at) = removed {
        settings.isosurfaces.remove(at);
    }
    let count = settings.isosurfaces.len();
    let add = egui::Button::new("Add");
    if ui.add_enabled(count < ISOSURFACES_MAX, add).clicked() {
        settings.isosurfaces.push(another(count, manifest));
    }
}

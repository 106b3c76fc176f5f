//! The slice of the modes that show one: which way it lies, where, and how thick its slab is.

use brickmesh_topology::{Camera, RenderSettings, VolumeDescription, picture::slice::Slice};
use egui::{ComboBox, Slider, SliderClamping, Ui};

/// The thickest slab that can be chosen, as a part of the volume's diagonal.
const THICKEST: f64 = 0.5;

/// Shows the slice of a scene and changes it; `camera` may be brought before it.
pub(super) fn show(
    ui: &mut Ui,
    settings: &mut RenderSettings,
    camera: &mut Camera,
    volume: &VolumeDescription,
) {
    let Some(before) = settings.slice else {
        return;
    };
    let mut slice = before;
    let axis = slice.axis(volume);
    let names = ["across X", "across Y", "across Z"];
    ui.horizontal(|ui| {
        let name = axis.map_or("free", |(axis, _)| names[axis]);
        ComboBox::from_id_salt("slice")
            .selected_text(name)
            .width(80.0)
            .show_ui(ui, |ui| {
                for (a, name) in names.into_iter().enumerate() {
                    let is_this = axis.is_some_and(|(axis, _)| axis == a);
                    if ui.selectable_label(is_this, name).clicked() && !is_this {
                        slice = Slice::on_axis(volume, a, f64::from(volume.dims[a] / 2));
                    }
                }
                let hint = "as the view goes now, through what it turns around";
                let free = ui.selectable_label(axis.is_none(), "across the view");
                if free.on_hover_text(hint).clicked() {
                    slice = Slice::through(camera.at, (camera.at - camera.eye).normalize_or_zero());
                }
            });
        let hint = "looks at it at right angles, in parallel projection";
        if ui.button("Face it").on_hover_text(hint).clicked() {
            *camera = slice.camera(volume, (1, 1));
        }
    });
    place(ui, &mut slice, volume);
    slice.thickness = before.thickness;
    slab(ui, &mut slice.thickness, volume);
    if slice != before && slice.validate().is_ok() {
        settings.slice = Some(slice);
    }
}

/// How thick a slab is.
pub(super) fn slab(ui: &mut Ui, thickness: &mut f64, volume: &VolumeDescription) {
    let slider = Slider::new(thickness, 0.0..=THICKEST * volume.diagonal())
        .clamping(SliderClamping::Edits)
        .text("Slab");
    ui.add(slider)
        .on_hover_text("thickness in world units: its greatest value is seen, or its mean");
}

/// Where the plane is: the voxel on its axis, or how far it is from the volume's middle.
fn place(ui: &mut Ui, slice: &mut Slice, volume: &VolumeDescription) {
    if let Some((axis, mut at)) = slice.axis(volume) {
        let slider = Slider::new(&mut at, 0.0..=f64::from(volume.dims[axis] - 1))
            .step_by(1.0)
            .clamping(SliderClamping::Edits);
        if ui.add(slider.text("Voxel")).changed() {
            *slice = Slice::on_axis(volume, axis, at);
        }
        return;
    }
    let mut off = -slice.distance(volume.center_in_world());
    let reach = 0.5 * volume.diagonal();
    let slider = Slider::new(&mut off, -reach..=reach).clamping(SliderClamping::Edits);
    let hint = "from the volume's middle, in world units";
    if ui.add(slider.text("Off")).on_hover_text(hint).changed() {
        let normal = slice.normal();
        *slice = Slice::through(volume.center_in_world() + normal * off, normal);
    }
}

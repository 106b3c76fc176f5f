//! What is cut away: a box along the volume's axes, and planes.

use brickmesh_topology::{
    RenderSettings, VolumeDescription,
    picture::clip::{Clip, PLANES_MAX},
};
use egui::{DragValue, Slider, SliderClamping, Ui};
use glam::DVec3;

/// What a drag over a point moves a plane by, as a part of the volume's diagonal.
const DRAG_SPEED: f64 = 2e-3;
/// Length of a slider, in points.
const SLIDER_WIDTH: f32 = 70.0;
/// What it turns a normal by.
const TURN_SPEED: f64 = 0.01;

/// Shows the clip of a scene and changes it; `toward_viewer` is the normal of a new plane.
pub(super) fn show(
    ui: &mut Ui,
    settings: &mut RenderSettings,
    volume: &VolumeDescription,
    toward_viewer: DVec3,
    is_box_shown: &mut bool,
) {
    let mut clip = settings.clip.clone();
    ui.checkbox(is_box_shown, "Box and handles in the picture");
    bounds(ui, &mut clip, volume.dims);
    let mut removed = None;
    for (i, plane) in clip.planes.iter_mut().enumerate() {
        ui.horizontal(|ui| {
            let speeds = [
                TURN_SPEED,
                TURN_SPEED,
                TURN_SPEED,
                DRAG_SPEED * volume.diagonal(),
            ];
            let before = *plane;
            for (part, speed) in plane.iter_mut().zip(speeds) {
                ui.add(DragValue::new(part).speed(speed));
            }
            turn_in_place(before, plane, volume.center_in_world());
            if ui.small_button("×").on_hover_text("remove").clicked() {
                removed = Some(i);
            }
        })
        .response
        .on_hover_text("normal and distance: points p of the world with n · p ≥ d are shown");
    }
    if let Some(plane) = removed {
        clip.planes.remove(plane);
    }
    ui.horizontal(|ui| {
        let has_room = clip.planes.len() < PLANES_MAX;
        let add = egui::Button::new("Add plane");
        let hint = "through the middle, across the view: what is before it is cut away";
        if ui.add_enabled(has_room, add).on_hover_text(hint).clicked() {
            let normal = -toward_viewer;
            let distance = normal.dot(volume.center_in_world());
            clip.planes.push([normal.x, normal.y, normal.z, distance]);
        }
        let nothing = egui::Button::new("Show all");
        if ui.add_enabled(!clip.is_none(), nothing).clicked() {
            clip = Clip::default();
        }
    });
    if clip.validate().is_ok() {
        settings.clip = clip;
    }
}

/// A plane whose normal is turned keeps its point that is nearest to the middle of the volume.
fn turn_in_place(before: [f64; 4], plane: &mut [f64; 4], middle: DVec3) {
    let normal = |[x, y, z, _]: [f64; 4]| DVec3::new(x, y, z);
    let (old, new) = (normal(before), normal(*plane));
    if old != new {
        let off = (before[3] - old.dot(middle)) / old.length_squared();
        plane[3] = new.dot(middle + old * off);
    }
}

/// Two ends on each axis.
fn bounds(ui: &mut Ui, clip: &mut Clip, dims: [u32; 3]) {
    let whole = Clip::default().bounds_of(dims);
    for (axis, name) in ["X", "Y", "Z"].into_iter().enumerate() {
        ui.horizontal(|ui| {
            ui.label(name);
            ui.spacing_mut().slider_width = SLIDER_WIDTH;
            for end in [0, 1] {
                let mut at = clip.bounds_of(dims)[end][axis];
                let slider = Slider::new(&mut at, whole[0][axis]..=whole[1][axis])
                    .clamping(SliderClamping::Edits)
                    .max_decimals(1);
                if ui.add(slider).on_hover_text("in voxels").changed() {
                    *clip = clip.with_face(dims, axis, end, at);
                }
            }
        });
    }
}

//! What is cut away: a box along the volume's axes, and planes.

use brickmesh_topology::{
    RenderSettings, VolumeDescription,
    picture::clip::{Clip, PLANES_MAX},
};
use egui::{DragValue, Slider, SliderClamping, Ui};
use glam::DVec3;

/// What a drag over a point moves a plane by, as a part of the volume's diagonal.
const DRAG_SPEED: f64 = 2e-3;
/// What it turns a normal by.
const TURN_SPEED: f64 = 0.01;

/// Shows the clip of a scene and changes it; `toward_viewer` is the normal of a new plane.
pub(super) fn show(
    ui: &mut Ui,
    settings: &mut RenderSettings,
    volume: &VolumeDescription,
    toward_viewer: DVec3,
) {
    let mut clip = settings.clip.clone();
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

/// Two ends on each axis; no box where all is shown.
fn bounds(ui: &mut Ui, clip: &mut Clip, dims: [u32; 3]) {
    // Voxels of an axis of one reach half a voxel to either side.
    let whole = [
        dims.map(|n| if n > 1 { 0.0 } else { -0.5 }),
        dims.map(|n| if n > 1 { f64::from(n - 1) } else { 0.5 }),
    ];
    let mut bounds = clip.bounds.unwrap_or(whole);
    let mut is_changed = false;
    for (axis, name) in ["X", "Y", "Z"].into_iter().enumerate() {
        ui.horizontal(|ui| {
            ui.label(name);
            for end in [0, 1] {
                ui.spacing_mut().slider_width = 70.0;
                let other = bounds[1 - end][axis];
                let slider = Slider::new(&mut bounds[end][axis], whole[0][axis]..=whole[1][axis])
                    .clamping(SliderClamping::Edits)
                    .max_decimals(1);
                if ui.add(slider).on_hover_text("in voxels").changed() {
                    is_changed = true;
                    // An end stops before the other.
                    let gap = 0.5_f64.min(0.5 * (whole[1][axis] - whole[0][axis]));
                    bounds[end][axis] = if end == 0 {
                        bounds[0][axis].min(other - gap)
                    } else {
                        bounds[1][axis].max(other + gap)
                    };
                }
            }
        });
    }
    if is_changed {
        let is_whole = (0..3).all(|a| bounds[0][a] <= whole[0][a] && bounds[1][a] >= whole[1][a]);
        clip.bounds = (!is_whole).then_some(bounds);
    }
}

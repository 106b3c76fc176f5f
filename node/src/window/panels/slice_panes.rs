//! The three slices: lines where they cross over their pictures, and what is seen of them.

use super::slice_editor::slab;
use crate::overlay::{AXIS_COLORS, screen::Screen, shadowed};
use brickmesh_topology::{VolumeDescription, picture::slice_views::SliceViews};
use egui::{Align2, Color32, Pos2, Slider, Stroke, StrokeKind, Ui, vec2};
use glam::{DVec2, DVec3};

const NAMES: [&str; 3] = ["X", "Y", "Z"];
/// Size of text over a picture, and how far it is from the edge; points.
const TEXT: f32 = 13.0;
const OFF: f32 = 5.0;

/// Shows over the picture of one where the other two are, which slice it is, and the directions of a patient.
pub(super) fn show(
    ui: &Ui,
    axis: usize,
    slices: &SliceViews,
    volume: &VolumeDescription,
    screen: &Screen,
) {
    let rect = screen.rect;
    let painter = ui.painter().with_clip_rect(rect);
    let inner = rect.shrink(0.5);
    painter.rect_stroke(
        inner,
        0.0,
        Stroke::new(1.0, AXIS_COLORS[axis]),
        StrokeKind::Inside,
    );
    let cross = DVec3::from_array(slices.cross.map(f64::from));
    let cross = volume.world_from_grid().transform_point3(cross);
    for (across, along) in [(1, 2), (2, 1)].map(|(a, b)| ((axis + a) % 3, (axis + b) % 3)) {
        // The line in which the slice across `across` is seen.
        let along = volume
            .world_from_grid()
            .transform_vector3(DVec3::AXES[along]);
        if let Some(ends) = line(screen, cross, along) {
            painter.line_segment(ends, Stroke::new(1.0, AXIS_COLORS[across]));
        }
    }
    let name = format!("{} {}", NAMES[axis], slices.cross[axis]);
    let corner = rect.left_top() + vec2(OFF, OFF);
    shadowed(
        &painter,
        corner,
        Align2::LEFT_TOP,
        &name,
        TEXT,
        AXIS_COLORS[axis],
    );
    for (at, align, toward) in [
        (
            rect.left_center() + vec2(OFF, 0.0),
            Align2::LEFT_CENTER,
            DVec2::NEG_X,
        ),
        (
            rect.right_center() - vec2(OFF, 0.0),
            Align2::RIGHT_CENTER,
            DVec2::X,
        ),
        (
            rect.center_top() + vec2(0.0, OFF),
            Align2::CENTER_TOP,
            DVec2::NEG_Y,
        ),
        (
            rect.center_bottom() - vec2(0.0, OFF),
            Align2::CENTER_BOTTOM,
            DVec2::Y,
        ),
    ] {
        if let Some(letter) = letter(screen, volume, toward) {
            shadowed(&painter, at, align, letter, TEXT, Color32::WHITE);
        }
    }
}

/// A line of the world through a point, from beyond one edge of a parallel picture to beyond another, however far
/// away the point is.
#[expect(clippy::cast_possible_truncation, reason = "points of a screen")]
fn line(screen: &Screen, through: DVec3, along: DVec3) -> Option<[Pos2; 2]> {
    let per_point = screen.world_per_point();
    let off = screen.right_and_down(through - screen.camera.at);
    let off = DVec2::from_array(off) / per_point;
    let along = DVec2::from_array(screen.right_and_down(along)).try_normalize()?;
    // The point that is nearest to the middle.
    let near = off - along * off.dot(along);
    let size = screen.rect.size();
    let reach = f64::from(size.x) + f64::from(size.y);
    if near.length() > reach {
        return None;
    }
    let at = |p: DVec2| screen.rect.center() + vec2(p.x as f32, p.y as f32);
    Some([at(near - along * reach), at(near + along * reach)])
}

/// The side of a patient that is seen towards an edge of a picture.
fn letter(screen: &Screen, volume: &VolumeDescription, toward: DVec2) -> Option<&'static str> {
    let [left, front] = volume.patient?.left_and_front();
    let sides = [
        ("L", left),
        ("R", -left),
        ("A", front),
        ("P", -front),
        ("S", DVec3::Z),
        ("I", DVec3::NEG_Z),
    ];
    let part = |direction| DVec2::from_array(screen.right_and_down(direction)).dot(toward);
    let parts = sides.map(|(letter, direction)| (letter, part(direction)));
    let most = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(most.0)
}

/// Shows what can be changed of the slices.
pub(super) fn edit(ui: &mut Ui, slices: &mut SliceViews, volume: &VolumeDescription) {
    ui.checkbox(&mut slices.are_shown, "beside the picture")
        .on_hover_text("across X, Y and Z; key X");
    if !slices.are_shown {
        return;
    }
    for axis in 0..3 {
        let last = volume.dims[axis] - 1;
        let slider = Slider::new(&mut slices.cross[axis], 0..=last);
        ui.add(slider.text(egui::RichText::new(NAMES[axis]).color(AXIS_COLORS[axis])));
    }
    slab(ui, &mut slices.thickness, volume);
    ui.horizontal(|ui| {
        ui.add_enabled_ui(slices.thickness > 0.0, |ui| {
            ui.checkbox(&mut slices.is_mean, "Mean of the slab")
                .on_hover_text("in place of its greatest value");
        });
        if ui
            .button("All of them")
            .on_hover_text("the whole slices")
            .clicked()
        {
            (slices.middle, slices.zoom) = (volume.center_in_world(), 1.0);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{
        Manifest, VoxelBox, VoxelType,
        data::{manifest::ManifestParts, volume::PatientAxes},
    };
    use egui::Rect;

    #[test]
    fn sides_and_crosshair_are_right_also_far_away_and_near() {
        let mut volume = VolumeDescription::new([20, 30, 40], VoxelType::U8);
        volume.patient = Some(PatientAxes::Lps);
        let bytes =
            |stored: &VoxelBox| (0..stored.voxel_count()).map(|i| (i % 251) as u8).collect();
        let parts = ManifestParts::cut(volume, 64, "test", bytes).unwrap();
        let manifest = Manifest::try_from(parts).unwrap();
        let volume = manifest.volume();
        let rect = Rect::from_min_size(Pos2::new(10.0, 20.0), vec2(300.0, 200.0));
        let all = SliceViews::new(&manifest);
        for zoom in [1.0, 1e3] {
            let size = (300, 200);
            let views = all.zoomed(2, zoom, [0.9, -0.6], volume, size);
            let screen = |axis| Screen::new(rect, 1.0, &views.camera(axis, volume, size)).unwrap();
            let letters = |axis| {
                let edges = [DVec2::NEG_X, DVec2::X, DVec2::NEG_Y, DVec2::Y];
                edges.map(|toward| letter(&screen(axis), volume, toward).unwrap())
            };
            assert_eq!(letters(2), ["R", "L", "A", "P"], "{zoom}");
            assert_eq!(letters(1), ["R", "L", "S", "I"], "{zoom}");
            assert_eq!(letters(0), ["A", "P", "S", "I"], "{zoom}");
        }
        // Where the crossing is in the picture, both lines go through it.
        let screen = Screen::new(rect, 1.0, &all.camera(2, volume, (300, 200))).unwrap();
        let cross = DVec3::from_array(all.cross.map(f64::from));
        let point = screen.point(cross).unwrap();
        for along in [DVec3::X, DVec3::Y] {
            let [from, to] = line(&screen, cross, along).unwrap();
            let (a, b) = (point - from, to - from);
            assert!(
                (a.x * b.y - a.y * b.x).abs() / b.length() < 0.01,
                "{from} {to}"
            );
        }
        assert_eq!(line(&screen, cross + DVec3::Y * 1e6, DVec3::X), None);
    }
}

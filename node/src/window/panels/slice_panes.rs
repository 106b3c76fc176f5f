//! The three slices: lines where they cross over their pictures, and what is seen of them.

use super::slice_editor::slab;
use crate::overlay::{screen::Screen, shadowed};
use brickmesh_topology::{VolumeDescription, picture::slice_views::SliceViews};
use egui::{Align2, Color32, Pos2, Rect, Slider, Stroke, StrokeKind, Ui, vec2};
use glam::DVec3;

/// Of the slices across x, y and z: as axes are coloured everywhere.
const COLORS: [Color32; 3] = [
    Color32::from_rgb(240, 90, 90),
    Color32::from_rgb(100, 210, 100),
    Color32::from_rgb(100, 150, 255),
];
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
        Stroke::new(1.0, COLORS[axis]),
        StrokeKind::Inside,
    );
    let cross = DVec3::from_array(slices.cross.map(f64::from));
    let at = |grid| screen.point(volume.world_from_grid().transform_point3(grid));
    for (across, along) in [(1, 2), (2, 1)].map(|(a, b)| ((axis + a) % 3, (axis + b) % 3)) {
        // Two points of the line in which the slice across `across` is seen.
        let further = |by: f64| at(cross + DVec3::AXES[along] * by);
        if let Some((from, to)) = further(0.0).zip(further(1.0)) {
            let ends = through(rect, from, to);
            painter.line_segment(ends, Stroke::new(1.0, COLORS[across]));
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
        COLORS[axis],
    );
    for (at, align, toward) in [
        (
            rect.left_center() + vec2(OFF, 0.0),
            Align2::LEFT_CENTER,
            vec2(-1.0, 0.0),
        ),
        (
            rect.right_center() - vec2(OFF, 0.0),
            Align2::RIGHT_CENTER,
            vec2(1.0, 0.0),
        ),
        (
            rect.center_top() + vec2(0.0, OFF),
            Align2::CENTER_TOP,
            vec2(0.0, -1.0),
        ),
        (
            rect.center_bottom() - vec2(0.0, OFF),
            Align2::CENTER_BOTTOM,
            vec2(0.0, 1.0),
        ),
    ] {
        if let Some(letter) = letter(screen, volume, toward) {
            shadowed(&painter, at, align, letter, TEXT, Color32::WHITE);
        }
    }
}

/// Where the line through two points meets the edges of a rectangle, far enough.
fn through(rect: Rect, from: Pos2, to: Pos2) -> [Pos2; 2] {
    let along = (to - from).normalized() * (rect.width() + rect.height());
    let reach = 1.0 + (from - rect.center()).length() / along.length();
    [from - along * reach, from + along * reach]
}

/// The side of a patient that is seen towards an edge of a picture.
fn letter(screen: &Screen, volume: &VolumeDescription, toward: egui::Vec2) -> Option<&'static str> {
    let [left, front] = volume.patient?.left_and_front();
    let middle = volume.center_in_world();
    let origin = screen.point(middle)?;
    let size = volume.diagonal();
    let sides = [
        ("L", left),
        ("R", -left),
        ("A", front),
        ("P", -front),
        ("S", DVec3::Z),
        ("I", DVec3::NEG_Z),
    ];
    let part = |direction: DVec3| {
        let to = screen.point(middle + direction * size * 0.1)?;
        Some((to - origin).dot(toward))
    };
    let parts = sides.map(|(letter, direction)| (letter, part(direction).unwrap_or(0.0)));
    let most = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 > 0.0).then_some(most.0)
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
        ui.add(slider.text(egui::RichText::new(NAMES[axis]).color(COLORS[axis])));
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

//! The mesh: who is there and what each did for the picture that is shown; its bricks over the picture.

use super::{Asked, FrameReport, MeshReport, WRONG};
use crate::{
    overlay::screen::{Screen, box_edges},
    window::PeerRow,
};
use brickmesh_actors::plain_text::counted;
use brickmesh_topology::{PeerId, VolumeDescription, picture::quality::Choice};
use egui::{Color32, Grid, RichText, Sense, Stroke, Ui, ecolor::Hsva};
use glam::DVec3;

/// Hues of neighbours are so far from each other: the golden ratio.
const HUE_STEP: f32 = 0.618_034;
/// Boxes that are drawn, at most.
const BOXES_MAX: usize = 1000;
/// Width and height of a bar, points.
const BAR: [f32; 2] = [48.0, 8.0];

/// The colour of a peer of the mesh.
pub(super) fn color(mesh: &MeshReport, peer: &PeerId) -> Color32 {
    let at = mesh.peers.iter().position(|p| p.id == *peer);
    at.map_or(Color32::GRAY, |at| {
        Hsva::new((at as f32 * HUE_STEP).fract(), 0.65, 0.95, 1.0).into()
    })
}

/// Shows the mesh; `are_boxes_shown`: whether bricks are outlined over the picture.
pub(super) fn show(
    ui: &mut Ui,
    frame: Option<&FrameReport>,
    mesh: &MeshReport,
    are_boxes_shown: &mut bool,
) {
    if let Some(frame) = frame {
        let fineness = frame.choice.fineness();
        let level = match frame.level {
            0 => String::new(),
            level => format!("level {level}, "),
        };
        let fine = if frame.choice == Choice::FULL {
            "full".to_owned()
        } else {
            format!(
                "{:.0} % wide, step × {}",
                fineness.scale * 100.0,
                fineness.step
            )
        };
        ui.label(format!(
            "{:.1} ms, {} × {} ({level}{fine})",
            frame.took.as_secs_f64() * 1e3,
            frame.size[0],
            frame.size[1]
        ));
        ui.small(format!(
            "schedule {:.1} ms, blending {:.1} ms, {:.0} KiB between peers",
            millis(frame.schedule_micros),
            millis(frame.composite_micros),
            frame.bytes_sent as f64 / 1024.0
        ));
    }
    if mesh.missing > 0 {
        let missing = counted(mesh.missing, "brick");
        ui.colored_label(WRONG, format!("{missing} nobody holds"));
    } else if mesh.read > 0 {
        let read = counted(mesh.read, "brick");
        ui.label(format!("{read} read for each frame: little memory"));
    } else {
        ui.label(format!(
            "copies of each brick: at least {}",
            mesh.copies_min
        ));
    }
    ui.checkbox(are_boxes_shown, "Bricks by who rendered them");
    Grid::new("peers").striped(true).show(ui, |ui| {
        for (head, hint) in [
            (
                "peer",
                "in the colour of its bricks; point at one for its device",
            ),
            ("bricks", "that it holds"),
            (
                "speed",
                "beside the mean of all who rendered its last frame",
            ),
            (
                "jobs",
                "that it rendered; + so many of them taken from others",
            ),
            ("ms", "measured, and as a part of the frame's time"),
        ] {
            ui.label(RichText::new(head).small()).on_hover_text(hint);
        }
        ui.end_row();
        for peer in &mesh.peers {
            row(ui, peer, frame, color(mesh, &peer.id));
        }
    });
    for name in &mesh.gone {
        ui.colored_label(WRONG, format!("{name} is gone"));
    }
}

/// The other viewers, one of which may be followed.
pub(super) fn follow(ui: &mut Ui, mesh: &MeshReport, followed: Option<&str>) -> Option<Asked> {
    let viewers = mesh.peers.iter().filter(|peer| peer.is_viewer);
    let mut names: Vec<&str> = viewers.map(|peer| peer.name.as_str()).collect();
    names.extend(followed.filter(|name| !names.contains(name)));
    if names.is_empty() {
        return None;
    }
    let mut asked = None;
    ui.horizontal_wrapped(|ui| {
        ui.label("Follow the camera of");
        for name in names {
            let is_followed = followed == Some(name);
            if ui.selectable_label(is_followed, name).clicked() {
                asked = Some(Asked::Follow((!is_followed).then(|| name.to_owned())));
            }
        }
    });
    asked
}

pub(super) fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

fn row(ui: &mut Ui, peer: &PeerRow, frame: Option<&FrameReport>, color: Color32) {
    let name = RichText::new(&peer.name);
    let name = if peer.is_silent {
        ui.colored_label(WRONG, name.strikethrough())
    } else {
        ui.label(name.color(color))
    };
    let memory = peer.memory_bytes >> 20;
    name.on_hover_text(format!("{}; {memory} MiB for bricks", peer.device));
    ui.label(peer.bricks.to_string());
    let speed = peer
        .speed
        .map_or(String::new(), |speed| format!("{speed:.2}"));
    ui.label(speed);
    let done = frame.and_then(|f| Some((f, f.jobs.get(&peer.id)?)));
    if let Some((frame, done)) = done {
        let taken = match done.taken {
            0 => String::new(),
            n => format!(" +{n}"),
        };
        ui.label(format!("{}{taken}", done.count));
        ui.horizontal(|ui| {
            let (rect, bar) = ui.allocate_exact_size(BAR.into(), Sense::hover());
            let part = millis(done.micros) / (frame.took.as_secs_f64() * 1e3).max(1e-6);
            let mut filled = rect;
            #[expect(clippy::cast_possible_truncation, reason = "a part of 1")]
            filled.set_width(rect.width() * part.clamp(0.0, 1.0) as f32);
            ui.painter()
                .rect_filled(rect, 2.0, ui.visuals().extreme_bg_color);
            ui.painter().rect_filled(filled, 2.0, color);
            let expected = millis(done.expected_micros);
            bar.on_hover_text(format!("expected on a device of speed 1: {expected:.1} ms"));
            ui.label(format!("{:.1}", millis(done.micros)));
        });
    }
    ui.end_row();
}

/// Outlines the bricks of a picture in the colours of who rendered them.
pub(super) fn outline(
    ui: &Ui,
    frame: &FrameReport,
    mesh: &MeshReport,
    volume: &VolumeDescription,
    screen: &Screen,
) {
    let painter = ui.painter().with_clip_rect(screen.rect);
    for (owned, peer) in frame.boxes.iter().take(BOXES_MAX) {
        let stroke = Stroke::new(1.5, color(mesh, peer));
        let corner = |n: usize| {
            // Half a voxel in, so that neighbours stand side by side.
            let at = |a: usize| {
                let [low, high] = [owned.lo[a], owned.hi[a]].map(f64::from);
                [low, (high - 1.0).max(low)][n >> a & 1]
            };
            let grid = DVec3::new(at(0), at(1), at(2));
            screen.point(volume.world_from_grid().transform_point3(grid))
        };
        for ends in box_edges() {
            if let [Some(from), Some(to)] = ends.map(corner) {
                painter.line_segment([from, to], stroke);
            }
        }
    }
}

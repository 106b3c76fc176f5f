//! The mesh: who is there and what each did for the picture that is shown.

use super::{FrameReport, MeshReport, WRONG};
use brickmesh_actors::plain_text::counted;
use brickmesh_topology::picture::quality::Choice;
use egui::{Grid, RichText, Ui};

pub(super) fn show(ui: &mut Ui, frame: Option<&FrameReport>, mesh: &MeshReport) {
    if let Some(frame) = frame {
        let level = frame.choice.level();
        let fine = if frame.choice == Choice::FULL {
            "full".to_owned()
        } else {
            format!("{:.0} % wide, step × {}", level.scale * 100.0, level.step)
        };
        ui.label(format!(
            "{:.1} ms, {} × {} ({fine})",
            frame.took.as_secs_f64() * 1e3,
            frame.size[0],
            frame.size[1]
        ));
    }
    if mesh.missing > 0 {
        let missing = counted(mesh.missing, "brick");
        ui.colored_label(WRONG, format!("{missing} nobody holds"));
    } else {
        ui.label(format!(
            "copies of each brick: at least {}",
            mesh.copies_min
        ));
    }
    Grid::new("peers").striped(true).show(ui, |ui| {
        for head in ["peer", "bricks", "jobs", "ms"] {
            ui.label(RichText::new(head).small());
        }
        ui.end_row();
        for peer in &mesh.peers {
            let name = RichText::new(&peer.name);
            let name = if peer.is_silent {
                ui.colored_label(WRONG, name.strikethrough())
            } else {
                ui.label(name)
            };
            name.on_hover_text(&peer.device);
            ui.label(peer.bricks.to_string());
            let done = frame.and_then(|f| f.jobs.get(&peer.id));
            ui.label(done.map_or(String::new(), |d| d.count.to_string()));
            ui.label(done.map_or(String::new(), |d| format!("{:.1}", d.micros as f64 / 1e3)));
            ui.end_row();
        }
    });
    for name in &mesh.gone {
        ui.colored_label(WRONG, format!("{name} is gone"));
    }
}

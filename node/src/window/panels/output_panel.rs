//! What leaves the viewer: pictures as files, key frames of a path, the command that renders what is seen.

use super::{Asked, PictureChoice};
use crate::window::scene::Scene;
use brickmesh_topology::picture::{
    camera::PICTURE_EDGE_MAX,
    camera_path::{CameraKey, CameraPath, FRAMES_MAX},
};
use egui::{DragValue, Slider, TextEdit, Ui};
use std::path::PathBuf;

/// Frames from key to key, at first.
const GAP: u32 = 30;

/// See the module.
#[derive(Debug)]
pub(super) struct OutputPanel {
    picture: String,
    size: [u32; 2],
    with_overlay: bool,
    is_transparent: bool,
    path: CameraPath,
    gap: u32,
    path_file: String,
    /// The frame that is looked at.
    frame: u32,
}

impl Default for OutputPanel {
    fn default() -> Self {
        Self {
            picture: "picture.png".to_owned(),
            size: [1920, 1080],
            with_overlay: true,
            is_transparent: false,
            path: CameraPath::default(),
            gap: GAP,
            path_file: "path.json".to_owned(),
            frame: 0,
        }
    }
}

impl OutputPanel {
    /// Shows it; looking at a frame of the path moves the camera.
    pub(super) fn show(&mut self, ui: &mut Ui, scene: &mut Scene, asked: &mut Vec<Asked>) {
        self.picture(ui, asked);
        if ui
            .button("Copy as command")
            .on_hover_text("saves the session, and copies the line that renders what is seen")
            .clicked()
        {
            asked.push(Asked::CopyCommand(self.choice()));
        }
        ui.separator();
        self.path(ui, scene, asked);
    }

    fn choice(&self) -> PictureChoice {
        PictureChoice {
            path: PathBuf::from(&self.picture),
            size: self.size,
            with_overlay: self.with_overlay,
            is_transparent: self.is_transparent,
        }
    }

    fn picture(&mut self, ui: &mut Ui, asked: &mut Vec<Asked>) {
        ui.add(TextEdit::singleline(&mut self.picture).desired_width(f32::INFINITY))
            .on_hover_text("a path that ends in .png");
        ui.horizontal(|ui| {
            for edge in &mut self.size {
                ui.add(DragValue::new(edge).range(1..=PICTURE_EDGE_MAX));
            }
            ui.label("pixels");
            if ui.button("Save picture").clicked() {
                asked.push(Asked::SavePicture(self.choice()));
            }
        });
        ui.horizontal(|ui| {
            ui.checkbox(&mut self.with_overlay, "With overlay");
            ui.checkbox(&mut self.is_transparent, "Transparent");
        });
    }

    fn path(&mut self, ui: &mut Ui, scene: &mut Scene, asked: &mut Vec<Asked>) {
        ui.horizontal(|ui| {
            let keys = &mut self.path.keys;
            let next = keys.last().map_or(0, |key| key.frame + self.gap.max(1));
            let fits = next < FRAMES_MAX;
            let add = ui.add_enabled(fits, egui::Button::new("Add key frame"));
            if add.on_hover_text("the camera as it is now").clicked() {
                let camera = scene.camera;
                keys.push(CameraKey {
                    frame: next,
                    camera,
                });
                self.frame = next;
            }
            ui.add(DragValue::new(&mut self.gap).range(1..=FRAMES_MAX - 1));
            ui.label("frames after the last");
        });
        if self.path.keys.is_empty() {
            return;
        }
        let last = self.path.frames() - 1;
        let slider = Slider::new(&mut self.frame, 0..=last).text("Frame");
        if ui.add(slider).changed()
            && let Some(camera) = self.path.camera(self.frame)
        {
            scene.camera = camera;
        }
        ui.horizontal(|ui| {
            ui.label(format!("{} key frames", self.path.keys.len()));
            if ui.button("Remove the last").clicked() {
                self.path.keys.pop();
                self.frame = self.frame.min(self.path.frames().saturating_sub(1));
            }
        });
        ui.horizontal(|ui| {
            let width = ui.available_width() - 90.0;
            ui.add(TextEdit::singleline(&mut self.path_file).desired_width(width));
            if ui
                .button("Save path")
                .on_hover_text("for brickmesh render --path, with --video for a film")
                .clicked()
            {
                let (path, to) = (self.path.clone(), PathBuf::from(&self.path_file));
                asked.push(Asked::SavePath { path, to });
            }
        });
    }
}

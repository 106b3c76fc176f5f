//! Panels beside the picture: what is shown and how it can be changed.
//!
//! A panel changes a scene that it is given, and says what else it asks for; it waits for nothing.

mod clip_editor;
mod clip_handles;
mod isosurface_editor;
mod mesh_panel;
mod output_panel;
mod overlay_editor;
mod ruler;
mod shapes_editor;
mod slice_editor;
mod slice_panes;
mod timeline_panel;
mod transfer_editor;

use self::{
    output_panel::OutputPanel, shapes_editor::ShapesEditor, transfer_editor::TransferEditor,
};
use super::{
    FrameReport, MeshReport, VoxelValue,
    hands::Measured,
    keys::{Command, KEYS},
    panes::{self, PANES, Pane},
    scene::Scene,
};
use crate::{
    overlay::screen::Screen,
    picture_settings::least_step,
    short_numbers::{short, short_range},
    value_report::Histogram,
};
use brickmesh_actors::plain_text::plain_text;
use brickmesh_topology::{
    Manifest, RenderSettings,
    picture::{
        camera::Projection,
        camera_path::CameraPath,
        render_settings::{EXPOSURES, GAMMAS, LIGHT_EXPONENT_MAX, Light, Mode},
        slice::Slice,
    },
};
use egui::{
    CollapsingHeader, Color32, ComboBox, Frame, Key, Panel, PopupCloseBehavior, RichText,
    ScrollArea, Slider, SliderClamping, ThemePreference, Ui,
    containers::menu::{MenuButton, MenuConfig},
};
use glam::DVec3;
use std::{path::PathBuf, sync::Arc};

/// Width of the panels in points, at first.
const WIDTH: f32 = 320.0;
/// Height of the timeline in points, at first.
const TIMELINE_HEIGHT: f32 = 170.0;
/// Gradients that can be chosen, as parts of the function's width.
const GRADIENTS: std::ops::RangeInclusive<f64> = 1e-3..=1.0;
/// Background at the top, where it is to be another one.
const TOP: [f32; 3] = [0.2, 0.24, 0.3];
/// Width of what is told, in points.
const TOLD_WIDTH: f32 = 480.0;
/// Sample distances that can be chosen, in multiples of the smallest spacing.
const STEPS: std::ops::RangeInclusive<f64> = 0.1..=4.0;

/// What panels show beside the scene.
pub(super) struct Facts<'a> {
    pub manifest: &'a Manifest,
    pub histogram: &'a Histogram,
    /// How the picture of each pane came about.
    pub frames: [Option<&'a FrameReport>; PANES],
    pub mesh: &'a MeshReport,
    /// What went wrong or was done, newest last.
    pub told: &'a [&'a Line],
    pub recent: &'a [PathBuf],
    /// What is under the pointer.
    pub pointed: Option<&'a Pointed>,
    pub value: Option<&'a VoxelValue>,
    pub ruler: Option<Measured>,
    /// The viewer whose camera is followed.
    pub followed: Option<&'a str>,
    pub can_undo: bool,
    pub can_redo: bool,
}

/// A place in the volume that the pointer is at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pointed {
    pub world: DVec3,
    pub voxel: [u32; 3],
}

/// What a panel asks for that is no edit of the scene.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    Command(Command),
    /// A volume, a transfer function or a session.
    Open(PathBuf),
    /// Writes the session to a file.
    SaveSession(PathBuf),
    /// Renders what is seen of the volume to a file.
    SavePicture(PictureChoice),
    /// Writes a camera path to a file.
    SavePath {
        path: CameraPath,
        to: PathBuf,
    },
    /// Copies the command that renders that.
    CopyCommand(PictureChoice),
    /// Writes the transfer function of a pane to a file, or under a name of the user's own.
    SaveTransfer(Pane, String),
    /// The camera of the viewer with this name is to be followed, or none.
    Follow(Option<String>),
    /// A transfer function for the slices.
    OpenForSlices(PathBuf),
}

/// A picture as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PictureChoice {
    pub path: PathBuf,
    pub size: [u32; 2],
    pub with_overlay: bool,
    pub is_transparent: bool,
}

/// A line that the window tells.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub text: String,
    pub is_bad: bool,
}

impl Line {
    pub(super) fn good(text: String) -> Self {
        let is_bad = false;
        Self { text, is_bad }
    }

    /// What is wrong; it may be what another peer says.
    pub(super) fn bad(text: &str) -> Self {
        Self {
            text: plain_text(text),
            is_bad: true,
        }
    }
}

/// What is wrong.
const WRONG: Color32 = Color32::from_rgb(230, 90, 70);

/// See the module.
#[derive(Debug)]
pub(super) struct Panels {
    pub(super) is_open: bool,
    pub(super) is_timeline_shown: bool,
    are_keys_shown: bool,
    path: String,
    editor: TransferEditor,
    slices_editor: TransferEditor,
    shapes: ShapesEditor,
    output: OutputPanel,
    is_clip_box_shown: bool,
    /// Those of the picture, by who rendered them.
    are_bricks_shown: bool,
    /// The editor is of the slices' transfer function.
    is_of_slices: bool,
    held: Option<clip_handles::Held>,
}

impl Panels {
    pub(super) fn new(is_open: bool) -> Self {
        Self {
            is_open,
            is_timeline_shown: false,
            are_keys_shown: false,
            path: String::new(),
            editor: TransferEditor::default(),
            slices_editor: TransferEditor::default(),
            shapes: ShapesEditor::default(),
            output: OutputPanel::default(),
            is_clip_box_shown: false,
            are_bricks_shown: false,
            is_of_slices: false,
            held: None,
        }
    }

    /// Another data set is open.
    pub(super) fn opened(&mut self) {
        self.editor = TransferEditor::default();
        self.slices_editor = TransferEditor::default();
        self.shapes = ShapesEditor::default();
        self.output = OutputPanel::default();
    }

    pub(super) fn toggle_keys(&mut self) {
        self.are_keys_shown = !self.are_keys_shown;
    }

    pub(super) fn toggle_clip_box(&mut self) {
        self.is_clip_box_shown = !self.is_clip_box_shown;
    }

    /// Whether anything shown follows the picture or the scene.
    pub(super) fn follow_pictures(&self) -> bool {
        self.is_open || self.is_timeline_shown || self.is_clip_box_shown || self.are_bricks_shown
    }

    /// Whether the list of keys was shown; now it is not.
    pub(super) fn hide_keys(&mut self) -> bool {
        std::mem::take(&mut self.are_keys_shown)
    }

    /// Shows all panels.
    pub(super) fn show(&mut self, ui: &mut Ui, scene: &mut Scene, facts: &Facts<'_>) -> Vec<Asked> {
        let mut asked = Vec::new();
        if self.is_open {
            let content = |ui: &mut Ui| self.content(ui, scene, facts, &mut asked);
            Panel::right("panels")
                .default_size(WIDTH)
                .frame(Frame::side_top_panel(ui.style()))
                .show(ui, |ui| {
                    Panel::bottom("pointed").show(ui, |ui| pointed(ui, facts));
                    ScrollArea::vertical().auto_shrink(false).show(ui, content);
                });
        }
        if self.is_timeline_shown {
            Panel::bottom("timeline")
                .resizable(true)
                .default_size(TIMELINE_HEIGHT)
                .show(ui, |ui| {
                    timeline_panel::show(ui, facts.frames[0], facts.mesh)
                });
        }
        self.over_pictures(ui, scene, facts);
        self.keys(ui);
        tell(ui, facts.told);
        asked
    }

    /// What is drawn over the pictures, each as its own camera sees it.
    fn over_pictures(&mut self, ui: &Ui, scene: &mut Scene, facts: &Facts<'_>) {
        let volume = facts.manifest.volume();
        let whole = ui.available_rect_before_wrap();
        let scale = ui.ctx().pixels_per_point();
        for (pane, rect) in panes::split(whole, scene.slices.are_shown) {
            let camera = facts.frames[pane.index()].map(|frame| frame.camera);
            let Some(screen) = camera.and_then(|camera| Screen::new(rect, scale, &camera)) else {
                continue;
            };
            let settings = match pane {
                Pane::Volume => Arc::clone(&scene.settings),
                Pane::Slice(axis) => Arc::new(scene.slices.settings(axis, &scene.settings, volume)),
            };
            let mut overlay = scene.overlay.clone();
            // The sides of a patient stand at the edges of slices.
            overlay.axes &= pane == Pane::Volume || volume.patient.is_none();
            overlay.draw(ui.painter(), &screen, volume, &settings);
            let frame = facts.frames[pane.index()];
            if let Some(frame) = frame.filter(|_| self.are_bricks_shown) {
                mesh_panel::outline(ui, frame, facts.mesh, volume, &screen);
            }
            if let Pane::Slice(axis) = pane {
                slice_panes::show(ui, axis, &scene.slices, volume, &screen);
            } else if self.is_clip_box_shown {
                let mut settings = (*scene.settings).clone();
                clip_handles::show(ui, &mut settings, volume, &screen, &mut self.held);
                if settings != *scene.settings {
                    scene.settings = Arc::new(settings);
                }
            }
            if let Some(ruler) = facts.ruler.filter(|ruler| ruler.pane == pane) {
                ruler::show(ui, ruler.ends, volume, &screen);
            }
        }
    }

    fn transfer(
        &mut self,
        ui: &mut Ui,
        scene: &mut Scene,
        settings: &mut RenderSettings,
        facts: &Facts<'_>,
        asked: &mut Vec<Asked>,
    ) {
        if scene.slices.are_shown {
            ui.horizontal(|ui| {
                ui.selectable_value(&mut self.is_of_slices, false, "of the volume");
                ui.selectable_value(&mut self.is_of_slices, true, "of the slices");
            });
        }
        if self.is_of_slices && scene.slices.are_shown {
            let volume = facts.manifest.volume();
            let mut of_slices = scene.slices.settings(0, settings, volume);
            let mut of_editor = Vec::new();
            let editor = &mut self.slices_editor;
            editor.show(ui, &mut of_slices, facts, &mut of_editor);
            scene.slices.transfer = of_slices.transfer;
            asked.extend(of_editor.into_iter().map(|asked| match asked {
                Asked::SaveTransfer(_, to) => Asked::SaveTransfer(Pane::Slice(0), to),
                Asked::Open(path) => Asked::OpenForSlices(path),
                other => other,
            }));
            return;
        }
        self.editor.show(ui, settings, facts, asked);
        if settings.mode == Mode::Dvr {
            CollapsingHeader::new("By gradients too").show_unindented(ui, |ui| {
                self.shapes.show(ui, settings, facts.manifest);
            });
        }
    }

    fn content(
        &mut self,
        ui: &mut Ui,
        scene: &mut Scene,
        facts: &Facts<'_>,
        asked: &mut Vec<Asked>,
    ) {
        self.data_set(ui, facts, asked);
        let mut settings = (*scene.settings).clone();
        if settings.mode.has_samples() || scene.slices.are_shown {
            section(ui, "Transfer function", |ui| {
                self.transfer(ui, scene, &mut settings, facts, asked);
            });
        }
        section(ui, "Sampling and light", |ui| {
            sampling(ui, &mut settings, facts.manifest);
            if settings.mode.is_slice() {
                let volume = facts.manifest.volume();
                slice_editor::show(ui, &mut settings, &mut scene.camera, volume);
            }
        });
        isosurfaces(ui, &mut settings, facts.manifest);
        section(ui, "Picture", |ui| finish(ui, &mut settings));
        section(ui, "Three slices", |ui| {
            slice_panes::edit(ui, &mut scene.slices, facts.manifest.volume());
        });
        section(ui, "Clip", |ui| {
            let toward_viewer = (scene.camera.eye - scene.camera.at).normalize_or_zero();
            let volume = facts.manifest.volume();
            let handles = &mut self.is_clip_box_shown;
            clip_editor::show(ui, &mut settings, volume, toward_viewer, handles);
        });
        if settings != *scene.settings {
            scene.settings = Arc::new(settings);
        }
        section(ui, "Over the picture", |ui| {
            overlay_editor::show(ui, &mut scene.overlay)
        });
        section(ui, "View", |ui| {
            view(ui, facts, asked);
            let mut is_parallel = scene.camera.projection == Projection::Parallel;
            ui.checkbox(&mut is_parallel, "Parallel projection")
                .on_hover_text("the same length is as long wherever it is");
            scene.camera.projection = if is_parallel {
                Projection::Parallel
            } else {
                Projection::Perspective
            };
        });
        section(ui, "To files", |ui| self.output.show(ui, scene, asked));
        section(ui, "Mesh", |ui| self.mesh(ui, facts, asked));
    }

    fn mesh(&mut self, ui: &mut Ui, facts: &Facts<'_>, asked: &mut Vec<Asked>) {
        let boxes = &mut self.are_bricks_shown;
        mesh_panel::show(ui, facts.frames[0], facts.mesh, boxes);
        asked.extend(mesh_panel::follow(ui, facts.mesh, facts.followed));
        ui.checkbox(&mut self.is_timeline_shown, "Timeline")
            .on_hover_text("what each peer did when");
    }

    fn data_set(&mut self, ui: &mut Ui, facts: &Facts<'_>, asked: &mut Vec<Asked>) {
        let volume = facts.manifest.volume();
        let name = std::path::Path::new(facts.manifest.source());
        let name = name.file_name().unwrap_or(name.as_os_str());
        ui.horizontal(|ui| {
            let stays = PopupCloseBehavior::CloseOnClickOutside;
            MenuButton::new("Open")
                .config(MenuConfig::new().close_behavior(stays))
                .ui(ui, |ui| self.open_menu(ui, facts, asked));
            if ui.button("Keys").clicked() {
                self.toggle_keys();
            }
            ui.add(egui::Label::new(RichText::new(name.to_string_lossy()).strong()).truncate());
        });
        let [x, y, z] = volume.dims;
        let voxel = format!("{:?}", volume.voxel).to_lowercase();
        let values = facts.manifest.value_range();
        let values = values.map_or_else(|| "no data".to_owned(), short_range);
        ui.label(format!("{x} × {y} × {z} {voxel}, values {values}"));
        let spacing = volume.spacing.map(short).join(" × ");
        ui.label(RichText::new(format!("spacing {spacing}")).small());
    }

    fn open_menu(&mut self, ui: &mut Ui, facts: &Facts<'_>, asked: &mut Vec<Asked>) {
        ui.label(
            "A volume, a transfer function or a session; a file may be dropped on the window, too.",
        );
        ui.horizontal(|ui| {
            let field = ui
                .text_edit_singleline(&mut self.path)
                .on_hover_text("path of a file, or of a .brickmesh folder");
            let is_entered = field.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
            if (ui.button("Open").clicked() || is_entered) && !self.path.is_empty() {
                asked.push(Asked::Open(PathBuf::from(&self.path)));
                ui.close();
            }
            let is_json = PathBuf::from(&self.path)
                .extension()
                .is_some_and(|e| e == "json");
            if ui
                .add_enabled(is_json, egui::Button::new("Save session"))
                .on_hover_text("camera and all else that is seen, to a file that ends in .json")
                .clicked()
            {
                asked.push(Asked::SaveSession(PathBuf::from(&self.path)));
                ui.close();
            }
        });
        for path in facts.recent {
            if ui.button(path.display().to_string()).clicked() {
                asked.push(Asked::Open(path.clone()));
                ui.close();
            }
        }
    }

    fn keys(&mut self, ui: &Ui) {
        egui::Window::new("Keys and hands")
            .open(&mut self.are_keys_shown)
            .resizable(false)
            .show(ui.ctx(), |ui| {
                egui::Grid::new("keys").striped(true).show(ui, |ui| {
                    for (key, what) in KEYS {
                        ui.strong(key);
                        ui.label(what);
                        ui.end_row();
                    }
                });
            });
    }
}

/// Two lines, whether there is anything to say or not.
fn pointed(ui: &mut Ui, facts: &Facts<'_>) {
    let Some(Pointed { world, voxel }) = facts.pointed else {
        ui.label("nothing is under the pointer");
        ui.label("");
        return;
    };
    let value = facts.value.filter(|(of, _)| of == voxel);
    let [x, y, z] = voxel;
    ui.horizontal(|ui| {
        ui.label(format!("voxel {x}, {y}, {z}:"));
        match value.map(|(_, value)| value) {
            None => ui.label("…"),
            Some(Ok(Some(value))) => ui.strong(exact(*value)),
            Some(Ok(None)) => ui.label("no data"),
            Some(Err(why)) => ui.colored_label(WRONG, "not to be had").on_hover_text(why),
        };
    });
    let [x, y, z] = world.to_array().map(short);
    ui.label(format!("at {x}, {y}, {z} in the world"));
}

/// All digits of a value, and no more zeros than are read at a glance.
fn exact(value: f64) -> String {
    if value.abs() <= 0.0 || (1e-6..1e12).contains(&value.abs()) {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

/// What is told stands in the lower left corner of the picture.
fn tell(ui: &Ui, lines: &[&Line]) {
    let area = egui::Area::new(egui::Id::unique("told"))
        .interactable(false)
        .default_width(TOLD_WIDTH);
    let below = ui.ctx().content_rect().bottom() - ui.available_rect_before_wrap().bottom();
    let area = area.anchor(egui::Align2::LEFT_BOTTOM, [8.0, -8.0 - below]);
    area.show(ui.ctx(), |ui| {
        for line in lines {
            Frame::popup(ui.style()).show(ui, |ui| {
                ui.set_max_width(TOLD_WIDTH);
                let color = if line.is_bad {
                    WRONG
                } else {
                    ui.visuals().text_color()
                };
                ui.colored_label(color, &line.text);
            });
        }
    });
}

fn section(ui: &mut Ui, name: &str, content: impl FnOnce(&mut Ui)) {
    ui.separator();
    CollapsingHeader::new(RichText::new(name).strong())
        .default_open(true)
        .show_unindented(ui, content);
}

/// How samples become a pixel; a mode that needs a slice gets one.
fn mode(ui: &mut Ui, settings: &mut RenderSettings, manifest: &Manifest) {
    ui.horizontal(|ui| {
        ui.label("Mode");
        let before = settings.mode;
        ComboBox::from_id_salt("mode")
            .selected_text(before.name())
            .show_ui(ui, |ui| {
                for mode in Mode::ALL {
                    ui.selectable_value(&mut settings.mode, mode, mode.name());
                }
            });
        let volume = manifest.volume();
        if settings.mode.is_slice() && settings.slice.is_none() {
            settings.slice = Some(Slice::on_axis(volume, 2, f64::from(volume.dims[2] / 2)));
        }
        if settings.mode == Mode::Iso && settings.isosurfaces.is_empty() {
            settings
                .isosurfaces
                .push(isosurface_editor::another(0, manifest));
        }
        // Who has not chosen a function gets the one that the mode is best seen with.
        if settings.mode != before
            && settings.transfer == before.default_transfer(manifest).function
        {
            settings.transfer = settings.mode.default_transfer(manifest).function;
        }
    });
}

fn isosurfaces(ui: &mut Ui, settings: &mut RenderSettings, manifest: &Manifest) {
    if settings.mode.hides() {
        section(ui, "Isosurfaces", |ui| {
            isosurface_editor::show(ui, settings, manifest);
        });
    }
}

fn sampling(ui: &mut Ui, settings: &mut RenderSettings, manifest: &Manifest) {
    mode(ui, settings, manifest);
    let spacing = manifest.volume().min_spacing();
    let mut step = settings.step / spacing;
    // A slider that clamps, or shows fewer digits, would edit what nobody touched.
    let slider = Slider::new(&mut step, STEPS)
        .logarithmic(true)
        .clamping(SliderClamping::Edits)
        .text("Step");
    let takes_samples = settings.mode.has_samples();
    if ui
        .add_enabled(takes_samples, slider)
        .on_hover_text("sample distance, in multiples of the smallest spacing")
        .changed()
    {
        settings.step = (step * spacing).max(least_step(manifest.volume()));
    }
    let can_light = settings.mode.hides();
    ui.add_enabled(can_light, egui::Checkbox::new(&mut settings.shade, "Light"))
        .on_hover_text("of surfaces by their gradients, in modes dvr and iso");
    if settings.is_shaded() {
        let light = &mut settings.light;
        for (part, name) in [
            (&mut light.ambient, "Ambient"),
            (&mut light.diffuse, "Diffuse"),
            (&mut light.specular, "Specular"),
        ] {
            ui.add(
                Slider::new(part, 0.0..=1.0)
                    .clamping(SliderClamping::Edits)
                    .text(name),
            );
        }
        let exponents = 1..=LIGHT_EXPONENT_MAX;
        ui.add(
            Slider::new(&mut light.exponent, exponents)
                .logarithmic(true)
                .text("Exponent"),
        )
        .on_hover_text("the greater, the smaller the highlight");
        light_direction(ui, light);
    }
    if settings.mode == Mode::Dvr {
        ui.checkbox(&mut settings.preintegrate, "Pre-integrated")
            .on_hover_text("each sample stands for all values around it: thin structures at long steps, for more time a sample");
        gradient_opacity(ui, settings);
    }
    let jitter = egui::Checkbox::new(&mut settings.jitter, "Jitter");
    ui.add_enabled(takes_samples, jitter)
        .on_hover_text("fine grain in place of rings");
}

/// Background, exposure and gamma.
fn finish(ui: &mut Ui, settings: &mut RenderSettings) {
    ui.horizontal(|ui| {
        color(ui, &mut settings.background);
        ui.label("Background");
        let mut is_gradient = settings.background_top.is_some();
        if ui.checkbox(&mut is_gradient, "another above").changed() {
            settings.background_top = is_gradient.then_some(TOP);
        }
        if let Some(top) = &mut settings.background_top {
            color(ui, top);
        }
    });
    for (value, bounds, name) in [
        (&mut settings.exposure, EXPOSURES, "Exposure"),
        (&mut settings.gamma, GAMMAS, "Gamma"),
    ] {
        let slider = Slider::new(value, bounds).logarithmic(true);
        ui.add(slider.clamping(SliderClamping::Edits).text(name));
    }
}

fn color(ui: &mut Ui, color: &mut [f32; 3]) {
    let mut bytes = color.map(to_byte);
    if ui.color_edit_button_srgb(&mut bytes).changed() {
        *color = bytes.map(|b| f32::from(b) / 255.0);
    }
}

/// At the eye, or from aside by two angles.
#[expect(clippy::cast_possible_truncation, reason = "parts of a direction")]
fn light_direction(ui: &mut Ui, light: &mut Light) {
    let mut is_aside = light.direction.is_some();
    if ui
        .checkbox(&mut is_aside, "Light from aside")
        .on_hover_text("in place of at the eye")
        .changed()
    {
        light.direction = is_aside.then_some([-1.0, 1.0, 1.0]);
    }
    let Some(direction) = light.direction else {
        return;
    };
    let [right, up, nearer] = direction.map(f64::from);
    let mut angles = [right.atan2(nearer), up.atan2(right.hypot(nearer))].map(f64::to_degrees);
    for (at, (name, most)) in [("From the right", 180.0), ("From above", 90.0)]
        .into_iter()
        .enumerate()
    {
        let slider = Slider::new(&mut angles[at], -most..=most).suffix("°");
        let slider = slider.fixed_decimals(0).clamping(SliderClamping::Edits);
        if ui.add(slider.text(name)).changed() {
            let [to_right, above] = angles.map(f64::to_radians);
            let (across, up) = (above.cos(), above.sin());
            let direction = [across * to_right.sin(), up, across * to_right.cos()];
            light.direction = Some(direction.map(|part| part as f32));
        }
    }
}

/// Two numbers, as parts of the width of the transfer function.
fn gradient_opacity(ui: &mut Ui, settings: &mut RenderSettings) {
    let [low, high] = settings.transfer.ends();
    let width = (high - low).abs().max(f64::MIN_POSITIVE);
    let mut is_on = settings.gradient_opacity.is_some();
    if ui
        .checkbox(&mut is_on, "Opacity by gradient")
        .on_hover_text("what is uniform goes, borders stay")
        .changed()
    {
        settings.gradient_opacity = is_on.then_some([0.01 * width, 0.1 * width]);
    }
    let Some([from, to]) = settings.gradient_opacity else {
        return;
    };
    let mut parts = [from / width, to / width];
    let names = ["None up to", "All from"];
    for at in [0, 1] {
        let slider = Slider::new(&mut parts[at], GRADIENTS)
            .logarithmic(true)
            .clamping(SliderClamping::Edits)
            .text(names[at]);
        let hint = "change of the value from voxel to voxel, as a part of the function's width";
        if ui.add(slider).on_hover_text(hint).changed() {
            // The second stays above the first.
            let other = if at == 0 {
                parts[0] * 1.01
            } else {
                parts[1] / 1.01
            };
            let pair = if at == 0 {
                [parts[0], parts[1].max(other)]
            } else {
                [parts[0].min(other), parts[1]]
            };
            settings.gradient_opacity = Some(pair.map(|part| part * width));
        }
    }
}

/// Colours are written to pictures as they are, without a curve.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate"
)]
pub(super) fn to_byte(color: f32) -> u8 {
    (color * 255.0 + 0.5) as u8
}

fn view(ui: &mut Ui, facts: &Facts<'_>, asked: &mut Vec<Asked>) {
    let mut button = |ui: &mut Ui, is_enabled: bool, text: &str, command| {
        if ui
            .add_enabled(is_enabled, egui::Button::new(text))
            .clicked()
        {
            asked.push(Asked::Command(command));
        }
    };
    ui.horizontal(|ui| {
        button(ui, facts.can_undo, "Undo", Command::Undo);
        button(ui, facts.can_redo, "Redo", Command::Redo);
        button(ui, true, "Reset", Command::Reset);
        button(ui, true, "Ball or table", Command::Style);
    });
    ui.horizontal_wrapped(|ui| {
        let names = ["Front", "Back", "Left", "Right", "Above", "Below"];
        for (axis, name) in names.into_iter().enumerate() {
            button(ui, true, name, Command::Axis(axis));
        }
    });
    let mut theme = ui.ctx().options(|o| o.theme_preference);
    ui.horizontal(|ui| {
        for (choice, name) in [
            (ThemePreference::System, "As the system"),
            (ThemePreference::Light, "Light"),
            (ThemePreference::Dark, "Dark"),
        ] {
            ui.selectable_value(&mut theme, choice, name);
        }
    });
    ui.ctx().set_theme(theme);
}

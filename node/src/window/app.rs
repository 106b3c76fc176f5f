//! The window itself: what it hears of keys and mouse, and what it draws.

use super::{
    AskedVolume, MeshReport, Opened, PictureFile, Shown, Slot, Told, VoxelValue, Wanted, Wish,
    hands::{Drag, Hands, NOTCH_PIXELS},
    keys::{self, Command},
    panels::{Asked, Facts, Line, Panels, PictureChoice, Pointed},
    panes::{PANES, Pane},
    recent, scaling,
    scene::{History, Scene},
    stage::Stage,
    ui::{Area, UiLayer},
};
use crate::{
    args::ViewArgs, camera_path_file, config_folder::config_folder, overlay::painter::Canvas,
    terminal::note,
};
use brickmesh_actors::plain_text::plain_text;
use brickmesh_topology::Camera;
use softbuffer::{Context, Surface};
use std::{
    collections::VecDeque,
    fs,
    num::NonZeroU32,
    path::{Path, PathBuf},
    rc::Rc,
    sync::PoisonError,
    time::{Duration, Instant},
};
use tokio::sync::watch;
use winit::{
    application::ApplicationHandler,
    dpi::PhysicalSize,
    event::{ElementState, MouseButton, MouseScrollDelta, StartCause, WindowEvent},
    event_loop::{ActiveEventLoop, ControlFlow, OwnedDisplayHandle},
    keyboard::ModifiersState,
    window::{Window, WindowId},
};

/// What the window is called.
const TITLE: &str = "brickmesh";
/// Two clicks within this are a double click.
const DOUBLE_CLICK: Duration = Duration::from_millis(400);
/// Where in the user's folder what is seen is kept, and how often it is written at most.
const LAST_SESSION: &str = "last-session.json";
/// And those of copied commands.
const SESSIONS: &str = "sessions";
const KEEP_EVERY: Duration = Duration::from_secs(2);
/// Lines that are shown of what was told, and for how long.
const TOLD_MAX: usize = 5;
const TOLD_FOR: Duration = Duration::from_secs(5);
const WRONG_FOR: Duration = Duration::from_secs(20);

/// What the window is called while this is wrong. It may be what another peer says, and a window
/// system takes no title with a NUL in it.
fn title(trouble: Option<&str>) -> String {
    trouble.map_or_else(
        || TITLE.to_owned(),
        |trouble| format!("{TITLE}: {}", plain_text(trouble)),
    )
}

/// What has changed in the mesh, for people.
fn changes(before: &MeshReport, now: &MeshReport) -> Vec<Line> {
    let mut lines = Vec::new();
    for peer in &now.peers {
        let name = &peer.name;
        let then = before.peers.iter().find(|p| p.id == peer.id);
        // Who has lost its device says why in place of its name.
        if then.is_some_and(|then| then.device != peer.device) {
            let line = format!("{name}: {}", peer.device);
            lines.push(if peer.is_device_lost {
                Line::bad(&line)
            } else {
                Line::good(line)
            });
        }
        match then {
            None if !before.peers.is_empty() => lines.push(Line::good(format!("{name} is here"))),
            Some(then) if peer.is_silent && !then.is_silent => {
                lines.push(Line::bad(&format!("{name} does not answer")));
            }
            _ => {}
        }
    }
    let is_new = |gone: &&String| !before.gone.contains(gone);
    let gone = now.gone.iter().filter(is_new);
    lines.extend(gone.map(|name| Line::bad(&format!("{name} is gone"))));
    lines
}

/// What a drag with this button does to a picture.
fn drag_of(button: MouseButton, modifiers: ModifiersState, is_measuring: bool) -> Option<Drag> {
    Some(match button {
        MouseButton::Left if modifiers.shift_key() => Drag::Pan,
        MouseButton::Left if modifiers.control_key() => Drag::Roll,
        MouseButton::Right if modifiers.control_key() => Drag::Window,
        MouseButton::Left if is_measuring => Drag::Measure,
        MouseButton::Left => Drag::Turn,
        MouseButton::Right | MouseButton::Middle => Drag::Pan,
        _ => return None,
    })
}

type Pixels = Surface<OwnedDisplayHandle, Rc<Window>>;

/// The window, once there is one.
struct Screen {
    window: Rc<Window>,
    pixels: Pixels,
    ui: UiLayer,
    /// The panels are to be laid out again.
    is_stale: bool,
}

pub(super) struct App {
    want: watch::Sender<Wanted>,
    slot: Slot,
    stage: Option<Stage>,
    panels: Panels,
    /// A panel changes the scene, and its edit goes on.
    is_panel_editing: bool,
    /// A volume that is on its way.
    opening: Option<AskedVolume>,
    /// Volumes that were asked for.
    asked: u32,
    modifiers: ModifiersState,
    pointer: [f64; 2],
    /// The button that the picture has.
    held: Option<MouseButton>,
    last_click: Option<Instant>,
    size: (u32, u32),
    /// Of the picture, until the window is as large as that and its panels.
    asked_size: Option<(u32, u32)>,
    display: OwnedDisplayHandle,
    screen: Option<Screen>,
    shown: [Option<Shown>; PANES],
    mesh: MeshReport,
    /// What was told, newest last, until when.
    told: VecDeque<(Instant, Line)>,
    /// What is wrong with what is shown, as long as it is.
    trouble: Option<Line>,
    recent: Vec<PathBuf>,
    pointed: Option<Pointed>,
    /// The value of the voxel that was told last.
    value: Option<VoxelValue>,
    picture_file: Option<PictureFile>,
    /// Pictures that were asked for as files.
    pictures_asked: u32,
    /// Cameras of the drag that goes on, and when the hand was there.
    dragged: VecDeque<(Instant, Camera)>,
    /// The viewer whose camera is followed, and how that was seen last.
    follow: Option<String>,
    followed: Option<Camera>,
    /// The scene that was kept last, and when.
    kept: Option<(Instant, Scene)>,
    pub(super) failed: Option<String>,
}

impl App {
    pub(super) fn new(
        want: watch::Sender<Wanted>,
        slot: Slot,
        args: &ViewArgs,
        display: OwnedDisplayHandle,
    ) -> Self {
        Self {
            want,
            slot,
            stage: None,
            panels: Panels::new(args.panels),
            is_panel_editing: false,
            opening: None,
            asked: 0,
            modifiers: ModifiersState::empty(),
            pointer: [0.0; 2],
            held: None,
            last_click: None,
            size: args.picture.size,
            asked_size: Some(args.picture.size),
            display,
            screen: None,
            shown: Default::default(),
            mesh: MeshReport::default(),
            told: VecDeque::new(),
            trouble: None,
            recent: recent::recent(),
            pointed: None,
            value: None,
            picture_file: None,
            pictures_asked: 0,
            dragged: VecDeque::new(),
            follow: args.follow.clone(),
            followed: None,
            kept: None,
            failed: None,
        }
    }

    fn open_window(&mut self, event_loop: &ActiveEventLoop) -> Result<(), String> {
        let size = PhysicalSize::new(self.size.0, self.size.1);
        let attributes = Window::default_attributes()
            .with_title(TITLE)
            .with_inner_size(size);
        let window = Rc::new(
            event_loop
                .create_window(attributes)
                .map_err(|e| e.to_string())?,
        );
        let context = Context::new(self.display.clone()).map_err(|e| e.to_string())?;
        let pixels = Surface::new(&context, Rc::clone(&window)).map_err(|e| e.to_string())?;
        window.request_redraw();
        self.screen = Some(Screen {
            ui: UiLayer::new(&window),
            window,
            pixels,
            is_stale: true,
        });
        Ok(())
    }

    fn is_dragging(&self) -> bool {
        self.stage.as_ref().is_some_and(|s| s.hands.is_dragging())
    }

    /// The panes, and the pixels of the window that each has.
    fn panes(&self) -> Vec<(Pane, Area)> {
        let are_shown = |s: &Stage| s.history.now().slices.are_shown;
        let with_slices = self.stage.as_ref().is_some_and(are_shown);
        let panes = |s: &Screen| s.ui.panes(with_slices);
        self.screen.as_ref().map(panes).unwrap_or_default()
    }

    /// Wants the pictures as they are now; coarse ones do while they are edited.
    fn want(&self) {
        let wish = |stage: &Stage, (pane, area): (Pane, Area)| Wish {
            opened: stage.opened.number,
            pane,
            seen: stage.history.now().seen_in(
                pane,
                stage.opened.manifest.volume(),
                [area.width, area.height],
            ),
            width: area.width,
            height: area.height,
            moving: self.is_panel_editing
                || self.follow.is_some()
                || stage.hands.is_dragging()
                || stage.hands.is_zooming(),
            is_traced: pane == Pane::Volume && self.panels.is_timeline_shown,
        };
        let pictures = self.stage.as_ref().map(|stage| {
            let panes = self.panes().into_iter();
            let panes = panes.filter(|(_, area)| area.width > 0);
            panes.map(|pane| wish(stage, pane)).collect()
        });
        let wanted = Wanted {
            pictures: pictures.unwrap_or_default(),
            voxel: self.pointed.as_ref().map(|p| p.voxel),
            volume: self.opening.clone(),
            picture_file: self.picture_file.clone(),
            follow: self.follow.clone(),
        };
        self.want.send_if_modified(|w| {
            let new = *w != wanted;
            *w = wanted;
            new
        });
    }

    /// Looks what is under the pointer, where that is shown.
    fn point(&mut self) {
        let Some(stage) = self.stage.as_mut().filter(|_| self.panels.is_open) else {
            return;
        };
        let manifest = &stage.opened.manifest;
        let is_picture = |s: &Screen| s.ui.is_picture(self.pointer);
        let is_there = self.screen.as_ref().is_some_and(is_picture) && !stage.hands.is_dragging();
        let world = is_there.then(|| stage.hands.under_pointer(manifest, stage.history.now()));
        let pointed = world.flatten().and_then(|world| {
            let voxel = manifest.volume().nearest_voxel(world)?;
            Some(Pointed { world, voxel })
        });
        if pointed != self.pointed {
            self.pointed = pointed;
            self.redraw(true);
        }
    }

    fn redraw(&mut self, is_stale: bool) {
        if let Some(screen) = &mut self.screen {
            screen.is_stale |= is_stale;
            screen.window.request_redraw();
        }
    }

    fn tell(&mut self, line: Line) {
        note(format_args!("brickmesh: {}", line.text));
        let told_for = if line.is_bad { WRONG_FOR } else { TOLD_FOR };
        self.told.push_back((Instant::now() + told_for, line));
        if self.told.len() > TOLD_MAX {
            self.told.pop_front();
        }
        self.redraw(true);
    }

    /// Lays the panels out; what they ask for.
    fn lay_out(&mut self, screen: &mut Screen) -> Vec<Asked> {
        let mut asked = Vec::new();
        let now = Instant::now();
        self.told.retain(|(until, _)| *until > now);
        let told_for = self.told.iter().map(|(until, _)| *until - now).min();
        let Some(stage) = &mut self.stage else {
            screen.ui.run(&screen.window, |ui| {
                ui.centered_and_justified(|ui| ui.label("loading bricks …"));
            });
            return asked;
        };
        let facts = Facts {
            manifest: &stage.opened.manifest,
            histogram: &stage.opened.histogram,
            frames: std::array::from_fn(|n| self.shown[n].as_ref()?.report.as_ref()),
            mesh: &self.mesh,
            told: &(self.told.iter().map(|(_, line)| line))
                .chain(&self.trouble)
                .collect::<Vec<_>>(),
            recent: &self.recent,
            pointed: self.pointed.as_ref(),
            value: self.value.as_ref(),
            ruler: stage.hands.ruler,
            followed: self.follow.as_deref(),
            can_undo: stage.history.can_undo(),
            can_redo: stage.history.can_redo(),
        };
        let mut scene = stage.history.now().clone();
        screen.ui.run(&screen.window, |ui| {
            asked.extend(self.panels.show(ui, &mut scene, &facts));
            if let Some(told_for) = told_for {
                ui.ctx().request_repaint_after(told_for);
            }
        });
        let is_held = screen.ui.is_held() || screen.ui.is_typed_into();
        if scene != *stage.history.now() {
            if !self.is_panel_editing {
                stage.history.end_edit();
            }
            stage.history.set(scene);
            stage.hands.end_zoom();
            self.is_panel_editing = is_held;
            screen.is_stale = true;
        } else if !is_held {
            self.is_panel_editing = false;
        }
        let area = screen.ui.area();
        if let Some((width, _)) = self.asked_size.take()
            && let Some(more) = width.checked_sub(area.width).filter(|n| *n > 0)
        {
            let size = PhysicalSize::new(self.size.0 + more, self.size.1);
            if let Some(size) = screen.window.request_inner_size(size) {
                self.size = (size.width.max(1), size.height.max(1));
                screen.is_stale = true;
            }
        }
        asked
    }

    /// Draws the latest frame, as large as its area, and the panels.
    fn draw(&mut self) -> Result<(), String> {
        let Some(mut screen) = self.screen.take() else {
            return Ok(());
        };
        let start = Instant::now();
        self.end_following();
        let is_due = screen.ui.due.is_some_and(|due| due <= Instant::now());
        let is_stale = std::mem::take(&mut screen.is_stale);
        let asked = if is_stale || is_due {
            self.lay_out(&mut screen)
        } else {
            Vec::new()
        };
        let drawn = self.draw_on(&mut screen);
        self.note_shown();
        if screen.is_stale {
            screen.window.request_redraw();
        }
        self.screen = Some(screen);
        self.fit_hands();
        if is_stale {
            self.point();
        }
        for asked in asked {
            match asked {
                Asked::Command(command) => self.command(command),
                Asked::Open(path) => self.open(&path),
                Asked::SaveTransfer(of, to) => self.save_transfer(of, &to),
                Asked::OpenForSlices(path) => {
                    let taken = self
                        .stage
                        .as_mut()
                        .map(|stage| stage.take_for_slices(&path));
                    self.tell_taken(taken);
                }
                Asked::SaveSession(path) => {
                    let saved = self.save_session(&path);
                    self.tell_saved(saved.map(|()| path));
                }
                Asked::SavePath { path, to } => {
                    let saved = camera_path_file::write(&path, &to);
                    self.tell_saved(saved.map(|()| to));
                }
                Asked::SavePicture(choice) => self.save_picture(choice),
                Asked::Follow(viewer) => {
                    self.follow = viewer;
                    self.begin_following();
                }
                Asked::CopyCommand(choice) => self.copy_command(&choice),
            }
        }
        self.want();
        tracing::trace!(took = ?start.elapsed(), "window drawn");
        drawn
    }

    /// From now on a hand that moves the camera ends it, whether the other one has shown anything or not.
    fn begin_following(&mut self) {
        let stage = self.stage.as_ref().filter(|_| self.follow.is_some());
        self.followed = stage.map(|s| s.history.now().camera);
    }

    /// Looks from where the followed viewer does.
    fn look(&mut self, camera: Camera) {
        self.end_following();
        if let Some(stage) = self.stage.as_mut().filter(|_| self.follow.is_some()) {
            stage.hands.end_zoom();
            stage.history.look(camera);
            let is_drawn_on = stage.draws_over();
            self.followed = Some(camera);
            self.want();
            self.redraw(is_drawn_on || self.panels.follow_pictures());
        }
    }

    /// Who moves the camera follows nobody any more.
    fn end_following(&mut self) {
        let camera = self.stage.as_ref().map(|s| s.history.now().camera);
        if self
            .followed
            .is_some_and(|followed| camera != Some(followed))
            && let Some(name) = self.follow.take()
        {
            self.followed = None;
            self.tell(Line::good(format!("{name} is not followed any more")));
        }
    }

    /// Notes where the hand is, and how long it took until it is seen.
    fn note_drag(&mut self) {
        let stage = self.stage.as_ref().filter(|s| s.hands.is_dragging());
        let Some(camera) = stage.map(|s| s.history.now().camera) else {
            return self.dragged.clear();
        };
        if self.dragged.back().is_none_or(|(_, last)| *last != camera) {
            self.dragged.push_back((Instant::now(), camera));
        }
    }

    fn note_shown(&mut self) {
        let shown = self.shown[Pane::Volume.index()].as_ref();
        let Some(report) = shown.and_then(|shown| shown.report.as_ref()) else {
            return;
        };
        let is_it = |(_, camera): &(Instant, Camera)| *camera == report.camera;
        if let Some(at) = self.dragged.iter().position(is_it) {
            let latency = self.dragged[at].0.elapsed();
            tracing::debug!(?latency, "a drag is seen");
            self.dragged.drain(..=at);
        }
    }

    fn draw_on(&self, screen: &mut Screen) -> Result<(), String> {
        let (Some(width), Some(height)) =
            (NonZeroU32::new(self.size.0), NonZeroU32::new(self.size.1))
        else {
            return Ok(());
        };
        let pixels = &mut screen.pixels;
        pixels.resize(width, height).map_err(|e| e.to_string())?;
        let mut buffer = pixels.buffer_mut().map_err(|e| e.to_string())?;
        let width = width.get() as usize;
        buffer.fill(0);
        let are_shown = |s: &Stage| s.history.now().slices.are_shown;
        for (pane, area) in screen.ui.panes(self.stage.as_ref().is_some_and(are_shown)) {
            let Some(shown) = &self.shown[pane.index()] else {
                continue;
            };
            let Area {
                left,
                top,
                width: columns,
                height,
            } = area;
            // The window may have grown since it was laid out.
            let right = width.min((left + columns) as usize);
            let columns = right.min(left as usize)..right;
            let rows = buffer.chunks_exact_mut(width).skip(top as usize);
            scaling::draw(shown.canvas.picture(), columns, height as usize, rows);
        }
        screen.ui.paint(&mut Canvas {
            width,
            pixels: &mut buffer,
        });
        buffer.present().map_err(|e| e.to_string())
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Keys => self.panels.toggle_keys(),
            Command::Panels => self.panels.is_open = !self.panels.is_open,
            Command::ClipBox => self.panels.toggle_clip_box(),
            Command::Timeline => self.panels.is_timeline_shown = !self.panels.is_timeline_shown,
            Command::Ruler => {
                if let Some(stage) = &mut self.stage {
                    let told = stage.hands.toggle_ruler();
                    self.tell(Line::good(told.to_owned()));
                }
            }
            _ => {
                let is_undo = matches!(command, Command::Undo | Command::Redo);
                let followed = self.followed.filter(|_| is_undo && self.follow.is_some());
                if let Some(Stage {
                    opened,
                    hands,
                    history,
                }) = &mut self.stage
                {
                    if let Some(camera) = followed {
                        // What is undone is what was edited here, and can be seen.
                        history.past_cameras(|history| match command {
                            Command::Undo => history.undo(),
                            _ => history.redo(),
                        });
                        history.look(camera);
                    } else if let Some(told) = hands.command(command, &opened.manifest, history) {
                        self.tell(Line::good(told));
                    }
                }
            }
        }
        self.point();
        self.redraw(true);
        self.want();
    }

    /// Opens a volume, or takes a transfer function or a session.
    fn open(&mut self, path: &Path) {
        if path.extension().is_some_and(|e| e == "json") {
            let taken = self.stage.as_mut().map(|stage| stage.take(path));
            self.tell_taken(taken);
        } else {
            self.tell(Line::good(format!("loading {} …", path.display())));
            self.asked += 1;
            self.opening = Some(AskedVolume {
                number: self.asked,
                path: path.to_owned(),
            });
        }
        self.want();
    }

    fn save_transfer(&mut self, of: Pane, to: &str) {
        if let Some(stage) = &self.stage {
            let saved = stage.save_transfer(of, to);
            self.tell_saved(saved);
        }
    }

    /// Has what is seen of the volume rendered to a file.
    fn save_picture(&mut self, choice: PictureChoice) {
        let PictureChoice {
            path,
            size: [width, height],
            with_overlay,
            is_transparent,
        } = choice;
        let Some(stage) = &self.stage else {
            return;
        };
        if let Some(before) = &self.picture_file {
            let path = before.path.display();
            let why = format!("{path} is being rendered; save another one after it");
            return self.tell(Line::bad(&why));
        }
        let scene = stage.history.now();
        let volume = stage.opened.manifest.volume();
        let overlay = Some(scene.overlay.clone()).filter(|_| with_overlay);
        self.pictures_asked += 1;
        self.picture_file = Some(PictureFile {
            number: self.pictures_asked,
            opened: stage.opened.number,
            path: path.clone(),
            size: (width, height),
            seen: scene.seen_in(Pane::Volume, volume, [width, height]),
            overlay: overlay.unwrap_or_default(),
            is_transparent,
        });
        self.tell(Line::good(format!("rendering {} …", path.display())));
    }

    /// Copies the command that renders what is seen.
    fn copy_command(&mut self, choice: &PictureChoice) {
        let Some(stage) = &self.stage else {
            return;
        };
        let folder = config_folder().map(|folder| folder.join(SESSIONS));
        let folder = folder.ok_or_else(|| "there is no folder for it: HOME is not set".to_owned());
        match folder.and_then(|folder| stage.command(&folder, choice)) {
            Ok(line) => {
                if let Some(screen) = &self.screen {
                    screen.ui.copy(&line);
                }
                self.tell(Line::good(line));
            }
            Err(why) => self.tell(Line::bad(&why)),
        }
    }

    /// Keeps what is seen for who loses the window: without a display the program is ended by the
    /// system's library, and hears of nothing.
    fn keep_session(&mut self) {
        let Some(stage) = self.stage.as_ref().filter(|s| !s.hands.is_dragging()) else {
            return;
        };
        let scene = stage.history.now();
        let is_kept =
            |(when, kept): &(Instant, Scene)| when.elapsed() < KEEP_EVERY || kept == scene;
        if self.kept.as_ref().is_some_and(is_kept) {
            return;
        }
        let scene = scene.clone();
        if let Some(folder) = config_folder() {
            let made = fs::create_dir_all(&folder).map_err(|e| e.to_string());
            if let Err(error) = made.and_then(|()| self.save_session(&folder.join(LAST_SESSION))) {
                tracing::debug!(error, "the session is not kept");
            }
        }
        self.kept = Some((Instant::now(), scene));
    }

    /// Writes what is seen, if anything is.
    fn save_session(&self, path: &Path) -> Result<(), String> {
        let stage = self.stage.as_ref().ok_or("nothing is open")?;
        stage.save_session(path)
    }

    fn tell_taken(&mut self, taken: Option<Result<String, String>>) {
        match taken {
            Some(Ok(told)) => self.tell(Line::good(told)),
            Some(Err(why)) => self.tell(Line::bad(&why)),
            None => {}
        }
    }

    fn tell_saved(&mut self, saved: Result<PathBuf, String>) {
        self.tell(match saved {
            Ok(path) => Line::good(format!("wrote {}", path.display())),
            Err(why) => Line::bad(&why),
        });
    }

    /// A data set is open.
    fn opened(&mut self, opened: Opened) {
        self.opening = self.opening.take().filter(|o| o.number != opened.asked);
        self.shown = Default::default();
        if let Some(screen) = &self.screen {
            screen.window.set_title(TITLE);
        }
        self.mesh = MeshReport::default();
        self.trouble = None;
        if let Some(picture) = self.picture_file.take() {
            let path = picture.path.display();
            self.tell(Line::bad(&format!(
                "{path} was not rendered: another volume is open"
            )));
        }
        (self.pointed, self.value) = (None, None);
        self.panels.opened();
        if let Some(path) = opened.path.as_deref().filter(|p| p.exists()) {
            self.recent = recent::remember(path);
        }
        let values = opened.manifest.value_range().unwrap_or_default();
        self.stage = Some(Stage {
            hands: Hands::new(opened.scene.camera, values),
            history: History::new(opened.scene.clone()),
            opened,
        });
        self.begin_following();
        self.fit_hands();
        self.redraw(true);
    }

    /// Lets hands know how large the panes are.
    fn fit_hands(&mut self) {
        let panes = self.panes();
        if let Some(stage) = &mut self.stage {
            for (pane, area) in panes {
                stage.hands.resized(pane, [area.width, area.height]);
            }
        }
        // What is under the pointer now may be another pane.
        let (pane, at) = self.on_picture();
        if let Some(stage) = self.stage.as_mut().filter(|s| !s.hands.is_dragging()) {
            let volume = stage.opened.manifest.volume();
            stage.hands.moved(pane, at, volume, &mut stage.history);
        }
    }

    /// The pane that a button holds or the pointer is over, and the pointer's pixel of its picture.
    fn on_picture(&self) -> (Pane, [f64; 2]) {
        let [x, y] = self.pointer;
        let panes = self.panes();
        let held = self.stage.as_ref().and_then(|s| s.hands.held_pane());
        let is_here = |(pane, area): &&(Pane, Area)| match held {
            Some(held) => *pane == held,
            None => area.contains(self.pointer),
        };
        let here = panes.iter().find(is_here).copied();
        let volume = panes.iter().find(|(pane, _)| *pane == Pane::Volume);
        let (pane, area) = here.or(volume.copied()).unwrap_or_default();
        (pane, [x - f64::from(area.left), y - f64::from(area.top)])
    }

    /// A click without a drag; the second of two makes what is there the centre.
    fn clicked(&mut self) {
        let now = Instant::now();
        let is_second = |last: Instant| now.duration_since(last) < DOUBLE_CLICK;
        if self.last_click.take().is_some_and(is_second) {
            self.command(Command::Centre);
        } else {
            self.last_click = Some(now);
        }
    }

    /// Takes what hands do over the picture; false: it is for the panels.
    fn is_taken(&mut self, event: &WindowEvent) -> bool {
        if let WindowEvent::CursorMoved { position, .. } = event {
            self.pointer = [position.x, position.y];
        }
        let (pane, at) = self.on_picture();
        let free = |s: &&Screen| s.ui.is_picture(self.pointer) && !s.ui.is_held();
        let free = self.screen.as_ref().filter(free);
        let Some(Stage {
            opened,
            hands,
            history,
        }) = &mut self.stage
        else {
            return false;
        };
        match event {
            WindowEvent::CursorMoved { .. } => {
                hands.moved(pane, at, opened.manifest.volume(), history);
                if hands.measures() {
                    hands.measure(false, opened.manifest.volume(), history.now());
                }
                hands.is_dragging()
            }
            WindowEvent::MouseInput { state, button, .. } => {
                match (state, self.held) {
                    (ElementState::Released, Some(held)) if held == *button => {
                        self.held = None;
                        if hands.released() && pane == Pane::Volume {
                            self.clicked();
                        }
                    }
                    // Another button beside the one that is held does nothing.
                    (ElementState::Pressed, Some(_)) => {}
                    (ElementState::Pressed, None) if let Some(screen) = free => {
                        let is_measuring = hands.is_measuring;
                        let Some(drag) = drag_of(*button, self.modifiers, is_measuring) else {
                            return true;
                        };
                        screen.ui.leave_field();
                        self.held = Some(*button);
                        hands.pressed(drag, opened.manifest.volume(), history);
                        if drag == Drag::Measure {
                            hands.measure(true, opened.manifest.volume(), history.now());
                        }
                    }
                    _ => return false,
                }
                true
            }
            WindowEvent::MouseWheel { delta, .. } if free.is_some() => {
                let pixels = match delta {
                    MouseScrollDelta::LineDelta(_, y) => f64::from(*y) * NOTCH_PIXELS,
                    MouseScrollDelta::PixelDelta(p) => p.y,
                };
                let volume = opened.manifest.volume();
                // On one of three slices it moves that, as everywhere; in other pictures it zooms.
                let moves = self.modifiers.control_key() == (pane == Pane::Volume);
                if !(moves && hands.wheel_slice(pixels, volume, history)) {
                    hands.wheel(pixels, volume, history);
                }
                true
            }
            // A button that goes up elsewhere is not heard of.
            WindowEvent::Focused(false) => {
                self.held = None;
                hands.released();
                false
            }
            _ => false,
        }
    }

    fn fail(&mut self, why: String, event_loop: &ActiveEventLoop) {
        self.failed = Some(format!("window: {why}"));
        event_loop.exit();
    }
}

impl ApplicationHandler<Told> for App {
    fn resumed(&mut self, event_loop: &ActiveEventLoop) {
        if self.screen.is_none()
            && let Err(why) = self.open_window(event_loop)
        {
            self.fail(why, event_loop);
        }
    }

    /// Panels that move by themselves are drawn when it is time.
    fn new_events(&mut self, _: &ActiveEventLoop, cause: StartCause) {
        if matches!(cause, StartCause::ResumeTimeReached { .. }) {
            self.redraw(false);
        }
    }

    fn about_to_wait(&mut self, event_loop: &ActiveEventLoop) {
        self.keep_session();
        let due = self.screen.as_ref().and_then(|s| s.ui.due);
        event_loop.set_control_flow(due.map_or(ControlFlow::Wait, ControlFlow::WaitUntil));
    }

    fn user_event(&mut self, event_loop: &ActiveEventLoop, told: Told) {
        match told {
            Told::Opened(opened) => self.opened(*opened),
            Told::NotOpened(number, why) => {
                self.opening = self.opening.take().filter(|o| o.number != number);
                self.tell(Line::bad(&why));
            }
            Told::Frame => {
                let new =
                    std::mem::take(&mut *self.slot.lock().unwrap_or_else(PoisonError::into_inner));
                for (shown, new) in self.shown.iter_mut().zip(new) {
                    let before = shown.take();
                    *shown = match (new, before) {
                        (Some(new), Some(before)) => Some(Shown {
                            report: new.report.or(before.report),
                            ..new
                        }),
                        (new, before) => new.or(before),
                    };
                }
                let is_drawn_on = self.stage.as_ref().is_some_and(Stage::draws_over);
                self.redraw(is_drawn_on || self.panels.follow_pictures());
            }
            Told::Viewpoint(camera) => self.look(camera),
            Told::NotFollowed(why) => self.tell(Line::bad(&why)),
            Told::Saved(saved) => {
                self.picture_file = None;
                self.tell_saved(saved);
            }
            Told::Voxel(value) => {
                self.value = Some(value);
                self.redraw(self.panels.is_open);
            }
            Told::Mesh(mesh) => {
                for line in changes(&self.mesh, &mesh) {
                    self.tell(line);
                }
                if mesh != self.mesh {
                    self.mesh = mesh;
                    self.redraw(true);
                }
            }
            Told::Trouble(trouble) => {
                if let Some(screen) = &self.screen {
                    screen.window.set_title(&title(trouble.as_deref()));
                }
                self.trouble = trouble.map(|trouble| Line::bad(&trouble));
                if let Some(trouble) = &self.trouble {
                    note(format_args!("brickmesh: {}", trouble.text));
                }
                self.redraw(true);
            }
            Told::Ended(why) => {
                self.failed = why;
                event_loop.exit();
            }
        }
    }

    fn window_event(&mut self, event_loop: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        let start = Instant::now();
        self.heard(event_loop, event);
        tracing::trace!(took = ?start.elapsed(), "an event was handled");
    }
}

impl App {
    fn heard(&mut self, event_loop: &ActiveEventLoop, event: WindowEvent) {
        let is_taken = self.is_taken(&event);
        let has_left = matches!(event, WindowEvent::CursorLeft { .. });
        if has_left && self.held.is_none() {
            self.pointer = [-1.0; 2];
        }
        if matches!(event, WindowEvent::CursorMoved { .. }) || has_left || is_taken {
            self.point();
        }
        if is_taken {
            // The panels know what can be undone.
            let moves = |s: &Stage| s.hands.measures() || s.history.now().slices.are_shown;
            let moves = self.stage.as_ref().is_some_and(moves);
            self.note_drag();
            self.redraw(moves || !self.is_dragging() && self.panels.follow_pictures());
            self.want();
            return;
        }
        if let Some(screen) = &mut self.screen
            && !matches!(event, WindowEvent::RedrawRequested)
            && screen.ui.event(&screen.window, &event)
        {
            self.redraw(true);
        }
        let is_typing = self.screen.as_ref().is_some_and(|s| s.ui.wants_keys());
        match event {
            WindowEvent::CloseRequested => event_loop.exit(),
            // One that is held while the window gets the focus is meant for another.
            WindowEvent::KeyboardInput {
                event,
                is_synthetic: false,
                ..
            } if event.state.is_pressed() && !is_typing => {
                match keys::command(&event.logical_key, self.modifiers) {
                    Some(Command::Close) if self.panels.hide_keys() => self.redraw(true),
                    Some(Command::Close) => event_loop.exit(),
                    Some(command) => self.command(command),
                    None => {}
                }
            }
            WindowEvent::ModifiersChanged(modifiers) => self.modifiers = modifiers.state(),
            WindowEvent::Resized(size) => {
                self.size = (size.width.max(1), size.height.max(1));
                self.redraw(true);
            }
            WindowEvent::DroppedFile(path) => self.open(&path),
            WindowEvent::RedrawRequested => {
                if let Err(why) = self.draw() {
                    self.fail(why, event_loop);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PeerRow;
    use super::*;
    use brickmesh_topology::PeerId;

    #[test]
    fn whatever_a_peer_says_makes_a_title_without_control_characters() {
        let said = format!("it said \0\u{1b}[31m\n{}", "x".repeat(10_000));
        let long = title(Some(&said));
        assert!(long.starts_with("brickmesh: it said ??[31m?x"), "{long}");
        assert!(!long.chars().any(char::is_control) && long.len() < 300);
        assert_eq!(title(None), TITLE);
    }

    #[test]
    fn who_loses_a_device_is_told() {
        let of = |device: &str, is_device_lost| {
            let peer = PeerRow {
                id: PeerId::new("a"),
                name: "lab-1".to_owned(),
                device: device.to_owned(),
                is_device_lost,
                bricks: 0,
                memory_bytes: 1,
                speed: None,
                is_silent: false,
                is_viewer: false,
            };
            MeshReport {
                peers: vec![peer],
                ..MeshReport::default()
            }
        };
        let (whole, lost, back) = (
            of("a GPU", false),
            of("device lost: why", true),
            of("a CPU", false),
        );
        let told = |before, now| {
            let lines = changes(before, now).into_iter();
            lines.map(|l| (l.text, l.is_bad)).collect::<Vec<_>>()
        };
        let is = |text: &str, is_bad| vec![(text.to_owned(), is_bad)];
        assert_eq!(told(&whole, &lost), is("lab-1: device lost: why", true));
        assert_eq!(told(&lost, &back), is("lab-1: a CPU", false));
        assert!(told(&whole, &whole).is_empty());
    }
}

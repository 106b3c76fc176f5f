//! What hands do to the scene: drags, wheel and commands. Pure; the motions are topology's.
//!
//! Points are pixels of the picture of a pane, from its upper left corner.

use super::{
    keys::Command,
    panes::{PANES, Pane},
    scene::{History, Scene, Seen},
};
use crate::overlay::Note;
use brickmesh_topology::{
    Camera, Manifest, RenderSettings, TransferFunction, View, VolumeDescription,
    picture::{framing::axis_views, slice::Slice, visible_cells::VisibleCellsCache},
};
use glam::DVec3;
use std::sync::Arc;

/// Pixels that a notch of the wheel counts for.
pub(super) const NOTCH_PIXELS: f64 = 40.0;
/// Pixels of the wheel that double the size.
const PIXELS_PER_DOUBLING: f64 = 240.0;
/// A drag that is shorter is a click.
const CLICK_PIXELS: f64 = 4.0;
/// Degrees that a key rolls.
const ROLL_DEGREES: f64 = 5.0;
/// Half heights that an arrow key turns.
const KEY_DRAG: f64 = 0.1;
/// A function is at most so many times as wide or narrow as the values of the data by a drag.
const WINDOW_MAX: f64 = 100.0;
/// What a key zooms by.
const KEY_ZOOM: f64 = 1.25;
/// Views that can be saved.
pub(super) const SAVED: usize = 4;

/// What a drag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drag {
    /// On a slice: the others cross it there.
    Turn,
    Pan,
    Roll,
    /// From one point to another.
    Measure,
    /// Right: a wider range of values; up: a higher one.
    Window,
}

/// How a drag turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Trackball,
    Turntable,
}

/// A button that is down.
#[derive(Clone, Copy, Debug)]
struct Dragging {
    does: Drag,
    pane: Pane,
    from: [f64; 2],
    has_moved: bool,
}

/// A length that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Where it is seen.
    pub pane: Pane,
    /// Both ends, in the world.
    pub ends: [DVec3; 2],
}

/// See the module.
#[derive(Debug)]
pub(super) struct Hands {
    home: Camera,
    /// Of the data.
    values: [f64; 2],
    style: Style,
    saved: [Option<Camera>; SAVED],
    drag: Option<Dragging>,
    /// Where the pointer is, or was last.
    pane: Pane,
    pointer: [f64; 2],
    sizes: [[u32; 2]; PANES],
    /// Where the wheel goes on with what it did.
    is_zooming: bool,
    /// Notches that the wheel was turned beyond whole ones.
    turned: f64,
    /// Left drags measure.
    pub(super) is_measuring: bool,
    /// What was measured.
    pub(super) ruler: Option<Measured>,
    visible: VisibleCellsCache,
}

impl Hands {
    pub(super) fn new(home: Camera, values: [f64; 2]) -> Self {
        Self {
            home,
            values,
            style: Style::Turntable,
            saved: [None; SAVED],
            drag: None,
            pane: Pane::Volume,
            pointer: [0.0; 2],
            sizes: [[1; 2]; PANES],
            is_zooming: false,
            turned: 0.0,
            is_measuring: false,
            ruler: None,
            visible: VisibleCellsCache::default(),
        }
    }

    pub(super) fn is_dragging(&self) -> bool {
        self.drag.is_some()
    }

    /// The wheel was the last to edit.
    pub(super) fn is_zooming(&self) -> bool {
        self.is_zooming
    }

    /// Something else edits.
    pub(super) fn end_zoom(&mut self) {
        self.is_zooming = false;
    }

    pub(super) fn resized(&mut self, pane: Pane, size: [u32; 2]) {
        self.sizes[pane.index()] = size.map(|n| n.max(1));
    }

    /// The pane whose picture a button holds.
    pub(super) fn held_pane(&self) -> Option<Pane> {
        self.drag.map(|drag| drag.pane)
    }

    fn size(&self) -> [u32; 2] {
        self.sizes[self.pane.index()]
    }

    /// A pixel in half heights from the middle, y up.
    fn point(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [width, height] = self.size().map(f64::from);
        [(2.0 * x - width) / height, (height - 2.0 * y) / height]
    }

    /// A button went down.
    pub(super) fn pressed(
        &mut self,
        does: Drag,
        volume: &VolumeDescription,
        history: &mut History,
    ) {
        history.end_edit();
        self.is_zooming = false;
        self.drag = Some(Dragging {
            does,
            pane: self.pane,
            from: self.pointer,
            has_moved: false,
        });
        if does == Drag::Turn && self.pane != Pane::Volume {
            self.cross(volume, history);
        }
    }

    /// The button is up again; whether it was a click, without a drag.
    pub(super) fn released(&mut self) -> bool {
        let Some(drag) = self.drag.take() else {
            return false;
        };
        let [x, y] = [0, 1].map(|i| self.pointer[i] - drag.from[i]);
        !drag.has_moved && x.hypot(y) < CLICK_PIXELS
    }

    /// The pointer is at this pixel of a pane; whether that changed the scene.
    pub(super) fn moved(
        &mut self,
        pane: Pane,
        to: [f64; 2],
        volume: &VolumeDescription,
        history: &mut History,
    ) -> bool {
        if pane != self.pane {
            (self.pane, self.pointer) = (pane, to);
        }
        let (before, now) = (self.point(self.pointer), self.point(to));
        self.pointer = to;
        let by = [now[0] - before[0], now[1] - before[1]];
        let Some(drag) = self.drag else {
            return false;
        };
        let mut scene = history.now().clone();
        let camera = scene.camera;
        scene.camera = match (drag.does, self.pane, self.style) {
            (Drag::Measure, ..) => return false,
            (Drag::Window, ..) => {
                if !self.window(by, &mut scene) {
                    return false;
                }
                camera
            }
            (Drag::Turn, Pane::Slice(_), _) => return self.cross(volume, history),
            (Drag::Pan, Pane::Slice(axis), _) => {
                let [width, height] = self.size();
                scene.slices = scene.slices.panned(axis, by, volume, (width, height));
                camera
            }
            (Drag::Roll, Pane::Slice(_), _) => return false,
            (Drag::Turn, Pane::Volume, Style::Trackball) => camera.dragged_as_ball(before, now),
            (Drag::Turn, Pane::Volume, Style::Turntable) => {
                camera.dragged_as_turntable(self.home.up, by)
            }
            (Drag::Pan, Pane::Volume, _) => camera.panned(by),
            (Drag::Roll, Pane::Volume, _) => {
                let angle = |p: [f64; 2]| p[1].atan2(p[0]).to_degrees();
                camera.rolled(angle(now) - angle(before))
            }
        };
        self.dragged(scene, history)
    }

    /// Moves and widens the transfer function of the pane; whether there are values near it then.
    fn window(&self, by: [f64; 2], scene: &mut Scene) -> bool {
        let mut settings = (*scene.settings).clone();
        let transfer = match self.pane {
            Pane::Volume => &mut settings.transfer,
            Pane::Slice(_) => &mut scene.slices.transfer,
        };
        transfer.shift(by[1]);
        transfer.widen(2.0_f64.powf(by[0]));
        let is_near = self.is_near_values(transfer);
        if self.pane == Pane::Volume {
            scene.settings = Arc::new(settings);
        }
        is_near
    }

    /// Lets slices cross where the pointer is on one of them.
    fn cross(&mut self, volume: &VolumeDescription, history: &mut History) -> bool {
        let Some(point) = self.on_slice(volume, history.now()) else {
            return false;
        };
        let mut scene = history.now().clone();
        scene.slices = scene.slices.crossing_at(point, volume);
        self.dragged(scene, history)
    }

    /// The point of the slice that is seen in the pane under the pointer.
    fn on_slice(&self, volume: &VolumeDescription, scene: &Scene) -> Option<DVec3> {
        let Seen { camera, settings } = scene.seen_in(self.pane, volume, self.size());
        let view = self.view(&camera)?;
        settings.slice()?.point_at(self.pointer, &view, volume)
    }

    /// Whether a function is about values that there are: its middle is one of them, and it is not much
    /// wider or narrower than they are.
    fn is_near_values(&self, function: &TransferFunction) -> bool {
        let ([low, high], [from, to]) = (self.values, function.ends());
        let (width, middle) = (high - low, 0.5 * (from + to));
        let widths = width / WINDOW_MAX..=width * WINDOW_MAX;
        (low..=high).contains(&middle) && widths.contains(&(to - from))
    }

    fn dragged(&mut self, scene: Scene, history: &mut History) -> bool {
        let changed = history.set(scene);
        if let Some(drag) = &mut self.drag {
            drag.has_moved |= changed;
        }
        changed
    }

    /// The wheel turned: positive pixels come nearer to what is under the pointer.
    pub(super) fn wheel(&mut self, pixels: f64, volume: &VolumeDescription, history: &mut History) {
        self.begin_zoom(history);
        let factor = 2.0_f64.powf(pixels / PIXELS_PER_DOUBLING);
        let point = self.point(self.pointer);
        match self.pane {
            Pane::Volume => {
                let camera = history.now().camera;
                history.set_camera(camera.zoomed(factor, point));
            }
            Pane::Slice(axis) => {
                let [width, height] = self.size();
                let slices = &history.now().slices;
                let zoomed = slices.zoomed(axis, factor, point, volume, (width, height));
                history.set_slices(zoomed);
            }
        }
    }

    fn begin_zoom(&mut self, history: &mut History) {
        if !self.is_zooming {
            history.end_edit();
            (self.is_zooming, self.turned) = (true, 0.0);
        }
    }

    /// The wheel moves the slice of the pane, a voxel a notch; whether there is one.
    pub(super) fn wheel_slice(
        &mut self,
        pixels: f64,
        volume: &VolumeDescription,
        history: &mut History,
    ) -> bool {
        let mut scene = history.now().clone();
        let slice = scene.settings.slice().copied();
        if self.pane == Pane::Volume && slice.is_none() {
            return false;
        }
        self.begin_zoom(history);
        self.turned += pixels / NOTCH_PIXELS;
        let by = self.turned.trunc();
        self.turned -= by;
        match self.pane {
            Pane::Slice(axis) => scene.slices = scene.slices.moved(axis, by, volume),
            Pane::Volume => {
                scene.settings = Arc::new(RenderSettings {
                    slice: slice.map(|slice| slice.moved(volume, by)),
                    ..(*scene.settings).clone()
                });
            }
        }
        if by.abs() > 0.0 {
            history.set(scene);
        }
        true
    }

    /// Lets left drags measure, or turn again; what they do now.
    pub(super) fn toggle_ruler(&mut self) -> &'static str {
        self.is_measuring = !self.is_measuring;
        self.ruler = None;
        if self.is_measuring {
            "left drags measure"
        } else {
            "left drags turn"
        }
    }

    /// Puts an end of the ruler, and the other one where it begins, to the pointer: on the slice that is seen,
    /// or else on the plane across the view in which its centre lies.
    pub(super) fn measure(&mut self, begins: bool, volume: &VolumeDescription, scene: &Scene) {
        let Seen { camera, settings } = scene.seen_in(self.pane, volume, self.size());
        let Some(view) = self.view(&camera) else {
            return;
        };
        let across = Slice::through(camera.at, (camera.at - camera.eye).normalize_or_zero());
        let plane = settings.slice().unwrap_or(&across);
        if let Some(point) = plane.point_at(self.pointer, &view, volume) {
            let from = self.ruler.filter(|_| !begins).map(|r| r.ends[0]);
            let ends = [from.unwrap_or(point), point];
            let pane = self.pane;
            self.ruler = Some(Measured { pane, ends });
        }
    }

    /// Whether a drag measures.
    pub(super) fn measures(&self) -> bool {
        self.drag.is_some_and(|drag| drag.does == Drag::Measure)
    }

    /// The rays of the pane's picture.
    fn view(&self, camera: &Camera) -> Option<View> {
        let [width, height] = self.size();
        camera.view(width, height).ok()
    }

    /// Does a command, as far as it is about the camera; what there is to tell.
    pub(super) fn command(
        &mut self,
        command: Command,
        manifest: &Manifest,
        history: &mut History,
    ) -> Option<String> {
        self.is_zooming = false;
        match command {
            Command::Save(at) => {
                self.saved[at] = Some(history.now().camera);
                return Some(format!("view {} is saved", at + 1));
            }
            Command::Style => {
                let (style, name) = match self.style {
                    Style::Trackball => (Style::Turntable, "turntable"),
                    Style::Turntable => (Style::Trackball, "trackball"),
                };
                self.style = style;
                return Some(format!("drags turn a {name}"));
            }
            Command::Note => return self.note(manifest, history),
            Command::Close
            | Command::Keys
            | Command::Panels
            | Command::Ruler
            | Command::ClipBox => return None,
            Command::Undo | Command::Redo | Command::Slices => {
                edit(command, history);
                return None;
            }
            _ => {}
        }
        let camera = history.now().camera;
        let turned = |drag| camera.dragged_as_turntable(self.home.up, drag);
        let mut told = None;
        let next = match command {
            Command::Reset => Camera {
                projection: camera.projection,
                ..self.home
            },
            Command::Axis(axis) => {
                let (seen, name) = along(camera, axis, manifest.volume());
                told = Some(format!("seen from {name}"));
                seen
            }
            Command::Recall(at) => match self.saved[at] {
                Some(saved) => saved,
                None => return Some(format!("no view {} was saved", at + 1)),
            },
            Command::Centre => match self.under_pointer(manifest, history.now()) {
                Some(point) => {
                    let volume = manifest.volume();
                    history.end_edit();
                    history.set_slices(history.now().slices.crossing_at(point, volume));
                    camera.centred_on(point)
                }
                None => return Some("nothing is under the pointer".to_owned()),
            },
            Command::RollLeft => camera.rolled(ROLL_DEGREES),
            Command::RollRight => camera.rolled(-ROLL_DEGREES),
            Command::ZoomIn => camera.zoomed(KEY_ZOOM, [0.0; 2]),
            Command::ZoomOut => camera.zoomed(1.0 / KEY_ZOOM, [0.0; 2]),
            Command::TurnLeft => turned([KEY_DRAG, 0.0]),
            Command::TurnRight => turned([-KEY_DRAG, 0.0]),
            Command::TurnUp => turned([0.0, -KEY_DRAG]),
            Command::TurnDown => turned([0.0, KEY_DRAG]),
            // Done above.
            _ => camera,
        };
        if command != Command::Centre {
            history.end_edit();
        }
        history.set_camera(next);
        history.end_edit();
        told
    }

    /// Puts a note where the pointer is; why not.
    fn note(&mut self, manifest: &Manifest, history: &mut History) -> Option<String> {
        let Some(point) = self.under_pointer(manifest, history.now()) else {
            return Some("nothing is under the pointer".to_owned());
        };
        let mut overlay = history.now().overlay.clone();
        let text = format!("note {}", overlay.notes.len() + 1);
        let at = point.to_array();
        overlay.notes.push(Note { at, text });
        if let Err(why) = overlay.validate() {
            return Some(why);
        }
        history.end_edit();
        history.set_overlay(overlay);
        history.end_edit();
        None
    }

    /// The point of the volume that is seen under the pointer: on the slice, where one is shown.
    pub(super) fn under_pointer(&mut self, manifest: &Manifest, scene: &Scene) -> Option<DVec3> {
        let [x, y] = self.pointer;
        let [width, height] = self.size().map(f64::from);
        if !((0.0..width).contains(&x) && (0.0..height).contains(&y)) {
            return None;
        }
        let volume = manifest.volume();
        if self.pane != Pane::Volume || scene.settings.slice().is_some() {
            return self.on_slice(volume, scene);
        }
        let view = self.view(&scene.camera)?;
        let along = view.direction_through(x, y);
        let visible = self.visible.cells(manifest, &scene.settings);
        visible.first_on_ray(manifest, view.eye, along)
    }
}

/// Does a command that is not about the camera alone.
fn edit(command: Command, history: &mut History) {
    history.end_edit();
    match command {
        Command::Undo => history.undo(),
        Command::Redo => history.redo(),
        _ => {
            let mut slices = history.now().slices.clone();
            slices.are_shown = !slices.are_shown;
            history.set_slices(slices);
        }
    }
    history.end_edit();
}

/// The camera along an axis, and from where that is.
fn along(camera: Camera, axis: usize, volume: &VolumeDescription) -> (Camera, &'static str) {
    let view = axis_views(volume)[axis];
    (camera.seen_from(view.from, view.up), view.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::Overlay;
    use brickmesh_topology::{
        VoxelBox, VoxelType,
        data::manifest::ManifestParts,
        picture::{camera::Projection, render_settings::Mode, slice_views::SliceViews},
    };

    fn manifest() -> Manifest {
        let volume = VolumeDescription::new([32; 3], VoxelType::U8);
        // Opaque from z = 16 on.
        let bytes = |stored: &VoxelBox| {
            let layer = |z: u32| vec![u8::from(z >= 16) * 200; 32 * 32];
            (stored.lo[2]..stored.hi[2]).flat_map(layer).collect()
        };
        let parts = ManifestParts::cut(volume, 32, "test", bytes).unwrap();
        Manifest::try_from(parts).unwrap()
    }

    /// Hands before a scene, and that.
    fn hands() -> (Hands, History, Manifest) {
        let manifest = manifest();
        let camera = Camera::whole(manifest.volume());
        let settings = RenderSettings::new(TransferFunction::ramp(50.0, 200.0), 1.0);
        let mut hands = Hands::new(camera, [0.0, 255.0]);
        for pane in [Pane::Volume, Pane::Slice(1)] {
            hands.resized(pane, [400, 300]);
        }
        let settings = Arc::new(settings);
        let mut slices = SliceViews::new(&manifest);
        slices.transfer = settings.transfer.clone();
        let scene = Scene {
            camera,
            settings,
            slices,
            overlay: Overlay::default(),
        };
        (hands, History::new(scene), manifest)
    }

    #[test]
    fn a_drag_is_one_undo_and_a_click_is_none() {
        let (mut hands, mut history, manifest) = hands();
        let home = history.now().clone();
        hands.moved(
            Pane::Volume,
            [200.0, 150.0],
            manifest.volume(),
            &mut history,
        );
        hands.pressed(Drag::Turn, manifest.volume(), &mut history);
        for step in 0..10 {
            assert!(hands.moved(
                Pane::Volume,
                [210.0 + f64::from(step), 150.0],
                manifest.volume(),
                &mut history
            ));
        }
        assert!(!hands.released());
        let turned = history.now().clone();
        hands.pressed(Drag::Pan, manifest.volume(), &mut history);
        assert!(hands.released(), "a click");
        hands.command(Command::Undo, &manifest, &mut history);
        assert_eq!(history.now(), &home);
        hands.command(Command::Undo, &manifest, &mut history);
        assert_eq!(history.now(), &home, "there is nothing more");
        hands.command(Command::Redo, &manifest, &mut history);
        assert_eq!(history.now(), &turned);
    }

    #[test]
    fn twenty_edits_can_be_undone_and_done_again() {
        let (mut hands, mut history, manifest) = hands();
        let mut scenes = vec![history.now().clone()];
        let all = [
            Command::RollLeft,
            Command::ZoomIn,
            Command::TurnUp,
            Command::Axis(3),
        ];
        for n in 0..20 {
            if let Some(command) = all.get(n % 5) {
                hands.command(*command, &manifest, &mut history);
            } else {
                hands.pressed(Drag::Window, manifest.volume(), &mut history);
                let [x, y] = hands.pointer;
                assert!(hands.moved(
                    Pane::Volume,
                    [x + 30.0, y - 20.0],
                    manifest.volume(),
                    &mut history
                ));
                assert!(hands.moved(
                    Pane::Volume,
                    [x + 40.0, y - 10.0],
                    manifest.volume(),
                    &mut history
                ));
                hands.released();
            }
            scenes.push(history.now().clone());
        }
        for scene in scenes.iter().rev().skip(1) {
            hands.command(Command::Undo, &manifest, &mut history);
            assert_eq!(history.now(), scene);
        }
        for scene in scenes.iter().skip(1) {
            hands.command(Command::Redo, &manifest, &mut history);
            assert_eq!(history.now(), scene);
        }
    }

    #[test]
    fn a_window_drag_moves_and_widens_the_values() {
        let (mut hands, mut history, manifest) = hands();
        hands.pressed(Drag::Window, manifest.volume(), &mut history);
        // Half the height to the right, and half of that up.
        hands.moved(
            Pane::Volume,
            [150.0, -75.0],
            manifest.volume(),
            &mut history,
        );
        let [low, high] = history.now().settings.transfer.ends();
        assert!((high - low - 300.0).abs() < 1e-9, "{low} {high}");
        assert!((0.5 * (low + high) - 200.0).abs() < 1e-9, "{low} {high}");
        assert!(
            !hands.moved(
                Pane::Volume,
                [150.0, -1500.0],
                manifest.volume(),
                &mut history
            ),
            "there are no such values"
        );
    }

    #[test]
    fn the_wheel_moves_a_slice_and_all_notches_are_one_undo() {
        let (mut hands, mut history, manifest) = hands();
        let volume = manifest.volume();
        assert!(!hands.wheel_slice(NOTCH_PIXELS, volume, &mut history));
        let mut settings = (*history.now().settings).clone();
        settings.mode = Mode::Slice;
        settings.slice = Some(Slice::on_axis(volume, 2, 10.0));
        let scene = history.now().clone();
        let settings = Arc::new(settings);
        history.set(Scene { settings, ..scene });
        for _ in 0..6 {
            assert!(hands.wheel_slice(0.5 * NOTCH_PIXELS, volume, &mut history));
        }
        let at = |history: &History| history.now().settings.slice().unwrap().axis(volume);
        assert_eq!(at(&history), Some((2, 13.0)));
        history.undo();
        assert_eq!(at(&history), Some((2, 10.0)));
    }

    #[test]
    fn a_ruler_is_as_long_as_what_it_lies_on() {
        let (mut hands, mut history, manifest) = hands();
        hands.command(Command::Axis(4), &manifest, &mut history);
        let mut camera = history.now().camera;
        camera.projection = Projection::Parallel;
        history.set_camera(camera);
        let view = camera.view(400, 300).unwrap();
        let ends = [DVec3::new(3.0, 4.0, 9.0), DVec3::new(27.0, 22.0, 9.0)];
        assert_eq!(hands.toggle_ruler(), "left drags measure");
        let scene = history.now().clone();
        hands.moved(
            Pane::Volume,
            view.pixel_of(ends[0]).unwrap(),
            manifest.volume(),
            &mut history,
        );
        hands.pressed(Drag::Measure, manifest.volume(), &mut history);
        hands.measure(true, manifest.volume(), &scene);
        assert!(!hands.moved(
            Pane::Volume,
            view.pixel_of(ends[1]).unwrap(),
            manifest.volume(),
            &mut history
        ));
        hands.measure(false, manifest.volume(), &scene);
        let [from, to] = hands.ruler.unwrap().ends;
        assert!(((to - from).length() - 30.0).abs() < 1e-4, "{from} {to}");
        assert_eq!(history.now(), &scene, "measuring is no edit");
    }

    #[test]
    fn views_are_saved_and_found_again_and_home_is_where_it_began() {
        let (mut hands, mut history, manifest) = hands();
        let home = history.now().camera;
        hands.command(Command::Axis(4), &manifest, &mut history);
        let above = history.now().camera;
        assert!(above.eye.z > above.at.z + 1.0);
        hands.command(Command::Save(1), &manifest, &mut history);
        hands.command(Command::Reset, &manifest, &mut history);
        assert_eq!(history.now().camera, home);
        hands.command(Command::Recall(1), &manifest, &mut history);
        assert_eq!(history.now().camera, above);
        let told = hands.command(Command::Recall(0), &manifest, &mut history);
        assert!(told.unwrap().contains("no view 1"));
    }

    #[test]
    fn the_centre_is_what_is_under_the_pointer() {
        let (mut hands, mut history, manifest) = hands();
        hands.command(Command::Axis(4), &manifest, &mut history);
        hands.moved(
            Pane::Volume,
            [200.0, 150.0],
            manifest.volume(),
            &mut history,
        );
        hands.command(Command::Axis(5), &manifest, &mut history);
        hands.command(Command::Centre, &manifest, &mut history);
        // From below the first visible layer is in the middle.
        let at = history.now().camera.at;
        assert!((at.z - 15.0).abs() < 5.0, "{at}");
        hands.moved(Pane::Volume, [1.0, 1.0], manifest.volume(), &mut history);
        let told = hands.command(Command::Centre, &manifest, &mut history);
        assert!(told.unwrap().contains("nothing"));
    }

    #[test]
    fn on_a_slice_drags_cross_pan_and_widen_and_the_wheel_moves_and_zooms() {
        let (mut hands, mut history, manifest) = hands();
        let volume = manifest.volume();
        let home = history.now().clone();
        let pane = Pane::Slice(1);
        let seen = home.seen_in(pane, volume, [400, 300]);
        let view = seen.camera.view(400, 300).unwrap();
        let world = DVec3::new(5.0, 16.0, 20.0);
        let pixel = view.pixel_of(world).unwrap();
        hands.moved(pane, pixel, volume, &mut history);
        hands.pressed(Drag::Turn, volume, &mut history);
        hands.released();
        assert_eq!(history.now().slices.cross, [5, 16, 20]);
        let pointed = hands.under_pointer(&manifest, history.now()).unwrap();
        assert!(pointed.distance(world) < 1e-9, "{pointed}");
        assert!(hands.wheel_slice(-2.0 * NOTCH_PIXELS, volume, &mut history));
        assert_eq!(history.now().slices.cross, [5, 14, 20]);
        hands.wheel(PIXELS_PER_DOUBLING, volume, &mut history);
        assert!((history.now().slices.zoom - 2.0).abs() < 1e-9);
        hands.pressed(Drag::Pan, volume, &mut history);
        let to = [pixel[0] + 30.0, pixel[1]];
        assert!(hands.moved(pane, to, volume, &mut history));
        hands.released();
        hands.pressed(Drag::Window, volume, &mut history);
        assert!(hands.moved(pane, [to[0], to[1] - 15.0], volume, &mut history));
        hands.released();
        let now = history.now();
        assert_ne!(now.slices.transfer, home.slices.transfer);
        let rest = (now.camera, &now.settings);
        assert_eq!(rest, (home.camera, &home.settings), "the volume's picture");
        for _ in 0..4 {
            hands.command(Command::Undo, &manifest, &mut history);
        }
        assert_eq!(history.now(), &home);
    }
}

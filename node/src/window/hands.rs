//! What hands do to the camera: drags, wheel and commands, with undo. Pure; the motions are topology's.
//!
//! Points are pixels of the window, from its upper left corner.

use super::keys::Command;
use brickmesh_topology::{
    Camera, Manifest, RenderSettings, VolumeDescription,
    picture::{framing::axis_views, visible_cells::VisibleCells},
};
use glam::DVec3;

/// Pixels of the wheel that double the size.
const PIXELS_PER_DOUBLING: f64 = 240.0;
/// A drag that is shorter is a click.
const CLICK_PIXELS: f64 = 4.0;
/// Degrees that a key rolls.
const ROLL_DEGREES: f64 = 5.0;
/// Half heights that an arrow key turns.
const KEY_DRAG: f64 = 0.1;
/// What a key zooms by.
const KEY_ZOOM: f64 = 1.25;
/// Cameras that can be undone.
const UNDO_MAX: usize = 1000;
/// Views that can be saved.
pub(super) const SAVED: usize = 4;

/// What a drag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drag {
    Turn,
    Pan,
    Roll,
}

/// How a drag turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Trackball,
    Turntable,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Hands {
    camera: Camera,
    home: Camera,
    style: Style,
    /// What was before, oldest first, and what was undone, newest undone last.
    past: Vec<Camera>,
    undone: Vec<Camera>,
    saved: [Option<Camera>; SAVED],
    drag: Option<(Drag, [f64; 2])>,
    pointer: [f64; 2],
    size: [f64; 2],
    /// Where the wheel goes on with what it did.
    is_zooming: bool,
}

impl Hands {
    pub(super) fn new(home: Camera, (width, height): (u32, u32)) -> Self {
        Self {
            camera: home,
            home,
            style: Style::Turntable,
            past: Vec::new(),
            undone: Vec::new(),
            saved: [None; SAVED],
            drag: None,
            pointer: [0.0; 2],
            size: [width, height].map(f64::from),
            is_zooming: false,
        }
    }

    pub(super) fn camera(&self) -> Camera {
        self.camera
    }

    pub(super) fn is_dragging(&self) -> bool {
        self.drag.is_some()
    }

    pub(super) fn resized(&mut self, width: u32, height: u32) {
        self.size = [width, height].map(|n| f64::from(n.max(1)));
    }

    /// A pixel in half heights from the middle, y up.
    fn point(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [width, height] = self.size;
        [(2.0 * x - width) / height, (height - 2.0 * y) / height]
    }

    /// What is now can be undone.
    fn keep(&mut self) {
        if self.past.last() != Some(&self.camera) {
            self.past.push(self.camera);
            let old = self.past.len().saturating_sub(UNDO_MAX);
            self.past.drain(..old);
        }
        self.undone.clear();
        self.is_zooming = false;
    }

    /// A button went down.
    pub(super) fn pressed(&mut self, drag: Drag) {
        self.keep();
        self.drag = Some((drag, self.pointer));
    }

    /// The button is up again; whether it was a click, without a drag.
    pub(super) fn released(&mut self) -> bool {
        let Some((_, from)) = self.drag.take() else {
            return false;
        };
        let is_click = self.past.last() == Some(&self.camera);
        if is_click {
            self.past.pop();
        }
        let far = (self.pointer[0] - from[0]).hypot(self.pointer[1] - from[1]);
        is_click && far < CLICK_PIXELS
    }

    /// The pointer is at this pixel; whether the camera moved.
    pub(super) fn moved(&mut self, to: [f64; 2]) -> bool {
        let (before, now) = (self.point(self.pointer), self.point(to));
        self.pointer = to;
        let by = [now[0] - before[0], now[1] - before[1]];
        let camera = self.camera;
        self.camera = match (self.drag, self.style) {
            (None, _) => camera,
            (Some((Drag::Turn, _)), Style::Trackball) => camera.dragged_as_ball(before, now),
            (Some((Drag::Turn, _)), Style::Turntable) => {
                camera.dragged_as_turntable(self.home.up, by)
            }
            (Some((Drag::Pan, _)), _) => camera.panned(by),
            (Some((Drag::Roll, _)), _) => {
                let angle = |p: [f64; 2]| p[1].atan2(p[0]).to_degrees();
                camera.rolled(angle(now) - angle(before))
            }
        };
        self.camera != camera
    }

    /// The wheel turned: positive pixels come nearer to what is under the pointer.
    pub(super) fn wheel(&mut self, pixels: f64) {
        if !self.is_zooming {
            self.keep();
            self.is_zooming = true;
        }
        let factor = 2.0_f64.powf(pixels / PIXELS_PER_DOUBLING);
        self.camera = self.camera.zoomed(factor, self.point(self.pointer));
    }

    /// Does a command, as far as it is about the camera; what there is to tell.
    pub(super) fn command(
        &mut self,
        command: Command,
        manifest: &Manifest,
        settings: &RenderSettings,
    ) -> Option<String> {
        match command {
            Command::Undo => {
                let before = self.past.pop()?;
                self.undone.push(self.camera);
                self.camera = before;
                return None;
            }
            Command::Redo => {
                let after = self.undone.pop()?;
                self.past.push(self.camera);
                self.camera = after;
                return None;
            }
            Command::Save(at) => {
                self.saved[at] = Some(self.camera);
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
            Command::Close | Command::Help => return None,
            _ => {}
        }
        let camera = self.camera;
        let turned = |drag| camera.dragged_as_turntable(self.home.up, drag);
        let mut told = None;
        let next = match command {
            Command::Reset => self.home,
            Command::Axis(axis) => {
                let (seen, name) = self.along(axis, manifest.volume());
                told = Some(format!("seen from {name}"));
                seen
            }
            Command::Recall(at) => match self.saved[at] {
                Some(saved) => saved,
                None => return Some(format!("no view {} was saved", at + 1)),
            },
            Command::Centre => match self.under_pointer(manifest, settings) {
                Some(point) => camera.centred_on(point),
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
            Command::Undo
            | Command::Redo
            | Command::Save(_)
            | Command::Style
            | Command::Close
            | Command::Help => camera,
        };
        self.keep();
        self.camera = next;
        told
    }

    /// The camera along an axis, and from where that is.
    fn along(&self, axis: usize, volume: &VolumeDescription) -> (Camera, &'static str) {
        let view = axis_views(volume)[axis];
        (self.camera.seen_from(view.from, view.up), view.name)
    }

    /// The point of the volume that is seen under the pointer.
    fn under_pointer(&self, manifest: &Manifest, settings: &RenderSettings) -> Option<DVec3> {
        let [width, height] = self.size.map(|n| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "pixels of a window"
            )]
            let pixels = n as u32;
            pixels
        });
        let view = self.camera.view(width, height).ok()?;
        let along = view.direction_through(self.pointer[0], self.pointer[1]);
        VisibleCells::of(manifest, settings).first_on_ray(manifest, view.eye, along)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{
        TransferFunction, VoxelBox, VoxelType, data::manifest::ManifestParts,
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

    fn settings() -> RenderSettings {
        RenderSettings {
            transfer: TransferFunction::ramp(50.0, 200.0),
            step: 1.0,
            shade: false,
            mode: Default::default(),
            jitter: false,
            background: [0.0; 3],
        }
    }

    fn hands() -> Hands {
        let manifest = manifest();
        Hands::new(Camera::whole(manifest.volume()), (400, 300))
    }

    #[test]
    fn a_drag_is_one_undo_and_a_click_is_none() {
        let mut hands = hands();
        let home = hands.camera();
        hands.moved([200.0, 150.0]);
        hands.pressed(Drag::Turn);
        for step in 0..10 {
            assert!(hands.moved([210.0 + f64::from(step), 150.0]));
        }
        assert!(!hands.released());
        let turned = hands.camera();
        hands.pressed(Drag::Pan);
        assert!(hands.released(), "a click");
        let (manifest, settings) = (manifest(), settings());
        hands.command(Command::Undo, &manifest, &settings);
        assert_eq!(hands.camera(), home);
        hands.command(Command::Undo, &manifest, &settings);
        assert_eq!(hands.camera(), home, "there is nothing more");
        hands.command(Command::Redo, &manifest, &settings);
        assert_eq!(hands.camera(), turned);
    }

    #[test]
    fn twenty_edits_can_be_undone_and_done_again() {
        let (mut hands, manifest, settings) = (hands(), manifest(), settings());
        let mut cameras = vec![hands.camera()];
        let all = [
            Command::RollLeft,
            Command::ZoomIn,
            Command::TurnUp,
            Command::Axis(3),
            Command::TurnLeft,
        ];
        for command in all.iter().cycle().take(20) {
            hands.command(*command, &manifest, &settings);
            cameras.push(hands.camera());
        }
        for camera in cameras.iter().rev().skip(1) {
            hands.command(Command::Undo, &manifest, &settings);
            assert_eq!(hands.camera(), *camera);
        }
        for camera in cameras.iter().skip(1) {
            hands.command(Command::Redo, &manifest, &settings);
            assert_eq!(hands.camera(), *camera);
        }
    }

    #[test]
    fn views_are_saved_and_found_again_and_home_is_where_it_began() {
        let (mut hands, manifest, settings) = (hands(), manifest(), settings());
        let home = hands.camera();
        hands.command(Command::Axis(4), &manifest, &settings);
        let above = hands.camera();
        assert!(above.eye.z > above.at.z + 1.0);
        hands.command(Command::Save(1), &manifest, &settings);
        hands.command(Command::Reset, &manifest, &settings);
        assert_eq!(hands.camera(), home);
        hands.command(Command::Recall(1), &manifest, &settings);
        assert_eq!(hands.camera(), above);
        let told = hands.command(Command::Recall(0), &manifest, &settings);
        assert!(told.unwrap().contains("no view 1"));
    }

    #[test]
    fn the_centre_is_what_is_under_the_pointer() {
        let (mut hands, manifest, settings) = (hands(), manifest(), settings());
        hands.command(Command::Axis(4), &manifest, &settings);
        hands.moved([200.0, 150.0]);
        hands.command(Command::Axis(5), &manifest, &settings);
        hands.command(Command::Centre, &manifest, &settings);
        // From below the first visible layer is in the middle.
        let at = hands.camera().at;
        assert!((at.z - 15.0).abs() < 5.0, "{at}");
        hands.moved([1.0, 1.0]);
        let told = hands.command(Command::Centre, &manifest, &settings);
        assert!(told.unwrap().contains("nothing"));
    }
}

//! The clip box over the picture: its edges, and a handle on each face that a drag moves.

use crate::overlay::screen::{Screen, box_edges};
use brickmesh_topology::{RenderSettings, VolumeDescription, picture::clip::Clip};
use egui::{Area, Color32, Id, Order, Painter, Pos2, Sense, Stroke, Ui, Vec2};
use glam::DVec3;

/// Radius of a handle, in points.
const RADIUS: f32 = 6.0;
/// Orange on dark: to be seen before any picture.
const COLOR: Color32 = Color32::from_rgb(255, 176, 64);

/// A handle that is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    face: usize,
    /// From its middle to where it was taken.
    off: Vec2,
}

/// The picture of a volume on the screen.
struct OnScreen<'a> {
    screen: &'a Screen,
    volume: &'a VolumeDescription,
}

impl OnScreen<'_> {
    /// A point of the grid on the screen.
    fn point(&self, grid: DVec3) -> Option<Pos2> {
        let world = self.volume.world_from_grid().transform_point3(grid);
        self.screen.point(world)
    }

    /// How far a handle moves, in voxels, so that it is under a point of the screen.
    fn moved(&self, from: DVec3, axis: usize, to: Pos2) -> Option<f64> {
        let world_from_grid = self.volume.world_from_grid();
        self.screen.nearest_on_line(
            to,
            world_from_grid.transform_point3(from),
            world_from_grid.transform_vector3(DVec3::AXES[axis]),
        )
    }
}

/// Shows the box of a scene over its picture, and moves the face whose handle is dragged. The picture may come
/// later than the scene.
pub(super) fn show(
    ui: &Ui,
    settings: &mut RenderSettings,
    volume: &VolumeDescription,
    screen: &Screen,
    held: &mut Option<Held>,
) {
    let rect = screen.rect;
    let screen = OnScreen { screen, volume };
    let bounds = settings.clip.bounds_of(volume.dims);
    let painter = ui.painter().with_clip_rect(rect);
    edges(&painter, &screen, bounds);
    let mut next = None;
    for face in 0..6 {
        let (axis, end) = (face / 2, face % 2);
        let middle = face_middle(bounds, axis, end);
        let Some(at) = screen.point(middle).filter(|at| rect.contains(*at)) else {
            continue;
        };
        let area = Area::new(Id::unique(("clip handle", face)))
            .order(Order::Middle)
            .fixed_pos(at - Vec2::splat(RADIUS))
            .constrain(false);
        let response = area.show(ui.ctx(), |ui| {
            let size = Vec2::splat(2.0 * RADIUS);
            let (_, response) = ui.allocate_exact_size(size, Sense::drag());
            let is_near = response.hovered() || response.dragged();
            let radius = if is_near { RADIUS } else { 0.7 * RADIUS };
            ui.painter().with_clip_rect(rect).circle(
                at,
                radius,
                COLOR,
                Stroke::new(1.0, Color32::BLACK),
            );
            response.on_hover_text(format!("drag: {} of the clip box", ["X", "Y", "Z"][axis]))
        });
        let response = response.inner;
        if response.drag_started() {
            let from = ui.input(|i| i.pointer.press_origin()).unwrap_or(at);
            *held = Some(Held {
                face,
                off: from - at,
            });
        }
        if response.dragged()
            && let Some(pointer) = response.interact_pointer_pos()
            && let Some(of) = held.filter(|of| of.face == face)
            && let Some(by) = screen.moved(middle, axis, pointer - of.off)
        {
            let to = bounds[end][axis] + by;
            next = Some(settings.clip.with_face(volume.dims, axis, end, to));
        }
        if response.drag_stopped() {
            *held = None;
        }
    }
    if let Some(clip) = next.filter(|clip: &Clip| clip.validate().is_ok()) {
        settings.clip = clip;
    }
}

fn face_middle(bounds: [[f64; 3]; 2], axis: usize, end: usize) -> DVec3 {
    let [low, high] = bounds.map(DVec3::from_array);
    let mut middle = (low + high) * 0.5;
    middle[axis] = bounds[end][axis];
    middle
}

fn edges(painter: &Painter, screen: &OnScreen<'_>, bounds: [[f64; 3]; 2]) {
    let corner = |n: usize| {
        let at = |a: usize| bounds[n >> a & 1][a];
        screen.point(DVec3::new(at(0), at(1), at(2)))
    };
    for ends in box_edges() {
        if let [Some(from), Some(to)] = ends.map(corner) {
            painter.line_segment([from, to], Stroke::new(1.0, COLOR));
        }
    }
}

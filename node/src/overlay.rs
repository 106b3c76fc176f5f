//! What is drawn over a picture beside the volume: bounding box, axes, scale bar, colour legend, notes. The same in
//! the viewer and in pictures that are written.
//!
//! Space: points, of which a picture of 800 rows has one to a pixel.

pub(crate) mod painter;
pub(crate) mod screen;

use self::{
    painter::{Canvas, Painter},
    screen::{Screen, box_edges},
};
use crate::short_numbers::short;
use brickmesh_topology::{Camera, Manifest, RenderSettings, VolumeDescription};
use egui::{
    Align2, ClippedPrimitive, Color32, Context, CornerRadius, FontId, Pos2, RawInput, Rect, Shape,
    Stroke, StrokeKind, Vec2,
    epaint::{Mesh, Primitive},
    pos2, vec2,
};
use glam::DVec3;
use serde::{Deserialize, Serialize};

/// Notes, and characters of one, at most.
const NOTES_MAX: usize = 100;
pub(crate) const NOTE_CHARS_MAX: usize = 200;
/// Rows of a picture for which a point is a pixel.
const ROWS: f32 = 800.0;
/// Size of text, and how far things are from the edges; points.
const TEXT: f32 = 14.0;
const MARGIN: f32 = 16.0;
/// Length of an axis, points.
const AXIS: f32 = 34.0;
/// The scale bar is at most such a part of the picture's width.
const BAR_PART: f32 = 0.25;
/// Width of the legend and its part of the picture's height.
const LEGEND: f32 = 14.0;
const LEGEND_PART: f32 = 0.35;
/// A smaller picture has no room for it, points.
const LEGEND_ROOM: f32 = 200.0;
/// Colours of the legend.
const LEGEND_STEPS: u16 = 128;
/// Edges of the box, those in front and those behind.
const EDGE: Color32 = Color32::from_rgb(220, 220, 220);
const EDGE_BEHIND: Color32 = Color32::from_rgb(110, 110, 110);
/// Of the axes x, y and z.
pub(crate) const AXIS_COLORS: [Color32; 3] = [
    Color32::from_rgb(240, 90, 90),
    Color32::from_rgb(100, 210, 100),
    Color32::from_rgb(100, 150, 255),
];

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overlay {
    /// The bounding box of the volume.
    pub bounds: bool,
    /// Where the world's axes point; with a patient's sides where they are known.
    pub axes: bool,
    /// A length at the distance of what the camera looks at.
    pub scale: bool,
    /// The colours of the transfer function, where it is seen.
    pub legend: bool,
    /// Text at places.
    pub notes: Vec<Note>,
}

/// Text at a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// In the world.
    pub at: [f64; 3],
    /// What it says.
    pub text: String,
}

impl Overlay {
    /// The parts that `--overlay` knows.
    pub const PARTS: [&'static str; 4] = ["box", "axes", "scale", "legend"];

    /// Those of a list, such as `box,scale`; `all`: all of them.
    ///
    /// # Errors
    /// Text that names what is unknown.
    pub fn of_parts(list: &str) -> Result<Self, String> {
        let mut overlay = Self::default();
        for part in list.split(',') {
            match part.trim() {
                "all" => {
                    let notes = std::mem::take(&mut overlay.notes);
                    (overlay.bounds, overlay.axes) = (true, true);
                    (overlay.scale, overlay.legend) = (true, true);
                    overlay.notes = notes;
                }
                "box" => overlay.bounds = true,
                "axes" => overlay.axes = true,
                "scale" => overlay.scale = true,
                "legend" => overlay.legend = true,
                other => {
                    let all = Self::PARTS.join(", ");
                    return Err(format!("{other:?} is none of {all}, all"));
                }
            }
        }
        Ok(overlay)
    }

    /// Whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks what comes from a file.
    ///
    /// # Errors
    /// Text that says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        if self.notes.len() > NOTES_MAX {
            return Err(format!("{} notes; at most {NOTES_MAX}", self.notes.len()));
        }
        for Note { at, text } in &self.notes {
            if !at.iter().all(|c| c.is_finite()) {
                return Err(format!(
                    "a note is at {at:?}; it must be three finite numbers"
                ));
            }
            let found = text.chars().count();
            if found > NOTE_CHARS_MAX {
                return Err(format!(
                    "a note has {found} characters; at most {NOTE_CHARS_MAX}"
                ));
            }
        }
        Ok(())
    }

    /// Draws over a picture.
    pub(crate) fn draw(
        &self,
        painter: &egui::Painter,
        screen: &Screen,
        volume: &VolumeDescription,
        settings: &RenderSettings,
    ) {
        let painter = painter.with_clip_rect(screen.rect);
        if self.bounds {
            bounds(&painter, screen, volume);
        }
        if self.axes {
            axes(&painter, screen, volume);
        }
        if self.scale {
            scale_bar(&painter, screen, volume);
        }
        if self.legend && settings.mode.has_samples() {
            legend(&painter, screen.rect, settings);
        }
        // On a slice, those that lie on it.
        let near = 0.75 * volume.spacing.into_iter().fold(0.0, f64::max);
        let is_seen = |at: DVec3| {
            let slice = settings.slice();
            slice.is_none_or(|s| s.distance(at).abs() <= near.max(0.5 * s.thickness))
        };
        for Note { at, text } in &self.notes {
            let at = DVec3::from_array(*at);
            if let Some(at) = Some(at)
                .filter(|at| is_seen(*at))
                .and_then(|at| screen.point(at))
            {
                painter.circle(at, 3.0, Color32::WHITE, Stroke::new(1.0, Color32::BLACK));
                let beside = at + vec2(8.0, 0.0);
                shadowed(
                    &painter,
                    beside,
                    Align2::LEFT_CENTER,
                    text,
                    TEXT,
                    Color32::WHITE,
                );
            }
        }
    }
}

/// Text that is read on whatever is behind it.
pub(crate) fn shadowed(
    painter: &egui::Painter,
    at: Pos2,
    align: Align2,
    text: &str,
    size: f32,
    color: Color32,
) {
    let font = FontId::proportional(size);
    let around = [-1.0, 0.0, 1.0].map(|x| [-1.0, 0.0, 1.0].map(|y| vec2(x, y)));
    for off in around.as_flattened() {
        painter.text(at + *off, align, text, font.clone(), Color32::BLACK);
    }
    painter.text(at, align, text, font, color);
}

fn bounds(painter: &egui::Painter, screen: &Screen, volume: &VolumeDescription) {
    let world = |n: usize| {
        let end = |a: usize| [-0.5, f64::from(volume.dims[a]) - 0.5][n >> a & 1];
        let grid = DVec3::new(end(0), end(1), end(2));
        volume.world_from_grid().transform_point3(grid)
    };
    let forward = (screen.camera.at - screen.camera.eye).normalize_or_zero();
    let depth = |n: usize| (world(n) - screen.camera.eye).dot(forward);
    let farthest = (0..8).max_by(|a, b| depth(*a).total_cmp(&depth(*b)));
    for ends in box_edges() {
        let is_behind = farthest.is_some_and(|far| ends.contains(&far));
        let color = if is_behind { EDGE_BEHIND } else { EDGE };
        if let [Some(from), Some(to)] = ends.map(|corner| screen.point(world(corner))) {
            painter.line_segment([from, to], Stroke::new(1.0, color));
        }
    }
}

/// Names of the directions of the world's axes.
fn axis_names(volume: &VolumeDescription) -> [&'static str; 3] {
    use brickmesh_topology::data::volume::PatientAxes;
    match volume.patient {
        Some(PatientAxes::Lps) => ["L", "P", "S"],
        Some(PatientAxes::Ras) => ["R", "A", "S"],
        None => ["X", "Y", "Z"],
    }
}

#[expect(clippy::cast_possible_truncation, reason = "parts of directions")]
fn axes(painter: &egui::Painter, screen: &Screen, volume: &VolumeDescription) {
    let forward = (screen.camera.at - screen.camera.eye).normalize_or_zero();
    let origin = screen.rect.left_bottom() + vec2(MARGIN + AXIS, -MARGIN - AXIS);
    let mut order = [0, 1, 2];
    // The one that points away most is drawn first.
    order.sort_by(|a, b| {
        let away = |a: usize| DVec3::AXES[a].dot(forward);
        away(*b).total_cmp(&away(*a))
    });
    for axis in order {
        let direction = DVec3::AXES[axis];
        let [right, down] = screen.right_and_down(direction);
        let along = vec2(right as f32, down as f32);
        let tip = origin + along * AXIS;
        let color = AXIS_COLORS[axis];
        painter.line_segment([origin, tip], Stroke::new(2.0, color));
        let name = axis_names(volume)[axis];
        let beyond = tip + along.normalized() * 8.0_f32.min(along.length() * AXIS);
        shadowed(painter, beyond, Align2::CENTER_CENTER, name, TEXT, color);
    }
}

/// The greatest of 1, 2 and 5 times a power of ten that is not above a length.
fn round_length(most: f64) -> f64 {
    let power = 10.0_f64.powf(most.log10().floor());
    let fits = |n: &f64| n * power <= most * (1.0 + 1e-12);
    [5.0, 2.0, 1.0].into_iter().find(fits).unwrap_or(1.0) * power
}

#[expect(clippy::cast_possible_truncation, reason = "points of a screen")]
fn scale_bar(painter: &egui::Painter, screen: &Screen, volume: &VolumeDescription) {
    let (rect, per_point) = (screen.rect, screen.world_per_point());
    let length = round_length(per_point * f64::from(rect.width() * BAR_PART));
    if !(length.is_finite() && length > 0.0) {
        return;
    }
    let width = (length / per_point) as f32;
    let middle = rect.center_bottom() - vec2(0.0, MARGIN);
    let ends = [-0.5, 0.5].map(|part| middle + vec2(part * width, 0.0));
    let bar = Rect::from_two_pos(ends[0] - vec2(0.0, 4.0), ends[1]);
    painter.rect(
        bar,
        CornerRadius::ZERO,
        Color32::WHITE,
        Stroke::new(1.0, Color32::BLACK),
        StrokeKind::Outside,
    );
    let unit = volume
        .unit
        .map_or(String::new(), |unit| format!(" {}", unit.symbol()));
    let text = format!("{}{unit}", short(length));
    let above = middle - vec2(0.0, 8.0);
    shadowed(
        painter,
        above,
        Align2::CENTER_BOTTOM,
        &text,
        TEXT,
        Color32::WHITE,
    );
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate"
)]
fn legend(painter: &egui::Painter, rect: Rect, settings: &RenderSettings) {
    if rect.width() < LEGEND_ROOM || rect.height() < LEGEND_ROOM {
        return;
    }
    let [low, high] = settings.transfer.ends();
    let height = rect.height() * LEGEND_PART;
    let corner = pos2(
        rect.right() - MARGIN - LEGEND,
        rect.center().y - 0.5 * height,
    );
    let bar = Rect::from_min_size(corner, vec2(LEGEND, height));
    // Of vertices with colours, because rectangles side by side have soft edges.
    let (mut mesh, finish) = (Mesh::default(), settings.finish());
    for n in 0..=LEGEND_STEPS {
        let part = f64::from(n) / f64::from(LEGEND_STEPS);
        let (color, _) = settings.transfer.classify(high + (low - high) * part);
        // As it is seen where it is opaque.
        let [r, g, b] = color.map(|c| c as f32);
        let seen = finish.pixel([r, g, b, 1.0], [0.0; 3]);
        let [r, g, b, _] = seen.map(|c| (c * 255.0 + 0.5) as u8);
        let y = bar.top() + height * part as f32;
        for x in [bar.left(), bar.right()] {
            mesh.colored_vertex(pos2(x, y), Color32::from_rgb(r, g, b));
        }
    }
    for n in 0..u32::from(LEGEND_STEPS) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|corner| 2 * n + corner);
        mesh.add_triangle(a, b, c);
        mesh.add_triangle(b, c, d);
    }
    painter.add(Shape::mesh(mesh));
    painter.rect_stroke(
        bar,
        CornerRadius::ZERO,
        Stroke::new(1.0, Color32::WHITE),
        StrokeKind::Outside,
    );
    for part in [0.0, 0.5, 1.0_f32] {
        let value = low + (high - low) * f64::from(part);
        let at = pos2(bar.left() - 6.0, bar.bottom() - part * height);
        shadowed(
            painter,
            at,
            Align2::RIGHT_CENTER,
            &short(value),
            TEXT,
            Color32::WHITE,
        );
    }
}

/// An overlay, laid out for a picture that is written.
pub(crate) struct OverlayPicture {
    painter: Painter,
    primitives: Vec<ClippedPrimitive>,
    pixels_per_point: f32,
    width: usize,
}

impl OverlayPicture {
    /// `None`: nothing is to be drawn.
    pub(crate) fn new(
        overlay: &Overlay,
        (width, height): (u32, u32),
        camera: &Camera,
        manifest: &Manifest,
        settings: &RenderSettings,
    ) -> Option<Self> {
        let pixels_per_point = (height as f32 / ROWS).max(1.0);
        let size = Vec2::new(width as f32, height as f32) / pixels_per_point;
        let rect = Rect::from_min_size(Pos2::ZERO, size);
        let screen = Screen::new(rect, pixels_per_point, camera).filter(|_| !overlay.is_empty())?;
        let context = Context::default();
        context.set_pixels_per_point(pixels_per_point);
        let input = || RawInput {
            screen_rect: Some(rect),
            ..RawInput::default()
        };
        let mut painter = Painter::default();
        // The scale that is set holds from the next layout on.
        painter.take(context.run_ui(input(), |_| ()).textures_delta);
        let output = context.run_ui(input(), |ui| {
            overlay.draw(ui.painter(), &screen, manifest.volume(), settings);
        });
        painter.take(output.textures_delta);
        Some(Self {
            painter,
            primitives: context.tessellate(output.shapes, pixels_per_point),
            pixels_per_point,
            width: width as usize,
        })
    }

    /// Draws over whole rows of a picture, 8-bit RGBA that is not premultiplied; `first` is the number of the first.
    pub(crate) fn draw(&self, rows: &mut [u8], first: u32) {
        let by = vec2(0.0, -(first as f32) / self.pixels_per_point);
        let mut primitives = self.primitives.clone();
        for ClippedPrimitive {
            clip_rect,
            primitive,
        } in &mut primitives
        {
            *clip_rect = clip_rect.translate(by);
            if let Primitive::Mesh(mesh) = primitive {
                mesh.translate(by);
            }
        }
        // What is before black and before white in the same way covers; the rest shines through.
        let on = |background: u32| {
            let mut pixels = vec![background; rows.len() / 4];
            let canvas = &mut Canvas {
                width: self.width,
                pixels: &mut pixels,
            };
            self.painter
                .paint(&primitives, self.pixels_per_point, canvas);
            pixels
        };
        let (black, white) = (on(0), on(0x00ff_ffff));
        for ((pixel, black), white) in rows.as_chunks_mut().0.iter_mut().zip(black).zip(white) {
            over(pixel, black, white);
        }
    }
}

/// Lays what looks so before black and before white over a pixel.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "parts of 255"
)]
fn over(pixel: &mut [u8; 4], black: u32, white: u32) {
    if black == 0 && white == 0x00ff_ffff {
        return;
    }
    let ([_, r, g, b], [_, wr, wg, wb]) = (black.to_be_bytes(), white.to_be_bytes());
    let shines = [(r, wr), (g, wg), (b, wb)].map(|(b, w)| f32::from(w.saturating_sub(b)));
    let shines = shines.iter().sum::<f32>() / (3.0 * 255.0);
    let alpha = f32::from(pixel[3]) / 255.0;
    let out_alpha = (1.0 - shines) + shines * alpha;
    for (c, of_overlay) in [r, g, b].into_iter().enumerate() {
        let below = f32::from(pixel[c]) * alpha * shines;
        pixel[c] = ((f32::from(of_overlay) + below) / out_alpha + 0.5) as u8;
    }
    pixel[3] = (out_alpha * 255.0 + 0.5) as u8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{
        TransferFunction, VoxelBox, VoxelType, data::manifest::ManifestParts, picture::slice::Slice,
    };

    fn manifest(spacing: [f64; 3]) -> Manifest {
        let mut volume = VolumeDescription::new([74, 93, 20], VoxelType::U8);
        volume.spacing = spacing;
        let bytes = |stored: &VoxelBox| (0..stored.voxel_count()).map(|_| 1).collect();
        Manifest::try_from(ManifestParts::cut(volume, 64, "test", bytes).unwrap()).unwrap()
    }

    fn drawn(overlay: &Overlay, camera: &Camera, size: (u32, u32), of: &Manifest) -> Vec<u8> {
        let settings = RenderSettings::new(TransferFunction::ramp(0.0, 1.0), 1.0);
        let picture = OverlayPicture::new(overlay, size, camera, of, &settings).unwrap();
        let mut rows = vec![0; 4 * size.0 as usize * size.1 as usize];
        picture.draw(&mut rows, 0);
        // In bands the same.
        let mut banded = vec![0; rows.len()];
        for (band, first) in banded
            .chunks_mut(4 * size.0 as usize * 100)
            .zip((0..).step_by(100))
        {
            picture.draw(band, first);
        }
        assert!(banded == rows, "bands");
        rows
    }

    #[test]
    fn the_scale_bar_is_as_long_as_it_says_to_a_pixel_also_where_voxels_are_no_cubes() {
        let manifest = manifest([0.722_656, 0.722_656, 1.0]);
        let volume = manifest.volume();
        let overlay = Overlay::of_parts("scale").unwrap();
        for (axis, size) in [(0, (900, 700)), (1, (640, 1600)), (2, (500, 400))] {
            let camera = Slice::on_axis(volume, axis, 5.0).camera(volume, size);
            let rows = drawn(&overlay, &camera, size, &manifest);
            let view = camera.view(size.0, size.1).unwrap();
            let row = rows.chunks_exact(4 * size.0 as usize);
            let white = |row: &[u8]| row.chunks_exact(4).filter(|p| *p == [255; 4]).count();
            let bar = row.map(white).max().unwrap() as f64;
            // Pixels of a millimetre, along both other axes.
            for other in (0..3).filter(|a| *a != axis) {
                let at = camera.at;
                let ends = [at, at + DVec3::AXES[other]].map(|p| view.pixel_of(p).unwrap());
                let [x, y] = [0, 1].map(|c| ends[1][c] - ends[0][c]);
                let rounded = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
                let mut off = rounded.iter().map(|mm| (mm * x.hypot(y) - bar).abs());
                assert!(off.any(|off| off <= 1.0), "{axis} {other}: {bar} pixels");
            }
        }
    }

    #[test]
    fn lengths_are_round_and_not_above_what_fits() {
        for (most, expected) in [
            (1.0, 1.0),
            (1.9, 1.0),
            (2.0, 2.0),
            (4.99, 2.0),
            (7e-8, 5e-8),
        ] {
            let found = round_length(most);
            assert!((found / expected - 1.0_f64).abs() < 1e-9, "{most}: {found}");
        }
    }

    #[test]
    fn what_is_drawn_covers_opaque_and_transparent_pixels() {
        // Nothing, all of it, half of it.
        let mut pixel = [10, 20, 30, 0];
        over(&mut pixel, 0, 0x00ff_ffff);
        assert_eq!(pixel, [10, 20, 30, 0]);
        over(&mut pixel, 0x00ff_8000, 0x00ff_8000);
        assert_eq!(pixel, [255, 128, 0, 255]);
        let mut pixel = [200, 0, 0, 255];
        over(&mut pixel, 0x0000_8000, 0x007f_ff7f);
        assert!(pixel[0].abs_diff(100) <= 1 && pixel[1] == 128, "{pixel:?}");
    }

    #[test]
    fn parts_are_named_and_what_is_unknown_too() {
        let all = Overlay::of_parts("all").unwrap();
        assert_eq!(all, Overlay::of_parts("box,axes, scale,legend").unwrap());
        assert!(
            Overlay::of_parts("boxes")
                .unwrap_err()
                .contains("box, axes")
        );
        let mut overlay = all;
        let at = [f64::NAN; 3];
        let text = "x".to_owned();
        overlay.notes = vec![Note { at, text }];
        assert!(overlay.validate().unwrap_err().contains("three finite"));
    }
}

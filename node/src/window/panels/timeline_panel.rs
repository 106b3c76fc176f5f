//! The timeline: what each part of each peer did when for the picture that is shown, beside what was expected.

use super::{
    FrameReport, MeshReport, WRONG,
    mesh_panel::{color, millis},
};
use brickmesh_actors::requester::FrameTrace;
use brickmesh_topology::{
    PeerId,
    balance::schedule::cost_on,
    frame::timeline::{Part, Piece, Row, SpanKind, expected},
};
use egui::{Align2, Color32, FontId, Pos2, Rect, ScrollArea, Sense, Ui, Vec2};
use std::collections::BTreeMap;

/// Width of names, points.
const NAME_WIDTH: f32 = 120.0;
/// Heights of the lanes of a peer, points, from above; what was expected stands below what the device did.
const SCHEDULER: f32 = 5.0;
const DEVICE: f32 = 11.0;
const EXPECTED: f32 = 4.0;
const COMPOSITOR: f32 = 5.0;
/// And of all of them, with a gap.
const PEER: f32 = 32.0;
/// Distance of lanes.
const GAP: f32 = 1.0;
/// What was expected.
const EXPECTED_COLOR: Color32 = Color32::from_rgb(150, 150, 150);
/// Lines of time, at most.
const TICKS: u64 = 8;

fn color_of(kind: SpanKind) -> Color32 {
    match kind {
        SpanKind::Schedule => Color32::from_rgb(120, 170, 250),
        SpanKind::Job => Color32::from_rgb(90, 190, 110),
        SpanKind::Send => Color32::from_rgb(250, 190, 80),
        SpanKind::Blend => Color32::from_rgb(210, 120, 220),
    }
}

/// A row of pieces on the screen.
struct Lane {
    pieces: Vec<Piece>,
    is_expected: bool,
    height: f32,
}

impl Lane {
    fn name(&self, piece: &Piece) -> String {
        let kind = piece.kind.map_or("waits", SpanKind::name);
        let which = if self.is_expected { " as expected" } else { "" };
        format!("{kind}{which}: {:.2} ms", millis(piece.micros))
    }

    fn color(&self, piece: &Piece) -> Option<Color32> {
        let color = color_of(piece.kind?);
        Some(if self.is_expected {
            EXPECTED_COLOR
        } else {
            color
        })
    }
}

/// Shows it.
pub(super) fn show(ui: &mut Ui, frame: Option<&FrameReport>, mesh: &MeshReport) {
    let traced = frame.and_then(|f| Some((f, f.trace.as_ref()?)));
    ui.horizontal_wrapped(|ui| {
        ui.strong("Timeline");
        for kind in [
            SpanKind::Schedule,
            SpanKind::Job,
            SpanKind::Send,
            SpanKind::Blend,
        ] {
            legend(ui, color_of(kind), kind.name());
            if kind == SpanKind::Job {
                legend(ui, EXPECTED_COLOR, "as expected");
            }
        }
        match traced {
            Some((frame, _)) => {
                let took = frame.took.as_secs_f64() * 1e3;
                ui.small(format!("a frame of {took:.1} ms"))
            }
            None => ui.small("comes with the next picture"),
        };
    });
    let total = traced.map_or(1, |(_, trace)| total(trace));
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        ticks(ui, total);
        let mut rows: BTreeMap<&PeerId, Vec<&Row>> = BTreeMap::new();
        for row in traced.iter().flat_map(|(_, trace)| &trace.rows) {
            rows.entry(&row.peer).or_default().push(row);
        }
        for peer in &mesh.peers {
            let rows = rows.remove(&peer.id).unwrap_or_default();
            let lanes = traced.map(|(_, trace)| lanes(&rows, trace));
            let (color, note) = match (peer.is_silent, traced) {
                (true, _) => (WRONG, "does not answer"),
                (false, Some(_)) if rows.is_empty() => (color(mesh, &peer.id), "no work"),
                (false, _) => (color(mesh, &peer.id), ""),
            };
            let name = (peer.name.as_str(), color);
            one_peer(ui, name, note, &lanes.unwrap_or_default(), total);
        }
        for name in &mesh.gone {
            one_peer(ui, (name, WRONG), "is gone", &[], total);
        }
    });
}

fn legend(ui: &mut Ui, color: Color32, name: &str) {
    let (rect, _) = ui.allocate_exact_size(Vec2::splat(8.0), Sense::hover());
    ui.painter().rect_filled(rect, 1.0, color);
    ui.small(name);
}

/// Microseconds of a frame: every row has as many.
fn total(trace: &FrameTrace) -> u64 {
    let ends = trace.rows.iter().filter_map(|row| row.pieces.last());
    ends.map(|p| p.start + p.micros).max().unwrap_or(1).max(1)
}

/// From above to below: scheduler, device, what was expected of it, compositor.
fn lanes(rows: &[&Row], trace: &FrameTrace) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for row in rows {
        let height = match row.part {
            Part::Scheduler => SCHEDULER,
            Part::Device => DEVICE,
            Part::Compositor => COMPOSITOR,
        };
        lanes.push(Lane {
            pieces: row.pieces.clone(),
            is_expected: false,
            height,
        });
        if row.part == Part::Device {
            let cost = |job: u32| {
                let (_, cost) = trace.expected.get(job as usize)?;
                Some(cost_on(*cost, *trace.speeds.get(&row.peer)?))
            };
            lanes.push(Lane {
                pieces: expected(row, cost),
                is_expected: true,
                height: EXPECTED,
            });
        }
    }
    lanes
}

/// The place of a time.
fn x_of(rect: Rect, micros: u64, total: u64) -> f32 {
    let part = (micros as f64 / total as f64).min(1.0);
    #[expect(clippy::cast_possible_truncation, reason = "a part of 1")]
    let part = part as f32;
    rect.left() + part * rect.width()
}

/// What is beside the names.
fn beside_names(rect: Rect) -> Rect {
    let left = (rect.left() + NAME_WIDTH).min(rect.right());
    rect.with_min_x(left)
}

/// Milliseconds along the frame.
fn ticks(ui: &mut Ui, total: u64) {
    let size = Vec2::new(ui.available_width(), 12.0);
    let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
    let rect = beside_names(rect);
    let mut step = 1;
    // 1, 2, 5, 10, …
    for factor in [2, 5, 10].into_iter().cycle() {
        if total / step <= TICKS {
            break;
        }
        let decade = 10_u64.pow(step.ilog10());
        step = decade * factor;
    }
    let weak = ui.visuals().weak_text_color();
    let font = FontId::proportional(9.0);
    for at in (0..=total).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let x = x_of(rect, at, total);
        ui.painter()
            .vline(x, rect.bottom() - 3.0..=rect.bottom(), (1.0, weak));
        let text = format!("{} ms", millis(at));
        if x + 30.0 < rect.right() {
            let at = Pos2::new(x + 2.0, rect.top());
            ui.painter()
                .text(at, Align2::LEFT_TOP, text, font.clone(), weak);
        }
    }
}

fn one_peer(
    ui: &mut Ui,
    (name, name_color): (&str, Color32),
    note: &str,
    lanes: &[Lane],
    total: u64,
) {
    let size = Vec2::new(ui.available_width(), PEER);
    let (rect, pointed) = ui.allocate_exact_size(size, Sense::hover());
    // By hand: a widget that is put somewhere moves what comes next.
    let names = ui
        .painter()
        .with_clip_rect(rect.with_max_x(rect.left() + NAME_WIDTH - 4.0));
    for (text, size, color, top) in [
        (name, 12.0, name_color, GAP),
        (note, 9.0, ui.visuals().weak_text_color(), PEER / 2.0),
    ] {
        let at = Pos2::new(rect.left(), rect.top() + top);
        names.text(
            at,
            Align2::LEFT_TOP,
            text,
            FontId::proportional(size),
            color,
        );
    }
    let right = beside_names(rect);
    let mut top = right.top() + GAP;
    let at = pointed.hover_pos();
    let mut told = None;
    for lane in lanes {
        let lane_rect = Rect::from_min_max(
            Pos2::new(right.left(), top),
            Pos2::new(right.right(), top + lane.height),
        );
        let ground = ui.visuals().extreme_bg_color;
        ui.painter().rect_filled(lane_rect, 0.0, ground);
        for piece in &lane.pieces {
            let from = x_of(right, piece.start, total);
            let to = x_of(right, piece.start.saturating_add(piece.micros), total);
            // A thin edge between neighbours, where there is room for one.
            let edge = if to - from > 3.0 { 1.0 } else { 0.0 };
            let rect = lane_rect
                .with_min_x(from)
                .with_max_x((to - edge).max(from + 0.5));
            if let Some(color) = lane.color(piece) {
                ui.painter().rect_filled(rect, 0.0, color);
            }
            let is_here =
                |at: Pos2| lane_rect.expand(GAP / 2.0).contains(at) && (from..to).contains(&at.x);
            if at.is_some_and(is_here) {
                told = Some(lane.name(piece));
            }
        }
        top += lane.height + GAP;
    }
    if let Some(told) = told {
        pointed.on_hover_text_at_pointer(told);
    }
}

//! `placements`: what a frame would take by each placement.

use super::CommandResult;
use crate::{
    args::{PlacementsArgs, placement_name},
    brick_store::{self, BrickEdge, FileOptions},
    free_memory::free_memory_bytes,
    placement_choice::{Comparison, room},
    progress::Progress,
    stop::Stop,
    terminal::{note, say},
};
use brickmesh_topology::balance::{
    placement::comparison::{ComparedDevice, ComparedPlacement, best},
    schedule::SPEED_ONE,
};
use serde_json::{Value, json};

pub(super) fn run(args: &PlacementsArgs, stop: &Stop) -> CommandResult {
    let nodes = usize::from(args.nodes);
    if !args.speeds.is_empty() && args.speeds.len() != nodes {
        let found = args.speeds.len();
        return Err(
            format!("--speeds has {found} numbers for {nodes} machines: give one each").into(),
        );
    }
    let mut progress = Progress::new("reading the volume");
    let source = brick_store::open_source(
        &args.source.volume,
        FileOptions {
            fill: args.source.fill,
            ..FileOptions::default()
        },
        BrickEdge::shared(args.brick),
        free_memory_bytes() / 2,
        &mut |done, total| {
            progress.show(done, total);
            !stop.is_said()
        },
    )?;
    progress.end();
    let manifest = source.manifest();
    let bricks = manifest.grid().brick_count();
    let room = args.memory.map_or(bricks, |bytes| room(manifest, bytes));
    let device = |n: usize| ComparedDevice {
        room,
        speed_millionths: millionths(args.speeds.get(n).copied().unwrap_or(1.0)),
    };
    let devices: Vec<ComparedDevice> = (0..nodes).map(device).collect();
    let comparison = Comparison {
        manifest,
        devices: &devices,
        copies_max: args.copies,
        link_mbit: args.link,
        size: args.size,
    };
    let rows = comparison.rows(&|| !stop.is_said())?;
    let Some(best) = best(&rows) else {
        return Err(format!(
            "--memory: {room} bricks fit on each of {nodes} machines; the volume has {bricks}: take more memory, or more machines"
        )
        .into());
    };
    if args.json {
        let rows: Vec<Value> = rows.iter().map(as_json).collect();
        let all = json!({"placements": rows, "best": as_json(best)});
        say(serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    if best.frame_micros <= 0.0 {
        note(
            "brickmesh: nothing of it is visible with its own transfer function: all placements take the same",
        );
    }
    print(&rows, best)?;
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "speeds are 0.001 to 1000"
)]
fn millionths(speed: f64) -> u64 {
    (speed * SPEED_ONE as f64).round() as u64
}

fn as_json(row: &ComparedPlacement) -> Value {
    json!({
        "placement": placement_name(row.method), "copies": row.copies, "max_over_mean": row.max_over_mean,
        "bytes_max": row.bytes_max, "images": row.images, "pixels_sent": row.pixels,
        "frame_us": row.frame_micros, "frame_us_max": row.frame_micros_max,
    })
}

fn print(rows: &[ComparedPlacement], best: &ComparedPlacement) -> std::io::Result<()> {
    say(
        "placement            copies  busiest/ideal  MiB at most  images  kilopixels sent  ms a frame  at most",
    )?;
    for row in rows {
        let mark = if std::ptr::eq(row, best) {
            "  least"
        } else {
            ""
        };
        say(format_args!(
            "{:<20} {:>6}  {:>13.3}  {:>11.1}  {:>6.0}  {:>15.0}  {:>10.1}  {:>7.1}{mark}",
            placement_name(row.method),
            row.copies,
            row.max_over_mean,
            row.bytes_max as f64 / f64::from(1 << 20),
            row.images,
            row.pixels / 1000.0,
            row.frame_micros / 1000.0,
            row.frame_micros_max / 1000.0,
        ))?;
    }
    Ok(())
}

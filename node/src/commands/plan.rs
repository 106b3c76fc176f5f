//! `plan`: what of a volume fits into the memory of peers, before it is loaded.

use super::{CommandResult, status};
use crate::{
    args::PlanArgs,
    brick_store::DirectoryStore,
    device_choice::default_memory_bytes,
    open_source::{BRICK_ALONE, BRICK_SHARED},
    session::in_mib,
    stop::Stop,
    terminal::say,
    volume_file,
};
use brickmesh_actors::{
    data_set::BrickSource as _,
    plain_text::{counted, plain_text},
};
use brickmesh_topology::{
    BrickGrid, VolumeDescription,
    data::levels,
    mesh::fit::{Fit, FitPeer, fit},
};
use serde_json::{Value, json};
use std::{error::Error, time::Duration};

/// What is to be shown: the volume and its levels, finest first.
struct Planned {
    volumes: Vec<VolumeDescription>,
    brick_edge: u32,
    /// Of a voxel in device memory.
    voxel_bytes: u64,
    /// A file is cut into the memory of the machine, beside devices that are not the processor.
    is_file: bool,
}

/// One quality of it.
struct Row {
    level: usize,
    dims: [u32; 3],
    bricks: u32,
    copy_bytes: u64,
    fit: Fit,
}

pub(super) fn run(args: &PlanArgs, mut stop: Stop) -> CommandResult {
    let planned = planned(args)?;
    let (names, peers) = peers(args, &mut stop)?;
    let redundancy = args
        .redundancy
        .unwrap_or(if peers.len() == 1 { 1 } else { 2 });
    let mut rows = Vec::new();
    for (level, volume) in planned.volumes.iter().enumerate() {
        let grid = BrickGrid::new(volume.dims, planned.brick_edge)?;
        let brick_bytes = grid.largest_stored_voxels() * planned.voxel_bytes;
        let bricks = grid.brick_count();
        rows.push(Row {
            level,
            dims: volume.dims,
            bricks,
            copy_bytes: brick_bytes.saturating_mul(bricks.into()),
            fit: fit(bricks, brick_bytes, &peers, redundancy),
        });
    }
    if args.json {
        let peers = names.iter().zip(&peers);
        let peers = peers.map(|(name, p)| json!({"name": name, "memory_bytes": p.memory_bytes}));
        let all = json!({
            "peers": peers.collect::<Vec<_>>(), "redundancy": redundancy,
            "levels": rows.iter().map(as_json).collect::<Vec<_>>(),
            "finest_held": rows.iter().find(|r| r.fit.copies > 0).map(|r| r.level),
        });
        say(serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    let each = names.iter().zip(&peers);
    let each = each.map(|(name, p)| format!("{} {}", plain_text(name), in_mib(p.memory_bytes)));
    say(format_args!(
        "peers       {}: {}",
        peers.len(),
        each.collect::<Vec<_>>().join(", ")
    ))?;
    for row in &rows {
        let quality = match row.level {
            0 => "exact".to_owned(),
            level => format!("level {level}"),
        };
        let [x, y, z] = row.dims;
        say(format_args!(
            "{quality:<11} {x} x {y} x {z}, {}, {} a copy: {}",
            counted(row.bricks, "brick"),
            in_mib(row.copy_bytes),
            in_words(row, &peers)
        ))?;
    }
    if planned.is_file {
        say(
            "A file is cut into this machine's memory first; of what is larger than that, `brickmesh import` makes a folder, with coarser levels.",
        )?;
    }
    say(
        "Each by itself; what a device needs beside bricks, and several that are open at a time, come on top.",
    )?;
    Ok(())
}

/// What of a quality is held, for people.
fn in_words(row: &Row, peers: &[FitPeer]) -> String {
    let fit = &row.fit;
    match fit.copies {
        0 => {}
        1 => return "one copy of all of them".to_owned(),
        copies => return format!("{copies} copies of all of them"),
    }
    let largest = peers.iter().map(|p| p.memory_bytes).max().unwrap_or(0);
    let each = in_mib(fit.memory_each_bytes);
    let all_with = match fit.more_peers {
        Some(more) => {
            let peers = if more == 1 { "peer" } else { "peers" };
            format!(
                "all with {more} more {peers} of {}, or {each} each",
                in_mib(largest)
            )
        }
        None => format!("all with {each} each"),
    };
    if fit.missing > 0 {
        return format!("there is no room to read one; {all_with}");
    }
    let held = fit.held;
    format!(
        "{held} are held, {} read for each frame; {all_with}",
        fit.read
    )
}

fn as_json(row: &Row) -> Value {
    let fit = &row.fit;
    json!({
        "level": row.level, "dims": row.dims, "bricks": row.bricks, "copy_bytes": row.copy_bytes,
        "copies": fit.copies, "held": fit.held, "read": fit.read, "missing": fit.missing,
        "more_peers": fit.more_peers, "memory_each_bytes": fit.memory_each_bytes,
    })
}

/// What a folder or a header says.
fn planned(args: &PlanArgs) -> Result<Planned, Box<dyn Error>> {
    let path = &args.source.volume;
    if path.join("manifest.json").is_file() {
        if args.source.fill.is_some() {
            return Err("--fill belongs to a file: a folder says already what is no data".into());
        }
        let store = DirectoryStore::open(path)?;
        let manifest = store.manifest();
        let brick_edge = manifest.grid().edge();
        let mut volumes = levels::levels(manifest.volume(), brick_edge);
        volumes.truncate(manifest.levels().len() + 1);
        return Ok(Planned {
            volumes,
            brick_edge,
            voxel_bytes: manifest.voxel_memory_bytes(),
            is_file: false,
        });
    }
    let file = volume_file::open_with_fill(path, args.source.fill)?;
    let volume = file.description;
    // Voxels among which some are no data are floats on a device.
    let voxel_bytes = match volume.fill {
        Some(_) => size_of::<f32>(),
        None => volume.voxel.bytes(),
    };
    Ok(Planned {
        volumes: vec![volume],
        brick_edge: args.brick.unwrap_or(if args.peers == 1 && !args.mesh {
            BRICK_ALONE
        } else {
            BRICK_SHARED
        }),
        voxel_bytes: voxel_bytes as u64,
        is_file: true,
    })
}

/// The peers and their names.
fn peers(args: &PlanArgs, stop: &mut Stop) -> Result<(Vec<String>, Vec<FitPeer>), Box<dyn Error>> {
    let memory = |n: usize| {
        let given = args.memory.get(n).or(args.memory.first());
        given
            .copied()
            .unwrap_or_else(|| default_memory_bytes(args.peers))
    };
    if args.mesh {
        let time = Duration::from_secs_f64(args.seconds);
        let (status, refused) = status::look(&args.network, time, stop)?;
        let holding = status.peers.values().filter(|h| h.memory_bytes > 0);
        let others = holding.map(|h| (h.name.clone(), h.memory_bytes, false));
        let others: Vec<_> = others.collect();
        if others.is_empty() {
            let why = refused.unwrap_or_else(|| "start some with `brickmesh peer`".to_owned());
            return Err(format!("no peer was found within {} s: {why}", args.seconds).into());
        }
        // Who opens the volume reads; who else has its folder is not known before.
        let own = ("this machine".to_owned(), memory(0), true);
        let all = others.into_iter().chain([own]);
        return Ok(all.map(named_peer).unzip());
    }
    if args.network.is_given() {
        return Err("--join, --listen, --key and --identity belong to --mesh".into());
    }
    let count = (args.peers as usize).max(args.memory.len());
    if args.memory.len() > 1 && args.peers > 1 && args.memory.len() != args.peers as usize {
        return Err(format!(
            "--memory has {} sizes for {} peers: give one for all, or one each",
            args.memory.len(),
            args.peers
        )
        .into());
    }
    let peer = |n: usize| (format!("peer-{:02}", n + 1), memory(n), true);
    Ok((0..count).map(peer).map(named_peer).unzip())
}

fn named_peer((name, memory_bytes, reads): (String, u64, bool)) -> (String, FitPeer) {
    let peer = FitPeer {
        memory_bytes,
        reads,
    };
    (name, peer)
}

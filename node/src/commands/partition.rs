//! `partition`: which machine would get which part of a volume.

use super::CommandResult;
use crate::{
    args::PartitionArgs,
    brick_store::DirectoryStore,
    kept_voxels::{Keep, VoxelSource, kept_slices},
    output_file::OutputFile,
    partition_picture::svg,
    progress::Progress,
    stop::Stop,
    terminal::{note, say},
    volume_file,
};
use brickmesh_actors::{data_set::BrickSource as _, plain_text::counted};
use brickmesh_topology::{
    VoxelBox,
    balance::partition::{
        grouping::{Prices, Sending},
        volume_partition::{
            PartitionError, PartitionGathering, PartitionRequest, VolumePart, VolumePartition,
            of_projections,
        },
    },
    data::slab_projections::SlabProjections,
};
use serde_json::{Value, json};

/// Boxes that a line of text names.
const BOXES_SHOWN: usize = 3;

pub(super) fn run(args: &PartitionArgs, stop: &Stop) -> CommandResult {
    let out = args
        .svg
        .as_ref()
        .map(|file| OutputFile::check("picture", file))
        .transpose()?;
    let path = &args.source.volume;
    let source = if path.join("manifest.json").is_file() {
        if args.source.fill.is_some() {
            return Err("--fill belongs to a file: a folder says already what is no data".into());
        }
        VoxelSource::Folder(Box::new(DirectoryStore::open(path)?))
    } else {
        VoxelSource::File(Box::new(volume_file::open_with_fill(
            path,
            args.source.fill,
        )?))
    };
    if let VoxelSource::Folder(store) = &source
        && !store.manifest().materials().is_empty()
        && store.manifest().range().is_none()
    {
        return Err(format!(
            "{}: partition counts voxels, and this has triangles alone; `brickmesh placements` takes it",
            path.display()
        )
        .into());
    }
    let of_volume = |e: PartitionError| format!("{}: {e}", path.display());
    let kept = match &source {
        VoxelSource::Folder(store) if args.empty.says_nothing_of_values() => store.projections()?,
        _ => None,
    };
    if let VoxelSource::Folder(store) = &source
        && store.manifest().knows_kept_voxels()
        && kept.is_none()
    {
        note(
            "brickmesh: bricks that the import of this folder took to be empty do not have their own voxels any more",
        );
    }
    if kept.is_some() && (!args.method.needs_projections_only() || args.empty.slab.is_some()) {
        return Err(format!(
            "{}: its import was told what is empty, of which it keeps the slab projections: they are for skd-tree and brick-grouping, without --slab; say for others what is empty with --keep or --mask",
            path.display()
        )
        .into());
    }
    let (partition, projections) = if let Some(projections) = kept {
        let partition = of_projections(&request(args), &projections).map_err(of_volume)?;
        (partition, Some(projections))
    } else {
        gathered(args, &source, stop)?
    };
    if let Some((out, projections)) = out.zip(projections.as_ref()) {
        let picture = svg(&partition.parts, projections);
        out.write(|to| to.write_all(picture.as_bytes()))?;
    }
    if args.json {
        say(serde_json::to_string_pretty(&as_json(
            &partition,
            projections.as_ref(),
        ))?)?;
        return Ok(());
    }
    print(&partition, args.nodes)?;
    Ok(())
}

/// The partition of voxels that are read.
fn gathered(
    args: &PartitionArgs,
    source: &VoxelSource,
    stop: &Stop,
) -> Result<(VolumePartition, Option<SlabProjections>), Box<dyn std::error::Error>> {
    let keep = Keep::new(&args.empty, source.volume())?;
    let of_volume = |e: PartitionError| format!("{}: {e}", args.source.volume.display());
    let dims = source.volume().dims;
    let mut gathering = PartitionGathering::new(request(args), dims).map_err(of_volume)?;
    let mut progress = Progress::new("reading the voxels");
    let mut on_progress = |done, total| {
        progress.show(done, total);
        !stop.is_said()
    };
    kept_slices(source, &keep, &mut on_progress, &mut |slice| {
        gathering.slice(slice)
    })?;
    progress.end();
    Ok(gathering.finish().map_err(of_volume)?)
}

fn request(args: &PartitionArgs) -> PartitionRequest {
    let nodes = usize::from(args.nodes);
    let cost = args.cost;
    let send = cost
        .further
        .map_or(Sending::Each(cost.send), |further| Sending::TwoTier {
            first: cost.send,
            further,
            nodes,
        });
    PartitionRequest {
        method: args.method,
        nodes,
        cube_level: args.cubes,
        cube_border: args.cube_border,
        slab_slices: args.empty.slab_slices(),
        view: args.view,
        bricks_max: args.max_bricks.into(),
        prices: Prices {
            render: cost.render,
            local: cost.local,
            send,
        },
        draws: args.svg.is_some(),
    }
}

fn as_json(partition: &VolumePartition, projections: Option<&SlabProjections>) -> Value {
    let part = |part: &VolumePart| {
        let mut json = json!({"node": part.node, "boxes": part.boxes, "load": part.load});
        if let Some(slabs) = &part.slabs {
            json["slabs"] = json!([slabs.start, slabs.end]);
        }
        json
    };
    json!({
        "parts": partition.parts.iter().map(part).collect::<Vec<_>>(),
        "cells": cells(partition),
        "cost": partition.cost, "optimal": partition.is_optimal, "states": partition.states,
        "load": partition.parts.iter().map(|p| p.load).sum::<u64>(),
        "z_cuts": projections.map(|p| p.slabs.iter().map(|s| s.end).collect::<Vec<_>>()),
        "slices_read": partition.slices_read,
    })
}

/// Parts in which there is something.
fn cells(partition: &VolumePartition) -> usize {
    partition.parts.iter().filter(|p| p.load > 0).count()
}

fn print(partition: &VolumePartition, nodes: u16) -> std::io::Result<()> {
    say("node          load  boxes, from and to, in voxels")?;
    for part in &partition.parts {
        let shown = part.boxes.iter().take(BOXES_SHOWN).map(|b: &VoxelBox| {
            let [[a, b, c], [d, e, f]] = [b.lo, b.hi];
            format!("{a},{b},{c} to {d},{e},{f}")
        });
        let mut boxes: Vec<String> = shown.collect();
        if part.boxes.len() > BOXES_SHOWN {
            boxes.push(format!("{} more", part.boxes.len() - BOXES_SHOWN));
        }
        say(format_args!(
            "{:>4} {:>13}  {}",
            part.node,
            part.load,
            boxes.join("; ")
        ))?;
    }
    let mut loads = vec![0_u64; nodes.into()];
    for part in &partition.parts {
        if let Some(load) = loads.get_mut(part.node) {
            *load += part.load;
        }
    }
    let (sum, largest) = (
        loads.iter().sum::<u64>(),
        loads.iter().copied().max().unwrap_or(0),
    );
    let mean = sum as f64 / f64::from(nodes);
    let proof = if partition.is_optimal {
        ", and none costs less"
    } else {
        ""
    };
    say(format_args!(
        "{}, {sum} in all; the busiest machine has {:.3} of the mean; cost {}{proof}",
        counted(u32::try_from(cells(partition)).unwrap_or(u32::MAX), "part"),
        largest as f64 / mean.max(f64::MIN_POSITIVE),
        partition.cost,
    ))
}

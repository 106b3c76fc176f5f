//! `import` and `info`: volumes as files.

use super::CommandResult;
use crate::{
    args::{ImportArgs, InfoArgs},
    brick_store,
    progress::Progress,
    stats::VolumeStats,
    stop::Stop,
    volume_file,
};
use brickmesh_topology::BrickIndex;

/// Damaged bricks that are told one by one.
const DAMAGED_SHOWN_MAX: usize = 20;
/// Voxels that are read at a time to verify a file, in bytes; whole voxels of every type.
const CHUNK_BYTES: usize = 1 << 20;

pub(super) fn import(args: &ImportArgs, stop: &Stop) -> CommandResult {
    let file = volume_file::open(&args.volume)?;
    let mut progress = Progress::new("importing");
    let store = brick_store::import(&file, args.brick, &args.out, &mut |done, total| {
        progress.show(done, total);
        !stop.is_said()
    })?;
    progress.end();
    let manifest = brickmesh_actors::data_set::BrickSource::manifest(&store);
    println!(
        "wrote {}: {} bricks of {}³, data set {}",
        args.out.display(),
        manifest.grid().brick_count(),
        manifest.grid().edge(),
        manifest.digest()
    );
    Ok(())
}

pub(super) fn info(args: &InfoArgs, stop: &Stop) -> CommandResult {
    if args.volume.join("manifest.json").is_file() {
        store_info(args, stop)
    } else {
        file_info(args, stop)
    }
}

fn store_info(args: &InfoArgs, stop: &Stop) -> CommandResult {
    let store = brick_store::DirectoryStore::open(&args.volume)?;
    let manifest = brickmesh_actors::data_set::BrickSource::manifest(&store);
    let stats = VolumeStats::of(manifest);
    let damaged = if args.verify {
        Some(damaged_bricks(&store, stop)?)
    } else {
        None
    };
    if args.json {
        let mut json = serde_json::to_value(&stats)?;
        if let Some(damaged) = &damaged {
            let indices: Vec<u32> = damaged.iter().map(|(brick, _)| brick.0).collect();
            json["damaged"] = indices.into();
        }
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        let [x, y, z] = stats.brick_counts;
        print_volume(manifest.volume(), "brickmesh store");
        println!("values      {} … {}", stats.range[0], stats.range[1]);
        println!(
            "bricks      {x} x {y} x {z} of {}³ voxels",
            stats.brick_edge
        );
        println!("data set    {}", stats.data_set);
    }
    let Some(damaged) = damaged else {
        return Ok(());
    };
    let count = manifest.grid().brick_count();
    if damaged.is_empty() {
        if !args.json {
            println!("verified    {count} bricks are what the manifest says");
        }
        return Ok(());
    }
    for (_, error) in damaged.iter().take(DAMAGED_SHOWN_MAX) {
        eprintln!("{error}");
    }
    Err(format!(
        "{}: {} of {count} bricks are damaged; import the volume again",
        args.volume.display(),
        damaged.len()
    )
    .into())
}

fn damaged_bricks(
    store: &brick_store::DirectoryStore,
    stop: &Stop,
) -> Result<Vec<(BrickIndex, brick_store::BrickStoreError)>, brick_store::BrickStoreError> {
    let mut progress = Progress::new("verifying");
    store.verify(&mut |done, total| {
        progress.show(done, total);
        !stop.is_said()
    })
}

fn file_info(args: &InfoArgs, stop: &Stop) -> CommandResult {
    let file = volume_file::open(&args.volume)?;
    if args.verify {
        read_all(&file, stop)?;
    }
    let volume = &file.description;
    if args.json {
        let json = serde_json::json!({
            "source": args.volume.display().to_string(), "format": file.format,
            "dims": volume.dims, "type": volume.voxel.name(), "spacing": volume.spacing,
            "origin": volume.origin, "direction": volume.direction,
            "value_scale": volume.value_scale, "value_offset": volume.value_offset,
        });
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print_volume(volume, file.format);
        if args.verify {
            println!("verified    every voxel can be read");
        }
    }
    Ok(())
}

/// Reads every voxel of a file and keeps none.
fn read_all(file: &volume_file::VolumeFile, stop: &Stop) -> CommandResult {
    let mut progress = Progress::new("verifying");
    let mut stream = file.voxels()?;
    let (total, mut done) = (file.description.voxel_bytes(), 0);
    let mut voxels = vec![0; CHUNK_BYTES];
    while done < total {
        let n = usize::try_from(total - done).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        stream.read(&mut voxels[..n])?;
        done += n as u64;
        progress.show(done, total);
        if stop.is_said() {
            return Err("stopped before all of it was read".into());
        }
    }
    Ok(stream.finish()?)
}

fn print_volume(volume: &brickmesh_topology::VolumeDescription, format: &str) {
    let [x, y, z] = volume.dims;
    println!("format      {format}");
    println!("dimensions  {x} x {y} x {z}");
    println!("type        {}", volume.voxel.name());
    println!(
        "voxels      {:.1} MiB",
        volume.voxel_bytes() as f64 / f64::from(1 << 20)
    );
    println!("spacing     {:?}", volume.spacing);
    println!("origin      {:?}", volume.origin);
    println!("direction   {:?}", volume.direction);
    let plain =
        volume.value_scale.to_bits() == 1.0_f64.to_bits() && volume.value_offset.abs() <= 0.0;
    if !plain {
        println!(
            "value       stored x {} + {}",
            volume.value_scale, volume.value_offset
        );
    }
}

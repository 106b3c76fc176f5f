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

pub(super) fn info(args: &InfoArgs) -> CommandResult {
    if args.volume.join("manifest.json").is_file() {
        let store = brick_store::DirectoryStore::open(&args.volume)?;
        let manifest = brickmesh_actors::data_set::BrickSource::manifest(&store);
        let stats = VolumeStats::of(manifest);
        if args.json {
            println!("{}", serde_json::to_string_pretty(&stats)?);
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
        return Ok(());
    }
    let file = volume_file::open(&args.volume)?;
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
    }
    Ok(())
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

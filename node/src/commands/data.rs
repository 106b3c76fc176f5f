//! `import` and `info`: volumes as files.

use super::CommandResult;
use crate::{
    args::{ImportArgs, InfoArgs},
    brick_store::{self, BrickEdge, EmptySpace, FileOptions, ImportOptions, Placed, surface_of},
    free_memory::free_memory_bytes,
    kept_voxels::Keep,
    picture_settings::{no_data, surface_names},
    progress::Progress,
    scene_file::{self, SceneLook, is_scene},
    short_numbers::short_range,
    stats::VolumeStats,
    stop::Stop,
    surface_file::{self, Look, MEMORY_MIN, Spill, is_surface},
    terminal::{note, say},
    value_report::ValueReport,
    volume_file,
};
use brickmesh_actors::{data_set::BrickSource, plain_text::counted};
use brickmesh_topology::{
    BrickGrid, BrickIndex, Manifest, VolumeDescription,
    data::{levels, value_gathering::ValueGathering},
};

/// Damaged bricks that are told one by one.
const DAMAGED_SHOWN_MAX: usize = 20;

pub(super) fn import(args: &ImportArgs, stop: &Stop) -> CommandResult {
    let has_triangles = surface_of(&args.source.volume).is_some() || is_scene(&args.source.volume);
    if !args.surfaces.surface.is_empty() || has_triangles {
        return import_surfaces(args, stop);
    }
    if args.memory.is_some() {
        return Err("--memory is for triangles, and there are none: of a volume a few layers of bricks are in memory at a time; leave it out".into());
    }
    if args.source.volume.join("manifest.json").is_file() {
        return Err(format!(
            "{}: it is a .brickmesh folder; give the volume that it was made of",
            args.source.volume.display()
        )
        .into());
    }
    let file = volume_file::open_with_fill(&args.source.volume, args.source.fill)?;
    if args.parts.is_some() && file.plain_voxels().is_ok_and(|plain| plain.is_none()) {
        return Err(format!(
            "{}: --parts is for uncompressed .raw, NRRD, MetaImage and NIfTI files, of which parts can be read; import without it",
            args.source.volume.display()
        )
        .into());
    }
    let how = ImportOptions {
        levels_max: args.levels.map_or(usize::MAX, Into::into),
        placement: args.placement,
        empty: if args.empty.is_default() {
            None
        } else {
            Some(EmptySpace {
                keep: Keep::new(&args.empty, &file.description)?,
                slab_slices: args.empty.slab_slices(),
            })
        },
    };
    let mut progress = Progress::new("importing");
    let edge = BrickEdge::shared(args.brick).of(&file.description);
    // 0: one for each core.
    let threads = rayon::ThreadPoolBuilder::new().num_threads(args.parts.unwrap_or(0).into());
    let store = threads.build()?.install(|| {
        brick_store::import_as(&file, edge, &how, &args.out, &mut |done, total| {
            progress.show(done, total);
            !stop.is_said()
        })
    })?;
    progress.end();
    let manifest = BrickSource::manifest(&store);
    say(format_args!(
        "wrote {}: {} of {}³, data set {}",
        args.out.display(),
        counted(manifest.grid().brick_count(), "brick"),
        manifest.grid().edge(),
        manifest.digest()
    ))?;
    say(format_args!("levels: {}", levels_of(manifest)))?;
    if manifest.knows_kept_voxels() {
        let kept: u64 = manifest.occupied_voxels().into_iter().sum();
        let all: u64 = manifest
            .volume()
            .dims
            .iter()
            .map(|&n| u64::from(n))
            .product();
        say(format_args!(
            "kept: {kept} of {all} voxels; bricks without any are alike now"
        ))?;
    }
    if let Some(line) = no_data(manifest) {
        say(line)?;
    }
    Ok(())
}

/// Brings triangles in, in the volume in which they stand or alone.
fn import_surfaces(args: &ImportArgs, stop: &Stop) -> CommandResult {
    if args.levels.is_some() || args.parts.is_some() || !args.empty.is_default() {
        return Err("--levels, --parts, --keep, --mask and --slab are for volumes alone: a folder with triangles has no levels, and does not know what is empty; leave them out".into());
    }
    let is_folder = args.source.volume.join("manifest.json").is_file();
    if is_folder && args.brick.is_some() {
        return Err("--brick belongs to a file: the folder is cut already".into());
    }
    let parent = brick_store::parent_of_new(&args.out)?;
    let path = &args.source.volume;
    if is_scene(path) && scene_file::read(path)?.look != SceneLook::default() {
        note(
            "the scene's mode, isovalues and light are of pictures: they do not go into the folder; say them again where it is rendered",
        );
    }
    let mut progress = Progress::new("importing");
    let mut show = |done, total| {
        progress.show(done, total);
        !stop.is_said()
    };
    let how = FileOptions {
        fill: args.source.fill,
        is_in_place: false,
    };
    let bytes_max = args.memory.unwrap_or_else(|| free_memory_bytes() / 2);
    if bytes_max < MEMORY_MIN {
        return Err(format!(
            "{bytes_max} bytes of memory are too few for triangles, which would be read again and again; give --memory {}M or more",
            MEMORY_MIN >> 20
        )
        .into());
    }
    // Where the folder is made there is room for it.
    let spill = Spill::new(bytes_max, parent.to_owned(), stop.goes_on());
    let source = brick_store::open_with_surfaces(
        &args.source.volume,
        how,
        BrickEdge::shared(args.brick),
        &args.surfaces.surface,
        (free_memory_bytes() / 2, &spill),
        &mut show,
    )?;
    let placement = args.placement.or(source.manifest().placement());
    let source = Placed::new(source, placement);
    let store = brick_store::write(&source, &args.out, &mut show)?;
    progress.end();
    let manifest = store.manifest();
    say(format_args!(
        "wrote {}: {} of {}³ with triangles of {}, data set {}",
        args.out.display(),
        counted(manifest.grid().brick_count(), "brick"),
        manifest.grid().edge(),
        counted(manifest.materials().len(), "material"),
        manifest.digest()
    ))?;
    Ok(())
}

/// How many coarser levels there are, for people.
fn levels_of(manifest: &Manifest) -> String {
    let volume = manifest.volume();
    let all = levels::levels(volume, manifest.grid().edge());
    let [coarsest, made] = [all.len() - 1, manifest.levels().len()];
    match (made, all.get(made)) {
        (0, _) if coarsest == 0 => {
            "none: no axis of 32 voxels or more is longer than a brick".to_owned()
        }
        (0, _) => "none were made: --quality can be exact alone".to_owned(),
        (_, Some(last)) => {
            let [x, y, z] = last.dims;
            format!("{made}, the coarsest of {x} x {y} x {z} voxels")
        }
        (_, None) => String::new(),
    }
}

pub(super) fn info(args: &InfoArgs, stop: &Stop) -> CommandResult {
    if is_surface(&args.source.volume) {
        surface_info(args, stop)
    } else if args.source.volume.join("manifest.json").is_file() {
        store_info(args, stop)
    } else {
        file_info(args, stop)
    }
}

fn surface_info(args: &InfoArgs, stop: &Stop) -> CommandResult {
    let path = &args.source.volume;
    let bytes_max = (free_memory_bytes() / 2).max(MEMORY_MIN);
    let spill = Spill::in_temp(bytes_max, stop.goes_on());
    let mut goes_on = true;
    let mesh = surface_file::read(path, &spill, &mut |_, _| {
        goes_on = !stop.is_said();
        goes_on
    });
    if !goes_on {
        return Err(brick_store::BrickStoreError::Stopped.into());
    }
    let mesh = mesh?;
    let [low, high] = mesh.bounds().map(|p| p.to_array());
    let (vertices, triangles) = (mesh.vertex_count(), mesh.triangle_count());
    let colors = mesh.looks().iter().flatten();
    let colors: Vec<[f32; 4]> = colors
        .map(
            |Look {
                 color: [r, g, b],
                 opacity,
             }| [*r, *g, *b, *opacity],
        )
        .collect();
    if args.json {
        let found = serde_json::json!({
            "file": path, "vertices": vertices, "triangles": triangles, "bounds": [low, high], "colors": colors
        });
        say(format_args!("{found}"))?;
        return Ok(());
    }
    say(format_args!(
        "file        {}\nvertices    {vertices}\ntriangles   {triangles}\nbounds      {}\ncolours     {}",
        path.display(),
        [0, 1, 2].map(|a| short_range([low[a], high[a]])).join(", "),
        if colors.is_empty() {
            "none in the file".to_owned()
        } else {
            colors.len().to_string()
        }
    ))?;
    Ok(())
}

fn store_info(args: &InfoArgs, stop: &Stop) -> CommandResult {
    let store = brick_store::DirectoryStore::open(&args.source.volume)?;
    let manifest = BrickSource::manifest(&store);
    if args.source.fill.is_some() {
        return Err("--fill belongs to a file: a folder says already what is no data".into());
    }
    let stats = VolumeStats::of(manifest);
    let values = ValueReport::of_manifest(manifest);
    // What its import was told is not empty: voxels, and bricks that have one.
    let kept = manifest.knows_kept_voxels().then(|| {
        let of_bricks = manifest.occupied_voxels();
        let bricks = of_bricks.iter().filter(|&&n| n > 0).count();
        (of_bricks.into_iter().sum::<u64>(), bricks)
    });
    let damaged = if args.verify {
        Some(damaged_bricks(&store, stop)?)
    } else {
        None
    };
    if args.json {
        let mut json = serde_json::to_value(&stats)?;
        values.add_to(&mut json)?;
        json["levels"] = manifest.levels().len().into();
        if !manifest.materials().is_empty() {
            json["materials"] = serde_json::to_value(manifest.materials())?;
            json["triangles"] = triangles_in_bricks(manifest).into();
        }
        if let Some((voxels, bricks)) = kept {
            json["kept"] = serde_json::json!({ "voxels": voxels, "bricks": bricks });
        }
        if let Some(damaged) = &damaged {
            let of_volume = damaged.iter().filter(|(level, ..)| *level == 0);
            let indices: Vec<u32> = of_volume.map(|(_, brick, _)| brick.0).collect();
            json["damaged"] = indices.into();
            let of_levels = damaged.iter().filter(|(level, ..)| *level > 0);
            let of_levels = of_levels.map(|(level, brick, _)| [*level, brick.0 as usize]);
            json["damaged_of_levels"] = serde_json::to_value(of_levels.collect::<Vec<_>>())?;
        }
        say(serde_json::to_string_pretty(&json)?)?;
    } else {
        let [x, y, z] = stats.brick_counts;
        print_volume(manifest.volume(), "brickmesh store")?;
        values.print()?;
        say(format_args!(
            "bricks      {x} x {y} x {z} of {}³ voxels",
            stats.brick_edge
        ))?;
        say(format_args!("levels      {}", levels_of(manifest)))?;
        let names = surface_names(manifest);
        if !names.is_empty() {
            say(format_args!(
                "triangles   {} of {names}, those that meet several bricks once for each",
                triangles_in_bricks(manifest)
            ))?;
        }
        if let Some((voxels, bricks)) = kept {
            say(format_args!(
                "kept        {voxels} voxels, in {}; the others were said to be empty at import",
                counted(bricks as u64, "brick")
            ))?;
        }
        say(format_args!("data set    {}", stats.data_set))?;
    }
    damaged.map_or(Ok(()), |damaged| tell_damaged(args, manifest, &damaged))
}

/// Triangles of all bricks; one may be in several.
fn triangles_in_bricks(manifest: &Manifest) -> u64 {
    let bricks = manifest.grid().bricks();
    let of_bricks = bricks.filter_map(|brick| manifest.brick_triangles(brick));
    of_bricks.map(|t| u64::from(t.count)).sum()
}

/// Says which bricks are damaged, an error, or how many are not.
fn tell_damaged(args: &InfoArgs, manifest: &Manifest, damaged: &[Damaged]) -> CommandResult {
    let edge = manifest.grid().edge();
    let volumes = levels::levels(manifest.volume(), edge).into_iter();
    let bricks = |v: VolumeDescription| BrickGrid::new(v.dims, edge).map_or(0, |g| g.brick_count());
    let of_levels = volumes.take(manifest.levels().len() + 1).map(bricks);
    let count: u64 = of_levels.map(u64::from).sum();
    if damaged.is_empty() {
        let levels = if manifest.levels().is_empty() {
            ""
        } else {
            ", those of its levels among them"
        };
        if !args.json {
            say(format_args!(
                "verified    {count} bricks are what the manifest says{levels}"
            ))?;
        }
        return Ok(());
    }
    for (.., error) in damaged.iter().take(DAMAGED_SHOWN_MAX) {
        note(error);
    }
    Err(format!(
        "{}: {} of {count} bricks are damaged; import the volume again",
        args.source.volume.display(),
        damaged.len()
    )
    .into())
}

/// A level, its damaged brick, and what is wrong with that.
type Damaged = (usize, BrickIndex, brick_store::BrickStoreError);

/// The damaged bricks of the volume and its levels, by level.
fn damaged_bricks(
    store: &brick_store::DirectoryStore,
    stop: &Stop,
) -> Result<Vec<Damaged>, brick_store::BrickStoreError> {
    // An error where they are damaged.
    store.projections()?;
    let mut progress = Progress::new("verifying");
    let mut on_progress = |done, total| {
        progress.show(done, total);
        !stop.is_said()
    };
    let mut damaged = Vec::new();
    let mut verify = |level, store: &brick_store::DirectoryStore| {
        let found = store.verify(&mut on_progress)?.into_iter();
        damaged.extend(found.map(|(brick, error)| (level, brick, error)));
        Ok::<(), brick_store::BrickStoreError>(())
    };
    verify(0, store)?;
    let coarsest = BrickSource::manifest(store).levels().len();
    for level in 1..=coarsest {
        verify(level, &store.open_level(level)?)?;
    }
    Ok(damaged)
}

fn file_info(args: &InfoArgs, stop: &Stop) -> CommandResult {
    let file = volume_file::open_with_fill(&args.source.volume, args.source.fill)?;
    let values = if args.header {
        None
    } else {
        Some(values_of(&file, stop)?)
    };
    let volume = &file.description;
    if args.json {
        let mut json = serde_json::json!({
            "source": args.source.volume.display().to_string(), "format": file.format,
            "dims": volume.dims, "type": volume.voxel.name(), "spacing": volume.spacing,
            "origin": volume.origin, "direction": volume.direction,
            "value_scale": volume.value_scale, "value_offset": volume.value_offset,
        });
        if let Some(values) = values {
            values.add_to(&mut json)?;
        }
        say(serde_json::to_string_pretty(&json)?)?;
        return Ok(());
    }
    print_volume(volume, file.format)?;
    if let Some(values) = values {
        values.print()?;
    }
    if args.verify {
        say("verified    every voxel can be read")?;
    }
    Ok(())
}

/// Reads every voxel of a file and keeps none.
fn values_of(
    file: &volume_file::VolumeFile,
    stop: &Stop,
) -> Result<ValueReport, Box<dyn std::error::Error>> {
    let mut progress = Progress::new("reading the values");
    let volume = &file.description;
    let mut stream = file.voxels()?;
    let mut gathering = ValueGathering::new(volume);
    let [nx, ny, nz] = volume.dims;
    let mut row = vec![0; nx as usize * volume.voxel.bytes()];
    for z in 0..nz {
        for y in 0..ny {
            stream.read(&mut row)?;
            gathering.row(y, z, &row);
        }
        progress.show(u64::from(z) + 1, nz.into());
        if stop.is_said() {
            return Err(
                "stopped before all of it was read; --header reads the header alone".into(),
            );
        }
    }
    stream.finish()?;
    Ok(ValueReport::of_found(volume, &gathering.finish()))
}

fn print_volume(volume: &VolumeDescription, format: &str) -> std::io::Result<()> {
    let [x, y, z] = volume.dims;
    say(format_args!("format      {format}"))?;
    say(format_args!("dimensions  {x} x {y} x {z}"))?;
    say(format_args!("type        {}", volume.voxel.name()))?;
    say(format_args!(
        "voxels      {:.1} MiB",
        volume.voxel_bytes() as f64 / f64::from(1 << 20)
    ))?;
    say(format_args!("spacing     {:?}", volume.spacing))?;
    say(format_args!("origin      {:?}", volume.origin))?;
    say(format_args!("direction   {:?}", volume.direction))?;
    let plain =
        volume.value_scale.to_bits() == 1.0_f64.to_bits() && volume.value_offset.abs() <= 0.0;
    if !plain {
        say(format_args!(
            "value       stored x {} + {}",
            volume.value_scale, volume.value_offset
        ))?;
    }
    if let Some(unit) = volume.unit {
        say(format_args!("unit        {}", unit.symbol()))?;
    }
    if let Some(axes) = volume.patient {
        say(format_args!("patient     world axes are {}", axes.name()))?;
    }
    Ok(())
}

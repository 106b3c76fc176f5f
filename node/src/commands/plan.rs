//! `plan`: what of a volume fits into the memory of peers, before it is loaded; what of that a picture needs, and how long it
//! takes.

mod trial;

use super::{CommandResult, render::run_session, status};
use crate::{
    args::{MeshArgs, PlanArgs, QualityArg},
    brick_store::{Alone, BrickEdge, DirectoryStore},
    camera_choice::camera,
    device_choice::{self, Chosen, default_memory_bytes},
    picture_settings::PictureSettings,
    session::{DataSource, bytes_in_words},
    stop::Stop,
    terminal::{note, say},
    volume_file,
};
use brickmesh_actors::{
    data_set::BrickSource,
    plain_text::{counted, plain_text},
};
use brickmesh_shaders::DeviceError;
use brickmesh_topology::{
    BrickBytes, BrickGrid, VolumeDescription, VoxelType,
    balance::plan_rules::PlanRules,
    data::levels,
    mesh::{
        fit::{Fit, FitPeer, fit, needed_fit},
        keeper::Hello,
    },
    picture::level_choice::{level_for, settings_at},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// What is to be shown: the volume and its levels, finest first.
struct Planned {
    volumes: Vec<VolumeDescription>,
    brick_edge: u32,
    /// In device memory.
    voxel: VoxelType,
    /// What the triangles of a brick take in a device, at most.
    /// Memory that the triangles of a brick take, the mean and the most, bytes.
    triangle_bytes: [u64; 2],
    /// With so much memory one peer has larger bricks, all of them.
    memory_for_large: Option<u64>,
    /// The folder; a file is cut into the memory of the machine, beside devices that are not the processor.
    folder: Option<Arc<dyn BrickSource>>,
}

/// A peer that may hold bricks of it.
struct Peer {
    name: String,
    memory_bytes: u64,
    device: Option<Rc<Chosen>>,
    reads: bool,
}

/// One quality of it.
struct Row {
    level: usize,
    dims: [u32; 3],
    bricks: u32,
    /// What a copy takes, at most, where peers' devices differ.
    copy_bytes: u64,
    fit: Fit,
    picture: Option<PictureFit>,
}

/// What a picture needs of it.
struct PictureFit {
    needed: u32,
    /// Of the bricks that it needs, those that are held after a while, and those that are read for each picture.
    held: u64,
    read: u64,
    /// How long it takes, where that was tried.
    took: Option<Duration>,
}

pub(super) fn run(args: &PlanArgs, mut stop: Stop) -> CommandResult {
    let planned = planned(args)?;
    let level = planned.level(args)?;
    if args.time && args.memory.len() > 1 {
        return Err("--time is tried here: give one size of memory".into());
    }
    if args.time && planned.folder.is_none() {
        return Err("--time: a file has no bricks yet: import it, and plan with the folder".into());
    }
    let mut peers = peers(args, &mut stop)?;
    let redundancy = args
        .redundancy
        .unwrap_or(if peers.len() == 1 { 1 } else { 2 });
    let mut rows = planned.rows(args, &peers, redundancy)?;
    if !args.json {
        tell(&planned, &peers, &rows)?;
    }
    if let Some(row) = rows.get_mut(level).filter(|_| args.time) {
        // Those that render open them anew.
        peers.iter_mut().for_each(|p| p.device = None);
        foretell(args, &planned, row, &stop)?;
    }
    if args.json {
        let peers = peers.iter();
        let peers = peers.map(|p| json!({"name": p.name, "memory_bytes": p.memory_bytes}));
        let all = json!({
            "peers": peers.collect::<Vec<_>>(), "redundancy": redundancy,
            "levels": rows.iter().map(as_json).collect::<Vec<_>>(),
            "finest_held": rows.iter().find(|r| r.fit.copies > 0).map(|r| r.level),
        });
        say(serde_json::to_string_pretty(&all)?)?;
    } else if let Some(took) = rows[level].picture.as_ref().and_then(|p| p.took) {
        let (width, height) = args.picture.size;
        say(format_args!(
            "{:<11} a picture of {width} x {height} takes about {:.0} ms here",
            name(level),
            took.as_secs_f64() * 1000.0
        ))?;
    }
    Ok(())
}

fn name(level: usize) -> String {
    match level {
        0 => "exact".to_owned(),
        level => format!("level {level}"),
    }
}

/// Says it to people.
fn tell(planned: &Planned, peers: &[Peer], rows: &[Row]) -> std::io::Result<()> {
    let each = peers.iter();
    let each = each.map(|p| format!("{} {}", plain_text(&p.name), bytes_in_words(p.memory_bytes)));
    say(format_args!(
        "peers       {}: {}",
        peers.len(),
        each.collect::<Vec<_>>().join(", ")
    ))?;
    for row in rows {
        let [x, y, z] = row.dims;
        say(format_args!(
            "{:<11} {x} x {y} x {z}, {}, {} a copy: {}",
            name(row.level),
            counted(row.bricks, "brick"),
            bytes_in_words(row.copy_bytes),
            in_words(row, peers)
        ))?;
    }
    if planned.folder.is_none() {
        say(
            "A file is cut into this machine's memory first; of what is larger than that, `brickmesh import` makes a folder, with coarser levels.",
        )?;
    }
    say(
        "Each by itself; what a device needs beside bricks, and several that are open at a time, come on top.",
    )
}

/// What of a quality is held, for people.
fn in_words(row: &Row, peers: &[Peer]) -> String {
    let fit = &row.fit;
    match fit.copies {
        0 => {}
        1 => return "one copy of all of them".to_owned(),
        copies => return format!("{copies} copies of all of them"),
    }
    let largest = peers.iter().map(|p| p.memory_bytes).max().unwrap_or(0);
    let each = bytes_in_words(fit.memory_each_bytes);
    let all_with = match fit.more_peers {
        Some(more) => {
            let peers = if more == 1 { "peer" } else { "peers" };
            format!(
                "all with {more} more {peers} of {}, or {each} each",
                bytes_in_words(largest)
            )
        }
        None => format!("all with {each} each"),
    };
    if fit.missing > 0 {
        return format!("there is no room to read one; {all_with}");
    }
    let (held, read) = (fit.held, fit.read);
    match &row.picture {
        Some(PictureFit {
            needed, held, read, ..
        }) => format!(
            "not all of them; of the {needed} that this picture needs {held} held, {read} read for each; {all_with}"
        ),
        None => format!("{held} held, {read} read for each frame; {all_with}"),
    }
}

fn as_json(row: &Row) -> Value {
    let fit = &row.fit;
    json!({
        "level": row.level, "dims": row.dims, "bricks": row.bricks, "copy_bytes": row.copy_bytes,
        "copies": fit.copies, "held": fit.held, "read": fit.read, "missing": fit.missing,
        "more_peers": fit.more_peers, "memory_each_bytes": fit.memory_each_bytes,
        "picture": row.picture.as_ref().map(|p| json!({
            "needed": p.needed, "held": p.held, "read": p.read,
            "ms": p.took.map(|took| took.as_secs_f64() * 1000.0),
        })),
    })
}

impl Planned {
    /// A level as a data set of its own; 0 is the volume.
    fn source(&self, level: usize) -> Result<Option<Arc<dyn BrickSource>>, Box<dyn Error>> {
        Ok(match &self.folder {
            Some(folder) if level > 0 => Some(folder.level(level)?),
            folder => folder.clone(),
        })
    }

    /// The volume and its levels, as these peers have room for them.
    fn rows(
        &self,
        args: &PlanArgs,
        peers: &[Peer],
        redundancy: u32,
    ) -> Result<Vec<Row>, Box<dyn Error>> {
        let mut rows = Vec::new();
        for (level, volume) in self.volumes.iter().enumerate() {
            let grid = BrickGrid::new(volume.dims, self.brick_edge)?;
            let bricks = grid.brick_count();
            let peers: Vec<FitPeer> = (peers.iter())
                .map(|peer| peer.fit(grid.largest_stored_size(), self.voxel, self.triangle_bytes))
                .collect();
            let brick_bytes = peers.iter().map(|p| p.brick_bytes).max().unwrap_or(0);
            let mut fit = fit(bricks, &peers, redundancy);
            let for_large = self.memory_for_large.unwrap_or(fit.memory_each_bytes);
            fit.memory_each_bytes = fit.memory_each_bytes.min(for_large);
            rows.push(Row {
                level,
                dims: volume.dims,
                bricks,
                copy_bytes: brick_bytes.saturating_mul(bricks.into()),
                fit,
                picture: self.picture(args, level, &peers)?,
            });
        }
        Ok(rows)
    }

    /// What the picture needs of a level.
    fn picture(
        &self,
        args: &PlanArgs,
        level: usize,
        peers: &[FitPeer],
    ) -> Result<Option<PictureFit>, Box<dyn Error>> {
        let source = self.source(level).unwrap_or_else(|error| {
            note(format_args!("brickmesh: level {level}: {error}"));
            None
        });
        let Some((exact, source)) = self.folder.as_ref().zip(source) else {
            return Ok(None);
        };
        let (exact, manifest) = (exact.manifest(), source.manifest());
        let settings = PictureSettings::of(&args.picture, PlanRules::default(), exact)?.render;
        let settings = settings_at(&settings, exact.volume(), manifest.volume());
        let (width, height) = args.picture.size;
        let view = camera(&args.picture, exact)?.view(width, height)?;
        let needed = trial::needed(manifest, &view, &settings)?;
        let (held, read) = needed_fit(needed, manifest.grid().brick_count(), peers);
        Ok(Some(PictureFit {
            needed,
            held,
            read,
            took: None,
        }))
    }

    /// The level of `--quality`.
    fn level(&self, args: &PlanArgs) -> Result<usize, Box<dyn Error>> {
        let level = match args.picture.quality {
            QualityArg::Exact => 0,
            QualityArg::Level(level) => level.into(),
            QualityArg::Auto => {
                let Some(exact) = &self.folder else {
                    return Ok(0);
                };
                let (width, height) = args.picture.size;
                let view = camera(&args.picture, exact.manifest())?.view(width, height)?;
                let settings =
                    PictureSettings::of(&args.picture, PlanRules::default(), exact.manifest())?;
                level_for(&view, &self.volumes, &settings.render.clip)
            }
        };
        if level >= self.volumes.len() {
            let last = self.volumes.len() - 1;
            return Err(format!("--quality {level}: the coarsest level is {last}").into());
        }
        Ok(level)
    }
}

/// How long a picture of `--quality` takes: some are rendered.
fn foretell(args: &PlanArgs, planned: &Planned, row: &mut Row, stop: &Stop) -> CommandResult {
    let Some((folder, picture)) = planned.folder.as_ref().zip(row.picture.as_mut()) else {
        return Ok(());
    };
    let (camera, size) = (camera(&args.picture, folder.manifest())?, args.picture.size);
    let settings = PictureSettings::of(&args.picture, PlanRules::default(), folder.manifest())?;
    note("brickmesh: rendering up to four pictures");
    let mesh = MeshArgs {
        redundancy: args.redundancy,
        memory: args.memory.first().copied(),
        ..MeshArgs::here(args.device, args.peers)
    };
    let source = DataSource::Own(Arc::clone(folder));
    let took = run_session(source, &mesh, stop.clone(), async |session| {
        trial::pictures(&session, row.level, (&camera, size), &settings.render).await
    })?;
    picture.took = Some(took);
    Ok(())
}

impl PlanArgs {
    /// Peers of this process.
    fn peer_count(&self) -> usize {
        (self.peers as usize).max(self.memory.len())
    }

    /// Memory of one of them.
    fn memory_bytes(&self, peer: usize) -> u64 {
        let given = self.memory.get(peer).or(self.memory.first());
        given
            .copied()
            .unwrap_or_else(|| default_memory_bytes(self.peers))
    }
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
            voxel: manifest.device_voxel(),
            triangle_bytes: {
                let typical = BrickBytes::default();
                let voxels = typical.largest(manifest) - manifest.triangle_memory_max();
                [
                    typical.typical(manifest) - voxels,
                    manifest.triangle_memory_max(),
                ]
            },
            memory_for_large: None,
            folder: Some(Arc::new(store)),
        });
    }
    let file = volume_file::open_with_fill(path, args.source.fill)?;
    let volume = file.description;
    let alone = Alone::new(args.memory.first().copied(), args.device);
    let alone = (args.peer_count() == 1 && !args.mesh).then_some(alone);
    let edge = match alone {
        Some(peer) => BrickEdge::alone(args.brick, peer),
        None => BrickEdge::shared(args.brick),
    };
    let for_large = alone.filter(|_| args.brick.is_none());
    Ok(Planned {
        memory_for_large: for_large.map(|peer| peer.memory_for_large(&volume)),
        brick_edge: edge.of(&volume),
        voxel: volume.device_voxel(),
        triangle_bytes: [0; 2],
        volumes: vec![volume],
        folder: None,
    })
}

/// The peers.
fn peers(args: &PlanArgs, stop: &mut Stop) -> Result<Vec<Peer>, Box<dyn Error>> {
    if args.mesh {
        let time = Duration::from_secs_f64(args.seconds);
        let (status, refused) = status::look(&args.network, time, stop)?;
        let holding = status.peers.values().filter(|h| h.memory_bytes > 0);
        let other = |h: &Hello| Peer {
            name: h.name.clone(),
            memory_bytes: h.memory_bytes,
            // What their devices need beside voxels is not known before they open it.
            device: None,
            reads: false,
        };
        let mut peers: Vec<Peer> = holding.map(other).collect();
        if peers.is_empty() {
            let why = refused.unwrap_or_else(|| "start some with `brickmesh peer`".to_owned());
            return Err(format!("no peer was found within {} s: {why}", args.seconds).into());
        }
        // Who opens the volume reads; who else has its folder is not known before.
        let devices = devices(args, &[args.memory_bytes(0)])?;
        peers.push(Peer::here(
            "this machine".to_owned(),
            args.memory_bytes(0),
            &devices,
            args,
        ));
        return Ok(peers);
    }
    if args.network.is_given() {
        return Err("--join, --listen, --key and --identity belong to --mesh".into());
    }
    let count = args.peer_count();
    if args.memory.len() > 1 && args.peers > 1 && args.memory.len() != args.peers as usize {
        return Err(format!(
            "--memory has {} sizes for {} peers: give one for all, or one each",
            args.memory.len(),
            args.peers
        )
        .into());
    }
    let memories: Vec<u64> = (0..count).map(|n| args.memory_bytes(n)).collect();
    let devices = devices(args, &memories)?;
    let peer = |n: usize| Peer::here(format!("peer-{:02}", n + 1), memories[n], &devices, args);
    Ok((0..count).map(peer).collect())
}

/// This machine's device, once for each of these sizes of memory; it tells what bricks take as long as it is open.
fn devices(args: &PlanArgs, memories: &[u64]) -> Result<BTreeMap<u64, Rc<Chosen>>, DeviceError> {
    let memories: BTreeSet<u64> = memories.iter().copied().collect();
    let open = |memory| {
        let chosen = device_choice::choose(args.device, args.peers, memory)?;
        // Several sizes are those of other machines.
        let asked = (args.memory.len() == 1).then_some(memory);
        if let Some(less) = device_choice::less_than_asked(asked, chosen.device.info()) {
            note(format_args!("brickmesh: {less}"));
        }
        Ok((memory, Rc::new(chosen)))
    };
    memories.into_iter().map(open).collect()
}

impl Peer {
    /// One of this machine, which has the volume.
    fn here(
        name: String,
        memory_bytes: u64,
        devices: &BTreeMap<u64, Rc<Chosen>>,
        args: &PlanArgs,
    ) -> Self {
        let device = devices.get(&memory_bytes).cloned();
        // Where several sizes are given, they are those of other machines.
        let here = device.as_ref().filter(|_| args.memory.len() <= 1);
        let most = here.map_or(u64::MAX, |d| d.device.info().memory_bytes);
        Self {
            name,
            memory_bytes: memory_bytes.min(most),
            device,
            reads: true,
        }
    }

    /// With what its device needs for a brick of so many voxels on each axis, and for so many bytes of triangles.
    fn fit(&self, size: [u32; 3], voxel: VoxelType, triangle_bytes: [u64; 2]) -> FitPeer {
        let voxels = match &self.device {
            Some(device) => device.device.info().brick_bytes.of(size, voxel),
            None => BrickBytes::default().of(size, voxel),
        };
        FitPeer {
            memory_bytes: self.memory_bytes,
            brick_bytes: voxels + triangle_bytes[0],
            largest_bytes: voxels + triangle_bytes[1],
            reads: self.reads,
        }
    }
}

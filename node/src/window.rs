//! The window of a viewer peer: shows the mesh's frames, and edits the scene as hands (`hands`, `keys`)
//! and panels (`panels`) say.
//!
//! Threads: the window's event loop needs the main thread; the peer's actix system runs on another.
//! Between them: what is wanted next (only the latest counts) and a slot for the latest frame, so
//! neither waits for the other.

mod app;
mod canvas;
mod following;
mod hands;
mod keys;
mod missing;
mod panels;
mod panes;
mod peer_thread;
mod recent;
mod scaling;
mod scene;
mod stage;
mod ui;

use self::{
    app::App,
    canvas::Canvas,
    panes::{PANES, Pane},
    peer_thread::{Viewer, start_peer},
    scene::{Scene, Seen},
};
use crate::{
    args::ViewArgs,
    demo_volume::demo_source,
    open_source::{check_network, open_source},
    overlay::Overlay,
    scene_file,
    session::DataSource,
    stop::Stop,
    value_report::Histogram,
};
use brickmesh_actors::requester::FrameTrace;
use brickmesh_topology::{Camera, Manifest, PeerId, VoxelBox, picture::quality::Choice};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::watch;
use winit::event_loop::EventLoop;

/// What the window wants.
#[derive(Clone, Debug, Default, PartialEq)]
struct Wanted {
    /// One for each pane.
    pictures: Vec<Wish>,
    /// The value of a voxel, of the data set that is open.
    voxel: Option<[u32; 3]>,
    /// Another volume.
    volume: Option<AskedVolume>,
    /// A picture as a file.
    picture_file: Option<PictureFile>,
    /// The camera of the viewer with this name.
    follow: Option<String>,
}

/// A picture that is to be a file.
#[derive(Clone, Debug, PartialEq)]
struct PictureFile {
    /// Counts those that were asked for, from 1.
    number: u32,
    /// [`Opened::number`] of the data set.
    opened: u32,
    path: PathBuf,
    size: (u32, u32),
    seen: Seen,
    overlay: Overlay,
    is_transparent: bool,
}

/// A volume that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AskedVolume {
    /// Counts those that were asked for, from 1.
    number: u32,
    path: PathBuf,
}

/// A picture that is wanted.
#[derive(Clone, Debug, PartialEq)]
struct Wish {
    /// [`Opened::number`] of the data set.
    opened: u32,
    pane: Pane,
    seen: Seen,
    width: u32,
    height: u32,
    /// A coarser picture does, while the scene is edited.
    moving: bool,
    /// It is to be told what each peer did when.
    is_traced: bool,
}

/// A data set that is open.
#[derive(Debug)]
struct Opened {
    /// Counts those that were opened.
    number: u32,
    /// The one asked for as [`AskedVolume::number`]; 0: by the command line.
    asked: u32,
    /// File, where it is one.
    path: Option<PathBuf>,
    manifest: Arc<Manifest>,
    histogram: Histogram,
    /// As it is seen at first.
    scene: Scene,
}

/// A picture for the window.
#[derive(Debug)]
struct Shown {
    canvas: Canvas,
    /// Of the last whole picture; `None`: there was none yet.
    report: Option<FrameReport>,
}

/// How a picture came about.
#[derive(Clone, Debug)]
struct FrameReport {
    /// From where it is seen.
    camera: Camera,
    took: Duration,
    size: [u32; 2],
    /// Of the volume.
    level: usize,
    choice: Choice,
    /// Deriving the plan, and blending, summed over all who did.
    schedule_micros: u64,
    composite_micros: u64,
    /// Bytes of pixels that went from peer to peer.
    bytes_sent: u64,
    jobs: BTreeMap<PeerId, JobsDone>,
    /// What was rendered, in voxels, and by whom.
    boxes: Vec<(VoxelBox, PeerId)>,
    trace: Option<FrameTrace>,
}

/// What a peer did for a picture.
#[derive(Clone, Copy, Debug, Default)]
struct JobsDone {
    count: u32,
    /// Of them, those that were planned for others.
    taken: u32,
    micros: u64,
    /// On a device of speed 1.
    expected_micros: u64,
}

/// Who is in the mesh.
#[derive(Clone, Debug, Default, PartialEq)]
struct MeshReport {
    peers: Vec<PeerRow>,
    /// Bricks that nobody holds.
    missing: u32,
    /// Copies that every brick has at least.
    copies_min: u32,
    /// Bricks that are read for each frame.
    read: u32,
    /// Names of peers that were there and are not any more.
    gone: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct PeerRow {
    id: PeerId,
    name: String,
    device: String,
    /// It has none at present; `device` says why.
    is_device_lost: bool,
    bricks: u32,
    /// That it gives to bricks.
    memory_bytes: u64,
    /// Beside the mean of all who rendered its last frame.
    speed: Option<f64>,
    /// It does not answer, or late.
    is_silent: bool,
    /// It is another viewer.
    is_viewer: bool,
}

/// What the peer's thread tells the window.
#[derive(Debug)]
enum Told {
    Opened(Box<Opened>),
    /// What was asked for as [`AskedVolume::number`] cannot be opened, and why.
    NotOpened(u32, String),
    /// A new frame is in the slot.
    Frame,
    Mesh(MeshReport),
    Voxel(VoxelValue),
    /// The viewer that is followed looks from there.
    Viewpoint(Camera),
    /// Why none is followed, for now.
    NotFollowed(String),
    /// A picture was written to this file, or why not.
    Saved(Result<PathBuf, String>),
    /// What is wrong with what is shown, for the title; nothing: all is well.
    Trouble(Option<String>),
    /// The peer has ended.
    Ended(Option<String>),
}

/// A voxel, and its value; nothing, where there is no data; or why it cannot be had.
type VoxelValue = ([u32; 3], Result<Option<f64>, String>);

/// The latest picture of each pane.
type Slot = Arc<Mutex<[Option<Shown>; PANES]>>;

/// Runs `view` until the window is closed.
///
/// # Errors
/// Where the volume cannot be opened, there is no display, or the mesh fails.
pub fn view(args: &ViewArgs, stop: Stop) -> Result<(), Box<dyn std::error::Error>> {
    let mut args = args.clone();
    if let Some(source) = &args.source {
        args.picture = scene_file::picture_args(&source.volume, &args.picture)?;
    }
    args.mesh.is_viewer = true;
    args.mesh.name.clone_from(&args.name);
    if args.watch {
        // Too little for a brick.
        args.mesh.memory = Some(1);
    }
    let source = match args.source.clone() {
        Some(volume) => open_source(&volume, &args.surfaces, &mut args.mesh, &stop.goes_on())?,
        None if !args.surfaces.surface.is_empty() => {
            return Err(
                "--surface stands in a volume: name that first, or a triangle mesh in its place"
                    .into(),
            );
        }
        None => {
            check_network(&args.mesh)?;
            DataSource::Own(demo_source()?)
        }
    };
    let event_loop = EventLoop::<Told>::with_user_event().build().map_err(|e| {
        let text = e.to_string();
        // The library says where in its own code that was.
        let why = text
            .split_once(": ")
            .filter(|(at, _)| at.starts_with("os error at"));
        let why = why.map_or(text.as_str(), |(_, why)| why);
        format!(
            "no window can be opened ({why}); on a machine without a display use `brickmesh render`"
        )
    })?;
    let slot = Slot::default();
    let proxy = event_loop.create_proxy();
    let (want, wanted) = watch::channel(Wanted::default());
    let display = event_loop.owned_display_handle();
    let mut app = App::new(want, Arc::clone(&slot), &args, display);
    let viewer = Viewer {
        args,
        stop,
        slot,
        proxy: proxy.clone(),
        wanted,
    };
    let peer = start_peer(viewer.run(source), proxy)?;
    let ran = event_loop.run_app(&mut app);
    // The peer's thread hears that nobody wants frames any more, says goodbye and ends.
    let failed = app.failed.take();
    drop(app);
    if peer.join().is_err() {
        return Err("the peer's thread has failed".into());
    }
    ran?;
    failed.map_or(Ok(()), |why| Err(why.into()))
}

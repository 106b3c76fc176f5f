//! The command line: what there is to say, and what it means.

pub(crate) mod values;

pub(crate) use values::placement_name;

pub use values::{parse_camera, parse_orbit};

use crate::network::{MeshKey, MeshKeyError};
use crate::overlay::{Note, Overlay};
use brickmesh_topology::{
    balance::{
        image_division::TILE_EDGE_MIN,
        partition::PartitionMethod,
        plan_rules::{Division, PlanRules, Strategy, TileSharing},
        prediction::Prediction,
        schedule::Assignment,
    },
    picture::{
        camera::Projection,
        isosurface::Isosurface,
        render_settings::{Light, Mode, Paint},
        surface_rays::{DEPTH_MAX, RAYS_MAX},
        tiles::TILE_EDGE_MAX,
    },
};
use clap::builder::{NonEmptyStringValueParser, PathBufValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::{net::SocketAddr, ops::RangeInclusive, path::PathBuf};
pub use values::SurfaceArg;
use values::{
    checked_volume, parse_address, parse_bytes, parse_clip, parse_clip_plane, parse_color,
    parse_device, parse_direction, parse_exposure, parse_finite, parse_gamma, parse_gradients,
    parse_isosurface, parse_keep, parse_light, parse_light_direction, parse_listen_address,
    parse_milliseconds, parse_mirrored_part, parse_name, parse_note, parse_overlay, parse_prices,
    parse_quality, parse_rate, parse_reach, parse_seconds, parse_size, parse_slab,
    parse_slab_slices, parse_slice, parse_socket, parse_speed, parse_step, parse_surface,
    parse_transfer_range, placement, placement_or_auto, switch,
};

/// One volume renderer out of all machines in the room.
#[derive(Clone, Debug, Parser)]
#[command(name = "brickmesh", version, max_term_width = 100)]
pub struct Cli {
    /// More in the log: -v what happens, -vv every message, -vvv every job. RUST_LOG overrides
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// A small mesh in this process renders a volume that is built in: no files, no network, no GPU needed
    Demo(DemoArgs),
    /// Render pictures of a volume without a window
    Render(Box<RenderArgs>),
    /// Run a headless peer until it is told to stop
    Peer(PeerArgs),
    /// Show a volume in a window that turns with the mouse
    View(Box<ViewArgs>),
    /// Cut a volume into a .brickmesh folder, in bounded memory
    Import(ImportArgs),
    /// Say what a file or .brickmesh folder holds
    Info(InfoArgs),
    /// Say which of so many machines would get which part of a volume, by each way to cut it
    Partition(PartitionArgs),
    /// Tell what a frame would take by each placement of a volume's bricks on machines, and by how many copies
    Placements(PlacementsArgs),
    /// Say what of a volume fits into the memory of peers, before it is loaded: how many copies, or how much is read for each frame
    Plan(Box<PlanArgs>),
    /// Say what this machine can render on, and which device is taken
    Devices(JsonArgs),
    /// List the transfer functions that have names, and the values that they mean
    Presets(JsonArgs),
    /// Say who is in the mesh and what each holds
    Status(StatusArgs),
    /// Decisions and experiments on a virtual mesh: JSON in, JSON out
    Sim(SimArgs),
}

impl Command {
    /// How the command finds the mesh, if it goes into one.
    #[must_use]
    pub fn network(&self) -> Option<&NetworkArgs> {
        match self {
            Self::Peer(args) => Some(&args.network),
            Self::Status(args) => Some(&args.network),
            Self::Render(args) => args.mesh.mesh.then_some(&args.mesh.network),
            Self::View(args) => args.mesh.mesh.then_some(&args.mesh.network),
            Self::Plan(args) => args.mesh.then_some(&args.network),
            Self::Demo(_)
            | Self::Import(_)
            | Self::Info(_)
            | Self::Partition(_)
            | Self::Placements(_)
            | Self::Devices(_)
            | Self::Presets(_)
            | Self::Sim(_) => None,
        }
    }
}

/// `demo`
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Picture to write
    #[arg(long, default_value = "brickmesh-demo.png")]
    pub out: PathBuf,
    /// Peers in this process
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub peers: u32,
    /// Device of every peer
    #[arg(long, default_value = "auto", value_parser = parse_device)]
    pub device: DeviceChoice,
}

/// A volume; shared by all that read one.
#[derive(Clone, Debug, Args)]
pub struct VolumeArgs {
    /// Volume: .nrrd .nhdr .mha .mhd .nii .nii.gz .vti name_WxHxD_type.raw[.gz], or a .brickmesh folder; or a triangle mesh, .ply .stl .obj .gltf .glb, or a scene, .json: a volume, meshes in their places, isovalues, light (`render`, `view`, `import`)
    #[arg(value_parser = PathBufValueParser::new().try_map(checked_volume))]
    pub volume: PathBuf,
    /// Value that stands for no data, which is transparent; NaN and infinities always do
    #[arg(long, value_name = "V", value_parser = parse_finite, allow_hyphen_values = true)]
    pub fill: Option<f64>,
}

/// Triangle meshes that stand in a volume; shared by `render`, `view` and `import`.
#[derive(Clone, Debug, Default, Args)]
pub struct SurfaceArgs {
    /// Triangle mesh (.ply .stl .obj .gltf .glb) in the volume's world, and if need be colour (0 to 1 each) and opacity; may be repeated; seen in modes dvr and iso
    #[arg(long, value_name = "FILE[,R,G,B[,OPACITY]]", value_parser = parse_surface)]
    pub surface: Vec<SurfaceArg>,
}

/// What a picture shows; shared by `render` and `view`.
#[derive(Clone, Debug, Args)]
pub struct PictureArgs {
    /// Picture size in pixels
    #[arg(long, default_value = "512x512", value_parser = parse_size, allow_hyphen_values = true)]
    pub size: (u32, u32),
    /// A session that the viewer has saved, of this volume: camera, transfer function and all else that is seen
    #[arg(long, value_name = "FILE", conflicts_with_all = ["camera", "orbit", "projection", "transfer", "transfer_range", "step", "shade", "light", "light_from", "gradient_opacity", "transfer_2d", "preintegrate", "iso", "shadows", "ao", "ao_reach", "reflect", "reflect_part", "paint", "clip", "clip_plane", "slice", "slab", "jitter", "mode", "background", "background_top", "exposure", "gamma"])]
    pub session: Option<PathBuf>,
    /// Camera: "eye=x,y,z at=x,y,z up=x,y,z fov=degrees" in world units; what is left out is as by default [default: what can be seen fills the picture; patients upright, from the front]
    #[arg(long, conflicts_with = "orbit", value_parser = parse_camera)]
    pub camera: Option<CameraArg>,
    /// Camera around the volume's centre: azimuth,elevation or azimuth,elevation,zoom, in degrees
    #[arg(long, value_parser = parse_orbit, allow_hyphen_values = true)]
    pub orbit: Option<Orbit>,
    /// How rays go [default: perspective; parallel before a slice]
    #[arg(long, value_enum)]
    pub projection: Option<Projection>,
    /// Transfer function: a file (brickmesh JSON or a ParaView colour-map preset), or a name that `brickmesh presets` lists [default: chosen by the values]
    #[arg(long, value_name = "FILE|NAME")]
    pub transfer: Option<PathBuf>,
    /// What the transfer function is stretched over: data, LO,HI (data values), or preset: it is taken as it is [default: names as `brickmesh presets` says; files from 0 to 1: data, others: preset]
    #[arg(long, value_name = "RANGE", value_parser = parse_transfer_range, allow_hyphen_values = true)]
    pub transfer_range: Option<TransferRange>,
    /// How fine the volume is seen: exact, auto (of an imported volume the coarsest level whose voxels are no wider than a pixel), or the number of a level, of which each has half as many voxels on each axis as the one before; 0 is exact. Voxels of a level are means: maxima and steep gradients are less there
    #[arg(long, value_name = "exact|auto|LEVEL", default_value = "exact", value_parser = parse_quality)]
    pub quality: QualityArg,
    /// Sample distance in multiples of the smallest spacing; of a level, of its own
    #[arg(long, default_value_t = 0.5, value_parser = parse_step, allow_hyphen_values = true)]
    pub step: f64,
    /// Headlight shading [default: on; off where an axis has one voxel]
    #[arg(long, value_parser = switch(), value_name = "ON|OFF")]
    pub shade: Option<bool>,
    /// How surfaces answer the light: parts of ambient, diffuse and specular light, 0 to 1, and the exponent of the highlight, 1 to 128 [default: 0.2,0.7,0.2,10]
    #[arg(long, value_name = "A,D,S,E", value_parser = parse_light, allow_hyphen_values = true)]
    pub light: Option<Light>,
    /// Where the light is, far away: to the right, up, towards the viewer [default: at the eye]
    #[arg(long, value_name = "RIGHT,UP,NEARER", value_parser = parse_light_direction, allow_hyphen_values = true)]
    pub light_from: Option<[f32; 3]>,
    /// Opacity by gradient: none where the values change by no more than LO from voxel to voxel, all from HI on
    #[arg(long, value_name = "LO,HI", value_parser = parse_gradients, allow_hyphen_values = true)]
    pub gradient_opacity: Option<[f64; 2]>,
    /// 2D transfer function: a JSON list of shapes over values and gradient lengths, in place of --transfer in mode dvr
    #[arg(long, value_name = "FILE")]
    pub transfer_2d: Option<PathBuf>,
    /// Let each sample stand for all values around it on its ray: thin structures at long steps, for more time a sample; in mode dvr
    #[arg(long, action = ArgAction::Set, value_parser = switch(), default_value = "off", value_name = "ON|OFF")]
    pub preintegrate: bool,
    /// Isosurface: a data value, and if need be colour (0 to 1 each) and opacity; may be repeated, up to eight times; in modes dvr and iso
    #[arg(long, value_name = "V[,R,G,B[,OPACITY]]", value_parser = parse_isosurface, allow_hyphen_values = true)]
    pub iso: Vec<Isosurface>,
    /// Shadows on surfaces: what is between them and a light from aside (--light-from) dims it [default: off, or as a scene says]
    #[arg(long, action = ArgAction::Set, value_parser = switch(), value_name = "ON|OFF")]
    pub shadows: Option<bool>,
    /// Ambient occlusion of surfaces, by so many rays of each point, 1 to 256: what is near dims the ambient part of the light (--light)
    #[arg(long, value_name = "RAYS", allow_hyphen_values = true, value_parser = clap::value_parser!(u16).range(1..=i64::from(RAYS_MAX)))]
    pub ao: Option<u16>,
    /// How far these rays reach, world units [default: a tenth of the volume's diagonal]
    #[arg(long, value_name = "D", requires = "ao", value_parser = parse_reach, allow_hyphen_values = true)]
    pub ao_reach: Option<f64>,
    /// Reflections of surfaces, so many one after the other, 1 to 8: a surface shows what is in front of it as a mirror does, by a part
    #[arg(long, value_name = "DEPTH", allow_hyphen_values = true, value_parser = clap::value_parser!(u8).range(1..=i64::from(DEPTH_MAX)))]
    pub reflect: Option<u8>,
    /// The part that is mirrored where a surface is seen straight on, above 0, up to 1; beside that it is more [default: 0.2]
    #[arg(long, value_name = "PART", requires = "reflect", value_parser = parse_mirrored_part, allow_hyphen_values = true)]
    pub reflect_part: Option<f32>,
    /// Colours say where the picture comes from: who rendered what, who has what, which brick it is, or what another peer rendered in the frame before (red); in modes dvr, iso and additive
    #[arg(long, value_enum, value_name = "WHAT")]
    pub paint: Option<Paint>,
    /// Show only what is inside a box, in voxels: from 0 to the size less 1 is all of an axis, of one voxel -0.5 to 0.5
    #[arg(long, value_name = "X0,X1,Y0,Y1,Z0,Z1", value_parser = parse_clip, allow_hyphen_values = true)]
    pub clip: Option<[[f64; 3]; 2]>,
    /// Show only what is in front of a plane: points p of the world with N · p ≥ D; may be repeated, up to six times
    #[arg(long, value_name = "NX,NY,NZ,D", value_parser = parse_clip_plane, allow_hyphen_values = true)]
    pub clip_plane: Vec<[f64; 4]>,
    /// The plane of modes slice and slice-mean: x=I, y=I or z=I across an axis of the volume at voxel I, or the points p of the world with N · p = D [default: the middle across z]
    #[arg(long, value_name = "AXIS=I|NX,NY,NZ,D", value_parser = parse_slice, allow_hyphen_values = true)]
    pub slice: Option<SliceArg>,
    /// Thickness of the slab around the plane, in world units: its greatest value is seen, or the mean in mode slice-mean
    #[arg(long, value_name = "T", value_parser = parse_slab, allow_hyphen_values = true)]
    pub slab: Option<f64>,
    /// Move the samples of each pixel by another part of a step: fine grain in place of rings
    #[arg(long, action = ArgAction::Set, value_parser = switch(), default_value = "on", value_name = "ON|OFF")]
    pub jitter: bool,
    /// How samples become a pixel [default: dvr; slice with --slice or --slab]
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// Background colour, 0 to 1 each
    #[arg(long, default_value = "0,0,0", value_parser = parse_color)]
    pub background: [f32; 3],
    /// Background colour at the top; it goes over into --background at the bottom
    #[arg(long, value_name = "R,G,B", value_parser = parse_color)]
    pub background_top: Option<[f32; 3]>,
    /// What colours are multiplied by, 0.01 to 100
    #[arg(long, value_name = "E", default_value_t = 1.0, value_parser = parse_exposure, allow_hyphen_values = true)]
    pub exposure: f32,
    /// Colours are raised to one over this after that, 0.1 to 10
    #[arg(long, value_name = "G", default_value_t = 1.0, value_parser = parse_gamma, allow_hyphen_values = true)]
    pub gamma: f32,
    /// What is drawn over the picture: a list of box, axes, scale and legend, or all, or none [default: none; what the session has]
    #[arg(long, value_name = "LIST", value_parser = parse_overlay)]
    pub overlay: Option<Overlay>,
    /// Text over the picture, at a place in the world; may be repeated
    #[arg(long, value_name = "X,Y,Z:TEXT", value_parser = parse_note, allow_hyphen_values = true)]
    pub note: Vec<Note>,
}

impl PictureArgs {
    /// Whether surfaces keep the light from each other.
    #[must_use]
    pub fn has_shadows(&self) -> bool {
        self.shadows == Some(true)
    }

    /// Whether rays are to go on from surfaces.
    #[must_use]
    pub fn sends_rays(&self) -> bool {
        self.has_shadows() || self.ao.is_some() || self.reflect.is_some()
    }

    /// How samples become a pixel.
    #[must_use]
    pub fn mode(&self) -> Mode {
        let has_slice = self.slice.is_some() || self.slab.is_some();
        let default = if has_slice { Mode::Slice } else { Mode::Dvr };
        self.mode.unwrap_or(default)
    }
}

/// How fine a volume is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QualityArg {
    /// As fine as it is.
    Exact,
    /// As fine as the picture can show.
    Auto,
    /// At this level.
    Level(u8),
}

/// How bricks are placed at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementArg {
    /// By this method; `None`: scattered.
    Method(Option<PartitionMethod>),
    /// By the one that frames are expected to take least by on this mesh.
    Auto,
}

/// Prices of brick grouping, all in the same unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostArg {
    /// Rendering a brick.
    pub render: f64,
    /// Blending two images of a machine.
    pub local: f64,
    /// Sending an image, or the first of a machine.
    pub send: f64,
    /// Sending a further one, where that is another price.
    pub further: Option<f64>,
}

/// A plane of `--slice`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SliceArg {
    /// Across an axis of the grid, at a place in voxels.
    Axis(usize, f64),
    /// A normal and a distance in the world.
    Plane([f64; 4]),
}

/// How a peer gets bricks for a picture that it does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SharingArg {
    /// As objects, which are never slower
    #[default]
    Auto,
    /// Jobs wait until their bricks are loaded; others are rendered meanwhile
    Object,
    /// Jobs read bricks that come then, page by page (Linux userfaultfd; CPU device)
    Page,
    /// Nothing from others: it renders what it holds, or reads from its own disk
    Off,
}

/// Who renders; shared by `render` and `view`.
#[derive(Clone, Debug, Args)]
pub struct MeshArgs {
    /// Device of every peer of this process: auto, cpu, vulkan or vulkan:N
    #[arg(long, default_value = "auto", value_parser = parse_device)]
    pub device: DeviceChoice,
    /// Peers in this process
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub peers: u32,
    /// Render with the peers that this machine finds
    #[arg(long, conflicts_with = "peers")]
    pub mesh: bool,
    /// With --mesh: wait until this many other peers are there
    #[arg(long, default_value_t = 1, requires = "mesh")]
    pub wait_peers: u32,
    /// Copies of each brick in the mesh [default: 2, or 1 with one peer]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub redundancy: Option<u32>,
    /// Edge of a brick in voxels [default: 256 with one peer that has the memory for all, else as import]
    #[arg(long)]
    pub brick: Option<u32>,
    /// Read bricks out of the volume's file when they are needed, and keep no copy: for uncompressed raw, NRRD, MetaImage and NIfTI files, also larger than all memory
    #[arg(long)]
    pub in_place: bool,
    /// Which peers hold which bricks at first: redundant, scattered; or parted by grid, slabs-equal, slabs-min-max, slabs-least-squares or kd-tree, where there is memory for few copies; auto: whichever frames are expected to take least by [default: what the .brickmesh folder says, else redundant]
    #[arg(long, value_name = "METHOD", value_parser = placement_or_auto())]
    pub placement: Option<PlacementArg>,
    /// Memory that the bricks of each peer of this process may take: bytes, or 512M, 4G [default: half of what is free]
    #[arg(long, value_parser = parse_bytes, allow_hyphen_values = true)]
    pub memory: Option<u64>,
    /// How each peer of this process gets bricks for a picture that it does not hold
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    pub sharing: SharingArg,
    /// Of --memory, what bricks may take at most that are read or fetched for pictures and not held, though never less than the two largest take [default: what is left beside the copies that are held]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, allow_hyphen_values = true)]
    pub cache: Option<u64>,
    /// End with an error where not every brick can be shown, rather than show what there is
    #[arg(long)]
    pub whole: bool,
    /// A viewer looks at voxels, beside pictures: one peer alone keeps its bricks in host memory, too.
    #[arg(skip)]
    pub is_viewer: bool,
    /// Name for people, with --mesh; `None`: this machine's.
    #[arg(skip)]
    pub name: Option<String>,
    #[command(flatten)]
    /// How to find others.
    pub network: NetworkArgs,
    #[command(flatten)]
    /// How frames are planned.
    pub rules: RulesArgs,
}

impl MeshArgs {
    /// So many peers of this process alone, and everything else as by default.
    #[must_use]
    pub fn here(device: DeviceChoice, peers: u32) -> Self {
        Self {
            device,
            peers,
            mesh: false,
            wait_peers: 0,
            redundancy: None,
            brick: None,
            in_place: false,
            placement: None,
            memory: None,
            sharing: SharingArg::Auto,
            cache: None,
            whole: false,
            is_viewer: false,
            name: None,
            network: NetworkArgs::default(),
            rules: RulesArgs::default(),
        }
    }
}

/// What of a frame is divided among peers, and how all stages of its plan are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StrategyArg {
    /// The volume: each peer renders what it holds, and parts of pictures are blended
    #[default]
    #[value(alias = "refined")]
    SortLast,
    /// The same as Frey and Ertl 2011 describe it
    #[value(name = "frey-ertl-2011")]
    FreyErtl2011,
    /// The picture: each peer renders its tiles of it, and fetches the bricks that it lacks
    Image,
    /// Frame by frame whichever of sort-last and image is expected to take less, by what rays, bricks that are fetched, and pixels took
    Auto,
}

/// How frames are planned.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct RulesArgs {
    /// What of a frame is divided among peers
    /// [default: sort-last; image with --shadows, --ao or --reflect, which need it]
    #[arg(long, value_enum)]
    pub strategy: Option<StrategyArg>,
    /// Edge of a tile where the picture is divided, 8 to 2048 pixels [default: 32 to 256, by the number of peers]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(i64::from(TILE_EDGE_MIN)..=i64::from(TILE_EDGE_MAX)))]
    pub tile: Option<u32>,
    /// Who renders which tile where the picture is divided [default: planned]
    #[arg(long, value_enum)]
    pub tiles: Option<TileSharing>,
    /// Another strategy to cut bricks into jobs
    #[arg(long, value_enum, value_name = "STRATEGY")]
    pub decompose: Option<Strategy>,
    /// How jobs are given to peers [default: by the strategy]
    #[arg(long, value_enum)]
    pub assign: Option<Assignment>,
    /// Another strategy to give tiles to peers; `refined` lets a peer blend neighbours in depth before it sends them
    #[arg(long, value_enum, value_name = "STRATEGY")]
    pub composite: Option<Strategy>,
    /// Shortest job that a cut may make, milliseconds on a device of speed 1 [default: 5]
    #[arg(long, value_parser = parse_milliseconds, value_name = "MS", allow_hyphen_values = true)]
    pub min_job: Option<f64>,
    /// How a job's cost follows from the last frame [default: by the strategy]
    #[arg(long, value_enum)]
    pub prediction: Option<Prediction>,
    /// Peers that are done take jobs from others [default: by the strategy]
    #[arg(long, value_parser = switch(), value_name = "ON|OFF")]
    pub steal: Option<bool>,
}

impl RulesArgs {
    /// The rules that every peer of a frame follows, in which rays go on from surfaces or not.
    ///
    /// # Errors
    /// What does not go together.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to a minute"
    )]
    pub fn rules(&self, sends_rays: bool) -> Result<PlanRules, String> {
        let strategy = match self.strategy {
            Some(StrategyArg::SortLast | StrategyArg::FreyErtl2011) if sends_rays => {
                return Err(
                    "--shadows, --ao and --reflect divide the picture: leave --strategy out, or take image or auto"
                        .to_owned(),
                );
            }
            None | Some(StrategyArg::Auto) if sends_rays => StrategyArg::Image,
            given => given.unwrap_or(StrategyArg::SortLast),
        };
        let all = PlanRules::all(match strategy {
            StrategyArg::FreyErtl2011 => Strategy::FreyErtl2011,
            StrategyArg::SortLast | StrategyArg::Image | StrategyArg::Auto => Strategy::Refined,
        });
        let gives_jobs = self.assign.is_some() || self.composite.is_some();
        if strategy == StrategyArg::Image && gives_jobs {
            return Err("--strategy image gives tiles to peers by their cost: --assign and --composite say nothing there; leave them out".to_owned());
        }
        let division = match (strategy, self.tile) {
            (StrategyArg::Image, tile) => Division::Image { tile },
            (StrategyArg::Auto, tile) => Division::Auto { tile },
            (_, None) => Division::SortLast,
            (_, Some(_)) => {
                return Err(
                    "--tile cuts pictures: give --strategy image or auto with it".to_owned(),
                );
            }
        };
        let tiles = self.tiles.unwrap_or_default();
        let steal = self.steal.unwrap_or(all.steal);
        if self.tiles.is_some() && division == Division::SortLast {
            return Err(
                "--tiles is for pictures that are divided: give --strategy image or auto with it"
                    .to_owned(),
            );
        }
        if tiles != TileSharing::Planned && !steal {
            return Err("--tiles steal and demand need --steal on".to_owned());
        }
        Ok(PlanRules {
            division,
            tile_sharing: tiles,
            decompose: self.decompose.unwrap_or(all.decompose),
            min_job_micros: (self.min_job).map_or(all.min_job_micros, |ms| (ms * 1000.0) as u64),
            prediction: self.prediction.unwrap_or(all.prediction),
            assign: self.assign.unwrap_or(all.assign),
            composite: self.composite.unwrap_or(all.composite),
            steal,
            reuse: all.reuse,
        })
    }
}

/// How to find other peers.
#[derive(Clone, Debug, Default, Args)]
pub struct NetworkArgs {
    /// Address of a peer to join: as it prints it, or HOST:PORT; may be repeated. Not needed where multicast works
    #[arg(long, value_parser = parse_address, value_name = "ADDR")]
    pub join: Vec<String>,
    /// Address to listen on; may be repeated. Connections from public addresses are let in only where one that is not private is given, such as 0.0.0.0:7070 [default: any port on all interfaces, private addresses only]
    #[arg(long, value_parser = parse_listen_address, value_name = "ADDR")]
    pub listen: Vec<String>,
    /// File with the mesh key: only peers with the same one are let in. `brickmesh peer` makes it if it is not there [default: ~/.config/brickmesh/mesh.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// File with this peer's own identity; made if it is not there [default: a new identity each time]
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// TOML file with options of `peer` by their long names; the command line wins. Other commands take join and key from it [default: ~/.config/brickmesh/config.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl NetworkArgs {
    /// Whether anything is said of other peers.
    #[must_use]
    pub fn is_given(&self) -> bool {
        let lists = self.join.is_empty() && self.listen.is_empty();
        !lists || self.key.is_some() || self.identity.is_some()
    }

    /// The file with the mesh key.
    ///
    /// # Errors
    /// [`MeshKeyError::NoFolder`].
    pub fn key_file(&self) -> Result<PathBuf, MeshKeyError> {
        self.key.clone().map_or_else(MeshKey::default_path, Ok)
    }
}

/// `render`
#[derive(Clone, Debug, Args)]
pub struct RenderArgs {
    #[command(flatten)]
    /// What is shown.
    pub source: VolumeArgs,
    #[command(flatten)]
    /// What stands in it.
    pub surfaces: SurfaceArgs,
    /// PNG to write; with --frames, P.png becomes P-0000.png …
    #[arg(long)]
    pub out: PathBuf,
    #[command(flatten)]
    /// The picture.
    pub picture: PictureArgs,
    #[command(flatten)]
    /// Who renders.
    pub mesh: MeshArgs,
    /// Leave the background out: pixels are as transparent as what is seen
    #[arg(long)]
    pub transparent: bool,
    /// Pictures of a turn around the volume
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub frames: u32,
    /// Degrees that the camera turns from frame to frame [default: 360 / frames]
    #[arg(long, value_parser = parse_finite, allow_hyphen_values = true)]
    pub spin: Option<f64>,
    /// JSON list with a camera for each picture, [{"orbit": "30,20"}, {"camera": "eye=1,2,3", "steal": false}, …], in place of --frames
    #[arg(long, conflicts_with_all = ["camera", "orbit", "session", "frames", "spin"])]
    pub cameras: Option<PathBuf>,
    /// Camera path, as the viewer saves it: a picture for each of its frames
    #[arg(long, value_name = "FILE", conflicts_with_all = ["camera", "orbit", "projection", "frames", "spin", "cameras"])]
    pub path: Option<PathBuf>,
    /// Video of the pictures, by the ffmpeg of this machine; without one the pictures stay
    #[arg(long, value_name = "FILE", conflicts_with = "transparent")]
    pub video: Option<PathBuf>,
    /// Frames of the video a second
    #[arg(long, default_value_t = 30.0, requires = "video", value_parser = parse_rate, allow_hyphen_values = true)]
    pub fps: f64,
    /// Frames that are under way at a time: more keep all peers busy, fewer learn sooner
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub ahead: u8,
    /// Milliseconds that each picture may take: what is as fine as --quality says is written if it is there by then, else the finest level that is, or the first one that comes
    #[arg(long, value_name = "MS", conflicts_with_all = ["ahead", "trace"], value_parser = parse_milliseconds, allow_hyphen_values = true)]
    pub deadline: Option<f64>,
    /// JSON with who rendered what, and how long it took
    #[arg(long)]
    pub stats: Option<PathBuf>,
    /// Trace for Perfetto: what each peer did when; frames are asked for one at a time
    #[arg(long, value_name = "FILE", conflicts_with = "ahead")]
    pub trace: Option<PathBuf>,
}

/// `view`
#[derive(Clone, Debug, Args)]
#[command(mut_arg("size", |size| size.default_value("800x720")))]
#[command(mut_arg("volume", |volume| volume.required(false).help("Volume, as `info` and `render` take it [default: the demo's volume]")))]
pub struct ViewArgs {
    #[command(flatten)]
    /// What is shown; nothing is the demo's volume.
    pub source: Option<VolumeArgs>,
    #[command(flatten)]
    /// What stands in it.
    pub surfaces: SurfaceArgs,
    #[command(flatten)]
    /// The picture.
    pub picture: PictureArgs,
    #[command(flatten)]
    /// Who renders.
    pub mesh: MeshArgs,
    /// With --mesh: only look on; this peer holds no bricks and renders nothing
    #[arg(long, requires = "mesh", conflicts_with = "memory")]
    pub watch: bool,
    /// With --mesh: name for people, who may follow it [default: this machine's]
    #[arg(long, requires = "mesh", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// With --mesh: follow the camera of the viewer with this name, until a hand moves the own one
    #[arg(long, requires = "mesh", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub follow: Option<String>,
    /// Show the panels beside the picture at first; key P shows and hides them
    #[arg(long, action = ArgAction::Set, value_parser = switch(), default_value = "on", value_name = "ON|OFF")]
    pub panels: bool,
    /// Pictures a second while the camera moves: where full ones take longer, coarser ones are shown
    #[arg(long, value_name = "N", default_value_t = 30.0, value_parser = parse_rate, allow_hyphen_values = true)]
    pub target_fps: f64,
    /// Show the tiles of a picture as they come, over the picture before, and not only once it is whole
    #[arg(long)]
    pub frameless: bool,
}

/// `peer`
#[derive(Clone, Debug, Args)]
pub struct PeerArgs {
    #[command(flatten)]
    /// How to find others.
    pub network: NetworkArgs,
    /// Device: auto, cpu, vulkan or vulkan:N
    #[arg(long, default_value = "auto", value_parser = parse_device)]
    pub device: DeviceChoice,
    /// Memory that bricks may take: bytes, or 512M, 4G [default: half of what is free]
    #[arg(long, value_parser = parse_bytes, allow_hyphen_values = true)]
    pub memory: Option<u64>,
    /// How it gets bricks for a picture that it does not hold
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    pub sharing: SharingArg,
    /// Of --memory, what bricks may take at most that are read or fetched for pictures and not held, though never less than the two largest take [default: what is left beside the copies that are held]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, allow_hyphen_values = true)]
    pub cache: Option<u64>,
    /// .brickmesh folder to offer to the mesh
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Keep bricks that come from other peers on a disk, so many bytes, or 512M, 40G: for when this peer is started again, and to read from it what no peer has memory for
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, allow_hyphen_values = true)]
    pub disk: Option<u64>,
    /// Folder for these bricks, of this peer alone; it is made where it is missing
    #[arg(long, value_name = "DIR")]
    pub disk_dir: Option<PathBuf>,
    /// Name for people [default: this machine's]
    #[arg(long, value_parser = parse_name)]
    pub name: Option<String>,
    /// Serve Prometheus metrics (/metrics) and the state of health (/health) there; without --metrics nothing is served
    #[arg(long, value_name = "IP:PORT", value_parser = parse_socket)]
    pub metrics: Option<SocketAddr>,
}

/// A method, or none; as a name, so that an argument of it is not an optional one.
pub type Placement = Option<PartitionMethod>;

/// `import`
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    /// What is brought in.
    pub source: VolumeArgs,
    #[command(flatten)]
    /// What stands in it; then it has no levels.
    pub surfaces: SurfaceArgs,
    /// Folder to make
    #[arg(long)]
    pub out: PathBuf,
    /// Edge of a brick in voxels [default: 64; 128, 256 or 512 where that would make more than 32768 bricks]
    #[arg(long)]
    pub brick: Option<u32>,
    /// Which peers are to hold which bricks at first, as for `render`
    #[arg(long, value_name = "METHOD", default_value = "redundant", value_parser = placement())]
    pub placement: Placement,
    /// Coarser levels to make beside it, at most, each of half as many voxels on each axis that has 32 or more; none with --keep, --mask or --slab [default: until no axis of 32 voxels or more is longer than a brick]
    #[arg(long, value_name = "N", conflicts_with_all = ["keep", "mask", "slab"])]
    pub levels: Option<u8>,
    /// Parts of an uncompressed file that are read at the same time, each by a thread; more where a disk or share is faster with more. Each takes memory for a row of bricks along x [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), conflicts_with_all = ["keep", "mask", "slab"])]
    pub parts: Option<u16>,
    /// Memory that triangles may take, bytes, or 512M, 4G; what is beyond goes through scratch files beside --out [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, allow_hyphen_values = true)]
    pub memory: Option<u64>,
    #[command(flatten)]
    /// What is empty; where one of these is given, slab projections and what each brick weighs are kept, and empty bricks are one.
    pub empty: EmptySpaceArgs,
}

/// What is empty in a volume.
#[derive(Clone, Debug, Args)]
pub struct EmptySpaceArgs {
    /// Values that are not empty, ends included [default: all but the value that most of the first slice has]
    #[arg(long, value_name = "LO..HI", value_parser = parse_keep, allow_hyphen_values = true, conflicts_with = "mask")]
    pub keep: Option<[f64; 2]>,
    /// Volume of the same size: what is 0 there is empty
    #[arg(long, value_name = "FILE")]
    pub mask: Option<PathBuf>,
    /// Fewest and most slices of a slab of which the projections are kept; between them it ends where regions split or merge [default: 8..32]
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_slab_slices)]
    pub slab: Option<(u32, u32)>,
}

impl EmptySpaceArgs {
    /// Whether nothing is said.
    pub(crate) fn is_default(&self) -> bool {
        self.keep.is_none() && self.mask.is_none() && self.slab.is_none()
    }

    /// Whether nothing is said of which voxels are empty.
    pub(crate) fn says_nothing_of_values(&self) -> bool {
        self.keep.is_none() && self.mask.is_none()
    }

    /// Fewest and most slices of a slab.
    pub(crate) fn slab_slices(&self) -> RangeInclusive<u32> {
        let (least, most) = self.slab.unwrap_or((8, 32));
        least..=most
    }
}

/// `partition`
#[derive(Clone, Debug, Args)]
pub struct PartitionArgs {
    #[command(flatten)]
    /// What is parted.
    pub source: VolumeArgs,
    /// How it is cut
    #[arg(long, value_enum)]
    pub method: PartitionMethod,
    /// Machines
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub nodes: u16,
    #[command(flatten)]
    /// What is empty.
    pub empty: EmptySpaceArgs,
    /// Slabs weigh PARC's cubes, 2^L along each axis, in place of voxels
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(1..=7))]
    pub cubes: Option<u32>,
    /// Empty voxels around the volume that count as part of it where cubes are cut
    #[arg(long, value_name = "VOXELS", default_value_t = 0, requires = "cubes", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub cube_border: u32,
    /// Direction of looking, for brick-grouping; its octant counts
    #[arg(long, value_name = "X,Y,Z", default_value = "1,1,1", value_parser = parse_direction, allow_hyphen_values = true)]
    pub view: [f64; 3],
    /// Most bricks of a cell, for brick-grouping; bricks are enlarged until a machine has fewer
    #[arg(long, value_name = "M", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=256))]
    pub max_bricks: u16,
    /// Prices of brick-grouping: rendering a brick, blending two images of a machine, sending an image (or the first of a machine, and each further one)
    #[arg(long, value_name = "R,L,X|R,L,X1,X2", default_value = "10,0.1,25", value_parser = parse_prices, allow_hyphen_values = true)]
    pub cost: CostArg,
    /// Picture of the cuts to write, SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `placements`
#[derive(Clone, Debug, Args)]
pub struct PlacementsArgs {
    #[command(flatten)]
    /// What is placed.
    pub source: VolumeArgs,
    /// Machines
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub nodes: u16,
    /// Most copies of a brick
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub copies: u32,
    /// Memory that bricks may take on each machine: bytes, or 512M, 4G [default: as much as they need]
    #[arg(long, value_parser = parse_bytes, allow_hyphen_values = true)]
    pub memory: Option<u64>,
    /// Speeds of the machines, one each, such as 1,1,0.5 [default: all alike]
    #[arg(long, value_name = "S,S,...", value_delimiter = ',', value_parser = parse_speed, allow_hyphen_values = true)]
    pub speeds: Vec<f64>,
    /// Each machine's link, Mbit/s
    #[arg(long, value_name = "MBIT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub link: u32,
    /// Edge of a brick in voxels, of a volume that is no .brickmesh folder [default: as import]
    #[arg(long)]
    pub brick: Option<u32>,
    /// Width and height of the pictures
    #[arg(long, default_value = "512x512", value_parser = parse_size)]
    pub size: (u32, u32),
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `plan`
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    /// What is to be shown.
    pub source: VolumeArgs,
    /// Peers of one process that render it, as for `render`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub peers: u32,
    /// Their device, as for `render`; with --mesh: this machine's
    #[arg(long, default_value = "auto", value_parser = parse_device)]
    pub device: DeviceChoice,
    /// Memory that the bricks of each of them may take: bytes, or 512M, 4G; several, such as 4G,16G, are one each; with --mesh: of this machine [default: half of what is free here]
    #[arg(long, value_name = "SIZE,SIZE...", value_delimiter = ',', value_parser = parse_bytes, allow_hyphen_values = true)]
    pub memory: Vec<u64>,
    /// Copies of each brick that are wanted [default: 2, or 1 with one peer]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub redundancy: Option<u32>,
    /// Edge of a brick in voxels, of a volume that is no .brickmesh folder [default: 256 with one peer that has the memory for all, else as import]
    #[arg(long)]
    pub brick: Option<u32>,
    /// On the peers that this machine finds, and on itself
    #[arg(long, conflicts_with = "peers")]
    pub mesh: bool,
    /// With --mesh: seconds to look for peers
    #[arg(long, default_value_t = 3.0, requires = "mesh", value_parser = parse_seconds, allow_hyphen_values = true)]
    pub seconds: f64,
    #[command(flatten)]
    /// The picture that is planned, of a .brickmesh folder.
    pub picture: PictureArgs,
    /// Foretell how long a picture of --quality takes, of a .brickmesh folder: renders up to four here
    #[arg(long, conflicts_with = "mesh")]
    pub time: bool,
    #[command(flatten)]
    /// How to find them.
    pub network: NetworkArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `info`
#[derive(Clone, Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    /// What is looked at.
    pub source: VolumeArgs,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Read all of it: every brick of a folder against its digest, every voxel of a file
    #[arg(long, conflicts_with = "header")]
    pub verify: bool,
    /// Read the header of a file alone: nothing is said of its values, but at once however large it is
    #[arg(long)]
    pub header: bool,
}

/// `devices`
#[derive(Clone, Debug, Args)]
pub struct JsonArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `status`
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Seconds to look for peers
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds, allow_hyphen_values = true)]
    pub seconds: f64,
    #[command(flatten)]
    /// How to find others.
    pub network: NetworkArgs,
}

/// `sim`
#[derive(Clone, Debug, Args)]
pub struct SimArgs {
    /// partition, placement, schedule, jobs, mesh or paper
    pub what: String,
    /// JSON input; - for standard input; for paper its name, frey-ertl-2011, silva-1995, frank-kaufman-2009 or demarle-2005
    pub file: Option<PathBuf>,
    /// Print an input that works
    #[arg(long)]
    pub example: bool,
    /// paper frey-ertl-2011: frames of the camera path [default: 5000]
    #[arg(long)]
    pub frames: Option<usize>,
    /// paper frey-ertl-2011: seed of path, placement and noise [default: 1]
    #[arg(long)]
    pub seed: Option<u64>,
    /// paper silva-1995: volume that it is evaluated on
    #[arg(long, value_name = "VOLUME")]
    pub volume: Option<PathBuf>,
    /// paper: folder to write the figures to, as SVG
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// paper frey-ertl-2011: search the parameters that the paper does not state for what comes nearest to its figures (minutes)
    #[arg(long)]
    pub fit: bool,
    /// paper: change a parameter; may be repeated. Without a value: list them
    #[arg(long, value_name = "NAME=VALUE", num_args = 0..=1, default_missing_value = "")]
    pub vary: Vec<String>,
}

/// Which device to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best there is.
    Auto,
    /// The processor.
    Cpu,
    /// A Vulkan device, by index or the best.
    Vulkan(Option<usize>),
}

/// `--transfer-range`
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransferRange {
    /// The data's range, without outliers.
    Data,
    /// The function's own values.
    Preset,
    /// These data values.
    Given(f64, f64),
}

/// `--camera`, with what was given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CameraArg {
    /// Eye.
    pub eye: Option<[f64; 3]>,
    /// Target.
    pub at: Option<[f64; 3]>,
    /// Up.
    pub up: Option<[f64; 3]>,
    /// Vertical field of view in degrees.
    pub fov: Option<f64>,
}

/// `--orbit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Orbit {
    /// Degrees around the vertical axis.
    pub azimuth: f64,
    /// Degrees above the horizon.
    pub elevation: f64,
    /// 2 halves the distance.
    pub zoom: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn tiles_are_for_divided_pictures_and_peers_that_take_jobs() {
        let rules = |strategy, tiles, steal| {
            let args = RulesArgs {
                strategy,
                tiles,
                steal,
                ..RulesArgs::default()
            };
            args.rules(false)
        };
        let demand = Some(TileSharing::Demand);
        let image = Some(StrategyArg::Image);
        let shared = rules(image, demand, None).unwrap();
        assert_eq!(shared.tile_sharing, TileSharing::Demand);
        assert!(rules(Some(StrategyArg::Auto), demand, Some(true)).is_ok());
        let whole = rules(None, demand, None).unwrap_err();
        assert!(whole.contains("--strategy image"), "{whole}");
        let kept = rules(image, demand, Some(false)).unwrap_err();
        assert!(kept.contains("--steal on"), "{kept}");
        assert!(rules(image, Some(TileSharing::Planned), Some(false)).is_ok());
    }
}

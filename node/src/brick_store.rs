//! Data sets on disk and in memory: volumes cut into bricks with ghost voxels.
//!
//! A `.brickmesh` folder holds `manifest.json`, `bricks.index`, which says what each brick is, and the bricks in `bricks/0.pack`, `bricks/1.pack` … (`packs`),
//! equal ones once. On a shelf, and before version 7, each brick is a file, named by the BLAKE3 digest of its bytes. `levels/1`, `levels/2` … are folders of the same kind with the
//! coarser levels of the volume. `slab-projections.gz` is there where the import was told what is
//! empty (`empty_space`).
//! Invariants: a folder is made whole or not at all; what is read is checked against its digest, the
//! manifest against its checksum; importing needs bounded memory, whatever the volume's size.

mod bricked_triangles;
mod bricker;
mod checkpoint;
mod cutter;
mod direct_read;
mod directory;
mod empty_space;
mod importing;
mod in_place;
mod layers;
mod level_cutter;
mod manifest_file;
mod memory;
mod packs;
mod placed;
mod plain_cutter;
mod shelf;
mod triangulated;

pub use directory::DirectoryStore;
pub(crate) use empty_space::EmptySpace;
pub(crate) use importing::parent_of_new;
pub use in_place::InPlaceStore;
pub use memory::MemoryStore;
pub(crate) use placed::Placed;
pub(crate) use shelf::{DiskShelf, ShelfError};
use triangulated::{Surface, Triangulated};

use crate::{
    args::{DeviceChoice, SurfaceArg},
    device_choice::default_memory_bytes,
    scene_file::{self, SceneFile, SceneFileError},
    surface_file::{self, ScratchError, Spill, SurfaceFileError, SurfaceProblem},
    terminal::note,
    volume_file::{self, VolumeFile, VolumeFileError},
};
use brickmesh_actors::{
    data_set::{BrickSource, SourceError},
    manifest_message::bricks_max,
    plain_text::counted,
};
use brickmesh_topology::{
    BrickGrid,
    data::{
        brick_grid::{BrickGridError, EDGE_MAX},
        manifest::ManifestError,
        partition_method::PartitionMethod,
        volume::VolumeDescription,
    },
};
use std::{
    env, io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use brickmesh_topology::data::brick_bytes::BRICK_BYTES_MAX;
/// Memory that one open layer of bricks may take while importing, of which there are two at most;
/// beyond it the layer is kept in a scratch file.
const LAYER_BYTES_MAX: u64 = 96 << 20;

/// A data set that cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrickStoreError {
    /// The volume cannot be read.
    #[error(transparent)]
    Volume(#[from] VolumeFileError),
    /// A file of triangles cannot be read.
    #[error(transparent)]
    SurfaceFile(#[from] SurfaceFileError),
    /// Triangles that do not fit into memory cannot be kept elsewhere.
    #[error(transparent)]
    TriangleScratch(ScratchError),
    /// A scene cannot be read.
    #[error(transparent)]
    Scene(#[from] SceneFileError),
    /// Triangles that cannot be put into bricks.
    #[error("the triangles: {why}")]
    Surfaces {
        /// Why.
        why: String,
    },
    /// No triangle is in the volume.
    #[error(
        "no triangle is inside of the volume, which ends at the centres of its outer voxels; --surface takes places in its world, `brickmesh info` says where both are"
    )]
    SurfacesOutside,
    /// A brick cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The volume cannot be cut like this.
    #[error("{}: {source}", path.display())]
    Grid {
        /// The volume.
        path: PathBuf,
        /// Why.
        source: BrickGridError,
    },
    /// Bricks would be too large to send.
    #[error("{}: a brick of edge {edge} is {found} bytes, more than {BRICK_BYTES_MAX}; take a smaller --brick", path.display())]
    BrickTooLarge {
        /// The volume.
        path: PathBuf,
        /// Edge asked for.
        edge: u32,
        /// Its size.
        found: u64,
    },
    /// The manifest would be too large for peers to tell each other of it.
    #[error("{}: edge {edge} makes {found} bricks; peers can tell each other of {most} at most, as a manifest is one message: {}", path.display(), larger_edge(*larger))]
    TooManyBricks {
        /// The volume.
        path: PathBuf,
        /// Edge of the bricks.
        edge: u32,
        /// Bricks that it makes.
        found: u32,
        /// Most bricks.
        most: u32,
        /// The smallest edge that makes few enough, if any does.
        larger: Option<u32>,
    },
    /// The volume's bricks would take too much memory of this machine.
    #[error("{}: its bricks would take {} MiB of memory, {} may be taken; run `brickmesh import` on it first, then give the folder that this makes{}", path.display(), bytes >> 20, bytes_max >> 20, if *is_plain { ", or give --in-place" } else { "" })]
    TooLargeForMemory {
        /// The volume.
        path: PathBuf,
        /// Bytes of all bricks, ghosts included.
        bytes: u64,
        /// Most bytes.
        bytes_max: u64,
        /// Its bricks can be cut out of it when they are asked for.
        is_plain: bool,
    },
    /// No part of a file can be read alone.
    #[error("{}: --in-place is for uncompressed .raw, NRRD, MetaImage and NIfTI files, of which parts can be read; run `brickmesh import` on it", path.display())]
    NotInPlace {
        /// The file.
        path: PathBuf,
    },
    /// What cannot be said of a folder.
    #[error("{}: {option} belongs to a file, this is a .brickmesh folder: {advice}", path.display())]
    OfFile {
        /// The folder.
        path: PathBuf,
        /// What was given.
        option: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// What cannot be said of a file of triangles.
    #[error("{}: {option} belongs to a volume, this is a file of triangles: leave it out", path.display())]
    OfVolume {
        /// The file.
        path: PathBuf,
        /// What was given.
        option: &'static str,
    },
    /// What is empty cannot be worked out.
    #[error("--keep, --mask, --slab: {why}; import without them")]
    EmptySpace {
        /// Why.
        why: String,
    },
    /// There is no room for a scratch file.
    #[error("{}: {source}; a file that is rendered in place needs {} MiB there for its coarser levels: name a folder that has them with TMPDIR", path.display(), bytes.div_ceil(1 << 20))]
    Scratch {
        /// Folder of the scratch files.
        path: PathBuf,
        /// Bytes that are needed there, at most.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// What a killed import left cannot be used.
    #[error("{}: {source}; it was of an import that was killed: import again", path.display())]
    GoingOn {
        /// Where it was.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is something where the folder is to be made.
    #[error("{}: it exists already; remove it or choose another --out", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A manifest that cannot be used.
    #[error("{}: {why}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A brick that is not what the manifest says.
    #[error("{}: brick {brick} is damaged: {found}, expected {expected}; import the volume again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Brick.
        brick: u32,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A brick that the system does not give.
    #[error("{}: brick {brick} cannot be read: {source}", path.display())]
    Brick {
        /// The file.
        path: PathBuf,
        /// Brick.
        brick: u32,
        /// Why.
        source: io::Error,
    },
    /// The user stopped it.
    #[error("stopped; nothing was written")]
    Stopped,
}

/// What to do about too many bricks.
fn larger_edge(larger: Option<u32>) -> String {
    larger.map_or_else(
        || "no edge makes few enough, cut the volume up".to_owned(),
        |edge| format!("take a larger --brick, {edge} or more"),
    )
}

impl BrickStoreError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            path: path.clone(),
            source,
        }
    }

    fn manifest(path: &Path) -> impl Fn(ManifestError) -> Self {
        let path = path.to_owned();
        move |e| Self::Manifest {
            path: path.clone(),
            why: e.to_string(),
        }
    }
}

/// Told how many bytes of how many are read; false stops.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Cuts a volume into a new `.brickmesh` folder.
///
/// # Errors
/// [`BrickStoreError`]; nothing is left behind then.
pub fn import(
    file: &VolumeFile,
    edge: u32,
    out: &Path,
    progress: OnProgress<'_>,
) -> Result<DirectoryStore, BrickStoreError> {
    import_as(file, edge, &ImportOptions::default(), out, progress)
}

/// How a volume is imported.
#[derive(Clone, Debug)]
pub(crate) struct ImportOptions {
    /// How its bricks are to be placed.
    pub(crate) placement: Option<PartitionMethod>,
    /// What is empty in it, if that is to be known; then it has no levels.
    pub(crate) empty: Option<EmptySpace>,
    /// Coarser levels, at most.
    pub(crate) levels_max: usize,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            placement: None,
            empty: None,
            levels_max: usize::MAX,
        }
    }
}

/// As [`import`], in another way.
///
/// # Errors
/// As [`import`].
pub(crate) fn import_as(
    file: &VolumeFile,
    edge: u32,
    how: &ImportOptions,
    out: &Path,
    progress: OnProgress<'_>,
) -> Result<DirectoryStore, BrickStoreError> {
    importing::import(file, edge, how, out, LAYER_BYTES_MAX, progress)
}

/// Cuts a volume into bricks in memory, of which they may take `bytes_max`.
///
/// # Errors
/// [`BrickStoreError`].
pub fn load(
    file: &VolumeFile,
    edge: u32,
    bytes_max: u64,
    progress: OnProgress<'_>,
) -> Result<MemoryStore, BrickStoreError> {
    memory::load(file, edge, bytes_max, progress)
}

/// Writes the bricks of a data set into a new `.brickmesh` folder, without its levels.
///
/// # Errors
/// [`BrickStoreError`]; nothing is left behind then.
pub(crate) fn write(
    source: &dyn BrickSource,
    out: &Path,
    progress: OnProgress<'_>,
) -> Result<DirectoryStore, BrickStoreError> {
    importing::write(source, out, progress)
}

/// How a volume that is no `.brickmesh` folder is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileOptions {
    /// A data value that stands for no data.
    pub fill: Option<f64>,
    /// Its bricks are cut out of the file when they are asked for.
    pub is_in_place: bool,
}

/// Bricks that a volume is cut into where nobody says of which edge, at most: each
/// takes time in each frame.
const USUAL_BRICKS_MAX: u32 = 1 << 15;

/// Edge of a brick where several peers share the work, or one reads bricks for each frame.
const EDGE_SHARED: u32 = 64;
/// Edge of a brick where one peer has all of them: few jobs, little overhead.
const EDGE_ALONE: u32 = 256;

/// Edge of the bricks that a file is cut into, voxels.
#[derive(Clone, Copy, Debug)]
pub enum BrickEdge {
    /// As somebody asked for.
    Exactly(u32),
    /// For several peers: 64 voxels, or twice, four times as many where the volume would make too many bricks.
    Shared,
    /// For one peer: 256 voxels if it has the memory for all of them, else as for several.
    Alone(Alone),
}

/// One peer that renders alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    memory_bytes: u64,
    /// It takes no more for bricks than their voxels.
    is_cpu: bool,
}

impl Alone {
    /// With so much memory for bricks, or what is usual.
    #[must_use]
    pub fn new(memory_bytes: Option<u64>, device: DeviceChoice) -> Self {
        Self {
            // Less will be free when the volume is in memory.
            memory_bytes: memory_bytes.unwrap_or_else(|| default_memory_bytes(1) / 2),
            is_cpu: device == DeviceChoice::Cpu,
        }
    }

    /// Memory with which the bricks of a volume are large.
    #[must_use]
    pub fn memory_for_large(&self, volume: &VolumeDescription) -> u64 {
        let Ok(grid) = BrickGrid::new(volume.dims, EDGE_ALONE) else {
            return 0;
        };
        // Room is counted in largest bricks.
        let [x, y, z] = grid.largest_stored_size().map(u64::from);
        let each = x * y * z * volume.device_voxel().bytes() as u64;
        // A GPU takes a third more.
        let each = if self.is_cpu { each } else { each / 3 * 4 };
        each.saturating_mul(grid.brick_count().into())
    }
}

impl BrickEdge {
    /// What somebody asked for, else as for several peers.
    #[must_use]
    pub fn shared(asked: Option<u32>) -> Self {
        asked.map_or(Self::Shared, Self::Exactly)
    }

    /// What somebody asked for, else as for this peer.
    #[must_use]
    pub fn alone(asked: Option<u32>, peer: Alone) -> Self {
        asked.map_or(Self::Alone(peer), Self::Exactly)
    }

    /// For a volume.
    #[must_use]
    pub fn of(self, volume: &VolumeDescription) -> u32 {
        let dims = volume.dims;
        let mut edge = match self {
            Self::Exactly(edge) => return edge,
            Self::Alone(peer) if peer.memory_for_large(volume) <= peer.memory_bytes => EDGE_ALONE,
            Self::Alone(_) | Self::Shared => EDGE_SHARED,
        };
        let is_few = |edge| match BrickGrid::new(dims, edge) {
            Ok(grid) => grid.brick_count() <= USUAL_BRICKS_MAX,
            Err(BrickGridError::TooMany { .. }) => false,
            // The volume is refused, whatever the edge.
            Err(_) => true,
        };
        while edge < EDGE_MAX && !is_few(edge) {
            edge = (2 * edge).min(EDGE_MAX);
        }
        edge
    }
}

/// Opens a `.brickmesh` folder, or cuts any other volume into bricks of `edge`, in memory, of which
/// they may take `bytes_max`, or in place.
///
/// # Errors
/// [`BrickStoreError`].
pub fn open_source(
    path: &Path,
    how: FileOptions,
    edge: BrickEdge,
    bytes_max: u64,
    progress: OnProgress<'_>,
) -> Result<Arc<dyn BrickSource>, BrickStoreError> {
    if path.join(directory::MANIFEST).is_file() {
        let of_file = |option, advice| BrickStoreError::OfFile {
            path: path.to_owned(),
            option,
            advice,
        };
        if how.fill.is_some() {
            return Err(of_file("--fill", "import the volume again with it"));
        }
        if how.is_in_place {
            return Err(of_file("--in-place", "leave it out"));
        }
        return Ok(Arc::new(open_shared(path)?));
    }
    let file = volume_file::open_with_fill(path, how.fill)?;
    let edge = edge.of(&file.description);
    if how.is_in_place {
        return Ok(Arc::new(in_place::open(
            &file,
            edge,
            &env::temp_dir(),
            progress,
        )?));
    }
    Ok(Arc::new(load(&file, edge, bytes_max, progress)?))
}

/// The triangles that a path names in place of a volume: a file of them, with their colour, if there is one.
pub(crate) fn surface_of(path: &Path) -> Option<SurfaceArg> {
    if path.exists() {
        return surface_file::is_surface(path).then(|| SurfaceArg::new(path.to_owned()));
    }
    SurfaceArg::parse(path.to_str()?).ok()
}

/// As [`open_source`], with triangles of these files, for which the [`Spill`] has memory. The first path, too, can be a file of triangles, or a
/// scene.
///
/// # Errors
/// [`BrickStoreError`].
pub fn open_with_surfaces(
    path: &Path,
    how: FileOptions,
    edge: BrickEdge,
    surfaces: &[SurfaceArg],
    (bytes_max, spill): (u64, &Spill),
    progress: OnProgress<'_>,
) -> Result<Arc<dyn BrickSource>, BrickStoreError> {
    let scene = scene_file::is_scene(path).then(|| scene_file::read(path));
    let scene = scene.transpose()?;
    let surfaces = &scene.as_ref().map_or_else(
        || surfaces.to_vec(),
        |scene| [&scene.surfaces[..], surfaces].concat(),
    );
    let (path, first) = match &scene {
        None => (path, surface_of(path)),
        Some(SceneFile { volume: None, .. }) => (path, None),
        Some(SceneFile {
            volume: Some(volume),
            ..
        }) => (volume.as_path(), surface_of(volume)),
    };
    let is_alone = first.is_some() || scene.as_ref().is_some_and(|s| s.volume.is_none());
    if is_alone {
        for (is_given, option) in [
            (how.fill.is_some(), "--fill"),
            (how.is_in_place, "--in-place"),
            (matches!(edge, BrickEdge::Exactly(_)), "--brick"),
        ] {
            if is_given {
                return Err(BrickStoreError::OfVolume {
                    path: path.to_owned(),
                    option,
                });
            }
        }
        let name = first.as_ref().map_or(path, |first| &first.path);
        let all: Vec<SurfaceArg> = first.iter().chain(surfaces).cloned().collect();
        let surfaces = read_surfaces(&all, spill, progress)?;
        let how = (name, matches!(edge, BrickEdge::Alone(_)));
        let found = Triangulated::alone(surfaces, how, spill, progress)?;
        return Ok(Arc::new(found));
    }
    let source = open_source(path, how, edge, bytes_max, progress)?;
    if surfaces.is_empty() {
        return Ok(source);
    }
    let surfaces = read_surfaces(surfaces, spill, progress)?;
    let source = Triangulated::new(source, surfaces, spill, progress)?;
    if source.outside() > 0 {
        note(format_args!(
            "brickmesh: {} of --surface are outside of the volume and not seen",
            counted(source.outside(), "triangle")
        ));
    }
    Ok(Arc::new(source))
}

/// Why triangles were not read.
fn not_read(error: SurfaceFileError) -> BrickStoreError {
    match error.problem {
        SurfaceProblem::Scratch(error) => error.into(),
        _ => error.into(),
    }
}

impl From<ScratchError> for BrickStoreError {
    fn from(error: ScratchError) -> Self {
        match error {
            ScratchError::Stopped => Self::Stopped,
            ScratchError::Io { .. } => Self::TriangleScratch(error),
        }
    }
}

/// Reads the triangles of files; progress is in bytes of each.
fn read_surfaces(
    all: &[SurfaceArg],
    spill: &Spill,
    progress: OnProgress<'_>,
) -> Result<Vec<Surface>, BrickStoreError> {
    let read = |(surface, at): (&SurfaceArg, usize)| {
        let mut goes_on = true;
        let mesh = surface_file::read(&surface.path, spill, &mut |done, all| {
            goes_on = progress(done, all);
            goes_on
        });
        if !goes_on {
            return Err(BrickStoreError::Stopped);
        }
        let mut mesh = mesh.map_err(not_read)?;
        if surface.color.is_some() {
            mesh = mesh.in_one_look();
        }
        let wrong = |problem| {
            let path = surface.path.clone();
            not_read(SurfaceFileError { path, problem })
        };
        let mesh = mesh.placed(&surface.place).map_err(wrong)?;
        let materials = mesh.looks().iter();
        let materials = materials.map(|look| surface.material(at, *look)).collect();
        Ok(Surface { mesh, materials })
    };
    all.iter().zip(0..).map(read).collect()
}

/// Opens a `.brickmesh` folder to share it with other peers.
///
/// # Errors
/// [`BrickStoreError`]; also where it has more bricks than peers can tell each other of.
pub fn open_shared(path: &Path) -> Result<DirectoryStore, BrickStoreError> {
    let store = DirectoryStore::open(path)?;
    check_brick_count(path, store.manifest().grid())?;
    Ok(store)
}

/// Refuses more bricks than peers can tell each other of.
fn check_brick_count(path: &Path, grid: &BrickGrid) -> Result<(), BrickStoreError> {
    let (found, most) = (grid.brick_count(), bricks_max());
    if found <= most {
        return Ok(());
    }
    let count = |edge| BrickGrid::new(grid.dims(), edge).map(|g| g.brick_count());
    let mut larger = grid.edge()..=EDGE_MAX;
    Err(BrickStoreError::TooManyBricks {
        path: path.to_owned(),
        edge: grid.edge(),
        found,
        most,
        larger: larger.find(|&edge| count(edge).is_ok_and(|n| n <= most)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::data::volume::VoxelType;

    #[test]
    fn large_volumes_are_cut_into_larger_bricks_where_nobody_says_which() {
        let volume = |dims| VolumeDescription::new(dims, VoxelType::U8);
        let edge = |dims| BrickEdge::shared(None).of(&volume(dims));
        assert_eq!([edge([1; 3]), edge([2048; 3])], [64, 64]);
        assert_eq!([edge([2049, 2048, 2048]), edge([4096; 3])], [128, 128]);
        assert_eq!([edge([4096, 4096, 4097]), edge([65_536; 3])], [256, 512]);
        // The volume is refused.
        assert_eq!([edge([0; 3]), edge([u32::MAX; 3])], [64, 64]);
        assert_eq!(BrickEdge::shared(Some(7)).of(&volume([65_536; 3])), 7);
    }

    #[test]
    fn one_peer_has_large_bricks_where_it_holds_all_of_them() {
        let mut volume = VolumeDescription::new([300, 256, 256], VoxelType::U8);
        let grid = BrickGrid::new(volume.dims, 256).unwrap();
        let two = 2 * grid
            .largest_stored_size()
            .map(u64::from)
            .iter()
            .product::<u64>();
        let peer = |bytes, device| BrickEdge::alone(None, Alone::new(Some(bytes), device));
        let edge = |volume: &_, bytes| peer(bytes, DeviceChoice::Cpu).of(volume);
        assert_eq!([edge(&volume, two), edge(&volume, two - 1)], [256, 64]);
        let edge_on_any = |bytes| peer(bytes, DeviceChoice::Auto).of(&volume);
        assert_eq!([two / 3 * 4, two].map(edge_on_any), [256, 64]);
        assert_eq!(edge(&volume, 0), 64);
        // They are floats on devices.
        volume.fill = Some(0.0);
        assert_eq!(edge(&volume, two * 2), 64);
        let asked = BrickEdge::alone(Some(7), Alone::new(None, DeviceChoice::Cpu));
        assert_eq!(asked.of(&volume), 7);
    }
}

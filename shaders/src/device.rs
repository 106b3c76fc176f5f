//! The trait that every device implements, and what goes in and out of it.

pub mod cpu;
pub mod preparation;
pub mod process_end;
#[cfg(feature = "vulkan")]
pub mod vulkan;

use crate::{brick::BrickVoxels, scene::Scene, secondary::UnlitJob, sub_image::SubImage};
use brickmesh_topology::{BrickBytes, BrickIndex, Digest, PixelRect, VoxelBox};
use preparation::{Preparation, PreparedBrick};

/// Names a resident brick: its data set and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrickKey {
    /// Data set: digest of the manifest.
    pub data_set: Digest,
    /// Brick of the data set's grid.
    pub brick: BrickIndex,
}

/// A piece of a frame: the samples in a half-open box of one brick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The brick whose voxels are sampled.
    pub brick: BrickIndex,
    /// The samples that belong to the job; inside the brick's owned box.
    pub owned: VoxelBox,
    /// The pixels to render.
    pub rect: PixelRect,
}

/// What a job became.
#[derive(Clone, Debug)]
pub struct RenderedJob {
    /// Premultiplied linear RGBA of the job's rectangle.
    pub image: SubImage,
    /// Time that the device worked on it, microseconds.
    pub elapsed_micros: u64,
    /// What its surfaces lack of their light; `None`: it is all there.
    pub unlit: Option<Box<UnlitJob>>,
}

impl RenderedJob {
    /// A job that lacks nothing.
    #[must_use]
    pub fn new(image: SubImage, elapsed_micros: u64) -> Self {
        Self {
            image,
            elapsed_micros,
            unlit: None,
        }
    }
}

/// Whether what is rendered is wanted still.
pub type IsWanted<'a> = &'a (dyn Fn() -> bool + Sync);

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// All cores of this machine.
    Cpu,
    /// A Vulkan device.
    Vulkan,
}

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kind.
    pub kind: DeviceKind,
    /// Name for people: the processor or the GPU, and how it samples.
    pub name: String,
    /// Memory that bricks may take, in bytes: what was asked for, or less where the device has
    /// less.
    pub memory_bytes: u64,
    /// How much of it bricks take.
    pub brick_bytes: BrickBytes,
}

/// Why a device could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The job's brick is not on the device: load it, or give the job to a holder.
    #[error("brick {} is not resident", brick.0)]
    NotResident {
        /// Brick asked for.
        brick: BrickIndex,
    },
    /// The job's box is not inside its brick.
    #[error("job box {owned:?} is not inside brick {} with {brick_box:?}", brick.0)]
    Outside {
        /// Brick asked for.
        brick: BrickIndex,
        /// Box asked for.
        owned: VoxelBox,
        /// What the brick owns.
        brick_box: VoxelBox,
    },
    /// [`RenderDevice::set_scene`] was not called before.
    #[error("no scene was set")]
    NoScene,
    /// Device memory is full: unload bricks, or hold fewer.
    #[error("out of device memory: {what}")]
    OutOfMemory {
        /// What was to be allocated, and what the device said.
        what: String,
    },
    /// There is no such device on this machine, or it cannot be used.
    #[error("{what}")]
    Unavailable {
        /// Why.
        what: String,
    },
    /// Nobody wants the picture any more.
    #[error("the picture was called off")]
    CalledOff,
    /// The device failed at what it was asked, and goes on.
    #[error("device failed: {what}")]
    Failed {
        /// What the driver said.
        what: String,
    },
    /// The device is gone, with all bricks on it: drop it and open it anew.
    #[error("device lost: {what}")]
    Lost {
        /// What the driver said.
        what: String,
    },
}

/// A device that holds bricks and renders jobs of them. One thread drives it.
///
/// After an error other than [`DeviceError::Lost`] it goes on as before: the brick is not there, the
/// scene not set, the job not rendered. One that was lost says so to whatever it is asked next.
pub trait RenderDevice: Send {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// What works out on other threads what it needs of bricks.
    fn preparation(&self) -> Preparation;

    /// Takes a brick into device memory; one already there under this key is replaced.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Failed`], [`DeviceError::Lost`].
    fn load_prepared(&mut self, key: BrickKey, brick: PreparedBrick) -> Result<(), DeviceError>;

    /// The same of a brick of which nothing is worked out yet.
    ///
    /// # Errors
    /// As [`Self::load_prepared`].
    fn load_brick(&mut self, key: BrickKey, voxels: BrickVoxels) -> Result<(), DeviceError> {
        self.load_prepared(key, voxels.into())
    }

    /// Frees a brick; nothing happens where it is not there.
    fn unload_brick(&mut self, key: BrickKey);

    /// Sets what the following jobs show, whatever bricks come and go.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Failed`], [`DeviceError::Lost`].
    fn set_scene(&mut self, scene: &Scene) -> Result<(), DeviceError>;

    /// Renders jobs of the current scene as long as they are wanted, which is asked now and then, from
    /// any thread. They may be rendered side by side, which takes less time than one after the other: small
    /// jobs do not keep a device busy. Returns what became of each, in their order; the time of each is its
    /// share of the time that passed while they were rendered.
    ///
    /// The errors are any [`DeviceError`]; [`DeviceError::CalledOff`] where they are wanted no more.
    fn render_all(
        &mut self,
        jobs: &[Job],
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>>;

    /// Goes on with jobs of the current scene that lacked light: their rays go through those of the bricks that they wait for that are
    /// there. Returns as [`Self::render_all`] does; the time of each is all that it took.
    fn go_on(
        &mut self,
        jobs: Vec<RenderedJob>,
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>>;

    /// Renders a job of the current scene as long as it is wanted.
    ///
    /// # Errors
    /// As [`Self::render_all`].
    fn render_while(
        &mut self,
        job: &Job,
        is_wanted: IsWanted<'_>,
    ) -> Result<RenderedJob, DeviceError> {
        let rendered = self.render_all(std::slice::from_ref(job), is_wanted).pop();
        rendered.unwrap_or_else(|| {
            Err(DeviceError::Failed {
                what: "nothing is said of the job".to_owned(),
            })
        })
    }

    /// Renders a job of the current scene to its end.
    ///
    /// # Errors
    /// [`DeviceError`], any but [`DeviceError::CalledOff`].
    fn render(&mut self, job: &Job) -> Result<RenderedJob, DeviceError> {
        self.render_while(job, &|| true)
    }
}

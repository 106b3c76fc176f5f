//! The Vulkan device: bricks as 3D images, jobs as dispatches of the raycast kernel.
//!
//! Shapes: a brick is one image of its stored box; jobs' pictures are cut into bands of whole rows, each a
//! dispatch. As many as fit a buffer are submitted together and waited for.
//! Invariants: sums of the bricks' image sizes stay below `memory_bytes`, and so does what is taken
//! from the device for them but for a block a data set (see `memory`); the time of a submission is shared by
//! the device's clock where it has one; full precision end to end (see `voxel_image`).
//! Besides the bricks, the device's memory holds the pixels of a submission, points of surfaces that are to be lit or rays from
//! there, and the staging of copies that wait and of a large one:
//! at most [`WORKING_BYTES_MAX`], less where that is not to be had.
//!
//! Not here: several queues, sharing of images between devices.

mod bands;
mod choice;
mod explain;
mod gpu;
mod kernels;
mod lighting;
mod memory;
mod params;
mod pictures;
mod reflections;
mod resident;
mod upload;
mod voxel_image;

pub use choice::{VulkanDeviceSummary, VulkanKind, enumerate};

use crate::{
    classifier::Classifier,
    constants::CELL_EDGE,
    device::{
        BrickKey, DeviceError, DeviceInfo, DeviceKind, IsWanted, Job, RenderDevice, RenderedJob,
        preparation::{Preparation, PreparedBrick},
    },
    scene::Scene,
    secondary::SecondaryRays,
    transfer_table::TransferTable,
    triangle_tree::TriangleTree,
};
use bands::{Band, BandedJob, next_bands, shares, timed_groups};
use brickmesh_topology::{
    BrickBytes, BrickIndex, Digest, PixelRect, VoxelBox, VoxelType, picture::render_settings::Mode,
};
use explain::Explain;
use gpu::{Commands, Gpu, Home, dispatch};
use kernels::{Purpose, RaycastVariant};
use lighting::{POINTS_BYTES_MAX, Part, PointBuffers, RAYS_BYTES_MAX, rays_together};
use params::{JobParams, SceneParams};
use pictures::{GROUP_EDGE, PICTURE_BYTES_MAX, Pictures};
use resident::{ResidentSet, TREE_ROW, Visibility, brick_measure, no_leaps, no_tree};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use upload::{Uploads, upload};
use voxel_image::{VoxelImageKind, WIDE_BYTES_MAX};
use vulkano::{
    buffer::{BufferUsage, Subbuffer},
    descriptor_set::{DescriptorSet, WriteDescriptorSet},
    format::Format,
    image::{
        ImageType,
        sampler::{Filter, Sampler, SamplerAddressMode, SamplerCreateInfo},
        view::ImageView,
    },
    pipeline::{ComputePipeline, Pipeline},
};

/// Memory that pictures, uploads, and points and rays of surfaces take besides the bricks, in bytes.
pub const WORKING_BYTES_MAX: u64 =
    PICTURE_BYTES_MAX + upload::STAGING_BYTES + POINTS_BYTES_MAX + RAYS_BYTES_MAX;
/// Pixels that are timed together on a GPU, at least: about the rays that a large one works on at a time. Where fewer are, it
/// waits for the longest ray of each group: half a millisecond (NVIDIA H100, bricks of 64³ in 512²).
const TIMED_PIXELS: usize = 1 << 17;
/// Table error, relative to a range of 1, for which the sampler looks it up: below what 16 bits
/// of colour show.
const TABLE_ERROR_MAX: f32 = 1.0 / 65_536.0;

/// A device that renders through Vulkan.
#[derive(Debug)]
pub struct VulkanDevice {
    info: DeviceInfo,
    reason: String,
    gpu: Gpu,
    linear: Arc<Sampler>,
    nearest: Arc<Sampler>,
    table_by_sampler: bool,
    kinds: Vec<(VoxelType, VoxelImageKind)>,
    pipelines: BTreeMap<RaycastVariant, Arc<ComputePipeline>>,
    sets: BTreeMap<Digest, ResidentSet>,
    scene: Option<CurrentScene>,
    pictures: Pictures,
    points: PointBuffers,
    rays: Option<Subbuffer<[[f32; 4]]>>,
    /// How many secondary rays go together.
    rays_together: usize,
    /// Time that went into compiling kernels.
    compiled: Duration,
    preparation: Preparation,
    uploads: Uploads,
    /// Pixels that are timed together, at least.
    timed_pixels: usize,
    /// Stands where a kernel that does not leap has a binding for leaps.
    no_leaps: Arc<ImageView>,
    /// The same for triangles.
    no_tree: Arc<ImageView>,
}

#[derive(Debug)]
struct CurrentScene {
    data_set: Digest,
    dims: [u32; 3],
    mode: Mode,
    is_shaded: bool,
    has_segments: bool,
    has_extras: bool,
    has_extras_of_opacity: bool,
    /// Those that go on from surfaces.
    rays: Option<Arc<SecondaryRays>>,
    has_isosurfaces: bool,
    shows_triangles: bool,
    clip_bounds: Option<[[f64; 3]; 2]>,
    classifier: Classifier,
    /// Changes whenever the classifier does.
    table_number: u64,
    table_view: Arc<ImageView>,
    params: Subbuffer<[SceneParams]>,
}

impl VulkanDevice {
    /// Opens device `index` of [`enumerate`], or the best: discrete, then integrated, virtual,
    /// cpu. Bricks may take `memory_bytes`, by default three quarters of the device's memory, in
    /// any case seven eighths of it at most: see [`DeviceInfo::memory_bytes`].
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] where there is no such device; [`DeviceError::Failed`] or
    /// [`DeviceError::OutOfMemory`] where it does not work.
    pub fn new(index: Option<usize>, memory_bytes: Option<u64>) -> Result<Self, DeviceError> {
        let (physical, reason) = choice::choose(index)?;
        let gpu = Gpu::open(&physical)?;
        let sampler = |filter| {
            gpu.sampler(SamplerCreateInfo {
                mag_filter: filter,
                min_filter: filter,
                address_mode: [SamplerAddressMode::ClampToEdge; 3],
                ..Default::default()
            })
        };
        let (linear, nearest) = (sampler(Filter::Linear)?, sampler(Filter::Nearest)?);
        let table_error = voxel_image::probe_table(&gpu, &linear)?;
        let kinds = VoxelImageKind::choose_all(&gpu, Some(&linear))?;
        let memory_bytes = memory_for_bricks(choice::memory_bytes(&physical), memory_bytes);
        let info = DeviceInfo {
            kind: DeviceKind::Vulkan,
            name: name(&physical.properties().device_name, &kinds),
            memory_bytes,
            brick_bytes: brick_bytes(&gpu, &kinds, memory_bytes),
        };
        tracing::info!(device = %info.name, %reason, "vulkan device opened");
        let (kind, mut uploads) = (choice::kind(&physical), Uploads::default());
        Ok(Self {
            info,
            reason,
            linear,
            nearest,
            table_by_sampler: table_error.is_some_and(|e| e <= TABLE_ERROR_MAX),
            pictures: Pictures::new(kind == VulkanKind::Discrete),
            points: PointBuffers::new(kind == VulkanKind::Discrete),
            rays: None,
            rays_together: rays_together(kind),
            compiled: Duration::ZERO,
            timed_pixels: match kind {
                VulkanKind::Cpu => 1,
                _ => TIMED_PIXELS,
            },
            kinds,
            preparation: Preparation::new(CELL_EDGE),
            pipelines: BTreeMap::new(),
            sets: BTreeMap::new(),
            scene: None,
            no_leaps: no_leaps(&gpu, &mut uploads)?,
            no_tree: no_tree(&gpu, &mut uploads)?,
            uploads,
            gpu,
        })
    }

    /// Why this device and no other, for people.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Behaves for the bricks that follow as on a GPU with memory of its own and a coarse sampler:
    /// kernels interpolate voxels and table, pixels are copied back. For tests on machines
    /// without such a GPU; costs speed on any other.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] where no image format is left.
    pub fn distrust_sampler(&mut self) -> Result<(), DeviceError> {
        self.kinds = VoxelImageKind::choose_all(&self.gpu, None)?;
        self.info.name = name(&self.gpu.physical().properties().device_name, &self.kinds);
        self.info.brick_bytes = brick_bytes(&self.gpu, &self.kinds, self.info.memory_bytes);
        self.table_by_sampler = false;
        self.pictures = Pictures::new(true);
        self.points = PointBuffers::new(true);
        self.timed_pixels = TIMED_PIXELS;
        Ok(())
    }

    /// Behaves from now on as one that hangs: nothing that is submitted ends in time. For tests; the
    /// memory of what is under way then is never freed.
    pub fn hang(&mut self) {
        self.gpu.hang();
    }

    /// Bytes that the images of resident bricks take.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.sets.values().map(ResidentSet::image_bytes).sum()
    }

    /// Bytes that were taken from the device for bricks: blocks are not full.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.sets.values().map(ResidentSet::taken_bytes).sum()
    }

    /// Bytes that one more brick of a data set may take.
    fn room_in(&self, data_set: Digest) -> u64 {
        let own = self.sets.get(&data_set).map_or(0, ResidentSet::image_bytes);
        let others = self.sets.iter().filter(|(d, _)| **d != data_set);
        let others: u64 = others.map(|(_, set)| set.taken_bytes()).sum();
        self.info.memory_bytes.saturating_sub(own + others)
    }

    /// Whether one more brick of so many voxels on each axis may be stored in a wider image.
    fn has_wide_room(&self, kind: &VoxelImageKind, size: [u32; 3]) -> bool {
        let room = wide_bytes_max(self.info.memory_bytes).saturating_sub(self.used_bytes());
        let bytes = || brick_measure(&self.gpu)(kind, size);
        room > 0 && bytes().is_some_and(|bytes| bytes <= room)
    }

    fn kind(&self, voxel: VoxelType) -> Result<VoxelImageKind, DeviceError> {
        let found = self.kinds.iter().find(|(v, _)| *v == voxel);
        found
            .map(|(_, kind)| kind.clone())
            .ok_or_else(|| DeviceError::Failed {
                what: format!("no image format for {}", voxel.name()),
            })
    }

    fn check_extent(&self, size: [u32; 3]) -> Result<(), DeviceError> {
        let edge_max = self.gpu.physical().properties().max_image_dimension3_d;
        if size.iter().all(|&n| n <= edge_max) {
            return Ok(());
        }
        Err(DeviceError::Unavailable {
            what: format!(
                "a brick of {}x{}x{} voxels is larger than this device's 3D images \
                 ({edge_max} on an axis); take smaller bricks",
                size[0], size[1], size[2]
            ),
        })
    }

    fn check_tree(&self, tree: Option<&TriangleTree>) -> Result<(), DeviceError> {
        let rows_max = self.gpu.physical().properties().max_image_dimension2_d as usize;
        let rows = tree.map_or(0, |tree| tree.word_count().div_ceil(TREE_ROW));
        if rows <= rows_max && TREE_ROW <= rows_max {
            return Ok(());
        }
        Err(DeviceError::Unavailable {
            what: format!(
                "the triangles of a brick need {rows} rows of this device's images, which have {rows_max}; \
                 take smaller bricks"
            ),
        })
    }

    fn pipeline(&mut self, variant: RaycastVariant) -> Result<Arc<ComputePipeline>, DeviceError> {
        if let Some(pipeline) = self.pipelines.get(&variant) {
            return Ok(pipeline.clone());
        }
        let (spirv, entry) = kernels::raycast(variant)?;
        let begun = Instant::now();
        let pipeline = self.gpu.pipeline(spirv, entry)?;
        self.compiled += begun.elapsed();
        tracing::debug!(?variant, elapsed = ?begun.elapsed(), "raycast kernel compiled");
        self.pipelines.insert(variant, pipeline.clone());
        Ok(pipeline)
    }

    /// What is to be done of a job of the current scene.
    fn begin(&mut self, job: &Job) -> Result<BandedJob, DeviceError> {
        let (brick_box, visibility) = self.visibility_of(job.brick)?;
        if !brick_box.contains_box(&job.owned) {
            return Err(DeviceError::Outside {
                brick: job.brick,
                owned: job.owned,
                brick_box,
            });
        }
        Ok(BandedJob::new(*job, visibility))
    }

    /// What a brick owns, and what the current scene shows of it.
    fn visibility_of(&mut self, brick: BrickIndex) -> Result<(VoxelBox, Visibility), DeviceError> {
        let scene = self.scene.as_ref().ok_or(DeviceError::NoScene)?;
        let set = self.sets.get_mut(&scene.data_set);
        let resident = set.and_then(|s| s.get_mut(brick));
        let resident = resident.ok_or(DeviceError::NotResident { brick })?;
        let values = &scene.classifier.values;
        let uploads = (&self.gpu, &mut self.uploads);
        let visibility = resident.visibility(uploads, values, scene.table_number)?;
        Ok((resident.owned, visibility))
    }

    /// The dispatch for what is seen in a box of a brick; `writes`: its own buffers.
    fn dispatch_of(
        &mut self,
        (brick, owned, visibility): (BrickIndex, &VoxelBox, &Visibility),
        rect: &PixelRect,
        purpose: Purpose,
        writes: impl IntoIterator<Item = WriteDescriptorSet>,
    ) -> Result<BandDispatch, DeviceError> {
        let scene = self.scene.as_ref().ok_or(DeviceError::NoScene)?;
        let not_resident = DeviceError::NotResident { brick };
        let resident = self.sets.get(&scene.data_set);
        let brick = resident.and_then(|s| s.get(brick)).ok_or(not_resident)?;
        let by_sampler = brick.kind.by_sampler;
        let params = JobParams::new(
            owned,
            &brick.stored,
            scene.clip_bounds,
            scene.dims,
            rect,
            &brick.kind,
            &scene.classifier.table,
        );
        let leaps = match visibility {
            Visibility::Some(view) => view.clone(),
            _ => self.no_leaps.clone(),
        };
        let tree = brick.tree.as_ref().filter(|_| scene.shows_triangles);
        let surfaces = scene.has_isosurfaces || tree.is_some();
        let tree = tree.unwrap_or(&self.no_tree).clone();
        let sampler = |linear| if linear { &self.linear } else { &self.nearest };
        let shared = [
            WriteDescriptorSet::image_view(0, brick.view.clone()),
            WriteDescriptorSet::sampler(1, sampler(by_sampler).clone()),
            WriteDescriptorSet::image_view(2, scene.table_view.clone()),
            WriteDescriptorSet::buffer(4, scene.params.clone()),
            WriteDescriptorSet::sampler(5, sampler(self.table_by_sampler).clone()),
            WriteDescriptorSet::image_view(6, leaps),
            WriteDescriptorSet::image_view(7, tree),
        ];
        let variant = RaycastVariant {
            purpose,
            mode: scene.mode,
            voxels_by_sampler: by_sampler,
            table_by_sampler: self.table_by_sampler,
            shaded: scene.is_shaded,
            leaps: matches!(visibility, Visibility::Some(_)),
            segments: scene.has_segments,
            extras: match purpose {
                Purpose::GoThrough => scene.has_extras_of_opacity,
                Purpose::Pixels | Purpose::LitLater | Purpose::Reflected => scene.has_extras,
            },
            surfaces,
        };
        let pipeline = self.pipeline(variant.compiled())?;
        let writes = shared.into_iter().chain(writes);
        Ok(BandDispatch {
            set: self.gpu.descriptor_set(&pipeline, writes)?,
            pipeline,
            params,
            groups: [rect.width, rect.height].map(|n| n.div_ceil(GROUP_EDGE)),
        })
    }

    /// Goes on with smaller submissions, as memory was short; false where they are as small as can be.
    fn go_on_with_less(&mut self) -> bool {
        let keeps_points = self.scene.as_ref().is_some_and(|s| s.rays.is_some());
        self.pictures.halve_bands() | (keeps_points && self.points.halve())
    }

    /// Renders bands side by side, and adds them to their jobs; not where points of surfaces found no room: there is more now.
    fn render_bands(
        &mut self,
        jobs: &mut [Result<BandedJob, DeviceError>],
        bands: &[Band],
        count: u64,
    ) -> Result<(), DeviceError> {
        let buffers = self.pictures.buffers(&self.gpu, count)?;
        let is_lit_later = self.scene.as_ref().is_some_and(|s| s.rays.is_some());
        let points = is_lit_later.then(|| self.points.of(&self.gpu, bands));
        let points = points.transpose()?;
        let mut dispatches = Vec::with_capacity(bands.len());
        for (at, band) in bands.iter().enumerate() {
            let begun = jobs[band.of].as_ref().map_err(Clone::clone)?;
            let (job, rect) = (&begun.job, &band.rect);
            let last = band.first + rect.pixel_count() as u64;
            let pixels = buffers.written.clone().slice(band.first..last);
            let points = points.as_ref().map(|points| points.binding(at));
            let points_max = points.as_ref().map_or(0, |(_, most)| *most);
            let purpose = match points {
                Some(_) => Purpose::LitLater,
                None => Purpose::Pixels,
            };
            let writes = [WriteDescriptorSet::buffer(3, pixels)].into_iter();
            let writes = writes.chain(points.map(|(points, _)| points));
            let seen = (job.brick, &job.owned, &begun.visibility);
            let mut dispatch = self.dispatch_of(seen, rect, purpose, writes)?;
            dispatch.params.points_max = points_max;
            dispatches.push(dispatch);
        }
        // Kernels are compiled by now, which is no job's time.
        let begun = Instant::now();
        let copy_back = |commands: &mut Commands| {
            buffers.copy_back(commands, count)?;
            points.as_ref().map_or(Ok(()), |p| p.copy_back(commands))
        };
        let groups = timed_groups(bands, self.timed_pixels);
        let timed: Vec<_> = groups.iter().map(|g| &dispatches[g.clone()]).collect();
        let fill = |commands: &mut Commands| {
            self.uploads.record(commands)?;
            points.as_ref().map_or(Ok(()), |p| p.clear(commands))
        };
        let ticks = (self.gpu).submit_timed(fill, &timed, BandDispatch::record, copy_back)?;
        self.uploads.were_carried_out();
        let mut points = match points.map(|points| self.points.take(&points)).transpose()? {
            Some(None) => return Ok(()),
            points => points.flatten().into_iter().flatten(),
        };
        let pixels = buffers.read()?;
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        for (band, micros) in bands.iter().zip(shares(bands, &groups, ticks, micros)) {
            let points = points.next();
            if let Ok(job) = &mut jobs[band.of] {
                let first = usize::try_from(band.first).unwrap_or(usize::MAX);
                job.add(&pixels[first..][..band.rect.pixel_count()], micros);
                job.points.extend(points.into_iter().flatten());
            }
        }
        Ok(())
    }

    /// The rendered jobs, with the light on their surfaces.
    fn lit(
        &mut self,
        jobs: Vec<Result<BandedJob, DeviceError>>,
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let rays = self.scene.as_ref().and_then(|s| s.rays.clone());
        let (mut points, mut whole) = (Vec::new(), Vec::new());
        let mut done = Vec::with_capacity(jobs.len());
        for job in jobs {
            let of_job =
                job.and_then(|mut job| Ok((std::mem::take(&mut job.points), job.whole()?)));
            done.push(of_job.map(|(of_job, job)| {
                points.push(of_job);
                whole.push(job);
            }));
        }
        if let Some(rays) = &rays {
            let parts = points.iter().enumerate();
            let parts = parts.flat_map(|(job, of)| Part::all_of(of, rays).map(move |p| (job, p)));
            if let Err(error) = self.light(&mut whole, parts, rays, is_wanted) {
                return done
                    .into_iter()
                    .map(|d| d.and(Err(error.clone())))
                    .collect();
            }
        }
        let mut whole = whole.into_iter();
        let next =
            |d: Result<(), DeviceError>| d.and_then(|()| whole.next().ok_or(DeviceError::NoScene));
        done.into_iter().map(next).collect()
    }
}

/// A dispatch that renders a band, or sends rays through a brick.
struct BandDispatch {
    pipeline: Arc<ComputePipeline>,
    set: Arc<DescriptorSet>,
    params: JobParams,
    groups: [u32; 2],
}

impl BandDispatch {
    fn record(commands: &mut Commands, band: &Self) -> Result<(), DeviceError> {
        let [across, down] = band.groups;
        commands
            .push_constants(band.pipeline.layout().clone(), 0, band.params)
            .explain("passing a job's parameters")?;
        dispatch(
            commands,
            &band.pipeline,
            band.set.clone(),
            [across, down, 1],
        )
    }
}

impl RenderDevice for VulkanDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn preparation(&self) -> Preparation {
        self.preparation.clone()
    }

    fn load_prepared(&mut self, key: BrickKey, brick: PreparedBrick) -> Result<(), DeviceError> {
        let tree = brick.tree().cloned();
        let (voxels, cells) = self.preparation.complete(brick);
        let of_floats = self.kind(VoxelType::F32)?;
        let kind = self.kind(voxels.voxel())?;
        let kind = kind.for_numbers(voxels.numbers(), &of_floats);
        let size = voxels.stored().size();
        self.check_extent(size)?;
        self.check_tree(tree.as_deref())?;
        self.unload_brick(key);
        let room = self.room_in(key.data_set);
        let kind = if kind.is_wide() && !self.has_wide_room(&kind, size) {
            kind.narrowed(&self.gpu).unwrap_or(kind)
        } else {
            kind
        };
        let set = self
            .sets
            .entry(key.data_set)
            .or_insert_with(|| ResidentSet::new(&self.gpu, self.info.memory_bytes));
        let loaded = set.load(
            (&self.gpu, &mut self.uploads),
            key.brick,
            kind,
            (&voxels, cells, tree.as_deref()),
            room,
        );
        if set.is_empty() {
            self.sets.remove(&key.data_set);
        }
        loaded?.map_err(|bytes| DeviceError::OutOfMemory {
            what: format!(
                "brick {} takes {bytes} bytes, {room} of {} are free",
                key.brick.0, self.info.memory_bytes
            ),
        })
    }

    fn unload_brick(&mut self, key: BrickKey) {
        if let Some(set) = self.sets.get_mut(&key.data_set) {
            set.remove(key.brick);
            if set.is_empty() {
                self.sets.remove(&key.data_set);
            }
        }
    }

    fn set_scene(&mut self, scene: &Scene) -> Result<(), DeviceError> {
        let scene = &scene.scaled();
        let before = self.scene.as_ref();
        let classifier = Classifier::of(scene, before.map(|b| &b.classifier));
        let (table_number, table_view) = match before {
            Some(before) if before.classifier.is_same(&classifier) => {
                (before.table_number, before.table_view.clone())
            }
            _ => (
                before.map_or(0, |b| b.table_number + 1),
                upload_table(&self.gpu, &classifier.table)?,
            ),
        };
        let params = self
            .gpu
            .buffer(BufferUsage::UNIFORM_BUFFER, Home::Upload, 1)?;
        let values = SceneParams::new(scene, &classifier.table);
        params.write().explain("writing a scene's parameters")?[0] = values;
        let shown = Arc::clone(&classifier.values);
        self.points.begin();
        self.scene = Some(CurrentScene {
            data_set: scene.data_set,
            dims: scene.volume.dims,
            mode: scene.settings.mode.combination(),
            is_shaded: scene.settings.needs_gradients(),
            has_segments: scene.settings.is_preintegrated(),
            has_extras: values.has_extras(),
            has_extras_of_opacity: values.has_extras_of_opacity(),
            rays: SecondaryRays::of(scene).map(Arc::new),
            has_isosurfaces: !scene.settings.surfaces().is_empty(),
            shows_triangles: !scene.materials.is_empty(),
            clip_bounds: scene.settings.clip.bounds,
            classifier,
            table_number,
            table_view,
            params,
        });
        self.preparation.set_values(&shown);
        Ok(())
    }

    fn render_all(
        &mut self,
        jobs: &[Job],
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let begin = |job| {
            if is_wanted() {
                self.begin(job)
            } else {
                Err(DeviceError::CalledOff)
            }
        };
        let mut jobs: Vec<_> = jobs.iter().map(begin).collect();
        while is_wanted() {
            let begun = jobs.iter().enumerate();
            let begun = begun.filter_map(|(at, job)| Some((at, job.as_ref().ok()?)));
            let (mut pixels_max, rows_max) = self.pictures.band_bounds(&self.gpu);
            if self.scene.as_ref().is_some_and(|s| s.rays.is_some()) {
                pixels_max = pixels_max.min(self.points.pixels_max());
            }
            let bands = next_bands(begun, pixels_max, rows_max);
            let Some(last) = bands.last() else {
                break;
            };
            let count = last.first + last.rect.pixel_count() as u64;
            let start = Instant::now();
            match self.render_bands(&mut jobs, &bands, count) {
                Ok(()) => self.pictures.took(count, start.elapsed()),
                Err(DeviceError::OutOfMemory { .. }) if self.go_on_with_less() => {}
                Err(error) => {
                    for band in bands {
                        jobs[band.of] = Err(error.clone());
                    }
                }
            }
        }
        self.lit(jobs, is_wanted)
    }

    fn go_on(
        &mut self,
        mut jobs: Vec<RenderedJob>,
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let rays = self.scene.as_ref().and_then(|s| s.rays.clone());
        let mut parts = Vec::new();
        for (at, job) in jobs.iter_mut().enumerate() {
            let unlit = job.unlit.take().filter(|_| rays.is_some());
            let of_job = unlit.into_iter().flat_map(|unlit| unlit.parts);
            parts.extend(of_job.map(|part| (at, Part::Begun(part))));
        }
        let lit = rays.map_or(Ok(()), |rays| {
            self.light(&mut jobs, parts.into_iter(), &rays, is_wanted)
        });
        let tell = |job| lit.clone().map(|()| job);
        jobs.into_iter().map(tell).collect()
    }
}

/// Bytes that bricks may take of a device's memory: an eighth is left to pictures, uploads and
/// other programs, whatever was asked for.
fn memory_for_bricks(memory_bytes: u64, asked: Option<u64>) -> u64 {
    let most = memory_bytes / 8 * 7;
    asked.unwrap_or(memory_bytes / 4 * 3).min(most)
}

/// Device memory up to which bricks are stored in wider images than their own, where they may take so much.
fn wide_bytes_max(memory_bytes: u64) -> u64 {
    WIDE_BYTES_MAX.min(memory_bytes / 4)
}

/// What bricks take in `memory_bytes` that are full of them, on average: images are padded, and the first ones may be
/// wider. Beside bricks of types that are not widened it is too little, and some of these find no room.
fn brick_bytes(gpu: &Gpu, kinds: &[(VoxelType, VoxelImageKind)], memory_bytes: u64) -> BrickBytes {
    let of_kind = brick_measure(gpu);
    let kinds: Vec<_> = (kinds.iter())
        .map(|(voxel, kind)| (*voxel, kind.clone(), kind.narrowed(gpu)))
        .collect();
    BrickBytes::measured(move |size, voxel| {
        let kind = kinds.iter().find(|k| k.0 == voxel);
        let bytes = kind.and_then(|(_, kind, narrow)| match narrow {
            Some(narrow) if kind.is_wide() => {
                let (bytes, wide) = (of_kind(narrow, size)?, of_kind(kind, size)?.max(1));
                let wide_count = wide_bytes_max(memory_bytes) / wide;
                let wide_bytes = wide_count * wide;
                let count = wide_count + (memory_bytes - wide_bytes) / bytes.max(1);
                let taken = wide_bytes + (count - wide_count) * bytes;
                Some(taken.div_ceil(count.max(1)).max(bytes))
            }
            _ => of_kind(kind, size),
        });
        // A device that is gone tells nothing more.
        bytes.unwrap_or_else(|| BrickBytes::default().of(size, voxel))
    })
}

/// The device's name and, for people, the voxel types that its sampler is too coarse for.
fn name(device: &str, kinds: &[(VoxelType, VoxelImageKind)]) -> String {
    let by_hand: Vec<_> = kinds
        .iter()
        .filter(|(_, kind)| !kind.by_sampler)
        .map(|(voxel, _)| voxel.name())
        .collect();
    if by_hand.is_empty() {
        format!("{device}, linear sampler")
    } else {
        format!("{device}, interpolates {} itself", by_hand.join(" "))
    }
}

/// A scene's table as an image: on llvmpipe twice as fast as a storage buffer.
fn upload_table(gpu: &Gpu, table: &TransferTable) -> Result<Arc<ImageView>, DeviceError> {
    let size = [table.columns, table.rows(), 1].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let format = Format::R32G32B32A32_SFLOAT;
    let image = gpu.image(format, ImageType::Dim2d, size)?;
    let texels: &[u8] = bytemuck::cast_slice(&table.entries);
    upload(gpu, &image, texels.len() / table.entries.len(), |_, out| {
        out.copy_from_slice(texels);
    })?;
    ImageView::new_default(image).explain("viewing the transfer function")
}

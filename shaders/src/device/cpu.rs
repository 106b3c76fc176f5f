//! The CPU device: all cores of this machine, AVX2 packets where the processor has them.
//!
//! Bricks stay in the buffers that they came in; beside them, the device keeps the value ranges
//! of their macrocells (two voxels for 64) and what the current transfer function sees of them (a
//! byte for 64 voxels, and one more for each octant that rays go to).
//!
//! Not here: which bricks to hold (topology), decoding (node).

mod field;
mod frame;
mod lighting;
#[cfg(target_arch = "x86_64")]
mod packet;
#[cfg(target_arch = "x86_64")]
mod packet_hits;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions")]
mod packet_modes;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector loads take raw pointers")]
mod packet_rays;
#[cfg(target_arch = "x86_64")]
mod packet_table;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "loads take raw pointers")]
mod packet_voxel;
mod ray;
mod scalar;
mod surface_hits;
mod surfaces;
#[cfg(test)]
mod tests;
mod visible_tiles;
pub(crate) mod voxel;

use crate::{
    brick::BrickVoxels,
    classifier::Classifier,
    device::{
        BrickKey, DeviceError, DeviceInfo, DeviceKind, IsWanted, Job, RenderDevice, RenderedJob,
        preparation::{BrickCells, Preparation, PreparedBrick},
    },
    page_memory::{PageMemory, PagedBricks},
    scene::Scene,
    secondary::{LitPoint, LitPoints, PixelLight, SecondaryRays, UnlitJob},
    sub_image::SubImage,
    triangle_tree::TriangleTree,
};
use brickmesh_topology::{BrickBytes, BrickIndex, PixelRect, VoxelBox, VoxelType};
use field::{CELL_EDGE, Field};
use frame::Frame;
use lighting::Lighting;
use rayon::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use visible_tiles::VisibleTiles;
use voxel::with_voxel;

/// Rows of pixels that a thread takes at a time; even, for packets.
const BAND_ROWS: u32 = 8;

/// Columns of pixels that are rendered before the next rows: what they read stays in cache.
const TILE_COLUMNS: u32 = 32;

/// Points of surfaces that a thread lights at a time: more take more memory.
const POINTS_TOGETHER: usize = 256;

/// Bricks that rays of a job that was put aside go on through, at most, where each is awaited: more push one another out of memory.
const PAGES_TOGETHER: usize = 8;

/// How rays are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2Packets,
}

/// A device that renders on the cores of this machine.
#[derive(Debug)]
pub struct CpuDevice {
    info: DeviceInfo,
    pool: rayon::ThreadPool,
    kernel: Kernel,
    /// Whether macrocells that cannot be seen are skipped; off in tests alone.
    skipping: bool,
    preparation: Preparation,
    bricks: BTreeMap<BrickKey, Resident>,
    /// Memory that they take.
    held_bytes: u64,
    /// Where bricks are that were not loaded; then none is.
    pages: Option<Arc<dyn PagedBricks>>,
    scene: Option<Current>,
}

/// A brick on the device.
#[derive(Debug)]
struct Resident {
    voxels: BrickVoxels,
    cells: BrickCells,
    tree: Option<Arc<TriangleTree>>,
}

impl Resident {
    fn bytes(&self) -> u64 {
        self.voxels.memory_bytes()
    }
}

/// The scene that was set.
#[derive(Debug)]
struct Current {
    frame: Frame,
    /// Where rays go on from surfaces.
    lighting: Option<Arc<Lighting>>,
    classifier: Classifier,
}

impl CpuDevice {
    /// The device with the fastest kernel that this processor has.
    ///
    /// `threads`: `None` is one for each core. `memory_bytes`: what bricks' voxels may take.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] where no threads can be started.
    pub fn new(threads: Option<NonZeroUsize>, memory_bytes: u64) -> Result<Self, DeviceError> {
        #[cfg(target_arch = "x86_64")]
        if packet::is_supported() {
            return Self::with_kernel(Kernel::Avx2Packets, threads, memory_bytes);
        }
        Self::scalar(threads, memory_bytes)
    }

    /// The device with the portable kernel, to compare with; arguments as in [`Self::new`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn scalar(threads: Option<NonZeroUsize>, memory_bytes: u64) -> Result<Self, DeviceError> {
        Self::with_kernel(Kernel::Scalar, threads, memory_bytes)
    }

    fn with_kernel(
        kernel: Kernel,
        threads: Option<NonZeroUsize>,
        memory_bytes: u64,
    ) -> Result<Self, DeviceError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.map_or(0, NonZeroUsize::get))
            .thread_name(|i| format!("brickmesh-cpu-{i}"))
            .build()
            .map_err(|error| DeviceError::Unavailable {
                what: format!("the CPU device's threads did not start: {error}"),
            })?;
        let way = match kernel {
            Kernel::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2Packets => "AVX2 packets",
        };
        let info = DeviceInfo {
            kind: DeviceKind::Cpu,
            name: format!("{}, {way}", processor_name()),
            memory_bytes,
            brick_bytes: BrickBytes::default(),
        };
        tracing::debug!(
            name = info.name,
            threads = pool.current_num_threads(),
            "CPU device"
        );
        Ok(Self {
            info,
            pool,
            kernel,
            skipping: true,
            preparation: Preparation::new(CELL_EDGE),
            bricks: BTreeMap::new(),
            held_bytes: 0,
            pages: None,
            scene: None,
        })
    }

    /// The device that reads bricks where they are, or come when they are read, in place of those that are loaded. It keeps
    /// what it works out of a brick until that is unloaded.
    #[must_use]
    pub fn reading(mut self, pages: Arc<dyn PagedBricks>) -> Self {
        self.info.name += ", page memory";
        self.info.brick_bytes = BrickBytes::measured(|size, voxel| {
            let voxels = BrickBytes::default().of(size, voxel);
            voxels.next_multiple_of(PageMemory::page_bytes() as u64)
        });
        self.pages = Some(pages);
        self
    }

    /// Makes bricks of the scene's data set known that are in page memory, or come while their macrocells are worked out; each on
    /// whichever thread is free.
    fn find_pages(&mut self, bricks: impl Iterator<Item = BrickIndex>, is_wanted: IsWanted<'_>) {
        let (Some(pages), Some(scene)) = (&self.pages, &self.scene) else {
            return;
        };
        let data_set = scene.frame.data_set;
        let keys = bricks.map(|brick| BrickKey { data_set, brick });
        let new: BTreeSet<BrickKey> = keys.filter(|key| !self.bricks.contains_key(key)).collect();
        let new: Vec<BrickKey> = new.into_iter().collect();
        let find = |key: BrickKey| {
            // Each may be waited for.
            let brick = is_wanted().then(|| pages.brick(key)).flatten()?;
            let brick = PreparedBrick::from(brick);
            let tree = brick.tree().cloned();
            let (voxels, cells) = self.preparation.complete(brick);
            let resident = Resident {
                voxels,
                cells,
                tree,
            };
            Some((key, resident))
        };
        let found = || {
            let found = new.into_par_iter().with_max_len(1).map(find);
            found.collect::<Vec<_>>()
        };
        let found = self.pool.install(found);
        self.bricks.extend(found.into_iter().flatten());
    }

    /// What became of jobs, unless some brick that they read could not be had: then nothing is known of any of them.
    fn unless_in_vain(
        &mut self,
        all: Vec<Result<RenderedJob, DeviceError>>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let in_vain = self.pages.as_ref().map(|pages| pages.take_in_vain());
        let in_vain = in_vain.unwrap_or_default();
        for key in &in_vain {
            self.bricks.remove(key);
        }
        let Some(&BrickKey { brick, .. }) = in_vain.first() else {
            return all;
        };
        let lacks = |_| Err(DeviceError::NotResident { brick });
        all.into_iter().map(lacks).collect()
    }

    /// Brings what the scene shows of a brick up to date; the box that it owns.
    fn show(&mut self, brick: BrickIndex) -> Result<VoxelBox, DeviceError> {
        let scene = self.scene.as_ref().ok_or(DeviceError::NoScene)?;
        let data_set = scene.frame.data_set;
        let resident = self.bricks.get_mut(&BrickKey { data_set, brick });
        let resident = resident.ok_or(DeviceError::NotResident { brick })?;
        if self.skipping {
            resident.cells.show(&scene.classifier.values);
        }
        Ok(resident.voxels.owned())
    }

    /// Brings what the scene shows of the job's brick up to date; microseconds that it took.
    fn prepare(&mut self, job: &Job) -> Result<u128, DeviceError> {
        let begun = Instant::now();
        let brick_box = self.show(job.brick)?;
        if !brick_box.contains_box(&job.owned) {
            return Err(DeviceError::Outside {
                brick: job.brick,
                owned: job.owned,
                brick_box,
            });
        }
        Ok(begun.elapsed().as_micros())
    }

    /// What a job, or a ray that goes on from a surface, meets in a box of a brick that is shown; `None`: nothing.
    fn seen_field(&self, brick: BrickIndex, owned: &VoxelBox) -> Option<(Field<'_>, VoxelType)> {
        let scene = self.scene.as_ref()?;
        let frame = &scene.frame;
        let data_set = frame.data_set;
        let brick = self.bricks.get(&BrickKey { data_set, brick })?;
        let skip = brick.cells.shown(&scene.classifier.values);
        let skip = skip.filter(|_| self.skipping);
        let tree = brick.tree.as_deref();
        let tree = tree.filter(|_| !frame.materials.is_empty());
        if tree.is_none() && skip.is_some_and(|grid| grid.visible().is_none()) {
            return None;
        }
        let field = Field::new(&brick.voxels, &frame.volume, owned, frame.clip_bounds, skip);
        Some((field.with_triangles(tree), brick.voxels.voxel()))
    }

    /// What is to be rendered of a job that is prepared; `None`: nothing of it is seen.
    fn seen_part(&self, job: &Job) -> Option<SeenPart<'_>> {
        let (field, voxel) = self.seen_field(job.brick, &job.owned)?;
        let frame = &self.scene.as_ref()?.frame;
        let seen = if field.triangles.is_some() {
            job.owned
        } else {
            field.visible_box()?
        };
        let rect = frame.view.rect_of(&frame.volume, &seen)?;
        let rect = rect.intersection(&job.rect)?;
        Some(SeenPart {
            rect,
            field,
            voxel,
            pixels: vec![[0.0; 4]; rect.pixel_count()],
            unlit: Mutex::default(),
            thread_nanos: AtomicU64::new(0),
        })
    }

    /// Brings what the scene shows of all bricks that rays may meet on their way up to date.
    fn show_casters(&mut self) {
        let Some(Current {
            frame,
            lighting: Some(lighting),
            classifier,
        }) = &self.scene
        else {
            return;
        };
        let casts =
            |key: &BrickKey| key.data_set == frame.data_set && lighting.rays.may_meet(key.brick);
        for (_, resident) in self
            .bricks
            .iter_mut()
            .filter(|(key, _)| self.skipping && casts(key))
        {
            resident.cells.show(&classifier.values);
        }
    }

    /// What a brick owns, if it is there.
    fn owned(&self, brick: BrickIndex) -> Option<VoxelBox> {
        let data_set = self.scene.as_ref()?.frame.data_set;
        let resident = self.bricks.get(&BrickKey { data_set, brick })?;
        Some(resident.voxels.owned())
    }

    /// Lets the rays of points go through those of the bricks on their way that are there, and those of points that they meet. `lit` is told
    /// of those whose rays lack none; the others are returned, as far as they are wanted.
    fn light(
        &self,
        points: LitPoints,
        lighting: &Lighting,
        is_wanted: IsWanted<'_>,
        mut lit: impl FnMut(&LitPoints),
    ) -> Vec<LitPoints> {
        let (mut parts, mut lacking) = (vec![points], Vec::new());
        while is_wanted()
            && let Some(mut part) = parts.pop()
        {
            part.go_on(&lighting.rays, |brick, ray| {
                let field = self.seen_field(brick, &self.owned(brick)?);
                Some(field.map_or(1.0, |(field, voxel)| lighting.through(&field, voxel, ray)))
            });
            let met = self.reflect(&mut part, &lighting.rays);
            parts.extend(part.following(&met, POINTS_TOGETHER, &lighting.rays));
            if part.is_lit() {
                lit(&part);
            } else {
                lacking.push(part);
            }
        }
        lacking
    }

    /// Lets reflected rays go through those of the bricks on their way that are there, in depth order; the points that they meet.
    fn reflect(&self, points: &mut LitPoints, rays: &SecondaryRays) -> Vec<LitPoint> {
        let mut met = Vec::new();
        let Some(scene) = &self.scene else {
            return met;
        };
        loop {
            let due = points.due_reflections(rays, |brick| self.owned(brick).is_some());
            if due.is_empty() {
                return met;
            }
            for (brick, due) in due {
                let field = self
                    .owned(brick)
                    .and_then(|owned| self.seen_field(brick, &owned));
                for due in due {
                    let seen = field.as_ref().map_or(due.seen, |(field, voxel)| {
                        lighting::reflected(&scene.frame, (field, *voxel), &due, &mut met)
                    });
                    points.was_reflected(due.number, seen, rays);
                }
            }
        }
    }

    /// Lights points, each part on whichever thread is free.
    fn light_all(
        &self,
        parts: impl IndexedParallelIterator<Item = LitPoints>,
        lighting: &Lighting,
        is_wanted: IsWanted<'_>,
    ) -> Vec<LitPart> {
        let light = |part: LitPoints| {
            let begun = Instant::now();
            let mut colors = Vec::new();
            let lacking = self.light(part, lighting, is_wanted, |part| {
                colors.extend(part.light_up(&lighting.rays));
            });
            LitPart {
                colors,
                lacking,
                nanos: nanos_since(begun),
            }
        };
        parts.with_max_len(1).map(light).collect()
    }

    /// Renders parts, the bands of all of them on whichever thread is free.
    fn render_parts(
        &self,
        scene: &Current,
        parts: &mut [Option<SeenPart<'_>>],
        is_wanted: IsWanted<'_>,
    ) {
        let mut parts: Vec<_> = parts.iter_mut().flatten().collect();
        let tiles = |part: &&mut SeenPart<'_>| part.tiles(&scene.frame);
        let tiles: Vec<_> = (self.pool).install(|| parts.par_iter().map(tiles).collect());
        let parts = parts.iter_mut().zip(&tiles);
        let bands: Vec<_> = parts.flat_map(|(part, tiles)| part.bands(tiles)).collect();
        let render = |mut band: Band<'_>| {
            if !is_wanted() {
                return;
            }
            let begun = Instant::now();
            let points = render_part(
                self.kernel,
                &scene.frame,
                &band.field,
                band.voxel,
                &band.rect,
                band.rows,
            );
            let mut nanos = nanos_since(begun);
            if let Some(lighting) = scene.lighting.as_deref().filter(|_| !points.is_empty()) {
                let parts = points.par_chunks(POINTS_TOGETHER);
                let parts = parts.map(|part| LitPoints::new(part.to_vec(), &lighting.rays));
                for lit in self.light_all(parts, lighting, is_wanted) {
                    lit.add_to(|pixel, color| band.add(pixel, color));
                    nanos += lit.nanos;
                    let unlit = band.unlit.lock();
                    let mut unlit = unlit.unwrap_or_else(PoisonError::into_inner);
                    unlit.extend(lit.lacking);
                }
            }
            band.thread_nanos.fetch_add(nanos, Ordering::Relaxed);
        };
        self.pool
            .install(|| bands.into_par_iter().with_max_len(1).for_each(render));
    }
}

/// What became of points that were lit together.
struct LitPart {
    /// What is added to which pixel.
    colors: Vec<PixelLight>,
    lacking: Vec<LitPoints>,
    nanos: u64,
}

impl LitPart {
    fn add_to(&self, mut add: impl FnMut([u32; 2], [f32; 3])) {
        let colors = self.colors.iter();
        colors.for_each(|(pixel, color)| add(*pixel, *color));
    }
}

/// The pixels of a job in which something of its brick may be seen.
struct SeenPart<'a> {
    rect: PixelRect,
    field: Field<'a>,
    voxel: VoxelType,
    pixels: Vec<[f32; 4]>,
    /// Points that lack light.
    unlit: Mutex<Vec<LitPoints>>,
    /// Time that threads worked on it, summed up.
    thread_nanos: AtomicU64,
}

/// Rows of pixels of a [`SeenPart`].
struct Band<'a> {
    rect: PixelRect,
    field: Field<'a>,
    voxel: VoxelType,
    rows: &'a mut [[f32; 4]],
    unlit: &'a Mutex<Vec<LitPoints>>,
    thread_nanos: &'a AtomicU64,
}

impl Band<'_> {
    /// Adds a colour to that of a pixel.
    fn add(&mut self, [x, y]: [u32; 2], color: [f32; 3]) {
        let (column, row) = ((x - self.rect.x) as usize, (y - self.rect.y) as usize);
        let pixel = &mut self.rows[row * self.rect.width as usize + column];
        pixel.iter_mut().zip(color).for_each(|(p, c)| *p += c);
    }
}

impl SeenPart<'_> {
    /// Where its surfaces and its samples may be seen, where that is worth to be known.
    fn tiles(&self, frame: &Frame) -> [Option<VisibleTiles>; 2] {
        let of = |skip: Option<_>| VisibleTiles::new(frame, &self.field, skip?, self.rect);
        let has_surfaces = self.field.triangles.is_none() && self.field.may_have_surfaces(frame);
        let surfaces = self.field.skip_for_surfaces.filter(|_| has_surfaces);
        let samples = self.field.skip.filter(|_| frame.has_samples);
        [of(surfaces), of(samples)]
    }

    fn bands<'b>(
        &'b mut self,
        [surfaces, samples]: &'b [Option<VisibleTiles>; 2],
    ) -> impl Iterator<Item = Band<'b>> {
        let (rect, voxel, unlit) = (self.rect, self.voxel, &self.unlit);
        let mut field: Field<'b> = self.field;
        (field.surface_tiles, field.sample_tiles) = (surfaces.as_ref(), samples.as_ref());
        let thread_nanos = &self.thread_nanos;
        let ys = (rect.y..rect.y + rect.height).step_by(BAND_ROWS as usize);
        let rows = (self.pixels).chunks_mut(rect.width as usize * BAND_ROWS as usize);
        ys.zip(rows).map(move |(y, rows)| Band {
            rect: PixelRect {
                y,
                height: (rect.y + rect.height - y).min(BAND_ROWS),
                ..rect
            },
            field,
            voxel,
            rows,
            unlit,
            thread_nanos,
        })
    }

    /// What it lacks of its light.
    fn take_unlit(&mut self) -> Option<Box<UnlitJob>> {
        let unlit = self.unlit.get_mut().unwrap_or_else(PoisonError::into_inner);
        let parts = std::mem::take(unlit);
        (!parts.is_empty()).then(|| Box::new(UnlitJob { parts }))
    }

    /// The picture of the job.
    fn into_image(self, job: &Job) -> SubImage {
        match SubImage::new(self.rect, self.pixels) {
            Some(whole) if self.rect == job.rect => whole,
            part => {
                let mut image = SubImage::transparent(job.rect);
                part.iter().for_each(|part| image.paste(part));
                image
            }
        }
    }
}

fn micros_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn nanos_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Renders rows of pixels with the kernel, or with the portable one where the brick is out of the
/// ordinary. Returns points that are to be lit.
fn render_part(
    kernel: Kernel,
    frame: &Frame,
    field: &Field<'_>,
    voxel: VoxelType,
    part: &PixelRect,
    rows: &mut [[f32; 4]],
) -> Vec<LitPoint> {
    use scalar::render_part as scalar_part;
    let rows = (rows, part.width as usize);
    let mut points = Vec::new();
    let lit = &mut points;
    match kernel {
        Kernel::Scalar => with_voxel!(voxel, scalar_part::<_>(frame, field, part, rows, lit)),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2Packets => {
            use packet::{can_address, render_part as packet_part};
            if frame.has_samples && with_voxel!(voxel, can_address::<_>(field)) {
                with_voxel!(voxel, packet_part::<_>(frame, field, part, rows, lit));
            } else {
                with_voxel!(voxel, scalar_part::<_>(frame, field, part, rows, lit));
            }
        }
    }
    points
}

/// What the processor says of itself, or else its architecture.
fn processor_name() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    told.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map_or_else(
            || std::env::consts::ARCH.to_owned(),
            |(_, name)| name.trim().to_owned(),
        )
}

impl RenderDevice for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn preparation(&self) -> Preparation {
        self.preparation.clone()
    }

    fn load_prepared(&mut self, key: BrickKey, brick: PreparedBrick) -> Result<(), DeviceError> {
        let before = self.bricks.get(&key).map_or(0, Resident::bytes);
        let held = self.held_bytes - before;
        let needed = brick.voxels().memory_bytes();
        let tree = brick.tree().cloned();
        if held + needed > self.info.memory_bytes {
            return Err(DeviceError::OutOfMemory {
                what: format!(
                    "brick {} of {needed} bytes beside {held} bytes of others; {} are allowed",
                    key.brick.0, self.info.memory_bytes
                ),
            });
        }
        let (voxels, cells) = self.pool.install(|| self.preparation.complete(brick));
        self.held_bytes = held + needed;
        let resident = Resident {
            voxels,
            cells,
            tree,
        };
        self.bricks.insert(key, resident);
        Ok(())
    }

    fn unload_brick(&mut self, key: BrickKey) {
        let freed = self.bricks.remove(&key);
        let is_counted = self.pages.is_none();
        let freed = freed.as_ref().filter(|_| is_counted);
        self.held_bytes -= freed.map_or(0, Resident::bytes);
    }

    fn set_scene(&mut self, scene: &Scene) -> Result<(), DeviceError> {
        let scene = &scene.scaled();
        let classifier = Classifier::of(scene, self.scene.as_ref().map(|s| &s.classifier));
        self.preparation.set_values(&classifier.values);
        let frame = Frame::new(scene, &classifier);
        self.scene = Some(Current {
            lighting: Lighting::of(scene, &frame).map(Arc::new),
            frame,
            classifier,
        });
        Ok(())
    }

    fn render_all(
        &mut self,
        jobs: &[Job],
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        self.find_pages(jobs.iter().map(|job| job.brick), is_wanted);
        let prepare = |job| {
            if is_wanted() {
                self.prepare(job)
            } else {
                Err(DeviceError::CalledOff)
            }
        };
        let prepared: Vec<_> = jobs.iter().map(prepare).collect();
        self.show_casters();
        let begun = Instant::now();
        let Some(scene) = &self.scene else {
            return prepared
                .into_iter()
                .map(|_| Err(DeviceError::NoScene))
                .collect();
        };
        let is_prepared = jobs.iter().zip(&prepared);
        let mut parts: Vec<_> = is_prepared
            .map(|(job, prepared)| prepared.is_ok().then(|| self.seen_part(job)).flatten())
            .collect();
        self.render_parts(scene, &mut parts, is_wanted);
        let still_wanted = is_wanted();
        let passed = begun.elapsed().as_micros();
        let nanos = |part: &SeenPart<'_>| u128::from(part.thread_nanos.load(Ordering::Relaxed));
        let of_all = parts.iter().flatten().map(nanos).sum::<u128>().max(1);
        let rendered = jobs.iter().zip(prepared).zip(parts);
        let rendered = rendered.map(|((job, prepared), part)| {
            let before = prepared?;
            if !still_wanted {
                return Err(DeviceError::CalledOff);
            }
            let micros = before + part.as_ref().map_or(0, |p| passed * nanos(p) / of_all);
            let micros = u64::try_from(micros).unwrap_or(u64::MAX);
            let Some(mut part) = part else {
                return Ok(RenderedJob::new(SubImage::transparent(job.rect), micros));
            };
            let unlit = part.take_unlit();
            Ok(RenderedJob {
                unlit,
                ..RenderedJob::new(part.into_image(job), micros)
            })
        });
        let rendered = rendered.collect();
        self.unless_in_vain(rendered)
    }

    fn go_on(
        &mut self,
        jobs: Vec<RenderedJob>,
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let unlit = jobs.iter().filter_map(|job| job.unlit.as_deref());
        let awaited = unlit.flat_map(|unlit| unlit.waits_for().into_iter().take(PAGES_TOGETHER));
        let awaited: Vec<BrickIndex> = awaited.collect();
        self.find_pages(awaited.iter().copied(), is_wanted);
        // Nothing would follow from going on again and again.
        let is_here = |brick: &&BrickIndex| self.owned(**brick).is_some();
        if let Some(&brick) = awaited.first()
            && self.pages.is_some()
            && is_wanted()
            && awaited.iter().find(is_here).is_none()
        {
            let lacks = |_| Err(DeviceError::NotResident { brick });
            return jobs.into_iter().map(lacks).collect();
        }
        self.show_casters();
        let lighting = self.scene.as_ref().and_then(|s| s.lighting.as_deref());
        let go_on = |mut job: RenderedJob| {
            let begun = Instant::now();
            if let (Some(lighting), Some(mut unlit)) = (lighting, job.unlit.take()) {
                let parts = std::mem::take(&mut unlit.parts).into_par_iter();
                let lit = || self.light_all(parts, lighting, is_wanted);
                for lit in self.pool.install(lit) {
                    lit.add_to(|pixel, color| job.image.add(pixel, color));
                    unlit.parts.extend(lit.lacking);
                }
                job.unlit = Some(unlit).filter(|unlit| !unlit.parts.is_empty());
            }
            job.elapsed_micros += micros_since(begun);
            if is_wanted() {
                Ok(job)
            } else {
                Err(DeviceError::CalledOff)
            }
        };
        let all = jobs.into_iter().map(go_on).collect();
        self.unless_in_vain(all)
    }
}

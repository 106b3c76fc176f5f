//! The CPU device: all cores of this machine, AVX2 packets where the processor has them.
//!
//! Bricks stay in the buffers that they came in; beside them, the device keeps the value ranges
//! of their macrocells (two voxels for 64) and what the current transfer function sees of them (a
//! byte for 64 voxels, and one more for each octant that rays go to).
//!
//! Not here: which bricks to hold (topology), decoding (node).

mod field;
mod frame;
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
pub(crate) mod voxel;

use crate::{
    brick::BrickVoxels,
    classifier::Classifier,
    device::{
        BrickKey, DeviceError, DeviceInfo, DeviceKind, IsWanted, Job, RenderDevice, RenderedJob,
        preparation::{BrickCells, Preparation, PreparedBrick},
    },
    scene::Scene,
    sub_image::SubImage,
    triangle_tree::TriangleTree,
};
use brickmesh_topology::{BrickBytes, PixelRect, VoxelType, data::manifest::TRIANGLE_MEMORY};
use field::{CELL_EDGE, Field};
use frame::Frame;
use rayon::prelude::*;
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use voxel::with_voxel;

/// Rows of pixels that a thread takes at a time; even, for packets.
const BAND_ROWS: u32 = 8;

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
    /// As [`bytes_of`] them.
    held_bytes: u64,
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
        bytes_of(&self.voxels)
    }
}

/// Memory that a brick takes.
fn bytes_of(voxels: &BrickVoxels) -> u64 {
    let triangles = voxels.whole().len() - voxels.bytes().len();
    voxels.bytes().len() as u64 + triangles as u64 * TRIANGLE_MEMORY
}

/// The scene that was set.
#[derive(Debug)]
struct Current {
    frame: Frame,
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
            scene: None,
        })
    }

    /// Brings what the scene shows of the job's brick up to date; microseconds that it took.
    fn prepare(&mut self, job: &Job) -> Result<u128, DeviceError> {
        let begun = Instant::now();
        let scene = self.scene.as_ref().ok_or(DeviceError::NoScene)?;
        let key = BrickKey {
            data_set: scene.frame.data_set,
            brick: job.brick,
        };
        let brick = self
            .bricks
            .get_mut(&key)
            .ok_or(DeviceError::NotResident { brick: job.brick })?;
        let brick_box = brick.voxels.owned();
        if !brick_box.contains_box(&job.owned) {
            return Err(DeviceError::Outside {
                brick: job.brick,
                owned: job.owned,
                brick_box,
            });
        }
        if self.skipping {
            brick.cells.show(&scene.classifier.values);
        }
        Ok(begun.elapsed().as_micros())
    }

    /// What is to be rendered of a job that is prepared; `None`: nothing of it is seen.
    fn seen_part(&self, job: &Job) -> Option<SeenPart<'_>> {
        let scene = self.scene.as_ref()?;
        let frame = &scene.frame;
        let key = BrickKey {
            data_set: frame.data_set,
            brick: job.brick,
        };
        let brick = self.bricks.get(&key)?;
        let skip = brick.cells.shown(&scene.classifier.values);
        let skip = skip.filter(|_| self.skipping);
        let tree = brick.tree.as_deref();
        let tree = tree.filter(|_| !frame.materials.is_empty());
        if tree.is_none() && skip.is_some_and(|grid| grid.visible().is_none()) {
            return None;
        }
        let field = Field::new(
            &brick.voxels,
            &frame.volume,
            &job.owned,
            frame.clip_bounds,
            skip,
        )
        .with_triangles(tree);
        let seen = if tree.is_some() {
            job.owned
        } else {
            field.visible_box()?
        };
        let rect = frame.view.rect_of(&frame.volume, &seen)?;
        let rect = rect.intersection(&job.rect)?;
        Some(SeenPart {
            rect,
            field,
            voxel: brick.voxels.voxel(),
            pixels: vec![[0.0; 4]; rect.pixel_count()],
            thread_nanos: AtomicU64::new(0),
        })
    }

    /// Renders parts, the bands of all of them on whichever thread is free.
    fn render_parts(
        &self,
        frame: &Frame,
        parts: &mut [Option<SeenPart<'_>>],
        is_wanted: IsWanted<'_>,
    ) {
        let bands: Vec<_> = parts
            .iter_mut()
            .flatten()
            .flat_map(SeenPart::bands)
            .collect();
        let render = |band: Band<'_>| {
            if !is_wanted() {
                return;
            }
            let begun = Instant::now();
            render_part(
                self.kernel,
                frame,
                band.field,
                band.voxel,
                &band.rect,
                band.rows,
            );
            let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            band.thread_nanos.fetch_add(nanos, Ordering::Relaxed);
        };
        self.pool
            .install(|| bands.into_par_iter().with_max_len(1).for_each(render));
    }
}

/// The pixels of a job in which something of its brick may be seen.
struct SeenPart<'a> {
    rect: PixelRect,
    field: Field<'a>,
    voxel: VoxelType,
    pixels: Vec<[f32; 4]>,
    /// Time that threads worked on it, summed up.
    thread_nanos: AtomicU64,
}

/// Rows of pixels of a [`SeenPart`].
struct Band<'a> {
    rect: PixelRect,
    field: &'a Field<'a>,
    voxel: VoxelType,
    rows: &'a mut [[f32; 4]],
    thread_nanos: &'a AtomicU64,
}

impl SeenPart<'_> {
    fn bands(&mut self) -> impl Iterator<Item = Band<'_>> {
        let (rect, voxel) = (self.rect, self.voxel);
        let (field, thread_nanos) = (&self.field, &self.thread_nanos);
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
            thread_nanos,
        })
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

/// Renders rows of pixels with the kernel, or with the portable one where the brick is out of the
/// ordinary.
fn render_part(
    kernel: Kernel,
    frame: &Frame,
    field: &Field<'_>,
    voxel: VoxelType,
    part: &PixelRect,
    rows: &mut [[f32; 4]],
) {
    use scalar::render_part as scalar_part;
    let width = part.width as usize;
    match kernel {
        Kernel::Scalar => with_voxel!(voxel, scalar_part::<_>(frame, field, part, rows, width)),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2Packets => {
            use packet::{can_address, render_part as packet_part};
            if frame.has_samples && with_voxel!(voxel, can_address::<_>(field)) {
                with_voxel!(voxel, packet_part::<_>(frame, field, part, rows, width));
            } else {
                with_voxel!(voxel, scalar_part::<_>(frame, field, part, rows, width));
            }
        }
    }
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
        let needed = bytes_of(brick.voxels());
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
        self.held_bytes -= freed.as_ref().map_or(0, Resident::bytes);
    }

    fn set_scene(&mut self, scene: &Scene) -> Result<(), DeviceError> {
        let scene = &scene.scaled();
        let classifier = Classifier::of(scene, self.scene.as_ref().map(|s| &s.classifier));
        self.preparation.set_values(&classifier.values);
        self.scene = Some(Current {
            frame: Frame::new(scene, &classifier),
            classifier,
        });
        Ok(())
    }

    fn render_all(
        &mut self,
        jobs: &[Job],
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let prepare = |job| {
            if is_wanted() {
                self.prepare(job)
            } else {
                Err(DeviceError::CalledOff)
            }
        };
        let prepared: Vec<_> = jobs.iter().map(prepare).collect();
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
        self.render_parts(&scene.frame, &mut parts, is_wanted);
        let is_wanted = is_wanted();
        let passed = begun.elapsed().as_micros();
        let nanos = |part: &SeenPart<'_>| u128::from(part.thread_nanos.load(Ordering::Relaxed));
        let of_all = parts.iter().flatten().map(nanos).sum::<u128>().max(1);
        let rendered = jobs.iter().zip(prepared).zip(parts);
        rendered
            .map(|((job, prepared), part)| {
                let before = prepared?;
                if !is_wanted {
                    return Err(DeviceError::CalledOff);
                }
                let micros = before + part.as_ref().map_or(0, |p| passed * nanos(p) / of_all);
                let image = part.map(|part| part.into_image(job));
                Ok(RenderedJob {
                    image: image.unwrap_or_else(|| SubImage::transparent(job.rect)),
                    elapsed_micros: u64::try_from(micros).unwrap_or(u64::MAX),
                })
            })
            .collect()
    }
}

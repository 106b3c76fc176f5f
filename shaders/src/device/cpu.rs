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
#[cfg(test)]
mod tests;
pub(crate) mod voxel;

use crate::{
    brick::BrickVoxels,
    classifier::Classifier,
    device::{BrickKey, DeviceError, DeviceInfo, DeviceKind, Job, RenderDevice, RenderedJob},
    macrocells::{Macrocells, SkipGrid},
    scene::Scene,
    sub_image::SubImage,
};
use brickmesh_topology::{PixelRect, VoxelType};
use field::{CELL_EDGE, Field};
use frame::Frame;
use rayon::prelude::*;
use std::{collections::BTreeMap, num::NonZeroUsize, time::Instant};
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
    bricks: BTreeMap<BrickKey, Resident>,
    scene: Option<Current>,
}

/// A brick on the device.
#[derive(Debug)]
struct Resident {
    voxels: BrickVoxels,
    cells: Macrocells,
    /// For the visible values of `Current::generation` in the second field.
    skip: Option<(SkipGrid, u64)>,
}

/// The scene that was set.
#[derive(Debug)]
struct Current {
    frame: Frame,
    classifier: Classifier,
    /// Changes with what the classifier shows, so that a camera that moves costs no classification.
    generation: u64,
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
            bricks: BTreeMap::new(),
            scene: None,
        })
    }

    /// The sub-image of a job whose brick is there and whose scene is set; what is wanted no more is
    /// left transparent.
    fn image(
        &self,
        frame: &Frame,
        brick: &Resident,
        job: &Job,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> SubImage {
        let mut image = SubImage::transparent(job.rect);
        let skip = brick.skip.as_ref().map(|(grid, _)| grid);
        if skip.is_some_and(|grid| grid.visible().is_none()) {
            return image;
        }
        let field = Field::new(
            &brick.voxels,
            &frame.volume,
            &job.owned,
            frame.clip_bounds,
            skip,
        );
        let seen = field
            .visible_box()
            .and_then(|visible| frame.view.rect_of(&frame.volume, &visible))
            .and_then(|rect| rect.intersection(&job.rect));
        let Some(rect) = seen else {
            return image;
        };
        let pixels = self.pool.install(|| {
            let width = rect.width as usize;
            let mut pixels = vec![[0.0; 4]; rect.pixel_count()];
            pixels
                .par_chunks_mut(width * BAND_ROWS as usize)
                .zip(
                    (rect.y..rect.y + rect.height)
                        .into_par_iter()
                        .step_by(BAND_ROWS as usize),
                )
                .with_max_len(1)
                .for_each(|(rows, y)| {
                    if !is_wanted() {
                        return;
                    }
                    let height = (rect.y + rect.height - y).min(BAND_ROWS);
                    let part = PixelRect { y, height, ..rect };
                    render_part(
                        self.kernel,
                        frame,
                        &field,
                        brick.voxels.voxel(),
                        &part,
                        rows,
                    );
                });
            pixels
        });
        if rect == job.rect {
            return SubImage::new(rect, pixels).unwrap_or(image);
        }
        if let Some(part) = SubImage::new(rect, pixels) {
            image.paste(&part);
        }
        image
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
            if with_voxel!(voxel, can_address::<_>(field)) {
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

    fn load_brick(&mut self, key: BrickKey, voxels: BrickVoxels) -> Result<(), DeviceError> {
        let held: u64 = self
            .bricks
            .iter()
            .filter(|(other, _)| **other != key)
            .map(|(_, brick)| brick.voxels.bytes().len() as u64)
            .sum();
        let needed = voxels.bytes().len() as u64;
        if held + needed > self.info.memory_bytes {
            return Err(DeviceError::OutOfMemory {
                what: format!(
                    "brick {} of {needed} bytes beside {held} bytes of others; {} are allowed",
                    key.brick.0, self.info.memory_bytes
                ),
            });
        }
        let cells = self
            .pool
            .install(|| Macrocells::with_edge(&voxels, CELL_EDGE));
        let resident = Resident {
            voxels,
            cells,
            skip: None,
        };
        self.bricks.insert(key, resident);
        Ok(())
    }

    fn unload_brick(&mut self, key: BrickKey) {
        self.bricks.remove(&key);
    }

    fn set_scene(&mut self, scene: &Scene) -> Result<(), DeviceError> {
        let scene = &scene.scaled();
        let classifier = Classifier::of(scene, self.scene.as_ref().map(|s| &s.classifier));
        let generation = match &self.scene {
            Some(before) if before.classifier.values == classifier.values => before.generation,
            Some(before) => before.generation + 1,
            None => 0,
        };
        self.scene = Some(Current {
            frame: Frame::new(scene, &classifier),
            classifier,
            generation,
        });
        Ok(())
    }

    fn render_while(
        &mut self,
        job: &Job,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<RenderedJob, DeviceError> {
        let start = Instant::now();
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
        if !self.skipping {
            brick.skip = None;
        } else if brick
            .skip
            .as_ref()
            .is_none_or(|(_, of)| *of != scene.generation)
        {
            let grid = SkipGrid::new(&brick.cells, &scene.classifier.values);
            brick.skip = Some((grid, scene.generation));
        }
        let brick = &self.bricks[&key];
        let image = self.image(&scene.frame, brick, job, is_wanted);
        if !is_wanted() {
            return Err(DeviceError::CalledOff);
        }
        let elapsed_micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Ok(RenderedJob {
            image,
            elapsed_micros,
        })
    }
}

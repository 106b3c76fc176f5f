//! The Vulkan device: bricks as 3D images, jobs as dispatches of the raycast kernel.
//!
//! Shapes: a brick is one image of its stored box; a job's picture is cut into bands of whole rows
//! that fit the device's largest storage buffer, each a dispatch that is waited for.
//! Invariants: sums of image sizes stay below `memory_bytes`; time per job comes from the device's
//! clock where it has one; full precision end to end (see `voxel_image`).
//!
//! Not here: several queues, sharing of images between devices.

mod choice;
mod gpu;
mod kernels;
mod params;
mod resident;
mod upload;
mod voxel_image;

pub use choice::{VulkanDeviceSummary, VulkanKind, enumerate};

use crate::{
    brick::BrickVoxels,
    device::{BrickKey, DeviceError, DeviceInfo, DeviceKind, Job, RenderDevice, RenderedJob},
    macrocells::VisibleValues,
    over::SubImage,
    scene::Scene,
    transfer_table::TransferTable,
};
use brickmesh_topology::{Digest, PixelRect, VoxelType};
use gpu::{Explain, Gpu, Home, dispatch};
use kernels::RaycastVariant;
use params::{JobParams, SceneParams};
use resident::{ResidentBrick, Visibility, upload_leaps};
use std::{collections::BTreeMap, sync::Arc};
use upload::upload;
use voxel_image::{VoxelImageKind, WIDE_BYTES_MAX};
use vulkano::{
    buffer::{BufferUsage, Subbuffer},
    command_buffer::CopyBufferInfo,
    descriptor_set::WriteDescriptorSet,
    format::Format,
    image::{
        ImageType,
        sampler::{Filter, Sampler, SamplerAddressMode, SamplerCreateInfo},
        view::ImageView,
    },
    pipeline::{ComputePipeline, Pipeline},
};

/// Pixels of a band: half a gibibyte would be allowed by many devices, but a band that takes
/// seconds is killed by drivers' watchdogs.
const BAND_PIXELS_MAX: u64 = 1 << 21;
/// Bytes of a pixel.
const PIXEL_BYTES: u64 = 16;
/// Edge of a workgroup in pixels; as in `wgsl/raycast.wgsl`.
const GROUP_EDGE: u32 = 8;
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
    /// Whether pixels go through device memory before they are read back.
    copies_back: bool,
    kinds: Vec<(VoxelType, VoxelImageKind)>,
    pipelines: BTreeMap<RaycastVariant, Arc<ComputePipeline>>,
    bricks: BTreeMap<BrickKey, ResidentBrick>,
    used_bytes: u64,
    scene: Option<CurrentScene>,
    pixels: Option<PixelBuffers>,
    /// Stands where a kernel that does not leap has a binding for leaps.
    no_leaps: Arc<ImageView>,
}

#[derive(Debug)]
struct CurrentScene {
    data_set: Digest,
    dims: [u32; 3],
    shade: bool,
    table: TransferTable,
    values: VisibleValues,
    /// Changes whenever the table does.
    table_number: u64,
    table_view: Arc<ImageView>,
    params: Subbuffer<[SceneParams]>,
}

/// What a band is written to, and what it is read from where that is another.
#[derive(Clone, Debug)]
struct PixelBuffers {
    written: Subbuffer<[[f32; 4]]>,
    read: Option<Subbuffer<[[f32; 4]]>>,
}

impl VulkanDevice {
    /// Opens device `index` of [`enumerate`], or the best: discrete, then integrated, virtual,
    /// cpu. Bricks may take `memory_bytes`, by default three quarters of the device's memory.
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
        let info = DeviceInfo {
            kind: DeviceKind::Vulkan,
            name: name(&physical.properties().device_name, &kinds),
            memory_bytes: memory_bytes.unwrap_or(choice::memory_bytes(&physical) / 4 * 3),
        };
        tracing::info!(device = %info.name, %reason, "vulkan device opened");
        Ok(Self {
            info,
            reason,
            linear,
            nearest,
            table_by_sampler: table_error.is_some_and(|e| e <= TABLE_ERROR_MAX),
            copies_back: choice::kind(&physical) == VulkanKind::Discrete,
            kinds,
            pipelines: BTreeMap::new(),
            bricks: BTreeMap::new(),
            used_bytes: 0,
            scene: None,
            pixels: None,
            no_leaps: upload_leaps(&gpu, [1; 3], &[0])?,
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
        self.table_by_sampler = false;
        self.copies_back = true;
        self.pixels = None;
        Ok(())
    }

    /// Bytes that resident bricks take.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
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

    fn pipeline(&mut self, variant: RaycastVariant) -> Result<Arc<ComputePipeline>, DeviceError> {
        if let Some(pipeline) = self.pipelines.get(&variant) {
            return Ok(pipeline.clone());
        }
        let (spirv, entry) = kernels::raycast(variant);
        let pipeline = self.gpu.pipeline(spirv, entry)?;
        self.pipelines.insert(variant, pipeline.clone());
        Ok(pipeline)
    }

    /// Buffers for at least `pixels` pixels, kept for the jobs that follow.
    fn pixel_buffers(&mut self, pixels: u64) -> Result<PixelBuffers, DeviceError> {
        if let Some(buffers) = self.pixels.as_ref().filter(|b| b.written.len() >= pixels) {
            return Ok(buffers.clone());
        }
        let length = pixels.next_power_of_two();
        let buffers = if self.copies_back {
            let out = BufferUsage::STORAGE_BUFFER | BufferUsage::TRANSFER_SRC;
            PixelBuffers {
                written: self.gpu.buffer(out, Home::Device, length)?,
                read: Some(
                    self.gpu
                        .buffer(BufferUsage::TRANSFER_DST, Home::ReadBack, length)?,
                ),
            }
        } else {
            PixelBuffers {
                written: self
                    .gpu
                    .buffer(BufferUsage::STORAGE_BUFFER, Home::ReadBack, length)?,
                read: None,
            }
        };
        Ok(self.pixels.insert(buffers).clone())
    }

    /// Rows of a band of pictures of this width: at least one.
    fn band_rows(&self, width: u32) -> Result<u32, DeviceError> {
        let limits = self.gpu.physical().properties();
        let range = u64::from(limits.max_storage_buffer_range) / PIXEL_BYTES;
        // Buffers grow to powers of two, so the bound is rounded down to one.
        let pixels_max = BAND_PIXELS_MAX.min(1 << range.ilog2());
        let rows = pixels_max / u64::from(width);
        let rows = rows.min(u64::from(
            limits.max_compute_work_group_count[1] * GROUP_EDGE,
        ));
        u32::try_from(rows)
            .ok()
            .filter(|&rows| rows > 0)
            .ok_or_else(|| DeviceError::Unavailable {
                what: format!("a row of {width} pixels does not fit this device's buffers"),
            })
    }

    /// Renders a band and appends its pixels to `out`; microseconds on the device.
    fn render_band(
        &mut self,
        job: &Job,
        key: BrickKey,
        visibility: &Visibility,
        band: PixelRect,
        out: &mut Vec<[f32; 4]>,
    ) -> Result<u64, DeviceError> {
        let shaded = self.scene.as_ref().ok_or(DeviceError::NoScene)?.shade;
        let not_resident = DeviceError::NotResident { brick: job.brick };
        let by_sampler = match self.bricks.get(&key) {
            Some(brick) => brick.kind.by_sampler,
            None => return Err(not_resident),
        };
        let pipeline = self.pipeline(RaycastVariant {
            voxels_by_sampler: by_sampler,
            table_by_sampler: self.table_by_sampler,
            shaded,
            leaps: matches!(visibility, Visibility::Some(_)),
        })?;
        let leaps = match visibility {
            Visibility::Some(view) => view.clone(),
            _ => self.no_leaps.clone(),
        };
        let count = band.pixel_count() as u64;
        let buffers = self.pixel_buffers(count)?;
        let (Some(scene), Some(brick)) = (&self.scene, self.bricks.get(&key)) else {
            return Err(not_resident);
        };
        let sampler = |linear| if linear { &self.linear } else { &self.nearest };
        let set = self.gpu.descriptor_set(
            &pipeline,
            [
                WriteDescriptorSet::image_view(0, brick.view.clone()),
                WriteDescriptorSet::sampler(1, sampler(by_sampler).clone()),
                WriteDescriptorSet::image_view(2, scene.table_view.clone()),
                WriteDescriptorSet::buffer(3, buffers.written.clone()),
                WriteDescriptorSet::buffer(4, scene.params.clone()),
                WriteDescriptorSet::sampler(5, sampler(self.table_by_sampler).clone()),
                WriteDescriptorSet::image_view(6, leaps),
            ],
        )?;
        let params = JobParams::new(
            &job.owned,
            &brick.stored,
            scene.dims,
            &band,
            &brick.kind,
            &scene.table,
        );
        let groups = [band.width, band.height].map(|n| n.div_ceil(GROUP_EDGE));
        let micros = self.gpu.submit(|commands| {
            commands
                .push_constants(pipeline.layout().clone(), 0, params)
                .explain("passing a job's parameters")?;
            dispatch(commands, &pipeline, set, [groups[0], groups[1], 1])?;
            if let Some(read) = &buffers.read {
                let from = buffers.written.clone().slice(0..count);
                let to = read.clone().slice(0..count);
                commands
                    .copy_buffer(CopyBufferInfo::buffers(from, to))
                    .explain("copying a picture")?;
            }
            Ok(())
        })?;
        let read = buffers.read.as_ref().unwrap_or(&buffers.written);
        let pixels = read.read().explain("reading a picture back")?;
        out.extend_from_slice(&pixels[..band.pixel_count()]);
        Ok(micros)
    }
}

impl RenderDevice for VulkanDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load_brick(&mut self, key: BrickKey, voxels: BrickVoxels) -> Result<(), DeviceError> {
        let kind = self.kind(voxels.voxel())?;
        let size = voxels.stored().size();
        self.check_extent(size)?;
        self.unload_brick(key);
        let wide_bytes = voxels.stored().voxel_count() * kind.texel_bytes() as u64;
        let kind = if kind.is_wide() && self.used_bytes + wide_bytes > WIDE_BYTES_MAX {
            kind.narrowed(&self.gpu).unwrap_or(kind)
        } else {
            kind
        };
        let room = self.info.memory_bytes.saturating_sub(self.used_bytes);
        let loaded = ResidentBrick::load(&self.gpu, kind, &voxels, room)?;
        let brick = loaded.map_err(|bytes| DeviceError::OutOfMemory {
            what: format!(
                "brick {} takes {bytes} bytes, {room} of {} are free",
                key.brick.0, self.info.memory_bytes
            ),
        })?;
        self.used_bytes += brick.image_bytes;
        self.bricks.insert(key, brick);
        Ok(())
    }

    fn unload_brick(&mut self, key: BrickKey) {
        if let Some(brick) = self.bricks.remove(&key) {
            self.used_bytes -= brick.image_bytes;
        }
    }

    fn set_scene(&mut self, scene: &Scene) -> Result<(), DeviceError> {
        let table = TransferTable::new(scene);
        let before = self.scene.as_ref();
        let (table_number, table_view) = match before {
            Some(before) if same(&before.table, &table) => {
                (before.table_number, before.table_view.clone())
            }
            _ => (
                before.map_or(0, |b| b.table_number + 1),
                upload_table(&self.gpu, &table)?,
            ),
        };
        let params = self
            .gpu
            .buffer(BufferUsage::UNIFORM_BUFFER, Home::Upload, 1)?;
        params.write().explain("writing a scene's parameters")?[0] =
            SceneParams::new(scene, &table);
        self.scene = Some(CurrentScene {
            data_set: scene.data_set,
            dims: scene.volume.dims,
            shade: scene.shade,
            values: VisibleValues::of(&table),
            table,
            table_number,
            table_view,
            params,
        });
        Ok(())
    }

    fn render(&mut self, job: &Job) -> Result<RenderedJob, DeviceError> {
        let scene = self.scene.as_ref().ok_or(DeviceError::NoScene)?;
        let key = BrickKey {
            data_set: scene.data_set,
            brick: job.brick,
        };
        let Some(brick) = self.bricks.get_mut(&key) else {
            return Err(DeviceError::NotResident { brick: job.brick });
        };
        if !brick.owned.contains_box(&job.owned) {
            return Err(DeviceError::Outside {
                brick: job.brick,
                owned: job.owned,
                brick_box: brick.owned,
            });
        }
        let visibility = brick.visibility(&self.gpu, &scene.values, scene.table_number)?;
        let invisible = matches!(visibility, Visibility::Nothing);
        if invisible || job.owned.is_empty() || job.rect.pixel_count() == 0 {
            return Ok(RenderedJob {
                image: SubImage::transparent(job.rect),
                elapsed_micros: 0,
            });
        }
        let band_rows = self.band_rows(job.rect.width)?;
        let mut pixels = Vec::with_capacity(job.rect.pixel_count());
        let mut elapsed_micros = 0;
        for row in (0..job.rect.height).step_by(band_rows as usize) {
            let band = PixelRect {
                y: job.rect.y + row,
                height: band_rows.min(job.rect.height - row),
                ..job.rect
            };
            elapsed_micros += self.render_band(job, key, &visibility, band, &mut pixels)?;
        }
        let image = SubImage::new(job.rect, pixels).ok_or_else(|| DeviceError::Failed {
            what: "the picture has the wrong size".into(),
        })?;
        Ok(RenderedJob {
            image,
            elapsed_micros,
        })
    }
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

/// Whether two tables are the same, bit by bit.
fn same(a: &TransferTable, b: &TransferTable) -> bool {
    let bits = |t: &TransferTable| [t.scale.to_bits(), t.offset.to_bits()];
    bits(a) == bits(b)
        && bytemuck::cast_slice::<_, u8>(&a.entries) == bytemuck::cast_slice::<_, u8>(&b.entries)
}

/// A scene's table as an image: on llvmpipe twice as fast as a storage buffer.
fn upload_table(gpu: &Gpu, table: &TransferTable) -> Result<Arc<ImageView>, DeviceError> {
    let count = u32::try_from(table.entries.len()).unwrap_or(u32::MAX);
    let format = Format::R32G32B32A32_SFLOAT;
    let image = gpu.image(format, ImageType::Dim2d, [count, 1, 1])?;
    let texels: &[u8] = bytemuck::cast_slice(&table.entries);
    upload(gpu, &image, texels.len() / table.entries.len(), |_, out| {
        out.copy_from_slice(texels);
    })?;
    ImageView::new_default(image).explain("viewing the transfer function")
}

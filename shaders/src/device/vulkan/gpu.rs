//! An open Vulkan device: its queue, allocators, and the few commands that the renderer needs.
//!
//! Invariant: every submission is waited for before the call returns, so a buffer or image may be
//! reused at once. All `unsafe` of the Vulkan device stands here.
//! A device that is lost stays lost: it takes nothing more, and can be dropped at once.
#![expect(
    unsafe_code,
    reason = "shader modules, dispatches and queries are beyond vulkano's checks"
)]

use super::{
    explain::{Explain, device_error},
    memory::{WORKING_BLOCK_BYTES, allocator},
};
use crate::device::{DeviceError, process_end};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use vulkano::{
    VulkanError,
    buffer::{Buffer, BufferContents, BufferCreateInfo, BufferUsage, Subbuffer},
    command_buffer::{
        AutoCommandBufferBuilder, CommandBufferSubmitInfo, CommandBufferUsage,
        PrimaryAutoCommandBuffer, SubmitInfo, allocator::StandardCommandBufferAllocator,
    },
    descriptor_set::{
        DescriptorSet, WriteDescriptorSet, allocator::StandardDescriptorSetAllocator,
    },
    device::{
        Device, DeviceCreateInfo, DeviceExtensions, Queue, QueueCreateInfo, QueueFlags,
        physical::PhysicalDevice,
    },
    format::Format,
    image::{
        Image, ImageCreateInfo, ImageType, ImageUsage,
        sampler::{Sampler, SamplerCreateInfo},
        sys::RawImage,
    },
    memory::allocator::{AllocationCreateInfo, MemoryTypeFilter, StandardMemoryAllocator},
    pipeline::{
        ComputePipeline, Pipeline, PipelineBindPoint, PipelineLayout,
        PipelineShaderStageCreateInfo, compute::ComputePipelineCreateInfo,
        layout::PipelineDescriptorSetLayoutCreateInfo,
    },
    query::{QueryPool, QueryPoolCreateInfo, QueryResultFlags, QueryType},
    shader::{ShaderModule, ShaderModuleCreateInfo, spirv::bytes_to_words},
    sync::{
        PipelineStage,
        fence::{Fence, FenceCreateInfo},
    },
};

/// How long a submission may take: seconds on slow devices, as drivers' watchdogs end what hangs
/// before that where there are any.
const SUBMISSION_MAX: Duration = Duration::from_secs(60);

/// Groups of a submission that are timed, at most: to read its clock, a device waits for all that was begun before (NVIDIA H100:
/// a frame of 5,000 jobs takes it 820 ms where each of them is timed, 59 ms where none is).
pub(super) const TIMED_MAX: usize = 4;

/// Commands being recorded.
pub(super) type Commands = AutoCommandBufferBuilder<PrimaryAutoCommandBuffer>;

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// Written once by the host, read by the device.
    Upload,
    /// Written by the device or copied to, read by the host.
    ReadBack,
    /// Written by the device and copied from.
    Device,
}

/// An open device.
#[derive(Debug)]
pub(super) struct Gpu {
    device: Arc<Device>,
    queue: Arc<Queue>,
    memory: Arc<StandardMemoryAllocator>,
    descriptor_sets: Arc<StandardDescriptorSetAllocator>,
    command_buffers: Arc<StandardCommandBufferAllocator>,
    timestamps: Option<Timestamps>,
    /// Signalled when what was submitted has ended, and reset then. To make one for each submission takes as long as a
    /// job (NVIDIA H100: a quarter of a millisecond).
    fence: Arc<Fence>,
    /// What was submitted last did not come to its end.
    lost: AtomicBool,
    submission_max: Duration,
}

#[derive(Debug)]
struct Timestamps {
    pool: Arc<QueryPool>,
    mask: u64,
}

/// What says how large an image of [`Gpu::image_in`] would be, as the driver rounds it, as long as the device is open; on
/// any thread.
pub(super) fn image_measure(
    gpu: &Gpu,
) -> impl Fn(Format, ImageType, [u32; 3]) -> Option<u64> + Send + Sync + 'static + use<> {
    // It keeps no device open that its thread has dropped.
    let device = Arc::downgrade(&gpu.device);
    move |format, image_type, extent| {
        let create_info = image_info(format, image_type, extent);
        let image = RawImage::new(device.upgrade()?, create_info).ok()?;
        let requirements = image.memory_requirements().iter();
        Some(requirements.map(|r| r.layout.size()).sum())
    }
}

fn image_info(format: Format, image_type: ImageType, extent: [u32; 3]) -> ImageCreateInfo {
    ImageCreateInfo {
        image_type,
        format,
        extent,
        usage: ImageUsage::TRANSFER_DST | ImageUsage::SAMPLED,
        ..Default::default()
    }
}

/// The queue family to use: one that computes, and draws too where there is such (it is the
/// fastest on most devices).
pub(super) fn compute_family(physical: &PhysicalDevice) -> Option<u32> {
    let families = physical.queue_family_properties();
    let with = |flags| {
        families
            .iter()
            .position(|f| f.queue_flags.contains(flags))
            .and_then(|i| u32::try_from(i).ok())
    };
    with(QueueFlags::COMPUTE | QueueFlags::GRAPHICS).or_else(|| with(QueueFlags::COMPUTE))
}

impl Gpu {
    /// Opens a device.
    pub(super) fn open(physical: &Arc<PhysicalDevice>) -> Result<Self, DeviceError> {
        let family = compute_family(physical).ok_or_else(|| DeviceError::Unavailable {
            what: "the device has no compute queue".into(),
        })?;
        let (device, mut queues) = Device::new(
            physical.clone(),
            DeviceCreateInfo {
                queue_create_infos: vec![QueueCreateInfo {
                    queue_family_index: family,
                    ..Default::default()
                }],
                enabled_extensions: DeviceExtensions {
                    khr_portability_subset: physical.supported_extensions().khr_portability_subset,
                    ..DeviceExtensions::empty()
                },
                ..Default::default()
            },
        )
        .explain("opening the device")?;
        let queue = queues.next().ok_or_else(|| DeviceError::Failed {
            what: "the device gave no queue".into(),
        })?;
        let timestamps = Timestamps::new(&device, family)?;
        let fence = Fence::new(device.clone(), FenceCreateInfo::default());
        Ok(Self {
            queue,
            memory: allocator(&device, WORKING_BLOCK_BYTES),
            descriptor_sets: Arc::new(StandardDescriptorSetAllocator::new(
                device.clone(),
                Default::default(),
            )),
            command_buffers: Arc::new(StandardCommandBufferAllocator::new(
                device.clone(),
                Default::default(),
            )),
            timestamps,
            fence: Arc::new(fence.explain("making a fence")?),
            lost: AtomicBool::new(false),
            submission_max: SUBMISSION_MAX,
            device,
        })
    }

    /// From now on nothing that is submitted ends in time, however fast the device is.
    pub(super) fn hang(&mut self) {
        self.submission_max = Duration::ZERO;
    }

    /// What it was opened on.
    pub(super) fn physical(&self) -> &Arc<PhysicalDevice> {
        self.device.physical_device()
    }

    /// A pipeline from one of this crate's kernels.
    pub(super) fn pipeline(
        &self,
        spirv: &[u8],
        entry: &str,
    ) -> Result<Arc<ComputePipeline>, DeviceError> {
        let words = bytes_to_words(spirv).explain("reading a kernel")?;
        // SAFETY: the words come from naga's SPIR-V writer, which was given a validated module.
        let module =
            unsafe { ShaderModule::new(self.device.clone(), ShaderModuleCreateInfo::new(&words)) }
                .explain("loading a kernel")?;
        let entry = module
            .entry_point(entry)
            .ok_or_else(|| DeviceError::Failed {
                what: format!("the kernel has no entry point {entry}"),
            })?;
        let stage = PipelineShaderStageCreateInfo::new(entry);
        let layout = PipelineDescriptorSetLayoutCreateInfo::from_stages([&stage])
            .into_pipeline_layout_create_info(self.device.clone())
            .map_err(|e| device_error("laying out a kernel", &e.error))?;
        let layout =
            PipelineLayout::new(self.device.clone(), layout).explain("laying out a kernel")?;
        ComputePipeline::new(
            self.device.clone(),
            None,
            ComputePipelineCreateInfo::stage_layout(stage, layout),
        )
        .explain("compiling a kernel")
    }

    /// A sampler.
    pub(super) fn sampler(&self, info: SamplerCreateInfo) -> Result<Arc<Sampler>, DeviceError> {
        Sampler::new(self.device.clone(), info).explain("making a sampler")
    }

    /// An allocator of its own; what it has taken goes with it.
    pub(super) fn allocator(&self, block_bytes: u64) -> Arc<StandardMemoryAllocator> {
        allocator(&self.device, block_bytes)
    }

    /// A sampled image to be filled by `upload`.
    pub(super) fn image(
        &self,
        format: Format,
        image_type: ImageType,
        extent: [u32; 3],
    ) -> Result<Arc<Image>, DeviceError> {
        Self::image_in(&self.memory, format, image_type, extent)
    }

    /// The same in an allocator of [`Self::allocator`].
    pub(super) fn image_in(
        memory: &Arc<StandardMemoryAllocator>,
        format: Format,
        image_type: ImageType,
        extent: [u32; 3],
    ) -> Result<Arc<Image>, DeviceError> {
        let create_info = image_info(format, image_type, extent);
        Image::new(memory.clone(), create_info, AllocationCreateInfo::default())
            .explain("making an image")
    }

    /// A buffer of `length` elements; its contents are whatever was there.
    pub(super) fn buffer<T: BufferContents + Copy>(
        &self,
        usage: BufferUsage,
        home: Home,
        length: u64,
    ) -> Result<Subbuffer<[T]>, DeviceError> {
        let memory_type_filter = match home {
            Home::Upload => MemoryTypeFilter::PREFER_HOST | MemoryTypeFilter::HOST_SEQUENTIAL_WRITE,
            Home::ReadBack => MemoryTypeFilter::PREFER_HOST | MemoryTypeFilter::HOST_RANDOM_ACCESS,
            Home::Device => MemoryTypeFilter::PREFER_DEVICE,
        };
        Buffer::new_slice(
            self.memory.clone(),
            BufferCreateInfo {
                usage,
                ..Default::default()
            },
            AllocationCreateInfo {
                memory_type_filter,
                ..Default::default()
            },
            length,
        )
        .explain("making a buffer")
    }

    /// The writes that `pipeline` has bindings for, as its set 0. A variant of a kernel may use
    /// fewer bindings than another.
    pub(super) fn descriptor_set(
        &self,
        pipeline: &ComputePipeline,
        writes: impl IntoIterator<Item = WriteDescriptorSet>,
    ) -> Result<Arc<DescriptorSet>, DeviceError> {
        let layout =
            pipeline
                .layout()
                .set_layouts()
                .first()
                .ok_or_else(|| DeviceError::Failed {
                    what: "the kernel binds nothing".into(),
                })?;
        let used = writes
            .into_iter()
            .filter(|w| layout.bindings().contains_key(&w.binding()));
        DescriptorSet::new(self.descriptor_sets.clone(), layout.clone(), used, [])
            .explain("binding resources")
    }

    /// Records commands and carries them out.
    pub(super) fn submit(
        &self,
        record: impl FnOnce(&mut Commands) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut commands = self.commands()?;
        record(&mut commands)?;
        self.carry_out(commands.build().explain("recording commands")?)
    }

    /// Records what comes first, commands in groups of parts, [`TIMED_MAX`] groups at most, and what follows them, and carries
    /// them out. Returns how long the device worked on what came first and on each group, in its ticks. `None` where the
    /// device has no clock.
    pub(super) fn submit_timed<T>(
        &self,
        first: impl FnOnce(&mut Commands) -> Result<(), DeviceError>,
        groups: &[&[T]],
        mut record: impl FnMut(&mut Commands, &T) -> Result<(), DeviceError>,
        follow: impl FnOnce(&mut Commands) -> Result<(), DeviceError>,
    ) -> Result<Option<Vec<u64>>, DeviceError> {
        let mut commands = self.commands()?;
        if let Some(timestamps) = &self.timestamps {
            timestamps.begin(&mut commands, groups.len() + 1)?;
        }
        first(&mut commands)?;
        if let Some(timestamps) = &self.timestamps {
            timestamps.end_of(&mut commands, 1)?;
        }
        for (parts, number) in groups.iter().zip(2..) {
            for part in *parts {
                record(&mut commands, part)?;
            }
            if let Some(timestamps) = &self.timestamps {
                timestamps.end_of(&mut commands, number)?;
            }
        }
        follow(&mut commands)?;
        self.carry_out(commands.build().explain("recording commands")?)?;
        let timestamps = self.timestamps.as_ref();
        timestamps.map(|t| t.elapsed(groups.len() + 1)).transpose()
    }

    fn commands(&self) -> Result<Commands, DeviceError> {
        AutoCommandBufferBuilder::primary(
            self.command_buffers.clone(),
            self.queue.queue_family_index(),
            CommandBufferUsage::OneTimeSubmit,
        )
        .explain("recording commands")
    }
}

impl Gpu {
    /// An error where the device is lost.
    pub(super) fn check_not_lost(&self) -> Result<(), DeviceError> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(DeviceError::Lost {
                what: "nothing is submitted to a device that was lost".to_owned(),
            });
        }
        Ok(())
    }

    /// Submits commands and waits for their end.
    ///
    /// Not through the library's futures: they panic when they are dropped with a lost device.
    fn carry_out(&self, commands: Arc<PrimaryAutoCommandBuffer>) -> Result<(), DeviceError> {
        self.check_not_lost()?;
        let batch = SubmitInfo {
            command_buffers: vec![CommandBufferSubmitInfo::new(commands.clone())],
            ..Default::default()
        };
        // SAFETY: the commands are new, so not pending (VUID-vkQueueSubmit-pCommandBuffers-00071);
        // nothing else is under way on the device's only queue, as each submission is waited for;
        // what the commands use lives until then, or for ever where the wait has no end (below).
        let submitted = self
            .queue
            .with(|mut queue| unsafe { queue.submit(&[batch], Some(&self.fence)) });
        if let Err(error) = submitted.explain("submitting commands") {
            let is_lost = matches!(error, DeviceError::Lost { .. });
            self.lost.fetch_or(is_lost, Ordering::Relaxed);
            return Err(error);
        }
        let waited = if self.submission_max.is_zero() {
            Err(VulkanError::Timeout)
        } else {
            self.fence.wait(Some(self.submission_max))
        };
        let Err(error) = waited else {
            // SAFETY: the only submission that it was given to has ended (VUID-vkResetFences-pFences-01123).
            return unsafe { self.fence.reset() }.map_err(|error| {
                // It says of each submission that follows that it has ended.
                self.lost.store(true, Ordering::Relaxed);
                DeviceError::Lost {
                    what: format!("resetting a fence: {error}"),
                }
            });
        };
        self.lost.store(true, Ordering::Relaxed);
        // A lost device works on nothing, so all of it may go. In any other case the commands may
        // still run: what they use is never freed, nor the queue, whose end would wait for them.
        if error != VulkanError::DeviceLost {
            process_end::leave_at_work();
            std::mem::forget((commands, self.fence.clone(), self.queue.clone()));
        }
        Err(DeviceError::Lost {
            what: format!("waiting for the device: {error}"),
        })
    }
}

/// Records a dispatch of `groups` workgroups of `pipeline` on `set`; push constants before.
pub(super) fn dispatch(
    commands: &mut Commands,
    pipeline: &Arc<ComputePipeline>,
    set: Arc<DescriptorSet>,
    groups: [u32; 3],
) -> Result<(), DeviceError> {
    commands
        .bind_pipeline_compute(pipeline.clone())
        .explain("recording a dispatch")?
        .bind_descriptor_sets(
            PipelineBindPoint::Compute,
            pipeline.layout().clone(),
            0,
            set,
        )
        .explain("recording a dispatch")?;
    // SAFETY: the kernels write only below the length that their buffer was bound with (pixels by
    // the band's width and height, points by how many have room, opacities of rays and probes by their count), read as many rays as
    // they write opacities, and images clamped to their size;
    // vulkano checks bindings and group counts (VUID-vkCmdDispatch-groupCountX-00386 ff.).
    unsafe { commands.dispatch(groups) }.explain("recording a dispatch")?;
    Ok(())
}

impl Timestamps {
    fn new(device: &Arc<Device>, family: u32) -> Result<Option<Self>, DeviceError> {
        let families = device.physical_device().queue_family_properties();
        let family = families.get(family as usize);
        let Some(bits) = family.and_then(|f| f.timestamp_valid_bits) else {
            return Ok(None);
        };
        let pool = QueryPool::new(
            device.clone(),
            QueryPoolCreateInfo {
                query_count: u32::try_from(TIMED_MAX + 2).unwrap_or(u32::MAX),
                ..QueryPoolCreateInfo::query_type(QueryType::Timestamp)
            },
        )
        .explain("making a query pool")?;
        Ok(Some(Self {
            pool,
            mask: u64::MAX >> (64 - bits.clamp(1, 64)),
        }))
    }

    fn begin(&self, commands: &mut Commands, groups: usize) -> Result<(), DeviceError> {
        let queries = 0..u32::try_from(groups + 1).unwrap_or(u32::MAX);
        // SAFETY: no submission that uses the pool is pending: `Gpu::carry_out` waits for each
        // (VUID-vkCmdResetQueryPool-firstQuery-02862).
        unsafe { commands.reset_query_pool(self.pool.clone(), queries) }
            .explain("resetting a clock")?;
        // SAFETY: query 0 was reset above (VUID-vkCmdWriteTimestamp-None-00830).
        unsafe { commands.write_timestamp(self.pool.clone(), 0, PipelineStage::TopOfPipe) }
            .explain("reading the device's clock")?;
        Ok(())
    }

    /// Of the group of this number, from 1 on.
    fn end_of(&self, commands: &mut Commands, group: u32) -> Result<(), DeviceError> {
        // SAFETY: those of all groups were reset by `begin` in these commands, and each is written once
        // (VUID-vkCmdWriteTimestamp-None-00830).
        unsafe { commands.write_timestamp(self.pool.clone(), group, PipelineStage::BottomOfPipe) }
            .explain("reading the device's clock")?;
        Ok(())
    }

    /// Ticks that each of so many groups took.
    fn elapsed(&self, groups: usize) -> Result<Vec<u64>, DeviceError> {
        let mut ticks = vec![0_u64; groups + 1];
        let queries = 0..u32::try_from(ticks.len()).unwrap_or(u32::MAX);
        self.pool
            .get_results(queries, &mut ticks, QueryResultFlags::WAIT)
            .explain("reading the device's clock")?;
        let elapsed = |t: &[u64]| match t[1].wrapping_sub(t[0]) & self.mask {
            // Groups may end at the same time, and drivers are not exact to the tick.
            before if before > self.mask / 2 => 0,
            elapsed => elapsed,
        };
        Ok(ticks.windows(2).map(elapsed).collect())
    }
}

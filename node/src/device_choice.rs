//! Which device a peer of this process renders on, and why.

use crate::args::DeviceChoice;
use brickmesh_shaders::{DeviceError, RenderDevice, device::cpu::CpuDevice};
use std::{num::NonZeroUsize, thread};

/// A device and the reason why it was taken.
pub struct Chosen {
    /// The device.
    pub device: Box<dyn RenderDevice>,
    /// Why this one, for people.
    pub reason: String,
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chosen")
            .field("device", self.device.info())
            .field("reason", &self.reason)
            .finish()
    }
}

/// Memory that bricks of one of `peers` peers in this process may take, where nothing was said:
/// half of what is free, shared evenly.
#[must_use]
pub fn default_memory_bytes(peers: u32) -> u64 {
    free_memory_bytes() / 2 / u64::from(peers.max(1))
}

/// Free memory of this machine; 4 GiB where it cannot be asked.
fn free_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line
        .and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse::<u64>().ok());
    kib.map_or(4 << 30, |k| k << 10)
}

/// Makes the device of one of `peers` peers in this process; they share the cores.
///
/// # Errors
/// [`DeviceError`] where the device asked for is not there or does not work.
pub fn choose(choice: DeviceChoice, peers: u32, memory_bytes: u64) -> Result<Chosen, DeviceError> {
    match choice {
        DeviceChoice::Cpu => cpu(peers, memory_bytes, "it was asked for".to_owned()),
        DeviceChoice::Vulkan(index) => vulkan(index, memory_bytes),
        DeviceChoice::Auto => match best_gpu() {
            Ok(index) => vulkan(Some(index), memory_bytes),
            Err(why) => cpu(peers, memory_bytes, why),
        },
    }
}

fn cpu(peers: u32, memory_bytes: u64, reason: String) -> Result<Chosen, DeviceError> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = NonZeroUsize::new(cores / peers.max(1) as usize).unwrap_or(NonZeroUsize::MIN);
    let device = CpuDevice::new(Some(threads), memory_bytes)?;
    Ok(Chosen {
        device: Box::new(device),
        reason,
    })
}

#[cfg(feature = "vulkan")]
fn vulkan(index: Option<usize>, memory_bytes: u64) -> Result<Chosen, DeviceError> {
    use brickmesh_shaders::device::vulkan::VulkanDevice;
    let device = VulkanDevice::new(index, Some(memory_bytes))?;
    let reason = device.reason().to_owned();
    Ok(Chosen {
        device: Box::new(device),
        reason,
    })
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(_: Option<usize>, _: u64) -> Result<Chosen, DeviceError> {
    Err(DeviceError::Unavailable {
        what: "this brickmesh was built without Vulkan".to_owned(),
    })
}

/// The index of the best real GPU, or why the CPU is better.
#[cfg(feature = "vulkan")]
pub fn best_gpu() -> Result<usize, String> {
    use brickmesh_shaders::device::vulkan::{VulkanKind, enumerate};
    let found = enumerate().map_err(|e| format!("no Vulkan device: {e}"))?;
    let rank = |kind: VulkanKind| match kind {
        VulkanKind::Discrete => Some(0),
        VulkanKind::Integrated => Some(1),
        VulkanKind::Virtual => Some(2),
        _ => None,
    };
    let usable = found.iter().filter(|d| d.usable.is_ok());
    let best = usable
        .filter_map(|d| rank(d.kind).map(|r| (r, d.index)))
        .min();
    best.map(|(_, index)| index).ok_or_else(|| {
        "no GPU that can be used; Vulkan on the CPU is slower than the CPU device".to_owned()
    })
}

/// The index of the best real GPU, or why the CPU is better.
#[cfg(not(feature = "vulkan"))]
pub fn best_gpu() -> Result<usize, String> {
    Err("this brickmesh was built without Vulkan".to_owned())
}

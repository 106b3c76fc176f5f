//! Which device a peer of this process renders on, and why.

use crate::{
    args::{DeviceChoice, SharingArg},
    free_memory::free_memory_bytes,
};
use brickmesh_actors::{
    device_slot::{DeviceSupply, OpenDevice, Sharing},
    pager::Pager,
};
use brickmesh_shaders::{DeviceError, DeviceInfo, RenderDevice, device::cpu::CpuDevice};
use brickmesh_topology::mesh::device_recovery::Attempt;
use std::{num::NonZeroUsize, sync::Arc, thread};

/// A device and the reason why it was taken.
pub struct Chosen {
    /// The device.
    pub device: Box<dyn RenderDevice>,
    /// Why this one, for people.
    pub reason: String,
    /// Opens it again when it is lost, or the processor in its place.
    pub open: OpenDevice,
    /// How it gets bricks that its peer does not hold.
    pub sharing: Sharing,
}

impl From<Chosen> for DeviceSupply {
    fn from(chosen: Chosen) -> Self {
        Self {
            device: chosen.device,
            open: chosen.open,
            sharing: chosen.sharing,
        }
    }
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chosen")
            .field("device", self.device.info())
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

/// Memory that bricks of one of `peers` peers in this process may take, where nothing was said:
/// half of what is free, shared evenly.
#[must_use]
pub fn default_memory_bytes(peers: u32) -> u64 {
    free_memory_bytes() / 2 / u64::from(peers.max(1))
}

/// What a device has for bricks where that is less than was `asked` for.
#[must_use]
pub fn less_than_asked(asked: Option<u64>, device: &DeviceInfo) -> Option<String> {
    let (asked, found) = (asked?, device.memory_bytes);
    (found < asked).then(|| {
        format!(
            "{} MiB were asked for, {} has {} MiB for bricks now: this peer holds less",
            asked >> 20,
            device.name,
            found >> 20
        )
    })
}

/// Makes the device of one of `peers` peers in this process; they share the cores. It has
/// `memory_bytes` for bricks, or what there is.
///
/// # Errors
/// [`DeviceError`] where the device asked for is not there or does not work.
pub fn choose(choice: DeviceChoice, peers: u32, memory_bytes: u64) -> Result<Chosen, DeviceError> {
    let open = |index: Option<Option<usize>>| -> OpenDevice {
        Box::new(move |attempt| match (attempt, index) {
            (Attempt::Again, Some(index)) => Ok(vulkan(index, memory_bytes)?.0),
            _ => Ok(Box::new(cpu(peers, memory_bytes)?)),
        })
    };
    let processor = |reason: String| {
        Ok(Chosen {
            device: Box::new(cpu(peers, memory_bytes)?),
            reason,
            open: open(None),
            sharing: Sharing::Object,
        })
    };
    let gpu = |index| {
        let (device, reason) = vulkan(index, memory_bytes)?;
        Ok(Chosen {
            device,
            reason,
            open: open(Some(index)),
            sharing: Sharing::Object,
        })
    };
    match choice {
        DeviceChoice::Cpu => processor("it was asked for".to_owned()),
        DeviceChoice::Vulkan(index) => gpu(index),
        DeviceChoice::Auto => match best_gpu() {
            Ok(index) => Ok(Chosen {
                reason: "it is the best GPU: discrete ones go before integrated, virtual"
                    .to_owned(),
                ..gpu(Some(index))?
            }),
            Err(why) => processor(why),
        },
    }
}

/// The same of a device that gets bricks as `sharing` says.
///
/// # Errors
/// [`DeviceError`], also where the device or this machine cannot share so.
pub fn choose_shared(
    choice: DeviceChoice,
    sharing: SharingArg,
    peers: u32,
    memory_bytes: u64,
) -> Result<Chosen, DeviceError> {
    match sharing {
        SharingArg::Auto | SharingArg::Object => choose(choice, peers, memory_bytes),
        SharingArg::Off => Ok(Chosen {
            sharing: Sharing::Off,
            ..choose(choice, peers, memory_bytes)?
        }),
        SharingArg::Page if matches!(choice, DeviceChoice::Vulkan(_)) => {
            Err(DeviceError::Unavailable {
                what: "--sharing page is for pages of the processor's memory: give --device cpu with it"
                    .to_owned(),
            })
        }
        SharingArg::Page => {
            let device = cpu(peers, memory_bytes)?;
            let pages = Pager::new(device.info().memory_bytes);
            let pages = pages.map_err(|error| DeviceError::Unavailable {
                what: error.to_string(),
            })?;
            Ok(Chosen {
                device: Box::new(device.reading(pages.clone())),
                reason: "pages are in the processor's memory".to_owned(),
                sharing: Sharing::Page(Arc::clone(&pages)),
                open: Box::new(move |_| {
                    Ok(Box::new(cpu(peers, memory_bytes)?.reading(pages.clone())))
                }),
            })
        }
    }
}

fn cpu(peers: u32, memory_bytes: u64) -> Result<CpuDevice, DeviceError> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = NonZeroUsize::new(cores / peers.max(1) as usize).unwrap_or(NonZeroUsize::MIN);
    // An eighth of what is free is left to everything else.
    let most = free_memory_bytes() / 8 * 7 / u64::from(peers.max(1));
    CpuDevice::new(Some(threads), memory_bytes.min(most))
}

#[cfg(feature = "vulkan")]
fn vulkan(
    index: Option<usize>,
    memory_bytes: u64,
) -> Result<(Box<dyn RenderDevice>, String), DeviceError> {
    use brickmesh_shaders::device::vulkan::VulkanDevice;
    let device = VulkanDevice::new(index, Some(memory_bytes))?;
    let reason = device.reason().to_owned();
    Ok((Box::new(device), reason))
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(_: Option<usize>, _: u64) -> Result<(Box<dyn RenderDevice>, String), DeviceError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_with_less_memory_than_was_asked_for_says_so() {
        let chosen = choose(DeviceChoice::Cpu, 2, u64::MAX).unwrap();
        let info = chosen.device.info();
        assert!(info.memory_bytes < u64::MAX / 2, "{info:?}");
        let said = less_than_asked(Some(u64::MAX), info).unwrap();
        let found = format!("has {} MiB", info.memory_bytes >> 20);
        assert!(
            said.contains(&found) && said.contains("17592186044415 MiB were asked for"),
            "{said}"
        );
        let small = choose(DeviceChoice::Cpu, 1, 1 << 20).unwrap();
        assert_eq!(small.device.info().memory_bytes, 1 << 20);
        assert_eq!(less_than_asked(Some(1 << 20), small.device.info()), None);
        assert_eq!(less_than_asked(None, info), None);
    }

    #[test]
    fn whatever_was_lost_the_processor_takes_its_place() {
        let mut chosen = choose(DeviceChoice::Cpu, 1, 1 << 20).unwrap();
        for attempt in [Attempt::Again, Attempt::Fallback] {
            let device = (chosen.open)(attempt).unwrap();
            assert_eq!(device.info(), chosen.device.info());
        }
    }
}

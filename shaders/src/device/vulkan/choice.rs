//! The Vulkan devices of this machine, which of them can render, and which one to take.
//!
//! Not here: opening a device (`gpu`).

use super::{gpu::compute_family, voxel_image::samples};
use crate::device::DeviceError;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use vulkano::{
    LoadingError, Validated, Version, VulkanLibrary,
    device::physical::{PhysicalDevice, PhysicalDeviceType},
    format::Format,
    instance::{Instance, InstanceCreateFlags, InstanceCreateInfo},
    memory::MemoryHeapFlags,
};

/// What to do where there is no Vulkan.
const HOW_TO_INSTALL: &str = "install the Vulkan loader (libvulkan1) and your GPU vendor's driver \
     (or mesa-vulkan-drivers), or use the CPU device";
/// Oldest API that the kernels' SPIR-V 1.3 runs on.
const API_MIN: Version = Version::V1_1;

/// Kind of a Vulkan device, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VulkanKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the machine's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// A driver that computes on the CPU.
    Cpu,
    /// None of these.
    Other,
}

impl fmt::Display for VulkanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Cpu => "cpu",
            Self::Other => "other",
        })
    }
}

/// A Vulkan device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VulkanDeviceSummary {
    /// 0-based, in the loader's order: the N of `vulkan:N`.
    pub index: usize,
    /// Name that the driver gives.
    pub name: String,
    /// Kind.
    pub kind: VulkanKind,
    /// Its largest heap of device-local memory, in bytes.
    pub memory_bytes: u64,
    /// Vulkan version of the device.
    pub api_version: String,
    /// Driver and its version, as far as it says.
    pub driver: String,
    /// Tells devices apart on this machine and across restarts, where the driver has it.
    pub uuid: Option<[u8; 16]>,
    /// Whether brickmesh can render on it, or why not.
    pub usable: Result<(), String>,
}

/// The Vulkan devices of this machine, in the loader's order.
///
/// # Errors
/// [`DeviceError::Unavailable`] where there is no Vulkan loader, driver or device.
pub fn enumerate() -> Result<Vec<VulkanDeviceSummary>, DeviceError> {
    let found = physical_devices()?;
    Ok(found
        .iter()
        .enumerate()
        .map(|(index, physical)| summary(index, physical))
        .collect())
}

/// The device to use and, for people, why this one.
pub(super) fn choose(index: Option<usize>) -> Result<(Arc<PhysicalDevice>, String), DeviceError> {
    let found = physical_devices()?;
    let summaries: Vec<_> = found
        .iter()
        .enumerate()
        .map(|(i, p)| summary(i, p))
        .collect();
    let (at, reason) = pick(&summaries, index)?;
    Ok((found[at].clone(), reason))
}

fn pick(
    summaries: &[VulkanDeviceSummary],
    index: Option<usize>,
) -> Result<(usize, String), DeviceError> {
    let unavailable = |what: String| Err(DeviceError::Unavailable { what });
    if let Some(index) = index {
        return match summaries.get(index) {
            None => unavailable(format!(
                "there is no Vulkan device {index}; this machine has {}, counted from 0",
                summaries.len()
            )),
            Some(VulkanDeviceSummary {
                usable: Err(why),
                name,
                ..
            }) => unavailable(format!(
                "Vulkan device {index} ({name}) cannot be used: {why}"
            )),
            Some(_) => Ok((index, format!("device {index} was asked for"))),
        };
    }
    let usable = summaries.iter().filter(|s| s.usable.is_ok());
    let Some(best) = usable.clone().min_by_key(|s| (s.kind, s.index)) else {
        let why = summaries.iter().map(|s| match &s.usable {
            Err(why) => format!("{} ({}): {why}", s.index, s.name),
            Ok(()) => String::new(),
        });
        return unavailable(format!(
            "no Vulkan device of this machine can be used: {}",
            why.collect::<Vec<_>>().join("; ")
        ));
    };
    let reason = if usable.count() == 1 {
        format!("the only Vulkan device that can be used ({})", best.kind)
    } else {
        format!(
            "the first {} device: discrete GPUs go before integrated, virtual, cpu",
            best.kind
        )
    };
    Ok((best.index, reason))
}

/// This process's connection to Vulkan, made once and kept until the process ends.
///
/// With the last instance the loader unloads the drivers. With NVIDIA's (580, H100) processes in which
/// devices were opened and dropped on several threads then crashed.
fn instance() -> Result<Arc<Instance>, DeviceError> {
    static INSTANCE: Mutex<Option<Arc<Instance>>> = Mutex::new(None);
    let mut kept = INSTANCE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(instance) = &*kept {
        return Ok(instance.clone());
    }
    let instance = new_instance()?;
    Ok(kept.insert(instance).clone())
}

fn new_instance() -> Result<Arc<Instance>, DeviceError> {
    let unavailable = |what: String| DeviceError::Unavailable { what };
    let library = VulkanLibrary::new().map_err(|error| {
        unavailable(match error {
            LoadingError::LibraryLoadFailure(e) => {
                format!("no Vulkan loader on this machine ({e}); {HOW_TO_INSTALL}")
            }
            LoadingError::VulkanError(e) => {
                format!("the Vulkan loader does not work ({e}); {HOW_TO_INSTALL}")
            }
        })
    })?;
    let info = InstanceCreateInfo {
        flags: InstanceCreateFlags::ENUMERATE_PORTABILITY,
        ..Default::default()
    };
    Instance::new(library, info).map_err(|error| {
        let why = match error {
            Validated::Error(e) => e.to_string(),
            Validated::ValidationError(e) => e.to_string(),
        };
        unavailable(format!(
            "no Vulkan driver on this machine ({why}); {HOW_TO_INSTALL}"
        ))
    })
}

fn physical_devices() -> Result<Vec<Arc<PhysicalDevice>>, DeviceError> {
    let unavailable = |what: String| DeviceError::Unavailable { what };
    let found: Vec<_> = instance()?
        .enumerate_physical_devices()
        .map_err(|error| {
            unavailable(format!(
                "the Vulkan loader lists no devices ({error}); {HOW_TO_INSTALL}"
            ))
        })?
        .collect();
    if found.is_empty() {
        return Err(unavailable(format!(
            "no Vulkan device on this machine; {HOW_TO_INSTALL}"
        )));
    }
    Ok(found)
}

/// The kind of a device.
pub(super) fn kind(physical: &PhysicalDevice) -> VulkanKind {
    match physical.properties().device_type {
        PhysicalDeviceType::DiscreteGpu => VulkanKind::Discrete,
        PhysicalDeviceType::IntegratedGpu => VulkanKind::Integrated,
        PhysicalDeviceType::VirtualGpu => VulkanKind::Virtual,
        PhysicalDeviceType::Cpu => VulkanKind::Cpu,
        _ => VulkanKind::Other,
    }
}

/// The largest heap of device-local memory, in bytes.
pub(super) fn memory_bytes(physical: &PhysicalDevice) -> u64 {
    let heaps = &physical.memory_properties().memory_heaps;
    let local = heaps
        .iter()
        .filter(|h| h.flags.intersects(MemoryHeapFlags::DEVICE_LOCAL));
    local.map(|h| h.size).max().unwrap_or(0)
}

fn summary(index: usize, physical: &PhysicalDevice) -> VulkanDeviceSummary {
    let properties = physical.properties();
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    let driver = format!(
        "{} {}",
        text(&properties.driver_name),
        text(&properties.driver_info)
    );
    VulkanDeviceSummary {
        index,
        name: properties.device_name.clone(),
        kind: kind(physical),
        memory_bytes: memory_bytes(physical),
        api_version: physical.api_version().to_string(),
        driver: driver.trim().to_owned(),
        uuid: properties.device_uuid,
        usable: usable(physical),
    }
}

fn usable(physical: &PhysicalDevice) -> Result<(), String> {
    let api = physical.api_version();
    if api < API_MIN {
        return Err(format!("it has Vulkan {api}, {API_MIN} is needed"));
    }
    if compute_family(physical).is_none() {
        return Err("it has no compute queue".into());
    }
    for format in [Format::R32_SFLOAT, Format::R32G32B32A32_SFLOAT] {
        if !samples(physical, format) {
            return Err(format!("it cannot sample images of {format:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: usize, kind: VulkanKind, usable: Result<(), String>) -> VulkanDeviceSummary {
        VulkanDeviceSummary {
            index,
            name: format!("device {index}"),
            kind,
            memory_bytes: 1 << 30,
            api_version: "1.3.0".into(),
            driver: String::new(),
            uuid: None,
            usable,
        }
    }

    #[test]
    fn the_first_usable_discrete_device_goes_before_all_others() {
        let found = [
            device(0, VulkanKind::Cpu, Ok(())),
            device(
                1,
                VulkanKind::Discrete,
                Err("it has no compute queue".into()),
            ),
            device(2, VulkanKind::Integrated, Ok(())),
            device(3, VulkanKind::Discrete, Ok(())),
            device(4, VulkanKind::Discrete, Ok(())),
        ];
        assert_eq!(pick(&found, None).unwrap().0, 3);
        assert_eq!(pick(&found[..3], None).unwrap().0, 2);
        assert_eq!(pick(&found, Some(0)).unwrap().0, 0);
    }

    #[test]
    fn a_device_that_cannot_be_had_is_refused_with_the_reason() {
        let found = [device(0, VulkanKind::Other, Err("it is broken".into()))];
        for (index, text) in [
            (
                Some(0),
                "Vulkan device 0 (device 0) cannot be used: it is broken",
            ),
            (
                Some(7),
                "there is no Vulkan device 7; this machine has 1, counted from 0",
            ),
            (
                None,
                "no Vulkan device of this machine can be used: 0 (device 0): it is broken",
            ),
        ] {
            assert_eq!(pick(&found, index).unwrap_err().to_string(), text);
        }
    }
}

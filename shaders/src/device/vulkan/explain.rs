//! What a driver's errors mean for who uses the device: memory is full, the device is lost, or
//! anything else failed.

use crate::device::DeviceError;
use std::error::Error;
use vulkano::{Validated, VulkanError, memory::allocator::MemoryAllocatorError};

/// Adds what was being done to an error of the driver, and sorts it.
pub(super) trait Explain<T> {
    /// The value; or [`DeviceError::OutOfMemory`], [`DeviceError::Lost`] or
    /// [`DeviceError::Failed`] with `what`.
    fn explain(self, what: &str) -> Result<T, DeviceError>;
}

impl<T, E: Error + 'static> Explain<T> for Result<T, E> {
    fn explain(self, what: &str) -> Result<T, DeviceError> {
        self.map_err(|error| device_error(what, &error))
    }
}

/// An error with all that it says of its causes.
pub(super) fn device_error(what: &str, error: &(dyn Error + 'static)) -> DeviceError {
    let mut what = what.to_owned();
    let (mut out_of_memory, mut lost) = (false, false);
    let mut next = Some(error);
    while let Some(e) = next {
        // What `Validated` says of itself is only that its source says more.
        if !e.is::<Validated<VulkanError>>() {
            what = format!("{what}: {e}");
        }
        out_of_memory |= is_out_of_memory(e);
        lost |= is_lost(e);
        next = e.source();
    }
    if lost {
        DeviceError::Lost { what }
    } else if out_of_memory {
        DeviceError::OutOfMemory { what }
    } else {
        DeviceError::Failed { what }
    }
}

/// Whatever keeps the allocator from giving memory counts, but that no memory is of the right kind:
/// drivers say in several ways that there is no more.
fn is_out_of_memory(error: &(dyn Error + 'static)) -> bool {
    let by_allocator = error
        .downcast_ref()
        .is_some_and(|e| !matches!(e, MemoryAllocatorError::FindMemoryType));
    by_allocator
        || matches!(
            error.downcast_ref(),
            Some(
                VulkanError::OutOfDeviceMemory
                    | VulkanError::OutOfHostMemory
                    | VulkanError::OutOfPoolMemory
                    | VulkanError::FragmentedPool
                    | VulkanError::MemoryMapFailed
                    | VulkanError::TooManyObjects
            )
        )
}

/// After an error that the driver cannot name, and where it does not come to an end, nothing is
/// known of the device either.
fn is_lost(error: &(dyn Error + 'static)) -> bool {
    matches!(
        error.downcast_ref(),
        Some(VulkanError::DeviceLost | VulkanError::Timeout | VulkanError::Unknown)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_allocator(error: MemoryAllocatorError) -> DeviceError {
        device_error("making an image", &error)
    }

    #[test]
    fn a_drivers_want_of_memory_is_told_from_its_failure_and_its_loss() {
        let of = |e| {
            by_allocator(MemoryAllocatorError::AllocateDeviceMemory(
                Validated::Error(e),
            ))
        };
        for full in [
            of(VulkanError::OutOfDeviceMemory),
            of(VulkanError::OutOfHostMemory),
            of(VulkanError::TooManyObjects),
            by_allocator(MemoryAllocatorError::OutOfPoolMemory),
            device_error("mapping", &VulkanError::MemoryMapFailed),
        ] {
            assert!(matches!(full, DeviceError::OutOfMemory { .. }), "{full}");
        }
        for lost in [
            of(VulkanError::DeviceLost),
            device_error("waiting", &Validated::Error(VulkanError::DeviceLost)),
            device_error("waiting", &VulkanError::Timeout),
            device_error("submitting", &VulkanError::Unknown),
        ] {
            assert!(matches!(lost, DeviceError::Lost { .. }), "{lost}");
        }
        for failed in [
            by_allocator(MemoryAllocatorError::FindMemoryType),
            device_error("opening", &VulkanError::FeatureNotPresent),
        ] {
            assert!(matches!(failed, DeviceError::Failed { .. }), "{failed}");
        }
    }

    #[test]
    fn an_error_says_what_was_done_and_every_cause() {
        let inner = MemoryAllocatorError::AllocateDeviceMemory(Validated::Error(
            VulkanError::OutOfDeviceMemory,
        ));
        let text = by_allocator(inner).to_string();
        assert!(text.contains("making an image: allocating"), "{text}");
        assert!(!text.contains("source"), "{text}");
    }
}

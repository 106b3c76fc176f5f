//! Tests that cannot run here say so by name, past the test runner's capture of output, so that
//! a skipped test never looks like one that passed.

use brickmesh_shaders::device::vulkan::VulkanDevice;
use std::io::Write as _;

/// Says that a test is skipped, and why.
pub fn skip(name: &str, why: &str) {
    // Written to the stream itself: what `println!` prints is hidden for tests that pass.
    let line = format!("skipped {name}: {why}\n");
    if std::io::stderr().write_all(line.as_bytes()).is_err() {
        println!("{line}");
    }
}

/// Whether a test finds a Vulkan device. Where it does not, it is skipped, or fails where
/// `BRICKMESH_GPU` is `require`; `off` is as if there was none.
///
/// # Panics
/// Where there is none and one is required.
#[must_use]
pub fn vulkan_is_there(test: &str) -> bool {
    let wish = std::env::var("BRICKMESH_GPU").unwrap_or_else(|_| "auto".to_owned());
    if wish == "off" {
        skip(test, "BRICKMESH_GPU=off");
        return false;
    }
    match VulkanDevice::new(None, None) {
        Ok(_) => true,
        Err(error) => {
            assert!(wish != "require", "BRICKMESH_GPU=require, but {error}");
            skip(test, &format!("no Vulkan device: {error}"));
            false
        }
    }
}

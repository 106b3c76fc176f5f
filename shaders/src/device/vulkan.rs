//! The Vulkan device (soon).

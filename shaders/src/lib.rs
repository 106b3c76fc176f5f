//! The devices of brickmesh: one trait, two implementations (CPU with SIMD, Vulkan through
//! vulkano), and their kernels. A device takes bricks, then renders jobs of them into sub-images
//! and says how long each took.
//!
//! Invariant: sample k of a ray stands at `(k + j) · step` from the eye, with j the pixel's jitter
//! or 0, whatever the device, the brick or the job; a job blends the samples inside its half-open box and no others. Colours are
//! linear and premultiplied everywhere.
//!
//! Not here: who renders what (topology), messages (actors), files (node).

pub mod brick;
pub mod classifier;
pub mod constants;
pub mod device;
pub mod jitter;
pub mod macrocells;
pub mod modes;
pub mod page_memory;
pub mod scene;
pub mod secondary;
pub mod sub_image;
pub mod transfer_table;
pub mod triangle_tree;

pub use brick::BrickVoxels;
pub use device::{
    BrickKey, DeviceError, DeviceInfo, DeviceKind, IsWanted, Job, RenderDevice, RenderedJob,
};
pub use scene::Scene;
pub use sub_image::SubImage;

const _: () = assert!(
    constants::NO_DATA_MIN.to_bits()
        == brickmesh_topology::data::voxel_numbers::NO_DATA_MIN.to_bits()
);

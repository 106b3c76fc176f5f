//! Every decision of brickmesh, and nothing else: how a volume is cut into bricks, who holds
//! which, what jobs a frame has, who renders them, in which order they blend, who composites
//! which tile.
//!
//! Invariant: pure. No I/O, no clock, no threads, no unseeded randomness: the same input gives
//! the same bytes on every machine, so peers that decide alone decide the same.
//! Invariant: a folder uses those listed before it, and no file uses one that uses it.
//!
//! Spaces: `world` (the file's physical units), `grid` (voxels: sample (i,j,k) stands at
//! (i,j,k)), `pixel` (x right, y down, pixel centres at +0.5). `a_from_b` maps b to a.

pub mod balance;
pub mod base;
pub mod data;
pub mod frame;
pub mod mesh;
pub mod picture;

pub use base::{digest::Digest, peer::PeerId};
pub use data::{
    brick_bytes::BrickBytes,
    brick_grid::{BrickGrid, BrickIndex},
    manifest::Manifest,
    transfer_function::TransferFunction,
    volume::{VolumeDescription, VoxelType},
    voxel_box::VoxelBox,
    voxel_numbers::VoxelNumbers,
};
pub use picture::{
    camera::{Camera, PixelRect, View},
    render_settings::RenderSettings,
};

//! Every decision of brickmesh, and nothing else: how a volume is cut into bricks, who holds
//! which, what jobs a frame has, who renders them, in which order they blend, who composites
//! which tile.
//!
//! Invariant: pure. No I/O, no clock, no threads, no unseeded randomness: the same input gives
//! the same bytes on every machine, so peers that decide alone decide the same.
//!
//! Spaces: `world` (the file's physical units), `grid` (voxels: sample (i,j,k) stands at
//! (i,j,k)), `pixel` (x right, y down, pixel centres at +0.5). `a_from_b` maps b to a.

pub mod asked_frames;
pub mod brick_grid;
pub mod brick_set;
pub mod camera;
pub mod cell_ranges;
pub mod cost_table;
pub mod default_transfer;
pub mod device_recovery;
pub mod digest;
pub mod footprint;
pub mod frame_plan;
pub mod frame_tracker;
pub mod frames_under_way;
pub mod framing;
pub mod holding;
pub mod inquiry;
pub mod job_tree;
pub mod keeper;
pub mod manifest;
pub mod membership;
pub mod peer;
pub mod placement;
pub mod plain_text;
pub mod prediction;
pub mod presets;
pub mod render_settings;
pub mod roster;
pub mod sample_count;
pub mod schedule;
pub mod seeded;
pub mod stealing;
pub mod subject;
pub mod taking_part;
pub mod tile_runs;
pub mod tiles;
pub mod transfer_function;
pub mod upkeep;
pub mod value_gathering;
pub mod value_statistics;
pub mod visibility;
pub mod volume;
pub mod voxel_box;
pub mod voxel_numbers;

pub use brick_grid::{BrickGrid, BrickIndex};
pub use camera::{Camera, PixelRect, View};
pub use digest::Digest;
pub use manifest::Manifest;
pub use peer::PeerId;
pub use render_settings::RenderSettings;
pub use transfer_function::TransferFunction;
pub use volume::{VolumeDescription, VoxelType};
pub use voxel_box::VoxelBox;
pub use voxel_numbers::VoxelNumbers;

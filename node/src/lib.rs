//! The parts of the program `brickmesh`: command line, files, network, window.
//!
//! Invariant: no decision about bricks, jobs or peers is made here (topology does), no kernel is
//! written here (shaders).

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod args;
pub mod bounded_file;
pub mod brick_store;
pub mod camera_choice;
pub mod camera_path_file;
pub mod commands;
pub mod config_file;
pub mod config_folder;
pub(crate) mod demo_volume;
pub mod device_choice;
pub mod free_memory;
pub(crate) mod kept_voxels;
pub mod metrics;
pub mod network;
pub mod open_source;
pub mod output_file;
pub mod overlay;
pub(crate) mod partition_picture;
pub mod peer_names;
pub mod picture;
pub mod picture_settings;
pub(crate) mod placement_choice;
pub mod progress;
pub mod saved_session;
pub mod scene_file;
pub(crate) mod scratch;
pub mod session;
pub mod short_numbers;
pub mod stats;
pub mod stop;
pub mod surface_file;
pub mod terminal;
pub mod trace_file;
pub mod transfer;
pub(crate) mod turn;
pub mod value_report;
pub mod video;
pub mod volume_file;
pub mod window;

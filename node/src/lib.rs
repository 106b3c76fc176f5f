//! The parts of the program `brickmesh`: command line, files, network, window.
//!
//! Invariant: no decision about bricks, jobs or peers is made here (topology does), no kernel is
//! written here (shaders).

pub mod network;
pub mod volume_file;

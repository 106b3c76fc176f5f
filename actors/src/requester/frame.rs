//! What became of a frame: its picture and how it came about, or why it did not come.

use super::FRAMES_IN_FLIGHT_MAX;
use brickmesh_shaders::SubImage;
use brickmesh_topology::{
    BrickIndex, Digest, PeerId, PixelRect, VoxelBox,
    frame::{frame_requests::BrickAccesses, timeline::Row},
};
use std::collections::BTreeMap;

/// A finished frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The picture, premultiplied linear RGBA.
    pub image: SubImage,
    /// How it came about.
    pub stats: FrameStats,
}

/// How a frame came about.
#[derive(Clone, Debug)]
pub struct FrameStats {
    /// Frames of this requester before it.
    pub number: u64,
    /// Attempts that failed before.
    pub failed_attempts: u32,
    /// From request to last tile, microseconds.
    pub total_micros: u64,
    /// Deriving the plan here, microseconds.
    pub schedule_micros: u64,
    /// Blending, summed over all compositors, microseconds.
    pub composite_micros: u64,
    /// Bytes of pixels that went from peer to peer.
    pub bytes_sent: u64,
    /// Boxes that nobody holds.
    pub missing: Vec<VoxelBox>,
    /// Edge of the tiles that the picture was divided into, pixels; `None`: the volume was.
    pub image_tile: Option<u32>,
    /// Longest time that a peer was expected to take, microseconds.
    pub predicted_micros: u64,
    /// How long it was expected to take with the volume divided and with the picture divided, microseconds, where the requester was to choose.
    pub forecasts: Vec<u64>,
    /// Bricks that each peer needed.
    pub accesses: BTreeMap<PeerId, BrickAccesses>,
    /// Its jobs, front to back.
    pub jobs: Vec<JobStats>,
    /// What each peer did when, where that was asked for.
    pub trace: Option<FrameTrace>,
}

/// What each peer did when, for a frame.
#[derive(Clone, Debug)]
pub struct FrameTrace {
    /// When it was asked for, as [`now_micros`](crate::span_log::now_micros).
    pub began: u64,
    /// For each peer its parts.
    pub rows: Vec<Row>,
    /// Of the plan's jobs: brick, and what was expected, microseconds on a device of speed 1.
    pub expected: Vec<(BrickIndex, u64)>,
    /// Speeds that the plan reckoned with, in millionths.
    pub speeds: BTreeMap<PeerId, u64>,
}

/// A job of a finished frame.
#[derive(Clone, Debug)]
pub struct JobStats {
    /// Brick.
    pub brick: BrickIndex,
    /// Samples that belonged to it.
    pub owned: VoxelBox,
    /// Its pixels, of the whole picture where the frame is a band of that.
    pub rect: PixelRect,
    /// Who rendered it.
    pub peer: PeerId,
    /// Who it was planned for, where another one took it.
    pub stolen_from: Option<PeerId>,
    /// What was expected, microseconds on a device of speed 1.
    pub estimate_micros: u64,
    /// What was measured, microseconds; 0 where nobody would have seen it, `None` where the time came too late.
    pub measured_micros: Option<u64>,
}

/// A frame that did not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Nobody holds a brick of the data set.
    #[error("no peer holds a brick of data set {}", data_set.short())]
    NobodyHolds {
        /// The data set.
        data_set: Digest,
    },
    /// More than [`FRAMES_IN_FLIGHT_MAX`] frames.
    #[error("{FRAMES_IN_FLIGHT_MAX} frames are under way already")]
    TooMany,
    /// The plan could not be derived.
    #[error("{why}")]
    Plan {
        /// Why.
        why: String,
    },
    /// Attempts are used up.
    #[error(
        "frame {number} did not come in {attempts} attempts; {awaited} of its tiles and times are missing; last: {why}"
    )]
    GaveUp {
        /// Its number.
        number: u64,
        /// Attempts made.
        attempts: u32,
        /// Tiles and job times still awaited.
        awaited: usize,
        /// What went wrong last.
        why: String,
    },
}

//! What is told of each frame.

use serde::Serialize;

/// What happened in a frame.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct FrameReport {
    pub(super) frame: u32,
    pub(super) total_us: u64,
    pub(super) attempts: u32,
    pub(super) given_up: bool,
    pub(super) jobs: usize,
    pub(super) stolen: usize,
    /// Jobs that were not rendered, because nobody would have seen them.
    pub(super) hidden: usize,
    /// Peers that ended a tenth or more after the planned makespan; under chaos those that the
    /// requester left out of a further attempt.
    pub(super) late: Vec<String>,
    /// Boxes that nobody holds.
    pub(super) missing: usize,
    /// Bricks that came from other peers since the frame before.
    pub(super) moved: usize,
    pub(super) rendered_twice: usize,
    /// Messages of the frame; under chaos all since the frame before.
    pub(super) messages: usize,
    pub(super) planned_us: u64,
    /// The picture was divided, not the volume.
    pub(super) image: bool,
    pub(super) max_over_mean: f64,
}

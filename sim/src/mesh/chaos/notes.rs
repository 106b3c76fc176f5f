//! What simulated machines say to each other: the messages of the actors, with names in place of
//! pixels and voxels.

use brickmesh_topology::{
    BrickIndex, Digest,
    balance::{cost_table::CostTable, roster::Roster, stealing::StealMessage},
    frame::{
        compositing::{HiddenJobs, Partial},
        frame_requests::{AttemptRequest, FrameId, FrameMessage, Named},
        image::named::Names,
    },
    mesh::keeper::KeeperMessage,
};
use std::sync::Arc;

/// Index of a machine.
pub(super) type Who = usize;

/// Who asked, and which of its frames.
pub(super) type FrameKey = (Who, FrameId);

/// Asks for a frame.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Index of the view.
    pub(super) view: usize,
    pub(super) attempt: Arc<AttemptRequest>,
}

/// In place of a job's pixels: where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Job of the plan.
    pub(super) job: u32,
    /// Who rendered it.
    pub(super) by: Who,
    /// Index of the view that it shows.
    pub(super) view: usize,
}

/// In place of an image.
pub(super) type Pieces = Names<Piece>;

/// A message.
#[derive(Clone, Debug)]
pub(super) enum Note {
    /// Between keepers.
    Keeper(KeeperMessage),
    /// A brick, and whether its bytes are what they should be.
    Brick(Digest, BrickIndex, bool),
    Roster(Named<Roster>),
    Costs(Named<CostTable>),
    Frame(Request),
    /// An attempt is over; whether the frame is, too.
    Cancel(FrameId, bool),
    Partial(Arc<Partial<Pieces>>),
    Steal(FrameKey, Digest, StealMessage),
    Hidden(Arc<HiddenJobs>),
    Tile {
        frame: FrameId,
        plan: Digest,
        tile: u32,
        pieces: Arc<[Piece]>,
    },
    /// To a compositor: its tiles are missing.
    TilesDue(FrameId),
    /// To a requester.
    Reply(FrameId, FrameMessage),
}

/// What may happen to a message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Keeper,
    /// Bricks, and who asks for them: not said again soon.
    Brick,
    Frame,
    Steal,
}

impl Note {
    pub(super) fn class(&self) -> Class {
        match self {
            Self::Keeper(
                KeeperMessage::BrickRequest { .. } | KeeperMessage::BrickRefused { .. },
            )
            | Self::Brick(..) => Class::Brick,
            Self::Keeper(_) => Class::Keeper,
            Self::Steal(..) | Self::Hidden(_) => Class::Steal,
            _ => Class::Frame,
        }
    }

    /// A number for the trace: what kind of message, and of what.
    pub(super) fn mark(&self) -> u64 {
        let frame = |kind: u64, f: &FrameId, of: u64| {
            kind | f.number << 8 | u64::from(f.attempt) << 32 | of << 36
        };
        match self {
            Self::Keeper(message) => keeper_mark(message),
            Self::Brick(_, brick, _) => 6 | u64::from(brick.0) << 8,
            Self::Roster(roster) => 32 | first(&roster.digest),
            Self::Costs(costs) => 33 | first(&costs.digest),
            Self::Frame(request) => frame(34, &request.attempt.frame, 0),
            Self::Cancel(f, is_over) => frame(36, f, u64::from(*is_over)),
            Self::Partial(p) => frame(37, &p.key.1, p.parts.len() as u64),
            Self::Steal((_, f), _, _) => frame(39, f, 0),
            Self::Hidden(hidden) => frame(47, &hidden.key.1, hidden.jobs.len() as u64),
            Self::Tile { frame: f, tile, .. } => frame(41, f, u64::from(*tile)),
            Self::TilesDue(f) => frame(45, f, 0),
            Self::Reply(f, message) => reply_mark(message, |kind, of| frame(kind, f, of)),
        }
    }
}

fn first(digest: &Digest) -> u64 {
    let bytes = digest.as_bytes().iter().take(7);
    bytes.fold(0, |word, &b| word << 8 | u64::from(b)) << 8
}

fn reply_mark(message: &FrameMessage, mark: impl Fn(u64, u64) -> u64) -> u64 {
    match message {
        FrameMessage::NeedInputs => mark(35, 0),
        FrameMessage::JobsDone { jobs, .. } => mark(38, jobs.len() as u64),
        FrameMessage::Given { jobs, .. } => mark(40, jobs.len() as u64),
        FrameMessage::Lacking { jobs, .. } => mark(46, jobs.len() as u64),
        FrameMessage::Failed { .. } => mark(42, 0),
        FrameMessage::Busy => mark(43, 0),
        FrameMessage::Complaint { .. } => mark(44, 0),
        FrameMessage::Tile { .. } | FrameMessage::BadTile => mark(41, 0),
    }
}

fn keeper_mark(message: &KeeperMessage) -> u64 {
    match message {
        KeeperMessage::Heartbeat { heartbeat, .. } => heartbeat.count << 8,
        KeeperMessage::Goodbye => 1,
        KeeperMessage::Open { .. } => 2,
        KeeperMessage::NeedManifest { .. } => 3,
        KeeperMessage::Residency { announcement, .. } => {
            let held = u64::from(announcement.held.len());
            4 | held << 8 | u64::from(announcement.assigned.len()) << 32
        }
        KeeperMessage::ResidencyChanged { .. } => 8,
        KeeperMessage::ResidencyDigests { digests } => 9 | (digests.len() as u64) << 8,
        KeeperMessage::NeedResidency { .. } => 10,
        KeeperMessage::BrickRequest { brick, .. } => 5 | u64::from(brick.0) << 8,
        KeeperMessage::BrickRefused { brick, .. } => 7 | u64::from(brick.0) << 8,
    }
}

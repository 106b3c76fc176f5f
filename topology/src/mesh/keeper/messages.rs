//! What keepers say to each other, are told, and want done.

use super::UploadResult;
use crate::{
    balance::frame_plan::FrameWork,
    base::{digest::Digest, peer::PeerId},
    data::{brick_bytes::BrickBytes, brick_grid::BrickIndex, manifest::Manifest},
    mesh::{
        announcement::{Announcement, AnnouncementChange},
        membership::{Change, Heartbeat},
        replicas::Origin,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a peer says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Name for people.
    pub name: String,
    /// Its device, for people; where that is lost, why.
    pub device: String,
    /// Its device is lost, and none is open in its place.
    #[serde(default)]
    pub is_device_lost: bool,
    /// Memory that it gives to bricks, in bytes; 0 for one that only looks on.
    pub memory_bytes: u64,
    /// Room on its shelf: bricks that it keeps on a disk, in bytes; 0: it has none.
    #[serde(default)]
    pub shelf_bytes: u64,
    /// How it gets bricks that it does not hold.
    #[serde(default)]
    pub sharing: Sharing,
    /// Version of its program, for people.
    pub version: String,
    /// Whether it is a viewer, whose camera others may follow.
    #[serde(default)]
    pub is_viewer: bool,
}

/// How a peer gets bricks for frames that it does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Jobs wait until their bricks are loaded.
    #[default]
    Object,
    /// Jobs read bricks, of which these come then.
    Page,
    /// It gets none from others, and renders what it holds or reads from its own file.
    Off,
}

/// How a peer is doing, said with each heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vitals {
    /// Whether it takes part in frames now.
    pub rendering: bool,
    /// Peers that it does not hear though it knows them: it cannot work with them. Shared by who
    /// goes by it.
    pub suspects: Arc<BTreeSet<PeerId>>,
    /// Bricks on their way to it.
    pub downloading: u32,
    /// The last frame that it asked for.
    pub last_frame: Option<FrameTimes>,
    /// Its speed as who asked for its last frame measured it, millionths of the mean of all who took
    /// part; `None`: it took part in none.
    pub speed_millionths: Option<u64>,
}

/// Where the time of a frame went, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameTimes {
    /// From request to last tile.
    pub total_micros: u64,
    /// Deriving the plan.
    pub schedule_micros: u64,
    /// Blending, summed over all compositors.
    pub composite_micros: u64,
}

/// What keepers say to each other. The bytes of bricks are not among it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum KeeperMessage {
    /// The sender is there; said again and again. What it says is shared, as it goes to all.
    Heartbeat {
        /// The number of the heartbeat.
        heartbeat: Heartbeat,
        /// What the sender is.
        hello: Arc<Hello>,
        /// How it is doing.
        vitals: Arc<Vitals>,
    },
    /// The sender leaves the mesh.
    Goodbye,
    /// A data set that is open in the mesh: hold your share of it.
    Open {
        /// Its manifest.
        manifest: Arc<Manifest>,
        /// Copies of each brick that are wanted.
        redundancy: u32,
        /// Whether it was opened just now, so that next to nobody has any of it.
        #[serde(default)]
        is_new: bool,
    },
    /// The sender does not know a data set that was spoken of: open it there.
    NeedManifest {
        /// The data set.
        data_set: Digest,
    },
    /// What the sender holds of a data set.
    Residency {
        /// The data set.
        data_set: Digest,
        /// What it says of it; shared, as it goes to all.
        announcement: Arc<Announcement>,
    },
    /// What the sender holds of a data set has changed.
    ResidencyChanged {
        /// The data set.
        data_set: Digest,
        /// What of it; shared, as it goes to all.
        change: Arc<AnnouncementChange>,
    },
    /// What the sender said of its data sets, for who missed any of it.
    ResidencyDigests {
        /// The name of what it said last of each data set; shared, as it goes to all.
        digests: Arc<BTreeMap<Digest, Digest>>,
    },
    /// The sender missed what was said of a data set: say all of it.
    NeedResidency {
        /// The data set.
        data_set: Digest,
    },
    /// Asks a holder for a brick.
    BrickRequest {
        /// The data set.
        data_set: Digest,
        /// The brick.
        brick: BrickIndex,
        /// A frame waits for it.
        for_frame: bool,
    },
    /// The brick cannot be had from the sender.
    BrickRefused {
        /// The data set.
        data_set: Digest,
        /// The brick.
        brick: BrickIndex,
        /// Why.
        why: String,
    },
}

/// The number of the question of a thread that waits for a brick to be there.
pub const MISSED: u64 = u64::MAX;

/// What a keeper is told.
#[derive(Clone, Debug)]
pub enum KeeperInput {
    /// Time has passed; to be said every [`TICK_MICROS`](super::TICK_MICROS).
    Tick,
    /// A peer can be reached.
    Connected(PeerId),
    /// A peer cannot be reached any more.
    Lost(PeerId),
    /// A message from a peer's keeper.
    Said(PeerId, KeeperMessage),
    /// The bytes of a brick came from a peer.
    Brick(PeerId, Digest, BrickIndex),
    /// A request for a brick could not be sent, for a frame or not.
    NotAsked(Digest, BrickIndex, bool),
    /// What became of a [`KeeperOutput::Upload`].
    Uploaded(PeerId, Digest, BrickIndex, UploadResult),
    /// This peer was asked for its part of a frame, or is at one still: bricks are to keep out of its way.
    Rendering,
    /// What a requester's frames of a data set ask of the peers from now on.
    Asked(PeerId, Digest, Arc<FrameWork>),
    /// A roster names this speed for this peer, millionths.
    Speed(u64),
    /// A frame that this peer asked for is whole.
    Delivered(FrameTimes),
    /// These peers did not do their part of a frame in time.
    Late(Vec<PeerId>),
    /// This peer can give every brick of a data set; so many copies of each are wanted.
    Offer(Arc<Manifest>, u32),
    /// Bricks of a data set are on this peer's shelf, whoever else has it; where it is used one copy of each is wanted, or as many as others say.
    Know(Arc<Manifest>),
    /// The bricks of a data set that was opened that are on the shelf, not checked yet; said once, where there is a shelf.
    OnShelf(Digest, Vec<BrickIndex>),
    /// What became of a [`KeeperOutput::Shelve`], or of a brick on the shelf that was checked.
    Shelved(Digest, BrickIndex, ShelfResult),
    /// This peer needs a data set that is open, or needs it no more.
    Use(Digest, bool),
    /// A frame of this data set is asked for here of which peers fetch what they lack.
    Fetches(Digest),
    /// This peer's source did not give a brick to another peer.
    CannotGive(Digest, BrickIndex),
    /// A frame needs a brick that is not held; answered by [`KeeperOutput::Staged`] with the number of this question, unless
    /// it is released before.
    Stage(Digest, BrickIndex, u64),
    /// No frame needs it any more.
    Release(Digest, BrickIndex),
    /// A thread waits for a brick to be there, which may be on its way or have come. Answered by
    /// [`KeeperOutput::Staged`] with the number [`MISSED`], where nobody asked for it before.
    Missed(Digest, BrickIndex),
    /// What became of a [`KeeperOutput::Load`].
    Loaded(Digest, BrickIndex, LoadResult),
    /// The device is lost, with every brick on it; those named are in host memory too.
    DeviceLost {
        /// Why, for people.
        why: String,
        /// Bricks of which there are host copies.
        copies: BTreeSet<(Digest, BrickIndex)>,
    },
    /// There is a device again.
    DeviceOpened {
        /// What it is, for people.
        device: String,
        /// Memory that it gives to bricks, in bytes.
        memory_bytes: u64,
        /// Memory that bricks take there.
        brick_bytes: BrickBytes,
    },
    /// A brick was freed, because memory was short for a picture.
    GaveUp(Digest, BrickIndex),
    /// This peer is to leave once others hold what only it holds.
    Leave,
}

/// What became of a brick that was to be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadResult {
    /// It is in device memory.
    Done,
    /// The device has no room.
    NoRoom,
    /// It is damaged, or there is no device.
    Failed,
    /// The source or the shelf does not give it as it should be.
    Unreadable,
}

/// What became of a brick on its way to the shelf, or that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShelfResult {
    /// It is there as it should be.
    Done,
    /// It is not there, or not as it should be.
    Lost,
    /// The disk does not give it for now.
    Unreadable,
    /// The disk did not take it: it is full, or fails.
    NotTaken,
}

/// What a keeper wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum KeeperOutput {
    /// Say this to a peer; where a [`KeeperMessage::BrickRequest`] cannot be sent, say
    /// [`KeeperInput::NotAsked`].
    Send(PeerId, KeeperMessage),
    /// Check a brick and load it into device memory, from this peer's source or shelf, or from the bytes that
    /// were spoken of last; then say [`KeeperInput::Loaded`].
    Load(Digest, BrickIndex, Origin),
    /// Check a brick, the bytes of which were spoken of last or are in host memory, and put it on the shelf; then say
    /// [`KeeperInput::Shelved`].
    Shelve(Digest, BrickIndex),
    /// Take a brick from the shelf.
    Unshelve(Digest, BrickIndex),
    /// Free a brick's device memory.
    Unload(Digest, BrickIndex),
    /// A brick that a frame needs is in device memory, until it is released; false: it cannot be had. The number is that of
    /// the question.
    Staged(Digest, BrickIndex, u64, bool),
    /// Free a brick that frames needed: its memory is needed for another one.
    Unstage(Digest, BrickIndex),
    /// Forget the host copy of a brick.
    Dropped(Digest, BrickIndex),
    /// Give a brick to a peer that asked for it, or refuse it; then say [`KeeperInput::Uploaded`], and where
    /// that is [`UploadResult::Queued`], once more when it is written.
    Upload(PeerId, Digest, BrickIndex),
    /// A data set is known now.
    Opened(Arc<Manifest>),
    /// A data set is not held any more.
    Closed(Digest),
    /// Who can take part in frames of a data set has changed: see [`Keeper::candidates`].
    ///
    /// [`Keeper::candidates`]: super::Keeper::candidates
    Roster(Digest),
    /// Running frames must do without a peer.
    GoOnWithout(PeerId),
    /// Something changed among the peers, for the log.
    Changed(Change),
    /// A message was dropped, for the log: from whom, and why.
    Dropping(PeerId, &'static str),
    /// This peer said goodbye; so many bricks of its data sets nobody holds who stays.
    Left(u32),
}

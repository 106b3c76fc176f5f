//! What the actors of a peer tell each other.

use crate::{
    budget::{Held, Room},
    messages::{FrameId, FrameKey, Message, Partial},
    pixels::Pixels,
};
use actix::Recipient;
use brickmesh_shaders::{
    BrickKey, DeviceError, DeviceInfo, RenderedJob, Scene,
    device::preparation::{Preparation, PreparedBrick},
};
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, PeerId,
    balance::{
        frame_plan::{FramePlan, FrameWork},
        roster::Candidate,
    },
    data::brick_set::BrickSet,
    frame::worker::Awaits,
    mesh::keeper::FrameTimes,
};
use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::oneshot;

/// The actors that messages go to.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// This peer.
    pub local: PeerId,
    /// Bricks, residency, other peers.
    pub owner: Recipient<OwnerInput>,
    /// Frames asked for by others.
    pub scheduler: Recipient<SchedulerInput>,
    /// Partials.
    pub compositor: Recipient<CompositorInput>,
    /// Frames that this peer asked for.
    pub requester: Recipient<RequesterInput>,
    /// The device.
    pub raycaster: Recipient<DeviceInput>,
    /// Cameras of viewers.
    pub viewpoints: Recipient<ViewpointInput>,
}

impl Addresses {
    /// Hands a message to the actor that it concerns; `held` until it is handled. False where that actor's
    /// mailbox is full, or it has ended.
    #[must_use]
    pub fn route(&self, from: PeerId, message: Message, held: Held) -> bool {
        self.tell_owner_of_frames(&message);
        let full = match message {
            Message::Keeper(_)
            | Message::BrickData { .. }
            | Message::AskVoxel { .. }
            | Message::Voxel { .. } => self
                .owner
                .try_send(OwnerInput::Said(from, message, held))
                .is_err(),
            Message::Roster(_)
            | Message::Costs(_)
            | Message::Frame(_)
            | Message::Steal(_)
            | Message::Hidden(_)
            | Message::Cancel { .. } => self
                .scheduler
                .try_send(SchedulerInput::Said(from, message))
                .is_err(),
            Message::Partial(partial) => {
                let partial = CompositorInput::Decoded(from, partial, held);
                self.compositor.try_send(partial).is_err()
            }
            Message::TilesDue { frame } => {
                let due = CompositorInput::TilesDue((from, frame), held);
                self.compositor.try_send(due).is_err()
            }
            Message::Follow | Message::Viewpoint(_) => self
                .viewpoints
                .try_send(ViewpointInput::Said(from, message))
                .is_err(),
            Message::Reply { .. } | Message::Tile { .. } | Message::Spans { .. } => self
                .requester
                .try_send(RequesterInput::Said {
                    from,
                    message: Box::new(message),
                    held,
                })
                .is_err(),
        };
        !full
    }

    /// The owner learns from what is said to the scheduler that frames are under way, and how fast
    /// this peer is.
    fn tell_owner_of_frames(&self, message: &Message) {
        let told = match message {
            Message::Frame(_) => Some(OwnerInput::Rendering),
            _ => self.own_speed(message).map(OwnerInput::Speed),
        };
        if told.is_some_and(|t| self.owner.try_send(t).is_err()) {
            tracing::debug!("the owner's mailbox is full: it does not learn of a frame");
        }
    }

    /// The speed that a roster names for this peer.
    fn own_speed(&self, message: &Message) -> Option<u64> {
        let Message::Roster(roster) = message else {
            return None;
        };
        let own = roster.entries().iter().find(|e| e.peer == self.local);
        own.map(|e| e.speed_millionths)
    }
}

/// What the brick owner is told.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub enum OwnerInput {
    /// A peer can be reached.
    Connected(PeerId),
    /// A peer cannot be reached any more.
    Lost(PeerId),
    /// A message from a peer, and what it holds until it is handled.
    Said(PeerId, Message, Held),
    /// A frame is under way: bricks are to keep out of its way.
    Rendering,
    /// A frame of this data set is asked for of which peers fetch what they lack.
    Fetches(Digest),
    /// What a requester's frames of a data set ask of the peers from now on.
    Asked(PeerId, Digest, Arc<FrameWork>),
    /// A frame that this peer asked for is whole.
    Delivered(FrameTimes),
    /// A roster names this speed for this peer, millionths.
    Speed(u64),
    /// These peers did not do their part of a frame in time.
    Late(Vec<PeerId>),
    /// What became of the device.
    Device(DeviceNews),
    /// A frame needs a brick that is not held; the number of the question.
    Stage(Digest, BrickIndex, u64),
    /// No frame needs it any more.
    Release(Digest, BrickIndex),
    /// A thread waits for a brick to be there.
    Missed(Digest, BrickIndex),
}

/// What became of the device, for the brick owner.
#[derive(Clone, Debug)]
pub enum DeviceNews {
    /// It is lost, with every brick that was loaded in a generation before this one.
    Lost {
        /// How often it was lost.
        generation: u64,
        /// Why, for people.
        why: String,
    },
    /// There is a device again.
    Opened(DeviceInfo, Preparation),
    /// The brick was freed, because memory was short for a picture.
    GaveUp(BrickKey),
}

/// What came of a job that the device was to render.
#[derive(Debug)]
pub struct JobResult {
    /// Job of the plan.
    pub job: u32,
    /// When it was begun, as [`now_micros`](crate::span_log::now_micros); of those that are rendered together, as
    /// if they had been one after the other.
    pub began: u64,
    /// The image; or why there is none.
    pub result: Result<RenderedJob, DeviceError>,
}

/// What the scheduler is told.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub enum SchedulerInput {
    /// A message from a peer.
    Said(PeerId, Message),
    /// A peer is gone: its frames need no work any more.
    Lost(PeerId),
    /// A data set is known now.
    Opened(Arc<Manifest>),
    /// A data set is not held any more.
    Closed(Digest),
    /// What came of jobs of a frame that the device was to render.
    Rendered(FrameKey, Vec<JobResult>),
    /// The device has put a job aside, and keeps what it has of it.
    PutAside {
        /// Its frame.
        key: FrameKey,
        /// Job of the plan.
        job: u32,
        /// When it went on with it, as [`now_micros`](crate::span_log::now_micros).
        began: u64,
        /// How long, microseconds.
        micros: u64,
        /// What its rays are to go on through.
        awaits: Awaits,
    },
    /// A message that waited for room was sent, or need not be.
    Sent,
    /// The device is lost; why, for people.
    DeviceLost(String),
    /// There is a device again.
    DeviceOpened,
    /// The peer holds these bricks of a data set.
    Holds(Digest, Arc<BrickSet>),
    /// A brick that a frame needs is in device memory; false: it cannot be had. The number is that of the question.
    Staged(Digest, BrickIndex, u64, bool),
    /// The memory of a brick that frames needed is needed for another one.
    Unstaged(Digest, BrickIndex),
}

/// A frame that is rendered here.
#[derive(Debug)]
pub struct RenderedFrame {
    /// What it shows.
    pub scene: Scene,
    /// Who renders what.
    pub plan: Arc<FramePlan>,
    /// Who has the brick of each job, where it is painted by that.
    pub owners: Vec<Option<usize>>,
    is_to_wait: AtomicBool,
    is_cancelled: AtomicBool,
    is_over: AtomicBool,
}

impl RenderedFrame {
    /// A frame that its requester awaits.
    #[must_use]
    pub fn new(scene: Scene, plan: Arc<FramePlan>, owners: Vec<Option<usize>>) -> Self {
        Self {
            scene,
            plan,
            owners,
            is_to_wait: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// The job of it that the device renders is to be put aside, if it takes long; or goes on.
    pub fn wait(&self, is_to_wait: bool) {
        self.is_to_wait.store(is_to_wait, Ordering::Relaxed);
    }

    /// Whether others wait.
    #[must_use]
    pub fn is_to_wait(&self) -> bool {
        self.is_to_wait.load(Ordering::Relaxed)
    }

    /// Nobody needs what waits to be sent of this attempt; nor, where the frame `is_over`, its picture: the
    /// device is to stop at once.
    pub fn call_off(&self, is_over: bool) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.is_over.fetch_or(is_over, Ordering::Relaxed);
    }

    /// Whether this attempt was called off.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Whether the frame was.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl AsRef<FramePlan> for RenderedFrame {
    fn as_ref(&self) -> &FramePlan {
        &self.plan
    }
}

/// What the raycaster is told.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub enum DeviceInput {
    /// Load a brick into device memory; answered by the generation of the device that has it.
    Load(
        BrickKey,
        PreparedBrick,
        oneshot::Sender<Result<u64, DeviceError>>,
    ),
    /// Free a brick.
    Unload(BrickKey),
    /// Render jobs; several together.
    Render {
        /// Whose frame it is, and which.
        key: FrameKey,
        /// The frame.
        frame: Arc<RenderedFrame>,
        /// Jobs of its plan. One that was put aside is alone.
        jobs: Vec<u32>,
        /// A job that is alone, so that it can be put aside.
        in_slices: bool,
    },
    /// Send a message about a frame for which there is no room now, and wait for that room: nothing
    /// more is rendered meanwhile. Answered by [`SchedulerInput::Sent`].
    Send {
        /// The frame.
        key: FrameKey,
        /// The attempt, if the message is of no use without it.
        frame: Option<Arc<RenderedFrame>>,
        /// The addressee.
        to: PeerId,
        /// The message.
        message: Message,
    },
}

/// What the compositor is told.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub enum CompositorInput {
    /// Partials of a frame may come.
    Expect {
        /// The frame.
        key: FrameKey,
        /// Its plan.
        plan: Arc<FramePlan>,
        /// Its requester wants to know what was done when.
        is_traced: bool,
        /// What it takes of the frames that may be under way to the compositor.
        room: Room,
    },
    /// Frames are over: nobody waits for their tiles.
    Forget {
        /// Who asked.
        requester: PeerId,
        /// The frame; `None`: all.
        frame: Option<FrameId>,
    },
    /// A partial from another peer: a message as it came over the bus. Its bytes, and its place
    /// among the messages under way, are held until this is dropped.
    Encoded(PeerId, Bytes, Room),
    /// A partial from this peer, and what it holds until it is combined.
    Decoded(PeerId, Box<Partial<Pixels>>, Held),
    /// The requester awaits tiles though all jobs are done: it is to be told what they lack; and what
    /// that holds until then.
    TilesDue(FrameKey, Held),
}

/// What the actor of cameras is told.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub enum ViewpointInput {
    /// A message from a peer.
    Said(PeerId, Message),
    /// A peer cannot be reached any more.
    Lost(PeerId),
}

/// What the requester is told.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub enum RequesterInput {
    /// A message from a peer.
    Said {
        /// Sender.
        from: PeerId,
        /// What it says.
        message: Box<Message>,
        /// What it holds until it is handled.
        held: Held,
    },
    /// A peer cannot be reached, or is suspected.
    Lost(PeerId),
    /// Who holds what of a data set now.
    Roster {
        /// The data set.
        manifest: Arc<Manifest>,
        /// Every peer that frames may be given to.
        candidates: Vec<Candidate>,
    },
    /// A data set is not held any more.
    Closed(Digest),
}

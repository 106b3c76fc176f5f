//! The raycaster: owns the device, on its own thread; loads bricks and renders its peer's jobs,
//! oldest frame first and front to back, and sends runs of each tile to the tile's compositor.
//!
//! When the device is lost, all frames that have jobs here end at once, the brick owner is told that
//! nothing is held any more, and the next brick that is to be loaded finds a device opened again.
//! A job for which memory is short ends its frame too; its brick is given up, so that the next frame
//! has the memory.

use crate::{
    brick_owner::OwnerInput,
    bus::{BusError, Lane},
    device_slot::{DeviceSlot, DeviceSupply},
    messages::{JobTime, Message, Partial, Pixels, TilePart},
    outbox::Outbox,
    render_queue::{ActiveFrame, FrameKey, RenderQueue},
    vital_thread::VitalThread,
};
use actix::{Actor, Context, Handler, Recipient, dev::SendError};
use brickmesh_shaders::{
    BrickKey, BrickVoxels, DeviceError, DeviceInfo, Job, RenderedJob, SubImage,
};
use brickmesh_topology::{
    BrickIndex,
    frame::outgoing::{Outgoing, Parcel, Run},
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// How long a full mailbox of the owner is waited for: what it would miss is the truth about what
/// this peer holds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at a full mailbox.
const PAUSE: Duration = Duration::from_millis(1);

/// What became of the device, for the brick owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceNews {
    /// It is lost, with every brick that was loaded in a generation before this one.
    Lost {
        /// How often it was lost.
        generation: u64,
        /// Why, for people.
        why: String,
    },
    /// There is a device again.
    Opened(DeviceInfo),
    /// The brick was freed, because memory was short for a picture.
    GaveUp(BrickKey),
}

/// Who is told of [`DeviceNews`].
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub struct MeetOwner(pub Recipient<OwnerInput>);

/// Loads a brick into device memory; answered by the generation of the device that has it.
#[derive(Debug, actix::Message)]
#[rtype(result = "Result<u64, DeviceError>")]
pub struct LoadBrick {
    /// Its name.
    pub key: BrickKey,
    /// Its voxels.
    pub voxels: BrickVoxels,
}

/// Frees a brick.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub struct UnloadBrick {
    /// Its name.
    pub key: BrickKey,
}

/// Jobs came into the queue, or a frame in which there is nothing to do here but to steal. One is
/// sent for each.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct WakeUp;

/// See the module.
pub struct Raycaster {
    device: DeviceSlot,
    outbox: Outbox,
    owner: Option<Recipient<OwnerInput>>,
    queue: RenderQueue,
    /// The frame whose scene the device has.
    scene_of: Option<FrameKey>,
    outgoing: BTreeMap<FrameKey, Outgoing<SubImage>>,
    _thread: VitalThread,
}

impl std::fmt::Debug for Raycaster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raycaster")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

/// Why a frame ended early here.
#[derive(Debug, thiserror::Error)]
enum RenderError {
    #[error("device: {error}")]
    Device {
        /// Of the job that was to be rendered.
        brick: BrickIndex,
        error: DeviceError,
    },
    #[error("sending: {0}")]
    Bus(#[from] BusError),
}

impl Raycaster {
    /// A raycaster on a device of `supply` that takes jobs from `queue`.
    #[must_use]
    pub fn new(supply: DeviceSupply, outbox: Outbox, queue: RenderQueue) -> Self {
        Self {
            device: DeviceSlot::new(supply),
            outbox,
            owner: None,
            queue,
            scene_of: None,
            outgoing: BTreeMap::new(),
            _thread: VitalThread("device"),
        }
    }

    /// Renders until the frame that was oldest at the start has no job left; bricks that came
    /// meanwhile are loaded before the next frame, which has a wake-up of its own.
    fn work_off(&mut self) {
        if let Some(first) = self.queue.oldest_with_jobs() {
            while first.work().has_jobs() {
                // A stolen job of an older frame may have come in between.
                let Some(oldest) = self.queue.oldest_with_jobs() else {
                    break;
                };
                if let Err(error) = self.render_next(&oldest) {
                    self.failed(&oldest, error);
                }
            }
        }
        let frames = self.queue.all();
        self.end_runs(&frames);
        // Without a device nobody's jobs can be done here.
        if self.device.is_open() && self.queue.oldest_with_jobs().is_none() {
            for frame in frames {
                let mut outputs = Vec::new();
                frame.work().idle(&mut outputs);
                frame.carry_out(outputs, &self.outbox);
            }
        }
    }

    fn render_next(&mut self, frame: &Arc<ActiveFrame>) -> Result<(), RenderError> {
        let Some(job) = frame.work().next_job() else {
            return Ok(());
        };
        let index = job as usize;
        let planned = &frame.plan.jobs[index];
        let failed = |error| RenderError::Device {
            brick: planned.brick,
            error,
        };
        let data_set = frame.scene.data_set;
        let of_device = Job {
            brick: planned.brick,
            owned: planned.owned,
            rect: planned.rect,
        };
        let kept = self.queue.kept().take(&frame.key, data_set, &of_device);
        let is_kept = kept.is_some();
        let rendered = match kept {
            Some(rendered) => rendered,
            None => {
                self.queue.render(frame);
                self.render(frame, &of_device).map_err(failed)?
            }
        };
        let measured_micros = rendered.elapsed_micros;
        tracing::trace!(
            job,
            brick = planned.brick.0,
            micros = measured_micros,
            is_kept,
            "rendered"
        );
        let mut outputs = Vec::new();
        let spent_micros = if is_kept { 0 } else { measured_micros };
        frame.work().job_done(job, spent_micros, &mut outputs);
        frame.carry_out(outputs, &self.outbox);
        let outgoing = self.outgoing.entry(frame.key.clone()).or_default();
        let follows = |next| frame.work().is_queued(next);
        outgoing.rendered(&frame.plan, job, measured_micros, &rendered.image, follows);
        let full = outgoing.take_full();
        (self.queue.kept()).put(&frame.key, data_set, of_device, rendered);
        send(&self.outbox, frame, full);
        if frame.work().has_jobs() {
            return Ok(());
        }
        send_all(&self.outbox, frame, outgoing)
    }

    /// Renders a job on the device.
    fn render(&mut self, frame: &ActiveFrame, job: &Job) -> Result<RenderedJob, DeviceError> {
        let device = self.device.get()?;
        if self.scene_of.as_ref() != Some(&frame.key) {
            self.scene_of = None;
            device.set_scene(&frame.scene)?;
            self.scene_of = Some(frame.key.clone());
        }
        device.render_while(job, &|| !frame.is_over())
    }

    /// Sends what waited for a job which was stolen since, and forgets the frames that nobody
    /// needs any more.
    fn end_runs(&mut self, frames: &[Arc<ActiveFrame>]) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        outgoing.retain(|key, _| frames.iter().any(|f| f.key == *key));
        for (key, of_frame) in &mut outgoing {
            let frame = frames.iter().find(|f| f.key == *key);
            if let Some(frame) = frame.filter(|f| !f.work().has_jobs())
                && let Err(error) = send_all(&self.outbox, frame, of_frame)
            {
                self.fail(frame, &error);
            }
        }
        self.outgoing = outgoing;
    }

    /// Ends what cannot be rendered any more.
    fn failed(&mut self, frame: &Arc<ActiveFrame>, error: RenderError) {
        match error {
            RenderError::Device {
                error: error @ DeviceError::Lost { .. },
                ..
            } => self.device_lost(&error),
            RenderError::Device {
                brick,
                error: error @ DeviceError::OutOfMemory { .. },
            } => {
                tracing::warn!(
                    brick = brick.0,
                    %error,
                    "memory is short for a picture: a brick is given up"
                );
                let data_set = frame.scene.data_set;
                self.give_up(BrickKey { data_set, brick });
                self.fail(frame, &error);
            }
            RenderError::Device {
                error: DeviceError::CalledOff,
                ..
            } => frame.drop_jobs(),
            error => self.fail(frame, &error),
        }
    }

    fn give_up(&mut self, key: BrickKey) {
        self.scene_of = None;
        if let Ok(device) = self.device.get() {
            device.unload_brick(key);
        }
        self.tell_owner(DeviceNews::GaveUp(key));
    }

    /// Drops the device, and ends every frame that has jobs here.
    fn device_lost(&mut self, error: &DeviceError) {
        tracing::error!(%error, "every brick here is lost; frames go on without this peer's");
        self.scene_of = None;
        self.device.lost();
        let frames = self.queue.all();
        for frame in frames.iter().filter(|f| f.work().has_jobs()) {
            self.fail(frame, error);
        }
        self.tell_owner(DeviceNews::Lost {
            generation: self.device.generation(),
            why: error.to_string(),
        });
    }

    /// Tells the owner, and waits for room in its mailbox.
    fn tell_owner(&self, news: DeviceNews) {
        let Some(owner) = &self.owner else {
            return;
        };
        let end = Instant::now() + PATIENCE;
        let mut input = OwnerInput::Device(news);
        while let Err(error) = owner.try_send(input) {
            match error {
                SendError::Full(back) if Instant::now() < end => input = back,
                _ => {
                    tracing::error!("the brick owner does not learn what became of the device");
                    return;
                }
            }
            thread::sleep(PAUSE);
        }
    }

    fn fail(&self, frame: &ActiveFrame, why: &dyn std::fmt::Display) {
        self.queue.drop_frames(|key| *key == frame.key);
        let failed = Message::FrameFailed {
            frame: frame.key.1,
            why: why.to_string(),
        };
        self.outbox.send_or_log(&frame.key.0, Lane::Control, failed);
    }
}

/// Sends all that waits, runs that might have grown among it.
fn send_all(
    outbox: &Outbox,
    frame: &ActiveFrame,
    outgoing: &mut Outgoing<SubImage>,
) -> Result<(), RenderError> {
    let (all, times) = outgoing.take_all(&frame.plan);
    send(outbox, frame, all);
    if times.is_empty() {
        return Ok(());
    }
    let time = |(job, measured_micros)| JobTime {
        job,
        measured_micros,
    };
    let jobs = times.into_iter().map(time).collect();
    let done = Message::JobsDone {
        frame: frame.key.1,
        plan: frame.plan.digest,
        jobs,
    };
    outbox.send_patiently(&frame.key.0, Lane::Control, done)?;
    Ok(())
}

/// Sends parcels to their compositors. One that cannot be reached is no failure of this peer's:
/// the requester is told, and asks again without it.
fn send(outbox: &Outbox, frame: &ActiveFrame, parcels: Vec<Parcel<SubImage>>) {
    let part = |run: Run<SubImage>| TilePart {
        tile: run.tile,
        first: run.first,
        count: run.count,
        pixels: Pixels::of(&run.image, frame.plan.mode),
    };
    for (compositor, runs) in parcels {
        let partial = Partial {
            requester: frame.key.0.as_str().to_owned(),
            frame: frame.key.1,
            plan: frame.plan.digest,
            tiles: runs.into_iter().map(part).collect(),
        };
        let to = &frame.plan.peers[compositor];
        let partial = Message::Partial(Box::new(partial));
        if let Err(error) = outbox.send_patiently(to, Lane::Pixels, partial) {
            tracing::warn!(peer = to.short(), %error, "a partial was not sent");
            let unreachable = Message::Unreachable {
                frame: frame.key.1,
                peer: to.as_str().to_owned(),
            };
            outbox.send_or_log(&frame.key.0, Lane::Control, unreachable);
        }
    }
}

impl Actor for Raycaster {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // No bound of its own: loads and frames under way are bounded where they are asked for, and
        // what is to be freed must be heard.
        ctx.set_mailbox_capacity(0);
    }
}

impl Handler<MeetOwner> for Raycaster {
    type Result = ();

    fn handle(&mut self, meet: MeetOwner, _: &mut Self::Context) {
        self.owner = Some(meet.0);
    }
}

impl Handler<LoadBrick> for Raycaster {
    type Result = Result<u64, DeviceError>;

    fn handle(&mut self, load: LoadBrick, _: &mut Self::Context) -> Self::Result {
        self.scene_of = None;
        if let Some(info) = self.device.open_if_due() {
            self.tell_owner(DeviceNews::Opened(info));
        }
        let loaded = self.device.get()?.load_brick(load.key, load.voxels);
        if let Err(error @ DeviceError::Lost { .. }) = &loaded {
            self.device_lost(error);
        }
        loaded.map(|()| self.device.generation())
    }
}

impl Handler<UnloadBrick> for Raycaster {
    type Result = ();

    fn handle(&mut self, unload: UnloadBrick, _: &mut Self::Context) {
        self.scene_of = None;
        // Without a device there is nothing to free.
        if let Ok(device) = self.device.get() {
            device.unload_brick(unload.key);
        }
    }
}

impl Handler<WakeUp> for Raycaster {
    type Result = ();

    fn handle(&mut self, _: WakeUp, _: &mut Self::Context) {
        self.work_off();
    }
}

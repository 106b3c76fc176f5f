//! The raycaster: owns the device, on its own thread; loads bricks and renders its peer's jobs,
//! oldest frame first and front to back, sending each run of a tile to the tile's compositor as
//! soon as it is whole.

use crate::{
    bus::{BusError, Lane},
    messages::{Message, Partial, Pixels, TilePart},
    outbox::Outbox,
    render_queue::{ActiveFrame, FrameKey, RenderQueue},
    run_gathering::{Run, RunGathering},
};
use actix::{Actor, Handler, SyncContext};
use brickmesh_shaders::{BrickKey, BrickVoxels, DeviceError, Job, RenderDevice};
use std::{collections::BTreeMap, sync::Arc};

/// Loads a brick into device memory.
#[derive(Debug, actix::Message)]
#[rtype(result = "Result<(), DeviceError>")]
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
    device: Box<dyn RenderDevice>,
    outbox: Outbox,
    queue: RenderQueue,
    /// The frame whose scene the device has.
    scene_of: Option<FrameKey>,
    gathering: BTreeMap<FrameKey, RunGathering>,
}

impl std::fmt::Debug for Raycaster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raycaster")
            .field("device", self.device.info())
            .finish_non_exhaustive()
    }
}

/// Why a frame ended early here.
#[derive(Debug, thiserror::Error)]
enum RenderError {
    #[error("device: {0}")]
    Device(#[from] DeviceError),
    #[error("sending: {0}")]
    Bus(#[from] BusError),
}

impl Raycaster {
    /// A raycaster on `device` that takes jobs from `queue`.
    #[must_use]
    pub fn new(device: Box<dyn RenderDevice>, outbox: Outbox, queue: RenderQueue) -> Self {
        Self {
            device,
            outbox,
            queue,
            scene_of: None,
            gathering: BTreeMap::new(),
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
                    self.fail(&oldest, &error);
                }
            }
        }
        let frames = self.queue.all();
        self.end_runs(&frames);
        if self.queue.oldest_with_jobs().is_none() {
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
        if self.scene_of.as_ref() != Some(&frame.key) {
            self.scene_of = None;
            self.device.set_scene(&frame.scene)?;
            self.scene_of = Some(frame.key.clone());
        }
        let rendered = self.device.render(&Job {
            brick: planned.brick,
            owned: planned.owned,
            rect: planned.rect,
        })?;
        let measured_micros = rendered.elapsed_micros;
        tracing::trace!(
            job,
            brick = planned.brick.0,
            micros = measured_micros,
            "rendered"
        );
        let mut outputs = Vec::new();
        frame.work().job_done(job, measured_micros, &mut outputs);
        frame.carry_out(outputs, &self.outbox);
        let done = Message::JobDone {
            frame: frame.key.1,
            plan: frame.plan.digest,
            job,
            measured_micros,
        };
        self.outbox
            .send_patiently(&frame.key.0, Lane::Control, done)?;
        let gathering = self.gathering.entry(frame.key.clone()).or_default();
        let is_next_here = |j: usize| u32::try_from(j).is_ok_and(|j| frame.work().is_queued(j));
        let mut ended = gathering.add(&frame.plan, index, &rendered.image, is_next_here);
        if !frame.work().has_jobs() {
            ended.extend(gathering.end_all());
        }
        self.send(frame, ended)
    }

    /// Sends the runs that waited for a job which was stolen since, and forgets those of frames
    /// that nobody needs any more.
    fn end_runs(&mut self, frames: &[Arc<ActiveFrame>]) {
        let mut gathering = std::mem::take(&mut self.gathering);
        gathering.retain(|key, _| frames.iter().any(|f| f.key == *key));
        for (key, runs) in &mut gathering {
            let frame = frames.iter().find(|f| f.key == *key);
            if let Some(frame) = frame.filter(|f| !f.work().has_jobs())
                && let Err(error) = self.send(frame, runs.end_all())
            {
                self.fail(frame, &error);
            }
        }
        self.gathering = gathering;
    }

    /// Sends runs to their tiles' compositors, one message to each.
    fn send(&self, frame: &ActiveFrame, runs: Vec<Run>) -> Result<(), RenderError> {
        let mut parts: BTreeMap<usize, Vec<TilePart>> = BTreeMap::new();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        for run in runs {
            let part = TilePart {
                tile: number(run.tile),
                first: number(run.first),
                count: number(run.count),
                pixels: Pixels::of(&run.image),
            };
            let compositor = frame.plan.tiles[run.tile].compositor;
            parts.entry(compositor).or_default().push(part);
        }
        for (compositor, tiles) in parts {
            let partial = Partial {
                requester: frame.key.0.as_str().to_owned(),
                frame: frame.key.1,
                plan: frame.plan.digest,
                tiles,
            };
            let to = &frame.plan.peers[compositor];
            self.outbox
                .send_patiently(to, Lane::Pixels, Message::Partial(Box::new(partial)))?;
        }
        Ok(())
    }

    fn fail(&self, frame: &ActiveFrame, error: &RenderError) {
        self.queue.drop_frames(|key| *key == frame.key);
        // Whoever still holds the frame finds nothing more to render in it.
        while frame.work().next_job().is_some() {}
        let failed = Message::FrameFailed {
            frame: frame.key.1,
            why: error.to_string(),
        };
        self.outbox.send_or_log(&frame.key.0, Lane::Control, failed);
    }
}

impl Actor for Raycaster {
    type Context = SyncContext<Self>;
}

impl Handler<LoadBrick> for Raycaster {
    type Result = Result<(), DeviceError>;

    fn handle(&mut self, load: LoadBrick, _: &mut Self::Context) -> Self::Result {
        self.scene_of = None;
        self.device.load_brick(load.key, load.voxels)
    }
}

impl Handler<UnloadBrick> for Raycaster {
    type Result = ();

    fn handle(&mut self, unload: UnloadBrick, _: &mut Self::Context) {
        self.scene_of = None;
        self.device.unload_brick(unload.key);
    }
}

impl Handler<WakeUp> for Raycaster {
    type Result = ();

    fn handle(&mut self, _: WakeUp, _: &mut Self::Context) {
        self.work_off();
    }
}

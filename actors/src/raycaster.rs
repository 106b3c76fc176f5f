//! The raycaster: owns the device, on its own thread; loads bricks and renders its peer's jobs of
//! a frame, front to back, sending each piece to its tile's compositor as soon as it is done.

use crate::{
    bus::{BusError, Lane},
    messages::{FrameId, Message, Partial, Pixels},
    outbox::Outbox,
};
use actix::{Actor, Handler, SyncContext};
use brickmesh_shaders::{
    BrickKey, BrickVoxels, DeviceError, Job, RenderDevice, RenderedJob, Scene,
};
use brickmesh_topology::{PeerId, frame_plan::FramePlan};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

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

/// Renders this peer's jobs of a frame.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct RenderFrame {
    /// Who asked.
    pub requester: PeerId,
    /// The frame.
    pub frame: FrameId,
    /// What it shows.
    pub scene: Arc<Scene>,
    /// Who renders what.
    pub plan: Arc<FramePlan>,
    /// Set when the frame is needed no more.
    pub cancelled: Arc<AtomicBool>,
}

/// See the module.
pub struct Raycaster {
    device: Box<dyn RenderDevice>,
    outbox: Outbox,
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
    /// A raycaster on `device`.
    #[must_use]
    pub fn new(device: Box<dyn RenderDevice>, outbox: Outbox) -> Self {
        Self { device, outbox }
    }

    fn render(&mut self, work: &RenderFrame) -> Result<(), RenderError> {
        let local = self.outbox.local().clone();
        let mut scene_is_set = false;
        for (index, planned) in work.plan.jobs_of(&local) {
            if work.cancelled.load(Ordering::Relaxed) {
                return Ok(());
            }
            if !scene_is_set {
                self.device.set_scene(&work.scene)?;
                scene_is_set = true;
            }
            let job = Job {
                brick: planned.brick,
                owned: planned.owned,
                rect: planned.rect,
            };
            let rendered = self.device.render(&job)?;
            tracing::trace!(
                job = index,
                brick = job.brick.0,
                micros = rendered.elapsed_micros,
                "rendered"
            );
            self.report(work, index, &rendered)?;
        }
        Ok(())
    }

    fn report(
        &self,
        work: &RenderFrame,
        index: usize,
        rendered: &RenderedJob,
    ) -> Result<(), BusError> {
        let job = u32::try_from(index).unwrap_or(u32::MAX);
        let done = Message::JobDone {
            frame: work.frame,
            plan: work.plan.digest,
            job,
            measured_micros: rendered.elapsed_micros,
        };
        self.outbox
            .send_patiently(&work.requester, Lane::Control, done)?;
        let mut parts: BTreeMap<usize, Vec<(u32, Pixels)>> = BTreeMap::new();
        for (tile, t) in work.plan.tiles.iter().enumerate() {
            if let Some(part) = rendered.image.crop(&t.rect) {
                let pixels = Pixels::of(&part.trimmed());
                let tile = u32::try_from(tile).unwrap_or(u32::MAX);
                parts.entry(t.compositor).or_default().push((tile, pixels));
            }
        }
        for (compositor, tiles) in parts {
            let partial = Partial {
                requester: work.requester.as_str().to_owned(),
                frame: work.frame,
                plan: work.plan.digest,
                job,
                tiles,
            };
            let to = &work.plan.peers[compositor];
            self.outbox
                .send_patiently(to, Lane::Pixels, Message::Partial(Box::new(partial)))?;
        }
        Ok(())
    }
}

impl Actor for Raycaster {
    type Context = SyncContext<Self>;
}

impl Handler<LoadBrick> for Raycaster {
    type Result = Result<(), DeviceError>;

    fn handle(&mut self, load: LoadBrick, _: &mut Self::Context) -> Self::Result {
        self.device.load_brick(load.key, load.voxels)
    }
}

impl Handler<UnloadBrick> for Raycaster {
    type Result = ();

    fn handle(&mut self, unload: UnloadBrick, _: &mut Self::Context) {
        self.device.unload_brick(unload.key);
    }
}

impl Handler<RenderFrame> for Raycaster {
    type Result = ();

    fn handle(&mut self, work: RenderFrame, _: &mut Self::Context) {
        if let Err(error) = self.render(&work) {
            let failed = Message::FrameFailed {
                frame: work.frame,
                why: error.to_string(),
            };
            self.outbox
                .send_or_log(&work.requester, Lane::Control, failed);
        }
    }
}

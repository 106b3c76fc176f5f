//! The raycaster: owns the device, on its own thread; loads bricks and renders the jobs that the scheduler
//! names, in the order in which it is told; what takes long it puts aside when it is told to (`begun_job`). Jobs whose rays meet bricks
//! that are not there it puts aside by itself. It decides nothing.
//!
//! When the device is lost, the scheduler ends the frames that have jobs here, the brick owner is told
//! that nothing is held any more, and the next brick that is to be loaded finds a device opened again.
//! A job for which memory is short ends its frame too; its brick is given up, so that the next frame
//! has the memory. Of jobs that were rendered together that is the first.

mod begun_job;

use crate::{
    bus::Lane,
    device_slot::{DeviceSlot, DeviceSupply},
    inputs::{
        Addresses, DeviceInput, DeviceNews, JobResult, OwnerInput, RenderedFrame, SchedulerInput,
    },
    messages::{Complaint, FrameKey, FrameMessage, Message},
    outbox::Outbox,
    span_log::now_micros,
    vital_thread::VitalThread,
};
use actix::{Actor, Context, Handler, Recipient, dev::SendError};
use begun_job::BegunJob;
use brickmesh_shaders::{
    BrickKey, DeviceError, IsWanted, Job, RenderDevice, RenderedJob,
    device::preparation::PreparedBrick,
};
use brickmesh_topology::{
    PeerId,
    balance::schedule::{SPEED_ONE, cost_on},
    frame::{painting::Painter, worker::Awaits},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a full mailbox of the owner is waited for: what it would miss is the truth about what this
/// peer holds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at a full mailbox.
const PAUSE: Duration = Duration::from_millis(1);

/// What became of a job for now.
enum Rendered {
    Whole(RenderedJob),
    /// After so long.
    PutAside {
        micros: u64,
    },
}

/// See the module.
pub struct Raycaster {
    device: DeviceSlot,
    outbox: Outbox,
    addresses: Addresses,
    /// The frame whose scene the device has.
    scene_of: Option<FrameKey>,
    /// Jobs that were begun.
    aside: BTreeMap<(FrameKey, u32), (Arc<RenderedFrame>, BegunJob)>,
    /// Jobs whose surfaces lack light.
    unlit: BTreeMap<(FrameKey, u32), (Arc<RenderedFrame>, RenderedJob)>,
    painter: Painter,
    /// Its thread is to end: nothing is rendered or sent any more.
    is_ending: Arc<AtomicBool>,
    _thread: VitalThread,
}

impl std::fmt::Debug for Raycaster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raycaster")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl Raycaster {
    /// A raycaster on a device of `supply`, until `is_ending` is set.
    #[must_use]
    pub fn new(
        supply: DeviceSupply,
        outbox: Outbox,
        addresses: Addresses,
        is_ending: Arc<AtomicBool>,
    ) -> Self {
        Self {
            device: DeviceSlot::new(supply),
            outbox,
            addresses,
            scene_of: None,
            aside: BTreeMap::new(),
            unlit: BTreeMap::new(),
            painter: Painter::default(),
            is_ending,
            _thread: VitalThread("device"),
        }
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    fn load(&mut self, key: BrickKey, brick: PreparedBrick) -> Result<u64, DeviceError> {
        if let Some(info) = self.device.open_if_due() {
            self.scene_of = None;
            let preparation = self.device.get()?.preparation();
            self.tell_owner(DeviceNews::Opened(info, preparation));
            self.tell_scheduler(SchedulerInput::DeviceOpened);
        }
        let loaded = self.device.get()?.load_prepared(key, brick);
        if let Err(error @ DeviceError::Lost { .. }) = &loaded {
            self.lost(error);
        }
        loaded.map(|()| self.device.generation())
    }

    fn unload(&mut self, key: BrickKey) {
        // Without a device there is nothing to free.
        if let Ok(device) = self.device.get() {
            device.unload_brick(key);
        }
    }

    /// Renders jobs together, and tells the scheduler what came of each.
    fn render_together(&mut self, key: FrameKey, frame: &Arc<RenderedFrame>, numbers: &[u32]) {
        let job = |number: &u32| {
            let planned = &frame.plan.jobs[*number as usize];
            Job {
                brick: planned.brick,
                owned: planned.owned,
                rect: planned.rect,
            }
        };
        let jobs: Vec<Job> = numbers.iter().map(job).collect();
        let mut began = now_micros();
        let all = match self.render_jobs(&key, frame, &jobs) {
            Ok(all) => all,
            Err(error) => vec![Err(error); jobs.len()],
        };
        let results = numbers.iter().zip(all).map(|(&job, result)| {
            let begun = began;
            began += result.as_ref().map_or(0, |r| r.elapsed_micros);
            JobResult {
                job,
                began: begun,
                result,
            }
        });
        let results: Vec<JobResult> = results.collect();
        let results = results.into_iter();
        let results = results
            .filter_map(|r| self.unless_unlit(&key, frame, r, 0))
            .collect();
        self.tell_rendered(key, frame, results);
    }

    /// Goes on with a job that lacked light.
    fn light(&mut self, key: FrameKey, frame: &Arc<RenderedFrame>, job: u32, unlit: RenderedJob) {
        let (began, before) = (now_micros(), unlit.elapsed_micros);
        let is_ending = Arc::clone(&self.is_ending);
        let is_wanted = || !frame.is_over() && !is_ending.load(Ordering::Relaxed);
        let result = self.device_for(&key, frame, &is_wanted);
        let result = result.and_then(|device| {
            let lit = device.go_on(vec![unlit], &is_wanted).pop();
            lit.unwrap_or(Err(DeviceError::CalledOff))
        });
        let result = JobResult { job, began, result };
        if let Some(result) = self.unless_unlit(&key, frame, result, before) {
            self.tell_rendered(key, frame, vec![result]);
        }
    }

    /// What came of a job, unless that lacks light: then it is put aside, `before` microseconds of it were told.
    fn unless_unlit(
        &mut self,
        key: &FrameKey,
        frame: &Arc<RenderedFrame>,
        JobResult { job, began, result }: JobResult,
        before: u64,
    ) -> Option<JobResult> {
        let awaits = |r: &RenderedJob| {
            let unlit = r.unlit.as_ref()?;
            let (bricks, bytes) = (unlit.waits_for(), unlit.bytes());
            Some(Awaits { bricks, bytes })
        };
        let awaits = result.as_ref().ok().and_then(awaits);
        let (Some(awaits), Ok(rendered)) = (awaits, &result) else {
            return Some(JobResult { job, began, result });
        };
        self.tell_scheduler(SchedulerInput::PutAside {
            key: key.clone(),
            job,
            began,
            micros: rendered.elapsed_micros - before,
            awaits,
        });
        let aside = result.map(|rendered| (Arc::clone(frame), rendered));
        self.unlit
            .extend(aside.map(|aside| ((key.clone(), job), aside)));
        None
    }

    /// Renders a job, or goes on with it, and tells the scheduler what came of it.
    fn render(&mut self, key: FrameKey, frame: &Arc<RenderedFrame>, job: u32, in_slices: bool) {
        let began = now_micros();
        let result = match self.try_render(&key, frame, job, in_slices) {
            Ok(Rendered::PutAside { micros }) => {
                tracing::trace!(job, micros, "put aside");
                self.tell_scheduler(SchedulerInput::PutAside {
                    key,
                    job,
                    began,
                    micros,
                    awaits: Awaits::default(),
                });
                return;
            }
            Ok(Rendered::Whole(rendered)) => Ok(rendered),
            Err(error) => Err(error),
        };
        self.tell_rendered(key, frame, vec![JobResult { job, began, result }]);
    }

    /// Tells the scheduler what came of jobs that are not put aside. Where memory was short for several of them, one
    /// brick is given up.
    fn tell_rendered(&mut self, key: FrameKey, frame: &RenderedFrame, mut results: Vec<JobResult>) {
        self.paint(&key, frame, &mut results);
        let mut is_short = false;
        for JobResult { job, result, .. } in &results {
            let is_again = is_short && matches!(result, Err(DeviceError::OutOfMemory { .. }));
            if !is_again {
                self.look_at(frame, *job, result);
            }
            is_short |= matches!(result, Err(DeviceError::OutOfMemory { .. }));
        }
        self.tell_scheduler(SchedulerInput::Rendered(key, results));
    }

    /// Paints jobs that are rendered, where colours say where the picture comes from.
    fn paint(&mut self, (requester, id): &FrameKey, frame: &RenderedFrame, jobs: &mut [JobResult]) {
        let paint = frame.scene.settings.paint();
        let Some((paint, me)) = paint.zip(frame.plan.index_of(&self.addresses.local)) else {
            return;
        };
        for JobResult { job, result, .. } in jobs {
            if let Ok(rendered) = result {
                let job = *job as usize;
                let owner = frame.owners.get(job).copied().flatten();
                let of_frame = (requester, id.number);
                let planned = &frame.plan.jobs[job];
                let color =
                    (self.painter).color(paint, of_frame, &frame.plan, (me, owner), planned);
                rendered.image.paint(color);
            }
        }
    }

    /// Does what follows for the device from what came of a job.
    fn look_at(
        &mut self,
        frame: &RenderedFrame,
        job: u32,
        result: &Result<RenderedJob, DeviceError>,
    ) {
        let brick = frame.plan.jobs[job as usize].brick;
        match result {
            Ok(rendered) => {
                let micros = rendered.elapsed_micros;
                tracing::trace!(job, brick = brick.0, micros, "rendered");
            }
            Err(error @ DeviceError::Lost { .. }) => self.lost(error),
            Err(error @ DeviceError::OutOfMemory { .. }) => {
                tracing::warn!(
                    brick = brick.0,
                    %error,
                    "memory is short for a picture: a brick is given up"
                );
                let data_set = frame.scene.data_set;
                self.unload(BrickKey { data_set, brick });
                self.tell_owner(DeviceNews::GaveUp(BrickKey { data_set, brick }));
            }
            _ => {}
        }
    }

    /// Renders what is left of a job; in bands of whole rows where it takes long and is to be done `in_slices`:
    /// between them it is put aside where others wait.
    fn try_render(
        &mut self,
        key: &FrameKey,
        frame: &Arc<RenderedFrame>,
        job: u32,
        in_slices: bool,
    ) -> Result<Rendered, DeviceError> {
        let planned = &frame.plan.jobs[job as usize];
        let me = frame.plan.index_of(&self.addresses.local);
        let speed = me.map_or(SPEED_ONE, |me| frame.plan.speeds[me]);
        let expected = cost_on(planned.estimate_micros, speed);
        let expected = in_slices.then_some(expected);
        let at = (key.clone(), job);
        let begun = self.aside.remove(&at).map(|(_, begun)| begun);
        let mut begun = begun.unwrap_or_else(|| BegunJob::new(planned.rect, expected));
        let before = begun.micros();
        while let Some(rect) = begun.next_band() {
            let band = Job {
                brick: planned.brick,
                owned: planned.owned,
                rect,
            };
            let rendered = self.render_jobs(key, frame, &[band])?.pop();
            let rendered = rendered.unwrap_or(Err(DeviceError::CalledOff))?;
            if let Some(rendered) = begun.add(rendered) {
                return Ok(Rendered::Whole(rendered));
            }
            if frame.is_to_wait() {
                break;
            }
        }
        let micros = begun.micros() - before;
        // Who calls a frame off does not say which of its jobs were begun.
        self.aside.retain(|_, (frame, _)| !frame.is_cancelled());
        self.aside.insert(at, (Arc::clone(frame), begun));
        Ok(Rendered::PutAside { micros })
    }

    fn render_jobs(
        &mut self,
        key: &FrameKey,
        frame: &RenderedFrame,
        jobs: &[Job],
    ) -> Result<Vec<Result<RenderedJob, DeviceError>>, DeviceError> {
        let is_ending = Arc::clone(&self.is_ending);
        let is_wanted = || !frame.is_over() && !is_ending.load(Ordering::Relaxed);
        let device = self.device_for(key, frame, &is_wanted)?;
        let mut all = device.render_all(jobs, &is_wanted);
        debug_assert_eq!(all.len(), jobs.len(), "each is answered");
        all.resize_with(jobs.len(), || {
            Err(DeviceError::Failed {
                what: "nothing is said of the job".to_owned(),
            })
        });
        Ok(all)
    }

    /// The device, with the scene of a frame that is wanted.
    fn device_for(
        &mut self,
        key: &FrameKey,
        frame: &RenderedFrame,
        is_wanted: IsWanted<'_>,
    ) -> Result<&mut dyn RenderDevice, DeviceError> {
        if !is_wanted() {
            return Err(DeviceError::CalledOff);
        }
        let device = self.device.get()?;
        if self.scene_of.as_ref() != Some(key) {
            self.scene_of = None;
            device.set_scene(&frame.scene)?;
            self.scene_of = Some(key.clone());
        }
        Ok(device)
    }

    /// Drops the device; does nothing where that is done.
    fn lost(&mut self, error: &DeviceError) {
        if self.device.get().is_err() {
            return;
        }
        tracing::error!(%error, "every brick here is lost; frames go on without this peer's");
        self.scene_of = None;
        self.aside.clear();
        self.unlit.clear();
        self.device.lost();
        let why = error.to_string();
        self.tell_scheduler(SchedulerInput::DeviceLost(why));
        self.tell_owner(DeviceNews::Lost {
            generation: self.device.generation(),
            why: error.to_string(),
        });
    }

    fn tell_owner(&self, news: DeviceNews) {
        let end = Instant::now() + PATIENCE;
        let told = tell(&self.addresses.owner, OwnerInput::Device(news), || {
            Instant::now() < end
        });
        if !told {
            tracing::error!("the brick owner does not learn what became of the device");
        }
    }

    /// Waits as long as the peer is: the scheduler counts what it has asked for.
    fn tell_scheduler(&self, input: SchedulerInput) {
        tell(&self.addresses.scheduler, input, || !self.is_ending());
    }

    /// Sends a message about a frame. A compositor that cannot be reached is no failure of this peer's:
    /// the requester is told, and asks again without it.
    fn send(&self, (requester, frame): &FrameKey, to: PeerId, message: Message) {
        let lane = match message {
            Message::Partial(_) => Lane::Pixels,
            _ => Lane::Control,
        };
        if let Err(error) = self.outbox.send_patiently(&to, lane, message) {
            tracing::warn!(peer = to.short(), %error, "a message was not sent");
            if lane == Lane::Pixels {
                let unreachable = Message::Reply {
                    frame: *frame,
                    reply: FrameMessage::Complaint {
                        about: to,
                        what: Complaint::Unreachable,
                    },
                };
                self.outbox
                    .send_or_log(requester, Lane::Control, unreachable);
            }
        }
    }
}

/// Tells another actor, and waits for room in its mailbox while `may_wait`; false: it was not told.
fn tell<M>(actor: &Recipient<M>, mut message: M, may_wait: impl Fn() -> bool) -> bool
where
    M: actix::Message + Send + 'static,
    M::Result: Send,
{
    while let Err(error) = actor.try_send(message) {
        match error {
            SendError::Full(back) if may_wait() => message = back,
            // Or the peer is ending.
            _ => return false,
        }
        thread::sleep(PAUSE);
    }
    true
}

impl Actor for Raycaster {
    type Context = Context<Self>;
}

impl Handler<DeviceInput> for Raycaster {
    type Result = ();

    fn handle(&mut self, input: DeviceInput, _: &mut Self::Context) {
        match input {
            DeviceInput::Load(key, brick, answer) => {
                if answer.send(self.load(key, brick)).is_err() {
                    tracing::debug!("nobody waits for a brick any more");
                }
            }
            DeviceInput::Unload(key) => self.unload(key),
            DeviceInput::Render {
                key,
                frame,
                jobs,
                in_slices,
            } => {
                let name = |job| (key.clone(), job);
                // Who calls a frame off does not say which of its jobs were begun.
                self.unlit.retain(|_, (frame, _)| !frame.is_cancelled());
                let unlit = match jobs[..] {
                    [job] => self.unlit.remove(&name(job)),
                    _ => None,
                };
                // Rays that go on keep their jobs from being rendered in bands.
                let has_rays = frame.scene.settings.has_secondary_rays();
                match (&jobs[..], unlit) {
                    (&[job], Some((_, unlit))) => self.light(key, &frame, job, unlit),
                    (&[job], None) if !has_rays => self.render(key, &frame, job, in_slices),
                    _ => self.render_together(key, &frame, &jobs),
                }
            }
            DeviceInput::Send {
                key,
                frame,
                to,
                message,
            } => {
                let is_cancelled = frame.is_some_and(|f| f.is_cancelled());
                if !is_cancelled && !self.is_ending() {
                    self.send(&key, to, message);
                }
                self.tell_scheduler(SchedulerInput::Sent);
            }
        }
    }
}

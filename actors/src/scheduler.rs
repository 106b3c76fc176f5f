//! The scheduler: plans every frame that a peer asks for, and lets its [`FrameWorker`] decide which jobs
//! the device renders next, what is stolen, and where what was rendered goes.

use crate::{
    budget::Budget,
    bus::Lane,
    inputs::{
        Addresses, CompositorInput, DeviceInput, JobResult, OwnerInput, RenderedFrame,
        SchedulerInput,
    },
    messages::{FrameId, FrameKey, FrameMessage, FrameRequest, Message, Part, Partial, StealNote},
    outbox::Outbox,
    pager::Pager,
    patient::Patient,
    pixels::Pixels,
    span_log::{SpanLog, now_micros},
};
use actix::{Actor, AsyncContext, Context, Handler};
use brickmesh_shaders::{DeviceError, Scene, SubImage};
use brickmesh_topology::{
    Digest, PeerId,
    balance::frame_plan::FramePlan,
    frame::{
        frame_requests::{AttemptRequest, Named},
        outgoing::Run,
        painting::owners,
        timeline::SpanKind,
        worker::{FrameWorker, WorkerOutput, inputs::FrameInputs},
    },
    mesh::keeper::TICK_MICROS,
    picture::render_settings::Paint,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Frames that may be on their way to the compositor: it falls behind when it waits for a slow
/// requester, and each has a plan.
const EXPECTED_MAX: u32 = 64;
/// How long a thief waits for an answer before it asks again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

type Output = WorkerOutput<RenderedFrame, SubImage>;

/// See the module.
#[derive(Debug)]
pub struct Scheduler {
    outbox: Outbox,
    addresses: Addresses,
    expected: Budget,
    inputs: FrameInputs,
    worker: FrameWorker<RenderedFrame, SubImage>,
    spans: SpanLog,
    /// Where its device gets bricks by itself when it reads them.
    pages: Option<Arc<Pager>>,
    /// What the owner must not miss.
    to_owner: Patient<OwnerInput>,
    clock: Instant,
}

impl Scheduler {
    /// A scheduler without data sets, of a peer whose bricks may take so many bytes; `pages`: where its device gets bricks by
    /// itself when it reads them.
    #[must_use]
    pub fn new(
        outbox: Outbox,
        addresses: Addresses,
        memory_bytes: u64,
        pages: Option<Arc<Pager>>,
    ) -> Self {
        let mut worker = FrameWorker::new(outbox.local().clone(), memory_bytes);
        if pages.is_some() {
            worker.reads_pages();
        }
        Self {
            worker,
            to_owner: Patient::new(addresses.owner.clone()),
            outbox,
            addresses,
            expected: Budget::new(EXPECTED_MAX),
            inputs: FrameInputs::default(),
            spans: SpanLog::default(),
            pages,
            clock: Instant::now(),
        }
    }

    /// Microseconds since this actor was made.
    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn begin(&mut self, requester: &PeerId, request: FrameRequest) {
        let key = (requester.clone(), request.attempt.frame);
        if self.worker.was_begun(&key) {
            return;
        }
        let began = now_micros();
        let (manifest, plan) = match self.inputs.plan(&request) {
            Ok((manifest, plan)) => (manifest, Arc::new(plan)),
            Err(reply) => return self.reply(requester, key.1, reply),
        };
        self.inputs.planned(requester, &request, &plan);
        if request.is_traced {
            self.spans.begin(key.clone());
            self.spans.add(&key, SpanKind::Schedule, began, None);
        }
        let is_traced = request.is_traced;
        let expect = self
            .expected
            .try_take(1)
            .map(|room| CompositorInput::Expect {
                key: key.clone(),
                plan: Arc::clone(&plan),
                is_traced,
                room,
            });
        if expect.is_none_or(|e| self.addresses.compositor.try_send(e).is_err()) {
            return self.reply(requester, key.1, FrameMessage::Busy);
        }
        let name = (key, manifest.digest());
        let mut scene = Scene::new(&manifest, request.view, request.settings);
        if let Some(casters) = &mut scene.casters {
            casters.bricks = Arc::clone(&plan.casters);
        }
        let owners = self.owners(&request.attempt, name.1, (&scene, &plan));
        let frame = Arc::new(RenderedFrame::new(scene, plan, owners));
        let (now, steal) = (self.now(), request.attempt.rules.steal);
        self.step(|worker, out| worker.begin(now, name, frame, steal, out));
    }

    /// Who has the brick of each job, where a frame is painted by that.
    fn owners(
        &self,
        attempt: &AttemptRequest,
        data_set: Digest,
        (scene, plan): (&Scene, &FramePlan),
    ) -> Vec<Option<usize>> {
        let found = self.inputs.find(data_set, attempt);
        let is_asked = scene.settings.paint() == Some(Paint::Owner);
        let roster = found.ok().filter(|_| is_asked).map(|found| found.roster);
        roster.map_or_else(Vec::new, |roster| owners(roster, plan))
    }

    fn reply(&self, requester: &PeerId, frame: FrameId, reply: FrameMessage) {
        let reply = Message::Reply { frame, reply };
        self.outbox.send_or_log(requester, Lane::Control, reply);
    }

    fn forget(&self, requester: PeerId, frame: Option<FrameId>) {
        let forget = CompositorInput::Forget { requester, frame };
        if self.addresses.compositor.try_send(forget).is_err() {
            tracing::warn!("the compositor has ended");
        }
    }

    /// Lets the worker decide, and does what it says.
    fn step(
        &mut self,
        input: impl FnOnce(&mut FrameWorker<RenderedFrame, SubImage>, &mut Vec<Output>),
    ) {
        let mut out = Vec::new();
        input(&mut self.worker, &mut out);
        loop {
            for output in out.drain(..) {
                self.carry_out(output);
            }
            if !self.worker.resume(&mut out) {
                return;
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            WorkerOutput::Render {
                key,
                frame,
                jobs,
                in_slices,
            } => {
                frame.wait(false);
                self.tell_device(DeviceInput::Render {
                    key,
                    frame,
                    jobs,
                    in_slices,
                });
            }
            WorkerOutput::PutAside { frame } => frame.wait(true),
            WorkerOutput::CallOff { frame, is_over } => frame.call_off(is_over),
            WorkerOutput::Stage(data_set, brick, question) => {
                self.to_owner
                    .send(OwnerInput::Stage(data_set, brick, question));
            }
            WorkerOutput::Release(data_set, brick) => {
                self.to_owner.send(OwnerInput::Release(data_set, brick));
            }
            WorkerOutput::Runs {
                key,
                frame,
                to,
                runs,
            } => {
                let began = now_micros();
                self.send_runs(key.clone(), frame, to, runs);
                self.spans.add(&key, SpanKind::Send, began, None);
            }
            WorkerOutput::Tell(key, reply @ FrameMessage::JobsDone { .. }) => {
                let (to, frame) = key.clone();
                let spans = self.spans.take(&key);
                if !spans.is_empty() {
                    let spans = Message::Spans { frame, spans };
                    self.send(key.clone(), None, to.clone(), Lane::Control, spans);
                }
                let done = Message::Reply { frame, reply };
                self.send(key, None, to, Lane::Control, done);
            }
            WorkerOutput::Tell((requester, frame), reply) => {
                if let FrameMessage::Given { jobs, by, .. } = &reply {
                    tracing::debug!(
                        target: "brickmesh::events::job::stolen",
                        frame_id = frame.number,
                        count = jobs.len(),
                        peer = by.short()
                    );
                }
                self.reply(&requester, frame, reply);
            }
            WorkerOutput::Steal {
                key,
                plan,
                to,
                message,
            } => {
                let note = Message::Steal(StealNote { key, plan, message });
                self.outbox.send_or_log(&to, Lane::Control, note);
            }
        }
    }

    fn send_runs(
        &mut self,
        key: FrameKey,
        frame: Arc<RenderedFrame>,
        to: usize,
        runs: Vec<Run<SubImage>>,
    ) {
        let plan = &frame.plan;
        let part = |run: Run<SubImage>| Part {
            tile: run.tile,
            first: run.first,
            count: run.count,
            pixels: Pixels::of(run.image, plan.mode),
        };
        let partial = Partial {
            key: key.clone(),
            plan: plan.digest,
            parts: runs.into_iter().map(part).collect(),
        };
        let (to, partial) = (plan.peers[to].clone(), Message::Partial(Box::new(partial)));
        self.send(key, Some(frame), to, Lane::Pixels, partial);
    }

    /// Sends a message about a frame; where there is no room for it, or others wait for that, the device's
    /// thread waits: it renders no more than can be sent.
    fn send(
        &mut self,
        key: FrameKey,
        frame: Option<Arc<RenderedFrame>>,
        to: PeerId,
        lane: Lane,
        message: Message,
    ) {
        // What is large in it is shared.
        let again = message.clone();
        if self.worker.is_waiting_for_room() || self.outbox.send(&to, lane, message).is_err() {
            self.worker.waits_for_room();
            self.tell_device(DeviceInput::Send {
                key,
                frame,
                to,
                message: again,
            });
        }
    }

    fn tell_device(&self, input: DeviceInput) {
        if self.addresses.raycaster.try_send(input).is_err() {
            // The peer is ending.
            tracing::debug!("the device's thread has ended");
        }
    }

    fn said(&mut self, from: PeerId, message: Message) {
        match message {
            Message::Steal(note) => self.step(|worker, out| {
                worker.heard(&from, &note.key, note.plan, &note.message, out);
            }),
            Message::Hidden(hidden) => {
                self.step(|worker, out| worker.are_hidden(&from, &hidden, out));
            }
            Message::Roster(roster) => self.inputs.put_roster(Named {
                digest: roster.digest(),
                value: Arc::new(roster),
            }),
            Message::Costs(costs) => self.inputs.put_costs(Named {
                digest: costs.digest(),
                value: Arc::new(costs),
            }),
            Message::Frame(request) => self.begin(&from, *request),
            Message::Cancel { frame, is_over } => {
                self.step(|worker, out| {
                    if is_over {
                        worker.over(&from, Some(frame.number), out);
                    } else {
                        worker.cancel(&(from.clone(), frame), out);
                    }
                });
                self.spans
                    .retain(|key| key.0 != from || key.1.number > frame.number);
                self.forget(from, Some(frame));
            }
            _ => tracing::warn!(peer = from.short(), "a message came to the wrong actor"),
        }
    }

    fn tell_owner(&mut self) {
        let is_under_way = self.worker.is_under_way(self.now());
        let owner = &self.addresses.owner;
        let tell = |input| {
            let told = owner.try_send(input).is_ok();
            if !told {
                tracing::debug!("the owner's mailbox is full: it does not learn of a frame yet");
            }
            told
        };
        if is_under_way {
            tell(OwnerInput::Rendering);
        }
        (self.inputs)
            .tell_news(|peer, data_set, work| tell(OwnerInput::Asked(peer, data_set, work)));
    }
}

impl Actor for Scheduler {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(ASK_AGAIN, |scheduler, _| {
            let now = scheduler.now();
            scheduler.step(|worker, out| worker.ask_again(now, out));
            scheduler.to_owner.go_on();
        });
        let tick = Duration::from_micros(TICK_MICROS);
        ctx.run_interval(tick, |scheduler, _| scheduler.tell_owner());
    }
}

impl Handler<SchedulerInput> for Scheduler {
    type Result = ();

    fn handle(&mut self, input: SchedulerInput, _: &mut Self::Context) {
        match input {
            SchedulerInput::Opened(manifest) => self.inputs.open(manifest),
            SchedulerInput::Closed(data_set) => {
                self.inputs.close(data_set);
                self.worker.closed(data_set);
            }
            SchedulerInput::Holds(data_set, held) => {
                self.step(|worker, out| worker.holds(data_set, held, out));
            }
            SchedulerInput::Staged(data_set, brick, question, is_there) => {
                let name = (data_set, brick);
                let bytes = is_there.then(|| self.inputs.brick_bytes(name));
                self.step(|worker, out| worker.staged(name, question, bytes, out));
            }
            SchedulerInput::Unstaged(data_set, brick) => self.worker.freed((data_set, brick)),
            SchedulerInput::Lost(peer) => {
                self.spans.retain(|key| key.0 != peer);
                self.inputs.lost(&peer);
                self.step(|worker, out| worker.lost(&peer, out));
                self.forget(peer, None);
            }
            SchedulerInput::Said(from, message) => self.said(from, message),
            SchedulerInput::Rendered(key, results) => {
                let ends = results.iter().skip(1).map(|next| next.began);
                for (JobResult { job, began, .. }, end) in
                    results.iter().zip(ends.chain([now_micros()]))
                {
                    let time = *began..end;
                    self.spans.add_until(&key, SpanKind::Job, time, Some(*job));
                }
                let (mut done, mut failed) = (Vec::new(), Vec::new());
                for JobResult { job, result, .. } in results {
                    match result {
                        Ok(rendered) => done.push((job, (rendered.image, rendered.elapsed_micros))),
                        Err(DeviceError::CalledOff) => failed.push((job, None)),
                        Err(error) => failed.push((job, Some(format!("device: {error}")))),
                    }
                }
                let waited = self.pages.as_ref().map(|pages| pages.take_waited());
                self.step(|worker, out| {
                    worker.waited_for_pages(&key, waited.unwrap_or_default());
                    // First, so that the device is given no more jobs of a frame that ends.
                    for (job, why) in failed {
                        worker.not_rendered(&key, job, why.as_deref(), out);
                    }
                    worker.rendered(&key, done, out);
                });
            }
            SchedulerInput::PutAside {
                key,
                job,
                began,
                micros,
                awaits,
            } => {
                self.spans.add(&key, SpanKind::Job, began, Some(job));
                self.step(|worker, out| worker.put_aside(&key, job, (micros, awaits), out));
            }
            SchedulerInput::Sent => self.step(FrameWorker::sent),
            SchedulerInput::DeviceLost(why) => {
                self.step(|worker, out| worker.device_lost(&why, out));
            }
            SchedulerInput::DeviceOpened => self.worker.device_opened(),
        }
    }
}

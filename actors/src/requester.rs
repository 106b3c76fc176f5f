//! The requester: asks the mesh for frames, gathers their tiles and times, and asks again without
//! the peers that failed. What to do when something is late or lost, and who takes part, is
//! decided by [`FrameTracker`] and [`taking_part()`] in topology.

mod frame;
mod inquiry;
mod pending;

pub use frame::{Frame, FrameError, FrameStats, JobStats};

use crate::{
    brick_owner::OwnerInput,
    budget::Held,
    bus::Lane,
    messages::{FrameId, Message},
    outbox::Outbox,
    visibility::Visibility,
};
use actix::{Actor, Context, Handler, Recipient, ResponseFuture};
use brickmesh_topology::{
    Digest, Manifest, PeerId, TransferFunction, View,
    cost_table::CostTable,
    frame_plan::{Earlier, FramePlan, PlanInputs, PlanRules},
    frame_tracker::{FrameInput, FrameTracker, FrameVerdict},
    keeper::FrameTimes,
    roster::{Roster, RosterEntry},
    schedule::SPEED_ONE,
    taking_part::{
        Candidate, WAIT_MICROS_MAX, attempt_micros, must_wait, rest_micros, taking_part,
    },
};
use pending::{Pending, Run, finish};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Frames that may be under way at a time; more are refused.
pub const FRAMES_IN_FLIGHT_MAX: usize = 4;
/// Roster and cost digests remembered as sent to a peer.
const SENT_MAX: usize = 32;

/// What a frame shows.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "Result<Frame, FrameError>")]
pub struct AskFrame {
    /// The data set.
    pub data_set: Digest,
    /// The rays.
    pub view: View,
    /// Values to colours.
    pub transfer: TransferFunction,
    /// Sample distance, world units.
    pub step: f64,
    /// Headlight shading.
    pub shade: bool,
    /// How it is planned.
    pub rules: PlanRules,
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
    /// Who is told of peers that are late.
    Owner(Recipient<OwnerInput>),
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

/// See the module.
#[derive(Debug)]
pub struct Requester {
    outbox: Outbox,
    next: u64,
    data_sets: BTreeMap<Digest, (Arc<Manifest>, Vec<Candidate>)>,
    costs: BTreeMap<Digest, CostTable>,
    /// Speeds in millionths, as measured; those not in it count as 1.
    speeds: BTreeMap<PeerId, u64>,
    visibility: Visibility,
    pending: BTreeMap<u64, Pending>,
    sent: BTreeMap<PeerId, Vec<Digest>>,
    owner: Option<Recipient<OwnerInput>>,
}

impl Requester {
    /// A requester that asks through `outbox`.
    #[must_use]
    pub fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            next: 0,
            data_sets: BTreeMap::new(),
            costs: BTreeMap::new(),
            speeds: BTreeMap::new(),
            visibility: Visibility::default(),
            pending: BTreeMap::new(),
            sent: BTreeMap::new(),
            owner: None,
        }
    }

    fn ask(
        &mut self,
        ask: AskFrame,
        answer: oneshot::Sender<Result<Frame, FrameError>>,
        ctx: &mut Context<Self>,
    ) {
        if self.pending.len() >= FRAMES_IN_FLIGHT_MAX {
            finish(answer, Err(FrameError::TooMany));
            return;
        }
        let number = self.next;
        self.next += 1;
        self.pending.insert(number, Pending::new(ask, answer));
        self.begin(number, ctx);
    }

    /// Begins the next attempt at a frame, or waits for somebody who could take part.
    fn begin(&mut self, number: u64, ctx: &mut Context<Self>) {
        let Some(mut p) = self.pending.remove(&number) else {
            return;
        };
        if let Some(left) = p.rests() {
            p.wake(ctx, left, move |s, ctx| s.begin(number, ctx));
            self.pending.insert(number, p);
            return;
        }
        match self.plan(&mut p) {
            Ok(run) => {
                p.run = Some(run);
                self.pending.insert(number, p);
                self.send(number, ctx);
            }
            Err(FrameError::NobodyHolds { .. })
                if micros(p.started.elapsed()) < WAIT_MICROS_MAX =>
            {
                let longest = Duration::from_micros(WAIT_MICROS_MAX);
                let left = longest.saturating_sub(p.started.elapsed());
                p.wake(ctx, left, move |s, ctx| s.begin(number, ctx));
                self.pending.insert(number, p);
            }
            Err(error) => p.finish(Err(error)),
        }
    }

    /// The next attempt at a frame.
    fn plan(&mut self, p: &mut Pending) -> Result<Run, FrameError> {
        let nobody = FrameError::NobodyHolds {
            data_set: p.ask.data_set,
        };
        let known = self.data_sets.get(&p.ask.data_set);
        let (manifest, candidates) = known.ok_or_else(|| nobody.clone())?;
        let with_speed = |e: &RosterEntry| RosterEntry {
            speed_millionths: self.speeds.get(&e.peer).copied().unwrap_or(SPEED_ONE),
            ..e.clone()
        };
        let part = taking_part(candidates, &p.without.peers);
        if part.is_empty() || must_wait(candidates, &part, micros(p.started.elapsed())) {
            return Err(nobody);
        }
        let roster = Roster::new(part.into_iter().map(with_speed));
        let costs = match &p.first {
            Some((_, costs)) => costs.clone(),
            None => self.costs.get(&p.ask.data_set).cloned().unwrap_or_default(),
        };
        let start = Instant::now();
        let visible = self.visibility.cells(manifest, &p.ask.transfer);
        let inputs = PlanInputs {
            manifest,
            view: &p.ask.view,
            step: p.ask.step,
            visible: &visible,
            roster: &roster,
            costs: &costs,
            rules: &p.ask.rules,
            earlier: p.first.as_ref().map(|(roster, _)| Earlier {
                roster,
                rendered: &p.rendered,
            }),
        };
        let plan =
            FramePlan::derive(&inputs).map_err(|e| FrameError::Plan { why: e.to_string() })?;
        p.schedule_micros += micros(start.elapsed());
        let tracker = FrameTracker::new(&plan, p.failed);
        Ok(Run::new(roster, costs, plan, tracker, p.ask.view.rect()))
    }

    /// Sends the current attempt of a frame to its roster.
    fn send(&mut self, number: u64, ctx: &mut Context<Self>) {
        let Some(p) = self.pending.get_mut(&number) else {
            return;
        };
        let frame = p.frame(number);
        let Some((request, run)) = p.request(frame).zip(p.run.as_ref()) else {
            return;
        };
        if run.tracker.is_whole() {
            self.deliver(number);
            return;
        }
        let inputs = p.inputs(&request, run);
        for peer in &run.plan.peers {
            let sent = self.sent.entry(peer.clone()).or_default();
            for (digest, message) in &inputs {
                if !sent.contains(digest) {
                    self.outbox
                        .send_or_log(peer, Lane::Control, message.clone());
                    sent.push(*digest);
                }
            }
            let forget = sent.len().saturating_sub(SENT_MAX);
            sent.drain(..forget);
            self.outbox.send_or_log(
                peer,
                Lane::Control,
                Message::Frame(Box::new(request.clone())),
            );
        }
        self.set_deadline(frame, ctx);
    }

    fn set_deadline(&mut self, frame: FrameId, ctx: &mut Context<Self>) {
        let up_to_it = self.pending.range(..=frame.number);
        let makespan = |r: &Run| r.plan.schedule.makespan_micros;
        let makespans: Vec<u64> = up_to_it
            .filter_map(|(_, p)| p.run.as_ref().map(makespan))
            .collect();
        let Some(p) = self.pending.get_mut(&frame.number) else {
            return;
        };
        let Some(run) = &p.run else {
            return;
        };
        let doublings = p.failed + run.tracker.prolonged();
        let micros = attempt_micros(makespans, doublings, !run.costs.trees.is_empty());
        let time = Duration::from_micros(micros);
        p.wake(ctx, time, move |s, ctx| {
            if s.inquire(frame, ctx) {
                return;
            }
            let why = format!("no answer within {time:?}");
            // The picture may be whole, and only times missing.
            if s.apply(frame, FrameInput::Deadline, &why, ctx) {
                s.deliver(frame.number);
            }
        });
    }

    /// The current attempt at a frame, if it is this one.
    fn run(&mut self, frame: FrameId) -> Option<&mut Run> {
        let pending = self.pending.get_mut(&frame.number);
        let current = pending.filter(|p| p.attempt == frame.attempt);
        current.and_then(|p| p.run.as_mut())
    }

    /// Applies an input to a frame's tracker and carries out the verdict; true if what came is to
    /// be taken.
    fn apply(
        &mut self,
        frame: FrameId,
        input: FrameInput,
        why: &str,
        ctx: &mut Context<Self>,
    ) -> bool {
        let Some(p) = self.pending.get_mut(&frame.number) else {
            return false;
        };
        let Some(run) = p.run.as_mut().filter(|_| p.attempt == frame.attempt) else {
            return false;
        };
        let is_lost = matches!(input, FrameInput::PeerLost(_));
        match run.tracker.step(input) {
            FrameVerdict::Ignore => false,
            FrameVerdict::Accept | FrameVerdict::Whole => true,
            FrameVerdict::Prolong => {
                tracing::warn!(
                    frame_id = frame.number,
                    why,
                    "most peers are late: waiting on"
                );
                self.set_deadline(frame, ctx);
                false
            }
            FrameVerdict::Again { without } => {
                tracing::warn!(
                    frame_id = frame.number,
                    ?without,
                    why,
                    "a frame is asked for again"
                );
                why.clone_into(&mut p.why);
                if !is_lost {
                    p.failed += 1;
                    p.rest(Duration::from_micros(rest_micros(p.failed)));
                    self.tell_late(&without);
                }
                self.again(frame, without, ctx);
                false
            }
            FrameVerdict::GiveUp => {
                why.clone_into(&mut p.why);
                self.give_up(frame.number);
                false
            }
        }
    }

    /// Lets the owner leave out peers that failed, for a while, in the next frames too.
    fn tell_late(&self, peers: &BTreeSet<PeerId>) {
        self.tell_owner(OwnerInput::Late(peers.iter().cloned().collect()));
    }

    fn tell_owner(&self, input: OwnerInput) {
        let owner = self.owner.as_ref();
        if owner.is_some_and(|o| o.try_send(input).is_err()) {
            tracing::warn!("the owner's mailbox is full: it does not learn how a frame went");
        }
    }

    fn again(&mut self, frame: FrameId, without: BTreeSet<PeerId>, ctx: &mut Context<Self>) {
        let Some(p) = self.pending.get_mut(&frame.number) else {
            return;
        };
        p.attempt += 1;
        p.without.peers.extend(without);
        if let Some(run) = p.run.take() {
            let plan = p.goes_on_from(run);
            self.cancel(&plan, frame, false);
        }
        self.begin(frame.number, ctx);
    }

    fn give_up(&mut self, number: u64) {
        let Some(p) = self.pending.remove(&number) else {
            return;
        };
        if let Some(run) = &p.run {
            self.cancel(&run.plan, p.frame(number), true);
        }
        let error = FrameError::GaveUp {
            number,
            attempts: p.attempt + 1,
            awaited: p.run.as_ref().map_or(0, |r| r.tracker.awaited()),
            why: p.why.clone(),
        };
        p.finish(Err(error));
    }

    /// Tells all peers of a plan, also those that were late, that an attempt is over; `is_over`: the
    /// frame is, too.
    fn cancel(&self, plan: &FramePlan, frame: FrameId, is_over: bool) {
        for peer in &plan.peers {
            self.outbox
                .send_or_log(peer, Lane::Control, Message::Cancel { frame, is_over });
        }
    }

    /// Hands a whole frame over and learns from its times.
    fn deliver(&mut self, number: u64) {
        let Some(mut p) = self.pending.remove(&number) else {
            return;
        };
        let Some(run) = p.run.take() else {
            return;
        };
        self.cancel(&run.plan, p.frame(number), true);
        self.learn(&p.ask, &run);
        let stats = FrameStats {
            number,
            failed_attempts: p.attempt,
            total_micros: micros(p.started.elapsed()),
            schedule_micros: p.schedule_micros,
            composite_micros: run.composite_micros,
            bytes_sent: p.bytes,
            missing: run.plan.missing().map(|j| j.owned).collect(),
            jobs: run.job_stats(),
        };
        self.tell_owner(OwnerInput::Delivered(FrameTimes {
            total_micros: stats.total_micros,
            schedule_micros: stats.schedule_micros,
            composite_micros: stats.composite_micros,
        }));
        let image = run.image;
        p.finish(Ok(Frame { image, stats }));
    }

    /// Speeds and costs for the next frames from the times of this one.
    fn learn(&mut self, ask: &AskFrame, run: &Run) {
        let on = |(peer, micros): &(PeerId, u64)| Some((run.plan.index_of(peer)?, *micros));
        let measured = run.measured.iter().filter_map(|(&j, m)| Some((j, on(m)?)));
        let before = self.costs.entry(ask.data_set).or_default();
        let prediction = ask.rules.prediction;
        let (speeds, costs) = run.plan.learned(before, &measured.collect(), prediction);
        *before = costs;
        self.speeds
            .extend(run.plan.peers.iter().cloned().zip(speeds));
    }

    fn take_tile(&mut self, from: PeerId, message: Message, bytes: u64, ctx: &mut Context<Self>) {
        let Message::Tile {
            frame,
            plan,
            tile,
            pixels,
            composite_micros,
            received_bytes,
        } = message
        else {
            return;
        };
        let Some(image) = pixels.image() else {
            let why = "a tile of a wrong length, or not finite";
            self.apply(frame, FrameInput::PeerFailed(from), why, ctx);
            return;
        };
        let input = FrameInput::Tile { tile, plan, from };
        if self.apply(frame, input, "another plan", ctx)
            && let Some(p) = self.pending.get_mut(&frame.number)
            && let Some(run) = &mut p.run
        {
            if let Some(part) = image.crop(&run.plan.tiles[tile as usize].rect) {
                run.image.paste(&part);
            }
            run.composite_micros = run.composite_micros.saturating_add(composite_micros);
            p.bytes = p.bytes.saturating_add(bytes.saturating_add(received_bytes));
        }
        self.deliver_if_whole(frame);
    }

    fn said(&mut self, from: PeerId, message: Message, bytes: u64, ctx: &mut Context<Self>) {
        match message {
            tile @ Message::Tile { .. } => self.take_tile(from, tile, bytes, ctx),
            Message::JobsDone { frame, plan, jobs } => {
                for done in jobs {
                    let from = from.clone();
                    let by = from.clone();
                    let job = done.job;
                    let input = FrameInput::Job { job, plan, from };
                    if self.apply(frame, input, "another plan", ctx)
                        && let Some(p) = self.pending.get_mut(&frame.number)
                        && let Some(run) = &mut p.run
                    {
                        // No job can have taken longer than the frame so far.
                        let most = micros(p.started.elapsed());
                        let measured = done.measured_micros.min(most);
                        run.measured.insert(job, (by, measured));
                    }
                }
                self.deliver_if_whole(frame);
            }
            Message::Given {
                frame,
                plan,
                jobs,
                by,
            } => {
                for job in jobs {
                    let given = FrameInput::Given {
                        job,
                        plan,
                        from: from.clone(),
                        by: PeerId::new(&by),
                    };
                    self.apply(frame, given, "another plan", ctx);
                }
            }
            Message::NeedInputs { frame } => self.resend_inputs(&from, frame),
            Message::Lacking { frame, plan, jobs } => {
                self.lacking(&from, frame, (plan, &jobs), ctx);
            }
            Message::FrameFailed { frame, why } => {
                let why = format!("{}: {why}", from.short());
                self.apply(frame, FrameInput::PeerFailed(from), &why, ctx);
            }
            Message::Diverged { frame, peer } => {
                let why = "a peer followed another plan";
                self.complained(&from, &PeerId::new(&peer), frame, why, ctx);
            }
            Message::Unreachable { frame, peer } => {
                let why = "a peer cannot be reached by another";
                self.complained(&from, &PeerId::new(&peer), frame, why, ctx);
            }
            _ => tracing::warn!(peer = from.short(), "a message came to the wrong actor"),
        }
    }

    /// A peer says that it cannot work with another one.
    fn complained(
        &mut self,
        from: &PeerId,
        about: &PeerId,
        frame: FrameId,
        why: &str,
        ctx: &mut Context<Self>,
    ) {
        let pending = self.pending.get_mut(&frame.number);
        let Some(p) = pending.filter(|p| p.attempt == frame.attempt) else {
            return;
        };
        let takes_part = |r: &Run| r.plan.index_of(from).is_some();
        if p.run.as_ref().is_some_and(takes_part) {
            let failed = p.without.blame(from, about).clone();
            self.apply(frame, FrameInput::PeerFailed(failed), why, ctx);
        }
    }

    fn deliver_if_whole(&mut self, frame: FrameId) {
        let run = self.pending.get(&frame.number).and_then(|p| p.run.as_ref());
        if run.is_some_and(|r| r.tracker.is_whole()) {
            self.deliver(frame.number);
        }
    }

    /// The peer lost what was sent to it: all of it goes again.
    fn resend_inputs(&mut self, peer: &PeerId, frame: FrameId) {
        let pending = self.pending.get(&frame.number);
        let Some(p) = pending.filter(|p| p.attempt == frame.attempt) else {
            return;
        };
        let Some((request, run)) = p.request(frame).zip(p.run.as_ref()) else {
            return;
        };
        let inputs = p.inputs(&request, run);
        let all = inputs.into_iter().map(|(_, message)| message);
        all.chain([Message::Frame(Box::new(request))])
            .for_each(|m| self.outbox.send_or_log(peer, Lane::Control, m));
    }

    fn lost(&mut self, peer: &PeerId, ctx: &mut Context<Self>) {
        self.sent.remove(peer);
        let frames = self.pending.iter().map(|(&number, p)| p.frame(number));
        for frame in frames.collect::<Vec<_>>() {
            let lost = FrameInput::PeerLost(peer.clone());
            self.apply(frame, lost, "a peer was lost", ctx);
        }
    }

    /// Who can take part has changed: frames that wait for somebody begin.
    fn roster(
        &mut self,
        manifest: Arc<Manifest>,
        candidates: Vec<Candidate>,
        ctx: &mut Context<Self>,
    ) {
        let data_set = manifest.digest();
        self.data_sets.insert(data_set, (manifest, candidates));
        let waits = |p: &Pending| p.run.is_none() && p.ask.data_set == data_set;
        let waiting = self.pending.iter().filter(|(_, p)| waits(p));
        for number in waiting.map(|(&n, _)| n).collect::<Vec<_>>() {
            self.begin(number, ctx);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Actor for Requester {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(crate::bus::EVENTS_MAX);
    }
}

impl Handler<AskFrame> for Requester {
    type Result = ResponseFuture<Result<Frame, FrameError>>;

    fn handle(&mut self, ask: AskFrame, ctx: &mut Self::Context) -> Self::Result {
        let (answer, result) = oneshot::channel();
        self.ask(ask, answer, ctx);
        Box::pin(async move {
            let ended = FrameError::Plan {
                why: "the peer has ended".to_owned(),
            };
            result.await.unwrap_or(Err(ended))
        })
    }
}

impl Handler<RequesterInput> for Requester {
    type Result = ();

    fn handle(&mut self, input: RequesterInput, ctx: &mut Self::Context) {
        match input {
            RequesterInput::Said {
                from,
                message,
                held,
            } => self.said(from, *message, held.wire_bytes(), ctx),
            RequesterInput::Roster {
                manifest,
                candidates,
            } => self.roster(manifest, candidates, ctx),
            RequesterInput::Closed(data_set) => {
                self.data_sets.remove(&data_set);
                self.costs.remove(&data_set);
            }
            RequesterInput::Owner(owner) => self.owner = Some(owner),
            RequesterInput::Lost(peer) => self.lost(&peer, ctx),
        }
    }
}

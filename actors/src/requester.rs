//! The requester: asks the mesh for frames, gathers their tiles and times, and asks again without
//! the peers that failed. What to do when something is late or lost is decided by
//! [`FrameTracker`] in topology.

use crate::{
    brick_owner::OwnerInput,
    bus::Lane,
    messages::{FrameId, FrameRequest, Message},
    outbox::Outbox,
    visibility::Visibility,
};
use actix::{Actor, AsyncContext, Context, Handler, Recipient, ResponseFuture, SpawnHandle};
use brickmesh_shaders::SubImage;
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, PeerId, TransferFunction, View, VoxelBox,
    cost_table::CostTable,
    frame_plan::{FramePlan, PlanInputs, PlanRules},
    frame_tracker::{FrameInput, FrameTracker, FrameVerdict},
    roster::{Roster, RosterEntry},
    schedule::SPEED_ONE,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Frames that may be under way at a time; more are refused.
pub const FRAMES_IN_FLIGHT_MAX: usize = 4;
/// The first attempt's time, besides what its schedule expects; each further one has twice as much.
const ATTEMPT_BASE: Duration = Duration::from_secs(3);
/// The same where nothing was measured yet, so that nobody knows what to expect.
const ATTEMPT_BASE_UNKNOWN: Duration = Duration::from_secs(10);
/// How often the expected makespan an attempt may take.
const ATTEMPT_MAKESPANS: u64 = 8;
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
        message: Message,
        /// Its size on the wire; 0 from this peer.
        bytes: u64,
    },
    /// A peer cannot be reached, or is suspected.
    Lost(PeerId),
    /// Who is told of peers that are late.
    Owner(Recipient<OwnerInput>),
    /// Who holds what of a data set now.
    Roster {
        /// The data set.
        manifest: Arc<Manifest>,
        /// Every peer that holds something.
        entries: Vec<RosterEntry>,
    },
}

/// A finished frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The picture, premultiplied linear RGBA.
    pub image: SubImage,
    /// How it came about.
    pub stats: FrameStats,
}

/// How a frame came about.
#[derive(Clone, Debug)]
pub struct FrameStats {
    /// Frames of this requester before it.
    pub number: u64,
    /// Attempts that failed before.
    pub failed_attempts: u32,
    /// From request to last tile, microseconds.
    pub total_micros: u64,
    /// Deriving the plan here, microseconds.
    pub schedule_micros: u64,
    /// Blending, summed over all compositors, microseconds.
    pub composite_micros: u64,
    /// Bytes of pixels that went from peer to peer.
    pub bytes_sent: u64,
    /// Boxes that nobody holds.
    pub missing: Vec<VoxelBox>,
    /// Its jobs, front to back.
    pub jobs: Vec<JobStats>,
}

/// A job of a finished frame.
#[derive(Clone, Debug)]
pub struct JobStats {
    /// Brick.
    pub brick: BrickIndex,
    /// Samples that belonged to it.
    pub owned: VoxelBox,
    /// Who rendered it.
    pub peer: PeerId,
    /// Who it was planned for, where another one took it.
    pub stolen_from: Option<PeerId>,
    /// What was expected, microseconds on a device of speed 1.
    pub estimate_micros: u64,
    /// What was measured, microseconds; `None` where the time came too late.
    pub measured_micros: Option<u64>,
}

/// A frame that did not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Nobody holds a brick of the data set.
    #[error("no peer holds a brick of data set {}", data_set.short())]
    NobodyHolds {
        /// The data set.
        data_set: Digest,
    },
    /// More than [`FRAMES_IN_FLIGHT_MAX`] frames.
    #[error("{FRAMES_IN_FLIGHT_MAX} frames are under way already")]
    TooMany,
    /// The plan could not be derived.
    #[error("{why}")]
    Plan {
        /// Why.
        why: String,
    },
    /// Attempts are used up.
    #[error(
        "frame {number} did not come in {attempts} attempts; {awaited} of its tiles and times are missing; last: {why}"
    )]
    GaveUp {
        /// Its number.
        number: u64,
        /// Attempts made.
        attempts: u32,
        /// Tiles and job times still awaited.
        awaited: usize,
        /// What went wrong last.
        why: String,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Requester {
    outbox: Outbox,
    next: u64,
    data_sets: BTreeMap<Digest, (Arc<Manifest>, Vec<RosterEntry>)>,
    costs: BTreeMap<Digest, CostTable>,
    /// Speeds in millionths, as measured; those not in it count as 1.
    speeds: BTreeMap<PeerId, u64>,
    visibility: Visibility,
    pending: BTreeMap<u64, Pending>,
    sent: BTreeMap<PeerId, Vec<Digest>>,
    owner: Option<Recipient<OwnerInput>>,
}

#[derive(Debug)]
struct Pending {
    ask: AskFrame,
    answer: oneshot::Sender<Result<Frame, FrameError>>,
    started: Instant,
    without: BTreeSet<PeerId>,
    attempt: u32,
    roster: Roster,
    costs: CostTable,
    plan: FramePlan,
    tracker: FrameTracker,
    image: SubImage,
    /// Who rendered each job, and the time it took there.
    measured: BTreeMap<u32, (PeerId, u64)>,
    schedule_micros: u64,
    composite_micros: u64,
    bytes: u64,
    why: String,
    deadline: Option<SpawnHandle>,
}

impl Pending {
    fn request(&self, frame: FrameId) -> FrameRequest {
        FrameRequest {
            frame,
            data_set: self.ask.data_set,
            view: self.ask.view,
            transfer: self.ask.transfer.clone(),
            step: self.ask.step,
            shade: self.ask.shade,
            roster: self.roster.digest(),
            costs: self.costs.digest(),
            rules: self.ask.rules,
        }
    }

    /// Jobs of the plan, with who rendered each.
    fn job_stats(&self) -> Vec<JobStats> {
        let jobs = self.plan.jobs.iter().zip(0_u32..);
        let stats = jobs.filter_map(|(j, index)| {
            let planned = self.plan.peers.get(j.renderer?)?.clone();
            let (peer, measured_micros) = match self.measured.get(&index) {
                Some((peer, micros)) => (peer.clone(), Some(*micros)),
                None => (planned.clone(), None),
            };
            Some(JobStats {
                brick: j.brick,
                owned: j.owned,
                stolen_from: (peer != planned).then_some(planned),
                peer,
                estimate_micros: j.estimate_micros,
                measured_micros,
            })
        });
        stats.collect()
    }
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
        let nothing = SubImage::transparent(ask.view.rect());
        let costs = self.costs.get(&ask.data_set).cloned().unwrap_or_default();
        let planned = self.plan(&ask, &BTreeSet::new(), &costs);
        let (roster, plan, schedule_micros) = match planned {
            Ok(planned) => planned,
            Err(error) => return finish(answer, Err(error)),
        };
        let pending = Pending {
            tracker: FrameTracker::new(&plan, 0),
            ask,
            answer,
            started: Instant::now(),
            without: BTreeSet::new(),
            attempt: 0,
            roster,
            costs,
            plan,
            image: nothing,
            measured: BTreeMap::new(),
            schedule_micros,
            composite_micros: 0,
            bytes: 0,
            why: String::new(),
            deadline: None,
        };
        self.pending.insert(number, pending);
        self.send(number, ctx);
    }

    /// Roster and plan of a frame without these peers, and how long it took.
    fn plan(
        &mut self,
        ask: &AskFrame,
        without: &BTreeSet<PeerId>,
        costs: &CostTable,
    ) -> Result<(Roster, FramePlan, u64), FrameError> {
        let nobody = FrameError::NobodyHolds {
            data_set: ask.data_set,
        };
        let (manifest, entries) = self
            .data_sets
            .get(&ask.data_set)
            .ok_or_else(|| nobody.clone())?;
        let taking_part = |e: &&RosterEntry| !without.contains(&e.peer) && !e.bricks.is_empty();
        let with_speed = |e: &RosterEntry| RosterEntry {
            speed_millionths: self.speeds.get(&e.peer).copied().unwrap_or(SPEED_ONE),
            ..e.clone()
        };
        let roster = Roster::new(entries.iter().filter(taking_part).map(with_speed));
        if roster.entries().is_empty() {
            return Err(nobody);
        }
        let start = Instant::now();
        let visible = self.visibility.cells(manifest, &ask.transfer);
        let inputs = PlanInputs {
            manifest,
            view: &ask.view,
            step: ask.step,
            visible: &visible,
            roster: &roster,
            costs,
            rules: &ask.rules,
        };
        let plan =
            FramePlan::derive(&inputs).map_err(|e| FrameError::Plan { why: e.to_string() })?;
        Ok((roster, plan, micros(start.elapsed())))
    }

    /// Sends the current attempt of a frame to its roster.
    fn send(&mut self, number: u64, ctx: &mut Context<Self>) {
        let Some(p) = self.pending.get_mut(&number) else {
            return;
        };
        if p.tracker.is_whole() {
            self.deliver(number);
            return;
        }
        let frame = FrameId {
            number,
            attempt: p.attempt,
        };
        let request = p.request(frame);
        for peer in &p.plan.peers {
            let sent = self.sent.entry(peer.clone()).or_default();
            let inputs = [
                (request.roster, Message::Roster(p.roster.clone())),
                (request.costs, Message::Costs(p.costs.clone())),
            ];
            for (digest, message) in inputs {
                if !sent.contains(&digest) {
                    self.outbox.send_or_log(peer, Lane::Control, message);
                    sent.push(digest);
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
        let expected = p
            .plan
            .schedule
            .makespan_micros
            .saturating_mul(ATTEMPT_MAKESPANS);
        let base = if p.costs.trees.is_empty() {
            ATTEMPT_BASE_UNKNOWN
        } else {
            ATTEMPT_BASE * (1 << p.attempt.min(4))
        };
        let time = base + Duration::from_micros(expected.min(600_000_000));
        if let Some(old) = p.deadline.take() {
            ctx.cancel_future(old);
        }
        p.deadline = Some(ctx.run_later(time, move |s, ctx| {
            let why = format!("no answer within {time:?}");
            // The picture may be whole, and only times missing.
            if s.apply(frame, FrameInput::Deadline, &why, ctx) {
                s.deliver(frame.number);
            }
        }));
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
        if p.attempt != frame.attempt {
            return false;
        }
        let is_blame = matches!(input, FrameInput::Deadline | FrameInput::PeerFailed(_));
        match p.tracker.step(input) {
            FrameVerdict::Ignore => false,
            FrameVerdict::Accept | FrameVerdict::Whole => true,
            FrameVerdict::Again { without } => {
                tracing::warn!(
                    frame_id = frame.number,
                    ?without,
                    why,
                    "a frame is asked for again"
                );
                why.clone_into(&mut p.why);
                if is_blame {
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
        let late = OwnerInput::Late(peers.iter().cloned().collect());
        if self
            .owner
            .as_ref()
            .is_some_and(|o| o.try_send(late).is_err())
        {
            tracing::warn!("the owner's mailbox is full: it does not learn who is late");
        }
    }

    fn again(&mut self, frame: FrameId, without: BTreeSet<PeerId>, ctx: &mut Context<Self>) {
        let Some(mut p) = self.pending.remove(&frame.number) else {
            return;
        };
        self.cancel(&p.plan, frame);
        p.without.extend(without);
        let mut planned = self.plan(&p.ask, &p.without, &p.costs);
        let has_holes = |p: &(Roster, FramePlan, u64)| p.1.missing().next().is_some();
        if planned.as_ref().map_or(true, has_holes) {
            // Better late than with a hole: those who were only late may hold what is missing. Who
            // is silent leaves the roster too, and ends the attempt once more if it is in this one.
            p.without.clear();
            planned = self.plan(&p.ask, &p.without, &p.costs);
        }
        match planned {
            Ok((roster, plan, schedule_micros)) => {
                p.attempt += 1;
                p.tracker = FrameTracker::new(&plan, p.attempt);
                p.image = SubImage::transparent(p.ask.view.rect());
                p.measured.clear();
                p.schedule_micros += schedule_micros;
                (p.roster, p.plan) = (roster, plan);
                self.pending.insert(frame.number, p);
                self.send(frame.number, ctx);
            }
            Err(error) => finish(p.answer, Err(error)),
        }
    }

    fn give_up(&mut self, number: u64) {
        let Some(p) = self.pending.remove(&number) else {
            return;
        };
        let attempt = p.attempt;
        self.cancel(&p.plan, FrameId { number, attempt });
        let error = FrameError::GaveUp {
            number,
            attempts: p.attempt + 1,
            awaited: p.tracker.awaited(),
            why: p.why,
        };
        finish(p.answer, Err(error));
    }

    /// Tells all peers of a plan, also those that were late, that an attempt is over.
    fn cancel(&self, plan: &FramePlan, frame: FrameId) {
        for peer in &plan.peers {
            self.outbox
                .send_or_log(peer, Lane::Control, Message::Cancel { frame });
        }
    }

    /// Hands a whole frame over and learns from its times.
    fn deliver(&mut self, number: u64) {
        let Some(p) = self.pending.remove(&number) else {
            return;
        };
        let frame = FrameId {
            number,
            attempt: p.attempt,
        };
        self.cancel(&p.plan, frame);
        self.learn(&p);
        let stats = FrameStats {
            number,
            failed_attempts: p.attempt,
            total_micros: micros(p.started.elapsed()),
            schedule_micros: p.schedule_micros,
            composite_micros: p.composite_micros,
            bytes_sent: p.bytes,
            missing: p.plan.missing().map(|j| j.owned).collect(),
            jobs: p.job_stats(),
        };
        let image = p.image;
        finish(p.answer, Ok(Frame { image, stats }));
    }

    /// Speeds and costs for the next frames from the times of this one.
    fn learn(&mut self, p: &Pending) {
        let on = |(peer, micros): &(PeerId, u64)| Some((p.plan.index_of(peer)?, *micros));
        let measured = p.measured.iter().filter_map(|(&j, m)| Some((j, on(m)?)));
        let before = self.costs.entry(p.ask.data_set).or_default();
        let prediction = p.ask.rules.prediction;
        let (speeds, costs) = p.plan.learned(before, &measured.collect(), prediction);
        *before = costs;
        self.speeds.extend(p.plan.peers.iter().cloned().zip(speeds));
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
        {
            if let Some(part) = image.crop(&p.plan.tiles[tile as usize].rect) {
                p.image.paste(&part);
            }
            p.composite_micros = p.composite_micros.saturating_add(composite_micros);
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
                    {
                        p.measured.insert(job, (by, done.measured_micros));
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
            Message::FrameFailed { frame, why } => {
                let why = format!("{}: {why}", from.short());
                self.apply(frame, FrameInput::PeerFailed(from), &why, ctx);
            }
            Message::Diverged { frame, peer } => {
                let pending = self.pending.get(&frame.number);
                if pending.is_none_or(|p| p.plan.index_of(&from).is_none()) {
                    return;
                }
                let failed = FrameInput::PeerFailed(PeerId::new(&peer));
                self.apply(frame, failed, "a peer followed another plan", ctx);
            }
            _ => tracing::warn!(peer = from.short(), "a message came to the wrong actor"),
        }
    }

    fn deliver_if_whole(&mut self, frame: FrameId) {
        if self
            .pending
            .get(&frame.number)
            .is_some_and(|p| p.tracker.is_whole())
        {
            self.deliver(frame.number);
        }
    }

    /// The peer lost what was sent to it: all of it goes again.
    fn resend_inputs(&mut self, peer: &PeerId, frame: FrameId) {
        let Some(p) = self
            .pending
            .get(&frame.number)
            .filter(|p| p.attempt == frame.attempt)
        else {
            return;
        };
        let request = p.request(frame);
        let all = [
            Message::Roster(p.roster.clone()),
            Message::Costs(p.costs.clone()),
            Message::Frame(Box::new(request)),
        ];
        all.into_iter()
            .for_each(|m| self.outbox.send_or_log(peer, Lane::Control, m));
    }
}

fn finish(answer: oneshot::Sender<Result<Frame, FrameError>>, result: Result<Frame, FrameError>) {
    if answer.send(result).is_err() {
        tracing::debug!("nobody waits for a frame any more");
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
                bytes,
            } => self.said(from, message, bytes, ctx),
            RequesterInput::Roster { manifest, entries } => {
                self.data_sets
                    .insert(manifest.digest(), (manifest, entries));
            }
            RequesterInput::Owner(owner) => self.owner = Some(owner),
            RequesterInput::Lost(peer) => {
                self.sent.remove(&peer);
                let frames: Vec<FrameId> = self
                    .pending
                    .iter()
                    .map(|(&number, p)| FrameId {
                        number,
                        attempt: p.attempt,
                    })
                    .collect();
                for frame in frames {
                    self.apply(
                        frame,
                        FrameInput::PeerLost(peer.clone()),
                        "a peer was lost",
                        ctx,
                    );
                }
            }
        }
    }
}

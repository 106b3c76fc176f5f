//! The requester of a machine: as the actor, but that tiles are lists of names.

use super::{
    environment::Environment,
    notes::{Note, Piece, Request, Who},
    plans::{Asked, Planned},
    queue::Event,
};
use crate::mesh::report::FrameReport;
use brickmesh_topology::{
    Digest, PeerId,
    balance::{
        frame_plan::{Earlier, FramePlan},
        roster::Candidate,
    },
    frame::frame_requests::{
        AttemptInputs, Complaint, EndedFrame, FrameEnd, FrameId, FrameMessage, FrameOrder,
        FrameRequests, FramesInput, FramesOutput,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many frames are asked for, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes {
    pub(super) frames: u64,
    /// At a time.
    pub(super) in_flight: usize,
    /// How far apart, microseconds.
    pub(super) interval: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Viewer {
    me: Who,
    data_set: Digest,
    wishes: Wishes,
    next: u64,
    /// A frame is due, and waits for one under way to end.
    is_due: bool,
    asked: FrameRequests,
    pending: BTreeMap<u64, Pending>,
    /// Peers that were late, for the keeper.
    pub(super) late: Vec<PeerId>,
    pub(super) reports: Vec<FrameReport>,
    /// Bricks and messages at the last report.
    counted: (u64, u64),
}

#[derive(Debug)]
struct Pending {
    since: u64,
    view: usize,
    /// Of the attempt that is to begin.
    planned: Vec<Arc<Planned>>,
    /// The one under way.
    attempt: Option<Attempt>,
}

#[derive(Debug)]
struct Attempt {
    began: u64,
    planned: Arc<Planned>,
    tiles: BTreeSet<u32>,
}

impl Viewer {
    pub(super) fn new(env: &Environment, me: Who, wishes: Wishes) -> Self {
        Self {
            me,
            data_set: env.plans().manifest.digest(),
            wishes,
            next: 0,
            is_due: false,
            asked: FrameRequests::new(env.name(me).clone()),
            pending: BTreeMap::new(),
            late: Vec::new(),
            reports: Vec::new(),
            counted: (0, 0),
        }
    }

    /// Number of the frame that is asked for now, if one may be.
    pub(super) fn next_frame(&mut self) -> Option<u64> {
        if self.next >= self.wishes.frames {
            return None;
        }
        self.is_due = self.pending.len() >= self.wishes.in_flight;
        (!self.is_due).then_some(self.next)
    }

    /// Whether all frames have ended.
    pub(super) fn is_done(&self) -> bool {
        self.next >= self.wishes.frames && self.pending.is_empty()
    }

    /// When the oldest frame under way was asked for, and its makespan, microseconds.
    pub(super) fn oldest(&self) -> Option<(u64, u64)> {
        let makespan = |a: &Attempt| a.planned.plan.schedule.makespan_micros;
        let oldest = self.pending.values().min_by_key(|p| p.since)?;
        Some((oldest.since, oldest.attempt.as_ref().map_or(0, makespan)))
    }

    /// Asks for the next frame.
    pub(super) fn ask(&mut self, env: &mut Environment) {
        let number = self.next;
        self.next += 1;
        let views = env.plans().views() as u64;
        let pending = Pending {
            since: env.now(),
            view: usize::try_from(number % views.max(1)).unwrap_or(0),
            planned: Vec::new(),
            attempt: None,
        };
        self.pending.insert(number, pending);
        env.later(self.wishes.interval, self.me, Event::NextFrame);
        let wanted = FramesInput::Ask {
            number,
            data_set: self.data_set,
            rules: *env.rules(),
        };
        self.step(env, wanted, None);
    }

    /// Who holds what now, as this machine's keeper says.
    pub(super) fn take_candidates(&mut self, env: &mut Environment, candidates: Vec<Candidate>) {
        let candidates = FramesInput::Candidates(self.data_set, candidates);
        self.step(env, candidates, None);
    }

    /// A time that was set has come.
    pub(super) fn due(&mut self, env: &mut Environment, number: u64, at: u64) {
        self.step(env, FramesInput::Due { number, at }, None);
    }

    /// A peer cannot be reached, or is suspected.
    pub(super) fn lost(&mut self, env: &mut Environment, peer: PeerId) {
        self.step(env, FramesInput::Lost(peer), None);
    }

    /// A message of a peer.
    pub(super) fn hear(&mut self, env: &mut Environment, from: Who, note: Note) {
        let mut arrived = None;
        let (frame, message) = match note {
            Note::Tile {
                frame,
                plan,
                tile,
                pieces,
            } => {
                arrived = Some((tile, pieces));
                (frame, FrameMessage::Tile { tile, plan })
            }
            Note::Reply(frame, message) => {
                if let FrameMessage::Complaint {
                    what: Complaint::AnotherPlan,
                    ..
                } = message
                {
                    env.oracle.broken("a machine followed another plan");
                }
                (frame, message)
            }
            _ => {
                let what = "a message came to the wrong part of a machine";
                return env.oracle.broken(what);
            }
        };
        let said = FramesInput::Said(env.name(from).clone(), frame, message);
        self.step(env, said, arrived);
    }

    /// Lets the frames decide, and does what they say. `tile`: what came with the input.
    fn step(
        &mut self,
        env: &mut Environment,
        input: FramesInput,
        tile: Option<(u32, Arc<[Piece]>)>,
    ) {
        let mut out = Vec::new();
        self.asked.step(env.now(), input, &mut out);
        for output in out {
            match output {
                FramesOutput::Plan(frame, inputs) => self.plan(env, frame, &inputs),
                FramesOutput::Begin(frame, plan) => self.begin(env, frame, &plan),
                FramesOutput::Send(to, order) => self.send(env, &to, order),
                FramesOutput::Take(frame) => {
                    if let Some((tile, pieces)) = &tile {
                        self.take(env, frame, *tile, pieces);
                    }
                }
                FramesOutput::Wake { number, at } => {
                    let after = at.saturating_sub(env.now());
                    env.later(after, self.me, Event::Due { number, at });
                }
                FramesOutput::Late(peers) => {
                    for peer in peers {
                        let who = env.who(&peer);
                        env.disturb(who);
                        self.late.push(peer);
                    }
                }
                FramesOutput::Prolonged(..) => {}
                FramesOutput::AskedAgain(frame, ..) => {
                    if let Some(p) = self.pending.get_mut(&frame.number) {
                        p.attempt = None;
                    }
                }
                FramesOutput::Ended(ended) => self.ended(env, &ended),
            }
        }
    }

    fn plan(&mut self, env: &mut Environment, frame: FrameId, inputs: &[AttemptInputs]) {
        let Some(p) = self.pending.get_mut(&frame.number) else {
            return;
        };
        let mut planned = |inputs: &AttemptInputs| {
            env.derive(&Asked {
                view: p.view,
                rules: inputs.rules,
                roster: (inputs.roster.digest, &inputs.roster.value),
                costs: (inputs.costs.digest, &inputs.costs.value),
                earlier: inputs.earlier.as_ref().map(|e| {
                    let earlier = Earlier {
                        roster: &e.roster.value,
                        rendered: &e.rendered,
                    };
                    (e.roster.digest, earlier)
                }),
            })
        };
        let Some(planned) = inputs.iter().map(&mut planned).collect::<Option<Vec<_>>>() else {
            return env.oracle.broken("no plan could be derived");
        };
        let plans = planned.iter().map(|p| Arc::clone(&p.plan)).collect();
        p.planned = planned;
        self.step(env, FramesInput::Planned(frame, plans), None);
    }

    /// One of the plans of an attempt is taken.
    fn begin(&mut self, env: &mut Environment, frame: FrameId, plan: &Arc<FramePlan>) {
        let Some(p) = self.pending.get_mut(&frame.number) else {
            return;
        };
        let mut planned = std::mem::take(&mut p.planned).into_iter();
        let Some(planned) = planned.find(|p| Arc::ptr_eq(&p.plan, plan)) else {
            return env.oracle.broken("a frame begins by a plan of another one");
        };
        p.attempt = Some(Attempt {
            began: env.now(),
            planned,
            tiles: BTreeSet::new(),
        });
    }

    fn send(&self, env: &mut Environment, to: &PeerId, order: FrameOrder) {
        let note = match order {
            FrameOrder::Roster(roster) => Note::Roster(roster),
            FrameOrder::Costs(costs) => Note::Costs(costs),
            FrameOrder::Begin(attempt) => {
                let pending = self.pending.get(&attempt.frame.number);
                let view = pending.map_or(0, |p| p.view);
                Note::Frame(Request { view, attempt })
            }
            FrameOrder::Cancel { frame, is_over } => Note::Cancel(frame, is_over),
            FrameOrder::TilesDue { frame } => Note::TilesDue(frame),
        };
        let to = env.who(to);
        env.send(self.me, to, note);
    }

    fn take(&mut self, env: &mut Environment, frame: FrameId, tile: u32, pieces: &[Piece]) {
        let pending = self.pending.get_mut(&frame.number);
        if let Some(attempt) = pending.and_then(|p| p.attempt.as_mut()) {
            attempt.tiles.insert(tile);
            env.check_tile(&attempt.planned, tile, pieces);
        }
    }

    fn ended(&mut self, env: &mut Environment, ended: &EndedFrame) {
        let Some(p) = self.pending.remove(&ended.number) else {
            return;
        };
        if let Some(a) = p.attempt.filter(|_| ended.end == FrameEnd::Whole) {
            env.check_frame(&a.planned, &a.tiles, a.began);
        }
        let mut report = report(ended);
        let counts = (env.network.bricks, env.network.sent);
        let since = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        report.moved = since(counts.0, self.counted.0);
        report.messages = since(counts.1, self.counted.1);
        self.counted = counts;
        let now = env.queue.now();
        env.oracle.frame_ended(p.since, now, &report, &ended.end);
        self.reports.push(report);
        if std::mem::take(&mut self.is_due) {
            env.later(0, self.me, Event::NextFrame);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn report(ended: &EndedFrame) -> FrameReport {
    let mut report = FrameReport {
        frame: u32::try_from(ended.number).unwrap_or(u32::MAX),
        attempts: ended.attempts_before + 1,
        given_up: ended.end != FrameEnd::Whole,
        late: ended.left_out.iter().map(ToString::to_string).collect(),
        max_over_mean: 1.0,
        total_us: ended.total_micros,
        ..FrameReport::default()
    };
    let Some(plan) = &ended.plan else {
        return report;
    };
    report.jobs = plan.jobs.len();
    report.missing = plan.missing().count();
    report.planned_us = plan.schedule.makespan_micros;
    report.image = plan.image_tile.is_some();
    let renderer = |job: u32| plan.jobs.get(job as usize).and_then(|j| j.renderer);
    let times = ended.measured.iter();
    let stolen = times.filter(|(j, m)| renderer(**j) != Some(m.0));
    report.stolen = stolen.count();
    report.hidden = ended.measured.values().filter(|m| m.1 == 0).count();
    let mut spent = vec![0_u64; plan.peers.len()];
    for &(by, micros) in ended.measured.values() {
        spent[by] += micros;
    }
    let mean = spent.iter().sum::<u64>() as f64 / spent.len().max(1) as f64;
    if mean > 0.0 {
        let most = spent.iter().copied().max().unwrap_or(0);
        report.max_over_mean = most as f64 / mean;
    }
    report
}

//! The requester of a machine: as the actor, but that tiles are lists of names.
//!
//! Invariant: every frame ends, whole or given up.

use super::{
    environment::Environment,
    notes::{EarlierWork, FrameId, Note, Piece, Request, Who},
    plans::{Asked, Planned},
    queue::Event,
};
use crate::mesh::report::FrameReport;
use brickmesh_topology::{
    Digest, PeerId,
    cost_table::CostTable,
    frame_plan::Earlier,
    frame_tracker::{FrameInput, FrameTracker, FrameVerdict},
    roster::{Roster, RosterEntry},
    schedule::SPEED_ONE,
    taking_part::{
        Candidate, LeftOut, WAIT_MICROS_MAX, attempt_micros, must_wait, rest_micros, taking_part,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Roster and cost digests remembered as sent to a peer.
const SENT_MAX: usize = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Viewer {
    me: Who,
    /// Frames to ask for, how many at a time, and how far apart, microseconds.
    frames: u64,
    in_flight: usize,
    interval: u64,
    next: u64,
    /// A frame is due, and waits for one under way to end.
    is_due: bool,
    candidates: Vec<Candidate>,
    costs: Arc<CostTable>,
    speeds: BTreeMap<PeerId, u64>,
    pending: BTreeMap<u64, Pending>,
    sent: BTreeMap<Who, Vec<Digest>>,
    /// Peers that were late, for the keeper.
    pub(super) late: Vec<PeerId>,
    pub(super) reports: Vec<FrameReport>,
    /// Bricks and messages at the last report.
    counted: (u64, u64),
}

#[derive(Debug)]
struct Pending {
    asked: u64,
    view: usize,
    without: LeftOut,
    attempt: u32,
    /// Attempts in which somebody failed.
    failed: u32,
    /// When it is looked at again, unless something happens before; earlier deadlines are void.
    due: u64,
    /// It is not asked for again before.
    rests_until: u64,
    /// Roster and costs of the first attempt that was made and failed, and who has rendered which of
    /// its jobs.
    first: Option<(Named<Roster>, Named<CostTable>)>,
    rendered: BTreeMap<u32, PeerId>,
    /// `None`: nobody holds anything; it waits.
    running: Option<Attempt>,
}

/// A value and its digest.
type Named<T> = (Digest, Arc<T>);

#[derive(Debug)]
struct Attempt {
    began: u64,
    roster: Named<Roster>,
    costs: Named<CostTable>,
    earlier: Option<EarlierWork>,
    planned: Arc<Planned>,
    tracker: FrameTracker,
    tiles: BTreeSet<u32>,
    /// Who rendered each job, as index of the plan, and the time it took there.
    measured: BTreeMap<u32, (usize, u64)>,
}

impl Viewer {
    pub(super) fn new(me: Who, frames: u64, in_flight: usize, interval: u64) -> Self {
        Self {
            me,
            frames,
            in_flight,
            interval,
            next: 0,
            is_due: false,
            candidates: Vec::new(),
            costs: Arc::default(),
            speeds: BTreeMap::new(),
            pending: BTreeMap::new(),
            sent: BTreeMap::new(),
            late: Vec::new(),
            reports: Vec::new(),
            counted: (0, 0),
        }
    }

    /// Number of the frame that is asked for now, if one may be.
    pub(super) fn next_frame(&mut self) -> Option<u64> {
        if self.next >= self.frames {
            return None;
        }
        self.is_due = self.pending.len() >= self.in_flight;
        (!self.is_due).then_some(self.next)
    }

    /// Whether all frames have ended.
    pub(super) fn is_done(&self) -> bool {
        self.next >= self.frames && self.pending.is_empty()
    }

    /// When the oldest frame under way was asked for, and its makespan, microseconds.
    pub(super) fn oldest(&self) -> Option<(u64, u64)> {
        let makespan = |a: &Attempt| a.planned.plan.schedule.makespan_micros;
        let oldest = self.pending.values().min_by_key(|p| p.asked)?;
        Some((oldest.asked, oldest.running.as_ref().map_or(0, makespan)))
    }

    /// Asks for the next frame.
    pub(super) fn ask(&mut self, env: &mut Environment) {
        let number = self.next;
        self.next += 1;
        let views = env.plans().views() as u64;
        let pending = Pending {
            asked: env.now(),
            view: usize::try_from(number % views.max(1)).unwrap_or(0),
            without: LeftOut::default(),
            attempt: 0,
            failed: 0,
            due: 0,
            rests_until: 0,
            first: None,
            rendered: BTreeMap::new(),
            running: None,
        };
        self.pending.insert(number, pending);
        env.later(self.interval, self.me, Event::NextFrame);
        self.begin(env, number);
    }

    fn is_waiting(&self, number: u64) -> bool {
        let pending = self.pending.get(&number);
        pending.is_some_and(|p| p.running.is_none())
    }

    /// Who holds what now, as this machine's keeper says.
    pub(super) fn take_candidates(&mut self, env: &mut Environment, candidates: Vec<Candidate>) {
        self.candidates = candidates;
        let numbers: Vec<u64> = self.pending.keys().copied().collect();
        for number in numbers {
            if self.is_waiting(number) {
                self.begin(env, number);
            }
        }
    }

    /// Plans the current attempt at a frame and asks for it.
    fn begin(&mut self, env: &mut Environment, number: u64) {
        let Some(p) = self.pending.get_mut(&number) else {
            return;
        };
        p.running = None;
        if let Some(left) = p.rests_until.checked_sub(env.now()).filter(|&l| l > 0) {
            return p.wake(env, (self.me, number), left);
        }
        let with_speed = |e: &RosterEntry| RosterEntry {
            speed_millionths: self.speeds.get(&e.peer).copied().unwrap_or(SPEED_ONE),
            ..e.clone()
        };
        let entries = taking_part(&self.candidates, &p.without.peers);
        let waited = env.now().saturating_sub(p.asked);
        let waits = must_wait(&self.candidates, &entries, waited);
        let roster = Roster::new(entries.into_iter().map(with_speed));
        if waits {
            return p.wake(env, (self.me, number), WAIT_MICROS_MAX - waited);
        }
        if roster.entries().is_empty() {
            return self.finish(env, number, true);
        }
        let roster = (roster.digest(), Arc::new(roster));
        let first = p.first.as_ref();
        let costs = match first {
            Some((_, costs)) => costs.clone(),
            None => (self.costs.digest(), Arc::clone(&self.costs)),
        };
        let asked = Asked {
            view: p.view,
            roster: (roster.0, &roster.1),
            costs: (costs.0, &costs.1),
            earlier: first.map(|((digest, roster), _)| {
                let rendered = &p.rendered;
                (*digest, Earlier { roster, rendered })
            }),
        };
        let Some(planned) = env.derive(&asked) else {
            env.oracle.broken("no plan could be derived");
            return;
        };
        p.running = Some(Attempt {
            began: env.now(),
            tracker: FrameTracker::new(&planned.plan, p.failed),
            roster,
            costs,
            earlier: first.map(|(roster, _)| (roster.0, Arc::new(p.rendered.clone()))),
            planned,
            tiles: BTreeSet::new(),
            measured: BTreeMap::new(),
        });
        self.send(env, number);
    }

    /// Sends the current attempt of a frame to its roster.
    fn send(&mut self, env: &mut Environment, number: u64) {
        let Some((p, a)) = running(&self.pending, number) else {
            return;
        };
        if a.tracker.is_whole() {
            return self.deliver(env, number);
        }
        let frame = FrameId {
            number,
            attempt: p.attempt,
        };
        let request = a.request(frame);
        for peer in &a.planned.plan.peers {
            let to = env.who(peer);
            let sent = self.sent.entry(to).or_default();
            for (digest, note) in p.inputs(a) {
                if !sent.contains(&digest) {
                    env.send(self.me, to, note);
                    sent.push(digest);
                }
            }
            let forget = sent.len().saturating_sub(SENT_MAX);
            sent.drain(..forget);
            env.send(self.me, to, Note::Frame(request.clone()));
        }
        self.set_deadline(env, frame);
    }

    fn set_deadline(&mut self, env: &mut Environment, frame: FrameId) {
        if let Some((p, a)) = running(&self.pending, frame.number) {
            let up_to_it = self.pending.range(..=frame.number);
            let makespan = |a: &Attempt| a.planned.plan.schedule.makespan_micros;
            let makespans = up_to_it.filter_map(|(_, p)| p.running.as_ref().map(makespan));
            let is_measured = !a.costs.1.trees.is_empty();
            let doublings = p.failed + a.tracker.prolonged();
            let time = attempt_micros(makespans, doublings, is_measured);
            if let Some(p) = self.pending.get_mut(&frame.number) {
                p.wake(env, (self.me, frame.number), time);
            }
        }
    }

    /// An attempt's time is over.
    pub(super) fn deadline(&mut self, env: &mut Environment, frame: FrameId) {
        let is_void = |p: &Pending| env.now() < p.due;
        if self.pending.get(&frame.number).is_none_or(is_void) {
            return;
        }
        if self.is_waiting(frame.number) {
            self.begin(env, frame.number);
        } else if self.apply(env, frame, FrameInput::Deadline) {
            // The picture is whole, and only times are missing.
            self.deliver(env, frame.number);
        }
    }

    /// A peer cannot be reached, or is suspected.
    pub(super) fn lost(&mut self, env: &mut Environment, peer: Who) {
        self.sent.remove(&peer);
        let name = env.name(peer).clone();
        let frames = self.pending.iter().map(|(&number, p)| FrameId {
            number,
            attempt: p.attempt,
        });
        for frame in frames.collect::<Vec<_>>() {
            self.apply(env, frame, FrameInput::PeerLost(name.clone()));
        }
    }

    /// A message of a peer.
    pub(super) fn hear(&mut self, env: &mut Environment, from: Who, note: Note) {
        let name = env.name(from).clone();
        match note {
            Note::Tile {
                frame,
                plan,
                tile,
                pieces,
            } => self.take_tile(env, frame, (plan, tile, name), &pieces),
            Note::JobsDone(frame, plan, jobs) => {
                for &(job, micros) in jobs.iter() {
                    let from = name.clone();
                    if self.apply(env, frame, FrameInput::Job { job, plan, from })
                        && let Some(a) = self.attempt(frame)
                        && let Some(by) = a.planned.plan.index_of(&name)
                    {
                        a.measured.insert(job, (by, micros));
                    }
                }
                self.deliver_if_whole(env, frame);
            }
            Note::Given(frame, plan, jobs, by) => {
                for &job in jobs.iter() {
                    let given = FrameInput::Given {
                        job,
                        plan,
                        from: name.clone(),
                        by: env.name(by).clone(),
                    };
                    self.apply(env, frame, given);
                }
            }
            Note::NeedInputs(frame) => self.send_inputs(env, from, frame),
            Note::FrameFailed(frame) => {
                self.apply(env, frame, FrameInput::PeerFailed(name));
            }
            Note::Diverged(frame, peer) => {
                env.oracle.broken("a machine followed another plan");
                let peer = env.name(peer).clone();
                self.complained(env, &name, &peer, frame);
            }
            Note::Unreachable(frame, peer) => {
                let peer = env.name(peer).clone();
                self.complained(env, &name, &peer, frame);
            }
            _ => env
                .oracle
                .broken("a message came to the wrong part of a machine"),
        }
    }

    /// A peer says that it cannot work with another one.
    fn complained(&mut self, env: &mut Environment, from: &PeerId, about: &PeerId, frame: FrameId) {
        let takes_part = |a: &mut Attempt| a.planned.plan.index_of(from).is_some();
        if self.attempt(frame).is_some_and(takes_part)
            && let Some(p) = self.pending.get_mut(&frame.number)
        {
            let failed = p.without.blame(from, about).clone();
            self.apply(env, frame, FrameInput::PeerFailed(failed));
        }
    }

    fn attempt(&mut self, frame: FrameId) -> Option<&mut Attempt> {
        let p = self.pending.get_mut(&frame.number)?;
        (p.attempt == frame.attempt).then_some(p.running.as_mut()?)
    }

    fn take_tile(
        &mut self,
        env: &mut Environment,
        frame: FrameId,
        (plan, tile, from): (Digest, u32, PeerId),
        pieces: &[Piece],
    ) {
        let input = FrameInput::Tile { tile, plan, from };
        if self.apply(env, frame, input)
            && let Some(a) = self.attempt(frame)
        {
            a.tiles.insert(tile);
            let planned = Arc::clone(&a.planned);
            env.check_tile(&planned, tile, pieces);
        }
        self.deliver_if_whole(env, frame);
    }

    /// Applies an input to a frame's tracker and carries out the verdict; true if what came is to
    /// be taken.
    fn apply(&mut self, env: &mut Environment, frame: FrameId, input: FrameInput) -> bool {
        let is_lost = matches!(input, FrameInput::PeerLost(_));
        let Some(a) = self.attempt(frame) else {
            return false;
        };
        match a.tracker.step(input) {
            FrameVerdict::Ignore => false,
            FrameVerdict::Accept | FrameVerdict::Whole => true,
            FrameVerdict::Prolong => {
                self.set_deadline(env, frame);
                false
            }
            FrameVerdict::Again { without } => {
                if !is_lost {
                    for peer in &without {
                        let who = env.who(peer);
                        env.disturb(who);
                    }
                    self.late.extend(without.iter().cloned());
                }
                if let Some(p) = self.pending.get_mut(&frame.number).filter(|_| !is_lost) {
                    p.failed += 1;
                    p.rests_until = env.now() + rest_micros(p.failed);
                }
                self.again(env, frame, without);
                false
            }
            FrameVerdict::GiveUp => {
                self.finish(env, frame.number, true);
                false
            }
        }
    }

    fn again(&mut self, env: &mut Environment, frame: FrameId, without: BTreeSet<PeerId>) {
        self.cancel(env, frame, false);
        if let Some(p) = self.pending.get_mut(&frame.number) {
            if let Some(a) = p.running.take() {
                let peers = &a.planned.plan.peers;
                let done = a.measured.iter().map(|(&j, m)| (j, peers[m.0].clone()));
                p.rendered.extend(done);
                p.first.get_or_insert((a.roster, a.costs));
            }
            p.without.peers.extend(without);
            p.attempt += 1;
            self.begin(env, frame.number);
        }
    }

    /// Tells all peers of an attempt that it is over; `is_over`: the frame is, too.
    fn cancel(&mut self, env: &mut Environment, frame: FrameId, is_over: bool) {
        let me = self.me;
        if let Some(a) = self.attempt(frame) {
            for peer in &a.planned.plan.peers {
                let to = env.who(peer);
                env.send(me, to, Note::Cancel(frame, is_over));
            }
        }
    }

    fn deliver_if_whole(&mut self, env: &mut Environment, frame: FrameId) {
        if self.attempt(frame).is_some_and(|a| a.tracker.is_whole()) {
            self.deliver(env, frame.number);
        }
    }

    /// Takes a whole frame and learns from its times.
    fn deliver(&mut self, env: &mut Environment, number: u64) {
        if let Some((_, a)) = running(&self.pending, number) {
            let plan = &a.planned.plan;
            env.check_frame(&a.planned, &a.tiles, a.began);
            let prediction = env.rules().prediction;
            let (speeds, costs) = plan.learned(&self.costs, &a.measured, prediction);
            self.speeds.extend(plan.peers.iter().cloned().zip(speeds));
            self.costs = Arc::new(costs);
        }
        self.finish(env, number, false);
    }

    fn finish(&mut self, env: &mut Environment, number: u64, given_up: bool) {
        let Some((attempt, asked)) = self.pending.get(&number).map(|p| (p.attempt, p.asked)) else {
            return;
        };
        self.cancel(env, FrameId { number, attempt }, true);
        let Some(p) = self.pending.remove(&number) else {
            return;
        };
        let mut report = p.report(number, given_up);
        report.total_us = env.now() - asked;
        let counts = (env.network.bricks, env.network.sent);
        let since = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        report.moved = since(counts.0, self.counted.0);
        report.messages = since(counts.1, self.counted.1);
        self.counted = counts;
        env.oracle.frame_ended(asked, env.queue.now(), &report);
        self.reports.push(report);
        if std::mem::take(&mut self.is_due) {
            env.later(0, self.me, Event::NextFrame);
        }
    }

    /// The peer lost what was sent to it: all of it goes again.
    fn send_inputs(&mut self, env: &mut Environment, to: Who, frame: FrameId) {
        let current = running(&self.pending, frame.number);
        if let Some((p, a)) = current.filter(|(p, _)| p.attempt == frame.attempt) {
            for (_, note) in p.inputs(a) {
                env.send(self.me, to, note);
            }
            env.send(self.me, to, Note::Frame(a.request(frame)));
        }
    }
}

fn running(pending: &BTreeMap<u64, Pending>, number: u64) -> Option<(&Pending, &Attempt)> {
    let p = pending.get(&number)?;
    Some((p, p.running.as_ref()?))
}

impl Attempt {
    fn request(&self, frame: FrameId) -> Request {
        Request {
            frame,
            view: self.planned.view,
            roster: self.roster.0,
            costs: self.costs.0,
            earlier: self.earlier.clone(),
        }
    }
}

impl Pending {
    /// Looks at this attempt again after a time, in place of what was set before.
    fn wake(&mut self, env: &mut Environment, (me, number): (Who, u64), after: u64) {
        self.due = env.now().saturating_add(after);
        let attempt = self.attempt;
        env.later(after, me, Event::Deadline(FrameId { number, attempt }));
    }

    /// What the request of an attempt names.
    fn inputs(&self, attempt: &Attempt) -> Vec<(Digest, Note)> {
        let roster =
            |(digest, roster): &Named<Roster>| (*digest, Note::Roster(*digest, Arc::clone(roster)));
        let (digest, costs) = &attempt.costs;
        let costs = (*digest, Note::Costs(*digest, Arc::clone(costs)));
        let first = self.first.as_ref().map(|(first, _)| roster(first));
        let both = [roster(&attempt.roster), costs];
        first.into_iter().chain(both).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    fn report(&self, number: u64, given_up: bool) -> FrameReport {
        let mut report = FrameReport {
            frame: u32::try_from(number).unwrap_or(u32::MAX),
            attempts: self.attempt + 1,
            given_up,
            late: self.without.peers.iter().map(ToString::to_string).collect(),
            max_over_mean: 1.0,
            ..FrameReport::default()
        };
        let Some(a) = &self.running else {
            return report;
        };
        let plan = &a.planned.plan;
        report.jobs = plan.jobs.len();
        report.missing = plan.missing().count();
        report.planned_us = plan.schedule.makespan_micros;
        let renderer = |job: u32| plan.jobs.get(job as usize).and_then(|j| j.renderer);
        let stolen = a
            .measured
            .iter()
            .filter(|(j, m)| renderer(**j) != Some(m.0));
        report.stolen = stolen.count();
        let mut spent = vec![0_u64; plan.peers.len()];
        for &(by, micros) in a.measured.values() {
            spent[by] += micros;
        }
        let mean = spent.iter().sum::<u64>() as f64 / spent.len().max(1) as f64;
        if mean > 0.0 {
            let most = spent.iter().copied().max().unwrap_or(0);
            report.max_over_mean = most as f64 / mean;
        }
        report
    }
}

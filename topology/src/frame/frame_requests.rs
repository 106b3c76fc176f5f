//! The frames that a peer has asked the mesh for: who takes part in each attempt, what is sent to whom,
//! and what happens when somebody is late, lost or at fault.
//!
//! A pure state machine around [`Attempt`], [`taking_part()`] and `Blame`, run by the
//! requester of a real peer and of a simulated one. Times are microseconds of any clock that goes
//! on. It does not know what a frame shows: its plans are derived by who runs it
//! ([`FramesOutput::Plan`]), and pixels are taken there ([`FramesOutput::Take`]).
//!
//! Invariants: every frame that is not forgotten ends once, whole or not ([`FramesOutput::Ended`]). All attempts at a frame have the
//! jobs of the first one that was made, so that what was rendered is not rendered again. What an
//! attempt that is over brings does not count for the next.

mod answers;
mod asked;
pub mod attempt;
mod blame;
mod messages;
pub mod participants;

pub use messages::{
    AttemptInputs, AttemptRequest, BrickAccesses, Complaint, EarlierInputs, EarlierWork,
    EndedFrame, FrameEnd, FrameId, FrameMessage, FrameOrder, FramesInput, FramesOutput, Named, Why,
};

use crate::{
    balance::{
        cost_table::CostTable,
        division_choice::{DivisionChoice, Forecast, Worked},
        frame_plan::FramePlan,
        plan_rules::PlanRules,
        prediction::next_wait,
        roster::{Candidate, Roster, RosterEntry},
        schedule::SPEED_ONE,
    },
    base::{digest::Digest, peer::PeerId},
};
use asked::{Asked, Run, State};
use attempt::{Attempt, AttemptInput, Verdict};
use participants::{
    BUSY_MAX, WAIT_MICROS_MAX, are_read, attempt_micros, busy_rest_micros, must_wait, rest_micros,
    taking_part,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Rosters and cost tables remembered as sent to a peer.
const SENT_MAX: usize = 32;

/// See the module.
#[derive(Debug)]
pub struct FrameRequests {
    local: PeerId,
    now: u64,
    data_sets: BTreeMap<Digest, DataSet>,
    /// Speeds in millionths, as measured; those not in it count as 1.
    speeds: BTreeMap<PeerId, u64>,
    frames: BTreeMap<u64, Asked>,
    /// What each peer was sent, by name; oldest first.
    sent: BTreeMap<PeerId, Vec<Digest>>,
}

#[derive(Debug, Default)]
struct DataSet {
    candidates: Vec<Candidate>,
    costs: Arc<CostTable>,
    /// How long peers wait for bricks that are read, per time that they render, thousandths.
    waits: BTreeMap<PeerId, u64>,
    /// When the first and the last of those frames were asked for of which peers fetch what they lack, the last ones without a rest.
    fetches: Option<(u64, u64)>,
    /// What is divided, where the requester is to choose.
    choice: DivisionChoice,
    /// When the last frame ended.
    last_end: u64,
}

/// Who does not ask for such frames for so long may find that peers have given the room to something else.
const FETCHES_REST_MICROS: u64 = 30_000_000;

/// How long frames wait until all who take part have made room for bricks that they fetch, from the first such frame on; after
/// that the volume is divided, as long as somebody has none.
const FETCHES_WAIT_MICROS: u64 = 2_000_000;

impl FrameRequests {
    /// None yet, of peer `local`.
    #[must_use]
    pub fn new(local: PeerId) -> Self {
        Self {
            local,
            now: 0,
            data_sets: BTreeMap::new(),
            speeds: BTreeMap::new(),
            frames: BTreeMap::new(),
            sent: BTreeMap::new(),
        }
    }

    /// Something happened at a time; what is to be done about it is added to `out`.
    pub fn step(&mut self, now: u64, input: FramesInput, out: &mut Vec<FramesOutput>) {
        self.now = self.now.max(now);
        match input {
            FramesInput::Ask {
                number,
                data_set,
                rules,
            } => {
                let asked = Asked::new(data_set, rules, self.now);
                self.frames.insert(number, asked);
                self.begin(number, out);
            }
            FramesInput::Forget(number) => {
                if let Some(asked) = self.frames.remove(&number) {
                    call_off(&asked, number, out);
                }
            }
            FramesInput::Planned(frame, plans) => self.planned(frame, &plans, out),
            FramesInput::Candidates(data_set, candidates) => {
                self.data_sets.entry(data_set).or_default().candidates = candidates;
                let waits = |a: &Asked| a.data_set == data_set && matches!(a.state, State::Waiting);
                let waiting = self.frames.iter().filter(|(_, a)| waits(a));
                for number in waiting.map(|(&n, _)| n).collect::<Vec<_>>() {
                    self.begin(number, out);
                }
            }
            FramesInput::Closed(data_set) => drop(self.data_sets.remove(&data_set)),
            FramesInput::Lost(peer) => self.lost(&peer, out),
            FramesInput::Said(from, frame, message) => self.said(from, frame, message, out),
            FramesInput::Due { number, at } => self.due(number, at, out),
        }
    }

    /// Begins the next attempt at a frame, or waits for somebody who could take part.
    fn begin(&mut self, number: u64, out: &mut Vec<FramesOutput>) {
        let Some(asked) = self.frames.get_mut(&number) else {
            return;
        };
        if self.now < asked.rests_until {
            asked.wake(number, asked.rests_until, out);
            return;
        }
        let mut divisions = asked.rules.division.candidates().into_iter();
        let Some(division) = divisions.next() else {
            return;
        };
        let with = |division| PlanRules {
            division,
            ..asked.rules
        };
        let rules = with(division);
        let others: Vec<PlanRules> = divisions.map(with).collect();
        let fetched = rules.fetches();
        let mut data_set = self.data_sets.get_mut(&asked.data_set);
        let since = data_set.as_mut().filter(|_| fetched);
        let since = since.map(|d| {
            let (since, last) = d.fetches.unwrap_or((self.now, self.now));
            let goes_on = self.now.saturating_sub(last) < FETCHES_REST_MICROS;
            let since = if goes_on { since } else { self.now };
            d.fetches = Some((since, self.now));
            since
        });
        let data_set = data_set.as_deref();
        let candidates = data_set.map_or(&[][..], |d| &d.candidates);
        let part = taking_part(candidates, &asked.without.peers, fetched);
        if must_wait(candidates, &part, self.now - asked.since) {
            asked.wake(number, asked.since + WAIT_MICROS_MAX, out);
            return;
        }
        let waits_until = since.map_or(0, |since| since + FETCHES_WAIT_MICROS);
        let is_first = asked.attempt == 0;
        if is_first && self.now < waits_until && !part.iter().all(RosterEntry::has_all) {
            asked.wake(number, waits_until, out);
            return;
        }
        if part.is_empty() {
            let failure = asked.last_failure.take();
            let gave_up = |(awaited, why)| FrameEnd::GaveUp { awaited, why };
            let end = failure.map_or(FrameEnd::NobodyHolds, gave_up);
            return self.end(number, end, out);
        }
        let costs = asked.first.as_ref().map(|(_, costs)| costs.clone());
        let costs = costs.unwrap_or_else(|| {
            let value = data_set.map(|d| Arc::clone(&d.costs)).unwrap_or_default();
            let digest = value.digest();
            Named { digest, value }
        });
        let inputs_of = |rules, part| inputs(asked, data_set, &self.speeds, (rules, part), &costs);
        let mut all = vec![inputs_of(rules, part)];
        for rules in others {
            let part = taking_part(candidates, &asked.without.peers, rules.fetches());
            // Nobody waits for room that is not there yet.
            if !part.is_empty() && part.iter().all(RosterEntry::has_all) {
                all.push(inputs_of(rules, part));
            }
        }
        asked.state = State::Planning(all.clone());
        out.push(FramesOutput::Plan(asked.frame(number), all));
    }

    /// Takes one of an attempt's plans, and sends it to all who take part.
    fn planned(&mut self, frame: FrameId, plans: &[Arc<FramePlan>], out: &mut Vec<FramesOutput>) {
        let Some(asked) = self.frames.get_mut(&frame.number) else {
            return;
        };
        let State::Planning(inputs) = &asked.state else {
            return;
        };
        if asked.attempt != frame.attempt {
            return;
        }
        let data_set = self.data_sets.get_mut(&asked.data_set);
        let (chosen, forecast) = match data_set {
            Some(data_set) if plans.len() > 1 => data_set.choose(plans, inputs),
            _ => (0, None),
        };
        let Some((inputs, plan)) = inputs.get(chosen).zip(plans.get(chosen)) else {
            return;
        };
        let (inputs, plan) = (inputs.clone(), Arc::clone(plan));
        // Further attempts have the same jobs.
        asked.rules = inputs.rules;
        out.push(FramesOutput::Begin(frame, Arc::clone(&plan)));
        let request = FrameOrder::Begin(Arc::new(inputs.request(frame)));
        let orders = inputs.orders();
        let peers = plan.peers.clone();
        let attempt = Attempt::new(plan, asked.failed, asked.prolonged);
        let attempt = attempt.with_reads(inputs.are_read || inputs.are_fetched);
        let mut run = Run::new(inputs, attempt, self.now);
        run.forecast = forecast;
        asked.state = State::Running(Box::new(run));
        // Where nothing can be seen nobody is told, neither of the beginning nor of the end.
        if self.end_if_whole(frame, out) {
            return;
        }
        if let Some(asked) = self.frames.get_mut(&frame.number) {
            asked.began.extend(peers.iter().cloned());
        }
        for peer in peers {
            let sent = self.sent.entry(peer.clone()).or_default();
            for (digest, order) in &orders {
                if !sent.contains(digest) {
                    out.push(FramesOutput::Send(peer.clone(), order.clone()));
                    sent.push(*digest);
                }
            }
            let forget = sent.len().saturating_sub(SENT_MAX);
            sent.drain(..forget);
            out.push(FramesOutput::Send(peer, request.clone()));
        }
        self.set_deadline(frame.number, out);
    }

    fn set_deadline(&mut self, number: u64, out: &mut Vec<FramesOutput>) {
        let up_to_it = self.frames.range(..=number);
        let runs = up_to_it.filter_map(|(_, a)| a.running());
        let makespans: Vec<u64> = runs.map(|r| r.plan().rendering_makespan_micros()).collect();
        let now = self.now;
        if let Some(asked) = self.frames.get_mut(&number)
            && let State::Running(run) = &mut asked.state
        {
            let doublings = asked.failed + run.attempt.prolonged();
            let is_measured = !run.inputs.costs.value.trees.is_empty() && !run.inputs.are_read;
            run.micros = attempt_micros(makespans, doublings, is_measured);
            let at = now.saturating_add(run.micros);
            asked.wake(number, at, out);
        }
    }

    /// A time that was set has come.
    fn due(&mut self, number: u64, at: u64, out: &mut Vec<FramesOutput>) {
        let Some(asked) = self.frames.get_mut(&number) else {
            return;
        };
        if asked.due != Some(at) {
            return;
        }
        asked.due = None;
        let frame = asked.frame(number);
        match &asked.state {
            State::Planning(_) => {}
            State::Waiting => self.begin(number, out),
            State::Running(run) if run.blame.is_some() => self.conclude(frame, out),
            State::Running(run) => {
                let why = Why::NoAnswer(run.micros);
                // The picture may be whole, and only times missing.
                if !self.inquire(frame, out) && self.apply(frame, AttemptInput::Deadline, why, out)
                {
                    self.end(number, FrameEnd::Whole, out);
                }
            }
        }
    }

    /// The attempt that is under way, if it is this one.
    fn run(&mut self, frame: FrameId) -> Option<&mut Run> {
        let asked = self.frames.get_mut(&frame.number)?;
        match &mut asked.state {
            State::Running(run) if asked.attempt == frame.attempt => Some(run),
            _ => None,
        }
    }

    /// Applies an input to a frame's attempt and carries out the verdict; true if what came is to
    /// be taken.
    fn apply(
        &mut self,
        frame: FrameId,
        input: AttemptInput,
        why: Why,
        out: &mut Vec<FramesOutput>,
    ) -> bool {
        let Some(run) = self.run(frame) else {
            return false;
        };
        match run.attempt.step(input) {
            Verdict::Ignore => false,
            Verdict::Accept | Verdict::Whole => true,
            Verdict::Prolong => {
                out.push(FramesOutput::Prolonged(frame, why));
                self.set_deadline(frame.number, out);
                false
            }
            Verdict::Repeat => {
                let prolonged = run.attempt.prolonged();
                if let Some(asked) = self.frames.get_mut(&frame.number) {
                    asked.prolonged = prolonged;
                }
                self.repeat(frame, BTreeSet::new(), why, out);
                false
            }
            Verdict::Again { without } => {
                self.again(frame, without, why, out);
                false
            }
            Verdict::GiveUp => {
                let awaited = run.attempt.awaited();
                let end = FrameEnd::GaveUp { awaited, why };
                self.end(frame.number, end, out);
                false
            }
        }
    }

    /// The attempt has failed.
    fn again(
        &mut self,
        frame: FrameId,
        without: BTreeSet<PeerId>,
        why: Why,
        out: &mut Vec<FramesOutput>,
    ) {
        let Some(asked) = self.frames.get_mut(&frame.number) else {
            return;
        };
        // Who is lost is nobody's fault; nor is it that somebody has no room, for a while.
        let is_busy = matches!(why, Why::Busy(_)) && asked.busy < BUSY_MAX;
        if is_busy {
            asked.rests_until = self.now + busy_rest_micros(asked.busy);
            asked.busy += 1;
        } else if why != Why::Lost {
            asked.failed += 1;
            asked.rests_until = self.now + rest_micros(asked.failed);
            let awaited = asked.running().map_or(0, |r| r.attempt.awaited());
            asked.last_failure = Some((awaited, why.clone()));
            if !without.is_empty() {
                out.push(FramesOutput::Late(without.clone()));
            }
        }
        asked.prolonged = 0;
        self.repeat(frame, without, why, out);
    }

    /// Asks for the frame again, without these peers.
    fn repeat(
        &mut self,
        frame: FrameId,
        without: BTreeSet<PeerId>,
        why: Why,
        out: &mut Vec<FramesOutput>,
    ) {
        let Some(asked) = self.frames.get_mut(&frame.number) else {
            return;
        };
        asked.attempt += 1;
        asked.without.peers.extend(without.iter().cloned());
        out.push(FramesOutput::AskedAgain(frame, without, why));
        if let State::Running(run) = std::mem::replace(&mut asked.state, State::Waiting) {
            let Run {
                inputs,
                attempt,
                measured,
                ..
            } = *run;
            let plan = attempt.plan();
            cancel(plan.peers.iter(), frame, false, out);
            // What was hidden was not rendered, and may be seen without who is left out.
            let done = measured.iter().filter(|(_, m)| m.1 > 0);
            let done = done.map(|(&j, m)| (j, plan.peers[m.0].clone()));
            Arc::make_mut(&mut asked.rendered).extend(done);
            asked.first.get_or_insert((inputs.roster, inputs.costs));
        }
        self.begin(frame.number, out);
    }

    fn end_if_whole(&mut self, frame: FrameId, out: &mut Vec<FramesOutput>) -> bool {
        let is_whole = self.run(frame).is_some_and(|r| r.attempt.is_whole());
        if is_whole {
            self.end(frame.number, FrameEnd::Whole, out);
        }
        is_whole
    }

    /// A frame has ended; if it is whole, its times are learnt from.
    fn end(&mut self, number: u64, end: FrameEnd, out: &mut Vec<FramesOutput>) {
        let Some(asked) = self.frames.remove(&number) else {
            return;
        };
        call_off(&asked, number, out);
        let (plan, measured, accesses, forecast) = match asked.state {
            State::Running(run) => {
                if end == FrameEnd::Whole {
                    self.learn(asked.data_set, &asked.rules, &run);
                }
                if end == FrameEnd::Whole && asked.attempt == 0 {
                    self.learn_division(asked.data_set, &run);
                }
                let plan = Some(Arc::clone(run.attempt.plan()));
                let took = run.took.into_iter();
                let accesses = took.map(|(by, (_, bricks))| (by, bricks)).collect();
                (plan, run.measured, accesses, run.forecast)
            }
            _ => (None, BTreeMap::new(), BTreeMap::new(), None),
        };
        if let Some(data_set) = self.data_sets.get_mut(&asked.data_set) {
            data_set.last_end = self.now;
        }
        out.push(FramesOutput::Ended(Box::new(EndedFrame {
            number,
            end,
            attempts_before: asked.attempt,
            left_out: asked.without.peers,
            total_micros: self.now - asked.since,
            plan,
            measured,
            accesses,
            forecasts: forecast.map(|f| f.1).unwrap_or_default(),
        })));
    }

    /// What divisions take, for the choice of the next frames.
    fn learn_division(&mut self, data_set: Digest, run: &Run) {
        let data_set = self.data_sets.get_mut(&data_set);
        let Some((data_set, (forecast, _))) = data_set.zip(run.forecast.as_ref()) else {
            return;
        };
        if run.attempt.prolonged() > 0 {
            return;
        }
        // Of frames that overlap, each takes the time that it adds.
        let took = self.now - run.began.max(data_set.last_end);
        let worked = |(&by, &(rendered_micros, bricks)): (&usize, &(u64, BrickAccesses))| {
            let worked = Worked {
                rendered_micros,
                waited_micros: bricks.waited_micros,
                missed: bricks.missed,
            };
            (by, worked)
        };
        let work = run.took.iter().map(worked).collect();
        data_set.choice.learn(forecast, took, &work);
    }

    /// Speeds, waits and costs for the next frames.
    fn learn(&mut self, data_set: Digest, rules: &PlanRules, run: &Run) {
        let Some(data_set) = self.data_sets.get_mut(&data_set) else {
            return;
        };
        let plan = run.plan();
        let (speeds, costs) = plan.learned(&data_set.costs, &run.measured, rules);
        data_set.costs = Arc::new(costs);
        if run.inputs.are_read || run.inputs.are_fetched {
            for (by, peer) in plan.peers.iter().enumerate() {
                let (rendered, bricks) = run.took.get(&by).copied().unwrap_or_default();
                let before = data_set.waits.get(peer).copied();
                if let Some(wait) = next_wait(before, rendered, bricks.waited_micros) {
                    data_set.waits.insert(peer.clone(), wait);
                }
            }
        }
        self.speeds.extend(plan.peers.iter().cloned().zip(speeds));
    }
}

impl DataSet {
    /// Which of an attempt's plans is taken, and what was expected of it and of all of them; these have inputs in the same order.
    /// Nothing is expected before anything was measured.
    fn choose(
        &mut self,
        plans: &[Arc<FramePlan>],
        inputs: &[AttemptInputs],
    ) -> (usize, Option<(Forecast, Vec<u64>)>) {
        if self.costs.trees.is_empty() {
            return (0, None);
        }
        let forecast = |(plan, inputs): (&Arc<FramePlan>, &AttemptInputs)| {
            self.choice.forecast(plan, &inputs.roster.value)
        };
        let mut forecasts: Vec<Forecast> = plans.iter().zip(inputs).map(forecast).collect();
        if forecasts.iter().filter(|f| f.is_image()).count() != 1 {
            return (0, None);
        }
        let micros = forecasts.iter().map(|f| self.choice.micros(f)).collect();
        let chosen = self.choice.choose(&forecasts);
        (chosen, Some((forecasts.swap_remove(chosen), micros)))
    }
}

/// What an attempt is planned from by these rules, with these peers taking part.
fn inputs(
    asked: &Asked,
    data_set: Option<&DataSet>,
    speeds: &BTreeMap<PeerId, u64>,
    (rules, part): (PlanRules, Vec<RosterEntry>),
    costs: &Named<CostTable>,
) -> AttemptInputs {
    let candidates = data_set.map_or(&[][..], |d| &d.candidates);
    let (are_read, are_fetched) = (are_read(candidates, &part), rules.fetches());
    let waits = data_set.map(|d| &d.waits);
    let waits = waits.filter(|_| are_read || are_fetched);
    let wait = |peer: &PeerId| waits.and_then(|w| w.get(peer)).copied();
    let with_speed = |e: RosterEntry| RosterEntry {
        speed_millionths: speeds.get(&e.peer).copied().unwrap_or(SPEED_ONE),
        wait_thousandths: wait(&e.peer).unwrap_or(0),
        ..e
    };
    let roster = Roster::new(part.into_iter().map(with_speed));
    AttemptInputs {
        rules,
        are_read,
        are_fetched,
        roster: Named {
            digest: roster.digest(),
            value: Arc::new(roster),
        },
        costs: costs.clone(),
        earlier: asked.first.as_ref().map(|(roster, _)| EarlierInputs {
            roster: roster.clone(),
            rendered: Arc::clone(&asked.rendered),
        }),
    }
}

/// Tells all who took part in any attempt at a frame, and may be at it still, that it is over.
fn call_off(asked: &Asked, number: u64, out: &mut Vec<FramesOutput>) {
    cancel(asked.began.iter(), asked.frame(number), true, out);
}

/// Tells peers, also those that were late, that an attempt, or all of a frame, is over.
fn cancel<'a>(
    peers: impl Iterator<Item = &'a PeerId>,
    frame: FrameId,
    is_over: bool,
    out: &mut Vec<FramesOutput>,
) {
    let order = FrameOrder::Cancel { frame, is_over };
    out.extend(peers.map(|peer| FramesOutput::Send(peer.clone(), order.clone())));
}

#[cfg(test)]
mod tests;

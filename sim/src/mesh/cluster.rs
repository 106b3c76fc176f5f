//! The simulated machines: a queue of events on a virtual clock.

use super::{
    FaultInput, FaultKind, Input, NetworkInput, field, millionths, report::FrameReport, volume,
};
use crate::SimError;
use brickmesh_topology::{
    Manifest, PeerId, RenderSettings, View,
    balance::{
        cost_table::CostTable,
        frame_plan::{FramePlan, PlanInputs},
        plan_rules::PlanRules,
        roster::{Roster, RosterEntry},
        schedule::{SPEED_ONE, work_of},
        stealing::{StealMessage, StealOutput, Work},
    },
    base::seeded::Seeded,
    data::brick_set::BrickSet,
    frame::{
        frame_tracker::{FrameInput, FrameTracker, FrameVerdict},
        participants::attempt_micros,
    },
    picture::{sample_count::SampleCounter, visible_cells::VisibleCells},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

/// Real time of a sample on a device of speed 1, nanoseconds; what bricks add is drawn.
const NANOS_PER_SAMPLE: u64 = 6;
/// Real time of a job besides its samples, microseconds.
const JOB_MICROS: u64 = 200;
/// How long thieves wait before they ask again, as the actors do.
const ASK_AGAIN_MICROS: u64 = 50_000;
/// Longest time that a job really takes on a device of speed 1, microseconds: a day, so that no sum
/// of times overflows.
const EXPECTED_MICROS_MAX: u64 = 86_400_000_000;

pub(super) struct Cluster {
    manifest: Manifest,
    settings: RenderSettings,
    visible: VisibleCells,
    rules: PlanRules,
    network: NetworkInput,
    faults: Vec<FaultInput>,
    /// In roster order.
    peers: Vec<Machine>,
    costs: CostTable,
    /// How much dearer than its samples each brick is, in thousandths.
    brick_cost: Vec<u64>,
    draws: Seeded,
}

struct Machine {
    id: PeerId,
    bricks: BrickSet,
    /// Real speed in millionths.
    speed: u64,
    /// Speed as measured.
    believed: u64,
    alive: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A peer has the frame's request and has derived its plan.
    Begin(usize),
    JobEnds {
        peer: usize,
        job: u32,
        micros: u64,
    },
    Hear {
        to: usize,
        from: usize,
        note: Note,
    },
    AskAgain(usize),
    Fault(usize),
    Noticed(usize),
    Deadline,
}

/// A message that can be ordered, for events of the same time.
#[derive(PartialEq, Eq)]
struct Note(StealMessage);

impl PartialOrd for Note {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Note {
    /// All alike: the number of the event decides before.
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// One attempt at a frame.
struct Attempt {
    /// Attempts before it that failed.
    failed: u32,
    plan: FramePlan,
    tracker: FrameTracker,
    /// By index in the plan; the machine of each.
    machines: Vec<usize>,
    works: Vec<Work>,
    busy: Vec<bool>,
    ends: Vec<u64>,
    /// Real time spent.
    spent: Vec<u64>,
    measured: BTreeMap<u32, (usize, u64)>,
    /// Jobs still to come, by tile.
    tiles: Vec<BTreeSet<u32>>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    rendered_twice: usize,
    stolen: usize,
    messages: usize,
}

impl Cluster {
    pub(super) fn new(input: &Input, manifest: Manifest) -> Self {
        let bricks = manifest.grid().brick_count();
        let rooms: Vec<u32> = input.peers.iter().map(|p| p.capacity.min(bricks)).collect();
        let rooms = super::shares(bricks, &rooms, input.redundancy);
        let held = super::deal(bricks, &rooms, input.seed);
        let mut peers: Vec<Machine> = input
            .peers
            .iter()
            .zip(held)
            .map(|(p, bricks)| Machine {
                id: PeerId::new(&p.id),
                bricks,
                speed: millionths(p.speed),
                believed: SPEED_ONE,
                alive: true,
            })
            .collect();
        peers.sort_by(|a, b| a.id.cmp(&b.id));
        let mut draws = Seeded::new(input.seed);
        let settings = volume::settings();
        Self {
            visible: VisibleCells::of(&manifest, &settings),
            settings,
            rules: input.rules,
            network: input.network,
            faults: input.faults.clone(),
            peers,
            costs: CostTable::default(),
            brick_cost: (0..bricks).map(|_| 500 + draws.below(1000)).collect(),
            draws,
            manifest,
        }
    }

    /// Renders a frame, in as many attempts as it takes.
    pub(super) fn frame(&mut self, number: u32, view: &View) -> Result<FrameReport, SimError> {
        let mut report = FrameReport {
            frame: number,
            max_over_mean: 1.0,
            ..FrameReport::default()
        };
        let mut without = BTreeSet::new();
        let mut start = 0;
        loop {
            let Some(mut attempt) = self.attempt(view, &without, report.attempts)? else {
                report.given_up = true;
                return Ok(report);
            };
            report.attempts += 1;
            let (end, verdict) = self.run(&mut attempt, number, start, view);
            report.total_us = end;
            report.rendered_twice += attempt.rendered_twice;
            report.messages += attempt.messages;
            match verdict {
                FrameVerdict::Again { without: failed } => {
                    without.extend(failed);
                    start = end;
                }
                FrameVerdict::GiveUp => {
                    report.given_up = true;
                    return Ok(report);
                }
                _ => {
                    self.learn(&attempt);
                    attempt.describe(&mut report);
                    return Ok(report);
                }
            }
        }
    }

    fn attempt(
        &self,
        view: &View,
        without: &BTreeSet<PeerId>,
        number: u32,
    ) -> Result<Option<Attempt>, SimError> {
        let part = |m: &&Machine| !without.contains(&m.id) && !m.bricks.is_empty();
        let entry = |m: &Machine| RosterEntry {
            peer: m.id.clone(),
            speed_millionths: m.believed,
            bricks: m.bricks.clone(),
        };
        let roster = Roster::new(self.peers.iter().filter(part).map(entry));
        if roster.entries().is_empty() {
            return Ok(None);
        }
        let plan = FramePlan::derive(&PlanInputs {
            manifest: &self.manifest,
            view,
            settings: &self.settings,
            visible: &self.visible,
            roster: &roster,
            costs: &self.costs,
            rules: &self.rules,
            earlier: None,
        });
        let plan = plan.map_err(|e| field("volume", e, "its jobs must have an order"))?;
        Ok(Some(Attempt::new(
            plan,
            &self.peers,
            number,
            self.rules.steal,
        )))
    }

    /// Runs an attempt to its end; returns when it ended, from the frame's start, and how.
    fn run(&mut self, a: &mut Attempt, frame: u32, start: u64, view: &View) -> (u64, FrameVerdict) {
        let real = self.real_costs(&a.plan, view);
        for p in 0..a.machines.len() {
            let at = start + self.delay();
            a.push(at, Event::Begin(p));
            a.push(at + ASK_AGAIN_MICROS, Event::AskAgain(p));
        }
        for (index, fault) in self.faults.iter().enumerate() {
            if fault.frame == frame && fault.after_us >= start {
                a.push(fault.after_us, Event::Fault(index));
            }
        }
        let time = a.time(self.is_measured());
        a.push(start + time, Event::Deadline);
        if a.tracker.is_whole() {
            return (start, FrameVerdict::Whole);
        }
        while let Some(Reverse((now, _, event))) = a.events.pop() {
            let verdict = self.step(a, now, event, &real);
            if verdict != FrameVerdict::Accept {
                // What comes to the requester comes over the network.
                return (now + self.network.latency_us, verdict);
            }
        }
        (start, FrameVerdict::GiveUp)
    }

    fn step(&mut self, a: &mut Attempt, now: u64, event: Event, real: &[u64]) -> FrameVerdict {
        match event {
            Event::Begin(p) => self.go_on(a, p, now, real),
            Event::JobEnds { peer, job, micros } => {
                if !self.peers[a.machines[peer]].alive {
                    return FrameVerdict::Accept;
                }
                a.busy[peer] = false;
                let mut out = Vec::new();
                a.works[peer].job_done(job, micros, &mut out);
                self.carry_out(a, peer, out, now, real);
                let verdict = a.finished(peer, job, micros, now);
                if verdict != FrameVerdict::Accept {
                    return verdict;
                }
                self.go_on(a, peer, now, real);
            }
            Event::Hear { to, from, note } => {
                if self.peers[a.machines[to]].alive {
                    let mut out = Vec::new();
                    a.works[to].heard(from, &note.0, &mut out);
                    self.carry_out(a, to, out, now, real);
                }
            }
            Event::AskAgain(p) => {
                let mut out = Vec::new();
                a.works[p].tick(&mut out);
                self.carry_out(a, p, out, now, real);
                a.push(now + ASK_AGAIN_MICROS, Event::AskAgain(p));
            }
            Event::Fault(index) => self.fault(a, index, now),
            Event::Noticed(machine) => {
                let lost = self.peers[machine].id.clone();
                return match a.tracker.step(FrameInput::PeerLost(lost)) {
                    FrameVerdict::Ignore => FrameVerdict::Accept,
                    verdict => verdict,
                };
            }
            Event::Deadline => {
                let verdict = a.tracker.step(FrameInput::Deadline);
                if verdict != FrameVerdict::Prolong {
                    return verdict;
                }
                let time = a.time(self.is_measured());
                a.push(now + time, Event::Deadline);
            }
        }
        FrameVerdict::Accept
    }

    fn fault(&mut self, a: &mut Attempt, index: usize, now: u64) {
        let fault = &self.faults[index];
        let id = PeerId::new(&fault.peer);
        let Some(machine) = self.peers.iter().position(|m| m.id == id) else {
            return;
        };
        match fault.kind {
            FaultKind::Slow => {
                let speed = work_of(self.peers[machine].speed, millionths(fault.factor));
                self.peers[machine].speed = speed.max(1);
            }
            FaultKind::Crash => {
                self.peers[machine].alive = false;
                self.peers[machine].bricks = BrickSet::new(self.manifest.grid().brick_count());
                a.push(now + self.network.detect_us, Event::Noticed(machine));
            }
        }
    }

    /// Starts a peer's next job, or lets it steal.
    fn go_on(&mut self, a: &mut Attempt, p: usize, now: u64, real: &[u64]) {
        let machine = &self.peers[a.machines[p]];
        if a.busy[p] || !machine.alive {
            return;
        }
        if let Some(job) = a.works[p].next_job() {
            let cost = u128::from(real[job as usize]) * u128::from(SPEED_ONE);
            let micros = u64::try_from(cost / u128::from(machine.speed)).unwrap_or(u64::MAX);
            a.busy[p] = true;
            a.push(
                now + micros,
                Event::JobEnds {
                    peer: p,
                    job,
                    micros,
                },
            );
        } else {
            let mut out = Vec::new();
            a.works[p].idle(&mut out);
            self.carry_out(a, p, out, now, real);
        }
    }

    fn carry_out(
        &mut self,
        a: &mut Attempt,
        from: usize,
        out: Vec<StealOutput>,
        now: u64,
        real: &[u64],
    ) {
        for output in out {
            match output {
                StealOutput::Send { to, message } => {
                    a.messages += 1;
                    let copies = if self.by_chance(self.network.loss) {
                        0
                    } else {
                        1 + u32::from(self.by_chance(self.network.doubled))
                    };
                    for _ in 0..copies {
                        let at = now + self.delay();
                        let note = Note(message.clone());
                        a.push(at, Event::Hear { to, from, note });
                    }
                }
                StealOutput::Given { jobs, by } => {
                    for job in jobs {
                        let peers = &a.plan.peers;
                        a.tracker.step(FrameInput::Given {
                            job,
                            plan: a.plan.digest,
                            from: peers[from].clone(),
                            by: peers[by].clone(),
                        });
                    }
                }
                StealOutput::Render => self.go_on(a, from, now, real),
            }
        }
    }

    /// What each job really costs on a device of speed 1, microseconds.
    fn real_costs(&mut self, plan: &FramePlan, view: &View) -> Vec<u64> {
        let grid = self.manifest.grid();
        let counter = SampleCounter::new(self.manifest.volume(), view, self.settings.step)
            .with_cells(grid, &self.visible);
        let mut costs = Vec::with_capacity(plan.jobs.len());
        for job in &plan.jobs {
            let samples = counter.count(job.brick, &job.owned);
            let nanos = samples.min(EXPECTED_MICROS_MAX) * NANOS_PER_SAMPLE;
            let dear = nanos / 1000 * self.brick_cost[job.brick.0 as usize] / 1000;
            let noise = 970 + self.draws.below(61);
            costs.push((JOB_MICROS + dear) * noise / 1000);
        }
        costs
    }

    fn learn(&mut self, a: &Attempt) {
        let (speeds, costs) = a
            .plan
            .learned(&self.costs, &a.measured, self.rules.prediction);
        self.costs = costs;
        for (&machine, speed) in a.machines.iter().zip(speeds) {
            self.peers[machine].believed = speed;
        }
    }

    fn is_measured(&self) -> bool {
        !self.costs.trees.is_empty()
    }

    fn delay(&mut self) -> u64 {
        self.network.latency_us + self.draws.below(self.network.jitter_us + 1)
    }

    fn by_chance(&mut self, share: f64) -> bool {
        self.draws.below(SPEED_ONE) < millionths(share)
    }
}

impl Attempt {
    fn new(plan: FramePlan, peers: &[Machine], number: u32, steal: bool) -> Self {
        let n = plan.peers.len();
        let machine = |id: &PeerId| peers.iter().position(|m| m.id == *id).unwrap_or(0);
        let jobs_of = |t: usize| {
            let jobs = plan.tile_jobs.of_tile(t).iter();
            jobs.map(|&(j, _)| u32::try_from(j).unwrap_or(u32::MAX))
                .collect()
        };
        Self {
            failed: number,
            tracker: FrameTracker::new(&plan, number),
            machines: plan.peers.iter().map(machine).collect(),
            works: (0..n).map(|p| Work::new(&plan, p, steal)).collect(),
            busy: vec![false; n],
            ends: vec![0; n],
            spent: vec![0; n],
            measured: BTreeMap::new(),
            tiles: (0..plan.tiles.len()).map(jobs_of).collect(),
            events: BinaryHeap::new(),
            count: 0,
            rendered_twice: 0,
            stolen: 0,
            messages: 0,
            plan,
        }
    }

    /// How long it may take.
    fn time(&self, is_measured: bool) -> u64 {
        let makespan = self.plan.schedule.makespan_micros;
        attempt_micros(
            [makespan],
            self.failed + self.tracker.prolonged(),
            is_measured,
        )
    }

    fn push(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    /// A job is rendered: its time and its tiles go to the requester.
    fn finished(&mut self, p: usize, job: u32, micros: u64, now: u64) -> FrameVerdict {
        self.ends[p] = now;
        self.spent[p] += micros;
        if self.measured.insert(job, (p, micros)).is_some() {
            self.rendered_twice += 1;
        }
        self.stolen += usize::from(self.plan.jobs[job as usize].renderer != Some(p));
        let plan = self.plan.digest;
        let from = self.plan.peers[p].clone();
        let mut verdict = self.tracker.step(FrameInput::Job { job, plan, from });
        for t in 0..self.tiles.len() {
            if self.tiles[t].remove(&job) && self.tiles[t].is_empty() {
                let from = self.plan.peers[self.plan.tiles[t].compositor].clone();
                let tile = u32::try_from(t).unwrap_or(u32::MAX);
                verdict = self.tracker.step(FrameInput::Tile { tile, plan, from });
            }
        }
        verdict
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    fn describe(&self, report: &mut FrameReport) {
        report.jobs = self.plan.jobs.len();
        report.stolen = self.stolen;
        report.missing = self.plan.missing().count();
        report.planned_us = self.plan.schedule.makespan_micros;
        let planned = report.planned_us.saturating_mul(11);
        let late = |&p: &usize| self.ends[p].saturating_mul(10) > planned;
        report.late = (0..self.ends.len())
            .filter(late)
            .map(|p| self.plan.peers[p].to_string())
            .collect();
        let sum: u64 = self.spent.iter().sum();
        let mean = sum as f64 / self.spent.len().max(1) as f64;
        let most = self.spent.iter().copied().max().unwrap_or(0) as f64;
        report.max_over_mean = if mean > 0.0 { most / mean } else { 1.0 };
    }
}

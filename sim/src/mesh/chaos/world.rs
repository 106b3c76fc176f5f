//! The simulated machines and what is done to them: events one by one, faults as the scenario
//! says, then none any more, and the copies that must be there again.

use super::{
    environment::Environment,
    machine::Machine,
    network::Weather,
    notes::Who,
    oracle::CALM_MICROS,
    queue::{At, Event},
    scenario::{Kind, Recipe, Scenario},
    viewer::{Viewer, Wishes},
};
use crate::mesh::report::FrameReport;
use brickmesh_topology::{
    BrickIndex, Manifest, balance::schedule::work_of, mesh::replicas::STAGED_MIN,
};
use std::{collections::BTreeSet, sync::Arc};

/// When the source is offered, and when the first frame is asked for, microseconds.
const OFFER_MICROS: u64 = 500_000;
const FIRST_FRAME_MICROS: u64 = 2_000_000;
/// Peers come up within this time, microseconds.
const COMING_UP_MICROS: u64 = 300_000;
/// How often broken connections are made anew and invariants are looked at, microseconds.
const SWEEP_MICROS: u64 = 500_000;
/// How long after faults have stopped copies may be missing, microseconds: silence until a peer is
/// gone, a fetch whose answer was lost, and some more.
const RESTORED_MICROS: u64 = 45_000_000;
/// How long copies must have been there again, microseconds: what is dropped is gone by then.
const STABLE_MICROS: u64 = 5_000_000;
/// No frame may take longer than this, microseconds, whatever happens.
const FRAME_MICROS_MAX: u64 = 600_000_000;

/// See the module.
#[derive(Debug)]
pub(super) struct World {
    pub(super) env: Environment,
    machines: Vec<Machine>,
    scenario: Scenario,
    manifest: Arc<Manifest>,
    redundancy: u32,
    viewer: Who,
    /// Faults that hold now, and how many began.
    active: BTreeSet<usize>,
    pub(super) begun: usize,
    pub(super) healed: Option<u64>,
    /// When all copies were there first, where frames wait for that.
    begins: Option<u64>,
    /// Since when all copies are there, after the faults.
    pub(super) restored: Option<u64>,
}

impl World {
    pub(super) fn new(env: Environment, scenario: Scenario, redundancy: u32) -> Self {
        let manifest = Arc::clone(&env.plans().manifest);
        let recipes = scenario.peers.iter().copied().chain([Recipe {
            room: 0,
            really: 0,
            shelf: 0,
            speed: 1,
            joins: false,
        }]);
        let machines = recipes.zip(0..);
        let machines = machines.map(|(r, who)| Machine::new(&env, who, r, None, &manifest));
        Self {
            machines: machines.collect(),
            viewer: scenario.peers.len(),
            env,
            scenario,
            manifest,
            redundancy,
            active: BTreeSet::new(),
            begun: 0,
            healed: None,
            begins: None,
            restored: None,
        }
    }

    /// Lets all frames be asked for; the error says what was broken.
    pub(super) fn run(&mut self, frames: u64, interval: u64) -> Result<(), String> {
        let wishes = Wishes {
            frames,
            in_flight: self.scenario.in_flight,
            interval,
        };
        let viewer = Viewer::new(&self.env, self.viewer, wishes);
        self.machines[self.viewer].viewer = Some(viewer);
        self.env.network.set_weather(self.scenario.weather);
        let peers = self.machines.len() as u64;
        for who in 0..self.machines.len() {
            if !self.machines[who].recipe.joins {
                let at = COMING_UP_MICROS * who as u64 / peers;
                self.env.happen(at, Event::Start(who));
            }
        }
        self.env
            .happen(OFFER_MICROS, Event::Offer(self.scenario.source));
        if !self.is_calm() {
            self.env.happen(FIRST_FRAME_MICROS, Event::NextFrame);
        }
        self.env.happen(SWEEP_MICROS, Event::Sweep);
        while !self.is_over() {
            let Some((at, event)) = self.env.queue.pop() else {
                return Err("nothing happens any more".to_owned());
            };
            self.handle(at, event);
            if let Some(what) = self.env.oracle.first_broken() {
                return Err(what.to_owned());
            }
        }
        Ok(())
    }

    /// What is told of the frames.
    pub(super) fn reports(&mut self) -> Vec<FrameReport> {
        let viewer = self.machines[self.viewer].viewer.as_mut();
        let mut reports = viewer.map_or_else(Vec::new, |v| std::mem::take(&mut v.reports));
        reports.sort_by_key(|r| r.frame);
        reports
    }

    /// Whether nothing goes wrong but what is named.
    fn is_calm(&self) -> bool {
        self.scenario.until.is_none()
    }

    fn is_over(&self) -> bool {
        let is_done = |v: &Viewer| v.is_done();
        let stable = |since: u64| since + STABLE_MICROS <= self.env.now();
        let viewer = self.machines[self.viewer].viewer.as_ref();
        viewer.is_some_and(is_done) && (self.is_calm() || self.restored.is_some_and(stable))
    }

    fn handle(&mut self, at: At, event: Event) {
        if let Some((who, start)) = at {
            if !self.env.network.is_up(who) || self.env.network.start_of(who) != start {
                return;
            }
            if self.machines[who].is_frozen {
                self.machines[who].waiting.push_back((at, event));
                return;
            }
        }
        self.env.queue.note(&event);
        match event {
            Event::Start(who) => self.start(who),
            Event::Offer(who) => self.offer(who),
            Event::NextFrame => self.next_frame(),
            Event::FaultBegins(fault) => self.fault_begins(fault),
            Event::FaultBreaks(fault) => self.fault_breaks(fault),
            Event::FaultEnds(fault) => self.fault_ends(fault),
            Event::Sweep => self.sweep(),
            here => {
                let Some((who, _)) = at else {
                    return;
                };
                self.machines[who].handle(&mut self.env, here);
                if self.machines[who].has_left {
                    self.stop(who, true);
                }
            }
        }
    }

    /// Asks for the next frame, if one may be; its faults begin.
    fn next_frame(&mut self) {
        let viewer = self.machines[self.viewer].viewer.as_mut();
        let Some(number) = viewer.and_then(Viewer::next_frame) else {
            return;
        };
        if self.healed.is_none() {
            let faults = self.scenario.faults.iter().zip(0..);
            let here = faults.filter(|(f, _)| u64::from(f.frame) == number);
            for (fault, index) in here.collect::<Vec<_>>() {
                self.env.happen(fault.after, Event::FaultBegins(index));
            }
            if (self.scenario.until).is_some_and(|until| number >= u64::from(until)) {
                self.heal();
            }
        }
        self.machines[self.viewer].handle(&mut self.env, Event::NextFrame);
    }

    fn offer(&mut self, who: Who) {
        if self.env.network.is_up(who) && !self.machines[who].is_source() {
            self.machines[who].offer(&mut self.env, self.redundancy);
        }
    }

    /// Switches a machine on, with nothing in memory; what was on its disk is there.
    fn start(&mut self, who: Who) {
        if self.env.network.is_up(who) {
            return;
        }
        let viewer = self.machines[who].viewer.take();
        self.env.network.start(who);
        self.env.disturb(who);
        let recipe = self.machines[who].recipe;
        let shelf = std::mem::take(&mut self.machines[who].shelf);
        self.machines[who] = Machine::new(&self.env, who, recipe, viewer, &self.manifest);
        self.machines[who].shelf = shelf;
        self.machines[who].start(&mut self.env);
        for other in 0..self.machines.len() {
            if other == who || !self.env.network.is_up(other) {
                continue;
            }
            // Some notice that the old connection is broken only now, some never.
            if self.env.network.is_linked(who, other) && (who + other).is_multiple_of(2) {
                self.env.network.unlink(who, other, &mut self.env.queue);
            }
            // Of connections of its former life it knows nothing: one that cannot be made anew now is
            // made once that can be (`sweep`).
            if self.env.network.is_cut(who, other) {
                self.env.network.forget_link(who, other);
            } else {
                self.env.network.link(who, other, &mut self.env.queue);
            }
        }
        if who == self.scenario.source && self.env.now() > OFFER_MICROS {
            self.env.happen(OFFER_MICROS, Event::Offer(who));
        }
    }

    /// Switches a machine off; `is_loud`: its connections break.
    fn stop(&mut self, who: Who, is_loud: bool) {
        self.env.network.stop(who);
        self.env.oracle.emptied(who, self.env.queue.now());
        self.env.disturb(who);
        let machine = &mut self.machines[who];
        machine.is_frozen = false;
        machine.waiting.clear();
        if is_loud {
            self.unlink_all(who);
        }
    }

    fn unlink_all(&mut self, who: Who) {
        for other in 0..self.machines.len() {
            self.env.network.unlink(who, other, &mut self.env.queue);
        }
    }

    /// Whether something can be done to a machine: it is up and handles it.
    fn is_awake(&self, who: Who) -> bool {
        self.env.network.is_up(who) && !self.machines[who].is_frozen
    }

    fn fault_begins(&mut self, index: usize) {
        if self.healed.is_some() {
            return;
        }
        let fault = self.scenario.faults[index].clone();
        match fault.kind {
            Kind::Join(who) => return self.start(who),
            Kind::Crash { who, is_loud, .. } if self.env.network.is_up(who) => {
                self.stop(who, is_loud);
            }
            Kind::Freeze(who) if self.is_awake(who) => self.machines[who].is_frozen = true,
            Kind::Cut { cut, stalls } => self.env.network.cut(index, cut, stalls),
            Kind::Slow { who, left } => {
                let rendering = &mut self.machines[who].rendering;
                rendering.speed = work_of(rendering.speed, left).max(1);
            }
            Kind::Leave(who) if self.is_awake(who) && who != self.scenario.source => {
                self.machines[who].leave(&mut self.env);
            }
            _ => return,
        }
        self.begun += 1;
        self.active.insert(index);
        self.disturb_by(index);
        self.env
            .happen(fault.breaks_after, Event::FaultBreaks(index));
        self.env.happen(fault.lasts, Event::FaultEnds(index));
    }

    /// Nobody need think well of the machines that a fault concerns.
    fn disturb_by(&mut self, index: usize) {
        match self.scenario.faults[index].kind {
            Kind::Crash { who, .. }
            | Kind::Freeze(who)
            | Kind::Slow { who, .. }
            | Kind::Leave(who)
            | Kind::Join(who) => self.env.disturb(who),
            Kind::Cut { .. } => (0..self.machines.len()).for_each(|who| self.env.disturb(who)),
        }
    }

    /// Connections that a fault holds up are seen to be broken.
    fn fault_breaks(&mut self, index: usize) {
        if !self.active.contains(&index) {
            return;
        }
        if let Kind::Freeze(who) = self.scenario.faults[index].kind {
            self.unlink_all(who);
        }
        let Some(cut) = self.env.network.cut_of(index).cloned() else {
            return;
        };
        for a in 0..self.machines.len() {
            for b in (0..a).filter(|&b| cut.touches(a, b)) {
                self.env.network.unlink(a, b, &mut self.env.queue);
            }
        }
    }

    fn fault_ends(&mut self, index: usize) {
        if !self.active.remove(&index) {
            return;
        }
        self.disturb_by(index);
        match self.scenario.faults[index].kind {
            Kind::Crash { who, returns, .. } if returns => self.start(who),
            Kind::Freeze(who) => self.thaw(who),
            Kind::Cut { .. } => self.env.network.mend(index, &mut self.env.queue),
            Kind::Slow { who, .. } => {
                self.machines[who].rendering.speed = self.machines[who].recipe.speed;
            }
            // Its patience is over.
            Kind::Leave(who) if self.env.network.is_up(who) && self.machines[who].is_leaving => {
                self.stop(who, true);
            }
            _ => {}
        }
    }

    fn thaw(&mut self, who: Who) {
        self.machines[who].is_frozen = false;
        for (at, event) in std::mem::take(&mut self.machines[who].waiting) {
            self.handle(at, event);
        }
    }

    /// From now on nothing goes wrong any more.
    fn heal(&mut self) {
        let now = self.env.now();
        self.healed = Some(now);
        self.env.oracle.heal(now);
        self.env.network.set_weather(Weather::default());
        let leaves = |i: &usize| matches!(self.scenario.faults[*i].kind, Kind::Leave(_));
        let ending = self.active.iter().copied().filter(|i| !leaves(i));
        for index in ending.collect::<Vec<_>>() {
            self.fault_ends(index);
        }
    }

    /// Broken connections are made anew; invariants that need time are looked at.
    fn sweep(&mut self) {
        for a in 0..self.machines.len() {
            for b in 0..a {
                let network = &self.env.network;
                let apart = !network.is_linked(a, b) && !network.is_cut(a, b);
                if apart && self.is_awake(a) && self.is_awake(b) {
                    self.env.network.link(a, b, &mut self.env.queue);
                }
            }
        }
        for index in self.active.clone() {
            self.disturb_by(index);
        }
        if self.is_calm() && self.begins.is_none() {
            self.begin();
        }
        self.check_ages();
        self.check_copies();
        self.env.happen(SWEEP_MICROS, Event::Sweep);
    }

    /// Lets frames begin when all bricks are where they should be.
    fn begin(&mut self) {
        let now = self.env.now();
        match self.lacking() {
            None => {
                self.begins = Some(now);
                self.env.happen(FIRST_FRAME_MICROS, Event::NextFrame);
            }
            Some(lacking) if now > COMING_UP_MICROS + 2 * RESTORED_MICROS => {
                let why = format!("the mesh does not come up: {lacking}");
                self.env.oracle.broken(&why);
            }
            Some(_) => {}
        }
    }

    fn check_ages(&mut self) {
        let viewer = self.machines[self.viewer].viewer.as_ref();
        if let Some((asked, makespan)) = viewer.and_then(Viewer::oldest) {
            let now = self.env.now();
            self.env.oracle.check_age(asked, now, makespan);
            if now - asked > FRAME_MICROS_MAX {
                self.env.oracle.broken("a frame does not end");
            }
        }
    }

    fn check_copies(&mut self) {
        let (now, Some(healed)) = (self.env.now(), self.healed) else {
            return;
        };
        match self.lacking() {
            None => {
                self.restored.get_or_insert(now);
            }
            Some(lacking) => {
                self.restored = None;
                if now > healed + CALM_MICROS + RESTORED_MICROS {
                    let why = format!("copies are not made again: {lacking}");
                    self.env.oracle.broken(&why);
                }
            }
        }
    }

    /// What has fewer copies than are wanted, though there is memory for more.
    fn lacking(&self) -> Option<String> {
        let bricks = self.manifest.grid().brick_count();
        let stays = |&w: &Who| self.env.network.is_up(w) && !self.machines[w].is_leaving;
        let staying: Vec<Who> = (0..self.viewer).filter(stays).collect();
        // Some of it is kept for bricks that are fetched.
        let kept = if self.env.rules().fetches() {
            STAGED_MIN
        } else {
            0
        };
        let rooms = staying.iter().map(|&w| self.machines[w].recipe.really);
        let rooms = rooms.map(|room| room.saturating_sub(kept));
        let room: u64 = rooms.map(|r| u64::from(r.min(bricks))).sum();
        let wanted = u64::from(self.redundancy).min(room / u64::from(bricks.max(1)));
        let source = self.scenario.source;
        let has_source = self.env.network.is_up(source) && self.machines[source].is_source();
        for brick in (0..bricks).map(BrickIndex) {
            let holds = |w: &Who| self.env.oracle.is_held(*w, brick);
            let copies = staying.iter().filter(|w| holds(w)).count() as u64;
            let is_lost = !has_source && !(0..self.viewer).any(|w| holds(&w));
            if copies < wanted && !is_lost {
                return Some(format!(
                    "brick {} has {copies} copies of {wanted}; {} peers have room for {room} of {bricks} bricks",
                    brick.0,
                    staying.len()
                ));
            }
        }
        None
    }
}

//! A frame that is being rendered here: this peer's part of its work, and what waits to be sent of it.

use super::{WorkerOutput, admission, cache::RenderCache, device_bricks::DeviceBricks};
use crate::{
    balance::{
        frame_plan::{FramePlan, PlannedJob},
        schedule::cost_on,
        stealing::{StealMessage, StealOutput, Work},
    },
    base::{digest::Digest, peer::PeerId},
    data::brick_grid::BrickIndex,
    frame::{
        compositing::FrameKey,
        frame_requests::FrameMessage,
        image::Image,
        outgoing::{Batch, Outgoing},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// See the module.
#[derive(Debug)]
pub(super) struct ActiveFrame<F, I> {
    pub(super) key: FrameKey,
    pub(super) data_set: Digest,
    pub(super) frame: Arc<F>,
    /// When it began, microseconds.
    since: u64,
    /// This peer's index in the plan.
    me: usize,
    work: Work,
    outgoing: Outgoing<I>,
    /// Jobs of bricks that are not held, rendered or not.
    unheld: BTreeMap<BrickIndex, Vec<u32>>,
    /// Bricks to ask for, in that order.
    to_ask: VecDeque<BrickIndex>,
    /// Bricks that cannot be had.
    in_vain: BTreeSet<BrickIndex>,
}

impl<F: AsRef<FramePlan>, I: Image> ActiveFrame<F, I> {
    pub(super) fn new(
        (key, data_set): (FrameKey, Digest),
        since: u64,
        me: usize,
        frame: Arc<F>,
        work: Work,
    ) -> Self {
        Self {
            key,
            data_set,
            frame,
            since,
            me,
            work,
            outgoing: Outgoing::default(),
            unheld: BTreeMap::new(),
            to_ask: VecDeque::new(),
            in_vain: BTreeSet::new(),
        }
    }

    /// Looks which jobs can be done: those whose bricks are in device memory, or that were rendered before. Others wait; of
    /// their bricks those are asked for first that may be in memory still.
    pub(super) fn look_for_bricks(&mut self, bricks: &DeviceBricks, cache: &RenderCache<I>) {
        let (data_set, plan) = (self.data_set, (*self.frame).as_ref());
        let brick_of = |job: u32| plan.jobs[job as usize].brick;
        let is_here = |job: u32| {
            let is_kept = |j: &PlannedJob| {
                (self.key.1.attempt > 0 || j.content.is_some()) && cache.has(&self.key, j)
            };
            bricks.is_here((data_set, brick_of(job))) || is_kept(&plan.jobs[job as usize])
        };
        self.work.park(is_here);
        let came: Vec<u32> = self.work.parked().filter(|&j| is_here(j)).collect();
        self.work.unpark(&came);
        self.unheld.clear();
        for job in self.work.all_jobs() {
            let brick = brick_of(job);
            if !bricks.is_held((data_set, brick)) {
                self.unheld.entry(brick).or_default().push(job);
            }
        }
        let mut seen = BTreeSet::new();
        // Those of jobs that were put aside among them.
        let waiting = self.work.all_jobs().filter(|&j| !is_here(j)).map(brick_of);
        let wanted = waiting.filter(|b| !self.in_vain.contains(b) && seen.insert(*b));
        let (kept, others): (VecDeque<_>, VecDeque<_>) =
            wanted.partition(|&b| bricks.is_kept((data_set, b)));
        self.to_ask = kept.into_iter().chain(others).collect();
    }

    /// The next brick to be asked for.
    pub(super) fn next_brick(&self) -> Option<BrickIndex> {
        self.to_ask.front().copied()
    }

    /// It was asked for.
    pub(super) fn asked(&mut self) {
        self.to_ask.pop_front();
    }

    /// A brick is in device memory.
    pub(super) fn came(&mut self, brick: BrickIndex) {
        if let Some(jobs) = self.unheld.get(&brick) {
            self.work.unpark(jobs);
        }
    }

    /// A brick cannot be had: its jobs are not rendered here.
    pub(super) fn is_in_vain(&mut self, brick: BrickIndex) {
        if self.unheld.contains_key(&brick) {
            self.in_vain.insert(brick);
        }
    }

    /// The first of the bricks that cannot be had, where nothing else is left to do.
    pub(super) fn lacks(&self) -> Option<BrickIndex> {
        let first = *self.in_vain.first()?;
        let plan = self.plan();
        let mut parked = self.work.parked().map(|j| plan.jobs[j as usize].brick);
        let is_stuck = self.work.waits_for_bricks() && parked.all(|b| self.in_vain.contains(&b));
        is_stuck.then_some(first)
    }

    /// Whether a job that is not rendered yet needs a brick that is not held.
    pub(super) fn needs(&self, brick: BrickIndex) -> bool {
        let jobs = self.unheld.get(&brick);
        jobs.is_some_and(|jobs| jobs.iter().any(|&j| self.work.is_to_come(j)))
    }

    /// Bricks of its jobs that are not held.
    pub(super) fn unheld(&self) -> impl Iterator<Item = BrickIndex> + '_ {
        self.unheld.keys().copied()
    }

    pub(super) fn plan(&self) -> &FramePlan {
        (*self.frame).as_ref()
    }

    pub(super) fn is_under_way(&self, now: u64) -> bool {
        admission::is_under_way(now.saturating_sub(self.since), self.is_busy())
    }

    /// Whether jobs wait or are rendered here.
    pub(super) fn is_busy(&self) -> bool {
        self.work.is_busy()
    }

    pub(super) fn has_jobs(&self) -> bool {
        self.work.has_jobs()
    }

    /// The next job, and what it should take here, microseconds.
    pub(super) fn next_job(&self) -> Option<(PlannedJob, u64)> {
        let plan = self.plan();
        let job = plan.jobs[self.work.first_job()? as usize];
        let micros = cost_on(job.estimate_micros, plan.speeds[self.me]);
        Some((job, micros))
    }

    pub(super) fn take_job(&mut self) -> Option<u32> {
        self.work.next_job()
    }

    /// A peer cannot be reached any more.
    pub(super) fn lost(&mut self, peer: &PeerId) {
        if let Some(index) = self.plan().index_of(peer) {
            self.work.lost(index);
        }
    }

    pub(super) fn heard(
        &mut self,
        from: &PeerId,
        message: &StealMessage,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        if let Some(index) = self.plan().index_of(from) {
            self.step(out, |work, steals| work.heard(index, message, steals));
        }
    }

    pub(super) fn ask_again(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        self.step(out, Work::tick);
    }

    pub(super) fn idle(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        self.step(out, Work::idle);
    }

    /// A job is rendered: what it took, and what it took in this attempt, microseconds.
    pub(super) fn job_done(
        &mut self,
        job: u32,
        image: &I,
        measured_micros: u64,
        spent_micros: u64,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        self.step(out, |work, steals| work.job_done(job, spent_micros, steals));
        let follows = |next| self.work.is_to_come(next);
        let plan = (*self.frame).as_ref();
        self.outgoing
            .rendered(plan, job, measured_micros, image, follows);
        let full = self.outgoing.take_full();
        self.send(full, out);
    }

    /// Sends all that waits, runs that might have grown among it.
    pub(super) fn send_all(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        let (all, times) = self.outgoing.take_all((*self.frame).as_ref());
        self.send(all, out);
        self.tell_times(times, out);
    }

    /// Tells the requester what was rendered, where the frame waits for bricks: it takes longer than was planned.
    pub(super) fn tell_of_progress(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        let is_waiting = self.work.parked().next().is_some();
        let times = is_waiting.then(|| self.outgoing.take_times());
        self.tell_times(times.unwrap_or_default(), out);
    }

    fn tell_times(&self, times: Vec<(u32, u64)>, out: &mut Vec<WorkerOutput<F, I>>) {
        if !times.is_empty() {
            let (plan, jobs) = (self.plan().digest, times);
            let done = FrameMessage::JobsDone { plan, jobs };
            out.push(WorkerOutput::Tell(self.key.clone(), done));
        }
    }

    fn send(&self, batches: Vec<Batch<I>>, out: &mut Vec<WorkerOutput<F, I>>) {
        out.extend(batches.into_iter().map(|(to, runs)| WorkerOutput::Runs {
            key: self.key.clone(),
            frame: Arc::clone(&self.frame),
            to,
            runs,
        }));
    }

    /// Lets the work decide, and says what follows.
    fn step(
        &mut self,
        out: &mut Vec<WorkerOutput<F, I>>,
        input: impl FnOnce(&mut Work, &mut Vec<StealOutput>),
    ) {
        let mut steals = Vec::new();
        input(&mut self.work, &mut steals);
        let plan = self.plan();
        out.extend(steals.into_iter().map(|steal| match steal {
            StealOutput::Send { to, message } => WorkerOutput::Steal {
                key: self.key.clone(),
                plan: plan.digest,
                to: plan.peers[to].clone(),
                message,
            },
            StealOutput::Given { jobs, by } => {
                let given = FrameMessage::Given {
                    plan: plan.digest,
                    jobs,
                    by: plan.peers[by].clone(),
                };
                WorkerOutput::Tell(self.key.clone(), given)
            }
        }));
    }
}

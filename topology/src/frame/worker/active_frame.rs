//! A frame that is being rendered here: this peer's part of its work, and what waits to be sent of it.

use super::{WorkerOutput, admission};
use crate::{
    balance::{
        frame_plan::{FramePlan, PlannedJob},
        schedule::cost_on,
        stealing::{StealMessage, StealOutput, Work},
    },
    base::peer::PeerId,
    frame::{
        compositing::FrameKey,
        frame_requests::FrameMessage,
        image::Image,
        outgoing::{Batch, Outgoing},
    },
};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct ActiveFrame<F, I> {
    pub(super) key: FrameKey,
    pub(super) frame: Arc<F>,
    /// When it began, microseconds.
    since: u64,
    /// This peer's index in the plan.
    me: usize,
    work: Work,
    outgoing: Outgoing<I>,
}

impl<F: AsRef<FramePlan>, I: Image> ActiveFrame<F, I> {
    pub(super) fn new(key: FrameKey, since: u64, me: usize, frame: Arc<F>, work: Work) -> Self {
        Self {
            key,
            frame,
            since,
            me,
            work,
            outgoing: Outgoing::default(),
        }
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

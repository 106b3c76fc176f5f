//! What peers say about a frame, and why its tiles do not come though all jobs are said to be done: then
//! their compositors are asked.

use super::{
    BrickAccesses, Complaint, FrameId, FrameMessage, FrameOrder, FrameRequests, FramesOutput, Why,
    asked::Run, attempt::AttemptInput, blame::Blame, participants::BUSY_MAX,
};
use crate::base::{digest::Digest, peer::PeerId};
use std::sync::Arc;

/// How long compositors may take to say what they lack, microseconds.
const INQUIRY_MICROS: u64 = 500_000;

impl FrameRequests {
    /// A peer says something about an attempt.
    pub(super) fn said(
        &mut self,
        from: PeerId,
        frame: FrameId,
        message: FrameMessage,
        out: &mut Vec<FramesOutput>,
    ) {
        match message {
            FrameMessage::Tile { tile, plan } => {
                let input = AttemptInput::Tile { tile, plan, from };
                if self.apply(frame, input, Why::AnotherPlan, out) {
                    out.push(FramesOutput::Take(frame));
                }
                self.end_if_whole(frame, out);
            }
            FrameMessage::BadTile => {
                self.apply(frame, AttemptInput::Failed(from), Why::BadTile, out);
            }
            FrameMessage::JobsDone {
                plan,
                jobs,
                rendered_micros,
                bricks,
            } => self.jobs_done(&from, frame, plan, (jobs, rendered_micros, bricks), out),
            FrameMessage::Given { plan, jobs, by } => {
                for job in jobs {
                    let given = AttemptInput::Given {
                        job,
                        plan,
                        from: from.clone(),
                        by: by.clone(),
                    };
                    self.apply(frame, given, Why::AnotherPlan, out);
                }
            }
            FrameMessage::NeedInputs => {
                if let Some(run) = self.run(frame) {
                    let request = FrameOrder::Begin(Arc::new(run.inputs.request(frame)));
                    let all = run.inputs.orders().into_iter().map(|(_, order)| order);
                    let all = all.chain([request]);
                    out.extend(all.map(|order| FramesOutput::Send(from.clone(), order)));
                }
            }
            FrameMessage::Lacking { plan, jobs } => self.lacking(&from, frame, plan, &jobs, out),
            FrameMessage::Failed { why } => {
                let why = Why::Said(from.clone(), why);
                self.apply(frame, AttemptInput::Failed(from), why, out);
            }
            FrameMessage::Busy => {
                let asked = self.frames.get(&frame.number);
                let is_fault = asked.is_some_and(|a| a.busy >= BUSY_MAX);
                let why = Why::Busy(from.clone());
                let input = if is_fault {
                    AttemptInput::Failed(from)
                } else {
                    AttemptInput::Busy(from)
                };
                self.apply(frame, input, why, out);
            }
            FrameMessage::Complaint { about, what } => {
                self.complained(&from, about, frame, what, out);
            }
        }
    }

    fn jobs_done(
        &mut self,
        from: &PeerId,
        frame: FrameId,
        plan: Digest,
        (jobs, rendered_micros, bricks): (Vec<(u32, u64)>, u64, BrickAccesses),
        out: &mut Vec<FramesOutput>,
    ) {
        let asked = self.frames.get(&frame.number);
        // No job can have taken longer than the frame so far, nor can anybody have waited longer.
        let most = asked.map_or(0, |a| self.now - a.since);
        if let Some(run) = self.run(frame).filter(|r| r.plan().digest == plan)
            && let Some(by) = run.plan().index_of(from)
        {
            let bricks = BrickAccesses {
                waited_micros: bricks.waited_micros.min(most),
                ..bricks
            };
            run.took.insert(by, (rendered_micros.min(most), bricks));
        }
        for (job, micros) in jobs {
            let done = AttemptInput::Job {
                job,
                plan,
                from: from.clone(),
            };
            if self.apply(frame, done, Why::AnotherPlan, out)
                && let Some(run) = self.run(frame)
                && let Some(by) = run.plan().index_of(from)
            {
                run.measured.insert(job, (by, micros.min(most.max(1))));
            }
        }
        self.end_if_whole(frame, out);
    }

    /// A peer says that it cannot work with another one.
    fn complained(
        &mut self,
        from: &PeerId,
        about: PeerId,
        frame: FrameId,
        what: Complaint,
        out: &mut Vec<FramesOutput>,
    ) {
        let takes_part = |r: &mut Run| r.plan().index_of(from).is_some();
        if self.run(frame).is_some_and(takes_part)
            && let Some(asked) = self.frames.get_mut(&frame.number)
        {
            let failed = asked.without.blame(from, &about).clone();
            let why = Why::Complaint(about, what);
            self.apply(frame, AttemptInput::Failed(failed), why, out);
        }
    }

    pub(super) fn lost(&mut self, peer: &PeerId, out: &mut Vec<FramesOutput>) {
        self.sent.remove(peer);
        // It may come back with another disk, and what made it slow may be gone.
        self.speeds.remove(peer);
        for data_set in self.data_sets.values_mut() {
            data_set.waits.remove(peer);
        }
        let frames = self.frames.iter().map(|(&number, a)| a.frame(number));
        for frame in frames.collect::<Vec<_>>() {
            let lost = AttemptInput::Lost(peer.clone());
            self.apply(frame, lost, Why::Lost, out);
        }
    }

    /// Asks the compositors of missing tiles what they lack, once all jobs are done; false where
    /// there is nobody to ask.
    pub(super) fn inquire(&mut self, frame: FrameId, out: &mut Vec<FramesOutput>) -> bool {
        let (local, now) = (self.local.clone(), self.now);
        let Some(run) = self.run(frame) else {
            return false;
        };
        let asked = run.attempt.awaited_compositors();
        if asked.is_empty() {
            return false;
        }
        run.blame = Some(Blame::new(local, asked.clone()));
        let due = FrameOrder::TilesDue { frame };
        out.extend(
            asked
                .into_iter()
                .map(|p| FramesOutput::Send(p, due.clone())),
        );
        if let Some(asked) = self.frames.get_mut(&frame.number) {
            asked.wake(frame.number, now + INQUIRY_MICROS, out);
        }
        true
    }

    /// A compositor says which jobs it lacks.
    fn lacking(
        &mut self,
        from: &PeerId,
        frame: FrameId,
        plan: Digest,
        jobs: &[u32],
        out: &mut Vec<FramesOutput>,
    ) {
        let Some(run) = self.run(frame) else {
            return;
        };
        if plan != run.plan().digest {
            let failed = AttemptInput::Failed(from.clone());
            self.apply(frame, failed, Why::AnotherPlan, out);
            return;
        }
        let lacks = run.attempt.owners(jobs);
        let is_over = run.blame.as_mut().is_some_and(|blame| {
            blame.answered(from, lacks);
            blame.is_over()
        });
        if is_over {
            self.conclude(frame, out);
        }
    }

    /// Leaves out who is at fault that tiles do not come, or waits on.
    pub(super) fn conclude(&mut self, frame: FrameId, out: &mut Vec<FramesOutput>) {
        if let Some(run) = self.run(frame)
            && let Some(blame) = run.blame.take()
        {
            let fault = blame.at_fault(&run.attempt.awaited_compositors());
            self.apply(frame, AttemptInput::AtFault(fault), Why::TilesMissing, out);
        }
    }
}

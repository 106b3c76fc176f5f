//! A frame that was asked for and is not there yet.

use super::{AskFrame, Frame, FrameError, JobStats, Requester};
use crate::messages::{EarlierWork, FrameId, FrameRequest, Message};
use actix::{AsyncContext, Context, SpawnHandle};
use brickmesh_shaders::SubImage;
use brickmesh_topology::{
    Digest, PeerId, PixelRect, cost_table::CostTable, frame_plan::FramePlan,
    frame_tracker::FrameTracker, inquiry::Inquiry, roster::Roster, taking_part::LeftOut,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// See the module.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ask: AskFrame,
    answer: oneshot::Sender<Result<Frame, FrameError>>,
    pub(super) started: Instant,
    pub(super) without: LeftOut,
    pub(super) attempt: u32,
    /// Attempts in which somebody failed.
    pub(super) failed: u32,
    /// It is not asked for again before.
    rests_until: Option<Instant>,
    /// Of the first attempt that was made and failed: all others have the same jobs.
    pub(super) first: Option<(Roster, CostTable)>,
    /// Who has rendered which of them.
    pub(super) rendered: BTreeMap<u32, PeerId>,
    /// The current attempt; `None`: nobody could take part.
    pub(super) run: Option<Run>,
    pub(super) schedule_micros: u64,
    pub(super) bytes: u64,
    /// What went wrong last.
    pub(super) why: String,
    timer: Option<SpawnHandle>,
}

/// An attempt that is under way.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) roster: Roster,
    pub(super) costs: CostTable,
    pub(super) plan: FramePlan,
    pub(super) tracker: FrameTracker,
    pub(super) image: SubImage,
    /// Who rendered each job, and the time it took there.
    pub(super) measured: BTreeMap<u32, (PeerId, u64)>,
    pub(super) composite_micros: u64,
    /// Who is asked why tiles do not come.
    pub(super) inquiry: Option<Inquiry>,
}

impl Pending {
    pub(super) fn new(ask: AskFrame, answer: oneshot::Sender<Result<Frame, FrameError>>) -> Self {
        Self {
            ask,
            answer,
            started: Instant::now(),
            without: LeftOut::default(),
            attempt: 0,
            failed: 0,
            rests_until: None,
            first: None,
            rendered: BTreeMap::new(),
            run: None,
            schedule_micros: 0,
            bytes: 0,
            why: String::new(),
            timer: None,
        }
    }

    /// The name of the current attempt of a frame of this number.
    pub(super) fn frame(&self, number: u64) -> FrameId {
        FrameId {
            number,
            attempt: self.attempt,
        }
    }

    /// What asks for the current attempt.
    pub(super) fn request(&self, frame: FrameId) -> Option<FrameRequest> {
        let run = self.run.as_ref()?;
        Some(FrameRequest {
            frame,
            data_set: self.ask.data_set,
            view: self.ask.view,
            transfer: self.ask.transfer.clone(),
            step: self.ask.step,
            shade: self.ask.shade,
            roster: run.roster.digest(),
            costs: run.costs.digest(),
            rules: self.ask.rules,
            earlier: self.first.as_ref().map(|(roster, _)| EarlierWork {
                roster: roster.digest(),
                rendered: self.rendered.clone(),
            }),
        })
    }

    /// What a request names.
    pub(super) fn inputs(&self, request: &FrameRequest, run: &Run) -> Vec<(Digest, Message)> {
        let first = request.earlier.as_ref().zip(self.first.as_ref());
        let first = first.map(|(e, (roster, _))| (e.roster, Message::Roster(roster.clone())));
        let both = [
            (request.roster, Message::Roster(run.roster.clone())),
            (request.costs, Message::Costs(run.costs.clone())),
        ];
        first.into_iter().chain(both).collect()
    }

    /// It is not asked for again for so long.
    pub(super) fn rest(&mut self, time: Duration) {
        self.rests_until = Instant::now().checked_add(time);
    }

    /// How long it still rests.
    pub(super) fn rests(&self) -> Option<Duration> {
        let left = self.rests_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Notes what was done in an attempt that is over, and returns its plan.
    pub(super) fn goes_on_from(&mut self, run: Run) -> FramePlan {
        let done = run.measured.into_iter().map(|(job, (by, _))| (job, by));
        self.rendered.extend(done);
        self.first.get_or_insert((run.roster, run.costs));
        run.plan
    }

    /// Has something done after a time, in place of what was to be done before.
    pub(super) fn wake(
        &mut self,
        ctx: &mut Context<Requester>,
        after: Duration,
        act: impl FnOnce(&mut Requester, &mut Context<Requester>) + 'static,
    ) {
        if let Some(old) = self.timer.replace(ctx.run_later(after, act)) {
            ctx.cancel_future(old);
        }
    }

    pub(super) fn finish(self, result: Result<Frame, FrameError>) {
        finish(self.answer, result);
    }
}

impl Run {
    pub(super) fn new(
        roster: Roster,
        costs: CostTable,
        plan: FramePlan,
        tracker: FrameTracker,
        picture: PixelRect,
    ) -> Self {
        Self {
            roster,
            costs,
            plan,
            tracker,
            image: SubImage::transparent(picture),
            measured: BTreeMap::new(),
            composite_micros: 0,
            inquiry: None,
        }
    }

    /// Jobs of the plan, with who rendered each.
    pub(super) fn job_stats(&self) -> Vec<JobStats> {
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

pub(super) fn finish(
    answer: oneshot::Sender<Result<Frame, FrameError>>,
    result: Result<Frame, FrameError>,
) {
    if answer.send(result).is_err() {
        tracing::debug!("nobody waits for a frame any more");
    }
}

//! A frame that was asked for and has not ended, and the attempt at it that is under way.

use super::{
    AttemptInputs, BrickAccesses, FrameId, FramesOutput, Named, Why, attempt::Attempt,
    blame::Blame, participants::LeftOut,
};
use crate::{
    balance::{
        cost_table::CostTable, division_choice::Forecast, frame_plan::FramePlan,
        plan_rules::PlanRules, roster::Roster,
    },
    base::{digest::Digest, peer::PeerId},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// See the module.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) data_set: Digest,
    pub(super) rules: PlanRules,
    pub(super) since: u64,
    pub(super) without: LeftOut,
    pub(super) attempt: u32,
    /// Attempts that failed, but by the loss of a peer.
    pub(super) failed: u32,
    /// How often the attempt was repeated, or had more time, since the last one that failed.
    pub(super) prolonged: u32,
    /// How often somebody had no room for it.
    pub(super) busy: u32,
    /// What the last of them still awaited, and why it failed.
    pub(super) last_failure: Option<(usize, Why)>,
    /// When it is looked at again, unless something happens before.
    pub(super) due: Option<u64>,
    /// It is not asked for again before.
    pub(super) rests_until: u64,
    /// Of the first attempt that was made and failed.
    pub(super) first: Option<(Named<Roster>, Named<CostTable>)>,
    /// Who was asked for a part of it, in any attempt.
    pub(super) began: BTreeSet<PeerId>,
    /// Who has rendered which of its jobs.
    pub(super) rendered: Arc<BTreeMap<u32, PeerId>>,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// For somebody who could take part, or for a rest to end.
    Waiting,
    /// Plans are being derived, from each of these.
    Planning(Vec<AttemptInputs>),
    Running(Box<Run>),
}

/// An attempt that is under way.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) inputs: AttemptInputs,
    pub(super) attempt: Attempt,
    /// When it was sent to all.
    pub(super) began: u64,
    /// Who rendered each job, as index of the plan, and the time it took there.
    pub(super) measured: BTreeMap<u32, (usize, u64)>,
    /// How long peers, by index of the plan, rendered, microseconds, and bricks that they needed.
    pub(super) took: BTreeMap<usize, (u64, BrickAccesses)>,
    /// What was expected of it, and how long it was expected to take by each plan that there was; none where there was one.
    pub(super) forecast: Option<(Forecast, Vec<u64>)>,
    /// The time that it has.
    pub(super) micros: u64,
    /// Who is asked why tiles do not come.
    pub(super) blame: Option<Blame>,
}

impl Asked {
    pub(super) fn new(data_set: Digest, rules: PlanRules, now: u64) -> Self {
        Self {
            data_set,
            rules,
            since: now,
            without: LeftOut::default(),
            attempt: 0,
            failed: 0,
            prolonged: 0,
            busy: 0,
            last_failure: None,
            due: None,
            rests_until: 0,
            first: None,
            began: BTreeSet::new(),
            rendered: Arc::default(),
            state: State::Waiting,
        }
    }

    /// The name of the current attempt at the frame of this number.
    pub(super) fn frame(&self, number: u64) -> FrameId {
        FrameId {
            number,
            attempt: self.attempt,
        }
    }

    pub(super) fn running(&self) -> Option<&Run> {
        match &self.state {
            State::Running(run) => Some(run),
            _ => None,
        }
    }

    /// Is looked at again then, and not when it was to be before.
    pub(super) fn wake(&mut self, number: u64, at: u64, out: &mut Vec<FramesOutput>) {
        self.due = Some(at);
        out.push(FramesOutput::Wake { number, at });
    }
}

impl Run {
    pub(super) fn new(inputs: AttemptInputs, attempt: Attempt, began: u64) -> Self {
        Self {
            inputs,
            attempt,
            began,
            measured: BTreeMap::new(),
            took: BTreeMap::new(),
            forecast: None,
            micros: 0,
            blame: None,
        }
    }

    pub(super) fn plan(&self) -> &FramePlan {
        self.attempt.plan()
    }
}

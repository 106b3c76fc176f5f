//! What the frames of a requester are told, and what they want done.

use crate::{
    balance::{
        cost_table::CostTable,
        frame_plan::FramePlan,
        plan_rules::PlanRules,
        roster::{Candidate, Roster},
    },
    base::{digest::Digest, peer::PeerId},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

/// Names a frame among those of its requester; an attempt that failed is followed by another
/// under the next attempt number, with another roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrameId {
    /// Counts the requester's frames.
    pub number: u64,
    /// Counts the attempts at this frame, from 0.
    pub attempt: u32,
}

/// What was done for a frame that is asked for again: [`Earlier`] of the plan.
///
/// [`Earlier`]: crate::balance::frame_plan::Earlier
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierWork {
    /// Name of the roster snapshot of the first attempt.
    pub roster: Digest,
    /// Who has rendered which job.
    pub rendered: BTreeMap<u32, PeerId>,
}

/// A value under the digest that names it in messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Named<T> {
    /// Its digest.
    pub digest: Digest,
    /// The value.
    pub value: Arc<T>,
}

impl<T> Clone for Named<T> {
    fn clone(&self) -> Self {
        Self {
            digest: self.digest,
            value: Arc::clone(&self.value),
        }
    }
}

/// What an attempt is planned from, besides what the frame shows.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptInputs {
    /// How it is planned.
    pub rules: PlanRules,
    /// Bricks are read for it, which takes a time that nobody knows.
    pub are_read: bool,
    /// Peers fetch what they lack for it, and say so while they wait.
    pub are_fetched: bool,
    /// Who takes part.
    pub roster: Named<Roster>,
    /// What jobs took before.
    pub costs: Named<CostTable>,
    /// In a further attempt, what was done in those before.
    pub earlier: Option<EarlierInputs>,
}

impl AttemptInputs {
    /// What asks for the attempt.
    pub(super) fn request(&self, frame: FrameId) -> AttemptRequest {
        AttemptRequest {
            frame,
            roster: self.roster.digest,
            costs: self.costs.digest,
            rules: self.rules,
            earlier: self.earlier.as_ref().map(|e| EarlierWork {
                roster: e.roster.digest,
                rendered: e.rendered.as_ref().clone(),
            }),
        }
    }

    /// What the request names, under its names.
    pub(super) fn orders(&self) -> Vec<(Digest, FrameOrder)> {
        let roster = |r: &Named<Roster>| (r.digest, FrameOrder::Roster(r.clone()));
        let first = self.earlier.as_ref().map(|e| roster(&e.roster));
        let costs = (self.costs.digest, FrameOrder::Costs(self.costs.clone()));
        first
            .into_iter()
            .chain([roster(&self.roster), costs])
            .collect()
    }
}

/// What was done in earlier attempts: [`EarlierWork`] names it.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierInputs {
    /// The roster of the first one.
    pub roster: Named<Roster>,
    /// Who has rendered which job.
    pub rendered: Arc<BTreeMap<u32, PeerId>>,
}

/// Asks for an attempt, besides what the frame shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRequest {
    /// The frame.
    pub frame: FrameId,
    /// Name of the roster snapshot.
    pub roster: Digest,
    /// Name of the cost table.
    pub costs: Digest,
    /// How it is planned.
    pub rules: PlanRules,
    /// In a further attempt, what was done in those before.
    pub earlier: Option<EarlierWork>,
}

/// Bricks that a peer needed for a frame, each counted once, by where they were when they were needed first; and how often jobs acquired one.
///
/// Source: DeMarle, Gribble, Boulos, Parker 2005, section 3.1: resident set, cache, misses, acquire; here of whole bricks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrickAccesses {
    /// Held by the peer.
    pub held: u32,
    /// In its memory still, or on their way, for other frames.
    pub cached: u32,
    /// Read, or fetched from others.
    pub missed: u32,
    /// Bytes of those that came before they were let go again; of pages, without those that a thread had to ask for.
    pub missed_bytes: u64,
    /// Bricks that were in its memory still and made room for others while this was the oldest frame that was rendered there.
    pub evicted: u32,
    /// How often a job acquired a brick: its own, and each that its rays waited for.
    pub acquired: u32,
    /// How long the peer waited for bricks and rendered nothing, as seen every twentieth of a second, microseconds.
    pub waited_micros: u64,
}

impl BrickAccesses {
    /// Adds those of another peer, or of another part of the picture.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.held, other.held),
            (&mut self.cached, other.cached),
            (&mut self.missed, other.missed),
            (&mut self.evicted, other.evicted),
            (&mut self.acquired, other.acquired),
        ];
        for (sum, other) in pairs {
            *sum = sum.saturating_add(other);
        }
        self.missed_bytes = self.missed_bytes.saturating_add(other.missed_bytes);
        self.waited_micros = self.waited_micros.saturating_add(other.waited_micros);
    }
}

/// What peers say to the requester of a frame. Tiles are not among what can be written: they come
/// with their pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameMessage {
    /// A tile, blended by this plan.
    #[serde(skip)]
    Tile {
        /// Tile of the plan.
        tile: u32,
        /// The plan.
        plan: Digest,
    },
    /// Jobs of this plan are rendered, or hidden; none: bricks are awaited.
    JobsDone {
        /// The plan.
        plan: Digest,
        /// Jobs, and the time that each took, microseconds; 0: nobody would have seen it.
        jobs: Vec<(u32, u64)>,
        /// How long the sender has rendered jobs in this attempt until now, microseconds.
        rendered_micros: u64,
        /// Bricks that it needed for the attempt until now.
        bricks: BrickAccesses,
    },
    /// A tile that is none.
    #[serde(skip)]
    BadTile,
    /// The sender gave jobs to another peer.
    Given {
        /// The plan.
        plan: Digest,
        /// Jobs of the plan.
        jobs: Vec<u32>,
        /// Who has them now.
        by: PeerId,
    },
    /// The sender does not have what the request names.
    NeedInputs,
    /// The sender composites tiles and lacks parts of them.
    Lacking {
        /// The plan.
        plan: Digest,
        /// Jobs of the plan, of which some part did not come.
        jobs: Vec<u32>,
    },
    /// The sender cannot do its part.
    Failed {
        /// Why, for people.
        why: String,
    },
    /// The sender has no room for the frame now.
    Busy,
    /// The sender cannot work with another peer.
    Complaint {
        /// The peer.
        about: PeerId,
        /// Why.
        what: Complaint,
    },
}

/// Why a peer cannot work with another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Complaint {
    /// It followed another plan.
    AnotherPlan,
    /// It sent pixels that cannot be combined; what was wrong with them, for people.
    Refused(String),
    /// It cannot be reached, and composites.
    Unreachable,
}

/// What the frames are told.
#[derive(Clone, Debug)]
pub enum FramesInput {
    /// A frame is wanted.
    Ask {
        /// Its number; no other frame had it.
        number: u64,
        /// The data set.
        data_set: Digest,
        /// How it is planned, and how costs are learnt from it.
        rules: PlanRules,
    },
    /// A frame is not wanted any more, or cannot be planned.
    Forget(u64),
    /// The plans that were asked for ([`FramesOutput::Plan`]).
    Planned(FrameId, Vec<Arc<FramePlan>>),
    /// Who could take part in frames of a data set now.
    Candidates(Digest, Vec<Candidate>),
    /// A data set is not held any more.
    Closed(Digest),
    /// A peer cannot be reached, or is suspected.
    Lost(PeerId),
    /// A message of a peer.
    Said(PeerId, FrameId, FrameMessage),
    /// The time of a [`FramesOutput::Wake`] has come.
    Due {
        /// Of this frame.
        number: u64,
        /// The time that was named.
        at: u64,
    },
}

/// What the requester says to peers of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameOrder {
    /// A roster that a request will name.
    Roster(Named<Roster>),
    /// A cost table that a request will name.
    Costs(Named<CostTable>),
    /// Do your part of this attempt.
    Begin(Arc<AttemptRequest>),
    /// An attempt is over.
    Cancel {
        /// Which.
        frame: FrameId,
        /// The frame is, too: it will not be asked for again.
        is_over: bool,
    },
    /// Tiles of the receiver are missing: what does it lack?
    TilesDue {
        /// Of this attempt.
        frame: FrameId,
    },
}

/// What the frames want done, in this order. A plan is derived and told in its turn; nothing else is told
/// before all is done.
#[derive(Clone, Debug, PartialEq)]
pub enum FramesOutput {
    /// Derive a plan of an attempt from each of these, of which one will be taken, and say [`FramesInput::Planned`], or
    /// [`FramesInput::Forget`] where there is none.
    Plan(FrameId, Vec<AttemptInputs>),
    /// An attempt begins by this one of its plans. What came of earlier attempts' tiles is void.
    Begin(FrameId, Arc<FramePlan>),
    /// Say this to a peer.
    Send(PeerId, FrameOrder),
    /// Take the tile that was spoken of last into the picture.
    Take(FrameId),
    /// Say [`FramesInput::Due`] then, microseconds; an earlier one for this frame is void.
    Wake {
        /// The frame.
        number: u64,
        /// When.
        at: u64,
    },
    /// An attempt has more time, for the log.
    Prolonged(FrameId, Why),
    /// An attempt failed by these peers, or by nobody's fault, and another one follows, for the log.
    AskedAgain(FrameId, BTreeSet<PeerId>, Why),
    /// These peers did not do their part.
    Late(BTreeSet<PeerId>),
    /// A frame has ended.
    Ended(Box<EndedFrame>),
}

/// Why an attempt at a frame has failed, or takes longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Something did not come in time: within so many microseconds.
    NoAnswer(u64),
    /// A peer was lost.
    Lost,
    /// A tile was no picture of its size.
    BadTile,
    /// A peer followed another plan than the requester.
    AnotherPlan,
    /// A peer has no room for the frame.
    Busy(PeerId),
    /// A peer complained of this one.
    Complaint(PeerId, Complaint),
    /// All jobs are said to be done, and tiles are missing.
    TilesMissing,
    /// A peer said so.
    Said(PeerId, String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(micros) => {
                write!(f, "no answer within {:?}", Duration::from_micros(*micros))
            }
            Self::Lost => f.write_str("a peer was lost"),
            Self::BadTile => f.write_str("a tile of a wrong length, or not finite"),
            Self::AnotherPlan => f.write_str("a peer followed another plan"),
            Self::Busy(peer) => write!(f, "{} has no room for it now", peer.short()),
            Self::Complaint(peer, what) => {
                let peer = peer.short();
                match what {
                    Complaint::AnotherPlan => write!(f, "{peer} followed another plan"),
                    Complaint::Refused(why) => {
                        write!(f, "pixels of {peer} cannot be blended: {why}")
                    }
                    Complaint::Unreachable => write!(f, "{peer} cannot be reached by another peer"),
                }
            }
            Self::TilesMissing => {
                f.write_str("tiles are missing though all jobs are said to be done")
            }
            Self::Said(peer, why) => write!(f, "{}: {why}", peer.short()),
        }
    }
}

/// How a frame ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    /// All of its tiles are there.
    Whole,
    /// Nobody holds anything of its data set, and no attempt at it was made that failed.
    NobodyHolds,
    /// Attempts are used up, or nobody is left for another one.
    GaveUp {
        /// Tiles and job times still awaited.
        awaited: usize,
        /// What went wrong last.
        why: Why,
    },
}

/// A frame that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedFrame {
    /// Its number.
    pub number: u64,
    /// How it ended.
    pub end: FrameEnd,
    /// Attempts before the last one.
    pub attempts_before: u32,
    /// Peers that failed it: the last attempt did without them, where no brick was missing for that.
    pub left_out: BTreeSet<PeerId>,
    /// From when it was asked for, microseconds.
    pub total_micros: u64,
    /// The last attempt's plan, if one was under way.
    pub plan: Option<Arc<FramePlan>>,
    /// By job of that plan: the index of the peer that rendered it, and the time it took there,
    /// microseconds; 0: nobody would have seen it.
    pub measured: BTreeMap<u32, (usize, u64)>,
    /// Bricks that each peer needed, by its index in that plan.
    pub accesses: BTreeMap<usize, BrickAccesses>,
    /// How long it was expected to take by a divided volume and by a divided picture, microseconds, where one was to be chosen.
    pub forecasts: Vec<u64>,
}

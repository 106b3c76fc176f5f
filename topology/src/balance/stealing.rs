//! Work stealing inside a frame: a peer that is done takes jobs, of bricks that it holds too,
//! from peers that are not. It complements the schedule where the prediction was wrong.
//!
//! [`Work`] is one peer's side of one frame, as thief and as victim: a pure state machine, run by
//! actors and by the simulator. A job is in exactly one queue, or being rendered, or in one grant
//! on its way; so none is rendered twice, whatever message is late, lost, doubled or reordered:
//! - a thief has one question open at a time, asks it again until it is answered, and never gives
//!   it up while the frame lasts;
//! - a victim remembers its last answer to each thief by the question's number, and answers a
//!   question that comes again with the same bytes.
//!
//! None is lost either, as long as thief and victim live; when one dies, the requester asks for the
//! frame again without it (`frame_requests`).
//!
//! Who is done asks only where the plan says that something is left, or where a late peer has
//! offered: in a frame that goes as planned nobody says a word. Plans know how long bricks take to be read only from frames before: who
//! waits for them offers jobs while it does.
//!
//! Where tiles are shared out by a queue ([`FramePlan::keeper`]), its keeper takes the next tile when nothing else waits there, and gives one at a time to
//! who asks. Once the queue is empty, who is late with its last tile offers jobs of that as ever.
//!
//! Costs are whole microseconds. Peers are indices into the roster of the frame's plan.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, section 4: work stealing, here held to bricks that the
//! thief holds, receiver-initiated ([`StealMessage::Ask`]) and sender-initiated
//! ([`StealMessage::Offer`]).

use crate::balance::{
    frame_plan::{FramePlan, PlannedJob},
    prediction::Work as Done,
    schedule::cost_on,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// What a steal must save to be worth its messages, microseconds.
pub const GAIN_MICROS_MIN: u64 = 2_000;
/// Questions without success before a thief waits to be offered something.
const REFUSALS_MAX: usize = 3;
/// Peers that a late peer offers jobs to at a time.
const OFFERS_MAX: usize = 3;
/// How long a late peer that waits for bricks waits before it offers jobs again, microseconds: the first thieves did not
/// know how late it would be.
const OFFER_AGAIN_MICROS: u64 = 200_000;
/// Who has waited so long is thought to be slower than others, microseconds.
const WAITED_MICROS_LONG: u64 = 1_000_000;
/// A peer is late when it will take longer than planned by this many thousandths.
const LATE_THOUSANDTHS: u64 = 1_100;
/// Paces are kept between a thousandth and a thousand times what was expected, in thousandths: the
/// first frame's costs are guesses.
const PACE_BOUNDS: (u64, u64) = (1, 1_000_000);

/// What thieves and victims say to each other within a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StealMessage {
    /// The sender has nothing left to do: may it have jobs?
    Ask {
        /// Number of the question among those of this thief in this frame.
        question: u32,
        /// Time that the thief took over what was expected, in thousandths.
        pace: u64,
    },
    /// Answer: these jobs are the thief's now; none: the victim keeps what it has.
    Grant {
        /// The question.
        question: u32,
        /// Jobs of the plan.
        jobs: Vec<u32>,
    },
    /// The sender will be late: whoever is done may ask.
    Offer,
}

/// What follows from an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StealOutput {
    /// Tell a peer.
    Send {
        /// The peer.
        to: usize,
        /// What it is told.
        message: StealMessage,
    },
    /// These jobs are another peer's now: tell the requester.
    Given {
        /// Jobs of the plan.
        jobs: Vec<u32>,
        /// Who renders them.
        by: usize,
    },
}

/// One peer's work in one frame; see the module.
#[derive(Clone, Debug)]
pub struct Work {
    me: usize,
    steal: bool,
    /// What each job of the plan still costs on a device of speed 1.
    costs: Vec<u64>,
    holders: Arc<Vec<Vec<usize>>>,
    /// Who was to render each job.
    renderers: Vec<Option<usize>>,
    /// The speed of each peer, with which jobs take as long as is expected, waiting for bricks included.
    effective_speeds: Vec<u64>,
    /// What each peer was planned to take.
    loads: Vec<u64>,
    /// When all of them were to be done, microseconds.
    planned_micros: u64,
    /// Who hands out tiles one by one.
    keeper: Option<usize>,
    /// Where that is this peer: jobs of the tiles that nobody has yet, tile by tile.
    unclaimed: VecDeque<Vec<u32>>,
    /// Jobs to render, front to back.
    queue: VecDeque<u32>,
    /// Jobs whose bricks are not in device memory yet, front to back.
    parked: VecDeque<u32>,
    /// By job: whether it waits or is rendered here.
    to_come: Vec<bool>,
    /// What these cost here, microseconds: jobs may be many, and this is asked for after each.
    to_come_micros: u128,
    /// Jobs that the device has on hand, in its order.
    running: VecDeque<u32>,
    done: Done,
    /// Number of the last question, and whom it was put to while it is open.
    question: u32,
    asked: Option<usize>,
    /// Victims that gave nothing and have not offered since.
    refused: BTreeSet<usize>,
    /// Peers that have offered, and were not asked since.
    late: BTreeSet<usize>,
    /// The last answer to each thief.
    answers: BTreeMap<usize, (u32, Vec<u32>)>,
    /// Peers that cannot be reached any more.
    lost: BTreeSet<usize>,
    /// What was spent waiting for bricks while nothing could be rendered, microseconds.
    waited_micros: u64,
    /// What the job that was awaited last should have taken here, microseconds.
    awaited_micros: u64,
    /// `waited_micros` when this peer offered jobs last.
    offered_at: Option<u64>,
    /// How often it did.
    offers: usize,
}

impl Work {
    /// The work that a plan gives to peer `me`; `steal`: whether jobs may change hands.
    #[must_use]
    pub fn new(plan: &FramePlan, me: usize, steal: bool) -> Self {
        let mine = plan.jobs.iter().zip(0_u32..);
        let none = vec![false; plan.jobs.len()];
        let mine = mine.filter(|(j, _)| j.renderer == Some(me));
        let mine: Vec<u32> = mine.map(|(_, i)| i).collect();
        let steal = steal && plan.peers.len() > 1;
        let keeper = plan.keeper.filter(|_| steal);
        let (queue, unclaimed) = if keeper == Some(me) {
            (VecDeque::new(), tile_by_tile(plan, &mine))
        } else {
            (mine.iter().copied().collect(), VecDeque::new())
        };
        let mut work = Self {
            to_come: none,
            to_come_micros: 0,
            me,
            steal,
            keeper,
            unclaimed,
            costs: plan.jobs.iter().map(PlannedJob::cost_micros).collect(),
            holders: Arc::clone(&plan.holders),
            renderers: plan.jobs.iter().map(|j| j.renderer).collect(),
            effective_speeds: plan.effective_speeds.clone(),
            loads: plan.schedule.loads_micros.clone(),
            planned_micros: match keeper {
                Some(_) => plan.schedule.makespan_micros,
                None => plan
                    .schedule
                    .loads_micros
                    .iter()
                    .copied()
                    .max()
                    .unwrap_or(0),
            },
            queue,
            parked: VecDeque::new(),
            running: VecDeque::new(),
            done: Done::default(),
            question: 0,
            asked: None,
            refused: BTreeSet::new(),
            late: BTreeSet::new(),
            answers: BTreeMap::new(),
            lost: BTreeSet::new(),
            waited_micros: 0,
            awaited_micros: 0,
            offered_at: None,
            offers: 0,
        };
        work.set_to_come(&mine, true);
        work
    }

    /// Takes the next tile of the queue of tiles, where this peer keeps it and nothing else waits here; false: it does not.
    pub fn take_tile(&mut self) -> bool {
        let is_next = self.queue.is_empty() && self.parked.is_empty();
        let tile = is_next.then(|| self.unclaimed.pop_front()).flatten();
        self.queue.extend(tile.iter().flatten());
        tile.is_some()
    }

    /// Takes the next job to render, front to back; `None`: nothing is left here.
    pub fn next_job(&mut self) -> Option<u32> {
        let job = self.queue.pop_front()?;
        self.running.push_back(job);
        Some(job)
    }

    /// Takes one of the jobs that wait and can be rendered; false: it does not.
    pub fn take(&mut self, job: u32) -> bool {
        let at = self.queue.binary_search(&job);
        let taken = at.ok().and_then(|at| self.queue.remove(at));
        self.running.extend(taken);
        taken.is_some()
    }

    /// The jobs that wait and can be rendered, front to back.
    pub fn queued(&self) -> impl Iterator<Item = u32> + '_ {
        self.queue.iter().copied()
    }

    /// What the jobs that wait or are rendered here take, microseconds, waiting for bricks included.
    #[must_use]
    pub fn to_come_micros(&self) -> u64 {
        u64::try_from(self.to_come_micros).unwrap_or(u64::MAX)
    }

    /// The job that is taken next.
    #[must_use]
    pub fn first_job(&self) -> Option<u32> {
        self.queue.front().copied()
    }

    /// Sets those aside of the jobs that wait whose bricks are not in device memory.
    pub fn park(&mut self, is_here: impl Fn(u32) -> bool) {
        let (queue, parked) = self.queue.drain(..).partition(|&j| is_here(j));
        self.queue = queue;
        self.parked.extend::<VecDeque<u32>>(parked);
        self.parked.make_contiguous().sort_unstable();
    }

    /// Of the jobs that were set aside these can be rendered now; `jobs` ascend.
    pub fn unpark(&mut self, jobs: &[u32]) {
        for &job in jobs {
            if let Ok(at) = self.parked.binary_search(&job) {
                self.parked.remove(at);
                let at = self.queue.partition_point(|&j| j < job);
                self.queue.insert(at, job);
            }
        }
    }

    /// Jobs that are set aside.
    pub fn parked(&self) -> impl Iterator<Item = u32> + '_ {
        self.parked.iter().copied()
    }

    /// Whether jobs wait that can be rendered here.
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether jobs wait or are rendered here.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.has_jobs()
            || !self.running.is_empty()
            || !self.parked.is_empty()
            || !self.unclaimed.is_empty()
    }

    /// Whether nothing can be rendered here before bricks come; `begun` of the jobs that were taken wait for some, too.
    #[must_use]
    pub fn waits_for_bricks(&self, begun: usize) -> bool {
        let waits = begun > 0 || !self.parked.is_empty();
        !self.has_jobs() && self.running.len() == begun && waits
    }

    /// Whether a job waits or is rendered here.
    #[must_use]
    pub fn is_to_come(&self, job: u32) -> bool {
        self.to_come.get(job as usize).copied().unwrap_or(false)
    }

    /// The jobs that wait or are rendered here.
    pub fn all_jobs(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.running.iter().chain(&self.queue).chain(&self.parked);
        all.copied()
    }

    /// A job that was taken is rendered. Says so to others where this peer turns out to be late.
    pub fn job_done(&mut self, job: u32, measured_micros: u64, out: &mut Vec<StealOutput>) {
        self.running.retain(|&j| j != job);
        self.set_to_come(&[job], false);
        let expected = self.cost(job, self.me);
        self.done.expected_micros = self.done.expected_micros.saturating_add(expected);
        self.done.measured_micros = self.done.measured_micros.saturating_add(measured_micros);
        self.offer_if_late(out);
    }

    /// Nothing could be rendered for so long: bricks are awaited. That counts as time that this peer's jobs take. Says so to
    /// others where this peer turns out to be late.
    pub fn waited(&mut self, micros: u64, out: &mut Vec<StealOutput>) {
        self.done.measured_micros = self.done.measured_micros.saturating_add(micros);
        self.waited_micros = self.waited_micros.saturating_add(micros);
        if let Some(&first) = self.parked.front() {
            self.awaited_micros = self.cost(first, self.me);
        }
        let again = |then: &u64| self.waited_micros.saturating_sub(*then) >= OFFER_AGAIN_MICROS;
        self.offered_at.take_if(|then| again(then));
        self.offer_if_late(out);
    }

    /// Time that rendering took here until now, microseconds.
    #[must_use]
    pub fn rendered_micros(&self) -> u64 {
        (self.done.measured_micros).saturating_sub(self.waited_micros)
    }

    /// A job is not rendered: nobody would see it. False: it does not wait here.
    pub fn skip(&mut self, job: u32) -> bool {
        let waits = [&mut self.queue, &mut self.parked].map(|jobs| {
            let at = jobs.binary_search(&job);
            at.is_ok_and(|at| jobs.remove(at).is_some())
        });
        let waits = waits.contains(&true);
        if waits {
            self.set_to_come(&[job], false);
        }
        waits
    }

    /// The jobs that wait here.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.queue.iter().chain(&self.parked).copied()
    }

    /// Nothing is left to render here, of any frame: of the peers that are late or should have
    /// something left, asks the one that was given most.
    pub fn idle(&mut self, out: &mut Vec<StealOutput>) {
        if !self.steal || self.asked.is_some() || self.is_busy() {
            return;
        }
        if self.refused.len() >= REFUSALS_MAX {
            return;
        }
        let peers = self.loads.len();
        let promising = self.promising();
        let worth = |v: &usize| {
            *v != self.me
                && !self.refused.contains(v)
                && !self.lost.contains(v)
                && (self.late.contains(v) || promising[*v] || self.keeper == Some(*v))
        };
        // Thieves start at different peers where loads are alike.
        let turn = |v: usize| (v + peers - self.me) % peers;
        let victim = (0..peers)
            .filter(worth)
            .max_by_key(|&v| (self.loads[v], std::cmp::Reverse(turn(v))));
        if let Some(victim) = victim {
            self.ask(victim, out);
        }
    }

    /// Takes a message of another peer.
    pub fn heard(&mut self, from: usize, message: &StealMessage, out: &mut Vec<StealOutput>) {
        if !self.steal || from == self.me || from >= self.effective_speeds.len() {
            return;
        }
        match message {
            StealMessage::Ask { question, pace } => self.answer(from, *question, *pace, out),
            StealMessage::Grant { question, jobs } => self.granted(from, *question, jobs, out),
            StealMessage::Offer => {
                self.refused.remove(&from);
                self.late.insert(from);
                if self.asked.is_none() && !self.is_busy() {
                    self.ask(from, out);
                }
            }
        }
    }

    /// Time went by without an answer: the open question is put again.
    pub fn tick(&mut self, out: &mut Vec<StealOutput>) {
        if let Some(to) = self.asked {
            let message = self.open_question();
            out.push(StealOutput::Send { to, message });
        }
    }

    /// A peer cannot be reached any more: it is neither asked nor offered anything. An open
    /// question to it stays open, as its answer may be on the way: given up, the jobs in it would
    /// be nobody's.
    pub fn lost(&mut self, peer: usize) {
        self.lost.insert(peer);
    }

    /// Cost of a job on a peer, microseconds.
    fn cost(&self, job: u32, peer: usize) -> u64 {
        let cost = self.costs.get(job as usize).copied().unwrap_or(0);
        cost_on(cost, self.effective_speeds[peer])
    }

    /// Time over expected time of what was rendered here, waiting for bricks among it, in thousandths.
    fn pace(&self) -> u64 {
        let Done {
            expected_micros,
            measured_micros,
        } = self.done;
        let expected_micros = match expected_micros {
            // The first one is awaited still, or somebody else's now.
            0 => self.awaited_micros,
            some => some,
        };
        if expected_micros == 0 {
            return 1000;
        }
        let pace = u128::from(measured_micros) * 1000 / u128::from(expected_micros);
        u64::try_from(pace)
            .unwrap_or(u64::MAX)
            .clamp(PACE_BOUNDS.0, PACE_BOUNDS.1)
    }

    /// What is still to be done here, at the pace so far; the job that is being rendered counts half.
    fn left(&self) -> u64 {
        let first = (self.running.front()).map_or(0, |&job| self.cost(job, self.me));
        // Who is granted a job that is rendered here already has it twice.
        let left = (self.to_come_micros).saturating_sub(u128::from(first - first / 2));
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        left.saturating_mul(self.pace()) / 1000
    }

    /// By peer: whether one that is as far as this one has a job waiting, if all went as planned there,
    /// that would be worth having.
    fn promising(&self) -> Vec<bool> {
        // Whoever was faster than planned may be the only one: others have as much left as if it had
        // not been.
        let elapsed = self.done.expected_micros.min(self.done.measured_micros);
        let pace = self.pace();
        let mut begins = vec![0_u64; self.loads.len()];
        let mut promising = vec![false; self.loads.len()];
        for (job, renderer) in (0_u32..).zip(&self.renderers) {
            let Some(victim) = *renderer else {
                continue;
            };
            let left = self.loads[victim].saturating_sub(elapsed);
            if left < GAIN_MICROS_MIN || promising[victim] {
                continue;
            }
            let waits = begins[victim] > elapsed;
            let there = self.cost(job, victim);
            begins[victim] = begins[victim].saturating_add(there);
            if waits && self.holds(self.me, job) {
                let here = self.cost(job, self.me).saturating_mul(pace) / 1000;
                let after = here.max(left.saturating_sub(there));
                promising[victim] = after.saturating_add(GAIN_MICROS_MIN) <= left;
            }
        }
        promising
    }

    fn holds(&self, peer: usize, job: u32) -> bool {
        let holders = self.holders.get(job as usize);
        holders.is_some_and(|h| h.binary_search(&peer).is_ok())
    }

    fn ask(&mut self, victim: usize, out: &mut Vec<StealOutput>) {
        self.late.remove(&victim);
        self.question += 1;
        self.asked = Some(victim);
        let message = self.open_question();
        out.push(StealOutput::Send {
            to: victim,
            message,
        });
    }

    fn open_question(&self) -> StealMessage {
        StealMessage::Ask {
            question: self.question,
            pace: self.pace(),
        }
    }

    fn answer(&mut self, thief: usize, question: u32, pace: u64, out: &mut Vec<StealOutput>) {
        let last = self.answers.get(&thief);
        let jobs = match last {
            // An old question that was late: its answer was acted upon before the next was put.
            Some((number, _)) if *number > question => return,
            Some((number, jobs)) if *number == question => jobs.clone(),
            _ => {
                let jobs = self.give(thief, pace.clamp(PACE_BOUNDS.0, PACE_BOUNDS.1));
                if !jobs.is_empty() {
                    let given = StealOutput::Given {
                        jobs: jobs.clone(),
                        by: thief,
                    };
                    out.push(given);
                }
                self.answers.insert(thief, (question, jobs.clone()));
                jobs
            }
        };
        let message = StealMessage::Grant { question, jobs };
        out.push(StealOutput::Send { to: thief, message });
    }

    /// Takes jobs out of the queue for a thief, from the back, while that ends the work of both
    /// earlier; first of those whose bricks have yet to come.
    fn give(&mut self, thief: usize, pace: u64) -> Vec<u32> {
        if !self.unclaimed.is_empty() {
            return self.give_tile(thief);
        }
        let (here, mut left) = (self.pace(), self.left());
        let mut thief_time = 0;
        let mut given = Vec::new();
        // The thief may have to read bricks, too, and has not waited for them yet.
        let awaits = self.waited_micros < WAITED_MICROS_LONG;
        let reading = if awaits { pace.max(here) } else { pace };
        let queues = [
            (reading, std::mem::take(&mut self.parked)),
            (pace, std::mem::take(&mut self.queue)),
        ];
        let [parked, queue] = queues.map(|(pace, mut queue)| {
            self.give_of(
                &mut queue,
                (thief, [here, pace]),
                (&mut thief_time, &mut left),
                &mut given,
            );
            queue
        });
        (self.parked, self.queue) = (parked, queue);
        given.sort_unstable();
        self.set_to_come(&given, false);
        given
    }

    /// The next tile of the queue that the thief may render all of: what was rendered here in an earlier attempt stays.
    fn give_tile(&mut self, thief: usize) -> Vec<u32> {
        let may_render = |jobs: &Vec<u32>| jobs.iter().all(|&j| self.holds(thief, j));
        let at = self.unclaimed.iter().position(may_render);
        let given = at.and_then(|at| self.unclaimed.remove(at));
        let given = given.unwrap_or_default();
        self.set_to_come(&given, false);
        given
    }

    fn set_to_come(&mut self, jobs: &[u32], is_to_come: bool) {
        for &job in jobs {
            let cost = u128::from(self.cost(job, self.me));
            match self.to_come.get_mut(job as usize) {
                Some(of_job) if *of_job != is_to_come => {
                    *of_job = is_to_come;
                    if is_to_come {
                        self.to_come_micros += cost;
                    } else {
                        self.to_come_micros -= cost;
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes jobs out of one queue; `thief_time`, `left`: what is to be done there, and here.
    fn give_of(
        &self,
        queue: &mut VecDeque<u32>,
        (thief, [pace_here, pace]): (usize, [u64; 2]),
        (thief_time, left): (&mut u64, &mut u64),
        given: &mut Vec<u32>,
    ) {
        let mut kept = VecDeque::new();
        while let Some(job) = queue.pop_back() {
            let on_thief = self.cost(job, thief).saturating_mul(pace) / 1000;
            let here = self.cost(job, self.me).saturating_mul(pace_here) / 1000;
            let after = thief_time
                .saturating_add(on_thief)
                .max(left.saturating_sub(here));
            let worth = after.saturating_add(GAIN_MICROS_MIN) <= (*left).max(*thief_time);
            if worth && self.holds(thief, job) {
                *thief_time = thief_time.saturating_add(on_thief);
                *left = left.saturating_sub(here);
                given.push(job);
            } else {
                kept.push_front(job);
            }
        }
        *queue = kept;
    }

    fn granted(&mut self, victim: usize, question: u32, jobs: &[u32], out: &mut Vec<StealOutput>) {
        // Only the answer to the open question counts, once.
        if self.asked != Some(victim) || self.question != question {
            return;
        }
        self.asked = None;
        // A victim that errs about what is held here breaks the protocol; the frame's deadline
        // brings those jobs back.
        let held = |j: &u32| self.holds(self.me, *j);
        let mut jobs: Vec<u32> = jobs.iter().copied().filter(held).collect();
        jobs.retain(|j| self.parked.binary_search(j).is_err());
        if jobs.is_empty() {
            self.refused.insert(victim);
            self.idle(out);
            return;
        }
        self.refused.clear();
        self.set_to_come(&jobs, true);
        jobs.extend(self.queue.drain(..));
        jobs.sort_unstable();
        jobs.dedup();
        self.queue = jobs.into();
    }

    /// Offers jobs when this peer will end later than planned for anybody: once a frame, and again while it waits for bricks.
    fn offer_if_late(&mut self, out: &mut Vec<StealOutput>) {
        // As long as there are tiles that nobody has, others ask for them.
        let is_said = self.offered_at.is_some() || !self.unclaimed.is_empty();
        if !self.steal || is_said || self.queue.is_empty() && self.parked.is_empty() {
            return;
        }
        let end = self.done.measured_micros.saturating_add(self.left());
        let planned = self.planned_micros;
        let late = end.saturating_mul(1000) > planned.saturating_mul(LATE_THOUSANDTHS);
        if !late || end < planned.saturating_add(GAIN_MICROS_MIN) {
            return;
        }
        self.offered_at = Some(self.waited_micros);
        let offers = self.offers;
        self.offers += 1;
        let mut able: Vec<usize> = self
            .waiting()
            .flat_map(|j| self.holders[j as usize].iter().copied())
            .filter(|&p| p != self.me && !self.lost.contains(&p))
            .collect();
        able.sort_unstable();
        able.dedup();
        // Those with the least to do are done first.
        able.sort_by_key(|&p| (self.loads[p], p));
        // Others have their turn where the first ones do not help.
        let turn = OFFERS_MAX * offers % able.len().max(1);
        able.rotate_left(turn);
        for to in able.into_iter().take(OFFERS_MAX) {
            out.push(StealOutput::Send {
                to,
                message: StealMessage::Offer,
            });
        }
    }
}

/// Jobs of a plan that wait for who asks, by their tiles.
fn tile_by_tile(plan: &FramePlan, jobs: &[u32]) -> VecDeque<Vec<u32>> {
    let mut tiles: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for &job in jobs {
        let mut of_job = plan.tile_jobs.of_job(job as usize);
        let tile = of_job.next().map_or(0, |(tile, ..)| tile);
        tiles.entry(tile).or_default().push(job);
    }
    tiles.into_values().collect()
}

#[cfg(test)]
mod tests;

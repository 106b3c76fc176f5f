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
        frame_requests::{BrickAccesses, FrameMessage},
        image::Image,
        occlusion::OcclusionMap,
        outgoing::{Batch, Outgoing},
    },
    picture::camera::PixelRect,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Whether the brick of a job of a frame is in device memory, or what was rendered of the job is kept.
fn is_here<I: Image>(
    (data_set, key): (Digest, &FrameKey),
    job: &PlannedJob,
    bricks: &DeviceBricks,
    cache: &RenderCache<I>,
) -> bool {
    let may_be_kept = key.1.attempt > 0 || job.content.is_some();
    bricks.is_here((data_set, job.brick)) || may_be_kept && cache.has(key, job)
}

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
    /// What is behind the jobs that were rendered here, where pixels hide what is behind them.
    occlusion: Option<OcclusionMap>,
    /// Jobs that compositors say are hidden, and in which tile.
    hidden: BTreeSet<(u32, usize)>,
    /// Jobs of bricks that are not held, rendered or not.
    unheld: BTreeMap<BrickIndex, Vec<u32>>,
    /// Bricks that jobs here needed, as they were then, and which these are.
    accesses: BrickAccesses,
    accessed: BTreeSet<BrickIndex>,
    /// Those of them that were missed, and did not come yet.
    missed: BTreeSet<BrickIndex>,
    /// Bricks to ask for, in that order; and whether those that are in memory still come first.
    to_ask: VecDeque<BrickIndex>,
    are_kept_first: bool,
    /// Bricks that cannot be had.
    in_vain: BTreeSet<BrickIndex>,
    /// Jobs whose own bricks are not needed any more, as their rays go on through others; what they took until now, microseconds.
    unlit: BTreeMap<u32, u64>,
    /// Since when it waits for bricks, as far as that is not counted, and what it had rendered by then; microseconds.
    waits_since: Option<(u64, u64)>,
    /// Since when it is the first frame here and has bricks to come, as far as that is not counted, and what the device had rendered by
    /// then; microseconds.
    reads_since: Option<(u64, u64)>,
    /// How long that was, and how long the device rendered meanwhile, microseconds.
    reads: (u64, u64),
    /// The requester knows that it has waited so long, microseconds.
    told_waited: u64,
}

/// Waiting that is told though nothing was rendered, microseconds.
const TOLD_MICROS: u64 = 100_000;

impl<F: AsRef<FramePlan>, I: Image> ActiveFrame<F, I> {
    pub(super) fn new(
        (key, data_set): (FrameKey, Digest),
        since: u64,
        me: usize,
        frame: Arc<F>,
        work: Work,
    ) -> Self {
        let plan = (*frame).as_ref();
        let picture = plan
            .tiles
            .iter()
            .map(|t| t.rect)
            .reduce(|a, b| a.around(&b));
        Self {
            key,
            data_set,
            occlusion: picture
                .zip(plan.opaque)
                .map(|(rect, opaque)| OcclusionMap::new(rect, opaque)),
            frame,
            since,
            me,
            work,
            outgoing: Outgoing::default(),
            hidden: BTreeSet::new(),
            unheld: BTreeMap::new(),
            accesses: BrickAccesses::default(),
            accessed: BTreeSet::new(),
            missed: BTreeSet::new(),
            to_ask: VecDeque::new(),
            are_kept_first: false,
            in_vain: BTreeSet::new(),
            unlit: BTreeMap::new(),
            waits_since: None,
            reads_since: None,
            reads: (0, 0),
            told_waited: 0,
        }
    }

    /// Looks which jobs can be done: those whose bricks are in device memory, or that were rendered before. Others wait.
    pub(super) fn look_for_bricks(&mut self, bricks: &DeviceBricks, cache: &RenderCache<I>) {
        let (data_set, plan) = (self.data_set, (*self.frame).as_ref());
        let brick_of = |job: u32| plan.jobs[job as usize].brick;
        let name = (data_set, &self.key);
        let is_here = |job: u32| is_here(name, &plan.jobs[job as usize], bricks, cache);
        self.work.park(is_here);
        let came: Vec<u32> = self.work.parked().filter(|&j| is_here(j)).collect();
        self.work.unpark(&came);
        self.unheld.clear();
        for job in self.work.all_jobs() {
            let brick = brick_of(job);
            let name = (data_set, brick);
            let is_held = bricks.is_held(name);
            if !is_held {
                self.unheld.entry(brick).or_default().push(job);
            }
            if bricks.is_in_memory(name) && self.accessed.insert(brick) {
                // What is here and not held, another frame needs, too.
                let accesses = &mut self.accesses;
                let count = if is_held {
                    &mut accesses.held
                } else {
                    &mut accesses.cached
                };
                *count += 1;
            }
        }
        let mut seen = BTreeSet::new();
        // Those of jobs that were put aside among them.
        let waiting = self.work.all_jobs();
        let waiting = waiting.filter(|&j| !is_here(j) && !self.unlit.contains_key(&j));
        let waiting = waiting.map(brick_of);
        let wanted = waiting.filter(|b| !self.in_vain.contains(b) && seen.insert(*b));
        self.to_ask = wanted.collect();
        self.are_kept_first = false;
    }

    /// Before the first brick is asked for: those come first that are in memory still. Not earlier, as others take their room
    /// while frames that were begun before ask for theirs.
    pub(super) fn put_kept_first(&mut self, bricks: &DeviceBricks) {
        if !std::mem::replace(&mut self.are_kept_first, true) {
            let is_kept = |b: &BrickIndex| bricks.is_kept((self.data_set, *b));
            let (kept, others): (Vec<_>, Vec<_>) = self.to_ask.drain(..).partition(is_kept);
            self.to_ask = kept.into_iter().chain(others).collect();
        }
    }

    /// Takes the next tile, where this peer keeps a queue of them and has nothing else of the frame waiting; false: it does not.
    pub(super) fn take_tile(&mut self, bricks: &DeviceBricks, cache: &RenderCache<I>) -> bool {
        let is_taken = self.work.take_tile();
        if is_taken {
            self.look_for_bricks(bricks, cache);
        }
        is_taken
    }

    /// Whether what a job needs is here.
    pub(super) fn is_here(
        &self,
        job: &PlannedJob,
        bricks: &DeviceBricks,
        cache: &RenderCache<I>,
    ) -> bool {
        is_here((self.data_set, &self.key), job, bricks, cache)
    }

    /// The next brick to be asked for.
    pub(super) fn next_brick(&self) -> Option<BrickIndex> {
        self.to_ask.front().copied()
    }

    /// It was asked for; `is_cached`: it was in memory, or on its way.
    pub(super) fn asked(&mut self, is_cached: bool) {
        if let Some(brick) = self.to_ask.pop_front() {
            self.accesses(brick, is_cached);
        }
    }

    /// A brick was asked for.
    pub(super) fn accesses(&mut self, brick: BrickIndex, is_cached: bool) {
        if self.accessed.insert(brick) {
            if is_cached {
                self.accesses.cached += 1;
            } else {
                self.accesses.missed += 1;
                self.missed.insert(brick);
            }
        }
    }

    /// A job that goes to the device acquired so many bricks.
    pub(super) fn acquired(&mut self, bricks: usize) {
        let bricks = u32::try_from(bricks).unwrap_or(u32::MAX);
        self.accesses.acquired = self.accesses.acquired.saturating_add(bricks);
    }

    /// A brick was to be asked for, and is not needed any more.
    pub(super) fn not_asked(&mut self) {
        self.to_ask.pop_front();
    }

    /// A brick of so many bytes is in device memory.
    pub(super) fn came(&mut self, brick: BrickIndex, bytes: u64) {
        if self.missed.remove(&brick) {
            self.accesses.missed_bytes = self.accesses.missed_bytes.saturating_add(bytes);
        }
        if let Some(jobs) = self.unheld.get(&brick) {
            self.work.unpark(jobs);
        }
    }

    /// A brick that was in memory still made room for another one.
    pub(super) fn evicts(&mut self) {
        self.accesses.evicted = self.accesses.evicted.saturating_add(1);
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
        let is_stuck = self.work.waits_for_bricks(0) && parked.all(|b| self.in_vain.contains(&b));
        is_stuck.then_some(first)
    }

    /// Whether a job that is not rendered yet needs a brick that is not held.
    pub(super) fn needs(&self, brick: BrickIndex) -> bool {
        let is_to_come = |j: &u32| self.work.is_to_come(*j) && !self.unlit.contains_key(j);
        let jobs = self.unheld.get(&brick);
        jobs.is_some_and(|jobs| jobs.iter().any(is_to_come))
    }

    /// The rays of a job, on which the device was so many microseconds, are to go on through other bricks than its own.
    pub(super) fn is_unlit(&mut self, job: u32, micros: u64) {
        *self.unlit.entry(job).or_default() += micros;
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

    /// Whether rays go on from what its jobs show.
    pub(super) fn sends_rays(&self) -> bool {
        !self.plan().casters.is_empty()
    }

    /// The next job, of so many, whose brick may be `taken`, and what it should take here, microseconds.
    pub(super) fn next_job(
        &self,
        most: usize,
        taken: impl Fn(BrickIndex) -> bool,
    ) -> Option<(u32, PlannedJob, u64)> {
        let plan = self.plan();
        let of = |index: u32| (index, plan.jobs[index as usize]);
        let mut jobs = self.work.queued().take(most).map(of);
        let (index, job) = jobs.find(|(_, job)| taken(job.brick))?;
        let micros = cost_on(job.estimate_micros, plan.speeds[self.me]);
        Some((index, job, micros))
    }

    /// What its jobs that are not done take here, microseconds, waiting for bricks included.
    pub(super) fn left_micros(&self) -> u64 {
        self.work.to_come_micros()
    }

    pub(super) fn take_job(&mut self, job: u32) -> bool {
        self.work.take(job)
    }

    /// Whether nobody would see a job.
    fn is_hidden(&self, job: u32) -> bool {
        let plan = self.plan();
        let Some(map) = &self.occlusion else {
            return false;
        };
        let is_said = || {
            self.hidden
                .range((job, 0)..=(job, usize::MAX))
                .next()
                .is_some()
        };
        let is_hidden_in = |(tile, _, inside): (usize, usize, &PixelRect)| {
            self.hidden.contains(&(job, tile)) || map.hides(job, inside)
        };
        map.hides(job, &plan.jobs[job as usize].rect)
            || is_said() && plan.tile_jobs.of_job(job as usize).all(is_hidden_in)
    }

    /// A peer says which jobs are hidden in tiles of its own. Returns bricks of those that are not rendered for that.
    pub(super) fn are_hidden(
        &mut self,
        from: &PeerId,
        jobs: &[(u32, u32)],
        out: &mut Vec<WorkerOutput<F, I>>,
    ) -> Vec<BrickIndex> {
        let mut bricks = Vec::new();
        let Some(compositor) = self.plan().index_of(from) else {
            return bricks;
        };
        for &(tile, job) in jobs {
            let (plan, tile) = (self.plan(), tile as usize);
            let is_own = (plan.tiles.get(tile)).is_some_and(|t| t.compositor == compositor);
            let order = plan.tile_jobs.of_tile(tile);
            let is_there = order.binary_search_by_key(&(job as usize), |j| j.0).is_ok();
            // Who repeats itself is heard once.
            let is_news = is_own && is_there && self.work.is_to_come(job);
            if is_news && self.hidden.insert((job, tile)) {
                bricks.extend(self.skip_if_hidden(job, out));
            }
        }
        bricks
    }

    /// Jobs whose bricks are awaited, or cannot be had, are not rendered where nobody would see them; bricks of those.
    pub(super) fn skip_parked(&mut self, out: &mut Vec<WorkerOutput<F, I>>) -> Vec<BrickIndex> {
        let parked: Vec<u32> = self.work.parked().collect();
        let bricks = (parked.into_iter()).filter_map(|job| self.skip_if_hidden(job, out));
        bricks.collect()
    }

    /// The next job is not rendered where nobody would see it; its brick.
    pub(super) fn skip_next_hidden(
        &mut self,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) -> Option<BrickIndex> {
        self.skip_if_hidden(self.work.first_job()?, out)
    }

    /// Jobs of a brick that is not held are not rendered where nobody would see them. True: there were some.
    pub(super) fn skip_hidden_of(
        &mut self,
        brick: BrickIndex,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) -> bool {
        let jobs = self.unheld.get(&brick).into_iter().flatten().copied();
        let to_come: Vec<u32> = jobs.filter(|&j| self.work.is_to_come(j)).collect();
        let hidden = to_come
            .into_iter()
            .filter_map(|job| self.skip_if_hidden(job, out));
        hidden.count() > 0
    }

    /// A job that waits is not rendered where nobody would see it; its brick.
    pub(super) fn skip_if_hidden(
        &mut self,
        job: u32,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) -> Option<BrickIndex> {
        if !self.is_hidden(job) || !self.work.skip(job) {
            return None;
        }
        let PlannedJob { brick, rect, .. } = self.plan().jobs[job as usize];
        self.came_to(job, 0, &I::nothing(rect.emptied()), out);
        Some(brick)
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
        let Some(index) = self.plan().index_of(from) else {
            return;
        };
        if matches!(message, StealMessage::Ask { .. }) {
            // Nobody takes what nobody would see.
            for job in self.work.waiting().collect::<Vec<_>>() {
                self.skip_if_hidden(job, out);
            }
        }
        self.step(out, |work, steals| work.heard(index, message, steals));
    }

    pub(super) fn ask_again(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        self.step(out, Work::tick);
    }

    /// Time went by: as long as bricks are to come, what this peer's device did not render is time spent waiting for them, unless the frame
    /// `is_behind` another one; `rendered`: what it has rendered of any frame, microseconds.
    pub(super) fn count_reading(&mut self, now: u64, rendered: u64, is_behind: bool) {
        if let Some((then, rendered_then)) = self.reads_since.take() {
            self.reads.0 += now.saturating_sub(then);
            self.reads.1 += rendered.saturating_sub(rendered_then);
        }
        let is_reading = !is_behind && self.has_bricks_to_come();
        self.reads_since = is_reading.then_some((now, rendered));
    }

    fn has_bricks_to_come(&self) -> bool {
        !self.unlit.is_empty() || self.work.parked().next().is_some()
    }

    /// Time went by: what was spent waiting for bricks while nothing could be rendered counts as late, unless `is_behind` another frame, or messages;
    /// so many jobs are `aside` whose rays wait.
    pub(super) fn count_waiting(
        &mut self,
        now: u64,
        (is_behind, aside): (bool, usize),
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        let rendered = self.work.rendered_micros() + self.unlit.values().sum::<u64>();
        let waits_since = self.waits_since.take();
        if is_behind || !self.work.waits_for_bricks(aside) {
            return;
        }
        if let Some((then, rendered_then)) = waits_since {
            let rendered = rendered.saturating_sub(rendered_then);
            let waited = now.saturating_sub(then).saturating_sub(rendered);
            self.step(out, |work, steals| work.waited(waited, steals));
        }
        self.waits_since = Some((now, rendered));
    }

    /// The device waited so long for bricks that its jobs read, microseconds.
    pub(super) fn waited_for_pages(&mut self, micros: u64) {
        self.reads.0 = self.reads.0.saturating_add(micros);
    }

    pub(super) fn idle(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        self.step(out, Work::idle);
    }

    /// A job is rendered: what it took, and what it took in this attempt, microseconds. True: more may be hidden now.
    pub(super) fn job_done(
        &mut self,
        job: u32,
        image: &I,
        measured_micros: u64,
        spent_micros: u64,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) -> bool {
        self.unlit.remove(&job);
        self.step(out, |work, steals| work.job_done(job, spent_micros, steals));
        let is_in_front = self.occlusion.is_some() && self.is_in_front(job);
        let map = self.occlusion.as_mut().filter(|_| is_in_front);
        let hides_more = map.is_some_and(|map| map.add(job, image));
        self.came_to(job, measured_micros.max(1), image, out);
        hides_more
    }

    /// Whether others that are to be rendered here are behind a job; those that come by stealing later are not known yet.
    fn is_in_front(&self, job: u32) -> bool {
        let (plan, job) = (self.plan(), job as usize);
        let mut of_tiles = plan.tile_jobs.of_job(job);
        of_tiles.any(|(tile, at, rect)| {
            let behind = &plan.tile_jobs.of_tile(tile)[at + 1..];
            let is_to_come = |j: usize| u32::try_from(j).is_ok_and(|j| self.work.is_to_come(j));
            let mut behind = behind.iter().filter(|(j, _)| is_to_come(*j));
            behind.any(|(_, other)| other.intersection(rect).is_some())
        })
    }

    /// What a job came to, for its compositors.
    fn came_to(
        &mut self,
        job: u32,
        measured_micros: u64,
        image: &I,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
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

    /// Tells the requester what was rendered, where the frame waits for bricks: it takes longer than was planned; and how long it has
    /// waited, also where others have got the jobs that it waited for.
    pub(super) fn tell_of_progress(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        let times = self
            .has_bricks_to_come()
            .then(|| self.outgoing.take_times());
        self.tell_times(times.unwrap_or_default(), out);
    }

    fn tell_times(&mut self, times: Vec<(u32, u64)>, out: &mut Vec<WorkerOutput<F, I>>) {
        let waited = self.reads.0.saturating_sub(self.reads.1);
        if !times.is_empty() || waited >= self.told_waited + TOLD_MICROS {
            self.told_waited = waited;
            let (plan, jobs) = (self.plan().digest, times);
            let done = FrameMessage::JobsDone {
                plan,
                jobs,
                rendered_micros: self.work.rendered_micros(),
                bricks: BrickAccesses {
                    waited_micros: waited,
                    ..self.accesses
                },
            };
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

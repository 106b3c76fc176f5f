//! The frame worker of a peer: the frames that it works on, and whose are next (`turns`); which jobs its device
//! renders next; where what was rendered goes; and what is kept of it for a further attempt.
//!
//! A pure state machine, which the scheduler of a peer and the simulator run. Whoever drives it carries out
//! what it says, in that order, and tells it what the device has rendered.
//!
//! Invariant: the device has one job on hand, or two batches of short ones, which together are no more than is not worth stealing
//! or a sixteenth of what is left of a frame: what it has on hand cannot be given away.
//! A job that takes long is put aside where another requester has one to render; the device keeps what it has
//! of it.
//! Jobs whose bricks the peer does not hold wait until these are read; others are rendered meanwhile. So do jobs that were begun and whose
//! secondary rays go on through other bricks: with each of these as it comes, so that no brick is kept while another one is awaited.
//! Jobs that nobody would see are not rendered, and their bricks not read (`occlusion`).
//! Where bricks come when they are read ([`FrameWorker::reads_pages`]), no job waits for one, but those whose bricks are there go first; bricks of
//! jobs that the device is given are asked for, and released when they are there.
//! Invariant: while a message waits for room nothing more is rendered, nor taken from what is kept.
//! Invariant: bounded: frames by [`admission`], kept images by `cache`, inputs by [`inputs`].

mod active_frame;
pub mod admission;
mod cache;
mod device_bricks;
pub mod inputs;
mod turns;

use super::{
    compositing::{FrameKey, HiddenJobs},
    frame_requests::FrameMessage,
    image::Image,
    outgoing::Run,
};
use crate::{
    balance::{
        frame_plan::{FramePlan, PlannedJob},
        stealing::{GAIN_MICROS_MIN, StealMessage, Work},
    },
    base::{digest::Digest, peer::PeerId},
    data::{brick_grid::BrickIndex, brick_set::BrickSet},
};
use active_frame::ActiveFrame;
use admission::Place;
use cache::RenderCache;
use device_bricks::{Ask, BrickName, DeviceBricks};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use turns::Turns;

/// Frames that are remembered, so that one asked for twice is begun once.
const BEGUN_MAX: usize = 256;
/// Short jobs are rendered in batches that take so long at least, in microseconds. The device has two of them, so that it has
/// work while it is said what comes next.
const BATCH_MICROS_MIN: u64 = GAIN_MICROS_MIN / 2;
/// The same, at most: less than [`SLICE_MICROS`], as batches are not put aside.
const BATCH_MICROS_MAX: u64 = 16_000;
/// Between the two, a batch is one of so many parts of what is left of a frame here (guided self-scheduling: Polychronopoulos, Kuck
/// 1987): many threads are kept busy by many jobs only, and what the device has nobody can steal.
const BATCHES: u64 = 32;
/// Most jobs of a batch, and most pixels of theirs: what is expected of a job may be far too little, and nothing is
/// said of one before all are done.
const BATCH_JOBS_MAX: usize = 128;
/// See [`BATCH_JOBS_MAX`].
const BATCH_PIXELS_MAX: usize = 1 << 20;

/// A job that takes longer is put aside after so long, in microseconds, where another requester's jobs wait.
pub const SLICE_MICROS: u64 = 20_000;

/// Where no job waits for bricks: so many that could be next are looked through for one whose brick is there.
const LOOK_AHEAD: usize = 256;

/// Memory of jobs that wait for bricks on the way of their rays, bytes, about. See [`may_begin`].
const UNLIT_BYTES_MAX: u64 = 128 << 20;

/// What the rays of a job that was begun are to go on through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awaits {
    /// Bricks, near ones first; it goes on with any of them. None: nothing is awaited.
    pub bricks: Vec<BrickIndex>,
    /// Memory that the device takes for it, bytes.
    pub bytes: u64,
}

/// What follows from an input. `F`: a frame with its plan and what it shows; `I`: an image.
#[derive(Debug)]
pub enum WorkerOutput<F, I> {
    /// The device is to render jobs of a frame, after those it was told before; several together.
    Render {
        /// Who asked, and which of its frames.
        key: FrameKey,
        /// The frame.
        frame: Arc<F>,
        /// Jobs of its plan, at least one. One that was put aside is alone, and goes on.
        jobs: Vec<u32>,
        /// A job that is alone, so that it can be put aside: there are others who ask for frames.
        in_slices: bool,
    },
    /// The device is to put the job of this frame aside that it renders, if it takes longer than
    /// [`SLICE_MICROS`], and say so by [`FrameWorker::put_aside`]. A device that cannot goes on.
    PutAside {
        /// The frame.
        frame: Arc<F>,
    },
    /// Nobody needs what waits to be sent of an attempt; nor, where the frame `is_over`, what the device
    /// renders of it.
    CallOff {
        /// The attempt.
        frame: Arc<F>,
        /// See above.
        is_over: bool,
    },
    /// A frame needs a brick of a data set that the peer does not hold; answered by [`FrameWorker::staged`] with the
    /// number of this question, unless it is released before.
    Stage(Digest, BrickIndex, u64),
    /// No frame needs it any more.
    Release(Digest, BrickIndex),
    /// Runs for a compositor.
    Runs {
        /// Whose frame it is, and which.
        key: FrameKey,
        /// The frame.
        frame: Arc<F>,
        /// Index of the compositor in the plan's roster.
        to: usize,
        /// The runs.
        runs: Vec<Run<I>>,
    },
    /// The requester of a frame is to be told.
    Tell(FrameKey, FrameMessage),
    /// A thief or a victim is to be told.
    Steal {
        /// Whose frame it is about, and which.
        key: FrameKey,
        /// Digest of the plan.
        plan: Digest,
        /// The peer.
        to: PeerId,
        /// What it is told.
        message: StealMessage,
    },
}

/// See the module.
#[derive(Debug)]
pub struct FrameWorker<F, I> {
    local: PeerId,
    /// Oldest first.
    frames: VecDeque<ActiveFrame<F, I>>,
    /// What the device was told to render, in that order.
    on_device: VecDeque<OnDevice<F>>,
    /// What it has begun and put aside, or cannot go on with yet.
    aside: Vec<OnDevice<F>>,
    begun: VecDeque<FrameKey>,
    turns: Turns,
    cache: RenderCache<I>,
    bricks: DeviceBricks,
    /// Bricks of jobs that the device was given, where they come when they are read: to be asked for.
    pages: Vec<BrickName>,
    /// Without a device nobody's jobs can be done here.
    has_device: bool,
    /// What the device has rendered until now, microseconds.
    rendered_micros: u64,
    /// Messages that wait for room.
    waiting: usize,
    /// What is kept was used, and there may be more of it: see [`FrameWorker::resume`].
    is_paused: bool,
}

/// A job that the device was told to render; its frame may be gone since.
#[derive(Debug)]
struct OnDevice<F> {
    key: FrameKey,
    data_set: Digest,
    frame: Arc<F>,
    index: u32,
    job: PlannedJob,
    estimate_micros: u64,
    /// What of that was counted as given to its requester.
    given_micros: u64,
    /// What it took before it was put aside.
    before_micros: u64,
    awaits: Awaits,
    /// It is of the batch of the one before.
    joins_last: bool,
    /// The device was told to put it aside.
    is_to_wait: bool,
    /// It will not be asked for again.
    is_over: bool,
}

impl<F: AsRef<FramePlan>, I: Image> FrameWorker<F, I> {
    /// A worker without frames, with a device on which bricks may take so many bytes.
    #[must_use]
    pub fn new(local: PeerId, memory_bytes: u64) -> Self {
        Self {
            local,
            frames: VecDeque::new(),
            on_device: VecDeque::new(),
            aside: Vec::new(),
            begun: VecDeque::new(),
            turns: Turns::default(),
            cache: RenderCache::new(memory_bytes),
            bricks: DeviceBricks::default(),
            pages: Vec::new(),
            has_device: true,
            rendered_micros: 0,
            waiting: 0,
            is_paused: false,
        }
    }

    /// From now on the device gets bricks by itself when it reads them.
    pub fn reads_pages(&mut self) {
        self.bricks.are_paged_now();
    }

    /// The device waited so long for bricks that jobs of a frame read.
    pub fn waited_for_pages(&mut self, key: &FrameKey, waited: Duration) {
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        if let Some(frame) = self.frames.iter_mut().find(|f| f.key == *key) {
            frame.waited_for_pages(micros);
        }
    }

    /// Whether there is a frame under way.
    #[must_use]
    pub fn is_under_way(&self, now: u64) -> bool {
        self.frames.iter().any(|f| f.is_under_way(now))
    }

    /// Whether this attempt at a frame was begun before: its jobs would be rendered twice.
    #[must_use]
    pub fn was_begun(&self, key: &FrameKey) -> bool {
        self.begun.contains(key)
    }

    /// Begins a frame of a data set, as the youngest; `steal`: whether its jobs may change hands. A peer that is not
    /// in its roster has nothing to render and nobody to steal from.
    pub fn begin(
        &mut self,
        now: u64,
        (key, data_set): (FrameKey, Digest),
        frame: Arc<F>,
        steal: bool,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        self.turns.asks(now, &key.0);
        self.begun.push_back(key.clone());
        if self.begun.len() > BEGUN_MAX {
            self.begun.pop_front();
        }
        let plan = (*frame).as_ref();
        let Some(me) = plan.index_of(&self.local) else {
            return;
        };
        let work = Work::new(plan, me, steal);
        let all = self.frames.iter();
        let all = all.map(|f| (&f.key.0, f.is_under_way(now)));
        let dropped = match admission::place(all, &key.0) {
            Place::Free => None,
            Place::InsteadOf(oldest) => Some(self.frames[oldest].key.clone()),
            Place::None => Some(key.clone()),
        };
        if dropped.as_ref() != Some(&key) {
            self.drop_frames(|k| Some(k) == dropped.as_ref(), false, out);
            let mut active = ActiveFrame::new((key, data_set), now, me, frame, work);
            active.look_for_bricks(&self.bricks, &self.cache);
            self.frames.push_back(active);
        }
        if let Some(dropped) = dropped {
            out.push(WorkerOutput::Tell(dropped, FrameMessage::Busy));
        }
        self.go_on(out);
    }

    /// An attempt at a frame is needed no more; the frame may be asked for again.
    pub fn cancel(&mut self, key: &FrameKey, out: &mut Vec<WorkerOutput<F, I>>) {
        self.drop_frames(|k| k == key, false, out);
        self.go_on(out);
    }

    /// A frame of a requester will not be asked for again; `None`: none of its frames.
    pub fn over(
        &mut self,
        requester: &PeerId,
        number: Option<u64>,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        let is_one = |key: &FrameKey| {
            key.0 == *requester && number.is_none_or(|number| number == key.1.number)
        };
        self.drop_frames(is_one, true, out);
        for order in self.on_device.iter_mut().filter(|o| is_one(&o.key)) {
            order.is_over = true;
            let (frame, is_over) = (Arc::clone(&order.frame), true);
            out.push(WorkerOutput::CallOff { frame, is_over });
        }
        self.cache.forget(requester, number);
        self.go_on(out);
    }

    /// A peer cannot be reached any more: its frames need no work, and nobody asks it for jobs.
    pub fn lost(&mut self, peer: &PeerId, out: &mut Vec<WorkerOutput<F, I>>) {
        // It may be started again, and count its frames from the first.
        self.begun.retain(|key| key.0 != *peer);
        self.over(peer, None, out);
        self.turns.lost(peer);
        for frame in &mut self.frames {
            frame.lost(peer);
        }
    }

    /// A thief or a victim says something about a frame. One that is not known yet, or not any more, is
    /// of no concern: the thief asks again while it needs to.
    pub fn heard(
        &mut self,
        from: &PeerId,
        key: &FrameKey,
        plan: Digest,
        message: &StealMessage,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        if let Some(frame) = self.frames.iter_mut().find(|f| f.key == *key)
            && frame.plan().digest == plan
        {
            let (data_set, bricks) = (frame.data_set, frame.unheld().collect::<Vec<_>>());
            frame.heard(from, message, out);
            // Jobs may have come, or gone.
            frame.look_for_bricks(&self.bricks, &self.cache);
            self.release(bricks.into_iter().map(|b| (data_set, b)), out);
            self.go_on(out);
        }
    }

    /// A compositor says which jobs are hidden in tiles of its own.
    pub fn are_hidden(
        &mut self,
        from: &PeerId,
        hidden: &HiddenJobs,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        if let Some(frame) = self.frames.iter_mut().find(|f| f.key == hidden.key)
            && frame.plan().digest == hidden.plan
        {
            let data_set = frame.data_set;
            let bricks = frame.are_hidden(from, &hidden.jobs, out);
            self.release(bricks.into_iter().map(|b| (data_set, b)), out);
            self.go_on(out);
        }
    }

    /// The peer holds these bricks of a data set; until this is said of one, it counts as whole.
    pub fn holds(
        &mut self,
        data_set: Digest,
        held: Arc<BrickSet>,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        let released = self.bricks.set_held(data_set, held).into_iter();
        out.extend(released.map(|(data_set, brick)| WorkerOutput::Release(data_set, brick)));
        for frame in self.frames.iter_mut().filter(|f| f.data_set == data_set) {
            frame.look_for_bricks(&self.bricks, &self.cache);
        }
        self.go_on(out);
    }

    /// A brick that a frame needs is in device memory, until it is released, and has so many `bytes`; `None`: it cannot be had.
    pub fn staged(
        &mut self,
        name: (Digest, BrickIndex),
        question: u64,
        bytes: Option<u64>,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        let is_there = bytes.is_some();
        if !self.bricks.answered(name, question, is_there) {
            return;
        }
        if is_there && self.bricks.are_paged() && self.bricks.release(name) {
            out.push(WorkerOutput::Release(name.0, name.1));
        }
        for frame in self.frames.iter_mut().filter(|f| f.data_set == name.0) {
            match bytes {
                Some(bytes) => frame.came(name.1, bytes),
                None => frame.is_in_vain(name.1),
            }
        }
        if !is_there {
            let awaiting = self.aside.iter();
            let awaiting =
                awaiting.filter(|o| !o.awaits.bricks.is_empty() && o.bricks().any(|n| n == name));
            let keys: Vec<FrameKey> = awaiting.map(|o| o.key.clone()).collect();
            let why = cannot_be_read(name.1);
            self.fail(|f| keys.contains(&f.key), Some(&why), out);
        }
        self.go_on(out);
    }

    /// The memory of a brick that was released is needed for another one.
    pub fn freed(&mut self, name: (Digest, BrickIndex)) {
        // What is over here tells nothing more.
        if self.bricks.freed(name)
            && let Some(oldest) = self.frames.iter_mut().find(|f| f.is_busy())
        {
            oldest.evicts();
        }
    }

    /// A data set is not open here any more.
    pub fn closed(&mut self, data_set: Digest) {
        self.bricks.close(data_set);
    }

    /// Time went by: questions that were not answered are put again, and waiting for bricks counts.
    pub fn ask_again(&mut self, now: u64, out: &mut Vec<WorkerOutput<F, I>>) {
        let mut is_behind = self.waiting > 0;
        for frame in &mut self.frames {
            frame.count_reading(now, self.rendered_micros, is_behind);
            let aside = self.aside.iter().filter(|o| o.key == frame.key);
            let aside = aside.filter(|o| !o.awaits.bricks.is_empty()).count();
            frame.count_waiting(now, (is_behind, aside), out);
            is_behind |= frame.is_busy();
        }
        for frame in &mut self.frames {
            frame.ask_again(out);
            frame.tell_of_progress(out);
        }
    }

    /// The device has rendered jobs; with each, its image and microseconds. An image is kept also where its attempt
    /// is over: the frame may be asked for again.
    pub fn rendered(
        &mut self,
        key: &FrameKey,
        done: impl IntoIterator<Item = (u32, (I, u64))>,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        for (job, (image, micros)) in done {
            let spent = |o: &OnDevice<F>| micros.saturating_sub(o.before_micros);
            let Some(order) = self.take_order(key, job, spent) else {
                continue;
            };
            if let Some(frame) = self.frames.iter_mut().find(|f| f.key == *key) {
                let hides_more = frame.job_done(job, &image, micros, micros, out);
                if hides_more {
                    let asked = self.bricks.asked().filter(|name| name.0 == order.data_set);
                    let hidden = asked.filter(|name| frame.skip_hidden_of(name.1, out));
                    let hidden: Vec<BrickName> = hidden.collect();
                    self.release(hidden, out);
                }
            }
            self.release(order.bricks(), out);
            if !order.is_over {
                self.cache.put(key, order.job, image, micros);
            }
        }
        self.go_on(out);
    }

    /// The device has not rendered a job: it was called off, or why not, for people.
    pub fn not_rendered(
        &mut self,
        key: &FrameKey,
        job: u32,
        why: Option<&str>,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        if let Some(order) = self.take_order(key, job, |_| 0) {
            self.fail(|f| f.key == *key, why, out);
            self.release(order.bricks(), out);
        }
        self.go_on(out);
    }

    /// The device has put a job aside, after so many microseconds: it was told to, or its rays are to go on through bricks that it
    /// `awaits`.
    pub fn put_aside(
        &mut self,
        key: &FrameKey,
        job: u32,
        (micros, awaits): (u64, Awaits),
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        let Some(mut order) = self.take_order(key, job, |_| micros) else {
            return self.go_on(out);
        };
        let needed: Vec<BrickName> = order.bricks().collect();
        if let Some(frame) = self.frames.iter_mut().find(|f| f.key == *key) {
            order.estimate_micros = order.estimate_micros.saturating_sub(micros);
            order.before_micros = order.before_micros.saturating_add(micros);
            (order.is_to_wait, order.joins_last) = (false, false);
            if awaits.bricks.is_empty() {
                self.turns.end_turn();
            } else {
                frame.is_unlit(job, micros);
            }
            order.awaits = awaits;
            self.aside.push(order);
        }
        self.release(needed, out);
        self.go_on(out);
    }

    /// The device is lost; why, for people. Frames that have jobs here end.
    pub fn device_lost(&mut self, why: &str, out: &mut Vec<WorkerOutput<F, I>>) {
        self.has_device = false;
        self.on_device.clear();
        self.aside.clear();
        self.bricks.clear();
        self.fail(ActiveFrame::is_busy, Some(why), out);
    }

    /// There is a device again.
    pub fn device_opened(&mut self) {
        self.has_device = true;
    }

    /// A message could not be sent at once: it waits for room.
    pub fn waits_for_room(&mut self) {
        self.waiting += 1;
    }

    /// A message that waited for room was sent, or need not be.
    pub fn sent(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        self.waiting = self.waiting.saturating_sub(1);
        self.go_on(out);
    }

    /// Whether a message waits for room.
    #[must_use]
    pub fn is_waiting_for_room(&self) -> bool {
        self.waiting > 0
    }

    /// To be called when all that was said is carried out, until it returns false: goes on with what is
    /// kept of earlier attempts.
    pub fn resume(&mut self, out: &mut Vec<WorkerOutput<F, I>>) -> bool {
        let is_paused = std::mem::take(&mut self.is_paused);
        if is_paused {
            self.go_on(out);
        }
        is_paused
    }

    fn drop_frames(
        &mut self,
        ends: impl Fn(&FrameKey) -> bool,
        is_over: bool,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        for dropped in self.frames.iter().filter(|f| ends(&f.key)) {
            let frame = Arc::clone(&dropped.frame);
            out.push(WorkerOutput::CallOff { frame, is_over });
        }
        let ended = self.frames.iter().filter(|f| ends(&f.key));
        let bricks = ended.flat_map(|f| f.unheld().map(|b| (f.data_set, b)));
        let aside = self.aside.iter().filter(|o| ends(&o.key));
        let bricks: Vec<BrickName> = bricks.chain(aside.flat_map(OnDevice::bricks)).collect();
        self.frames.retain(|f| !ends(&f.key));
        self.aside.retain(|o| !ends(&o.key));
        self.release(bricks, out);
    }

    /// Says of which of these bricks no job is left.
    fn release(
        &mut self,
        bricks: impl IntoIterator<Item = BrickName>,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        for name in bricks {
            let mut begun = self.on_device.iter().chain(&self.aside);
            let mut frames = self.frames.iter().filter(|f| f.data_set == name.0);
            let is_needed =
                begun.any(|o| o.bricks().any(|n| n == name)) || frames.any(|f| f.needs(name.1));
            if !is_needed && self.bricks.release(name) {
                out.push(WorkerOutput::Release(name.0, name.1));
            }
        }
    }

    /// A job came to something without the device: its brick is released. True: runs go out, which are sent first.
    fn is_paused_after(&mut self, name: BrickName, out: &mut Vec<WorkerOutput<F, I>>) -> bool {
        self.is_paused = matches!(out.last(), Some(WorkerOutput::Runs { .. }));
        self.release([name], out);
        self.is_paused
    }

    /// Whether jobs that wait for bricks on the way of their rays take much memory.
    fn has_many_unlit(&self) -> bool {
        let bytes = self.aside.iter().map(|o| o.awaits.bytes);
        bytes.fold(0, u64::saturating_add) > UNLIT_BYTES_MAX
    }

    /// Asks for bricks on the way of rays. False: no more may be asked for.
    fn stage_for_rays(&mut self, out: &mut Vec<WorkerOutput<F, I>>) -> bool {
        for order in &self.aside {
            for &brick in &order.awaits.bricks {
                let name = (order.data_set, brick);
                if self.bricks.is_here(name) {
                    continue;
                }
                let is_kept = self.bricks.is_kept(name);
                let frame = self.frames.iter_mut().find(|f| f.key == order.key);
                match self.bricks.ask(name) {
                    Ask::Later => return false,
                    Ask::Now(question) => {
                        out.push(WorkerOutput::Stage(name.0, name.1, question));
                        frame.into_iter().for_each(|f| f.accesses(brick, is_kept));
                    }
                    Ask::WasAsked => {}
                }
            }
        }
        true
    }

    /// Asks for bricks that frames need, those of the oldest frame first.
    fn stage(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        if self.bricks.are_paged() {
            return self.stage_pages(out);
        }
        if !self.stage_for_rays(out) {
            return;
        }
        let is_full = self.has_many_unlit();
        loop {
            let mut hidden = Vec::new();
            let frames = self.frames.iter_mut();
            'frames: for frame in frames.filter(|f| !is_full || !f.sends_rays()) {
                frame.put_kept_first(&self.bricks);
                while let Some(brick) = frame.next_brick() {
                    let name = (frame.data_set, brick);
                    if frame.skip_hidden_of(brick, out) {
                        hidden.push(name);
                    }
                    // Its jobs may be done: it was there for another frame.
                    if !frame.needs(brick) {
                        frame.not_asked();
                        continue;
                    }
                    let is_kept = self.bricks.is_kept(name);
                    match self.bricks.ask(name) {
                        Ask::Later => break 'frames,
                        Ask::Now(question) => {
                            out.push(WorkerOutput::Stage(name.0, name.1, question));
                            frame.asked(is_kept);
                        }
                        Ask::WasAsked => frame.asked(true),
                    }
                }
            }
            if hidden.is_empty() {
                return;
            }
            // They may have been asked for before: others have their turn.
            self.release(hidden, out);
        }
    }

    /// Ends frames of which nothing is left here but jobs whose bricks cannot be had.
    fn end_stuck(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        for at in 0..self.frames.len() {
            let frame = &mut self.frames[at];
            if frame.lacks().is_some() {
                let (data_set, hidden) = (frame.data_set, frame.skip_parked(out));
                self.release(hidden.into_iter().map(|brick| (data_set, brick)), out);
            }
        }
        let stuck = self
            .frames
            .iter()
            .find_map(|f| Some((f.key.clone(), f.lacks()?)));
        if let Some((key, brick)) = stuck {
            let why = cannot_be_read(brick);
            self.fail(|f| f.key == key, Some(&why), out);
        }
    }

    /// A job that the device has no more, `micros` after it was given it.
    fn take_order(
        &mut self,
        key: &FrameKey,
        job: u32,
        micros: impl Fn(&OnDevice<F>) -> u64,
    ) -> Option<OnDevice<F>> {
        let is_it = |o: &OnDevice<F>| o.index == job && o.key == *key;
        let at = self.on_device.iter().position(is_it)?;
        let order = self.on_device.remove(at)?;
        // The rest of its batch is one still.
        if let Some(next) = self.on_device.get_mut(at) {
            next.joins_last &= order.joins_last;
        }
        let micros = micros(&order);
        self.rendered_micros = self.rendered_micros.saturating_add(micros);
        self.turns.took(&key.0, order.given_micros, micros);
        Some(order)
    }

    /// The frame whose turn it is.
    fn next_frame(&mut self) -> Option<usize> {
        let is_aside = |f: &ActiveFrame<F, I>| {
            let mut aside = self.aside.iter().filter(|o| o.key == f.key);
            aside.any(|o| o.can_go_on(&self.bricks))
        };
        let is_full = self.has_many_unlit();
        let has_jobs = |f: &ActiveFrame<F, I>| {
            f.has_jobs() && (f.next_job(usize::MAX, may_begin(f, &self.bricks, is_full))).is_some()
        };
        let frames = self.frames.iter().enumerate();
        let with_jobs = frames.filter(|(_, f)| has_jobs(f) || is_aside(f));
        self.turns.next(with_jobs.map(|(at, f)| (at, &f.key.0)))
    }

    /// The next job of a frame, and what it should take; where no job waits for its brick, such whose bricks are there first.
    fn next_job(&self, frame: &ActiveFrame<F, I>) -> Option<(u32, PlannedJob, u64)> {
        let begins = may_begin(frame, &self.bricks, self.has_many_unlit());
        let comes = |brick| self.bricks.is_here_or_comes((frame.data_set, brick));
        let is_there = |brick| begins(brick) && comes(brick);
        let first = (self.bricks.are_paged()).then(|| frame.next_job(LOOK_AHEAD, is_there));
        first
            .flatten()
            .or_else(|| frame.next_job(usize::MAX, &begins))
    }

    /// Ends frames early here.
    fn fail(
        &mut self,
        ends: impl Fn(&ActiveFrame<F, I>) -> bool,
        why: Option<&str>,
        out: &mut Vec<WorkerOutput<F, I>>,
    ) {
        let ended = self.frames.iter().filter(|f| ends(f));
        let ended: Vec<FrameKey> = ended.map(|f| f.key.clone()).collect();
        self.drop_frames(|key| ended.contains(key), false, out);
        if let Some(why) = why {
            out.extend(ended.into_iter().map(|key| {
                let why = why.to_owned();
                WorkerOutput::Tell(key, FrameMessage::Failed { why })
            }));
        }
    }

    /// The device is given a job whose bricks come when they are read: they are asked for now, so that they are on their way then.
    fn needs_pages(&mut self, order: &OnDevice<F>) {
        let lacking = order.bricks().filter(|&n| !self.bricks.is_in_memory(n));
        let lacking: Vec<BrickName> = lacking.collect();
        if let Some(frame) = self.frames.iter_mut().find(|f| f.key == order.key) {
            for &name in &lacking {
                frame.accesses(name.1, self.bricks.is_kept(name));
            }
        }
        self.pages.extend(lacking);
    }

    /// Asks for bricks of jobs that the device was given.
    fn stage_pages(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        for name in self.pages.drain(..) {
            // Beyond those that may be asked for, they are when they are read.
            if let Ask::Now(question) = self.bricks.ask(name) {
                out.push(WorkerOutput::Stage(name.0, name.1, question));
            }
        }
    }

    fn give_device(&mut self, mut order: OnDevice<F>, out: &mut Vec<WorkerOutput<F, I>>) {
        order.given_micros = order.estimate_micros.min(SLICE_MICROS);
        self.turns.gave(&order.key.0, order.given_micros);
        let is_here = |brick: &&BrickIndex| self.bricks.is_here((order.data_set, **brick));
        let acquired = match &*order.awaits.bricks {
            [] => usize::from(order.before_micros == 0),
            awaited => awaited.iter().filter(is_here).count(),
        };
        if self.bricks.are_paged() {
            self.needs_pages(&order);
        }
        let frame = self.frames.iter_mut().find(|f| f.key == order.key);
        frame.into_iter().for_each(|f| f.acquired(acquired));
        match out.last_mut() {
            Some(WorkerOutput::Render { key, jobs, .. })
                if order.joins_last && *key == order.key =>
            {
                jobs.push(order.index);
            }
            _ => out.push(WorkerOutput::Render {
                key: order.key.clone(),
                frame: Arc::clone(&order.frame),
                jobs: vec![order.index],
                in_slices: order.estimate_micros > SLICE_MICROS
                    && self.turns.is_shared(&order.key.0),
            }),
        }
        self.on_device.push_back(order);
    }

    /// Whether the device has room for a job, whose frame has work for `left` microseconds here; and whether the job joins the
    /// batch that was named last. Jobs that become ready one by one are gathered while the device has two batches, or as much as
    /// two may take.
    fn has_room(&self, order: &OnDevice<F>, left: u64, out: &[WorkerOutput<F, I>]) -> (bool, bool) {
        // Batches are not put aside for somebody else.
        let most = if self.turns.is_shared(&order.key.0) {
            SLICE_MICROS / 4
        } else {
            BATCH_MICROS_MAX
        };
        let batch = (left / BATCHES).clamp(BATCH_MICROS_MIN, most);
        let is_short = order.estimate_micros <= batch / 2;
        let batch_max = if is_short { batch } else { BATCH_MICROS_MIN };
        let all = self.on_device.iter().chain([order]);
        let on_hand: u64 = all.map(|o| o.estimate_micros).sum();
        let is_room = on_hand <= 2 * batch_max;
        let sends_rays = !(*order.frame).as_ref().casters.is_empty();
        let pixels_max = BATCH_PIXELS_MAX >> if sends_rays { 3 } else { 0 };
        let batches = self.on_device.iter().filter(|o| !o.joins_last).count();
        let joins_last = match out.last() {
            Some(WorkerOutput::Render { key, jobs, .. }) if *key == order.key => {
                let all = self.on_device.iter().rev().take(jobs.len()).chain([order]);
                let micros: u64 = all.clone().map(|o| o.estimate_micros).sum();
                let pixels: usize = all.clone().map(|o| o.job.rect.pixel_count()).sum();
                (batches == 1 || is_room)
                    && jobs.len() < BATCH_JOBS_MAX
                    && micros <= batch_max
                    && pixels <= pixels_max
                    && (all.into_iter()).all(|o| o.before_micros == 0 && o.awaits.bricks.is_empty())
            }
            _ => false,
        };
        let is_next = batches == 1 && is_room;
        (batches == 0 || joins_last || is_next, joins_last)
    }

    /// What the device renders is put aside where somebody else waits.
    fn make_room(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        let Some(order) = self.on_device.front_mut().filter(|o| !o.is_to_wait) else {
            return;
        };
        let is_other = |key: &FrameKey| key.0 != order.key.0;
        let waits = self.frames.iter().any(|f| f.has_jobs() && is_other(&f.key))
            || (self.aside.iter()).any(|o| is_other(&o.key) && o.can_go_on(&self.bricks));
        if waits {
            order.is_to_wait = true;
            let frame = Arc::clone(&order.frame);
            out.push(WorkerOutput::PutAside { frame });
        }
    }

    /// Gives the device its next jobs, sends what no further job is awaited for, or lets this peer
    /// steal.
    fn go_on(&mut self, out: &mut Vec<WorkerOutput<F, I>>) {
        if self.waiting > 0 {
            return;
        }
        loop {
            self.end_stuck(out);
            if !self.give_jobs(out) {
                return;
            }
            // After what is kept, which may hide what would be read.
            self.stage(out);
            if !self.take_tiles() {
                break;
            }
        }
        self.make_room(out);
        let is_idle = self.has_device && self.on_device.is_empty();
        for frame in self.frames.iter_mut().filter(|f| !f.is_busy()) {
            frame.send_all(out);
            if is_idle {
                frame.idle(out);
            }
        }
    }

    /// Takes the next tile of each frame whose queue of tiles is here and of which nothing else waits; false: of none.
    fn take_tiles(&mut self) -> bool {
        let mut taken = false;
        for frame in &mut self.frames {
            taken |= frame.take_tile(&self.bricks, &self.cache);
        }
        taken
    }

    /// Gives the device its next jobs; false: it is to go on later.
    fn give_jobs(&mut self, out: &mut Vec<WorkerOutput<F, I>>) -> bool {
        while let Some(at) = self.next_frame() {
            let frame = &self.frames[at];
            let is_next = |o: &OnDevice<F>| o.key == frame.key && o.can_go_on(&self.bricks);
            if let Some(at) = self.aside.iter().position(is_next) {
                if !self.has_room(&self.aside[at], frame.left_micros(), out).0 {
                    break;
                }
                let order = self.aside.remove(at);
                self.give_device(order, out);
                continue;
            }
            let frame = &mut self.frames[at];
            if let Some(brick) = frame.skip_next_hidden(out) {
                let name = (frame.data_set, brick);
                if self.is_paused_after(name, out) {
                    return false;
                }
                continue;
            }
            let frame = &self.frames[at];
            let Some((index, job, next)) = self.next_job(frame) else {
                break;
            };
            if self.bricks.are_paged()
                && let Some(brick) = self.frames[at].skip_if_hidden(index, out)
            {
                let name = (self.frames[at].data_set, brick);
                if self.is_paused_after(name, out) {
                    return false;
                }
                continue;
            }
            let frame = &mut self.frames[at];
            if !frame.is_here(&job, &self.bricks, &self.cache) {
                // What was kept of it had to make room since.
                frame.look_for_bricks(&self.bricks, &self.cache);
                continue;
            }
            let frame = &self.frames[at];
            let mut order = OnDevice::new(frame, job, next);
            let (has_room, joins_last) = self.has_room(&order, frame.left_micros(), out);
            if !has_room || self.on_device.iter().any(|o| o.is_of(&frame.key, &job)) {
                break;
            }
            let frame = &mut self.frames[at];
            if !frame.take_job(index) {
                break;
            }
            if let Some((image, micros)) = self.cache.take(&frame.key, &job) {
                frame.job_done(index, &image, micros, 0, out);
                self.cache.put(&frame.key, job, image, micros);
                let name = (frame.data_set, job.brick);
                if self.is_paused_after(name, out) {
                    return false;
                }
                continue;
            }
            (order.index, order.joins_last) = (index, joins_last);
            self.give_device(order, out);
        }
        true
    }
}

/// Which bricks' jobs of a frame may be begun: where what is known of rays takes much memory, of those that send some only such as were read
/// for them, as these keep room from the bricks that rays wait for.
fn may_begin<F: AsRef<FramePlan>, I: Image>(
    frame: &ActiveFrame<F, I>,
    bricks: &DeviceBricks,
    is_full: bool,
) -> impl Fn(BrickIndex) -> bool {
    let is_kept_from = is_full && frame.sends_rays();
    move |brick| !is_kept_from || !bricks.is_held((frame.data_set, brick))
}

fn cannot_be_read(brick: BrickIndex) -> String {
    format!("brick {} cannot be read", brick.0)
}

impl<F> OnDevice<F> {
    /// A job of a frame that the device was not told of yet.
    fn new<I>(of: &ActiveFrame<F, I>, job: PlannedJob, estimate_micros: u64) -> Self {
        Self {
            key: of.key.clone(),
            data_set: of.data_set,
            frame: Arc::clone(&of.frame),
            index: 0,
            job,
            estimate_micros,
            given_micros: 0,
            before_micros: 0,
            awaits: Awaits::default(),
            joins_last: false,
            is_to_wait: false,
            is_over: false,
        }
    }

    /// The bricks that it needs, or of which it needs any.
    fn bricks(&self) -> impl Iterator<Item = BrickName> + '_ {
        let awaits = &self.awaits.bricks;
        let own = awaits.is_empty().then_some(self.job.brick);
        let all = own.into_iter().chain(awaits.iter().copied());
        all.map(|brick| (self.data_set, brick))
    }

    /// Whether it can go on, as it was put aside.
    fn can_go_on(&self, bricks: &DeviceBricks) -> bool {
        self.awaits.bricks.is_empty() || self.bricks().any(|name| bricks.is_here(name))
    }

    /// Whether it is a job of a frame, in whichever attempt, and will be kept.
    fn is_of(&self, key: &FrameKey, job: &PlannedJob) -> bool {
        let is_same_frame = self.key.0 == key.0 && self.key.1.number == key.1.number;
        is_same_frame && !self.is_over && cache::part_of(&self.job) == cache::part_of(job)
    }
}

#[cfg(test)]
mod tests;

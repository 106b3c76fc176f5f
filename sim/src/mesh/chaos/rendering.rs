//! The scheduler and the raycaster of a machine: as the actors, on a simulated device.
//! Not as there: a job of a frame that is over is rendered to its end.

use super::{
    compositing::Compositing,
    environment::Environment,
    notes::{FrameKey, Note, Piece, Pieces, Request, SentPartial, Who},
    plans::{Asked, Planned},
    queue::Event,
};
use brickmesh_topology::{
    BrickIndex, Digest,
    balance::{
        cost_table::CostTable,
        frame_plan::{Earlier, PlannedJob},
        roster::Roster,
        schedule::SPEED_ONE,
        stealing::{StealMessage, StealOutput, Work},
    },
    data::brick_set::BrickSet,
    frame::{
        admission::{self, Place},
        compositing::{Part, Partial},
        frame_requests::FrameId,
        image::named::Names,
        outgoing::{Outgoing, Parcel, Run},
    },
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Rosters and cost tables that are kept under their names.
const INPUTS_MAX: usize = 64;
/// Frames of which pixels are kept.
const KEPT_FRAMES_MAX: usize = 32;
/// Frames that are remembered, so that one asked for twice is begun once.
const SEEN_MAX: usize = 256;
/// Time that a brick takes into device memory, microseconds.
const LOAD_MICROS: u64 = 1_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Rendering {
    me: Who,
    /// Real speed in millionths.
    pub(super) speed: u64,
    /// Bricks in device memory.
    pub(super) bricks: BrickSet,
    rosters: Recent<Roster>,
    costs: Recent<CostTable>,
    /// Oldest first.
    frames: VecDeque<Active>,
    seen: VecDeque<FrameKey>,
    /// What was rendered of frames that may be asked for again, by requester and number: jobs, and
    /// the time that each took, microseconds.
    kept: BTreeMap<(Who, u64), Vec<(PlannedJob, u64)>>,
    busy: bool,
    /// The job that is being rendered, of a frame that is not over; its attempt may be.
    running: Option<(FrameKey, PlannedJob)>,
    loads: VecDeque<(BrickIndex, bool)>,
}

/// A frame that is being rendered here.
#[derive(Debug)]
struct Active {
    key: FrameKey,
    /// When it was asked for.
    since: u64,
    planned: Arc<Planned>,
    work: Work,
    outgoing: Outgoing<Pieces>,
}

/// The last few values under their digests.
#[derive(Debug)]
struct Recent<T>(VecDeque<(Digest, Arc<T>)>);

impl<T> Recent<T> {
    fn get(&self, digest: Digest) -> Option<Arc<T>> {
        let found = self.0.iter().rev().find(|(d, _)| *d == digest);
        found.map(|(_, t)| Arc::clone(t))
    }

    fn put(&mut self, digest: Digest, value: Arc<T>) {
        self.0.push_back((digest, value));
        if self.0.len() > INPUTS_MAX {
            self.0.pop_front();
        }
    }
}

impl Rendering {
    pub(super) fn new(me: Who, speed: u64, brick_count: u32) -> Self {
        Self {
            me,
            speed,
            bricks: BrickSet::new(brick_count),
            rosters: Recent(VecDeque::new()),
            costs: Recent(VecDeque::new()),
            frames: VecDeque::new(),
            seen: VecDeque::new(),
            kept: BTreeMap::new(),
            busy: false,
            running: None,
            loads: VecDeque::new(),
        }
    }

    pub(super) fn take_roster(&mut self, digest: Digest, roster: Arc<Roster>) {
        self.rosters.put(digest, roster);
    }

    pub(super) fn take_costs(&mut self, digest: Digest, costs: Arc<CostTable>) {
        self.costs.put(digest, costs);
    }

    /// A frame is asked for; `is_open`: its data set is known here.
    pub(super) fn start(
        &mut self,
        env: &mut Environment,
        compositing: &mut Compositing,
        requester: Who,
        request: &Request,
        is_open: bool,
    ) {
        let attempt = &request.attempt;
        let frame = attempt.frame;
        let key = (requester, frame);
        let first = attempt.earlier.as_ref();
        let first = first.map_or(attempt.roster, |e| e.roster);
        let rosters = self.rosters.get(attempt.roster);
        let inputs = rosters.zip(self.rosters.get(first));
        let inputs = inputs.zip(self.costs.get(attempt.costs));
        let ((roster, first), costs) = match inputs {
            _ if !is_open => return env.send(self.me, requester, Note::FrameFailed(frame)),
            None => return env.send(self.me, requester, Note::NeedInputs(frame)),
            Some(inputs) => inputs,
        };
        // A request that comes twice is begun once: its jobs would be rendered twice.
        if self.seen.contains(&key) {
            return;
        }
        self.seen.push_back(key);
        if self.seen.len() > SEEN_MAX {
            self.seen.pop_front();
        }
        let asked = Asked {
            view: request.view,
            roster: (attempt.roster, &roster),
            costs: (attempt.costs, &costs),
            earlier: attempt.earlier.as_ref().map(|e| {
                let (roster, rendered) = (&*first, &e.rendered);
                (e.roster, Earlier { roster, rendered })
            }),
        };
        let Some(planned) = env.derive(&asked) else {
            return env.send(self.me, requester, Note::FrameFailed(frame));
        };
        compositing.expect(env, self.me, key, &planned);
        if let Some(index) = planned.plan.index_of(env.name(self.me)) {
            let now = env.now();
            let frames = self.frames.iter();
            let frames = frames.map(|f| (f.key.0, f.is_under_way(now)));
            match admission::place(frames, requester) {
                Place::Free => {}
                Place::InsteadOf(older) => {
                    if let Some(Active { key, .. }) = self.frames.remove(older) {
                        env.send(self.me, key.0, Note::FrameFailed(key.1));
                    }
                }
                Place::None => return env.send(self.me, requester, Note::FrameFailed(frame)),
            }
            self.frames.push_back(Active {
                key,
                since: env.now(),
                work: Work::new(&planned.plan, index, env.rules().steal),
                planned,
                outgoing: Outgoing::default(),
            });
            self.go_on(env);
        }
    }

    /// Whether there is a frame under way.
    pub(super) fn is_under_way(&self, now: u64) -> bool {
        self.frames.iter().any(|f| f.is_under_way(now))
    }

    /// The requester needs a frame no more; `None`: none of its frames.
    pub(super) fn forget(&mut self, requester: Who, frame: Option<FrameId>) {
        let over = |key: &FrameKey| key.0 == requester && frame.is_none_or(|f| f == key.1);
        self.frames.retain(|f| !over(&f.key));
    }

    /// A frame will not be asked for again.
    pub(super) fn over(&mut self, requester: Who, number: u64) {
        self.kept.remove(&(requester, number));
        self.running
            .take_if(|(key, _)| (key.0, key.1.number) == (requester, number));
    }

    /// The time that a job took in this attempt at a frame or an earlier one, if it is kept.
    fn kept_micros(&self, key: FrameKey, job: &PlannedJob) -> Option<u64> {
        let jobs = self.kept.get(&(key.0, key.1.number))?;
        let is_same = |k: &PlannedJob| (k.brick, k.owned) == (job.brick, job.owned);
        let found = jobs.iter().find(|(k, _)| is_same(k));
        found.map(|&(_, micros)| micros)
    }

    fn keep(&mut self, key: FrameKey, job: PlannedJob, micros: u64) {
        let frame = (key.0, key.1.number);
        self.kept.entry(frame).or_default().push((job, micros));
        if self.kept.len() > KEPT_FRAMES_MAX {
            self.kept.pop_first();
        }
    }

    /// A peer cannot be reached any more.
    pub(super) fn lost(&mut self, env: &Environment, peer: Who) {
        self.forget(peer, None);
        self.kept.retain(|(requester, _), _| *requester != peer);
        self.running.take_if(|(key, _)| key.0 == peer);
        for frame in &mut self.frames {
            if let Some(index) = frame.planned.plan.index_of(env.name(peer)) {
                frame.work.lost(index);
            }
        }
    }

    /// A thief or a victim says something.
    pub(super) fn steal(
        &mut self,
        env: &mut Environment,
        from: Who,
        key: FrameKey,
        plan: Digest,
        message: &StealMessage,
    ) {
        let known = |f: &&mut Active| f.key == key && f.planned.plan.digest == plan;
        let Some(frame) = self.frames.iter_mut().find(known) else {
            return;
        };
        if let Some(index) = frame.planned.plan.index_of(env.name(from)) {
            let mut outputs = Vec::new();
            frame.work.heard(index, message, &mut outputs);
            if frame.carry_out(env, self.me, outputs) {
                self.go_on(env);
            }
        }
    }

    /// Questions that were not answered are put again.
    pub(super) fn ask_again(&mut self, env: &mut Environment) {
        for frame in &mut self.frames {
            let mut outputs = Vec::new();
            frame.work.tick(&mut outputs);
            frame.carry_out(env, self.me, outputs);
        }
    }

    /// A brick is to be loaded; `is_true`: the bytes are the brick's.
    pub(super) fn load(&mut self, env: &mut Environment, brick: BrickIndex, is_true: bool) {
        self.loads.push_back((brick, is_true));
        self.go_on(env);
    }

    /// The device has loaded a brick, or found no room for it: then it is not in `bricks`.
    pub(super) fn loaded(&mut self, brick: BrickIndex, is_true: bool, room: u32) {
        self.busy = false;
        if is_true && (self.bricks.len() < room || self.bricks.contains(brick)) {
            self.bricks.insert(brick);
        }
    }

    /// The device has rendered a job.
    pub(super) fn rendered(
        &mut self,
        env: &mut Environment,
        key: FrameKey,
        job: u32,
        (measured_micros, is_kept): (u64, bool),
    ) {
        self.busy = false;
        // Also where its attempt is over: the frame may be asked for again.
        if let Some((key, planned)) = self.running.take() {
            self.keep(key, planned, measured_micros);
        }
        if let Some(frame) = self.frames.iter_mut().find(|f| f.key == key) {
            env.oracle.rendered(key.1, job, self.me);
            let spent = if is_kept { 0 } else { measured_micros };
            frame.job_done(env, self.me, job, (measured_micros, spent));
        }
        self.go_on(env);
    }

    /// Starts what the device does next, or lets this machine steal.
    pub(super) fn go_on(&mut self, env: &mut Environment) {
        if self.busy {
            return;
        }
        if let Some((brick, is_true)) = self.loads.pop_front() {
            self.busy = true;
            let who = self.me;
            let event = Event::Loaded {
                who,
                brick,
                is_true,
            };
            return env.later(LOAD_MICROS, who, event);
        }
        while let Some(at) = self.frames.iter().position(|f| f.work.has_jobs()) {
            let frame = &mut self.frames[at];
            let Some(job) = frame.work.next_job() else {
                break;
            };
            let index = job as usize;
            let (key, who) = (frame.key, self.me);
            let planned = Arc::clone(&frame.planned);
            let brick = planned.plan.jobs[index].brick;
            if let Some(micros) = self.kept_micros(key, &planned.plan.jobs[index]) {
                self.busy = true;
                let event = Event::Rendered {
                    who,
                    key,
                    job,
                    micros,
                    is_kept: true,
                };
                return env.later(0, who, event);
            }
            if !self.bricks.contains(brick) {
                self.frames.remove(at);
                env.send(who, key.0, Note::FrameFailed(key.1));
                continue;
            }
            let cost = u128::from(planned.real_micros[index]) * u128::from(SPEED_ONE);
            let micros = u64::try_from(cost / u128::from(self.speed.max(1))).unwrap_or(u64::MAX);
            self.busy = true;
            self.running = Some((key, planned.plan.jobs[index]));
            env.oracle.renders(who, brick);
            let event = Event::Rendered {
                who,
                key,
                job,
                micros,
                is_kept: false,
            };
            return env.later(micros, who, event);
        }
        for frame in &mut self.frames {
            frame.send_all(env, self.me);
            let mut outputs = Vec::new();
            frame.work.idle(&mut outputs);
            frame.carry_out(env, self.me, outputs);
        }
    }
}

impl Active {
    fn is_under_way(&self, now: u64) -> bool {
        admission::is_under_way(now.saturating_sub(self.since), self.work.is_busy())
    }

    /// Sends what follows from a step of the work; true if jobs came in.
    fn carry_out(&self, env: &mut Environment, me: Who, outputs: Vec<StealOutput>) -> bool {
        let (requester, frame) = self.key;
        let plan = &self.planned.plan;
        let mut render = false;
        for output in outputs {
            match output {
                StealOutput::Send { to, message } => {
                    let to = env.who(&plan.peers[to]);
                    env.send(me, to, Note::Steal(self.key, plan.digest, message));
                }
                StealOutput::Given { jobs, by } => {
                    let by = env.who(&plan.peers[by]);
                    let given = Note::Given(frame, plan.digest, jobs.into(), by);
                    env.send(me, requester, given);
                }
                StealOutput::Render => render = true,
            }
        }
        render
    }

    /// `micros`: what the job took, and what it took in this attempt.
    fn job_done(&mut self, env: &mut Environment, me: Who, job: u32, micros: (u64, u64)) {
        let (measured_micros, spent_micros) = micros;
        let mut outputs = Vec::new();
        self.work.job_done(job, spent_micros, &mut outputs);
        self.carry_out(env, me, outputs);
        let piece = Piece {
            job,
            by: me,
            view: self.planned.view,
        };
        let plan = &self.planned.plan;
        let image = Names::of(piece, plan.jobs[job as usize].rect);
        let follows = |next| self.work.is_queued(next);
        self.outgoing
            .rendered(plan, job, measured_micros, &image, follows);
        let full = self.outgoing.take_full();
        self.send(env, me, full);
        if !self.work.has_jobs() {
            self.send_all(env, me);
        }
    }

    /// Sends all that waits, if nothing more is rendered of this frame for now.
    fn send_all(&mut self, env: &mut Environment, me: Who) {
        let (all, times) = self.outgoing.take_all(&self.planned.plan);
        self.send(env, me, all);
        if !times.is_empty() {
            let times: Arc<[(u32, u64)]> = times.into();
            let (requester, frame) = self.key;
            let done = Note::JobsDone(frame, self.planned.plan.digest, times);
            env.send(me, requester, done);
        }
    }

    fn send(&self, env: &mut Environment, me: Who, parcels: Vec<Parcel<Pieces>>) {
        for (compositor, runs) in parcels {
            let part = |run: Run<Pieces>| Part {
                tile: run.tile,
                first: run.first,
                count: run.count,
                packed: run.image,
            };
            let partial = SentPartial {
                key: self.key,
                partial: Partial {
                    plan: self.planned.plan.digest,
                    parts: runs.into_iter().map(part).collect(),
                    wire_bytes: 0,
                },
            };
            let to = env.who(&self.planned.plan.peers[compositor]);
            if !env.try_send(me, to, Note::Partial(Arc::new(partial))) {
                let (requester, frame) = self.key;
                env.send(me, requester, Note::Unreachable(frame, to));
            }
        }
    }
}

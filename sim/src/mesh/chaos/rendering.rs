//! The scheduler and the device of a machine. What is rendered when is decided by [`FrameWorker`], as at
//! the actors; the device takes the time that the plan says that jobs really take, and makes names in place
//! of pixels.

use super::{
    compositing::Compositing,
    environment::Environment,
    notes::{Note, Piece, Pieces, Request, Who},
    plans::{Asked, Planned},
    queue::Event,
};
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, PeerId,
    balance::{
        cost_table::CostTable,
        frame_plan::{Earlier, FramePlan},
        roster::Roster,
        schedule::SPEED_ONE,
        stealing::StealMessage,
    },
    base::seeded::Seeded,
    data::brick_set::BrickSet,
    frame::{
        compositing::{FrameKey, HiddenJobs, Part, Partial},
        frame_requests::{Complaint, FrameMessage, Named},
        image::named::Names,
        outgoing::Run,
        worker::{Awaits, FrameWorker, WorkerOutput, inputs::FrameInputs},
    },
    mesh::keeper::KeeperInput,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

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
    inputs: FrameInputs,
    worker: FrameWorker<Planned, Pieces>,
    /// Jobs whose rays are to go on: through which bricks, and what they took until now in microseconds.
    unlit: BTreeMap<(FrameKey, u32), (BTreeSet<BrickIndex>, u64)>,
    /// What the device is to do after that.
    tasks: VecDeque<Task>,
    /// What the device does.
    task: Option<Task>,
    /// Bricks that frames need, or need no more, for the keeper.
    pub(super) stages: VecDeque<KeeperInput>,
}

/// Something for the device.
#[derive(Debug)]
enum Task {
    /// A brick, and whether its bytes are the brick's.
    Load(BrickIndex, bool),
    Render(Order),
}

#[derive(Debug)]
struct Order {
    key: FrameKey,
    frame: Arc<Planned>,
    job: u32,
    is_called_off: bool,
}

impl Rendering {
    pub(super) fn new(env: &Environment, me: Who, speed: u64, brick_count: u32) -> Self {
        Self {
            me,
            speed,
            bricks: BrickSet::new(brick_count),
            inputs: FrameInputs::default(),
            worker: FrameWorker::new(env.name(me).clone(), u64::MAX),
            unlit: BTreeMap::new(),
            tasks: VecDeque::new(),
            task: None,
            stages: VecDeque::new(),
        }
    }

    pub(super) fn open(&mut self, manifest: Arc<Manifest>) {
        self.inputs.open(manifest);
    }

    pub(super) fn close(&mut self, data_set: Digest) {
        self.inputs.close(data_set);
        self.worker.closed(data_set);
    }

    /// The machine holds these bricks.
    pub(super) fn holds(&mut self, env: &mut Environment, data_set: Digest, held: BrickSet) {
        self.step(env, |worker, out| {
            worker.holds(data_set, Arc::new(held), out)
        });
    }

    /// A brick that a frame needs is there, or cannot be had.
    pub(super) fn staged(
        &mut self,
        env: &mut Environment,
        name: (Digest, BrickIndex),
        (question, is_there): (u64, bool),
    ) {
        let bytes = is_there.then(|| self.inputs.brick_bytes(name));
        self.step(env, |worker, out| worker.staged(name, question, bytes, out));
    }

    /// The memory of a brick that frames needed was freed.
    pub(super) fn freed(&mut self, name: (Digest, BrickIndex)) {
        self.worker.freed(name);
    }

    pub(super) fn take_roster(&mut self, roster: Named<Roster>) {
        self.inputs.put_roster(roster);
    }

    pub(super) fn take_costs(&mut self, costs: Named<CostTable>) {
        self.inputs.put_costs(costs);
    }

    /// A frame is asked for.
    pub(super) fn start(
        &mut self,
        env: &mut Environment,
        compositing: &mut Compositing,
        requester: Who,
        request: &Request,
    ) {
        let (attempt, me) = (&request.attempt, self.me);
        let frame = attempt.frame;
        let data_set = env.plans().manifest.digest();
        let found = match self.inputs.find(data_set, attempt) {
            Ok(found) => found,
            Err(message) => return env.send(me, requester, Note::Reply(frame, message)),
        };
        let key = (env.name(requester).clone(), frame);
        if self.worker.was_begun(&key) {
            return;
        }
        let asked = Asked {
            view: request.view,
            rules: attempt.rules,
            roster: (attempt.roster, found.roster),
            costs: (attempt.costs, found.costs),
            earlier: attempt.earlier.as_ref().map(|e| {
                let (roster, rendered) = (found.first, &e.rendered);
                (e.roster, Earlier { roster, rendered })
            }),
        };
        let Some(planned) = env.derive(&asked) else {
            let why = "there is no plan".to_owned();
            return env.send(
                me,
                requester,
                Note::Reply(frame, FrameMessage::Failed { why }),
            );
        };
        compositing.expect(env, me, (requester, frame), &planned);
        let (now, steal) = (env.now(), attempt.rules.steal);
        self.step(env, |worker, out| {
            worker.begin(now, (key, data_set), planned, steal, out)
        });
    }

    /// Whether there is a frame under way.
    pub(super) fn is_under_way(&self, now: u64) -> bool {
        self.worker.is_under_way(now)
    }

    /// The requester needs an attempt at a frame no more.
    pub(super) fn cancel(&mut self, env: &mut Environment, key: &FrameKey, is_over: bool) {
        self.unlit.retain(|((by, frame), _), _| {
            *by != key.0 || frame.number != key.1.number || frame.attempt > key.1.attempt
        });
        self.step(env, |worker, out| {
            if is_over {
                worker.over(&key.0, Some(key.1.number), out);
            } else {
                worker.cancel(key, out);
            }
        });
    }

    /// A peer cannot be reached any more.
    pub(super) fn lost(&mut self, env: &mut Environment, peer: &PeerId) {
        self.unlit.retain(|(key, _), _| key.0 != *peer);
        self.step(env, |worker, out| worker.lost(peer, out));
    }

    /// A thief or a victim says something.
    pub(super) fn steal(
        &mut self,
        env: &mut Environment,
        from: &PeerId,
        key: &FrameKey,
        plan: Digest,
        message: &StealMessage,
    ) {
        self.step(env, |worker, out| {
            worker.heard(from, key, plan, message, out)
        });
    }

    /// A compositor says which jobs are hidden in a tile.
    pub(super) fn are_hidden(&mut self, env: &mut Environment, from: &PeerId, hidden: &HiddenJobs) {
        self.step(env, |worker, out| worker.are_hidden(from, hidden, out));
    }

    /// Questions that were not answered are put again.
    pub(super) fn ask_again(&mut self, env: &mut Environment) {
        let now = env.now();
        self.step(env, |worker, out| worker.ask_again(now, out));
    }

    /// A brick is to be loaded; `is_true`: the bytes are the brick's.
    pub(super) fn load(&mut self, env: &mut Environment, brick: BrickIndex, is_true: bool) {
        self.give_device(env, Task::Load(brick, is_true));
    }

    /// The device has loaded a brick, or found no room for it: then it is not in `bricks`.
    pub(super) fn loaded(&mut self, brick: BrickIndex, is_true: bool, room: u32) {
        self.task = None;
        if is_true && (self.bricks.len() < room || self.bricks.contains(brick)) {
            self.bricks.insert(brick);
        }
    }

    /// The device has rendered a job, which took so many microseconds.
    pub(super) fn rendered(&mut self, env: &mut Environment, micros: u64) {
        let Some(Task::Render(order)) = self.task.take() else {
            return env.oracle.broken("a device did what it was not told");
        };
        let Order {
            key, frame, job, ..
        } = order;
        let begun = self.unlit.remove(&(key.clone(), job));
        let (mut ahead, before) = begun.unwrap_or_else(|| (on_rays(&frame.plan, job), 0));
        ahead.retain(|&brick| !self.bricks.contains(brick));
        if !order.is_called_off && !ahead.is_empty() {
            let awaits = Awaits {
                bricks: ahead.iter().copied().collect(),
                bytes: UNLIT_BYTES,
            };
            let begun = (ahead, before + micros);
            self.unlit.insert((key.clone(), job), begun);
            self.step(env, |worker, out| {
                worker.put_aside(&key, job, (micros, awaits), out);
            });
            return self.next_task(env);
        }
        let micros = micros + before;
        let piece = Piece {
            job,
            by: self.me,
            view: frame.view,
        };
        let planned = &frame.plan.jobs[job as usize];
        let mut image = Names::of(piece, planned.rect);
        if env.plans().is_opaque(planned.brick) {
            image = image.opaque();
        }
        self.step(env, |worker, out| {
            if order.is_called_off {
                worker.not_rendered(&key, job, None, out);
            } else {
                worker.rendered(&key, [(job, (image, micros))], out);
            }
        });
        self.next_task(env);
    }

    fn give_device(&mut self, env: &mut Environment, task: Task) {
        self.tasks.push_back(task);
        self.next_task(env);
    }

    /// The device begins what it is to do next, if it is done with what it did.
    pub(super) fn next_task(&mut self, env: &mut Environment) {
        let who = self.me;
        while self.task.is_none()
            && let Some(task) = self.tasks.pop_front()
        {
            match &task {
                &Task::Load(brick, is_true) => {
                    let event = Event::Loaded {
                        who,
                        brick,
                        is_true,
                    };
                    env.later(LOAD_MICROS, who, event);
                }
                Task::Render(order) => {
                    let index = order.job as usize;
                    let brick = order.frame.plan.jobs[index].brick;
                    let is_unlit = self.unlit.contains_key(&(order.key.clone(), order.job));
                    let is_here = is_unlit || self.bricks.contains(brick);
                    if order.is_called_off || !is_here {
                        let why = (!order.is_called_off).then_some("the brick is not here");
                        let (key, job) = (&order.key, order.job);
                        self.step(env, |worker, out| worker.not_rendered(key, job, why, out));
                        continue;
                    }
                    if !is_unlit {
                        env.oracle.renders(who, brick);
                    }
                    let cost = u128::from(order.frame.real_micros[index]) * u128::from(SPEED_ONE);
                    let micros = cost / u128::from(self.speed.max(1));
                    let micros = u64::try_from(micros).unwrap_or(u64::MAX);
                    env.later(micros, who, Event::Rendered { who, micros });
                }
            }
            self.task = Some(task);
        }
    }

    /// Lets the worker decide, and does what it says.
    fn step(
        &mut self,
        env: &mut Environment,
        input: impl FnOnce(&mut FrameWorker<Planned, Pieces>, &mut Vec<WorkerOutput<Planned, Pieces>>),
    ) {
        let mut out = Vec::new();
        input(&mut self.worker, &mut out);
        loop {
            for output in out.drain(..) {
                self.carry_out(env, output);
            }
            if !self.worker.resume(&mut out) {
                return;
            }
        }
    }

    fn carry_out(&mut self, env: &mut Environment, output: WorkerOutput<Planned, Pieces>) {
        let me = self.me;
        match output {
            WorkerOutput::Render {
                key, frame, jobs, ..
            } => {
                for job in jobs {
                    let order = Order {
                        key: key.clone(),
                        frame: Arc::clone(&frame),
                        job,
                        is_called_off: false,
                    };
                    self.give_device(env, Task::Render(order));
                }
            }
            WorkerOutput::Stage(data_set, brick, question) => {
                let stage = KeeperInput::Stage(data_set, brick, question);
                self.stages.push_back(stage);
            }
            WorkerOutput::Release(data_set, brick) => {
                self.stages.push_back(KeeperInput::Release(data_set, brick));
            }
            // Its jobs are short.
            WorkerOutput::PutAside { .. } => {}
            // What was sent is on its way.
            WorkerOutput::CallOff { is_over: false, .. } => {}
            WorkerOutput::CallOff { frame, .. } => {
                for task in self.tasks.iter_mut().chain(&mut self.task) {
                    if let Task::Render(order) = task
                        && Arc::ptr_eq(&order.frame, &frame)
                    {
                        order.is_called_off = true;
                    }
                }
            }
            WorkerOutput::Tell(key, message) => {
                if let FrameMessage::JobsDone { jobs, .. } = &message {
                    for &(job, _) in jobs {
                        env.oracle.rendered(key.1, job, me);
                    }
                }
                let requester = env.who(&key.0);
                env.send(me, requester, Note::Reply(key.1, message));
            }
            WorkerOutput::Steal {
                key,
                plan,
                to,
                message,
            } => {
                let (to, key) = (env.who(&to), (env.who(&key.0), key.1));
                env.send(me, to, Note::Steal(key, plan, message));
            }
            WorkerOutput::Runs {
                key,
                frame,
                to,
                runs,
            } => send_runs(env, me, &key, &frame, to, runs),
        }
    }
}

/// Memory of a job whose rays wait, bytes: few are waited for at a time.
const UNLIT_BYTES: u64 = 24 << 20;
/// Most bricks that the rays of a job go on through.
const ON_RAYS_MAX: u64 = 4;

/// The bricks that the rays of a job go on through.
fn on_rays(plan: &FramePlan, job: u32) -> BTreeSet<BrickIndex> {
    let digest = plan.digest.as_bytes().iter().take(8);
    let seed = digest.fold(u64::from(job), |s, &b| s.rotate_left(8) ^ u64::from(b));
    let casters: Vec<BrickIndex> = plan.casters.iter().collect();
    if casters.is_empty() {
        return BTreeSet::new();
    }
    let mut draws = Seeded::new(seed);
    let count = draws.below(ON_RAYS_MAX + 1);
    let all = (0..count).map(|_| draws.below(casters.len() as u64));
    let all = all.filter_map(|at| casters.get(usize::try_from(at).ok()?).copied());
    all.collect()
}

fn send_runs(
    env: &mut Environment,
    me: Who,
    key: &FrameKey,
    frame: &Planned,
    compositor: usize,
    runs: Vec<Run<Pieces>>,
) {
    let part = |run: Run<Pieces>| Part {
        tile: run.tile,
        first: run.first,
        count: run.count,
        pixels: run.image,
    };
    let partial = Partial {
        key: key.clone(),
        plan: frame.plan.digest,
        parts: runs.into_iter().map(part).collect(),
    };
    let peer = &frame.plan.peers[compositor];
    let to = env.who(peer);
    if !env.try_send(me, to, Note::Partial(Arc::new(partial))) {
        let unreachable = FrameMessage::Complaint {
            about: peer.clone(),
            what: Complaint::Unreachable,
        };
        let requester = env.who(&key.0);
        env.send(me, requester, Note::Reply(key.1, unreachable));
    }
}

//! The scheduler: for every frame that a peer asks for, derives the plan from the inputs that the
//! request names, and starts this peer's part of it. The decision itself is topology's.

use crate::{
    bus::Lane,
    compositor::{Compositor, ExpectFrame},
    messages::{FrameId, FrameRequest, Message},
    outbox::Outbox,
    raycaster::{Raycaster, RenderFrame},
};
use actix::{Actor, Addr, Context, Handler};
use brickmesh_shaders::Scene;
use brickmesh_topology::{
    Digest, Manifest, PeerId,
    frame_plan::{CostTable, FramePlan, PlanInputs, Roster},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Rosters and cost tables that are kept under their names; older ones are asked for again.
const INPUTS_MAX: usize = 64;
/// Frames under way at a time; the oldest is cancelled.
const FRAMES_MAX: usize = 32;

/// What the scheduler is told.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub enum SchedulerInput {
    /// A message from a peer.
    Said(PeerId, Message),
    /// A peer is gone: its frames need no work any more.
    Lost(PeerId),
    /// A data set is known now.
    Opened(Arc<Manifest>),
}

/// See the module.
#[derive(Debug)]
pub struct Scheduler {
    outbox: Outbox,
    raycaster: Addr<Raycaster>,
    compositor: Addr<Compositor>,
    data_sets: BTreeMap<Digest, Arc<Manifest>>,
    rosters: Recent<Roster>,
    costs: Recent<CostTable>,
    running: VecDeque<((PeerId, FrameId), Arc<AtomicBool>)>,
}

/// The last few values under their digests.
#[derive(Debug)]
struct Recent<T>(VecDeque<(Digest, T)>);

impl<T> Recent<T> {
    fn get(&self, digest: Digest) -> Option<&T> {
        self.0
            .iter()
            .rev()
            .find(|(d, _)| *d == digest)
            .map(|(_, t)| t)
    }

    fn put(&mut self, digest: Digest, value: T) {
        self.0.push_back((digest, value));
        if self.0.len() > INPUTS_MAX {
            self.0.pop_front();
        }
    }
}

impl Scheduler {
    /// A scheduler without data sets.
    #[must_use]
    pub fn new(outbox: Outbox, raycaster: Addr<Raycaster>, compositor: Addr<Compositor>) -> Self {
        Self {
            outbox,
            raycaster,
            compositor,
            data_sets: BTreeMap::new(),
            rosters: Recent(VecDeque::new()),
            costs: Recent(VecDeque::new()),
            running: VecDeque::new(),
        }
    }

    fn start(&mut self, requester: &PeerId, request: &FrameRequest) {
        let frame = request.frame;
        let inputs = self
            .rosters
            .get(request.roster)
            .zip(self.costs.get(request.costs));
        let answer = match (self.data_sets.get(&request.data_set), inputs) {
            (None, _) => {
                let why = format!("data set {} is not known here", request.data_set.short());
                Some(Message::FrameFailed { frame, why })
            }
            (_, None) => Some(Message::NeedInputs { frame }),
            (Some(manifest), Some((roster, costs))) => match plan(request, manifest, roster, costs)
            {
                Ok((scene, plan)) => {
                    self.run(requester, frame, scene, plan);
                    None
                }
                Err(why) => Some(Message::FrameFailed { frame, why }),
            },
        };
        if let Some(message) = answer {
            self.outbox.send_or_log(requester, Lane::Control, message);
        }
    }

    fn run(&mut self, requester: &PeerId, frame: FrameId, scene: Scene, plan: FramePlan) {
        let cancelled = Arc::new(AtomicBool::new(false));
        self.running
            .push_back(((requester.clone(), frame), Arc::clone(&cancelled)));
        if self.running.len() > FRAMES_MAX
            && let Some((_, oldest)) = self.running.pop_front()
        {
            oldest.store(true, Ordering::Relaxed);
        }
        let (plan, scene) = (Arc::new(plan), Arc::new(scene));
        let requester = requester.clone();
        let expect = ExpectFrame {
            requester: requester.clone(),
            frame,
            plan: Arc::clone(&plan),
        };
        let work = RenderFrame {
            requester: requester.clone(),
            frame,
            scene,
            plan,
            cancelled,
        };
        if self.compositor.try_send(expect).is_err() || self.raycaster.try_send(work).is_err() {
            let why = "too many frames are under way here".to_owned();
            self.outbox.send_or_log(
                &requester,
                Lane::Control,
                Message::FrameFailed { frame, why },
            );
        }
    }

    fn cancel(&mut self, which: impl Fn(&PeerId, FrameId) -> bool) {
        self.running.retain(|((requester, frame), cancelled)| {
            let hit = which(requester, *frame);
            if hit {
                cancelled.store(true, Ordering::Relaxed);
            }
            !hit
        });
    }
}

/// Checks a request and derives its plan; the error is for people.
fn plan(
    request: &FrameRequest,
    manifest: &Manifest,
    roster: &Roster,
    costs: &CostTable,
) -> Result<(Scene, FramePlan), String> {
    request.view.validate().map_err(|e| e.to_string())?;
    request.transfer.validate().map_err(|e| e.to_string())?;
    if !(request.step.is_finite() && request.step > 0.0) {
        return Err(format!(
            "step is {}; it must be a positive finite number",
            request.step
        ));
    }
    roster
        .validate(manifest.grid().brick_count())
        .map_err(|e| e.to_string())?;
    let inputs = PlanInputs {
        manifest,
        view: &request.view,
        transfer: &request.transfer,
        roster,
        costs,
    };
    let plan = FramePlan::derive(&inputs).map_err(|e| e.to_string())?;
    Ok((request.scene(manifest), plan))
}

impl FrameRequest {
    /// What the frame shows of the data set.
    #[must_use]
    pub fn scene(&self, manifest: &Manifest) -> Scene {
        Scene {
            data_set: self.data_set,
            volume: manifest.volume().clone(),
            view: self.view,
            transfer: self.transfer.clone(),
            step: self.step,
            shade: self.shade,
        }
    }
}

impl Actor for Scheduler {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(crate::bus::EVENTS_MAX);
    }
}

impl Handler<SchedulerInput> for Scheduler {
    type Result = ();

    fn handle(&mut self, input: SchedulerInput, _: &mut Self::Context) {
        match input {
            SchedulerInput::Opened(manifest) => {
                self.data_sets.insert(manifest.digest(), manifest);
            }
            SchedulerInput::Lost(peer) => self.cancel(|requester, _| *requester == peer),
            SchedulerInput::Said(_, Message::Roster(roster)) => {
                self.rosters.put(roster.digest(), roster);
            }
            SchedulerInput::Said(_, Message::Costs(costs)) => self.costs.put(costs.digest(), costs),
            SchedulerInput::Said(from, Message::Frame(request)) => self.start(&from, &request),
            SchedulerInput::Said(from, Message::Cancel { frame }) => {
                self.cancel(|requester, f| *requester == from && f == frame);
            }
            SchedulerInput::Said(from, _) => {
                tracing::warn!(peer = from.short(), "a message came to the wrong actor");
            }
        }
    }
}

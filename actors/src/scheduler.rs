//! The scheduler: for every frame that a peer asks for, derives the plan from the inputs that the
//! request names, starts this peer's part of it, and carries what thieves and victims say to each
//! other. The decisions themselves are topology's.

use crate::{
    budget::Budget,
    bus::Lane,
    compositor::{Compositor, ExpectFrame, ForgetFrames},
    messages::{FrameId, FrameRequest, Message, StealNote},
    outbox::Outbox,
    raycaster::{Raycaster, WakeUp},
    render_queue::{ActiveFrame, RenderQueue},
    visible_cells_cache::VisibleCellsCache,
};
use actix::{Actor, Addr, AsyncContext, Context, Handler};
use brickmesh_shaders::Scene;
use brickmesh_topology::{
    Digest, Manifest, PeerId,
    balance::{
        cost_table::CostTable,
        frame_plan::{Earlier, FramePlan, PlanInputs},
        roster::Roster,
        stealing::{StealOutput, Work},
    },
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Memory that the rosters take which are kept under their names, in bytes, and as much the cost
/// tables. Older ones are forgotten, and asked for again if a frame names them.
const INPUT_BYTES_MAX: usize = 64 << 20;
/// Most rosters, and most cost tables, however small.
const INPUTS_MAX: usize = 64;
/// Frames that may be on their way to the compositor: it falls behind when it waits for a slow
/// requester, and each has a plan.
const EXPECTED_MAX: u32 = 64;
/// How long a thief waits for an answer before it asks again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

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
    /// A data set is not held any more.
    Closed(Digest),
}

/// See the module.
#[derive(Debug)]
pub struct Scheduler {
    outbox: Outbox,
    queue: RenderQueue,
    raycaster: Addr<Raycaster>,
    compositor: Addr<Compositor>,
    expected: Budget,
    visible_cells: VisibleCellsCache,
    data_sets: BTreeMap<Digest, Arc<Manifest>>,
    rosters: Recent<Roster>,
    costs: Recent<CostTable>,
}

/// The last few values under their digests, as many as memory is given to.
#[derive(Debug)]
struct Recent<T> {
    values: VecDeque<(Digest, usize, T)>,
    bytes: usize,
    bytes_max: usize,
}

impl<T> Recent<T> {
    fn new(bytes_max: usize) -> Self {
        Self {
            values: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    fn get(&self, digest: Digest) -> Option<&T> {
        let found = self.values.iter().rev().find(|(d, ..)| *d == digest);
        found.map(|(.., value)| value)
    }

    /// Takes a value in, and forgets older ones as there is need; the youngest is kept in any case.
    fn put(&mut self, digest: Digest, bytes: usize, value: T) {
        self.values.push_back((digest, bytes, value));
        self.bytes += bytes;
        let is_full = |r: &Self| r.bytes > r.bytes_max || r.values.len() > INPUTS_MAX;
        while self.values.len() > 1 && is_full(self) {
            if let Some((_, bytes, _)) = self.values.pop_front() {
                self.bytes -= bytes;
            }
        }
    }
}

impl Scheduler {
    /// A scheduler without data sets.
    #[must_use]
    pub fn new(
        outbox: Outbox,
        queue: RenderQueue,
        raycaster: Addr<Raycaster>,
        compositor: Addr<Compositor>,
    ) -> Self {
        Self {
            outbox,
            queue,
            raycaster,
            compositor,
            expected: Budget::new(EXPECTED_MAX),
            visible_cells: VisibleCellsCache::default(),
            data_sets: BTreeMap::new(),
            rosters: Recent::new(INPUT_BYTES_MAX),
            costs: Recent::new(INPUT_BYTES_MAX),
        }
    }

    fn start(&mut self, requester: &PeerId, request: &FrameRequest) {
        let frame = request.frame;
        let first = request.earlier.as_ref().map(|e| e.roster);
        let first = first.unwrap_or(request.roster);
        let rosters = self.rosters.get(request.roster);
        let rosters = rosters.zip(self.rosters.get(first));
        let inputs = rosters.zip(self.costs.get(request.costs));
        let answer = match (self.data_sets.get(&request.data_set), inputs) {
            (None, _) => {
                let why = format!("data set {} is not known here", request.data_set.short());
                Some(Message::FrameFailed { frame, why })
            }
            (_, None) => Some(Message::NeedInputs { frame }),
            (Some(manifest), Some((rosters, costs))) => {
                match plan(request, manifest, rosters, costs, &mut self.visible_cells) {
                    Ok((scene, plan)) => {
                        self.run(requester, request, scene, plan);
                        None
                    }
                    Err(why) => Some(Message::FrameFailed { frame, why }),
                }
            }
        };
        if let Some(message) = answer {
            self.outbox.send_or_log(requester, Lane::Control, message);
        }
    }

    fn forget(&self, requester: PeerId, frame: Option<FrameId>) {
        let forget = ForgetFrames { requester, frame };
        if self.compositor.try_send(forget).is_err() {
            tracing::warn!("the compositor has ended");
        }
    }

    fn run(&self, requester: &PeerId, request: &FrameRequest, scene: Scene, plan: FramePlan) {
        let (plan, frame) = (Arc::new(plan), request.frame);
        let expected = self.expected.try_take(1).map(|room| ExpectFrame {
            requester: requester.clone(),
            frame,
            plan: Arc::clone(&plan),
            room,
        });
        let full = expected.is_none_or(|e| self.compositor.try_send(e).is_err());
        let mut not_rendered = full.then(|| (requester.clone(), frame));
        // A peer that is not in the roster has nothing to render and nobody to steal from.
        if let Some(me) = plan.index_of(self.outbox.local()).filter(|_| !full) {
            let work = Work::new(&plan, me, request.rules.steal);
            let key = (requester.clone(), frame);
            let active = ActiveFrame::new(key.clone(), scene, plan, work);
            not_rendered = self.queue.push(Arc::new(active));
            if self.raycaster.try_send(WakeUp).is_err() {
                self.queue.drop_frames(|k| *k == key);
                not_rendered = Some(key);
            }
        }
        if let Some((requester, frame)) = not_rendered {
            let why = "too many frames are under way here".to_owned();
            let failed = Message::FrameFailed { frame, why };
            self.outbox.send_or_log(&requester, Lane::Control, failed);
        }
    }

    fn steal(&self, from: &PeerId, note: &StealNote) {
        let key = (PeerId::new(&note.requester), note.frame);
        // A frame that is not known yet, or not any more: the thief asks again while it needs to.
        let Some(frame) = self.queue.get(&key).filter(|f| f.plan.digest == note.plan) else {
            return;
        };
        if let Some(index) = frame.plan.index_of(from) {
            let mut outputs = Vec::new();
            frame.work().heard(index, &note.message, &mut outputs);
            self.carry_out(&frame, outputs);
        }
    }

    fn carry_out(&self, frame: &ActiveFrame, outputs: Vec<StealOutput>) {
        if frame.carry_out(outputs, &self.outbox) && self.raycaster.try_send(WakeUp).is_err() {
            tracing::warn!("the raycaster's mailbox is full: stolen jobs wait for the next frame");
        }
    }

    fn ask_again(&self) {
        for frame in self.queue.all() {
            let mut outputs = Vec::new();
            frame.work().tick(&mut outputs);
            self.carry_out(&frame, outputs);
        }
    }

    fn lost(&self, peer: &PeerId) {
        for frame in self.queue.all() {
            if let Some(index) = frame.plan.index_of(peer) {
                frame.work().lost(index);
            }
        }
    }
}

/// Checks a request and derives its plan, for a roster and that of the frame's first attempt; the
/// error is for people.
fn plan(
    request: &FrameRequest,
    manifest: &Manifest,
    (roster, first): (&Roster, &Roster),
    costs: &CostTable,
    visible_cells: &mut VisibleCellsCache,
) -> Result<(Scene, FramePlan), String> {
    request.view.validate().map_err(|e| e.to_string())?;
    let volume = manifest.volume();
    let is_valid = request.settings.validate(volume);
    is_valid.map_err(|e| e.to_string())?;
    let bricks = manifest.grid().brick_count();
    roster.validate(bricks).map_err(|e| e.to_string())?;
    if request.earlier.is_some() {
        first.validate(bricks).map_err(|e| e.to_string())?;
    }
    costs.validate(manifest.grid()).map_err(|e| e.to_string())?;
    let visible = visible_cells.cells(manifest, &request.settings);
    let inputs = PlanInputs {
        manifest,
        view: &request.view,
        settings: &request.settings,
        visible: &visible,
        roster,
        costs,
        rules: &request.rules,
        earlier: request.earlier.as_ref().map(|e| Earlier {
            roster: first,
            rendered: &e.rendered,
        }),
    };
    let plan = FramePlan::derive(&inputs).map_err(|e| e.to_string())?;
    let scene = Scene::new(manifest, request.view, request.settings.clone());
    Ok((scene, plan))
}

impl Actor for Scheduler {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(crate::bus::EVENTS_MAX);
        ctx.run_interval(ASK_AGAIN, |scheduler, _| scheduler.ask_again());
    }
}

impl Handler<SchedulerInput> for Scheduler {
    type Result = ();

    fn handle(&mut self, input: SchedulerInput, _: &mut Self::Context) {
        match input {
            SchedulerInput::Opened(manifest) => {
                self.data_sets.insert(manifest.digest(), manifest);
            }
            SchedulerInput::Closed(data_set) => {
                self.data_sets.remove(&data_set);
            }
            SchedulerInput::Lost(peer) => {
                self.queue.over(&peer, None);
                self.lost(&peer);
                self.forget(peer, None);
            }
            SchedulerInput::Said(from, Message::Steal(note)) => self.steal(&from, &note),
            SchedulerInput::Said(_, Message::Roster(roster)) => {
                self.rosters
                    .put(roster.digest(), roster.memory_bytes(), roster);
            }
            SchedulerInput::Said(_, Message::Costs(costs)) => {
                self.costs.put(costs.digest(), costs.memory_bytes(), costs);
            }
            SchedulerInput::Said(from, Message::Frame(request)) => self.start(&from, &request),
            SchedulerInput::Said(from, Message::Cancel { frame, is_over }) => {
                if is_over {
                    self.queue.over(&from, Some(frame.number));
                } else {
                    self.queue.drop_frames(|key| *key == (from.clone(), frame));
                }
                self.forget(from, Some(frame));
            }
            SchedulerInput::Said(from, _) => {
                tracing::warn!(peer = from.short(), "a message came to the wrong actor");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_kept_as_far_as_their_memory_goes_the_youngest_in_any_case() {
        let name = |n: u8| Digest::of(&[n]);
        let mut recent = Recent::new(100);
        for n in 0..4 {
            recent.put(name(n), 40, n);
        }
        assert_eq!(recent.get(name(1)), None);
        assert_eq!(
            (recent.get(name(2)), recent.get(name(3))),
            (Some(&2), Some(&3))
        );
        recent.put(name(9), 1000, 9);
        assert_eq!((recent.get(name(3)), recent.get(name(9))), (None, Some(&9)));
        recent.put(name(10), 1, 10);
        assert_eq!((recent.values.len(), recent.bytes), (1, 1));
        for n in 0..=INPUTS_MAX {
            recent.put(name(u8::try_from(n).unwrap()), 0, 0);
        }
        assert_eq!(recent.values.len(), INPUTS_MAX);
    }
}

//! The requester: asks the mesh for frames and gathers their tiles and times. Who takes part, and what
//! to do when something is late or lost, is decided by [`FrameRequests`] in topology.

mod frame;
mod pending;

pub use frame::{Frame, FrameError, FrameStats, FrameTrace, JobStats};

use crate::{
    bus::Lane,
    inputs::{Addresses, OwnerInput, RequesterInput},
    messages::{FrameId, FrameMessage, Message},
    outbox::Outbox,
};
use actix::{
    Actor, ActorFutureExt as _, AsyncContext, Context, Handler,
    dev::{MessageResponse, OneshotSender},
    fut::wrap_future,
};
use brickmesh_shaders::SubImage;
use brickmesh_topology::{
    Digest, Manifest, PeerId, RenderSettings, View,
    balance::{
        frame_plan::{Earlier, FramePlan, PlanInputs},
        plan_rules::{Division, PlanRules},
    },
    frame::{
        frame_requests::{
            AttemptInputs, EndedFrame, FrameOrder, FrameRequests, FramesInput, FramesOutput,
        },
        image::Packed as _,
    },
    mesh::keeper::FrameTimes,
    picture::visible_cells::VisibleCellsCache,
};
use pending::{Answer, ArrivedTile, Pending, finish};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

/// Frames that may be under way at a time; more are refused.
pub const FRAMES_IN_FLIGHT_MAX: usize = 4;

/// Asks for a frame. Who no longer waits for the answer (drops the request) calls the frame off, on all
/// peers.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "Result<Frame, FrameError>")]
pub struct AskFrame {
    /// The data set.
    pub data_set: Digest,
    /// The rays.
    pub view: View,
    /// What is to be seen.
    pub settings: RenderSettings,
    /// How it is planned.
    pub rules: PlanRules,
    /// Whether peers tell what they did when: [`FrameStats::trace`].
    pub is_traced: bool,
    /// Where its tiles go as they come, before the frame is whole, as far as there is room.
    pub tiles: Option<mpsc::Sender<SubImage>>,
}

/// See the module.
#[derive(Debug)]
pub struct Requester {
    outbox: Outbox,
    next: u64,
    started: Instant,
    frames: FrameRequests,
    manifests: BTreeMap<Digest, Arc<Manifest>>,
    visible_cells: VisibleCellsCache,
    pending: BTreeMap<u64, Pending>,
    addresses: Addresses,
}

impl Requester {
    /// A requester that asks through `outbox`.
    #[must_use]
    pub fn new(outbox: Outbox, addresses: Addresses) -> Self {
        Self {
            frames: FrameRequests::new(outbox.local().clone()),
            outbox,
            next: 0,
            started: Instant::now(),
            manifests: BTreeMap::new(),
            visible_cells: VisibleCellsCache::default(),
            pending: BTreeMap::new(),
            addresses,
        }
    }

    fn ask(&mut self, ask: AskFrame, answer: Answer, ctx: &mut Context<Self>) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.pending.len() >= FRAMES_IN_FLIGHT_MAX {
            finish(answer, Err(FrameError::TooMany));
            return number;
        }
        let is_open = matches!(ask.rules.division, Division::Auto { .. });
        let rules = if is_open && ask.settings.has_secondary_rays() {
            ask.rules.for_rays()
        } else {
            ask.rules
        };
        let data_set = ask.data_set;
        self.tell_of_fetches(&ask);
        self.pending.insert(number, Pending::new(ask, answer));
        let wanted = FramesInput::Ask {
            number,
            data_set,
            rules,
        };
        self.step(wanted, ctx);
        number
    }

    /// Peers are to keep room for what they fetch for a frame.
    fn tell_of_fetches(&self, ask: &AskFrame) {
        if ask.rules.fetches() {
            self.tell_owner(OwnerInput::Fetches(ask.data_set));
        }
    }

    /// Microseconds since this actor was made.
    fn now(&self) -> u64 {
        micros(self.started.elapsed())
    }

    fn step(&mut self, input: FramesInput, ctx: &mut Context<Self>) {
        self.step_with(input, None, ctx);
    }

    /// Lets the frames decide, and does what they say. `tile`: what came with the input.
    fn step_with(
        &mut self,
        input: FramesInput,
        tile: Option<ArrivedTile>,
        ctx: &mut Context<Self>,
    ) {
        let mut out = Vec::new();
        self.frames.step(self.now(), input, &mut out);
        let mut tile = tile;
        for output in out {
            match output {
                FramesOutput::Plan(frame, inputs) => self.plan(frame, &inputs, ctx),
                FramesOutput::Begin(frame, plan) => {
                    if let Some(p) = self.pending.get_mut(&frame.number) {
                        p.begins(plan);
                    }
                }
                FramesOutput::Send(peer, order) => self.send(&peer, order),
                FramesOutput::Take(frame) => {
                    let pending = self.pending.get_mut(&frame.number);
                    if let Some((p, tile)) = pending.zip(tile.take()) {
                        p.take(tile);
                    }
                }
                FramesOutput::Wake { number, at } => self.wake(number, at, ctx),
                FramesOutput::Prolonged(frame, why) => {
                    tracing::debug!(
                        frame_id = frame.number,
                        %why,
                        "a frame takes longer than was expected; it is waited for"
                    );
                    if let Some(p) = self.pending.get(&frame.number) {
                        self.tell_of_fetches(&p.ask);
                    }
                }
                FramesOutput::AskedAgain(frame, without, why) => {
                    let without: Vec<&str> = without.iter().map(PeerId::short).collect();
                    tracing::warn!(
                        frame_id = frame.number,
                        ?without,
                        %why,
                        "a frame is asked for again"
                    );
                }
                FramesOutput::Late(peers) => {
                    self.tell_owner(OwnerInput::Late(peers.into_iter().collect()));
                }
                FramesOutput::Ended(ended) => self.ended(*ended),
            }
        }
    }

    /// Derives the plans of an attempt.
    fn plan(&mut self, frame: FrameId, inputs: &[AttemptInputs], ctx: &mut Context<Self>) {
        let Some(p) = self.pending.get_mut(&frame.number) else {
            return;
        };
        let Some(manifest) = self.manifests.get(&p.ask.data_set) else {
            let data_set = p.ask.data_set;
            return self.fail(frame.number, FrameError::NobodyHolds { data_set }, ctx);
        };
        let start = Instant::now();
        let visible = self.visible_cells.cells(manifest, &p.ask.settings);
        let plan = |inputs: &AttemptInputs| {
            let earlier = inputs.earlier.as_ref();
            let plan = FramePlan::derive(&PlanInputs {
                manifest,
                view: &p.ask.view,
                settings: &p.ask.settings,
                visible: &visible,
                roster: &inputs.roster.value,
                costs: &inputs.costs.value,
                rules: &inputs.rules,
                earlier: earlier.map(|e| Earlier {
                    roster: &e.roster.value,
                    rendered: &e.rendered,
                }),
            });
            plan.map(Arc::new)
        };
        let plans: Result<_, _> = inputs.iter().map(plan).collect();
        match plans {
            Ok(plans) => {
                p.schedule_micros += micros(start.elapsed());
                self.step(FramesInput::Planned(frame, plans), ctx);
            }
            Err(error) => {
                let why = error.to_string();
                self.fail(frame.number, FrameError::Plan { why }, ctx);
            }
        }
    }

    /// A frame cannot be had.
    fn fail(&mut self, number: u64, error: FrameError, ctx: &mut Context<Self>) {
        if let Some(p) = self.pending.remove(&number) {
            p.finish(Err(error));
        }
        self.step(FramesInput::Forget(number), ctx);
    }

    fn send(&self, peer: &PeerId, order: FrameOrder) {
        let message = match order {
            FrameOrder::Roster(roster) => Message::Roster(Arc::unwrap_or_clone(roster.value)),
            FrameOrder::Costs(costs) => Message::Costs(Arc::unwrap_or_clone(costs.value)),
            FrameOrder::Begin(request) => match self.pending.get(&request.frame.number) {
                Some(p) => Message::Frame(Box::new(p.request(&request))),
                None => return,
            },
            FrameOrder::Cancel { frame, is_over } => {
                let cancel = Message::Cancel { frame, is_over };
                if let Err(error) = self.outbox.send(peer, Lane::Control, cancel) {
                    // Who is gone has dropped it.
                    tracing::debug!(peer = peer.short(), %error, "a frame was not called off");
                }
                return;
            }
            FrameOrder::TilesDue { frame } => Message::TilesDue { frame },
        };
        self.outbox.send_or_log(peer, Lane::Control, message);
    }

    fn wake(&mut self, number: u64, at: u64, ctx: &mut Context<Self>) {
        let after = Duration::from_micros(at.saturating_sub(self.now()));
        if let Some(p) = self.pending.get_mut(&number) {
            let due = move |s: &mut Self, ctx: &mut Context<Self>| {
                s.step(FramesInput::Due { number, at }, ctx);
            };
            if let Some(old) = p.timer.replace(ctx.run_later(after, due)) {
                ctx.cancel_future(old);
            }
        }
    }

    fn tell_owner(&self, input: OwnerInput) {
        if self.addresses.owner.try_send(input).is_err() {
            tracing::warn!("the owner's mailbox is full: it does not learn how a frame went");
        }
    }

    /// Hands a frame over, or says why it did not come.
    fn ended(&mut self, ended: EndedFrame) {
        let Some(p) = self.pending.remove(&ended.number) else {
            return;
        };
        let manifest = self.manifests.get(&p.ask.data_set);
        let (answer, result) = p.result(ended, manifest.map(Arc::as_ref));
        if let Ok(Frame { stats, .. }) = &result {
            self.tell_owner(OwnerInput::Delivered(FrameTimes {
                total_micros: stats.total_micros,
                schedule_micros: stats.schedule_micros,
                composite_micros: stats.composite_micros,
            }));
        }
        finish(answer, result);
    }

    fn said(&mut self, from: PeerId, message: Message, bytes: u64, ctx: &mut Context<Self>) {
        let mut arrived = None;
        let (frame, said) = match message {
            Message::Tile {
                frame,
                plan,
                tile,
                pixels,
                composite_micros,
                received_bytes,
            } => {
                let ask = self.pending.get(&frame.number).map(|p| &p.ask);
                // Pixels of nothing take no bytes: what lies outside of the picture is not unpacked.
                let whole = ask.map(|ask| ask.view.rect());
                let is_inside = whole.is_some_and(|w| {
                    pixels.rect().pixel_count() == 0
                        || w.intersection(&pixels.rect()) == Some(pixels.rect())
                });
                let mode = ask.map(|ask| ask.settings.mode).filter(|_| is_inside);
                let image = mode.and_then(|mode| pixels.into_image(mode));
                arrived = image.map(|image| ArrivedTile {
                    tile,
                    image,
                    composite_micros,
                    bytes: bytes.saturating_add(received_bytes),
                });
                let said = match arrived {
                    Some(_) => FrameMessage::Tile { tile, plan },
                    None => FrameMessage::BadTile,
                };
                (frame, said)
            }
            Message::Reply { frame, reply } => (frame, reply),
            Message::Spans { frame, spans } => {
                if let Some(p) = self.pending.get_mut(&frame.number) {
                    p.take_spans(&from, spans);
                }
                return;
            }
            _ => {
                tracing::warn!(peer = from.short(), "a message came to the wrong actor");
                return;
            }
        };
        self.step_with(FramesInput::Said(from, frame, said), arrived, ctx);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Actor for Requester {
    type Context = Context<Self>;
}

/// A frame that is under way.
#[derive(Debug)]
pub struct FrameToCome {
    number: u64,
    result: oneshot::Receiver<Result<Frame, FrameError>>,
}

impl MessageResponse<Requester, AskFrame> for FrameToCome {
    fn handle(
        self,
        ctx: &mut Context<Requester>,
        answer: Option<OneshotSender<Result<Frame, FrameError>>>,
    ) {
        let Self { number, result } = self;
        let waiting = async move {
            // Who sent it without waiting does not want it.
            let Some(mut answer) = answer else {
                return false;
            };
            tokio::select! {
                biased;
                result = result => {
                    let ended = FrameError::Plan {
                        why: "the peer has ended".to_owned(),
                    };
                    finish(answer, result.unwrap_or(Err(ended)));
                    true
                }
                () = answer.closed() => false,
            }
        };
        let waiting = wrap_future::<_, Requester>(waiting);
        ctx.spawn(waiting.map(move |came, requester, ctx| {
            if !came && requester.pending.remove(&number).is_some() {
                requester.step(FramesInput::Forget(number), ctx);
            }
        }));
    }
}

impl Handler<AskFrame> for Requester {
    type Result = FrameToCome;

    fn handle(&mut self, ask: AskFrame, ctx: &mut Self::Context) -> Self::Result {
        let (answer, result) = oneshot::channel();
        let number = self.ask(ask, answer, ctx);
        FrameToCome { number, result }
    }
}

impl Handler<RequesterInput> for Requester {
    type Result = ();

    fn handle(&mut self, input: RequesterInput, ctx: &mut Self::Context) {
        match input {
            RequesterInput::Said {
                from,
                message,
                held,
            } => self.said(from, *message, held.wire_bytes(), ctx),
            RequesterInput::Roster {
                manifest,
                candidates,
            } => {
                let data_set = manifest.digest();
                self.manifests.insert(data_set, manifest);
                self.step(FramesInput::Candidates(data_set, candidates), ctx);
            }
            RequesterInput::Closed(data_set) => {
                self.manifests.remove(&data_set);
                self.step(FramesInput::Closed(data_set), ctx);
            }
            RequesterInput::Lost(peer) => self.step(FramesInput::Lost(peer), ctx),
        }
    }
}

//! The brick owner: knows the peers and what each holds, gets the bricks that this peer should
//! hold, checks and loads them, announces what is loaded, and gives bricks to others.
//!
//! Who is well and who is gone is [`Membership`]'s, what to hold and to fetch [`Holding`]'s
//! decision, in topology; here are their clock, their messages and the bytes.
//!
//! Invariant: only bricks in device memory are announced.
//!
//! [`Holding`]: brickmesh_topology::holding::Holding

mod open_set;
mod transfer;

use crate::{
    bus::Lane,
    data_set::BrickSource,
    messages::{Hello, Message},
    outbox::Outbox,
    raycaster::Raycaster,
    requester::{Requester, RequesterInput},
    scheduler::{Scheduler, SchedulerInput},
};
use actix::{Actor, Addr, AsyncContext, Context, Handler, MessageResult, ResponseFuture};
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, PeerId,
    holding::Announcement,
    membership::{Beat, Change, Health, Membership, Patience},
    upkeep::Safety,
};
use open_set::OpenSet;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::oneshot;

/// How often silence and time-outs are looked at.
const TICK: Duration = Duration::from_millis(100);
/// What is held is announced again after this, changed or not, for who missed it.
const ANNOUNCE_MICROS: u64 = 2_000_000;
/// Frames count as under way so long after the last one was asked for.
const RENDERING_MICROS: u64 = 1_000_000;
/// A brick that is dropped stays in memory so long for frames that were planned before.
const DROP_MICROS: u64 = 3_000_000;
/// Data sets held at a time; an open one beyond it replaces the one opened first.
const DATA_SETS_MAX: usize = 16;
/// Announcements kept for data sets that are not known yet.
const EARLY_MAX: usize = 256;

/// What the owner is told.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub enum OwnerInput {
    /// A peer can be reached.
    Connected(PeerId),
    /// A peer cannot be reached any more.
    Lost(PeerId),
    /// A message from a peer.
    Said(PeerId, Message),
    /// A frame was asked for: bricks are to keep out of its way.
    Rendering,
    /// These peers did not do their part of a frame in time.
    Late(Vec<PeerId>),
}

/// Opens a data set in the mesh; this peer can give every brick of it.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct OpenSource {
    /// Where its bricks come from.
    pub source: Arc<dyn BrickSource>,
    /// Copies of each brick that are wanted, at least 1.
    pub redundancy: u32,
}

/// This peer needs a data set that is open in the mesh, or needs it no more. Peers hold what
/// nobody needs until they need its memory.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct UseDataSet {
    /// The data set.
    pub data_set: Digest,
    /// Whether it is needed.
    pub in_use: bool,
}

/// Leaves the mesh politely: answered once others hold what only this peer held.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct LeaveMesh;

/// Asks who is in the mesh and what each holds.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "MeshStatus")]
pub struct AskStatus;

/// Who is in the mesh and what each holds, as this peer knows it.
#[derive(Clone, Debug, Default)]
pub struct MeshStatus {
    /// Peers that spoke, this one included.
    pub peers: BTreeMap<PeerId, Hello>,
    /// Those of them that are silent or late.
    pub suspects: Vec<PeerId>,
    /// Open data sets.
    pub data_sets: Vec<DataSetStatus>,
}

/// A data set, as one peer knows it.
#[derive(Clone, Debug)]
pub struct DataSetStatus {
    /// What it is.
    pub manifest: Arc<Manifest>,
    /// Who holds what, this peer included.
    pub residency: BTreeMap<PeerId, Announcement>,
    /// Copies of each brick that are wanted.
    pub redundancy: u32,
    /// How safe its copies are.
    pub safety: Safety,
}

/// See the module.
#[derive(Debug)]
pub struct BrickOwner {
    outbox: Outbox,
    raycaster: Addr<Raycaster>,
    scheduler: Addr<Scheduler>,
    requester: Addr<Requester>,
    hello: Hello,
    keep_copies: bool,
    clock: Instant,
    beat: Beat,
    beat_at: Option<u64>,
    connected: Vec<PeerId>,
    members: Membership<Hello>,
    open: BTreeMap<Digest, OpenSet>,
    order: Vec<Digest>,
    early: Vec<(PeerId, Digest, Announcement)>,
    rendering_at: Option<u64>,
    announced_at: u64,
    dirty: bool,
    dropping: Vec<(u64, Digest, BrickIndex)>,
    leaving: Vec<oneshot::Sender<()>>,
}

/// The actors that the owner talks to.
#[derive(Clone, Debug)]
pub struct OwnerLines {
    /// The device.
    pub raycaster: Addr<Raycaster>,
    /// Learns of data sets.
    pub scheduler: Addr<Scheduler>,
    /// Learns of rosters.
    pub requester: Addr<Requester>,
}

impl BrickOwner {
    /// An owner without data sets. `keep_copies`: keep a copy of each brick in host memory to
    /// give to others (free on a CPU device, which shares it), and the source's too.
    #[must_use]
    pub fn new(outbox: Outbox, lines: OwnerLines, hello: Hello, keep_copies: bool) -> Self {
        let born = SystemTime::now().duration_since(UNIX_EPOCH);
        let born = born.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX));
        Self {
            outbox,
            raycaster: lines.raycaster,
            scheduler: lines.scheduler,
            requester: lines.requester,
            hello,
            keep_copies,
            clock: Instant::now(),
            beat: Beat { born, count: 0 },
            beat_at: None,
            connected: Vec::new(),
            members: Membership::new(Patience::default()),
            open: BTreeMap::new(),
            order: Vec::new(),
            early: Vec::new(),
            rendering_at: None,
            announced_at: 0,
            dirty: false,
            dropping: Vec::new(),
            leaving: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Whether frames are under way in the mesh.
    fn is_rendering(&self) -> bool {
        let at = self.rendering_at;
        at.is_some_and(|at| self.now().saturating_sub(at) < RENDERING_MICROS)
    }

    fn open(&mut self, manifest: Arc<Manifest>, redundancy: u32) {
        let data_set = manifest.digest();
        if self.open.contains_key(&data_set) {
            return;
        }
        // What nobody needs gives way; where all are needed, the oldest.
        let unused = |d: &Digest| self.open.get(d).is_some_and(|s| !s.holding.is_in_use());
        let mut closing: Vec<Digest> = self.order.iter().copied().filter(unused).collect();
        if closing.is_empty() && self.order.len() >= DATA_SETS_MAX {
            closing.push(self.order[0]);
        }
        closing.into_iter().for_each(|d| self.close(d));
        tracing::debug!(
            data_set = data_set.short(),
            bricks = manifest.grid().brick_count(),
            "opened"
        );
        let told = self
            .scheduler
            .try_send(SchedulerInput::Opened(Arc::clone(&manifest)));
        if told.is_err() {
            tracing::warn!("the scheduler's mailbox is full: it misses a data set");
        }
        let mut set = OpenSet::new(self.outbox.local(), manifest, redundancy);
        for (peer, hello, _) in self.members.all() {
            set.holding.expect(peer, set.room_in(hello.memory_bytes));
        }
        let (known, unknown) = std::mem::take(&mut self.early)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, d, _)| *d == data_set);
        self.early = unknown;
        for (peer, _, announcement) in known {
            set.holding.heard(&peer, announcement);
        }
        self.open.insert(data_set, set);
        self.order.push(data_set);
        self.dirty = true;
    }

    fn close(&mut self, data_set: Digest) {
        let Some(set) = self.open.remove(&data_set) else {
            return;
        };
        self.order.retain(|d| *d != data_set);
        let held = set.holding.announcement().held.iter();
        held.for_each(|brick| self.unload(data_set, brick));
    }

    /// Works out anew what this peer should hold of each data set, drops and fetches.
    fn keep_up(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        let all: u64 = self.open.values().map(OpenSet::bytes).sum();
        for (&data_set, set) in &mut self.open {
            let others = all.saturating_sub(set.bytes());
            let room = set.room_in(self.hello.memory_bytes.saturating_sub(others));
            set.holding.set_room(room);
            self.dirty |= set.holding.keep_up();
            for brick in set.holding.droppable() {
                set.holding.dropped(brick);
                set.copies.remove(&brick);
                self.dropping.push((now + DROP_MICROS, data_set, brick));
                self.dirty = true;
            }
        }
        for data_set in self.order.clone() {
            self.fetch(data_set, ctx);
        }
    }

    /// Frees what was dropped a while ago and is not held again.
    fn free_dropped(&mut self) {
        let now = self.now();
        let due: Vec<_> = self.dropping.extract_if(.., |d| d.0 <= now).collect();
        for (_, data_set, brick) in due {
            let set = self.open.get(&data_set);
            if set.is_none_or(|s| !s.holding.announcement().held.contains(brick)) {
                self.unload(data_set, brick);
            }
        }
    }

    fn say_to_all(&self, message: &Message) {
        for peer in &self.connected {
            self.outbox
                .send_or_log(peer, Lane::Control, message.clone());
        }
    }

    /// Tells all peers, and this one's requester, what is held.
    fn announce(&mut self) {
        self.dirty = false;
        self.announced_at = self.now();
        for (&data_set, set) in &self.open {
            let announcement = set.holding.announcement().clone();
            self.say_to_all(&Message::Residency {
                data_set,
                announcement,
            });
        }
        self.tell_requester();
    }

    fn tell_requester(&self) {
        let well = |p: &PeerId| self.members.health(p) == Some(Health::Well);
        for set in self.open.values() {
            let told = self.requester.try_send(RequesterInput::Roster {
                entries: set.holding.roster(well),
                manifest: Arc::clone(&set.manifest),
            });
            if told.is_err() {
                tracing::warn!("the requester's mailbox is full: it misses a roster");
            }
        }
    }

    fn beat(&mut self) {
        self.beat.count += 1;
        self.beat_at = Some(self.now());
        self.say_to_all(&self.beat_message());
    }

    fn beat_message(&self) -> Message {
        Message::Beat {
            beat: self.beat,
            hello: self.hello.clone(),
            rendering: self.is_rendering(),
        }
    }

    fn connected(&mut self, peer: PeerId) {
        // The beat last: whoever counts this peer in knows what it holds.
        for (&data_set, set) in &self.open {
            let open = Message::Open {
                manifest: Box::new(Manifest::clone(&set.manifest)),
                redundancy: set.holding.redundancy(),
            };
            self.outbox.send_or_log(&peer, Lane::Control, open);
            let residency = Message::Residency {
                data_set,
                announcement: set.holding.announcement().clone(),
            };
            self.outbox.send_or_log(&peer, Lane::Control, residency);
        }
        self.beat.count += 1;
        self.outbox
            .send_or_log(&peer, Lane::Control, self.beat_message());
        self.connected.retain(|p| *p != peer);
        self.connected.push(peer);
    }

    /// Acts on what changed among the peers.
    fn changed(&mut self, changes: Vec<Change>, ctx: &mut Context<Self>) {
        if changes.is_empty() {
            return;
        }
        for change in changes {
            match change {
                Change::Joined(peer) => self.joined(&peer),
                Change::Recovered(peer) => {
                    tracing::info!(peer = peer.short(), "a peer is back");
                }
                Change::Suspected(peer) => {
                    tracing::warn!(
                        peer = peer.short(),
                        "a peer is silent or late: frames go on without it"
                    );
                    self.frames_go_on_without(peer);
                }
                Change::Gone(peer) => {
                    tracing::warn!(
                        peer = peer.short(),
                        "a peer is gone: its copies are made again"
                    );
                    let sets = self.open.values_mut();
                    sets.for_each(|s| s.holding.forget(&peer));
                    self.frames_go_on_without(peer);
                }
            }
        }
        self.keep_up(ctx);
        self.tell_requester();
    }

    fn joined(&mut self, peer: &PeerId) {
        let Some(hello) = self.members.record(peer) else {
            return;
        };
        tracing::info!(
            peer = peer.short(),
            name = hello.name,
            device = hello.device,
            "a peer has joined"
        );
        for set in self.open.values_mut() {
            let room = set.room_in(hello.memory_bytes);
            set.holding.expect(peer, room);
        }
    }

    fn frames_go_on_without(&self, peer: PeerId) {
        if self.requester.try_send(RequesterInput::Lost(peer)).is_err() {
            tracing::warn!("the requester's mailbox is full: it misses a lost peer");
        }
    }

    fn said(&mut self, from: PeerId, message: Message, ctx: &mut Context<Self>) {
        let now = self.now();
        match message {
            Message::Beat {
                beat,
                hello,
                rendering,
            } => {
                if rendering {
                    self.rendering_at = Some(now);
                }
                let mut changes = Vec::new();
                self.members.heard(&from, beat, hello, now, &mut changes);
                self.changed(changes, ctx);
            }
            Message::Goodbye => {
                let mut changes = Vec::new();
                self.members.left(&from, &mut changes);
                self.changed(changes, ctx);
            }
            Message::Open {
                manifest,
                redundancy,
            } => {
                self.open(Arc::new(*manifest), redundancy);
                self.keep_up(ctx);
            }
            Message::Residency {
                data_set,
                announcement,
            } => self.take_residency(from, data_set, announcement, ctx),
            Message::BrickRequest { data_set, brick } => self.give(from, data_set, brick, ctx),
            Message::BrickData {
                data_set,
                brick,
                bytes,
            } => {
                let set = self.open.get_mut(&data_set);
                if set.is_some_and(|s| s.holding.arrived(brick, &from)) {
                    self.load(data_set, brick, Some(bytes), ctx);
                }
            }
            Message::BrickRefused {
                data_set,
                brick,
                why,
            } => {
                tracing::debug!(
                    peer = from.short(),
                    brick = brick.0,
                    why,
                    "a brick was refused"
                );
                if let Some(set) = self.open.get_mut(&data_set)
                    && set.holding.arrived(brick, &from)
                {
                    set.holding.failed(brick, now);
                }
            }
            _ => tracing::warn!(peer = from.short(), "a message came to the wrong actor"),
        }
    }

    fn take_residency(
        &mut self,
        from: PeerId,
        data_set: Digest,
        announcement: Announcement,
        ctx: &mut Context<Self>,
    ) {
        let Some(set) = self.open.get_mut(&data_set) else {
            self.early
                .retain(|(p, d, _)| !(*p == from && *d == data_set));
            if self.early.len() < EARLY_MAX {
                self.early.push((from, data_set, announcement));
            }
            return;
        };
        if !set.holding.heard(&from, announcement) {
            tracing::warn!(
                peer = from.short(),
                "a residency that does not fit the data set was dropped"
            );
            return;
        }
        self.tell_requester();
        self.keep_up(ctx);
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        let patience = Patience::default();
        if self
            .beat_at
            .is_none_or(|at| now - at + 50_000 >= patience.beat)
        {
            self.beat();
        }
        let mut changes = Vec::new();
        self.members.tick(now, &mut changes);
        self.changed(changes, ctx);
        let sets = self.open.values_mut();
        sets.for_each(|s| s.holding.expire(now));
        self.free_dropped();
        self.keep_up(ctx);
        if self.dirty || now.saturating_sub(self.announced_at) >= ANNOUNCE_MICROS {
            self.announce();
        }
        if !self.leaving.is_empty() && self.open.values().all(|s| s.holding.may_leave()) {
            self.say_to_all(&Message::Goodbye);
            for left in self.leaving.drain(..) {
                if left.send(()).is_err() {
                    tracing::debug!("nobody waits for the goodbye any more");
                }
            }
        }
    }

    fn status(&self) -> MeshStatus {
        let data_set = |s: &OpenSet| {
            let mut residency = s.holding.others().clone();
            residency.insert(
                self.outbox.local().clone(),
                s.holding.announcement().clone(),
            );
            DataSetStatus {
                manifest: Arc::clone(&s.manifest),
                residency,
                redundancy: s.holding.redundancy(),
                safety: s.holding.safety(),
            }
        };
        let all = self.members.all();
        let suspects = all.filter(|(.., health)| *health == Health::Suspect);
        let known = self.members.all().map(|(p, h, _)| (p.clone(), h.clone()));
        let local = (self.outbox.local().clone(), self.hello.clone());
        MeshStatus {
            suspects: suspects.map(|(p, ..)| p.clone()).collect(),
            peers: known.chain([local]).collect(),
            data_sets: self.open.values().map(data_set).collect(),
        }
    }
}

impl Actor for BrickOwner {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(crate::bus::EVENTS_MAX);
        ctx.run_interval(TICK, Self::tick);
    }
}

impl Handler<OwnerInput> for BrickOwner {
    type Result = ();

    fn handle(&mut self, input: OwnerInput, ctx: &mut Self::Context) {
        let now = self.now();
        let mut changes = Vec::new();
        match input {
            OwnerInput::Connected(peer) => self.connected(peer),
            OwnerInput::Lost(peer) => {
                self.connected.retain(|p| *p != peer);
                self.members.lost(&peer, now, &mut changes);
            }
            OwnerInput::Said(from, message) => self.said(from, message, ctx),
            OwnerInput::Rendering => self.rendering_at = Some(now),
            OwnerInput::Late(peers) => {
                for peer in peers {
                    self.members.late(&peer, now, &mut changes);
                }
            }
        }
        self.changed(changes, ctx);
    }
}

impl Handler<OpenSource> for BrickOwner {
    type Result = ();

    fn handle(&mut self, open: OpenSource, ctx: &mut Self::Context) {
        let manifest = Arc::new(open.source.manifest().clone());
        let data_set = manifest.digest();
        self.open(Arc::clone(&manifest), open.redundancy);
        if let Some(set) = self.open.get_mut(&data_set) {
            set.source = Some(open.source);
            set.holding.has_source();
            set.holding.set_in_use(true);
        }
        self.say_to_all(&Message::Open {
            manifest: Box::new(Manifest::clone(&manifest)),
            redundancy: open.redundancy,
        });
        self.keep_up(ctx);
        self.announce();
    }
}

impl Handler<UseDataSet> for BrickOwner {
    type Result = ();

    fn handle(&mut self, wish: UseDataSet, _: &mut Self::Context) {
        if let Some(set) = self.open.get_mut(&wish.data_set)
            && set.holding.set_in_use(wish.in_use)
        {
            self.announce();
        }
    }
}

impl Handler<LeaveMesh> for BrickOwner {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: LeaveMesh, _: &mut Self::Context) -> Self::Result {
        let (left, gone) = oneshot::channel();
        self.leaving.push(left);
        let sets = self.open.values_mut();
        sets.for_each(|s| s.holding.leave());
        self.announce();
        Box::pin(async move {
            // The owner has ended where there is no answer: that is gone too.
            let _ended = gone.await;
        })
    }
}

impl Handler<AskStatus> for BrickOwner {
    type Result = MessageResult<AskStatus>;

    fn handle(&mut self, _: AskStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.status())
    }
}

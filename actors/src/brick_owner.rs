//! The brick owner: knows the peers and what each holds, gets the bricks that this peer should
//! hold, checks and loads them, announces what is loaded, and gives bricks to others.
//!
//! Who is well and who is gone is [`Membership`]'s, what to hold and to fetch [`Holding`]'s
//! decision, in topology; here are their clock, their messages and the bytes.
//!
//! Invariant: only bricks in device memory are announced.
//!
//! [`Holding`]: brickmesh_topology::holding::Holding

mod inputs;
mod open_set;
mod transfer;

pub use inputs::{
    AskStatus, DataSetStatus, LeaveMesh, MeshStatus, OpenSource, OwnerInput, UseDataSet,
};

use crate::{
    bus::Lane,
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
    /// When this peer was asked for its part of a frame, and when another said that it was.
    rendering_at: Option<u64>,
    others_rendering_at: Option<u64>,
    announced_at: u64,
    dirty: bool,
    dropping: Vec<(u64, Digest, BrickIndex)>,
    leaving: Leaving,
    /// Who waits for the goodbye.
    waiting: Vec<oneshot::Sender<()>>,
}

/// Whether this peer is about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// Others take what only this peer holds; `unused`: also what nobody needs.
    HandingOver {
        unused: bool,
    },
    /// It said goodbye and is silent.
    Gone,
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
            others_rendering_at: None,
            announced_at: 0,
            dirty: false,
            dropping: Vec::new(),
            leaving: Leaving::No,
            waiting: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn is_recent(&self, at: Option<u64>) -> bool {
        at.is_some_and(|at| self.now().saturating_sub(at) < RENDERING_MICROS)
    }

    /// Whether frames are under way in the mesh.
    fn is_rendering(&self) -> bool {
        self.is_recent(self.rendering_at) || self.is_recent(self.others_rendering_at)
    }

    fn open(&mut self, manifest: Arc<Manifest>, redundancy: u32) {
        let data_set = manifest.digest();
        if self.open.contains_key(&data_set) {
            return;
        }
        if self.order.len() >= DATA_SETS_MAX {
            let unused = |d: &&Digest| self.open.get(d).is_some_and(|s| !s.holding.is_in_use());
            let least = self.order.iter().find(unused).unwrap_or(&self.order[0]);
            self.close(*least);
        }
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
        if self.is_leaving() {
            set.holding.leave();
        }
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
        let bricks = set.manifest.grid().brick_count();
        self.say_to_all(&Message::Residency {
            data_set,
            announcement: Announcement::expected(bricks, 0),
        });
        let held = set.holding.announcement().held.iter();
        held.for_each(|brick| self.unload(data_set, brick));
        let others = self.open.values_mut();
        others.for_each(|s| s.holding.memory_was_freed());
    }

    /// Closes what nobody needs and takes memory here, where memory is short for what somebody
    /// needs.
    fn make_room(&mut self) {
        let sets = self.open.iter();
        let (used, unused): (Vec<_>, Vec<_>) = sets.partition(|(_, s)| s.holding.is_in_use());
        if used.iter().any(|(_, s)| s.holding.is_short_of_room()) {
            let in_memory = unused.iter().filter(|(_, s)| s.bytes() > 0);
            let closing: Vec<Digest> = in_memory.map(|(d, _)| **d).collect();
            closing.into_iter().for_each(|d| self.close(d));
        }
    }

    /// Works out anew what this peer should hold of each data set, drops and fetches.
    fn keep_up(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        let mut all: u64 = self.open.values().map(OpenSet::bytes).sum();
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
            all = others.saturating_add(set.bytes());
        }
        self.make_room();
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

    fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
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
        for peer in &self.connected {
            // The next one follows at once, and who gets none says so.
            if let Err(error) = self.outbox.send(peer, Lane::Control, self.beat_message()) {
                tracing::debug!(peer = peer.short(), %error, "a beat was not sent");
            }
        }
    }

    fn beat_message(&self) -> Message {
        Message::Beat {
            beat: self.beat,
            hello: self.hello.clone(),
            // Hearsay is not passed on: it would go round for ever.
            rendering: self.is_recent(self.rendering_at),
        }
    }

    fn connected(&mut self, peer: PeerId) {
        // The beat first: nothing is taken from strangers.
        self.beat.count += 1;
        self.outbox
            .send_or_log(&peer, Lane::Control, self.beat_message());
        for (&data_set, set) in &self.open {
            self.outbox.send_or_log(&peer, Lane::Control, set.opening());
            let residency = Message::Residency {
                data_set,
                announcement: set.holding.announcement().clone(),
            };
            self.outbox.send_or_log(&peer, Lane::Control, residency);
        }
        self.connected.retain(|p| *p != peer);
        self.connected.push(peer);
    }

    /// Acts on what changed among the peers.
    fn changed(&mut self, changes: Vec<Change>, ctx: &mut Context<Self>) {
        if changes.is_empty() {
            return;
        }
        // Rosters first: a frame that is asked for again does without all of them at once.
        let lost = |c: &Change| matches!(c, Change::Suspected(_) | Change::Gone(_));
        if changes.iter().any(lost) {
            self.tell_requester();
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
                    self.early.retain(|(p, ..)| *p != peer);
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
                    self.others_rendering_at = Some(now);
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
            Message::NeedManifest { data_set } => {
                if let Some(set) = self.open.get(&data_set) {
                    self.outbox.send_or_log(&from, Lane::Control, set.opening());
                }
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
        // Who has not said what it is, or is gone, says it again.
        if self.members.health(&from).is_none() {
            return;
        }
        let Some(set) = self.open.get_mut(&data_set) else {
            if announcement.in_use {
                let need = Message::NeedManifest { data_set };
                self.outbox.send_or_log(&from, Lane::Control, need);
            }
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
        self.go_if_handed_over();
    }

    /// Says goodbye once others hold what only this peer held.
    fn go_if_handed_over(&mut self) {
        if let Leaving::HandingOver { unused } = self.leaving {
            let done =
                |s: &OpenSet| s.holding.is_handed_over() || !unused && !s.holding.is_in_use();
            if !self.open.values().all(done) {
                return;
            }
            self.say_to_all(&Message::Goodbye);
            self.leaving = Leaving::Gone;
        }
        for left in self.waiting.drain(..) {
            if left.send(()).is_err() {
                tracing::debug!("nobody waits for the goodbye any more");
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

    fn handle(&mut self, wish: UseDataSet, ctx: &mut Self::Context) {
        if let Some(set) = self.open.get_mut(&wish.data_set)
            && set.holding.set_in_use(wish.in_use)
        {
            self.keep_up(ctx);
            self.announce();
        }
    }
}

impl Handler<LeaveMesh> for BrickOwner {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, leave: LeaveMesh, _: &mut Self::Context) -> Self::Result {
        let (left, gone) = oneshot::channel();
        self.waiting.push(left);
        if !self.is_leaving() {
            self.leaving = Leaving::HandingOver {
                unused: leave.unused,
            };
            let sets = self.open.values_mut();
            sets.for_each(|s| s.holding.leave());
            self.announce();
        }
        self.go_if_handed_over();
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

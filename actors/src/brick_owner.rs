//! The brick owner: knows the peers and what each holds, gets the bricks that this peer should
//! hold, checks and loads them, announces what is loaded, and gives bricks to others.
//!
//! Invariant: only bricks in device memory are announced. Placement is topology's.

mod holding;

use crate::{
    bus::Lane,
    data_set::BrickSource,
    messages::{Hello, Message, Residency},
    outbox::Outbox,
    raycaster::{LoadBrick, Raycaster, UnloadBrick},
    requester::{Requester, RequesterInput},
    scheduler::{Scheduler, SchedulerInput},
};
use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, MessageResult, WrapFuture,
};
use brickmesh_shaders::{BrickKey, BrickVoxels, DeviceError};
use brickmesh_topology::{BrickIndex, Digest, Manifest, PeerId};
use bytes::Bytes;
use holding::{Holding, Origin};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often time-outs are looked at and residency is announced while loading.
const TICK: Duration = Duration::from_millis(100);
/// Data sets held at a time; an open one beyond it replaces the one opened first.
const DATA_SETS_MAX: usize = 16;
/// Residency messages kept for data sets that are not known yet.
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

/// Closes a data set in the whole mesh.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct CloseSource {
    /// The data set.
    pub data_set: Digest,
}

/// Asks who is in the mesh and what each holds.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "MeshStatus")]
pub struct AskStatus;

/// Who is in the mesh and what each holds, as this peer knows it.
#[derive(Clone, Debug, Default)]
pub struct MeshStatus {
    /// Peers that said hello, this one included.
    pub peers: BTreeMap<PeerId, Hello>,
    /// Open data sets.
    pub data_sets: Vec<DataSetStatus>,
}

/// A data set, as one peer knows it.
#[derive(Clone, Debug)]
pub struct DataSetStatus {
    /// What it is.
    pub manifest: Arc<Manifest>,
    /// Who holds what, this peer included.
    pub residency: BTreeMap<PeerId, Residency>,
}

impl DataSetStatus {
    /// Bricks that no peer holds.
    #[must_use]
    pub fn missing_bricks(&self) -> u32 {
        let held = |b| self.residency.values().any(|r| r.bricks.contains(b));
        let missing = self.manifest.grid().bricks().filter(|&b| !held(b)).count();
        u32::try_from(missing).unwrap_or(u32::MAX)
    }
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
    connected: Vec<PeerId>,
    peers: BTreeMap<PeerId, Hello>,
    holdings: BTreeMap<Digest, Holding>,
    order: Vec<Digest>,
    early: Vec<(PeerId, Residency)>,
    dirty: bool,
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
        let peers = BTreeMap::from([(outbox.local().clone(), hello.clone())]);
        Self {
            outbox,
            raycaster: lines.raycaster,
            scheduler: lines.scheduler,
            requester: lines.requester,
            hello,
            keep_copies,
            connected: Vec::new(),
            peers,
            holdings: BTreeMap::new(),
            order: Vec::new(),
            early: Vec::new(),
            dirty: false,
        }
    }

    fn open(&mut self, manifest: Arc<Manifest>, redundancy: u32) {
        let data_set = manifest.digest();
        if self.holdings.contains_key(&data_set) {
            return;
        }
        if self.order.len() >= DATA_SETS_MAX {
            let oldest = self.order[0];
            self.close(oldest);
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
        let mut holding = Holding::new(manifest, redundancy.max(1));
        holding.place(self.outbox.local(), &self.peers);
        let bricks = holding.manifest.grid().brick_count();
        let (known, unknown) = std::mem::take(&mut self.early)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, r)| r.data_set == data_set);
        self.early = unknown;
        for (peer, residency) in known {
            if residency.bricks.is_valid(bricks) && self.connected.contains(&peer) {
                holding.residency.insert(peer, residency);
            }
        }
        self.holdings.insert(data_set, holding);
        self.order.push(data_set);
        self.dirty = true;
    }

    fn close(&mut self, data_set: Digest) {
        let Some(holding) = self.holdings.remove(&data_set) else {
            return;
        };
        self.order.retain(|d| *d != data_set);
        for brick in holding.held.iter() {
            let unload = UnloadBrick {
                key: BrickKey { data_set, brick },
            };
            if self.raycaster.try_send(unload).is_err() {
                tracing::warn!(
                    brick = brick.0,
                    "a brick stays in device memory: the device is busy"
                );
            }
        }
    }

    /// Starts as many fetches as may be under way.
    fn fetch(&mut self, data_set: Digest, ctx: &mut Context<Self>) {
        let now = Instant::now();
        loop {
            let Some(holding) = self.holdings.get_mut(&data_set) else {
                return;
            };
            let Some((brick, origin)) = holding.next_fetch(now) else {
                return;
            };
            match origin {
                Origin::Source => self.load(data_set, brick, None, ctx),
                Origin::Peer(from) => {
                    let ask = Message::BrickRequest { data_set, brick };
                    if self.outbox.send(&from, Lane::Control, ask).is_err() {
                        holding.failed(brick, now);
                    }
                }
            }
        }
    }

    /// Checks a brick's bytes, or reads them from the source, and loads them.
    fn load(
        &mut self,
        data_set: Digest,
        brick: BrickIndex,
        bytes: Option<Bytes>,
        ctx: &mut Context<Self>,
    ) {
        let Some(holding) = self.holdings.get(&data_set) else {
            return;
        };
        let (manifest, source) = (Arc::clone(&holding.manifest), holding.source.clone());
        let raycaster = self.raycaster.clone();
        let work = async move {
            let checked = tokio::task::spawn_blocking(move || {
                let bytes = match (bytes, source) {
                    (Some(bytes), _) => bytes,
                    (None, Some(source)) => source
                        .read(brick)
                        .map_err(|e| LoadError::Damaged(e.to_string()))?,
                    (None, None) => {
                        return Err(LoadError::Damaged("there is no source".to_owned()));
                    }
                };
                check(&manifest, brick, bytes)
            });
            let voxels = checked
                .await
                .map_err(|e| LoadError::Damaged(e.to_string()))??;
            let copy = voxels.bytes().clone();
            let load = LoadBrick {
                key: BrickKey { data_set, brick },
                voxels,
            };
            match raycaster.send(load).await {
                Ok(Ok(())) => Ok(copy),
                Ok(Err(error)) => Err(LoadError::Device(error)),
                Err(_) => Err(LoadError::Damaged(
                    "the device's thread has ended".to_owned(),
                )),
            }
        };
        ctx.spawn(work.into_actor(self).map(move |result, owner, ctx| {
            owner.loaded(data_set, brick, result, ctx);
        }));
    }

    fn loaded(
        &mut self,
        data_set: Digest,
        brick: BrickIndex,
        result: Result<Bytes, LoadError>,
        ctx: &mut Context<Self>,
    ) {
        let Some(holding) = self.holdings.get_mut(&data_set) else {
            return;
        };
        match result {
            Ok(copy) => {
                holding.loaded(brick);
                match &holding.source {
                    // Nobody else will ask: what the device has need not be kept twice.
                    Some(source) if !self.keep_copies => source.release(brick),
                    None if self.keep_copies => {
                        holding.copies.insert(brick, copy);
                    }
                    _ => {}
                }
            }
            Err(LoadError::Device(error @ DeviceError::OutOfMemory { .. })) => {
                tracing::warn!(brick = brick.0, %error, "this peer holds less than its share");
                holding.give_up(brick);
            }
            Err(error) => {
                tracing::warn!(brick = brick.0, %error, "a brick was not loaded; it is tried again");
                holding.failed(brick, Instant::now());
            }
        }
        self.dirty = true;
        if holding.is_settled() {
            self.announce();
        }
        self.fetch(data_set, ctx);
    }

    /// Tells all peers, and this one's requester, what is held.
    fn announce(&mut self) {
        self.dirty = false;
        for holding in self.holdings.values() {
            let residency = holding.announcement();
            for peer in &self.connected {
                self.outbox
                    .send_or_log(peer, Lane::Control, Message::Residency(residency.clone()));
            }
        }
        self.tell_requester();
    }

    fn tell_requester(&self) {
        for holding in self.holdings.values() {
            let entries = holding.roster(self.outbox.local());
            let manifest = Arc::clone(&holding.manifest);
            if self
                .requester
                .try_send(RequesterInput::Roster { manifest, entries })
                .is_err()
            {
                tracing::warn!("the requester's mailbox is full: it misses a roster");
            }
        }
    }

    fn replace(&mut self, ctx: &mut Context<Self>) {
        for holding in self.holdings.values_mut() {
            holding.place(self.outbox.local(), &self.peers);
        }
        self.dirty = true;
        for data_set in self.order.clone() {
            self.fetch(data_set, ctx);
        }
    }

    fn connected(&mut self, peer: PeerId) {
        self.outbox
            .send_or_log(&peer, Lane::Control, Message::Hello(self.hello.clone()));
        for holding in self.holdings.values() {
            let manifest = Box::new(Manifest::clone(&holding.manifest));
            let open = Message::Open {
                manifest,
                redundancy: holding.redundancy,
            };
            self.outbox.send_or_log(&peer, Lane::Control, open);
            let residency = Message::Residency(holding.announcement());
            self.outbox.send_or_log(&peer, Lane::Control, residency);
        }
        self.connected.retain(|p| *p != peer);
        self.connected.push(peer);
    }

    fn said(&mut self, from: PeerId, message: Message, ctx: &mut Context<Self>) {
        match message {
            Message::Hello(hello) => {
                tracing::info!(
                    peer = from.short(),
                    name = hello.name,
                    device = hello.device,
                    "a peer has joined"
                );
                self.peers.insert(from, hello);
                self.replace(ctx);
            }
            Message::Open {
                manifest,
                redundancy,
            } => {
                let data_set = manifest.digest();
                self.open(Arc::new(*manifest), redundancy);
                self.fetch(data_set, ctx);
            }
            Message::Close { data_set } => self.close(data_set),
            Message::Residency(residency) => self.take_residency(from, residency, ctx),
            Message::BrickRequest { data_set, brick } => self.give(from, data_set, brick, ctx),
            Message::BrickData {
                data_set,
                brick,
                bytes,
            } => {
                let awaited = self
                    .holdings
                    .get_mut(&data_set)
                    .is_some_and(|h| h.arrived(brick, &from));
                if awaited {
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
                if let Some(h) = self.holdings.get_mut(&data_set)
                    && h.arrived(brick, &from)
                {
                    h.failed(brick, Instant::now());
                }
            }
            _ => tracing::warn!(peer = from.short(), "a message came to the wrong actor"),
        }
    }

    fn take_residency(&mut self, from: PeerId, residency: Residency, ctx: &mut Context<Self>) {
        let data_set = residency.data_set;
        let Some(holding) = self.holdings.get_mut(&data_set) else {
            self.early
                .retain(|(p, r)| !(*p == from && r.data_set == data_set));
            if self.early.len() < EARLY_MAX {
                self.early.push((from, residency));
            }
            return;
        };
        if !residency
            .bricks
            .is_valid(holding.manifest.grid().brick_count())
        {
            tracing::warn!(
                peer = from.short(),
                "a residency that does not fit the data set was dropped"
            );
            return;
        }
        holding.residency.insert(from, residency);
        self.tell_requester();
        self.fetch(data_set, ctx);
    }

    /// Gives a brick to a peer that asked for it.
    fn give(&mut self, to: PeerId, data_set: Digest, brick: BrickIndex, ctx: &mut Context<Self>) {
        let refuse = move |why: &str| Message::BrickRefused {
            data_set,
            brick,
            why: why.to_owned(),
        };
        let holding = self.holdings.get(&data_set);
        let Some(holding) = holding.filter(|h| brick.0 < h.manifest.grid().brick_count()) else {
            self.outbox
                .send_or_log(&to, Lane::Control, refuse("no such brick is known here"));
            return;
        };
        let (copy, source) = (holding.copies.get(&brick).cloned(), holding.source.clone());
        let outbox = self.outbox.clone();
        let give = move || {
            let bytes = copy.map(Ok).or_else(|| source.map(|s| s.read(brick)));
            let answer = match bytes {
                Some(Ok(bytes)) => Message::BrickData {
                    data_set,
                    brick,
                    bytes,
                },
                Some(Err(error)) => refuse(&error.to_string()),
                None => refuse("the brick is not held here"),
            };
            if let Err(error) = outbox.send_patiently(&to, Lane::Bricks, answer) {
                tracing::debug!(peer = to.short(), brick = brick.0, %error, "a brick was not sent");
            }
        };
        let sending = async move {
            if tokio::task::spawn_blocking(give).await.is_err() {
                tracing::error!("sending a brick failed");
            }
        };
        ctx.spawn(sending.into_actor(self));
    }

    fn status(&self) -> MeshStatus {
        let data_set = |h: &Holding| {
            let mut residency = h.residency.clone();
            residency.insert(self.outbox.local().clone(), h.announcement());
            DataSetStatus {
                manifest: Arc::clone(&h.manifest),
                residency,
            }
        };
        MeshStatus {
            peers: self.peers.clone(),
            data_sets: self.holdings.values().map(data_set).collect(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Device(DeviceError),
}

/// Checks a brick against its manifest.
fn check(manifest: &Manifest, brick: BrickIndex, bytes: Bytes) -> Result<BrickVoxels, LoadError> {
    let (expected, found) = (manifest.brick_digest(brick), Digest::of(&bytes));
    if expected != found {
        let why = format!(
            "its digest is {}, expected {}",
            found.short(),
            expected.short()
        );
        return Err(LoadError::Damaged(why));
    }
    let grid = manifest.grid();
    let (owned, stored) = (grid.owned_box(brick), grid.stored_box(brick));
    BrickVoxels::new(owned, stored, manifest.volume().voxel, bytes)
        .map_err(|e| LoadError::Damaged(e.to_string()))
}

impl Actor for BrickOwner {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(crate::bus::EVENTS_MAX);
        ctx.run_interval(TICK, |owner, ctx| {
            let now = Instant::now();
            owner.holdings.values_mut().for_each(|h| h.expire(now));
            if owner.dirty {
                owner.announce();
            }
            for data_set in owner.order.clone() {
                owner.fetch(data_set, ctx);
            }
        });
    }
}

impl Handler<OwnerInput> for BrickOwner {
    type Result = ();

    fn handle(&mut self, input: OwnerInput, ctx: &mut Self::Context) {
        match input {
            OwnerInput::Connected(peer) => self.connected(peer),
            OwnerInput::Lost(peer) => {
                tracing::info!(peer = peer.short(), "a peer has left");
                self.connected.retain(|p| *p != peer);
                self.peers.remove(&peer);
                self.holdings.values_mut().for_each(|h| h.forget(&peer));
                self.replace(ctx);
                self.tell_requester();
            }
            OwnerInput::Said(from, message) => self.said(from, message, ctx),
        }
    }
}

impl Handler<OpenSource> for BrickOwner {
    type Result = ();

    fn handle(&mut self, open: OpenSource, ctx: &mut Self::Context) {
        let manifest = Arc::new(open.source.manifest().clone());
        let data_set = manifest.digest();
        self.open(Arc::clone(&manifest), open.redundancy);
        if let Some(holding) = self.holdings.get_mut(&data_set) {
            holding.source = Some(open.source);
        }
        for peer in &self.connected {
            let manifest = Box::new(Manifest::clone(&manifest));
            let message = Message::Open {
                manifest,
                redundancy: open.redundancy,
            };
            self.outbox.send_or_log(peer, Lane::Control, message);
        }
        self.announce();
        self.fetch(data_set, ctx);
    }
}

impl Handler<CloseSource> for BrickOwner {
    type Result = ();

    fn handle(&mut self, close: CloseSource, _: &mut Self::Context) {
        for peer in &self.connected {
            let message = Message::Close {
                data_set: close.data_set,
            };
            self.outbox.send_or_log(peer, Lane::Control, message);
        }
        self.close(close.data_set);
    }
}

impl Handler<AskStatus> for BrickOwner {
    type Result = MessageResult<AskStatus>;

    fn handle(&mut self, _: AskStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.status())
    }
}

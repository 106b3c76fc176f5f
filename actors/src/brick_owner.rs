//! The brick owner: knows the peers and what each holds, gets the bricks that this peer should
//! hold, checks and loads them, announces what is loaded, and gives bricks to others.
//!
//! What to do is [`Keeper`]'s decision, in topology; here are its clock, its messages and the bytes
//! that it knows nothing of.

mod inputs;
mod loading;
mod peer_log;
mod shelving;
mod uploads;
mod voxel_reads;

pub use inputs::{AskStatus, DataSetStatus, LeaveMesh, MeshStatus, OpenSource, UseDataSet};
pub use voxel_reads::ReadVoxel;

use crate::{
    bus::Lane,
    data_set::{BrickShelf, BrickSource, ReadError},
    device_slot::Sharing,
    inputs::{Addresses, DeviceNews, OwnerInput, RequesterInput, SchedulerInput},
    manifest_message::manifest_lane,
    messages::Message,
    outbox::Outbox,
    pager::Pager,
    patient::Patient,
};
use actix::{Actor, AsyncContext, Context, Handler, MessageResult, ResponseFuture};
use brickmesh_shaders::{BrickKey, device::preparation::Preparation};
use brickmesh_topology::{
    BrickBytes, BrickIndex, Digest, Manifest, PeerId,
    data::brick_set::BrickSet,
    mesh::{
        announcement::Announcement,
        keeper::{Hello, Keeper, KeeperInput, KeeperMessage, KeeperOutput, MISSED, TICK_MICROS},
        membership::Health,
        replicas::{Origin, Replicas},
    },
};
use bytes::Bytes;
use peer_log::PeerLog;
use shelving::Shelving;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::oneshot;
use voxel_reads::VoxelReads;

/// How long a brick that a thread waited for stays, at least: so that it is read before it makes room for another one.
const READ_TIME: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug)]
pub struct BrickOwner {
    outbox: Outbox,
    addresses: Addresses,
    /// What bricks may take on a device that has as much.
    memory_bytes: u64,
    /// What the device needs of bricks.
    preparation: Preparation,
    /// Where bricks are, if not in the device.
    pages: Option<Arc<Pager>>,
    /// How often the device was lost.
    device_generation: u64,
    keep_copies: bool,
    clock: Instant,
    keeper: Keeper,
    sources: BTreeMap<Digest, Arc<dyn BrickSource>>,
    shelving: Option<Shelving>,
    /// Host copies, to give to others.
    copies: BTreeMap<(Digest, BrickIndex), Bytes>,
    /// Bricks that this peer's own source does not give, and why.
    unreadable: BTreeMap<(Digest, BrickIndex), String>,
    peer_log: PeerLog,
    voxel_reads: VoxelReads,
    /// What the scheduler must not miss.
    to_scheduler: Patient<SchedulerInput>,
    /// What the scheduler was told to be held of each data set.
    told_held: BTreeMap<Digest, Arc<BrickSet>>,
    /// It has said goodbye.
    has_left: bool,
    /// Who waits for the goodbye.
    waiting: Vec<oneshot::Sender<u32>>,
}

impl BrickOwner {
    /// An owner without data sets; bricks may take `memory_bytes` where the device has as much, and take `brick_bytes` of it
    /// once `preparation` has prepared them, and are shared so.
    /// `keep_copies`: keep a copy of each brick in host memory to give to others (free on a CPU
    /// device, which shares it), and the source's too. `shelf`: where bricks are kept on a disk.
    #[must_use]
    pub fn new(
        outbox: Outbox,
        addresses: Addresses,
        hello: Hello,
        (brick_bytes, preparation, sharing): (BrickBytes, Preparation, Sharing),
        (memory_bytes, cache_bytes): (u64, Option<u64>),
        keep_copies: bool,
        shelf: Option<Arc<dyn BrickShelf>>,
    ) -> Self {
        let incarnation = SystemTime::now().duration_since(UNIX_EPOCH);
        let incarnation =
            incarnation.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX));
        let mut keeper = Keeper::new(outbox.local().clone(), hello, brick_bytes, incarnation);
        if let Some(bytes) = cache_bytes {
            keeper.caches_at_most(bytes);
        }
        Self {
            keeper,
            to_scheduler: Patient::new(addresses.scheduler.clone()),
            outbox,
            addresses,
            memory_bytes,
            preparation,
            pages: sharing.pages().cloned(),
            device_generation: 0,
            keep_copies,
            clock: Instant::now(),
            sources: BTreeMap::new(),
            shelving: shelf.and_then(Shelving::start),
            copies: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            peer_log: PeerLog::default(),
            voxel_reads: VoxelReads::default(),
            told_held: BTreeMap::new(),
            has_left: false,
            waiting: Vec::new(),
        }
    }

    /// Lets the keeper decide, and does what it wants done. `bytes`: of the brick that the input
    /// speaks of.
    fn step(&mut self, input: KeeperInput, bytes: Option<Bytes>, ctx: &mut Context<Self>) {
        let now = u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut outputs = Vec::new();
        self.keeper.step(now, input, &mut outputs);
        // Many changes at once are one to the requester.
        let mut told = BTreeSet::new();
        for output in outputs {
            match output {
                KeeperOutput::Roster(data_set) => {
                    if told.insert(data_set) {
                        self.tell_scheduler(data_set);
                        self.tell_requester(data_set);
                    }
                }
                KeeperOutput::Send(to, message) => self.send(&to, message, ctx),
                KeeperOutput::Load(data_set, brick, Origin::Peer(_)) => {
                    self.load(data_set, brick, bytes.clone(), ctx);
                }
                KeeperOutput::Load(data_set, brick, Origin::Source) => {
                    let copy = self.copy(data_set, brick)();
                    self.load(data_set, brick, copy, ctx);
                }
                KeeperOutput::Shelve(data_set, brick) => {
                    self.shelve(data_set, brick, bytes.clone(), ctx);
                }
                other => self.carry_out(other, ctx),
            }
        }
    }

    fn carry_out(&mut self, output: KeeperOutput, ctx: &mut Context<Self>) {
        match output {
            KeeperOutput::Unload(data_set, brick) => self.unload(data_set, brick),
            KeeperOutput::Dropped(data_set, brick) => {
                self.copies.remove(&(data_set, brick));
            }
            KeeperOutput::Staged(data_set, brick, question, is_there) => {
                if let Some(pages) = self.pages.as_ref().filter(|_| !is_there) {
                    pages.cannot_be_had(BrickKey { data_set, brick });
                }
                if question == MISSED {
                    if is_there {
                        ctx.run_later(READ_TIME, move |owner, ctx| {
                            owner.step(KeeperInput::Release(data_set, brick), None, ctx);
                        });
                    }
                    return;
                }
                let staged = SchedulerInput::Staged(data_set, brick, question, is_there);
                self.to_scheduler.send(staged);
            }
            KeeperOutput::Unshelve(data_set, brick) => {
                self.unreadable.remove(&(data_set, brick));
                self.tell_shelf(move |shelf| shelf.remove(data_set, brick));
            }
            KeeperOutput::Unstage(data_set, brick) => {
                self.unload(data_set, brick);
                self.copies.remove(&(data_set, brick));
                let freed = SchedulerInput::Unstaged(data_set, brick);
                self.to_scheduler.send(freed);
            }
            KeeperOutput::Upload(to, data_set, brick) => self.upload(to, data_set, brick, ctx),
            KeeperOutput::Opened(manifest) => self.opened(manifest, ctx),
            KeeperOutput::Closed(data_set) => self.closed(data_set),
            KeeperOutput::GoOnWithout(peer) => {
                if self
                    .addresses
                    .requester
                    .try_send(RequesterInput::Lost(peer))
                    .is_err()
                {
                    tracing::warn!("the requester's mailbox is full: it misses a lost peer");
                }
            }
            // Once this peer has said goodbye it hears nobody, and that is no news.
            KeeperOutput::Changed(change) if !self.has_left => {
                self.peer_log.note(&change, &self.keeper);
            }
            KeeperOutput::Changed(_) => {}
            KeeperOutput::Dropping(from, why) => {
                tracing::warn!(peer = from.short(), why, "a message was dropped");
            }
            KeeperOutput::Left(missing) => {
                self.has_left = true;
                for left in self.waiting.drain(..) {
                    if left.send(missing).is_err() {
                        tracing::debug!("nobody waits for the goodbye any more");
                    }
                }
            }
            KeeperOutput::Roster(_)
            | KeeperOutput::Send(..)
            | KeeperOutput::Load(..)
            | KeeperOutput::Shelve(..) => {}
        }
    }

    fn send(&mut self, to: &PeerId, message: KeeperMessage, ctx: &mut Context<Self>) {
        let asked = match message {
            KeeperMessage::BrickRequest {
                data_set,
                brick,
                for_frame,
            } => Some((data_set, brick, for_frame)),
            _ => None,
        };
        let lane = match message {
            KeeperMessage::Open { ref manifest, .. } => {
                manifest_lane(manifest.grid().brick_count())
            }
            _ => Lane::Control,
        };
        let sent = self.outbox.send(to, lane, Message::Keeper(message));
        if let Err(error) = sent {
            // All but requests is said again soon, or asked for.
            tracing::debug!(peer = to.short(), %error, "a message was not sent");
            if let Some((data_set, brick, for_frame)) = asked {
                let not_asked = KeeperInput::NotAsked(data_set, brick, for_frame);
                self.step(not_asked, None, ctx);
            }
        }
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        self.to_scheduler.go_on();
        self.step(KeeperInput::Tick, None, ctx);
    }

    /// What the keeper is to know of the device.
    fn device_news(&mut self, news: DeviceNews) -> KeeperInput {
        match news {
            DeviceNews::Lost { generation, why } => {
                self.device_generation = generation;
                let copies = self.copies.keys().copied().collect();
                KeeperInput::DeviceLost { why, copies }
            }
            DeviceNews::Opened(info, preparation) => {
                self.preparation = preparation;
                KeeperInput::DeviceOpened {
                    device: info.name,
                    memory_bytes: self.memory_bytes.min(info.memory_bytes),
                    brick_bytes: info.brick_bytes,
                }
            }
            DeviceNews::GaveUp(key) => KeeperInput::GaveUp(key.data_set, key.brick),
        }
    }

    /// What gives the bytes of a brick, if they are in host memory; on another thread, as those of pages are copied.
    fn copy(
        &self,
        data_set: Digest,
        brick: BrickIndex,
    ) -> impl FnOnce() -> Option<Bytes> + Send + use<> {
        let copy = self.copies.get(&(data_set, brick)).cloned();
        let pages = self.pages.clone();
        move || copy.or_else(|| pages?.copy(BrickKey { data_set, brick }))
    }

    fn opened(&self, manifest: Arc<Manifest>, ctx: &mut Context<Self>) {
        if let Some(pages) = &self.pages {
            pages.open(&manifest);
        }
        tracing::debug!(
            data_set = manifest.digest().short(),
            bricks = manifest.grid().brick_count(),
            "opened"
        );
        let opened = SchedulerInput::Opened(Arc::clone(&manifest));
        let told = self.addresses.scheduler.try_send(opened);
        if told.is_err() {
            tracing::warn!("the scheduler's mailbox is full: it misses a data set");
        }
        self.list_shelf(manifest, ctx);
    }

    /// What reads a brick on this peer's disk: from the source of its data set, or else from the shelf.
    fn reader(
        &self,
        data_set: Digest,
        brick: BrickIndex,
    ) -> Option<impl FnOnce() -> Result<Bytes, ReadError> + Send + use<>> {
        let source = self.sources.get(&data_set).cloned();
        let shelf = self.shelving.as_ref().map(|s| Arc::clone(&s.shelf));
        let is_any = source.is_some() || shelf.is_some();
        is_any.then_some(move || match (source, shelf) {
            (Some(source), _) => source.read(brick).map_err(|e| ReadError::Lost(e.what)),
            (None, Some(shelf)) => shelf.read(data_set, brick),
            (None, None) => Err(ReadError::Lost("the brick is not held here".to_owned())),
        })
    }

    fn closed(&mut self, data_set: Digest) {
        self.sources.remove(&data_set);
        if let Some(pages) = &self.pages {
            pages.close(data_set);
        }
        self.tell_shelf(move |shelf| shelf.close(data_set));
        self.copies.retain(|(d, _), _| *d != data_set);
        self.unreadable.retain(|(d, _), _| *d != data_set);
        self.told_held.remove(&data_set);
        let scheduler = self
            .addresses
            .scheduler
            .try_send(SchedulerInput::Closed(data_set));
        let requester = self
            .addresses
            .requester
            .try_send(RequesterInput::Closed(data_set));
        if scheduler.is_err() || requester.is_err() {
            tracing::warn!("an actor's mailbox is full: it keeps a data set that is closed");
        }
    }

    /// Tells the scheduler what is held, where that has changed.
    fn tell_scheduler(&mut self, data_set: Digest) {
        let mut sets = self.keeper.data_sets();
        let set = sets.find(|(manifest, _)| manifest.digest() == data_set);
        let Some((_, replicas)) = set else {
            return;
        };
        let held = &replicas.announcement().held;
        let told = self.told_held.get(&data_set);
        if told.is_none_or(|told| **told != *held) {
            let held = Arc::new(held.clone());
            self.told_held.insert(data_set, Arc::clone(&held));
            let holds = SchedulerInput::Holds(data_set, held);
            self.to_scheduler.send(holds);
        }
    }

    fn tell_requester(&self, data_set: Digest) {
        let Some((manifest, candidates)) = self.keeper.candidates(data_set) else {
            return;
        };
        let told = self.addresses.requester.try_send(RequesterInput::Roster {
            manifest: Arc::clone(manifest),
            candidates,
        });
        if told.is_err() {
            tracing::warn!("the requester's mailbox is full: it misses a roster");
        }
    }

    fn status(&self) -> MeshStatus {
        let local = || self.outbox.local().clone();
        let data_set = |(manifest, replicas): (&Arc<Manifest>, &Replicas)| {
            let others = replicas.others().iter();
            let others = others.map(|(peer, a)| (peer.clone(), Announcement::clone(a)));
            let own = (local(), replicas.announcement().clone());
            let residency = others.chain([own]).collect();
            let of_set = self.unreadable.iter();
            let of_set = of_set.filter(|((d, _), _)| *d == manifest.digest());
            DataSetStatus {
                unreadable: of_set.map(|((_, b), why)| (*b, why.clone())).collect(),
                manifest: Arc::clone(manifest),
                residency,
                redundancy: replicas.redundancy(),
                safety: replicas.safety(),
                brick_bytes: self.keeper.brick_bytes(manifest.digest()),
                copy_bytes: self.keeper.copy_bytes(manifest.digest()),
            }
        };
        let mut status = MeshStatus {
            data_sets: self.keeper.data_sets().map(data_set).collect(),
            awaits_data_sets: self.keeper.awaits_data_sets(),
            staging: self.keeper.staging_counts(),
            ..MeshStatus::default()
        };
        status.peers.insert(local(), self.keeper.hello().clone());
        status.vitals.insert(local(), self.keeper.vitals());
        for (peer, hello, vitals, health) in self.keeper.peers() {
            status.peers.insert(peer.clone(), hello.clone());
            status.vitals.insert(peer.clone(), vitals.clone());
            if health == Health::Suspect {
                status.suspects.push(peer.clone());
            }
        }
        status
    }
}

impl Actor for BrickOwner {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let tick = Duration::from_micros(TICK_MICROS);
        ctx.run_interval(tick, Self::tick);
        self.know_shelf(ctx);
    }
}

impl Handler<OwnerInput> for BrickOwner {
    type Result = ();

    fn handle(&mut self, input: OwnerInput, ctx: &mut Self::Context) {
        let (input, bytes) = match input {
            OwnerInput::Connected(peer) => (KeeperInput::Connected(peer), None),
            OwnerInput::Lost(peer) => (KeeperInput::Lost(peer), None),
            OwnerInput::Asked(requester, data_set, work) => {
                (KeeperInput::Asked(requester, data_set, work), None)
            }
            OwnerInput::Rendering => (KeeperInput::Rendering, None),
            OwnerInput::Fetches(data_set) => (KeeperInput::Fetches(data_set), None),
            OwnerInput::Speed(millionths) => (KeeperInput::Speed(millionths), None),
            OwnerInput::Delivered(times) => (KeeperInput::Delivered(times), None),
            OwnerInput::Late(peers) => (KeeperInput::Late(peers), None),
            OwnerInput::Device(news) => (self.device_news(news), None),
            OwnerInput::Stage(data_set, brick, question) => {
                (KeeperInput::Stage(data_set, brick, question), None)
            }
            OwnerInput::Release(data_set, brick) => (KeeperInput::Release(data_set, brick), None),
            OwnerInput::Missed(data_set, brick) => (KeeperInput::Missed(data_set, brick), None),
            OwnerInput::Said(from, Message::Keeper(message), _held) => {
                if let KeeperMessage::BrickRefused { brick, why, .. } = &message {
                    tracing::debug!(
                        peer = from.short(),
                        brick = brick.0,
                        why,
                        "a brick was refused"
                    );
                }
                (KeeperInput::Said(from, message), None)
            }
            OwnerInput::Said(
                from,
                Message::BrickData {
                    data_set,
                    brick,
                    bytes,
                },
                _held,
            ) => (KeeperInput::Brick(from, data_set, brick), Some(bytes)),
            OwnerInput::Said(from, message, _held) => {
                self.voxel_said(from, message);
                return;
            }
        };
        self.step(input, bytes, ctx);
    }
}

impl Handler<OpenSource> for BrickOwner {
    type Result = ();

    fn handle(&mut self, open: OpenSource, ctx: &mut Self::Context) {
        let manifest = Arc::clone(open.source.manifest());
        let data_set = manifest.digest();
        self.tell_shelf(move |shelf| shelf.close(data_set));
        self.sources.insert(manifest.digest(), open.source);
        self.step(KeeperInput::Offer(manifest, open.redundancy), None, ctx);
    }
}

impl Handler<UseDataSet> for BrickOwner {
    type Result = ();

    fn handle(&mut self, wish: UseDataSet, ctx: &mut Self::Context) {
        let input = KeeperInput::Use(wish.data_set, wish.in_use);
        self.step(input, None, ctx);
    }
}

impl Handler<LeaveMesh> for BrickOwner {
    type Result = ResponseFuture<u32>;

    fn handle(&mut self, _: LeaveMesh, ctx: &mut Self::Context) -> Self::Result {
        let (left, gone) = oneshot::channel();
        self.waiting.push(left);
        self.step(KeeperInput::Leave, None, ctx);
        Box::pin(async move {
            // The owner has ended where there is no answer: that is gone too.
            gone.await.unwrap_or(0)
        })
    }
}

impl Handler<AskStatus> for BrickOwner {
    type Result = MessageResult<AskStatus>;

    fn handle(&mut self, _: AskStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.status())
    }
}

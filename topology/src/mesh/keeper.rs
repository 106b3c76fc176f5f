//! The keeper: what a peer does about other peers and about bricks. Who is well, which data sets
//! are open, what to hold, to download, to upload and to drop, and when a peer that leaves may go.
//!
//! A pure state machine around [`Membership`] and one [`Replicas`] for each data set: it is told
//! what happened and says what is to be done. The actors carry that out, and `sim mesh` runs
//! the same machine on a virtual clock. Times are microseconds of any clock that goes on.
//!
//! Invariants: only bricks in device memory are announced as held. What a peer holds is not believed before it
//! has said what it is. Beats are said again and again, and digests of announcements, so that none may be
//! missed (`announce`); a request for a brick is made again when its time is over.

mod announce;
mod device;
mod levels;
mod messages;
mod sets;
mod shelf;
mod stage;

pub use super::transfers::UploadResult;
pub use messages::{
    FrameTimes, Hello, KeeperInput, KeeperMessage, KeeperOutput, LoadResult, MISSED, Sharing,
    ShelfResult, Vitals,
};

use crate::{
    base::{digest::Digest, peer::PeerId},
    data::{brick_bytes::BrickBytes, brick_grid::BrickIndex, manifest::Manifest},
    mesh::{
        announcement::{Announcement, Said},
        membership::{Change, Health, Heartbeat, Membership, Patience},
        replicas::Replicas,
        shelf::Shelf,
        staging::{Staging, StagingCounts},
        transfers::{Request, Transfers},
    },
};
use sets::TriangleSum;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How often [`KeeperInput::Tick`] is to be said.
pub const TICK_MICROS: u64 = 100_000;
/// Digests of what was announced are said after this, for who missed any of it.
pub(crate) const DIGESTS_MICROS: u64 = 2_000_000;
/// Frames count as under way so long after it was said last that some are, and this peer's own for this peer: those of others are heard
/// of with heartbeats.
const RENDERING_MICROS: u64 = 1_000_000;
const OWN_RENDERING_MICROS: u64 = 250_000;
/// A brick that is dropped stays in memory so long for frames that were planned before.
const DROP_MICROS: u64 = 3_000_000;
/// The same where frames can have it read again.
const READABLE_DROP_MICROS: u64 = 5 * TICK_MICROS;
/// A data set is new for so long after it was opened, or until all its copies are there: peers that
/// are just being connected have a part in its first placement.
const NEW_MICROS: u64 = 2_000_000;
/// Data sets held at a time, levels among them; an open one beyond it replaces one that nobody needs, or the one
/// opened first.
pub const DATA_SETS_MAX: usize = 200;
/// Memory that their manifests may take, in bytes; one alone may take more.
const MANIFEST_BYTES_MAX: usize = 256 << 20;
/// A manifest is asked for again after this: a large one takes its time.
const NEED_MICROS: u64 = 5_000_000;
/// Manifests that are waited for at a time.
const NEEDED_MAX: usize = 256;

/// See the module.
#[derive(Clone, Debug)]
pub struct Keeper {
    local: PeerId,
    hello: Arc<Hello>,
    /// Memory that bricks take on the device.
    brick_bytes: BrickBytes,
    now: u64,
    heartbeat: Heartbeat,
    beat_at: Option<u64>,
    connected: BTreeSet<PeerId>,
    members: Membership<Member>,
    sets: BTreeMap<Digest, DataSet>,
    /// Data sets, the one opened first in front.
    order: Vec<Digest>,
    /// Announcements of data sets, or by connected peers, that are not known yet.
    early: BTreeMap<PeerId, BTreeMap<Digest, Arc<Announcement>>>,
    /// When the manifests of some were asked for.
    needed: BTreeMap<Digest, u64>,
    /// When this peer was asked for its part of a frame, and when another said that it was.
    rendering_at: Option<u64>,
    others_rendering_at: Option<u64>,
    last_frame: Option<FrameTimes>,
    speed_millionths: Option<u64>,
    /// When digests of what was announced were said last.
    digests_at: u64,
    /// When peers were asked for their announcements of data sets.
    asked_to_announce: BTreeMap<PeerId, BTreeMap<Digest, u64>>,
    /// When bricks that could not be read were looked at last.
    looked_at: u64,
    /// Most memory that data sets may take, of those that are limited, bytes, and when that was worked out last.
    limits: (BTreeMap<Digest, u64>, u64),
    /// What is to be announced has changed.
    dirty: bool,
    dropping: Vec<(u64, Digest, BrickIndex)>,
    transfers: Transfers,
    staging: Staging,
    /// See [`Self::caches_at_most`].
    cache_bytes: Option<u64>,
    leaving: Leaving,
}

/// What is known of a peer.
#[derive(Clone, Debug)]
struct Member {
    hello: Arc<Hello>,
    vitals: Arc<Vitals>,
}

/// A data set that is open here.
#[derive(Clone, Debug)]
struct DataSet {
    manifest: Arc<Manifest>,
    /// Memory that its largest brick takes on this peer's device; at least 1.
    brick_bytes: u64,
    /// What a brick is reckoned with where room is counted in bricks: the mean of all, or of those that are assigned here where that
    /// is more.
    typical_bytes: u64,
    /// What the voxels of a brick are reckoned with: those of the largest.
    voxel_bytes: u64,
    replicas: Replicas,
    /// What was announced of it; `None`: nothing yet.
    said: Option<Said>,
    shelf: Shelf,
    /// Until then, while copies are wanting, whoever hears of it counts as there from the beginning.
    new_until: u64,
    /// Of the bricks that are assigned here, and of those that are held.
    assigned_sum: RefCell<TriangleSum>,
    held_sum: RefCell<TriangleSum>,
}

/// Whether this peer is about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// Others take what only this peer holds.
    HandingOver,
    /// It said goodbye and is silent.
    Gone,
}

impl Keeper {
    /// The keeper of a peer that was started at `incarnation`, microseconds since 1970 by its own clock; `brick_bytes`: the
    /// memory that bricks take on its device.
    #[must_use]
    pub fn new(local: PeerId, hello: Hello, brick_bytes: BrickBytes, incarnation: u64) -> Self {
        Self {
            brick_bytes,
            transfers: Transfers::new(&local),
            staging: Staging::default(),
            cache_bytes: None,
            local,
            hello: Arc::new(hello),
            now: 0,
            heartbeat: Heartbeat {
                incarnation,
                count: 0,
            },
            beat_at: None,
            connected: BTreeSet::new(),
            members: Membership::new(Patience::default()),
            sets: BTreeMap::new(),
            order: Vec::new(),
            early: BTreeMap::new(),
            needed: BTreeMap::new(),
            rendering_at: None,
            others_rendering_at: None,
            last_frame: None,
            speed_millionths: None,
            digests_at: 0,
            asked_to_announce: BTreeMap::new(),
            looked_at: 0,
            limits: (BTreeMap::new(), 0),
            dirty: false,
            dropping: Vec::new(),
            leaving: Leaving::No,
        }
    }

    /// Bricks that are read or fetched for frames take so much of its memory at most, bytes, though never less than the two largest
    /// take; else what is left beside the copies that are wanted.
    pub fn caches_at_most(&mut self, bytes: u64) {
        self.cache_bytes = Some(bytes);
    }

    /// How often frames needed bricks that this peer does not hold.
    #[must_use]
    pub fn staging_counts(&self) -> StagingCounts {
        self.staging.counts()
    }

    /// Takes what happened at `now`, and adds to `out` what is to be done, in this order.
    pub fn step(&mut self, now: u64, input: KeeperInput, out: &mut Vec<KeeperOutput>) {
        self.now = now;
        let mut changes = Vec::new();
        match input {
            KeeperInput::Tick => self.tick(out),
            KeeperInput::Connected(peer) => self.connected(peer, out),
            KeeperInput::Lost(peer) => {
                self.connected.remove(&peer);
                self.asked_to_announce.remove(&peer);
                self.forget_early(&peer);
                self.transfers.unreachable(&peer);
                self.upload_all(out);
                self.members.lost(&peer, now, &mut changes);
            }
            KeeperInput::Said(from, message) => self.said(from, message, out),
            KeeperInput::Brick(from, data_set, brick) => {
                self.brick_came(&from, (data_set, brick), out);
            }
            KeeperInput::NotAsked(data_set, brick, for_frame) => {
                self.transfers.not_asked((data_set, brick), for_frame, now);
            }
            KeeperInput::Uploaded(to, data_set, brick, result) => {
                let uploads = &mut self.transfers.uploads;
                uploads.uploaded(&to, (data_set, brick), result, now);
                self.upload_all(out);
            }
            KeeperInput::CannotGive(data_set, brick) => self.cannot_give((data_set, brick), out),
            KeeperInput::Rendering => self.rendering_at = Some(now),
            KeeperInput::Asked(requester, data_set, work) => {
                if let Some(set) = self.sets.get_mut(&data_set) {
                    set.replicas.asked(&requester, work, now);
                }
            }
            KeeperInput::Speed(millionths) => self.speed_millionths = Some(millionths),
            KeeperInput::Delivered(times) => self.last_frame = Some(times),
            KeeperInput::Late(peers) => {
                for peer in peers {
                    self.members.late(&peer, now, &mut changes);
                }
            }
            KeeperInput::Offer(manifest, redundancy) => self.offer(manifest, redundancy, out),
            KeeperInput::Know(manifest) => self.know(manifest, out),
            KeeperInput::OnShelf(data_set, bricks) => self.is_listed(data_set, bricks, out),
            KeeperInput::Shelved(data_set, brick, result) => {
                self.shelved(data_set, brick, result, out);
            }
            KeeperInput::Use(data_set, in_use) => self.set_in_use(data_set, in_use, out),
            KeeperInput::Fetches(data_set) => self.are_fetched(data_set, out),
            KeeperInput::Stage(data_set, brick, question) => {
                self.stage((data_set, brick), question, out);
            }
            KeeperInput::Release(data_set, brick) => self.release((data_set, brick), out),
            KeeperInput::Missed(data_set, brick) => self.missed((data_set, brick), out),
            KeeperInput::Loaded(data_set, brick, result) => {
                self.came(data_set, brick, result, out);
            }
            KeeperInput::DeviceLost { why, copies } => self.device_lost(why, &copies, out),
            KeeperInput::DeviceOpened {
                device,
                memory_bytes,
                brick_bytes,
            } => self.device_opened(device, memory_bytes, brick_bytes, out),
            KeeperInput::GaveUp(data_set, brick) => self.gave_up(data_set, brick, out),
            KeeperInput::Leave => self.leave(out),
        }
        self.changed(changes, out);
    }

    /// Memory that the largest brick of a data set takes on this peer's device; 0 where it is not open.
    #[must_use]
    pub fn brick_bytes(&self, data_set: Digest) -> u64 {
        self.sets.get(&data_set).map_or(0, |set| set.brick_bytes)
    }

    /// Memory that one copy of all bricks of a data set takes on this peer's device; 0 where it is not open.
    #[must_use]
    pub fn copy_bytes(&self, data_set: Digest) -> u64 {
        (self.sets.get(&data_set)).map_or(0, DataSet::one_copy_bytes)
    }

    fn is_recent(&self, at: Option<u64>) -> bool {
        at.is_some_and(|at| self.now.saturating_sub(at) < RENDERING_MICROS)
    }

    /// Whether frames are under way in the mesh.
    #[must_use]
    pub fn is_rendering(&self) -> bool {
        let own = self.rendering_at;
        let is_own = own.is_some_and(|at| self.now.saturating_sub(at) < OWN_RENDERING_MICROS);
        is_own || self.is_recent(self.others_rendering_at)
    }

    fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
    }

    fn send_all(&self, message: &KeeperMessage, out: &mut Vec<KeeperOutput>) {
        let send = |peer: &PeerId| KeeperOutput::Send(peer.clone(), message.clone());
        out.extend(self.connected.iter().map(send));
    }

    fn tick(&mut self, out: &mut Vec<KeeperOutput>) {
        let due = |at: u64| self.now.saturating_sub(at) + TICK_MICROS / 2;
        if self.leaving != Leaving::Gone
            && self
                .beat_at
                .is_none_or(|at| due(at) >= Patience::default().heartbeat)
        {
            self.beat_at = Some(self.now);
            let heartbeat = self.next_beat();
            self.send_all(&heartbeat, out);
        }
        let mut changes = Vec::new();
        self.members.tick(self.now, &mut changes);
        self.changed(changes, out);
        self.transfers.expire(self.now);
        self.free_dropped(out);
        self.keep_up(out);
        self.look_at_unreadable(out);
        self.shelve_held(out);
        self.fetch_again(out);
        self.stage_all(out);
        self.upload_all(out);
        if self.now.saturating_sub(self.digests_at) >= DIGESTS_MICROS {
            self.announce(out);
            self.say_digests(out);
        } else if self.dirty {
            self.announce(out);
        }
        self.go_if_handed_over(out);
    }

    fn next_beat(&mut self) -> KeeperMessage {
        self.heartbeat.count += 1;
        KeeperMessage::Heartbeat {
            heartbeat: self.heartbeat,
            hello: Arc::clone(&self.hello),
            vitals: Arc::new(self.vitals()),
        }
    }

    /// How this peer is doing.
    #[must_use]
    pub fn vitals(&self) -> Vitals {
        Vitals {
            // Hearsay is not passed on: it would go round for ever.
            rendering: self.is_recent(self.rendering_at),
            suspects: Arc::new(self.members.silent().cloned().collect()),
            downloading: u32::try_from(self.transfers.downloads.count()).unwrap_or(u32::MAX),
            last_frame: self.last_frame,
            speed_millionths: self.speed_millionths,
        }
    }

    fn connected(&mut self, peer: PeerId, out: &mut Vec<KeeperOutput>) {
        if self.leaving == Leaving::Gone {
            return;
        }
        self.forget_early(&peer);
        // The heartbeat first: nothing is taken from strangers.
        let heartbeat = self.next_beat();
        out.push(KeeperOutput::Send(peer.clone(), heartbeat));
        self.announce(out);
        for (&data_set, set) in &self.sets {
            out.push(KeeperOutput::Send(peer.clone(), set.opening(self.now)));
            let residency = set.residency(data_set);
            out.extend(residency.map(|r| KeeperOutput::Send(peer.clone(), r)));
        }
        self.connected.insert(peer);
    }

    /// What one that is no member said over another connection does not count.
    fn forget_early(&mut self, peer: &PeerId) {
        if self.members.health(peer).is_none() {
            self.early.remove(peer);
        }
    }

    fn said(&mut self, from: PeerId, message: KeeperMessage, out: &mut Vec<KeeperOutput>) {
        match message {
            KeeperMessage::Heartbeat {
                heartbeat,
                hello,
                vitals,
            } => self.heard_beat(&from, heartbeat, Member { hello, vitals }, out),
            KeeperMessage::Goodbye => {
                let mut changes = Vec::new();
                self.members.left(&from, &mut changes);
                self.changed(changes, out);
            }
            KeeperMessage::Open {
                manifest,
                redundancy,
                is_new,
            } => {
                if self.open(manifest, redundancy, is_new, out) {
                    self.keep_up(out);
                }
            }
            KeeperMessage::NeedManifest { data_set } => {
                if let Some(set) = self.sets.get(&data_set) {
                    out.push(KeeperOutput::Send(from, set.opening(self.now)));
                }
            }
            KeeperMessage::Residency {
                data_set,
                announcement,
            } => {
                self.is_answered(&from, data_set);
                self.heard_residency(from, data_set, announcement, out);
            }
            KeeperMessage::ResidencyChanged { data_set, change } => {
                self.heard_change(from, data_set, &change, out);
            }
            KeeperMessage::ResidencyDigests { digests } => self.heard_digests(&from, &digests, out),
            KeeperMessage::NeedResidency { data_set } => {
                let is_gone = self.leaving == Leaving::Gone;
                let residency = self.sets.get(&data_set).filter(|_| !is_gone);
                let residency = residency.and_then(|set| set.residency(data_set));
                out.extend(residency.map(|r| KeeperOutput::Send(from, r)));
            }
            KeeperMessage::BrickRequest {
                data_set,
                brick,
                for_frame,
            } => self.asked_for(from, (data_set, brick), for_frame, out),
            KeeperMessage::BrickRefused {
                data_set, brick, ..
            } => {
                self.transfers.refused((data_set, brick), &from, self.now);
            }
        }
    }

    /// A peer asks for a brick.
    fn asked_for(
        &mut self,
        from: PeerId,
        (data_set, brick): (Digest, BrickIndex),
        for_frame: bool,
        out: &mut Vec<KeeperOutput>,
    ) {
        let manifest = self.manifest(data_set);
        let manifest = manifest.filter(|m| brick.0 < m.grid().brick_count());
        let asked = match manifest.map(|m| m.brick_bytes(brick)) {
            None => Err("no such brick is known here"),
            Some(bytes) => {
                let request = Request {
                    data_set,
                    brick,
                    bytes,
                    is_urgent: for_frame,
                };
                self.transfers.uploads.ask(&from, request)
            }
        };
        match asked {
            Ok(()) => self.upload_all(out),
            Err(why) => {
                let refused = KeeperMessage::BrickRefused {
                    data_set,
                    brick,
                    why: why.to_owned(),
                };
                out.push(KeeperOutput::Send(from, refused));
            }
        }
    }

    /// Uploads as many bricks as may be on their way. Who leaves hands over what it has at full speed.
    fn upload_all(&mut self, out: &mut Vec<KeeperOutput>) {
        let beside_frames = self.is_rendering() && !self.is_leaving();
        let uploads = &mut self.transfers.uploads;
        while let Some((to, request)) = uploads.next(self.now, beside_frames) {
            let Request {
                data_set, brick, ..
            } = request;
            out.push(KeeperOutput::Upload(to, data_set, brick));
        }
    }

    fn heard_beat(
        &mut self,
        from: &PeerId,
        heartbeat: Heartbeat,
        member: Member,
        out: &mut Vec<KeeperOutput>,
    ) {
        if member.vitals.rendering {
            self.others_rendering_at = Some(self.now);
        }
        if self
            .members
            .heartbeat(from)
            .is_some_and(|b| b.incarnation < heartbeat.incarnation)
        {
            self.started_again(from, member.hello.memory_bytes, out);
        }
        let before = self.members.record(from);
        let news = before.is_none_or(|b| b.vitals.suspects != member.vitals.suspects);
        let mut changes = Vec::new();
        let heard = self
            .members
            .heard(from, heartbeat, member, self.now, &mut changes);
        self.changed(changes, out);
        if heard && news {
            self.rosters_changed(out);
        }
    }

    /// A peer was started again: it holds nothing until it says so, and knows nothing of what it was
    /// asked for before.
    fn started_again(&mut self, peer: &PeerId, memory_bytes: u64, out: &mut Vec<KeeperOutput>) {
        let is_suspect = self.members.health(peer) == Some(Health::Suspect);
        self.transfers.forget(peer);
        for set in self.sets.values_mut() {
            set.replicas.forget(peer);
            set.expect(peer, memory_bytes, self.now);
            if is_suspect {
                set.replicas.suspect(peer);
            }
        }
        self.early.remove(peer);
        self.rosters_changed(out);
        out.push(KeeperOutput::GoOnWithout(peer.clone()));
    }

    /// Acts on what changed among the peers.
    fn changed(&mut self, changes: Vec<Change>, out: &mut Vec<KeeperOutput>) {
        if changes.is_empty() {
            return;
        }
        // Rosters first: a frame that is asked for again does without all of them at once.
        self.rosters_changed(out);
        for change in changes {
            out.push(KeeperOutput::Changed(change.clone()));
            match change {
                Change::Joined(peer) => self.joined(&peer),
                Change::Recovered(peer) => self.sets.values_mut().for_each(|s| {
                    s.replicas.trust(&peer);
                }),
                Change::Suspected(peer) => {
                    // What was asked of it is asked elsewhere.
                    self.transfers.suspect(&peer);
                    let sets = self.sets.values_mut();
                    sets.for_each(|s| s.replicas.suspect(&peer));
                    out.push(KeeperOutput::GoOnWithout(peer));
                }
                Change::Gone(peer) | Change::Left(peer) => {
                    self.transfers.forget(&peer);
                    let sets = self.sets.values_mut();
                    sets.for_each(|s| s.replicas.forget(&peer));
                    self.early.remove(&peer);
                    out.push(KeeperOutput::GoOnWithout(peer));
                }
            }
        }
        self.download_all(out);
    }

    fn joined(&mut self, peer: &PeerId) {
        let Some(member) = self.members.record(peer) else {
            return;
        };
        for (data_set, set) in &mut self.sets {
            set.expect(peer, member.hello.memory_bytes, self.now);
            let said = self.early.get_mut(peer).and_then(|e| e.remove(data_set));
            if let Some(announcement) = said {
                // Who leaves waits for the others to say that they know.
                self.dirty |= announcement.leaving;
                set.replicas.heard(peer, announcement, self.now);
            }
        }
    }

    fn leave(&mut self, out: &mut Vec<KeeperOutput>) {
        if !self.is_leaving() {
            self.leaving = Leaving::HandingOver;
            let sets = self.sets.values_mut();
            sets.for_each(|s| s.replicas.leave());
            self.announce(out);
        }
        self.go_if_handed_over(out);
    }

    /// Says goodbye once others hold what only this peer held.
    fn go_if_handed_over(&mut self, out: &mut Vec<KeeperOutput>) {
        if self.leaving == Leaving::HandingOver {
            if !self.sets.values().all(|s| s.replicas.is_handed_over()) {
                return;
            }
            self.send_all(&KeeperMessage::Goodbye, out);
            self.leaving = Leaving::Gone;
        }
        if self.leaving == Leaving::Gone {
            let left_behind = self.sets.values().map(|s| s.replicas.left_behind());
            out.push(KeeperOutput::Left(left_behind.sum()));
        }
    }

    /// Peers that spoke, ascending, this one not among them: what each said, and how it is.
    pub fn peers(&self) -> impl Iterator<Item = (&PeerId, &Hello, &Vitals, Health)> {
        let all = self.members.all();
        all.map(|(peer, m, health)| (peer, &*m.hello, &*m.vitals, health))
    }

    /// What a peer said of itself last; `None`: it is not in the mesh, or this one.
    #[must_use]
    pub fn hello_of(&self, peer: &PeerId) -> Option<&Hello> {
        self.members.record(peer).map(|m| &*m.hello)
    }

    /// What this peer says of itself.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }
}

#[cfg(test)]
mod tests;

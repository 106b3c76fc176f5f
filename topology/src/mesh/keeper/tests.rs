mod announce;
mod drops;
mod fetch;
mod fit;
mod levels;
mod restarts;
mod shelf;
mod stage;
mod unlike;

use super::*;
use crate::mesh::{announcement::AnnouncementChange, replicas::Origin, transfers::DOWNLOADS_MAX};
use crate::{
    base::seeded::Seeded,
    data::{
        brick_set::BrickSet,
        manifest::ManifestParts,
        volume::{VolumeDescription, VoxelType},
    },
};
use std::collections::VecDeque;

const LATENCY: u64 = 10_000;
const LOADING: u64 = 5_000;
const SECOND: u64 = 1_000_000;
/// Edge of the bricks, 27 of them.
const EDGE: u32 = 4;

/// Keepers on a virtual clock, whose messages are lost by draw.
struct Mesh {
    keepers: Vec<Option<Keeper>>,
    queue: BTreeMap<(u64, u64), (usize, KeeperInput)>,
    count: u64,
    now: u64,
    loss_percent: u64,
    cut: Vec<(usize, usize)>,
    draws: Seeded,
    closed: usize,
    /// Bricks that each peer got from others.
    got: Vec<usize>,
    /// Bricks in device memory, or on their way there.
    in_memory: Vec<BTreeSet<(Digest, BrickIndex)>>,
    /// Bricks on each peer's shelf, as they should be or not.
    shelves: Vec<BTreeMap<(Digest, BrickIndex), bool>>,
    announced: Announced,
    /// The shelves take nothing.
    is_disk_full: bool,
    /// Bricks for which there was no room in device memory.
    not_fitting: usize,
    /// Bricks that were asked for, and whether they are there.
    staged: Vec<(BrickIndex, bool)>,
    /// How many times its bytes a brick takes on the devices, and how many times these say.
    brick_takes: u64,
    brick_said_to_take: u64,
}

/// Messages about what is held.
#[derive(Debug, Default, PartialEq, Eq)]
struct Announced {
    wholes: usize,
    changes: usize,
    digests: usize,
    asked: usize,
}

impl Announced {
    fn count(&mut self, message: &KeeperMessage) {
        let count = match message {
            KeeperMessage::Residency { .. } => &mut self.wholes,
            KeeperMessage::ResidencyChanged { .. } => &mut self.changes,
            KeeperMessage::ResidencyDigests { .. } => &mut self.digests,
            KeeperMessage::NeedResidency { .. } => &mut self.asked,
            _ => return,
        };
        *count += 1;
    }
}

fn name(n: usize) -> PeerId {
    PeerId::new(&format!("peer-{n}"))
}

fn index(peer: &PeerId) -> usize {
    peer.as_str()["peer-".len()..].parse().unwrap()
}

fn manifest(voxel: u8) -> Arc<Manifest> {
    let dims = [3 * EDGE; 3];
    let volume = VolumeDescription::new(dims, VoxelType::U8);
    let parts = ManifestParts::cut(volume, EDGE, "test", |stored| {
        vec![voxel; usize::try_from(stored.voxel_count()).unwrap()]
    });
    Arc::new(Manifest::try_from(parts.unwrap()).unwrap())
}

/// Memory that a brick takes where its voxels take that of the largest one's.
fn bytes_of(manifest: &Manifest, brick: BrickIndex) -> u64 {
    let voxels = manifest.largest_brick_bytes() - manifest.triangle_memory_max();
    voxels + manifest.triangle_memory(brick)
}

impl Mesh {
    /// Peers with memory for so many bricks, all connected.
    fn new(capacities: &[u64]) -> Self {
        let mut mesh = Self {
            keepers: Vec::new(),
            queue: BTreeMap::new(),
            count: 0,
            now: 0,
            loss_percent: 0,
            cut: Vec::new(),
            draws: Seeded::new(1),
            closed: 0,
            got: Vec::new(),
            in_memory: Vec::new(),
            shelves: Vec::new(),
            announced: Announced::default(),
            is_disk_full: false,
            not_fitting: 0,
            staged: Vec::new(),
            brick_takes: 1,
            brick_said_to_take: 1,
        };
        capacities.iter().for_each(|&capacity| mesh.join(capacity));
        mesh
    }

    /// No peers yet, on whose devices a brick takes so many times its bytes, as they know.
    fn padded(times: u64) -> Self {
        Self {
            brick_takes: times,
            brick_said_to_take: times,
            ..Self::new(&[])
        }
    }

    fn join(&mut self, capacity: u64) {
        self.join_with_shelf(capacity, 0);
    }

    /// A peer with memory for so many bricks, and a disk for so many.
    fn join_with_shelf(&mut self, capacity: u64, shelf: u64) {
        let new = self.keepers.len();
        let hello = Hello {
            name: format!("host {new}"),
            device: "cpu".to_owned(),
            is_device_lost: false,
            memory_bytes: capacity * manifest(1).largest_brick_bytes(),
            shelf_bytes: shelf * manifest(1).largest_brick_bytes(),
            sharing: Sharing::Object,
            version: String::new(),
            is_viewer: false,
        };
        let times = self.brick_said_to_take;
        let brick_bytes =
            BrickBytes::measured(move |size, voxel| times * BrickBytes::default().of(size, voxel));
        let keeper = Keeper::new(name(new), hello, brick_bytes, 1);
        self.keepers.push(Some(keeper));
        self.got.push(0);
        self.in_memory.push(BTreeSet::new());
        self.shelves.push(BTreeMap::new());
        for old in 0..new {
            self.input(old, KeeperInput::Connected(name(new)));
            self.input(new, KeeperInput::Connected(name(old)));
        }
        self.push(7_000 * new as u64, new, KeeperInput::Tick);
    }

    fn push(&mut self, after: u64, to: usize, input: KeeperInput) {
        self.count += 1;
        self.queue
            .insert((self.now + after, self.count), (to, input));
    }

    fn input(&mut self, n: usize, input: KeeperInput) {
        if matches!(input, KeeperInput::DeviceLost { .. }) {
            self.in_memory[n].clear();
        }
        let Some(keeper) = &mut self.keepers[n] else {
            return;
        };
        let mut out = Vec::new();
        keeper.step(self.now, input, &mut out);
        for output in out {
            self.carry_out(n, output);
        }
    }

    fn carry_out(&mut self, n: usize, output: KeeperOutput) {
        match output {
            KeeperOutput::Send(to, message) => {
                self.announced.count(&message);
                let to = index(&to);
                let is_cut = self.cut.iter().any(|&c| c == (n, to) || c == (to, n));
                if !is_cut && self.draws.below(100) >= self.loss_percent {
                    self.push(LATENCY, to, KeeperInput::Said(name(n), message));
                }
            }
            KeeperOutput::Load(data_set, brick, origin) => {
                let of_shelf = self.shelves[n].get(&(data_set, brick));
                let result = if origin == Origin::Source && of_shelf == Some(&false) {
                    LoadResult::Unreadable
                } else if self.has_memory(n, (data_set, brick)) {
                    self.in_memory[n].insert((data_set, brick));
                    LoadResult::Done
                } else {
                    self.not_fitting += 1;
                    LoadResult::NoRoom
                };
                let loaded = KeeperInput::Loaded(data_set, brick, result);
                self.push(LOADING, n, loaded);
            }
            KeeperOutput::Staged(_, brick, _, is_there) => self.staged.push((brick, is_there)),
            KeeperOutput::Unload(data_set, brick) | KeeperOutput::Unstage(data_set, brick) => {
                self.in_memory[n].remove(&(data_set, brick));
            }
            KeeperOutput::Upload(to, data_set, brick) => {
                let gave =
                    KeeperInput::Uploaded(to.clone(), data_set, brick, UploadResult::Written);
                self.push(LATENCY / 2, n, gave);
                let to = index(&to);
                let of_shelf = self.shelves[to].get(&(data_set, brick));
                assert_ne!(of_shelf, Some(&true), "fetched though it is on the shelf");
                self.got[to] += 1;
                self.push(LATENCY, to, KeeperInput::Brick(name(n), data_set, brick));
            }
            KeeperOutput::Opened(manifest) if self.keeper(n).hello().shelf_bytes > 0 => {
                self.list_shelf(n, manifest.digest());
            }
            KeeperOutput::Shelve(data_set, brick) => {
                let result = if self.is_disk_full {
                    ShelfResult::NotTaken
                } else {
                    self.shelves[n].insert((data_set, brick), true);
                    let there = self.shelves[n].keys();
                    let there: u64 = there.map(|(_, b)| manifest(1).brick_bytes(*b)).sum();
                    let room = self.keeper(n).hello().shelf_bytes;
                    assert!(there <= room, "there is no room");
                    ShelfResult::Done
                };
                let shelved = KeeperInput::Shelved(data_set, brick, result);
                self.push(LOADING, n, shelved);
            }
            KeeperOutput::Unshelve(data_set, brick) => {
                assert!(self.shelves[n].remove(&(data_set, brick)).is_some());
            }
            KeeperOutput::Left(_) => self.keepers[n] = None,
            KeeperOutput::Closed(_) => self.closed += 1,
            _ => {}
        }
    }

    fn run(&mut self, time: u64) {
        let end = self.now + time;
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > end {
                break;
            }
            self.now = entry.key().0;
            let (n, input) = entry.remove();
            if matches!(input, KeeperInput::Tick) {
                self.push(TICK_MICROS, n, KeeperInput::Tick);
            }
            self.input(n, input);
        }
        self.now = end;
    }

    /// Says what of a data set is on a peer's shelf, and after a while that it is as it should be.
    fn list_shelf(&mut self, n: usize, data_set: Digest) {
        let there = self.shelves[n].iter().filter(|(b, _)| b.0 == data_set);
        let there: Vec<_> = there.map(|(&(_, b), &is_whole)| (b, is_whole)).collect();
        let bricks = there.iter().map(|t| t.0).collect();
        self.push(LOADING, n, KeeperInput::OnShelf(data_set, bricks));
        for (brick, is_whole) in there {
            let checked = if is_whole {
                ShelfResult::Done
            } else {
                ShelfResult::Lost
            };
            let checked = KeeperInput::Shelved(data_set, brick, checked);
            self.push(SECOND, n, checked);
        }
    }

    /// Whether the device of a peer has room for a brick more.
    fn has_memory(&self, n: usize, brick: (Digest, BrickIndex)) -> bool {
        let keeper = self.keeper(n);
        let bytes = |(d, brick): &(Digest, BrickIndex)| {
            let set = keeper.sets.get(d)?;
            Some(bytes_of(&set.manifest, *brick))
        };
        let bricks = self.in_memory[n].iter().chain([&brick]);
        let bytes: u64 = bricks.filter_map(bytes).sum();
        bytes * self.brick_takes <= keeper.hello().memory_bytes
    }

    /// Power off: the others see the connection break.
    fn kill(&mut self, n: usize) {
        self.keepers[n] = None;
        for other in 0..self.keepers.len() {
            self.input(other, KeeperInput::Lost(name(n)));
        }
    }

    fn keeper(&self, n: usize) -> &Keeper {
        self.keepers[n].as_ref().unwrap()
    }

    fn replicas(&self, n: usize, data_set: Digest) -> &Replicas {
        let all = self.keeper(n).data_sets();
        let mut of = all.filter(|(m, _)| m.digest() == data_set);
        of.next().unwrap().1
    }

    /// Peers that frames which a peer asks for can be given to.
    fn speaking(&self, n: usize, data_set: Digest) -> usize {
        let (_, candidates) = self.keeper(n).candidates(data_set).unwrap();
        candidates.iter().filter(|c| !c.is_silent).count()
    }

    fn held(&self, n: usize, data_set: Digest) -> u32 {
        self.replicas(n, data_set).announcement().held.len()
    }

    /// Copies of all bricks.
    fn copies(&self, data_set: Digest) -> u32 {
        let peers = 0..self.keepers.len();
        peers.map(|n| self.held(n, data_set)).sum()
    }
}

/// Four peers that hold two copies of 27 bricks, the first of them the source.
fn four(loss_percent: u64) -> (Mesh, Digest) {
    let mut mesh = Mesh::new(&[27; 4]);
    mesh.loss_percent = loss_percent;
    mesh.run(SECOND);
    let data = manifest(1);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 2));
    // A request that was lost is made again after some time, longer each time.
    mesh.run(200 * SECOND);
    (mesh, data.digest())
}

#[test]
fn whatever_message_is_lost_all_copies_are_made_and_made_again() {
    let (mut mesh, data) = four(10);
    for n in 0..4 {
        assert_eq!(mesh.replicas(n, data).safety().endangered, 0, "peer {n}");
        assert!(mesh.replicas(n, data).announcement().settled, "peer {n}");
    }
    mesh.kill(2);
    mesh.run(SECOND / 2);
    assert_eq!(mesh.speaking(0, data), 3);
    mesh.run(60 * SECOND);
    assert_eq!(mesh.replicas(3, data).safety().endangered, 0);
}

#[test]
fn a_newcomer_gets_its_share_and_nobody_else_anything() {
    let (mut mesh, data) = four(0);
    let before = mesh.got.clone();
    mesh.join(27);
    // What it took too much of at first it holds some seconds longer.
    mesh.run(15 * SECOND);
    assert_eq!(mesh.got[..4], before);
    assert_eq!(mesh.held(4, data), 10, "54 / 5");
    // It may have begun to fetch before it knew of all others.
    assert!((10..=10 + DOWNLOADS_MAX).contains(&mesh.got[4]));
}

#[test]
fn a_newcomer_right_after_the_first_placement_takes_its_share_too() {
    let mut mesh = Mesh::new(&[27; 4]);
    mesh.run(SECOND);
    let data = manifest(1);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 2));
    mesh.run(SECOND);
    assert_eq!(mesh.replicas(1, data.digest()).safety().endangered, 0);
    mesh.join(27);
    mesh.run(20 * SECOND);
    assert_eq!(
        (mesh.got[4], mesh.held(4, data.digest())),
        (10, 10),
        "54 / 5"
    );
}

#[test]
fn two_that_leave_at_once_leave_nothing_behind() {
    let (mut mesh, data) = four(10);
    mesh.input(2, KeeperInput::Leave);
    mesh.input(3, KeeperInput::Leave);
    mesh.run(SECOND / 100);
    assert!(mesh.keepers[2].is_some(), "nobody has heard of it yet");
    mesh.run(90 * SECOND);
    assert!(mesh.keepers[2].is_none() && mesh.keepers[3].is_none());
    let safety = mesh.replicas(1, data).safety();
    assert_eq!((safety.missing, safety.endangered), (0, 0));
}

#[test]
fn who_holds_nothing_leaves_at_once() {
    let mut mesh = Mesh::new(&[27, 0]);
    mesh.run(SECOND);
    mesh.input(1, KeeperInput::Leave);
    assert!(mesh.keepers[1].is_none());
    mesh.run(SECOND / 10);
    assert_eq!(mesh.keeper(0).peers().count(), 0, "it said goodbye");
}

#[test]
fn peers_say_whom_they_do_not_hear() {
    let (mut mesh, data) = four(0);
    mesh.cut.push((1, 2));
    mesh.run(3 * SECOND);
    let candidates = mesh.keeper(0).candidates(data).unwrap().1;
    let suspects = |n: usize| {
        let of = candidates.iter().find(|c| c.entry.peer == name(n));
        of.map(|c| c.suspects.iter().map(index).collect::<Vec<_>>())
    };
    assert_eq!(suspects(1), Some(vec![2]));
    assert_eq!(suspects(2), Some(vec![1]));
    assert_eq!(suspects(3), Some(vec![]));
    assert_eq!(mesh.speaking(1, data), 3);
    mesh.cut.clear();
    mesh.run(SECOND);
    assert_eq!(mesh.speaking(1, data), 4);
}

#[test]
fn what_nobody_needs_makes_room_for_what_somebody_needs() {
    let mut mesh = Mesh::new(&[27, 27]);
    let (first, second) = (manifest(1), manifest(2));
    mesh.input(0, KeeperInput::Offer(Arc::clone(&first), 2));
    mesh.run(5 * SECOND);
    assert_eq!(mesh.held(1, first.digest()), 27);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&second), 2));
    mesh.run(5 * SECOND);
    assert_eq!(
        mesh.held(1, second.digest()),
        0,
        "both are needed: no capacity"
    );
    mesh.input(0, KeeperInput::Use(first.digest(), false));
    mesh.run(5 * SECOND);
    assert_eq!(mesh.held(1, second.digest()), 27);
    assert_eq!(mesh.closed, 2);
}

/// Three peers that all hold all of a data set of which two copies are wanted, and need their memory for
/// another one from now on.
fn three_with_too_many_copies() -> (Mesh, [Arc<Manifest>; 2]) {
    // Each was alone with the source for some time.
    let mut mesh = Mesh::new(&[27]);
    let (first, second) = (manifest(1), manifest(2));
    mesh.input(0, KeeperInput::Offer(Arc::clone(&first), 2));
    mesh.run(5 * SECOND);
    for new in 1..3 {
        mesh.join(27);
        mesh.cut = (1..new).map(|other| (other, new)).collect();
        mesh.run(15 * SECOND);
    }
    mesh.cut.clear();
    mesh.run(15 * SECOND);
    let copies = mesh.copies(first.digest());
    assert!(copies > 2 * 27, "nothing is spare");
    mesh.input(1, KeeperInput::Offer(Arc::clone(&second), 1));
    (mesh, [first, second])
}

#[test]
fn copies_beyond_those_that_are_wanted_make_room_for_another_data_set() {
    let (mut mesh, [first, second]) = three_with_too_many_copies();
    mesh.run(30 * SECOND);
    assert_eq!(mesh.copies(second.digest()), 27);
    assert_eq!(mesh.not_fitting, 0, "what is dropped is in memory still");
    mesh.run(60 * SECOND);
    assert_eq!(mesh.copies(second.digest()), 27, "it goes on like that");
    for (manifest, copies) in [(&first, 2), (&second, 1)] {
        let safety = mesh.replicas(2, manifest.digest()).safety();
        assert_eq!(safety.copies_min, copies);
    }
}

#[test]
fn where_nobody_lacks_anything_no_data_set_gives_anything_up() {
    let mut mesh = Mesh::new(&[54; 3]);
    let sets = [manifest(1), manifest(2)];
    for data in &sets {
        mesh.input(0, KeeperInput::Offer(Arc::clone(data), 2));
    }
    mesh.run(30 * SECOND);
    mesh.join(10);
    mesh.run(60 * SECOND);
    let held = sets.each_ref().map(|data| mesh.held(3, data.digest()));
    assert_eq!(held.iter().sum::<u32>(), 10, "{held:?}");
}

/// What one says that can give every brick of some data sets, and of the second says that it holds
/// them: that one is less scarce.
fn offers(sets: &[Arc<Manifest>; 2]) -> Vec<KeeperMessage> {
    let of = |(n, data): (usize, &Arc<Manifest>)| {
        let mut announcement = Announcement::expected(27, 0);
        (announcement.source, announcement.in_use) = (true, true);
        if n > 0 {
            announcement.held = BrickSet::all(27);
        }
        let open = KeeperMessage::Open {
            manifest: Arc::clone(data),
            redundancy: 1,
            is_new: true,
        };
        let residency = KeeperMessage::Residency {
            data_set: data.digest(),
            announcement: Arc::new(announcement),
        };
        [open, residency]
    };
    sets.iter().enumerate().flat_map(of).collect()
}

#[test]
fn a_data_set_that_cannot_be_had_keeps_no_other_waiting() {
    let mut mesh = Mesh::new(&[54]);
    let (sets, other) = ([manifest(1), manifest(2)], name(1));
    let said = |message| KeeperInput::Said(other.clone(), message);
    let hello = Arc::new(mesh.keeper(0).hello().clone());
    let keeper = mesh.keepers[0].as_mut().unwrap();
    let mut offers = offers(&sets);
    let mut refused = 0;
    for tick in 0..200 {
        let heartbeat = KeeperMessage::Heartbeat {
            heartbeat: Heartbeat {
                incarnation: 1,
                count: tick,
            },
            hello: Arc::clone(&hello),
            vitals: Arc::default(),
        };
        let mut inputs = vec![said(heartbeat)];
        inputs.extend(offers.drain(..).map(said));
        inputs.extend([KeeperInput::Rendering, KeeperInput::Tick]);
        inputs.reverse();
        while let Some(input) = inputs.pop() {
            let mut out = Vec::new();
            keeper.step(tick * TICK_MICROS, input, &mut out);
            for output in out {
                match output {
                    KeeperOutput::Send(
                        _,
                        KeeperMessage::BrickRequest {
                            data_set, brick, ..
                        },
                    ) if data_set == sets[0].digest() => {
                        refused += 1;
                        let why = String::new();
                        inputs.push(said(KeeperMessage::BrickRefused {
                            data_set,
                            brick,
                            why,
                        }));
                    }
                    KeeperOutput::Send(
                        _,
                        KeeperMessage::BrickRequest {
                            data_set, brick, ..
                        },
                    ) => {
                        inputs.push(KeeperInput::Brick(other.clone(), data_set, brick));
                    }
                    KeeperOutput::Load(data_set, brick, _) => {
                        inputs.push(KeeperInput::Loaded(data_set, brick, LoadResult::Done));
                    }
                    _ => {}
                }
            }
        }
    }
    let held = sets.each_ref().map(|data| mesh.held(0, data.digest()));
    assert_eq!(held, [0, 27]);
    assert!(refused > 27, "it is tried again");
}

#[test]
fn a_small_peer_goes_on_holding_its_share() {
    let mut mesh = Mesh::new(&[27, 27, 3, 5]);
    let data = manifest(1);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 1));
    mesh.run(20 * SECOND);
    let held = |mesh: &Mesh| [2, 3].map(|n| mesh.held(n, data.digest()));
    let (before, got) = (held(&mesh), mesh.got.clone());
    assert_eq!(before[0], 3, "it is full");
    mesh.run(60 * SECOND);
    assert_eq!((held(&mesh), &mesh.got), (before, &got));
}

#[test]
fn bricks_of_all_data_sets_together_leave_the_links_to_the_frames() {
    let mut mesh = Mesh::new(&[54]);
    mesh.input(0, KeeperInput::Rendering);
    for voxel in [1, 2] {
        mesh.input(0, KeeperInput::Offer(manifest(voxel), 1));
    }
    let held = |mesh: &Mesh| [1, 2].map(|v| mesh.held(0, manifest(v).digest()));
    // One takes five milliseconds, and is followed by a pause of fifteen.
    mesh.run(100_000);
    assert_eq!(held(&mesh).iter().sum::<u32>(), 1, "the next at a tick");
    for _ in 0..5 {
        mesh.input(0, KeeperInput::Rendering);
        mesh.run(100_000);
    }
    assert!(held(&mesh).iter().sum::<u32>() < 8);
    mesh.run(2 * SECOND);
    assert_eq!(held(&mesh), [27; 2], "nobody renders any more");
}

#[test]
fn strangers_are_not_believed_and_nothing_of_another_grid() {
    let (mut mesh, data) = four(0);
    let residency = |bricks| KeeperMessage::Residency {
        data_set: data,
        announcement: Announcement::expected(bricks, 9).into(),
    };
    let before = mesh.replicas(0, data).others().len();
    mesh.input(0, KeeperInput::Said(name(9), residency(27)));
    assert_eq!(mesh.replicas(0, data).others().len(), before);
    let mut out = Vec::new();
    let wrong = KeeperInput::Said(name(1), residency(28));
    mesh.keepers[0]
        .as_mut()
        .unwrap()
        .step(mesh.now, wrong, &mut out);
    assert!(matches!(out[..], [KeeperOutput::Dropping(..)]));
}

#[test]
fn a_brick_that_does_not_fit_or_is_damaged_is_not_announced() {
    let mut mesh = Mesh::new(&[27]);
    let data = manifest(1);
    let mut out = Vec::new();
    let keeper = mesh.keepers[0].as_mut().unwrap();
    keeper.step(0, KeeperInput::Offer(Arc::clone(&data), 1), &mut out);
    let loads = out.iter().filter_map(|o| match o {
        KeeperOutput::Load(_, brick, _) => Some(*brick),
        _ => None,
    });
    let loads: Vec<BrickIndex> = loads.collect();
    let results = [LoadResult::Done, LoadResult::Failed, LoadResult::NoRoom];
    for (&brick, result) in loads.iter().zip(results) {
        keeper.step(
            1,
            KeeperInput::Loaded(data.digest(), brick, result),
            &mut out,
        );
    }
    let held = mesh.replicas(0, data.digest()).announcement().clone();
    assert_eq!(held.held.iter().collect::<Vec<_>>(), loads[..1]);
    let room = |a: &Announcement| a.capacity + a.reserve;
    assert_eq!(room(&held), 1, "the device is full");
    // It is tried again once another data set has given memory back.
    for (of, capacity) in [(data.digest(), 1), (manifest(2).digest(), 27)] {
        let keeper = mesh.keepers[0].as_mut().unwrap();
        keeper.dropping.push((1, of, loads[2]));
        mesh.run(SECOND);
        let found = mesh.replicas(0, data.digest()).announcement();
        assert_eq!(room(found), capacity);
    }
}

#[test]
fn a_lost_device_is_announced_at_once_and_what_it_held_comes_back() {
    let (mut mesh, data) = four(0);
    let before = mesh.replicas(2, data).announcement().held.clone();
    let copies = before.iter().take(3).map(|b| (data, b)).collect();
    mesh.got.fill(0);
    let why = "lost".to_owned();
    mesh.input(2, KeeperInput::DeviceLost { why, copies });
    mesh.run(LATENCY);
    let seen = |mesh: &Mesh| mesh.replicas(0, data).others()[&name(2)].held.clone();
    let device = |mesh: &Mesh| mesh.keeper(0).hello_of(&name(2)).unwrap().device.clone();
    assert!(seen(&mesh).is_empty());
    assert_eq!(device(&mesh), "lost");
    let opened = KeeperInput::DeviceOpened {
        device: "another".to_owned(),
        memory_bytes: mesh.keeper(2).hello().memory_bytes,
        brick_bytes: BrickBytes::default(),
    };
    mesh.input(2, opened);
    mesh.run(10 * SECOND);
    assert_eq!(
        (seen(&mesh), device(&mesh)),
        (before.clone(), "another".to_owned())
    );
    let fetched = before.len() as usize - 3;
    assert_eq!(mesh.got, [0, 0, fetched, 0], "three were in host memory");
}

#[test]
fn a_device_with_less_memory_in_place_of_a_lost_one_holds_less() {
    let (mut mesh, data) = four(0);
    let brick = manifest(1).largest_brick_bytes();
    let why = "lost".to_owned();
    let copies = BTreeSet::new();
    mesh.input(2, KeeperInput::DeviceLost { why, copies });
    let opened = KeeperInput::DeviceOpened {
        device: "a small one".to_owned(),
        memory_bytes: 4 * brick,
        brick_bytes: BrickBytes::default(),
    };
    mesh.input(2, opened);
    mesh.run(60 * SECOND);
    assert_eq!(mesh.held(2, data), 4);
    assert_eq!(
        mesh.replicas(0, data).safety().endangered,
        0,
        "others hold more"
    );
}

#[test]
fn a_brick_that_was_given_up_is_held_elsewhere() {
    let (mut mesh, data) = four(0);
    let before = mesh.replicas(2, data).announcement().held.clone();
    let brick = before.iter().next().unwrap();
    mesh.input(2, KeeperInput::GaveUp(data, brick));
    mesh.run(LATENCY);
    let seen = mesh.replicas(0, data).others()[&name(2)].clone();
    assert!(!seen.held.contains(brick) && !seen.assigned.contains(brick));
    assert_eq!(
        (seen.held.len(), seen.capacity),
        (before.len() - 1, before.len() - 1)
    );
    mesh.run(60 * SECOND);
    assert_eq!(mesh.held(2, data), before.len() - 1);
    assert_eq!(mesh.replicas(0, data).safety().endangered, 0);
}

#[test]
fn manifests_are_kept_as_far_as_their_memory_goes_the_newest_in_any_case() {
    let mut mesh = Mesh::new(&[27]);
    let keeper = mesh.keepers[0].as_mut().unwrap();
    let bytes = manifest(1).memory_bytes();
    // 27 records of 41 bytes, whose cells are all alike, and a histogram.
    assert!((27 * 41..27 * 41 + 4096).contains(&bytes), "{bytes}");
    let mut out = Vec::new();
    for voxel in 1..=3 {
        let data = manifest(voxel);
        keeper.step(0, KeeperInput::Offer(Arc::clone(&data), 1), &mut out);
        keeper.step(0, KeeperInput::Use(data.digest(), voxel != 2), &mut out);
    }
    let closed = |keeper: &mut Keeper, count, bytes| {
        let mut out = Vec::new();
        keeper.close_beyond(count, bytes, &manifest(9), &mut out);
        let closed = out.iter().filter_map(|o| match o {
            KeeperOutput::Closed(data_set) => Some(*data_set),
            _ => None,
        });
        closed.collect::<Vec<_>>()
    };
    assert_eq!(closed(keeper, 4, 4 * bytes), []);
    // First what nobody needs, then what was opened first.
    let first = [manifest(2).digest(), manifest(1).digest()];
    assert_eq!(closed(keeper, 4, 2 * bytes), first);
    assert_eq!(closed(keeper, 1, 9 * bytes), [manifest(3).digest()]);
    assert_eq!(closed(keeper, 1, 0), []);
}

#[test]
fn a_manifest_is_asked_for_once_while_it_may_be_on_its_way() {
    let mut mesh = Mesh::new(&[27, 27]);
    mesh.run(SECOND);
    let mut asked = |now: u64, name_of: &[u8]| {
        let residency = KeeperMessage::Residency {
            data_set: Digest::of(name_of),
            announcement: Arc::new(Announcement {
                in_use: true,
                ..Announcement::expected(27, 0)
            }),
        };
        let mut out = Vec::new();
        let keeper = mesh.keepers[0].as_mut().unwrap();
        keeper.step(now, KeeperInput::Said(name(1), residency), &mut out);
        let need = |o: &&KeeperOutput| {
            matches!(o, KeeperOutput::Send(_, KeeperMessage::NeedManifest { .. }))
        };
        out.iter().filter(need).count()
    };
    let now = SECOND;
    assert_eq!(
        (asked(now, b"x"), asked(now + 1, b"x"), asked(now, b"y")),
        (1, 0, 1)
    );
    assert_eq!(asked(now + NEED_MICROS, b"x"), 1, "it did not come");
    let flood = (0..2 * NEEDED_MAX).map(|n| asked(now + NEED_MICROS, &n.to_le_bytes()));
    assert!(flood.sum::<usize>() <= NEEDED_MAX);
}

//! What moves when members come, leave and die while frames are rendered, over loopback with the
//! real network: every brick that goes over the wire is counted where it is sent. Every wait has a
//! deadline.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::messages::Message;
use brickmesh_node::network::Multiaddr;
use brickmesh_tests::{
    network_mesh::{Member, SETTLE, Scene, Twist, met, settled},
    network_peer::{config, key, until_async},
};
use brickmesh_topology::{BrickIndex, PeerId, VoxelBox, data::brick_set::BrickSet};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

/// Bricks that members have sent, each with its addressee.
#[derive(Clone, Debug, Default)]
struct Moved(Arc<Mutex<Vec<(PeerId, BrickIndex)>>>);

impl Moved {
    /// Counts what a member sends.
    fn counting(&self) -> Twist {
        let moved = Arc::clone(&self.0);
        Arc::new(move |to, message| {
            if let Message::BrickData { brick, .. } = message {
                moved.lock().unwrap().push((to.clone(), brick));
            }
            vec![message]
        })
    }

    /// What has moved since the last time.
    fn take(&self) -> Vec<(PeerId, BrickIndex)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A viewer without memory, and members that hold the bricks.
struct Holders {
    scene: Scene,
    moved: Moved,
    viewer: Member,
    members: Vec<Member>,
}

impl Holders {
    fn start_one(known: &[Multiaddr], memory: u64, moved: &Moved) -> Member {
        Member::start(config(key(), known), memory, Some(moved.counting()))
    }

    /// The viewer brings the data set where `stays`; else somebody does who leaves once all have
    /// their share.
    async fn start(scene: Scene, count: usize, bricks: u64, redundancy: u32, stays: bool) -> Self {
        let moved = Moved::default();
        let memory = scene.memory_of(bricks);
        let viewer = Self::start_one(&[], 0, &moved);
        let known = viewer.addresses();
        let mut members: Vec<Member> = (0..count)
            .map(|_| Self::start_one(&known, memory, &moved))
            .collect();
        let brings = Self::start_one(&known, 0, &moved);
        members.push(brings);
        met(&members).await;
        let brings = members.pop().unwrap();
        let source = if stays { &viewer } else { &brings };
        source.open(scene.source(), redundancy).await;
        viewer.look_at(scene.data_set()).await;
        settled(&members, scene.data_set()).await;
        brings.leave().await;
        let holders = Self {
            scene,
            moved,
            viewer,
            members,
        };
        holders.knows_no_more_than(count).await;
        holders.settle().await;
        holders.moved.take();
        holders
    }

    /// Waits until everybody knows that everybody holds a share, no brick lacks a copy, and nobody
    /// holds what it gave up: for some seconds it does, in case others rely on it.
    async fn settle(&self) {
        settled(&self.members, self.scene.data_set()).await;
        let data_set = self.scene.data_set();
        until_async(SETTLE, "settled mesh", async || {
            let set = self.viewer.data_set(data_set).await?;
            let is_clean = set.residency.values().all(|r| r.held == r.assigned);
            (set.safety.endangered == 0 && is_clean).then_some(())
        })
        .await;
    }

    /// Waits until all have forgotten whoever is gone.
    async fn knows_no_more_than(&self, members: usize) {
        for member in self.members.iter().chain([&self.viewer]) {
            until_async(SETTLE, "end of whoever is gone", async || {
                let peers = member.status().await.peers.len();
                (peers == members + 1).then_some(())
            })
            .await;
        }
    }

    /// What each member holds, by its own word.
    async fn held(&self) -> BTreeMap<PeerId, BrickSet> {
        let mut held = BTreeMap::new();
        for member in &self.members {
            held.insert(member.id().clone(), self.held_by(member).await);
        }
        held
    }

    async fn held_by(&self, member: &Member) -> BrickSet {
        let its = member.residency(self.scene.data_set(), member.id()).await;
        its.unwrap().held
    }

    async fn watch<T>(&self, happens: impl Future<Output = T>) -> T {
        self.scene.watch(&self.viewer, happens).await.0
    }
}

fn copies_in<'a>(sets: impl IntoIterator<Item = &'a BrickSet>, brick: BrickIndex) -> usize {
    sets.into_iter().filter(|set| set.contains(brick)).count()
}

fn run(test: impl AsyncFnOnce(Scene)) {
    let mut scene = Scene::new();
    scene.bears_silence = true;
    actix::System::new().block_on(test(scene));
}

#[test]
fn a_ninth_member_moves_its_share_and_one_that_leaves_what_falls_below_the_target() {
    // Room for 16 of 48 bricks each: eight hold two copies of all, and have some room left.
    let room = 16;
    run(async |scene| {
        let mut mesh = Holders::start(scene, 8, room, 2, true).await;
        let before = mesh.held().await;

        let known = mesh.viewer.addresses();
        let memory = mesh.scene.memory_of(room);
        let joins = async {
            let ninth = Holders::start_one(&known, memory, &mesh.moved);
            ninth.has_its_share(mesh.scene.data_set()).await;
            ninth
        };
        let ninth = mesh.watch(joins).await;
        let id = ninth.id().clone();
        mesh.members.push(ninth);
        mesh.watch(mesh.settle()).await;
        let moved = mesh.moved.take();
        let after = mesh.held().await;
        assert!(moved.iter().all(|(to, _)| *to == id), "towards others too");
        let most = 11 * usize::try_from(room).unwrap();
        assert!(moved.len() * 10 <= most, "{moved:?}, {:?}", after[&id]);
        assert!(before.iter().all(|(peer, held)| after[peer] == *held));

        let leaver = mesh.members.remove(3);
        let left = after[leaver.id()].clone();
        let mut stay = after;
        stay.remove(leaver.id());
        mesh.watch(leaver.leave()).await;
        mesh.watch(mesh.knows_no_more_than(8)).await;
        mesh.watch(mesh.settle()).await;
        assert_moved_what_falls_below(2, &left, stay.values(), &mesh.moved);
    });
}

/// What moved since `left` is held by nobody but who stays is what had fallen below the target for
/// that, each brick to one member, though perhaps twice: what is on its way when its giver goes is lost.
fn assert_moved_what_falls_below<'a>(
    target: usize,
    left: &BrickSet,
    stay: impl IntoIterator<Item = &'a BrickSet> + Clone,
    moved: &Moved,
) {
    let moved: BTreeSet<(PeerId, BrickIndex)> = moved.take().into_iter().collect();
    let mut moved: Vec<BrickIndex> = moved.into_iter().map(|(_, brick)| brick).collect();
    moved.sort();
    let below = |b: &BrickIndex| copies_in(stay.clone(), *b) < target;
    let below: Vec<BrickIndex> = left.iter().filter(below).collect();
    assert!(!below.is_empty());
    assert_eq!(moved, below);
}

#[test]
fn whoever_holds_the_only_copies_hands_them_over_before_it_goes() {
    run(async |scene| {
        // Nobody else has the data set, and there is one copy of each brick.
        let mut mesh = Holders::start(scene, 3, 48, 1, false).await;
        let before = mesh.held().await;
        let leaver = mesh.members.remove(0);
        mesh.watch(leaver.leave()).await;
        mesh.watch(mesh.knows_no_more_than(2)).await;
        mesh.watch(mesh.settle()).await;
        let stay = mesh.members.iter().map(|m| &before[m.id()]);
        assert_moved_what_falls_below(1, &before[leaver.id()], stay, &mesh.moved);
    });
}

#[test]
fn two_that_leave_at_once_do_not_rely_on_each_other() {
    run(async |scene| {
        let mut mesh = Holders::start(scene, 4, 48, 2, false).await;
        let held = mesh.held().await;
        let (one, other) = (mesh.members.remove(0), mesh.members.remove(0));
        let stay: Vec<&BrickSet> = mesh.members.iter().map(|m| &held[m.id()]).collect();
        let only_theirs = |b: &BrickIndex| copies_in(stay.iter().copied(), *b) == 0;
        let count = held[one.id()].iter().filter(only_theirs).count();
        assert!(count > 0, "nothing is held by just the two");
        // Both are told before either hears of the other.
        let both = async { tokio::join!(one.leave(), other.leave()) };
        mesh.watch(both).await;
        mesh.watch(mesh.knows_no_more_than(2)).await;
        mesh.watch(mesh.settle()).await;
    });
}

#[test]
fn the_last_copies_gone_frames_name_the_boxes_and_heal_when_the_source_is_back() {
    run(async |scene| {
        let mut mesh = Holders::start(scene, 2, 48, 1, false).await;
        let whole = mesh.scene.frame(&mesh.viewer, 0).await.unwrap();
        let shown: BTreeSet<BrickIndex> = whole.stats.jobs.iter().map(|j| j.brick).collect();
        let dead = mesh.members.remove(0);
        let lost = mesh.held_by(&dead).await;
        let stays = mesh.held_by(&mesh.members[0]).await;
        dead.die();
        let grid = *mesh.scene.source().manifest().grid();
        let brick_of = |missing: &VoxelBox| {
            let mut bricks = grid.bricks();
            bricks.find(|&b| grid.owned_box(b).contains_box(missing))
        };
        let only_there = |b: &BrickIndex| shown.contains(b) && !stays.contains(*b);
        let expected: BTreeSet<BrickIndex> = lost.iter().filter(only_there).collect();
        assert!(!expected.is_empty());
        // Nobody has these bricks: every frame says so, none waits for them.
        for _ in 0..3 {
            let frame = mesh.scene.frame(&mesh.viewer, 0).await.unwrap();
            let missing = frame.stats.missing.iter();
            let missing: BTreeSet<BrickIndex> = missing.filter_map(brick_of).collect();
            assert_eq!(missing, expected);
        }
        let known = mesh.viewer.addresses();
        let back = Holders::start_one(&known, 0, &mesh.moved);
        back.open(mesh.scene.source(), 1).await;
        let healed = until_async(SETTLE, "whole frame", async || {
            let frame = mesh.scene.frame(&mesh.viewer, 0).await.unwrap();
            frame.stats.missing.is_empty().then_some(frame)
        });
        mesh.scene.assert_whole(0, &healed.await);
        mesh.watch(async {}).await;
    });
}

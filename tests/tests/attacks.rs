//! Attacks on a mesh that renders, over loopback with the real network: whoever has not the key,
//! says again what was overheard, comes in crowds, announces giants or gives damaged bricks, changes
//! no frame. What is refused, and how, is `admission`'s; members that lie about what they hold and
//! do, `liars`'. Every wait has a deadline.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::messages::Message;
use brickmesh_node::network::Refusal;
use brickmesh_tests::{
    attacker::{
        GIANT_LENGTH, GIANT_VARINT, Rogue, at, crowd, flood, hung_up, recording_proxy, replay, say,
        socket_of,
    },
    network_mesh::{MEMORY, Member, NetworkMesh, Scene, Twist, met},
    network_peer::{SECOND, another_key, config, until},
};
use brickmesh_topology::PeerId;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::time::sleep;

/// Honest members of each mesh.
const HONEST: usize = 3;
/// Peers that join until one of them asks the liar for a brick.
const NEWCOMERS_MAX: usize = 4;
/// Copies of each brick.
const REDUNDANCY: u32 = 2;

/// Nobody has joined these members, and nobody is missing.
async fn assert_just_these(members: &[Member]) {
    for member in members {
        let status = member.status().await;
        assert_eq!(status.peers.len(), members.len(), "{:?}", status.peers);
    }
}

#[test]
fn whoever_has_another_key_changes_no_frame_and_sees_nothing() {
    let scene = Scene::new();
    actix::System::new().block_on(async {
        let mesh = NetworkMesh::start(&scene, HONEST, REDUNDANCY).await;
        let others_key = another_key();
        let attack = async {
            let known = mesh.members.iter().flat_map(Member::addresses);
            let known: Vec<_> = known.collect();
            let start = || Member::start(config(others_key.clone(), &known), MEMORY, None);
            let strangers = [start(), start()];
            // It says that the data set is its own.
            strangers[0].open(scene.source(), REDUNDANCY).await;
            for member in &mesh.members {
                until(10 * SECOND, "refusal", || {
                    let refusals = member.network.refusals();
                    let is_key = |r: &Refusal| matches!(r, Refusal::AnotherKey { .. });
                    refusals.iter().any(is_key).then_some(())
                })
                .await;
            }
            strangers
        };
        let (strangers, _) = scene.watch(mesh.viewer(), attack).await;
        assert_just_these(&mesh.members).await;
        for stranger in &strangers {
            let status = stranger.status().await;
            let honest = |p: &PeerId| mesh.members.iter().any(|m| m.id() == p);
            assert!(!status.peers.keys().any(honest), "{:?}", status.peers);
        }
    });
}

#[test]
fn a_handshake_that_is_replayed_changes_no_frame() {
    let scene = Scene::new();
    actix::System::new().block_on(async {
        let mut mesh = NetworkMesh::start(&scene, HONEST, REDUNDANCY).await;
        // An honest member that joins is overheard, handshake and all.
        let to = socket_of(&mesh.viewer().network);
        let (proxy, record) = recording_proxy(to).await;
        mesh.members.push(Member::join(&[at(proxy)], MEMORY));
        met(&mesh.members).await;
        mesh.settle(&scene).await;
        let overheard = record.bytes();
        assert!(overheard.len() > 1000, "{}", overheard.len());
        let attack = async {
            for member in &mesh.members[..HONEST] {
                for _ in 0..3 {
                    replay(socket_of(&member.network), &overheard).await;
                }
            }
        };
        scene.watch(mesh.viewer(), attack).await;
        let refusals = mesh.viewer().network.refusals();
        assert!(!refusals.is_empty(), "nobody was refused");
        assert_just_these(&mesh.members).await;
    });
}

#[test]
fn a_flood_of_connections_changes_no_frame_and_keeps_nobody_out() {
    let scene = Scene::new();
    actix::System::new().block_on(async {
        let mut mesh = NetworkMesh::start(&scene, HONEST, REDUNDANCY).await;
        let attack = async {
            // Whoever has the key is let in, and need not do anything then.
            let all = mesh.members.iter().flat_map(Member::addresses);
            let crowd = crowd(40, all.collect()).await;
            let mut sockets = Vec::new();
            for member in &mesh.members {
                sockets.extend(flood(socket_of(&member.network), 150).await);
            }
            (sockets, crowd)
        };
        let ((sockets, crowd), _) = scene.watch(mesh.viewer(), attack).await;
        // While all of it is there, an honest member joins, takes its share and renders.
        let joins = async {
            let newcomer = Member::join(&mesh.addresses(), MEMORY);
            newcomer.has_its_share(scene.data_set()).await;
            newcomer
        };
        let (newcomer, _) = scene.watch(mesh.viewer(), joins).await;
        crowd.abort();
        drop(sockets);
        mesh.members.push(newcomer);
        mesh.settle(&scene).await;
        assert_just_these(&mesh.members).await;
    });
}

#[test]
fn giant_lengths_on_any_lane_or_protocol_change_no_frame() {
    let scene = Scene::new();
    actix::System::new().block_on(async {
        let mesh = NetworkMesh::start(&scene, HONEST, REDUNDANCY).await;
        let attack = async {
            for member in &mesh.members {
                for lane in 0..3 {
                    let mut rogue = Rogue::join(&member.network).await;
                    let mut lanes = rogue.open_lanes().await;
                    say(&mut lanes[lane], &GIANT_LENGTH).await.unwrap();
                    // The peer ends the whole session: its other lanes end too.
                    hung_up(&mut lanes[(lane + 1) % 3]).await;
                }
                announce_giants(member).await;
            }
        };
        scene.watch(mesh.viewer(), attack).await;
        assert_just_these(&mesh.members).await;
    });
}

/// Announces giants on every protocol besides the lanes, and on the lanes the largest length that
/// is allowed, of which nothing comes; stays for some frames.
async fn announce_giants(to: &Member) {
    let mut rogue = Rogue::join(&to.network).await;
    let mut streams = rogue.open_lanes().await;
    for lane in &mut streams {
        let largest = 16_u32 << 20;
        say(lane, &largest.to_le_bytes()).await.unwrap();
    }
    for protocol in Rogue::other_protocols() {
        // One that takes no such stream of strangers is as safe.
        if let Ok(mut stream) = rogue.open(&protocol).await {
            say(&mut stream, &GIANT_VARINT).await.ok();
            say(&mut stream, &[0xff; 4096]).await.ok();
            streams.push(stream);
        }
    }
    sleep(SECOND / 10).await;
}

/// Damages the bricks that go out, and counts them.
fn damaging(damaged: &Arc<AtomicUsize>) -> Twist {
    let damaged = Arc::clone(damaged);
    Arc::new(move |_, message| {
        let Message::BrickData {
            data_set,
            brick,
            bytes,
        } = message
        else {
            return vec![message];
        };
        let mut wrong = bytes.to_vec();
        // It would be seen in every frame.
        wrong.iter_mut().for_each(|byte| *byte = !*byte);
        damaged.fetch_add(1, Ordering::Relaxed);
        vec![Message::BrickData {
            data_set,
            brick,
            bytes: wrong.into(),
        }]
    })
}

#[test]
fn a_brick_with_a_wrong_hash_is_fetched_elsewhere() {
    let scene = Scene::new();
    actix::System::new().block_on(async {
        let mut mesh = NetworkMesh::start(&scene, HONEST - 1, REDUNDANCY).await;
        let damaged = Arc::new(AtomicUsize::new(0));
        let twist = damaging(&damaged);
        let liar = Member::join_twisted(&mesh.addresses(), MEMORY, twist);
        liar.has_its_share(scene.data_set()).await;
        mesh.members.push(liar);
        mesh.settle(&scene).await;
        // It joins while frames are rendered, and gets its share from honest members and the liar. Whom
        // it asks for what follows from its identity, which is another one each time.
        for _ in 0..NEWCOMERS_MAX {
            let joins = async {
                let newcomer = Member::join(&mesh.addresses(), MEMORY);
                newcomer.has_its_share(scene.data_set()).await;
                newcomer
            };
            let (newcomer, _) = scene.watch(mesh.viewer(), joins).await;
            mesh.members.push(newcomer);
            mesh.settle(&scene).await;
            if damaged.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        assert!(damaged.load(Ordering::Relaxed) > 0, "no brick was damaged");
        // It may ask for frames as well.
        let newcomer = mesh.members.last().unwrap();
        newcomer.look_at(scene.data_set()).await;
        scene.watch(newcomer, async {}).await;
    });
}

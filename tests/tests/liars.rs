//! Members that have the key and lie about what they hold and do, over loopback with the real
//! network: honest members' frames stay whole. A liar is a whole peer whose messages are twisted
//! on their way out. Every wait has a deadline.
//!
//! Not here, for nobody can tell it from the truth: pictures that are wrong and well formed.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::messages::{Message, TilePart};
use brickmesh_tests::{
    network_mesh::{MEMORY, Member, NetworkMesh, SETTLE, Scene, Twist, Watched, met},
    network_peer::until_async,
};
use brickmesh_topology::{Digest, PeerId, brick_set::BrickSet, keeper::KeeperMessage};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Honest members of each mesh.
const HONEST: usize = 3;
/// Copies of each brick.
const REDUNDANCY: u32 = 2;

/// Bricks of the scene.
const BRICKS: u32 = 48;

/// How often a lie was told.
#[derive(Clone, Debug, Default)]
struct Told(Arc<AtomicUsize>);

impl Told {
    fn once_more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A lie: `f` counts when it is told.
fn lie(f: impl Fn(Message, &Told) -> Vec<Message> + Send + Sync + 'static) -> (Twist, Told) {
    let told = Told::default();
    let counted = told.clone();
    (Arc::new(move |_, message| f(message, &counted)), told)
}

/// Three honest members render; a liar joins, and lies so many times. All frames are whole.
fn among_honest(
    memory: impl Fn(&Scene) -> u64,
    (twist, told): (Twist, Told),
    times: usize,
) -> Watched {
    let scene = Scene::new();
    actix::System::new().block_on(async {
        let mesh = NetworkMesh::start(&scene, HONEST, REDUNDANCY).await;
        // From now on it is known what to expect of frames.
        scene.watch(mesh.viewer(), async {}).await;
        let liar_comes = async {
            let liar = Member::join_twisted(&mesh.addresses(), memory(&scene), twist);
            until_async(SETTLE, "lie", async || {
                (told.times() >= times).then_some(())
            })
            .await;
            liar
        };
        let (liar, watched) = scene.watch(mesh.viewer(), liar_comes).await;
        for member in &mesh.members {
            let peers = member.status().await.peers;
            let honest = mesh.members.iter().all(|m| peers.contains_key(m.id()));
            assert!(honest, "an honest member is taken to be gone: {peers:?}");
        }
        drop(liar);
        watched
    })
}

fn enough(_: &Scene) -> u64 {
    MEMORY
}

#[test]
fn one_that_says_it_holds_everything_and_fails_frames() {
    let everything = lie(|message, told| match message {
        Message::Keeper(KeeperMessage::Residency {
            data_set,
            mut announcement,
        }) => {
            let all = BrickSet::all(BRICKS);
            announcement.held = all.clone();
            announcement.pledged = all;
            announcement.settled = true;
            vec![Message::Keeper(KeeperMessage::Residency {
                data_set,
                announcement,
            })]
        }
        Message::FrameFailed { .. } => {
            told.once_more();
            vec![message]
        }
        _ => vec![message],
    });
    // In truth it has room for two bricks.
    let watched = among_honest(|scene| scene.memory_of(2), everything, 2);
    assert!(watched.repeated > 0, "{watched:?}");
}

/// What a member says of its part of a frame.
fn is_of_a_frame(message: &Message) -> bool {
    matches!(
        message,
        Message::Partial(_)
            | Message::Tile { .. }
            | Message::JobsDone { .. }
            | Message::Given { .. }
            | Message::Steal(_)
            | Message::NeedInputs { .. }
            | Message::Lacking { .. }
            | Message::FrameFailed { .. }
    )
}

#[test]
fn one_that_never_does_its_part_and_says_nothing() {
    let silence = lie(|message, told| {
        if matches!(message, Message::JobsDone { .. }) {
            told.once_more();
        }
        if is_of_a_frame(&message) {
            return Vec::new();
        }
        vec![message]
    });
    let watched = among_honest(enough, silence, 1);
    assert!(watched.repeated > 0, "{watched:?}");
}

#[test]
fn one_that_says_it_is_done_and_sends_no_pixels() {
    let no_pixels = lie(|message, told| match message {
        Message::Partial(_) | Message::Tile { .. } => Vec::new(),
        Message::JobsDone { .. } => {
            told.once_more();
            vec![message]
        }
        _ => vec![message],
    });
    let watched = among_honest(enough, no_pixels, 1);
    assert!(watched.repeated > 0, "{watched:?}");
}

#[test]
fn one_that_sends_pixels_of_a_wrong_length() {
    let cut_off = lie(|message, told| match message {
        Message::Partial(mut partial) => {
            told.once_more();
            for part in &mut partial.tiles {
                part.pixels.bytes.truncate(5);
                part.pixels.bytes.push(0);
            }
            vec![Message::Partial(partial)]
        }
        _ => vec![message],
    });
    let watched = among_honest(enough, cut_off, 1);
    assert!(watched.repeated > 0, "{watched:?}");
}

#[test]
fn one_that_makes_up_tiles_of_another_plan() {
    let made_up = || Digest::of(b"made up");
    let another_plan = lie(move |message, told| match message {
        Message::Tile {
            frame,
            tile,
            pixels,
            composite_micros,
            received_bytes,
            ..
        } => {
            told.once_more();
            let plan = made_up();
            vec![Message::Tile {
                frame,
                plan,
                tile,
                pixels,
                composite_micros,
                received_bytes,
            }]
        }
        Message::Partial(mut partial) => {
            partial.plan = made_up();
            let nothing: Vec<TilePart> = partial.tiles.drain(1..).collect();
            drop(nothing);
            vec![Message::Partial(partial)]
        }
        _ => vec![message],
    });
    let watched = among_honest(enough, another_plan, 1);
    assert!(watched.repeated > 0, "{watched:?}");
}

#[test]
fn one_that_accuses_honest_members_of_following_another_plan() {
    // It knows them by what it sends to them.
    let known: Mutex<Vec<PeerId>> = Mutex::default();
    let told = Told::default();
    let counted = told.clone();
    let twist: Twist = Arc::new(move |to, message| {
        let mut known = known.lock().unwrap();
        if !known.contains(to) {
            known.push(to.clone());
        }
        let Message::JobsDone { frame, .. } = message else {
            return vec![message];
        };
        counted.once_more();
        let accuse = |peer: &PeerId| Message::Diverged {
            frame,
            peer: peer.as_str().to_owned(),
        };
        let accusations = known.iter().map(accuse);
        accusations.chain([message.clone()]).collect()
    });
    among_honest(enough, (twist, told), 3);
}

/// Says that every job took so many microseconds.
fn times_of(micros: u64) -> (Twist, Told) {
    lie(move |message, told| match message {
        Message::JobsDone {
            frame,
            plan,
            mut jobs,
        } => {
            told.once_more();
            jobs.iter_mut().for_each(|j| j.measured_micros = micros);
            vec![Message::JobsDone { frame, plan, jobs }]
        }
        _ => vec![message],
    })
}

#[test]
fn one_whose_jobs_take_no_time() {
    among_honest(enough, times_of(0), 3);
}

#[test]
fn one_whose_jobs_take_for_ever() {
    among_honest(enough, times_of(u64::MAX), 3);
}

#[test]
fn one_that_claims_room_and_never_takes_a_brick() {
    let (twist, told) = lie(|message, told| match message {
        Message::Keeper(KeeperMessage::Residency {
            data_set,
            mut announcement,
        }) => {
            told.once_more();
            announcement.held = BrickSet::new(BRICKS);
            announcement.pledged = BrickSet::new(BRICKS);
            announcement.room = u32::MAX;
            announcement.settled = false;
            vec![Message::Keeper(KeeperMessage::Residency {
                data_set,
                announcement,
            })]
        }
        Message::Keeper(KeeperMessage::BrickRequest { .. }) => Vec::new(),
        _ => vec![message],
    });
    let scene = Scene::new();
    actix::System::new().block_on(async {
        // It is there before the data set is, and so has a part in its first placement.
        let first = Member::join(&[], MEMORY);
        let known = first.addresses();
        let second = Member::join(&known, MEMORY);
        let liar = Member::join_twisted(&known, MEMORY, twist);
        let mut mesh = NetworkMesh {
            members: vec![first, second, liar],
        };
        met(&mesh.members).await;
        mesh.viewer().open(scene.source(), REDUNDANCY).await;
        for honest in &mesh.members[..2] {
            honest.has_its_share(scene.data_set()).await;
        }
        let stays = async {
            until_async(SETTLE, "lie", async || (told.times() >= 9).then_some(())).await;
        };
        scene.watch(mesh.viewer(), stays).await;
        // It is not waited for for ever: what it does not take the others do.
        let liar = mesh.members.pop();
        mesh.settle(&scene).await;
        assert!(
            mesh.members[0]
                .status()
                .await
                .peers
                .contains_key(liar.unwrap().id())
        );
    });
}

//! Members that have the key and lie about what they hold and do, over loopback with the real
//! network: honest members' frames stay whole. A liar is a whole peer whose messages are twisted
//! on their way out. Every wait has a deadline.
//!
//! Not here, for nobody can tell it from the truth: pictures that are wrong and well formed.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::{
    messages::{Complaint, FrameMessage, Message},
    pixels::Pixels,
};
use brickmesh_node::network::MeshKey;
use brickmesh_tests::{
    compare::compare,
    network_mesh::{MEMORY, Member, NetworkMesh, SETTLE, Scene, Twist, Watched, met},
    network_peer::{config, until_async},
    program::{brickmesh, read_png},
};
use brickmesh_topology::{
    BrickIndex, Digest, PeerId, data::brick_set::BrickSet, mesh::keeper::KeeperMessage,
};
use std::{
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

const VOLUME: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/neghip_64x64x64_uint8.raw.gz"
);

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
            let claimed = Arc::make_mut(&mut announcement);
            claimed.held = all.clone();
            claimed.assigned = all;
            claimed.settled = true;
            vec![Message::Keeper(KeeperMessage::Residency {
                data_set,
                announcement,
            })]
        }
        Message::Reply {
            reply: FrameMessage::Failed { .. },
            ..
        } => {
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
        Message::Partial(_) | Message::Tile { .. } | Message::Reply { .. } | Message::Steal(_)
    )
}

/// The jobs that a message says to be done.
fn done(message: &mut Message) -> Option<&mut Vec<(u32, u64)>> {
    match message {
        Message::Reply {
            reply: FrameMessage::JobsDone { jobs, .. },
            ..
        } => Some(jobs),
        _ => None,
    }
}

#[test]
fn one_that_never_does_its_part_and_says_nothing() {
    let silence = lie(|mut message, told| {
        if done(&mut message).is_some() {
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
    let no_pixels = lie(|mut message, told| match message {
        Message::Partial(_) | Message::Tile { .. } => Vec::new(),
        _ => {
            if done(&mut message).is_some() {
                told.once_more();
            }
            vec![message]
        }
    });
    let watched = among_honest(enough, no_pixels, 1);
    assert!(watched.repeated > 0, "{watched:?}");
}

#[test]
fn one_that_sends_pixels_of_a_wrong_length() {
    let cut_off = lie(|message, told| match message {
        Message::Partial(mut partial) => {
            told.once_more();
            for part in &mut partial.parts {
                let Pixels::Packed(pixels) = &mut part.pixels else {
                    panic!("it came over the network")
                };
                pixels.bytes = vec![0; 5].into();
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
    let another_plan = lie(|message, told| {
        let Message::Tile {
            frame,
            tile,
            pixels,
            composite_micros,
            received_bytes,
            ..
        } = message
        else {
            return vec![message];
        };
        told.once_more();
        vec![Message::Tile {
            frame,
            plan: Digest::of(b"made up"),
            tile,
            pixels,
            composite_micros,
            received_bytes,
        }]
    });
    let watched = among_honest(enough, another_plan, 1);
    assert!(watched.repeated > 0, "{watched:?}");
}

#[test]
fn one_that_makes_up_pixels_of_another_plan() {
    let another_plan = lie(|message, told| {
        let Message::Partial(mut partial) = message else {
            return vec![message];
        };
        told.once_more();
        partial.plan = Digest::of(b"made up");
        vec![Message::Partial(partial)]
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
        let Message::Reply {
            frame,
            reply: FrameMessage::JobsDone { .. },
        } = message
        else {
            return vec![message];
        };
        counted.once_more();
        let accuse = |peer: &PeerId| Message::Reply {
            frame,
            reply: FrameMessage::Complaint {
                about: peer.clone(),
                what: Complaint::AnotherPlan,
            },
        };
        let accusations = known.iter().map(accuse);
        accusations.chain([message.clone()]).collect()
    });
    among_honest(enough, (twist, told), 3);
}

/// Says that every job took so many microseconds.
fn times_of(micros: u64) -> (Twist, Told) {
    lie(move |mut message, told| {
        if let Some(jobs) = done(&mut message) {
            told.once_more();
            jobs.iter_mut().for_each(|(_, measured)| *measured = micros);
        }
        vec![message]
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

/// Claims room for everything, and takes nothing.
fn greedy() -> (Twist, Told) {
    lie(|message, told| match message {
        Message::Keeper(KeeperMessage::Residency {
            data_set,
            mut announcement,
        }) => {
            told.once_more();
            let claimed = Arc::make_mut(&mut announcement);
            let all: Vec<BrickIndex> = claimed.assigned.iter().collect();
            all.into_iter().for_each(|brick| {
                claimed.held.remove(brick);
                claimed.assigned.remove(brick);
            });
            claimed.capacity = u32::MAX;
            claimed.settled = false;
            vec![Message::Keeper(KeeperMessage::Residency {
                data_set,
                announcement,
            })]
        }
        Message::Keeper(KeeperMessage::BrickRequest { .. }) => Vec::new(),
        _ => vec![message],
    })
}

/// The program renders two pictures; returns them.
fn render(folder: &Path, name: &str, more: &[String]) -> Vec<Vec<u8>> {
    let out = folder.join(format!("{name}.png"));
    let mut command = Command::new(brickmesh());
    command
        .args(["render", VOLUME, "--size", "96x96", "--device", "cpu"])
        .args(["--frames", "2", "--spin", "30", "--out"])
        .arg(&out)
        .args(more);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("missing"), "{said}");
    let picture = |n| read_png(&folder.join(format!("{name}-000{n}.png"))).2;
    [0, 1].map(picture).into()
}

#[test]
fn the_program_does_not_wait_for_one_that_claims_room_and_never_takes_a_brick() {
    let folder = tempfile::tempdir().unwrap();
    let alone = render(folder.path(), "alone", &[]);
    let key_file = folder.path().join("mesh.key");
    let (key, _) = MeshKey::load_or_make(&key_file).unwrap();
    let (twist, told) = greedy();
    actix::System::new().block_on(async {
        // It is there before the data set is, and so has a part in its first placement.
        let first = Member::start(config(key.clone(), &[]), MEMORY, None);
        let known = first.addresses();
        let start = |twist| Member::start(config(key.clone(), &known), MEMORY, twist);
        let members = [start(None), start(Some(twist)), first];
        met(&members).await;
        let options = [
            "--mesh",
            "--wait-peers",
            "3",
            "--brick",
            "16",
            "--memory",
            "1",
        ];
        let mut more: Vec<String> = options.map(str::to_owned).into();
        more.extend(["--listen".to_owned(), "127.0.0.1:0".to_owned()]);
        more.extend(["--key".to_owned(), key_file.display().to_string()]);
        more.extend(["--join".to_owned(), known[0].to_string()]);
        let here = folder.path().to_owned();
        let program = tokio::task::spawn_blocking(move || render(&here, "mesh", &more));
        for (alone, mesh) in alone.iter().zip(program.await.unwrap()) {
            assert!(compare(alone, &mesh).max <= 1);
        }
        assert!(told.times() > 0);
    });
}

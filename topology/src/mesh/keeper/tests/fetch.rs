//! Bricks that are fetched for frames of which each peer renders a part of the picture.

use super::*;
use crate::balance::roster::Candidate;

/// Peers with room for so many of 27 bricks, of which the first has the source, two copies of each brick, and frames for which bricks
/// are fetched.
fn fetching(capacities: &[u64]) -> (Mesh, Digest) {
    let mut mesh = Mesh::new(capacities);
    mesh.run(SECOND);
    let data = manifest(1);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 2));
    mesh.input(0, KeeperInput::Fetches(data.digest()));
    mesh.run(10 * SECOND);
    (mesh, data.digest())
}

/// Lets frames of a peer need these bricks, one after another; what they were answered.
fn used(mesh: &mut Mesh, n: usize, data: Digest, bricks: &[BrickIndex]) -> Vec<bool> {
    let mut answers = Vec::new();
    for &brick in bricks {
        mesh.staged.clear();
        mesh.input(n, KeeperInput::Stage(data, brick, 1));
        mesh.run(4 * LATENCY + 2 * LOADING);
        answers.extend(mesh.staged.iter().map(|&(_, is_there)| is_there));
        mesh.input(n, KeeperInput::Release(data, brick));
    }
    answers
}

impl Mesh {
    /// Whom a peer has just asked for a brick that a frame needs; that does not arrive, where the peer is cut off now.
    fn asked_for_frame(&mut self, n: usize, brick: BrickIndex) -> usize {
        let is_it = |input: &KeeperInput| match input {
            KeeperInput::Said(
                from,
                KeeperMessage::BrickRequest {
                    brick: b,
                    for_frame,
                    ..
                },
            ) => *for_frame && *b == brick && *from == name(n),
            _ => false,
        };
        let found = self.queue.iter().find(|(_, (_, input))| is_it(input));
        let (&at, &(to, _)) = found.unwrap();
        self.queue.remove(&at);
        to
    }
}

fn all() -> Vec<BrickIndex> {
    (0..27).map(BrickIndex).collect()
}

#[test]
fn every_peer_has_every_brick_for_its_frames_within_its_memory() {
    let (mut mesh, data) = fetching(&[18, 18, 16, 14]);
    for n in 0..4 {
        let own = mesh.replicas(n, data).announcement().clone();
        assert!(own.reserve >= 2 && own.held.len() >= 10, "{n}: {own:?}");
        assert_eq!(mesh.replicas(n, data).safety().endangered, 0);
    }
    for n in 0..4 {
        assert_eq!(used(&mut mesh, n, data, &all()), [true; 27], "peer {n}");
    }
    let rooms = [18, 18, 16, 14];
    let is_within = |(memory, room): (&BTreeSet<_>, usize)| memory.len() <= room;
    assert!(mesh.in_memory.iter().zip(rooms).all(is_within));
    assert_eq!(mesh.not_fitting, 0);
    // What is fetched is no copy: nobody is told of it.
    let held: u32 = (0..4).map(|n| mesh.held(n, data)).sum();
    assert!(held <= 54 + 4, "{held}");
}

#[test]
fn what_frames_need_beside_held_bricks_is_bounded_where_that_is_said() {
    let brick = manifest(1).largest_brick_bytes();
    let reserves = |cache: Option<u64>| {
        let mut mesh = Mesh::new(&[18; 3]);
        for keeper in mesh.keepers.iter_mut().flatten() {
            cache
                .into_iter()
                .for_each(|bytes| keeper.caches_at_most(bytes));
        }
        mesh.run(SECOND);
        let data = manifest(1);
        mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 1));
        mesh.input(0, KeeperInput::Fetches(data.digest()));
        mesh.run(10 * SECOND);
        let of = |n| mesh.replicas(n, data.digest()).announcement().reserve;
        let of_all: Vec<u32> = (0..3).map(of).collect();
        for n in 0..3 {
            let used = used(&mut mesh, n, data.digest(), &all());
            assert_eq!(used, [true; 27], "peer {n}");
            let staged = mesh.keeper(n).staging.bytes();
            let most = cache.map_or(u64::MAX, |bytes| bytes.max(2 * brick));
            assert!(staged <= most, "peer {n}: {staged}");
        }
        of_all
    };
    let left = reserves(None);
    assert!(left.iter().all(|&n| n > 4), "{left:?}");
    assert_eq!(reserves(Some(4 * brick)), [4; 3]);
    let least = reserves(Some(0));
    assert_eq!(least, [2; 3], "one is rendered while the next comes");
    assert_eq!(reserves(Some(1_000 * brick)), left, "no copy gives way");
}

#[test]
fn who_comes_with_nothing_fetches_at_once_and_what_was_fetched_stays_as_long_as_there_is_room() {
    let (mut mesh, data) = fetching(&[27, 27]);
    mesh.join(20);
    mesh.run(SECOND / 2);
    let candidates = mesh.keeper(0).candidates(data).unwrap().1;
    let newcomer = candidates.iter().find(|c| c.entry.peer == name(2)).unwrap();
    assert!(newcomer.entry.fetches);
    assert_eq!(used(&mut mesh, 2, data, &all()[..8]), [true; 8]);
    mesh.run(30 * SECOND);
    let own = mesh.replicas(2, data).announcement().clone();
    let lacking = all().into_iter().filter(|&b| !own.held.contains(b));
    let lacking: Vec<BrickIndex> = lacking.take(own.reserve as usize).collect();
    assert!(lacking.len() >= 4);
    let is_there = vec![true; lacking.len()];
    assert_eq!(used(&mut mesh, 2, data, &lacking), is_there);
    let got = mesh.got[2];
    for _ in 0..3 {
        assert_eq!(used(&mut mesh, 2, data, &lacking), is_there);
    }
    assert_eq!(mesh.got[2], got, "they are there still");
}

#[test]
fn what_nobody_has_room_to_hold_is_fetched_of_who_has_the_source_but_what_that_does_not_give() {
    let (mut mesh, data) = fetching(&[0, 8, 8]);
    let held = mesh.held(1, data) + mesh.held(2, data);
    assert!(held < 27, "{held}");
    // What each can render of a frame, as each knows it.
    let has = |mesh: &Mesh, brick: BrickIndex| {
        let candidates = (0..3).map(|n| mesh.keeper(n).candidates(data).unwrap().1);
        let candidates = candidates.flatten().filter(|c| c.entry.fetches);
        let has = |c: Candidate| c.entry.bricks.contains(brick) || c.readable.contains(brick);
        candidates.map(has).collect::<Vec<_>>()
    };
    for brick in all() {
        assert_eq!(has(&mesh, brick), [true; 6]);
    }
    assert_eq!(used(&mut mesh, 1, data, &all()), [true; 27]);
    let is_held = |n, b: &BrickIndex| mesh.replicas(n, data).announcement().held.contains(*b);
    let mut unheld = all()
        .into_iter()
        .filter(|b| !is_held(1, b) && !is_held(2, b));
    let brick = unheld.next().unwrap();
    mesh.input(0, KeeperInput::CannotGive(data, brick));
    mesh.run(5 * SECOND / 2);
    assert_eq!(has(&mesh, brick), [false; 6]);
    assert_eq!(used(&mut mesh, 2, data, &[brick]), [false]);
    // It is looked at again.
    mesh.run(20 * SECOND);
    assert_eq!(has(&mesh, brick), [true; 6]);
}

#[test]
fn all_can_fetch_soon_after_the_first_frame_however_much_room_there_is() {
    for rooms in [[12; 5], [27; 5], [29; 5], [400; 5], [400, 12, 400, 12, 27]] {
        let mut mesh = Mesh::new(&rooms);
        mesh.run(SECOND);
        let data = manifest(1);
        mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 2));
        mesh.run(10 * SECOND);
        mesh.input(0, KeeperInput::Fetches(data.digest()));
        mesh.run(SECOND / 2);
        let candidates = mesh.keeper(0).candidates(data.digest()).unwrap().1;
        let fetch: Vec<bool> = candidates.iter().map(|c| c.entry.fetches).collect();
        assert_eq!(fetch, [true; 5], "{rooms:?}");
    }
}

#[test]
fn one_copy_of_all_is_held_where_there_is_just_room_for_it() {
    for rooms in [&[14, 14][..], &[10, 10, 10], &[29, 3], &[9, 9, 9]] {
        let mut mesh = Mesh::new(rooms);
        mesh.run(SECOND);
        let data = manifest(1);
        mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 1));
        mesh.input(0, KeeperInput::Fetches(data.digest()));
        mesh.run(30 * SECOND);
        let data = data.digest();
        let safety = mesh.replicas(1, data).safety();
        assert_eq!(safety.missing, 0, "{rooms:?}: {safety:?}");
        for n in 0..rooms.len() {
            assert_eq!(
                used(&mut mesh, n, data, &all()),
                [true; 27],
                "{rooms:?}: {n}"
            );
        }
    }
}

#[test]
fn room_is_given_back_when_no_frame_fetches_any_more() {
    let (mut mesh, data) = fetching(&[18, 18, 18]);
    assert!(mesh.replicas(1, data).announcement().reserve > 0);
    mesh.run(90 * SECOND);
    for n in 0..3 {
        let own = mesh.replicas(n, data).announcement();
        assert_eq!((own.reserve, own.fetches), (0, false), "{n}");
        assert_eq!(own.capacity, 18);
    }
}

#[test]
fn a_brick_that_does_not_come_is_asked_of_another_holder() {
    for fault in ["silent", "dead", "lossy"] {
        let (mut mesh, data) = fetching(&[12; 6]);
        let lacks = |mesh: &Mesh, n: usize, b| {
            let own = mesh.replicas(n, data).announcement();
            !own.held.contains(b) && !mesh.in_memory[n].contains(&(data, b))
        };
        let holds =
            |mesh: &Mesh, n: usize, b| mesh.replicas(n, data).announcement().held.contains(b);
        let brick = all()
            .into_iter()
            .find(|&b| lacks(&mesh, 1, b) && (2..6).filter(|&n| holds(&mesh, n, b)).count() == 2);
        let brick = brick.unwrap();
        mesh.staged.clear();
        mesh.input(1, KeeperInput::Stage(data, brick, 1));
        let holder = mesh.asked_for_frame(1, brick);
        assert!(holder == 0 || holds(&mesh, holder, brick));
        match fault {
            "silent" => mesh.cut.push((1, holder)),
            "dead" => mesh.kill(holder),
            _ => mesh.loss_percent = 40,
        }
        mesh.run(60 * SECOND);
        assert_eq!(mesh.staged, [(brick, true)], "{fault}");
    }
}

#[test]
fn damaged_bricks_are_fetched_elsewhere_and_in_the_end_a_frame_hears_that_they_cannot_be_had() {
    let (mut mesh, data) = fetching(&[12; 6]);
    let own = mesh.replicas(1, data).announcement().clone();
    let brick = all().into_iter().find(|&b| !own.held.contains(b)).unwrap();
    let keeper = mesh.keepers[1].as_mut().unwrap();
    let (mut asked, mut now) = (Vec::new(), mesh.now);
    let mut inputs = vec![KeeperInput::Stage(data, brick, 9)];
    let mut answer = None;
    while answer.is_none() {
        assert!(now < mesh.now + 60 * SECOND, "{asked:?}");
        let mut out = Vec::new();
        for input in std::mem::take(&mut inputs) {
            keeper.step(now, input, &mut out);
        }
        for output in out {
            match output {
                KeeperOutput::Send(to, KeeperMessage::BrickRequest { for_frame, .. }) => {
                    assert!(for_frame);
                    inputs.push(KeeperInput::Brick(to.clone(), data, brick));
                    asked.push(to);
                }
                KeeperOutput::Load(_, brick, Origin::Peer(_)) => {
                    inputs.push(KeeperInput::Loaded(data, brick, LoadResult::Failed));
                }
                KeeperOutput::Staged(_, b, 9, is_there) if b == brick => answer = Some(is_there),
                _ => {}
            }
        }
        now += TICK_MICROS;
        inputs.push(KeeperInput::Tick);
    }
    assert_eq!(answer, Some(false));
    let different: BTreeSet<&PeerId> = asked.iter().collect();
    assert!(different.len() >= 2 && asked.len() <= 8, "{asked:?}");
}

#[test]
fn a_damaged_brick_that_is_also_to_be_held_is_fetched_and_held_in_the_end() {
    let mut mesh = Mesh::new(&[27, 27, 27]);
    mesh.run(SECOND);
    let data = manifest(1);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 3));
    mesh.input(0, KeeperInput::Fetches(data.digest()));
    let data = data.digest();
    let brick = loop {
        mesh.run(LATENCY / 5);
        let asked = mesh.keeper(1).transfers.downloads.asked().next();
        let can = mesh.keeper(1).sets.get(&data);
        let can = can.is_some_and(|s| s.replicas.announcement().reserve > 0);
        if let Some((_, brick)) = asked.filter(|_| can) {
            break brick;
        }
        assert!(mesh.now < 10 * SECOND, "nothing is asked for");
    };
    let keeper = mesh.keepers[1].as_mut().unwrap();
    let (mut out, mut loads, mut answered) = (Vec::new(), 0, false);
    let mut inputs = VecDeque::from([KeeperInput::Stage(data, brick, 9)]);
    let mut now = mesh.now;
    while !answered
        || !keeper.sets[&data]
            .replicas
            .announcement()
            .held
            .contains(brick)
    {
        assert!(
            now < mesh.now + 60 * SECOND,
            "{loads} loads, answered: {answered}"
        );
        while let Some(input) = inputs.pop_front() {
            keeper.step(now, input, &mut out);
            for output in out.drain(..) {
                match output {
                    KeeperOutput::Send(to, KeeperMessage::BrickRequest { brick: b, .. }) => {
                        inputs.push_back(KeeperInput::Brick(to, data, b));
                    }
                    KeeperOutput::Load(_, b, _) => {
                        // The first that comes, for both, is damaged.
                        loads += u32::from(b == brick);
                        let result = match loads {
                            1 if b == brick => LoadResult::Failed,
                            _ => LoadResult::Done,
                        };
                        inputs.push_back(KeeperInput::Loaded(data, b, result));
                    }
                    KeeperOutput::Staged(_, b, 9, is_there) => answered |= is_there && b == brick,
                    _ => {}
                }
            }
        }
        now += TICK_MICROS;
        inputs.push_back(KeeperInput::Tick);
    }
    assert_eq!(keeper.staging.fetched().count(), 0);
}

#[test]
fn a_brick_that_cannot_be_read_here_is_fetched_and_stays_unreadable() {
    let (mut mesh, data) = fetching(&[18, 18, 18]);
    let own = mesh.replicas(0, data).announcement().clone();
    let brick = all().into_iter().find(|&b| !own.held.contains(b)).unwrap();
    mesh.shelves[0].insert((data, brick), false);
    let keeper = mesh.keepers[0].as_mut().unwrap();
    keeper
        .sets
        .get_mut(&data)
        .unwrap()
        .replicas
        .cannot_read(brick);
    assert_eq!(used(&mut mesh, 0, data, &[brick]), [true]);
    // It is looked at again, without success, and without a fetch.
    let got = mesh.got[0];
    mesh.run(25 * SECOND);
    assert!(mesh.replicas(0, data).is_unreadable(brick));
    assert_eq!(mesh.got[0], got);
}

#[test]
fn bricks_that_frames_need_are_given_without_a_pause_and_before_others() {
    let (mut mesh, data) = fetching(&[27, 27, 27]);
    let keeper = mesh.keepers[0].as_mut().unwrap();
    let mut given = Vec::new();
    let mut step = |input| {
        let mut out = Vec::new();
        keeper.step(mesh.now, input, &mut out);
        let uploads = out.into_iter().filter_map(|o| match o {
            KeeperOutput::Upload(to, _, brick) => Some((index(&to), brick.0)),
            _ => None,
        });
        given.extend(uploads);
    };
    step(KeeperInput::Rendering);
    let ask = |n, brick, for_frame| {
        let request = KeeperMessage::BrickRequest {
            data_set: data,
            brick: BrickIndex(brick),
            for_frame,
        };
        KeeperInput::Said(name(n), request)
    };
    for brick in 0..3 {
        step(ask(1, brick, false));
        step(ask(2, 10 + brick, true));
    }
    for brick in 0..3 {
        for result in [UploadResult::Queued, UploadResult::Written] {
            let brick = BrickIndex(10 + brick);
            step(KeeperInput::Uploaded(name(2), data, brick, result));
        }
    }
    assert_eq!(given, [(1, 0), (2, 10), (2, 11), (2, 12)]);
}

#[test]
fn with_little_room_bricks_come_one_after_another_without_a_pause() {
    for (rooms, sources) in [
        ([6; 5], 5),
        ([6; 5], 1),
        ([7; 5], 5),
        ([14, 2, 14, 2, 2], 1),
    ] {
        let mut mesh = Mesh::new(&rooms);
        mesh.run(SECOND);
        let data = manifest(1);
        for n in 0..sources {
            mesh.input(n, KeeperInput::Offer(Arc::clone(&data), 2));
        }
        mesh.run(10 * SECOND);
        let data = data.digest();
        mesh.input(0, KeeperInput::Fetches(data));
        mesh.run(SECOND / 2);
        for n in 0..5 {
            for brick in all() {
                mesh.staged.clear();
                let since = mesh.now;
                mesh.input(n, KeeperInput::Stage(data, brick, 1));
                while mesh.staged.is_empty() && mesh.now < since + SECOND {
                    mesh.run(LOADING);
                }
                let took = mesh.now - since;
                let own = mesh.replicas(n, data).announcement();
                assert!(
                    took < SECOND / 5 && mesh.staged == [(brick, true)],
                    "{rooms:?} {sources}, {n}: {brick:?} {took} us, {:?}, {own:?}",
                    mesh.staged
                );
                mesh.input(n, KeeperInput::Release(data, brick));
            }
        }
    }
}

//! Data sets for which there is too little memory.

use super::*;

/// Peers with room for so many of 27 bricks, of which the first has the source.
fn short(capacities: &[u64]) -> (Mesh, Digest) {
    let mut mesh = Mesh::new(capacities);
    mesh.run(SECOND);
    let data = manifest(1);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 1));
    mesh.run(10 * SECOND);
    (mesh, data.digest())
}

/// Lets frames of peer 0 need these bricks, one after another; what they were answered.
fn used(mesh: &mut Mesh, data: Digest, bricks: impl Iterator<Item = BrickIndex>) -> Vec<bool> {
    let mut answers = Vec::new();
    for brick in bricks {
        mesh.staged.clear();
        mesh.input(0, KeeperInput::Stage(data, brick, 1));
        mesh.run(10 * LOADING);
        answers.extend(mesh.staged.iter().map(|&(_, is_there)| is_there));
        mesh.input(0, KeeperInput::Release(data, brick));
    }
    answers
}

#[test]
fn what_nobody_has_room_for_is_read_by_who_has_the_source_within_its_memory() {
    let (mut mesh, data) = short(&[9, 4]);
    let own = mesh.replicas(0, data).announcement().clone();
    assert_eq!((own.capacity, own.reserve), (5, 4));
    assert_eq!((mesh.held(0, data), mesh.held(1, data)), (5, 4));
    let safety = mesh.replicas(1, data).safety();
    assert_eq!((safety.missing, safety.read), (0, 27 - 9));
    let all = (0..27).map(BrickIndex);
    for _ in 0..2 {
        assert_eq!(used(&mut mesh, data, all.clone()), [true; 27]);
        assert!(mesh.in_memory[0].len() <= 9);
    }
    assert_eq!(mesh.not_fitting, 0);
    // Whoever holds no brick of its own reads one and the next.
    let (mut mesh, data) = short(&[2]);
    assert_eq!(used(&mut mesh, data, all), [true; 27]);
    assert_eq!((mesh.held(0, data), mesh.not_fitting), (0, 0));
}

#[test]
fn with_more_memory_in_the_mesh_all_is_held_and_with_less_it_is_read_again() {
    let (mut mesh, data) = short(&[9]);
    used(&mut mesh, data, (0..27).map(BrickIndex));
    mesh.join(20);
    mesh.run(60 * SECOND);
    let own = mesh.replicas(0, data).announcement().clone();
    assert_eq!((own.capacity, own.reserve), (9, 0));
    let safety = mesh.replicas(0, data).safety();
    assert_eq!((safety.missing, safety.read), (0, 0));
    assert_eq!(mesh.not_fitting, 0);
    mesh.kill(1);
    mesh.run(30 * SECOND);
    let safety = mesh.replicas(0, data).safety();
    assert_eq!((safety.missing, safety.read), (0, 27 - 5));
    let all = (0..27).map(BrickIndex);
    assert_eq!(used(&mut mesh, data, all), [true; 27]);
    assert!(mesh.in_memory[0].len() <= 9 && mesh.not_fitting == 0);
}

#[test]
fn what_frames_needed_leaves_the_place_to_what_is_to_be_held_on_devices_with_less_room_than_they_say()
 {
    // Which bricks those are that were needed last differs.
    for turn in 0..9 {
        let (mut mesh, data) = short(&[18]);
        mesh.brick_takes = 2;
        let all = (0..27).map(|n| BrickIndex((n + 3 * turn) % 27));
        used(&mut mesh, data, all);
        mesh.join(40);
        mesh.run(90 * SECOND);
        let safety = mesh.replicas(0, data).safety();
        assert_eq!((safety.missing, safety.read), (0, 0), "turn {turn}");
    }
}

#[test]
fn a_brick_that_cannot_be_read_is_said_to_be_missing_before_its_frame_is_answered() {
    let (mut mesh, data) = short(&[9]);
    let own = mesh.replicas(0, data).announcement().clone();
    let brick = own
        .readable
        .iter()
        .find(|&b| !own.held.contains(b))
        .unwrap();
    let keeper = mesh.keepers[0].as_mut().unwrap();
    let mut out = Vec::new();
    keeper.step(mesh.now, KeeperInput::Stage(data, brick, 1), &mut out);
    assert!(matches!(out[..], [KeeperOutput::Load(..)]), "{out:?}");
    out.clear();
    let failed = KeeperInput::Loaded(data, brick, LoadResult::Unreadable);
    keeper.step(mesh.now, failed, &mut out);
    let of = |wanted: fn(&KeeperOutput) -> bool| out.iter().position(wanted).unwrap();
    let told = of(|o| matches!(o, KeeperOutput::Roster(_)));
    assert!(told < of(|o| matches!(o, KeeperOutput::Staged(_, _, 1, false))));
    assert_eq!(mesh.replicas(0, data).safety().missing, 1);
    assert_eq!(used(&mut mesh, data, [brick].into_iter()), [false]);
    // It is looked at again after a while.
    mesh.run(12 * SECOND);
    assert_eq!(mesh.replicas(0, data).safety().missing, 0);
    assert_eq!(used(&mut mesh, data, [brick].into_iter()), [true]);
}

#[test]
fn a_closed_data_set_frees_what_was_read_and_answers_who_waits() {
    let (mut mesh, data) = short(&[9]);
    let all = (0..27).map(BrickIndex);
    used(&mut mesh, data, all.clone());
    mesh.staged.clear();
    all.for_each(|b| mesh.input(0, KeeperInput::Stage(data, b, 1)));
    for n in 0..DATA_SETS_MAX {
        let n = u8::try_from(n).unwrap();
        mesh.input(0, KeeperInput::Offer(manifest(10 + n), 1));
    }
    mesh.run(SECOND);
    let of_it = |(of, _): &&(Digest, BrickIndex)| *of == data;
    assert_eq!(mesh.in_memory[0].iter().filter(of_it).count(), 0);
    let bricks: BTreeSet<BrickIndex> = mesh.staged.iter().map(|s| s.0).collect();
    assert_eq!((mesh.closed, bricks.len()), (1, 27));
}

#[test]
fn a_brick_that_comes_to_be_held_while_a_frame_waits_for_it_is_not_freed_for_others() {
    let (mut mesh, data) = short(&[9]);
    // More room: all is to be held, and frames ask for the same bricks meanwhile.
    mesh.join(40);
    for round in 0..400 {
        let brick = BrickIndex(round * 7 % 27);
        mesh.input(0, KeeperInput::Stage(data, brick, u64::from(round)));
        mesh.run(LOADING / 3);
        if round % 3 > 0 {
            mesh.input(0, KeeperInput::Release(data, brick));
        }
        let held = mesh.replicas(0, data).announcement().held.clone();
        let in_memory = &mesh.in_memory[0];
        assert!(held.iter().all(|b| in_memory.contains(&(data, b))));
    }
    for brick in 0..27 {
        mesh.input(0, KeeperInput::Release(data, BrickIndex(brick)));
    }
    mesh.run(60 * SECOND);
    assert_eq!(mesh.replicas(0, data).safety().missing, 0);
    assert_eq!(
        (mesh.replicas(0, data).safety().read, mesh.not_fitting),
        (0, 0)
    );
}

#[test]
fn a_device_with_less_room_than_it_says_reads_what_it_can_and_loses_no_brick() {
    let (mut mesh, data) = short(&[9]);
    // Each brick takes so many times as much there as is known.
    mesh.brick_takes = 4;
    let all: Vec<BrickIndex> = (0..27).map(BrickIndex).collect();
    for (question, &brick) in (0..).zip(&all) {
        mesh.input(0, KeeperInput::Stage(data, brick, question));
    }
    let mut there = BTreeSet::new();
    for _ in 0..600 {
        mesh.run(SECOND / 10);
        for (brick, is_there) in std::mem::take(&mut mesh.staged) {
            assert!(is_there, "{brick:?}");
            there.insert(brick);
            mesh.input(0, KeeperInput::Release(data, brick));
        }
    }
    assert!(there.iter().copied().eq(all), "{there:?}");
    assert_eq!(mesh.replicas(0, data).safety().missing, 0);
}

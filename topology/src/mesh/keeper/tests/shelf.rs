//! Peers with a disk for bricks.

use super::*;

/// A peer with the source and memory for few bricks, and others with memory for few and such disks.
fn with_shelves(memory: u64, shelves: &[u64]) -> (Mesh, Digest) {
    let mut mesh = Mesh::new(&[memory]);
    for &shelf in shelves {
        mesh.join_with_shelf(memory, shelf);
    }
    mesh.run(SECOND);
    let data = manifest(1);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 1));
    mesh.run(60 * SECOND);
    (mesh, data.digest())
}

/// The bricks on any of these peers' shelves, and how many copies there are.
fn on_shelves(mesh: &Mesh, data: Digest, peers: impl Iterator<Item = usize>) -> (usize, usize) {
    let mut all = Vec::new();
    for n in peers {
        let announced = &mesh.replicas(n, data).announcement().shelf;
        let there = mesh.shelves[n].keys().filter(|b| b.0 == data);
        assert!(announced.iter().eq(there.map(|b| b.1)), "peer {n}");
        all.extend(announced.iter());
    }
    let copies = all.len();
    let different: BTreeSet<_> = all.into_iter().collect();
    (different.len(), copies)
}

#[test]
fn where_memory_is_short_shelves_hold_all_of_it_and_the_source_may_die() {
    for rooms in [&[14, 13][..], &[10, 12, 9], &[27, 5]] {
        let (mut mesh, data) = with_shelves(4, rooms);
        let peers = 1..=rooms.len();
        assert_eq!(on_shelves(&mesh, data, peers.clone()).0, 27, "{rooms:?}");
        mesh.input(1, KeeperInput::Use(data, true));
        mesh.kill(0);
        mesh.run(40 * SECOND);
        assert_eq!(mesh.replicas(1, data).safety().missing, 0, "{rooms:?}");
        let mut readable = BrickSet::default();
        for n in peers.clone() {
            let own = mesh.replicas(n, data).announcement();
            assert!(own.reserve > 0 && own.held.len() <= own.capacity);
            readable.insert_all(&own.readable);
            let brick = own.readable.iter().next().unwrap();
            mesh.input(n, KeeperInput::Stage(data, brick, 7));
        }
        assert_eq!(readable.len(), 27);
        mesh.run(SECOND);
        assert!(mesh.staged.len() == rooms.len() && mesh.staged.iter().all(|s| s.1));
        assert_eq!(mesh.not_fitting, 0);
    }
}

#[test]
fn of_what_fits_into_memory_each_brick_is_on_one_shelf_and_few_are_fetched_for_that() {
    let (mesh, data) = with_shelves(20, &[27, 6]);
    let (different, copies) = on_shelves(&mesh, data, 1..=2);
    // What is in two memories, and what both fetched at a time.
    assert!(different == 27 && copies <= 40, "{copies} copies");
    let held = (mesh.held(1, data) + mesh.held(2, data)) as usize;
    let fetched = mesh.got[1] + mesh.got[2];
    assert!(fetched <= held + copies, "{fetched}");
}

#[test]
fn who_is_started_again_fetches_nothing_that_is_on_its_shelf() {
    for memory in [20, 4] {
        let (mut mesh, data) = with_shelves(memory, &[27, 27]);
        let shelf = mesh.shelves[1].clone();
        mesh.kill(1);
        mesh.run(SECOND);
        mesh.join_with_shelf(memory, 27);
        mesh.shelves[3] = shelf.clone();
        mesh.run(30 * SECOND);
        assert!(mesh.held(3, data) > 0);
        assert!(memory == 20 || shelf.len() == 27);
    }
}

#[test]
fn after_all_were_started_again_a_data_set_comes_from_the_shelves() {
    let (mut mesh, data) = with_shelves(4, &[14, 13]);
    let shelves = mesh.shelves.clone();
    (0..3).for_each(|n| mesh.kill(n));
    mesh.join_with_shelf(4, 14);
    mesh.join_with_shelf(4, 13);
    for (new, old) in [(3, 1), (4, 2)] {
        mesh.shelves[new] = shelves[old].clone();
        mesh.input(new, KeeperInput::Know(manifest(1)));
    }
    mesh.join(4);
    mesh.run(5 * SECOND);
    assert_eq!((mesh.held(3, data), mesh.held(4, data)), (0, 0));
    mesh.input(5, KeeperInput::Use(data, true));
    mesh.run(30 * SECOND);
    let safety = mesh.replicas(5, data).safety();
    assert_eq!(safety.missing, 0);
    assert!(safety.read > 0 && mesh.held(3, data) > 0 && mesh.held(5, data) > 0);
}

#[test]
fn a_damaged_brick_is_fetched_again_whoever_finds_it() {
    // When it is checked.
    let (mut mesh, data) = with_shelves(4, &[27]);
    let mut shelf = mesh.shelves[1].clone();
    mesh.kill(1);
    shelf.insert((data, BrickIndex(3)), false);
    mesh.join_with_shelf(4, 27);
    mesh.shelves[2] = shelf;
    mesh.run(30 * SECOND);
    assert!(mesh.shelves[2][&(data, BrickIndex(3))]);
    assert_eq!(mesh.got[2], 1);
    // When a frame needs it: the frame hears that it is not there.
    let own = mesh.replicas(2, data).announcement();
    let unheld = own.readable.iter().find(|&b| !own.held.contains(b));
    let brick = unheld.unwrap();
    mesh.shelves[2].insert((data, brick), false);
    mesh.staged.clear();
    mesh.input(2, KeeperInput::Stage(data, brick, 1));
    mesh.run(LOADING);
    assert_eq!(mesh.staged, [(brick, false)]);
    let readable = &mesh.replicas(2, data).announcement().readable;
    assert!(!readable.contains(brick));
    mesh.input(2, KeeperInput::Release(data, brick));
    mesh.run(30 * SECOND);
    assert!(mesh.shelves[2][&(data, brick)]);
    let readable = &mesh.replicas(2, data).announcement().readable;
    assert!(readable.contains(brick));
}

#[test]
fn a_full_disk_is_asked_again_after_a_while_and_keeps_nothing_waiting() {
    let mut mesh = Mesh::new(&[4]);
    mesh.is_disk_full = true;
    mesh.join_with_shelf(4, 27);
    mesh.run(SECOND);
    let data = manifest(1);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&data), 1));
    mesh.run(30 * SECOND);
    let data = data.digest();
    assert_eq!(mesh.held(1, data), 4);
    assert!(mesh.got[1] <= 4 + DOWNLOADS_MAX, "{}", mesh.got[1]);
    mesh.is_disk_full = false;
    mesh.run(60 * SECOND);
    assert_eq!(mesh.shelves[1].len(), 27);
}

#[test]
fn what_cannot_be_read_for_a_while_stays_on_the_shelf_and_is_not_promised() {
    let (mut mesh, data) = with_shelves(4, &[27]);
    let own = mesh.replicas(1, data).announcement();
    let brick = own.readable.iter().next().unwrap();
    let fails = KeeperInput::Shelved(data, brick, ShelfResult::Unreadable);
    mesh.input(1, fails);
    let own = mesh.replicas(1, data).announcement();
    assert!(!own.shelf.contains(brick) && !own.readable.contains(brick));
    mesh.run(10 * SECOND);
    assert!(mesh.shelves[1].contains_key(&(data, brick)));
    mesh.input(1, KeeperInput::Shelved(data, brick, ShelfResult::Done));
    mesh.run(5 * SECOND);
    let own = mesh.replicas(1, data).announcement();
    assert!(own.shelf.contains(brick) && own.readable.contains(brick));
}

#[test]
fn a_full_shelf_gives_nothing_up_for_what_does_not_come() {
    // Both shelves have room for the same half, and the source dies with the other.
    let (mut mesh, data) = with_shelves(4, &[27]);
    mesh.kill(1);
    let mut half = mesh.shelves[1].clone();
    half.retain(|b, _| b.1.0 < 13);
    mesh.kill(0);
    for n in [2, 3] {
        mesh.join_with_shelf(4, 13);
        mesh.shelves[n] = half.clone();
        mesh.input(n, KeeperInput::Know(manifest(1)));
    }
    mesh.run(SECOND);
    mesh.input(2, KeeperInput::Use(data, true));
    mesh.run(30 * SECOND);
    assert_eq!((mesh.shelves[2].len(), mesh.shelves[3].len()), (13, 13));
    // Where there is a source again, each takes what the other has not.
    mesh.join(4);
    mesh.input(4, KeeperInput::Offer(manifest(1), 1));
    mesh.run(60 * SECOND);
    assert_eq!(on_shelves(&mesh, data, 2..=3).0, 27);
}

#[test]
fn what_is_held_and_was_not_taken_is_written_later() {
    let mut mesh = Mesh::new(&[27]);
    mesh.is_disk_full = true;
    mesh.join_with_shelf(27, 27);
    mesh.run(SECOND);
    mesh.input(0, KeeperInput::Offer(manifest(1), 2));
    mesh.run(30 * SECOND);
    let data = manifest(1).digest();
    assert_eq!((mesh.held(1, data), mesh.shelves[1].len()), (27, 0));
    mesh.is_disk_full = false;
    mesh.run(90 * SECOND);
    assert_eq!(mesh.shelves[1].len(), 27);
}

#[test]
fn what_nobody_needs_gives_its_place_on_the_shelf_to_what_somebody_needs() {
    let (mut mesh, first) = with_shelves(4, &[27]);
    let second = manifest(2);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&second), 1));
    mesh.run(60 * SECOND);
    let of = |mesh: &Mesh, data| mesh.shelves[1].keys().filter(|b| b.0 == data).count();
    // There is room for 27 of the largest.
    let rest = of(&mesh, second.digest());
    assert!(of(&mesh, first) == 27 && rest < 27);
    mesh.input(0, KeeperInput::Use(first, false));
    mesh.run(60 * SECOND);
    let left = of(&mesh, first);
    assert!(left > 0 && left < 27 && of(&mesh, second.digest()) == 27);
    let mut open = mesh.keeper(1).data_sets();
    assert!(open.any(|(m, _)| m.digest() == first), "it is open still");
}

#[test]
fn while_nobody_needs_a_data_set_full_shelves_give_nothing_up() {
    for (memory, rooms) in [(13, [14, 13]), (13, [15, 16]), (20, [14, 13])] {
        let (mut mesh, data) = with_shelves(memory, &rooms);
        mesh.kill(0);
        mesh.run(60 * SECOND);
        assert_eq!(on_shelves(&mesh, data, 1..=2).0, 27, "{memory} {rooms:?}");
        // Who uses it and goes leaves bricks in memory that a shelf has not.
        mesh.join(4);
        mesh.run(SECOND);
        mesh.input(3, KeeperInput::Use(data, true));
        mesh.run(20 * SECOND);
        mesh.input(3, KeeperInput::Use(data, false));
        mesh.run(60 * SECOND);
        assert_eq!(on_shelves(&mesh, data, 1..=2).0, 27, "{memory} {rooms:?}");
    }
}

#[test]
fn what_nobody_needs_leaves_the_memory_and_stays_on_the_shelf_until_its_place_is_needed() {
    let mut mesh = Mesh::new(&[27]);
    mesh.join_with_shelf(27, 54);
    mesh.run(SECOND);
    let (first, second) = (manifest(1), manifest(2));
    mesh.input(0, KeeperInput::Offer(Arc::clone(&first), 2));
    mesh.run(5 * SECOND);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&second), 2));
    mesh.input(0, KeeperInput::Use(first.digest(), false));
    mesh.run(20 * SECOND);
    let (first, second) = (first.digest(), second.digest());
    assert_eq!((mesh.held(1, first), mesh.held(1, second)), (0, 27));
    assert_eq!(mesh.replicas(1, first).announcement().shelf.len(), 27);
    let in_memory = mesh.in_memory[1].iter().filter(|b| b.0 == first).count();
    assert_eq!(in_memory, 0);
    // Who needs it now has it of the shelf, though who brought it is gone.
    mesh.kill(0);
    mesh.join(27);
    mesh.run(SECOND);
    mesh.input(2, KeeperInput::Use(first, true));
    mesh.run(30 * SECOND);
    assert_eq!(mesh.replicas(2, first).safety().missing, 0);
}

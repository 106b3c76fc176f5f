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
        for (&room, n) in rooms.iter().zip(peers.clone()) {
            assert!(mesh.shelves[n].len() as u64 <= room);
        }
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
fn what_fits_into_memory_is_kept_as_it_comes_and_nothing_is_fetched_besides() {
    let (mesh, data) = with_shelves(20, &[27, 6]);
    for (n, room) in [(1, 27), (2, 6)] {
        assert!(mesh.got[n] <= mesh.held(n, data) as usize + DOWNLOADS_MAX);
        assert_eq!(mesh.shelves[n].len(), mesh.got[n].min(room));
    }
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
fn what_nobody_needs_gives_its_place_on_the_shelf_to_what_somebody_needs() {
    let (mut mesh, first) = with_shelves(4, &[27]);
    let second = manifest(2);
    mesh.input(0, KeeperInput::Offer(Arc::clone(&second), 1));
    mesh.run(60 * SECOND);
    let of = |mesh: &Mesh, data| mesh.shelves[1].keys().filter(|b| b.0 == data).count();
    assert_eq!((of(&mesh, first), of(&mesh, second.digest())), (27, 0));
    mesh.input(0, KeeperInput::Use(first, false));
    mesh.run(60 * SECOND);
    assert_eq!(of(&mesh, second.digest()), 27);
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

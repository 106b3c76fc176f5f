//! Full peers that wait for each other's place.

use super::*;

const SECOND: u64 = 1_000_000;

/// Peers with room for one copy of each brick together, each of which gave up a brick that the one
/// before it is assigned since, as peers do that did not know the same.
fn ring(capacities: &[u32]) -> (Mesh, Vec<BrickIndex>) {
    let mut mesh = Mesh::new(capacities);
    mesh.settle();
    let held = |p: &Peer| p.announcement().held.clone();
    let all = mesh.peers.iter().map(|p| held(p).len());
    assert_eq!(all.sum::<u32>(), 64);
    let first = |p: &Peer| held(p).iter().next().unwrap();
    let bricks: Vec<BrickIndex> = mesh.peers.iter().map(first).collect();
    for n in 0..capacities.len() {
        let own = &mut mesh.peers[n].own;
        assert!(own.assigned.remove(bricks[n]));
        assert!(own.assigned.insert(bricks[(n + 1) % bricks.len()]));
    }
    mesh.moved = 0;
    (mesh, bricks)
}

/// Lets time go by.
fn run(mesh: &mut Mesh, micros: u64) {
    let end = mesh.now + micros;
    while mesh.now < end {
        mesh.now += SECOND;
        mesh.settle();
    }
}

#[test]
fn full_peers_that_are_assigned_each_others_bricks_go_on_holding_their_own() {
    for capacities in [&[32, 32][..], &[20, 22, 22], &[16; 4]] {
        let (mut mesh, bricks) = ring(capacities);
        run(&mut mesh, STUCK_MICROS - SECOND);
        assert!(
            mesh.peers.iter().all(|p| !p.announcement().settled),
            "each waits for the next one's place"
        );
        run(&mut mesh, 5 * SECOND);
        // And it stays like that.
        for _ in 0..2 {
            for (p, &own) in mesh.peers.iter().zip(&bricks) {
                let says = p.announcement();
                assert!(says.settled && says.assigned == says.held);
                assert!(says.held.contains(own));
            }
            run(&mut mesh, 5 * STUCK_MICROS);
        }
        assert_eq!(mesh.moved, 0);
    }
}

#[test]
fn where_one_goes_on_first_the_others_do_not_lose_what_it_gave_up() {
    let (mut mesh, bricks) = ring(&[20, 22, 22]);
    run(&mut mesh, STUCK_MICROS - SECOND);
    // The others have waited for a shorter time.
    for p in &mut mesh.peers[1..] {
        p.unassigned.values_mut().for_each(|s| *s += 10 * SECOND);
    }
    run(&mut mesh, 20 * SECOND);
    for (p, &own) in mesh.peers.iter().zip(&bricks) {
        let says = p.announcement();
        assert!(says.settled && says.assigned == says.held);
        assert!(says.held.contains(own));
    }
    assert_eq!(mesh.moved, 0);
}

#[test]
fn what_somebody_can_take_over_is_waited_for() {
    let mut mesh = Mesh::new(&[32, 32]);
    mesh.settle();
    let says = mesh.peers[0].announcement().clone();
    let given_up = says.held.iter().next().unwrap();
    let other = mesh.peers[1].announcement().held.iter().next().unwrap();
    let own = &mut mesh.peers[0].own;
    own.assigned.remove(given_up);
    own.assigned.insert(other);
    let mut taker = mesh.peers[1].announcement().clone();
    taker.assigned.insert(given_up);
    taker.capacity += 1;
    let a = &mut mesh.peers[0];
    let mut goes_on = |taker: &Announcement, now: u64| {
        assert!(a.heard(&peer(1), taker.clone(), now));
        assert_eq!(a.droppable(now), [], "nobody else has it");
        a.take_back(now)
    };
    assert!(!goes_on(&taker, 0));
    assert!(!goes_on(&taker, 2 * STUCK_MICROS), "it has room");
    taker.capacity -= 1;
    assert!(goes_on(&taker, 2 * STUCK_MICROS), "it has none any more");
    let own = mesh.peers[0].announcement();
    assert!(own.assigned.contains(given_up) && !own.assigned.contains(other));
}

#[test]
fn what_another_one_has_in_memory_is_not_taken_before_it_drops_it() {
    let mut taken = 0;
    for n in 0..8 {
        let brick = BrickIndex(n);
        let mut a = holding(0, 64);
        a.redundancy = 1;
        a.set_in_use(true);
        a.own.assigned = BrickSet::all(64);
        let mut other = Announcement::expected(64, 64);
        for b in 32..64 {
            a.own.assigned.remove(BrickIndex(b));
            other.assigned.insert(BrickIndex(b));
        }
        a.own.assigned.remove(brick);
        other.held = other.assigned.clone();
        other.held.insert(brick);
        assert!(a.heard(&peer(1), other.clone(), 0));
        a.keep_up(0);
        assert!(!a.announcement().assigned.contains(brick), "it has it");
        other.held.remove(brick);
        assert!(a.heard(&peer(1), other, SECOND));
        taken += u32::from(a.keep_up(SECOND) && a.announcement().assigned.contains(brick));
    }
    assert!(taken > 0, "some are better placed here");
}

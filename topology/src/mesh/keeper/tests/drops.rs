//! Bricks that are dropped, and are in memory still.

use super::*;

#[test]
fn what_was_dropped_is_held_again_if_those_who_went_on_holding_it_are_silent() {
    let (mut mesh, [first, _]) = three_with_too_many_copies();
    let data = first.digest();
    let who = loop {
        assert!(mesh.now < 99 * SECOND, "nobody drops anything");
        mesh.run(TICK_MICROS);
        let mut peers = 0..3;
        if let Some(who) = peers.find(|&n| !mesh.keeper(n).dropping.is_empty()) {
            break who;
        }
    };
    let dropped: Vec<BrickIndex> = (mesh.keeper(who).dropping.iter())
        .filter(|d| d.1 == data)
        .map(|d| d.2)
        .collect();
    assert!(!dropped.is_empty());
    let holds = |mesh: &Mesh, b| mesh.replicas(who, data).announcement().held.contains(b);
    assert!(dropped.iter().all(|&b| !holds(&mesh, b)));
    // Power off, unnoticed: until they are missed, what they hold counts.
    for other in (0..3).filter(|&n| n != who) {
        mesh.keepers[other] = None;
    }
    mesh.run(DROP_MICROS + SECOND);
    assert!(dropped.iter().all(|&b| holds(&mesh, b)));
    let memory = &mesh.in_memory[who];
    assert!(dropped.iter().all(|&b| memory.contains(&(data, b))));
}

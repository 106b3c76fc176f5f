//! Peers that are started again under their name, or come back after they were gone.

use super::*;

#[test]
fn one_that_was_started_again_is_asked_again() {
    let mut mesh = Mesh::new(&[54]);
    let (sets, other) = ([manifest(1), manifest(2)], name(1));
    let hello = Arc::new(mesh.keeper(0).hello().clone());
    let keeper = mesh.keepers[0].as_mut().unwrap();
    let mut asked = |now, incarnation| {
        let heartbeat = KeeperMessage::Heartbeat {
            heartbeat: Heartbeat {
                incarnation,
                count: now,
            },
            hello: Arc::clone(&hello),
            vitals: Arc::default(),
        };
        let (mut inputs, mut out) = (vec![heartbeat], Vec::new());
        inputs.extend(offers(&sets));
        for message in inputs {
            keeper.step(now, KeeperInput::Said(other.clone(), message), &mut out);
        }
        keeper.step(now, KeeperInput::Tick, &mut out);
        let request = |o: &&KeeperOutput| {
            matches!(o, KeeperOutput::Send(_, KeeperMessage::BrickRequest { .. }))
        };
        out.iter().filter(request).count()
    };
    assert_eq!(asked(0, 1), DOWNLOADS_MAX);
    assert_eq!(asked(TICK_MICROS, 1), 0, "none has come");
    assert_eq!(asked(2 * TICK_MICROS, 2), DOWNLOADS_MAX);
}

#[test]
fn one_that_was_started_again_holds_nothing_until_it_says_so() {
    let (mut mesh, data) = four(0);
    let holders = |mesh: &Mesh| {
        let (_, candidates) = mesh.keeper(0).candidates(data).unwrap();
        let hold = candidates
            .into_iter()
            .filter(|c| !c.entry.bricks.is_empty());
        hold.map(|c| c.entry.peer).collect::<BTreeSet<_>>()
    };
    assert_eq!(holders(&mesh).len(), 4);
    // It comes back before anybody has missed it; its connections are made anew.
    let hello = mesh.keeper(3).hello().clone();
    let later = Heartbeat {
        incarnation: 2,
        count: 1,
    };
    let heartbeat = KeeperMessage::Heartbeat {
        heartbeat: later,
        hello: Arc::new(hello),
        vitals: Arc::default(),
    };
    let mut out = Vec::new();
    let requester = mesh.keepers[0].as_mut().unwrap();
    requester.step(mesh.now, KeeperInput::Said(name(3), heartbeat), &mut out);
    assert_eq!(holders(&mesh), BTreeSet::from([0, 1, 2].map(name)));
    let roster = out.iter().position(|o| *o == KeeperOutput::Roster(data));
    let without = KeeperOutput::GoOnWithout(name(3));
    let without = out.iter().position(|o| *o == without);
    assert!(roster.is_some() && roster < without, "{out:?}");
    assert!(mesh.keeper(0).peers().any(|p| *p.0 == name(3)));
}

/// What peer 3 says of itself and of what it holds.
fn says(mesh: &Mesh, data: Digest, count: u64) -> [KeeperMessage; 2] {
    let heartbeat = KeeperMessage::Heartbeat {
        heartbeat: Heartbeat {
            incarnation: 1,
            count,
        },
        hello: Arc::new(mesh.keeper(3).hello().clone()),
        vitals: Arc::default(),
    };
    let announcement = Arc::new(mesh.replicas(3, data).announcement().clone());
    let residency = KeeperMessage::Residency {
        data_set: data,
        announcement,
    };
    [residency, heartbeat]
}

#[test]
fn what_one_that_is_back_holds_counts_from_its_first_beat_on() {
    for (is_lost, held) in [(false, 13), (true, 0)] {
        let (mut mesh, data) = four(0);
        let bricks = mesh.held(3, data);
        assert!(bricks >= 13);
        mesh.cut = (0..3).map(|other| (other, 3)).collect();
        mesh.run(10 * SECOND);
        let of_3 = |mesh: &Mesh| {
            let (_, candidates) = mesh.keeper(0).candidates(data).unwrap();
            let mut of_3 = candidates.into_iter().filter(|c| c.entry.peer == name(3));
            of_3.next().map(|c| c.entry.bricks.len())
        };
        assert_eq!(of_3(&mesh), None, "it is gone");
        let [residency, heartbeat] = says(&mesh, data, 1_000_000);
        mesh.input(0, KeeperInput::Said(name(3), residency));
        assert_eq!(of_3(&mesh), None, "it has not said what it is");
        if is_lost {
            // What came over a connection that is broken may be old.
            mesh.input(0, KeeperInput::Lost(name(3)));
            mesh.input(0, KeeperInput::Connected(name(3)));
        }
        mesh.input(0, KeeperInput::Said(name(3), heartbeat));
        assert!(of_3(&mesh).is_some_and(|n| n.min(13) == held));
    }
}

//! How announcements travel: whole to who is new, then as changes; digests where nothing changes.

use super::*;

/// What a peer believes that another one announces.
fn believed(mesh: &Mesh, data: Digest, by: usize, of: usize) -> Announcement {
    let others = mesh.replicas(by, data).others();
    Announcement::clone(&others[&name(of)])
}

fn assert_all_know_all(mesh: &Mesh, data: Digest) {
    for (by, of) in (0..4).flat_map(|by| (0..4).map(move |of| (by, of))) {
        if by != of {
            let announced = mesh.replicas(of, data).announcement();
            assert_eq!(&believed(mesh, data, by, of), announced, "{by} of {of}");
        }
    }
}

#[test]
fn bricks_travel_as_changes_and_at_rest_as_digests() {
    let (mut mesh, data) = four(0);
    assert_all_know_all(&mesh, data);
    let Announced { wholes, asked, .. } = mesh.announced;
    assert_eq!(wholes, 12, "each to each, once");
    assert_eq!(asked, 0, "nothing was missed");
    let changes = mesh.announced.changes;
    assert!(changes >= 12, "{changes}");
    mesh.announced = Announced::default();
    mesh.run(20 * SECOND);
    let digests = std::mem::take(&mut mesh.announced.digests);
    assert_eq!(mesh.announced, Announced::default());
    assert!((9 * 12..=11 * 12).contains(&digests), "{digests}");
}

#[test]
fn whoever_missed_a_change_asks_for_all_of_it() {
    for is_lost in [false, true] {
        let (mut mesh, data) = four(0);
        mesh.announced = Announced::default();
        mesh.cut = vec![(0, 1)];
        mesh.input(0, KeeperInput::Use(data, false));
        mesh.run(SECOND / 2);
        assert!(believed(&mesh, data, 1, 0).in_use, "it was not told");
        assert!(!believed(&mesh, data, 2, 0).in_use);
        mesh.cut.clear();
        if is_lost {
            mesh.run(3 * SECOND);
        } else {
            // The next change does not follow from what it knows.
            mesh.input(0, KeeperInput::Leave);
            mesh.run(3 * LATENCY);
        }
        assert_eq!((mesh.announced.asked, mesh.announced.wholes), (1, 1));
        assert!(!believed(&mesh, data, 1, 0).in_use);
        mesh.run(3 * SECOND);
        if is_lost {
            assert_all_know_all(&mesh, data);
        }
    }
}

#[test]
fn changes_that_do_not_fit_and_digests_without_end_are_dropped() {
    let (mut mesh, data) = four(0);
    let heard = believed(&mesh, data, 0, 1);
    let mut other = Announcement::expected(28, 9);
    other.held.insert(BrickIndex(27));
    // As if it changed from what is known to bricks that the data set does not have.
    let change = AnnouncementChange::between(&Said::new(heard.clone()), &other);
    let change = Arc::new(change);
    let digests = (0..=DATA_SETS_MAX).map(|n| Digest::of(&n.to_le_bytes()));
    let digests = Arc::new(digests.map(|d| (d, d)).collect());
    let mut out = Vec::new();
    for message in [
        KeeperMessage::ResidencyChanged {
            data_set: data,
            change,
        },
        KeeperMessage::ResidencyDigests { digests },
    ] {
        out.clear();
        let said = KeeperInput::Said(name(1), message);
        let keeper = mesh.keepers[0].as_mut().unwrap();
        keeper.step(mesh.now, said, &mut out);
        assert!(matches!(out[..], [KeeperOutput::Dropping(..)]), "{out:?}");
    }
    assert_eq!(believed(&mesh, data, 0, 1), heard);
}

#[test]
fn what_was_closed_while_nobody_heard_it_is_known_from_the_next_digest() {
    let (mut mesh, data) = four(0);
    assert!(believed(&mesh, data, 1, 0).in_use);
    mesh.cut = (1..4).map(|other| (0, other)).collect();
    let mut out = Vec::new();
    let keeper = mesh.keepers[0].as_mut().unwrap();
    keeper.close(data, &mut out);
    mesh.cut.clear();
    assert!(believed(&mesh, data, 1, 0).in_use, "it was not told");
    mesh.run(2 * SECOND + SECOND / 2);
    let found = believed(&mesh, data, 1, 0);
    assert!(!found.in_use && found.held.is_empty(), "{found:?}");
}

#[test]
fn a_change_of_a_data_set_that_is_not_open_takes_no_memory() {
    let (mut mesh, _) = four(0);
    let large = |words: &str, bricks: u32| -> BrickSet {
        let json = format!(r#"{{"brick_count":{bricks},"words":[{words}]}}"#);
        serde_json::from_str(&json).unwrap()
    };
    let mut first = Announcement::expected(0, 0);
    first.held = large("", u32::MAX);
    let mut other = first.clone();
    other.held = large("", u32::MAX - 1);
    let said = Said::new(first);
    let data_set = Digest::of(b"unknown");
    let change = Arc::new(AnnouncementChange::between(&said, &other));
    let announcement = Arc::clone(said.announcement());
    let whole = KeeperMessage::Residency {
        data_set,
        announcement,
    };
    let change = KeeperMessage::ResidencyChanged { data_set, change };
    for message in [whole, change] {
        mesh.input(0, KeeperInput::Said(name(1), message));
        let early = mesh.keeper(0).early.get(&name(1));
        assert!(early.is_none_or(|e| !e.contains_key(&data_set)));
    }
}

#[test]
fn one_that_left_says_nothing_more() {
    let mut mesh = Mesh::new(&[27, 27]);
    mesh.run(SECOND);
    let mut keeper = mesh.keepers[0].take().unwrap();
    let mut out = Vec::new();
    let offered = KeeperInput::Offer(manifest(1), 1);
    keeper.step(mesh.now, offered, &mut out);
    keeper.leaving = Leaving::Gone;
    out.clear();
    for tick in 1..50 {
        keeper.step(mesh.now + tick * TICK_MICROS, KeeperInput::Tick, &mut out);
    }
    let need = KeeperMessage::NeedResidency {
        data_set: manifest(1).digest(),
    };
    keeper.step(mesh.now, KeeperInput::Said(name(1), need), &mut out);
    let says = |o: &&KeeperOutput| matches!(o, KeeperOutput::Send(..));
    assert_eq!(out.iter().filter(says).count(), 0, "{out:?}");
}

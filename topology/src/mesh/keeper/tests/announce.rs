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
    let Some(Saying::Whole(_)) = Said::new(other.clone()).say(&heard) else {
        panic!("all of it is new")
    };
    // As if it changed from what is known to bricks that the data set does not have.
    let change = AnnouncementChange::between((&heard, heard.digest()), &other);
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

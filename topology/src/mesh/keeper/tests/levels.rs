//! A volume and its levels.

use super::*;

/// A volume of 72 bricks as large as those of [`manifest`], and its level of 36.
fn volume_and_level() -> [Arc<Manifest>; 2] {
    let volume = VolumeDescription::new([32, 3 * EDGE, 3 * EDGE], VoxelType::U8);
    let level = crate::data::levels::coarser(&volume, EDGE).unwrap();
    let cut = |volume: VolumeDescription, levels: Vec<Digest>| {
        let parts = ManifestParts::cut(volume, EDGE, "test", |stored| {
            vec![1; usize::try_from(stored.voxel_count()).unwrap()]
        });
        let mut parts = parts.unwrap();
        parts.levels = levels;
        Arc::new(Manifest::try_from(parts).unwrap())
    };
    let level = cut(level, Vec::new());
    [cut(volume, vec![level.digest()]), level]
}

/// Peers with memory for so many bricks, the first of which opens a volume and its level, one before the other; bricks
/// of the volume that each has room for, and of the level that it holds.
fn rooms(capacities: &[u64], level_first: bool) -> Vec<[u32; 2]> {
    let all = volume_and_level();
    let mut mesh = Mesh::new(capacities);
    mesh.run(SECOND);
    for n in if level_first { [1, 0] } else { [0, 1] } {
        mesh.input(0, KeeperInput::Offer(Arc::clone(&all[n]), 1));
        mesh.run(10 * SECOND);
    }
    mesh.run(20 * SECOND);
    assert_eq!(mesh.not_fitting, 0);
    for p in 0..capacities.len() {
        for m in &all {
            let r = mesh.replicas(p, m.digest());
            let a = r.announcement();
            eprintln!(
                "true {level_first} peer {p} {} cap {} res {} held {} assigned {} readable {} pressed {}",
                m.grid().brick_count(),
                a.capacity,
                a.reserve,
                a.held.len(),
                a.assigned.len(),
                a.readable.len(),
                r.is_pressed()
            );
        }
    }
    let names = all.map(|m| m.digest());
    let of_peer = |n: usize| {
        let own = mesh.replicas(n, names[0]).announcement();
        [own.capacity + own.reserve, mesh.held(n, names[1])]
    };
    (0..capacities.len()).map(of_peer).collect()
}

#[test]
fn a_coarse_level_is_held_before_a_finer_one_whichever_was_opened_first() {
    for level_first in [true, false] {
        let alone = rooms(&[50], level_first);
        assert_eq!(alone, [[14, 36]], "{level_first}");
        let several = rooms(&[30, 26], level_first);
        assert_eq!(several.iter().map(|r| r[1]).sum::<u32>(), 36, "{several:?}");
        assert!(several.iter().all(|r| r[0] >= 4), "{several:?}");
        // Some of it is for the volume itself.
        let [[room, held]] = rooms(&[20], level_first)[..] else {
            panic!("one peer");
        };
        assert!(
            (4..=5).contains(&room) && held >= 7,
            "{level_first} {room} {held}"
        );
        // Where all fits, all is held.
        assert_eq!(rooms(&[108], level_first), [[72, 36]]);
    }
}

#[test]
fn peers_with_room_for_few_bricks_of_all_levels_read_within_their_memory() {
    let all = volume_and_level();
    let exact = all[0].digest();
    for capacity in [3, 5, 7, 12] {
        let mut mesh = Mesh::new(&[capacity; 3]);
        mesh.run(SECOND);
        for n in 0..3 {
            // The last one has the volume alone.
            for of in if n < 2 { &[1, 0][..] } else { &[0] } {
                mesh.input(n, KeeperInput::Offer(Arc::clone(&all[*of]), 2));
            }
            mesh.run(15 * SECOND);
            for turn in 0..72 {
                let brick = BrickIndex(turn * 7 % 72);
                let question = u64::from(turn);
                mesh.input(n, KeeperInput::Stage(exact, brick, question));
                mesh.run(10 * LOADING);
                mesh.input(n, KeeperInput::Release(exact, brick));
                let is_readable = |n| {
                    let own = mesh.replicas(n, exact).announcement();
                    !own.readable.is_empty()
                };
                assert!((0..=n).all(is_readable), "{capacity} {n} {turn}");
                assert_eq!(mesh.not_fitting, 0, "{capacity} {n} {turn}");
                assert!((0..3).all(|n| mesh.in_memory[n].len() as u64 <= capacity));
            }
        }
    }
}

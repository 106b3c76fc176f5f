//! A volume and its levels.

use super::*;
use crate::{balance::frame_plan::FrameWork, data::levels::in_same_place};

/// A volume of 144 bricks as large as those of [`manifest`], and its levels of 72 and 36.
fn volume_and_levels() -> Vec<Arc<Manifest>> {
    volume_and_levels_of(1, EDGE)
}

fn volume_and_levels_of(value: u8, edge: u32) -> Vec<Arc<Manifest>> {
    let volume = VolumeDescription::new([64, 3 * EDGE, 3 * EDGE], VoxelType::U8);
    let cut = |volume: &VolumeDescription, levels: Vec<Digest>| {
        let parts = ManifestParts::cut(volume.clone(), edge, "test", |stored| {
            vec![value; usize::try_from(stored.voxel_count()).unwrap()]
        });
        let mut parts = parts.unwrap();
        parts.levels = levels;
        Arc::new(Manifest::try_from(parts).unwrap())
    };
    let volumes = crate::data::levels::levels(&volume, edge);
    let levels: Vec<_> = volumes[1..3].iter().map(|v| cut(v, Vec::new())).collect();
    let names = levels.iter().map(|m| m.digest()).collect();
    [vec![cut(&volumes[0], names)], levels].concat()
}

/// Peers with memory for so many bricks, of which `sources` have the volume and its levels, and open them coarsest first or
/// last; bricks of the volume that each has room for, and those of its levels that it holds, finest first.
fn rooms(capacities: &[u64], sources: usize, coarsest_first: bool) -> (Mesh, Vec<[u32; 3]>) {
    let all = volume_and_levels();
    let mut mesh = Mesh::new(capacities);
    mesh.run(SECOND);
    let order = if coarsest_first { [2, 1, 0] } else { [0, 1, 2] };
    for of in order {
        for n in 0..sources {
            mesh.input(n, KeeperInput::Offer(Arc::clone(&all[of]), 1));
        }
        mesh.run(5 * SECOND);
    }
    mesh.run(30 * SECOND);
    assert_eq!(mesh.not_fitting, 0);
    let of_peer = |n: usize| {
        let own = mesh.replicas(n, all[0].digest()).announcement();
        let held = |level: usize| mesh.held(n, all[level].digest());
        [own.capacity + own.reserve, held(1), held(2)]
    };
    for volume in &all {
        assert_eq!(mesh.replicas(0, volume.digest()).safety().missing, 0);
    }
    let rooms = (0..capacities.len()).map(of_peer).collect();
    (mesh, rooms)
}

#[test]
fn coarse_levels_are_held_before_finer_ones_whichever_was_opened_first() {
    for coarsest_first in [true, false] {
        // Of the middle one half of what is left is read.
        let (_, alone) = rooms(&[60], 1, coarsest_first);
        let [room, middle, coarsest] = alone[0];
        assert_eq!(coarsest, 36, "{alone:?}");
        assert!(room >= 7 && (4..=9).contains(&middle), "{alone:?}");
        let (_, several) = rooms(&[60, 30, 30], 3, coarsest_first);
        let held = |level: usize| several.iter().map(|r| r[level]).sum::<u32>();
        assert!(held(2) >= 32 && held(1) >= 20, "{several:?}");
        assert!(several.iter().all(|r| r[0] >= 3), "{several:?}");
        // Where all fits, all is held.
        assert_eq!(rooms(&[252], 1, coarsest_first).1, [[144, 72, 36]]);
    }
}

#[test]
fn every_level_can_be_read_where_there_is_room_for_few_bricks() {
    let all = volume_and_levels();
    for capacity in 8..60 {
        let (mut mesh, _) = rooms(&[capacity; 2], 2, true);
        // One that has the volume alone.
        mesh.join(capacity);
        mesh.input(2, KeeperInput::Offer(Arc::clone(&all[0]), 1));
        for turn in 0..72 {
            for (of, n) in [(0, 0), (1, 1), (0, 2), (2, 0)] {
                let name = all[of].digest();
                let brick = BrickIndex(turn * 7 % all[of].grid().brick_count());
                let is_had = |n: usize| {
                    let own = mesh.replicas(n, name).announcement();
                    own.held.contains(brick) || own.readable.contains(brick)
                };
                assert!((0..3).any(is_had), "{capacity} {of} {n} {turn}");
                let question = u64::from(turn);
                mesh.input(n, KeeperInput::Stage(name, brick, question));
                mesh.run(20 * LOADING);
                mesh.input(n, KeeperInput::Release(name, brick));
                mesh.run(20 * LOADING);
                let in_memory = mesh.in_memory.iter().map(|m| m.len() as u64);
                assert!(in_memory.max() <= Some(capacity));
            }
        }
        assert!(mesh.not_fitting <= 4, "{capacity}");
    }
}

#[test]
fn a_frame_while_peers_join_waits_for_room_and_is_not_refused() {
    let all = volume_and_levels();
    let name = all[0].digest();
    for capacity in [24, 40, 60] {
        let mut mesh = Mesh::new(&[capacity]);
        for volume in &all {
            mesh.input(0, KeeperInput::Offer(Arc::clone(volume), 2));
        }
        mesh.run(SECOND);
        for turn in 0..144 {
            if turn % 36 == 9 {
                mesh.join(capacity);
            }
            let answers = ask_for(&mut mesh, 0, name, BrickIndex(turn), 400);
            assert_eq!(answers, [true], "{capacity} {turn}");
        }
    }
}

/// A frame of peer `n` needs a brick, for so many loading times at most; what it hears.
fn ask_for(mesh: &mut Mesh, n: usize, name: Digest, brick: BrickIndex, patience: u32) -> Vec<bool> {
    mesh.staged.clear();
    mesh.input(n, KeeperInput::Stage(name, brick, 1));
    for _ in 0..patience {
        if mesh.staged.is_empty() {
            mesh.run(LOADING);
        }
    }
    mesh.input(n, KeeperInput::Release(name, brick));
    mesh.staged.iter().map(|s| s.1).collect()
}

#[test]
fn two_volumes_share_memory_that_is_too_small_for_either() {
    let volumes = [1, 2].map(|value| volume_and_levels_of(value, EDGE));
    for capacity in [12, 24, 60] {
        // One peer fills its memory with a volume before anybody has the other one.
        let mut mesh = Mesh::new(&[capacity; 3]);
        mesh.run(SECOND);
        for (n, volume) in volumes.iter().enumerate() {
            for level in volume {
                mesh.input(n, KeeperInput::Offer(Arc::clone(level), 2));
            }
            mesh.run(30 * SECOND);
        }
        mesh.join(capacity);
        for turn in 0..72 {
            for (n, volume) in volumes.iter().enumerate() {
                let level = &volume[usize::from(turn % 4 == 3)];
                let brick = BrickIndex(turn * 7 % level.grid().brick_count());
                let answers = ask_for(&mut mesh, n, level.digest(), brick, 400);
                assert_eq!(answers, [true], "{capacity} {turn} {n}");
            }
        }
        assert!(mesh.in_memory.iter().all(|m| m.len() as u64 <= capacity));
    }
}

#[test]
fn a_volume_of_few_bricks_is_held_beside_one_that_is_too_large() {
    let volume = VolumeDescription::new([2 * EDGE, EDGE, EDGE], VoxelType::U8);
    let parts = ManifestParts::cut(volume, EDGE, "small", |stored| {
        vec![7; usize::try_from(stored.voxel_count()).unwrap()]
    });
    let small = Arc::new(Manifest::try_from(parts.unwrap()).unwrap());
    for peers in [3, 8] {
        let mut mesh = Mesh::new(&vec![10; peers]);
        mesh.run(SECOND);
        for level in volume_and_levels() {
            mesh.input(0, KeeperInput::Offer(level, 2));
        }
        mesh.run(20 * SECOND);
        mesh.input(1, KeeperInput::Offer(Arc::clone(&small), 2));
        mesh.run(40 * SECOND);
        let safety = mesh.replicas(0, small.digest()).safety();
        assert_eq!((safety.copies_min, safety.read), (2, 0), "{peers} peers");
    }
}

#[test]
fn frames_of_two_volumes_do_not_wait_long_when_viewers_come_and_go() {
    let volumes = [(1, 2 * EDGE), (2, EDGE)].map(|(value, edge)| volume_and_levels_of(value, edge));
    for capacities in [
        [20, 50],
        [30, 30],
        [46, 122],
        [46, 46],
        [60, 20],
        [100, 100],
    ] {
        let mut mesh = Mesh::new(&capacities);
        mesh.run(SECOND);
        for (n, volume) in volumes.iter().enumerate() {
            for level in volume {
                mesh.input(n, KeeperInput::Offer(Arc::clone(level), 2));
            }
            mesh.run(SECOND);
        }
        for turn in 0..40 {
            mesh.join(capacities[0]);
            mesh.run(u64::from(turn % 4) * SECOND / 2);
            let mut waited = 0;
            for (n, volume) in volumes.iter().enumerate() {
                for brick in 0..10 {
                    let brick =
                        BrickIndex((turn * 10 + brick) * 7 % volume[0].grid().brick_count());
                    let since = mesh.now;
                    let answers = ask_for(&mut mesh, n, volume[0].digest(), brick, 4000);
                    assert_eq!(answers, [true], "{capacities:?} {turn} {n}");
                    waited = waited.max(mesh.now - since);
                }
            }
            // At first everything has yet to find its place.
            let most = if turn == 0 { 5 * SECOND } else { SECOND / 5 };
            assert!(waited <= most, "{capacities:?} {turn} {waited}");
            mesh.input(2 + turn as usize, KeeperInput::Leave);
            mesh.run(u64::from(turn % 3) * 3 * SECOND);
        }
    }
}

#[test]
fn a_volume_is_read_where_there_is_room_for_a_few_bricks() {
    let all = volume_and_levels();
    for capacity in 3..8 {
        let mut mesh = Mesh::new(&[capacity; 2]);
        mesh.run(SECOND);
        for (n, level) in (0..2).flat_map(|n| all.iter().map(move |level| (n, level))) {
            mesh.input(n, KeeperInput::Offer(Arc::clone(level), 2));
        }
        mesh.run(30 * SECOND);
        for turn in 0..72 {
            let of = usize::from(turn % 2 == 1 && capacity >= 6);
            let brick = BrickIndex(turn * 7 % all[of].grid().brick_count());
            let answers = ask_for(&mut mesh, 1, all[of].digest(), brick, 400);
            assert_eq!(answers, [true], "{capacity} {turn} {of}");
        }
    }
}

#[test]
fn what_peers_read_is_read_until_one_that_has_joined_with_room_for_all_holds_it() {
    let all = volume_and_levels();
    for (capacity, opened) in [(8, 3), (14, 3), (8, 1), (14, 1), (60, 1)] {
        let mut mesh = Mesh::new(&[capacity; 2]);
        mesh.run(SECOND);
        let offer = |mesh: &mut Mesh, levels: std::ops::Range<usize>| {
            for (level, n) in levels.rev().flat_map(|level| [(level, 0), (level, 1)]) {
                mesh.input(n, KeeperInput::Offer(Arc::clone(&all[level]), 2));
            }
        };
        offer(&mut mesh, 0..opened);
        mesh.run(10 * SECOND);
        mesh.join(1000);
        mesh.run(10 * LATENCY);
        offer(&mut mesh, opened..3);
        mesh.run(10 * LATENCY);
        for step in 0..300 {
            mesh.run(SECOND / 10);
            for volume in &all {
                let name = volume.digest();
                let is_had = |brick: &BrickIndex| {
                    (0..3).any(|n| {
                        let own = mesh.replicas(n, name).announcement();
                        own.held.contains(*brick) || own.readable.contains(*brick)
                    })
                };
                let missing = volume.grid().bricks().filter(|b| !is_had(b)).count();
                let bricks = volume.grid().brick_count();
                // Levels that are opened just then come within half a second.
                let is_due = step > 5 || opened == 3 || bricks == 144;
                let is_had = missing == 0 || !is_due;
                assert!(
                    is_had,
                    "{capacity} {opened}: {missing} of {bricks}, step {step}"
                );
            }
        }
        assert_eq!(mesh.held(2, all[0].digest()), 144);
    }
}

#[test]
fn where_a_peer_joins_with_which_all_just_fits_all_comes_to_be_held() {
    let all = volume_and_levels();
    for (capacity, joining) in [(90, 90), (60, 140), (20, 220)] {
        let mut mesh = Mesh::new(&[capacity; 2]);
        mesh.run(SECOND);
        for (level, n) in all.iter().flat_map(|level| [(level, 0), (level, 1)]) {
            mesh.input(n, KeeperInput::Offer(Arc::clone(level), 1));
        }
        mesh.run(10 * SECOND);
        mesh.join(joining);
        mesh.run(90 * SECOND);
        for volume in &all {
            let safety = mesh.replicas(0, volume.digest()).safety();
            let bricks = volume.grid().brick_count();
            assert_eq!(
                (safety.missing, safety.read),
                (0, 0),
                "{capacity} {joining}: {bricks}"
            );
        }
    }
}

#[test]
fn bricks_of_levels_come_before_those_of_the_volume() {
    let all = volume_and_levels();
    let mut mesh = Mesh::new(&[300, 300]);
    mesh.run(SECOND);
    // The volume is the first that is known.
    for of in [0, 1, 2] {
        mesh.input(0, KeeperInput::Offer(Arc::clone(&all[of]), 2));
    }
    mesh.run(10 * LATENCY);
    for _ in 0..1000 {
        mesh.run(LOADING);
        let [volume, middle, coarsest] = [0, 1, 2].map(|of| mesh.held(1, all[of].digest()));
        if coarsest == 36 && middle == 72 {
            assert!(volume < 72, "{volume} before all of the levels");
            return;
        }
    }
    panic!("levels do not come");
}

#[test]
fn what_frames_need_is_held_and_other_levels_follow() {
    let all = volume_and_levels();
    let exact = all[0].digest();
    let (mut mesh, before) = rooms(&[60, 30], 1, false);
    // Two thirds of the volume on its longest axis.
    let mut seen = BrickSet::new(144);
    let bricks = all[0].grid().bricks();
    for brick in bricks.filter(|&b| (5..8).contains(&all[0].grid().coordinates(b)[0])) {
        seen.insert(brick);
    }
    let mut work = FrameWork {
        micros: vec![0; 144],
        speeds: BTreeMap::new(),
    };
    seen.iter().for_each(|b| work.micros[b.0 as usize] = 5);
    for n in 0..2 {
        mesh.input(n, KeeperInput::Use(exact, true));
        let asked = KeeperInput::Asked(name(0), exact, Arc::new(work.clone()));
        mesh.input(n, asked);
    }
    mesh.run(60 * SECOND);
    let of_level = |mesh: &Mesh, level: usize| mesh.replicas(0, all[level].digest()).held();
    let lacking = |held: &BrickSet, needed: &BrickSet| needed.len_without(held);
    assert_eq!(lacking(&of_level(&mesh, 0), &seen), 0, "of {}", seen.len());
    let held: Vec<u32> = (0..2).map(|n| mesh.held(n, exact)).collect();
    assert!(
        held.iter()
            .zip(&before)
            .any(|(&held, before)| held > before[0])
    );
    for level in 1..3 {
        let needed = in_same_place(&seen, all[0].grid(), all[level].grid());
        let held = of_level(&mesh, level);
        assert!(lacking(&held, &needed) * 4 <= needed.len(), "level {level}");
    }
    // Nothing goes to and fro.
    let settled = |mesh: &Mesh| -> Vec<BrickSet> {
        let sets = all.iter().flat_map(|m| (0..2).map(|n| (n, m.digest())));
        let assigned = sets.map(|(n, d)| mesh.replicas(n, d).announcement().assigned.clone());
        assigned.collect()
    };
    let then = settled(&mesh);
    mesh.run(45 * SECOND);
    assert_eq!(settled(&mesh), then);
}

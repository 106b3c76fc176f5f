//! Data sets whose bricks take unlike memory: some have very many triangles.

use super::*;
use crate::{
    balance::frame_plan::FrameWork,
    data::triangles::{BrickTriangles, Material},
};

/// 27 bricks, of which each has this many triangles.
fn triangulated(count: impl Fn(u32) -> u32) -> Arc<Manifest> {
    let material = Material {
        name: "part.ply".to_owned(),
        color: [1.0; 3],
        opacity: 1.0,
    };
    let triangles = |n: u32| {
        let of = BrickTriangles {
            count: count(n),
            cells: [1; 8],
        };
        (BrickIndex(n), (Digest::of(&n.to_le_bytes()), of))
    };
    let of = (0..27).filter(|n| count(*n) > 0).map(triangles).collect();
    Arc::new(manifest(1).with_triangles(vec![material], &of).unwrap())
}

fn bytes_of_all(data: &Manifest) -> u64 {
    let bricks = data.grid().bricks();
    bricks.map(|brick| bytes_of(data, brick)).sum()
}

/// Peers with so much memory each, in bytes, of which the first has the source.
fn mesh_of(data: &Arc<Manifest>, memory: &[u64]) -> Mesh {
    let unit = manifest(1).largest_brick_bytes();
    let capacities: Vec<u64> = memory.iter().map(|bytes| bytes.div_ceil(unit)).collect();
    let mut mesh = Mesh::new(&capacities);
    mesh.run(SECOND);
    mesh.input(0, KeeperInput::Offer(Arc::clone(data), 1));
    mesh.run(60 * SECOND);
    mesh
}

/// One brick in five, from this one on, has 25 times the triangles of the others.
fn few_are_large(first: u32) -> impl Fn(u32) -> u32 {
    move |n| if n % 5 == first { 5000 } else { 200 }
}

#[test]
fn the_sum_of_some_bricks_follows_what_changes_in_their_set() {
    let data = triangulated(|n| n * n);
    let mut draws = Seeded::new(7);
    let (mut sum, mut bricks) = (TriangleSum::default(), BrickSet::new(27));
    for _ in 0..200 {
        for _ in 0..draws.below(4) {
            let brick = BrickIndex(u32::try_from(draws.below(27)).unwrap());
            if !bricks.remove(brick) {
                bricks.insert(brick);
            }
        }
        let expected = bricks.iter().map(|brick| data.triangle_memory(brick));
        assert_eq!(sum.of(&bricks, &data), expected.sum::<u64>());
    }
}

#[test]
fn what_fits_together_is_held_though_few_of_the_largest_brick_would_fit() {
    let data = triangulated(few_are_large(2));
    let all = bytes_of_all(&data);
    let largest = BrickBytes::default().largest(&data);
    assert!(27 * largest > 3 * all, "few are large");
    let mesh = mesh_of(&data, &[all / 2; 3]);
    let safety = mesh.replicas(0, data.digest()).safety();
    assert_eq!((safety.missing, safety.read), (0, 0), "{safety:?}");
    assert_eq!(mesh.not_fitting, 0);
}

#[test]
fn the_largest_brick_finds_room_beside_what_frames_need() {
    let data = triangulated(|n| if n % 5 == 2 { 5000 } else { 1000 });
    let (name_of_data, typical) = (data.digest(), BrickBytes::default().typical(&data));
    let mut mesh = mesh_of(&data, &[14 * typical + typical / 100]);
    // Two of the large ones and ten others would fit beside room for two usual ones, which is less than a large one takes.
    let mut work = FrameWork {
        micros: vec![5; 12],
        speeds: BTreeMap::new(),
    };
    work.micros.resize(27, 0);
    mesh.input(0, KeeperInput::Use(name_of_data, true));
    mesh.input(0, KeeperInput::Asked(name(0), name_of_data, Arc::new(work)));
    mesh.run(60 * SECOND);
    let own = mesh.replicas(0, name_of_data).announcement().clone();
    let lacks = |n: &u32| !own.held.contains(BrickIndex(*n));
    let lacking: Vec<u32> = (0..27).filter(lacks).collect();
    assert!(lacking.iter().any(|n| n % 5 == 2), "{lacking:?}");
    for brick in lacking.into_iter().map(BrickIndex) {
        mesh.staged.clear();
        mesh.input(0, KeeperInput::Stage(name_of_data, brick, 1));
        mesh.run(10 * LOADING);
        assert_eq!(mesh.staged, [(brick, true)]);
        mesh.input(0, KeeperInput::Release(name_of_data, brick));
    }
    assert_eq!(mesh.not_fitting, 0);
}

#[test]
fn where_a_peer_has_more_of_the_large_bricks_it_has_room_for_fewer() {
    let mut fewer = 0;
    for first in 0..5 {
        let data = triangulated(few_are_large(first));
        let typical = BrickBytes::default().typical(&data);
        let mesh = mesh_of(&data, &[20 * typical]);
        let keeper = mesh.keeper(0);
        let set = &keeper.sets[&data.digest()];
        let capacity = u64::from(set.replicas.announcement().capacity);
        let bytes = set.bytes(&keeper.transfers);
        assert!(bytes <= capacity * set.typical_bytes && bytes <= 20 * typical);
        fewer += u32::from(set.typical_bytes > typical);
        assert_eq!(mesh.not_fitting, 0);
    }
    assert!((1..5).contains(&fewer), "{fewer}");
}

use super::*;
use crate::balance::{placement::drift, schedule::SPEED_ONE};
use crate::base::seeded::Seeded;
use proptest::prelude::*;
use std::{cell::RefCell, collections::BTreeMap};

/// A mesh whose peers know each other's assignments after every round.
struct Mesh {
    grid: BrickGrid,
    /// All remember the same, so that what one remembers wrongly is another's.
    first: RefCell<FirstPlacement>,
    redundancy: u32,
    /// Whether memory is short everywhere for another data set.
    pressed: bool,
    /// What frames ask of it.
    work: Option<FrameWork>,
    /// Bricks that frames need.
    seen: Option<BrickSet>,
    peers: Vec<(PeerId, u32, BrickSet, bool)>,
    /// What each holds; `None`: all that is assigned to it.
    held: Option<Vec<BrickSet>>,
    /// What each remembers to have taken for its work.
    taken: RefCell<BTreeMap<usize, BTreeSet<BrickIndex>>>,
    moved: u32,
    joined: u32,
}

fn copies(redundancy: u32) -> Demand<'static> {
    Demand {
        alone: false,
        redundancy,
        pressed: false,
        work: None,
        seen: None,
    }
}

/// All that is assigned is held.
fn members(peers: &[(PeerId, u32, BrickSet, bool)]) -> Vec<Member<'_>> {
    let mut members = Vec::new();
    for (peer, capacity, assigned, leaving) in peers {
        members.push(Member {
            peer,
            capacity: *capacity,
            assigned,
            held: assigned,
            leaving: *leaving,
        });
    }
    members
}

impl Mesh {
    fn new(edge: u32, redundancy: u32, capacities: &[u32]) -> Self {
        let grid = BrickGrid::new([8 * edge; 3], 8).unwrap();
        let mut mesh = Self {
            grid,
            first: RefCell::new(FirstPlacement::new(grid, 7, None)),
            redundancy,
            pressed: false,
            work: None,
            seen: None,
            peers: Vec::new(),
            held: None,
            taken: RefCell::default(),
            moved: 0,
            joined: 0,
        };
        capacities.iter().for_each(|&capacity| mesh.join(capacity));
        mesh
    }

    fn join(&mut self, capacity: u32) {
        let peer = PeerId::new(&format!("peer-{:03}", self.joined));
        self.joined += 1;
        let none = BrickSet::new(self.grid.brick_count());
        self.peers.push((peer, capacity, none, false));
    }

    fn next(&self, me: usize) -> BrickSet {
        let mut members = members(&self.peers);
        if let Some(held) = &self.held {
            (members.iter_mut().zip(held)).for_each(|(member, held)| member.held = held);
        }
        let demand = Demand {
            alone: false,
            redundancy: self.redundancy,
            pressed: self.pressed,
            work: self.work.as_ref(),
            seen: self.seen.as_ref(),
        };
        let taken = &mut self.taken.borrow_mut();
        let taken = taken.entry(me).or_default();
        next_assignment(&mut self.first.borrow_mut(), &members, me, demand, taken)
    }

    fn take(&mut self, me: usize, next: BrickSet) -> bool {
        let before = &self.peers[me].2;
        let new = next.iter().filter(|&b| !before.contains(b)).count();
        self.moved += u32::try_from(new).unwrap();
        let changed = *before != next;
        self.peers[me].2 = next;
        changed
    }

    /// Copies of each brick.
    fn copies(&self) -> Vec<usize> {
        let of = |b| self.peers.iter().filter(|p| p.2.contains(b)).count();
        self.grid.bricks().map(of).collect()
    }

    /// Everybody knows the same and decides at once, until nobody changes anything.
    fn settle(&mut self) -> u32 {
        for round in 0.. {
            let next: Vec<BrickSet> = (0..self.peers.len()).map(|me| self.next(me)).collect();
            let changed = next
                .into_iter()
                .enumerate()
                .map(|(me, next)| self.take(me, next))
                .fold(false, |a, b| a | b);
            if !changed {
                return round;
            }
            assert!(round < 9, "assignments do not settle");
        }
        0
    }

    fn safety(&self) -> Safety {
        let staying = self.peers.iter().filter(|p| !p.3).map(|p| &p.2);
        Safety::of(self.grid.brick_count(), staying, self.redundancy)
    }
}

#[test]
fn where_memory_is_short_for_another_data_set_no_copy_is_kept_beyond_those_wanted() {
    let mut mesh = Mesh::new(3, 2, &[27; 5]);
    for peer in &mut mesh.peers {
        peer.2 = BrickSet::all(27);
    }
    mesh.settle();
    assert!(
        mesh.copies().iter().all(|&c| c == 5),
        "nobody needs capacity"
    );
    mesh.pressed = true;
    mesh.moved = 0;
    mesh.settle();
    assert!(mesh.copies().iter().all(|&c| c == 2));
    assert_eq!(mesh.moved, 0);
    mesh.pressed = false;
    mesh.settle();
    assert!(mesh.copies().iter().all(|&c| c == 2));
}

#[test]
fn the_first_assignments_are_the_placement() {
    let mut mesh = Mesh::new(4, 2, &[99; 8]);
    assert_eq!(mesh.settle(), 1);
    assert_eq!((mesh.safety().endangered, mesh.moved), (0, 128));
    // Who decides later, and knows some of the others' assignments, takes its own part.
    let mut late = Mesh::new(4, 2, &[99; 8]);
    for me in 0..8 {
        let next = late.next(me);
        late.take(me, next);
    }
    assert!((0..8).all(|me| late.peers[me].2 == mesh.peers[me].2));
}

#[test]
fn who_has_not_spoken_yet_is_not_made_up_for() {
    let mut mesh = Mesh::new(4, 2, &[99; 8]);
    for me in 0..8 {
        // Each hears of one before it at a time, and decides anew.
        for known in 0..=me {
            let mut knows = Mesh::new(4, 2, &[99; 8]);
            (0..known).for_each(|n| knows.peers[n].2 = mesh.peers[n].2.clone());
            knows.peers[me].2 = mesh.peers[me].2.clone();
            let next = knows.next(me);
            mesh.take(me, next);
        }
    }
    assert_eq!((mesh.safety().endangered, mesh.moved), (0, 128));
    // Of those who are gone nothing is expected.
    mesh.peers[3].2 = BrickSet::new(64);
    mesh.peers[3].1 = 0;
    mesh.settle();
    assert_eq!((mesh.safety().endangered, mesh.moved), (0, 128 + 16));
}

#[test]
fn a_ninth_peer_takes_its_share_and_nobody_else_moves() {
    let mut mesh = Mesh::new(6, 3, &[99; 8]);
    mesh.settle();
    let before: Vec<BrickSet> = mesh.peers.iter().map(|p| p.2.clone()).collect();
    mesh.moved = 0;
    mesh.join(99);
    mesh.settle();
    assert_eq!(mesh.moved, 216 * 3 / 9);
    assert!(before.iter().zip(&mesh.peers).all(|(b, p)| *b == p.2));
}

#[test]
fn who_leaves_or_dies_is_made_up_for_and_no_more() {
    let mut mesh = Mesh::new(6, 3, &[120; 8]);
    mesh.settle();
    mesh.moved = 0;
    mesh.peers[3].3 = true;
    mesh.settle();
    assert_eq!((mesh.moved, mesh.safety().endangered), (81, 0));
    mesh.peers.remove(3);
    mesh.moved = 0;
    assert_eq!(mesh.settle(), 0, "it was made up for before it went");
    let lost = mesh.peers.remove(0).2.len();
    mesh.settle();
    assert_eq!((mesh.moved, mesh.safety().endangered), (lost, 0));
}

#[test]
fn spare_copies_give_way_to_bricks_that_have_too_few() {
    // No room is left anywhere, and to one peer only what others have too is assigned.
    let mut mesh = Mesh::new(2, 2, &[4, 4, 4, 4]);
    mesh.settle();
    let bricks = mesh.peers[0].2.clone();
    mesh.peers[1].2 = bricks.clone();
    mesh.peers[2].2 = bricks;
    mesh.settle();
    let safety = mesh.safety();
    assert_eq!((safety.copies, safety.missing), (16, 0));
    assert_eq!(safety.copies_min, 2, "{safety:?}");
}

/// What peers take of eight bricks that all wanted once, by turns; each has said what is assigned to it and
/// holds.
fn assignments(peers: &[(&[u32], &[u32], u32)]) -> Vec<Vec<u32>> {
    assignments_of(peers, 1)
}

/// The same of eight bricks that are wanted so often.
fn assignments_of(peers: &[(&[u32], &[u32], u32)], redundancy: u32) -> Vec<Vec<u32>> {
    let grid = BrickGrid::new([16; 3], 8).unwrap();
    let mut first = FirstPlacement::new(grid, 7, None);
    let set = |bricks: &[u32]| {
        let mut set = BrickSet::new(8);
        for &b in bricks {
            assert!(set.insert(BrickIndex(b)));
        }
        set
    };
    let names: Vec<PeerId> = (0..peers.len())
        .map(|n| PeerId::new(&format!("peer-{n}")))
        .collect();
    let sets: Vec<_> = peers.iter().map(|(p, h, _)| (set(p), set(h))).collect();
    let members: Vec<Member<'_>> = (names.iter().zip(&sets).zip(peers))
        .map(|((peer, (assigned, held)), &(_, _, capacity))| Member {
            peer,
            capacity,
            assigned,
            held,
            leaving: false,
        })
        .collect();
    let demand = copies(redundancy);
    let next = |me| next_assignment(&mut first, &members, me, demand, &mut BTreeSet::new());
    let all: Vec<BrickSet> = (0..peers.len()).map(next).collect();
    let numbers = |s: &BrickSet| s.iter().map(|b| b.0).collect();
    all.iter().map(numbers).collect()
}

#[test]
fn a_brick_goes_to_one_that_has_it_in_memory_still() {
    let most = [0, 1, 2, 3, 4, 5, 6];
    for has in 0..3_usize {
        let mut peers = [(&most[..], &most[..], 8); 3];
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        peers[has].1 = &all;
        let next = assignments(&peers);
        let takers = (0..3).filter(|&n| next[n].contains(&7));
        assert_eq!(takers.collect::<Vec<_>>(), [has]);
    }
}

#[test]
fn what_is_not_there_yet_gives_way_first() {
    // Brick 0 is assigned by all and there at two of three, 7 by nobody.
    let shares: [&[u32]; 3] = [&[0, 1, 2], &[0, 3, 4], &[0, 5, 6]];
    for lacks in 0..3_usize {
        let mut peers = shares.map(|share| (share, share, 3));
        peers[lacks].1 = &shares[lacks][1..];
        let next = assignments(&peers);
        let takers = (0..3).filter(|&n| next[n].contains(&7));
        assert_eq!(takers.collect::<Vec<_>>(), [lacks]);
        assert!(!next[lacks].contains(&0));
    }
}

#[test]
fn of_two_spare_bricks_the_one_that_is_not_there_gives_way() {
    let (all, there) = ([0, 1, 2, 3], [0, 2, 3]);
    let other = [0, 1, 4, 5, 6];
    let next = assignments(&[(&all, &there, 4), (&other, &other, 5)]);
    assert_eq!(next, [vec![0, 2, 3, 7], other.to_vec()]);
}

#[test]
fn one_copy_of_each_comes_before_the_second_of_any() {
    // The room goes to bricks that nobody has, though three copies of each are wanted: the other one need not give way, and
    // may not have heard yet that it could.
    let (own, other) = ([0, 1], [2, 3]);
    let next = assignments_of(&[(&own, &own, 6), (&other, &other, 2)], 3);
    assert_eq!(next[0], [0, 1, 4, 5, 6, 7]);
}

#[test]
fn safety_counts_copies() {
    let set = |bricks: &[u32]| {
        let mut set = BrickSet::new(4);
        bricks.iter().for_each(|&b| {
            set.insert(BrickIndex(b));
        });
        set
    };
    let held = [set(&[0, 1, 2]), set(&[1, 2]), set(&[2])];
    let expected = Safety {
        copies_min: 0,
        copies: 6,
        endangered: 2,
        missing: 1,
        read: 0,
    };
    assert_eq!(Safety::of(4, &held, 2), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whoever_comes_and_goes_copies_are_restored_where_there_is_room(
        capacities in prop::collection::vec(0_u32..80, 2..9), redundancy in 1_u32..4, seed: u64,
    ) {
        let mut mesh = Mesh::new(3, redundancy, &capacities);
        mesh.settle();
        let mut draws = Seeded::new(seed);
        for _ in 0..6 {
            match draws.below(3) {
                0 => mesh.join(u32::try_from(draws.below(60)).unwrap()),
                1 if mesh.peers.len() > 1 => {
                    let gone = usize::try_from(draws.below(mesh.peers.len() as u64)).unwrap();
                    mesh.peers.remove(gone);
                }
                _ => {
                    let some = usize::try_from(draws.below(mesh.peers.len() as u64)).unwrap();
                    mesh.peers[some].3 = true;
                }
            }
            mesh.settle();
            let bricks = mesh.grid.brick_count();
            for (_, capacity, assigned, leaving) in &mesh.peers {
                prop_assert!(*leaving || assigned.len() <= *capacity);
            }
            let staying = mesh.peers.iter().filter(|p| !p.3);
            let capacity: u32 = staying.map(|p| p.1.min(bricks)).sum();
            let safety = mesh.safety();
            prop_assert!(capacity < redundancy * bricks || safety.endangered == 0, "{:?}", safety);
            prop_assert!(capacity < bricks || safety.missing == 0, "{:?}", safety);
        }
    }
}

#[test]
fn a_placement_is_remembered_for_its_capacities_only() {
    let mesh = Mesh::new(4, 2, &[40, 40, 40, 40]);
    let mut first = FirstPlacement::new(mesh.grid, 7, None);
    let twice = [vec![32; 4], vec![64, 32, 16, 16], vec![64, 32, 16, 16]];
    for capacities in twice {
        let fresh = place_at_once(&mesh.grid, &capacities, 7);
        assert_eq!(first.of(capacities), fresh);
    }
}

#[test]
fn a_parted_data_set_is_placed_by_its_parts_and_kept_up_as_any_other() {
    let grid = BrickGrid::new([64, 16, 16], 8).unwrap();
    let parting = Parting {
        method: PartitionMethod::KdTree,
        weights: vec![1; 32],
    };
    let peers: Vec<PeerId> = ["a", "b", "c", "d"].map(PeerId::new).to_vec();
    let none = BrickSet::new(32);
    let assigned = |held: &[BrickSet], capacity: u32, redundancy: u32| {
        let member = |(peer, assigned)| Member {
            peer,
            capacity,
            assigned,
            held: &none,
            leaving: false,
        };
        let members: Vec<Member<'_>> = peers.iter().zip(held).map(member).collect();
        let mut first = FirstPlacement::new(grid, 7, Some(parting.clone()));
        let demand = copies(redundancy);
        let next = |me| next_assignment(&mut first, &members, me, demand, &mut BTreeSet::new());
        (0..members.len()).map(next).collect::<Vec<BrickSet>>()
    };
    let silent = vec![none.clone(); 4];
    let one = assigned(&silent, 32, 1);
    for held in &one {
        assert_eq!(held.len(), 8);
        // A block of 2 x 2 x 2 bricks.
        let xs: BTreeSet<u32> = held.iter().map(|b| grid.coordinates(b)[0]).collect();
        assert_eq!(xs.len(), 2);
    }
    // Nothing moves once all have said what is theirs; two copies are two such partitions.
    assert_eq!(assigned(&one, 32, 1), one);
    let two = assigned(&silent, 32, 2);
    assert!(two.iter().all(|held| held.len() == 16));
    for brick in grid.bricks() {
        assert_eq!(two.iter().filter(|held| held.contains(brick)).count(), 2);
    }
    // Where there is not room for two, it is parted once; further copies are what there is room for.
    assert_eq!(assigned(&silent, 12, 2), one);
    let more = assigned(&one, 12, 2);
    assert!(
        one.iter()
            .zip(&more)
            .all(|(one, more)| more.len_without(one) == more.len() - one.len())
    );
    assert!(more.iter().map(BrickSet::len).sum::<u32>() > 32);
    // Where the parts do not fit, bricks are scattered as without them.
    let small = assigned(&silent, 7, 1);
    assert!(small.iter().all(|held| held.len() == 7));
}

#[test]
fn a_peer_whose_part_is_empty_is_not_waited_for() {
    let grid = BrickGrid::new([64, 8, 8], 8).unwrap();
    let mut weights = vec![10; 8];
    weights[0] = 90;
    let parting = Parting {
        method: PartitionMethod::KdTree,
        weights,
    };
    let peers: Vec<PeerId> = ["a", "b", "c", "d"].map(PeerId::new).to_vec();
    let none = BrickSet::new(8);
    let next = |held: &[BrickSet]| {
        let member = |((peer, capacity), assigned)| Member {
            peer,
            capacity,
            assigned,
            held: &none,
            leaving: false,
        };
        let members: Vec<Member<'_>> = (peers.iter().zip([4, 4, 4, 3]).zip(held))
            .map(member)
            .collect();
        let mut first = FirstPlacement::new(grid, 7, Some(parting.clone()));
        let next = |me| next_assignment(&mut first, &members, me, copies(2), &mut BTreeSet::new());
        (0..members.len()).map(next).collect::<Vec<BrickSet>>()
    };
    // Two copies do not fit in parts, and of one a part is empty.
    let one = next(&vec![none.clone(); 4]);
    let sizes: Vec<u32> = one.iter().map(BrickSet::len).collect();
    assert_eq!(sizes.iter().sum::<u32>(), 8);
    assert!(sizes.contains(&0), "{sizes:?}");
    let two = next(&one);
    assert!(two.iter().all(|held| !held.is_empty()), "{two:?}");
    assert!(
        two.iter().map(BrickSet::len).sum::<u32>() > 8 + 1,
        "{two:?}"
    );
}

const ROOM: u32 = 96;

/// 512 bricks, 8 peers, one copy of each.
fn parted_mesh() -> Mesh {
    let mut mesh = Mesh::new(8, 1, &[ROOM; 8]);
    mesh.settle();
    mesh
}

/// A ball of bricks, each with other work.
fn work_of_a_ball(mesh: &Mesh, draws: &mut Seeded) -> FrameWork {
    let middle: [u64; 3] = std::array::from_fn(|_| draws.below(8));
    let radius = 2 + draws.below(4);
    let of = |b| {
        let at = mesh.grid.coordinates(b).map(u64::from);
        let square: u64 = (0..3).map(|a| at[a].abs_diff(middle[a]).pow(2)).sum();
        u64::from(square <= radius * radius) * (1 + draws.below(100))
    };
    let speeds = mesh.peers.iter().map(|p| (p.0.clone(), SPEED_ONE));
    FrameWork {
        micros: mesh.grid.bricks().map(of).collect(),
        speeds: speeds.collect(),
    }
}

/// Busiest peer over the mean.
fn max_over_mean(mesh: &Mesh, work: &[u64]) -> f64 {
    let members = members(&mesh.peers);
    let sharers = Assignments::new(512, &members, copies(1), 7).sharers(work, &[SPEED_ONE; 8]);
    let loads = drift::loads(work, sharers.iter().map(|s| &s.renders));
    drift::max_over_mean(&loads, &[1; 8])
}

#[test]
fn copies_follow_the_work_of_frames_and_no_brick_is_lost() {
    let mut mesh = parted_mesh();
    let mut draws = Seeded::new(3);
    let (mut uneven, moved) = (0, mesh.moved);
    for _ in 0..40 {
        let work = work_of_a_ball(&mesh, &mut draws);
        uneven += usize::from(max_over_mean(&mesh, &work.micros) > 1.1);
        mesh.work = Some(work.clone());
        mesh.settle();
        assert!(mesh.copies().iter().all(|&c| c > 0));
        assert!(mesh.peers.iter().all(|p| p.2.len() <= ROOM));
        // Work of a few bricks cannot be shared any better.
        if 4 * 8 * work.micros.iter().max().unwrap() < work.micros.iter().sum::<u64>() {
            let after = max_over_mean(&mesh, &work.micros);
            assert!(after <= 1.1, "{after}");
        }
    }
    assert!(uneven > 20, "{uneven}");
    // Of 40 times 512 bricks.
    let moved = mesh.moved - moved;
    assert!((1..2048).contains(&moved), "{moved}");
}

#[test]
fn copies_for_work_stay_assigned_until_they_are_there() {
    let mut draws = Seeded::new(5);
    // Of the bricks under way, one of so many arrives after each decision; 0: none.
    for arriving in [0, 1, 4, 30] {
        let mut mesh = parted_mesh();
        let held = || mesh.peers.iter().map(|p| p.2.clone()).collect();
        mesh.held = Some(held());
        let (mut taken, mut withdrawn) = (0, 0);
        for _ in 0..10 {
            let work = work_of_a_ball(&mesh, &mut draws);
            let mut quiet = 0;
            for step in 0.. {
                // Peers decide one after the other; now and then somebody turns the camera.
                let me = step % 8;
                mesh.work = (draws.below(4) > 0).then(|| work.clone());
                let next = mesh.next(me);
                let held = &mesh.held.as_ref().unwrap()[me];
                let before = &mesh.peers[me].2;
                let under_way = before.iter().filter(|&b| !held.contains(b));
                withdrawn += under_way.filter(|&b| !next.contains(b)).count();
                taken += next.len_without(before);
                quiet = if *before == next { quiet + 1 } else { 0 };
                mesh.peers[me].2 = next;
                for (peer, held) in mesh.peers.iter().zip(mesh.held.as_mut().unwrap()) {
                    for brick in peer.2.iter() {
                        if arriving > 0 && draws.below(arriving) == 0 {
                            held.insert(brick);
                        }
                    }
                }
                if quiet > 40 {
                    break;
                }
                assert!(step < 1000, "assignments do not settle");
            }
            assert!(mesh.copies().iter().all(|&c| c > 0));
        }
        assert!(taken > 40, "{taken}");
        // Where the next work needs the room.
        assert!(50 * withdrawn <= taken as usize, "{withdrawn} of {taken}");
    }
}

#[test]
fn what_frames_need_comes_first_where_memory_is_short() {
    for (redundancy, needed) in [(1, 100), (2, 55), (1, 300), (3, 20)] {
        let mut mesh = Mesh::new(8, redundancy, &[40, 30, 0, 50]);
        mesh.settle();
        let mut draws = Seeded::new(u64::from(needed));
        for _ in 0..3 {
            let mut seen = BrickSet::new(512);
            while seen.len() < needed {
                seen.insert(BrickIndex(draws.below(512).try_into().unwrap()));
            }
            let before: Vec<BrickSet> = mesh.peers.iter().map(|p| p.2.clone()).collect();
            mesh.seen = Some(seen.clone());
            mesh.moved = 0;
            mesh.settle();
            for (peer, before) in mesh.peers.iter().zip(before) {
                let (assigned, seen) = (&peer.2, &seen);
                assert_eq!(assigned.len(), peer.1, "all room is used");
                let unseen_stays = before
                    .iter()
                    .any(|b| !seen.contains(b) && assigned.contains(b));
                let new_unseen = assigned
                    .iter()
                    .any(|b| !seen.contains(b) && !before.contains(b));
                assert!(!new_unseen, "nothing moves that nobody needs");
                assert!(!unseen_stays || needed * redundancy < 120);
            }
            let copies = mesh.copies();
            let of_seen: Vec<usize> = seen.iter().map(|b| copies[b.0 as usize]).collect();
            let wanted = (needed * redundancy).min(120) as usize;
            // Whoever has places left may have the brick already.
            assert!(10 * of_seen.iter().sum::<usize>() >= 9 * wanted);
            assert!(needed > 120 || of_seen.iter().all(|&copies| copies > 0));
            assert!(of_seen.iter().all(|&copies| copies <= redundancy as usize));
            assert!(mesh.moved <= needed * redundancy);
        }
        // A newcomer takes no more copies of them than are wanted.
        mesh.join(30);
        mesh.settle();
        let copies = mesh.copies();
        assert!(copies.iter().all(|&copies| copies <= redundancy as usize));
        // What is not looked at any more stays.
        mesh.moved = 0;
        mesh.seen = None;
        mesh.settle();
        assert!(mesh.moved == 0 || redundancy > 1, "{}", mesh.moved);
    }
}

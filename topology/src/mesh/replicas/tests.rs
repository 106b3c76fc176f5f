mod stuck;

use super::{
    drops::{STUCK_MICROS, UNASSIGNED_MICROS},
    own_assignment::{ASKED_MICROS, MEETING_MICROS, WANTING_MICROS},
    *,
};
use crate::mesh::transfers::{BrickName, DOWNLOAD_MICROS, Downloads, REFUSED_MICROS, Urgency};
use std::ops::{Deref, DerefMut};

const MS: u64 = 1_000;

fn peer(n: usize) -> PeerId {
    PeerId::new(&format!("peer-{n}"))
}

fn grid() -> BrickGrid {
    BrickGrid::new([32; 3], 8).unwrap()
}

/// What a peer knows of a data set, and what is on its way to it.
#[derive(Clone)]
struct Peer {
    replicas: Replicas,
    downloads: Downloads,
}

impl Deref for Peer {
    type Target = Replicas;

    fn deref(&self) -> &Replicas {
        &self.replicas
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut Replicas {
        &mut self.replicas
    }
}

fn name(brick: BrickIndex) -> BrickName {
    (Digest::of(b"data"), brick)
}

impl Peer {
    fn keep_up(&mut self, now: u64) -> bool {
        let downloads = &self.downloads;
        self.replicas.keep_up(now, |b| downloads.is_open(name(b)))
    }

    fn take_back(&mut self, now: u64) -> bool {
        let downloads = &self.downloads;
        self.replicas.take_back(now, |b| downloads.is_open(name(b)))
    }

    fn has_place(&self, unfreed: usize) -> bool {
        self.has_room(self.downloads.count() + unfreed)
    }

    fn queue(&self) -> Vec<BrickName> {
        let all = [(Digest::of(b"data"), &self.replicas, false)];
        self.downloads.queue(&all)
    }

    fn most_urgent(&self) -> Option<Urgency> {
        let first = self.queue().first().copied();
        first.map(|n| self.downloads.urgency(n, &self.replicas))
    }

    /// The next brick to get, which is on its way from now on.
    fn next_download(&mut self, now: u64, unfreed: usize) -> Option<(BrickIndex, Origin)> {
        let mut queue = self.queue().into_iter().filter(|_| self.has_place(unfreed));
        let origin = |n| self.downloads.origin(n, &self.replicas).map(|o| (n, o));
        let (next, origin) = queue.find_map(origin)?;
        self.downloads.begin(next, &origin, now);
        Some((next.1, origin))
    }

    fn arrived(
        &mut self,
        brick: BrickIndex,
        from: &PeerId,
        now: u64,
        unfreed: usize,
    ) -> Option<u64> {
        let (is_wanted, has_place) = (self.is_wanted(brick), self.has_place(unfreed));
        (self.downloads).arrived(name(brick), from, now, is_wanted, has_place)
    }

    fn loaded(&mut self, brick: BrickIndex, now: u64) -> Option<u64> {
        self.replicas.loaded(brick);
        self.downloads.loaded(name(brick), now)
    }

    fn failed(&mut self, brick: BrickIndex, now: u64) {
        self.downloads.failed(name(brick), now);
    }

    fn does_not_fit(&mut self, brick: BrickIndex) {
        self.downloads.end(name(brick));
        self.replicas.does_not_fit(brick, 0);
    }

    fn expire(&mut self, now: u64) {
        self.downloads.expire(now);
    }

    fn suspect(&mut self, peer: &PeerId) {
        self.replicas.suspect(peer);
        self.downloads.unreachable(peer);
    }

    fn forget(&mut self, peer: &PeerId) {
        self.replicas.forget(peer);
        self.downloads.forget(peer);
    }
}

fn holding(n: usize, capacity: u32) -> Peer {
    Peer {
        replicas: Replicas::new(peer(n), grid(), 2, capacity, Digest::of(b"data"), None),
        downloads: Downloads::new(&peer(n)),
    }
}

/// What one who holds every brick says.
fn of_one_with_all() -> Announcement {
    Announcement {
        held: BrickSet::all(64),
        assigned: BrickSet::all(64),
        ..Announcement::expected(64, 64)
    }
}

/// Peers that hear each other's announcements and get bricks at once.
struct Mesh {
    peers: Vec<Peer>,
    moved: usize,
    now: u64,
}

impl Mesh {
    fn new(capacities: &[u32]) -> Self {
        let mut peers: Vec<Peer> = (0..).zip(capacities).map(|(n, &r)| holding(n, r)).collect();
        peers[0].has_source();
        peers[0].set_in_use(true);
        Self {
            peers,
            moved: 0,
            now: 0,
        }
    }

    fn talk(&mut self) {
        let said: Vec<(PeerId, Announcement)> = self
            .peers
            .iter()
            .map(|p| (p.local.clone(), p.announcement().clone()))
            .collect();
        for p in &mut self.peers {
            let local = p.local.clone();
            for (from, a) in said.iter().filter(|(from, _)| *from != local) {
                assert!(p.heard(from, a.clone(), self.now));
            }
        }
    }

    /// Rounds of announcements and fetches until nothing moves.
    fn settle(&mut self) {
        for _ in 0..99 {
            self.talk();
            let mut quiet = true;
            for n in 0..self.peers.len() {
                quiet &= !self.peers[n].keep_up(self.now);
                for brick in self.peers[n].droppable(self.now) {
                    self.peers[n].dropped(brick);
                    quiet = false;
                }
                while let Some((brick, origin)) = self.peers[n].next_download(self.now, 0) {
                    if let Origin::Peer(from) = origin {
                        self.moved += 1;
                        assert!(self.peers[n].arrived(brick, &from, self.now, 0).is_some());
                    }
                    self.peers[n].loaded(brick, self.now);
                    quiet = false;
                }
            }
            if quiet {
                return;
            }
        }
        panic!("the mesh does not settle");
    }

    fn remove(&mut self, n: usize) -> Peer {
        let gone = self.peers.remove(n);
        self.peers.iter_mut().for_each(|p| p.forget(&gone.local));
        gone
    }
}

#[test]
fn a_mesh_holds_two_copies_of_all_and_a_newcomer_moves_its_share_alone() {
    let mut mesh = Mesh::new(&[64; 4]);
    mesh.settle();
    assert!(mesh.peers.iter().all(|p| p.announcement().settled));
    assert_eq!(mesh.peers[1].safety().endangered, 0);
    assert_eq!(mesh.moved, 3 * 32);
    mesh.moved = 0;
    mesh.peers.push(holding(4, 64));
    mesh.peers[4].comes_late(0);
    mesh.settle();
    assert_eq!(mesh.moved, 0, "it may meet others yet");
    mesh.now += MEETING_MICROS;
    mesh.settle();
    assert_eq!(mesh.moved, 128 / 5);
}

#[test]
fn who_leaves_waits_until_others_hold_what_only_it_held() {
    let mut mesh = Mesh::new(&[64; 4]);
    mesh.settle();
    mesh.moved = 0;
    // Of each brick of peer 3 there is one more copy.
    let held = mesh.peers[3].announcement().held.len() as usize;
    mesh.peers[3].leave();
    assert!(!mesh.peers[3].is_handed_over(), "nobody knows it yet");
    mesh.talk();
    mesh.talk();
    assert!(
        mesh.peers[3].is_handed_over(),
        "every brick has another copy"
    );
    mesh.settle();
    assert_eq!(mesh.moved, held - held_by_source(&mesh, held));
    mesh.remove(3);
    mesh.moved = 0;
    mesh.settle();
    assert_eq!((mesh.moved, mesh.peers[1].safety().endangered), (0, 0));
    // Alone with some bricks: it must stay until they are elsewhere.
    let others = mesh.remove(1).announcement().held.clone();
    mesh.peers[1].leave();
    mesh.talk();
    let alone = mesh.peers[1].announcement().held.iter();
    let alone = alone.filter(|&b| !mesh.peers[0].announcement().held.contains(b));
    assert_eq!(alone.count() == 0, mesh.peers[1].is_handed_over());
    assert!(!others.is_empty());
    mesh.settle();
    assert!(mesh.peers[1].is_handed_over());
}

#[test]
fn who_leaves_does_not_wait_where_the_others_are_full() {
    for (memory, left) in [([16; 4], 48), ([20, 16, 16, 16], 52)] {
        let mut mesh = Mesh::new(&memory);
        mesh.settle();
        mesh.peers[3].leave();
        mesh.talk();
        // Where there is room, it is used first.
        assert_eq!(mesh.peers[3].is_handed_over(), left == 48);
        mesh.settle();
        mesh.now += UNASSIGNED_MICROS;
        mesh.settle();
        assert!(mesh.peers[3].is_handed_over());
        assert_eq!(mesh.peers[3].left_behind(), 0, "the source stays");
        mesh.remove(3);
        assert_eq!(mesh.peers[0].safety().missing, 64 - left);
    }
    let mut mesh = Mesh::new(&[16; 4]);
    mesh.settle();
    mesh.peers[0].leave();
    mesh.settle();
    assert!(mesh.peers[0].is_handed_over());
    assert_eq!(mesh.peers[0].left_behind(), 64 - 48);
    // A full one that holds what another one holds takes what none has instead.
    let full = Announcement {
        settled: true,
        ..of_one_with_all()
    };
    assert!(are_full([&full].into_iter()) && !are_full([&full; 2].into_iter()));
}

/// Copies that the peer with the source made without anybody's help.
fn held_by_source(mesh: &Mesh, lost: usize) -> usize {
    let copies: u64 = mesh.peers[..3]
        .iter()
        .map(|p| u64::from(p.announcement().held.len()))
        .sum();
    assert_eq!(copies, 128);
    lost - mesh.moved
}

#[test]
fn a_refused_or_late_brick_is_asked_for_elsewhere() {
    let mut a = holding(0, 64);
    let all = of_one_with_all();
    for n in 1..3 {
        assert!(a.heard(&peer(n), all.clone(), 0));
    }
    assert!(!a.keep_up(0), "nobody needs it");
    a.set_in_use(true);
    assert!(a.keep_up(0));
    let (brick, Origin::Peer(first)) = a.next_download(0, 0).unwrap() else {
        panic!("no source")
    };
    assert!(a.next_download(0, 0).is_some());
    assert!(a.arrived(brick, &PeerId::new("stranger"), 0, 0).is_none());
    assert!(a.arrived(brick, &first, 0, 0).is_some());
    a.failed(brick, 0);
    a.expire(REFUSED_MICROS);
    let mut again = Vec::new();
    while let Some((b, Origin::Peer(from))) = a.next_download(REFUSED_MICROS, 0) {
        again.push((b, from));
    }
    let (_, second) = again.iter().find(|(b, _)| *b == brick).unwrap();
    assert_ne!(*second, first);
    // Whoever is asked and gone, or silent for too long, is not waited for.
    a.forget(second);
    while a.next_download(REFUSED_MICROS, 0).is_some() {}
    a.expire(REFUSED_MICROS + DOWNLOAD_MICROS);
    assert_eq!(a.downloads.len(), 1, "asked for again, it may take longer");
    a.expire(REFUSED_MICROS + 4 * DOWNLOAD_MICROS);
    assert_eq!(a.downloads.len(), 0);
}

#[test]
fn a_download_tells_how_long_it_took() {
    let mut a = holding(0, 64);
    a.has_source();
    a.set_in_use(true);
    assert!(a.keep_up(0));
    let (brick, _) = a.next_download(MS, 0).unwrap();
    assert_eq!(a.loaded(brick, 11 * MS), Some(10 * MS), "read here");
    let (mut b, of_a) = (holding(1, 64), a.announcement().clone());
    assert!(b.heard(&peer(0), of_a, 0));
    assert!(b.keep_up(0));
    let (brick, _) = b.next_download(MS, 0).unwrap();
    assert_eq!(b.arrived(brick, &peer(0), 4 * MS, 0), Some(3 * MS));
    assert_eq!(b.loaded(brick, 9 * MS), None, "it was not read here");
}

#[test]
fn what_comes_late_is_taken_and_what_does_not_come_keeps_nothing_else_waiting() {
    let mut a = holding(0, 64);
    let all = Announcement {
        in_use: true,
        ..of_one_with_all()
    };
    assert!(a.heard(&peer(1), all, 0));
    assert!(a.keep_up(0));
    let (first, _) = a.next_download(0, 0).unwrap();
    a.expire(DOWNLOAD_MICROS);
    let (second, _) = a.next_download(DOWNLOAD_MICROS, 0).unwrap();
    assert_ne!(second, first, "it is the last to be tried again");
    assert_eq!(a.arrived(first, &peer(2), DOWNLOAD_MICROS, 0), None);
    assert_eq!(a.arrived(first, &peer(1), DOWNLOAD_MICROS, 0), Some(0));
    assert_eq!(
        a.arrived(first, &peer(1), DOWNLOAD_MICROS, 0),
        None,
        "twice"
    );
    a.loaded(first, DOWNLOAD_MICROS);
    // Where there is no room for it any more, it is not taken.
    a.expire(2 * DOWNLOAD_MICROS);
    a.set_room(1, 0, 0);
    assert_eq!(a.arrived(second, &peer(1), 2 * DOWNLOAD_MICROS, 0), None);
}

#[test]
fn the_scarcest_keeps_its_place_where_it_was_not_for_the_brick_that_it_did_not_come() {
    let mut a = holding(0, 64);
    let x = BrickIndex(40);
    let used = Announcement {
        in_use: true,
        ..of_one_with_all()
    };
    let mut of_all_but_x = used.clone();
    (of_all_but_x.source, of_all_but_x.held) = (false, BrickSet::all(64));
    let all = of_all_but_x.clone();
    of_all_but_x.held.remove(x);
    assert!(a.heard(&peer(1), all, 0));
    assert!(a.heard(&peer(2), of_all_but_x, 0));
    assert!(a.keep_up(0));
    a.own.assigned = BrickSet::all(64);
    assert_eq!(a.next_download(0, 0).unwrap().0, x);
    a.suspect(&peer(1));
    a.trust(&peer(1));
    assert_eq!(a.next_download(0, 0).unwrap().0, x);
    // Who does not give it is asked for it after what others give.
    a.expire(DOWNLOAD_MICROS);
    assert_ne!(a.next_download(DOWNLOAD_MICROS, 0).unwrap().0, x);
}

#[test]
fn what_cannot_be_read_here_is_asked_for_elsewhere_and_now_and_then_read() {
    let mut a = holding(0, 64);
    a.has_source();
    a.set_in_use(true);
    assert!(a.heard(&peer(1), of_one_with_all(), 0));
    assert!(a.keep_up(0));
    let (brick, origin) = a.next_download(0, 0).unwrap();
    assert_eq!(origin, Origin::Source);
    let urgency = a.most_urgent().unwrap();
    a.failed(brick, 0);
    let next: Vec<_> = std::iter::from_fn(|| a.next_download(0, 0)).collect();
    let is_read = |(b, o): &(BrickIndex, Origin)| {
        assert_eq!(*o == Origin::Source, b.0.is_multiple_of(8), "{b:?}");
        *o == Origin::Source
    };
    let read = next.iter().filter(|n| is_read(n)).count();
    assert!(read > 0 && read < next.len());
    // Of nobody else: then it is read, after what others have, of other data sets too.
    let mut alone = holding(0, 64);
    alone.has_source();
    alone.set_in_use(true);
    assert!(alone.keep_up(0));
    let (brick, _) = alone.next_download(0, 0).unwrap();
    let before = alone.most_urgent().unwrap();
    alone.failed(brick, 0);
    assert_eq!(alone.next_download(0, 0).unwrap().1, Origin::Source);
    assert!(alone.most_urgent().unwrap() > urgency.max(before));
    alone.downloads.device_is_back();
    assert_eq!(alone.most_urgent().unwrap(), before);
}

#[test]
fn a_refusal_that_comes_late_ends_nothing_that_another_was_asked_for() {
    let mut a = holding(0, 64);
    for n in 1..3 {
        let all = of_one_with_all();
        assert!(a.heard(&peer(n), all, 0));
    }
    a.set_in_use(true);
    assert!(a.keep_up(0));
    a.own.assigned = BrickSet::new(64);
    let brick = BrickIndex(5);
    a.own.assigned.insert(brick);
    let (_, Origin::Peer(first)) = a.next_download(0, 0).unwrap() else {
        panic!("no source")
    };
    a.expire(DOWNLOAD_MICROS);
    let (_, Origin::Peer(second)) = a.next_download(DOWNLOAD_MICROS, 0).unwrap() else {
        panic!("no source")
    };
    assert_ne!(first, second);
    a.downloads.refused(name(brick), &first, DOWNLOAD_MICROS);
    assert_eq!(a.downloads.count(), 1);
    assert_eq!(a.arrived(brick, &first, DOWNLOAD_MICROS, 0), None);
    a.downloads.refused(name(brick), &second, DOWNLOAD_MICROS);
    assert_eq!(a.downloads.count(), 0);
}

#[test]
fn what_comes_late_and_waits_to_be_asked_for_again_has_no_place_of_its_own() {
    let mut a = holding(0, 2);
    let all = Announcement {
        in_use: true,
        ..of_one_with_all()
    };
    assert!(a.heard(&peer(1), all, 0));
    assert!(a.keep_up(0));
    let [(held, _), (late, _)] = [
        a.next_download(0, 0).unwrap(),
        a.next_download(0, 0).unwrap(),
    ];
    assert!(a.arrived(held, &peer(1), 0, 0).is_some());
    a.loaded(held, 0);
    a.expire(DOWNLOAD_MICROS);
    assert_eq!(a.next_download(DOWNLOAD_MICROS, 0).unwrap().0, late);
    a.failed(late, DOWNLOAD_MICROS);
    let come = |mut a: Peer, unfreed| a.arrived(late, &peer(1), DOWNLOAD_MICROS, unfreed);
    assert_eq!(come(a.clone(), 0), Some(0));
    assert_eq!(come(a, 1), None, "a brick that was dropped takes its place");
}

#[test]
fn a_device_that_is_full_holds_less_and_says_so() {
    let mut a = holding(0, 64);
    a.has_source();
    a.set_in_use(true);
    a.keep_up(0);
    let (first, _) = a.next_download(0, 0).unwrap();
    a.loaded(first, 0);
    let (second, _) = a.next_download(0, 0).unwrap();
    a.does_not_fit(second);
    a.keep_up(0);
    assert_eq!(a.announcement().capacity, 1);
    assert!(a.announcement().settled);
    assert!(a.next_download(0, 0).is_none());
    a.memory_was_freed();
    a.set_room(64, 0, 0);
    assert!(a.keep_up(0));
    assert!(a.next_download(0, 63).is_none(), "not freed yet");
    assert!(a.next_download(0, 62).is_some());
}

#[test]
fn a_brick_that_does_not_fit_may_be_heard_of_before_those_that_do() {
    let mut a = holding(0, 64);
    a.has_source();
    a.set_in_use(true);
    a.keep_up(0);
    let under_way: Vec<BrickIndex> =
        std::iter::from_fn(|| a.next_download(0, 0).map(|(b, _)| b)).collect();
    a.does_not_fit(under_way[3]);
    for &brick in &under_way[..3] {
        a.loaded(brick, 0);
    }
    a.keep_up(0);
    let says = a.announcement();
    assert_eq!((says.held.len(), says.capacity), (3, 3));
}

#[test]
fn an_announcement_of_another_grid_is_refused() {
    let mut a = holding(0, 8);
    let mut wrong = a.announcement().clone();
    wrong.held = BrickSet::all(65);
    assert!(!a.heard(&peer(1), wrong, 0));
    assert!(a.others().is_empty());
}

#[test]
fn of_two_that_leave_at_once_neither_relies_on_the_other() {
    let mut mesh = Mesh::new(&[64; 4]);
    mesh.settle();
    // Not even where each hears of the other's leaving only after it decided to leave itself.
    mesh.peers[2].leave();
    mesh.peers[3].leave();
    assert!(!mesh.peers[2].is_handed_over() && !mesh.peers[3].is_handed_over());
    let both = |b: &BrickIndex| {
        let holds = |n: usize| mesh.peers[n].announcement().held.contains(*b);
        (holds(2) && holds(3)) && !holds(0) && !holds(1)
    };
    let shared: Vec<BrickIndex> = (0..64).map(BrickIndex).filter(both).collect();
    assert!(!shared.is_empty(), "nothing to lose");
    mesh.talk();
    mesh.talk();
    assert!(!mesh.peers[2].is_handed_over() && !mesh.peers[3].is_handed_over());
    mesh.settle();
    assert!(mesh.peers[2].is_handed_over() && mesh.peers[3].is_handed_over());
    mesh.remove(3);
    mesh.remove(2);
    assert_eq!(mesh.peers[0].safety().missing, 0);
}

#[test]
fn who_leaves_waits_for_those_who_are_silent_for_a_moment() {
    let mut mesh = Mesh::new(&[64; 2]);
    mesh.settle();
    let last_copy = BrickIndex(7);
    mesh.peers[0].dropped(last_copy);
    mesh.talk();
    mesh.peers[1].suspect(&peer(0));
    mesh.peers[1].leave();
    assert!(!mesh.peers[1].is_handed_over(), "it may be heard again");
    mesh.peers[1].trust(&peer(0));
    mesh.settle();
    assert!(mesh.peers[0].announcement().held.contains(last_copy));
    assert!(mesh.peers[1].is_handed_over());
    // Nobody is left whom to wait for.
    mesh.peers[1].forget(&peer(0));
    assert!(mesh.peers[1].is_handed_over());
}

#[test]
fn who_comes_back_after_it_was_about_to_leave_is_no_leaver() {
    let (mut a, mut b) = (holding(0, 64), holding(1, 64));
    b.leave();
    assert!(a.heard(&peer(1), b.announcement().clone(), 0));
    assert!(a.announcement().leavers.contains(&peer(1)));
    let again = holding(1, 64);
    assert!(a.heard(&peer(1), again.announcement().clone(), 0));
    assert!(!a.announcement().leavers.contains(&peer(1)));
}

#[test]
fn who_claims_room_and_takes_nothing_is_not_waited_for() {
    let mut mesh = Mesh::new(&[64; 3]);
    // Half of the copies would be the liar's.
    let liar = Announcement::expected(64, 1_000_000);
    for p in &mut mesh.peers {
        assert!(p.heard(&peer(9), liar.clone(), 0));
    }
    mesh.settle();
    assert!(mesh.peers[0].safety().endangered > 0);
    mesh.now = 2 * WANTING_MICROS;
    mesh.settle();
    assert_eq!(mesh.peers[0].safety().endangered, 0);
}

#[test]
fn who_is_full_and_gives_nothing_up_for_what_nobody_has_is_not_waited_for() {
    let set = |bricks: std::ops::Range<u32>| {
        let mut set = BrickSet::new(64);
        bricks.for_each(|b| assert!(set.insert(BrickIndex(b))));
        set
    };
    let mut one = holding(0, 40);
    one.redundancy = 1;
    one.has_source();
    one.set_in_use(true);
    one.own.assigned = set(0..40);
    one.own.held = set(0..40);
    // Twenty bricks are held twice, and six by nobody.
    let stubborn = Announcement {
        assigned: set(20..58),
        held: set(20..58),
        ..Announcement::expected(64, 38)
    };
    assert!(one.heard(&peer(9), stubborn, 0));
    one.keep_up(1);
    let taken = |p: &Peer| {
        (58..64)
            .filter(|&b| p.own.assigned.contains(BrickIndex(b)))
            .count()
    };
    assert!(taken(&one) < 6, "the other one is relied on");
    one.keep_up(3 * WANTING_MICROS);
    assert_eq!(taken(&one), 6);
    assert_eq!(one.own.assigned.len(), 40);
    assert!(
        (0..20).all(|b| one.own.assigned.contains(BrickIndex(b))),
        "the only copies"
    );
}

#[test]
fn copies_of_what_nobody_needs_now_are_made_again_by_those_who_hold_some() {
    let mut mesh = Mesh::new(&[64; 4]);
    mesh.settle();
    mesh.peers[0].set_in_use(false);
    mesh.peers[0].own.source = false;
    mesh.peers.push(holding(4, 64));
    mesh.settle();
    mesh.remove(3);
    mesh.settle();
    assert_eq!(mesh.peers[0].safety().endangered, 0);
    assert!(
        mesh.peers[3].announcement().held.is_empty(),
        "not a newcomer"
    );
}

#[test]
fn the_most_copies_that_anybody_wants_are_made() {
    let mut mesh = Mesh::new(&[64; 4]);
    mesh.settle();
    mesh.peers[1].raise_redundancy(3);
    mesh.peers[2].raise_redundancy(1);
    for p in &mut mesh.peers {
        p.raise_redundancy(3);
    }
    mesh.settle();
    assert_eq!(mesh.peers[2].safety().copies_min, 3);
    mesh.peers[2].raise_redundancy(u32::MAX);
    assert_eq!(mesh.peers[2].redundancy(), REDUNDANCY_MAX);
}

#[test]
fn a_suspect_is_asked_for_what_nobody_else_has_alone() {
    let mut a = holding(0, 64);
    let all = Announcement {
        in_use: true,
        ..of_one_with_all()
    };
    for n in 1..3 {
        assert!(a.heard(&peer(n), all.clone(), 0));
    }
    a.keep_up(0);
    let assigned = a.announcement().assigned.len() as usize;
    assert!(assigned > 0);
    while a.next_download(0, 0).is_some() {}
    a.suspect(&peer(1));
    let asked = |a: &Peer| a.downloads.asked_peers().cloned().collect::<Vec<_>>();
    assert!(asked(&a).iter().all(|p| *p == peer(2)));
    while a.next_download(0, 0).is_some() {}
    assert_eq!(asked(&a), vec![peer(2); assigned]);
    a.forget(&peer(2));
    while a.next_download(0, 0).is_some() {}
    assert_eq!(asked(&a), vec![peer(1); assigned]);
}

#[test]
fn a_brick_that_nobody_holds_is_not_waited_for() {
    let mut a = holding(0, 64);
    let mut half = Announcement::expected(64, 64);
    half.in_use = true;
    (0..32).for_each(|b| {
        half.held.insert(BrickIndex(b));
    });
    assert!(a.heard(&peer(1), half.clone(), 0));
    a.keep_up(0);
    assert!(!a.announcement().settled);
    while let Some((brick, Origin::Peer(from))) = a.next_download(0, 0) {
        assert!(a.arrived(brick, &from, 0, 0).is_some());
        a.loaded(brick, 0);
    }
    assert!(a.announcement().settled, "all that anybody could give");
    half.source = true;
    assert!(a.heard(&peer(1), half, 0));
    assert!(a.keep_up(0) && !a.announcement().settled);
}

#[test]
fn whoever_gives_damaged_bricks_or_none_is_asked_after_the_others() {
    let mut a = holding(0, 64);
    let all = of_one_with_all();
    for n in 1..4 {
        assert!(a.heard(&peer(n), all.clone(), 0));
    }
    a.set_in_use(true);
    a.keep_up(0);
    let (mut now, mut asked) = (0, BTreeMap::<PeerId, usize>::new());
    while !a.announcement().settled {
        now += REFUSED_MICROS;
        a.expire(now);
        while let Some((brick, Origin::Peer(from))) = a.next_download(now, 0) {
            *asked.entry(from.clone()).or_default() += 1;
            if from == peer(1) {
                // Damaged.
                assert!(a.arrived(brick, &from, now, 0).is_some());
                a.failed(brick, now);
            } else if from == peer(2) {
                // It never comes.
                now += DOWNLOAD_MICROS << 5;
                a.expire(now);
            } else {
                assert!(a.arrived(brick, &from, now, 0).is_some());
                a.loaded(brick, now);
            }
        }
    }
    assert!(asked[&peer(1)] <= 2 && asked[&peer(2)] <= 2, "{asked:?}");
    assert!(asked[&peer(3)] >= 30);
    // One that went and came is tried as if nothing had been.
    a.forget(&peer(1));
    assert_eq!(a.downloads.failures_of(&peer(1)), 0);
}

#[test]
fn a_newcomer_that_meets_the_others_one_by_one_takes_no_more_than_its_share() {
    let mut mesh = Mesh::new(&[64; 4]);
    mesh.settle();
    let mut newcomer = holding(4, 64);
    newcomer.comes_late(0);
    let mut now = 0;
    for p in &mesh.peers {
        now += MEETING_MICROS - 1;
        assert!(newcomer.heard(&p.local, p.announcement().clone(), now));
        newcomer.keep_up(now);
        assert!(newcomer.announcement().assigned.is_empty());
    }
    assert!(newcomer.keep_up(now + MEETING_MICROS));
    assert_eq!(newcomer.announcement().assigned.len(), 128 / 5);
}

#[test]
fn peers_that_give_a_brick_up_at_once_do_not_lose_it() {
    let brick = BrickIndex(7);
    let with = |assigned: bool| {
        let mut a = Announcement::expected(64, 8);
        a.held.insert(brick);
        if assigned {
            a.assigned.insert(brick);
        }
        a
    };
    let mut peers: Vec<Peer> = (0..3).map(|n| holding(n, 8)).collect();
    for (n, p) in peers.iter_mut().enumerate() {
        // Each has given it up, and knows of the others only that they hold it and that it is assigned to them.
        p.own = with(false);
        for other in (0..3).filter(|&o| o != n) {
            assert!(p.heard(&peer(other), with(true), 0));
        }
        assert_eq!(p.droppable(0), [], "the others may give it up too");
    }
    for (n, p) in peers.iter_mut().enumerate() {
        for other in (0..3).filter(|&o| o != n) {
            assert!(p.heard(&peer(other), with(false), 2_000 * MS));
        }
        assert_eq!(p.droppable(60_000 * MS), [], "and they did");
        assert!(p.heard(&peer(9), with(true), 61_000 * MS));
        p.suspect(&peer(9));
        assert_eq!(p.droppable(62_000 * MS), [], "it may be dead");
        p.trust(&peer(9));
        assert_eq!(
            p.droppable(62_000 * MS),
            [brick],
            "somebody goes on holding it"
        );
        p.dropped(brick);
        p.kept(brick);
        assert!(p.announcement().held.contains(brick));
    }
}

#[test]
fn full_peers_do_not_wait_for_each_other_for_ever() {
    // It holds 0 and 1, is assigned 2 and 3, has room for two; others took over 0 once, 1 twice of
    // thrice.
    let mut a = holding(0, 2);
    let set = |bricks: &[u32]| {
        let mut set = BrickSet::new(64);
        bricks
            .iter()
            .for_each(|&b| assert!(set.insert(BrickIndex(b))));
        set
    };
    a.redundancy = 3;
    (a.own.held, a.own.assigned) = (set(&[0, 1]), set(&[2, 3]));
    for (n, held) in [(1, &[1, 2][..]), (2, &[1, 2]), (3, &[2])] {
        let other = Announcement {
            held: set(held),
            assigned: set(&[0, 1, 2]),
            ..Announcement::expected(64, 3)
        };
        assert!(a.heard(&peer(n), other, 0));
    }
    assert_eq!(a.droppable(0), []);
    // 3 cannot be had, so one place is enough; nobody else holds 0.
    assert_eq!(a.droppable(UNASSIGNED_MICROS), [BrickIndex(1)]);
    a.dropped(BrickIndex(1));
    assert_eq!(a.droppable(2 * UNASSIGNED_MICROS), []);
    a.own.capacity = 4;
    a.own.held.insert(BrickIndex(1));
    assert_eq!(
        a.droppable(3 * UNASSIGNED_MICROS),
        [],
        "there is room for all"
    );
}

#[test]
fn what_frames_ask_is_kept_of_those_that_asked_last() {
    let work = Arc::new(FrameWork {
        micros: vec![1; 64],
        speeds: BTreeMap::new(),
    });
    let mut one = Replicas::new(peer(0), grid(), 1, 64, Digest::of(b"data"), None);
    for n in 1..=ASKED_MAX + 3 {
        one.asked(&peer(n), Arc::clone(&work), n as u64);
    }
    assert_eq!(one.asked.len(), ASKED_MAX);
    assert!(!one.asked.contains_key(&peer(3)) && one.asked.contains_key(&peer(4)));
    one.asked(&peer(99), Arc::new(FrameWork::default()), 100);
    assert!(!one.asked.contains_key(&peer(99)), "of another grid");
}

/// Frames of a peer need these bricks.
fn look_at(peer: &mut Replicas, bricks: std::ops::Range<usize>, now: u64) {
    let mut work = FrameWork {
        micros: vec![0; 64],
        speeds: BTreeMap::new(),
    };
    work.micros[bricks].fill(7);
    let local = peer.local.clone();
    peer.asked(&local, Arc::new(work), now);
}

#[test]
fn what_frames_need_is_held_first_where_it_is_read_again() {
    for redundancy in [1, 2] {
        let mut alone = Replicas::new(peer(0), grid(), redundancy, 0, Digest::of(b"data"), None);
        alone.has_source();
        alone.set_in_use(true);
        let decide = |alone: &mut Replicas, now| {
            // The second time with the room that follows from what is needed.
            for now in [now, now + 1] {
                alone.set_room(20, 0, now);
                alone.keep_up(now, |_| true);
            }
            alone.own.assigned.clone()
        };
        assert_eq!(decide(&mut alone, 0).len(), 10);
        look_at(&mut alone, 40..48, 0);
        let unknown = alone.own.assigned.clone();
        assert_eq!(decide(&mut alone, 1), unknown, "the camera still turns");
        let assigned = decide(&mut alone, 2 * ASKED_MICROS);
        assert_eq!(alone.own.reserve, 2, "it is all held: little is read");
        assert_eq!(assigned.len(), 18);
        assert!((40..48).all(|b| assigned.contains(BrickIndex(b))));
        look_at(&mut alone, 8..38, 3 * ASKED_MICROS);
        let assigned = decide(&mut alone, 5 * ASKED_MICROS);
        assert_eq!(
            (alone.own.reserve, assigned.len()),
            (10, 10),
            "more than fits"
        );
        assert!(
            (8..38)
                .filter(|&b| assigned.contains(BrickIndex(b)))
                .count()
                == 10
        );
        alone.asked.clear();
        assert_eq!(decide(&mut alone, 6 * ASKED_MICROS), assigned);
    }
}

#[test]
fn what_no_frame_needs_may_be_dropped_where_one_other_reads_it() {
    let mut own = Replicas::new(peer(0), grid(), 1, 8, Digest::of(b"data"), None);
    for b in 0..8 {
        own.own.held.insert(BrickIndex(b));
        own.own.assigned.insert(BrickIndex(8 + b));
    }
    let mut reader = Announcement::expected(64, 4);
    (reader.source, reader.reserve) = (true, 4);
    reader.readable = BrickSet::all(64);
    own.heard(&peer(1), reader, 0);
    assert_eq!(own.droppable(0), []);
    assert_eq!(own.droppable(2 * UNASSIGNED_MICROS), [], "one reader");
    look_at(&mut own, 4..16, 0);
    own.set_in_use(true);
    own.look_at_asked();
    let unseen: Vec<BrickIndex> = (0..4).map(BrickIndex).collect();
    assert_eq!(own.droppable(2 * UNASSIGNED_MICROS), unseen);
    for b in [0, 5] {
        own.dropped(BrickIndex(b));
    }
    assert!(!own.is_missed(BrickIndex(0)) && own.is_missed(BrickIndex(5)));
    // What there is no room for is dropped at once.
    own.set_room(4, 0, 0);
    let beyond: Vec<BrickIndex> = (1..3).map(BrickIndex).collect();
    assert_eq!(own.droppable(0), beyond);
    for &b in &beyond {
        own.dropped(b);
    }
    assert!(!own.is_missed(BrickIndex(5)) && own.droppable(0).is_empty());
}

#[test]
fn a_peer_that_is_full_of_copies_beyond_those_wanted_is_not_short_of_room() {
    let mut full = Replicas::new(peer(0), grid(), 1, 8, Digest::of(b"data"), None);
    (0..8).for_each(|b| {
        full.own.assigned.insert(BrickIndex(b));
    });
    assert!(full.is_short_of_room());
    let mut other = Announcement::expected(64, 64);
    other.assigned.insert(BrickIndex(3));
    full.heard(&peer(1), other.clone(), 0);
    assert!(!full.is_short_of_room());
    full.heard(
        &peer(1),
        Announcement {
            leaving: true,
            ..other
        },
        0,
    );
    assert!(full.is_short_of_room(), "its copies do not count");
}

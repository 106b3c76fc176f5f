//! Bricks that arrive when a data set is opened: whether to wait for more, and what is wrong where no
//! more come.
//!
//! No clock is read here.

use brickmesh_actors::brick_owner::{DataSetStatus, MeshStatus};
use brickmesh_actors::plain_text::{counted, plain_text};
use brickmesh_topology::{BrickIndex, PeerId};
use std::{
    fmt,
    time::{Duration, Instant},
};

/// Nobody holds more, and nobody has more room, for so long: that is all.
const QUIET: Duration = Duration::from_secs(1);
/// The same where it is not known why no more comes: peers that learn of each other one by one are
/// settled in between.
const SETTLED: Duration = Duration::from_secs(5);
/// How long bricks may make no progress in any case.
const STALL: Duration = Duration::from_secs(60);
/// Damaged bricks that are named one by one.
const NAMED_MAX: usize = 3;

/// Why not all bricks are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    missing: u32,
    bricks: u32,
    /// Memory that one copy of all bricks takes.
    copy_bytes: u64,
    /// Bricks that there is room for; `None`: there is room.
    room: Option<u64>,
    /// Memory by peer, for people.
    rooms: Vec<String>,
    /// Whether there is memory, but not for one brick.
    is_brick_too_large: bool,
    /// Nobody says how these are cut.
    has_triangles: bool,
    /// What is wrong with the bricks that cannot be read.
    unreadable: Vec<String>,
}

impl Shortage {
    fn of(status: &MeshStatus, data_set: &DataSetStatus, room: u64) -> Self {
        let bricks = data_set.manifest.grid().brick_count();
        let rooms = status.peers.values().filter(|h| h.memory_bytes > 0);
        let rooms =
            rooms.map(|h| format!("{} {}", plain_text(&h.name), bytes_in_words(h.memory_bytes)));
        let unreadable = never_read(data_set).map(|(_, why)| why);
        let most = status.peers.values().map(|h| h.memory_bytes).max();
        Self {
            is_brick_too_large: (1..data_set.brick_bytes).contains(&most.unwrap_or(0)),
            has_triangles: !data_set.manifest.materials().is_empty(),
            missing: data_set.safety.missing,
            bricks,
            copy_bytes: data_set.copy_bytes,
            room: (data_set.safety.read == 0 && room < bricks.into()).then_some(room),
            rooms: rooms.collect(),
            unreadable: unreadable.cloned().collect(),
        }
    }

    /// Whether no brick is there at all.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.missing == self.bricks
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (missing, bricks) = (self.missing, self.bricks);
        write!(f, "{missing} of {} missing", counted(bricks, "brick"))?;
        if let Some(room) = self.room {
            let wanted = bytes_in_words(self.copy_bytes);
            let rooms = match self.rooms.join(", ") {
                none if none.is_empty() => "no memory for bricks".to_owned(),
                rooms => rooms,
            };
            write!(
                f,
                ": one copy of each takes {wanted}, and the peers have room for {room} ({rooms}); start more peers, or give more with --memory"
            )?;
            if self.is_brick_too_large && !self.has_triangles {
                f.write_str(", or cut a file into smaller bricks with --brick")?;
            }
        }
        for why in self.unreadable.iter().take(NAMED_MAX) {
            write!(f, "; {why}")?;
        }
        if let Some(more) = self.unreadable.len().checked_sub(NAMED_MAX + 1) {
            write!(f, "; {} more cannot be read", more + 1)?;
        }
        if self.room.is_none() && self.unreadable.is_empty() {
            f.write_str(": nobody holds them, and none comes any more")?;
        }
        Ok(())
    }
}

/// What is said of a data set that the peers have too little memory for, where what they do not hold is read.
pub(super) fn read_for_frames(data_set: &DataSetStatus) -> Option<String> {
    let (read, bricks) = (data_set.safety.read, data_set.manifest.grid().brick_count());
    (read > 0).then(|| {
        format!(
            "{} take {} in device memory, more than the peers have: up to {read} of them are read for \
             each frame. More peers or more --memory make frames faster",
            counted(bricks, "brick"),
            bytes_in_words(data_set.copy_bytes)
        )
    })
}

/// Bytes for people.
pub(crate) fn bytes_in_words(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{:.1} KiB", bytes as f64 / f64::from(1 << 10))
    } else if bytes < 10 << 20 {
        format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

/// The bricks that cannot be read and that nobody holds.
fn never_read(data_set: &DataSetStatus) -> impl Iterator<Item = (&BrickIndex, &String)> {
    let is_held = |b: BrickIndex| data_set.residency.values().any(|r| r.held.contains(b));
    data_set
        .unreadable
        .iter()
        .filter(move |(b, _)| !is_held(**b))
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Bricks are arriving, or may.
    UnderWay,
    /// All is there that is wanted.
    Done,
    /// No more comes.
    Short(Shortage),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Arriving {
    /// Copies that are held, room, and peers, as of late.
    known: (u64, u64, Vec<PeerId>),
    since: Instant,
    settled_since: Option<Instant>,
    /// One copy of each brick is enough, or that it can be read.
    is_first_enough: bool,
}

impl Arriving {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            known: Default::default(),
            since: now,
            settled_since: None,
            is_first_enough: false,
        }
    }

    /// Waits for one copy of each brick, held or read.
    pub(super) fn of_first_copies(now: Instant) -> Self {
        Self {
            is_first_enough: true,
            ..Self::new(now)
        }
    }

    /// What to do about a data set; `is_own`: it is this machine's.
    pub(super) fn look(
        &mut self,
        status: &MeshStatus,
        data_set: &DataSetStatus,
        is_own: bool,
        now: Instant,
    ) -> Arrival {
        let of_all = data_set.residency.values();
        let held = of_all.clone().map(|r| u64::from(r.held.len())).sum();
        let room = of_all
            .filter(|r| !r.leaving)
            .map(|r| u64::from(r.capacity))
            .sum();
        let holding = status.peers.iter().filter(|(_, h)| h.memory_bytes > 0);
        let peers: Vec<PeerId> = holding.map(|(p, _)| p.clone()).collect();
        // Where all that is not held is read for frames, those who get theirs from others are not waited for.
        let is_read = data_set.safety.read > 0 && data_set.safety.missing == 0;
        let has_settled = |p| {
            let of_peer = data_set.residency.get(p);
            of_peer.is_some_and(|r| r.settled || is_read && !r.source)
        };
        let settled = peers.iter().all(has_settled);
        let known = (held, room, peers);
        if known != self.known {
            (self.known, self.since) = (known, now);
        }
        let quiet = now.duration_since(self.since);
        if !settled {
            self.settled_since = None;
        } else if self.settled_since.is_none() {
            self.settled_since = Some(now);
        }
        let settled_for = self.settled_since.map(|at| now.duration_since(at));
        let missing = data_set.safety.missing;
        // Whoever says that it will hold bricks and gets none is not waited for.
        if missing == 0 && (settled || quiet > SETTLED || self.is_first_enough) {
            return Arrival::Done;
        }
        let bricks = data_set.manifest.grid().brick_count();
        // What there is no room for, and what cannot be read, does not come.
        let no_room = match data_set.safety.read {
            0 => u64::from(bricks).saturating_sub(room),
            _ => 0,
        };
        let never = no_room + never_read(data_set).count() as u64;
        let is_clear = is_own && missing > 0 && u64::from(missing) <= never && quiet > QUIET;
        let is_over = settled_for.is_some_and(|s| s > SETTLED)
            || quiet > SETTLED && never > 0
            || quiet > STALL;
        if is_clear || is_over {
            return Arrival::Short(Shortage::of(status, data_set, room));
        }
        Arrival::UnderWay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::status;

    /// A mesh of two with a data set of which so many bricks are missing.
    fn mesh(missing: u32, room: [u32; 2]) -> MeshStatus {
        let mut status = status();
        let set = &mut status.data_sets[0];
        let bricks = set.manifest.grid().brick_count();
        assert!(missing <= bricks);
        set.safety.missing = missing;
        for (of, room) in set.residency.values_mut().zip(room) {
            of.capacity = room;
            of.settled = false;
            of.held = brickmesh_topology::data::brick_set::BrickSet::new(bricks);
            for brick in data_set_bricks(bricks - missing) {
                of.held.insert(brick);
            }
        }
        status
    }

    fn data_set_bricks(count: u32) -> impl Iterator<Item = BrickIndex> {
        (0..count).map(BrickIndex)
    }

    fn look(arriving: &mut Arriving, mesh: &MeshStatus, now: Instant) -> Arrival {
        arriving.look(mesh, &mesh.data_sets[0], true, now)
    }

    fn words(arrival: Arrival) -> String {
        match arrival {
            Arrival::Short(shortage) => shortage.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn too_little_memory_is_said_in_a_second_with_what_is_wanted_and_what_is_there() {
        let now = Instant::now();
        let mut arriving = Arriving::new(now);
        let bricks = mesh(0, [9; 2]).data_sets[0].manifest.grid().brick_count();
        assert!(bricks >= 2, "{bricks}");
        let small = mesh(bricks - 1, [1, 0]);
        assert_eq!(look(&mut arriving, &small, now), Arrival::UnderWay);
        assert_eq!(look(&mut arriving, &small, now + QUIET), Arrival::UnderWay);
        let said = words(look(&mut arriving, &small, now + QUIET * 2));
        let expected = format!(
            "{} of {bricks} bricks missing: one copy of each takes",
            bricks - 1
        );
        assert!(said.starts_with(&expected), "{said}");
        assert!(
            said.contains("room for 1 (") && said.contains("--memory") && !said.contains("--brick"),
            "{said}"
        );
        // Bricks that still come are waited for.
        let nearly = mesh(bricks, [1, 0]);
        let mut arriving = Arriving::new(now);
        assert_eq!(look(&mut arriving, &nearly, now), Arrival::UnderWay);
        assert_eq!(
            look(&mut arriving, &nearly, now + QUIET * 2),
            Arrival::UnderWay
        );
        assert!(words(look(&mut arriving, &nearly, now + SETTLED * 2)).contains("room for 1"));
        // Not one fits where there is memory; or there is none.
        for (memory, is_too_large) in [(1000, true), (0, false)] {
            let mut none = mesh(bricks, [0, 0]);
            none.data_sets[0].brick_bytes = 1001;
            for hello in none.peers.values_mut() {
                hello.memory_bytes = memory;
            }
            let mut arriving = Arriving::new(now);
            assert_eq!(look(&mut arriving, &none, now), Arrival::UnderWay);
            let said = words(look(&mut arriving, &none, now + SETTLED * 2));
            assert_eq!(said.contains("with --brick"), is_too_large, "{said}");
        }
    }

    #[test]
    fn a_damaged_brick_is_named_with_its_file() {
        let now = Instant::now();
        let (mut arriving, mut damaged) = (Arriving::new(now), mesh(1, [9; 2]));
        assert_eq!(look(&mut arriving, &damaged, now), Arrival::UnderWay);
        let set = &mut damaged.data_sets[0];
        let last = BrickIndex(set.manifest.grid().brick_count() - 1);
        set.unreadable
            .insert(last, "a/bricks/12: brick 1 is damaged".to_owned());
        assert_eq!(look(&mut arriving, &damaged, now), Arrival::UnderWay);
        let said = words(look(&mut arriving, &damaged, now + QUIET * 2));
        assert!(
            said.contains("missing; a/bricks/12: brick 1 is damaged"),
            "{said}"
        );
    }

    #[test]
    fn what_does_not_come_is_not_waited_for_for_ever_and_what_has_come_is_enough() {
        let now = Instant::now();
        let (mut arriving, mut waiting) = (Arriving::new(now), mesh(1, [9; 2]));
        assert_eq!(look(&mut arriving, &waiting, now), Arrival::UnderWay);
        assert_eq!(
            look(&mut arriving, &waiting, now + STALL),
            Arrival::UnderWay
        );
        let said = words(look(&mut arriving, &waiting, now + STALL * 2));
        assert!(said.contains("none comes any more"), "{said}");
        waiting.data_sets[0]
            .residency
            .values_mut()
            .for_each(|r| r.settled = true);
        let mut arriving = Arriving::new(now);
        assert_eq!(look(&mut arriving, &waiting, now), Arrival::UnderWay);
        assert!(matches!(
            look(&mut arriving, &waiting, now + SETTLED * 2),
            Arrival::Short(_)
        ));
        let mut whole = mesh(0, [9; 2]);
        let mut copies = Arriving::new(now);
        assert_eq!(look(&mut copies, &whole, now), Arrival::UnderWay);
        assert_eq!(
            look(&mut copies, &whole, now + QUIET * 2),
            Arrival::UnderWay
        );
        assert_eq!(look(&mut copies, &whole, now + SETTLED * 2), Arrival::Done);
        whole.data_sets[0]
            .residency
            .values_mut()
            .for_each(|r| r.settled = true);
        assert_eq!(look(&mut arriving, &whole, now), Arrival::Done);
    }

    #[test]
    fn where_bricks_are_read_for_frames_only_those_who_have_the_source_are_waited_for() {
        let now = Instant::now();
        let mut read = mesh(0, [9; 2]);
        read.data_sets[0].safety.read = 1;
        for (source, arrival) in [(false, Arrival::Done), (true, Arrival::UnderWay)] {
            let of_one = read.data_sets[0].residency.values_mut().next();
            of_one.unwrap().source = source;
            assert_eq!(look(&mut Arriving::new(now), &read, now), arrival);
            let soon = look(&mut Arriving::of_first_copies(now), &read, now);
            assert_eq!(soon, Arrival::Done);
        }
        let one_is_missing = mesh(1, [9; 2]);
        let soon = look(&mut Arriving::of_first_copies(now), &one_is_missing, now);
        assert_eq!(soon, Arrival::UnderWay);
    }
}

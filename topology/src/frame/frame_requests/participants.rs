//! Who takes part in a frame: among the peers that the requester hears, those that hear each other
//! and did not fail it before, as long as no brick is missing for that; and whether to wait for those
//! that it does not hear.

use crate::{
    balance::roster::{Candidate, RosterEntry},
    base::{
        backoff::Backoff,
        conflicts::{Tie, without_conflicts},
        peer::PeerId,
    },
    data::brick_set::BrickSet,
};
use std::collections::{BTreeMap, BTreeSet};

/// Rests of a frame that failed twice or more often, see [`rest_micros`]. All rests of a frame together
/// outlast the time after which everybody has said again what it holds: who refuses a frame because the
/// requester thinks that it holds more is known to hold less before the frame is given up.
const RESTS: Backoff = Backoff::new(400_000, 6_400_000);
/// Rests of a frame for which somebody has no room.
const BUSY_RESTS: Backoff = Backoff::new(200_000, 1_600_000);
/// How often a frame is asked for again because somebody has no room; then that counts as a failure.
pub(super) const BUSY_MAX: u32 = 8;
/// How often the time of an attempt is doubled.
const DOUBLINGS_MAX: u32 = 8;
/// An attempt's time, besides what its schedule expects, where costs were measured.
const ATTEMPT_MICROS: u64 = 750_000;
/// The same where nothing was measured yet, so that nobody knows what to expect.
const ATTEMPT_UNKNOWN_MICROS: u64 = 10_000_000;
/// How often the expected makespan an attempt may take, where costs were measured.
const MAKESPANS: u64 = 2;
/// The same where nothing was measured yet.
const MAKESPANS_UNKNOWN: u64 = 8;
/// How long a frame waits for who holds a brick, microseconds from when it was asked for: silent
/// peers are heard again within this, or gone, as long as this one gets processor time itself.
pub const WAIT_MICROS_MAX: u64 = 10_000_000;
/// Longest makespan that is waited for.
const MAKESPAN_MICROS_MAX: u64 = 600_000_000;

/// The peers that a frame does without, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Peers that failed.
    pub peers: BTreeSet<PeerId>,
    complained: BTreeSet<PeerId>,
}

impl LeftOut {
    /// Who is to blame where `from` says that it cannot work with `about`: a peer is believed once
    /// in a frame, so that one that complains of all is soon left out itself.
    pub fn blame<'a>(&mut self, from: &'a PeerId, about: &'a PeerId) -> &'a PeerId {
        if self.complained.insert(from.clone()) {
            about
        } else {
            from
        }
    }
}

/// How long an attempt may take before those who are late are left out, microseconds. Each further
/// attempt, and each time that everybody is late, has twice as much. `makespans`: the expected
/// one, and before it those of frames that were asked for earlier and are rendered first;
/// `is_measured`: they rest on times that were measured.
#[must_use]
pub fn attempt_micros(
    makespans: impl IntoIterator<Item = u64>,
    doublings: u32,
    is_measured: bool,
) -> u64 {
    let bounded = makespans.into_iter().map(|m| m.min(MAKESPAN_MICROS_MAX));
    let (all, own) = bounded.fold((0_u64, 0), |(all, _), m| (all.saturating_add(m), m));
    let ahead = (all - own).min(MAKESPAN_MICROS_MAX);
    let once = if is_measured {
        ATTEMPT_MICROS + MAKESPANS * own + ahead
    } else {
        ATTEMPT_UNKNOWN_MICROS + MAKESPANS_UNKNOWN * (own + ahead)
    };
    Backoff::new(once, once << DOUBLINGS_MAX).micros(doublings)
}

/// How long a frame rests before it is asked for again, after `failed` attempts in which somebody
/// failed, microseconds. The first time it does not; if they all fail at once, something is amiss
/// that takes its time, as connections that are just made anew.
#[must_use]
pub fn rest_micros(failed: u32) -> u64 {
    failed.checked_sub(2).map_or(0, |n| RESTS.micros(n))
}

/// How long a frame rests for which somebody has had no room `busy` times before, microseconds. The first
/// time it does not: others may do it.
#[must_use]
pub fn busy_rest_micros(busy: u32) -> u64 {
    busy.checked_sub(1).map_or(0, |n| BUSY_RESTS.micros(n))
}

/// The peers of a frame's next attempt, among `candidates`: without those that failed, and such
/// that all hear each other. Where bricks would be missing for that, those that hold them take
/// part nevertheless: better late than with a hole. What none of them holds is given to those that can
/// read it. Where bricks are `fetched`, also those take part that have none. Empty: nobody has anything.
#[must_use]
pub fn taking_part(
    candidates: &[Candidate],
    without: &BTreeSet<PeerId>,
    fetched: bool,
) -> Vec<RosterEntry> {
    let fetches = |e: &RosterEntry| fetched && e.fetches;
    let has_any =
        |c: &Candidate| !c.entry.bricks.is_empty() || !c.readable.is_empty() || fetches(&c.entry);
    let takes_part = |c: &&Candidate| !c.is_silent && has_any(c);
    let holders = candidates.iter().filter(takes_part);
    let (well, mut left_out): (Vec<_>, Vec<_>) =
        holders.partition(|c| !c.is_late && !without.contains(&c.entry.peer));
    let (mut well, deaf) = hearing_each_other(well);
    left_out.splice(..0, deaf);
    let mut had = all_bricks(well.iter().flat_map(|c| [&c.entry.bricks, &c.readable]));
    while let Some(at) = most_missed(&had, &left_out) {
        let needed = left_out.remove(at);
        had.insert_all(&needed.entry.bricks);
        had.insert_all(&needed.readable);
        well.push(needed);
    }
    let held = all_bricks(well.iter().map(|c| &c.entry.bricks));
    let entries = well.into_iter().map(|c| {
        let mut entry = c.entry.clone();
        entry.bricks.insert_all(&c.readable.without(&held));
        entry
    });
    let entries: Vec<RosterEntry> = entries
        .filter(|e| !e.bricks.is_empty() || fetches(e))
        .collect();
    let has_some = |e: &RosterEntry| !e.bricks.is_empty();
    if entries.iter().any(has_some) {
        entries
    } else {
        Vec::new()
    }
}

/// Whether any of these peers is to read bricks for the frame.
#[must_use]
pub fn are_read(candidates: &[Candidate], part: &[RosterEntry]) -> bool {
    part.iter().any(|entry| {
        let of_it = candidates.iter().find(|c| c.entry.peer == entry.peer);
        of_it.is_some_and(|c| entry.bricks.len_without(&c.entry.bricks) > 0)
    })
}

/// Whether a frame that was asked for `waited` microseconds ago goes on waiting instead of being given
/// to these peers: they would lack bricks that silent ones hold or can read, or there are none.
#[must_use]
pub fn must_wait(candidates: &[Candidate], part: &[RosterEntry], waited: u64) -> bool {
    let held = all_bricks(part.iter().map(|e| &e.bricks));
    let mut silent = candidates.iter().filter(|c| c.is_silent);
    let has_more = |bricks: &BrickSet| bricks.len_without(&held) > 0;
    let have_more = |c: &Candidate| has_more(&c.entry.bricks) || has_more(&c.readable);
    waited < WAIT_MICROS_MAX && (part.is_empty() || silent.any(have_more))
}

/// The bricks of any of these sets.
fn all_bricks<'a>(sets: impl IntoIterator<Item = &'a BrickSet>) -> BrickSet {
    let mut all = BrickSet::default();
    sets.into_iter().for_each(|bricks| all.insert_all(bricks));
    all
}

/// Leaves out peers, those of the most broken pairs first, until all hear each other.
fn hearing_each_other(peers: Vec<&Candidate>) -> (Vec<&Candidate>, Vec<&Candidate>) {
    let index: BTreeMap<&PeerId, usize> = peers.iter().map(|c| &c.entry.peer).zip(0..).collect();
    let broken = peers.iter().enumerate().flat_map(|(a, candidate)| {
        let others = candidate.suspects.iter().filter_map(|s| index.get(s));
        others.map(move |&b| (a.min(b), a.max(b)))
    });
    let deaf = without_conflicts(broken.collect(), |_| false, Tie::One);
    let staying = (0..peers.len()).filter(|at| !deaf.contains(at));
    let staying = staying.map(|at| peers[at]).collect();
    (staying, deaf.into_iter().map(|at| peers[at]).collect())
}

/// The one among `left_out` that has the most bricks besides those that the others `had`, if any.
fn most_missed(had: &BrickSet, left_out: &[&Candidate]) -> Option<usize> {
    let counts = left_out.iter().map(|c| {
        let held = c.entry.bricks.len_without(had);
        held.max(c.readable.len_without(had))
    });
    let most = counts.enumerate().rev().max_by_key(|&(_, count)| count);
    most.filter(|&(_, count)| count > 0).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::brick_grid::BrickIndex,
        frame::frame_requests::attempt::ATTEMPTS_MAX,
        mesh::keeper::{DIGESTS_MICROS, TICK_MICROS},
    };
    use std::sync::Arc;

    fn candidate(name: &str, bricks: &[u32], suspects: &[&str]) -> Candidate {
        let mut held = BrickSet::new(8);
        for &b in bricks {
            held.insert(BrickIndex(b));
        }
        Candidate {
            entry: RosterEntry::new(PeerId::new(name), held),
            readable: BrickSet::default(),
            suspects: Arc::new(suspects.iter().map(|s| PeerId::new(s)).collect()),
            is_silent: false,
            is_late: false,
        }
    }

    fn names(candidates: &[Candidate], without: &[&str]) -> String {
        let without = without.iter().map(|s| PeerId::new(s)).collect();
        let part = taking_part(candidates, &without, false);
        let mut part: Vec<&str> = part.iter().map(|e| e.peer.as_str()).collect();
        part.sort_unstable();
        part.concat()
    }

    #[test]
    fn who_failed_is_left_out_unless_a_brick_would_be_missing() {
        let peers = [
            candidate("a", &[0, 1], &[]),
            candidate("b", &[1, 2], &[]),
            candidate("c", &[2, 0], &[]),
            candidate("d", &[], &[]),
        ];
        assert_eq!(names(&peers, &[]), "abc");
        assert_eq!(names(&peers, &["b"]), "ac");
        assert_eq!(names(&peers, &["a", "b"]), "ac", "brick 1 is a's or b's");
        assert_eq!(names(&[], &[]), "");
    }

    #[test]
    fn who_fetches_takes_part_with_nothing_where_others_have_something() {
        let mut peers = [
            candidate("a", &[0, 1], &[]),
            candidate("b", &[], &[]),
            candidate("c", &[], &[]),
        ];
        peers[1].entry.fetches = true;
        let part = |peers: &[Candidate], fetched| {
            let part = taking_part(peers, &BTreeSet::new(), fetched);
            part.iter().map(|e| e.peer.as_str()).collect::<String>()
        };
        assert_eq!(part(&peers, true), "ab");
        assert_eq!(part(&peers, false), "a");
        assert_eq!(part(&peers[1..], true), "");
    }

    #[test]
    fn peers_that_do_not_hear_each_other_do_not_work_together() {
        // c was cut off, and nobody has heard it since; it hears nobody.
        let peers = [
            candidate("a", &[0, 1], &["c"]),
            candidate("b", &[1, 2], &["c"]),
            candidate("c", &[2, 0], &["a", "b"]),
        ];
        assert_eq!(names(&peers, &[]), "ab");
        // A single complaint is enough.
        let one = [
            candidate("a", &[0, 1, 2], &[]),
            candidate("b", &[0, 1, 2], &["a"]),
        ];
        assert_eq!(names(&one, &[]).len(), 1);
        // But a hole is worse than waiting.
        let needed = [candidate("a", &[0], &[]), candidate("b", &[1], &["a"])];
        assert_eq!(names(&needed, &[]), "ab");
        // Complaints about peers that take no part do not count.
        let gone = [candidate("a", &[0], &["x"]), candidate("b", &[1], &["x"])];
        assert_eq!(names(&gone, &[]), "ab");
    }

    #[test]
    fn a_frame_waits_for_silent_peers_that_alone_hold_a_brick() {
        let mut peers = [candidate("a", &[0, 1], &[]), candidate("b", &[1, 2], &[])];
        peers[1].is_silent = true;
        assert_eq!(names(&peers, &[]), "a");
        let without = BTreeSet::new();
        assert!(must_wait(&peers, &taking_part(&peers, &without, false), 0));
        let part = taking_part(&peers, &without, false);
        assert!(!must_wait(&peers, &part, WAIT_MICROS_MAX), "long enough");
        assert!(must_wait(&[], &[], 0));
        // Who is only late is given it.
        (peers[1].is_silent, peers[1].is_late) = (false, true);
        assert_eq!(names(&peers, &[]), "ab");
        (peers[1].is_silent, peers[1].is_late) = (true, false);
        peers[0].entry.bricks.insert(BrickIndex(2));
        assert!(!must_wait(&peers, &taking_part(&peers, &without, false), 0));
        (peers[1].is_silent, peers[1].is_late) = (false, true);
        assert_eq!(names(&peers, &[]), "a", "spared");
    }

    #[test]
    fn what_nobody_holds_is_given_to_those_that_can_read_it() {
        let mut peers = [
            candidate("a", &[0, 1], &[]),
            candidate("b", &[2], &[]),
            candidate("c", &[], &[]),
            candidate("d", &[], &[]),
        ];
        let all = BrickSet::all(8);
        (peers[0].readable, peers[2].readable) = (all.clone(), all);
        let without = BTreeSet::new();
        let part = taking_part(&peers, &without, false);
        let bricks = |of: &str| {
            let entry = part.iter().find(|e| e.peer.as_str() == of);
            entry.map(|e| e.bricks.iter().map(|b| b.0).collect::<Vec<_>>())
        };
        assert_eq!(bricks("a"), Some(vec![0, 1, 3, 4, 5, 6, 7]));
        assert_eq!(bricks("b"), Some(vec![2]));
        assert_eq!(bricks("c"), Some(vec![3, 4, 5, 6, 7]));
        assert_eq!(bricks("d"), None);
        assert!(are_read(&peers, &part));
        // Whoever holds bricks that others can read is not waited for.
        peers[1].is_silent = true;
        assert!(!must_wait(&peers, &taking_part(&peers, &without, false), 0));
        assert_eq!(names(&peers, &[]), "ac");
        // Who failed is needed where nobody else reads.
        peers[2].readable = BrickSet::default();
        assert_eq!(names(&peers, &["a"]), "a");
        // And waited for, also where it holds none.
        peers[1].is_silent = false;
        let held = std::mem::take(&mut peers[0].entry.bricks);
        assert!(!must_wait(&peers, &taking_part(&peers, &without, false), 0));
        peers[0].is_silent = true;
        assert!(must_wait(&peers, &taking_part(&peers, &without, false), 0));
        (peers[0].is_silent, peers[0].entry.bricks) = (false, held);
        for n in 3..8 {
            peers[1].entry.bricks.insert(BrickIndex(n));
        }
        let part = taking_part(&peers, &without, false);
        assert!(!are_read(&peers, &part));
    }

    #[test]
    fn who_complains_of_all_is_left_out_itself() {
        let [a, b, c] = ["a", "b", "c"].map(PeerId::new);
        let mut left_out = LeftOut::default();
        assert_eq!(left_out.blame(&a, &b), &b);
        assert_eq!(left_out.blame(&c, &b), &b);
        assert_eq!(left_out.blame(&a, &c), &a);
    }

    #[test]
    fn frames_that_fail_and_fail_rest_longer_and_longer() {
        assert_eq!(
            [0, 1, 2, 3, 4].map(rest_micros),
            [0, 0, 400_000, 800_000, 1_600_000]
        );
        assert_eq!(rest_micros(u32::MAX), 6_400_000);
    }

    #[test]
    fn a_frame_is_not_given_up_before_all_have_said_again_what_they_hold() {
        let rests: u64 = (1..ATTEMPTS_MAX).map(rest_micros).sum();
        // What was missed is asked for when a digest names it.
        assert!(rests > DIGESTS_MICROS + 4 * TICK_MICROS);
    }

    #[test]
    fn attempts_get_longer_and_never_overflow() {
        let first = attempt_micros([350_000], 0, true);
        assert_eq!(first, 1_450_000);
        assert_eq!(attempt_micros([350_000], 1, true), 2 * first);
        let behind_another = attempt_micros([200_000, 350_000], 0, true);
        assert_eq!(behind_another, first + 200_000);
        assert!(attempt_micros([u64::MAX; 4], u32::MAX, false) < u64::MAX / 2);
        assert!(attempt_micros([0], 0, false) > attempt_micros([0], 2, true));
    }
}

//! What peers hold of a data set, before it is opened: whole copies, or a part, and the rest is read for each frame.
//!
//! Whole numbers, by the same rules as [`Replicas::set_room`](crate::mesh::replicas::Replicas::set_room): a peer has room for as many usual
//! bricks as go into its memory; who reads keeps half of that free, or less where a picture
//! needs less than there is room for. Of one data set alone: others, and levels of the same volume, take
//! from the same memory.

use crate::mesh::replicas::{STAGED_MIN, reserve_of, with_reserve};

/// A peer that may hold bricks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitPeer {
    /// Memory that it gives to bricks, bytes.
    pub memory_bytes: u64,
    /// Memory that a brick takes there ([`BrickBytes::typical`](crate::BrickBytes::typical)), and the largest one.
    pub brick_bytes: u64,
    /// See [`Self::brick_bytes`].
    pub largest_bytes: u64,
    /// It has the source, and reads what nobody holds.
    pub reads: bool,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Copies of each brick that are held, at most as many as are wanted; 0: not all bricks are.
    pub copies: u32,
    /// Bricks that are held, each counted once.
    pub held: u64,
    /// Bricks that are read for each frame.
    pub read: u64,
    /// Bricks that nobody holds, and nobody reads.
    pub missing: u64,
    /// Peers more, as large as the largest one, with which one copy of all is held; `None`: not even one of the largest bricks goes into
    /// its memory, or there is no peer.
    pub more_peers: Option<u64>,
    /// Memory of each of as many peers with which one copy of all is held, bytes.
    pub memory_each_bytes: u64,
}

fn room(p: &FitPeer) -> u32 {
    if p.memory_bytes < p.largest_bytes {
        return 0;
    }
    let room = p.memory_bytes / p.brick_bytes.max(1);
    u32::try_from(room).unwrap_or(u32::MAX)
}

/// Bricks that are read take the room of so many, at least.
fn staged_min(p: &FitPeer) -> u32 {
    let bytes = p.largest_bytes.saturating_mul(STAGED_MIN.into());
    let staged = bytes.div_ceil(p.brick_bytes.max(1));
    u32::try_from(staged).unwrap_or(u32::MAX)
}

/// Room of a peer that is kept free for what is read.
fn reserve(p: &FitPeer, does_not_fit: bool) -> u32 {
    if p.reads {
        reserve_of(room(p), does_not_fit, staged_min(p))
    } else {
        0
    }
}

/// Of `needed` bricks of a data set of so many, which pictures need again and again: those that these peers hold after a
/// while, and those that are read for each picture; others are missing.
#[must_use]
pub fn needed_fit(needed: u32, bricks: u32, peers: &[FitPeer]) -> (u64, u64) {
    let total: u64 = peers.iter().map(|p| u64::from(room(p))).sum();
    let all = u64::from(needed);
    if total >= u64::from(bricks) {
        return (all, 0);
    }
    let staged_min = peers.iter().map(staged_min).max().unwrap_or(STAGED_MIN);
    let does_not_fit = u64::from(with_reserve(needed, staged_min)) > total;
    let rooms = peers.iter();
    let rooms = rooms.map(|p| u64::from(room(p) - reserve(p, does_not_fit)));
    let held = rooms.sum::<u64>().min(all);
    let is_read = peers.iter().any(|p| reserve(p, does_not_fit) > 0);
    (held, if is_read { all - held } else { 0 })
}

/// What these peers hold of so many bricks, of each of which so many copies are wanted.
#[must_use]
pub fn fit(bricks: u32, peers: &[FitPeer], redundancy: u32) -> Fit {
    // A peer holds one copy of a brick at most.
    let rooms = peers.iter().map(|p| u64::from(room(p).min(bricks)));
    let total: u64 = rooms.sum();
    let all = u64::from(bricks);
    let copies = total.checked_div(all).unwrap_or(0).min(redundancy.into());
    let largest = peers.iter().map(room).max().unwrap_or(0);
    let lacking = all.saturating_sub(total);
    let reserve = |p: &FitPeer| reserve(p, true);
    let held = if copies > 0 {
        all
    } else {
        peers.iter().map(|p| u64::from(room(p) - reserve(p))).sum()
    };
    let is_read = peers.iter().any(|p| reserve(p) > 0);
    let rest = all - held;
    let per_peer = all.div_ceil(peers.len().max(1) as u64);
    let brick_bytes = peers.iter().map(|p| p.brick_bytes).max().unwrap_or(0);
    Fit {
        copies: u32::try_from(copies).unwrap_or(u32::MAX),
        held,
        read: if is_read { rest } else { 0 },
        missing: if is_read { 0 } else { rest },
        more_peers: match largest {
            0 if lacking > 0 => None,
            largest => Some(lacking.div_ceil(u64::from(largest.max(1)))),
        },
        memory_each_bytes: per_peer.saturating_mul(brick_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_would_hold_it_is_said() {
        let peers = |rooms: &[u64], reads| -> Vec<FitPeer> {
            let peer = |&room: &u64| FitPeer {
                memory_bytes: room * 10 + 3,
                brick_bytes: 10,
                largest_bytes: 10,
                reads,
            };
            rooms.iter().map(peer).collect()
        };
        let all = fit(100, &peers(&[60, 160, 30], true), 3);
        assert_eq!((all.copies, all.held, all.more_peers), (1, 100, Some(0)));
        let part = fit(100, &peers(&[40, 20], true), 2);
        assert_eq!(
            (part.copies, part.held, part.read, part.missing),
            (0, 30, 70, 0)
        );
        assert_eq!((part.more_peers, part.memory_each_bytes), (Some(1), 500));
        let unread = fit(100, &peers(&[40, 20], false), 2);
        assert_eq!((unread.held, unread.read, unread.missing), (60, 0, 40));
        let tiny = fit(100, &peers(&[0], true), 1);
        assert_eq!((tiny.held, tiny.missing, tiny.more_peers), (0, 100, None));
        assert_eq!(fit(5, &[], 2).more_peers, None);
        assert_eq!(fit(1, &peers(&[1, 1, 1], false), 2).copies, 2);
        // Half of the room is kept free, or an eighth.
        let needed = |needed| needed_fit(needed, 100, &peers(&[40, 20], true));
        assert_eq!((needed(70), needed(53)), ((30, 40), (53, 0)));
        assert_eq!((needed(45), needed(0)), ((45, 0), (0, 0)));
        assert_eq!(needed_fit(70, 100, &peers(&[60, 50], true)), (70, 0));
        assert_eq!(needed_fit(70, 100, &peers(&[40], false)), (40, 0));
        // On one of two devices a brick takes twice as much.
        let mut unlike = peers(&[40, 40], true);
        (unlike[0].brick_bytes, unlike[0].largest_bytes) = (20, 20);
        let part = fit(100, &unlike, 1);
        assert_eq!((part.held, part.memory_each_bytes), (10 + 20, 1000));
    }
}

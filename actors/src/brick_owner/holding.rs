//! What this peer should hold and holds of one data set, what others hold of it, and which brick
//! is fetched from whom.
//!
//! No clock is read here: `now` is passed in. Invariants: at most [`FETCHES_MAX`] bricks are on
//! their way; every fetch ends, by arrival, refusal or time-out, and is then tried elsewhere.

use crate::{
    data_set::BrickSource,
    messages::{Hello, Residency},
};
use brickmesh_topology::{
    BrickIndex, Manifest, PeerId,
    brick_set::BrickSet,
    placement::{PlacementMethod, deal, place, shares},
    roster::RosterEntry,
    schedule::SPEED_ONE,
};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Bricks on their way to this peer at a time, of one data set.
pub(super) const FETCHES_MAX: usize = 8;
/// How long a holder may take to answer.
const FETCH_TIME: Duration = Duration::from_secs(20);
/// How long a refused brick waits before it is asked for elsewhere.
const REFUSED_PAUSE: Duration = Duration::from_millis(200);
/// Bricks times copies up to which bricks are scattered by swaps: about a fifth of a second, in
/// which this peer does nothing else. Larger placements are dealt only.
const SWAP_WORK_MAX: u64 = 1 << 21;

/// See the module.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) manifest: Arc<Manifest>,
    pub(super) redundancy: u32,
    pub(super) source: Option<Arc<dyn BrickSource>>,
    pub(super) wanted: BrickSet,
    pub(super) held: BrickSet,
    /// Host copies, to give to others.
    pub(super) copies: BTreeMap<BrickIndex, Bytes>,
    pub(super) residency: BTreeMap<PeerId, Residency>,
    fetches: BTreeMap<BrickIndex, Fetch>,
    attempts: BTreeMap<BrickIndex, usize>,
}

#[derive(Debug)]
enum Fetch {
    Asked { from: PeerId, until: Instant },
    Paused { until: Instant },
    Loading,
}

/// Where a brick is to come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Source,
    Peer(PeerId),
}

impl Holding {
    pub(super) fn new(manifest: Arc<Manifest>, redundancy: u32) -> Self {
        let bricks = manifest.grid().brick_count();
        Self {
            manifest,
            redundancy,
            source: None,
            wanted: BrickSet::new(bricks),
            held: BrickSet::new(bricks),
            copies: BTreeMap::new(),
            residency: BTreeMap::new(),
            fetches: BTreeMap::new(),
            attempts: BTreeMap::new(),
        }
    }

    /// Works out anew what this peer should hold, from the rooms of all peers.
    pub(super) fn place(&mut self, local: &PeerId, peers: &BTreeMap<PeerId, Hello>) {
        let brick_bytes = self.manifest.largest_brick_bytes().max(1);
        let taking_part: Vec<_> = peers.iter().filter(|(_, h)| h.memory_bytes > 0).collect();
        let room = |h: &Hello| u32::try_from(h.memory_bytes / brick_bytes).unwrap_or(u32::MAX);
        let rooms: Vec<u32> = taking_part.iter().map(|(_, h)| room(h)).collect();
        let bricks = self.manifest.grid().brick_count();
        let capacities = shares(bricks, &rooms, self.redundancy);
        let name = self.manifest.digest();
        let seed = name
            .as_bytes()
            .iter()
            .take(8)
            .fold(0, |s, &b| s << 8 | u64::from(b));
        let copies: u64 = capacities.iter().map(|&c| u64::from(c)).sum();
        let placed = if copies * u64::from(bricks) <= SWAP_WORK_MAX {
            let method = PlacementMethod::Redundant;
            place(self.manifest.grid(), &capacities, method, seed).held
        } else {
            deal(bricks, &capacities, seed)
        };
        let placed = placed.into_iter();
        let mine = taking_part
            .iter()
            .zip(placed)
            .find(|((p, _), _)| *p == local);
        self.wanted = mine.map_or_else(|| BrickSet::new(bricks), |(_, set)| set);
    }

    /// Whether all that is wanted is held.
    pub(super) fn is_settled(&self) -> bool {
        self.wanted.iter().all(|b| self.held.contains(b))
    }

    /// The next brick to get and where from; it counts as on its way from now on.
    pub(super) fn next_fetch(&mut self, now: Instant) -> Option<(BrickIndex, Origin)> {
        if self.fetches.len() >= FETCHES_MAX {
            return None;
        }
        let open = |b: &BrickIndex| !self.held.contains(*b) && !self.fetches.contains_key(b);
        let missing: Vec<BrickIndex> = self.wanted.iter().filter(open).collect();
        for brick in missing {
            if self.source.is_some() {
                self.fetches.insert(brick, Fetch::Loading);
                return Some((brick, Origin::Source));
            }
            let holds = |r: &Residency| r.source || r.bricks.contains(brick);
            let holders: Vec<&PeerId> = self
                .residency
                .iter()
                .filter(|(_, r)| holds(r))
                .map(|(p, _)| p)
                .collect();
            if holders.is_empty() {
                continue;
            }
            let attempt = self.attempts.entry(brick).or_default();
            let from = holders[(brick.0 as usize + *attempt) % holders.len()].clone();
            *attempt += 1;
            self.fetches.insert(
                brick,
                Fetch::Asked {
                    from: from.clone(),
                    until: now + FETCH_TIME,
                },
            );
            return Some((brick, Origin::Peer(from)));
        }
        None
    }

    /// Whether a brick from this peer is awaited; from then on it is being loaded.
    pub(super) fn arrived(&mut self, brick: BrickIndex, peer: &PeerId) -> bool {
        let awaited = matches!(
            self.fetches.get(&brick),
            Some(Fetch::Asked { from, .. }) if from == peer
        );
        if awaited {
            self.fetches.insert(brick, Fetch::Loading);
        }
        awaited
    }

    /// The brick did not come, or was damaged: pause, then ask elsewhere.
    pub(super) fn failed(&mut self, brick: BrickIndex, now: Instant) {
        self.fetches.insert(
            brick,
            Fetch::Paused {
                until: now + REFUSED_PAUSE,
            },
        );
    }

    /// The brick is in device memory.
    pub(super) fn loaded(&mut self, brick: BrickIndex) {
        self.fetches.remove(&brick);
        self.attempts.remove(&brick);
        self.held.insert(brick);
    }

    /// The brick does not fit: hold less.
    pub(super) fn give_up(&mut self, brick: BrickIndex) {
        self.fetches.remove(&brick);
        self.wanted.remove(brick);
    }

    /// Ends fetches and pauses whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.fetches.retain(|_, f| match f {
            Fetch::Asked { until, .. } | Fetch::Paused { until } => *until > now,
            Fetch::Loading => true,
        });
    }

    /// Forgets a peer: what was asked of it is asked elsewhere.
    pub(super) fn forget(&mut self, peer: &PeerId) {
        self.residency.remove(peer);
        self.fetches
            .retain(|_, f| !matches!(f, Fetch::Asked { from, .. } if from == peer));
    }

    /// What this peer announces.
    pub(super) fn announcement(&self) -> Residency {
        Residency {
            data_set: self.manifest.digest(),
            bricks: self.held.clone(),
            source: self.source.is_some(),
            settled: self.is_settled(),
        }
    }

    /// Everybody who announced bricks, this peer included.
    pub(super) fn roster(&self, local: &PeerId) -> Vec<RosterEntry> {
        let entry = |peer: &PeerId, bricks: &BrickSet| RosterEntry {
            peer: peer.clone(),
            speed_millionths: SPEED_ONE,
            bricks: bricks.clone(),
        };
        let others = self.residency.iter().map(|(p, r)| entry(p, &r.bricks));
        others.chain([entry(local, &self.held)]).collect()
    }
}

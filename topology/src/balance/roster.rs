//! The roster of a frame: who takes part, what each holds, how fast each is.
//!
//! Invariant: ascending by peer, so that every peer lists the same roster in the same order.

use crate::{
    balance::schedule::SPEED_ONE,
    base::{digest::Digest, peer::PeerId},
    data::brick_set::BrickSet,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Most peers in a roster.
pub const ROSTER_PEERS_MAX: usize = 4096;

/// Largest speed, millionths.
pub const SPEED_MAX: u64 = 1_000_000_000_000;

/// Longest time that a peer waits for bricks, per time that it renders, thousandths.
pub const WAIT_THOUSANDTHS_MAX: u64 = 64_000;

/// A peer in a roster snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterEntry {
    /// The peer.
    pub peer: PeerId,
    /// Its speed in millionths.
    pub speed_millionths: u64,
    /// Time that it waits for bricks that are read, per time that it renders jobs, whether their bricks are held or read, in thousandths; 0
    /// where none are read.
    pub wait_thousandths: u64,
    /// The bricks that it announced to hold, and those that it reads where nobody does.
    pub bricks: BrickSet,
    /// It keeps room for bricks that it fetches for frames.
    #[serde(default)]
    pub fetches: bool,
}

impl RosterEntry {
    /// A peer of speed 1 that waits for nothing.
    #[must_use]
    pub fn new(peer: PeerId, bricks: BrickSet) -> Self {
        Self {
            peer,
            speed_millionths: SPEED_ONE,
            wait_thousandths: 0,
            bricks,
            fetches: false,
        }
    }

    /// Whether it has, or fetches, whatever a part of the picture shows.
    #[must_use]
    pub fn has_all(&self) -> bool {
        self.fetches || !self.bricks.is_empty() && self.bricks.len() == self.bricks.brick_count()
    }

    /// Its speed where the time that it waits counts as time that its jobs take, millionths.
    #[must_use]
    pub fn effective_speed(&self) -> u64 {
        let speed = u128::from(self.speed_millionths) * 1000;
        let speed = speed / (1000 + u128::from(self.wait_thousandths));
        u64::try_from(speed).unwrap_or(u64::MAX).max(1)
    }
}

/// Who takes part in a frame and what they hold; ascending by peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    entries: Vec<RosterEntry>,
}

/// A roster that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RosterError {
    /// Nobody, or too many.
    #[error("a roster has 1 to {ROSTER_PEERS_MAX} peers, found {found}")]
    PeerCount {
        /// Peers found.
        found: usize,
    },
    /// Entries that do not strictly ascend.
    #[error("roster entry {index} ({peer}) does not come after the one before it")]
    Order {
        /// 0-based entry.
        index: usize,
        /// Its peer.
        peer: PeerId,
    },
    /// A residency that does not fit the grid.
    #[error("peer {peer} announces bricks that do not fit a grid of {brick_count}")]
    Residency {
        /// The peer.
        peer: PeerId,
        /// Bricks of the data set.
        brick_count: u32,
    },
    /// A speed of 0, or beyond reason.
    #[error("peer {peer} announces speed {found} millionths; it must be 1 to 10^12")]
    Speed {
        /// The peer.
        peer: PeerId,
        /// Speed found.
        found: u64,
    },
    /// A wait beyond reason.
    #[error(
        "peer {peer} is said to wait {found} thousandths of the time that it renders; {WAIT_THOUSANDTHS_MAX} is the most"
    )]
    Wait {
        /// The peer.
        peer: PeerId,
        /// Wait found.
        found: u64,
    },
}

impl Roster {
    /// A roster of these peers, in any order; the last of equal peers counts.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = RosterEntry>) -> Self {
        let sorted: BTreeMap<_, _> = entries.into_iter().map(|e| (e.peer.clone(), e)).collect();
        Self {
            entries: sorted.into_values().collect(),
        }
    }

    /// The peers, ascending.
    #[must_use]
    pub fn entries(&self) -> &[RosterEntry] {
        &self.entries
    }

    /// Checks what comes from a peer against the data set.
    ///
    /// # Errors
    /// [`RosterError`] with the first entry that does not fit.
    pub fn validate(&self, brick_count: u32) -> Result<(), RosterError> {
        if !(1..=ROSTER_PEERS_MAX).contains(&self.entries.len()) {
            return Err(RosterError::PeerCount {
                found: self.entries.len(),
            });
        }
        for (index, e) in self.entries.iter().enumerate() {
            if index > 0 && self.entries[index - 1].peer >= e.peer {
                return Err(RosterError::Order {
                    index,
                    peer: e.peer.clone(),
                });
            }
            if !e.bricks.is_valid(brick_count) {
                return Err(RosterError::Residency {
                    peer: e.peer.clone(),
                    brick_count,
                });
            }
            if !(1..=SPEED_MAX).contains(&e.speed_millionths) {
                return Err(RosterError::Speed {
                    peer: e.peer.clone(),
                    found: e.speed_millionths,
                });
            }
            if e.wait_thousandths > WAIT_THOUSANDTHS_MAX {
                return Err(RosterError::Wait {
                    peer: e.peer.clone(),
                    found: e.wait_thousandths,
                });
            }
        }
        Ok(())
    }

    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entry = |e: &RosterEntry| {
            size_of_val(e) + e.peer.as_str().len() + size_of_val(e.bricks.words())
        };
        self.entries.iter().map(entry).sum()
    }

    /// Name of this snapshot.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = Vec::new();
        for e in &self.entries {
            put_text(&mut bytes, e.peer.as_str());
            bytes.extend(e.speed_millionths.to_le_bytes());
            bytes.extend(e.wait_thousandths.to_le_bytes());
            bytes.push(e.fetches.into());
            e.bricks
                .words()
                .iter()
                .for_each(|w| bytes.extend(w.to_le_bytes()));
        }
        Digest::of(&bytes)
    }
}

/// A peer of the mesh that holds bricks, or could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it holds.
    pub entry: RosterEntry,
    /// Bricks that it can read for a frame, or fetch of who can read them, where nobody holds them.
    pub readable: BrickSet,
    /// Peers that it does not hear.
    pub suspects: Arc<BTreeSet<PeerId>>,
    /// It is not heard, or does not hear the requester: no frames are given to it.
    pub is_silent: bool,
    /// It was late with its part of a frame: it is spared where others can do its part.
    pub is_late: bool,
}

/// Appends a text with its length, so that no two lists of texts give the same bytes.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

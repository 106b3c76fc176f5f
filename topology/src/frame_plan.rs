//! The plan of a frame: which jobs it has, in which order they blend, who renders each, who
//! composites which tile. Every peer derives it alone from the same inputs and gets the same
//! bytes; its digest travels with each sub-image.
//!
//! Inputs: the manifest (grid, value ranges), view, transfer function, the roster snapshot (what
//! each peer really holds), the cost table. Not here: job trees, prediction, stealing.

use crate::{
    brick_grid::BrickIndex,
    brick_set::BrickSet,
    camera::{PixelRect, View},
    digest::Digest,
    manifest::Manifest,
    peer::PeerId,
    schedule::{Schedule, ScheduledJob, best_fit},
    tiles::{Tile, tiles},
    transfer_function::TransferFunction,
    visibility::{NotSeparable, front_to_back},
    voxel_box::VoxelBox,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most peers in a roster.
pub const ROSTER_PEERS_MAX: usize = 4096;
/// Cost of a job that was never measured, microseconds per 2²⁰ voxels: only ratios matter in the
/// first frame (Frey & Ertl 2011, section 5.1, give all jobs the same value; bricks at the border
/// are smaller).
const UNMEASURED_MICROS_PER_MEBIVOXEL: u64 = 100_000;

/// A peer in a roster snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterEntry {
    /// The peer.
    pub peer: PeerId,
    /// Its speed in millionths.
    pub speed_millionths: u64,
    /// The bricks that it announced to hold.
    pub bricks: BrickSet,
}

/// Who takes part in a frame and what they hold; ascending by peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    entries: Vec<RosterEntry>,
}

/// Costs of the last frame by brick, microseconds on a device of speed 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostTable {
    /// Cost of each measured brick.
    pub micros: BTreeMap<BrickIndex, u64>,
}

/// Everything that a plan follows from.
#[derive(Clone, Copy, Debug)]
pub struct PlanInputs<'a> {
    /// The data set.
    pub manifest: &'a Manifest,
    /// The rays.
    pub view: &'a View,
    /// Bricks that it makes wholly transparent have no job.
    pub transfer: &'a TransferFunction,
    /// Who takes part.
    pub roster: &'a Roster,
    /// What jobs cost in the last frame.
    pub costs: &'a CostTable,
}

/// A job of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedJob {
    /// Brick that is sampled.
    pub brick: BrickIndex,
    /// Samples that belong to the job.
    pub owned: VoxelBox,
    /// Pixels that it may touch.
    pub rect: PixelRect,
    /// Expected cost, microseconds on a device of speed 1.
    pub estimate_micros: u64,
    /// Index of the peer that renders it, in the roster; `None`: nobody holds the brick.
    pub renderer: Option<usize>,
}

/// The plan of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePlan {
    /// Peers, in roster order.
    pub peers: Vec<PeerId>,
    /// Jobs, front to back; a job's index is its id in the frame.
    pub jobs: Vec<PlannedJob>,
    /// Tiles; a tile's index is its id in the frame.
    pub tiles: Vec<Tile>,
    /// Loads and bounds of the schedule, by peer.
    pub schedule: Schedule,
    /// Digest of all of the above.
    pub digest: Digest,
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
            if !(1..=1_000_000_000_000).contains(&e.speed_millionths) {
                return Err(RosterError::Speed {
                    peer: e.peer.clone(),
                    found: e.speed_millionths,
                });
            }
        }
        Ok(())
    }

    /// Name of this snapshot.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = Vec::new();
        for e in &self.entries {
            put_text(&mut bytes, e.peer.as_str());
            bytes.extend(e.speed_millionths.to_le_bytes());
            e.bricks
                .words()
                .iter()
                .for_each(|w| bytes.extend(w.to_le_bytes()));
        }
        Digest::of(&bytes)
    }
}

impl CostTable {
    /// Name of this table.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = Vec::with_capacity(self.micros.len() * 12);
        for (b, c) in &self.micros {
            bytes.extend(b.0.to_le_bytes());
            bytes.extend(c.to_le_bytes());
        }
        Digest::of(&bytes)
    }

    fn estimate(&self, brick: BrickIndex, owned: &VoxelBox) -> u64 {
        self.micros.get(&brick).copied().unwrap_or_else(|| {
            ((owned.voxel_count() * UNMEASURED_MICROS_PER_MEBIVOXEL) >> 20).max(1)
        })
    }
}

impl FramePlan {
    /// Derives the plan. O(bricks · log bricks + jobs · holders).
    ///
    /// # Errors
    /// [`NotSeparable`] cannot happen for the bricks of a grid; it is passed on, not hidden.
    pub fn derive(inputs: &PlanInputs<'_>) -> Result<Self, NotSeparable> {
        let mut jobs = visible_jobs(inputs);
        let eye = inputs
            .manifest
            .volume()
            .grid_from_world()
            .transform_point3(inputs.view.eye);
        let boxes: Vec<VoxelBox> = jobs.iter().map(|j| j.owned).collect();
        jobs = front_to_back(&boxes, eye)?
            .into_iter()
            .map(|i| jobs[i])
            .collect();
        let schedule = best_fit(&scheduled(&jobs, inputs.roster), &speeds(inputs.roster));
        for (job, &renderer) in jobs.iter_mut().zip(&schedule.assignment) {
            job.renderer = renderer;
        }
        let peers: Vec<PeerId> = inputs
            .roster
            .entries()
            .iter()
            .map(|e| e.peer.clone())
            .collect();
        let tiles = tiles(inputs.view.rect(), peers.len());
        let digest = digest(&peers, &jobs, &tiles);
        Ok(Self {
            peers,
            jobs,
            tiles,
            schedule,
            digest,
        })
    }

    /// The jobs that a peer renders, front to back.
    pub fn jobs_of(&self, peer: &PeerId) -> impl Iterator<Item = (usize, &PlannedJob)> {
        let index = self.peers.binary_search(peer).ok();
        self.jobs
            .iter()
            .enumerate()
            .filter(move |(_, j)| index.is_some() && j.renderer == index)
    }

    /// The tiles that a peer composites.
    pub fn tiles_of(&self, peer: &PeerId) -> impl Iterator<Item = (usize, &Tile)> {
        let index = self.peers.binary_search(peer).ok();
        self.tiles
            .iter()
            .enumerate()
            .filter(move |(_, t)| Some(t.compositor) == index)
    }

    /// The jobs that a tile blends, front to back: those that somebody renders and that may touch
    /// it.
    #[must_use]
    pub fn jobs_in_tile(&self, tile: usize) -> Vec<usize> {
        let rect = self.tiles[tile].rect;
        let inside = |j: &PlannedJob| j.renderer.is_some() && j.rect.intersection(&rect).is_some();
        self.jobs
            .iter()
            .enumerate()
            .filter(|(_, j)| inside(j))
            .map(|(i, _)| i)
            .collect()
    }

    /// The boxes that nobody can render.
    pub fn missing(&self) -> impl Iterator<Item = &PlannedJob> {
        self.jobs.iter().filter(|j| j.renderer.is_none())
    }
}

/// A job for every brick that may be seen: on the screen, and not wholly transparent.
fn visible_jobs(inputs: &PlanInputs<'_>) -> Vec<PlannedJob> {
    let (manifest, volume) = (inputs.manifest, inputs.manifest.volume());
    let grid = manifest.grid();
    let seen = |brick: BrickIndex| {
        let [low, high] = manifest
            .brick_range(brick)
            .map(|stored| volume.value(stored));
        if inputs.transfer.max_opacity(low.min(high), low.max(high)) <= 0.0 {
            return None;
        }
        let owned = grid.owned_box(brick);
        let rect = inputs.view.rect_of(volume, &owned)?;
        let estimate_micros = inputs.costs.estimate(brick, &owned);
        Some(PlannedJob {
            brick,
            owned,
            rect,
            estimate_micros,
            renderer: None,
        })
    };
    grid.bricks().filter_map(seen).collect()
}

fn scheduled(jobs: &[PlannedJob], roster: &Roster) -> Vec<ScheduledJob> {
    let holders = |brick| {
        let holds = |(d, e): (usize, &RosterEntry)| e.bricks.contains(brick).then_some(d);
        roster
            .entries()
            .iter()
            .enumerate()
            .filter_map(holds)
            .collect()
    };
    let job = |j: &PlannedJob| ScheduledJob {
        cost_micros: j.estimate_micros,
        holders: holders(j.brick),
    };
    jobs.iter().map(job).collect()
}

fn speeds(roster: &Roster) -> Vec<u64> {
    roster
        .entries()
        .iter()
        .map(|e| e.speed_millionths)
        .collect()
}

fn digest(peers: &[PeerId], jobs: &[PlannedJob], tiles: &[Tile]) -> Digest {
    let mut bytes = Vec::new();
    peers.iter().for_each(|p| put_text(&mut bytes, p.as_str()));
    for j in jobs {
        let numbers = [j.brick.0, j.rect.x, j.rect.y, j.rect.width, j.rect.height];
        let all = numbers.into_iter().chain(j.owned.lo).chain(j.owned.hi);
        all.for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend(j.renderer.map_or(u64::MAX, |r| r as u64).to_le_bytes());
    }
    for t in tiles {
        let rect = [t.rect.x, t.rect.y, t.rect.width, t.rect.height];
        rect.into_iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend((t.compositor as u64).to_le_bytes());
    }
    Digest::of(&bytes)
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

//! `--stats`: who rendered what and how long it took, as JSON.

use crate::session::Session;
use brickmesh_actors::{brick_owner::MeshStatus, requester::FrameStats};
use brickmesh_topology::{BrickIndex, Manifest, VoxelBox, plain_text::plain_text};
use serde::Serialize;
use std::{fs, path::Path};

/// The file: volume, peers, frames.
#[derive(Debug, Serialize)]
pub struct Stats {
    volume: VolumeStats,
    peers: Vec<PeerStats>,
    frames: Vec<FrameEntry>,
}

/// What a volume is, in the words of `info --json`.
#[derive(Debug, Serialize)]
pub struct VolumeStats {
    /// Where it came from.
    pub source: String,
    /// Name of the data set.
    pub data_set: String,
    /// Voxels on each axis.
    pub dims: [u32; 3],
    /// Voxel type.
    #[serde(rename = "type")]
    pub voxel: &'static str,
    /// World units between samples.
    pub spacing: [f64; 3],
    /// World position of sample (0,0,0).
    pub origin: [f64; 3],
    /// Unit directions of the axes.
    pub direction: [[f64; 3]; 3],
    /// Smallest and largest data value; none where all is no data.
    pub range: Option<[f64; 2]>,
    /// Edge of a brick in voxels.
    pub brick_edge: u32,
    /// Bricks on each axis.
    pub brick_counts: [u32; 3],
}

#[derive(Debug, Serialize)]
struct PeerStats {
    name: String,
    device: String,
    bricks: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct FrameEntry {
    frame: u64,
    total_us: u64,
    schedule_us: u64,
    composite_us: u64,
    bytes_sent: u64,
    failed_attempts: u32,
    missing: Vec<VoxelBox>,
    jobs: Vec<JobEntry>,
}

#[derive(Debug, Serialize)]
struct JobEntry {
    brick: BrickIndex,
    #[serde(rename = "box")]
    owned: VoxelBox,
    peer: String,
    estimate_us: u64,
    measured_us: Option<u64>,
    stolen_from: Option<String>,
}

impl VolumeStats {
    /// Of a data set.
    #[must_use]
    pub fn of(manifest: &Manifest) -> Self {
        let volume = manifest.volume();
        Self {
            source: manifest.source().to_owned(),
            data_set: manifest.digest().to_string(),
            dims: volume.dims,
            voxel: volume.voxel.name(),
            spacing: volume.spacing,
            origin: volume.origin,
            direction: volume.direction,
            range: manifest.value_range(),
            brick_edge: manifest.grid().edge(),
            brick_counts: manifest.grid().counts(),
        }
    }
}

impl Stats {
    /// Statistics of a session, without frames.
    #[must_use]
    pub fn new(session: &Session, status: &MeshStatus) -> Self {
        let manifest = session.manifest();
        let data_set = status
            .data_sets
            .iter()
            .find(|d| d.manifest.digest() == manifest.digest());
        let bricks = |peer| {
            let residency = data_set.and_then(|d| d.residency.get(peer));
            residency.map_or_else(Vec::new, |r| r.held.iter().map(|b| b.0).collect())
        };
        let peers = status.peers.iter().map(|(peer, hello)| PeerStats {
            name: session.name(peer),
            device: hello.device.clone(),
            bricks: bricks(peer),
        });
        Self {
            volume: VolumeStats::of(manifest),
            peers: peers.collect(),
            frames: Vec::new(),
        }
    }

    /// Adds a frame.
    pub fn add(&mut self, session: &Session, stats: &FrameStats) {
        let job = |j: &brickmesh_actors::requester::JobStats| JobEntry {
            brick: j.brick,
            owned: j.owned,
            peer: session.name(&j.peer),
            estimate_us: j.estimate_micros,
            measured_us: j.measured_micros,
            stolen_from: j.stolen_from.as_ref().map(|p| session.name(p)),
        };
        self.frames.push(FrameEntry {
            frame: stats.number,
            total_us: stats.total_micros,
            schedule_us: stats.schedule_micros,
            composite_us: stats.composite_micros,
            bytes_sent: stats.bytes_sent,
            failed_attempts: stats.failed_attempts,
            missing: stats.missing.clone(),
            jobs: stats.jobs.iter().map(job).collect(),
        });
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// Text that names the file and what is wrong.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|e| e.to_string())?;
        let temporary = path.with_extension("json.part");
        fs::write(&temporary, text)
            .and_then(|()| fs::rename(&temporary, path))
            .map_err(|e| format!("statistics {}: {e}", path.display()))
    }

    /// A table for people: per peer, its bricks, jobs and milliseconds in the last frame.
    #[must_use]
    pub fn table(&self) -> String {
        let names = self.peers.iter().map(|p| p.name.chars().count());
        let width = names.max().unwrap_or(0).max(16);
        let mut out = format!(
            "{:<width$} {:>7} {:>6} {:>10}  device\n",
            "peer", "bricks", "jobs", "ms"
        );
        let Some(frame) = self.frames.last() else {
            return out;
        };
        for peer in &self.peers {
            let jobs: Vec<_> = frame.jobs.iter().filter(|j| j.peer == peer.name).collect();
            let micros: u64 = jobs.iter().filter_map(|j| j.measured_us).sum();
            out += &format!(
                "{:<width$} {:>7} {:>6} {:>10.1}  {}\n",
                peer.name,
                peer.bricks.len(),
                jobs.len(),
                micros as f64 / 1000.0,
                plain_text(&peer.device)
            );
        }
        out += &format!(
            "frame: {:.1} ms, {} jobs, {:.1} KiB between peers",
            frame.total_us as f64 / 1000.0,
            frame.jobs.len(),
            frame.bytes_sent as f64 / 1024.0
        );
        out
    }
}

//! `--stats`: who rendered what and how long it took, as JSON, and the table that people see.
//!
//! Invariants: peers are told apart by their ids, and rows add up: whoever rendered a job has one, also
//! who joined later or is gone. The file is written as pictures come.

use crate::{
    output_file::{OutputError, OutputFile},
    peer_names,
    session::bytes_in_words,
};
use brickmesh_actors::plain_text::{counted, plain_text};
use brickmesh_actors::{
    brick_owner::MeshStatus,
    requester::{FrameStats, JobStats},
};
use brickmesh_topology::{
    BrickIndex, Manifest, PeerId, VoxelBox, frame::frame_requests::BrickAccesses,
    mesh::keeper::Sharing,
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

/// Shortest time between two writes of the file.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// The file is written for one part in so many of the time.
const WRITE_SHARE: u32 = 20;

/// Statistics of a command's pictures.
#[derive(Debug)]
pub struct Stats {
    volume: VolumeStats,
    peers: BTreeMap<PeerId, KnownPeer>,
    frames: Vec<FrameEntry>,
}

/// What was last heard of a peer.
#[derive(Debug, Default)]
struct KnownPeer {
    name: String,
    device: String,
    sharing: Sharing,
    bricks: Vec<u32>,
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

/// The file: volume, peers, frames.
#[derive(Serialize)]
struct Written<'a> {
    volume: &'a VolumeStats,
    peers: Vec<WrittenPeer<'a>>,
    frames: Vec<WrittenFrame<'a>>,
}

#[derive(Serialize)]
struct WrittenPeer<'a> {
    name: &'a str,
    id: &'a str,
    device: &'a str,
    sharing: Sharing,
    bricks: &'a [u32],
}

#[derive(Serialize)]
struct WrittenFrame<'a> {
    frame: usize,
    level: usize,
    #[serde(flatten)]
    times: &'a FrameTimes,
    strategy: &'static str,
    tile: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forecast_us: Option<Forecasts>,
    memory: Vec<WrittenAccesses<'a>>,
    missing: &'a [VoxelBox],
    jobs: Vec<WrittenJob<'a>>,
}

/// Bricks that a peer needed for a picture, and how long it waited for them, microseconds.
#[derive(Serialize)]
struct WrittenAccesses<'a> {
    peer: &'a str,
    held: u32,
    cached: u32,
    missed: u32,
    missed_bytes: u64,
    evicted: u32,
    acquired: u32,
    waited_us: u64,
}

#[derive(Serialize)]
struct WrittenJob<'a> {
    brick: BrickIndex,
    #[serde(rename = "box")]
    owned: VoxelBox,
    /// Pixels: left, top, width, height.
    rect: [u32; 4],
    peer: &'a str,
    estimate_us: u64,
    measured_us: Option<u64>,
    stolen_from: Option<&'a str>,
}

/// A picture.
#[derive(Debug)]
struct FrameEntry {
    /// Of the volume that is seen; boxes are in its voxels.
    level: usize,
    times: FrameTimes,
    /// Edge of the tiles that it was divided into, pixels, the largest of its bands; `None`: the volume was.
    image_tile: Option<u32>,
    /// `None`: there was nothing to choose, or nothing was known.
    forecasts: Option<Forecasts>,
    /// Bricks that each peer needed, of bands one after the other.
    accesses: BTreeMap<PeerId, BrickAccesses>,
    missing: Vec<VoxelBox>,
    jobs: Vec<JobStats>,
}

/// How long a picture was expected to take by each strategy of `auto`, microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Forecasts {
    sort_last: u64,
    image: u64,
}

#[derive(Debug, Serialize)]
struct FrameTimes {
    total_us: u64,
    schedule_us: u64,
    composite_us: u64,
    predicted_us: u64,
    bytes_sent: u64,
    failed_attempts: u32,
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
    /// Statistics of a data set in a mesh, the finest that is shown, without pictures.
    #[must_use]
    pub fn new(manifest: &Manifest, status: &MeshStatus) -> Self {
        let mut stats = Self {
            volume: VolumeStats::of(manifest),
            peers: BTreeMap::new(),
            frames: Vec::new(),
        };
        stats.learn(status);
        stats
    }

    /// Who is there now, and what each holds. Who is gone stays as it was.
    pub fn learn(&mut self, status: &MeshStatus) {
        let is_ours = |m: &Manifest| m.digest().to_string() == self.volume.data_set;
        let data_set = status.data_sets.iter().find(|d| is_ours(&d.manifest));
        for (peer, hello) in &status.peers {
            let held = data_set.and_then(|d| d.residency.get(peer));
            let bricks = held.map_or_else(Vec::new, |r| r.held.iter().map(|b| b.0).collect());
            let known = KnownPeer {
                name: hello.name.clone(),
                device: plain_text(&hello.device),
                sharing: hello.sharing,
                bricks,
            };
            self.peers.insert(peer.clone(), known);
        }
    }

    /// Whether somebody who is not known has rendered a part of a picture.
    #[must_use]
    pub fn lacks_some_of(&self, bands: &[FrameStats]) -> bool {
        let mut jobs = bands.iter().flat_map(|b| &b.jobs);
        jobs.any(|j| !self.peers.contains_key(&j.peer))
    }

    /// Adds a picture of a level that came in bands, and took so long in all.
    pub fn add(&mut self, level: usize, bands: &[FrameStats], took: Duration) {
        let sum = |of: fn(&FrameStats) -> u64| bands.iter().map(of).fold(0, u64::saturating_add);
        let total_us = match bands {
            [one] => one.total_micros,
            _ => u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        };
        let mut missing: Vec<VoxelBox> = bands.iter().flat_map(|b| b.missing.clone()).collect();
        missing.sort_unstable();
        missing.dedup();
        let jobs: Vec<JobStats> = bands.iter().flat_map(|b| b.jobs.clone()).collect();
        // Who came and went between two looks has a row, too.
        let planned = jobs.iter().filter_map(|j| j.stolen_from.as_ref());
        for peer in jobs.iter().map(|j| &j.peer).chain(planned) {
            let unknown = || KnownPeer {
                name: peer.short().to_owned(),
                ..KnownPeer::default()
            };
            self.peers.entry(peer.clone()).or_insert_with(unknown);
        }
        self.frames.push(FrameEntry {
            level,
            times: FrameTimes {
                total_us,
                schedule_us: sum(|b| b.schedule_micros),
                composite_us: sum(|b| b.composite_micros),
                predicted_us: sum(|b| b.predicted_micros),
                bytes_sent: sum(|b| b.bytes_sent),
                failed_attempts: bands.iter().map(|b| b.failed_attempts).sum(),
            },
            image_tile: bands.iter().filter_map(|b| b.image_tile).max(),
            forecasts: forecasts_of(bands),
            accesses: accesses_of(bands),
            missing,
            jobs,
        });
    }

    /// Pictures so far.
    #[must_use]
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Boxes that nobody held for the last picture.
    #[must_use]
    pub fn missing(&self) -> &[VoxelBox] {
        self.frames.last().map_or(&[], |f| &f.missing)
    }

    /// Names of the peers that are distinct.
    #[must_use]
    pub fn names(&self) -> BTreeMap<PeerId, String> {
        let own = self
            .peers
            .iter()
            .map(|(p, known)| (p.clone(), known.name.clone()));
        peer_names::distinct(&own.collect())
    }

    /// The file's text.
    fn json(&self) -> serde_json::Result<Vec<u8>> {
        let names = self.names();
        let peers = self.peers.iter().map(|(peer, known)| WrittenPeer {
            name: name_in(&names, peer),
            id: peer.as_str(),
            device: &known.device,
            sharing: known.sharing,
            bricks: &known.bricks,
        });
        let of_peer = |(peer, bricks): (&PeerId, &BrickAccesses)| WrittenAccesses {
            peer: name_in(&names, peer),
            held: bricks.held,
            cached: bricks.cached,
            missed: bricks.missed,
            missed_bytes: bricks.missed_bytes,
            evicted: bricks.evicted,
            acquired: bricks.acquired,
            waited_us: bricks.waited_micros,
        };
        let frames = self
            .frames
            .iter()
            .enumerate()
            .map(|(frame, entry)| WrittenFrame {
                frame,
                level: entry.level,
                times: &entry.times,
                strategy: match entry.image_tile {
                    Some(_) => "image",
                    None => "sort-last",
                },
                tile: entry.image_tile,
                forecast_us: entry.forecasts,
                memory: entry.accesses.iter().map(of_peer).collect(),
                missing: &entry.missing,
                jobs: entry.jobs.iter().map(|j| written_job(j, &names)).collect(),
            });
        serde_json::to_vec(&Written {
            volume: &self.volume,
            peers: peers.collect(),
            frames: frames.collect(),
        })
    }

    /// A table for people: per peer, its bricks, jobs and milliseconds in the last picture.
    #[must_use]
    pub fn table(&self) -> String {
        let names = self.names();
        let width = names.values().map(|n| n.chars().count());
        let width = width.max().unwrap_or(0).max(16);
        let mut out = format!(
            "{:<width$} {:>7} {:>6} {:>10}  device\n",
            "peer", "bricks", "jobs", "ms"
        );
        let Some(frame) = self.frames.last() else {
            return out;
        };
        for (peer, known) in &self.peers {
            let jobs: Vec<_> = frame.jobs.iter().filter(|j| j.peer == *peer).collect();
            let micros: u64 = jobs.iter().filter_map(|j| j.measured_micros).sum();
            // Who only looks on, as the one who asks may, needs no row.
            if jobs.is_empty() && known.bricks.is_empty() && self.peers.len() > 1 {
                continue;
            }
            out += &format!(
                "{:<width$} {:>7} {:>6} {:>10.1}  {}\n",
                name_in(&names, peer),
                known.bricks.len(),
                jobs.len(),
                micros as f64 / 1000.0,
                known.device
            );
        }
        out += &format!(
            "frame: {:.1} ms, {}{}{}, {:.1} KiB between peers",
            frame.times.total_us as f64 / 1000.0,
            level_in_words(frame.level),
            counted(frame.jobs.len(), "job"),
            divided_in_words(frame),
            frame.times.bytes_sent as f64 / 1024.0
        );
        out
    }
}

/// What was divided, in a list.
fn divided_in_words(frame: &FrameEntry) -> String {
    let mut all = BrickAccesses::default();
    frame.accesses.values().for_each(|of_peer| all.add(of_peer));
    frame.image_tile.map_or_else(String::new, |edge| {
        let bricks = counted(all.missed as usize, "brick");
        let bytes = bytes_in_words(all.missed_bytes);
        format!(" in tiles of {edge} pixels, {bricks} read or fetched ({bytes})")
    })
}

/// What was expected of all bands, where it is known of each.
fn forecasts_of(bands: &[FrameStats]) -> Option<Forecasts> {
    let of_each = bands
        .iter()
        .map(|b| <[u64; 2]>::try_from(b.forecasts.as_slice()).ok());
    let of_each: Vec<[u64; 2]> = of_each.collect::<Option<_>>()?;
    let sum = |of: usize| of_each.iter().map(|f| f[of]).fold(0, u64::saturating_add);
    (!bands.is_empty()).then(|| Forecasts {
        sort_last: sum(0),
        image: sum(1),
    })
}

/// Bricks that peers needed for all bands.
fn accesses_of(bands: &[FrameStats]) -> BTreeMap<PeerId, BrickAccesses> {
    let mut all: BTreeMap<PeerId, BrickAccesses> = BTreeMap::new();
    for (peer, of_band) in bands.iter().flat_map(|b| &b.accesses) {
        all.entry(peer.clone()).or_default().add(of_band);
    }
    all
}

/// The level of a picture that is none of the exact volume, in a list.
fn level_in_words(level: usize) -> String {
    if level == 0 {
        return String::new();
    }
    format!("level {level}, ")
}

/// The name of a peer that has one.
fn name_in<'a>(names: &'a BTreeMap<PeerId, String>, peer: &PeerId) -> &'a str {
    names.get(peer).map_or("", String::as_str)
}

fn written_job<'a>(job: &JobStats, names: &'a BTreeMap<PeerId, String>) -> WrittenJob<'a> {
    WrittenJob {
        brick: job.brick,
        owned: job.owned,
        rect: [job.rect.x, job.rect.y, job.rect.width, job.rect.height],
        peer: name_in(names, &job.peer),
        estimate_us: job.estimate_micros,
        measured_us: job.measured_micros,
        stolen_from: job.stolen_from.as_ref().map(|p| name_in(names, p)),
    }
}

/// The file that statistics are written to.
#[derive(Debug)]
pub struct StatsFile {
    file: OutputFile,
    /// When it was written last, and how long that took.
    last: Option<(Instant, Duration)>,
}

impl StatsFile {
    /// Looks whether it can be written.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn check(path: &Path) -> Result<Self, OutputError> {
        let file = OutputFile::check("statistics", path)?;
        Ok(Self { file, last: None })
    }

    /// Refuses to write where something else is: see [`OutputFile::is_not`].
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn is_not(&self, other: &Path, what: &str) -> Result<(), OutputError> {
        self.file.is_not(other, what)
    }

    /// Writes what there is so far, if that is not too often; what is no regular file is written once,
    /// at the end.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn write_if_due(&mut self, stats: &Stats) -> Result<(), OutputError> {
        let is_due = self
            .last
            .is_none_or(|(at, took)| at.elapsed() >= WRITE_EVERY.max(took * WRITE_SHARE));
        if self.file.is_replaced() && is_due {
            return self.write(stats);
        }
        Ok(())
    }

    /// Writes what there is.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn write(&mut self, stats: &Stats) -> Result<(), OutputError> {
        let start = Instant::now();
        self.file.write(|w| w.write_all(&stats.json()?))?;
        self.last = Some((Instant::now(), start.elapsed()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::status;
    use brickmesh_topology::PixelRect;

    fn band(peers: &[&str], missing: &[VoxelBox]) -> FrameStats {
        let job = |peer: &&str| JobStats {
            brick: BrickIndex(0),
            owned: VoxelBox::new([0; 3], [8, 8, 8]),
            rect: PixelRect {
                x: 0,
                y: 0,
                width: 8,
                height: 8,
            },
            peer: PeerId::new(peer),
            stolen_from: (*peer == "b").then(|| PeerId::new("a")),
            estimate_micros: 5,
            measured_micros: Some(1500),
        };
        FrameStats {
            number: 7,
            failed_attempts: 0,
            total_micros: 4000,
            schedule_micros: 1,
            composite_micros: 2,
            bytes_sent: 1024,
            image_tile: None,
            predicted_micros: 3,
            forecasts: Vec::new(),
            accesses: BTreeMap::new(),
            missing: missing.to_vec(),
            jobs: peers.iter().map(job).collect(),
            trace: None,
        }
    }

    fn stats() -> Stats {
        let status = status();
        Stats::new(&status.data_sets[0].manifest.clone(), &status)
    }

    #[test]
    fn rows_add_up_whoever_rendered_and_whatever_they_are_called() {
        let mut stats = stats();
        for peer in stats.peers.values_mut() {
            peer.name = "lab".to_owned();
        }
        let late = band(&["a", "a", "b", "newcomer-1234"], &[]);
        assert!(stats.lacks_some_of(std::slice::from_ref(&late)));
        stats.add(0, &[late], Duration::ZERO);
        let table = stats.table();
        let rows = table.lines().skip(1).filter(|l| !l.starts_with("frame"));
        let jobs = rows.map(|l| {
            l.split_whitespace()
                .filter_map(|w| w.parse::<u64>().ok())
                .nth(1)
                .unwrap()
        });
        assert_eq!(jobs.sum::<u64>(), 4, "{table}");
        assert!(
            table.contains("lab (a)") && table.contains("lab (b)"),
            "{table}"
        );
        assert!(table.contains("4 jobs"), "{table}");
        let json: serde_json::Value = serde_json::from_slice(&stats.json().unwrap()).unwrap();
        let names: Vec<&str> = json["peers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["name"].as_str().unwrap())
            .collect();
        let jobs = json["frames"][0]["jobs"].as_array().unwrap();
        assert!(
            jobs.iter()
                .all(|j| names.contains(&j["peer"].as_str().unwrap()))
        );
        assert_eq!(jobs[2]["stolen_from"], "lab (a)");
        assert_eq!(
            (&json["frames"][0]["frame"], &json["frames"][0]["total_us"]),
            (&0.into(), &4000.into())
        );
    }

    #[test]
    fn bands_are_one_picture() {
        let mut stats = stats();
        let hole = VoxelBox::new([0; 3], [8, 8, 8]);
        let bands = [band(&["a"], &[hole]), band(&["b"], &[hole]), band(&[], &[])];
        stats.add(0, &bands, Duration::from_millis(9));
        assert_eq!((stats.frame_count(), stats.missing()), (1, &[hole][..]));
        let entry = &stats.frames[0];
        assert_eq!(
            (
                entry.times.total_us,
                entry.times.bytes_sent,
                entry.jobs.len()
            ),
            (9000, 3072, 2)
        );
    }

    #[test]
    fn the_file_is_there_after_the_first_picture() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.json");
        let mut file = StatsFile::check(&path).unwrap();
        let mut stats = stats();
        stats.add(0, &[band(&["a"], &[])], Duration::ZERO);
        file.write_if_due(&stats).unwrap();
        let frames = || {
            let json: serde_json::Value =
                serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            json["frames"].as_array().unwrap().len()
        };
        assert_eq!(frames(), 1);
        stats.add(0, &[band(&["b"], &[])], Duration::ZERO);
        file.write_if_due(&stats).unwrap();
        assert_eq!(frames(), 1, "not again at once");
        file.write(&stats).unwrap();
        assert_eq!(frames(), 2);
    }
}

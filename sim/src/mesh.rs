//! `sim mesh`: frames of a virtual mesh on a virtual clock. Machines run the state machines that real
//! peers run; only time, messages and devices are simulated. With `"chaos"` in the input all that can go
//! wrong does, by seed; without it the mesh is well but for the faults that the input names.
//!
//! What a job really costs is not what the plan expects: every brick has a cost of its own, drawn from
//! the seed, that only measuring shows; and a few per cent of noise on each job.

mod chaos;
mod report;
mod volume;

use crate::SimError;
use brickmesh_topology::{
    Camera, View,
    balance::{plan_rules::PlanRules, schedule::SPEED_ONE},
};
use chaos::{ChaosInput, ChaosReport};
use report::FrameReport;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor},
};
use std::fmt;

/// Most peers.
const PEERS_MAX: usize = 1024;
/// Most frames.
const FRAMES_MAX: u32 = 100_000;
/// Most faults, and most leaps of the camera: each frame looks at all.
const EVENTS_MAX: usize = 4096;
/// Longest time that can be given, microseconds: an hour, so that no sum of times overflows.
const TIME_MAX_MICROS: u64 = 3_600_000_000;
/// Longest id of a peer, in bytes: every frame's report may name all.
const ID_BYTES_MAX: usize = 256;

/// What is simulated.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// A list, or how many there are.
    #[serde(deserialize_with = "peers")]
    peers: Vec<PeerInput>,
    /// In place of the path's.
    #[serde(default)]
    frames: Option<u32>,
    /// What goes wrong; without it, faults are those of the list alone.
    #[serde(default)]
    chaos: Option<ChaosInput>,
    #[serde(default)]
    volume: volume::VolumeInput,
    #[serde(default)]
    path: PathInput,
    #[serde(default)]
    faults: Vec<FaultInput>,
    #[serde(default)]
    network: NetworkInput,
    #[serde(default)]
    rules: PlanRules,
    /// Whether rays go on from what jobs show, through other bricks; for rules that divide the picture.
    #[serde(default)]
    shadows: bool,
    #[serde(default = "two")]
    redundancy: u32,
    #[serde(default = "one")]
    seed: u64,
}

/// A machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerInput {
    id: String,
    /// Room in bricks.
    #[serde(default = "plenty")]
    capacity: u32,
    /// Bricks that its disk has room for.
    #[serde(default)]
    shelf: u32,
    /// 2 renders a job in half the time.
    #[serde(default = "unit")]
    speed: f64,
}

/// Reads a list of peers, or makes as many as a number says.
fn peers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PeerInput>, D::Error> {
    struct Peers;
    impl<'de> Visitor<'de> for Peers {
        type Value = Vec<PeerInput>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of peers, or how many there are")
        }

        fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Self::Value, E> {
            if count > PEERS_MAX as u64 {
                return Err(E::custom(format!(
                    "{count} peers; there may be {PEERS_MAX}"
                )));
            }
            let peer = |p: u64| PeerInput {
                id: format!("peer-{p:03}"),
                capacity: plenty(),
                shelf: 0,
                speed: unit(),
            };
            Ok((0..count).map(peer).collect())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut peers = Vec::new();
            while let Some(peer) = list.next_element()? {
                if peers.len() > PEERS_MAX {
                    return Err(A::Error::custom(format!("there may be {PEERS_MAX} peers")));
                }
                peers.push(peer);
            }
            Ok(peers)
        }
    }
    from.deserialize_any(Peers)
}

/// The camera's way: around the volume, with leaps.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PathInput {
    frames: u32,
    /// Degrees from frame to frame.
    spin: f64,
    zoom: f64,
    size: [u32; 2],
    /// Frames from which on the camera is twice as near, or as far as before, by turns.
    leaps: Vec<u32>,
}

/// Something that happens to a peer.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultInput {
    /// Frame in which it happens.
    frame: u32,
    /// Microseconds after that frame's start.
    #[serde(default)]
    after_us: u64,
    peer: String,
    kind: FaultKind,
    /// For `slow`: what is left of its speed.
    #[serde(default = "unit")]
    factor: f64,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum FaultKind {
    Slow,
    Crash,
}

/// What messages go through.
#[derive(Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NetworkInput {
    latency_us: u64,
    /// Up to this much later, by draw: messages overtake each other.
    jitter_us: u64,
    /// Share of the messages between thieves and victims that is lost, 0 to 1.
    loss: f64,
    /// Share that comes twice.
    doubled: f64,
}

impl Default for PathInput {
    fn default() -> Self {
        Self {
            frames: 100,
            spin: 3.6,
            zoom: 1.0,
            size: [512, 512],
            leaps: Vec::new(),
        }
    }
}

impl Default for NetworkInput {
    fn default() -> Self {
        Self {
            latency_us: 300,
            jitter_us: 200,
            loss: 0.0,
            doubled: 0.0,
        }
    }
}

/// A factor or a share in millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "checked to be 0 to 1000"
)]
fn millionths(value: f64) -> u64 {
    (value * SPEED_ONE as f64).round() as u64
}

fn one() -> u64 {
    1
}

fn two() -> u32 {
    2
}

fn plenty() -> u32 {
    u32::MAX
}

fn unit() -> f64 {
    1.0
}

/// What happened.
#[derive(Serialize)]
pub(crate) struct Output {
    frames: Vec<FrameReport>,
    totals: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    chaos: Option<ChaosReport>,
}

#[derive(Serialize)]
struct Totals {
    frames: usize,
    /// Frames that did not come.
    given_up: usize,
    mean_us: u64,
    worst_us: u64,
    /// Longest over mean load of the peers that took part, averaged over frames.
    max_over_mean: f64,
    stolen: usize,
    /// Jobs that were blended twice: never.
    rendered_twice: usize,
    missing: usize,
    /// Bricks that went from peer to peer; none without chaos.
    moved: usize,
}

/// Runs an input; `text` is what it was read from.
pub(crate) fn run(mut input: Input, text: &str) -> Result<Output, SimError> {
    input.path.frames = input.frames.unwrap_or(input.path.frames);
    check(&input)?;
    let volume = volume::manifest(&input.volume)?;
    let views = views(&input.path, volume.volume())?;
    chaos::run(&input, volume, views, text)
}

#[expect(clippy::cast_precision_loss, reason = "a mean for people")]
fn totals(frames: &[FrameReport]) -> Totals {
    let whole = frames.iter().filter(|f| !f.given_up);
    let count = whole.clone().count().max(1);
    Totals {
        frames: frames.len(),
        given_up: frames.iter().filter(|f| f.given_up).count(),
        mean_us: whole.clone().map(|f| f.total_us).sum::<u64>() / count as u64,
        worst_us: frames.iter().map(|f| f.total_us).max().unwrap_or(0),
        max_over_mean: whole.map(|f| f.max_over_mean).sum::<f64>() / count as f64,
        stolen: frames.iter().map(|f| f.stolen).sum(),
        rendered_twice: frames.iter().map(|f| f.rendered_twice).sum(),
        missing: frames.iter().map(|f| f.missing).sum(),
        moved: frames.iter().map(|f| f.moved).sum(),
    }
}

fn field(field: &str, found: impl ToString, expected: &str) -> SimError {
    SimError::Field {
        what: "mesh",
        field: field.to_owned(),
        found: found.to_string(),
        expected: expected.to_owned(),
    }
}

fn check(input: &Input) -> Result<(), SimError> {
    let n = input.peers.len();
    if !(1..=PEERS_MAX).contains(&n) {
        return Err(field("peers", n, "there must be 1 to 1024"));
    }
    let mut ids: Vec<&str> = input.peers.iter().map(|p| p.id.as_str()).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|p| p[0] == p[1]) {
        return Err(field("peers", pair[0], "each id must be there once"));
    }
    if let Some(long) = ids.iter().find(|id| id.len() > ID_BYTES_MAX) {
        return Err(field("id", long.len(), "bytes; it may have 256 at most"));
    }
    check_path(&input.path)?;
    check_times(input)?;
    let speeds = input.peers.iter().map(|p| ("speed", p.speed));
    let slow = input.faults.iter().map(|f| ("factor", f.factor));
    for (name, found) in speeds.chain(slow) {
        if !(1e-3..=1e3).contains(&found) {
            return Err(field(name, found, "it must be 0.001 to 1000"));
        }
    }
    let shares = [
        ("loss", input.network.loss),
        ("doubled", input.network.doubled),
    ];
    for (name, found) in shares {
        if !(0.0..=0.9).contains(&found) {
            return Err(field(name, found, "it must be 0 to 0.9"));
        }
    }
    for fault in &input.faults {
        if ids.binary_search(&fault.peer.as_str()).is_err() {
            return Err(field("faults", &fault.peer, "it must be the id of a peer"));
        }
    }
    Ok(())
}

fn check_path(path: &PathInput) -> Result<(), SimError> {
    if !(1..=FRAMES_MAX).contains(&path.frames) {
        return Err(field("frames", path.frames, "there must be 1 to 100000"));
    }
    if !(1e-3..=1e3).contains(&path.zoom) {
        return Err(field("zoom", path.zoom, "it must be 0.001 to 1000"));
    }
    if !(-360.0..=360.0).contains(&path.spin) {
        return Err(field("spin", path.spin, "it must be -360 to 360 degrees"));
    }
    if path.leaps.len() > EVENTS_MAX {
        return Err(field(
            "leaps",
            path.leaps.len(),
            "there may be 4096 at most",
        ));
    }
    Ok(())
}

fn check_times(input: &Input) -> Result<(), SimError> {
    if input.faults.len() > EVENTS_MAX {
        return Err(field(
            "faults",
            input.faults.len(),
            "there may be 4096 at most",
        ));
    }
    let network = &input.network;
    let times = [
        ("latency_us", network.latency_us),
        ("jitter_us", network.jitter_us),
        ("min_job_us", input.rules.min_job_micros),
    ];
    let after = input.faults.iter().map(|f| ("after_us", f.after_us));
    for (name, found) in times.into_iter().chain(after) {
        if found > TIME_MAX_MICROS {
            return Err(field(name, found, "it must be at most 3600000000, an hour"));
        }
    }
    Ok(())
}

fn views(
    path: &PathInput,
    volume: &brickmesh_topology::VolumeDescription,
) -> Result<Vec<View>, SimError> {
    let view = |n: u32| {
        let leaps = path.leaps.iter().filter(|&&l| l <= n).count();
        let zoom = if leaps % 2 == 1 {
            2.0 * path.zoom
        } else {
            path.zoom
        };
        Camera::orbit(volume, 30.0 + path.spin * f64::from(n), 25.0, zoom)
            .view(path.size[0], path.size[1])
            .map_err(|e| field("path", e, "it must show the volume"))
    };
    (0..path.frames).map(view).collect()
}

#[cfg(test)]
mod tests;

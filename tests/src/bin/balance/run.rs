//! One run of `render` through a mesh: its frames, when each was done, what each peer did.
//!
//! A frame is done when its picture is written. Two frames are under way at a time unless `--ahead` says otherwise, so a frame's
//! latency (`total_us`, from request to last tile) is longer than the time from frame to frame.

use crate::{Setting, figures::mean, held_mesh::HeldMesh};
use brickmesh_tests::lab::cpu_time;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant, SystemTime},
};

/// Frames that are not counted: the cost table is empty, buffers are cold.
pub(crate) const WARM_UP: usize = 3;
/// Between two looks at a run.
const POLL: Duration = Duration::from_millis(10);
/// How long a run may make no progress.
const STALL: Duration = Duration::from_secs(180);

/// A frame of a run.
#[derive(Clone, Debug)]
pub(crate) struct FrameFigures {
    /// From the frame before it, milliseconds; NaN for the first.
    pub(crate) interval_ms: f64,
    /// When its picture was there.
    pub(crate) done: SystemTime,
    /// From request to last tile, milliseconds.
    pub(crate) latency_ms: f64,
    pub(crate) schedule_ms: f64,
    /// Summed over compositors.
    pub(crate) composite_ms: f64,
    /// Between peers.
    pub(crate) kibibytes: f64,
    pub(crate) jobs: usize,
    pub(crate) stolen: usize,
    /// Attempts that failed before.
    pub(crate) failed: u32,
    /// The picture was divided.
    pub(crate) is_image: bool,
    /// Bricks that all peers needed, and those of them that were fetched.
    pub(crate) needed: f64,
    pub(crate) missed: f64,
    /// How often jobs acquired a brick.
    pub(crate) acquired: f64,
    /// How long a host waited for bricks, on average.
    pub(crate) waited_ms: f64,
    /// Parts that nobody could render.
    pub(crate) holes: usize,
    /// What each peer's jobs were measured to take.
    pub(crate) measured_ms: BTreeMap<String, f64>,
    /// Sum over jobs of how far the estimate was off, by the sum of what was measured.
    pub(crate) estimate_error: f64,
}

/// A finished run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) frames: Vec<FrameFigures>,
    /// How many runs these were; each begins with [`WARM_UP`] frames.
    rounds: usize,
    /// Processor time of each host's peer a frame, milliseconds, by kind of thread.
    pub(crate) peer_cpu_ms: Vec<BTreeMap<Work, f64>>,
    /// Processor time of the viewer a frame, milliseconds.
    pub(crate) viewer_cpu_ms: f64,
    /// Bricks that all peers held when its last round began, a copy counted each.
    pub(crate) copies: usize,
}

impl FrameFigures {
    /// What the busiest of so many hosts was measured to take, over the mean.
    pub(crate) fn busiest_over_mean(&self, hosts: usize) -> f64 {
        let busiest = self.measured_ms.values().copied().fold(0.0, f64::max);
        busiest * hosts as f64 / self.measured_ms.values().sum::<f64>()
    }
}

impl Run {
    /// The frames of each round.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = &[FrameFigures]> {
        self.frames.chunks(self.frames.len() / self.rounds)
    }

    /// The frames that count.
    pub(crate) fn warm(&self) -> impl Iterator<Item = &FrameFigures> {
        self.rounds().flat_map(|run| &run[WARM_UP..])
    }

    /// Adds a run to those of its kind: of as many frames on as many hosts.
    pub(crate) fn add_to<K: Ord>(self, runs: &mut BTreeMap<K, Self>, kind: K) {
        match runs.entry(kind) {
            Entry::Vacant(first) => drop(first.insert(self)),
            Entry::Occupied(mut all) => all.get_mut().add(self),
        }
    }

    /// Both, as one.
    fn add(&mut self, mut other: Self) {
        let (a, b) = (self.rounds as f64, other.rounds as f64);
        let mean = |mine: &mut f64, its: f64| *mine = (*mine * a + its * b) / (a + b);
        for (mine, its) in self.peer_cpu_ms.iter_mut().zip(&other.peer_cpu_ms) {
            for (work, time) in its {
                mean(mine.entry(*work).or_default(), *time);
            }
        }
        mean(&mut self.viewer_cpu_ms, other.viewer_cpu_ms);
        self.frames.append(&mut other.frames);
        self.rounds += other.rounds;
        self.copies = other.copies;
    }
}

/// What a thread of a peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// The CPU device's threads.
    Rays,
    /// The raycaster and the compositor: cutting, encoding, blending.
    Pixels,
    /// libp2p: encryption, streams, sockets.
    Network,
    /// All other actors: decoding, planning.
    Actors,
}

impl Work {
    /// By the name of the thread, as Linux cuts it.
    fn of(thread: &str) -> Self {
        match thread {
            name if name.starts_with("brickmesh-cpu") => Self::Rays,
            name if name.starts_with("brickmesh-net") => Self::Network,
            "main" => Self::Actors,
            _ => Self::Pixels,
        }
    }
}

#[derive(Deserialize)]
struct StatsFile {
    peers: Vec<StatsPeer>,
    frames: Vec<StatsFrame>,
}

#[derive(Deserialize)]
struct StatsPeer {
    bricks: Vec<u32>,
}

#[derive(Deserialize)]
struct StatsFrame {
    total_us: f64,
    schedule_us: f64,
    composite_us: f64,
    bytes_sent: f64,
    failed_attempts: u32,
    strategy: String,
    memory: Vec<StatsAccesses>,
    missing: Vec<serde::de::IgnoredAny>,
    jobs: Vec<StatsJob>,
}

#[derive(Deserialize)]
struct StatsAccesses {
    held: f64,
    cached: f64,
    missed: f64,
    acquired: f64,
    waited_us: f64,
}

#[derive(Deserialize)]
struct StatsJob {
    peer: String,
    estimate_us: f64,
    measured_us: Option<f64>,
    stolen_from: Option<String>,
}

/// A process that is killed where it is not waited for to its end.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None))
            && let Err(error) = self.0.kill().and_then(|()| self.0.wait())
        {
            eprintln!("the viewer stays: {error}");
        }
    }
}

/// Renders through the mesh. `more` are further arguments of `render`, with one camera a frame if
/// it has `--cameras`; `when_done` hears of the
/// count of frames that are done whenever it grows.
pub(crate) fn run(
    setting: &Setting,
    mesh: &HeldMesh,
    more: &[String],
    mut when_done: impl FnMut(usize) -> Result<(), String>,
) -> Result<Run, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (stats, log) = (folder.path().join("stats.json"), folder.path().join("log"));
    let log_file = File::create(&log).map_err(|e| e.to_string())?;
    let mut command = mesh.render();
    command
        .arg(&setting.volume)
        .args(["--size", &setting.size, "--shade", "on"])
        .args(&setting.render)
        .args(more)
        .arg("--out")
        .arg(folder.path().join("p.png"))
        .arg("--stats")
        .arg(&stats)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log_file);
    if !more.iter().any(|m| m == "--cameras") {
        command.args(["--frames", &setting.frames.to_string()]);
    }
    let mut viewer = Held(command.spawn().map_err(|e| e.to_string())?);
    let total = setting.frames as usize;
    let mut watch = Watch::new(folder.path());
    let (mut first, mut last) = (None, None);
    let status = loop {
        if watch.look() {
            when_done(watch.done)?;
            let now = || cpu_now(mesh, viewer.0.id(), watch.done);
            if first.is_none() && watch.done >= WARM_UP {
                first = Some(now()?);
            }
            // A frame before the end, while the viewer is surely there.
            if last.is_none() && watch.done + 1 >= total {
                last = Some(now()?);
            }
        }
        if let Some(status) = viewer.0.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if setting.stop.load(Ordering::Relaxed) {
            return Err("stopped".to_owned());
        }
        if watch.since.elapsed() > STALL {
            return Err(format!("no frame came for {} s", STALL.as_secs()));
        }
        thread::sleep(POLL);
    };
    let said = fs::read_to_string(&log).unwrap_or_default();
    if !status.success() {
        return Err(format!("render: {}", said.trim()));
    }
    let warnings = said.lines().filter(|l| l.contains("WARN")).count();
    if warnings > 0 {
        eprintln!(
            "render warned {warnings} times; first: {}",
            said.lines().next().unwrap_or("")
        );
    }
    let (peer_cpu_ms, viewer_cpu_ms) = cpu_per_frame(first, last);
    let (frames, copies) = figures_of(&stats, folder.path())?;
    Ok(Run {
        frames,
        rounds: 1,
        peer_cpu_ms,
        viewer_cpu_ms,
        copies,
    })
}

/// Which pictures are there.
struct Watch<'a> {
    folder: &'a Path,
    done: usize,
    since: Instant,
}

impl<'a> Watch<'a> {
    fn new(folder: &'a Path) -> Self {
        Self {
            folder,
            done: 0,
            since: Instant::now(),
        }
    }

    /// Whether more frames are done.
    fn look(&mut self) -> bool {
        let before = self.done;
        while picture(self.folder, self.done).exists() {
            self.done += 1;
        }
        if self.done > before {
            self.since = Instant::now();
        }
        self.done > before
    }
}

/// Where `render` puts a frame.
fn picture(folder: &Path, frame: usize) -> PathBuf {
    folder.join(format!("p-{frame:04}.png"))
}

/// Processor times at a count of frames.
struct CpuNow {
    done: usize,
    peers: Vec<BTreeMap<String, Duration>>,
    viewer: Duration,
}

fn cpu_now(mesh: &HeldMesh, viewer: u32, done: usize) -> Result<CpuNow, String> {
    Ok(CpuNow {
        done,
        peers: mesh.cpu_times()?,
        viewer: cpu_time(viewer)?,
    })
}

fn cpu_per_frame(first: Option<CpuNow>, last: Option<CpuNow>) -> (Vec<BTreeMap<Work, f64>>, f64) {
    let (Some(first), Some(last)) = (first, last) else {
        return (Vec::new(), f64::NAN);
    };
    let frames = (last.done - first.done) as f64;
    let a_frame = |before: Duration, after: Duration| {
        after.saturating_sub(before).as_secs_f64() * 1000.0 / frames
    };
    let peer = |(before, after): (&BTreeMap<String, _>, &BTreeMap<String, _>)| {
        let mut works = BTreeMap::new();
        for (name, &time) in after {
            let start = before.get(name).copied().unwrap_or_default();
            *works.entry(Work::of(name)).or_insert(0.0) += a_frame(start, time);
        }
        works
    };
    let peers = first.peers.iter().zip(&last.peers);
    let viewer = a_frame(first.viewer, last.viewer);
    (peers.map(peer).collect(), viewer)
}

/// The frames of a run, and [`Run::copies`].
fn figures_of(stats: &Path, folder: &Path) -> Result<(Vec<FrameFigures>, usize), String> {
    let error = |e: &dyn std::fmt::Display| format!("{}: {e}", stats.display());
    let text = fs::read(stats).map_err(|e| error(&e))?;
    let file: StatsFile = serde_json::from_slice(&text).map_err(|e| error(&e))?;
    let written = |frame| fs::metadata(picture(folder, frame)).and_then(|m| m.modified());
    let mut before = None;
    let mut frames = Vec::new();
    for (index, frame) in file.frames.iter().enumerate() {
        let done = written(index).map_err(|e: io::Error| format!("picture {index}: {e}"))?;
        let interval = before.and_then(|b| done.duration_since(b).ok());
        before = Some(done);
        frames.push(figures(frame, done, interval));
    }
    Ok((frames, file.peers.iter().map(|p| p.bricks.len()).sum()))
}

fn figures(frame: &StatsFrame, done: SystemTime, interval: Option<Duration>) -> FrameFigures {
    let mut measured_ms = BTreeMap::new();
    let (mut off, mut sum) = (0.0, 0.0);
    for job in &frame.jobs {
        let measured = job.measured_us.unwrap_or(0.0);
        *measured_ms.entry(job.peer.clone()).or_insert(0.0) += measured / 1000.0;
        off += (measured - job.estimate_us).abs();
        sum += measured;
    }
    FrameFigures {
        interval_ms: interval.map_or(f64::NAN, |i| i.as_secs_f64() * 1000.0),
        done,
        latency_ms: frame.total_us / 1000.0,
        schedule_ms: frame.schedule_us / 1000.0,
        composite_ms: frame.composite_us / 1000.0,
        kibibytes: frame.bytes_sent / 1024.0,
        jobs: frame.jobs.len(),
        stolen: frame
            .jobs
            .iter()
            .filter(|j| j.stolen_from.is_some())
            .count(),
        failed: frame.failed_attempts,
        is_image: frame.strategy == "image",
        needed: (frame.memory.iter().map(|m| m.held + m.cached + m.missed)).sum(),
        missed: frame.memory.iter().map(|m| m.missed).sum(),
        acquired: frame.memory.iter().map(|m| m.acquired).sum(),
        // 0 where nobody needed any.
        waited_ms: mean(frame.memory.iter().map(|m| m.waited_us / 1000.0)).max(0.0),
        holes: frame.missing.len(),
        measured_ms,
        estimate_error: off / sum,
    }
}

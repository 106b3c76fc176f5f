//! A lab in which machines come, go and die while a viewer on a host of its own asks for frames:
//! two are killed, one is frozen and thawed, one link is cut for three seconds, two join, one
//! leaves politely; in which order, when, and who, follows from a seed.
//!
//! Not here: a verdict on speed; [`Outcome`] says what was seen.

use crate::{
    compare::compare,
    lab::{Host, Lab, Wiring},
    program::{brickmesh, read_png},
};
use brickmesh_topology::base::seeded::Seeded;
use serde::Deserialize;
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Hosts with a peer at the start.
const HOSTS: usize = 6;
/// Hosts that join.
const JOINERS: usize = 2;
/// How long a host is frozen, a link is cut.
const PAUSE: Duration = Duration::from_secs(3);
/// How long copies may take to be restored after the last frame.
const RESTORED_MAX: Duration = Duration::from_secs(60);
/// Where the viewer's log goes.
const LOG: &str = "viewer.log";
/// Copies of each brick that are wanted.
const REDUNDANCY: u64 = 3;

/// What is run.
#[derive(Clone, Debug)]
pub struct Churn {
    /// Volume file.
    pub volume: PathBuf,
    /// Edge of its bricks, voxels.
    pub brick: u32,
    /// Picture size.
    pub size: String,
    /// Pictures.
    pub frames: u32,
    /// Fraction of a core of each host.
    pub share: f64,
    /// Who, when, in which order.
    pub seed: u64,
    /// From the first frame to the first event, and between events.
    pub every: Duration,
    /// Further arguments of the viewer's `brickmesh render`.
    pub render: Vec<String>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Kill,
    Freeze,
    Cut,
    Join,
    Leave,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What happened, for people.
    pub events: Vec<String>,
    /// Frames that came.
    pub frames: usize,
    /// Frames that took more than one attempt.
    pub repeated: usize,
    /// Frames with boxes missing.
    pub with_missing: usize,
    /// Largest difference to the single peer's pictures, of 255.
    pub difference_max: u8,
    /// Time of the frames, milliseconds: median and longest.
    pub median_ms: f64,
    /// See [`Self::median_ms`].
    pub longest_ms: f64,
    /// Copies of the scarcest brick at the end.
    pub copies_min: u64,
    /// How long the copies took to be restored after the last frame.
    pub restored_after: Option<Duration>,
}

impl Outcome {
    /// What is not as it must be; empty where all is.
    #[must_use]
    pub fn faults(&self, frames: u32, longest_ms: f64) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |is: bool, what: String| {
            if is {
                faults.push(what);
            }
        };
        fault(
            self.frames != frames as usize,
            format!("{} frames came, {frames} were asked for", self.frames),
        );
        fault(
            self.with_missing > 0,
            format!("{} frames have boxes missing", self.with_missing),
        );
        fault(
            self.difference_max > 1,
            format!("pictures differ by {}/255", self.difference_max),
        );
        fault(
            self.longest_ms > longest_ms,
            format!("a frame took {:.0} ms", self.longest_ms),
        );
        fault(
            self.restored_after.is_none(),
            format!("{} copies of some brick at the end", self.copies_min),
        );
        faults
    }
}

#[derive(Deserialize)]
struct Stats {
    frames: Vec<FrameStats>,
}

#[derive(Deserialize)]
struct FrameStats {
    total_us: u64,
    missing: Vec<serde_json::Value>,
    failed_attempts: u32,
}

/// The running lab.
struct Running {
    lab: Lab,
    /// Host and process of the peers that are there and well.
    well: Vec<(usize, u32)>,
    next_host: usize,
    draws: Seeded,
}

impl Churn {
    /// Runs it; `alone` has the pictures of one peer alone.
    ///
    /// # Errors
    /// What this machine cannot do, or what went wrong with the program.
    pub fn run(&self, alone: &Path) -> Result<Outcome, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let held = Host {
            cpu_share: Some(self.share),
            link_megabits: None,
        };
        let mut hosts = vec![held; HOSTS + JOINERS];
        hosts.push(Host::default());
        let mut running = Running {
            lab: Lab::with_hosts(&hosts, Wiring::Bridge)?,
            well: Vec::new(),
            next_host: 0,
            draws: Seeded::new(self.seed),
        };
        for _ in 0..HOSTS {
            running.start_peer()?;
        }
        let mut outcome = Outcome::default();
        let mut viewer = self.start_viewer(&running.lab, folder.path())?;
        let first = folder.path().join("mesh-0000.png");
        let said = wait_for(&first, &mut viewer)
            .and_then(|()| running.let_happen(self.every, &mut viewer));
        if said.is_err() {
            // It may have ended, which is then the reason.
            viewer.kill().map_err(|e| e.to_string())?;
        }
        let status = viewer.wait().map_err(|e| e.to_string())?;
        let log = || std::fs::read_to_string(folder.path().join(LOG)).unwrap_or_default();
        outcome.events = said.map_err(|why| format!("{why}\n{}", log()))?;
        if !status.success() {
            return Err(format!("the viewer ended with {status}:\n{}", log()));
        }
        self.look_at_frames(folder.path(), alone, &mut outcome)?;
        running.look_at_copies(&mut outcome)?;
        Ok(outcome)
    }

    fn render(&self, mut command: Command, folder: &Path, name: &str) -> Command {
        command
            .arg("render")
            .arg(&self.volume)
            .args(["--device", "cpu", "--shade", "on", "--size", &self.size])
            .args(["--frames", &self.frames.to_string(), "--out"])
            .arg(folder.join(format!("{name}.png")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Renders what one peer alone makes of it, whatever the seed.
    ///
    /// # Errors
    /// What went wrong with the program.
    pub fn render_alone(&self, folder: &Path) -> Result<(), String> {
        let mut command = self.render(Command::new(brickmesh()), folder, "alone");
        let output = command.output().map_err(|e| e.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("one peer alone: {}", text(&output)))
        }
    }

    fn start_viewer(&self, lab: &Lab, folder: &Path) -> Result<Child, String> {
        let command = lab.command(HOSTS + JOINERS, brickmesh());
        let mut command = self.render(command, folder, "mesh");
        command
            .args(["--mesh", "--memory", "1"])
            .args(["--wait-peers", &HOSTS.to_string()])
            .args(["--brick", &self.brick.to_string()])
            .args(["--redundancy", &REDUNDANCY.to_string()])
            .arg("--stats")
            .arg(folder.join("stats.json"))
            .args(&self.render)
            .stderr(File::create(folder.join(LOG)).map_err(|e| e.to_string())?);
        command.spawn().map_err(|e| e.to_string())
    }

    fn look_at_frames(
        &self,
        folder: &Path,
        alone: &Path,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let stats = std::fs::read(folder.join("stats.json")).map_err(|e| e.to_string())?;
        let stats: Stats = serde_json::from_slice(&stats).map_err(|e| e.to_string())?;
        let mut times: Vec<u64> = stats.frames.iter().map(|f| f.total_us).collect();
        times.sort_unstable();
        let ms = |at: usize| times.get(at).map_or(0.0, |&us| us as f64 / 1000.0);
        outcome.frames = stats.frames.len();
        outcome.median_ms = ms(times.len() / 2);
        outcome.longest_ms = ms(times.len().saturating_sub(1));
        let repeated = stats.frames.iter().filter(|f| f.failed_attempts > 0);
        outcome.repeated = repeated.count();
        let missing = stats.frames.iter().filter(|f| !f.missing.is_empty());
        outcome.with_missing = missing.count();
        for n in 0..stats.frames.len() {
            let expected = read_png(&alone.join(format!("alone-{n:04}.png"))).2;
            let found = read_png(&folder.join(format!("mesh-{n:04}.png"))).2;
            let difference = compare(&expected, &found);
            outcome.difference_max = outcome.difference_max.max(difference.max);
        }
        Ok(())
    }
}

impl Running {
    fn start_peer(&mut self) -> Result<(), String> {
        let host = self.next_host;
        let mut command = self.lab.command(host, brickmesh());
        command
            .args(["peer", "--device", "cpu", "--memory", "1G"])
            .args(["--name", &format!("host-{host}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let pid = self.lab.spawn(&mut command)?;
        self.next_host += 1;
        self.well.push((host, pid));
        Ok(())
    }

    /// Lets everything happen, in an order by seed, while the viewer runs.
    fn let_happen(&mut self, every: Duration, viewer: &mut Child) -> Result<Vec<String>, String> {
        let mut events = [
            Event::Kill,
            Event::Kill,
            Event::Freeze,
            Event::Cut,
            Event::Join,
            Event::Join,
            Event::Leave,
        ];
        self.draws.shuffle(&mut events);
        let mut said = Vec::new();
        let start = Instant::now();
        for (n, event) in (1..).zip(events) {
            let early = self.draws.below(500);
            let due = start + every * n - Duration::from_millis(early);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if viewer.try_wait().map_err(|e| e.to_string())?.is_some() {
                return Err(format!(
                    "the viewer had ended before all had happened: {said:?}; more frames, or less time between events"
                ));
            }
            said.push(format!(
                "{:.1} s: {}",
                start.elapsed().as_secs_f64(),
                self.happen(event)?
            ));
        }
        Ok(said)
    }

    fn happen(&mut self, event: Event) -> Result<String, String> {
        if event == Event::Join {
            self.start_peer()?;
            return Ok(format!("host {} joins", self.next_host - 1));
        }
        let at = self.draws.below(self.well.len() as u64);
        let at = usize::try_from(at).map_err(|e| e.to_string())?;
        let (host, pid) = self.well[at];
        let what = match event {
            Event::Kill => {
                self.well.remove(at);
                self.lab.signal(pid, "KILL")?;
                "is killed"
            }
            Event::Leave => {
                self.well.remove(at);
                self.lab.signal(pid, "TERM")?;
                "leaves"
            }
            Event::Freeze => {
                self.lab.signal(pid, "STOP")?;
                thread::sleep(PAUSE);
                self.lab.signal(pid, "CONT")?;
                "was frozen for 3 s"
            }
            _ => {
                self.lab.set_link(host, false)?;
                thread::sleep(PAUSE);
                self.lab.set_link(host, true)?;
                "had its link cut for 3 s"
            }
        };
        Ok(format!("host {host} {what}"))
    }

    /// Waits until every brick has its copies again, as a newcomer sees it.
    fn look_at_copies(&self, outcome: &mut Outcome) -> Result<(), String> {
        let start = Instant::now();
        while start.elapsed() < RESTORED_MAX {
            let asked = ["status", "--json", "--seconds", "3"];
            let output = self.lab.run(HOSTS + JOINERS, &asked);
            let status: serde_json::Value =
                serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
            let copies = &status["data_sets"][0]["redundancy_min"];
            outcome.copies_min = copies.as_u64().unwrap_or(0);
            if outcome.copies_min >= REDUNDANCY {
                outcome.restored_after = Some(start.elapsed());
                return Ok(());
            }
        }
        Ok(())
    }
}

fn wait_for(file: &Path, viewer: &mut Child) -> Result<(), String> {
    let start = Instant::now();
    while !file.exists() {
        if viewer.try_wait().map_err(|e| e.to_string())?.is_some() {
            return Err("it ended before its first frame".to_owned());
        }
        if start.elapsed() > RESTORED_MAX {
            return Err("no frame came within a minute".to_owned());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

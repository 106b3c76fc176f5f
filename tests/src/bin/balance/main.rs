//! Measures how the work of frames is balanced among hosts that are held to a share of a core: on
//! one machine, with the real program, real links and a real volume. Markdown tables come out.
//!
//! `cargo run --release -p brickmesh-tests --bin balance -- all --volume F`
//!
//! Not here: a verdict. Figures depend on the machine; they are read by people.

mod ahead;
mod edits;
mod figures;
mod held_mesh;
mod leap;
mod run;
mod slow_host;
mod speed_up;
mod strategies;

use brickmesh_tests::program::brickmesh;
use clap::{Parser, ValueEnum};
use std::{
    iter,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Volume that is taken from the folder of sample volumes.
const SAMPLE: &str = "bonsai_256x256x256_uint8.raw.gz";
/// Names the folder of sample volumes, as for the tests.
const SAMPLES: &str = "BRICKMESH_VOLUMES";

/// Measures a mesh of slow hosts on this machine. Needs root, as it makes network namespaces.
#[derive(Debug, Parser)]
struct Args {
    /// What to measure
    #[arg(value_enum, default_value = "all")]
    what: What,
    /// Volume [default: the bonsai in the folder that BRICKMESH_VOLUMES names]
    #[arg(long)]
    volume: Option<PathBuf>,
    /// Pictures of a run
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(20..=10_000))]
    frames: u32,
    /// Picture size in pixels
    #[arg(long, default_value = "512x512")]
    size: String,
    /// Hosts, besides the viewer's
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    hosts: u32,
    /// Counts of hosts for the speed-up [default: 1, 2, 4, … to --hosts]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    host_counts: Vec<u32>,
    /// Fraction of a core that each host is held to
    #[arg(long, default_value_t = 0.2)]
    share: f64,
    /// Fraction of a core that the viewer's host is held to
    #[arg(long, default_value_t = 1.0)]
    viewer_share: f64,
    /// Rate that each host's link is held to, in megabits a second [default: not held]
    #[arg(long)]
    link_megabits: Option<u32>,
    /// Memory that each host gives to bricks
    #[arg(long, default_value = "1G")]
    peer_memory: String,
    /// Another build of the program, measured in turn with this one (speed-up, edits)
    #[arg(long, value_name = "PROGRAM")]
    with: Option<PathBuf>,
    /// How often each side is measured where two are compared
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Further arguments of `brickmesh render`, after `--`
    #[arg(last = true)]
    render: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Frame time of 1, 2, 4, … hosts
    SpeedUp,
    /// Frame rate by how many frames are under way at a time
    Ahead,
    /// One host gets slow in the middle of a run
    SlowHost,
    /// The camera leaps; stealing off and on
    Leap,
    /// One copy of each brick, and edits that show others: the first frames of each, and the last, when peers with less work have copies
    Edits,
    /// What is divided, volume or picture, on a path of views that favour each: give --peer-memory, and links held to a rate
    Strategies,
    /// All of these
    All,
}

/// What all measurements share.
#[derive(Clone, Debug)]
struct Setting {
    volume: PathBuf,
    /// The program of all hosts.
    program: PathBuf,
    /// Another one that is measured in turn with it.
    with: Option<PathBuf>,
    frames: u32,
    size: String,
    hosts: usize,
    host_counts: Vec<usize>,
    share: f64,
    viewer_share: f64,
    link_megabits: Option<u32>,
    peer_memory: String,
    /// How peers get bricks for a picture that they do not hold.
    sharing: &'static str,
    rounds: u32,
    render: Vec<String>,
    /// Set by Ctrl-C: everything that waits gives up, and takes down what it made.
    stop: Arc<AtomicBool>,
}

impl Setting {
    fn of(args: Args, stop: Arc<AtomicBool>) -> Result<Self, String> {
        let volume = match (args.volume, std::env::var_os(SAMPLES)) {
            (Some(volume), _) => volume,
            (None, Some(folder)) => PathBuf::from(folder).join(SAMPLE),
            (None, None) => return Err(format!("give --volume F, or set {SAMPLES}")),
        };
        if !volume.exists() {
            return Err(format!("{}: no such volume", volume.display()));
        }
        let host_counts = if args.host_counts.is_empty() {
            let doubled = |n: &u32| n.checked_mul(2).filter(|&n| n <= args.hosts);
            iter::successors(Some(1), doubled).collect()
        } else {
            args.host_counts
        };
        Ok(Self {
            volume,
            program: brickmesh().to_owned(),
            with: args.with,
            frames: args.frames,
            size: args.size,
            hosts: args.hosts as usize,
            host_counts: host_counts.into_iter().map(|n| n as usize).collect(),
            share: args.share,
            viewer_share: args.viewer_share,
            link_megabits: args.link_megabits,
            peer_memory: args.peer_memory,
            sharing: "auto",
            rounds: args.rounds,
            render: args.render,
            stop,
        })
    }

    /// The settings of the programs to measure in turn, and how often.
    fn sides(&self) -> (Vec<Self>, u32) {
        let programs = iter::once(&self.program).chain(&self.with);
        let sides = programs.map(|program| Self {
            program: program.clone(),
            ..self.clone()
        });
        // One alone is not compared.
        let rounds = if self.with.is_some() { self.rounds } else { 1 };
        (sides.collect(), rounds)
    }

    /// What was measured on what, for the reader of the tables.
    fn words(&self) -> String {
        let name = self.volume.file_name().unwrap_or_default();
        let link = self.link_megabits.map_or_else(
            || "links not held".to_owned(),
            |rate| format!("links held to {rate} Mbit/s"),
        );
        let more = match self.render.join(" ") {
            more if more.is_empty() => more,
            more => format!(", `{more}`"),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "{}, {}, shaded, {} frames{more}; an orbit and two copies of each brick where nothing else is said. Each host: a network \
             namespace held to {:.0} % of a core, CPU device; {link}. The frames are asked for by a further host, held to {:.0} % of \
             a core, that holds no bricks and renders nothing. All on one machine of {cores} cores.",
            name.display(),
            self.size,
            self.frames,
            self.share * 100.0,
            self.viewer_share * 100.0,
        )
    }
}

fn measure(args: Args) -> Result<(), String> {
    let stop = Arc::new(AtomicBool::new(false));
    let said = Arc::clone(&stop);
    ctrlc::set_handler(move || said.store(true, Ordering::Relaxed)).map_err(|e| e.to_string())?;
    let what = args.what;
    let setting = Setting::of(args, stop)?;
    println!("{}\n", setting.words());
    let wanted = |one| what == one || what == What::All;
    if wanted(What::SpeedUp) {
        speed_up::measure(&setting)?;
    }
    if wanted(What::Ahead) {
        ahead::measure(&setting)?;
    }
    if wanted(What::SlowHost) {
        slow_host::measure(&setting)?;
    }
    if wanted(What::Leap) {
        leap::measure(&setting)?;
    }
    if wanted(What::Edits) {
        edits::measure(&setting)?;
    }
    if wanted(What::Strategies) {
        strategies::measure(&setting)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match measure(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("balance: {error}");
            ExitCode::FAILURE
        }
    }
}

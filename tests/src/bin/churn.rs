//! Runs a lab in which machines come, go and die, seed after seed, and prints what was seen.
//!
//! `cargo run --release -p brickmesh-tests --bin churn -- --volume F --seeds 10`

use brickmesh_tests::churn::Churn;
use clap::Parser;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Lets machines come, go and die while frames are rendered. Needs root, as it makes network
/// namespaces.
#[derive(Debug, Parser)]
struct Args {
    /// Volume
    #[arg(long)]
    volume: PathBuf,
    /// Edge of its bricks in voxels
    #[arg(long, default_value_t = 64)]
    brick: u32,
    /// Picture size in pixels
    #[arg(long, default_value = "512x512")]
    size: String,
    /// Pictures of a run
    #[arg(long, default_value_t = 300)]
    frames: u32,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, one run each
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Fraction of a core that each host is held to
    #[arg(long, default_value_t = 0.2)]
    share: f64,
    /// Seconds between two events
    #[arg(long, default_value_t = 12)]
    every: u64,
    /// Longest time that a frame may take, milliseconds
    #[arg(long, default_value_t = 2000.0)]
    longest_ms: f64,
    /// Further arguments of the viewer's `brickmesh render`, after `--`
    #[arg(last = true)]
    render: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all seeds; returns whether all was as it must be.
fn run(args: &Args) -> Result<bool, String> {
    let mut all_good = true;
    let alone = tempfile::tempdir().map_err(|e| e.to_string())?;
    args.churn(args.seed).render_alone(alone.path())?;
    println!(
        "| seed | frames | repeated | median ms | longest ms | difference / 255 | copies at least | restored after s |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        match args.churn(seed).run(alone.path()) {
            Ok(o) => {
                let restored = o
                    .restored_after
                    .map_or("never".to_owned(), |t| format!("{:.0}", t.as_secs_f64()));
                println!(
                    "| {seed} | {} | {} | {:.0} | {:.0} | {} | {} | {restored} |",
                    o.frames, o.repeated, o.median_ms, o.longest_ms, o.difference_max, o.copies_min
                );
                eprintln!("seed {seed}: {}", o.events.join("; "));
                for fault in o.faults(args.frames, args.longest_ms) {
                    eprintln!("seed {seed}: NOT AS IT MUST BE: {fault}");
                    all_good = false;
                }
            }
            Err(why) => {
                eprintln!("seed {seed}: {why}");
                all_good = false;
            }
        }
    }
    Ok(all_good)
}

impl Args {
    fn churn(&self, seed: u64) -> Churn {
        Churn {
            volume: self.volume.clone(),
            brick: self.brick,
            size: self.size.clone(),
            frames: self.frames,
            share: self.share,
            seed,
            every: Duration::from_secs(self.every),
            render: self.render.clone(),
        }
    }
}

//! Frame time of 1, 2, 4, … hosts, and where it goes.

use crate::{
    Setting,
    figures::{mean, median},
    held_mesh::HeldMesh,
    run::{FrameFigures, Run, Work, run},
};
use std::collections::BTreeMap;

/// Measures and prints.
pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let (sides, rounds) = setting.sides();
    let mut sides: Vec<Side> = sides.into_iter().map(|s| (s, BTreeMap::new())).collect();
    for round in 1..=rounds {
        for (side, runs) in &mut sides {
            for &hosts in &setting.host_counts {
                eprintln!(
                    "round {round}, {}, hosts: {hosts} …",
                    side.program.display()
                );
                let mesh = HeldMesh::new(side, hosts)?;
                run(side, &mesh, &[], |_| Ok(()))?.add_to(runs, hosts);
            }
        }
    }
    for (side, runs) in &sides {
        if sides.len() > 1 {
            println!("## {}: {rounds} rounds\n", side.program.display());
        }
        print_times(runs);
        print_causes(runs);
        print_cpu(runs);
    }
    Ok(())
}

/// A build of the program, and its runs by count of hosts.
type Side = (Setting, BTreeMap<usize, Run>);

fn print_times(runs: &BTreeMap<usize, Run>) {
    let Some((_, one)) = runs.first_key_value() else {
        return;
    };
    let interval = |run: &Run| median(run.warm().map(|f| f.interval_ms));
    let latency = |run: &Run| median(run.warm().map(|f| f.latency_ms));
    println!("### Speed-up\n");
    println!(
        "| hosts | frame to frame, ms: median | mean | speed-up | latency, ms: median | mean | speed-up |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (hosts, run) in runs {
        println!(
            "| {hosts} | {:.1} | {:.1} | {:.2} | {:.1} | {:.1} | {:.2} |",
            interval(run),
            mean(run.warm().map(|f| f.interval_ms)),
            interval(one) / interval(run),
            latency(run),
            mean(run.warm().map(|f| f.latency_ms)),
            latency(one) / latency(run),
        );
    }
    println!();
}

/// Per frame: jobs, how evenly they were dealt, how well they were foreseen.
fn print_causes(runs: &BTreeMap<usize, Run>) {
    println!("### Jobs of a frame, medians\n");
    println!(
        "| hosts | jobs | measured ms, all | dearest host / mean | estimates off by | schedule ms | blending ms, all | KiB sent | failed attempts |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (hosts, run) in runs {
        let of = |figure: &dyn Fn(&FrameFigures) -> f64| median(run.warm().map(figure));
        let all = |f: &FrameFigures| f.measured_ms.values().sum::<f64>();
        let dearest = |f: &FrameFigures| f.busiest_over_mean(*hosts);
        println!(
            "| {hosts} | {} | {:.1} | {:.2} | {:.0} % | {:.2} | {:.1} | {:.0} | {} |",
            of(&|f| f.jobs as f64),
            of(&all),
            of(&dearest),
            100.0 * of(&|f| f.estimate_error),
            of(&|f| f.schedule_ms),
            of(&|f| f.composite_ms),
            of(&|f| f.kibibytes),
            run.frames.iter().map(|f| f.failed).sum::<u32>(),
        );
    }
    println!();
}

/// Per frame: processor time, which is what hosts are held to.
fn print_cpu(runs: &BTreeMap<usize, Run>) {
    println!("### Processor time of a frame, ms, all hosts\n");
    println!(
        "| hosts | rays | pixels | network | actors | together | dearest host / mean | viewer |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (hosts, run) in runs {
        let peers = &run.peer_cpu_ms;
        let of = |work| -> f64 { peers.iter().filter_map(|p| p.get(&work)).sum() };
        let each: Vec<f64> = peers.iter().map(|p| p.values().sum()).collect();
        let all: f64 = each.iter().sum();
        println!(
            "| {hosts} | {:.1} | {:.1} | {:.1} | {:.1} | {all:.1} | {:.2} | {:.1} |",
            of(Work::Rays),
            of(Work::Pixels),
            of(Work::Network),
            of(Work::Actors),
            each.iter().copied().fold(0.0, f64::max) * *hosts as f64 / all,
            run.viewer_cpu_ms,
        );
    }
    println!();
}

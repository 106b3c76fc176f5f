//! Frame time of 1, 2, 4, … hosts, and where it goes.

use crate::{
    Setting,
    figures::{mean, median},
    held_mesh::HeldMesh,
    run::{Run, run},
};

/// Measures and prints.
pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let mut runs: Vec<(usize, Run)> = Vec::new();
    let mut hosts = 1;
    while hosts <= setting.hosts {
        eprintln!("{hosts} hosts …");
        let mesh = HeldMesh::new(setting, hosts)?;
        runs.push((hosts, run(setting, &mesh, &[], |_| Ok(()))?));
        hosts *= 2;
    }
    print_times(&runs);
    print_causes(&runs);
    Ok(())
}

fn print_times(runs: &[(usize, Run)]) {
    let Some((_, one)) = runs.first() else {
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

/// Per frame: what was measured of jobs, how evenly, and processor time.
fn print_causes(runs: &[(usize, Run)]) {
    println!("### Where it goes, medians of a frame\n");
    println!(
        "| hosts | jobs | schedule ms | blending ms, all | KiB sent | jobs measured ms, all | dearest host / mean | estimates off by | CPU ms, hosts | dearest / mean | CPU ms, viewer | failed attempts |"
    );
    println!(
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for (hosts, run) in runs {
        let of = |figure: &dyn Fn(&crate::run::FrameFigures) -> f64| median(run.warm().map(figure));
        let all = |f: &crate::run::FrameFigures| f.measured_ms.values().sum::<f64>();
        let dearest = |f: &crate::run::FrameFigures| {
            f.measured_ms.values().copied().fold(0.0, f64::max) * *hosts as f64 / all(f)
        };
        let cpu: f64 = run.peer_cpu_ms.iter().sum();
        let cpu_max = run.peer_cpu_ms.iter().copied().fold(0.0, f64::max);
        println!(
            "| {hosts} | {} | {:.2} | {:.1} | {:.0} | {:.1} | {:.2} | {:.0} % | {cpu:.1} | {:.2} | {:.1} | {} |",
            of(&|f| f.jobs as f64),
            of(&|f| f.schedule_ms),
            of(&|f| f.composite_ms),
            of(&|f| f.kibibytes),
            of(&all),
            of(&dearest),
            100.0 * of(&|f| f.estimate_error),
            cpu_max * *hosts as f64 / cpu,
            run.viewer_cpu_ms,
            run.frames.iter().map(|f| f.failed).sum::<u32>(),
        );
    }
    println!();
}

//! Frame rate by how many frames are under way at a time, beside what one host alone takes for its part of a
//! frame: where frames are under way together, the slowest renders without a break.

use crate::{
    Setting,
    figures::{mean, median},
    held_mesh::HeldMesh,
    run::{Run, Work, run},
};
use std::collections::BTreeMap;

/// Frames under way that are measured, in turn.
const AHEAD: [u8; 4] = [1, 2, 3, 4];

/// Measures and prints.
pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let mesh = HeldMesh::new(setting, setting.hosts)?;
    let mut runs = BTreeMap::<u8, Run>::new();
    for round in 1..=setting.rounds {
        for ahead in AHEAD {
            eprintln!("round {round}, frames under way: {ahead} …");
            let more = ["--ahead".to_owned(), ahead.to_string()];
            run(setting, &mesh, &more, |_| Ok(()))?.add_to(&mut runs, ahead);
        }
    }
    println!("### Frames under way, {} hosts\n", mesh.hosts());
    println!(
        "| frames under way | frames a second | frame to frame, ms: mean | latency, ms: median | slowest host: rays, ms | with all that it does besides | frame to frame / that |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (ahead, run) in &runs {
        let interval = mean(run.warm().map(|f| f.interval_ms));
        // What a host held to its share takes for its processor time.
        let slowest = |of: &dyn Fn(&BTreeMap<Work, f64>) -> f64| {
            run.peer_cpu_ms.iter().map(of).fold(0.0, f64::max) / setting.share
        };
        let all = slowest(&|peer| peer.values().sum());
        println!(
            "| {ahead} | {:.2} | {interval:.0} | {:.0} | {:.0} | {all:.0} | {:.2} |",
            1000.0 / interval,
            median(run.warm().map(|f| f.latency_ms)),
            slowest(&|peer| peer.get(&Work::Rays).copied().unwrap_or(0.0)),
            interval / all,
        );
    }
    println!();
    Ok(())
}

//! One host gets a quarter of its share in the middle of a run: how long until frames take what
//! the remaining capacity allows.

use crate::{
    Setting,
    figures::median,
    held_mesh::{HeldMesh, peer_name},
    run::{FrameFigures, Run, run},
};
use std::time::SystemTime;

/// The host that gets slow.
const SLOW: usize = 3;
/// What is left of its share.
const LEFT: f64 = 0.25;
/// Frames before and after the cut that are printed.
const AROUND: [usize; 2] = [5, 20];
/// Frames after the cut until the mesh should have settled.
const SETTLED: usize = 5;
/// A frame has recovered where it takes at most so much of the ideal.
const RECOVERED: f64 = 1.25;

/// Measures and prints.
pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let mesh = HeldMesh::new(setting, setting.hosts)?;
    let slow = SLOW.min(setting.hosts - 1);
    let cut_after = setting.frames as usize * 2 / 5;
    eprintln!(
        "{} hosts; one gets slow after frame {cut_after} …",
        setting.hosts
    );
    let mut cut = None;
    let measured = run(setting, &mesh, &[], |done| {
        if cut.is_none() && done > cut_after {
            mesh.set_share(slow, setting.share * LEFT)?;
            cut = Some(SystemTime::now());
        }
        Ok(())
    })?;
    let cut = cut.ok_or("the run ended before the cut")?;
    print(setting, &measured, cut, slow);
    Ok(())
}

fn print(setting: &Setting, run: &Run, cut: SystemTime, slow: usize) {
    // The first frame that was done after the cut.
    let first = run.frames.iter().take_while(|f| f.done <= cut).count();
    println!("### A host gets slow\n");
    println!(
        "{} of {} hosts is cut to a quarter of its share before frame {first} is done.\n",
        peer_name(slow),
        setting.hosts
    );
    let left = setting.hosts as f64 / (setting.hosts as f64 - (1.0 - LEFT));
    for (what, time) in [
        (
            "from frame to frame",
            (|f| f.interval_ms) as fn(&FrameFigures) -> f64,
        ),
        ("latency", |f| f.latency_ms),
    ] {
        let before = &run.frames[crate::run::WARM_UP.min(first)..first];
        let steady = median(before.iter().map(time));
        let limit = RECOVERED * steady * left;
        let after = &run.frames[(first + SETTLED).min(run.frames.len())..];
        let above = |frames: &[FrameFigures], limit: f64| {
            let slow = frames.iter().filter(|f| time(f) > limit).count();
            format!("{slow} of {} frames", frames.len())
        };
        println!(
            "- {what}: before the cut {steady:.1} ms, ideal after it {:.1} ms, limit {limit:.1} ms. \
             From the {SETTLED}th frame after the cut on: {:.1} ms; {} are above the limit (before \
             the cut, {} were above {RECOVERED} times their median).",
            steady * left,
            median(after.iter().map(time)),
            above(after, limit),
            above(before, RECOVERED * steady),
        );
    }
    println!(
        "\n| frame | after the cut | frame to frame ms | latency ms | slow host's jobs ms | others' jobs ms, mean | stolen jobs |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let shown = first.saturating_sub(AROUND[0])..(first + AROUND[1]).min(run.frames.len());
    for index in shown {
        let f = &run.frames[index];
        let of_slow = f.measured_ms.get(&peer_name(slow)).copied().unwrap_or(0.0);
        let others = f.measured_ms.values().sum::<f64>() - of_slow;
        println!(
            "| {index} | {} | {:.1} | {:.1} | {of_slow:.1} | {:.1} | {} |",
            index as i64 - first as i64,
            f.interval_ms,
            f.latency_ms,
            others / (setting.hosts as f64 - 1.0),
            f.stolen
        );
    }
    println!();
}

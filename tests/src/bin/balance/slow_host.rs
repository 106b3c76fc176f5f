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
        let steady = median(
            run.frames[..first]
                .iter()
                .skip(crate::run::WARM_UP)
                .map(time),
        );
        let limit = RECOVERED * steady * left;
        let after = &run.frames[first..];
        let within = after.iter().position(|f| time(f) <= limit);
        let late: Vec<usize> = (0..after.len())
            .filter(|&i| time(&after[i]) > limit)
            .collect();
        let words =
            |at: Option<usize>| at.map_or("never".to_owned(), |n| format!("after {n} frames"));
        let stays = late
            .last()
            .map_or(Some(0), |&l| Some(l + 1).filter(|&n| n < after.len()));
        println!(
            "- {what}: before {steady:.1} ms, ideal after {:.1} ms, limit {limit:.1} ms; within it {}, \
             to stay {}; {} of {} frames after the cut are above it; their median is {:.1} ms.",
            steady * left,
            words(within),
            words(stays),
            late.len(),
            after.len(),
            median(after.iter().map(time)),
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

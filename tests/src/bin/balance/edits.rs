//! One copy of each brick, cut as a kd-tree, and one edit of the transfer function after the other, each looked at from
//! where the camera stands: the first frames, in which peers with less work begin to copy bricks of the others, and the last.

use crate::{
    Setting,
    figures::{mean, median},
    held_mesh::HeldMesh,
    run::{FrameFigures, Run, WARM_UP, run},
};
use std::{collections::BTreeMap, ops::Range};

/// Windows of stored values that the transfer function is stretched over, in turn. Of the bonsai: leaves and soil, wood and
/// pot, the pot, all, the trunk, leaves.
const WINDOWS: [[u32; 2]; 6] = [
    [40, 90],
    [90, 180],
    [150, 255],
    [5, 255],
    [70, 110],
    [30, 60],
];
/// Frames right after an edit, and at the end, that are compared.
const COMPARED: usize = 6;
/// What `render` is told where the user says nothing else: how the bricks lie at first, where the camera stands, what is seen.
const ARGUMENTS: [[&str; 2]; 5] = [
    ["--placement", "kd-tree"],
    ["--redundancy", "1"],
    ["--brick", "32"],
    ["--spin", "0"],
    ["--transfer", "structure"],
];

/// Measures and prints.
pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let (sides, rounds) = setting.sides();
    let mut runs = BTreeMap::<(usize, usize), Run>::new();
    for round in 1..=rounds {
        for (s, side) in sides.iter().enumerate() {
            // One mesh for all edits of a round: what one of them had copied is there for the next.
            let mesh = HeldMesh::new(side, setting.hosts)?;
            for (w, [low, high]) in WINDOWS.into_iter().enumerate() {
                eprintln!(
                    "round {round}, {}: {low} to {high} …",
                    side.program.display()
                );
                let range = format!("{low},{high}");
                let is_given = |of: &[&str; 2]| setting.render.iter().any(|given| given == of[0]);
                let more = ARGUMENTS.iter().filter(|of| !is_given(of)).flatten();
                let more = more.copied().chain(["--transfer-range", &*range]);
                let more: Vec<String> = more.map(str::to_owned).collect();
                run(side, &mesh, &more, |_| Ok(()))?.add_to(&mut runs, (s, w));
            }
        }
    }
    for (s, side) in sides.iter().enumerate() {
        println!(
            "### Edits, one copy of each brick, the camera at rest: {}, {rounds} rounds\n",
            side.program.display()
        );
        println!(
            "| values | ms from frame to frame: at first | at the end | busiest host / mean: at first | at the end | copies held when the edit came |"
        );
        println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
        for (w, window) in WINDOWS.into_iter().enumerate() {
            print(setting, &runs[&(s, w)], window);
        }
        println!();
    }
    Ok(())
}

fn print(setting: &Setting, run: &Run, [low, high]: [u32; 2]) {
    let rounds: Vec<&[FrameFigures]> = run.rounds().collect();
    let part = |range: fn(usize) -> Range<usize>| {
        let frames = rounds.iter().flat_map(|r| &r[range(r.len())]);
        let busiest = frames.clone().map(|f| f.busiest_over_mean(setting.hosts));
        (median(frames.map(|f| f.interval_ms)), mean(busiest))
    };
    let first = part(|_| WARM_UP..WARM_UP + COMPARED);
    let end = part(|frames| frames - COMPARED..frames);
    println!(
        "| {low} … {high} | {:.0} | {:.0} | {:.2} | {:.2} | {} |",
        first.0, end.0, first.1, end.1, run.copies,
    );
}

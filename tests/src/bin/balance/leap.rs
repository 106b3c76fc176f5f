//! Stealing off and on, for an orbit and where the camera leaps between far and close, so that
//! the last frame's costs say little about the next.
//!
//! Peers steal in some frames of a run and not in others, in turn; the other run of the round has it
//! the other way round. So both sides see the same cameras, and what makes a run fast or slow hits
//! them alike.

use crate::{
    Setting,
    figures::{mean, mean_ratio, median},
    held_mesh::HeldMesh,
    run::{FrameFigures, Run, WARM_UP, run},
};
use std::{collections::BTreeMap, fs};

/// Frames from leap to leap.
const LEAP_EVERY: u32 = 10;
/// Zoom of the close camera; that of the far one is 1.
const CLOSE: f64 = 4.0;
/// Degrees from frame to frame.
const SPIN: f64 = 3.6;
/// Elevation, degrees.
const ELEVATION: f64 = 20.0;
/// Frames after a leap that are told apart; later ones are steady again.
const AFTER: u32 = 4;
/// The first frames with stealing, or without, are not counted: of the costs that they go by, which a
/// frame halves, much is from frames of the other kind, and two of these are still under way.
const TURN_WARM_UP: u32 = 4;

/// A path of the camera.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CameraPath {
    Orbit,
    Leaps,
}

impl CameraPath {
    /// Frames with stealing in a row, and then without: for an orbit as many as from leap to leap,
    /// else those of a leap to close and one back.
    fn turn(self) -> u32 {
        match self {
            Self::Orbit => LEAP_EVERY,
            Self::Leaps => 2 * LEAP_EVERY,
        }
    }

    /// The turn that a frame is in; it changes in the middle between leaps.
    fn turn_of(self, frame: u32) -> u32 {
        (frame + LEAP_EVERY / 2) / self.turn()
    }

    /// How many frames a frame is after the last change.
    fn since_change(self, frame: u32) -> u32 {
        (frame + LEAP_EVERY / 2) % self.turn()
    }

    /// Whether peers steal in a frame of a run.
    fn steals(self, frame: u32, run: u32) -> bool {
        (self.turn_of(frame) + run).is_multiple_of(2)
    }
}

/// Measures and prints.
pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let mesh = HeldMesh::new(setting, setting.hosts)?;
    println!("### Stealing\n");
    println!(
        "| camera | frames | off ms | on ms | sum on / sum off | mean of turns | \
         estimates off by | stolen jobs, mean | failed attempts off, on |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for path in [CameraPath::Orbit, CameraPath::Leaps] {
        let mut rounds = Vec::new();
        for round in 0..setting.rounds {
            // A drift of the machine hits each as first and as second.
            let turned = |run| run_turned(setting, &mesh, path, (run + round) % 2);
            eprintln!("round {} …", round + 1);
            rounds.push([turned(0)?, turned(1)?]);
        }
        print(path, &rounds);
    }
    println!();
    Ok(())
}

/// One run, and which of its round's two it was.
type Turned = (Run, u32);

fn run_turned(
    setting: &Setting,
    mesh: &HeldMesh,
    path: CameraPath,
    number: u32,
) -> Result<Turned, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = folder.path().join("cameras.json");
    let list = camera_list(path, setting.frames, number).to_string();
    fs::write(&file, list).map_err(|e| e.to_string())?;
    let cameras = ["--cameras".to_owned(), file.display().to_string()];
    Ok((run(setting, mesh, &cameras, |_| Ok(()))?, number))
}

/// An entry a frame, with the text of `--orbit`.
fn camera_list(path: CameraPath, frames: u32, run: u32) -> serde_json::Value {
    let camera = |frame: u32| {
        let close = path == CameraPath::Leaps && frame / LEAP_EVERY % 2 == 1;
        let zoom = if close { CLOSE } else { 1.0 };
        let azimuth = SPIN * f64::from(frame);
        serde_json::json!({
            "orbit": format!("{azimuth:.3},{ELEVATION},{zoom}"),
            "steal": path.steals(frame, run),
        })
    };
    (0..frames).map(camera).collect()
}

/// A row for each group of frames.
fn print(path: CameraPath, rounds: &[[Turned; 2]]) {
    let row = |name: &str, which: &dyn Fn(u32) -> bool| {
        let turns = rounds.iter().flat_map(|round| turns_of(path, round, which));
        row(name, turns.collect());
    };
    if path == CameraPath::Orbit {
        return row("orbit", &|_| true);
    }
    for (close, name) in [(true, "leap to close"), (false, "leap to far")] {
        let side = move |frame: u32| (frame / LEAP_EVERY % 2 == 1) == close && frame >= LEAP_EVERY;
        for after in 0..AFTER {
            let which = move |frame| side(frame) && frame % LEAP_EVERY == after;
            row(&format!("{name}, frame +{after}"), &which);
        }
        let which = move |frame| side(frame) && frame % LEAP_EVERY < AFTER;
        row(&format!("{name}, frames +0 to +{}", AFTER - 1), &which);
        let which = move |frame| side(frame) && frame % LEAP_EVERY >= AFTER;
        row(&format!("{name}, later"), &which);
    }
}

/// The same frames without stealing, and with it.
type OffAndOn = (Vec<FrameFigures>, Vec<FrameFigures>);

/// The frames of a round that are meant, by turn.
fn turns_of(
    path: CameraPath,
    round: &[Turned; 2],
    which: impl Fn(u32) -> bool,
) -> impl Iterator<Item = OffAndOn> {
    let mut turns: BTreeMap<u32, OffAndOn> = BTreeMap::new();
    for (run, number) in round {
        for (frame, index) in run.frames.iter().zip(0..).skip(WARM_UP) {
            if path.since_change(index) >= TURN_WARM_UP && which(index) {
                let (off, on) = turns.entry(path.turn_of(index)).or_default();
                let side = if path.steals(index, *number) { on } else { off };
                side.push(frame.clone());
            }
        }
    }
    turns.into_values()
}

/// Medians over the frames of all rounds, off and on, and the ratio of the sums of their times: of all,
/// and the mean of that of each turn. Frames of a turn have much in common, so how far that may be
/// off is told by the turns.
fn row(name: &str, turns: Vec<OffAndOn>) {
    let sum = |frames: &[FrameFigures]| frames.iter().map(|f| f.interval_ms).sum::<f64>();
    let sums: Vec<(f64, f64)> = turns.iter().map(|(o, n)| (sum(o), sum(n))).collect();
    let (ratio, error) = mean_ratio(sums.iter().copied());
    let (off, on): (Vec<_>, Vec<_>) = turns.into_iter().unzip();
    let (off, on) = (off.concat(), on.concat());
    let failed = |side: &[FrameFigures]| side.iter().map(|f| f.failed).sum::<u32>();
    println!(
        "| {name} | {} | {:.1} | {:.1} | {:.3} | {ratio:.3} ± {error:.3} | {:.0} % | {:.1} | {}, {} |",
        off.len(),
        median(off.iter().map(|f| f.interval_ms)),
        median(on.iter().map(|f| f.interval_ms)),
        sum(&on) / sum(&off),
        100.0 * median(off.iter().map(|f| f.estimate_error)),
        mean(on.iter().map(|f| f.stolen as f64)),
        failed(&off),
        failed(&on),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_camera_leaps_every_ten_frames() {
        let list = camera_list(CameraPath::Leaps, 30, 0);
        let orbit = |n: usize| list[n]["orbit"].as_str().map(str::to_owned);
        assert_eq!(orbit(9).as_deref(), Some("32.400,20,1"));
        assert_eq!(orbit(10).as_deref(), Some("36.000,20,4"));
        assert_eq!(orbit(20).as_deref(), Some("72.000,20,1"));
    }

    #[test]
    fn two_runs_see_each_camera_with_and_without_stealing() {
        for path in [CameraPath::Orbit, CameraPath::Leaps] {
            for frame in 0..100 {
                assert_ne!(path.steals(frame, 0), path.steals(frame, 1));
                let changes = frame > 0 && path.steals(frame, 0) != path.steals(frame - 1, 0);
                assert_eq!(changes, frame > 0 && path.since_change(frame) == 0);
                // Not where a leap is looked at.
                assert!(!changes || frame % LEAP_EVERY > AFTER);
            }
        }
    }
}

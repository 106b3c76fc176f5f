//! Stealing off and on, for an orbit and where the camera leaps between far and close, so that
//! the last frame's costs say little about the next. Runs alternate: off, on, on, off.

use crate::{
    Setting,
    figures::{mean, mean_ratio, median},
    held_mesh::HeldMesh,
    run::{FrameFigures, Run, WARM_UP, run},
};
use std::fs;

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

/// A path of the camera.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CameraPath {
    Orbit,
    Leaps,
}

/// Measures and prints.
pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let mesh = HeldMesh::new(setting, setting.hosts)?;
    println!("### Stealing\n");
    println!(
        "| camera | frames | off ms | on ms | sum on / sum off | mean of rounds | \
         estimates off by | stolen jobs, mean | failed attempts off, on |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for path in [CameraPath::Orbit, CameraPath::Leaps] {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let file = folder.path().join("cameras.json");
        fs::write(&file, camera_list(path, setting.frames).to_string())
            .map_err(|e| e.to_string())?;
        let cameras = ["--cameras".to_owned(), file.display().to_string()];
        let mut pairs = Vec::new();
        for round in 1..=setting.rounds {
            let side = |on: &str| {
                let mut more = cameras.to_vec();
                more.extend(["--steal".to_owned(), on.to_owned()]);
                eprintln!("round {round}, stealing {on} …");
                run(setting, &mesh, &more, |_| Ok(()))
            };
            // A drift of the machine hits both sides alike.
            pairs.push(if round % 2 == 1 {
                (side("off")?, side("on")?)
            } else {
                let on = side("on")?;
                (side("off")?, on)
            });
        }
        print(path, &pairs);
    }
    println!();
    Ok(())
}

/// An entry a frame, with the text of `--orbit`.
fn camera_list(path: CameraPath, frames: u32) -> serde_json::Value {
    let camera = |frame: u32| {
        let close = path == CameraPath::Leaps && frame / LEAP_EVERY % 2 == 1;
        let zoom = if close { CLOSE } else { 1.0 };
        let azimuth = SPIN * f64::from(frame);
        serde_json::json!({ "orbit": format!("{azimuth:.3},{ELEVATION},{zoom}") })
    };
    (0..frames).map(camera).collect()
}

/// A row for each group of frames.
fn print(path: CameraPath, pairs: &[(Run, Run)]) {
    if path == CameraPath::Orbit {
        return row("orbit", pairs, |_| true);
    }
    for (close, name) in [(true, "leap to close"), (false, "leap to far")] {
        let side = move |frame: u32| (frame / LEAP_EVERY % 2 == 1) == close && frame >= LEAP_EVERY;
        for after in 0..AFTER {
            let which = move |frame| side(frame) && frame % LEAP_EVERY == after;
            row(&format!("{name}, frame +{after}"), pairs, which);
        }
        let which = move |frame| side(frame) && frame % LEAP_EVERY < AFTER;
        row(
            &format!("{name}, frames +0 to +{}", AFTER - 1),
            pairs,
            which,
        );
        let which = move |frame| side(frame) && frame % LEAP_EVERY >= AFTER;
        row(&format!("{name}, later"), pairs, which);
    }
}

/// Medians over the frames that are meant, and the ratio of the sums of their times: of all, and
/// the mean of that of each round. Frames of a run have much in common, so how far that may be off
/// is told by the rounds.
fn row(name: &str, pairs: &[(Run, Run)], which: impl Fn(u32) -> bool) {
    let meant = |run: &Run| -> Vec<FrameFigures> {
        let counted = run.frames.iter().zip(0..).skip(WARM_UP);
        let meant = counted.filter(|(_, index)| which(*index));
        meant.map(|(f, _)| f.clone()).collect()
    };
    let rounds: Vec<_> = pairs.iter().map(|(o, n)| (meant(o), meant(n))).collect();
    let sum = |frames: &[FrameFigures]| frames.iter().map(|f| f.interval_ms).sum::<f64>();
    let sums: Vec<(f64, f64)> = rounds.iter().map(|(o, n)| (sum(o), sum(n))).collect();
    let (ratio, error) = mean_ratio(sums.iter().copied());
    let (off, on): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
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
        let list = camera_list(CameraPath::Leaps, 30);
        let orbit = |n: usize| list[n]["orbit"].as_str().map(str::to_owned);
        assert_eq!(orbit(9).as_deref(), Some("32.400,20,1"));
        assert_eq!(orbit(10).as_deref(), Some("36.000,20,4"));
        assert_eq!(orbit(20).as_deref(), Some("72.000,20,1"));
    }
}

//! `sim paper silva-1995`: slabs of PARC's cubes, the paper's counts and figures beside ours.
//!
//! Source: Silva, "Parallel Performance Measures for Volume Ray Casting", 1995, section "Load Balancing". It prints the
//! sixteen counts of neghip and its parts on four processors; figures 1 to 4 are plots without numbers: cubes of each processor by
//! both rules, and rendering times on four processors. Times here are a model's: samples between the nearest and the farthest
//! active cube of a ray, and projecting the cubes, at one price each. Decisions are `topology`'s.

mod ray_spans;

use super::{
    PaperAnswer, PaperOptions, PaperVolume,
    plots::{Line, plot},
    vary::{self, check, field},
};
use crate::SimError;
use brickmesh_topology::{
    VoxelBox,
    balance::partition::slabs,
    data::presence_cubes::{CUBE_LEVEL_MAX, PresenceCubes},
};
use ray_spans::RaySpans;
use serde::{Deserialize, Serialize};
use std::ops::Range;

pub(super) const NAME: &str = "silva-1995";

/// The counts that the paper prints: neghip at level 4, values of 10 to 200.
const COUNTS: [u64; 16] = [
    12, 28, 61, 138, 149, 154, 139, 104, 106, 139, 156, 151, 129, 62, 29, 13,
];
const EQUAL: [u64; 4] = [239, 546, 552, 233];
const BALANCED: [u64; 4] = [388, 397, 401, 384];
/// Processors of figures 3 and 4.
const PROCESSORS: usize = 4;
/// Levels of which share and time are told.
const LEVELS: Range<u32> = 1..7;

/// What the evaluation depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Parameters {
    /// Level of the cubes (paper: 4).
    level: u32,
    /// Empty voxels around the volume (neghip was distributed with one).
    border: u32,
    /// Values that are to be seen, ends included (paper: 10 to 200).
    low: f64,
    /// See `low`.
    high: f64,
    /// Views along an orbit around y (paper: silent).
    views: u32,
    /// Rays along each axis of the picture (paper: silent).
    pixels: u32,
    /// Samples of a ray are so many voxels apart (paper: silent).
    step_voxels: f64,
    /// Price of a sample, nanoseconds.
    sample_nanos: f64,
    /// Price of projecting a cube, nanoseconds.
    cube_nanos: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            level: 4,
            border: 1,
            low: 10.0,
            high: 200.0,
            views: 16,
            pixels: 128,
            step_voxels: 1.0,
            sample_nanos: 100.0,
            cube_nanos: 2000.0,
        }
    }
}

impl Parameters {
    fn new(changes: &[String]) -> Result<Self, SimError> {
        let start = Self::default();
        let all = changes
            .iter()
            .try_fold(start, |p, change| vary::varied(&p, change))?;
        check("level", all.level.into(), 2.0, CUBE_LEVEL_MAX.into())?;
        check("border", all.border.into(), 0.0, 64.0)?;
        check("low", all.low, -1e30, 1e30)?;
        check("high", all.high, all.low, 1e30)?;
        check("views", all.views.into(), 2.0, 360.0)?;
        check("pixels", all.pixels.into(), 16.0, 1024.0)?;
        check("step_voxels", all.step_voxels, 0.01, 16.0)?;
        check("sample_nanos", all.sample_nanos, 0.0, 1e9)?;
        check("cube_nanos", all.cube_nanos, 0.0, 1e9)?;
        Ok(all)
    }
}

pub(super) fn listed() -> String {
    vary::listed(&Parameters::default())
}

#[derive(Serialize)]
struct Answer {
    /// The example: cubes of the slabs, and of the parts of four processors.
    example: Example,
    /// Cubes of each processor, slabs of equal length.
    figure_1: Vec<PartRow>,
    /// The same, balanced by equation 2.
    figure_2: Vec<PartRow>,
    /// Times of four processors along the orbit, slabs of equal length.
    figure_3: Vec<TimeRow>,
    /// The same, balanced.
    figure_4: Vec<TimeRow>,
    /// Of cubes and times of all processors in both figures; the paper says that they show it.
    correlation: Option<f64>,
    levels: Vec<LevelRow>,
    volume: Option<String>,
    parameters: Parameters,
}

#[derive(Serialize)]
struct Example {
    counts: Beside<Vec<u64>>,
    cubes: Beside<u64>,
    equal: Beside<Vec<u64>>,
    balanced: Beside<Vec<u64>>,
}

/// What the paper has, and what came out.
#[derive(Serialize)]
struct Beside<T> {
    paper: T,
    ours: Option<T>,
}

#[derive(Serialize)]
struct PartRow {
    processors: usize,
    cubes: Vec<u64>,
    max_over_mean: f64,
}

#[derive(Serialize)]
struct TimeRow {
    degrees: f64,
    ms: Vec<f64>,
    max_over_mean: f64,
}

#[derive(Serialize)]
struct LevelRow {
    level: u32,
    active: usize,
    /// Of all cubes.
    share: f64,
    /// Mean time of a view on one processor.
    ms: f64,
    /// Of it, projecting the cubes.
    cubes_ms: f64,
    /// Samples, of those between the ends of the volume.
    samples_share: f64,
}

/// Runs the evaluation; what needs voxels only where there is a volume.
pub(super) fn evaluate(options: &PaperOptions) -> Result<PaperAnswer, SimError> {
    let parameters = Parameters::new(&options.vary)?;
    let cubes = options.volume.as_ref().map(|volume| {
        check_volume(volume)?;
        Ok(cubes_of(volume, &parameters, parameters.level))
    });
    let cubes = cubes.transpose()?;
    let counts = cubes.as_ref().map(|cubes| cubes.slab_counts(2));
    let figure_counts = counts.clone().unwrap_or_else(|| COUNTS.to_vec());
    let mut answer = Answer {
        example: example(counts.as_deref()),
        figure_1: parts(&figure_counts, |n, p| slabs::equal(n.len(), p)),
        figure_2: parts(&figure_counts, slabs::min_max),
        figure_3: Vec::new(),
        figure_4: Vec::new(),
        correlation: None,
        levels: Vec::new(),
        volume: options.volume.as_ref().map(|v| v.name.clone()),
        parameters: parameters.clone(),
    };
    if let Some((volume, cubes)) = options.volume.as_ref().zip(cubes) {
        times(&mut answer, volume, &cubes, &parameters);
        answer.levels = LEVELS
            .map(|level| level_row(volume, &parameters, level))
            .collect();
    }
    let plots = if options.plots {
        plots(&answer)
    } else {
        Vec::new()
    };
    PaperAnswer::new(&answer, plots)
}

fn check_volume(volume: &PaperVolume) -> Result<(), SimError> {
    let voxels: u64 = volume.dims.iter().map(|&n| u64::from(n)).product();
    if voxels == volume.values.len() as u64 && voxels > 0 && voxels <= super::PAPER_VOXELS_MAX {
        return Ok(());
    }
    let found = format!(
        "{} values for {:?} voxels",
        volume.values.len(),
        volume.dims
    );
    let expected = format!("one each, {} at most", super::PAPER_VOXELS_MAX);
    Err(field("volume", &found, &expected))
}

fn cubes_of(volume: &PaperVolume, parameters: &Parameters, level: u32) -> PresenceCubes {
    let mut cubes = PresenceCubes::new(volume.dims, level, parameters.border);
    let slice = volume.dims[0] as usize * volume.dims[1] as usize;
    let is_seen = |&v: &f32| (parameters.low..=parameters.high).contains(&f64::from(v));
    for (z, values) in (0..).zip(volume.values.chunks(slice)) {
        let kept: Vec<bool> = values.iter().map(is_seen).collect();
        cubes.slice(z, &kept);
    }
    cubes
}

fn example(counts: Option<&[u64]>) -> Example {
    let parts = |runs: fn(&[u64]) -> Vec<Range<usize>>| {
        counts.map(|counts| slabs::loads(counts, &runs(counts)))
    };
    Example {
        counts: Beside {
            paper: COUNTS.to_vec(),
            ours: counts.map(<[u64]>::to_vec),
        },
        cubes: Beside {
            paper: COUNTS.iter().sum(),
            ours: counts.map(|c| c.iter().sum()),
        },
        equal: Beside {
            paper: EQUAL.to_vec(),
            ours: parts(|counts| slabs::equal(counts.len(), PROCESSORS)),
        },
        balanced: Beside {
            paper: BALANCED.to_vec(),
            ours: parts(|counts| slabs::min_max(counts, PROCESSORS)),
        },
    }
}

/// The parts for any number of processors up to that of slabs.
fn parts(counts: &[u64], runs: impl Fn(&[u64], usize) -> Vec<Range<usize>>) -> Vec<PartRow> {
    let row = |processors: usize| {
        let cubes = slabs::loads(counts, &runs(counts, processors));
        PartRow {
            max_over_mean: max_over_mean(cubes.iter().map(|&c| float(c))),
            processors,
            cubes,
        }
    };
    (1..=counts.len()).map(row).collect()
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn max_over_mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let (sum, count) = (values.clone().sum::<f64>(), values.clone().count());
    let mean = sum / count.max(1) as f64;
    if mean > 0.0 {
        values.fold(0.0, f64::max) / mean
    } else {
        1.0
    }
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn float(n: u64) -> f64 {
    n as f64
}

fn degrees(parameters: &Parameters, view: u32) -> f64 {
    360.0 * f64::from(view) / f64::from(parameters.views)
}

/// Figures 3 and 4, and the correlation of cubes and times.
fn times(
    answer: &mut Answer,
    volume: &PaperVolume,
    cubes: &PresenceCubes,
    parameters: &Parameters,
) {
    let (counts, planes) = (cubes.slab_counts(2), cubes.slab_planes(2));
    let boxes = cubes.boxes();
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let mut rows = |runs: &[Range<usize>]| {
        let of_run = |run: &Range<usize>| -> Vec<VoxelBox> {
            let zs = planes[run.start]..planes[run.end];
            boxes
                .iter()
                .filter(|b| zs.contains(&b.lo[2]))
                .copied()
                .collect()
        };
        let parts: Vec<Vec<VoxelBox>> = runs.iter().map(of_run).collect();
        let loads = slabs::loads(&counts, runs);
        let row = |view: u32| {
            let spans = RaySpans::new(volume.dims, degrees(parameters, view), parameters.pixels);
            let ms = |part: &Vec<VoxelBox>| time_ms(&spans, part, parameters).0;
            let ms: Vec<f64> = parts.iter().map(ms).collect();
            pairs.extend(loads.iter().map(|&l| float(l)).zip(ms.iter().copied()));
            TimeRow {
                degrees: degrees(parameters, view),
                max_over_mean: max_over_mean(ms.iter().copied()),
                ms,
            }
        };
        (0..parameters.views).map(row).collect()
    };
    answer.figure_3 = rows(&slabs::equal(counts.len(), PROCESSORS));
    answer.figure_4 = rows(&slabs::min_max(&counts, PROCESSORS));
    answer.correlation = correlation(&pairs);
}

/// What a part takes, milliseconds, and what of that is projecting its cubes; how many samples.
#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn time_ms(spans: &RaySpans, part: &[VoxelBox], parameters: &Parameters) -> (f64, f64, f64) {
    let samples = spans.length(part) / parameters.step_voxels;
    let cubes = part.len() as f64 * parameters.cube_nanos;
    (
        (samples * parameters.sample_nanos + cubes) / 1e6,
        cubes / 1e6,
        samples,
    )
}

fn level_row(volume: &PaperVolume, parameters: &Parameters, level: u32) -> LevelRow {
    let cubes = cubes_of(volume, parameters, level);
    let boxes = cubes.boxes();
    let whole = [VoxelBox::new([0; 3], volume.dims)];
    let (mut ms, mut cubes_ms, mut samples, mut all) = (0.0, 0.0, 0.0, 0.0);
    for view in 0..parameters.views {
        let spans = RaySpans::new(volume.dims, degrees(parameters, view), parameters.pixels);
        let of_view = time_ms(&spans, &boxes, parameters);
        (ms, cubes_ms, samples) = (ms + of_view.0, cubes_ms + of_view.1, samples + of_view.2);
        all += time_ms(&spans, &whole, parameters).2;
    }
    let (active, views) = (boxes.len(), f64::from(parameters.views));
    LevelRow {
        level,
        active,
        share: float(active as u64) / float(cubes.count() as u64),
        ms: ms / views,
        cubes_ms: cubes_ms / views,
        samples_share: samples / f64::max(all, f64::MIN_POSITIVE),
    }
}

/// Pearson's; `None`: one of both does not vary.
#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (mx, my) = (
        pairs.iter().map(|p| p.0).sum::<f64>() / n,
        pairs.iter().map(|p| p.1).sum::<f64>() / n,
    );
    let sum =
        |of: fn((f64, f64)) -> f64| pairs.iter().map(|p| of((p.0 - mx, p.1 - my))).sum::<f64>();
    let both = (sum(|(x, _)| x * x) * sum(|(_, y)| y * y)).sqrt();
    (both > 0.0).then(|| sum(|(x, y)| x * y) / both)
}

fn plots(answer: &Answer) -> Vec<super::Plot> {
    let by_processors = |rows: &[PartRow]| {
        let line = |of: fn(&[u64]) -> u64, name: &str| Line {
            name: name.to_owned(),
            points: rows
                .iter()
                .map(|r| (float(r.processors as u64), float(of(&r.cubes))))
                .collect(),
        };
        vec![
            line(
                |c| c.iter().copied().max().unwrap_or(0),
                "most cubes of a processor",
            ),
            line(|c| c.iter().copied().min().unwrap_or(0), "fewest"),
        ]
    };
    let by_view = |rows: &[TimeRow]| -> Vec<Line> {
        let line = |p: usize| Line {
            name: format!("processor {}", p + 1),
            points: rows.iter().map(|r| (r.degrees, r.ms[p])).collect(),
        };
        (0..PROCESSORS).map(line).collect()
    };
    let (cubes, time) = (["processors", "cubes"], ["degrees", "time in ms"]);
    vec![
        plot(
            "figure-1.svg".into(),
            "Figure 1: equal slabs",
            cubes,
            &by_processors(&answer.figure_1),
        ),
        plot(
            "figure-2.svg".into(),
            "Figure 2: balanced",
            cubes,
            &by_processors(&answer.figure_2),
        ),
        plot(
            "figure-3.svg".into(),
            "Figure 3: equal slabs",
            time,
            &by_view(&answer.figure_3),
        ),
        plot(
            "figure-4.svg".into(),
            "Figure 4: balanced",
            time,
            &by_view(&answer.figure_4),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn run(volume: Option<PaperVolume>, vary: &[&str]) -> Result<(Value, usize), SimError> {
        let answer = evaluate(&PaperOptions {
            paper: NAME.to_owned(),
            vary: vary.iter().map(|v| (*v).to_owned()).collect(),
            plots: true,
            volume,
            ..PaperOptions::default()
        })?;
        Ok((
            serde_json::from_str(&answer.json).unwrap(),
            answer.plots.len(),
        ))
    }

    /// A ball low in z.
    fn ball() -> PaperVolume {
        let value = |i: i32| {
            let [x, y, z] = [i % 32, i / 32 % 32, i / 1024];
            let square = (x - 16).pow(2) + (y - 16).pow(2) + (z - 9).pow(2);
            if square < 80 { 50.0 } else { 0.0 }
        };
        PaperVolume {
            name: "ball".to_owned(),
            dims: [32; 3],
            values: (0..32_768).map(value).collect(),
        }
    }

    #[test]
    fn without_a_volume_the_figures_are_of_the_papers_counts() {
        let (out, plots) = run(None, &[]).unwrap();
        assert_eq!(plots, 4);
        assert!(out["example"]["counts"]["ours"].is_null() && out["correlation"].is_null());
        assert_eq!(out["figure_1"][3]["cubes"], serde_json::json!(EQUAL));
        assert_eq!(out["figure_2"][3]["cubes"], serde_json::json!(BALANCED));
        let rows = out["figure_2"]
            .as_array()
            .unwrap()
            .iter()
            .zip(out["figure_1"].as_array().unwrap());
        for (balanced, equal) in rows {
            let of = |row: &Value| row["max_over_mean"].as_f64().unwrap();
            assert!(of(balanced) <= of(equal) + 1e-12);
        }
    }

    #[test]
    fn balanced_cubes_balance_the_time() {
        let (out, _) = run(Some(ball()), &["border=0", "pixels=64", "cube_nanos=0"]).unwrap();
        let worst = |figure: &str| {
            let rows = out[figure].as_array().unwrap().iter();
            rows.map(|r| r["max_over_mean"].as_f64().unwrap())
                .fold(0.0, f64::max)
        };
        assert!(
            worst("figure_4") < worst("figure_3"),
            "{} {}",
            worst("figure_4"),
            worst("figure_3")
        );
        assert!(out["correlation"].as_f64().unwrap() > 0.9);
        let levels = out["levels"].as_array().unwrap();
        let share = |i: usize| levels[i]["samples_share"].as_f64().unwrap();
        assert_eq!(levels.len(), 6);
        assert!(
            (1..6).all(|i| share(i) <= share(i - 1) + 1e-9),
            "finer cubes lie closer"
        );
        // The ball's own chords are the least: 4/3 pi r³ voxels.
        assert!(share(5) < 0.15);
    }

    #[test]
    fn bad_options_are_named() {
        let text = |vary: &str| run(None, &[vary]).unwrap_err().to_string();
        assert!(text("level=9").contains("level is 9; it must be 2 to 7"));
        assert!(text("low=300").contains("high is 200; it must be 300 to"));
        assert!(text("speed=1").contains("no such parameter"));
        let mut short = ball();
        short.values.pop();
        let error = run(Some(short), &[]).unwrap_err().to_string();
        assert!(error.contains("32767 values"), "{error}");
    }
}

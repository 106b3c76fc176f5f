//! A search for the parameters that the paper does not state, for the one set that brings its figures nearest.
//!
//! Method: points drawn evenly in the logarithms of the parameters, then from the two best of them and from where the
//! search began a pattern search (Hooke, Jeeves 1961): each parameter in turn is tried larger and smaller by a factor,
//! which is kept where the score falls, and shrinks where it does not. Step and price of a sample matter to
//! the model as their quotient alone, so that one of them is searched.
//!
//! Figures: the 14 numbers of Table 1 and the text below it; 12 as ratios to `standard` on as many devices, the two of
//! `standard` in milliseconds.

use super::{
    camera_path::Pose,
    cell_volume::VolumeKind,
    evaluation::{Series, VOLUMES, evaluate_one, poses},
    parameters::Parameters,
    tables::{TableRow, table_1},
    variants::Variant,
    vary,
};
use crate::SimError;
use brickmesh_topology::base::seeded::Seeded;
use serde::Serialize;

/// The path whose distance is searched.
const PATH: &str = "near";
/// What is searched, and between which values.
const SEARCHED: [(&str, [f64; 2]); 7] = [
    ("near_distance", [0.55, 4.0]),
    ("tangent", [0.1, 1.5]),
    ("step_max", [0.001, 0.2]),
    ("cost.job_micros", [10.0, 5_000.0]),
    ("cost.ray_nanos", [0.1, 200.0]),
    ("cost.sample_nanos", [0.02, 5.0]),
    ("cost.rays_to_fill", [100.0, 100_000.0]),
];
/// The parameter that sets the size of all times.
const SCALE: &str = "cost.sample_nanos";
/// Points that are drawn.
const DRAWN: usize = 40;
/// Of them, the best from which it goes on.
const DRAWN_BEST: usize = 2;
/// Steps of the logarithms of a draw.
const DRAW_STEPS: u64 = 1 << 20;
/// Factor that a parameter is tried with at first, and the one at which the search of it ends.
const FACTORS: [f64; 2] = [1.5, 1.04];
/// Most rounds over all parameters.
const ROUNDS: usize = 12;
/// Frames of each stretch of the path that a point is judged by; there is a placement for each stretch.
const STRETCH_FRAMES: usize = 30;
/// A figure that far off, as a factor, is not met.
const NEAR: f64 = 1.15;

/// What a search found.
#[derive(Debug, Serialize)]
pub(super) struct Fit {
    volume: &'static str,
    /// Figures within 15 %, at the start and as fitted.
    within_15_percent: [usize; 2],
    /// All figures, whole path.
    figures: Vec<FigureRow>,
    /// What was searched: where it began, and what was found.
    searched: Vec<SearchedRow>,
    /// Points that were judged.
    points: usize,
}

#[derive(Debug, Serialize)]
struct FigureRow {
    variant: &'static str,
    devices: usize,
    brick: u32,
    /// Milliseconds, and ratio to `standard` on as many devices: the paper's, those of the start, and as fitted.
    paper: [f64; 2],
    start: [f64; 2],
    fitted: [f64; 2],
}

#[derive(Debug, Serialize)]
struct SearchedRow {
    name: &'static str,
    start: f64,
    fitted: f64,
}

/// Searches for each volume. It takes some minutes.
///
/// # Errors
/// [`SimError`] where a parameter is out of bounds.
pub(super) fn fit(start: &Parameters) -> Result<Vec<Fit>, SimError> {
    VOLUMES
        .map(|volume| fit_volume(start, volume))
        .into_iter()
        .collect()
}

fn fit_volume(start: &Parameters, volume: (&'static str, VolumeKind)) -> Result<Fit, SimError> {
    let mut points = 0;
    let mut judged = |candidates: Vec<Parameters>| {
        points += candidates.len();
        judge_all(volume, candidates)
    };
    let mut drawn = judged(draw(start)?)?;
    // Their times are of any size: a second look, with the price of a sample that makes them the paper's.
    let of_that_size: Result<Vec<Parameters>, SimError> = drawn
        .iter()
        .map(|point| scaled(&point.parameters, SCALE, 1.0 / point.size))
        .collect();
    drawn.extend(judged(of_that_size?)?);
    drawn.sort_by(|a, b| a.score.total_cmp(&b.score));
    drawn.truncate(DRAWN_BEST);
    let begun = judged(vec![start.clone()])?;
    let mut found = Vec::new();
    for mut point in begun.into_iter().chain(drawn) {
        let mut factors = [FACTORS[0]; SEARCHED.len()];
        for _ in 0..ROUNDS {
            for ((name, _), factor) in SEARCHED.iter().zip(&mut factors) {
                if *factor < FACTORS[1] {
                    continue;
                }
                let tried = [*factor, 1.0 / *factor].map(|f| scaled(&point.parameters, name, f));
                let tried: Result<Vec<Parameters>, SimError> = tried.into_iter().collect();
                let before = point.score;
                point = judged(tried?)?.into_iter().fold(point, Point::better);
                if point.score >= before {
                    *factor = factor.sqrt();
                }
            }
        }
        found.push(point);
    }
    let fitted = found.into_iter().reduce(Point::better);
    let fitted = fitted.map_or_else(|| start.clone(), |p| p.parameters);
    let [at_start, as_fitted] = rows_of_whole_paths(volume, [start, &fitted])?;
    let within = |rows: &[TableRow]| errors(rows).filter(|e| e.abs() <= NEAR.ln()).count();
    let value = |p: &Parameters, name| vary::value(p, name).unwrap_or(f64::NAN);
    Ok(Fit {
        volume: volume.0,
        within_15_percent: [within(&at_start), within(&as_fitted)],
        searched: SEARCHED
            .map(|(name, _)| SearchedRow {
                name,
                start: value(start, name),
                fitted: value(&fitted, name),
            })
            .into(),
        figures: at_start
            .iter()
            .zip(&as_fitted)
            .filter_map(figure_row)
            .collect(),
        points,
    })
}

/// A point of the search.
#[derive(Clone, Debug)]
struct Point {
    parameters: Parameters,
    /// Less is nearer to the paper.
    score: f64,
    /// Time of `standard` on the most devices over the paper's.
    size: f64,
}

impl Point {
    fn better(self, other: Self) -> Self {
        if other.score < self.score {
            other
        } else {
            self
        }
    }
}

/// Points in the bounds of what is searched, everything else as in `start`.
fn draw(start: &Parameters) -> Result<Vec<Parameters>, SimError> {
    let mut draws = Seeded::new(start.seed);
    let mut point = || {
        SEARCHED
            .iter()
            .try_fold(start.clone(), |p, (name, [low, high])| {
                #[expect(clippy::cast_precision_loss, reason = "at most 2^20")]
                let share = draws.below(DRAW_STEPS) as f64 / DRAW_STEPS as f64;
                vary::varied(&p, &format!("{name}={}", low * (high / low).powf(share)))
            })
    };
    (0..DRAWN).map(|_| point()).collect()
}

/// A parameter times `factor`, within the bounds of the search.
fn scaled(parameters: &Parameters, name: &str, factor: f64) -> Result<Parameters, SimError> {
    let bounds = SEARCHED.iter().find(|(of, _)| *of == name);
    let (Some(value), Some((_, [low, high]))) = (vary::value(parameters, name), bounds) else {
        return Ok(parameters.clone());
    };
    // Where a search began may lie outside of them.
    let value = (value * factor).clamp(low.min(value), high.max(value));
    vary::varied(parameters, &format!("{name}={value}"))
}

/// Judges points, as many at a time as there are processors.
fn judge_all(
    volume: (&'static str, VolumeKind),
    points: Vec<Parameters>,
) -> Result<Vec<Point>, SimError> {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut judged = Vec::with_capacity(points.len());
    for some in points.chunks(at_once) {
        let results: Vec<Result<Point, SimError>> = std::thread::scope(|scope| {
            let start = |p: &Parameters| {
                let p = p.clone();
                scope.spawn(move || judge(volume, p))
            };
            let threads: Vec<_> = some.iter().map(start).collect();
            let join = |t: std::thread::ScopedJoinHandle<'_, _>| match t.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        for result in results {
            judged.push(result?);
        }
    }
    Ok(judged)
}

fn judge(volume: (&'static str, VolumeKind), parameters: Parameters) -> Result<Point, SimError> {
    let poses = stretches(&poses(&parameters, PATH), parameters.placements);
    let rows = table_1(&rendered(&parameters, volume, &poses)?);
    let score = score(&rows);
    let most = rows.iter().filter(|r| r.variant == "standard");
    let most = most.filter_map(|r| Some((r.devices, r.mean_max_ms / r.paper_ms?)));
    let size = most
        .max_by_key(|(devices, _)| *devices)
        .map_or(1.0, |s| s.1);
    Ok(Point {
        parameters,
        score,
        size,
    })
}

/// Each figure counts for one at most, less where it is nearer; a little more where it is farther, so that there is a way back.
fn score(rows: &[TableRow]) -> f64 {
    let cost = |e: f64| {
        let square = (e / NEAR.ln()).powi(2);
        square.min(1.0) + 0.02 * square.min(100.0)
    };
    errors(rows).map(cost).sum()
}

/// Short stretches from all of a path, one a placement.
fn stretches(poses: &[Pose], count: usize) -> Vec<Pose> {
    let apart = poses.len().div_ceil(count.max(1)).max(1);
    let stretch = |s: &[Pose]| s[..s.len().min(STRETCH_FRAMES)].to_vec();
    poses.chunks(apart).flat_map(stretch).collect()
}

fn rendered(
    parameters: &Parameters,
    volume: (&'static str, VolumeKind),
    poses: &[Pose],
) -> Result<Vec<Series>, SimError> {
    let is_in_paper = |v: &Variant, edge, devices| v.paper_ms(edge, devices).is_some();
    evaluate_one(parameters, volume, PATH, poses, is_in_paper)
}

fn rows_of_whole_paths(
    volume: (&'static str, VolumeKind),
    both: [&Parameters; 2],
) -> Result<[Vec<TableRow>; 2], SimError> {
    let rows = |p: &Parameters| Ok(table_1(&rendered(p, volume, &poses(p, PATH))?));
    let [a, b] = both;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| rows(b));
        let a = rows(a)?;
        match other.join() {
            Ok(b) => Ok([a, b?]),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Natural logarithm of ours over the paper's, of each figure.
fn errors(rows: &[TableRow]) -> impl Iterator<Item = f64> {
    rows.iter().filter_map(|r| {
        let (paper, ratio) = (r.paper_ms?, r.paper_ratio?);
        let is_unit = r.variant == "standard" && (ratio - 1.0).abs() < 1e-9;
        Some(
            if is_unit {
                r.mean_max_ms / paper
            } else {
                r.ratio_to_standard / ratio
            }
            .ln(),
        )
    })
}

fn figure_row((start, fitted): (&TableRow, &TableRow)) -> Option<FigureRow> {
    let both = |r: &TableRow| [r.mean_max_ms, r.ratio_to_standard];
    Some(FigureRow {
        variant: start.variant,
        devices: start.devices,
        brick: start.brick,
        paper: [start.paper_ms?, start.paper_ratio?],
        start: both(start),
        fitted: both(fitted),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_comes_nearer_to_all_14_figures() {
        // As many frames as are judged, so that the table is of what was searched.
        let vary = ["placements=2".to_owned(), "pixels=128".to_owned()];
        let start = Parameters::new(4, 1, &vary).unwrap();
        let fit = fit_volume(&start, VOLUMES[0]).unwrap();
        assert_eq!(fit.figures.len(), 14);
        let whole =
            |p: &Parameters| score(&table_1(&rendered(p, VOLUMES[0], &poses(p, PATH)).unwrap()));
        let fitted = fit.searched.iter().try_fold(start.clone(), |p, s| {
            vary::varied(&p, &format!("{}={}", s.name, s.fitted))
        });
        let (before, after) = (whole(&start), whole(&fitted.unwrap()));
        assert!(after < 0.8 * before, "{before} to {after}");
        assert!(fit.points > 2 * DRAWN);
    }

    #[test]
    fn a_parameter_stays_within_the_bounds_of_its_search() {
        let start = Parameters::new(4, 1, &[]).unwrap();
        let tangent = |p: &Parameters| vary::value(p, "tangent").unwrap();
        let twice = scaled(&start, "tangent", 2.0).unwrap();
        assert!((tangent(&twice) / tangent(&start) - 2.0).abs() < 1e-12);
        let most = scaled(&start, "tangent", 1e9).unwrap();
        assert!((tangent(&most) - 1.5).abs() < 1e-12);
    }
}

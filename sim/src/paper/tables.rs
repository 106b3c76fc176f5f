//! The answer: the paper's table and the data of its figures.

use super::{
    evaluation::{PATHS, Series, VOLUMES},
    parameters::Parameters,
    variants::BRICK_EDGE,
    virtual_cluster::FrameTimes,
};
use serde::Serialize;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Answer<'a> {
    table1: Vec<TableRow>,
    scaling: Vec<ScalingRow>,
    prediction: Vec<PredictionRow>,
    figures: Figures,
    parameters: &'a Parameters,
}

#[derive(Debug, Serialize)]
pub(super) struct TableRow {
    pub(super) variant: &'static str,
    pub(super) devices: usize,
    /// Mean over the frames of the longest time of a device.
    pub(super) mean_max_ms: f64,
    /// Edge of the bricks in voxels.
    pub(super) brick: u32,
    pub(super) volume: &'static str,
    pub(super) path: &'static str,
    /// To `standard` with bricks of 352³ on as many devices.
    pub(super) ratio_to_standard: f64,
    /// Mean over the frames of longest over mean time of the devices.
    pub(super) max_over_mean: f64,
    /// The same of the best that the placement allows for the jobs' times, cut at will.
    pub(super) bound_over_mean: f64,
    pub(super) mean_jobs: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paper_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paper_ratio: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ScalingRow {
    devices: usize,
    mean_min_ms: f64,
    mean_max_ms: f64,
    redundancy: f64,
    volume: &'static str,
    path: &'static str,
}

/// Figure 8: expected and measured; `*_projected` is `refined`, the others the paper's way.
#[derive(Debug, Serialize)]
struct PredictionRow {
    frame: usize,
    total_error: f64,
    max_pair_error: f64,
    total_error_projected: f64,
    max_pair_error_projected: f64,
    expected_total_ms: f64,
    measured_total_ms: f64,
    expected_pair_ms: f64,
    measured_pair_ms: f64,
    volume: &'static str,
    path: &'static str,
}

/// Data of the other figures, every frame or as many as fit.
#[derive(Debug, Serialize)]
struct Figures {
    /// Shortest and longest time of a device along the path, `standard` on eight devices.
    figure_7: Vec<Figure7Row>,
    /// Longest times by number of devices, by variant.
    figure_10: Vec<Figure10Row>,
}

#[derive(Debug, Serialize)]
struct Figure7Row {
    volume: &'static str,
    path: &'static str,
    frame: usize,
    min_ms: f64,
    max_ms: f64,
}

#[derive(Debug, Serialize)]
struct Figure10Row {
    volume: &'static str,
    path: &'static str,
    variant: &'static str,
    devices: Vec<usize>,
    mean_max_ms: Vec<f64>,
}

/// Frames of figure 8.
pub(super) const PREDICTION_FRAMES: usize = 50;
/// Frames of figure 7 that are printed.
const FIGURE_7_FRAMES: usize = 250;
/// Devices of the figures along the path.
pub(super) const FIGURE_DEVICES: usize = 8;

#[expect(clippy::cast_precision_loss, reason = "microseconds of frames")]
pub(super) fn ms(micros: u64) -> f64 {
    micros as f64 / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "a count of frames")]
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// |a − b| / b, or 0 where there is nothing.
pub(super) fn relative_error(expected: u64, measured: u64) -> f64 {
    if measured == 0 {
        0.0
    } else {
        ms(expected.abs_diff(measured)) / ms(measured)
    }
}

impl Series {
    /// Mean longest time in milliseconds. The first frame is left out: nothing is known of any
    /// cost yet.
    pub(super) fn mean_max_ms(&self) -> f64 {
        mean(self.measured_frames().iter().map(|f| ms(f.max)))
    }

    /// Mean shortest time in milliseconds.
    pub(super) fn mean_min_ms(&self) -> f64 {
        mean(self.measured_frames().iter().map(|f| ms(f.min)))
    }

    fn measured_frames(&self) -> &[FrameTimes] {
        &self.frames[usize::from(self.frames.len() > 1)..]
    }

    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn max_over_mean(&self) -> f64 {
        let devices = self.cluster.devices as f64;
        let frames = self.measured_frames().iter();
        mean(frames.map(|f| ms(f.max) * devices / ms(f.sum.max(1))))
    }

    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn bound_over_mean(&self) -> f64 {
        let devices = self.cluster.devices as f64;
        let frames = self.measured_frames().iter();
        mean(frames.map(|f| ms(f.bound) * devices / ms(f.sum.max(1))))
    }

    fn is(&self, variant: &str, brick_edge: u32, devices: usize) -> bool {
        self.cluster.variant.name == variant
            && self.brick_edge == brick_edge
            && self.cluster.devices == devices
    }
}

/// The series of a variant in the setting of another.
fn beside<'a>(all: &'a [Series], like: &Series, variant: &str) -> Option<&'a Series> {
    all.iter().find(|s| {
        s.volume == like.volume
            && s.path == like.path
            && s.is(variant, BRICK_EDGE, like.cluster.devices)
    })
}

/// The rows of Table 1.
pub(super) fn table_1(all: &[Series]) -> Vec<TableRow> {
    let row = |s: &Series| {
        let (variant, devices) = (s.cluster.variant, s.cluster.devices);
        let standard = beside(all, s, "standard");
        let standard_ms = standard.map_or(f64::NAN, Series::mean_max_ms);
        let paper_ms = variant.paper_ms(s.brick_edge, devices);
        let paper_standard = standard.and_then(|s| s.cluster.variant.paper_ms(BRICK_EDGE, devices));
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let jobs = s.measured_frames().iter().map(|f| f.jobs as f64);
        TableRow {
            variant: variant.name,
            devices,
            mean_max_ms: s.mean_max_ms(),
            brick: s.brick_edge,
            volume: s.volume,
            path: s.path,
            ratio_to_standard: s.mean_max_ms() / standard_ms,
            max_over_mean: s.max_over_mean(),
            bound_over_mean: s.bound_over_mean(),
            mean_jobs: mean(jobs),
            paper_ms,
            paper_ratio: paper_ms.zip(paper_standard).map(|(a, b)| a / b),
        }
    };
    all.iter().map(row).collect()
}

fn scaling(all: &[Series]) -> Vec<ScalingRow> {
    let standard = all
        .iter()
        .filter(|s| s.is("standard", BRICK_EDGE, s.cluster.devices));
    let row = |s: &Series| ScalingRow {
        devices: s.cluster.devices,
        mean_min_ms: s.mean_min_ms(),
        mean_max_ms: s.mean_max_ms(),
        redundancy: s.cluster.redundancy,
        volume: s.volume,
        path: s.path,
    };
    standard.map(row).collect()
}

fn prediction(all: &[Series]) -> Vec<PredictionRow> {
    let (volume, path) = (VOLUMES[0].0, PATHS[0]);
    let find = |variant| {
        all.iter().find(|s| {
            s.volume == volume && s.path == path && s.is(variant, BRICK_EDGE, FIGURE_DEVICES)
        })
    };
    let (Some(paper), Some(ours)) = (find("standard"), find("refined")) else {
        return Vec::new();
    };
    let frames = paper.frames.iter().zip(&ours.frames).enumerate();
    let row = |(frame, (paper, ours)): (usize, (&FrameTimes, &FrameTimes))| PredictionRow {
        frame,
        total_error: relative_error(paper.expected[0], paper.measured[0]),
        max_pair_error: relative_error(paper.expected[1], paper.measured[1]),
        total_error_projected: relative_error(ours.expected[0], ours.measured[0]),
        max_pair_error_projected: relative_error(ours.expected[1], ours.measured[1]),
        expected_total_ms: ms(paper.expected[0]),
        measured_total_ms: ms(paper.measured[0]),
        expected_pair_ms: ms(paper.expected[1]),
        measured_pair_ms: ms(paper.measured[1]),
        volume,
        path,
    };
    // Nothing was measured before the first frame.
    frames.skip(1).take(PREDICTION_FRAMES).map(row).collect()
}

fn figures(all: &[Series]) -> Figures {
    let mut figure_7 = Vec::new();
    let mut figure_10: Vec<Figure10Row> = Vec::new();
    for s in all.iter().filter(|s| s.brick_edge == BRICK_EDGE) {
        let variant = s.cluster.variant.name;
        if s.is("standard", BRICK_EDGE, FIGURE_DEVICES) {
            let every = s.frames.len().div_ceil(FIGURE_7_FRAMES);
            let frames = s.frames.iter().enumerate().step_by(every.max(1));
            figure_7.extend(frames.map(|(frame, f)| Figure7Row {
                volume: s.volume,
                path: s.path,
                frame,
                min_ms: ms(f.min),
                max_ms: ms(f.max),
            }));
        }
        let same =
            |r: &&mut Figure10Row| r.variant == variant && r.volume == s.volume && r.path == s.path;
        if let Some(row) = figure_10.iter_mut().find(same) {
            row.devices.push(s.cluster.devices);
            row.mean_max_ms.push(s.mean_max_ms());
        } else {
            figure_10.push(Figure10Row {
                volume: s.volume,
                path: s.path,
                variant,
                devices: vec![s.cluster.devices],
                mean_max_ms: vec![s.mean_max_ms()],
            });
        }
    }
    Figures {
        figure_7,
        figure_10,
    }
}

/// The whole answer.
pub(super) fn answer<'a>(parameters: &'a Parameters, all: &[Series]) -> Answer<'a> {
    Answer {
        table1: table_1(all),
        scaling: scaling(all),
        prediction: prediction(all),
        figures: figures(all),
        parameters,
    }
}

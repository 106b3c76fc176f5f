//! The paper's figures 7 to 10 as SVG, one each for every volume and path.

use super::{
    evaluation::{PATHS, Series, VOLUMES},
    tables::{FIGURE_DEVICES, PREDICTION_FRAMES, ms, relative_error},
    variants::{BRICK_EDGE, VARIANTS},
};
use plotters::prelude::*;

/// A figure: the name of its file, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// Name of the file.
    pub name: String,
    /// SVG.
    pub svg: String,
}

/// A line of a figure.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Width and height in pixels.
const SIZE: (u32, u32) = (800, 500);
/// Colours that are told apart by everyone (Okabe, Ito 2008).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
];

/// All figures; one that cannot be drawn says so in its text.
pub(super) fn plots(all: &[Series]) -> Vec<Plot> {
    let mut out = Vec::new();
    for (volume, _) in VOLUMES {
        for path in PATHS {
            let here =
                |s: &&Series| s.volume == volume && s.path == path && s.brick_edge == BRICK_EDGE;
            let here: Vec<&Series> = all.iter().filter(here).collect();
            let figures = [
                (7, "frame", "device time in ms", figure_7(&here)),
                (
                    8,
                    "frame",
                    "relative error of the prediction",
                    figure_8(&here),
                ),
                (9, "devices", "device time in ms", figure_9(&here)),
                (
                    10,
                    "devices",
                    "mean longest device time in ms",
                    figure_10(&here),
                ),
            ];
            for (number, x, y, lines) in figures {
                let title = format!("Figure {number}: {volume}, {path}");
                let name = format!("figure-{number}-{volume}-{path}.svg");
                out.push(plot(name, &title, [x, y], &lines));
            }
        }
    }
    out
}

fn find<'a>(here: &[&'a Series], variant: &str) -> Option<&'a Series> {
    let is =
        |s: &&&Series| s.cluster.variant.name == variant && s.cluster.devices == FIGURE_DEVICES;
    here.iter().find(is).copied()
}

/// Points by frame.
fn by_frame(values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    (0_u32..).map(f64::from).zip(values).collect()
}

fn figure_7(here: &[&Series]) -> Vec<Line> {
    let Some(s) = find(here, "standard") else {
        return Vec::new();
    };
    let line = |name: &str, values: Vec<f64>| Line {
        name: name.to_owned(),
        points: by_frame(values.into_iter()),
    };
    vec![
        line("longest", s.frames.iter().map(|f| ms(f.max)).collect()),
        line("shortest", s.frames.iter().map(|f| ms(f.min)).collect()),
    ]
}

fn figure_8(here: &[&Series]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (variant, how) in [("standard", "last frame"), ("refined", "projected")] {
        let Some(s) = find(here, variant) else {
            continue;
        };
        for (i, what) in [(0, "all jobs"), (1, "any two jobs")] {
            let frames = s.frames.iter().skip(1).take(PREDICTION_FRAMES);
            let errors = frames.map(|f| relative_error(f.expected[i], f.measured[i]));
            lines.push(Line {
                name: format!("{what}, {how}"),
                points: by_frame(errors),
            });
        }
    }
    lines
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn by_devices(here: &[&Series], variant: &str, time: impl Fn(&Series) -> f64) -> Vec<(f64, f64)> {
    let of_variant = here.iter().filter(|s| s.cluster.variant.name == variant);
    of_variant
        .map(|s| (s.cluster.devices as f64, time(s)))
        .collect()
}

fn figure_9(here: &[&Series]) -> Vec<Line> {
    let longest = by_devices(here, "standard", Series::mean_max_ms);
    let Some(&(fewest, most)) = longest.first() else {
        return Vec::new();
    };
    let linear = longest.iter().map(|&(d, _)| (d, most * fewest / d));
    vec![
        Line {
            name: "linear from 3 devices".to_owned(),
            points: linear.collect(),
        },
        Line {
            name: "longest".to_owned(),
            points: longest,
        },
        Line {
            name: "shortest".to_owned(),
            points: by_devices(here, "standard", Series::mean_min_ms),
        },
        Line {
            name: "longest, refined".to_owned(),
            points: by_devices(here, "refined", Series::mean_max_ms),
        },
    ]
}

fn figure_10(here: &[&Series]) -> Vec<Line> {
    let line = |name: &str| Line {
        name: name.to_owned(),
        points: by_devices(here, name, Series::mean_max_ms),
    };
    VARIANTS.iter().map(|v| line(v.name)).collect()
}

/// A figure of lines; one that cannot be drawn says so in its text.
pub(super) fn plot(name: String, title: &str, axes: [&str; 2], lines: &[Line]) -> Plot {
    let svg = draw(title, axes, lines);
    let svg = svg.unwrap_or_else(|e| format!("<!-- {title}: {e} -->"));
    Plot { name, svg }
}

fn draw(
    title: &str,
    [x, y]: [&str; 2],
    lines: &[Line],
) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let points = || lines.iter().flat_map(|l| &l.points);
        let bound = |pick: fn(&(f64, f64)) -> f64, start: f64, take: fn(f64, f64) -> f64| {
            points().map(pick).fold(start, take)
        };
        let left = bound(|p| p.0, f64::INFINITY, f64::min);
        let right = bound(|p| p.0, f64::NEG_INFINITY, f64::max);
        // Room above the lines for the legend.
        let room = 1.05 + 0.06 * f64::from(u8::try_from(lines.len()).unwrap_or(u8::MAX));
        let top = bound(|p| p.1, 0.0, f64::max) * room + 1e-9;
        if !(right > left && top.is_finite()) {
            return Err("there are too few points".into());
        }
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(left..right, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&|v| format!("{v}"))
            .x_desc(x)
            .y_desc(y)
            .draw()?;
        for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), color))?
                .label(line.name.as_str())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
        root.present()?;
    }
    Ok(svg)
}

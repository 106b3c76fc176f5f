//! Transfer functions from files and histograms.
//!
//! Files: brickmesh's JSON (`{"unit_distance": …, "points": […]}`) and ParaView colour-map presets
//! (a list with `RGBPoints` and, often, `Points`), which are stretched over the volume's range as
//! ParaView does.

use crate::bounded_file;
use brickmesh_topology::{
    Manifest, TransferFunction,
    plain_text::shortened,
    transfer_function::{TransferFunctionError, TransferPoint},
};
use serde::{Deserialize, de::IgnoredAny};
use std::path::{Path, PathBuf};

/// Largest transfer function file, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Highest opacity of a ParaView preset that brings none of its own.
const PRESET_OPACITY: f64 = 0.3;

/// A transfer function that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferFileError {
    /// The file cannot be read.
    #[error("transfer function {}: {source}", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Neither of the two forms.
    #[error("transfer function {}: {}; expected {{\"points\": [{{\"value\", \"color\", \"opacity\"}}]}} or a ParaView preset with RGBPoints", path.display(), shortened(&source.to_string()))]
    Json {
        /// File.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Numbers out of their bounds.
    #[error("transfer function {}: {source}", path.display())]
    Invalid {
        /// File.
        path: PathBuf,
        /// Which and why.
        source: TransferFunctionError,
    },
    /// A preset whose lists do not add up.
    #[error("transfer function {}: {field} has {found} numbers; it must have a multiple of 4, at least 4", path.display())]
    Preset {
        /// File.
        path: PathBuf,
        /// List.
        field: &'static str,
        /// Numbers found.
        found: usize,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Preset {
    /// value, red, green, blue.
    #[serde(rename = "RGBPoints", default)]
    rgb_points: Vec<f64>,
    /// value, opacity, midpoint, sharpness; the last two are not used.
    #[serde(default)]
    points: Vec<f64>,
}

/// Tells a preset that stands alone from brickmesh's own form.
#[derive(Deserialize)]
struct Form {
    #[serde(rename = "RGBPoints")]
    rgb_points: Option<IgnoredAny>,
}

/// Loads a transfer function; a preset is stretched over `range` (data units).
///
/// # Errors
/// [`TransferFileError`] with file, field, found and expected.
pub fn load(path: &Path, range: [f64; 2]) -> Result<TransferFunction, TransferFileError> {
    let io = |source| TransferFileError::Io {
        path: path.to_owned(),
        source,
    };
    let text = bounded_file::read_text(path, FILE_BYTES_MAX).map_err(io)?;
    let json = |source| TransferFileError::Json {
        path: path.to_owned(),
        source,
    };
    // Read as what it is at once: a tree of any JSON takes many times the memory of the text.
    let transfer = if text.trim_start().starts_with('[') {
        let presets: Vec<Preset> = serde_json::from_str(&text).map_err(json)?;
        let first = presets.into_iter().next().unwrap_or_default();
        from_preset(&first, range, path)?
    } else if serde_json::from_str::<Form>(&text)
        .map_err(json)?
        .rgb_points
        .is_some()
    {
        let preset = serde_json::from_str(&text).map_err(json)?;
        from_preset(&preset, range, path)?
    } else {
        serde_json::from_str(&text).map_err(json)?
    };
    transfer
        .validate()
        .map_err(|source| TransferFileError::Invalid {
            path: path.to_owned(),
            source,
        })?;
    Ok(transfer)
}

fn from_preset(
    preset: &Preset,
    range: [f64; 2],
    path: &Path,
) -> Result<TransferFunction, TransferFileError> {
    for (field, list) in [
        ("RGBPoints", &preset.rgb_points),
        ("Points", &preset.points),
    ] {
        let empty_is_wrong = field == "RGBPoints" && list.is_empty();
        if !list.len().is_multiple_of(4) || empty_is_wrong {
            return Err(TransferFileError::Preset {
                path: path.to_owned(),
                field,
                found: list.len(),
            });
        }
    }
    let colors = stretch(&preset.rgb_points, range);
    let opacities = if preset.points.is_empty() {
        vec![(range[0], [0.0; 3]), (range[1], [PRESET_OPACITY, 0.0, 0.0])]
    } else {
        stretch(&preset.points, range)
    };
    let mut values: Vec<f64> = colors.iter().chain(&opacities).map(|p| p.0).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let point = |value| TransferPoint {
        value,
        color: interpolate(&colors, value),
        opacity: interpolate(&opacities, value)[0],
    };
    Ok(TransferFunction {
        unit_distance: None,
        points: values.into_iter().map(point).collect(),
    })
}

/// Rows of a value and three numbers, their values stretched over `range`, ascending.
fn stretch(list: &[f64], range: [f64; 2]) -> Vec<(f64, [f64; 3])> {
    let mut rows: Vec<(f64, [f64; 3])> = list
        .chunks_exact(4)
        .map(|r| (r[0], [r[1], r[2], r[3]]))
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = (rows[0].0, rows[rows.len() - 1].0);
    let width = if high > low { high - low } else { 1.0 };
    for row in &mut rows {
        row.0 = range[0] + (range[1] - range[0]) * ((row.0 - low) / width);
    }
    rows
}

fn interpolate(rows: &[(f64, [f64; 3])], value: f64) -> [f64; 3] {
    let above = rows.partition_point(|r| r.0 <= value);
    let (Some(a), b) = (above.checked_sub(1).map(|i| rows[i]), rows.get(above)) else {
        return rows[0].1;
    };
    let Some(b) = b else { return a.1 };
    let t = (value - a.0) / (b.0 - a.0);
    std::array::from_fn(|c| a.1[c] + (b.1[c] - a.1[c]) * t)
}

/// A transfer function for a volume that comes without one: a ramp over the values above the
/// background, which is taken to be the most frequent value.
#[must_use]
pub fn from_histogram(manifest: &Manifest) -> TransferFunction {
    let histogram = manifest.histogram();
    let [low, high] = manifest.range();
    let value = |bin: f64| {
        manifest
            .volume()
            .value(low + (high - low) * bin / histogram.len() as f64)
    };
    let background = histogram
        .iter()
        .enumerate()
        .max_by_key(|(_, n)| **n)
        .map_or(0, |(b, _)| b);
    let background = if background * 2 > histogram.len() {
        0
    } else {
        background
    };
    let above: u64 = histogram[background + 1..].iter().sum();
    let quantile = |part: f64| {
        let wanted = above as f64 * part;
        let mut seen = 0.0;
        for (bin, &n) in histogram.iter().enumerate().skip(background + 1) {
            seen += n as f64;
            if seen >= wanted {
                return bin as f64;
            }
        }
        histogram.len() as f64
    };
    let (from, to) = (
        value(quantile(LOW_QUANTILE)),
        value(quantile(HIGH_QUANTILE)),
    );
    TransferFunction::ramp(from.min(to), from.max(to))
}

/// Share of the values above the background that stay transparent.
const LOW_QUANTILE: f64 = 0.25;
/// Share of the values above the background below full opacity.
const HIGH_QUANTILE: f64 = 0.995;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_paraview_preset_is_stretched_over_the_range() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("preset.json");
        fs::write(&path, r#"[{"Name":"x","ColorSpace":"RGB","RGBPoints":[0,0,0,1, 1,1,0,0],"Points":[0,0,0.5,0, 1,1,0.5,0]}]"#).unwrap();
        let tf = load(&path, [100.0, 300.0]).unwrap();
        let (color, opacity) = tf.classify(200.0);
        assert!((color[0] - 0.5).abs() < 1e-12 && (opacity - 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tf.json");
        let error = |text: &str| {
            fs::write(&path, text).unwrap();
            load(&path, [0.0, 1.0]).unwrap_err().to_string()
        };
        assert!(error("{").contains("tf.json"));
        assert!(error(r#"{"points":[]}"#).contains("1 to 4096 points"));
        assert!(error(r#"[{"RGBPoints":[1,2,3]}]"#).contains("RGBPoints has 3 numbers"));
        assert!(load(&dir.path().join("none"), [0.0, 1.0]).is_err());
    }
}

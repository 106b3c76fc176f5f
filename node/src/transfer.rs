//! The transfer function that is asked for: from a file, by the name of a preset, or the default.
//!
//! Files: brickmesh's JSON (`{"unit_distance": …, "points": […]}`), in data values, and ParaView
//! colour-map presets (a list with `RGBPoints` and, often, `Points`). What is in absolute units stays so;
//! what is normalised, 0 to 1, is stretched over the data. `--transfer-range` decides otherwise.

use crate::{
    args::TransferRange, bounded_file, config_folder::config_folder, output_file::OutputFile,
    short_numbers::short_range,
};
use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::{
    Manifest, TransferFunction,
    data::{
        default_transfer::{Interest, interest, stretched},
        presets::{self, PRESETS, Preset, PresetValues},
        transfer_function::{TransferFunctionError, TransferPoint, step_opacity},
        transfer_shapes::{self, TransferShape, TransferShapeError},
    },
    picture::render_settings::Mode,
};
use serde::{Deserialize, de::IgnoredAny};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Largest transfer function file, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Highest opacity of a ParaView preset that brings none of its own.
const PRESET_OPACITY: f64 = 0.3;
/// Parts of a line between two points, where it is a curve in the opacities that are written.
const PARTS: u8 = 16;
/// What the function that is chosen by the values is called where it can be chosen.
pub const DEFAULT: &str = "default";
/// Letters of a preset's name, at most.
const NAME_MAX: usize = 40;
/// How far from 0 and 1 the ends of a normalised function may be.
const NORMALISED_ERROR: f64 = 1e-6;

/// A transfer function, and a line that says which and over which values.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenTransfer {
    /// In data values.
    pub function: TransferFunction,
    /// For people.
    pub told: String,
}

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
    /// Neither a file nor a preset.
    #[error("transfer function {}: there is no such file, and no preset of this name; presets are {}", path.display(), names())]
    Unknown {
        /// What was asked for.
        path: PathBuf,
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
    /// No list of shapes.
    #[error("2D transfer function {}: {}; expected [{{\"kind\": \"box\" or \"gaussian\", \"value\": [FROM, TO], \"gradient\": [FROM, TO], \"color\", \"opacity\"}}, …]", path.display(), shortened(&source.to_string()))]
    Shapes {
        /// File.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Shapes out of their bounds.
    #[error("2D transfer function {}: {source}", path.display())]
    InvalidShapes {
        /// File.
        path: PathBuf,
        /// Which and why.
        source: TransferShapeError,
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

/// Names of all presets, in one line.
fn names() -> String {
    PRESETS.map(|p| p.name).join(", ")
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ParaViewPreset {
    /// value, red, green, blue.
    #[serde(rename = "RGBPoints", default)]
    rgb_points: Vec<f64>,
    /// value, opacity, midpoint, sharpness; the last two are not used.
    #[serde(default)]
    points: Vec<f64>,
}

/// Tells a ParaView preset that stands alone from brickmesh's own form.
#[derive(Deserialize)]
struct Form {
    #[serde(rename = "RGBPoints")]
    rgb_points: Option<IgnoredAny>,
}

/// The transfer function for a data set: the file or preset `asked` for, or the default, stretched
/// as `range` says.
///
/// # Errors
/// [`TransferFileError`] with file, field, found and expected.
pub fn choose(
    asked: Option<&Path>,
    range: Option<TransferRange>,
    mode: Mode,
    manifest: &Manifest,
) -> Result<ChosenTransfer, TransferFileError> {
    let Some(path) = asked else {
        let of = mode.default_transfer(manifest);
        let (function, how) = match range {
            None | Some(TransferRange::Preset) => (of.function, "chosen by its values".to_owned()),
            Some(range) => stretch(&of.function, over(range, manifest)),
        };
        return Ok(told(of.preset, function, &how, manifest));
    };
    let preset = path.to_str().and_then(presets::by_name);
    if let Some(preset) = preset.filter(|_| !path.exists()) {
        return Ok(of_preset(preset, range, manifest));
    }
    let own = path
        .to_str()
        .and_then(own_preset)
        .filter(|_| !path.exists());
    let (function, is_own) = load(own.as_deref().unwrap_or(path))?;
    let is_normalised = !is_own && is_normalised(function.ends());
    let usual = is_normalised.then(|| over(TransferRange::Data, manifest));
    let name = path.display().to_string();
    Ok(ranged(&name, function, range, usual, manifest))
}

/// A preset for a data set, stretched as `range` says.
#[must_use]
pub fn of_preset(
    preset: &Preset,
    range: Option<TransferRange>,
    manifest: &Manifest,
) -> ChosenTransfer {
    let usual = match preset.values {
        PresetValues::Hounsfield => None,
        PresetValues::Normalised => {
            let Interest { from, to } = interest(manifest);
            Some(([from, to], "the values of interest"))
        }
    };
    ranged(preset.name, preset.function(), range, usual, manifest)
}

/// A function stretched over the range asked for, or over its usual one.
fn ranged(
    name: &str,
    function: TransferFunction,
    range: Option<TransferRange>,
    usual: Option<([f64; 2], &'static str)>,
    manifest: &Manifest,
) -> ChosenTransfer {
    let (function, how) = match (range, usual) {
        (None, Some(usual)) => stretch(&function, usual),
        (None | Some(TransferRange::Preset), _) => (function, "as it is".to_owned()),
        (Some(range), _) => stretch(&function, over(range, manifest)),
    };
    told(name, function, &how, manifest)
}

/// The user's own presets: name and file, in order of names.
#[must_use]
pub fn own_presets() -> Vec<(String, PathBuf)> {
    let entries = own_folder().and_then(|folder| fs::read_dir(folder).ok());
    let named = |entry: fs::DirEntry| {
        let path = entry.path();
        let is_json = path.extension().is_some_and(|e| e == "json");
        let name = path.file_stem()?.to_str()?.to_owned();
        is_json.then_some((name, path))
    };
    let mut presets: Vec<(String, PathBuf)> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(named)
        .collect();
    presets.sort();
    presets
}

/// The file of one of the user's own presets, if it is there.
fn own_preset(name: &str) -> Option<PathBuf> {
    let all = own_presets();
    all.into_iter()
        .find(|(n, _)| n == name)
        .map(|(_, path)| path)
}

fn own_folder() -> Option<PathBuf> {
    Some(config_folder()?.join("presets"))
}

/// Writes a function to a file; which one. Where `to` is a path (ends in `.json`), as a ParaView preset
/// with opacities per `spacing`, the smallest one; else, as it is, as one of the user's own presets.
///
/// # Errors
/// Text that names the file and why.
pub fn save(function: &TransferFunction, to: &str, spacing: f64) -> Result<PathBuf, String> {
    let is_path = Path::new(to).extension().is_some_and(|e| e == "json");
    let (path, text) = if is_path {
        let path = PathBuf::from(to);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let preset = to_paraview(function, &name, spacing);
        let text = serde_json::to_string_pretty(&[preset]);
        (path, text)
    } else if is_name(to) && presets::by_name(to).is_none() && to != DEFAULT {
        let folder = own_folder().ok_or("presets need a folder: HOME is not set")?;
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let text = serde_json::to_string_pretty(function);
        (folder.join(format!("{to}.json")), text)
    } else {
        return Err(format!(
            "{to:?} is no name for a preset of your own (letters, digits, spaces, - and _, at most {NAME_MAX}; not that of a built-in one), and no path that ends in .json"
        ));
    };
    let text = text.map_err(|e| e.to_string())?;
    let file = OutputFile::check("transfer function", &path).map_err(|e| e.to_string())?;
    file.write(|w| w.write_all(text.as_bytes()))
        .map_err(|e| e.to_string())?;
    Ok(path)
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || " -_".contains(c);
    (1..=NAME_MAX).contains(&text.chars().count()) && text.chars().all(is_letter)
}

/// What ParaView calls a preset.
fn to_paraview(function: &TransferFunction, name: &str, spacing: f64) -> serde_json::Value {
    let unit = function.unit_distance.unwrap_or(spacing);
    // Straight lines between opacities of another distance are none between these.
    let mut function = function.clone();
    if unit.to_bits() != spacing.to_bits() {
        let ends = function.points.clone();
        for pair in ends.windows(2) {
            for part in 1..PARTS {
                let t = f64::from(part) / f64::from(PARTS);
                let value = pair[0].value + (pair[1].value - pair[0].value) * t;
                if pair[0].value < value && value < pair[1].value {
                    function.add_point(value, function.classify(value).1);
                }
            }
        }
    }
    let colors = |p: &TransferPoint| [p.value, p.color[0], p.color[1], p.color[2]];
    let opacity = |p: &TransferPoint| [p.value, step_opacity(p.opacity, spacing, unit), 0.5, 0.0];
    let (points, colors): (Vec<f64>, Vec<f64>) = (
        function.points.iter().flat_map(opacity).collect(),
        function.points.iter().flat_map(colors).collect(),
    );
    serde_json::json!({ "ColorSpace": "RGB", "Name": name, "Points": points, "RGBPoints": colors })
}

fn told(name: &str, function: TransferFunction, how: &str, manifest: &Manifest) -> ChosenTransfer {
    let data = manifest.value_range().map_or_else(
        || "all of it is no data".to_owned(),
        |range| format!("the data are {}", short_range(range)),
    );
    let told = format!(
        "transfer function {name}: {}, {how}; {data}",
        short_range(function.ends())
    );
    ChosenTransfer { function, told }
}

/// The range that an option names, for people, too.
fn over(range: TransferRange, manifest: &Manifest) -> ([f64; 2], &'static str) {
    match range {
        TransferRange::Given(low, high) => ([low, high], "the range given"),
        _ => (manifest.values(manifest.histogram_range()), "the data"),
    }
}

fn stretch(
    function: &TransferFunction,
    (range, of): ([f64; 2], &str),
) -> (TransferFunction, String) {
    let how = format!("stretched from {} over {of}", short_range(function.ends()));
    (stretched(function, range), how)
}

fn is_normalised([low, high]: [f64; 2]) -> bool {
    low.abs() < NORMALISED_ERROR && (high - 1.0).abs() < NORMALISED_ERROR
}

/// Loads a 2D transfer function.
///
/// # Errors
/// [`TransferFileError`] with file, field, found and expected.
pub fn shapes(path: &Path) -> Result<Vec<TransferShape>, TransferFileError> {
    let path_of = || path.to_owned();
    let text = bounded_file::read_text(path, FILE_BYTES_MAX);
    let text = text.map_err(|source| TransferFileError::Io {
        path: path_of(),
        source,
    })?;
    let shapes: Vec<TransferShape> =
        serde_json::from_str(&text).map_err(|source| TransferFileError::Shapes {
            path: path_of(),
            source,
        })?;
    transfer_shapes::validate(&shapes).map_err(|source| TransferFileError::InvalidShapes {
        path: path_of(),
        source,
    })?;
    Ok(shapes)
}

/// Loads a transfer function, and says whether it is in brickmesh's own form.
fn load(path: &Path) -> Result<(TransferFunction, bool), TransferFileError> {
    let io = |source: std::io::Error| {
        let path = path.to_owned();
        if source.kind() == std::io::ErrorKind::NotFound {
            return TransferFileError::Unknown { path };
        }
        TransferFileError::Io { path, source }
    };
    let text = bounded_file::read_text(path, FILE_BYTES_MAX).map_err(io)?;
    let json = |source| TransferFileError::Json {
        path: path.to_owned(),
        source,
    };
    // Read as what it is at once: a tree of any JSON takes many times the memory of the text.
    let (function, is_own) = if text.trim_start().starts_with('[') {
        let presets: Vec<ParaViewPreset> = serde_json::from_str(&text).map_err(json)?;
        let first = presets.into_iter().next().unwrap_or_default();
        (of_paraview(&first, path)?, false)
    } else if serde_json::from_str::<Form>(&text)
        .map_err(json)?
        .rgb_points
        .is_some()
    {
        let preset = serde_json::from_str(&text).map_err(json)?;
        (of_paraview(&preset, path)?, false)
    } else {
        (serde_json::from_str(&text).map_err(json)?, true)
    };
    function
        .validate()
        .map_err(|source| TransferFileError::Invalid {
            path: path.to_owned(),
            source,
        })?;
    Ok((function, is_own))
}

/// A ParaView preset as it is. Where one of its two lists is normalised and the other is not, that
/// one is stretched over the other.
fn of_paraview(
    preset: &ParaViewPreset,
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
    let mut colors = rows(&preset.rgb_points);
    let ends = |rows: &[Row]| [rows[0].0, rows[rows.len() - 1].0];
    let [low, high] = ends(&colors);
    let opacities = if preset.points.is_empty() {
        vec![(low, [0.0; 3]), (high, [PRESET_OPACITY, 0.0, 0.0])]
    } else {
        let mut rows = rows(&preset.points);
        match (is_normalised([low, high]), is_normalised(ends(&rows))) {
            (false, true) => move_to(&mut rows, [low, high]),
            (true, false) => move_to(&mut colors, ends(&rows)),
            _ => {}
        }
        rows
    };
    let mut values: Vec<f64> = colors.iter().chain(&opacities).map(|p| p.0).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let point = |value, side| TransferPoint {
        value,
        color: interpolate(&colors, value, side),
        opacity: interpolate(&opacities, value, side)[0],
    };
    // Two rows of one value are a step: a point on either side.
    let both = |value| [point(value, Side::Left), point(value, Side::Right)];
    let mut points: Vec<TransferPoint> = values.into_iter().flat_map(both).collect();
    points.dedup();
    Ok(TransferFunction {
        unit_distance: None,
        points,
    })
}

/// A value and three numbers.
type Row = (f64, [f64; 3]);

/// Rows of a list, ascending in value.
fn rows(list: &[f64]) -> Vec<Row> {
    let mut rows: Vec<Row> = list
        .chunks_exact(4)
        .map(|r| (r[0], [r[1], r[2], r[3]]))
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows
}

/// Moves values from 0 … 1 to a range.
fn move_to(rows: &mut [Row], [low, high]: [f64; 2]) {
    rows.iter_mut().for_each(|r| r.0 = low + (high - low) * r.0);
}

/// From where a value is come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

fn interpolate(rows: &[Row], value: f64, side: Side) -> [f64; 3] {
    let above = match side {
        Side::Left => rows.partition_point(|r| r.0 < value),
        Side::Right => rows.partition_point(|r| r.0 <= value),
    };
    let (Some(a), b) = (above.checked_sub(1).map(|i| rows[i]), rows.get(above)) else {
        return rows[0].1;
    };
    let Some(b) = b else { return a.1 };
    let t = (value - a.0) / (b.0 - a.0);
    std::array::from_fn(|c| a.1[c] + (b.1[c] - a.1[c]) * t)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "numbers are exact")]
mod tests {
    use super::*;
    use brickmesh_topology::{VolumeDescription, VoxelType, data::manifest::ManifestParts};
    use std::fs;

    /// A data set with values from 100 to 300.
    fn manifest() -> Manifest {
        let volume = VolumeDescription {
            value_scale: 2.0,
            value_offset: 100.0,
            ..VolumeDescription::new([8; 3], VoxelType::U8)
        };
        let bytes = |_: &_| {
            (0..512_u32)
                .map(|i| u8::try_from(i % 101).unwrap())
                .collect()
        };
        let mut parts = ManifestParts::cut(volume, 8, "test", bytes).unwrap();
        parts.histogram.fill(2);
        Manifest::try_from(parts).unwrap()
    }

    const NORMALISED: &str = r#"[{"Name":"x","ColorSpace":"RGB","RGBPoints":[0,0,0,1, 1,1,0,0],"Points":[0,0,0.5,0, 1,1,0.5,0]}]"#;
    const HOUNSFIELD: &str = r#"{"RGBPoints":[-3024,0,0,0, 143,0.6,0.3,0.2, 3071,1,1,1],"Points":[-3024,0,0.5,0, 3071,0.7,0.5,0]}"#;

    fn chosen(text: &str, range: Option<TransferRange>) -> ChosenTransfer {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("preset.json");
        fs::write(&path, text).unwrap();
        choose(Some(&path), range, Mode::Dvr, &manifest()).unwrap()
    }

    #[test]
    fn a_normalised_preset_is_stretched_over_the_data() {
        let of = chosen(NORMALISED, None);
        let (color, opacity) = of.function.classify(200.0);
        assert!((color[0] - 0.5).abs() < 1e-12 && (opacity - 0.5).abs() < 1e-12);
        assert!(
            of.told.contains("stretched from 0 … 1 over the data"),
            "{}",
            of.told
        );
        assert!(of.told.contains("the data are 100 … 300"), "{}", of.told);
    }

    #[test]
    fn a_preset_in_absolute_units_means_them() {
        let of = chosen(HOUNSFIELD, None);
        assert_eq!(of.function.ends(), [-3024.0, 3071.0]);
        assert!((of.function.classify(143.0).0[0] - 0.6).abs() < 1e-12);
        assert!(of.told.contains("-3024 … 3071, as it is"), "{}", of.told);
    }

    #[test]
    fn a_range_that_is_given_decides() {
        let given = Some(TransferRange::Given(0.0, 10.0));
        let own = r#"{"points":[{"value":3,"color":[0,0,0],"opacity":0},{"value":4,"color":[1,1,1],"opacity":1}]}"#;
        for text in [NORMALISED, HOUNSFIELD, own] {
            assert_eq!(chosen(text, given).function.ends(), [0.0, 10.0]);
            let data = chosen(text, Some(TransferRange::Data));
            assert_eq!(data.function.ends(), [100.0, 300.0]);
        }
        let preset = Some(TransferRange::Preset);
        assert_eq!(chosen(NORMALISED, preset).function.ends(), [0.0, 1.0]);
        assert_eq!(chosen(own, None).function.ends(), [3.0, 4.0]);
    }

    #[test]
    fn presets_are_known_by_name_and_what_is_neither_file_nor_preset_names_them() {
        let named = |name: &str| choose(Some(Path::new(name)), None, Mode::Dvr, &manifest());
        assert_eq!(named("ct-bone").unwrap().function.ends(), [-1000.0, 1500.0]);
        let [low, high] = named("viridis").unwrap().function.ends();
        assert!(100.0 <= low && low < high && high <= 300.0);
        let error = named("viridiss").unwrap_err().to_string();
        assert!(
            error.contains("viridiss") && error.contains("cool-warm"),
            "{error}"
        );
        let default = choose(None, None, Mode::Dvr, &manifest()).unwrap();
        assert!(default.told.contains("structure") && default.told.contains("chosen"));
    }

    #[test]
    fn lists_of_which_one_is_normalised_are_brought_together() {
        let mixed = r#"{"RGBPoints":[-1000,0,0,0, 3000,1,1,1],"Points":[0,0,0.5,0, 1,1,0.5,0]}"#;
        let (color, opacity) = chosen(mixed, None).function.classify(1000.0);
        assert!((color[0] - 0.5).abs() < 1e-12 && (opacity - 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tf.json");
        let error = |text: &str| {
            fs::write(&path, text).unwrap();
            load(&path).unwrap_err().to_string()
        };
        assert!(error("{").contains("tf.json"));
        assert!(error(r#"{"points":[]}"#).contains("1 to 4096 points"));
        assert!(error(r#"[{"RGBPoints":[1,2,3]}]"#).contains("RGBPoints has 3 numbers"));
        assert!(load(&dir.path().join("none")).is_err());
    }

    #[test]
    fn what_is_saved_for_paraview_is_read_again_as_it_looks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.json");
        let point = |value, opacity| TransferPoint {
            value,
            color: [value / 100.0, 0.25, 1.0],
            opacity,
        };
        // A step at 60.
        let points = vec![
            point(0.0, 0.0),
            point(60.0, 0.5),
            point(60.0, 0.1),
            point(100.0, 0.8),
        ];
        for unit_distance in [None, Some(0.2), Some(3.0)] {
            let function = TransferFunction {
                unit_distance,
                points: points.clone(),
            };
            save(&function, path.to_str().unwrap(), 0.5).unwrap();
            let preset = Some(TransferRange::Preset);
            let read = choose(Some(&path), preset, Mode::Dvr, &manifest())
                .unwrap()
                .function;
            let unit = unit_distance.unwrap_or(0.5);
            for value in (0..=1000).map(|n| f64::from(n) / 10.0) {
                let ((color, opacity), (shown, faint)) =
                    (function.classify(value), read.classify(value));
                let wanted = step_opacity(opacity, 0.5, unit);
                assert!(
                    (wanted - faint).abs() < 0.01,
                    "{unit_distance:?}, {value}: {wanted} {faint}"
                );
                assert!((0..3).all(|c| (color[c] - shown[c]).abs() < 1e-9));
            }
        }
        assert!(
            save(&TransferFunction::ramp(0.0, 1.0), "grey", 1.0)
                .unwrap_err()
                .contains("built-in")
        );
        assert!(save(&TransferFunction::ramp(0.0, 1.0), "a/b", 1.0).is_err());
    }
}

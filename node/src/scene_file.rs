//! A scene as a JSON file: a volume, if there is one, and the triangle meshes that stand in it, each in its place.
//!
//! `{"volume": "head.nii.gz", "surfaces": [{"file": "skull.stl", "color": [1, 0.9, 0.8], "opacity": 0.5, "transform": [{"scale": [2, 2, 2]},
//! {"rotate": {"axis": [0, 0, 1], "degrees": 90}}, {"translate": [10, 0, 0]}]}]}`. Files are sought beside the scene's. Steps of a transform follow
//! each other; `{"matrix": [[…], […], […]]}` is three rows of four numbers.

use crate::{args::SurfaceArg, bounded_file};
use brickmesh_actors::plain_text::shortened;
use glam::{DAffine3, DMat3, DVec3};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Largest file, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneFile {
    /// A file or folder; `None`: the surfaces stand alone.
    pub volume: Option<PathBuf>,
    /// One at least, where there is no volume.
    pub surfaces: Vec<SurfaceArg>,
}

/// A file that is no scene.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scene {}: {why}", path.display())]
pub struct SceneFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SceneText {
    volume: Option<PathBuf>,
    #[serde(default)]
    surfaces: Vec<SurfaceText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SurfaceText {
    file: PathBuf,
    color: Option<[f32; 3]>,
    #[serde(default = "opaque")]
    opacity: f32,
    #[serde(default)]
    transform: Vec<Step>,
}

fn opaque() -> f32 {
    1.0
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Step {
    Scale([f64; 3]),
    Rotate { axis: [f64; 3], degrees: f64 },
    Translate([f64; 3]),
    Matrix([[f64; 4]; 3]),
}

impl Step {
    fn affine(&self) -> DAffine3 {
        match self {
            Self::Scale(by) => DAffine3::from_scale(DVec3::from_array(*by)),
            Self::Rotate { axis, degrees } => {
                let axis = DVec3::from_array(*axis).normalize();
                DAffine3::from_axis_angle(axis, degrees.to_radians())
            }
            Self::Translate(by) => DAffine3::from_translation(DVec3::from_array(*by)),
            Self::Matrix(rows) => {
                let column = |c: usize| DVec3::from_array(rows.map(|row| row[c]));
                let [x, y, z] = [0, 1, 2].map(column);
                DAffine3::from_mat3_translation(DMat3::from_cols(x, y, z), column(3))
            }
        }
    }
}

/// Whether a path is named like a scene.
#[must_use]
pub fn is_scene(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str());
    ending.is_some_and(|e| e.eq_ignore_ascii_case("json"))
}

/// Reads a scene.
///
/// # Errors
/// [`SceneFileError`].
pub fn read(path: &Path) -> Result<SceneFile, SceneFileError> {
    let wrong = |why: String| SceneFileError {
        path: path.to_owned(),
        why: shortened(&why),
    };
    let text = bounded_file::read_text(path, FILE_BYTES_MAX).map_err(|e| wrong(e.to_string()))?;
    let text: SceneText = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let volume = text.volume.map(|volume| folder.join(volume));
    if volume.as_deref().is_some_and(is_scene) {
        return Err(wrong("its volume is a scene; name a volume".to_owned()));
    }
    if volume.is_none() && text.surfaces.is_empty() {
        let why = "there is nothing in it: it needs \"volume\", or \"surfaces\"";
        return Err(wrong(why.to_owned()));
    }
    let surface = |(n, surface): (usize, SurfaceText)| {
        let steps = surface.transform.iter().map(Step::affine);
        let found = SurfaceArg {
            color: surface.color,
            opacity: surface.opacity,
            place: steps.fold(DAffine3::IDENTITY, |before, step| step * before),
            ..SurfaceArg::new(folder.join(surface.file))
        };
        let why = |why: &str| Err(wrong(format!("surface {n}: {why}")));
        if !found.material(0).is_valid() {
            return why("a colour must be of 0 to 1 each, an opacity above 0, up to 1");
        }
        let volume = found.place.matrix3.determinant();
        if !(found.place.is_finite() && volume.abs() > 0.0) {
            return why(
                "its transform must be of finite numbers, its scales not 0, an axis longer than 0",
            );
        }
        Ok(found)
    };
    let surfaces = text.surfaces.into_iter().enumerate().map(surface);
    Ok(SceneFile {
        volume,
        surfaces: surfaces.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_scene_has_its_files_beside_it_and_each_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.json");
        let read_text = |text: &str| {
            fs::write(&path, text).unwrap();
            read(&path)
        };
        let scene = read_text(
            r#"{"volume": "v.nrrd", "surfaces": [{"file": "a.ply"}, {"file": "b.stl", "color": [1, 0, 0.5], "opacity": 0.25, "transform":
            [{"scale": [2, 2, 4]}, {"rotate": {"axis": [0, 0, 9], "degrees": 90}}, {"translate": [10, 0, 0]},
            {"matrix": [[1, 0, 0, 5], [0, 1, 0, 0], [0, 0, -1, 0]]}]}]}"#,
        )
        .unwrap();
        assert_eq!(scene.volume, Some(folder.path().join("v.nrrd")));
        let [a, b] = &scene.surfaces[..] else {
            panic!("{scene:?}");
        };
        assert_eq!(*a, SurfaceArg::new(folder.path().join("a.ply")));
        assert_eq!((b.color, b.opacity), (Some([1.0, 0.0, 0.5]), 0.25));
        let placed = b.place.transform_point3(DVec3::new(1.0, 2.0, 3.0));
        assert!(
            (placed - DVec3::new(11.0, 2.0, -12.0)).length() < 1e-12,
            "{placed}"
        );
        assert!(is_scene(&path) && !is_scene(Path::new("a.ply")));
        for (text, words) in [
            ("{}", "nothing in it"),
            ("[]", "invalid"),
            (r#"{"volume": "x.json"}"#, "is a scene"),
            (r#"{"volumes": "x"}"#, "unknown field"),
            (
                r#"{"surfaces": [{"file": "a.ply", "opacity": 0}]}"#,
                "surface 0: a colour",
            ),
            (
                r#"{"surfaces": [{"file": "a.ply"}, {"file": "a.ply", "transform": [{"scale": [1, 0, 1]}]}]}"#,
                "surface 1: its transform",
            ),
            (
                r#"{"surfaces": [{"file": "a.ply", "transform": [{"rotate": {"axis": [0, 0, 0], "degrees": 1}}]}]}"#,
                "surface 0: its transform",
            ),
            (
                r#"{"surfaces": [{"file": "a.ply", "transform": [{"turn": 3}]}]}"#,
                "unknown variant",
            ),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains("scene.json"),
                "{error}"
            );
        }
    }
}

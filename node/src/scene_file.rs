//! A scene as a JSON file: a volume, if there is one, the triangle meshes that stand in it, each in its place, and how it is looked at.
//!
//! `{"volume": "head.nii.gz", "surfaces": [{"file": "skull.stl", "color": [1, 0.9, 0.8], "opacity": 0.5, "transform": [{"scale": [2, 2, 2]},
//! {"rotate": {"axis": [0, 0, 1], "degrees": 90}}, {"translate": [10, 0, 0]}]}]}`. Files are sought beside the scene's. Steps of a transform follow
//! each other; `{"matrix": [[…], […], […]]}` is three rows of four numbers. Of a picture: `"mode": "iso"`, `"isovalues": [{"value": 40.5,
//! "color": [1, 0, 0], "opacity": 0.5}]`, `"light": {"from": [1, 1, 1], "ambient": 0.2, "diffuse": 0.7, "specular": 0.2, "exponent": 10,
//! "shadows": true}`; what the command line says goes before it.

use crate::{
    args::{PictureArgs, SurfaceArg},
    bounded_file,
    surface_file::is_surface,
};
use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::picture::{
    isosurface::{self, Isosurface},
    render_settings::{Light, Mode},
};
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
    /// How it is looked at.
    pub look: SceneLook,
}

/// What a scene says of its pictures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SceneLook {
    /// How samples become a pixel.
    pub mode: Option<Mode>,
    /// None, where there is no volume.
    pub isosurfaces: Vec<Isosurface>,
    /// How surfaces answer the light, and where it is.
    pub light: Option<Light>,
    /// Surfaces keep the light from each other.
    pub shadows: bool,
}

impl SceneLook {
    /// The same pictures as this scene says, where the command line does not say otherwise.
    #[must_use]
    pub fn under(self, args: &PictureArgs) -> PictureArgs {
        let mut args = args.clone();
        if args.session.is_some() {
            return args;
        }
        let is_slice = args.slice.is_some() || args.slab.is_some();
        let fits = |mode: &Mode| !is_slice || mode.is_slice();
        args.mode = args.mode.or(self.mode.filter(fits));
        args.light_from = args.light_from.or(self.light.and_then(|l| l.direction));
        args.light = args.light.or(self.light);
        // Other modes show no surfaces.
        if args.mode().hides() {
            args.shadows = args.shadows.or(Some(self.shadows));
            if args.iso.is_empty() {
                args.iso = self.isosurfaces;
            }
        }
        args
    }
}

/// What a picture of a file shows: where that is a scene, as it says, and as the command line says.
///
/// # Errors
/// [`SceneFileError`].
pub fn picture_args(path: &Path, args: &PictureArgs) -> Result<PictureArgs, SceneFileError> {
    if !is_scene(path) {
        return Ok(args.clone());
    }
    Ok(read(path)?.look.under(args))
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
    mode: Option<Mode>,
    #[serde(default)]
    isovalues: Vec<IsovalueText>,
    light: Option<LightText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IsovalueText {
    value: f64,
    color: Option<[f32; 3]>,
    #[serde(default = "opaque")]
    opacity: f32,
}

/// What is left out is as [`Light`] has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LightText {
    from: Option<[f32; 3]>,
    ambient: Option<f32>,
    diffuse: Option<f32>,
    specular: Option<f32>,
    exponent: Option<u32>,
    #[serde(default)]
    shadows: bool,
}

impl LightText {
    fn light(&self) -> Light {
        let usual = Light::default();
        Light {
            ambient: self.ambient.unwrap_or(usual.ambient),
            diffuse: self.diffuse.unwrap_or(usual.diffuse),
            specular: self.specular.unwrap_or(usual.specular),
            exponent: self.exponent.unwrap_or(usual.exponent),
            direction: self.from,
        }
    }
}

impl SceneText {
    /// How it is looked at; or what is wrong with that.
    fn look(&self) -> Result<SceneLook, String> {
        let isosurface = |text: &IsovalueText| {
            let usual = Isosurface::new(text.value);
            Isosurface {
                color: text.color.unwrap_or(usual.color),
                opacity: text.opacity,
                ..usual
            }
        };
        let isosurfaces: Vec<_> = self.isovalues.iter().map(isosurface).collect();
        isosurface::validate(&isosurfaces).map_err(|e| format!("isovalues: {e}"))?;
        let has_values = self.volume.as_deref().is_some_and(|v| !is_surface(v));
        if !has_values && !isosurfaces.is_empty() {
            return Err("\"isovalues\" are of a volume, and it has none".to_owned());
        }
        let light = self.light.as_ref().map(LightText::light);
        light
            .map_or(Ok(()), |l| l.validate())
            .map_err(|e| format!("light: {e}"))?;
        let shadows = self.light.as_ref().is_some_and(|l| l.shadows);
        if shadows && light.is_some_and(|l| l.direction.is_none()) {
            return Err("light: one at the eye sees no shadows; say where it is, \"from\": [right, up, nearer]".to_owned());
        }
        if self.mode.is_some_and(|m| !m.hides()) && (shadows || !isosurfaces.is_empty()) {
            return Err("isovalues and shadows are of modes dvr and iso".to_owned());
        }
        Ok(SceneLook {
            mode: self.mode,
            isosurfaces,
            light,
            shadows,
        })
    }
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
    let look = text.look().map_err(wrong)?;
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
        if !is_surface(&found.path) {
            return why(
                "it is named like no triangle mesh: expected .ply, .stl, .obj, .gltf or .glb",
            );
        }
        if !found.material(0, None).is_valid() {
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
        look,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;
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
        assert_eq!(scene.look, SceneLook::default());
    }

    #[test]
    fn what_is_wrong_with_a_scene_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.json");
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
            (
                r#"{"surfaces": [{"file": "a.ply"}], "isovalues": [{"value": 1}]}"#,
                "are of a volume",
            ),
            (
                r#"{"volume": "v.glb", "isovalues": [{"value": 1}]}"#,
                "are of a volume",
            ),
            (r#"{"surfaces": [{"file": "a.json"}]}"#, "no triangle mesh"),
            (
                r#"{"volume": "v", "isovalues": [{"value": 1, "opacity": 2}]}"#,
                "isovalues: ",
            ),
            (r#"{"volume": "v", "light": {"ambient": 2}}"#, "light: "),
            (
                r#"{"volume": "v", "light": {"from": [0, 0, 0]}}"#,
                "light: ",
            ),
            (
                r#"{"volume": "v", "light": {"shadows": true}}"#,
                "sees no shadows",
            ),
            (r#"{"volume": "v", "mode": "x"}"#, "unknown variant"),
            (
                r#"{"volume": "v", "mode": "mip", "isovalues": [{"value": 1}]}"#,
                "of modes dvr and iso",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains("scene.json"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_scene_says_how_it_is_looked_at_and_the_command_line_goes_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        let text = r#"{"volume": "v.nrrd", "mode": "iso", "isovalues": [{"value": 40.5, "color": [1, 0, 0], "opacity": 0.5}, {"value": 90}],
            "light": {"from": [1, 2, 3], "diffuse": 0.5, "shadows": true}}"#;
        fs::write(&path, text).unwrap();
        let args = |more: &[&str]| {
            let all = ["brickmesh", "render", "s.json", "--out", "o.png"];
            let all = all.iter().chain(more);
            let command = Cli::try_parse_from(all).unwrap().command;
            let Command::Render(args) = command else {
                panic!("{command:?}");
            };
            picture_args(&path, &args.picture).unwrap()
        };
        let plain = args(&[]);
        let red = Isosurface {
            color: [1.0, 0.0, 0.0],
            opacity: 0.5,
            ..Isosurface::new(40.5)
        };
        assert_eq!(plain.iso, [red, Isosurface::new(90.0)]);
        assert_eq!((plain.mode, plain.shadows), (Some(Mode::Iso), Some(true)));
        assert!(!args(&["--shadows", "off"]).has_shadows());
        assert_eq!(plain.light_from, Some([1.0, 2.0, 3.0]));
        let half = Light {
            diffuse: 0.5,
            direction: Some([1.0, 2.0, 3.0]),
            ..Light::default()
        };
        assert_eq!(plain.light, Some(half));
        let own = args(&["--iso", "7", "--mode", "dvr", "--light-from", "0,0,1"]);
        assert_eq!(own.iso, [Isosurface::new(7.0)]);
        assert_eq!(
            (own.mode, own.light_from),
            (Some(Mode::Dvr), Some([0.0, 0.0, 1.0]))
        );
        // What shows no surfaces has none.
        let mip = args(&["--mode", "mip"]);
        assert!(mip.iso.is_empty() && !mip.has_shadows());
        let other = picture_args(Path::new("none.nrrd"), &plain).unwrap();
        assert_eq!(other.iso, plain.iso);
    }
}

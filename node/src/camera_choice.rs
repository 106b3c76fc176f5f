//! The camera that the command line asks for.

use crate::{
    args::{CameraArg, Orbit, PictureArgs, parse_camera, parse_orbit},
    bounded_file,
    picture_settings::slice,
    saved_session::SavedSession,
};
use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::{
    Camera, Manifest, RenderSettings, TransferFunction, VolumeDescription,
    picture::{
        clip::Clip,
        framing::{camera_of_visible, default_camera},
        visible_cells::VisibleCells,
    },
};
use glam::DVec3;
use serde::Deserialize;
use std::path::Path;

/// Most cameras in a file.
const CAMERAS_MAX: usize = 100_000;
/// Largest file of cameras, in bytes: a hundred and sixty for each of the most.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The camera of `--session`, `--camera` or `--orbit`; what was left out is as by default. Without any, in
/// front of the slice, where one is shown.
///
/// # Errors
/// Where the session cannot be read, or the slice is none of the volume's.
pub fn camera(args: &PictureArgs, manifest: &Manifest) -> Result<Camera, String> {
    if let Some(path) = &args.session {
        return Ok(SavedSession::read(path, manifest)?.camera);
    }
    let slice = slice(args, manifest.volume())?;
    let camera = match (args.orbit, args.camera, slice) {
        (Some(orbit), ..) => orbiting(orbit, manifest.volume()),
        (None, Some(camera), _) => given(camera, |fov| usual(args, manifest, fov)),
        (None, None, Some(slice)) => slice.camera(manifest.volume(), args.size),
        (None, None, None) => usual(args, manifest, None),
    };
    Ok(Camera {
        projection: args.projection.unwrap_or(camera.projection),
        ..camera
    })
}

/// An entry of a `--cameras` file: the value of `--orbit`, or of `--camera`, and whether peers steal.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    orbit: Option<String>,
    camera: Option<String>,
    steal: Option<bool>,
}

/// What one picture of a turn is made with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shot {
    /// From where.
    pub camera: Camera,
    /// Whether peers steal, in place of `--steal`: so that both can be measured side by side.
    pub steal: Option<bool>,
}

impl From<Camera> for Shot {
    fn from(camera: Camera) -> Self {
        Self {
            camera,
            steal: None,
        }
    }
}

/// The pictures of a `--cameras` file, of this width and height.
///
/// # Errors
/// Text that names the file, the entry and what is wrong with it.
pub fn shots(path: &Path, manifest: &Manifest, size: (u32, u32)) -> Result<Vec<Shot>, String> {
    let wrong = |what: String| format!("cameras {}: {}", path.display(), shortened(&what));
    let text = bounded_file::read_text(path, FILE_BYTES_MAX).map_err(|e| wrong(e.to_string()))?;
    let entries: Vec<Entry> = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    if !(1..=CAMERAS_MAX).contains(&entries.len()) {
        let found = entries.len();
        return Err(wrong(format!(
            "{found} cameras; there must be 1 to {CAMERAS_MAX}"
        )));
    }
    let one = |(index, entry): (usize, &Entry)| {
        let camera = match (&entry.orbit, &entry.camera) {
            (Some(orbit), None) => parse_orbit(orbit).map(|o| orbiting(o, manifest.volume())),
            (None, Some(camera)) => {
                let usual = |fov| default_camera(manifest, size, fov);
                parse_camera(camera).map(|camera| given(camera, usual))
            }
            _ => Err("it must have either \"orbit\" or \"camera\"".to_owned()),
        };
        let camera = camera.map_err(|e| wrong(format!("entry {index}: {e}")))?;
        let steal = entry.steal;
        Ok(Shot { camera, steal })
    };
    entries.iter().enumerate().map(one).collect()
}

fn orbiting(orbit: Orbit, volume: &VolumeDescription) -> Camera {
    Camera::orbit(volume, orbit.azimuth, orbit.elevation, orbit.zoom)
}

/// The camera where nothing is said of it: around isosurfaces, where nothing else is seen.
fn usual(args: &PictureArgs, manifest: &Manifest, fov: Option<f64>) -> Camera {
    if args.mode().has_samples() {
        return default_camera(manifest, args.size, fov);
    }
    let settings = RenderSettings {
        mode: args.mode(),
        isosurfaces: args.iso.clone(),
        clip: Clip {
            bounds: args.clip,
            planes: args.clip_plane.clone(),
        },
        ..RenderSettings::new(TransferFunction::ramp(0.0, 1.0), 1.0)
    };
    let visible = VisibleCells::of(manifest, &settings);
    camera_of_visible(&visible, manifest, args.size, fov)
}

/// What is left out is that of another camera, of a field of view if one is given.
fn given(given: CameraArg, usual: impl Fn(Option<f64>) -> Camera) -> Camera {
    let default = usual(given.fov);
    let vector = |v: Option<[f64; 3]>, or| v.map_or(or, DVec3::from_array);
    Camera {
        eye: vector(given.eye, default.eye),
        at: vector(given.at, default.at),
        up: vector(given.up, default.up),
        fov_degrees: default.fov_degrees,
        projection: default.projection,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{VoxelBox, VoxelType, data::manifest::ManifestParts};

    #[test]
    fn a_file_gives_a_camera_each_and_names_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cameras.json");
        let volume = VolumeDescription::new([8; 3], VoxelType::U8);
        let bytes = |stored: &VoxelBox| vec![1; usize::try_from(stored.voxel_count()).unwrap()];
        let parts = ManifestParts::cut(volume, 8, "test", bytes).unwrap();
        let manifest = Manifest::try_from(parts).unwrap();
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            shots(&path, &manifest, (64, 64))
        };
        let two = read(r#"[{"orbit": "30,20,2"}, {"camera": "eye=1,2,30", "steal": false}]"#);
        let two = two.unwrap();
        let orbit = Camera::orbit(manifest.volume(), 30.0, 20.0, 2.0);
        assert_eq!(two[0], orbit.into());
        assert_eq!(two[1].camera.eye, DVec3::new(1.0, 2.0, 30.0));
        assert_eq!(two[1].steal, Some(false));
        for (text, word) in [
            ("[]", "0 cameras"),
            (r#"[{"orbit": "30"}]"#, "entry 0"),
            (r#"[{"orbit": "1,2", "camera": "fov=3"}]"#, "either"),
            (r#"[{"eye": 1}]"#, "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains(word) && error.contains("cameras.json"),
                "{error}"
            );
        }
    }
}

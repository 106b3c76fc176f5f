//! Files of camera paths: JSON with a version, written whole or not at all.

use crate::{bounded_file, output_file::OutputFile};
use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::picture::camera_path::CameraPath;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Form of the file.
const FORM: u32 = 1;
/// Largest file, in bytes: some hundred for each of the most keys.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathFile {
    /// Version of the form.
    brickmesh_path: u32,
    keys: CameraPath,
}

/// Tells a path from other JSON.
#[derive(Deserialize)]
struct Form {
    brickmesh_path: Option<u32>,
}

/// Reads a path.
///
/// # Errors
/// Text that names the file, the field or key, and what is wrong with it.
pub fn read(path: &Path) -> Result<CameraPath, String> {
    let wrong = |what: String| format!("path {}: {}", path.display(), shortened(&what));
    let text = bounded_file::read_text(path, FILE_BYTES_MAX).map_err(|e| wrong(e.to_string()))?;
    let form: Form = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    if form.brickmesh_path.is_none() {
        let what = "it has no brickmesh_path; save a path in the viewer";
        return Err(wrong(what.to_owned()));
    }
    let found: PathFile = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    let form = found.brickmesh_path;
    if form != FORM {
        return Err(wrong(format!(
            "brickmesh_path is {form}; this program reads {FORM}"
        )));
    }
    found.keys.validate().map_err(|e| wrong(e.to_string()))?;
    Ok(found.keys)
}

/// Writes a path.
///
/// # Errors
/// Text that names the file and why.
pub fn write(keys: &CameraPath, path: &Path) -> Result<(), String> {
    keys.validate().map_err(|e| format!("path: {e}"))?;
    // Whatever else is typed by mistake may be a volume.
    if path.extension().is_none_or(|e| e != "json") {
        let shown = path.display();
        return Err(format!("path {shown}: choose a name that ends in .json"));
    }
    let file = PathFile {
        brickmesh_path: FORM,
        keys: keys.clone(),
    };
    let text = serde_json::to_string_pretty(&file).map_err(|e| e.to_string())?;
    let file = OutputFile::check("path", path).map_err(|e| e.to_string())?;
    let written = file.write(|w| w.write_all(text.as_bytes()));
    written.map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{
        Camera, VolumeDescription, VoxelType, picture::camera_path::CameraKey,
    };

    #[test]
    fn what_is_read_is_what_was_written_and_bad_files_say_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        let volume = VolumeDescription::new([8; 3], VoxelType::U8);
        let key = |frame, azimuth| CameraKey {
            frame,
            camera: Camera::orbit(&volume, azimuth, 10.0, 1.0),
        };
        let keys = CameraPath {
            keys: vec![key(0, 0.0), key(59, 90.0)],
        };
        write(&keys, &path).unwrap();
        assert_eq!(read(&path), Ok(keys.clone()));
        let other = folder.path().join("v.nrrd");
        assert!(write(&keys, &other).unwrap_err().contains(".json") && !other.exists());
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to, said) in [
            ("\"brickmesh_path\": 1", "\"brickmesh_path\": 9", "reads 1"),
            ("\"frame\": 59", "\"frame\": 0", "key 1 is at frame 0"),
            ("\"frame\": 59", "\"time\": 59", "time"),
            ("{", "", "line"),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let why = read(&path).unwrap_err();
            assert!(why.contains(said) && why.contains("p.json"), "{why}");
        }
        assert!(
            write(&CameraPath::default(), &path)
                .unwrap_err()
                .contains("no key")
        );
    }
}

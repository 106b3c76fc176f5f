//! A saved session of the viewer: what was seen, of which volume, and from where; as JSON.
//!
//! It is bound to the volume, not to how that is cut into bricks: any peer that opens the volume shows the
//! same picture.

use crate::{bounded_file, output_file::OutputFile, overlay::Overlay};
use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::{
    Camera, Manifest, RenderSettings, VolumeDescription, picture::slice_views::SliceViews,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Form of the file.
const FORM: u32 = 1;
/// Largest file, in bytes: a transfer function has thousands of points at most.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedSession {
    /// Version of the form.
    brickmesh_session: u32,
    /// Name of the volume's file, for people.
    source: String,
    /// The volume.
    volume: VolumeDescription,
    /// From where.
    pub camera: Camera,
    /// What is to be seen.
    pub settings: RenderSettings,
    /// Slices beside that, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<SliceViews>,
    /// What is drawn over the picture.
    #[serde(default)]
    pub overlay: Overlay,
}

/// Tells a session from other JSON.
#[derive(Deserialize)]
struct Form {
    #[serde(rename = "brickmesh_session")]
    form: Option<u32>,
}

impl SavedSession {
    /// Of a data set.
    #[must_use]
    pub fn new(
        manifest: &Manifest,
        camera: Camera,
        settings: RenderSettings,
        slices: Option<SliceViews>,
        overlay: Overlay,
    ) -> Self {
        Self {
            brickmesh_session: FORM,
            source: manifest.source().to_owned(),
            volume: manifest.volume().clone(),
            camera,
            settings,
            slices,
            overlay,
        }
    }

    /// Whether a file is one, as far as that can be seen.
    #[must_use]
    pub fn is_there(path: &Path) -> bool {
        let text = bounded_file::read_text(path, FILE_BYTES_MAX).unwrap_or_default();
        serde_json::from_str::<Form>(&text).is_ok_and(|found| found.form.is_some())
    }

    /// Reads one of a data set.
    ///
    /// # Errors
    /// Text that names the file, the field and what is wrong with it; where it is of another volume,
    /// both.
    pub fn read(path: &Path, manifest: &Manifest) -> Result<Self, String> {
        let wrong = |what: String| format!("session {}: {what}", path.display());
        let text =
            bounded_file::read_text(path, FILE_BYTES_MAX).map_err(|e| wrong(e.to_string()))?;
        let json = |e: serde_json::Error| wrong(shortened(&e.to_string()));
        let form: Form = serde_json::from_str(&text).map_err(json)?;
        match form.form {
            Some(FORM) => {}
            Some(other) => {
                return Err(wrong(format!(
                    "brickmesh_session is {other}; this program reads {FORM}"
                )));
            }
            None => {
                return Err(wrong(
                    "it has no brickmesh_session; save one in the viewer".to_owned(),
                ));
            }
        }
        let found: Self = serde_json::from_str(&text).map_err(json)?;
        let volume = manifest.volume();
        let unit = volume.unit;
        if (VolumeDescription {
            unit,
            ..found.volume.clone()
        }) != *volume
        {
            let [of, open] = [
                (&found.source, &found.volume),
                (&manifest.source().to_owned(), volume),
            ]
            .map(|(source, volume)| {
                let [x, y, z] = volume.dims;
                let voxel = format!("{:?}", volume.voxel).to_lowercase();
                format!("{} ({x} × {y} × {z} {voxel})", shortened(source))
            });
            return Err(wrong(format!(
                "it is of another volume, {of}; this is {open}"
            )));
        }
        found.validate().map_err(wrong)?;
        Ok(found)
    }

    /// What is wrong with what is seen.
    fn validate(&self) -> Result<(), String> {
        let (settings, volume) = (&self.settings, &self.volume);
        settings.validate(volume).map_err(|e| e.to_string())?;
        if let Some(slices) = &self.slices {
            let valid = slices.validate(settings, volume);
            valid.map_err(|e| e.to_string())?;
        }
        self.overlay.validate()?;
        self.camera.view(1, 1).map_err(|e| e.to_string())?;
        Ok(())
    }

    /// Writes it, if it can be read again.
    ///
    /// # Errors
    /// Text that names the file, or the field, and what is wrong.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        self.validate().map_err(|e| format!("session: {e}"))?;
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        let file = OutputFile::check("session", path).map_err(|e| e.to_string())?;
        let written = file.write(|w| w.write_all(text.as_bytes()));
        written.map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{TransferFunction, VoxelType, data::manifest::ManifestParts};
    use std::fs;

    fn manifest(dims: [u32; 3], brick: u32) -> Manifest {
        let volume = VolumeDescription::new(dims, VoxelType::U8);
        let bytes = |stored: &brickmesh_topology::VoxelBox| {
            (0..stored.voxel_count()).map(|i| (i % 251) as u8).collect()
        };
        let parts = ManifestParts::cut(volume, brick, "test.nrrd", bytes).unwrap();
        Manifest::try_from(parts).unwrap()
    }

    #[test]
    fn what_is_read_is_what_was_written_whatever_the_bricks_and_bad_files_say_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        let of = manifest([8; 3], 8);
        let settings = RenderSettings::new(TransferFunction::ramp(0.1, 1.0 / 3.0), 0.7);
        let saved = SavedSession::new(
            &of,
            Camera::whole(of.volume()),
            settings,
            Some(SliceViews::new(&of)),
            Overlay::default(),
        );
        saved.write(&path).unwrap();
        assert!(SavedSession::is_there(&path));
        let read = |of: &Manifest| SavedSession::read(&path, of);
        assert_eq!(read(&of), Ok(saved.clone()));
        assert_eq!(read(&manifest([8; 3], 4)), Ok(saved));
        let other = read(&manifest([9, 8, 8], 8)).unwrap_err();
        assert!(
            other.contains("(8 × 8 × 8 u8); this is test.nrrd (9 × 8 × 8 u8)"),
            "{other}"
        );
        let text = fs::read_to_string(&path).unwrap();
        for (from, to, said) in [
            (
                "\"brickmesh_session\": 1",
                "\"brickmesh_session\": 2",
                "this program reads 1",
            ),
            ("\"brickmesh_session\": 1,", "", "no brickmesh_session"),
            ("\"step\": 0.7", "\"step\": -1", "step is -1"),
            ("\"step\": 0.7", "\"stop\": 0.7", "step"),
            ("\"fov_degrees\"", "\"fov\"", "fov"),
            ("\"exponent\": 10", "\"exponent\": 1000", "exponent is 1000"),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            fs::write(&path, text.replace(from, to)).unwrap();
            let why = read(&of).unwrap_err();
            assert!(why.contains(said) && why.contains("s.json"), "{why}");
        }
        fs::write(&path, "{").unwrap();
        assert!(!SavedSession::is_there(&path));
        assert!(read(&of).is_err());
    }
}

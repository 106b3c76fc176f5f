//! A data set that is open, with what hands do to it and how its scene came about.

use super::{
    Opened,
    hands::Hands,
    panels::PictureChoice,
    panes::Pane,
    scene::{History, Scene},
};
use crate::{saved_session::SavedSession, transfer};
use brickmesh_topology::{Digest, picture::render_settings::Mode};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A data set, and what is done to it.
pub(super) struct Stage {
    pub opened: Opened,
    pub hands: Hands,
    pub history: History,
}

impl Stage {
    /// Takes a transfer function or a session from a file, as an edit; what there is to tell.
    pub(super) fn take(&mut self, path: &Path) -> Result<String, String> {
        let manifest = &self.opened.manifest;
        let mut scene = self.history.now().clone();
        let told = if SavedSession::is_there(path) {
            let saved = SavedSession::read(path, manifest)?;
            let slices = saved.slices.unwrap_or(scene.slices);
            scene = Scene {
                camera: saved.camera,
                settings: Arc::new(saved.settings),
                slices,
                overlay: saved.overlay,
            };
            format!("session {}", path.display())
        } else {
            let chosen = transfer::choose(Some(path), None, Mode::default(), manifest);
            let chosen = chosen.map_err(|e| e.to_string())?;
            let mut settings = (*scene.settings).clone();
            settings.transfer = chosen.function;
            settings.transfer_2d.clear();
            scene.settings = Arc::new(settings);
            chosen.told
        };
        self.history.end_edit();
        self.history.set(scene);
        self.history.end_edit();
        Ok(told)
    }

    /// Whether anything is drawn over pictures, as their cameras see it.
    pub(super) fn draws_over(&self) -> bool {
        let scene = self.history.now();
        self.hands.ruler.is_some() || scene.slices.are_shown || !scene.overlay.is_empty()
    }

    fn session(&self) -> SavedSession {
        let Scene {
            camera,
            settings,
            slices,
            overlay,
        } = self.history.now().clone();
        let settings = (*settings).clone();
        let manifest = &self.opened.manifest;
        SavedSession::new(manifest, camera, settings, Some(slices), overlay)
    }

    /// Writes what is seen.
    pub(super) fn save_session(&self, path: &Path) -> Result<(), String> {
        self.session().write(path)
    }

    /// Keeps what is seen in a folder, and says which command renders it.
    pub(super) fn command(&self, folder: &Path, choice: &PictureChoice) -> Result<String, String> {
        let path = self.opened.path.as_deref().filter(|path| path.exists());
        let path = path.ok_or("the volume is no file of this machine; the command needs one")?;
        let absolute = std::path::absolute(path).map_err(|e| e.to_string())?;
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let text = serde_json::to_vec(&self.session()).map_err(|e| e.to_string())?;
        let session = folder.join(format!("{}.json", Digest::of(&text).short()));
        self.save_session(&session)?;
        let [volume, session, out] = [&absolute, &session, &choice.path].map(|path| quoted(path));
        let [width, height] = choice.size;
        let mut line = format!("brickmesh render {}", volume?);
        // An imported volume has said what is no data.
        let description = self.opened.manifest.volume();
        if let Some(stored) = description.fill.filter(|_| path.is_file()) {
            let value = stored * description.value_scale + description.value_offset;
            line += &format!(" --fill {value}");
        }
        line += &format!(" --session {} --size {width}x{height}", session?);
        if choice.is_transparent {
            line += " --transparent";
        }
        if !choice.with_overlay {
            line += " --overlay none";
        }
        Ok(line + " --out " + &out?)
    }

    /// Writes a transfer function under a name or to a file; where that is.
    pub(super) fn save_transfer(&self, of: Pane, to: &str) -> Result<PathBuf, String> {
        let spacing = self.opened.manifest.volume().min_spacing();
        let scene = self.history.now();
        let function = match of {
            Pane::Volume => &scene.settings.transfer,
            Pane::Slice(_) => &scene.slices.transfer,
        };
        transfer::save(function, to, spacing)
    }

    /// Takes the slices' transfer function from a file, as an edit; what there is to tell.
    pub(super) fn take_for_slices(&mut self, path: &Path) -> Result<String, String> {
        let manifest = &self.opened.manifest;
        let chosen = transfer::choose(Some(path), None, Mode::Slice, manifest);
        let chosen = chosen.map_err(|e| e.to_string())?;
        let mut slices = self.history.now().slices.clone();
        slices.transfer = chosen.function;
        self.history.end_edit();
        self.history.set_slices(slices);
        self.history.end_edit();
        Ok(chosen.told)
    }
}

/// A path as a word of a shell's command line.
fn quoted(path: &Path) -> Result<String, String> {
    let text = path.to_str().ok_or_else(|| {
        let shown = path.display();
        format!("{shown} is no UTF-8, and cannot stand in a command")
    })?;
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    let dash = if text.starts_with('-') { "./" } else { "" };
    let text = text.replace('\'', r"'\''");
    Ok(format!("'{dash}{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        let quoted = |text: &str| quoted(Path::new(text)).unwrap();
        assert_eq!(quoted("/a/b-1.nrrd"), "/a/b-1.nrrd");
        assert_eq!(quoted("my head.nii"), "'my head.nii'");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted("-o.png"), "'./-o.png'");
    }
}

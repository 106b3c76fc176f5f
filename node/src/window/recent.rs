//! Recent volumes: a file of paths in the user's folder, newest first.

use crate::{bounded_file, config_folder::config_folder, output_file::OutputFile};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Paths that are remembered.
const PATHS_MAX: usize = 10;
/// Largest file of paths that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 16;

/// What was opened, newest first; nothing where that is not known.
pub(super) fn recent() -> Vec<PathBuf> {
    file().map_or_else(Vec::new, |file| read(&file))
}

/// Remembers what was opened; what there is to remember now.
pub(super) fn remember(path: &Path) -> Vec<PathBuf> {
    let Some(file) = file() else {
        return Vec::new();
    };
    let paths = with(read(&file), path);
    // Of no importance to who looks at a volume.
    if let Err(error) = write(&file, &paths) {
        tracing::debug!(error, "recent volumes are not remembered");
    }
    paths
}

fn file() -> Option<PathBuf> {
    Some(config_folder()?.join("recent.json"))
}

fn read(file: &Path) -> Vec<PathBuf> {
    let text = bounded_file::read_text(file, FILE_BYTES_MAX).unwrap_or_default();
    let mut paths: Vec<PathBuf> = serde_json::from_str(&text).unwrap_or_default();
    paths.truncate(PATHS_MAX);
    paths
}

fn with(before: Vec<PathBuf>, path: &Path) -> Vec<PathBuf> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let others = before.into_iter().filter(|p| *p != path);
    let mut paths: Vec<PathBuf> = others.collect();
    paths.insert(0, path);
    paths.truncate(PATHS_MAX);
    paths
}

fn write(file: &Path, paths: &[PathBuf]) -> Result<(), String> {
    let folder = file.parent().ok_or("it has no folder")?;
    fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    let text = serde_json::to_string_pretty(paths).map_err(|e| e.to_string())?;
    let file = OutputFile::check("recent volumes", file).map_err(|e| e.to_string())?;
    let written = file.write(|w| w.write_all(text.as_bytes()));
    written.map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_first_each_is_there_once_and_few_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("brickmesh/recent.json");
        assert!(read(&file).is_empty());
        for n in [1, 2, 3, 2] {
            let paths = with(read(&file), &folder.path().join(n.to_string()));
            write(&file, &paths).unwrap();
        }
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let name = |p: &PathBuf| p.file_name().unwrap().to_string_lossy().into_owned();
            paths.iter().map(name).collect()
        };
        assert_eq!(names(&read(&file)), ["2", "3", "1"]);
        for n in 0..40 {
            write(&file, &with(read(&file), Path::new(&format!("/{n}")))).unwrap();
        }
        assert_eq!(read(&file).len(), PATHS_MAX);
        fs::write(&file, "{").unwrap();
        assert!(read(&file).is_empty());
    }
}

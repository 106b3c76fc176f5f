//! The folder of a user's brickmesh files: the configuration and the mesh key.

use std::{env, ffi::OsString, path::PathBuf};

/// `$XDG_CONFIG_HOME/brickmesh`, or `~/.config/brickmesh`; `None` where neither the variable nor
/// `HOME` is set to an absolute folder.
#[must_use]
pub fn config_folder() -> Option<PathBuf> {
    of_environment(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"))
}

/// Relative folders count as unset, as the XDG base directory specification asks for.
fn of_environment(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |folder: Option<OsString>| folder.map(PathBuf::from).filter(|f| f.is_absolute());
    let config = absolute(xdg).or_else(|| absolute(home).map(|home| home.join(".config")));
    Some(config?.join("brickmesh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_the_environment() {
        let folder = |xdg: &str, home: &str| {
            let set = |text: &str| Some(OsString::from(text)).filter(|t| !t.is_empty());
            of_environment(set(xdg), set(home))
        };
        assert_eq!(folder("/x", "/h"), Some("/x/brickmesh".into()));
        assert_eq!(folder("", "/h"), Some("/h/.config/brickmesh".into()));
        assert_eq!(folder("x", "/h"), Some("/h/.config/brickmesh".into()));
        assert_eq!(folder("", ""), None);
    }
}

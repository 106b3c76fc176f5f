//! The configuration file: options of `peer` by their long names, in TOML.
//!
//! Every option that `peer` has on the command line, but `config` itself, may stand in it; what is
//! on the command line wins. Other commands that go into the mesh take from it how to find the
//! mesh (`OF_THE_MESH`), no more: the rest belongs to the one peer that runs as a service.
//!
//! Method: there is no second list of options. The file's values become clap's defaults, after
//! each was tried as if it stood on the command line; so clap's own parsers judge them.
//! Invariant: a file that is wrong anywhere is refused whole, with file, line and key, by every
//! command that reads it. Paths in it are relative to its folder.

use crate::{args::Cli, bounded_file::read_text};
use brickmesh_actors::plain_text::shortened;
use clap::{
    Arg, ArgAction, Command, CommandFactory as _, FromArgMatches as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{
    any::TypeId,
    error::Error as _,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};
use toml::de::{DeInteger, DeTable, DeValue};

/// Name of the file in the user's folder of brickmesh files.
pub const FILE_NAME: &str = "config.toml";
/// The command whose options stand in the file.
const PEER: &str = "peer";
/// The option that names the file.
const CONFIG: &str = "config";
/// What every command that goes into the mesh takes from the file. The listening address and the
/// identity are the service's own, and its promise of memory is not another process's.
const OF_THE_MESH: [&str; 2] = ["join", "key"];
/// More bytes than any such file has.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A configuration file that cannot be used: mend it, or name another with `--config`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It cannot be read.
    #[error("the configuration file {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no TOML.
    #[error("{}, line {line}: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What the parser said.
        reason: String,
    },
    /// An option of this name does not exist.
    #[error("{}, line {line}: there is no option {key:?}; there are {known}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What was given.
        key: String,
        /// The options that there are.
        known: String,
    },
    /// A value of a type that the option does not take.
    #[error("{}, line {line}: {key} is {found}; it must be {allowed}", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The option.
        key: String,
        /// What was given.
        found: String,
        /// What the option takes.
        allowed: &'static str,
    },
    /// A value that the option does not take.
    #[error("{}, line {line}: {key} is {found}: {reason}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The option.
        key: String,
        /// What was given.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Words and file that say nothing that can be done.
#[derive(Debug, thiserror::Error)]
pub enum CommandLineError {
    /// The words; or they ask for help, which clap treats alike.
    #[error(transparent)]
    Words(#[from] clap::Error),
    /// The configuration file.
    #[error(transparent)]
    File(#[from] ConfigError),
}

/// What the words say, the program's name first, with what the configuration file adds: the one
/// that `--config` names, else `default` if it is there.
///
/// # Errors
/// [`CommandLineError`].
pub fn command_line(words: &[OsString], default: Option<&Path>) -> Result<Cli, CommandLineError> {
    let matches = Cli::command().try_get_matches_from(words)?;
    let cli = Cli::from_arg_matches(&matches)?;
    let (Some(name), Some(network)) = (matches.subcommand_name(), cli.command.network()) else {
        return Ok(cli);
    };
    let given = network.config.as_deref();
    let Some(path) = given.or(default) else {
        return Ok(cli);
    };
    let text = match read_text(path, FILE_BYTES_MAX) {
        Err(e) if given.is_none() && e.kind() == io::ErrorKind::NotFound => return Ok(cli),
        read => read.map_err(|source| ConfigError::Io {
            path: path.into(),
            source,
        })?,
    };
    let settings = settings(path, &text)?;
    let matches = with_defaults(settings, name).try_get_matches_from(words)?;
    Ok(Cli::from_arg_matches(&matches)?)
}

/// What a file says of one option.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    id: String,
    key: String,
    /// An option of the program, not of the command.
    is_global: bool,
    values: Vec<OsString>,
}

/// The command line's grammar with these settings as defaults of the command `name`.
fn with_defaults(settings: Vec<Setting>, name: &str) -> Command {
    let of_it = |s: &Setting| name == PEER || OF_THE_MESH.contains(&s.key.as_str());
    let settings = settings.into_iter().filter(of_it);
    settings.fold(Cli::command(), |root, setting| {
        let Setting {
            id,
            is_global,
            values,
            ..
        } = setting;
        let set = |arg: Arg| arg.default_values(values);
        if is_global {
            root.mut_arg(id, set)
        } else {
            root.mut_subcommand(name, |command| command.mut_arg(id, set))
        }
    })
}

/// Reads and checks a file's text, in the order of its lines.
fn settings(path: &Path, text: &str) -> Result<Vec<Setting>, ConfigError> {
    let line_at = |at: usize| 1 + text.bytes().take(at).filter(|&b| b == b'\n').count();
    let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.into(),
        line: line_at(error.span().map_or(text.len(), |span| span.start)),
        reason: shortened(error.message()),
    })?;
    let folder = std::path::absolute(path).map_err(|source| ConfigError::Io {
        path: path.into(),
        source,
    })?;
    let reader = Reader {
        root: Cli::command(),
        path,
        folder: folder.parent().unwrap_or(Path::new("/")),
    };
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut settings = Vec::new();
    for (key, value) in entries {
        let line = line_at(key.span().start);
        settings.push(reader.setting(line, key.get_ref(), value.get_ref())?);
    }
    Ok(settings)
}

/// Reads settings of one file.
struct Reader<'a> {
    root: Command,
    path: &'a Path,
    /// What its paths are relative to.
    folder: &'a Path,
}

impl Reader<'_> {
    fn setting(&self, line: usize, key: &str, value: &DeValue<'_>) -> Result<Setting, ConfigError> {
        let path = || self.path.to_path_buf();
        let Some(arg) = self.options().find(|arg| arg.get_long() == Some(key)) else {
            let names: Vec<_> = self.options().filter_map(Arg::get_long).collect();
            return Err(ConfigError::Unknown {
                path: path(),
                line,
                key: shortened(key),
                known: names.join(", "),
            });
        };
        let texts = texts(arg, value).map_err(|allowed| ConfigError::Type {
            path: path(),
            line,
            key: key.to_owned(),
            found: in_words(value),
            allowed,
        })?;
        let checked = texts.into_iter().map(|text| {
            let value = self.value(arg, &text);
            value.map_err(|reason| ConfigError::Value {
                path: path(),
                line,
                key: key.to_owned(),
                found: format!("{:?}", shortened(&text)),
                reason,
            })
        });
        Ok(Setting {
            id: arg.get_id().to_string(),
            key: key.to_owned(),
            is_global: arg.is_global_set(),
            values: checked.collect::<Result<_, _>>()?,
        })
    }

    /// Every option that may stand in a file.
    fn options(&self) -> impl Iterator<Item = &Arg> {
        let peer = self.root.find_subcommand(PEER).into_iter();
        let own = peer.flat_map(Command::get_arguments);
        let global = self.root.get_arguments().filter(|arg| arg.is_global_set());
        let named = |arg: &&Arg| arg.get_long().is_some_and(|long| long != CONFIG);
        own.chain(global).filter(named)
    }

    /// The value as the command line would have it, tried there; or what is wrong with it.
    fn value(&self, arg: &Arg, text: &str) -> Result<OsString, String> {
        let mut value = OsString::from(text);
        if arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() && !text.is_empty() {
            if text.starts_with('~') {
                return Err("only a shell knows ~: write the whole path".to_owned());
            }
            value = self.folder.join(text).into_os_string();
        }
        if !takes_value(arg) {
            return Ok(value);
        }
        let mut word = OsString::from(format!("--{}=", arg.get_long().unwrap_or_default()));
        word.push(&value);
        let words = [OsStr::new("brickmesh"), OsStr::new(PEER), &word];
        match self.root.clone().try_get_matches_from(words) {
            Err(error) if is_about_the_value(&error) => Err(reason(&error)),
            _ => Ok(value),
        }
    }
}

/// Whether the option has a value on the command line; the others count or are there.
fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// The value as words of a command line, or what the option takes instead.
fn texts(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, &'static str> {
    let parser = arg.get_value_parser().type_id();
    let takes_numbers = parser == TypeId::of::<u64>() || parser == TypeId::of::<u32>();
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if takes_numbers => Some(decimal(number)),
        _ => None,
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue | ArgAction::SetFalse, DeValue::Boolean(is_set)) => {
            Ok(vec![is_set.to_string()])
        }
        (ArgAction::SetTrue | ArgAction::SetFalse, _) => Err("true or false"),
        (ArgAction::Count, DeValue::Integer(count)) => {
            let count: Option<u8> = decimal(count).parse().ok();
            let count = count.ok_or("a whole number from 0 to 255")?;
            Ok(vec![count.to_string()])
        }
        (ArgAction::Count, _) => Err("a whole number from 0 to 255"),
        (ArgAction::Append, DeValue::Array(list)) => {
            let texts = list.iter().map(|value| one(value.get_ref()));
            let texts: Option<_> = texts.collect();
            texts.ok_or("a string, or a list of strings")
        }
        (ArgAction::Append, value) => {
            let text = one(value).ok_or("a string, or a list of strings")?;
            Ok(vec![text])
        }
        (_, value) if takes_numbers => Ok(vec![one(value).ok_or("a number or a string")?]),
        (_, value) => Ok(vec![one(value).ok_or("a string")?]),
    }
}

/// A number as the command line takes it; TOML knows other bases. As it stands in the file where it
/// is too large, for the error.
fn decimal(number: &DeInteger<'_>) -> String {
    let value = i128::from_str_radix(number.as_str(), number.radix());
    value.map_or_else(|_| number.to_string(), |value| value.to_string())
}

/// A value of the wrong type, for an error.
fn in_words(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {:?}", shortened(text)),
        DeValue::Integer(number) => shortened(&format!("the number {number}")),
        DeValue::Float(number) => shortened(&format!("the number {number}")),
        DeValue::Boolean(is_set) => is_set.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(list) => {
            let other = list.iter().find(|value| !value.get_ref().is_str());
            other.map_or("a list".to_owned(), |value| {
                format!("a list with {}", in_words(value.get_ref()))
            })
        }
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Whether clap refused the value itself, not that another option is missing beside it.
fn is_about_the_value(error: &clap::Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict
    )
}

/// What clap says is wrong with a value, without what it says of the command line; it may repeat the
/// value.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return shortened(&source.to_string());
    }
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && !values.is_empty()
    {
        return format!("it must be one of {}", values.join(", "));
    }
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    shortened(line.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests;

//! The configuration file: options of `peer` by their long names, in TOML.
//!
//! Every option that `peer` has on the command line, but `config` itself, may stand in it; what is
//! on the command line wins. Other commands that go into the mesh take from it how to find the
//! mesh (`join` and `key`), no more: the listening address and the identity are the service's own, and
//! its promise of memory is not another process's.
//!
//! Invariant: a file that is wrong anywhere is refused whole, with file, line and key, by every
//! command that reads it. Paths in it are relative to its folder.

use crate::{
    args::{Cli, Command, DeviceChoice, NetworkArgs, SharingArg, values},
    bounded_file::read_text,
};
use brickmesh_actors::plain_text::{plain_text, shortened};
use clap::{
    ArgMatches, CommandFactory as _, FromArgMatches as _, ValueEnum as _, parser::ValueSource,
};
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use std::{
    ffi::OsString,
    fmt, io,
    marker::PhantomData,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// Name of the file in the user's folder of brickmesh files.
pub const FILE_NAME: &str = "config.toml";
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
    /// It is no TOML, or has an option that there is not, or a value that the option does not take.
    #[error("{}, line {line}: {reason}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
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
    let mut cli = Cli::from_arg_matches(&matches)?;
    let Some(network) = cli.command.network() else {
        return Ok(cli);
    };
    let given = network.config.as_deref();
    let Some(path) = given.or(default) else {
        return Ok(cli);
    };
    let io = |source| ConfigError::Io {
        path: path.into(),
        source,
    };
    let text = match read_text(path, FILE_BYTES_MAX) {
        Err(e) if given.is_none() && e.kind() == io::ErrorKind::NotFound => return Ok(cli),
        read => read.map_err(io)?,
    };
    let options = toml::from_str(&text).map_err(|error| wrong(path, &text, &error))?;
    let file = std::path::absolute(path).map_err(io)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    take(&mut cli, &matches, options, folder);
    Ok(cli)
}

/// The options that may stand in a file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    #[serde(deserialize_with = "join")]
    join: Vec<String>,
    #[serde(deserialize_with = "listen")]
    listen: Vec<String>,
    key: Option<FilePath>,
    identity: Option<FilePath>,
    #[serde(deserialize_with = "device")]
    device: Option<DeviceChoice>,
    #[serde(deserialize_with = "memory")]
    memory: Option<u64>,
    #[serde(deserialize_with = "sharing")]
    sharing: Option<SharingArg>,
    #[serde(deserialize_with = "memory")]
    cache: Option<u64>,
    data: Option<FilePath>,
    #[serde(deserialize_with = "memory")]
    disk: Option<u64>,
    #[serde(rename = "disk-dir")]
    disk_dir: Option<FilePath>,
    #[serde(deserialize_with = "name")]
    name: Option<String>,
    #[serde(deserialize_with = "metrics")]
    metrics: Option<SocketAddr>,
    verbose: u8,
}

/// Takes from a file in `folder` what the command line does not say.
fn take(cli: &mut Cli, matches: &ArgMatches, options: Options, folder: &Path) {
    let path = |file: Option<FilePath>| file.map(|f| folder.join(f.0));
    let find = |network: &mut NetworkArgs, options: &mut Options| {
        if network.join.is_empty() {
            network.join = std::mem::take(&mut options.join);
        }
        network.key = network.key.take().or_else(|| path(options.key.take()));
    };
    let mut options = options;
    match &mut cli.command {
        Command::Status(args) => find(&mut args.network, &mut options),
        Command::Render(args) => find(&mut args.mesh.network, &mut options),
        Command::View(args) => find(&mut args.mesh.network, &mut options),
        Command::Peer(args) => {
            let network = &mut args.network;
            find(network, &mut options);
            if network.listen.is_empty() {
                network.listen = options.listen;
            }
            network.identity = network.identity.take().or_else(|| path(options.identity));
            let of_peer = matches.subcommand_matches("peer");
            let is_said = |option| {
                let source = of_peer.and_then(|m| m.value_source(option));
                source == Some(ValueSource::CommandLine)
            };
            if !is_said("device") {
                args.device = options.device.unwrap_or(args.device);
            }
            if !is_said("sharing") {
                args.sharing = options.sharing.unwrap_or(args.sharing);
            }
            args.memory = args.memory.or(options.memory);
            args.cache = args.cache.or(options.cache);
            args.data = args.data.take().or_else(|| path(options.data));
            args.disk = args.disk.or(options.disk);
            args.disk_dir = args.disk_dir.take().or_else(|| path(options.disk_dir));
            args.name = args.name.take().or(options.name);
            args.metrics = args.metrics.or(options.metrics);
            if cli.verbose == 0 {
                cli.verbose = options.verbose;
            }
        }
        _ => {}
    }
}

/// What the decoder says, with the line and the key that it is about.
fn wrong(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let at = error.span().map_or(text.len(), |span| span.start);
    let before = text.get(..at).unwrap_or(text);
    let line = 1 + before.bytes().filter(|&b| b == b'\n').count();
    let message = plain_text(error.message());
    let is_about_a_value = message.starts_with("is ") || message.starts_with("invalid ");
    // A value may begin lines after its key.
    let lines: Vec<&str> = text.lines().take(line).collect();
    let key = lines.iter().rev().find_map(|line| line.split_once('='));
    let reason = match key.filter(|_| is_about_a_value) {
        Some((key, _)) => {
            let between = if message.starts_with("is ") {
                " "
            } else {
                ": "
            };
            format!("{}{between}{message}", plain_text(key.trim()))
        }
        None => message,
    };
    ConfigError::Wrong {
        path: path.into(),
        line,
        reason,
    }
}

/// Reads one text, or a list of them.
struct OneOrMore;

impl<'de> Visitor<'de> for OneOrMore {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or a list of strings")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<String>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

fn texts<'de, D: Deserializer<'de>>(
    from: D,
    check: fn(&str) -> Result<String, String>,
) -> Result<Vec<String>, D::Error> {
    let texts = from.deserialize_any(OneOrMore)?.into_iter();
    let checked = texts.map(|text| check(&text).map_err(|why| refused(&text, &why)));
    checked.collect()
}

fn join<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    texts(from, values::parse_address)
}

fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    texts(from, values::parse_listen_address)
}

/// A path, relative to the file's folder.
struct FilePath(PathBuf);

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.as_str() {
            "" => Err(refused(&text, "it must be a path")),
            home if home.starts_with('~') => {
                Err(refused(&text, "only a shell knows ~: write the whole path"))
            }
            path => Ok(Self(path.into())),
        }
    }
}

fn refused<E: serde::de::Error>(text: &str, why: &str) -> E {
    E::custom(format!("is {:?}: {why}", shortened(text)))
}

/// Reads a text, or a number as its decimal digits, as the command line does.
struct Parsed<T, F>(F, &'static str, PhantomData<T>);

impl<T, F: Fn(&str) -> Result<T, String>> Visitor<'_> for Parsed<T, F> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Option<T>, E> {
        let parsed = (self.0)(text).map_err(|why| refused(text, &why));
        parsed.map(Some)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Option<T>, E> {
        if self.1 == NUMBER {
            return self.visit_str(&number.to_string());
        }
        Err(E::invalid_type(
            serde::de::Unexpected::Signed(number),
            &self,
        ))
    }
}

/// What an option takes that may be a number.
const NUMBER: &str = "a number or a string";

fn parsed<'de, D: Deserializer<'de>, T>(
    from: D,
    what: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    from.deserialize_any(Parsed(parse, what, PhantomData))
}

fn device<'de, D: Deserializer<'de>>(from: D) -> Result<Option<DeviceChoice>, D::Error> {
    parsed(from, "a string", values::parse_device)
}

fn sharing<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SharingArg>, D::Error> {
    parsed(from, "a string", |text| {
        SharingArg::from_str(text, false).map_err(|_| {
            format!(
                "\"{}\" is no kind of sharing; expected auto, object, page or off",
                plain_text(text)
            )
        })
    })
}

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    parsed(from, NUMBER, values::parse_bytes)
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    parsed(from, "a string", values::parse_name)
}

fn metrics<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    parsed(from, "a string", values::parse_socket)
}

#[cfg(test)]
mod tests;

//! What each command does.

mod data;
mod devices;
mod peer;
pub(crate) mod render;
mod status;

pub(crate) use render::{open_source, transfer_of};

use crate::{args::Command, stop::Stop, window};
use std::io::Read as _;

/// Any error, as text for people.
pub(crate) type CommandResult = Result<(), Box<dyn std::error::Error>>;

/// Most bytes of a simulation's input.
const SIM_BYTES_MAX: u64 = 256 << 20;

/// Runs a command to its end.
///
/// # Errors
/// What was wrong, where, and what to do.
pub fn run(command: Command, stop: Stop) -> CommandResult {
    match command {
        Command::Demo(args) => render::demo(&args, stop),
        Command::Render(args) => render::render(&args, stop),
        Command::Peer(args) => peer::run(&args, stop),
        Command::View(args) => window::view(&args, stop),
        Command::Import(args) => data::import(&args, &stop),
        Command::Info(args) => data::info(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Status(args) => status::run(&args, stop),
        Command::Sim(args) => sim(&args.what, &args.file),
    }
}

fn sim(what: &str, file: &std::path::Path) -> CommandResult {
    let mut input = String::new();
    let error = |e: std::io::Error| format!("{}: {e}", file.display());
    if file.as_os_str() == "-" {
        std::io::stdin()
            .take(SIM_BYTES_MAX)
            .read_to_string(&mut input)
            .map_err(error)?;
    } else {
        let opened = std::fs::File::open(file).map_err(error)?;
        opened
            .take(SIM_BYTES_MAX)
            .read_to_string(&mut input)
            .map_err(error)?;
    }
    println!("{}", brickmesh_sim::run(what, &input)?);
    Ok(())
}

//! What each command does.

mod data;
mod devices;
mod invitation;
mod peer;
pub(crate) mod render;
mod sim;
mod status;

pub(crate) use render::{open_source, transfer_of};

use crate::{args::Command, stop::Stop, window};

/// Any error, as text for people.
pub(crate) type CommandResult = Result<(), Box<dyn std::error::Error>>;

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
        Command::Info(args) => data::info(&args, &stop),
        Command::Devices(args) => devices::run(&args),
        Command::Status(args) => status::run(&args, stop),
        Command::Sim(args) => sim::run(&args),
    }
}

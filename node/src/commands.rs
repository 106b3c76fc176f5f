//! What each command does.

mod data;
mod devices;
mod invitation;
mod partition;
mod peer;
mod placements;
mod plan;
mod presets;
pub(crate) mod render;
mod sim;
mod status;

use crate::{args::Command, stop::Stop, window};
use std::error::Error;

/// Any error, as text for people.
pub(crate) type CommandResult = Result<(), Box<dyn Error>>;

/// Exit status of what failed, and of what was asked for wrongly.
const STATUS_FAILED: u8 = 1;
/// As clap's for a wrong command line.
pub const STATUS_WRONG_USAGE: u8 = 2;

/// What `peer` cannot start with until a person mends it: to start it again as it is would be of
/// no use, so it ends with the status of wrong usage, which the systemd unit does not restart.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Misconfigured(Box<dyn Error>);

impl Misconfigured {
    pub(crate) fn because(error: impl Into<Box<dyn Error>>) -> Box<dyn Error> {
        Box::new(Self(error.into()))
    }
}

/// The exit status of a command that ended with this error.
#[must_use]
pub fn exit_status(error: &(dyn Error + 'static)) -> u8 {
    if error.is::<Misconfigured>() {
        STATUS_WRONG_USAGE
    } else {
        STATUS_FAILED
    }
}

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
        Command::Partition(args) => partition::run(&args, &stop),
        Command::Placements(args) => placements::run(&args, &stop),
        Command::Plan(args) => plan::run(&args, stop),
        Command::Devices(args) => devices::run(&args),
        Command::Presets(args) => presets::run(&args),
        Command::Status(args) => status::run(&args, stop),
        Command::Sim(args) => sim::run(&args),
    }
}

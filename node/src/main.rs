//! The program: reads the command line, starts the log, runs the command, turns its error into
//! text. No logic here.

#![warn(clippy::print_stdout, clippy::print_stderr)]

use brickmesh_node::{
    args::Command,
    commands,
    config_file::{self, CommandLineError, command_line},
    config_folder::config_folder,
    stop::Stop,
    terminal::note,
};
use brickmesh_shaders::device::process_end;
use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
};
use tracing_subscriber::{
    filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let config = config_folder().map(|folder| folder.join(config_file::FILE_NAME));
    let cli = match command_line(&words, config.as_deref()) {
        Ok(cli) => cli,
        Err(CommandLineError::Words(error)) => error.exit(),
        Err(error) => {
            note(format_args!("brickmesh: {error}"));
            return ExitCode::from(commands::STATUS_WRONG_USAGE);
        }
    };
    start_log(cli.verbose);
    let stop = if matches!(cli.command, Command::Sim(_)) {
        Stop::never()
    } else {
        Stop::on_signals()
    };
    end(match commands::run(cli.command, stop) {
        Ok(()) => 0,
        Err(error) => {
            note(format_args!("brickmesh: {error}"));
            commands::exit_status(&*error)
        }
    })
}

/// Ends the program; at once where a device did not end in time.
fn end(status: u8) -> ExitCode {
    if process_end::is_left_at_work() {
        if let Err(error) = std::io::stdout().flush() {
            tracing::debug!(%error, "standard output is closed");
        }
        process_end::end_at_once(status);
    }
    ExitCode::from(status)
}

fn start_log(verbose: u8) {
    // Kademlia warns every minute of being alone, which hides what the operator can mend.
    let level = match verbose {
        0 => "warn,libp2p_kad=error",
        1 => "warn,libp2p_kad=error,brickmesh=info",
        2 => "info,brickmesh=debug",
        _ => "debug,brickmesh=trace",
    };
    let usual = || level.parse::<Targets>().unwrap_or_default();
    let asked = std::env::var("RUST_LOG")
        .ok()
        .filter(|text| !text.is_empty());
    let asked = asked.map(|text| text.parse::<Targets>().map_err(|error| (text, error)));
    let (filter, refused) = match asked {
        Some(Ok(filter)) => (filter, None),
        Some(Err(refused)) => (usual(), Some(refused)),
        None => (usual(), None),
    };
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(filter).with(log).init();
    if let Some((text, error)) = refused {
        tracing::warn!(
            "RUST_LOG={text}: {error}; expected TARGET=LEVEL, several with commas between them, like brickmesh=debug,libp2p=warn"
        );
    }
}

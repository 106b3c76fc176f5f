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
use tracing_subscriber::EnvFilter;

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
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

//! The command `shardpack`: options in, one call into the libraries, a report out.
//!
//! Results go to stdout, everything else to stderr. Exit codes are decided here alone: 0 done; 1 the data is not right;
//! 2 the request or the machine is not right; 130 interrupted.

mod args;
mod changes;
mod commands;
mod progress;
mod report;
mod selection;
mod source_args;

use std::process::ExitCode;

use clap::Parser;
use shardpack_packer::{Error, ErrorKind};

/// What a command came to, when it ran to its end.
enum Outcome {
    /// All is well.
    Done,
    /// The data is not right, and the command has said so.
    Wrong,
    /// The machine did not show all of the data, and the command has said so.
    Refused,
}

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::run(cli) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Wrong) => ExitCode::from(1),
        Ok(Outcome::Refused) => ExitCode::from(2),
        // A closed pipe is how `| head` says that it has seen enough.
        Err(error) if error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            report::error(&error);
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::Data => 1,
        ErrorKind::Interrupted => 130,
        _ => 2,
    }
}

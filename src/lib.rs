//! The command `shardpack`: parses options, makes one call into the libraries, prints a report. Runs as a program or inside a host.
//!
//! Results go to stdout, everything else to stderr. Only this file decides exit codes: 0 success; 1 invalid data;
//! 2 invalid request or failing machine; 130 interrupted. A reader that closes stdout does not change the exit code.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[macro_use]
mod lines;
mod args;
mod cli;
mod commands;
mod document;
pub mod embedded;
mod help;
mod man;
mod panics;
mod price;
mod progress;
mod report;
mod run;
mod selection;
mod source_args;
mod terminal;
mod transform_args;

use std::ffi::OsString;

use clap::FromArgMatches;
use shardpack_format::{memory, text};
use shardpack_packer::{Error, ErrorKind};
use shardpack_source::sys;
use shardpack_storage::Address;

/// The result of a command that ran to its end.
enum Outcome {
    /// Success.
    Done,
    /// The data is invalid, and the command has reported why.
    Wrong,
    /// The machine did not return all data, and the command has reported it.
    Refused,
}

/// Runs the command line `arguments`, the first of which is the name of the program, and returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // An invalid command line is also reported as JSON if `--json` is present, although parsing has failed.
    let is_json = arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json");
    cli::Color::from_args(&arguments).set();
    let is_short = arguments.iter().any(|argument| argument == "-h");
    let parsed = help::command(is_short).try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| cli::Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return refused(&fit_to_show(error, &arguments), is_json),
    };
    cli.color.set();
    // As a local path, a URL would be a folder named `s3:`.
    let mut meant: Vec<_> = cli.command.urls().into_iter().filter_map(|path| Address::of(path).url()).collect();
    for url in arguments.iter().skip(1).filter_map(|argument| args::url(argument)) {
        // Match each occurrence once: the same URL may also be the value of an option.
        match meant.iter().position(|meant| *meant == url) {
            Some(at) => _ = meant.remove(at),
            None => return failed(&sys::not_a_path(url), is_json),
        }
    }
    memory::allow(cli.command.memory().unwrap_or_else(args::default_memory));
    match panics::contained(|| run::run(cli)) {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Wrong) => 1,
        Ok(Outcome::Refused) => 2,
        Err(error) => failed(&error, is_json),
    }
}

/// Parses a size in bytes in the syntax of the command line: `256MiB`, `1.5GB`.
///
/// # Errors
/// A description of the syntax error.
pub fn size(text: &str) -> Result<u64, String> {
    args::large_size(text)
}

/// All commands and their options.
pub fn command() -> clap::Command {
    help::command(false)
}

/// Reports an invalid command line, or prints the requested help or version.
fn refused(error: &clap::Error, is_json: bool) -> u8 {
    report::refused(error);
    if !error.use_stderr() {
        return 0;
    }
    if is_json {
        let text = error.render().to_string();
        let mut parts = text.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
        let message = parts.next().unwrap_or_default();
        let what = Error::usage(message.strip_prefix("error: ").unwrap_or(&message));
        let tip = parts.find(|part| part.starts_with("tip: ") || part.starts_with("Usage: "));
        let error = match tip {
            Some(tip) => what.help(tip.strip_prefix("tip: ").unwrap_or(&tip)),
            None => what,
        };
        let _ = report::print_json_error(&error);
    }
    2
}

/// Rebuilds `error` from escaped arguments, because its message quotes them.
fn fit_to_show(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let shown: Vec<_> = arguments.iter().map(|argument| text::shown(argument.as_encoded_bytes()).to_string()).collect();
    let fit: Vec<_> = shown.iter().map(|argument| text::line(argument)).collect();
    if !error.use_stderr() || fit.iter().zip(arguments).all(|(fit, argument)| *argument == **fit) {
        return error;
    }
    let parsed = help::command(false).try_get_matches_from(fit.iter().map(|argument| &**argument));
    match parsed.and_then(|matches| cli::Cli::from_arg_matches(&matches)) {
        Err(error) if error.use_stderr() => error,
        // The escaped arguments parse without an error, unlike the original ones.
        _ => clap::Error::raw(error.kind(), text::line(&error.kind().to_string())),
    }
}

fn failed(error: &Error, is_json: bool) -> u8 {
    report::error(error);
    if is_json {
        // The error is already on stderr; a failure to print the document adds nothing.
        let _ = report::print_json_error(error);
    }
    match error.kind() {
        ErrorKind::Data => 1,
        ErrorKind::Interrupted => 130,
        _ => 2,
    }
}

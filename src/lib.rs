//! The command `shardpack`: options in, one call into the libraries, a report out. As a program, or inside another one.
//!
//! Results go to stdout, everything else to stderr. Exit codes are decided here alone: 0 done; 1 the data is not right;
//! 2 the request or the machine is not right; 130 interrupted. A reader of stdout that goes away changes none of them.

#[macro_use]
mod lines;
mod args;
mod changes;
mod cli;
mod commands;
mod help;
pub mod hosted;
mod man;
mod panics;
mod price;
mod progress;
mod report;
mod run;
mod selection;
mod source_args;
mod terminal;

use std::ffi::OsString;

use clap::FromArgMatches;
use shardpack_format::{memory, text};
use shardpack_packer::{Error, ErrorKind, sys};

/// What a command came to, when it ran to its end.
enum Outcome {
    /// All is well.
    Done,
    /// The data is not right, and the command has said so.
    Wrong,
    /// The machine did not show all of the data, and the command has said so.
    Refused,
}

/// Runs the command line `arguments`, the first of which is the name of the program, and gives its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // An error in the command line is told as it asks for, too, though what it asks for is not known then.
    let is_json = arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json");
    cli::Color::of(&arguments).set();
    let is_short = arguments.iter().any(|argument| argument == "-h");
    let parsed = help::command(is_short).try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| cli::Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return refused(&fit_to_show(error, &arguments), is_json),
    };
    cli.color.set();
    // As a path it would be a folder called `s3:`.
    let mut meant: Vec<_> = cli.command.urls().into_iter().filter(|path| sys::is_store(path)).collect();
    for url in arguments.iter().skip(1).filter_map(|argument| args::url(argument)) {
        // Each stands for itself: the same one may be the value of an option, too.
        match meant.iter().position(|path| path.as_os_str() == url) {
            Some(at) => drop(meant.remove(at)),
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

/// Bytes of a size as the command line takes it: `256MiB`, `1.5GB`.
///
/// # Errors
/// What is wrong with it, in words.
pub fn size(text: &str) -> Result<u64, String> {
    args::large_size(text)
}

/// All commands and their options, as the command line has them.
pub fn command() -> clap::Command {
    help::command(false)
}

/// Says that the command line is not right; or prints the help or the version that was asked for.
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

/// `error` as it is of arguments that are fit to be shown: it quotes them.
fn fit_to_show(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let shown: Vec<_> = arguments.iter().map(|argument| text::shown(argument.as_encoded_bytes()).to_string()).collect();
    let fit: Vec<_> = shown.iter().map(|argument| text::line(argument)).collect();
    if !error.use_stderr() || fit.iter().zip(arguments).all(|(fit, argument)| *argument == **fit) {
        return error;
    }
    let parsed = help::command(false).try_get_matches_from(fit.iter().map(|argument| &**argument));
    match parsed.and_then(|matches| cli::Cli::from_arg_matches(&matches)) {
        Err(error) if error.use_stderr() => error,
        // They are shown escaped, but are wrong.
        _ => clap::Error::raw(error.kind(), text::line(&error.kind().to_string())),
    }
}

fn failed(error: &Error, is_json: bool) -> u8 {
    report::error(error);
    if is_json {
        // The error is on stderr; a second one, of printing it, says nothing new.
        let _ = report::print_json_error(error);
    }
    match error.kind() {
        ErrorKind::Data => 1,
        ErrorKind::Interrupted => 130,
        _ => 2,
    }
}

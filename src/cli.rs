//! The command line: the subcommands and what all of them take.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anstream::ColorChoice;
use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    commands::{adopt, bench, convert, crops, inspect, merge, pack, plan, slurm, status, verify},
    hosted,
};

/// Pack a tree of images into large sequential shards, prove that nothing was lost, and look inside.
#[derive(Debug, Parser)]
#[command(name = "shardpack", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done; 1 the data is not right; 2 the request or the machine is not right; \
                        130 interrupted (the same command goes on).")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// When to use colours; auto follows the terminal, NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "auto|always|never")]
    #[arg(hide_possible_values = true, hide_short_help = true)]
    pub color: Color,
}

/// `--color`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Color {
    /// On a terminal, unless the environment says otherwise
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl Color {
    /// What a command line says that may have errors.
    pub fn of(arguments: &[OsString]) -> Self {
        let value = |(at, argument): (usize, &OsString)| match argument.to_str()?.strip_prefix("--color")? {
            "" => arguments.get(at + 1)?.to_str().map(str::to_owned),
            rest => rest.strip_prefix('=').map(str::to_owned),
        };
        let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
        let said = arguments[..end].iter().enumerate().filter_map(value).next_back();
        said.and_then(|said| <Self as ValueEnum>::from_str(&said, false).ok()).unwrap_or(Self::Auto)
    }

    /// Makes it hold for all that is printed.
    pub fn set(self) {
        // Colours are the host's.
        if hosted::host().is_some() {
            return;
        }
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pack a tree or a list of images into shards with an index and a manifest
    Pack(pack::Args),
    /// Pack shards of any format and writer into shards of another
    Convert(convert::Args),
    /// Write manifest and index beside shards of any writer, which stay as they are
    Adopt(adopt::Args),
    /// Show what pack would do, and write the plan file that pack --plan takes
    Plan(plan::Args),
    /// Seal a dataset that was packed in parts
    Merge(merge::Args),
    /// Pack by an array of Slurm: print the script that submits it and the merge, or submit them
    Slurm(Box<slurm::Args>),
    /// Show how far a pack that is not finished has come
    Status(status::Args),
    /// Check that shards are what their manifest says; names every damaged sample
    Verify(verify::Args),
    /// Make tables beside the indexes, with which crops of JPEGs are decoded without the rest of them
    Crops(crops::Args),
    /// Show what is in a folder of shards, a manifest, or shards of any writer
    Inspect(inspect::Args),
    /// Measure how fast a dataset can be read here, and how well it is shuffled
    Bench(bench::Args),
    /// Print completions for a shell
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print a manual page: of the whole, or of one command
    Man {
        /// The command
        #[arg(value_parser = ["pack", "convert", "adopt", "plan", "merge", "slurm", "status", "verify", "crops", "inspect", "bench"], hide_possible_values = true)]
        #[arg(conflicts_with = "out")]
        command: Option<String>,
        /// Write all pages into this folder instead
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
}

impl Command {
    /// `--memory` of a command that reads shards or images.
    pub fn memory(&self) -> Option<u64> {
        match self {
            Self::Pack(args) => args.run.memory,
            Self::Convert(args) => args.run.memory,
            Self::Verify(args) => args.memory,
            Self::Inspect(args) => args.memory,
            _ => None,
        }
    }

    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        match self {
            Self::Pack(args) => args.urls(),
            Self::Plan(args) => args.urls(),
            Self::Verify(args) => args.urls(),
            Self::Inspect(args) => args.urls(),
            Self::Convert(args) => args.urls(),
            Self::Bench(args) => args.urls(),
            Self::Merge(args) => args.urls(),
            Self::Status(args) => args.urls(),
            Self::Crops(args) => args.urls(),
            Self::Slurm(args) => args.urls(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}

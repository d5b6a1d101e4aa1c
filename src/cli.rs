//! The command line: the subcommands and their common options.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anstream::ColorChoice;
use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    commands::{adopt, bench, convert, crops, inspect, merge, pack, plan, slurm, status, verify},
    embedded,
};

/// Pack image trees into large sequential shards, verify that nothing is lost, and inspect them
#[derive(Debug, Parser)]
#[command(name = "shardpack", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 success; 1 damaged or invalid data; 2 invalid request or failing machine; \
                        130 interrupted (run the same command again to resume).")]
pub struct Cli {
    /// Subcommand to run
    #[command(subcommand)]
    pub command: Command,
    /// When to use colours; auto checks for a terminal, NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "auto|always|never")]
    #[arg(hide_possible_values = true, hide_short_help = true)]
    pub color: Color,
}

/// `--color`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Color {
    /// On a terminal, unless the environment overrides it
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// The value of `--color` in a command line that may be invalid.
    pub fn from_args(arguments: &[OsString]) -> Self {
        let value = |(at, argument): (usize, &OsString)| match argument.to_str()?.strip_prefix("--color")? {
            "" => arguments.get(at + 1)?.to_str().map(str::to_owned),
            rest => rest.strip_prefix('=').map(str::to_owned),
        };
        let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
        let said = arguments[..end].iter().enumerate().filter_map(value).next_back();
        said.and_then(|said| <Self as ValueEnum>::from_str(&said, false).ok()).unwrap_or(Self::Auto)
    }

    /// Applies the choice to all output.
    pub fn set(self) {
        // The host decides about colours.
        if embedded::host().is_some() {
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
    /// Convert shards of any format and writer into new shards
    Convert(convert::Args),
    /// Write manifest and index beside shards of any writer; the shards do not change
    Adopt(adopt::Args),
    /// Preview a pack: show its plan, and write the plan file for pack --plan
    Plan(plan::Args),
    /// Seal a dataset that was packed in parts
    Merge(merge::Args),
    /// Pack as a Slurm job array: print or run the script that submits parts and merge
    Slurm(Box<slurm::Args>),
    /// Show the progress of an unfinished pack
    Status(status::Args),
    /// Check shards against their manifest, and name every damaged sample
    Verify(verify::Args),
    /// Write crop tables, so that loaders decode only the cropped part of a JPEG
    Crops(crops::Args),
    /// Show the content of a dataset, or of shards of any writer
    Inspect(inspect::Args),
    /// Measure read speed and shuffle quality of a dataset on this machine
    Bench(bench::Args),
    /// Print completions for a shell
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print a manual page: of the program, or of one command
    Man {
        /// Command; without it, the page of the program
        #[arg(value_parser = ["pack", "convert", "adopt", "plan", "merge", "slurm", "status", "verify", "crops", "inspect", "bench"], hide_possible_values = true)]
        #[arg(conflicts_with = "out")]
        command: Option<String>,
        /// Write all pages into this folder, instead of printing one
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

//! The subcommands: each takes its options, makes one call, and prints what came of it.

pub mod adopt;
pub mod convert;
pub mod inspect;
pub mod pack;
pub mod plan;
pub mod verify;

use clap::CommandFactory;
use shardpack_packer::{Error, Result};

use crate::{
    Outcome,
    args::{Cli, Command},
    report,
};

/// Runs what the command line asks for.
pub fn run(cli: Cli) -> Result<Outcome> {
    match cli.command {
        Command::Pack(args) => pack::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Adopt(args) => adopt::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "shardpack", &mut out);
            report::print(&String::from_utf8_lossy(&out)).map(|()| Outcome::Done)
        }
        Command::Man => {
            let mut out = Vec::new();
            let page = clap_mangen::Man::new(Cli::command());
            page.render(&mut out).map_err(|e| Error::io("cannot render the manual page", e))?;
            report::print(&String::from_utf8_lossy(&out)).map(|()| Outcome::Done)
        }
    }
}

//! Runs what the command line asks for: one of the commands, completions, or manual pages.

use std::path::Path;

use shardpack_packer::{Error, Result};

use crate::{
    Outcome,
    cli::{Cli, Command},
    commands::{adopt, bench, convert, crops, inspect, merge, pack, plan, slurm, status, verify},
    help, report,
};

/// Runs what the command line asks for.
pub fn run(cli: Cli) -> Result<Outcome> {
    match cli.command {
        Command::Pack(args) => pack::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Adopt(args) => adopt::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Slurm(args) => slurm::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Crops(args) => crops::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut help::command(false), "shardpack", &mut out);
            report::print_bytes(&out).map(|()| Outcome::Done)
        }
        Command::Man { command, out } => man(command.as_deref(), out.as_deref()).map(|()| Outcome::Done),
    }
}

/// Prints the manual page of the whole or of one command, or writes all into a folder.
fn man(name: Option<&str>, folder: Option<&Path>) -> Result<()> {
    let mut cli = help::command(false).disable_help_subcommand(true);
    // Gives the subcommands their names in full.
    cli.build();
    let one = |command: clap::Command| {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(command);
        man.render(&mut page).map_err(|e| Error::io("cannot render the manual page", e))?;
        Ok::<_, Error>((man.get_filename(), page))
    };
    let Some(folder) = folder else {
        let command = match name {
            None => Some(cli),
            Some(name) => cli.find_subcommand(name).cloned(),
        };
        let command = command.ok_or_else(|| Error::usage(format!("there is no command {name:?}")))?;
        return report::print_bytes(&one(command)?.1);
    };
    std::fs::create_dir_all(folder).map_err(|e| Error::io("cannot create", e).in_file(folder))?;
    for command in cli.get_subcommands().chain([&cli]) {
        let (file, page) = one(command.clone())?;
        let path = folder.join(file);
        std::fs::write(&path, page).map_err(|e| Error::io("cannot write", e).in_file(path))?;
    }
    Ok(())
}

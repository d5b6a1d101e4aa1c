//! Dispatches the command line: to one of the commands, completions, or manual pages.

use shardpack_packer::{Error, Result, imaging::check_instructions};

use crate::{
    Outcome,
    cli::{Cli, Command},
    commands::{adopt, bench, convert, crops, inspect, merge, pack, plan, slurm, status, verify},
    help, man, report,
};

/// Runs the requested command.
///
/// # Errors
/// Those of the command; and if `SHARDPACK_SIMD` names instructions that this CPU lacks.
pub fn run(cli: Cli) -> Result<Outcome> {
    check_instructions().map_err(Error::usage)?;
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
        Command::Man { command, out } => man::run(command.as_deref(), out.as_deref()).map(|()| Outcome::Done),
    }
}

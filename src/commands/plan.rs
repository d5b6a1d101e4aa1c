//! `shardpack plan`: what pack would do, in numbers, and the plan as a file.

use std::path::{Path, PathBuf};

use shardpack_packer::{Error, Result, pack, plan_file};

use super::planned;
use crate::{
    Outcome,
    args::{Machine, PlanArgs, Talk},
    progress::{self, Progress},
    report,
    source_args::SourceArgs,
};

/// Options of `plan`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack plan photos/ packed/
  shardpack plan photos/ --shard-size 128MiB -o photos.plan
  shardpack pack --plan photos.plan packed/")]
pub struct Args {
    /// ImageFolder: SRC/<class>/<image>, or SRC/<split>/<class>/<image>; or a list; not with --split
    #[arg(value_name = "SRC")]
    first: PathBuf,
    /// Folder that pack would write to, whose space is looked at
    #[arg(value_name = "DST")]
    second: Option<PathBuf>,
    /// Write the plan file that pack --plan takes
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    talk: Talk,
    // Last: its headings hold for all that follows.
    #[command(flatten)]
    plan: PlanArgs,
}

/// Runs `plan`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.talk.quiet);
    let (src, dst) = args.source.planned_paths(&args.first, args.second.as_deref())?;
    let mut options = args.plan.options(args.machine.jobs())?;
    args.source.put(&mut options)?;
    let all = pack::plan_all(args.source.origin(src)?, &options, None, &monitor)?;
    monitor.finish();
    if let Some(output) = &args.output {
        let [planned] = all.as_slice() else {
            return Err(Error::usage("a plan file is of one format").help("give --format once, or leave --output out"));
        };
        let folder = match output.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        plan_file::write(output, folder, &planned.source.resolved()?, &planned.plans)?;
    }
    planned::print(&all, dst, args.talk)?;
    if let (Some(output), false) = (&args.output, args.talk.quiet) {
        let dst = dst.map_or_else(|| "DST".to_owned(), |dst| dst.display().to_string());
        report::say(&format!("next    shardpack pack --plan {} {dst}", output.display()));
    }
    Ok(Outcome::Done)
}

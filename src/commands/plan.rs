//! `shardpack plan`: shows the numbers of a pack in advance, and writes the plan file.

use std::path::{Path, PathBuf};

use shardpack_format::shell;
use shardpack_packer::{Error, Result, pack, plan_file, sidecars};

use super::planned;
use crate::{
    Outcome,
    args::{Machine, PlanArgs, StoreArgs, Talk},
    price,
    progress::{self, Progress},
    report,
    source_args::SourceArgs,
};

/// Options of `plan`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack plan photos/ packed/
  shardpack plan photos/ --shard-size 128MiB -o photos.plan
  shardpack pack --plan photos.plan packed/
  shardpack plan s3://b/photos s3://b/packed --price get=0.0004/1000,put=0.005/1000,list=0.005/1000")]
pub struct Args {
    /// Tree or list of images. Tree: `SRC/<class>/<image>` or `SRC/<split>/<class>/<image>`, in a folder, below a URL or in a zip
    /// archive. Not with --split
    #[arg(value_name = "SRC")]
    first: PathBuf,
    /// Folder or URL that pack would write to; for a folder, the free space is checked
    #[arg(value_name = "DST")]
    second: Option<PathBuf>,
    /// Write the plan file for pack --plan
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For URLs: prices of requests (get, put, list) and of bytes (in, out), in any currency. in: into the store; out: out of
    /// the store
    #[arg(long, value_name = "get=AMOUNT/1000,…", value_parser = price::prices)]
    price: Option<price::Prices>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    talk: Talk,
    // Last: its headings apply to all options that follow.
    #[command(flatten)]
    plan: PlanArgs,
}

impl Args {
    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        [self.first.as_path()].into_iter().chain(self.second.as_deref()).chain(self.source.list.root()).collect()
    }
}

/// Runs `plan`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.talk.quiet);
    if let Some(output) = &args.output {
        plan_file::check_replaceable(output)?;
    }
    let (src, dst) = args.source.planned_paths(&args.first, args.second.as_deref())?;
    let mut options = args.plan.options(args.machine.jobs())?;
    args.source.put(&mut options)?;
    let places: Vec<&Path> = args.source.places(src).into_iter().chain(dst).collect();
    let (of_source, _) = args.store.of_both(&places)?;
    let all = pack::plan_all(args.source.resolve(src, &of_source)?, &options, None, &monitor)?;
    monitor.finish();
    if let Some(output) = &args.output {
        let [planned] = all.as_slice() else {
            return Err(Error::usage("a plan file holds one format").help("give --format once, or leave --output out"));
        };
        plan_file::write(output, planned.source.resolved()?.as_ref(), &planned.plans)?;
    }
    let sidecars = sidecars::Choice::Auto;
    if args.price.is_some() {
        let requests = all.iter().map(|planned| pack::requests(planned, dst, &sidecars)).collect::<Result<Vec<_>>>()?;
        if requests.iter().all(|requests| *requests == pack::Requests::default()) {
            return Err(price::of_nothing());
        }
    }
    planned::print(&all, dst, &sidecars, args.price.as_ref(), false, args.talk)?;
    if let (Some(output), false) = (&args.output, args.talk.quiet) {
        let dst = dst.map_or_else(|| "DST".to_owned(), shell::path);
        report::say(&format!("next    shardpack pack --plan {} {dst}", shell::path(output)));
    }
    Ok(Outcome::Done)
}

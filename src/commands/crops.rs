//! `shardpack crops`: writes tables next to the indexes, so that loaders decode only the cropped part of a JPEG.

use std::{
    num::NonZeroU16,
    path::{Path, PathBuf},
};

use serde::Serialize;
use shardpack_audit::crops::{self, Report};
use shardpack_packer::Result;

use super::part::{self, Which};
use crate::{
    Outcome,
    args::{Machine, StoreArgs, Talk},
    document::{self, Counted, Network},
    lines::Lines,
    progress::{self, Progress},
    report,
};

/// Options of `crops`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack crops packed/              index/NAME.crops beside each index: 2 % of the images' bytes
  shardpack crops packed/ --every 4    finer: 4 %, and crops decode 4 % faster
  shardpack crops s3://bucket/packed   beside the indexes in the store; shards are read once")]
pub struct Args {
    /// Folder of a dataset, or of several that are splits; also at s3://, gs://, az:// or abfss://
    #[arg(value_name = "DST")]
    folder: PathBuf,
    /// MCUs (8 or 16 pixels wide) between two entries of a table
    #[arg(long, value_name = "N", default_value_t = crops::EVERY)]
    every: NonZeroU16,
    /// Make all tables again; by default, valid tables are kept
    #[arg(long)]
    force: bool,
    /// Only the tables for part I of N of the shards, about equal in bytes. Parts can run at the same time. auto: I and N from
    /// Slurm, Kubernetes, AWS Batch, MPI, torchrun and others
    #[arg(long, value_name = "I/N|auto", value_parser = part::which)]
    part: Option<Which>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    talk: Talk,
}

impl Args {
    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        vec![&self.folder]
    }
}

/// Runs `crops`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.talk.quiet);
    let part = args.part.map(Which::part).transpose()?;
    let options = crops::Options { every: args.every, jobs: args.machine.jobs(), force: args.force, part };
    let made = crops::make(&args.folder, &args.store.for_path(&args.folder)?, &options, &monitor);
    monitor.finish();
    let report = made?;
    if args.talk.json {
        report::print_json(&Cropped::from(&report))?;
    } else {
        report::print(&as_text(&report))?;
    }
    Ok(match report.is_right() {
        true => Outcome::Done,
        false => Outcome::Wrong,
    })
}

/// The report in lines.
pub fn as_text(report: &Report) -> Lines {
    let mut out = Lines::default();
    out += report::first_of(&report.damaged, "", "--json names all", |damaged| {
        let (key, path) = (report::path(&damaged.key), report::path(&damaged.path));
        Lines::one(&format!("{}: sample {key} ({path}): {}", damaged.shard, damaged.why))
    });
    out += report::first_of(&report.failed, "", "--json names all", |(shard, error)| {
        let mut lines = Lines::one(&format!("{shard}: no tables: {error}"));
        lines.extend(error.help_text().map(|help| Lines::one(&format!("  help: {help}"))));
        lines
    });
    let share = 100.0 * report.table_bytes as f64 / report.payload_bytes.max(1) as f64;
    line!(
        out,
        "crops   tables of {} of {}, {} ({share:.1} % of the images), in {}",
        report::count(report.tables),
        report::counted(report.samples, "sample"),
        report::bytes(report.table_bytes),
        report::duration(report.elapsed)
    );
    if report.kept_shards > 0 {
        let (kept, shards) = (report::count(report.kept_shards), report::counted(report.shards, "shard"));
        line!(out, "        the tables of {kept} of {shards} already existed");
    }
    for (why, samples) in &report.without {
        line!(out, "        {} without: {why}", report::count(*samples));
    }
    if !report.damaged.is_empty() {
        line!(out, "        {} damaged", report::count(report.damaged.len() as u64));
    }
    out.extend(report.transfers.map(report::network));
    out
}

/// The document of `crops`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cropped {
    /// Samples of all datasets.
    samples: u64,
    /// Samples with a table.
    tables: u64,
    /// Length of all tables in bytes.
    table_bytes: u64,
    /// Length in bytes of the images of the shards with tables.
    payload_bytes: u64,
    /// Samples without a table that are not damaged, counted by reason.
    without: Counted,
    /// Damaged images, in shard order.
    damaged: Vec<Damaged>,
    /// Shards without tables because they are not as they were sealed.
    failed: Vec<FailedShard>,
    /// Shards with tables.
    shards: u64,
    /// Shards among them whose tables existed and were kept.
    kept_shards: u64,
    /// Duration of the run in milliseconds.
    elapsed_ms: u64,
    /// Null if all data was read from files.
    network: Option<Network>,
}

/// A damaged image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Damaged {
    /// Path of the shard, relative to the given folder.
    shard: String,
    /// Key of the sample.
    key: String,
    /// Path of the sample in the source.
    path: String,
    /// The damage.
    reason: &'static str,
}

/// A shard without tables.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FailedShard {
    /// Path of the shard, relative to the given folder.
    shard: String,
    /// Why it has no tables.
    reason: String,
}

impl From<&Report> for Cropped {
    fn from(report: &Report) -> Self {
        let damaged = report.damaged.iter().map(|damaged| Damaged {
            shard: damaged.shard.clone(),
            key: report::path(&damaged.key),
            path: report::path(&damaged.path),
            reason: damaged.why.name(),
        });
        let failed = report.failed.iter();
        let failed = failed.map(|(shard, error)| FailedShard { shard: shard.clone(), reason: error.to_string() });
        Self {
            samples: report.samples,
            tables: report.tables,
            table_bytes: report.table_bytes,
            payload_bytes: report.payload_bytes,
            without: report.without.iter().map(|(why, samples)| ((*why).to_owned(), *samples)).collect(),
            damaged: damaged.collect(),
            failed: failed.collect(),
            shards: report.shards,
            kept_shards: report.kept_shards,
            elapsed_ms: document::milliseconds(report.elapsed),
            network: report.transfers.map(Network::from),
        }
    }
}

//! `shardpack crops`: writes tables next to the indexes, so that loaders decode only the cropped part of a JPEG.

use std::{
    num::NonZeroU16,
    path::{Path, PathBuf},
};

use serde_json::json;
use shardpack_packer::{
    Result,
    crops::{self, Report},
};

use super::part::{self, Which};
use crate::{
    Outcome,
    args::{Machine, StoreArgs, Talk},
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
    let made = crops::make(&args.folder, &args.store.of(&args.folder)?, &options, &monitor);
    monitor.finish();
    let report = made?;
    if args.talk.json {
        report::print_json(&as_json(&report))?;
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
        Lines::of(&format!("{}: sample {key} ({path}): {}", damaged.shard, damaged.why))
    });
    out += report::first_of(&report.failed, "", "--json names all", |(shard, error)| {
        let mut lines = Lines::of(&format!("{shard}: no tables: {error}"));
        lines.extend(error.help_text().map(|help| Lines::of(&format!("  help: {help}"))));
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

/// The report as JSON.
pub fn as_json(report: &Report) -> serde_json::Value {
    let damaged = report.damaged.iter().map(|damaged| {
        let (key, path) = (report::path(&damaged.key), report::path(&damaged.path));
        json!({"shard": damaged.shard, "key": key, "path": path, "reason": damaged.why.name()})
    });
    let failed = report.failed.iter().map(|(shard, error)| json!({"shard": shard, "reason": error.to_string()}));
    json!({
        "samples": report.samples, "tables": report.tables, "table_bytes": report.table_bytes,
        "payload_bytes": report.payload_bytes, "without": report.without, "damaged": damaged.collect::<Vec<_>>(),
        "failed": failed.collect::<Vec<_>>(), "shards": report.shards, "kept_shards": report.kept_shards,
        "elapsed_ms": report.elapsed.as_millis() as u64, "network": report::network_json(report.transfers),
    })
}

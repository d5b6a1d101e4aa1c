//! `shardpack adopt`: writes manifest and index next to unchanged shards.

use std::path::PathBuf;

use serde_json::json;
use shardpack_format::{hash, manifest::INDEX_FOLDER, shell};
use shardpack_packer::{Result, adopt};

use super::pack::OnBadArg;
use crate::{
    Outcome,
    args::{self, Talk},
    lines::Lines,
    progress::{self, Progress},
    report,
    source_args::Records,
};

/// Options of `adopt`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack adopt old/              manifest.json, BLAKE3SUMS and index/ beside the shards in old/
  shardpack verify old/             now finds every flipped bit, and names its sample
  shardpack adopt old/ --on-bad skip --label-feature label")]
pub struct Args {
    /// Folder of uncompressed shards of one format: webdataset tar, TFRecord, RecordIO or MDS
    folder: PathBuf,
    #[command(flatten)]
    records: Records,
    /// Name of the dataset
    #[arg(help_heading = crate::help::SHARDS, long, default_value = "shard", value_parser = args::name)]
    name: String,
    /// How to handle records that are not samples
    #[arg(help_heading = crate::help::CHOICE, long, value_enum, default_value = "error")]
    on_bad: OnBadArg,
    /// Replace an existing manifest
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    talk: Talk,
}

/// Runs `adopt`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.talk.quiet);
    let options = adopt::Options {
        from: args.records.kind()?,
        wanted: args.records.wanted(),
        name: args.name.clone(),
        on_bad: args.on_bad.policy(),
        force: args.force,
    };
    let result = adopt::adopt(&args.folder, &options, &monitor);
    monitor.finish();
    let found = result?;
    let file = |name: &str| report::path(format!("{INDEX_FOLDER}/{name}").as_bytes());
    if args.talk.json {
        let removed = found.crops.removed.iter().map(|(name, why)| json!({"file": file(name), "reason": why}));
        let bad = found.bad.iter().map(|bad| json!({"path": report::path(&bad.path), "reason": bad.reason}));
        report::print_json(&json!({
            "sealed": found.manifest.is_some(), "bad": bad.collect::<Vec<_>>(),
            "unpacked": report::unpacked(&found.bad), "ignored_files": found.ignored,
            "id": found.manifest.as_ref().map(|manifest| hash::hex(&manifest.id.0)),
            "samples": found.manifest.as_ref().map(|manifest| manifest.samples),
            "shards": found.manifest.as_ref().map(|manifest| manifest.shards.len()),
            "crops": {"kept_shards": found.crops.shards, "removed": removed.collect::<Vec<_>>()},
        }))?;
    } else {
        let mut out = report::list_left_out(&found.bad, "--json names all");
        let removed = |(name, why): &(String, _)| Lines::of(&format!("{}: removed: {why}", file(name)));
        out += report::first_of(&found.crops.removed, "", "--json names all", removed);
        match &found.manifest {
            Some(manifest) => {
                let shards = report::counted(manifest.shards.len() as u64, "shard");
                let samples = report::counted(manifest.samples, "sample");
                line!(out, "adopted {samples} in {shards} of {}", manifest.format.name);
                line!(out, "id      {}", hash::hex(&manifest.id.0));
                for (what, count) in &found.ignored {
                    line!(out, "left    {count} {what}: not in the index");
                }
                if found.crops.shards > 0 {
                    line!(out, "crops   the existing tables of {} match", report::counted(found.crops.shards, "shard"));
                }
                line!(out, "next    shardpack verify {}", shell::path(&args.folder));
            }
            None => {
                let bad = report::counted(found.bad.len() as u64, "record");
                line!(out, "failed  {bad} cannot be read as samples, nothing is written");
                line!(out, "  help: --on-bad skip leaves them out and names them in the ledger");
            }
        }
        report::print(&out)?;
    }
    Ok(if found.manifest.is_some() { Outcome::Done } else { Outcome::Wrong })
}

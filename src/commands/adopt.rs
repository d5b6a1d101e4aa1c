//! `shardpack adopt`: writes manifest and index next to unchanged shards.

use std::path::PathBuf;

use serde::Serialize;
use shardpack_audit::adopt;
use shardpack_format::{
    hash,
    manifest::{Blake3, INDEX_FOLDER},
    shell,
};
use shardpack_packer::Result;

use super::pack::OnBadArg;
use crate::{
    Outcome,
    args::{self, Talk},
    document::{self, Counted, LeftOut, Unpacked},
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
    if args.talk.json {
        report::print_json(&Adopted::new(&found))?;
    } else {
        let mut out = report::list_left_out(&found.bad, "--json names all");
        let removed = |(name, why): &(String, _)| Lines::one(&format!("{}: removed: {why}", in_index(name)));
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

/// Path of a file of indexes, relative to the folder of the dataset.
fn in_index(name: &str) -> String {
    report::path(format!("{INDEX_FOLDER}/{name}").as_bytes())
}

/// The document of `adopt`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Adopted {
    /// Whether manifest and indexes were written.
    sealed: bool,
    /// Records that cannot be read as samples.
    bad: Vec<LeftOut>,
    /// The same records, with their labels.
    unpacked: Vec<Unpacked>,
    /// Records and files that are not in the index, counted by reason.
    ignored_files: Counted,
    /// Id of the dataset; null if nothing was written.
    id: Option<Blake3>,
    /// Samples of the dataset; null if nothing was written.
    samples: Option<u64>,
    /// Shards of the dataset; null if nothing was written.
    shards: Option<usize>,
    crops: KeptCrops,
}

/// Crop tables of an earlier dataset in the folder.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KeptCrops {
    /// Shards whose tables were kept.
    kept_shards: u64,
    /// Removed files, by name.
    removed: Vec<RemovedCrops>,
}

/// A removed file of crop tables.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RemovedCrops {
    /// The file, relative to the folder.
    file: String,
    /// Why it was removed.
    reason: String,
}

impl Adopted {
    fn new(found: &adopt::Report) -> Self {
        let manifest = found.manifest.as_ref();
        let removed = found.crops.removed.iter();
        let removed = removed.map(|(name, why)| RemovedCrops { file: in_index(name), reason: why.clone() });
        Self {
            sealed: manifest.is_some(),
            bad: document::left_out(&found.bad),
            unpacked: document::unpacked(&found.bad),
            ignored_files: found.ignored.clone(),
            id: manifest.map(|manifest| manifest.id),
            samples: manifest.map(|manifest| manifest.samples),
            shards: manifest.map(|manifest| manifest.shards.len()),
            crops: KeptCrops { kept_shards: found.crops.shards, removed: removed.collect() },
        }
    }
}

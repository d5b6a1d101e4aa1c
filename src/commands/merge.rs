//! `shardpack merge`: seals a dataset that was packed in parts.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shardpack_format::{hash, shell};
use shardpack_packer::{
    Result,
    pack::{self, MergeOptions, Merged},
};
use shardpack_source::ledger::Fate;

use super::pack::PackedDataset;
use crate::{
    Outcome,
    args::{Machine, StoreArgs, Talk, refuse_work},
    document::{self, Network, PartName, Unpacked},
    lines::Lines,
    progress::{self, Progress},
    report,
};

/// Number of parts to name.
const NAMED: usize = 20;

/// Options of `merge`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack merge packed/            after all of pack --part 1/8 … 8/8; reads no image
  shardpack merge packed/ --verify   hashes all shards first
  shardpack merge s3://bucket/packed")]
pub struct Args {
    /// Folder or URL that the parts were packed into
    #[arg(value_name = "DST")]
    folder: PathBuf,
    /// Before sealing, read all shards and compare their hashes with the receipts
    #[arg(long)]
    verify: bool,
    /// For URLs: local folder for indexes and new files until DST is sealed [default: ~/.local/state/shardpack]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    talk: Talk,
}

impl Args {
    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        vec![&self.folder]
    }
}

/// Runs `merge`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.talk.quiet);
    refuse_work(args.work.as_deref(), &args.folder)?;
    let options = MergeOptions {
        verify: args.verify,
        jobs: args.machine.jobs(),
        store: args.store.for_path(&args.folder)?,
        work: args.work.clone(),
    };
    let merged = pack::merge(&args.folder, &options, &monitor);
    monitor.finish();
    let merged = merged?;
    if args.talk.json {
        report::print_json(&Document::from(&merged))?;
    } else {
        let lines = merged.transfers.map(report::network).unwrap_or_default();
        report::print(&(as_text(&merged, args) + lines))?;
    }
    Ok(if merged.is_sealed() { Outcome::Done } else { Outcome::Wrong })
}

fn as_text(merged: &Merged, args: &Args) -> Lines {
    let (mut out, dst) = (Lines::default(), shell::path(&args.folder));
    if let Some(missing) = &merged.missing {
        line!(
            out,
            "missing {} of {}: nothing is sealed",
            report::count(missing.shards as u64),
            report::counted(missing.of as u64, "shard")
        );
        for part in missing.parts.iter().take(NAMED) {
            line!(out, "        part {part}");
        }
        if missing.parts.len() > NAMED {
            line!(
                out,
                "        … and {} (--json has all)",
                report::counted((missing.parts.len() - NAMED) as u64, "part")
            );
        }
        let part = missing.parts.first().map_or_else(|| "1/N".to_owned(), ToString::to_string);
        let command = match (missing.is_changed, missing.has_plan) {
            (true, _) => format!("the command of the other parts with --part {part}"),
            (false, true) => {
                let plan = shell::path(args.folder.join(".shardpack/plan"));
                format!("shardpack pack --plan {plan} {dst} --part {part}")
            }
            (false, false) => format!("shardpack pack --plan FILE {dst} --part {part}"),
        };
        line!(out, "  help: {command} packs the first missing part; shardpack status {dst} shows the running parts");
        return out;
    }
    let problem = |(file, what): &(String, String)| Lines::one(&format!("{file}: {what}"));
    out += report::first_of(&merged.problems, "", "--json names all", problem);
    if !merged.problems.is_empty() {
        let problems = report::counted(merged.problems.len() as u64, "file");
        line!(out, "failed  {problems} not as recorded in the receipts of the parts: nothing is sealed");
        line!(out, "  help: remove each named file, and pack its part again");
        return out;
    }
    let samples: u64 = merged.manifests.iter().map(|manifest| manifest.samples).sum();
    let shards: usize = merged.manifests.iter().map(|manifest| manifest.shards.len()).sum();
    let (samples, shards) = (report::counted(samples, "sample"), report::counted(shards as u64, "shard"));
    if merged.already_sealed {
        line!(out, "sealed  {samples} in {shards} are merged here already, nothing to do");
        return out;
    }
    line!(
        out,
        "merged  {samples} in {shards} of {}, in {}",
        report::counted(merged.receipts as u64, "part"),
        report::duration(merged.elapsed)
    );
    let bad: Vec<_> = merged.unpacked.iter().filter(|entry| entry.fate == Fate::Skipped).cloned().collect();
    if !merged.unpacked.is_empty() {
        line!(out, "        {} not packed, see ledger.jsonl", report::count(merged.unpacked.len() as u64));
    }
    out += report::list_left_out(&bad, "ledger.jsonl names all");
    if merged.stray_samples > 0 {
        line!(
            out,
            "        {} whose content does not match the extension: shardpack inspect {dst} --samples --strays",
            report::count(merged.stray_samples)
        );
    }
    if args.talk.quiet {
        return out;
    }
    for manifest in &merged.manifests {
        line!(out, "id      {}  {}", hash::hex(&manifest.id.0), manifest.name);
    }
    line!(out, "next    shardpack verify {dst}");
    out
}

/// The document of `merge`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Merged"))]
pub struct Document {
    /// Whether the datasets are sealed.
    sealed: bool,
    /// Whether they were sealed before: nothing was done.
    already_sealed: bool,
    /// The sealed datasets.
    datasets: Vec<PackedDataset>,
    /// Shards without a receipt; null if there are none.
    missing: Option<Missing>,
    /// Files that are not as recorded in the receipts.
    problems: Vec<Problem>,
    /// Receipts that were found.
    receipts: usize,
    /// Images that were found and are not in the shards.
    unpacked: Vec<Unpacked>,
    /// Images whose content does not match their extension.
    stray_samples: u64,
    /// Duration of the run in milliseconds.
    elapsed_ms: u64,
    /// Null if all data was read from files.
    network: Option<Network>,
}

/// Shards without a receipt.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MissingShards"))]
struct Missing {
    /// The parts that would pack them.
    parts: Vec<PartName>,
    /// Number of these shards.
    shards: usize,
    /// Number of all shards.
    of: usize,
}

/// A file that is not as recorded in the receipts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MergeProblem"))]
struct Problem {
    /// The file, relative to the folder.
    file: String,
    /// The problem.
    what: String,
}

impl From<&Merged> for Document {
    fn from(merged: &Merged) -> Self {
        let missing = merged.missing.as_ref().map(|missing| Missing {
            parts: missing.parts.iter().map(PartName::from).collect(),
            shards: missing.shards,
            of: missing.of,
        });
        let problems = merged.problems.iter();
        Self {
            sealed: merged.is_sealed(),
            already_sealed: merged.already_sealed,
            datasets: merged.manifests.iter().map(PackedDataset::from).collect(),
            missing,
            problems: problems.map(|(file, what)| Problem { file: file.clone(), what: what.clone() }).collect(),
            receipts: merged.receipts,
            unpacked: document::unpacked(&merged.unpacked),
            stray_samples: merged.stray_samples,
            elapsed_ms: document::milliseconds(merged.elapsed),
            network: merged.transfers.map(Network::from),
        }
    }
}

//! `shardpack status`: progress of an unfinished pack.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shardpack_format::{shell, text};
use shardpack_packer::{
    Result,
    pack::{self, PartState, Status},
};

use crate::{
    Outcome,
    args::{StoreArgs, Talk},
    document::PartName,
    lines::Lines,
    report,
};

/// Number of parts to name per state.
const NAMED: usize = 20;

/// Options of `status`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack status packed/
  shardpack status packed/ --json   for scripts: lists the missing parts
  shardpack status s3://bucket/packed")]
pub struct Args {
    /// Folder or URL of the unfinished pack
    #[arg(value_name = "DST")]
    folder: PathBuf,
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

/// Runs `status`.
pub fn run(args: &Args) -> Result<Outcome> {
    let status = pack::status(&args.folder, &args.store.for_path(&args.folder)?)?;
    match (&status, args.talk.json) {
        (status, true) => report::print_json(&Document::new(status.as_ref()))?,
        (Some(status), false) => report::print(&as_text(status, args))?,
        (None, false) => {
            let folder = text::path(&args.folder);
            report::print(&Lines::one(&format!("{folder}: nothing is unfinished here")))?;
        }
    }
    Ok(Outcome::Done)
}

fn named(status: &Status, state: PartState) -> String {
    let parts: Vec<_> = status.parts.iter().filter(|(_, of)| *of == state).map(|(part, _)| part.to_string()).collect();
    let more = parts.len().saturating_sub(NAMED);
    let shown = parts.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more (--json has all)") } else { shown }
}

fn as_text(status: &Status, args: &Args) -> Lines {
    let (mut out, dst) = (Lines::default(), shell::path(&args.folder));
    if status.is_changing && status.parts.is_empty() {
        line!(out, "images  are changed first: shards are planned when all are changed");
    } else if status.is_changing {
        line!(out, "images  are changed first: shards are planned when all parts have changed theirs");
    } else if status.all_shards == 0 {
        line!(out, "shards  are not planned yet");
    } else {
        line!(
            out,
            "shards  {} of {} are finished, {} of {} ({})",
            report::count(status.shards as u64),
            report::count(status.all_shards as u64),
            report::bytes(status.bytes),
            report::bytes(status.all_bytes),
            report::share(status.shards as u64, status.all_shards as u64),
        );
    }
    if !status.parts.is_empty() {
        let of = status.parts.len() as u64;
        let count = |state| report::count(status.count(state) as u64);
        let others = match status.knows_running {
            true => format!("{} running, {} missing", count(PartState::Running), count(PartState::Missing)),
            false => format!("{} missing or running (not distinguished at a URL)", count(PartState::Missing)),
        };
        line!(out, "parts   {} of {} are done, {others}", count(PartState::Done), report::count(of));
        for (state, name) in [(PartState::Running, "running"), (PartState::Missing, "missing")] {
            if status.count(state) > 0 {
                line!(out, "{name} {}", named(status, state));
            }
        }
    }
    if let Some(rate) = status.bytes_per_second {
        let left = status.left().map_or_else(String::new, |left| format!(", {} left", report::coarse_duration(left)));
        line!(out, "rate    {}/s recently{left}", report::bytes(rate as u64));
    }
    if status.is_complete && !args.talk.quiet {
        match status.is_changing {
            true => line!(out, "next    run the same commands again to pack the parts; then shardpack merge {dst}"),
            false => line!(out, "next    shardpack merge {dst}"),
        }
    }
    out
}

/// The document of `status`.
#[derive(Serialize)]
#[serde(untagged)]
enum Document {
    Unfinished(Unfinished),
    Changing(Changing),
    Finished(Finished),
}

/// Shards are planned, and some or all are not sealed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unfinished {
    /// Whether work is unfinished.
    #[cfg_attr(test, schemars(extend("const" = true)))]
    unfinished: bool,
    /// Whether `merge` has all that it needs.
    complete: bool,
    /// Samples of all shards.
    samples: u64,
    /// Number of all shards.
    shards: usize,
    /// Number of the finished shards.
    finished_shards: usize,
    /// Length of all shards in bytes, before compression.
    shard_bytes: u64,
    /// Length of the finished shards in bytes.
    finished_bytes: u64,
    /// Bytes of shards finished per second, recently; null if unknown.
    bytes_per_second: Option<f64>,
    /// Seconds for the other shards at this rate; null if unknown.
    seconds_left: Option<f64>,
    parts: Parts,
}

/// Images are changed before shards are planned.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Changing {
    /// Whether work is unfinished.
    #[cfg_attr(test, schemars(extend("const" = true)))]
    unfinished: bool,
    /// Whether images are changed first.
    #[cfg_attr(test, schemars(extend("const" = true)))]
    changing: bool,
    /// Whether all images are changed, so that the parts can be packed.
    complete: bool,
    /// The parts that change the images.
    parts: Parts,
}

/// Nothing is unfinished.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finished {
    /// Whether work is unfinished.
    #[cfg_attr(test, schemars(extend("const" = false)))]
    unfinished: bool,
}

/// The parts of `--part` by their state; empty lists if the work is not done in parts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Parts {
    /// Parts with a receipt.
    done: Vec<PartName>,
    /// Null at a URL: a store does not show running parts, and they are in `missing`.
    running: Option<Vec<PartName>>,
    /// Parts that are neither done nor running.
    missing: Vec<PartName>,
}

impl Document {
    fn new(status: Option<&Status>) -> Self {
        let Some(status) = status else { return Self::Finished(Finished { unfinished: false }) };
        let of = |state: PartState| -> Vec<_> {
            status.parts.iter().filter(|(_, of)| *of == state).map(|(part, _)| PartName::from(part)).collect()
        };
        let running = status.knows_running.then(|| of(PartState::Running));
        let parts = Parts { done: of(PartState::Done), running, missing: of(PartState::Missing) };
        if status.is_changing {
            return Self::Changing(Changing { unfinished: true, changing: true, complete: status.is_complete, parts });
        }
        Self::Unfinished(Unfinished {
            unfinished: true,
            complete: status.is_complete,
            samples: status.samples,
            shards: status.all_shards,
            finished_shards: status.shards,
            shard_bytes: status.all_bytes,
            finished_bytes: status.bytes,
            bytes_per_second: status.bytes_per_second,
            seconds_left: status.left().map(|left| left.as_secs_f64()),
            parts,
        })
    }
}

//! `shardpack inspect`: shows the content of datasets and shards.

mod samples;
mod splits;
mod text;

#[cfg(test)]
pub use samples::Listed;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use serde::Serialize;
use shardpack_audit::{
    inspect::{self, Filter, Resolved},
    table,
};
use shardpack_format::{image_header::Kind, shell};
use shardpack_packer::{Error, ErrorKind, Result, pack};
use shardpack_storage::{Access, Address};

use crate::{
    Outcome,
    args::{self, Machine, StoreArgs, Talk, Target},
    document::{Counted, Network},
    lines::Lines,
    progress::{self, Progress},
    report,
};

/// Number of listed samples without --limit.
const LISTED: u64 = 20;

/// Options of `inspect`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack inspect packed/                          summary of a dataset
  shardpack inspect packed/train-000017.tar          summary of one shard
  shardpack inspect s3://bucket/packed               the same at a URL
  shardpack inspect other/                           tar, TFRecord, RecordIO or MDS of any writer
  shardpack inspect packed/ --samples --class tench  a table of samples
  shardpack inspect packed/ --samples --strays       images that do not match their extension
  shardpack inspect packed/ --extract 00000042 -o image.jpg
  shardpack inspect packed/ --table index.parquet    the index for pandas, polars, DuckDB")]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// List samples in stored order, instead of a summary
    #[arg(long, group = "view")]
    samples: bool,
    /// With --samples: only samples of this class, by name or label
    #[arg(long, value_name = "CLASS", requires = "samples")]
    class: Option<String>,
    /// With --samples: only images of this kind, detected from their first bytes: jpeg, png, …
    #[arg(long, value_parser = kind, requires = "samples")]
    kind: Option<Kind>,
    /// With --samples: only images whose content does not match their extension
    #[arg(long, requires = "samples")]
    strays: bool,
    /// With --samples: list at most N; 0 lists all [default: 20]
    #[arg(long, value_name = "N", requires = "samples")]
    limit: Option<u64>,
    /// Write one image to -o FILE, chosen by key or by its path in the source
    #[arg(long, value_name = "KEY|PATH", requires = "output", group = "view")]
    extract: Option<OsString>,
    /// With --extract: file to write, or - for stdout
    #[arg(long, short, value_name = "FILE", requires = "extract")]
    output: Option<PathBuf>,
    /// Write the index as a table, one row per sample: FILE.parquet or FILE.csv
    #[arg(long, value_name = "FILE", group = "view")]
    table: Option<PathBuf>,
    /// With --extract and --table: replace FILE
    #[arg(long)]
    force: bool,
    /// Memory; one piece (record, page) of a foreign file may take at most half [default: a quarter of the machine's memory, at
    /// most 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = args::large_size)]
    pub memory: Option<u64>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    talk: Talk,
}

fn kind(name: &str) -> Result<Kind, String> {
    let names = || Kind::ALL.map(Kind::name).join(", ");
    inspect::kind_of_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

impl Args {
    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        self.target.paths.iter().map(PathBuf::as_path).collect()
    }

    /// Number of threads; for a URL, enough to keep requests in flight.
    fn jobs(&self) -> usize {
        let access = Access::of_all(self.urls().into_iter().map(|path| Address::of(path).access()));
        self.machine.jobs().max(access.reads.min(inspect::REQUESTS))
    }
}

/// Runs `inspect`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.talk.quiet);
    if let Some(path) = &args.table {
        // Refuse an unsupported file type before reading anything.
        table::Kind::from_path(path)?;
    }
    let mut resolved = inspect::resolve(&args.target.paths, &args.store.settings()?)?;
    if args.samples {
        let limit = args.limit.unwrap_or(LISTED);
        let filter = Filter {
            class: args.class.clone(),
            kind: args.kind,
            strays: args.strays,
            limit: (limit > 0).then_some(limit),
        };
        return samples::list(&mut resolved, filter, args.talk, &monitor);
    }
    if let (Some(wanted), Some(output)) = (&args.extract, &args.output) {
        return extract(args, &resolved, wanted, output, &monitor);
    }
    if let Some(path) = &args.table {
        let written = table::write(&resolved.targets, path, args.force, &monitor);
        monitor.finish();
        let rows = written?;
        match args.talk.json {
            true => report::print_json(&Table {
                file: shown(path),
                rows,
                network: resolved.transfers().map(Network::from),
            })?,
            false => {
                let mut out = Lines::one(&format!("wrote   {}: {}", shown(path), report::counted(rows, "row")));
                out.extend(resolved.transfers().map(report::network));
                report::print(&out)?;
            }
        }
        return Ok(tell(&resolved.problems));
    }
    let result = inspect::inspect(&resolved.targets, args.jobs(), &monitor);
    monitor.finish();
    let mut found = result?;
    // Report missing files before problems in existing files.
    found.problems.splice(0..0, std::mem::take(&mut resolved.problems));
    match args.talk.json {
        true => report::print_json(&Inspected {
            datasets: &found.datasets,
            problems: found.problems.iter().map(Problem::from).collect(),
            ignored_files: &resolved.ignored,
            notes: &resolved.notes,
            network: resolved.transfers().map(Network::from),
        })?,
        false => {
            let mut out = text_of(&found.datasets, args.talk.quiet);
            for (reason, files) in &resolved.ignored {
                line!(out, "ignored {}: {reason}", report::counted(*files, "file"));
            }
            for note in &resolved.notes {
                line!(out, "note    {note}");
            }
            out.extend(resolved.transfers().map(report::network));
            report::print(&out)?;
        }
    }
    Ok(tell(&found.problems))
}

/// The whole text, without the hints for next steps if `quiet`.
fn text_of(summaries: &[inspect::Summary], quiet: bool) -> Lines {
    let mut out = Lines::default();
    if splits::are(summaries) {
        splits::report(&mut out, summaries, quiet);
        return out;
    }
    for (number, summary) in summaries.iter().enumerate() {
        if number > 0 {
            out.gap();
        }
        text::dataset(&mut out, summary);
        let is_one_path = summary.what != inspect::What::Foreign || summary.shards.count == 1;
        if !quiet && is_one_path {
            out.gap();
            text::say(&mut out, "next", &[format!("shardpack verify {}", shell::path(&summary.path))]);
        }
    }
    out
}

/// Prints problems to stderr, and returns the outcome.
fn tell(problems: &[Error]) -> Outcome {
    problems.iter().take(report::NAMED).for_each(report::error);
    if problems.len() > report::NAMED {
        report::say(&format!(
            "… and {} more; --json names all",
            report::count((problems.len() - report::NAMED) as u64)
        ));
    }
    match problems.iter().any(|problem| problem.kind() != ErrorKind::Data) {
        true => Outcome::Refused,
        false if problems.is_empty() => Outcome::Done,
        false => Outcome::Wrong,
    }
}

/// The document of `inspect`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inspected<'a> {
    /// One summary for each dataset and each group of foreign files.
    datasets: &'a [inspect::Summary],
    /// Problems, in shard order.
    problems: Vec<Problem>,
    /// Other files in folders of shards, counted by the reason for ignoring them.
    ignored_files: &'a Counted,
    /// Checks that were not made.
    notes: &'a BTreeSet<&'static str>,
    /// Null if all data was read from files.
    network: Option<Network>,
}

/// A problem with a file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Problem {
    /// The file; null if the problem is in no file.
    file: Option<String>,
    /// Key and path of the sample; null if the problem is in no sample.
    sample: Option<String>,
    /// Offset in the file in bytes; null if unknown.
    byte: Option<u64>,
    /// The problem, with expected and found values.
    what: String,
    /// Advice; null if there is none.
    help: Option<String>,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let at = error.location().clone();
        let help = error.help_text().map(str::to_owned);
        Self { file: at.file, sample: at.sample, byte: at.byte, what: error.what(), help }
    }
}

/// The document of `inspect --table`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Table {
    /// The table.
    file: String,
    /// Rows of the table: one for each sample.
    rows: u64,
    /// Null if all data was read from files.
    network: Option<Network>,
}

/// The document of `inspect --extract`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Extracted"))]
pub struct ExtractedImage {
    /// The written file.
    file: String,
    /// Its length in bytes.
    bytes: u64,
    /// Key and path of the sample.
    sample: String,
    /// Path of the shard.
    shard: String,
    /// Null if all data was read from files.
    network: Option<Network>,
}

fn shown(path: &Path) -> String {
    report::path(path.as_os_str().as_bytes())
}

fn extract(args: &Args, resolved: &Resolved, wanted: &OsString, output: &Path, monitor: &Progress) -> Result<Outcome> {
    let to_stdout = output.as_os_str() == "-";
    if to_stdout && args.talk.json {
        return Err(Error::usage("--json: the image itself goes to stdout").help("-o FILE, or no --json"));
    }
    if !to_stdout {
        pack::check_replaceable(output, args.force)?;
    }
    let extracted = inspect::extract(&resolved.targets, wanted.as_bytes(), args.jobs(), monitor);
    monitor.finish();
    let extracted = extracted?;
    if to_stdout {
        return report::print_bytes(&extracted.bytes).map(|()| Outcome::Done);
    }
    pack::put(output, &extracted.bytes, args.force)?;
    let (bytes, name) = (extracted.bytes.len() as u64, report::path(extracted.name.as_bytes()));
    if args.talk.json {
        report::print_json(&ExtractedImage {
            file: shown(output),
            bytes,
            sample: name,
            shard: shown(&extracted.shard),
            network: resolved.transfers().map(Network::from),
        })?;
    } else if !args.talk.quiet {
        let mut out = Lines::one(&format!("wrote   {}: {name}, {} bytes", shown(output), report::count(bytes)));
        out.extend(resolved.transfers().map(report::network));
        report::print(&out)?;
    }
    Ok(Outcome::Done)
}

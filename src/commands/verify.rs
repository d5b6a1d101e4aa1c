//! `shardpack verify`: compares shards with their manifest.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shardpack_audit::verify::{self, NO_IMAGE, Options, Problem, Repaired, Report, foreign};
use shardpack_format::{formats::foreign::FieldSelection, shell};
use shardpack_packer::{Error, Result};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_source::{DatasetLocation, Inputs, inputs::InputFiles, part_of, resolve_all, sys};

use super::part::{self, Which};
use crate::{
    Outcome,
    args::{self, Machine, StoreArgs, Talk, Target},
    document::{self, Counted, Network},
    lines::Lines,
    progress::{self, Progress},
    report,
    source_args::{ExtraRootArgs, ListArgs},
};

/// Options of `verify`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack verify packed/                      reads and checks everything
  shardpack verify packed/ --quick              sizes and structure only
  shardpack verify packed/ --decode             decodes every image as well
  shardpack verify packed/ --against photos/    compares with the source, in both directions
  shardpack verify packed/ --repair photos/     repairs damaged data from the source
  shardpack verify s3://bucket/packed           the same at a URL
  shardpack verify s3://bucket/packed --repair s3://bucket/photos
  shardpack verify other/                       tar, TFRecord, RecordIO or MDS files of any writer
  shardpack verify 'other/{00000..00146}.tar'   the same: files, globs, brace patterns
  shardpack verify 's3://bucket/other/*.tar'    the same at URLs")]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Check sizes and structure only; read no shard
    #[arg(long, conflicts_with_all = ["decode", "against", "repair"])]
    quick: bool,
    /// Also decode every image in full
    #[arg(long)]
    decode: bool,
    /// Compare with the source in both directions: a tree, zip archive, list, dataset, or shards. Or NAME=SRC once per split, as for pack
    /// --split
    #[arg(long, value_name = "SRC|NAME=SRC")]
    against: Vec<PathBuf>,
    /// Repair damaged bytes from this source, given as for --against, then verify again. At a URL, whole objects are uploaded
    #[arg(long, value_name = "SRC|NAME=SRC")]
    repair: Vec<PathBuf>,
    /// For --repair at a URL: local folder for rebuilt files until they are uploaded [default: ~/.local/state/shardpack]
    #[arg(long, value_name = "DIR", requires = "repair")]
    work: Option<PathBuf>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    extra: ExtraRootArgs,
    /// For a source with labels in a file of keys and labels: the same file as for convert
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "FILE")]
    label_from: Option<PathBuf>,
    /// Verify part I of N of the shards, about equal in bytes. Part 1 also checks the files of the whole dataset. If all parts
    /// pass, the dataset is intact. auto: I and N from Slurm, Kubernetes, AWS Batch, MPI, torchrun and others
    #[arg(long, value_name = "I/N|auto", value_parser = part::which, conflicts_with_all = ["against", "repair"])]
    part: Option<Which>,
    /// Memory for decoding images. One piece (record, page) of a foreign file may take at most half [default: a quarter of the
    /// machine's memory, at most 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = args::large_size)]
    pub memory: Option<u64>,
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
        let paths = self.target.paths.iter().chain(&self.against).chain(&self.repair).map(PathBuf::as_path);
        paths.chain(self.list.root()).collect()
    }

    /// The store settings for the verified dataset, and for the sources.
    fn settings(&self) -> Result<(StoreSettings, StoreSettings)> {
        let sources: Vec<_> = self.against.iter().chain(&self.repair).collect();
        let parts: Vec<_> = sources.iter().filter_map(|part| part_of(part)).map(|(_, source)| source).collect();
        let sources = || {
            let given = sources.iter().map(|source| source.as_path()).chain(parts.iter().map(PathBuf::as_path));
            given.chain(self.list.root())
        };
        let targets = || self.target.paths.iter().map(PathBuf::as_path);
        let (of_source, of_target) = self.store.of_both(&targets().chain(sources()).collect::<Vec<_>>())?;
        Ok((of_target.for_any(targets()), of_source.for_any(sources())))
    }
}

/// Runs `verify`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.talk.quiet);
    let jobs = args.machine.jobs();
    let (store, of_source) = args.settings()?;
    let subject = subject(&args.target.paths, &store)?;
    let has_source = !args.against.is_empty() || !args.repair.is_empty();
    if args.label_from.is_some() && !has_source {
        return Err(Error::usage("--label-from describes a source: use it with --against or --repair"));
    }
    if !args.extra.is_empty() && !has_source {
        return Err(Error::usage("--extra-root is for a source: use it with --against or --repair"));
    }
    let (said, names, asking) = match &subject {
        Subject::Dataset(dst, _) if has_source => verify::said_of_records(dst, &store, args.label_from.as_deref())?,
        _ => (FieldSelection::default(), Vec::new(), None),
    };
    let source = |paths: &[PathBuf]| {
        let columns = args.list.columns();
        let resolve = || {
            let found = resolve_all(paths, &columns, &said, &of_source);
            // Files whose rows only the choice of components makes samples.
            let of_names = || FieldSelection { components: Some(names.clone()), ..said.clone() };
            found.or_else(|error| resolve_all(paths, &columns, &of_names(), &of_source).map_err(|_| error))
        };
        (!paths.is_empty()).then(|| args.extra.around(resolve()?)).transpose()
    };
    // Report a missing source before reading anything.
    let repair = source(&args.repair)?;
    let part = args.part.map(Which::part).transpose()?;
    let against = source(&args.against)?;
    let options = Options {
        quick: args.quick,
        decode: args.decode,
        against,
        jobs,
        part,
        store: store.clone(),
        work: args.work.clone(),
    };
    let done = match (subject, &repair) {
        (Subject::Dataset(dst, looking), repair) => match repair {
            None => verify::verify(&dst, &options, &monitor).map(|report| (report, Repaired::default())),
            Some(source) => verify::repair(&dst, source, &options, &monitor),
        }
        .map(|(report, repaired)| (report.with_transfers(looking).with_transfers(asking), repaired)),
        (Subject::Foreign(looked), None) if args.against.is_empty() && part.is_none() => {
            foreign::verify(looked, &options, &monitor).map(|report| (report, Repaired::default()))
        }
        (Subject::Several(several), None) if args.against.is_empty() && part.is_none() => {
            verify::all(&several, &options, &monitor).map(|report| (report, Repaired::default()))
        }
        (Subject::Several(_) | Subject::Foreign(_), _) if part.is_some() => Err(whole("verified in parts")),
        (Subject::Several(_), _) => Err(whole("compared with a source, or mended from it")),
        (Subject::Foreign(_), _) => Err(Error::usage("shards without a manifest cannot be compared with a source")),
    };
    monitor.finish();
    let (report, repaired) = done?;
    if args.talk.json {
        report::print_json(&Verified::new(&report, &repaired))?;
    } else {
        report::print(&as_text(&report, &repaired, args))?;
    }
    Ok(match report.problems.is_empty() {
        true => Outcome::Done,
        false if report.is_refused => Outcome::Refused,
        false => Outcome::Wrong,
    })
}

/// The error for operations that need a whole dataset.
fn whole(done: &str) -> Error {
    Error::usage(format!("only a whole dataset can be {done}")).help("give only its folder")
}

/// The object to verify.
enum Subject {
    /// The dataset in this folder, or those of its splits, and the network use of finding it.
    Dataset(PathBuf, Option<Transfers>),
    /// Shards without a manifest.
    Foreign(InputFiles),
    /// Shards of datasets, by their manifests, and all other named files.
    Several(Inputs),
}

fn subject(paths: &[PathBuf], store: &StoreSettings) -> Result<Subject> {
    let mut given = Inputs::at(paths, store)?;
    given.refuse_lost_manifests()?;
    given.take_formats(store)?;
    let looked = match (given.roots.as_slice(), given.others.as_slice()) {
        ([DatasetLocation { folder, only: None, .. }], []) => {
            return Ok(Subject::Dataset(folder.clone(), given.transfers()));
        }
        ([], _) => given.look()?,
        _ => return Ok(Subject::Several(given)),
    };
    if let [path] = paths
        && looked.files.shards.is_empty()
        && looked.files.problems.is_empty()
        && sys::is_folder(path)?
    {
        // The dataset may have splits.
        return Ok(Subject::Dataset(path.clone(), None));
    }
    looked.some(paths).map(Subject::Foreign)
}

fn line(problem: &Problem) -> String {
    let mut out = format!("{}: ", problem.file);
    let mut place = Vec::new();
    match (&problem.key, &problem.path) {
        (Some(key), Some(path)) => place.push(format!("sample {key} ({})", report::path(path))),
        (Some(key), None) => place.push(format!("sample {key}")),
        (None, Some(path)) => place.push(report::path(path)),
        (None, None) => {}
    }
    match &problem.bytes {
        Some(bytes) if bytes.end > bytes.start + 1 => place.push(format!("bytes {}–{}", bytes.start, bytes.end)),
        Some(bytes) => place.push(format!("byte {}", bytes.start)),
        None => {}
    }
    if !place.is_empty() {
        out += &format!("{}: ", place.join(", "));
    }
    out + &problem.what
}

/// The location of a full list.
const ALL: &str = "--json names all";

fn as_text(report: &Report, repaired: &Repaired, args: &Args) -> Lines {
    let mut out = Lines::default();
    out += report::first_of(&repaired.files, "", ALL, |file| Lines::one(&format!("mended  {file}")));
    out += report::first_of(&repaired.failed, "", ALL, |(file, why)| Lines::one(&format!("cannot mend {file}: {why}")));
    out += report::left_uploads(&repaired.left_uploads);
    out += report::first_of(&report.problems, "", ALL, |problem| {
        let mut lines = Lines::one(&line(problem));
        lines.extend(problem.help.as_ref().map(|help| Lines::one(&format!("  help: {help}"))));
        lines
    });
    if !args.talk.quiet {
        out += report::first_of(&report.notes, "note    ", ALL, |note| Lines::one(&format!("note    {note}")));
    }
    for (what, images) in &report.not_decoded {
        match what.strip_suffix(NO_IMAGE) {
            None => line!(out, "unsure  {}, only the headers checked: {what}", report::counted(*images, "image")),
            Some(kind) => line!(out, "unsure  {} not checked: {kind}", report::counted(*images, "file")),
        }
    }
    let read = match args.quick {
        true => "sizes and structure only".to_owned(),
        false => {
            format!("{} read at {}", report::bytes(report.read_bytes), report::rate(report.read_bytes, report.elapsed))
        }
    };
    let network = report.transfers.map(report::network);
    if report.problems.is_empty() {
        line!(
            out,
            "ok      {} in {}, {read}",
            report::counted(report.samples, "sample"),
            report::counted(report.shards, "shard"),
        );
        out.extend(network);
        return out;
    }
    if args.repair.is_empty() && report.mendable {
        let target = args.target.paths.first().map_or_else(String::new, shell::path);
        line!(out, "  help: shardpack verify {target} --repair SRC writes damaged bytes anew from the source");
    }
    line!(
        out,
        "{} of {} damaged{}, in {} of {}; {} ({read})",
        report::count(report.damaged_samples),
        report::counted(report.samples, "sample"),
        match report.without_image {
            0 => String::new(),
            1 => ", 1 holds no image".to_owned(),
            samples => format!(", {} hold no image", report::count(samples)),
        },
        report::count(report.damaged_shards),
        report::counted(report.shards, "shard"),
        report::counted(report.problems.len() as u64, "problem"),
    );
    out.extend(network);
    out
}

/// The document of `verify`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verified<'a> {
    /// Whether no problem was found.
    ok: bool,
    /// All problems; for each dataset first its own files, then shards in order.
    problems: Vec<VerifyProblem<'a>>,
    /// Checks that could not be made although nothing seems wrong, each with its file.
    notes: &'a [String],
    /// Number of samples.
    samples: u64,
    /// Number of samples that are damaged or missing.
    damaged_samples: u64,
    /// Number of intact samples without an image; nonzero for foreign shards only.
    without_image: u64,
    /// Images without a decoder, counted by kind: only their headers were checked.
    not_decoded: &'a Counted,
    /// Number of shards.
    shards: u64,
    /// Number of shards with a problem.
    damaged_shards: u64,
    /// Other files in the folders of foreign shards, counted by the reason for ignoring them.
    ignored_files: &'a Counted,
    /// Bytes read from shards.
    read_bytes: u64,
    /// Duration of the run in milliseconds.
    elapsed_ms: u64,
    /// Null if all data was read from files.
    network: Option<Network>,
    /// Files that `--repair` wrote again.
    mended: &'a [String],
    /// Files that `--repair` could not write again.
    not_mended: Vec<NotMended<'a>>,
    /// Objects with parts that an earlier repair had sent and that the store refuses to delete.
    left_uploads: &'a [String],
}

/// A problem.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VerifyProblem<'a> {
    /// File, relative to the verified folder.
    file: &'a str,
    /// Offset in bytes of the affected bytes in the file, or in the unpacked shard; null if unknown.
    start: Option<u64>,
    /// Offset in bytes of the end of the affected bytes; null if unknown.
    end: Option<u64>,
    /// Key of the sample; null if no sample is affected.
    key: Option<&'a str>,
    /// Path of the sample in the source; null if unknown.
    path: Option<String>,
    /// The problem, with expected and found values.
    what: &'a str,
    /// Advice; null if there is none.
    help: Option<&'a str>,
}

/// A file that could not be written again.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NotMended<'a> {
    /// The file.
    file: &'a str,
    /// The reason.
    why: &'a str,
}

impl<'a> Verified<'a> {
    fn new(report: &'a Report, repaired: &'a Repaired) -> Self {
        let problems = report.problems.iter().map(|problem| VerifyProblem {
            file: &problem.file,
            start: problem.bytes.as_ref().map(|bytes| bytes.start),
            end: problem.bytes.as_ref().map(|bytes| bytes.end),
            key: problem.key.as_deref(),
            path: problem.path.as_ref().map(|path| report::path(path)),
            what: &problem.what,
            help: problem.help.as_deref(),
        });
        Self {
            ok: report.problems.is_empty(),
            problems: problems.collect(),
            notes: &report.notes,
            samples: report.samples,
            damaged_samples: report.damaged_samples,
            without_image: report.without_image,
            not_decoded: &report.not_decoded,
            shards: report.shards,
            damaged_shards: report.damaged_shards,
            ignored_files: &report.ignored,
            read_bytes: report.read_bytes,
            elapsed_ms: document::milliseconds(report.elapsed),
            network: report.transfers.map(Network::from),
            mended: &repaired.files,
            not_mended: repaired.failed.iter().map(|(file, why)| NotMended { file, why }).collect(),
            left_uploads: &repaired.left_uploads,
        }
    }
}

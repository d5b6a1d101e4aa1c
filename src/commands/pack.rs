//! `shardpack pack`: packs an image tree or a list into shards.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shardpack_audit::crops;
use shardpack_format::{
    manifest::{Blake3, Counts, Manifest},
    text,
};
use shardpack_packer::{
    Error, ErrorKind, Result,
    copy::OnBad,
    pack::{self, PlanOptions, Planned, PreprocessTarget, Report},
    sidecars,
};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_source::{SharedSource, Source, shards::Preview, storage::ReadOrder};
use shardpack_storage::Address;

use super::{
    crops::Cropped,
    pack_text::as_text,
    planned::{self, describe_source, say_notes},
};
use crate::{
    Outcome,
    args::{self, Machine, PlanArgs, ReadOrderArg, StoreArgs, Talk},
    document::{self, Counted, LeftOut, Network, Stray, Unpacked},
    progress::{self, Progress},
    report,
    source_args::SourceArgs,
};

/// Options of `pack`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack pack photos/ packed/
  shardpack pack imagenet/ packed/ --shard-size 512MiB --seed 7
  shardpack pack photos/ packed/ --on-bad skip --meta json
  shardpack pack photos.zip packed/   reads the archive in place; also photos.zip/train
  shardpack pack labels.csv packed/   detects the columns with paths and labels
  shardpack pack --split train=ILSVRC/train --split val=val.txt --root ILSVRC/val packed/
  shardpack pack annotations/instances_val2017.json packed/   COCO
  shardpack pack photos/ packed/ --no-labels --with txt,mask=*_mask.png
  shardpack pack speech/ packed/ --files wav --group stem   x.wav, x.txt and x.json are one sample
  shardpack pack imagenet/ small/ --resize 256 --fix
  shardpack pack photos/ packed/ --min-side 64 --dedup exact --leaks
  shardpack pack --plan photos.plan packed/
  shardpack pack --plan photos.plan packed/ --part 3/8   one of 8; then shardpack merge packed/")]
pub struct Args {
    /// Tree or list of images. Tree: `SRC/<class>/<image>` or `SRC/<split>/<class>/<image>`, in a folder, below a URL (s3://,
    /// gs://, az://, abfss://), or in a zip archive (photos.zip or photos.zip/FOLDER, also at a URL and https://). List: CSV,
    /// JSONL, Parquet, COCO, or lines `path label`. Not with --plan or --split
    #[arg(value_name = "SRC")]
    first: PathBuf,
    /// Folder or URL to write to
    #[arg(value_name = "DST", required_unless_present_any = ["plan_file", "parts"])]
    second: Option<PathBuf>,
    /// Pack by this plan file, instead of walking SRC
    #[arg(help_heading = crate::help::SOURCE, long = "plan", value_name = "FILE", conflicts_with_all = [
        "format", "order", "seed", "shard_size", "shard_samples", "shards", "name", "splits", "split_fraction", "ext", "cls", "meta",
        "compress", "include", "exclude", "label_offset", "features", "mds_encoding", "settings", "root",
        "path_column", "label_column", "split_column", "no_labels", "label_pattern", "no_follow", "with", "extra_root", "on_missing", "files", "group",
        "parts",
        "check", "formats", "min_side", "max_pixels", "dedup", "leaks", "near_duplicates", "sample_per_class", "classes",
        "class_map", "fix", "rotate", "resize", "encode", "quality", "drop_icc", "keep_exif",
    ])]
    plan_file: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    pub run: RunArgs,
    // Last: its headings apply to all options that follow.
    #[command(flatten)]
    plan: PlanArgs,
}

/// How the work is done, whatever is packed.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub machine: Machine,
    /// Memory for images in flight, and as much again for decoding. One piece (record, page) of a foreign file may take at most
    /// half [default: a quarter of the machine's memory, at most 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = args::large_size)]
    pub memory: Option<u64>,
    /// Read order of the source; the shards are the same in any order
    #[arg(long, value_enum, default_value = "auto")]
    read_order: ReadOrderArg,
    /// How to handle images that cannot be packed
    #[arg(help_heading = crate::help::CHOICE, long, value_enum, default_value = "error")]
    on_bad: OnBadArg,
    /// Extra files for certain readers, beside the shards: auto, none, or NAMES separated by commas. See
    /// docs/reference/formats/
    #[arg(help_heading = crate::help::SHARDS, long, default_value = "auto", value_name = "auto|none|NAMES")]
    sidecars: String,
    /// Replace the dataset or unfinished pack in DST. A folder keeps the old dataset until the new one is sealed; at a URL it
    /// is deleted first
    #[arg(long)]
    force: bool,
    /// Also make crop tables for loaders, as `shardpack crops DST` does
    #[arg(long)]
    crops: bool,
    /// Show the plan and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Pack part I of N. Parts are runs of whole shards of about equal size in bytes, and can be packed on any machines at
    /// once; then run `shardpack merge DST`. With --resize, --fix, --rotate or --encode, run each part twice: the first run
    /// changes its images. auto: I and N from Slurm, Kubernetes, AWS Batch, MPI, torchrun and others
    #[arg(long, value_name = "I/N|auto", value_parser = super::part::which, conflicts_with_all = ["force", "crops", "dry_run"])]
    pub part: Option<super::part::Which>,
    /// For URLs: local folder for the plan and finished indexes until DST is sealed. Run the same command again to resume
    /// [default: ~/.local/state/shardpack]
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub talk: Talk,
}

/// `--sidecars`.
pub fn sidecars(text: &str) -> sidecars::Choice {
    match text {
        "auto" => sidecars::Choice::Auto,
        "none" => sidecars::Choice::None,
        names => sidecars::Choice::Names(names.split(',').map(str::to_owned).collect()),
    }
}

impl RunArgs {
    /// The options for the packer, with the store settings of DST.
    pub fn options(&self, store: StoreSettings) -> pack::Options {
        pack::Options {
            store,
            work: self.work.clone(),
            jobs: self.machine.jobs(),
            memory_bytes: self.memory.unwrap_or_else(args::default_memory),
            on_bad: self.on_bad.policy(),
            read_order: self.read_order.choice(),
            force: self.force,
            sidecars: sidecars(&self.sidecars),
        }
    }
}

/// `--on-bad`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum OnBadArg {
    /// Process the others, name all bad ones, seal nothing, exit with code 1
    Error,
    /// Leave them out and list them in the ledger
    Skip,
}

impl OnBadArg {
    /// The policy for the packer.
    pub fn policy(self) -> OnBad {
        match self {
            Self::Error => OnBad::Error,
            Self::Skip => OnBad::Skip,
        }
    }
}

impl Args {
    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        [self.first.as_path()].into_iter().chain(self.second.as_deref()).chain(self.source.list.root()).collect()
    }
}

/// Runs `pack`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.run.talk.quiet);
    match (&args.plan_file, &args.second) {
        (Some(file), None) => match args.run.part {
            Some(which) => super::part::of_file(file, &args.first, which, &args.run, &monitor),
            None => {
                args::refuse_work(args.run.work.as_deref(), &args.first)?;
                let planned = vec![pack::planned(file)?];
                let of_dst = args.run.store.of_both(&[planned[0].source.path(), &args.first])?.1;
                go(planned, &args.first, &of_dst, &args.run, &monitor, None)
            }
        },
        (Some(_), Some(_)) => {
            Err(Error::usage("--plan FILE names the source already").help("shardpack pack --plan FILE DST"))
        }
        (None, second) => {
            let (src, dst) = args.source.paths(&args.first, second.as_deref())?;
            let mut options = args.plan.options(args.run.machine.jobs())?;
            args.source.put(&mut options)?;
            let places: Vec<&Path> = args.source.places(src).into_iter().chain([dst]).collect();
            let (of_source, of_dst) = args.run.store.of_both(&places)?;
            let source = args.source.resolve(src, &of_source)?;
            look_at(source.as_ref(), &options, dst, &args.run)?;
            plan_and_go(source, &options, (dst, &of_dst), &args.run, &monitor, None)
        }
    }
}

/// Plans the content of `source`, and packs it, or a part of it.
pub fn plan_and_go(
    source: SharedSource,
    options: &[PlanOptions],
    (dst, store): (&Path, &StoreSettings),
    run: &RunArgs,
    monitor: &Progress,
    recognised: Option<Preview>,
) -> Result<Outcome> {
    args::refuse_work(run.work.as_deref(), dst)?;
    match run.part {
        Some(which) => super::part::of_walk(source, options, (dst, store), which, run, monitor, recognised),
        None => {
            let place = if run.dry_run { None } else { Some(place(options, (dst, store), run)?) };
            let planned = pack::plan_all(source, options, place.as_ref(), monitor)?;
            go(planned, dst, store, run, monitor, recognised)
        }
    }
}

/// The destination for `format`, if `formats` formats are packed at once.
fn folder_of(dst: &Path, format: &str, formats: usize) -> PathBuf {
    match dst.to_str().map(|text| text.trim_end_matches('/')).filter(|text| !text.is_empty()) {
        _ if formats == 1 => dst.to_path_buf(),
        // A key with an empty part is no key.
        Some(text) => Path::new(text).join(format),
        None => dst.join(format),
    }
}

/// Fails early, before the source is listed, if nothing can be packed into `dst`.
pub fn look_at(source: &dyn Source, options: &[PlanOptions], dst: &Path, run: &RunArgs) -> Result<()> {
    args::refuse_work(run.work.as_deref(), dst)?;
    let formats = options.iter().map(|one| folder_of(dst, &one.bytes.format.name, options.len()));
    formats.collect::<Vec<_>>().iter().try_for_each(|folder| {
        if options.len() > 1 {
            pack::no_link(folder)?;
        }
        pack::look_at(folder, source, run.part.is_some())
    })
}

/// The destinations and limits for changing images before they are packed into `dst`.
pub fn place(
    options: &[PlanOptions],
    (dst, store): (&Path, &StoreSettings),
    run: &RunArgs,
) -> Result<PreprocessTarget> {
    let dsts = options.iter().map(|one| folder_of(dst, &one.bytes.format.name, options.len()));
    PreprocessTarget::open(dsts, &run.options(store.clone()))
}

/// Packs the plans, one per format, and reports the result. `recognised` describes the detected source, if known.
fn go(
    planned: Vec<Planned>,
    dst: &Path,
    store: &StoreSettings,
    run: &RunArgs,
    monitor: &Progress,
    recognised: Option<Preview>,
) -> Result<Outcome> {
    monitor.finish();
    let planned = planned.as_slice();
    let folder = |one: &Planned| {
        let format = one.plans.first().map_or("", |plan| plan.format().name());
        folder_of(dst, format, planned.len())
    };
    if let (true, Some(_)) = (run.dry_run && run.crops, Address::of(dst).url()) {
        let error = Error::usage("--dry-run with --crops, and DST is a URL: requests for crop tables are not counted");
        return Err(error.in_file(dst).help("leave --crops out; crop tables need a second read of all shards"));
    }
    let options = run.options(store.clone());
    if run.dry_run || planned.len() > 1 {
        // Refuse a later format before an earlier one is packed.
        for one in planned {
            pack::check(one, &options)?;
            pack::check_destination(one, &folder(one), &options)?;
        }
    }
    if run.dry_run {
        return dry(planned, dst, run, &options);
    }
    let later = planned.get(1..).unwrap_or_default();
    let mut announced = Some(pack::Announced::create(later.iter().map(folder))?);
    let (mut reports, mut networks, mut taken) = (Vec::new(), Vec::new(), None::<Transfers>);
    let mut tables = Vec::new();
    for (number, one) in planned.iter().enumerate() {
        if !run.talk.quiet {
            let lines = describe_source(one);
            // The line about found images is the same for all formats.
            lines.iter().skip(usize::from(number > 0)).for_each(|line| report::say(line));
            if number == 0 {
                report::say(&describe_reading(one, &options));
            }
            say_notes(one);
        }
        // The source is read once: later formats are made from the first dataset, unless its format cannot hold all their data.
        let relay = planned[..number].iter().find(|first| first.serves(one));
        let relay = relay.map(|first| (first, folder(first)));
        let relay = relay.as_ref().map(|(first, folder)| (*first, folder.as_path()));
        let result = pack::pack(one, relay, &folder(one), &options, monitor);
        monitor.finish();
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                let error = match error.kind() {
                    ErrorKind::Interrupted => kept(error, one, &folder(one), &options),
                    _ => error,
                };
                if let Some(announced) = announced.take().filter(|_| number == 0) {
                    announced.withdraw();
                }
                return Err(ended(run, &reports, planned, &networks, error)?);
            }
        };
        // The first format includes the requests of planning.
        let all = one.source.transfers();
        let network = all.map(|all| all.since(taken.unwrap_or_default()));
        let network = network.into_iter().chain(report.transfers).reduce(Transfers::and);
        taken = all;
        networks.push(network);
        if !run.talk.json {
            let lines = network.map(report::network).unwrap_or_default();
            report::print(&(as_text(&report, one, &folder(one), run.talk.quiet) + lines))?;
        }
        let is_sealed = report.sealed;
        reports.push(report);
        if !is_sealed {
            break;
        }
        if run.crops {
            let options = crops::Options { every: crops::EVERY, jobs: run.machine.jobs(), force: false, part: None };
            let made = crops::make(&folder(one), store, &options, monitor);
            monitor.finish();
            let made = match made {
                Ok(made) => made,
                Err(error) => return Err(ended(run, &reports, planned, &networks, error)?),
            };
            if !run.talk.json {
                report::print(&super::crops::as_text(&made))?;
            }
            tables.push(made);
        }
    }
    if run.talk.json {
        let mut formats = all_packed(&reports, planned, &networks);
        formats.iter_mut().zip(&tables).for_each(|(packed, made)| packed.crops = Some(Cropped::from(made)));
        match formats.as_mut_slice() {
            [packed] => {
                packed.recognised = recognised;
                report::print_json(packed)?;
            }
            _ => report::print_json(&SeveralPacked { formats, recognised, error: None })?,
        }
    }
    let are_right = tables.iter().all(crops::Report::is_right);
    match are_right && reports.iter().all(|report| report.sealed) {
        true => Ok(Outcome::Done),
        false => Ok(Outcome::Wrong),
    }
}

/// Returns `error`, after printing the formats that are sealed as JSON for scripts.
fn ended(
    run: &RunArgs,
    reports: &[Report],
    planned: &[Planned],
    networks: &[Option<Transfers>],
    error: Error,
) -> Result<Error> {
    if run.talk.json && !reports.is_empty() {
        let formats = all_packed(reports, planned, networks);
        report::print_json(&SeveralPacked { formats, recognised: None, error: Some((&error).into()) })?;
    }
    Ok(error)
}

/// Adds the finished work to an interruption.
fn kept(error: Error, planned: &Planned, dst: &Path, options: &pack::Options) -> Error {
    let shards = planned.plans.iter().map(|plan| plan.shards.len() as u64).sum();
    // Only for the message; the interruption is the error to report.
    let (finished, dst) = pack::finished_shards(&planned.plans, dst, options).unwrap_or((0, dst.to_path_buf()));
    let finished = finished as u64;
    let kept = match finished {
        0 => "no shard was finished yet".to_owned(),
        _ => {
            format!("{} of {} kept in {}", report::count(finished), report::counted(shards, "shard"), text::path(&dst))
        }
    };
    error.help(format!("the same command resumes; {kept}"))
}

/// Prints the plan of a dry run; fails if the list of the source has bad images and the real run would fail for them.
fn dry(planned: &[Planned], dst: &Path, run: &RunArgs, options: &pack::Options) -> Result<Outcome> {
    planned::print(planned, Some(dst), &options.sidecars, None, run.crops, run.talk)?;
    let is_bad = |one: &Planned| !pack::known_bad(&one.plans).is_empty();
    let fails = run.on_bad.policy() == OnBad::Error && planned.iter().any(is_bad);
    Ok(if fails { Outcome::Wrong } else { Outcome::Done })
}

fn describe_reading(planned: &Planned, options: &pack::Options) -> String {
    let how = match pack::read_order(options.read_order, planned) {
        ReadOrder::Plan => format!(
            "reading in plan order with {}",
            report::counted(pack::reading_threads(options, planned) as u64, "thread")
        ),
        ReadOrder::Physical { reads } => format!(
            "reading in physical order, {reads} reads in flight, windows of {}",
            report::bytes(options.memory_bytes)
        ),
    };
    format!("source  {}: {how}", planned.storage.name)
}

/// The document of `pack` and `convert`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Packed {
    /// Whether the datasets are sealed.
    sealed: bool,
    /// Whether the same command sealed them before: nothing was done.
    already_sealed: bool,
    /// The sealed datasets: one, or one for each split.
    datasets: Vec<PackedDataset>,
    /// Images that cannot be packed.
    bad: Vec<LeftOut>,
    /// All images that were found and are not in the shards; includes `bad`.
    unpacked: Vec<Unpacked>,
    /// Files of the source that are not samples, counted by reason.
    ignored_files: Counted,
    /// Images whose files were changed after sealing, without a change of name or length.
    newer_files: u64,
    /// The first images whose content does not match their extension.
    strays: Vec<Stray>,
    /// Number of all such images.
    stray_samples: u64,
    /// Number of all shards.
    shards: usize,
    /// Shards that an earlier run had finished.
    resumed_shards: usize,
    /// Objects with parts that an earlier run had sent and that the store refuses to delete.
    left_uploads: Vec<String>,
    /// Duration in milliseconds, without listing and planning.
    elapsed_ms: u64,
    /// Warnings before the work started.
    notes: Vec<String>,
    /// Null if all data was read from and written to files.
    network: Option<Network>,
    /// Only with `--crops`.
    #[serde(skip_serializing_if = "Option::is_none")]
    crops: Option<Cropped>,
    /// Only of `convert`, and not for sealed datasets of shardpack.
    #[serde(skip_serializing_if = "Option::is_none")]
    recognised: Option<Preview>,
}

/// The document of `pack` and `convert` for several formats, in their order.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SeveralPacked {
    /// With an error, only the formats before it.
    formats: Vec<Packed>,
    /// As for one format.
    #[serde(skip_serializing_if = "Option::is_none")]
    recognised: Option<Preview>,
    /// The error that ended the run, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<document::Error>,
}

/// A sealed dataset.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PackedDataset {
    /// Name of the dataset.
    name: String,
    /// Id of the dataset: BLAKE3 of its manifest.
    id: Blake3,
    /// Number of samples.
    samples: u64,
    /// Number of shards.
    shards: usize,
    /// Length of the shards in bytes.
    shard_bytes: u64,
    /// Length of the images in bytes.
    payload_bytes: u64,
    ledger: Counts,
    /// Samples by the kind of their images.
    kinds: Counted,
}

impl From<&Manifest> for PackedDataset {
    fn from(manifest: &Manifest) -> Self {
        Self {
            name: manifest.name.clone(),
            id: manifest.id,
            samples: manifest.samples,
            shards: manifest.shards.len(),
            shard_bytes: manifest.shard_bytes,
            payload_bytes: manifest.payload_bytes,
            ledger: manifest.ledger.counts,
            kinds: manifest.kinds.clone(),
        }
    }
}

/// One document for each report.
fn all_packed(reports: &[Report], planned: &[Planned], networks: &[Option<Transfers>]) -> Vec<Packed> {
    let all = reports.iter().zip(planned).zip(networks);
    all.map(|((report, planned), network)| Packed::new(report, planned, *network)).collect()
}

impl Packed {
    fn new(report: &Report, planned: &Planned, network: Option<Transfers>) -> Self {
        let mut ignored_files = Counted::new();
        for (reason, files) in planned.plans.iter().flat_map(|plan| &plan.ignored) {
            *ignored_files.entry(reason.clone()).or_default() += files;
        }
        Self {
            sealed: report.sealed,
            already_sealed: report.already_sealed,
            datasets: report.manifests.iter().map(PackedDataset::from).collect(),
            bad: document::left_out(&report.bad),
            unpacked: document::unpacked(&report.unpacked),
            ignored_files,
            newer_files: report.newer.as_ref().map_or(0, |(files, _)| *files),
            strays: document::strays(&report.strays),
            stray_samples: report.stray_samples,
            shards: report.shards,
            resumed_shards: report.resumed_shards,
            left_uploads: report.left_uploads.clone(),
            elapsed_ms: document::milliseconds(report.elapsed),
            notes: planned.notes.clone(),
            network: network.map(Network::from),
            crops: None,
            recognised: None,
        }
    }
}

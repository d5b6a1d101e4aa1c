//! Verifies shards against their manifest. All damage is reported; no problem stops the search.
//!
//! Trust starts at the manifest: first its id, then the BLAKE3 of every file in it, then each record by its index row. The content hash
//! covers the image and the frame hash the rest of a record, so each damaged byte of a shard belongs to a sample or follows the last
//! sample.

mod against;
mod decode;
pub mod foreign;
pub mod inputs;
mod records;
mod repair;
mod repair_beside;
mod repair_target;
mod same_labels;
mod shard;
mod sidecars;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::{self, Choice, Format},
    help,
    manifest::{self, Manifest, WORK_FOLDER},
    splits::{self, Difference, Record},
    text,
};
use shardpack_reader::{
    StoreSettings, Transfers, format_folders, is_to_be_replaced, is_unfinished, split_differences, unfinished,
};
use shardpack_runtime::Instant;
use shardpack_storage::Storage;

use crate::{
    decoding,
    inspect::REQUESTS,
    monitor::{Monitor, Phase},
    part::{Part, share_out},
    source::{
        SharedSource,
        strangers::{self, NOT_LISTED, STRANGER, STRANGER_BESIDE},
    },
    sys,
};

pub use against::said_of_records;
pub use decode::NO_IMAGE;
pub use inputs::all;
pub use repair::{Repaired, repair};
use sidecars::{check_crops, check_ledger, check_sidecars, wrong_file};

/// Scope of a verification.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Sizes and structure only: no shard is read.
    pub quick: bool,
    /// Decode every image in full.
    pub decode: bool,
    /// Source to compare with, in both directions.
    pub against: Option<SharedSource>,
    /// Number of threads.
    pub jobs: usize,
    /// Only this part of the shards; checks of the whole dataset run with the first part.
    pub part: Option<Part>,
    /// Store settings, if the dataset is at a URL.
    pub store: StoreSettings,
    /// Work folder for a repair at a URL, if not the default.
    pub work: Option<PathBuf>,
}

impl Options {
    /// Fails in a build that cannot do what they ask.
    fn check(&self) -> Result<()> {
        if self.decode { decoding::require_decode("--decode") } else { Ok(()) }
    }

    /// The same options with enough threads to wait for a store.
    fn for_files(&self, files: &Arc<dyn Storage>) -> Self {
        Self { jobs: self.jobs.max(files.access().reads.min(REQUESTS)), ..self.clone() }
    }
}

/// A detected problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// File, relative to the verified folder.
    pub file: String,
    /// Affected bytes of the file, if known (of the unpacked shard, if it is compressed).
    pub bytes: Option<Range<u64>>,
    /// Key of the sample.
    pub key: Option<String>,
    /// Original path of the sample.
    pub path: Option<Vec<u8>>,
    /// Description of the problem, with expected and found values.
    pub what: String,
    /// The problem existed when the sample was packed: writing the sample again changes nothing.
    pub was_packed: bool,
    /// Specific advice, if any.
    pub help: Option<String>,
}

/// Result of a verification.
#[derive(Debug, Default)]
pub struct Report {
    /// All problems; for each dataset first its own files, then shards in order.
    pub problems: Vec<Problem>,
    /// Checks that could not be made although nothing seems wrong, each with its file.
    pub notes: Vec<String>,
    /// Number of samples in the manifests.
    pub samples: u64,
    /// Number of samples that are damaged or missing.
    pub damaged_samples: u64,
    /// Number of intact samples without an image; nonzero for foreign shards only.
    pub without_image: u64,
    /// Images without a decoder, counted by kind: only their headers were checked.
    pub not_decoded: BTreeMap<String, u64>,
    /// Number of shards in the manifests.
    pub shards: u64,
    /// Number of shards with a problem.
    pub damaged_shards: u64,
    /// Some of the damage can be repaired from the source, as far as known without the source.
    pub mendable: bool,
    /// Bytes read from shards.
    pub read_bytes: u64,
    /// Whether the system refused a read, so that some files could not be checked.
    pub is_refused: bool,
    /// Other files in the folders of foreign shards, counted by the reason for ignoring them.
    pub ignored: BTreeMap<String, u64>,
    /// Network transfers, if a URL was verified.
    pub transfers: Option<Transfers>,
    /// Duration of the verification.
    pub elapsed: Duration,
}

impl Report {
    fn add(&mut self, other: Report) {
        self.problems.extend(other.problems);
        self.notes.extend(other.notes);
        self.samples += other.samples;
        self.damaged_samples += other.damaged_samples;
        self.without_image += other.without_image;
        decode::add(&mut self.not_decoded, other.not_decoded);
        self.shards += other.shards;
        self.damaged_shards += other.damaged_shards;
        self.mendable |= other.mendable;
        self.read_bytes += other.read_bytes;
        self.is_refused |= other.is_refused;
        for (reason, files) in other.ignored {
            *self.ignored.entry(reason).or_default() += files;
        }
        self.add_transfers(other.transfers);
    }

    fn add_transfers(&mut self, more: Option<Transfers>) {
        self.transfers = [self.transfers, more].into_iter().flatten().reduce(Transfers::and);
    }

    /// The same report with more network transfers added.
    pub fn with_transfers(mut self, more: Option<Transfers>) -> Self {
        self.add_transfers(more);
        self
    }
}

/// A dataset whose manifest was read.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The dataset's folder.
    pub files: Arc<dyn Storage>,
    /// Path from the verified folder, empty or with a trailing slash: `train/`.
    pub prefix: String,
    pub manifest: Manifest,
    /// Names of the selected shards; `None` for all.
    only: Option<BTreeSet<String>>,
    /// The manifest file, byte for byte.
    bytes: Vec<u8>,
}

impl Opened {
    /// Name of the split. A format folder from a pack to several formats has the format's name and is not a split.
    fn split(&self) -> Option<&str> {
        let folder = self.prefix.strip_suffix('/')?;
        (folder == self.manifest.name || folder != self.manifest.format.name).then_some(folder)
    }

    fn problem(&self, file: &str, what: impl Into<String>) -> Problem {
        Problem { file: format!("{}{file}", self.prefix), what: what.into(), ..Problem::default() }
    }

    /// Fails if images were changed when they were packed: their bytes then differ from the source.
    fn has_bytes_of_source(&self) -> Result<()> {
        let Some(recipe) = &self.manifest.recipe else { return Ok(()) };
        let what =
            format!("its images were changed when they were packed, {recipe}: they differ from those of a source");
        Err(Error::usage(what)
            .in_file(self.files.root())
            .help("verify without SRC checks every byte; pack --force packs anew"))
    }

    /// The selected shards.
    fn meant(&self) -> impl Iterator<Item = &manifest::Shard> {
        let is_meant = |shard: &&manifest::Shard| self.only.as_ref().is_none_or(|only| only.contains(&shard.file));
        self.manifest.shards.iter().filter(is_meant)
    }

    /// The format in the manifest.
    fn format(&self) -> Result<Box<dyn Format>> {
        formats::open(&self.choice()?)
    }

    /// The options this dataset was packed with.
    fn choice(&self) -> Result<Choice> {
        Choice::of_manifest(&self.manifest)
    }
}

/// Opens the datasets of `dst`: itself, or its splits. Unreadable manifests are returned as problems.
///
/// # Errors
/// If there is no dataset.
pub(crate) fn open(files: &Arc<dyn Storage>) -> Result<(Vec<Opened>, Vec<Problem>)> {
    if let Some(dst) = files.local()
        && let Some(folder) = unfinished(dst)?
        && (is_unfinished(dst)? || !sys::exists(&dst.join(manifest::FILE))?)
    {
        return Err(Error::new(ErrorKind::Data, "an unfinished pack: it has no manifest yet")
            .in_file(folder.canonicalize().unwrap_or(folder))
            .help(help::FINISH_PACK));
    }
    let is_right = |bytes: &[u8]| Manifest::read(bytes).is_ok();
    let mut found = Vec::new();
    match (files.read_right(manifest::FILE, None, is_right)?, files.local()) {
        (Some(bytes), _) => found.push((Arc::clone(files), String::new(), bytes)),
        (None, local) => {
            for name in local.map_or_else(|| split_names(files), split_folders)? {
                let folder = files.folder(&name)?;
                // A split that is in the record but missing is reported with the record.
                if let Some(bytes) = folder.read_right(manifest::FILE, None, is_right)? {
                    found.push((folder, name + "/", bytes));
                }
            }
        }
    }
    let (mut opened, mut problems) = (Vec::new(), Vec::new());
    for (files, prefix, bytes) in found {
        match Manifest::read(&bytes) {
            Ok(manifest) => opened.push(Opened { files, prefix, manifest, only: None, bytes }),
            Err(error) => problems.push(from_error(format!("{prefix}{}", manifest::FILE), &error)),
        }
    }
    Ok((opened, problems))
}

/// Names of the splits in the record at a URL; without a record, of the folders of a pack to several formats.
fn split_names(files: &Arc<dyn Storage>) -> Result<Vec<String>> {
    let Some(bytes) = files.read_right(splits::FILE, None, |bytes| Record::read(bytes).is_ok())? else {
        let formats = format_folders(files.as_ref())?;
        if !formats.is_empty() {
            return Ok(formats);
        }
        let what = format!("no dataset: there is neither {} nor {}", manifest::FILE, splits::FILE);
        let error = Error::usage(what).in_file(files.root());
        return Err(error.help(help::URL_OF_FOLDER));
    };
    let record = Record::read(&bytes).map_err(|error| error.in_file(files.path_of(splits::FILE)))?;
    Ok(record.splits.into_iter().map(|split| split.name).collect())
}

/// Folders in `dst` that have a manifest.
fn split_folders(dst: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(dst).map_err(|e| sys::io_error("cannot read folder", dst, e))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| sys::io_error("cannot read folder", dst, e))?.path();
        if sys::exists(&path.join(manifest::FILE))? {
            folders.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    folders.sort();
    match folders.is_empty() && !sys::exists(&dst.join(splits::FILE))? {
        true => Err(Error::usage("no manifest.json in here, nor shards")
            .in_file(dst)
            .help("give the folder that `shardpack pack` wrote, or shards: tar, TFRecord, RecordIO or MDS files")),
        false => Ok(folders),
    }
}

fn from_error(file: String, error: &Error) -> Problem {
    let bytes = error.location().byte.map(|byte| byte..byte);
    Problem { file, bytes, what: error.what(), ..Problem::default() }
}

/// Verifies the dataset in `dst`, or its splits.
///
/// # Errors
/// If there is no dataset, or the machine fails. Damage is in the report.
pub fn verify(dst: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    let start = Instant::now();
    options.check()?;
    let files = shardpack_storage::open(dst, &options.store)?;
    let options = &options.for_files(&files);
    let (mut datasets, problems) = open(&files)?;
    if let Some(part) = options.part {
        keep_part(&mut datasets, part);
    }
    let is_first = options.part.is_none_or(|part| part.number == 1);
    let mut report = Report { problems, ..Report::default() };
    if is_first && !is_one(&files, &datasets, &report)? {
        strangers_beside_splits(&files, &datasets, &mut report)?;
        check_splits(&files, &datasets, &mut report)?;
    }
    let folders = datasets.iter().map(|dataset| &dataset.files).chain([&files]).filter_map(|files| files.local());
    for folder in folders.collect::<BTreeSet<_>>() {
        if !is_to_be_replaced(folder)? {
            continue;
        }
        report.notes.push(format!(
            "{}: a pack to replace this dataset was begun and has changed none of its files; the same pack command \
             resumes, and the folder can be removed if no pack runs",
            text::path(&folder.join(WORK_FOLDER))
        ));
    }
    let meant = || datasets.iter().flat_map(Opened::meant);
    monitor.begin(Phase::Verifying, meant().map(|shard| shard.samples).sum(), meant().map(|shard| shard.bytes).sum());
    for dataset in &datasets {
        report.add(dataset_report(dataset, options, monitor)?);
    }
    let mut notes = BTreeSet::new();
    report.notes.retain(|note| notes.insert(note.clone()));
    if let Some(source) = &options.against {
        report.problems.extend(against::compare(&datasets, source, options, monitor)?);
    }
    let of_source = options.against.as_ref().and_then(|source| source.transfers());
    report.add_transfers(files.transfers());
    report.add_transfers(of_source);
    report.elapsed = start.elapsed();
    Ok(report)
}

/// Whether this is a single dataset and not a folder of splits; its manifest may be damaged.
fn is_one(files: &Arc<dyn Storage>, datasets: &[Opened], report: &Report) -> Result<bool> {
    match files.local() {
        Some(dst) => sys::exists(&dst.join(manifest::FILE)),
        None => Ok(datasets.iter().all(|dataset| dataset.prefix.is_empty())
            && report.problems.iter().all(|problem| problem.file == manifest::FILE)),
    }
}

/// Checks that the splits in `dst` match the splits record, or the manifests if there is no record.
fn check_splits(files: &Arc<dyn Storage>, datasets: &[Opened], report: &mut Report) -> Result<()> {
    let is_right = |bytes: &[u8]| Record::read(bytes).is_ok();
    let record = match files.read_right(splits::FILE, None, is_right)?.map(|bytes| Record::read(&bytes)) {
        None => None,
        Some(Ok(record)) => Some(record),
        Some(Err(error)) => {
            let problem = from_error(splits::FILE.to_owned(), &error);
            report.problems.push(Problem { help: error.help_text().map(str::to_owned), ..problem });
            return Ok(());
        }
    };
    if record.is_none() && datasets.iter().any(|dataset| dataset.split() == Some(&dataset.manifest.name)) {
        report.notes.push(format!(
            "{}: missing: whether a split is lost cannot be determined; the same pack command writes it",
            splits::FILE
        ));
    }
    for file in record.iter().flat_map(|record| &record.files) {
        if let Some(what) = wrong_file(files.as_ref(), file, splits::FILE)? {
            report.problems.push(Problem { file: file.file.clone(), what, ..Problem::default() });
        }
    }
    let folder = |problem: &Problem| problem.file.split_once('/').map(|(folder, _)| folder.to_owned());
    // If a manifest cannot be read, only its folder is known.
    let damaged: Vec<String> = report.problems.iter().filter_map(folder).collect();
    let found = datasets.iter().map(|dataset| (dataset.prefix.trim_end_matches('/'), dataset.bytes.as_slice()));
    let found = found.chain(damaged.iter().map(|folder| (folder.as_str(), &[][..])));
    for difference in split_differences(record.as_ref(), found) {
        let Difference { folder: file, what, help } = difference;
        let lost = record.iter().flat_map(|record| &record.splits).find(|split| split.name == file);
        if let Some(lost) = lost
            && datasets.iter().all(|dataset| dataset.prefix.trim_end_matches('/') != lost.name)
            && !damaged.contains(&lost.name)
        {
            report.samples += lost.samples;
            report.damaged_samples += lost.samples;
        }
        report.problems.push(Problem { file, what, help: Some(help), ..Problem::default() });
    }
    Ok(())
}

fn dataset_report(dataset: &Opened, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    let manifest = &dataset.manifest;
    let mut report = Report {
        samples: dataset.meant().map(|shard| shard.samples).sum(),
        shards: dataset.meant().count() as u64,
        ..Report::default()
    };
    if let Err(error) = manifest.check_id(&dataset.bytes) {
        report.problems.push(from_error(format!("{}{}", dataset.prefix, manifest::FILE), &error));
    }
    let is_believed = report.problems.is_empty();
    let is_first = options.part.is_none_or(|part| part.number == 1);
    let sums = if is_first { check_sums(dataset)? } else { None };
    let sidecars = check_sidecars(dataset, options)?;
    let mut mends = sums.is_some() || !sidecars.is_empty();
    report.problems.extend(sums);
    if is_first {
        report.problems.extend(check_ledger(dataset)?);
    }
    report.problems.extend(sidecars);
    if is_first {
        strangers(dataset, &mut report)?;
    }
    let (tables, read) = check_crops(dataset, options)?;
    report.add_transfers(read);
    mends |= !tables.is_empty();
    report.problems.extend(tables);
    let before = report.problems.len();
    let can_write = match dataset.format() {
        Ok(format) => {
            shard::verify_all(dataset, format.as_ref(), options, monitor, &mut report)?;
            format.is_written()
        }
        Err(error) => {
            report.problems.push(dataset.problem(manifest::FILE, error.what()));
            false
        }
    };
    let is_of_shard = |problem: &Problem| !problem.was_packed && !problem.file.ends_with(manifest::FILE);
    mends |= report.problems.iter().skip(before).any(is_of_shard);
    report.mendable = mends && is_believed && can_write && manifest.recipe.is_none() && !dataset.files.is_read_only();
    Ok(report)
}

/// Checks that `BLAKE3SUMS` matches the manifest.
fn check_sums(dataset: &Opened) -> Result<Option<Problem>> {
    let expected = dataset.manifest.sums();
    let found = dataset
        .files
        .read_right(manifest::SUMS_FILE, Some(expected.len() as u64), |found| found == expected.as_bytes())?;
    Ok(match found {
        None => Some(dataset.problem(manifest::SUMS_FILE, "missing")),
        Some(found) if found != expected.as_bytes() => {
            let at = found.iter().zip(expected.as_bytes()).take_while(|(a, b)| a == b).count() as u64;
            let what = format!("differs from the manifest: {} bytes, expected {}", found.len(), expected.len());
            Some(Problem { bytes: Some(at..at + 1), ..dataset.problem(manifest::SUMS_FILE, what) })
        }
        Some(_) => None,
    })
}

/// Selects the shards of `part` in all datasets.
fn keep_part(datasets: &mut [Opened], part: Part) {
    let bytes = |dataset: &Opened| dataset.manifest.shards.iter().map(|shard| shard.bytes).collect();
    let owners = share_out(part.of, &datasets.iter().map(bytes).collect::<Vec<_>>());
    for (dataset, owners) in datasets.iter_mut().zip(owners) {
        let own = dataset.manifest.shards.iter().zip(owners).filter(|(_, owner)| *owner == part.number);
        dataset.only = Some(own.map(|(shard, _)| shard.file.clone()).collect());
    }
}

/// Reports files in the dataset's folder that are not in the manifest.
fn strangers(dataset: &Opened, report: &mut Report) -> Result<()> {
    let Some(names) = strangers::strangers(dataset.files.as_ref(), &dataset.manifest)? else {
        report.notes.push(NOT_LISTED.to_owned());
        return Ok(());
    };
    for name in names {
        match dataset.files.local().is_none() && name == WORK_FOLDER {
            true => report.notes.push(begun_at_url(&dataset.files)),
            false => report.problems.push(dataset.problem(&name, STRANGER)),
        }
    }
    Ok(())
}

/// The note about the plan or receipts of a pack at a URL, beside a sealed dataset.
fn begun_at_url(files: &Arc<dyn Storage>) -> String {
    format!(
        "{}: a pack was begun here and has not ended; the same pack command resumes it, and the objects can be removed if no \
         pack runs",
        text::path(&files.root().join(WORK_FOLDER))
    )
}

/// Reports entries next to the split folders that are not splits.
fn strangers_beside_splits(files: &Arc<dyn Storage>, datasets: &[Opened], report: &mut Report) -> Result<()> {
    let is_split = |name: &str| {
        let prefix = format!("{name}/");
        datasets.iter().any(|dataset| dataset.prefix == prefix)
            || report.problems.iter().any(|problem| problem.file.starts_with(&prefix))
    };
    let Some(strange) = strangers::beside_splits(files.as_ref(), is_split)? else {
        report.notes.push(NOT_LISTED.to_owned());
        return Ok(());
    };
    for file in strange {
        if files.local().is_none() && file == WORK_FOLDER {
            report.notes.push(begun_at_url(files));
            continue;
        }
        let path = files.local().map(|dst| dst.join(&file));
        let is_pack = |path: PathBuf| Ok(sys::is_folder(&path)? && is_unfinished(&path)?);
        let problem = match path.map_or(Ok(false), is_pack)? {
            true => Problem {
                what: "an unfinished pack".to_owned(),
                help: Some(help::FINISH_PACK.to_owned()),
                ..Problem::default()
            },
            false => Problem { what: STRANGER_BESIDE.to_owned(), ..Problem::default() },
        };
        report.problems.push(Problem { file, ..problem });
    }
    Ok(())
}

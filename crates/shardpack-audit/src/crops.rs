//! Crops writes crop tables beside the indexes of a sealed dataset, and checks existing tables.
//!
//! Holds at all times: shards, indexes and manifest stay unchanged; a table file is absent or complete, even
//! after a crash; its bytes do not depend on the number of threads; every image matches its content hash before
//! its table is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU16,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use shardpack_format::{
    Error, ErrorKind, Result,
    crops::{self as tables, Summary, Table},
    manifest::{self, Manifest},
};
use shardpack_imaging::crops::{NoTable, scan};
use shardpack_reader::{Dataset, Shard, StoreSettings, Transfers};
use shardpack_runtime::{Instant, threads};
use shardpack_storage::Storage;

use crate::{
    monitor::{Monitor, Phase},
    own,
    part::{Part, share_out},
    source::strangers::crop_files,
};

/// Default number of MCUs between two entries of a table: measured, 64 pixels of an image without subsampling,
/// for 2 % of its bytes.
pub const EVERY: NonZeroU16 = NonZeroU16::new(8).expect("8 is not 0");
/// Samples that a thread takes at a time.
const SPAN_SAMPLES: u64 = 64;
/// Minimum number of threads that read from a store: a request takes longer than the work on its data.
const MAX_WAITING: usize = 8;

/// Options for making tables.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// MCUs between two entries of a table.
    pub every: NonZeroU16,
    /// Threads.
    pub jobs: usize,
    /// Make all tables again; otherwise valid files are kept.
    pub force: bool,
    /// Make only the tables of this part of the shards.
    pub part: Option<Part>,
}

/// An image that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Path of its shard, relative to the given folder.
    pub shard: String,
    /// Its key.
    pub key: Vec<u8>,
    /// Its path in the source.
    pub path: Vec<u8>,
    /// The damage; for a file that was kept, without its place.
    pub why: NoTable,
}

/// Result of making tables.
#[derive(Debug, Default)]
pub struct Report {
    /// Samples of all datasets.
    pub samples: u64,
    /// Samples among them that have a table.
    pub tables: u64,
    /// Samples without a table that are not known to be damaged, by reason.
    pub without: BTreeMap<&'static str, u64>,
    /// Damaged images, in the order of the shards.
    pub damaged: Vec<Damaged>,
    /// Shards that cannot be read or differ from the sealed bytes; they have no file.
    pub failed: Vec<(String, Error)>,
    /// Number of shards with a file now.
    pub shards: u64,
    /// Number of shards whose file existed and was valid.
    pub kept_shards: u64,
    /// Length of all tables in bytes.
    pub table_bytes: u64,
    /// Length in bytes of the images of shards with a file.
    pub payload_bytes: u64,
    /// Transfers from and to a URL.
    pub transfers: Option<Transfers>,
    /// Duration of the whole run.
    pub elapsed: Duration,
}

impl Report {
    /// Whether no damage was found.
    pub fn is_right(&self) -> bool {
        self.damaged.is_empty() && self.failed.is_empty()
    }
}

/// Results for the samples of a shard, by row.
type Rows = Vec<(u128, std::result::Result<Vec<u8>, NoTable>)>;

/// Destination of the tables of a dataset.
struct TableTarget {
    files: Arc<dyn Storage>,
    /// The manifest's bytes, if the dataset is at a URL.
    manifest: Vec<u8>,
}

impl TableTarget {
    /// The place beside the indexes of `dataset`.
    fn open(dataset: &Dataset, store: &StoreSettings) -> Result<Self> {
        let files = shardpack_storage::open(dataset.folder(), store)?;
        if files.is_read_only() {
            let error = Error::usage("a web server is only read from").in_file(files.root());
            return Err(error.help("make them in a folder, and copy index/*.crops to the web server"));
        }
        if files.local().is_some() {
            return Ok(Self { files, manifest: Vec::new() });
        }
        let is_same = |bytes: &[u8]| Manifest::read(bytes).is_ok_and(|found| found.id == dataset.manifest().id);
        match files.read_right(manifest::FILE, None, is_same)?.filter(|bytes| is_same(bytes)) {
            Some(manifest) => Ok(Self { files, manifest }),
            None => Err(replaced(&files)),
        }
    }

    /// Writes the file of a shard, completely or not at all.
    fn put(&self, shard: &Shard<'_>, bytes: Vec<u8>) -> Result<()> {
        // Another dataset may have replaced this one in the meantime: nothing is written beside its files.
        if self.files.local().is_none() && !self.files.is_still(manifest::FILE, &self.manifest)? {
            return Err(replaced(&self.files));
        }
        let [name, _] = crop_files(&shard.entry().index.file);
        self.files.put(&name, bytes)
    }

    /// Makes the names of the written files durable.
    fn close(&self) -> Result<()> {
        self.files.sync(manifest::INDEX_FOLDER)
    }
}

fn replaced(files: &Arc<dyn Storage>) -> Error {
    Error::usage("was replaced while its crop tables were made").in_file(files.root())
}

/// Makes the tables of the dataset in `dst`, or of its splits. `dst` is a folder or a URL, `store` has settings
/// of its store. Files that an interrupted run has finished are kept.
///
/// # Errors
/// If there is no dataset, the dataset is read-only, or on I/O errors. Damage is in the report.
pub fn make(dst: &Path, store: &StoreSettings, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    let start = Instant::now();
    let datasets = Dataset::open_all_with(dst, store)?;
    let datasets: Vec<Dataset> = datasets.into_iter().map(|dataset| dataset.check_content(true)).collect();
    // The tables of a split go into its folder, which must be inside the dataset.
    datasets.iter().filter(|dataset| dataset.folder() != dst).try_for_each(|dataset| own::no_link(dataset.folder()))?;
    let places = datasets.iter().map(|dataset| TableTarget::open(dataset, store)).collect::<Result<Vec<_>>>()?;
    let of_part = own_shards(&datasets, options.part);
    let shards = || {
        datasets
            .iter()
            .zip(&of_part)
            .flat_map(|(dataset, own)| own.iter().map(|shard| &dataset.manifest().shards[*shard]))
    };
    let samples = shards().map(|shard| shard.samples).sum();
    monitor.begin(Phase::Scanning, samples, shards().map(|shard| shard.bytes).sum());
    let mut report = Report { samples, ..Report::default() };
    for ((dataset, place), own) in datasets.iter().zip(&places).zip(&of_part) {
        let folder = dataset.folder();
        let prefix = folder.strip_prefix(dst).map(Path::to_path_buf).unwrap_or_default();
        for (_, shard) in dataset.shards().enumerate().filter(|(number, _)| own.contains(number)) {
            let name = prefix.join(&shard.entry().file).to_string_lossy().into_owned();
            one(&shard, &name, place, options, monitor, &mut report)?;
        }
        place.close()?;
    }
    let read = datasets.iter().filter_map(Dataset::transfers);
    report.transfers = read.chain(places.iter().filter_map(|place| place.files.transfers())).reduce(Transfers::and);
    report.elapsed = start.elapsed();
    Ok(report)
}

/// The numbers of the shards whose tables are made, for each dataset.
fn own_shards(datasets: &[Dataset], part: Option<Part>) -> Vec<BTreeSet<usize>> {
    let bytes = |dataset: &Dataset| dataset.manifest().shards.iter().map(|shard| shard.bytes).collect();
    let bytes: Vec<Vec<u64>> = datasets.iter().map(bytes).collect();
    let Some(part) = part else { return bytes.iter().map(|shards| (0..shards.len()).collect()).collect() };
    let own = |owners: Vec<u32>| {
        owners.iter().enumerate().filter(|(_, owner)| **owner == part.number).map(|(shard, _)| shard).collect()
    };
    share_out(part.of, &bytes).into_iter().map(own).collect()
}

/// Makes the file of a shard, or keeps the existing one.
fn one(
    shard: &Shard<'_>,
    name: &str,
    place: &TableTarget,
    options: &Options,
    monitor: &dyn Monitor,
    report: &mut Report,
) -> Result<()> {
    let is_of_data = |error: &Error| error.kind() == ErrorKind::Data;
    let kept = if options.force { Ok(None) } else { kept(shard, options.every) };
    let rows = match kept {
        Ok(Some(rows)) => {
            monitor.recall(shard.len(), shard.entry().bytes);
            report.kept_shards += 1;
            rows
        }
        // Damaged, of another dataset, or with other distances: made again.
        Err(error) if !is_of_data(&error) => return Err(error),
        _ => match make_rows(shard, options, monitor) {
            Ok(rows) => {
                place.put(shard, file_of(shard, options, &rows))?;
                rows
            }
            Err(error) if is_of_data(&error) => {
                report.failed.push((name.to_owned(), error));
                return Ok(());
            }
            Err(error) => return Err(error),
        },
    };
    report.shards += 1;
    for (row, (_, table)) in (0..).zip(rows) {
        report.payload_bytes += u64::from(shard.row(row)?.content_bytes(0).unwrap_or(0));
        match table {
            Ok(table) => {
                report.tables += 1;
                report.table_bytes += table.len() as u64;
            }
            Err(why) if why.is_damage() => {
                let row = shard.row(row)?;
                let (key, path) = (row.key.to_vec(), row.path.to_vec());
                report.damaged.push(Damaged { shard: name.to_owned(), key, path, why });
            }
            Err(why) => *report.without.entry(why.name()).or_default() += 1,
        }
    }
    Ok(())
}

/// Rows of the existing file of a shard; `None` if it is missing, or has entries at other distances.
fn kept(shard: &Shard<'_>, every: NonZeroU16) -> Result<Option<Rows>> {
    let Some(crops) = shard.crops()? else { return Ok(None) };
    if crops.summary().every != u32::from(every.get()) {
        return Ok(None);
    }
    let mut rows = Rows::with_capacity(usize::try_from(shard.len()).unwrap_or(0));
    for row in 0..shard.len() {
        let content_hash = shard.row(row)?.content_hash;
        let table = match shard.crop_table(row)? {
            Some(Ok(table)) => Ok(table.to_vec()),
            // This version does not know the reasons of later versions.
            Some(Err(code)) => match NoTable::of_code(code) {
                Some(why) => Err(why),
                None => return Ok(None),
            },
            None => return Ok(None),
        };
        rows.push((content_hash, table));
    }
    Ok(Some(rows))
}

/// Scans the images of a shard with all threads.
fn make_rows(shard: &Shard<'_>, options: &Options, monitor: &dyn Monitor) -> Result<Rows> {
    let samples = shard.samples();
    let (next, failed) = (AtomicU64::new(samples.start), Mutex::new(None::<(u64, Error)>));
    let spans = Mutex::new(BTreeMap::<u64, Rows>::new());
    let span = |start: u64| -> Result<Rows> {
        let end = (start + SPAN_SAMPLES).min(samples.end);
        let mut reader = shard.dataset().reader(start..end)?.check_content(true);
        let mut rows = Rows::with_capacity((end - start) as usize);
        while let Some(sample) = reader.next()? {
            let content_hash = sample.row().content_hash;
            rows.push((content_hash, scan(sample.bytes(), options.every)));
            monitor.advance(1, u64::from(sample.row().record_bytes));
        }
        Ok(rows)
    };
    let work = || {
        loop {
            let start = next.fetch_add(SPAN_SAMPLES, Ordering::Relaxed);
            if start >= samples.end {
                return;
            }
            match monitor.check_cancelled().and_then(|()| span(start)) {
                Ok(rows) => drop(spans.lock().unwrap_or_else(PoisonError::into_inner).insert(start, rows)),
                Err(error) => {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    // Of several errors, the first in the shard, so that the result is as reproducible as
                    // possible.
                    if failed.as_ref().is_none_or(|(at, _)| start < *at) {
                        *failed = Some((start, error));
                    }
                    next.store(samples.end, Ordering::Relaxed);
                    return;
                }
            }
        }
    };
    let spans_of_shard = samples.end.saturating_sub(samples.start).div_ceil(SPAN_SAMPLES) as usize;
    let waiting = shard.dataset().access().reads.min(MAX_WAITING);
    threads::each(options.jobs.max(waiting).min(spans_of_shard.max(1)), work);
    if let Some((_, error)) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    Ok(spans.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().flatten().collect())
}

/// The bytes of the file of a shard.
fn file_of(shard: &Shard<'_>, options: &Options, rows: &Rows) -> Vec<u8> {
    let rows: Vec<(u128, Table<&[u8]>)> =
        rows.iter().map(|(hash, table)| (*hash, table.as_ref().map(Vec::as_slice).map_err(NoTable::code))).collect();
    let dataset = shard.dataset().manifest().id.0;
    let summary = Summary { every: options.every.get().into(), shard_blake3: shard.entry().blake3.0, dataset };
    tables::write(&summary, &rows)
}

/// Makes the given table files of the dataset's shards again and passes them to `put`. Returns for each file
/// whether it failed.
///
/// # Errors
/// On I/O errors, and errors of `put`.
pub(crate) fn mend(
    dataset: &Dataset,
    damaged: &[&str],
    jobs: usize,
    monitor: &dyn Monitor,
    put: impl Fn(&str, &[u8]) -> Result<()>,
) -> Result<Vec<(String, Option<Error>)>> {
    // As in the valid files, so that all files have the same distance.
    let every = dataset.shards().find_map(|shard| shard.crops().ok()??.summary().every.try_into().ok());
    let options = Options { every: every.and_then(NonZeroU16::new).unwrap_or(EVERY), jobs, force: true, part: None };
    let mut done = Vec::new();
    for shard in dataset.shards() {
        let [name, _] = crop_files(&shard.entry().index.file);
        if !damaged.contains(&name.as_str()) {
            continue;
        }
        let made = make_rows(&shard, &options, monitor);
        match made {
            Ok(rows) => {
                put(&name, &file_of(&shard, &options, &rows))?;
                done.push((name, None));
            }
            Err(error) if error.kind() == ErrorKind::Data => done.push((name, Some(error))),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Checks the tables of a shard, if there are any, and returns the problem. With `is_quick`, rows are not
/// checked.
///
/// # Errors
/// On I/O errors.
pub(crate) fn check(shard: &Shard<'_>, is_quick: bool) -> Result<Option<Error>> {
    let all = || {
        let Some(_) = shard.crops()? else { return Ok(()) };
        // Problems of the index are reported for the index.
        let rows = if is_quick || shard.index().is_err() { 0 } else { shard.len() };
        (0..rows).filter(|row| shard.row(*row).is_ok()).try_for_each(|row| shard.crop_table(row).map(|_| ()))
    };
    match all() {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Data => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

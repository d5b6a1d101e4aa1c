//! Repairs damaged files from the source. A new file is written next to the damaged one and replaces it only if its hash matches the
//! manifest.
//!
//! With a correct index, only the damaged records are read from the source. Otherwise the whole shard and its index are packed again
//! with the same plan and engine. An object cannot be changed in part: it is made in a local folder and uploaded whole.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::File,
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::{self, Format},
    hash, help,
    index::{Index, RowRef},
    manifest, permutation, regular, size,
};
use shardpack_reader::{Dataset, Transfers};
use shardpack_storage::{Local, OpenFile, Storage};

use super::{
    Opened, Problem, Report,
    against::{self, Original},
    dataset_report, open, repair_beside,
    repair_target::{Remote, RepairTarget},
    shard::in_order,
    verify,
};
use crate::{
    copy::{self, Copy, OnBad},
    crops,
    ledger::{self, Fate},
    monitor::{Monitor, Phase, Silent},
    own,
    parallel::each,
    plan::{Check, Compression, Cut, Options, Order, Plan},
    sidecars,
    source::{
        Refusal, SharedSource, Source, SourceListing, list,
        storage::{NETWORK_READS, ReadOrder, stream_threads},
    },
    sys,
};

/// Memory for the images of a shard that is packed again, in bytes.
const MEMORY_BYTES: u64 = 1 << 30;
/// Maximum length in bytes, and maximum number, of records made in one parallel batch.
const BATCH_BYTES: u64 = 32 << 20;
const BATCH_RECORDS: u64 = 4096;
/// Number of pieces of an object read in parallel, and their length in bytes.
const PIECES: usize = 8;
const PIECE_BYTES: u64 = 8 << 20;
/// Message for a file whose new content differs from the packed one.
const DIFFERS: &str = "the file made from the source is not the packed one: its BLAKE3 differs";

/// Advice if the source alone is not enough.
pub(super) const ANEW: &str = help::COPY_OR_PACK;

/// Result of a repair.
#[derive(Debug, Default)]
pub struct Repaired {
    /// Files that were written again.
    pub files: Vec<String>,
    /// Files that could not be repaired, each with the reason.
    pub failed: Vec<(String, String)>,
    /// At a URL: names of objects with uploaded parts from an earlier run that the store refuses to abort.
    pub left_uploads: Vec<String>,
    /// Network transfers for crop tables and the data they are made from.
    transfers: Option<Transfers>,
}

impl Repaired {
    fn add_transfers(&mut self, more: Option<Transfers>) {
        self.transfers = [self.transfers, more].into_iter().flatten().reduce(Transfers::and);
    }
}

/// Verifies, repairs damage from `source`, and verifies again.
///
/// # Errors
/// As [`verify`]; also if the destination cannot be written to.
pub fn repair(
    dst: &Path,
    source: &SharedSource,
    options: &super::Options,
    monitor: &dyn Monitor,
) -> Result<(Report, Repaired)> {
    let files = shardpack_storage::open(dst, &options.store)?;
    let (datasets, _) = open(&files)?;
    for dataset in datasets.iter().filter(|dataset| !dataset.prefix.is_empty()) {
        own::no_link(&dst.join(dataset.prefix.trim_end_matches('/')))?;
    }
    let remote = Remote::open(&files, options)?;
    let mut repaired = Repaired::default();
    let mended = datasets.iter().try_for_each(|dataset| {
        repair_one(dataset, source, remote.as_ref(), &options.for_files(&files), monitor, &mut repaired)
    });
    let mended = mended.and_then(|()| repair_beside::mend(&files, &mut repaired));
    let mut taken = vec![files.transfers(), source.transfers(), repaired.transfers];
    match remote {
        None => mended?,
        Some(remote) => {
            taken.push(remote.transfers());
            repaired.left_uploads = remote.close(mended)?;
        }
    }
    let mut report = verify(dst, options, monitor)?;
    report.transfers = taken.into_iter().chain([report.transfers]).flatten().reduce(Transfers::and);
    Ok((report, repaired))
}

/// Repairs one dataset, without the second verification.
fn repair_one(
    dataset: &Opened,
    source: &SharedSource,
    remote: Option<&Remote>,
    options: &super::Options,
    monitor: &dyn Monitor,
    repaired: &mut Repaired,
) -> Result<()> {
    // The damage may be in the hashes of other files: such a manifest would cause good files to be rewritten.
    if let Err(error) = dataset.manifest.check_id(&dataset.bytes) {
        let why = format!("{}; nothing can be mended with it: {}", error.what(), ANEW);
        repaired.failed.push((format!("{}{}", dataset.prefix, manifest::FILE), why));
        return Ok(());
    }
    let found = dataset_report(dataset, options, monitor)?;
    repaired.add_transfers(found.transfers);
    let tables = format!(".{}", shardpack_format::crops::EXTENSION);
    let is_of_tables = |problem: &Problem| problem.file.ends_with(&tables);
    let (of_tables, others): (Vec<_>, Vec<_>) = found.problems.into_iter().partition(is_of_tables);
    if of_tables.is_empty() && others.is_empty() {
        return Ok(());
    }
    let place = RepairTarget::open(dataset, remote, monitor)?;
    let mended = mend(dataset, &others, source, &place, options, monitor, repaired).and_then(|()| {
        // Crop tables are made from the repaired shards and need no source.
        let damaged: Vec<&str> = of_tables.iter().filter_map(|p| p.file.strip_prefix(&dataset.prefix)).collect();
        if damaged.is_empty() {
            return Ok(());
        }
        let opened = Dataset::open_with(dataset.files.root(), &options.store)?;
        let put = |name: &str, bytes: &[u8]| place.put_bytes(name, bytes);
        for (name, done) in crops::mend(&opened, &damaged, options.jobs, monitor, put)? {
            let name = format!("{}{name}", dataset.prefix);
            match done {
                None => repaired.files.push(name),
                Some(why) => repaired.failed.push((name, why.to_string())),
            }
        }
        repaired.add_transfers(opened.transfers());
        Ok(())
    });
    let closed = place.close();
    mended.and(closed)
}

/// Repairs the files in `problems`.
fn mend(
    dataset: &Opened,
    problems: &[Problem],
    source: &SharedSource,
    place: &RepairTarget<'_>,
    options: &super::Options,
    monitor: &dyn Monitor,
    repaired: &mut Repaired,
) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    dataset.has_bytes_of_source()?;
    let source = against::as_read(Some(dataset), source)?;
    let source = source.as_ref();
    Repair { dataset, place, work: place.work(), source, jobs: options.jobs, monitor }.all(problems, repaired)
}

struct Repair<'r> {
    dataset: &'r Opened,
    place: &'r RepairTarget<'r>,
    work: &'r Path,
    source: &'r dyn Source,
    jobs: usize,
    monitor: &'r dyn Monitor,
}

impl Repair<'_> {
    fn all(&self, problems: &[Problem], repaired: &mut Repaired) -> Result<()> {
        let dataset = self.dataset;
        let named: BTreeSet<&str> = problems.iter().filter_map(|p| p.file.strip_prefix(&dataset.prefix)).collect();
        let name = |file: &str| format!("{}{file}", dataset.prefix);
        if named.contains(manifest::SUMS_FILE) {
            self.place.put_bytes(manifest::SUMS_FILE, dataset.manifest.sums().as_bytes())?;
            repaired.files.push(name(manifest::SUMS_FILE));
        }
        if named.contains(manifest::LEDGER_FILE) {
            repaired.failed.push((name(manifest::LEDGER_FILE), ANEW.to_owned()));
        }
        let damaged =
            |shard: &manifest::Shard| (named.contains(shard.file.as_str()), named.contains(shard.index.file.as_str()));
        let shards = dataset.manifest.shards.iter().enumerate();
        let todo: Vec<_> = shards.filter(|(_, shard)| damaged(shard) != (false, false)).collect();
        let found = if todo.is_empty() { SourceListing::default() } else { self.discover()? };
        let damaged_sidecars = dataset.manifest.sidecars.iter().map(|sidecar| sidecar.file.as_str());
        let damaged_sidecars: BTreeSet<&str> = damaged_sidecars.filter(|sidecar| named.contains(sidecar)).collect();
        if self.place.remote().is_some() {
            let one = todo.iter().map(|(_, shard)| shard.bytes + shard.index.bytes).max().unwrap_or(0);
            let unpacked =
                if todo.is_empty() { 0 } else { self.source.unpacked_bytes(self.split(), &found.listing)? };
            let indexes = dataset.manifest.shards.iter().map(|shard| shard.index.bytes).sum();
            self.place.check_space(one + unpacked + if damaged_sidecars.is_empty() { 0 } else { indexes })?;
        }
        let from = match todo.is_empty() {
            true => None,
            false => Some(self.source.open(self.split(), &found.listing, Some(self.work), self.monitor)?),
        };
        let original = from.as_deref().map(|reader| Original::new(dataset, &found, reader));
        if !todo.is_empty() {
            self.monitor.begin(Phase::Mending, 0, todo.iter().map(|(_, shard)| shard.bytes).sum());
        }
        for (number, shard) in todo {
            let Some(original) = &original else { break };
            let (bad_shard, bad_index) = damaged(shard);
            let plain = dataset.manifest.format.compression == "none";
            let made = match self.index(shard)? {
                Some(index) if plain && !bad_index => self.patch(shard, &index, original),
                _ => self.rebuild(number, shard, original),
            };
            let index = &shard.index;
            match made {
                Ok(()) => {
                    if bad_shard {
                        self.place.put(&shard.file, shard.bytes, &shard.blake3.0)?;
                        repaired.files.push(name(&shard.file));
                    }
                    if bad_index {
                        self.place.put(&index.file, index.bytes, &index.blake3.0)?;
                        repaired.files.push(name(&index.file));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Data => {
                    let file = if bad_shard { &shard.file } else { &index.file };
                    repaired.failed.push((name(file), error.to_string()));
                }
                Err(error) => return Err(error),
            }
            [&shard.file, &index.file].into_iter().try_for_each(|file| sys::remove_file(&self.work.join(file)))?;
            self.monitor.advance(shard.samples, shard.bytes);
        }
        match damaged_sidecars.is_empty() {
            true => Ok(()),
            false => self.sidecars(&damaged_sidecars, repaired),
        }
    }

    /// Makes sidecars again: they depend only on shards, indexes and manifest.
    fn sidecars(&self, damaged: &BTreeSet<&str>, repaired: &mut Repaired) -> Result<()> {
        let dataset = self.dataset;
        let (format, manifest) = (dataset.format()?, &dataset.manifest);
        let name = |file: &str| format!("{}{file}", dataset.prefix);
        let parts = own::folder(self.work, "parts")?;
        if let Some(remote) = self.place.remote() {
            own::folder(self.work, manifest::INDEX_FOLDER)?;
            each(&manifest.shards, NETWORK_READS, |shard| {
                self.monitor.check_cancelled()?;
                let is_right = |bytes: &[u8]| hash::file(bytes) == shard.index.blake3.0;
                let bytes = remote.read_right(&shard.index.file, Some(shard.index.bytes), is_right)?;
                // Without a correct index, no sidecar can be made from it.
                let Some(bytes) = bytes.filter(|bytes| is_right(bytes)) else { return Ok(()) };
                let path = self.work.join(&shard.index.file);
                own::write(&path, &bytes)
            })?;
        }
        let (mut mended, mut why) = (BTreeSet::new(), None);
        for kind in formats::entry(format.name())?.sidecars {
            let writer = sidecars::Writer {
                format: format.as_ref(),
                names: &[kind.name],
                only: Some(damaged),
                hashes: BTreeMap::new(),
                dst: if self.place.remote().is_some() { self.work } else { dataset.files.root() },
                storage: self.place.remote().unwrap_or(dataset.files.as_ref()),
                work: &parts,
            };
            let files = match writer.write(manifest) {
                Ok(files) => files,
                // It may be a sidecar that the dataset does not have.
                Err(error) => {
                    why = Some(error.to_string());
                    continue;
                }
            };
            for file in files {
                // In a local folder the file is already in place; the final verification checks it.
                let is_sent = self.place.remote().is_some();
                if is_sent && !manifest.sidecars.contains(&file) {
                    why = Some("the file made from the indexes is not the packed one: its BLAKE3 differs".to_owned());
                    continue;
                }
                if let Some(remote) = self.place.remote()
                    && sidecars::is_foreign_in(remote, &file.file)?
                {
                    why = Some(sidecars::foreign(&remote.path_of(&file.file)).to_string());
                    continue;
                }
                if is_sent {
                    self.place.put(&file.file, file.bytes, &file.blake3.0)?;
                }
                mended.insert(file.file);
            }
        }
        let why = why.unwrap_or_else(|| "no index or manifest can rebuild it".to_owned());
        let lost = damaged.iter().filter(|sidecar| !mended.contains(**sidecar));
        repaired.failed.extend(lost.map(|sidecar| (name(sidecar), why.clone())));
        repaired.files.extend(mended.iter().map(|file| name(file)));
        Ok(())
    }

    fn discover(&self) -> Result<SourceListing> {
        let found = against::discover(&[self.dataset], self.source, self.jobs, self.monitor)?;
        let found = found.into_iter().find(|found| found.split.as_deref() == self.split());
        let mut found =
            found.ok_or_else(|| Error::usage("the source does not have this split").in_file(self.source.path()))?;
        // The ledger lists filtered samples; the original filter is not recorded.
        let is_right = |lines: &[u8]| ledger::read(lines).is_ok();
        let lines = self.dataset.files.read_right(manifest::LEDGER_FILE, None, is_right)?.unwrap_or_default();
        let lines = ledger::read(&lines).unwrap_or_default().into_iter().filter(|line| {
            // Samples that could not be packed were part of the plan.
            matches!(line.fate, Fate::Filtered | Fate::Duplicate) && !list::is_same_line(line)
        });
        let left_out: HashSet<Vec<u8>> = lines.map(|line| line.path).collect();
        if !left_out.is_empty() {
            found.listing = Arc::new(found.listing.filtered(|path| !left_out.contains(path)));
        }
        Ok(found)
    }

    /// Name of the dataset's split.
    fn split(&self) -> Option<&str> {
        against::split_of(self.dataset, self.source)
    }

    fn index(&self, shard: &manifest::Shard) -> Result<Option<Index<Vec<u8>>>> {
        let is_right = |bytes: &[u8]| hash::file(bytes) == shard.index.blake3.0;
        let bytes = self.dataset.files.read_right(&shard.index.file, Some(shard.index.bytes), is_right)?;
        Ok(bytes.filter(|bytes| is_right(bytes)).and_then(|bytes| Index::open(bytes).ok()))
    }

    /// Number of threads that make records from the source.
    fn threads(&self) -> usize {
        stream_threads(self.source.read_at(), self.jobs)
    }

    /// Makes a shard: takes each record from the damaged file if it is right, else from the source.
    fn patch(&self, shard: &manifest::Shard, index: &Index<Vec<u8>>, original: &Original<'_>) -> Result<()> {
        let format = self.dataset.format()?;
        let made = self.work.join(&shard.file);
        let mut new = own::create(&made)?;
        let old = self.old(shard, &made, &new)?;
        let mut hasher = blake3::Hasher::new();
        let mut put = |bytes: &[u8]| {
            hasher.update(bytes);
            new.write_all(bytes).map_err(|e| sys::io_error("cannot write", &made, e))
        };
        let head = copy::head_of(format.as_ref(), index)?;
        put(&head)?;
        let (mut end, mut next) = (head.len() as u64, 0);
        while next < index.len() {
            let (first, mut batch_bytes) = (next, 0);
            while next < index.len() && batch_bytes < BATCH_BYTES && next - first < BATCH_RECORDS {
                batch_bytes += u64::from(index.row(next)?.record_bytes);
                next += 1;
            }
            // The whole batch is read before any record is written: the old bytes can be in the same file, at the same offsets.
            let records = in_order((next - first) as usize, self.threads(), |at| {
                self.monitor.check_cancelled()?;
                match record(&index.row(first + at as u64)?, old.as_ref(), original, format.as_ref()) {
                    // Reports the first bad record in shard order, not in completion order.
                    Err(error) if error.kind() == ErrorKind::Data => Ok(Err(error)),
                    made => made.map(Ok),
                }
            })?;
            for record in records {
                let record = record?;
                put(&record)?;
                end += record.len() as u64;
            }
        }
        let tail = copy::tail_of(format.as_ref(), index, end)?;
        put(&tail)?;
        if *hasher.finalize().as_bytes() != shard.blake3.0 {
            return Err(Error::data(DIFFERS).in_file(&shard.file));
        }
        // The old file may be longer.
        own::set_length(&new, end + tail.len() as u64).map_err(|e| sys::io_error("cannot write", &made, e))
    }

    /// The existing bytes of a shard. An object is downloaded into `new`, the file `made`; each record is read before it is overwritten.
    fn old(&self, shard: &manifest::Shard, made: &Path, new: &File) -> Result<Option<Old>> {
        let files = &self.dataset.files;
        if let Some(folder) = files.local() {
            return Ok(regular::open(folder.join(&shard.file)).ok().map(|file| Old { file, there: None }));
        }
        let Some(there) = files.open(&shard.file)? else { return Ok(None) };
        let bytes = there.bytes().min(shard.bytes);
        let starts: Vec<u64> = (0..bytes.div_ceil(PIECE_BYTES)).map(|piece| piece * PIECE_BYTES).collect();
        each(&starts, PIECES, |start| {
            self.monitor.check_cancelled()?;
            let mut piece = vec![0; PIECE_BYTES.min(bytes - start) as usize];
            there.read_at(*start, &mut piece)?;
            new.write_all_at(&piece, *start).map_err(|e| sys::io_error("cannot write", made, e))
        })?;
        let file = regular::open(made).map_err(|e| sys::io_error("cannot open", made, e))?;
        Ok(Some(Old { file, there: Some(there) }))
    }

    /// Packs one shard and its index again, by the plan that follows from the manifest.
    fn rebuild(&self, number: usize, shard: &manifest::Shard, original: &Original<'_>) -> Result<()> {
        let mut plan = self.plan(original.found)?;
        plan.held = number..number + 1;
        own::folder(self.work, manifest::INDEX_FOLDER)?;
        let parts = own::folder(self.work, "parts")?;
        let storage = Local::new(self.work).with_work(&parts);
        let copy = Copy {
            plan: &plan,
            source: original.reader,
            dst: self.work,
            storage: storage.as_ref(),
            guard: &|| Ok(()),
            work: &parts,
            shared: &parts,
            hashes: &[],
            read_order: ReadOrder::Plan,
            jobs: self.threads(),
            memory_bytes: MEMORY_BYTES,
            on_bad: OnBad::Error,
            monitor: &Silent,
        };
        let mut outcome = copy.run(BTreeMap::new())?;
        let Some(sealed) = outcome.shards.remove(&number) else {
            let reason = outcome.bad.into_values().next().map_or_else(String::new, |Refusal(reason)| reason);
            return Err(Error::data(format!("an image of the source {reason}")).in_file(&shard.file));
        };
        match sealed.entry == *shard {
            true => Ok(()),
            false => Err(Error::data(DIFFERS).in_file(&shard.file)),
        }
    }

    /// The plan that follows from the manifest: the shards' sample counts give the cuts.
    fn plan(&self, found: &SourceListing) -> Result<Plan> {
        let manifest = &self.dataset.manifest;
        let compression = match manifest.format.compression.strip_prefix("zstd:").map(str::parse) {
            Some(Ok(level)) => Compression::Zstd(level),
            _ => Compression::None,
        };
        let options = Options {
            name: manifest.name.clone(),
            order: if manifest.order.algorithm == permutation::ALGORITHM { Order::Shuffled } else { Order::Source },
            seed: manifest.order.seed,
            cut: Cut::Shards(manifest.shards.len() as u64),
            format: self.dataset.choice()?,
            compression,
            check: Check::default(),
            recipe: None,
        };
        if found.listing.len() != manifest.samples {
            return Err(Error::data(format!(
                "the source has {} now, {} were packed: the order cannot be determined",
                size::counted(found.listing.len(), "image"),
                manifest.samples
            ))
            .in_file(self.source.path()));
        }
        let found =
            SourceListing { split: found.split.clone(), listing: found.listing.clone(), ..SourceListing::default() };
        let counts: Vec<u64> = manifest.shards.iter().map(|shard| shard.samples).collect();
        Plan::with_shards(found, options, &counts, manifest.block_samples)
    }
}

/// The existing bytes of a shard.
struct Old {
    file: File,
    /// The object that the bytes came from.
    there: Option<Box<dyn OpenFile>>,
}

impl Old {
    /// Reads the record of `row` and returns whether it is right. Data from a URL is requested again if it is wrong.
    fn read(&self, format: &dyn Format, row: &RowRef<'_>, record: &mut [u8]) -> Result<bool> {
        if self.file.read_exact_at(record, row.offset).is_ok() && against::is_right(format, row, record) {
            return Ok(true);
        }
        let end = row.offset + u64::from(row.record_bytes);
        let Some(there) = self.there.as_ref().filter(|there| end <= there.bytes()) else { return Ok(false) };
        there.read_at(row.offset, record)?;
        Ok(against::is_right(format, row, record))
    }
}

/// The record of `row`: the existing one if it is right, else made from the source.
fn record(row: &RowRef<'_>, old: Option<&Old>, original: &Original<'_>, format: &dyn Format) -> Result<Vec<u8>> {
    let mut record = vec![0; row.record_bytes as usize];
    if !old.map_or(Ok(false), |old| old.read(format, row, &mut record))? {
        original.render_any(row, original.find(row), format, &mut record)?;
    }
    Ok(record)
}

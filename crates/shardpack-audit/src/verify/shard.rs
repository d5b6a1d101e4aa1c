//! Checks one shard against its index and its manifest entry.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::{Choice, Format},
    hash::{self, FileHash},
    index::{Index, RowRef},
    manifest, size,
};
use shardpack_runtime::threads;

use super::{
    Opened, Options, Problem, Report, decode, from_error,
    records::{Checker, Done, Piece, hash_alone},
};
use shardpack_storage::OpenFile;

use crate::monitor::Monitor;

/// Bytes of records in one piece of work.
const SPAN_BYTES: u64 = 8 << 20;

/// A shard, as far as it could be opened.
struct Shard<'a> {
    entry: &'a manifest::Shard,
    /// `None` if the index is unusable; the problems have the reason.
    index: Option<Index<Vec<u8>>>,
    file: Option<Box<dyn OpenFile>>,
    /// Actual length of the file in bytes.
    bytes: u64,
    /// Totals of the rows; `None` if not all rows could be read.
    sums: Option<Sums>,
    problems: Vec<Problem>,
}

/// Totals over the rows of a shard.
#[derive(Default, PartialEq, Eq)]
struct Sums {
    payload_bytes: u64,
    kinds: BTreeMap<String, u64>,
    /// Samples by label, for samples with a label.
    labels: BTreeMap<u64, u64>,
}

impl Sums {
    fn row(&mut self, row: &RowRef<'_>, choice: &Choice) {
        self.payload_bytes += u64::from(row.content_bytes(0).unwrap_or(0));
        *self.kinds.entry(choice.kind_of(&row.image, row.path).into_owned()).or_default() += 1;
        if let Some(label) = row.label {
            *self.labels.entry(label.cast_unsigned()).or_default() += 1;
        }
    }

    fn add(&mut self, other: &Sums) {
        self.payload_bytes += other.payload_bytes;
        other.kinds.iter().for_each(|(kind, samples)| *self.kinds.entry(kind.clone()).or_default() += samples);
        other.labels.iter().for_each(|(label, samples)| *self.labels.entry(*label).or_default() += samples);
    }
}

/// Verifies all selected shards of a dataset and adds the findings to `report` in shard order.
pub(super) fn verify_all(
    dataset: &Opened,
    format: &dyn Format,
    options: &Options,
    monitor: &dyn Monitor,
    report: &mut Report,
) -> Result<()> {
    let is_meant = |entry: &&manifest::Shard| dataset.only.as_ref().is_none_or(|only| only.contains(&entry.file));
    let entries: Vec<&manifest::Shard> = dataset.manifest.shards.iter().filter(is_meant).collect();
    let shards: Vec<Shard<'_>> = in_order(entries.len(), options.jobs, |number| {
        let mut shard = open(dataset, entries[number])?;
        check_rows(dataset, format, &mut shard);
        Ok(shard)
    })?;
    if dataset.only.is_none() {
        report.problems.extend(check_totals(dataset, &shards));
    }
    let mut pieces = Vec::new();
    if !options.quick {
        shards.iter().enumerate().for_each(|(number, shard)| pieces.extend(cut(number, shard)));
    }
    let done = in_order(pieces.len(), options.jobs, |number| {
        monitor.check_cancelled()?;
        let piece = &pieces[number];
        let done = read(dataset, format, options, &shards[piece.shard], piece)?;
        monitor.advance(piece.rows.end - piece.rows.start, piece.bytes.end - piece.bytes.start);
        Ok(done)
    })?;
    let mut done = done.into_iter().zip(&pieces).peekable();
    for (number, mut shard) in shards.into_iter().enumerate() {
        let (mut spans, mut whole) = (Vec::new(), None);
        while let Some((done, _)) = done.next_if(|(_, piece)| piece.shard == number) {
            shard.problems.extend(done.problems);
            spans.extend(done.span);
            whole = whole.or(done.whole);
            report.read_bytes += done.read_bytes;
            decode::add(&mut report.not_decoded, done.not_decoded);
        }
        if !options.quick && shard.file.is_some() {
            let found = whole.or_else(|| hash::join(spans, shard.bytes));
            check_hash(dataset, &mut shard, found);
        }
        let damaged = shard.problems.iter().filter(|problem| problem.key.is_some());
        let mut keys: Vec<_> = damaged.map(|problem| &problem.key).collect();
        keys.dedup();
        report.damaged_samples += keys.len() as u64;
        report.damaged_shards += u64::from(!shard.problems.is_empty());
        report.problems.append(&mut shard.problems);
    }
    Ok(())
}

/// Runs `work` for 0..`count` on up to `jobs` threads; returns the results in order.
pub(super) fn in_order<T: Send>(count: usize, jobs: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let results: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    threads::each(jobs.clamp(1, count.max(1)), || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            match work(number) {
                Ok(result) => *results[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(result),
                Err(error) => {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    next.store(count, Ordering::Relaxed);
                    return;
                }
            }
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => {
            Ok(results.into_iter().filter_map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
        }
    }
}

/// Opens a shard and its index and compares them with the manifest, without reading the shard.
fn open<'a>(dataset: &Opened, entry: &'a manifest::Shard) -> Result<Shard<'a>> {
    let mut problems = Vec::new();
    let index = open_index(dataset, entry, &mut problems)?;
    let file = match dataset.files.open(&entry.file) {
        // For example a pipe.
        Err(error) if error.kind() == ErrorKind::Data => {
            problems.push(dataset.problem(&entry.file, error.what()));
            None
        }
        file => {
            let file = file?;
            if file.is_none() {
                let what = format!("missing, with its {}", size::counted(entry.samples, "sample"));
                problems.push(dataset.problem(&entry.file, what));
            }
            file
        }
    };
    let bytes = file.as_ref().map_or(0, |file| file.bytes());
    if file.is_some() && bytes != entry.bytes {
        let what = format!("{bytes} bytes, {} in the manifest", entry.bytes);
        let range = bytes.min(entry.bytes)..bytes.max(entry.bytes);
        problems.push(Problem { bytes: Some(range), ..dataset.problem(&entry.file, what) });
    }
    Ok(Shard { entry, index, file, bytes, sums: None, problems })
}

fn open_index(
    dataset: &Opened,
    entry: &manifest::Shard,
    problems: &mut Vec<Problem>,
) -> Result<Option<Index<Vec<u8>>>> {
    let name = &entry.index.file;
    let is_intact = |bytes: &[u8]| bytes.len() as u64 == entry.index.bytes && hash::file(bytes) == entry.index.blake3.0;
    let bytes = match dataset.files.read_right(name, Some(entry.index.bytes), is_intact) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            problems.push(dataset.problem(name, "missing"));
            return Ok(None);
        }
        Err(error) if error.kind() == ErrorKind::Data => {
            problems.push(dataset.problem(name, error.what()));
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let intact = is_intact(&bytes);
    let length = bytes.len();
    let before = problems.len();
    let index = match Index::open(bytes) {
        Ok(index) => index,
        Err(error) => {
            problems.push(from_error(format!("{}{name}", dataset.prefix), &error));
            return Ok(None);
        }
    };
    // Row by row, to report the samples of a damaged block.
    let mut first_bad: Option<(u64, Error)> = None;
    let mut close = |first: &mut Option<(u64, Error)>, end: u64| {
        if let Some((start, error)) = first.take() {
            let mut problem = from_error(format!("{}{name}", dataset.prefix), &error);
            problem.what = format!("samples {start} to {} of the shard: {}", end - 1, problem.what);
            problem.key = Some(format!("{start}–{}", end - 1));
            problems.push(problem);
        }
    };
    // `check_rows` goes through the rows of an intact index.
    for number in if intact { 0..0 } else { 0..index.len() } {
        match index.row(number) {
            Ok(_) => close(&mut first_bad, number),
            Err(error) => {
                first_bad.get_or_insert((number, error));
            }
        }
    }
    close(&mut first_bad, index.len());
    if !intact && problems.len() == before {
        let what = format!("BLAKE3 differs: {length} bytes, {} in the manifest", entry.index.bytes);
        problems.push(dataset.problem(name, what));
    }
    let summary = index.summary();
    let fits = index.len() == entry.samples
        && summary.shard_bytes == entry.bytes
        && summary.shard_blake3 == entry.blake3.0
        && summary.components == dataset.manifest.components;
    if !fits {
        problems.push(dataset.problem(
            name,
            format!(
                "is the index of another shard: {} in {} bytes, {} in {} in the manifest",
                size::counted(index.len(), "sample"),
                summary.shard_bytes,
                entry.samples,
                entry.bytes
            ),
        ));
    }
    Ok((problems.len() == before).then_some(index))
}

/// Checks that the rows are contiguous, fill the shard, and have labels of known classes.
fn check_rows(dataset: &Opened, format: &dyn Format, shard: &mut Shard<'_>) {
    let Some(index) = &shard.index else { return };
    let classes = dataset.manifest.classes.len();
    // An invalid choice in the manifest was reported when the format was opened.
    let choice = dataset.choice().unwrap_or_else(|_| Choice::new(format.name()));
    let (mut at, mut sums) = (format.head_bytes(index.len()), Sums::default());
    let mut wrong = None;
    for (number, row) in index.iter().enumerate() {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                wrong = Some((number, error.what()));
                break;
            }
        };
        let is_known = match row.label {
            Some(label) => usize::try_from(label).is_ok_and(|label| label < classes),
            None => classes == 0,
        };
        if row.offset != at {
            wrong = Some((number, format!("its record starts at {}, the previous record ends at {at}", row.offset)));
        } else if !is_known {
            wrong = Some((number, "its label belongs to no class in the manifest".to_owned()));
        }
        if wrong.is_some() {
            break;
        }
        at += u64::from(row.record_bytes);
        sums.row(&row, &choice);
    }
    let end = at + format.tail_bytes(index.len(), at);
    if wrong.is_none() && end != index.summary().content_bytes {
        wrong = Some((
            0,
            format!("its records end at {at}, so the shard has {end} bytes, not {}", index.summary().content_bytes),
        ));
    }
    match wrong {
        None => shard.sums = Some(sums),
        Some((number, what)) => {
            shard.problems.push(dataset.problem(&shard.entry.index.file, format!("row {number}: {what}")));
            shard.index = None;
        }
    }
}

/// Checks that the manifest totals equal the sums over the rows.
fn check_totals(dataset: &Opened, shards: &[Shard<'_>]) -> Vec<Problem> {
    let mut found = Sums::default();
    for shard in shards {
        // A shard with unreadable rows has its own problem.
        let Some(sums) = &shard.sums else { return Vec::new() };
        found.add(sums);
    }
    let manifest = &dataset.manifest;
    let classes = manifest.classes.iter().enumerate().filter(|(_, class)| class.counts.packed > 0);
    let labels: BTreeMap<u64, u64> = classes.map(|(label, class)| (label as u64, class.counts.packed)).collect();
    let kinds: BTreeMap<String, u64> = manifest.kinds.clone().into_iter().filter(|(_, samples)| *samples > 0).collect();
    let checks = [
        (found.payload_bytes == manifest.payload_bytes, "payload_bytes"),
        (found.kinds == kinds, "kinds"),
        (found.labels == labels, "samples packed of each class"),
    ];
    let wrong = checks.into_iter().filter(|(right, _)| !right);
    wrong
        .map(|(_, what)| dataset.problem(manifest::FILE, format!("{what}: differs from the totals of the indexes")))
        .collect()
}

fn is_packed(entry: &manifest::Shard) -> bool {
    [".zst", ".zstd"].iter().any(|end| entry.file.ends_with(end))
}

/// Divides a shard into pieces of work. A shard without an index, or a compressed shard, is one piece.
fn cut(number: usize, shard: &Shard<'_>) -> Vec<Piece> {
    if shard.file.is_none() {
        return Vec::new();
    }
    let Some(index) = shard.index.as_ref().filter(|_| !is_packed(shard.entry)) else {
        return vec![Piece { shard: number, rows: 0..shard.entry.samples, bytes: 0..shard.bytes }];
    };
    // Offsets ascend: `check_rows` verified that.
    let offset = |number| index.row(number).map_or(u64::MAX, |row| row.offset);
    let mut pieces = Vec::new();
    let (mut first, mut start) = (0, 0);
    loop {
        let (mut low, mut high) = (first, index.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if offset(middle) < start + SPAN_BYTES { low = middle + 1 } else { high = middle }
        }
        if low >= index.len() || offset(low) >= shard.bytes {
            break;
        }
        pieces.push(Piece { shard: number, rows: first..low, bytes: start..offset(low) });
        (first, start) = (low, offset(low));
    }
    pieces.push(Piece { shard: number, rows: first..index.len(), bytes: start..shard.bytes.max(start) });
    pieces
}

/// Reads and checks a piece. Reads again after a problem if the storage may damage bytes.
fn read(dataset: &Opened, format: &dyn Format, options: &Options, shard: &Shard<'_>, piece: &Piece) -> Result<Done> {
    let Some(file) = shard.file.as_deref() else { return Ok(Done::default()) };
    let payload = dataset.choice()?.payload;
    let checker =
        Checker { dataset, format, decode: options.decode, payload, file_name: &shard.entry.file, bytes: shard.bytes };
    let read = || match &shard.index {
        None => hash_alone(file),
        Some(index) if is_packed(shard.entry) => checker.packed(index, file),
        Some(index) => checker.plain(index, file, piece),
    };
    let done = read()?;
    // For a shard that is hashed as a whole, the hash may be the only difference.
    let is_right = done.problems.is_empty() && done.whole.is_none_or(|found| found == shard.entry.blake3.0);
    if is_right || !dataset.files.access().may_damage { Ok(done) } else { read() }
}

/// Compares the hash of the file; if no sample explains a difference, reports the whole shard.
fn check_hash(dataset: &Opened, shard: &mut Shard<'_>, found: Option<FileHash>) {
    let entry = shard.entry;
    if found == Some(entry.blake3.0) {
        return;
    }
    let other = dataset.manifest.shards.iter().find(|other| Some(other.blake3.0) == found);
    if let Some(other) = other {
        let what = format!("holds the bytes of {}: renamed or copied", other.file);
        shard.problems = vec![dataset.problem(&entry.file, what)];
    } else if shard.problems.is_empty() || shard.index.is_none() {
        shard.problems.push(dataset.problem(&entry.file, "BLAKE3 differs from the manifest"));
    }
}

//! Verifies shards of any format without a manifest: structure, checksums, files beside them, duplicate keys, and samples that lack a
//! component.
//!
//! Holds at all times: each thread has one image in memory; per sample only a hash of the key, the offset and the label are kept.

mod labels;
mod records;
mod tar;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;
use shardpack_format::{Error, ErrorKind, Result, size, text};
use shardpack_runtime::Instant;

use super::{
    Options, Problem, Report,
    decode::{self, NotDecoded},
    from_error,
};
use crate::{
    foreign::{
        ShardFile,
        files::{Files, NO_SAMPLE, WITHOUT_SAMPLES},
        offset_index::Index,
    },
    monitor::{Monitor, Phase},
    parallel::in_pool,
    source::{
        classes::{LabelInfo, Words},
        inputs::InputFiles,
    },
};

/// Maximum number of problems listed per file; the rest is counted.
const LISTED: usize = 10_000;

/// Result of walking one file.
#[derive(Default)]
struct Walked {
    problems: Vec<Problem>,
    /// Problems beyond [`LISTED`].
    unlisted: u64,
    damaged_samples: u64,
    /// Number of intact samples without a usable image, and the problem of the first.
    without_image: (u64, Option<Problem>),
    /// Number of those samples that hold values; `images` is the number of samples with an image.
    values: u64,
    images: u64,
    /// Number of intact samples with several images, and the problem of the first.
    with_several: (u64, Option<Problem>),
    /// Skipped items that are not samples, by kind.
    passed: BTreeMap<&'static str, u64>,
    notes: Vec<String>,
    not_decoded: NotDecoded,
    /// Whether the system refused a read.
    is_refused: bool,
    /// Hash and offset of each key that must be unique.
    keys: Vec<(u128, u64)>,
    /// Samples by shape: their number and the key of the first.
    shapes: BTreeMap<Shape, (u64, Vec<u8>)>,
    samples: u64,
    /// Label and offset of each record with an image.
    said: Vec<(LabelInfo, u64)>,
    words: Words,
    /// Start of each record and end of the last, kept only for the comparison with an index.
    starts: Option<Vec<u64>>,
}

/// Names of the components of a sample.
type Shape = Vec<Vec<u8>>;

impl Walked {
    fn add(&mut self, problem: Problem) {
        self.damaged_samples += u64::from(problem.key.is_some());
        match self.problems.len() < LISTED {
            true => self.problems.push(problem),
            false => self.unlisted += 1,
        }
    }

    /// Adds a problem of the file or of a byte range.
    fn add_error(&mut self, file: &ShardFile, error: &Error) {
        self.is_refused |= error.kind() != ErrorKind::Data;
        self.add(from_error(error.location().file.clone().unwrap_or_else(|| shown(file)), error));
    }

    /// Counts an intact sample without an image.
    fn lacks(&mut self, problem: Problem) {
        self.without_image.0 += 1;
        self.without_image.1.get_or_insert(problem);
    }

    /// Counts an intact sample with several images, for which the image to use is ambiguous.
    fn several(&mut self, problem: Problem) {
        self.with_several.0 += 1;
        self.with_several.1.get_or_insert(problem);
    }

    /// Counts a sample with the components in `shape`.
    fn note(&mut self, mut shape: Shape, key: &[u8]) {
        shape.sort();
        self.shapes.entry(shape).or_insert_with(|| (0, key.to_vec())).0 += 1;
    }
}

/// Verifies shards by their own content and the files next to them.
///
/// # Errors
/// If the user cancels. Damage is in the report.
pub fn verify(looked: InputFiles, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    let start = Instant::now();
    let Files { shards: files, problems, ignored, notes, .. } = &looked.files;
    let read_bytes = files.iter().map(|file| file.total_bytes()).sum();
    monitor.begin(Phase::Verifying, 0, read_bytes);
    let walk = |file: &ShardFile| {
        let walked = walk(file, options, monitor)?;
        monitor.advance(walked.samples, file.total_bytes());
        Ok(walked)
    };
    let mut walked: Vec<Walked> = in_pool(options.jobs, || files.par_iter().map(walk).collect::<Result<_>>())?;
    let of_path = |error: &Error| from_error(error.location().file.clone().unwrap_or_default(), error);
    let mut report = Report {
        problems: problems.iter().map(of_path).collect(),
        samples: walked.iter().map(|walked| walked.samples).sum(),
        shards: files.len() as u64,
        read_bytes,
        is_refused: problems.iter().any(|error| error.kind() != ErrorKind::Data),
        ignored: ignored.clone(),
        notes: notes.clone(),
        ..Report::default()
    };
    let is_empty = walked.iter().all(|one| one.samples == 0 && one.problems.is_empty()) && report.problems.is_empty();
    if let (true, Some(file), Some(first)) = (is_empty, files.first(), walked.first_mut()) {
        first.add(Problem { file: shown(file), what: NO_SAMPLE.to_owned(), ..Problem::default() });
    }
    for one in walked.iter_mut().filter(|one| one.samples == 0 && one.problems.is_empty()) {
        *one.passed.entry(WITHOUT_SAMPLES).or_default() += 1;
    }
    labels::find_unfit(files, &mut walked);
    let usual = usual_shapes(files, &walked);
    // If no sample has an image, samples are values, as in `convert`.
    let are_values = walked.iter().all(|one| one.images == 0);
    let mut seen = HashMap::new();
    for (number, (file, mut walked)) in files.iter().zip(walked).enumerate() {
        find_twice(files, number, &mut walked, &mut seen);
        for (shape, (samples, key)) in std::mem::take(&mut walked.shapes) {
            if let Some(usual) = usual.get(file.kind.name())
                && shape != *usual
            {
                // Samples may lack a component: unusual, but written that way.
                let (file, key) = (shown(file), text::shown(&key));
                let samples = size::counted(samples, "sample");
                let (own, usual) = (list(&shape), list(usual));
                walked.notes.push(format!("{file}: {samples} with {own}, the first {key:?}; most others have {usual}"));
            }
        }
        if let (samples, Some(first)) = std::mem::take(&mut walked.without_image)
            && !(are_values && samples == walked.values)
        {
            report.without_image += samples;
            let what = match samples {
                1 => format!("holds no image: {}", first.what),
                _ => format!("the first of {samples} samples that hold no image: {}", first.what),
            };
            walked.problems.push(Problem { what, ..first });
        }
        if let (samples, Some(first)) = std::mem::take(&mut walked.with_several) {
            let what = match samples {
                1 => first.what.clone(),
                _ => format!("the first of {samples} samples that hold several images: {}", first.what),
            };
            walked.problems.push(Problem { what, ..first });
        }
        for (what, members) in std::mem::take(&mut walked.passed) {
            *report.ignored.entry(what.to_owned()).or_default() += members;
        }
        report.damaged_shards += u64::from(!walked.problems.is_empty());
        report.damaged_samples += walked.damaged_samples;
        report.is_refused |= walked.is_refused;
        report.problems.append(&mut walked.problems);
        if walked.unlisted > 0 {
            let what = format!("{} more problems, the first {LISTED} are listed", walked.unlisted);
            report.problems.push(Problem { file: shown(file), what, ..Problem::default() });
        }
        report.notes.append(&mut walked.notes);
        decode::add(&mut report.not_decoded, walked.not_decoded);
    }
    report.transfers = looked.transfers();
    report.elapsed = start.elapsed();
    Ok(report)
}

/// Reports the keys of file `number` that are already in `seen`, which maps each key to its file.
///
/// Keys of different formats belong to different datasets.
fn find_twice<'f>(
    files: &'f [ShardFile],
    number: usize,
    walked: &mut Walked,
    seen: &mut HashMap<(&'f str, u128), usize>,
) {
    let file = &files[number];
    let mut twice = BTreeMap::new();
    for (key, offset) in std::mem::take(&mut walked.keys) {
        if let Some(first) = seen.insert((file.kind.name(), key), number) {
            twice.insert(offset, first);
        }
    }
    if twice.is_empty() {
        return;
    }
    let mut keys = keys_at(file, twice.keys().copied().collect());
    for (offset, first) in twice {
        let at = match first == number {
            true => "earlier in this file".to_owned(),
            false => format!("in {}", text::path(&files[first].path)),
        };
        let what = format!("the key is also {at}: readers mix up or drop one of the samples");
        walked.add(of_sample(file, &keys.remove(&offset).unwrap_or_default(), offset, what));
    }
}

fn list(shape: &[Vec<u8>]) -> String {
    match shape {
        [] => "none".to_owned(),
        _ => shape.iter().map(|name| text::shown(name).to_string()).collect::<Vec<_>>().join("+"),
    }
}

fn shown(file: &ShardFile) -> String {
    text::path(&file.path).to_string()
}

fn of_sample(file: &ShardFile, key: &[u8], offset: u64, what: String) -> Problem {
    let key = Some(text::shown(key).to_string());
    let bytes = file.has_places().then_some(offset..offset);
    Problem { file: shown(file), bytes, key, what, ..Problem::default() }
}

/// The most frequent shape of each format.
fn usual_shapes<'f>(files: &'f [ShardFile], walked: &[Walked]) -> BTreeMap<&'f str, Shape> {
    let mut counts: BTreeMap<&str, BTreeMap<&Shape, u64>> = BTreeMap::new();
    for (file, walked) in files.iter().zip(walked) {
        let of_kind = counts.entry(file.kind.name()).or_default();
        walked.shapes.iter().for_each(|(shape, (samples, _))| *of_kind.entry(shape).or_default() += samples);
    }
    let usual = counts.into_iter().filter_map(|(kind, shapes)| {
        let (shape, _) = shapes.into_iter().max_by_key(|(_, samples)| *samples)?;
        Some((kind, shape.clone()))
    });
    usual.collect()
}

/// The keys of the records at `offsets`, read again: few keys are duplicates, and keeping all keys would need much memory.
fn keys_at(file: &ShardFile, mut offsets: BTreeSet<u64>) -> BTreeMap<u64, Vec<u8>> {
    let mut keys = BTreeMap::new();
    let Ok(mut walk) = file.walk(&file.own_selection(), &|| Ok(())) else { return keys };
    // The first walk reported unreadable records.
    while !offsets.is_empty()
        && let Ok(Some(record)) = walk.next()
    {
        if offsets.remove(&record.range.start) {
            keys.insert(record.range.start, record.key);
        }
    }
    keys
}

/// Walks a file. At a URL, walks again after a problem, in case the data was corrupted in transit.
fn walk(file: &ShardFile, options: &Options, monitor: &dyn Monitor) -> Result<Walked> {
    let walked = walk_once(file, options, monitor)?;
    if file.remote.is_none() || walked.problems.is_empty() || walked.is_refused {
        return Ok(walked);
    }
    let mut again = walk_once(file, options, monitor)?;
    if again.problems != walked.problems {
        let differs = "its bytes differed when it was read again: the problems are those of the second read";
        again.notes.push(format!("{}: {differs}", shown(file)));
    }
    Ok(again)
}

/// Compares an index with the record starts of `file`, which was walked to its end.
fn compare_index(file: &ShardFile, index: &Index, walked: &mut Walked) {
    let Some((end, starts)) = walked.starts.take().and_then(|mut starts| Some((starts.pop()?, starts))) else { return };
    let name = text::path(&index.path()).to_string();
    match index.differences(file, &starts, end) {
        Ok(all) => {
            all.into_iter().for_each(|what| walked.add(Problem { file: name.clone(), what, ..Problem::default() }))
        }
        Err(error) => walked.add(from_error(name, &error)),
    }
}

fn walk_once(file: &ShardFile, options: &Options, monitor: &dyn Monitor) -> Result<Walked> {
    let mut walked = Walked::default();
    let index = Index::open_beside(file).unwrap_or_else(|error| {
        walked.add_error(file, &error);
        None
    });
    walked.starts = index.is_some().then(Vec::new);
    let told = file.members(false).and_then(|members| match members {
        Some(archive) => tar::walk(file, archive, options, monitor, &mut walked),
        None => records::walk(file, options, monitor, &mut walked),
    });
    match file.failure().map_or(told, Err) {
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
        Err(error) => {
            let mut problem = from_error(shown(file), &error);
            problem.bytes = error.location().byte.map(|at| at..file.bytes.max(at));
            walked.is_refused |= error.kind() == ErrorKind::System;
            walked.add(problem);
        }
        Ok(()) => {
            if let Some(index) = &index {
                compare_index(file, index, &mut walked);
            }
            if let Some(error) = file.differing_samples(walked.samples) {
                walked.add_error(file, &error);
            }
        }
    }
    let compared = file.compare(options.quick, &|| monitor.check_cancelled())?;
    for error in &compared.problems {
        walked.add_error(file, error);
    }
    walked.notes.extend(compared.notes);
    Ok(walked)
}

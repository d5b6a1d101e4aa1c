//! A dataset against its source, both ways: is every sample what the source has, and everything of the source here?

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rayon::prelude::*;
use shardpack_format::{Result, hash, index::Index, index::RowRef, manifest};

use super::{Opened, Problem};
use crate::{
    ledger::{self, Fate},
    monitor::{Monitor, Phase},
    source::{
        Found, Origin, ReadError, Refusal, Source,
        image_folder::{self, Splits},
    },
    sys,
};

/// Lists `source` as it was listed for these datasets: with their splits, without globs.
pub(super) fn discover(
    datasets: &[&Opened],
    source: &Origin,
    jobs: usize,
    monitor: &dyn Monitor,
) -> Result<Vec<Found>> {
    let names: Vec<String> = datasets.iter().filter_map(|d| d.prefix.strip_suffix('/').map(str::to_owned)).collect();
    let splits = if names.is_empty() { Splits::None } else { Splits::Names(names) };
    let options = image_folder::Options { splits, threads: (2 * jobs).max(8), ..image_folder::Options::default() };
    source.discover(&options, monitor)
}

/// What the source has of a dataset, and who reads it.
pub(super) struct Original<'a> {
    pub found: &'a Found,
    pub reader: &'a dyn Source,
    /// Number in the listing of each class of the dataset, by label: classes are the same where their names are.
    classes: Vec<Option<u32>>,
    /// Numbers of the classes that have samples in a folder, by its path.
    of_folders: OnceLock<HashMap<&'a [u8], Vec<u32>>>,
}

impl<'a> Original<'a> {
    pub fn new(dataset: &Opened, found: &'a Found, reader: &'a dyn Source) -> Self {
        let classes = found.listing.classes.iter().enumerate();
        let numbers: HashMap<&[u8], u32> = classes.map(|(number, name)| (&name[..], number as u32)).collect();
        let classes = dataset.manifest.classes.iter().map(|class| numbers.get(&class.name_bytes()[..]).copied());
        Self { found, reader, classes: classes.collect(), of_folders: OnceLock::new() }
    }

    /// Number in the listing of the sample that `row` is of.
    pub fn find(&self, row: &RowRef<'_>) -> Option<u64> {
        let class = usize::try_from(row.label?).ok().and_then(|label| *self.classes.get(label)?);
        class.and_then(|class| self.found.listing.find(class, row.path)).or_else(|| self.find_renamed(row.path))
    }

    /// The sample at `path` of the one class that has it, whatever it is called: classes may have got other names.
    fn find_renamed(&self, path: &[u8]) -> Option<u64> {
        let listing = &self.found.listing;
        let of_folders = self.of_folders.get_or_init(|| {
            let mut of_folders: HashMap<&[u8], Vec<u32>> = HashMap::new();
            for folder in listing.folders() {
                of_folders.entry(&folder.path).or_default().push(folder.class);
            }
            of_folders
        });
        let cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let classes = cuts.filter_map(|(at, _)| of_folders.get(&path[..at])).flatten();
        let mut found = classes.filter_map(|class| listing.find(*class, path));
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }
}

/// Compares each dataset with its part of `source`.
pub(super) fn compare(datasets: &[Opened], source: &Path, jobs: usize, monitor: &dyn Monitor) -> Result<Vec<Problem>> {
    datasets.iter().try_for_each(Opened::has_bytes_of_source)?;
    let source = Origin::of(source)?;
    let found = discover(&datasets.iter().collect::<Vec<_>>(), &source, jobs, monitor)?;
    let mut problems = Vec::new();
    for dataset in datasets {
        let name = dataset.prefix.strip_suffix('/');
        if let Some(found) = found.iter().find(|found| found.split.as_deref() == name) {
            let reader = source.open(name, &found.listing, None, monitor)?;
            monitor.begin(Phase::Comparing, dataset.manifest.samples, dataset.manifest.payload_bytes);
            let original = Original::new(dataset, found, reader.as_ref());
            problems.extend(dataset_against(dataset, &original, monitor)?);
        }
    }
    Ok(problems)
}

fn dataset_against(dataset: &Opened, original: &Original<'_>, monitor: &dyn Monitor) -> Result<Vec<Problem>> {
    let Original { found, .. } = original;
    let listing = &found.listing;
    let seen: Vec<AtomicBool> = (0..listing.len()).map(|_| AtomicBool::new(false)).collect();
    let per_shard = dataset.manifest.shards.par_iter().map(|shard| {
        let path = dataset.folder.join(&shard.index.file);
        // An index that cannot be read has been named already.
        let Some(index) = sys::read_if_there(&path)?.and_then(|bytes| Index::open(bytes).ok()) else {
            return Ok(Vec::new());
        };
        shard_against(dataset, shard, &index, original, &seen, monitor)
    });
    let mut problems: Vec<Problem> = per_shard.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    let lines = sys::read_if_there(&dataset.folder.join(manifest::LEDGER_FILE))?.unwrap_or_default();
    let lines = ledger::read(&lines).unwrap_or_default().into_iter().filter(|line| line.fate != Fate::Kept);
    let known: HashSet<Vec<u8>> = lines.map(|line| line.path).collect();
    let mut path = Vec::new();
    for (number, seen) in seen.iter().enumerate() {
        if !seen.load(Ordering::Relaxed) {
            listing.path(number as u64, &mut path);
            if !known.contains(&path) {
                problems.push(missing(dataset, path.clone(), "in the source and not in the shards"));
            }
        }
    }
    for refused in found.unpacked.iter().filter(|refused| !known.contains(&refused.path)) {
        problems.push(missing(
            dataset,
            refused.path.clone(),
            &format!("in the source and not in the shards: {}", refused.reason),
        ));
    }
    Ok(problems)
}

fn missing(dataset: &Opened, path: Vec<u8>, what: &str) -> Problem {
    Problem { path: Some(path), ..dataset.problem(manifest::FILE, what) }
}

fn shard_against(
    dataset: &Opened,
    shard: &manifest::Shard,
    index: &Index<Vec<u8>>,
    original: &Original<'_>,
    seen: &[AtomicBool],
    monitor: &dyn Monitor,
) -> Result<Vec<Problem>> {
    let (mut problems, listing) = (Vec::new(), &original.found.listing);
    let of_row = |row: &RowRef<'_>, what: String| {
        let (start, bytes) = row.payload();
        Problem {
            bytes: Some(start..start + u64::from(bytes)),
            key: Some(String::from_utf8_lossy(row.key).into_owned()),
            path: Some(row.path.to_vec()),
            ..dataset.problem(&shard.file, what)
        }
    };
    let mut rows = Vec::new();
    for row in index.iter() {
        let Ok(row) = row else { continue };
        match original.find(&row) {
            Some(number) => rows.push((listing.entry(number).place, number, row)),
            None => problems.push(of_row(&row, "not in the source".to_owned())),
        }
    }
    rows.sort_unstable_by_key(|(place, ..)| *place);
    let mut payload = Vec::new();
    for (_, number, row) in rows {
        monitor.go_on()?;
        seen[number as usize].store(true, Ordering::Relaxed);
        let bytes = listing.entry(number).bytes;
        let expected = row.payload().1;
        if bytes != expected {
            problems.push(of_row(&row, format!("{expected} bytes, the source has {bytes}")));
            continue;
        }
        payload.resize(bytes as usize, 0);
        match original.reader.read(number, &mut payload) {
            Ok(()) if hash::content(&payload) == row.content_hash => {}
            Ok(()) => problems.push(of_row(&row, "the source has other bytes".to_owned())),
            Err(ReadError::Refused(Refusal(reason))) => problems.push(of_row(&row, format!("the source {reason}"))),
            Err(ReadError::Fatal(error)) => return Err(error),
        }
        monitor.advance(1, u64::from(bytes));
    }
    Ok(problems)
}

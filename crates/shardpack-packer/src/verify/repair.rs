//! Repair: what is damaged is written anew from the source, beside the damaged file, and takes its place only when its
//! hash is the one in the manifest.
//!
//! Where the index is right, only the damaged records come from the source; else the whole shard and its index do, by
//! the same plan and engine that packed them.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use shardpack_format::{Error, Result, formats, hash, help, index::Index, manifest, permutation, size};

use super::{
    Opened, Problem,
    against::{self, Original},
};
use crate::{
    copy::{self, Copy, OnBad},
    ledger::{self, Fate},
    monitor::{Monitor, Phase, Silent},
    plan::{Check, Compression, Cut, Options, Order, Plan},
    sidecars,
    source::{Found, Origin, Refusal, list, storage::ReadOrder},
    sys,
};

/// Budget for the images of a shard that is packed anew, in bytes.
const MEMORY_BYTES: u64 = 1 << 30;

/// What helps where the source alone does not.
pub(super) const ANEW: &str = help::COPY_OR_PACK;

/// What a repair did.
#[derive(Debug, Default)]
pub struct Repaired {
    /// Files that were written anew.
    pub files: Vec<String>,
    /// Files that could not be, and why.
    pub failed: Vec<(String, String)>,
}

/// Mends what `problems` name in a dataset.
pub(super) fn repair(
    dataset: &Opened,
    problems: &[Problem],
    source: &Origin,
    options: &super::Options,
    monitor: &dyn Monitor,
    repaired: &mut Repaired,
) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    dataset.has_bytes_of_source()?;
    let work = dataset.files.path().join(".shardpack-repair");
    sys::create_folder(&work)?;
    let _lock = sys::Lock::take(&work.join("lock"))?;
    let source = &against::as_read(Some(dataset), source)?;
    let done = Repair { dataset, work: &work, source, jobs: options.jobs, monitor }.all(problems, repaired);
    let removed = fs::remove_dir_all(&work).map_err(|e| sys::io_error("cannot remove", &work, e));
    done.and(removed)
}

struct Repair<'r> {
    dataset: &'r Opened,
    work: &'r Path,
    source: &'r Origin,
    jobs: usize,
    monitor: &'r dyn Monitor,
}

impl Repair<'_> {
    fn all(&self, problems: &[Problem], repaired: &mut Repaired) -> Result<()> {
        let dataset = self.dataset;
        let named: BTreeSet<&str> = problems.iter().filter_map(|p| p.file.strip_prefix(&dataset.prefix)).collect();
        let name = |file: &str| format!("{}{file}", dataset.prefix);
        if named.contains(manifest::SUMS_FILE) {
            let sums = dataset.manifest.sums();
            sys::write_durably(self.work, &dataset.files.path().join(manifest::SUMS_FILE), sums.as_bytes())?;
            repaired.files.push(name(manifest::SUMS_FILE));
        }
        if named.contains(manifest::LEDGER_FILE) {
            repaired.failed.push((name(manifest::LEDGER_FILE), ANEW.to_owned()));
        }
        let damaged =
            |shard: &manifest::Shard| (named.contains(shard.file.as_str()), named.contains(shard.index.file.as_str()));
        let shards = dataset.manifest.shards.iter().enumerate();
        let todo: Vec<_> = shards.filter(|(_, shard)| damaged(shard) != (false, false)).collect();
        let found = if todo.is_empty() { Found::default() } else { self.discover()? };
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
            let (_, bad_index) = damaged(shard);
            let plain = dataset.manifest.format.compression == "none";
            let done = match self.index(shard)? {
                Some(index) if plain && !bad_index => self.patch(shard, &index, original),
                _ => self.rebuild(number, shard, original),
            };
            match done {
                Ok(files) => repaired.files.extend(files.iter().map(|file| name(file))),
                Err(error) if error.kind() == shardpack_format::ErrorKind::Data => {
                    repaired.failed.push((name(&shard.file), error.to_string()));
                }
                Err(error) => return Err(error),
            }
            self.monitor.advance(shard.samples, shard.bytes);
        }
        let damaged = dataset.manifest.sidecars.iter().map(|sidecar| sidecar.file.as_str());
        let damaged: BTreeSet<&str> = damaged.filter(|sidecar| named.contains(sidecar)).collect();
        if !damaged.is_empty() {
            // They follow from shards, indexes and manifest alone. Whether they came out right is verified after this.
            let format = dataset.format()?;
            let (folder, manifest) = (dataset.files.path(), &dataset.manifest);
            let (mut mended, mut why) = (BTreeSet::new(), None);
            for kind in formats::entry(format.name())?.sidecars {
                let writer = sidecars::Writer {
                    format: format.as_ref(),
                    names: &[kind.name],
                    only: Some(&damaged),
                    dst: folder,
                    work: self.work,
                    begun: &sidecars::begun_file(self.work),
                };
                match writer.write(manifest) {
                    Ok(files) => mended.extend(files.into_iter().map(|file| file.file)),
                    // It may be one that the dataset does not have.
                    Err(error) => why = Some(error.to_string()),
                }
            }
            let why = why.unwrap_or_else(|| "nothing known here makes it".to_owned());
            let lost = damaged.iter().filter(|sidecar| !mended.contains(**sidecar));
            repaired.failed.extend(lost.map(|sidecar| (name(sidecar), why.clone())));
            repaired.files.extend(mended.iter().map(|file| name(file)));
        }
        sys::sync_folder(&dataset.files.path().join(manifest::INDEX_FOLDER))?;
        sys::sync_folder(dataset.files.path())
    }

    fn discover(&self) -> Result<Found> {
        let found = against::discover(&[self.dataset], self.source, self.jobs, self.monitor)?;
        let found = found.into_iter().find(|found| found.split.as_deref() == self.split());
        let mut found =
            found.ok_or_else(|| Error::usage("the source does not have this split").in_file(self.source.path()))?;
        // What was left out on request is known from the ledger; the request itself is not.
        let lines = sys::read_if_there(&self.dataset.files.path().join(manifest::LEDGER_FILE))?.unwrap_or_default();
        let lines = ledger::read(&lines).unwrap_or_default().into_iter().filter(|line| {
            // What could not be packed was in the plan.
            matches!(line.fate, Fate::Filtered | Fate::Duplicate) && !list::is_same_line(line)
        });
        let left_out: HashSet<Vec<u8>> = lines.map(|line| line.path).collect();
        if !left_out.is_empty() {
            found.listing = Arc::new(found.listing.filtered(|path| !left_out.contains(path)));
        }
        Ok(found)
    }

    /// Name of the split that the dataset is.
    fn split(&self) -> Option<&str> {
        against::split_of(self.dataset, self.source)
    }

    fn index(&self, shard: &manifest::Shard) -> Result<Option<Index<Vec<u8>>>> {
        let bytes = sys::read_if_there(&self.dataset.files.path().join(&shard.index.file))?;
        Ok(bytes.filter(|bytes| hash::file(bytes) == shard.index.blake3.0).and_then(|bytes| Index::open(bytes).ok()))
    }

    /// Writes a shard anew: each record from the damaged file where it is right, else from the source.
    fn patch(&self, shard: &manifest::Shard, index: &Index<Vec<u8>>, original: &Original<'_>) -> Result<Vec<String>> {
        let format = self.dataset.format()?;
        let path = self.dataset.files.path().join(&shard.file);
        let old = File::open(&path).ok();
        let temporary = self.work.join(&shard.file);
        let mut new = File::create(&temporary).map_err(|e| sys::io_error("cannot create", &temporary, e))?;
        let mut hasher = blake3::Hasher::new();
        let mut put = |bytes: &[u8]| {
            hasher.update(bytes);
            new.write_all(bytes).map_err(|e| sys::io_error("cannot write", &temporary, e))
        };
        let head = copy::head_of(format.as_ref(), index)?;
        put(&head)?;
        let (mut record, mut end) = (Vec::new(), head.len() as u64);
        for row in index.iter() {
            let row = row?;
            record.resize(row.record_bytes as usize, 0);
            let there = old.as_ref().is_some_and(|old| old.read_exact_at(&mut record, row.offset).is_ok());
            if !there || !against::is_right(&row, &record) {
                original.render_any(&row, original.find(&row), format.as_ref(), &mut record)?;
            }
            put(&record)?;
            end = row.offset + u64::from(row.record_bytes);
        }
        put(&vec![0; format.tail_bytes(end) as usize])?;
        if *hasher.finalize().as_bytes() != shard.blake3.0 {
            return Err(
                Error::data("what the source gives is not what was packed: its BLAKE3 differs").in_file(&shard.file)
            );
        }
        sys::finish_durably(&new, &temporary, &path)?;
        Ok(vec![shard.file.clone()])
    }

    /// Packs one shard and its index anew, by the plan that the manifest tells of.
    fn rebuild(&self, number: usize, shard: &manifest::Shard, original: &Original<'_>) -> Result<Vec<String>> {
        let mut plan = self.plan(original.found)?;
        plan.held = number..number + 1;
        sys::create_folder(&self.work.join(manifest::INDEX_FOLDER))?;
        let parts = self.work.join("parts");
        sys::create_folder(&parts)?;
        let copy = Copy {
            plan: &plan,
            source: original.reader,
            dst: self.work,
            work: &parts,
            shared: &parts,
            read_order: ReadOrder::Plan,
            jobs: self.jobs,
            memory_bytes: MEMORY_BYTES,
            on_bad: OnBad::Error,
            monitor: &Silent,
        };
        let mut outcome = copy.run(BTreeMap::new())?;
        let Some(sealed) = outcome.shards.remove(&number) else {
            let reason = outcome.bad.into_values().next().map_or_else(String::new, |Refusal(reason)| reason);
            return Err(Error::data(format!("an image of the source {reason}")).in_file(&shard.file));
        };
        if sealed.entry != *shard {
            return Err(
                Error::data("what the source gives is not what was packed: its BLAKE3 differs").in_file(&shard.file)
            );
        }
        for file in [&shard.file, &shard.index.file] {
            let path = self.dataset.files.path().join(file);
            sys::create_folder(path.parent().unwrap_or(self.dataset.files.path()))?;
            fs::rename(self.work.join(file), &path)
                .map_err(|e| sys::io_error("cannot rename to its final name", &path, e))?;
        }
        Ok(vec![shard.file.clone(), shard.index.file.clone()])
    }

    /// The plan as far as the manifest tells: where shards are cut follows from their samples.
    fn plan(&self, found: &Found) -> Result<Plan> {
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
                "the source has {} now, {} were packed: the order cannot be told",
                size::counted(found.listing.len(), "image"),
                manifest.samples
            ))
            .in_file(self.source.path()));
        }
        let found = Found { split: found.split.clone(), listing: found.listing.clone(), ..Found::default() };
        let counts: Vec<u64> = manifest.shards.iter().map(|shard| shard.samples).collect();
        Plan::with_shards(found, options, &counts, manifest.block_samples)
    }
}

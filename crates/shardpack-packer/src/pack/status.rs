//! Status of an unfinished pack: finished, running and missing parts.
//!
//! Reads only names of receipts and indexes, lengths, and locks of processes. Changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::ControlFlow,
    path::Path,
    time::{Duration, SystemTime},
};

use shardpack_format::{Error, Result, formats, manifest::WORK_FOLDER, shell};
use shardpack_reader::{StoreSettings, is_unfinished, unfinished};
use shardpack_runtime::wall_clock;
use shardpack_storage::{Entry, Storage};

use super::{
    part_spools, process_dirs, receipt, site_parts, split_prefix,
    work_folder::{SPOOL_FILE, SPOOLS_FOLDER, plan_name},
};
use crate::{
    copy,
    part::{Part, owners},
    plan::Plan,
    sys,
    transfer::lengths,
};

/// Period for the rate.
const RECENT: Duration = Duration::from_secs(600);

/// State of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartState {
    /// It has a receipt.
    Done,
    /// A process packs it.
    Running,
    /// Neither.
    Missing,
}

/// Status of a pack.
#[derive(Clone, Debug)]
pub struct Status {
    /// Each part, if there are receipts or processes of parts. Of several numbers of parts, the one with most
    /// done.
    pub parts: Vec<(Part, PartState)>,
    /// Images are being preprocessed, by one process or by the parts: there are no shards yet.
    pub is_changing: bool,
    /// Images are or were preprocessed by the parts: no plan file records how.
    pub is_changed: bool,
    /// Number of finished shards.
    pub shards: usize,
    /// Number of all shards.
    pub all_shards: usize,
    /// Length of the finished shards in bytes.
    pub bytes: u64,
    /// Length of all shards in bytes, before compression.
    pub all_bytes: u64,
    /// Bytes of shards finished per second, recently; `None` if unknown.
    pub bytes_per_second: Option<f64>,
    /// Number of all samples.
    pub samples: u64,
    /// Whether running parts are known: a store does not show them.
    pub knows_running: bool,
    /// Whether merge has all receipts; for images that are preprocessed, whether the plan has all lists.
    pub is_complete: bool,
}

impl Status {
    /// Time for the missing shards at this rate.
    pub fn left(&self) -> Option<Duration> {
        let rate = self.bytes_per_second.filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64(self.all_bytes.saturating_sub(self.bytes) as f64 / rate).ok()
    }

    /// Number of parts in this state.
    pub fn count(&self, state: PartState) -> usize {
        self.parts.iter().filter(|(_, of)| *of == state).count()
    }
}

/// Status of the pack in `dst`; `None` if nothing is unfinished.
///
/// # Errors
/// If nothing is at `dst`, or the files cannot be inspected.
pub fn status(dst: &Path, store: &StoreSettings) -> Result<Option<Status>> {
    let storage = shardpack_storage::open_to_write(dst, store)?;
    let running = storage.local().map(running).transpose()?;
    let status = match site_parts::plan(storage.as_ref())? {
        Some(header) => Some(of_plans(storage.as_ref(), &header.plans()?, running.as_ref())?),
        None => before_plan(storage.as_ref(), running.as_ref())?,
    };
    // A store has no empty folders.
    let is_missing = status.is_none() && running.is_none() && storage.list("")?.is_some_and(|all| all.is_empty());
    if is_missing { Err(missing(dst)) } else { Ok(status) }
}

fn missing(dst: &Path) -> Error {
    Error::usage("not found").in_file(dst)
}

/// The parts that processes pack in the folder `dst` now.
fn running(dst: &Path) -> Result<BTreeSet<Part>> {
    if !sys::exists(dst)? {
        return Err(missing(dst));
    }
    // The locks are released at once: another status call would take an ended process for a running one.
    let all = process_dirs::all(&dst.join(WORK_FOLDER))?.into_iter();
    Ok(all.filter(process_dirs::PartProcess::is_running).map(|run| run.part).collect())
}

/// Status without a plan: of images that are preprocessed, or of a pack that has just begun.
fn before_plan(storage: &dyn Storage, running: Option<&BTreeSet<Part>>) -> Result<Option<Status>> {
    let changed = part_spools::parts(storage)?;
    let mut is_changing = !changed.is_empty();
    if let Some(dst) = storage.local() {
        let has = |name: &str| sys::exists(&dst.join(WORK_FOLDER).join(name));
        is_changing |= has(SPOOLS_FOLDER)? || has(SPOOL_FILE)?;
        if !is_changing && is_unfinished(dst)? {
            return Ok(Some(of_changed(&[], false, running)));
        }
        if !is_changing {
            refuse_a_split(dst)?;
        }
    }
    if !is_changing {
        refuse_several(storage)?;
    }
    Ok(is_changing.then(|| of_changed(&changed, true, running)))
}

/// Status before there is a plan; the images of the parts `changed` are preprocessed.
fn of_changed(changed: &[Part], is_changing: bool, running: Option<&BTreeSet<Part>>) -> Status {
    let parts = parts(changed, running);
    Status {
        is_complete: !parts.is_empty() && parts.iter().all(|(_, state)| *state == PartState::Done),
        parts,
        is_changing,
        is_changed: is_changing,
        shards: 0,
        all_shards: 0,
        bytes: 0,
        all_bytes: 0,
        bytes_per_second: None,
        samples: 0,
        knows_running: running.is_some(),
    }
}

/// Fails if `dst` is a split of an unfinished pack.
fn refuse_a_split(dst: &Path) -> Result<()> {
    let Some(whole) = unfinished(dst)? else { return Ok(()) };
    let whole = whole.canonicalize().unwrap_or(whole);
    let error = Error::usage("is a split of an unfinished pack").in_file(dst);
    Err(error.help(format!("shardpack status {} shows the whole pack", shell::path(whole))))
}

/// Fails if folders of `storage` have unfinished packs, as for several formats.
fn refuse_several(storage: &dyn Storage) -> Result<()> {
    let names = storage.local().map_or_else(|| begun_formats(storage), unfinished_folders)?;
    let Some(first) = names.first() else { return Ok(()) };
    let what = format!("holds several packs; unfinished: {}", names.join(", "));
    let first = storage.path_of(first);
    Err(Error::usage(what).in_file(storage.root()).help(format!("shardpack status {}", shell::path(first))))
}

/// Names of the folders in `dst` that have unfinished packs, sorted.
fn unfinished_folders(dst: &Path) -> Result<Vec<String>> {
    let failed = |e| sys::io_error("cannot read folder", dst, e);
    let mut unfinished = Vec::new();
    for entry in fs::read_dir(dst).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if sys::is_folder(&path)? && is_unfinished(&path)? {
            unfinished.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    unfinished.sort();
    Ok(unfinished)
}

/// Names of the folders in `storage` that are called as formats and have the plan of a pack. A store may have any number of other
/// folders.
fn begun_formats(storage: &dyn Storage) -> Result<Vec<String>> {
    let mut begun = Vec::new();
    for Entry { name, is_folder } in storage.list("")?.into_iter().flatten() {
        let is_format = is_folder && formats::ALL.iter().any(|format| format.name == name);
        if is_format && storage.length(&format!("{name}/{}", plan_name()))?.is_some() {
            begun.push(name);
        }
    }
    Ok(begun)
}

/// Status from the lengths of finished shards, and the parts that have receipts or run.
fn of_plans(storage: &dyn Storage, plans: &[Plan], running: Option<&BTreeSet<Part>>) -> Result<Status> {
    let (finished, receipts) = (finished(storage, plans)?, receipt::parts(storage)?);
    Ok(Status {
        parts: parts(&receipts, running),
        is_changing: false,
        is_changed: plans.iter().any(|plan| plan.options.recipe.is_some()),
        shards: finished.len(),
        all_shards: plans.iter().map(|plan| plan.shards.len()).sum(),
        bytes: finished.iter().map(|(bytes, _)| bytes).sum(),
        all_bytes: plans.iter().flat_map(|plan| plan.shards.iter().map(|shard| plan.content_bytes(shard))).sum(),
        bytes_per_second: rate(&finished, wall_clock()),
        samples: plans.iter().map(Plan::samples).sum(),
        knows_running: running.is_some(),
        is_complete: !receipts.is_empty() && is_complete(plans, &receipts),
    })
}

/// Finished shards: length in bytes and, if the storage knows it without a request, time of finishing.
fn finished(storage: &dyn Storage, plans: &[Plan]) -> Result<Vec<(u64, Option<SystemTime>)>> {
    let of_plan = |plan: &Plan| -> Vec<[String; 2]> {
        let files = |number| [plan.shard_file(number), copy::index_file(plan, number)];
        let below = split_prefix(plan);
        (0..plan.shards.len()).map(|number| files(number).map(|file| format!("{below}{file}"))).collect()
    };
    let all: Vec<_> = plans.iter().flat_map(of_plan).collect();
    let there = lengths_of(storage, all.as_flattened())?;
    let mut finished = Vec::new();
    for [shard, index] in &all {
        // The index comes last.
        if let Some(bytes) = there.get(shard).filter(|_| there.contains_key(index)) {
            let changed = storage.changed_at_ns(index)?.and_then(|ns| u64::try_from(ns).ok());
            finished.push((*bytes, changed.map(|ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns))));
        }
    }
    Ok(finished)
}

/// Lengths in bytes of those of `files` that exist; of a store, of other files too.
fn lengths_of(storage: &dyn Storage, files: &[String]) -> Result<BTreeMap<String, u64>> {
    // A folder may have links to anywhere. A store lists about a thousand files with one request.
    if storage.local().is_some() {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        return Ok(lengths(storage, &files)?.into_iter().map(|(file, bytes)| (file.to_owned(), bytes)).collect());
    }
    let mut there = BTreeMap::new();
    storage.walk("", &mut |name, bytes| {
        there.insert(name.to_owned(), bytes);
        ControlFlow::Continue(())
    })?;
    Ok(there)
}

/// The state of each part, for the number of parts with most receipts and processes.
fn parts(receipts: &[Part], running: Option<&BTreeSet<Part>>) -> Vec<(Part, PartState)> {
    let mut counts = BTreeMap::<u32, f64>::new();
    for part in receipts.iter().chain(running.into_iter().flatten()) {
        *counts.entry(part.of).or_default() += 1.0 / f64::from(part.of);
    }
    let Some((of, _)) = counts.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b)) else { return Vec::new() };
    let state = |part: Part| match (receipts.contains(&part), running.is_some_and(|running| running.contains(&part))) {
        (true, _) => PartState::Done,
        (false, true) => PartState::Running,
        (false, false) => PartState::Missing,
    };
    Part::all(of).map(|part| (part, state(part))).collect()
}

/// Whether the parts that have receipts hold all shards.
fn is_complete(plans: &[Plan], receipts: &[Part]) -> bool {
    let mut all: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); plans.len()];
    for of in receipts.iter().map(|part| part.of).collect::<BTreeSet<_>>() {
        let done: BTreeSet<u32> = receipts.iter().filter(|part| part.of == of).map(|part| part.number).collect();
        for (all, owners) in all.iter_mut().zip(owners(of, plans)) {
            all.extend(owners.iter().enumerate().filter(|(_, owner)| done.contains(owner)).map(|(shard, _)| shard));
        }
    }
    plans.iter().zip(&all).all(|(plan, all)| all.len() == plan.shards.len())
}

/// Bytes per second of the shards finished recently, since the first of them.
fn rate(finished: &[(u64, Option<SystemTime>)], now: SystemTime) -> Option<f64> {
    let age = |time: &SystemTime| now.duration_since(*time).unwrap_or_default();
    let ages = finished.iter().filter_map(|(bytes, time)| Some((*bytes, time.as_ref().map(age)?)));
    let recent: Vec<(u64, Duration)> = ages.filter(|(_, age)| *age < RECENT).collect();
    let first = recent.iter().map(|(_, age)| *age).max()?;
    // The shard that was finished first began before that time.
    let bytes: u64 = recent.iter().filter(|(_, age)| *age < first).map(|(bytes, _)| bytes).sum();
    (bytes > 0).then(|| bytes as f64 / first.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use shardpack_storage::Memory;

    use super::*;

    #[test]
    fn packs_in_folders_of_formats_are_seen_without_a_local_folder() {
        let memory = Memory::new("memory:");
        let put = |name: &str| memory.put(name, vec![1]).unwrap();
        for name in ["x.txt", "mds/manifest.json", "notes/.shardpack/plan"] {
            put(name);
            assert!(before_plan(&memory, None).unwrap().is_none(), "{name}");
        }
        put("tfrecord/.shardpack/plan");
        put("webdataset/.shardpack/plan");
        let error = before_plan(&memory, None).unwrap_err();
        assert_eq!(error.what(), "holds several packs; unfinished: tfrecord, webdataset");
        assert_eq!(error.help_text(), Some("shardpack status memory:/tfrecord"));
    }
}

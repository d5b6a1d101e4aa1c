//! One part of a pack, beside other parts that may run at the same time, here or on other machines.
//!
//! Holds at all times: shared files are only added, by a rename or a link, and the same plan gives the same
//! bytes. So a part can be stopped anywhere and run again, or run twice at once. Each process keeps unfinished
//! files in its own folder. No file is removed that another process may use.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use shardpack_format::{
    Error, Result,
    image_header::Kind,
    manifest::{self},
    regular, size,
};
use shardpack_reader::Transfers;
use shardpack_runtime::Instant;
use shardpack_storage::{Storage, own};

use super::{
    Folders, Options, bytes_on_disk, copy_all, dataset_folder,
    destination::{self, known_bad},
    left_out, no_space,
    part_session::PartSession,
    planned_part::{Common, PlannedPart},
    receipt::{self, Receipt, Received},
    site::Site,
    strays, unpacked_bytes,
    work_folder::PLAN_FILE,
    work_of,
};
use crate::{
    copy::{self, OnBad},
    ledger::{Fate, Unpacked},
    monitor::{Monitor, Phase},
    part::Part,
    plan::Plan,
    plan_file::{self},
    sidecars, sys,
    transfer::{of_split, put_files},
};

/// Outcome of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its shards and its receipt are written.
    Done,
    /// The dataset was merged before: nothing was done.
    Sealed,
    /// Samples could not be packed, and the policy does not let the part continue without them: it has no
    /// receipt.
    Bad,
}

/// Result of a part.
#[derive(Debug)]
pub struct PartReport {
    /// How it ended.
    pub ended: Ended,
    /// Number of shards of the part.
    pub shards: usize,
    /// Number of its shards that were finished before.
    pub resumed_shards: usize,
    /// Number of samples in its shards.
    pub samples: u64,
    /// Length of their payloads in bytes.
    pub payload_bytes: u64,
    /// Samples of the part that could not be packed. If the plan lists bad samples, includes those of all parts.
    pub bad: Vec<Unpacked>,
    /// As in [`super::Report`].
    pub left_uploads: Vec<String>,
    /// Network transfers of writing, if the destination is a URL.
    pub transfers: Option<Transfers>,
    /// Images whose kind differs from the extension, the first few: path and kind.
    pub strays: Vec<(Vec<u8>, Kind)>,
    /// Number of all such images.
    pub stray_samples: u64,
    /// Duration without walk and plan.
    pub elapsed: Duration,
}

/// Packs a part into `dst`, or resumes it.
///
/// # Errors
/// On I/O errors, or if `dst` holds something else. Bad samples are in the report.
pub fn pack_part(planned: &PlannedPart, dst: &Path, options: &Options, monitor: &dyn Monitor) -> Result<PartReport> {
    pack_part_into(planned, &Site::open(dst, &options.store, options.work.as_deref())?, options, monitor)
}

/// As [`pack_part`].
pub(super) fn pack_part_into(
    planned: &PlannedPart,
    site: &Site,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<PartReport> {
    let start = Instant::now();
    let plans = planned.plans();
    if options.force {
        return Err(Error::usage("--force with --part: other parts may be done"));
    }
    plans.iter().try_for_each(|plan| sidecars::check(&options.sidecars, plan))?;
    plans.iter().try_for_each(|plan| copy::fit(plan, options.memory_bytes).map(drop))?;
    let folder = site.part_folder(planned.part);
    destination::refuse_inside(&folder, planned.planned.source.as_ref())?;
    destination::refuse_inside(site.storage.root(), planned.planned.source.as_ref())?;
    let known_bad = known_bad(plans);
    if options.on_bad == OnBad::Error && !known_bad.is_empty() {
        return Ok(PartReport { bad: known_bad, ..empty(planned, Ended::Bad, start) });
    }
    let packed = match site.sealed(plans)? {
        Some(_) => Ok(empty(planned, Ended::Sealed, start)),
        None => site
            .make_work()
            .and_then(|()| PartSession::begin(planned, &folder, site))
            .and_then(|beside| beside.pack(planned, &folder, site, options, monitor, start)),
    };
    let report = match packed {
        Ok(report) => report,
        Err(error) => {
            site.remove_if_empty();
            // Another process may have packed the same part, and all parts may have been merged meanwhile.
            match site.may_be_ended(&error) && site.sealed(plans).is_ok_and(|sealed| sealed.is_some()) {
                true => empty(planned, Ended::Sealed, start),
                false => return Err(error),
            }
        }
    };
    if let Ended::Done | Ended::Sealed = report.ended {
        site.remove_part_folder(planned.part)?;
    }
    Ok(PartReport { transfers: site.storage.transfers(), ..report })
}

fn empty(planned: &PlannedPart, ended: Ended, start: Instant) -> PartReport {
    PartReport { shards: planned.extent().0, ..PartReport::new(ended, start) }
}

impl PartReport {
    fn new(ended: Ended, start: Instant) -> Self {
        Self {
            ended,
            shards: 0,
            resumed_shards: 0,
            samples: 0,
            payload_bytes: 0,
            bad: Vec::new(),
            left_uploads: Vec::new(),
            transfers: None,
            strays: Vec::new(),
            stray_samples: 0,
            elapsed: start.elapsed(),
        }
    }

    /// Report for a dataset that was merged before the part was planned.
    pub fn sealed() -> Self {
        Self::new(Ended::Sealed, Instant::now())
    }
}

impl PartSession {
    /// Joins the parts at `site`, whose folder for this part is `dst`, or is the first to start.
    fn begin(planned: &PlannedPart, dst: &Path, site: &Site) -> Result<Self> {
        Self::join(planned.part, planned.plans(), (dst, site.storage.as_ref()), |beside| {
            let plan = beside.work.join(PLAN_FILE);
            site.join(planned, || planned.header(&beside.run.folder))?;
            // A store has the valid plan; the local one may be of an earlier plan.
            let is_copy = site.storage.local().is_none();
            if is_copy && sys::exists(&plan)? && planned.is_plan_at(&plan, dst).is_err() {
                beside.forget(dst)?;
            }
            if !sys::exists(&plan)? {
                beside.put_plan(planned, &plan)?;
            }
            planned.is_plan_at(&plan, dst)?;
            destination::create_folders(dst, planned.plans())
        })
    }

    /// Renames the plan into place, unless another part was first.
    fn put_plan(&self, planned: &PlannedPart, plan: &Path) -> Result<()> {
        let temporary = self.run.folder.join(PLAN_FILE);
        let file = match &planned.common {
            // With its samples if that costs nothing: then the work folder suffices to resume.
            Common::File(file, _) if file.canonicalize().is_ok_and(|file| own::link(&file, &temporary).is_ok()) => {
                regular::open(&temporary).map_err(|e| sys::io_error("cannot read", &temporary, e))?
            }
            Common::File(_, header) => header.write_to(&temporary)?,
            Common::Walk(plans) => plan_file::write_to(&temporary, planned.planned.source.as_ref(), plans)?,
        };
        // A process that gets here at the same moment has the same plan, or detects another.
        match own::publish(&file, &temporary, plan)? {
            true => sys::sync_folder(&self.work),
            false => Ok(()),
        }
    }

    fn pack(
        &self,
        planned: &PlannedPart,
        dst: &Path,
        site: &Site,
        options: &Options,
        monitor: &dyn Monitor,
        start: Instant,
    ) -> Result<PartReport> {
        let plans = planned.plans();
        let storage = &site.storage.with_work(&self.run.folder);
        let guard = site.guard(plans)?;
        let before = site.received(planned.part, plans, &options.sidecars)?;
        let is_done = before.is_some();
        let mut recalled = Vec::new();
        for plan in plans.iter().filter(|_| !is_done) {
            let (folder, work) = (dataset_folder(dst, plan), work_of(&self.work, plan.split.as_deref()));
            let storage = of_split(storage, plan.split.as_deref())?;
            recalled.push(copy::recall(plan, &folder, &work, storage.as_ref())?);
        }
        let recalled = before.map_or(recalled, |before| before.into_iter().map(|outcome| outcome.shards).collect());
        let have: u64 = recalled.iter().flat_map(BTreeMap::values).map(|shard| shard.entry.bytes).sum();
        let shards_bytes = bytes_on_disk(plans, storage.as_ref(), have);
        let unpacked = if is_done { 0 } else { unpacked_bytes(planned.planned.source.as_ref(), plans)? };
        let (needed, free) = (if is_done { 0 } else { shards_bytes + unpacked }, sys::free_bytes(dst)?);
        if needed > free {
            let what = format!("part {} needs {}, {} are free", planned.part, size::text(needed), size::text(free));
            return Err(no_space(what, dst));
        }
        let resumed_shards = recalled.iter().map(BTreeMap::len).sum();
        let total = |of: &dyn Fn(&Plan) -> u64| plans.iter().map(of).sum::<u64>();
        monitor.begin(Phase::Packing, total(&Plan::held_samples), total(&Plan::payload_bytes));
        for shard in recalled.iter().flat_map(BTreeMap::values) {
            monitor.recall(shard.entry.samples, shard.payload_bytes);
        }
        let outcomes = match is_done {
            true => {
                let of = |shards| copy::Outcome { shards, ..copy::Outcome::default() };
                recalled.into_iter().map(of).collect()
            }
            false => {
                // Uploads in flight take memory, too.
                let (jobs, memory_bytes) = storage.writers(options.jobs, options.memory_bytes);
                let options = Options { jobs, memory_bytes, ..options.clone() };
                let (work, shared) = (&self.run.folder, &self.work);
                let folders = Folders { dst, work, shared, storage, guard: guard.as_ref() };
                copy_all(&planned.planned, None, &folders, recalled, &options, monitor)?
            }
        };
        let bad: Vec<_> = left_out(plans, &outcomes).into_iter().filter(|entry| entry.fate == Fate::Skipped).collect();
        let is_bad = options.on_bad == OnBad::Error && !bad.is_empty();
        let sealed: Vec<_> = outcomes.iter().map(|outcome| outcome.shards.clone()).collect();
        if !is_bad && !is_done {
            let receipt = self.finish(planned.part, plans, &sealed, &options.sidecars, dst, storage)?;
            guard()?;
            receipt::put(storage.as_ref(), planned.part, &receipt)?;
        }
        let mut left_uploads = self.left_uploads.clone();
        left_uploads.extend(storage.abort_begun()?);
        let shards = || sealed.iter().flat_map(BTreeMap::values);
        Ok(PartReport {
            resumed_shards,
            samples: shards().map(|shard| shard.entry.samples).sum(),
            payload_bytes: shards().map(|shard| shard.payload_bytes).sum(),
            bad,
            left_uploads,
            strays: plans.iter().zip(&outcomes).flat_map(|(plan, outcome)| strays(plan, outcome)).collect(),
            stray_samples: shards().map(|shard| shard.stray_samples).sum(),
            ..empty(planned, if is_bad { Ended::Bad } else { Ended::Done }, start)
        })
    }

    /// Writes the sidecars of these shards and makes all files durable; returns the receipt.
    fn finish(
        &self,
        part: Part,
        plans: &[Plan],
        sealed: &[BTreeMap<usize, copy::Sealed>],
        sidecars: &sidecars::Choice,
        dst: &Path,
        storage: &Arc<dyn Storage>,
    ) -> Result<Receipt> {
        let (mut received, mut all_names) = (Vec::new(), Vec::new());
        for (plan, sealed) in plans.iter().zip(sealed) {
            let names = sidecars.names(plan)?;
            let folder = dataset_folder(dst, plan);
            let of_split_work = |work| work_of(work, plan.split.as_deref());
            let work = of_split_work(&self.run.folder);
            let storage = of_split(storage, plan.split.as_deref())?;
            let writer = sidecars::Writer {
                format: plan.format(),
                names: &names,
                only: None,
                hashes: BTreeMap::new(),
                dst: &folder,
                storage: storage.as_ref(),
                work: &work,
            };
            let entries: Vec<_> = sealed.values().map(|shard| shard.entry.clone()).collect();
            let components = plan.format().components();
            let written = writer.write_of_shards(&entries, components, &plan.options.compression.to_string())?;
            if storage.local().is_none() {
                let files: Vec<_> = written.iter().flatten().map(|file| file.file.as_str().into()).collect();
                put_files(storage.as_ref(), &folder, &files)?;
            }
            let shards = sealed.iter().zip(written);
            let shards =
                shards.map(|((number, sealed), sidecars)| (*number, Received { sealed: sealed.clone(), sidecars }));
            received.push(shards.collect());
            sys::sync_folder(&folder.join(manifest::INDEX_FOLDER))?;
            sys::sync_folder(&folder)?;
            all_names = names;
        }
        Receipt::new(part, plans, &all_names, received)
    }
}

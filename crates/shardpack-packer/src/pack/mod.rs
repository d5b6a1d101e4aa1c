//! Pack: source → plan → copy → seal.

mod announced;
mod destination;
mod existing;
mod existing_files;
mod geometry;
mod image_check;
mod merge;
mod merge_check;
mod moving;
mod newer;
mod part;
mod part_session;
mod part_spools;
mod plan_checks;
mod planned;
mod planned_part;
mod planning;
mod preprocess_part;
mod preprocess_target;
mod present;
mod process_dirs;
mod receipt;
mod report;
mod requests;
mod roles;
mod second_format;
mod site;
mod site_parts;
mod status;
#[cfg(test)]
mod tests;
mod transformed;
mod unchanged_shards;
mod warnings;
pub mod work_folder;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, ErrorKind, Result, image_header::Kind, manifest::LEDGER_FILE, size};
use shardpack_imaging::Recipe;
use shardpack_reader::StoreSettings;
use shardpack_runtime::Instant;
use shardpack_storage::Local;

pub use crate::own::{check_replaceable, no_link, put};
use crate::{
    copy::{self, Copy, OnBad},
    ledger::Fate,
    monitor::{Monitor, Phase},
    own,
    plan::{self, Plan},
    seal_dataset, selection, sidecars,
    source::{
        SampleReader, SharedSource, Source, options,
        storage::{self, ReadOrder, Storage},
    },
    sys, transfer,
};
pub use announced::Announced;
use destination::{Destination, State};
pub use destination::{known_bad, look_at};
use existing::path_prefix;
use image_check::ImageCheck;
pub use merge::{Merged, Missing, Options as MergeOptions, merge};
use newer::newer;
pub use part::{Ended, PartReport, pack_part};
pub use planned::planned;
pub use planned_part::PlannedPart;
pub use planning::{PartPlanning, plan_all, plan_part};
pub use preprocess_part::ChangedPart;
pub use preprocess_target::PreprocessTarget;
pub use report::Report;
use report::{in_ledgers, left_out, report, samples_of, strays};
pub use requests::{Requests, requests};
pub use roles::{BoxForm, Role};
use second_format::SecondFormat;
use site::Site;
pub use site::{check_destination, make_work, repair_folder};
pub use status::{PartState, Status, status};

/// The extension of images in the shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    /// The extension of the most common kind, for all images.
    #[default]
    MostCommon,
    /// Each image has the extension of its own kind.
    Content,
    /// This extension, for all images.
    Fixed(String),
}

/// Options of a plan, beside the source.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Options for walking the source.
    pub walk: options::Options,
    /// Filters that choose samples.
    pub survey: selection::Choice,
    /// Options that decide the bytes; [`PlanOptions::extension`] sets the extension in it.
    pub bytes: plan::Options,
    /// See [`Extension`].
    pub extension: Extension,
    /// Preprocessing of images before they are packed, if any.
    pub recipe: Option<Recipe>,
    /// Roles of components beside the images, by name, if the recipe moves pixels: see [`Role`].
    pub roles: Vec<(String, Role)>,
}

/// Options of a pack. Except for the choice of samples, they do not change the bytes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of threads that frame, hash and write.
    pub jobs: usize,
    /// Budget for images in flight, in bytes.
    pub memory_bytes: u64,
    /// Policy for bad samples.
    pub on_bad: OnBad,
    /// Order in which the source is read; chosen from the storage if `None`.
    pub read_order: Option<ReadOrderChoice>,
    /// Replace the contents of DST.
    pub force: bool,
    /// Which sidecars are written.
    pub sidecars: sidecars::Choice,
    /// Settings of the store, if the destination is a URL.
    pub store: StoreSettings,
    /// Folder for the plan and finished files of a pack to a URL; if `None`, the user's state folder.
    pub work: Option<PathBuf>,
}

/// `--read-order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrderChoice {
    /// Each shard in plan order.
    Plan,
    /// By inode.
    Physical,
}

/// Plans of all datasets of a source, and facts about the source.
#[derive(Debug)]
pub struct Planned {
    /// The source.
    pub source: SharedSource,
    /// One plan for each split, or one plan.
    pub plans: Vec<Plan>,
    /// Storage of the source.
    pub storage: Storage,
    /// Kinds of the inspected images; empty if the plan came from a file.
    pub kinds: BTreeMap<Kind, u64>,
    /// Warnings for the user before the work starts.
    pub notes: Vec<String>,
}

impl Planned {
    /// Name of the samples, for messages.
    pub fn noun(&self) -> &'static str {
        self.plans.first().map_or("image", Plan::noun)
    }

    /// Whether samples hold all data of the samples of `other`, a plan of the same source.
    pub fn serves(&self, other: &Self) -> bool {
        let format = |planned: &'_ Self| planned.plans.first().map(|plan| plan.options.format.clone());
        format(self).zip(format(other)).is_some_and(|(own, other)| own.components_cover(&other))
    }
}

/// Folder of the dataset of `plan` below `root`.
fn dataset_folder(root: &Path, plan: &Plan) -> PathBuf {
    plan.split.as_ref().map_or_else(|| root.to_path_buf(), |split| root.join(split))
}

/// Folder in `work` for unfinished files of `split`, or of a dataset without splits. It has no other files of
/// the work folder, so a split may have any name.
fn work_of(work: &Path, split: Option<&str>) -> PathBuf {
    split.map_or_else(|| work.to_path_buf(), |split| work.join("splits").join(split))
}

/// Length in bytes of the datasets on disk, indexes included.
pub fn needed_bytes(plans: &[Plan]) -> u64 {
    plans.iter().map(|plan| plan.shard_bytes() + plan.index_bytes()).sum()
}

/// Length in bytes of the temporary files of an unpacked source: of the largest split, because each is removed
/// before the next.
fn unpacked_bytes(source: &dyn Source, plans: &[Plan]) -> Result<u64> {
    let of_plans = plans.iter().map(|plan| source.unpacked_bytes(plan.split.as_deref(), &plan.listing));
    Ok(of_plans.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0))
}

/// The error for a full disk; `what` names needed and free bytes.
pub fn no_space(what: String, dst: &Path) -> Error {
    Error::new(ErrorKind::System, what).in_file(dst).help("free space, or choose another disk")
}

/// Number of the shards of `plans`, or of their parts, that are finished for a pack into `dst`, and the folder that shows it: `dst`
/// itself, or of a URL a folder of this machine.
///
/// # Errors
/// If files in it cannot be inspected.
pub fn finished_shards(plans: &[Plan], dst: &Path, options: &Options) -> Result<(usize, PathBuf)> {
    let (all, mut finished) = (Site::open(dst, &options.store, options.work.as_deref())?.folder(), 0);
    for plan in plans {
        let folder = dataset_folder(&all, plan);
        for shard in plan.held.clone() {
            // The index of a shard is written only once the shard is complete.
            finished += usize::from(sys::is_file(&folder.join(copy::index_file(plan, shard)))?);
        }
    }
    Ok((finished, all))
}

/// Checks, without looking at any folder, whether `planned` can be packed with these options.
///
/// # Errors
/// If the memory does not hold a sample, or the sidecars do not exist.
pub fn check(planned: &Planned, options: &Options) -> Result<()> {
    planned.plans.iter().try_for_each(|plan| {
        sidecars::check(&options.sidecars, plan)?;
        copy::fit(plan, options.memory_bytes).map(drop)
    })
}

/// Checks that `planned` can be packed, and only then sets the contents of `dst` aside and begins. Returns for
/// each plan the shards that an earlier run has finished.
fn prepare_destination(
    planned: &Planned,
    is_relayed: bool,
    (dst, storage): (&Path, &Arc<dyn shardpack_storage::Storage>),
    options: &Options,
    destination: &Destination,
    state: &State,
) -> Result<Vec<BTreeMap<usize, copy::Sealed>>> {
    let plans = &planned.plans;
    plans.iter().try_for_each(|plan| copy::fit(plan, options.memory_bytes).map(drop))?;
    let mut recalled = vec![BTreeMap::new(); plans.len()];
    if let State::Changed(changed) = state {
        destination.carry(dst, planned.source.as_ref(), plans, changed)?;
    }
    if let State::Begun | State::Changed(_) = state {
        destination::create_folders(dst, plans)?;
        for (recalled, plan) in recalled.iter_mut().zip(plans) {
            let (folder, work) = (dataset_folder(dst, plan), destination.work(plan)?);
            let storage = transfer::of_split(storage, plan.split.as_deref())?;
            if storage.local().is_some() {
                storage.abort_begun()?;
            }
            *recalled = copy::recall(plan, &folder, &work, storage.as_ref())?;
            copy::clear(plan, &folder, recalled)?;
        }
    }
    let have: u64 = recalled.iter().flat_map(BTreeMap::values).map(|shard| shard.entry.bytes).sum();
    let unpacked = if is_relayed { 0 } else { unpacked_bytes(planned.source.as_ref(), plans)? };
    let needed = bytes_on_disk(plans, storage.as_ref(), have) + unpacked;
    let (free, held) = (sys::free_bytes(dst)?, destination.held_bytes(state)?);
    if needed > free.saturating_add(held) {
        let besides = match held {
            0 => String::new(),
            _ => format!(", and {} in files to be replaced", size::text(held)),
        };
        let what = format!("needs {}, {} are free{besides}", size::text(needed), size::text(free));
        return Err(no_space(what, dst));
    }
    match state {
        State::New(held) => destination.begin(dst, planned.source.as_ref(), plans, held, needed > free)?,
        _ if needed > free => destination.remove_replaced()?,
        _ => {}
    }
    Ok(recalled)
}

/// Bytes that packing into `storage` still takes on a disk of this machine, if `have` bytes of shards are there. The free space of a
/// store is unknown.
fn bytes_on_disk(plans: &[Plan], storage: &dyn shardpack_storage::Storage, have: u64) -> u64 {
    match storage.local() {
        Some(_) => needed_bytes(plans).saturating_sub(have),
        None => plans.iter().map(Plan::index_bytes).sum(),
    }
}

/// Packs the plans into `dst`, or resumes. With `relay`, images are read from the dataset in that folder, which
/// was packed from a plan of the same source, so that the source is read once for several formats. If `relay`
/// is a URL, the source is read again.
///
/// # Errors
/// On I/O errors, or if `dst` holds something else. Bad samples are in the report.
pub fn pack(
    planned: &Planned,
    relay: Option<(&Planned, &Path)>,
    dst: &Path,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Report> {
    let site = Site::open(dst, &options.store, options.work.as_deref())?;
    match site.storage.local() {
        Some(folder) => pack_into(planned, relay, folder, &site, options, monitor),
        None => site.pack(planned, options, monitor),
    }
}

/// As [`pack`], into the folder `dst`: `site`, or the local folder of a URL, whose shards go there.
fn pack_into(
    planned: &Planned,
    relay: Option<(&Planned, &Path)>,
    dst: &Path,
    site: &Site,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Report> {
    let start = Instant::now();
    let plans = &planned.plans;
    // Invalid options are reported before any file is written.
    plans.iter().try_for_each(|plan| sidecars::check(&options.sidecars, plan))?;
    let (destination, state) =
        Destination::open(dst, planned.source.as_ref(), plans, options.force, site.storage.local().is_none())?;
    if let State::Sealed(manifests) = state {
        let other_sidecars = options.sidecars.differ(plans, &manifests)?;
        let read = |plan: &Plan| sys::read_opt(&dataset_folder(dst, plan).join(LEDGER_FILE));
        let unpacked = in_ledgers(plans, &manifests, read)?;
        let newer = newer(planned.source.as_ref(), plans, &Local::new(dst))?;
        let report = report(manifests, true, Vec::new(), &[], plans, 0, start);
        return Ok(Report { other_sidecars, newer, unpacked, ..report });
    }
    if !matches!(state, State::New(_)) {
        sidecars::refuse_strangers(&options.sidecars, plans, dst)?;
    }
    let stale = if let State::Changed(changed) = &state { changed.stale().to_vec() } else { Vec::new() };
    let storage = site.storage_in(&destination.work);
    let begun = prepare_destination(planned, relay.is_some(), (dst, &storage), options, &destination, &state);
    let begun = begun.and_then(|recalled| {
        let left = site.begin(plans, &stale, options.force);
        left.map(|left| (recalled, left))
    });
    let (recalled, left_uploads) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            destination.abandon(dst);
            return Err(error);
        }
    };
    let resumed_shards = recalled.iter().map(BTreeMap::len).sum();
    let changed = if let State::Changed(changed) = &state { Some(changed.to_string()) } else { None };
    let total = |of: &dyn Fn(&Plan) -> u64| plans.iter().map(of).sum::<u64>();
    monitor.begin(Phase::Packing, total(&|plan| plan.listing.len()), total(&Plan::payload_bytes));
    for shard in recalled.iter().flat_map(BTreeMap::values) {
        monitor.recall(shard.entry.samples, shard.payload_bytes);
    }

    let guard = site.guard(plans)?;
    let folders =
        Folders { dst, work: &destination.work, shared: &destination.work, storage: &storage, guard: guard.as_ref() };
    let outcomes = copy_all(planned, relay, &folders, recalled, options, monitor)?;
    let unpacked = left_out(plans, &outcomes);
    let is_bad = unpacked.iter().any(|entry| entry.fate == Fate::Skipped);
    if is_bad && options.on_bad == OnBad::Error {
        let report = report(Vec::new(), false, unpacked, &outcomes, plans, resumed_shards, start);
        return Ok(Report { replaced: destination.replaced()?, changed, left_uploads, ..report });
    }
    // An empty dataset would look valid.
    if let Some((plan, _)) = plans.iter().zip(&outcomes).find(|(_, outcome)| samples_of(outcome) == 0) {
        let reason = unpacked
            .iter()
            .find(|entry| entry.fate == Fate::Skipped)
            .map_or_else(String::new, |first| size::first_of(plan.listing.len(), &first.reason));
        let what = format!("none of {} could be packed{reason}", size::counted(plan.listing.len(), plan.noun()));
        return Err(Error::data(what).in_file(dataset_folder(dst, plan)));
    }
    let mut manifests = Vec::new();
    for (plan, outcome) in plans.iter().zip(&outcomes) {
        let sidecars = options.sidecars.names(plan)?;
        let (folder, work) = (dataset_folder(dst, plan), destination.work(plan)?);
        let storage = transfer::of_split(&storage, plan.split.as_deref())?;
        manifests.push(seal_dataset::seal(plan, &outcome.shards, &sidecars, None, (&folder, storage.as_ref()), &work)?);
    }
    destination.close(dst, plans, &manifests)?;
    let report = report(manifests, false, unpacked, &outcomes, plans, resumed_shards, start);
    Ok(Report { changed, left_uploads, ..report })
}

/// Destination folders of a pack.
struct Folders<'a> {
    dst: &'a Path,
    /// Work folder of this process.
    work: &'a Path,
    /// Work folder shared by all processes that pack into `dst`.
    shared: &'a Path,
    /// Receives the shards: `dst`, or a URL.
    storage: &'a Arc<dyn shardpack_storage::Storage>,
    /// As in [`Copy::guard`].
    guard: &'a (dyn Fn() -> Result<()> + Sync),
}

/// Copies the shards of each plan that are not in `recalled`.
fn copy_all(
    planned: &Planned,
    relay: Option<(&Planned, &Path)>,
    folders: &Folders<'_>,
    recalled: Vec<BTreeMap<usize, copy::Sealed>>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Vec<copy::Outcome>> {
    let mut outcomes = Vec::new();
    for (number, (plan, sealed)) in planned.plans.iter().zip(recalled).enumerate() {
        let of_split = |work| own::folder(work, work_of(Path::new(""), plan.split.as_deref()));
        let (work, shared) = (of_split(folders.work)?, of_split(folders.shared)?);
        let source: Box<dyn SampleReader> = match relay {
            Some((first, folder)) => {
                let kinds = &plan.listing.components().kinds;
                Box::new(SecondFormat::open(&dataset_folder(folder, plan), &first.plans[number], kinds)?)
            }
            None => planned.source.open(plan.split.as_deref(), &plan.listing, Some(&work), monitor)?,
        };
        let asked = image_check::asked(planned.source.as_ref(), plan).filter(|_| relay.is_none());
        let source: Box<dyn SampleReader> = match asked.as_deref() {
            Some(asked) => Box::new(ImageCheck { source, asked }),
            None => source,
        };
        let folder = dataset_folder(folders.dst, plan);
        let storage = transfer::of_split(folders.storage, plan.split.as_deref())?;
        let hashes = options.sidecars.hashes(plan)?;
        let copy = Copy {
            plan,
            source: source.as_ref(),
            dst: &folder,
            storage: storage.as_ref(),
            guard: folders.guard,
            work: &work,
            shared: &shared,
            hashes: &hashes,
            // Files just written are in the page cache, or in this order on disk.
            read_order: if relay.is_some() { ReadOrder::Plan } else { read_order(options.read_order, planned) },
            jobs: if relay.is_some() { options.jobs } else { reading_threads(options, planned) },
            memory_bytes: options.memory_bytes,
            on_bad: options.on_bad,
            monitor,
        };
        outcomes.push(copy.run(sealed)?);
    }
    Ok(outcomes)
}

/// The order in which the source will be read.
pub fn read_order(choice: Option<ReadOrderChoice>, planned: &Planned) -> ReadOrder {
    match choice {
        None => planned.storage.read_order,
        Some(ReadOrderChoice::Plan) => ReadOrder::Plan,
        Some(ReadOrderChoice::Physical) => storage::physical(planned.source.read_at()),
    }
}

/// Number of threads that copy. If they read in plan order over a network, more than `jobs`.
pub fn reading_threads(options: &Options, planned: &Planned) -> usize {
    match read_order(options.read_order, planned) {
        ReadOrder::Plan => storage::stream_threads(planned.source.read_at(), options.jobs),
        ReadOrder::Physical { .. } => options.jobs,
    }
}

/// Prefix of the files of a dataset relative to the destination: empty, or `train/`.
fn split_prefix(plan: &Plan) -> String {
    plan.split.as_ref().map_or_else(String::new, |split| format!("{split}/"))
}

/// Parses `bytes` as the receipt of a part, for fuzzing.
///
/// # Errors
/// Why the receipt is invalid.
#[doc(hidden)]
pub fn fuzz_receipt(bytes: &[u8]) -> Result<()> {
    receipt::fuzz(bytes)
}

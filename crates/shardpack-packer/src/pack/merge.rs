//! Merge: seals the receipts of all parts into one dataset, as one machine would have made it.
//!
//! No sample is read, unless hashes of all shards are requested.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use shardpack_format::{
    Error, Result, hash,
    manifest::{self, Manifest, WORK_FOLDER},
    size,
};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_runtime::Instant;
use shardpack_storage::{Access, Storage};

use super::{
    dataset_folder, destination,
    merge_check::{ShardCheck, check},
    part_spools, path_prefix, present,
    receipt::{self, PartReceipt, Received},
    site::Site,
    work_folder::LOCK_FILE,
    work_of,
};
use crate::{
    copy::Sealed,
    ledger::{Fate, Unpacked},
    monitor::Monitor,
    own,
    part::{Part, owners},
    plan::Plan,
    seal_dataset, sidecars, sys,
    transfer::of_split,
};

/// The merging process holds this lock.
const MERGE_LOCK_FILE: &str = "merge.lock";

/// Options of a merge.
#[derive(Clone, Debug)]
pub struct Options {
    /// Hash all shards and indexes too.
    pub verify: bool,
    /// Number of threads.
    pub jobs: usize,
    /// Settings of the store, if DST is a URL.
    pub store: StoreSettings,
    /// As in [`super::Options`].
    pub work: Option<PathBuf>,
}

/// Parts without a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The parts whose receipts would complete the dataset.
    pub parts: Vec<Part>,
    /// Number of shards that no receipt has.
    pub shards: usize,
    /// Number of all shards.
    pub of: usize,
    /// Whether the plan in the work folder has samples, so that it can be used to pack the missing parts.
    pub has_plan: bool,
    /// Whether images were preprocessed. No plan file records that: the missing parts need the command of the
    /// others.
    pub is_changed: bool,
}

/// Result of a merge.
#[derive(Debug)]
pub struct Merged {
    /// Manifests of the datasets, if they were sealed.
    pub manifests: Vec<Manifest>,
    /// The datasets were sealed before: nothing was done.
    pub already_sealed: bool,
    /// The missing parts, if any.
    pub missing: Option<Missing>,
    /// Number of receipts found.
    pub receipts: usize,
    /// Files that differ from the receipts: name and problem.
    pub problems: Vec<(String, String)>,
    /// All images that were found but are not in the shards.
    pub unpacked: Vec<Unpacked>,
    /// Number of images whose kind differs from the extension.
    pub stray_samples: u64,
    /// Network transfers, if the parts are at a URL.
    pub transfers: Option<Transfers>,
    /// Duration of the merge.
    pub elapsed: Duration,
}

/// Place of the parts.
pub(super) struct At<'a> {
    /// DST itself, or at a URL a local folder.
    pub folder: PathBuf,
    site: &'a Site,
}

impl At<'_> {
    /// The work folder.
    fn work(&self) -> PathBuf {
        self.folder.join(WORK_FOLDER)
    }

    /// Costs and risks of reads.
    pub fn access(&self) -> Access {
        self.site.storage.access()
    }

    /// The storage of `folder`, which is the merge folder or a split below it.
    pub fn storage(&self, folder: &Path) -> Result<Arc<dyn Storage>> {
        let split = folder.strip_prefix(&self.folder).ok().and_then(Path::to_str);
        of_split(&self.site.storage, split.filter(|split| !split.is_empty()))
    }

    /// Reads a small file; `None` if it is missing. Over a network, reads it again if its hash differs from the one in `file`.
    pub fn read(&self, folder: &Path, file: &manifest::File) -> Result<Option<Vec<u8>>> {
        let is_right = |bytes: &[u8]| hash::file(bytes) == file.blake3.0;
        self.storage(folder)?.read_right(&file.file, Some(file.bytes), is_right)
    }

    /// Downloads the index of a shard at a URL into the folder; returns whether it did.
    pub fn fetch(&self, folder: &Path, file: &manifest::File) -> Result<bool> {
        if self.site.storage.local().is_some() {
            return Ok(false);
        }
        let path = folder.join(&file.file);
        own::folder(folder, Path::new(&file.file).parent().unwrap_or(Path::new("")))?;
        let gone = || Error::data("was removed while it was read").in_file(&path);
        let bytes = self.read(folder, file)?.ok_or_else(gone)?;
        own::write(&path, &bytes).map(|()| true)
    }
}

impl Merged {
    /// Whether there is a sealed dataset now.
    pub fn is_sealed(&self) -> bool {
        !self.manifests.is_empty()
    }
}

/// Seals the parts in `dst`.
///
/// # Errors
/// If nothing was packed in parts there, a receipt is invalid, or on I/O errors. Missing parts are in the
/// report.
pub fn merge(dst: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Merged> {
    merge_into(&Site::open(dst, &options.store, options.work.as_deref())?, options, monitor)
}

/// As [`merge`].
pub(super) fn merge_into(site: &Site, options: &Options, monitor: &dyn Monitor) -> Result<Merged> {
    let start = Instant::now();
    let at = At { folder: site.merge_folder(), site };
    let merged = merge_at(&at, options, monitor).or_else(|error| {
        // Another machine may have sealed the same parts meanwhile, and has removed the plan.
        match site.storage.local().is_none() && site.may_be_ended(&error) {
            true => merged_before(&at, options, monitor).map_err(|_| error),
            false => Err(error),
        }
    });
    if site.storage.local().is_none() && merged.as_ref().is_ok_and(Merged::is_sealed) {
        own::remove_folder(&at.folder)?;
    }
    site.remove_if_empty();
    let transfers = site.storage.transfers();
    merged.map(|merged| Merged { transfers, elapsed: start.elapsed(), ..merged })
}

/// A merge that has done nothing yet.
fn nothing() -> Merged {
    Merged {
        manifests: Vec::new(),
        already_sealed: false,
        missing: None,
        receipts: 0,
        problems: Vec::new(),
        unpacked: Vec::new(),
        stray_samples: 0,
        transfers: None,
        elapsed: Duration::ZERO,
    }
}

fn merge_at(at: &At<'_>, options: &Options, monitor: &dyn Monitor) -> Result<Merged> {
    let (dst, work) = (at.site.storage.root(), at.work());
    own::check(&at.folder, WORK_FOLDER)?;
    if at.site.plan()?.is_none() {
        return merged_before(at, options, monitor);
    }
    at.site.make_work()?;
    own::work_folder(&at.folder, WORK_FOLDER)?;
    let _shared = sys::Lock::share(&work.join(LOCK_FILE))?;
    let _alone = sys::Lock::take_where_there_are_locks(&work.join(MERGE_LOCK_FILE))?;
    let ended = || Error::usage("another merge has just ended here").in_file(dst);
    let header = at.site.plan()?.ok_or_else(ended)?;
    let plans = header.plans()?;
    if let Some(manifests) = at.site.manifests(&plans)? {
        return stopped_at_end(at, &plans, manifests, options, monitor);
    }
    let found = receipt::all(at.site.storage.as_ref(), &plans);
    // Another merge that ends meanwhile removes receipts, after the plan.
    at.site.plan()?.ok_or_else(ended)?;
    let found = found?;
    let receipts = found.len();
    let choice = sidecars::Choice::Names(same_sidecars(&found)?);
    let sealed = match united(at, &plans, &found, header.has_samples)? {
        Ok(sealed) => sealed,
        Err(missing) => return Ok(Merged { missing: Some(missing), receipts, ..nothing() }),
    };
    drop(found);
    let looked = plans.iter().zip(&sealed).flat_map(|(plan, shards)| {
        let folder = dataset_folder(&at.folder, plan);
        shards.values().map(move |shard| ShardCheck {
            folder: folder.clone(),
            entry: &shard.sealed.entry,
            sidecars: &shard.sidecars,
            by: "receipt",
        })
    });
    let problems = check(at, &looked.collect::<Vec<_>>(), options, monitor)?;
    if !problems.is_empty() {
        return Ok(Merged { problems, receipts, ..nothing() });
    }
    if let Some((plan, _)) = plans.iter().zip(&sealed).find(|(_, sealed)| samples_of(sealed) == 0) {
        let what = format!("none of {} could be packed", size::counted(plan.samples(), plan.noun()));
        return Err(Error::data(what).in_file(dataset_folder(dst, plan)));
    }
    let manifests = seal_all(at, &plans, &sealed, &choice)?;
    let shards = || sealed.iter().flat_map(BTreeMap::values).map(|shard| &shard.sealed);
    let stray_samples = shards().map(|shard| shard.stray_samples).sum();
    Ok(Merged { manifests, receipts, unpacked: unpacked_of(&plans, &sealed), stray_samples, ..nothing() })
}

/// Ends a merge at a place without a plan: it is sealed already, or nothing was packed in parts.
fn merged_before(at: &At<'_>, options: &Options, monitor: &dyn Monitor) -> Result<Merged> {
    let sealed = sealed_before(at);
    if !matches!(sealed, Ok(Some(_))) && !part_spools::parts(at.site.storage.as_ref())?.is_empty() {
        return Err(Error::usage("images were changed in parts here, and nothing is packed yet")
            .in_file(at.site.storage.root())
            .help("shardpack status DST shows which parts are missing; when all are changed, the same commands pack"));
    }
    let Some(sealed) = sealed? else {
        return Err(Error::usage("nothing was packed in parts here")
            .in_file(at.site.storage.root())
            .help("shardpack pack SRC DST --part I/N packs one of N parts"));
    };
    still_right(at, &sealed, options, monitor)?;
    match at.site.storage.local() {
        Some(folder) => destination::remove_rest(folder)?,
        None => at.site.remove_shared()?,
    }
    let manifests = sealed.into_iter().map(|(_, manifest)| manifest).collect();
    Ok(Merged { manifests, already_sealed: true, ..nothing() })
}

/// Ends an earlier merge, which was stopped after its manifests and before its plan was removed.
fn stopped_at_end(
    at: &At<'_>,
    plans: &[Plan],
    manifests: Vec<Manifest>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Merged> {
    let folders = plans.iter().map(|plan| dataset_folder(&at.folder, plan));
    let sealed = folders.zip(manifests.iter().cloned()).collect::<Vec<_>>();
    present::check(&at.site.storage, plans, &manifests)?;
    still_right(at, &sealed, options, monitor)?;
    at.site.remove_shared()?;
    Ok(Merged { manifests, already_sealed: true, ..nothing() })
}

/// Seals all datasets, and removes the plan.
fn seal_all(
    at: &At<'_>,
    plans: &[Plan],
    sealed: &[BTreeMap<usize, Received>],
    choice: &sidecars::Choice,
) -> Result<Vec<Manifest>> {
    let work = at.work();
    let mut manifests = Vec::new();
    for (plan, received) in plans.iter().zip(sealed) {
        let names = choice.names(plan)?;
        let folder = dataset_folder(&at.folder, plan);
        let work = own::folder(&work, work_of(Path::new(""), plan.split.as_deref()))?;
        let of_shards = received.values().flat_map(|shard| &shard.sidecars).cloned().collect();
        let sealed = received.iter().map(|(number, shard)| (*number, shard.sealed.clone())).collect();
        let storage = at.storage(&folder)?;
        manifests.push(seal_dataset::seal(plan, &sealed, &names, Some(of_shards), (&folder, storage.as_ref()), &work)?);
    }
    seal_dataset::seal_splits(plans, &manifests, &at.folder, &work)?;
    match at.site.storage.local() {
        Some(folder) => sys::sync_folder(folder)?,
        None => drop(at.site.put_dataset(plans, &at.folder)?),
    }
    at.site.remove_shared()?;
    Ok(manifests)
}

/// Images of the plans that the shards do not hold.
fn unpacked_of(plans: &[Plan], sealed: &[BTreeMap<usize, Received>]) -> Vec<Unpacked> {
    let mut unpacked = Vec::new();
    for (plan, sealed) in plans.iter().zip(sealed) {
        let known = plan.unpacked.iter().filter(|entry| entry.fate != Fate::Kept);
        let all = known.chain(sealed.values().flat_map(|shard| &shard.sealed.unpacked)).cloned();
        let prefix = path_prefix(plan);
        unpacked.extend(all.map(|entry| Unpacked { path: [prefix.as_bytes(), &entry.path].concat(), ..entry }));
    }
    unpacked
}

fn samples_of(shards: &BTreeMap<usize, Received>) -> u64 {
    shards.values().map(|shard| shard.sealed.entry.samples).sum()
}

/// The sidecars, which must be the same in all receipts.
fn same_sidecars(found: &[PartReceipt]) -> Result<Vec<String>> {
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    match found.iter().find(|other| other.sidecars != first.sidecars) {
        None => Ok(first.sidecars.clone()),
        Some(other) => {
            let named =
                |of: &PartReceipt| if of.sidecars.is_empty() { "none".to_owned() } else { of.sidecars.join(",") };
            let what = format!(
                "part {} has --sidecars {}, part {} has {}",
                first.part,
                named(first),
                other.part,
                named(other)
            );
            Err(Error::usage(what).help("pack one part again with the --sidecars of the other"))
        }
    }
}

/// The datasets in `dst` with their folders, if there are any and none is unfinished.
fn sealed_before(at: &At<'_>) -> Result<Option<Vec<(PathBuf, Manifest)>>> {
    let Some(dst) = at.site.storage.local() else {
        let manifests = at.site.existing(&[])?.manifests.into_iter().map(|(split, manifest)| {
            let folder = split.map_or_else(|| at.folder.clone(), |split| at.folder.join(split));
            let damaged =
                || Error::data("has a manifest that cannot be read").in_file(at.site.storage.root()).help(NAMES_ALL);
            Ok((folder, manifest.ok_or_else(damaged)?))
        });
        return Ok(Some(manifests.collect::<Result<Vec<_>>>()?).filter(|manifests| !manifests.is_empty()));
    };
    let folders = match sys::exists(&dst.join(manifest::FILE))? {
        true => vec![dst.to_path_buf()],
        false => shardpack_reader::splits(dst)?.into_iter().map(|split| split.path).collect(),
    };
    let mut manifests = Vec::new();
    for folder in folders {
        let path = folder.join(manifest::FILE);
        let bytes = sys::read_opt(&path)?.unwrap_or_default();
        let manifest = Manifest::read(&bytes).and_then(|manifest| manifest.check_id(&bytes).map(|()| manifest));
        manifests.push((folder, manifest.map_err(|error| error.in_file(path))?));
    }
    Ok(Some(manifests).filter(|manifests| !manifests.is_empty()))
}

/// Fails if the files of datasets that were merged before differ from their manifests; runs the checks before a
/// seal.
fn still_right(at: &At<'_>, sealed: &[(PathBuf, Manifest)], options: &Options, monitor: &dyn Monitor) -> Result<()> {
    let all: Vec<ShardCheck<'_>> = sealed
        .iter()
        .flat_map(|(folder, manifest)| {
            let sidecars = std::iter::once(&manifest.sidecars[..]).chain(std::iter::repeat(&[][..]));
            manifest.shards.iter().zip(sidecars).map(|(entry, sidecars)| ShardCheck {
                folder: folder.clone(),
                entry,
                sidecars,
                by: "manifest",
            })
        })
        .collect();
    let problems = check(at, &all, options, monitor)?;
    let Some((file, what)) = problems.first() else { return Ok(()) };
    let more = if problems.len() > 1 { format!(", and {} more", problems.len() - 1) } else { String::new() };
    Err(Error::data(format!("was merged, and is damaged now: {file} {what}{more}"))
        .in_file(at.site.storage.root())
        .help(NAMES_ALL))
}

const NAMES_ALL: &str = "shardpack verify names all that is damaged, and --repair SRC mends it";

type Shards = Vec<BTreeMap<usize, Received>>;

/// The shards of all receipts, or the missing parts.
fn united(
    at: &At<'_>,
    plans: &[Plan],
    found: &[PartReceipt],
    has_plan: bool,
) -> Result<std::result::Result<Shards, Missing>> {
    let mut all: Shards = vec![BTreeMap::new(); plans.len()];
    for (number, plan) in plans.iter().enumerate() {
        let mut disputed = BTreeSet::new();
        for receipt in found {
            for (shard, received) in &receipt.shards[number] {
                match all[number].get(shard) {
                    None => drop(all[number].insert(*shard, received.clone())),
                    Some(other) if other == received => {}
                    Some(_) => drop(disputed.insert(*shard)),
                }
            }
        }
        for shard in disputed {
            let says = |receipt: &&PartReceipt| match receipt.shards[number].get(&shard) {
                Some(shard) => is_index(at, plan, &shard.sealed),
                None => Ok(false),
            };
            let mut right = None;
            for receipt in found {
                if right.is_none() && says(&receipt)? {
                    right = Some(receipt);
                }
            }
            let Some(right) = right else {
                let file = plan.shard_file(shard);
                return Err(Error::data("receipts of two parts differ on this shard, and neither is right")
                    .in_file(dataset_folder(at.site.storage.root(), plan).join(file))
                    .help("pack those parts again"));
            };
            let received = right.shards[number][&shard].clone();
            all[number].insert(shard, received);
        }
    }
    let of = plans.iter().map(|plan| plan.shards.len()).sum();
    let shards = of - all.iter().map(BTreeMap::len).sum::<usize>();
    if shards == 0 {
        return Ok(Ok(all));
    }
    let counts: BTreeSet<u32> = found.iter().map(|receipt| receipt.part.of).collect();
    let parts = missing_parts(plans, |plan, shard| all[plan].contains_key(&shard), counts);
    let is_changed = plans.iter().any(|plan| plan.options.recipe.is_some());
    Ok(Err(Missing { parts, shards, of, has_plan, is_changed }))
}

/// The parts of the shards for which `has` (number of the plan, number of the shard) is false. Of several
/// numbers of parts, the one that repeats the least work.
pub(super) fn missing_parts(
    plans: &[Plan],
    has: impl Fn(usize, usize) -> bool,
    counts: impl IntoIterator<Item = u32>,
) -> Vec<Part> {
    let of_count = |of: u32| -> BTreeSet<Part> {
        let owners = owners(of, plans);
        let of_plan = |(plan, owners): (usize, Vec<u32>)| {
            let lacking: Vec<u32> = owners
                .into_iter()
                .enumerate()
                .filter(|(shard, _)| !has(plan, *shard))
                .map(|(_, owner)| owner)
                .collect();
            lacking
        };
        owners.into_iter().enumerate().flat_map(of_plan).map(|number| Part { number, of }).collect()
    };
    let share = |parts: &BTreeSet<Part>| parts.iter().map(|part| 1.0 / f64::from(part.of)).sum::<f64>();
    let parts = counts.into_iter().map(of_count).min_by(|a, b| share(a).total_cmp(&share(b)));
    parts.unwrap_or_default().into_iter().collect()
}

/// Whether the existing index is the one in `sealed`.
fn is_index(at: &At<'_>, plan: &Plan, sealed: &Sealed) -> Result<bool> {
    let bytes = at.read(&dataset_folder(&at.folder, plan), &sealed.entry.index)?;
    Ok(bytes.is_some_and(|bytes| hash::file(&bytes) == sealed.entry.index.blake3.0))
}

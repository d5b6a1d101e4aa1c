//! Merge: receipts of all parts become one sealed dataset, as one machine would have made it.
//!
//! No sample is read, unless the hashes of all shards are asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use shardpack_format::{
    Error, Result, hash,
    index::Head,
    manifest::{self, Manifest, WORK_FOLDER},
    size,
};

use super::{
    dataset_folder,
    destination::{self, LOCK_FILE, PLAN_FILE},
    receipt::{self, Found, Received},
    split_prefix, spools, work_of,
};
use crate::{
    copy::Sealed,
    ledger::{Fate, Unpacked},
    monitor::{Monitor, Phase},
    part::{Part, owners},
    plan::Plan,
    plan_file, seal, sidecars, sys,
};

/// Held by the one that merges.
const MERGE_LOCK_FILE: &str = "merge.lock";
/// Bytes of a shard that are hashed between two looks at whether to go on.
const HASHED_BYTES: usize = 8 << 20;

/// How a merge is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// Hash all shards and indexes, too.
    pub verify: bool,
    /// Threads.
    pub jobs: usize,
}

/// A part without a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The parts whose receipts would complete what there is.
    pub parts: Vec<Part>,
    /// Shards that no receipt has.
    pub shards: usize,
    /// All shards.
    pub of: usize,
    /// Whether the plan in the work folder has samples, so that the missing parts can be packed by it.
    pub has_plan: bool,
    /// Whether images were changed, which no plan file says: the missing parts are packed by the command of the others.
    pub is_changed: bool,
}

/// What became of a merge.
#[derive(Debug)]
pub struct Merged {
    /// The datasets, if they were sealed.
    pub manifests: Vec<Manifest>,
    /// They were before: nothing was done.
    pub already_sealed: bool,
    /// What is missing, if anything is.
    pub missing: Option<Missing>,
    /// Receipts that were there.
    pub receipts: usize,
    /// Files that are not what the receipts say: name and what is wrong.
    pub problems: Vec<(String, String)>,
    /// All that was found and is not in the shards.
    pub unpacked: Vec<Unpacked>,
    /// Images whose kind is not that of the extension.
    pub stray_samples: u64,
    /// How long it took.
    pub elapsed: Duration,
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
/// When nothing was packed in parts there, a receipt is not right, or the machine is not. What is missing is in the report.
pub fn merge(dst: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Merged> {
    let start = Instant::now();
    let report = || Merged {
        manifests: Vec::new(),
        already_sealed: false,
        missing: None,
        receipts: 0,
        problems: Vec::new(),
        unpacked: Vec::new(),
        stray_samples: 0,
        elapsed: start.elapsed(),
    };
    let work = dst.join(WORK_FOLDER);
    if !sys::is_there(&work.join(PLAN_FILE))? {
        let sealed = sealed_before(dst);
        if !matches!(sealed, Ok(Some(_))) && !spools::parts(&work)?.is_empty() {
            return Err(Error::usage("images were changed in parts here, and nothing is packed yet")
                .in_file(dst)
                .help(
                    "shardpack status DST tells whose images are missing; when all are changed, the same commands pack",
                ));
        }
        return match sealed? {
            Some(sealed) => {
                still_right(dst, &sealed, options, monitor)?;
                destination::remove_rest(&work)?;
                let manifests = sealed.into_iter().map(|(_, manifest)| manifest).collect();
                Ok(Merged { manifests, already_sealed: true, ..report() })
            }
            None => Err(Error::usage("nothing was packed in parts here")
                .in_file(dst)
                .help("shardpack pack SRC DST --part I/N packs one of N parts")),
        };
    }
    let _shared = sys::Lock::share(&work.join(LOCK_FILE))?;
    let _alone = sys::Lock::take_where_there_are_locks(&work.join(MERGE_LOCK_FILE))?;
    let header = plan_file::read_header(&work.join(PLAN_FILE))?;
    let plans = header.plans()?;
    if let Some(manifests) = destination::sealed_here(dst, &plans)? {
        // A merge that was stopped when all was done but this.
        destination::still_there(dst, &plans, &manifests)?;
        let folders = plans.iter().map(|plan| dataset_folder(dst, plan));
        still_right(dst, &folders.zip(manifests.iter().cloned()).collect::<Vec<_>>(), options, monitor)?;
        destination::remove_folder(&work)?;
        destination::make_durable(dst)?;
        return Ok(Merged { manifests, already_sealed: true, ..report() });
    }
    let found = receipt::read_all(&work, &plans)?;
    let receipts = found.len();
    let choice = sidecars::Choice::Names(same_sidecars(&found)?);
    let sealed = match united(dst, &plans, &found, header.has_samples)? {
        Ok(sealed) => sealed,
        Err(missing) => return Ok(Merged { missing: Some(missing), receipts, ..report() }),
    };
    drop(found);
    let looked = plans.iter().zip(&sealed).flat_map(|(plan, shards)| {
        let folder = dataset_folder(dst, plan);
        shards.values().map(move |shard| Looked {
            folder: folder.clone(),
            entry: &shard.sealed.entry,
            sidecars: &shard.sidecars,
            by: "receipt",
        })
    });
    let problems = check(dst, &looked.collect::<Vec<_>>(), options, monitor)?;
    if !problems.is_empty() {
        return Ok(Merged { problems, receipts, ..report() });
    }
    if let Some((plan, _)) = plans.iter().zip(&sealed).find(|(_, sealed)| samples_of(sealed) == 0) {
        let what = format!("none of {} could be packed", size::counted(plan.samples(), plan.noun()));
        return Err(Error::data(what).in_file(dataset_folder(dst, plan)));
    }
    let mut manifests = Vec::new();
    for (plan, received) in plans.iter().zip(&sealed) {
        let names = choice.names(plan)?;
        let (folder, work) = (dataset_folder(dst, plan), work_of(&work, plan.split.as_deref()));
        sys::create_folder(&work)?;
        let of_shards = received.values().flat_map(|shard| &shard.sidecars).cloned().collect();
        let sealed = received.iter().map(|(number, shard)| (*number, shard.sealed.clone())).collect();
        manifests.push(seal::seal(plan, &sealed, &names, Some(of_shards), (&folder, None), &work)?);
    }
    seal::seal_splits(&plans, &manifests, dst, &work)?;
    sys::sync_folder(dst)?;
    // Without the plan nothing looks unfinished, whatever of the folder is left.
    sys::remove_file(&work.join(PLAN_FILE))?;
    destination::remove_folder(&work)?;
    destination::make_durable(dst)?;
    let shards = || sealed.iter().flat_map(BTreeMap::values).map(|shard| &shard.sealed);
    let stray_samples = shards().map(|shard| shard.stray_samples).sum();
    let mut unpacked = Vec::new();
    for (plan, sealed) in plans.iter().zip(&sealed) {
        let known = plan.unpacked.iter().filter(|entry| entry.fate != Fate::Kept);
        let all = known.chain(sealed.values().flat_map(|shard| &shard.sealed.unpacked)).cloned();
        let prefix = split_prefix(plan);
        unpacked.extend(all.map(|entry| Unpacked { path: [prefix.as_bytes(), &entry.path].concat(), ..entry }));
    }
    Ok(Merged { manifests, receipts, unpacked, stray_samples, ..report() })
}

fn samples_of(shards: &BTreeMap<usize, Received>) -> u64 {
    shards.values().map(|shard| shard.sealed.entry.samples).sum()
}

/// The sidecars that all receipts have.
fn same_sidecars(found: &[Found]) -> Result<Vec<String>> {
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    match found.iter().find(|other| other.sidecars != first.sidecars) {
        None => Ok(first.sidecars.clone()),
        Some(other) => {
            let named = |of: &Found| if of.sidecars.is_empty() { "none".to_owned() } else { of.sidecars.join(",") };
            let what = format!(
                "part {} has --sidecars {}, part {} has {}",
                first.part,
                named(first),
                other.part,
                named(other)
            );
            Err(Error::usage(what).help("pack one of them again with those of the other"))
        }
    }
}

/// The datasets in `dst` with their folders, if there are any and nothing is unfinished.
fn sealed_before(dst: &Path) -> Result<Option<Vec<(PathBuf, Manifest)>>> {
    let folders = match sys::is_there(&dst.join(manifest::FILE))? {
        true => vec![dst.to_path_buf()],
        false => shardpack_reader::splits(dst)?.into_iter().map(|split| split.path).collect(),
    };
    let mut manifests = Vec::new();
    for folder in folders {
        let path = folder.join(manifest::FILE);
        let bytes = sys::read_if_there(&path)?.unwrap_or_default();
        let manifest = Manifest::read(&bytes).and_then(|manifest| manifest.check_id(&bytes).map(|()| manifest));
        manifests.push((folder, manifest.map_err(|error| error.in_file(path))?));
    }
    Ok(Some(manifests).filter(|manifests| !manifests.is_empty()))
}

/// Fails where the files of datasets that were merged before are not what their manifests say, by the same looks as before a seal.
fn still_right(dst: &Path, sealed: &[(PathBuf, Manifest)], options: &Options, monitor: &dyn Monitor) -> Result<()> {
    let all: Vec<Looked<'_>> = sealed
        .iter()
        .flat_map(|(folder, manifest)| {
            let sidecars = std::iter::once(&manifest.sidecars[..]).chain(std::iter::repeat(&[][..]));
            manifest.shards.iter().zip(sidecars).map(|(entry, sidecars)| Looked {
                folder: folder.clone(),
                entry,
                sidecars,
                by: "manifest",
            })
        })
        .collect();
    let problems = check(dst, &all, options, monitor)?;
    let Some((file, what)) = problems.first() else { return Ok(()) };
    let more = if problems.len() > 1 { format!(", and {} more", problems.len() - 1) } else { String::new() };
    Err(Error::data(format!("was merged, and is damaged now: {file} {what}{more}")).in_file(dst).help(NAMES_ALL))
}

const NAMES_ALL: &str = "shardpack verify names all that is damaged, and --repair SRC mends it";

type Shards = Vec<BTreeMap<usize, Received>>;

/// The shards of all receipts; or what is missing of them.
fn united(dst: &Path, plans: &[Plan], found: &[Found], has_plan: bool) -> Result<std::result::Result<Shards, Missing>> {
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
            let says = |receipt: &Found| {
                receipt.shards[number].get(&shard).is_some_and(|shard| is_index(dst, plan, &shard.sealed))
            };
            let Some(right) = found.iter().find(|receipt| says(receipt)) else {
                let file = plan.shard_file(shard);
                return Err(Error::data(
                    "receipts of two parts say different things of this shard, and neither is right",
                )
                .in_file(dataset_folder(dst, plan).join(file))
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

/// The parts that have the shards that `has` says no to, by number of the plan and of the shard; of those numbers of parts
/// the one by which the least is packed again.
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

/// Whether the index that is there is the one that `sealed` names.
fn is_index(dst: &Path, plan: &Plan, sealed: &Sealed) -> bool {
    let bytes = sys::read_if_there(&dataset_folder(dst, plan).join(&sealed.entry.index.file));
    bytes.is_ok_and(|bytes| bytes.is_some_and(|bytes| hash::file(&bytes) == sealed.entry.index.blake3.0))
}

/// A shard that is looked at, and sidecars with it.
struct Looked<'a> {
    /// Folder of its dataset.
    folder: PathBuf,
    entry: &'a manifest::Shard,
    sidecars: &'a [manifest::File],
    /// What tells how they were written.
    by: &'static str,
}

/// What is not as it was written of shards, indexes and sidecars: their lengths and what the heads of indexes say; with
/// `options.verify`, all of their bytes.
fn check(dst: &Path, all: &[Looked<'_>], options: &Options, monitor: &dyn Monitor) -> Result<Vec<(String, String)>> {
    if options.verify {
        let entries = || all.iter().map(|looked| looked.entry);
        monitor.begin(
            Phase::Verifying,
            entries().map(|shard| shard.samples).sum(),
            entries().map(|shard| shard.bytes).sum(),
        );
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(looked) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            monitor.go_on()?;
            if let Some((file, what)) = check_one(looked, options.verify, monitor)? {
                let path = looked.folder.join(file);
                found.push((path.strip_prefix(dst).unwrap_or(&path).to_string_lossy().into_owned(), what));
            }
        }
        Ok(found)
    };
    let mut problems = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Vec<_>>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?
    .concat();
    problems.sort();
    Ok(problems)
}

/// The first thing that is not as it was written: a file and what is wrong with it.
fn check_one(looked: &Looked<'_>, verify: bool, monitor: &dyn Monitor) -> Result<Option<(String, String)>> {
    let Looked { folder, by, .. } = looked;
    let manifest::Shard { file, samples, bytes, blake3, index } = looked.entry;
    let sidecars = looked.sidecars.iter().map(|sidecar| (&sidecar.file, sidecar.bytes));
    for (name, expected) in [(file, *bytes), (&index.file, index.bytes)].into_iter().chain(sidecars) {
        let path = folder.join(name);
        let what = match sys::metadata_if_there(&path)? {
            None => "is missing".to_owned(),
            Some(stat) if stat.len() != expected => format!("is {} bytes, the {by} says {expected}", stat.len()),
            Some(_) => continue,
        };
        return Ok(Some((name.clone(), what)));
    }
    let path = folder.join(&index.file);
    let failed = |e| sys::io_error("cannot read", &path, e);
    let mut head = [0; Head::BYTES];
    File::open(&path).and_then(|opened| opened.read_exact_at(&mut head, 0)).map_err(failed)?;
    let head = Head::read(&head)
        .filter(|head| (head.rows, head.shard_bytes, head.shard_blake3) == (*samples, *bytes, blake3.0));
    if head.is_none() {
        return Ok(Some((index.file.clone(), format!("is of another shard than the {by} says"))));
    }
    if !verify {
        return Ok(None);
    }
    let small = [(&index.file, index.blake3)].into_iter();
    let small = small.chain(looked.sidecars.iter().map(|sidecar| (&sidecar.file, sidecar.blake3)));
    let differs = |name: &String| Some((name.clone(), format!("its hash differs from the {by}")));
    for (name, expected) in small {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|e| sys::io_error("cannot read", &path, e))?;
        if hash::file(&bytes) != expected.0 {
            return Ok(differs(name));
        }
    }
    let found = hash_of(&folder.join(file), monitor)?;
    monitor.advance(*samples, 0);
    Ok(if found == blake3.0 { None } else { differs(file) })
}

/// BLAKE3 of a file.
fn hash_of(path: &Path, monitor: &dyn Monitor) -> Result<hash::FileHash> {
    let failed = |e| sys::io_error("cannot read", path, e);
    let file = File::open(path).map_err(failed)?;
    let (mut hasher, mut at, mut piece) = (blake3::Hasher::new(), 0, vec![0; HASHED_BYTES]);
    loop {
        monitor.go_on()?;
        match file.read_at(&mut piece, at).map_err(failed)? {
            0 => return Ok(*hasher.finalize().as_bytes()),
            read => {
                hasher.update(&piece[..read]);
                monitor.advance(0, read as u64);
                at += read as u64;
            }
        }
    }
}

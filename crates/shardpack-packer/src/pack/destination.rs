//! The folder that is packed into: what it holds already, one packer at a time, and the work folder in it.
//!
//! `DST/.shardpack/` is there from before the first shard until after the manifest: it holds the lock, the plan and
//! whatever is not finished. A folder that has it is an unfinished pack.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, Result,
    manifest::{self, Blake3, Manifest, WORK_FOLDER},
};

use super::dataset_folder;
use crate::{copy, plan::Plan, plan_file, sidecars, source::Origin, sys};

const PLAN_FILE: &str = "plan";
const LOCK_FILE: &str = "lock";
/// The manifest of a dataset that is being replaced.
const OLD_MANIFEST: &str = "replaced.json";

/// A folder that this process may pack into.
#[derive(Debug)]
pub(super) struct Destination {
    work: PathBuf,
    /// No pack was under way here before this one.
    fresh: bool,
    _lock: sys::Lock,
}

/// What there is to do.
#[derive(Debug)]
pub(super) enum State {
    /// Shards, of which some may be finished.
    Open,
    /// Nothing: the same plan has been sealed here.
    Sealed(Vec<Manifest>),
}

impl Destination {
    /// Takes `dst` for `plans`, after clearing it where `force` says so. A refusal leaves `dst` as it was.
    pub fn open(dst: &Path, source: &Origin, plans: &[Plan], force: bool) -> Result<(Self, State)> {
        refuse_inside(dst, source)?;
        let (dst_is_new, work) = (!dst.exists(), dst.join(WORK_FOLDER));
        let fresh = !work.exists();
        sys::create_folder(&work)?;
        let destination = Self { _lock: sys::Lock::take(&work.join(LOCK_FILE))?, work, fresh };
        let state = destination.take(dst, source, plans, force);
        match &state {
            Ok(State::Open) => {}
            Ok(State::Sealed(_)) => destination.remove_work()?,
            Err(_) if fresh => {
                // The refusal matters, not what is left of an empty folder.
                let _ = destination.remove_work();
                if dst_is_new {
                    let _ = fs::remove_dir(dst);
                }
            }
            Err(_) => {}
        }
        state.map(|state| (destination, state))
    }

    fn take(&self, dst: &Path, source: &Origin, plans: &[Plan], force: bool) -> Result<State> {
        let plan_path = self.work.join(PLAN_FILE);
        let old = match plan_path.exists() {
            true => plan_file::read(&plan_path).map(Some),
            false => Ok(None),
        };
        if force {
            let old = old.unwrap_or(None);
            let of_before = || old.iter().flat_map(|old| &old.plans);
            let folders = || of_before().chain(plans).map(|plan| dataset_folder(dst, plan));
            for folder in folders().chain([dst.to_path_buf()]).chain(self.splits(dst)?) {
                self.clear_sealed(dst, &folder)?;
            }
            // The plan of before stays until the new one takes its name, so that a later run knows what to remove.
            for plan in of_before().chain(plans) {
                sidecars::clear(&dataset_folder(dst, plan), &self.work(plan)?)?;
                clear_planned(plan, &dataset_folder(dst, plan))?;
            }
            self.begin(dst, source, plans)?;
            return Ok(State::Open);
        }
        if let Some(old) = old.map_err(|error| error.help("--force starts anew"))? {
            return match plan_file::difference(&old, source, plans) {
                None => create_folders(dst, plans).map(|()| State::Open),
                Some(what) => Err(something_else(dst, &what)),
            };
        }
        let others = fs::read_dir(dst).map_err(|e| sys::io_error("cannot read folder", dst, e))?;
        let others: Vec<_> =
            others.collect::<io::Result<_>>().map_err(|e| sys::io_error("cannot read folder", dst, e))?;
        match others.iter().find(|entry| entry.file_name() != WORK_FOLDER) {
            None => self.begin(dst, source, plans).map(|()| State::Open),
            Some(other) => match sealed_here(dst, plans)? {
                Some(manifests) => Ok(State::Sealed(manifests)),
                None if dst.join(manifest::FILE).exists() || !self.splits(dst)?.is_empty() => {
                    Err(Error::usage("holds another dataset")
                        .in_file(dst)
                        .help("choose another folder, or --force to replace it"))
                }
                None => Err(Error::usage(format!("is not empty: {:?} is in it", other.file_name()))
                    .in_file(dst)
                    .help("choose another folder, or --force to pack beside what is there")),
            },
        }
    }

    /// Writes the plan, from where on this is an unfinished pack, and only then makes the folders: without a plan they
    /// would look like somebody else's.
    fn begin(&self, dst: &Path, source: &Origin, plans: &[Plan]) -> Result<()> {
        plan_file::write(&self.work.join(PLAN_FILE), &self.work, source, plans)?;
        sys::sync_folder(&self.work)?;
        create_folders(dst, plans)
    }

    /// Folder for what is not finished of a dataset.
    pub fn work(&self, plan: &Plan) -> Result<PathBuf> {
        let folder = plan.split.as_ref().map_or_else(|| self.work.clone(), |split| self.work.join(split));
        sys::create_folder(&folder)?;
        Ok(folder)
    }

    /// Leaves `dst` as if this pack had never begun, unless an earlier run had.
    pub fn abandon(self, dst: &Path, plans: &[Plan]) {
        if !self.fresh {
            return;
        }
        // The reason to give up matters, not what is left of empty folders.
        let _ = self.remove_work();
        for plan in plans {
            let folder = dataset_folder(dst, plan);
            let _ = fs::remove_dir(folder.join(manifest::INDEX_FOLDER));
            let _ = fs::remove_dir(folder);
        }
        let _ = fs::remove_dir(dst);
    }

    /// Ends the work: the manifests are in their places. Makes the names of `dst` and of its splits durable too.
    pub fn close(self, dst: &Path) -> Result<()> {
        self.remove_work()?;
        sys::sync_folder(dst)?;
        match dst.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sys::sync_folder(parent),
            _ => sys::sync_folder(Path::new(".")),
        }
    }

    /// Folders in `dst` that hold a dataset called like them: splits, which a pack without them would leave behind.
    fn splits(&self, dst: &Path) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(dst).map_err(|e| sys::io_error("cannot read folder", dst, e))?;
        let split = |name: &std::ffi::OsStr| {
            let manifest = fs::read(dst.join(name).join(manifest::FILE)).ok();
            let manifest = manifest.and_then(|bytes| Manifest::read(&bytes).ok());
            manifest.is_some_and(|manifest| name == manifest.name.as_str())
                || self.work.join(name).join(OLD_MANIFEST).exists()
        };
        let names = entries.filter_map(io::Result::ok).map(|entry| entry.file_name());
        Ok(names.filter(|name| split(name)).map(|name| dst.join(name)).collect())
    }

    /// Removes a sealed dataset. Its manifest goes to the work folder first, so that what is left never looks finished,
    /// and a later run still knows what was in it.
    fn clear_sealed(&self, dst: &Path, folder: &Path) -> Result<()> {
        let split = folder.strip_prefix(dst).unwrap_or(Path::new(""));
        let (path, old) = (folder.join(manifest::FILE), self.work.join(split).join(OLD_MANIFEST));
        if path.exists() {
            sys::create_folder(&self.work.join(split))?;
            fs::rename(&path, &old).map_err(|e| sys::io_error("cannot move", &path, e))?;
            sys::sync_folder(folder)?;
        }
        let Some(bytes) = sys::read_if_there(&old)? else { return Ok(()) };
        for name in [manifest::SUMS_FILE, manifest::LEDGER_FILE] {
            sys::remove_file(&folder.join(name))?;
        }
        // A manifest that cannot be read names nothing that could be trusted.
        let (shards, files) =
            Manifest::read(&bytes).map_or_else(|_| Default::default(), |old| (old.shards, old.sidecars));
        files.iter().try_for_each(|file| sidecars::remove(folder, &file.file))?;
        for shard in shards {
            sys::remove_file(&folder.join(shard.index.file))?;
            sys::remove_file(&folder.join(shard.file))?;
        }
        sys::remove_file(&old)?;
        // Folders that are not empty now hold something else, and stay.
        let _ = fs::remove_dir(folder.join(manifest::INDEX_FOLDER));
        if folder != dst {
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    fn remove_work(&self) -> Result<()> {
        fs::remove_dir_all(&self.work).map_err(|e| sys::io_error("cannot remove", &self.work, e))
    }
}

fn something_else(dst: &Path, what: &str) -> Error {
    Error::usage(format!("holds an unfinished pack of something else: {what}"))
        .in_file(dst)
        .help("give the source and options of then to finish it, or --force to start anew")
}

/// A folder where work may begin before there is a plan.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The work folder.
    pub work: PathBuf,
    _lock: sys::Lock,
}

/// Takes the first of `folders` for work that comes before the plan, if all of them may be packed into; `None` where each
/// holds what these plans would make of it. A refusal leaves everything as it was.
pub(super) fn prepare(
    folders: &[PathBuf],
    source: &Origin,
    plans: &[Vec<Plan>],
    force: bool,
) -> Result<Option<Prepared>> {
    let mut are_sealed = !force;
    for (dst, plans) in folders.iter().zip(plans) {
        refuse_inside(dst, source)?;
        are_sealed = are_sealed && dst.exists() && sealed_here(dst, plans)?.is_some();
        let is_begun = dst.join(WORK_FOLDER).exists();
        let plan = dst.join(WORK_FOLDER).join(PLAN_FILE);
        if !force && plan.exists() {
            // Its samples are compared when those of now are known.
            let old = plan_file::read(&plan).map_err(|error| error.help("--force starts anew"))?;
            if let Some(what) = plan_file::request_difference(&old, source, plans) {
                return Err(something_else(dst, &what));
            }
        }
        if !force && !is_begun && !are_sealed && dst.exists() {
            let other = fs::read_dir(dst).map_err(|e| sys::io_error("cannot read folder", dst, e))?.next();
            if other.is_some() && sealed_here(dst, plans)?.is_none() {
                return Err(Error::usage("is not empty, and not what this would make")
                    .in_file(dst)
                    .help("choose another folder, or --force to replace what is there"));
            }
        }
    }
    let Some(dst) = folders.first().filter(|_| !are_sealed) else { return Ok(None) };
    let work = dst.join(WORK_FOLDER);
    sys::create_folder(&work)?;
    let lock = sys::Lock::take(&work.join(LOCK_FILE))?;
    Ok(Some(Prepared { work, _lock: lock }))
}

/// Makes the folders of the datasets; what is there stays.
fn create_folders(dst: &Path, plans: &[Plan]) -> Result<()> {
    plans.iter().try_for_each(|plan| sys::create_folder(&dataset_folder(dst, plan).join(manifest::INDEX_FOLDER)))
}

/// A folder of shards inside the source would be a class of it the next time, and the other way round worse. Files of a
/// source of shards may lie in a folder above, but not in `dst` itself.
fn refuse_inside(dst: &Path, source: &Origin) -> Result<()> {
    let existing = dst.ancestors().find_map(|above| {
        let path = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        path.canonicalize().ok().map(|path| (path, above == dst))
    });
    let Some((existing, is_dst)) = existing else { return Ok(()) };
    // Of a list only the files that it names are read, wherever the shards are.
    let is_tree = !matches!(source, Origin::Shards(_) | Origin::List(_));
    let is_inside = source.roots().into_iter().filter_map(|root| root.canonicalize().ok()).any(|root| match is_tree {
        true => existing.starts_with(&root),
        false => is_dst && existing == root,
    });
    match is_inside {
        true => Err(Error::usage("lies inside the source").in_file(dst).help("choose a folder beside the source")),
        false => Ok(()),
    }
}

/// The manifests in `dst`, if they are of just these plans.
fn sealed_here(dst: &Path, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
    let mut manifests = Vec::new();
    for plan in plans {
        let path = dataset_folder(dst, plan).join(manifest::FILE);
        let Some(bytes) = sys::read_if_there(&path)? else { return Ok(None) };
        match Manifest::read(&bytes) {
            Ok(manifest) if manifest.plan == Blake3(plan.hash()?) => manifests.push(manifest),
            _ => return Ok(None),
        }
    }
    Ok(Some(manifests))
}

/// Removes what a plan would write, indexes first: a shard without one is not finished.
fn clear_planned(plan: &Plan, folder: &Path) -> Result<()> {
    for name in [manifest::SUMS_FILE, manifest::LEDGER_FILE] {
        sys::remove_file(&folder.join(name))?;
    }
    let shards = 0..plan.shards.len();
    shards.clone().try_for_each(|shard| sys::remove_file(&folder.join(copy::index_file(plan, shard))))?;
    shards.into_iter().try_for_each(|shard| sys::remove_file(&folder.join(plan.shard_file(shard))))
}

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
    manifest::{self, Blake3, Manifest},
};

use super::dataset_folder;
use crate::{copy, plan::Plan, plan_file, sys};

/// Name of the work folder.
pub const WORK_FOLDER: &str = ".shardpack";
const PLAN_FILE: &str = "plan";
const LOCK_FILE: &str = "lock";

/// A folder that this process may pack into.
#[derive(Debug)]
pub(super) struct Destination {
    work: PathBuf,
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
    pub fn open(dst: &Path, source: &Path, plans: &[Plan], force: bool) -> Result<(Self, State)> {
        refuse_inside(dst, source)?;
        let (dst_is_new, work) = (!dst.exists(), dst.join(WORK_FOLDER));
        let work_is_new = !work.exists();
        sys::create_folder(&work)?;
        let destination = Self { _lock: sys::Lock::take(&work.join(LOCK_FILE))?, work };
        let state = destination.take(dst, source, plans, force);
        match &state {
            Ok(State::Open) => {}
            Ok(State::Sealed(_)) => destination.remove_work()?,
            Err(_) if work_is_new => {
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

    fn take(&self, dst: &Path, source: &Path, plans: &[Plan], force: bool) -> Result<State> {
        let plan_path = self.work.join(PLAN_FILE);
        let old = match plan_path.exists() {
            true => plan_file::read(&plan_path).map(|file| Some(file.plans)),
            false => Ok(None),
        };
        if force {
            let old = old.unwrap_or(None);
            let folders = || old.iter().flatten().chain(plans).map(|plan| dataset_folder(dst, plan));
            for folder in folders().chain([dst.to_path_buf()]) {
                clear_sealed(&folder)?;
            }
            // The plan of before goes first, or a crash here would leave it beside shards that are gone.
            sys::remove_file(&plan_path)?;
            old.iter().flatten().chain(plans).try_for_each(|plan| clear_planned(plan, &dataset_folder(dst, plan)))?;
            self.begin(dst, source, plans)?;
            return Ok(State::Open);
        }
        if let Some(old) = old.map_err(|error| error.help("--force starts anew"))? {
            return match plan_file::difference(&old, plans) {
                None => Ok(State::Open),
                Some(what) => Err(Error::usage(format!("holds an unfinished pack of something else: {what}"))
                    .in_file(dst)
                    .help("give the source and options of then to finish it, or --force to start anew")),
            };
        }
        let others = fs::read_dir(dst).map_err(|e| sys::io_error("cannot read folder", dst, e))?;
        let others: Vec<_> =
            others.collect::<io::Result<_>>().map_err(|e| sys::io_error("cannot read folder", dst, e))?;
        match others.iter().find(|entry| entry.file_name() != WORK_FOLDER) {
            None => self.begin(dst, source, plans).map(|()| State::Open),
            Some(other) => match sealed_here(dst, plans)? {
                Some(manifests) => Ok(State::Sealed(manifests)),
                None if dst.join(manifest::FILE).exists() => Err(Error::usage("holds another dataset")
                    .in_file(dst)
                    .help("choose another folder, or --force to replace it")),
                None => Err(Error::usage(format!("is not empty: {:?} is in it", other.file_name()))
                    .in_file(dst)
                    .help("choose another folder, or --force to pack beside what is there")),
            },
        }
    }

    /// Makes the folders and the plan, from where on this is an unfinished pack.
    fn begin(&self, dst: &Path, source: &Path, plans: &[Plan]) -> Result<()> {
        for plan in plans {
            sys::create_folder(&dataset_folder(dst, plan).join(manifest::INDEX_FOLDER))?;
            self.work(plan)?;
        }
        plan_file::write(&self.work.join(PLAN_FILE), &self.work, source, plans)?;
        sys::sync_folder(&self.work)
    }

    /// Folder for what is not finished of a dataset.
    pub fn work(&self, plan: &Plan) -> Result<PathBuf> {
        let folder = plan.split.as_ref().map_or_else(|| self.work.clone(), |split| self.work.join(split));
        sys::create_folder(&folder)?;
        Ok(folder)
    }

    /// Ends the work: the manifests are in their places.
    pub fn close(self) -> Result<()> {
        self.remove_work()
    }

    fn remove_work(&self) -> Result<()> {
        fs::remove_dir_all(&self.work).map_err(|e| sys::io_error("cannot remove", &self.work, e))
    }
}

/// A folder of shards inside the source would be a class of it the next time, and the other way round worse.
fn refuse_inside(dst: &Path, source: &Path) -> Result<()> {
    let Ok(source_path) = source.canonicalize() else { return Ok(()) };
    let existing = dst.ancestors().find_map(|above| {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        above.canonicalize().ok()
    });
    match existing {
        Some(existing) if existing.starts_with(&source_path) => {
            Err(Error::usage("lies inside the source").in_file(dst).help("choose a folder beside the source"))
        }
        _ => Ok(()),
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

/// Removes a sealed dataset, its manifest first, so that what is left never looks finished.
fn clear_sealed(folder: &Path) -> Result<()> {
    let path = folder.join(manifest::FILE);
    let Some(bytes) = sys::read_if_there(&path)? else { return Ok(()) };
    sys::remove_file(&path)?;
    sys::sync_folder(folder)?;
    for name in [manifest::SUMS_FILE, manifest::LEDGER_FILE] {
        sys::remove_file(&folder.join(name))?;
    }
    // A manifest that cannot be read names nothing that could be trusted.
    let Ok(manifest) = Manifest::read(&bytes) else { return Ok(()) };
    for shard in manifest.shards {
        sys::remove_file(&folder.join(shard.index.file))?;
        sys::remove_file(&folder.join(shard.file))?;
    }
    Ok(())
}

/// Removes what a plan would write, indexes first: a shard without one is not finished.
fn clear_planned(plan: &Plan, folder: &Path) -> Result<()> {
    let shards = 0..plan.shards.len();
    shards.clone().try_for_each(|shard| sys::remove_file(&folder.join(copy::index_file(plan, shard))))?;
    shards.into_iter().try_for_each(|shard| sys::remove_file(&folder.join(plan.shard_file(shard))))
}

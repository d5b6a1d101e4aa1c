//! The destination folder: its present files, the lock for one packer at a time, and the work folder in it.
//!
//! `DST/.shardpack/` exists from before the first shard until after the manifest: it holds the lock, the plan
//! and all unfinished files. A folder that has it is an unfinished pack.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::sidecars::beside_splits,
    manifest::{self, Manifest, WORK_FOLDER},
    size, splits,
};
use shardpack_storage::{Address, Local, Storage};

use super::{
    dataset_folder,
    existing::sealed_in,
    existing_files::ExistingFiles,
    left_out, present,
    unchanged_shards::alike,
    work_folder::{self, ASIDE_FOLDER, LOCK_FILE, OTHER_FOLDER, PLAN_FILE, REPLACED_FOLDER, SPOOL_FILE},
    work_of,
};
use crate::{
    copy,
    ledger::{Fate, Unpacked},
    own,
    plan::Plan,
    plan_file::{self, PlanFile},
    seal_dataset, sidecars,
    source::Source,
    sys,
};

/// Remains that only have to be removed.
const DISCARDED_FOLDER: &str = "discarded";

/// A folder that this process may pack into.
#[derive(Debug)]
pub(super) struct Destination {
    pub work: PathBuf,
    /// No earlier pack was unfinished here.
    fresh: bool,
    /// The folder itself did not exist.
    is_new: bool,
    _lock: sys::Lock,
}

/// Work that remains.
#[derive(Debug)]
pub(super) enum State {
    /// The same plan was started here: some of its shards may be finished.
    Begun,
    /// A plan of the same request was started here, and the source has changed since.
    Changed(SourceChange),
    /// The whole dataset, once the existing files are set aside.
    New(ExistingFiles),
    /// None: the same plan is sealed here.
    Sealed(Vec<Manifest>),
}

/// An unfinished pack after a change of the source.
#[derive(Debug)]
pub(super) struct SourceChange {
    /// Description of the change.
    what: String,
    /// Number of finished shards.
    finished: usize,
    /// Number of finished shards that the new plan leaves unchanged.
    kept: usize,
    /// Files of the other shards, and files that follow the shards; files that make a shard count as finished
    /// come first.
    stale: Vec<PathBuf>,
}

impl std::fmt::Display for SourceChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, finished, kept, .. } = self;
        match finished {
            0 => write!(f, "{what} since then, and no shard was finished"),
            _ => {
                write!(
                    f,
                    "{what} since then: {kept} of {} stayed, the others are packed anew",
                    size::counted(*finished as u64, "finished shard")
                )
            }
        }
    }
}

impl SourceChange {
    /// Files that the new plan does not allow.
    pub fn stale(&self) -> &[PathBuf] {
        &self.stale
    }

    fn new(dst: &Path, work: &Path, old: &[Plan], new: &[Plan], what: String) -> Result<Self> {
        let mut changed = Self { what, finished: 0, kept: 0, stale: Vec::new() };
        for (old, new) in old.iter().zip(new) {
            let (folder, work) = (dataset_folder(dst, old), work_of(work, old.split.as_deref()));
            let alike = alike(old, new);
            // The run may have been stopped after it was sealed.
            changed.stale.extend([dst.join(splits::FILE), folder.join(manifest::FILE)]);
            if old.split.is_some() {
                changed.stale.extend(beside_splits().map(|name| dst.join(name)));
            }
            for number in 0..old.shards.len() {
                let index = folder.join(copy::index_file(old, number));
                let is_finished = sys::exists(&index)?;
                changed.finished += usize::from(is_finished);
                if alike.contains(&number) {
                    changed.kept += usize::from(is_finished);
                } else {
                    changed.stale.extend([
                        index,
                        folder.join(old.shard_file(number)),
                        copy::ledger_part(&work, old, number),
                    ]);
                }
            }
            changed.stale.extend(sidecars::all_names(old)?.iter().map(|name| folder.join(name)));
        }
        let stale = std::mem::take(&mut changed.stale);
        for path in stale {
            if !sidecars::is_foreign(&path)? {
                changed.stale.push(path);
            }
        }
        Ok(changed)
    }
}

impl Destination {
    /// Locks `dst` for `plans`; `is_kept_for` if it is the local folder of a store that has the shards. `dst`
    /// does not change before [`Destination::begin`], nor if it is refused.
    pub fn open(
        dst: &Path,
        source: &dyn Source,
        plans: &[Plan],
        force: bool,
        is_kept_for: bool,
    ) -> Result<(Self, State)> {
        refuse_inside(dst, source)?;
        let (is_new, work) = (!sys::exists(dst)?, dst.join(WORK_FOLDER));
        let fresh = !sys::exists(&work)?;
        own::work_folder(dst, WORK_FOLDER)?;
        let destination = Self { _lock: sys::Lock::take(&work.join(LOCK_FILE))?, work, fresh, is_new };
        match destination.look(dst, source, plans, force, is_kept_for) {
            Ok(State::Sealed(manifests)) => {
                // Packed by a version that did not write this record.
                if !sys::exists(&dst.join(splits::FILE))? {
                    seal_dataset::seal_splits(plans, &manifests, dst, &destination.work)?;
                }
                destination.remove_work()?;
                Ok((destination, State::Sealed(manifests)))
            }
            Ok(state) => Ok((destination, state)),
            Err(error) => {
                destination.abandon(dst);
                Err(error)
            }
        }
    }

    fn look(&self, dst: &Path, source: &dyn Source, plans: &[Plan], force: bool, is_kept_for: bool) -> Result<State> {
        self.take_back(dst)?;
        // Even beside a plan: a run may have been stopped before it removed the work folder.
        if !force && let Some(manifests) = sealed_in(dst, plans)? {
            let there = if is_kept_for { Ok(()) } else { check_files_present(dst, plans, &manifests) };
            return there.map(|()| State::Sealed(manifests));
        }
        let plan_path = self.work.join(PLAN_FILE);
        let old = match sys::exists(&plan_path)? {
            true => plan_file::read(&plan_path).map(Some),
            false => Ok(None),
        };
        if force {
            let held = replaceable(dst, &plan_path, old, plans)?;
            return held.refuse_foreign(dst).map(|()| State::New(held));
        }
        if let Some(old) = old.map_err(anew)? {
            let Some(what) = plan_file::difference(&old, source, plans) else { return Ok(State::Begun) };
            if plan_file::request_difference(&old, source, plans).is_some() {
                return Err(something_else(dst, &what));
            }
            let changed = SourceChange::new(dst, &self.work, &old.plans, plans, what)?;
            return match (changed.kept, changed.finished) {
                (0, 1..) => Err(Error::usage(format!(
                    "holds an unfinished pack, and {} since then: none of its {} would stay",
                    changed.what,
                    size::counted(changed.finished as u64, "finished shard")
                ))
                .in_file(dst)
                .help("undo that to resume after them, or --force to pack all anew")),
                _ => Ok(State::Changed(changed)),
            };
        }
        let held = ExistingFiles::look(dst, &[])?;
        match held.is_empty() {
            true => Ok(State::New(held)),
            false => Err(held.refusal(dst, plans)),
        }
    }

    /// Makes `dst` an unfinished pack of `plans`: sets existing files aside, writes the plan, and then creates
    /// the folders, which without a plan would count as foreign. Files that were set aside stay until
    /// [`Destination::close`], unless `is_needed` requires their space.
    pub fn begin(
        &self,
        dst: &Path,
        source: &dyn Source,
        plans: &[Plan],
        held: &ExistingFiles,
        is_needed: bool,
    ) -> Result<()> {
        self.set_aside(dst, held)?;
        self.remove_remains()?;
        plan_file::write(&self.work.join(PLAN_FILE), source, plans)?;
        sys::sync_folder(&self.work)?;
        if is_needed {
            self.remove_replaced()?;
        }
        create_folders(dst, plans)
    }

    /// Removes the replaced dataset to free its space.
    pub fn remove_replaced(&self) -> Result<()> {
        own::remove_folder(&self.work.join(REPLACED_FOLDER))
    }

    /// Turns the unfinished pack in `dst` into one of `plans`, and keeps the shards that are unchanged.
    pub fn carry(&self, dst: &Path, source: &dyn Source, plans: &[Plan], changed: &SourceChange) -> Result<()> {
        // Before the new plan is written, which would count these files as finished.
        changed.stale.iter().try_for_each(|path| sys::remove_file(path))?;
        let folders = plans.iter().map(|plan| dataset_folder(dst, plan));
        let folders = folders.flat_map(|folder| [folder.join(manifest::INDEX_FOLDER), folder]);
        for folder in folders.chain([dst.to_path_buf()]) {
            if sys::exists(&folder)? {
                sys::sync_folder(&folder)?;
            }
        }
        plan_file::write(&self.work.join(PLAN_FILE), source, plans)?;
        sys::sync_folder(&self.work)
    }

    /// Moves the existing files of `dst` to the work folder, manifests first; all files or none.
    fn set_aside(&self, dst: &Path, held: &ExistingFiles) -> Result<()> {
        if held.files.is_empty() && held.folders.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.move_aside(dst, held) {
            // If that fails too, the next run moves the files back.
            let _ = self.take_back(dst);
            return Err(error);
        }
        sys::sync_folder(&self.work)?;
        sys::sync_folder(dst)
    }

    fn move_aside(&self, dst: &Path, held: &ExistingFiles) -> Result<()> {
        let aside = own::folder(&self.work, ASIDE_FOLDER)?;
        for path in &held.files {
            move_file(path, dst, &aside)?;
            if path.ends_with(manifest::FILE) {
                // After a power failure, a manifest must not reappear beside shards that are gone.
                sys::sync_folder(&dst.join(path.parent().unwrap_or(path)))?;
            }
        }
        for folder in held.folders.iter().map(|folder| dst.join(folder)) {
            own::remove_empty_folder(&folder)?;
        }
        let (replaced, discarded) = (self.work.join(REPLACED_FOLDER), self.work.join(DISCARDED_FOLDER));
        own::remove_folder(&discarded)?;
        if held.is_sealed && sys::exists(&replaced)? {
            rename(&replaced, &discarded)?;
        }
        rename(&aside, if held.is_sealed { &replaced } else { &discarded })
    }

    /// Moves back files that an interrupted run was setting aside, manifests last.
    fn take_back(&self, dst: &Path) -> Result<()> {
        let aside = self.work.join(ASIDE_FOLDER);
        if !sys::exists(&aside)? {
            return Ok(());
        }
        let mut files = work_folder::files_in(&aside)?;
        files.sort_by_key(|path| path.file_name() == Some(manifest::FILE.as_ref()));
        files.iter().try_for_each(|path| move_file(path, &aside, dst))?;
        own::remove_folder(&aside)
    }

    /// Removes files of earlier runs from the work folder that no later plan uses.
    fn remove_remains(&self) -> Result<()> {
        let failed = |e| sys::io_error("cannot read folder", &self.work, e);
        for entry in fs::read_dir(&self.work).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (name, path) = (entry.file_name(), entry.path());
            if [LOCK_FILE, PLAN_FILE, SPOOL_FILE, REPLACED_FOLDER].iter().any(|kept| name == *kept) {
                continue;
            }
            match entry.file_type().map_err(failed)?.is_dir() {
                true => own::remove_folder(&path)?,
                false => sys::remove_file(&path)?,
            }
        }
        Ok(())
    }

    /// Folder for unfinished files of a dataset.
    pub fn work(&self, plan: &Plan) -> Result<PathBuf> {
        own::folder(&self.work, work_of(Path::new(""), plan.split.as_deref()))
    }

    /// Length in bytes of files that can be removed for the new dataset: sealed here, or set aside before.
    pub fn held_bytes(&self, state: &State) -> Result<u64> {
        let held = if let State::New(held) = state { held.bytes } else { 0 };
        let (mut bytes, mut todo) = (held, self.replaced()?.into_iter().collect::<Vec<_>>());
        while let Some(folder) = todo.pop() {
            let failed = |e| sys::io_error("cannot read folder", &folder, e);
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let stat = entry.metadata().map_err(failed)?;
                if stat.is_dir() { todo.push(entry.path()) } else { bytes += stat.len() }
            }
        }
        Ok(bytes)
    }

    /// Folder of the replaced dataset, if there was one and it is kept until the new one is sealed.
    pub fn replaced(&self) -> Result<Option<PathBuf>> {
        let folder = self.work.join(REPLACED_FOLDER);
        Ok(sys::exists(&folder)?.then_some(folder))
    }

    /// Removes all traces of this pack from `dst`, unless this or an earlier run has started.
    pub fn abandon(self, dst: &Path) {
        // A file whose status cannot be read may exist.
        let holds = |name: &str| sys::exists(&self.work.join(name)).unwrap_or(true);
        if !self.fresh || [PLAN_FILE, ASIDE_FOLDER, REPLACED_FOLDER].into_iter().any(holds) {
            return;
        }
        // The reason for the failure matters more than an empty folder.
        let _ = self.remove_work();
        if self.is_new {
            let _ = own::remove_empty_folder(dst);
        }
    }

    /// Ends the work after the manifests are in place. Writes the record of splits, and makes the names of
    /// `dst` and of its splits durable too.
    pub fn close(self, dst: &Path, plans: &[Plan], manifests: &[Manifest]) -> Result<()> {
        seal_dataset::seal_splits(plans, manifests, dst, &self.work)?;
        sys::sync_folder(dst)?;
        self.remove_work()?;
        make_durable(dst)
    }

    fn remove_work(&self) -> Result<()> {
        own::remove_folder(&self.work)
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    own::rename(from, to)
}

/// Moves the file `path` of a folder into another; creates missing folders there.
fn move_file(path: &Path, from: &Path, to: &Path) -> Result<()> {
    own::folder(to, path.parent().unwrap_or(Path::new("")))?;
    rename(&from.join(path), &to.join(path))
}

/// Removes the remains that a merge, interrupted at its very end, left in the work folder of a sealed dataset.
/// Keeps the folder if another process uses it, or if it has files that no part wrote.
pub(super) fn remove_rest(dst: &Path) -> Result<()> {
    let work = &dst.join(WORK_FOLDER);
    if !sys::exists(work)? {
        return Ok(());
    }
    let _lock = match sys::Lock::take_where_there_are_locks(&work.join(LOCK_FILE)) {
        Err(error) if error.kind() == ErrorKind::Usage || !sys::exists(work)? => return Ok(()),
        lock => lock?,
    };
    if work_folder::has_pack(work)? { Ok(()) } else { own::remove_folder(work) }
}

/// The error of a plan that cannot be read: it cannot be resumed.
pub(super) fn anew(error: Error) -> Error {
    if error.kind() == ErrorKind::Data { error.help("--force starts anew") } else { error }
}

/// The files in `dst` that `--force` may replace. An unfinished pack, whose plan file is `path`, may have those of its own plans; if it
/// is corrupt, those of its header or, if that is corrupt too, of the `new` plans: the same command makes files of the same names.
fn replaceable(dst: &Path, path: &Path, old: Result<Option<PlanFile>>, new: &[Plan]) -> Result<ExistingFiles> {
    match old {
        Ok(None) => ExistingFiles::look(dst, &[]),
        Ok(Some(old)) => ExistingFiles::look(dst, &old.plans),
        Err(_) => match plan_file::read_header(path).and_then(|header| header.plans()) {
            Ok(plans) => ExistingFiles::look(dst, &plans),
            Err(_) => ExistingFiles::look(dst, new),
        },
    }
}

fn something_else(dst: &Path, what: &str) -> Error {
    Error::usage(format!("holds an unfinished pack of something else: {what}"))
        .in_file(dst)
        .help("repeat its source and options to finish it, or --force to start anew")
}

/// Whether the folder `dst` holds the datasets of the plans, which stay without `force`; their shards are in it if `has_shards`. Fails if
/// `dst` cannot be packed into. Changes nothing.
pub(super) fn may_be_packed(
    dst: &Path,
    plans: &[Plan],
    source: &dyn Source,
    force: bool,
    has_shards: bool,
) -> Result<bool> {
    refuse_inside(dst, source)?;
    own::check(dst, WORK_FOLDER)?;
    let is_here = sys::exists(dst)?;
    if !force
        && is_here
        && let Some(manifests) = sealed_in(dst, plans)?
    {
        return if has_shards { check_files_present(dst, plans, &manifests).map(|()| true) } else { Ok(true) };
    }
    let plan = dst.join(WORK_FOLDER).join(PLAN_FILE);
    let old = match sys::exists(&plan)? {
        true => plan_file::read(&plan).map(Some),
        false => Ok(None),
    };
    if force && is_here {
        replaceable(dst, &plan, old, plans)?.refuse_foreign(dst)?;
    } else if !force && let Some(old) = old.map_err(anew)? {
        // Its samples are compared once the present samples are known.
        if let Some(what) = plan_file::request_difference(&old, source, plans) {
            return Err(something_else(dst, &what));
        }
    } else if !force && is_here {
        let held = ExistingFiles::look(dst, &[])?;
        if !held.is_empty() {
            return Err(held.refusal(dst, plans));
        }
    }
    Ok(false)
}

/// Checks, before `source` is listed, whether the source or a part can be packed into `dst`. Sends no request: a URL is looked
/// at when the plans are known.
///
/// # Errors
/// If `dst` is inside the source, not a folder, read-only, or holds files that no dataset names; and if another
/// user's work folder is in it.
pub fn look_at(dst: &Path, source: &dyn Source, is_part: bool) -> Result<()> {
    refuse_inside(dst, source)?;
    let Some(dst) = Address::of(dst).local() else { return Ok(()) };
    own::check(dst, WORK_FOLDER)?;
    let found = sys::metadata_opt(dst)?;
    if found.is_none() && dst.is_symlink() {
        return Err(Error::usage("is a symbolic link whose target is missing").in_file(dst).help(own::REMOVE));
    }
    sys::check_writable(dst)?;
    // The earlier pack here is compared with this one.
    let work = dst.join(WORK_FOLDER);
    if found.is_none() || sys::exists(&work.join(PLAN_FILE))? || sys::exists(&work.join(ASIDE_FOLDER))? {
        return Ok(());
    }
    let held = ExistingFiles::look(dst, &[])?;
    match held.refuse_foreign(dst) {
        Err(error) if !held.is_sealed && is_part => {
            // Parts replace nothing.
            Err(Error::usage(error.what()).in_file(dst).help(OTHER_FOLDER))
        }
        Err(error) if !held.is_sealed => Err(error),
        _ => Ok(()),
    }
}

/// Makes the names in `dst` and its own name durable.
pub(super) fn make_durable(dst: &Path) -> Result<()> {
    sys::sync_folder(dst)?;
    match dst.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sys::sync_folder(parent),
        _ => sys::sync_folder(Path::new(".")),
    }
}

/// Creates the folders of the datasets; existing ones stay.
pub(super) fn create_folders(dst: &Path, plans: &[Plan]) -> Result<()> {
    plans.iter().try_for_each(|plan| {
        own::folder(dst, dataset_folder(Path::new(""), plan).join(manifest::INDEX_FOLDER)).map(drop)
    })
}

/// A folder of shards inside the source would be a class in the next run; a source inside the shards is worse.
/// Files of a source of shards may be in a parent folder, but not in `dst` itself.
pub(super) fn refuse_inside(dst: &Path, source: &dyn Source) -> Result<()> {
    let Some((existing, is_whole)) = shardpack_storage::existing(dst) else { return Ok(()) };
    match source.holds(&existing, is_whole) {
        true => Err(Error::usage("lies inside the source").in_file(dst).help("choose a place beside the source")),
        false => Ok(()),
    }
}

/// Fails if a file in the manifests is missing or has another length.
fn check_files_present(dst: &Path, plans: &[Plan], manifests: &[Manifest]) -> Result<()> {
    let storage: Arc<dyn Storage> = Arc::new(Local::new(dst));
    present::check(&storage, plans, manifests)
}

/// Images that the plan already lists as bad.
pub fn known_bad(plans: &[Plan]) -> Vec<Unpacked> {
    let none: Vec<_> = plans.iter().map(|_| copy::Outcome::default()).collect();
    left_out(plans, &none).into_iter().filter(|entry| entry.fate == Fate::Skipped).collect()
}

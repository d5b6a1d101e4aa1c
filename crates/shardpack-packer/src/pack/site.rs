//! A destination: a folder, or a URL. At a URL, shards are uploaded from memory; a local folder keeps the plan and the small files
//! until all is sealed.
//!
//! At a URL, [`super::destination`] takes that folder for DST; it has all files except the shards. So the same command
//! resumes after any stop, and needs only put, read and list from a store: no rename and no condition.
//!
//! Holds at all times: a manifest is put last, and is removed first if it is replaced; before that, the names of the replaced objects
//! are put. So any machine can resume, with or without the local folder. Only files that a manifest or plan of this program names
//! are removed.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::sidecars::{beside_splits, is_shared_name},
    hash,
    manifest::{self, INDEX_FOLDER, LEDGER_FILE, Manifest, SUMS_FILE, WORK_FOLDER},
    splits,
};
use shardpack_reader::StoreSettings;
use shardpack_runtime::Instant;
use shardpack_storage::Storage;

use super::{
    Options, Planned, Report, destination,
    existing::{self, Existing, below},
    existing_files, in_ledgers,
    newer::newer,
    pack_into, present,
    receipt::{self, Received},
    report,
    site_parts::is_spool,
    split_prefix,
    work_folder::{LOCK_FILE, PLAN_FILE, files_in, plan_name, receipt_name, replaced_name},
};
use crate::{
    copy,
    monitor::Monitor,
    own,
    plan::Plan,
    plan_file::{self, PlanFile},
    seal_dataset, sidecars,
    source::{Source, strangers::crop_files},
    sys,
    transfer::{put_files, remove_files},
};

/// Folder in the local folder: the files of the dataset until they are uploaded.
const DATASET_FOLDER: &str = "dataset";

/// See the module.
#[derive(Debug)]
pub(super) struct Site {
    /// DST.
    pub storage: Arc<dyn Storage>,
    /// The local folder of a URL; of a folder, the folder itself.
    pub work: PathBuf,
    /// Whether the user named the parent folder of `work`.
    is_named: bool,
}

/// Folder for the results of a repair of the dataset at `url`, until they are uploaded: in `work`, or in the user's state folder.
///
/// # Errors
/// If there is no such folder.
pub fn repair_folder(url: &Path, work: Option<&Path>) -> Result<PathBuf> {
    Ok(work_of_url(url, work)?.with_extension("repair"))
}

/// Creates the local folder for a URL, below a folder that the user named if `is_named`.
///
/// # Errors
/// If one of the folders is a link, or belongs to another user.
pub fn make_work(work: &Path, is_named: bool) -> Result<()> {
    let (above, name) = (work.parent().unwrap_or(Path::new("")), work.file_name().unwrap_or_default());
    if is_named {
        own::no_link(above)?;
    }
    own::work_folder(above, name).map(drop)
}

fn work_of_url(url: &Path, work: Option<&Path>) -> Result<PathBuf> {
    let all = match work {
        Some(work) => work.to_path_buf(),
        None => {
            let of_variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let of_home = || of_variable("HOME").map(|home| home.join(".local/state"));
            let state = of_variable("XDG_STATE_HOME").or_else(of_home);
            let none = || Error::usage("no folder for unfinished files: neither HOME nor XDG_STATE_HOME is set");
            state.ok_or_else(|| none().in_file(url).help("choose one with --work DIR"))?.join("shardpack")
        }
    };
    let text = url.to_string_lossy();
    let name = hash::hex(&hash::file(text.trim_end_matches('/').as_bytes())[..8]);
    Ok(all.join(name))
}

/// Fails if `planned` cannot be packed into `dst`; runs the checks of a pack and changes nothing.
///
/// # Errors
/// As [`pack`](super::pack()).
pub fn check_destination(planned: &Planned, dst: &Path, options: &Options) -> Result<()> {
    let site = Site::open(dst, &options.store, options.work.as_deref())?;
    site.check(planned.source.as_ref(), &planned.plans, options.force, true).map(drop)
}

impl Site {
    /// The destination at `dst`. `store` and `work` are for URLs.
    ///
    /// # Errors
    /// If the URL cannot be written, or there is no folder for unfinished files.
    pub fn open(dst: &Path, store: &StoreSettings, work: Option<&Path>) -> Result<Self> {
        // Beside a folder, the settings are those of a source at a URL.
        let storage = shardpack_storage::open_to_write(dst, &store.for_any([dst]))?;
        match storage.local().map(Path::to_path_buf) {
            Some(folder) => Ok(Self { storage, work: folder, is_named: true }),
            None => Ok(Self { is_named: work.is_some(), ..Self::at(&storage, work_of_url(dst, work)?) }),
        }
    }

    /// The destination in `storage`, a folder of an object store, with the local folder `work`.
    pub fn at(storage: &Arc<dyn Storage>, work: PathBuf) -> Self {
        Self { storage: storage.with_work(&work), work, is_named: true }
    }

    /// Creates the local folder of a URL: see [`make_work`].
    pub fn make_work(&self) -> Result<()> {
        if self.storage.local().is_some() { Ok(()) } else { make_work(&self.work, self.is_named) }
    }

    /// The destination as a storage. In a folder, unfinished files are in `work`.
    pub fn storage_in(&self, work: &Path) -> Arc<dyn Storage> {
        match self.storage.local() {
            Some(_) => self.storage.with_work(work),
            None => Arc::clone(&self.storage),
        }
    }

    /// Packs the planned dataset into a URL, or resumes it.
    pub fn pack(&self, planned: &Planned, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
        let start = Instant::now();
        destination::refuse_inside(self.storage.root(), planned.source.as_ref())?;
        match self.pack_unless_sealed(planned, options, monitor, start) {
            // Another machine may have finished the same command. A store that does not answer gets no second request.
            Err(error) if !options.force && error.kind() == ErrorKind::Usage => match self.sealed(&planned.plans) {
                Ok(Some(manifests)) => self.sealed_before(planned, manifests, options, start),
                _ => Err(error),
            },
            packed => packed,
        }
    }

    fn pack_unless_sealed(
        &self,
        planned: &Planned,
        options: &Options,
        monitor: &dyn Monitor,
        start: Instant,
    ) -> Result<Report> {
        let plans = &planned.plans;
        let there = self.existing(plans)?;
        if let Some(manifests) = self.replaceable(plans, &there, options.force)? {
            if !there.has_record_of(plans) {
                self.put_record(plans, &manifests)?;
            }
            if self.plan_is_of(plans)? == Some(true) {
                // An earlier run was stopped just before this step.
                self.clear_up(plans, &there.files().into_iter().collect())?;
            }
            return self.sealed_before(planned, manifests, options, start);
        }
        self.make_work()?;
        // Uploads in flight take memory, too.
        let (jobs, memory_bytes) = self.storage.writers(options.jobs, options.memory_bytes);
        let options = &Options { jobs, memory_bytes, ..options.clone() };
        let local = self.folder();
        let report = pack_into(planned, None, &local, self, options, monitor);
        let report = report.map_err(|error| error.shown_as(&local, self.storage.root()))?;
        if report.sealed {
            self.publish(plans, &local)?;
        }
        Ok(Report { already_sealed: false, replaced: None, transfers: self.storage.transfers(), ..report })
    }

    /// The manifests if these plans are sealed here and stay, without `force`. Fails if the prefix cannot be packed into.
    fn replaceable(&self, plans: &[Plan], there: &Existing, force: bool) -> Result<Option<Vec<Manifest>>> {
        // A run that was stopped before the record of splits has its plan at the prefix, and goes on.
        let whole = there.whole(plans)?;
        let is_sealed = there.has_record_of(plans) || whole.is_some() && self.plan()?.is_none();
        let Some(manifests) = whole.filter(|_| is_sealed) else {
            self.refuse_others(plans, there, force)?;
            return Ok(None);
        };
        if force {
            return self.refuse_others(plans, there, force).map(|()| None);
        }
        present::check(&self.storage, plans, &manifests)?;
        Ok(Some(manifests))
    }

    /// Whether these plans of `source` are sealed here, and stay without `force`. Fails if they cannot be packed here; runs the checks of
    /// a pack and changes nothing. Unless the plans `are_final`, an unfinished pack at a URL is compared by its request alone: the present
    /// samples are not known yet.
    ///
    /// # Errors
    /// As [`pack`](super::pack()).
    pub fn check(&self, source: &dyn Source, plans: &[Plan], force: bool, are_final: bool) -> Result<bool> {
        if let Some(folder) = self.storage.local() {
            return destination::may_be_packed(folder, plans, source, force, true);
        }
        destination::refuse_inside(self.storage.root(), source)?;
        let there = self.existing(plans)?;
        let begun = match force || are_final || there.sealed(plans)?.is_some() {
            true => None,
            false => self.plan().map_err(destination::anew)?,
        };
        match begun {
            Some(header) => {
                let old = PlanFile { plans: header.plans().map_err(destination::anew)?, source: header.source };
                if let Some(what) = plan_file::request_difference(&old, source, plans) {
                    return Err(self.other_pack(&format!(": {what}")));
                }
            }
            None if self.replaceable(plans, &there, force)?.is_some() => return Ok(true),
            None => {}
        }
        let may_be_packed = destination::may_be_packed(&self.folder(), plans, source, force, false);
        may_be_packed.map_err(|error| error.shown_as(self.folder(), self.storage.root()))
    }

    /// The folder with the plan and the finished files of a whole pack: of a URL, in the local folder.
    pub fn folder(&self) -> PathBuf {
        self.storage.local().map_or_else(|| self.work.join(DATASET_FOLDER), Path::to_path_buf)
    }

    /// Clears up after a stopped run, and returns the report of a dataset that was sealed before.
    fn sealed_before(
        &self,
        planned: &Planned,
        manifests: Vec<Manifest>,
        options: &Options,
        start: Instant,
    ) -> Result<Report> {
        let plans = &planned.plans;
        let left_uploads = self.clear_local()?;
        let newer = newer(planned.source.as_ref(), plans, self.storage.as_ref())?;
        let other_sidecars = options.sidecars.differ(plans, &manifests)?;
        let read = |plan: &Plan| self.storage.read_small(&(split_prefix(plan) + LEDGER_FILE));
        let unpacked = in_ledgers(plans, &manifests, read)?;
        let report = report(manifests, true, Vec::new(), &[], plans, 0, start);
        Ok(Report { left_uploads, other_sidecars, newer, unpacked, transfers: self.storage.transfers(), ..report })
    }

    /// Removes files that a stopped run has left on this machine, and aborts its uploads, unless a process still packs here. Returns
    /// the names of objects whose parts may remain.
    fn clear_local(&self) -> Result<Vec<String>> {
        let local = self.folder();
        let lock = local.join(WORK_FOLDER).join(LOCK_FILE);
        let alone = sys::Lock::take_if_free(&lock)?;
        if alone.is_none() && sys::exists(&lock)? {
            return Ok(Vec::new());
        }
        let left = self.storage.abort_begun()?;
        own::remove_folder(&local)?;
        self.remove_if_empty();
        Ok(left)
    }

    /// Puts the record beside the splits, and before it the files that it names.
    fn put_record(&self, plans: &[Plan], manifests: &[Manifest]) -> Result<()> {
        let Some(splits) = seal_dataset::splits_of(plans, manifests) else { return Ok(()) };
        let beside = seal_dataset::beside(&splits, self.storage.as_ref())?;
        for (name, bytes) in beside.files {
            self.storage.put(name, bytes)?;
        }
        self.storage.put(splits::FILE, beside.record.to_bytes()?)
    }

    /// See [`Existing::look`].
    pub fn existing(&self, plans: &[Plan]) -> Result<Existing> {
        Existing::look(self.storage.as_ref(), plans)
    }

    /// Fails if the prefix holds objects that this pack would not write; with `force`, objects of existing
    /// manifests are allowed.
    fn refuse_others(&self, plans: &[Plan], there: &Existing, force: bool) -> Result<()> {
        if let Some(name) = there.stray()
            && self.first_other(|other| other == name)?.is_none()
        {
            return Err(self.holds_stray(&name));
        }
        // Manifests of these plans are from an earlier run, which was stopped between two splits.
        if !force && (!there.are_of(plans)? || there.has_other_record(plans)?) {
            return Err(self.holds_another_dataset(there, plans));
        }
        let local = self.folder();
        let plan = local.join(WORK_FOLDER).join(PLAN_FILE);
        let is_begun = sys::exists(&plan)?;
        let is_of_plans = if force { None } else { self.plan_is_of(plans).map_err(destination::anew)? };
        if is_of_plans == Some(false) {
            // The source may have changed since this machine started.
            let own = if is_begun { plan_file::read_header(&plan)?.plans()? } else { Vec::new() };
            if self.plan_is_of(&own)? == Some(false) {
                return Err(self.other_pack(", whose plan is in .shardpack/"));
            }
        }
        if !force && (is_begun || existing::sealed_in(&local, plans)?.is_some()) {
            return Ok(());
        }
        let mut own: BTreeSet<String> = there.names().into_iter().collect();
        own.extend(names_of(plans)?);
        let replaced = self.replaced()?;
        if force {
            own.extend(self.unfinished()?);
        }
        own.extend(replaced.iter().cloned());
        own.extend([splits::FILE.to_owned(), plan_name(), replaced_name()]);
        // Without a plan, files of these names may be of a dataset that has lost its manifest.
        let is_ours = force || is_of_plans == Some(true);
        let mut shared = Vec::new();
        let mut is_own = |name: &str| {
            let is_own = own.contains(name);
            shared.extend((is_own && is_shared_name(name)).then(|| name.to_owned()));
            is_own
        };
        let mut other = self.first_other(|name| is_spool(name) || is_ours && is_own(name))?;
        if !is_ours && other.is_some() && self.plan_is_of(plans)? == Some(true) {
            // Another process has begun the same pack meanwhile.
            other = self.first_other(|name| is_spool(name) || is_own(name))?;
        }
        if let Some(name) = shared.iter().find_map(|name| match sidecars::is_foreign_in(self.storage.as_ref(), name) {
            Ok(false) => None,
            foreign => Some(foreign.map(|_| name)),
        }) {
            return Err(sidecars::foreign(&self.storage.path_of(name?)));
        }
        match other {
            None => Ok(()),
            Some(name) if replaced.contains(&name) => {
                Err(Error::usage(format!("holds {name:?}, of a dataset that an unfinished pack with --force replaces"))
                    .in_file(self.storage.root())
                    .help("add --force, or choose another prefix"))
            }
            Some(name) => Err(self.holds_stray(&name)),
        }
    }

    fn holds_stray(&self, name: &str) -> Error {
        Error::usage(format!("holds {name:?}, which is no part of this pack"))
            .in_file(self.storage.root())
            .help("choose another prefix: files that no manifest names are never removed")
    }

    /// The first existing file that is not one of `own`; folder markers do not count.
    pub fn first_other(&self, mut own: impl FnMut(&str) -> bool) -> Result<Option<String>> {
        let mut other = None;
        self.storage.walk("", &mut |name, _| match own(name) {
            true => ControlFlow::Continue(()),
            false => {
                other = Some(name.to_owned());
                ControlFlow::Break(())
            }
        })?;
        Ok(other)
    }

    /// Of a URL: marks the prefix as an unfinished pack, and aborts multipart uploads of earlier runs. With `force`,
    /// existing manifests are removed before any shard is put, so that none names objects that are overwritten. Without,
    /// manifests that appeared since the check belong to another run, and stay. Returns the names of objects of
    /// earlier runs whose parts may remain.
    pub fn begin(&self, plans: &[Plan], stale: &[PathBuf], force: bool) -> Result<Vec<String>> {
        if self.storage.local().is_some() {
            return Ok(Vec::new());
        }
        let left = self.storage.abort_begun()?;
        let there = if force { self.existing(plans)?.names() } else { Vec::new() };
        let unfinished = if force { self.unfinished()? } else { Vec::new() };
        let local = self.folder();
        let stale = stale.iter().filter_map(|path| path.strip_prefix(&local).ok()?.to_str().map(str::to_owned));
        let known = self.replaced()?;
        let replaced: BTreeSet<_> = known.iter().chain(&there).cloned().chain(stale).chain(unfinished).collect();
        if replaced != known {
            let text: String = replaced.iter().map(|name| format!("{name}\n")).collect();
            self.storage.put(&replaced_name(), text.into_bytes())?;
        }
        // From here on a process that put another plan before puts no more shards and no manifest.
        self.put_plan(plan_file::read_header(&local.join(WORK_FOLDER).join(PLAN_FILE))?.to_bytes())?;
        if !force {
            self.refuse_sealed_meanwhile(plans)?;
        }
        let ends = |name: &&String| name.ends_with(manifest::FILE) || *name == splits::FILE;
        there.iter().filter(ends).try_for_each(|name| self.storage.remove(name))?;
        if force {
            receipt::remove_all(self.storage.as_ref())?;
        }
        Ok(left)
    }

    /// Fails if a process sealed a dataset before the plan of `plans` was put; then removes this plan. The caller looks whether it is
    /// the same dataset.
    pub fn refuse_sealed_meanwhile(&self, plans: &[Plan]) -> Result<()> {
        let there = self.existing(plans)?;
        if there.are_of(plans)? && there.sealed(plans)?.is_none() {
            return Ok(());
        }
        if self.plan_is_of(plans)? == Some(true) {
            self.storage.remove(&plan_name())?;
        }
        Err(self.holds_another_dataset(&there, plans))
    }

    fn other_pack(&self, what: &str) -> Error {
        Error::usage(format!("holds an unfinished pack of something else{what}"))
            .in_file(self.storage.root())
            .help("the command that began it resumes it; --force replaces it if no pack runs; or choose another prefix")
    }

    fn holds_another_dataset(&self, existing: &Existing, plans: &[Plan]) -> Error {
        Error::usage(format!("holds another dataset: {}", existing.difference(plans)))
            .in_file(self.storage.root())
            .help("choose another prefix, or --force to replace it")
    }

    /// Names of objects that an unfinished pack may have, from the plan and receipts at the prefix and the
    /// local ones; and those of a dataset that has lost its manifest, from its list of hashes.
    fn unfinished(&self) -> Result<Vec<String>> {
        // An unreadable plan is replaced.
        let plans = self.plan().and_then(|header| header.map_or(Ok(Vec::new()), |header| header.plans()));
        let plans = match plans {
            Err(error) if error.kind() == ErrorKind::Data => Vec::new(),
            plans => plans?,
        };
        let mut names = names_of(&plans)?;
        if self.storage.length(manifest::FILE)?.is_none() {
            let sums = self.storage.read_small(SUMS_FILE)?.unwrap_or_default();
            let files = existing_files::names_in_sums(&sums);
            names.extend(existing_files::tables_of(&files).into_iter().chain(files));
        }
        for part in receipt::parts(self.storage.as_ref())? {
            let found = receipt::valid(self.storage.as_ref(), part, &plans)?;
            for (plan, shards) in plans.iter().zip(found.into_iter().flat_map(|found| found.shards)) {
                let below = below(plan.split.as_deref());
                names.extend(shards.values().flat_map(Received::files).map(|(file, _)| format!("{below}{file}")));
            }
            names.push(receipt_name(part));
        }
        Ok(names)
    }

    /// Names of the objects of replaced datasets.
    fn replaced(&self) -> Result<BTreeSet<String>> {
        let bytes = self.storage.read_small(&replaced_name())?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
    }

    /// Puts all files of `local` beside the shards, manifests last; returns the names. The dataset of another process is not
    /// touched: if the plan at the prefix is not that of `plans`, the manifests are not put, or removed again.
    pub fn put_dataset(&self, plans: &[Plan], local: &Path) -> Result<Vec<PathBuf>> {
        let guard = self.guard(plans)?;
        let mut files = files_in(local)?;
        files.retain(|file| !file.starts_with(WORK_FOLDER));
        let is_index = |file: &PathBuf| file.parent().is_some_and(|folder| folder.ends_with(INDEX_FOLDER));
        for file in &files {
            let name = file.to_string_lossy();
            if sidecars::is_foreign_in(self.storage.as_ref(), &name)? {
                return Err(sidecars::foreign(&self.storage.path_of(&name)));
            }
        }
        let rank = |file: &PathBuf| match file.file_name().and_then(|name| name.to_str()) {
            Some(splits::FILE) => 2,
            Some(manifest::FILE) => 1,
            _ => 0,
        };
        for turn in 0..=2 {
            // Indexes were put with their shards.
            let of_turn = files.iter().filter(|file| rank(file) == turn && !is_index(file)).cloned();
            let of_turn: Vec<_> = of_turn.collect();
            if turn > 0 && !of_turn.is_empty() {
                guard()?;
            }
            put_files(self.storage.as_ref(), local, &of_turn)?;
        }
        // Without a plan, a process with the same plan has sealed the dataset, and these manifests are its own.
        if self.plan_is_of(plans)? == Some(false) {
            // A process that began in the meantime may have looked for manifests before these were put.
            for file in files.iter().filter(|file| rank(file) > 0) {
                let (path, name) = (local.join(file), file.to_string_lossy());
                if self.storage.read_small(&name)? == sys::read_opt(&path)? {
                    self.storage.remove(&name)?;
                }
            }
            return Err(self.replaced_by_another());
        }
        Ok(files)
    }

    /// As [`Site::put_dataset`], then removes objects and local files that are no longer needed.
    fn publish(&self, plans: &[Plan], local: &Path) -> Result<()> {
        let files = self.put_dataset(plans, local)?;
        let files = files.iter().map(|file| file.to_string_lossy().into_owned());
        self.clear_up(plans, &files.collect())?;
        own::remove_folder(&self.work)
    }

    /// Removes the objects of replaced datasets that are neither shards of `plans` nor in `files`; then plan and receipts.
    fn clear_up(&self, plans: &[Plan], files: &BTreeSet<String>) -> Result<()> {
        let own: BTreeSet<String> = shards_of(plans).into_iter().collect();
        let replaced = self.replaced()?;
        if !replaced.is_empty() {
            let old = replaced.into_iter().filter(|name| !own.contains(name) && !files.contains(name));
            let mut removed = Vec::new();
            for name in old {
                if !sidecars::is_foreign_in(self.storage.as_ref(), &name)? {
                    removed.push(name);
                }
            }
            remove_files(self.storage.as_ref(), &removed)?;
            self.storage.remove(&replaced_name())?;
        }
        self.remove_shared()
    }
}

/// Names of all shards and their indexes.
fn shards_of(plans: &[Plan]) -> Vec<String> {
    let of_plan = |plan: &Plan| {
        let files = |number: usize| [plan.shard_file(number), copy::index_file(plan, number)];
        let below = below(plan.split.as_deref());
        (0..plan.shards.len()).flat_map(files).map(|file| format!("{below}{file}")).collect::<Vec<_>>()
    };
    plans.iter().flat_map(of_plan).collect()
}

/// Names of all files that the datasets of `plans` may have.
fn names_of(plans: &[Plan]) -> Result<Vec<String>> {
    let mut names = shards_of(plans);
    if plans.iter().any(|plan| plan.split.is_some()) {
        names.extend(beside_splits().map(str::to_owned));
    }
    for plan in plans {
        let tables = (0..plan.shards.len()).flat_map(|number| crop_files(&copy::index_file(plan, number)));
        let others = [manifest::FILE, SUMS_FILE, LEDGER_FILE].map(str::to_owned);
        let files = tables.chain(others).chain(sidecars::all_names(plan)?);
        names.extend(files.map(|file| below(plan.split.as_deref()) + &file));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn the_folder_that_is_kept_for_a_url_is_not_made_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let (strangers, link) = (root.path().join("strangers"), root.path().join("link"));
        fs::create_dir(&strangers).unwrap();
        symlink(&strangers, &link).unwrap();
        assert_eq!(make_work(&link.join("x"), true).unwrap_err().location().file, Some(link.display().to_string()));
        assert_eq!(strangers.read_dir().unwrap().count(), 0);
        // The parent folder of all programs may be a link.
        make_work(&link.join("x"), false).unwrap();
        symlink(&strangers, strangers.join("y")).unwrap();
        assert_eq!(
            make_work(&strangers.join("y"), true).unwrap_err().location().file,
            Some(strangers.join("y").display().to_string())
        );
    }
}

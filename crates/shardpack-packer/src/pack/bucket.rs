//! A destination at a URL: shards go there from memory, while a folder of this machine keeps the plan and what is small until all is
//! sealed.
//!
//! That folder is what [`super::destination`] takes for DST; it has all but the shards. So the same command goes on, however it was
//! stopped, and needs nothing of a store but to put, read and list: no rename and no condition.
//!
//! Holds at all times: a manifest is put last, and removed first where it is replaced; nothing is removed that is not named by a manifest
//! or a plan of ours.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, ErrorKind, Result, hash, help,
    manifest::{self, Blake3, INDEX_FOLDER, LEDGER_FILE, Manifest, SUMS_FILE, WORK_FOLDER},
    splits,
};

use super::{
    Options, Planned, Report,
    bucket_parts::{plan_name, receipt_name},
    destination::{self, LOCK_FILE, PLAN_FILE, files_in},
    in_ledgers, other_sidecars, pack_into,
    receipt::Received,
    report,
};
use shardpack_reader::StoreSettings;

use crate::{copy, monitor::Monitor, own, plan::Plan, plan_file, source::Origin, sys, uploads::Uploads};

/// In the folder of a destination: what its dataset is until it is there.
const DATASET_FOLDER: &str = "dataset";
/// Beside it: names of what a dataset of before has, a line each.
const REPLACED_FILE: &str = "replaced";

/// See the module.
#[derive(Debug)]
pub(super) struct Bucket {
    pub uploads: Uploads,
    /// The folder of this machine that is kept for it.
    pub work: PathBuf,
    /// Whether the folder that it lies in was named, and not found.
    is_named: bool,
}

/// Where a pack into `dst` keeps its plan and what is finished: `dst` itself, or of a URL a folder in `work`, or in the user's folder for the state
/// of programs.
///
/// # Errors
/// When there is no such folder.
pub fn local_folder(dst: &Path, work: Option<&Path>) -> Result<PathBuf> {
    match sys::is_store(dst) {
        true => Ok(work_of_url(dst, work)?.join(DATASET_FOLDER)),
        false => Ok(dst.to_path_buf()),
    }
}

/// Where a repair of the dataset at `url` keeps what it makes, until it is there; see [`local_folder`].
///
/// # Errors
/// When there is no such folder.
pub fn repair_folder(url: &Path, work: Option<&Path>) -> Result<PathBuf> {
    Ok(work_of_url(url, work)?.with_extension("repair"))
}

/// Makes the folder of this machine that is kept for a URL, below the one that `is_named`.
///
/// # Errors
/// When one of them is a link, or a stranger's.
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
            let none = || Error::usage("no folder for what is not finished: neither HOME nor XDG_STATE_HOME is set");
            state.ok_or_else(|| none().in_file(url).help("--work DIR says which"))?.join("shardpack")
        }
    };
    let text = url.to_string_lossy();
    let name = hash::hex(&hash::file(text.trim_end_matches('/').as_bytes())[..8]);
    Ok(all.join(name))
}

impl Bucket {
    /// The destination at `dst`, if it is at a URL.
    pub fn open(dst: &Path, store: &StoreSettings, work: Option<&Path>) -> Result<Option<Self>> {
        if !sys::is_store(dst) {
            return Ok(None);
        }
        let (work, is_named) = (work_of_url(dst, work)?, work.is_some());
        Ok(Some(Self { uploads: Uploads::new(dst, store, &work)?, work, is_named }))
    }

    /// Makes the folder of this machine that is kept for it: see [`make_work`].
    pub fn make_work(&self) -> Result<()> {
        make_work(&self.work, self.is_named)
    }

    /// Packs what was planned, or goes on with it.
    pub fn pack(&self, planned: &Planned, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
        let start = std::time::Instant::now();
        let plans = &planned.plans;
        self.refuse_inside(&planned.source)?;
        let there = self.there(plans)?;
        if let Some(manifests) = there.sealed(plans)? {
            if !options.force {
                self.still_there(plans, &manifests)?;
                if self.is_of(plans)? {
                    // An earlier run was stopped when all was done but this.
                    self.remove_shared()?;
                }
                return self.sealed_before(plans, manifests, options, start);
            }
        } else {
            self.refuse_others(plans, &there, options.force)?;
        }
        self.make_work()?;
        // What is sent takes memory, too.
        let (jobs, memory_bytes) = Uploads::threads(options.memory_bytes, options.jobs);
        let options = &Options { jobs, memory_bytes, ..options.clone() };
        let local = self.work.join(DATASET_FOLDER);
        let packed = pack_into(planned, None, &local, Some(self), options, monitor).and_then(|report| {
            if report.sealed {
                self.guarded(plans)?.is_unchanged()?;
                self.publish(plans, &local)?;
            }
            Ok(report)
        });
        let transfers = || Some(self.uploads.transfers());
        match packed {
            Ok(report) => Ok(Report { already_sealed: false, replaced: None, transfers: transfers(), ..report }),
            // A store that does not answer is not asked once more.
            Err(error) if options.force || error.kind() != ErrorKind::Usage => Err(error),
            // The same command may have come to its end on another machine.
            Err(error) => match self.sealed(plans) {
                Ok(Some(manifests)) => {
                    let mut left_uploads = Vec::new();
                    // Unless a process of this machine is at it still.
                    if let Some(_alone) = sys::Lock::take_if_free(&local.join(WORK_FOLDER).join(LOCK_FILE))? {
                        left_uploads = self.uploads.give_up_begun()?;
                        destination::remove_folder(&self.work)?;
                    }
                    let report = self.sealed_before(plans, manifests, options, start)?;
                    Ok(Report { left_uploads, transfers: transfers(), ..report })
                }
                _ => Err(error),
            },
        }
    }

    /// What is said of datasets that were here already.
    fn sealed_before(
        &self,
        plans: &[Plan],
        manifests: Vec<Manifest>,
        options: &Options,
        start: std::time::Instant,
    ) -> Result<Report> {
        let other_sidecars = other_sidecars(&manifests, plans, &options.sidecars)?;
        let read = |plan: &Plan| self.uploads.of_split(plan.split.as_deref()).read_if_there(LEDGER_FILE);
        let unpacked = in_ledgers(plans, &manifests, read)?;
        let report = report(manifests, true, Vec::new(), &[], plans, 0, start);
        Ok(Report { other_sidecars, unpacked, transfers: Some(self.uploads.transfers()), ..report })
    }

    /// Objects of a dataset inside the source would be samples of it the next time.
    pub fn refuse_inside(&self, source: &Origin) -> Result<()> {
        let with_slash = |url: &str| format!("{}/", url.trim_end_matches('/'));
        let own = with_slash(self.uploads.url());
        let holds = |root: &Path| sys::is_store(root) && own.starts_with(&with_slash(&root.to_string_lossy()));
        match source.roots().into_iter().any(holds) {
            true => Err(Error::usage("lies inside the source")
                .in_file(self.uploads.url())
                .help("choose a prefix beside the source")),
            false => Ok(()),
        }
    }

    /// What lies there now, of splits of these plans too where no record names them.
    pub fn there(&self, plans: &[Plan]) -> Result<There> {
        let record = self.uploads.of_split(None).read_if_there(splits::FILE)?;
        let read = record.as_ref().and_then(|bytes| splits::Record::read(bytes).ok());
        let of_record = read.into_iter().flat_map(|record| record.splits).map(|split| Some(split.name));
        let of_plans = plans.iter().map(|plan| plan.split.clone());
        let mut there = There { has_record: record.is_some(), manifests: Vec::new() };
        for split in of_record.chain(of_plans).chain([None]).collect::<BTreeSet<_>>() {
            if let Some(bytes) = self.uploads.of_split(split.as_deref()).read_if_there(manifest::FILE)? {
                there.manifests.push((split, Manifest::read(&bytes).ok()));
            }
        }
        Ok(there)
    }

    /// Fails where a file that the manifests name is not there, or not as long as they say.
    pub fn still_there(&self, plans: &[Plan], manifests: &[Manifest]) -> Result<()> {
        for (plan, manifest) in plans.iter().zip(manifests) {
            let uploads = self.uploads.of_split(plan.split.as_deref());
            let expected = files_of(manifest);
            let names: Vec<&str> = expected.iter().map(|(file, _)| file.as_str()).collect();
            let there = uploads.lengths(&names)?;
            let wrong = expected.iter().find(|(file, bytes)| there.get(file.as_str()) != Some(bytes));
            if let Some((file, bytes)) = wrong {
                let what = match there.get(file.as_str()) {
                    None => "is missing".to_owned(),
                    Some(found) => format!("is {found} bytes, the manifest says {bytes}"),
                };
                let what = format!("was packed from this source, and is damaged now: {file} {what}");
                return Err(Error::data(what).in_file(self.uploads.url()).help(help::PACK_ANEW));
            }
        }
        Ok(())
    }

    /// Fails where something lies there that this pack would not make; with `force`, what manifests there name is no such thing.
    fn refuse_others(&self, plans: &[Plan], there: &There, force: bool) -> Result<()> {
        // Those of these plans an earlier run has put, which was stopped among the splits.
        if !force && !there.are_of(plans)? {
            return Err(Error::usage("holds a dataset of something else")
                .in_file(self.uploads.url())
                .help("another prefix, or --force to replace it"));
        }
        let local = self.work.join(DATASET_FOLDER);
        let plan = local.join(WORK_FOLDER).join(PLAN_FILE);
        let is_begun = sys::is_there(&plan)?;
        if !force && self.plan()?.is_some() && !self.is_of(plans)? {
            // The source may have changed since this machine has begun.
            let own = if is_begun { plan_file::read_header(&plan)?.plans()? } else { Vec::new() };
            if !self.is_of(&own)? {
                return Err(Error::usage("holds an unfinished pack of something else, whose plan is in .shardpack/")
                    .in_file(self.uploads.url())
                    .help("the command of then goes on with it, --force replaces it, once nobody is at it; or another prefix"));
            }
        }
        if !force && (is_begun || destination::sealed_here(&local, plans)?.is_some()) {
            return Ok(());
        }
        let mut own: BTreeSet<String> = there.names().into_iter().collect();
        for plan in plans {
            let others = [manifest::FILE, SUMS_FILE, LEDGER_FILE];
            own.extend(others.map(|file| below(plan.split.as_deref()) + file));
        }
        own.extend(shards_of(plans));
        if force {
            own.extend(self.unfinished()?);
        }
        own.extend([splits::FILE.to_owned(), plan_name()]);
        match self.uploads.first_other(|name| own.contains(name))? {
            None => Ok(()),
            Some(name) => Err(Error::usage(format!("holds {name:?}, which is no part of this pack"))
                .in_file(self.uploads.url())
                .help("another prefix; nothing is removed that no manifest names")),
        }
    }

    /// Makes it an unfinished pack: what was begun before is given up, and, with `force`, no manifest names what is written over. Without,
    /// manifests that came since it was looked at are of another run, and stay. Tells objects of which parts of earlier runs may be left.
    pub fn begin(&self, plans: &[Plan], stale: &[PathBuf], force: bool) -> Result<Vec<String>> {
        let left = self.uploads.give_up_begun()?;
        let there = if force { self.there(plans)?.names() } else { Vec::new() };
        let unfinished = if force { self.unfinished()? } else { Vec::new() };
        let local = self.work.join(DATASET_FOLDER);
        let stale = stale.iter().filter_map(|path| path.strip_prefix(&local).ok()?.to_str().map(str::to_owned));
        let mut replaced = self.replaced()?;
        replaced.extend(there.iter().cloned().chain(stale).chain(unfinished));
        if !replaced.is_empty() {
            let text: String = replaced.iter().map(|name| format!("{name}\n")).collect();
            sys::write_durably(&local.join(WORK_FOLDER), &self.work.join(REPLACED_FILE), text.as_bytes())?;
        }
        let ends = |name: &&String| name.ends_with(manifest::FILE) || *name == splits::FILE;
        there.iter().filter(ends).try_for_each(|name| self.uploads.of_split(None).remove(name))?;
        if force {
            self.remove_shared()?;
        }
        // From here on whoever has put another before puts no shard any more.
        self.put_plan(plan_file::read_header(&local.join(WORK_FOLDER).join(PLAN_FILE))?.to_bytes())?;
        Ok(left)
    }

    /// Names of what an unfinished pack may have here, by the plan and the receipts that lie here, and of these.
    fn unfinished(&self) -> Result<Vec<String>> {
        // One that cannot be read is replaced.
        let plans = self.plan().and_then(|header| header.map_or(Ok(Vec::new()), |header| header.plans()));
        let plans = match plans {
            Err(error) if error.kind() == ErrorKind::Data => Vec::new(),
            plans => plans?,
        };
        let mut names = shards_of(&plans);
        for part in self.receipts()? {
            for (plan, shards) in
                plans.iter().zip(self.receipt(part, &plans)?.into_iter().flat_map(|found| found.shards))
            {
                let below = below(plan.split.as_deref());
                names.extend(shards.values().flat_map(Received::files).map(|(file, _)| format!("{below}{file}")));
            }
            names.push(receipt_name(part));
        }
        Ok(names)
    }

    /// Names of what datasets of before have.
    fn replaced(&self) -> Result<BTreeSet<String>> {
        let bytes = sys::read_if_there(&self.work.join(REPLACED_FILE))?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
    }

    /// Puts all that lies in `local` beside the shards, manifests last; tells the names.
    pub fn put_dataset(&self, local: &Path) -> Result<Vec<PathBuf>> {
        let mut files = files_in(local)?;
        files.retain(|file| !file.starts_with(WORK_FOLDER));
        let is_index = |file: &PathBuf| file.parent().is_some_and(|folder| folder.ends_with(INDEX_FOLDER));
        let rank = |file: &PathBuf| match file.file_name().and_then(|name| name.to_str()) {
            Some(splits::FILE) => 2,
            Some(manifest::FILE) => 1,
            _ => 0,
        };
        for turn in 0..=2 {
            // Indexes went with their shards.
            let of_turn = files.iter().filter(|file| rank(file) == turn && !is_index(file)).cloned();
            self.uploads.of_split(None).put_files(local, &of_turn.collect::<Vec<_>>())?;
        }
        Ok(files)
    }

    /// As [`Bucket::put_dataset`], then removes what is of no use any more.
    fn publish(&self, plans: &[Plan], local: &Path) -> Result<()> {
        let files = self.put_dataset(local)?;
        self.remove_shared()?;
        let mut old = self.replaced()?;
        for file in &files {
            old.remove(&*file.to_string_lossy());
        }
        let own: BTreeSet<String> = shards_of(plans).into_iter().collect();
        old.retain(|name| !own.contains(name));
        self.uploads.of_split(None).remove_files(&old.into_iter().collect::<Vec<_>>())?;
        destination::remove_folder(&self.work)
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

/// What names of a split begin with, or of a dataset without splits.
fn below(split: Option<&str>) -> String {
    split.map_or_else(String::new, |split| format!("{split}/"))
}

/// What lies at a destination.
pub(super) struct There {
    has_record: bool,
    /// By split; `None` where one cannot be read.
    pub manifests: Vec<(Option<String>, Option<Manifest>)>,
}

impl There {
    /// Whether all of it is of these plans.
    fn are_of(&self, plans: &[Plan]) -> Result<bool> {
        for (split, manifest) in &self.manifests {
            let plan = plans.iter().find(|plan| plan.split == *split);
            let Some((plan, manifest)) = plan.zip(manifest.as_ref()) else { return Ok(false) };
            if manifest.plan != Blake3(plan.hash()?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The manifests in the order of the plans, if there is one of each and no other.
    pub fn sealed(&self, plans: &[Plan]) -> Result<Option<Vec<Manifest>>> {
        // Without the record of splits it is not all there.
        let has_all =
            self.manifests.len() == plans.len() && plans.iter().all(|plan| plan.split.is_none() || self.has_record);
        if !has_all || !self.are_of(plans)? {
            return Ok(None);
        }
        let of_plan = |plan: &Plan| {
            self.manifests.iter().find(|(split, _)| *split == plan.split).and_then(|(_, manifest)| manifest.clone())
        };
        Ok(plans.iter().map(of_plan).collect())
    }

    /// Names of all files of it, manifests and the record of splits first.
    fn names(&self) -> Vec<String> {
        let record = self.has_record.then(|| splits::FILE.to_owned());
        let manifests = self.manifests.iter().map(|(split, _)| below(split.as_deref()) + manifest::FILE);
        let files = self.manifests.iter().flat_map(|(split, manifest)| {
            let files = manifest.iter().flat_map(files_of);
            files.map(|(file, _)| below(split.as_deref()) + &file)
        });
        record.into_iter().chain(manifests).chain(files).collect()
    }
}

/// The files that a manifest names, and their lengths in bytes.
fn files_of(manifest: &Manifest) -> Vec<(String, u64)> {
    let shards = manifest.shards.iter().map(|shard| (shard.file.clone(), shard.bytes));
    let others = manifest.shards.iter().map(|shard| &shard.index).chain(&manifest.sidecars);
    let others = others.chain(&manifest.ledger.file).map(|file| (file.file.clone(), file.bytes));
    shards.chain(others).chain([(SUMS_FILE.to_owned(), manifest.sums().len() as u64)]).collect()
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
        // That of all programs may lie elsewhere.
        make_work(&link.join("x"), false).unwrap();
        symlink(&strangers, strangers.join("y")).unwrap();
        assert_eq!(
            make_work(&strangers.join("y"), true).unwrap_err().location().file,
            Some(strangers.join("y").display().to_string())
        );
    }
}

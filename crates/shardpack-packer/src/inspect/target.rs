//! Resolves command-line paths to datasets, shards of a dataset, or foreign files.
//!
//! Reads only manifests, names and the first bytes of foreign files. A shard of a dataset is recognised by the manifest in its folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, help, manifest, size};
use shardpack_reader::{Dataset, Shard, Splits, StoreSettings, Transfers, WORK_FOLDER, unfinished};
use shardpack_storage::{Local, Storage};

use crate::{
    foreign::{
        ShardFile,
        files::{Files, look},
        patterns::expanded,
    },
    plan_file,
    source::{
        Given, Root,
        packed::{self, folder_of},
        strangers::{self, NOT_LISTED, STRANGER, STRANGER_BESIDE},
    },
    sys,
};

/// Maximum length in bytes of a plan file that is read only to count shards.
const SMALL_PLAN_BYTES: u64 = 4 << 20;

/// A unit of inspection.
#[derive(Debug)]
pub enum Target {
    /// A dataset, or some of its shards.
    Dataset(Box<View>),
    /// Shards of one format without a manifest, in the given order.
    Foreign(Vec<ShardFile>),
}

/// Result of resolving paths.
#[derive(Debug, Default)]
pub struct Resolved {
    /// The targets.
    pub targets: Vec<Target>,
    /// Missing files, files that are not shards, and changed splits, if there are other targets.
    pub problems: Vec<Error>,
    /// Other files in folders of shards, counted by the reason for ignoring them.
    pub ignored: BTreeMap<String, u64>,
    /// What was not looked for.
    pub notes: BTreeSet<&'static str>,
    /// Resolved URLs, with the files there that belong to no dataset.
    asked: Vec<Given>,
    /// Folders of splits at URLs that were listed.
    folders: Vec<Arc<dyn Storage>>,
}

/// A dataset and a selection of its shards.
#[derive(Debug)]
pub struct View {
    /// The dataset.
    pub dataset: Dataset,
    /// Numbers of the selected shards, ascending.
    pub shards: Vec<usize>,
}

impl View {
    fn whole(folder: &Path) -> Result<Box<Self>> {
        let dataset = open(folder)?;
        Ok(Box::new(Self { shards: (0..dataset.manifest().shards.len()).collect(), dataset }))
    }

    /// Whether all shards are selected.
    pub fn is_whole(&self) -> bool {
        self.shards.len() == self.dataset.manifest().shards.len()
    }

    /// The selected shards, in order.
    pub fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        self.shards.iter().filter_map(|number| self.dataset.shard(*number).ok())
    }

    /// Selects the shard at `path`; returns `false` if it is not in this dataset.
    fn add(&mut self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        let is_it = |shard: &manifest::Shard| name == shard.file.as_str();
        let found = self.dataset.manifest().shards.iter().position(is_it);
        let Some(number) = found.filter(|_| self.dataset.folder() == folder_of(path)) else { return false };
        if let Err(at) = self.shards.binary_search(&number) {
            self.shards.insert(at, number);
        }
        true
    }

    /// Number of samples in the selected shards.
    pub fn samples(&self) -> u64 {
        self.shards().map(|shard| shard.len()).sum()
    }
}

/// Opens a dataset so that reads check images against their hashes.
fn open(folder: &Path) -> Result<Dataset> {
    Ok(Dataset::open(folder)?.check_content(true))
}

/// Resolves `paths`; consecutive paths that belong together form one target. Globs and brace patterns are expanded.
///
/// # Errors
/// If a path does not exist, has no content, or holds an unfinished pack.
pub fn resolve(paths: &[PathBuf], settings: &StoreSettings) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    // Foreign files, collected so that many are inspected in parallel.
    let mut foreign: Vec<PathBuf> = Vec::new();
    let mut all = Vec::new();
    if let (Some(local), false) = (paths.iter().find(|path| !sys::is_store(path)), settings.is_empty()) {
        settings.refuse_for(local)?;
    }
    for path in paths {
        if sys::is_store(path) {
            all.push(path.clone());
            continue;
        }
        let is_pattern = path.to_string_lossy().contains(['*', '?', '[', '{']) && !sys::is_there(path)?;
        if is_pattern { all.extend(expanded(path)?) } else { all.push(path.clone()) }
    }
    // A manifest selects the whole dataset: its shards and neighbours need no target of their own.
    let is_manifest = |path: &Path| path.file_name().is_some_and(|name| name == manifest::FILE);
    let whole: Vec<PathBuf> = all.iter().filter(|path| is_manifest(path)).map(|path| folder_of(path)).collect();
    all.retain(|path| is_manifest(path) || !whole.contains(&folder_of(path)));
    for neighbours in all.chunk_by(|one, next| sys::is_store(one) && sys::is_store(next)) {
        let path = &neighbours[0];
        if sys::is_store(path) {
            resolved.add_foreign(&mut foreign)?;
            resolved.add_urls(neighbours, settings)?;
            continue;
        }
        let kind = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::usage("not found").in_file(path),
            _ => sys::io_error("cannot look at", path, error),
        })?;
        let found = match kind.is_dir() {
            true => folder(path, &mut resolved)?,
            false if path.extension().is_some_and(|extension| extension == "json") => {
                Some(vec![Target::Dataset(View::whole(&of_manifest(path)?)?)])
            }
            false => of_dataset(&mut resolved, foreign.is_empty(), path)?,
        };
        match found {
            Some(found) => {
                resolved.add_foreign(&mut foreign)?;
                resolved.targets.extend(found);
            }
            None => foreign.push(path.clone()),
        }
    }
    resolved.add_foreign(&mut foreign)?;
    Ok(resolved)
}

impl Resolved {
    /// Adds files in `folder` that do not belong to its dataset: shards are problems, other files are counted. `None` if the storage
    /// has no list.
    fn add_strangers(&mut self, folder: &Path, names: Option<Vec<String>>, reason: &'static str) -> Result<()> {
        let Some(names) = names else {
            self.notes.insert(NOT_LISTED);
            return Ok(());
        };
        for path in names.into_iter().map(|name| folder.join(name)) {
            match strangers::is_shard(&path)? {
                true => self.problems.push(Error::data(reason).in_file(path)),
                false => *self.ignored.entry(reason.to_owned()).or_default() += 1,
            }
        }
        Ok(())
    }

    /// Adds targets at URLs: datasets, their splits and shards, then other files.
    fn add_urls(&mut self, urls: &[PathBuf], settings: &StoreSettings) -> Result<()> {
        let given = Given::at_urls(urls, settings)?;
        given.refuse_lost_manifests()?;
        for Root { folder, only, .. } in &given.roots {
            let datasets = Dataset::open_all_with(folder, settings)?;
            if only.is_none() {
                self.add_strangers_at_url(folder, &datasets, settings)?;
            }
            for dataset in datasets {
                let mut view = Box::new(View { shards: Vec::new(), dataset: dataset.check_content(true) });
                let Some(only) = only else {
                    view.shards = (0..view.dataset.manifest().shards.len()).collect();
                    self.targets.push(Target::Dataset(view));
                    continue;
                };
                for name in only {
                    let path = view.dataset.folder().join(name);
                    let is_shard = view.add(&path);
                    self.problems.extend((!is_shard).then(|| Error::data(STRANGER).in_file(path)));
                }
                if !view.shards.is_empty() {
                    self.targets.push(Target::Dataset(view));
                }
            }
        }
        if !given.others.is_empty() {
            self.add_files(given.look()?.some(&given.others)?.files);
        }
        self.asked.push(given);
        Ok(())
    }

    /// Adds files at the URL `folder` that do not belong to its datasets, if the store has a list.
    fn add_strangers_at_url(&mut self, folder: &Path, datasets: &[Dataset], settings: &StoreSettings) -> Result<()> {
        for dataset in datasets {
            let strange = strangers::strangers(dataset.storage(), dataset.manifest())?;
            self.add_strangers(dataset.folder(), strange, STRANGER)?;
        }
        let splits: Vec<_> = datasets.iter().filter_map(|one| one.folder().strip_prefix(folder).ok()).collect();
        if splits.iter().any(|split| split.as_os_str().is_empty()) {
            return Ok(());
        }
        let storage = shardpack_storage::open(folder, settings)?;
        let beside = strangers::beside_splits(&*storage, |name| splits.contains(&Path::new(name)))?;
        self.add_strangers(folder, beside, STRANGER_BESIDE)?;
        self.folders.push(storage);
        Ok(())
    }

    /// Network transfers so far; `None` if all targets are local files.
    pub fn transfers(&self) -> Option<Transfers> {
        let of = |target: &Target| match target {
            Target::Dataset(view) => view.dataset.transfers(),
            Target::Foreign(_) => None,
        };
        let asked = self.asked.iter().filter_map(Given::transfers);
        let folders = self.folders.iter().filter_map(|storage| storage.transfers());
        self.targets.iter().filter_map(of).chain(asked).chain(folders).reduce(Transfers::and)
    }

    fn add_foreign(&mut self, sources: &mut Vec<PathBuf>) -> Result<()> {
        if !sources.is_empty() {
            self.add_files(look(sources)?.some(sources)?);
            sources.clear();
        }
        Ok(())
    }

    /// Adds foreign files: all files of one format form one target.
    fn add_files(&mut self, Files { shards, problems, ignored, .. }: Files) {
        self.problems.extend(problems);
        for (reason, files) in ignored {
            *self.ignored.entry(reason).or_default() += files;
        }
        let before = self.targets.len();
        for shard in shards {
            let group = self.targets[before..].iter_mut().find_map(|target| match target {
                Target::Foreign(files) => files.first().is_some_and(|file| file.kind == shard.kind).then_some(files),
                Target::Dataset(_) => None,
            });
            match group {
                Some(files) => files.push(shard),
                None => self.targets.push(Target::Foreign(vec![shard])),
            }
        }
    }
}

/// The datasets in a folder; adds differences from the packed splits to `resolved`. `None` if there are foreign shards or nothing.
fn folder(path: &Path, resolved: &mut Resolved) -> Result<Option<Vec<Target>>> {
    refuse_unfinished(path)?;
    if sys::is_there(&path.join(manifest::FILE))? {
        let view = View::whole(path)?;
        let strange = strangers::strangers(&Local::new(path), view.dataset.manifest())?;
        resolved.add_strangers(path, strange, STRANGER)?;
        return Ok(Some(vec![Target::Dataset(view)]));
    }
    packed::refuse_lost_manifest(path)?;
    let Splits { found: mut splits, differences, .. } = shardpack_reader::look_at_splits(path)?;
    resolved
        .problems
        .extend(differences.into_iter().map(|one| Error::data(one.what).in_file(path.join(one.folder)).help(one.help)));
    splits.sort_by_key(|split| split_rank(split.path.file_name().unwrap_or_default()));
    if splits.is_empty() {
        return Ok(None);
    }
    let mut targets = Vec::with_capacity(splits.len());
    for split in &splits {
        let view = View::whole(&split.path)?;
        let strange = strangers::strangers(&Local::new(&split.path), view.dataset.manifest())?;
        resolved.add_strangers(&split.path, strange, STRANGER)?;
        targets.push(Target::Dataset(view));
    }
    let is_split = |name: &str| splits.iter().any(|split| split.path.ends_with(name));
    let beside = strangers::beside_splits(&Local::new(path), is_split)?;
    resolved.add_strangers(path, beside, STRANGER_BESIDE)?;
    Ok(Some(targets))
}

/// Sort key of a split: training, validation, test, then others by name.
fn split_rank(name: &OsStr) -> (usize, OsString) {
    const RANKS: [&[&str]; 3] = [&["train", "training"], &["val", "valid", "validation", "dev"], &["test", "testing"]];
    let rank = RANKS.iter().position(|names| names.iter().any(|known| name == *known));
    (rank.unwrap_or(RANKS.len()), name.to_owned())
}

/// The folder of a manifest file that was given as a path.
fn of_manifest(path: &Path) -> Result<PathBuf> {
    if path.file_name().is_none_or(|name| name != manifest::FILE) {
        let what = format!("a manifest is called {}", manifest::FILE);
        return Err(Error::usage(what).in_file(path).help("give the folder, its manifest, or shards"));
    }
    let folder = folder_of(path);
    refuse_unfinished(&folder)?;
    Ok(folder)
}

/// Resolves a file as a shard of its dataset; `None` if it belongs to no dataset.
///
/// If `is_next` and the last target is that dataset, the shard is added to it.
fn of_dataset(resolved: &mut Resolved, is_next: bool, path: &Path) -> Result<Option<Vec<Target>>> {
    if let Some(Target::Dataset(view)) = resolved.targets.last_mut().filter(|_| is_next)
        && view.add(path)
    {
        return Ok(Some(Vec::new()));
    }
    let folder = folder_of(path);
    refuse_unfinished(&folder)?;
    if sys::is_file(&folder.join(manifest::FILE))? {
        let mut view = Box::new(View { dataset: open(&folder)?, shards: Vec::new() });
        if view.add(path) {
            return Ok(Some(vec![Target::Dataset(view)]));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !strangers::is_known(view.dataset.manifest(), &name) {
            resolved.add_strangers(&folder, Some(vec![name]), STRANGER)?;
        }
    }
    Ok(None)
}

/// Fails if `folder`, or its parent folder of splits, holds an unfinished pack; the message has the progress.
fn refuse_unfinished(folder: &Path) -> Result<()> {
    let Some(folder) = unfinished(folder)? else { return Ok(()) };
    let work = folder.join(WORK_FOLDER);
    let shown = if folder.ends_with("..") { folder.canonicalize().unwrap_or(folder) } else { folder };
    let finished = finished_shards(&shown).map_err(|error| sys::io_error("cannot read folder", &shown, error))?;
    let plan = work.join("plan");
    let is_small = fs::metadata(&plan).is_ok_and(|plan| plan.len() <= SMALL_PLAN_BYTES);
    // `pack` reports an unreadable plan.
    let planned = is_small.then(|| plan_file::read(&plan).ok()).flatten();
    let of = planned.map(|file| file.plans.iter().map(|plan| plan.shards.len()).sum::<usize>());
    let progress = match of {
        Some(all) => format!("finished: {finished} of {}", size::counted(all as u64, "shard")),
        None => format!("shards that are finished: {finished}"),
    };
    Err(Error::usage(format!("an unfinished pack; {progress}")).in_file(shown).help(help::FINISH_PACK))
}

/// Counts finished shards: a shard is finished once its index has its final name.
fn finished_shards(folder: &Path) -> io::Result<usize> {
    let mut finished = 0;
    let folders = folder.read_dir()?.collect::<io::Result<Vec<_>>>()?;
    let splits = folders.iter().map(|entry| entry.path().join(manifest::INDEX_FOLDER));
    for indexes in splits.chain([folder.join(manifest::INDEX_FOLDER)]) {
        let entries = match indexes.read_dir() {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            entries => entries?,
        };
        for entry in entries {
            finished += usize::from(entry?.path().extension().is_some_and(|extension| extension == "index"));
        }
    }
    Ok(finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_files_without_a_manifest_are_foreign_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.tar", "a.tar", "c.tar.zst", ".hidden.tar", "a.tar.idx", "x.json"] {
            // A compressed file is detected by its magic bytes.
            let bytes: &[u8] = if name.ends_with("zst") { b"\x28\xb5\x2f\xfd" } else { b"" };
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        fs::create_dir(folder.path().join("d.tar")).unwrap();
        let targets = resolve(&[folder.path().to_path_buf()], &StoreSettings::default()).unwrap().targets;
        let [Target::Foreign(files)] = &targets[..] else { panic!("{targets:?}") };
        let names: Vec<_> = files.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.tar", "b.tar", "c.tar.zst"]);
        let given = [folder.path().join("b.tar"), folder.path().join("a.tar")];
        let targets = resolve(&given, &StoreSettings::default()).unwrap().targets;
        let [Target::Foreign(files)] = &targets[..] else { panic!("{targets:?}") };
        let paths: Vec<_> = files.iter().map(|file| &file.path).collect();
        assert_eq!(paths, given.iter().collect::<Vec<_>>(), "files stay in the order in which they were given");
    }

    #[test]
    fn what_is_nothing_is_said_to_be_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: PathBuf| resolve(&[path], &StoreSettings::default()).unwrap_err().to_string();
        assert!(message(folder.path().to_path_buf()).ends_with("no shards"));
        assert!(message(folder.path().join("none")).ends_with("none: not found"));
        fs::write(folder.path().join("x.json"), b"{}").unwrap();
        assert!(message(folder.path().join("x.json")).ends_with("a manifest is called manifest.json"));
    }

    #[test]
    fn an_unfinished_pack_is_said_to_be_one_from_inside_too() {
        let folder = tempfile::tempdir().unwrap();
        for part in [".shardpack", "train/index", "val/index"] {
            fs::create_dir_all(folder.path().join(part)).unwrap();
        }
        for index in ["train/index/a.index", "val/index/a.index", "val/index/b.index"] {
            fs::write(folder.path().join(index), b"").unwrap();
        }
        for part in ["", "train"] {
            let error = resolve(&[folder.path().join(part)], &StoreSettings::default()).unwrap_err();
            assert_eq!(error.kind(), shardpack_format::ErrorKind::Usage);
            assert!(error.to_string().ends_with("an unfinished pack; shards that are finished: 3"), "{error}");
        }
    }
}

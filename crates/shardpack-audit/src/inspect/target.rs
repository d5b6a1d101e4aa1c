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
use shardpack_reader::{Dataset, Shard, StoreSettings, Transfers, WORK_FOLDER, unfinished};
use shardpack_storage::Storage;

use crate::{
    foreign::{ShardFile, files::Files},
    plan_file,
    source::{
        DatasetLocation, Inputs, inputs,
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
    /// Checks that were not made.
    pub notes: BTreeSet<&'static str>,
    /// Resolved paths, with the files there that belong to no dataset.
    asked: Vec<Inputs>,
    /// Folders of splits that were listed.
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
    /// Whether all shards are selected.
    pub fn is_whole(&self) -> bool {
        self.shards.len() == self.dataset.manifest().shards.len()
    }

    /// The selected shards, in order.
    pub fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        self.shards.iter().filter_map(|number| self.dataset.shard(*number).ok())
    }

    /// Number of samples in the selected shards.
    pub fn samples(&self) -> u64 {
        self.shards().map(|shard| shard.len()).sum()
    }
}

/// Resolves `paths`: datasets and their selected shards first, then other files. Globs and brace patterns are expanded.
///
/// # Errors
/// If a path does not exist, has no content, or holds an unfinished pack.
pub fn resolve(paths: &[PathBuf], settings: &StoreSettings) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    paths.iter().try_for_each(|path| settings.refuse_for(path))?;
    for alike in inputs::alike(paths)? {
        resolved.add(&alike, settings)?;
    }
    Ok(resolved)
}

impl Resolved {
    /// Adds the targets at `expanded`, which are all URLs or all local.
    fn add(&mut self, expanded: &[PathBuf], settings: &StoreSettings) -> Result<()> {
        expanded.iter().try_for_each(|path| refuse_unfinished(path))?;
        let mut given = Inputs::at(expanded, settings)?;
        // A manifest selects all that is beside it; a folder that is named in a dataset that is named is still looked at.
        for path in expanded {
            let folder = folder_of(path);
            let is_whole = |folder: &Path| given.roots.iter().any(|root| root.only.is_none() && root.folder == folder);
            if is_whole(&folder)
                && !is_whole(path)
                && !expanded.contains(&folder.join(manifest::FILE))
                && sys::is_folder(path)?
            {
                given.others.push(path.clone());
            }
        }
        given.refuse_lost_manifests()?;
        given.take_splits(settings)?;
        for DatasetLocation { folder, .. } in given.roots.iter().filter(|root| root.only.is_none()) {
            if sys::is_folder(folder)? && !sys::exists(&folder.join(manifest::FILE))? {
                packed::refuse_lost_manifest(folder)?;
            }
        }
        let is_json = |path: &&PathBuf| path.is_file() && path.extension().is_some_and(|end| end == "json");
        if let Some(path) = given.others.iter().find(is_json) {
            let what = format!("a manifest is called {}", manifest::FILE);
            return Err(Error::usage(what).in_file(path).help("give the folder, its manifest, or shards"));
        }
        for root in &given.roots {
            self.add_root(root, settings)?;
        }
        if !given.others.is_empty() {
            self.add_files(given.look()?.some(&given.others)?.files);
        }
        self.asked.push(given);
        Ok(())
    }

    /// Adds the datasets at `root`, or its selected shards, and the files there that belong to none.
    fn add_root(
        &mut self,
        DatasetLocation { folder, only, .. }: &DatasetLocation,
        settings: &StoreSettings,
    ) -> Result<()> {
        let (mut datasets, differences) = Dataset::open_found(folder, settings)?;
        self.problems.extend(differences);
        datasets.sort_by_key(|dataset| split_rank(dataset.folder().file_name().unwrap_or_default()));
        if only.is_none() {
            self.add_strangers_at(folder, &datasets, settings)?;
        }
        for dataset in datasets {
            let shards = &dataset.manifest().shards;
            let is_meant = |shard: &manifest::Shard| only.as_ref().is_none_or(|only| only.contains(&shard.file));
            let meant: Vec<usize> = (0..shards.len()).filter(|number| is_meant(&shards[*number])).collect();
            let strange = only.iter().flatten().filter(|name| !shards.iter().any(|shard| shard.file == **name));
            let strange = strange.map(|name| Error::data(STRANGER).in_file(dataset.folder().join(name)));
            self.problems.extend(strange);
            if only.is_none() || !meant.is_empty() {
                let view = View { dataset: dataset.check_content(true), shards: meant };
                self.targets.push(Target::Dataset(Box::new(view)));
            }
        }
        Ok(())
    }

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

    /// Adds files in `folder` that do not belong to its datasets, if the storage has a list.
    fn add_strangers_at(&mut self, folder: &Path, datasets: &[Dataset], settings: &StoreSettings) -> Result<()> {
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
        let asked = self.asked.iter().filter_map(Inputs::transfers);
        let folders = self.folders.iter().filter_map(|storage| storage.transfers());
        self.targets.iter().filter_map(of).chain(asked).chain(folders).reduce(Transfers::and)
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

/// Sort key of a split: training, validation, test, then others by name.
fn split_rank(name: &OsStr) -> (usize, OsString) {
    const RANKS: [&[&str]; 3] = [&["train", "training"], &["val", "valid", "validation", "dev"], &["test", "testing"]];
    let rank = RANKS.iter().position(|names| names.iter().any(|known| name == *known));
    (rank.unwrap_or(RANKS.len()), name.to_owned())
}

/// Fails if the folder of `path`, or the folder of its splits, holds an unfinished pack; the message has the progress.
fn refuse_unfinished(path: &Path) -> Result<()> {
    let folder = if sys::is_folder(path)? { path.to_path_buf() } else { folder_of(path) };
    let Some(folder) = unfinished(&folder)? else { return Ok(()) };
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
        assert!(message(folder.path().join("none")).ends_with("none: no such file or folder"));
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

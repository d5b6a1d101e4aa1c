//! Existing files of a destination folder: files that datasets in it name, and foreign files.
//!
//! Holds at all times: only files that a dataset or plan of this program names are moved or removed.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Component, Path, PathBuf},
};

use shardpack_format::{
    Error, Result,
    formats::sidecars::beside_splits,
    manifest::{self, Manifest, WORK_FOLDER},
    splits, text,
};
use shardpack_storage::Local;

use super::{dataset_folder, existing::Existing, work_folder::ASIDE_FOLDER};
use crate::{copy, plan::Plan, sidecars, source::strangers::crop_files, sys};

/// Paths are relative to the folder.
#[derive(Debug, Default)]
pub(super) struct ExistingFiles {
    /// Files of datasets, manifests first: without manifests, the rest does not look finished.
    pub files: Vec<PathBuf>,
    /// Folders of datasets, inner folders first.
    pub folders: Vec<PathBuf>,
    /// Length of all files in bytes.
    pub bytes: u64,
    /// Whether any dataset in it is sealed.
    pub is_sealed: bool,
    /// The first entry, by name, that no dataset names.
    foreign: Option<PathBuf>,
}

impl ExistingFiles {
    /// Lists the files in `dst`, which may be an unfinished pack of `plans`.
    pub fn look(dst: &Path, plans: &[Plan]) -> Result<Self> {
        let mut known = ExpectedEntries::default();
        known.all(dst)?;
        // A run that was stopped while it set the dataset aside may have moved the manifest.
        let aside = dst.join(WORK_FOLDER).join(ASIDE_FOLDER);
        if sys::exists(&aside)? {
            known.all(&aside)?;
        }
        for plan in plans {
            let folder = dataset_folder(dst, plan);
            let folder = folder.strip_prefix(dst).unwrap_or(Path::new(""));
            known.own(folder);
            known.files(folder, (0..plan.shards.len()).map(|shard| plan.shard_file(shard)));
            known.files(folder, (0..plan.shards.len()).map(|shard| copy::index_file(plan, shard)));
            known.files(folder, sidecars::all_names(plan)?);
        }
        let mut held = Self::default();
        held.walk(dst, Path::new(""), &known)?;
        if let ([only], true) = (held.files.as_slice(), plans.is_empty())
            && Existing::of_splits(&Local::new(dst), std::iter::empty())?
                .stray()
                .is_some_and(|name| only == Path::new(&name))
        {
            held.foreign = held.files.pop();
        }
        held.files.sort_by_key(|path| path.file_name() != Some(manifest::FILE.as_ref()));
        held.is_sealed = held.files.first().is_some_and(|path| path.ends_with(manifest::FILE));
        Ok(held)
    }

    fn walk(&mut self, dst: &Path, folder: &Path, known: &ExpectedEntries) -> Result<()> {
        for name in names_in(&dst.join(folder))? {
            let path = folder.join(&name);
            if path.as_os_str() == WORK_FOLDER {
                continue;
            }
            let full = dst.join(&path);
            let stat = fs::symlink_metadata(&full).map_err(|e| sys::io_error("cannot look at", &full, e))?;
            if stat.is_dir() && known.folders.contains(&path) {
                self.walk(dst, &path, known)?;
                self.folders.push(path);
            } else if !stat.is_dir() && known.files.contains(&path) && !sidecars::is_foreign(&full)? {
                self.bytes += stat.len();
                self.files.push(path);
            } else {
                self.foreign.get_or_insert(path);
            }
        }
        Ok(())
    }

    /// Whether the folder holds nothing but empty folders of a dataset.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.foreign.is_none()
    }

    /// Fails if `dst` has an entry that no dataset names.
    pub fn refuse_foreign(&self, dst: &Path) -> Result<()> {
        match &self.foreign {
            None => Ok(()),
            Some(path) => {
                Err(Error::usage(format!("holds {path:?}, which is no part of a dataset")).in_file(dst).help(
                    "choose another folder, or move it away: shards stand alone, and --force replaces datasets only",
                ))
            }
        }
    }

    /// Error for packing into `dst` without force: how its contents differ from the datasets of `plans`.
    pub fn refusal(&self, dst: &Path, plans: &[Plan]) -> Error {
        match self.refuse_foreign(dst) {
            Err(error) => error,
            Ok(()) => Error::usage(format!("holds another dataset: {}", self.difference(dst, plans)))
                .in_file(dst)
                .help("choose another folder, or --force to replace it"),
        }
    }

    /// Describes the contents; for a dataset, how it differs from the datasets of `plans`.
    pub fn what(&self, dst: &Path, plans: &[Plan]) -> String {
        match &self.foreign {
            Some(path) => format!("{path:?}, which is no part of a dataset"),
            None => format!("another dataset: {}", self.difference(dst, plans)),
        }
    }

    fn difference(&self, dst: &Path, plans: &[Plan]) -> String {
        let manifests = self.files.iter().filter(|path| path.ends_with(manifest::FILE));
        let splits = manifests.filter_map(|path| path.parent()).filter(|folder| !folder.as_os_str().is_empty());
        let splits = splits.map(|folder| Some(text::path(folder).to_string()));
        self.lost_manifest().unwrap_or_else(|| match Existing::of_splits(&Local::new(dst), splits) {
            Ok(existing) => existing.difference(plans),
            Err(error) => error.to_string(),
        })
    }

    /// Describes a missing manifest of a dataset whose other files exist.
    fn lost_manifest(&self) -> Option<String> {
        let sums = self.files.iter().filter(|path| path.ends_with(manifest::SUMS_FILE));
        let lost = sums.map(|path| path.with_file_name(manifest::FILE)).find(|path| !self.files.contains(path))?;
        Some(format!("its {} is missing, so its source is unknown", text::path(&lost)))
    }
}

/// Expected entries of a folder, from the manifests in it.
#[derive(Default)]
struct ExpectedEntries {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl ExpectedEntries {
    fn files(&mut self, folder: &Path, names: impl IntoIterator<Item = String>) {
        for name in names {
            let path = folder.join(name);
            let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
            self.folders.extend(parents.map(Path::to_path_buf));
            self.files.insert(path);
        }
    }

    /// Adds the files that the dataset in `dst` and the datasets of its splits name.
    fn all(&mut self, dst: &Path) -> Result<()> {
        self.dataset(dst, Path::new(""))?;
        let beside = beside_splits().map(str::to_owned);
        self.files(Path::new(""), beside.chain([splits::FILE.to_owned()]));
        for name in names_in(dst)? {
            if name != WORK_FOLDER && is_split(&dst.join(&name), &name)? {
                self.dataset(dst, Path::new(&name))?;
            }
        }
        Ok(())
    }

    /// Adds the files that the dataset in `folder` of `dst` names; without a manifest, only the standard files.
    fn dataset(&mut self, dst: &Path, folder: &Path) -> Result<()> {
        self.own(folder);
        self.files(folder, named(&dst.join(folder))?.1);
        Ok(())
    }

    /// Adds the files of every dataset.
    fn own(&mut self, folder: &Path) {
        self.files(folder, [manifest::FILE, manifest::SUMS_FILE, manifest::LEDGER_FILE].map(str::to_owned));
        self.folders.extend([folder.to_path_buf(), folder.join(manifest::INDEX_FOLDER)]);
    }
}

/// Name of the dataset in `folder`, if its manifest can be read; and the files in its manifest. If the manifest
/// is missing or was changed after sealing, the files in the list of hashes too.
fn named(folder: &Path) -> Result<(Option<String>, Vec<String>)> {
    let bytes = sys::read_opt(&folder.join(manifest::FILE))?.unwrap_or_default();
    let (mut name, mut files) = (None, Vec::new());
    if let Ok(manifest) = Manifest::read(&bytes) {
        name = manifest.check_id(&bytes).is_ok().then_some(manifest.name);
        files.extend(manifest.shards.into_iter().flat_map(|shard| [shard.file, shard.index.file]));
        files.extend(manifest.sidecars.into_iter().map(|sidecar| sidecar.file));
    }
    if name.is_none() {
        files.extend(names_in_sums(&sys::read_opt(&folder.join(manifest::SUMS_FILE))?.unwrap_or_default()));
    }
    let tables = tables_of(&files);
    files.extend(tables);
    Ok((name, files))
}

/// Names of the crop tables that the indexes among `files` may have.
pub(super) fn tables_of(files: &[String]) -> Vec<String> {
    let indexes = files.iter().filter(|file| file.ends_with(".index"));
    indexes.flat_map(|index| crop_files(index)).collect()
}

/// Names of files in a list of hashes; only those that stay inside their folder.
pub(super) fn names_in_sums(sums: &[u8]) -> Vec<String> {
    let sums = String::from_utf8_lossy(sums);
    let names = sums.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name);
    let stays = |name: &&str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    names.filter(stays).map(str::to_owned).collect()
}

/// Whether `folder`, called `name`, is a dataset of the same name: a split, which a pack without splits would
/// leave behind.
fn is_split(folder: &Path, name: &str) -> Result<bool> {
    let is_called = |file: &String| file.strip_prefix(name).is_some_and(|rest| rest.starts_with(['-', '.']));
    Ok(sys::is_folder(folder)?
        && match named(folder)? {
            (Some(found), _) => found == name,
            (None, files) => files.iter().any(is_called),
        })
}

/// Names in a folder, sorted; names that are not UTF-8 never belong to this program.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let failed = |e| sys::io_error("cannot read folder", folder, e);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    names.sort();
    Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_file_with_a_name_of_ours_is_foreign_if_it_is_alone() {
        for name in [manifest::FILE, splits::FILE] {
            let dst = tempfile::tempdir().unwrap();
            fs::write(dst.path().join(name), "{}").unwrap();
            let alone = ExistingFiles::look(dst.path(), &[]).unwrap();
            let error = alone.refuse_foreign(dst.path()).unwrap_err();
            assert_eq!(error.what(), format!("holds {name:?}, which is no part of a dataset"));
            assert!(!alone.is_sealed && !alone.is_empty());
            fs::write(dst.path().join(manifest::SUMS_FILE), "").unwrap();
            let damaged = ExistingFiles::look(dst.path(), &[]).unwrap();
            damaged.refuse_foreign(dst.path()).unwrap();
            assert_eq!(damaged.files.len(), 2, "{name}: with other files of a dataset it is damaged");
        }
    }
}

//! Finds the datasets in a folder: one dataset, several (its splits), or an unfinished pack.

use std::{
    io,
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, ErrorKind, Result, formats, hash, help,
    manifest::{self, Manifest},
    splits::{self as record, Difference, Record},
};
use shardpack_storage::{Entry, Local, Storage, sys};

/// Longest manifest that is read: enough for some millions of shards.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// Name of the folder in which `shardpack pack` keeps unfinished data; removed when the pack is complete.
pub use shardpack_format::manifest::WORK_FOLDER;

/// Content of the work folder from before the first change of files beside it until after the last: the plan, and the
/// dataset that was set aside.
const BEGUN: [&str; 3] = ["plan", "replaced", "replaced.part"];

/// A dataset inside a folder with several datasets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Name of its folder (`train`, `val`), with replacement characters for bytes that are not UTF-8.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
}

/// Content of a folder of datasets.
#[derive(Debug, Default)]
pub struct Splits {
    /// The datasets, by folder name.
    pub found: Vec<Split>,
    /// Differences from the packed state: by the record beside the datasets, or, if there is none, by their manifests.
    pub differences: Vec<Difference>,
    /// The record beside the datasets, if there is one.
    pub record: Option<Record>,
}

/// The datasets in the subfolders of `path`, by name; empty if `path` is a dataset itself.
///
/// # Errors
/// When `path` cannot be read, holds an unfinished pack, or the splits differ from the packed ones: one is missing,
/// new, renamed or exchanged.
pub fn splits(path: impl AsRef<Path>) -> Result<Vec<Split>> {
    let path = path.as_ref();
    let Splits { found, differences, .. } = look_at_splits(path)?;
    errors_of(differences, path).into_iter().next().map_or(Ok(found), Err)
}

/// The errors for `differences` of the splits in `folder`.
pub(crate) fn errors_of(differences: Vec<Difference>, folder: &Path) -> Vec<Error> {
    let error = |one: Difference| Error::data(one.what).in_file(folder.join(one.folder)).help(one.help);
    differences.into_iter().map(error).collect()
}

/// As [`splits`], with all differences from the packed state.
///
/// # Errors
/// When `path` cannot be read, holds an unfinished pack, or its record is damaged.
pub fn look_at_splits(path: impl AsRef<Path>) -> Result<Splits> {
    let path = path.as_ref();
    refuse_unfinished(path)?;
    if sys::metadata_opt(&path.join(manifest::FILE))?.is_some() {
        return Ok(Splits::default());
    }
    let found = list(path)?;
    let storage = Local::new(path);
    let record = read_record(&storage)?;
    let mut manifests = Vec::with_capacity(found.len());
    for split in &found {
        let bytes = Local::new(&split.path).read(manifest::FILE, MAX_MANIFEST_BYTES)?;
        manifests.push(bytes.unwrap_or_default());
    }
    let named = found.iter().map(|split| split.name.as_str()).zip(manifests.iter().map(Vec::as_slice));
    let differences = split_differences(record.as_ref(), named);
    Ok(Splits { found, differences, record })
}

/// Differences between `record` and the datasets with these folder names and manifests; without a record, differences
/// between the manifests.
pub fn split_differences<'a>(
    record: Option<&Record>,
    found: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Vec<Difference> {
    // Damage is reported for each dataset separately.
    let whole = |bytes: &[u8]| Manifest::read(bytes).ok().filter(|manifest| manifest.check_id(bytes).is_ok());
    let found: Vec<(&str, &[u8], Option<Manifest>)> =
        found.map(|(folder, bytes)| (folder, bytes, whole(bytes))).collect();
    match record {
        Some(record) => {
            let found = found.iter().map(|(folder, bytes, manifest)| record::SplitFolder {
                folder: (*folder).to_owned(),
                manifest: manifest.as_ref().map(|_| hash::file(bytes)),
            });
            record.differences(&found.collect::<Vec<_>>())
        }
        None => {
            let named = found.iter().filter_map(|(folder, _, manifest)| {
                let manifest = manifest.as_ref()?;
                Some(record::Named { folder, name: &manifest.name, format: &manifest.format.name })
            });
            record::misnamed(&named.collect::<Vec<_>>())
        }
    }
}

fn list(path: &Path) -> Result<Vec<Split>> {
    let failed = |error| sys::io_error("cannot read folder", path, error);
    let mut splits = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if !name.starts_with('.') && sys::metadata_opt(&path.join(manifest::FILE))?.is_some_and(|meta| meta.is_file()) {
            splits.push(Split { name, path });
        }
    }
    splits.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(splits)
}

/// Whether `folder` holds an unfinished pack. A pack that will replace a dataset and has not changed it yet leaves
/// that dataset whole: see [`is_to_be_replaced`].
///
/// # Errors
/// When the folder cannot be read.
pub fn is_unfinished(folder: impl AsRef<Path>) -> Result<bool> {
    let folder = folder.as_ref();
    let work = folder.join(WORK_FOLDER);
    if !sys::metadata_opt(&work)?.is_some_and(|meta| meta.is_dir()) {
        return Ok(false);
    }
    for name in BEGUN {
        if sys::metadata_opt(&work.join(name))?.is_some() {
            return Ok(true);
        }
    }
    Ok(!holds_datasets(folder)?)
}

/// Whether `folder` holds datasets that a pack will replace but has not changed yet: it is making its images, or was
/// stopped while doing so.
///
/// # Errors
/// When the folder cannot be read.
pub fn is_to_be_replaced(folder: impl AsRef<Path>) -> Result<bool> {
    let folder = folder.as_ref();
    let work = sys::metadata_opt(&folder.join(WORK_FOLDER))?;
    Ok(work.is_some_and(|meta| meta.is_dir()) && !is_unfinished(folder)?)
}

fn holds_datasets(folder: &Path) -> Result<bool> {
    for name in [manifest::FILE, record::FILE] {
        if sys::metadata_opt(&folder.join(name))?.is_some() {
            return Ok(true);
        }
    }
    Ok(!list(folder)?.is_empty())
}

/// `folder`, or its parent if `folder` is a split, if that folder holds an unfinished pack.
///
/// # Errors
/// When a folder cannot be read.
pub fn unfinished(folder: &Path) -> Result<Option<PathBuf>> {
    // Through `..` and not the text of the path: `train` and `.` have a parent folder too.
    for folder in [folder.to_path_buf(), folder.join("..")] {
        match is_unfinished(&folder) {
            Ok(true) => return Ok(Some(folder)),
            Ok(false) => {}
            // The caller may lack the permission to read the parent.
            Err(error) if folder.ends_with("..") && is_denied(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn is_denied(error: &Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Fails if `folder`, or its parent if `folder` is a split, holds an unfinished pack.
pub(crate) fn refuse_unfinished(folder: &Path) -> Result<()> {
    let Some(folder) = unfinished(folder)? else { return Ok(()) };
    let shown = folder.canonicalize().unwrap_or(folder);
    Err(Error::data(format!("holds an unfinished pack: {WORK_FOLDER} is in it")).in_file(shown).help(help::FINISH_PACK))
}

/// Folders in `storage` that a pack to several formats made: each has the name of a format, and a manifest. Without a list there are
/// none.
///
/// # Errors
/// When the storage fails.
pub fn format_folders(storage: &dyn Storage) -> Result<Vec<String>> {
    let listed = match storage.list("") {
        // A bucket may allow reads only.
        Err(error) if error.kind() == ErrorKind::Usage => None,
        listed => listed?,
    };
    let is_format = |entry: &Entry| entry.is_folder && formats::ALL.iter().any(|format| format.name == entry.name);
    let mut folders = Vec::new();
    for Entry { name, .. } in listed.into_iter().flatten().filter(is_format) {
        if storage.length(&format!("{name}/{}", manifest::FILE))?.is_some() {
            folders.push(name);
        }
    }
    Ok(folders)
}

/// The record of splits in `storage`, if there is one.
pub(crate) fn read_record(storage: &dyn Storage) -> Result<Option<Record>> {
    let bytes = storage.read(record::FILE, MAX_MANIFEST_BYTES)?;
    let record = bytes.map(|bytes| Record::read(&bytes)).transpose();
    record.map_err(|error| error.in_file(storage.path_of(record::FILE)))
}

/// Names of the splits in a folder without a manifest: the folders with manifests, or, without a list of folders, those in the
/// record.
fn split_names(storage: &dyn Storage) -> Result<Vec<String>> {
    match storage.local() {
        Some(folder) => Ok(list(folder)?.into_iter().map(|split| split.name).collect()),
        None => {
            let splits = read_record(storage)?.map(|record| record.splits).unwrap_or_default();
            Ok(splits.into_iter().map(|split| split.name).collect())
        }
    }
}

/// The error for a folder without a manifest.
pub(crate) fn no_manifest(storage: &dyn Storage) -> Error {
    let names = match split_names(storage) {
        Ok(names) => names,
        Err(error) => return error,
    };
    let error = match names.first() {
        Some(first) => {
            let first = storage.root().join(first);
            Error::usage(format!("holds several datasets: {}", names.join(", ")))
                .help(format!("open one dataset: {}", shardpack_format::text::path(&first)))
        }
        None if storage.local().is_some() => {
            Error::usage(format!("no dataset: there is no {} in it, nor in its folders", manifest::FILE))
        }
        None => {
            let what = format!("no dataset: there is neither {} nor {}", manifest::FILE, record::FILE);
            storage.explain_missing(Error::usage(what)).help(help::URL_OF_FOLDER)
        }
    };
    error.in_file(storage.root())
}

#[cfg(test)]
mod tests {
    use shardpack_storage::Memory;

    use super::*;

    #[test]
    fn folders_of_formats_have_the_name_of_a_format_and_a_manifest() {
        let memory = Memory::new("memory:");
        for name in
            ["tfrecord/manifest.json", "mds/manifest.json", "other/manifest.json", "webdataset/x.tar", "recordio"]
        {
            memory.put(name, vec![1]).unwrap();
        }
        assert_eq!(format_folders(&memory).unwrap(), ["mds", "tfrecord"]);
        assert!(format_folders(&Memory::new("memory:")).unwrap().is_empty());
    }
}

//! Detects folders of datasets: sealed, unfinished, or without their manifest.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{
    Error, Result, help,
    manifest::{self, INDEX_FOLDER, SUMS_FILE, WORK_FOLDER},
    splits,
};
use shardpack_reader::unfinished;

use super::{options::SPLITS, strangers::DatasetFiles};
use crate::{
    foreign::files::is_called_shard,
    sys::{self, exists},
};

/// The things that one path of a user stands for.
pub(super) enum Input {
    /// The dataset in this folder, or an unfinished one.
    Dataset(PathBuf),
    /// Files, by folder.
    Files(Vec<InFolder>),
    /// A folder without a dataset.
    Other,
}

/// Files in a folder.
pub(super) struct InFolder {
    pub folder: PathBuf,
    pub names: Vec<String>,
    /// File names of the sealed dataset in the folder, if there is one.
    pub known: Option<Arc<DatasetFiles>>,
}

/// Fails if `folder` has index files or checksums of a dataset and no manifest.
pub fn refuse_lost_manifest(folder: &Path) -> Result<()> {
    let is_index =
        |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.path().extension().is_some_and(|e| e == "index"));
    let indexes = folder.join(INDEX_FOLDER);
    let has_index = match fs::read_dir(&indexes) {
        Ok(entries) => entries.map(is_index).try_fold(false, |any, one| Ok(any || one?)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    };
    let has_index = has_index.map_err(|error| sys::io_error("cannot read folder", &indexes, error))?;
    match has_index || exists(&folder.join(SUMS_FILE))? {
        false => Ok(()),
        true => {
            refuse_unfinished(folder)?;
            Err(lost_manifest(folder))
        }
    }
}

/// The error for a dataset without its manifest.
pub(super) fn lost_manifest(folder: &Path) -> Error {
    let help = format!("{}; convert --from FORMAT reads its shards without the manifest", help::COPY_OR_PACK);
    Error::data("manifest.json is missing, but other files of the dataset are here").in_file(folder).help(help)
}

/// Whether `url` is a pattern or has the name of a shard. The manifest beside such a file decides whose shard it is.
pub(super) fn names_shards(url: &Path) -> bool {
    let is_pattern = url.to_string_lossy().contains(['*', '[', '{']);
    is_pattern || is_called_shard(url) && !url.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Whether `path` is one of our datasets, or a folder with splits that are.
///
/// # Errors
/// If the check fails.
pub fn is_dataset(path: &Path) -> Result<bool> {
    let is_one = |folder: &Path| exists(&folder.join(manifest::FILE));
    if is_one(path)? || exists(&path.join(splits::FILE))? {
        return Ok(true);
    }
    for name in SPLITS {
        let folder = path.join(name);
        if is_one(&folder)? && (exists(&folder.join(SUMS_FILE))? || exists(&folder.join(INDEX_FOLDER))?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a folder is one of our datasets or a remnant; `has` reports whether a name exists in the folder.
pub(super) fn is_packed(has: impl Fn(&str) -> Result<bool>) -> Result<bool> {
    Ok(has(SUMS_FILE)? && (has(manifest::FILE)? || has(INDEX_FOLDER)?))
}

/// The error for a packed dataset as a source of images.
pub(super) fn packed(folder: &Path) -> Error {
    let error = Error::usage("is a packed dataset, and no tree of images").in_file(folder);
    error.help("shardpack convert packs it anew")
}

/// Fails if `folder` is one of our datasets, which `pack` does not accept.
///
/// # Errors
/// As described, and if the folder cannot be checked.
pub fn refuse_packed(folder: &Path) -> Result<()> {
    if is_packed_folder(folder)? { Err(packed(folder)) } else { Ok(()) }
}

/// Like [`is_packed`], for a local folder; also true for an unfinished dataset and for a folder of splits.
pub(super) fn is_packed_folder(folder: &Path) -> Result<bool> {
    let has = |name: &str| exists(&folder.join(name));
    if is_packed(has)? || has(WORK_FOLDER)? {
        return Ok(true);
    }
    // Other tools use this file name too, so the content is parsed.
    Ok(sys::read_opt(&folder.join(splits::FILE))?.is_some_and(|bytes| splits::Record::read(&bytes).is_ok()))
}

/// Fails if `folder`, or the folder whose split it is, holds an unfinished pack: its shards are incomplete.
pub(super) fn refuse_unfinished(folder: &Path) -> Result<()> {
    match unfinished(folder)? {
        None => Ok(()),
        Some(folder) => {
            let shown = folder.canonicalize().unwrap_or(folder);
            let error = Error::data(format!("holds an unfinished pack: {WORK_FOLDER} is in it")).in_file(shown);
            Err(error.help(help::FINISH_PACK))
        }
    }
}

/// The parent folder of a file.
pub fn folder_of(path: &Path) -> PathBuf {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

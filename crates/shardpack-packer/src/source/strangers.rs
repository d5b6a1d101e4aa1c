//! Files in the folder of a dataset that its manifest does not name, and files beside splits.

use std::{collections::BTreeSet, fs, io, path::Path};

use shardpack_format::{
    Result,
    manifest::{self, INDEX_FOLDER, Manifest, SUMS_FILE, WORK_FOLDER},
    splits,
};
use shardpack_reader::is_to_be_replaced;

use crate::{crops, sys};

/// The problem with a file in a dataset folder that the manifest does not name.
pub(crate) const STRANGER: &str = "a stranger: the manifest does not name this file";

/// The problem with a file beside the folders of splits.
pub(crate) const STRANGER_BESIDE: &str = "a stranger beside the splits";

/// The note that replaces the list of strangers at a URL, because a URL cannot be listed.
pub(crate) const NOT_LISTED: &str = "stray files at the URL were not looked for";

/// File names of a dataset, from its manifest.
pub(super) struct Known {
    /// Files right in the dataset folder that are not shards, and names of subfolders.
    pub others: BTreeSet<String>,
    shards: BTreeSet<String>,
    indexes: BTreeSet<String>,
}

impl Known {
    pub fn of(manifest: &Manifest) -> Self {
        let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
        let mut others: BTreeSet<String> = [manifest::FILE, SUMS_FILE, INDEX_FOLDER].map(str::to_owned).into();
        others.extend(manifest.ledger.file.as_ref().map(|file| file.file.clone()));
        // The folder of a sidecar is known too.
        others.extend(manifest.sidecars.iter().map(|file| first(&file.file)));
        let of_shards = |name: fn(&manifest::Shard) -> &String| -> BTreeSet<String> {
            manifest.shards.iter().map(|shard| name(shard).clone()).collect()
        };
        let mut indexes = of_shards(|shard| &shard.index.file);
        // Optional crop tables beside the indexes.
        indexes.extend(manifest.shards.iter().flat_map(|shard| crops::names(&shard.index.file)));
        Self { others, shards: of_shards(|shard| &shard.file), indexes }
    }

    /// Whether the manifest names the file `name`.
    fn has(&self, name: &str) -> bool {
        [&self.shards, &self.others, &self.indexes].iter().any(|names| names.contains(name))
    }
}

/// Sorted names of the entries in `folder`; empty if the folder does not exist.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>> {
    let failed = |e| sys::io_error("cannot read folder", folder, e);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    names.sort();
    Ok(names)
}

/// Whether the manifest names the entry `name` of its folder.
pub(crate) fn is_known(manifest: &Manifest, name: &str) -> bool {
    Known::of(manifest).has(name)
}

/// Entries of a dataset folder and its index folder that the manifest does not name.
///
/// # Errors
/// If a folder cannot be read.
pub(crate) fn strangers(folder: &Path, manifest: &Manifest) -> Result<Vec<String>> {
    let known = Known::of(manifest);
    let indexes = names_in(&folder.join(INDEX_FOLDER))?.into_iter().map(|name| format!("{INDEX_FOLDER}/{name}"));
    let has_work = is_to_be_replaced(folder)?;
    let is_strange = |name: &String| !(known.has(name) || has_work && name == WORK_FOLDER);
    Ok(names_in(folder)?.into_iter().chain(indexes).filter(is_strange).collect())
}

/// Names of the entries in `folder` beside its splits; `is_split` recognizes a split.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn beside_splits(folder: &Path, is_split: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut names = names_in(folder)?;
    let has_work = is_to_be_replaced(folder)?;
    names.retain(|name| name != splits::FILE && !(has_work && name == WORK_FOLDER) && !is_split(name));
    Ok(names)
}

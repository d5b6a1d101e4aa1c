//! Files in the folder of a dataset that its manifest does not name, and files beside splits.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use shardpack_format::{
    ErrorKind, Result, crops,
    manifest::{self, INDEX_FOLDER, Manifest, SUMS_FILE, WORK_FOLDER},
    splits::{self, Record},
};
use shardpack_reader::is_to_be_replaced;
use shardpack_storage::{Address, Storage, UNFINISHED};

use crate::foreign::files;

/// The problem with a file in a dataset folder that the manifest does not name.
pub const STRANGER: &str = "a stranger: the manifest does not name this file";

/// The problem with a file beside the folders of splits.
pub const STRANGER_BESIDE: &str = "a stranger beside the splits";

/// The note that replaces the list of strangers if the storage has no list, or allows none.
pub const NOT_LISTED: &str = "stray files at the URL were not looked for";

/// Maximum length in bytes of a manifest beside a shard.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// File names of a dataset, from its manifest.
pub(super) struct DatasetFiles {
    /// Files right in the dataset folder that are not shards, and names of subfolders.
    pub others: BTreeSet<String>,
    shards: BTreeSet<String>,
    indexes: BTreeSet<String>,
}

impl DatasetFiles {
    /// The files of the dataset in the folder `storage`; `None` if there is no manifest.
    ///
    /// # Errors
    /// If the manifest cannot be read.
    pub fn in_folder(storage: &dyn Storage) -> Result<Option<Arc<Self>>> {
        let read = || storage.read_optional(manifest::FILE, MAX_MANIFEST_BYTES);
        // A manifest that was corrupted in transit is fetched again.
        let bytes = match read()? {
            Some(bytes) if Manifest::read(&bytes).is_err() => read()?,
            bytes => bytes,
        };
        let manifest = bytes.map(|bytes| Manifest::read(&bytes)).transpose();
        let manifest = manifest.map_err(|error| error.in_file(storage.path_of(manifest::FILE)))?;
        Ok(manifest.as_ref().map(Self::from_manifest).map(Arc::new))
    }

    pub fn from_manifest(manifest: &Manifest) -> Self {
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
        indexes.extend(manifest.shards.iter().flat_map(|shard| crop_files(&shard.index.file)));
        Self { others, shards: of_shards(|shard| &shard.file), indexes }
    }

    /// Whether the manifest names the file `name`.
    fn has(&self, name: &str) -> bool {
        [&self.shards, &self.others, &self.indexes].iter().any(|names| names.contains(name))
    }
}

/// Names of the files that may hold a shard's crop tables, from the name of its index: the finished file first.
pub fn crop_files(index: &str) -> [String; 2] {
    let finished = Path::new(index).with_extension(crops::EXTENSION).to_string_lossy().into_owned();
    let unfinished = format!("{finished}.{UNFINISHED}");
    [finished, unfinished]
}

/// Sorted names of the entries in the subfolder `below`; `None` if the storage has no list, or allows none.
fn names_in(storage: &dyn Storage, below: &str) -> Result<Option<Vec<String>>> {
    match storage.list(below) {
        // A bucket may allow reads only.
        Err(error) if storage.local().is_none() && error.kind() == ErrorKind::Usage => Ok(None),
        listed => Ok(listed?.map(|entries| entries.into_iter().map(|entry| entry.name).collect())),
    }
}

/// Whether the work folder belongs to a pack that will replace a dataset and has not changed it yet.
fn has_work(storage: &dyn Storage) -> Result<bool> {
    storage.local().map_or(Ok(false), is_to_be_replaced)
}

/// Whether a stray file is a shard, which would be lost: by its content, and at a URL by its name.
///
/// # Errors
/// If the file cannot be read.
pub fn is_shard(path: &Path) -> Result<bool> {
    match Address::of(path).local() {
        Some(path) => files::is_shard(path),
        None => Ok(files::is_called_shard(path) && !files::is_called_array(path)),
    }
}

/// Entries of a dataset folder and its index folder that the manifest does not name; `None` if the storage has no list, or
/// allows none.
///
/// # Errors
/// If a folder cannot be read.
pub fn strangers(storage: &dyn Storage, manifest: &Manifest) -> Result<Option<Vec<String>>> {
    let known = DatasetFiles::from_manifest(manifest);
    let Some(names) = names_in(storage, "")? else { return Ok(None) };
    let Some(indexes) = names_in(storage, INDEX_FOLDER)? else { return Ok(None) };
    let indexes = indexes.into_iter().map(|name| format!("{INDEX_FOLDER}/{name}"));
    let has_work = has_work(storage)?;
    let is_strange = |name: &String| !(known.has(name) || has_work && name == WORK_FOLDER);
    Ok(Some(names.into_iter().chain(indexes).filter(is_strange).collect()))
}

/// Names of the entries beside splits; `is_split` recognizes a split. `None` as in [`strangers`].
///
/// # Errors
/// If the folder cannot be read.
pub fn beside_splits(storage: &dyn Storage, is_split: impl Fn(&str) -> bool) -> Result<Option<Vec<String>>> {
    let Some(mut names) = names_in(storage, "")? else { return Ok(None) };
    let has_work = has_work(storage)?;
    let bytes = storage.read_right(splits::FILE, None, |bytes| Record::read(bytes).is_ok())?;
    let record = bytes.and_then(|bytes| Record::read(&bytes).ok());
    let files: BTreeSet<_> = record.into_iter().flat_map(|record| record.files).map(|file| file.file).collect();
    names.retain(|name| !files.contains(name));
    names.retain(|name| name != splits::FILE && !(has_work && name == WORK_FOLDER) && !is_split(name));
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shardpack_format::Error;
    use shardpack_storage::{Call, Faulty, Local, Memory};

    use super::*;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/golden/webdataset/v1/tiny");

    /// A small dataset with stray files, in memory.
    fn with_strays() -> (Memory, Manifest) {
        let memory = Memory::copy_of(Path::new(GOLDEN)).unwrap();
        let manifest = Manifest::read(&memory.read(manifest::FILE, u64::MAX).unwrap().unwrap()).unwrap();
        // The golden files lie in one folder.
        for entry in memory.list("").unwrap().unwrap().iter().filter(|entry| entry.name.ends_with(".index")) {
            let bytes = memory.read(&entry.name, u64::MAX).unwrap().unwrap();
            memory.put(&format!("{INDEX_FOLDER}/{}", entry.name), bytes).unwrap();
            memory.remove(&entry.name).unwrap();
        }
        for name in ["a.txt", "folder/x", "index/stray", "index/folder/x", ".shardpack/plan"] {
            memory.put(name, b"stray".to_vec()).unwrap();
        }
        (memory, manifest)
    }

    #[test]
    fn strangers_are_the_same_in_every_storage() {
        let (memory, manifest) = with_strays();
        let expected = [".shardpack", "a.txt", "folder", "index/folder", "index/stray"];
        assert_eq!(strangers(&memory, &manifest).unwrap().unwrap(), expected);
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        for below in ["", "index", "folder", "index/folder"] {
            for entry in memory.list(below).unwrap().unwrap().into_iter().filter(|entry| !entry.is_folder) {
                let name = Path::new(below).join(entry.name).display().to_string();
                local.put(&name, memory.read(&name, u64::MAX).unwrap().unwrap()).unwrap();
            }
        }
        assert_eq!(strangers(&local, &manifest).unwrap().unwrap(), expected[1..]);
        let beside = beside_splits(&memory, |name| name == "folder").unwrap().unwrap();
        assert!(beside.contains(&"a.txt".to_owned()) && !beside.contains(&"folder".to_owned()), "{beside:?}");
    }

    #[test]
    fn a_list_that_is_refused_is_none_and_a_list_that_fails_is_an_error() {
        let (memory, manifest) = with_strays();
        let memory: Arc<dyn Storage> = Arc::new(memory);
        for (folder, kind) in [("", ErrorKind::Usage), ("index", ErrorKind::Usage), ("index", ErrorKind::System)] {
            let storage =
                Faulty::new(Arc::clone(&memory), move |call, name| match call == Call::List && name == folder {
                    true => Err(Error::new(kind, "refused")),
                    false => Ok(()),
                });
            match kind {
                ErrorKind::Usage => assert!(strangers(&storage, &manifest).unwrap().is_none(), "{folder:?}"),
                _ => assert_eq!(strangers(&storage, &manifest).unwrap_err().kind(), kind),
            }
        }
    }
}

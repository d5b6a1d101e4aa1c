//! Shards written by other tools as a source.
//!
//! Each file is walked once. The listing orders samples by class, then by name, and holds the location of each record. The copy reads
//! images from those locations in any order and checks the record's own checksum again. A compressed file has no such locations and
//! is unpacked into the work folder first.

mod class_trees;
mod components;
mod declared;
mod discover;
mod fields;
mod first;
mod front_matter;
mod labels;
mod preview;
mod samples;
mod scan;
mod shard_reader;
mod source;
mod splits;
mod targets;
mod urls;

use std::{
    collections::BTreeMap,
    collections::BTreeSet,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, ErrorKind, Result, formats::foreign::FieldSelection, shell};
use shardpack_reader::unfinished;

use super::{
    options::{SPLITS, Splits},
    packed,
};
use crate::{
    component_table::Cell,
    foreign::{Kind, ShardFile, files, hdf5, lmdb},
    sys,
};
pub use preview::{Preview, SamplePreview};
use scan::Scanned;
pub use shard_reader::ShardReader;
pub(super) use splits::holds;
pub(super) use urls::UrlResolver;

/// Most folders that are looked into for shards.
const MAX_FOLDERS: usize = 64;

/// Detected shards and the options for reading their records.
#[derive(Clone, Debug)]
pub struct Shards {
    files: Vec<File>,
    wanted: FieldSelection,
    ignored: BTreeMap<String, u64>,
    /// Missing files, and files that should be shards and are not: name and problem.
    lost: Vec<(Vec<u8>, String)>,
    /// Notes about the files.
    notes: Vec<String>,
    /// Reader of the URLs, if the files are at URLs; shared by all clones.
    urls: Option<Arc<UrlResolver>>,
}

#[derive(Clone, Debug)]
struct File {
    shard: ShardFile,
    /// Path relative to the common folder of all files.
    name: String,
    split: Option<String>,
}

impl Shards {
    /// Finds the shards that `sources` name: files, folders, globs, brace patterns.
    ///
    /// # Errors
    /// If a source matches nothing, or matches files of an unknown format.
    pub fn find(sources: &[PathBuf], from: Option<Kind>, wanted: FieldSelection, splits: &Splits) -> Result<Self> {
        let mut found = Vec::new();
        for source in sources {
            if sys::is_folder(source)? {
                packed::refuse_unfinished(source)?;
            }
            found.extend(splits::of_source(source, from, splits)?);
        }
        // Files matched by a glob can lie in an unfinished pack, too.
        let folders: BTreeSet<PathBuf> = found
            .iter()
            .flat_map(|(_, files)| &files.shards)
            .filter(|shard| shard.remote.is_none())
            .map(|shard| packed::folder_of(&shard.path))
            .collect();
        folders.iter().try_for_each(|folder| packed::refuse_unfinished(folder))?;
        Self::of_found(sources, found, wanted, splits)
    }

    /// Finds the shards in `folder`, beside which an adoption may have been stopped.
    ///
    /// # Errors
    /// As [`Shards::find`].
    pub fn beside_adoption(folder: &Path, from: Option<Kind>, wanted: FieldSelection) -> Result<Self> {
        if unfinished(folder)?.is_some_and(|of| of.ends_with("..")) {
            packed::refuse_unfinished(folder)?;
        }
        let found = splits::of_source(folder, from, &Splits::None)?;
        Self::of_found(&[folder.to_path_buf()], found, wanted, &Splits::None)
    }

    /// As [`Shards::find`], for URLs: objects, brace patterns, and, in buckets only, folders and globs.
    ///
    /// # Errors
    /// As [`Shards::find`]; also if a server does not answer or cannot list.
    pub(super) fn at_urls(
        sources: &[PathBuf],
        urls: Arc<UrlResolver>,
        from: Option<Kind>,
        wanted: FieldSelection,
        splits: &Splits,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for source in sources {
            let url = source.to_str().ok_or_else(|| Error::usage("a URL that is not UTF-8").in_file(source))?;
            found.extend(urls.of_source(url, from, splits)?);
        }
        Ok(Self { urls: Some(urls), ..Self::of_found(sources, found, wanted, splits)? })
    }

    /// Builds the source from detected files, each with its split.
    fn of_found(
        sources: &[PathBuf],
        of_splits: Vec<(Option<String>, files::Files)>,
        wanted: FieldSelection,
        splits: &Splits,
    ) -> Result<Self> {
        let mut found = files::Files::default();
        let mut split_of = Vec::new();
        for (split, more) in of_splits {
            split_of.extend(more.shards.iter().map(|_| split.clone()));
            found.append(more);
        }
        let mut found = found.checked()?;
        // A file that the system cannot read may be anything.
        if let Some(at) = found.problems.iter().position(|error| error.kind() != ErrorKind::Data) {
            return Err(found.problems.swap_remove(at));
        }
        if found.shards.is_empty() && !found.problems.is_empty() {
            return Err(found.problems.swap_remove(0));
        }
        if found.shards.is_empty() {
            let ignored: u64 =
                found.ignored.iter().filter(|(reason, _)| *reason != files::FOLDER).map(|(_, files)| files).sum();
            let is_of_arrays = ignored > 0 && found.ignored.get(files::NO_ROWS) == Some(&ignored);
            let source = sources.first().cloned().unwrap_or_default();
            if is_of_arrays {
                let what = match ignored {
                    1 => "the one file of numpy in here is no table of samples and labels".to_owned(),
                    files => format!("the {files} files of numpy in here are no table of samples and labels"),
                };
                let error = Error::usage(format!("{what}, as X_train.npy and y_train.npy are"));
                return Err(error.in_file(source).help(files::ROWS_BY_CHOICE));
            }
            let error = Error::usage(match ignored {
                0 => "no shards in here".to_owned(),
                1 => "the one file in here is no shard".to_owned(),
                files => format!("none of the {files} files in here is a shard"),
            });
            if let Some(inner) = folder_of_shards(&source) {
                return Err(error.in_file(source).help(format!("give {}, which has shards", shell::path(&inner))));
            }
            return Err(error.in_file(source).help(
                "shards are webdataset tar, TFRecord, ArrayRecord, RecordIO, MDS, LitData, beton, parquet, Arrow, LMDB, HDF5 or numpy files; a \
                 tree of images is packed with `shardpack pack SRC DST`",
            ));
        }
        let common = common_folder(&found.shards);
        let lost = found.problems.iter().map(|problem| {
            let path = Path::new(problem.location().file.as_deref().unwrap_or_default());
            // The path on this machine stays private.
            let name = path.strip_prefix(&common).ok().or(path.file_name().map(Path::new)).unwrap_or(path);
            (name.as_os_str().as_bytes().to_vec(), problem.what())
        });
        let lost = lost.collect();
        let mut files: Vec<File> = found
            .shards
            .into_iter()
            .zip(split_of)
            .map(|(shard, split)| {
                let name = shard.path.strip_prefix(&common).unwrap_or(&shard.path).to_string_lossy().into_owned();
                File { shard, name, split }
            })
            .collect();
        let mut wanted = wanted;
        found.notes.extend(samples::check(&files.iter().map(|file| &file.shard).collect::<Vec<_>>(), &mut wanted)?);
        splits::inside(&mut files, &wanted, splits)?;
        splits::by_name(&mut files, splits)?;
        found.notes.extend(splits::in_names(&files, splits));
        if !hdf5::are_samples(&wanted.entries) {
            lmdb::check(&wanted.entries)?;
        }
        if let Some(other) =
            files.iter().find(|file| !wanted.entries.is_unsaid() && !file.shard.kind.takes(&wanted.entries))
        {
            let what = format!("{}, which has no keys with values", other.shard.kind.name());
            return Err(Error::usage(what).in_file(&other.shard.path).help(
                "--label-from and --skip-header are for LMDBs; for tar, --label-from key and --key-pattern work too",
            ));
        }
        if files.len() > shard_reader::MAX_FILES
            || files.iter().any(|file| file.shard.total_bytes() > shard_reader::MAX_FILE_BYTES)
        {
            return Err(Error::usage("more than 16 million files, or one of more than 1 TiB"));
        }
        Ok(Self { files, wanted, ignored: found.ignored, lost, notes: found.notes, urls: None })
    }

    /// Folders that contain the files, sorted.
    fn folders(&self) -> Vec<&Path> {
        let mut folders: Vec<&Path> = self.files.iter().map(folder_of).collect();
        folders.sort_unstable();
        folders.dedup();
        folders
    }

    /// The files, in order.
    pub fn shard_files(&self) -> Vec<&ShardFile> {
        self.files.iter().map(|file| &file.shard).collect()
    }

    /// File number and offset in the file for a place in a listing of these shards.
    pub fn of_place(&self, place: u64) -> (usize, u64) {
        shard_reader::of_place(place)
    }

    /// Byte of the shard at which a component begins, or the items of an array; `None` if it is made from other bytes.
    pub fn component_offset(&self, cell: Cell) -> Option<u64> {
        let (offset, recipe) = shard_reader::of_component_stamp(cell.stamp);
        (recipe == 0).then_some(offset)
    }

    /// Whether a listing entry is stored bytes that need no conversion, as opposed to pixels that an image is made from.
    pub fn is_as_it_lies(&self, stamp: i64) -> bool {
        shard_reader::of_stamp(stamp).1 == 0
    }

    /// Split names in canonical order; a single `None` if there are no splits.
    fn splits(&self) -> Vec<Option<String>> {
        let place = |split: &Option<String>| {
            let known = split.as_ref().and_then(|name| SPLITS.iter().position(|known| known == name));
            (known.unwrap_or(SPLITS.len()), split.clone())
        };
        let mut splits: Vec<_> = self.files.iter().map(|file| file.split.clone()).collect();
        splits.sort_by_key(place);
        splits.dedup();
        splits
    }
}

/// The first folder right in the folder `source` that has shards, such as `data` in a repository of Hugging Face.
fn folder_of_shards(source: &Path) -> Option<PathBuf> {
    let is_hidden = |path: &PathBuf| path.file_name().is_none_or(|name| name.as_bytes().starts_with(b"."));
    let entries = std::fs::read_dir(source).ok()?.flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> =
        entries.filter(|path| path.is_dir() && !is_hidden(path)).take(MAX_FOLDERS).collect();
    folders.sort_unstable();
    folders.into_iter().find(|folder| files::find(folder, None).is_ok_and(|found| !found.shards.is_empty()))
}

/// The folder that contains a file; `.` for a bare file name.
fn folder_of(file: &File) -> &Path {
    file.shard.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The longest common folder of all files.
fn common_folder(shards: &[ShardFile]) -> PathBuf {
    let mut folders = shards.iter().map(|shard| shard.path.parent().unwrap_or(Path::new("")));
    let first = folders.next().unwrap_or(Path::new(""));
    folders.fold(first.to_path_buf(), |common, folder| {
        common.components().zip(folder.components()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
    })
}

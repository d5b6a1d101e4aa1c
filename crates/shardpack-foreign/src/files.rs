//! Resolves the sources that a user names (files, folders, globs, brace patterns) to shards.
//!
//! Every file found is a shard, a problem, or counted with the reason why it is skipped; an invalid file never hides another
//! file. Content decides the format. If it cannot, because the first bytes of a shard are corrupt, the file name decides. A
//! folder stands for the shards directly in it, sorted by name, the shards in its `index.json` first. Names in an index
//! resolve only inside the folder of the index.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use shardpack_format::{Error, ErrorKind, Result, formats::mds, shell, size, text};

use super::{
    FileLocation, Kind, Remote, ShardFile, images_below, key_labels, litdata,
    lmdb::DATA_FILE,
    mds_index::read_index,
    numbered, numpy, parquet,
    patterns::expanded,
    readers::many,
    recognise::{kind_by_name, recognise},
    saved_dataset,
};
use shardpack_storage::sys;

/// Extensions of files that lie beside shards and are never shards, whatever their content.
const BESIDE: [&str; 7] = ["idx", "lst", "index", "json", "txt", "csv", "md"];

/// Reason under which a valid but empty file is counted.
pub const WITHOUT_SAMPLES: &str = "shard without samples";
pub use super::mds_index::INDEX_JSON;
pub use numpy::{BY_CHOICE as ROWS_BY_CHOICE, NO_ROWS};
/// Message if no source holds a shard.
pub const NO_SAMPLE: &str = "no sample in it";

/// Reason why an entry of a folder is skipped.
const UNKNOWN: &str = "no shard by its first bytes";
const HIDDEN: &str = "hidden";
/// A folder that is no shard.
pub const FOLDER: &str = "folder";
const IRREGULAR: &str = "not a regular file";
const METADATA: &str = "metadata of parquet files";
const UNPACKED: &str = "chunk that is there without compression too";
const UNNAMED: &str = "Arrow file that state.json does not name";
const TABLE: &str = "table beside a tar of its name";
/// Maximum depth of nested column folders: a link may form a cycle.
const MAX_PARTITIONS: usize = 16;

/// The files that a list of sources stands for.
#[derive(Debug, Default)]
pub struct Files {
    /// Shards in the given order; shards of a folder by name or in the order of its `index.json`.
    pub shards: Vec<ShardFile>,
    /// Problems: missing files, unreadable files, and files that should be shards and are not. Each names its file.
    pub problems: Vec<Error>,
    /// Number of skipped entries of folders by reason.
    pub ignored: BTreeMap<String, u64>,
    /// Warnings about the sources.
    pub notes: Vec<String>,
    /// Folders whose shards are all taken.
    whole: BTreeSet<PathBuf>,
}

/// Finds the shards that `sources` stand for.
///
/// # Errors
/// If a source is missing, a folder cannot be read, or a file is given twice.
pub fn look(sources: &[PathBuf]) -> Result<Files> {
    let mut files = Files::default();
    for source in sources {
        files.append(find(source, None)?);
    }
    files.checked()
}

/// Finds the shards that `source` stands for; all have format `from` if it is set.
///
/// # Errors
/// If the source is missing, or a folder cannot be read.
pub fn find(source: &Path, from: Option<Kind>) -> Result<Files> {
    let mut files = Files::default();
    let with_kind = |path: PathBuf| Ok((sys::is_folder(&path)?, path));
    let paths: Vec<(bool, PathBuf)> = expanded(source)?.into_iter().map(with_kind).collect::<Result<_>>()?;
    for run in paths.chunk_by(|(is_folder, _), (is_next_folder, _)| !is_folder && !is_next_folder) {
        match run {
            [(true, folder)] => files.append(of_folder(folder, from)?),
            named => files.named(named.iter().map(|(_, path)| path.into()).collect(), from),
        }
    }
    Ok(files)
}

/// Shards at URLs that the user named; all have format `from` if it is set.
pub fn of_urls(remotes: Vec<Remote>, from: Option<Kind>) -> Files {
    let mut files = Files::default();
    files.named(remotes.into_iter().map(FileLocation::Remote).collect(), from);
    files
}

/// Finds the shards among `remotes`, the files directly in the folder at the URL `folder`. `at` resolves a name from its
/// `index.json`. Subfolders (`folders`) are no shards and are only counted.
///
/// # Errors
/// If `index.json` cannot be read.
pub fn of_url_folder(
    folder: &Path,
    remotes: Vec<Remote>,
    folders: u64,
    at: &dyn Fn(&str) -> Result<Option<Remote>>,
    from: Option<Kind>,
) -> Result<Files> {
    let mut files = Files::default();
    if folders > 0 {
        files.ignored.insert(FOLDER.to_owned(), folders);
    }
    let is_index = |remote: &&Remote| remote.path().file_name().is_some_and(|name| name == INDEX_JSON);
    let index = remotes.iter().find(is_index).filter(|_| wants_index(from));
    let index = index.map(|index| FileLocation::Remote(index.clone()).read_beside(INDEX_JSON, key_labels::MAX_BYTES));
    let index = index.transpose()?.flatten().and_then(|(_, bytes)| mds::read_index(&bytes).ok());
    let mut places: Vec<FileLocation> = remotes.into_iter().map(FileLocation::Remote).collect();
    places.retain(|place| files.may_be(place.path()));
    let named = |name: &str| at(name).map(|remote| remote.map(FileLocation::Remote));
    files.detect_shards(folder, places, index, &named, from)?;
    Ok(files)
}

fn wants_index(from: Option<Kind>) -> bool {
    from.is_none_or(|kind| kind.name() == mds::NAME)
}

/// Inspects each of `places`, many in parallel: requests to URLs use no processor time.
fn of_each<T: Send>(places: &[FileLocation], look: impl Fn(&FileLocation) -> T + Sync) -> Vec<T> {
    if !places.iter().any(|place| matches!(place, FileLocation::Remote(_))) {
        return places.par_iter().map(&look).collect();
    }
    many(places, |place| {
        let found = look(place);
        if let FileLocation::Remote(remote) = place {
            remote.forget_first();
        }
        found
    })
}

/// The shards directly in `folder`.
///
/// # Errors
/// If the folder cannot be read.
pub fn of_folder(folder: &Path, from: Option<Kind>) -> Result<Files> {
    let mut files = Files::default();
    let paths = files.in_folder(folder)?;
    // An unreadable index is reported in `checked`, once shards that it may describe are known.
    let index = if wants_index(from) { read_index(folder)?.and_then(Result::ok) } else { None };
    let named = |name: &str| {
        let path = folder.join(name);
        Ok(sys::metadata_opt(&path)?.map(|_| FileLocation::Local(path)))
    };
    files.detect_shards(folder, paths.into_iter().map(FileLocation::Local).collect(), index, &named, from)?;
    if files.shards.is_empty() && files.problems.is_empty() {
        files.of_partitions(folder, from)?;
    }
    Ok(files)
}

/// Whether `path` is a shard or should be one. A broken link may have led to a shard.
///
/// # Errors
/// If the metadata of `path` cannot be read.
pub fn is_shard(path: &Path) -> Result<bool> {
    let Some(meta) = sys::metadata_opt(path)? else { return Ok(true) };
    if meta.is_dir() {
        return sys::is_file(&path.join(DATA_FILE));
    }
    if !meta.is_file() {
        return Ok(kind_by_name(path).is_some());
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    // Rows are samples by the names of several arrays, and never by the name of one.
    if BESIDE.contains(&extension.as_str()) || numpy::is_called(path) {
        return Ok(false);
    }
    match recognise(&path.into()) {
        Err(error) if error.kind() == ErrorKind::System => Err(error),
        // If a shard is unreadable, the file name decides.
        Err(_) => Ok(kind_by_name(path).is_some()),
        Ok(found) => Ok(found.is_some()),
    }
}

/// Whether a file of this name is a file of numpy, whose rows may be samples.
pub fn is_called_array(path: &Path) -> bool {
    numpy::is_called(path)
}

/// Whether a file of this name should be a shard.
pub fn is_called_shard(path: &Path) -> bool {
    kind_by_name(path).is_some()
}

impl Files {
    /// Fails if there is no shard.
    ///
    /// # Errors
    /// The first problem, or an error that `sources` hold no shard.
    pub fn some(mut self, sources: &[PathBuf]) -> Result<Self> {
        match (self.shards.is_empty(), self.problems.is_empty()) {
            (false, _) => Ok(self),
            (true, false) => Err(self.problems.swap_remove(0)),
            (true, true) => Err(none_in(sources.first().map_or(Path::new(""), PathBuf::as_path))),
        }
    }

    /// Adds the shards of another source.
    pub fn append(&mut self, mut other: Self) {
        self.shards.append(&mut other.shards);
        self.problems.append(&mut other.problems);
        self.notes.append(&mut other.notes);
        self.whole.append(&mut other.whole);
        for (reason, files) in other.ignored {
            *self.ignored.entry(reason).or_default() += files;
        }
    }

    /// Checks all sources together: no file is listed twice, and MDS shards named one by one get their entries from an
    /// `index.json` beside them. If only part of a set was given, a warning counts the missing shards.
    ///
    /// # Errors
    /// If a file is given twice, or an index cannot be read.
    pub fn checked(mut self) -> Result<Self> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.shards.iter().find(|shard| !seen.insert(&shard.path)) {
            return Err(Error::usage("is given twice").in_file(&twice.path));
        }
        self.expect()?;
        saved_dataset::check(&self.shards)?;
        let sets = numbered::incomplete(&self.shards).into_iter().filter(|set| !self.whole.contains(set.folder()));
        self.notes
            .extend(sets.map(|set| format!("{}: {}, among the files given", text::path(&set.pattern()), set.what())));
        Ok(self)
    }

    /// Detects the shards among `places`, which lie in `folder`, and the shards in its `index`, which `at` resolves.
    fn detect_shards(
        &mut self,
        folder: &Path,
        places: Vec<FileLocation>,
        index: Option<mds::IndexJson>,
        at: &dyn Fn(&str) -> Result<Option<FileLocation>>,
        from: Option<Kind>,
    ) -> Result<()> {
        let (arrays, places): (Vec<_>, Vec<_>) = places.into_iter().partition(numpy::is);
        let looked = of_each(&places, |place| match recognise(place) {
            // The compression is not supported, and the name is not the name of a shard.
            Err(error) if error.kind() == ErrorKind::Usage && kind_by_name(place.path()).is_none() => Ok(None),
            found => Ok(found?.filter(|shard| from.is_none_or(|kind| kind == shard.kind))),
        });
        let has_index = index.is_some();
        let mut listed = BTreeSet::new();
        for shard in index.into_iter().flat_map(|index| index.shards) {
            let is_new = listed.insert(folder.join(&shard.raw_data.basename));
            listed.extend(basenames(&shard).map(|name| folder.join(name)));
            match is_new {
                true => self.listed(folder, shard, at)?,
                false => {
                    let what = format!("shard {:?} is named twice", shard.raw_data.basename);
                    self.problems.push(Error::data(what).in_file(folder.join(INDEX_JSON)));
                }
            }
        }
        let mut unknown = Vec::new();
        let first = self.shards.len();
        for (place, found) in places.into_iter().zip(looked) {
            match found {
                Ok(Some(shard)) if listed.contains(&shard.path) => {}
                Ok(Some(shard)) if has_index && shard.kind.name() == mds::NAME => {
                    let what = format!("{INDEX_JSON} does not name it, so that streaming does not read it");
                    self.problems.push(Error::data(what).in_file(&shard.path));
                }
                Ok(Some(shard)) => self.shards.push(shard),
                Ok(None) => unknown.push(place),
                Err(error) => self.problems.push(error),
            }
        }
        self.leave_tables(first);
        self.take_arrays(arrays, from, false);
        let mut found = self.shards.split_off(first);
        for ((others, missing), why) in
            [(litdata::sort(&mut found), UNPACKED), (saved_dataset::keep(&mut found)?, UNNAMED)]
        {
            others.iter().for_each(|_| self.ignore(why));
            self.problems.extend(missing);
        }
        self.shards.append(&mut found);
        self.problems.extend(numbered::incomplete(&self.shards[first..]).iter().map(numbered::Set::error));
        self.whole.insert(folder.to_path_buf());
        if self.shards.is_empty() && from.is_some() {
            // The user chose a format that the files themselves do not show.
            self.named(unknown, from);
        } else {
            unknown.iter().for_each(|_| self.ignore(UNKNOWN));
        }
        Ok(())
    }

    /// Adds the shards of a `folder` with Hive column folders, in their order.
    fn of_partitions(&mut self, folder: &Path, from: Option<Kind>) -> Result<()> {
        let failed = |e| sys::io_error("cannot read folder", folder, e);
        let depth = folder.ancestors().take_while(|folder| is_called_partition(folder)).count();
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if depth < MAX_PARTITIONS && is_called_partition(&path) && sys::is_folder(&path)? {
                folders.push(path);
            }
        }
        folders.sort();
        for path in folders {
            let found = of_folder(&path, from)?;
            if let Some(folders) = self.ignored.get_mut(FOLDER).filter(|_| !found.shards.is_empty()) {
                *folders = folders.saturating_sub(1);
            }
            self.append(found);
        }
        self.ignored.retain(|_, files| *files > 0);
        Ok(())
    }

    /// Skips and counts tables without images beside tars of the same name: img2dataset writes them to describe the samples
    /// in the tars. Inspects the shards from number `first` on.
    fn leave_tables(&mut self, first: usize) {
        let stem = |shard: &ShardFile| shard.path.with_extension("");
        let tars: BTreeSet<PathBuf> =
            self.shards[first..].iter().filter(|shard| shard.kind.is_tar()).map(stem).collect();
        let is_table = |shard: &ShardFile| {
            shard.kind == Kind::Read(&parquet::ENTRY)
                && tars.contains(&stem(shard))
                && shard
                    .location()
                    .open()
                    .is_ok_and(|file| parquet::has_images(file).is_ok_and(|has_images| !has_images))
        };
        let (tables, kept): (Vec<_>, Vec<_>) = self.shards.drain(first..).partition(is_table);
        self.shards.extend(kept);
        tables.iter().for_each(|_| self.ignore(TABLE));
    }

    /// Whether the name of the folder entry `path` allows a shard; counts the entry otherwise.
    fn may_be(&mut self, path: &Path) -> bool {
        if path.file_name().is_some_and(is_metadata) {
            self.ignore(METADATA);
            return false;
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            self.ignore(HIDDEN);
            return false;
        }
        let is_beside = BESIDE.contains(&extension.as_str());
        if is_beside {
            self.ignore(&format!("extension .{extension}"));
        }
        !is_beside
    }

    fn ignore(&mut self, reason: &str) {
        *self.ignored.entry(reason.to_owned()).or_default() += 1;
    }

    /// Adds files that the user named.
    fn named(&mut self, mut places: Vec<FileLocation>, from: Option<Kind>) {
        let first = self.shards.len();
        if places.len() > 1 {
            places.retain(|place| {
                let is_metadata = place.path().file_name().is_some_and(is_metadata);
                if is_metadata {
                    self.ignore(METADATA);
                }
                !is_metadata
            });
        }
        let mut arrays = Vec::new();
        let of_arrays = [&numpy::ENTRY, &numpy::MNIST, &numpy::CIFAR, &numpy::PICKLED].map(Kind::Read);
        let is_pickle = |place: &FileLocation| match from {
            None => numpy::is_called_pickle(place.path()),
            Some(kind) => kind == Kind::Read(&numpy::PICKLED),
        };
        if from.is_none_or(|kind| of_arrays.contains(&kind)) {
            (arrays, places) = places.into_iter().partition(|place| numpy::is(place) || is_pickle(place));
        }
        let found = of_each(&places, |place| match from {
            Some(kind) => ShardFile::of_kind(place, kind),
            None => recognise(place)?.ok_or_else(|| unknown(place.path())),
        });
        for found in found {
            match found {
                Ok(shard) => self.shards.push(shard),
                Err(error) => self.problems.push(error),
            }
        }
        self.leave_tables(first);
        self.take_arrays(arrays, from, true);
    }

    /// Adds files of numpy whose rows are samples, and counts the others.
    fn take_arrays(&mut self, places: Vec<FileLocation>, from: Option<Kind>, are_named: bool) {
        let found = numpy::shards(places, from, are_named);
        self.shards.extend(found.shards);
        self.problems.extend(found.problems);
        found.others.iter().for_each(|_| self.ignore(NO_ROWS));
    }

    /// Files directly in the folder that may be shards, by name.
    fn in_folder(&mut self, folder: &Path) -> Result<Vec<PathBuf>> {
        let failed = |e| sys::io_error("cannot read folder", folder, e);
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if self.may_be(&path) {
                paths.push(path);
            }
        }
        paths.sort();
        let kept = paths.into_iter().filter_map(|path| {
            let is_file = |path: &Path| Ok(sys::metadata_opt(path)?.map(|meta| (meta.is_file(), meta.is_dir())));
            match is_file(&path) {
                Ok(Some((true, _))) => return Some(path),
                // The folder of an LMDB is equivalent to its file.
                Ok(Some((_, true))) => match is_file(&path.join(DATA_FILE)) {
                    Ok(Some((true, _))) => return Some(path.join(DATA_FILE)),
                    Ok(_) => self.ignore(FOLDER),
                    Err(error) => self.problems.push(error),
                },
                Ok(Some(_)) if kind_by_name(&path).is_none() => self.ignore(IRREGULAR),
                Ok(Some(_)) => self.problems.push(Error::data(IRREGULAR).in_file(&path)),
                Ok(None) => self.problems.push(Error::data(sys::missing(&path, "is gone")).in_file(&path)),
                Err(error) => self.problems.push(error),
            }
            None
        });
        Ok(kept.collect())
    }

    /// A shard from the index of `folder`. If both exist, the uncompressed file is used.
    fn listed(
        &mut self,
        folder: &Path,
        shard: mds::Shard,
        at: &dyn Fn(&str) -> Result<Option<FileLocation>>,
    ) -> Result<()> {
        let name = &shard.raw_data.basename;
        if !matches!(shard.format.as_str(), "" | mds::NAME) {
            let what = format!("shard {name:?} is of format {:?}, which is not read", shard.format);
            self.problems.push(Error::data(what).in_file(folder.join(INDEX_JSON)));
            return Ok(());
        }
        let mut there = None;
        for name in basenames(&shard) {
            if there.is_none() {
                there = at(name)?;
            }
        }
        let Some(place) = there else {
            let what = format!("is missing: {INDEX_JSON} names it, with {}", size::counted(shard.samples, "sample"));
            self.problems.push(Error::data(what).in_file(folder.join(name)));
            return Ok(());
        };
        match Kind::parse(mds::NAME).and_then(|kind| ShardFile::of_kind(&place, kind)) {
            Ok(file) => self.shards.push(ShardFile { expected: Some(shard), ..file }),
            Err(error) => self.problems.push(error),
        }
        Ok(())
    }

    /// Adds the entries of an `index.json` beside MDS shards that were named one by one.
    fn expect(&mut self) -> Result<()> {
        let mut indexes: BTreeMap<PathBuf, BTreeMap<String, mds::Shard>> = BTreeMap::new();
        for file in &mut self.shards {
            if file.kind.name() != mds::NAME || file.expected.is_some() {
                continue;
            }
            let folder = file.path.parent().unwrap_or(Path::new("")).to_path_buf();
            if !indexes.contains_key(&folder) {
                let index = match &file.remote {
                    None => read_index(&folder)?,
                    Some(remote) => remote
                        .read_beside(INDEX_JSON, key_labels::MAX_BYTES)?
                        .map(|bytes| mds::read_index(&bytes).map_err(|error| error.in_file(folder.join(INDEX_JSON)))),
                };
                let index = index.transpose().unwrap_or_else(|error| {
                    self.problems.push(error);
                    None
                });
                let shards = index.into_iter().flat_map(|index| index.shards);
                let by_name = |shard: mds::Shard| {
                    let names: Vec<_> = basenames(&shard).map(str::to_owned).collect();
                    names.into_iter().map(move |name| (name, shard.clone()))
                };
                indexes.insert(folder.clone(), shards.flat_map(by_name).collect());
            }
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            file.expected = indexes.get(&folder).and_then(|index| index.get(&*name)).cloned();
        }
        Ok(())
    }
}

/// Whether the file name is the name of parquet metadata, which lists the parts of a dataset and has no rows.
fn is_metadata(name: &OsStr) -> bool {
    name == "_metadata" || name == "_common_metadata"
}

fn is_called_partition(folder: &Path) -> bool {
    folder.file_name().and_then(OsStr::to_str).is_some_and(parquet::is_partition)
}

/// The unpacked file first.
fn basenames(shard: &mds::Shard) -> impl Iterator<Item = &str> {
    [Some(&shard.raw_data), shard.zip_data.as_ref()].into_iter().flatten().map(|file| file.basename.as_str())
}

/// Names of the supported formats, for messages.
fn known() -> String {
    Kind::names().join(", ")
}

fn unknown(path: &Path) -> Error {
    Error::data("of no format that this program knows, by its first bytes and its name").in_file(path).help(format!(
        "these formats of shards are detected: {}; convert --from FORMAT reports the error in a damaged shard",
        known()
    ))
}

fn none_in(folder: &Path) -> Error {
    let error = Error::usage("no manifest.json in it, nor in its folders, and no shards").in_file(folder);
    match images_below::are(folder) {
        true => error.help(format!(
            "it holds images: `shardpack plan {} DST` shows the shards that pack would write",
            shell::path(folder)
        )),
        false => {
            error.help(format!("give a folder that `shardpack pack` wrote, or shards of these formats: {}", known()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_shards_is_said_to_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let sources = [folder.path().to_path_buf()];
        std::fs::write(folder.path().join("notes"), b"text").unwrap();
        let error = look(&sources).unwrap().some(&sources).unwrap_err();
        assert!(error.to_string().ends_with("no shards"), "{error}");
        let named = [folder.path().join("notes")];
        let error = look(&named).unwrap().some(&named).unwrap_err();
        assert!(error.to_string().contains("of no format") && error.help_text().unwrap().contains("mds"), "{error}");
    }

    #[test]
    fn what_is_named_has_to_be_there_and_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        assert!(find(&path, None).unwrap_err().to_string().contains("no such file"));
        std::fs::write(&path, b"text").unwrap();
        assert!(find(&path, None).unwrap().problems[0].to_string().contains("no format"));
        let all = folder.path();
        assert_eq!(find(all, None).unwrap().ignored.len(), 1);
        // A file with the name of a shard is a shard, even if corrupt; so is a file whose format the user chose.
        assert_eq!(find(all, Some(Kind::parse("recordio").unwrap())).unwrap().shards.len(), 1);
        std::fs::write(folder.path().join("x.tar"), b"text").unwrap();
        assert_eq!(find(all, None).unwrap().shards.len(), 1);
        assert_eq!(find(all, Some(Kind::parse("webdataset").unwrap())).unwrap().shards.len(), 1);
    }

    #[test]
    fn what_an_index_names_and_what_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let entry = |name: &str| format!(r#"{{"samples": 1, "raw_data": {{"basename": "{name}", "bytes": 3}}}}"#);
        let index = format!(r#"{{"shards": [{}, {}]}}"#, entry("b.mds"), entry("gone.mds"));
        std::fs::write(folder.path().join(INDEX_JSON), index).unwrap();
        for name in ["a.mds", "b.mds"] {
            std::fs::write(folder.path().join(name), b"xyz").unwrap();
        }
        let looked = look(&[folder.path().to_path_buf()]).unwrap();
        assert_eq!(looked.shards.len(), 1);
        assert!(looked.shards[0].path.ends_with("b.mds") && looked.shards[0].expected.is_some());
        let said: Vec<_> = looked.problems.iter().map(Error::to_string).collect();
        assert!(said[0].ends_with("gone.mds: is missing: index.json names it, with 1 sample"), "{said:?}");
        assert!(said[1].contains("a.mds: index.json does not name it"), "{said:?}");
        let one = look(&[folder.path().join("b.mds")]).unwrap();
        assert!(one.shards[0].expected.is_some() && one.problems.is_empty());
    }
}

//! Shards that are looked at and not converted: damaged ones belong to them, and what is missing is told.
//!
//! Holds at all times: a file that is wrong keeps no other from being found. Content tells the format; where it does not,
//! for a shard may be damaged in its first bytes, the name does.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use shardpack_format::{Error, ErrorKind, Result, formats::mds};

use super::{
    Kind, ShardFile,
    files::{INDEX_JSON, beside, expanded, files_in},
    recognise::{kind_by_name, recognise},
};
use crate::sys;

/// What some sources come to.
#[derive(Debug, Default)]
pub struct Looked {
    /// Shards in the order in which they were given, those of a folder by name or as its `index.json` has them.
    pub shards: Vec<ShardFile>,
    /// What is missing, or no shard where one should be; each has its file.
    pub problems: Vec<Error>,
}

/// Looks for shards in files, folders, globs and brace patterns.
///
/// # Errors
/// When a source is not there, a folder cannot be read, or a file is given twice.
pub fn look(sources: &[PathBuf]) -> Result<Looked> {
    let mut looked = Looked::default();
    for source in sources {
        match source.is_dir() {
            true => looked.folder(source)?,
            false => looked.named(&expanded(source)?),
        }
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = looked.shards.iter().find(|shard| !seen.insert(&shard.path)) {
        return Err(Error::usage("is given twice").in_file(&twice.path));
    }
    looked.expect()?;
    Ok(looked)
}

impl Looked {
    /// Fails where there is no shard.
    ///
    /// # Errors
    /// The first problem, or that there is nothing in `sources`.
    pub fn some(mut self, sources: &[PathBuf]) -> Result<Self> {
        match (self.shards.is_empty(), self.problems.is_empty()) {
            (false, _) => Ok(self),
            (true, false) => Err(self.problems.swap_remove(0)),
            (true, true) => Err(none_in(sources.first().map_or(Path::new(""), PathBuf::as_path))),
        }
    }

    /// Files that a person named.
    fn named(&mut self, paths: &[PathBuf]) {
        let found: Vec<_> = paths.par_iter().map(|path| recognise(path)?.ok_or_else(|| unknown(path))).collect();
        for found in found {
            match found {
                Ok(shard) => self.shards.push(shard),
                Err(error) => self.problems.push(error),
            }
        }
    }

    fn folder(&mut self, folder: &Path) -> Result<()> {
        let paths = files_in(folder)?;
        let looked: Vec<_> = paths
            .par_iter()
            .filter(|path| beside(path).is_none())
            .map(|path| match recognise(path) {
                // Compressed in a way that is not read, and not called a shard.
                Err(error) if error.kind() == ErrorKind::Usage && kind_by_name(path).is_none() => Ok(None),
                found => found,
            })
            .collect();
        // One that cannot be read is told in `expect`, once there are shards that it is about.
        let index = read_index(folder)?.and_then(Result::ok);
        let has_index = index.is_some();
        let mut listed = BTreeSet::new();
        for shard in index.into_iter().flat_map(|index| index.shards) {
            listed.extend(basenames(&shard).map(|name| folder.join(name)));
            self.listed(folder, shard);
        }
        for found in looked {
            match found {
                Ok(Some(shard)) if listed.contains(&shard.path) => {}
                Ok(Some(shard)) if has_index && shard.kind.name() == mds::NAME => {
                    let what = format!("{INDEX_JSON} does not name it, so that streaming does not read it");
                    self.problems.push(Error::data(what).in_file(&shard.path));
                }
                Ok(Some(shard)) => self.shards.push(shard),
                Ok(None) => {}
                Err(error) => self.problems.push(error),
            }
        }
        Ok(())
    }

    /// A shard that the index of `folder` names.
    fn listed(&mut self, folder: &Path, shard: mds::Shard) {
        let wrong = |what: String| Error::data(what).in_file(folder.join(INDEX_JSON));
        if !matches!(shard.format.as_str(), "" | mds::NAME) {
            let what =
                format!("shard {:?} is of format {:?}, which is not read", shard.raw_data.basename, shard.format);
            return self.problems.push(wrong(what));
        }
        let there = basenames(&shard).map(|name| folder.join(name)).find(|path| path.exists());
        let Some(path) = there else {
            return self.problems.push(wrong(format!("shard {:?} is missing", shard.raw_data.basename)));
        };
        match Kind::of(mds::NAME).and_then(|kind| ShardFile::of_kind(&path, kind)) {
            Ok(file) => self.shards.push(ShardFile { expected: Some(shard), ..file }),
            Err(error) => self.problems.push(error),
        }
    }

    /// Adds what an `index.json` beside says of MDS shards that were given one by one.
    fn expect(&mut self) -> Result<()> {
        let mut indexes: BTreeMap<PathBuf, BTreeMap<String, mds::Shard>> = BTreeMap::new();
        for file in &mut self.shards {
            if file.kind.name() != mds::NAME || file.expected.is_some() {
                continue;
            }
            let folder = file.path.parent().unwrap_or(Path::new("")).to_path_buf();
            if !indexes.contains_key(&folder) {
                let mut by_name = BTreeMap::new();
                match read_index(&folder)?.transpose() {
                    Ok(index) => {
                        for shard in index.into_iter().flat_map(|index| index.shards) {
                            by_name.extend(basenames(&shard).map(|name| (name.to_owned(), shard.clone())));
                        }
                    }
                    Err(error) => self.problems.push(error),
                }
                indexes.insert(folder.clone(), by_name);
            }
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            file.expected = indexes.get(&folder).and_then(|index| index.get(&*name)).cloned();
        }
        Ok(())
    }
}

/// The unpacked file first.
fn basenames(shard: &mds::Shard) -> impl Iterator<Item = &str> {
    [Some(&shard.raw_data), shard.zip_data.as_ref()].into_iter().flatten().map(|file| file.basename.as_str())
}

/// The `index.json` in `folder`, if there is one that speaks of shards or should.
fn read_index(folder: &Path) -> Result<Option<Result<mds::IndexJson>>> {
    let path = folder.join(INDEX_JSON);
    let bytes = sys::read_if_there(&path)?;
    Ok(bytes.map(|bytes| mds::read_index(&bytes).map_err(|error| error.in_file(&path))))
}

/// What is read, for messages.
fn known() -> String {
    Kind::names().join(", ")
}

fn unknown(path: &Path) -> Error {
    Error::data("of no format that this program knows, by its first bytes and its name")
        .in_file(path)
        .help(format!("shards of these formats are read: {}", known()))
}

fn none_in(folder: &Path) -> Error {
    Error::usage("no manifest.json in it, nor in its folders, and no shards")
        .in_file(folder)
        .help(format!("give a folder that `shardpack pack` wrote, or shards of these formats: {}", known()))
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
        assert!(said[0].ends_with("index.json: shard \"gone.mds\" is missing"), "{said:?}");
        assert!(said[1].contains("a.mds: index.json does not name it"), "{said:?}");
        let one = look(&[folder.path().join("b.mds")]).unwrap();
        assert!(one.shards[0].expected.is_some() && one.problems.is_empty());
    }
}

//! Sources as plan files store them: data only. Each source makes its own; `resolve` makes sources from them.

use std::{
    collections::BTreeSet,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result, formats::foreign::FieldSelection, hash, size};

use super::list::stored::StoredList;
use crate::foreign::Packed;

/// A source.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// A tree in a folder.
    Folder(StoredPath),
    /// A tree below a URL.
    Prefix(StoredPath),
    /// A tree in a zip archive: the archive, and the folder in it.
    Archive(StoredPath, StoredPath),
    /// A dataset.
    Dataset(StoredPath),
    /// Several datasets that are read as one.
    Datasets(Vec<StoredPath>),
    /// Several datasets, with the names of their chosen shards unless all are chosen.
    Parts(Vec<(StoredPath, Option<BTreeSet<String>>)>),
    /// Shards of other tools.
    Shards(StoredShards),
    /// A list.
    List(StoredList),
    /// Splits with their sources.
    Several(Vec<(String, Stored)>),
    /// A source that is divided into splits, and how.
    Parted(Box<Stored>, String),
    /// A source with folders of further files, by their names in patterns.
    Extra(Box<Stored>, Vec<(String, StoredPath)>),
}

/// A path or URL, in hexadecimal because it may not be UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredPath(String);

impl StoredPath {
    pub(crate) fn from_path(path: &Path) -> Self {
        Self(hash::hex(path.as_os_str().as_bytes()))
    }

    /// The path.
    ///
    /// # Errors
    /// If it is not hexadecimal.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let bytes = hash::unhex(&self.0).ok_or_else(|| Error::data("not hexadecimal"))?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }
}

/// Shards of other tools, and the options for reading their records.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredShards {
    pub(super) files: Vec<StoredFile>,
    pub(super) wanted: FieldSelection,
}

/// A file of [`StoredShards`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredFile {
    pub path: PathBuf,
    pub name: String,
    pub split: Option<String>,
    pub bytes: u64,
    pub mtime_ns: i64,
    pub kind: String,
    pub packed: Option<Packed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<StoredBeside>,
}

/// A file that belongs to a [`StoredFile`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredBeside {
    pub path: PathBuf,
    pub bytes: u64,
    pub mtime_ns: i64,
}

impl StoredShards {
    /// Describes the first file that differs from `now`, if any.
    pub fn difference(&self, now: &Self) -> Option<String> {
        let beside = |one: &StoredBeside| (one.path.file_name().map(ToOwned::to_owned), one.bytes, one.mtime_ns);
        let facts = |file: &StoredFile| {
            let all: Vec<_> = file.beside.iter().map(beside).collect();
            (file.name.clone(), file.bytes, file.mtime_ns, all)
        };
        let differs = self.files.iter().zip(&now.files).find(|(old, new)| facts(old) != facts(new));
        match differs {
            Some((old, new)) if old.name == new.name => Some(format!("{} was changed", old.name)),
            Some((old, new)) => Some(format!("a shard was {}, is now {}", old.name, new.name)),
            None if self.files.len() != now.files.len() => {
                Some(format!("{}, now {}", size::counted(self.files.len() as u64, "shard"), now.files.len()))
            }
            None => None,
        }
    }
}

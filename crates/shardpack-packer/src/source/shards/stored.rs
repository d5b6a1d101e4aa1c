//! The plan-file form of a shard source, and the difference between two sources.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result, formats::foreign::Wanted, size};
use shardpack_reader::StoreSettings;

use super::{File, Shards, urls::Urls};
use crate::{
    foreign::{Kind, Packed, ShardFile, lmdb},
    sys,
};

/// A shard source as stored in a plan file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    files: Vec<StoredFile>,
    wanted: Wanted,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFile {
    path: PathBuf,
    name: String,
    split: Option<String>,
    bytes: u64,
    mtime_ns: i64,
    kind: String,
    packed: Option<Packed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<String>,
}

impl Shards {
    /// The same source with absolute paths.
    pub(crate) fn resolved(&self) -> Result<Self> {
        let mut resolved = self.clone();
        for file in resolved.files.iter_mut().filter(|file| file.shard.remote.is_none()) {
            file.shard.path = sys::resolved(&file.shard.path)?;
        }
        if let Some(list) = lmdb::label_file(&self.wanted.entries) {
            let list = sys::resolved(&list)?;
            let text = list.to_str().ok_or_else(|| Error::usage("a path that is no text").in_file(&list))?;
            resolved.wanted.entries.label_from = Some(text.to_owned());
        }
        Ok(resolved)
    }

    pub(crate) fn stored(&self) -> Stored {
        let file = |File { shard, name, split }: &File| StoredFile {
            path: shard.path.clone(),
            name: name.clone(),
            split: split.clone(),
            bytes: shard.bytes,
            mtime_ns: shard.mtime_ns,
            kind: shard.kind.name().to_owned(),
            packed: shard.packed,
            part: shard.part.clone(),
        };
        Stored { files: self.files.iter().map(file).collect(), wanted: self.wanted.clone() }
    }

    pub(crate) fn restored(stored: Stored) -> Result<Self> {
        // Store settings come from the environment only.
        let urls = Arc::new(Urls::new(&StoreSettings::default()));
        let file = |file: StoredFile| {
            let StoredFile { path, name, split, bytes, mtime_ns, kind, packed, part } = file;
            let kind = Kind::of(&kind)?;
            let remote = sys::is_store(&path).then(|| urls.known(&path, bytes, mtime_ns)).transpose()?;
            let shard = ShardFile { path, remote, bytes, mtime_ns, inode: None, kind, packed, expected: None, part };
            Ok(File { shard, name, split })
        };
        let files: Vec<File> = stored.files.into_iter().map(file).collect::<Result<_>>()?;
        let urls = files.iter().any(|file| file.shard.remote.is_some()).then_some(urls);
        Ok(Self { files, wanted: stored.wanted, ignored: BTreeMap::new(), lost: Vec::new(), notes: Vec::new(), urls })
    }

    /// Describes the first file that differs from `now`, if any.
    pub(crate) fn difference(&self, now: &Self) -> Option<String> {
        let facts = |file: &File| (file.name.clone(), file.shard.bytes, file.shard.mtime_ns);
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

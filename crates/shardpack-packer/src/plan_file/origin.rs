//! A source as stored in a plan file.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result, hash};

use shardpack_reader::StoreSettings;

use crate::source::{Fractions, List, Origin, Part, Parted, Prefix, Root, Several, Shards, list, shards};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StoredOrigin {
    /// Path in hexadecimal, because it may not be UTF-8.
    Folder(String),
    /// URL in hexadecimal.
    Prefix(String),
    /// Path in hexadecimal.
    Dataset(String),
    /// Several datasets that are read as one.
    Datasets(Vec<String>),
    /// Several datasets, with the names of their chosen shards unless all are chosen.
    Parts(Vec<(String, Option<BTreeSet<String>>)>),
    Shards(shards::Stored),
    List(list::Stored),
    /// Splits with their sources.
    Several(Vec<(String, StoredOrigin)>),
    /// A source with random splits, and their fractions.
    Parted(Box<StoredOrigin>, String),
}

/// Encodes a source. A plan cannot name the spool of preprocessed images, so their original source is stored.
pub(super) fn stored(source: &Origin) -> StoredOrigin {
    use std::os::unix::ffi::OsStrExt;
    let hex = |path: &Path| hash::hex(path.as_os_str().as_bytes());
    match source {
        Origin::Folder(root) => StoredOrigin::Folder(hex(root)),
        Origin::Prefix(prefix) => StoredOrigin::Prefix(hex(prefix.url())),
        Origin::Dataset(roots) => match roots.as_slice() {
            [Root { folder, only: None, .. }] => StoredOrigin::Dataset(hex(folder)),
            roots if roots.iter().all(|root| root.only.is_none()) => {
                StoredOrigin::Datasets(roots.iter().map(|root| hex(&root.folder)).collect())
            }
            roots => StoredOrigin::Parts(roots.iter().map(|root| (hex(&root.folder), root.only.clone())).collect()),
        },
        Origin::Several(several) => {
            let parts = several.parts().iter();
            StoredOrigin::Several(parts.map(|part| (part.split.clone(), stored(&part.origin))).collect())
        }
        Origin::Shards(shards) => StoredOrigin::Shards(shards.stored()),
        Origin::List(list) => StoredOrigin::List(list.stored()),
        Origin::Transformed(made) => stored(made.origin()),
        Origin::Parted(parted) => {
            StoredOrigin::Parted(Box::new(stored(parted.origin())), parted.fractions().to_string())
        }
    }
}

/// Decodes a source.
pub(super) fn restored(stored: StoredOrigin) -> Result<Origin> {
    use std::os::unix::ffi::OsStringExt;
    let path = |hex: &String| {
        let bytes = hash::unhex(hex).ok_or_else(|| Error::data("not hexadecimal"))?;
        Ok::<_, Error>(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    };
    Ok(match stored {
        StoredOrigin::Folder(root) => Origin::Folder(path(&root)?),
        StoredOrigin::Prefix(url) => Origin::Prefix(Prefix::new(&path(&url)?, &StoreSettings::default())?),
        StoredOrigin::Dataset(root) => Origin::Dataset(vec![Root::new(path(&root)?, None)]),
        StoredOrigin::Datasets(roots) => {
            let root = |root| Ok(Root::new(path(root)?, None));
            Origin::Dataset(roots.iter().map(root).collect::<Result<_>>()?)
        }
        StoredOrigin::Parts(roots) => {
            let root = |(root, only): (String, _)| Ok(Root::new(path(&root)?, only));
            Origin::Dataset(roots.into_iter().map(root).collect::<Result<_>>()?)
        }
        StoredOrigin::Shards(stored) => Origin::Shards(Shards::restored(stored)?),
        StoredOrigin::List(stored) => Origin::List(List::restored(stored)?),
        StoredOrigin::Parted(origin, fractions) => {
            Origin::Parted(Parted::new(restored(*origin)?, Fractions::of_text(&fractions)?))
        }
        StoredOrigin::Several(parts) => {
            let part = |(split, stored)| Ok(Part { split, origin: restored(stored)? });
            Origin::Several(Several::new(parts.into_iter().map(part).collect::<Result<_>>()?)?)
        }
    })
}

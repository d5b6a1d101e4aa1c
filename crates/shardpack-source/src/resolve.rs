//! What a path is: makes sources from the paths of a user, and from plan files.
//!
//! No other file knows all kinds of sources.

use std::{
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, formats::foreign::FieldSelection};
use shardpack_reader::StoreSettings;
use shardpack_storage::Address;

use super::{
    DatasetLocation, Datasets, Divided, Division, Inputs, List, LocalTree, ObjectTree, Shards, SplitSource,
    SplitSources,
    api::{SharedSource, Source},
    archive::InArchive,
    extra_roots, list,
    options::Splits,
    packed, shards,
    stored::{Stored, StoredPath},
};
use crate::sys;

/// The source as one that plans can share.
pub fn shared(source: impl Source + 'static) -> SharedSource {
    Arc::new(source)
}

/// The tree in the zip archive that `path` names, or in a folder of one; `None` if no part of `path` is an archive.
///
/// # Errors
/// If a file or object cannot be looked at.
fn in_archive(path: &Path, settings: &StoreSettings) -> Result<Option<SharedSource>> {
    Ok(InArchive::find(path, settings)?.map(ObjectTree::in_archive).map(shared))
}

/// Detects the kind of source at `path`, for comparison with a dataset.
///
/// `columns` are the columns of a list, `wanted` the options for records and the targets of the dataset, `settings` the store settings for a URL. A URL can be a
/// tree of objects, a shardpack dataset or an archive.
///
/// # Errors
/// If nothing is at `path`, or shards there cannot be read.
pub fn resolve(
    path: &Path,
    columns: &list::Columns,
    wanted: &FieldSelection,
    settings: &StoreSettings,
) -> Result<SharedSource> {
    if let Some(source) = in_archive(path, settings)? {
        return Ok(source);
    }
    let local = Address::of(path).local();
    if let Some(local) = local
        && list::is_list(local, columns)?
    {
        return List::find(local, columns, settings).map(shared);
    }
    let paths = [path.to_path_buf()];
    // Beside a path, the settings are those of the images that a list names.
    let mut given = Inputs::at(&paths, &settings.for_any([path]))?;
    if let Some(roots) = given.only_ours()? {
        return of_ours(roots, &paths, wanted, settings);
    }
    let wanted = without_targets(wanted);
    let is_tree = match local {
        Some(local) => sys::is_folder(local)? && !shards::holds(local)?,
        None => !packed::names_shards(path),
    };
    match (is_tree, local) {
        (false, _) => given.shards(&paths, None, wanted, &Splits::Auto).map(shared),
        (true, Some(local)) => Ok(shared(LocalTree(local.to_path_buf()))),
        (true, None) => ObjectTree::looked_for(path, settings, given.urls()).map(shared),
    }
}

/// The sealed datasets `roots` at `paths`, for comparison with a dataset that has the targets of `wanted`. A sealed dataset gives its
/// components as they are, so that one with targets was read as shards.
///
/// # Errors
/// If shards cannot be read.
fn of_ours(
    roots: Vec<DatasetLocation>,
    paths: &[PathBuf],
    wanted: &FieldSelection,
    settings: &StoreSettings,
) -> Result<SharedSource> {
    if wanted.targets.is_empty() {
        return Ok(shared(Datasets(roots)));
    }
    let given = Inputs::unsorted(paths, &settings.for_any(paths.iter().map(PathBuf::as_path)))?;
    given.shards(paths, None, without_targets(wanted), &Splits::Auto).map(shared)
}

/// The options without the targets, which a listing takes from the components of the dataset.
fn without_targets(wanted: &FieldSelection) -> FieldSelection {
    FieldSelection { targets: Vec::new(), ..wanted.clone() }
}

/// The source at `path`, for a pack: a tree, an archive, or a list.
///
/// # Errors
/// If a file is not a list, or columns are given for a path where nothing is.
pub fn resolve_to_pack(path: &Path, columns: &list::Columns, settings: &StoreSettings) -> Result<SharedSource> {
    if let Some(source) = in_archive(path, settings)? {
        return Ok(source);
    }
    match Address::of(path).local() {
        Some(local) if sys::is_file(local)? => List::find(local, columns, settings).map(shared),
        Some(local) if !columns.is_empty() && sys::metadata_opt(local)?.is_none() => {
            Err(Error::usage("no such file or folder").in_file(local))
        }
        Some(local) => Ok(shared(LocalTree(local.to_path_buf()))),
        None => ObjectTree::new(path, settings).map(shared),
    }
}

/// The source formed by `paths`: one source, sources that are splits (`NAME=SRC`), or shardpack datasets.
///
/// # Errors
/// As [`resolve`]; also if the paths do not form one source.
pub fn resolve_all(
    paths: &[PathBuf],
    columns: &list::Columns,
    wanted: &FieldSelection,
    settings: &StoreSettings,
) -> Result<SharedSource> {
    let parts: Vec<_> = paths.iter().map(|path| part_of(path)).collect();
    if parts.iter().any(Option::is_some) {
        let part = |(path, part): (&PathBuf, Option<(String, PathBuf)>)| {
            let (split, path) = part.ok_or_else(|| {
                Error::usage("has no name, and others have: write NAME=SRC for each split").in_file(path)
            })?;
            Ok(SplitSource { split, source: resolve(&path, columns, wanted, settings)? })
        };
        let parts = paths.iter().zip(parts).map(part).collect::<Result<_>>()?;
        return SplitSources::new(parts).map(shared);
    }
    match paths {
        [one] => resolve(one, columns, wanted, settings),
        all => {
            let mut given = Inputs::at(all, settings)?;
            match given.only_ours()? {
                Some(roots) => of_ours(roots, all, wanted, settings),
                None => given.shards(all, None, without_targets(wanted), &Splits::Auto).map(shared),
            }
        }
    }
}

/// The source that a plan file stores. Settings of stores come from the environment only.
///
/// # Errors
/// If a path or an option is invalid, or a list is missing.
pub fn restored(stored: Stored) -> Result<SharedSource> {
    let settings = StoreSettings::default();
    Ok(match stored {
        Stored::Folder(root) => shared(LocalTree(root.path()?)),
        Stored::Prefix(url) => shared(ObjectTree::new(&url.path()?, &settings)?),
        Stored::Archive(file, folder) => {
            let folder = folder.path()?;
            shared(ObjectTree::in_archive(InArchive::at(&file.path()?, &folder.to_string_lossy(), &settings)?))
        }
        Stored::Dataset(root) => shared(Datasets(vec![DatasetLocation::new(&root.path()?, None, &settings)?])),
        Stored::Datasets(roots) => {
            let root = |root: &StoredPath| DatasetLocation::new(&root.path()?, None, &settings);
            shared(Datasets(roots.iter().map(root).collect::<Result<_>>()?))
        }
        Stored::Parts(roots) => {
            let root = |(root, only): (StoredPath, _)| DatasetLocation::new(&root.path()?, only, &settings);
            shared(Datasets(roots.into_iter().map(root).collect::<Result<_>>()?))
        }
        Stored::Shards(stored) => shared(Shards::restored(stored)?),
        Stored::List(stored) => shared(List::restored(stored)?),
        Stored::Parted(source, division) => shared(Divided::new(restored(*source)?, Division::of_text(&division)?)),
        Stored::Extra(source, roots) => {
            let root = |(name, path): (String, StoredPath)| Ok((name, path.path()?));
            extra_roots::around(restored(*source)?, roots.into_iter().map(root).collect::<Result<_>>()?)?
        }
        Stored::Several(parts) => {
            let part = |(split, stored)| Ok(SplitSource { split, source: restored(stored)? });
            shared(SplitSources::new(parts.into_iter().map(part).collect::<Result<_>>()?)?)
        }
    })
}

/// Split name and source, if `path` has the form `NAME=SRC` and no file has that name.
pub fn part_of(path: &Path) -> Option<(String, PathBuf)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').filter(|_| path.symlink_metadata().is_err())?;
    let source = std::ffi::OsString::from_vec(bytes[at + 1..].to_vec());
    Some((String::from_utf8_lossy(&bytes[..at]).into_owned(), source.into()))
}

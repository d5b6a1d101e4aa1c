//! A tree to list, in a file system or as an object store listed it.

use std::path::{Path, PathBuf};

use shardpack_format::Result;

use super::{listed_tree::ListedTree, names::as_path, packed};
use crate::sys;

/// Returns at most so many first bytes of a file.
pub(super) type ReadStart<'a> = dyn Fn(&Path, u64) -> Vec<u8> + 'a;

/// A tree to list: in a file system, or as an object store listed it.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    /// The folder or URL.
    pub root: &'a Path,
    /// The store's listing, and a function that reads at most so many first bytes of a file.
    pub listed: Option<(&'a ListedTree, &'a ReadStart<'a>)>,
}

impl Tree<'_> {
    /// The path of a folder in the tree; for an empty name the root as given.
    pub fn path(&self, below: &[u8]) -> PathBuf {
        if below.is_empty() { self.root.to_path_buf() } else { self.root.join(as_path(below)) }
    }

    /// Fails if the root or a subfolder is one of our datasets: index files and seals are not samples.
    pub fn refuse_packed(self, folders: &[Vec<u8>]) -> Result<()> {
        let folders = if folders.len() > MAX_DATASETS { &[] } else { folders };
        for folder in [Vec::new()].iter().chain(folders) {
            let is_packed = match self.listed {
                // If a class folder cannot be read, the walk reports it or leaves it out.
                None => packed::is_packed_folder(&self.path(folder)).or_else(|error| {
                    let is_of_class = !folder.is_empty() && error.io_error().is_some_and(|e| !sys::is_of_machine(e));
                    if is_of_class { Ok(false) } else { Err(error) }
                }),
                Some((listed, _)) => {
                    packed::is_packed(|name| Ok(listed.names(folder).any(|(found, _)| found == name.as_bytes())))
                }
            };
            if is_packed? {
                return Err(packed::packed(&self.path(folder)));
            }
        }
        Ok(())
    }
}

/// The path of `split` in a tree.
pub(super) fn below(split: Option<&str>) -> &[u8] {
    split.map_or(b"", str::as_bytes)
}

/// Most subfolders that are checked for datasets. Nobody has more datasets in a folder, and a source may have 100,000
/// classes.
const MAX_DATASETS: usize = 100;

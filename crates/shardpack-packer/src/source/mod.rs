//! Sources: list samples and read their bytes.
//!
//! A source lists its samples once ([`Found`]) and then reads their bytes in any order, from many threads. [`Origin`] lists all kinds
//! of source; the packing engine knows no other origin of images.

pub(crate) mod api;
pub(crate) mod classes;
mod dataset;
pub mod fraction;
pub mod given;
pub mod image_folder;
mod keep;
mod layout;
mod links;
pub mod list;
mod listed;
mod lists;
pub(crate) mod merge;
mod missing_components;
mod names;
pub(crate) mod npy;
mod npz;
mod open;
pub mod options;
mod outcome;
pub mod packed;
mod patient;
pub(crate) mod payload;
mod payloads;
mod prefix;
mod root;
pub(crate) mod sealed;
pub mod several;
pub mod shards;
pub mod storage;
pub(crate) mod strangers;
pub mod transformed;
mod tree;
mod url;
mod walk;

use std::{
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result, formats::foreign::Wanted};
use shardpack_reader::{StoreSettings, Transfers};

use crate::{
    listing::Listing,
    monitor::{Monitor, Silent},
    source::options::{Options, Splits},
    sys,
};

pub(crate) use api::COMPONENT;
pub use api::{Found, Look, ReadError, Refusal, SampleReader};
pub use fraction::{Fractions, Parted};
pub use given::Given;
pub use list::List;
pub use open::FolderReader;
pub use packed::is_dataset;
use patient::Patient;
pub use prefix::Prefix;
pub use root::Root;
pub use sealed::SealedReader;
pub use several::{Part, Several};
pub use shards::Shards;
pub use transformed::Transformed;

/// Whether `extension`, in lower case and without the dot, is an image extension.
pub fn is_image_extension(extension: &[u8]) -> bool {
    names::EXTENSIONS.iter().any(|known| known.as_bytes() == extension)
}

/// A source to pack.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A local ImageFolder tree.
    Folder(PathBuf),
    /// An ImageFolder tree below a URL.
    Prefix(Prefix),
    /// Sealed datasets, the splits of one, or some of their shards.
    Dataset(Vec<Root>),
    /// Shards written by other tools.
    Shards(Shards),
    /// Images of another source, changed by a recipe.
    Transformed(Transformed),
    /// A list of images.
    List(List),
    /// Several sources, each a split.
    Several(Several),
    /// A source without splits, divided into splits.
    Parted(Parted),
}

impl Origin {
    /// Detects the kind of source at `path`, for comparison with a dataset.
    ///
    /// `columns` are the columns of a list, `wanted` the options for records, `settings` the store settings for a URL. A URL can be a
    /// tree of objects or a shardpack dataset.
    ///
    /// # Errors
    /// If nothing is at `path`, or shards there cannot be read.
    pub fn of(path: &Path, columns: &list::Columns, wanted: &Wanted, settings: &StoreSettings) -> Result<Self> {
        if sys::is_store(path) {
            let paths = [path.to_path_buf()];
            let mut given = Given::at_urls(&paths, settings)?;
            return match given.only_ours()? {
                Some(roots) => Ok(Self::Dataset(roots)),
                None if packed::names_shards(path) => {
                    given.shards(&paths, None, wanted.clone(), &Splits::Auto).map(Self::Shards)
                }
                None => Prefix::looked_for(path, settings, given.urls()).map(Self::Prefix),
            };
        }
        if list::is_list(path, columns)? {
            return List::find(path, columns, settings).map(Self::List);
        }
        let paths = [path.to_path_buf()];
        let mut given = Given::of(&paths)?;
        if given.roots.is_empty() && sys::is_folder(path)? && !shards::holds(path)? {
            return Ok(Self::Folder(path.to_path_buf()));
        }
        match given.only_ours()? {
            Some(roots) => Ok(Self::Dataset(roots)),
            None => given.shards(&paths, None, wanted.clone(), &Splits::Auto).map(Self::Shards),
        }
    }

    /// The source formed by `paths`: one source, sources that are splits (`NAME=SRC`), or shardpack datasets.
    ///
    /// # Errors
    /// As [`Origin::of`]; also if the paths do not form one source.
    pub fn of_all(
        paths: &[PathBuf],
        columns: &list::Columns,
        wanted: &Wanted,
        settings: &StoreSettings,
    ) -> Result<Self> {
        let parts: Vec<_> = paths.iter().map(|path| part_of(path)).collect();
        if parts.iter().any(Option::is_some) {
            let part = |(path, part): (&PathBuf, Option<(String, PathBuf)>)| {
                let (split, path) = part.ok_or_else(|| {
                    Error::usage("has no name, and others have: write NAME=SRC for each split").in_file(path)
                })?;
                Ok(Part { split, origin: Self::of(&path, columns, wanted, settings)? })
            };
            let parts = paths.iter().zip(parts).map(part).collect::<Result<_>>()?;
            return Several::new(parts).map(Self::Several);
        }
        match paths {
            [one] => Self::of(one, columns, wanted, settings),
            all => {
                let mut given = Given::at_urls(all, settings)?;
                match given.only_ours()? {
                    Some(roots) => Ok(Self::Dataset(roots)),
                    None => given.shards(all, None, wanted.clone(), &Splits::Auto).map(Self::Shards),
                }
            }
        }
    }

    /// Whether the source is a list, or derived from one.
    pub(crate) fn is_list(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Transformed(made) => made.origin().is_list(),
            Self::Parted(parted) => parted.origin().is_list(),
            _ => false,
        }
    }

    /// Whether every part of the source is a list.
    pub(crate) fn is_all_lists(&self) -> bool {
        match self {
            Self::Several(several) => several.parts().iter().all(|part| part.origin.is_list()),
            Self::Parted(parted) => parted.origin().is_all_lists(),
            one => one.is_list(),
        }
    }

    /// Whether writing to a folder is forbidden, because the folder is inside the source or would replace files of the source.
    ///
    /// `existing` is the longest existing part of the folder's path; `is_whole` is true if that part is the whole path.
    pub(crate) fn holds(&self, existing: &Path, is_whole: bool) -> bool {
        // Files of shards may lie in a parent folder; of a list, only the listed files are read.
        let is_tree = match self {
            Self::Shards(_) | Self::List(_) => false,
            Self::Folder(_) | Self::Prefix(_) | Self::Dataset(_) => true,
            Self::Transformed(made) => return made.origin().holds(existing, is_whole),
            Self::Parted(parted) => return parted.origin().holds(existing, is_whole),
            Self::Several(several) => {
                return several.parts().iter().any(|part| part.origin.holds(existing, is_whole));
            }
        };
        let local = self.roots().into_iter().filter(|root| !sys::is_store(root));
        local.filter_map(|root| root.canonicalize().ok()).any(|root| match is_tree {
            true => existing.starts_with(&root),
            false => is_whole && existing == root,
        })
    }

    /// Whether each sample is a file of a tree or of a list.
    pub(crate) fn is_of_files(&self) -> bool {
        match self {
            Self::Folder(_) | Self::Prefix(_) | Self::List(_) => true,
            Self::Several(several) => several.parts().iter().all(|part| part.origin.is_of_files()),
            Self::Parted(parted) => parted.origin().is_of_files(),
            Self::Dataset(_) | Self::Shards(_) | Self::Transformed(_) => false,
        }
    }

    /// Whether every part of the source is shards written by other tools.
    pub fn is_of_shards(&self) -> bool {
        match self {
            Self::Shards(_) => true,
            Self::Several(several) => several.parts().iter().all(|part| part.origin.is_of_shards()),
            Self::Parted(parted) => parted.origin().is_of_shards(),
            _ => false,
        }
    }

    /// Whether samples can be read in place, without unpacking.
    fn is_plain(&self) -> bool {
        match self {
            Self::Shards(shards) => shards.is_plain(),
            Self::Parted(parted) => parted.origin().is_plain(),
            _ => true,
        }
    }

    /// Folders or files of the source that must not be written into or replaced.
    pub fn roots(&self) -> Vec<&Path> {
        match self {
            Self::Folder(root) => vec![root],
            Self::Prefix(prefix) => vec![prefix.url()],
            Self::Dataset(roots) => roots.iter().map(|root| root.folder.as_path()).collect(),
            Self::Several(several) => several.parts().iter().flat_map(|part| part.origin.roots()).collect(),
            Self::List(list) => vec![list.root()],
            Self::Shards(shards) => shards.folders(),
            Self::Transformed(made) => made.origin().roots(),
            Self::Parted(parted) => parted.origin().roots(),
        }
    }

    /// Whether this program reads the source with network requests, not through the file system.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Prefix(_) => true,
            Self::Dataset(roots) => roots.iter().any(Root::is_remote),
            Self::Several(several) => several.parts().iter().any(|part| part.origin.is_remote()),
            Self::Parted(parted) => parted.origin().is_remote(),
            Self::Folder(_) => false,
            Self::Transformed(made) => made.is_remote(),
            Self::List(list) => list.remote().is_some(),
            Self::Shards(shards) => shards.is_remote(),
        }
    }

    /// Network transfers so far; `None` if all parts are local files.
    pub fn transfers(&self) -> Option<Transfers> {
        match self {
            Self::Prefix(prefix) => Some(prefix.transfers()),
            Self::Dataset(roots) => roots.iter().filter_map(Root::transfers).reduce(Transfers::and),
            Self::Several(several) => {
                several.parts().iter().filter_map(|part| part.origin.transfers()).reduce(Transfers::and)
            }
            Self::Transformed(made) => made.transfers(),
            Self::Parted(parted) => parted.origin().transfers(),
            Self::Shards(shards) => shards.transfers(),
            Self::List(list) => list.remote().map(Prefix::transfers),
            Self::Folder(_) => None,
        }
    }

    /// A path that identifies the source in messages.
    pub fn path(&self) -> &Path {
        self.roots().first().copied().unwrap_or(Path::new("."))
    }

    /// Path or URL of the files that are read most; determines the read order.
    pub fn read_at(&self) -> &Path {
        match self {
            Self::Transformed(made) => made.read_at(),
            _ => self.path(),
        }
    }

    /// The same source with absolute paths.
    ///
    /// # Errors
    /// If a part of the source is missing.
    pub fn resolved(&self) -> Result<Self> {
        Ok(match self {
            Self::Folder(root) => Self::Folder(sys::resolved(root)?),
            Self::Prefix(prefix) => Self::Prefix(prefix.clone()),
            Self::Dataset(roots) => Self::Dataset(roots.iter().map(Root::resolved).collect::<Result<_>>()?),
            Self::Several(several) => Self::Several(several.with(Self::resolved)?),
            Self::Shards(shards) => Self::Shards(shards.resolved()?),
            Self::Transformed(made) => Self::Transformed(made.of(made.origin().resolved()?)),
            Self::Parted(parted) => Self::Parted(parted.of(parted.origin().resolved()?)),
            Self::List(list) => Self::List(list.resolved()?),
        })
    }

    /// Lists the source: one [`Found`] per split, or one for all.
    ///
    /// # Errors
    /// If the source cannot be read or is invalid. Problems of single samples are in the result.
    pub fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
        match self {
            Self::Folder(root) => {
                let found = image_folder::discover(root, &of_files(options), monitor)?;
                let of_split = |split: Option<&str>| split.map_or_else(|| root.clone(), |split| root.join(split));
                npz::taken_apart(found, &|split| npz::Place::Folder(of_split(split)), monitor)
            }
            Self::Prefix(prefix) => prefix.discover(&of_files(options), monitor),
            Self::Dataset(roots) => dataset::discover(roots, options, monitor),
            Self::Several(several) => several.discover(options, monitor),
            Self::Shards(shards) => shards.discover(options, monitor),
            Self::Transformed(made) => made.origin().discover(options, monitor),
            Self::Parted(parted) => parted.discover(options, monitor),
            Self::List(list) => {
                let found = list.discover(&of_files(options), monitor)?;
                let place = |_: Option<&str>| match list.remote() {
                    Some(remote) => npz::Place::Objects(remote, None),
                    None => npz::Place::Folder(list.root().to_path_buf()),
                };
                npz::taken_apart(found, &place, monitor)
            }
        }
    }

    /// Opens a reader for `listing`, the listing of `split`. Unpacks compressed data into `work`.
    ///
    /// # Errors
    /// If the source cannot be opened, or has changed since it was listed.
    pub fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        let of_split = |root: &Path| split.map_or_else(|| root.to_path_buf(), |split| root.join(split));
        Ok(match self {
            Self::Folder(root) => Box::new(Patient(FolderReader::open(&of_split(root), listing)?)),
            Self::Prefix(prefix) => Box::new(prefix.open(split, listing)),
            Self::Dataset(roots) => Box::new(Patient(SealedReader::open(roots, split, listing, monitor)?)),
            Self::Several(several) => several.of(split)?.open(None, listing, work, monitor)?,
            Self::Shards(shards) => Box::new(Patient(shards.open(listing, work, monitor)?)),
            Self::Transformed(made) => Box::new(made.open(split, listing, work, monitor)?),
            Self::Parted(parted) => parted.origin().open(None, listing, work, monitor)?,
            Self::List(list) => match list.remote() {
                Some(remote) => Box::new(remote.open(None, listing)),
                None => Box::new(Patient(FolderReader::open(list.root(), listing)?)),
            },
        })
    }

    /// Disk space in bytes that [`Origin::open`] uses in the work folder for `listing`, the listing of `split`.
    ///
    /// # Errors
    /// If the listing is of another source.
    pub fn unpacked_bytes(&self, split: Option<&str>, listing: &Listing) -> Result<u64> {
        match self {
            Self::Several(several) => several.of(split)?.unpacked_bytes(None, listing),
            Self::Shards(shards) => shards.unpacked_bytes(listing),
            Self::Folder(_) | Self::Prefix(_) | Self::Dataset(_) | Self::List(_) => Ok(0),
            Self::Transformed(made) => made.unpacked_bytes(),
            Self::Parted(parted) => parted.origin().unpacked_bytes(None, listing),
        }
    }

    /// As [`Origin::open`], for [`SampleReader::peek`] only: unpacks nothing. `None` if samples cannot be read in place.
    ///
    /// # Errors
    /// As [`Origin::open`].
    pub fn peeker<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
    ) -> Result<Option<Box<dyn SampleReader + 'a>>> {
        match self {
            Self::Shards(_) if !self.is_plain() => Ok(None),
            // Each look would be a request, and its answer is already known.
            Self::Dataset(_) | Self::Shards(_) if self.is_remote() => Ok(None),
            Self::Transformed(made) if !made.origin().is_plain() => Ok(None),
            Self::Several(several) => several.of(split)?.peeker(None, listing),
            Self::Parted(parted) => parted.origin().peeker(None, listing),
            _ => self.open(split, listing, None, &Silent).map(Some),
        }
    }
}

impl Origin {
    /// Returns the numbers of up to `most` samples and their reader.
    ///
    /// The samples are evenly spread; if that would require unpacking everything, they are the first samples. `None` if each look would be
    /// a request.
    ///
    /// # Errors
    /// As [`Origin::open`].
    pub(crate) fn some<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        most: usize,
    ) -> Result<Option<(Vec<u64>, Box<dyn SampleReader + 'a>)>> {
        match self {
            Self::Shards(shards) if !shards.is_plain() && !shards.is_remote() => shards.first(listing, most).map(Some),
            Self::Several(several) => several.of(split)?.some(None, listing, most),
            Self::Parted(parted) => parted.origin().some(None, listing, most),
            _ => {
                let step = usize::try_from(listing.len()).unwrap_or(usize::MAX) / most.max(1);
                let numbers = (0..listing.len()).step_by(step.max(1)).collect();
                Ok(self.peeker(split, listing)?.map(|samples| (numbers, samples)))
            }
        }
    }
}

/// `options` with only those components next to samples that are files.
fn of_files(options: &Options) -> Options {
    let mut options = options.clone();
    options.with.retain(|kind| kind.kind().is_none());
    options
}

/// Split name and source, if `path` has the form `NAME=SRC` and no file has that name.
pub fn part_of(path: &Path) -> Option<(String, PathBuf)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').filter(|_| path.symlink_metadata().is_err())?;
    let source = std::ffi::OsString::from_vec(bytes[at + 1..].to_vec());
    Some((String::from_utf8_lossy(&bytes[..at]).into_owned(), source.into()))
}

//! Sources: what is there, and its bytes.
//!
//! A source lists its samples once ([`Found`]) and then hands out their bytes in any order, to many threads. The packing
//! engine knows nothing else of where images come from: [`Origin`] is the list of all kinds of source.

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
#[cfg(feature = "cloud")]
mod lists;
pub(crate) mod merge;
mod missing_components;
mod names;
pub(crate) mod npy;
mod npz;
mod open;
pub mod options;
mod patient;
pub(crate) mod payload;
#[cfg(feature = "cloud")]
mod prefix;
#[cfg(not(feature = "cloud"))]
#[path = "prefix_without_cloud.rs"]
mod prefix;
mod root;
pub(crate) mod sealed;
pub mod several;
pub mod shards;
pub mod storage;
pub mod transformed;
#[cfg(feature = "cloud")]
mod url;
mod walk;

use std::{
    collections::BTreeMap,
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, component::Component, formats::foreign::Wanted, image_header::Kind};
use shardpack_reader::{StoreSettings, Transfers};

use crate::{
    ledger::Unpacked,
    listing::Listing,
    monitor::{Monitor, Silent},
    source::options::{Extensions, Options, Splits},
    sys,
};

pub use fraction::{Fractions, Parted};
pub use given::{Given, is_dataset};
pub use list::List;
pub use open::FolderReader;
use patient::Patient;
pub use prefix::Prefix;
pub use root::Root;
pub use sealed::SealedReader;
pub use several::{Part, Several};
pub use shards::Shards;
pub use transformed::Transformed;

/// What fields of records that are left out are counted under begins so, and their name follows.
pub(crate) const COMPONENT: &str = "component ";

/// Whether `extension`, in lower case and without its dot, is one of an image.
pub fn is_image_extension(extension: &[u8]) -> bool {
    names::EXTENSIONS.iter().any(|known| known.as_bytes() == extension)
}

/// Why one sample cannot be had; the policy of `--on-bad` decides what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// What came of reading one sample.
#[derive(Debug)]
pub enum ReadError {
    /// This sample is bad; others may be fine.
    Refused(Refusal),
    /// The machine is not right: nothing goes on.
    Fatal(Error),
}

impl ReadError {
    /// What an error of the system says that came while `path` was read, which is of one sample or of many.
    ///
    /// It is never a verdict on a sample that the machine could not read at this moment.
    pub(crate) fn of_system(error: io::Error, path: &Path) -> Self {
        match sys::is_of_machine(&error) {
            true => Self::Fatal(Error::io("cannot read", error).in_file(path)),
            false => Self::Refused(Refusal(format!("cannot be read: {error}"))),
        }
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// Hands out the bytes of listed samples.
pub trait Source: Sync {
    /// Reads sample `number` of the listing over the whole of `payload`, which is as long as the listing says.
    ///
    /// # Errors
    /// [`ReadError::Refused`] when it cannot be read, or is no longer as long as listed.
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError>;

    /// Reads what sample `number` has beside its image, by its place among the cells of the listing, over the whole of
    /// `out`, which is as long as the listing says.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let _ = (number, which, out);
        Err(ReadError::Refused(Refusal("has nothing beside its image".to_owned())))
    }

    /// Whether `next`, which lies behind `before`, is best read together with it and with `first`, the first of those that are.
    fn are_near(&self, first: u64, before: u64, next: u64) -> bool {
        let _ = (first, before, next);
        false
    }

    /// A source that has the bytes of these samples at hand, which are near, in the order in which they lie; `None` where each is read by
    /// itself. What it has not, it reads as this one does.
    fn together(&self, numbers: &[u64]) -> Option<Box<dyn Source + '_>> {
        let _ = numbers;
        None
    }

    /// How many reads at a time help, as far as is known by now; 0 where nothing tells.
    fn reads_that_help(&self) -> usize {
        0
    }

    /// Says after the last read whether the files that were read are still those that were listed; a source that tells it of each
    /// sample as it is read has nothing to add.
    ///
    /// # Errors
    /// When one was changed meanwhile, by name, or cannot be looked at.
    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// Reads the first stored bytes of sample `number` into `first` and says how many; `None` where that would have to
    /// wait for the disk, and `look` does not allow it.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError>;
}

/// How a look at the first bytes of a sample gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Where the sample is in memory. Of a file, the last byte must be there too: others may have looked at the first.
    Memory,
    /// The same, after the system has been asked to read all of a file, so that what comes later finds it in memory.
    Ahead,
    /// From the disk, if need be.
    Start,
    /// The same; memory is left as it was, so that the next look finds what this one found.
    Once,
}

/// What was found of one dataset.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Name of the split; `None` for a source without splits.
    pub split: Option<String>,
    /// The samples; plans of several formats share them.
    pub listing: Arc<Listing>,
    /// Images that are no samples: unreadable, empty, too large, or filtered.
    pub unpacked: Vec<Unpacked>,
    /// Other files by the reason why they are no samples.
    pub ignored: BTreeMap<String, u64>,
    /// Fields of records that are components of the samples, and how many records have them.
    pub carried: BTreeMap<String, u64>,
    /// Kinds of the images that were looked into on the way, if any were.
    pub kinds: BTreeMap<Kind, u64>,
    /// What fields of records are, as far as it decides what single values of them become.
    pub extensions: Extensions,
    /// What a person should know.
    pub notes: Vec<String>,
    /// What was found, where this is what a recipe has made of it.
    pub before: Option<Arc<Found>>,
    /// The texts of samples hold class, label and path too.
    pub meta: bool,
    /// Classes have the numbers that the source gives them.
    pub is_numbered: bool,
    /// What samples are, where they are no images.
    pub payload: Option<Component>,
    /// Which files of a tree are samples, where those of images are not: [`shardpack_format::formats::Choice::files`].
    pub files: Vec<String>,
}

impl Found {
    /// The same with these of the components alone; the others are left out and counted.
    pub(crate) fn with_kinds(&self, kinds: &[Component]) -> Self {
        if self.listing.components().kinds == kinds {
            return self.clone();
        }
        let mut found = self.clone();
        found.listing = Arc::new(self.listing.with_kinds(kinds));
        let is_kept = |what: &str| {
            let of_field = what.strip_prefix(COMPONENT).and_then(|field| Component::field(field).ok());
            let is = |kind: &Component, field: &Component| [kind.name(), kind.column()].contains(&field.name());
            of_field.is_some_and(|of_field| kinds.iter().any(|kind| is(kind, &of_field)))
        };
        // A few of them may have been counted as what cannot be had.
        found.ignored.extend(found.carried.extract_if(.., |what, _| !is_kept(what)));
        found.before = self.before.as_ref().map(|before| Arc::new(before.with_kinds(kinds)));
        found
    }
}

/// What is packed.
#[derive(Clone, Debug)]
pub enum Origin {
    /// An ImageFolder tree in this folder.
    Folder(PathBuf),
    /// One below a URL.
    Prefix(Prefix),
    /// Datasets that were sealed, those of splits, or some of their shards.
    Dataset(Vec<Root>),
    /// Shards of any writer.
    Shards(Shards),
    /// What a recipe made of the images of another source.
    Transformed(Transformed),
    /// A list of images.
    List(List),
    /// Several sources, each of them a split.
    Several(Several),
    /// A source without splits that is parted into some.
    Parted(Parted),
}

impl Origin {
    /// What `path` is, as something that a dataset can be compared with; `columns` are those of a list, `wanted` is said of records,
    /// `settings` of the store that a URL is in: a tree of objects, or a dataset of ours.
    ///
    /// # Errors
    /// When there is nothing, or shards among it cannot be read.
    pub fn of(path: &Path, columns: &list::Columns, wanted: &Wanted, settings: &StoreSettings) -> Result<Self> {
        if sys::is_store(path) {
            let paths = [path.to_path_buf()];
            let mut given = Given::at_urls(&paths, settings)?;
            return match given.only_ours()? {
                Some(roots) => Ok(Self::Dataset(roots)),
                None if given::names_shards(path) => {
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

    /// What `paths` are together: one source, sources that are splits (`NAME=SRC`), or datasets of ours.
    ///
    /// # Errors
    /// As [`Origin::of`]; also when they are nothing together.
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

    /// Whether it is a list, or made of one.
    pub(crate) fn is_list(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Transformed(made) => made.origin().is_list(),
            Self::Parted(parted) => parted.origin().is_list(),
            _ => false,
        }
    }

    /// Whether all of it is lists.
    pub(crate) fn is_all_lists(&self) -> bool {
        match self {
            Self::Several(several) => several.parts().iter().all(|part| part.origin.is_list()),
            Self::Parted(parted) => parted.origin().is_all_lists(),
            one => one.is_list(),
        }
    }

    /// Whether nothing may be written to `folder`, of which `existing` is the part that is there: it is in the source, or over
    /// files of it.
    pub(crate) fn holds(&self, existing: &Path, is_whole: bool) -> bool {
        // Files of shards may lie in a folder above; of a list only the files that it names are read.
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

    /// Whether each of its samples is a file of a tree or a list.
    pub(crate) fn is_of_files(&self) -> bool {
        match self {
            Self::Folder(_) | Self::Prefix(_) | Self::List(_) => true,
            Self::Several(several) => several.parts().iter().all(|part| part.origin.is_of_files()),
            Self::Parted(parted) => parted.origin().is_of_files(),
            Self::Dataset(_) | Self::Shards(_) | Self::Transformed(_) => false,
        }
    }

    /// Whether all of it is shards of any writer.
    pub fn is_of_shards(&self) -> bool {
        match self {
            Self::Shards(_) => true,
            Self::Several(several) => several.parts().iter().all(|part| part.origin.is_of_shards()),
            Self::Parted(parted) => parted.origin().is_of_shards(),
            _ => false,
        }
    }

    /// Whether samples lie as they are, and nothing has to be unpacked first.
    fn is_plain(&self) -> bool {
        match self {
            Self::Shards(shards) => shards.is_plain(),
            Self::Parted(parted) => parted.origin().is_plain(),
            _ => true,
        }
    }

    /// Paths that nothing may be written into or over: folders of the source, or files.
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

    /// Whether it is read over a network by requests of this program, and not through files.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Prefix(_) => true,
            Self::Dataset(roots) => roots.iter().any(Root::is_remote),
            Self::Several(several) => several.parts().iter().any(|part| part.origin.is_remote()),
            Self::Parted(parted) => parted.origin().is_remote(),
            // What was changed lies in files.
            Self::Folder(_) | Self::Transformed(_) => false,
            Self::List(list) => list.remote().is_some(),
            Self::Shards(shards) => shards.is_remote(),
        }
    }

    /// What reading over a network has taken so far; `None` where all is files.
    pub fn transfers(&self) -> Option<Transfers> {
        match self {
            Self::Prefix(prefix) => Some(prefix.transfers()),
            Self::Dataset(roots) => roots.iter().filter_map(Root::transfers).reduce(Transfers::and),
            Self::Several(several) => {
                several.parts().iter().filter_map(|part| part.origin.transfers()).reduce(Transfers::and)
            }
            Self::Transformed(made) => made.origin().transfers(),
            Self::Parted(parted) => parted.origin().transfers(),
            Self::Shards(shards) => shards.transfers(),
            Self::List(list) => list.remote().map(Prefix::transfers),
            Self::Folder(_) => None,
        }
    }

    /// A path that tells what the source lies on, and that names it in messages.
    pub fn path(&self) -> &Path {
        self.roots().first().copied().unwrap_or(Path::new("."))
    }

    /// The same with paths that hold wherever the program is called from.
    ///
    /// # Errors
    /// When something of it is not there.
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

    /// Lists it: one [`Found`] for each split, or one for all.
    ///
    /// # Errors
    /// When it cannot be read, or is not what it has to be. What is wrong with single samples is in what is found.
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

    /// Serves the samples of `listing`, which is that of `split`. What has to be unpacked first is unpacked into `work`.
    ///
    /// # Errors
    /// When it cannot be opened, or is not what it was when it was listed.
    pub fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn Source + 'a>> {
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

    /// Room in bytes that [`Origin::open`] takes in the work folder for `listing`, which is that of `split`.
    ///
    /// # Errors
    /// When the listing is of something else.
    pub fn unpacked_bytes(&self, split: Option<&str>, listing: &Listing) -> Result<u64> {
        match self {
            Self::Several(several) => several.of(split)?.unpacked_bytes(None, listing),
            Self::Shards(shards) => shards.unpacked_bytes(listing),
            Self::Folder(_) | Self::Prefix(_) | Self::Dataset(_) | Self::List(_) => Ok(0),
            Self::Transformed(made) => made.unpacked_bytes(),
            Self::Parted(parted) => parted.origin().unpacked_bytes(None, listing),
        }
    }

    /// As [`Origin::open`], to [`Source::peek`] only: nothing is unpacked. `None` where samples do not lie as they are.
    ///
    /// # Errors
    /// As [`Origin::open`].
    pub fn peeker<'a>(&'a self, split: Option<&str>, listing: &'a Listing) -> Result<Option<Box<dyn Source + 'a>>> {
        match self {
            Self::Shards(_) if !self.is_plain() => Ok(None),
            // Each look would be a request, and what it tells is known.
            Self::Dataset(_) | Self::Shards(_) if self.is_remote() => Ok(None),
            Self::Transformed(made) if !made.origin().is_plain() => Ok(None),
            Self::Several(several) => several.of(split)?.peeker(None, listing),
            Self::Parted(parted) => parted.origin().peeker(None, listing),
            _ => self.open(split, listing, None, &Silent).map(Some),
        }
    }
}

impl Origin {
    /// Up to `most` samples, evenly spread or, where all would have to be unpacked for that, the first, by number; and who reads them.
    /// `None` where each look would be a request.
    ///
    /// # Errors
    /// As [`Origin::open`].
    pub(crate) fn some<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        most: usize,
    ) -> Result<Option<(Vec<u64>, Box<dyn Source + 'a>)>> {
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

/// `options` with those of the components beside samples that are files.
fn of_files(options: &Options) -> Options {
    let mut options = options.clone();
    options.with.retain(|kind| kind.kind().is_none());
    options
}

/// The name of a split and its source, where `path` is written `NAME=SRC` and there is no file of that name.
pub fn part_of(path: &Path) -> Option<(String, PathBuf)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').filter(|_| path.symlink_metadata().is_err())?;
    let source = std::ffi::OsString::from_vec(bytes[at + 1..].to_vec());
    Some((String::from_utf8_lossy(&bytes[..at]).into_owned(), source.into()))
}

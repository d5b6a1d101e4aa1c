//! Sources: what is there, and its bytes.
//!
//! A source lists its samples once ([`Found`]) and then hands out their bytes in any order, to many threads. The packing
//! engine knows nothing else of where images come from: [`Origin`] is the list of all kinds of source.

pub(crate) mod classes;
pub(crate) mod dataset;
pub mod image_folder;
pub mod list;
pub mod made;
pub mod medium;
mod open;
mod patient;
pub mod shards;
mod walk;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    image_header::Kind,
    manifest::{self, INDEX_FOLDER, SUMS_FILE},
};

use crate::{
    ledger::Unpacked,
    listing::Listing,
    monitor::{Monitor, Silent},
    source::image_folder::{Options, Splits},
    sys,
};

pub use dataset::SealedReader;
pub use list::List;
pub use made::Made;
pub use open::FolderReader;
use patient::Patient;
pub use shards::Shards;

/// Whether `extension`, in lower case and without its dot, is one of an image.
pub fn is_image_extension(extension: &[u8]) -> bool {
    walk::EXTENSIONS.iter().any(|known| known.as_bytes() == extension)
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

    /// Reads what sample `number` has beside its image, by its place among the pieces of the listing, over the whole of
    /// `out`, which is as long as the listing says.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn read_beside(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let _ = (number, which, out);
        Err(ReadError::Refused(Refusal("has nothing beside its image".to_owned())))
    }

    /// Reads the first stored bytes of sample `number` into `first` and says how many; `None` where that would have to
    /// wait for the disk, and `wait` does not allow it.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn peek(&self, number: u64, first: &mut [u8], wait: bool) -> Result<Option<usize>, ReadError>;
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
    /// Kinds of the images that were looked into on the way, if any were.
    pub kinds: BTreeMap<Kind, u64>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// What was found, where this is what a recipe has made of it.
    pub before: Option<Arc<Found>>,
    /// The texts of samples hold class, label and path too.
    pub meta: bool,
}

/// What is packed.
#[derive(Clone, Debug)]
pub enum Origin {
    /// An ImageFolder tree in this folder.
    Folder(PathBuf),
    /// A dataset that was sealed in this folder, or those of its splits.
    Dataset(PathBuf),
    /// Shards of any writer.
    Shards(Shards),
    /// What a recipe made of the images of another source.
    Made(Made),
    /// A list of images.
    List(List),
}

impl Origin {
    /// What `path` is, as something that a dataset can be compared with; `columns` are those of a list.
    ///
    /// # Errors
    /// When there is nothing, or shards among it cannot be read.
    pub fn of(path: &Path, columns: &list::Columns) -> Result<Self> {
        if is_dataset(path) {
            return Ok(Self::Dataset(path.to_path_buf()));
        }
        if path.is_dir() && !shards::holds(path)? {
            return Ok(Self::Folder(path.to_path_buf()));
        }
        if list::is_list(path) {
            return List::find(path, columns).map(Self::List);
        }
        Shards::find(&[path.to_path_buf()], None, Default::default(), &Splits::Auto).map(Self::Shards)
    }

    /// Paths that nothing may be written into or over: folders of the source, or files.
    pub fn roots(&self) -> Vec<&Path> {
        match self {
            Self::Folder(root) | Self::Dataset(root) => vec![root],
            Self::List(list) => vec![list.root()],
            Self::Shards(shards) => shards.folders(),
            Self::Made(made) => made.origin().roots(),
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
            Self::Dataset(root) => Self::Dataset(sys::resolved(root)?),
            Self::Shards(shards) => Self::Shards(shards.resolved()?),
            Self::Made(made) => Self::Made(made.of(made.origin().resolved()?)),
            Self::List(list) => Self::List(list.resolved()?),
        })
    }

    /// Lists it: one [`Found`] for each split, or one for all.
    ///
    /// # Errors
    /// When it cannot be read, or is not what it has to be. What is wrong with single samples is in what is found.
    pub fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
        match self {
            Self::Folder(root) => image_folder::discover(root, options, monitor),
            Self::Dataset(root) => dataset::discover(root, options, monitor),
            Self::Shards(shards) => shards.discover(options, monitor),
            Self::Made(made) => made.origin().discover(options, monitor),
            Self::List(list) => list.discover(options, monitor),
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
            Self::Dataset(root) => Box::new(Patient(SealedReader::open(&of_split(root), listing)?)),
            Self::Shards(shards) => Box::new(Patient(shards.open(listing, work, monitor)?)),
            Self::Made(made) => Box::new(made.open(split, listing, work, monitor)?),
            Self::List(list) => Box::new(Patient(FolderReader::open(list.root(), listing)?)),
        })
    }

    /// Room in bytes that [`Origin::open`] takes in the work folder for `listing`.
    ///
    /// # Errors
    /// When the listing is of something else.
    pub fn unpacked_bytes(&self, listing: &Listing) -> Result<u64> {
        match self {
            Self::Shards(shards) => shards.unpacked_bytes(listing),
            Self::Folder(_) | Self::Dataset(_) | Self::List(_) => Ok(0),
            Self::Made(made) => made.unpacked_bytes(),
        }
    }

    /// As [`Origin::open`], to [`Source::peek`] only: nothing is unpacked. `None` where samples do not lie as they are.
    ///
    /// # Errors
    /// As [`Origin::open`].
    pub fn peeker<'a>(&'a self, split: Option<&str>, listing: &'a Listing) -> Result<Option<Box<dyn Source + 'a>>> {
        match self {
            Self::Shards(shards) if !shards.is_plain() => Ok(None),
            Self::Made(made) if matches!(made.origin(), Self::Shards(shards) if !shards.is_plain()) => Ok(None),
            _ => self.open(split, listing, None, &Silent).map(Some),
        }
    }
}

/// Whether a dataset of ours is here, or several that are splits.
pub fn is_dataset(path: &Path) -> bool {
    let is_one = |path: &Path| path.join(manifest::FILE).exists();
    let is_split = |name: &&str| {
        let folder = path.join(name);
        is_one(&folder) && (folder.join(SUMS_FILE).exists() || folder.join(INDEX_FOLDER).exists())
    };
    is_one(path) || image_folder::SPLITS.iter().any(is_split)
}

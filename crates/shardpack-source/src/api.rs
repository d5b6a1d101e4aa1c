//! What every source implements and returns: the listing of a source, the reader of its samples, and their errors.

use std::{collections::BTreeMap, fmt::Debug, io, path::Path, sync::Arc};

use shardpack_format::{
    Error, ErrorKind, Result,
    component::Component,
    formats::{Choice, ComponentClasses, webdataset},
    image_header::Kind,
};
use shardpack_storage::{Access, Transfers};

use super::{
    options::{Extensions, Options},
    stored::Stored,
};
use crate::{
    ledger::Unpacked,
    listing::Listing,
    monitor::{Monitor, Silent},
    sys,
};

/// Prefix of the names under which fields of records are counted; the field name follows.
pub const COMPONENT: &str = "component ";

/// Reason why one sample cannot be read; `--on-bad` decides what happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// Failure to read one sample.
#[derive(Debug)]
pub enum ReadError {
    /// The sample is bad; other samples may be readable.
    Refused(Refusal),
    /// The machine failed: the run stops.
    Fatal(Error),
}

impl ReadError {
    /// Classifies a system error from reading `path` as an error of the sample or of the machine.
    ///
    /// A temporary read failure of the machine is never a verdict on a sample.
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

/// Reads the bytes of listed samples.
pub trait SampleReader: Sync {
    /// Reads sample `number` of the listing into `payload`, which has exactly the listed length.
    ///
    /// # Errors
    /// [`ReadError::Refused`] if the sample cannot be read or its length has changed.
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError>;

    /// Reads component `which` of sample `number` into `out`, which has exactly the listed length.
    ///
    /// `which` is the index among the sample's cells in the listing.
    ///
    /// # Errors
    /// As [`SampleReader::read`].
    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let _ = (number, which, out);
        Err(ReadError::Refused(Refusal("has no components".to_owned())))
    }

    /// Whether `next`, stored after `before`, should be read in one batch with `before` and with `first`, the first sample of the batch.
    fn can_coalesce(&self, first: u64, before: u64, next: u64) -> bool {
        let _ = (first, before, next);
        false
    }

    /// Prefetches these near samples, given in storage order, and returns a source that serves them; `None` if samples are read one by one.
    ///
    /// The returned source reads any other data as `self` does.
    fn read_batch(&self, numbers: &[u64]) -> Option<Box<dyn SampleReader + '_>> {
        let _ = numbers;
        None
    }

    /// Number of concurrent reads that currently improves throughput; 0 if unknown.
    fn concurrency(&self) -> usize {
        0
    }

    /// Checks after the last read that the files are still the listed ones. A source that checks each sample on read does nothing.
    ///
    /// # Errors
    /// If a file has changed (the error names the file), or cannot be checked.
    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// Reads the first stored bytes of sample `number` into `first` and returns their count.
    ///
    /// Returns `None` if the read would have to wait for the disk and `look` does not allow that.
    ///
    /// # Errors
    /// As [`SampleReader::read`].
    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError>;
}

/// Kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A tree of files or objects.
    Tree,
    /// A list of files or objects.
    List,
    /// Sealed datasets, the splits of one, or some of their shards.
    Dataset,
    /// Shards written by other tools.
    Shards,
    /// Several sources, each a split.
    Several,
    /// A source without splits, divided into splits.
    Parted,
    /// Images of another source, changed by a recipe.
    Transformed,
}

/// A source that several plans share.
pub type SharedSource = Arc<dyn Source>;

/// `&self` as a trait object, for default methods of [`Source`].
pub trait AsSource {
    /// Returns `self`.
    fn as_source(&self) -> &dyn Source;
}

impl<S: Source> AsSource for S {
    fn as_source(&self) -> &dyn Source {
        self
    }
}

/// A source to pack: lists its samples, and opens their reader.
///
/// A leaf has samples of its own; a wrapper combines or changes other sources.
pub trait Source: AsSource + Debug + Send + Sync {
    /// The kind of this source, which a wrapper does not pass on.
    fn kind(&self) -> SourceKind;

    /// The sources that have the samples: of a leaf, itself.
    fn leaves(&self) -> Vec<&dyn Source> {
        vec![self.as_source()]
    }

    /// The leaf of the images of `split`; of a leaf, itself.
    ///
    /// # Errors
    /// If there is no such split.
    fn leaf_of(&self, split: Option<&str>) -> Result<&dyn Source> {
        let _ = split;
        Ok(self.as_source())
    }

    /// Folders or files of the source that must not be written into or replaced.
    fn roots(&self) -> Vec<&Path>;

    /// Folders outside the leaves that have files of components. They must not be written into either.
    fn extra_folders(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// Network transfers so far; `None` if this program reads all parts through the file system.
    fn transfers(&self) -> Option<Transfers>;

    /// Costs and risks of reading its samples.
    fn access(&self) -> Access;

    /// Path or URL of the files that are read most; determines the read order.
    fn read_at(&self) -> &Path {
        self.as_source().path()
    }

    /// Whether the stamps of its listings are times of the last change, in nanoseconds since 1970, and no versions.
    fn has_times(&self) -> bool {
        false
    }

    /// The source as a plan file stores it. Settings of stores are left out: they may be secrets.
    fn stored(&self) -> Stored;

    /// The same source with absolute paths.
    ///
    /// # Errors
    /// If a part of the source is missing.
    fn resolved(&self) -> Result<SharedSource>;

    /// Whether the source is a dataset with splits.
    ///
    /// # Errors
    /// If a dataset cannot be read.
    fn has_dataset_splits(&self) -> Result<bool> {
        Ok(false)
    }

    /// Lists the source: one [`SourceListing`] per split, or one for all.
    ///
    /// # Errors
    /// If the source cannot be read or is invalid. Problems of single samples are in the result.
    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>>;

    /// Opens a reader for `listing`, the listing of `split`. Unpacks compressed data into `work`.
    ///
    /// # Errors
    /// If the source cannot be opened, or has changed since it was listed.
    fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>>;

    /// Disk space in bytes that [`Source::open`] uses in the work folder for `listing`, the listing of `split`.
    ///
    /// # Errors
    /// If the listing is of another source.
    fn unpacked_bytes(&self, split: Option<&str>, listing: &Listing) -> Result<u64> {
        let _ = (split, listing);
        Ok(0)
    }

    /// Whether samples can be read in place, without unpacking.
    fn is_plain(&self) -> bool {
        true
    }

    /// Whether [`SampleReader::peek`] may be called for samples of `split`: it needs no unpacking, and tells what is not known yet.
    ///
    /// # Errors
    /// If there is no such split.
    fn can_peek(&self, split: Option<&str>) -> Result<bool> {
        let _ = split;
        Ok(self.is_plain())
    }

    /// Numbers of up to `most` samples that lie first, and their reader, if others would require unpacking everything.
    ///
    /// # Errors
    /// As [`Source::open`].
    fn first<'a>(&'a self, split: Option<&str>, listing: &'a Listing, most: usize) -> Result<Option<SomeSamples<'a>>> {
        let _ = (split, listing, most);
        Ok(None)
    }

    /// The source with only these samples of each split, in ascending order; `None` if a listing can leave out samples by itself, which
    /// then does not ask for the numbers.
    fn subset(&self, numbers: &dyn Fn() -> Vec<Vec<u64>>) -> Option<SharedSource> {
        let _ = numbers;
        None
    }

    /// The file of the list, if the source is one.
    fn list_file(&self) -> Option<&Path> {
        None
    }

    /// Whether it is a list of images with the annotations of COCO.
    fn has_annotations(&self) -> bool {
        false
    }

    /// The whole list, if it is one with the annotations of COCO.
    ///
    /// # Errors
    /// If the list cannot be read.
    fn annotations(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// The same with each list replaced by what `read` makes of its file, if that is a table with a column for `component`; `None` if
    /// there is no such list.
    ///
    /// # Errors
    /// If `read` fails.
    fn with_tables(&self, component: &str, read: &ReadTable<'_>) -> Result<Option<SharedSource>> {
        let _ = (component, read);
        Ok(None)
    }
}

/// Makes a source from a table.
pub type ReadTable<'a> = dyn Fn(&Path) -> Result<SharedSource> + 'a;

/// Numbers of samples, and their reader.
pub type SomeSamples<'a> = (Vec<u64>, Box<dyn SampleReader + 'a>);

impl dyn Source + '_ {
    /// A path that identifies the source in messages.
    pub fn path(&self) -> &Path {
        self.roots().first().copied().unwrap_or(Path::new("."))
    }

    /// Whether all leaves are of one of these kinds, and their samples are not changed.
    pub fn is_all(&self, kinds: &[SourceKind]) -> bool {
        self.kind() != SourceKind::Transformed && self.leaves().iter().all(|leaf| kinds.contains(&leaf.kind()))
    }

    /// As [`Source::open`], for [`SampleReader::peek`] only: unpacks nothing. `None` if samples cannot be looked at.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn peeker<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
    ) -> Result<Option<Box<dyn SampleReader + 'a>>> {
        match self.can_peek(split)? {
            true => self.open(split, listing, None, &Silent).map(Some),
            false => Ok(None),
        }
    }

    /// Numbers of up to `most` samples, and their reader: evenly spread if possible, otherwise the first samples. `None` if samples
    /// cannot be looked at.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn some<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        most: usize,
    ) -> Result<Option<SomeSamples<'a>>> {
        if let Some(first) = self.first(split, listing, most)? {
            return Ok(Some(first));
        }
        let step = usize::try_from(listing.len()).unwrap_or(usize::MAX) / most.max(1);
        let numbers = (0..listing.len()).step_by(step.max(1)).collect();
        Ok(self.peeker(split, listing)?.map(|samples| (numbers, samples)))
    }

    /// Whether each sample is a file of a tree or of a list.
    pub fn is_of_files(&self) -> bool {
        self.is_all(&FILES)
    }

    /// Whether each sample of `split` is a file of a tree or of a list.
    pub fn is_of_files_in(&self, split: Option<&str>) -> Result<bool> {
        Ok(self.kind() != SourceKind::Transformed && FILES.contains(&self.leaf_of(split)?.kind()))
    }

    /// Whether every part of the source is shards written by other tools.
    pub fn is_of_shards(&self) -> bool {
        self.is_all(&[SourceKind::Shards])
    }

    /// Whether writing to a folder is forbidden, because the folder is inside the source or would replace files of the source.
    ///
    /// `existing` is the longest existing part of the folder's path or URL; `is_whole` is true if that part is the whole path.
    pub fn holds(&self, existing: &Path, is_whole: bool) -> bool {
        let is_inside = |folder: &Path| {
            shardpack_storage::existing(folder).is_some_and(|(root, is_there)| is_there && existing.starts_with(&root))
        };
        let is_extra = self.extra_folders().into_iter().any(is_inside);
        is_extra
            || self.leaves().iter().any(|leaf| {
                let roots = leaf.roots().into_iter().filter_map(shardpack_storage::existing);
                roots.filter(|(_, is_there)| *is_there).any(|(root, _)| match leaf.kind() {
                    // Files of shards may lie in a parent folder; of a list, only the listed files are read.
                    SourceKind::Shards | SourceKind::List => is_whole && existing == root,
                    _ => existing.starts_with(&root),
                })
            })
    }
}

/// Kinds whose samples are files or objects.
const FILES: [SourceKind; 2] = [SourceKind::Tree, SourceKind::List];

/// How the first bytes of a sample are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Only from memory. The last byte of a file must be in memory too: another process may have read only the start.
    Memory,
    /// As `Memory`, after asking the system to read the whole file ahead, so that later reads find it in memory.
    Ahead,
    /// From the disk if necessary.
    Start,
    /// As `Start`, but leaves the page cache unchanged, so that the next look gives the same result.
    Once,
}

/// The listing of one dataset.
#[derive(Clone, Debug, Default)]
pub struct SourceListing {
    /// Name of the split; `None` for a source without splits.
    pub split: Option<String>,
    /// The samples; plans for several formats share the listing.
    pub listing: Arc<Listing>,
    /// Images that are not samples: unreadable, empty, too large, or filtered.
    pub unpacked: Vec<Unpacked>,
    /// Other files, counted by the reason why they are not samples.
    pub ignored: BTreeMap<String, u64>,
    /// Fields of records that become components, and the number of records with each.
    pub carried: BTreeMap<String, u64>,
    /// Kinds of the images inspected during the walk, if any.
    pub kinds: BTreeMap<Kind, u64>,
    /// Extensions of field values, which decide how single values are stored.
    pub extensions: Extensions,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The help if no sample can be packed.
    pub help: Option<String>,
    /// The original listing, if a recipe produced this one.
    pub before: Option<Arc<SourceListing>>,
    /// The text of a sample also holds class, label and path.
    pub meta: bool,
    /// The source assigns the class numbers.
    pub is_numbered: bool,
    /// Type of the samples, if they are not images.
    pub payload: Option<Component>,
    /// Patterns of the files of a tree that are samples, if samples are not the images: [`shardpack_format::formats::Choice::files`].
    pub files: Vec<String>,
    /// Class names of the objects in components, if the source has them.
    pub component_classes: ComponentClasses,
    /// Facts about files that decided how a list was read, as JSON.
    pub list_clues: Option<String>,
    /// How the source was listed, if this listing is of a dataset.
    pub origin: Origin,
    /// The source was divided into splits: paths are relative to the source, and not to the folder of the split.
    pub is_divided: bool,
}

/// How the source of a dataset was listed, and its license. A dataset that is made of it has the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// As [`Choice::label_pattern`].
    pub label_pattern: Option<String>,
    /// As [`Choice::fractions`], [`Choice::split_folders`], and the name of the split.
    pub division: Option<(Option<String>, Option<String>, String)>,
    /// The license of the dataset.
    pub license: Option<String>,
}

impl Origin {
    /// Of a dataset with this choice, which is called `name`.
    pub fn new(choice: &Choice, name: &str) -> Self {
        let Choice { label_pattern, fractions, split_folders, .. } = choice.clone();
        let is_divided = fractions.is_some() || split_folders.is_some();
        let division = is_divided.then(|| (fractions, split_folders, name.to_owned()));
        Self { label_pattern, division, license: choice.settings.get(webdataset::LICENSE).cloned() }
    }

    /// The settings that both have.
    #[must_use]
    pub fn common(self, other: &Self) -> Self {
        Self {
            label_pattern: self.label_pattern.filter(|own| other.label_pattern.as_ref() == Some(own)),
            division: self.division.filter(|own| other.division.as_ref() == Some(own)),
            license: self.license.filter(|own| other.license.as_ref() == Some(own)),
        }
    }
}

impl SourceListing {
    /// Prefix of its paths in the whole source: empty, or `train/`.
    pub fn prefix(&self) -> String {
        let folder = self.split.as_ref().filter(|_| !self.is_divided);
        folder.map_or_else(String::new, |split| format!("{split}/"))
    }

    /// As [`SourceListing::prefix`], for the files of `kind`: empty if they are outside the source.
    pub fn prefix_of(&self, kind: &Component) -> String {
        if kind.extra_root().is_some() { String::new() } else { self.prefix() }
    }

    /// The same listing with only these components; the others are counted as left out.
    pub fn with_kinds(&self, kinds: &[Component]) -> Self {
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
        // A few of them may already be counted as unreadable.
        found.ignored.extend(found.carried.extract_if(.., |what, _| !is_kept(what)));
        found.before = self.before.as_ref().map(|before| Arc::new(before.with_kinds(kinds)));
        found
    }
}

/// Maps an error to a sample or to the machine: damage and denied access concern one sample; a temporary read failure is fatal.
pub(super) fn refused(error: Error) -> ReadError {
    match (error.kind(), error.io_error()) {
        (ErrorKind::Data, _) => ReadError::Refused(Refusal(error.to_string())),
        (_, Some(io)) if !sys::is_of_machine(io) => ReadError::Refused(Refusal(error.to_string())),
        _ => ReadError::Fatal(error),
    }
}

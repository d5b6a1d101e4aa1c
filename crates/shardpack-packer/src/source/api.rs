//! What every source implements and returns: the listing of a source, the reader of its samples, and their errors.

use std::{collections::BTreeMap, io, path::Path, sync::Arc};

use shardpack_format::{Error, ErrorKind, Result, component::Component, image_header::Kind};

use crate::{ledger::Unpacked, listing::Listing, source::options::Extensions, sys};

/// Prefix of the names under which fields of records are counted; the field name follows.
pub(crate) const COMPONENT: &str = "component ";

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
    fn are_near(&self, first: u64, before: u64, next: u64) -> bool {
        let _ = (first, before, next);
        false
    }

    /// Prefetches these near samples, given in storage order, and returns a source that serves them; `None` if samples are read one by one.
    ///
    /// The returned source reads any other data as `self` does.
    fn together(&self, numbers: &[u64]) -> Option<Box<dyn SampleReader + '_>> {
        let _ = numbers;
        None
    }

    /// Number of concurrent reads that currently improves throughput; 0 if unknown.
    fn reads_that_help(&self) -> usize {
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
pub struct Found {
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
    /// The original listing, if a recipe produced this one.
    pub before: Option<Arc<Found>>,
    /// The text of a sample also holds class, label and path.
    pub meta: bool,
    /// The source assigns the class numbers.
    pub is_numbered: bool,
    /// Type of the samples, if they are not images.
    pub payload: Option<Component>,
    /// Patterns of the files of a tree that are samples, if samples are not the images: [`shardpack_format::formats::Choice::files`].
    pub files: Vec<String>,
}

impl Found {
    /// The same listing with only these components; the others are counted as left out.
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

//! Reads records in files that other tools wrote. Detects the format by content, decompresses the file and walks its records.
//!
//! Knows every format of [`formats::foreign`], and Hugging Face parquet and Arrow, LMDB, HDF5 and FFCV. `convert`, `verify` and `inspect` all
//! read foreign shards through this crate. No file name is trusted: an extension only selects the compression if the bytes
//! cannot.

#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![cfg_attr(
    not(all(feature = "hdf5", feature = "parquet")),
    allow(dead_code, unused_imports, reason = "helpers of the readers that are left out")
)]

mod array_record;
mod beton;
mod catch_panic;
mod entry;
mod feather1;
pub mod files;
mod flat;
#[cfg_attr(not(feature = "hdf5"), path = "without/hdf5.rs")]
pub mod hdf5;
pub mod header_check;
mod images_below;
pub mod key_class;
mod key_labels;
mod kind;
mod litdata;
pub mod lmdb;
mod location;
mod mds_index;
mod missing_image;
pub mod npz;
mod numbered;
pub mod numpy;
pub mod offset_index;
#[cfg_attr(not(feature = "parquet"), path = "without/parquet.rs")]
pub mod parquet;
pub mod patterns;
pub mod plain;
mod readers;
mod recognise;
mod record_check;
mod remote;
mod rows;
mod saved_dataset;
pub mod tables;
mod unpack;
pub mod zip;

use std::{
    borrow::Cow,
    io::{self, Read},
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, Result,
    formats::{
        self,
        foreign::{Entries, FieldSelection, Input, Skip, Walk, fill, unreadable},
        mds, tfrecord,
        webdataset::reader::Reader,
    },
    help,
};

use entry::Entry;
use key_class::KeyClass;
pub use kind::Kind;
use kind::READ;
use location::BUFFER_BYTES;
pub use location::{Bytes, Facts, FileLocation};
use missing_image::MissingImage;
pub use readers::{Readers, many};
use record_check::Checked;
pub use record_check::LABEL_BESIDE_IMAGE;
pub use remote::Remote;
pub use unpack::Packed;

/// Number of leading bytes used to detect the format of a file.
const LOOK_BYTES: usize = 4096;

/// Enough for the header of a member and the first bytes of its data.
const SKIM_BYTES: usize = 4 << 10;

/// Walks the members of an archive.
pub type Archive = Reader<Box<dyn Skip>>;

/// Callback of long operations: returns an error if the caller cancels.
pub type CancelCheck<'a> = &'a dyn Fn() -> Result<()>;

/// A file of a known format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardFile {
    /// Path or URL of the file.
    pub path: PathBuf,
    /// The remote file, if it has a URL.
    pub remote: Option<Remote>,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the last change in nanoseconds since 1970; for a URL, a number that identifies the version.
    pub mtime_ns: i64,
    /// Inode of the file; `None` if the file comes from a plan, which may run on another copy.
    pub inode: Option<u64>,
    /// Its format.
    pub kind: Kind,
    /// Compression of the file, if any.
    pub packed: Option<Packed>,
    /// Entry for the file in an index beside it, if any.
    pub expected: Option<mds::Shard>,
    /// The selected split of a file that holds several; `None` selects the whole file.
    pub part: Option<String>,
    /// Files that hold other fields of the same records.
    pub beside: Vec<Beside>,
}

/// A file that belongs to a [`ShardFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Path or URL of the file.
    pub path: PathBuf,
    /// The remote file, if it has a URL.
    pub remote: Option<Remote>,
    /// Length in bytes.
    pub bytes: u64,
    /// As [`ShardFile::mtime_ns`].
    pub mtime_ns: i64,
}

impl Beside {
    fn new(place: &FileLocation) -> Result<Self> {
        let Facts { bytes, mtime_ns, .. } = place.facts()?;
        Ok(Self { path: place.path().to_path_buf(), remote: place.remote().cloned(), bytes, mtime_ns })
    }

    /// Location of the file.
    fn location(&self) -> FileLocation {
        FileLocation::new(&self.path, self.remote.as_ref())
    }
}

impl ShardFile {
    /// Opens a file and detects its format; `None` if the format is unknown.
    ///
    /// # Errors
    /// If the file cannot be read or is no regular file.
    pub fn recognise(place: &FileLocation) -> Result<Option<Self>> {
        let look = || {
            let facts = place.facts()?;
            for packed in compression_candidates(place)? {
                if let Some(kind) = detect_kind(place, facts.bytes, packed)? {
                    return Ok(Some(Self::new(place, facts, kind, packed)));
                }
            }
            Ok(None)
        };
        place.prefer_network_error(look())
    }

    /// Opens the file as `kind`, which the user chose.
    ///
    /// # Errors
    /// If the file cannot be read or is no regular file.
    pub fn of_kind(place: &FileLocation, kind: Kind) -> Result<Self> {
        let look = || {
            let facts = place.facts()?;
            let ways = compression_candidates(place)?;
            let mut packed = ways.first().copied().flatten();
            for way in ways {
                if detect_kind(place, facts.bytes, way)? == Some(kind) {
                    packed = way;
                    break;
                }
            }
            Ok(Self::new(place, facts, kind, packed))
        };
        place.prefer_network_error(look())
    }

    fn new(place: &FileLocation, facts: Facts, kind: Kind, packed: Option<Packed>) -> Self {
        let Facts { bytes, mtime_ns, inode, .. } = facts;
        let (path, remote) = (place.path().to_path_buf(), place.remote().cloned());
        let (expected, part, beside) = (None, None, Vec::new());
        Self { path, remote, bytes, mtime_ns, inode: Some(inode), kind, packed, expected, part, beside }
    }

    /// Location of the file.
    fn location(&self) -> FileLocation {
        FileLocation::new(&self.path, self.remote.as_ref())
    }

    /// The file that gives the selected split its name: of several files the samples of this split.
    pub fn file_of_part(&self) -> &Path {
        let stem = |path: &Path| numpy::array_name(path);
        let is_own = |path: &&PathBuf| !self.beside.is_empty() && tables::names::split(&stem(path)) == self.part;
        let all = std::iter::once(&self.path).chain(self.beside.iter().map(|one| &one.path));
        all.filter(is_own).min_by_key(|path| !numpy::are_samples(&stem(path))).unwrap_or(&self.path)
    }

    /// The network error that made the file, or a file beside it, unreadable, if any. A parser may have reported the failure under
    /// another name.
    pub fn failure(&self) -> Option<Error> {
        let remotes = self.beside.iter().map(|one| &one.remote);
        std::iter::once(&self.remote).chain(remotes).flatten().find_map(Remote::failure)
    }

    /// The result of a read, or the network error if there is one: parsers do not know about networks.
    fn prefer_network_error<T>(&self, came: Result<T>) -> Result<T> {
        self.failure().map_or(came, Err)
    }

    /// Length in bytes of the file and of the files beside it.
    pub fn total_bytes(&self) -> u64 {
        self.beside.iter().fold(self.bytes, |bytes, one| bytes.saturating_add(one.bytes))
    }

    /// The current identity of the file. At a URL, each response carries the version.
    ///
    /// # Errors
    /// If the metadata of the file cannot be read, or a file beside it differs from the listed file.
    pub fn facts(&self) -> Result<Facts> {
        for one in &self.beside {
            let now = one.location().facts()?;
            if (now.bytes, now.mtime_ns) != (one.bytes, one.mtime_ns) {
                return Err(changed(&one.path));
            }
        }
        let place = self.location();
        let facts = place.facts()?;
        let transaction = match (self.kind, &place) {
            (Kind::Read(entry), FileLocation::Local(_)) => (entry.transaction)(&place, facts.bytes),
            _ => 0,
        };
        Ok(Facts { transaction, ..facts })
    }

    /// Whether `now` has the facts of the listed file.
    pub fn is_as_listed(&self, now: &Facts) -> bool {
        (self.bytes, self.mtime_ns) == (now.bytes, now.mtime_ns) && self.inode.is_none_or(|inode| inode == now.inode)
    }

    /// The error for a file that differs from the listed file.
    pub fn changed(&self) -> Error {
        changed(&self.path)
    }

    /// Whether images can be read in place: neither the file nor any part is compressed.
    pub fn is_plain(&self) -> bool {
        self.packed.is_none() && self.has_places()
    }

    /// Whether record offsets are positions in the file or in its decompressed content. Otherwise they count in the
    /// concatenated images, mean nothing to users, and rows are identified by key.
    pub fn has_places(&self) -> bool {
        !matches!(self.kind, Kind::Read(entry) if !entry.has_places)
    }

    /// Location for a message: the file, called `name`, and the byte offset if it is meaningful.
    pub fn place(&self, name: &str, offset: u64) -> String {
        match (self.has_places(), self.packed) {
            (false, _) => name.to_owned(),
            (true, None) => format!("{name}, byte {offset}"),
            (true, Some(_)) => format!("{name}, byte {offset} unpacked"),
        }
    }

    /// The decompressed bytes from the start.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn input(&self) -> Result<Input> {
        input(&self.location(), self.bytes, self.packed, BUFFER_BYTES)
    }

    /// The members of an archive; `None` for a file that has only records. A record of an archive is a group of members, and cannot
    /// represent all of them. Little is read in advance if the client `skims`: it skips most data, or reads the data elsewhere.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn members(&self, skims: bool) -> Result<Option<Archive>> {
        if !self.kind.is_tar() {
            return Ok(None);
        }
        let buffer_bytes = if skims && self.is_plain() { SKIM_BYTES } else { BUFFER_BYTES };
        let Input { bytes, total_bytes } = input(&self.location(), self.bytes, self.packed, buffer_bytes)?;
        Ok(Some(Reader::new(bytes, total_bytes)))
    }

    /// Starts a walk. Fields whose content begins like no image are skipped, unless the image field is named. If columns are
    /// read in advance, `check_cancelled` is called regularly.
    ///
    /// # Errors
    /// As [`formats::foreign::Foreign::walk`], and if `check_cancelled` cancels.
    pub fn walk(&self, wanted: &FieldSelection, check_cancelled: CancelCheck<'_>) -> Result<Box<dyn Walk>> {
        self.prefer_network_error(self.checked(wanted, None, check_cancelled))
    }

    /// As [`ShardFile::walk`], but a `.npz` file in a sample of an uncompressed tar is split into its arrays, unless it is
    /// wanted whole.
    ///
    /// # Errors
    /// As [`ShardFile::walk`].
    pub fn walk_arrays(&self, wanted: &FieldSelection, check_cancelled: CancelCheck<'_>) -> Result<Box<dyn Walk>> {
        let is_meant = self.kind.has_member_names() && self.is_plain();
        let npz = if is_meant { Some(npz::TakenApart::new(self.location().open()?, wanted)) } else { None };
        self.prefer_network_error(self.checked(wanted, npz, check_cancelled))
    }

    fn checked(
        &self,
        wanted: &FieldSelection,
        npz: Option<npz::TakenApart>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Box<dyn Walk>> {
        let walk = self.walk_all(wanted, check_cancelled)?;
        let keys = match self.kind.has_member_names() {
            true => KeyClass::parse(&wanted.entries).map_err(|error| error.in_file(&self.path))?,
            false => None,
        };
        let remotes = self.beside.iter().map(|one| &one.remote);
        let remotes = std::iter::once(&self.remote).chain(remotes).flatten().cloned().collect();
        Ok(Box::new(Checked::new(walk, wanted, keys, npz, remotes)))
    }

    /// As [`ShardFile::walk`], with every field whose position allows an image.
    fn walk_all(&self, wanted: &FieldSelection, check_cancelled: CancelCheck<'_>) -> Result<Box<dyn Walk>> {
        let walk = match self.kind {
            Kind::Format(entry) if self.packed == Some(Packed::ArrayRecord) => {
                let stream = self.location().stream(BUFFER_BYTES)?;
                array_record::walk(stream, entry.foreign, wanted)
            }
            Kind::Format(entry) => self.input().and_then(|input| entry.foreign.walk(input, wanted)),
            Kind::Read(entry) => (entry.walk)(self, wanted, check_cancelled),
        };
        walk.map_err(|error| error.in_file(&self.path))
    }

    /// Builds the image from the bytes fetched for a record, following [`formats::foreign::Image::recipe`].
    ///
    /// # Errors
    /// As [`formats::foreign::Foreign::image`].
    pub fn image<'r>(&self, fetched: &'r [u8], recipe: u32, wanted: &FieldSelection) -> Result<Cow<'r, [u8]>> {
        match self.kind {
            kind if kind.has_member_names() && recipe != 0 => npz::component(fetched).map(Cow::Owned),
            Kind::Format(entry) => entry.foreign.image(fetched, recipe, wanted),
            Kind::Read(entry) => (entry.image)(fetched, recipe),
        }
    }

    /// Number of bytes to fetch for a component of `bytes` bytes by [`formats::foreign::Other::recipe`]; `of_image` is the
    /// number of bytes fetched for the image.
    pub fn component_bytes(&self, recipe: u32, bytes: usize, of_image: usize) -> usize {
        match self.kind {
            _ if recipe == 0 => bytes,
            kind if kind.has_member_names() => npz::fetched_bytes(recipe),
            Kind::Format(entry) => entry.foreign.component_bytes(recipe).unwrap_or(of_image),
            Kind::Read(entry) if entry.has_places => (entry.component_bytes)(recipe).unwrap_or(of_image),
            Kind::Read(_) => bytes,
        }
    }

    /// Builds the component from the fetched bytes.
    ///
    /// # Errors
    /// As [`formats::foreign::Foreign::component`].
    pub fn component(&self, fetched: &[u8], recipe: u32) -> Result<Vec<u8>> {
        match self.kind {
            kind if kind.has_member_names() => npz::component(fetched),
            Kind::Format(entry) => entry.foreign.component(fetched, recipe),
            Kind::Read(entry) => (entry.component)(fetched, recipe),
        }
    }

    /// The decompressed content as a stream; record offsets are positions in this stream.
    ///
    /// # Errors
    /// If the file cannot be opened, and if `check_cancelled` cancels.
    pub fn unpacked(&self, wanted: &FieldSelection, check_cancelled: CancelCheck<'_>) -> Result<Box<dyn Read>> {
        Ok(match self.has_places() {
            true => Box::new(self.input()?.bytes),
            false => Box::new(Contents { walk: self.walk_all(wanted, check_cancelled)?, content: Vec::new(), read: 0 }),
        })
    }

    /// Class names in the order of labels, if the file has them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn classes(&self, wanted: &FieldSelection) -> Result<Vec<Vec<u8>>> {
        self.query_entry(|entry| (entry.classes)(self, wanted))
    }

    /// Names of the splits in the file; empty if the file has no splits.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn splits(&self, wanted: &FieldSelection) -> Result<Vec<String>> {
        self.query_entry(|entry| (entry.splits)(self, wanted))
    }

    /// The arrays of an HDF5 or numpy file, and whether they may be one sample.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn outline(&self, wanted: &FieldSelection) -> Result<Option<tables::known::Outline>> {
        self.query_entry(|entry| (entry.outline)(self, wanted))
    }

    /// The choices for records of a file that is looked at by itself: for one that can be nothing but a sample, that it is one.
    pub fn own_selection(&self) -> FieldSelection {
        let is_sample =
            matches!(self.outline(&FieldSelection::default()), Ok(Some(outline)) if outline.is_surely_sample);
        let dialect = is_sample.then(|| hdf5::FILE.to_owned());
        FieldSelection { entries: Entries { dialect, ..Entries::default() }, ..FieldSelection::default() }
    }

    /// Warnings about the datasets of the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn split_warnings(&self, wanted: &FieldSelection) -> Result<tables::known::OddSplits> {
        self.query_entry(|entry| (entry.odd_splits)(self, wanted))
    }

    /// A fact that only kinds which are not written have.
    fn query_entry<T: Default>(&self, look: impl Fn(&Entry) -> Result<T>) -> Result<T> {
        let found = match self.kind {
            Kind::Format(_) => Ok(T::default()),
            Kind::Read(entry) => look(entry),
        };
        self.prefer_network_error(found.map_err(|error| error.in_file(&self.path)))
    }
}

fn changed(path: &Path) -> Error {
    let error = Error::data("was changed since it was listed; no sample is taken of two versions");
    error.in_file(path).help(help::STILL_WRITTEN)
}

/// The concatenated records of a walk.
struct Contents {
    walk: Box<dyn Walk>,
    content: Vec<u8>,
    /// Number of bytes of `content` already read.
    read: usize,
}

impl Read for Contents {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.read == self.content.len() {
            match self.walk.next().map_err(io::Error::other)? {
                None => return Ok(0),
                Some(record) if record.has_content() => {
                    self.walk.content(&mut self.content).map_err(io::Error::other)?
                }
                Some(_) => self.content.clear(),
            }
            self.read = 0;
        }
        let bytes = out.len().min(self.content.len() - self.read);
        out[..bytes].copy_from_slice(&self.content[self.read..self.read + bytes]);
        self.read += bytes;
        Ok(bytes)
    }
}

/// Possible compressions of a file, the likeliest first.
fn compression_candidates(place: &FileLocation) -> Result<Vec<Option<Packed>>> {
    Ok(match Packed::detect(place)? {
        Some(Packed::Zlib) => vec![None, Some(Packed::Zlib)],
        packed => vec![packed],
    })
}

/// Detects the format from the first decompressed bytes.
fn detect_kind(place: &FileLocation, bytes: u64, packed: Option<Packed>) -> Result<Option<Kind>> {
    let path = place.path();
    let mut first = vec![0; LOOK_BYTES];
    let filled = match packed {
        None => place.first(&mut first).map(|filled| (filled, Some(bytes))),
        Some(_) => input(place, bytes, packed, BUFFER_BYTES).and_then(|Input { bytes: mut inner, total_bytes }| {
            let filled = fill(&mut inner, &mut first).map_err(|error| unreadable(error, 0).in_file(path))?;
            Ok((filled, total_bytes))
        }),
    };
    let (filled, total_bytes) = match filled {
        Ok(filled) => filled,
        // A file that cannot be decompressed from its first byte has no known format. Only ArrayRecord has a signature that is proof.
        Err(error)
            if packed.is_some_and(|packed| packed != Packed::ArrayRecord)
                && error.io_error().is_none_or(|error| error.raw_os_error().is_none()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    first.truncate(filled);
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if packed.is_none() && feather1::is(&first) {
        return Err(feather1::refused());
    }
    if packed == Some(Packed::ArrayRecord) && first.is_empty() {
        // A file without records.
        return formats::entry(tfrecord::NAME).map(Kind::Format).map(Some);
    }
    let read = READ.into_iter().find(|entry| packed.is_none() && (entry.is)(&first));
    if let Some(entry) = read {
        return Ok(Some(Kind::Read(entry)));
    }
    Ok(formats::ALL.iter().find(|entry| entry.foreign.is(&first, total_bytes, &name)).map(Kind::Format))
}

fn input(place: &FileLocation, bytes: u64, packed: Option<Packed>, buffer_bytes: usize) -> Result<Input> {
    let stream = place.stream(buffer_bytes)?;
    match packed {
        None => Ok(Input { bytes: stream, total_bytes: Some(bytes) }),
        Some(packed) => {
            let inner = packed.open(stream, bytes).map_err(|error| error.in_file(place.path()))?;
            Ok(Input { bytes: inner, total_bytes: None })
        }
    }
}

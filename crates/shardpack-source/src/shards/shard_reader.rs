//! Reads the images and components of listed records from their locations in the files.

use std::{
    cell::RefCell,
    fs,
    io::{self, Read, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use rayon::prelude::*;
use shardpack_format::{
    Error, ErrorKind, Result,
    component::Form,
    formats::foreign::{FieldSelection, Other},
    memory, regular,
};

use super::{File, Shards};
use crate::{
    Look, ReadError, Refusal, SampleReader,
    api::refused,
    component_table::Cell,
    foreign::{Facts, Remote, ShardFile},
    listing::Listing,
    monitor::{Monitor, Phase},
    own, storage, sys,
};

/// Bits of a place that hold the offset in a file; the other bits hold the file number.
const OFFSET_BITS: u32 = 40;
/// Maximum number of files.
pub(super) const MAX_FILES: usize = 1 << (64 - OFFSET_BITS);
/// Maximum length of a file in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << OFFSET_BITS;
/// Divisor of the descriptor limit: 1 / `FILE_SHARE` of it may be used for source shards.
const FILE_SHARE: u64 = 2;
/// Maximum number of bytes that one request to a URL reads for several samples; each of many reads in flight holds so many.
const RUN_BYTES: u64 = 256 << 10;
/// Maximum gap in bytes between two samples that is read and discarded: a second request takes longer.
const GAP_BYTES: u64 = 16 << 10;
/// Maximum length of a sample of this machine that is read with one call.
const SHORT_BYTES: u64 = 16 << 10;
/// Bytes unpacked per step.
const UNPACK_BYTES: usize = 1 << 20;

/// Packs file `number` and `offset` into a place.
pub(super) fn place(number: usize, offset: u64) -> u64 {
    (number as u64) << OFFSET_BITS | offset
}

/// File number and offset of a place.
pub(super) fn of_place(place: u64) -> (usize, u64) {
    ((place >> OFFSET_BITS) as usize, place & (MAX_FILE_BYTES - 1))
}

/// Packs how a sample is fetched: length in bytes and recipe.
pub(super) fn stamp(fetch_bytes: u32, recipe: u32) -> i64 {
    i64::from(recipe) << 32 | i64::from(fetch_bytes)
}

/// Packs how a component is fetched; `None` if a value does not fit.
pub(super) fn component_stamp(offset: u64, recipe: u32) -> Option<i64> {
    let fits = offset < MAX_FILE_BYTES && recipe < Other::RECIPES;
    fits.then(|| (u64::from(recipe) << OFFSET_BITS | offset).cast_signed())
}

/// The stamp of the wider form of a single value.
pub(super) fn wider_stamp(stamp: i64) -> i64 {
    stamp | i64::from(Other::WIDER) << OFFSET_BITS
}

/// Offset and recipe of a component stamp.
pub(super) fn of_component_stamp(stamp: i64) -> (u64, u32) {
    let stamp = stamp.cast_unsigned();
    (stamp & (MAX_FILE_BYTES - 1), (stamp >> OFFSET_BITS) as u32)
}

pub(super) fn of_stamp(stamp: i64) -> (usize, u32) {
    (stamp as u32 as usize, (stamp >> 32) as u32)
}

/// Reads the images and components of records.
#[derive(Debug)]
pub struct ShardReader<'a> {
    /// Unique per reader in this process.
    number: u64,
    listing: &'a Listing,
    files: &'a [File],
    /// Identity of each file when the reader was opened.
    facts: Vec<Facts>,
    wanted: &'a FieldSelection,
    /// The file to read for each shard: the shard itself, or its unpacked copy.
    paths: Vec<PathBuf>,
    /// Cached descriptors of the first files; other files are opened on each read.
    open: Box<[OnceLock<Arc<fs::File>>]>,
    _unpacked: Option<Unpacked>,
}

/// A folder of unpacked shards, removed on drop.
#[derive(Debug)]
struct Unpacked(PathBuf);

impl Unpacked {
    /// Creates a folder in `work`, or a private folder in the system's temporary directory.
    fn create(work: Option<&Path>) -> Result<Self> {
        if let Some(work) = work {
            return own::folder(work, "unpacked").map(Self);
        }
        let mut number = 0;
        loop {
            let folder = std::env::temp_dir().join(format!("shardpack-{}-{number}", shardpack_runtime::process_id()));
            // Must be new and private: everybody can write to the parent folder.
            if own::create_private_folder(&folder)? {
                return Ok(Self(folder));
            }
            number += 1;
        }
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // A folder that cannot be removed is in a work folder and is removed with it.
        let _ = own::remove_folder(&self.0);
    }
}

impl Shards {
    /// Opens a reader for `listing`, which must be made from these files.
    ///
    /// Unpacks compressed files into `work`, or into the system's temporary directory.
    ///
    /// # Errors
    /// If a file has changed since it was listed, or cannot be unpacked.
    pub(super) fn reader<'a>(
        &'a self,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<ShardReader<'a>> {
        let facts = self.files.iter().map(|File { shard, .. }| {
            let now = shard.facts()?;
            if shard.is_as_listed(&now) { Ok(now) } else { Err(shard.changed()) }
        });
        let facts = facts.collect::<Result<_>>()?;
        let ends = self.ends(listing)?;
        let mut paths: Vec<PathBuf> = self.files.iter().map(|file| file.shard.path.clone()).collect();
        let to_unpack: Vec<usize> =
            (0..self.files.len()).filter(|number| ends[*number] > 0 && !self.files[*number].shard.is_plain()).collect();
        let unpacked = (!to_unpack.is_empty()).then(|| Unpacked::create(work)).transpose()?;
        if let Some(Unpacked(folder)) = &unpacked {
            monitor.begin(Phase::Unpacking, 0, to_unpack.iter().map(|number| ends[*number]).sum());
            for number in &to_unpack {
                paths[*number] = folder.join(number.to_string());
            }
            to_unpack.par_iter().try_for_each(|number| {
                let file = Unpacking { shard: &self.files[*number].shard, end: ends[*number] };
                file.write(&self.wanted, &paths[*number], monitor)
            })?;
            monitor.end();
        }
        let kept = (sys::raise_open_files() / FILE_SHARE).saturating_sub(64).min(self.files.len() as u64);
        let open = (0..kept).map(|_| OnceLock::new()).collect();
        let number = READERS.fetch_add(1, Ordering::Relaxed);
        let (files, wanted) = (&self.files, &self.wanted);
        Ok(ShardReader { number, listing, files, facts, wanted, paths, open, _unpacked: unpacked })
    }
}

impl Shards {
    /// For each file, the end offset of the bytes that `listing` needs; 0 for a file without samples.
    pub(super) fn ends(&self, listing: &Listing) -> Result<Vec<u64>> {
        let mut ends = vec![0; self.files.len()];
        for (entry, number) in listing.entries().iter().zip(0..) {
            let (file, offset) = of_place(entry.place);
            let end: Option<&mut u64> = ends.get_mut(file);
            let end = end.ok_or_else(|| Error::data("a sample of a shard that is not in the source"))?;
            let of_image = of_stamp(entry.stamp).0;
            *end = (*end).max(offset + of_image as u64);
            for cell in stored_cells(listing, number) {
                let Some(bytes) = cell.length() else { continue };
                let (offset, recipe) = of_component_stamp(cell.stamp);
                let bytes = self.files[file].shard.component_bytes(recipe, bytes as usize, of_image);
                *end = (*end).max(offset + bytes as u64);
            }
        }
        Ok(ends)
    }
}

/// The cells of a sample that are in its file; the arrays of targets are in the listing.
pub(super) fn stored_cells(listing: &Listing, number: u64) -> impl Iterator<Item = &Cell> {
    let components = listing.components();
    let cells = components.cells_of(number).iter().zip(&components.kinds);
    cells.filter(|(_, kind)| kind.listed().is_none()).map(|(cell, _)| cell)
}

/// A compressed file, with the end offset of the unpacked bytes that are needed.
struct Unpacking<'s> {
    shard: &'s ShardFile,
    end: u64,
}

impl Unpacking<'_> {
    /// Writes the unpacked content as far as it can be unpacked; all listed samples lie before that point.
    fn write(&self, wanted: &FieldSelection, path: &Path, monitor: &dyn Monitor) -> Result<()> {
        let failed = |e| sys::io_error("cannot write", path, e);
        let mut out = own::create(path)?;
        let mut buffer = vec![0; UNPACK_BYTES];
        let mut left = self.end;
        // The location of an image does not depend on label options.
        let mut inner = self
            .shard
            .unpacked(&FieldSelection { no_labels: true, ..wanted.clone() }, &|| monitor.check_cancelled())?;
        loop {
            monitor.check_cancelled()?;
            match inner.read(&mut buffer) {
                Ok(read @ 1..) => {
                    out.write_all(&buffer[..read]).map_err(failed)?;
                    let of_these = left.min(read as u64);
                    left -= of_these;
                    monitor.advance(0, of_these);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error().is_some() && self.shard.failure().is_none() => {
                    return Err(sys::io_error("cannot read", &self.shard.path, error));
                }
                // Damage ends the file as its end does: samples beyond were not listed.
                Ok(0) | Err(_) => return self.shard.failure().map_or(Ok(()), Err),
            }
        }
    }
}

impl ShardReader<'_> {
    fn file(&self, number: usize) -> Result<Arc<fs::File>, ReadError> {
        let open = || {
            let path = &self.paths[number];
            regular::open(path).map(Arc::new).map_err(|e| refused(sys::io_error("cannot open", path, e)))
        };
        match self.open.get(number) {
            None => open(),
            Some(slot) => match slot.get() {
                Some(file) => Ok(Arc::clone(file)),
                None => {
                    let file = open()?;
                    // If another thread was first, this descriptor is closed.
                    Ok(Arc::clone(slot.get_or_init(|| file)))
                }
            },
        }
    }

    /// File `number`, if it is at a URL and is read in place.
    fn remote(&self, number: usize) -> Option<&Remote> {
        let shard = &self.files[number].shard;
        shard.remote.as_ref().filter(|_| shard.is_plain())
    }

    /// Fills `out` with the bytes at `offset` of file `number`, from `at_hand` if it has them, else from the file.
    ///
    /// If the file is too short, the error names `ends_before` as the truncated item.
    fn fetch(
        &self,
        at_hand: Option<&AtHand<'_>>,
        (number, offset): (usize, u64),
        out: &mut [u8],
        ends_before: &str,
    ) -> Result<(), ReadError> {
        if let Some(bytes) = at_hand.and_then(|at_hand| at_hand.bytes(number, offset, out.len())) {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let is_short = || self.refuse(number, offset, &format!("the file ends before {ends_before} does"));
        if let Some(remote) = self.remote(number) {
            return match offset.checked_add(out.len() as u64) {
                Some(end) if end <= remote.bytes() => remote.read(offset, out).map_err(ReadError::Fatal),
                _ => Err(is_short()),
            };
        }
        self.file(number)?.read_exact_at(out, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => is_short(),
            _ => refused(sys::io_error("cannot read", &self.paths[number], error)),
        })
    }

    fn refuse(&self, number: usize, offset: u64, what: &str) -> ReadError {
        let file = &self.files[number];
        ReadError::Refused(Refusal(format!("{what} ({})", file.shard.place(&file.name, offset))))
    }
}

thread_local! {
    /// The last bytes fetched by this thread. Images have similar lengths, so the buffer is reused.
    static FETCHED: RefCell<Fetched> = const { RefCell::new(Fetched { bytes: Vec::new(), place: None }) };
}

/// Number of readers created so far.
static READERS: AtomicU64 = AtomicU64::new(0);

/// Bytes fetched from a file.
#[derive(Default)]
struct Fetched {
    bytes: Vec<u8>,
    /// Reader, file number and offset of these bytes, if another component may be decoded from them.
    place: Option<(u64, usize, u64)>,
}

/// A component in a record.
struct Value<'v> {
    name: &'v str,
    form: &'v Form,
    /// Offset of the bytes to decode; `recipe` is how to decode them.
    offset: u64,
    recipe: u32,
    /// Length in bytes of the data that the record's image or values are decoded from.
    record_bytes: usize,
}

impl ShardReader<'_> {
    /// Reads a component of a record of file `number` into `out`, which has the listed length.
    fn read_value(
        &self,
        number: usize,
        value: &Value<'_>,
        at_hand: Option<&AtHand<'_>>,
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        let Value { name, form, offset, recipe, record_bytes } = *value;
        let fetch = |out: &mut [u8]| self.fetch(at_hand, (number, offset), out, &format!("component {name}"));
        if recipe == 0 {
            // The items of an array are stored without the `.npy` head.
            let head = form.head();
            let (place, items) = out
                .split_at_mut_checked(head.len())
                .ok_or_else(|| self.refuse(number, offset, &format!("component {name} is shorter than its head")))?;
            place.copy_from_slice(&head);
            return fetch(items);
        }
        let shard = &self.files[number].shard;
        // Taken, not borrowed: decoding a component may panic, and the panic is caught.
        let mut fetched = FETCHED.take();
        let (place, bytes) = ((self.number, number, offset), shard.component_bytes(recipe, out.len(), record_bytes));
        let read = match fetched.place.take() == Some(place) && fetched.bytes.len() == bytes {
            true => Ok(()),
            false => memory::resize(&mut fetched.bytes, bytes)
                .map_err(|error| self.refuse(number, offset, &error.what()))
                .and_then(|()| fetch(&mut fetched.bytes)),
        };
        let done = read.and_then(|()| {
            fetched.place = Some(place);
            let content = shard.component(&fetched.bytes, recipe).map_err(|error| match error.kind() {
                ErrorKind::Data => self.refuse(number, offset, &error.what()),
                _ => ReadError::Fatal(error),
            })?;
            if content.len() != out.len() {
                let what = format!("{} bytes of component {name}, {} were listed", content.len(), out.len());
                return Err(self.refuse(number, offset, &what));
            }
            out.copy_from_slice(&content);
            Ok(())
        });
        if done.is_err() {
            // The next attempt fetches the bytes again.
            fetched.place = None;
        }
        FETCHED.set(fetched);
        done
    }
}

impl ShardReader<'_> {
    /// As [`SampleReader::read`], from `at_hand` if it has the bytes, else from the file.
    fn read_of(&self, number: u64, at_hand: Option<&AtHand<'_>>, payload: &mut [u8]) -> Result<(), ReadError> {
        let (entry, components) = (self.listing.entry(number), self.listing.components());
        let form = components.payload.as_ref().map(|kind| (kind, components.form(components.payload_form(number))));
        let ((number, offset), (bytes, recipe)) = (of_place(entry.place), of_stamp(entry.stamp));
        if let Some((kind, form)) = form {
            let value = Value { name: kind.name(), form, offset, recipe, record_bytes: bytes };
            return self.read_value(number, &value, at_hand, payload);
        }
        if recipe == 0 && bytes == payload.len() && self.files[number].shard.kind.has_member_names() {
            // The image is a file of the sample.
            return self.fetch(at_hand, (number, offset), payload, "the record");
        }
        FETCHED.with_borrow_mut(|Fetched { bytes: fetched, place }| {
            *place = None;
            memory::resize(fetched, bytes).map_err(|error| self.refuse(number, offset, &error.what()))?;
            self.fetch(at_hand, (number, offset), fetched, "the record")?;
            let image =
                self.files[number].shard.image(fetched, recipe, self.wanted).map_err(|error| match error.kind() {
                    ErrorKind::Data => self.refuse(number, offset, &error.what()),
                    _ => ReadError::Fatal(error),
                })?;
            if image.len() != payload.len() {
                let what = format!("{} bytes, {} were listed", image.len(), payload.len());
                return Err(self.refuse(number, offset, &what));
            }
            payload.copy_from_slice(&image);
            Ok(())
        })
    }

    /// As [`SampleReader::read_component`], from `at_hand` if it has the bytes, else from the file.
    fn read_component_of(
        &self,
        number: u64,
        which: usize,
        at_hand: Option<&AtHand<'_>>,
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        let components = self.listing.components();
        let (Some(kind), Some(cell)) = (components.kinds.get(which), components.cells_of(number).get(which)) else {
            return Err(ReadError::Refused(Refusal("has no such component".to_owned())));
        };
        if kind.listed().is_some() {
            return components.copy_text(*cell, out).map_err(|what| ReadError::Refused(Refusal(what)));
        }
        let entry = self.listing.entry(number);
        let (number, (offset, recipe)) = (of_place(entry.place).0, of_component_stamp(cell.stamp));
        let (form, record_bytes) = (components.form(cell.form), of_stamp(entry.stamp).0);
        self.read_value(number, &Value { name: kind.name(), form, offset, recipe, record_bytes }, at_hand, out)
    }

    /// File number and byte range that covers all bytes of sample `number`, gaps included.
    fn range(&self, number: u64) -> (usize, Range<u64>) {
        let entry = self.listing.entry(number);
        let ((file, offset), of_image) = (of_place(entry.place), of_stamp(entry.stamp).0);
        let mut range = offset..offset + of_image as u64;
        for cell in stored_cells(self.listing, number) {
            let Some(bytes) = cell.length() else { continue };
            let (offset, recipe) = of_component_stamp(cell.stamp);
            let bytes = self.files[file].shard.component_bytes(recipe, bytes as usize, of_image);
            range = range.start.min(offset)..range.end.max(offset + bytes as u64);
        }
        // The `.npy` head of an array is not in the file.
        (file, range.start..range.end.min(self.files[file].shard.bytes))
    }
}

/// Bytes of a file, fetched with one request.
struct AtHand<'a> {
    reader: &'a ShardReader<'a>,
    file: usize,
    start: u64,
    bytes: Vec<u8>,
}

impl AtHand<'_> {
    /// The `count` bytes at `offset` of file `number`, if all of them are here.
    fn bytes(&self, number: usize, offset: u64, count: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..start.checked_add(count)?).filter(|_| number == self.file)
    }
}

impl SampleReader for AtHand<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        match self.reader.read_of(number, Some(self), payload) {
            // Data corrupted in transit is correct on a second read.
            Err(ReadError::Refused(_)) => self.reader.read_of(number, None, payload),
            read => read,
        }
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        match self.reader.read_component_of(number, which, Some(self), out) {
            Err(ReadError::Refused(_)) => self.reader.read_component_of(number, which, None, out),
            read => read,
        }
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        self.reader.peek(number, first, look)
    }
}

impl SampleReader for ShardReader<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        match self.read_of(number, None, payload) {
            Err(ReadError::Refused(_)) if self.remote(self.range(number).0).is_some() => {
                self.read_of(number, None, payload)
            }
            read => read,
        }
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        match self.read_component_of(number, which, None, out) {
            Err(ReadError::Refused(_)) if self.remote(self.range(number).0).is_some() => {
                self.read_component_of(number, which, None, out)
            }
            read => read,
        }
    }

    fn unchanged(&self) -> Result<()> {
        for (File { shard, .. }, facts) in self.files.iter().zip(&self.facts) {
            if shard.facts()? != *facts {
                return Err(shard.changed());
            }
        }
        Ok(())
    }

    fn can_coalesce(&self, first: u64, before: u64, next: u64) -> bool {
        let [(of_first, first), (of_before, before), (of_next, next)] =
            [first, before, next].map(|one| self.range(one));
        of_first == of_next
            && of_before == of_next
            && self.remote(of_next).is_some()
            && next.start >= first.start
            && next.start <= before.end.saturating_add(GAP_BYTES)
            && next.end.saturating_sub(first.start) <= RUN_BYTES
    }

    fn read_batch(&self, numbers: &[u64]) -> Option<Box<dyn SampleReader + '_>> {
        let (file, mut range) = self.range(*numbers.first()?);
        let Some(remote) = self.remote(file) else {
            // One call of the system for a short sample, instead of one for each component.
            let bytes = range.end.checked_sub(range.start).filter(|bytes| *bytes <= SHORT_BYTES)?;
            let is_meant = numbers.len() == 1 && self.files[file].shard.is_plain();
            let mut bytes = vec![0; is_meant.then_some(bytes)? as usize];
            self.file(file).ok()?.read_exact_at(&mut bytes, range.start).ok()?;
            return Some(Box::new(AtHand { reader: self, file, start: range.start, bytes }));
        };
        for number in numbers {
            let (_, one) = self.range(*number);
            range = range.start.min(one.start)..range.end.max(one.end);
        }
        let is_more = numbers.len() > 1 || !self.listing.components().kinds.is_empty();
        if !is_more || range.end.saturating_sub(range.start) > RUN_BYTES {
            return None;
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        // On failure each sample is read separately and reports its own error.
        remote.read(range.start, &mut bytes).ok()?;
        Some(Box::new(AtHand { reader: self, file, start: range.start, bytes }))
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        let (number, offset) = of_place(self.listing.entry(number).place);
        storage::peek(&*self.file(number)?, offset, first, look)
            .map_err(|error| refused(sys::io_error("cannot read", &self.paths[number], error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{monitor::Silent, options::Options};

    #[test]
    fn a_file_that_is_rewritten_while_it_is_read_is_named_after_the_last_read() {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vectors");
        for format in ["hdf5", "mds-jpeg", "parquet", "recordio", "tfrecord-int64", "webdataset", "webdataset-gz"] {
            let folder = tempfile::tempdir().unwrap();
            let file = fs::read_dir(vectors.join(format)).unwrap().map(|entry| entry.unwrap().path());
            let file = file.filter(|file| crate::foreign::files::is_shard(file).unwrap()).min().unwrap();
            let copy = folder.path().join(file.file_name().unwrap());
            fs::copy(&file, &copy).unwrap();
            let shards =
                Shards::find(std::slice::from_ref(&copy), None, FieldSelection::default(), &Default::default())
                    .unwrap();
            let found = shards.list(&Options::default(), &Silent).unwrap();
            let open = || shards.reader(&found[0].listing, None, &Silent);
            let reader = open().unwrap();
            reader.unchanged().unwrap();
            let bytes = fs::read(&file).unwrap();
            let time = fs::metadata(&copy).unwrap().modified().unwrap();
            let rewrites: [&dyn Fn(); 3] = [
                &|| fs::OpenOptions::new().append(true).open(&copy).unwrap().write_all(b"x").unwrap(),
                // The same bytes with another mtime; then the same bytes and mtime in another file.
                &|| fs::write(&copy, &bytes).unwrap(),
                &|| {
                    let new = folder.path().join("new");
                    fs::write(&new, &bytes).unwrap();
                    fs::rename(new, &copy).unwrap();
                    fs::File::options().write(true).open(&copy).unwrap().set_modified(time).unwrap();
                },
            ];
            for (number, rewrite) in rewrites.iter().enumerate() {
                rewrite();
                for error in [reader.unchanged().unwrap_err(), open().map(drop).unwrap_err()] {
                    let what = format!("{format} {number}: {error}");
                    assert!(error.kind() == ErrorKind::Data && what.contains("changed since it was listed"), "{what}");
                }
            }
        }
    }
}

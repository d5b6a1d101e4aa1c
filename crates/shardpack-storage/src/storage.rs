//! The trait of all storages, of open files, and of files that are being written.

use std::{
    fmt::Debug,
    fs::File,
    io::{self, Read},
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, hash::FileHash, help};

use crate::{Access, Object, Page, Transfers, parts::PART_BYTES, sys};

/// Maximum length of a file of unknown length that is read as a whole: a manifest of some million shards.
const MAX_BYTES: u64 = 1 << 30;
/// A file of known length may be longer by this many bytes before a read over a network fails.
const MORE_BYTES: u64 = 64 << 20;

/// A folder of files. Names are paths below it; `name` never begins with a slash.
///
/// Called by many threads at once. Errors name the file.
pub trait Storage: Debug + Send + Sync {
    /// Its path or URL.
    fn root(&self) -> &Path;

    /// Path or URL of the file `name`, for messages.
    fn path_of(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Its path on this machine; `None` if files have no path.
    fn local(&self) -> Option<&Path> {
        None
    }

    /// Its path or URL, with `..` and links of this machine resolved.
    ///
    /// # Errors
    /// If a folder of this machine does not exist, or cannot be read.
    fn resolved(&self) -> Result<PathBuf> {
        match self.local() {
            Some(folder) => folder.canonicalize().map_err(|error| sys::io_error("cannot resolve", folder, error)),
            None => Ok(self.root().to_path_buf()),
        }
    }

    /// Whether files cannot be written, as on a web server.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The subfolder `name`. Sends no request, and need not exist.
    ///
    /// # Errors
    /// If `name` is not a valid folder name.
    fn folder(&self, name: &str) -> Result<Arc<dyn Storage>>;

    /// The same folder, whose unfinished files are in `work`, an existing folder of this machine, which for a folder of this machine
    /// is on the same file system. Over a network, `work` has the record that [`Storage::abort_begun`] needs. Subfolders use `work`
    /// too.
    fn with_work(&self, work: &Path) -> Arc<dyn Storage>;

    /// Opens a file; `None` if it is missing. One request over a network.
    ///
    /// # Errors
    /// If the storage fails, or `name` is not a regular file.
    fn open(&self, name: &str) -> Result<Option<Box<dyn OpenFile>>>;

    /// Opens a file that a manifest lists with a length of `bytes`. Sends no request: over a network, the first read reports a
    /// missing file.
    ///
    /// # Errors
    /// If the file is missing or has another length.
    fn open_listed(&self, name: &str, bytes: u64) -> Result<Box<dyn OpenFile>>;

    /// Reads a whole file of at most `max_bytes` bytes as it is now; `None` if it is missing.
    ///
    /// # Errors
    /// If the storage fails, or the file is longer.
    fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>>;

    /// As [`Storage::read`] for an optional file: a file that the server refuses to send counts as missing.
    ///
    /// # Errors
    /// As [`Storage::read`].
    fn read_optional(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.read(name, max_bytes)
    }

    /// Whether a file that was read before still has the content `bytes`.
    ///
    /// # Errors
    /// If the storage fails.
    fn is_still(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        Ok(self.read(name, u64::MAX)?.is_some_and(|found| found == bytes))
    }

    /// Length in bytes of a file as it is now; `None` if it is missing. One request over a network.
    ///
    /// # Errors
    /// If the storage fails.
    fn length(&self, name: &str) -> Result<Option<u64>>;

    /// Time of the last change of a file in nanoseconds since 1970; `None` if it is missing or not known. Over a network, of a file
    /// that was read before: no request, and the end of the second that the server reported.
    ///
    /// # Errors
    /// If the storage fails.
    fn changed_at_ns(&self, name: &str) -> Result<Option<u128>>;

    /// Passes the names and lengths in bytes of all files in the subfolder `below` (empty for this folder) and its subfolders to
    /// `take`, in any order, until it breaks. A missing folder is empty.
    ///
    /// # Errors
    /// If the storage fails, or has no listing.
    fn walk(&self, below: &str, take: &mut dyn FnMut(&str, u64) -> ControlFlow<()>) -> Result<()>;

    /// Files and folders directly in the subfolder `below` (empty for this folder), by name; `None` if the storage has no
    /// listing, as on a web server. A missing folder is empty.
    ///
    /// # Errors
    /// If the storage fails, or refuses.
    fn list(&self, below: &str) -> Result<Option<Vec<Entry>>>;

    /// A file as in a list; `None` if it is missing. One request over a network; later reads expect the same version.
    ///
    /// # Errors
    /// If the storage fails.
    fn look(&self, name: &str) -> Result<Option<Object>> {
        Ok(self.length(name)?.map(|bytes| Object { name: name.to_owned(), bytes, stamp: 0 }))
    }

    /// Passes all files whose names begin with `start` and are longer, page by page.
    ///
    /// # Errors
    /// As [`Storage::walk`], or if `take` fails.
    fn pages(&self, start: &str, take: &mut dyn FnMut(Page) -> Result<()>) -> Result<()> {
        let mut names = Vec::new();
        self.walk(start.rsplit_once('/').map_or("", |(folder, _)| folder), &mut |name, _| {
            names.push(name.to_owned());
            ControlFlow::Continue(())
        })?;
        let objects = names
            .iter()
            .filter(|name| name.starts_with(start) && name.as_str() != start)
            .filter_map(|name| self.look(name).transpose())
            .collect::<Result<_>>()?;
        take(Page { objects, ..Page::default() })
    }

    /// The first page of all files, and whether there are more.
    ///
    /// # Errors
    /// As [`Storage::walk`].
    fn first_page(&self) -> Result<(Page, bool)> {
        let mut all = Page::default();
        self.pages("", &mut |page| {
            all = page;
            Ok(())
        })?;
        Ok((all, false))
    }

    /// The files and folders directly in `below`, which is empty or ends with a slash.
    ///
    /// # Errors
    /// As [`Storage::walk`].
    fn level(&self, below: &str) -> Result<Page> {
        let mut page = Page::default();
        for entry in self.list(below)?.unwrap_or_default() {
            let name = format!("{below}{}", entry.name);
            match entry.is_folder {
                true => page.folders.push(name),
                false => page.objects.extend(self.look(&name)?),
            }
        }
        Ok(page)
    }

    /// The file of this machine that holds a listed file, and the byte in it at which the listed file, or what is stored with it, begins;
    /// `None` over a network, and for files of their own.
    fn place(&self, listed: &Object) -> Option<(&File, u64)> {
        let _ = listed;
        None
    }

    /// Fills `into` with bytes of a listed file from `offset` on.
    ///
    /// # Errors
    /// If the storage fails; of kind [`ErrorKind::Data`](shardpack_format::ErrorKind::Data) if the file is missing, or not of the listed version.
    fn read_listed(&self, listed: &Object, offset: u64, into: &mut [u8]) -> Result<()> {
        match self.look(&listed.name)? {
            None => return Err(Error::data(GONE).in_file(self.path_of(&listed.name))),
            Some(found) if found != *listed => {
                return Err(Error::data("was changed since it was listed").in_file(self.path_of(&listed.name)));
            }
            Some(_) => {}
        }
        self.open_listed(&listed.name, listed.bytes)?.read_at(offset, into)
    }

    /// Reads a whole file of at most `max_bytes` bytes, whose listed length does not count.
    ///
    /// # Errors
    /// As [`Storage::read_listed`], and if the file is longer.
    fn read_listed_whole(&self, listed: &Object, max_bytes: u64) -> Result<Vec<u8>> {
        self.read(&listed.name, max_bytes)?.ok_or_else(|| Error::data(GONE).in_file(self.path_of(&listed.name)))
    }

    /// Writes or replaces a file, completely or not at all. Missing folders are created. In a folder of this machine,
    /// [`Storage::sync`] makes the new name durable.
    ///
    /// # Errors
    /// If the storage fails.
    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()>;

    /// Starts a file, or the replacement of a file, that is written while its bytes are made.
    ///
    /// # Errors
    /// If the storage fails.
    fn create(&self, name: &str, size: Size) -> Result<Box<dyn FileWriter>>;

    /// Aborts the files that processes with the same work folder have started and not finished. Returns the names of files whose
    /// bytes may remain in the store, because it refuses to abort them.
    ///
    /// # Errors
    /// If the storage fails.
    fn abort_begun(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Number of threads that write at a time, and the memory in bytes that remains beside what the storage needs for them. `jobs` and
    /// `memory_bytes` are what the caller would use.
    fn writers(&self, jobs: usize, memory_bytes: u64) -> (usize, u64) {
        (jobs, memory_bytes)
    }

    /// Removes a file; a missing file is no error.
    ///
    /// # Errors
    /// If the storage fails.
    fn remove(&self, name: &str) -> Result<()>;

    /// Makes the names in the subfolder `below` durable, and the name of `below` itself.
    ///
    /// # Errors
    /// If the storage fails.
    fn sync(&self, below: &str) -> Result<()>;

    /// Costs and risks of its reads.
    fn access(&self) -> Access {
        Access::FILES
    }

    /// Makes the bytes of a file durable that [`FileWriter::finish_unsynced`] has finished; a missing file is no error.
    ///
    /// # Errors
    /// If the storage fails.
    fn sync_file(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    /// How many long reads at a time help, as far as is known; `None` if bytes do not come over a network.
    fn concurrency(&self) -> Option<usize> {
        None
    }

    /// As [`Storage::concurrency`], for short reads.
    fn short_concurrency(&self) -> Option<usize> {
        self.concurrency()
    }

    /// Counters of network transfers so far, with those of subfolders that were opened from this one; `None` if there is no network.
    fn transfers(&self) -> Option<Transfers> {
        None
    }

    /// `error` for a missing file, with the reason if the storage knows one.
    fn explain_missing(&self, error: Error) -> Error {
        error
    }
}

/// Error text: a listed file is missing.
pub(crate) const GONE: &str = "is not there any more";

impl dyn Storage + '_ {
    /// A reader of a file of length `bytes`, from its beginning. Over a network, one request for each 8 MiB.
    ///
    /// # Errors
    /// If the file of a folder of this machine cannot be opened.
    pub fn reader(&self, name: &str, bytes: u64) -> Result<Box<dyn Read + Send>> {
        if let Some(folder) = self.local() {
            let path = folder.join(name);
            return match shardpack_format::regular::open(&path) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) => Err(sys::io_error("cannot read", &path, error)),
            };
        }
        Ok(Box::new(Pieces { file: self.open_listed(name, bytes)?, at: 0, piece: Vec::new(), taken: 0 }))
    }

    /// Reads a whole file as it is now, of at most 1 GiB: a manifest of some million shards; `None` if it is missing.
    ///
    /// # Errors
    /// As [`Storage::read`].
    pub fn read_small(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.read(name, MAX_BYTES)
    }

    /// Reads a whole file, of `bytes` length if that is known; `None` if it is missing. If bytes came over a network and
    /// `is_right` is false, they may have been corrupted in transfer, and the file is read once more.
    ///
    /// # Errors
    /// As [`Storage::read`].
    pub fn read_right(
        &self,
        name: &str,
        bytes: Option<u64>,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        if !self.access().may_damage {
            return self.read(name, u64::MAX);
        }
        let max_bytes = bytes.map_or(MAX_BYTES, |bytes| bytes.saturating_add(MORE_BYTES));
        match self.read(name, max_bytes)? {
            Some(found) if !is_right(&found) => self.read(name, max_bytes),
            found => Ok(found),
        }
    }
}

/// Fails if files of `storage` cannot be written, as on a web server. Sends no request.
///
/// # Errors
/// See above.
pub fn check_writable(storage: &dyn Storage) -> Result<()> {
    match storage.is_read_only() {
        false => Ok(()),
        true => Err(Error::usage("a web server is only read from").in_file(storage.root()).help(help::COPY_TO_WEB)),
    }
}

/// Reads a file in pieces.
struct Pieces {
    file: Box<dyn OpenFile>,
    /// Offset of the next piece.
    at: u64,
    piece: Vec<u8>,
    /// Bytes of the piece that were read.
    taken: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && self.at < self.file.bytes() {
            self.piece.resize((self.file.bytes() - self.at).min(PART_BYTES) as usize, 0);
            self.taken = self.piece.len();
            self.file.read_at(self.at, &mut self.piece).map_err(|error| io::Error::other(error.to_string()))?;
            (self.at, self.taken) = (self.at + self.piece.len() as u64, 0);
        }
        let given = into.len().min(self.piece.len() - self.taken);
        into[..given].copy_from_slice(&self.piece[self.taken..self.taken + given]);
        self.taken += given;
        Ok(given)
    }
}

/// Length of a file that is written while its bytes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Its length in bytes. The bytes may come in any order.
    Known(u64),
    /// Length in bytes of its content before compression. The bytes come in order.
    Content(u64),
}

impl Size {
    /// Fails if bytes that end at `end` are beyond the length of the unfinished file at `path`.
    pub(crate) fn check(self, end: u64, path: impl Fn() -> PathBuf) -> Result<()> {
        match self {
            Self::Known(bytes) if end > bytes => {
                Err(Error::data("more bytes were written than planned").in_file(path()).at_byte(end))
            }
            Self::Known(_) | Self::Content(_) => Ok(()),
        }
    }
}

/// Fails if the file at `path` is finished with another length in bytes than was written.
pub(crate) fn check_written(written: u64, bytes: u64, path: impl Fn() -> PathBuf) -> Result<()> {
    match written == bytes {
        true => Ok(()),
        false => Err(Error::data(format!("{written} bytes were written, {bytes} expected")).in_file(path())),
    }
}

/// A file that is being written, by many threads. It appears under its name when it is finished; until then the name keeps the old
/// file, if there is one.
pub trait FileWriter: Debug + Send + Sync {
    /// Path or URL of the unfinished file, for messages.
    fn path(&self) -> PathBuf;

    /// Writes `bytes` at `offset`. No byte is written twice.
    ///
    /// # Errors
    /// If the storage fails, or the file gets longer than a known size.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Hints that the bytes from `start` to `end` are written, and can be sent to the disk now.
    fn start_write_back(&self, _start: u64, _end: u64) {}

    /// Makes the file durable and gives it its name. All its bytes are written: it has this length and this BLAKE3.
    ///
    /// # Errors
    /// If the storage fails, or the file has another length.
    fn finish(&self, bytes: u64, blake3: &FileHash) -> Result<()>;

    /// As [`FileWriter::finish`], but a power failure may leave the file incomplete until [`Storage::sync_file`]: for files that the
    /// caller checks when they are read again.
    ///
    /// # Errors
    /// As [`FileWriter::finish`].
    fn finish_unsynced(&self, bytes: u64, blake3: &FileHash) -> Result<()> {
        self.finish(bytes, blake3)
    }

    /// Removes the written bytes.
    ///
    /// # Errors
    /// If the storage fails.
    fn abort(&self) -> Result<()>;
}

/// An open file: reads give bytes of one version.
pub trait OpenFile: Debug + Send + Sync {
    /// Its length in bytes.
    fn bytes(&self) -> u64;

    /// Fills `into` with bytes from `offset` on; one request over a network.
    ///
    /// # Errors
    /// If the file is shorter, has changed, or cannot be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Passes bytes `range` to `take`, in order, as they arrive.
    ///
    /// # Errors
    /// As [`OpenFile::read_at`]; `take` may have had some of the bytes.
    fn read_range(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// The file of this machine, to be mapped; `None` if there is none.
    fn local(&self) -> Option<&File> {
        None
    }

    /// Checks that the file exists, if opening a listed file has not; one request over a network.
    ///
    /// # Errors
    /// If the file is missing, or shorter than listed.
    fn check_there(&self) -> Result<()> {
        Ok(())
    }
}

/// A file or folder in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, without the folders above, and with replacement characters for bytes that are not UTF-8.
    pub name: String,
    /// Whether it is a folder.
    pub is_folder: bool,
}

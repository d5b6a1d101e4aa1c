//! The trait of all storages, and the function that chooses one.

use std::{
    fmt::Debug,
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result};

use crate::{Local, StoreSettings, Transfers, is_url};

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

    /// Whether files cannot be written, as on a web server.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The subfolder `name`. Sends no request, and need not exist.
    ///
    /// # Errors
    /// If `name` is not a valid folder name.
    fn folder(&self, name: &str) -> Result<Arc<dyn Storage>>;

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

    /// Files and folders directly in the subfolder `below` (empty for this folder), by name; `None` if the storage has no
    /// listing, as on a web server. A missing folder is empty.
    ///
    /// # Errors
    /// If the storage fails, or refuses.
    fn list(&self, below: &str) -> Result<Option<Vec<Entry>>>;

    /// Writes or replaces a file, completely or not at all. Missing folders are created. In a folder of this machine,
    /// [`Storage::sync`] makes the new name durable.
    ///
    /// # Errors
    /// If the storage fails.
    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()>;

    /// Removes a file; a missing file is no error.
    ///
    /// # Errors
    /// If the storage fails.
    fn remove(&self, name: &str) -> Result<()>;

    /// Makes the names in the subfolder `below` durable.
    ///
    /// # Errors
    /// If the storage fails.
    fn sync(&self, below: &str) -> Result<()>;

    /// How many long reads at a time help, as far as is known; `None` if bytes do not come over a network.
    fn concurrency(&self) -> Option<usize> {
        None
    }

    /// Counters of network transfers so far; `None` if there is no network.
    fn transfers(&self) -> Option<Transfers> {
        None
    }

    /// `error` for a missing file, with the reason if the storage knows one.
    fn explain_missing(&self, error: Error) -> Error {
        error
    }
}

impl dyn Storage {
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
        if self.transfers().is_none() {
            return self.read(name, u64::MAX);
        }
        let max_bytes = bytes.map_or(MAX_BYTES, |bytes| bytes.saturating_add(MORE_BYTES));
        match self.read(name, max_bytes)? {
            Some(found) if !is_right(&found) => self.read(name, max_bytes),
            found => Ok(found),
        }
    }
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
}

/// A file or folder in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, without the folders above, and with replacement characters for bytes that are not UTF-8.
    pub name: String,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// The storage at `path`, a path or URL. `settings` are for URLs.
///
/// # Errors
/// If this build cannot read the URL, there are no such settings, or `path` is not a URL and has settings.
pub fn open(path: impl AsRef<Path>, settings: &StoreSettings) -> Result<Arc<dyn Storage>> {
    let path = path.as_ref();
    if !is_url(path) {
        settings.refuse_for(path)?;
        return Ok(Arc::new(Local::new(path)));
    }
    #[cfg(feature = "cloud")]
    return Ok(Arc::new(crate::remote::Remote::open(path, settings)?));
    #[cfg(not(feature = "cloud"))]
    Err(Error::usage("this build cannot read URLs (it lacks the feature cloud)")
        .in_file(path)
        .help("build the crate shardpack-reader with its feature `cloud`"))
}

//! Location of a file, in the file system or at a URL, and access to its bytes.

use std::{
    fs::File,
    io::{self, BufReader},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result, formats::foreign::Skip, regular};
use shardpack_storage::sys;

use crate::{
    remote::{Blocks, Remote, Stream},
    zip,
};

/// A seek costs a system call; small records are passed over within the buffer.
pub(crate) const BUFFER_BYTES: usize = 64 << 10;

/// Identity of a file, to detect a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the last change in nanoseconds since 1970; at a URL, a hash of the version.
    pub mtime_ns: i64,
    /// Number of the file in its file system: one that was put in its place has another.
    pub inode: u64,
    /// Of an LMDB its last transaction, which is written without a lock that readers here would see.
    pub transaction: u64,
}

/// Location of a file.
#[derive(Clone, Debug)]
pub enum FileLocation {
    /// In the file system.
    Local(PathBuf),
    /// At a URL.
    Remote(Remote),
}

impl From<&Path> for FileLocation {
    fn from(path: &Path) -> Self {
        Self::Local(path.to_path_buf())
    }
}

impl From<&PathBuf> for FileLocation {
    fn from(path: &PathBuf) -> Self {
        Self::Local(path.clone())
    }
}

impl FileLocation {
    /// The file at `path`, which has a URL if it is `remote`.
    pub(crate) fn new(path: &Path, remote: Option<&Remote>) -> Self {
        match remote {
            Some(remote) => Self::Remote(remote.clone()),
            None => Self::Local(path.to_path_buf()),
        }
    }

    /// The remote file, if it has a URL.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(remote),
        }
    }

    /// Its path or URL.
    pub fn path(&self) -> &Path {
        match self {
            Self::Local(path) => path,
            Self::Remote(remote) => remote.path(),
        }
    }

    /// The identity of the file.
    ///
    /// # Errors
    /// If it cannot be looked at, or is no regular file.
    pub(crate) fn facts(&self) -> Result<Facts> {
        let path = match self {
            Self::Local(path) => path,
            Self::Remote(remote) => {
                return Ok(Facts { bytes: remote.bytes(), mtime_ns: remote.stamp(), inode: 0, transaction: 0 });
            }
        };
        let meta = path.metadata().map_err(|e| sys::io_error("cannot look at", path, e))?;
        if !meta.is_file() {
            return Err(Error::usage("not a regular file").in_file(path));
        }
        let mtime_ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        Ok(Facts { bytes: meta.len(), mtime_ns, inode: meta.ino(), transaction: 0 })
    }

    /// Opens it, to be read wherever.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(&self) -> Result<Bytes> {
        Ok(match self {
            Self::Local(path) => Bytes::File(open(path)?),
            Self::Remote(remote) => Bytes::Remote(Blocks::new(remote)),
        })
    }

    /// The same from its first byte on; of a local file, `buffer_bytes` are read at once.
    pub(crate) fn stream(&self, buffer_bytes: usize) -> Result<Box<dyn Skip>> {
        Ok(match self {
            Self::Local(path) => Box::new(BufReader::with_capacity(buffer_bytes, open(path)?)),
            Self::Remote(remote) => Box::new(Stream::new(remote)),
        })
    }

    /// Reads the first bytes into `out`; returns their number.
    pub(crate) fn first(&self, out: &mut [u8]) -> Result<usize> {
        match self {
            Self::Local(path) => {
                let failed = |e| sys::io_error("cannot open", path, e);
                regular::open(path).map_err(failed)?.read_at(out, 0).map_err(failed)
            }
            Self::Remote(remote) => {
                let first = remote.first()?;
                let bytes = out.len().min(first.len());
                out[..bytes].copy_from_slice(&first[..bytes]);
                Ok(bytes)
            }
        }
    }

    /// Reads the whole file `name` beside this file, at most `most` bytes; also returns its path. `None` if it is missing.
    ///
    /// # Errors
    /// If it cannot be read, or is longer.
    pub(crate) fn read_beside(&self, name: &str, most: u64) -> Result<Option<(PathBuf, Vec<u8>)>> {
        let path = self.path().with_file_name(name);
        let bytes = match self {
            Self::Local(_) if !sys::is_file(&path)? => None,
            Self::Local(_) => Some(sys::read_at_most(&path, most)?),
            Self::Remote(remote) => remote.read_beside(name, most)?,
        };
        Ok(bytes.map(|bytes| (path, bytes)))
    }

    /// The result of a read, or the network error if the file is at a URL: parsers do not know about networks.
    pub(crate) fn prefer_network_error<T>(&self, came: Result<T>) -> Result<T> {
        match self {
            Self::Remote(remote) => remote.failure().map_or(came, Err),
            Self::Local(_) => came,
        }
    }
}

fn open(path: &Path) -> Result<File> {
    regular::open(path).map_err(|e| sys::io_error("cannot open", path, e))
}

/// The bytes of an open file.
#[derive(Debug)]
pub enum Bytes {
    /// In the file system.
    File(File),
    /// At a URL.
    Remote(Blocks),
    /// In memory.
    Memory(Vec<u8>),
}

impl From<File> for Bytes {
    fn from(file: File) -> Self {
        Self::File(file)
    }
}

impl Bytes {
    /// How many there are.
    pub(crate) fn count(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Remote(blocks) => Ok(blocks.bytes()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// As [`FileExt::read_exact_at`].
    pub(crate) fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(out, offset),
            Self::Remote(blocks) => blocks.read_exact_at(out, offset),
            Self::Memory(bytes) => zip::ReadAt::read_at(&bytes[..], offset, out),
        }
    }
}

impl zip::ReadAt for Bytes {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }
}

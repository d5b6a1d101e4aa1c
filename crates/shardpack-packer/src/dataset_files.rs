//! Reads and writes the files of a dataset, in a folder or at a URL, whole or by range.
//!
//! Holds at all times: data that fails its hash is fetched again, in case it was corrupted in transit, before
//! it is reported as damaged.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use shardpack_format::{Result, regular};
use shardpack_reader::{StoreSettings, Transfers};

use crate::{own, sys};

/// Maximum length in bytes of a manifest at a URL: the length of one with some million shards.
#[cfg(feature = "cloud")]
const MOST_BYTES: u64 = 1 << 30;
/// A file of known length is read up to this many bytes more: a server that sends more is not trusted.
#[cfg(feature = "cloud")]
const MORE_BYTES: u64 = 64 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum DatasetFiles {
    Local(PathBuf),
    #[cfg(feature = "cloud")]
    Store(std::sync::Arc<shardpack_store::Store>),
}

impl DatasetFiles {
    /// The folder at `path`.
    ///
    /// # Errors
    /// If `path` is a URL that cannot be read, or settings are given for a local path.
    pub fn open(path: &Path, settings: &StoreSettings) -> Result<Self> {
        #[cfg(feature = "cloud")]
        if let Some(url) = path.to_str().filter(|_| sys::is_store(path)) {
            let settings = shardpack_store::Settings::of(settings.pairs().iter().cloned());
            return Ok(Self::Store(std::sync::Arc::new(shardpack_store::Store::new(url, &settings)?)));
        }
        settings.refuse_for(path)?;
        Ok(Self::Local(path.to_owned()))
    }

    /// The subfolder `name`.
    pub fn folder(&self, name: &str) -> Result<Self> {
        match self {
            Self::Local(folder) => Ok(Self::Local(folder.join(name))),
            #[cfg(feature = "cloud")]
            Self::Store(store) => store.folder(name).map(|store| Self::Store(std::sync::Arc::new(store))),
        }
    }

    /// Its path or URL.
    pub fn path(&self) -> &Path {
        match self {
            Self::Local(folder) => folder,
            #[cfg(feature = "cloud")]
            Self::Store(store) => Path::new(store.url()),
        }
    }

    /// Path in the file system; `None` at a URL.
    pub fn local(&self) -> Option<&Path> {
        match self {
            Self::Local(folder) => Some(folder),
            #[cfg(feature = "cloud")]
            Self::Store(_) => None,
        }
    }

    /// Whether the folder is read-only, because it is on a web server.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Local(_) => false,
            #[cfg(feature = "cloud")]
            Self::Store(store) => store.is_read_only(),
        }
    }

    /// The path or URL of a file in it.
    pub fn shown(&self, name: &str) -> PathBuf {
        match self {
            Self::Local(folder) => folder.join(name),
            #[cfg(feature = "cloud")]
            Self::Store(store) => store.object_url(name).into(),
        }
    }

    /// Reads a whole file; `None` if it is missing. `bytes` is its expected length, if known. Over a network, a
    /// file for which `is_right` is false is fetched once more.
    pub fn read_if_there(
        &self,
        name: &str,
        bytes: Option<u64>,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Local(folder) => {
                // Local bytes do not change on a second read.
                let _ = (bytes, is_right);
                sys::read_if_there(&folder.join(name))
            }
            #[cfg(feature = "cloud")]
            Self::Store(store) => {
                let most = bytes.map_or(MOST_BYTES, |bytes| bytes.saturating_add(MORE_BYTES));
                match store.read_all(name, most)? {
                    Some(bytes) if !is_right(&bytes) => store.read_all(name, most),
                    found => Ok(found),
                }
            }
        }
    }

    /// Whether a file that was read before still has these `bytes`.
    pub fn is_still(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        match self {
            Self::Local(folder) => Ok(sys::read_if_there(&folder.join(name))?.is_some_and(|found| found == bytes)),
            #[cfg(feature = "cloud")]
            Self::Store(store) => store.is_still(name, bytes),
        }
    }

    /// Reads a whole optional file. A file that the server refuses counts as missing.
    pub fn read_optional(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Local(folder) => sys::read_if_there(&folder.join(name)),
            #[cfg(feature = "cloud")]
            Self::Store(store) => store.read_optional(name, MOST_BYTES),
        }
    }

    /// Writes a small file, completely or not at all. In a folder it has the name `unfinished` until it is
    /// durable.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&self, name: &str, unfinished: &str, bytes: Vec<u8>) -> Result<()> {
        match self {
            Self::Local(folder) => {
                own::folder(folder, Path::new(name).parent().unwrap_or(Path::new("")))?;
                let mut temporary = own::Temporary::at(folder.join(unfinished))?;
                temporary.write(&bytes)?;
                temporary.finish(&folder.join(name))
            }
            #[cfg(feature = "cloud")]
            Self::Store(store) => store.put(name, bytes),
        }
    }

    /// Opens a file; `None` if it is missing.
    pub fn file(&self, name: &str) -> Result<Option<DatasetFile>> {
        let path = self.shown(name);
        match self {
            Self::Local(_) => {
                let file = match regular::open(&path) {
                    Ok(file) => file,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(sys::io_error("cannot open", &path, error)),
                };
                let bytes = file.metadata().map_err(|error| sys::io_error("cannot look at", &path, error))?.len();
                Ok(Some(DatasetFile { path, bytes, content: Content::File(file) }))
            }
            #[cfg(feature = "cloud")]
            Self::Store(store) => {
                let content = Content::Object(std::sync::Arc::clone(store), name.to_owned());
                Ok(store.length(name)?.map(|bytes| DatasetFile { path, bytes, content }))
            }
        }
    }

    /// Network transfers so far; `None` for a local folder.
    pub fn transfers(&self) -> Option<Transfers> {
        match self {
            Self::Local(_) => None,
            #[cfg(feature = "cloud")]
            Self::Store(store) => Some(store.counts().into()),
        }
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct DatasetFile {
    path: PathBuf,
    bytes: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    File(File),
    #[cfg(feature = "cloud")]
    Object(std::sync::Arc<shardpack_store::Store>, String),
}

impl DatasetFile {
    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether reads go over a network: each is a request, and its data may be corrupted in transit.
    pub fn is_remote(&self) -> bool {
        !matches!(self.content, Content::File(_))
    }

    /// Fills `into` with bytes from `offset` on.
    pub fn read_exact_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        match &self.content {
            Content::File(file) => {
                file.read_exact_at(into, offset).map_err(|error| sys::io_error("cannot read", &self.path, error))
            }
            #[cfg(feature = "cloud")]
            Content::Object(store, name) => store.read(name, self.bytes, offset, into),
        }
    }
}

//! The files of a dataset: in a folder or at a URL, read whole or by range.
//!
//! Holds at all times: what a line or a server between has changed is fetched once more before anybody calls it damage.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use shardpack_format::{Result, regular};
use shardpack_reader::{StoreSettings, Transfers};

use crate::{own, sys};

/// Longest manifest that is read from a URL, in bytes: that of some millions of shards.
#[cfg(feature = "cloud")]
const MOST_BYTES: u64 = 1 << 30;
/// Files whose length is known are read to so many bytes more: whoever sends more than that is not believed.
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
    /// The folder that `path` names.
    ///
    /// # Errors
    /// When it is a URL that cannot be read from, or settings are given for what is none.
    pub fn open(path: &Path, settings: &StoreSettings) -> Result<Self> {
        #[cfg(feature = "cloud")]
        if let Some(url) = path.to_str().filter(|_| sys::is_store(path)) {
            let settings = shardpack_store::Settings::of(settings.pairs().iter().cloned());
            return Ok(Self::Store(std::sync::Arc::new(shardpack_store::Store::new(url, &settings)?)));
        }
        settings.refuse_for(path)?;
        Ok(Self::Local(path.to_owned()))
    }

    /// The folder `name` in it.
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

    /// Where it is in the file system; `None` at a URL.
    pub fn local(&self) -> Option<&Path> {
        match self {
            Self::Local(folder) => Some(folder),
            #[cfg(feature = "cloud")]
            Self::Store(_) => None,
        }
    }

    /// Whether nothing can be written to it: it is a folder of a web server.
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

    /// Reads a whole file, if it is there, which should be `bytes` long, where that is known; what comes over a network is fetched once
    /// more where it is not right.
    pub fn read_if_there(
        &self,
        name: &str,
        bytes: Option<u64>,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Local(folder) => {
                // Its bytes are what they are.
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

    /// Whether a file, which was read from here before, still is `bytes`.
    pub fn is_still(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        match self {
            Self::Local(folder) => Ok(sys::read_if_there(&folder.join(name))?.is_some_and(|found| found == bytes)),
            #[cfg(feature = "cloud")]
            Self::Store(store) => store.is_still(name, bytes),
        }
    }

    /// Reads a whole file that need not be there, and may be taken for missing where it is refused.
    pub fn read_optional(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Local(folder) => sys::read_if_there(&folder.join(name)),
            #[cfg(feature = "cloud")]
            Self::Store(store) => store.read_optional(name, MOST_BYTES),
        }
    }

    /// Puts a small file: whole, or not at all. In a folder it is called `unfinished` until it is durable.
    ///
    /// # Errors
    /// When it cannot be written.
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

    /// Opens a file, if it is there.
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

    /// What reading over a network has taken so far; `None` of files.
    pub fn transfers(&self) -> Option<Transfers> {
        match self {
            Self::Local(_) => None,
            #[cfg(feature = "cloud")]
            Self::Store(store) => Some(store.counts().into()),
        }
    }
}

/// A file that is open.
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

    /// Whether its bytes come over a network: each read is a request then, and may be wrong once.
    pub fn is_remote(&self) -> bool {
        !matches!(self.content, Content::File(_))
    }

    /// Reads as many bytes from `offset` on as `into` has room for.
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

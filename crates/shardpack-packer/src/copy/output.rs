//! Destination of a shard's bytes: a file under a temporary name, or an object that is uploaded in parts.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Result, hash};

use crate::{own, sys, uploads::ObjectOutput};

/// See the module. Clones share one destination.
#[derive(Clone, Debug)]
pub(super) enum Output {
    File(Arc<File>, PathBuf),
    Object(Arc<ObjectOutput>),
}

impl Output {
    /// Creates a new file.
    pub fn file(path: PathBuf) -> Result<Self> {
        Ok(Self::File(Arc::new(own::create(&path)?), path))
    }

    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self {
            Self::File(file, path) => {
                file.write_all_at(bytes, offset).map_err(|e| sys::io_error("cannot write", path, e))
            }
            Self::Object(object) => object.write_at(bytes, offset),
        }
    }

    /// Starts write-back of the bytes from `start` to `end`.
    pub fn start_write_back(&self, start: u64, end: u64) {
        if let Self::File(file, _) = self {
            sys::start_write_back(file, start, end - start);
        }
    }

    /// Makes the file durable and renames it to `path`, or completes the object.
    pub fn finish(&self, path: &Path, bytes: u64, blake3: &hash::FileHash) -> Result<()> {
        match self {
            Self::File(file, temporary) => sys::finish_durably(file, temporary, path),
            Self::Object(object) => object.finish(bytes, blake3),
        }
    }

    /// Path or URL, for messages.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::File(_, path) => path.clone(),
            Self::Object(object) => object.path(),
        }
    }

    /// Removes the file, or aborts the upload.
    pub fn give_up(&self) -> Result<()> {
        match self {
            Self::File(_, path) => sys::remove_file(path),
            Self::Object(object) => object.give_up(),
        }
    }
}

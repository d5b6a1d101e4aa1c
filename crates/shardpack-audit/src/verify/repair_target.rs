//! Destination of repaired files: renamed into the dataset's folder, or uploaded to its URL.
//!
//! Holds at all times: a file is either the old one or the new one, complete. The next run aborts the uploads that a stopped run left in
//! the store.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, ErrorKind, Result, hash, manifest, regular, size};
use shardpack_reader::Transfers;

use super::{Opened, Options};
use shardpack_storage::Storage;

use crate::{
    monitor::Monitor,
    own, pack, sys,
    transfer::{of_split, put_file},
};

/// Work folder of a repair, inside the repaired folder.
const FOLDER: &str = ".shardpack-repair";
/// Folder for new files in the work folder of a repair at a URL.
const MADE: &str = "made";

/// A store that receives repaired files, and the local folder in which they are made.
pub(super) struct Remote {
    storage: Arc<dyn Storage>,
    work: PathBuf,
    /// Names of objects for which an earlier run may have left parts.
    left: Vec<String>,
    _lock: sys::Lock,
}

impl Remote {
    /// Opens the store of `files`, if they are at a URL, and aborts the uploads of an earlier run.
    ///
    /// # Errors
    /// If the store cannot be written to, or another repair uses the same work folder.
    pub fn open(files: &Arc<dyn Storage>, options: &Options) -> Result<Option<Self>> {
        let url = files.root();
        if files.local().is_some() {
            return match &options.work {
                None => Ok(None),
                Some(_) => {
                    Err(Error::usage("--work is for a dataset at a URL: a folder is mended in place").in_file(url))
                }
            };
        }
        if files.is_read_only() {
            return Err(Error::usage("a web server is only read from: nothing can be mended there")
                .in_file(url)
                .help("mend a copy in a folder, and copy the mended files"));
        }
        let work = pack::repair_folder(url, options.work.as_deref())?;
        pack::make_work(&work, options.work.is_some())?;
        let lock = sys::Lock::take(&work.join("lock"))?;
        let storage = shardpack_storage::open_to_write(url, &options.store)?.with_work(&work);
        let left = storage.abort_begun()?;
        Ok(Some(Self { storage, work, left, _lock: lock }))
    }

    /// Finishes after `done`; returns the names of objects for which parts may be left.
    pub fn close(mut self, done: Result<()>) -> Result<Vec<String>> {
        match &done {
            Ok(()) => self.left.extend(self.storage.abort_begun()?),
            // Otherwise the next run aborts the recorded uploads: the store may not answer now.
            Err(error) if error.kind() == ErrorKind::Interrupted => drop(self.storage.abort_begun()),
            Err(_) => {}
        }
        done?;
        own::remove_folder(&self.work)?;
        Ok(self.left)
    }

    /// Network transfers for uploads and for checking them.
    pub fn transfers(&self) -> Option<Transfers> {
        self.storage.transfers()
    }
}

/// The folder of `file`, a path in a dataset.
fn folder_of(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or(Path::new(""))
}

/// Destination of the repaired files of one dataset.
pub(super) struct RepairTarget<'r> {
    dataset: &'r Opened,
    /// Folder in which files are made under their own names.
    work: PathBuf,
    /// Receives the files, if the dataset is at a URL.
    remote: Option<Arc<dyn Storage>>,
    monitor: &'r dyn Monitor,
    /// Lock of this dataset's folder; none for a URL.
    _lock: Option<sys::Lock>,
}

impl<'r> RepairTarget<'r> {
    /// Starts with an empty work folder.
    pub fn open(dataset: &'r Opened, remote: Option<&Remote>, monitor: &'r dyn Monitor) -> Result<Self> {
        let (work, lock) = match remote {
            Some(remote) => {
                let work = remote.work.join(MADE);
                if sys::exists(&work)? {
                    own::remove_folder(&work)?;
                }
                (own::folder(&remote.work, MADE)?, None)
            }
            None => {
                let work = own::work_folder(dataset.files.root(), FOLDER)?;
                let lock = sys::Lock::take(&work.join("lock"))?;
                (work, Some(lock))
            }
        };
        let below = dataset.prefix.strip_suffix('/');
        let remote = remote.map(|remote| of_split(&remote.storage, below)).transpose()?;
        Ok(Self { dataset, work, remote, monitor, _lock: lock })
    }

    /// The work folder.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// The storage that receives the files, if the dataset is at a URL.
    pub fn remote(&self) -> Option<&dyn Storage> {
        self.remote.as_deref()
    }

    /// Fails if the work folder has less than `bytes` of free space.
    pub fn check_space(&self, bytes: u64) -> Result<()> {
        let free = sys::free_bytes(&self.work)?;
        match bytes > free {
            true => {
                let what = format!("needs {}, {} are free", size::text(bytes), size::text(free));
                Err(pack::no_space(what, &self.work))
            }
            false => Ok(()),
        }
    }

    /// Replaces `file` by these bytes.
    pub fn put_bytes(&self, file: &str, bytes: &[u8]) -> Result<()> {
        own::folder(&self.work, folder_of(file))?;
        own::write(&self.work.join(file), bytes)?;
        self.put(file, bytes.len() as u64, &hash::file(bytes))
    }

    /// Replaces `file` by the file of that name in the work folder, which has this length in bytes and this BLAKE3.
    pub fn put(&self, file: &str, bytes: u64, blake3: &hash::FileHash) -> Result<()> {
        let made = self.work.join(file);
        let Some(remote) = &self.remote else {
            let path = own::folder(self.dataset.files.root(), folder_of(file))?
                .join(Path::new(file).file_name().unwrap_or_default());
            let written = regular::open(&made).map_err(|e| sys::io_error("cannot open", &made, e))?;
            return sys::finish_durably(&written, &made, &path);
        };
        self.still_this_dataset()?;
        put_file(remote.as_ref(), file, &made, (bytes, blake3), self.monitor)?;
        sys::remove_file(&made)
    }

    /// Fails if the dataset was replaced in the meantime, so that no file is added to another dataset.
    fn still_this_dataset(&self) -> Result<()> {
        match self.dataset.files.is_still(manifest::FILE, &self.dataset.bytes)? {
            true => Ok(()),
            false => Err(Error::usage("was replaced while it was mended").in_file(self.dataset.files.root())),
        }
    }

    /// Removes the work folder and makes the new file names durable.
    pub fn close(self) -> Result<()> {
        let removed = own::remove_folder(&self.work);
        if self.remote.is_none() {
            sys::sync_folder(&self.dataset.files.root().join(manifest::INDEX_FOLDER))?;
            sys::sync_folder(self.dataset.files.root())?;
        }
        removed
    }
}

//! Where mended files go: renamed into the folder of their dataset, or put at its URL.
//!
//! Holds at all times: a file is the one of before or the one that was made, whole. What a run that was stopped has left in the store is
//! given up by the next one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, ErrorKind, Result, hash, manifest, regular, size};
use shardpack_reader::Transfers;

use super::{Opened, Options};
use crate::{dataset_files::DatasetFiles, monitor::Monitor, own, pack, sys, uploads::Uploads};

/// What a repair has in a folder that is mended: in it, what is not finished.
const FOLDER: &str = ".shardpack-repair";
/// Of a repair at a URL, in its work folder: the files that are made.
const MADE: &str = "made";

/// A store that mended files are put into, and the folder of this machine where they are made.
pub(super) struct Remote {
    uploads: Uploads,
    work: PathBuf,
    /// Names of objects of which an earlier run may have left parts.
    left: Vec<String>,
    _lock: sys::Lock,
}

impl Remote {
    /// The store that `files` are in, if they are at a URL; what an earlier run has begun is given up.
    ///
    /// # Errors
    /// When nothing can be written to it, or another repair is at work in the same folder.
    pub fn open(files: &DatasetFiles, options: &Options) -> Result<Option<Self>> {
        let url = files.path();
        if files.local().is_some() {
            return match &options.work {
                None => Ok(None),
                Some(_) => {
                    Err(Error::usage("--work is for a dataset at a URL: a folder is mended in itself").in_file(url))
                }
            };
        }
        if files.is_read_only() {
            return Err(Error::usage("nothing is mended at a web server, which is only read from")
                .in_file(url)
                .help("mend a copy that is a folder, and copy what was mended"));
        }
        let work = pack::repair_folder(url, options.work.as_deref())?;
        pack::make_work(&work, options.work.is_some())?;
        let lock = sys::Lock::take(&work.join("lock"))?;
        let uploads = Uploads::new(url, &options.store, &work)?;
        let left = uploads.give_up_begun()?;
        Ok(Some(Self { uploads, work, left, _lock: lock }))
    }

    /// Ends what was `done` with it; tells the names of objects of which parts may be left.
    pub fn close(mut self, done: Result<()>) -> Result<Vec<String>> {
        match &done {
            Ok(()) => self.left.extend(self.uploads.give_up_begun()?),
            // Otherwise the next run does, which knows of them: the store may not answer now.
            Err(error) if error.kind() == ErrorKind::Interrupted => drop(self.uploads.give_up_begun()),
            Err(_) => {}
        }
        done?;
        fs::remove_dir_all(&self.work).map_err(|e| sys::io_error("cannot remove", &self.work, e))?;
        Ok(self.left)
    }

    /// What writing, and reading of what was written, has taken.
    pub fn transfers(&self) -> Transfers {
        self.uploads.transfers()
    }
}

/// The folder that `file` lies in, by its name in a dataset.
fn folder_of(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or(Path::new(""))
}

/// Where the mended files of one dataset go.
pub(super) struct Place<'r> {
    dataset: &'r Opened,
    /// Files are made in it, each as it is called.
    work: PathBuf,
    uploads: Option<Uploads>,
    monitor: &'r dyn Monitor,
    /// In a folder, of this dataset alone.
    _lock: Option<sys::Lock>,
}

impl<'r> Place<'r> {
    /// Begins with nothing made.
    pub fn open(dataset: &'r Opened, remote: Option<&Remote>, monitor: &'r dyn Monitor) -> Result<Self> {
        let (work, lock) = match remote {
            Some(remote) => {
                let work = remote.work.join(MADE);
                if sys::is_there(&work)? {
                    fs::remove_dir_all(&work).map_err(|e| sys::io_error("cannot remove", &work, e))?;
                }
                (own::folder(&remote.work, MADE)?, None)
            }
            None => {
                let work = own::work_folder(dataset.files.path(), FOLDER)?;
                let lock = sys::Lock::take(&work.join("lock"))?;
                (work, Some(lock))
            }
        };
        let below = dataset.prefix.strip_suffix('/');
        let uploads = remote.map(|remote| remote.uploads.of_split(below));
        Ok(Self { dataset, work, uploads, monitor, _lock: lock })
    }

    /// The folder that files are made in.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Where files go, if not into a folder.
    pub fn uploads(&self) -> Option<&Uploads> {
        self.uploads.as_ref()
    }

    /// Fails where the work folder has no room for `bytes` more.
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

    /// Puts these bytes in the place of `file`.
    pub fn put_bytes(&self, file: &str, bytes: &[u8]) -> Result<()> {
        own::folder(&self.work, folder_of(file))?;
        own::write(&self.work.join(file), bytes)?;
        self.put(file, bytes.len() as u64, &hash::file(bytes))
    }

    /// Puts what was made as `file`, which is `bytes` long and has this BLAKE3, in the place of the one that is there.
    pub fn put(&self, file: &str, bytes: u64, blake3: &hash::FileHash) -> Result<()> {
        let made = self.work.join(file);
        let Some(uploads) = &self.uploads else {
            let path = own::folder(self.dataset.files.path(), folder_of(file))?
                .join(Path::new(file).file_name().unwrap_or_default());
            let written = regular::open(&made).map_err(|e| sys::io_error("cannot open", &made, e))?;
            return sys::finish_durably(&written, &made, &path);
        };
        self.still_this_dataset()?;
        uploads.put_file(file, &made, bytes, blake3, self.monitor)?;
        sys::remove_file(&made)
    }

    /// Nothing is put beside the files of another dataset that has come in the meantime.
    fn still_this_dataset(&self) -> Result<()> {
        match self.dataset.files.is_still(manifest::FILE, &self.dataset.bytes)? {
            true => Ok(()),
            false => Err(Error::usage("was replaced while it was mended").in_file(self.dataset.files.path())),
        }
    }

    /// Removes what was made and has no place, and makes the names of the others durable.
    pub fn close(self) -> Result<()> {
        let removed = fs::remove_dir_all(&self.work).map_err(|e| sys::io_error("cannot remove", &self.work, e));
        if self.uploads.is_none() {
            sys::sync_folder(&self.dataset.files.path().join(manifest::INDEX_FOLDER))?;
            sys::sync_folder(self.dataset.files.path())?;
        }
        removed
    }
}

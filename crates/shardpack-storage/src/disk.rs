//! The calls that change files and folders of this machine, and those that make the changes durable.
//!
//! Holds at all times: a file gets its final name after its bytes are durable. Errors name a path. Reads change nothing and need
//! no [`Disk`].

use std::{
    fmt::Debug,
    fs::{self, File},
    io::{self, Write},
    os::{fd::BorrowedFd, unix::fs::FileExt},
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, mkdirat},
    io::Errno,
};
use shardpack_format::Result;

use crate::sys::io_error;

/// Attempts to create a file while another process creates files of the same name.
const MAX_TRIES: usize = 100;

/// [`RealDisk`], or in unit tests a disk that loses unsynced changes when the power is cut.
pub(crate) trait Disk: Debug + Send + Sync {
    /// Creates a file; `None` if the name is taken.
    fn create_new(&self, path: &Path) -> Result<Option<File>>;

    /// Creates the folder `name` in the open folder `above`; false if the name is taken. Errors name `path`.
    fn create_folder(&self, above: BorrowedFd<'_>, name: &Path, path: &Path) -> Result<bool>;

    /// Writes `bytes` at the cursor of `file`.
    fn write(&self, file: &File, path: &Path, bytes: &[u8]) -> Result<()>;

    /// Writes `bytes` at `offset`.
    fn write_at(&self, file: &File, path: &Path, bytes: &[u8], offset: u64) -> Result<()>;

    /// Starts write-back of bytes just written, so that [`Disk::sync`] has little to do.
    fn start_write_back(&self, _file: &File, _start: u64, _end: u64) {}

    /// Makes the bytes and the length of a file durable, but not its name.
    fn sync(&self, file: &File, path: &Path) -> Result<()>;

    /// Makes the names in a folder durable, but not the name of the folder.
    fn sync_folder(&self, path: &Path) -> Result<()>;

    /// Renames a file, and replaces a file at `to`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file; a missing file is no error.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Creates a file; removes a file of an earlier run, or a link, first.
    fn create(&self, path: &Path) -> Result<File> {
        for _ in 0..MAX_TRIES {
            if let Some(file) = self.create_new(path)? {
                return Ok(file);
            }
            self.remove(path)?;
        }
        Err(io_error("cannot create", path, Errno::EXIST.into()))
    }

    /// Creates a folder and those above it, and makes the names of the new ones durable. Links are followed.
    fn create_folders(&self, path: &Path) -> Result<()> {
        let missing: Vec<_> = path.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.is_dir()).collect();
        for folder in missing.into_iter().rev() {
            if !self.create_folder(CWD, folder, path)? && !folder.is_dir() {
                return Err(io_error("cannot create folder", path, Errno::EXIST.into()));
            }
            self.sync_folder(or_current(folder.parent().unwrap_or(folder)))?;
        }
        Ok(())
    }

    /// Gives a written file its final name.
    fn finish(&self, file: &File, temporary: &Path, path: &Path) -> Result<()> {
        self.sync(file, temporary)?;
        self.rename(temporary, path)
    }
}

/// `folder`, or the current folder if it is empty.
pub(crate) fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// The disk of this machine.
#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn create_new(&self, path: &Path) -> Result<Option<File>> {
        match File::options().read(true).write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            made => made.map(Some).map_err(|e| io_error("cannot create", path, e)),
        }
    }

    fn create_folder(&self, above: BorrowedFd<'_>, name: &Path, path: &Path) -> Result<bool> {
        match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
            Err(Errno::EXIST) => Ok(false),
            made => made.map(|()| true).map_err(|e| io_error("cannot create folder", path, e.into())),
        }
    }

    fn write(&self, mut file: &File, path: &Path, bytes: &[u8]) -> Result<()> {
        file.write_all(bytes).map_err(|e| io_error("cannot write", path, e))
    }

    fn write_at(&self, file: &File, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
        file.write_all_at(bytes, offset).map_err(|e| io_error("cannot write", path, e))
    }

    /// Other systems than Linux start write-back by themselves.
    ///
    /// `DONTNEED` starts the write-back and drops only pages that are clean already, so bytes just written stay
    /// cached.
    #[cfg(target_os = "linux")]
    fn start_write_back(&self, file: &File, start: u64, end: u64) {
        let bytes = std::num::NonZeroU64::new(end - start);
        let _ = rustix::fs::fadvise(file, start, bytes, rustix::fs::Advice::DontNeed);
    }

    fn sync(&self, file: &File, path: &Path) -> Result<()> {
        file.sync_data().map_err(|e| io_error("cannot sync", path, e))
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        File::open(path).and_then(|folder| folder.sync_all()).map_err(|e| io_error("cannot sync folder", path, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| io_error("cannot rename to its final name", to, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("cannot remove", path, error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

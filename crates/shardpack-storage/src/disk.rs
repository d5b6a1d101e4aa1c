//! The calls that change files and folders of this machine, and those that make the changes durable.
//!
//! Holds at all times: a file gets its final name after its bytes are durable, unless its owner checks its hash later
//! ([`FileWriter::finish_unsynced`](crate::FileWriter::finish_unsynced)). Errors name a path. Reads change nothing and need
//! no [`Disk`]. clippy forbids these calls in all other files of the product.

#![allow(clippy::disallowed_methods, reason = "the calls of all other files")]

use std::{
    fmt::Debug,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::{
        fd::BorrowedFd,
        unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    },
    path::Path,
    time::SystemTime,
};

use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat},
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

    /// Gives a file the second name `to`; fails if the name is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

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

    /// As [`Disk::finish`], but returns false if `path` is taken. May leave the temporary name.
    ///
    /// On a file system without hard links, a file that another process creates at the same moment is replaced.
    fn publish(&self, file: &File, temporary: &Path, path: &Path) -> Result<bool> {
        self.sync(file, temporary)?;
        match self.link(temporary, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(_) if path.symlink_metadata().is_ok() => return Ok(false),
            Err(_) => self.rename(temporary, path)?,
            Ok(()) => {}
        }
        Ok(true)
    }
}

/// How a file of the program is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading.
    Read,
    /// For reading and writing.
    ReadWrite,
    /// As [`Access::ReadWrite`]; a missing file is created.
    Create,
    /// For writes at its end; a missing file is created.
    Append,
}

/// Opens a regular file of the program, to change it in place; does not follow a symbolic link.
pub(crate) fn open(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match access {
        Access::Append => options.append(true).create(true),
        Access::Read => options.read(true),
        Access::ReadWrite => options.read(true).write(true),
        Access::Create => options.read(true).write(true).create(true),
    };
    // Opening a pipe would block until its other end opens.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file")),
    }
}

/// Renames a file or folder, and replaces a file at `to`.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Cuts a file to `bytes`, or extends it with zeros.
pub(crate) fn set_length(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

/// Sets the time of the last change.
pub(crate) fn set_modified(file: &File, time: SystemTime) -> io::Result<()> {
    file.set_modified(time)
}

/// Creates the folder `path` in an existing folder.
pub(crate) fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)
}

/// Removes a folder with all that it contains.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path)
}

/// Removes an empty folder.
pub(crate) fn remove_empty_folder(path: &Path) -> io::Result<()> {
    fs::remove_dir(path)
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
        rename(from, to).map_err(|e| io_error("cannot rename to its final name", to, e))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
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

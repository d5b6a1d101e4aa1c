//! Locks of work folders: files that the system unlocks if their process ends.
//!
//! Holds at all times: whoever holds a lock alone is the only holder, also if others remove and create the file meanwhile.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use shardpack_format::{Error, ErrorKind, Result};

use crate::{
    own::{self, Access},
    sys::{exists, io_error},
};

/// Lock of the one packer that works on a folder; the system releases it when the process ends for any reason.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock at `path`, a file in the work folder.
    ///
    /// # Errors
    /// At once, if another process holds it.
    pub fn take(path: &Path) -> Result<Self> {
        loop {
            let file = lock_file(path, true)?;
            match Self::try_take(&file, path)? {
                false => {
                    return Err(
                        Error::new(ErrorKind::Usage, "another shardpack is packing into this folder").in_file(path)
                    );
                }
                true if is_at(&file, path)? => return Ok(Self { _file: file }),
                true => {}
            }
        }
    }

    /// As [`Lock::take`]; `None` on a file system without locks.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn take_where_there_are_locks(path: &Path) -> Result<Option<Self>> {
        match Self::take(path) {
            Err(error) if error.io_error().is_some_and(has_no_locks) => Ok(None),
            taken => taken.map(Some),
        }
    }

    /// Takes the lock at `path`; `None` if it is missing or another process holds it.
    ///
    /// # Errors
    /// If the file cannot be inspected.
    pub fn take_if_free(path: &Path) -> Result<Option<Self>> {
        if !exists(path)? {
            return Ok(None);
        }
        let file = match lock_file(path, false) {
            Err(_) if !exists(path)? => return Ok(None),
            file => file?,
        };
        Ok((Self::try_take(&file, path)? && is_at(&file, path)?).then_some(Self { _file: file }))
    }

    fn try_take(file: &File, path: &Path) -> Result<bool> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(io_error("cannot lock", path, error)),
        }
    }

    /// Holds the lock at `path` together with other processes; `None` on a file system without locks.
    ///
    /// # Errors
    /// At once, if another process holds it alone.
    pub fn share(path: &Path) -> Result<Option<Self>> {
        loop {
            let file = lock_file(path, true)?;
            match file.try_lock_shared() {
                Ok(()) if is_at(&file, path)? => return Ok(Some(Self { _file: file })),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let what = "another shardpack is packing into this folder alone";
                    return Err(Error::new(ErrorKind::Usage, what).in_file(path));
                }
                Err(TryLockError::Error(error)) if has_no_locks(&error) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(io_error("cannot lock", path, error)),
            }
        }
    }
}

/// Whether `path` still is the opened file: a process that removes a lock holds it, and a process that opened
/// the file before can get the lock after that.
fn is_at(file: &File, path: &Path) -> Result<bool> {
    let failed = |e| io_error("cannot look at", path, e);
    let opened = file.metadata().map_err(failed)?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Whether the error means that the file system has no locks: network mounts may have none.
fn has_no_locks(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let none = [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP];
    error.kind() == io::ErrorKind::Unsupported
        || none.iter().any(|none| error.raw_os_error() == Some(none.raw_os_error()))
}

/// Opens a lock file for reading and writing: on NFS a shared lock needs read access, an exclusive lock write
/// access.
fn lock_file(path: &Path, create: bool) -> Result<File> {
    match create {
        true => own::open_or_create(path, Access::Create),
        false => own::open_in_place(path, Access::ReadWrite).map_err(|e| io_error("cannot open", path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_and_let_go_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take(&path).unwrap();
        assert_eq!(Lock::take(&path).unwrap_err().kind(), ErrorKind::Usage);
        drop(lock);
        Lock::take(&path).unwrap();
    }
}

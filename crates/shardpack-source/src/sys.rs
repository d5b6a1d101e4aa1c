//! System calls beside reading: durable names, one packer for a folder, free space, descriptors.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, ErrorKind, Result};
pub use shardpack_storage::sys::{
    MORE_FILES, exists, finish_durably, io_error, is_file, is_folder, is_of_machine, is_out_of_files, metadata_opt,
    missing, read_opt, remove_file, sync_folder,
};

use crate::own;

/// Whether `text` is a URL and not a path of this machine: `s3://bucket/x`.
pub fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// Whether `path` is a URL of a supported store; in a build without URLs, of any.
pub fn is_store(path: &Path) -> bool {
    shardpack_storage::is_url(path)
}

/// Error for a URL in place of a path.
pub fn not_a_path(url: &str) -> Error {
    let error = Error::usage(format!("{url} is a URL: only files are read and written here"));
    match url.split_once("://") {
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("file") => {
            error.help(format!("give the path alone: {path}"))
        }
        _ => error.help("give the path of a file or folder: one that is mounted, or a copy"),
    }
}

/// The absolute path of `path`, with links resolved.
///
/// # Errors
/// If the path does not exist.
pub fn resolved(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| io_error("cannot resolve", path, e))
}

/// Writes a whole small file so that it is either absent or complete, even after a crash: temporary name in
/// `work`, fsync, rename.
pub fn write_durably(work: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut temporary = own::Temporary::at(work.join(path.file_name().unwrap_or(path.as_os_str())))?;
    temporary.write(bytes)?;
    temporary.finish(path)
}

/// Free space in bytes for an ordinary user on the file system of `path`, or of its nearest existing parent
/// folder.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let path = nearest_existing(path);
    let stat = rustix::fs::statvfs(&path).map_err(|e| io_error("cannot ask for free space", &path, e.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Fails if no file can be created in the folder `path`, or in its nearest existing parent.
///
/// # Errors
/// If so.
pub fn check_writable(path: &Path) -> Result<()> {
    use rustix::fs::Access;
    let existing = nearest_existing(path);
    rustix::fs::access(&existing, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| io_error("cannot write to", &existing, error.into()))
}

fn nearest_existing(path: &Path) -> PathBuf {
    let existing = path.ancestors().find(|above| !above.as_os_str().is_empty() && above.exists());
    existing.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Memory of the machine in bytes, or the limit of its control group.
pub fn memory_bytes() -> u64 {
    let read = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = [read("/sys/fs/cgroup/memory.max"), read("/sys/fs/cgroup/memory/memory.limit_in_bytes")];
    limits.into_iter().flatten().fold(installed_memory_bytes(), u64::min)
}

#[cfg(target_os = "linux")]
fn installed_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // Both are C integers whose width depends on the machine.
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

#[cfg(not(target_os = "linux"))]
fn installed_memory_bytes() -> u64 {
    8 << 30
}

/// Raises the limit of open files as far as the system allows, and returns it.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If refused, the limit stays as it is; it is read again below.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

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
    let mut options = File::options();
    options.read(true).write(true);
    match create {
        true => own::open_or_create(path, &mut options),
        false => options.open(path).map_err(|e| io_error("cannot open", path, e)),
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

    #[test]
    fn free_space_is_asked_of_the_nearest_folder_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(&folder.path().join("not/there")).unwrap() > 0);
        assert!(free_bytes(Path::new("not/there")).unwrap() > 0);
    }

    #[test]
    fn memory_is_known() {
        assert!(memory_bytes() > 64 << 20);
    }
}

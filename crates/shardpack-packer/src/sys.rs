//! What the packer asks of the system beside reading: durable names, one packer a folder, space, descriptors.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use shardpack_format::{Error, ErrorKind, Result};

/// Adds what to do to an error of the system, where there is something that helps.
pub fn io_error(what: &str, path: &Path, error: io::Error) -> Error {
    let help = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
            Some("free space and run the same command again: it goes on from the finished shards")
        }
        Some(rustix::io::Errno::ROFS) => Some("choose a folder that can be written"),
        Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => Some(match is_reading(what) {
            true => "change its permissions, or those of the folders above it, so that you may read it",
            false => "choose a folder that can be written, or change its permissions",
        }),
        _ if is_out_of_files(Some(&error)) => Some(MORE_FILES),
        Some(rustix::io::Errno::IO) => Some("the disk failed; run the same command again once it works"),
        _ => None,
    };
    let error = Error::io(what, error).in_file(path);
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

/// What helps where [`is_out_of_files`].
pub const MORE_FILES: &str = "too few file descriptors: raise the limit (`ulimit -n 4096`) or use fewer --jobs";

/// Whether there are too few file descriptors.
pub fn is_out_of_files(error: Option<&io::Error>) -> bool {
    let errno = error.and_then(io::Error::raw_os_error).map(rustix::io::Errno::from_raw_os_error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// Whether an error of reading tells of the machine at this moment and not of the file that is read: what is asked again may
/// be there.
///
/// That a file is not there, is a folder, or may not be read, is so of the file. Source: errno(3); NFS, FUSE and Lustre
/// give the others while a server or a disk is away.
pub fn is_of_machine(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let Some(errno) = error.raw_os_error().map(Errno::from_raw_os_error) else { return false };
    #[cfg(target_os = "linux")]
    if matches!(errno, Errno::REMOTEIO | Errno::NOLINK | Errno::COMM) {
        return true;
    }
    matches!(
        errno,
        Errno::IO
            | Errno::STALE
            | Errno::TIMEDOUT
            | Errno::NOMEM
            | Errno::MFILE
            | Errno::NFILE
            | Errno::AGAIN
            | Errno::NODEV
            | Errno::NOBUFS
            | Errno::NOTCONN
            | Errno::CONNRESET
            | Errno::CONNREFUSED
            | Errno::CONNABORTED
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NETRESET
    )
}

/// Whether an error with this text came of reading alone.
fn is_reading(what: &str) -> bool {
    ["cannot read", "cannot open", "cannot look at", "cannot resolve", "cannot find"]
        .iter()
        .any(|verb| what.starts_with(verb))
}

/// Whether `text` names another place than a file on this machine: `s3://bucket/x`.
pub fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// What is said of a URL where a path should be.
pub fn not_a_path(url: &str) -> Error {
    let error = Error::usage(format!("{url} is a URL: only files are read and written"));
    match url.split_once("://") {
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("file") => {
            error.help(format!("give the path alone: {path}"))
        }
        _ => error.help("give the path of a file or folder: one that is mounted, or a copy"),
    }
}

/// The path that `path` is, without links.
///
/// # Errors
/// When nothing is there.
pub fn resolved(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| io_error("cannot resolve", path, e))
}

/// Writes a whole small file so that it is either absent or complete, whatever happens: temporary name in `work`,
/// fsync, rename.
pub fn write_durably(work: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let temporary = work.join(name);
    let mut file = File::create(&temporary).map_err(|e| io_error("cannot create", &temporary, e))?;
    file.write_all(bytes).map_err(|e| io_error("cannot write", &temporary, e))?;
    finish_durably(&file, &temporary, path)
}

/// Gives a file that has been written its final name: fsync, then rename.
pub fn finish_durably(file: &File, temporary: &Path, path: &Path) -> Result<()> {
    file.sync_data().map_err(|e| io_error("cannot sync", temporary, e))?;
    fs::rename(temporary, path).map_err(|e| io_error("cannot rename to its final name", path, e))
}

/// Makes the names in a folder durable.
pub fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|e| io_error("cannot sync folder", path, e))
}

/// Creates a folder and those above it.
pub fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| io_error("cannot create folder", path, e))
}

/// Removes a file; one that is not there is fine.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("cannot remove", path, error)),
        _ => Ok(()),
    }
}

/// What the system says of a file, links followed; `None` where there is none. Whatever else keeps it from being looked
/// at is an error: what cannot be looked at may be there.
pub fn metadata_if_there(path: &Path) -> Result<Option<fs::Metadata>> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    // No path has such a byte: it leads nowhere.
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Ok(None);
    }
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(None),
        Err(error) => Err(io_error("cannot look at", path, error)),
    }
}

/// Whether something is there; see [`metadata_if_there`].
///
/// # Errors
/// When that cannot be told.
pub fn is_there(path: &Path) -> Result<bool> {
    Ok(metadata_if_there(path)?.is_some())
}

/// Whether a folder is there.
///
/// # Errors
/// As [`is_there`].
pub fn is_folder(path: &Path) -> Result<bool> {
    Ok(metadata_if_there(path)?.is_some_and(|meta| meta.is_dir()))
}

/// Whether a regular file is there.
///
/// # Errors
/// As [`is_there`].
pub fn is_file(path: &Path) -> Result<bool> {
    Ok(metadata_if_there(path)?.is_some_and(|meta| meta.is_file()))
}

/// Why [`metadata_if_there`] found nothing: `otherwise`, unless it is a link.
pub fn missing(path: &Path, otherwise: &'static str) -> &'static str {
    if path.is_symlink() { "a link that leads nowhere" } else { otherwise }
}

/// Reads a whole file; `None` where there is none.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("cannot read", path, error)),
    }
}

/// Space that an ordinary user can still fill on the file system of `path` or of the nearest folder above it that
/// exists, in bytes.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let path = nearest_existing(path);
    let stat = rustix::fs::statvfs(&path).map_err(|e| io_error("cannot ask for free space", &path, e.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn nearest_existing(path: &Path) -> PathBuf {
    let existing = path.ancestors().find(|above| !above.as_os_str().is_empty() && above.exists());
    existing.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Memory of the machine in bytes, or what a control group allows of it.
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

/// Raises the limit of open files to what the system allows, and returns it.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A refusal leaves the limit as it is, which is read again below.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Asks the kernel to begin writing out what was just written, so that the fsync at the end has little left to do.
///
/// `DONTNEED` starts the write-back and drops only pages that are clean already, so what was just written stays cached.
#[cfg(target_os = "linux")]
pub fn start_write_back(file: &File, offset: u64, bytes: u64) {
    let _ = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(bytes), rustix::fs::Advice::DontNeed);
}

/// As on Linux; other systems write back on their own.
#[cfg(not(target_os = "linux"))]
pub fn start_write_back(_: &File, _: u64, _: u64) {}

/// Held by the one packer that works on a folder; the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock at `path`, a file in the work folder.
    ///
    /// # Errors
    /// At once, when another process holds it.
    pub fn take(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| io_error("cannot create", path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                Err(Error::new(ErrorKind::Usage, "another shardpack is packing into this folder").in_file(path))
            }
            Err(TryLockError::Error(error)) => Err(io_error("cannot lock", path, error)),
        }
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
    fn who_may_not_read_is_not_sent_to_a_folder_that_can_be_written() {
        let denied = |what| {
            io_error(what, Path::new("x"), io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error()))
        };
        for what in
            ["cannot read", "cannot read folder", "cannot open", "cannot open a file of the source", "cannot look at"]
        {
            assert!(denied(what).help_text().is_some_and(|help| help.contains("may read it")), "{what}");
        }
        for what in
            ["cannot create", "cannot create folder", "cannot write", "cannot move", "cannot remove", "cannot lock"]
        {
            assert!(denied(what).help_text().is_some_and(|help| help.contains("can be written")), "{what}");
        }
    }

    #[test]
    fn memory_is_known() {
        assert!(memory_bytes() > 64 << 20);
    }
}

//! Files of this machine: system errors with advice, existence checks, durable names.
//!
//! An unreadable path is an error and never counts as missing.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use shardpack_format::{Error, Result, regular};

use crate::disk::{Disk, RealDisk};

/// Adds advice to a system error, if there is any.
pub fn io_error(what: &str, path: &Path, error: io::Error) -> Error {
    if regular::is_other(&error) {
        return Error::data(error.to_string()).in_file(path);
    }
    let help = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
            Some("free space and run the same command again: it resumes after the finished shards")
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

/// Advice for [`is_out_of_files`].
pub const MORE_FILES: &str = "too few file descriptors: raise the limit (`ulimit -n 4096`) or use fewer --jobs";

/// Whether there are too few file descriptors.
pub fn is_out_of_files(error: Option<&io::Error>) -> bool {
    let errno = error.and_then(io::Error::raw_os_error).map(rustix::io::Errno::from_raw_os_error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// Whether a read error concerns the current state of the machine and not the file: a retry may succeed.
///
/// A missing file, a folder, and missing permission concern the file. Source: errno(3); NFS, FUSE and Lustre return the other
/// errors while a server or a disk is away.
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

/// Metadata of a file, following links; `None` if the file is missing. All other failures are errors, since the file may
/// exist.
pub fn metadata_opt(path: &Path) -> Result<Option<fs::Metadata>> {
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

/// Whether the path exists; see [`metadata_opt`].
///
/// # Errors
/// If existence cannot be determined.
pub fn exists(path: &Path) -> Result<bool> {
    Ok(metadata_opt(path)?.is_some())
}

/// Whether a folder is there.
///
/// # Errors
/// As [`exists`].
pub fn is_folder(path: &Path) -> Result<bool> {
    Ok(metadata_opt(path)?.is_some_and(|meta| meta.is_dir()))
}

/// Whether a regular file is there.
///
/// # Errors
/// As [`exists`].
pub fn is_file(path: &Path) -> Result<bool> {
    Ok(metadata_opt(path)?.is_some_and(|meta| meta.is_file()))
}

/// The reason why [`metadata_opt`] returned `None`: `otherwise`, unless the path is a link.
pub fn missing(path: &Path, otherwise: &'static str) -> &'static str {
    if path.is_symlink() { "a link that leads nowhere" } else { otherwise }
}

/// Reads a whole file, which has at most `most` bytes.
///
/// # Errors
/// If it cannot be read, is no regular file, or is longer.
pub fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>> {
    let failed = |e| match regular::is_other(&e) {
        true => Error::usage(e.to_string()).in_file(path),
        false => io_error("cannot read", path, e),
    };
    let mut bytes = Vec::new();
    regular::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).map_err(failed)?;
    match bytes.len() as u64 > most {
        true => Err(Error::usage(format!("longer than {most} bytes")).in_file(path)),
        false => Ok(bytes),
    }
}

/// Reads a whole file; `None` if it is missing.
pub fn read_opt(path: &Path) -> Result<Option<Vec<u8>>> {
    match regular::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("cannot read", path, error)),
    }
}

/// Gives a written file its final name: fsync, then rename.
pub fn finish_durably(file: &File, temporary: &Path, path: &Path) -> Result<()> {
    RealDisk.finish(file, temporary, path)
}

/// Makes the names in a folder durable.
pub fn sync_folder(path: &Path) -> Result<()> {
    RealDisk.sync_folder(path)
}

/// Removes a file; a missing file is no error.
pub fn remove_file(path: &Path) -> Result<()> {
    RealDisk.remove(path)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

//! Limits of this machine: free space, writable folders, memory, open files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result};

use crate::{own::REMOVE, sys::io_error};

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
/// If so, and if the nearest existing path is a file.
pub fn check_writable(path: &Path) -> Result<()> {
    use rustix::fs::Access;
    let existing = nearest_existing(path);
    if !existing.is_dir() {
        return Err(Error::usage("is a file, not a folder").in_file(existing).help(REMOVE));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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

//! A slow disk: the kernel's own limit on the reads of a control group. Needs root.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result,
    command::{command, typed},
};

/// Requests a second.
pub const READS: u64 = 150;
/// Bytes a second.
pub const BYTES: u64 = 150_000_000;

/// A control group whose reads of one disk are slow; gone when this is dropped.
pub struct SlowDisk {
    group: PathBuf,
}

impl SlowDisk {
    /// Makes the disk that holds `path` slow for those who enter.
    pub fn new(path: &Path) -> Result<Self> {
        let device = disk(path)?;
        let name = format!("shardpack-bench-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/blkio");
        let (group, files) = if first.exists() {
            let file =
                |what: &str, limit: u64| (format!("blkio.throttle.read_{what}_device"), format!("{device} {limit}"));
            (first.join(name), vec![file("iops", READS), file("bps", BYTES)])
        } else {
            // Where the parent does not hand the controller down, the file is missing, and that is said below.
            let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+io");
            let limit = format!("{device} rbps={BYTES} riops={READS}");
            (Path::new("/sys/fs/cgroup").join(name), vec![("io.max".to_owned(), limit)])
        };
        fs::create_dir(&group).map_err(|error| format!("no control group ({error})"))?;
        let slow = Self { group };
        for (file, limit) in files {
            fs::write(slow.group.join(&file), limit).map_err(|error| format!("{file} cannot be set ({error})"))?;
        }
        Ok(slow)
    }

    /// `inner`, run inside.
    pub fn enter(&self, inner: &Command) -> Command {
        let mut outer = command("sh", ["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        outer.arg(self.group.join("cgroup.procs")).arg(inner.get_program()).args(inner.get_args());
        debug_assert!(inner.get_envs().next().is_none(), "{} has an environment of its own", typed(inner));
        outer
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // The processes in it have ended; if it stays nevertheless, it holds nothing.
        let _ = fs::remove_dir(&self.group);
    }
}

/// Numbers of the whole disk that holds `path`: a partition has no limits of its own.
fn disk(path: &Path) -> Result<String> {
    let device = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.dev();
    let numbers = format!("{}:{}", libc::major(device), libc::minor(device));
    let folder = fs::canonicalize(format!("/sys/dev/block/{numbers}"));
    let folder = folder.map_err(|_| format!("{} lies on no block device", path.display()))?;
    if !folder.join("partition").exists() {
        return Ok(numbers);
    }
    let parent = folder.join("../dev");
    let text = fs::read_to_string(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    Ok(text.trim().to_owned())
}

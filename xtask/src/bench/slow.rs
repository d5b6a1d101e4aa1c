//! Simulates a slow disk with the kernel's limits on reads and writes of a control group. Needs root.

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

/// Limits of a slow disk; reads and writes are limited separately.
#[derive(Clone, Copy)]
pub struct Speed {
    /// Requests a second.
    pub requests: u64,
    /// Bytes a second.
    pub bytes: u64,
}

/// A typical hard disk.
pub const HARD_DISK: Speed = Speed { requests: 150, bytes: 150_000_000 };
/// A typical cloud volume.
pub const VOLUME: Speed = Speed { requests: 3_000, bytes: 125_000_000 };

impl Speed {
    /// Text for the tables.
    pub fn describe(self) -> String {
        format!("{} requests and {} MB a second", self.requests, self.bytes / 1_000_000)
    }
}

/// Operations that a slow disk limits. Reads and writes have separate limits, so neither slows the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Slow {
    /// Reads only.
    Reads,
    /// Reads and writes.
    Both,
}

/// A control group with limits on one disk; dropping the value removes the group.
pub struct SlowDisk {
    group: PathBuf,
    /// Device number of the disk, MAJOR:MINOR.
    device: String,
}

impl SlowDisk {
    /// Limits the disk that holds `path` for processes in the group; `name` must be unique in this process.
    pub fn new(path: &Path, name: &str, slow: Slow, speed: Speed) -> Result<Self> {
        let Speed { requests, bytes } = speed;
        let device = disk(path)?;
        let name = format!("shardpack-bench-{}-{name}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/blkio");
        let (group, files) = if first.exists() {
            let file = |what: &str, limit: u64| (format!("blkio.throttle.{what}_device"), format!("{device} {limit}"));
            let mut files = vec![file("read_iops", requests), file("read_bps", bytes)];
            if slow == Slow::Both {
                files.extend([file("write_iops", requests), file("write_bps", bytes)]);
            }
            (first.join(name), files)
        } else {
            // If the parent group does not delegate the controller, the file is missing, and the write below returns the error.
            let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+io");
            let mut limit = format!("{device} rbps={bytes} riops={requests}");
            if slow == Slow::Both {
                limit += &format!(" wbps={bytes} wiops={requests}");
            }
            (Path::new("/sys/fs/cgroup").join(name), vec![("io.max".to_owned(), limit)])
        };
        fs::create_dir(&group).map_err(|error| format!("no control group ({error})"))?;
        let slow = Self { group, device };
        for (file, limit) in files {
            fs::write(slow.group.join(&file), limit).map_err(|error| format!("{file} cannot be set ({error})"))?;
        }
        Ok(slow)
    }

    /// Read requests so far by all processes in the group.
    pub fn reads(&self) -> Result<u64> {
        let of = |file: &str, parse: &dyn Fn(&str) -> Option<u64>| {
            let text = fs::read_to_string(self.group.join(file)).ok()?;
            text.lines().filter_map(|line| line.strip_prefix(&self.device)).find_map(|counts| parse(counts.trim()))
        };
        let first = of("blkio.throttle.io_serviced", &|counts| counts.strip_prefix("Read ")?.parse().ok());
        let second =
            || of("io.stat", &|counts| counts.split(' ').find_map(|count| count.strip_prefix("rios="))?.parse().ok());
        first.or_else(second).ok_or_else(|| format!("{}: counts no reads", self.group.display()))
    }

    /// The file that adds a process to the group: the process writes its id.
    pub fn processes(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// A command that runs `inner` in the group.
    pub fn enter(&self, inner: &Command) -> Command {
        let mut outer = command("sh", ["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        outer.arg(self.processes()).arg(inner.get_program()).args(inner.get_args());
        debug_assert!(inner.get_envs().next().is_none(), "{} has an environment of its own", typed(inner));
        outer
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // All processes of the group have ended; a group that remains is empty.
        let _ = fs::remove_dir(&self.group);
    }
}

/// Device number of the whole disk that holds `path`: a partition has no limits.
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

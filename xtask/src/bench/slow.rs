//! A slow disk: the kernel's own limits on the reads and the writes of a control group. Needs root.

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

/// How slow a disk is; reads and writes have such limits each.
#[derive(Clone, Copy)]
pub struct Speed {
    /// Requests a second.
    pub requests: u64,
    /// Bytes a second.
    pub bytes: u64,
}

/// A hard disk.
pub const HARD_DISK: Speed = Speed { requests: 150, bytes: 150_000_000 };
/// A volume of a cloud.
pub const VOLUME: Speed = Speed { requests: 3_000, bytes: 125_000_000 };

impl Speed {
    /// As the tables say it.
    pub fn describe(self) -> String {
        format!("{} requests and {} MB a second", self.requests, self.bytes / 1_000_000)
    }
}

/// What a slow disk does slowly; each has a limit of its own, so that neither takes from the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Slow {
    /// Reads alone.
    Reads,
    /// Reads and writes.
    Both,
}

/// A control group to which one disk is slow; gone when this is dropped.
pub struct SlowDisk {
    group: PathBuf,
    /// Numbers of the disk.
    device: String,
}

impl SlowDisk {
    /// Makes the disk that holds `path` slow for those who enter; `name` is not that of another.
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
            // Where the parent does not hand the controller down, the file is missing, and that is said below.
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

    /// Requests to read that those who entered have made so far.
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

    /// The file that a process writes its number to, to enter.
    pub fn processes(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// `inner`, run inside.
    pub fn enter(&self, inner: &Command) -> Command {
        let mut outer = command("sh", ["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        outer.arg(self.processes()).arg(inner.get_program()).args(inner.get_args());
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

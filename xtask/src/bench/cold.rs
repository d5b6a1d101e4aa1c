//! A source that is not in the page cache.

use std::{fs, path::Path};

use crate::{
    Result,
    command::{command, run},
    python,
};

/// How files are dropped from the page cache here.
#[derive(Clone, Copy)]
pub enum Cold {
    /// All of it, by the kernel's switch: names and inodes too.
    DropCaches,
    /// The bytes of the source alone: names and inodes stay.
    Advise,
}

impl Cold {
    /// The best that is allowed here.
    pub fn best() -> Self {
        if drop_caches().is_ok() { Self::DropCaches } else { Self::Advise }
    }

    /// As the tables say it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::DropCaches => "`sync; echo 3 > /proc/sys/vm/drop_caches` before each run",
            Self::Advise => "posix_fadvise(DONTNEED) on each file before each run; names and inodes stay cached",
        }
    }

    /// Drops what lies below `tree`.
    pub fn forget(self, tree: &Path) -> Result<()> {
        match self {
            Self::DropCaches => drop_caches(),
            Self::Advise => run(command(python::system_python()?, ["benches/peers/forget.py"]).arg(tree)),
        }
    }
}

fn drop_caches() -> Result<()> {
    run(&mut command("sync", [""; 0]))?;
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| format!("cannot drop the page cache: {error}"))
}

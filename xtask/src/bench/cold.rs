//! Drops a source from the page cache.

use std::{fs, path::Path};

use crate::{
    Result,
    command::{command, run},
    python,
};

/// How to drop files from the page cache on this machine.
#[derive(Clone, Copy)]
pub enum Cold {
    /// The kernel's switch drops the whole cache, names and inodes included.
    DropCaches,
    /// Drops only the bytes of the source; names and inodes stay cached.
    Advise,
}

impl Cold {
    /// The most thorough way that this machine allows.
    pub fn best() -> Self {
        if drop_caches().is_ok() { Self::DropCaches } else { Self::Advise }
    }

    /// Text for the tables.
    pub fn describe(self) -> &'static str {
        match self {
            Self::DropCaches => "`sync; echo 3 > /proc/sys/vm/drop_caches` before each run",
            Self::Advise => "posix_fadvise(DONTNEED) on each file before each run; names and inodes stay cached",
        }
    }

    /// Drops the files below `tree`.
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

//! Which samples a person wants: the globs of `--include` and `--exclude`, and which files are payloads.

use globset::{Glob, GlobSet, GlobSetBuilder};
use shardpack_format::{Error, Result, component::Component};

use super::{
    names::{self, Name},
    options::Options,
    payload::Payloads,
};

/// Why what a person does not want is left out.
pub(super) const LEFT_OUT: &str = "left out by --include or --exclude";

/// The globs of `--include` and `--exclude`, and which files are payloads.
pub(super) struct Keep {
    payloads: Payloads,
    include: GlobSet,
    exclude: GlobSet,
    no_follow: bool,
}

impl Keep {
    pub fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            payloads: Payloads::new(&options.files)?,
            include: globs("--include", &options.include)?,
            exclude: globs("--exclude", &options.exclude)?,
            no_follow: options.no_follow,
        })
    }

    /// Which files are payloads.
    pub fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// Whether symbolic links are followed.
    pub fn follows(&self) -> bool {
        !self.no_follow
    }

    /// What an entry of a folder is, by its name alone.
    pub fn classify(&self, name: &[u8]) -> Name {
        names::classify(name, |name| self.payloads.takes(name))
    }

    /// What payloads are called: `image`, or the extension of the files.
    pub fn payload(&self) -> &str {
        self.payloads.payload().map_or("image", Component::name)
    }

    /// Whether the person wants nothing that is at `path`, as far as can be told of what cannot be looked at.
    pub fn leaves_out(&self, path: &[u8]) -> bool {
        // What fits a file of any name is of the folder.
        let (inside, path) = (names::join(path, b"\x01"), names::as_path(path));
        self.exclude.is_match(path) || self.exclude.is_match(names::as_path(&inside))
    }

    /// Whether the person wants the sample at `path`.
    pub fn wants(&self, path: &[u8]) -> bool {
        let path = names::as_path(path);
        (self.include.is_empty() || self.include.is_match(path)) && !self.exclude.is_match(path)
    }
}

fn globs(option: &str, patterns: &[String]) -> Result<GlobSet> {
    let wrong = |error: globset::Error| Error::usage(format!("{option}: {error}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(wrong)?);
    }
    set.build().map_err(wrong)
}

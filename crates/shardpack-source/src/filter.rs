//! Decides which samples are packed: by the globs of `--include` and `--exclude`, and by which files are payloads.

use globset::{Glob, GlobSet, GlobSetBuilder};
use shardpack_format::{Error, Result, component::Component};

use super::{
    names::{self, Name},
    options::{OnMissing, Options},
    payloads::Payloads,
};

/// The glob of all files below `folder`, whose name may have the letters of globs.
pub(crate) fn below(folder: &str) -> String {
    // A backslash is an escape, too.
    format!("{}/**", globset::escape(&folder.replace('\\', "\0")).replace('\0', "[\\\\]"))
}

/// As [`below`]; a name that is not UTF-8 is left as it is.
pub(crate) fn below_bytes(folder: &[u8]) -> Vec<u8> {
    str::from_utf8(folder).map_or_else(|_| [folder, b"/**"].concat(), |folder| below(folder).into_bytes())
}

/// The reason for samples that the globs leave out.
pub(super) const LEFT_OUT: &str = "left out by --include or --exclude";

/// The globs of `--include` and `--exclude`, and the payload rules.
pub(super) struct PathFilter {
    payloads: Payloads,
    include: GlobSet,
    exclude: GlobSet,
    no_follow: bool,
    on_missing: Option<OnMissing>,
}

impl PathFilter {
    pub fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            payloads: Payloads::new(&options.files)?,
            include: globs("--include", &options.include)?,
            exclude: globs("--exclude", &options.exclude)?,
            no_follow: options.no_follow,
            on_missing: options.on_missing,
        })
    }

    /// The rules for payload files.
    pub fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// How images without a file of a component are handled.
    pub fn on_missing(&self) -> Option<OnMissing> {
        self.on_missing
    }

    /// Whether symbolic links are followed.
    pub fn follows(&self) -> bool {
        !self.no_follow
    }

    /// Classifies a folder entry by its name alone.
    pub fn classify(&self, name: &[u8]) -> Name {
        names::classify(name, |name| self.payloads.takes(name))
    }

    /// The word for a payload: `image`, or the extension of the files.
    pub fn payload(&self) -> &str {
        self.payloads.payload().map_or("image", Component::name)
    }

    /// Whether the globs exclude everything at `path`, a path that cannot be read.
    pub fn leaves_out(&self, path: &[u8]) -> bool {
        // A glob that matches any file name in the folder excludes the folder.
        let (inside, path) = (names::join(path, b"\x01"), names::as_path(path));
        self.exclude.is_match(path) || self.exclude.is_match(names::as_path(&inside))
    }

    /// Whether the globs keep the sample at `path`.
    pub fn wants(&self, path: &[u8]) -> bool {
        if self.include.is_empty() && self.exclude.is_empty() {
            return true;
        }
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

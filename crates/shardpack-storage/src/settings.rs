//! Settings of storages at URLs, and counters of their transfers.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result};

use crate::address::{Address, is_url};

/// Settings for object stores and web servers beside the environment: names with values, such as `endpoint` or
/// `profile`. docs/how-to/training.md lists them. They apply only to datasets at URLs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreSettings {
    pairs: Vec<(String, String)>,
    /// Folder of a cache, with its limit in bytes.
    cache: Option<(PathBuf, u64)>,
}

impl StoreSettings {
    /// Settings from pairs of name and value.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { pairs: pairs.into_iter().collect(), cache: None }
    }

    /// Caches bytes of shards and indexes in `folder`, at most `limit_bytes`; this process and others with the same
    /// folder do not fetch them again. docs/how-to/training.md describes the cache.
    #[must_use]
    pub fn with_cache(mut self, folder: impl Into<PathBuf>, limit_bytes: u64) -> Self {
        self.cache = Some((folder.into(), limit_bytes));
        self
    }

    /// Parses settings from texts `NAME=VALUE`.
    ///
    /// # Errors
    /// When a text has no `=`.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self> {
        let pair = |text: T| match text.as_ref().split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            // The text may be a secret.
            None => Err(Error::usage("--store: a setting without =, which is not shown").help("write NAME=VALUE")),
        };
        Ok(Self::new(texts.into_iter().map(pair).collect::<Result<Vec<_>>>()?))
    }

    /// Whether there are no settings.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.cache.is_none()
    }

    /// Names with values.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// Folder of the cache, with its limit in bytes.
    pub fn cache(&self) -> Option<(&Path, u64)> {
        self.cache.as_ref().map(|(folder, bytes)| (folder.as_path(), *bytes))
    }

    /// Refuses settings for a path of this machine.
    ///
    /// # Errors
    /// When `path` is not a URL and there are settings.
    pub fn refuse_for(&self, path: &Path) -> Result<()> {
        let Some(folder) = Address::of(path).local() else { return Ok(()) };
        let given = match (self.pairs.is_empty(), &self.cache) {
            (true, None) => return Ok(()),
            (false, _) => "settings of a store are given",
            (true, Some(_)) => "a cache is given",
        };
        Err(Error::usage(format!("{given}, and this is a folder")).in_file(folder))
    }

    /// Refuses settings if none of `paths` is a URL. The error names the first.
    ///
    /// # Errors
    /// See above.
    pub fn refuse_without_url(&self, paths: &[&Path]) -> Result<()> {
        match Self::has_url(paths.iter().copied()) {
            true => Ok(()),
            false => paths.first().map_or(Ok(()), |first| self.refuse_for(first)),
        }
    }

    /// These settings if one of `paths` is a URL, else none: they are meant for other paths then.
    #[must_use]
    pub fn for_any<'p>(&self, paths: impl IntoIterator<Item = &'p Path>) -> Self {
        if Self::has_url(paths) { self.clone() } else { Self::default() }
    }

    fn has_url<'p>(paths: impl IntoIterator<Item = &'p Path>) -> bool {
        paths.into_iter().any(is_url)
    }
}

/// Values may be secrets.
impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pairs.iter().map(|(name, _)| name)).finish()
    }
}

/// Counters of network reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Requests that were sent.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Requests that were sent again, or resumed.
    pub again: u64,
    /// Responses that reported too many requests.
    pub too_many: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

impl Transfers {
    /// The difference to the earlier counters `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            bytes: self.bytes.saturating_sub(before.bytes),
            again: self.again.saturating_sub(before.again),
            too_many: self.too_many.saturating_sub(before.too_many),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
            again: self.again + other.again,
            too_many: self.too_many + other.too_many,
            sent_bytes: self.sent_bytes + other.sent_bytes,
        }
    }
}

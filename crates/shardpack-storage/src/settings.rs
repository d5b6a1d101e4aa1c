//! Settings of storages at URLs, and counters of their transfers.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result};

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

    /// Refuses settings for `folder`, which is not a URL.
    ///
    /// # Errors
    /// When there are settings.
    pub fn refuse_for(&self, folder: &Path) -> Result<()> {
        let given = match (self.pairs.is_empty(), &self.cache) {
            (true, None) => return Ok(()),
            (false, _) => "settings of a store are given",
            (true, Some(_)) => "a cache is given",
        };
        Err(Error::usage(format!("{given}, and this is a folder")).in_file(folder))
    }
}

/// Whether `folder` is the URL of a folder in an object store or on a web server, and not a path. Without the feature
/// `cloud` this is true for any URL, which [`open`](crate::open) then refuses.
pub fn is_url(folder: impl AsRef<Path>) -> bool {
    let Some(text) = folder.as_ref().to_str() else { return false };
    #[cfg(feature = "cloud")]
    return crate::remote::is_url(text);
    #[cfg(not(feature = "cloud"))]
    return text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
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

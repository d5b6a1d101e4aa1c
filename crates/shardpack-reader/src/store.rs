//! Source of the bytes of shards: files, unless a caller provides another store.

use std::{
    fmt,
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, help, manifest::Manifest};

use crate::{files, open_shards::OpenShards};

/// Source of the bytes of one dataset's shards. Shards are numbered from 0, in the order of the manifest.
///
/// Called by many threads at once. Errors should name the file and the byte ([`Error::in_file`], [`Error::at_byte`]).
pub trait Store: Send + Sync {
    /// Checks that shard `shard` exists and has the length in the manifest; reads may follow.
    ///
    /// # Errors
    /// When the check fails, or cannot be made.
    fn open(&self, shard: usize) -> Result<()>;

    /// Fills `into` with bytes of the stored file of shard `shard` from `offset` on.
    ///
    /// # Errors
    /// When the file is shorter, or cannot be read.
    fn read(&self, shard: usize, offset: u64, into: &mut [u8]) -> Result<()>;

    /// The index of shard `shard`; `None` if it is a file beside the manifest.
    ///
    /// # Errors
    /// When it cannot be read.
    fn index(&self, _shard: usize) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// The crop tables of shard `shard`, if it has any; `None` if they would be a file beside its index.
    ///
    /// # Errors
    /// When they cannot be read.
    fn crops(&self, _shard: usize) -> Result<Option<Option<Vec<u8>>>> {
        Ok(None)
    }

    /// How many reads in flight help, as far as is known, if bytes come over a network.
    fn in_flight(&self) -> Option<usize> {
        None
    }

    /// Counters of network reads, if bytes come over a network.
    fn transfers(&self) -> Option<Transfers> {
        None
    }

    /// Marks bytes `range` of the file of shard `shard` as wrong: the next read bypasses every cache.
    fn forget(&self, _shard: usize, _range: Range<u64>) {}

    /// Counters of the cache, if there is one.
    fn cache(&self) -> Option<CacheUse> {
        None
    }
}

/// Settings for object stores and web servers beside the environment: names with values, such as `endpoint` or
/// `profile`. docs/how-to/training.md lists them. They apply only to datasets at URLs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreSettings {
    pub(crate) pairs: Vec<(String, String)>,
    /// Folder of a cache, with its limit in bytes.
    pub(crate) cache: Option<(PathBuf, u64)>,
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
/// `cloud` this is true for any URL, which [`Dataset::open`](crate::Dataset::open) then refuses.
pub fn is_url(folder: impl AsRef<Path>) -> bool {
    let Some(text) = folder.as_ref().to_str() else { return false };
    #[cfg(feature = "cloud")]
    return shardpack_store::is_url(text);
    #[cfg(not(feature = "cloud"))]
    return text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
}

/// Fails if `folder` is a URL.
#[cfg(not(feature = "cloud"))]
pub(crate) fn refuse_url(folder: &Path) -> Result<()> {
    match is_url(folder) {
        false => Ok(()),
        true => Err(Error::usage("this build cannot read URLs (it lacks the feature cloud)")
            .in_file(folder)
            .help("build the crate shardpack-reader with its feature `cloud`")),
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

/// Counters of a cache; see [`StoreSettings::with_cache`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Reads without a request to the server.
    pub reads: u64,
    /// Bytes that came from the cache.
    pub bytes: u64,
    /// Bytes that were added.
    pub added_bytes: u64,
    /// Bytes of other datasets that were removed to make room.
    pub evicted_bytes: u64,
    /// Blocks or whole files that were damaged and fetched again.
    pub damaged_blocks: u64,
    /// Bytes that were fetched and not kept, because the cache or the disk is full, or not writable.
    pub left_out_bytes: u64,
    /// Bytes of all datasets in the cache, at the last count.
    pub held_bytes: u64,
    /// The first error of the system when the cache could not be read or written.
    pub trouble: Option<String>,
}

impl CacheUse {
    /// The sum of both, for one folder.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            bytes: self.bytes + other.bytes,
            added_bytes: self.added_bytes + other.added_bytes,
            evicted_bytes: self.evicted_bytes + other.evicted_bytes,
            damaged_blocks: self.damaged_blocks + other.damaged_blocks,
            left_out_bytes: self.left_out_bytes + other.left_out_bytes,
            held_bytes: self.held_bytes.max(other.held_bytes),
            trouble: self.trouble.or(other.trouble),
        }
    }
}

/// The files beside a manifest.
pub(crate) struct Files {
    /// Path of each shard, with its length in bytes from the manifest.
    shards: Box<[(PathBuf, u64)]>,
    open: OpenShards<File>,
}

impl Files {
    pub fn new(folder: &Path, manifest: &Manifest) -> Self {
        Self::of(manifest.shards.iter().map(|shard| (folder.join(&shard.file), shard.bytes)).collect())
    }

    pub fn of(shards: Box<[(PathBuf, u64)]>) -> Self {
        Self { open: OpenShards::new(shards.len()), shards }
    }

    fn file(&self, shard: usize) -> Result<(Arc<File>, &Path)> {
        let all = self.shards.len();
        let (path, bytes) =
            self.shards.get(shard).ok_or_else(|| Error::usage(format!("shard {shard} of a dataset of {all}")))?;
        Ok((self.open.get(shard, || files::open(path, *bytes))?, path))
    }
}

impl Store for Files {
    fn open(&self, shard: usize) -> Result<()> {
        self.file(shard).map(drop)
    }

    fn read(&self, shard: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        let (file, path) = self.file(shard)?;
        file.read_exact_at(into, offset).map_err(|error| {
            let error = match error.kind() {
                io::ErrorKind::UnexpectedEof => Error::data("cut short since it was opened").help(help::COPY_AGAIN),
                _ => files::io_error("cannot read", error),
            };
            error.at_byte(offset).in_file(path)
        })
    }
}

#[cfg(all(test, not(feature = "cloud")))]
mod tests {
    use super::*;

    #[test]
    fn without_the_feature_urls_are_refused_as_such() {
        for url in ["s3://bucket/x", "https://example.org/x", "ftp://host/x"] {
            for error in [crate::Dataset::open(url).map(drop), crate::Dataset::open_all(url).map(drop)] {
                let error = error.unwrap_err();
                assert!(error.to_string().contains("a URL"), "{error}");
                assert!(error.help_text().is_some_and(|help| help.contains("`cloud`")), "{error}");
            }
        }
        assert!(!is_url("a/b:/c") && !is_url("://x") && refuse_url(Path::new("a")).is_ok());
    }
}

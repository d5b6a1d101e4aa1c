//! Paths of users: which are URLs, and what depends on it while no storage is open.
//!
//! [`open`](crate::open) decides by an [`Address`] too, so both always agree.

use std::path::{Path, PathBuf};

use shardpack_format::Result;

use crate::{Access, sys};

/// A path as a user gives it: of this machine, or the URL of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'p> {
    path: &'p Path,
    url: Option<&'p str>,
}

impl<'p> Address<'p> {
    /// Parses `path`.
    pub fn of(path: &'p (impl AsRef<Path> + ?Sized)) -> Self {
        let path = path.as_ref();
        Self { path, url: path.to_str().filter(|_| is_url(path)) }
    }

    /// The path of this machine; `None` for a URL.
    pub fn local(self) -> Option<&'p Path> {
        self.url.is_none().then_some(self.path)
    }

    /// The URL of a store; `None` for a path of this machine.
    pub fn url(self) -> Option<&'p str> {
        self.url
    }

    /// Name of the network in front of the files, the scheme of the URL; `None` for a path of this machine.
    pub fn network(self) -> Option<&'p str> {
        self.url.and_then(scheme)
    }

    /// Costs and risks of reads there.
    pub fn access(self) -> Access {
        self.url.map_or(Access::FILES, |_| Access::NETWORK)
    }

    /// The same address from any working folder. A URL is one already.
    ///
    /// # Errors
    /// If the working folder is not known.
    pub fn absolute(self) -> Result<PathBuf> {
        let absolute = self.local().map(std::path::absolute).transpose();
        let absolute = absolute.map_err(|error| sys::io_error("cannot determine the full path", self.path, error))?;
        Ok(absolute.unwrap_or_else(|| self.path.to_path_buf()))
    }
}

/// Whether `folder` is the URL of a folder in an object store or on a web server, and not a path. Without the feature
/// `cloud` this is true for any URL, which [`open`](crate::open) then refuses.
pub fn is_url(folder: impl AsRef<Path>) -> bool {
    let Some(text) = folder.as_ref().to_str() else { return false };
    #[cfg(feature = "cloud")]
    return crate::remote::is_url(text);
    #[cfg(not(feature = "cloud"))]
    return scheme(text).is_some();
}

/// Scheme of a URL of any kind, also one that no store has; `None` for a path of this machine.
pub fn scheme(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let scheme = text.split_once("://")?.0;
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_part)).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn a_path_is_of_this_machine_or_the_url_of_a_store() {
        for path in ["a", "/a/b", "a/b:/c", "://x", "3s://x", "s3:/x", "./s3://x"] {
            let address = Address::of(path);
            assert_eq!(
                (address.local(), address.url(), address.network()),
                (Some(Path::new(path)), None, None),
                "{path}"
            );
            assert_eq!(scheme(path), None, "{path}");
            assert!(address.absolute().unwrap().is_absolute() && address.access() == Access::FILES, "{path}");
        }
        let name = Path::new(OsStr::from_bytes(b"s3://\xff"));
        assert_eq!(Address::of(name).local(), Some(name), "no URL has other bytes than UTF-8");
        for (url, network) in [("s3://b/x/", "s3"), ("HTTPS://h", "HTTPS")] {
            let address = Address::of(url);
            assert_eq!((address.local(), address.url(), address.network()), (None, Some(url), Some(network)), "{url}");
            assert_eq!(
                (address.absolute().unwrap().as_path(), address.access()),
                (Path::new(url), Access::NETWORK),
                "{url}"
            );
        }
        assert_eq!(scheme("file:///a"), Some("file"), "a URL, of no store");
    }
}

//! Parses URLs of folders: on a web server, or a prefix in a bucket.

use reqwest::Url;
use shardpack_format::{Error, Result};

use crate::listed::{MAX_KEY_BYTES, is_key};

/// Schemes of readable URLs, with the kind of server.
const SCHEMES: [(&str, Kind); 6] = [
    ("http", Kind::Web),
    ("https", Kind::Web),
    ("s3", Kind::S3),
    ("gs", Kind::Google),
    ("az", Kind::Azure),
    ("abfss", Kind::Azure),
];

/// Kind of server at a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Web,
    S3,
    Google,
    Azure,
}

/// A folder that a URL names.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub kind: Kind,
    /// The URL for display, with a slash at its end.
    pub shown: String,
    /// Identifies the server: its folders share one limit and one pool of connections.
    pub server: String,
    /// For web servers only; its path ends with a slash.
    pub web: Option<Url>,
    /// Bucket or container.
    pub bucket: String,
    /// The Azure account in the URL.
    pub account: Option<String>,
    /// Prefix of the keys: empty, or with a slash at its end.
    pub prefix: String,
}

/// Whether this is a readable URL and not a path.
pub fn is_url(text: &str) -> bool {
    kind(text).is_some()
}

fn kind(text: &str) -> Option<(Kind, &'static str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let (name, kind) = SCHEMES.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name))?;
    (!rest.is_empty()).then_some((*kind, *name, rest))
}

impl Location {
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| Error::usage(format!("{what}: {}", without_secrets(url)));
        let Some((kind, scheme, rest)) = kind(url) else {
            let schemes: Vec<_> = SCHEMES.iter().map(|(name, _)| format!("{name}://")).collect();
            return Err(wrong("no URL of a store").help(format!("a store's URL begins with {}", schemes.join(", "))));
        };
        if kind == Kind::Web {
            return Self::web(url);
        }
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = path.trim_end_matches('/');
        if !prefix.is_empty() && !is_key(prefix) {
            return Err(wrong("a key with empty, . or .. parts, control characters or over 1,024 bytes"));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (bucket, account) = match bucket.split_once('@') {
            // abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH
            Some((container, host)) if kind == Kind::Azure => {
                let account = host.split('.').next().filter(|account| is_bucket(account));
                (container, Some(account.ok_or_else(|| wrong("no account of Azure before the first dot"))?.to_owned()))
            }
            _ => (bucket, None),
        };
        if !is_bucket(bucket) {
            return Err(wrong("no name of a bucket: those are letters, digits, dots, - and _"));
        }
        let at = account.as_ref().map_or_else(String::new, |account| format!("@{account}.dfs.core.windows.net"));
        let server = format!("{scheme}://{bucket}{at}");
        let (shown, bucket) = (format!("{server}/{prefix}"), bucket.to_owned());
        Ok(Self { kind, shown, server, web: None, bucket, account, prefix })
    }

    fn web(url: &str) -> Result<Self> {
        let wrong = |what: &str| Error::usage(format!("{what}: {}", without_secrets(url)));
        let mut base = Url::parse(url).map_err(|error| wrong(&format!("no URL ({error})")))?;
        if base.host_str().is_none() {
            return Err(wrong("no URL of a web server"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("a URL with a password, which would be in every message")
                .help("send it as a header: --store \"header=Authorization: …\""));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(wrong("a URL with ? or #, which is of one object and of no folder"));
        }
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        Ok(Self {
            kind: Kind::Web,
            shown: base.to_string(),
            server: base.origin().ascii_serialization(),
            web: Some(base),
            bucket: String::new(),
            account: None,
            prefix: String::new(),
        })
    }

    /// The URL of an object for display.
    pub fn shown(&self, name: &str) -> String {
        match self.web_object(name) {
            Ok(url) => url.into(),
            Err(_) => format!("{}{name}", self.shown),
        }
    }

    /// The URL of the object `name` of a web server, a path below the folder.
    pub fn web_object(&self, name: &str) -> Result<Url> {
        let mut url = self.web.clone().ok_or_else(|| self.no_name(name))?;
        self.check(name)?;
        {
            let mut path = url.path_segments_mut().map_err(|()| self.no_name(name))?;
            path.pop_if_empty().extend(name.split('/'));
        }
        Ok(url)
    }

    /// The key of the object `name`, a path below the prefix.
    pub fn key(&self, name: &str) -> Result<String> {
        self.check(name)?;
        Ok(format!("{}{name}", self.prefix))
    }

    fn check(&self, name: &str) -> Result<()> {
        if is_key(name) && self.prefix.len() + name.len() <= MAX_KEY_BYTES { Ok(()) } else { Err(self.no_name(name)) }
    }

    fn no_name(&self, name: &str) -> Error {
        Error::data(format!("{name:?} is no name below a URL")).in_file(&self.shown)
    }
}

/// Whether this is a valid name of a bucket, an account or the like.
pub(crate) fn is_bucket(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '$'))
}

/// A URL without user and password, for display.
fn without_secrets(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_buckets_and_prefixes() {
        for (url, server, prefix) in [
            ("s3://bucket", "s3://bucket", ""),
            ("S3://bucket/", "s3://bucket", ""),
            ("gs://my.bucket/a b/100%/é/", "gs://my.bucket", "a b/100%/é/"),
            ("az://container/x", "az://container", "x/"),
            ("abfss://c@account.dfs.core.windows.net/x/y", "abfss://c@account.dfs.core.windows.net", "x/y/"),
            ("https://example.org/a/b", "https://example.org", ""),
            ("http://[::1]:8080/a", "http://[::1]:8080", ""),
        ] {
            let found = Location::parse(url).unwrap();
            assert_eq!((found.server.as_str(), found.prefix.as_str()), (server, prefix), "{url}");
            assert!(found.shown.ends_with('/') && is_url(url), "{url}");
        }
    }

    #[test]
    fn what_names_no_folder_is_refused() {
        for url in [
            "",
            "s3:/bucket",
            "s3://",
            "s3:///key",
            "s3://buc ket/x",
            "s3://bucket/a//b",
            "s3://bucket/../b",
            "s3://bucket/a\nb",
            "gs://user@bucket/x",
            "abfss://c@/x",
            "ftp://host/x",
            "file:///x",
            "https://user:hunter2@host/",
            "https://host/?query",
            "https://host/#part",
        ] {
            let error = Location::parse(url).map(|found| found.shown).expect_err(url);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert!(Location::parse(&format!("s3://b/{}", "k".repeat(1025))).is_err());
        let help = Location::parse("ftp://host/x").unwrap_err().help_text().map(str::to_owned);
        assert!(help.is_some_and(|help| help.starts_with("a store's URL begins with http://")));
    }

    #[test]
    fn names_are_below_the_folder() {
        let web = Location::parse("https://example.org/a b/").unwrap();
        assert_eq!(web.web_object("c d%/é#?").unwrap().as_str(), "https://example.org/a%20b/c%20d%25/%C3%A9%23%3F");
        let bucket = Location::parse("s3://bucket/a b").unwrap();
        assert_eq!(bucket.key("c d%/é#?").unwrap(), "a b/c d%/é#?");
        for name in ["", "..", "a/../b", "/a", "a//b", "a/", "a\0"] {
            assert!(web.web_object(name).is_err() && bucket.key(name).is_err(), "{name:?}");
        }
    }
}

//! Parses user URLs: an object in a folder, a folder, or a pattern.

use shardpack_format::{Error, Result};

/// An object and the URL of its folder.
pub(super) struct Named {
    /// Ends with a slash.
    pub folder: String,
    /// Object name, percent-decoded for web servers.
    pub name: String,
}

/// Scheme, host or bucket, and path without leading slash.
fn parts(url: &str) -> (&str, &str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    (scheme, host, path)
}

/// Whether the URL is on a web server, which cannot list objects.
pub(super) fn is_web(url: &str) -> bool {
    parts(url).0.to_ascii_lowercase().starts_with("http")
}

/// The object that `url` may name; `None` if `url` can only be a folder.
///
/// # Errors
/// If the URL has a query or a fragment.
pub(super) fn named(url: &str) -> Result<Option<Named>> {
    let (scheme, host, path) = parts(url);
    let (before, name) = path.rsplit_once('/').map_or(("", path), |(before, name)| (before, name));
    if name.is_empty() {
        return Ok(None);
    }
    if is_web(url) && path.contains(['?', '#']) {
        let error = Error::usage("a URL with ? or #: only plain file URLs are supported").in_file(format!("{host}/…"));
        return Err(error.help("--store \"header=Authorization: …\" sends credentials to the server"));
    }
    let slash = if before.is_empty() { "" } else { "/" };
    let name = if is_web(url) { decoded(name) } else { name.to_owned() };
    Ok(Some(Named { folder: format!("{scheme}://{host}/{before}{slash}"), name }))
}

/// If `url` is a pattern: the folder before the first part with a wildcard, with its slash.
///
/// # Errors
/// If the server cannot list objects.
pub(super) fn before_glob(url: &str) -> Result<Option<&str>> {
    let (scheme, host, path) = parts(url);
    let is_glob = |c: char| matches!(c, '*' | '[') || c == '?' && !is_web(url);
    let Some(at) = path.find(is_glob) else { return Ok(None) };
    if is_web(url) {
        return Err(no_list(url));
    }
    let start = scheme.len() + "://".len() + host.len() + "/".len();
    Ok(Some(&url[..start + path[..at].rfind('/').map_or(0, |slash| slash + 1)]))
}

/// The error for a web server, which cannot list objects.
pub(super) fn no_list(url: &str) -> Error {
    Error::usage("a web server has no listing").in_file(url).help(
        "name the shards, as in 'https://host/train-{000000..000146}.tar'; a folder of MDS is read by its index.json",
    )
}

/// Percent-decodes a part of a URL; returns it unchanged if the result is not UTF-8.
pub(super) fn decoded(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_into_folder_and_name() {
        for (url, folder, name) in [
            ("s3://b/x.tar", "s3://b/", "x.tar"),
            ("s3://b/a b/x%20y.tar", "s3://b/a b/", "x%20y.tar"),
            ("https://h/a%20b/x%20y%2.tar", "https://h/a%20b/", "x y%2.tar"),
            ("https://h/%ff.tar", "https://h/", "%ff.tar"),
        ] {
            let named = named(url).unwrap().unwrap();
            assert_eq!((named.folder.as_str(), named.name.as_str()), (folder, name), "{url}");
        }
        for url in ["s3://b", "s3://b/", "gs://b/a/"] {
            assert!(named(url).unwrap().is_none(), "{url}");
        }
        assert!(named("https://h/x.tar?sig=secret").err().is_some_and(|error| !error.to_string().contains("secret")));
    }

    #[test]
    fn patterns_begin_behind_the_last_folder_that_is_none() {
        for (url, folder) in [
            ("s3://b/*.tar", Some("s3://b/")),
            ("s3://b/a/x-?.tar", Some("s3://b/a/")),
            ("gs://b/a/[ab]/*/x.tar", Some("gs://b/a/")),
            ("s3://b/a/x.tar", None),
            ("http://[::1]:80/x.tar", None),
        ] {
            assert_eq!(before_glob(url).unwrap(), folder, "{url}");
        }
        assert!(before_glob("https://h/*.tar").unwrap_err().to_string().contains("has no listing"));
    }
}

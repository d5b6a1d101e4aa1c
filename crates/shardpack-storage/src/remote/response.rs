//! Parses the head of a response to a range request and checks that the response holds the requested range.

use std::{ops::Range, time::Duration};

use reqwest::{
    StatusCode,
    header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED, RETRY_AFTER},
};
use shardpack_format::{Error, ErrorKind};

/// Cap on `Retry-After` in seconds; a wait beyond the patience fails the request.
const MAX_WAIT_S: u64 = 24 * 3600;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// A retry may succeed: the failure, and the wait that the server requests.
    Again { what: String, wait: Option<Duration>, too_many: bool },
    /// The object does not exist.
    NotThere,
    /// The object ends before the range begins.
    Shorter(Error),
    /// The server refuses the request; other credentials may be accepted.
    Refused(Error),
    /// A retry fails the same way.
    Never(Error),
}

impl Failed {
    /// An error of the server, not of the object: callers must not count the object as damaged.
    pub fn of_server(what: impl Into<String>) -> Self {
        Self::Never(Error::new(ErrorKind::System, what))
    }

    pub fn retry(what: impl Into<String>) -> Self {
        Self::Again { what: what.into(), wait: None, too_many: false }
    }
}

/// Where the requested bytes lie in the body of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// Bytes before the requested range, from a server that ignores ranges.
    pub skipped: u64,
    /// Length of the object in bytes, if the response has it.
    pub object_bytes: Option<u64>,
    /// Whether the response has the content type of an HTML page.
    pub is_html: bool,
}

/// Identifies one version of an object, by the headers that the server sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub etag: Option<Vec<u8>>,
    pub modified: Option<Vec<u8>>,
    /// Time of the last change in seconds: lists and responses have different fractions of a second.
    pub modified_s: Option<i64>,
}

impl Version {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let value = |name| headers.get(name).map(|value| value.as_bytes().to_vec());
        Self { etag: value(ETAG), modified: value(LAST_MODIFIED), modified_s: None }
    }

    /// A number that is very likely unique to this version, as in a list: a hash of the ETag, or else the time; 0 if
    /// both are missing.
    pub fn stamp(&self) -> i64 {
        match (&self.etag, self.modified_s) {
            (Some(etag), _) => shardpack_format::hash::content(plain_etag(etag)) as i64 | 1,
            (None, Some(seconds)) => seconds << 1,
            (None, None) => 0,
        }
    }

    /// Time of the last change in seconds since 1970, if the server sent it.
    pub fn seconds(&self) -> Option<i64> {
        let parse = |text: &[u8]| {
            let text = std::str::from_utf8(text).ok()?;
            Some(chrono::DateTime::parse_from_rfc2822(text).ok()?.timestamp())
        };
        self.modified_s.or_else(|| self.modified.as_deref().and_then(parse))
    }

    /// Whether this version may be the one listed with `stamp`.
    pub fn is_listed(&self, stamp: i64) -> bool {
        let own = match stamp & 1 {
            1 => Self { modified_s: None, ..self.clone() },
            _ => Self { etag: None, ..self.clone() },
        };
        stamp == 0 || own.stamp() == 0 || own.stamp() == stamp
    }

    /// Whether both versions agree in every header that both have.
    pub fn agrees(&self, other: &Self) -> bool {
        let differ =
            |one: &Option<Vec<u8>>, two: &Option<Vec<u8>>| matches!((one, two), (Some(one), Some(two)) if one != two);
        !differ(&self.etag, &other.etag) && !differ(&self.modified, &other.modified)
    }
}

/// Normalizes an ETag so that lists and responses compare equal: Azure and Google list ETags without quotes. A listed
/// ETag may begin with `W/` without being a weak one: 1 of 4,096 ETags that are base64 of a hash do.
fn plain_etag(etag: &[u8]) -> &[u8] {
    let quoted = etag.strip_prefix(b"W/\"").or_else(|| etag.strip_prefix(b"\""));
    quoted.and_then(|etag| etag.strip_suffix(b"\"")).unwrap_or(etag)
}

/// Parses the head of a response to a request for `range`, or for the whole object if `range` is `None`.
pub(crate) fn read(status: StatusCode, headers: &HeaderMap, range: Option<&Range<u64>>) -> Result<Body, Failed> {
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
        && status.is_success()
    {
        return Err(Failed::Never(
            Error::new(
                ErrorKind::System,
                format!("the server sends it encoded: {}", String::from_utf8_lossy(encoding.as_bytes())),
            )
            .help("serve shards as they are, without compression"),
        ));
    }
    let of_page =
        |value: &HeaderValue| value.as_bytes().get(..9).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/html"));
    let is_html = headers.get(CONTENT_TYPE).is_some_and(of_page);
    match (status, range) {
        (StatusCode::OK, None) => Ok(Body { skipped: 0, object_bytes: length(headers), is_html }),
        // The server ignores ranges.
        (StatusCode::OK, Some(range)) => Ok(Body { skipped: range.start, object_bytes: length(headers), is_html }),
        (StatusCode::PARTIAL_CONTENT, Some(range)) => {
            let text = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
            match content_range(text) {
                Some((found, object_bytes)) if found == *range => Ok(Body { skipped: 0, object_bytes, is_html }),
                _ => Err(Failed::of_server(format!(
                    "requested bytes {}-{}, the server sent the range {text:?}",
                    range.start,
                    range.end - 1
                ))),
            }
        }
        // Redirects of a web server are followed by the client.
        (status, _) if status.is_redirection() => Err(Failed::of_server(format!("the server answers {status}"))),
        (status, _) => Err(refused(status, headers, "")),
    }
}

/// The failure of a response that holds no object; `text` is the body as far as it was read.
pub(crate) fn refused(status: StatusCode, headers: &HeaderMap, text: &str) -> Failed {
    let code = element(text, "Code").unwrap_or_default();
    let said = match (code, element(text, "Message")) {
        ("", _) => status.to_string(),
        (code, None) => format!("{status}, {code}"),
        (code, Some(message)) => format!("{status}, {code}: {}", shortened(message)),
    };
    let is_old = code.starts_with("Expired") || ["RequestTimeTooSkewed", "TokenRefreshRequired"].contains(&code);
    match status {
        StatusCode::NOT_FOUND if ["NoSuchBucket", "ContainerNotFound"].contains(&code) => Failed::Never(
            Error::usage(format!("there is no such bucket: {said}")).help("check the URL and the endpoint"),
        ),
        StatusCode::NOT_FOUND | StatusCode::GONE => Failed::NotThere,
        StatusCode::RANGE_NOT_SATISFIABLE => Failed::Shorter(Error::data("is shorter than it should be")),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Failed::Refused(Error::usage(format!("the server refuses: {said}")))
        }
        StatusCode::BAD_REQUEST if is_old => Failed::Refused(Error::usage(format!("the server refuses: {said}"))),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => Failed::retry(said),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Failed::Again { what: said, wait: retry_after(headers), too_many: true }
        }
        status if status.is_server_error() => {
            Failed::Again { what: said, wait: retry_after(headers), too_many: code == "SlowDown" }
        }
        status if status.is_redirection() => {
            let region = headers.get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
            let error = Error::usage(format!("the server sends to another place: {said}"));
            Failed::Never(match region {
                Some(region) => error.help(format!("the bucket is in {region}: set AWS_REGION={region}")),
                None => error.help("check the region and the endpoint"),
            })
        }
        _ => Failed::of_server(format!("the server answers {said}")),
    }
}

/// Whether `bytes` begin an HTML page. If the content type is HTML, any tag counts.
pub(crate) fn is_page(bytes: &[u8], is_html: bool) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    begins(b"<!doctype html") || begins(b"<html") || is_html && text.starts_with(b"<")
}

/// Whether an object of this name may be an HTML page.
pub(crate) fn is_named_as_page(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".html", ".htm", ".xhtml"].iter().any(|end| name.ends_with(end))
}

/// The text of an XML element without child elements.
pub(crate) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

/// The first line of a server's message, shortened to fit on a screen.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// The failure of a connection; failures that a retry cannot fix are reported at once.
pub(crate) fn failed_way(error: &dyn std::error::Error, is_redirect: bool) -> Failed {
    let what = match causes(error) {
        what if what.is_empty() => error.to_string(),
        what => what,
    };
    if is_redirect {
        return Failed::of_server(format!("refused: {what}"));
    }
    if ["certificate", "UnknownIssuer", "invalid peer"].iter().any(|word| what.contains(word)) {
        let error = Error::new(ErrorKind::System, format!("the server is not trusted: {what}"));
        return Failed::Never(error.help("set your own certificate authorities with SSL_CERT_FILE=ca.pem"));
    }
    Failed::retry(what)
}

/// The innermost causes of an error, because the outer message repeats the URL.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    // A cause may repeat the causes below it.
    causes.dedup_by(|later, earlier| earlier.ends_with(later.as_str()));
    causes.join(": ")
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(reqwest::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// `Retry-After` in seconds. Dates are ignored, because clocks differ.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(MAX_WAIT_S)))
}

/// Parses `bytes FIRST-LAST/LENGTH`; the length may be `*`.
fn content_range(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, length) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.trim().split_once('-')?;
    let range = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
    let length = match length.trim() {
        "*" => None,
        length => Some(length.parse().ok()?),
    };
    Some((range, length))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        all.iter().map(header).collect()
    }

    #[test]
    fn only_the_range_that_was_asked_for_is_taken() {
        let ranges = ["bytes 5-9/20", "bytes 5-9/*", " bytes 5-9/20"];
        for text in ranges {
            let body = read(StatusCode::PARTIAL_CONTENT, &headers(&[("content-range", text)]), Some(&(5..10))).unwrap();
            assert_eq!(body.skipped, 0, "{text}");
        }
        for text in
            ["bytes 5-8/20", "bytes 4-9/20", "bytes 5-9/x", "items 5-9/20", "", "bytes 5-18446744073709551615/20"]
        {
            let answer = read(StatusCode::PARTIAL_CONTENT, &headers(&[("content-range", text)]), Some(&(5..10)));
            assert!(matches!(answer, Err(Failed::Never(_))), "{text}");
        }
        let whole = read(StatusCode::OK, &headers(&[("content-length", "20")]), Some(&(5..10))).unwrap();
        assert_eq!(whole, Body { skipped: 5, object_bytes: Some(20), is_html: false });
        let page = read(StatusCode::OK, &headers(&[("content-type", "Text/HTML; charset=utf-8")]), None).unwrap();
        assert!(page.is_html);
        let encoded = read(StatusCode::OK, &headers(&[("content-encoding", "gzip")]), None);
        assert!(matches!(encoded, Err(Failed::Never(_))));
    }

    #[test]
    fn what_may_be_better_the_next_time_is_told_from_what_will_not() {
        for (status, again) in [
            (503, true),
            (429, true),
            (500, true),
            (502, true),
            (408, true),
            (400, false),
            (403, false),
            (416, false),
            (206, false),
            (302, false),
        ] {
            let answer = read(StatusCode::from_u16(status).unwrap(), &headers(&[("retry-after", "7")]), Some(&(0..1)));
            match answer {
                Err(Failed::Again { wait, too_many, .. }) => {
                    assert!(again, "{status}");
                    assert_eq!(too_many, [503, 429].contains(&status), "{status}");
                    assert_eq!(wait.is_some(), status != 408, "{status}");
                }
                _ => assert!(!again, "{status}"),
            }
        }
        assert!(matches!(read(StatusCode::NOT_FOUND, &headers(&[]), None), Err(Failed::NotThere)));
        assert!(matches!(read(StatusCode::FORBIDDEN, &headers(&[]), None), Err(Failed::Refused(_))));
    }

    #[test]
    fn pages_for_people_are_known_by_their_first_bytes() {
        for page in ["<!DOCTYPE html>\n<html>", "\n <html lang=en>", "\u{feff}<!doctype HTML PUBLIC"] {
            assert!(is_page(page.as_bytes(), false), "{page}");
        }
        for other in ["", "{", "<?xml?>", "<!doctype htm", "\u{89}PNG"] {
            assert!(!is_page(other.as_bytes(), false), "{other}");
        }
        assert!(is_page(b"<", true) && is_page(b"<head>", true) && !is_page(b"{", true));
        assert!(is_named_as_page("a/b.HTML") && !is_named_as_page("manifest.json") && !is_named_as_page("html"));
    }

    #[test]
    fn what_stores_say_in_xml_is_told() {
        let of = |status, code: &str| {
            let text = format!("<?xml?><Error><Code>{code}</Code><Message> why\nmore</Message></Error>");
            refused(StatusCode::from_u16(status).unwrap(), &headers(&[("x-amz-bucket-region", "eu-west-1")]), &text)
        };
        for (status, code, expected) in [
            (404, "NoSuchBucket", "check the URL and the endpoint"),
            (404, "NoSuchKey", "NotThere"),
            (403, "AccessDenied", "Refused"),
            (400, "ExpiredToken", "Refused"),
            (400, "InvalidArgument", "Never(Error { kind: System"),
            (500, "SlowDown", "too_many: true"),
            (500, "InternalError", "too_many: false"),
            (301, "PermanentRedirect", "the bucket is in eu-west-1: set AWS_REGION=eu-west-1"),
        ] {
            let failed = format!("{:?}", of(status, code));
            assert!(failed.contains(expected), "{status} {code}: {failed}");
            assert!(status == 404 || failed.contains(": why") && !failed.contains("more"), "{failed}");
        }
        let nowhere = refused(StatusCode::MOVED_PERMANENTLY, &headers(&[]), "");
        assert!(format!("{nowhere:?}").contains("check the region and the endpoint"), "{nowhere:?}");
    }

    #[test]
    fn versions_differ_where_both_say_so() {
        let of = |all: &[(&'static str, &str)]| Version::from_headers(&headers(all));
        let (one, two, none) = (of(&[("etag", "\"1\"")]), of(&[("etag", "\"2\"")]), of(&[]));
        assert!(one.agrees(&one) && one.agrees(&none) && none.agrees(&two) && !one.agrees(&two));
        let listed = of(&[("etag", "1")]).stamp();
        assert!(one.is_listed(listed) && !two.is_listed(listed) && none.is_listed(listed) && two.is_listed(0));
        for (listed, answered) in [("W/Uj==", "\"W/Uj==\""), ("ab", "W/\"ab\""), ("\"ab\"", "ab"), ("\"", "\"")] {
            assert!(of(&[("etag", answered)]).is_listed(of(&[("etag", listed)]).stamp()), "{listed} {answered}");
        }
        let at = |modified_s| Version { modified_s, ..two.clone() };
        let listed = Version { etag: None, ..at(Some(7)) }.stamp();
        assert!(at(Some(7)).is_listed(listed) && !at(Some(8)).is_listed(listed) && at(None).is_listed(listed));
    }
}

//! What a server answers to a request for a range, and whether that is the range.

use std::{ops::Range, time::Duration};

use reqwest::{
    StatusCode,
    header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, LAST_MODIFIED, RETRY_AFTER},
};
use shardpack_format::{Error, ErrorKind};

/// Longest wait that a server is obeyed for without a look at the patience: longer ones are errors to whoever waits.
const MOST_WAIT_S: u64 = 24 * 3600;

/// Why a request was not answered with what was asked for.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It may be the next time: what happened, and how long the server asks to wait.
    Again { what: String, wait: Option<Duration>, too_many: bool },
    /// There is no such object.
    NotThere,
    /// It will be the same the next time.
    Never(Error),
}

impl Failed {
    /// A server that answers so says nothing of the object: nobody may take it for a bad one.
    pub fn of_server(what: impl Into<String>) -> Self {
        Self::Never(Error::new(ErrorKind::System, what))
    }

    pub fn again(what: impl Into<String>) -> Self {
        Self::Again { what: what.into(), wait: None, too_many: false }
    }
}

/// Bytes of the body of an answer that are what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// Bytes before them, which the server sent though it was not asked.
    pub skipped: u64,
    /// Length of the object in bytes, where the answer says it.
    pub object_bytes: Option<u64>,
}

/// What tells one version of an object from another, as far as the server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub etag: Option<Vec<u8>>,
    pub modified: Option<Vec<u8>>,
}

impl Version {
    pub fn of(headers: &HeaderMap) -> Self {
        let value = |name| headers.get(name).map(|value| value.as_bytes().to_vec());
        Self { etag: value(ETAG), modified: value(LAST_MODIFIED) }
    }

    /// Whether both are of the same version, as far as that can be told.
    pub fn agrees(&self, other: &Self) -> bool {
        let differ =
            |one: &Option<Vec<u8>>, two: &Option<Vec<u8>>| matches!((one, two), (Some(one), Some(two)) if one != two);
        !differ(&self.etag, &other.etag) && !differ(&self.modified, &other.modified)
    }
}

/// What the head of an answer says of a request for `range`, or for all of an object.
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
    match (status, range) {
        (StatusCode::OK, None) => Ok(Body { skipped: 0, object_bytes: length(headers) }),
        // The server knows no ranges.
        (StatusCode::OK, Some(range)) => Ok(Body { skipped: range.start, object_bytes: length(headers) }),
        (StatusCode::PARTIAL_CONTENT, Some(range)) => {
            let text = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
            match content_range(text) {
                Some((found, object_bytes)) if found == *range => Ok(Body { skipped: 0, object_bytes }),
                _ => Err(Failed::of_server(format!(
                    "bytes {}-{} were asked for, the server answers {text:?}",
                    range.start,
                    range.end - 1
                ))),
            }
        }
        (StatusCode::NOT_FOUND | StatusCode::GONE, _) => Err(Failed::NotThere),
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(range)) => {
            Err(Failed::Never(Error::data(format!("has no bytes {}-{}: it is shorter", range.start, range.end - 1))))
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED, _) => {
            Err(Failed::Never(Error::usage(format!("the server refuses: {status}")).help("no credentials were sent")))
        }
        (StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY, _) => Err(Failed::again(status.to_string())),
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, _) => {
            Err(Failed::Again { what: status.to_string(), wait: retry_after(headers), too_many: true })
        }
        (status, _) if status.is_server_error() => {
            Err(Failed::Again { what: status.to_string(), wait: retry_after(headers), too_many: false })
        }
        (status, _) => Err(Failed::of_server(format!("the server answers {status}"))),
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(reqwest::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The seconds that a server asks to wait. A date is not looked at: clocks differ.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(MOST_WAIT_S)))
}

/// `bytes FIRST-LAST/LENGTH`, where the length may be `*`.
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
    use reqwest::header::{HeaderName, HeaderValue};

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
        assert_eq!(whole, Body { skipped: 5, object_bytes: Some(20) });
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
    }

    #[test]
    fn versions_differ_where_both_say_so() {
        let of = |all: &[(&'static str, &str)]| Version::of(&headers(all));
        let (one, two, none) = (of(&[("etag", "\"1\"")]), of(&[("etag", "\"2\"")]), of(&[]));
        assert!(one.agrees(&one) && one.agrees(&none) && none.agrees(&two) && !one.agrees(&two));
    }
}

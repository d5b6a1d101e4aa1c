//! Entry points for fuzzing: bytes as responses, program output and configuration files.

use std::collections::BTreeMap;

use reqwest::{StatusCode, header::HeaderMap};

use crate::remote::{http1, pages, profile, response};

/// Parses bytes as the head of a response to a request for bytes 5 to 9; returns whether the response is accepted.
pub fn head(bytes: &[u8]) -> bool {
    let Some((status, headers)) = http1::parsed(bytes).map(|(_, _, status, headers)| (status, headers)) else {
        return false;
    };
    let taken = response::read(status, &headers, Some(&(5..10)));
    response::Version::from_headers(&headers).stamp();
    taken.is_ok()
}

/// Parses text as a page of a list, and as an error of a store.
pub fn page(text: &str) {
    let (kept, odd) = pages::without_odd(text);
    assert!(kept.len() <= text.len() && (odd.is_empty() || kept.len() < text.len()));
    // A second pass removes nothing.
    let (again, _) = pages::without_odd(&kept);
    assert!(again.len() <= kept.len());
    for status in [400, 403, 404, 503] {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let _ = response::refused(status, &HeaderMap::new(), text);
    }
}

/// Parses text as a profile file and as credentials from a program; returns names and values of the profile `default`.
pub fn profile(text: &str) -> BTreeMap<String, String> {
    let _ = profile::read_printed(text.as_bytes());
    let _ = profile::read_given(text.as_bytes());
    let values = profile::section(text, |name| name == "default");
    let _ = profile::credentials(&values);
    values
}

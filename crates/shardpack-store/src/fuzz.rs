//! Bytes as what servers, programs and people write, for fuzzing.

use std::collections::BTreeMap;

use reqwest::{StatusCode, header::HeaderMap};

use crate::{answer, pages, plain, profile};

/// Bytes as the head of an answer to a request for bytes 5 to 9; whether it is taken.
pub fn head(bytes: &[u8]) -> bool {
    let Some((status, headers)) = plain::parsed(bytes).map(|(_, _, status, headers)| (status, headers)) else {
        return false;
    };
    let taken = answer::read(status, &headers, Some(&(5..10)));
    answer::Version::of(&headers).stamp();
    taken.is_ok()
}

/// Text as a page of a list, and as an error of a store.
pub fn page(text: &str) {
    let (kept, odd) = pages::without_odd(text);
    assert!(kept.len() <= text.len() && (odd.is_empty() || kept.len() < text.len()));
    // What is left has nothing more to be taken out.
    let (again, _) = pages::without_odd(&kept);
    assert!(again.len() <= kept.len());
    for status in [400, 403, 404, 503] {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let _ = answer::refused(status, &HeaderMap::new(), text);
    }
}

/// Text as a file of profiles, and as what gives credentials prints; names and values of the profile `default`.
pub fn profile(text: &str) -> BTreeMap<String, String> {
    let _ = profile::read_printed(text.as_bytes());
    let _ = profile::read_given(text.as_bytes());
    let values = profile::section(text, |name| name == "default");
    let _ = profile::credentials(&values);
    values
}

//! Bytes of packed datasets that lie on servers and not in files.
//!
//! What is read is asked for by range, many at a time, and nothing is kept on a disk. This crate is the one room of the
//! workspace that is asynchronous: callers are plain threads, and wait.
//!
//! Holds at all times: bytes are of the object that was asked for, as long as it should be, and of one version of it; whatever a
//! server sends is bounded by what was asked for. Whether the bytes are right their hashes say, which is the caller's part.

mod answer;
mod http;
mod limiter;
mod patience;
mod runtime;

pub use http::{Counts, Http, Options};

/// Whether this is a URL that can be read from, and not a path.
pub fn is_url(text: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)) && text.len() > scheme.len()
    })
}

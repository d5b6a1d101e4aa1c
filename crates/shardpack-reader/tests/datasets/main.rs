//! Datasets in folders and at URLs, whole and damaged.

#![allow(
    clippy::disallowed_methods,
    clippy::excessive_nesting,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr
)]

#[cfg(feature = "cloud")]
mod cache;
mod damage;
mod dataset;
#[cfg(feature = "cloud")]
mod http;
#[cfg(feature = "cloud")]
mod stores;
mod twin;

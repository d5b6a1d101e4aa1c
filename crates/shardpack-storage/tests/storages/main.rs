//! Storages: the suite that all of them pass, and object stores and web servers with real programs.

#![allow(
    clippy::disallowed_methods,
    clippy::excessive_nesting,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr
)]

#[cfg(feature = "cloud")]
mod listing;
#[cfg(feature = "cloud")]
mod objects;
mod suite;

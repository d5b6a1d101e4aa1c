//! Bytes that lie on servers and in buckets and not in files: read, listed and written.
//!
//! What is read is asked for by range, many at a time, and what is written goes from memory; nothing is kept on a disk. This crate is the one room of the
//! workspace that is asynchronous: callers are plain threads, and wait; each receives what it asked for itself.
//!
//! Holds at all times: bytes are of the object that was asked for, as long as it should be, and of one version of it; whatever a
//! server sends is bounded by what was asked for. Whether the bytes are right their hashes say, which is the caller's part.

mod answer;
mod checked;
mod container;
#[doc(hidden)]
pub mod fuzz;
mod limiter;
mod listing;
mod location;
mod objects;
mod pace;
mod pages;
mod patience;
mod persistence;
mod plain;
mod profile;
mod reading;
mod runtime;
mod service;
mod settings;
mod shared;
mod store;
mod web;
mod writing;

pub use listing::{Object, Odd, Page};
pub use location::{is_key, is_url};
pub use settings::Settings;
pub use store::{Counts, Store};
pub use writing::{Completed, Upload};

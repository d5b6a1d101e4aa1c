//! Reads, lists and writes objects on web servers and in buckets.
//!
//! Reads are range requests, many in flight at a time; writes come from memory; nothing is kept on disk. This module is
//! the only asynchronous code of the workspace: callers are plain threads and block, and each caller receives the
//! bytes of its own requests.
//!
//! Holds at all times: the bytes belong to the requested object, have the expected length and come from one version;
//! the size of a response is bounded by the request. The caller checks the hashes of the bytes.

mod checked;
mod container;
mod folder;
#[doc(hidden)]
pub mod fuzz;
mod http1;
mod limiter;
mod listing;
mod location;
mod maker;
mod object_writer;
mod objects;
mod pace;
mod pages;
mod profile;
mod reading;
mod request;
mod response;
mod retry;
mod retry_budget;
mod runtime;
mod service;
mod settings;
mod shared;
mod store;
mod web;
mod writing;

pub use folder::Remote;
pub use location::is_url;
pub use settings::Settings;
pub use store::Store;
pub use writing::{Completed, Upload};

/// Whether the folder `work` has a record of multipart uploads.
pub(crate) fn has_record(work: &std::path::Path) -> bool {
    object_writer::Record::is_in(work)
}

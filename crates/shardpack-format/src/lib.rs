//! The bytes of shardpack on disk: shards, their index, the manifest, and the order of samples.
//!
//! Nothing here reads a clock or starts a thread, and only [`regular`] opens paths. Input is checked before it is used: no
//! input makes these functions panic, hang, or allocate more than its own length.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod catch_panic;
pub mod component;
pub mod crops;
pub mod error;
pub mod field_names;
pub mod formats;
pub mod hash;
pub mod help;
pub mod image_header;
pub mod index;
pub mod manifest;
pub mod memory;
pub mod mixing;
pub mod npy;
pub mod permutation;
pub mod regular;
pub mod rows;
pub mod sample;
pub mod seekable;
pub mod shell;
pub mod size;
pub mod splits;
pub mod text;
pub mod threads;

pub use error::{Error, ErrorKind, Location, Result};

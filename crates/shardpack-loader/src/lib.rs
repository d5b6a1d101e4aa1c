//! Training from datasets that shardpack packed: the order of an epoch, lanes that read ahead, batches.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod order;

pub use shardpack_format::{Error, ErrorKind, Location, Result};

//! Packs a listed source into a dataset: survey → plan → copy → seal, on one machine or in parts.
//!
//! Options go in, a report comes out. No function here prints; progress goes to a
//! [`Monitor`](shardpack_source::monitor::Monitor). Sources are known as the trait [`Source`](shardpack_source::Source).

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::excessive_nesting))]

pub use shardpack_imaging as imaging;

pub mod copy;
pub mod decoding;
pub mod pack;
pub mod part;
pub mod part_auto;
pub mod plan;
pub mod plan_file;
pub mod seal_dataset;
pub mod selection;
pub mod sidecars;
pub mod transfer;

pub use shardpack_format::{Error, ErrorKind, Result, formats};
// As if they were modules of this crate.
use shardpack_source::{self as source, component_table, ledger, listing, monitor, parallel, sys};
use shardpack_storage::own;

//! The work behind each subcommand of `shardpack`: source → plan → copy → seal, and verify and inspect.
//!
//! Options go in, a report comes out. No function here prints; progress goes to a [`monitor::Monitor`].

#![cfg_attr(test, allow(clippy::excessive_nesting))]

pub use shardpack_foreign as foreign;
pub use shardpack_imaging as imaging;

pub mod adopt;
mod adopted_crops;
mod component_table;
pub mod copy;
pub mod crops;
mod decoding;
pub mod inspect;
pub mod ledger;
pub mod listing;
pub mod monitor;
pub mod pack;
mod parallel;
pub mod part;
pub mod part_auto;
pub mod plan;
pub mod plan_file;
pub mod seal;
pub mod shuffle_quality;
pub mod sidecars;
pub mod source;
pub mod survey;
pub mod sys;
pub mod table;
mod transfer;
pub mod verify;

pub use parallel::start_pool;
pub use shardpack_format::{Error, ErrorKind, Result, formats};
use shardpack_storage::own;

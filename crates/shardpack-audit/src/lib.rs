//! Finished datasets, and shards of other tools: verify, repair, inspect, table, crop tables, adopt.
//!
//! Options go in, a report comes out. No function here prints. Comparison and repair read sources and copy
//! again, so this crate imports `shardpack-source` and `shardpack-packer`; neither imports this crate.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::excessive_nesting))]

pub mod adopt;
mod adopted_components;
mod adopted_crops;
pub mod crops;
pub mod inspect;
pub mod shuffle_quality;
pub mod table;
pub mod verify;

// As if they were modules of this crate.
use shardpack_foreign as foreign;
use shardpack_packer::{copy, decoding, pack, part, plan, plan_file, sidecars, transfer};
use shardpack_source::{self as source, ledger, listing, monitor, parallel, sys};
use shardpack_storage::own;

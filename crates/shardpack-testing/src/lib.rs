//! Test helpers that all other crates share. Not published.
//!
//! [`Packing`] writes small datasets, [`server`] starts web servers and proxies with faults, and [`stores`] starts object stores. The feature
//! `program` adds sources, runs of the program `shardpack`, and independent readers of its output.

#![allow(missing_docs, clippy::new_without_default, clippy::should_implement_trait, reason = "helpers of tests")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::type_complexity
)]

use std::path::{Path, PathBuf};

mod packing;
pub mod server;
pub mod stores;
pub mod sweep;

#[cfg(feature = "program")]
mod bench;
#[cfg(feature = "program")]
mod dataset;
#[cfg(feature = "program")]
pub mod faults;
#[cfg(feature = "program")]
pub mod lists;
#[cfg(feature = "program")]
pub mod lmdb;
pub mod markdown;
#[cfg(feature = "program")]
pub mod places;
#[cfg(feature = "program")]
mod ran;
#[cfg(feature = "program")]
pub mod sets;
#[cfg(feature = "program")]
pub mod shards;
#[cfg(feature = "program")]
pub mod slurm;
#[cfg(feature = "program")]
pub mod values;

pub use self::packing::Packing;
#[cfg(feature = "program")]
pub use self::{
    bench::{Bench, Rng, bad, jpeg, name, photo, photos, png, python},
    dataset::{Dataset, Packed, contents, folder_hash, images, members, plain, sealed},
    ran::{Ran, binary, mounts_work, pack, run, run_after},
};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/shardpack-testing has two parents")
}

/// A path in cargo's folder of this build, such as `target/debug`. Test programs are in its folder `deps`.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join(name)
}

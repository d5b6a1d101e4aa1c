//! Loads datasets of shardpack for training: the order of an epoch, lanes that read ahead, batches.
//!
//! ```
//! use shardpack_loader::{Dataset, Loader, Options, Output, training::{self, Cut, Size, Transform}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let photo = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/photos/animals/cat-ear.jpg"));
//! # shardpack_testing::Packing::default().pack(folder.path(), &vec![photo.to_vec(); 20]);
//! # let folder = folder.path();
//! let transform = training::Options { flip: 0.5, ..training::Options::new(Cut::random_resized(Size::square(224))) };
//! let output = Output::images(Transform::new(transform)?);
//! let loader = Loader::new(Dataset::open(folder)?, Options { batch: 8, seed: 1, output, epochs: 2, ..Options::default() })?;
//! let mut batches = loader.batches(&loader.beginning())?;
//! for epoch in 0..2 {
//!     while let Some(batch) = batches.next()? {
//!         // `[batch.len(), 3, 224, 224] uint8`, and as many labels.
//!         assert_eq!(batch.slots().len(), batch.len() * 3 * 224 * 224);
//!         assert_eq!(batch.labels().len(), batch.len());
//!     }
//!     assert!(batches.receipt().is_of(&loader.expected(epoch)?));
//! }
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! The order of an epoch is a function of the dataset, the seed, the epoch and the number of lanes ([`order`]), and of lengths
//! if batches are by length ([`Bucket`]). Ranks exchange
//! nothing, and all ranks get the same number of batches. A run resumes from a small [`State`] at any batch, with any number
//! of ranks. [`Batches::receipt`] proves which samples were seen. The content of a batch does not depend on the number of
//! threads. No failure is silent: it is an error, or a sample that the receipt names ([`OnBad`]).
//!
//! # Forks and threads
//!
//! [`Loader`] has no threads, so both sides of a fork can use it. [`Batches`] and [`Samples`] have threads: they belong to
//! the process that started them, and return an error in a child process.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::excessive_nesting, clippy::unwrap_used, clippy::panic))]

pub mod advice;
mod batch;
mod batches;
mod bucket;
mod budget;
mod classes;
mod cold;
mod columns;
mod condition;
mod epoch_runs;
mod facts;
mod feed;
mod fill_slot;
mod fork_guard;
mod loader;
pub mod measure;
mod mix;
mod network;
pub mod order;
mod output;
mod plan;
pub mod quality;
mod receipt;
mod ring;
mod roles;
mod run;
mod samples;
mod slots;
mod state;
mod stats;
mod subset;

pub use batch::{Batch, NO_LABEL};
pub use batches::Batches;
pub use bucket::Bucket;
pub use columns::{Column, Values};
pub use condition::{Condition, Lengths};
pub use loader::{Loader, Options};
pub use mix::{MixPart, Times};
pub use output::{OnBad, Output, Own};
pub use receipt::{Bad, Expected, Receipt};
pub use roles::Role;
pub use run::{Fetched, Payload};
pub use samples::Samples;
pub use slots::{Memory, Views};
pub use state::State;
pub use stats::Stats;
pub use subset::Subset;

pub use shardpack_format::{Error, ErrorKind, Location, Result, component::Form};
pub use shardpack_imaging::{Budget, Limits, training};
pub use shardpack_reader::{Dataset, Sample, Storage, StoreSettings, Transfers};

// Compiles the page's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/training.md")]
struct Training;

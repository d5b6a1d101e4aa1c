//! Sources: what is there, and its bytes.
//!
//! A source lists its samples once ([`Found`]) and then hands out their bytes in any order, to many threads. `pack`
//! knows nothing else of where images come from.

pub mod image_folder;
pub mod medium;
mod open;
mod walk;

use std::collections::BTreeMap;

use shardpack_format::{Error, Result};

use crate::{ledger::Unpacked, listing::Listing};

pub use open::FolderReader;

/// Whether `extension`, in lower case and without its dot, is one of an image.
pub fn is_image_extension(extension: &[u8]) -> bool {
    walk::EXTENSIONS.iter().any(|known| known.as_bytes() == extension)
}

/// Why one sample cannot be had; the policy of `--on-bad` decides what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// What came of reading one sample.
#[derive(Debug)]
pub enum ReadError {
    /// This sample is bad; others may be fine.
    Refused(Refusal),
    /// The machine is not right: nothing goes on.
    Fatal(Error),
}

/// Hands out the bytes of listed samples.
pub trait Source: Sync {
    /// Reads sample `number` of the listing over the whole of `payload`, which is as long as the listing says.
    ///
    /// # Errors
    /// [`ReadError::Refused`] when it cannot be read, or is no longer as long as listed.
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError>;
}

/// What a walk found of one dataset.
#[derive(Debug, Default)]
pub struct Found {
    /// Name of the split; `None` for a source without splits.
    pub split: Option<String>,
    /// The samples.
    pub listing: Listing,
    /// Images that are no samples: unreadable, empty, too large, or filtered.
    pub unpacked: Vec<Unpacked>,
    /// Other files by the reason why they are no samples.
    pub ignored: BTreeMap<String, u64>,
}

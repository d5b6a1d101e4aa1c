//! The result of listing folders: samples, images that are not samples, and other files by reason.

use std::collections::BTreeMap;

use shardpack_format::text;

use super::{companions::Companions, links::Outside};
use crate::{
    ledger::{Fate, Unpacked},
    listing,
};

/// Maximum length of an image in bytes: a record with its framing must stay below 4 GiB.
const MAX_IMAGE_BYTES: u64 = u32::MAX as u64 - (1 << 20);

/// Result of a walk.
#[derive(Default)]
pub(super) struct Outcome {
    /// Folders with samples.
    pub samples: listing::Builder,
    /// Images that are not samples.
    pub unpacked: Vec<Unpacked>,
    /// Other files, counted by reason.
    pub ignored: BTreeMap<String, u64>,
    /// Samples reached through links out of the source.
    pub outside: Outside,
    /// Files of components in other folders than the images.
    pub companions: Companions,
}

impl Outcome {
    pub(super) fn ignore(&mut self, reason: String) {
        *self.ignored.entry(reason).or_default() += 1;
    }
}

pub(super) fn unpacked(path: Vec<u8>, class: Option<u32>, fate: Fate, reason: &str) -> Unpacked {
    Unpacked { path, class, fate, reason: reason.into() }
}

/// Checks the length of an image in bytes; fails with the reason if the file is not a sample.
pub(super) fn sized(bytes: u64) -> Result<u32, String> {
    match bytes {
        0 => Err("empty file".to_owned()),
        bytes if bytes > MAX_IMAGE_BYTES => Err(format!("{bytes} bytes: a sample must stay below 4 GiB")),
        // Checked above: fits 32 bits.
        bytes => Ok(bytes as u32),
    }
}

/// Checks the length in bytes of `file`, a component next to an image; fails with the reason if it cannot be packed.
pub(super) fn beside(file: &[u8], bytes: u64) -> Result<u32, String> {
    match bytes > MAX_IMAGE_BYTES {
        true => {
            let file = text::shown(file);
            Err(format!("{file} beside it has {bytes} bytes, a sample must stay below 4 GiB"))
        }
        // Checked: fits 32 bits.
        false => Ok(bytes as u32),
    }
}

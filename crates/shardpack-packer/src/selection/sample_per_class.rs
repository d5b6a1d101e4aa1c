//! Selects a few images of each class, for `--sample-per-class`.
//!
//! The choice depends only on seed and path: an image that is added or removed changes at most one other
//! choice.

use shardpack_format::hash;

use super::{Fates, path};
use crate::{ledger::Fate, listing::Listing};

/// Rank of an image in its class.
fn rank(path: &[u8], seed: u64) -> u128 {
    hash::content(&[&seed.to_le_bytes(), path].concat())
}

/// Fates of all but `most` images of each class.
pub(super) fn keep(listing: &Listing, most: u64, seed: u64) -> Fates {
    let mut ranked: Vec<(Option<u32>, u128, u64)> =
        (0..listing.len()).map(|number| (listing.class(number), rank(&path(listing, number), seed), number)).collect();
    ranked.sort_unstable();
    let mut fates = Fates::new();
    for class in ranked.chunk_by(|a, b| a.0 == b.0) {
        let beyond = class.iter().skip(usize::try_from(most).unwrap_or(usize::MAX));
        let reason = || format!("one of {} of its class, --sample-per-class keeps {most}", class.len());
        fates.extend(beyond.map(|(_, _, number)| (*number, (Fate::Filtered, reason()))));
    }
    fates
}

//! Finds near duplicates: images that look alike, for `--near-duplicates`. They are reported and never left
//! out.
//!
//! Each image is decoded and reduced to 64 bits that survive another size or coding
//! ([`image_hash`]). Hashes that differ in few bits are found by bands: if at most four
//! bits differ, one of five bands must be equal. A flat image looks like every other flat image; so the survey
//! only reports, and the user decides.

use std::collections::{BTreeMap, HashMap};

use shardpack_format::Result;
use shardpack_imaging::{Limits, image_hash};

use super::{Choice, Fates, duplicates, parallel_reads::ImageReader};
use crate::{
    decoding,
    ledger::Fate,
    monitor::{Monitor, Phase},
    source::{Source, SourceListing},
};

/// Maximum number of different bits in the hashes of images that look alike.
const MAX_BITS: u32 = 4;
/// Number of bits of each band.
const BANDS: [u32; 5] = [13, 13, 13, 13, 12];

/// Notes for images that look like an earlier image, for each dataset.
pub(super) fn find(
    source: &dyn Source,
    found: &mut [SourceListing],
    choice: &Choice,
    monitor: &dyn Monitor,
) -> Result<Vec<Fates>> {
    let mut hashed: BTreeMap<u64, Vec<duplicates::Image>> = BTreeMap::new();
    let mut fates = Vec::new();
    for (dataset, one) in found.iter().enumerate() {
        let reader = ImageReader::open(source, one.split.as_deref(), &one.listing, monitor)?;
        let numbers = (0..one.listing.len()).collect();
        // Decoding needs a core.
        let hashes = reader.each(Phase::Looking, numbers, choice.jobs, monitor, |number, buffer| {
            let read = reader.whole(number, buffer)?;
            // An image that does not decode has no duplicates; --check decides whether it is packed.
            let Some(()) = read else { return Ok(None) };
            match decoding::checked(buffer, &Limits::default(), image_hash) {
                Ok(hash) => Ok(Some(hash)),
                Err(refused) => decoding::verdict(&refused, || one.listing.shown(number)).map(|_| None),
            }
        })?;
        hashes.into_iter().for_each(|(number, hash)| hashed.entry(hash).or_default().push((dataset, number)));
        fates.push(super::bad(reader.into_unread()));
    }
    let hashes: Vec<u64> = hashed.keys().copied().collect();
    let near = nearest(&hashes);
    let mut count = 0;
    for (at, hash) in hashes.iter().enumerate() {
        let images = &hashed[hash];
        let other = near.get(&at).map(|other| (hashed[&hashes[*other]][0], distance(*hash, hashes[*other])));
        for (number, image) in images.iter().enumerate() {
            let like = if number > 0 { Some((images[0], 0)) } else { other };
            if let Some((like, bits)) = like {
                count += 1;
                let reason = format!("looks like {} ({bits} of 64 bits differ)", duplicates::name(found, &like));
                fates[image.0].insert(image.1, (Fate::Kept, reason));
            }
        }
    }
    if let Some(first) = found.first_mut() {
        first.notes.push(match count {
            0 => "no images look alike".to_owned(),
            1 => "1 image looks like another; the ledger names it, and it stays".to_owned(),
            _ => format!("{count} images look like another; the ledger names them, and they stay"),
        });
    }
    Ok(fates)
}

/// Number of different bits.
fn distance(one: u64, other: u64) -> u32 {
    (one ^ other).count_ones()
}

/// For each of `hashes`, which must all differ, the nearest earlier hash that is near, by position.
fn nearest(hashes: &[u64]) -> HashMap<usize, usize> {
    let mut near: HashMap<usize, usize> = HashMap::new();
    let mut shift = 0;
    for bits in BANDS {
        let mut bands: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, hash) in hashes.iter().enumerate() {
            let of_band = bands.entry(hash >> shift & ((1 << bits) - 1)).or_default();
            let bits_to = |other: &usize| distance(*hash, hashes[*other]);
            let close = of_band.iter().copied().chain(near.get(&at).copied());
            if let Some(closest) =
                close.min_by_key(|other| (bits_to(other), *other)).filter(|it| bits_to(it) <= MAX_BITS)
            {
                near.insert(at, closest);
            }
            of_band.push(at);
        }
        shift += bits;
    }
    near
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bands_find_what_comparing_all_finds(seeds in prop::collection::vec((0u64..4, prop::collection::vec(0u32..64, 0..7)), 0..40)) {
            let mut hashes: Vec<u64> = seeds
                .iter()
                .map(|(seed, flips)| flips.iter().fold(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), |hash, bit| hash ^ 1 << bit))
                .collect();
            hashes.sort_unstable();
            hashes.dedup();
            let slow: HashMap<usize, usize> = (0..hashes.len())
                .filter_map(|at| {
                    let closest = (0..at).min_by_key(|other| (distance(hashes[at], hashes[*other]), *other))?;
                    (distance(hashes[at], hashes[closest]) <= MAX_BITS).then_some((at, closest))
                })
                .collect();
            prop_assert_eq!(nearest(&hashes), slow);
        }
    }
}

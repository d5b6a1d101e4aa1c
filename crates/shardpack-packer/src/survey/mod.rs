//! Survey: what goes in, settled between source and plan.
//!
//! Whatever a person says about the images beyond their paths is decided here: classes, kinds, sizes, images that are there
//! twice, how many of a class. Each image that is left out is named with the reason. The plan knows nothing of this: it
//! gets a shorter listing. Where bytes have to be looked at, it is in the order in which they lie, by many threads; an image
//! that cannot be read is bad, and `--on-bad` decides.
//!
//! Holds at all times: what comes out follows from the source and the choice alone.

mod classes;
mod duplicates;
mod header_filter;
mod near_duplicates;
mod parallel_reads;
mod sample_per_class;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use shardpack_format::{Error, Result, image_header::Kind, size, text};

pub use classes::{ClassList, ClassMap};
pub(crate) use parallel_reads::ImageReader;

use crate::{
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::Monitor,
    source::{Found, Origin},
};

/// What a person says about what goes in. By default everything does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Other names for classes.
    pub class_map: Option<ClassMap>,
    /// The classes in the order of their labels; images of others are left out.
    pub classes: Option<ClassList>,
    /// Only images of these kinds; all, if there are none.
    pub kinds: Vec<Kind>,
    /// Only images whose shorter side has at least so many pixels.
    pub min_side: Option<u32>,
    /// Only images of at most so many pixels.
    pub max_pixels: Option<u64>,
    /// Of images with the same bytes in one split, only the first.
    pub dedup: bool,
    /// Name images that are in two splits or two classes.
    pub leaks: bool,
    /// Name images that look like another one.
    pub near: bool,
    /// Only so many of each class and split.
    pub per_class: Option<u64>,
    /// Which of a class, with [`Choice::per_class`].
    pub seed: u64,
    /// Threads that look at images.
    pub threads: usize,
    /// Threads that decode images.
    pub jobs: usize,
}

impl Choice {
    fn looks(&self) -> bool {
        !self.kinds.is_empty() || self.min_side.is_some() || self.max_pixels.is_some()
    }
}

/// What is left out of one dataset, or is to be known of it: by number in its listing, what becomes of it, and why.
type Fates = BTreeMap<u64, (Fate, String)>;

/// Applies `choice` to what was found of `source`: one for each split.
///
/// # Errors
/// When the source cannot be opened, or nothing is left of a dataset.
pub fn survey(source: &Origin, found: &mut [Found], choice: &Choice, monitor: &dyn Monitor) -> Result<()> {
    let images: Vec<u64> = found.iter().map(|found| found.listing.len()).collect();
    classes::apply(found, choice)?;
    if choice.looks() {
        for one in found.iter_mut() {
            let (fates, kinds) = header_filter::filter(source, one, choice, monitor)?;
            settle(one, fates);
            one.kinds = kinds;
        }
    }
    if choice.dedup || choice.leaks {
        let fates = duplicates::find(source, found, choice, monitor)?;
        found.iter_mut().zip(fates).for_each(|(one, fates)| settle(one, fates));
    }
    if choice.near {
        let fates = near_duplicates::find(source, found, choice, monitor)?;
        found.iter_mut().zip(fates).for_each(|(one, fates)| settle(one, fates));
    }
    if let Some(most) = choice.per_class {
        found.iter_mut().for_each(|one| settle(one, sample_per_class::keep(&one.listing, most, choice.seed)));
    }
    for (one, images) in found.iter().zip(images) {
        if one.listing.is_empty() && images > 0 {
            let first = |fate| one.unpacked.iter().find(move |unpacked| unpacked.fate == fate);
            let left_out = first(Fate::Filtered).or_else(|| first(Fate::Skipped));
            let said =
                |first: &Unpacked| size::first_of(images, &format!("{}: {}", text::shown(&first.path), first.reason));
            let reason = left_out.map_or_else(String::new, said);
            return Err(
                Error::usage(format!("{}{reason}", size::all_are(images, "image", "left out"))).in_file(source.path())
            );
        }
    }
    Ok(())
}

/// Takes what has a fate out of the listing, but for what is only to be known, and notes it.
fn settle(found: &mut Found, fates: Fates) {
    if fates.is_empty() {
        return;
    }
    let listing = Arc::clone(&found.listing);
    let is_left_out = |number: u64| fates.get(&number).is_some_and(|(fate, _)| *fate != Fate::Kept);
    found.listing = Arc::new(listing.chosen(&listing.classes, Some, |number| !is_left_out(number)));
    // What goes is not in the shards, whatever there was to know of it.
    let gone: HashSet<Vec<u8>> =
        fates.keys().filter(|number| is_left_out(**number)).map(|number| path(&listing, *number)).collect();
    found.unpacked.retain(|unpacked| unpacked.fate != Fate::Kept || !gone.contains(&unpacked.path));
    found.unpacked.extend(fates.into_iter().map(|(number, (fate, reason))| Unpacked {
        path: path(&listing, number),
        class: listing.class(number),
        fate,
        reason: reason.into(),
    }));
    found.unpacked.sort_by(order);
}

/// What becomes of images that could not be read: they are bad, and `--on-bad` decides.
fn bad(unread: BTreeMap<u64, String>) -> Fates {
    unread.into_iter().map(|(number, why)| (number, (Fate::Skipped, why))).collect()
}

fn path(listing: &Listing, number: u64) -> Vec<u8> {
    let mut path = Vec::new();
    listing.path(number, &mut path);
    path
}

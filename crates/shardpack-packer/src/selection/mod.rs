//! Survey: chooses samples, between listing and plan.
//!
//! Filters that need more than a path are applied here: classes, kinds, sizes, duplicate images, number of
//! images of a class. Each image that is left out is recorded with the reason, and the plan gets a shorter
//! listing. Images are read in physical order by many threads; an image that cannot be read is bad, and
//! `--on-bad` decides.
//!
//! Holds at all times: the result depends only on the source and the choice.

mod classes;
mod components;
mod duplicates;
mod header_filter;
mod near_duplicates;
mod parallel_reads;
mod sample_per_class;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use shardpack_format::{Error, Result, component::Component, image_header::Kind, size, text};

pub use classes::{ClassList, ClassMap};
pub(crate) use parallel_reads::ImageReader;

use crate::{
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::Monitor,
    source::{Source, SourceListing},
};

/// Filters for samples. The default keeps all samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// New names for classes.
    pub class_map: Option<ClassMap>,
    /// The classes in the order of their labels; images of others are left out.
    pub classes: Option<ClassList>,
    /// Only images of these kinds; all kinds if empty.
    pub kinds: Vec<Kind>,
    /// Only images whose shorter side has at least this many pixels.
    pub min_side: Option<u32>,
    /// Only images of at most this many pixels.
    pub max_pixels: Option<u64>,
    /// Keep only the first of the samples with the same bytes, class and components in one split.
    pub dedup: bool,
    /// Report images that are in two splits or two classes.
    pub leaks: bool,
    /// Report images that look like another image.
    pub near: bool,
    /// Keep only this many images of each class and split.
    pub per_class: Option<u64>,
    /// Seed for the choice with [`Choice::per_class`].
    pub seed: u64,
    /// Number of threads that read images.
    pub threads: usize,
    /// Number of threads that decode images.
    pub jobs: usize,
}

impl Choice {
    fn looks(&self) -> bool {
        !self.kinds.is_empty() || self.min_side.is_some() || self.max_pixels.is_some()
    }
}

/// Images of one dataset that are left out or have a note: fate and reason by number in its listing.
type Fates = BTreeMap<u64, (Fate, String)>;

/// Applies `choice` to the listings of `source`: one for each split.
///
/// # Errors
/// If the source cannot be opened, or a dataset has no samples left.
pub fn survey(
    source: &dyn Source,
    found: &mut [SourceListing],
    choice: &Choice,
    with: &[Component],
    monitor: &dyn Monitor,
) -> Result<()> {
    let images: Vec<u64> = found.iter().map(|found| found.listing.len()).collect();
    refuse_shared_files(choice, source, with)?;
    classes::apply(found, choice)?;
    if choice.looks() {
        for one in found.iter_mut() {
            let (fates, kinds) = header_filter::filter(source, one, choice, monitor)?;
            remove_left_out(one, fates);
            one.kinds = kinds;
        }
    }
    if choice.dedup || choice.leaks {
        let fates = duplicates::find(source, found, choice, monitor)?;
        found.iter_mut().zip(fates).for_each(|(one, fates)| remove_left_out(one, fates));
    }
    if choice.near {
        let fates = near_duplicates::find(source, found, choice, monitor)?;
        found.iter_mut().zip(fates).for_each(|(one, fates)| remove_left_out(one, fates));
    }
    if let Some(most) = choice.per_class {
        found.iter_mut().for_each(|one| remove_left_out(one, sample_per_class::keep(&one.listing, most, choice.seed)));
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

/// Fails if duplicates are to be left out and images share a file with their objects: files do not tell whether objects are equal.
fn refuse_shared_files(choice: &Choice, source: &dyn Source, with: &[Component]) -> Result<()> {
    let is_shared = |kind: &&Component| kind.conversion().is_some_and(|one| one.file.is_of_many());
    match with.iter().find(is_shared).filter(|_| choice.dedup) {
        None => Ok(()),
        Some(kind) => Err(Error::usage(format!(
            "--dedup exact compares components, and {} are from one file for many images",
            kind.column()
        ))
        .in_file(source.path())
        .help("pack without --dedup, and then shardpack convert the dataset with --dedup exact")),
    }
}

/// Removes images with a fate from the listing, except [`Fate::Kept`], and records them.
fn remove_left_out(found: &mut SourceListing, fates: Fates) {
    if fates.is_empty() {
        return;
    }
    let listing = Arc::clone(&found.listing);
    let is_left_out = |number: u64| fates.get(&number).is_some_and(|(fate, _)| *fate != Fate::Kept);
    found.listing = Arc::new(listing.chosen(&listing.classes, Some, |number| !is_left_out(number)));
    // An image that is left out needs no note.
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

/// Fates of images that could not be read: they are bad, and `--on-bad` decides.
fn bad(unread: BTreeMap<u64, String>) -> Fates {
    unread.into_iter().map(|(number, why)| (number, (Fate::Skipped, why))).collect()
}

fn path(listing: &Listing, number: u64) -> Vec<u8> {
    let mut path = Vec::new();
    listing.path(number, &mut path);
    path
}

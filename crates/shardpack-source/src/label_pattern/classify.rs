//! Classes of the files whose names match a pattern of labels.
//!
//! Holds at all times: a file whose name does not match is reported as bad.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use shardpack_format::{size, text};

use super::{
    super::{
        SourceListing,
        filter::PathFilter,
        names::{self, Name},
    },
    LabelPattern,
};
use crate::{
    ledger::{Fate, Unpacked, order},
    listing::Listing,
};

/// Fewest samples for a note that each has a label of its own.
const LEAST_OWN_LABELS: u64 = 8;

impl LabelPattern {
    /// Why an image cannot be packed whose name does not match.
    fn mismatch(&self) -> String {
        format!("its name does not match --label-pattern {}", self.text)
    }

    /// A note with the number of images whose names do not match, and the first image.
    fn mismatches(&self, found: &[SourceListing]) -> Option<String> {
        let reason = self.mismatch();
        let mismatched = || found.iter().flat_map(|one| &one.unpacked).filter(|unpacked| *unpacked.reason == *reason);
        let (count, first) = (mismatched().count() as u64, mismatched().next()?);
        let do_not = if count == 1 { "does not match" } else { "do not match" };
        let (names, first) =
            (size::counted(count, "name"), size::first_of(count, &text::shown(&first.path).to_string()));
        Some(format!("{names} {do_not} --label-pattern {}{first}", self.text))
    }

    /// Gives the samples of `found`, which have no classes, the classes of their names. All splits share one list of
    /// classes; as with folders, images that are left out have a class too.
    pub(crate) fn classify(&self, mut found: Vec<SourceListing>, keep: &PathFilter) -> Vec<SourceListing> {
        let is_image = |unpacked: &Unpacked| matches!(keep.classify(names::cut(&unpacked.path).1), Name::Payload);
        let mut labels = BTreeSet::<&[u8]>::new();
        for one in &found {
            labels.extend((0..one.listing.len()).filter_map(|number| self.label(one.listing.name(number))));
            let left_out = one.unpacked.iter().filter(|unpacked| is_image(unpacked));
            labels.extend(left_out.filter_map(|unpacked| self.label(names::cut(&unpacked.path).1)));
        }
        let classes: Arc<Vec<Box<[u8]>>> = Arc::new(labels.into_iter().map(Box::from).collect());
        let numbers: HashMap<&[u8], u32> = classes.iter().map(|class| &class[..]).zip(0..).collect();
        let class_of = |name: &[u8]| self.label(name).and_then(|label| numbers.get(label).copied());
        for one in &mut found {
            let images = one.unpacked.iter_mut().filter(|unpacked| is_image(unpacked));
            images.for_each(|unpacked| unpacked.class = class_of(names::cut(&unpacked.path).1));
            let of_number: Vec<_> = (0..one.listing.len()).map(|number| class_of(one.listing.name(number))).collect();
            for (number, _) in of_number.iter().enumerate().filter(|(_, class)| class.is_none()) {
                let mut path = Vec::new();
                one.listing.path(number as u64, &mut path);
                let reason = self.mismatch().into();
                one.unpacked.push(Unpacked { path, class: None, fate: Fate::Skipped, reason });
            }
            one.unpacked.sort_unstable_by(order);
            one.listing = Arc::new(one.listing.classified(&classes, |number| of_number[number as usize]));
        }
        let notes = [self.mismatches(&found), note(&found)];
        if let Some(first) = found.first_mut() {
            first.notes.extend(notes.into_iter().flatten());
        }
        found
    }
}

/// A note if labels that were found in names are probably none.
fn note(found: &[SourceListing]) -> Option<String> {
    let listings: Vec<&Listing> = found.iter().map(|one| &*one.listing).collect();
    let samples: u64 = listings.iter().map(|listing| listing.len()).sum();
    let used: BTreeSet<u32> =
        listings.iter().flat_map(|listing| listing.folders()).filter_map(|folder| folder.class).collect();
    let first = used.first().and_then(|class| listings.first()?.classes.get(*class as usize));
    match (used.len() as u64, first) {
        (1, Some(label)) if samples > 1 => {
            Some(format!("all {} have one label, {}", size::counted(samples, "sample"), text::shown(label)))
        }
        (classes, _) if classes == samples && samples >= LEAST_OWN_LABELS => {
            Some(format!("each of {} has a label of its own", size::counted(samples, "sample")))
        }
        _ => None,
    }
}

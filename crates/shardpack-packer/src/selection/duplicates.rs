//! Finds duplicates: images with the same bytes, for `--dedup exact` and `--leaks`. A duplicate also has the same class and components.
//!
//! The length distinguishes most images, and the first bytes most others, so few images are read completely.
//! Images with equal hashes are then compared byte by byte: no image is left out because of a hash alone.

use std::collections::BTreeMap;

use shardpack_format::{Result, hash};

use super::{
    Choice, Fates,
    components::{Relation, Samples},
    parallel_reads::ImageReader,
};
use crate::{
    ledger::Fate,
    monitor::{Monitor, Phase},
    source::{Source, SourceListing},
};

/// First bytes that are compared for images of equal length; a page of most file systems.
const HEAD_BYTES: usize = 4096;

/// An image: number of its dataset, and number in its listing.
pub(super) type Image = (usize, u64);

/// Fates of duplicate images, for each dataset. The first image of a dataset stays.
pub(super) fn find(
    source: &dyn Source,
    found: &mut [SourceListing],
    choice: &Choice,
    monitor: &dyn Monitor,
) -> Result<Vec<Fates>> {
    let (groups, related, mut fates) = groups(source, found, choice, monitor)?;
    let (mut duplicates, mut conflicts, mut leaks, mut splits) = (0u64, 0u64, 0u64, 0u64);
    for group in &groups {
        let is_in_splits = group.iter().any(|(dataset, _)| *dataset != group[0].0);
        splits += u64::from(is_in_splits);
        for image in group {
            if fates[image.0].contains_key(&image.1) {
                continue;
            }
            if let Some(Relation::Equal(first)) = related.get(image) {
                duplicates += 1;
                fates[image.0].insert(image.1, (Fate::Duplicate, format!("the same bytes as {}", name(found, first))));
            } else if let Some(Relation::Conflict(first, what)) = related.get(image) {
                conflicts += 1;
                let what = what.as_deref().unwrap_or("class");
                let reason = format!("the same bytes as {}, with another {what}", name(found, first));
                fates[image.0].insert(image.1, (Fate::Kept, reason));
            } else if let Some(leak) = choice.leaks.then(|| leak(found, group, image)).flatten() {
                leaks += 1;
                fates[image.0].insert(image.1, (Fate::Kept, leak));
            }
        }
    }
    let Some(first) = found.first_mut() else { return Ok(fates) };
    if duplicates > 0 {
        first.notes.push(match duplicates {
            1 => "1 duplicate of another image is left out; the ledger names it".to_owned(),
            _ => format!("{duplicates} duplicates of other images are left out; the ledger names them"),
        });
    }
    if conflicts > 0 {
        first.notes.push(match conflicts {
            1 => "1 image has the bytes of another with another class or component, and is packed; the ledger names it".to_owned(),
            _ => format!("{conflicts} images have the bytes of others with another class or component, and are packed; the ledger names them"),
        });
    }
    if leaks > 0 {
        first.notes.push(match leaks {
            1 => "1 image is in two splits or two classes; the ledger names it".to_owned(),
            _ => format!("{leaks} images are in two splits or two classes; the ledger names them"),
        });
    } else if splits > 0 && !choice.leaks {
        first.notes.push(match splits {
            1 => "1 image is in more than one split; --leaks names it".to_owned(),
            _ => format!("{splits} images are in more than one split; --leaks names them"),
        });
    }
    Ok(fates)
}

/// Describes where `image` also is, in another split or class; `None` if nowhere.
fn leak(found: &[SourceListing], group: &[Image], image: &Image) -> Option<String> {
    let class = |(dataset, number): &Image| found[*dataset].listing.class(*number);
    let other_split = group.iter().find(|other| other.0 != image.0);
    let other_class = group.iter().find(|other| other.0 == image.0 && class(other) != class(image));
    match (other_split, other_class) {
        (Some(other), _) => Some(format!("the same image is in another split: {}", name(found, other))),
        (None, Some(other)) => Some(format!("the same image is in another class: {}", name(found, other))),
        (None, None) => None,
    }
}

/// The path of an image relative to the source.
pub(super) fn name(found: &[SourceListing], (dataset, number): &Image) -> String {
    let one = &found[*dataset];
    one.prefix() + &one.listing.shown(*number)
}

/// Groups of images with the same bytes, each in order; the relations of duplicates, if they are wanted; and for each dataset the unreadable
/// images.
fn groups(
    source: &dyn Source,
    found: &[SourceListing],
    choice: &Choice,
    monitor: &dyn Monitor,
) -> Result<(Vec<Vec<Image>>, BTreeMap<Image, Relation>, Vec<Fates>)> {
    let readers = found.iter().map(|one| ImageReader::open(source, one.split.as_deref(), &one.listing, monitor));
    let readers = readers.collect::<Result<Vec<_>>>()?;
    let images = found.iter().enumerate();
    let images = images.flat_map(|(dataset, one)| (0..one.listing.len()).map(move |number| (dataset, number)));
    let bytes = |(dataset, number): Image| u128::from(found[dataset].listing.entry(number).bytes);
    let mut alike = repeated(images.map(|image| (bytes(image), image)).collect());
    for most in [Some(HEAD_BYTES), None] {
        let mut hashed = Vec::with_capacity(alike.len());
        for (dataset, reader) in readers.iter().enumerate() {
            // A short image was read completely for its first bytes, so its hash is known.
            let is_hashed = |image: &Image| most.is_none() && bytes(*image) <= HEAD_BYTES as u128;
            let of_it = || alike.iter().filter(|(_, image)| image.0 == dataset);
            hashed.extend(of_it().filter(|(_, image)| is_hashed(image)));
            let numbers = of_it().filter(|(_, image)| !is_hashed(image)).map(|(_, image)| image.1).collect();
            let hashes = reader.each(Phase::Looking, numbers, choice.threads, monitor, |number, buffer| {
                let read = match most {
                    Some(most) => reader.head(number, most, buffer)?,
                    None => reader.whole(number, buffer)?,
                };
                // The length is part of the mark: equal first bytes of images with different lengths do not
                // count.
                let length = bytes((dataset, number)).rotate_left(96);
                Ok(read.map(|()| hash::content(buffer) ^ length))
            })?;
            hashed.extend(hashes.into_iter().map(|(number, hash)| (hash, (dataset, number))));
        }
        alike = repeated(hashed);
    }
    let mut groups = Vec::new();
    for group in alike.chunk_by(|a, b| a.0 == b.0) {
        monitor.check_cancelled()?;
        groups.extend(equal(&readers, group.iter().map(|(_, image)| *image).collect())?);
    }
    let mut related = BTreeMap::new();
    if choice.dedup {
        let samples = found.iter().zip(&readers).map(|(one, reader)| Samples::new(source, one, reader));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        for of_split in groups.iter().flat_map(|group| group.chunk_by(|a, b| a.0 == b.0)) {
            monitor.check_cancelled()?;
            let relations = samples[of_split[0].0].relations(of_split)?;
            let relations = of_split.iter().zip(relations);
            related.extend(relations.filter_map(|(image, relation)| Some((*image, relation?))));
        }
    }
    Ok((groups, related, readers.into_iter().map(|reader| super::bad(reader.into_unread())).collect()))
}

/// The images that share their mark with another, sorted by mark and image.
fn repeated(mut marked: Vec<(u128, Image)>) -> Vec<(u128, Image)> {
    marked.sort_unstable();
    let mut kept = Vec::new();
    for group in marked.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
        kept.extend_from_slice(group);
    }
    kept
}

/// Splits images of equal hash into groups of equal bytes: one group, unless two contents have the same hash,
/// which has never been seen.
fn equal(readers: &[ImageReader<'_>], mut images: Vec<Image>) -> Result<Vec<Vec<Image>>> {
    let (mut groups, mut first, mut other) = (Vec::new(), Vec::new(), Vec::new());
    while images.len() > 1 {
        let (mut same, mut rest) = (vec![images[0]], Vec::new());
        let is_read = readers[images[0].0].whole(images[0].1, &mut first)?.is_some();
        for (dataset, number) in &images[1..] {
            let is_same = is_read && readers[*dataset].whole(*number, &mut other)?.is_some() && first == other;
            if is_same { &mut same } else { &mut rest }.push((*dataset, *number));
        }
        if same.len() > 1 {
            groups.push(same);
        }
        images = rest;
    }
    Ok(groups)
}

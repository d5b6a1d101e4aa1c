//! Transforms images as a recipe says (resize, encode, rotate), before anything is planned.
//!
//! Holds at all times: what comes out follows from source and recipe alone, on any number of threads and after any crash;
//! what cannot be made is named and never packed as it was.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Result, hash, image_header::Kind};
use shardpack_imaging::{Change, ENGINE, Encode, Limits, Outcome, Recipe, Resize};

use crate::{
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
    source::{
        Found, Origin,
        transformed::{Record, Split, Spool, Transformed, What},
    },
    survey::ImageReader,
    sys,
};

/// Name of the spool in the work folder.
pub(super) const SPOOL_FILE: &str = "made";

/// A recipe in words, with what carries it out: the same words, the same bytes.
pub fn words(recipe: &Recipe) -> String {
    let mut words = Vec::new();
    let mut say = |is_said: bool, word: &str| {
        if is_said {
            words.push(word.to_owned());
        }
    };
    say(recipe.fix, "fix");
    say(recipe.rotate, "rotate");
    match recipe.resize {
        Some(Resize::Short(side)) => say(true, &format!("resize {side}")),
        Some(Resize::Exact { width, height }) => say(true, &format!("resize {width}x{height}")),
        None => {}
    }
    match recipe.encode {
        Some(Encode::Jpeg) => say(true, "encode jpeg"),
        Some(Encode::Png) => say(true, "encode png"),
        Some(Encode::Webp) => say(true, "encode webp"),
        None => {}
    }
    say(true, &format!("quality {}", recipe.quality));
    say(recipe.keep_icc, "icc");
    say(recipe.keep_exif, "exif");
    format!("{} ({ENGINE})", words.join(", "))
}

/// Makes what `recipe` says of all images of `found`, by way of a spool in `work`.
pub(super) fn transform(
    origin: Origin,
    found: Vec<Found>,
    recipe: &Recipe,
    work: &Path,
    jobs: usize,
    monitor: &dyn Monitor,
) -> Result<(Origin, Vec<Found>)> {
    sys::create_folder(work)?;
    let path = work.join(SPOOL_FILE);
    let (spool, known) = Spool::open(&path, &words(recipe))?;
    let (mut splits, mut after) = (Vec::new(), Vec::new());
    let mut changes = BTreeMap::<String, u64>::new();
    for one in found {
        let listing = Arc::clone(&one.listing);
        let reader = ImageReader::open(&origin, one.split.as_deref(), &listing, monitor)?;
        let key = |number| key(one.split.as_deref(), &listing, number);
        let work = |number, buffer: &mut Vec<u8>| {
            if let Some(record) = known.get(&key(number)) {
                return Ok(Some(record.clone()));
            }
            // What cannot be read is not kept in the spool: the next run asks again.
            let Some(()) = reader.whole(number, buffer)? else { return Ok(None) };
            let called = named(listing.name(number)).filter(|_| recipe.fix && recipe.encode.is_none());
            let of_name = called.map(|encode| Recipe { encode: Some(encode), ..recipe.clone() });
            let made = shardpack_imaging::apply(buffer, of_name.as_ref().unwrap_or(recipe), &Limits::default());
            Ok(Some(match made {
                Ok(Outcome::Untouched) => spool.add(key(number), What::Untouched, "", &[])?,
                Ok(Outcome::Made { bytes, changes, .. }) => {
                    spool.add(key(number), What::Made, &in_words(&changes), &bytes)?
                }
                Err(refused) => spool.add(key(number), What::Refused, &refused.to_string(), &[])?,
            }))
        };
        let mut records = reader.each(Phase::Making, (0..listing.len()).collect(), jobs, monitor, work)?;
        let refused = |text| Record { what: What::Refused, text, place: 0, bytes: 0 };
        records.extend(reader.into_unread().into_iter().map(|(number, why)| (number, refused(why))));
        for record in records.iter().map(|(_, record)| record).filter(|record| record.what == What::Made) {
            record.text.split(", ").for_each(|change| {
                let word = change.strip_prefix("resized ").map_or(change, |_| "resized");
                *changes.entry(word.to_owned()).or_default() += 1;
            });
        }
        let (split, found) = settle(one, &listing, records, recipe);
        splits.push(split);
        after.push(found);
    }
    if let Some(first) = after.first_mut() {
        let all: Vec<_> = changes.iter().map(|(change, images)| format!("{images} {change}")).collect();
        first.notes.push(match all.is_empty() {
            true => "no image had to be changed".to_owned(),
            false => format!("images changed: {}", all.join(", ")),
        });
    }
    Ok((Origin::Transformed(Transformed::new(origin, path, splits)), after))
}

/// What a file is by its name, where that can be written: to fix a file is to make it what it is called.
fn named(name: &[u8]) -> Option<Encode> {
    let at = name.iter().rposition(|byte| *byte == b'.')?;
    match name[at + 1..].to_ascii_lowercase().as_slice() {
        b"jpg" | b"jpeg" => Some(Encode::Jpeg),
        b"png" => Some(Encode::Png),
        b"webp" => Some(Encode::Webp),
        _ => None,
    }
}

/// What is known again of an image after a crash: its place in the source, and that it is what it was.
fn key(split: Option<&str>, listing: &Listing, number: u64) -> u128 {
    let entry = listing.entry(number);
    let (mut path, mut text) = (Vec::new(), split.unwrap_or_default().as_bytes().to_vec());
    listing.path(number, &mut path);
    text.push(0);
    text.extend_from_slice(&path);
    text.extend_from_slice(&entry.bytes.to_le_bytes());
    text.extend_from_slice(&entry.stamp.to_le_bytes());
    text.extend_from_slice(&entry.place.to_le_bytes());
    hash::content(&text)
}

fn in_words(changes: &[Change]) -> String {
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join(", ")
}

/// What there is after the images of one split were made.
fn settle(found: Found, listing: &Arc<Listing>, records: Vec<(u64, Record)>, recipe: &Recipe) -> (Split, Found) {
    let records: BTreeMap<u64, Record> = records.into_iter().collect();
    let is = |number: &u64, what| records.get(number).is_some_and(|record| record.what == what);
    let kept: Vec<u64> = (0..listing.len()).filter(|number| !is(number, What::Refused)).collect();
    let before = Arc::new(listing.chosen(&listing.classes, Some, |number| !is(&number, What::Refused)));
    let made = |number: &u64| records.get(number).filter(|record| record.what == What::Made);
    let places: Vec<Option<u64>> = kept.iter().map(|number| made(number).map(|record| record.place)).collect();
    let lengths: Vec<Option<u32>> = kept.iter().map(|number| made(number).map(|record| record.bytes)).collect();
    let after = before.with_bytes(|number, bytes| lengths[number as usize].unwrap_or(bytes));
    let mut unpacked = found.unpacked.clone();
    // Where all are changed, to name each would tell nothing.
    let are_few = recipe.resize.is_none() && recipe.encode.is_none();
    unpacked.extend(records.iter().filter_map(|(number, record)| {
        let fate = match record.what {
            What::Refused => Fate::Skipped,
            What::Made if are_few => Fate::Kept,
            _ => return None,
        };
        let mut path = Vec::new();
        listing.path(*number, &mut path);
        let reason = if fate == Fate::Kept { format!("changed: {}", record.text) } else { record.text.clone() };
        Some(Unpacked { path, class: listing.class(*number), fate, reason: reason.into() })
    }));
    unpacked.sort_by(order);
    let split = Split { name: found.split.clone(), before, places: Arc::new(places) };
    let before = Some(Arc::new(found.clone()));
    (split, Found { listing: Arc::new(after), unpacked, kinds: BTreeMap::new(), before, ..found })
}

/// What an image of `kind` is by the recipe, if it is changed.
pub(super) fn becomes(kind: Kind, recipe: &Recipe) -> Kind {
    let is_odd = recipe.fix && matches!(kind, Kind::Gif | Kind::Bmp | Kind::Tiff | Kind::Pnm);
    match recipe.encode {
        Some(encode) => encode.kind(),
        None if is_odd || recipe.resize.is_some() => Encode::like(kind).kind(),
        None => kind,
    }
}

/// Where images may be changed before they are packed.
#[derive(Clone, Debug)]
pub struct Place {
    /// Folders of the datasets, one for each format; the first has the spool.
    pub folders: Vec<PathBuf>,
    /// Replace what they hold.
    pub force: bool,
    /// Budget of the pack that follows, in bytes: where it is too little for any sample, nothing is changed.
    pub memory_bytes: u64,
    /// Threads that change images.
    pub jobs: usize,
}

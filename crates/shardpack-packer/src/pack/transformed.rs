//! Transforms images as a recipe says (resize, encode, rotate), before anything is planned.
//!
//! Holds at all times: what comes out follows from source and recipe alone, on any number of threads and after any crash;
//! what cannot be made is named and never packed as it was.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Result, hash, image_header::Kind, size};
use shardpack_imaging::{Change, ENGINE, Encode, Outcome as Applied, Recipe, Resize, apply_within};

use crate::{
    decoding,
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
    source::{
        Found, Origin,
        transformed::{Made, Record, Split, Spool, Transformed, What},
    },
    survey::ImageReader,
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
    let path = work.join(SPOOL_FILE);
    let (spool, known) = Spool::open(&path, &words(recipe))?;
    let maker = Maker { origin: &origin, recipe, spool, known, jobs, monitor };
    let mut made = Outcomes::new(&found, recipe);
    for (split, one) in found.iter().enumerate() {
        for (number, record) in maker.make(one, 0..one.listing.len())? {
            made.set(split, number, Outcome { spool: 1, ..Outcome::of(&record) }, record.text);
        }
    }
    Ok(made.settle(origin, found, vec![path]))
}

/// Makes images into a spool.
pub(super) struct Maker<'a> {
    pub origin: &'a Origin,
    pub recipe: &'a Recipe,
    pub spool: Spool,
    /// What the spool has, by key.
    pub known: HashMap<u128, Record>,
    pub jobs: usize,
    pub monitor: &'a dyn Monitor,
}

impl Maker<'_> {
    /// What becomes of the images of a split with these numbers, in their order.
    pub fn make(&self, found: &Found, numbers: Range<u64>) -> Result<Vec<(u64, Record)>> {
        let Self { origin, recipe, spool, known, jobs, monitor } = self;
        let listing = &found.listing;
        let reader = ImageReader::open(origin, found.split.as_deref(), listing, *monitor)?;
        let key = |number| key(found.split.as_deref(), listing, number);
        let work = |number, buffer: &mut Vec<u8>| {
            if let Some(record) = known.get(&key(number)) {
                return Ok(Some(record.clone()));
            }
            // What cannot be read is not kept in the spool: the next run asks again.
            let Some(()) = reader.whole(number, buffer)? else { return Ok(None) };
            let called = named(listing.name(number)).filter(|_| recipe.fix && recipe.encode.is_none());
            let of_name = called.map(|encode| Recipe { encode: Some(encode), ..(*recipe).clone() });
            let made = apply_within(buffer, of_name.as_ref().unwrap_or(recipe), decoding::budget());
            Ok(Some(match made {
                Ok(Applied::Untouched) => spool.add(key(number), What::Untouched, "", &[])?,
                Ok(Applied::Made { bytes, changes, .. }) => {
                    spool.add(key(number), What::Made, &in_words(&changes), &bytes)?
                }
                Err(refused) => {
                    let why = decoding::verdict(&refused, || listing.shown(number))?;
                    spool.add(key(number), What::Refused, &why, &[])?
                }
            }))
        };
        let mut records = reader.each(Phase::Making, numbers.collect(), *jobs, *monitor, work)?;
        reader.unchanged()?;
        let refused = |text| Record { what: What::Refused, text, place: 0, bytes: 0 };
        records.extend(reader.into_unread().into_iter().map(|(number, why)| (number, refused(why))));
        records.sort_unstable_by_key(|(number, _)| *number);
        Ok(records)
    }
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

/// What became of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub what: What,
    /// Length in bytes of what was made.
    pub bytes: u32,
    /// Where that lies, and in which spool, counted from 1; 0 where that is not said yet.
    pub place: u64,
    pub spool: u32,
}

impl Outcome {
    const UNKNOWN: Self = Self { what: What::Untouched, bytes: 0, place: 0, spool: 0 };

    /// As the record says it, of a spool that is yet to be named.
    pub fn of(record: &Record) -> Self {
        Self { what: record.what, bytes: record.bytes, place: record.place, spool: 0 }
    }
}

/// What became of all images, by split and number.
pub(super) struct Outcomes {
    splits: Vec<Vec<Outcome>>,
    /// What was changed or why it was refused, of those that the ledger names.
    texts: Vec<BTreeMap<u64, String>>,
    /// How many images were changed in which way.
    changes: BTreeMap<String, u64>,
    names_changed: bool,
}

impl Outcomes {
    /// Of images of which nothing is known yet.
    pub fn new(found: &[Found], recipe: &Recipe) -> Self {
        Self {
            splits: found.iter().map(|one| vec![Outcome::UNKNOWN; one.listing.len() as usize]).collect(),
            texts: vec![BTreeMap::new(); found.len()],
            changes: BTreeMap::new(),
            names_changed: names_changed(recipe),
        }
    }

    /// Says what became of an image that is there.
    pub fn set(&mut self, split: usize, number: u64, outcome: Outcome, text: String) {
        if outcome.what == What::Made {
            count_changes(&mut self.changes, &text, 1);
        }
        self.put(split, number, outcome);
        if outcome.what == What::Refused || (outcome.what == What::Made && self.names_changed) {
            self.texts[split].insert(number, text);
        }
    }

    /// The same of one whose changes are counted already.
    pub fn put(&mut self, split: usize, number: u64, outcome: Outcome) {
        self.splits[split][number as usize] = outcome;
    }

    /// What was changed, or why it was refused, of an image that the ledger names.
    pub fn put_text(&mut self, split: usize, number: u64, text: String) {
        self.texts[split].insert(number, text);
    }

    /// Counts changes of many images.
    pub fn count(&mut self, change: &str, images: u64) {
        count_changes(&mut self.changes, change, images);
    }

    /// The source and what there is in it after all were made, into `spools`.
    pub fn settle(self, origin: Origin, found: Vec<Found>, spools: Vec<PathBuf>) -> (Origin, Vec<Found>) {
        let (mut splits, mut after) = (Vec::new(), Vec::new());
        for ((one, outcomes), texts) in found.into_iter().zip(self.splits).zip(self.texts) {
            let (split, found) = settle(one, &outcomes, &texts);
            splits.push(split);
            after.push(found);
        }
        let (several, first) = (Change::FirstOfSeveral.to_string(), after.first_mut());
        if let Some(first) = first {
            let changes = self.changes.iter().filter(|(change, _)| **change != several);
            let all: Vec<_> = changes.map(|(change, images)| format!("{images} {change}")).collect();
            first.notes.push(match all.is_empty() {
                true => "no image had to be changed".to_owned(),
                false => format!("images changed: {}", all.join(", ")),
            });
            if let Some(images) = self.changes.get(&several) {
                let images = size::counted(*images, "image");
                first.notes.push(format!("{images} had more pages or frames: only the first of each was kept"));
            }
        }
        (Origin::Transformed(Transformed::new(origin, spools, splits)), after)
    }
}

/// Counts each of the changes in `text`.
pub(super) fn count_changes(changes: &mut BTreeMap<String, u64>, text: &str, images: u64) {
    for change in text.split(", ") {
        let word = change.strip_prefix("resized ").map_or(change, |_| "resized");
        *changes.entry(word.to_owned()).or_default() += images;
    }
}

/// Whether the ledger names what was changed: where all are, to name each would tell nothing.
pub(super) fn names_changed(recipe: &Recipe) -> bool {
    recipe.resize.is_none() && recipe.encode.is_none()
}

/// What there is after the images of one split were made.
fn settle(found: Found, outcomes: &[Outcome], texts: &BTreeMap<u64, String>) -> (Split, Found) {
    let listing = Arc::clone(&found.listing);
    let of = |number: u64| &outcomes[number as usize];
    let kept: Vec<u64> = (0..listing.len()).filter(|number| of(*number).what != What::Refused).collect();
    let before = Arc::new(listing.chosen(&listing.classes, Some, |number| of(number).what != What::Refused));
    let made = |outcome: &Outcome| {
        let spool = NonZeroU32::new(outcome.spool).filter(|_| outcome.what == What::Made)?;
        Some(Made { place: outcome.place, spool })
    };
    let places: Vec<Option<Made>> = kept.iter().map(|number| made(of(*number))).collect();
    let after = before.with_bytes(|number, bytes| {
        let outcome = of(kept[number as usize]);
        if outcome.what == What::Made { outcome.bytes } else { bytes }
    });
    let mut unpacked = found.unpacked.clone();
    unpacked.extend(texts.iter().map(|(number, text)| {
        let mut path = Vec::new();
        listing.path(*number, &mut path);
        let (fate, reason) = match of(*number).what {
            What::Refused => (Fate::Skipped, text.clone()),
            What::Made | What::Untouched => (Fate::Kept, format!("changed: {text}")),
        };
        Unpacked { path, class: listing.class(*number), fate, reason: reason.into() }
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

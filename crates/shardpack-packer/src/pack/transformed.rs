//! Preprocesses images as a recipe requires (resize, encode, rotate), before planning.
//!
//! Holds at all times: the result depends only on source and recipe, for any number of threads and after any
//! crash. An image that cannot be preprocessed is reported and never packed in its original form.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    ops::Range,
    path::Path,
    sync::Arc,
};

use shardpack_format::{Result, hash, image_header::Kind, size};
use shardpack_imaging::{Change, ENGINE, Encode, Outcome as Applied, Recipe, Resize, apply_within};
use shardpack_storage::Local;

use super::work_folder::SPOOL_FILE;
use crate::{
    decoding,
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
    selection::ImageReader,
    source::{
        SharedSource, Source, SourceListing,
        transformed::{Record, Split, Spool, SpoolPosition, Spools, Transformed, What},
    },
};

/// A recipe as text, with the codec that applies it: the same text means the same bytes.
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

/// Applies `recipe` to all images of `found`, through a spool in `work`.
pub(super) fn transform(
    source: SharedSource,
    found: Vec<SourceListing>,
    recipe: &Recipe,
    work: &Path,
    jobs: usize,
    monitor: &dyn Monitor,
) -> Result<(SharedSource, Vec<SourceListing>)> {
    let (spool, known) = Spool::open(&work.join(SPOOL_FILE), &words(recipe))?;
    let maker = Maker { source: source.as_ref(), recipe, spool, known, jobs, monitor };
    let mut made = Outcomes::new(&found, recipe);
    for (split, one) in found.iter().enumerate() {
        for (number, record) in maker.make(one, 0..one.listing.len())? {
            made.set(split, number, Outcome { spool: 1, ..Outcome::from_record(&record) }, record.text);
        }
    }
    let names = Arc::new(vec![SPOOL_FILE.to_owned()]);
    Ok(made.into_source(source, found, Spools { storage: Arc::new(Local::new(work)), names }))
}

/// Preprocesses images into a spool.
pub(super) struct Maker<'a> {
    pub source: &'a dyn Source,
    pub recipe: &'a Recipe,
    pub spool: Spool,
    /// Records of the spool, by key.
    pub known: HashMap<u128, Record>,
    pub jobs: usize,
    pub monitor: &'a dyn Monitor,
}

impl Maker<'_> {
    /// Results for the images of a split with these numbers, in this order.
    pub fn make(&self, found: &SourceListing, numbers: Range<u64>) -> Result<Vec<(u64, Record)>> {
        let Self { source, recipe, spool, known, jobs, monitor } = self;
        let listing = &found.listing;
        let reader = ImageReader::open(*source, found.split.as_deref(), listing, *monitor)?;
        let key = |number| key(found.split.as_deref(), listing, number);
        let work = |number, buffer: &mut Vec<u8>| {
            if let Some(record) = known.get(&key(number)) {
                return Ok(Some(record.clone()));
            }
            // An unreadable image is not recorded in the spool: the next run reads it again.
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

/// Kind of a file by its name, if it can be encoded: `fix` re-encodes a file as the kind of its name.
fn named(name: &[u8]) -> Option<Encode> {
    let at = name.iter().rposition(|byte| *byte == b'.')?;
    match name[at + 1..].to_ascii_lowercase().as_slice() {
        b"jpg" | b"jpeg" => Some(Encode::Jpeg),
        b"png" => Some(Encode::Png),
        b"webp" => Some(Encode::Webp),
        _ => None,
    }
}

/// Key of an unchanged image, to find it after a crash: hash of split, path, length, stamp and place.
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

/// Result for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub what: What,
    /// Length in bytes of the new image.
    pub bytes: u32,
    /// Its place, and the number of its spool, counted from 1; 0 if not set yet.
    pub place: u64,
    pub spool: u32,
}

impl Outcome {
    const UNKNOWN: Self = Self { what: What::Untouched, bytes: 0, place: 0, spool: 0 };

    /// From a record, without a spool yet.
    pub fn from_record(record: &Record) -> Self {
        Self { what: record.what, bytes: record.bytes, place: record.place, spool: 0 }
    }
}

/// Results for all images, by split and number.
pub(super) struct Outcomes {
    splits: Vec<Vec<Outcome>>,
    /// Change or reason of refusal, for images in the ledger.
    texts: Vec<BTreeMap<u64, String>>,
    /// Number of images by change.
    changes: BTreeMap<String, u64>,
    names_changed: bool,
}

impl Outcomes {
    /// Results for images that are all unknown yet.
    pub fn new(found: &[SourceListing], recipe: &Recipe) -> Self {
        Self {
            splits: found.iter().map(|one| vec![Outcome::UNKNOWN; one.listing.len() as usize]).collect(),
            texts: vec![BTreeMap::new(); found.len()],
            changes: BTreeMap::new(),
            names_changed: names_changed(recipe),
        }
    }

    /// Sets the result of an existing image.
    pub fn set(&mut self, split: usize, number: u64, outcome: Outcome, text: String) {
        if outcome.what == What::Made {
            count_changes(&mut self.changes, &text, 1);
        }
        self.put(split, number, outcome);
        if outcome.what == What::Refused || (outcome.what == What::Made && self.names_changed) {
            self.texts[split].insert(number, text);
        }
    }

    /// Sets the result of an image whose changes are counted already.
    pub fn put(&mut self, split: usize, number: u64, outcome: Outcome) {
        self.splits[split][number as usize] = outcome;
    }

    /// Sets the change, or the reason of refusal, of an image in the ledger.
    pub fn put_text(&mut self, split: usize, number: u64, text: String) {
        self.texts[split].insert(number, text);
    }

    /// Counts changes of many images.
    pub fn count(&mut self, change: &str, images: u64) {
        count_changes(&mut self.changes, change, images);
    }

    /// The source and its contents after all images were preprocessed into `spools`.
    pub fn into_source(
        self,
        source: SharedSource,
        found: Vec<SourceListing>,
        spools: Spools,
    ) -> (SharedSource, Vec<SourceListing>) {
        let (mut splits, mut after) = (Vec::new(), Vec::new());
        for ((one, outcomes), texts) in found.into_iter().zip(self.splits).zip(self.texts) {
            let (split, found) = transformed_split(one, &outcomes, &texts);
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
        (Arc::new(Transformed::new(source, spools, splits)), after)
    }
}

/// Counts each of the changes in `text`.
pub(super) fn count_changes(changes: &mut BTreeMap<String, u64>, text: &str, images: u64) {
    for change in text.split(", ") {
        let word = change.strip_prefix("resized ").map_or(change, |_| "resized");
        *changes.entry(word.to_owned()).or_default() += images;
    }
}

/// Whether the ledger lists changed images. If all are changed, listing each would be no information.
pub(super) fn names_changed(recipe: &Recipe) -> bool {
    recipe.resize.is_none() && recipe.encode.is_none()
}

/// Contents of one split after preprocessing.
fn transformed_split(
    found: SourceListing,
    outcomes: &[Outcome],
    texts: &BTreeMap<u64, String>,
) -> (Split, SourceListing) {
    let listing = Arc::clone(&found.listing);
    let of = |number: u64| &outcomes[number as usize];
    let kept: Vec<u64> = (0..listing.len()).filter(|number| of(*number).what != What::Refused).collect();
    let before = Arc::new(listing.chosen(&listing.classes, Some, |number| of(number).what != What::Refused));
    let made = |outcome: &Outcome| {
        let spool = NonZeroU32::new(outcome.spool).filter(|_| outcome.what == What::Made)?;
        Some(SpoolPosition { place: outcome.place, spool })
    };
    let places: Vec<Option<SpoolPosition>> = kept.iter().map(|number| made(of(*number))).collect();
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
    (split, SourceListing { listing: Arc::new(after), unpacked, kinds: BTreeMap::new(), before, ..found })
}

/// Kind of an image of `kind` after the recipe.
pub(super) fn becomes(kind: Kind, recipe: &Recipe) -> Kind {
    let is_odd = recipe.fix && matches!(kind, Kind::Gif | Kind::Bmp | Kind::Tiff | Kind::Pnm);
    match recipe.encode {
        Some(encode) => encode.kind(),
        None if is_odd || recipe.resize.is_some() => Encode::like(kind).kind(),
        None => kind,
    }
}

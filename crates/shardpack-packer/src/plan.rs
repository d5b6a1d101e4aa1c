//! The plan: for every sample its shard and its exact byte range, before any image is read.
//!
//! Pure: listing, options and seed in, plan out; no I/O, no clock, nothing that depends on the number of threads. What is kept is
//! the listing, the cuts and the lengths of records; the order is a bijection and is computed where it is needed.

mod cuts;
mod options;
mod part;

use std::{
    collections::BTreeMap,
    fmt::Write,
    ops::Range,
    sync::{Arc, OnceLock},
};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result,
    formats::{self, Format, Layout},
    hash::FileHash,
    manifest::Counts,
    permutation::{self, Permutation},
    sample::{Forms, Sample},
    size, text,
};

use crate::{
    ledger::{Fate, Unpacked},
    listing::Listing,
    source::Found,
};
pub use options::{Check, Compression, Cut, Options, Order};
pub use part::Whole;
pub(crate) use part::{Restored, ranked};

/// Length in bytes that a block of consecutive samples should have.
pub const BLOCK_BYTES: u64 = 512 * 1024;
/// Samples whose layouts a thread computes at a time.
const PART_SAMPLES: u64 = 1 << 13;
/// Bytes that [`Plan::hash`] hashes at a time.
const HASHED_BYTES: usize = 16 << 10;
/// Digits of a key, at least.
const KEY_DIGITS: usize = 8;

/// A shard of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Position of its first sample in the order.
    pub first: u64,
    /// Number of samples.
    pub samples: u64,
    /// Length of their records together in bytes.
    pub records_bytes: u64,
}

impl Shard {
    /// Positions of its samples.
    pub fn positions(&self) -> Range<u64> {
        self.first..self.first + self.samples
    }
}

/// The plan of one dataset: the whole source, or one split of it.
#[derive(Debug)]
pub struct Plan {
    /// Name of its shards: the split, or [`Options::name`].
    pub name: String,
    /// Name of the split, which is also the folder below DST.
    pub split: Option<String>,
    /// What decides the bytes.
    pub options: Options,
    /// The samples, or those of the shards in [`Plan::held`].
    pub listing: Arc<Listing>,
    /// Shards whose samples are in the listing, by number: all of them, but for a part of a plan.
    pub held: Range<usize>,
    /// What is true of all samples, where the listing is not known to have all.
    pub(crate) whole: Option<Whole>,
    /// Images that are known not to be packed.
    pub unpacked: Vec<Unpacked>,
    /// What was found, where the samples are what a recipe made of it.
    before: Option<Arc<Found>>,
    /// Files that are no samples, by reason.
    pub ignored: BTreeMap<String, u64>,
    /// Shards in order.
    pub shards: Vec<Shard>,
    /// Samples in a block.
    pub block_samples: u64,
    /// Length of the longest record in bytes.
    pub longest_record_bytes: u32,
    /// See [`Plan::record_bytes`].
    record_bytes: OnceLock<Vec<u32>>,
    key_digits: usize,
    /// A key of the width of all, where only that matters.
    any_key: String,
    arrangement: Arrangement,
    format: Chosen,
}

/// Which sample of the listing stands at a position of the order.
#[derive(Debug)]
enum Arrangement {
    /// Canonical order.
    Canonical,
    /// The order of a source that has one: number in the listing by position.
    Stored(Vec<u64>),
    /// By the keyed bijection.
    Shuffled(Permutation),
    /// That of a part, which begins at this position: number in the listing by position in the part.
    Part(u64, Vec<u32>),
}

/// The format that shards are written in.
struct Chosen(Box<dyn Format>);

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

/// Key and path of a sample and what it has beside, reused from one to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    key: String,
    path: Vec<u8>,
    components: Vec<Option<u32>>,
    forms: Vec<u32>,
}

impl Plan {
    /// Plans the packing of what was found.
    ///
    /// # Errors
    /// When there is nothing to pack, or the format cannot hold a sample.
    pub fn new(found: Found, options: Options) -> Result<Self> {
        let mut plan = Self::without_cuts(found, options)?;
        let samples = plan.listing.len();
        if samples == 0 {
            return Err(plan.nothing());
        }
        let (mut total, mut longest) = (0u64, 0);
        for record_bytes in plan.record_bytes()? {
            total = total.checked_add(u64::from(*record_bytes)).ok_or_else(|| Error::usage("more than 2^64 bytes"))?;
            longest = longest.max(*record_bytes);
        }
        plan.longest_record_bytes = longest;
        plan.block_samples = (BLOCK_BYTES * samples).div_ceil(total.max(1)).clamp(1, samples);
        plan.cut(total, longest)?;
        plan.held = 0..plan.shards.len();
        Ok(plan)
    }

    /// Why there is nothing to pack, by the first image of those that were found.
    fn nothing(&self) -> Error {
        let of_split = self.split.as_ref().map_or_else(String::new, |split| format!(" in split {split}"));
        let first = |fate| self.unpacked.iter().find(|unpacked| unpacked.fate == fate);
        let said = |first: &Unpacked| format!("{}: {}", text::shown(&first.path), first.reason);
        let count = self.unpacked.iter().filter(|unpacked| unpacked.fate != Fate::Kept).count();
        match (first(Fate::Skipped), first(Fate::Filtered)) {
            (Some(bad), _) => {
                let asked = if self.options.recipe.is_some() { "changed" } else { "packed" };
                Error::data(format!(
                    "none of {}{of_split} can be {asked}{}",
                    size::counted(count as u64, "image"),
                    size::first_of(count as u64, &said(bad))
                ))
            }
            (None, Some(left)) => Error::usage(format!(
                "{}{of_split}{}",
                size::all_are(count as u64, "image", "left out"),
                size::first_of(count as u64, &said(left))
            )),
            (None, None) if self.split.is_some() => Error::usage(format!("no images{of_split}")),
            (None, None) => Error::usage("no images found")
                .help("an ImageFolder is SRC/<class>/<image>, with names that end in .jpg, .jpeg, .png, .webp, …"),
        }
    }

    /// A plan whose shards hold these numbers of samples, in order.
    ///
    /// # Errors
    /// When they do not hold all samples, or the format cannot hold one.
    pub fn with_shards(found: Found, options: Options, samples: &[u64], block_samples: u64) -> Result<Self> {
        let mut plan = Self::without_cuts(found, options)?;
        let total = samples.iter().try_fold(0u64, |sum, samples| sum.checked_add(*samples));
        if total != Some(plan.listing.len()) {
            return Err(Error::data("the shards do not hold the samples of the listing"));
        }
        let all = plan.record_bytes()?;
        let longest = all.iter().copied().max().unwrap_or(0);
        let (mut shards, mut position) = (Vec::with_capacity(samples.len()), 0);
        for samples in samples {
            let mut shard = Shard { first: position, samples: *samples, records_bytes: 0 };
            let of_shard = shard.positions().map(|position| u64::from(all[plan.sample_at(position) as usize]));
            shard.records_bytes = of_shard.sum();
            position += samples;
            shards.push(shard);
        }
        (plan.shards, plan.longest_record_bytes) = (shards, longest);
        plan.held = 0..plan.shards.len();
        plan.block_samples = block_samples;
        Ok(plan)
    }

    /// A plan whose shards are not known yet.
    pub(crate) fn without_cuts(found: Found, options: Options) -> Result<Self> {
        let samples = found.listing.len();
        let arrangement = match options.order {
            Order::Shuffled => Arrangement::Shuffled(Permutation::new(samples, options.seed)),
            Order::Source => found.listing.stored_order().map_or(Arrangement::Canonical, Arrangement::Stored),
        };
        Self::arranged(found, options, samples, arrangement)
    }

    /// A plan of `samples` samples in this order, whose shards are not known yet.
    fn arranged(found: Found, options: Options, samples: u64, arrangement: Arrangement) -> Result<Self> {
        let format = formats::open(&options.format)?;
        if options.compression != Compression::None && format.zstd_extension().is_none() {
            return Err(Error::usage(format!("--compress: readers of {} know no zstd", format.name())));
        }
        let components = found.listing.components();
        let values = options.format.payload.as_ref().filter(|payload| payload.kind().is_some());
        if options.format.components != components.kinds || values != components.payload.as_ref() {
            return Err(Error::data("the components of the listing are not those of the format"));
        }
        let key_digits = (samples.saturating_sub(1).max(1).ilog10() as usize + 1).max(KEY_DIGITS);
        Ok(Self {
            name: found.split.clone().unwrap_or_else(|| options.name.clone()),
            split: found.split,
            listing: found.listing,
            held: 0..0,
            whole: None,
            unpacked: found.unpacked,
            before: found.before,
            ignored: found.ignored,
            shards: Vec::new(),
            block_samples: 1,
            longest_record_bytes: 0,
            record_bytes: OnceLock::new(),
            key_digits,
            any_key: "0".repeat(key_digits),
            arrangement,
            format: Chosen(format),
            options,
        })
    }

    /// What its samples are, for a person: `image`, or `sample` where they are none.
    pub fn noun(&self) -> &'static str {
        if self.options.format.payload.is_none() { "image" } else { "sample" }
    }

    /// Number in the listing of the sample at `position` of the order.
    pub fn sample_at(&self, position: u64) -> u64 {
        match &self.arrangement {
            Arrangement::Canonical => position,
            Arrangement::Stored(order) => order[position as usize],
            Arrangement::Shuffled(permutation) => permutation.sample_at(position),
            Arrangement::Part(first, order) => order[(position - first) as usize].into(),
        }
    }

    /// The sample at `position`, as the format wants it.
    pub fn sample<'s>(&'s self, position: u64, scratch: &'s mut Scratch) -> Sample<'s> {
        let number = self.sample_at(position);
        scratch.key.clear();
        // Writing to a String cannot fail.
        let _ = write!(scratch.key, "{position:0width$}", width = self.key_digits);
        self.listing.path(number, &mut scratch.path);
        self.components(number, scratch);
        Sample {
            key: &scratch.key,
            label: self.listing.class(number).map(i64::from),
            class: self.listing.class_name(number),
            path: &scratch.path,
            payload_bytes: self.listing.entry(number).bytes,
            components: &scratch.components,
            forms: self.listing.components().forms_of(number, &scratch.forms),
        }
    }

    /// Lengths and forms of what sample `number` has beside its payload, written over those of `scratch`.
    fn components(&self, number: u64, scratch: &mut Scratch) {
        let cells = self.listing.components().cells_of(number);
        scratch.components.clear();
        scratch.components.extend(cells.iter().map(|cell| cell.length()));
        scratch.forms.clear();
        scratch.forms.extend(cells.iter().map(|cell| cell.form));
    }

    /// Layout of sample `number` of the listing. Of the key only the width matters to it, and the path only where it is
    /// written.
    pub fn layout_of(&self, number: u64, scratch: &mut Scratch) -> Result<Layout> {
        self.components(number, scratch);
        scratch.path.clear();
        if self.format.0.needs_path() {
            self.listing.path(number, &mut scratch.path);
        }
        let sample = Sample {
            key: &self.any_key,
            label: self.listing.class(number).map(i64::from),
            class: self.listing.class_name(number),
            path: &scratch.path,
            payload_bytes: self.listing.entry(number).bytes,
            components: &scratch.components,
            forms: self.listing.components().forms_of(number, &scratch.forms),
        };
        self.format.0.layout(&sample).map_err(|error| {
            let mut path = Vec::new();
            self.listing.path(number, &mut path);
            error.in_sample(text::shown(&path).to_string())
        })
    }

    /// Length in bytes of the record of each sample of the listing; computed once.
    ///
    /// # Errors
    /// When the format cannot hold a sample.
    pub fn record_bytes(&self) -> Result<&[u32]> {
        if let Some(known) = self.record_bytes.get() {
            return Ok(known);
        }
        let samples = self.listing.len();
        let part = |part: u64| {
            let (first, mut scratch) = (part * PART_SAMPLES, Scratch::default());
            let layouts = (first..samples.min(first + PART_SAMPLES)).map(|number| self.layout_of(number, &mut scratch));
            layouts.map(|layout| Ok(layout?.record_bytes)).collect::<Result<Vec<_>>>()
        };
        let parts: Vec<_> = (0..samples.div_ceil(PART_SAMPLES)).into_par_iter().map(part).collect();
        let mut all = Vec::with_capacity(samples as usize);
        for part in parts {
            // The first error of all, whatever the number of threads.
            all.extend_from_slice(&part?);
        }
        Ok(self.record_bytes.get_or_init(|| all))
    }

    /// The format that the shards are written in.
    pub fn format(&self) -> &dyn Format {
        self.format.0.as_ref()
    }

    /// File name of shard `number`.
    pub fn shard_file(&self, number: usize) -> String {
        let name = self.plain_file(number);
        match self.options.compression {
            Compression::None => name,
            Compression::Zstd(_) => name + self.format.0.zstd_extension().unwrap_or_default(),
        }
    }

    /// File name that shard `number` has where it is not compressed.
    fn plain_file(&self, number: usize) -> String {
        self.format.0.shard_file(&self.name, number as u64, self.shards.len() as u64)
    }

    /// File name of the index of shard `number`.
    pub fn index_file(&self, number: usize) -> String {
        let name = self.plain_file(number);
        format!("{}.index", name.strip_suffix(self.format.0.extension()).unwrap_or(&name))
    }

    /// Digits of a key.
    pub(crate) fn key_digits(&self) -> usize {
        self.key_digits
    }

    /// Name of the algorithm that orders the samples.
    pub fn order_algorithm(&self) -> &'static str {
        match self.options.order {
            Order::Shuffled => permutation::ALGORITHM,
            Order::Source => "source",
        }
    }

    /// Length in bytes of shard `number` before compression.
    pub fn content_bytes(&self, shard: &Shard) -> u64 {
        self.whole_bytes(shard.samples, shard.records_bytes)
    }

    /// Length in bytes of a shard of so many samples whose records are `records_bytes` long together.
    pub fn whole_bytes(&self, samples: u64, records_bytes: u64) -> u64 {
        let end = self.format.0.head_bytes(samples) + records_bytes;
        end + self.format.0.tail_bytes(end)
    }

    /// Number among the components of the first that the source has of its own.
    pub fn first_component(&self) -> usize {
        // They come last.
        self.format().components().len() - self.options.format.components.len()
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.whole.as_ref().map_or(self.listing.len(), |whole| whole.samples)
    }

    /// Number of samples in the shards of [`Plan::held`].
    pub fn held_samples(&self) -> u64 {
        self.shards[self.held.clone()].iter().map(|shard| shard.samples).sum()
    }

    /// Length in bytes of all images together; of a part, of its own.
    pub fn payload_bytes(&self) -> u64 {
        self.listing.entries().iter().map(|entry| u64::from(entry.bytes)).sum()
    }

    /// Length in bytes of all shards together before compression; of a part, of its own.
    pub fn shard_bytes(&self) -> u64 {
        self.shards[self.held.clone()].iter().map(|shard| self.content_bytes(shard)).sum()
    }

    /// Length in bytes that the indexes will have, to a few parts in a thousand; of a part, its own.
    pub fn index_bytes(&self) -> u64 {
        let row = 72 + 8 * self.format.0.components().len() as u64 + self.key_digits as u64;
        let folders: u64 = self
            .listing
            .samples_by_folder()
            .iter()
            .zip(self.listing.folders())
            .map(|(samples, folder)| (samples.end - samples.start) * (folder.path.len() as u64 + 1))
            .sum();
        self.listing.len() * row + self.listing.name_bytes() + folders + self.held.len() as u64 * 256
    }

    /// BLAKE3 over all that decides the bytes of the shards, without reading an image: options, classes, and of every
    /// sample path and length. Where images were changed it is their lengths before that count, and the recipe: so the hash
    /// is known before they are.
    pub fn hash(&self) -> Result<FileHash> {
        if let Some(whole) = &self.whole {
            return Ok(whole.plan.0);
        }
        let mut hasher = blake3::Hasher::new();
        let options = serde_json::to_vec(&(&self.name, &self.options))
            .map_err(|error| Error::data(format!("cannot write json: {error}")))?;
        // Few bytes at a time take several times as long.
        let mut held = Vec::with_capacity(2 * HASHED_BYTES);
        let mut text = |bytes: &[u8]| {
            held.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            held.extend_from_slice(bytes);
            if held.len() >= HASHED_BYTES {
                hasher.update(&held);
                held.clear();
            }
        };
        text(&options);
        let found = self.before.as_ref().map(|before| (&before.listing, &before.unpacked));
        let (listing, unpacked) = found.unwrap_or((&self.listing, &self.unpacked));
        listing.classes.iter().for_each(|class| text(class));
        text(b"");
        for (folder, samples) in listing.folders().iter().zip(listing.samples_by_folder()) {
            text(&folder.path);
            for number in samples {
                text(listing.name(number));
                text(&listing.entry(number).bytes.to_le_bytes());
            }
        }
        let components = listing.components();
        if !components.kinds.is_empty() {
            for number in 0..listing.len() {
                for (cell, content) in components.content_of(number) {
                    text(&cell.bytes.to_le_bytes());
                    text(content.unwrap_or_default());
                }
            }
        }
        // There are few forms, and many samples of each.
        let forms: Vec<_> = components.forms.iter().map(ToString::to_string).collect();
        let plain = components.form(Forms::BYTES).to_string();
        let of_cells = components.cells.iter().map(|cell| cell.form);
        for form in components.payload_forms.iter().copied().chain(of_cells).filter(|form| *form != Forms::BYTES) {
            text(forms.get(form as usize).unwrap_or(&plain).as_bytes());
        }
        for entry in unpacked {
            text(&entry.path);
            text(&[entry.fate as u8]);
        }
        if let (Arrangement::Stored(_), Some(order)) = (&self.arrangement, listing.stored_order()) {
            order.iter().for_each(|number| text(&number.to_le_bytes()));
        }
        hasher.update(&held);
        Ok(*hasher.finalize().as_bytes())
    }

    /// Images that were found, of each class: those in the listing and those known not to be packed; and those without
    /// a class.
    pub fn counts(&self) -> (Vec<Counts>, Counts) {
        if let Some(whole) = &self.whole {
            return (whole.counts.clone(), whole.unclassified);
        }
        let mut counts = vec![Counts::default(); self.listing.classes.len()];
        let mut unclassified = Counts::default();
        for entry in self.listing.entries() {
            let counts = match self.listing.folders()[entry.folder as usize].class {
                Some(class) => &mut counts[class as usize],
                None => &mut unclassified,
            };
            counts.discovered += 1;
            counts.packed += 1;
        }
        for entry in &self.unpacked {
            let counts = match entry.class {
                Some(class) => &mut counts[class as usize],
                None => &mut unclassified,
            };
            entry.fate.count(counts);
        }
        (counts, unclassified)
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! The plan: the shard and exact byte range of every sample, before any image is read.
//!
//! Pure: listing, options and seed in, plan out; no I/O, no clock, no dependence on the number of threads. The
//! plan keeps the listing, the cuts and the lengths of records; the order is a bijection and is computed on
//! demand.

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
    formats::{self, Format, Layout, block_headers},
    hash::FileHash,
    manifest::Counts,
    permutation::{self, Permutation},
    sample::{Forms, Sample},
    size, text,
};

use crate::{
    ledger::{Fate, Unpacked},
    listing::Listing,
    source::SourceListing,
};
pub use options::{Check, Compression, Cut, Options, Order};
pub use part::Whole;
pub(crate) use part::{Restored, ranked};

/// Target length in bytes of a block of consecutive samples.
pub const BLOCK_BYTES: u64 = 512 * 1024;
/// Number of samples whose layouts a thread computes at a time.
const PART_SAMPLES: u64 = 1 << 13;
/// Bytes that [`Plan::hash`] hashes at a time.
const HASHED_BYTES: usize = 16 << 10;
/// Minimum number of digits of a key.
const KEY_DIGITS: usize = 8;

/// A shard of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Position of its first sample in the order.
    pub first: u64,
    /// Number of samples.
    pub samples: u64,
    /// Length of their records in bytes, block headers included.
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
    /// Options that decide the bytes.
    pub options: Options,
    /// The samples, or the samples of the shards in [`Plan::held`].
    pub listing: Arc<Listing>,
    /// Shards whose samples are in the listing, by number: all shards, except for a part of a plan.
    pub held: Range<usize>,
    /// Totals over all samples, if the listing may not have all samples.
    pub(crate) whole: Option<Whole>,
    /// Images that are known to be left out.
    pub unpacked: Vec<Unpacked>,
    /// The samples before preprocessing, if there is a recipe.
    before: Option<Arc<SourceListing>>,
    /// Number of files that are not samples, by reason.
    pub ignored: BTreeMap<String, u64>,
    /// Shards in order.
    pub shards: Vec<Shard>,
    /// Number of samples in a block.
    pub block_samples: u64,
    /// Length of the longest record in bytes, with as many block headers as it may have.
    pub longest_record_bytes: u32,
    /// See [`Plan::record_bytes`].
    record_bytes: OnceLock<Vec<u32>>,
    key_digits: usize,
    /// A key of the common width, for uses where only the width matters.
    any_key: String,
    arrangement: Arrangement,
    format: Chosen,
}

/// Order of the samples: number in the listing by position.
#[derive(Debug)]
enum Arrangement {
    /// Canonical order.
    Canonical,
    /// The own order of a source: number in the listing by position.
    Stored(Vec<u64>),
    /// Keyed bijection.
    Shuffled(Permutation),
    /// Order of a part, with its first position: number in the listing by position in the part.
    Part(u64, Vec<u32>),
}

/// The format of the shards.
struct Chosen(Box<dyn Format>);

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

/// Key, path and components of a sample; the memory is reused for the next sample.
#[derive(Debug, Default)]
pub struct Scratch {
    key: String,
    path: Vec<u8>,
    components: Vec<Option<u32>>,
    forms: Vec<u32>,
}

impl Plan {
    /// Plans the packing of a listing.
    ///
    /// # Errors
    /// If there are no samples, or the format cannot hold a sample.
    pub fn new(found: SourceListing, options: Options) -> Result<Self> {
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
        plan.longest_record_bytes = plan.longest_placed(longest)?;
        plan.block_samples = (BLOCK_BYTES * samples).div_ceil(total.max(1)).clamp(1, samples);
        plan.cut(total, longest)?;
        plan.held = 0..plan.shards.len();
        Ok(plan)
    }

    /// Error for a plan without samples, with the first image that was left out.
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
    /// If the numbers do not add up to all samples, or the format cannot hold one.
    pub fn with_shards(found: SourceListing, options: Options, samples: &[u64], block_samples: u64) -> Result<Self> {
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
            let plain = shard.positions().map(|position| all[plan.sample_at(position) as usize]);
            shard.records_bytes = plan.placed(shard.samples, plain).map(u64::from).sum();
            position += samples;
            shards.push(shard);
        }
        (plan.shards, plan.longest_record_bytes) = (shards, plan.longest_placed(longest)?);
        plan.held = 0..plan.shards.len();
        plan.block_samples = block_samples;
        Ok(plan)
    }

    /// A plan without shards yet.
    pub(crate) fn without_cuts(found: SourceListing, options: Options) -> Result<Self> {
        let samples = found.listing.len();
        let arrangement = match options.order {
            Order::Shuffled => Arrangement::Shuffled(Permutation::new(samples, options.seed)),
            Order::Source => found.listing.stored_order().map_or(Arrangement::Canonical, Arrangement::Stored),
        };
        Self::arranged(found, options, samples, arrangement)
    }

    /// A plan of `samples` samples in this order, without shards yet.
    fn arranged(found: SourceListing, options: Options, samples: u64, arrangement: Arrangement) -> Result<Self> {
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

    /// Name of its samples, for messages: `image`, or `sample` if samples are not images.
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

    /// The sample at `position`, for the format.
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

    /// Writes lengths and forms of the components of sample `number` to `scratch`, over the ones there.
    fn components(&self, number: u64, scratch: &mut Scratch) {
        let cells = self.listing.components().cells_of(number);
        scratch.components.clear();
        scratch.components.extend(cells.iter().map(|cell| cell.length()));
        scratch.forms.clear();
        scratch.forms.extend(cells.iter().map(|cell| cell.form));
    }

    /// Layout of sample `number` of the listing. Only the width of the key matters, and the path only if the
    /// format writes paths.
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

    /// Lengths in bytes of all records of a shard of `samples` samples, from their lengths without block headers.
    pub fn placed(&self, samples: u64, plain_bytes: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
        block_headers::placed(self.format.0.block_headers(), self.format.0.head_bytes(samples), plain_bytes)
    }

    /// Maximum length in bytes of a record that has `longest` bytes without block headers.
    fn longest_placed(&self, longest: u32) -> Result<u32> {
        let placed = self.format.0.block_headers().map_or(longest.into(), |headers| headers.most_bytes(longest));
        u32::try_from(placed).map_err(|_| Error::usage(format!("a record of {placed} bytes must stay below 4 GiB")))
    }

    /// Length in bytes of the record of each sample of the listing, without block headers; computed once.
    ///
    /// # Errors
    /// If the format cannot hold a sample.
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
            // The error of the first sample, for any number of threads.
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

    /// File name of shard `number` without compression.
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

    /// Length in bytes of a shard with this number of samples, and `records_bytes` for all their records.
    pub fn whole_bytes(&self, samples: u64, records_bytes: u64) -> u64 {
        let end = self.format.0.head_bytes(samples) + records_bytes;
        end + self.format.0.tail_bytes(samples, end)
    }

    /// Number of the first component of the source among the components of the format.
    pub fn first_component(&self) -> usize {
        // Components of the source come last.
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

    /// Length in bytes of all images; for a part, of its own.
    pub fn payload_bytes(&self) -> u64 {
        self.listing.entries().iter().map(|entry| u64::from(entry.bytes)).sum()
    }

    /// Length in bytes of all shards before compression; for a part, of its own.
    pub fn shard_bytes(&self) -> u64 {
        self.shards[self.held.clone()].iter().map(|shard| self.content_bytes(shard)).sum()
    }

    /// Estimated length in bytes of the indexes, accurate to a few parts in a thousand; for a part, of its own.
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

    /// BLAKE3 over all inputs that decide the bytes of the shards, without reading an image: options, classes,
    /// and path and length of every sample. If images are preprocessed, their original lengths and the recipe
    /// are hashed, so the hash is known before preprocessing.
    pub fn hash(&self) -> Result<FileHash> {
        if let Some(whole) = &self.whole {
            return Ok(whole.plan.0);
        }
        let mut hasher = blake3::Hasher::new();
        let options = serde_json::to_vec(&(&self.name, &self.options))
            .map_err(|error| Error::data(format!("cannot write json: {error}")))?;
        // Hashing a few bytes at a time is several times slower.
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
                for ((cell, content), kind) in components.content_of(number).zip(&components.kinds) {
                    text(&cell.bytes.to_le_bytes());
                    // The stamp of a file decides no byte.
                    let path = kind.file_column().and_then(|_| cell.length().and(components.named_file(cell)));
                    text(path.map_or(content.unwrap_or_default(), |(path, _)| path));
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

    /// Number of images found, for each class and for images without a class: those in the listing and those
    /// that are known to be left out.
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

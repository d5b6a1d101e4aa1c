//! A dataset that this program sealed, as a source: its manifest and indexes tell all, and every image is compared with
//! its content hash when it is read.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::{Beside, Choice, foreign::Label},
    manifest::{Class, Manifest},
    size,
};
use shardpack_reader::Dataset;

use super::{
    Found, ReadError, Refusal, Source,
    classes::{Classes, Collector, Words},
    image_folder::{Keep, Options, Splits, order},
    medium,
};
use crate::{
    extra::{Extra, Piece},
    ledger::{Fate, Unpacked},
    listing::Listing,
    monitor::{Monitor, Phase},
    sys,
};

/// Lists the dataset in `root`, or those of its splits.
pub(super) fn discover(root: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Vec<Found>> {
    let keep = Keep::new(options)?;
    monitor.begin(Phase::Walking, 0, 0);
    let datasets = Dataset::open_all(root)?;
    let is_split = |dataset: &Dataset| dataset.folder() != root;
    let wanted = |dataset: &&Dataset| match &options.splits {
        Splits::Names(names) => names.iter().any(|name| is_split(dataset) && name == dataset.name()),
        _ => true,
    };
    if let Splits::Names(names) = &options.splits
        && let Some(missing) = names.iter().find(|name| !datasets.iter().any(|dataset| dataset.name() == **name))
    {
        return Err(Error::usage(format!("no split {missing:?}, which --splits names")).in_file(root));
    }
    let datasets: Vec<_> = datasets.iter().filter(wanted).collect();
    datasets.iter().map(|dataset| of_dataset(dataset, is_split(dataset), &keep, options, monitor)).collect()
}

fn of_dataset(
    dataset: &Dataset,
    is_split: bool,
    keep: &Keep,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Found> {
    let manifest: &Manifest = dataset.manifest();
    let known: Vec<Vec<u8>> = match options.no_labels {
        true => Vec::new(),
        false => dataset.classes().iter().map(Class::name_bytes).collect(),
    };
    let mut words = Words::default();
    words.intern_all(&known);
    let classes = Classes::settle(std::iter::empty(), &words, &known);
    let choice = Choice::of_manifest(manifest)?;
    let mut notes = Vec::new();
    // They are the last components.
    let first = manifest.components.len().saturating_sub(choice.beside.len());
    let own = choice.beside.iter().zip(first..);
    let (kept, left): (Vec<_>, Vec<_>) = own.partition(|(kind, _)| !options.no_text || options.beside.contains(kind));
    if !left.is_empty() {
        let names: Vec<_> = left.iter().map(|(kind, _)| kind.name()).collect();
        notes.push(format!("left behind: {}", names.join(", ")));
    }
    let kinds_beside: Vec<Beside> = kept.iter().map(|(kind, _)| (*kind).clone()).collect();
    if options.meta && !choice.json && kinds_beside.iter().any(Beside::is_text) {
        notes.push("the component json stays as it is: --meta json adds nothing to it".to_owned());
    }
    let mut collector = Collector::with(&classes.names, Extra::of(kinds_beside.clone()));
    let (mut unpacked, mut kinds) = (Vec::new(), BTreeMap::new());
    for number in 0..dataset.len() {
        if number % 4096 == 0 {
            monitor.go_on()?;
        }
        let row = dataset.row(number)?;
        let bytes = row.payload().1;
        let label = row.label.map_or(Label::Missing, Label::Number);
        let mut refuse = |class, fate, reason: String| {
            unpacked.push(Unpacked { path: row.path.to_vec(), class, fate, reason: reason.into() });
        };
        let class = match known.is_empty() {
            true => Ok(None),
            false => words.said(&label, None).and_then(|said| classes.number(said, &words)),
        };
        match class {
            Err(reason) => refuse(None, Fate::Skipped, reason),
            Ok(class) if !keep.wants(row.path) => {
                refuse(class, Fate::Filtered, "left out by --include or --exclude".to_owned());
            }
            Ok(class) => {
                *kinds.entry(row.image.kind).or_default() += 1;
                collector.add_path(class, row.path, bytes, number, 0)?;
                if !kinds_beside.is_empty() {
                    let bytes = |at: usize| row.component(at).map_or(u32::MAX, |extent| extent.bytes);
                    let pieces = kept.iter().map(|(_, at)| Piece { bytes: bytes(*at), stamp: 0 });
                    collector.add_extra(&pieces.collect::<Vec<_>>(), None);
                }
                monitor.advance(1, bytes.into());
            }
        }
    }
    unpacked.sort_unstable_by(order);
    let mut listing = collector.finish();
    listing.part_namesakes(|number, name| [format!("{number}/").as_bytes(), name].concat())?;
    let split = is_split.then(|| dataset.name().to_owned());
    let left_out = manifest.ledger.counts.discovered - manifest.ledger.counts.packed;
    if left_out > 0 {
        let what = size::counted(left_out, "image");
        notes.push(format!("left out when this dataset was packed: {what}; in its ledger.jsonl"));
    }
    let meta = !kinds_beside.is_empty() && choice.json;
    Ok(Found { split, listing: Arc::new(listing), unpacked, kinds, notes, meta, ..Found::default() })
}

/// Hands out the images of a sealed dataset: the place of a sample is its number in stored order.
#[derive(Debug)]
pub struct SealedReader<'a> {
    listing: &'a Listing,
    dataset: Dataset,
}

impl<'a> SealedReader<'a> {
    /// Serves `listing`, which was made of the dataset in `folder`.
    ///
    /// # Errors
    /// When it cannot be opened, or holds fewer samples than were listed.
    pub fn open(folder: &Path, listing: &'a Listing) -> Result<Self> {
        let dataset = Dataset::open(folder)?.check_content(true);
        let last = listing.entries().iter().map(|entry| entry.place).max();
        if last.is_some_and(|last| last >= dataset.len()) {
            return Err(Error::data("holds fewer samples than were listed").in_file(folder));
        }
        Ok(Self { listing, dataset })
    }
}

/// Damage is of one sample, and so is a file that may not be read; a machine that cannot read at this moment is not.
pub(super) fn refused(error: Error) -> ReadError {
    match (error.kind(), error.io_error()) {
        (ErrorKind::Data, _) => ReadError::Refused(Refusal(error.to_string())),
        (_, Some(io)) if !sys::is_of_machine(io) => ReadError::Refused(Refusal(error.to_string())),
        _ => ReadError::Fatal(error),
    }
}

impl Source for SealedReader<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        read(&self.dataset, self.listing.entry(number).place, payload)
    }

    fn read_beside(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        read_beside(&self.dataset, self.listing.entry(number).place, &self.listing.extra().kinds, which, out)
    }

    fn peek(&self, number: u64, first: &mut [u8], wait: bool) -> Result<Option<usize>, ReadError> {
        peek(&self.dataset, self.listing.entry(number).place, first, wait)
    }
}

/// As [`Source::read`], of the sample that is number `stored` of `dataset`.
pub(crate) fn read(dataset: &Dataset, stored: u64, payload: &mut [u8]) -> Result<(), ReadError> {
    let mut image = Vec::with_capacity(payload.len());
    dataset.read(stored, &mut image).map_err(refused)?;
    if image.len() != payload.len() {
        let (found, planned) = (image.len(), payload.len());
        let what = format!("changed since it was planned: {found} bytes, the plan says {planned}");
        return Err(ReadError::Refused(Refusal(what)));
    }
    payload.copy_from_slice(&image);
    Ok(())
}

/// As [`Source::read_beside`], of the sample that is number `stored` of `dataset`, where samples have `kinds`.
pub(crate) fn read_beside(
    dataset: &Dataset,
    stored: u64,
    kinds: &[Beside],
    which: usize,
    out: &mut [u8],
) -> Result<(), ReadError> {
    let sample = dataset.sample(stored).map_err(refused)?;
    // The content hash covers the image alone.
    sample.check_frame().map_err(refused)?;
    let found = kinds.get(which).and_then(|kind| sample.component(kind.name()));
    let found = found.filter(|found| found.len() == out.len()).ok_or_else(|| {
        ReadError::Refused(Refusal("changed since it was planned: what it has beside its image".to_owned()))
    })?;
    out.copy_from_slice(found);
    Ok(())
}

/// As [`Source::peek`], of the sample that is number `stored` of `dataset`.
pub(crate) fn peek(dataset: &Dataset, stored: u64, first: &mut [u8], wait: bool) -> Result<Option<usize>, ReadError> {
    let row = dataset.row(stored).map_err(refused)?;
    let shard = dataset.shard_of(stored).map_err(refused)?;
    let file = shard.open().map_err(refused)?;
    // Where it is in a compressed shard, roughly: this tells of the disk, not of the image.
    let at = row.payload().0.min(shard.entry().bytes.saturating_sub(1));
    medium::peek(&file, at, first, wait).map_err(|error| refused(sys::io_error("cannot read", &shard.path(), error)))
}

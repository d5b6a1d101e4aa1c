//! Reads the samples of sealed datasets. At a URL, neighbouring samples of a shard share one request.
//!
//! Holds at all times: returned data matches the content hash in the index.

use std::{borrow::Cow, ops::Range, sync::Arc};

use shardpack_format::{Error, Result, component::Component, index::RowRef};
use shardpack_reader::{Dataset, Sample, Scratch, Shard, Window};

use super::{
    DatasetLocation, Look, ReadError, Refusal, SampleReader,
    api::refused,
    dataset::{NUMBER_BITS, members},
    storage,
};
use crate::{listing::Listing, monitor::Monitor, sys};

/// Maximum number of bytes that one request to a URL reads for several samples; each of many reads in flight holds so many.
const RUN_BYTES: u64 = 256 << 10;
/// Maximum gap in bytes between two samples that is read and discarded: a second request takes longer.
const GAP_BYTES: u64 = 16 << 10;

/// Shard number of sample `stored`, and the byte range of its record in the shard.
fn record(dataset: &Dataset, stored: u64) -> Result<(usize, Range<u64>)> {
    let (shard, row) = (dataset.shard_of(stored)?, dataset.row(stored)?);
    Ok((shard.number(), row.offset..row.offset + u64::from(row.record_bytes)))
}

/// Reads the samples of sealed datasets. The place of a sample is the dataset and the number in stored order.
#[derive(Debug)]
pub struct SealedReader<'a> {
    listing: &'a Listing,
    datasets: Vec<Arc<Dataset>>,
}

impl<'a> SealedReader<'a> {
    /// Opens a reader for `listing`, which must be made from the datasets in `roots`: from the datasets of `split`, or from all.
    ///
    /// # Errors
    /// If a dataset cannot be opened, or holds fewer samples than were listed.
    pub fn open(
        roots: &[DatasetLocation],
        split: Option<&str>,
        listing: &'a Listing,
        monitor: &dyn Monitor,
    ) -> Result<Self> {
        let members =
            members(roots, monitor)?.into_iter().filter(|member| split.is_none() || member.split.as_deref() == split);
        let datasets: Vec<_> = members.map(|member| member.dataset).collect();
        let reader = Self { listing, datasets };
        if let Some(lost) = listing.entries().iter().find(|entry| {
            let (dataset, number) = (entry.place >> NUMBER_BITS, entry.place & ((1 << NUMBER_BITS) - 1));
            reader.datasets.get(dataset as usize).is_none_or(|dataset| number >= dataset.len())
        }) {
            let dataset = reader.datasets.get((lost.place >> NUMBER_BITS) as usize);
            let folder = dataset.map_or_else(
                || roots.first().map(|root| root.folder.clone()).unwrap_or_default(),
                |one| one.folder().into(),
            );
            return Err(Error::data("holds fewer samples than were listed").in_file(folder));
        }
        Ok(reader)
    }

    /// Dataset and stored number of sample `number` of the listing.
    fn place(&self, number: u64) -> (&Dataset, u64) {
        let place = self.listing.entry(number).place;
        // The dataset number was checked on open.
        (&self.datasets[(place >> NUMBER_BITS) as usize], place & ((1 << NUMBER_BITS) - 1))
    }
}

/// Samples of one shard at a URL, fetched with one request.
struct Together<'a> {
    reader: &'a SealedReader<'a>,
    shard: Shard<'a>,
    window: Window,
}

impl Together<'_> {
    /// Sample `number` of the listing, if it was fetched and its hashes are right.
    fn sample(&self, number: u64) -> Option<Sample<'_>> {
        let (dataset, stored) = self.reader.place(number);
        let row = stored.checked_sub(self.shard.samples().start).filter(|row| *row < self.shard.len())?;
        let is_same = std::ptr::eq(dataset, self.shard.dataset());
        let sample = self.shard.sample_in(&self.window, row).ok()?.filter(|_| is_same)?;
        (sample.check_content().is_ok() && sample.check_frame().is_ok()).then_some(sample)
    }
}

impl SampleReader for Together<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        match self.sample(number) {
            Some(sample) => put_image(self.shard.dataset(), sample.row(), sample.bytes(), payload),
            // Reads again: data corrupted in transit is correct on a second read, and a persistent error is reported then.
            None => self.reader.read(number, payload),
        }
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        match self.sample(number) {
            Some(sample) => {
                put_component(self.shard.dataset(), &sample, &self.reader.listing.components().kinds, which, out)
            }
            None => self.reader.read_component(number, which, out),
        }
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        self.reader.peek(number, first, look)
    }
}

impl SampleReader for SealedReader<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        let (dataset, stored) = self.place(number);
        read(dataset, stored, payload)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let (dataset, stored) = self.place(number);
        read_component(dataset, stored, &self.listing.components().kinds, which, out)
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        let (dataset, stored) = self.place(number);
        peek(dataset, stored, first, look)
    }

    fn can_coalesce(&self, first: u64, before: u64, next: u64) -> bool {
        let [(of_first, first), (of_before, before), (of_next, next)] =
            [first, before, next].map(|one| self.place(one));
        if of_next.access().page_cache || !std::ptr::eq(of_first, of_next) || !std::ptr::eq(of_before, of_next) {
            return false;
        }
        let range = |number| record(of_next, number).ok();
        let (Some((of_first, first)), Some((_, before)), Some((of_next, next))) =
            (range(first), range(before), range(next))
        else {
            return false;
        };
        let gap = next.start.checked_sub(before.end);
        of_first == of_next && gap.is_some_and(|gap| gap <= GAP_BYTES) && next.end - first.start <= RUN_BYTES
    }

    fn read_batch(&self, numbers: &[u64]) -> Option<Box<dyn SampleReader + '_>> {
        let (dataset, first) = self.place(*numbers.first()?);
        let last = self.place(*numbers.last()?).1;
        let is_more = first != last || !self.listing.components().kinds.is_empty();
        if dataset.access().page_cache || !is_more {
            return None;
        }
        let (shard, mut window) = (dataset.shard_of(first).ok()?, Window::default());
        let range = record(dataset, first).ok()?.1.start..record(dataset, last).ok()?.1.end;
        // On failure each sample is read separately and reports its own error.
        shard.fill(&mut window, &mut Scratch::default(), range).ok()?;
        Some(Box::new(Together { reader: self, shard, window }))
    }
}

/// As [`SampleReader::read`], for sample `stored` of `dataset`.
pub fn read(dataset: &Dataset, stored: u64, payload: &mut [u8]) -> Result<(), ReadError> {
    let mut image = Vec::with_capacity(payload.len());
    let row = dataset.read(stored, &mut image).map_err(refused)?;
    put_image(dataset, &row, &image, payload)
}

/// Decodes the stored image of `row` into `payload`.
fn put_image(dataset: &Dataset, row: &RowRef<'_>, stored: &[u8], payload: &mut [u8]) -> Result<(), ReadError> {
    let format = dataset.format().map_err(refused)?;
    let image = match row.form(0).filter(|_| format.is_encoded(0)) {
        Some(form) => format.decode(0, form, stored).map_err(refused)?,
        None => Cow::Borrowed(stored),
    };
    if image.len() != payload.len() {
        let (found, planned) = (image.len(), payload.len());
        let what = format!("changed since it was planned: {found} bytes, {planned} in the plan");
        return Err(ReadError::Refused(Refusal(what)));
    }
    payload.copy_from_slice(&image);
    Ok(())
}

/// As [`SampleReader::read_component`], for sample `stored` of `dataset`, whose samples have the components `kinds`.
pub fn read_component(
    dataset: &Dataset,
    stored: u64,
    kinds: &[Component],
    which: usize,
    out: &mut [u8],
) -> Result<(), ReadError> {
    let sample = dataset.sample(stored).map_err(refused)?;
    // The content hash covers the image alone.
    sample.check_frame().map_err(refused)?;
    put_component(dataset, &sample, kinds, which, out)
}

/// Copies component `which` of `sample` to `out`, if samples have the components `kinds`.
fn put_component(
    dataset: &Dataset,
    sample: &Sample<'_>,
    kinds: &[Component],
    which: usize,
    out: &mut [u8],
) -> Result<(), ReadError> {
    let names = &dataset.manifest().components;
    let number = kinds.get(which).and_then(|kind| names.iter().position(|name| name == kind.name()));
    let found = number.map(|number| sample.content(number)).transpose().map_err(refused)?.flatten();
    let found = found
        .filter(|found| found.len() == out.len())
        .ok_or_else(|| ReadError::Refused(Refusal("changed since it was planned: its components differ".to_owned())))?;
    out.copy_from_slice(&found);
    Ok(())
}

/// As [`SampleReader::peek`], for sample `stored` of `dataset`.
pub fn peek(dataset: &Dataset, stored: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
    let row = dataset.row(stored).map_err(refused)?;
    if !dataset.access().page_cache {
        if matches!(look, Look::Memory | Look::Ahead) {
            return Ok(None);
        }
        let mut image = Vec::new();
        dataset.read(stored, &mut image).map_err(refused)?;
        let most = image.len().min(first.len());
        first[..most].copy_from_slice(&image[..most]);
        return Ok(Some(most));
    }
    let shard = dataset.shard_of(stored).map_err(refused)?;
    let file = shard.open().map_err(refused)?;
    // In a compressed shard this offset is approximate: the peek measures the disk, not the image.
    let at = row.payload().0.min(shard.entry().bytes.saturating_sub(1));
    let Some(file) = file.local() else { return Ok(None) };
    storage::peek(file, at, first, look).map_err(|error| refused(sys::io_error("cannot read", &shard.path(), error)))
}

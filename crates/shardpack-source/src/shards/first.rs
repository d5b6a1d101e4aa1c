//! Reads samples of compressed shards from memory, without unpacking whole files to disk: the first samples, or some components of all in
//! one pass.

use std::io::{self, Read};

use shardpack_format::{Result, formats::foreign::FieldSelection};

use super::{
    Shards,
    shard_reader::{of_component_stamp, of_place, of_stamp, stored_cells},
};
use crate::{Look, ReadError, Refusal, SampleReader, component_table::Cell, listing::Listing, monitor::Monitor};

/// Maximum number of unpacked bytes read from the start of a file.
const MAX_BYTES: usize = 32 << 20;

/// Samples in a part of an unpacked file.
struct First<'a> {
    shards: &'a Shards,
    listing: &'a Listing,
    file: usize,
    /// Offset of the part in the unpacked file.
    start: u64,
    bytes: Vec<u8>,
}

impl Shards {
    /// Returns the numbers of up to `most` samples that lie first in the first file of `listing`, and their reader.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn at_start<'a>(
        &'a self,
        listing: &'a Listing,
        most: usize,
    ) -> Result<(Vec<u64>, Box<dyn SampleReader + 'a>)> {
        let mut numbers: Vec<u64> = (0..listing.len()).collect();
        let place = |number: &u64| listing.entry(*number).place;
        if numbers.len() > most {
            numbers.select_nth_unstable_by_key(most, place);
            numbers.truncate(most);
        }
        numbers.sort_unstable_by_key(place);
        let file = numbers.first().map_or(0, |number| of_place(place(number)).0);
        numbers.retain(|number| of_place(place(number)).0 == file);
        let end = numbers.iter().map(|number| self.end_of(listing, *number)).max().unwrap_or(0);
        let mut first = First { shards: self, listing, file, start: 0, bytes: Vec::new() };
        if let Some(file) = self.files.get(file) {
            // The location of a sample does not depend on label options.
            let wanted = FieldSelection { no_labels: true, ..self.wanted.clone() };
            let inner = file.shard.unpacked(&wanted, &|| Ok(()))?;
            // Damage is reported by a full read.
            let _ = inner.take(end.min(MAX_BYTES) as u64).read_to_end(&mut first.bytes);
        }
        Ok((numbers, Box::new(first)))
    }

    /// Calls `take` for each sample of `listing`, in stored order, with a reader for its components `which`. Each file is read once, from
    /// its start.
    ///
    /// # Errors
    /// If a file cannot be opened, the user cancels, or `take` fails.
    pub(super) fn pass(
        &self,
        listing: &Listing,
        which: &[usize],
        monitor: &dyn Monitor,
        mut take: impl FnMut(u64, &dyn SampleReader) -> Result<()>,
    ) -> Result<()> {
        let mut numbers: Vec<u64> = (0..listing.len()).collect();
        numbers.sort_unstable_by_key(|number| listing.entry(*number).place);
        let file_of = |number: &u64| of_place(listing.entry(*number).place).0;
        for of_file in numbers.chunk_by(|a, b| file_of(a) == file_of(b)) {
            let number = of_file.first().map_or(0, file_of);
            let shard = &self.files[number].shard;
            let wanted = FieldSelection { no_labels: true, ..self.wanted.clone() };
            let mut inner = shard.unpacked(&wanted, &|| monitor.check_cancelled())?;
            let mut part = First { shards: self, listing, file: number, start: 0, bytes: Vec::new() };
            for number in of_file {
                let cells = listing.components().cells_of(*number);
                let of_image = of_stamp(listing.entry(*number).stamp).0;
                let ranges = which.iter().filter_map(|which| {
                    let (cell, (offset, recipe)) = (cells.get(*which)?, of_component_stamp(cells.get(*which)?.stamp));
                    let bytes = shard.component_bytes(recipe, cell.length()? as usize, of_image) as u64;
                    Some(offset..offset + bytes)
                });
                if let Some(range) = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) {
                    // Damage is reported for the samples that are not reached.
                    let _ = part.advance(&mut inner, range.start, range.end);
                }
                monitor.check_cancelled()?;
                shard.failure().map_or(Ok(()), Err)?;
                take(*number, &part)?;
            }
        }
        Ok(())
    }

    /// End offset of the bytes fetched for a sample, in its unpacked file.
    fn end_of(&self, listing: &Listing, number: u64) -> usize {
        let entry = listing.entry(number);
        let ((file, offset), of_image) = (of_place(entry.place), of_stamp(entry.stamp).0);
        let of_cell = |cell: &Cell| {
            let (offset, recipe) = of_component_stamp(cell.stamp);
            let bytes = self.files.get(file)?.shard.component_bytes(recipe, cell.length()? as usize, of_image);
            Some(offset as usize + bytes)
        };
        let ends = stored_cells(listing, number).filter_map(of_cell);
        ends.max().unwrap_or(0).max(offset as usize + of_image)
    }
}

fn refused<T>(what: &str) -> Result<T, ReadError> {
    Err(ReadError::Refused(Refusal(what.to_owned())))
}

impl First<'_> {
    /// Moves to `start..end` of the file that `inner` unpacks. A start before this part is not reached.
    fn advance(&mut self, inner: &mut dyn Read, start: u64, end: u64) -> io::Result<()> {
        let own_end = self.start + self.bytes.len() as u64;
        if start >= own_end {
            self.bytes.clear();
            self.start = own_end + io::copy(&mut inner.take(start - own_end), &mut io::sink())?;
        } else if start > self.start {
            self.bytes.drain(..(start - self.start) as usize);
            self.start = start;
        }
        let own_end = self.start + self.bytes.len() as u64;
        inner.take(end.saturating_sub(own_end)).read_to_end(&mut self.bytes).map(drop)
    }

    /// The `length` bytes at `offset`, if sample `number` is in this file and the file was unpacked that far.
    fn bytes(&self, number: u64, offset: u64, length: usize) -> Result<&[u8], ReadError> {
        let start = offset.checked_sub(self.start).map_or(usize::MAX, |start| start as usize);
        let bytes = start.checked_add(length).and_then(|end| self.bytes.get(start..end));
        let is_here = of_place(self.listing.entry(number).place).0 == self.file;
        bytes.filter(|_| is_here).map_or_else(|| refused("cannot be unpacked that far"), Ok)
    }
}

impl SampleReader for First<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        let entry = self.listing.entry(number);
        let ((file, offset), (length, recipe)) = (of_place(entry.place), of_stamp(entry.stamp));
        let fetched = self.bytes(number, offset, length)?;
        let image = self.shards.files[file].shard.image(fetched, recipe, &self.shards.wanted)?;
        fill(payload, &image)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let (entry, table) = (self.listing.entry(number), self.listing.components());
        let Some(cell) = table.cells_of(number).get(which) else {
            return refused("has no such component");
        };
        if table.kinds.get(which).is_some_and(|kind| kind.listed().is_some()) {
            return table.copy_text(*cell, out).map_err(|what| ReadError::Refused(Refusal(what)));
        }
        let (offset, recipe) = of_component_stamp(cell.stamp);
        let shard = &self.shards.files[of_place(entry.place).0].shard;
        if recipe == 0 {
            // The items of an array are stored without the `.npy` head.
            let head = table.form(cell.form).head();
            let items = self.bytes(number, offset, out.len().saturating_sub(head.len()))?;
            return fill(out, &[&head[..], items].concat());
        }
        let length = shard.component_bytes(recipe, out.len(), of_stamp(entry.stamp).0);
        fill(out, &shard.component(self.bytes(number, offset, length)?, recipe)?)
    }

    fn peek(&self, _: u64, _: &mut [u8], _: Look) -> Result<Option<usize>, ReadError> {
        Ok(None)
    }
}

/// Copies `content` to `out` if the length is the listed one.
fn fill(out: &mut [u8], content: &[u8]) -> Result<(), ReadError> {
    if out.len() != content.len() {
        return refused("has another length than was listed");
    }
    out.copy_from_slice(content);
    Ok(())
}

//! Reads the first samples of compressed shards from memory, without unpacking whole files to disk.

use std::io::Read;

use shardpack_format::{Result, formats::foreign::FieldSelection};

use super::{
    Shards,
    shard_reader::{of_component_stamp, of_place, of_stamp},
};
use crate::{Look, ReadError, Refusal, SampleReader, component_table::Cell, listing::Listing};

/// Maximum number of unpacked bytes read from the start of a file.
const MAX_BYTES: usize = 32 << 20;

/// Samples at the start of a file.
struct First<'a> {
    shards: &'a Shards,
    listing: &'a Listing,
    file: usize,
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
        let mut first = First { shards: self, listing, file, bytes: Vec::new() };
        if let Some(file) = self.files.get(file) {
            // The location of a sample does not depend on label options.
            let wanted = FieldSelection { no_labels: true, ..self.wanted.clone() };
            let inner = file.shard.unpacked(&wanted, &|| Ok(()))?;
            // Damage is reported by a full read.
            let _ = inner.take(end.min(MAX_BYTES) as u64).read_to_end(&mut first.bytes);
        }
        Ok((numbers, Box::new(first)))
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
        let ends = listing.components().cells_of(number).iter().filter_map(of_cell);
        ends.max().unwrap_or(0).max(offset as usize + of_image)
    }
}

fn refused<T>(what: &str) -> Result<T, ReadError> {
    Err(ReadError::Refused(Refusal(what.to_owned())))
}

impl First<'_> {
    /// The `length` bytes at `offset`, if sample `number` is in this file and the file was unpacked that far.
    fn bytes(&self, number: u64, offset: u64, length: usize) -> Result<&[u8], ReadError> {
        let start = offset as usize;
        let bytes = start.checked_add(length).and_then(|end| self.bytes.get(start..end));
        let is_here = of_place(self.listing.entry(number).place).0 == self.file;
        bytes.filter(|_| is_here).map_or_else(|| refused("is not among the first"), Ok)
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

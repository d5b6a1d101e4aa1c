//! The components of adopted samples: fields beside the image whose content lies in the shard as a reader returns it, such as a text in a tar.
//!
//! The index leaves out a field if its content is made from other bytes, as a number in TFRecord or a list in MDS. Such fields are counted.

use std::{collections::BTreeMap, ops::Range};

use shardpack_format::{
    Error, Result,
    component::Component,
    hash,
    sample::{Detail, Extent},
};

use crate::{
    listing::Listing,
    source::{Shards, component_table::Cell},
};

/// The components of the index, among those of the listing.
pub(crate) struct Components<'l> {
    listing: &'l Listing,
    shards: &'l Shards,
    /// Whether fields are files, so that an array is a `.npy` with its head. Other formats store the items alone.
    are_files: bool,
    /// Numbers in the listing's components.
    columns: Vec<usize>,
}

impl<'l> Components<'l> {
    /// The components whose content lies in the shards, in all samples.
    pub fn find(listing: &'l Listing, shards: &'l Shards, are_files: bool) -> Self {
        let mut found = Self { listing, shards, are_files, columns: Vec::new() };
        let cells = |column: usize| found.cells().map(move |cells| cells[column]);
        let lies_there =
            |column: &usize| cells(*column).all(|cell| cell.length().is_none() || found.start(cell).is_some());
        let columns = (0..listing.components().kinds.len()).filter(lies_there).collect();
        found.columns = columns;
        found
    }

    /// The cells of each sample.
    fn cells(&self) -> impl Iterator<Item = &'l [Cell]> {
        let listing = self.listing;
        (0..listing.len()).map(move |number| listing.components().cells_of(number))
    }

    /// The components, in the order of the index.
    pub fn kinds(&self) -> Vec<Component> {
        self.columns.iter().map(|column| self.listing.components().kinds[*column].clone()).collect()
    }

    /// Components of the listing that are not in the index, with the number of samples that have each.
    pub fn left_out(&self) -> BTreeMap<String, u64> {
        let kinds = &self.listing.components().kinds;
        let left = (0..kinds.len()).filter(|column| !self.columns.contains(column));
        let has = |column: usize| self.cells().filter(|cells| cells[column].length().is_some()).count() as u64;
        left.map(|column| (kinds[column].name().to_owned(), has(column))).collect()
    }

    /// Extents and details of the components of sample `number` in its record, whose bytes are `stored` and begin at `start` of the shard.
    ///
    /// # Errors
    /// If a component lies outside the record.
    pub fn of_sample(&self, number: u64, start: u64, stored: &[u8]) -> Result<Vec<(Extent, Detail)>> {
        let table = self.listing.components();
        let cells = table.cells_of(number);
        let one = |column: &usize| {
            let cell = cells[*column];
            let Some(content_bytes) = cell.length() else { return Ok((Extent::ABSENT, Detail::plain(u32::MAX))) };
            let outside =
                || Error::data(format!("its component {} lies outside the record", table.kinds[*column].name()));
            let offset = self.start(cell).and_then(|offset| u32::try_from(offset.checked_sub(start)?).ok());
            let extent = Extent { offset: offset.ok_or_else(outside)?, bytes: content_bytes };
            let content = extent.slice(stored).ok_or_else(outside)?;
            Ok((extent, Detail { form: cell.form, content_bytes, hash: Some(hash::component(content)) }))
        };
        self.columns.iter().map(one).collect()
    }

    /// The byte of the shard at which a component begins; `None` if it does not lie there.
    fn start(&self, cell: Cell) -> Option<u64> {
        let offset = self.shards.component_offset(cell)?;
        match self.listing.components().form(cell.form).items_bytes() {
            // The offset of an array is the offset of its items.
            Some(items) if self.are_files => offset.checked_sub(u64::from(cell.bytes).checked_sub(items)?),
            Some(_) => None,
            None => Some(offset),
        }
    }
}

/// The bytes of a record that an extent covers.
pub(crate) fn range(extent: &Extent) -> Range<usize> {
    extent.offset as usize..extent.offset as usize + extent.bytes as usize
}

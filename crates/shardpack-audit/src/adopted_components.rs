//! The components of adopted samples: fields beside the image whose content lies in the shard as a reader returns it, such as a text in a tar.
//!
//! A field that is made from its bytes, as a number in TFRecord, or a list in MDS, is not in the index; it is counted.

use std::{collections::BTreeMap, ops::Range};

use rayon::prelude::*;
use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    formats::foreign::{FieldSelection, Other, Record},
    hash,
    sample::{Detail, Extent},
};

use crate::{foreign::ShardFile, listing::Listing, monitor::Monitor, source::component_table::Cell};

/// The components of the index, among those of the listing.
pub(crate) struct Components<'l> {
    listing: &'l Listing,
    fields: Fields<'l>,
    /// Numbers in the listing's components.
    columns: Vec<usize>,
}

impl<'l> Components<'l> {
    /// Looks at all samples for components that lie in a shard unchanged.
    ///
    /// # Errors
    /// If a shard cannot be read.
    pub fn find(
        listing: &'l Listing,
        files: &[(&ShardFile, &[(u64, u64)])],
        fields: Fields<'l>,
        monitor: &dyn Monitor,
    ) -> Result<Self> {
        let all = &listing.components().kinds;
        let of_file = |(file, samples): &(&ShardFile, &[(u64, u64)])| -> Result<Vec<bool>> {
            let mut fit = vec![true; all.len()];
            let mut left = samples.iter().peekable();
            let mut walk = file.walk(fields.wanted, &|| monitor.check_cancelled())?;
            while left.peek().is_some()
                && let Some(record) = walk.next().map_err(|error| error.in_file(&file.path))?
            {
                let Some((number, _)) = left.next_if(|(_, offset)| is_at(&record, *offset)) else { continue };
                for ((fit, kind), cell) in fit.iter_mut().zip(all).zip(listing.components().cells_of(*number)) {
                    *fit &= cell.length().is_none() || fields.start(&record, kind, *cell).is_some();
                }
            }
            Ok(fit)
        };
        let fits: Vec<Vec<bool>> = match all.is_empty() {
            true => Vec::new(),
            false => files.par_iter().map(of_file).collect::<Result<_>>()?,
        };
        let columns = (0..all.len()).filter(|column| fits.iter().all(|of_file| of_file[*column])).collect();
        Ok(Self { listing, fields, columns })
    }

    /// The components, in the order of the index.
    pub fn kinds(&self) -> Vec<Component> {
        self.columns.iter().map(|column| self.listing.components().kinds[*column].clone()).collect()
    }

    /// Components of the listing that are not in the index, with the number of samples that have each.
    pub fn left_out(&self) -> BTreeMap<String, u64> {
        let table = self.listing.components();
        let left = (0..table.kinds.len()).filter(|column| !self.columns.contains(column));
        let has = |column: usize| {
            (0..self.listing.len()).filter(|number| table.cells_of(*number)[column].length().is_some()).count() as u64
        };
        left.map(|column| (table.kinds[column].name().to_owned(), has(column))).collect()
    }

    /// Extents and details of the components of sample `number` in its record, whose bytes are `stored` and begin at `start` of the shard.
    ///
    /// # Errors
    /// If a component lies outside the record.
    pub fn of_sample(
        &self,
        record: &Record,
        number: u64,
        (start, stored): (u64, &[u8]),
    ) -> Result<Vec<(Extent, Detail)>> {
        let table = self.listing.components();
        let cells = table.cells_of(number);
        let one = |column: &usize| {
            let (kind, cell) = (&table.kinds[*column], cells[*column]);
            let Some(content_bytes) = cell.length() else { return Ok((Extent::ABSENT, Detail::plain(u32::MAX))) };
            let outside = || Error::data(format!("its component {} lies outside the record", kind.name()));
            let offset = self.fields.start(record, kind, cell).and_then(|offset| offset.checked_sub(start));
            let offset = offset.and_then(|offset| u32::try_from(offset).ok()).ok_or_else(outside)?;
            let extent = Extent { offset, bytes: content_bytes };
            let content = extent.slice(stored).ok_or_else(outside)?;
            Ok((extent, Detail { form: cell.form, content_bytes, hash: Some(hash::component(content)) }))
        };
        self.columns.iter().map(one).collect()
    }
}

/// Whether the image of a record is made from the bytes at `offset`.
pub(crate) fn is_at(record: &Record, offset: u64) -> bool {
    record.image.as_ref().is_ok_and(|image| image.fetch.start == offset)
}

/// The bytes of a record that an extent covers.
pub(crate) fn range(extent: &Extent) -> Range<usize> {
    extent.offset as usize..extent.offset as usize + extent.bytes as usize
}

/// Which fields of a record are components.
pub(crate) struct Fields<'l> {
    pub wanted: &'l FieldSelection,
    /// Whether fields are files, so that an array is a `.npy` with its head. Other formats store the items alone.
    pub are_files: bool,
}

impl Fields<'_> {
    /// The byte of the shard at which the component `kind` of a record begins, if its bytes lie there unchanged, with the length that the
    /// listing has.
    fn start(&self, record: &Record, kind: &Component, cell: Cell) -> Option<u64> {
        let is_kind = |other: &&Other| {
            Component::field(&self.wanted.called(&other.name)).is_ok_and(|one| one.name() == kind.name())
                && other.recipe == 0
                && cell.length().is_some_and(|bytes| u64::from(bytes) == other.bytes)
        };
        let other = record.others.iter().find(is_kind)?;
        match other.form.as_ref().and_then(Form::items_bytes) {
            Some(items) if self.are_files => other.offset?.checked_sub(other.bytes.checked_sub(items)?),
            Some(_) => None,
            None => other.offset,
        }
    }
}

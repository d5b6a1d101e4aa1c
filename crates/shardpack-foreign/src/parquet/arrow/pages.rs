//! A leaf of an Arrow file as pages of parquet: rows of record batches in the encoding PLAIN, with levels.
//!
//! Memory holds one page and a window of each buffer of the leaf, or the whole buffer if it is compressed. A page has whole rows; its length
//! and the levels of a row are limited.

use std::{fmt, ops::Range, sync::Arc};

use parquet::{
    basic::Encoding,
    column::page::{Page, PageMetadata, PageReader},
    errors::{ParquetError, Result},
};
use shardpack_format::memory;

use super::{
    super::super::Bytes,
    buffers::{self, Failed, Layout},
    messages::{Messages, Place, flatbuffer},
    schema::Leaf,
    values::{Column, Entries, Rows},
};
use crate::flat::Table;

/// Length at which a page ends.
const PAGE_BYTES: u64 = 1 << 20;
/// Levels at which a page ends.
const PAGE_LEVELS: u64 = 1 << 14;

/// A failure in a record batch.
#[derive(Debug)]
pub(in super::super) struct InBatch {
    /// Number of the batch in the file.
    pub batch: usize,
    pub what: String,
}

impl fmt::Display for InBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record batch {}: {}", self.batch, self.what)
    }
}

impl std::error::Error for InBatch {}

/// Reads a leaf.
pub(in super::super) struct Pages {
    file: Arc<Bytes>,
    messages: Arc<Messages>,
    leaf: usize,
    /// Number of the next batch, and the batch that is being read, with its number of rows.
    batch: usize,
    open: Option<(Column, u64)>,
    /// Number of the next row in it.
    row: u64,
    /// Numbers of the messages with entries of its dictionary.
    dictionaries: Vec<usize>,
    /// Entries that are known, and the range in `dictionaries` of their messages.
    entries: Option<(Range<usize>, Arc<Entries>)>,
    peeked: Option<Page>,
}

impl Pages {
    pub fn new(file: Arc<Bytes>, messages: Arc<Messages>, leaf: usize) -> Result<Self> {
        let own = messages.schema.leaves.get(leaf);
        if let Some(what) = own.and_then(|leaf| leaf.unread) {
            return Err(ParquetError::General(format!("{what}, which is not read")));
        }
        let id = own.and_then(Leaf::dictionary).map(|(id, _)| id);
        let all = messages.dictionaries.iter().enumerate();
        let dictionaries = all.filter(|(_, message)| Some(message.id) == id).map(|(number, _)| number).collect();
        Ok(Self { file, messages, leaf, batch: 0, open: None, row: 0, dictionaries, entries: None, peeked: None })
    }

    fn next_page(&mut self) -> Result<Option<Page>> {
        if let Some(page) = self.peeked.take() {
            return Ok(Some(page));
        }
        self.build().map_err(|failed| match failed {
            Failed::Io(error) => ParquetError::External(Box::new(error)),
            Failed::Damaged(what) => {
                let batch = self.batch.saturating_sub(1);
                ParquetError::External(Box::new(InBatch { batch, what }))
            }
        })
    }

    fn build(&mut self) -> buffers::Result<Option<Page>> {
        let messages = Arc::clone(&self.messages);
        let Some(leaf) = messages.schema.leaves.get(self.leaf) else { return Ok(None) };
        while self.open.as_ref().is_none_or(|(_, rows)| self.row == *rows) {
            // The buffers of the last one make room first.
            (self.open, self.row) = (None, 0);
            let Some(batch) = messages.batches.get(self.batch) else { return Ok(None) };
            self.batch += 1;
            if batch.rows > 0 {
                let entries = self.entries(leaf, batch.dictionaries)?;
                let column = self.with_batch(batch.place, false, |layout| {
                    Column::open(layout, &messages.schema, leaf, batch.rows, entries)
                })?;
                self.open = Some((column, batch.rows));
            }
        }
        let Some((column, rows)) = &mut self.open else { return Ok(None) };
        let (first, mut out) = (self.row, Rows::default());
        while self.row < *rows && out.bytes() < PAGE_BYTES && out.levels < PAGE_LEVELS {
            match column.row(self.row, &mut out) {
                Ok(()) => self.row += 1,
                // The rows before it are a page of their own, and the next page begins with the error.
                Err(_) if self.row > first => {
                    out = Rows::default();
                    (first..self.row).try_for_each(|row| column.row(row, &mut out))?;
                    break;
                }
                Err(failed) => return Err(failed),
            }
        }
        memory::admit(out.bytes())?;
        Ok(Some(page(out, leaf)?))
    }

    /// Shows `look` the layout of a record batch, or of the values of a dictionary.
    fn with_batch<T>(
        &self,
        place: Place,
        is_dictionary: bool,
        look: impl FnOnce(&Layout<'_>) -> buffers::Result<T>,
    ) -> buffers::Result<T> {
        let metadata = flatbuffer(&self.file, place.at, place.bytes)?;
        let header = Table::root(&metadata)?.table(2)?;
        let batch = if is_dictionary { header.table(1)? } else { header };
        look(&Layout::read(&self.file, place, &batch)?)
    }

    /// The dictionary of the leaf, if it has one, as the first `known` messages tell it.
    fn entries(&mut self, leaf: &Leaf, known: usize) -> buffers::Result<Option<Arc<Entries>>> {
        let Some((_, values)) = leaf.dictionary() else { return Ok(None) };
        let messages = Arc::clone(&self.messages);
        let end = self.dictionaries.partition_point(|number| *number < known);
        let message = |place: usize| self.dictionaries.get(place).and_then(|number| messages.dictionaries.get(*number));
        // A whole dictionary replaces the one before.
        let start = (0..end).rev().find(|place| message(*place).is_some_and(|message| !message.is_delta));
        let start = start.ok_or("a dictionary that is missing")?;
        let (mut done, mut entries) = match self.entries.take() {
            Some((range, entries)) if range.start == start => (range.end, entries),
            _ => (start, Arc::default()),
        };
        while let Some(message) = message(done).filter(|_| done < end) {
            // The batch before, which shared them, is closed.
            let entries = Arc::get_mut(&mut entries).ok_or("a dictionary in use")?;
            self.with_batch(message.place, true, |layout| entries.add(layout, values))?;
            done += 1;
        }
        self.entries = Some((start..done, Arc::clone(&entries)));
        Ok(Some(entries))
    }
}

/// The rows as a page of version 2, whose pages have whole rows.
fn page(rows: Rows, leaf: &Leaf) -> buffers::Result<Page> {
    let number = |number: usize| u32::try_from(number).map_err(|_| "a page of 4 GiB or more");
    let mut buf = Vec::new();
    if leaf.is_list() {
        rows.repetitions.write(&mut buf);
    }
    let rep_levels_byte_len = number(buf.len())?;
    rows.definitions.write(&mut buf);
    let def_levels_byte_len = number(buf.len())? - rep_levels_byte_len;
    let (num_rows, num_values) = (rows.rows, number(rows.levels as usize)?);
    let num_nulls = number(rows.levels.saturating_sub(rows.values) as usize)?;
    let plain = rows.into_plain();
    memory::make_room(&mut buf, plain.len() as u64)?;
    buf.extend_from_slice(&plain);
    Ok(Page::DataPageV2 {
        buf: buf.into(),
        num_values,
        encoding: Encoding::PLAIN,
        num_nulls,
        num_rows,
        def_levels_byte_len,
        rep_levels_byte_len,
        is_compressed: false,
        statistics: None,
    })
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.next_page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.peeked = self.next_page()?;
        Ok(self.peeked.as_ref().map(|page| {
            let num_rows = if let Page::DataPageV2 { num_rows, .. } = page { Some(*num_rows as usize) } else { None };
            PageMetadata { num_rows, num_levels: Some(page.num_values() as usize), is_dict: false }
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.next_page().map(|_| ())
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(true)
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_page().transpose()
    }
}

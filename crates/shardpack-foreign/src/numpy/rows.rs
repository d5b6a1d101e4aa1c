//! Reads the rows of an array in batches, in their order.
//!
//! Memory holds one batch. An array in Fortran order is in memory as a whole.

use std::{
    io::{self, Read},
    ops::Range,
    sync::Arc,
};

use shardpack_format::{Error, Result, memory};

use super::stored::Stored;
use crate::{
    plain::write_in_c_order,
    tables::{Array, Rows},
};

/// Longest row in bytes, if there is memory for it: an image of 8192 x 8192 with 3 channels of one byte, rounded up.
const MAX_ROW_BYTES: u64 = 256 << 20;

/// The rows of an array.
pub(super) struct NumpyRows {
    array: Arc<Stored>,
    row_bytes: usize,
    /// Rows of a batch.
    step: u64,
    /// The bytes from row number `.1` on.
    reader: Option<(Box<dyn Read>, u64)>,
    /// Numbers of the rows in `held`.
    at: Range<u64>,
    held: Vec<u8>,
    /// All items of an array in Fortran order.
    whole: Option<Vec<u8>>,
}

impl NumpyRows {
    /// The rows of `array`, in batches of about `batch_bytes` bytes.
    ///
    /// # Errors
    /// If a row is longer than the limit.
    pub fn new(array: Arc<Stored>, batch_bytes: usize) -> Result<Self> {
        let rows = array.shape.first().copied().unwrap_or(0);
        let row_bytes = array.data_bytes / rows.max(1);
        let most = MAX_ROW_BYTES.min(memory::most_of_piece() / 2);
        if row_bytes > most {
            let what = format!("array {}: rows of {row_bytes} bytes, at most {most} are read", array.name);
            return Err(Error::data(what));
        }
        let step = (batch_bytes as u64 / row_bytes.max(1)).max(1);
        let row_bytes = row_bytes as usize;
        Ok(Self { array, row_bytes, step, reader: None, at: 0..0, held: Vec::new(), whole: None })
    }

    /// Reads the batch that begins with row `number`.
    fn fill(&mut self, number: u64, rows: u64) -> io::Result<()> {
        self.at = 0..0;
        let mut reader = match self.reader.take() {
            Some((reader, next)) if next == number => reader,
            _ => self.array.content.from(self.array.head_bytes + number * self.row_bytes as u64)?,
        };
        let end = number.saturating_add(self.step).min(rows);
        self.held.resize((end - number) as usize * self.row_bytes, 0);
        reader.read_exact(&mut self.held)?;
        (self.reader, self.at) = (Some((reader, end)), number..end);
        Ok(())
    }

    /// Collects row `number` of an array in Fortran order.
    fn collect(&mut self, number: u64) -> Result<()> {
        if self.whole.is_none() {
            let mut whole = Vec::new();
            let bytes = self.array.data_bytes;
            memory::make_room(&mut whole, bytes)?;
            let read = self.array.content.from(self.array.head_bytes).and_then(|mut reader| {
                whole.resize(bytes as usize, 0);
                reader.read_exact(&mut whole)
            });
            read.map_err(|error| self.failed(error))?;
            self.whole = Some(whole);
        }
        let axes: Vec<usize> = self.array.shape[1..].iter().map(|axis| *axis as usize).collect();
        let rows = self.array.shape[0] as usize;
        self.held.clear();
        let whole = self.whole.as_deref().unwrap_or_default();
        write_in_c_order(whole, self.array.item_bytes, &axes, (number as usize, rows), &mut self.held);
        self.at = number..number + 1;
        Ok(())
    }

    fn failed(&self, error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(_) => Error::io("cannot read", error),
            None => Error::data(format!("array {}: damaged: {error}", self.array.name)),
        }
    }
}

impl Rows for NumpyRows {
    fn array(&self) -> &dyn Array {
        &*self.array
    }

    fn batch_bytes(&self) -> u64 {
        self.step * self.row_bytes as u64
    }

    fn row(&mut self, number: u64) -> Result<std::result::Result<&[u8], String>> {
        let rows = self.array.shape.first().copied().unwrap_or(0);
        if number >= rows {
            return Ok(Err(format!("array {}: it has no row {number}", self.array.name)));
        }
        if !self.at.contains(&number) {
            match self.array.is_fortran {
                true => self.collect(number)?,
                false => self.fill(number, rows).map_err(|error| self.failed(error))?,
            }
        }
        let at = (number - self.at.start) as usize * self.row_bytes;
        Ok(Ok(&self.held[at..at + self.row_bytes]))
    }
}

//! Walks an MDS shard by its table of offsets, trusting nothing in the shard.
//!
//! Holds at all times: buffers for the table and for each record grow with the bytes that arrive, never with a promised length; a
//! record lies between two ascending offsets, so each step moves forward; a pickle is reported and never opened.

mod columns;
pub mod litdata;
mod numbers;
mod pixels;
mod values;

use std::{borrow::Cow, ops::Range};

use columns::{CONFIG_START, Columns};
use pixels::{AS_IT_IS, OF_PIXELS, Pixels};

use super::{
    NAME,
    layout::{WORD_BYTES, word},
};
use crate::{
    Error, Result,
    formats::foreign::{FieldSelection, Foreign, Input, Record, Skip, Walk, append, unreadable},
    image_header::SNIFF_BYTES,
    memory,
};

/// Maximum length of a config in bytes; a column takes some hundred.
const CONFIG_LIMIT_BYTES: u64 = 1 << 20;
/// Part of every config of this format.
const CONFIG_FORMAT: &[u8] = b"\"format\": \"mds\"";

/// MDS shards by any writer.
pub(super) struct Mds;

impl Foreign for Mds {
    fn is(&self, first: &[u8], _: Option<u64>, _: &str) -> bool {
        is(first) == Some(true)
    }

    fn walk(&self, input: Input, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
        Ok(Box::new(Shard::open(input, wanted)?))
    }

    fn image<'r>(&self, fetched: &'r [u8], recipe: u32, _: &FieldSelection) -> Result<Cow<'r, [u8]>> {
        made(fetched, recipe)
    }

    fn component_bytes(&self, recipe: u32) -> Option<usize> {
        values::fetched_bytes(recipe).or_else(|| numbers::number_bytes(recipe))
    }

    fn component(&self, fetched: &[u8], recipe: u32) -> Result<Vec<u8>> {
        match values::fetched_bytes(recipe) {
            Some(_) => values::content(fetched, recipe),
            None => numbers::text(fetched, recipe),
        }
    }
}

/// Makes the image from the fetched bytes, as `recipe` describes.
fn made(fetched: &[u8], recipe: u32) -> Result<Cow<'_, [u8]>> {
    match recipe {
        AS_IT_IS => Ok(Cow::Borrowed(fetched)),
        OF_PIXELS => Pixels::parse(fetched).map(|pixels| Cow::Owned(pixels.file())).map_err(Error::data),
        _ => Err(Error::usage(format!("recipe {recipe} for an image, {NAME} knows {AS_IT_IS} and {OF_PIXELS}"))),
    }
}

/// Whether a file begins like a shard: the number of samples matches the first offset, the offsets ascend, and the
/// config is valid as far as `first` reaches. `None` if `first` is too short to decide.
fn is(first: &[u8]) -> Option<bool> {
    let (words, _) = first.as_chunks::<4>();
    let mut words = words.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
    let samples = words.next()?;
    let table_end = table_end(samples);
    let start = *words.clone().peekable().peek()?;
    let config_bytes = start.checked_sub(table_end)?;
    let in_table = words.take(usize::try_from(samples).ok()?.saturating_add(1));
    if config_bytes < (CONFIG_START.len() + CONFIG_FORMAT.len()) as u64
        || config_bytes > CONFIG_LIMIT_BYTES
        || !in_table.is_sorted()
    {
        return Some(false);
    }
    let seen = first.len().min(usize::try_from(start).ok()?);
    match first.get(usize::try_from(table_end).ok()?..seen) {
        // Hundreds of ascending offsets, from the offset that matches the number of samples, are proof enough.
        None => Some(first.len() >= 4096),
        Some(config) => {
            let shown = config.len().min(CONFIG_START.len());
            let whole = config.len() as u64 == config_bytes;
            let says = || config.windows(CONFIG_FORMAT.len()).any(|window| window == CONFIG_FORMAT);
            Some(config[..shown] == CONFIG_START[..shown] && if whole { says() } else { first.len() >= 4096 })
        }
    }
}

/// End of the table of offsets, in bytes from the start of the file.
fn table_end(samples: u64) -> u64 {
    WORD_BYTES * (samples + 2)
}

/// The walk of one shard.
struct Shard {
    bytes: Box<dyn Skip>,
    total_bytes: Option<u64>,
    /// The offsets as stored, four bytes each.
    table: Vec<u8>,
    columns: Columns,
    /// Number of the next sample.
    number: usize,
    /// The bytes of the last record.
    record: Vec<u8>,
    /// Range in `record` from which its image is made, and the recipe.
    image: Option<(Range<usize>, u32)>,
    trailing: Option<u64>,
    /// Whether bytes behind the last sample belong to the format.
    may_have_tail: bool,
}

impl Shard {
    fn open(input: Input, wanted: &FieldSelection) -> Result<Self> {
        Self::with_columns(input, |config, at| Columns::parse(&config, wanted).map_err(|error| error.at_byte(at)))
    }

    /// A chunk of LitData, which has no config.
    fn of_chunk(input: Input, columns: Columns) -> Result<Self> {
        let shard = Self::with_columns(input, |config, at| match config.is_empty() {
            true => Ok(columns),
            false => Err(Error::data(format!("{} bytes before the first sample", config.len())).at_byte(at)),
        });
        shard.map(|shard| Self { may_have_tail: true, ..shard })
    }

    /// `columns` makes the columns from the config and the byte where it begins.
    fn with_columns(input: Input, columns: impl FnOnce(Vec<u8>, u64) -> Result<Columns>) -> Result<Self> {
        let Input { mut bytes, total_bytes } = input;
        let mut read = |at: u64, length: u64, what: &str| {
            let ends =
                |end| Error::data(format!("{what} of {length} bytes reaches beyond the end at {end}")).at_byte(at);
            if let Some(total) = total_bytes.filter(|total| total.saturating_sub(at) < length) {
                return Err(ends(total));
            }
            memory::admit(length).map_err(|error| error.at_byte(at))?;
            let mut out = Vec::new();
            let came = append(&mut *bytes, length, &mut out).map_err(|error| unreadable(error, at))?;
            if came == length { Ok(out) } else { Err(ends(at + came)) }
        };
        let samples = u64::from(word(&read(0, WORD_BYTES, "the number of samples")?, 0).unwrap_or(0));
        let table = read(WORD_BYTES, table_end(samples) - WORD_BYTES, "the table of offsets")?;
        let start = u64::from(word(&table, 0).unwrap_or(0));
        let config_bytes = start.checked_sub(table_end(samples)).filter(|bytes| *bytes <= CONFIG_LIMIT_BYTES);
        let Some(config_bytes) = config_bytes else {
            return Err(Error::data(format!("the first of {samples} samples at byte {start}: not an MDS shard"))
                .at_byte(WORD_BYTES));
        };
        let config = read(table_end(samples), config_bytes, "the config")?;
        let columns = columns(config, table_end(samples))?;
        let record = Vec::new();
        let may_have_tail = false;
        Ok(Self { bytes, total_bytes, table, columns, number: 0, record, image: None, trailing: None, may_have_tail })
    }

    /// Number of samples, by the table of offsets.
    fn samples(&self) -> u64 {
        (self.table.len() as u64 / WORD_BYTES).saturating_sub(1)
    }

    /// Detects bytes after the last sample; reads none beyond the known length.
    fn end(&mut self, at: u64) -> Result<()> {
        let mut one = Vec::new();
        let more = match self.total_bytes {
            _ if self.may_have_tail => false,
            Some(total) => at < total,
            None => append(&mut *self.bytes, 1, &mut one).map_err(|error| unreadable(error, at))? > 0,
        };
        self.trailing = more.then_some(at);
        Ok(())
    }
}

impl Walk for Shard {
    fn next(&mut self) -> Result<Option<Record>> {
        self.image = None;
        let offset = |number| word(&self.table, number).map(u64::from);
        let Some(start) = offset(self.number) else { return Ok(None) };
        let Some(end) = offset(self.number + 1) else {
            self.number += 1;
            self.end(start)?;
            return Ok(None);
        };
        let number = self.number;
        let Some(length) = end.checked_sub(start) else {
            let at = WORD_BYTES * (number as u64 + 2);
            return Err(Error::data(format!("sample {number} begins at {start} and ends at {end}")).at_byte(at));
        };
        let cut = |total| {
            Error::data(format!("sample {number} of {length} bytes reaches beyond the end at {total}")).at_byte(start)
        };
        if let Some(total) = self.total_bytes.filter(|total| *total < end) {
            return Err(cut(total));
        }
        self.record.clear();
        memory::admit(length).map_err(|error| error.at_byte(start))?;
        let came = append(&mut *self.bytes, length, &mut self.record).map_err(|error| unreadable(error, start))?;
        if came < length {
            return Err(cut(start + came));
        }
        self.number += 1;
        let record = self.columns.record(&self.record, start, number);
        if let Ok(image) = &record.image {
            let place = |offset: u64| usize::try_from(offset - start).ok();
            let found = place(image.fetch.start).zip(place(image.fetch.end));
            self.image = found.map(|(start, end)| (start..end, image.recipe));
        }
        Ok(Some(record))
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let found = self.image.clone().and_then(|(place, recipe)| Some((self.record.get(place)?, recipe)));
        let (fetched, recipe) = found.ok_or_else(|| Error::usage("the sample has no image that can be read"))?;
        let image = made(fetched, recipe)?;
        out.clear();
        out.extend_from_slice(&image);
        Ok(())
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match &self.image {
            Some((place, AS_IT_IS)) => {
                let image = self.record.get(place.clone()).unwrap_or_default();
                out.clear();
                out.extend(image.iter().take(SNIFF_BYTES));
            }
            _ => {
                self.image(out)?;
                out.truncate(SNIFF_BYTES);
            }
        }
        Ok(())
    }

    fn wider(&self) -> &[Option<u32>] {
        self.columns.wider()
    }

    fn lost(&mut self) -> Vec<Error> {
        let remark = |at| Error::data("bytes behind the last sample, which no reader looks at").at_byte(at);
        self.trailing.map(remark).into_iter().collect()
    }
}

//! Damaged chunks of a file whose other records are read: the walk reports them when it ends.

use std::{
    collections::BTreeMap,
    io::{BufReader, Read},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use shardpack_format::{
    Error, Result,
    formats::foreign::{FieldSelection, Foreign, Input, Record, Sequential, Walk},
    size,
};

use super::Records;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// A damaged chunk: where it begins, what is wrong, and its number of records if its header has it.
struct Chunk {
    begin: u64,
    what: String,
    records: Option<u64>,
}

/// The damaged chunks of a file; clones share them.
#[derive(Clone, Default)]
pub(super) struct Lost(Arc<Mutex<(Vec<Chunk>, Option<u64>)>>);

impl Lost {
    pub fn add(&self, begin: u64, what: String, records: Option<u64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0.push(Chunk { begin, what, records });
    }

    /// Whether the footer has as many records as were `read` and are lost. The number of the others is then known.
    pub fn are_all(&self, read: u64, in_footer: u64) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.0.iter().filter_map(|chunk| chunk.records).fold(read, u64::saturating_add);
        match all.0.iter().any(|chunk| chunk.records.is_none()) {
            true => {
                all.1 = in_footer.checked_sub(known);
                all.1.is_some()
            }
            false => known == in_footer,
        }
    }

    /// One error for each chunk, with its number of lost records: 1 if nobody knows it. The first of the chunks without a number has
    /// the number of all.
    pub fn take(&self) -> Vec<(Error, u64)> {
        let (chunks, others) = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let unknown = chunks.iter().filter(|chunk| chunk.records.is_none()).count();
        let mut of_first = others;
        let error = |Chunk { begin, what, records }: Chunk| {
            let count = match (records, others) {
                (Some(records), _) => records,
                (None, Some(_)) => of_first.take().unwrap_or(0),
                (None, None) => 1,
            };
            let lost = match (records, others) {
                (Some(records), _) => format!(": {} lost", size::counted(records, "record")),
                (None, Some(others)) if unknown == 1 => format!(": {} lost", size::counted(others, "record")),
                (None, Some(others)) => {
                    format!(": {} lost in {unknown} such chunks", size::counted(others, "record"))
                }
                (None, None) => ": its records are lost".to_owned(),
            };
            (Error::data(format!("byte {begin} of the file: {what}{lost}")), count)
        };
        chunks.into_iter().map(error).collect()
    }
}

/// A walk through the records that can be read.
struct Rest {
    walk: Box<dyn Walk>,
    lost: Lost,
    /// As [`Walk::lost_records`].
    counts: Vec<u64>,
}

/// Starts to walk the records in `file` as `foreign`, the reader of TFRecord, does.
///
/// # Errors
/// As [`Foreign::walk`].
pub(crate) fn walk(file: impl Read + 'static, foreign: &dyn Foreign, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
    let lost = Lost::default();
    let records = Records::with_lost(BufReader::with_capacity(READ_BYTES, file), lost.clone());
    let input = Input { bytes: Box::new(Sequential(records)), total_bytes: None };
    Ok(Box::new(Rest { walk: foreign.walk(input, wanted)?, lost, counts: Vec::new() }))
}

impl Walk for Rest {
    fn next(&mut self) -> Result<Option<Record>> {
        self.walk.next()
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.walk.image(out)
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.walk.first(out)
    }

    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.walk.content(out)
    }

    fn wider(&self) -> &[Option<u32>] {
        self.walk.wider()
    }

    fn understood(&self) -> Vec<String> {
        self.walk.understood()
    }

    fn remarks(&mut self) -> Vec<Error> {
        self.walk.remarks()
    }

    fn lost(&mut self) -> Vec<Error> {
        let own = self.walk.lost().into_iter().map(|error| (error, 1));
        let (errors, counts) = own.chain(self.lost.take()).unzip();
        self.counts = counts;
        errors
    }

    fn lost_records(&self) -> Vec<u64> {
        self.counts.clone()
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.walk.passed()
    }

    fn notes(&self) -> Vec<String> {
        self.walk.notes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_the_number_of_their_records() {
        let counts = |chunks: &[Option<u64>], in_footer: Option<u64>| {
            let lost = Lost::default();
            chunks.iter().for_each(|records| lost.add(0, "damaged".to_owned(), *records));
            if let Some(in_footer) = in_footer {
                lost.are_all(10, in_footer);
            }
            lost.take().into_iter().map(|(_, count)| count).collect::<Vec<_>>()
        };
        assert_eq!(counts(&[Some(4), Some(0)], Some(14)), [4, 0]);
        assert_eq!(counts(&[Some(4), None, None], Some(21)), [4, 7, 0]);
        assert_eq!(counts(&[None], Some(10)), [0]);
        assert_eq!(counts(&[None, Some(2)], None), [1, 2]);
    }
}

//! Block headers: bytes that a format has at each multiple of a fixed length of the shard, also inside records.
//!
//! A record is laid out and framed without them, then its bytes move apart to make room. So the length of a record follows from its
//! sample and its offset, and all offsets of a shard from the lengths of its records.

use std::ops::Range;

use crate::sample::Extent;

/// Where the block headers of a format are.
#[derive(Clone, Copy, Debug)]
pub struct BlockHeaders {
    /// A header begins at each multiple of this number of bytes from the start of the shard.
    pub every_bytes: u32,
    /// Length of a header in bytes, less than the distance between two.
    pub header_bytes: u32,
}

impl BlockHeaders {
    /// Length in bytes of the headers in a record at `offset` that has `plain_bytes` bytes without headers. A header directly before the
    /// record's first byte belongs to the record; a header after its last byte does not.
    pub fn added_bytes(self, offset: u64, plain_bytes: u32) -> u64 {
        let after_first = u64::from(plain_bytes).saturating_sub(self.first(offset) as u64);
        after_first.div_ceil(u64::from(self.every_bytes - self.header_bytes)) * u64::from(self.header_bytes)
    }

    /// Maximum length in bytes of a record that has `plain_bytes` bytes without headers, over all offsets.
    pub fn most_bytes(self, plain_bytes: u32) -> u64 {
        // The start of a block has the least room before the next header: none.
        u64::from(plain_bytes) + self.added_bytes(0, plain_bytes)
    }

    /// Bytes from `offset` to the next header.
    fn first(self, offset: u64) -> usize {
        let every = u64::from(self.every_bytes);
        // Less than `every_bytes`.
        ((every - offset % every) % every) as usize
    }

    /// The parts of a record of `record_bytes` at `offset` that are not headers.
    fn parts(self, offset: u64, record_bytes: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
        let (first, every, header) = (self.first(offset), self.every_bytes as usize, self.header_bytes as usize);
        let headers = record_bytes.saturating_sub(first).div_ceil(every);
        let after = (0..headers).map(move |number| {
            let start = first + number * every;
            (start + header).min(record_bytes)..(start + every).min(record_bytes)
        });
        std::iter::once(0..first.min(record_bytes)).chain(after)
    }

    /// Moves the bytes of a record, which are at the start of `record`, apart, and calls `header` for each gap, with its offset in the
    /// shard. `record` is at `offset` and has its length with headers.
    pub(super) fn spread(self, offset: u64, record: &mut [u8], mut header: impl FnMut(u64, &mut [u8])) {
        let mut plain_end = self.plain_bytes(offset, record.len());
        // From the back: each part moves over bytes that have already moved.
        for part in self.parts(offset, record.len()).rev().filter(|part| part.start > 0) {
            let plain_start = plain_end - part.len();
            record.copy_within(plain_start..plain_end, part.start);
            plain_end = plain_start;
            let at = part.start - self.header_bytes as usize;
            header(offset + at as u64, &mut record[at..part.start]);
        }
    }

    /// Length in bytes of a record of `record_bytes` at `offset` without its headers.
    pub(super) fn plain_bytes(self, offset: u64, record_bytes: usize) -> usize {
        self.parts(offset, record_bytes).map(|part| part.len()).sum()
    }

    /// The bytes of `record`, which is at `offset`, without headers.
    pub fn plain(self, offset: u64, record: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(record.len());
        self.parts(offset, record.len()).for_each(|part| out.extend_from_slice(&record[part]));
        out
    }

    /// The bytes of `extent`, whose offset counts without headers, from `record`, which is at `offset`. `None` if the record is too short.
    pub(super) fn join(self, offset: u64, extent: Extent, record: &[u8]) -> Option<Vec<u8>> {
        extent.slice(&self.plain(offset, record)).map(<[u8]>::to_vec)
    }
}

/// Lengths in bytes of consecutive records, the first at `offset`, from their lengths without block headers.
pub fn placed(
    headers: Option<BlockHeaders>,
    mut offset: u64,
    plain_bytes: impl Iterator<Item = u32>,
) -> impl Iterator<Item = u32> {
    plain_bytes.map(move |plain_bytes| {
        let bytes = match headers {
            None => plain_bytes,
            // The plan has refused records that could have more than 32 bits.
            Some(headers) => plain_bytes.saturating_add(headers.added_bytes(offset, plain_bytes) as u32),
        };
        offset += u64::from(bytes);
        bytes
    })
}

#[cfg(test)]
mod tests;

//! Writes the data of a record in the wire format of Protocol Buffers.

use super::super::layout::{TAG_FIRST, varint_bytes};

/// A cursor that fills the data of a record from its start. Bytes that do not fit are dropped, and set `is_short`.
pub(super) struct Out<'r> {
    pub rest: &'r mut [u8],
    pub is_short: bool,
}

impl Out<'_> {
    /// Skips bytes that other code fills.
    pub fn skip(&mut self, bytes: usize) {
        match std::mem::take(&mut self.rest).split_at_mut_checked(bytes) {
            Some((_, rest)) => self.rest = rest,
            None => self.is_short = true,
        }
    }

    /// Writes bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        match self.rest.get_mut(..bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.is_short = true,
        }
        self.skip(bytes.len());
    }

    /// Writes a tag and the length of the content that follows.
    pub fn tagged(&mut self, tag: u8, content_bytes: u64) {
        self.put(&[tag]);
        self.varint(content_bytes, varint_bytes(content_bytes));
    }

    /// Writes bytes as the first field of a message.
    pub fn bytes(&mut self, content: &[u8]) {
        self.tagged(TAG_FIRST, content.len() as u64);
        self.put(content);
    }

    /// Writes `number` as a varint of exactly `bytes` bytes, which must be enough.
    pub fn varint(&mut self, mut number: u64, bytes: u64) {
        for left in (0..bytes).rev() {
            let more = if left > 0 { 0x80 } else { 0 };
            self.put(&[(number & 0x7f) as u8 | more]);
            number >>= 7;
        }
    }
}

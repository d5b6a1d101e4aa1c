//! The data of a record, written as protobuf has it.

use super::super::layout::{TAG_FIRST, varint_bytes};

/// The data of a record, filled from its start; what does not fit is remembered and left out.
pub(super) struct Out<'r> {
    pub rest: &'r mut [u8],
    pub is_short: bool,
}

impl Out<'_> {
    /// Passes over so many bytes, which others fill in.
    pub fn skip(&mut self, bytes: usize) {
        match std::mem::take(&mut self.rest).split_at_mut_checked(bytes) {
            Some((_, rest)) => self.rest = rest,
            None => self.is_short = true,
        }
    }

    /// These bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        match self.rest.get_mut(..bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.is_short = true,
        }
        self.skip(bytes.len());
    }

    /// A tag, and the length of what follows.
    pub fn tagged(&mut self, tag: u8, content_bytes: u64) {
        self.put(&[tag]);
        self.varint(content_bytes, varint_bytes(content_bytes));
    }

    /// The first field of a message: these bytes.
    pub fn bytes(&mut self, content: &[u8]) {
        self.tagged(TAG_FIRST, content.len() as u64);
        self.put(content);
    }

    /// `number` as a varint of so many bytes, which are enough for it.
    pub fn varint(&mut self, mut number: u64, bytes: u64) {
        for left in (0..bytes).rev() {
            let more = if left > 0 { 0x80 } else { 0 };
            self.put(&[(number & 0x7f) as u8 | more]);
            number >>= 7;
        }
    }
}
